"""Sums of products, and linear algebra by the standard's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.engines.stream.contraction import Multiplication
from sparrow.errors import ShapeError, UnsupportedError

a = np.array([[0, 2, 0], [3, 0, -1]])
A = sp.asarray(a)


def test_sums_of_products() -> None:
    np.testing.assert_array_equal(sp.vecdot(A, A).to_numpy(), np.vecdot(a, a))
    np.testing.assert_array_equal(sp.vecdot(A, [1, 10, 100]).to_numpy(), np.vecdot(a, [1, 10, 100]))
    np.testing.assert_array_equal(sp.vecdot([[1], [2]], A, axis=-2).to_numpy(), a[0] + 2 * a[1])
    assert sp.vecdot(A[0], A[1]) == 0
    c = np.array([[1j, 0], [2 + 1j, 3]])
    np.testing.assert_array_equal(sp.vecdot(sp.asarray(c), c).to_numpy(), np.vecdot(c, c))
    small = sp.asarray(np.array([100, 100], np.int8))
    assert sp.vecdot(small, small).dtype == np.int8
    with pytest.raises(ShapeError, match="3 and 2 cells"):
        sp.vecdot(A, [1, 2])


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128", "int8", "bool"])
def test_sums_of_a_product_along_its_axes(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x, y = (((rng.random(shape) < 0.3) * rng.integers(-90, 90, shape)).astype(dtype) for shape in [(30, 40), (40, 50)])
    X, Y = sp.asarray(x).save(tmp_path / "x"), sp.asarray(y)
    with np.errstate(all="ignore"):
        wanted = x @ y
    turned = sp.einsum("ij,jk->ki", X, Y)
    for axis in (0, 1, None):
        for found, of in [((X @ Y).sum(axis=axis), wanted), ((Y.T @ X.T).sum(axis=axis), wanted.T),
                          (turned.sum(axis=axis), wanted.T)]:  # fmt: skip
            total = of.sum(axis=axis)
            assert found.dtype == total.dtype
            np.testing.assert_allclose(found if axis is None else found.to_numpy(), total, rtol=1e-12)
    np.testing.assert_allclose((X @ Y).sum(axis=1, keepdims=True).to_numpy(), wanted.sum(axis=1, keepdims=True))
    np.testing.assert_allclose((X @ Y)[3:9].sum(axis=0)[5:].to_numpy(), wanted[3:9].sum(axis=0)[5:])


def test_sums_of_a_product_do_not_form_it(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sp.random((300, 200), nnz=3000, seed=1)
    Y = sp.random((200, 100), nnz=2000, seed=2)
    with monkeypatch.context() as patched:
        patched.setattr(Multiplication, "_prepare", None)
        found = [(X @ Y).sum(), *((X @ Y).sum(axis=axis).to_numpy() for axis in (0, 1))]
    wanted = X.to_numpy() @ Y.to_numpy()
    for mine, axis in zip(found, (None, 0, 1), strict=True):
        np.testing.assert_allclose(mine, wanted.sum(axis=axis))


@pytest.mark.parametrize(("x", "y"), [
    ([[np.inf, 0], [1, 2]], [[1, -1], [0, 3]]),  # what cancels is still infinite times
    ([[1e-300, 0], [1, 2]], [[1e308, 1e308], [0, 3]]),  # too large on the way alone
    ([[np.nan, 0], [0, 2]], [[0, 0], [np.inf, 3]]),  # times nothing
    ([[np.inf, 0], [1, -np.inf]], [[1, 1], [0, np.nan]]),
])  # fmt: skip
def test_sums_of_a_product_are_those_of_its_entries(x: Any, y: Any) -> None:
    X, Y = sp.asarray(np.array(x, float)), sp.asarray(np.array(y, float))
    formed = (X @ Y).compute()
    with np.errstate(all="ignore"):
        for axis in (0, 1):
            np.testing.assert_allclose((X @ Y).sum(axis=axis).to_numpy(), formed.sum(axis=axis).to_numpy(), rtol=1e-15)
        np.testing.assert_allclose((X @ Y).sum(), formed.sum(), rtol=1e-15)


def test_norms_and_products_of_the_last_two_axes() -> None:
    x = a.astype(float)
    X = sp.asarray(x)
    wide = sp.stack([X, 2 * X])
    orders: list[Any] = ["fro", 1, -1, np.inf, -np.inf]
    for order in orders:
        assert sp.linalg.matrix_norm(X, ord=order) == pytest.approx(np.linalg.matrix_norm(x, ord=order))
        assert sp.linalg.matrix_norm(x, ord=order) == pytest.approx(np.linalg.matrix_norm(x, ord=order))
        found = sp.linalg.matrix_norm(wide, ord=order)
        np.testing.assert_allclose(found.to_numpy(), np.linalg.matrix_norm(np.stack([x, 2 * x]), ord=order))
    with pytest.raises(UnsupportedError, match="singular values"):
        sp.linalg.matrix_norm(X, ord=2)
    np.testing.assert_allclose(
        sp.linalg.vector_norm(X, axis=0, ord=3).to_numpy(), np.linalg.vector_norm(x, axis=0, ord=3)
    )
    assert sp.linalg.vector_norm(x) == pytest.approx(np.linalg.vector_norm(x)) == sp.linalg.vector_norm(X)
    assert sp.linalg.trace(A) == np.trace(a)
    assert sp.linalg.trace(A, offset=1, dtype=sp.float32).dtype == np.float32
    np.testing.assert_array_equal(sp.linalg.outer(a[0], A[1]).to_numpy(), np.outer(a[0], a[1]))
    with pytest.raises(ShapeError, match=r"\(2, 3\)"):
        sp.linalg.outer(A, A[0])
