from __future__ import annotations

import csv
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import sparrow as sp
from sparrow.datasets import published
from sparrow.datasets.shipped import extract
from sparrow.errors import ExistsError, IngestError, InvalidValueError, LabelError, NotFoundError, ReadOnlyError
from sparrow.io.base.registry import formats, options_of


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("name", sp.datasets.names())
def test_file_matches_description(name: str, datasets_folder: Path) -> None:
    about = sp.datasets.describe(name)
    content = sp.datasets.path(name).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    assert digest == about["sha256"]
    told = (datasets_folder / "README.md").read_text()
    assert f"| `{about['file']}` | {len(content):,} | `{digest}` |" in told
    assert f"- `{name}`: " in told


@pytest.mark.parametrize("name", sp.datasets.names())
def test_load_matches_description(name: str, cache: Path) -> None:
    about = sp.datasets.describe(name)
    found = sp.datasets.load(name, cache=cache)
    tensor = found["X"] if isinstance(found, Mapping) else found
    assert list(tensor.shape) == about["shape"]
    assert tensor.nnz == about["nnz"]


def test_load_is_cached_and_read_only(cache: Path) -> None:
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


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    sp.datasets.load("heart_scale")
    assert [path.name.split("-")[0] for path in (tmp_path / "xdg" / "sparrow").iterdir()] == ["heart_scale"]


def test_file_is_extracted_from_an_archive(tmp_path: Path, datasets_folder: Path) -> None:
    archive = tmp_path / "installed.zip"
    with zipfile.ZipFile(archive, "w") as target:
        target.write(datasets_folder / "heart_scale" / "heart_scale", "_datasets/heart_scale/heart_scale")
    with zipfile.ZipFile(archive) as source:
        folder = zipfile.Path(source, "_datasets/")
        found = extract(folder, "heart_scale/heart_scale", tmp_path / "cache")
    assert found.is_relative_to(tmp_path / "cache")
    assert found.read_bytes() == (datasets_folder / "heart_scale" / "heart_scale").read_bytes()


def test_unknown_name() -> None:
    with pytest.raises(LabelError, match=r"no data set 'mnist': there are a9a, a9a\.t, cnr-2000, heart_scale"):
        sp.datasets.load("mnist")


