"""Helpers shared by the tests of storage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparrow import storage
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block, canonicalize, concat_blocks
from sparrow.relations.protocol import ParquetSource, scan

TINY = storage.Sizes(file_rows=8, group_rows=3)
"""Files of 9 entries in row groups of 3."""


def entries(cells: Sequence[Sequence[int]], values: Any, dtype: Any = np.float64) -> Block:
    """Return a block of cells, a list of coordinates each."""
    columns = np.asarray(cells, dtype=np.int64).reshape(len(cells), -1)
    return Block(tuple(np.ascontiguousarray(c) for c in columns.T), np.asarray(values, dtype=dtype))


def random_entries(schema: Schema, count: int, seed: int = 0) -> Block:
    """Return canonical entries at random cells."""
    rng = np.random.default_rng(seed)
    coords = tuple(rng.integers(0, n, count) for n in schema.shape)
    values = rng.integers(1, 100, count).astype(schema.dtype)
    return canonicalize(Block(coords, values), schema.shape, schema.fill_value, "last")


def read_all(snapshot: storage.Snapshot, order: tuple[int, ...] | None = None) -> Block:
    """Return all entries of a snapshot."""
    schema = snapshot.schema
    blocks = list(scan(snapshot, Box.from_shape(schema.shape), order))
    return concat_blocks(blocks, schema.ndim, schema.dtype)


def files_of(snapshot: storage.Snapshot, box: Box, order: tuple[int, ...] | None = None) -> ParquetSource:
    """Return the files that a SQL engine scans of a local tensor."""
    source = snapshot.source(box, order)
    assert isinstance(source, ParquetSource)
    return source


def end_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every process look dead to those who check for leftovers."""

    def kill(pid: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr("os.kill", kill)


def assert_same(found: Block, wanted: Block) -> None:
    """Assert that two blocks hold the same entries, to the bit."""
    assert found.count == wanted.count
    for a, b in zip(found.coords, wanted.coords, strict=True):
        np.testing.assert_array_equal(a, b)
    assert found.values.dtype == wanted.values.dtype
    assert found.values.tobytes() == wanted.values.tobytes()


def names(folder: Path) -> set[str]:
    """Return the data files in a folder."""
    return {path.name for path in folder.glob("*.parquet")}
