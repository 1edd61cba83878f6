"""Tensors on Google Cloud Storage and Azure, with stand-ins for both."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import errors
from tests.storage.clouds import Azure, Cloud, Google, running
from tests.storage.helpers import end_all_processes
from tests.storage.server import BUCKET, SECRET, Request, refusing_from

ENTRIES = sp.random((300, 200), nnz=3000, seed=1)


@pytest.fixture(params=[Google, Azure])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    pytest.importorskip("obstore", reason="obstore, of the extra cloud, reads object stores")
    made: Cloud = request.param(page=3)
    return made


@pytest.fixture
def home(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder of a store that the environment leads to."""
    with running(cloud) as address:
        for name, value in cloud.options(address).items():
            monkeypatch.setenv(name.upper(), value)
        yield f"{cloud.scheme}://{BUCKET}/home"


@pytest.fixture
def multipart() -> Iterator[None]:
    """Upload files in parts."""
    with sparrow.testing.tune("storage", upload_part_bytes=1 << 14):
        yield


@pytest.mark.usefixtures("multipart")
def test_tensor_round_trip(cloud: Cloud, home: str, tmp_path: Path) -> None:
    there, here = (ENTRIES.save(folder, orders=[(1, 0)]) for folder in (f"{home}/t", tmp_path / "t"))
    assert len(cloud.requests) > 0
    assert not [name for name in cloud.blobs if "_creating" in name]
    for tensor in (there, here):
        tensor[5, 5] = 7
        tensor.append(sp.from_coords([[6, 299], [6, 0]], [1.5, 2.5], shape=(300, 200)), duplicates="sum")
        with tensor.edit() as edit:
            edit[1:20, :] = 0
        tensor.compact()
    again = sp.open(f"{home}/t")
    assert again.to_numpy().tolist() == here.to_numpy().tolist()
    assert again[100:102, 7].to_numpy().tolist() == here[100:102, 7].to_numpy().tolist()
    assert again.T[7].to_numpy().tolist() == here.T[7].to_numpy().tolist()
    assert again.verify() == []
    assert sp.open(f"{home}/t", version=0).to_numpy().tolist() == ENTRIES.to_numpy().tolist()
    sql = "select count(*), sum(value) from t where d0 = 100"
    assert sp.sql(sql, t=again).fetchall() == sp.sql(sql, t=here).fetchall()
    ENTRIES.save(f"{home}/t", overwrite=True)
    assert sp.open(f"{home}/t").to_numpy().tolist() == ENTRIES.to_numpy().tolist()
    assert sp.open(f"{home}/t").vacuum("0 seconds")
    assert sp.open(f"{home}/t").verify() == []


def test_ingest_and_export(cloud: Cloud, home: str) -> None:
    cloud.put("home/raw/a.txt", b"0 1\n1 2\n")
    cloud.put("home/raw/b.txt", b"2 0\n")
    web = sp.ingest.edges(f"{home}/raw/*.txt", f"{home}/web")
    assert web.to_numpy().tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert sp.export(web, f"{home}/web.mtx") == 3
    assert cloud.blobs["home/web.mtx"].data.startswith(b"%%MatrixMarket")
    assert sp.ingest.mtx(f"{home}/web.mtx", f"{home}/again").nnz == 3
    sp.Bundle({"X": sp.eye(3), "y": [1, -1, 0]}).save(f"{home}/b")
    assert {name: tensor.shape for name, tensor in sp.open(f"{home}/b").items()} == {"X": (3, 3), "y": (3,)}


def test_slice_fetches_its_row_groups(cloud: Cloud, home: str) -> None:
    sp.random((200_000, 50), nnz=400_000, seed=2).save(f"{home}/t")
    stored = sp.open(f"{home}/t")
    with sp.explained(analyze=True) as plans:
        found = stored[1000].sum()
    assert "row groups  1 of 2 read" in plans[0]
    told = re.search(r"fetched: ([\d.]+) MB in (\d+) requests", plans[0])
    assert told, plans[0]
    size = sum(len(blob.data) for name, blob in cloud.blobs.items() if name.endswith(".parquet"))
    assert (float(told[1]) * 1e6 < 0.8 * size, int(told[2]) <= 4, found > 0) == (True, True, True)


