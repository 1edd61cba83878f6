"""Products with sums of a sparse matrix and broadcast terms, and pca."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
import sparrow.testing
from sparrow.errors import ConvergenceError, InvalidValueError, PerformanceWarning, ShapeError, UnsupportedError
from sparrow.plan import split_sum

DENSE = (np.random.default_rng(0).random((30, 11)) < 0.25) * np.random.default_rng(1).normal(3, 1, (30, 11))
DENSE[:, 3] = 0


@pytest.fixture
def always_split() -> Iterator[None]:
    with sparrow.testing.tune("plan", distributed_elements=1, distributed_ratio=1):
        yield


def build(H: Any, steps: list[str]) -> Any:
    """Return a sum with broadcast terms of a tensor, or of an array."""
    A, is_array = H, isinstance(H, np.ndarray)
    for step in steps:
        std = H.std(axis=0, keepdims=True)
        if step == "columns":
            A = A - H.mean(axis=0, keepdims=True)
        elif step == "rows":
            A = A - H.mean(axis=1, keepdims=True)
        elif step == "total":
            A = H.mean(axis=(0, 1), keepdims=True) + A
        elif step == "scale":
            A = A / (np.where(std == 0, 1, std) if is_array else std)
        elif step == "weigh":
            A = (H.mean(axis=1, keepdims=True) * 2) * A
        elif step == "negate":
            A = -A
        elif step == "double":
            A = 2 * A
        elif step == "transpose":
            A, H = A.T, H.T
        elif step == "slice":
            A, H = A[1:-1, ::-1], H[1:-1, ::-1]
    return A


STEPS = ["columns", "rows", "total", "weigh", "negate", "double", "transpose", "slice"]


@pytest.mark.usefixtures("always_split")
@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(STEPS), max_size=4), st.booleans(), st.sampled_from([("obs", "var"), None]),
    st.sampled_from(["float64", "float32", "int64"]),
)  # fmt: skip
def test_products(steps: list[str], scaled: bool, dims: Any, dtype: str) -> None:
    steps = [*(["columns", "scale"] if scaled else []), "columns", *steps]
    dense = DENSE.astype(dtype)
    A, expected = build(sp.asarray(dense, dims=dims), steps), build(dense.astype(float), steps)
    if "weigh" not in steps:  # rows weighed, less what columns share, have a term of all axes
        assert split_sum(A.__sparrow_scan__()) is not None
    rng = np.random.default_rng(2)
    tol: Any = {"rtol": 1e-4, "atol": 1e-3} if dtype == "float32" else {"atol": 1e-9}
    height, width = A.shape
    X, Y, B = rng.normal(size=(width, 3)), rng.normal(size=(height, 2)), (rng.random((width, 4)) < 0.5) * 2.0
    sparse = sp.asarray(B)
    pairs = [
        (A @ X, expected @ X), (A @ X[:, 0], expected @ X[:, 0]), (A.T @ Y, expected.T @ Y), (Y.T @ A, Y.T @ expected),
        (A @ sparse, expected @ B), (A @ sparse[:, 0], expected @ B[:, 0]), (sparse.T @ A.T, B.T @ expected.T),
        (A.T @ A, expected.T @ expected), (A @ A.T, expected @ expected.T), ((A @ sparse)[2:5], (expected @ B)[2:5]),
        (sp.einsum("ij,jk,kl->il", A, sparse, sparse.T), expected @ B @ B.T),
        (sp.einsum("ij,jk->k", A, X), (expected @ X).sum(axis=0)), (sp.einsum("ij,ij->", A, A), (expected**2).sum()),
        (sp.tensordot(A, X, axes=1), expected @ X), (sp.matmul(A, X, engine="duckdb"), expected @ X),
        (pickle.loads(pickle.dumps(A)) @ X, expected @ X),
    ]  # fmt: skip
    operator = sp.linalg.aslinearoperator(A)
    for _ in range(3):  # read, then persisted
        pairs += [(operator @ X, expected @ X), (operator.T @ Y, expected.T @ Y)]
        pairs += [(operator @ X[:, 0], expected @ X[:, 0]), (operator.H @ Y[:, 0], expected.T @ Y[:, 0])]
    for found, wanted in pairs:
        array = found.to_numpy() if isinstance(found, sp.Tensor) else found
        np.testing.assert_allclose(array, wanted, **tol)


def test_large_sums_are_never_stored() -> None:
    rng = np.random.default_rng(0)
    labels = {"var": [f"g{k}" for k in range(700)]}
    H = sp.random((2000, 700), density=0.02, seed=3).rename(d0="obs", d1="var").compute()
    H.set_labels("var", labels["var"])
    dense = H.to_numpy()
    mean, std = dense.mean(axis=0), dense.std(axis=0)
    centred, scaled = H - H.mean(axis="obs"), (H - H.mean(axis="obs")) / H.std(axis="obs")
    X = rng.normal(size=(700, 2))
    with sparrow.testing.observe("stream.broadcast") as events:
        np.testing.assert_allclose(centred @ X, (dense - mean) @ X, atol=1e-9)
        np.testing.assert_allclose(centred[10:1900].T @ np.ones(1890), (dense - mean)[10:1900].sum(axis=0), atol=1e-8)
        s = sp.linalg.svds(centred, 3)[1]
        np.testing.assert_allclose(s, np.linalg.svd(dense - mean)[1][:3][::-1], rtol=1e-8)
        found = sp.linalg.lsqr(centred, np.arange(2000.0), iter_lim=500, atol=1e-12, btol=1e-12)[0]
        np.testing.assert_allclose(found, np.linalg.lstsq(dense - mean, np.arange(2000.0))[0], rtol=1e-4, atol=1e-4)
        gram = (centred.T @ centred).compute()
        np.testing.assert_allclose(gram.to_numpy(), (dense - mean).T @ (dense - mean), atol=1e-8)
        top = sp.linalg.lobpcg(gram, rng.normal(size=(700, 3)), maxiter=100, tol=1e-6)[0]
        np.testing.assert_allclose(np.sqrt(top), s[::-1], rtol=1e-6)
    assert not events
    np.testing.assert_allclose(scaled @ X, (dense - mean) / std @ X, atol=1e-8)
    np.testing.assert_allclose(
        sp.linalg.svds(scaled, 2)[1], np.linalg.svd((dense - mean) / std)[1][:2][::-1], rtol=1e-8
    )


def test_rows_of_arrays_stay_lazy_beyond_a_size() -> None:
    dense = DENSE
    mean = dense.mean(axis=0)
    H = sp.asarray(dense)
    assert isinstance(H - mean, np.ndarray)
    with sparrow.testing.tune("interop", silent_dense_bytes=1000, warn_expansion=2):
        with sparrow.testing.tune("plan", distributed_elements=1, distributed_ratio=1):
            for found, wanted in (
                (H - mean, dense - mean), (mean - H, mean - dense), (H + mean[None], dense + mean),
                (np.subtract(H, mean), dense - mean), ((H - mean) / (mean + 1), (dense - mean) / (mean + 1)),
                (H - dense.mean(axis=1)[:, None], dense - dense.mean(axis=1)[:, None]),
                (np.maximum(H, mean), np.maximum(dense, mean)),
            ):  # fmt: skip
                assert isinstance(found, sp.Tensor)
                np.testing.assert_allclose(found.to_numpy(), wanted)
                np.testing.assert_allclose(found @ mean, wanted @ mean)
            np.testing.assert_allclose(sp.linalg.svds(H - mean, 2)[1], np.linalg.svd(dense - mean)[1][:2][::-1])
        assert isinstance(H - dense, np.ndarray)  # an array of this size is there already


def test_arrays_beside_broadcast_tensors() -> None:
    H, mean = sp.asarray(DENSE), DENSE.mean(axis=0)
    with sparrow.testing.observe("stream.broadcast") as events:
        np.testing.assert_allclose(np.ones((30, 11)) - H.mean(axis=0), 1 - np.broadcast_to(mean, (30, 11)))
        np.testing.assert_allclose(np.ones((30, 11)) - H.mean(axis=1, keepdims=True), 1 - np.tile(
            DENSE.mean(axis=1)[:, None], 11))  # fmt: skip
        found = np.ones((2, 3)) + H[:1, :3] + H[4, 5:6]
        np.testing.assert_allclose(found, np.ones((2, 3)) + DENSE[:1, :3] + DENSE[4, 5])
    assert not events


def test_warning_of_what_is_stored_names_the_way_out() -> None:
    H = sp.random((3000, 2500), density=0.001, seed=0)
    centred = H - H.mean(axis=0)
    with pytest.warns(PerformanceWarning, match="products, svds and pca take the terms of a sum one by one") as caught:
        centred.compute()
    assert caught[0].filename == __file__


def test_what_is_not_split() -> None:
    H = sp.asarray(DENSE)
    with sparrow.testing.tune("plan", distributed_elements=1, distributed_ratio=1):
        integers = H.astype("int64")
        tensors: tuple[Any, ...] = (
            H, H * 2, H / H.sum(axis=0), H - H, H + 1, H.mean(axis=0) - H.mean(axis=0), integers - integers.max(axis=0),
            np.maximum(H, H.mean(axis=0)), H[:, None, :] - H[None, :, :],
        )  # fmt: skip
        for tensor in tensors:
            assert split_sum(tensor.__sparrow_scan__()) is None
        mask = H != 0
        found = sp.matmul(H - H.mean(axis=0), sp.asarray(np.eye(11)), mask=mask)
        np.testing.assert_allclose(found.to_numpy(), (DENSE - DENSE.mean(axis=0)) * (DENSE != 0))
    assert split_sum((H - H.mean(axis=0)).__sparrow_scan__()) is None  # small


# -- pca -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("iterative", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_pca_matches_scikit_learn(scale: bool, iterative: bool, dtype: str) -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    dense = (DENSE * np.linspace(1, 5, 11) * 4).astype(dtype)
    dense[:, 5] = 2
    prepared = preprocessing.StandardScaler().fit_transform(dense.astype(float)) if scale else dense.astype(float)
    expected = decomposition.PCA(4, svd_solver="full").fit(prepared)
    with (
        sparrow.testing.tune("linalg", dense_components=0 if iterative else 10**6),
        sparrow.testing.tune("plan", distributed_elements=1, distributed_ratio=1),
    ):
        scores, components, variance = sp.linalg.pca(sp.asarray(dense), 4, scale=scale)
    tol: Any = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"atol": 1e-7}
    np.testing.assert_allclose(variance, expected.explained_variance_, **tol)
    np.testing.assert_allclose(components, expected.components_, **tol)
    np.testing.assert_allclose(scores, expected.transform(prepared), **tol)


def test_pca_without_centring() -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    with sparrow.testing.tune("linalg", dense_components=0):
        scores, components, variance = sp.linalg.pca(sp.asarray(DENSE), 3, center=False)
    expected = decomposition.TruncatedSVD(3, algorithm="arpack").fit(DENSE)
    np.testing.assert_allclose(abs(components), abs(expected.components_), atol=1e-8)
    np.testing.assert_allclose(variance * 29 / 30, expected.explained_variance_)
    np.testing.assert_allclose(scores, DENSE @ components.T, atol=1e-8)


def test_pca_of_any_matrix() -> None:
    wide = DENSE.T
    for matrix in (sp.asarray(wide), wide, wide.tolist(), sp.linalg.aslinearoperator(sp.asarray(wide))):
        scores, components, variance = sp.linalg.pca(matrix, 11)
        assert (scores.shape, components.shape, variance.shape) == ((11, 11), (11, 30), (11,))
        np.testing.assert_allclose(scores @ components + wide.mean(axis=0), wide, atol=1e-9)
    named = sp.asarray(DENSE, dims=("obs", "var"), labels={"var": list("abcdefghijk")})
    first, again = (sp.linalg.pca(named, 2) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))


def test_bad_pca() -> None:
    A = sp.asarray(DENSE)
    for k in (0, 12, -1):
        with pytest.raises(InvalidValueError, match="k must be from 1 to 11"):
            sp.linalg.pca(A, k)
    with pytest.raises(UnsupportedError, match="k must be an integer"):
        sp.linalg.pca(A, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="at least two rows"):
        sp.linalg.pca(A[:1], 1)
    with pytest.raises(ShapeError, match="matrix"):
        sp.linalg.pca(A[0], 1)
    with pytest.raises(UnsupportedError, match="complex"):
        sp.linalg.pca(A * 1j, 1)
    with (
        sparrow.testing.tune("linalg", dense_components=0),
        pytest.raises(ConvergenceError, match=r"not finite|NaN or infinity"),
    ):
        sp.linalg.pca(sp.asarray(np.where(DENSE > 3, np.inf, DENSE)), 2)
