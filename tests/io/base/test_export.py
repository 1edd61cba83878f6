"""Exports, read back by other libraries and by the readers."""

from __future__ import annotations

import gzip
import json
import os
import random
from contextlib import suppress
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import h5py
import networkx
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.datasets import load_svmlight_file

import sparrow as sp
from sparrow import export
from sparrow.cli import main
from sparrow.errors import (
    ExistsError,
    IngestError,
    InvalidValueError,
    ShapeError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.io.base.detect import detect_format


@pytest.fixture
def web() -> sp.Tensor:
    return sp.from_coords([[0, 2, 2], [1, 0, 3]], [0.1, 6, -7e300], shape=(4, 4), dims=("src", "dst"))


@pytest.fixture
def named_path(tmp_path: Path) -> Any:
    (tmp_path / "ratings.csv").write_text('user,film,stars\nada,7,4.5\n"b, ob",7,3\n')
    return sp.ingest.columns(tmp_path / "ratings.csv", tmp_path / "r.sparrow", coords=["user", "film"], value="stars")


@pytest.mark.parametrize("name", ["w.parquet", "w.arrow", "w.csv", "w.tsv", "w.csv.gz", "w.csv.zst", "w.tsv.bz2"])
def test_tables_are_read_back(tmp_path: Path, web: sp.Tensor, name: str) -> None:
    assert export(web, tmp_path / name) == 3
    back = sp.ingest.columns(tmp_path / name, tmp_path / "back.sparrow", coords=["src", "dst"], value="value")
    assert np.array_equal(back.to_numpy(), web[:3].to_numpy())
    assert sorted(os.listdir(tmp_path)) == ["back.sparrow", name]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("c.parquet", "complex64"), ("c.parquet", "complex128"), ("c.csv", "complex64"), ("c.tsv.gz", "complex128"),
     ("table", "complex64"), ("c.jsonl", "complex128")],
)  # fmt: skip
def test_complex_numbers_are_read_back(tmp_path: Path, name: str, dtype: str) -> None:
    dense = np.array([[1, 0, complex(np.nan, 2)], [0, complex(0.5, -np.inf), -1j]], dtype)
    src: Any = tmp_path / name
    if name == "c.jsonl":  # which has finite numbers alone
        dense[0, 2], dense[1, 1] = 3 + 0.25j, 0.5
        sp.asarray(dense).to_polars().write_ndjson(src)
    elif name == "table":
        src = sp.asarray(dense).to_arrow()
    else:
        export(sp.asarray(dense), src)
    read: Any = partial(sp.ingest.columns, src, tmp_path / "A", coords=["d0", "d1"], value="value", overwrite=True)
    for options in ({"dtype": dtype}, {"duplicates": "sum"}, {"nulls": "drop"}):
        found = read(**options)
        assert found.dtype.kind == "c"
        np.testing.assert_array_equal(found.to_numpy().astype(dtype), dense)
    assert read().dtype == (dtype if name in ("c.parquet", "table") else "complex128")
    for wrong in ({"dtype": "float64"}, {"duplicates": "mean"}):
        with pytest.raises(InvalidValueError, match="excludes complex values: rename the column 'value_im'"):
            read(**wrong)


def test_other_libraries_read_tables(tmp_path: Path, web: sp.Tensor) -> None:
    expected = web.to_polars()
    export(web, tmp_path / "w.parquet")
    assert pl.read_parquet(tmp_path / "w.parquet").equals(expected)
    export(web, tmp_path / "w.ipc")
    assert pl.read_ipc(tmp_path / "w.ipc").equals(expected)
    export(web, tmp_path / "w.csv")
    assert (tmp_path / "w.csv").read_text() == "src,dst,value\n0,1,0.1\n2,0,6\n2,3,-7e+300\n"


def test_edge_lists_are_read_back(tmp_path: Path, web: sp.Tensor) -> None:
    export(web, tmp_path / "w.edges.gz")
    assert np.array_equal(sp.ingest.edges(tmp_path / "w.edges.gz", tmp_path / "w.sparrow").to_numpy(), web.to_numpy())
    export(web, tmp_path / "w.txt")
    assert (tmp_path / "w.txt").read_text().splitlines()[:3] == ["# shape: 4 4", "# src\tdst\tvalue", "0\t1\t0.1"]
    with pytest.raises(UnsupportedError, match="needs 2 dimensions, the tensor has 1"):
        export(web[0], tmp_path / "row.edges")


