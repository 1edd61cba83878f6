"""Merge plans: base files and elements beside them become new files.

The key space is cut at both ends of every base file. So each piece lies in one file or in a gap between two, and a file
that nothing meets stays.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparrow.kernels.coo import Block
from sparrow.relations.protocol import Chunk
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage.delta.append_runs import Part, plan_chunks
from sparrow.storage.delta.rewrite_plan import bytes_per_element, delete_files, files_to_merge
from sparrow.storage.delta.snapshot import Snapshot
from sparrow.storage.parquet.layout import Sizes
from sparrow.storage.parquet.writer import DataFile, TensorWriter

__all__ = ["MergePiece", "plan_merge", "rewrite_pieces", "write_blocks"]


@dataclass(frozen=True, slots=True)
class MergePiece:
    """Range of keys within a base file, or within a gap between two."""

    chunk: Chunk
    at: int | None
    """Number of the base file; None in a gap."""


def plan_merge(snapshot: Snapshot, beside: Sequence[Part], sizes: Sizes, all_files: bool = False) -> list[MergePiece]:
    """Return pieces that cover some sorted parts and the base files they meet.

    Small files next to these are covered, too.

    Parameters
    ----------
    snapshot
        The version.
    beside
        Row groups of append runs, and elements that no file has.
    sizes
        Target sizes; a piece has about as many elements as a row group.
    all_files
        Whether to cover all base files.
    """
    if not beside:
        return []
    base = snapshot.base
    low, high = min(part.low[0] for part in beside), max(part.high[0] for part in beside)
    first, last = int(np.count_nonzero(base.high[:, 0] < low)), int(np.count_nonzero(base.low[:, 0] <= high))
    added = sum(part.rows for part in beside)
    first -= len(files_to_merge(base, sizes, added, reversed(range(first))))
    last += len(files_to_merge(base, sizes, added, range(last, len(base))))
    places = range(len(base)) if all_files else range(first, last)
    stored = snapshot.base_parts(places)
    firsts, lasts = [base.footer(at).first for at in places], [base.footer(at).last for at in places]
    after = [(*last[:-1], last[-1] + 1) for last in lasts]
    out: list[MergePiece] = []
    for chunk in plan_chunks([*stored, *beside], sizes.group_rows, starts=[*firsts, *after]):
        start, stop = chunk.ref.start, chunk.ref.stop
        begin = 0 if start is None else bisect_left(lasts, start)
        at = places[begin] if begin < (len(places) if stop is None else bisect_left(firsts, stop)) else None
        path = None if at is None else base.path(at)
        parts = tuple(part for part in chunk.ref.parts if part.run or part.ref[0] == path)
        if parts:
            out.append(MergePiece(replace(chunk, ref=replace(chunk.ref, parts=parts)), at))
    return out


def rewrite_pieces(
    snapshot: Snapshot,
    pieces: Sequence[MergePiece],
    changes: Sequence[bool],
    read: Callable[[Chunk], Block],
    sizes: Sizes,
    dtypes: Sequence[np.dtype[Any]] | None = None,
) -> tuple[list[DataFile], list[int]]:
    """Write the pieces that change, and all others of their base files.

    On failure no file is left.

    Parameters
    ----------
    snapshot, pieces
        The version, and its pieces.
    changes
        For each piece, whether its elements change.
    read
        Returns the new elements of a piece.
    sizes
        Target sizes.
    dtypes
        Dtypes of the coordinate columns; those of the base files by default.

    Returns
    -------
    added : list of DataFile
    replaced : list of int
        Numbers of the base files that were rewritten.
    """
    replaced = {piece.at for piece, change in zip(pieces, changes, strict=True) if change and piece.at is not None}
    written = [change or piece.at in replaced for piece, change in zip(pieces, changes, strict=True)]
    merged = set().union(*(_small_neighbors(snapshot, pieces, *ends, sizes) for ends in _true_ranges(written)))
    replaced |= merged
    written = [write or piece.at in merged for piece, write in zip(pieces, written, strict=True)]
    added: list[DataFile] = []
    try:
        for start, stop in _true_ranges(written):
            chunks = [piece.chunk for piece in pieces[start:stop]]
            blocks = ordered_map(read, chunks, settings.current().threads if len(chunks) > 1 else 1)
            added += write_blocks(snapshot, blocks, sum(chunk.rows for chunk in chunks), sizes, dtypes=dtypes)
    except BaseException:
        delete_files(snapshot.path, added)
        raise
    return added, sorted(replaced)


def _true_ranges(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield start and stop of each range of true flags."""
    for flag, group in itertools.groupby(range(len(flags)), key=flags.__getitem__):
        if flag:
            places = list(group)
            yield places[0], places[-1] + 1


def _small_neighbors(
    snapshot: Snapshot, pieces: Sequence[MergePiece], start: int, stop: int, sizes: Sizes
) -> list[int]:
    """Return the small files on one side of a gap, which its elements join."""
    rows = sum(piece.chunk.rows for piece in pieces[start:stop])
    if any(piece.at is not None for piece in pieces[start:stop]):
        return []
    if not sizes.is_small(rows * bytes_per_element(snapshot), rows):
        return []
    for side in (reversed(pieces[:start]), pieces[stop:]):
        near = dict.fromkeys(piece.at for piece in side if piece.at is not None)
        if found := files_to_merge(snapshot.base, sizes, rows, near):
            return found
    return []


def write_blocks(
    snapshot: Snapshot,
    blocks: Iterable[Block],
    rows: int,
    sizes: Sizes,
    run: bool = False,
    dtypes: Sequence[np.dtype[Any]] | None = None,
) -> list[DataFile]:
    """Write sorted blocks to new files of the base or of an append run.

    Parameters
    ----------
    snapshot, blocks
        The version, and the blocks.
    rows
        About how many elements there are.
    sizes
        Target sizes.
    run
        Whether the files form an append run.
    dtypes
        Dtypes of the coordinate columns; those of the base files by default.
    """
    with TensorWriter(
        snapshot.path,
        snapshot.schema.dims,
        snapshot.schema.dtype,
        profile=snapshot.metadata.profile,
        coordinate_dtypes=snapshot.base.coordinate_dtypes if dtypes is None else dtypes,
        sizes=sizes.for_total(rows * bytes_per_element(snapshot), rows),
        run=run,
    ) as writer:
        for block in blocks:
            writer.write(block)
        return writer.finish()
