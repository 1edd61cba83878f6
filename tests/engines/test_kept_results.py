"""Loops that evaluate lazy tensors cost in proportion to their steps."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.engines import shorten
from sparrow.runtime import memory
from sparrow.testing import observe, strategy, tune

SIDE = 20
DENSE = np.where(np.random.default_rng(0).random((SIDE, SIDE)) < 0.2, np.random.default_rng(1).random((SIDE, SIDE)), 0)
STEP = np.arange(SIDE) / SIDE


def power(A: Any, x: Any) -> Any:
    y = A @ x
    return y / y.max()


def converge(A: Any, x: Any) -> Any:
    y = A @ x
    y = y / y.sum()
    assert abs(y - x).max() >= 0
    return y


def scale(A: Any, x: Any) -> Any:
    return x / (x.max() + 1) + STEP * x


def peek(A: Any, x: Any) -> Any:
    assert x[3] >= 0
    return np.minimum(A @ x + x, 1)


def outer(A: Any, x: Any) -> Any:
    x = (np.outer(x, x) * A).sum(axis=1)
    return x / (x.sum() + 1)


def fibonacci(A: Any, x: Any) -> Any:
    y = A @ x + x
    return (y + x) / y.sum()


def count_stored(A: Any, x: Any) -> Any:
    assert np.count_nonzero(x) <= SIDE
    return np.minimum(A @ x, 1)


def show(A: Any, x: Any) -> Any:
    assert "(d0: 20" in repr(x) or isinstance(x, np.ndarray)
    return A @ x


def rank(A: Any, x: Any) -> Any:
    if isinstance(x, sp.Tensor):
        x.topk(2)
        x.hist(bins=3)
        sp.sql("select max(value) from x", x=x).fetchall()
    return A @ x / 3


def sort_and_add(A: Any, x: Any) -> Any:
    order = np.argsort(np.asarray(x), kind="stable")
    return x[order] + (STEP if isinstance(x, np.ndarray) else sp.asarray(STEP))


LOOPS = [power, converge, scale, peek, outer, fibonacci, count_stored, show, rank, sort_and_add]


def work(step: Callable[[Any, Any], Any], count: int) -> Counter[str]:
    """Repeat a step; compare it with NumPy and return what the evaluations do."""
    A: Any = sp.asarray(DENSE)
    x, expected = sp.asarray(np.ones(SIDE)), np.ones(SIDE)
    with observe("stream.evaluate", "stream.read", "engines.keep_result") as seen:
        for _ in range(count):
            x, expected = step(A, x), step(DENSE, expected)
        found = x.to_numpy()
    np.testing.assert_allclose(found, expected)
    return Counter(event for event, _ in seen)


@pytest.mark.parametrize("step", LOOPS)
def test_loops_that_evaluate_each_step(step: Callable[[Any, Any], Any]) -> None:
    with sp.config(threads=1):
        few, more, many = (work(step, count) for count in (16, 32, 64))
    for event, times in many.items():
        assert times - more[event] <= 2.5 * max(more[event] - few[event], 8), event
    assert many["engines.keep_result"] > more["engines.keep_result"] > 0


def test_loops_that_write_in_place() -> None:
    done = []
    for count in (20, 40, 80):
        a, b = sp.asarray(STEP).compute(), sp.asarray(STEP)
        x, y = STEP.copy(), STEP
        with sp.config(threads=1), observe("stream.evaluate", "stream.read") as seen:
            for _ in range(count):
                a[::2] += b[1::2]
                b = b + a
                x[::2] += y[1::2]
                y = y + x
        np.testing.assert_allclose(b.to_numpy(), y)
        done.append(len(seen))
    assert done[2] - done[1] <= 2.5 * (done[1] - done[0])


@pytest.mark.parametrize("step", LOOPS)
def test_bits_do_not_depend_on_what_was_evaluated_before(step: Callable[[Any, Any], Any]) -> None:
    A: Any = sp.asarray(DENSE)
    once = again = sp.asarray(np.ones(SIDE))
    for _ in range(12):
        once = step(A, once)
    for _ in range(12):
        again = step(A, again)
        again.to_numpy()
    assert once.to_numpy().tobytes() == again.to_numpy().tobytes()


@pytest.mark.parametrize("step", LOOPS)
def test_every_result_kept(step: Callable[[Any, Any], Any]) -> None:
    with strategy("kept_results"):
        assert work(step, 6)["engines.keep_result"] >= 6


def test_large_results_are_not_kept() -> None:
    A = sp.random((300, 300), nnz=9000, seed=0)
    for limits in ({"kept_elements": 10}, {"kept_parts": 1 << 60}):
        E: Any = A
        for _ in range(40):
            E = E * 2 + A
        with tune("engines", **limits), observe("engines.keep_result") as seen:
            assert E.nnz == A.nnz
        assert seen == []


def test_a_result_that_is_small_beside_what_is_read_is_kept() -> None:
    A = sp.random((300, 300), nnz=20_000, seed=0)
    x: Any = sp.asarray(np.ones(300))
    for _ in range(20):
        x = A @ x / 100
    with tune("engines", kept_elements=1), observe("engines.keep_result") as seen:
        x.compute()
    assert [details["node"].schema.shape for _, details in seen] == [(300,), (300,)]


LARGER: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a skewed product": lambda A, B, x: ((B * 2) @ (B.T * 2) * A).sum(axis=1),
    "an outer product": lambda A, B, x: ((x * 2)[:, None] * (x * 3) * A).sum(axis=1),
    "a broadcast difference": lambda A, B, x: (A * ((x * 2)[:, None] - x * 3)).sum(axis=1),
    "a list": lambda A, B, x: (A * (B.T * 2)[np.zeros(len(x), int)]).sum(axis=1),
}


@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_results_larger_than_they_seem_are_not_kept(name: str, depth: int) -> None:
    n = 1000
    A: Any = sp.random((n, n), nnz=n, seed=0)
    B: Any = sp.from_coords([np.arange(n), np.zeros(n, int)], np.ones(n), shape=(n, n))
    x: Any = sp.asarray(np.linspace(1, 2, n))
    with tune("engines", kept_depth=depth, kept_elements=n), observe("engines.keep_result") as seen:
        for _ in range(2):
            found = LARGER[name](A, B, x).to_numpy()
    assert all(details["nnz"] <= n for _, details in seen)
    np.testing.assert_allclose(found, LARGER[name](A.to_numpy(), B.to_numpy(), x.to_numpy()))


def test_what_is_kept_does_not_depend_on_evaluations() -> None:
    kept = []
    for evaluates in (False, True):
        E: Any = sp.random((40, 2000), nnz=40_000, seed=0)
        E = E.sum(axis=0)
        with tune("engines", kept_elements=10, kept_depth=4), observe("engines.keep_result") as seen:
            for _ in range(20):
                E = E * 2
                if evaluates:
                    E.to_numpy()
            E.to_numpy()
        kept.append([details["node"].depth for _, details in seen])
    assert kept[0] == kept[1] == [4]


def test_results_beyond_memory_are_not_kept() -> None:
    n = 30_000
    A: Any = sp.random((n, n), nnz=n, seed=0)
    B: Any = sp.from_coords([np.arange(n), np.zeros(n, int)], np.ones(n), shape=(n, n))
    with tune("engines", kept_depth=2), sp.config(memory_limit="1GB"):
        found = ((B * 1.0) @ (B.T * 1.0) * A).sum()
    np.testing.assert_allclose(found, A.sum())


def test_kept_results_are_released() -> None:
    def loop() -> list[Any]:
        x: Any = sp.asarray(np.ones(1000))
        steps = []
        for _ in range(100):
            x = x / (x.max() + 1) + np.arange(1000) * x
            steps.append(x)
        return steps

    gc.collect()
    before = memory.available()
    steps = loop()
    held = before - memory.available()
    assert held >= 5 * 1000 * 12
    with memory.reserve(memory.available() + held // 2, "an array"):  # evicts the least recently used
        assert memory.available() <= held // 2
    with observe("engines.keep_result") as seen:
        found = steps[30].to_numpy()
    assert len(seen) > 0
    np.testing.assert_array_equal(found, loop()[30].to_numpy())
    del steps, seen
    gc.collect()
    assert memory.available() == before


def test_named_engines_and_analyzed_plans_compute_all() -> None:
    x: Any = sp.asarray(np.ones(SIDE))
    for _ in range(20):
        x = sp.asarray(DENSE) @ x
    with observe("engines.keep_result") as seen:
        x.compute(engine="stream")
        x.explain(analyze=True)
    assert seen == []


def test_large_sums_are_walked_in_proportion_to_their_terms() -> None:
    peaks = []
    with tune("engines", kept_elements=0, kept_ratio=1 << 60):
        for count in (400, 800):
            total: Any = sp.eye(1000)
            for row in range(count):
                total = total + sp.from_coords([[row], [0]], [1.0], shape=(1000, 1000))
            scan = total.__sparrow_scan__()
            shorten([scan])
            tracemalloc.start()
            shorten([scan])
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 2.5 * peaks[0]