@pytest.mark.filterwarnings("ignore:.*there are no edges")
@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (2**40, 2**62)])
def test_edge_lists_keep_their_shape(tmp_path: Path, shape: tuple[int, int]) -> None:
    A = sp.from_coords([[0, 2, 2], [1, 0, 3]], [0.5, 6, -7], shape=shape)
    for each in (A, A[:, 4:], A[3:, :]):
        export(each, tmp_path / "a.txt", overwrite=True)
        assert detect_format(str(tmp_path / "a.txt")).format == "edges"
        back = sp.ingest.edges(tmp_path / "a.txt", tmp_path / "a.sparrow", overwrite=True)
        assert back.shape == each.shape
        assert back.to_polars().rows() == each.to_polars().rows()
        assert networkx.read_weighted_edgelist(tmp_path / "a.txt", create_using=networkx.DiGraph).size() == each.nnz


def test_vertex_names_round_trip(tmp_path: Path) -> None:
    (tmp_path / "cities.txt").write_text("oslo rome 3\nrome oslo 4\noslo kyiv 5\n")
    cities = sp.ingest.edges(tmp_path / "cities.txt", tmp_path / "cities.sparrow")
    export(cities, tmp_path / "out.edges")
    assert (tmp_path / "out.edges").read_text().splitlines()[:2] == ["# src\tdst\tvalue", "oslo\tkyiv\t5"]
    back = sp.ingest.edges(tmp_path / "out.edges", tmp_path / "back.sparrow")
    assert back.labels(0).to_pylist() == cities.labels(0).to_pylist()
    assert np.array_equal(back.to_numpy(), cities.to_numpy())


def test_labels_with_separators_are_rejected(tmp_path: Path, named_path: sp.Tensor) -> None:
    with pytest.raises(UnsupportedError, match="label 'b, ob' of 'user' cannot be written to an edge list"):
        export(named_path, tmp_path / "out.edges")
    assert export(named_path, tmp_path / "out.edges", labels=False) == 2


@pytest.mark.parametrize(
    ("label", "ends"),
    [("#a", (".edges",)), ("%a", (".edges",)), ("", (".edges", ".tsv")), (datetime(2020, 1, 2, 3, 4), (".edges",)),
     ("b#%", ()), (date(2020, 1, 2), ())],
)  # fmt: skip
def test_ambiguous_labels_are_rejected(tmp_path: Path, label: Any, ends: tuple[str, ...]) -> None:
    other = "a" if isinstance(label, str) else type(label)(2021, 1, 1)
    A = sp.from_coords([[0, 1], [0, 1]], [1.5, 2.5], shape=(2, 2), labels={"d1": [label, other]})
    for end in (".edges", ".tsv", ".csv"):
        if end in ends:
            with pytest.raises(UnsupportedError, match=r"of 'd1' cannot be written to .*labels=False, or csv"):
                export(A, tmp_path / f"a{end}")
            continue
        export(A, tmp_path / f"a{end}")
        if end == ".edges":
            back = sp.ingest.edges(tmp_path / "a.edges", tmp_path / "A", ids="str", overwrite=True)
        else:
            reading = partial(sp.ingest.columns, tmp_path / f"a{end}", tmp_path / "A", value="value", overwrite=True)
            back = reading(coords=["d0", "d1"])
        assert sorted(back.to_arrow()["value"].to_pylist()) == [1.5, 2.5]
        assert {*map(str, [label, other])} <= {*map(str, back.labels(1).to_pylist())} or isinstance(label, datetime)


def test_labels_round_trip(tmp_path: Path, named_path: sp.Tensor) -> None:
    export(named_path, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == 'user,film,value\n"ada",7,4.5\n"b, ob",7,3\n'
    export(named_path, tmp_path / "numbers.csv", labels=False)
    assert (tmp_path / "numbers.csv").read_text() == "user,film,value\n0,7,4.5\n1,7,3\n"
    export(named_path[1:], tmp_path / "part.parquet")
    assert pl.read_parquet(tmp_path / "part.parquet")["user"].to_list() == ["b, ob"]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "float16", "complex64"])
