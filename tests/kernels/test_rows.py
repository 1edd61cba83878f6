"""Loops over compressed rows, against plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparrow.kernels.entries import Block, by_leading, in_order
from sparrow.kernels.rows import place_rows, pointers, repeat


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_pointers(kind: Any) -> None:
    rng = np.random.default_rng(1)
    for start, stop, count in [(0, 5, 9), (3, 20, 6), (7, 8, 0), (4, 4, 0), (2**31 - 9, 2**31 - 1, 30)]:
        rows = np.sort(rng.integers(start, max(stop, start + 1), count)).astype(kind)
        wanted = np.searchsorted(rows, np.arange(start, stop + 1))
        np.testing.assert_array_equal(pointers(rows, start, stop), wanted)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("most", [1, 2, 9, 40])
def test_what_stands_for_a_row_is_written_at_all_its_entries(most: int, kind: Any) -> None:
    rng = np.random.default_rng(most)
    for first in (0, 5):
        lengths = rng.integers(0, most + 1, 50)
        lengths[rng.integers(50)] = 0
        lengths[-2:] = 3, 0
        indptr = np.append(0, np.cumsum(lengths)) + first
        values = rng.integers(1, 2**31 - 1, 50)
        cells = np.full(indptr[-1] + 20, -1, kind)
        repeat(values, indptr, cells[3:-3])
        wanted = np.full_like(cells, -1)
        wanted[3 + first : 3 + indptr[-1]] = np.repeat(values, lengths)
        np.testing.assert_array_equal(cells, wanted)


@pytest.mark.parametrize("kind", ["bool", "int8", "float16", "int32", "float64", "complex64", "complex128"])
def test_rows_in_another_order(kind: str) -> None:
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 5, 30)
    indptr = np.append(0, np.cumsum(lengths))
    source = rng.integers(0, 2, indptr[-1]).astype(kind)
    order = rng.permutation(30)
    begins = np.empty(30, np.int64)
    begins[order] = np.cumsum(lengths[order]) - lengths[order]
    out = np.zeros_like(source)
    place_rows(indptr[:-1], indptr[1:], begins, source, out)
    wanted = [source[indptr[row] : indptr[row + 1]] for row in order]
    np.testing.assert_array_equal(out, np.concatenate(wanted))


@pytest.mark.parametrize(("count", "height"), [(300_000, 5_000), (5_000, 700), (50, 90_000)])
def test_entries_by_rows_are_those_sorted(count: int, height: int) -> None:
    rng = np.random.default_rng(3)
    rows, cols = (rng.integers(0, height, count).astype(np.int32) for _ in range(2))
    block = Block((rows, cols), rng.random(count))
    begins, columns, values = by_leading(block, (height, height))
    order = np.argsort(rows, kind="stable")
    np.testing.assert_array_equal(np.diff(begins), np.bincount(rows, minlength=height))
    np.testing.assert_array_equal(columns, cols[order])
    np.testing.assert_array_equal(values, block.values[order])
    ordered = in_order(block, (height, height), leading=1)
    np.testing.assert_array_equal(ordered.coords[0], rows[order])
    np.testing.assert_array_equal(ordered.values, values)
