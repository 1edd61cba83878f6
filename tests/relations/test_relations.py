"""Relations in memory: pruning, edits, Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.errors import DuplicateError
from sparrow.kernels.coo import Block
from sparrow.relations.arrow import arrow_table
from sparrow.relations.edits import Edit, apply_edit
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.relations.protocol import ArrowSource, scan
from sparrow.testing import observe, strategy, tune


def dense_relation(shape: tuple[int, ...]) -> MemoryRelation:
    coords = np.indices(shape).reshape(len(shape), -1)
    return MemoryRelation(Schema(shape), Block(tuple(coords), np.arange(1.0, coords.shape[1] + 1)))


@strategy("small_chunks")
def test_chunks_cover_the_box() -> None:
    relation = dense_relation((10, 6))
    box = Box((range(4, 6), range(6)))
    blocks = list(scan(relation, box))
    rows = np.concatenate([b.coords[0] for b in blocks])
    assert rows.tolist() == [4] * 6 + [5] * 6
    assert max(b.count for b in blocks) <= 7
    assert relation.stats(box).rows == 12
    assert relation.chunks(Box((range(0), range(6)))) == []


def test_source_is_an_arrow_table() -> None:
    source = dense_relation((4, 3)).source(Box((range(1, 2), range(3))))
    assert isinstance(source, ArrowSource)
    assert isinstance(source.table, pa.Table)
    assert source.table.column_names == ["d0", "d1", "value"]
    assert source.table.num_rows == 3


@given(st.integers(0, 2**32 - 1))
def test_edits_equal_dense_assignment(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (5, 4)
    dense = rng.integers(-1, 2, shape)
    at = dense.nonzero()
    schema = Schema(shape, dtype=np.dtype("int64"))
    block = Block(at, dense[at])
    low, high = np.sort(rng.integers(0, 6, 2)).tolist(), np.sort(rng.integers(0, 5, 2)).tolist()
    step = int(rng.integers(1, 3))
    box = Box((range(low[0], low[1], step), range(high[0], high[1])))
    cells = rng.choice(20, size=6, replace=False)
    cells.sort()
    new = rng.integers(-1, 2, 6)
    rows, columns = np.unravel_index(cells, shape)
    rule = str(rng.choice(["last", "first", "sum", "min", "max"]))
    expected = dense.copy()
    expected[np.ix_(box.ranges[0], box.ranges[1])] = 0
    for i, j, v in zip(rows, columns, new, strict=True):
        had = expected[i, j]
        combined = {"last": v, "first": had, "sum": had + v, "min": min(had, v), "max": max(had, v)}[rule]
        expected[i, j] = combined if had else v
    found = apply_edit(block, Edit("test", (box,), Block((rows, columns), new), rule), schema)  # type: ignore[arg-type]
    out = np.zeros(shape, int)
    out[found.coords] = found.values
    assert np.array_equal(out, expected)
    assert (found.values != 0).all()


def test_readers_keep_the_old_relation() -> None:
    handle = MemoryHandle(dense_relation((2, 2)))
    before = handle.current
    after = handle.commit(Edit("test", upsert=Block((np.array([0]), np.array([0])), np.array([9.0]))))
    assert before.block.values.tolist() == [1, 2, 3, 4]
    assert after.block.values.tolist() == [9, 2, 3, 4]
    assert after.token != before.token
    with pytest.raises(DuplicateError, match=r"\(0, 0\)"):
        handle.commit(Edit("test", upsert=Block((np.array([0]), np.array([0])), np.array([1.0])), existing="error"))
    assert handle.current is after


def test_complex_values_take_two_columns() -> None:
    schema = Schema((3,), dtype=np.dtype("complex64"))
    table = arrow_table(schema, Block((np.array([1]),), np.array([1 + 2j], np.complex64)))
    assert table.to_pydict() == {"d0": [1], "value": [1.0], "value_im": [2.0]}
    assert table.schema.field("value").type == pa.float32()


def test_only_one_chunk_is_read_small() -> None:
    schema = Schema((10, 5))
    block = Block((np.arange(10), np.zeros(10, np.int64)), np.ones(10))
    relation = MemoryRelation(schema, block)
    assert relation.is_small
    assert relation.read_small() is relation.block
    with strategy("small_chunks"):
        relation = MemoryRelation(schema, block)
        assert not relation.is_small
        assert relation.read_small() is None
        with observe("relations.read") as events:
            assert sp.Tensor(relation).sum() == 10
    assert [details["rows"] for _, details in events] == [7, 3]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_chunks_in_memory_do_not_depend_on_the_box(size: int) -> None:
    rows = np.repeat(np.arange(10), 3)[4:]
    schema = Schema((12, 3), (), np.dtype(float))
    relation = MemoryRelation(schema, Block((rows, np.tile(np.arange(3), 10)[4:]), np.ones(len(rows))))
    with tune("relations", chunk_elements=size):
        ends = {at for chunk in relation.chunks(Box.from_shape((12, 3))) for at in chunk.ref}
        for first in range(13):
            for last in range(first, 13):
                chunks = relation.chunks(Box((range(first, last), range(3))))
                inside = np.flatnonzero((rows >= first) & (rows < last))
                assert sum(chunk.rows for chunk in chunks) == len(inside)
                assert all(chunk.rows > 0 for chunk in chunks)
                assert {at for chunk in chunks for at in chunk.ref} <= {*ends, *inside[:1], *(inside[-1:] + 1)}
