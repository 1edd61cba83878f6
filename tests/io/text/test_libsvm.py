"""libsvm text to bundles, against scikit-learn and a plain parser."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sps
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from sparrow import storage
from sparrow.core.indexing import Box
from sparrow.errors import ExistsError, IngestError, InvalidValueError, NotFoundError, StorageError
from sparrow.io.text import libsvm as reader
from sparrow.relations.protocol import scan
from sparrow.runtime import settings
from sparrow.testing import on, tune


@dataclass
class Member:
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    coords: list[NDArray[Any]]
    values: NDArray[Any]
    labels: list[str] | None
    extra: dict[str, Any]

    def dense(self) -> NDArray[Any]:
        out = np.zeros(self.shape, self.values.dtype)
        out[tuple(self.coords)] = self.values
        return out

    def csr(self) -> sps.csr_array:
        return sps.csr_array((self.values, tuple(self.coords)), shape=self.shape)


def libsvm(*args: Any, **options: Any) -> str:
    return reader.Libsvm(*args, **options).read()


def load(path: str | os.PathLike[str]) -> dict[str, Member]:
    """Return the verified members of a bundle."""
    out = {}
    for name, member in storage.open_bundle(path).items():
        handle = storage.open(member)
        assert handle.verify() == []
        snapshot = handle.current
        schema = snapshot.schema
        found = list(scan(snapshot, Box.from_shape(schema.shape)))
        coords = [np.concatenate([b.coords[k] for b in found] or [np.zeros(0, int)]) for k in range(schema.ndim)]
        values = np.concatenate([b.values for b in found] or [np.zeros(0, schema.dtype)])
        assert (values != 0).all()
        labels = snapshot.labels(schema.ndim - 1)
        out[name] = Member(
            schema.shape, schema.dims, coords, values, None if labels is None else labels.to_pylist(), snapshot.extra
        )
    return out


def ingest(folder: Path, *texts: str | bytes, **options: Any) -> dict[str, Member]:
    paths = []
    for k, text in enumerate(texts):
        path = folder / f"in{k}.svm"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(path)
    dst = folder / "out"
    assert libsvm(paths, dst, overwrite=True, **options) == str(dst)
    return load(dst)


POOLS = ("sparrow-worker", "sparrow-fetch")
"""Threads that stay: of computing, and of stores, where another test read some."""


def threads_now() -> set[threading.Thread]:
    """Return the number of sparrow's threads outside its pools."""
    found = (thread for thread in threading.enumerate() if thread.name.startswith("sparrow"))
    return {thread for thread in found if not thread.name.startswith(POOLS)}


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".svm"))


# -- real files


@pytest.mark.parametrize(
    ("name", "shape", "nnz"),
    [
        ("a9a/a9a.gz", (32561, 123), 451592),
        ("a9a/a9a.t.gz", (16281, 122), 225731),
        ("agaricus/agaricus.txt.train", (6513, 126), 143286),
        ("agaricus/agaricus.txt.test", (1611, 126), 35442),
        ("heart_scale/heart_scale", (270, 13), 3378),
        ("lambdarank/rank.test", (768, 300), 74663),
        ("lambdarank/rank.train.gz", (3005, 300), 284736),
        ("spark-libsvm/sample_isotonic_regression_libsvm_data.txt", (100, 1), 100),
        ("spark-libsvm/sample_lda_libsvm_data.txt", (12, 11), 132 - 41),
        ("spark-libsvm/sample_libsvm_data.txt", (100, 692), 13510),
        ("spark-libsvm/sample_linear_regression_data.txt", (501, 10), 5010),
        ("spark-libsvm/sample_multiclass_classification_data.txt", (150, 4), 587),
        ("svmlight-cases/svmlight_classification.txt", (6, 21), 7),
    ],
)
def test_real_files(shared_data: Path, tmp_path: Path, name: str, shape: tuple[int, int], nnz: int) -> None:
    libsvm(shared_data / name, tmp_path / "out")
    bundle = load(tmp_path / "out")
    assert list(bundle) == ["X", "y"]
    X, y = bundle["X"], bundle["y"]
    assert (X.shape, X.dims, len(X.values), X.extra) == (shape, ("row", "col"), nnz, {"index_base": 1})
    wanted, labels = load_svmlight_file(str(shared_data / name), zero_based=False, n_features=shape[1])
    wanted.eliminate_zeros()
    wanted.sort_indices()
    found = X.csr()
    assert np.array_equal(found.indptr, wanted.indptr)
    assert np.array_equal(found.indices, wanted.indices)
    assert np.array_equal(found.data.view(np.int64), wanted.data.view(np.int64))
    assert (y.shape, y.dims) == ((shape[0],), ("row",))
    assert np.array_equal(y.dense(), labels)


