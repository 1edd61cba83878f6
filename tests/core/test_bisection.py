"""Bisection without a copy of the column."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparrow.core.bisection import bisect_sorted
from sparrow.core.indexing import Selection, View

NUMBERS = st.sampled_from([-(2**40), -(2**31), -1, 0, 3, 5, 2**31 - 2, 2**31 - 1, 2**31, 2**40])


@given(
    st.lists(st.sampled_from([-5, 0, 3, 4, 2**31 - 1])), st.one_of(NUMBERS, st.lists(NUMBERS)),
    st.sampled_from(["left", "right"]),
)  # fmt: skip
def test_positions_are_those_of_numpy(column: list[int], wanted: Any, side: Literal["left", "right"]) -> None:
    narrow = np.array(sorted(column), np.int32)
    wanted = np.array(wanted, np.int64)
    np.testing.assert_array_equal(
        bisect_sorted(narrow, wanted, side), np.searchsorted(narrow.astype(np.int64), wanted, side)
    )


@pytest.mark.parametrize("wanted", [7, np.int64(7), np.array([7, 9])])
def test_the_column_is_not_cast(wanted: Any) -> None:
    column = np.arange(200_000, dtype=np.int32)
    tracemalloc.start()
    bisect_sorted(column, wanted)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < column.nbytes // 8


@given(st.sets(st.integers(0, 400), min_size=1), st.integers(1, 9))
def test_parts_of_a_selection_cover_it(members: set[int], limit: int) -> None:
    rows = np.array(sorted(members))
    parts = Selection(View.identity((401,)).then(rows)).parts(limit)
    assert len(parts) <= limit
    covered = [set(part.ranges[0]) for part in parts]
    assert members <= set().union(*covered)
    assert all(one.isdisjoint(other) for one, other in itertools.pairwise(covered))
    runs = 1 + int(np.count_nonzero(np.diff(rows) > 1))
    assert runs > limit or set().union(*covered) == members
