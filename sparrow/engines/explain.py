"""Plans told to people: the tree, the engine of each step, the predicate that reaches a scan and what it skips."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Sequence
from typing import Any

import pyarrow as pa

from sparrow import settings
from sparrow.engines import duckdb, stream
from sparrow.engines.choose import engine_for, groups_output, product_order, scan_order
from sparrow.engines.derived import Derived
from sparrow.engines.predicate import conditions
from sparrow.engines.pushdown import step_of
from sparrow.engines.sql import declines
from sparrow.index import Box, View
from sparrow.kernels.entries import Block
from sparrow.plan import (
    Concat,
    Contract,
    Dense,
    Diagonal,
    Map,
    Node,
    Reduce,
    Scan,
    Step,
    Triangle,
    function_name,
    operands_of,
)
from sparrow.relation import ArrowSource, Chunk, ParquetSource, Relation, ScanStats
from sparrow.schema import Schema

__all__ = ["explain"]


def explain(node: Node, analyze: bool = False, engine: str = "auto") -> str:
    """Return the plan of a node as text: each step with its engine, under it what it takes in.

    Looks at the log and at the footers of files, not at data. The result of ``analyze`` is thrown away.

    Parameters
    ----------
    analyze
        Run it, and count the rows and bytes read and the time.
    engine
        The engine that would be asked for; a step that it declines says why, and which engine runs it.

    Raises
    ------
    InvalidValueError, UnsupportedError
        If there is no such engine.
    """
    chosen = engine_for(engine)
    scan = node if isinstance(node, Scan) else node.operands[0] if isinstance(node, Contract) else None
    if isinstance(node, Contract):
        lines = _contract(node, chosen)
    elif isinstance(node, Scan):
        lines = _operand(node, chosen, scan_order(node), sorts=True)
    else:
        lines = _operand(node, chosen)
    if analyze and scan is not None:
        lines.append(_run(node, scan, chosen))
    return "\n".join(lines)


def _contract(node: Contract, engine: str) -> list[str]:
    scan, _ = node.operands
    order = product_order(scan)
    threads = settings.current().threads
    if engine == "duckdb":
        how = "join on the contracted coordinate, summed by groups"
    elif groups_output(scan.view, order):
        how = f"sum runs of equal rows, {threads} threads"
    else:
        how = f"add entry by entry in scan order, decoded on {threads} threads"
    lines = [f"matmul {_shape(node.schema)}", f"  engine      {engine}: {how}"]
    for side in (node.left, node.right):
        lines += ["  " + line for line in _operand(side, engine, order)]
    return lines


def _operand(node: Any, engine: str, order: tuple[int, ...] | None = None, sorts: bool = False) -> list[str]:
    """Return the lines of an operand and, indented, of those below it.

    Parameters
    ----------
    order
        The sort order in which a scan reads; its cheapest by default.
    sorts
        Whether the entries are wanted in the order of the view's axes.
    """
    if isinstance(node, Dense):
        return [f"dense {_shape(node.schema)}, in memory"]
    if not isinstance(node, Scan):
        return [f"scalar {node!r}"]
    if node.view.size == 0:
        return [_head(node), "  engine      none: the view has no cells, nothing is read"]
    found = step_of(node, leading=engine == "stream")
    if found is not None:
        return _step(node, *found, engine)
    order = scan_order(node) if order is None else order
    sort = "; the view's own order takes a sort" if sorts and not node.view.keeps_order(order) else ""
    return _scan(node, engine, order, sort)


def _step(scan: Scan, step: Step, rest: View, engine: str) -> list[str]:
    """Return the lines of a scan of an expression: its last step, under what the view still does to the result."""
    reason = declines(step) if engine == "duckdb" else None
    runs = "stream" if reason else engine
    lines = [f"{_what(step)} {_shape(step.schema)}"]
    lines.append(f"  engine      {runs}" + (f": {reason}; its entries are handed over to duckdb" if reason else ""))
    if isinstance(step, Map) and len(step.scans) > 1:
        needed = [str(number) for number, needs in enumerate(step.required, 1) if needs]
        cells = "an intersection" if all(step.required) else f"where operand {' and '.join(needed)} has an entry"
        lines.append(f"  cells       {cells if needed else 'a union'}")
    for below in operands_of(step):
        lines += ["  " + line for line in _operand(below, runs)]
    if rest.is_identity:
        return lines
    shown = Scan(scan.relation, rest, scan.schema)
    head = [f"view {_shape(scan.schema)}", f"  engine      {engine}", f"  predicate   {_predicate(shown, step.schema)}"]
    return head + ["  " + line for line in lines]


def _what(step: Step) -> str:
    """Return the name of a step and what it is done with."""
    if isinstance(step, Map):
        return f"map {function_name(step.function)}"
    if isinstance(step, Reduce):
        dims = [name for axis, name in enumerate(step.operand.schema.dims) if axis not in step.axes]
        return f"reduce {step.name} over {', '.join(dims) or 'no axis'}{' of stored entries' if step.stored else ''}"
    if isinstance(step, Concat):
        return f"concat along {step.schema.dims[step.axis]}"
    if isinstance(step, Triangle):
        return f"triangle {'from' if step.upper else 'up to'} diagonal {step.k}"
    return f"diagonal {step.offset}" if isinstance(step, Diagonal) else "reshape"


def _head(scan: Scan) -> str:
    relation = scan.relation
    where = "in memory" if relation.version is None else f"stored, version {relation.version}"
    if isinstance(relation, Derived):
        where = "computed"
    return f"scan {_shape(scan.schema)}, of {_shape(relation.schema)} {where}"


def _scan(scan: Scan, engine: str, order: tuple[int, ...], sort: str) -> list[str]:
    relation, view, base = scan.relation, scan.view, scan.relation.schema
    stats = relation.stats(view.box(), order)
    computed = isinstance(relation, Derived)
    handed = ": handed over to duckdb" if computed and engine == "duckdb" else ""
    lines = [_head(scan), f"  engine      {'stream' if computed else engine}{handed}"]
    lines.append(f"  predicate   {_predicate(scan, base)}")
    lines.append(f"  order       {', '.join(base.dims[dim] for dim in order) or 'none'}{sort}")
    if stats.files:
        lines.append(f"  files       {_of(stats.files_read, stats.files)}")
        lines.append(f"  row groups  {_of(stats.row_groups_read, stats.row_groups)}")
    rows = f"at most {stats.rows} of its operands" if computed else _of(stats.rows, relation.nnz)
    lines.append(f"  rows        {rows}, {_bytes(stats.nbytes)}")
    return lines


def _predicate(scan: Scan, base: Schema) -> str:
    view, dims = scan.view, base.dims
    found = conditions(view, lambda dim: dims[dim])
    for group in view.points:
        names = ", ".join(dims[dim] for dim in group.dims)
        names = f"({names})" if len(group.dims) != 1 else names
        found.append(f"{names} IN a list of {group.count}")
    return " AND ".join(found) or "none: everything is read"


def _of(read: int, total: int) -> str:
    return f"{read} of {total} read, {total - read} skipped"


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def _shape(schema: Schema) -> str:
    return f"({', '.join(f'{name}: {n}' for name, n in zip(schema.dims, schema.shape, strict=True))}) {schema.dtype}"


def _run(node: Node, scan: Scan, engine: str) -> str:
    """Run a node on a relation that counts, and return what was counted."""
    start = time.perf_counter()
    if engine == "duckdb" or isinstance(scan.relation, Derived):
        run = duckdb if engine == "duckdb" else stream
        if isinstance(node, Contract):
            run.matmul(node)
        entries = f"dense {_shape(node.schema)}" if isinstance(node, Contract) else f"{run.entries(scan).count} entries"
        return f"analyzed: {entries}, {1000 * (time.perf_counter() - start):.1f} ms"
    counting = _Counting(scan.relation)
    if isinstance(node, Contract):
        left, right = (Scan(counting, side.view, side.schema) if isinstance(side, Scan) else side
                       for side in (node.left, node.right))  # fmt: skip
        stream.matmul(Contract(left, right))
        result = f"dense {_shape(node.schema)}"
    else:
        result = f"{sum(block.count for block in stream.blocks(Scan(counting, scan.view, scan.schema)))} entries"
    seconds = time.perf_counter() - start
    decoded = f"{counting.read_rows} rows, {_bytes(counting.read_bytes)} decoded in {counting.read_chunks} chunks"
    return f"analyzed: {result} from {decoded}, {1000 * seconds:.1f} ms"


class _Counting:
    """A relation that counts what is read from another."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._lock = threading.Lock()
        self.read_rows = self.read_bytes = self.read_chunks = 0

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        block = self._relation.read(chunk, dims)
        with self._lock:
            self.read_chunks += 1
            self.read_rows += block.count
            self.read_bytes += block.values.nbytes + sum(column.nbytes for column in block.coords)
        return block

    @property
    def schema(self) -> Schema:
        return self._relation.schema

    @property
    def token(self) -> Hashable:
        return self._relation.token

    @property
    def nnz(self) -> int:
        return self._relation.nnz

    @property
    def nbytes(self) -> int:
        return self._relation.nbytes

    @property
    def version(self) -> int | None:
        return self._relation.version

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        return self._relation.orders

    def labels(self, dim: int) -> pa.Array | None:
        return self._relation.labels(dim)

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        return self._relation.chunks(box, order)

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        return self._relation.stats(box, order)

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ParquetSource | ArrowSource:
        return self._relation.source(box, order)