def test_ranking_with_repeated_indices(shared_data: Path, tmp_path: Path) -> None:
    paths = [shared_data / "qid-ranking" / name for name in ("train.txt", "test.txt")]
    with pytest.raises(IngestError, match="repeated in its row") as caught:
        libsvm(paths, tmp_path / "out")
    assert caught.value.line == 1
    assert caught.value.token == "17:0.369905"
    assert not left_over(tmp_path)
    libsvm(paths, tmp_path / "out", duplicates="sum")
    bundle = load(tmp_path / "out")
    plain = parse_plainly([path.read_text() for path in paths], duplicates="sum")
    rows = [[row.get(col + 1, 0.0) for col in range(136)] for row in plain.rows]
    np.testing.assert_allclose(bundle["X"].dense(), rows, rtol=1e-12)
    assert bundle["X"].shape == (119 + 36, 136)
    assert bundle["y"].dense().tolist() == [float(labels[0]) for labels in plain.labels]
    assert bundle["qid"].dense().tolist() == plain.qids
    assert len(np.unique(bundle["qid"].values)) == 27
    assert bundle["qid"].values.dtype == np.int64


def test_several_labels(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "yeast-multilabel" / "yeast_test.txt.gz"
    libsvm(path, tmp_path / "out")
    bundle = load(tmp_path / "out")
    parse_plainly([gzip.decompress(path.read_bytes()).decode()]).check(bundle)
    y = bundle["y"]
    assert (bundle["X"].shape, len(bundle["X"].values)) == ((917, 103), 94450)
    assert (y.shape, y.dims, y.values.dtype.name) == ((917, 14), ("row", "label"), "bool")
    assert y.labels == sorted(map(str, range(14)))
    assert len({row.tobytes() for row in y.dense()}) == 140


def test_unlabelled_row_among_multilabel(shared_data: Path, tmp_path: Path) -> None:
    libsvm(shared_data / "svmlight-cases" / "svmlight_multilabel.txt", tmp_path / "out")
    bundle = load(tmp_path / "out")
    assert bundle["y"].labels == ["0", "1", "2"]
    assert bundle["y"].dense().astype(int).tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0], [0, 1, 1]]
    assert bundle["X"].dense()[2, [1, 10]].tolist() == [3.5, 26]


def test_unsorted_indices(shared_data: Path, tmp_path: Path) -> None:
    libsvm(shared_data / "svmlight-cases" / "svmlight_invalid_order.txt", tmp_path / "out")
    X = load(tmp_path / "out")["X"]
    assert (X.coords[1].tolist(), X.values.tolist()) == ([1, 4, 14], [-5.2, 2.5, 1.5])


def test_a_bad_file(shared_data: Path, tmp_path: Path) -> None:
    path = str(shared_data / "svmlight-cases" / "svmlight_invalid.txt")
    with pytest.raises(IngestError, match="a label must be a number") as caught:
        libsvm(path, tmp_path / "out")
    assert (caught.value.file, caught.value.line, caught.value.token) == (path, 1, "python")
    assert not left_over(tmp_path)


# -- any file


