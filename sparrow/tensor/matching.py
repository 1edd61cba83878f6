"""Tensors matched to the axes of another: index keys, masks, values per row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.indexing import Mask, Mode
from sparrow.errors import IndexingError
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.interop.interchange import implicit_dense_array
from sparrow.plan import Scan, match_mask, match_values
from sparrow.tensor.base import Base, as_scan

__all__ = ["match_condition", "resolve_key", "to_implicit_array"]

_PLAIN = frozenset((int, slice, type(None), type(Ellipsis)))
"""Types of the parts of most indices, which need no resolving."""


def match_condition(given: Any, target: Any, what: str) -> Any:
    """Return a mask of all axes of a tensor, matched by name and label.

    Raises
    ------
    LabelError
        If names agree in part, or labels do not match.
    """
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
    if not any(type(part) not in _PLAIN and (isinstance(part, Base) or is_foreign_sparse(part)) for part in parts):
        return key
    scans = {k: as_scan(part) for k, part in enumerate(parts) if isinstance(part, Base) or is_foreign_sparse(part)}
    integers = [k for k, scan in scans.items() if scan.schema.dtype.kind in "iu" and mode != "orthogonal"]
    names = [f"index {k}, a tensor of shape {scans[k].schema.shape}," for k in integers]
    scans.update(zip(integers, match_values([scans[k] for k in integers], names), strict=True))
    used = sum(_count_axes(part, scans.get(k)) for k, part in enumerate(parts))
    out: list[Any] = []
    first = 0
    for k, part in enumerate(parts):
        scan = scans.get(k)
        out.append(part if scan is None else _resolve_part(scan, target, first))
        first += target.ndim - used if part is Ellipsis else _count_axes(part, scan)
    return tuple(out)


def to_implicit_array(scan: Scan) -> NDArray[Any]:
    """Return a dense array of a scan that NumPy asks for; warn of waste."""
    return implicit_dense_array(scan.schema, lambda: engines.evaluate(scan, own=False))


def _count_axes(part: Any, scan: Scan | None) -> int:
    """Return the number of axes that a part of an index consumes."""
    if scan is not None:
        return scan.schema.ndim if scan.schema.dtype == bool else 1
    if part is None or part is Ellipsis or isinstance(part, bool | np.bool_):
        return 0
    if isinstance(part, list | tuple | np.ndarray):
        array = np.asarray(part)
        return array.ndim if array.dtype == bool else 1
    return 1


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
