"""Implicit conversions to dense arrays."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import PerformanceWarning, TooLargeError
from sparrow.testing import tune


def one_entry(*shape: int) -> Any:
    return sp.from_coords([[0]] * len(shape), [1.0], shape=shape)


@pytest.mark.parametrize("asked", [np.asarray, np.array, lambda A: np.asarray(A.to_format("csr"))])
def test_implicit_dense_array_too_large(asked: Any) -> None:
    told = r"of shape \(1000, 1000000\) .*8\.00 GB, its stored elements 16 bytes.*to_scipy\(\)"
    with sp.config(memory_limit="50GB"), pytest.raises(TooLargeError, match=told):
        asked(one_entry(1_000, 1_000_000))
    with sp.config(memory_limit="1GB"), pytest.raises(TooLargeError, match=r"memory limit.*to_scipy"):
        asked(one_entry(1_000, 1_000_000))


def test_dense_array_warns_at_call_site() -> None:
    with pytest.warns(PerformanceWarning, match=r"takes 104 MB, its stored elements 16 bytes: to_scipy\(\)") as told:
        array = np.asarray(one_entry(13, 1_000_000))
    assert array[0, 0] == array.sum() == 1
    assert told[0].filename == __file__


def test_dense_array_without_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.asarray(one_entry(1_000, 1_000)).sum() == 1
        assert one_entry(13, 1_000_000).to_numpy().sum() == 1
        filled = np.arange(10_000.0).reshape(100, 100)
        with tune("interop", silent_dense_bytes=1_000, max_dense_bytes=2_000):
            assert np.array_equal(np.asarray(sp.asarray(filled)), filled)
            assert np.array_equal(np.asarray(sp.asarray(filled), dtype="int32"), filled)


@pytest.mark.parametrize("shape", [(5000,), (70, 80), (7, 0, 9), (9, 25, 25), (), (1,) * 62 + (3, 4)])
@pytest.mark.parametrize("fill", [0, 3])
def test_to_numpy_many_elements(shape: tuple[int, ...], fill: int) -> None:
    cells = np.random.default_rng(0).integers(0, 9, shape)
    tensor = sp.asarray(cells).refill(fill)
    np.testing.assert_array_equal(tensor.to_numpy(), cells)
    np.testing.assert_array_equal(tensor + cells, 2 * cells)
    np.testing.assert_array_equal(sp.asarray(cells) * (cells + 1), cells * (cells + 1))
    for initial in (False, True) if len(shape) > 1 else ():
        found = sp.cumulative_sum(tensor, axis=1, include_initial=initial)
        np.testing.assert_array_equal(found, np.cumulative_sum(cells, axis=1, include_initial=initial))
    np.testing.assert_array_equal(tensor[:1].to_numpy() if shape else tensor.to_numpy(), cells[:1] if shape else cells)
