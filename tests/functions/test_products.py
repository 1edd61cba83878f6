"""Sums of products, and linear algebra by the standard's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparrow as sp
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
