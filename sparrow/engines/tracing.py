"""Plans of what runs: ``explained`` gathers them while terminals run inside of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sparrow.engines.explain import format_schema, render_plan
from sparrow.engines.stream.product.chain import ChainStep, chain_steps
from sparrow.kernels.coo import Block
from sparrow.plan import MatMulDense, Node, Root, Scan, nodes_below, scans_of
from sparrow.plan.nodes import subscripts
from sparrow.relations.base import Chunk, Relation
from sparrow.runtime.progress import format_quantity
from sparrow.runtime.validation import check_flag
from sparrow.storage import Traffic, count_traffic

if TYPE_CHECKING:
    from sparrow.engines.registry import Engine

__all__ = ["explained", "is_tracing", "trace"]

T = TypeVar("T")


class _Plans(list[str]):
    """The plans of what ran, one text each."""

    def __init__(self, analyze: bool) -> None:
        super().__init__()
        self.analyze = analyze
        self.done: list[ChainStep] = []
        """The steps of products of several operands, as they ran."""


_plans: ContextVar[_Plans | None] = ContextVar("sparrow_plans", default=None)


@contextmanager
def explained(analyze: bool = False) -> Iterator[list[str]]:
    """Gather the plans of everything that runs inside of the block: products, reductions, conversions.

    Parameters
    ----------
    analyze
        Count what is read, and the time.

    Yields
    ------
    list of str
        Filled as things run, a text of the form of ``A.explain()`` for each.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [3, 0]])
    >>> with sp.explained() as plans:
    ...     y = A @ [10, 1]
    >>> print(plans[0].splitlines()[0])
    matmul (d0: 2) int64
    """
    plans = _Plans(check_flag("analyze", analyze))
    token, listening = _plans.set(plans), chain_steps.set(plans.done if analyze else None)
    try:
        yield plans
    finally:
        _plans.reset(token)
        chain_steps.reset(listening)


class _Unwatched:
    """What stands in where nobody wants to know."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def plan(self, scan: Scan) -> Scan:
        """Return the scan as it is."""
        return scan

    def entries(self, block: Block) -> Block:
        """Take note of entries."""
        return block

    def number(self, result: T) -> T:
        """Take note of a result."""
        return result

    def numbers(self, results: list[T]) -> list[T]:
        """Take note of results."""
        return results


class _Watch(_Unwatched):
    """One thing that runs."""

    def __init__(self, plans: _Plans, node: Root, engine: Engine) -> None:
        self._plans, self._node, self._engine = plans, node, engine
        self._count: int | None = None
        self._result = ""
        self._counts = _Counts()
        self._stack, self._fetched = ExitStack(), Traffic()

    def __enter__(self) -> Self:
        if self._plans.analyze:
            self._fetched = self._stack.enter_context(count_traffic())
        self._text = render_plan(self._node, self._engine)
        self._before = len(self._plans.done)
        self._start = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        lines = [self._text]
        if self._plans.analyze and error[0] is None:
            seconds = time.perf_counter() - self._start
            result = f"{self._count or 0} entries" if self._count is not None else self._result or "0 entries"
            counts = self._counts
            decoded = f"{counts.rows} rows, {format_quantity(counts.nbytes, 'bytes')} decoded in {counts.chunks} chunks"
            plain = all(scan.step is None for scan in scans_of(self._node) or (self._node,) if isinstance(scan, Scan))
            if not counts.watched:
                lines.append(f"analyzed: {result}, {1000 * seconds:.1f} ms")
            elif plain:
                lines.append(f"analyzed: {result} from {decoded}, {1000 * seconds:.1f} ms")
            else:
                lines.append(f"analyzed: {result}, {1000 * seconds:.1f} ms, from {decoded}")
            lines += map(_step_told, self._plans.done[self._before :])
            if self._fetched.requests:
                fetched = format_quantity(self._fetched.nbytes, "bytes")
                lines.append(f"fetched: {fetched} in {self._fetched.requests} requests, the log aside")
        self._plans.append("\n".join(lines))

    def plan(self, scan: Scan) -> Scan:
        """Return the scan with what it reads counted, if that is wanted and the engine reads chunk by chunk."""
        if not self._plans.analyze or self._engine.name == "duckdb":
            return scan
        self._counts.watched = True
        return _counted(scan, self._counts)

    def entries(self, block: Block) -> Block:
        """Take note of entries."""
        self._count = (self._count or 0) + block.count
        return block

    def number(self, result: T) -> T:
        """Take note of a result."""
        schema = self._node.schema
        self._result = f"dense {format_schema(schema)}" if schema.ndim or isinstance(self._node, MatMulDense) else ""
        self._result = self._result or f"{result}"
        return result

    def numbers(self, results: list[T]) -> list[T]:
        """Take note of results."""
        self._result = ", ".join(map(str, results))
        return results


def _step_told(step: ChainStep) -> str:
    """Return what was expected of a step, and what came out."""
    found = "the result" if step.found is None else f"{step.found} entries came out"
    expected = f"{step.products:.3g} products and {step.entries:.3g} entries expected"
    return f"step: {subscripts(step.node.indices, step.node.output_indices)}, {expected}, {found}"


_NOBODY = _Unwatched()


def is_tracing() -> bool:
    """Return whether anybody listens."""
    return _plans.get() is not None


def trace(node: Root, engine: Engine) -> _Unwatched:
    """Return a context manager that tells ``explained`` what runs in it, if anybody listens."""
    plans = _plans.get()
    return _NOBODY if plans is None else _Watch(plans, node, engine)


class _Counts:
    """What was read."""

    def __init__(self) -> None:
        self.rows = self.nbytes = self.chunks = 0
        self.watched = False
        self.lock = threading.Lock()


def _counted(scan: Scan, counts: _Counts) -> Scan:
    """Return the scan of a plan whose relations count what is read of them."""
    from sparrow.relations.csr import CSRRelation

    known: dict[Hashable, Any] = {}

    def of(below: Scan) -> Scan:
        source = below.source
        if isinstance(source, Node):
            return Scan(known[source], below.view, below.schema)
        if isinstance(source, CSRRelation):  # whose rows are not read chunk by chunk
            return below
        if source.token not in known:
            known[source.token] = _Counting(source, counts)
        return Scan(known[source.token], below.view, below.schema)

    for step in nodes_below([scan]):
        known[step] = step.with_inputs([of(below) for below in step.scans])
    return of(scan)


class _Counting:
    """A relation that counts what is read of another."""

    def __init__(self, relation: Relation, counts: _Counts) -> None:
        self._relation, self._counts = relation, counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._relation, name)

    is_small = False

    def read_small(self) -> None:
        """Return None: chunks are counted, so all elements are read as chunks."""

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the entries of a chunk."""
        block = self._relation.read(chunk, dims)
        with self._counts.lock:
            self._counts.chunks += 1
            self._counts.rows += block.count
            self._counts.nbytes += block.values.nbytes + sum(column.nbytes for column in block.coords)
        return block