def test_every_dtype_is_written(tmp_path: Path, dtype: str) -> None:
    A = sp.asarray(np.array([[0, 1], [1, 0]], dtype))
    for name in ("A.parquet", "A.csv"):
        assert export(A, tmp_path / name) == 2
    columns = pl.read_csv(tmp_path / "A.csv").columns
    assert columns == ["d0", "d1", "value", *(["value_im"] if dtype == "complex64" else [])]
    assert export(A[:0], tmp_path / "empty.csv") == 0
    assert (tmp_path / "empty.csv").read_text().startswith("d0,d1,value")


def test_edge_list_rejects_complex(tmp_path: Path) -> None:
    A = sp.asarray(np.array([[False, True], [True, False]]))
    export(A, tmp_path / "A.edges")
    back = sp.ingest.edges(tmp_path / "A.edges", tmp_path / "back.sparrow")
    assert np.array_equal(back.to_numpy(), A.to_numpy())
    with pytest.raises(UnsupportedError, match="cannot hold complex128 values"):
        export(A * 1j, tmp_path / "C.edges")
    with pytest.raises(UnsupportedError, match="needs fill 0, the tensor has 1"):
        export(A + 1, tmp_path / "C.edges")
    assert not (tmp_path / "C.edges").exists()


def test_npz_files(tmp_path: Path, web: sp.Tensor) -> None:
    assert export(web, tmp_path / "w.npz") == 3
    assert np.array_equal(scipy.sparse.load_npz(tmp_path / "w.npz").toarray(), web.to_numpy())


