"""Appends of several edits, which do not fit in memory: one pass over files."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
import sparrow.testing
from sparrow import errors, storage
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block
from sparrow.relations.edits import Edit, apply_edit
from sparrow.testing import tune
from tests.storage.helpers import TINY, assert_same, entries, names, random_entries, read_all

SIZES = storage.Sizes(file_rows=500, group_rows=50)
RULES: list[Any] = ["error", "sum", "last", "first", "min", "max"]


def batches(block: Block, cuts: list[int], rule: Any = "error") -> list[Edit]:
    """Return a block as edits, cut at some of its elements."""
    ends = [0, *sorted({cut for cut in cuts if 0 < cut < block.count}), block.count]
    return [
        Edit("append", upsert=block.take(slice(start, stop)), existing=rule)
        for start, stop in itertools.pairwise(ends)
        if start < stop
    ]


def append(handle: storage.StoredHandle, edits: list[Edit]) -> None:
    """Append edits in one commit."""
    handle.append(lambda: iter(edits), Box.from_shape(handle.current.schema.shape))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rule", ["error", "sum"])
def test_cost_grows_with_the_elements(tmp_path: Path, rule: Any, transposed: bool) -> None:
    costs = []
    for n in (4_000, 16_000):
        rows, cols = np.divmod(np.arange(2 * n), 20)
        shape, odd = (n // 10, 20), np.arange(2 * n) % 2 == (1 if rule == "error" else 0)
        old = Block((rows[::2], cols[::2]), np.ones(n))
        handle = storage.save(tmp_path / f"{n}", Schema(shape), [old], sizes=SIZES)
        stored, more = sp.Tensor(handle), sp.from_coords([rows[odd], cols[odd]], np.full(n, 2.0), shape)
        size = handle.current.nbytes
        few = tune("tensor", append_memory_parts=10**9 // (24 * 100))
        with (
            few,
            sp.config(memory_limit="1GB", progress=False),
            sparrow.testing.observe("storage.write") as wrote,
            sparrow.testing.observe("storage.read_row_group") as read,
            sparrow.testing.observe("tensor.append_in_batches") as batched,
        ):
            (stored.T if transposed else stored).append(more.T if transposed else more, duplicates=rule)
        assert len(batched) == 1
        costs.append((sum(fields["nbytes"] for _, fields in wrote) / size, len(read) / (n / 50)))
        assert stored.nnz == (2 * n if rule == "error" else n)
        assert stored.sum() == 3 * n
        assert storage.open(tmp_path / f"{n}").verify() == []
    assert max(written for written, _ in costs) < 3  # 2 of them data, the rest footers
    assert max(reads for _, reads in costs) < 3  # once to compare, once to merge; a few groups lie in two pieces
    assert costs[1][1] < 1.1 * costs[0][1]


@settings(max_examples=40)
@given(st.data())
def test_large_appends_equal_one_edit(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(300,), (20, 15), (1, 300), (300, 1), (6, 5, 10)]))
    schema = Schema(shape)
    old, more = (
        random_entries(schema, data.draw(st.sampled_from([0, 9, 60, 250])), seed=data.draw(st.integers(0, 3)))
        for _ in range(2)
    )
    window = Box(tuple(range(low, n) for low, n in zip(data.draw(st.tuples(*map(_below, shape))), shape, strict=True)))
    more = more.take(window.contains(more.coords)) if data.draw(st.booleans()) else more
    more = Block(more.coords, np.asarray(more.values * data.draw(st.sampled_from([1, -1]))))  # sums may be 0
    rule = data.draw(st.sampled_from(RULES))
    edits = batches(more, data.draw(st.lists(st.integers(1, 250), min_size=1, max_size=6)), rule)
    limits = tune("storage", append_run_factor=data.draw(st.sampled_from([1, 2, 8])), spilled_part_rows=7)
    with tempfile.TemporaryDirectory() as folder, sp.config(append_runs=data.draw(st.sampled_from([0, 1, 4]))), limits:
        handle = storage.save(Path(folder, "t"), schema, [old], sizes=TINY)
        for seed in range(data.draw(st.integers(0, 2))):
            small = Edit("append", upsert=random_entries(schema, 5, seed=100 + seed), existing="last")
            old = apply_edit(old, small, schema)
            handle.commit(small)
        files, version = names(Path(folder, "t")), handle.current.version
        before = {path: Path(folder, "t", path).stat().st_mtime_ns for path in files}
        try:
            wanted = apply_edit(old, Edit("append", upsert=more, existing=rule), schema) if more.count else old
        except errors.DuplicateError:
            with pytest.raises(errors.DuplicateError, match="is already stored"):
                append(handle, edits)
            assert names(Path(folder, "t")) == files
            return
        append(handle, edits)
        assert_same(read_all(handle.current), wanted)
        assert_same(read_all(storage.open(Path(folder, "t")).current), wanted)
        assert handle.verify() == []
        if len(edits) > 1:
            changed = old.count != wanted.count or old.values.tobytes() != wanted.values.tobytes()
            assert handle.current.version == version + changed
        assert names(Path(folder, "t")) == files | set(handle.current.active.paths)  # nothing in between is left
        assert {path: Path(folder, "t", path).stat().st_mtime_ns for path in files} == before


def _below(n: int) -> st.SearchStrategy[int]:
    return st.integers(0, n - 1)


@pytest.mark.parametrize("rule", ["error", "first", "sum"])
def test_elements_spread_over_many_files_become_a_run(tmp_path: Path, rule: Any) -> None:
    rows = np.arange(10_000)
    handle = storage.save(
        tmp_path / "t", Schema((20_000, 2)), [Block((rows * 2, rows % 2), np.ones(10_000))], sizes=SIZES
    )
    base = set(handle.current.base.names)
    more = entries([(int(k), int(k) // 2 % 2) for k in range(101, 20_000, 100)], np.ones(199))
    append(handle, batches(more, [50, 100], rule))
    assert set(handle.current.base.names) == base
    assert [int(run.rows.sum()) for run in handle.current.runs] == [199]
    both = [int(k) for k in range(0, 20_000, 200)]  # stored already, in every other file at least
    again = entries([cell for k in both for cell in ((k, k // 2 % 2), (k + 3, 0))], np.full(200, 5.0))
    if rule == "error":
        with pytest.raises(errors.DuplicateError, match=r"\(0, 0\)"):
            append(handle, batches(again, [64], rule))
        assert [int(run.rows.sum()) for run in handle.current.runs] == [199]
        return
    append(handle, batches(again, [64], rule))
    assert bool(handle.current.runs) == (rule == "first")
    assert (set(handle.current.base.names) == base) == (rule == "first")
    block = read_all(handle.current)
    cells = zip(*(column.tolist() for column in block.coords), strict=True)
    found = dict(zip(cells, block.values.tolist(), strict=True))
    assert len(found) == 10_000 + 199 + 100
    assert all(found[k, k // 2 % 2] == (1.0 if rule == "first" else 6.0) for k in both)
    assert all(found[k + 3, 0] == 5.0 for k in both)
    assert handle.verify() == []


def test_files_without_a_change_stay(tmp_path: Path) -> None:
    schema = Schema((5_000,))
    old = entries([[k] for k in range(0, 5_000, 2)], np.full(2_500, 5.0))
    handle = storage.save(tmp_path / "t", schema, [old], sizes=SIZES)
    files = handle.current.base.names
    append(handle, batches(Block(old.coords, np.full(2_500, 4.0)), [900, 1_300], "max"))
    assert handle.current.version == 0
    changed = Block(old.coords, np.where(old.coords[0] == 2_500, 6.0, 4.0))
    append(handle, batches(changed, [900, 1_300], "max"))
    assert len(set(handle.current.base.names) - set(files)) == 1
    assert len(set(files) - set(handle.current.base.names)) == 1
    kept = handle.current.base.names[:-1]
    append(handle, batches(entries([[4_995], [4_997]], [1.0, 1.0]), [1]))
    assert handle.current.base.names[: len(kept)] == kept
    assert handle.current.nnz == 2_502
    assert handle.verify() == []


@pytest.mark.parametrize("at_end", [False, True])
def test_large_appends_at_one_end_write_new_files(tmp_path: Path, at_end: bool) -> None:
    handle = storage.save(tmp_path / "t", Schema((40_000,)), [], sizes=SIZES)
    kept: set[str] = set()
    for k in range(4):
        start = 2_000 * (k if at_end else 9 - k)
        block = entries([[c] for c in range(start, start + 2_000)], np.ones(2_000))
        append(handle, batches(block, [700, 1_500]))
        assert kept <= set(handle.current.base.names)
        kept = set(handle.current.base.names)
    for k in range(40):  # of few elements: they are merged with small files beside them
        start = 30_000 + 10 * k if at_end else 9_990 - 10 * k
        append(handle, batches(entries([[c] for c in range(start, start + 10)], np.ones(10)), [5]))
    assert len(handle.current.base) < len(kept) + 10
    assert handle.current.nnz == 8_400
    assert handle.verify() == []
