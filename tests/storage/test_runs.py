"""Append runs: every reader sees one tensor."""

from __future__ import annotations

import itertools
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
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
from sparrow.storage.delta.append_runs import Part, isin_block, merge_blocks, merge_parts, plan_chunks
from sparrow.storage.delta.log import Log
from sparrow.storage.parquet.writer import TensorWriter
from tests.storage.helpers import assert_same, entries, random_entries, read_all

SMALL = storage.Sizes(file_rows=60, group_rows=5)
"""Files of some 60 entries in row groups of 5."""
RULES: list[Any] = ["error", "sum", "last", "first", "min", "max"]


def many(shape: tuple[int, ...] = (40, 30), count: int = 400) -> tuple[Schema, Block]:
    """Return entries of several files, and their schema."""
    schema = Schema(shape)
    return schema, random_entries(schema, count)


def names(a: sp.Tensor, dim: str) -> list[Any]:
    """Return the labels of a dimension."""
    found = a.labels(dim)
    assert found is not None
    return list(found.to_pylist())


def append(cells: Any, values: Any, rule: Any = "error") -> Edit:
    """Return an edit that appends."""
    return Edit("append", upsert=entries(cells, values), existing=rule)


def foreign(path: Path) -> pl.DataFrame:
    """Return the rows that another reader of Delta tables finds."""
    return pl.scan_delta(str(path)).collect()


@st.composite
def histories(draw: st.DrawFn) -> tuple[Schema, list[Edit | str]]:
    """Return writes of all kinds, appends mostly."""
    shape = draw(st.sampled_from([(300,), (20, 15), (1, 300), (300, 1), (6, 5, 10)]))
    cell = st.tuples(*(st.integers(0, n - 1) for n in shape))
    out: list[Edit | str] = []
    for kind in draw(st.lists(st.sampled_from(["append"] * 9 + ["put", "clear", "compact", "restore"]), max_size=12)):
        if kind in ("compact", "restore"):
            out.append(kind)
        elif kind == "clear":
            low = draw(cell)
            out.append(Edit("clear", (Box(tuple(range(k, n) for k, n in zip(low, shape, strict=True))),)))
        else:
            cells = sorted(draw(st.sets(cell, min_size=1, max_size=9)))
            rule: Any = draw(st.sampled_from(["first"] * 3 + ["sum"] * 3 + RULES)) if kind == "append" else "last"
            values = draw(st.lists(st.integers(1, 9), min_size=len(cells), max_size=len(cells)))
            out.append(Edit(kind, upsert=entries(cells, values), existing=rule))
    return Schema(shape), out


@settings(max_examples=12)
@given(histories(), st.sampled_from([0, 1, 2, 16]), st.sampled_from([0, 60, 150]))
def test_histories_equal_those_in_memory(history: tuple[Schema, list[Edit | str]], bound: int, count: int) -> None:
    schema, steps = history
    block = random_entries(schema, count)
    with (
        tempfile.TemporaryDirectory() as folder,
        sp.config(append_runs=bound),
        sparrow.testing.tune("storage", append_run_factor=2),
    ):
        handle = storage.save(Path(folder, "t"), schema, [block], sizes=SMALL)
        versions = [block]
        for step in steps:
            if step == "compact":
                handle.compact()
                assert not handle.current.runs
            elif step == "restore":
                handle.restore(0)
                block = versions[0]
            else:
                assert isinstance(step, Edit)
                try:
                    wanted = apply_edit(block, step, schema)
                except errors.DuplicateError:
                    with pytest.raises(errors.DuplicateError, match="is already stored"):
                        handle.commit(step)
                    continue
                handle.commit(step)
                block = wanted
            assert len(handle.current.runs) <= bound
            del versions[handle.current.version :]
            versions += [block] * (handle.current.version + 1 - len(versions))
            assert_same(read_all(handle.current), block)
            assert handle.current.nnz == block.count
        assert handle.verify() == []
        for version, wanted in enumerate(versions):
            assert_same(read_all(storage.open(Path(folder, "t"), version).current), wanted)
        rows = sorted(foreign(Path(folder, "t")).rows())
        assert rows == list(zip(*(c.tolist() for c in (*block.coords, block.values)), strict=True))


