"""Edits of stored tensors against their meaning in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow import errors, storage
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block, canonicalize
from sparrow.relations.edits import Edit, apply_edit
from sparrow.storage.delta.rewrite_plan import WriteSet, _box_overlaps_keys
from tests.storage.helpers import TINY, assert_same, entries, names, random_entries, read_all

SHAPES = [(), (40,), (6, 7), (1, 60), (60, 1), (4, 3, 5)]


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> Box:
    ranges = []
    for n in shape:
        start, stop = sorted((draw(st.integers(0, n)), draw(st.integers(0, n))))
        ranges.append(range(start, stop)[:: draw(st.sampled_from([1, 1, 1, 2, 3]))])
    return Box(tuple(ranges))


@st.composite
def upserts(draw: st.DrawFn, shape: tuple[int, ...]) -> Block:
    cells = draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in shape)), max_size=25))
    values = draw(st.lists(st.integers(0, 3), min_size=len(cells), max_size=len(cells)))
    block = entries(cells, values) if cells else Block(tuple(np.zeros(0, np.int64) for _ in shape), np.zeros(0))
    return canonicalize(block, shape, None, "last", keep_fill=True)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, Block, list[Edit]]:
    shape = draw(st.sampled_from(SHAPES))
    schema = Schema(shape, fill_value=draw(st.sampled_from([0.0, 1.0])))
    start = draw(upserts(shape))
    edits = [
        Edit(
            "edit",
            tuple(draw(st.lists(boxes(shape), max_size=2))),
            draw(st.none() | upserts(shape)),
            draw(st.sampled_from(["last", "first", "sum", "min", "max", "error"])),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    return schema, start, edits


@given(cases())
def test_edits_equal_those_in_memory(case: tuple[Schema, Block, list[Edit]]) -> None:
    schema, block, edits = case
    block = canonicalize(block, schema.shape, schema.fill_value)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t")
        handle = storage.save(path, schema, [block], sizes=TINY)
        for edit in edits:
            before = handle.current
            try:
                wanted = apply_edit(block, edit, schema)
            except errors.DuplicateError:
                with pytest.raises(errors.DuplicateError, match="is already stored"):
                    handle.commit(edit)
                assert handle.current is before
                assert names(path) == {Path(f.path).name for v in versions(path) for f in v.files()}
                continue
            after = handle.commit(edit)
            same = block.values.tobytes() == wanted.values.tobytes() and all(
                map(np.array_equal, block.coords, wanted.coords)
            )
            assert after.version == before.version + 1 or same
            if not edit.clear:  # files whose entries all go are not read, so not compared
                assert (after.version == before.version) == same
            assert_same(read_all(after), wanted)
            assert_same(read_all(before), block)
            assert after.nnz == wanted.count
            block = wanted
        assert handle.verify() == []
        assert_same(read_all(storage.open(path).current), block)
        assert not list(path.glob("*.tmp"))


def test_edits_without_dimensions(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", Schema(()), [Block((), np.array([1.0]))], sizes=TINY)
    with pytest.raises(errors.DuplicateError, match=r"\(\) is already stored"):
        handle.commit(Edit("edit", (), Block((), np.array([2.0])), "error"))
    handle.commit(Edit("edit", (), Block((), np.array([2.0])), "sum"))
    assert read_all(handle.current).values == [3]


def versions(path: Path) -> list[storage.Snapshot]:
    latest = storage.open(path).current.version
    return [storage.open(path, version).current for version in range(latest + 1)]


def test_untouched_files_are_kept(tmp_path: Path) -> None:
    schema = Schema((100, 10), dtype=np.dtype(np.int64))
    handle = storage.save(tmp_path / "t", schema, [random_entries(schema, 300)], sizes=TINY)
    before = set(handle.current.base.names)
    assert len(before) > 20
    handle.commit(Edit("put", upsert=entries([(50, 3)], [1000], np.int64)))
    after = set(handle.current.base.names)
    assert len(before - after) == 1
    assert len(after - before) <= 2


def test_cleared_files_are_not_read(tmp_path: Path) -> None:
    schema = Schema((100, 10))
    handle = storage.save(tmp_path / "t", schema, [random_entries(schema, 300)], sizes=TINY)
    inside = [f for f in handle.files() if f.first[0] >= 20 and f.last[0] < 80]
    for file in inside:
        Path(file.path).write_bytes(b"unreadable")
    handle.commit(Edit("clear", (Box((range(20, 80), range(10))),)))
    block = read_all(handle.current)
    assert block.count
    assert not ((block.coords[0] >= 20) & (block.coords[0] < 80)).any()


def test_small_appends_merge_files(tmp_path: Path) -> None:
    sizes = storage.Sizes(file_rows=400, group_rows=50)
    schema = Schema((1000,))
    handle = storage.save(tmp_path / "t", schema, [], sizes=sizes)
    for k in range(60):
        handle.commit(Edit("append", upsert=entries([(5 * k + m,) for m in range(5)], [1] * 5)))
    assert handle.current.nnz == 300
    assert len(handle.files()) <= 300 // 50 + 1
    assert handle.verify() == []


def test_appends_in_gaps_keep_large_neighbors(tmp_path: Path) -> None:
    sizes = storage.Sizes(file_rows=40, group_rows=10)
    schema = Schema((1000,))
    first = entries([(k,) for k in range(100, 180)], np.ones(80))
    handle = storage.save(tmp_path / "t", schema, [first], sizes=sizes)
    before = set(handle.current.base.names)
    handle.commit(Edit("put", upsert=entries([(5,), (900,)], [1, 1])))
    assert before < set(handle.current.base.names)
    assert len(handle.current.base.names) == 4


def test_edit_without_changes_makes_no_version(tmp_path: Path) -> None:
    schema = Schema((100, 10), fill_value=0)
    block = random_entries(schema, 200)
    handle = storage.save(tmp_path / "t", schema, [block], sizes=TINY)
    absent = next(
        (i, j) for i in range(100) for j in range(10) if not ((block.coords[0] == i) & (block.coords[1] == j)).any()
    )
    for edit in (
        Edit("nothing"),
        Edit("put", upsert=entries([absent], [0])),
        Edit("put", upsert=block),
        Edit("clear", (Box((range(absent[0], absent[0] + 1), range(absent[1], absent[1] + 1))),)),
        Edit("clear", (Box((range(0), range(10))),)),
        Edit("resize", shape=(100, 10)),
    ):
        assert handle.commit(edit).version == 0
    assert names(tmp_path / "t") == set(handle.current.base.names)


def test_append_grows_the_shape(tmp_path: Path) -> None:
    schema = Schema((2, 2))
    handle = storage.save(tmp_path / "t", schema, [entries([(0, 0)], [1])])
    handle.commit(Edit("append", upsert=entries([(4, 1)], [2]), shape=(5, 2)))
    handle.commit(Edit("resize", shape=(9, 3)))
    assert handle.current.schema.shape == (9, 3)
    assert storage.open(tmp_path / "t").current.schema.shape == (9, 3)
    assert storage.open(tmp_path / "t", 1).current.schema.shape == (5, 2)
    assert storage.open(tmp_path / "t", 0).current.schema.shape == (2, 2)
    assert [record["shape"] for record in handle.history()] == [(9, 3), (5, 2), (2, 2)]


def test_resize_requires_cleared_elements(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", Schema((5, 2)), [entries([(0, 0), (4, 1)], [1, 2])])
    with pytest.raises(errors.ShapeError, match="elements up to coordinate 4"):
        handle.commit(Edit("resize", shape=(3, 2)))
    handle.commit(Edit("resize", (Box((range(3, 5), range(2))),), shape=(3, 2)))
    assert handle.current.schema.shape == (3, 2)
    assert handle.current.nnz == 1


@pytest.mark.parametrize("cell", [(2, 0), (0, -1)])
def test_coordinates_out_of_range_raise(tmp_path: Path, cell: tuple[int, int]) -> None:
    handle = storage.save(tmp_path / "t", Schema((2, 2)), [entries([(0, 0)], [1])])
    with pytest.raises(errors.ShapeError, match="out of range for dimension"):
        handle.commit(Edit("put", upsert=entries([cell], [1])))
    assert handle.current.version == 0


def test_coordinates_widen_to_int64(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", Schema((10, 10)), [random_entries(Schema((10, 10)), 60)], sizes=TINY)
    old = read_all(handle.current)
    handle.add_order((1, 0))
    big = 2**40
    handle.commit(Edit("resize", shape=(10, big)))
    assert read_all(handle.current).coords[1].dtype == np.int64
    handle.commit(Edit("put", upsert=entries([(3, big - 1)], [5])))
    assert [d.name for d in handle.current.base.coordinate_dtypes] == ["int32", "int64"]
    block = read_all(storage.open(tmp_path / "t").current)
    assert block.count == old.count + 1
    assert int(block.coords[1].max()) == big - 1
    assert handle.verify() == []
    assert_same(read_all(storage.open(tmp_path / "t", 0).current), old)
    handle.add_order((1, 0))
    assert handle.verify() == []
    assert handle.current.schema.shape == (10, big)


def test_old_versions_are_read_only(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", Schema((2,)), [entries([(0,)], [1])])
    handle.commit(Edit("put", upsert=entries([(1,)], [2])))
    old = storage.open(tmp_path / "t", version=0)
    assert old.current.nnz == 1
    for write in (
        lambda: old.commit(Edit("put", upsert=entries([(1,)], [2]))),
        lambda: old.add_order((0,)),
        old.vacuum,
    ):
        with pytest.raises(errors.ReadOnlyError, match="without version="):
            write()


@given(st.data())
def test_write_sets_overlap(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(5,), (3, 4), (2, 3, 3)]))
    one = Edit("a", tuple(data.draw(st.lists(boxes(shape), max_size=2))), data.draw(st.none() | upserts(shape)))
    two = Edit("b", tuple(data.draw(st.lists(boxes(shape), max_size=2))), data.draw(st.none() | upserts(shape)))
    cells = [tuple(map(int, cell)) for cell in np.ndindex(*shape)]

    def changed_cells(edit: Edit) -> set[tuple[int, ...]]:
        out = {c for c in cells for box in edit.clear if all(x in r for x, r in zip(c, box.ranges, strict=True))}
        if edit.upsert is not None:
            out |= set(zip(*(column.tolist() for column in edit.upsert.coords), strict=True))
        return out

    overlaps = claim(one).overlaps(claim(two))
    assert overlaps == claim(two).overlaps(claim(one)) == WriteSet.from_json(claim(one).to_json()).overlaps(claim(two))
    assert overlaps == bool(changed_cells(one) & changed_cells(two))


def claim(edit: Edit) -> WriteSet:
    if edit.upsert is not None and not edit.upsert.count:
        edit = Edit(edit.operation, edit.clear)
    return WriteSet.from_edit(edit)


@given(st.data())
def test_boxes_overlap_key_ranges_exactly(data: st.DataObject) -> None:
    shape: tuple[int, ...] = data.draw(st.sampled_from([(7,), (4, 5), (3, 3, 4)]))
    box = data.draw(boxes(shape))
    key = st.tuples(*(st.integers(0, n - 1) for n in shape))
    first, last = sorted((data.draw(key), data.draw(key)))
    wanted = any(
        first <= cell <= last and all(x in r for x, r in zip(cell, box.ranges, strict=True))
        for cell in np.ndindex(*shape)
    )
    assert _box_overlaps_keys(box, first, last) == wanted


def test_write_sets_stay_small(tmp_path: Path) -> None:
    block = entries([(k,) for k in range(0, 10000, 2)], np.ones(5000))
    found = WriteSet.from_edit(Edit("put", upsert=block))
    assert len(found.ranges) == 256
    assert found.ranges[0][0] == (0,)
    assert found.ranges[-1][1] == (9998,)


DTYPES: list[tuple[str, Any]] = [
    ("int64", 2**62 + 1),
    ("complex128", 1 + 2j),
    ("bool", True),
    ("uint8", 200),
    ("float16", 0.5),
]


@pytest.mark.parametrize(("dtype", "value"), DTYPES)
def test_edits_keep_the_dtype(tmp_path: Path, dtype: str, value: Any) -> None:
    schema = Schema((50,), dtype=np.dtype(dtype))
    handle = storage.save(tmp_path / "t", schema, [entries([(k,) for k in range(20)], [value] * 20, dtype)], sizes=TINY)
    handle.commit(Edit("put", upsert=entries([(4,), (30,)], [0, value], dtype)))
    block = read_all(handle.current)
    assert block.values.dtype == np.dtype(dtype)
    assert (block.values == np.dtype(dtype).type(value)).all()
    assert block.coords[0].tolist() == [*range(4), *range(5, 20), 30]


def test_replaced_tensor_refuses_commits(tmp_path: Path) -> None:
    old = sp.asarray(np.diag([1.0, 2, 0, 0])).save(tmp_path / "a")
    new = sp.asarray(np.diag([0.0, 0, 7, 8])).save(tmp_path / "a", overwrite=True)
    calls: list[Callable[[], object]] = [
        lambda: old.__setitem__(..., 0),
        lambda: old.append(np.diag([0, 0, 9.0, 0])),
        lambda: old.add_order((1, 0)),
        old.refresh,
    ]
    for call in calls:
        with pytest.raises(errors.ConflictError, match=r"saved over it.*sp.open"):
            call()
    assert new.verify() == []
    assert sp.open(tmp_path / "a").to_numpy().diagonal().tolist() == [0, 0, 7, 8]
    assert sp.open(tmp_path / "a").version == 0
