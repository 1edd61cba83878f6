"""Tensors and bundles appear completely or not at all."""

from __future__ import annotations

import errno
import multiprocessing
import os
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

import sparrow.testing
from sparrow import errors, storage
from sparrow.core.schema import Schema
from sparrow.storage.fs.local import LOCAL
from tests.storage.helpers import entries, random_entries, read_all

SCHEMA = Schema((10, 10))


def test_stage_folder_publishes_at_the_end(tmp_path: Path) -> None:
    final = tmp_path / "deep" / "er" / "t"
    with storage.stage_folder(final) as folder:
        assert folder.parent == final.parent
        assert folder.name.startswith(".")
        assert str(os.getpid()) in folder.name
        (folder / "x").write_text("x")
        assert not final.exists()
    assert (final / "x").read_text() == "x"
    assert [path.name for path in final.parent.iterdir()] == ["t"]


def test_files_of_killed_tasks_are_deleted(tmp_path: Path) -> None:
    with storage.stage_folder(tmp_path / "t") as folder:
        with storage.share_folder(str(folder)) as files:
            begun = LOCAL.create_file(str(folder))  # by a task that was killed, and ran again
            begun.write(b"x")
            (folder / "x").write_text("x")
        assert files == []
        assert [path.name for path in folder.iterdir()] == ["x"]
        begun.discard()


def test_files_begun_in_a_table_are_kept(tmp_path: Path) -> None:
    folder = storage.save(tmp_path / "t", SCHEMA, [entries([(0, 0)], [1])]).path
    begun = LOCAL.create_file(folder)  # as by another process that rebuilds the same sort order
    begun.write(b"x")
    with storage.share_folder(folder):
        pass
    begun.finalize("x")
    assert (tmp_path / "t" / "x").read_text() == "x"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, FileNotFoundError])
def test_failure_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with storage.stage_folder(tmp_path / "t") as folder:
            (folder / "x").write_text("x")
            raise error

    with pytest.raises(error) as raised:
        fail()
    assert raised.type is error
    assert not list(tmp_path.iterdir())


def test_full_disk_error(tmp_path: Path) -> None:
    with pytest.raises(errors.StorageError, match="the disk is full"), storage.stage_folder(tmp_path / "t"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_existing_paths_are_kept(tmp_path: Path) -> None:
    storage.save(tmp_path / "t", SCHEMA, [entries([(0, 0)], [1])])
    with pytest.raises(errors.ExistsError, match="overwrite=True"):
        storage.save(tmp_path / "t", SCHEMA, [])
    assert storage.open(tmp_path / "t").current.nnz == 1
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("dir", "file", "link"):
        with pytest.raises(errors.ExistsError):
            storage.save(tmp_path / name, SCHEMA, [])
        with pytest.raises(errors.ExistsError, match="not a tensor or bundle of sparrow"):
            storage.save(tmp_path / name, SCHEMA, [], overwrite=True)
    assert (tmp_path / "file").read_text() == "x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dir", "file", "link", "t"]


def test_first_writer_wins(tmp_path: Path) -> None:
    with pytest.raises(errors.ExistsError, match="exists"), storage.stage_folder(tmp_path / "t"):
        storage.save(tmp_path / "t", SCHEMA, [entries([(0, 0)], [1])])
    assert storage.open(tmp_path / "t").current.nnz == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.fixture(params=["swapped", "renamed twice"])
def swap(request: pytest.FixtureRequest) -> Iterator[None]:
    """With the system call that swaps two names, and without."""
    with nullcontext() if request.param == "swapped" else sparrow.testing.strategy("rename_twice"):
        yield


@pytest.mark.usefixtures("swap")
def test_overwrite_replaces_everything(tmp_path: Path) -> None:
    storage.save(tmp_path / "t", SCHEMA, [random_entries(SCHEMA, 50)])
    handle = storage.save(tmp_path / "t", Schema((3,)), [entries([(2,)], [5])], overwrite=True)
    assert handle.current.version == 0
    assert read_all(handle.current).values.tolist() == [5]
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    with pytest.raises(ZeroDivisionError), storage.stage_folder(tmp_path / "t", overwrite=True):
        raise ZeroDivisionError
    assert storage.open(tmp_path / "t").current.nnz == 1


def test_leftovers_of_dead_processes_are_deleted(tmp_path: Path) -> None:
    host = socket.gethostname()[:40]
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()
    dead = tmp_path / f".t.{host}-{process.pid}-00ff.partial"
    alive = tmp_path / f".t.{host}-{os.getppid()}-00ff.partial"
    other = tmp_path / f".u.{host}-{process.pid}-00ff.partial"
    elsewhere = tmp_path / f".t.another-host-{process.pid}-00ff.partial"
    for folder in (dead, alive, other, elsewhere):
        folder.mkdir()
    storage.save(tmp_path / "t", SCHEMA, [])
    assert not dead.exists()
    assert alive.exists()
    assert other.exists()
    assert elsewhere.exists()


def test_folder_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(errors.StorageError, match="cannot write in"):
        storage.save(tmp_path / "file" / "t", SCHEMA, [])
    with pytest.raises(errors.UnsupportedError, match="is a URL"):
        storage.save("ftp://bucket/t", SCHEMA, [])
    with pytest.raises(errors.InvalidValueError, match="'%'"):
        storage.save(tmp_path / "50%", SCHEMA, [])
    with pytest.raises(errors.InvalidValueError, match="'fast', 'small' or 'portable'"):
        storage.save(tmp_path / "t", SCHEMA, [], profile="tiny")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_bundles(tmp_path: Path) -> None:
    path = tmp_path / "a9a"
    with storage.stage_folder(path) as folder:
        for name in ("X", "y"):
            storage.save(folder / name, SCHEMA, [entries([(0, 0)], [1])])
        assert not storage.is_bundle(folder)
        storage.write_bundle(folder, {"X": {"role": "data"}, "y": None}, {"index_base": 1})
    assert storage.is_bundle(path)
    assert not storage.is_tensor(path)
    assert storage.is_tensor(path / "X")
    assert storage.open_bundle(path) == {"X": str(path / "X"), "y": str(path / "y")}
    assert storage.bundle_info(path) == {"members": {"X": {"role": "data"}, "y": {}}, "extra": {"index_base": 1}}
    assert sorted(entry.name for entry in path.iterdir()) == ["X", "bundle.json", "y"]
    with storage.stage_folder(path, overwrite=True) as folder:
        storage.save(folder / "z", SCHEMA, [])
        storage.write_bundle(folder, {"z": None})
    assert list(storage.open_bundle(path)) == ["z"]


def test_invalid_bundles(tmp_path: Path) -> None:
    for name in ("../x", "", ".x", "_x", "a/b", "50%"):
        with pytest.raises(errors.InvalidValueError, match="cannot name a tensor of a bundle"):
            storage.write_bundle(tmp_path, {name: None})
    with pytest.raises(errors.NotFoundError, match="no tensor 'x'"):
        storage.write_bundle(tmp_path, {"x": None})
    with pytest.raises(errors.NotFoundError, match="no bundle"):
        storage.open_bundle(tmp_path)
    for text in ("{", "[]", "{}"):
        (tmp_path / "bundle.json").write_text(text)
        with pytest.raises(errors.CorruptionError, match=r"bundle.json"):
            storage.open_bundle(tmp_path)