@dataclass
class Plain:
    """Result of the plain parser."""

    rows: list[dict[int, float]] = field(default_factory=list)
    labels: list[list[str]] = field(default_factory=list)
    qids: list[int] = field(default_factory=list)
    qid: bool = False
    indices: set[int] = field(default_factory=set)
    most: int = 0
    """Largest number of repetitions of an index in a row."""

    def check(self, bundle: dict[str, Member], base: int | None = None, width: int | None = None) -> None:
        base = (0 if 0 in self.indices else 1) if base is None else base
        width = max(self.indices, default=base - 1) + 1 - base if width is None else width
        X = bundle["X"]
        assert (X.shape, X.extra) == ((len(self.rows), width), {"index_base": base})
        entries = [
            (row, index - base, value)
            for row, found in enumerate(self.rows)
            for index, value in sorted(found.items())
            if value != 0
        ]
        assert list(zip(X.coords[0].tolist(), X.coords[1].tolist(), map(repr, X.values.tolist()), strict=True)) == [
            (row, col, repr(value)) for row, col, value in entries
        ]
        y = bundle["y"]
        if any(len(labels) > 1 for labels in self.labels):
            names = sorted({name for labels in self.labels for name in labels})
            assert y.labels == names
            assert y.dense().tolist() == [[name in labels for name in names] for labels in self.labels]
        else:
            np.testing.assert_array_equal(y.dense(), [float(labels[0]) for labels in self.labels])
        assert ("qid" in bundle) == self.qid
        if self.qid:
            assert bundle["qid"].dense().tolist() == self.qids


def parse_plainly(texts: Sequence[str], duplicates: str = "error") -> Plain:
    out = Plain()
    for line in (line for text in texts for line in text.replace("\r\n", "\n").split("\n")):
        tokens = line.split("#", 1)[0].split()
        if not tokens:
            continue
        out.labels.append([] if ":" in tokens[0] else tokens.pop(0).split(","))
        out.qids.append(0)
        if tokens and tokens[0].startswith("qid:"):
            out.qids[-1] = int(tokens.pop(0)[4:])
            out.qid = True
        row: dict[int, float] = {}
        named = [int(token.split(":")[0]) for token in tokens]
        out.most = max([out.most, *map(named.count, named)])
        for token in tokens:
            index, value = int(token.split(":")[0]), float(token.split(":")[1])
            out.indices.add(index)
            if index in row:
                old = row[index]
                value = {"sum": old + value, "last": value, "first": old, "min": min(old, value),
                         "max": max(old, value)}[duplicates]  # fmt: skip
            row[index] = value
        out.rows.append(row)
    return out


blank = st.sampled_from([" ", "  ", "\t", " \t "])
number = st.one_of(
    st.integers(-20, 20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-1000, 1000, places=3).map(str),
    st.sampled_from(
        ["0", "0.0", "-0", "+1", "1e3", ".5", "5.", "1E-3", "inf", "-Infinity", "0.12345678901234567890123"]
    ),
)


@st.composite
def lines(draw: st.DrawFn, least: int, several: bool, qid: bool) -> str:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.sampled_from(["", "  ", "\t", "# a comment 1:2", " # 3 4:5"]))
    out = draw(st.sampled_from(["", "", " "]))
    labels = draw(
        st.lists(st.sampled_from(["1", "+1", "-1", "0", "2.5", "10", "3"]), min_size=1, max_size=3 if several else 1)
    )
    tokens = [",".join(labels)] if not several or draw(st.integers(0, 5)) else []
    if qid and draw(st.booleans()):
        tokens.append(f"qid:{draw(st.integers(-3, 2**63 - 1))}")
    indices = draw(st.lists(st.one_of(st.integers(least, 12), st.integers(least, 2**40)), max_size=6))
    tokens += [f"{index}:{draw(number)}" for index in indices]
    if not tokens:
        return ""
    out += draw(blank).join(tokens)
    return out + draw(st.sampled_from(["", "", " ", "\t", " # comment", "#1:1"]))


