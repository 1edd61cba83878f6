"""Conversions of stored elements to Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block

__all__ = ["arrow_schema", "arrow_table", "as_arrow", "as_numpy", "labelled_table"]


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of stored elements.

    It has one column per dimension, then ``value``, and ``value_im`` for complex dtypes.
    """
    fields = [
        pa.field(name, pa.from_numpy_dtype(schema.coordinate_dtype(dim)), nullable=False)
        for dim, name in enumerate(schema.dims)
    ]
    real = np.empty(0, schema.dtype).real.dtype
    fields.append(pa.field("value", pa.from_numpy_dtype(real), nullable=False))
    if schema.dtype.kind == "c":
        fields.append(pa.field("value_im", pa.from_numpy_dtype(real), nullable=False))
    return pa.schema(fields)


def as_arrow(column: NDArray[Any]) -> pa.Array:
    """Return numbers as an Arrow array, without a copy if contiguous.

    ``pa.array`` imports pandas to recognize series, which takes longer than many commands.
    """
    if column.dtype.kind not in "iuf":
        return pa.array(column)
    memory = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(pa.from_numpy_dtype(column.dtype), len(column), [None, memory])


def as_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return an Arrow array without nulls as NumPy array.

    Numbers are not copied. ``to_numpy`` would import pandas.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        numbers: NDArray[Any] = np.from_dlpack(array)
        return numbers
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def arrow_table(schema: Schema, block: Block) -> pa.Table:
    """Return stored elements as a table with columns of :func:`arrow_schema`."""
    columns = [
        as_arrow(column.astype(schema.coordinate_dtype(dim), copy=False)) for dim, column in enumerate(block.coords)
    ]
    if schema.dtype.kind == "c":
        columns.append(as_arrow(block.values.real))
        columns.append(as_arrow(block.values.imag))
    else:
        columns.append(as_arrow(block.values))
    return pa.Table.from_arrays(columns, schema=arrow_schema(schema))


def labelled_table(schema: Schema, block: Block, labels: Mapping[int, pa.Array]) -> pa.Table:
    """Return stored elements as a table with labels in place of coordinates.

    Dimensions without labels keep their coordinates, as in :func:`arrow_table`.
    """
    table = arrow_table(schema, block)
    for dim, names in labels.items():
        table = table.set_column(dim, schema.dims[dim], names.take(pa.array(block.coords[dim])))
    return table