def test_npz_files_are_stored(tmp_path: Path, web: sp.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    export(web, tmp_path / "w.npz")
    made = sp.ingest.npz(tmp_path / "w.npz", tmp_path / "w.sparrow", dims=("a", "b"))
    assert made.dims == ("a", "b")
    assert np.array_equal(made.to_numpy(), web.to_numpy())
    code, out, _ = cli(capsys, "ingest", "npz", tmp_path / "w.npz", tmp_path / "again.sparrow", "--json")
    assert code == 0
    assert json.loads(out)["tensors"][0]["nnz"] == 3
    code, _, err = cli(capsys, "ingest", "npz", tmp_path / "missing.npz", tmp_path / "x.sparrow")
    assert (code, "missing.npz" in err) == (1, True)
    with pytest.raises(InvalidValueError, match="profile"):
        sp.ingest.npz(tmp_path / "w.npz", tmp_path / "x.sparrow", profile="big")  # type: ignore[arg-type]


def test_damaged_npz_files_are_refused(tmp_path: Path, web: sp.Tensor) -> None:
    export(web, tmp_path / "w.npz")
    whole = (tmp_path / "w.npz").read_bytes()
    draw = random.Random(3)
    for k in range(150):
        data = bytearray(whole)
        if k % 3:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        else:
            del data[draw.randrange(len(data)) :]
        (tmp_path / "bad.npz").write_bytes(data)
        with suppress(IngestError, ShapeError, TooLargeError):  # a flip in a name or date of the archive harms nothing
            sp.ingest.npz(tmp_path / "bad.npz", tmp_path / "bad.sparrow", overwrite=True)
    (tmp_path / "bad.npz").write_bytes(whole[:-30])
    with pytest.raises(IngestError, match=r"bad\.npz: this is not a sparse array"):
        sp.ingest.npz(tmp_path / "bad.npz", tmp_path / "x.sparrow")
    np.savez(tmp_path / "pickled.npz", shape=np.array([2, 2]), data=np.array([{1}], object), format=b"coo")
    with pytest.raises(IngestError, match="not a sparse array"):
        sp.ingest.npz(tmp_path / "pickled.npz", tmp_path / "x.sparrow")
    with pytest.raises(InvalidValueError, match=r"must end in \.npz"):
        sp.ingest.npz(tmp_path / "w.parquet", tmp_path / "x.sparrow")


@pytest.mark.parametrize(
    "arrays",
    [
        {"arr_0": [[0, 3, 0, 0]]},
        {"data": [[0, 3, 0, 0]]},
        {"a_data": [3.0], "a_indices": [1], "a_indptr": [0, 1], "a_shape": [1, 4]},
        {"row": [0], "col": [1], "data": [3.0], "shape": [1, 4]},
    ],
)
def test_npz_error_suggests_code(tmp_path: Path, arrays: Any) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(IngestError, match="this is not a sparse array") as caught:
        sp.ingest.npz(tmp_path / "a.npz", tmp_path / "A.sparrow")
    way = caught.value.problem.split(": ", 2)[2].removesuffix(" stores a dense one")
    exec(way.replace("DST", repr(str(tmp_path / "A.sparrow"))), {"numpy": np, "scipy": scipy, "sp": sp})
    assert sp.open(tmp_path / "A.sparrow").to_numpy().tolist() == [[0, 3, 0, 0]]


MOST = 2**64 - 1


def _of_most(folder: Path) -> dict[str, tuple[str, Any, dict[str, Any]]]:
    """Return files with an integer beyond storage: format, content, options."""
    wide = np.array([[MOST, 1]], np.uint64)
    np.save(folder / "a.npy", wide)
    np.save(folder / "zero.npy", np.array(MOST, np.uint64))
    with h5py.File(folder / "a.h5ad", "w") as file:
        file["X"] = wide
    pl.DataFrame({"i": [0, 1], "value": wide[0]}).write_parquet(folder / "a.parquet")
    kinds: dict[str, tuple[str, Any, dict[str, Any]]] = {
        "a.npy": ("npy", None, {}),
        "zero.npy": ("npy", None, {}),
        "a.h5ad": ("h5ad", None, {}),
        "a.parquet": ("columns", None, {"coords": ["i"], "value": "value"}),
        "a.mtx": ("mtx", f"%%MatrixMarket matrix coordinate unsigned-integer general\n1 1 1\n1 1 {MOST}\n", {}),
        "a.svm": ("libsvm", f"1 2:{MOST}\n", {"dtype": "uint64"}),
        "a.ffm": ("libffm", f"1 0:1:1\n# so\n1 0:1:2 0:2:{MOST}\n", {"dtype": "uint64"}),
        "a.tns": ("tns", f"1 1 {MOST}\n", {"dtype": "uint64"}),
    }
    for name, (_, text, _) in kinds.items():
        if text is not None:
            (folder / name).write_text(text)
    return kinds


def test_integers_beyond_storage(tmp_path: Path) -> None:
    for name, (kind, _, options) in _of_most(tmp_path).items():
        read = getattr(sp.ingest, kind)
        with pytest.raises(
            IngestError, match=r"(exceeds 2\^63 - 1, the largest stored integer|for uint64).*'float64'"
        ) as caught:
            read(tmp_path / name, tmp_path / "B.sparrow", **options)
        assert caught.value.file == str(tmp_path / name)
        assert str(MOST) in str(caught.value.token)
        found = read(tmp_path / name, tmp_path / "A.sparrow", overwrite=True, **options | {"dtype": "float64"})
        assert (found["X"] if isinstance(found, sp.Bundle) else found).sum() >= 2.0**64
        with pytest.raises(IngestError, match=r"does not fit|out of range for int8"):
            read(tmp_path / name, tmp_path / "B.sparrow", **options | {"dtype": "int8"})
    np.savez(
        tmp_path / "a.npz", format=b"csr", shape=[1, 1], data=np.array([MOST], np.uint64), indices=[0], indptr=[0, 1]
    )
    with pytest.raises(IngestError, match=r"2\^63 - 1, .*load_npz\(.*\)\.astype\('float64'\)\)\.save\(DST\)"):
        sp.ingest.npz(tmp_path / "a.npz", tmp_path / "A.sparrow", overwrite=True)


def test_npz_decompression_bomb(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", data=np.zeros(10_000_000), shape=[2, 2], format=b"coo")
    assert (tmp_path / "bomb.npz").stat().st_size < 200_000
    with sp.config(memory_limit="50MB"), pytest.raises(TooLargeError, match=r"unpacks to 80(\.0)? MB"):
        sp.ingest.npz(tmp_path / "bomb.npz", tmp_path / "x.sparrow")


def test_gzip_level(tmp_path: Path, web: sp.Tensor) -> None:
    export(web, tmp_path / "w.csv.gz")
    packed = (tmp_path / "w.csv.gz").read_bytes()
    assert packed[8] != 2, "the strongest level takes ten times as long as writing plain text"
    assert gzip.decompress(packed).startswith(b"src,dst,value\n")
    assert packed[4:8] == bytes(4), "no time: the same tensor is the same file"


def test_tsv_has_no_quotes(tmp_path: Path, named_path: sp.Tensor) -> None:
    export(named_path, tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text() == "user\tfilm\tvalue\nada\t7\t4.5\nb, ob\t7\t3\n"
    back = sp.ingest.columns(tmp_path / "out.tsv", tmp_path / "b.sparrow", coords=["user", "film"], value="value")
    assert back.labels(0).to_pylist() == ["ada", "b, ob"]
    table = pa.table({"user": ['a "b"', "c"], "film": [0, 1]})
    quoted = sp.ingest.columns(table, tmp_path / "q.sparrow", coords=["user", "film"])
    with pytest.raises(UnsupportedError, match="labels=False, or csv"):
        export(quoted, tmp_path / "q.tsv")


LINES = "1 1:0.5 4:2\n-1 \n2.5 2:1 3:-7\n1\n1 4:1e-300\n"


_Y = sp.asarray(np.array([1.5, -2]))
_FEATURES = sp.asarray(np.array([[0.5, 0], [0, 2]]))


def _make_labelled(names: Any, values: Any = (True, True)) -> sp.Tensor:
    return sp.from_coords([[0, 1], [0, 1]], list(values), shape=(2, 2), labels={"d1": names})


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"y": _Y * 1j}, r"y must be real numbers of shape \(2,\), got complex128"),
        ({"y": _Y[:1]}, r"y must be real numbers of shape \(2,\), got float64 of shape \(1,\)"),
        ({"y": sp.asarray(np.ones(3))}, r"y must be real numbers of shape"),
        ({"y": _make_labelled(["cat", "1"])}, "labels in libsvm text must be numbers, got 'cat'"),
        ({"y": _make_labelled(["1,5", "2"])}, "labels in libsvm text must be numbers, got '1,5'"),
        ({"y": _make_labelled(["", "2"])}, "labels in libsvm text must be numbers, got ''"),
        ({"y": _make_labelled([1, 2], (1.0, 0.5))}, "must hold ones for the labels"),
        ({"y": _make_labelled([1, 2]) == False}, "must hold ones for the labels"),  # noqa: E712
        ({"y": _Y, "qid": _Y}, "qid must be integers, got float64"),
        ({"y": _Y, "qid": sp.asarray(np.array([1]))}, r"qid must be real numbers .* got int64 of shape \(1,\)"),
    ],
)
def test_libsvm_unsupported_labels(tmp_path: Path, members: Any, problem: str) -> None:
    with pytest.raises(UnsupportedError, match=problem):
        export(sp.Bundle({"X": _FEATURES, **members}), tmp_path / "a.svm")
    if members["y"].ndim == 1 and "qid" not in members:
        with pytest.raises(UnsupportedError, match=problem):
            export(sp.Bundle({"X": _FEATURES.reshape(2, 1, 2), **members}), tmp_path / "a.ffm")
    assert not list(tmp_path.iterdir())


