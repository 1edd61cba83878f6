"""Distinct values: NaN, fill values and shapes beyond memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.errors import NumberRangeError, TooLargeError, UnsupportedError

CASES = [
    (np.array([[0, 2, 0], [3, 0, 2]]), 0),
    (np.array([[0.0, np.nan], [np.nan, -1.0], [0.0, np.inf]]), 0),
    (np.array([[np.nan, 1.0], [np.nan, 2.0]]), np.nan),
    (np.array([7, 7, 7]), 7),
    (np.array([True, False, True]), False),
    (np.zeros((0, 3)), 0),
    (np.array(2.5), 0),
    (np.array([1j, 0, 1j, 2]), 0),
]


def tensor(a: np.ndarray[Any, Any], fill: Any) -> sp.Tensor:
    at = (a == a) if fill != fill else a != fill
    if not a.ndim:
        return sp.asarray(a)
    return sp.from_coords(np.array(at.nonzero()), a[at], shape=a.shape, fill_value=a.dtype.type(fill))


@pytest.mark.parametrize(("a", "fill"), CASES)
def test_matches_numpy(a: np.ndarray[Any, Any], fill: Any) -> None:
    A = tensor(a, fill)
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        found, wanted = getattr(sp, name)(A), getattr(np, name)(a)
        assert found._fields == wanted._fields
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
    wanted = np.unique(a, equal_nan=False)
    np.testing.assert_array_equal(sp.unique_values(A), wanted)
    np.testing.assert_array_equal(np.unique_values(A), wanted)
    for values in ([0, 2], a, [], np.nan):
        for invert in (False, True):
            found = sp.isin(A, values, invert=invert)
            assert isinstance(found, sp.Tensor)
            np.testing.assert_array_equal(found.to_numpy(), np.isin(a, values, invert=invert))
    np.testing.assert_array_equal(sp.isin(a, A), np.isin(a, a))


@pytest.mark.parametrize("dtype", [np.int8, np.float64, np.complex128, bool])
def test_values_counted_by_blocks(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    dense = (rng.integers(-9, 10, (40, 50)) * (rng.random((40, 50)) < 0.5)).astype(dtype)
    if np.dtype(dtype).kind in "fc":
        dense[::7, ::3] = np.nan
    A = sp.concat([sp.asarray(dense[k : k + 4]) for k in range(0, 40, 4)])
    with (
        sparrow.testing.tune("stream", partition_rows=100, min_partition_rows=10),
        sparrow.testing.tune("functions", merged_values=5, counted_values_share=1e9),
    ):
        found = sp.unique_counts(A)
        counts = np.histogram(A, 7, range=(-5, 5))[0] if np.dtype(dtype).kind in "if" else None
    expected = np.unique_counts(dense)
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.counts.tolist() == expected.counts.tolist()
    if counts is not None:
        assert counts.tolist() == np.histogram(dense, 7, range=(-5, 5))[0].tolist()


def test_long_tensors() -> None:
    A = sp.from_coords([[5, 7, 9], [0, 0, 1]], [2.0, np.nan, 2.0], shape=(2**40, 2**20))
    found = sp.unique_counts(A)
    np.testing.assert_array_equal(found.values, [0, 2, np.nan])
    assert found.counts.tolist() == [2**60 - 3, 2, 1]
    assert sp.isin(A, [2, 5]).nnz == 2
    with pytest.raises(TooLargeError):
        sp.unique_inverse(A)
    with pytest.raises(TooLargeError, match="fill NaN"):
        sp.unique_values(A / A)


@pytest.mark.parametrize(("one", "other"), [(None, [1]), ([1], None), ([1], object())])
def test_unsupported_operands_raise(one: Any, other: Any) -> None:
    with pytest.raises(UnsupportedError):
        sp.isin(one, other)
    with pytest.raises(UnsupportedError):
        sp.isin(sp.asarray([1]) if one else one, other)


def test_count_overflow_raises() -> None:
    huge = sp.from_coords([[5], [7]], [2.0], shape=(2**40, 2**40))
    for count in (sp.unique_counts, np.histogram):
        with pytest.raises(NumberRangeError, match="exceed the largest count"):
            count(huge)
