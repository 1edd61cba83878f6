"""Alignment of tensors by dimension names and labels.

Dimensions that a person named are matched by name, those with names of a reader (``src, dst``) or default names
(``d0, d1, ...``) by position. Then labels along an axis that differ are joined, and each operand is taken at the
labels of the result: where it lacks one, its elements are the fill value. If one operand has labels and another has
none, they go by position. Equal labels cost nothing, and only labels are read.
"""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Hashable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.core.label_types import cast_exactly, unify_label_types
from sparrow.core.labels import check_found_once, first_positions
from sparrow.core.schema import Schema, is_given_name
from sparrow.errors import LabelError
from sparrow.kernels.coo import concat_blocks
from sparrow.plan.labels import AxisLabels, Labels, concat_labels
from sparrow.plan.nodes import Concat, Scan, axis_labels
from sparrow.plan.origins import find_origin
from sparrow.plan.tuning import tuning
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import settings
from sparrow.runtime.caller import warn_caller

__all__ = [
    "Join",
    "align_by_name",
    "align_contraction",
    "align_mask",
    "align_operands",
    "check_unique_labels",
    "fit_to_target",
    "match_dims",
    "positions_of_labels",
    "reindex_axis",
    "render_rename",
]

Join: TypeAlias = Literal["exact", "outer", "inner", "left"]


def align_operands(
    operands: Sequence[Any], default_join: Join, concat_axis: int | None = None
) -> tuple[list[Any], Labels]:
    """Align operands along every axis; return them and the labels of the result.

    Parameters
    ----------
    operands
        Scans; arrays and scalars, which go by position.
    default_join
        Join of labels that differ unless the setting ``join`` says otherwise: their union ("outer"), intersection
        ("inner"), those of the first ("left"), or an error ("exact").
    concat_axis
        Axis along which scans of equal ``ndim`` are concatenated. Labels there are concatenated if all have some.

    Raises
    ------
    LabelError
        If dimension names or label types do not match, labels that differ must be exact, repeat or are missing, or an
        operand without labels meets several that differ.
    """
    out = list(operands)
    at = [number for number, operand in enumerate(out) if isinstance(operand, Scan)]
    if len({out[number].schema.dims for number in at}) > 1:
        for number, scan in zip(at, match_dims([out[number] for number in at]), strict=True):
            out[number] = scan
    named = {number: found for number in at if (found := axis_labels(out[number]))}
    if not named:
        return out, {}
    sizes = [each.schema.shape if isinstance(each, Scan) else np.shape(each) for each in out]
    ndim = max(map(len, sizes))
    result: dict[int, AxisLabels] = {}
    for axis in range(ndim):
        own = {number: axis - ndim + len(size) for number, size in enumerate(sizes) if len(size) >= ndim - axis}
        found = {number: named[number][k] for number, k in own.items() if k in named.get(number, {})}
        if axis == concat_axis and len(found) == len(out):
            result[axis] = concat_labels(list(found.values()))
        if not found or axis == concat_axis:
            continue
        rest = {sizes[number][k] for number, k in own.items() if number not in found} - {1}
        names = next(iter(found.values()))
        if not all(names.equals(other) for other in found.values()):
            dim = out[next(iter(found))].schema.dims[own[next(iter(found))]]
            if rest:
                raise LabelError(
                    f"labels of dimension {dim!r} differ between two operands, and a third has no labels: label it, or "
                    "take the others at equal labels with sel()"
                )
            wanted, places = _join_labels(list(found.values()), _effective_join(default_join), dim)
            for number, taken in zip(found, places, strict=True):
                out[number] = reindex_axis(out[number], own[number], taken)
            names = AxisLabels.of(wanted)
        if names.length != 1 or not rest:
            result[axis] = names
    return out, result


