"""Tracer of evaluations, for ``explained()`` and ``explain(analyze=True)``."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeVar

import numpy as np

from sparrow.engines.explain import Plan, PlanTree, format_schema
from sparrow.engines.profile import OperatorProfile, Profile, profiling
from sparrow.engines.protocol import Engine
from sparrow.engines.query_profile import parse_profiles
from sparrow.engines.round_profile import RoundProfile, collect_rounds
from sparrow.engines.stream.product.product import ChainStep, chain_steps
from sparrow.kernels.coo import Block
from sparrow.plan import Node, Root, Scan, nodes_below, scans_of
from sparrow.plan.nodes import subscripts
from sparrow.relations.csr import CSRRelation
from sparrow.relations.protocol import Chunk, Relation
from sparrow.runtime.duckdb_connection import collect_profiles
from sparrow.runtime.progress import format_quantity
from sparrow.runtime.validation import check_flag
from sparrow.storage import DataFile, Traffic, count_traffic

__all__ = ["NullTracer", "Tracer", "explained", "is_tracing", "trace"]

T = TypeVar("T")


class _Plans(list[Plan]):
    """Plans of the evaluations in a block."""

    def __init__(self, analyze: bool) -> None:
        super().__init__()
        self.analyze = analyze
        self.chain_steps: list[ChainStep] = []
        """The steps of products of several operands, as they ran."""

    def __repr__(self) -> str:
        return "\n\n".join(self)

    def _repr_html_(self) -> str:
        return "".join(plan._repr_html_() for plan in self)


_plans: ContextVar[_Plans | None] = ContextVar("sparrow_plans", default=None)


@contextmanager
def explained(analyze: bool = False) -> Iterator[list[Plan]]:
    """Collect the plans of everything that is evaluated in a block.

    Parameters
    ----------
    analyze
        Count elements, bytes and time, of each node where the engine does that.

    Yields
    ------
    list of Plan
        One plan per evaluation, as :meth:`~sparrow.Tensor.explain` returns it; filled as things are evaluated.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [3, 0]])
    >>> with sp.explained() as plans:
    ...     y = A @ [10, 1]
    >>> print(plans[0].splitlines()[0])
    contraction ij,j->i plus_times (d0: 2) int64
    """
    plans = _Plans(check_flag("analyze", analyze))
    token, listening = _plans.set(plans), chain_steps.set(plans.chain_steps if analyze else None)
    try:
        yield plans
    finally:
        _plans.reset(token)
        chain_steps.reset(listening)


class NullTracer:
    """No-op tracer.

    Parameters
    ----------
    root
        Root of the plan that is evaluated.
    """

    def __init__(self, root: Root) -> None:
        self._root = root

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return

    @property
    def scans(self) -> Sequence[Scan]:
        """The scans to evaluate: that of the root, or those that it takes."""
        return [self._root] if isinstance(self._root, Scan) else scans_of(self._root)

    def executes(self, node: Node) -> None:
        """Note which node is evaluated in place of the root."""

    def block(self, block: Block) -> Block:
        """Note elements of the result."""
        return block

    def files(self, files: list[DataFile] | None) -> list[DataFile] | None:
        """Note data files with the elements of the result."""
        return files

    def value(self, result: T) -> T:
        """Note the result, an array or a scalar."""
        return result

    def values(self, results: list[T]) -> list[T]:
        """Note several scalar results."""
        return results


class Tracer(NullTracer):
    """Trace of one evaluation, whose plan is appended to a list when it ends."""

    def __init__(self, plans: _Plans, root: Root, engine: Engine, reason: str = "", saves: bool = False) -> None:
        super().__init__(root)
        self._plans, self._engine, self._reason, self._saves = plans, engine, reason, saves
        self._count: int | None = None
        self._result = ""
        self._profile = Profile()
        self._executed: dict[Any, Any] = {}
        self._counters: list[OperatorProfile] = []
        self._stack, self._fetched = ExitStack(), Traffic()
        self._queries: list[str] = []
        self._rounds: list[RoundProfile] = []

    def __enter__(self) -> Self:
        if self._plans.analyze:  # planning reads footers, which count too
            self._fetched = self._stack.enter_context(count_traffic())
            self._queries = self._stack.enter_context(collect_profiles())
            self._rounds = self._stack.enter_context(collect_rounds())
        self._tree = PlanTree(self._root, self._engine, self._reason, self._saves)
        self._scans = super().scans
        if self._plans.analyze and self._engine.reads_chunks:
            self._stack.enter_context(profiling(self._profile))
            self._scans = self._count_reads(self._tree.scans)
        self._n_steps = len(self._plans.chain_steps)
        self._start = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        if not self._plans.analyze or error[0] is not None:
            self._plans.append(self._tree.plan())
            return
        seconds = time.perf_counter() - self._start
        elements = 0 if self._count is None and not self._result else self._count
        totals: dict[str, Any] = {"elements": elements, "seconds": seconds}
        totals |= {"rounds": [each.to_dict() for each in self._rounds]} if self._rounds else {}
        totals |= self._total_reads() if self._engine.reads_chunks else {}
        queries = parse_profiles(self._queries)
        self._plans.append(self._tree.plan(self._profile, self._executed, self._summary(seconds), totals, queries))

    @property
    def scans(self) -> Sequence[Scan]:
        """The scans to evaluate, their reads counted if the plan is analyzed."""
        return self._scans

    def executes(self, node: Node) -> None:
        """Note which node is evaluated in place of the root."""
        self._executed[self._tree.root] = node

    def block(self, block: Block) -> Block:
        """Note elements of the result."""
        self._count = (self._count or 0) + block.count
        return block

    def files(self, files: list[DataFile] | None) -> list[DataFile] | None:
        """Note data files with the elements of the result."""
        if files is not None:
            self._count = sum(file.rows for file in files)
        return files

    def value(self, result: T) -> T:
        """Note the result, an array or a scalar."""
        is_array = isinstance(result, np.ndarray) and result.ndim > 0
        self._result = f"dense {format_schema(self._root.schema)}" if is_array else f"{result}"
        return result

    def values(self, results: list[T]) -> list[T]:
        """Note several scalar results."""
        self._result = ", ".join(map(str, results))
        return results

    def _total_reads(self) -> dict[str, int]:
        """Return the rows, bytes and chunks that were read."""
        names = {"rows_read": "rows", "bytes_decoded": "bytes_read", "chunks": "partitions"}
        return {total: sum(getattr(each, name) for each in self._counters) for total, name in names.items()}

    def _summary(self, seconds: float) -> list[str]:
        """Return the lines about the evaluation as a whole."""
        result = f"{self._count} elements" if self._count is not None else self._result or "0 elements"
        rows, nbytes, chunks = self._total_reads().values()
        decoded = f"{rows} rows, {format_quantity(nbytes, 'bytes')} decoded in {chunks} chunks"
        roots = scans_of(self._root) or (self._root,)
        reads_only_relations = all(scan.step is None for scan in roots if isinstance(scan, Scan))
        if not self._engine.reads_chunks:
            lines = [f"analyzed: {result}, {1000 * seconds:.1f} ms"]
        elif reads_only_relations:
            lines = [f"analyzed: {result} from {decoded}, {1000 * seconds:.1f} ms"]
        else:
            lines = [f"analyzed: {result}, {1000 * seconds:.1f} ms, from {decoded}"]
        lines += map(_format_step, self._plans.chain_steps[self._n_steps :])
        lines += [f"round {number}: {each.describe()}" for number, each in enumerate(self._rounds, 1)]
        if self._fetched.requests:
            fetched = format_quantity(self._fetched.nbytes, "bytes")
            lines.append(f"fetched: {fetched} in {self._fetched.requests} requests, the log aside")
        return lines

    def _count_reads(self, scans: Sequence[Scan]) -> list[Scan]:
        """Return scans of plans whose relations count what is read of them."""
        sources: dict[Hashable, Any] = {}

        def replace_source(scan: Scan) -> Scan:
            source = scan.source
            if isinstance(source, Node):
                return Scan(self._executed.get(source, source), scan.view, scan.schema)
            if isinstance(source, CSRRelation):  # its rows are not read by chunks
                return scan
            if source.token not in sources:
                counters = self._profile.operator(source)
                self._counters.append(counters)
                sources[source.token] = _CountingRelation(source, counters)
            return Scan(sources[source.token], scan.view, scan.schema)

        for node in nodes_below(scans):
            self._executed[node] = node.with_inputs([replace_source(scan) for scan in node.scans])
        return [replace_source(scan) for scan in scans]


def _format_step(step: ChainStep) -> str:
    """Return a line on the estimates and the result of a step of a chain of products."""
    actual = "" if step.found is None else f", actual: {step.found} elements"
    name = subscripts(step.node.indices, step.node.output_indices)
    return f"step: {name}, {step.products:.3g} products and {step.entries:.3g} elements expected{actual}"


def is_tracing() -> bool:
    """Return whether plans are collected."""
    return _plans.get() is not None


def trace(root: Root, engine: Engine, reason: str = "", saves: bool = False) -> NullTracer:
    """Return a context manager that traces an evaluation if plans are collected.

    Parameters
    ----------
    reason
        Why the engine was chosen; empty if it was given.
    saves
        Whether the elements are written to data files.
    """
    plans = _plans.get()
    return NullTracer(root) if plans is None else Tracer(plans, root, engine, reason, saves)


class _CountingRelation:
    """A relation whose reads are counted."""

    def __init__(self, relation: Relation, counters: OperatorProfile) -> None:
        self._relation, self._counters = relation, counters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._relation, name)

    is_small = False

    def read_small(self) -> None:
        """Return None: all elements are read as chunks, which are counted."""

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the elements of a chunk."""
        with self._counters.measure():
            block = self._relation.read(chunk, dims)
        nbytes = block.values.nbytes + sum(column.nbytes for column in block.coords)
        self._counters.record(rows=block.count, bytes_read=nbytes, partitions=1)
        return block
