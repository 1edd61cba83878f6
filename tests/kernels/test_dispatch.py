"""Dispatch between NumPy and kernels: sizes, accumulated work, forced choices."""

from __future__ import annotations

import pytest

import sparrow.testing
from sparrow.kernels.dispatch import prefer_numpy


def test_small_work_never_loads_a_kernel() -> None:
    kernel = object()
    with sparrow.testing.tune("dispatch", small_work=10, load_work=100):
        assert all(prefer_numpy(kernel, 10) for _ in range(1000))


def test_numpy_works_until_loading_costs_less() -> None:
    first, second = object(), object()
    with sparrow.testing.tune("dispatch", small_work=10, load_work=100):
        assert [prefer_numpy(first, 40) for _ in range(4)] == [True, True, False, False]
        assert not prefer_numpy(first, 11)  # the kernel counts as loaded now
        assert prefer_numpy(first, 10)  # NumPy is as fast
        assert prefer_numpy(second, 100)
        assert not prefer_numpy(second, 11)


def test_work_beyond_loading_uses_the_kernel_at_once() -> None:
    kernel = object()
    with sparrow.testing.tune("dispatch", small_work=10, load_work=100):
        assert not prefer_numpy(kernel, 101)
        assert not prefer_numpy(kernel, 11)


@pytest.mark.parametrize("way", ["numpy", "numba"])
@pytest.mark.parametrize("work", [0, 1 << 12, 1 << 40])
def test_strategies_force_the_choice(way: str, work: int) -> None:
    kernel = object()
    with sparrow.testing.strategy(way):
        assert prefer_numpy(kernel, work) == (way == "numpy")
    assert prefer_numpy(kernel, 1)
