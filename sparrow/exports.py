"""Entries as what other libraries hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparrow import display, engines, settings
from sparrow.errors import TooLargeError, UnsupportedError
from sparrow.plan import Scan

if TYPE_CHECKING:
    import scipy.sparse

__all__ = ["check_room", "dense", "scipy_array"]


def check_room(nbytes: int, what: str) -> None:
    """Raise ``TooLargeError`` where arrays of ``nbytes`` would pass the memory limit."""
    limit = settings.current().memory_limit
    if nbytes > limit:
        size, allowed = display.human_bytes(nbytes), display.human_bytes(limit)
        raise TooLargeError(
            f"{what} would take {size}, beyond the memory limit of {allowed}: "
            "take a smaller view, or raise the limit with sp.config(memory_limit=...)"
        )


def dense(scan: Scan) -> np.ndarray[Any, np.dtype[Any]]:
    """Return all cells of a scan as a NumPy array; raises ``TooLargeError`` past the memory limit."""
    schema = scan.schema
    check_room(schema.size * schema.dtype.itemsize, "the dense array")
    block = engines.entries(scan)
    array = np.full(schema.shape, schema.fill_value, dtype=schema.dtype)
    if schema.ndim:
        array[block.coords] = block.values
    elif block.count:
        array[...] = block.values[0]
    return array


def scipy_array(scan: Scan, format: str) -> scipy.sparse.sparray:
    """Return the entries of a scan as a SciPy sparse array; raises ``UnsupportedError`` where SciPy has none such."""
    import scipy.sparse

    schema = scan.schema
    if not schema.zero_fill:
        raise UnsupportedError(f"SciPy's arrays are zero where nothing is stored; here it is {schema.fill_value}")
    if schema.dtype == np.float16:
        raise UnsupportedError("SciPy's sparse arrays have no float16: take to_arrow() or to_numpy()")
    if schema.ndim == 0:
        raise UnsupportedError("SciPy's sparse arrays have at least one dimension: use to_numpy()")
    formats = {1: ("coo", "csr", "dok"), 2: ("coo", "csr", "csc", "bsr", "dia", "dok", "lil")}.get(
        schema.ndim, ("coo",)
    )
    if format not in formats:
        names = ", ".join(map(repr, formats))
        raise UnsupportedError(f"SciPy has no {format!r} of {schema.ndim} dimensions: use one of {names}")
    block = engines.entries(scan)
    array = scipy.sparse.coo_array((block.values, block.coords), shape=schema.shape)
    array.has_canonical_format = True
    # The other formats are new arrays; this one would share the tensor's own, which nobody may write to.
    return array.copy() if format == "coo" else array.asformat(format)
