"""Reads verify checksums of files, the log and its entries."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import errors, storage
from sparrow.core.schema import Schema
from sparrow.relations.edits import Edit
from sparrow.storage.parquet import reader
from sparrow.storage.parquet.reader import DATA_FILE
from sparrow.storage.vacuum import vacuum
from tests.storage.helpers import TINY, assert_same, entries, random_entries, read_all

SCHEMA = Schema((50, 40))
ENTRIES = random_entries(SCHEMA, 300)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    labels = {0: pa.array([f"row {k}" for k in range(50)])}
    storage.save(tmp_path / "t", SCHEMA, [ENTRIES], labels=labels, orders=[(1, 0)])
    return tmp_path / "t"


def data_file(path: Path) -> Path:
    (found,) = path.glob("*.parquet")
    return found


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def ways(path: Path) -> list[Callable[[], Any]]:
    return [
        lambda: sp.open(path).to_numpy(),
        lambda: sp.open(path) @ np.ones(40),
        lambda: np.asarray(sp.open(path)[3]),
        lambda: sp.sql("select sum(value) from t", t=sp.open(path)).fetchall(),
        lambda: sp.matmul(sp.open(path), np.ones(40), engine="duckdb"),
    ]


@pytest.mark.parametrize("way", range(5))
def test_damage_between_reads(path: Path, way: int) -> None:
    read = ways(path)[way]
    read()
    file = data_file(path)
    good = file.read_bytes()
    for at in (len(good) // 3, len(good) - 20):  # in a page, in the footer
        flip(file, at)
        with pytest.raises(errors.CorruptionError, match=file.name):
            read()
        file.write_bytes(good)
        read()


def test_every_byte_is_checked(tmp_path: Path) -> None:
    """Check page headers too, which no checksum of Parquet covers."""
    block = entries([(1, 2), (3, 4), (5, 6), (7, 1), (9, 9)], [1, 2, 3, 4, 5])
    storage.save(tmp_path / "t", Schema((10, 10)), [block])
    file = data_file(tmp_path / "t")
    good = file.read_bytes()
    group = sp.open(tmp_path / "t").files()[0]
    assert group.rows == 5
    (start, length, checksum) = reader.read_footer(str(file), 2).pieces[0]
    assert start == 4
    assert zlib.crc32(good[start : start + length]) == checksum
    for at in range(start, start + length):
        flip(file, at)
        with pytest.raises(errors.CorruptionError, match=file.name):
            read_all(storage.open(tmp_path / "t").current)
        file.write_bytes(good)
    assert_same(read_all(storage.open(tmp_path / "t").current), block)


def test_row_group_is_checked_once(path: Path) -> None:
    storage.save(path, SCHEMA, [ENTRIES], sizes=storage.Sizes(group_rows=100), overwrite=True)
    with sparrow.testing.observe("storage.checksum") as seen:
        for _ in range(3):
            assert_same(read_all(storage.open(path).current), ENTRIES)
            sp.sql("select count(*) from t", t=sp.open(path)).fetchall()
    groups = len(reader.read_footer(str(data_file(path)), 2).rows)
    assert groups > 1
    assert len(seen) == groups + 1  # and the footer


def test_file_name_has_footer_checksum(path: Path) -> None:
    file = data_file(path)
    named = DATA_FILE.fullmatch(file.name)
    assert named is not None
    assert int(named["footer"], 16) == reader.footer_checksum(file.read_bytes())
    assert DATA_FILE.fullmatch(f"{'a' * 64}-0123456789abcdef.parquet") is not None  # of the first release


def test_swapped_file(path: Path) -> None:
    """Entries with the same cells and other values: sizes, rows and bounds agree."""
    changed = type(ENTRIES)(ENTRIES.coords, ENTRIES.values[::-1].copy())
    storage.save(path.parent / "u", SCHEMA, [changed])
    shutil.copyfile(data_file(path.parent / "u"), data_file(path))
    for read in ways(path):
        with pytest.raises(errors.CorruptionError, match=data_file(path).name):
            read()


def test_first_release_files_are_hashed(tmp_path: Path) -> None:
    path = Path(shutil.copytree(Path(__file__).parent / "format1" / "matrix", tmp_path / "matrix"))
    for file in path.glob("*.parquet"):
        good = file.read_bytes()
        if file.name not in storage.open(path).current.base.names:
            continue
        for at in range(4, len(good), 97):
            flip(file, at)
            with pytest.raises(errors.CorruptionError, match=file.name):
                sp.open(path).to_numpy()
            file.write_bytes(good)
    assert sp.open(path).nnz == np.count_nonzero(sp.open(path).to_numpy())


def test_labels_are_checked_on_read(path: Path) -> None:
    (file,) = (path / "_labels").iterdir()
    good = file.read_bytes()
    for at in range(0, len(good), 41):
        flip(file, at)
        with pytest.raises(errors.CorruptionError, match=file.name):
            sp.open(path).labels("d0")
        file.write_bytes(good)
    assert sp.open(path).sel(d0="row 7").shape == (40,)


def test_bundle_listing_is_checked(tmp_path: Path) -> None:
    with storage.stage_folder(tmp_path / "b") as folder:
        storage.save(folder / "X", SCHEMA, [])
        storage.write_bundle(folder, {"X": {"role": "data"}}, {"index_base": 1})
    listing = tmp_path / "b" / "bundle.json"
    listing.write_text(listing.read_text().replace('"index_base": 1', '"index_base": 0'))
    with pytest.raises(errors.CorruptionError, match=r"bundle.json .* is damaged"):
        storage.bundle_info(tmp_path / "b")
    with pytest.raises(errors.CorruptionError, match=r"bundle\.json"):
        sp.open(tmp_path / "b")


# -- the log -------------------------------------------------------------------------------------


def entry(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.json"


def change_entry(path: Path, version: int, change: Callable[[str], str]) -> None:
    text = entry(path, version).read_text()
    assert change(text) != text
    entry(path, version).write_text(change(text))


def commit(path: Path, value: float) -> None:
    storage.open(path).commit(Edit("put", upsert=entries([(25, 20)], [value])))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("[50, 40]", "[51, 40]"),
        lambda text: text.replace('\\"numRecords\\": 2', '\\"numRecords\\": 3'),
        lambda text: text.replace('\\"numRecords\\"', '\\"numRecordz\\"'),
        lambda text: text.replace('\\"maxValues\\": {\\"d0\\"', '\\"maxValues\\": {\\"d9\\"'),
        lambda text: text.replace('{"add":', '{"adx":'),
        lambda text: text.replace('\\"maxValues\\": {\\"d0\\": 49', '\\"maxValues\\": {\\"d0\\": 48'),
        lambda text: "\n".join(line for line in text.splitlines() if '"add"' not in line),
        lambda text: "\n".join(line for line in text.splitlines() if "commitInfo" not in line),
        lambda text: text[: len(text) // 2],
        lambda text: "",
    ],
)
def test_changed_log_entry(path: Path, change: Callable[[str], str]) -> None:
    change_entry(path, 0, change)
    with pytest.raises(errors.CorruptionError, match=entry(path, 0).name):
        sp.open(path)


@pytest.mark.parametrize("key", ["partitionValues", "modificationTime", "dataChange"])
def test_log_entry_without_a_key(path: Path, key: str) -> None:
    while not list((path / "_delta_log").glob("*.checkpoint.parquet")):
        commit(path, 1.5 + sp.open(path).version)
    commit(path, 0.5)
    newest = sp.open(path).version
    change_entry(path, newest, lambda text: text.replace(f'"{key}"', f'"{key[:-1]}z"'))
    with pytest.raises(errors.CorruptionError, match=entry(path, newest).name):
        sp.open(path).to_numpy()


@pytest.mark.parametrize("change", [('"dataChange"', '"dat!Change"'), ('"dataChange":true', '"dataChange":null')])
def test_removal_without_data_change(path: Path, change: tuple[str, str]) -> None:
    for value in (1, 2):
        commit(path, value)

    def change_line(text: str) -> str:
        return "\n".join(line.replace(*change) if line.startswith('{"remove"') else line for line in text.splitlines())

    change_entry(path, 1, change_line)
    with pytest.raises(errors.CorruptionError, match=entry(path, 1).name):
        sp.open(path).to_numpy()


def test_changed_older_log_entry(path: Path) -> None:
    for value in (1, 2, 3):
        commit(path, value)
    change_entry(path, 2, lambda text: text.replace('{"remove":', '{"removx":'))
    with pytest.raises(errors.CorruptionError, match=entry(path, 2).name):
        sp.open(path)
    assert sp.open(path, version=1)[25, 20] == 1


def test_swapped_log_entries(path: Path) -> None:
    for value in (1, 2, 3):
        commit(path, value)
    first, second = entry(path, 1).read_text(), entry(path, 2).read_text()
    entry(path, 1).write_text(second)
    entry(path, 2).write_text(first)
    with pytest.raises(errors.CorruptionError, match=f"{entry(path, 2).name}|{entry(path, 1).name}"):
        sp.open(path)


def test_log_entry_of_another_tensor(path: Path, tmp_path: Path) -> None:
    commit(path, 1)
    storage.save(tmp_path / "u", SCHEMA, [ENTRIES])
    shutil.copyfile(entry(tmp_path / "u", 0), entry(path, 0))
    with pytest.raises(errors.CorruptionError, match=entry(path, 0).name):
        sp.open(path)


def test_history_is_checked(path: Path) -> None:
    commit(path, 1)
    change_entry(path, 0, lambda text: text.replace('\\"operation\\": \\"save\\"', '\\"operation\\": \\"safe\\"'))
    with pytest.raises(errors.CorruptionError, match=entry(path, 0).name):
        sp.open(path).history()
    assert [finding.file for finding in sp.open(path).verify()] == [f"_delta_log/{entry(path, 0).name}"]


def test_changed_checkpoint(path: Path) -> None:
    handle = storage.open(path, sizes=TINY)
    for value in range(1, 22):
        handle.commit(Edit("put", upsert=entries([(25, 20)], [value])))
    (checkpoint,) = (path / "_delta_log").glob("*.checkpoint.parquet")
    table = pq.read_table(checkpoint)
    kept = [row for row, add in enumerate(table["add"].to_pylist()) if add is None]
    pq.write_table(table.take([*kept, *range(table.num_rows)][: len(kept)]), checkpoint)
    with pytest.raises(errors.CorruptionError, match=checkpoint.name):
        sp.open(path)


def test_log_entry_read_by_deltalake_only(path: Path) -> None:
    for value in range(1, 24):
        commit(path, value)
    (checkpoint,) = (path / "_delta_log").glob("*.checkpoint.parquet")
    assert entry(path, 2).name < checkpoint.name
    text = entry(path, 0).read_text()
    entry(path, 0).write_text(text.replace("minReaderVersion", "minReaderVersinn"))
    with pytest.raises(errors.CorruptionError, match=entry(path, 0).name):
        sp.open(path, version=2)
    assert sp.open(path).version == 23  # from the checkpoint on


def test_commits_of_other_tools_are_accepted(path: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 30 days"})
    assert sp.open(path).version == 1
    commit(path, 5)
    assert sp.open(path)[25, 20] == 5
    assert sp.open(path).verify() == []


# -- what leads out of the folder ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["../secret.parquet", "/etc/passwd", "sub/x.parquet", "..", "file:///etc/passwd"])
def test_log_with_files_outside_the_folder(path: Path, name: str) -> None:
    own = data_file(path).name
    lines = [json.loads(line) for line in entry(path, 0).read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["path"] = name
        if "commitInfo" in line:
            del line["commitInfo"]["sparrow"]  # as another tool would have written it
    entry(path, 0).write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(errors.CorruptionError, match="not in its folder"):
        sp.open(path)
    with pytest.raises(errors.CorruptionError, match="not in its folder"):
        vacuum(str(path), "0 seconds")
    assert (path / own).exists()


@pytest.mark.parametrize("part", ["data", "_labels", "_delta_log", "_orders", "_orders/1-0", "label"])
def test_links_are_not_followed(path: Path, tmp_path: Path, part: str) -> None:
    at = {"data": data_file(path), "label": next((path / "_labels").iterdir())}.get(part, path / part)
    os.rename(at, tmp_path / "elsewhere")
    at.symlink_to(tmp_path / "elsewhere")
    kept = sorted(file for file in (tmp_path / "elsewhere").rglob("*")) or [tmp_path / "elsewhere"]

    def read() -> None:
        tensor = sp.open(path)
        tensor.labels("d0")
        tensor.to_numpy()
        storage.open(path).current.table((1, 0))

    with pytest.raises(errors.CorruptionError, match="link"):
        read()
    if part not in {"data", "label"}:
        with pytest.raises(errors.CorruptionError, match="link"):
            sp.open(path).vacuum("0 seconds")
    assert all(file.exists() for file in kept)


def test_bundle_with_members_outside_the_folder(tmp_path: Path, path: Path) -> None:
    with storage.stage_folder(tmp_path / "b") as folder:
        storage.save(folder / "X", SCHEMA, [])
        storage.write_bundle(folder, {"X": None})
    listing = json.loads((tmp_path / "b" / "bundle.json").read_text())
    del listing["seal"]
    for name in ("../t", str(path), "."):
        listing["members"] = {name: {}}
        (tmp_path / "b" / "bundle.json").write_text(json.dumps(listing))
        with pytest.raises(errors.CorruptionError, match="leads out of its folder"):
            sp.open(tmp_path / "b")
    listing["members"] = {"X": {}}
    (tmp_path / "b" / "bundle.json").write_text(json.dumps(listing))
    shutil.rmtree(tmp_path / "b" / "X")
    (tmp_path / "b" / "X").symlink_to(path)
    with pytest.raises(errors.CorruptionError, match="leads out of its folder"):
        sp.open(tmp_path / "b")


def test_open_through_a_link(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    assert_same(read_all(storage.open(tmp_path / "link").current), ENTRIES)


# -- a failing disk ------------------------------------------------------------------------------


class Failing(io.RawIOBase):
    """A file on a disk that fails."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return 1000

    def tell(self) -> int:
        return 1000

    def read(self, size: int = -1) -> bytes:
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("way", range(5))
def test_disk_failure(path: Path, monkeypatch: pytest.MonkeyPatch, way: int, warm: bool) -> None:
    read = ways(path)[way]
    file = data_file(path)
    if warm:
        reader.read_footer(str(file), 2)
    monkeypatch.setattr(pa, "OSFile", lambda path, mode: pa.PythonFile(Failing(), mode="r"))
    with pytest.raises(errors.StorageError, match=DATA_FILE.pattern):
        read()


