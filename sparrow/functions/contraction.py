"""Sums of products by the letters of axes: einsum, its order of steps, and products that are einsums of two."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from sparrow import engines
from sparrow.core.schema import check_dtype
from sparrow.errors import AxisError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.elementwise import as_factor
from sparrow.functions.labels import to_labelled_tensor
from sparrow.functions.views import as_tensor
from sparrow.plan import DenseContraction, Semiring, align_contraction, as_semiring, axis_labels, normalize_axis
from sparrow.plan.contraction_path import Path, optimal_path, surviving_indices
from sparrow.plan.estimates import Estimate, estimate_operand
from sparrow.plan.semirings import for_dtypes
from sparrow.relations.base import MemoryHandle
from sparrow.tensor import Tensor
from sparrow.tensor.products import Engine, as_dense_contraction, as_explicit_scan, contract

__all__ = ["einsum", "einsum_path", "tensordot"]

_Optimize: TypeAlias = 'bool | Literal["auto", "greedy", "optimal"] | Sequence[Any]'


@dataclass(frozen=True, slots=True)
class _Terms:
    """The letters of an einsum."""

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]


def einsum(
    subscripts: Any,
    *operands: Any,
    semiring: str | Semiring = "plus_times",
    mask: Any = None,
    complement: bool = False,
    optimize: _Optimize = "auto",
    engine: Engine = "auto",
    dtype: DTypeLike | None = None,
) -> Any:
    """Return sums of products of cells whose axes have letters in common, as ``numpy.einsum`` does.

    Parameters
    ----------
    subscripts
        A letter for each axis of each operand, and after "->" those of the result, as in "ij,jk->ik". A letter that
        comes twice in an operand means its diagonal; "..." stands for axes that broadcast. Without "->" the result has
        the letters that come once, sorted.
    *operands
        Tensors, arrays and numbers, at least one of them a tensor; of fill 0 unless there is another semiring. Instead
        of subscripts each may be followed by a list of numbers for its axes, those of the result last, as
        ``numpy.einsum`` takes them.
    semiring, mask, complement
        As in :func:`sparrow.matmul`.
    optimize
        The order of steps of two operands: "auto" finds the one with the fewest estimated products, and of operands of
        one type looks again when it runs: once their entries are counted, and after each step by what came out. False
        goes from left to right, and a list is that of :func:`einsum_path`, or of NumPy's. One tensor and several arrays
        are multiplied in one pass over the entries where steps of two spare little. Under "min_plus" and "max_plus"
        sums of integers that wrap around depend on the order.
    engine
        As in :func:`sparrow.matmul`.
    dtype
        The type that operands are cast to first; what NumPy makes of their types by default.

    Returns
    -------
    Tensor, ndarray or scalar
        A lazy tensor; a number without letters; an array where an operand is one and a letter is summed with it.

    Raises
    ------
    InvalidValueError
        If the subscripts are not understood, a letter of the result is of no operand, or an order in ``optimize`` is
        none, or gives something else under a semiring that tells its operands apart.
    ShapeError
        If operands have other numbers of dimensions than letters, or sizes along a letter differ.
    UnsupportedError
        If no operand is a tensor, or the fill of one is not 0 under "plus_times".
    LabelError
        If labels along a letter are of types that do not fit, repeat where they differ, or an operand without any
        meets several that do.
    TooLargeError
        If a result that is an array passes the memory limit.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray(np.array([[0, 2, 0], [3, 0, 1], [0, 0, 4]]))
    >>> sp.einsum("ij,kj->ik", A, A).to_numpy()
    array([[ 4,  0,  0],
           [ 0, 10,  4],
           [ 0,  4, 16]])
    >>> sp.einsum("ij,jk,ki->", A, A, A), sp.einsum("ii->i", A).to_numpy()
    (np.int64(64), array([0, 0, 4]))
    """
    chosen = as_semiring(semiring)
    terms, given = _parsed(*_separate(subscripts, operands))
    if dtype is not None:
        wanted = check_dtype(dtype)
        given = [each if each.dtype == wanted else each.astype(wanted) for each in given]
    chosen = for_dtypes(chosen, [each.dtype for each in given])
    if not any(isinstance(each, Tensor) for each in given):
        raise UnsupportedError("einsum needs a tensor: for dense arrays use NumPy")
    options: dict[str, Any] = {"mask": mask, "complement": complement, "engine": engine}
    _check_optimize(optimize)
    if len(given) == 1:
        return _of_one(terms, given[0], chosen, options)
    left = list(zip(range(len(given)), terms.inputs, given, strict=True))
    common = np.result_type(*(each.dtype for each in given)) if chosen.mixes else None
    free = len(given) > 2 and chosen.reorderable and isinstance(optimize, bool | str) and optimize is not False
    whole = _together(terms, given) if chosen.plain and mask is None else None
    path = _path(terms, given, chosen, optimize, whole)
    if whole is not None and path == [tuple(range(len(given)))]:
        return engines.evaluate_dense(whole, engine)
    arrays = {k for k, each in enumerate(given) if not isinstance(each, Tensor)}
    for step in path:
        taken = sorted((left[k] for k in step), key=itemgetter(0))  # "first" is the first as they are given
        left = [each for k, each in enumerate(left) if k not in step]
        for (at, own, a), (beside, other, b) in [taken] if len(taken) == 2 else []:
            last = not left
            out = surviving_indices(own, other, [letters for _, letters, _ in left], terms.output, chosen)
            a, b = _alike(a, b, common)
            summed = {*own, *other} > set(out)
            array = {at, beside} <= arrays or (summed and bool(arrays & {at, beside}))
            arrays = arrays - {at, beside} | ({at} if array else set())
            absent = not last and not out and not array  # a number would be a cell where no two cells have met
            result: dict[str, Any] = {"result": "tensor"} if absent else {}
            if not chosen.plain:
                result = {"result": "array" if last and array else "any" if last else "tensor"}
            used, more = chosen, result | (options if last else {})
            if not (
                last or chosen.reorderable or chosen.plain
            ):  # nothing is added up, nor does what adding leaves annihilate
                used, more = Semiring("any", chosen.multiply, None, str(chosen)), more | {"keeps": True}
            left.append((at, out, _step((own, a), (other, b), out, used, free, more)))
    return left[0][2]


def _alike(first: Any, second: Any, common: np.dtype[Any] | None) -> tuple[Any, Any]:
    """Return the operands of a step, one cast to the type of all operands where the step would have another one."""
    if common is None or np.result_type(first.dtype, second.dtype) == common:
        return first, second
    if isinstance(first, Tensor) and not isinstance(second, Tensor):
        return first, second.astype(common)
    return first.astype(common), second


def _step(
    first: Any, second: Any, out: tuple[str, ...], semiring: Semiring, free: bool, options: dict[str, Any]
) -> Any:
    """Return the product of two operands; ``free`` says whether it may be put in another order with others."""
    (one, a), (other, b) = first, second
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        if semiring.plain and options.get("mask") is None:
            text = _written([one, other], out)
            if not text.isascii():
                raise UnsupportedError(f"einsum: two arrays with more than {len(_LETTERS)} axes: make a tensor of one")
            return np.einsum(text, a, b)
        a, b = (_with_all_cells(a), b) if np.size(a) <= np.size(b) else (a, _with_all_cells(b))
    number = {letter: k for k, letter in enumerate(dict.fromkeys((*one, *other)))}
    letters = [number[letter] for letter in one], [number[letter] for letter in other]
    return contract((a, b), letters, [number[letter] for letter in out], semiring=semiring, free=free, **options)


def _with_all_cells(array: Any) -> Tensor:
    """Return an array as a tensor in which each cell is an entry, 0 too."""
    relation: Any = as_explicit_scan(np.asarray(array)).relation
    return Tensor(MemoryHandle(relation))


def _together(terms: _Terms, given: Sequence[Any]) -> DenseContraction | None:
    """Return an einsum of one tensor and several arrays as one step, None where it is none."""
    number = {letter: k for k, letter in enumerate(dict.fromkeys(letter for own in terms.inputs for letter in own))}
    letters = [[number[letter] for letter in own] for own in terms.inputs]
    return as_dense_contraction(given, letters, [number[letter] for letter in terms.output]) if len(given) > 2 else None


def _of_one(terms: _Terms, tensor: Any, semiring: Semiring, options: dict[str, Any]) -> Any:
    """Return sums and diagonals of one tensor."""
    (own,) = terms.inputs
    moved = set(own) == set(terms.output) and len(own) == len(terms.output)
    if moved and semiring.plain and options["mask"] is None and not options["complement"]:
        found = tensor.transpose([own.index(letter) for letter in terms.output])
        if not found.ndim:
            scan = found.__sparrow_scan__()
            return engines.evaluate_element(scan.source, scan.view, options["engine"])
        return found if options["engine"] == "auto" else found.compute(options["engine"])
    alone = Semiring(semiring.add, "first", semiring.identity, str(semiring), semiring.associative)
    if semiring.plain and not tensor.__sparrow_scan__().schema.has_zero_fill:
        raise UnsupportedError(f"einsum: absent cells are {tensor.fill_value}: reductions count them, A.sum(axis=...)")
    return _step((own, tensor), ((), np.ones((), tensor.dtype)), terms.output, alone, False, options | {"stype": "coo"})


def einsum_path(
    subscripts: Any, *operands: Any, semiring: str | Semiring = "plus_times", optimize: _Optimize = "auto"
) -> tuple[list[Any], str]:
    """Return the order of steps in which :func:`einsum` multiplies, as ``numpy.einsum_path`` does, and its estimates.

    Parameters
    ----------
    subscripts, *operands, semiring, optimize
        As in :func:`einsum`.

    Returns
    -------
    path : list
        "einsum_path" and for each step the positions of its operands among those that are left; a result comes last.
    description : str
        The steps with the numbers of products and of entries that are expected.

    Raises
    ------
    InvalidValueError, ShapeError
        As :func:`einsum`.

    Examples
    --------
    >>> import sparrow as sp
    >>> A, v = sp.random((1000, 1000), nnz=5000, seed=0), sp.random((1000, 5), nnz=20, seed=1)
    >>> sp.einsum_path("ij,jk,kl->il", A, A, v)[0]
    ['einsum_path', (1, 2), (0, 1)]
    """
    terms, given = _parsed(*_separate(subscripts, operands))
    chosen = for_dtypes(as_semiring(semiring), [each.dtype for each in given])
    whole = _together(terms, given) if chosen.plain else None
    path = _path(terms, given, chosen, optimize, whole)
    text = _written(terms.inputs, terms.output)
    lines = [f"{text}, {chosen}"]
    if whole is not None and path == [tuple(range(len(given)))]:
        lines.append(f"  {text}: {_products(whole):.3g} products, {whole.schema.size:.3g} cells")
    else:
        estimates = [_expected(own, each) for own, each in zip(terms.inputs, given, strict=True)]
        for sides, cost, found in _steps(path, estimates, terms, chosen):
            lines.append(f"  {sides}: {cost:.3g} products, {found.nnz:.3g} entries")
    return ["einsum_path", *path], "\n".join(lines)


def tensordot(
    x1: Tensor | ArrayLike,
    x2: Tensor | ArrayLike,
    /,
    axes: int | tuple[int | str | Sequence[int | str], int | str | Sequence[int | str]] = 2,
) -> Any:
    """Return sums of products over axes of two operands, the axes that are left of the first one first.

    Parameters
    ----------
    x1, x2
        Tensors of fill 0, or arrays.
    axes
        How many last axes of the first are matched with as many first axes of the second; or the axes of both, by
        number or the name of a dimension.

    Returns
    -------
    Tensor, ndarray or scalar
        A lazy tensor of two tensors, an array with an array, a number without axes.

    Raises
    ------
    ShapeError
        If there are no such axes, or their sizes differ.
    UnsupportedError
        If the fill of one is not 0.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [3, 0]])
    >>> sp.tensordot(A, A, axes=1).to_numpy(), sp.tensordot(A, A)
    (array([[6, 0],
           [0, 6]]), np.int64(13))
    """
    one, other = as_factor(x1, "tensordot: x1"), as_factor(x2, "tensordot: x2")
    if isinstance(axes, int | np.integer):
        if not 0 <= axes <= min(one.ndim, other.ndim):
            raise ShapeError(
                f"tensordot: axes={axes} of operands of the shapes {one.shape} and {other.shape}: give how many last "
                f"axes of one meet the first ones of the other, 0 to {min(one.ndim, other.ndim)}"
            )
        pairs = [(one.ndim - int(axes) + k, k) for k in range(int(axes))]
    else:
        try:
            sides = [[each] if isinstance(each, int | np.integer | str) else list(each) for each in axes]
        except TypeError:
            sides = []
        if len(sides) != 2 or len(sides[0]) != len(sides[1]):
            raise ShapeError(f"tensordot: axes={axes!r} must be a number, or as many axes of both operands")
        pairs = list(zip(*map(_numbered, ("first", "second"), (one, other), sides), strict=True))
        if any(len(set(side)) < len(side) for side in zip(*pairs, strict=True)):
            raise ShapeError(f"tensordot: axes={axes!r} names an axis twice")
    if not isinstance(one, Tensor) and not isinstance(other, Tensor):
        return as_tensor(np.tensordot(one, other, axes))  # type: ignore[arg-type]
    own, across = list(range(one.ndim)), list(range(one.ndim, one.ndim + other.ndim))
    for a, b in pairs:
        across[b] = own[a]
    gone = {own[a] for a, _ in pairs}
    out = [letter for letter in (*own, *across) if letter not in gone]
    return contract((one, other), (own, across), out, semiring=as_semiring("plus_times"))


def _numbered(which: str, operand: Any, axes: Sequence[int | str]) -> list[int]:
    """Return axes of an operand of tensordot, by number or name, counted from the front."""
    dims = operand.dims if isinstance(operand, Tensor) else ()
    try:
        return [normalize_axis(axis, operand.ndim, dims) for axis in axes]
    except AxisError as error:
        raise AxisError(f"tensordot: of the {which} operand, of shape {operand.shape}: {error}") from None


# -- letters -------------------------------------------------------------------------------------


def _separate(subscripts: Any, operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return subscripts and operands, of operands and lists of numbers in turn too."""
    if isinstance(subscripts, str):
        return subscripts, _factors(operands)
    turns = [subscripts, *operands]
    last = turns.pop() if len(turns) % 2 else None
    text = ",".join(map(_letters, turns[1::2])) + ("" if last is None else f"->{_letters(last)}")
    return text, _factors(turns[::2])


