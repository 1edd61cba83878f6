"""Plans told to people: the tree, the engine of each step, the predicate that reaches a scan and what it skips."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable

import pyarrow as pa

from sparrow import settings
from sparrow.engines import stream
from sparrow.engines.choose import engine_for, groups_output, product_order, scan_order
from sparrow.engines.predicate import conditions
from sparrow.index import Box
from sparrow.kernels.entries import Block
from sparrow.plan import Contract, Dense, Node, Scan
from sparrow.relation import ArrowSource, Chunk, ParquetSource, Relation, ScanStats
from sparrow.schema import Schema

__all__ = ["explain"]


def explain(node: Node, analyze: bool = False) -> str:
    """Return the plan of a node as text: each step with its engine, under it what it takes in.

    Looks at the log and at the footers of files, not at data. The result of ``analyze`` is thrown away.

    Parameters
    ----------
    analyze
        Run it, and count the rows and bytes read and the time.
    """
    scan = node if isinstance(node, Scan) else node.operands[0] if isinstance(node, Contract) else None
    order = None if scan is None else product_order(scan) if isinstance(node, Contract) else scan_order(scan)
    lines = _node(node, order)
    if analyze and scan is not None:
        lines.append(_run(node, scan))
    return "\n".join(lines)


def _node(node: Node, order: tuple[int, ...] | None) -> list[str]:
    """Return the lines of a node and, indented, of those below it."""
    if isinstance(node, Dense):
        return [f"dense {_shape(node.schema)}, in memory"]
    if isinstance(node, Scan):
        assert order is not None
        return _scan(node, order, "" if node.view.keeps_order(order) else "; the view's own order takes a sort")
    scan, _ = node.operands
    assert order is not None
    threads = settings.current().threads
    if groups_output(scan.view, order):
        how = f"sum runs of equal rows, {threads} threads"
    else:
        how = f"add entry by entry in scan order, decoded on {threads} threads"
    lines = [f"matmul {_shape(node.schema)}", f"  engine      {engine_for('auto')}: {how}"]
    for side in (node.left, node.right):
        below = _scan(side, order, "") if isinstance(side, Scan) else _node(side, None)
        lines += ["  " + line for line in below]
    return lines


def _scan(scan: Scan, order: tuple[int, ...], sort: str) -> list[str]:
    relation, view, base = scan.relation, scan.view, scan.relation.schema
    where = "in memory" if relation.version is None else f"stored, version {relation.version}"
    lines = [f"scan {_shape(scan.schema)}, of {_shape(base)} {where}"]
    if view.size == 0:
        return [*lines, "  engine      none: the view has no cells, nothing is read"]
    stats = relation.stats(view.box(), order)
    lines.append(f"  engine      {engine_for('auto')}")
    lines.append(f"  predicate   {_predicate(scan)}")
    lines.append(f"  order       {', '.join(base.dims[dim] for dim in order) or 'none'}{sort}")
    if stats.files:
        lines.append(f"  files       {_of(stats.files_read, stats.files)}")
        lines.append(f"  row groups  {_of(stats.row_groups_read, stats.row_groups)}")
    lines.append(f"  rows        {_of(stats.rows, relation.nnz)}, {_bytes(stats.nbytes)}")
    return lines


def _predicate(scan: Scan) -> str:
    view, dims = scan.view, scan.relation.schema.dims
    found = conditions(scan, lambda dim: dims[dim])
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


def _run(node: Node, scan: Scan) -> str:
    """Run a node on a relation that counts, and return what was counted."""
    counting = _Counting(scan.relation)
    start = time.perf_counter()
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

    def read(self, chunk: Chunk) -> Block:
        block = self._relation.read(chunk)
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
