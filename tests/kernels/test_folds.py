"""Folds: runs, merged states and scatter agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparrow.kernels.folds import ExtremumFold, MomentsFold, UfuncFold
from sparrow.kernels.runs import group_starts
from sparrow.testing import strategy

FLOAT = np.dtype(np.float64)
numbers = st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.5, 3.25, np.inf, -np.inf, np.nan]), min_size=1, max_size=30)


def ones(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.zeros(len(values), np.int64)


def test_group_starts() -> None:
    columns = [np.array([0, 0, 0, 2, 2]), np.array([1, 1, 3, 3, 3])]
    assert group_starts(columns, 5).tolist() == [0, 2, 3]
    assert group_starts([], 5).tolist() == [0]
    assert group_starts(columns, 0).tolist() == []


@given(st.lists(st.integers(0, 3), max_size=30))
def test_group_starts_compiled(given: list[int]) -> None:
    column = np.array(given, np.int32)
    with strategy("compiled"):
        compiled = group_starts([column], len(column))
    expected = [k for k in range(len(given)) if k == 0 or given[k] != given[k - 1]]
    assert compiled.tolist() == group_starts([column], len(column)).tolist() == expected
    assert compiled.dtype == np.int64


@pytest.mark.parametrize("ufunc", [np.add, np.maximum, np.fmin, np.logical_or])
def test_runs_equal_scatter(ufunc: np.ufunc) -> None:
    values = np.array([1.5, -0.0, np.nan, np.inf, 2.0])
    kind = np.dtype(bool if ufunc is np.logical_or else float)
    fold = UfuncFold(ufunc, kind, 0)
    with np.errstate(all="ignore"):
        once = fold.runs(values, np.array([0]), None)[0]
        twice = fold.runs(np.concatenate([values, values]), np.array([0, 5]), None)[0]
    np.testing.assert_array_equal(twice, np.repeat(once, 2))


def test_moments_far_from_zero_are_accurate() -> None:
    values = 1e9 + np.random.default_rng(0).random(1000)
    fold = MomentsFold(FLOAT)
    halves = [fold.runs(part, np.zeros(1, np.int64), None) for part in (values[:300], values[300:])]
    merged = fold.merge(halves[0], np.array([300]), halves[1], np.array([700]))
    state = fold.empty(1)
    fold.scatter(state, ones(values), values, None)
    for mean, away, *_ in (merged, state):
        assert mean[0] == pytest.approx(values.mean(), rel=1e-15)
        assert away[0] / 1000 == pytest.approx(values.var(), rel=1e-6)


@given(numbers, st.data(), st.booleans())
def test_extremum_equals_numpy(given: list[float], data: st.DataObject, largest: bool) -> None:
    values = np.array(given)
    cells = len(values) + 3
    positions = np.sort(np.array(data.draw(st.permutations(range(cells)))[: len(values)]))
    cut = data.draw(st.integers(0, len(values)))
    fold = ExtremumFold(FLOAT, largest)
    start = np.zeros(1, np.int64)
    if 0 < cut < len(values):
        parts = [fold.runs(values[at], start, positions[at]) for at in (slice(0, cut), slice(cut, None))]
        found = fold.merge(parts[0], np.array([cut]), parts[1], np.array([len(values) - cut]))
    else:
        found = fold.runs(values, start, positions)
    scattered = fold.empty(1)
    fold.scatter(scattered, ones(values)[:cut], values[:cut], positions[:cut])
    fold.scatter(scattered, ones(values)[cut:], values[cut:], positions[cut:])
    best = int(np.argmax(values) if largest else np.argmin(values))
    gap = next(k for k in range(cells + 1) if positions[0] + k not in positions)
    for value, where, first, follows, *_ in (found, scattered):
        np.testing.assert_array_equal(value[0], values[best])
        assert (where[0], first[0], follows[0]) == (positions[best], positions[0], gap)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "int64", "float16", "float32"])
@pytest.mark.parametrize("largest", [True, False])
def test_extremum_of_every_dtype(dtype: str, largest: bool) -> None:
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        values = rng.integers(limits.min, limits.max, 200, dtype=kind, endpoint=True)
    else:
        values = (rng.standard_normal(200) * 50).round().astype(kind)
    keys = rng.integers(0, 7, 200)
    fold = ExtremumFold(kind, largest)
    state = fold.empty(7)
    fold.scatter(state, keys, values, np.arange(200))
    for key in range(7):
        own = np.flatnonzero(keys == key)
        best = own[np.argmax(values[own]) if largest else np.argmin(values[own])]
        assert (state[0][key], state[1][key]) == (values[best], best)


def test_keys_out_of_range_are_ignored() -> None:
    keys, values = np.array([0, 5, -1, 1]), np.arange(4.0)
    moments = MomentsFold(FLOAT)
    state = moments.empty(2)
    moments.scatter(state, keys, values, None)
    assert state[2].tolist() == [1, 1]
    best = ExtremumFold(FLOAT, True)
    found = best.empty(2)
    best.scatter(found, keys, values, np.arange(4))
    assert found[1].tolist() == [0, 3]


def test_sums_wrap_and_widen() -> None:
    fold = UfuncFold(np.add, np.dtype(np.int64), 0)
    values = np.full(4, 2**62)
    assert fold.runs(values, np.array([0, 1]), None)[0].tolist() == [2**62, -(2**62)]
    small = np.full(3, 100, np.int8)
    state = fold.empty(1)
    fold.scatter(state, np.zeros(3, np.int64), small, None)
    assert state[0].tolist() == [300]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 130, 5000])
def test_a_run_alone_has_the_same_bits(dtype: str, length: int) -> None:
    rng = np.random.default_rng(length)
    values = (rng.standard_normal(length) * 10.0 ** rng.integers(-5, 6, length)).astype(dtype)
    for ufunc in (np.add, np.multiply, np.maximum, np.logical_or):
        fold = UfuncFold(ufunc, np.dtype(bool if ufunc is np.logical_or else dtype), 0)
        with np.errstate(all="ignore"):
            alone = fold.runs(values, np.zeros(1, np.int64), None)[0]
            beside = fold.runs(np.concatenate([values, values[:3]]), np.array([0, length]), None)[0][:1]
        assert alone.tobytes() == beside.tobytes()
