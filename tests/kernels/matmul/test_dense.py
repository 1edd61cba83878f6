"""SpMV and SpMM kernels against dense arithmetic."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparrow.kernels.coo import accumulator_dtype
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul.dense import coo_matvec, mttkrp, sorted_coo_matvec


def elements(dense: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rows, cols = dense.nonzero()
    return as_readonly(rows.astype(np.int32)), as_readonly(cols.astype(np.int32)), as_readonly(dense[rows, cols])


def sum_runs(rows: Any, cols: Any, values: Any, x: Any, height: int, cuts: list[int]) -> Any:
    """Return the product by the kernels of sorted elements, cut into chunks."""
    out = np.zeros((height, *x.shape[1:]), x.dtype)
    bounds = [0, *sorted(cuts), len(rows)]
    for start, stop in itertools.pairwise(bounds):
        if start == stop:
            continue
        part, edges = slice(start, stop), np.zeros((2, *x.shape[1:]), x.dtype)
        first, last = rows[start], rows[stop - 1]
        if x.ndim == 1:
            sorted_coo_matvec(rows[part], cols[part], values[part], as_readonly(x), out, edges)
        else:
            mttkrp(rows[part], cols[None, part], values[part], as_readonly(x), first, last, out, edges)
        out[first] += edges[0]
        out[last] += edges[1]
    return out


def scatter(rows: Any, cols: Any, values: Any, x: Any, out: Any) -> None:
    """Add elements in any order."""
    if x.ndim == 1:
        coo_matvec(rows, cols, values, as_readonly(x), out)
    else:
        mttkrp(rows, cols[None], values, as_readonly(x), -1, -1, out, np.zeros((2, x.shape[1])))


@given(st.integers(0, 99), st.lists(st.integers(0, 60), max_size=5), st.sampled_from([None, 1, 5, 8, 19]))
def test_coo_kernels_match_dense_product(seed: int, cuts: list[int], columns: int | None) -> None:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((9, 11)) < rng.random(), rng.integers(-4, 5, (9, 11)), 0).astype(float)
    x = rng.integers(-4, 5, (11,) if columns is None else (11, columns)).astype(float)
    rows, cols, values = elements(dense)
    cuts = [min(cut, len(rows)) for cut in cuts]
    np.testing.assert_array_equal(sum_runs(rows, cols, values, x, 9, cuts), dense @ x)
    shuffled = rng.permutation(len(rows))
    out = np.zeros_like(dense @ x)
    rows, cols, values = (as_readonly(a[shuffled]) for a in (rows, cols, values))
    scatter(rows, cols, values, x, out)
    np.testing.assert_array_equal(out, dense @ x)


@pytest.mark.parametrize("columns", [None, 8, 3])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_elements_outside_of_arrays_are_skipped(columns: int | None, kind: Any) -> None:
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((20, 300)) < 0.4, rng.integers(1, 9, (20, 300)), 0).astype(float)
    rows, cols, values = elements(dense)
    rows, cols = as_readonly(rows.astype(kind) - kind(4)), as_readonly(cols.astype(kind) - kind(150))
    x = rng.random((100,) if columns is None else (100, columns))
    out = np.zeros_like(dense[4:15, 150:250] @ x)
    scatter(rows, cols, values, x, out)
    np.testing.assert_allclose(out, dense[4:15, 150:250] @ x, rtol=1e-13)


@pytest.mark.parametrize("columns", [None, 8, 2])
def test_absent_elements_annihilate_nan(columns: int | None) -> None:
    rows, cols, values = elements(np.array([[np.inf, 0, 0], [0, 1.0, 0], [0, 0, 2.0]]))
    x = np.array([1.0, np.nan, np.inf])
    x = x if columns is None else np.repeat(x[:, None], columns, axis=1)
    expected = np.array([np.inf, np.nan, np.inf])
    found = sum_runs(rows, cols, values, x, 3, [1])
    np.testing.assert_array_equal(found.reshape(3, -1)[:, 0], expected)
    found = sum_runs(rows, cols, values, x, 3, [])
    np.testing.assert_array_equal(found.reshape(3, -1)[:, -1], expected)


def test_accumulator_dtypes() -> None:
    assert {str(accumulator_dtype(np.dtype(t))) for t in ("bool", "int8", "uint64", "int64")} == {"int64"}
    assert accumulator_dtype(np.dtype(np.float16)) == np.float32
    for kind in ("float32", "float64", "complex64", "complex128"):
        assert accumulator_dtype(np.dtype(kind)) == kind


def test_readonly_copies_non_contiguous_only() -> None:
    array = np.arange(6)
    assert np.shares_memory(as_readonly(array), array)
    assert array.flags.writeable
    assert not as_readonly(array).flags.writeable
    assert as_readonly(array[::2]).flags.c_contiguous
