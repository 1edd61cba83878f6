"""Tensors in memory and stored, against NumPy."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import (
    DuplicateError,
    InvalidValueError,
    LabelError,
    NotFoundError,
    ReadOnlyError,
    ShapeError,
    TooLargeError,
    UnsupportedError,
)
from tests.core.indexing.test_view import assume_valid, keys

Maker = Callable[..., sp.Tensor]


@pytest.fixture(params=["memory", "stored"], scope="module")
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Maker:
    def maker(dense: Any, **save: Any) -> sp.Tensor:
        A = sp.asarray(np.asarray(dense))
        if request.param == "memory":
            return A
        return A.save(tmp_path_factory.mktemp("tensor") / "A.sparrow", **save)

    return maker


def some_dense(shape: tuple[int, ...], seed: int, dtype: Any = float) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return (rng.integers(-3, 4, shape) * (rng.random(shape) < 0.5)).astype(dtype)


SEEDS = st.integers(0, 2**16)
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(st.data(), SHAPES, st.integers(1, 3), SEEDS)
def test_nested_views(make: Maker, data: st.DataObject, shape: tuple[int, ...], depth: int, seed: int) -> None:
    dense = some_dense(shape, seed)
    A: Any = make(dense)
    for _ in range(depth):
        if not isinstance(A, sp.Tensor) or dense.ndim > 6:
            break
        key = assume_valid(dense, data.draw(keys(dense.shape), label="key"))
        A, dense = A[key], dense[key]
    if not isinstance(A, sp.Tensor):
        assert dense == A
        return
    assert A.shape == np.shape(dense)
    assert np.array_equal(A.to_numpy(), dense)
    assert A.nnz == np.count_nonzero(dense)
    assert np.array_equal(A.T.compute().to_numpy(), np.asarray(dense).T)
    if A.ndim:
        coords = np.array([A.to_arrow()[name].to_numpy() for name in A.dims])
        assert np.array_equal(coords, np.argwhere(dense).T)


@given(st.data(), SHAPES, SEEDS)
def test_engines_agree(make: Maker, data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    dense = some_dense(shape, seed)
    key = assume_valid(dense, data.draw(keys(shape)))
    A = make(dense)[key]
    if isinstance(A, sp.Tensor):
        for engine in ("stream", "duckdb"):
            assert np.array_equal(A.compute(engine).to_numpy(), dense[key])


def test_single_element_is_scalar(make: Maker) -> None:
    A = make([[0, 2], [3, 0]])
    assert A[0, 1] == 2
    assert isinstance(A[0, 1], np.int64)
    assert isinstance(A[0][1], np.int64)
    assert A[1, 1] == 0
    assert A[0, 1, ...].shape == ()


def test_orthogonal_and_pointwise(make: Maker) -> None:
    dense = np.arange(24).reshape(2, 3, 4)
    A = make(dense)
    assert np.array_equal(A.oindex[:, [2, 0], [1]].to_numpy(), dense[:, [2, 0]][:, :, [1]])
    assert np.array_equal(A.vindex[:, [2, 0], [1, 3]].to_numpy(), dense[:, [2, 0], [1, 3]].T)
    assert np.array_equal(A[[0, 1, 1], :, [3, 2, 2]].to_numpy(), dense[[0, 1, 1], :, [3, 2, 2]])


def test_sparse_masks(make: Maker) -> None:
    dense = some_dense((4, 5), 3)
    mask = sp.asarray(dense > 1)
    assert np.array_equal(make(dense)[mask].to_numpy(), dense[dense > 1])
    rows = sp.asarray(np.array([True, False, False, True]))
    assert np.array_equal(make(dense)[rows, 1:].to_numpy(), dense[[0, 3], 1:])


def test_views_live_copies_not(make: Maker) -> None:
    A = make([[0, 2, 3], [4, 0, 5], [2, 8, 0]])
    view, sibling, copy = A[1:, 1:], A.T[2], A[[1, 2]]
    view[0, 0] = 9
    assert A[1, 1] == 9
    assert (A.nnz, view.nnz) == (7, 3)
    view[0, 1] = 0
    assert A[1, 2] == 0
    assert sibling.to_numpy().tolist() == [3, 0, 0]
    assert (A.nnz, view.nnz, sibling.nnz) == (6, 2, 1)
    assert copy.to_numpy().tolist() == [[4, 0, 5], [2, 8, 0]]
    with pytest.raises(ReadOnlyError, match="lists or masks"):
        copy[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        copy[0][0] = 1


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), SEEDS)
def test_writes_equal_numpy(make: Maker, data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    dense = some_dense(shape, seed)
    A = make(dense)
    view, expected = A, dense
    if data.draw(st.booleans()):
        first = assume_valid(dense, data.draw(keys(shape, lists=False), label="view"))
        if isinstance(A[first], sp.Tensor) and isinstance(dense[first], np.ndarray):
            view, expected = A[first], dense[first]
    key = assume_valid(expected, data.draw(keys(expected.shape), label="key"))
    target = np.shape(expected[key])
    kind = data.draw(st.sampled_from(["zero", "scalar", "array", "row", "sparse"]))
    values: Any = {"zero": 0, "scalar": 7}.get(kind)
    if values is None:
        values = some_dense(target if kind != "row" else target[-1:], seed + 1)
    expected[key] = values
    view[key] = sp.asarray(values) if kind == "sparse" and np.ndim(values) else values
    assert np.array_equal(A.to_numpy(), dense)
    assert A.nnz == np.count_nonzero(dense)


def test_nnz_exact(make: Maker) -> None:
    A = make([1, 0, 2])
    A[1] = 0
    assert A.nnz == 2
    A[0] = 0
    assert A.nnz == 1
    A[1] = 3
    assert A.nnz == 2
    A[1] = 4
    assert A.nnz == 2
    assert A.to_numpy().tolist() == [0, 4, 2]


def test_fill_slice_of_huge_tensor() -> None:
    A = sp.zeros((100_000, 100_000, 100))
    A[0, 0, :] = 1.0
    assert A.nnz == 100
    A[:, :, ::2] = 0
    assert A.nnz == 50
    with sp.config(memory_limit="100MB"), pytest.raises(TooLargeError, match="memory limit"):
        A[0] = 1.0


def test_put_writes_in_order(make: Maker) -> None:
    A = make(np.zeros((3, 3)))
    A.put([[0, 2, 0], [1, 2, 1]], [5.0, 6.0, 7.0])
    assert A.to_numpy().tolist() == [[0, 7, 0], [0, 0, 0], [0, 0, 6]]
    A.put([[0, -1], [1, -1]], 0)
    assert A.nnz == 0
    with pytest.raises(ShapeError, match=r"= \(2, n\), got \(1, 1\)"):
        A.put([[0]], 1)
    with pytest.raises(IndexError, match="index 3"):
        A.put([[3], [0]], 1)


def test_append(make: Maker) -> None:
    A = make([[1, 0], [0, 2]])
    with pytest.raises(DuplicateError, match=r"\(1, 1\)"):
        A.append([[0, 0], [0, 5]])
    A.append(np.array([[0, 3], [0, 5]]), duplicates="sum")
    assert A.to_numpy().tolist() == [[1, 3], [0, 7]]
    A.append(sp.from_coords([[0], [0]], [9], shape=(2, 2)), duplicates="first")
    assert A[0, 0] == 1
    with pytest.raises(ShapeError, match=r"must be \(2, 2\), got \(3,\)"):
        A.append([1, 2, 3])


def test_failed_writes_change_nothing(make: Maker) -> None:
    A = make([[1.0, 0], [0, 2]])
    for values, error in [([1, 2, 3], ShapeError), (object(), UnsupportedError), ([[1], [2], [3]], ValueError)]:
        with pytest.raises(error):
            A[:, :] = values
    assert A.to_numpy().tolist() == [[1, 0], [0, 2]]


@given(st.data(), SEEDS)
def test_matmul(make: Maker, data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    dense = some_dense(shape, seed)
    A = make(dense)
    key = data.draw(st.sampled_from([(), (slice(None, None, -1),), (slice(None), slice(1, None, 2)), ([],), ([0, 0],)]))
    key = assume_valid(dense, key)
    B, expected = A[key], dense[key]
    x, X = rng.standard_normal(expected.shape[1]), rng.standard_normal((expected.shape[1], 3))
    y = rng.standard_normal(expected.shape[0])
    for engine in ("stream", "duckdb"):
        np.testing.assert_allclose(sp.matmul(B, x, engine=engine), expected @ x, atol=1e-12)
        np.testing.assert_allclose(sp.matmul(B.T, y, engine=engine), expected.T @ y, atol=1e-12)
        np.testing.assert_allclose(sp.matmul(B, X, engine=engine), expected @ X, atol=1e-12)
        np.testing.assert_allclose(sp.matmul(y, B, engine=engine), y @ expected, atol=1e-12)
    np.testing.assert_allclose(B @ x, expected @ x, atol=1e-12)
    np.testing.assert_allclose(y @ B, y @ expected, atol=1e-12)
    np.testing.assert_allclose(X.T @ B.T, X.T @ expected.T, atol=1e-12)


def test_matmul_shape_errors(make: Maker) -> None:
    A = make(np.eye(3)[:, :2])
    with pytest.raises(ShapeError, match=r"(?s)2.*3"):
        A @ np.ones(3)
    with pytest.raises(ShapeError, match=r"size 2\) of the left operand is not .* size 3\) of the right"):
        A @ A
    with pytest.raises(InvalidValueError, match="'stream'"):
        sp.matmul(A, np.ones(2), engine="gpu")
    with pytest.raises(TypeError):
        A @ "a"


def test_names_and_labels(tmp_path: Path) -> None:
    lines = "b\ta\t2\nc\tb\t3\na\tc\t1\n"
    (tmp_path / "g.txt").write_text(lines)
    A = sp.ingest.edges(tmp_path / "g.txt", tmp_path / "g.sparrow")
    assert A.labels("src").to_pylist() == ["a", "b", "c"]
    assert A.sel(src="c", dst="b") == 3
    assert A.sel(src="c").to_numpy().tolist() == [0, 3, 0]
    assert A.sel(dst=["a", "c"]).to_numpy().tolist() == [[0, 1], [2, 0], [0, 0]]
    for several in A.labels("dst"), pl.Series(["a", "b", "c"]), {"c", "a", "b"}, ("a", "b", "c"):
        assert A.sel(dst=several).to_numpy().tolist() == A.to_numpy().tolist()
    assert A.sel(dst=np.array("a")).to_numpy().tolist() == A.sel(dst="a").to_numpy().tolist()
    assert A[::-1].sel(src="a").to_numpy().tolist() == A.sel(src="a").to_numpy().tolist()
    assert A[[2, 0]].sel(src="a", dst="c") == 1
    assert A.compute().labels(0).to_pylist() == ["a", "b", "c"]
    assert A[1:].save(tmp_path / "tail.sparrow").sel(src="c", dst="b") == 3
    with pytest.raises(LabelError, match="'src', 'dst'"):
        A.sel(source="a")
    with pytest.raises(KeyError, match="no label 'z'"):
        A.sel(src="z")
    with pytest.raises(LabelError, match="no label 'a'"):
        A[1:].sel(src="a")


def test_pickles(make: Maker) -> None:
    A = make(some_dense((4, 5), 1))
    for B in (A, A[1:, ::-2], A[[3, 0]]):
        C = pickle.loads(pickle.dumps(B))
        assert C.dims == B.dims
        assert np.array_equal(C.to_numpy(), B.to_numpy())


def test_densify_beyond_limit_raises(make: Maker) -> None:
    A = sp.from_coords([[10**6 - 1], [10**6 - 1]], [1.0])
    with pytest.raises(TooLargeError, match=r"8\.0+ TB.*sp.config"):
        A.to_numpy()
    with pytest.raises(MemoryError):
        np.asarray(A)


def test_array_protocols(make: Maker) -> None:
    A = make(np.arange(6.0).reshape(2, 3))
    assert len(A) == 2
    assert [row.nnz for row in A] == [2, 3]
    assert A.density == 5 / 6
    assert math.isnan(A[:0].density)
    assert A.transpose(1, 0).shape == A.transpose((1, 0)).shape == A.transpose([-1, 0]).shape == A.T.shape == (3, 2)
    assert bool(A[1:, 2:])
    with pytest.raises(ValueError, match="ambiguous"):
        bool(A)
    with pytest.raises(TypeError, match=r"len\(\) of a tensor without dimensions"):
        len(A[0, 0, ...])
    with pytest.raises(ShapeError):
        A.transpose(0, 0)


def test_stored_only(tmp_path: Path) -> None:
    A = sp.asarray(np.eye(3))
    for call in (A.history, A.verify, A.files, A.vacuum):
        with pytest.raises(UnsupportedError, match=r"save\(path\)"):
            call()
    stored = A.save(tmp_path / "A.sparrow", orders=[(1, 0)])
    stored[0, 0] = 5
    assert [entry["version"] for entry in stored.history()] == [1, 0]
    assert sp.open(tmp_path / "A.sparrow", version=0).to_numpy().tolist() == np.eye(3).tolist()
    with pytest.raises(ReadOnlyError):
        sp.open(tmp_path / "A.sparrow", version=0)[0, 0] = 1
    assert stored.verify() == []
    assert sum(record.rows for record in stored.files()) == 3


def test_indexing_reads_nothing(tmp_path: Path) -> None:
    A = sp.asarray(some_dense((6, 6), 1)).save(tmp_path / "A.sparrow")
    for record in A.files():
        (tmp_path / "A.sparrow" / record.path).unlink()
    A = sp.open(tmp_path / "A.sparrow")
    view = A.T[1:4, ::-1][None, [2, 0]].oindex[:, :, [1, 1]]
    assert view.shape == (1, 2, 2)
    assert "nnz=?" in repr(view)
    assert "nnz=?" in repr(A[1:])
    assert A.nnz == A.nnz
    with pytest.raises(FileNotFoundError):
        view.to_numpy()
    assert "(d0: 6, d1: 6)" in A._repr_html_()


def test_out_of_range_python_numbers_raise(make: Maker) -> None:
    A = make(np.array([1, 2], np.uint8))
    for value in (300, -1, math.nan, 2**70, [1, 300]):
        with pytest.raises(InvalidValueError, match="uint8"):
            A[:] = value
    A[:] = np.array([300, 1])  # arrays wrap, as in NumPy
    assert A.to_numpy().tolist() == [44, 1]
    B = make(np.array([1.0, 2.0]))
    calls: list[Callable[[], object]] = [
        lambda: B.__setitem__(0, 1j),
        lambda: B.append([0, 1j], duplicates="sum"),
        lambda: B.put([[0]], [1j]),
    ]
    for call in calls:
        with pytest.raises(UnsupportedError, match="complex128"):
            call()
    assert B.to_numpy().tolist() == [1, 2]
    B[0] = 2**70
    assert B[0] == 2.0**70


def test_put_without_dimensions(make: Maker) -> None:
    A = make(np.array(1.0))
    A.put(np.zeros((0, 2), int), [2.0, 3.0])
    assert A[()] == 3


def test_sparse_mask_consumes_its_dimensions(make: Maker) -> None:
    dense = some_dense((3, 4, 5), 2)
    A = make(dense)
    for mask in (dense > 0, dense[:, :, 0] == 0, dense[0] > 0):
        key = (slice(None), mask) if mask.shape == (4, 5) else (mask,)
        sparse = tuple(sp.asarray(part) if isinstance(part, np.ndarray) else part for part in key)
        assert np.array_equal(A[sparse].to_numpy(), dense[key])
        assert np.array_equal(A.oindex[sparse].to_numpy(), dense[key])
    for shape in [(2, 4, 5), (9, 9), (3, 4, 6)]:
        with pytest.raises(IndexError, match="mask"):
            A[sp.zeros(shape, bool)]


def test_labels_of_unknown_dimension(make: Maker) -> None:
    A = make(np.eye(2))
    with pytest.raises(LabelError, match="'d0', 'd1'"):
        A.labels("d2")
    with pytest.raises(IndexError, match="2 dimensions"):
        A.labels(2)


def test_pinned_view_pickles_path_and_version(tmp_path: Path) -> None:
    A = sp.asarray(np.arange(1000.0)).save(tmp_path / "A.sparrow")
    B = A[np.arange(1000) % 2 == 0]
    text = pickle.dumps(B)
    A[0] = 5
    C = pickle.loads(text)
    assert C.version == 0
    assert np.array_equal(C.to_numpy(), np.arange(0.0, 1000, 2))


def test_worker_raises_open_error_on_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    A = sp.eye(3).save(tmp_path / "t")
    sent = [pickle.dumps(each) for each in (A, A[[2, 0]], A.T)]
    shutil.rmtree(tmp_path / "t")
    for text in sent:
        with pytest.raises(NotFoundError):
            pickle.loads(text)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "another")
    for text in sent:  # an OSError here would end a worker of a pool silently
        there = pickle.loads(text)
        for use in (lambda t: t.nnz, lambda t: t @ [1, 2, 3], lambda t: t.shape, lambda t: t + 1, pickle.dumps, repr):
            with pytest.raises(NotFoundError, match=str(tmp_path)):
                use(there)
