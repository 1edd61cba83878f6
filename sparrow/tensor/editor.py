"""Writing to live tensors: one edit of many writes, resizing, appending, and what is said of many small commits."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from sparrow import engines, storage
from sparrow.core.indexing import Box, View
from sparrow.core.schema import Schema, check_shape, is_fill
from sparrow.errors import InvalidValueError, PerformanceWarning, ShapeError, UnsupportedError
from sparrow.kernels.coo import Block, Duplicates, canonicalize, concat_blocks
from sparrow.plan import Scan, axis_labels, fit_to_target
from sparrow.relations.base import Edit, Growth, Handle, Relation
from sparrow.runtime import memory
from sparrow.tensor.assignment import assignment, check_kind, placed, placement

__all__ = ["Editor", "append", "check_appended", "commit", "grow", "resizing"]

_SMALL_COMMITS = 100
_LISTED = 1024
_PARTS = 20
"""Of the free memory, one part for the entries of one piece of an append; sorting holds them several times."""

_REWRITTEN = 100, 1 << 18
"""Entries that were written for each that was brought, and in each append, from which on many appends are warned of."""

_single: WeakKeyDictionary[Handle, int] = WeakKeyDictionary()
_appended: WeakKeyDictionary[Handle, tuple[int, int, int]] = WeakKeyDictionary()
"""Of each handle how many appends there were, and the entries that they brought and wrote."""


def commit(handle: Handle, edit: Edit, level: int = 3) -> None:
    """Commit an edit; the hundredth of a single cell warns, ``level`` calls up."""
    handle.commit(edit)
    cells = max(sum(box.size for box in edit.clear), 0 if edit.upsert is None else edit.upsert.count)
    if cells == 1:
        count = _single[handle] = _single.get(handle, 0) + 1
        if count == _SMALL_COMMITS:
            warnings.warn(
                f"{count} commits of a single cell each: every one rewrites the file, or in memory the arrays, that "
                "hold the cell. Write many cells at once with A.put(coords, values), or many times in one commit "
                "with 'with A.edit() as e: e[...] = v'",
                PerformanceWarning,
                stacklevel=level,
            )


class Editor:
    """Writes gathered by ``with A.edit() as e`` and committed together when the block ends well.

    Later writes win over earlier ones. Nothing is visible before the end of the block, and nothing is
    written where it raises. Values are read when they are given: ``e[0] = A[1]`` takes the row as it was
    before the block.
    """

    def __init__(self, handle: Handle, view: View, schema: Schema, counted: Callable[[Any], Any]) -> None:
        self._handle = handle
        self._view = view
        self._names = schema.dims
        self._counted = counted
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
            edit = self._folded()
            if not edit.clear and edit.upsert is None:
                return
            shape = self._handle.current.schema.shape
            if shape != self._base.shape:
                raise ShapeError(
                    f"the tensor was resized from {self._base.shape} to {shape} during the edit: nothing was written"
                )
            commit(self._handle, edit)

    def __getitem__(self, key: Any) -> Any:
        raise UnsupportedError("an edit only writes: read from the tensor, which shows the state before the edit")

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write cells, as ``A[key] = value`` does."""
        self._check_open()
        view = self._view.then(self._counted(key), "paired", self._names)
        self._add(assignment(self._base, view, placed(self._handle.current, view, value)))

    def put(self, coords: Any, values: Any) -> None:
        """Write cells by coordinate, as ``A.put(coords, values)`` does."""
        self._check_open()
        self._add(placement(self._base, self._view, coords, values, self._names))

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidValueError("the edit is over: writes belong into its block, 'with A.edit() as e: ...'")

    def _add(self, step: Edit) -> None:
        """Take in a write: what it clears drops earlier entries, what it writes comes after them."""
        upsert = step.upsert
        assert upsert is not None
        for box in step.clear:
            if upsert.count == box.size:
                continue
            if box.size <= max(_LISTED, 4 * upsert.count):
                upsert = self._filled(box, upsert)
                continue
            if self._blocks:
                before = concat_blocks(self._blocks, self._base.ndim, self._base.dtype)
                before = before.take(~box.contains(before.coords))
                self._blocks, self._count = [before], before.count
                self._room.hold(before.nbytes)
            self._cleared[box] = None
        if upsert.count:
            self._room.grow(upsert.nbytes)
            self._count += upsert.count
            self._blocks.append(upsert)

    def _filled(self, box: Box, upsert: Block) -> Block:
        """Return entries with the other cells of a box listed as fill."""
        grid = np.meshgrid(*(np.arange(r.start, r.stop, r.step) for r in box.ranges), indexing="ij")
        fill = np.full(box.size, self._base.fill_value, self._base.dtype)
        blocks = [Block(tuple(column.reshape(-1) for column in grid), fill), upsert]
        both = concat_blocks(blocks, self._base.ndim, self._base.dtype)
        return canonicalize(both, self._base.shape, None, "last", keep_fill=True)

    def _folded(self) -> Edit:
        """Return the one edit that does what all writes did in turn."""
        upsert = None
        if self._count:
            upsert = concat_blocks(self._blocks, self._base.ndim, self._base.dtype)
            upsert = canonicalize(upsert, self._base.shape, None, "last", keep_fill=True)
        return Edit("edit", clear=tuple(self._cleared), upsert=upsert)