def test_disk_failure_in_the_log(path: Path) -> None:
    def fail(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with (
        sparrow.testing.on("storage.read", fail),
        pytest.raises(errors.StorageError, match=entry(path, 0).name),
    ):
        sp.open(path)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="tells threads by /proc")
def test_labels_are_read_without_arrow_threads(tmp_path: Path) -> None:
    sp.from_coords([[0, 1]], [1, 2], dims=["user"], labels={"user": ["ann", "bob"]}).save(tmp_path / "a.sparrow")
    script = """
import os, sys
from sparrow.storage.delta.labels import read_labels
threads = len(os.listdir("/proc/self/task"))
name = "_labels/" + os.listdir(sys.argv[1] + "/_labels")[0]
for _ in range(3):
    assert read_labels(sys.argv[1], name).array.to_pylist() == ["ann", "bob"]
names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
print(len([name for name in names if not name.startswith("jemalloc")]) - threads)
"""
    run = subprocess.run([sys.executable, "-c", script, tmp_path / "a.sparrow"], capture_output=True, text=True)
    assert (run.stderr, run.returncode) == ("", 0)
    assert int(run.stdout) <= 0


def test_damaged_notes_key(tmp_path: Path) -> None:
    sp.asarray([[1.0, 0.0], [0.0, 2.0]]).save(tmp_path / "a")
    entry = tmp_path / "a" / "_delta_log" / f"{0:020d}.json"
    text = entry.read_bytes()
    at = text.index(b'"sparrow"') + 1
    for place in range(at, at + 7):
        entry.write_bytes(text[:place] + bytes([text[place] ^ 4]) + text[place + 1 :])
        with pytest.raises(errors.CorruptionError, match=entry.name):
            sp.open(tmp_path / "a").history()


