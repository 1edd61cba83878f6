"""Tensor contractions: einsum, its contraction path, and tensordot."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from sparrow import engines
from sparrow.core.schema import check_dtype
from sparrow.engines import EngineName
from sparrow.errors import AxisError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.elementwise import as_factor
from sparrow.functions.labels import to_labelled_tensor
from sparrow.functions.tuning import tuning
from sparrow.functions.views import as_tensor
from sparrow.plan import (
    Contraction,
    Dense,
    Scan,
    Semiring,
    align_contraction,
    as_semiring,
    axis_labels,
    normalize_axis,
    surviving_array_indices,
)
from sparrow.plan.contraction_path import Path, estimate_steps, optimal_path, surviving_indices
from sparrow.plan.estimates import Estimate, estimate_operand
from sparrow.plan.semirings import for_dtypes, product_dtype
from sparrow.relations.memory import MemoryHandle
from sparrow.tensor import Tensor
from sparrow.tensor.matching import label_operands
from sparrow.tensor.products import as_dense_contraction, as_explicit_scan, contract

__all__ = ["einsum", "einsum_path", "tensordot"]

_Optimize: TypeAlias = 'bool | Literal["auto", "greedy", "optimal"] | Sequence[Any]'


@dataclass(frozen=True, slots=True)
class _Subscripts:
    """Indices of the axes of each operand of an einsum, and of the result."""

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]


def einsum(
    subscripts: Any,
    *operands: Any,
    semiring: str | Semiring = "plus_times",
    mask: Any = None,
    complement: bool = False,
    optimize: _Optimize = "auto",
    engine: EngineName = "auto",
    dtype: DTypeLike | None = None,
) -> Any:
    """Evaluate an Einstein summation over tensors and arrays.

    Parameters
    ----------
    subscripts
        One letter per axis of each operand, and after "->" those of the result, as in "ij,jk->ik". A letter that
        repeats within an operand selects its diagonal; "..." stands for axes that broadcast. Without "->" the result
        has the letters that occur once, sorted.
    *operands
        Tensors or arrays, at least one a tensor. Instead of subscripts, operands and lists of axis numbers may
        alternate, as in ``numpy.einsum``.
    semiring
        See :func:`sparrow.matmul`.
    mask, complement
        See :func:`sparrow.matmul`: elements of the result to compute.
    optimize
        Contraction path: "auto" or True for the path of the lowest estimated cost ("optimal" for few operands,
        otherwise "greedy"), False for left to right, or a path of :func:`einsum_path`. One tensor and several arrays
        run in a single pass over the stored elements unless pairwise steps are far cheaper. Under "min_plus" and
        "max_plus" sums of integers that wrap around depend on the path.
    engine
        See :func:`sparrow.matmul`.
    dtype
        Dtype that operands are cast to first; NumPy's result type by default.

    Returns
    -------
    Tensor, ndarray or scalar
        A lazy tensor; a scalar without result letters; an array if an array operand is contracted.

    Raises
    ------
    InvalidValueError
        If the subscripts are malformed, a letter of the result is missing from the operands, or a path in ``optimize``
        is invalid, or changes the result under a semiring that distinguishes its operands.
    ShapeError
        If the number of dimensions of an operand differs from its letters, or sizes along a letter differ.
    UnsupportedError
        If no operand is a tensor, or a fill value is not 0 under "plus_times".
    LabelError
        If label types along a letter do not compare, labels that differ repeat, or an operand without labels meets
        several that differ.
    TooLargeError
        If a result that is an array exceeds the memory limit.

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
    terms, given = _parse_subscripts(*_normalize_operands(subscripts, operands))
    if dtype is not None:
        wanted = check_dtype(dtype)
        given = [each if each.dtype == wanted else each.astype(wanted) for each in given]
    chosen = for_dtypes(chosen, [each.dtype for each in given])
    if not any(isinstance(each, Tensor) for each in given):
        raise UnsupportedError("einsum requires at least one tensor: use NumPy for dense arrays")
    options: dict[str, Any] = {"mask": mask, "complement": complement, "engine": engine}
    _check_optimize(optimize)
    if len(given) == 1:
        return _contract_one(terms, given[0], chosen, options)
    left = list(zip(range(len(given)), terms.inputs, given, strict=True))
    common = np.result_type(*(each.dtype for each in given)) if chosen.mixes else None
    if _is_reorderable(given, chosen, optimize):
        cast = [_promote(each, each, common)[0] for each in given]
        return contract(cast, *_number_letters(terms), semiring=chosen, **options)
    single_pass = _as_single_pass(terms, given) if chosen.plain and mask is None else None
    path = _choose_path(terms, given, chosen, optimize, single_pass)
    if single_pass is not None and path == [tuple(range(len(given)))]:
        return engines.evaluate_dense(single_pass, engine)
    arrays = {k for k, each in enumerate(given) if not isinstance(each, Tensor)}
    for step in path:
        pair = sorted((left[k] for k in step), key=itemgetter(0))  # in the given order, which "first" depends on
        left = [each for k, each in enumerate(left) if k not in step]
        for (at, own, a), (beside, other, b) in [pair] if len(pair) == 2 else []:
            last = not left
            out = surviving_indices(own, other, [letters for _, letters, _ in left], terms.output, chosen)
            a, b = _promote(a, b, common)
            summed = {*own, *other} > set(out)
            array = {at, beside} <= arrays or (summed and bool(arrays & {at, beside}))
            arrays = arrays - {at, beside} | ({at} if array else set())
            absent = not last and not out and not array  # a scalar would be stored even if no product contributes
            result: dict[str, Any] = {"result": "tensor"} if absent else {}
            if not chosen.plain:
                result = {"result": "array" if last and array else "any" if last else "tensor"}
            used, more = chosen, result | (options if last else {})
            if not (last or chosen.reorderable or chosen.plain):  # keep all indices, and explicit fill
                used, more = Semiring("any", chosen.multiply, None, str(chosen)), more | {"keep_fill": True}
            left.append((at, out, _contract_pair((own, a), (other, b), out, used, more)))
    return left[0][2]