def append(
    handle: Handle, view: View, parts: Callable[[], Iterator[Block]], existing: Duplicates, level: int = 3
) -> None:
    """Add entries, given in the coordinates of a view, in one commit; what is stored is streamed piece by piece.

    Parameters
    ----------
    parts
        Begins the entries: blocks that hold no cell twice, without fill.
    """
    base = handle.current.schema

    def pieces() -> Iterator[Edit]:
        return _pieces(base, view, parts(), existing)

    if not isinstance(handle, storage.StoredHandle):
        blocks = list(parts())
        if blocks:
            commit(handle, _piece(base, view, blocks, existing), level + 1)
        return
    before = handle.current
    first = list(itertools.islice(found := pieces(), 2))
    if len(first) < 2:
        for one in first:
            commit(handle, one, level + 1)
            _count_append(handle, before, 0 if one.upsert is None else one.upsert.count, level + 1)
        return
    del first, found
    handle.append(pieces, view.box())


def _count_append(handle: storage.StoredHandle, before: storage.Snapshot, entries: int, level: int) -> None:
    """Warn where a hundred appends wrote far more of what was there than they brought."""
    then, now = set(before.active.paths), handle.current.active
    wrote = sum(n for name, n in zip(now.paths, now.rows.tolist(), strict=True) if name not in then)
    count, brought, written = _appended.get(handle, (0, 0, 0))
    count, brought, written = count + 1, brought + entries, written + wrote
    _appended[handle] = (count, brought, written) if count < _SMALL_COMMITS else (0, 0, 0)
    if count == _SMALL_COMMITS and written > max(_REWRITTEN[0] * brought, _REWRITTEN[1] * count):
        first = handle.current.schema.dims[0]
        warnings.warn(
            f"{count} appends brought {brought:,} entries and wrote {written:,}: to change cells that are there, or "
            "append_runs=0, has the files in between written anew. Append more at a time, or have a dimension before "
            f"{first!r} that grows with the appends, such as the day: what is new is written alone, and "
            "A.sum(axis=0) adds it up",
            PerformanceWarning,
            stacklevel=level,
        )


