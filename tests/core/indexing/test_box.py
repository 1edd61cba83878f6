"""Boxes: overlap fractions."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparrow.core.indexing import Box

RANGES = st.builds(range, st.integers(0, 9), st.integers(0, 12), st.integers(1, 4))
BOUNDS = st.tuples(st.integers(0, 12), st.integers(0, 5)).map(lambda pair: (pair[0], sum(pair)))


@given(st.lists(st.tuples(RANGES, BOUNDS), min_size=1, max_size=3))
def test_overlap_fractions(dims: list[tuple[range, tuple[int, int]]]) -> None:
    box = Box(tuple(r for r, _ in dims))
    low, high = (np.array([[bounds[k] for _, bounds in dims]]) for k in (0, 1))
    points = list(itertools.product(*(range(first, last + 1) for _, (first, last) in dims)))
    inside = sum(all(point[k] in r for k, r in enumerate(box.ranges)) for point in points)
    np.testing.assert_allclose(box.overlap_fractions(low, high), [inside / len(points)])