def test_bool_and_integer_labels_round_trip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    y = sp.asarray(np.array([True, False]))
    export(sp.Bundle({"X": _FEATURES, "y": y, "weight": _Y}), tmp_path / "a.svm")
    assert "libsvm holds X, y and qid: weight" in capsys.readouterr().err
    assert (tmp_path / "a.svm").read_text() == "1 1:0.5\n0 2:2\n"
    export(sp.Bundle({"X": _FEATURES.reshape(2, 1, 2), "y": y}), tmp_path / "a.ffm")
    assert (tmp_path / "a.ffm").read_text() == "1 0:0:0.5\n0 0:1:2\n"
    export(sp.Bundle({"X": _FEATURES, "y": _make_labelled([7, -3])}), tmp_path / "b.svm")
    assert (tmp_path / "b.svm").read_text() == "7 1:0.5\n-3 2:2\n"


@pytest.mark.parametrize("index_base", [0, 1])
def test_libsvm_is_read_back(tmp_path: Path, index_base: Literal[0, 1], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.svm").write_text(LINES)
    data = sp.ingest.libsvm(tmp_path / "data.svm", tmp_path / "data.sparrow", index_base=1)
    to_batches = sp.Tensor.to_batches

    def small(self: sp.Tensor) -> Any:
        for batch in to_batches(self):
            yield from pa.Table.from_batches([batch]).to_batches(max_chunksize=2)

    monkeypatch.setattr(sp.Tensor, "to_batches", small)  # so that rows go on in the next batch
    assert export(data, tmp_path / "out.svm.gz", index_base=index_base) == 5
    back = sp.ingest.libsvm(tmp_path / "out.svm.gz", tmp_path / "back.sparrow", index_base=index_base)
    assert np.array_equal(back["X"].to_numpy(), data["X"].to_numpy())
    assert np.array_equal(back["y"].to_numpy(), data["y"].to_numpy())
    assert export(data, tmp_path / "out.svm", index_base=index_base) == 5
    X, y = load_svmlight_file(str(tmp_path / "out.svm"), zero_based=index_base == 0, n_features=4)
    assert np.array_equal(X.toarray(), data["X"].to_numpy())
    assert np.array_equal(y, data["y"].to_numpy())
    if index_base == 1:
        assert (tmp_path / "out.svm").read_text() == "1 1:0.5 4:2\n-1\n2.5 2:1 3:-7\n1\n1 4:1e-300\n"


@pytest.mark.parametrize("text", ["1 qid:3 1:2\n2 qid:3 2:1\n1 qid:7 1:1\n", "1,2 1:2\n2:1\n2\n1:0\n1 3:1\n"])
def test_libsvm_qid_and_multilabel_round_trip(tmp_path: Path, text: str) -> None:
    (tmp_path / "data.svm").write_text(text)
    data = sp.ingest.libsvm(tmp_path / "data.svm", tmp_path / "data.sparrow")
    export(data, tmp_path / "out.svm")
    back = sp.ingest.libsvm(tmp_path / "out.svm", tmp_path / "back.sparrow")
    assert set(back) == set(data)
    for name in data:
        assert np.array_equal(back[name].to_numpy(), data[name].to_numpy())
    if "qid" not in data:
        assert back["y"].labels(1).to_pylist() == data["y"].labels(1).to_pylist()


def test_export_errors(tmp_path: Path, web: sp.Tensor) -> None:
    (tmp_path / "there.csv").write_text("mine")
    with pytest.raises(ExistsError, match="overwrite=True"):
        export(web, tmp_path / "there.csv")
    for name, problem in (
        ("w.xlsx", "is unknown: pass format="),
        ("w", "is unknown: pass format="),
        ("w.parquet.gz", "already compressed.*omit .gz"),
    ):
        with pytest.raises(InvalidValueError, match=problem):
            export(web, tmp_path / name)
    with pytest.raises(InvalidValueError, match="format must be one of 'parquet'"):
        export(web, tmp_path / "w", format="xlsx")
    with pytest.raises(InvalidValueError, match="index_base"):
        export(web, tmp_path / "w.svm", index_base=2)
    with pytest.raises(UnsupportedError, match="matrix X and labels y"):
        export(web, tmp_path / "w.svm")
    with pytest.raises(UnsupportedError, match="source must be a tensor or a bundle, got ndarray"):
        export(np.eye(2), tmp_path / "w.csv")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="standard output"):
        export(web, "-", format="npz")
    for name in ("w.csv", "w.npz"):
        with pytest.raises(FileNotFoundError, match=f"no folder .*absent' to write '{name}'"):
            export(web, tmp_path / "absent" / name)
    assert os.listdir(tmp_path) == ["there.csv"]
    (tmp_path / "there.csv").chmod(0o600)
    export(web, tmp_path / "there.csv", overwrite=True)
    assert (tmp_path / "there.csv").stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert (tmp_path / "there.csv").read_text().startswith("src")


