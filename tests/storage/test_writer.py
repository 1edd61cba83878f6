"""Writer of data files: errors, ends of files, and leftovers."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow.testing
from sparrow import errors, storage
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.relations.edits import Edit
from sparrow.runtime import settings as sparrow_settings
from sparrow.storage.parquet.reader import read_footer, read_row_group
from tests.storage.helpers import TINY, assert_same, entries, names, random_entries, read_all


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_files_do_not_depend_on_block_size(tmp_path: Path, size: int, threads: int) -> None:
    schema = Schema((100, 10))
    block = random_entries(schema, 100)
    with sparrow_settings.config(threads=threads):
        writer = storage.TensorWriter(tmp_path, schema.dims, schema.dtype, sizes=TINY)
        for start in range(0, block.count, size):
            writer.write(block.take(slice(start, start + size)))
        files = writer.finish()
    assert names(tmp_path) == {file.name for file in files}
    assert [file.rows for file in files[:-1]] == [9] * (len(files) - 1)
    assert [file.name.split("-")[0] for file in files] == hashes(tmp_path.parent, block, schema)
    rows = [
        read_row_group(str(tmp_path / file.name), group, 2, schema.dtype)
        for file in files
        for group in range(len(read_footer(str(tmp_path / file.name), 2).rows))
    ]
    assert_same(concat_blocks(rows, 2, schema.dtype), block)


def hashes(folder: Path, block: Block, schema: Schema) -> list[str]:
    handle = storage.save(folder / "once", schema, [block], sizes=TINY, overwrite=True)
    return [name.split("-")[0] for name in handle.current.base.names]


def test_roll_ends_a_file(tmp_path: Path) -> None:
    writer = storage.TensorWriter(tmp_path, ("d0",), np.float64)
    writer.roll()
    for k in range(3):
        writer.write(entries([(k,)], [1]))
        writer.roll()
    files = writer.finish()
    assert [(f.rows, f.first, f.last, f.low, f.high) for f in files] == [(1, (k,), (k,), (k,), (k,)) for k in range(3)]


def test_files_end_by_bytes(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(100_000)
    writer = storage.TensorWriter(
        tmp_path, ("d0",), np.float64, sizes=storage.Sizes(file_bytes=100_000, group_rows=1000)
    )
    writer.write(Block((np.arange(100_000, dtype=np.int32),), values))
    files = writer.finish()
    assert len(files) >= 8
    assert all(100_000 <= f.nbytes < 125_000 for f in files[:-1])


BAD: list[tuple[list[tuple[int, int]], list[tuple[int, int]], type[Exception], str]] = [
    ([(0, 1), (0, 1)], [], errors.DuplicateError, r"\(0, 1\) is given twice"),
    ([(0, 1)], [(0, 1)], errors.DuplicateError, r"\(0, 1\) is given twice"),
    ([(0, 1), (0, 0)], [], errors.InvalidValueError, r"\(0, 0\) is out of order"),
    ([(3, 1)], [(2, 9)], errors.InvalidValueError, r"\(2, 9\) is out of order"),
    ([(-1, 1)], [], errors.ShapeError, "'d0' must not be negative, got -1"),
]


@pytest.mark.parametrize(("first", "second", "error", "match"), BAD)
def test_elements_not_canonical_raise(
    tmp_path: Path, first: list[tuple[int, int]], second: list[tuple[int, int]], error: type[Exception], match: str
) -> None:
    sizes = storage.Sizes(group_rows=1 if second else 2)

    def write() -> None:
        with storage.TensorWriter(tmp_path, ("d0", "d1"), np.float64, sizes=sizes) as writer:
            writer.write(entries(first, np.ones(len(first))))
            if second:
                writer.write(entries(second, np.ones(len(second))))
            writer.finish()

    with pytest.raises(error, match=match):
        write()
    assert not list(tmp_path.iterdir())


def test_derived_order(tmp_path: Path) -> None:
    writer = storage.TensorWriter(tmp_path, ("d0", "d1"), np.float64, order=(1, 0))
    writer.write(entries([(5, 0), (2, 1)], [1, 2]))
    (file,) = writer.finish()
    assert (file.first, file.last, file.low, file.high) == ((5, 0), (2, 1), (2, 0), (5, 1))


def test_large_coordinates_widen_files(tmp_path: Path) -> None:
    writer = storage.TensorWriter(tmp_path, ("d0", "d1"), np.float64, sizes=TINY)
    small = entries([(k, 0) for k in range(20)], np.ones(20))
    writer.write(small)
    writer.write(entries([(30, 2**31)], [1]))
    writer.write(entries([(31, 0)], [1]))
    files = writer.finish()
    assert {file.coordinate_dtypes for file in files} == {("int32", "int64")}
    assert names(tmp_path) == {file.name for file in files}
    assert sum(file.rows for file in files) == 22
    storage.create(tmp_path, Schema((32, 2**31 + 1)), files)
    handle = storage.open(tmp_path)
    assert handle.verify() == []
    assert read_all(handle.current).coords[1].max() == 2**31


def test_create_from_several_writers(tmp_path: Path) -> None:
    files = []
    for start, wide in ((100, 0), (0, 2**32)):
        writer = storage.TensorWriter(tmp_path, ("d0", "d1"), np.float64)
        writer.write(entries([(start, 0), (start + 1, wide)], [1, 2]))
        files += writer.finish()
    storage.create(tmp_path, Schema((200, 2**33)), files)
    handle = storage.open(tmp_path)
    assert [record.first for record in handle.files()] == [(0, 0), (100, 0)]
    assert handle.verify() == []


def test_overlapping_files_raise(tmp_path: Path) -> None:
    files = []
    for start in (0, 1):
        writer = storage.TensorWriter(tmp_path, ("d0",), np.float64)
        writer.write(entries([(start,), (start + 5,)], [1, 2]))
        files += writer.finish()
    with pytest.raises(errors.StorageError, match="overlap"):
        storage.create(tmp_path, Schema((10,)), files)
    with pytest.raises(errors.ShapeError, match="6 is out of range for dimension 'd0' of size 6"):
        storage.create(tmp_path, Schema((6,)), files[1:])
    storage.create(tmp_path, Schema((10,)), files[1:])
    with pytest.raises(errors.ExistsError, match="tensor already"):
        storage.create(tmp_path, Schema((10,)), files[:1])


class FullDisk:
    """A disk with space for some bytes."""

    def __init__(self, free_bytes: int) -> None:
        self.free_bytes = free_bytes

    def write(self, path: str, nbytes: int) -> None:
        self.free_bytes -= nbytes
        if self.free_bytes < 0:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("room", [0, 3000, 15_000])
def test_full_disk_leaves_nothing(tmp_path: Path, room: int, threads: int) -> None:
    sparrow_settings.config(threads=threads)
    schema = Schema((1000, 10))
    block = random_entries(schema, 300)
    handle = storage.save(tmp_path / "t", schema, [block], sizes=TINY)
    before = names(tmp_path / "t")
    with sparrow.testing.on("storage.write", FullDisk(room).write):
        with pytest.raises(errors.StorageError, match=r"the disk is full: .*nothing was changed"):
            storage.save(tmp_path / "new", schema, [block], sizes=TINY)
        with pytest.raises(errors.StorageError, match="the disk is full"):
            handle.commit(Edit("put", upsert=Block(block.coords, block.values + 1)))
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    assert names(tmp_path / "t") == before
    assert not list((tmp_path / "t").glob("*.tmp"))
    assert_same(read_all(handle.current), block)


def test_failed_source_leaves_nothing(tmp_path: Path) -> None:
    def blocks() -> Any:
        yield entries([(k,) for k in range(100)], np.ones(100))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        storage.save(tmp_path / "t", Schema((100,)), blocks(), sizes=TINY)
    assert not list(tmp_path.iterdir())
