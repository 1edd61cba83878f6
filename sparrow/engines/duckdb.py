"""The DuckDB engine: what a query yields, as entries, counts and products.

Scans and expressions are compiled to one query by :mod:`sparrow.engines.sql`. The joins of products are the texts in
``sql/duckdb``.
"""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import database, settings
from sparrow.database import quote_name
from sparrow.engines.sql import compile_scan, sql_type
from sparrow.engines.stream import check_output
from sparrow.errors import TooLargeError, UnsupportedError
from sparrow.kernels.entries import Block
from sparrow.plan import Contract, Scan
from sparrow.resources import sql_text

__all__ = ["count", "entries", "matmul", "select"]

_names = itertools.count()


def select(scan: Scan, con: duckdb.DuckDBPyConnection) -> str:
    """Return the SELECT of a scan, its tables registered with the connection under names of their own."""
    query = compile_scan(scan, f"sparrow:{next(_names)}")
    for name, table in query.tables.items():
        con.register(name, table)
    return query.text


def _refuse(dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c" or dtype == np.float16:
        raise UnsupportedError(f"engine='duckdb' has no {dtype}: use engine='stream'")


def entries(scan: Scan) -> Block:
    """Return all entries of a scan, canonical in the order of the view's axes.

    Raises
    ------
    TooLargeError
        If the entries would pass the memory limit.
    """
    schema = scan.schema
    dtypes = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)]
    con = database.connect()
    text = select(scan, con)
    if schema.ndim:
        text = f"SELECT * FROM ({text}) ORDER BY {', '.join(map(str, range(1, schema.ndim + 1)))}"
    batches, nbytes, limit = [], 0, settings.current().memory_limit
    with database.failures():
        for batch in con.sql(text).to_arrow_reader():
            batches.append(batch)
            nbytes += batch.nbytes
            if nbytes > limit:
                raise TooLargeError(
                    f"the entries of shape {schema.shape} pass the memory limit of {limit} bytes: read them in pieces "
                    "with to_batches(), take a smaller view, or raise the limit with sp.config(memory_limit=...)"
                )
    if not batches:
        return Block(tuple(np.zeros(0, dtype) for dtype in dtypes), np.zeros(0, schema.dtype))
    table = pa.Table.from_batches(batches)
    columns = [column.to_numpy() for column in table.columns]
    coords = tuple(column.astype(dtype, copy=False) for column, dtype in zip(columns, dtypes, strict=False))
    if schema.dtype.kind != "c":
        return Block(coords, columns[-1].astype(schema.dtype, copy=False))
    values = np.empty(len(columns[-1]), schema.dtype)
    values.real, values.imag = columns[-2:]
    return Block(coords, values)


def count(scan: Scan) -> int:
    """Return the number of entries of a scan."""
    con = database.connect()
    text = select(scan, con)
    with database.failures():
        return int(con.execute(f"SELECT count(*) FROM ({text})").fetchall()[0][0])


def matmul(contract: Contract) -> Any:
    """Return the product of a tensor and a dense array by a join on the contracted coordinate.

    Integers are summed in 128 bits and reduced modulo 2^64, so overflow gives NumPy's result.

    Raises
    ------
    UnsupportedError
        If a type is complex or float16, the fill is not 0, or the sums of integers could pass 128 bits.
    TooLargeError
        If the dense result would pass the memory limit.
    """
    scan, x = contract.operands
    result = contract.schema.dtype
    for dtype in (scan.schema.dtype, x.dtype, result):
        _refuse(dtype)
    if scan.schema.fill_value != 0:
        raise UnsupportedError(
            f"engine='duckdb' multiplies stored entries only, and here absent cells are {scan.schema.fill_value}: "
            "use engine='stream'"
        )
    whole = result.kind in "biu"
    if whole and x.size and scan.relation.nnz * int(max(abs(int(x.min())), abs(int(x.max())))) >= 2**62:
        raise UnsupportedError(
            "engine='duckdb' sums integers in 128 bits, which products of this many entries with integers this large "
            "could pass: use engine='stream'"
        )
    shape = contract.schema.shape
    check_output(shape, result)
    height = 1 if scan.view.ndim == 1 else scan.view.shape[0]
    out = np.zeros((height, *x.shape[1:]), np.int64 if whole else result)
    if out.size and scan.view.size:
        _join(scan, x if whole else x.astype(result), out, whole)
    out = out != 0 if result.kind == "b" else out.astype(result, copy=False)
    if scan.view.ndim == 1:
        out = out[0]
    return out.T if contract.flipped else out


def _join(scan: Scan, x: NDArray[Any], out: NDArray[Any], whole: bool) -> None:
    """Write ``scan @ x`` into ``out``, both (n,) or (n, k); cells without entries stay as they are."""
    con = database.connect()
    names = [quote_name(name) for name in scan.schema.dims]
    row, col = ("CAST(0 AS INTEGER)", names[0]) if scan.view.ndim == 1 else names
    value = "value"
    if whole:
        value = "CAST(value AS HUGEINT)"
    elif scan.schema.dtype != out.dtype:
        value = f"CAST(value AS {sql_type(out.dtype)})"
    con.execute(f"CREATE TEMP VIEW a AS SELECT {row} AS i, {col} AS j, {value} AS value FROM ({select(scan, con)})")
    at = scan.schema.coordinate_dtype(scan.view.ndim - 1)
    operand: dict[str, NDArray[Any]] = {"j": np.arange(len(x), dtype=at)}
    x = x.astype(np.int8 if x.dtype == bool else x.dtype.newbyteorder("="), copy=False)
    if x.ndim == 1:
        operand["value"] = np.ascontiguousarray(x)
    else:
        operand |= {f"v{k}": np.ascontiguousarray(x[:, k]) for k in range(x.shape[1])}
    con.register("x", pa.table(operand))
    text = sql_text("duckdb", "spmv" if x.ndim == 1 else "spmm")
    if whole:
        con.execute(f"CREATE TEMP VIEW product AS {text}")
        text = sql_text("duckdb", "modulo64")
    for batch in con.sql(text).to_arrow_reader():
        rows = batch.column(0).to_numpy()
        for k in range(1, batch.num_columns):
            column = batch.column(k).to_numpy()
            if whole:
                column = column.view(np.int64)
            target = out if out.ndim == 1 else out[:, k - 1]
            target[rows] = column
