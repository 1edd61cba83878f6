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
from sparrow.relation import ArrowSource, ParquetSource
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
    if source is None or (isinstance(source, ParquetSource) and not source.paths):
        types = [_SQL_TYPES[schema.coordinate_dtype(axis).name] for axis in range(schema.ndim)]
        columns = [*zip(schema.dims, types, strict=True), *((part, _SQL_TYPES[schema.dtype.name]) for part in parts)]
        nothing = ", ".join(f"CAST(NULL AS {kind}) AS {quote_name(name)}" for name, kind in columns)
        return Query(f"SELECT {nothing} WHERE false", {})
    names = [*scan.relation.schema.dims, *parts]
    relation, of_files, tables = _base(source, names, prefix, joined=bool(view.points) or view.repeats > 1)

    def column(dim: int) -> str:
        return of_files[names[dim]]

    for number, group in enumerate(view.points):
        name = f"{prefix}_points{number}"
        tables[name] = _points_table(scan, group)
        on = " AND ".join(f"{column(dim)} = p{number}.c{k}" for k, dim in enumerate(group.dims))
        relation += f" JOIN {quote_name(name)} AS p{number} ON {on or 'true'}"
    shown = []
    for number, (name, axis) in enumerate(zip(schema.dims, view.axes, strict=True)):
        if isinstance(axis, Range):
            expression = positions(axis, column(axis.dim))
        elif isinstance(axis, Listed):
            expression = f"p{axis.group}.p{axis.position}"
        elif axis.length == 1:
            expression = "CAST(0 AS INTEGER)"
        else:
            relation += f" CROSS JOIN range({axis.length}) AS n{number}(p)"
            expression = f"n{number}.p"
        shown.append(f"{expression} AS {quote_name(name)}")
    shown += [f"{of_files[part]} AS {quote_name(part)}" for part in parts]
    text = f"SELECT {', '.join(shown)} FROM {relation}"
    where = conditions(scan, column)
    return Query(f"{text} WHERE {' AND '.join(where)}" if where else text, tables)


def _base(
    source: ParquetSource | ArrowSource, names: list[str], prefix: str, joined: bool
) -> tuple[str, dict[str, str], dict[str, pa.Table]]:
    """Return what stands after FROM, the SQL of each column of the base by its name, and the tables to register."""
    plain = {name: f"e.{quote_name(name)}" for name in names}
    if isinstance(source, ArrowSource):
        name = f"{prefix}_entries"
        return f"{quote_name(name)} AS e", plain, {name: _without_half(source.table)}
    files = f"read_parquet([{', '.join(map(quote_literal, source.paths))}], hive_partitioning = false) AS e"
    derived = {name: sql for name, sql in source.columns if sql not in (name, quote_name(name))}
    if joined and derived:
        # Beside the columns of joined tables, expressions over the columns of files need a level of their own; alone
        # they do not, and filters are pushed down through one level better than through two.
        columns = ", ".join(f"{expression} AS {quote_name(name)}" for name, expression in source.columns)
        return f"(SELECT {columns} FROM {files}) AS e", plain, {}
    return files, plain | derived, {}


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
        value = f"CAST(value AS {_SQL_TYPES[out.dtype.name]})"
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