def test_failed_export_keeps_file(tmp_path: Path, web: sp.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.csv").write_text("old")

    def broken(self: sp.Tensor) -> Any:
        yield web.to_arrow().to_batches()[0]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sp.Tensor, "to_batches", broken)
    for name in ("w.csv", "w.csv.gz", "w.parquet", "w.arrow"):
        with pytest.raises(OSError, match="no space"):
            export(web, tmp_path / name, overwrite=True)
    assert os.listdir(tmp_path) == ["w.csv"]
    assert (tmp_path / "w.csv").read_text() == "old"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def cli(capsys: pytest.CaptureFixture[str], *args: Any) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_the_command(
    tmp_path: Path, web: sp.Tensor, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = tmp_path / "web.sparrow"
    web.save(stored)
    code, out, err = cli(capsys, "export", stored, tmp_path / "w.csv", "--index", "1:")
    assert (code, out) == (0, "")
    assert "2 rows to" in err
    assert (tmp_path / "w.csv").read_text() == "src,dst,value\n1,0,6\n1,3,-7e+300\n"
    code, out, err = cli(capsys, "export", stored, tmp_path / "w.parquet", "--json")
    found = json.loads(out)
    assert (code, found["rows"], found["path"]) == (0, 3, str(tmp_path / "w.parquet"))
    code, out, err = cli(capsys, "export", stored, tmp_path / "w.csv")
    assert (code, out) == (1, "")
    assert err.startswith("sparrow: error:")
    assert cli(capsys, "export", stored, tmp_path / "w.csv", "--overwrite")[0] == 0
    assert cli(capsys, "export", stored, tmp_path / "cell.csv", "--index", "0, 1")[0] == 2
    assert cli(capsys, "export", stored)[0] == 2


def test_standard_output(tmp_path: Path, web: sp.Tensor, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert export(web, "-", format="tsv") == 3
    assert capfdbinary.readouterr().out.splitlines()[:2] == [b"src\tdst\tvalue", b"0\t1\t0.1"]
    stored = tmp_path / "web.sparrow"
    web.save(stored)
    with pytest.raises(SystemExit):
        main(["export", str(stored), "-", "--format", "csv", "--json"])
    assert capfdbinary.readouterr().out.splitlines()[0] == b"src,dst,value"


@pytest.mark.parametrize(("name", "held"), [("r.csv", True), ("r.h5ad", True), ("r.npz", False), ("r.mtx", False)])
def test_cli_reports_unwritten_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, held: bool
) -> None:
    labelled = sp.from_coords([[0, 1], [0, 1]], [1.0, 2.0], dims=("user", "film"), labels={"user": ["ada", "bob"]})
    labelled.save(tmp_path / "r.sparrow")
    code, _, err = cli(capsys, "export", tmp_path / "r.sparrow", tmp_path / name)
    assert code == 0
    assert ("labels of user are not exported" in err) is not held


def test_cli_reports_unwritten_labels_of_bundles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.svm").write_text("2,7 1:1\n2 2:1\n")
    sp.ingest.libsvm(tmp_path / "m.svm", tmp_path / "m.sparrow")
    code, _, err = cli(capsys, "export", tmp_path / "m.sparrow", tmp_path / "m2.svm")
    assert (code, "are not exported" in err) == (0, False)
    bundle = sp.open(tmp_path / "m.sparrow")
    X = sp.from_coords([[0, 1], [0, 1]], [1.0, 2.0], dims=("row", "col"), labels={"col": ["word", "other"]})
    sp.Bundle({"X": X, "y": bundle["y"]}).save(tmp_path / "words.sparrow")
    code, _, err = cli(capsys, "export", tmp_path / "words.sparrow", tmp_path / "w.svm")
    assert (code, "labels of col are not exported" in err) == (0, True)
