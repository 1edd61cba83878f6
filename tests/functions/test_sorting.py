"""Sorting and cumulative functions against NumPy, for every source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.core.schema import is_fill
from sparrow.errors import AxisError, InvalidValueError, ShapeError, TooLargeError, UnsupportedError
from sparrow.testing import tune
from tests.tensor.test_arithmetic import Maker, agree, make, some

__all__ = ["make"]

SEEDS = st.integers(0, 2**16)
SHAPES = st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple)
DTYPES = ["bool", "int8", "uint64", "float16", "float64", "complex64"]


def with_fill(dense: np.ndarray[Any, Any], fill: Any) -> sp.Tensor:
    stored = ~is_fill(dense, np.asarray(fill).astype(dense.dtype)[()])
    return sp.from_coords(np.array(stored.nonzero()), dense[stored], dense.shape, fill_value=fill)


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Any:
    with tune("stream", partition_rows=3):
        yield


@given(st.data(), SHAPES, SEEDS)
@settings(max_examples=15)
def test_sort(make: Maker, data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    a = some(shape, seed, odd=True)
    A = make(a)
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    agree(sp.sort(A, axis), np.sort(a, axis))
    agree(sp.sort(A, axis, descending=True), np.flip(np.sort(a, axis), axis))
    assert sp.sort(A, axis).nnz == A.nnz


@given(st.data(), st.sampled_from(DTYPES), SHAPES, SEEDS)
def test_sort_dtypes_and_fills(data: st.DataObject, dtype: str, shape: tuple[int, ...], seed: int) -> None:
    a = some(shape, seed, dtype, odd=True)
    fill = data.draw(
        st.sampled_from([0, 1, *([2, -1] if a.dtype.kind in "if" else []), *([np.nan] * (a.dtype.kind in "fc"))])
    )
    A = with_fill(a, fill)
    agree(sp.sort(A), np.sort(a))
    agree(sp.sort(A, 0), np.sort(a, 0))
    with np.errstate(all="ignore"):
        agree(sp.cumulative_sum(A, axis=0), np.cumulative_sum(a, axis=0))
        agree(sp.cumulative_prod(A, axis=-1), np.cumulative_prod(a, axis=-1))


@given(st.data(), SHAPES, SEEDS)
@settings(max_examples=15)
def test_cumulative_functions(make: Maker, data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    a = some(shape, seed, odd=True)
    A = make(a)
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    with np.errstate(all="ignore"):
        for initial in (False, True):
            agree(
                sp.cumulative_sum(A, axis=axis, include_initial=initial),
                np.cumulative_sum(a, axis=axis, include_initial=initial),
            )
        agree(A.cumsum(axis, dtype=np.float32), a.cumsum(axis, dtype=np.float32))
        agree(A.cumprod(axis), a.cumprod(axis))
        agree(A.cumsum(), a.cumsum())
        agree(np.cumprod(A), np.cumprod(a))
    if a.ndim == 1:
        agree(sp.cumulative_sum(A), np.cumulative_sum(a))


def test_cumulative_of_scalar() -> None:
    agree(sp.asarray(5).cumsum(), np.asarray(5).cumsum())
    agree(sp.zeros(()).cumprod(), np.zeros(()).cumprod())


def test_sort_cost_nnz() -> None:
    n = 10**12
    A = sp.from_coords([[0, 0, 0, 7], [5, 6, n - 1, 3]], [-2.0, np.nan, 4.0, -1.0], shape=(n, n))
    B = sp.sort(A)
    assert B.to_arrow().to_pydict() == {
        "d0": [0, 0, 0, 7],
        "d1": [0, n - 2, n - 1, 0],
        "value": [-2, 4, pytest.approx(np.nan, nan_ok=True), -1],
    }
    assert sp.sort(A, 0)[0, 3] == -1


def test_sort_partitions(tmp_path: Path) -> None:
    a = some((40, 9), 1)
    A = sp.asarray(a).save(tmp_path / "A")
    B = sp.sort(A)
    agree(B[7:9], np.sort(a)[7:9])
    assert B[11, 3] == np.sort(a)[11, 3]
    C = sp.sort(A, 0).save(tmp_path / "C")
    agree(C, np.sort(a, 0))
    assert C.verify() == []
    agree(sp.sort(sp.asarray(a[:, 0]))[5:9], np.sort(a[:, 0])[5:9])


def test_cumulative_beyond_limit_raises() -> None:
    A = sp.zeros((10**6, 10**6))
    with pytest.raises(TooLargeError, match=r"running totals are dense.*8000000000000 bytes"):
        A.cumsum(axis=0)
    assert A[:3].cumsum(axis=0).shape == (3, 10**6)


def test_invalid_input_raises() -> None:
    A = sp.asarray(np.eye(3))
    with pytest.raises(AxisError, match="axis 2 is out of range"):
        sp.sort(A, 2)
    with pytest.raises(np.exceptions.AxisError):
        sp.sort(sp.asarray(5))
    with pytest.raises(ShapeError, match=r"axis= is required .*\(3, 3\)"):
        sp.cumulative_sum(A)
    with pytest.raises(UnsupportedError, match="imaginary"):
        sp.asarray([1j]).cumsum(dtype=float)
    with pytest.raises(UnsupportedError, match=r"np\.sort\(order=\)"):
        np.sort(A, order="x")


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_argsort(axis: int, descending: bool) -> None:
    a = np.array([[3.0, 0, np.nan, -1, 0], [0, 2, 2, 0, np.nan]])
    A = sp.asarray(a)
    found = sp.argsort(A, axis, descending)
    assert found.dtype == np.int64
    ordered = np.take_along_axis(a, found, axis)
    np.testing.assert_array_equal(ordered, sp.sort(A, axis, descending).to_numpy())
    equal = np.equal(*(np.delete(ordered, k, axis) for k in (0, -1)))
    assert (np.diff(found, axis=axis)[equal] > 0).all()


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_diff(axis: int, n: int) -> None:
    for a in (np.array([[3, 0, 1], [0, 2, 2]]), np.array([[True, False, False], [True, True, False]])):
        np.testing.assert_array_equal(sp.diff(sp.asarray(a), axis, n).to_numpy(), np.diff(a, n, axis))
        edges = {"prepend": a, "append": a * 0}
        found = sp.diff(sp.asarray(a), axis, n, **{name: sp.asarray(edge) for name, edge in edges.items()})
        np.testing.assert_array_equal(found.to_numpy(), np.diff(a, n, axis, **edges))
    with pytest.raises(InvalidValueError, match="-1"):
        sp.diff(sp.asarray([1]), n=-1)


def test_diff_exceeding_size() -> None:
    a = np.arange(6).reshape(2, 3)
    assert sp.diff(sp.asarray(a), n=2**70).shape == np.diff(a, n=99).shape == (2, 0)
