"""Scans that repeat elements, by broadcasting or by lists."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import NewAxis
from sparrow.core.schema import Schema
from sparrow.engines.sort_orders import scan_order
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block, canonicalize
from sparrow.plan import Scan
from sparrow.relations.split import SplitRelation
from sparrow.runtime import memory

__all__ = ["fits_in_memory", "kept_axes", "repeat_block", "split_repeats", "without_repeats"]


def without_repeats(scan: Scan) -> Scan:
    """Return a scan without its new axes."""
    return scan.then(scan.view.then(tuple(0 if isinstance(axis, NewAxis) else slice(None) for axis in scan.view.axes)))


def kept_axes(scan: Scan) -> tuple[int, ...]:
    """Return the axes that :func:`without_repeats` keeps."""
    return tuple(k for k, axis in enumerate(scan.view.axes) if not isinstance(axis, NewAxis))


def fits_in_memory(scan: Scan) -> bool:
    """Return whether what broadcasting repeats fits in memory once.

    Reads footers, no data.
    """
    view, parameters = scan.view, tuning()
    if not view.size or view.size // view.repeats >= 2**63:
        return False
    if not kept_axes(scan):
        return True  # one element
    stats = scan.relation.stats(view.box(), scan_order(scan))
    most = min(stats.rows, parameters.inside_margin * stats.inside)
    return most * parameters.element_bytes <= memory.limit() // parameters.lookup_parts


def split_repeats(scan: Scan) -> Scan:
    """Return a scan of which no chunk shows too many elements through lists."""
    view = scan.view
    if not view.points or not view.size or isinstance(scan.relation, SplitRelation):
        return scan
    times = math.prod(group.max_repeats for group in view.points) * max(view.repeats, 1)
    parameters = tuning()
    fit = memory.working_bytes() // (parameters.partition_copies * scan.schema.element_bytes())
    limit = min(parameters.max_shown_elements, max(fit, parameters.min_partition_rows))
    if times <= 1 or times * scan.relation.stats(view.box(), scan_order(scan)).rows <= limit:
        return scan
    growth = math.prod(group.count / max(len(group.distinct[0]), 1) for group in view.points if group.dims)
    return Scan(SplitRelation(scan.relation, max(limit // times, 1), growth), view, scan.schema)


def repeat_block(block: Block, kept: Sequence[int], schema: Schema, start: int, stop: int) -> Block:
    """Return rows [start, stop) of elements that are repeated along new axes.

    Parameters
    ----------
    block
        Canonical elements along the axes that are kept.
    kept
        These axes, ascending; the others are new.
    schema
        Schema of the result.
    """
    shape = (stop - start, *schema.shape[1:])
    if kept[:1] == (0,):
        column = block.coords[0]
        first, last = np.searchsorted(column, np.array([start, stop - 1], column.dtype), "left")
        last = np.searchsorted(column, column.dtype.type(stop - 1), "right") if stop > start else first
        block = block.take(slice(int(first), int(last)))
    new = [k for k in range(len(shape)) if k not in kept]
    times = math.prod(shape[k] for k in new)
    leads = new[:1] == [0]
    spread = np.unravel_index(np.arange(times), [shape[k] for k in new])
    coords: list[NDArray[np.integer]] = [np.zeros(0, np.int32)] * len(shape)
    for k, column in zip(kept, block.coords, strict=True):
        coords[k] = np.tile(column, times) if leads else np.repeat(column, times)
    for k, column in zip(new, spread, strict=True):
        kind = schema.coordinate_dtypes[k]
        column = column.astype(kind, copy=False) + kind.type(start if k == 0 else 0)
        coords[k] = np.repeat(column, block.count) if leads else np.tile(column, block.count)
    values = np.tile(block.values, times) if leads else np.repeat(block.values, times)
    out = Block(tuple(coords), values)
    if new == list(range(len(new))) or new == list(range(len(kept), len(shape))):
        return out
    return canonicalize(out, schema.shape, None, keep_fill=True)
