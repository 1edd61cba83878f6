"""Degrees and histograms that are counted chunk by chunk, beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparrow.explorer.counters import DegreeCounter, ValueHistogram
from sparrow.testing import tune


@given(st.lists(hnp.arrays(np.int32, st.integers(0, 30), elements=st.integers(0, 19)), max_size=4), st.booleans())
def test_degrees_are_those_of_bincount(chunks: list[Any], ascending: bool) -> None:
    counter = DegreeCounter(20)
    for chunk in chunks:
        counter.add(np.sort(chunk) if ascending else chunk)
    everything = np.concatenate([np.zeros(0, np.int32), *chunks])
    degrees = np.bincount(everything, minlength=20)
    found = counter.summary()
    distinct, counts = np.unique(degrees[degrees > 0], return_counts=True)
    assert (found["degree"], found["count"]) == (distinct.tolist(), counts.tolist())
    assert found["empty"] == (degrees == 0).sum()


def test_many_ids_are_sampled() -> None:
    with tune("explorer", degree_ids=1000):
        counter = DegreeCounter(100_000)
        counter.add(np.repeat(np.arange(0, 100_000, 2), 3))
        found = counter.summary()
    assert found["every"] == 101
    assert found["degree"] == [3.0]
    assert found["count"][0] == pytest.approx(50_000, rel=0.02)


def test_many_degrees_are_grouped() -> None:
    counter = DegreeCounter(1000)
    counter.add(np.repeat(np.arange(1000), np.arange(1, 1001)))
    found = counter.summary()
    assert len(found["degree"]) < 40
    assert max(found["count"]) == pytest.approx(1.0)  # each degree once, so one position a degree
    assert found["largest"] == 1000


VALUES = st.one_of(
    hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e12, 1e12, allow_subnormal=False)),
    hnp.arrays(np.int64, st.integers(1, 60), elements=st.integers(-1000, 1000)),
    hnp.arrays(np.uint8, st.integers(1, 60)),
    hnp.arrays(np.bool_, st.integers(1, 60)),
)


@given(VALUES, st.integers(1, 4), st.sampled_from([0, 3, 24]))
def test_histogram_counts_every_value(values: Any, parts: int, categories: int) -> None:
    with tune("explorer", value_categories=categories):
        histogram = ValueHistogram(values.dtype)
        for part in np.array_split(values, parts):
            histogram.add(part)
        found = histogram.summary()
    assert sum(found["count"]) + found["outside"] == len(values)
    assert (found["least"], found["largest"]) == (float(values.min()), float(values.max()))
    if found["scale"] == "categories":
        distinct, counts = np.unique(values, return_counts=True)
        assert found["count"] == counts.tolist()
        assert len(found["values"]) == len(distinct)
    elif found["scale"] == "linear":
        edges = np.array(found["edges"])
        slack = 1e-6 * max(np.abs(edges).max(), np.abs(values.astype(float)).max())
        below = [(values.astype(float) < edge - slack).sum() for edge in edges[1:]]
        above = [(values.astype(float) < edge + slack).sum() for edge in edges[1:]]
        total = np.cumsum(found["count"])
        assert (below <= total).all()
        assert (total <= above).all()


def test_range_doubles_exactly() -> None:
    histogram = ValueHistogram(np.dtype(np.float64))
    rng = np.random.default_rng(0)
    chunks = [rng.random(1000), rng.random(1000) * 50 - 20, rng.random(1000) * 1e4]
    for chunk in chunks:
        histogram.add(chunk)
    found = histogram.summary()
    counts, _ = np.histogram(np.concatenate(chunks), found["edges"])
    assert found["count"] == counts.tolist()


def test_skewed_values_have_a_logarithmic_scale() -> None:
    histogram = ValueHistogram(np.dtype(np.float32))
    histogram.add((10 ** np.linspace(-3, 3, 5000)).astype(np.float32))
    histogram.add(np.array([0.0, -2.0], np.float32))
    found = histogram.summary()
    assert (found["scale"], found["outside"]) == ("log", 2)
    assert sum(found["count"]) == 5000


def test_nan_infinity_and_complex_values() -> None:
    histogram = ValueHistogram(np.dtype(np.float64))
    histogram.add(np.array([np.nan, np.inf, -np.inf, *range(40)]))
    found = histogram.summary()
    assert (found["nan"], found["least"], found["largest"]) == (1, "-inf", "inf")
    assert sum(found["count"]) == 42
    histogram = ValueHistogram(np.dtype(np.complex128))
    histogram.add(np.array([3 + 4j, -5j]))
    assert histogram.summary()["values"] == ["5"]
