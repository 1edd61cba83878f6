"""Another sort order as two rounds of tasks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.engines.cluster.sorting import StoredRun, bound_ranges
from tests.engines.cluster.failing import Deadly, map_elements
from tests.engines.cluster.helpers import elements

SORT = ["Runs", "MergedFiles"]


@pytest.fixture(scope="module", autouse=True)
def in_processes() -> Iterator[None]:
    with (
        sparrow.testing.strategy("tiny_tasks", "partitioned"),
        sparrow.testing.tune("cluster", max_read_ratio=1.5, batch_elements=50, sample_elements=20),
        sp.config(engine="processes", cluster=2),
    ):
        yield


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A stored matrix of several row groups whose elements are all over its columns."""
    rng = np.random.default_rng(0)
    at = np.sort(rng.choice(300 * 200, 2000, replace=False))
    A = sp.from_coords([at // 200, at % 200], rng.random(2000), shape=(300, 200), dims=("row", "col"))
    with sparrow.testing.tune("storage", group_rows=100), sp.config(engine="stream"):
        return A.save(tmp_path_factory.mktemp("links") / "A.sparrow")


def rounds_of(seen: list[Any]) -> list[str]:
    return [type(details["work"]).__name__ for name, details in seen if name == "cluster.round"]


def test_save_of_a_transposed_tensor(links: Any, tmp_path: Path) -> None:
    with sparrow.testing.observe("cluster.round") as seen:
        B = links.T.save(tmp_path / "B.sparrow")
        C = (links * 2).T[::-1, 10:].save(tmp_path / "C.sparrow")
    assert rounds_of(seen) == SORT * 2
    assert min(details["tasks"] for _, details in seen) > 2
    for saved, expected in ((B, links.T), (C, (links * 2).T[::-1, 10:])):
        assert saved.verify() == []
        assert elements(saved) == elements(expected)
        assert saved.dims == expected.dims
    assert sorted(os.listdir(tmp_path)) == ["B.sparrow", "C.sparrow"]
    assert B.history()[0]["operation"] == "save"


def test_elements_of_a_transposed_expression(links: Any) -> None:
    plan = links.T * 3
    with sparrow.testing.observe("cluster.round") as seen:
        found, count = plan.compute(), plan.nnz
        streamed = sum(batch.num_rows for batch in plan.to_batches())
    assert rounds_of(seen) == ["Runs", "MergedElements", "Count", "Runs", "MergedElements"]
    assert elements(found) == elements(plan)
    assert count == streamed == 2000
    text = plan.explain()
    assert "rounds      2 rounds, 32.0 kB between them" in text
    assert "round 2     merged elements: 4 tasks, 500 elements each" in text
    assert "add_order" in (sp.random((300, 300), density=0.1, seed=0).T * 2).explain()  # in memory


def test_inputs_are_sorted_for_plans_that_transpose(links: Any, tmp_path: Path) -> None:
    other = sp.random((200, 300), nnz=900, seed=1)
    plans: dict[str, Callable[[], Any]] = {
        "product": lambda: links[:, :].T @ links,
        "map and product": lambda: (links.T + other)[3:] @ links,
        "largest": lambda: sp.matmul(links.T, links, topk=2),
        "maximum": lambda: (links.T @ links).max(axis=1),
    }
    for name, plan in plans.items():
        with sparrow.testing.observe("cluster.round") as seen:
            found = engines.evaluate(plan().__sparrow_scan__())
        assert rounds_of(seen)[:2] == SORT, name
        assert rounds_of(seen)[-1] == "Elements", name
        expected = engines.evaluate(plan().__sparrow_scan__(), "stream")
        for array, same in zip((*found.coords, found.values), (*expected.coords, expected.values), strict=True):
            assert array.tobytes() == same.tobytes(), name
    with sparrow.testing.observe("cluster.round") as seen:
        saved = (links.T @ links).save(tmp_path / "B.sparrow")
        total = (links.T @ links).sum(axis=1).compute()
    assert rounds_of(seen) == [*SORT, "Files"]  # sums of products are computed here
    assert "rounds      3 rounds, " in (links.T @ links).explain()
    assert elements(saved) == elements(links.T @ links)
    assert elements(total) == elements((links[:].T @ links).sum(axis=1))
    assert os.listdir(tmp_path) == ["B.sparrow"]


def test_derived_orders(links: Any, tmp_path: Path) -> None:
    with sparrow.testing.observe("cluster.round") as seen:
        B = links[:].save(tmp_path / "B.sparrow", orders=[(1, 0)])
        files = B.files(order=(1, 0))
        assert rounds_of(seen) == ["Files", *SORT]
        B.append(sp.from_coords([[0, 299], [199, 0]], [7.0, 8.0], shape=(300, 200)), duplicates="last")
        B.add_order((1, 0))
        assert rounds_of(seen)[3:] == SORT
        with sparrow.testing.tune("storage", group_rows=100):
            sp.open(tmp_path / "B.sparrow").compact("small")
        B.refresh()
        assert rounds_of(seen)[5:] == SORT
    assert B.verify() == []
    assert len(files) > 1
    assert [file.first[1] for file in files] == sorted(file.first[1] for file in files)
    with sp.config(engine="stream"):
        B.save(tmp_path / "C.sparrow")
    C = sp.open(tmp_path / "C.sparrow")
    C.add_order((1, 0))
    assert elements(B[:, 3:50].T) == elements(C[:, 3:50].T)
    assert sum(file.rows for file in B.files(order=(1, 0))) == B.nnz


def test_orders_of_three_dimensions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    at = np.sort(rng.choice(20 * 30 * 40, 1500, replace=False))
    A: Any = sp.from_coords(np.unravel_index(at, (20, 30, 40)), rng.integers(1, 99, 1500), shape=(20, 30, 40))
    with sparrow.testing.tune("storage", group_rows=100):
        B = A.save(tmp_path / "B.sparrow", orders=[(2, 0, 1), (0, 2, 1)])
        C = B.transpose(1, 2, 0).save(tmp_path / "C.sparrow")
    assert B.verify() == C.verify() == []
    assert elements(C) == elements(A.transpose(1, 2, 0))
    first, middle, last = (column.to_pylist() for column in A.to_arrow().columns[:3])
    last, first, middle = min(zip(last, first, middle, strict=True))
    assert B.files(order=(2, 0, 1))[0].first == (first, middle, last)


def test_worker_killed_while_runs_are_written(links: Any, tmp_path: Path) -> None:
    (tmp_path / "deaths").mkdir()
    value = float(links.to_arrow().column(2)[1000].as_py())
    plan = map_elements(Deadly(str(tmp_path / "deaths"), value), links).T
    (tmp_path / "saved").mkdir()
    with sparrow.testing.observe("cluster.death", "cluster.round") as seen:
        B = plan.save(tmp_path / "saved" / "B.sparrow")
    assert [name for name, _ in seen] == ["cluster.round", "cluster.death", "cluster.round"]
    assert_whole(B, links.T)


def test_worker_killed_while_runs_are_merged(links: Any, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    killed: list[int] = []

    def kill(task: int, pid: int) -> None:
        if task == 1 and len(rounds) == 2 and not killed:
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    with (
        sparrow.testing.observe("cluster.round") as rounds,
        sparrow.testing.observe("cluster.death") as deaths,
        sparrow.testing.on("cluster.task", kill),
    ):
        B = links.T.save(tmp_path / "saved" / "B.sparrow")
    assert len(deaths) == 1
    assert_whole(B, links.T)


def assert_whole(saved: Any, expected: Any) -> None:
    """Check elements and files of a tensor, and that nothing else is in its folder."""
    assert elements(saved) == elements(expected)
    assert saved.verify() == []
    folder = Path(saved.path)
    there = {name for name in os.listdir(folder) if not name.startswith("_")}
    assert there == {Path(file.path).name for file in saved.files()}
    assert os.listdir(folder.parent) == [folder.name]


def test_failed_sort_leaves_nothing(links: Any, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()

    def fail(task: int, pid: int) -> None:
        if len(rounds) == 2:
            raise KeyboardInterrupt

    with (
        sp.config(scratch=tmp_path / "scratch"),
        sparrow.testing.observe("cluster.round") as rounds,
        sparrow.testing.on("cluster.task", fail),
        pytest.raises(KeyboardInterrupt),
    ):
        links.T.save(tmp_path / "B.sparrow")
    assert os.listdir(tmp_path) == ["scratch"]
    assert os.listdir(tmp_path / "scratch") == []


def test_ranges_have_equal_numbers_of_elements() -> None:
    rng = np.random.default_rng(0)
    coords = [np.sort(rng.integers(0, 10_000, 5000) ** 2 // 10_000) for _ in range(4)]
    runs = [StoredRun(("a", "b"), 5000, column[::10], 10) for column in coords]
    bounds = bound_ranges(runs, 10_000, 4, 10**9)
    counts = np.histogram(np.concatenate(coords), bounds)[0]
    assert len(counts) == 8
    assert counts.max() < 1.1 * counts.min()
    assert len(bound_ranges(runs, 10_000, 4, 10**5)) > 9  # a task would spill
    hub = [StoredRun(("a", "b"), 5000, np.full(500, 7), 10)]
    assert bound_ranges(hub, 10_000, 4, 10**9) == (0, 7, 10_000)
    assert bound_ranges([], 5, 4, 10**9) == (0, 5)