@st.composite
def files(draw: st.DrawFn) -> list[str]:
    several, qid, least = draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from([0, 1, 1]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    found = draw(st.lists(st.lists(lines(least, several, qid), max_size=12), min_size=1, max_size=3))
    return [end.join(file) + draw(st.sampled_from(["", end])) for file in found]


@pytest.mark.filterwarnings("ignore:.*there are no rows")
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    files(),
    st.sampled_from(["sum", "last", "first", "min", "max"]),
    st.sampled_from([8, 40, 1 << 20]),
    st.sampled_from([1, 3]),
)
def test_any_file(tmp_path: Path, texts: list[str], duplicates: str, block: int, threads: int) -> None:
    plain = parse_plainly(texts, duplicates)
    assume(duplicates != "sum" or plain.most <= 2)  # the order in which three are added is not promised
    running = threads_now()
    with settings.config(threads=threads, progress=False), tune("io", libsvm_block_bytes=block):
        if any(len(x) > 1 for x in plain.labels) and not plain.indices:
            with pytest.raises(IngestError, match="separated by commas"):
                ingest(tmp_path, *texts, duplicates=duplicates)
        elif any(len(x) > 1 for x in plain.labels) or all(plain.labels):
            plain.check(ingest(tmp_path, *texts, duplicates=duplicates))
        else:
            with pytest.raises(IngestError, match="must start with a label"):
                ingest(tmp_path, *texts, duplicates=duplicates)
    assert threads_now() <= running