def test_a9a_columns_are_named(datasets_folder: Path) -> None:
    with (datasets_folder / "a9a" / "features.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["col"]) for row in rows] == list(range(123))
    assert len({(row["attribute"], row["value"]) for row in rows}) == 123


def test_published_descriptions() -> None:
    names = [each["name"] for each in sp.datasets.list()]
    assert len(names) == len(set(names)) > 40
    for name in names:
        about = sp.datasets.describe(name)
        assert about["title"]
        assert about["licence"]
        options = about.get("options", {})
        made = formats()[about["format"]].reader
        assert made is not None
        assert set(options) <= {each.name for each in options_of(made)}
        if name not in sp.datasets.names():
            assert all(address.startswith(("https://", "http://")) for address in about["fetch"])
            assert about["files"]
            assert about["cite"]
            assert about["page"]
            assert len(about.get("shape", [])) in (0, 2, 3, 4)


def test_list_is_rendered_as_table(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sp.datasets.list()
    assert isinstance(found, list)
    monkeypatch.setenv("COLUMNS", "70")
    lines = repr(found).splitlines()
    assert lines[0].startswith("name ")
    assert len(lines) == 2 + len(found)
    assert max(map(len, lines)) <= 70
    shown = found._repr_html_()
    assert shown.count("<tr>") == 1 + len(found)
    assert "<td>heart_scale</td><td>libsvm</td><td>270 x 13</td><td>3,378</td><td>here</td>" in shown


def test_shipped_data_needs_no_fetch() -> None:
    with pytest.raises(LabelError, match="'a9a' comes with sparrow"):
        sp.datasets.way("a9a")


def test_missing_files_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        sp.datasets.load("wiki-Vote", cache=tmp_path)
    lines = str(caught.value).splitlines()
    assert str(tmp_path / "files" / "wiki-Vote" / "wiki-Vote.txt.gz") in lines[0]
    assert lines[1].endswith(f"cd {tmp_path / 'files' / 'wiki-Vote'}")
    assert lines[2] == "  curl -fLO https://snap.stanford.edu/data/wiki-Vote.txt.gz"
    assert "Leskovec" in lines[3]
    assert not list(tmp_path.iterdir())


def test_fetched_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "files" / "west0479"
    folder.mkdir(parents=True)
    file = folder / "west0479.mtx"
    file.write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 3\n")
    with monkeypatch.context() as patch:
        digest = hashlib.sha256(b"other").hexdigest()
        patch.setitem(published.read_descriptions()["west0479"], "sha256", {"west0479.mtx": digest})
        with pytest.raises(IngestError, match="not the file that was published"):
            sp.datasets.load("west0479", cache=tmp_path)
    A = sp.datasets.load("west0479", cache=tmp_path)
    assert isinstance(A, sp.Tensor)
    assert (A.shape, A.nnz) == ((2, 2), 1)
    file.unlink()
    assert sp.datasets.load("west0479", cache=tmp_path) is not None
    where = {each["name"]: each["where"] for each in sp.datasets.list(cache=tmp_path)}
    assert (where["west0479"], where["cage14"], where["a9a"]) == ("cache", "fetch", "here")
    other = tmp_path / "elsewhere"
    other.mkdir()
    for name in ("train2id", "valid2id", "test2id"):
        (other / f"{name}.txt").write_text("1\n0 1 0\n")
    (other / "entity2id.txt").write_text("2\nann\t0\nbob\t1\n")
    (other / "relation2id.txt").write_text("1\nknows\t0\n")
    graph = sp.datasets.load("WN18", cache=tmp_path, files=other)
    assert isinstance(graph, sp.Bundle)
    assert graph["test"].sel(head="ann", relation="knows", tail="bob") == 1


def test_generated_graphs(tmp_path: Path) -> None:
    path = tmp_path / "g.txt.zst"
    assert sp.datasets.rmat(path, scale=8, edges=300_000, seed=3) == 300_000
    A = sp.ingest.edges(path, tmp_path / "A.sparrow", shape=(256, 256))
    assert A.sum() == 300_000
    out = A.sum(axis=1).to_numpy()
    assert out[0] > 20 * np.median(out)  # few have most
    upper = A[:128, :128].sum() / 300_000
    assert upper == pytest.approx(0.57, abs=0.01)
    before = path.read_bytes()
    sp.datasets.rmat(path, scale=8, edges=300_000, seed=3, overwrite=True)
    assert path.read_bytes() == before
    with pytest.raises(ExistsError):
        sp.datasets.rmat(path, scale=8, edges=3)
    for bad in ({"scale": 63}, {"edges": -1}, {"a": 0.9}):
        with pytest.raises(InvalidValueError):
            sp.datasets.rmat(tmp_path / "h", **({"scale": 3, "edges": 3} | bad))


def test_generated_samples_and_tensors(tmp_path: Path) -> None:
    sp.datasets.powerlaw_libsvm(tmp_path / "a.svm", 2000, 500, 12.5, seed=1)
    found = sp.ingest.libsvm(tmp_path / "a.svm", tmp_path / "A.sparrow", index_base=1, n_features=500)
    assert found["X"].shape == (2000, 500)
    often = (found["X"] != 0).sum(axis=0).to_numpy()
    assert often[:10].min() > often[250:].max()
    assert set(found["y"].to_numpy()) == {1.0, -1.0}
    sp.datasets.powerlaw_tns(tmp_path / "a.tns.gz", (5, 6, 7, 8), 4000, seed=1)
    B = sp.ingest.tns(tmp_path / "a.tns.gz", tmp_path / "B.sparrow", shape=(5, 6, 7, 8), dtype="int64")
    assert (B.shape, B.sum() > 4000) == ((5, 6, 7, 8), True)
