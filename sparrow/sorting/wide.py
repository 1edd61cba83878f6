"""Rows whose coordinates together pass 63 bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sparrow import database
from sparrow.kernels.entries import Duplicates
from sparrow.sorting.rows import Rows

__all__ = ["WideSort"]


class WideSort:
    """Rows whose coordinates together pass 63 bits, sorted by DuckDB."""

    def __init__(self, ndim: int, dtype: np.dtype[Any], weighted: bool, duplicates: Duplicates) -> None:
        self._dtype, self._weighted = dtype, weighted
        self._coords = [f"c{k}" for k in range(ndim)]
        # Values travel as bits: nothing on the way rounds, casts or compares them.
        self._word = np.dtype(f"u{min(dtype.itemsize, 8)}")
        self._values = [f"v{k}" for k in range(dtype.itemsize // self._word.itemsize)] if weighted else []
        in_order = weighted and (duplicates in ("first", "last") or (duplicates == "sum" and dtype.kind in "fc"))
        self._ordinal = ["o"] if in_order else []
        self._con = database.connect()

    def close(self) -> None:
        """Give memory and disk back."""
        self._con.close()

    def load(self, rows: Iterable[Rows]) -> None:
        """Take in all rows."""
        fields = [(name, pa.int64()) for name in (*self._coords, *self._ordinal)]
        fields += [(name, pa.from_numpy_dtype(self._word)) for name in self._values]
        schema = pa.schema(fields)

        def batches() -> Iterator[pa.RecordBatch]:
            at = 0
            for each in rows:
                columns = [column.astype(np.int64, copy=False) for column in each.coords]
                if self._ordinal:
                    columns.append(np.arange(at, at + each.size))
                if each.values is not None:
                    words = np.ascontiguousarray(each.values).view(self._word).reshape(each.size, -1)
                    columns += [np.ascontiguousarray(word) for word in words.T]
                at += each.size
                yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=schema)

        database.load(self._con, "entries", schema, batches())

    def sorted(self) -> Iterator[Rows]:
        """Yield rows sorted by coordinates, those of a cell in the order of the input where that counts."""
        columns, by = [*self._coords, *self._values], [*self._coords, *self._ordinal]
        for batch in database.sorted_batches(self._con, "entries", columns, by):
            arrays = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            coords, words = tuple(arrays[: len(self._coords)]), arrays[len(self._coords) :]
            values = np.stack(words, axis=1).view(self._dtype).reshape(-1) if words else None
            if len(batch):
                yield Rows(coords, values)
