"""The DuckDB engine: what a query yields, as entries, counts and products.

A plan is compiled to one query: scans by :mod:`~sparrow.engines.duckdb.scans`, steps by
:mod:`~sparrow.engines.duckdb.steps`. The joins of products are the texts in ``sql/duckdb``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.engines.duckdb.scans import compile_scan
from sparrow.engines.duckdb.steps import COMPILERS, DECLINED, Query, unsupported_reason
from sparrow.engines.duckdb.types import sql_type
from sparrow.engines.fallback import lower_with_fallback
from sparrow.errors import UnsupportedError
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.plan import Accumulate, DenseContraction, Map, MatMulDense, Node, Reduce, Root, Scan
from sparrow.runtime import duckdb_connection, memory
from sparrow.runtime.duckdb_connection import quote_name
from sparrow.runtime.resources import sql_text

if TYPE_CHECKING:
    import duckdb

__all__ = ["DuckDB", "compile_query", "register_select"]

_names = itertools.count()


class DuckDB:
    """Plans as SQL."""

    name = "duckdb"
    max_depth: int | None = 40

    def check(self) -> None:
        """Do nothing: DuckDB is always there."""

    def unsupported_reason(self, node: Root) -> str | None:
        """Return why SQL does not give what NumPy does, whatever stands below; None where it does."""
        if isinstance(node, MatMulDense):
            return _product_declines(node)
        if isinstance(node, Map) and node.is_dense:
            return "SQL gives entries, and this is an array"
        return unsupported_reason(node) if isinstance(node, Node) else None

    def support(self, kind: type[Any]) -> tuple[str, str]:
        """Return how SQL stands to a kind of node."""
        if kind in DECLINED:
            return DECLINED[kind]
        partly = kind in COMPILERS or kind is MatMulDense
        return ("partly", "by types and functions") if partly else ("notimpl", "no compiler")

    def entries(self, scan: Scan) -> Block:
        """Return all entries of a scan, canonical in the order of the view's axes."""
        schema = scan.schema
        blocks = []
        remedy = "read them in pieces with to_batches(), take a smaller view"
        with memory.reserve(0, f"the entries of shape {schema.shape}", remedy) as room:
            for block in self.blocks(scan):
                room.grow(block.nbytes)
                blocks.append(block)
        if blocks:
            return concat_blocks(blocks, schema.ndim, schema.dtype)
        dtypes = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)]
        return Block(tuple(np.zeros(0, dtype) for dtype in dtypes), np.zeros(0, schema.dtype))

    def blocks(self, scan: Scan) -> Iterator[Block]:
        """Yield all entries of a scan in canonical blocks, in the order of the view's axes."""
        schema = scan.schema
        dtypes = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)]
        con = duckdb_connection.connect()
        with duckdb_connection.translate_errors():
            text = _registered(compile_scan(scan, f"sparrow:{next(_names)}"), con)
            if schema.ndim:
                text = f"SELECT * FROM ({text}) ORDER BY {', '.join(map(str, range(1, schema.ndim + 1)))}"
            for batch in duckdb_connection.stream_batches(con, text):
                columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
                coords = tuple(column.astype(dtype, copy=False) for column, dtype in zip(columns, dtypes, strict=False))
                if schema.dtype.kind != "c":
                    yield Block(coords, columns[-1].astype(schema.dtype, copy=False))
                    continue
                values = np.empty(len(columns[-1]), schema.dtype)
                values.real, values.imag = columns[-2:]
                yield Block(coords, values)

    def count(self, scan: Scan) -> int:
        """Return the number of entries of a scan."""
        con = duckdb_connection.connect()
        with duckdb_connection.translate_errors():
            text = _registered(compile_scan(scan, f"sparrow:{next(_names)}"), con)
            return sum(
                batch[0][0].as_py() for batch in duckdb_connection.stream_batches(con, f"SELECT count(*) FROM ({text})")
            )

    def scalars(self, nodes: Sequence[Reduce]) -> list[Any]:
        """Return reductions over all axes, each by a query."""
        found = []
        for node in nodes:
            block = self.entries(Scan(node, View.identity(()), node.schema))
            found.append(block.values[0] if block.count else node.schema.fill_value)
        return found

    def array(self, node: MatMulDense | DenseContraction | Accumulate | Map) -> Any:
        """Return a product by a join on the contracted coordinate.

        Raises
        ------
        UnsupportedError
            If it is no product, a type is complex or float16, the fill is not 0, or the sums of integers could pass
            128 bits.
        TooLargeError
            If the dense result would pass the memory limit.
        """
        reason = self.unsupported_reason(node)
        if reason is not None or not isinstance(node, MatMulDense):
            raise UnsupportedError(f"engine='duckdb': {reason}: use engine='stream'")
        return _matmul(node)

    def describe(self, node: Root) -> str:
        """Return how it runs a node, in a few words for people."""
        return "join on the contracted coordinate, summed by groups" if isinstance(node, MatMulDense) else ""