def align_by_name(scans: Sequence[Scan], join: Join) -> list[tuple[Scan, Labels]]:
    """Align scans along dimensions of equal name; return them with labels.

    Dimensions without a given name go by position, counted from the last, as in operators.

    Raises
    ------
    LabelError
        As :func:`align_operands`.
    """
    out = list(scans)
    named = [dict(axis_labels(scan)) for scan in scans]
    places: list[dict[str | int, int]] = [
        {dim if is_given_name(dim) else axis - scan.schema.ndim: axis for axis, dim in enumerate(scan.schema.dims)}
        for scan in scans
    ]
    for place in dict.fromkeys(itertools.chain(*places)):
        axes = {number: own[place] for number, own in enumerate(places) if place in own}
        dim = next(scans[number].schema.dims[axis] for number, axis in axes.items())
        found = {number: names for number, axis in axes.items() if (names := named[number].get(axis)) is not None}
        lead = next(iter(found.values()), None)
        if lead is None or all(lead.equals(other) for other in found.values()):
            continue
        bare = next((number for number in axes if number not in found), None)
        if bare is not None:
            raise LabelError(
                f"labels of dimension {dim!r} differ, and the tensor of shape {scans[bare].schema.shape} has no "
                "labels: label it"
            )
        wanted, positions = _join_labels(list(found.values()), join, dim)
        for number, taken in zip(found, positions, strict=True):
            out[number] = reindex_axis(out[number], axes[number], taken)
            named[number][axes[number]] = AxisLabels.of(wanted)
    return list(zip(out, named, strict=True))


def align_contraction(operands: Sequence[Any], indices: Sequence[Sequence[int]]) -> list[Any]:
    """Align operands of a contraction, by default to the common labels.

    Parameters
    ----------
    operands
        Scans; anything else goes by position.
    indices
        The index of each axis of each operand.

    Raises
    ------
    LabelError
        If label types do not match, labels that differ must be exact, or repeat, or an operand without labels meets
        several that differ.
    """
    out = list(operands)
    named = [axis_labels(operand) if isinstance(operand, Scan) else {} for operand in out]
    if sum(map(len, named)) < 2:
        return out
    for index in dict.fromkeys(itertools.chain(*indices)):
        at = [(k, axis) for k, along in enumerate(indices) for axis, own in enumerate(along) if own == index]
        found = {(k, axis): names for k, axis in at if (names := named[k].get(axis)) is not None}
        lead = next(iter(found.values()), None)
        if lead is None or all(lead.equals(other) for other in found.values()):
            continue
        k, axis = next(iter(found))
        dim = operands[k].schema.dims[axis]
        if len(found) < len(at):
            raise LabelError(
                f"labels of dimension {dim!r} differ between operands, and another has no labels: label it, or take "
                "the others at equal labels with sel()"
            )
        dims = [operands[k].schema.dims[axis] for k, axis in found]
        common, positions = _join_labels(list(found.values()), _effective_join("inner"), dim)
        if not len(common) and all(names.length for names in found.values()):
            others = " and ".join(map(repr, dims))
            examples = " and ".join(repr(names.array()[0].as_py()) for names in found.values())
            if len({k for k, axis in found}) == 1:
                what = "dimensions along a diagonal,"
                way = "relabel one with set_labels(), or take it of to_numpy()"
            else:
                what = "contracted dimensions"
                way = "transpose an operand (A @ A.T), relabel one with set_labels(), or pass an array"
            raise LabelError(f"{what} {others} have no label in common, such as {examples}: {way}")
        if settings.current().join == "auto":
            lengths = [names.length for names in found.values()]
            for (one, size), (other, length) in itertools.combinations(zip(dims, lengths, strict=True), 2):
                _warn_of_overlap(len(common), (one, size), (other, length))
        for (k, axis), own in zip(found, positions, strict=True):
            out[k] = reindex_axis(out[k], axis, own)
    return out


def _warn_of_overlap(common: int, one: tuple[str, int], other: tuple[str, int]) -> None:
    """Warn of a product along dimensions that share only some labels.

    Where given names and sizes differ, labels that happen to be equal, such as numbers, may mean different things.

    Parameters
    ----------
    common
        Number of labels that both have.
    one, other
        Name and number of labels of each dimension.
    """
    (longer, size), (shorter, length) = sorted((one, other), key=lambda each: -each[1])
    if size == length or longer == shorter or not (is_given_name(longer) and is_given_name(shorter)):
        return
    counted = f"{common} of {size:,} labels of {longer!r} {'is' if common == 1 else 'are'} among those of {shorter!r}"
    warn_caller(
        f"{counted}, and only those are multiplied: transpose an operand (A @ A.T) if they are not the same things, or "
        "accept it with sp.config(join='inner')",
        UserWarning,
    )


