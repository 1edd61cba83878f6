"""Row kernels against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparrow.kernels.coo import Block, CSRBlock, sort_block, sort_to_csr
from sparrow.kernels.rows import copy_rows, indptr_from_sorted, repeat_rows, stream_copy
from sparrow.testing import strategy, tune


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_indptr_from_sorted(kind: Any) -> None:
    rng = np.random.default_rng(1)
    for start, stop, count in [(0, 5, 9), (3, 20, 6), (7, 8, 0), (4, 4, 0), (2**31 - 9, 2**31 - 1, 30)]:
        rows = np.sort(rng.integers(start, max(stop, start + 1), count)).astype(kind)
        wanted = np.searchsorted(rows, np.arange(start, stop + 1))
        np.testing.assert_array_equal(indptr_from_sorted(rows, start, stop), wanted)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("most", [1, 2, 9, 40])
def test_repeat_rows(most: int, kind: Any) -> None:
    rng = np.random.default_rng(most)
    for first in (0, 5):
        lengths = rng.integers(0, most + 1, 50)
        lengths[rng.integers(50)] = 0
        lengths[-2:] = 3, 0
        indptr = np.append(0, np.cumsum(lengths)) + first
        values = rng.integers(1, 2**31 - 1, 50)
        cells = np.full(indptr[-1] + 20, -1, kind)
        repeat_rows(values, indptr, cells[3:-3])
        wanted = np.full_like(cells, -1)
        wanted[3 + first : 3 + indptr[-1]] = np.repeat(values, lengths)
        np.testing.assert_array_equal(cells, wanted)


@pytest.mark.parametrize("kind", ["bool", "int8", "float16", "int32", "float64", "complex64", "complex128"])
def test_copy_rows(kind: str) -> None:
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 5, 30)
    indptr = np.append(0, np.cumsum(lengths))
    source = rng.integers(0, 2, indptr[-1]).astype(kind)
    order = rng.permutation(30)
    begins = np.empty(30, np.int64)
    begins[order] = np.cumsum(lengths[order]) - lengths[order]
    out = np.zeros_like(source)
    copy_rows(indptr[:-1], indptr[1:], begins, source, out)
    wanted = [source[indptr[row] : indptr[row + 1]] for row in order]
    np.testing.assert_array_equal(out, np.concatenate(wanted))


@pytest.mark.parametrize(("count", "height"), [(300_000, 5_000), (5_000, 700), (50, 90_000)])
def test_sort_to_csr(count: int, height: int) -> None:
    rng = np.random.default_rng(3)
    rows, cols = (rng.integers(0, height, count).astype(np.int32) for _ in range(2))
    block = Block((rows, cols), rng.random(count))
    begins, columns, values = sort_to_csr(block, (height, height))
    order = np.argsort(rows, kind="stable")
    np.testing.assert_array_equal(np.diff(begins), np.bincount(rows, minlength=height))
    np.testing.assert_array_equal(columns, cols[order])
    np.testing.assert_array_equal(values, block.values[order])
    ordered = sort_block(block, (height, height), leading=1)
    np.testing.assert_array_equal(ordered.coords[0], rows[order])
    np.testing.assert_array_equal(ordered.values, values)


@pytest.mark.parametrize("dtype", ["uint32", "float32", "int64", "float64", "complex64", "complex128"])
def test_stream_copy(dtype: str) -> None:
    rng = np.random.default_rng(2)
    for count in (0, 1, 5, 8, 15, 16, 17, 100):
        for start in range(9):
            source = (rng.integers(-9, 9, count) * 1.5).astype(dtype)
            out = np.full(count + start + 3, 7, dtype)
            stream_copy(source, out[start : start + count])
            np.testing.assert_array_equal(out[start : start + count], source)
            assert (out[:start] == 7).all()
            assert (out[start + count :] == 7).all()


@tune("kernels", stream_copy_min_bytes=1 << 16)
def test_large_arrays_bypass_the_cache() -> None:
    rng = np.random.default_rng(3)
    n = 10_000
    dtypes: list[Any] = [np.float64, np.float16, np.int8, np.complex128]
    for dtype in dtypes:  # with and without a non-temporal copy
        block = Block((np.arange(n, dtype=np.int32), rng.integers(0, 9, n)), rng.integers(0, 9, n).astype(dtype))
        arrays = [np.full(2 * n, -1, kind) for kind in (np.int32, np.int64, dtype)]
        block.write(arrays, 33, 33 + n)
        for array, column in zip(arrays, (*block.coords, block.values), strict=True):
            np.testing.assert_array_equal(array[33 : 33 + n], column)
            assert (array[:33] == -1).all()
            assert (array[33 + n :] == -1).all()


@strategy("numba")
def test_counting_sort_gives_csr_block() -> None:
    rng = np.random.default_rng(4)
    n, height = 20_000, 300
    rows, columns = rng.integers(0, height // 2, n).astype(np.int32) * 2, np.sort(rng.integers(0, 10**6, n))
    found = sort_block(Block((rows, columns), np.arange(n)), (height, 10**6), leading=1)
    assert isinstance(found, CSRBlock)
    order = np.argsort(rows, kind="stable")
    np.testing.assert_array_equal(found.heads.coords[0], np.unique(rows))
    wanted: list[Any] = [rows, columns, np.arange(n)]
    for array, column in zip((*found.coords, found.values), wanted, strict=True):
        np.testing.assert_array_equal(array, column[order])
    np.testing.assert_array_equal(found.indptr(height), np.searchsorted(rows[order], np.arange(height + 1)))
    short = sort_block(Block((rows, columns), np.arange(n)), (10 * n // 3, 10**6), leading=1)
    assert isinstance(short, CSRBlock)
    assert not isinstance(sort_block(Block((np.arange(n)[::-1], columns), columns), (n, 10**6), leading=1), CSRBlock)


def test_csr_block_of_sorted_block() -> None:
    rows, columns = np.array([2, 2, 2, 5, 9, 9], np.int32), np.array([0, 4, 7, 1, 3, 8], np.int32)
    found = CSRBlock.of(Block((rows, columns), np.arange(6.0)))
    np.testing.assert_array_equal(found.heads.coords[0], [2, 5, 9])
    np.testing.assert_array_equal(found.heads.pointers, [0, 3, 4, 6])
    assert found.coords[0] is rows
    empty = CSRBlock.of(Block((rows[:0], columns[:0]), np.zeros(0)))
    np.testing.assert_array_equal(empty.indptr(3), [0, 0, 0, 0])