def _factors(operands: Sequence[Any]) -> list[Any]:
    return [as_factor(each, f"einsum: operand {number}") for number, each in enumerate(operands, 1)]


def _letters(numbers: Any) -> str:
    """Return a list of numbers of axes as letters, in the order of the numbers."""
    known = _LETTERS[26:] + _LETTERS[:26]
    if not isinstance(numbers, list | tuple) or not all(
        each is ... or (isinstance(each, int | np.integer) and 0 <= each < len(known)) for each in numbers
    ):
        raise InvalidValueError(
            f"einsum: {numbers!r} must be subscripts such as 'ij,jk->ik', or numbers below 52 after an operand"
        )
    return "".join("..." if each is ... else known[each] for each in numbers)


def _parsed(subscripts: str, given: list[Any]) -> tuple[_Terms, list[Any]]:
    """Return the letters of operands and result; axes of length 1 that "..." broadcasts are taken off the operands."""
    text = "".join(subscripts.split())
    before, arrow, after = text.partition("->")
    parts = before.split(",")
    strange = set(text.replace("->", "").replace("...", "").replace(",", "")) - set(_LETTERS)
    if strange or "," in after or text.count("->") > 1 or any(part.count("...") > 1 for part in (*parts, after)):
        raise InvalidValueError(f"einsum: {subscripts!r} is not understood: letters, '...' , ',' and one '->'")
    if len(parts) != len(given):
        raise InvalidValueError(f"einsum: {subscripts!r} is for {len(parts)} operands, got {len(given)}")
    broad = 0
    for number, (part, each) in enumerate(zip(parts, given, strict=True), 1):
        named = len(part.replace("...", ""))
        if named > each.ndim or (named < each.ndim and "..." not in part):
            raise ShapeError(f"einsum: operand {number} has shape {each.shape}, and its letters are {part!r}")
        broad = max(broad, each.ndim - named)
    dots = [f".{k}" for k in range(broad)]
    inputs = []
    for part, each in zip(parts, given, strict=True):
        head, _, tail = part.partition("...")
        extra = each.ndim - len(head) - len(tail) if "..." in part else 0
        inputs.append((*head, *dots[broad - extra :], *tail))
    given = _at_same_labels(inputs, given, dots)
    sizes: dict[str, int] = {}
    first: dict[str, str] = {}
    for number, (own, each) in enumerate(zip(inputs, given, strict=True), 1):
        for axis, (letter, size) in enumerate(zip(own, each.shape, strict=True)):
            where = f"axis {axis} of operand {number}, of shape {each.shape}"
            known = sizes.get(letter)
            if known is None or (letter in dots and known == 1):
                sizes[letter], first[letter] = int(size), where
            elif known != size and not (letter in dots and size == 1):
                what = "an axis of '...'" if letter in dots else repr(letter)
                raise ShapeError(f"einsum: {what} is {known} along {first[letter]} and {size} along {where}")
    thin = []
    for k, (own, each) in enumerate(zip(inputs, given, strict=True)):
        gone = [letter in dots and size != sizes[letter] for letter, size in zip(own, each.shape, strict=True)]
        thin.append(each[(*(0 if one else slice(None) for one in gone), ...)] if any(gone) else each)
        inputs[k] = tuple(letter for letter, one in zip(own, gone, strict=True) if not one)
    if arrow:
        head, _, tail = after.partition("...")
        output = (*head, *(dots if "..." in after else ()), *tail)
        missing = [letter for letter in output if letter not in sizes]
        if missing:
            raise InvalidValueError(f"einsum: the result's letter {missing[0]!r} is of no operand in {subscripts!r}")
        if len(set(output)) < len(output):
            raise InvalidValueError(f"einsum: the result of {subscripts!r} has a letter twice")
    else:
        once = sorted(letter for letter in set(before) - set(".,") if before.count(letter) == 1)
        output = (*dots, *once)
    return _Terms(tuple(inputs), output), thin