def nest(kind: str, depth: int) -> str:
    return "[" * depth + "]" * depth if kind == "list" else '{"x":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("depth", [400, 900, 20_000, 200_000])
def test_deeply_nested_json_is_damage(tmp_path: Path, kind: str, depth: int) -> None:
    text = nest(kind, depth)
    model = sp.models.LogisticRegression().fit(np.eye(2), [0, 1])
    model.save(tmp_path / "m")
    listing = tmp_path / "m" / "bundle.json"
    for damaged in (text, f'{{"seal": "", "members": {{"x": {text}}}}}'):
        listing.write_text(damaged)
        for read in (sp.open, sp.models.load):
            with pytest.raises(errors.CorruptionError, match=r"bundle\.json"):
                read(tmp_path / "m")
    A = sp.asarray(np.eye(3)).save(tmp_path / "t")
    A[0, 1] = 5
    entry = tmp_path / "t" / "_delta_log" / f"{1:020d}.json"
    sound = entry.read_text()
    for place in ("whole", "line", "info", "statistics"):
        damaged = {
            "whole": text,
            "line": sound + text,
            "info": sound.replace('"commitInfo":{', f'"commitInfo":{{"deep":{text},'),
            "statistics": sound.replace('"stats":"', '"stats":"' + text.replace('"', '\\"')),
        }[place]
        entry.write_text(damaged)
        try:
            assert sp.open(tmp_path / "t")[0, 1] == 5
        except errors.CorruptionError as error:
            assert "0001.json" in str(error)  # noqa: PT017 - either is right: what deltalake ignores is no damage
        else:
            assert place in ("line", "info")
        if place != "info" or depth > 900:
            with pytest.raises(errors.CorruptionError, match=r"0001\.json"):
                A.history()
            assert "0001.json" in str(A.verify()[0])


