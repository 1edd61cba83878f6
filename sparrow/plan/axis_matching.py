"""Matching of tensors to the axes of another: masks, values per row, vectors.

Operands of functions and products join their labels (:mod:`sparrow.plan.alignment`). Here the axes of one tensor are
fixed, because the other selects, weighs, masks or teaches them, and it is brought to their labels, or an error names
both. Axes without labels, on either side, go by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from sparrow.core.label_types import unify_label_types
from sparrow.core.labels import first_positions
from sparrow.errors import LabelError
from sparrow.plan.alignment import check_unique_labels, match_dims, reindex_axis
from sparrow.plan.labels import AxisLabels
from sparrow.plan.nodes import Scan, axis_labels
from sparrow.runtime import settings

__all__ = [
    "MatchRule",
    "Target",
    "align_columns",
    "align_elements",
    "axes_of",
    "check_equal_labels",
    "match_axes",
    "match_broadcast_mask",
    "match_mask",
    "match_scan",
    "match_values",
]

MatchRule: TypeAlias = Literal["pattern", "mask", "vector", "values"]
"""Rule for labels that only one side has.

"pattern": those that the pattern lacks are absent, its others are ignored. "mask": the same, but some must be in
common. "vector": those that the vector lacks are absent, others raise. "values": both must have the same labels, in any
order.
"""

Target: TypeAlias = Mapping[int, tuple[str, AxisLabels]]
"""Labels to match, with the name of what they belong to, by axis of the tensor to be matched."""


def axes_of(scan: Scan, axes: Mapping[int, int], name: str = "") -> Target:
    """Return labelled axes of a scan as a target.

    Parameters
    ----------
    scan
        The scan.
    axes
        Axis of the scan by axis of the tensor to be matched.
    name
        Name of the scan for errors.
    """
    labels, dims = axis_labels(scan), scan.schema.dims
    whose = name or f"the tensor of shape {scan.schema.shape}"
    return {k: (f"dimension {dims[axis]!r} of {whose}", labels[axis]) for k, axis in axes.items() if axis in labels}


def match_scan(scan: Scan, target: Target, what: str, rule: MatchRule) -> Scan:
    """Return a scan whose labelled axes are taken at the labels of a target.

    Parameters
    ----------
    scan
        Scan to match. Equal labels, or none, leave it as it is.
    target
        Labels of the axes.
    what
        Name of the scan for errors.
    rule
        Rule for labels that only one side has.

    Raises
    ------
    LabelError
        If label types do not compare, labels repeat or must be exact, or the rule does not allow the difference.
    """
    own = axis_labels(scan)
    for axis, (whose, wanted) in target.items():
        labels = own.get(axis)
        if labels is None or labels.equals(wanted):
            continue
        mine, theirs = unify_label_types([labels.array(), wanted.array()], f"{what} and {whose}")
        check_unique_labels(mine, scan.schema.dims[axis])
        positions = first_positions(theirs, mine).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        _check_match(mine, theirs, positions, what, whose, rule)
        scan = reindex_axis(scan, axis, positions)
    return scan


def _check_match(mine: pa.Array, theirs: pa.Array, positions: Any, what: str, whose: str, rule: MatchRule) -> None:
    """Raise ``LabelError`` if a rule does not allow the difference of labels."""
    missing = np.flatnonzero(positions < 0)
    extra = np.setdiff1d(np.arange(len(mine)), positions)
    exact = settings.current().join == "exact"
    if exact and not (len(missing) or len(extra)):
        raise LabelError(f"{what} and {whose} have labels in different orders, and join='exact': use another join")
    if len(extra) and (exact or rule in ("vector", "values")):
        raise LabelError(
            f"{what} has the label {mine[int(extra[0])].as_py()!r}, which is missing from {whose}: drop it with sel(), "
            "or pass an array to match by position"
        )
    if len(missing) and (exact or rule == "values"):
        raise LabelError(
            f"{what} has no label {theirs[int(missing[0])].as_py()!r}, which {whose} has: select the labels that both "
            "have with sel(), or pass an array to match by position"
        )
    if rule != "pattern" and len(mine) and len(missing) and len(missing) == len(positions):
        raise LabelError(
            f"{what} and {whose} have no label in common, such as {mine[0].as_py()!r} and {theirs[0].as_py()!r}: "
            "relabel one with set_labels(), or pass an array to match by position"
        )


def match_values(scans: Sequence[Scan], names: Sequence[str]) -> list[Scan]:
    """Return scans that broadcast together, matched to the labels of the first.

    Raises
    ------
    LabelError
        If both have labels along an axis and they are not the same, in any order.
    """
    out: list[Scan] = []
    known: dict[int, tuple[str, AxisLabels]] = {}  # by axis counted from the end, negative
    for scan, what in zip(scans, names, strict=True):
        ndim = scan.schema.ndim
        sizes = scan.schema.shape
        target = {
            axis + ndim: found
            for axis, found in known.items()
            if axis + ndim >= 0 and (found[1].length == sizes[axis] or 1 not in (found[1].length, sizes[axis]))
        }
        scan = match_scan(scan, target, what, "values")
        for axis, labels in axis_labels(scan).items():
            known.setdefault(axis - ndim, (f"dimension {scan.schema.dims[axis]!r} of {what}", labels))
        out.append(scan)
    return out


def match_mask(mask: Scan, target: Scan, first: int = 0, what: str = "the mask") -> Scan:
    """Match a mask with consecutive axes of a scan, by name and label.

    Parameters
    ----------
    mask
        Boolean or sparse pattern.
    target
        Scan that it selects from.
    first
        Axis of the target that the first axis of the mask belongs to.
    what
        Name of the mask for errors.

    Raises
    ------
    LabelError
        If names agree in part, the mask is the transpose of the target, or of a function of it of the same shape, or
        labels do not match.
    """
    ndim = mask.schema.ndim
    if ndim == target.schema.ndim > 1:
        is_ambiguous = mask.schema.shape == target.schema.shape  # other shapes do not go by position
        mask = match_dims([target, mask], check_functions=is_ambiguous)[1]
    return match_scan(mask, axes_of(target, {axis: first + axis for axis in range(ndim)}), what, "mask")


def match_broadcast_mask(mask: Scan, target: Scan, what: str) -> Scan:
    """Match a mask that broadcasts to the shape of a scan, by name and label.

    An axis of one label is a slice of the target, not repeated; one without labels is.

    Raises
    ------
    LabelError
        As :func:`match_mask`.
    """
    if mask.schema.ndim < target.schema.ndim:
        mask = match_dims([target, mask])[1]
    shift = target.schema.ndim - mask.schema.ndim
    return match_mask(mask, target, shift, what) if shift >= 0 else mask


def _is_tensor(given: Any) -> bool:
    return hasattr(given, "__sparrow_scan__")


def match_axes(given: Any, target: Any, axes: Mapping[int, int], what: str, rule: MatchRule, name: str = "") -> Any:
    """Return a tensor matched to axes of another by label; anything else unchanged.

    Parameters
    ----------
    given
        Tensor to match. Arrays go by position.
    target
        Tensor whose labels it is matched to.
    axes
        Axis of the target by axis of ``given``.
    what, name
        Names of ``given`` and of the target for errors.
    rule
        Rule for labels that only one has, see ``MatchRule``.

    Raises
    ------
    LabelError
        If labels do not match.
    """
    if not (_is_tensor(given) and _is_tensor(target)):
        return given
    scan = given.__sparrow_scan__()
    found = match_scan(scan, axes_of(target.__sparrow_scan__(), axes, name), what, rule)
    return given if found is scan else type(given)(found.source, found.view)


def align_columns(columns: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Return columns of one table, tensors in the order of the first's labels.

    Raises
    ------
    LabelError
        If two have other labels.
    """
    tensors = {k: column.__sparrow_scan__() for k, column in enumerate(columns) if _is_tensor(column)}
    out = list(columns)
    if len(tensors) < 2:
        return out
    found = match_values(list(tensors.values()), [names[k] for k in tensors])
    for (k, before), scan in zip(tensors.items(), found, strict=True):
        out[k] = columns[k] if scan is before else type(columns[k])(scan.source, scan.view)
    return out