def _at_same_labels(inputs: Sequence[Sequence[str]], given: list[Any], dots: Sequence[str]) -> list[Any]:
    """Return operands at the same labels along axes of one letter, but for axes that "..." broadcasts."""
    scans = [each.__sparrow_scan__() if isinstance(each, Tensor) else each for each in given]
    letters: list[list[Any]] = [
        [(k, letter) if letter in dots and size == 1 else letter for letter, size in zip(own, each.shape, strict=True)]
        for k, (own, each) in enumerate(zip(inputs, given, strict=True))
    ]
    found = align_contraction(scans, letters)
    return [
        each if now is before else to_labelled_tensor(now, axis_labels(now))
        for each, before, now in zip(given, scans, found, strict=True)
    ]


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _written(inputs: Sequence[Sequence[str]], output: Sequence[str]) -> str:
    """Return letters as subscripts; those of "..." get letters of their own, where these do not suffice Greek ones."""
    used = {letter for own in (*inputs, output) for letter in own}
    free = (letter for letter in itertools.chain(_LETTERS, map(chr, itertools.count(0x3B1))) if letter not in used)
    name = {letter: letter if letter in _LETTERS else next(free) for letter in sorted(used)}
    *sides, last = ("".join(map(name.__getitem__, own)) for own in (*inputs, output))
    return f"{','.join(sides)}->{last}"


