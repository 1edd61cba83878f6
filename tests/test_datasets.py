from __future__ import annotations

import csv
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import sparrow as sp
from sparrow.errors import LabelError, ReadOnlyError


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("name", sp.datasets.names())
def test_the_file_is_the_one_described(name: str, shipped: Path) -> None:
    about = sp.datasets.describe(name)
    content = sp.datasets.path(name).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    assert digest == about["sha256"]
    told = (shipped / "README.md").read_text()
    assert f"| `{about['file']}` | {len(content):,} | `{digest}` |" in told
    assert f"| `{name}` |" in told


@pytest.mark.parametrize("name", sp.datasets.names())
def test_it_loads_as_described(name: str, cache: Path) -> None:
    about = sp.datasets.describe(name)
    found = sp.datasets.load(name, cache=cache)
    tensor = found["X"] if isinstance(found, Mapping) else found
    assert list(tensor.shape) == about["shape"]
    assert tensor.nnz == about["nnz"]


def test_it_is_stored_once_and_stays_as_it_was(cache: Path) -> None:
    first = sp.datasets.load("heart_scale", cache=cache)
    assert isinstance(first, Mapping)
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}
    again = sp.datasets.load("heart_scale", cache=cache)
    assert isinstance(again, Mapping)
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()} == before
    with pytest.raises(ReadOnlyError):
        again["X"][0, 0] = 1.0
    assert again["X"][0, 0] == first["X"][0, 0]
    assert isinstance(again, sp.Bundle)
    assert (list(again), again["y"].version) == (["X", "y"], 0)


def test_the_cache_folder_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    sp.datasets.load("heart_scale")
    assert [path.name.split("-")[0] for path in (tmp_path / "xdg" / "sparrow").iterdir()] == ["heart_scale"]


def test_from_an_archive_the_file_is_unpacked(tmp_path: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "installed.zip"
    with zipfile.ZipFile(archive, "w") as target:
        target.write(shipped / "heart_scale" / "heart_scale", "_datasets/heart_scale/heart_scale")
    with zipfile.ZipFile(archive) as source:
        monkeypatch.setattr("sparrow.datasets.data_folder", lambda name: zipfile.Path(source, f"_{name}/"))
        found = sp.datasets.path("heart_scale", cache=tmp_path / "cache")
    assert found.is_relative_to(tmp_path / "cache")
    assert found.read_bytes() == (shipped / "heart_scale" / "heart_scale").read_bytes()


def test_an_unknown_name_is_told_with_those_there_are() -> None:
    with pytest.raises(LabelError, match=r"no data set 'mnist': there are a9a, a9a\.t, cnr-2000, heart_scale"):
        sp.datasets.load("mnist")


def test_every_column_of_a9a_has_a_name(shipped: Path) -> None:
    with (shipped / "a9a" / "features.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["col"]) for row in rows] == list(range(123))
    assert len({(row["attribute"], row["value"]) for row in rows}) == 123
