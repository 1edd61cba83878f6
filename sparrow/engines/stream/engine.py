"""The stream engine as the registry knows it: each terminal lowers a plan and reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparrow.engines.sort_orders import groups_output, product_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.elementwise.map import evaluate_dense
from sparrow.engines.stream.planner import BUILDERS, lower
from sparrow.engines.stream.product.dense import matmul_dense
from sparrow.engines.stream.product.dense_contraction import contract_dense
from sparrow.engines.stream.reductions import scalars
from sparrow.engines.stream.sort import accumulated
from sparrow.errors import UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.plan import Accumulate, Dense, DenseContraction, Map, MatMulDense, Node, Reduce, Root, Scan
from sparrow.relations.csr import csr_rows
from sparrow.runtime import settings

__all__ = ["Stream"]

ARRAYS: dict[type[Any], Callable[..., Any]] = {
    MatMulDense: lambda node, scan: matmul_dense(node.with_inputs([scan])),
    Accumulate: accumulated,
    DenseContraction: contract_dense,
    Map: lambda node, *scans: evaluate_dense(node.with_inputs(scans)),
}
"""What computes nodes that are dense by nature, of the node and its scans of relations."""


class Stream:
    """Everything there is, chunk by chunk."""

    name = "stream"
    reads_chunks = True
    max_depth: int | None = None

    def check(self) -> None:
        """Do nothing: all that it computes with is there."""

    def unsupported_reason(self, node: Root) -> str | None:
        """Return None: it takes every node that there is, and names one that there is not."""
        if isinstance(node, Scan | Dense) or self.support(type(node))[0] == "yes":
            return None
        return f"engine='stream' has no implementation of {type(node).__name__}"

    def support(self, kind: type[Any]) -> tuple[str, str]:
        """Return whether it runs a kind of node."""
        known = kind in (*BUILDERS, *ARRAYS, Reduce)
        return ("yes", "") if known else ("notimpl", "no function in the tables of lowering and engine")

    def evaluate(self, scan: Scan, own: bool = True) -> Block:
        """Return all entries of a scan, canonical, in memory; the caller's to keep and to write to, if ``own``."""
        return scan_reader.read_block(lower([scan])[0] if isinstance(scan.source, Node) else scan, own=own)

    def iter_blocks(self, scan: Scan) -> Iterator[Block]:
        """Yield all entries of a scan in canonical blocks, sorted by its axes, within the memory limit."""
        yield from scan_reader.iter_sorted_blocks(*lower([scan]))

    def evaluate_element(self, scan: Scan) -> Any:
        """Return the one cell that a scan without axes shows."""
        return scan_reader.read_element(*lower([scan]))

    def iter_unsorted(self, scan: Scan, axes: Sequence[int] | None = None) -> Iterator[Block]:
        """Yield the entries of a scan in any order; only the coordinates along ``axes`` are wanted, all by default."""
        yield from scan_reader.iter_blocks(lower([scan])[0], axes=axes)

    def count_nnz(self, scan: Scan) -> int:
        """Return the number of entries of a scan."""
        return scan_reader.count_nnz(*lower([scan]))

    def reduce_all(self, nodes: Sequence[Reduce]) -> list[Any]:
        """Return reductions over all axes of one scan."""
        return scalars(nodes, *lower(nodes[0].scans))

    def evaluate_dense(self, node: Node) -> Any:
        """Return the result of a node that is dense by nature."""
        if type(node) not in ARRAYS:
            raise UnsupportedError(
                str(self.unsupported_reason(node) or f"{type(node).__name__} gives entries, no array")
            )
        return ARRAYS[type(node)](node, *lower(node.scans))

    def describe(self, node: Root) -> str:
        """Return how it runs a node, in a few words for people; nothing where there is nothing to say."""
        threads = settings.current().threads
        if isinstance(node, MatMulDense):
            scan = node.operands[0]
            if scan.step is None and csr_rows(scan.relation, scan.view) is not None:
                return f"rows of a persisted matrix, {threads} threads"
            order = tuple(range(scan.source.schema.ndim)) if scan.step is not None else product_order(scan)
            if groups_output(scan.view, order):
                return f"sum runs of equal rows, {threads} threads"
            return f"add entry by entry in scan order, decoded on {threads} threads"
        return ""