# -- the order of steps --------------------------------------------------------------------------


def _expected(letters: tuple[str, ...], each: Any) -> Estimate:
    """Return what is known of an operand without reading it."""
    if isinstance(each, Tensor):
        return estimate_operand(letters, each.__sparrow_scan__())
    return Estimate.of(letters, float(each.size), each.shape)


def _path(
    terms: _Terms, given: Sequence[Any], semiring: Semiring, optimize: Any, whole: DenseContraction | None
) -> Path:
    """Return the steps, each the positions of its operands among those left.

    ``whole`` is all of it as one step, taken unless steps of two spare three of four products: theirs take four times
    as long and more, as they have results of their own to make.
    """
    count = len(given)
    at_once: Path = [tuple(range(count))]
    in_turn: Path = [(0, 1), *((0, left - 1) for left in range(count - 1, 1, -1))] if count > 1 else at_once
    if isinstance(optimize, list | tuple):
        steps = _checked([step for step in optimize if not isinstance(step, str)], count)
        if whole is not None and steps == at_once:
            return at_once
        found = _by_twos(steps)
        if not _allowed(found, in_turn, semiring):
            raise InvalidValueError(
                f"einsum: optimize={optimize!r} changes what comes out: products of {semiring} are done from left to "
                "right, optimize=False"
            )
        return found
    _check_optimize(optimize)
    if count == 1:
        return [(0,)]
    if optimize is False or not semiring.reorderable:
        return in_turn
    estimates = [_expected(own, each) for own, each in zip(terms.inputs, given, strict=True)]
    path = optimal_path(estimates, terms.output, semiring, exhaustive=optimize != "greedy")
    if whole is not None:
        spent = sum(cost for _, cost, _ in _steps(path, estimates, terms, semiring))
        if _products(whole) <= 4 * spent:
            return at_once
    return path


