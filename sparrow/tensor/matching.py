"""Tensors matched to the axes of another: index keys, masks, values per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import engines, plan
from sparrow.core.indexing import Mask, Mode
from sparrow.core.schema import Schema, is_given_name
from sparrow.errors import IndexingError, LabelError, UnsupportedError
from sparrow.interop.conversion import from_object, is_foreign_sparse
from sparrow.interop.interchange import implicit_dense_array
from sparrow.interop.labelled_objects import is_frame, is_polars, is_xarray, object_labels, xarray_dims
from sparrow.kernels.coo import Block
from sparrow.plan import MatchRule, Scan, axis_labels, match_mask, match_values
from sparrow.plan.labels import AxisLabels
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.tensor.base import Base, as_scan

__all__ = [
    "contracted_axes", "label_operands", "match_axes", "match_condition", "match_rows", "reject_frame",
    "reject_other_labels", "resolve_key", "to_implicit_array", "to_labelled",
]  # fmt: skip

_PLAIN = frozenset((int, slice, type(None), type(Ellipsis), list, np.ndarray, range, np.int64))
"""Types of the parts of most indices, which need no resolving."""


def to_labelled(obj: Any, target: Any, axes: Mapping[int, int] | None = None) -> Any:
    """Return an xarray array or a pandas series as a tensor with its labels.

    Anything else is returned unchanged, and so is an object without labels that compare with those of the target.

    Parameters
    ----------
    obj
        The object.
    target
        Tensor that it is to be matched with.
    axes
        Axis of the target by axis of the object; by default the last ones.
    """
    return _with_labels(obj, _comparable_labels(obj, target, axes), type(target))


def _with_labels(obj: Any, labels: dict[int, pa.Array], kind: Any) -> Any:
    """Return an object as a tensor with labels; without any as it is."""
    if not labels:
        return obj
    schema, block, _ = from_object(np.asarray(obj), dims=xarray_dims(obj) if is_xarray(obj) else None)
    return kind(MemoryHandle(MemoryRelation(schema, block, labels)))


def _is_foreign(obj: Any) -> bool:
    """Return whether an object may have labels of xarray or pandas."""
    return type(obj).__module__.partition(".")[0] in ("pandas", "xarray") and getattr(obj, "ndim", 0) > 0


def label_operands(operands: Sequence[Any]) -> list[Any]:
    """Return operands, with labelled ones of pandas and xarray as tensors.

    All that compute with such objects and tensors pass through here, unless they know the axes that meet:
    :func:`to_labelled`. An object is returned as it is, to go by position, if no tensor has labels, or if it has row
    numbers only: the default index of pandas, or integers beside labels that are none. Lists of operands are searched.

    Raises
    ------
    UnsupportedError, InvalidValueError
        If tensors cannot have the labels.
    """
    given = [one for each in operands for one in (each if isinstance(each, list | tuple) else (each,))]
    if not any(map(_is_foreign, given)):
        return list(operands)
    tensors = [one for one in given if isinstance(one, Base)]
    known = [labels.array().type for one in tensors for labels in axis_labels(one.__sparrow_scan__()).values()]
    if not known:
        return list(operands)
    numbered = any(map(pa.types.is_integer, known))

    def convert(obj: Any) -> Any:
        if isinstance(obj, list | tuple):
            return type(obj)(map(convert, obj)) if any(map(_is_foreign, obj)) else obj
        if not _is_foreign(obj):
            return obj
        found = object_labels(obj)
        if not is_xarray(obj) and not numbered:
            found = {axis: labels for axis, labels in found.items() if not pa.types.is_integer(labels.type)}
        return _with_labels(obj, found, type(tensors[0]))

    return list(map(convert, operands))


def _comparable_labels(obj: Any, target: Any, axes: Mapping[int, int] | None) -> dict[int, pa.Array]:
    """Return the labels of an object of xarray or pandas along labelled axes.

    Integers of pandas are row numbers beside labels of other types.
    """
    if not _is_foreign(obj) or not isinstance(target, Base):
        return {}
    wanted = axis_labels(target.__sparrow_scan__())
    if axes is None:
        axes = {axis: axis - obj.ndim + target.ndim for axis in range(obj.ndim)}
    found = object_labels(obj, [axis for axis in range(obj.ndim) if axes.get(axis) in wanted])
    if is_xarray(obj):
        return found
    return {
        axis: labels
        for axis, labels in found.items()
        if not (pa.types.is_integer(labels.type) and not pa.types.is_integer(wanted[axes[axis]].array().type))
    }


def match_axes(given: Any, target: Any, axes: Mapping[int, int], what: str, rule: MatchRule, name: str = "") -> Any:
    """Match a tensor, or a labelled object, as :func:`sparrow.plan.match_axes`."""
    return plan.match_axes(to_labelled(given, target, axes), target, axes, what, rule, name)


def match_rows(given: Any, target: Any, what: str, name: str) -> Any:
    """Return one value per row of a tensor in the order of its labels.

    Parameters
    ----------
    given
        Tensor, or pandas series or xarray array, whose values need not be numbers.
    target
        Tensor with the rows.
    what, name
        Names of both for errors.

    Raises
    ------
    LabelError
        If both have labels, and these are not the same in any order.
    """
    if isinstance(given, Base) or not isinstance(target, Base):
        return plan.match_axes(given, target, {0: 0}, what, "values", name)
    labels = _comparable_labels(given, target, {0: 0})
    if 0 not in labels:
        return given
    numbers = np.arange(1, 1 + len(labels[0]))
    schema = Schema((len(numbers),), (), numbers.dtype)
    order = type(target)(MemoryRelation(schema, Block((numbers - 1,), numbers), {0: labels[0]}))
    places = plan.match_axes(order, target, {0: 0}, what, "values", name).to_numpy() - 1
    return np.asarray(given)[places]


def reject_other_labels(tensor: Base, other: Any, axes: Mapping[int, int] | None = None) -> None:
    """Raise ``LabelError`` if a foreign operand has other names or labels.

    Its library computes with it and a tensor by position.

    Parameters
    ----------
    tensor, other
        The operands.
    axes
        Axis of the tensor by axis of the other; by default the last ones.
    """
    if axes is None and is_xarray(other):
        _reject_other_places(tensor, xarray_dims(other))
    theirs = _comparable_labels(other, tensor, axes)
    mine = axis_labels(tensor.__sparrow_scan__()) if theirs else {}
    for axis, labels in theirs.items():
        at = axis - other.ndim + tensor.ndim if axes is None else axes[axis]
        if axes is None and is_xarray(other) and (dim := xarray_dims(other)[axis]) in tensor.dims:
            at = tensor.dims.index(dim)
        if at in mine and not mine[at].equals(AxisLabels.of(labels)):
            kind = type(other).__name__
            way = "convert it with sp.asarray(array)" if is_xarray(other) else "reindex it, or pass its to_numpy()"
            raise LabelError(
                f"labels of dimension {tensor.dims[at]!r} differ between the tensor and the {kind}, which would be "
                f"combined by position: {way}"
            )


def _reject_other_places(tensor: Base, dims: Sequence[str]) -> None:
    """Raise ``LabelError`` if a named dimension meets another one by position."""
    for place, dim in enumerate(tensor.dims, len(dims) - tensor.ndim):
        if is_given_name(dim) and dim in dims and (place < 0 or dims[place] != dim):
            raise LabelError(
                f"a tensor of dimensions {tensor.dims} and a DataArray of {tuple(dims)} would be combined by position: "
                "convert it with sp.asarray(array)"
            )


def contracted_axes(tensor: Base, other: Any, from_left: bool) -> dict[int, int]:
    """Return the contracted axis of a tensor by that of another operand.

    Parameters
    ----------
    tensor, other
        The operands.
    from_left
        Whether the tensor is the left one.
    """
    first, second = tensor.ndim - 1, getattr(other, "ndim", 1) - 1
    return {max(second - 1, 0): first} if from_left else {second: max(first - 1, 0)}


def reject_frame(other: Any) -> None:
    """Raise ``UnsupportedError`` for a frame of pandas, or an object of polars."""
    if is_frame(other) or is_polars(other):
        table = ", or sp.asarray of a table of coordinates" if hasattr(other, "columns") else ""
        raise UnsupportedError(
            f"operands must be tensors, arrays or numbers, got {type(other).__name__}: pass its to_numpy(){table}"
        )


def match_condition(given: Any, target: Any, what: str) -> Any:
    """Return a mask of all axes of a tensor, matched by name and label.

    Raises
    ------
    LabelError
        If names agree in part, or labels do not match.
    """
    given = to_labelled(given, target)
    if not (isinstance(given, Base) and isinstance(target, Base) and given.ndim == target.ndim):
        return given
    scan = given.__sparrow_scan__()
    found = match_mask(scan, target.__sparrow_scan__(), 0, what)
    return given if found is scan else type(given)(found.source, found.view)


def resolve_key(key: Any, target: Base, mode: Mode = "paired") -> Any:
    """Replace the tensors of an index by positions, matched by label. Does I/O.

    Raises
    ------
    LabelError
        If a mask has no label in common with the axis that it selects from, or integer tensors that pair up have
        different labels.
    IndexingError
        If a tensor is neither boolean nor integer.
    """
    parts = key if isinstance(key, tuple) else (key,)
    if all(type(part) in _PLAIN for part in parts):
        return key
    firsts, after = [], 0
    rest = target.ndim - sum(map(_count_axes, parts))
    for part in parts:
        firsts.append(after)
        after += rest if part is Ellipsis else _count_axes(part)
    out = [
        to_labelled(part, target, {k: first + k for k in range(2)}) for part, first in zip(parts, firsts, strict=True)
    ]
    scans = {k: as_scan(part) for k, part in enumerate(out) if isinstance(part, Base) or is_foreign_sparse(part)}
    integers = [k for k, scan in scans.items() if scan.schema.dtype.kind in "iu" and mode != "orthogonal"]
    names = [f"index {k}, a tensor of shape {scans[k].schema.shape}," for k in integers]
    scans.update(zip(integers, match_values([scans[k] for k in integers], names), strict=True))
    for k, scan in scans.items():
        out[k] = _resolve_part(scan, target, firsts[k])
    return tuple(out) if scans else key


def to_implicit_array(scan: Scan) -> NDArray[Any]:
    """Return a dense array of a scan that NumPy asks for; warn of waste."""
    return implicit_dense_array(scan.schema, lambda: engines.evaluate(scan, own=False))


def _count_axes(part: Any) -> int:
    """Return the number of axes that a part of an index consumes."""
    if part is None or part is Ellipsis or isinstance(part, bool | np.bool_):
        return 0
    given = np.asarray(part) if isinstance(part, list | tuple) else part
    return int(given.ndim) if getattr(given, "dtype", None) == np.bool_ else 1


def _resolve_part(scan: Scan, target: Base, first: int) -> Any:
    """Return a tensor of an index as an array, or a sparse mask as one."""
    schema = scan.schema
    if schema.dtype.kind in "iu":
        return to_implicit_array(scan)
    if schema.dtype != bool:
        raise IndexingError(f"a tensor index must be boolean or integer, got {schema.dtype}")
    if schema.ndim and first + schema.ndim <= target.ndim:
        scan = match_mask(scan, target.__sparrow_scan__(), first, f"the mask of shape {schema.shape}")
    if scan.schema.fill_value or not scan.schema.ndim:
        return to_implicit_array(scan)
    return Mask(scan.schema.shape, engines.evaluate(scan).coords)