def _promote(first: Any, second: Any, common: np.dtype[Any] | None) -> tuple[Any, Any]:
    """Cast an operand so that a step has the common dtype of all operands."""
    if common is None or np.result_type(first.dtype, second.dtype) == common:
        return first, second
    if isinstance(first, Tensor) and not isinstance(second, Tensor):
        return first, second.astype(common)
    return first.astype(common), second


def _contract_pair(first: Any, second: Any, out: tuple[str, ...], semiring: Semiring, options: dict[str, Any]) -> Any:
    """Return the contraction of two operands."""
    (one, a), (other, b) = first, second
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        if semiring.plain and options.get("mask") is None:
            text = _format_subscripts([one, other], out)
            if not text.isascii():
                raise UnsupportedError(
                    f"einsum: a product of two arrays supports {len(_LETTERS)} axes: convert one to a tensor"
                )
            return np.einsum(text, a, b)
        a, b = (_explicit_tensor(a), b) if np.size(a) <= np.size(b) else (a, _explicit_tensor(b))
    return contract((a, b), *_number_letters(_Subscripts((one, other), out)), semiring=semiring, **options)


def _is_reorderable(given: Sequence[Any], semiring: Semiring, optimize: Any) -> bool:
    """Return whether an engine may order the products of an einsum.

    Of several dtypes, those of intermediate results would depend on the order.
    """
    if len(given) < 3 or not semiring.reorderable or optimize is False or not isinstance(optimize, bool | str):
        return False
    if not all(isinstance(each, Tensor) for each in given):
        return False
    dtypes = {each.dtype for each in given}
    return semiring.mixes or dtypes == {product_dtype(semiring, given[0].dtype, given[0].dtype)}