def align_mask(mask: Scan, result: Scan, operands: Sequence[Scan]) -> Scan:
    """Align a mask with a result; labels that it lacks have no elements.

    Raises
    ------
    LabelError
        If dimension names or label types do not match, labels that differ must be exact, or repeat, or matching by
        name turns the mask into the transpose of an operand.
    """
    given = mask
    mask = match_dims([result, given])[1]
    if mask is not given and find_origin(given)[0] in {find_origin(side)[0] for side in operands}:
        call = render_rename(given.schema.dims, result.schema.dims)
        raise LabelError(
            f"the mask has dimensions {given.schema.dims}, which are matched by name and transpose it in a product of "
            f"dimensions {result.schema.dims}: mask.{call} goes by position"
        )
    theirs = axis_labels(result)
    for axis, mine in axis_labels(mask).items():
        wanted = theirs.get(axis)
        if wanted is not None and not wanted.equals(mine):
            join: Join = "exact" if _effective_join("left") == "exact" else "left"
            mask = reindex_axis(mask, axis, _join_labels([wanted, mine], join, result.schema.dims[axis])[1][1])
    return mask


def fit_to_target(scan: Scan, target: Scan) -> tuple[Scan, dict[int, pa.Array]]:
    """Align a scan with the target that it is written to.

    Returns
    -------
    scan
        Along labelled dimensions as long as the target, plus the labels that the target lacks.
    more
        The labels that the target lacks, by axis, in the order of the scan.
    """
    import pyarrow.compute as pc

    scan = match_dims([target, scan])[1]
    mine, theirs = axis_labels(scan), axis_labels(target)
    shift = target.schema.ndim - scan.schema.ndim
    both = {k + shift for k in mine} & set(theirs)
    together: dict[Hashable, list[int]] = {}
    for axis in sorted(both):  # dimensions of one vocabulary grow as one
        together.setdefault(theirs[axis].key, []).append(axis)
    more: dict[int, pa.Array] = {}
    for axes in together.values():
        own = [mine[axis - shift] for axis in axes]
        if all(names.equals(theirs[axes[0]]) for names in own):
            continue
        dim = target.schema.dims[axes[0]]
        old = theirs[axes[0]].array()
        if settings.current().join == "exact":
            raise _inexact_error(dim, old, next(names for names in own if not names.equals(theirs[axes[0]])).array())
        old, *new = unify_label_types([old, *(names.array() for names in own)], f"dimension {dim!r}")
        for labels in (old, *new):
            check_unique_labels(labels, dim)
        found = pc.unique(pa.concat_arrays(new))
        unknown = found.filter(first_positions(found, old).is_null())
        for axis, labels in zip(axes, new, strict=True):
            if len(unknown):
                more[axis] = _cast_to_target(unknown, theirs[axis].array().type, dim)
            scan = reindex_axis(scan, axis - shift, positions_of_labels(pa.concat_arrays([old, unknown]), labels))
    return scan, more


def _cast_to_target(labels: pa.Array, kind: pa.DataType, dim: str) -> pa.Array:
    """Return labels to add to a dimension, in the type of its labels."""
    found = cast_exactly(labels, kind)
    if found.null_count:
        lost = labels.filter(found.is_null())[0].as_py()
        raise LabelError(f"labels of dimension {dim!r} are {kind}, which cannot represent {lost!r}: cast one of them")
    return found


def render_rename(old: Sequence[str], new: Sequence[str]) -> str:
    """Return the call of ``rename`` that gives dimensions new names.

    Examples
    --------
    >>> render_rename(["a", "b"], ["b", "c"]), render_rename(["my film"], ["film"])
    ("rename(a='b', b='c')", "rename({'my film': 'film'})")
    """
    changed = {str(one): str(other) for one, other in zip(old, new, strict=True) if one != other}
    if all(name.isidentifier() and not keyword.iskeyword(name) for name in changed):
        return f"rename({', '.join(f'{one}={other!r}' for one, other in changed.items())})"
    return f"rename({changed!r})"


