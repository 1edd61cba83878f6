"""Append plans: appends of several edits, and appends that grow dimensions.

The elements of several edits, more than fit in memory, are spilled to disk in key order. Each range of keys is read
twice: once to see what exists already and what changes, once to write. So an append costs in proportion to its elements
and those of the files that they meet, however little memory there is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from sparrow.core.indexing import Box
from sparrow.kernels.coo import Block
from sparrow.relations.edits import Edit, Growth, apply_edit, merge_labels
from sparrow.relations.protocol import Chunk
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import SpilledBlocks, SpillFile
from sparrow.storage.delta.append_runs import Part, isin_block, merge_blocks, merge_parts
from sparrow.storage.delta.commit_plan import (
    CommitPlan,
    all_files,
    files_at,
    plan_edit,
    rows_between,
    runs_to_merge,
    schema_with_metadata,
)
from sparrow.storage.delta.file_table import FileTable
from sparrow.storage.delta.labels import WrittenLabels, append_labels, write_labels
from sparrow.storage.delta.merge_plan import MergePiece, plan_merge, rewrite_pieces, write_blocks
from sparrow.storage.delta.rewrite_plan import WriteSet, duplicate_error, is_equal, prepare
from sparrow.storage.delta.snapshot import Snapshot
from sparrow.storage.parquet.layout import Sizes
from sparrow.storage.tuning import tuning

__all__ = ["plan_appends", "plan_growth"]


def plan_appends(snapshot: Snapshot, edits: Iterable[Edit], sizes: Sizes) -> CommitPlan:
    """Write the files of prepared edits, with one edit in memory at a time.

    Parameters
    ----------
    snapshot
        The version.
    edits
        Elements to append, in ascending order of their keys within and across edits, none equal to the fill value. All
        have the same rule for elements that exist.
    sizes
        Target sizes.

    Raises
    ------
    DuplicateError
        If the rule is ``"error"`` and an element exists.
    """
    remaining = iter(edits)
    first = list(itertools.islice(remaining, 2))
    if len(first) < 2:
        return replace(plan_edit(snapshot, first[0], sizes), shape=None) if first else CommitPlan()
    with closing(_Append(snapshot, first[0])) as appended:
        while first:
            appended.add(first.pop(0))
        for edit in remaining:
            appended.add(edit)
        return appended.plan(sizes)


class _Append:
    """Elements that are appended to a version, in a spill file.

    Parameters
    ----------
    snapshot
        The version.
    edit
        Edit with the rule for elements that exist, and the shape.
    """

    def __init__(self, snapshot: Snapshot, edit: Edit) -> None:
        old = snapshot.schema
        self._snapshot = snapshot
        self._edit = replace(edit, upsert=None)
        self._schema = replace(old, shape=edit.shape or old.shape)
        self._spilled = SpilledBlocks(SpillFile())
        self._read_spilled = lru_cache(tuning().spilled_parts_cached)(self._spilled.read)
        self._parts: list[Part] = []
        self._rows = 0
        self._top = np.full(old.ndim, -1)

    def close(self) -> None:
        """Free the disk space."""
        self._spilled.spool.close()

    def add(self, edit: Edit) -> None:
        """Add the elements of the next edit."""
        assert edit.upsert is not None
        coords = [
            column.astype(self._schema.coordinate_dtype(dim), copy=False)
            for dim, column in enumerate(edit.upsert.coords)
        ]
        rows = tuning().spilled_part_rows
        for start in range(0, edit.upsert.count, rows):
            block = Block(tuple(coords), edit.upsert.values).take(slice(start, start + rows))
            low, high = (tuple(int(side(column)) for column in block.coords) for side in (np.min, np.max))
            assert not self._parts or self._parts[-1].low[0] <= low[0], "appended elements are in ascending order"
            self._parts.append(Part(low, high, block.count, True, len(self._parts)))
            self._spilled.append(block)
            self._rows += block.count
            self._top = np.maximum(self._top, high)

    def plan(self, sizes: Sizes) -> CommitPlan:
        """Write the elements into the files that they meet, or as an append run.

        They become a run by the rule of small appends: if no element changes, and files of many more would be written.
        """
        snapshot, old = self._snapshot, self._snapshot.base.coordinate_dtypes
        dtypes = tuple(
            kind if top <= np.iinfo(kind).max else np.dtype(np.int64) for kind, top in zip(old, self._top, strict=True)
        )
        pieces = plan_merge(snapshot, [*snapshot.run_parts(), *self._parts], sizes, all_files=dtypes != old)
        compared = list(ordered_map(self._compare, pieces, settings.current().threads))
        memory.trim()  # freed arrays of the threads, before the largest phase
        changes, exists = [change for change, _ in compared], [exist for _, exist in compared]
        if not any(changes):
            return CommitPlan()
        if dtypes == old and (self._edit.existing == "first" or not any(exists)):
            met = {piece.at for piece, change in zip(pieces, changes, strict=True) if change and piece.at is not None}
            replaced = self._runs_to_merge(int(snapshot.base.rows[sorted(met)].sum()))
            if replaced is not None:
                return self._write_run(pieces, exists, replaced, sizes)
        columns = None
        if dtypes != old:
            columns = schema_with_metadata(snapshot, self._schema.shape, dtypes, snapshot.metadata.profile)
        written = [
            change or dtypes != old or any(part.run and _is_stored(part) for part in piece.chunk.ref.parts)
            for piece, change in zip(pieces, changes, strict=True)
        ]
        added, places = rewrite_pieces(snapshot, pieces, written, self._merge, sizes, dtypes)
        return CommitPlan(added, files_at(snapshot, places) + all_files(snapshot.runs), columns)

    def _runs_to_merge(self, rows_met: int) -> Sequence[FileTable] | None:
        """Return the runs that become one with the elements.

        None if the elements go into base files.

        ``rows_met`` is the size of the base files in which they lie.
        """
        snapshot, bound, limits = self._snapshot, settings.current().append_runs, tuning()
        if not bound or rows_met <= limits.append_run_factor * self._rows:
            return None
        replaced, rows = runs_to_merge(snapshot, self._rows, [False] * len(snapshot.runs), bound)
        between = rows_between(snapshot, self._parts[0].low[0], self._parts[-1].high[0])
        folds = len(replaced) == len(snapshot.runs) and between <= limits.fold_factor * rows
        return None if folds else replaced

    def _write_run(
        self, pieces: Sequence[MergePiece], exists: Sequence[bool], replaced: Sequence[FileTable], sizes: Sizes
    ) -> CommitPlan:
        """Write the elements that do not exist, and those of other runs, as one run."""
        snapshot = self._snapshot
        paths = {table.path(at) for table in replaced for at in range(len(table))}

        def read(item: tuple[MergePiece, bool]) -> Block:
            chunk, exist = item[0].chunk, item[1]
            new = self._read(chunk, _is_appended)
            if exist:
                new = new.take(~isin_block(self._read(chunk, _is_stored), new))
            merged = self._read(chunk, lambda part: _is_stored(part) and part.ref[0] in paths)
            return merge_blocks([new, merged], self._schema.ndim, self._schema.dtype)

        rows = self._rows + sum(int(table.rows.sum()) for table in replaced)
        blocks = ordered_map(read, zip(pieces, exists, strict=True), settings.current().threads)
        return CommitPlan(write_blocks(snapshot, blocks, rows, sizes, run=True), all_files(replaced))

    def _compare(self, piece: MergePiece) -> tuple[bool, bool]:
        """Return whether elements of a piece change, and whether appended ones exist."""
        new = self._read(piece.chunk, _is_appended)
        if not new.count:
            return False, False
        old = self._read(piece.chunk, _is_stored)
        exists = isin_block(old, new)
        if self._edit.existing == "error" and exists.any():
            raise duplicate_error(tuple(int(column[exists.argmax()]) for column in new.coords))
        if self._edit.existing == "first" or not exists.all():
            return not exists.all(), bool(exists.any())
        return not is_equal(old, self._apply(old, new)), True

    def _merge(self, chunk: Chunk) -> Block:
        """Return the elements of a chunk after the append."""
        old, new = self._read(chunk, _is_stored), self._read(chunk, _is_appended)
        return self._apply(old, new) if new.count else old

    def _apply(self, old: Block, new: Block) -> Block:
        """Return elements after the edit; only those that both have are sorted."""
        ndim, dtype = self._schema.ndim, self._schema.dtype
        exists = isin_block(old, new)
        if not exists.any():
            return merge_blocks([old, new], ndim, dtype)
        replaced = isin_block(new, old)
        met, old = old.take(replaced), old.take(~replaced)
        del replaced
        if self._edit.existing != "last":
            both = apply_edit(met, replace(self._edit, upsert=new.take(exists)), self._schema)
            new = merge_blocks([new.take(~exists), both], ndim, dtype)
        return merge_blocks([old, new], ndim, dtype)

    def _read(self, chunk: Chunk, which: Callable[[Part], bool]) -> Block:
        """Return the elements of some parts of a chunk, in order."""
        ref = replace(chunk.ref, parts=tuple(filter(which, chunk.ref.parts)))
        return merge_parts(ref, self._read_part, self._schema.ndim, self._schema.dtype)

    def _read_part(self, part: Part) -> Block:
        if _is_appended(part):
            return self._read_spilled(part.ref)
        return self._snapshot.read_part(part)


def _is_appended(part: Part) -> bool:
    return isinstance(part.ref, int)


def _is_stored(part: Part) -> bool:
    return not isinstance(part.ref, int)


def plan_growth(snapshot: Snapshot, growth: Growth, sizes: Sizes) -> CommitPlan:
    """Write labels and files of an append that makes dimensions longer."""
    target = WrittenLabels(snapshot.path)
    try:
        return replace(_plan_growth(snapshot, growth, sizes, target), written_labels=target)
    except BaseException:
        target.undo()
        raise


def _plan_growth(snapshot: Snapshot, growth: Growth, sizes: Sizes, target: WrittenLabels) -> CommitPlan:
    schema = replace(snapshot.schema, shape=growth.shape)
    new_labels: dict[int, pa.Array] = {}
    more: dict[int, str] = {}
    written: dict[int, str] = {}  # by identity: dimensions may share an array
    for dim, names in growth.labels.items():
        stored = snapshot.vocabulary(dim) if dim in growth.n_unchanged else None
        if names is not None and stored is not None and len(stored.array) == growth.n_unchanged[dim]:
            more[dim] = written.get(id(names)) or append_labels(target, names, stored)
            written[id(names)] = more[dim]
        elif names is not None:
            new_labels[dim] = names
    files = dict.fromkeys(growth.labels) | write_labels(target, schema, new_labels) | more
    labels = merge_labels(snapshot.metadata.labels, files)
    low: list[int] = []
    high: list[int] = []

    def edits() -> Iterator[Edit]:
        for edit in growth.edits():
            found = prepare(replace(edit, shape=growth.shape), snapshot.schema)
            if found.upsert is None:
                continue
            tops, bottoms = ([int(f(column)) for column in found.upsert.coords] for f in (np.max, np.min))
            low[:] = list(map(min, low, bottoms)) if low else bottoms
            high[:] = list(map(max, high, tops)) if high else tops
            yield found

    work = plan_appends(snapshot, edits(), sizes)
    box = Box(tuple(range(a, b + 1) for a, b in zip(low, high, strict=True)))
    shape = growth.shape if growth.shape != snapshot.schema.shape else None
    return replace(work, shape=shape, labels=labels, write_set=WriteSet((), (box,) if low else ()))