# -- sources


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, bz2.compress, lambda b: bytes(pa.compress(b, "zstd", asbytes=True))]
)
def test_compression_and_standard_input(tmp_path: Path, compress: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = compress(b"1 1:2\n" * 100)
    assert ingest(tmp_path, data)["X"].shape == (100, 1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    libsvm("-", tmp_path / "piped")
    assert load(tmp_path / "piped")["X"].dense().tolist() == [[2.0]] * 100


def test_carriage_returns_only(tmp_path: Path) -> None:
    assert ingest(tmp_path, "1 1:2\r2 2:3\r3")["X"].dense().tolist() == [[2, 0], [0, 3], [0, 0]]


@pytest.mark.parametrize(
    ("text", "n_features", "width"), [("", None, 0), ("", 7, 7), ("\n# nothing\n", 3, 3), ("1\n2\n", None, 0)]
)
def test_without_entries(tmp_path: Path, text: str, n_features: int | None, width: int) -> None:
    with pytest.warns(UserWarning, match="there are no rows") if "1" not in text else nullcontext():
        bundle = ingest(tmp_path, text, n_features=n_features)
    rows = text.count("1") + text.count("2")
    assert bundle["X"].shape == (rows, width)
    assert bundle["y"].shape == (rows,)
    assert bundle["X"].extra == {"index_base": 1}


def test_csv_is_not_multilabel_text(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="sparrow ingest columns"):
        ingest(tmp_path, "1,2,3\n4,5,6\n")
    assert ingest(tmp_path, "1,2,3\n4,5,6\n", n_features=2)["y"].shape == (2, 6)


def test_a_glob_takes_files_in_order(tmp_path: Path) -> None:
    for k in (2, 1, 3):
        (tmp_path / f"part{k}.svm").write_text(f"{k} {k}:1\n")
    libsvm(str(tmp_path / "part*.svm"), tmp_path / "out")
    assert load(tmp_path / "out")["y"].dense().tolist() == [1, 2, 3]


# -- the base


@pytest.mark.parametrize("threads", [1, 3])
def test_late_index_0(tmp_path: Path, threads: int) -> None:
    text = "".join(f"1 {k % 90 + 1}:{k}.5 {k % 90 + 5}:1\n" for k in range(20_000))
    late = text + "2 0:7\n" + text
    with settings.config(threads=threads), tune("io", libsvm_block_bytes=4096):
        bundle = ingest(tmp_path, late)
    parse_plainly([late]).check(bundle)
    assert bundle["X"].extra == {"index_base": 0}
    assert bundle["X"].shape == (40_001, 95)


def test_largest_index_of_each_base(tmp_path: Path) -> None:
    assert ingest(tmp_path, f"1 {2**63 - 1}:1\n")["X"].coords[1].tolist() == [2**63 - 2]
    assert ingest(tmp_path, f"1 0:1 {2**63 - 2}:1\n")["X"].coords[1].tolist() == [0, 2**63 - 2]
    with pytest.raises(IngestError, match="index 0") as caught:
        ingest(tmp_path, f"1 {2**63 - 1}:1\n", "1 0:1\n")
    assert (caught.value.line, caught.value.token) == (1, f"{2**63 - 1}:1")


@tune("io", libsvm_block_bytes=8)
def test_base_shift_of_wide_columns(tmp_path: Path) -> None:
    text = f"1 {2**31}:1\n1 0:2\n"
    parse_plainly([text]).check(ingest(tmp_path, text))


@pytest.mark.parametrize(("base", "cols"), [(0, [1, 3]), (1, [0, 2]), ("auto", [0, 2]), ("0", [1, 3])])
def test_explicit_index_base(tmp_path: Path, base: Any, cols: list[int]) -> None:
    X = ingest(tmp_path, "1 1:1 3:1\n", index_base=base)["X"]
    assert X.coords[1].tolist() == cols
    assert X.extra == {"index_base": int(base) if base != "auto" else 1}


def test_summary_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ingest(tmp_path, "1 0:1 3:1\n")
    assert capsys.readouterr().err == "libsvm: 1 rows, 4 columns, 2 elements, index_base=0 (auto)\n"
    with settings.config(progress=False):
        ingest(tmp_path, "1 1:1\n")
    assert capsys.readouterr().err == ""


def test_a_fixed_width(tmp_path: Path) -> None:
    assert ingest(tmp_path, "1 1:1\n", n_features=9)["X"].shape == (1, 9)
    assert ingest(tmp_path, "1 9:1\n", n_features=9)["X"].shape == (1, 9)
    assert ingest(tmp_path, "1 0:1 8:1\n", n_features=9)["X"].shape == (1, 9)


@pytest.mark.parametrize(
    ("text", "options", "line", "token"),
    [
        ("1 1:1\n1 10:1\n", {"n_features": 9}, 2, "10:1"),
        ("1 9:1\n", {"n_features": 9, "index_base": 0}, 1, "9:1"),
        ("1 9:1\n1 0:1\n", {"n_features": 9}, 1, "9:1"),
        ("1 0:1\n1 9:1\n", {"n_features": 9}, 2, "9:1"),
    ],
)
def test_index_exceeds_n_features(tmp_path: Path, text: str, options: dict[str, Any], line: int, token: str) -> None:
    with pytest.raises(IngestError, match="exceeds n_features=9") as caught:
        ingest(tmp_path, text, **options)
    assert (caught.value.line, caught.value.token) == (line, token)


# -- values


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "complex128"])
def test_inexact_types(tmp_path: Path, dtype: str) -> None:
    X = ingest(tmp_path, "1 1:0.1 2:-3 3:nan 4:1e-60\n", dtype=dtype)["X"]
    assert X.values.dtype == dtype
    assert len(X.values) == (4 if dtype == "complex128" else 3), "1e-60 is 0 in single precision"
    np.testing.assert_array_equal(X.values[:3], np.array([0.1, -3, np.nan], dtype))


def test_integers_are_exact(tmp_path: Path) -> None:
    big = [2**53 + 1, -(2**63), 2**63 - 1, 12345678901234567]
    text = "1 " + " ".join(f"{k + 1}:{n}" for k, n in enumerate(big)) + " 7:3.0 8:0.0 9:1e17\n"
    assert ingest(tmp_path, text, dtype="int64")["X"].values.tolist() == [*big, 3, 10**17]
    assert ingest(tmp_path, "1 1:1 2:0\n", dtype="bool")["X"].values.tolist() == [True]


@pytest.mark.parametrize(
    ("dtype", "token"),
    [("int64", "4:2.5"), ("int8", "4:128"), ("uint8", "4:-1"), ("int64", f"4:{2**63}"), ("int64", "4:nan"),
     ("bool", "4:2"), ("int64", "4:inf"), ("int64", "4:9007199254740993.5"), ("float32", "4:1e39"),
     ("float16", "4:65520"), ("int32", "4:1e400")],
)  # fmt: skip
def test_values_that_do_not_fit(tmp_path: Path, dtype: str, token: str) -> None:
    with pytest.raises(IngestError, match=f"does not fit {dtype}") as caught:
        ingest(tmp_path, f"1 1:1\n\n1,2 qid:3 1:1 2:1 {token} 5:1 # 1:1\n1 4:300.5\n", dtype=dtype)
    assert (caught.value.line, caught.value.token) == (3, token)