def test_concurrent_appends_both_land(home: str) -> None:
    first = sp.from_coords([[0], [0]], [1.0], shape=(40, 40)).save(f"{home}/t")
    failed: list[BaseException] = []

    def work(own: int) -> None:
        try:
            tensor = sp.open(f"{home}/t")
            for step in range(4):
                tensor.append(sp.from_coords([[own], [step]], [1.0], shape=(40, 40)))
        except BaseException as error:  # noqa: BLE001 - the other thread tells it
            failed.append(error)

    threads = [threading.Thread(target=work, args=(own,)) for own in (10, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    want = np.zeros((40, 40))
    want[0, 0] = want[10, :4] = want[30, :4] = 1
    first.refresh()
    assert first.to_numpy().tolist() == want.tolist()
    assert first.version == 8


def test_concurrent_creation_has_one_winner(home: str) -> None:
    done: list[int] = []
    barrier = threading.Barrier(2)

    def work(own: int) -> None:
        barrier.wait()
        try:
            (sp.eye(20) * own).save(f"{home}/t")
        except errors.ExistsError:
            return
        done.append(own)

    threads = [threading.Thread(target=work, args=(own,)) for own in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    assert sp.open(f"{home}/t")[7, 7] == done[0]
    assert sp.open(f"{home}/t").verify() == []


def test_lost_response_commits_once(cloud: Cloud, home: str) -> None:
    tensor = sp.eye(5).save(f"{home}/t")

    def before(request: Request) -> int | None:
        request.lost = request.method == "PUT" and "0000001" in request.path and request.path not in lost
        lost.add(request.path if request.lost else "")
        return None

    lost: set[str] = set()
    cloud.before = before
    tensor[0, 0] = 9
    assert any(lost)
    cloud.before = lambda request: None
    again = sp.open(f"{home}/t")
    assert (again.version, again[0, 0]) == (1, 9)
    assert again.verify() == []


def test_kill_leaves_old_or_new(cloud: Cloud, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every write from the n-th on, for all n, as if the process were dead."""
    end_all_processes(monkeypatch)
    old, new = sp.eye(6).to_numpy(), (sp.eye(6) * 2).to_numpy()
    for number in range(1, 100):
        cloud.before, passed = refusing_from(number)
        try:
            sp.eye(6).save(f"{home}/made")
        except errors.SparrowError:
            cloud.before = lambda request: None
            with suppress(errors.NotFoundError):  # else the log was written, and nothing but an answer was missing
                assert sp.open(f"{home}/made").verify() == []
                break
        else:
            break
    cloud.before = lambda request: None
    assert number > 2
    assert sp.open(f"{home}/made").to_numpy().tolist() == old.tolist()
    for number in range(1, 100):
        tensor = sp.eye(6).save(f"{home}/t{number}")
        cloud.before, passed = refusing_from(number)
        try:
            tensor[...] = new
        except errors.SparrowError:
            cloud.before = lambda request: None
            found = sp.open(f"{home}/t{number}")
            assert found.to_numpy().tolist() in (old.tolist(), new.tolist())
            assert found.verify() == []
        else:
            break
    assert len(passed) < number


def test_marker_is_deleted_last(cloud: Cloud, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leftovers of a process that dies while it cleans up still have an owner."""

    def before(request: Request) -> int | None:
        log = request.method == "PUT" and "json" in request.path
        return (
            403
            if log or (request.method == "DELETE" and "parquet" in request.path) or "batch" in request.path
            else None
        )

    cloud.before = before
    with pytest.raises(errors.StorageError, match="cannot write in"):
        sp.eye(4).save(f"{home}/t")
    cloud.before = lambda request: None
    assert [name for name in cloud.blobs if "_creating" in name]
    end_all_processes(monkeypatch)
    assert sp.eye(4).save(f"{home}/t").verify() == []
    assert len([name for name in cloud.blobs if "parquet" in name]) == 1


def test_storage_options_stay_secret(cloud: Cloud) -> None:
    with running(cloud) as address:
        options = cloud.options(address)
        path = f"{cloud.scheme}://{BUCKET}/home/own"
        tensor = sp.eye(3).save(path, storage_options=options)
        assert sp.open(path, storage_options=options)[1, 1] == 1
        assert SECRET.encode() not in pickle.dumps(tensor)
        cloud.before = lambda request: 403
        with pytest.raises(errors.StorageError, match=r"access to \w+://bucket is denied.*set \w+") as told:
            sp.open(path)[...].to_numpy()
        secrets = [SECRET, *(value for name, value in options.items() if name.endswith("key"))]
        assert not [secret for secret in secrets if secret in str(told.value)]
        cloud.before = lambda request: None
        with pytest.raises(errors.NotFoundError, match="no bucket"):
            sp.eye(3).save(f"{cloud.scheme}://elsewhere/t", storage_options=options)
