"""Blocks of libsvm text, parsed in memory or in files of tasks of a cluster.

Tasks of a first round parse files and leave their blocks in the scratch folder. Once the rows of all blocks and the
index of the first feature are known, tasks of a second round write the elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.schema import MAX_DIMENSION_SIZE
from sparrow.engines.task_rounds import FileTarget, StoredRun, store_array, store_columns
from sparrow.io.base.shards import store_labels
from sparrow.kernels.coo import Block
from sparrow.plan import Scan
from sparrow.storage import DataFile

__all__ = ["Location", "ParsedBlock", "ShiftedBlocks", "StoredBlock", "store_blocks"]


class Location(NamedTuple):
    """Position of a token, for errors that only the end of the input decides."""

    file: str
    line: int
    token: str


@dataclass(slots=True)
class ParsedBlock:
    """Parsed block of r rows and e elements, sorted by row and column."""

    rows: NDArray[Any]
    """Shape (e,), counted from 0 in the block."""
    indices: NDArray[Any]
    """Shape (e,), as in the text."""
    values: NDArray[Any]
    labels: NDArray[np.float64]
    """Shape (r,)."""
    texts: pa.Array
    """Shape (r,): label texts, ``""`` for a row without label."""
    qids: NDArray[np.int64] | None
    """Shape (r,), None if no row has one."""
    smallest: int
    largest: int
    several: bool
    unlabelled: Location | None
    at_limit: Location | None
    advance: int


@dataclass(frozen=True, slots=True, eq=False)
class StoredBlock:
    """Parsed blocks of a task, in files of the scratch folder."""

    run: StoredRun | None
    """The elements, by row in the block and index in the text; None if there are none."""
    labels: Any
    texts: str
    """File of the label texts."""
    qids: Any
    smallest: int
    largest: int
    several: bool
    unlabelled: Location | None
    at_limit: Location | None


def store_blocks(blocks: list[ParsedBlock], folder: str) -> StoredBlock:
    """Write blocks to files as one."""
    starts = np.cumsum([0, *(len(block.labels) for block in blocks)])
    rows = [block.rows + start for block, start in zip(blocks, starts, strict=False)]
    columns = [np.concatenate(each) for each in (rows, [b.indices for b in blocks], [b.values for b in blocks])]
    qids = None
    if any(block.qids is not None for block in blocks):
        qids = np.concatenate([np.zeros(len(b.labels), np.int64) if b.qids is None else b.qids for b in blocks])
    return StoredBlock(
        store_columns(columns, folder) if rows and len(columns[0]) else None,
        store_array(folder, np.concatenate([block.labels for block in blocks])),
        store_labels(pa.concat_arrays([block.texts for block in blocks]), folder),
        None if qids is None else store_array(folder, qids),
        min((block.smallest for block in blocks if block.largest >= 0), default=-1),
        max(block.largest for block in blocks),
        any(block.several for block in blocks),
        next((block.unlabelled for block in blocks if block.unlabelled is not None), None),
        next((block.at_limit for block in blocks if block.at_limit is not None), None),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ShiftedBlocks:
    """Write the elements of stored blocks to data files."""

    runs: tuple[StoredRun, ...]
    offsets: tuple[int, ...]
    """Row of the first one of each block."""
    base: int
    """Index of the first feature."""
    target: FileTarget

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> list[DataFile]:
        """Write the blocks [start, stop); return the files."""
        return self.target.write(self._blocks(start, stop))

    def _blocks(self, start: int, stop: int) -> Iterator[Block]:
        for number in range(start, stop):
            for found in self.runs[number].read(0, MAX_DIMENSION_SIZE):
                rows, columns = (column.astype(np.int64, copy=False) for column in found.coords)
                assert found.values is not None
                yield Block((rows + self.offsets[number], columns - self.base), found.values)
