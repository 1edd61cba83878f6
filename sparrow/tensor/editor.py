"""Edits of live tensors: writes, appends and resizes as atomic commits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from sparrow import engines, storage
from sparrow.core.casting import cast_appended
from sparrow.core.indexing import Box, View
from sparrow.core.schema import Schema, check_shape, is_fill
from sparrow.errors import InvalidValueError, PerformanceWarning, ShapeError, UnsupportedError
from sparrow.kernels.coo import Block, Duplicates, canonicalize, concat_blocks
from sparrow.plan import Scan, axis_labels, fit_to_target
from sparrow.relations.edits import Edit, Growth
from sparrow.relations.protocol import Handle, Relation
from sparrow.runtime import memory
from sparrow.runtime.caller import warn_caller
from sparrow.runtime.events import emit
from sparrow.tensor.assignment import align_value, assignment_edit, check_kind, put_edit
from sparrow.tensor.tuning import tuning

__all__ = ["Editor", "append", "check_append_schema", "commit", "grow", "resize_edit"]

_single_element_commits: WeakKeyDictionary[Handle, int] = WeakKeyDictionary()
_append_stats: WeakKeyDictionary[Handle, tuple[int, int, int]] = WeakKeyDictionary()
"""Number of appends of a handle, of elements appended and of elements written."""


def commit(handle: Handle, edit: Edit) -> None:
    """Commit an edit; repeated commits of a single element warn."""
    handle.commit(edit)
    elements = max(sum(box.size for box in edit.clear), 0 if edit.upsert is None else edit.upsert.count)
    if elements == 1:
        count = _single_element_commits[handle] = _single_element_commits.get(handle, 0) + 1
        if count == tuning().small_commits_before_warning:
            warn_caller(
                f"{count} commits of a single element each: every one rewrites the file, or in memory the arrays, that "
                "hold the element. Write many elements at once with A.put(coords, values), or many times in one commit "
                "with 'with A.edit() as e: e[...] = v'",
                PerformanceWarning,
            )


class Editor:
    """Writes collected by ``with A.edit() as e`` and committed together.

    Later writes win over earlier ones. Nothing is visible before the end of the block, and nothing is written if it
    raises. Values are read when they are assigned: ``e[0] = A[1]`` takes the row as it was before the block.
    """

    def __init__(
        self, handle: Handle, view: View, schema: Schema, resolve: Callable[[Any], Any], convert: Callable[[Any], Any]
    ) -> None:
        self._handle = handle
        self._view = view
        self._names = schema.dims
        self._resolve, self._convert = resolve, convert
        self._base = handle.current.schema
        self._cleared: dict[Box, None] = {}
        self._blocks: list[Block] = []
        self._count = 0
        self._open = False
        self._room = memory.reserve(0, "the writes of this edit", "write them in several edits")

    def __enter__(self) -> Self:
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open = False
        with self._room:
            if kind is not None:
                return
            edit = self._merge()
            if not edit.clear and edit.upsert is None:
                return
            shape = self._handle.current.schema.shape
            if shape != self._base.shape:
                raise ShapeError(
                    f"the tensor was resized from {self._base.shape} to {shape} during the edit: nothing is written"
                )
            commit(self._handle, edit)

    def __getitem__(self, key: Any) -> Any:
        raise UnsupportedError("an edit cannot be read: read from the tensor, which shows the state before the edit")

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write elements as ``A[key] = value`` does."""
        self._check_open()
        view = self._view.then(self._resolve(key), "paired", self._names)
        self._add(assignment_edit(self._base, view, align_value(self._handle.current, view, self._convert(value))))

    def put(self, coords: Any, values: Any) -> None:
        """Write elements by coordinate as ``A.put(coords, values)`` does."""
        self._check_open()
        self._add(put_edit(self._base, self._view, coords, values, self._names))

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidValueError("the edit is not open: write inside its block, 'with A.edit() as e: ...'")

    def _add(self, step: Edit) -> None:
        """Add a write: what it clears removes earlier elements."""
        upsert = step.upsert
        assert upsert is not None
        for box in step.clear:
            if upsert.count == box.size:
                continue
            if box.size <= max(tuning().clear_box_max_elements, 4 * upsert.count):
                upsert = self._fill_box(box, upsert)
                continue
            if self._blocks:
                before = concat_blocks(self._blocks, self._base.ndim, self._base.dtype)
                before = before.take(~box.contains(before.coords))
                self._blocks, self._count = [before], before.count
                self._room.resize(before.nbytes)
            self._cleared[box] = None
        if upsert.count:
            self._room.grow(upsert.nbytes)
            self._count += upsert.count
            self._blocks.append(upsert)

    def _fill_box(self, box: Box, upsert: Block) -> Block:
        """Return a block extended by the other elements of a box, as explicit fill."""
        fill = np.full(box.size, self._base.fill_value, self._base.dtype)
        blocks = [Block(box.coordinates(), fill), upsert]
        both = concat_blocks(blocks, self._base.ndim, self._base.dtype)
        return canonicalize(both, self._base.shape, None, "last", keep_fill=True)

    def _merge(self) -> Edit:
        """Return one edit that is equivalent to all writes in turn."""
        upsert = None
        if self._count:
            upsert = concat_blocks(self._blocks, self._base.ndim, self._base.dtype)
            upsert = canonicalize(upsert, self._base.shape, None, "last", keep_fill=True)
        return Edit("edit", clear=tuple(self._cleared), upsert=upsert)