def test_all_readers_see_runs(tmp_path: Path) -> None:
    schema, block = many()
    handle = storage.save(tmp_path / "t", schema, [block], sizes=SMALL)
    rng = np.random.default_rng(1)
    for _ in range(6):
        cells = sorted(map(tuple, rng.integers(0, 30, (4, 2)).tolist()))
        handle.commit(append(sorted(set(cells)), np.arange(1.0, len(set(cells)) + 1), "first"))
    assert len(handle.current.runs) > 1
    a, wanted = sp.open(tmp_path / "t"), sp.open(tmp_path / "t").to_numpy()
    x = rng.random(30)
    for engine in ("stream", "duckdb"):
        with sp.config(engine=engine):
            np.testing.assert_array_equal(a.to_numpy(), wanted)
            np.testing.assert_array_equal(a[3:9, ::-2].to_numpy(), wanted[3:9, ::-2])
            np.testing.assert_array_equal(a.T[7].to_numpy(), wanted[:, 7])
            np.testing.assert_allclose(a @ x, wanted @ x)
            np.testing.assert_allclose((a + a.T[:30, :30].T.sum()).sum(), (wanted + wanted[:30, :30].sum()).sum())
            np.testing.assert_array_equal(a.sum(axis=0).to_numpy(), wanted.sum(axis=0))
            np.testing.assert_allclose((a[:30] @ a[:30]).to_numpy(), wanted[:30] @ wanted[:30])
    np.testing.assert_array_equal(a[[5, 2, 5]].to_numpy(), wanted[[5, 2, 5]])
    assert a[3:9].nnz == np.count_nonzero(wanted[3:9])
    assert [a[i, j] for i, j in [(0, 0), (5, 5)]] == [wanted[0, 0], wanted[5, 5]]
    assert sp.sql("select count(*), sum(value) from a").fetchall() == [(np.count_nonzero(wanted), wanted.sum())]
    assert len(foreign(tmp_path / "t")) == a.nnz == sum(record.rows for record in a.files())
    assert f"{len(a.files())} of {len(a.files())} read" in (a + 0).explain()
    a.add_order((1, 0))
    np.testing.assert_array_equal(a[:, 4].to_numpy(), wanted[:, 4])
    assert a.verify() == []
    a[0, 0] = 5.0  # whatever is no append puts all in order
    wanted[0, 0] = 5.0
    assert not storage.open(tmp_path / "t").current.runs
    np.testing.assert_array_equal(a.to_numpy(), wanted)
    assert a.verify() == []
    assert len(a.vacuum("0 seconds")) > 0
    np.testing.assert_array_equal(sp.open(tmp_path / "t").to_numpy(), wanted)


@pytest.fixture(scope="module")
def overlapping(tmp_path_factory: pytest.TempPathFactory) -> tuple[sp.Tensor, Any]:
    """Return a tensor with several runs beside many row groups, and its array."""
    path = tmp_path_factory.mktemp("runs") / "t"
    rng = np.random.default_rng(0)
    wanted = np.where(rng.random((60, 50, 4)) < 0.3, rng.integers(1, 50, (60, 50, 4)), 0).astype(float)
    cells = rng.permutation(np.argwhere(wanted))
    ends = [0, *(len(cells) - left for left in (930, 430, 190, 70, 0))]
    handle = storage.save(path, Schema(wanted.shape), [])
    with sparrow.testing.tune("storage", append_run_factor=2, fold_factor=0):
        for start, stop in itertools.pairwise(ends):
            some = sorted(map(tuple, cells[start:stop].tolist()))
            handle = storage.open(path, sizes=storage.Sizes(file_rows=900, group_rows=90))
            handle.commit(append(some, [wanted[cell] for cell in some]))
    assert len(handle.current.runs) > 2
    return sp.open(path), wanted


def refuse_to_merge(rows: int) -> None:
    """Fail where append runs are merged."""
    raise AssertionError("merged")