def grow(handle: Handle, scan: Scan, existing: Duplicates, level: int = 3) -> None:
    """Add the entries of a scan by label, in one commit; labels that are new make dimensions longer."""
    before, brought = handle.current, 0

    def counted(edits: Iterator[Edit]) -> Iterator[Edit]:
        nonlocal brought
        brought = 0
        for edit in edits:
            brought += 0 if edit.upsert is None else edit.upsert.count
            yield edit

    def growth(relation: Relation) -> Growth:
        old = relation.schema
        whole = View.identity(old.shape)
        target = Scan(relation, whole, old)
        found, more = fit_to_target(scan, target)
        schema = replace(old, shape=found.schema.shape)
        check_appended(found.schema, old, {axis: len(labels) for axis, labels in more.items()})
        keys = relation.label_keys
        labels: dict[Any, pa.Array] = {}  # dimensions of one vocabulary keep having the same object
        for axis, new in more.items():
            if keys[axis] not in labels:
                before = axis_labels(target)[axis].array()
                labels[keys[axis]] = pa.concat_arrays([before, new])
        return Growth(
            {axis: labels[keys[axis]] for axis in more},
            schema.shape,
            lambda: counted(_pieces(schema, View.identity(schema.shape), engines.iter_sorted_blocks(found), existing)),
            {axis: old.shape[axis] for axis in more},
        )

    handle.grow(growth)
    if isinstance(handle, storage.StoredHandle) and isinstance(before, storage.Snapshot):
        _count_append(handle, before, brought, level + 1)


def check_appended(other: Schema, target: Schema, more: Mapping[int, int]) -> None:
    """Raise an error where a tensor cannot be appended to another that grows by some cells along axes."""
    shape = tuple(n + more.get(axis, 0) for axis, n in enumerate(target.shape))
    if other.shape != shape:
        raise ShapeError(f"append: the shapes must be equal, got {target.shape} and {other.shape}; see resize()")
    check_kind(other.dtype, target.dtype)
    if not is_fill(np.asarray([other.fill_value]), target.fill_value)[0]:
        raise InvalidValueError(
            f"append: the fill values must be equal, got {target.fill_value} and {other.fill_value}"
        )


def _pieces(base: Schema, view: View, parts: Iterator[Block], existing: Duplicates) -> Iterator[Edit]:
    """Yield entries as edits small enough for memory."""
    most = max(memory.share(_PARTS) // base.element_bytes(wide=True), 1)
    waiting: list[Block] = []
    rows = 0
    for part in parts:
        for start in range(0, part.count, most):
            piece = part.take(slice(start, start + most))
            if rows and rows + piece.count > most:
                yield _piece(base, view, waiting, existing)
                waiting, rows = [], 0
            waiting.append(piece)
            rows += piece.count
    if rows:
        yield _piece(base, view, waiting, existing)


def _piece(base: Schema, view: View, blocks: list[Block], existing: Duplicates) -> Edit:
    block = concat_blocks(blocks, view.ndim, base.dtype)
    coords = view.to_base(block.coords) if view.ndim else tuple(np.full(block.count, c) for _, c in view.fixed)
    with np.errstate(all="ignore"):
        values = block.values.astype(base.dtype)
    return Edit("append", upsert=canonicalize(Block(coords, values), base.shape, base.fill_value), existing=existing)


def resizing(base: Schema, labelled: Callable[[int], bool], shape: Any) -> Edit:
    """Return the edit that gives a tensor another shape; entries outside go.

    Raises
    ------
    ShapeError
        If the number of dimensions differs, or a size is not allowed.
    UnsupportedError
        If a dimension with labels is to grow.
    """
    wanted = check_shape(tuple(shape) if isinstance(shape, np.ndarray) else shape)
    if len(wanted) != base.ndim:
        raise ShapeError(f"resize keeps the number of dimensions: the shape is {base.shape}, got {wanted}")
    boxes: list[Box] = []
    for dim, (old, new) in enumerate(zip(base.shape, wanted, strict=True)):
        if new > old and labelled(dim):
            raise UnsupportedError(
                f"dimension {base.dims[dim]!r} has a label for each of its {old} cells, so it cannot grow to {new}: "
                f"append() what has new labels, or take them away first with set_labels({base.dims[dim]!r}, None)"
            )
        if new < old:
            ranges = [range(n) for n in base.shape]
            ranges[dim] = range(new, old)
            boxes.append(Box(tuple(ranges)))
    return Edit("resize", clear=tuple(box for box in boxes if box.size), shape=wanted)