def _number_letters(terms: _Subscripts) -> tuple[list[list[int]], list[int]]:
    """Return letters as numbers, in order of first appearance."""
    number = {letter: k for k, letter in enumerate(dict.fromkeys(letter for own in terms.inputs for letter in own))}
    return [[number[letter] for letter in own] for own in terms.inputs], [number[letter] for letter in terms.output]


def _explicit_tensor(array: Any) -> Tensor:
    """Return an array as a tensor that stores every element, 0 included."""
    relation: Any = as_explicit_scan(np.asarray(array)).relation
    return Tensor(MemoryHandle(relation))


def _as_single_pass(terms: _Subscripts, given: Sequence[Any]) -> Contraction | None:
    """Return an einsum of one tensor and several arrays as one node, or None."""
    return as_dense_contraction(given, *_number_letters(terms)) if len(given) > 2 else None


def _contract_one(terms: _Subscripts, tensor: Any, semiring: Semiring, options: dict[str, Any]) -> Any:
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
        raise UnsupportedError(
            f"einsum: fill value must be 0, got {tensor.fill_value}: use A.sum(axis=...), which counts absent elements"
        )
    return _contract_pair(
        (own, tensor), ((), np.ones((), tensor.dtype)), terms.output, alone, options | {"stype": "coo"}
    )


def einsum_path(
    subscripts: Any, *operands: Any, semiring: str | Semiring = "plus_times", optimize: _Optimize = "auto"
) -> tuple[list[Any], str]:
    """Return the contraction path of :func:`einsum` and its cost estimates.

    Parameters
    ----------
    subscripts, *operands, semiring, optimize
        See :func:`einsum`.

    Returns
    -------
    path : list
        "einsum_path", then for each step the positions of its operands among those left; a result is appended.
    description : str
        The steps with estimated multiplications and stored elements.

    Raises
    ------
    InvalidValueError, ShapeError
        See :func:`einsum`.

    Examples
    --------
    >>> import sparrow as sp
    >>> A, v = sp.random((1000, 1000), nnz=5000, seed=0), sp.random((1000, 5), nnz=20, seed=1)
    >>> sp.einsum_path("ij,jk,kl->il", A, A, v)[0]
    ['einsum_path', (1, 2), (0, 1)]
    """
    terms, given = _parse_subscripts(*_normalize_operands(subscripts, operands))
    chosen = for_dtypes(as_semiring(semiring), [each.dtype for each in given])
    single_pass = _as_single_pass(terms, given) if chosen.plain else None
    path = _choose_path(terms, given, chosen, optimize, single_pass)
    text = _format_subscripts(terms.inputs, terms.output)
    lines = [f"{text}, {chosen}"]
    if single_pass is not None and path == [tuple(range(len(given)))]:
        cost = _estimate_single_pass(single_pass)
        lines.append(f"  {text}: {cost:.3g} products, {single_pass.schema.size:.3g} elements")
    else:
        estimates = [_estimate(own, each) for own, each in zip(terms.inputs, given, strict=True)]
        for step in estimate_steps(path, estimates, terms.output, chosen):
            sides = _format_subscripts(step.operands, step.result.indices)
            lines.append(f"  {sides}: {step.flops:.3g} products, {step.result.nnz:.3g} elements")
    return ["einsum_path", *path], "\n".join(lines)


