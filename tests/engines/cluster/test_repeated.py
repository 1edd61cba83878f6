"""Products of a matrix in a loop, as rounds over files of its rows."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.engines.cluster import Cluster
from tests.engines.cluster.here import Here

RNG = np.random.default_rng(5)
X = RNG.random((60, 3))


@pytest.fixture(scope="module", autouse=True)
def in_tasks() -> Iterator[None]:
    engines.register(Cluster("in_tasks", lambda cluster: Here()))
    with sparrow.testing.strategy("tiny_tasks"):
        yield
    engines.unregister("in_tasks")


def make(place: str, dtype: str, folder: Path) -> Any:
    """Return a matrix of shape (60, 50) whose rows are long enough to cross chunks."""
    rng = np.random.default_rng(1)
    flat = np.sort(rng.choice(3000, 900, replace=False))
    values = rng.integers(1, 100, 900) / (7 if dtype[0] == "f" else 1)
    A = sp.from_coords(np.stack([flat // 50, flat % 50]), values.astype(dtype), shape=(60, 50))
    if place == "memory":
        return A
    if place == "persisted":
        return A.persist()
    if place == "expression":
        return A * 3 - 1
    A = A.save(folder / "A.sparrow")
    if place == "appended":
        for column in (3, 4):
            more = rng.choice(60, 20, replace=False)
            A.append(
                sp.from_coords([more, np.full(20, column)], values[:20].astype(dtype), shape=(60, 50)),
                duplicates="last",
            )
    return A[::-1, 3:] if place == "view" else A


def products(A: Any) -> list[bytes]:
    height, width = A.shape
    operator = sp.linalg.aslinearoperator(A, persist=True)
    operator @ X[:width]
    found = [operator @ X[:width, 0], operator @ X[:width], operator.multiply_transposed(X[:height, 0]),
             operator.multiply_transposed(X[:height].astype(np.float32)), operator @ X[:width, :1]]  # fmt: skip
    return [array.tobytes() for array in found]


PLACES = ["memory", "persisted", "stored", "view", "appended", "expression"]


@pytest.mark.parametrize(
    ("place", "dtype"),
    [*((place, "float64") for place in PLACES), *(("appended", dtype) for dtype in ("float32", "int8", "bool"))],
)
def test_same_bits(place: str, dtype: str, tmp_path: Path) -> None:
    A = make(place, dtype, tmp_path)
    with sparrow.testing.strategy("small_chunks"):
        expected = products(A)
        with sp.config(engine="in_tasks"), sparrow.testing.observe("cluster.round") as rounds:
            assert products(A) == expected
            with sparrow.testing.tune("cluster", min_product_elements=10**6):
                assert products(A) == expected
    assert Counter(type(details["work"]).__name__ for _, details in rounds)["MultiplyRows"] == 2 * 5


def test_repeated_products_without_an_operator(tmp_path: Path) -> None:
    A = make("stored", "float64", tmp_path)
    with sp.config(engine="stream"):
        expected = (A @ X[:50]).tobytes(), (A.T @ X).tobytes()
    with sp.config(engine="in_tasks"), sparrow.testing.observe("cluster.round") as rounds:
        for _ in range(6):
            assert ((A @ X[:50]).tobytes(), (A.T @ X).tobytes()) == expected
    works = [type(details["work"]).__name__ for _, details in rounds]
    assert Counter(works) == {"Products": 1, "StoreRows": 1, "SortRows": 1, "MergeRows": 1, "MultiplyRows": 5 + 2}


def test_files_live_as_long_as_the_operator(tmp_path: Path) -> None:
    A, scratch = make("stored", "float64", tmp_path), tmp_path / "scratch"
    scratch.mkdir()
    with sp.config(engine="in_tasks", scratch=scratch):
        operator = sp.linalg.aslinearoperator(A, persist=True)
        assert "rounds      1 round of 4 tasks" in operator.explain()
        operator @ X[:50, 0]
        text = operator.explain()
        assert "rounds      2 rounds" in text
        assert "round 1     storerows: 4 tasks, 225 elements each" in text
        assert "round 2     multiplyrows: 4 tasks" in text
        assert "shared      400 bytes of arrays in files" in text
        assert f"result      later products take one round, of rows in files of {scratch}" in text
        for _ in range(3):
            operator @ X[:50, 0]
            operator.T @ X[:, 0]
        assert len(os.listdir(scratch)) == 2
        text = operator.explain()
        assert "rounds      1 round of 4 tasks, 225 elements each" in text
        assert f"result      of rows in files of {scratch}" in text
        assert "7 products; persisted after 1, " in text
        assert text.endswith("in files of tasks")
        del operator
        gc.collect()
        assert os.listdir(scratch) == []
        text = sp.linalg.aslinearoperator(A, persist=False).explain()
        assert "1 round of 4 tasks" in text


def test_small_work_runs_here(tmp_path: Path) -> None:
    A = make("stored", "float64", tmp_path)
    defaults = {"min_task_elements": 4_000_000, "local_product_elements": 10**9}
    for changes, count in ((defaults, 0), ({"local_product_elements": 10**9}, 0), ({"min_task_elements": 10**6}, 0)):
        with (
            sparrow.testing.tune("cluster", **changes),
            sp.config(engine="in_tasks"),
            sparrow.testing.observe("cluster.round", "engines.persist_rows") as seen,
        ):
            sp.linalg.pagerank(A[:50])
        names = [name for name, _ in seen]
        assert names.count("cluster.round") == count
        assert names.count("engines.persist_rows") == (2 if "local_product_elements" in changes else 0)


@pytest.mark.parametrize(("limit", "fits"), [(20_000, True), (400, False)])
def test_rows_fit_in_tasks(limit: int, fits: bool, tmp_path: Path) -> None:
    class Small(Here):
        memory_limit = limit

    engines.register(Cluster("small", lambda cluster: Small()))
    try:
        with sparrow.testing.strategy("small_chunks"):
            A = make("stored", "float64", tmp_path)
            expected = sp.linalg.aslinearoperator(A, persist=True) @ X[:50, 0]
        with (
            sp.config(engine="small"),
            sparrow.testing.strategy("small_chunks"),
            sparrow.testing.observe("cluster.round") as rounds,
        ):
            operator = sp.linalg.aslinearoperator(A, persist=True)
            assert [(operator @ X[:50, 0]).tobytes() for _ in range(3)] == [expected.tobytes()] * 3
        tasks = {type(details["work"]).__name__: details["tasks"] for _, details in rounds}
        assert tasks["StoreRows"] > 4
        assert ("MultiplyRows" in tasks) == fits
    finally:
        engines.unregister("small")


def test_interrupt_leaves_no_files(tmp_path: Path) -> None:
    A, scratch = make("stored", "float64", tmp_path)[:50], tmp_path / "scratch"
    scratch.mkdir()

    for kind in ("MergeRows", "MultiplyRows"):

        def interrupt(kind: str = kind, **details: Any) -> None:
            if type(details["work"]).__name__ == kind:
                raise KeyboardInterrupt

        with (
            sp.config(engine="in_tasks", scratch=scratch),
            sparrow.testing.on("cluster.round", interrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            sp.linalg.pagerank(A)
        gc.collect()
        assert os.listdir(scratch) == []


def test_workers_killed_in_mid_loop(tmp_path: Path) -> None:
    A, kills, works = make("stored", "float64", tmp_path)[:50], dict[str, int](), [""]

    def run() -> list[bytes]:
        return [sp.graph.pagerank(A).to_numpy().tobytes(), sp.graph.connected_components(A).to_numpy().tobytes()]

    def begin(**details: Any) -> None:
        works.append(type(details["work"]).__name__)

    def kill(task: int, pid: int) -> None:
        if works[-1] in ("MergeRows", "MultiplyRows", "Fold") and works[-1] not in kills:
            kills[works[-1]] = pid
            psutil.Process(pid).kill()

    with sp.config(engine="stream"):
        expected = run()
    with (
        sp.config(engine="processes", cluster=2),
        sparrow.testing.on("cluster.round", begin),
        sparrow.testing.on("cluster.task", kill),
        sparrow.testing.observe("cluster.death") as deaths,
    ):
        assert run() == expected
    assert [details["pid"] for _, details in deaths] == list(kills.values())
    assert len(kills) == 3
