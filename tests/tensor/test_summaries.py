"""Summaries of tensors against NumPy and pandas."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow import engines
from sparrow.errors import InvalidValueError, NumberRangeError, ShapeError, UnsupportedError
from sparrow.testing import observe, tune

SEEDS = st.integers(0, 2**16)
DTYPES = st.sampled_from(["bool", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64"])
SHAPES = st.sampled_from([(0,), (7,), (0, 3), (3, 0), (4, 5), (9, 6), (3, 4, 5)])
COUNTS = st.integers(0, 40)


def draw_dense(shape: tuple[int, ...], seed: int, dtype: str) -> np.ndarray[Any, Any]:
    """Return an array with many zeros and ties, and NaN among floats."""
    rng = np.random.default_rng(seed)
    values = rng.choice([0, 0, 0, 1, 2, 3, -1, -2, 120], shape)
    dense = (np.abs(values) if dtype.startswith("u") else values).astype(dtype)
    if dtype.startswith("f") and dense.size:
        dense[rng.random(shape) < 0.1] = np.nan
    return dense


def make(dense: np.ndarray[Any, Any], form: str) -> sp.Tensor:
    """Return a tensor in memory, an expression, or a view in another order."""
    A = sp.asarray(dense)
    if form == "expression":
        return sp.concat([A, A])[: len(dense)] if dense.ndim else A
    if form == "transposed":
        return sp.asarray(np.ascontiguousarray(dense.T)).T
    if form == "reversed":
        return sp.asarray(dense[::-1].copy())[::-1]
    return A


FORMS = st.sampled_from(["memory", "expression", "transposed", "reversed"])


def elements(dense: np.ndarray[Any, Any]) -> list[tuple[Any, ...]]:
    """Return coordinates and values of nonzero elements, in order."""
    at = np.argwhere(dense != 0)
    return [(*row, dense[tuple(row)]) for row in at.tolist()]


def rows(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.rows()]


def same(found: pl.DataFrame, expected: list[tuple[Any, ...]]) -> None:
    assert found.height == len(expected)
    for row, wanted in zip(rows(found), expected, strict=True):
        assert row[:-1] == tuple(wanted[:-1])
        assert row[-1] == wanted[-1] or (row[-1] != row[-1] and wanted[-1] != wanted[-1])


@given(SHAPES, SEEDS, DTYPES, COUNTS, FORMS)
@tune("relations", chunk_elements=5)
def test_head_and_tail(shape: tuple[int, ...], seed: int, dtype: str, n: int, form: str) -> None:
    dense = draw_dense(shape, seed, dtype)
    A, expected = make(dense, form), elements(dense)
    same(A.head(n), expected[:n])
    same(A.tail(n), expected[max(len(expected) - n, 0) :])


@given(SHAPES, SEEDS, DTYPES, COUNTS, FORMS, st.booleans())
@tune("relations", chunk_elements=5)
def test_topk(shape: tuple[int, ...], seed: int, dtype: str, k: int, form: str, largest: bool) -> None:
    dense = draw_dense(shape, seed, dtype)
    sign = -1 if largest else 1
    expected = sorted(elements(dense), key=lambda row: (bool(np.isnan(row[-1])), sign * float(row[-1]), row[:-1]))
    same(make(dense, form).topk(k, largest=largest), expected[:k])
    if form == "memory" and dtype != "bool":  # pandas keeps the first of equal values, too
        values = pd.Series([row[-1] for row in elements(dense)], dtype=dtype).dropna()
        if dtype != "float16":
            best = values.nlargest(k) if largest else values.nsmallest(k)
            assert sp.asarray(dense).topk(k, largest=largest)["value"].drop_nans().to_list()[:k] == best.to_list()[:k]


@given(st.sampled_from([(7,), (4, 5), (9, 6), (3, 4, 5)]), SEEDS, DTYPES, st.integers(0, 4), FORMS, st.data())
@tune("relations", chunk_elements=5)
def test_topk_of_lines(shape: tuple[int, ...], seed: int, dtype: str, k: int, form: str, data: st.DataObject) -> None:
    dense = draw_dense(shape, seed, dtype)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    largest = data.draw(st.booleans())
    expected = np.zeros_like(dense)
    lines, out = np.moveaxis(dense, axis, -1), np.moveaxis(expected, axis, -1)
    sign = -1 if largest else 1
    for line in np.ndindex(lines.shape[:-1]):
        at = np.flatnonzero(lines[line]).tolist()
        kept = sorted(at, key=lambda n: (bool(np.isnan(lines[line][n])), sign * float(lines[line][n]), n))[:k]
        out[line][kept] = lines[line][kept]
    found = make(dense, form).topk(k, axis, largest)
    assert found.dtype == dense.dtype
    np.testing.assert_array_equal(found.to_numpy(), expected)
    row = data.draw(st.integers(0, shape[0] - 1))
    np.testing.assert_array_equal(sp.asarray(found[row : row + 1]).to_numpy(), expected[row : row + 1])
    np.testing.assert_array_equal(found.compute(engine="duckdb").to_numpy(), expected)


@given(SHAPES, SEEDS, DTYPES, FORMS)
@tune("relations", chunk_elements=5)
def test_sample(shape: tuple[int, ...], seed: int, dtype: str, form: str) -> None:
    dense = draw_dense(shape, seed, dtype)
    A, expected = make(dense, form), elements(dense)
    found = rows(A.sample(3, seed=seed))
    assert len(found) == min(3, len(expected))
    assert found == rows(A.sample(3, seed=seed)) or dtype.startswith("f")
    at = [row[:-1] for row in expected]
    assert [row[:-1] for row in found] == sorted({row[:-1] for row in found})
    assert all(row[:-1] in at for row in found)
    same(A.sample(1000), expected)


def test_samples_are_uniform_and_alike_in_all_forms(tmp_path: Path) -> None:
    A = sp.random((100, 100), density=0.3, seed=0)
    stored = A.save(tmp_path / "A.sparrow")
    for n in (10, 2000):  # single chunks are read, or all
        forms = [A, A.compute(), stored]
        with tune("relations", chunk_elements=100):
            found = [rows(B.sample(n, seed=5)) for B in forms]
            assert found[0] == found[1] == found[2]
        assert len({tuple(rows(A.sample(n, seed=seed))) for seed in range(5)}) == 5
    counts = np.zeros(A.nnz)
    position = {row[:2]: at for at, row in enumerate(rows(A.head(A.nnz)))}
    for seed in range(100):
        for row in A.sample(600, seed=seed).rows():
            counts[position[row[:2]]] += 1
    expected = 100 * 600 / A.nnz
    assert ((counts - expected) ** 2 / expected).sum() < A.nnz + 6 * np.sqrt(2 * A.nnz)  # chi-squared


@given(SHAPES, SEEDS, DTYPES, FORMS, st.booleans())
@tune("relations", chunk_elements=5)
def test_value_counts(shape: tuple[int, ...], seed: int, dtype: str, form: str, everything: bool) -> None:
    dense = draw_dense(shape, seed, dtype)
    values = dense.ravel() if everything else dense[dense != 0]
    distinct, counts = np.unique(values, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    found = make(dense, form).value_counts("all" if everything else "stored")
    assert found["count"].to_list() == counts[order].tolist()
    np.testing.assert_array_equal(found["value"].to_numpy(), distinct[order])


@given(SHAPES, SEEDS, DTYPES, FORMS, st.booleans(), st.one_of(st.integers(1, 7), st.just([-1, 0, 0.5, 2, 2, 150])))
@tune("relations", chunk_elements=5)
def test_hist(shape: tuple[int, ...], seed: int, dtype: str, form: str, everything: bool, bins: Any) -> None:
    dense = draw_dense(shape, seed, dtype)
    values = dense.ravel() if everything else dense[dense != 0]
    counts, edges = np.histogram(values[np.isfinite(values)].astype(np.float64), bins)
    found = make(dense, form).hist(bins, "all" if everything else "stored")
    assert found["count"].to_list() == counts.tolist()
    np.testing.assert_array_equal(found["left"].to_numpy(), edges[:-1])
    np.testing.assert_array_equal(found["right"].to_numpy(), edges[1:])


@given(st.sampled_from([(7,), (4, 5), (3, 4, 5)]), SEEDS, st.sampled_from(["bool", "int64", "float64"]), FORMS)
def test_describe(shape: tuple[int, ...], seed: int, dtype: str, form: str) -> None:
    dense = draw_dense(shape, seed, dtype)
    found = make(dense, form).describe().rows_by_key("statistic", unique=True)
    stored = dense[dense != 0]
    assert found["count"] == (dense.size, stored.size)
    assert found["density"] == (stored.size / dense.size, None)
    for column, values in enumerate((dense, stored)):
        wide = values.astype(np.float64)
        for name in ("mean", "std", "min", "max"):
            expected = float(getattr(wide, name)()) if values.size else None
            assert found[name][column] == pytest.approx(expected, nan_ok=True)
        assert found["sum"][column] == pytest.approx(float(wide.sum()), nan_ok=True)


@given(st.integers(1, 6), st.integers(1, 9), SEEDS, COUNTS, st.booleans())
def test_broadcast_views(times: int, width: int, seed: int, n: int, turned: bool) -> None:
    dense = draw_dense((width,), seed, "int64")
    A, wide = sp.broadcast_to(sp.asarray(dense), (times, width)), np.broadcast_to(dense, (times, width))
    A, wide = (A.T, wide.T) if turned else (A, wide)
    expected = elements(wide)
    same(A.head(n), expected[:n])
    same(A.tail(n), expected[max(len(expected) - n, 0) :])
    same(A.topk(n), sorted(expected, key=lambda row: (-row[-1], row[:-1]))[:n])
    assert A.sample(n, seed=0).height == min(n, len(expected))
    assert A.value_counts()["count"].sum() == len(expected)


def test_broadcast_views_are_not_formed() -> None:
    A = sp.broadcast_to(sp.random((1000,), density=0.5, seed=0), (10**7, 1000))
    assert [row[:2] for row in A.head(2).rows()] == [(0, int(at)) for at in A[0].head(2)["d0"]]
    assert A.tail(1)["d0_1"].item() == 10**7 - 1
    assert "broadcasting repeats each element 10,000,000 times" in repr(A)
    assert repr(A[:3]).count("\n") == 9


def test_labels_and_other_fills() -> None:
    labels = {"user": ["ann", "bob", "cid"], "day": pd.date_range("2024-01-01", periods=2)}
    A = sp.from_coords([[2, 0, 1], [1, 0, 1]], [5, 3, 4], shape=(3, 2), dims=["user", "day"], labels=labels)
    assert A.head(1)["user"].to_list() == ["ann"]
    assert A.tail(1)["user"].to_list() == ["cid"]
    assert A.tail(1)["day"].to_list()[0].isoformat()[:10] == "2024-01-02"
    assert A.sel(user=["cid", "ann"]).head(1)["user"].to_list() == ["cid"]
    assert A.topk(2)["user"].to_list() == ["cid", "bob"]
    labels_left: Any = A.topk(1, axis="user").labels("user")
    assert labels_left.to_pylist() == ["ann", "bob", "cid"]
    B: Any = np.exp(sp.asarray([[0.0, 1.0, -1.0]]))
    assert B.topk(3)["d1"].to_list() == [1, 2]
    assert (B.topk(1, axis=1).fill_value, B.topk(1, axis=1).nnz) == (1.0, 1)
    assert B.value_counts("all").rows()[1] == (1.0, 1)
    assert sp.asarray(7).head().rows() == [(7,)]
    assert sp.asarray(np.array([1j, 0, 2])).head().columns == ["d0", "value", "value_im"]
    assert sp.asarray(np.array([1j, 1j])).value_counts().rows() == [(0.0, 1.0, 2)]
    assert sp.asarray(np.array([1j, 1j])).describe()["stored"].to_list()[-1] == "2j"


def test_huge_shapes() -> None:
    A: Any = sp.from_coords([[2**61, 2**62 - 1], [5, 2**62 - 1]], [1, 2], shape=(2**62, 2**62))
    assert A.T.head(1).rows() == [(5, 2**61, 1)]
    assert A.T.tail(1).rows() == [(2**62 - 1, 2**62 - 1, 2)]
    assert A.topk(1, axis=0).nnz == 2
    assert A.value_counts().height == 2
    calls: list[Any] = [lambda: A.value_counts("all"), lambda: A.hist(2, "all")]
    for call in calls:
        with pytest.raises(NumberRangeError, match="absent elements"):
            call()
    assert A.describe()["all"][0] == float(A.size)


@tune("storage", group_rows=100, file_rows=1000, row_group_slack=1000)
def test_row_groups_read(tmp_path: Path) -> None:
    stored = sp.random((500, 400), density=0.05, seed=1).save(tmp_path / "A.sparrow")
    turned = sp.random((500, 400), density=0.05, seed=1).save(tmp_path / "B.sparrow", orders=[(1, 0)])
    calls: list[tuple[Any, int]] = [
        (lambda: stored.head(5), 1),
        (lambda: stored.tail(5), 1),
        (lambda: stored.head(150), 2),
        (lambda: stored[250:].head(5), 2),
        (lambda: stored[:250].tail(5), 2),
        (lambda: (stored * 2)[100:400].head(1), 100),
        (lambda: turned.T.head(5), 1),
        (lambda: turned.T.tail(5), 1),
        (lambda: stored.sample(3, seed=0), 3),
    ]
    for call, most in calls:
        with observe("storage.read_row_group") as read:
            assert call().height > 0
        assert 0 < len(read) <= most
    with observe("storage.read_row_group") as read:
        lazy = stored.topk(2, axis=1)
        assert not read
        assert lazy.nnz == sum(min(int(n), 2) for n in (stored.to_numpy() != 0).sum(axis=1))


@pytest.mark.parametrize("rows", [5, 400])
@tune("storage", group_rows=20, file_rows=100, row_group_slack=1000)
def test_footers_of_many_files_are_read_as_needed(tmp_path: Path, rows: int) -> None:
    dense = sp.random((rows, 2000 // rows * 5), density=0.4, seed=1).to_numpy()
    stored = sp.asarray(dense).save(tmp_path / "A.sparrow")
    expected = elements(dense)
    assert len(stored.files()) > 30
    for part, wanted in ((stored, expected), (stored[1:], None), (stored[:, 3:], None), (stored[::2], None)):
        wanted = elements(part.to_numpy()) if wanted is None else wanted
        for n in (1, 30, 500, 10**5):
            same(part.head(n), wanted[:n])
            same(part.tail(n), wanted[-n:])
    for call, most in ((stored.head, 2), (stored.tail, 2), (stored.__repr__, 4), (stored._repr_html_, 20)):
        A = sp.open(shutil.copytree(tmp_path / "A.sparrow", tmp_path / f"{call.__name__}.sparrow"))
        with observe("storage.load_footer") as footers, observe("storage.read_row_group") as groups:
            getattr(A, call.__name__)()
        assert 0 < len(footers) <= most or rows == 5  # five rows lie in several files each
        assert 0 < len(groups) <= 16
    text = repr(stored).split("\n")
    assert text[3].split()[:2] == [str(at) for at in expected[0][:2]]
    assert text[-1].split()[:2] == [str(at) for at in expected[-1][:2]]
    found = engines.survey(stored.__sparrow_scan__(), 3, True, (0, 1), 20).density
    assert found is not None
    assert found.sampled
    assert found.counts.sum() == pytest.approx(len(expected))


def test_bad_arguments() -> None:
    A: Any = sp.asarray([[1, 0], [0, 2]])
    calls: list[Any] = [
        lambda: A.head(-1), lambda: A.tail(1.5), lambda: A.sample(-1), lambda: A.sample(1, seed=-1),
        lambda: A.topk(-1), lambda: A.topk(1, largest=3), lambda: A.value_counts("some"), lambda: A.hist(0),
        lambda: A.hist([2, 1]), lambda: A.hist([1]), lambda: A.hist(2, "some"), lambda: A.topk(True),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(InvalidValueError):
            call()
    with pytest.raises(ShapeError):
        A.topk(1, axis=2)
    with pytest.raises(ShapeError):
        sp.asarray(3).topk(1, axis=0)
    for refused in (lambda: (A * 1j).topk(1), lambda: (A * 1j).topk(1, axis=0), (A * 1j).hist):
        with pytest.raises(UnsupportedError, match="real dtype"):
            refused()
