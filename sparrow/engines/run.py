"""The front of the engines: each terminal names an engine, or "auto", and means the same whichever it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from sparrow.core.indexing import View
from sparrow.core.schema import check_array_ndim
from sparrow.engines.explain import render_plan
from sparrow.engines.fallback import lower_with_fallback
from sparrow.engines.registry import STREAM, Engine, engine_for
from sparrow.engines.stream import lower, scan_reader
from sparrow.engines.stream.operator import ReadRange, open_cursors, partition_bounds
from sparrow.engines.tracing import explained, is_tracing, trace
from sparrow.kernels.coo import Block
from sparrow.plan import Accumulate, Dense, DenseContraction, Map, MatMulDense, Node, Reduce, Root, Scan
from sparrow.relations.base import Relation
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "count_nnz",
    "evaluate",
    "evaluate_dense",
    "evaluate_element",
    "evaluate_many",
    "explain",
    "iter_blocks",
    "iter_sorted_blocks",
    "open_partitions",
    "reduce_all",
]


def _ready(engine: Engine, scan: Scan) -> Scan:
    return scan if engine is STREAM else lower_with_fallback(engine, [scan])[0]


def evaluate(scan: Scan, engine: str = "auto", own: bool = True) -> Block:
    """Return the entries of a scan, canonical in the order of the view's axes, in memory.

    Parameters
    ----------
    engine
        The engine that computes them.
    own
        Whether they are the caller's, to keep and to write to; otherwise they may be what a tensor holds.

    Raises
    ------
    TooLargeError
        If they would pass the memory limit.
    InvalidValueError, UnsupportedError
        If there is no such engine.
    """
    run = engine_for(engine)
    if run is STREAM and not is_tracing():
        return STREAM.entries(scan, own)
    with trace(scan, run) as watch:
        return watch.entries(run.entries(_ready(run, watch.plan(scan))))


def count_nnz(scan: Scan, engine: str = "auto") -> int:
    """Return the number of entries of a scan; of a whole expression it is computed once and kept."""
    run = engine_for(engine)
    step = scan.step if scan.view.is_identity else None
    known: int | None = None
    if scan.view.is_identity:
        known = scan.relation.nnz if step is None else step.known_nnz
    if known is None or engine != "auto":
        with trace(scan, run) as watch:
            known = watch.number(run.count(_ready(run, watch.plan(scan))))
        if step is not None:
            step.set_nnz(known)
    return known


def evaluate_element(source: Relation | Node, view: View, engine: str = "auto") -> Any:
    """Return the one cell that a view without axes shows, as a NumPy scalar."""
    run, scan = engine_for(engine), Scan(source, view, source.schema.with_view(view))
    if run is not STREAM:
        block = evaluate(scan, engine)
        return block.values[0] if block.count else scan.schema.fill_value
    with trace(scan, run) as watch:
        return watch.number(STREAM.cell(watch.plan(scan)))


def iter_sorted_blocks(scan: Scan, engine: str = "auto") -> Iterator[Block]:
    """Yield the entries of a scan in canonical blocks, in the order of the view's axes, within the memory limit."""
    run = engine_for(engine)
    with trace(scan, run) as watch:
        for block in run.blocks(_ready(run, watch.plan(scan))):
            yield watch.entries(block)


def iter_blocks(scan: Scan, axes: Sequence[int] | None = None) -> Iterator[Block]:
    """Yield the entries of a scan in any order, streamed.

    Parameters
    ----------
    axes
        The axes whose coordinates are wanted, all by default; the columns of the others may hold anything.
    """
    with trace(scan, STREAM) as watch:
        for block in STREAM.unsorted(watch.plan(scan), axes):
            yield watch.entries(block)


def open_partitions(scans: Sequence[Scan], start: int, stop: int) -> tuple[list[int], list[ReadRange]]:
    """Return how scans of one height are read stretch by stretch of their leading axis, in any order.

    Parameters
    ----------
    scans
        Of at least one axis, the first as long in all of them.
    start, stop
        Bounds along it.

    Returns
    -------
    bounds
        Ascending, from ``start`` to ``stop``: between two of them there are a few row groups at most.
    evaluates
        For each scan the function from two bounds to its canonical entries between them, where they stand in the
        scan; several threads may call it.
    """
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(trace(scan, STREAM)) for scan in scans]
        plans = lower([watch.plan(scan) for watch, scan in zip(watches, scans, strict=True)])
        inside = [at for at in partition_bounds(plans, scans[0].schema.shape[0]) if start < at < stop]
        return [start, *inside, stop] if start < stop else [start], open_cursors(plans, start, stop)


def reduce_all(nodes: Sequence[Reduce], engine: str = "auto") -> list[Any]:
    """Return reductions over all axes of one scan, computed by one pass over it, as NumPy scalars."""
    run = engine_for(engine)
    if any(run.unsupported_reason(node) for node in nodes):
        run = STREAM
    with trace(nodes[0], run) as watch:
        operands = [watch.plan(scan) for scan in nodes[0].scans]
        if run is not STREAM:
            operands = lower_with_fallback(run, operands)
        return watch.numbers(run.scalars([node.with_inputs(operands) for node in nodes]))


def evaluate_dense(node: MatMulDense | DenseContraction | Accumulate | Map, engine: str = "auto") -> Any:
    """Return the result of a node that is dense by nature: a NumPy array, or a scalar where it has no dimensions.

    Raises
    ------
    TooLargeError
        If it would pass the memory limit.
    InvalidValueError, UnsupportedError
        If there is no such engine, or no engine does this.
    """
    check_array_ndim(node.schema.ndim, "make a tensor of the array with sp.asarray")
    run = engine_for(engine)
    if run.unsupported_reason(node) is not None:
        run = STREAM
    with trace(node, run) as watch:
        operands = [watch.plan(scan) for scan in node.scans]
        return watch.number(
            run.array(node.with_inputs(operands if run is STREAM else lower_with_fallback(run, operands)))
        )


def evaluate_many(scans: Sequence[Scan], engine: str = "auto") -> list[Block]:
    """Return the entries of several scans; what they share is read and computed once.

    Raises
    ------
    TooLargeError
        If those of one of them would pass the memory limit.
    """
    run = engine_for(engine)
    if run is not STREAM:
        return [evaluate(scan, engine) for scan in scans]
    found = []
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(trace(scan, run)) for scan in scans]
        plans = lower([watch.plan(scan) for watch, scan in zip(watches, scans, strict=True)])
        # All of them are held until the last one is there.
        rooms = [stack.enter_context(scan_reader.reserve_for(plan)) for plan in plans]
        work = zip(plans, rooms, strict=True)
        blocks = ordered_map(lambda one: scan_reader.entries(*one), work, settings.current().threads)
        for watch, block in zip(watches, blocks, strict=True):
            found.append(watch.entries(block))
    return found


def explain(node: Root, analyze: bool = False, engine: str = "auto") -> str:
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
    if not analyze or isinstance(node, Dense):
        return render_plan(node, engine_for(engine))
    with explained(analyze=True) as plans:
        if isinstance(node, MatMulDense | DenseContraction | Accumulate) or (isinstance(node, Map) and node.is_dense):
            evaluate_dense(node, engine)
        elif engine_for(engine) is STREAM:
            for _ in iter_blocks(_scan_of(node)):
                pass
        else:
            evaluate(_scan_of(node), engine)
    return plans[-1]


def _scan_of(node: Scan | Node) -> Scan:
    return node if isinstance(node, Scan) else Scan(node, View.identity(node.schema.shape), node.schema)
