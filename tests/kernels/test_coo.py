"""COO blocks: sorting, merging and deduplication against a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparrow.errors import DuplicateError, InvalidValueError
from sparrow.kernels.coo import (
    Block,
    CSRBlock,
    RowIndex,
    canonicalize,
    check_duplicates,
    concat_blocks,
    is_sorted,
    merge_blocks,
    sort_block,
)

ELEMENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-2, 2)), max_size=12)
RULES = ["sum", "last", "first", "min", "max"]


def block_of(elements: list[tuple[int, int, int]]) -> Block:
    array = np.array(elements, dtype=np.int64).reshape(-1, 3)
    return Block((array[:, 0], array[:, 1]), array[:, 2])


def as_dict(block: Block) -> dict[tuple[int, int], int]:
    return {(int(i), int(j)): int(v) for i, j, v in zip(*block.coords, block.values, strict=True)}


def reduce_by_rule(elements: list[tuple[int, int, int]], rule: str) -> dict[tuple[int, int], int]:
    combine: Any = {
        "sum": lambda a, b: a + b, "last": lambda a, b: b, "first": lambda a, b: a, "min": min, "max": max,
    }[rule]  # fmt: skip
    out: dict[tuple[int, int], int] = {}
    for i, j, v in elements:
        out[i, j] = combine(out[i, j], v) if (i, j) in out else v
    return out


@given(ELEMENTS, st.sampled_from(RULES), st.sampled_from([(4, 4), (2**62, 2**62)]))
def test_canonicalize(elements: list[tuple[int, int, int]], rule: Any, shape: tuple[int, int]) -> None:
    block = canonicalize(block_of(elements), shape, 0, rule)
    assert as_dict(block) == {cell: v for cell, v in reduce_by_rule(elements, rule).items() if v}
    assert list(as_dict(block)) == sorted(as_dict(block))
    assert is_sorted(block.coords, strict=True)


@given(ELEMENTS)
def test_duplicate_error_names_the_element(elements: list[tuple[int, int, int]]) -> None:
    seen = [cell[:2] for cell in elements]
    if len(set(seen)) == len(seen):
        canonicalize(block_of(elements), (4, 4), 0)
    else:
        with pytest.raises(DuplicateError) as caught:
            canonicalize(block_of(elements), (4, 4), 0)
        assert str(min(cell for cell in seen if seen.count(cell) > 1)) in str(caught.value)


@given(ELEMENTS, ELEMENTS, st.sampled_from(RULES))
def test_merge_blocks(a: list[tuple[int, int, int]], b: list[tuple[int, int, int]], rule: Any) -> None:
    old, new = (canonicalize(block_of(elements), (4, 4), 0, "last", keep_fill=True) for elements in (a, b))
    elements = [(*cell, v) for block in (old, new) for cell, v in as_dict(block).items()]
    assert as_dict(merge_blocks(old, new, (4, 4), rule)) == reduce_by_rule(elements, rule)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40))
def test_sums_run_in_input_order(values: list[float]) -> None:
    block = canonicalize(Block((np.zeros(len(values), int),), np.array(values)), (1,), None, "sum", keep_fill=True)
    total = values[0]
    for value in values[1:]:
        total += value
    assert block.values[0] == total


def test_fill_removal_of_nan_and_negative_zero() -> None:
    block = Block((np.array([0, 1, 2]),), np.array([np.nan, -0.0, 1.0]))
    assert canonicalize(block, (3,), 0.0).coords[0].tolist() == [0, 2]
    assert canonicalize(block, (3,), np.nan).coords[0].tolist() == [1, 2]


def test_sorting_moves_values() -> None:
    coords = np.array([[1, 0, 0], [0, 1, 1], [0, 1, 0], [1, 1, 1]]).T
    block = canonicalize(Block(tuple(coords), np.array([2, 1, 0, 3])), (2, 2, 2), None, keep_fill=True)
    assert np.array(block.coords).T.tolist() == [[0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]]
    assert block.values.tolist() == [0, 1, 2, 3]


def test_concat_blocks_of_nothing() -> None:
    empty = concat_blocks([], 3, np.dtype("int8"))
    assert (len(empty.coords), empty.count, empty.values.dtype.name) == (3, 0, "int8")


def test_unknown_duplicates_rule_raises() -> None:
    assert check_duplicates("sum") == "sum"
    with pytest.raises(InvalidValueError, match="'last'"):
        check_duplicates("mean")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "complex128"])
def test_sums_keep_the_dtype(dtype: str) -> None:
    block = Block((np.array([0, 0]),), np.array([1, 1]).astype(dtype))
    found = canonicalize(block, (1,), 0, "sum")
    assert found.values.dtype == dtype
    assert found.values[0] == np.add(block.values[:1], block.values[:1])[0]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "float64", "complex128"])
@pytest.mark.parametrize("height", [7, 20_000, 2**40])
def test_counting_sort_is_stable(dtype: str, height: int) -> None:
    rng = np.random.default_rng(height)
    kind = np.int64 if height > 2**31 else np.int32
    rows, columns = rng.integers(0, height, 5000).astype(kind), np.arange(5000, dtype=np.int32)
    values = rng.integers(0, 2, 5000).astype(dtype)
    found = sort_block(Block((rows, columns), values), (height, 5000), leading=1)
    order = np.argsort(rows, kind="stable")
    for mine, wanted in zip((*found.coords, found.values), (rows, columns, values), strict=True):
        assert mine.dtype == wanted.dtype
        np.testing.assert_array_equal(mine, wanted[order])
    again = sort_block(found, (height, 5000), leading=1)
    assert again is found


@given(st.lists(st.integers(0, 3), max_size=8), st.integers(0, 3))
def test_row_index_indptr(lengths: list[int], further: int) -> None:
    height = len(lengths) + further
    rows = np.repeat(np.arange(len(lengths)), lengths)
    block = Block((rows, np.arange(len(rows))), np.ones(len(rows)))
    assume(len(rows))
    wanted = np.cumsum([0, *lengths, *[0] * further])
    found = CSRBlock.of(block).indptr(height)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(block.indptr(height), wanted)
    heads = CSRBlock.of(block).heads
    before = heads.pointers.copy()
    heads.indptr(height)[:] = -1  # must be a copy: blocks share the index
    np.testing.assert_array_equal(heads.pointers, before)
    parts = [heads.between(k, k + 1) for k in range(len(before) - 1)]
    merged = RowIndex.concat(parts)
    np.testing.assert_array_equal(merged.pointers, before)
    np.testing.assert_array_equal(merged.coords[0], heads.coords[0])
