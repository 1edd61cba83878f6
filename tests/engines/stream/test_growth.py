"""Work grows with the distinct nodes of a plan, whatever connects them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sparrow as sp
from sparrow.engines.stream.cache import Cache
from sparrow.kernels.coo import Block
from sparrow.plan import nodes_below, optimize_plan
from sparrow.testing import observe, tune
from tests.engines.helpers import random_array, stored_relation

SIDE = 24
ORDER = np.random.default_rng(0).permutation(SIDE)
MASK = np.arange(SIDE) % 3 == 1

STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "reversed": lambda np, a: a + a[::-1],
    "reversed columns": lambda np, a: a + a[:, ::-1],
    "turned": lambda np, a: a + a.T[::-1],
    "shifted": lambda np, a: a + np.concatenate([a[1:], a[:1]]),
    "rolled": lambda np, a: a + np.roll(a, 1, axis=0),
    "listed": lambda np, a: a + a[ORDER],
    "listed twice": lambda np, a: a[ORDER] + a[:, ORDER],
    "masked": lambda np, a: a + np.concatenate([a[MASK], a[~MASK]]),
    "halves": lambda np, a: np.concatenate([a[::2] + a[1::2], a[::2] - a[1::2]]),
    "windows": lambda np, a: np.pad(a[1:-1, 1:-1] + a[:-2, :-2] - a[2:, 1:-1], 1),
    "triangle": lambda np, a: a + np.tril(a),
    "sorted": lambda np, a: a - np.sort(a, axis=1),
    "reshaped": lambda np, a: a + np.reshape(np.reshape(a, (SIDE * SIDE,)), (SIDE, SIDE))[::-1],
    "reachable": lambda np, a: np.minimum(a + a @ a, 1),
    "gram": lambda np, a: np.minimum(a.T @ a + a, 1),
    "squared": lambda np, a: np.minimum(a @ a, 1),
    "product of its row": lambda np, a: np.minimum(a + a[3] * a, 9),
    "divided": lambda np, a: a / np.maximum(a.sum(axis=1), 1)[:, None],
    "where": lambda np, a: np.where(a > 1, a[::-1], a.T),
    "stacked": lambda np, a: np.stack([a, a[::-1]]).max(axis=0),
    "diagonal": lambda np, a: np.minimum(a + np.diagonal(a)[:, None] * a, 9),
    "cast": lambda np, a: a.astype("float32") + a[ORDER].astype("float64"),
}
"""Steps of a loop that use an expression several times, for sparrow and NumPy."""


def work(name: str, count: int, dense: NDArray[Any]) -> Counter[str]:
    """Repeat a step; compare it with NumPy and return what its evaluation does."""
    lazy: Any = sp.asarray(dense)
    for _ in range(count):
        lazy, dense = STEPS[name](np, lazy), STEPS[name](np, dense)
    with observe("stream.evaluate", "stream.read", "relations.read") as seen:
        found = lazy.compute()
    np.testing.assert_array_equal(found.to_numpy(), dense)
    done = Counter(event for event, _ in seen)
    done["nodes"] = len(nodes_below(optimize_plan([lazy.__sparrow_scan__()])))
    return done


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("way", ["small", "partitioned", "nothing cached"])
def test_loops_cost_in_proportion_to_their_steps(name: str, way: str) -> None:
    dense = random_array((SIDE, SIDE), seed=1, density=0.1)
    partitions = {} if way == "small" else {"partition_rows": 64, "min_partition_rows": 1}
    cache = {"cache_bytes": 1} if way == "nothing cached" else {}
    chunks = {"chunk_elements": 1 << 20 if way == "small" else 40}
    # Two threads may both read what neither has cached yet.
    with (
        sp.config(threads=1),
        tune("engines", kept_depth=1 << 60),
        tune("stream", **partitions, **cache),
        tune("relations", **chunks),
    ):
        few, more, many = (work(name, count, dense) for count in (4, 8, 12))
    for event, times in many.items():
        assert times - more[event] <= 2 * max(more[event] - few[event], 8), event
    most = 80 if way == "small" else 400
    assert many["stream.evaluate"] + many["stream.read"] <= 12 * most
    assert many["nodes"] <= 12 * 12


def test_shared_results_beyond_the_cache_spill() -> None:
    dense = random_array((200, 200), seed=1, density=0.5)
    lazy: Any = sp.asarray(dense)
    for _ in range(9):
        lazy, dense = np.maximum(lazy, lazy[::-1, ::-1] - 1), np.maximum(dense, dense[::-1, ::-1] - 1)
    limits = {"partition_rows": 1000, "min_partition_rows": 1, "cache_bytes": 5000}
    with tune("stream", **limits), observe("stream.materialize", "stream.read") as seen:
        np.testing.assert_array_equal(lazy.to_numpy(), dense)
    kept = [details for event, details in seen if event == "stream.materialize"]
    assert len(kept) == 2  # every third level, each used twice by the next
    assert all(details["is_spilled"] for details in kept)
    assert len(seen) < 9 * 400


def test_a_stored_tensor_joined_to_itself_is_read_once(tmp_path: Path) -> None:
    A: Any = sp.random((3000, 50), nnz=6000, seed=1).save(tmp_path / "A")
    for count in (100, 200):
        rows = [A[7 * k] for k in range(count)]
        found = sp.stack(rows)
        assert "decoded in 1 chunks" in found.explain(analyze=True)
        np.testing.assert_array_equal(found.to_numpy(), A.to_numpy()[: 7 * count : 7])


def test_a_short_view_of_an_expression_computes_it_alone() -> None:
    A: Any = sp.random((3000, 50), nnz=6000, seed=1)
    E = (A * 2)[::-1] + 0 * A
    rows = sp.stack([E[5], E[2900]])
    with observe("stream.evaluate", "stream.read") as seen:
        np.testing.assert_array_equal(rows.to_numpy(), E.to_numpy()[[5, 2900]])
    widths = {details["operator"].schema.shape for _, details in seen}
    assert (3000, 50) in widths  # of E alone
    with observe("stream.evaluate", "stream.read") as seen:
        rows.compute()
    assert (3000, 50) not in {details["operator"].schema.shape for _, details in seen}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("join", ["concat", "stack"])
def test_joins_open_each_operand_once(axis: int, join: str) -> None:
    dense = random_array((3, 4), seed=2)
    opened = []
    for count in (100, 200):
        parts: Any = [sp.asarray(dense * (k % 7)) for k in range(count)]
        found, expected = (
            (sp.concat(parts, axis), np.concatenate([part.to_numpy() for part in parts], axis))
            if join == "concat"
            else (sp.stack(parts, axis=axis), np.stack([part.to_numpy() for part in parts], axis))
        )
        with tune("stream", partition_rows=20, min_partition_rows=1), observe("stream.concat") as seen:
            np.testing.assert_array_equal(found.to_numpy(), expected)
        opened.append(sum(details["operands"] for _, details in seen))
        assert axis or opened[-1] <= count + 2 * len(seen)
    assert opened[1] <= 2 * opened[0] + 8


def test_tiles_read_their_tensor_once(tmp_path: Path) -> None:
    dense = random_array((6, 5), seed=3)
    A: Any = sp.Tensor(stored_relation(tmp_path / "A", dense))
    for reps in ((50, 1), (1, 50), (3, 2, 40), (2, 0)):
        with tune("stream", partition_rows=64, min_partition_rows=1):
            found = sp.tile(A, reps)
            assert found.dims[-2:] == A.dims
            np.testing.assert_array_equal(found.to_numpy(), np.tile(dense, reps))
    groups = (A * 1).explain(analyze=True).split("decoded in ")[1].split()[0]
    assert f"decoded in {groups} chunks" in sp.tile(A, (100_000, 1)).explain(analyze=True)
    with pytest.raises(sp.errors.ShapeError):
        sp.tile(A, (2**62, 1))
    assert sp.tile(A, (2**40, 1)).shape == (6 * 2**40, 5)


def test_iterating_a_vector_reads_it_once(tmp_path: Path) -> None:
    dense = random_array((200, 30), seed=4, density=0.2)
    A: Any = sp.Tensor(stored_relation(tmp_path / "A", dense))
    for vector, expected in (
        (A.sum(axis=0), dense.sum(axis=0)),
        (A[5, 3:20], dense[5, 3:20]),
        (np.exp(A[:, 2]), np.exp(dense[:, 2])),
        (A[::-1, 3], dense[::-1, 3]),
        (A[[4, 4, 1], 3], dense[[4, 4, 1], 3]),
        (A[:0, 0], dense[:0, 0]),
    ):
        with sp.explained() as plans:
            found = list(vector)
        assert len(plans) <= 1
        np.testing.assert_array_equal(found, expected)
        assert all(type(value) is type(wanted) for value, wanted in zip(found, expected, strict=True))
    first, second, *_, last = A.sum(axis=1)
    assert [first, second, last] == dense.sum(axis=1)[[0, 1, -1]].tolist()
    assert dict(zip("abc", A[:3, 0], strict=True)) == dict(zip("abc", dense[:3, 0].tolist(), strict=True))
    assert [row.shape for row in A[:2]] == [(30,), (30,)]


def make_labelled(number: int) -> Any:
    return sp.from_coords([[0]], [1.0], shape=(3,), dims=("u",), labels={"u": [f"{name}{number}" for name in "abc"]})


def test_sums_of_tensors_with_other_labels_each() -> None:
    done = []
    for count in (20, 40, 80):
        total: Any = sum(make_labelled(number) for number in range(count))
        with sp.config(threads=1), observe("stream.evaluate", "stream.read", "stream.materialize") as seen:
            found = total.compute()
        assert found.shape == (3 * count,)
        assert [found.sel(u=name) for name in ("a0", "b0", f"a{count - 1}")] == [1, 0, 1]
        done.append(Counter(event for event, _ in seen))
    for event, times in done[2].items():
        assert times - done[1][event] <= 2 * (done[1][event] - done[0][event]) + 8, event
        assert times <= 16 * 80, event


@pytest.mark.parametrize("budget", [0, 800, 10**6])
def test_eviction_looks_only_at_what_it_drops(budget: int) -> None:
    block = Block((np.arange(10),), np.arange(10.0))
    calls = []
    for count in (100, 200, 400):
        cache, done = Cache(budget), 0

        def count_calls(frame: Any, event: str, arg: Any) -> None:
            nonlocal done
            done += event == "call"

        sys.setprofile(count_calls)
        try:
            for key in range(count):
                cache.get(key, lambda: block)
        finally:
            sys.setprofile(None)
        calls.append(done / count)
    assert calls[2] <= calls[0] + 2


@pytest.mark.parametrize(
    "pick",
    [
        lambda A, dense: A[A > 0],
        lambda A, dense: A[A.mean(axis=0) < A],
        lambda A, dense: A[np.nonzero(dense)],
        lambda A, dense: A[np.arange(len(dense))[::-1], np.arange(len(dense)) % dense.shape[1]],
        lambda A, dense: A[dense > 2],
        lambda A, dense: list(A.sum(axis=1)),
        lambda A, dense: list(reversed(A[:, 3])),
    ],
)
def test_selections_read_a_stored_tensor_a_few_times(pick: Callable[[Any, Any], Any], tmp_path: Path) -> None:
    times = []
    for rows in (400, 800):
        dense = random_array((rows, 30), seed=5, density=0.1)
        A: Any = sp.Tensor(stored_relation(tmp_path / str(rows), dense))
        with observe("storage.read_row_group") as whole:
            A.compute()
        with sp.config(threads=1), observe("storage.read_row_group") as seen:
            np.testing.assert_array_equal(np.asarray(pick(A, dense)), np.asarray(pick(dense, dense)))
        times.append(len(seen) / len(whole))
    assert max(times) <= 3
    assert times[1] <= times[0] + 0.2


@pytest.mark.parametrize(
    "write",
    [
        lambda A, rows: A.__setitem__(rows, 0),
        lambda A, rows: A.__setitem__(rows, A[rows] * 2),
        lambda A, rows: A.__setitem__(rows, A[rows[::-1]]),
        lambda A, rows: A.__setitem__(np.isin(np.arange(len(A)), rows), 0),
        lambda A, rows: A.__setitem__(A.sum(axis=1) > 9, 0),
    ],
)
def test_writes_to_rows_cost_elements_not_cells(write: Callable[[Any, Any], None], tmp_path: Path) -> None:
    done = []
    for rows, columns in ((200, 300), (400, 300), (200, 60_000)):
        dense = np.zeros((rows, columns))
        dense[:, :30] = random_array((rows, 30), seed=6, density=0.2)
        A: Any = sp.asarray(dense).save(tmp_path / f"{rows}-{columns}")
        chosen = np.arange(3, rows, 7)
        with sp.config(threads=1), observe("storage.read_row_group", "relations.read", "stream.read") as seen:
            write(A, chosen)
        write(dense, chosen)
        np.testing.assert_array_equal(sp.open(A.path).to_numpy(), dense)
        done.append(sum(details.get("rows", 1) for _, details in seen))
    assert done[1] <= 2 * done[0] + 20
    assert done[2] <= done[0] + 20  # the same elements among 200 times the cells