# -- gaps in the log -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tensor of 25 versions, with a checkpoint."""
    where = tmp_path_factory.mktemp("long") / "t"
    handle = storage.save(where, SCHEMA, [ENTRIES])
    for k in range(24):
        handle.commit(Edit("put", upsert=entries([(k, k)], [k + 1])))
    assert list((where / "_delta_log").glob("*.checkpoint.parquet"))
    return where


@pytest.mark.parametrize("lost", [[5], [0], [0, 1, 2], [3, 4, 9], [18], [22], [24]])
def test_gaps_in_the_log_are_told(long_log: Path, tmp_path: Path, lost: list[int]) -> None:
    path = tmp_path / "t"
    shutil.copytree(long_log, path)
    versions = [commit["version"] for commit in sp.open(path).history()]
    assert versions == list(range(24, -1, -1))
    for version in lost:
        entry(path, version).unlink()
    if lost == [24]:  # nothing tells of the newest entry
        assert sp.open(path).version == 23
        return
    if lost == [22]:  # after the checkpoint
        with pytest.raises(errors.CorruptionError, match=rf"{22:020d}.json' of the log is missing.* version 21"):
            sp.open(path)
        assert sp.open(path, version=21).version == 21
        return
    A = sp.open(path)
    history = {commit["version"]: commit["operation"] for commit in A.history()}
    first = next(version for version in range(25) if version not in lost)
    assert list(history) == [version for version in range(24, -1, -1) if version >= first]
    missing = [version for version, operation in history.items() if operation == "missing from the log"]
    assert missing == [version for version in reversed(lost) if version > first]
    found = A.verify()
    assert {finding.file for finding in found} <= {f"_delta_log/{version:020d}.json" for version in lost}
    assert all("missing from the log" in finding.problem for finding in found)
    assert len(found) == len([version for version in lost if version - 1 not in lost])
    if missing:
        with pytest.raises(errors.CorruptionError, match="of the log is missing"):
            A.vacuum("7 days")  # it cannot know which files the lost version has
        with pytest.raises(errors.CorruptionError, match="of the log is missing"):
            sp.open(path, version="1999-01-01")
        with pytest.raises(errors.CorruptionError, match=f"{missing[-1]:020d}.json"):
            sp.open(path, version=missing[0] + 1 if missing[0] < 18 else missing[0])
    A[1, 1] = 7
    assert sp.open(path)[1, 1] == 7


