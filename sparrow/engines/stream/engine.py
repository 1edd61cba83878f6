"""The stream engine: lowers a plan to physical operators and reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparrow.engines.profile import active
from sparrow.engines.sort_orders import scan_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.elementwise.map import evaluate_dense
from sparrow.engines.stream.planner import BUILDERS, lower
from sparrow.engines.stream.product.dense import contract_dense, matmul_dense
from sparrow.engines.stream.product.physical import estimate_node_costs, plan_node
from sparrow.engines.stream.reductions import scalars
from sparrow.engines.stream.structural import accumulate
from sparrow.errors import UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.plan import Accumulate, Contraction, Dense, Map, Node, Reduce, Root, Scan, matrix_form
from sparrow.plan.estimates import estimate_contraction
from sparrow.runtime import settings

__all__ = ["Stream"]

ARRAYS: dict[type[Any], Callable[..., Any]] = {
    Contraction: lambda node, scan: _contract(node.with_inputs([scan]), scan),
    Accumulate: accumulate,
    Map: lambda node, *scans: evaluate_dense(node.with_inputs(scans)),
}
"""Functions that compute nodes with dense results, given the node and its scans of relations."""


def _contract(node: Contraction, scan: Scan) -> Any:
    """Return a contraction of a scan and arrays, profiled if a profile is active."""
    profile = active()
    form = matrix_form(node)
    if profile is None:
        return contract_dense(node, scan) if form is None else matmul_dense(form, node.schema.dtype)
    counters = profile.operator(node)
    with counters.measure():
        found = contract_dense(node, scan) if form is None else matmul_dense(form, node.schema.dtype)
    arrays = sum(each.array.nbytes for each in node.operands if isinstance(each, Dense))
    read = scan.relation.stats(scan.view.box(), scan_order(scan)).rows
    counters.record(rows=found.size, bytes=found.nbytes, flops=round(estimate_contraction(node)[0]))
    counters.record_state(held_bytes=arrays + found.nbytes, spilled_bytes=0, elements_read=read)
    return found


class Stream:
    """Engine that evaluates every node, in chunks, on threads."""

    name = "stream"
    reads_chunks = True
    max_operands: int | None = None
    max_depth: int | None = None
    max_scans: int | None = None

    def check(self) -> None:
        """Do nothing: the engine has no optional dependencies."""

    def unsupported_reason(self, node: Root) -> str | None:
        """Return why a node is not supported: only unknown kinds of nodes are not."""
        if isinstance(node, Scan | Dense) or self.support(type(node))[0] == "yes":
            return None
        return f"engine='stream' has no implementation of {type(node).__name__}"

    def support(self, kind: type[Any]) -> tuple[str, str]:
        """Return whether a kind of node is supported, and why not."""
        known = kind in (*BUILDERS, *ARRAYS, Reduce)
        return ("yes", "") if known else ("notimpl", "no operator or function computes it")

    def evaluate(self, scan: Scan, own: bool = True) -> Block:
        """Return all elements of a scan; the caller owns the arrays if ``own``."""
        plain = not isinstance(scan.source, Node) and not scan.view.points
        return scan_reader.read_block(scan if plain else lower([scan])[0], own=own)

    def iter_blocks(self, scan: Scan) -> Iterator[Block]:
        """Yield all elements of a scan in canonical blocks, sorted by its axes."""
        yield from scan_reader.iter_sorted_blocks(*lower([scan]))

    def evaluate_element(self, scan: Scan) -> Any:
        """Return the only element of a scan without axes."""
        return scan_reader.read_element(*lower([scan]))

    def iter_unsorted(self, scan: Scan, axes: Sequence[int] | None = None) -> Iterator[Block]:
        """Yield the elements of a scan in any order, with coordinates along ``axes``."""
        yield from scan_reader.iter_blocks(lower([scan])[0], axes=axes)

    def count_nnz(self, scan: Scan) -> int:
        """Return the number of stored elements of a scan."""
        return scan_reader.count_nnz(*lower([scan]))

    def reduce_all(self, nodes: Sequence[Reduce]) -> list[Any]:
        """Return reductions over all axes of one scan."""
        return scalars(nodes, *lower(nodes[0].scans))

    def evaluate_dense(self, node: Node) -> Any:
        """Return the dense result of a node."""
        if type(node) not in ARRAYS or not node.is_dense:
            raise UnsupportedError(
                str(self.unsupported_reason(node) or f"{type(node).__name__} has a sparse result, no dense one")
            )
        return ARRAYS[type(node)](node, *lower(node.scans))

    def describe(self, node: Root) -> str:
        """Return the strategy for a node, for ``explain``; empty if there is only one."""
        if not isinstance(node, Contraction):
            return ""
        plan = plan_node(node)
        return "" if plan is None else f"{plan}; {settings.current().threads} threads"

    def costs(self, node: Root) -> str:
        """Return the estimated costs of a node; empty if they are unknown."""
        costs = estimate_node_costs(node) if isinstance(node, Contraction) else None
        return "" if costs is None else str(costs)
