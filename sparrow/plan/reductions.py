"""What reductions mean: the axes that stay, the type of the result, and what comes of groups without entries.

Results are NumPy's. Under ``where="all"`` absent cells take part with the fill value, counted and never listed.
Under ``where="stored"`` only entries do: a mean divides by their number, and a group without entries gives 0 for
``sum``, ``count`` and ``norm``, 1 for ``prod``, False for ``any``, True for ``all``, NaN for ``mean``, ``var`` and
``std``, the fill value for ``min`` and ``max``, and -1 for ``argmin`` and ``argmax``; the nan-forms do as those. No
warnings are given where NumPy warns of an empty slice; what raises there raises here, of a lazy result when it is
computed.
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
from sparrow.plan.labels import axis_labels
from sparrow.plan.nodes import Reduce, Scan

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
        What is reduced.
    name
        One of :data:`~sparrow.plan.aggregates.REDUCTIONS`, or "density".
    axis
        The axes that go, by number or name, all by default; ``argmin``, ``argmax`` and their nan-forms take one.
    keepdims
        Keep them with length 1, and their names.
    where
        "all" cells, or the "stored" ones.
    **options
        ``ddof`` (or ``correction``) of "var" and "std"; ``ord`` (0, a positive number, inf or -inf) of "norm";
        ``dtype`` of sums, products, means and variances: the type that cells are cast to first.

    Returns
    -------
    Reduce
        Its fill value is the reduction of a group that has no entries, so that it is sparse.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice, or a reduction without an identity has no cells.
    InvalidValueError
        If a name or an option is not one there is.
    UnsupportedError
        If NumPy does not do this of such values, or a flat position would pass 2^63 - 1.
    """
    kept = _kept(scan, name, axis, where, name in _WITHOUT_IDENTITY or (name, options.get("ord")) == ("norm", -np.inf))
    old, stored = scan.schema, where == "stored"
    cells = math.prod([n for k, n in enumerate(old.shape) if k not in kept])
    if all(type(value) in _PLAIN for value in options.values()):
        plain = tuple([(key, type(value), value) for key, value in options.items()])
        meaning, fill = _known_meaning(name, old.dtype, old.fill_value.tobytes(), cells, stored, plain)
    else:
        meaning, fill = _meaning(name, old, cells, stored, options)
    axes = tuple(k if k in kept else None for k in range(old.ndim)) if keepdims else kept
    dims = range(old.ndim) if keepdims else kept
    shape = tuple([1 if k is None else old.shape[k] for k in axes])
    stype = resolve_stype(name, [old.stype], infer_reduction(old.stype, old.ndim - len(axes))) if axes else "coo"
    schema = unchecked_schema(shape, tuple([old.dims[k] for k in dims]), meaning.dtype, fill, stype)
    node = Reduce(scan, name, axes, stored, options, meaning, schema)
    names = axis_labels(scan)
    return (
        node.with_labels({k: names[axis] for k, axis in enumerate(axes) if axis is not None and axis in names})
        if names
        else node
    )


_PLAIN = (type(None), int, float)
"""Types of options whose values tell them."""


def _meaning(name: str, schema: Schema, cells: int, stored: bool, options: Mapping[str, Any]) -> tuple[Reduction, Any]:
    """Return what a reduction of groups of so many cells means, and its result of a group that has no entries."""
    meaning = reduction_for(name, schema, options)
    nothing = GroupCounts(np.zeros(1, np.int64), cells, meaning.fill, stored)
    return meaning, meaning.result([fold.empty(1) for fold in meaning.folds.values()], nothing)[0]


@lru_cache(512)
def _known_meaning(
    name: str, dtype: np.dtype[Any], fill: bytes, cells: int, stored: bool, options: tuple[tuple[str, type, Any], ...]
) -> tuple[Reduction, Any]:
    schema = Schema((), (), dtype, np.frombuffer(fill, dtype)[0])
    return _meaning(name, schema, cells, stored, {key: value for key, _, value in options})


def normalize_axis(axis: int | str, ndim: int, dims: Sequence[str] = ()) -> int:
    """Return an axis counted from the front; a name is looked for among those of the dimensions.

    Raises
    ------
    AxisError
        If there is none such.
    UnsupportedError
        If it is no integer, and no name.
    """
    if isinstance(axis, str) and dims:
        return axis_by_name(axis, dims)
    resolved = as_integer(axis, "axis")
    resolved += ndim if resolved < 0 else 0
    if not 0 <= resolved < ndim:
        raise AxisError(f"axis {axis} is out of range for {ndim} dimensions")
    return resolved


def axis_by_name(name: str, dims: Sequence[str]) -> int:
    """Return the number of a dimension.

    Raises
    ------
    AxisError
        If none has this name.
    """
    if name not in dims:
        raise AxisError(f"no dimension {name!r}: there are {', '.join(map(repr, dims))}")
    return dims.index(name)


def _kept(scan: Scan, name: str, axis: Axis, where: object, wants_cells: bool) -> tuple[int, ...]:
    """Return the axes that stay, having looked at the arguments."""
    if name not in REDUCTIONS and name != "density":
        raise InvalidValueError(f"no reduction {name!r}: there are {', '.join(REDUCTIONS)}")
    if not isinstance(where, str) or where not in ("all", "stored"):
        raise InvalidValueError(f"{name}: where={where!r} must be 'all' or 'stored'")
    ndim, shape = scan.schema.ndim, scan.schema.shape
    if axis is None:
        gone = set(range(ndim))
    else:
        several = type(axis) is not int and isinstance(axis, Sequence) and not isinstance(axis, str)
        if several and name in _POSITIONS:
            raise UnsupportedError(f"{name}: axis={axis!r} must be one axis or None")
        try:
            given: Any = axis if several else (axis,)
            wanted = [axis_by_name(k, scan.schema.dims) if isinstance(k, str) else operator.index(k) for k in given]
        except TypeError:
            raise UnsupportedError(f"{name}: axis={axis!r} must be integers or names, or None") from None
        for k in wanted:
            if not -ndim <= k < ndim:
                raise AxisError(f"{name}: axis {k} is out of range for a tensor of shape {shape}")
        gone = {k % ndim for k in wanted}
        if len(gone) < len(wanted):
            raise ShapeError(f"{name}: axis={axis!r} names an axis of shape {shape} twice")
    kept = tuple(k for k in range(ndim) if k not in gone)
    if where == "all" and wants_cells and any(shape[k] == 0 for k in gone):
        raise ShapeError(f"{name} of shape {shape} over axis {axis}: no cells, and {name} has no identity")
    if name in _POSITIONS and math.prod(shape[k] for k in gone) > 2**63 - 1:
        raise UnsupportedError(
            f"{name}: the flat position in shape {shape} may pass 2^63 - 1: reduce along one axis, or take a part"
        )
    return kept