def compile_query(scan: Scan, prefix: str = "sparrow") -> Query:
    """Return the query of any scan: what SQL does not run of its plan is computed and handed over."""
    return compile_scan(lower_with_fallback(_ENGINE, [scan])[0], prefix)


def register_select(scan: Scan, con: duckdb.DuckDBPyConnection) -> str:
    """Return the SELECT of any scan, its tables registered with the connection under names of their own."""
    return _registered(compile_query(scan, f"sparrow:{next(_names)}"), con)


_ENGINE = DuckDB()


def _registered(query: Query, con: duckdb.DuckDBPyConnection) -> str:
    for name, table in query.tables.items():
        con.register(name, table)
    return query.text


def _product_declines(contract: MatMulDense) -> str | None:
    """Return why no join gives what NumPy's product does."""
    scan, x = contract.operands
    for dtype in (scan.schema.dtype, x.dtype, contract.schema.dtype):
        if dtype.kind == "c" or dtype == np.float16:
            return f"SQL has no {dtype}"
    if scan.schema.fill_value != 0:
        return f"a join multiplies stored entries only, and here absent cells are {scan.schema.fill_value}"
    if contract.schema.dtype.kind in "biu" and x.size:
        largest = int(max(abs(int(x.min())), abs(int(x.max()))))
        # Of a step the number of entries shows only when it is computed; there are no more than cells.
        entries = min(scan.schema.size, 2**62) if scan.step is not None else scan.relation.nnz
        if entries * largest >= 2**62:
            return "sums of products of this many entries with integers this large could pass 128 bits"
    return None


def _matmul(contract: MatMulDense) -> Any:
    """Return the product. Integers are summed in 128 bits and reduced modulo 2^64: overflow gives NumPy's result."""
    scan, x = contract.operands
    result = contract.schema.dtype
    whole = result.kind in "biu"
    shape = contract.schema.shape
    memory.check(
        math.prod(shape) * result.itemsize, f"the dense result of shape {shape} and type {result}", "multiply a part"
    )
    height = 1 if scan.view.ndim == 1 else scan.view.shape[0]
    out = np.zeros((height, *x.shape[1:]), np.int64 if whole else result)
    if out.size and scan.view.size:
        with duckdb_connection.translate_errors():
            _join(scan, x if whole else x.astype(result), out, whole)
    out = out != 0 if result.kind == "b" else out.astype(result, copy=False)
    if scan.view.ndim == 1:
        out = out[0]
    return out.T if contract.flipped else out


def _join(scan: Scan, x: NDArray[Any], out: NDArray[Any], whole: bool) -> None:
    """Write ``scan @ x`` into ``out``, both (n,) or (n, k); cells without entries stay as they are."""
    con = duckdb_connection.connect()
    names = [quote_name(name) for name in scan.schema.dims]
    row, col = ("CAST(0 AS INTEGER)", names[0]) if scan.view.ndim == 1 else names
    value = "value"
    if whole:
        value = "CAST(value AS HUGEINT)"
    elif scan.schema.dtype != out.dtype:
        value = f"CAST(value AS {sql_type(out.dtype)})"
    con.execute(
        f"CREATE TEMP VIEW a AS SELECT {row} AS i, {col} AS j, {value} AS value FROM ({register_select(scan, con)})"
    )
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
    for batch in duckdb_connection.stream_batches(con, text):
        rows = batch.column(0).to_numpy()
        for k in range(1, batch.num_columns):
            column = batch.column(k).to_numpy()
            if whole:
                column = column.view(np.int64)
            target = out if out.ndim == 1 else out[:, k - 1]
            target[rows] = column
