"""Reductions of the cells that a mask names, or of all of them and one value more."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.core.indexing import broadcast_shapes
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.interop.conversion import check_fill
from sparrow.plan import Scan, map_cells
from sparrow.tensor.base import Base, as_scan

__all__ = ["reduced"]

_IDENTITIES = {"sum": 0, "prod": 1, "any": False, "all": True, "mean": 0}
_COMBINED = {
    "sum": np.add, "prod": np.multiply, "any": np.logical_or, "all": np.logical_and,
    "min": np.minimum, "max": np.maximum, "nanmin": np.fmin, "nanmax": np.fmax,
}  # fmt: skip
_EXTREMES = ("min", "max", "nanmin", "nanmax")


def reduced(
    tensor: Any, name: str, axis: Any, keepdims: bool, where: Any, initial: Any, options: dict[str, Any]
) -> Any:
    """Return a reduction with NumPy's ``where=``, a mask, and ``initial=``.

    Cells that the mask leaves out become the value that changes nothing, so that the result is as lazy as without.

    Parameters
    ----------
    tensor, name, axis, keepdims, options
        As of :func:`sparrow.plan.reduction`.
    where
        "all", "stored", or a mask that broadcasts to the tensor's shape.
    initial
        What takes part beside the cells, for one of sum, prod, any, all and the extremes; None for nothing.

    Raises
    ------
    InvalidValueError
        If ``initial`` is no number that the result's type holds, or is missing where nothing else stands for no cells;
        or the mask is none of booleans.
    UnsupportedError
        If the reduction takes no such argument.
    ShapeError
        If the mask does not broadcast to the shape.
    """
    if isinstance(where, str):
        return _from(tensor, name, axis, keepdims, where, initial, options)
    if name in ("min", "max") and initial is None:
        raise InvalidValueError(f"{name}(where=) of a mask needs initial=, which stands for no cells")
    if name not in ("count", *_IDENTITIES) and initial is None:
        raise UnsupportedError(f"{name} takes no mask: sum, prod, mean, min, max, any, all and count do")
    mask = _mask(tensor, where)
    if name in _IDENTITIES:
        identity: Any = _IDENTITIES[name]
    else:
        identity = tensor.fill_value if name == "count" else check_fill(initial, tensor.dtype)
    cells = tensor._of(map_cells(np.where, [mask, tensor.__sparrow_scan__(), identity]))
    if name != "mean":
        return _from(cells, name, axis, keepdims, "all", initial, options)
    wide = options.get("dtype") or (np.float64 if tensor.dtype.kind in "biu" else tensor.dtype)
    total = cells.sum(axis, np.float32 if wide == np.float16 else wide, keepdims=keepdims)
    with np.errstate(all="ignore"):
        return (total / type(tensor)(mask.source, mask.view).sum(axis, keepdims=keepdims)).astype(wide)


def _mask(tensor: Base, where: Any) -> Scan:
    """Return a mask as a scan of the tensor's shape."""
    scan = as_scan(where)
    if scan.schema.dtype != bool:
        raise InvalidValueError(f"where= holds {scan.schema.dtype}: give booleans, 'all' or 'stored'")
    if broadcast_shapes([scan.schema.shape, tensor.shape]) != tensor.shape:
        raise ShapeError(f"where= of shape {scan.schema.shape} does not broadcast to {tensor.shape}")
    return scan if scan.schema.shape == tensor.shape else scan.then(scan.view.broadcast_to(tensor.shape))


def _from(tensor: Any, name: str, axis: Any, keepdims: bool, where: str, initial: Any, options: dict[str, Any]) -> Any:
    """Return a reduction that starts from a value."""
    if initial is None:
        return tensor._reduced(name, axis, keepdims, where, **options)
    if name in _EXTREMES:
        wanted = check_fill(initial, tensor.dtype)
        if not tensor.size:  # the value alone, in the shape that any reduction gives
            return tensor._reduced("count", axis, keepdims, "all").astype(tensor.dtype) + wanted
    found = tensor._reduced(name, axis, keepdims, where, **options)
    kind = np.dtype(complex) if name in ("any", "all") else found.dtype
    start = check_fill(initial, kind)
    with np.errstate(all="ignore"):
        return _COMBINED[name](found, start).astype(found.dtype)
