"""DuckDB engine: runs the query of a plan.

Scans are compiled by :mod:`~sparrow.engines.duckdb.scans`, nodes by :mod:`~sparrow.engines.duckdb.steps`; the joins of
products are the files in ``sql/duckdb``.
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
from sparrow.engines.duckdb.steps import COMPILERS, UNSUPPORTED, Query, unsupported_reason
from sparrow.engines.duckdb.tuning import tuning
from sparrow.engines.duckdb.types import sql_type
from sparrow.engines.fallback import lower_with_fallback
from sparrow.errors import UnsupportedError
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.plan import Contraction, MatrixForm, Node, Reduce, Root, Scan, is_sampled, matrix_form
from sparrow.runtime import duckdb_connection, memory
from sparrow.runtime.duckdb_connection import quote_name
from sparrow.runtime.events import emit
from sparrow.runtime.resources import sql_text

if TYPE_CHECKING:
    import duckdb

__all__ = ["DuckDB", "compile_query", "register_select"]

_names = itertools.count()


class DuckDB:
    """Engine that compiles plans to SQL."""

    name = "duckdb"
    reads_chunks = False
    max_operands: int | None = 2

    @property
    def max_depth(self) -> int | None:
        """Nesting beyond which DuckDB's planner slows down."""
        return tuning().max_nested_nodes

    @property
    def max_scans(self) -> int | None:
        """Scans of a query beyond which DuckDB's planner slows down."""
        return tuning().max_scans

    def check(self) -> None:
        """Do nothing: DuckDB is a required dependency."""

    def unsupported_reason(self, node: Root) -> str | None:
        """Return why SQL does not reproduce NumPy's result of a node, or None."""
        form = matrix_form(node) if isinstance(node, Contraction) else None
        if form is not None:
            return _matmul_unsupported_reason(form, node.schema.dtype)
        if not isinstance(node, Node):
            return None
        if isinstance(node, Contraction) and is_sampled(node):
            return "SQL would join arrays as tables"
        if isinstance(node, Contraction) and node.topk is not None:
            return "window functions would sort each row"
        known = type(node) in UNSUPPORTED
        return "SQL returns rows, not an array" if node.is_dense and not known else unsupported_reason(node)

    def support(self, node_type: type[Any]) -> tuple[str, str]:
        """Return the support for a type of nodes, and a reason."""
        if node_type in UNSUPPORTED:
            return UNSUPPORTED[node_type]
        return ("partly", "by dtype and function") if node_type in COMPILERS else ("notimpl", "no compiler")

    def evaluate(self, scan: Scan) -> Block:
        """Return all elements of a scan, canonical in the order of the view's axes."""
        schema = scan.schema
        blocks = []
        remedy = "read them in pieces with to_batches(), take a smaller view"
        with memory.reserve(0, f"the elements of shape {schema.shape}", remedy) as room:
            for block in self.iter_blocks(scan):
                room.grow(block.nbytes)
                blocks.append(block)
        if blocks:
            return concat_blocks(blocks, schema.ndim, schema.dtype)
        dtypes = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)]
        return Block(tuple(np.zeros(0, dtype) for dtype in dtypes), np.zeros(0, schema.dtype))

    def iter_blocks(self, scan: Scan) -> Iterator[Block]:
        """Yield the elements of a scan in canonical blocks, in the order of its axes."""
        schema = scan.schema
        dtypes = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)]
        con = duckdb_connection.connect()
        with duckdb_connection.translate_errors():
            text = _register(compile_scan(scan, f"sparrow:{next(_names)}"), con)
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

    def count_nnz(self, scan: Scan) -> int:
        """Return the number of stored elements of a scan."""
        con = duckdb_connection.connect()
        with duckdb_connection.translate_errors():
            text = _register(compile_scan(scan, f"sparrow:{next(_names)}"), con)
            return sum(
                batch[0][0].as_py() for batch in duckdb_connection.stream_batches(con, f"SELECT count(*) FROM ({text})")
            )

    def reduce_all(self, nodes: Sequence[Reduce]) -> list[Any]:
        """Return reductions over all axes, each by one query."""
        found = []
        for node in nodes:
            block = self.evaluate(Scan(node, View.identity(()), node.schema))
            found.append(block.values[0] if block.count else node.schema.fill_value)
        return found

    def evaluate_dense(self, node: Node) -> Any:
        """Return a matrix product by a join on the contracted coordinate.

        Raises
        ------
        UnsupportedError
            If it is another node, a dtype is complex or float16, the fill is not 0, or sums of integers could exceed
            128 bits.
        TooLargeError
            If the result would exceed the memory limit.
        """
        reason = self.unsupported_reason(node)
        form = matrix_form(node) if isinstance(node, Contraction) else None
        if reason is not None or form is None:
            raise UnsupportedError(f"engine='duckdb': {reason}: use engine='stream'")
        return _matmul(form, node.schema.shape, node.schema.dtype)

    def describe(self, node: Root) -> str:
        """Return the physical strategy for a node."""
        return "join on the contracted coordinates, summed by groups" if isinstance(node, Contraction) else ""