def tensordot(
    x1: Tensor | ArrayLike,
    x2: Tensor | ArrayLike,
    /,
    axes: int | tuple[int | str | Sequence[int | str], int | str | Sequence[int | str]] = 2,
) -> Any:
    """Contract axes of two operands; the remaining axes of the first one come first.

    Parameters
    ----------
    x1, x2
        Tensors of fill value 0, or arrays.
    axes
        Number of last axes of the first operand to contract with as many first axes of the second; or the axes of both,
        by number or name.

    Returns
    -------
    Tensor, ndarray or scalar
        A lazy tensor for two tensors, an array with an array, a scalar without remaining axes.

    Raises
    ------
    ShapeError
        If there are no such axes, or their sizes differ.
    UnsupportedError
        If a fill value is not 0.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [3, 0]])
    >>> sp.tensordot(A, A, axes=1).to_numpy(), sp.tensordot(A, A)
    (array([[6, 0],
           [0, 6]]), np.int64(13))
    """
    x1, x2 = label_operands((x1, x2))
    one, other = as_factor(x1, "tensordot: x1"), as_factor(x2, "tensordot: x2")
    if isinstance(axes, int | np.integer):
        if not 0 <= axes <= min(one.ndim, other.ndim):
            raise ShapeError(
                f"tensordot: axes={axes} of operands of the shapes {one.shape} and {other.shape} must be the number of "
                f"axes to contract, 0 to {min(one.ndim, other.ndim)}"
            )
        pairs = [(one.ndim - int(axes) + k, k) for k in range(int(axes))]
    else:
        try:
            sides = [[each] if isinstance(each, int | np.integer | str) else list(each) for each in axes]
        except TypeError:
            sides = []
        if len(sides) != 2 or len(sides[0]) != len(sides[1]):
            raise ShapeError(f"tensordot: axes={axes!r} must be a number, or as many axes of both operands")
        pairs = list(zip(*map(_resolve_axes, ("first", "second"), (one, other), sides), strict=True))
        if any(len(set(side)) < len(side) for side in zip(*pairs, strict=True)):
            raise ShapeError(f"tensordot: axes={axes!r} must not repeat an axis")
    if not isinstance(one, Tensor) and not isinstance(other, Tensor):
        return as_tensor(np.tensordot(one, other, axes))  # type: ignore[arg-type]
    own, across = list(range(one.ndim)), list(range(one.ndim, one.ndim + other.ndim))
    for a, b in pairs:
        across[b] = own[a]
    contracted = {own[a] for a, _ in pairs}
    out = [index for index in (*own, *across) if index not in contracted]
    return contract((one, other), (own, across), out, semiring=as_semiring("plus_times"))


def _resolve_axes(which: str, operand: Any, axes: Sequence[int | str]) -> list[int]:
    """Return axes of an operand of tensordot, counted from the front."""
    dims = operand.dims if isinstance(operand, Tensor) else ()
    try:
        return [normalize_axis(axis, operand.ndim, dims) for axis in axes]
    except AxisError as error:
        raise AxisError(f"tensordot: the {which} operand has shape {operand.shape}: {error}") from None


# -- subscripts ----------------------------------------------------------------------------------