def append(handle: Handle, view: View, blocks: Callable[[], Iterator[Block]], existing: Duplicates) -> None:
    """Append stored elements in one commit, streamed in batches.

    Parameters
    ----------
    handle
        Handle of the tensor.
    view
        View whose coordinates the elements have.
    blocks
        Opens an iterator of blocks without duplicates and without fill.
    existing
        Rule for elements that exist already.
    """
    base = handle.current.schema

    def batches() -> Iterator[Edit]:
        return _batch_edits(base, _in_base_order(base, view, blocks()), existing)

    if not isinstance(handle, storage.StoredHandle):
        found = [_to_base(base, view, block) for block in blocks()]
        if found:
            commit(handle, _batch_edit(base, found, existing))
        return
    before = handle.current
    first = list(itertools.islice(opened := batches(), 2))
    if len(first) < 2:
        for one in first:
            commit(handle, one)
            _count_append(handle, before, 0 if one.upsert is None else one.upsert.count)
        return
    del first, opened
    emit("tensor.append_in_batches")
    handle.append(batches, view.box())


def _count_append(handle: storage.StoredHandle, before: storage.Snapshot, elements: int) -> None:
    """Warn if a hundred appends rewrote far more elements than they appended."""
    old, new = set(before.active.paths), handle.current.active
    rows = sum(n for name, n in zip(new.paths, new.rows.tolist(), strict=True) if name not in old)
    count, appended, written = _append_stats.get(handle, (0, 0, 0))
    count, appended, written = count + 1, appended + elements, written + rows
    limits = tuning()
    last = limits.small_commits_before_warning
    _append_stats[handle] = (count, appended, written) if count < last else (0, 0, 0)
    most = max(limits.append_rewrite_ratio * appended, limits.append_rewrite_min_elements * count)
    if count == last and written > most:
        first = handle.current.schema.dims[0]
        warn_caller(
            f"{count} appends added {appended:,} elements and wrote {written:,}: changing existing elements, or "
            "append_runs=0, rewrites the files that hold them. Append more at a time, or add a dimension before "
            f"{first!r} that grows with the appends, such as the day: then only new files are written, and "
            "A.sum(axis=0) adds the days up",
            PerformanceWarning,
        )


def grow(handle: Handle, scan: Scan, existing: Duplicates) -> None:
    """Append the elements of a scan by label; new labels extend dimensions."""
    before, appended = handle.current, 0

    def cast(block: Block) -> Block:
        return Block(block.coords, cast_appended(block.values, before.schema.dtype))

    def count(edits: Iterator[Edit]) -> Iterator[Edit]:
        nonlocal appended
        appended = 0
        for edit in edits:
            appended += 0 if edit.upsert is None else edit.upsert.count
            yield edit

    def growth(relation: Relation) -> Growth:
        old = relation.schema
        target = Scan(relation, View.identity(old.shape), old)
        found, more = fit_to_target(scan, target)
        schema = replace(old, shape=found.schema.shape)
        check_append_schema(found.schema, old, {axis: len(labels) for axis, labels in more.items()})
        keys = relation.label_keys
        labels: dict[Any, pa.Array] = {}  # dimensions that share a vocabulary keep sharing one object
        for axis, new in more.items():
            if keys[axis] not in labels:
                before = axis_labels(target)[axis].array()
                labels[keys[axis]] = pa.concat_arrays([before, new])
        return Growth(
            {axis: labels[keys[axis]] for axis in more},
            schema.shape,
            lambda: count(_batch_edits(schema, map(cast, engines.iter_sorted_blocks(found)), existing)),
            {axis: old.shape[axis] for axis in more},
        )

    handle.grow(growth)
    if isinstance(handle, storage.StoredHandle) and isinstance(before, storage.Snapshot):
        _count_append(handle, before, appended)


