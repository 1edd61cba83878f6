"""Evaluation of plans by a chosen engine, traced if plans are collected."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.core.schema import check_array_ndim
from sparrow.engines.choice import PersistedProduct, choose, given_engine
from sparrow.engines.explain import Plan, PlanTree
from sparrow.engines.fallback import lower_with_fallback
from sparrow.engines.kept_results import start_from_kept
from sparrow.engines.protocol import Engine, FoldRange, TaskEngine
from sparrow.engines.registry import STREAM
from sparrow.engines.repeats import RepeatedProducts
from sparrow.engines.sort_orders import scan_in_order
from sparrow.engines.stream import lower, scan_reader
from sparrow.engines.stream.capabilities import Cursor
from sparrow.engines.stream.cursors import open_cursors
from sparrow.engines.stream.partitioning import partition_bounds
from sparrow.engines.stream.selection import empty_block
from sparrow.engines.tracing import explained, is_tracing, trace
from sparrow.kernels.coo import Block, concat_blocks, write_dense
from sparrow.plan import Contraction, Dense, Factors, Node, Reduce, Root, Scan, distribute, multiply_arrays
from sparrow.relations.protocol import Relation, count_elements
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage import DataFile, Snapshot, can_share, share_folder

__all__ = [
    "count_nnz", "evaluate", "evaluate_array", "evaluate_dense", "evaluate_element", "evaluate_many", "explain",
    "fold_ranges", "iter_blocks", "iter_sorted_blocks", "open_partitions", "reduce_all", "shorten", "write_files",
    "write_order",
]  # fmt: skip


def _lower(engine: Engine, scans: Sequence[Scan]) -> Sequence[Scan]:
    return scans if engine is STREAM or type(engine) is PersistedProduct else lower_with_fallback(engine, scans)


def shorten(scans: Sequence[Scan], engine: str = "auto") -> Sequence[Scan]:
    """Return scans that start from kept results.

    See :mod:`sparrow.engines.kept_results`. Named engines and analyzed plans compute everything.
    """
    if str(engine) != "auto" or is_tracing():  # what is no text is refused below
        return scans
    return start_from_kept(scans, _evaluate_at_most)


def _evaluate_at_most(scan: Scan, most: int) -> Block | None:
    """Return the elements of a scan, None as soon as they are more than a number."""
    if scan.schema.size <= most:
        return _evaluate(scan, "auto", own=False)
    run, found, count = choose(scan).engine, [], 0
    for block in run.iter_blocks(*_lower(run, [scan])):
        found.append(block)
        count += block.count
        if count > most:
            return None
    return concat_blocks(found or [empty_block(scan.schema)], scan.schema.ndim, scan.schema.dtype)


def _shorten_node(node: Node, engine: str) -> Node:
    """Return a node on scans that start from kept results; see :func:`shorten`."""
    scans = shorten(node.scans, engine)
    return node if scans is node.scans else node.with_inputs(scans)


def evaluate(scan: Scan, engine: str = "auto", own: bool = True) -> Block:
    """Return the elements of a scan, canonical in the order of its axes.

    Parameters
    ----------
    engine
        Name of the engine.
    own
        Whether the caller may keep and write to the arrays; otherwise they may belong to a tensor.

    Raises
    ------
    TooLargeError
        If they exceed the memory limit.
    InvalidValueError, UnsupportedError
        If there is no such engine.
    """
    (scan,) = shorten([scan], engine)
    return _evaluate(scan, engine, own)


def _evaluate(scan: Scan, engine: str, own: bool) -> Block:
    choice = choose(scan, engine)
    run = choice.engine
    if run is STREAM and not is_tracing():
        return STREAM.evaluate(scan, own)
    with trace(scan, run, choice.reason) as tracer:
        return tracer.block(run.evaluate(*_lower(run, tracer.scans)))


def count_nnz(scan: Scan, engine: str = "auto") -> int:
    """Return the number of stored elements of a scan, cached for expressions."""
    choice = choose(scan, engine)
    run = choice.engine
    node = scan.step if scan.view.is_identity else None
    known: int | None = None
    if scan.view.is_identity:
        known = count_elements(scan.relation) if node is None else node.known_nnz
    if known is None or engine != "auto":
        (scan,) = shorten([scan], engine)
        with trace(scan, run, choice.reason) as tracer:
            known = tracer.value(run.count_nnz(*_lower(run, tracer.scans)))
        if node is not None:
            node.set_nnz(known)
    return known


def evaluate_element(source: Relation | Node, view: View, engine: str = "auto") -> Any:
    """Return the only element of a view without axes, as a NumPy scalar."""
    (scan,) = shorten([Scan(source, view, source.schema.with_view(view))], engine)
    choice = choose(scan, engine)
    if choice.engine is not STREAM:
        block = evaluate(scan, engine)
        return block.values[0] if block.count else scan.schema.fill_value
    with trace(scan, STREAM, choice.reason) as tracer:
        return tracer.value(STREAM.evaluate_element(*tracer.scans))


def iter_sorted_blocks(scan: Scan, engine: str = "auto") -> Iterator[Block]:
    """Yield the elements of a scan in canonical blocks, in the order of its axes."""
    (scan,) = shorten([scan], engine)
    choice = choose(scan, engine)
    run = choice.engine
    with trace(scan, run, choice.reason) as tracer:
        for block in run.iter_blocks(*_lower(run, tracer.scans)):
            yield tracer.block(block)


def write_files(
    scan: Scan, folder: str, profile: str, order: Sequence[int] = (), coordinate_dtypes: Sequence[np.dtype[Any]] = ()
) -> list[DataFile] | None:
    """Write the elements of a scan to data files in tasks of the configured engine.

    Parameters
    ----------
    order
        Dimension of each axis, for files of a derived sort order.
    coordinate_dtypes
        Dtypes of the coordinate columns by dimension, by default those of the scan.

    Returns
    -------
    list of DataFile or None
        None if the engine has no tasks, or this process should write them.
    """
    (scan,) = shorten([scan])
    run = choose(scan).engine
    if not isinstance(run, TaskEngine) or not can_share(folder):
        return None
    with trace(scan, run, saves=True) as tracer:
        (lowered,) = _lower(run, tracer.scans)
        with share_folder(folder) as shared:
            files = run.write_files(lowered, folder, profile, order, coordinate_dtypes)
            shared += files or ()
        return tracer.files(files)


def fold_ranges(scan: Scan, function: FoldRange) -> Iterator[tuple[Any, ...]] | None:
    """Apply a function to ranges of a scan in tasks of the configured engine.

    Parameters
    ----------
    function
        Function of the elements of a range of rows, in blocks of any order, that returns arrays. It pickles by name.

    Returns
    -------
    iterator of tuple of ndarray, or None
        None if the engine has no tasks, or this process should call the function. Arrays exist until the next ones are
        asked for.
    """
    (scan,) = shorten([scan])
    run = choose(scan).engine
    if not isinstance(run, TaskEngine):
        return None
    (lowered,) = _lower(run, [scan])
    return run.fold_ranges(lowered, function)


def write_order(snapshot: Snapshot, folder: str, order: tuple[int, ...]) -> list[DataFile] | None:
    """Write the data files of a sort order in tasks of the configured engine.

    Returns
    -------
    list of DataFile or None
        None if the engine has no tasks, or this process should write them.
    """
    scan = scan_in_order(snapshot, order)
    return write_files(scan, folder, snapshot.metadata.profile, order, snapshot.base.coordinate_dtypes)


def iter_blocks(scan: Scan, axes: Sequence[int] | None = None) -> Iterator[Block]:
    """Yield the elements of a scan in any order, streamed.

    Parameters
    ----------
    axes
        Axes whose coordinates are needed, all by default; those of others are undefined.
    """
    (scan,) = shorten([scan])
    with trace(scan, STREAM, choose(scan).reason if is_tracing() else "") as tracer:
        for block in STREAM.iter_unsorted(tracer.scans[0], axes):
            yield tracer.block(block)


def open_partitions(scans: Sequence[Scan], start: int, stop: int) -> tuple[list[int], list[Cursor]]:
    """Open cursors over partitions of scans of equal length, in any order.

    Parameters
    ----------
    scans
        Scans of at least one axis; the leading one is equally long in all.
    start, stop
        Range along the leading axis.

    Returns
    -------
    bounds
        Ascending, from ``start`` to ``stop``: between two of them lie a few row groups at most.
    cursors
        One per scan: ``read(start, stop)`` returns the canonical elements between two bounds, at coordinates of the
        scan; several threads may call it.
    """
    with contextlib.ExitStack() as stack:
        tracers = [stack.enter_context(trace(scan, STREAM)) for scan in scans]
        lowered = lower([scan for tracer in tracers for scan in tracer.scans])
        inside = [at for at in partition_bounds(lowered, scans[0].schema.shape[0]) if start < at < stop]
        return [start, *inside, stop] if start < stop else [start], open_cursors(lowered, start, stop)


def reduce_all(nodes: Sequence[Reduce], engine: str = "auto") -> list[Any]:
    """Return reductions of one scan over all axes, computed in one pass."""
    scans = shorten(nodes[0].scans, engine)
    if scans is not nodes[0].scans:
        nodes = [node.with_inputs(scans) for node in nodes]
    choice = choose(nodes[0], engine)
    run = choice.engine
    if any(run.unsupported_reason(node) for node in nodes):
        run = STREAM
    with trace(nodes[0], run, choice.reason) as tracer:
        operands = _lower(run, tracer.scans)
        lowered = [node.with_inputs(operands) for node in nodes]
        tracer.executes(lowered[0])
        return tracer.values(run.reduce_all(lowered))


def evaluate_dense(node: Node, engine: str = "auto", repeats: RepeatedProducts | None = None) -> Any:
    """Return the result of a dense node: an array, or a scalar for ndim 0.

    Parameters
    ----------
    engine
        Name of the engine.
    repeats
        What counts the products of the matrix of a product; by default all of the process since it was opened.

    Raises
    ------
    TooLargeError
        If it exceeds the memory limit.
    InvalidValueError, UnsupportedError
        If there is no such engine, or none supports the node.
    """
    check_array_ndim(node.schema.ndim, "make a tensor of the array with sp.asarray")
    node = _shorten_node(node, engine)
    products = distribute(node) if isinstance(node, Contraction) else None
    if isinstance(node, Contraction) and products is not None:
        return _evaluate_products(node, products, engine, repeats)
    choice = choose(node, engine, repeats)
    run = choice.engine
    if run.unsupported_reason(node) is not None:
        run = STREAM
    with trace(node, run, choice.reason) as tracer:
        lowered = node.with_inputs(_lower(run, tracer.scans))
        tracer.executes(lowered)
        result = tracer.value(run.evaluate_dense(lowered))
    if choice.product is not None:
        choice.product.note()
    return result


def _evaluate_products(
    node: Contraction, products: Sequence[Factors], engine: str, repeats: RepeatedProducts | None
) -> Any:
    """Return the sum of products of a scan and arrays, the first in all axes."""
    first, *others = products
    total = evaluate_dense(replace(node, operands=tuple(each for each, _ in first)), engine, repeats)
    sizes = {
        index: size
        for each, own in zip(node.operands, node.indices, strict=True)
        for index, size in zip(own, each.schema.shape, strict=True)
    }
    for factors in others:
        arrays = [each.array if isinstance(each, Dense) else evaluate_array(each) for each, _ in factors]
        term = multiply_arrays(arrays, [own for _, own in factors], node.output_indices, sizes)
        total = total + term.astype(node.schema.dtype, copy=False) if node.schema.ndim else total + term[()]
    return total


def evaluate_array(scan: Scan) -> NDArray[Any]:
    """Return a scan as an array.

    Raises
    ------
    TooLargeError
        If it exceeds the memory limit.
    """
    schema = scan.schema
    memory.check(schema.size * schema.dtype.itemsize, "the dense array", "take a smaller view")
    out = np.full(schema.shape, schema.fill_value, schema.dtype)
    write_dense(out, evaluate(scan))
    return out


def evaluate_many(scans: Sequence[Scan], engine: str = "auto") -> list[Block]:
    """Return the elements of several scans; shared nodes are computed once.

    Raises
    ------
    TooLargeError
        If the elements of a scan exceed the memory limit.
    """
    if len(scans) == 1 or given_engine(engine) not in (None, STREAM):
        return [evaluate(scan, engine) for scan in scans]
    scans = shorten(scans, engine)
    found = []
    with contextlib.ExitStack() as stack:
        tracers = [
            stack.enter_context(trace(scan, STREAM, f"stream: {len(scans)} tensors share what they read"))
            for scan in scans
        ]
        lowered = lower([scan for tracer in tracers for scan in tracer.scans])
        # All results stay reserved until the last one is computed.
        rooms = [stack.enter_context(scan_reader.reserve_for(scan)) for scan in lowered]
        work = zip(lowered, rooms, strict=True)
        blocks = ordered_map(lambda one: scan_reader.read_block(*one), work, settings.current().threads)
        for tracer, block in zip(tracers, blocks, strict=True):
            found.append(tracer.block(block))
    return found


def explain(root: Root, analyze: bool = False, engine: str = "auto", repeats: RepeatedProducts | None = None) -> Plan:
    """Return the plan of a root: each node with its engine, followed by its operands.

    Reads the log and footers of files, no data, unless ``analyze`` evaluates the plan; the result is discarded.

    Parameters
    ----------
    analyze
        Evaluate the plan and count elements, bytes and time.
    engine
        Engine to use; nodes that it does not support say why and which engine runs them. "auto" says which engine was
        chosen and why.
    repeats
        What counts the products of the matrix of a product; by default all of the process since it was opened.

    Raises
    ------
    InvalidValueError, UnsupportedError
        If there is no such engine.
    """
    choice = choose(root, engine, repeats)
    if not analyze or isinstance(root, Dense):
        return PlanTree(root, choice.engine, choice.reason).plan()
    with explained(analyze=True) as plans:
        if isinstance(root, Node) and root.is_dense:
            evaluate_dense(root, engine, repeats)
        else:
            scan = root if isinstance(root, Scan) else Scan(root, View.identity(root.schema.shape), root.schema)
            if choice.engine is STREAM:
                for _ in iter_blocks(scan):
                    pass
            elif isinstance(choice.engine, TaskEngine):  # results in files may be larger than memory
                for _ in iter_sorted_blocks(scan, engine):
                    pass
            else:
                evaluate(scan, engine)
    return plans[-1]
