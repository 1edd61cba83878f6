"""Numbers for coordinates along several letters, by tables and by search in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparrow.engines.stream.product import indexing
from sparrow.engines.stream.product.indexing import Numbering, members
from sparrow.errors import TooLargeError
from sparrow.runtime.settings import config


@given(st.data())
def test_numbers_ascend_with_the_coordinates_and_are_found_again(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([3, 2**20, 2**40, 2**62]), min_size=1, max_size=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    pool = [rng.integers(0, size, 6) for size in sizes]
    own, other = (
        [each[rng.integers(0, 6, n)] for each in pool] for n in data.draw(st.tuples(*[st.integers(0, 40)] * 2))
    )
    cells = sorted(set(zip(*(column.tolist() for column in own), strict=True)))
    found: list[Any] = []
    for hashed in (0, 1 << 14):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(indexing, "_HASHED", hashed)
            patch.setattr(indexing, "_FEW", 0)
            numbering = Numbering(own, sizes)
            numbers = numbering.of(other, len(other[0]))
            assert numbering.own is not None
            back = numbering.columns(numbering.own, own, [column.dtype for column in own])
            for column, given_one in zip(back, own, strict=True):
                np.testing.assert_array_equal(column, given_one)
            found.append((numbering.own.tolist(), numbers.tolist(), numbering.size))
            np.testing.assert_array_equal(members(other[0], np.unique(own[0])), np.isin(other[0], own[0]))
    assert found[0] == found[1]
    mine, theirs, size = found[0]
    ranked = dict(zip(zip(*(column.tolist() for column in own), strict=True), mine, strict=True))
    assert sorted(ranked, key=ranked.__getitem__) == cells
    for cell, number in zip(zip(*(column.tolist() for column in other), strict=True), theirs, strict=True):
        assert ranked.get(cell, size) == number or (cell not in ranked and number not in ranked.values())


def test_a_table_is_reserved_while_it_is_made() -> None:
    ids = np.random.default_rng(2).integers(0, 2**40, indexing._HASHED)
    with config(memory_limit=400_000), pytest.raises(TooLargeError, match=r"numbers for the coordinates .* 459 kB"):
        Numbering([ids], [2**40])
