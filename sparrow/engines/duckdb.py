"""The DuckDB engine: scans compiled to SQL over Parquet files or Arrow tables, products as joins.

A view is a projection of its coordinates over a filter on the base's columns, so DuckDB pushes the
filter, and those of a query around it, down to row groups. Lists are joined. The joins of products
are the texts in ``sql/duckdb``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import database, settings
from sparrow.database import quote_literal, quote_name
from sparrow.engines.choose import scan_order
from sparrow.engines.predicate import conditions, positions
from sparrow.engines.stream import check_output
from sparrow.errors import TooLargeError, UnsupportedError
from sparrow.index import Listed, Points, Range
from sparrow.kernels.entries import Block
from sparrow.plan import Contract, Scan
from sparrow.relation import ArrowSource
from sparrow.resources import sql_text

__all__ = ["Query", "compile_scan", "count", "entries", "matmul", "select"]

_SQL_TYPES = {
    "bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT",
    "float16": "FLOAT", "float32": "FLOAT", "float64": "DOUBLE", "complex64": "FLOAT", "complex128": "DOUBLE",
}  # fmt: skip

_names = itertools.count()


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT, and the Arrow tables that must be registered under the names it uses."""

    text: str
    tables: dict[str, pa.Table]


def compile_scan(scan: Scan, prefix: str = "sparrow") -> Query:
    """Return the SELECT of a scan: a column for each axis, named as the schema says, then ``value``.

    A complex tensor has ``value`` and ``value_im``. Opens no data pages.

    Parameters
    ----------
    prefix
        What the names of registered tables begin with.
    """
    view, schema = scan.view, scan.schema
    parts = ("value", "value_im") if schema.dtype.kind == "c" else ("value",)
    source = None if view.size == 0 else scan.relation.source(view.box(), scan_order(scan))
    if source is None or (not isinstance(source, ArrowSource) and not source.paths):
        nothing = [f"CAST(NULL AS {_coordinate_type(scan, axis)}) AS {quote_name(schema.dims[axis])}"
                   for axis in range(schema.ndim)]  # fmt: skip
        nothing += [f"CAST(NULL AS {_SQL_TYPES[schema.dtype.name]}) AS {quote_name(part)}" for part in parts]
        return Query(f"SELECT {', '.join(nothing)} WHERE false", {})
    tables: dict[str, pa.Table] = {}
    if isinstance(source, ArrowSource):
        tables[f"{prefix}_entries"] = _without_half(source.table)
        relation = f"{quote_name(f'{prefix}_entries')} AS e"
    else:
        files = f"read_parquet([{', '.join(map(quote_literal, source.paths))}], hive_partitioning = false)"
        if all(expression == quote_name(name) for name, expression in source.columns):
            relation = f"{files} AS e"
        else:
            columns = ", ".join(f"{expression} AS {quote_name(name)}" for name, expression in source.columns)
            relation = f"(SELECT {columns} FROM {files}) AS e"

    def column(dim: int) -> str:
        return f"e.{quote_name(scan.relation.schema.dims[dim])}"

    for number, group in enumerate(view.points):
        name = f"{prefix}_points{number}"
        tables[name] = _points_table(scan, group)
        on = " AND ".join(f"{column(dim)} = p{number}.c{k}" for k, dim in enumerate(group.dims))
        relation += f" JOIN {quote_name(name)} AS p{number} ON {on or 'true'}"
    axes = []
    for number, axis in enumerate(view.axes):
        if isinstance(axis, Range):
            expression = positions(axis, column(axis.dim))
        elif isinstance(axis, Listed):
            expression = f"p{axis.group}.p{axis.position}"
        else:
            expression = "CAST(0 AS INTEGER)"
        axes.append(f"{expression} AS {quote_name(schema.dims[number])}")
    axes += [f"e.{part}" for part in parts]
    text = f"SELECT {', '.join(axes)} FROM {relation}"
    where = conditions(scan, column)
    return Query(f"{text} WHERE {' AND '.join(where)}" if where else text, tables)


def _coordinate_type(scan: Scan, axis: int) -> str:
    return _SQL_TYPES[scan.schema.coordinate_dtype(axis).name]


def _points_table(scan: Scan, group: Points) -> pa.Table:
    """Return the points of a group: base coordinates c0, c1, ... and their positions p0, p1, ..."""
    columns: dict[str, NDArray[Any]] = {}
    for k, (dim, coords) in enumerate(zip(group.dims, group.coords, strict=True)):
        columns[f"c{k}"] = coords.reshape(-1).astype(scan.relation.schema.coordinate_dtype(dim))
    for k, place in enumerate(np.unravel_index(np.arange(group.count), group.shape)):
        columns[f"p{k}"] = place.astype(np.int32 if group.shape[k] <= 2**31 else np.int64)
    return pa.table(columns)


def _without_half(table: pa.Table) -> pa.Table:
    """Return the table with float16 as float32, the narrowest that DuckDB has."""
    at = table.schema.get_field_index("value")
    if table.schema.field(at).type != pa.float16():
        return table
    return table.set_column(at, "value", table.column(at).cast(pa.float32()))


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
    UnsupportedError
        If the values are complex or float16.
    TooLargeError
        If the entries would pass the memory limit.
    """
    schema = scan.schema
    _refuse(schema.dtype)
    dtypes = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)]
    con = database.connect()
    text = select(scan, con)
    if schema.ndim:
        text = f"SELECT * FROM ({text}) ORDER BY {', '.join(map(str, range(1, schema.ndim + 1)))}"
    batches, nbytes, limit = [], 0, settings.current().memory_limit
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
    columns = [table.column(k).to_numpy() for k in range(schema.ndim + 1)]
    coords = tuple(column.astype(dtype, copy=False) for column, dtype in zip(columns, dtypes, strict=False))
    return Block(coords, columns[-1].astype(schema.dtype, copy=False))


def count(scan: Scan) -> int:
    """Return the number of entries of a scan."""
    con = database.connect()
    return int(con.execute(f"SELECT count(*) FROM ({select(scan, con)})").fetchall()[0][0])


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
    out = out != 0 if result == bool else out.astype(result, copy=False)
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
        value = f"CAST(value AS {_SQL_TYPES[out.dtype.name]})"
    con.execute(f"CREATE TEMP VIEW a AS SELECT {row} AS i, {col} AS j, {value} AS value FROM ({select(scan, con)})")
    at = scan.schema.coordinate_dtype(scan.view.ndim - 1)
    operand: dict[str, NDArray[Any]] = {"j": np.arange(len(x), dtype=at)}
    if x.dtype == bool:
        x = x.astype(np.int8)
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
