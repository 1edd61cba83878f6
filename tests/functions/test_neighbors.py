"""Top-k of products and nearest neighbors, against NumPy on all pairs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
import sparrow.testing
from sparrow.engines.stream.product.combine import find_largest
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from tests.engines.stream.test_spilled import SMALL


def some(shape: tuple[int, int], seed: int, dtype: Any = np.float64) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return np.asarray((rng.random(shape) < 0.3) * rng.integers(-3, 6, shape)).astype(dtype)


def largest(product: NDArray[Any], k: int, fill: Any = 0) -> NDArray[Any]:
    """Return the k largest stored elements of each row, the first ones of equal ones."""
    out = np.full_like(product, fill)
    for row, values in enumerate(product):
        columns = sorted(np.flatnonzero(values != fill), key=lambda j: (-values[j].item(), j))[:k]
        out[row, columns] = values[columns]
    return out


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([0.5, 1.0, 2.0, -1.0, np.nan, np.inf]), max_size=30), st.integers(1, 5), st.integers(0, 9)
)
def test_find_largest(values: list[float], k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    indptr = np.sort(np.concatenate([[0], rng.integers(0, len(values) + 1, 4), [len(values)]]))
    found = []
    for way in ("numpy", "numba"):
        with sparrow.testing.strategy(way):
            found.append(find_largest(indptr, np.array(values), k).tolist())
    expected: list[int] = []
    for start, stop in itertools.pairwise(indptr.tolist()):
        ranked = sorted(range(start, stop), key=lambda at: (np.isnan(values[at]), -values[at], at))
        expected += sorted(ranked[:k])
    assert found == [expected, expected]


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64", "float32", "float64"])
def test_topk_matches_numpy(dtype: str) -> None:
    a, b = some((30, 40), 1, dtype), some((40, 25), 2, dtype)
    A, B = sp.asarray(a), sp.asarray(b)
    with np.errstate(all="ignore"):
        product = a @ b
    for k in (1, 3, 100):
        found, expected = sp.matmul(A, B, topk=k), largest(product, k)
        for way in ("numpy", "numba"):
            with sparrow.testing.strategy(way):
                np.testing.assert_array_equal(found.compute().to_numpy(), expected)
    found, expected = sp.matmul(A, B, topk=3), largest(product, 3)
    assert found.dtype == product.dtype
    assert found.nnz == np.count_nonzero(expected)
    np.testing.assert_array_equal(found[5:20].to_numpy(), expected[5:20])
    np.testing.assert_array_equal(found[7].to_numpy(), expected[7])
    np.testing.assert_array_equal(found[::-1, 3:9].to_numpy(), expected[::-1, 3:9])
    np.testing.assert_array_equal(found.T.to_numpy(), expected.T)
    np.testing.assert_array_equal((found * found).sum(axis=0).to_numpy(), (expected * expected).sum(axis=0))
    assert "top 3" in found.explain()
    for engine in ("duckdb", "stream"):
        np.testing.assert_array_equal(sp.matmul(A, B, topk=3, engine=engine).to_numpy(), expected)


def test_topk_of_masked_products_and_semirings() -> None:
    a, b, m = some((30, 40), 1), some((40, 25), 2), some((30, 25), 3)
    A, B, M = map(sp.asarray, (a, b, m))
    for complement in (False, True):
        expected = largest(np.where((m != 0) != complement, a @ b, 0), 2)
        found = sp.matmul(A, B, mask=M, complement=complement, topk=2)
        np.testing.assert_array_equal(found.to_numpy(), expected)
        assert float(found.sum()) == expected.sum()
    sums = np.where((a[:, :, None] != 0) & (b[None] != 0), a[:, :, None] + b[None], np.inf).min(axis=1)
    found = sp.matmul(A, B, semiring="min_plus", topk=2)
    np.testing.assert_array_equal(found.to_numpy(), largest(sums, 2, np.inf))
    cube = np.stack([a, 2 * a])
    found = sp.matmul(sp.asarray(cube), B, topk=2)
    np.testing.assert_array_equal(found.to_numpy(), np.stack([largest(each @ b, 2) for each in cube]))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(
        [("bool", "or_and"), ("complex128", "plus_times")]
        + [(dtype, way) for dtype in ("int8", "int64", "float32", "float64") for way in ("plus_times", "min_plus")]
    ),
    st.sampled_from([1, 2, 5, 60]),
    st.sampled_from([None, False, True]),
    st.integers(0, 2**32),
)
def test_topk_selects_from_full_products(
    operations: tuple[str, str], k: int, complement: bool | None, seed: int
) -> None:
    dtype, semiring = operations
    rng = np.random.default_rng(seed)
    a, b, m = (some(shape, seed + at, dtype) for at, shape in enumerate([(20, 30), (30, 50), (20, 50)]))
    if a.dtype.kind == "f":
        a, b = a * rng.standard_normal(a.shape).astype(dtype), b / 3
        a[rng.random(a.shape) < 0.01 * (seed % 3)] = np.nan
    A, B = sp.asarray(a), sp.asarray(b)
    masked: dict[str, Any] = {} if complement is None else {"mask": sp.asarray(m), "complement": complement}
    with sparrow.testing.strategy("numba"), np.errstate(all="ignore"):
        full = sp.matmul(A, B, semiring=semiring, **masked).to_format("coo")
        with sparrow.testing.strategy("topk_rows"), sparrow.testing.observe("product.topk") as selections:
            found = sp.matmul(A, B, semiring=semiring, topk=k, **masked).to_format("coo")
    kept = find_largest(np.searchsorted(full.coords[0], np.arange(21)), full.data, k)
    np.testing.assert_array_equal(found.coords, [column[kept] for column in full.coords])
    assert found.data.tobytes() == full.data[kept].tobytes()
    is_ordered = dtype in ("int64", "float32", "float64") or (dtype, semiring) == ("int8", "min_plus")
    assert bool(selections) == (is_ordered and complement is not False)


@pytest.mark.parametrize("way", ["row_sections", "k_panels", "external_sum", "streamed_lhs"])
def test_topk_of_spilled_operands(way: str, tmp_path: Path) -> None:
    a, b = some((60, 80), 1), some((80, 110), 2)
    A, B = sp.asarray(a).save(tmp_path / "A"), sp.asarray(b).save(tmp_path / "B")
    for kernels in ("numpy", "numba"):
        with (
            sparrow.testing.strategy(kernels), sparrow.testing.strategy(way),
            sparrow.testing.tune("product", partition_products=500, **SMALL),
            sparrow.testing.observe("product.tiling") as tilings, sparrow.testing.observe("product.topk") as selections,
        ):  # fmt: skip
            np.testing.assert_array_equal(sp.matmul(A, B, topk=4).to_numpy(), largest(a @ b, 4))
        assert bool(selections) == (kernels == "numba" and way not in ("k_panels", "external_sum"))
    assert tilings[0][1]["tiling"] == {"streamed_lhs": "whole"}.get(way, way)


@pytest.mark.parametrize("metric", ["euclidean", "jaccard"])
@pytest.mark.parametrize("way", ["row_sections", "k_panels", "external_sum", "streamed_lhs"])
def test_scores_of_spilled_operands(way: str, metric: Any, tmp_path: Path) -> None:
    a, b = some((60, 80), 1), some((110, 80), 2)
    A, B = sp.asarray(a).save(tmp_path / "A"), sp.asarray(b).save(tmp_path / "B")
    held = sp.neighbors(A.compute(), 4, metric=metric, data=B.compute()).compute()
    small = sparrow.testing.tune("product", partition_products=500, **SMALL)
    with sparrow.testing.strategy(way), small, sparrow.testing.observe("product.tiling") as tilings:
        found = sp.neighbors(A, 4, metric=metric, data=B).compute()
    np.testing.assert_allclose(found.to_numpy(), held.to_numpy())
    assert tilings[-1][1]["tiling"] == {"streamed_lhs": "whole"}.get(way, way)


def test_topk_errors() -> None:
    A = sp.asarray(some((4, 4), 1))
    for topk in (0, -1):
        with pytest.raises(InvalidValueError, match="topk must be at least 1"):
            sp.matmul(A, A, topk=topk)
    with pytest.raises(UnsupportedError, match="topk must be an integer"):
        sp.matmul(A, A, topk=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="of a result with rows"):
        sp.matmul(A[0], A[1], topk=1)


def scores(a: NDArray[Any], b: NDArray[Any], metric: str) -> NDArray[Any]:
    """Return all similarities, or negative distances."""
    if metric == "euclidean":
        return np.asarray(-np.sqrt(np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T, 0)))
    if metric == "jaccard":
        p, q = (a != 0) * 1.0, (b != 0) * 1.0
        shared = p @ q.T
        union = p.sum(1)[:, None] + q.sum(1) - shared
        return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union != 0))
    if metric == "cosine":
        lengths = [np.sqrt((each * each).sum(1, keepdims=True)) for each in (a, b)]
        a, b = (
            np.divide(each, n, out=np.zeros_like(each), where=n != 0) for each, n in zip((a, b), lengths, strict=True)
        )
    return np.asarray(a @ b.T)


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("metric", ["cosine", "dot", "jaccard", "euclidean"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), height=st.integers(1, 12), k=st.integers(1, 6))
def test_neighbors_match_all_pairs(metric: str, other: bool, seed: int, height: int, k: int) -> None:
    a, b = some((height, 7), seed), some((9, 7), seed + 1)
    found = sp.neighbors(sp.asarray(a), k, metric=metric, data=sp.asarray(b) if other else None)  # type: ignore[arg-type]
    all_pairs = scores(a, b if other else a, metric)
    fill = -np.inf if metric == "euclidean" else 0.0
    if not other:
        np.fill_diagonal(all_pairs, fill)
    dense = found.to_numpy() * (-1 if metric == "euclidean" else 1)
    for row, values in enumerate(all_pairs):
        stored = np.flatnonzero(dense[row] != fill)
        np.testing.assert_allclose(dense[row][stored], values[stored], atol=1e-7)
        is_stored = values > -np.inf if metric == "euclidean" else np.abs(values) > 1e-12
        expected = np.sort(values[is_stored])[::-1][:k]
        np.testing.assert_allclose(np.sort(dense[row][stored])[::-1], expected, atol=1e-7)


def test_neighbors_keep_labels_and_names() -> None:
    A = sp.from_coords([[0, 0, 1, 2], [0, 1, 1, 0]], [1.0, 1, 1, 2], labels={"d0": ["a", "b", "c"], "d1": ["x", "y"]})
    for metric in ("cosine", "euclidean"):
        found: Any = sp.neighbors(A, 1, metric=metric)
        assert found.labels(0).to_pylist() == found.labels(1).to_pylist() == ["a", "b", "c"]
    assert found.fill_value == np.inf
    assert sp.neighbors(A.compute(), 1).nnz == 3


def test_neighbors_never_form_the_product() -> None:
    A = sp.random((3000, 50), nnz=30_000, seed=0)
    with sp.config(memory_limit="30MB"):  # all pairs take 100 MB
        assert sp.neighbors(A, 3).nnz == 9000
        assert sp.neighbors(A, 3, metric="jaccard").compute().nnz == 9000


def test_neighbors_errors() -> None:
    A = sp.asarray(some((4, 5), 1))
    with pytest.raises(InvalidValueError, match="metric must be one of"):
        sp.neighbors(A, 1, metric="manhattan")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="k must be at least 1"):
        sp.neighbors(A, 0)
    with pytest.raises(ShapeError, match="as many columns"):
        sp.neighbors(A, 1, data=A.T)
    with pytest.raises(ShapeError, match="must be a matrix"):
        sp.neighbors(A[0], 1)
    with pytest.raises(UnsupportedError, match="real values"):
        sp.neighbors(A.astype(complex), 1)
    with pytest.raises(UnsupportedError, match="fill value 0"):
        sp.neighbors(A + 1, 1)