def match_dims(scans: Sequence[Scan], check_functions: bool = True) -> list[Scan]:
    """Permute axes by name to the order of the scan with the most dimensions.

    Parameters
    ----------
    scans
        The scans.
    check_functions
        Raise also where the transpose is that of a function of the same tensor, such as ``A.T * 1``.

    Raises
    ------
    LabelError
        If names agree in part, or a tensor, or a function of it alone, meets its own transpose.
    """
    if len(scans) < 2 or all(scan.schema.dims == scans[0].schema.dims for scan in scans[1:]):
        return list(scans)
    lead = max(scans, key=lambda scan: scan.schema.ndim).schema
    out = []
    for scan in scans:
        order = _axis_order(lead, scan.schema)
        if order is None:
            out.append(scan)
            continue
        kept = tuple(k for k in order if k is not None)
        view = scan.view.permute(kept).then(tuple(None if k is None else slice(None) for k in order))
        turned = scan.then(view)
        others = [other for other in scans if other is not scan]
        if any(other.source.token == scan.source.token and other.view == view for other in others) or (
            check_functions and find_origin(turned) in map(find_origin, others)
        ):
            raise LabelError(
                f"a tensor of dimensions {lead.dims} and its transpose {scan.schema.dims} are matched by name, which "
                f"undoes the transpose: A.T.{render_rename(scan.schema.dims, lead.dims)} goes by position"
            )
        out.append(turned)
    return out


def reindex_axis(scan: Scan, axis: int, positions: NDArray[Any]) -> Scan:
    """Return a scan at positions along an axis; -1 is a slice of the fill value."""
    size, ndim = scan.schema.shape[axis], scan.schema.ndim
    missing = positions < 0
    if missing.any():
        follows = np.where(missing[1:] | missing[:-1], missing[1:] & missing[:-1], np.diff(positions) == 1)
        bounds = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(positions)]
        if axis == 0 and len(bounds) <= tuning().max_concat_slices and not missing.all():
            return _concat_slices(scan, axis, [(int(positions[k]), stop - k) for k, stop in itertools.pairwise(bounds)])
        added = int(np.count_nonzero(missing))  # one slice each: a list that repeats one is read in small parts
        scan, positions = _concat_slices(scan, axis, [(0, size), (-1, added)]), positions.copy()
        positions[missing] = np.arange(size, size + added)
    start, stop = (int(positions[0]), int(positions[0]) + len(positions)) if len(positions) else (0, 0)
    straight = np.array_equal(positions, np.arange(start, stop))
    key: list[Any] = [slice(None)] * ndim
    key[axis] = slice(start, stop) if straight else positions.astype(np.int64)
    return scan.then(scan.view.then(tuple(key)))


def positions_of_labels(labels: pa.Array, among: pa.Array, dim: str | None = None) -> NDArray[Any]:
    """Return the position of each label among others, -1 for none.

    Those of a dimension, if one is named, must not repeat where they are found: ``LabelError``.
    """
    labels, among = unify_label_types([labels, among], "both sides")
    found = first_positions(labels, among).fill_null(-1)
    positions = np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
    if dim is not None:
        check_found_once(among, positions[positions >= 0], dim, "take each label once")
    return positions


def _concat_slices(scan: Scan, axis: int, slices: Sequence[tuple[int, int]]) -> Scan:
    """Concatenate slices along an axis, given by start (-1: fill) and length."""
    old = scan.schema

    def schema(size: int) -> Schema:
        shape = (*old.shape[:axis], size, *old.shape[axis + 1 :])
        return Schema(shape, old.dims, old.dtype, old.fill_value, old.stype if old.stype == "dense" else "coo")

    parts: list[Scan] = []
    for start, size in slices:
        if start < 0:
            nothing = MemoryRelation(schema(size), concat_blocks([], old.ndim, old.dtype))
            parts.append(Scan(nothing, View.identity(nothing.schema.shape), nothing.schema))
        else:
            parts.append(scan.then(scan.view.then((slice(None),) * axis + (slice(start, start + size),))))
    total = schema(sum(size for _, size in slices))
    labels = {k: found for k, found in axis_labels(scan).items() if k != axis}
    node = Concat(tuple(parts), axis, total).with_labels(labels)
    return Scan(node, View.identity(total.shape), total)


def _effective_join(default: Join) -> str:
    configured = settings.current().join
    return default if configured == "auto" else configured