def _check_optimize(given: Any) -> None:
    known = isinstance(given, bool | str) and given in (True, False, "auto", "greedy", "optimal")
    if not known and not isinstance(given, list | tuple):
        raise InvalidValueError(
            f"einsum: optimize={given!r}: use 'auto', 'greedy', 'optimal', True, False or a list of einsum_path"
        )


def _steps(
    path: Path, estimates: Sequence[Estimate], terms: _Terms, semiring: Semiring
) -> Iterator[tuple[str, float, Estimate]]:
    """Yield the subscripts of each step of two, its products, and what is expected of its result."""
    left = list(enumerate(estimates))
    for step in path:
        taken = sorted((left[k] for k in step), key=itemgetter(0))
        left = [each for k, each in enumerate(left) if k not in step]
        for (at, one), (_, other) in [taken] if len(taken) == 2 else []:
            out = surviving_indices(
                one.indices, other.indices, [each.indices for _, each in left], terms.output, semiring
            )
            cost, found = one.times(other, out)
            yield _written([one.indices, other.indices], out), cost, found
            left.append((at, found))


def _products(whole: DenseContraction) -> float:
    """Return how many products are expected of a tensor and arrays at once."""
    own = set(whole.indices)
    wide = [letters for letters in whole.surviving_array_indices if not set(letters) <= own]
    left = set().union(*wide) - own
    further = {letter: n for each, letters in zip(whole.arrays, whole.array_indices, strict=True)
               for letter, n in zip(letters, each.array.shape, strict=True) if letter in left}  # fmt: skip
    width: int = math.prod(further.values())
    return estimate_operand(whole.indices, whole.operand).nnz * max(len(wide), 1) * width