def test_unordered_reads_do_not_merge(overlapping: tuple[sp.Tensor, Any]) -> None:
    a, wanted = overlapping
    x, flat = np.random.default_rng(1).random(50), wanted[:, :, 1]
    with sparrow.testing.on("storage.merge_runs", refuse_to_merge):
        for name in ("sum", "max", "min", "mean", "std", "any"):
            np.testing.assert_allclose(getattr(a, name)(), getattr(wanted, name)())
            for axes in ((0,), (1, 2), (0, 2)):
                np.testing.assert_allclose(getattr(a, name)(axis=axes).to_numpy(), getattr(wanted, name)(axis=axes))
        assert a[5:].nnz == np.count_nonzero(wanted[5:])
        assert (a[:, :, 1] != 0).sum() == np.count_nonzero(flat)
        np.testing.assert_allclose((a * 2 + 1).sum(), (wanted * 2 + 1).sum())
        assert (a[3:50] > 20).sum() == (wanted[3:50] > 20).sum()
        assert int(a.T.argmax()) == wanted.T.argmax()
        assert int(a.T.argmin()) == wanted.T.argmin()
        for engine in ("stream", "duckdb"):
            np.testing.assert_allclose(sp.matmul(a[:, :, 1], x, engine=engine), flat @ x)
        np.testing.assert_allclose(a[:, :, 1].T @ np.ones((60, 3)), flat.T @ np.ones((60, 3)))
        assert sp.sql("select count(*), sum(value) from a where d0 > 9").fetchall() == [
            (np.count_nonzero(wanted[10:]), wanted[10:].sum())
        ]


@given(st.data())
def test_views_merge_their_elements_only(overlapping: tuple[sp.Tensor, Any], data: st.DataObject) -> None:
    a, wanted = overlapping
    key = tuple(
        data.draw(
            st.one_of(
                st.integers(0, n - 1),
                st.slices(n),
                st.lists(st.integers(0, n - 1), min_size=1, max_size=4).map(np.array) if dim == 0 else st.nothing(),
            )
        )
        for dim, n in enumerate(wanted.shape)
    )
    with sparrow.testing.observe("storage.merge_runs") as seen:
        found, shown = (
            a.oindex[key],
            wanted[np.ix_(*(np.atleast_1d(np.arange(n)[k]) for n, k in zip(wanted.shape, key, strict=True)))],
        )
        array = found.to_numpy() if isinstance(found, sp.Tensor) else np.asarray(found)
    np.testing.assert_array_equal(array.ravel(), shown.ravel())
    if all(not isinstance(part, slice) or part.step in (None, 1, -1) for part in key):
        distinct = key[0] if isinstance(key[0], int | slice) else np.unique(key[0])
        assert sum(details["rows"] for _, details in seen) <= np.count_nonzero(wanted[(distinct, *key[1:])])


def test_contractions_add_runs_without_merging(overlapping: tuple[sp.Tensor, Any]) -> None:
    A, wanted = overlapping
    x, y = np.arange(100.0).reshape(50, 2), np.arange(8.0).reshape(4, 2)
    with sparrow.testing.strategy("numba"), sparrow.testing.on("storage.merge_runs", refuse_to_merge):
        for letters in ("ijk,jr,kr->ir", "ijk,jr,kr->kr"):
            np.testing.assert_allclose(sp.einsum(letters, A, x, y), np.einsum(letters, wanted, x, y), rtol=1e-12)


def test_runs_are_decoded_once_per_scan(overlapping: tuple[sp.Tensor, Any]) -> None:
    a, wanted = overlapping
    assert a.path is not None
    with sp.config(threads=1), sparrow.testing.observe("storage.read_row_group") as seen:
        np.testing.assert_array_equal(sp.open(a.path).to_numpy(), wanted)
    read = [tuple(details.values()) for _, details in seen if details["path"].endswith("-run.parquet")]
    assert len(read) == len(set(read)) > 3


def written(rounds: int, rows: int, path: Path, bound: int) -> list[int]:
    """Return the number of elements that each of several scattered appends writes."""
    order = np.random.default_rng(0).permutation(rounds * rows)
    handle = storage.save(path, Schema((rounds * rows,)), [], sizes=storage.Sizes(group_rows=64))
    out, before = [], set[str]()
    with sp.config(append_runs=bound):
        for k in range(rounds):
            handle.commit(append(np.sort(order[k * rows : (k + 1) * rows])[:, None].tolist(), np.ones(rows)))
            files = handle.files()
            out.append(sum(record.rows for record in files if record.path not in before))
            before = {record.path for record in files}
            assert len(handle.current.runs) <= min(1 + math.log2(rounds), bound)
    assert_same(read_all(handle.current), entries([[k] for k in range(rounds * rows)], np.ones(rounds * rows)))
    return out