def check_equal_labels(one: Any, other: Any, names: tuple[str, str]) -> None:
    """Raise ``LabelError`` if two tensors have other labels, or an other order.

    For arrays whose order means something else too, so that neither can be put in another.
    """
    if not (_is_tensor(one) and _is_tensor(other)):
        return
    mine, theirs = (axis_labels(each.__sparrow_scan__()).get(0) for each in (one, other))
    if mine is not None and theirs is not None and not mine.equals(theirs):
        raise LabelError(
            f"labels of {names[0]} and {names[1]} differ: put them in one order with sel(), or pass arrays to go by "
            "position"
        )


def align_elements(coords: Any, values: Any) -> tuple[Any, Any]:
    """Return coordinates and values, tensors among them in one order of labels.

    Raises
    ------
    LabelError
        If two have other labels.
    """
    if _is_tensor(coords):
        axes = {0: 1} if coords.ndim == 2 and np.ndim(values) == 1 else {}
        return coords, match_axes(values, coords, axes, "values", "values", "coords")
    if not isinstance(coords, list | tuple) or not any(_is_tensor(column) for column in coords):
        return coords, values
    names = [*(f"coordinates {k}" for k in range(len(coords))), "values"]
    *columns, aligned = align_columns([*coords, values], names)
    return columns, aligned
