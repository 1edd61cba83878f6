"""Compaction, restore and streamed appends: commits that are not one edit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import errors, storage
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.relations.edits import Edit
from tests.storage.helpers import TINY, assert_same, entries, names, random_entries, read_all

SIZES = storage.Sizes(file_rows=40, group_rows=6)


def make_fragmented(folder: Path, order: bool = False) -> storage.StoredHandle:
    """Return a tensor of many small files."""
    schema = Schema((60, 50))
    handle = storage.save(folder, schema, [random_entries(schema, 300)], sizes=TINY)
    if order:
        handle.add_order((1, 0))
    assert len(handle.current.base) > 20
    return storage.open(folder, sizes=SIZES)


def rows(handle: storage.StoredHandle) -> list[int]:
    return [record.rows for record in handle.files()]


def test_compact_merges_small_files(tmp_path: Path) -> None:
    handle = make_fragmented(tmp_path / "t")
    before, bytes_before = read_all(handle.current), handle.current.nbytes
    handle.compact()
    assert handle.current.version == 1
    assert_same(read_all(handle.current), before)
    assert min(rows(handle)) >= SIZES.file_rows // 2
    assert max(rows(handle)) <= 2 * SIZES.file_rows + SIZES.group_rows
    assert handle.current.nbytes < bytes_before
    assert handle.history()[0]["operation"] == "compact"
    assert handle.verify() == []
    assert_same(read_all(storage.open(tmp_path / "t", 0).current), before)
    assert handle.compact().version == 1  # there is nothing left to do


def test_compact_keeps_full_files(tmp_path: Path) -> None:
    handle = make_fragmented(tmp_path / "t")
    handle.compact()
    kept = set(handle.current.base.names)
    schema = handle.current.schema
    small = storage.open(tmp_path / "t", sizes=TINY)
    cells = [(59, j) for j in range(50)]
    small.commit(Edit("put", upsert=entries(cells, np.ones(50))))
    handle.refresh()
    handle.compact()
    assert len(kept & set(handle.current.base.names)) >= len(kept) - 2
    assert handle.current.schema == schema


def test_compact_rebuilds_orders(tmp_path: Path) -> None:
    handle = make_fragmented(tmp_path / "t", order=True)
    assert handle.current.orders == ((0, 1), (1, 0))
    handle.compact()
    assert storage.open(tmp_path / "t").current.orders == ((0, 1), (1, 0))
    assert len(handle.files((1, 0))) < 15
    assert handle.verify() == []


def test_compact_with_another_profile(tmp_path: Path) -> None:
    schema = Schema((100, 1000))
    block = random_entries(schema, 20_000)
    handle = storage.save(tmp_path / "t", schema, [block])
    fast = handle.current.nbytes
    handle.compact("small")
    assert handle.current.metadata.profile == "small"
    assert handle.current.nbytes < fast
    assert_same(read_all(handle.current), block)
    again = storage.open(tmp_path / "t")
    assert again.current.metadata.profile == "small"
    assert again.compact("small").version == again.compact().version == 1
    assert again.verify() == []
    again.restore(0)
    assert_same(read_all(again.current), block)
    with pytest.raises(errors.InvalidValueError, match="'fast', 'small' or 'portable'"):
        again.compact("tiny")
    empty = storage.save(tmp_path / "e", Schema((3,)), [])
    assert empty.compact("small").metadata.profile == "small"


def test_compact_never_conflicts(tmp_path: Path) -> None:
    mine, other = make_fragmented(tmp_path / "t"), storage.open(tmp_path / "t", sizes=SIZES)
    expected = read_all(mine.current)
    other.commit(Edit("put", upsert=entries([(0, 0), (30, 30)], [1000, 1000])))
    mine.compact()
    assert mine.current.version == 2
    stale = storage.open(tmp_path / "t", sizes=TINY)
    storage.open(tmp_path / "t", sizes=storage.Sizes(file_rows=400, group_rows=50)).compact()
    stale.commit(Edit("put", upsert=entries([(59, 49)], [7])))  # on top of a compaction it has not seen
    wanted = {(i, j): v for i, j, v in zip(*(c.tolist() for c in expected.coords), expected.values, strict=True)}
    wanted |= {(0, 0): 1000, (30, 30): 1000, (59, 49): 7}
    block = read_all(storage.open(tmp_path / "t").current)
    assert (
        dict(zip(zip(*(c.tolist() for c in block.coords), strict=True), block.values.tolist(), strict=True)) == wanted
    )
    assert stale.verify() == []


def test_compact_beside_a_writer(tmp_path: Path) -> None:
    make_fragmented(tmp_path / "t")
    writer, compacter = (storage.open(tmp_path / "t", sizes=sizes) for sizes in (TINY, SIZES))

    def write() -> None:
        for k in range(12):
            writer.commit(Edit("put", upsert=entries([(k, k)], [k + 0.5])))

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        for _ in range(4):
            compacter.compact()
        writing.result()
    found = sp.open(tmp_path / "t")
    assert [found[k, k] for k in range(12)] == [k + 0.5 for k in range(12)]
    assert found.verify() == []


def test_compact_retries_after_a_lost_race(tmp_path: Path) -> None:
    mine, other = make_fragmented(tmp_path / "t"), storage.open(tmp_path / "t", sizes=TINY)
    count, raced = mine.current.nnz, list[int]()

    def race(path: str, version: int) -> None:
        if not raced:
            raced.append(version)
            other.commit(Edit("put", upsert=entries([(59, 49)], [777])))  # a file of its own

    with sparrow.testing.on("storage.commit", race):
        mine.compact("small")
    assert mine.current.version == 2
    block = read_all(storage.open(tmp_path / "t").current)
    assert (block.count, block.values[-1]) == (count + 1, 777)
    assert mine.verify() == []


def test_failed_compact_leaves_nothing(tmp_path: Path) -> None:
    handle = make_fragmented(tmp_path / "t")
    before = names(tmp_path / "t")

    def broken(*args: Any, **kwargs: Any) -> None:
        raise errors.StorageError("the disk is full")

    with sparrow.testing.on("storage.commit", broken), pytest.raises(errors.StorageError, match="disk"):
        handle.compact()
    assert names(tmp_path / "t") == before
    assert handle.current.version == 0


def test_restore(tmp_path: Path) -> None:
    handle = make_fragmented(tmp_path / "t", order=True)
    first = read_all(handle.current)
    handle.commit(Edit("clear", (Box((range(10, 40), range(50))),)))
    handle.commit(Edit("resize", (Box((range(50, 60), range(50))),), shape=(50, 70)))
    second = read_all(handle.current)
    before = names(tmp_path / "t")
    handle.restore(0)
    assert names(tmp_path / "t") == before  # no data is written
    assert (handle.current.version, handle.current.schema.shape) == (3, (60, 50))
    assert_same(read_all(handle.current), first)
    assert handle.current.orders == ((0, 1), (1, 0))  # the files it was built from are back
    handle.restore(2)
    assert handle.current.schema.shape == (50, 70)
    assert_same(read_all(storage.open(tmp_path / "t").current), second)
    assert handle.restore(2).version == handle.restore(4).version == 4
    assert [entry["operation"] for entry in handle.history()[:2]] == ["restore", "restore"]
    nnz = [entry["nnz"] for entry in handle.history()]
    assert nnz == [second.count, first.count, second.count, nnz[3], first.count]
    assert handle.verify() == []


def test_restore_of_vacuumed_version(tmp_path: Path) -> None:
    handle = make_fragmented(tmp_path / "t")
    handle.commit(Edit("clear", (Box((range(10, 40), range(50))),)))
    left = read_all(handle.current)
    for version in (-1, 2):
        with pytest.raises(errors.NotFoundError, match="versions go from 0 to 1"):
            handle.restore(version)
    for flag in (True, np.True_):
        with pytest.raises(errors.UnsupportedError, match="version must be an integer"):
            handle.restore(flag)  # type: ignore[arg-type]
    handle.vacuum("0 seconds")
    with pytest.raises(errors.NotFoundError, match=r"version 0 of .* cannot be restored.*vacuum"):
        handle.restore(0)
    assert handle.current.version == 1
    assert_same(read_all(storage.open(tmp_path / "t").current), left)
    with pytest.raises(errors.ReadOnlyError):
        storage.open(tmp_path / "t", 1).restore(1)
    with pytest.raises(errors.ReadOnlyError):
        storage.open(tmp_path / "t", 1).compact()


def test_restore_conflicts_with_writes(tmp_path: Path) -> None:
    mine = make_fragmented(tmp_path / "t")
    mine.commit(Edit("put", upsert=entries([(0, 0)], [5])))
    other = storage.open(tmp_path / "t")
    mine.compact()
    other.restore(0)  # a compaction changed no cell
    with pytest.raises(errors.ConflictError, match="restore"):
        mine.commit(Edit("put", upsert=entries([(0, 0)], [6])))
    mine.refresh()
    mine.commit(Edit("put", upsert=entries([(0, 0)], [6])))
    with pytest.raises(errors.ConflictError):
        other.restore(1)
    mine.commit(Edit("resize", shape=(90, 90)))
    other.refresh()
    mine.commit(Edit("resize", shape=(91, 90)))
    with pytest.raises(errors.ConflictError, match="shape"):
        other.restore(1)


def test_restore_of_narrow_coordinates(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", Schema((5, 5)), [entries([(0, 1), (4, 4)], [1, 2])])
    first = read_all(handle.current)
    handle.commit(Edit("resize", shape=(5, 2**40)))
    handle.commit(Edit("put", upsert=entries([(2, 2**39)], [3])))
    assert [kind.name for kind in handle.current.base.coordinate_dtypes] == ["int32", "int64"]
    handle.restore(0)
    assert [kind.name for kind in handle.current.base.coordinate_dtypes] == ["int32", "int32"]
    assert_same(read_all(storage.open(tmp_path / "t").current), first)
    handle.restore(2)
    assert read_all(handle.current).count == 3
    assert handle.verify() == []
    assert handle.current.schema.shape == (5, 2**40)


def pieces(cells: list[list[tuple[int, int]]], existing: Any = "sum") -> list[Edit]:
    return [Edit("append", upsert=entries(part, np.ones(len(part))), existing=existing) for part in cells]


def test_append_edits_make_one_commit(tmp_path: Path) -> None:
    handle = make_fragmented(tmp_path / "t", order=True)
    before, files = read_all(handle.current), names(tmp_path / "t")
    parts = [[(i, j) for j in range(0, 50, 3)] for i in range(60)]
    everything = Box.from_shape((60, 50))
    handle.append(lambda: iter(pieces(parts)), everything)
    assert handle.current.version == 1
    dense = np.zeros((60, 50))
    dense[before.coords] = before.values
    dense[:, ::3] += 1
    assert np.array_equal(sp.open(tmp_path / "t").to_numpy(), dense)
    assert names(tmp_path / "t") == files | set(handle.current.base.names)  # nothing in between is left
    assert handle.verify() == []
    assert storage.open(tmp_path / "t", 0).verify() == []
    commit = handle._log.commits(1)[0]
    assert set(commit.added) <= set(handle.current.base.names)
    assert set(commit.removed) <= files


def test_append_edits_fail_together(tmp_path: Path) -> None:
    handle = make_fragmented(tmp_path / "t")
    files, known = names(tmp_path / "t"), [*zip(*(c.tolist() for c in read_all(handle.current).coords), strict=True)]
    new = [(0, j) for j in range(50) if (0, j) not in known]
    for last, error in [(known[-1], errors.DuplicateError), ((60, 0), errors.ShapeError)]:
        edits = pieces([new[:1], new[1:], [last]], "error")
        with pytest.raises(error, match=str(last[0])):
            handle.append(partial(iter, edits), Box.from_shape((60, 50)))
        assert names(tmp_path / "t") == files
        assert handle.current.version == 0


def test_append_edits_conflict_with_writes(tmp_path: Path) -> None:
    mine, other = make_fragmented(tmp_path / "t"), storage.open(tmp_path / "t")
    other.commit(Edit("put", upsert=entries([(0, 0)], [5])))
    with pytest.raises(errors.ConflictError):
        mine.append(lambda: iter(pieces([[(0, 0)], [(1, 1)]])), Box.from_shape((60, 50)))
    with pytest.raises(errors.ReadOnlyError):
        storage.open(tmp_path / "t", 0).append(lambda: iter(pieces([[(0, 0)]])), Box.from_shape((60, 50)))


def test_append_edits_widen_coordinates(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", Schema((5, 2**40)), [entries([(0, 1), (4, 4)], [1, 2])], sizes=TINY)
    parts = [[(1, 5), (1, 6)], [(2, 2**39), (3, 0)], [(3, 1)]]
    handle.append(lambda: iter(pieces(parts)), Box.from_shape((5, 2**40)))
    assert handle.current.nnz == 7
    assert read_all(storage.open(tmp_path / "t").current).coords[1].tolist() == [1, 5, 6, 2**39, 0, 1, 4]
    assert names(tmp_path / "t") - set(handle.current.base.names) == set(
        storage.open(tmp_path / "t", 0).current.base.names
    )
    assert handle.verify() == []