def test_changed_elements_stay_in_their_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cells = rng.permutation(20_000)
    stored, recent, new = (
        np.sort(cells[start:stop]) for start, stop in [(0, 12_000), (12_000, 13_000), (13_000, 13_100)]
    )
    sizes = storage.Sizes(file_rows=9_000, group_rows=64)

    def ones(some: Any) -> Block:
        return entries(some[:, None].tolist(), np.ones(len(some)))

    handle = storage.save(tmp_path / "t", Schema((20_000,)), [ones(stored)], sizes=sizes)

    def append_all(some: Any, rule: Any = "sum") -> int:
        before = {record.path for record in handle.files()}
        handle.commit(Edit("append", upsert=ones(np.sort(some)), existing=rule))
        return sum(record.rows for record in handle.files() if record.path not in before)

    assert append_all(recent) == len(recent)
    # Those of runs are written with these alone, whatever is stored in order.
    assert append_all(np.concatenate([recent[::40], new])) == len(recent) + len(new)
    assert len(handle.current.runs) == 1
    # Those of files with files, which are small from then on; new ones stand beside them.
    neighbours, more = stored[6_000:6_020], np.setdiff1d(np.arange(20_000), cells[:13_100])[::500]
    first = append_all(np.concatenate([neighbours, more]))
    assert len(stored) / 4 < first <= len(stored) + 2 * len(more)
    assert len(handle.current.runs) == 2
    assert append_all(neighbours) < len(stored) / 4
    wanted = np.zeros(20_000)
    for some in (stored, recent, recent[::40], new, neighbours, more, neighbours):
        wanted[some] += 1
    assert_same(read_all(handle.current), entries(np.flatnonzero(wanted)[:, None].tolist(), wanted[wanted > 0]))
    assert handle.verify() == []
    assert len(foreign(tmp_path / "t")) == np.count_nonzero(wanted)


def test_scattered_appends_rewrite_little(tmp_path: Path) -> None:
    rounds, rows = 64, 10
    found = written(rounds, rows, tmp_path / "t", 16)
    assert sum(found) <= rounds * rows * (1 + math.log2(rounds))
    assert sum(written(rounds, rows, tmp_path / "u", 0)) > rounds * rows * rounds / 3


def test_scattered_appends_by_label(tmp_path: Path) -> None:
    users, days = [f"u{k:03}" for k in range(200)], ["d0"]
    schema = Schema((200, 1), ("user", "day"))
    block = entries([(k, 0) for k in range(200)], np.ones(200))
    labels = {0: pa.array(users), 1: pa.array(days)}
    a = sp.Tensor(storage.save(tmp_path / "a", schema, [block], labels=labels, sizes=SMALL))
    files = {record.path for record in a.files()}
    for k in range(1, 4):
        a.append(pl.DataFrame({"day": [f"d{k}"] * 3, "user": ["u003", f"new{k}", "u150"], "value": [1.0, 2.0, 3.0]}))
    assert files <= {record.path for record in a.files()}
    assert names(a, "day") == ["d0", "d1", "d2", "d3"]
    assert a.sel(user="new2").to_numpy().tolist() == [0, 0, 2, 0]
    with pytest.raises(errors.DuplicateError, match="'u150'"):
        a.append(pl.DataFrame({"day": ["d2"], "user": ["u150"], "value": [1.0]}))
    a.append(pl.DataFrame({"day": ["d2"], "user": ["u150"], "value": [1.0]}), duplicates="sum")
    assert a.sel(user="u150", day="d2") == 4.0
    assert a.verify() == []


def test_concurrent_appends(tmp_path: Path) -> None:
    schema, block = many()
    one = storage.save(tmp_path / "t", schema, [block], sizes=SMALL)
    other = storage.open(tmp_path / "t", sizes=SMALL)
    free = sorted(
        set(itertools.product(range(40), range(30))) - set(zip(*(c.tolist() for c in block.coords), strict=True))
    )
    one.commit(append(free[::2], np.ones(len(free[::2]))))
    other.commit(append(free[1::2], np.ones(len(free[1::2]))))  # made against a version that is not the latest
    with pytest.raises(errors.DuplicateError):
        one.commit(append(free[1:2], [1.0]))  # nor is this one, and yet it sees what is there
    one.refresh()
    assert_same(read_all(one.current), read_all(other.current))
    assert one.current.nnz == 40 * 30
    assert one.verify() == []


