"""Any cut of any plan has the bits of the stream engine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.engines.cluster import Cluster
from sparrow.engines.cluster.cutting import Cut, cut_rows
from sparrow.plan import Scan
from tests.engines.cluster.here import Here
from tests.engines.plans import expressions
from tests.engines.test_parity import Maker, cells

STRATEGIES = st.sampled_from([[], ["partitioned"], ["small_chunks"]])


class RandomCuts:
    """Random bounds, empty ranges excluded; some scans are to be sorted."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.refuses = True
        self.refused: Scan | None = None

    def __call__(self, scan: Scan, slots: int) -> Cut:
        if not scan.view.ndim or scan.view.shape[0] < 4:
            return cut_rows(scan, slots)
        if self.refused is not None:
            self.refused = None
        elif self.refuses and self.rng.random() < 0.4:
            self.refused = scan
            return Cut(reason="at random", reads_all=True)
        size = scan.view.shape[0]
        inside = self.rng.choice(np.arange(1, size), self.rng.integers(1, min(size, 6)), replace=False)
        return Cut((0, *sorted(inside.tolist()), size), "", 1.0)


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return Maker(tmp_path_factory.mktemp("cuts"))


@pytest.fixture(scope="module", autouse=True)
def at_random() -> Iterator[RandomCuts]:
    cuts = RandomCuts()
    engines.register(Cluster("at_random", lambda cluster: Here(), cuts))
    with sparrow.testing.strategy("tiny_tasks"):
        yield cuts
    engines.unregister("at_random")


def bits(block: Any) -> list[bytes]:
    return [array.tobytes() for array in (*block.coords, block.values)]


def totals(expression: Any, engine: str) -> bytes:
    """Return the bits of reductions over all axes."""
    again = sp.reshape(expression[None], (-1, 1)) if expression.ndim else expression  # nodes keep their totals
    with sp.config(engine=engine):
        return np.array([getattr(again, name)() for name in ("sum", "max", "mean", "std")]).tobytes()


def matrices(make: Maker, dtype: str, places: tuple[str, str], seed: int) -> list[Any]:
    found = []
    for number, place in enumerate(places):
        values = cells((12, 12), dtype, 0, seed + number)
        wide = values.astype(float)
        values = np.where(np.isfinite(wide) & (abs(wide) < 1e6), values, 1).astype(dtype)
        found.append(make(values, 0, place))
    return found


@settings(max_examples=4)
@given(st.sampled_from(["int8", "float32", "float64"]), st.sampled_from(["memory", "stored", "view"]),
       st.sampled_from(["memory", "stored"]), st.integers(0, 2**16), STRATEGIES)  # fmt: skip
def test_any_cut_has_the_same_bits(
    make: Maker, at_random: RandomCuts, dtype: str, one: str, other: str, seed: int, strategies: list[str]
) -> None:
    at_random.rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"), sparrow.testing.strategy(*strategies):
        found = expressions(*matrices(make, dtype, (one, other), seed))
        for name in at_random.rng.choice(list(found), 12, replace=False):
            expression = found[name]
            scan = expression.__sparrow_scan__()
            expected = engines.evaluate(scan, "stream")
            assert bits(engines.evaluate(scan, "at_random")) == bits(expected), name
            assert engines.count_nnz(scan, "at_random") == expected.count, name
            if name[0] < "m":
                streamed = list(engines.iter_sorted_blocks(scan, "at_random"))
                assert sum(block.count for block in streamed) == expected.count, name
                assert totals(expression, "at_random") == totals(expression, "stream"), name


@settings(max_examples=6)
@given(st.sampled_from(["int8", "float32", "float64"]), st.sampled_from(["memory", "stored", "view"]),
       st.integers(0, 2**16), STRATEGIES)  # fmt: skip
def test_products_with_arrays(
    make: Maker, at_random: RandomCuts, dtype: str, place: str, seed: int, strategies: list[str]
) -> None:
    at_random.rng = np.random.default_rng(seed)
    rng = np.random.default_rng(seed)
    x, X = rng.random(12), rng.random((12, 3))
    with np.errstate(all="ignore"), sparrow.testing.strategy(*strategies):
        A = matrices(make, dtype, (place, "memory"), seed)[0]
        products: list[Callable[[], Any]] = [
            lambda: A @ x, lambda: A @ X, lambda: X.T @ A, lambda: A.T @ x, lambda: (A + 1) @ x,
            lambda: (A * 2)[::-1, 2:] @ X[2:], lambda: sp.einsum("ij,jk,jk->ik", A, X, X),
            lambda: sp.einsum("ij,ik,jk->k", A, X, X), lambda: np.cumsum(A, axis=0),
        ]  # fmt: skip
        for number, product in enumerate(products):
            with sp.config(engine="stream"):
                expected = np.asarray(product())
            with sp.config(engine="at_random"):
                found = np.asarray(product())
            assert found.dtype == expected.dtype, number
            assert found.tobytes() == expected.tobytes(), number


def test_cuts_follow_the_largest_input() -> None:
    rng = np.random.default_rng(0)
    rows = np.sort(np.concatenate([rng.integers(0, 100, 9000), rng.integers(100, 10_000, 1000)]))
    coords = np.unique(np.stack([rows, rng.integers(0, 10_000, 10_000)]), axis=1)
    A = sp.from_coords(coords, np.ones(coords.shape[1]), shape=(10_000, 10_000))
    small = sp.from_coords([np.arange(0, 10_000, 50)] * 2, np.ones(200), shape=(10_000, 10_000))
    with sparrow.testing.tune("relations", chunk_elements=100):
        for expression in (A * 2, A + small, A[::-1] * 3, A.count(axis=1), small + A[:, ::-1]):
            cut = cut_rows(expression.__sparrow_scan__(), 2)
            assert cut.reason == ""
            ends = [expression[first:last].sum()
                    for first, last in itertools.pairwise(cut.bounds)]  # fmt: skip
            assert 3 <= len(ends) <= 6
            assert max(ends) < 0.5 * sum(ends)


def test_plans_that_are_not_cut(make: Maker, at_random: RandomCuts) -> None:
    at_random.refuses = False
    A = sp.random((300, 300), density=0.2, seed=1)
    with sparrow.testing.tune("cluster", max_read_ratio=1.5):
        for plan, reason in (
            ((A.T * 2), "each task would read all of the largest input; add_order"),
            (A.sum(axis=1)[:1] * 2, "fewer than four rows"),
        ):
            assert reason in plan.explain(engine="at_random") or reason in cut_rows(plan.__sparrow_scan__(), 2).reason
    with sparrow.testing.tune("cluster", min_task_elements=10**6):
        assert cut_rows((A * 2).__sparrow_scan__(), 2).reason == "1.8e+04 elements are too few for two tasks"
    text = A.std(axis=0).explain(engine="at_random")
    assert "engine      stream, fallback: each task would reduce all of its operand" in text
    assert "rounds      1 round of" in (A * 2).explain(engine="at_random")
    with sp.config(engine="at_random"), sp.explained() as plans:
        A @ np.ones(300)
    assert "1 round of" in plans[0]