def test_gap_in_the_log_of_an_order(path: Path) -> None:
    A = sp.open(path)
    A[0, 0] = 3
    A.add_order((1, 0))
    folder = path / "_orders" / "1-0"
    assert not [finding for finding in sp.open(path).verify() if "missing from the log" in finding.problem]
    names = sorted(file.name for file in (folder / "_delta_log").glob("*.json"))
    if len(names) < 2:
        (folder / "_delta_log" / names[0]).rename(folder / "_delta_log" / f"{1:020d}.json")
    else:
        (folder / "_delta_log" / names[0]).unlink()
    assert any(finding.file.startswith("_orders") for finding in sp.open(path).verify())


def test_deep_statistics_in_a_checkpoint(long_log: Path, tmp_path: Path) -> None:
    shutil.copytree(long_log, tmp_path / "t")
    (checkpoint,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    table = pq.read_table(checkpoint)
    rows = table.to_pylist()
    for row in rows:
        if row["add"]:
            row["add"]["stats"] = nest("list", 100_000)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), checkpoint)
    with pytest.raises(errors.CorruptionError, match=rf"{checkpoint.name}' of the log .* nested"):
        sp.open(tmp_path / "t")
    assert sp.open(tmp_path / "t", version=3).version == 3


def _drop_bounds(add: dict[str, Any]) -> None:
    stats = json.loads(add["stats"])
    del stats["maxValues"]
    add["stats"] = json.dumps(stats)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_drop_bounds, "lacks the bounds of a file"),
        (lambda add: add.update(stats=add["stats"].replace("numRecords", "numRecorbs")), "lacks the bounds of a file"),
        (lambda add: add.update(path="/" + add["path"][1:]), "not in its folder"),
    ],
)
def test_errors_of_a_changed_checkpoint_name_it(
    long_log: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], problem: str
) -> None:
    shutil.copytree(long_log, tmp_path / "t")
    (checkpoint,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    table = pq.read_table(checkpoint)
    rows = table.to_pylist()
    for row in rows:
        if row["add"]:
            change(row["add"])
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), checkpoint)
    with pytest.raises(errors.CorruptionError, match=rf"{problem}.*{checkpoint.name}"):
        sp.open(tmp_path / "t", version=int(checkpoint.name.split(".")[0])).sum()