def test_verify_finds_elements_in_two_runs(tmp_path: Path) -> None:
    schema, block = many()
    handle = storage.save(tmp_path / "t", schema, [block], sizes=SMALL)
    cell = tuple(int(column[7]) for column in block.coords)
    with TensorWriter(
        tmp_path / "t", schema.dims, schema.dtype, coordinate_dtypes=handle.current.base.coordinate_dtypes, run=True
    ) as writer:
        writer.write(entries([cell], [1]))
        files = writer.finish()
    Log.open(str(tmp_path / "t")).commit(files, (), {"operation": "append", "nonce": "0"})
    (finding,) = storage.open(tmp_path / "t").verify()
    assert finding.file == files[0].name
    assert f"element {cell} is stored twice" in finding.problem


@given(
    st.lists(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 2**62 - 1)), max_size=20), max_size=5),
    st.sampled_from([1, 2, 3, 4]),
    st.booleans(),
)
def test_merge_parts(cells: list[set[tuple[int, ...]]], ndim: int, wide: bool) -> None:
    seen: set[tuple[int, ...]] = set()
    parts: list[Part] = []
    for k, some in enumerate(cells):
        wider = {(a, b if wide else b % 50, b % 3, b % 2**61) for a, b in some}
        places = {cell[1:2] if ndim == 1 else cell[:ndim] for cell in wider}
        mine = sorted(places - seen)
        seen |= set(mine)
        blocks = [mine[:7], mine[7:]] if k == 0 else [mine]
        for block in (entries(each, np.arange(len(each))) for each in blocks if each):
            low, high = (tuple(int(side(column)) for column in block.coords) for side in (np.min, np.max))
            parts.append(Part(low, high, block.count, bool(k), block))
    chunks = plan_chunks(parts, 4)
    found: list[tuple[int, ...]] = []
    for chunk in chunks:
        block = merge_parts(chunk.ref, lambda part: part.ref, ndim, np.dtype(float))
        if block.count:
            assert all(int(c.min()) >= n for c, n in zip(block.coords, chunk.low, strict=True))
            assert all(int(c.max()) <= n for c, n in zip(block.coords, chunk.high, strict=True))
        found += zip(*(column.tolist() for column in block.coords), strict=True)
    assert found == sorted(seen)
    whole = merge_blocks([part.ref for part in parts], ndim, np.dtype(float))
    more = sorted(seen | {(0,) * ndim, (9,) * ndim})
    assert isin_block(whole, entries(more, np.zeros(len(more)))).tolist() == [cell in seen for cell in more]


def test_wide_coordinates_fold_runs(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", Schema((2**32,)), [random_entries(Schema((6000,)), 3000)])
    handle.commit(Edit("resize", shape=(6000,)))  # files of wide coordinates, which are read as narrow ones
    block = read_all(handle.current)
    free = np.setdiff1d(np.arange(6000), block.coords[0])[:, None].tolist()
    sizes = storage.Sizes(group_rows=64)
    handle = storage.open(tmp_path / "t", sizes=sizes)
    handle.commit(append(free[::20], np.ones(len(free[::20]))))
    assert handle.current.runs
    more = free[1::20][: len(free[::20]) - 1]
    edit = Edit("append", upsert=entries([*more, (2**31 + 7,)], np.ones(len(more) + 1)), shape=(2**32,))
    handle.commit(edit)
    found = read_all(handle.current).coords[0]
    assert found.tolist() == sorted([*block.coords[0].tolist(), *(k for (k,) in free[::20] + more), 2**31 + 7])
    assert handle.verify() == []


def test_append_runs_setting() -> None:
    with sp.config(append_runs=3) as found:
        assert found.append_runs == 3
    with pytest.raises(errors.InvalidValueError, match="append_runs must be an integer of at least 0, got -1"):
        sp.config(append_runs=-1)