def _join_labels(found: Sequence[AxisLabels], join: str, dim: str) -> tuple[pa.Array, list[NDArray[Any]]]:
    """Return the joined labels and their positions in each operand, -1 for none.

    A union is in ascending order, an intersection in the order of the first operand.
    """
    import pyarrow.compute as pc

    arrays = unify_label_types([names.array() for names in found], f"dimension {dim!r}")
    if join == "exact":
        other = next(array for array in arrays[1:] if not array.equals(arrays[0]))
        raise _inexact_error(dim, arrays[0], other)
    ascending = [check_unique_labels(array, dim) for array in arrays]
    whole = arrays[0]
    if join == "outer" and len(arrays) == 2 and all(ascending):
        return _union_of_sorted(*arrays)
    if join == "outer":
        import polars as pl

        both = pl.Series(pa.concat_arrays(arrays)).sort()  # several times as fast as Arrow's
        whole = both.filter((both != both.shift(1)).fill_null(True)).to_arrow().cast(whole.type)
    if join == "inner":
        for other in arrays[1:]:
            whole = whole.filter(pc.is_in(whole, value_set=other))
    return whole, [positions_of_labels(whole, array) for array in arrays]


def _union_of_sorted(first: pa.Array, second: pa.Array) -> tuple[pa.Array, list[NDArray[Any]]]:
    """Return the sorted union of sorted labels, and its positions in each."""
    import polars as pl

    same = first_positions(second, first)
    new = np.flatnonzero(np.asarray(same.is_null()))
    known = np.flatnonzero(np.asarray(same.is_valid()))
    unknown = second.take(pa.array(new))
    before = np.asarray(pl.Series(first).search_sorted(pl.Series(unknown)), np.int64)  # of the first, how many
    shift = np.cumsum(np.bincount(before, minlength=len(first) + 1))[: len(first)]
    mine, theirs = np.arange(len(first)) + shift, before + np.arange(len(new))
    size = len(first) + len(new)
    places = [np.full(size, -1, np.int64) for _ in range(2)]
    places[0][mine] = np.arange(len(first))
    places[1][theirs] = new
    places[1][mine[same.take(pa.array(known)).to_numpy()]] = known
    order = np.where(places[0] < 0, 0, places[0])
    order[theirs] = len(first) + np.arange(len(new))
    return pa.concat_arrays([first, unknown]).take(pa.array(order)), places


def _inexact_error(dim: str, first: pa.Array, second: pa.Array) -> LabelError:
    import pyarrow.compute as pc

    first, second = unify_label_types([first, second], f"dimension {dim!r}")
    for one, other, side in ((first, second, "second"), (second, first, "first")):
        lacking = one.filter(pc.invert(pc.is_in(one, value_set=other)))
        if len(lacking):
            said = f"the {side} has no {lacking[0].as_py()!r}"
            break
    else:
        said = "they are in another order"
    return LabelError(f"labels of dimension {dim!r} differ, and join='exact': {said}; use sp.align, or another join")


def check_unique_labels(labels: pa.Array, dim: str) -> bool:
    """Return whether labels ascend; raise ``LabelError`` if some are null or repeat."""
    import pyarrow.compute as pc

    if labels.null_count:
        raise LabelError(
            f"{labels.null_count} indices along dimension {dim!r} have no label, so it cannot be aligned: take those "
            "that have one first"
        )
    if pc.all(pc.less(labels[:-1], labels[1:]), min_count=0).as_py():
        return True
    import polars as pl

    if pl.Series(labels).n_unique() != len(labels):
        counts = pc.value_counts(labels)
        twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0].as_py()
        raise LabelError(
            f"label {twice!r} repeats along dimension {dim!r}, so it cannot be aligned: take each label once, or add "
            "up the elements of equal labels"
        )
    return False


def _axis_order(lead: Schema, other: Schema) -> list[int | None] | None:
    """Return the axis of ``other`` per axis of ``lead``; None for by position."""
    wanted, given = lead.dims, other.dims
    start = len(wanted) - len(given)
    if wanted[start:] == given:
        return None
    common = {name for name in given if is_given_name(name)} & {name for name in wanted if is_given_name(name)}
    if not common:
        return None
    if len(common) == len(given):
        return [given.index(name) if name in common else None for name in wanted]
    for k, (mine, theirs) in enumerate(zip(given, wanted[start:], strict=True)):
        named = is_given_name(mine), is_given_name(theirs)
        if mine == theirs or (not all(named) and not common & {mine, theirs}):
            continue
        sizes = other.shape[k], lead.shape[start + k]
        if any(
            size == 1 and (not name or not common & {mine, theirs}) for size, name in zip(sizes, named, strict=True)
        ):
            continue  # an axis that is repeated
        raise LabelError(
            f"dimensions {wanted} and {given} agree in {', '.join(map(repr, sorted(common)))} and not in the rest: "
            "rename() those of one side, or transpose() it"
        )
    return None