METADATA_NAMES = ("format_version", "dims", "shape", "dtype", "fill_value", "stype", "profile", "labels", "sparrow")


@pytest.mark.parametrize("name", METADATA_NAMES)
def test_changed_metadata_of_a_checkpoint_names_it(long_log: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(long_log, tmp_path / "t")
    (checkpoint,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    table = pq.read_table(checkpoint)
    rows = table.to_pylist()
    for row in rows:
        if row["metaData"]:
            text = row["metaData"]["schemaString"]
            assert f'{name}\\"' in text or f'"{name}"' in text
            changed = name[:-1] + "_"
            text = text.replace(f'{name}\\"', f'{changed}\\"').replace(f'"{name}"', f'"{changed}"')
            row["metaData"]["schemaString"] = text
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), checkpoint)
    with pytest.raises(errors.CorruptionError, match=checkpoint.name):
        sp.open(tmp_path / "t", version=int(checkpoint.name.split(".")[0]))


def test_flipped_footers_of_a_checkpoint(long_log: Path, tmp_path: Path) -> None:
    shutil.copytree(long_log, tmp_path / "t")
    (checkpoint,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    data = checkpoint.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    wanted, refused = sp.open(tmp_path / "t").to_numpy().tolist(), 0
    for at in range(len(data) - 8 - length, len(data) - 8, max(length // 150, 1)):
        checkpoint.write_bytes(data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :])  # no longer UTF-8
        try:
            assert sp.open(tmp_path / "t").to_numpy().tolist() == wanted
        except errors.CorruptionError as error:
            refused += 1
            assert checkpoint.name in str(error)  # noqa: PT017 every error names the file
    assert refused
