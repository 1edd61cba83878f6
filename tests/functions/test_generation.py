"""Constant, diagonal and random tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.core.schema import DTYPES
from sparrow.errors import InvalidValueError, ShapeError, TooLargeError, UnsupportedError
from sparrow.kernels.coo import is_sorted


@given(st.data(), st.lists(st.integers(0, 6), max_size=3).map(tuple), st.sampled_from(["uniform", "powerlaw"]))
def test_random_exact_nnz(data: st.DataObject, shape: tuple[int, ...], distribution: Any) -> None:
    size = int(np.prod(shape))
    nnz = data.draw(st.integers(0, size))
    seed = data.draw(st.integers(0, 99))
    A = sp.random(shape, nnz=nnz, seed=seed, distribution=distribution)
    dense = A.to_numpy()
    assert (A.shape, A.nnz, int(np.count_nonzero(dense))) == (shape, nnz, nnz)
    assert ((dense >= 0) & (dense <= 1)).all()
    table = A.to_arrow()
    assert is_sorted([table[name].to_numpy() for name in A.dims], strict=True)
    assert np.array_equal(sp.random(shape, nnz=nnz, seed=seed, distribution=distribution).to_numpy(), dense)
    if distribution == "powerlaw" and shape and nnz:
        counts = np.count_nonzero(dense.reshape(shape[0], -1), axis=1)
        assert (counts > 0).sum() == min(nnz, shape[0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("distribution", ["uniform", "powerlaw"])
def test_types(dtype: np.dtype[Any], distribution: Any) -> None:
    A = sp.random((50, 40), density=0.25, seed=1, dtype=dtype, distribution=distribution, dims=("a", "b"))
    assert (A.dtype, A.nnz, A.dims) == (dtype, 500, ("a", "b"))
    values = A.to_arrow()["value"].to_numpy()
    assert values.min() > 0
    assert values.max() <= (100 if dtype.kind in "iu" else 1)


def test_random_uniformity() -> None:
    rng = np.random.default_rng(0)
    for nnz in (2, 4):
        found = np.zeros(6)
        for _ in range(1500):
            found += sp.random((2, 3), nnz=nnz, seed=rng).to_numpy().reshape(-1) > 0
        assert abs(found / 1500 - nnz / 6).max() < 0.05


def test_huge_shapes() -> None:
    A = sp.random((2**40, 2**40), nnz=5000, seed=2)
    assert (A.nnz, A.size) == (5000, 2**80)
    assert A[: 2**39].nnz == pytest.approx(2500, abs=250)
    B = sp.random((2**33, 2**40), nnz=5000, seed=2, distribution="powerlaw")
    assert (B.nnz, B[0].nnz, B[4999].nnz, B[5000].nnz) == (5000, 1, 1, 0)
    C = sp.random((8, 2**62), nnz=600, seed=2, distribution="powerlaw")
    assert C.count(axis=1).to_numpy().tolist() == [2, 4, 8, 16, 32, 64, 128, 346]


def test_random_powerlaw() -> None:
    counts = sp.random((32, 10_000), density=0.01, seed=5, distribution="powerlaw").count(axis=1).to_numpy()
    assert counts.sum() == 3200
    assert counts[:10].tolist() == [2 ** (k + 1) for k in range(10)]
    assert counts[10:].tolist() == [1133, *[1] * 21]
    wide = sp.random((5, 4), nnz=18, seed=5, distribution="powerlaw").count(axis=1)
    assert wide.to_numpy().tolist() == [2, 4, 4, 4, 4]
    full = sp.random((5, 4), nnz=19, seed=5, distribution="powerlaw").count(axis=1)
    assert full.to_numpy().tolist() == [3, 4, 4, 4, 4]


@given(
    st.integers(0, 6), st.none() | st.integers(0, 6), st.integers(-8, 8), st.sampled_from(["int8", "float64", "bool"])
)
def test_eye(n: int, m: int | None, k: int, dtype: str) -> None:
    found, expected = sp.eye(n, m, k, dtype), np.eye(n, m, k, dtype)
    assert found.dtype == expected.dtype
    assert np.array_equal(found.to_numpy(), expected)
    assert found.nnz == np.count_nonzero(expected)


def test_constants_store_nothing() -> None:
    A = sp.full((2, 3), 7, dims=("a", "b"))
    assert (str(A.dtype), A.nnz, A.fill_value, A.dims) == ("int64", 0, 7, ("a", "b"))
    assert sp.full((2,), 2.5).to_numpy().tolist() == [2.5, 2.5]
    assert sp.ones(3, dtype=bool).to_numpy().all()
    assert sp.full((10**12, 10**12), np.nan).nnz == 0
    assert A.sum() == 42
    B = sp.full_like(A, 1)
    assert (B.shape, B.dtype, B.dims, B.fill_value) == (A.shape, A.dtype, A.dims, 1)
    assert sp.zeros_like(np.ones((2, 2), np.float32)).dtype == np.float32
    assert sp.ones_like(A, dtype=bool).fill_value
    assert np.full_like(A, 3, dtype=np.float32).dtype == np.float32


def test_invalid_input_raises() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "requires either nnz"),
        ({"nnz": 1, "density": 0.1}, "either nnz"),
        ({"nnz": 10}, "size 9 .*, got 10"),
        ({"nnz": -1}, "nnz must be .*, got -1"),
        ({"density": 1.5}, "between 0 and 1"),
        ({"density": "x"}, "density must be .*, got 'x'"),
        ({"nnz": 1, "seed": -1}, "seed must be .*, got -1"),
        ({"nnz": 1, "distribution": "normal"}, "'powerlaw'"),
    ]
    for options, words in cases:
        with pytest.raises(InvalidValueError, match=words):
            sp.random((3, 3), **options)
    with pytest.raises(UnsupportedError, match=r"nnz must be an integer, got 1\.5"):
        sp.random((3, 3), nnz=1.5)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="k must be an integer, got 'a'"):
        sp.eye(3, k="a")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="negative"):
        sp.eye(-1)
    with pytest.raises(InvalidValueError, match="must be a number"):
        sp.full((2,), [1, 2])
    with pytest.raises(InvalidValueError, match="must fit int8"):
        sp.full((2,), 300, dtype="int8")
    with sp.config(memory_limit=10_000_000):
        with pytest.raises(TooLargeError, match="memory limit"):
            sp.random((10**6, 10**6), nnz=10**6)
        with pytest.raises(TooLargeError, match="memory limit"):
            sp.eye(10**7)


def test_number_sequences() -> None:
    for numbers in ((5,), (1, 10, 3), (5, 0, -2), (0.0, 1.0, 0.25), (3, 3)):
        found = sp.arange(*numbers)
        np.testing.assert_array_equal(found.to_numpy(), np.arange(*numbers))
        assert found.dtype == np.arange(*numbers).dtype
    np.testing.assert_array_equal(sp.linspace(0, 1, 5, dtype=sp.float32).to_numpy(), np.linspace(0, 1, 5, dtype="f4"))
    np.testing.assert_array_equal(sp.linspace(1j, 2, 3).to_numpy(), np.linspace(1j, 2, 3))
    assert sp.linspace(0, 1, 0).shape == (0,)
    assert sp.linspace(0, 1, 4, endpoint=False).to_numpy().tolist() == [0, 0.25, 0.5, 0.75]
    asked: list[Callable[[], sp.Tensor]] = [
        lambda: sp.arange(1, 2, 0),
        lambda: sp.arange("a"),  # type: ignore[arg-type]
        lambda: sp.linspace(0, 1, -1),
        lambda: sp.linspace("a", 1, 2),  # type: ignore[arg-type]
    ]
    for ask in asked:
        with pytest.raises(InvalidValueError):
            ask()


def test_standard_names() -> None:
    np.testing.assert_array_equal(sp.eye(n_rows=2, n_cols=3, k=1, dtype=None).to_numpy(), np.eye(2, 3, 1))
    assert sp.empty((2, 3), sp.int8).dtype == sp.empty_like(sp.zeros(4, "int8")).dtype == np.int8
    assert sp.zeros(2, None).dtype == sp.ones(2, None).dtype == np.float64


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like"])
def test_numpy_like_functions_keep_names(name: str) -> None:
    A: Any = sp.zeros((2, 3), dims=("user", "item"))
    for namespace in (np, sp):
        like: Any = getattr(namespace, name)
        assert like(A).dims == like(A, dtype=np.int8).dims == ("user", "item")
    full_like: Any = np.full_like
    assert full_like(A, 7).dims == ("user", "item")
    zeros_like: Any = np.zeros_like
    assert zeros_like(A, shape=(4,)).dims == ("d0",)
