"""Sums of products, and linear algebra by the standard's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.errors import ShapeError, UnsupportedError

a = np.array([[0, 2, 0], [3, 0, -1]])
A = sp.asarray(a)


def test_vecdot() -> None:
    np.testing.assert_array_equal(sp.vecdot(A, A).to_numpy(), np.vecdot(a, a))
    np.testing.assert_array_equal(sp.vecdot(A, [1, 10, 100]).to_numpy(), np.vecdot(a, [1, 10, 100]))
    np.testing.assert_array_equal(sp.vecdot([[1], [2]], A, axis=-2).to_numpy(), a[0] + 2 * a[1])
    assert sp.vecdot(A[0], A[1]) == 0
    c = np.array([[1j, 0], [2 + 1j, 3]])
    np.testing.assert_array_equal(sp.vecdot(sp.asarray(c), c).to_numpy(), np.vecdot(c, c))
    small = sp.asarray(np.array([100, 100], np.int8))
    assert sp.vecdot(small, small).dtype == np.int8
    with pytest.raises(ShapeError, match="must be equal, got 3 and 2"):
        sp.vecdot(A, [1, 2])


def test_vecdot_axis_by_name() -> None:
    named, turned = A.rename(d0="row", d1="col"), sp.asarray(a.T * 2, dims=("col", "row"))
    for axis, name in enumerate(("row", "col")):
        wanted = (a * a).sum(axis=axis)
        for one, other in ((named, named), (named, a), (a, named), (named, A)):
            np.testing.assert_array_equal(sp.vecdot(one, other, axis=name).to_numpy(), wanted)
        for one, other in ((named, turned), (turned, named)):
            np.testing.assert_array_equal(sp.vecdot(one, other, axis=name).to_numpy(), 2 * wanted)
    np.testing.assert_array_equal(sp.vecdot([1, 10, 100], named, axis="col").to_numpy(), a @ [1, 10, 100])
    assert sp.vecdot(named, turned[:, 0], axis="col").dims == ("row",)
    for one, other, name, told in [
        (named, a, "user", "no dimension 'user': there are 'row', 'col'"), (named, a[0], "row", "axis -2 is out of"),
        (named, a[:, :2], "col", "along axis 'col' must be equal, got 3 and 2"),
    ]:  # fmt: skip
        with pytest.raises(ShapeError, match=told):
            sp.vecdot(one, other, axis=name)


def test_vecdot_aligns_by_labels() -> None:
    L = sp.from_coords([[0, 1, 1], [0, 1, 2]], [1.0, 2.0, 3.0], labels={"d0": ["ann", "bob"], "d1": ["x", "y", "z"]})
    L = L.rename(d0="user", d1="film")
    w = sp.from_coords([[0, 1]], [5.0, 7.0], dims=("film",), labels={"film": ["z", "x"]})
    for vecdot in (sp.vecdot, np.vecdot, sp.linalg.vecdot):
        for one, other in ((L, w), (w, L)):
            found = vecdot(one, other)
            assert found.to_numpy().tolist() == (L @ w).to_numpy().tolist() == [7, 15]
            assert found.labels("user").to_pylist() == ["ann", "bob"]
    assert sp.vecdot(w, L[1]) == np.vdot(L[1], w) == 15
    for bare in (np.ones(2), sp.asarray(np.ones(2))):
        with pytest.raises(ShapeError, match="along axis -1 must be equal, got 3 and 2"):
            sp.vecdot(L, bare)


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128", "int8", "bool"])
def test_sum_of_product_along_axes(dtype: str, tmp_path: Path) -> None:
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


def test_sum_of_product_does_not_compute_it() -> None:
    X = sp.random((300, 200), nnz=3000, seed=1)
    Y = sp.random((200, 100), nnz=2000, seed=2)
    with sparrow.testing.observe("product.prepare") as prepared:
        found = [(X @ Y).sum(), *((X @ Y).sum(axis=axis).to_numpy() for axis in (0, 1))]
    assert not prepared
    wanted = X.to_numpy() @ Y.to_numpy()
    for mine, axis in zip(found, (None, 0, 1), strict=True):
        np.testing.assert_allclose(mine, wanted.sum(axis=axis))


@pytest.mark.parametrize(("x", "y"), [
    ([[np.inf, 0], [1, 2]], [[1, -1], [0, 3]]),  # what cancels is still infinite times
    ([[1e-300, 0], [1, 2]], [[1e308, 1e308], [0, 3]]),  # too large only in between
    ([[np.nan, 0], [0, 2]], [[0, 0], [np.inf, 3]]),  # times nothing
    ([[np.inf, 0], [1, -np.inf]], [[1, 1], [0, np.nan]]),
])  # fmt: skip
def test_sum_of_product_equals_sum_of_elements(x: Any, y: Any) -> None:
    X, Y = sp.asarray(np.array(x, float)), sp.asarray(np.array(y, float))
    formed = (X @ Y).compute()
    with np.errstate(all="ignore"):
        for axis in (0, 1):
            np.testing.assert_allclose((X @ Y).sum(axis=axis).to_numpy(), formed.sum(axis=axis).to_numpy(), rtol=1e-15)
        np.testing.assert_allclose((X @ Y).sum(), formed.sum(), rtol=1e-15)


def test_norms_and_batched_products() -> None:
    x = a.astype(float)
    X = sp.asarray(x)
    wide = sp.stack([X, 2 * X])
    orders: list[Any] = ["fro", 1, -1, np.inf, -np.inf, 2, -2, "nuc"]
    for order in orders:
        assert sp.linalg.matrix_norm(X, ord=order) == pytest.approx(np.linalg.matrix_norm(x, ord=order))
        assert sp.linalg.matrix_norm(x, ord=order) == pytest.approx(np.linalg.matrix_norm(x, ord=order))
        found = sp.linalg.matrix_norm(wide, ord=order)
        np.testing.assert_allclose(np.asarray(found), np.linalg.matrix_norm(np.stack([x, 2 * x]), ord=order))
    assert sp.linalg.norm(X, 2) == pytest.approx(np.linalg.norm(x, 2))
    with pytest.raises(UnsupportedError, match="singular values"):
        np.linalg.norm(X, 2)
    np.testing.assert_allclose(
        sp.linalg.vector_norm(X, axis=0, ord=3).to_numpy(), np.linalg.vector_norm(x, axis=0, ord=3)
    )
    assert sp.linalg.vector_norm(x) == pytest.approx(np.linalg.vector_norm(x)) == sp.linalg.vector_norm(X)
    assert sp.linalg.trace(A) == np.trace(a)
    assert sp.linalg.trace(A, offset=1, dtype=sp.float32).dtype == np.float32
    np.testing.assert_array_equal(sp.linalg.outer(a[0], A[1]).to_numpy(), np.outer(a[0], a[1]))
    with pytest.raises(ShapeError, match=r"\(2, 3\)"):
        sp.linalg.outer(A, A[0])


def test_matrix_power_and_multi_dot() -> None:
    m = np.array([[0, 2, 0], [3, 0, -1], [1, 0, 0]])
    M, stacked = sp.asarray(m), np.stack([m, m.T])
    for n in range(8):
        for power in (sp.linalg.matrix_power, np.linalg.matrix_power):
            found: Any = power(M, n)
            np.testing.assert_array_equal(found.to_numpy(), np.linalg.matrix_power(m, n))
        found = np.linalg.matrix_power(sp.asarray(stacked), n)
        np.testing.assert_array_equal(found.to_numpy(), np.linalg.matrix_power(stacked, n))
    with pytest.raises(ShapeError, match=r"square matrices, got shape \(2, 3\)"):
        sp.linalg.matrix_power(A, 2)
    np.testing.assert_allclose(sp.linalg.matrix_power(M, -1), np.linalg.inv(m))
    chain: list[Any] = [a[0], a.T, a, m]
    found = np.linalg.multi_dot([sp.asarray(each) for each in chain])
    np.testing.assert_array_equal(found.to_numpy(), np.linalg.multi_dot(chain))
    assert np.linalg.multi_dot([A[0], M, m[0]]) == a[0] @ m @ m[0]
    with pytest.raises(ShapeError, match="operand 1 must be a matrix, got shape"):
        np.linalg.multi_dot([M, A[0], M])


@pytest.mark.parametrize("which", [(0, 1), (0,), (1,)])
def test_numpy_product_functions(which: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(-2, 3, (2, 3, 4)) * (1 + 1j), rng.integers(-2, 3, (2, 4)) * (1 - 2j)

    def given(*arrays: Any) -> list[Any]:
        return [sp.asarray(each) if k in which else each for k, each in enumerate(arrays)]

    vecdot: Any = np.vecdot  # whose types know no axis=
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (np.matvec, (x, y)), (np.matvec, (x[0], y[0])), (np.matvec, (x, y[0])), (np.vecmat, (y, x.swapaxes(1, 2))),
        (np.vecmat, (y[0], x[0].T)), (np.vdot, (x[:, 0], y)), (np.linalg.matmul, (x, x.swapaxes(1, 2))),
        (np.linalg.vecdot, (x[:, 0], y)), (np.linalg.outer, (y[0], y[1])),
        (np.linalg.tensordot, (x, x.transpose(1, 2, 0))), (lambda a, b: vecdot(a, b, axis=0), (y, y)),
        (lambda a, b: np.dot(a, b, out=np.zeros(2, complex)), (y, y[0])),
        (lambda a, b: np.einsum_path("ij,jk", a, b)[0][1], (y, y.T)),
    ]  # fmt: skip
    for call, dense in calls:
        np.testing.assert_array_equal(np.asarray(call(*given(*dense))), call(*dense))
    with pytest.raises(ShapeError, match="operands must be vectors"):
        np.linalg.outer(*given(y, y[0]))


def test_empty_operands_with_nonzero_fill() -> None:
    a = np.zeros((2, 0))
    A = sp.asarray(a) + np.nan
    assert np.isnan(A.fill_value)
    for product in (np.matmul, lambda x, y: sp.tensordot(x, y, axes=1), lambda x, y: sp.einsum("ij,jk->ik", x, y)):
        np.testing.assert_array_equal(product(A, A.T).to_numpy(), a @ a.T)
    with pytest.raises(UnsupportedError, match="absent elements of the left operand are nan"):
        sp.full((2, 3), np.nan) @ sp.eye(3)


def test_any_fill_of_single_element_operands() -> None:
    one, filled = sp.full((), 3.0), sp.full((2, 3), 1.0)
    np.testing.assert_array_equal(sp.tensordot(one, sp.asarray(a), axes=0).to_numpy(), 3.0 * a)
    np.testing.assert_array_equal(
        sp.tensordot(sp.asarray(a), sp.full((1, 1), 2.0), axes=0).to_numpy()[..., 0, 0], 2 * a
    )
    assert sp.matmul(filled, sp.zeros((3, 0))).to_numpy().shape == (2, 0)
    assert sp.tensordot(filled, sp.zeros((0,)), axes=0).to_numpy().shape == (2, 3, 0)
    with pytest.raises(UnsupportedError, match="absent elements"):
        sp.matmul(filled, sp.zeros((3, 2)))
