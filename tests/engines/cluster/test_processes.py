"""Tasks in processes of this machine: the same bits, and failures of all kinds."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.engines.cluster.processes import Processes, connect
from sparrow.engines.cluster.schedulers import SCHEDULERS
from sparrow.engines.cluster.tasks import Count, Job, run_task
from sparrow.engines.portable_plan import PortablePlan
from sparrow.errors import InvalidValueError, MissingDependencyError, UnsupportedError, WorkerError
from tests.engines.cluster.failing import Deadly, Hungry, Refusing, map_elements, raise_odd_error, report_settings
from tests.engines.cluster.helpers import check_killed_driver, check_killed_half_step, elements

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module", autouse=True)
def in_processes() -> Iterator[None]:
    with sparrow.testing.strategy("tiny_tasks", "partitioned"), sp.config(engine="processes", cluster=2):
        yield


def left_over(folder: Path) -> list[str]:
    """Return the names in a folder, hidden ones included, apart from tensors."""
    return [name for name in os.listdir(folder) if not name.endswith(".sparrow")]


def test_save_in_tasks(matrix: Any, tmp_path: Path) -> None:
    with sparrow.testing.observe("cluster.round", "cluster.task") as seen:
        B = (matrix * 2).save(tmp_path / "B.sparrow", orders=[(1, 0)])
    assert [name for name, _ in seen].count("cluster.round") == 2
    assert len({details["pid"] for name, details in seen if name == "cluster.task"}) == 2
    assert elements(B) == elements(matrix * 2)
    assert len(B.files()) > 1
    assert B.verify() == []
    assert left_over(tmp_path) == []
    assert B.history()[0]["operation"] == "save"
    copy = matrix[::-1].save(tmp_path / "C.sparrow")
    assert elements(copy) == elements(matrix[::-1])


def test_worker_killed_in_mid_save(matrix: Any, tmp_path: Path) -> None:
    (tmp_path / "deaths").mkdir()
    (tmp_path / "saved").mkdir()
    plan = map_elements(Deadly(str(tmp_path / "deaths"), 300.0), matrix)
    with sparrow.testing.observe("cluster.death") as deaths:
        B = plan.save(tmp_path / "saved" / "B.sparrow")
    assert len(deaths) == 1
    assert elements(B) == elements(matrix)
    assert B.verify() == []
    committed = {Path(file.path).name for file in B.files()}
    there = {name for name in os.listdir(tmp_path / "saved" / "B.sparrow") if not name.startswith("_")}
    assert there == committed
    assert left_over(tmp_path / "saved") == []


def test_worker_killed_in_mid_als(tmp_path: Path) -> None:
    check_killed_half_step(connect(2), tmp_path)


def test_worker_killed_while_idle(matrix: Any) -> None:
    expected = elements(matrix + 1)
    with sparrow.testing.observe("cluster.task") as tasks:
        assert (matrix + 1).compute().to_numpy().tolist() == expected
    process = psutil.Process(tasks[-1][1]["pid"])
    process.kill()
    process.wait()
    with sparrow.testing.observe("cluster.death") as deaths:
        assert (matrix + 1).compute().to_numpy().tolist() == expected
    assert [details["pid"] for _, details in deaths] == [process.pid]


def test_a_task_that_always_kills_its_worker_is_given_up(matrix: Any, tmp_path: Path) -> None:
    (tmp_path / "deaths").mkdir()
    plan = map_elements(Deadly(str(tmp_path / "deaths"), 300.0, times=100), matrix)
    with (
        sparrow.testing.tune("cluster", max_attempts=2),
        pytest.raises(
            WorkerError, match=r"2 processes died in task \d+, the last one killed by SIGKILL, as the ker.*memory_limit"
        ),
    ):
        plan.save(tmp_path / "B.sparrow")
    assert os.listdir(tmp_path) == ["deaths"]


def test_errors_of_tasks_are_raised(matrix: Any, tmp_path: Path) -> None:
    plan = map_elements(Refusing(300.0), matrix)
    with pytest.raises(OverflowError, match=r"300\.0 is refused"):
        plan.save(tmp_path / "B.sparrow")
    assert os.listdir(tmp_path) == []
    with pytest.raises(WorkerError, match=r"a task on .* raised OddError: 1 and 2"):
        map_elements(raise_odd_error, matrix).compute()
    with pytest.raises(WorkerError, match=r"tasks must fit into the memory .* Unable to allocate .* a lower memory_l"):
        map_elements(Hungry(300.0, 1 << 60), matrix).save(tmp_path / "B.sparrow")
    assert os.listdir(tmp_path) == []
    assert (matrix * 2).compute().nnz == 600


def test_functions_that_do_not_pickle(matrix: Any) -> None:
    lock = threading.Lock()
    plan = map_elements(lambda values: values * (1 + lock.locked()), matrix)
    with pytest.raises(UnsupportedError, match=r"must be a picklable function, got .*define it in a module"):
        plan.compute()
    pytest.importorskip("cloudpickle")
    three = 3
    assert elements(map_elements(lambda values: values * three, matrix).compute()) == elements(matrix * 3)


def test_tasks_have_settings(matrix: Any) -> None:
    with sp.config(memory_limit="900MB", threads=4):
        limits = map_elements(report_settings, matrix).compute()
    assert elements(limits)[0][0] == 300_000_000  # three processes share the limit
    assert elements(limits)[5][2] == 2  # two tasks share the threads


def test_another_version_is_refused(matrix: Any, tmp_path: Path) -> None:
    job = Job(
        PortablePlan([matrix.__sparrow_scan__()]), Count(), (0, 200), str(tmp_path), 10**9, 1, {}, version="0.0.1"
    )
    pool = Processes(1)
    try:
        with pytest.raises(
            WorkerError, match=r"sparrow must be 0\.0\.1 on every worker, got .*install the same version"
        ):
            pool.map(run_task, 1, job)
        job = Job(PortablePlan([matrix.__sparrow_scan__()]), Count(), (0, 200), str(tmp_path / "none"), 10**9, 1, {})
        with pytest.raises(WorkerError, match=r"scratch must be a folder that every worker sees, got .*scratch=\.\.\."):
            pool.map(run_task, 1, job)
    finally:
        pool.close()


def test_interrupt_cancels_tasks(matrix: Any, tmp_path: Path) -> None:
    started: list[int] = []

    def interrupt(task: int, pid: int) -> None:
        started.append(pid)
        if task == 1:
            raise KeyboardInterrupt

    with sparrow.testing.on("cluster.task", interrupt), pytest.raises(KeyboardInterrupt):
        (matrix * 2).save(tmp_path / "B.sparrow")
    assert len(started) == 2
    assert not any(psutil.pid_exists(pid) for pid in started)
    assert os.listdir(tmp_path) == []
    assert elements((matrix * 2).save(tmp_path / "B.sparrow")) == elements(matrix * 2)


def test_driver_killed_leaves_nothing_visible(matrix: Any, tmp_path: Path) -> None:
    (worker,) = set(check_killed_driver("processes", "1", matrix, tmp_path, event="cluster.task"))
    with contextlib.suppress(psutil.NoSuchProcess):  # it ends with the driver
        psutil.Process(int(worker)).wait(60)


def test_large_arrays_are_mapped(tmp_path: Path) -> None:
    with sp.config(engine="stream"):  # of values that no other test has, since rows are kept after some products
        A = sp.from_coords([np.arange(600) // 3, np.arange(600) % 7], np.arange(600) + 0.25, (200, 7)).save(
            tmp_path / "A"
        )
    x = np.arange(70.0).reshape(7, 10)  # above inline_bytes
    (tmp_path / "scratch").mkdir()
    with sp.config(scratch=tmp_path / "scratch"), sparrow.testing.observe("cluster.round") as rounds:
        found = A @ x
    assert len(rounds) == 1
    with sp.config(engine="stream"):
        assert found.tobytes() == (A @ x).tobytes()
    assert os.listdir(tmp_path / "scratch") == []


@pytest.mark.parametrize(
    ("engine", "problem"),
    [
        ("dask", "engine='dask' requires Dask: pip install distributed"),
        ("ray", "engine='ray' requires Ray: pip install ray"),
        ("spark", "engine='spark' requires Spark: pip install pyspark pandas"),
    ],
)
def test_missing_schedulers_are_named(engine: str, problem: str) -> None:
    if importlib.util.find_spec(SCHEDULERS[engine][1]) is not None:
        pytest.skip(f"{engine} is installed")
    with pytest.raises(MissingDependencyError, match=problem):
        (sp.eye(30) * 2).compute(engine=engine)


def test_arguments() -> None:
    A = sp.eye(30) * 2
    for cluster in ("tcp://127.0.0.1:1", 0, True, 2.5):
        with (
            sp.config(cluster=cluster),
            pytest.raises(InvalidValueError, match="cluster must be a number of processes"),
        ):
            A.compute(engine="processes")
    with sp.config(cluster="2"):
        assert A.compute(engine="processes").nnz == 30
    with pytest.raises(InvalidValueError, match="scratch must be an existing directory"):
        sp.config(scratch="/nowhere")
