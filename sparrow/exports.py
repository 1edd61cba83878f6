"""Out of sparrow: entries as what other libraries hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sparrow import display, engines, settings
from sparrow.base import Base
from sparrow.errors import InvalidValueError, TooLargeError, UnsupportedError
from sparrow.plan import Scan
from sparrow.relation import arrow_schema, arrow_table

if TYPE_CHECKING:
    import polars
    import scipy.sparse

__all__ = ["Exports", "check_room"]


class Exports(Base):
    """What other libraries take tensors as."""

    __slots__ = ()

    def to_numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return all cells as a NumPy array.

        Raises
        ------
        TooLargeError
            If the array would pass the memory limit.
        """
        return _dense(self.__sparrow_scan__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, np.dtype[Any]]:
        if copy is False:
            raise InvalidValueError("a sparse tensor has no dense array to share: copy=False is not possible")
        dense = self.to_numpy()
        return dense if dtype is None else dense.astype(dtype)

    def to_scipy(self, format: str = "csr") -> scipy.sparse.sparray:
        """Return a SciPy sparse array in a format such as "csr", "csc" or "coo", its fill being 0.

        Raises
        ------
        UnsupportedError
            If the fill is not 0 or SciPy has no such values.
        """
        return _scipy_array(self.__sparrow_scan__(), format)

    def to_arrow(self) -> pa.Table:
        """Return the entries as an Arrow table: a column for each dimension, then ``value``; sorted."""
        return arrow_table(self._schema, engines.entries(self.__sparrow_scan__()))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the entries as Arrow record batches, sorted by the dimensions, without holding all of them."""
        for block in engines.sorted_blocks(self.__sparrow_scan__()):
            yield from arrow_table(self._schema, block).to_batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(arrow_schema(self._schema), self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def to_polars(self) -> polars.DataFrame:
        """Return the entries as a Polars data frame: a column for each dimension, then ``value``."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame


def check_room(nbytes: int, what: str) -> None:
    """Raise ``TooLargeError`` where arrays of ``nbytes`` would pass the memory limit."""
    limit = settings.current().memory_limit
    if nbytes > limit:
        size, allowed = display.human_bytes(nbytes), display.human_bytes(limit)
        raise TooLargeError(
            f"{what} would take {size}, beyond the memory limit of {allowed}: "
            "take a smaller view, or raise the limit with sp.config(memory_limit=...)"
        )


def _dense(scan: Scan) -> np.ndarray[Any, np.dtype[Any]]:
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


def _scipy_array(scan: Scan, format: str) -> scipy.sparse.sparray:
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