@pytest.mark.parametrize(("rule", "value"), [("sum", 4.0), ("last", -2.0), ("first", 5.0), ("min", -2.0), ("max", 5.0)])
def test_repeated_indices(tmp_path: Path, rule: str, value: float) -> None:
    X = ingest(tmp_path, "1 3:5 1:1 3:1 3:-2\n", duplicates=rule)["X"]
    assert (X.coords[1].tolist(), X.values.tolist()) == ([0, 2], [1.0, value])


@pytest.mark.parametrize(("text", "values"), [("1 1:5 1:0\n", []), ("1 1:5 1:-5\n", []), ("1 1:0 1:3\n", [3.0])])
def test_repeated_indices_and_zeros(tmp_path: Path, text: str, values: list[float]) -> None:
    rule = "sum" if "-5" in text else "last"
    assert ingest(tmp_path, text, duplicates=rule)["X"].values.tolist() == values


# -- bad text


BAD = [
    ("python 1:2", "a label must be a number", "python"),
    ("1,,2 1:2", "a label must be", "1,,2"),
    ("1, 1:2", "a label must be", "1,"),
    ("1,x 1:2", "a label must be", "1,x"),
    ("0x1 1:2", "a label must be", "0x1"),
    ("1_0 1:2", "a label must be", "1_0"),
    ("1 2", "index:value", "2"),
    ("1 a", "index:value", "a"),
    ("1 1:2 -", "index:value", "-"),
    ("1 1.5:2", "index must be an integer", "1.5:2"),
    ("1 a:2", "index must be an integer", "a:2"),
    ("1 :2", "index must be an integer", ":2"),
    ("1 1,2:3", "index must be an integer", "1,2:3"),
    ("1 -1:2", "index is negative", "-1:2"),
    ("1 99999999999999999999:2", "beyond 2.63", "99999999999999999999:2"),
    ("1 1:", "value must be a number", "1:"),
    ("1 1:x", "value must be a number", "1:x"),
    ("1 1:1.#INF", "value must be a number", "1:1."),
    ("1 1:2:3", "value must be a number", "1:2:3"),
    ("1 1:0x10", "value must be a number", "1:0x10"),
    ("1 1:1_0", "value must be a number", "1:1_0"),
    ("1 1:2,5", "value must be a number", "1:2,5"),
    ("1 1:1e", "value must be a number", "1:1e"),
    ("1 1: 2", "value must be a number", "1:"),
    ("1 qid:x 1:2", "followed by an integer", "qid:x"),
    ("1 qid:1.5 1:2", "followed by an integer", "qid:1.5"),
    ("1 qid:99999999999999999999 1:2", "qid is beyond", "qid:99999999999999999999"),
    ("1 1:2 qid:3", "before the features", "qid:3"),
    ("1 qid:3 qid:4", "before the features", "qid:4"),
    ("1 3:1 5:1 3:2", "repeated in its row", "3:2"),
    ("1 3:1 3:2 1:x", "repeated in its row", "3:2"),
    ("1 \x01 1:2", "index:value", "\x01"),
    ("caf\xe9 1:2", "a label must be", "café"),
]


@pytest.mark.parametrize(("line", "problem", "token"), BAD, ids=[line for line, _, _ in BAD])
@pytest.mark.parametrize("before", [0, 5000])
def test_bad_lines(tmp_path: Path, line: str, problem: str, token: str, before: int) -> None:
    text = "# good\n" + "1 1:1 2:2\n" * before + line + "\n" + "worse\n" + "1 1:1\n" * 5000
    with tune("io", libsvm_block_bytes=10_000), pytest.raises(IngestError, match=problem) as caught:
        ingest(tmp_path, text)
    where = (caught.value.file, caught.value.line, caught.value.token)
    assert where == (str(tmp_path / "in0.svm"), before + 2, token)
    assert not left_over(tmp_path)


