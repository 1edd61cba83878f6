"""Reduction nodes: axes, result dtype and value of empty groups.

Results are NumPy's. With ``where="all"`` absent elements take part with the fill value, counted and never listed.
With ``where="stored"`` only stored elements do: a mean divides by their number, and a group without any gives 0 for
``sum``, ``count`` and ``norm``, 1 for ``prod``, False for ``any``, True for ``all``, NaN for ``mean``, ``var`` and
``std``, the fill value for ``min`` and ``max``, and -1 for ``argmin`` and ``argmax``; nan-forms follow suit. There is
no warning where NumPy warns of an empty slice; NumPy's errors are raised, of a lazy result when it is computed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np

from sparrow.core.schema import Schema, as_integer, unchecked_schema
from sparrow.core.storage_types import infer_reduction, resolve_stype
from sparrow.errors import AxisError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.plan.aggregates import REDUCTIONS, GroupCounts, Reduction, reduction_for
from sparrow.plan.nodes import Reduce, Scan, axis_labels

__all__ = ["Axis", "Where", "axis_by_name", "make_reduce", "normalize_axis"]

Axis: TypeAlias = "int | str | Sequence[int | str] | None"
Where: TypeAlias = Literal["all", "stored"]

_POSITIONS = ("argmin", "argmax", "nanargmin", "nanargmax")
_WITHOUT_IDENTITY = ("min", "max", "nanmin", "nanmax", *_POSITIONS)


def make_reduce(
    scan: Scan, name: str, axis: Axis = None, keepdims: bool = False, where: Where = "all", **options: Any
) -> Reduce:
    """Return a reduction of a scan.

    Parameters
    ----------
    scan
        Operand.
    name
        One of :data:`~sparrow.plan.aggregates.REDUCTIONS`, or "density".
    axis
        Axes to reduce, by number or name, all by default; ``argmin``, ``argmax`` and their nan-forms take one.
    keepdims
        Keep reduced axes with length 1 and their names.
    where
        Reduce "all" elements, or the "stored" ones.
    **options
        ``ddof`` (or ``correction``) of "var" and "std"; ``ord`` (0, a number, inf or -inf) of "norm"; ``dtype`` of
        sums, products, means and variances: elements are cast to it first.

    Returns
    -------
    Reduce
        Its fill value is the reduction of a group without stored elements, so that it is sparse.

    Raises
    ------
    ShapeError
        If an axis is out of range or repeats, or a reduction without an identity is of size 0.
    InvalidValueError
        If the name or an option is unknown.
    UnsupportedError
        If NumPy does not define the reduction for the dtype, or a flat position could exceed 2^63 - 1.
    NumberRangeError
        If the number of absent elements that are True could exceed it.
    """
    kept = _kept_axes(
        scan, name, axis, where, name in _WITHOUT_IDENTITY or (name, options.get("ord")) == ("norm", -np.inf)
    )
    old, stored = scan.schema, where == "stored"
    size = math.prod([n for k, n in enumerate(old.shape) if k not in kept])
    if all(type(value) in _PLAIN for value in options.values()):
        plain = tuple([(key, type(value), value) for key, value in options.items()])
        reduced, fill = _cached_reduction(name, old.dtype, old.fill_value.tobytes(), size, stored, plain)
    else:
        reduced, fill = _reduction(name, old, size, stored, options)
    axes = tuple(k if k in kept else None for k in range(old.ndim)) if keepdims else kept
    dims = range(old.ndim) if keepdims else kept
    shape = tuple([1 if k is None else old.shape[k] for k in axes])
    stype = resolve_stype(name, [old.stype], infer_reduction(old.stype, old.ndim - len(axes))) if axes else "coo"
    schema = unchecked_schema(shape, tuple([old.dims[k] for k in dims]), reduced.dtype, fill, stype)
    node = Reduce(scan, name, axes, stored, options, reduced, schema)
    names = axis_labels(scan)
    return (
        node.with_labels({k: names[axis] for k, axis in enumerate(axes) if axis is not None and axis in names})
        if names
        else node
    )


_PLAIN = (type(None), int, float)
"""Types of options that can be cache keys."""


def _reduction(name: str, schema: Schema, size: int, stored: bool, options: Mapping[str, Any]) -> tuple[Reduction, Any]:
    """Return a reduction, and its result for a group without stored elements."""
    found = reduction_for(name, schema, options)
    nothing = GroupCounts(np.zeros(1, np.int64), size, found.fill, stored)
    return found, found.result([fold.empty(1) for fold in found.folds.values()], nothing)[0]


@lru_cache(512)
def _cached_reduction(
    name: str, dtype: np.dtype[Any], fill: bytes, size: int, stored: bool, options: tuple[tuple[str, type, Any], ...]
) -> tuple[Reduction, Any]:
    schema = Schema((), (), dtype, np.frombuffer(fill, dtype)[0])
    return _reduction(name, schema, size, stored, {key: value for key, _, value in options})


def normalize_axis(axis: int | str, ndim: int, dims: Sequence[str] = ()) -> int:
    """Return a non-negative axis, given by number or by the name of a dimension.

    Raises
    ------
    AxisError
        If it is out of range, or no dimension has the name.
    UnsupportedError
        If it is neither an integer nor a name.
    """
    if isinstance(axis, str) and dims:
        return axis_by_name(axis, dims)
    resolved = as_integer(axis, "axis")
    resolved += ndim if resolved < 0 else 0
    if not 0 <= resolved < ndim:
        raise AxisError(f"axis {axis} is out of range for {ndim} dimensions")
    return resolved


def axis_by_name(name: str, dims: Sequence[str]) -> int:
    """Return the axis of a dimension by name.

    Raises
    ------
    AxisError
        If no dimension has the name.
    """
    if name not in dims:
        raise AxisError(f"no dimension {name!r}: there are {', '.join(map(repr, dims))}")
    return dims.index(name)


def _kept_axes(scan: Scan, name: str, axis: Axis, where: object, needs_elements: bool) -> tuple[int, ...]:
    """Check the arguments and return the axes that stay."""
    if name not in REDUCTIONS and name != "density":
        raise InvalidValueError(f"no reduction {name!r}: use one of {', '.join(REDUCTIONS)}")
    if not isinstance(where, str) or where not in ("all", "stored"):
        raise InvalidValueError(f"{name}: where must be 'all' or 'stored', got {where!r}")
    ndim, shape = scan.schema.ndim, scan.schema.shape
    if axis is None:
        reduced = set(range(ndim))
    else:
        several = type(axis) is not int and isinstance(axis, Sequence) and not isinstance(axis, str)
        if several and name in _POSITIONS:
            raise UnsupportedError(f"{name}: axis must be one axis or None, got {axis!r}")
        try:
            given: Any = axis if several else (axis,)
            wanted = [axis_by_name(k, scan.schema.dims) if isinstance(k, str) else operator.index(k) for k in given]
        except TypeError:
            raise UnsupportedError(f"{name}: axis must be integers or names, or None, got {axis!r}") from None
        for k in wanted:
            if not -ndim <= k < ndim:
                raise AxisError(f"{name}: axis {k} is out of range for a tensor of shape {shape}")
        reduced = {k % ndim for k in wanted}
        if len(reduced) < len(wanted):
            raise ShapeError(f"{name}: axis={axis!r} names an axis of shape {shape} twice")
    kept = tuple(k for k in range(ndim) if k not in reduced)
    if where == "all" and needs_elements and any(shape[k] == 0 for k in reduced):
        raise ShapeError(f"{name} of shape {shape} over axis {axis}: no elements, and {name} has no identity")
    if name in _POSITIONS and math.prod(shape[k] for k in reduced) > 2**63 - 1:
        raise UnsupportedError(
            f"{name}: the flat position in shape {shape} may exceed 2^63 - 1: reduce along one axis, or take a part"
        )
    return kept
