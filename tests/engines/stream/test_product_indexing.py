"""Composite indices, by hash table and by binary search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow.testing
from sparrow.engines.stream.product.indexing import CompositeIndex, isin_sorted
from sparrow.errors import TooLargeError
from sparrow.runtime.settings import config


@given(st.data())
def test_codes_ascend_with_coordinates_and_decode(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([3, 30, 2**20, 2**40, 2**62]), min_size=1, max_size=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    pool = [rng.integers(0, size, 6) for size in sizes]
    own, other = (
        [each[rng.integers(0, 6, n)] for each in pool] for n in data.draw(st.tuples(*[st.integers(0, 40)] * 2))
    )
    cells = sorted(set(zip(*(column.tolist() for column in own), strict=True)))
    found: list[Any] = []
    for hashed in (0, 1 << 14):
        with sparrow.testing.tune("product", hash_min_values=hashed, dense_codes_min=0):
            index = CompositeIndex(own, sizes)
            codes = index.encode(other, len(other[0]))
            assert index.codes is not None
            back = index.decode(index.codes, own, [column.dtype for column in own])
            for column, given_one in zip(back, own, strict=True):
                np.testing.assert_array_equal(column, given_one)
            found.append((index.codes.tolist(), codes.tolist(), index.size))
            np.testing.assert_array_equal(isin_sorted(other[0], np.unique(own[0])), np.isin(other[0], own[0]))
    assert found[0] == found[1]
    mine, theirs, size = found[0]
    ranked = dict(zip(zip(*(column.tolist() for column in own), strict=True), mine, strict=True))
    assert sorted(ranked, key=ranked.__getitem__) == cells
    for cell, code in zip(zip(*(column.tolist() for column in other), strict=True), theirs, strict=True):
        assert ranked.get(cell, size) == code or (cell not in ranked and code not in ranked.values())


def test_hash_table_memory_is_reserved() -> None:
    ids = np.random.default_rng(2).integers(0, 2**40, sparrow.testing.tuning("product").hash_min_values)
    with (
        config(memory_limit=400_000),
        pytest.raises(TooLargeError, match=r"the hash table of a product's coordinates .* 459 kB"),
    ):
        CompositeIndex([ids], [2**40])