def test_index_below_base(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="below index_base=1") as caught:
        ingest(tmp_path, "1 1:1\n1 2:1 0:3\n", index_base=1)
    assert (caught.value.line, caught.value.token) == (2, "0:3")


def test_a_row_without_label(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="must start with a label") as caught:
        ingest(tmp_path, "1 1:1\n", "2 1:1\n 3:4 5:6\nqid:1 3:4\n")
    assert (caught.value.file, caught.value.line, caught.value.token) == (str(tmp_path / "in1.svm"), 2, "3:4")


def test_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="a label must be") as caught:
        ingest(tmp_path, b"1 1:1\n\xff\xfe 1:1\n")
    assert caught.value.token == "\\xff\\xfe"


def test_second_file_is_bad(tmp_path: Path) -> None:
    with pytest.raises(IngestError) as caught:
        ingest(tmp_path, "1 1:1\n" * 10, "1 1:1\n1 x\n")
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "in1.svm"), 2)


# -- atomicity


def test_arguments(tmp_path: Path) -> None:
    (tmp_path / "in.svm").write_text("1 1:1\n")
    bad: list[dict[str, Any]] = [
        {"index_base": 2},
        {"index_base": "one"},
        {"n_features": -1},
        {"n_features": 2.5},
        {"duplicates": "mean"},
        {"profile": "tiny"},
    ]
    for options in bad:
        with pytest.raises(InvalidValueError):
            libsvm(tmp_path / "in.svm", tmp_path / "out", **options)
    with pytest.raises(NotFoundError):
        libsvm(tmp_path / "missing.svm", tmp_path / "out")
    assert left_over(tmp_path) == []


def test_overwriting(tmp_path: Path) -> None:
    (tmp_path / "in.svm").write_text("1 1:1\n")
    libsvm(tmp_path / "in.svm", tmp_path / "out")
    with pytest.raises(ExistsError):
        libsvm(tmp_path / "in.svm", tmp_path / "out")
    libsvm(tmp_path / "in.svm", tmp_path / "out", overwrite=True, profile="small")
    assert left_over(tmp_path) == ["out"]


def test_failed_overwrite_keeps_bundle(tmp_path: Path) -> None:
    ingest(tmp_path, "1 1:1\n")
    with pytest.raises(IngestError):
        ingest(tmp_path, "1 x\n")
    assert load(tmp_path / "out")["X"].shape == (1, 1)


def test_sources_are_recorded(tmp_path: Path) -> None:
    ingest(tmp_path, "1 0:1\n")
    assert json.loads((tmp_path / "out" / "bundle.json").read_text())["members"] == {"X": {"index_base": 0}, "y": {}}
    assert storage.open(tmp_path / "out" / "X").history()[0]["operation"] == "ingest libsvm"


def test_a_disk_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(StorageError, match=r"needs about [\d,]+ bytes on disk, and 10 are free"):
        ingest(tmp_path, "1 1:1\n" * 1000)
    assert not left_over(tmp_path)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt, StorageError])
def test_interrupted_ingest_leaves_nothing(tmp_path: Path, threads: int, error: type[BaseException]) -> None:
    taken = []

    def interrupt(**block: Any) -> None:
        taken.append(block)
        if len(taken) == 20:
            raise error("stop")

    running = threads_now()
    small = tune("io", libsvm_block_bytes=4096)
    with (
        settings.config(threads=threads, temp_directory=tmp_path),
        small,
        on("io.libsvm_block", interrupt),
        pytest.raises(error),
    ):
        ingest(tmp_path, "1,2 qid:4 1:1 5:2\n" * 20_000)
    assert len(taken) == 20
    assert not left_over(tmp_path)
    assert threads_now() <= running


def test_comment_after_decimal_point(tmp_path: Path) -> None:
    assert ingest(tmp_path, "1 1:5.#1:1\n2. 2:3.#Note\n")["X"].dense().tolist() == [[5, 0], [0, 3]]