def _normalize_operands(subscripts: Any, operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return subscripts and operands, also of interleaved axis numbers."""
    if isinstance(subscripts, str):
        return subscripts, _factors(operands)
    interleaved = [subscripts, *operands]
    last = interleaved.pop() if len(interleaved) % 2 else None
    text = ",".join(map(_to_letters, interleaved[1::2])) + ("" if last is None else f"->{_to_letters(last)}")
    return text, _factors(interleaved[::2])


def _factors(operands: Sequence[Any]) -> list[Any]:
    return [as_factor(each, f"einsum: operand {k}") for k, each in enumerate(label_operands(operands), 1)]


def _to_letters(numbers: Any) -> str:
    """Return a list of axis numbers as letters, in the order of the numbers."""
    known = _LETTERS[26:] + _LETTERS[:26]
    if not isinstance(numbers, list | tuple) or not all(
        each is ... or (isinstance(each, int | np.integer) and 0 <= each < len(known)) for each in numbers
    ):
        given = f"a tensor of shape {numbers.shape}" if isinstance(numbers, Tensor) else repr(numbers)
        raise InvalidValueError(
            f"einsum: {given} must be subscripts such as 'ij,jk->ik', or numbers below 52 after an operand"
        )
    return "".join("..." if each is ... else known[each] for each in numbers)


def _parse_subscripts(subscripts: str, given: list[Any]) -> tuple[_Subscripts, list[Any]]:
    """Return the indices, and the operands without broadcast axes of length 1."""
    text = "".join(subscripts.split())
    before, arrow, after = text.partition("->")
    parts = before.split(",")
    invalid = set(text.replace("->", "").replace("...", "").replace(",", "")) - set(_LETTERS)
    if invalid or "," in after or text.count("->") > 1 or any(part.count("...") > 1 for part in (*parts, after)):
        raise InvalidValueError(
            f"einsum: subscripts must consist of letters, '...', ',' and one '->', got {subscripts!r}"
        )
    if len(parts) != len(given):
        raise InvalidValueError(f"einsum: {subscripts!r} is for {len(parts)} operands, got {len(given)}")
    max_broadcast = 0
    for number, (part, each) in enumerate(zip(parts, given, strict=True), 1):
        named = len(part.replace("...", ""))
        if named > each.ndim or (named < each.ndim and "..." not in part):
            raise ShapeError(f"einsum: operand {number} of shape {each.shape} does not match its letters {part!r}")
        max_broadcast = max(max_broadcast, each.ndim - named)
    dots = [f".{k}" for k in range(max_broadcast)]
    inputs = []
    for part, each in zip(parts, given, strict=True):
        head, _, tail = part.partition("...")
        extra = each.ndim - len(head) - len(tail) if "..." in part else 0
        inputs.append((*head, *dots[max_broadcast - extra :], *tail))
    given = _align_labels(inputs, given, dots)
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
    squeezed = []
    for k, (own, each) in enumerate(zip(inputs, given, strict=True)):
        dropped = [letter in dots and size != sizes[letter] for letter, size in zip(own, each.shape, strict=True)]
        squeezed.append(each[(*(0 if drop else slice(None) for drop in dropped), ...)] if any(dropped) else each)
        inputs[k] = tuple(letter for letter, drop in zip(own, dropped, strict=True) if not drop)
    if arrow:
        head, _, tail = after.partition("...")
        output = (*head, *(dots if "..." in after else ()), *tail)
        missing = [letter for letter in output if letter not in sizes]
        if missing:
            raise InvalidValueError(
                f"einsum: letter {missing[0]!r} of the result is missing from the operands in {subscripts!r}"
            )
        if len(set(output)) < len(output):
            raise InvalidValueError(f"einsum: the result of {subscripts!r} must not repeat a letter")
    else:
        once = sorted(letter for letter in set(before) - set(".,") if before.count(letter) == 1)
        output = (*dots, *once)
    return _Subscripts(tuple(inputs), output), squeezed


def _align_labels(inputs: Sequence[Sequence[str]], given: list[Any], dots: Sequence[str]) -> list[Any]:
    """Align operands by label along axes of one letter.

    Axes that "..." broadcasts are not aligned.
    """
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


def _format_subscripts(inputs: Sequence[Sequence[str]], output: Sequence[str]) -> str:
    """Return indices as subscripts, those of "..." as unused letters."""
    used = {letter for own in (*inputs, output) for letter in own}
    free = (letter for letter in itertools.chain(_LETTERS, map(chr, itertools.count(0x3B1))) if letter not in used)
    name = {letter: letter if letter in _LETTERS else next(free) for letter in sorted(used)}
    *sides, last = ("".join(map(name.__getitem__, own)) for own in (*inputs, output))
    return f"{','.join(sides)}->{last}"


# -- contraction path ----------------------------------------------------------------------------


def _estimate(letters: tuple[str, ...], each: Any) -> Estimate:
    """Return the estimate of an operand. No I/O."""
    if isinstance(each, Tensor):
        return estimate_operand(letters, each.__sparrow_scan__())
    return Estimate.of(letters, float(each.size), each.shape)


def _choose_path(
    terms: _Subscripts, given: Sequence[Any], semiring: Semiring, optimize: Any, single_pass: Contraction | None
) -> Path:
    """Return the path: for each step the positions of its operands among those left.

    ``single_pass`` evaluates everything in a single pass. It is chosen unless pairwise steps save most of the
    multiplications: theirs cost more each, since steps have intermediate results.
    """
    count = len(given)
    at_once: Path = [tuple(range(count))]
    in_turn: Path = [(0, 1), *((0, left - 1) for left in range(count - 1, 1, -1))] if count > 1 else at_once
    if isinstance(optimize, list | tuple):
        steps = _check_path([step for step in optimize if not isinstance(step, str)], count)
        if single_pass is not None and steps == at_once:
            return at_once
        found = _to_pairwise(steps)
        if not _preserves_result(found, in_turn, semiring):
            raise InvalidValueError(
                f"einsum: optimize={optimize!r} would change the result: products of {semiring} run from left to "
                "right, optimize=False"
            )
        return found
    _check_optimize(optimize)
    if count == 1:
        return [(0,)]
    if optimize is False or not semiring.reorderable or (count == 2 and single_pass is None):
        return in_turn
    estimates = [_estimate(own, each) for own, each in zip(terms.inputs, given, strict=True)]
    path = optimal_path(estimates, terms.output, semiring, exhaustive=optimize != "greedy")
    if single_pass is not None:
        pairwise_cost = sum(step.flops for step in estimate_steps(path, estimates, terms.output, semiring))
        if _estimate_single_pass(single_pass) <= tuning().einsum_single_pass_cost_ratio * pairwise_cost:
            return at_once
    return path


def _check_optimize(given: Any) -> None:
    known = isinstance(given, bool | str) and given in (True, False, "auto", "greedy", "optimal")
    if not known and not isinstance(given, list | tuple):
        raise InvalidValueError(
            f"einsum: optimize must be 'auto', 'greedy', 'optimal', True, False or a path of einsum_path, got {given!r}"
        )


def _estimate_single_pass(single_pass: Contraction) -> float:
    """Return the estimated multiplications of one tensor and arrays in a single pass."""
    pairs = list(zip(single_pass.operands, single_pass.indices, strict=True))
    scan, letters_of_scan = next((each, own) for each, own in pairs if isinstance(each, Scan))
    own = set(letters_of_scan)
    wide = [letters for letters in surviving_array_indices(single_pass) if not set(letters) <= own]
    left = set().union(*wide) - own
    further = {letter: n for each, letters in pairs if isinstance(each, Dense)
               for letter, n in zip(letters, each.array.shape, strict=True) if letter in left}  # fmt: skip
    width: int = math.prod(further.values())
    return estimate_operand(letters_of_scan, scan).nnz * max(len(wide), 1) * width


def _check_path(path: list[Any], count: int) -> Path:
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
                f"einsum: optimize={path!r} is not a path of {count} operands: a step lists the positions of its "
                "operands among those left, and its result is appended"
            )
        left -= len(step) - 1
    if left != 1:
        raise InvalidValueError(f"einsum: optimize={path!r} must leave 1 operand, but leaves {left}")
    return [tuple(sorted(map(int, step))) for step in path]


def _preserves_result(path: Path, in_turn: Path, semiring: Semiring) -> bool:
    """Return whether pairwise steps give the result of those from left to right."""
    if callable(semiring.multiply) and not semiring.reorderable:
        return path == in_turn
    if semiring.multiply not in ("first", "second"):
        return True
    left = [(k, k) for k in range(len(in_turn) + 1)]
    for step in path:
        (low, mine), (next_one, high) = sorted(left[k] for k in step)
        if mine + 1 != next_one:
            return False  # an operand in between would change sides
        left = [*(each for k, each in enumerate(left) if k not in step), (low, high)]
    return True


def _to_pairwise(path: Path) -> Path:
    """Return a path whose longer steps are split into pairs."""
    found: Path = []
    left = sum(len(step) - 1 for step in path) + 1
    for step in path:
        first, *others = sorted(step)
        found.append((first, *others[:1]))
        found.extend((k - done, left - done) for done, k in enumerate(others[1:], 2))
        left -= len(step) - 1
    return found