def check_append_schema(other: Schema, target: Schema, more: Mapping[int, int]) -> None:
    """Check that a tensor can be appended to one that grows by ``more``.

    Raises
    ------
    ShapeError, UnsupportedError, InvalidValueError
        If the shape, the kind of values or the fill value does not match.
    """
    shape = tuple(n + more.get(axis, 0) for axis, n in enumerate(target.shape))
    if other.shape != shape:
        raise ShapeError(f"append: shape must be {target.shape}, got {other.shape}; see resize()")
    check_kind(other.dtype, target.dtype)
    if not is_fill(np.asarray([other.fill_value]), target.fill_value)[0]:
        raise InvalidValueError(f"append: fill value must be {target.fill_value}, got {other.fill_value}; see refill()")


def _in_base_order(base: Schema, view: View, blocks: Iterator[Block]) -> Iterator[Block]:
    """Return blocks of a view in the order of the base.

    They are sorted on disk if they are more than one batch.
    """
    moved = (_to_base(base, view, block) for block in blocks)
    if view.preserves_order(range(base.ndim)):
        return moved
    held: list[Block] = []
    left = _batch_rows(base)
    for block in moved:
        held.append(block)
        left -= block.count
        if left < 0:
            from sparrow.sorting import Rows, sorter

            rows = (Rows(each.coords, each.values) for each in itertools.chain(held, moved))
            return sorter.sorted_blocks(rows, base)
    return iter(held)


def _to_base(base: Schema, view: View, block: Block) -> Block:
    coords = view.to_base(block.coords) if view.ndim else tuple(np.full(block.count, c) for _, c in view.fixed)
    return Block(coords, cast_appended(block.values, base.dtype))


def _batch_rows(base: Schema) -> int:
    return max(memory.share(tuning().append_memory_parts) // base.element_bytes(wide=True), 1)


def _batch_edits(base: Schema, blocks: Iterator[Block], existing: Duplicates) -> Iterator[Edit]:
    """Yield edits of batches that fit in memory."""
    max_rows = _batch_rows(base)
    batch: list[Block] = []
    rows = 0
    for block in blocks:
        for start in range(0, block.count, max_rows):
            part = block.take(slice(start, start + max_rows))
            if rows and rows + part.count > max_rows:
                yield _batch_edit(base, batch, existing)
                batch, rows = [], 0
            batch.append(part)
            rows += part.count
    if rows:
        yield _batch_edit(base, batch, existing)


def _batch_edit(base: Schema, blocks: list[Block], existing: Duplicates) -> Edit:
    block = concat_blocks(blocks, base.ndim, base.dtype)
    return Edit("append", upsert=canonicalize(block, base.shape, base.fill_value), existing=existing)


def resize_edit(base: Schema, labelled: Callable[[int], bool], shape: Any) -> Edit:
    """Return the edit that changes the shape; elements outside are removed.

    Raises
    ------
    ShapeError
        If the number of dimensions differs, or a size is not allowed.
    UnsupportedError
        If a dimension with labels would grow.
    """
    wanted = check_shape(tuple(shape) if isinstance(shape, np.ndarray) else shape)
    if len(wanted) != base.ndim:
        raise ShapeError(f"resize: shape must have {base.ndim} dimensions, like {base.shape}, got {wanted}")
    boxes: list[Box] = []
    for dim, (old, new) in enumerate(zip(base.shape, wanted, strict=True)):
        if new > old and labelled(dim):
            raise UnsupportedError(
                f"dimension {base.dims[dim]!r} has {old} labels and cannot grow to {new}: append() elements with new "
                f"labels, or remove the labels first with set_labels({base.dims[dim]!r}, None)"
            )
        if new < old:
            ranges = [range(n) for n in base.shape]
            ranges[dim] = range(new, old)
            boxes.append(Box(tuple(ranges)))
    return Edit("resize", clear=tuple(box for box in boxes if box.size), shape=wanted)