def compile_query(scan: Scan, prefix: str = "sparrow") -> Query:
    """Return the query of a scan; unsupported nodes fall back."""
    return compile_scan(lower_with_fallback(_ENGINE, [scan])[0], prefix)


def register_select(scan: Scan, con: duckdb.DuckDBPyConnection) -> str:
    """Register the tables of a scan with a connection and return its SELECT."""
    return _register(compile_query(scan, f"sparrow:{next(_names)}"), con)


_ENGINE = DuckDB()


def _register(query: Query, con: duckdb.DuckDBPyConnection) -> str:
    """Register the tables of a query with a connection and return its text."""
    emit("duckdb.register", tables=query.tables)
    for name, table in query.tables.items():
        con.register(name, table)
    return query.text


def _matmul_unsupported_reason(form: MatrixForm, result: np.dtype[Any]) -> str | None:
    """Return why a join does not reproduce NumPy's product, None if it does."""
    scan, x = form.scan, form.array
    for dtype in (scan.schema.dtype, x.dtype, result):
        if dtype.kind == "c" or dtype == np.float16:
            return f"SQL has no {dtype}"
    if scan.schema.fill_value != 0:
        return f"a join multiplies stored elements only, and absent elements are {scan.schema.fill_value}"
    if result.kind in "biu" and x.size:
        largest = int(max(abs(int(x.min())), abs(int(x.max()))))
        # The nnz of a node is known only when it is computed; it is at most the size.
        nnz = min(scan.schema.size, 2**62) if scan.step is not None else scan.relation.nnz
        if nnz * largest >= 2**62:
            return "sums of products of this many elements and integers this large could exceed 128 bits"
    return None


def _matmul(form: MatrixForm, shape: tuple[int, ...], result: np.dtype[Any]) -> Any:
    """Return the product; integers are summed in 128 bits, modulo 2^64."""
    scan, x = form.scan, form.array
    is_integer = result.kind in "biu"
    memory.check(
        math.prod(shape) * result.itemsize, f"the dense result of shape {shape} and type {result}", "multiply a part"
    )
    height = 1 if scan.view.ndim == 1 else scan.view.shape[0]
    out = np.zeros((height, *x.shape[1:]), np.int64 if is_integer else result)
    if out.size and scan.view.size:
        with duckdb_connection.translate_errors():
            _join(scan, x if is_integer else x.astype(result), out, is_integer)
    out = out != 0 if result.kind == "b" else out.astype(result, copy=False)
    if scan.view.ndim == 1:
        out = out[0]
    return out.T if form.transposed else out


def _join(scan: Scan, x: NDArray[Any], out: NDArray[Any], is_integer: bool) -> None:
    """Write the non-empty rows of ``scan @ x``, shape (n,) or (n, k), to ``out``."""
    con = duckdb_connection.connect()
    names = [quote_name(name) for name in scan.schema.dims]
    row, col = ("CAST(0 AS INTEGER)", names[0]) if scan.view.ndim == 1 else names
    value = "value"
    if is_integer:
        value = "CAST(value AS HUGEINT)"
    elif scan.schema.dtype != out.dtype:
        value = f"CAST(value AS {sql_type(out.dtype)})"
    select = register_select(scan, con)
    con.execute(f"CREATE TEMP VIEW a AS SELECT {row} AS i, {col} AS j, {value} AS value FROM ({select})")
    at = scan.schema.coordinate_dtype(scan.view.ndim - 1)
    operand: dict[str, NDArray[Any]] = {"j": np.arange(len(x), dtype=at)}
    x = x.astype(np.int8 if x.dtype == bool else x.dtype.newbyteorder("="), copy=False)
    if x.ndim == 1:
        operand["value"] = np.ascontiguousarray(x)
    else:
        operand |= {f"v{k}": np.ascontiguousarray(x[:, k]) for k in range(x.shape[1])}
    con.register("x", pa.table(operand))
    text = sql_text("duckdb", "spmv" if x.ndim == 1 else "spmm")
    if is_integer:
        con.execute(f"CREATE TEMP VIEW product AS {text}")
        text = sql_text("duckdb", "modulo64")
    for batch in duckdb_connection.stream_batches(con, text):
        rows = batch.column(0).to_numpy()
        for k in range(1, batch.num_columns):
            column = batch.column(k).to_numpy()
            if is_integer:
                column = column.view(np.int64)
            target = out if out.ndim == 1 else out[:, k - 1]
            target[rows] = column