def _checked(path: list[Any], count: int) -> Path:
    left = count
    for step in path:
        numbers = isinstance(step, list | tuple) and all(isinstance(k, int | np.integer) for k in step)
        if (
            not numbers
            or len(step) < min(count, 2)
            or len(set(step)) < len(step)
            or any(not 0 <= k < left for k in step)
        ):
            raise InvalidValueError(
                f"einsum: optimize={path!r} is no path of {count} operands: a step has the positions of those it takes "
                "among the ones that are left, and its result comes last"
            )
        left -= len(step) - 1
    if left != 1:
        raise InvalidValueError(f"einsum: optimize={path!r} leaves {left} operands")
    return [tuple(sorted(map(int, step))) for step in path]


def _allowed(path: Path, in_turn: Path, semiring: Semiring) -> bool:
    """Return whether steps of two give what those from left to right do."""
    if callable(semiring.multiply) and not semiring.reorderable:
        return path == in_turn
    if semiring.multiply not in ("first", "second"):
        return True
    left = [(k, k) for k in range(len(in_turn) + 1)]
    for step in path:
        (low, mine), (next_one, high) = sorted(left[k] for k in step)
        if mine + 1 != next_one:
            return False  # an operand in between comes to stand on the other side
        left = [*(each for k, each in enumerate(left) if k not in step), (low, high)]
    return True


def _by_twos(path: Path) -> Path:
    """Return a path with steps of more than two operands done from left to right, positions ascending."""
    found: Path = []
    left = sum(len(step) - 1 for step in path) + 1
    for step in path:
        first, *others = sorted(step)
        found.append((first, *others[:1]))
        found.extend((k - done, left - done) for done, k in enumerate(others[1:], 2))
        left -= len(step) - 1
    return found
