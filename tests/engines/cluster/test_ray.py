"""Tasks on a Ray cluster of this machine; run where Ray is installed."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.engines.cluster.ray import Ray
from sparrow.engines.cluster.tasks import Count, Job, run_task
from sparrow.engines.portable_plan import PortablePlan
from sparrow.errors import NotFoundError, WorkerError
from tests.engines.cluster.failing import Hungry, Refusing, map_elements
from tests.engines.cluster.helpers import (
    check_killed_driver,
    check_killed_half_step,
    elements,
    ingest_several_files,
    kill_in_mid_save,
    kill_in_mid_sort,
)  # fmt: skip

ray: Any = pytest.importorskip("ray", reason="requires Ray: pip install ray")

pytestmark = pytest.mark.filterwarnings("ignore")  # of files and processes that Ray leaves to its own shutdown


ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    now = psutil.virtual_memory()
    ray.init(
        _system_config={  # a task that takes 4 GB is too large
            "memory_usage_threshold": (now.total - now.available + 3e9) / now.total, "memory_monitor_refresh_ms": 100
        },
        num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", configure_logging=False, log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
    )  # fmt: skip
    yield
    ray.shutdown()


@pytest.fixture(scope="module", autouse=True)
def in_ray(session: None) -> Iterator[None]:
    with sparrow.testing.strategy("tiny_tasks", "partitioned"), sp.config(engine="ray"):
        yield


def test_results(matrix: Any, tmp_path: Path) -> None:
    x = np.arange(70.0).reshape(7, 10)
    with sparrow.testing.tune("relations", chunk_elements=50), sparrow.testing.observe("cluster.round") as states:
        in_memory = sp.asarray(np.arange(3000.0).reshape(300, 10) / 7)
        assert in_memory.sum() == in_memory.sum(axis=None)
        ray_sum = (in_memory[1:] * 1).sum()
        with sp.config(engine="stream"):
            assert ray_sum == (in_memory[1:] * 1).sum()
    assert "States" in str(states)
    with sparrow.testing.observe("cluster.round") as rounds:
        found = [(matrix + 1).compute(), (matrix @ matrix.T).sum(axis=1).compute(), matrix * 2 + matrix]
        total, product, count = found[2].sum(), matrix @ x, (matrix @ matrix.T).nnz
        saved = (matrix * 2).save(tmp_path / "B.sparrow")
    assert [type(details["work"]).__name__ for _, details in rounds] == [
        "Elements", "Elements", "Products", "Count", "Files"
    ]  # fmt: skip
    with sp.config(engine="stream"):
        assert elements(found[0]) == elements(matrix + 1)
        assert elements(found[1]) == elements((matrix @ matrix.T).sum(axis=1))
        assert total == (matrix * 2 + matrix).sum()
        assert product.tobytes() == (matrix @ x).tobytes()
        assert count == (matrix @ matrix.T).nnz
        assert elements(saved) == elements(matrix * 2)
    assert saved.verify() == []
    assert "rounds      1 round of 4 tasks" in (matrix + 1).explain()


def test_worker_killed_in_mid_save(matrix: Any, tmp_path: Path) -> None:
    kill_in_mid_save(matrix, tmp_path)


def test_worker_killed_in_mid_sort(matrix: Any, tmp_path: Path) -> None:
    kill_in_mid_sort(matrix, tmp_path)


def test_ingest_of_several_files(tmp_path: Path) -> None:
    ingest_several_files(tmp_path)


def test_worker_killed_in_mid_als(tmp_path: Path) -> None:
    check_killed_half_step(Ray(), tmp_path)


def test_driver_killed_leaves_nothing_visible(matrix: Any, tmp_path: Path) -> None:
    check_killed_driver("ray", ray.get_runtime_context().gcs_address, matrix, tmp_path)


def test_failures(matrix: Any, tmp_path: Path) -> None:
    with pytest.raises(OverflowError, match=r"300\.0 is refused"):
        map_elements(Refusing(300.0), matrix).save(tmp_path / "B.sparrow")
    with sparrow.testing.observe("cluster.round") as rounds, pytest.raises(OverflowError):
        map_elements(Refusing(300.0), matrix).compute()
    assert not os.path.exists(rounds[0][1]["folder"])
    plan = PortablePlan([matrix.__sparrow_scan__()])
    old = Job(plan, Count(), (0, 200), str(tmp_path), 10**9, 1, {}, version="0.0.1")
    with pytest.raises(WorkerError, match=r"sparrow must be 0\.0\.1 on every worker, got "):
        Ray().map(run_task, 1, old)
    hidden = Job(plan, Count(), (0, 200), str(tmp_path / "none"), 10**9, 1, {})
    with pytest.raises(WorkerError, match="scratch must be a folder that every worker sees"):
        Ray().map(run_task, 1, hidden)
    missing = matrix.save(tmp_path / "C.sparrow") * 2
    shutil.rmtree(tmp_path / "C.sparrow")
    with pytest.raises(NotFoundError, match=r"C\.sparrow"):
        missing.compute()
    assert os.listdir(tmp_path) == []


def test_worker_out_of_memory(matrix: Any, tmp_path: Path) -> None:
    with (
        sparrow.testing.tune("cluster", max_attempts=2),
        pytest.raises(WorkerError, match=r"2 workers died in one task: a lower memory_limit= .* running low on memory"),
    ):
        map_elements(Hungry(300.0, 4_000_000_000), matrix).save(tmp_path / "B.sparrow")
    assert os.listdir(tmp_path) == []


def test_modules_that_workers_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_near.py").write_text("def add(shared, number):\n    return shared + number\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    add = importlib.import_module("only_near").add
    with pytest.raises(WorkerError, match=r"every worker must have the modules .* got No module named 'only_near'"):
        Ray().map(add, 2, 1)


def test_no_connection() -> None:
    """In a process of its own: this one is connected."""
    program = """
import sys
import sparrow as sp, sparrow.testing
from sparrow.errors import InvalidValueError

A = sp.eye(300) * 2
for cluster, expected in ((None, "requires a connection: call ray.init"), (3, "requires a connection: call ray.init"),
                          ("127.0.0.1:1", "cluster must be the address of a Ray cluster, got '127.0.0.1:1': "),
                          ("ray://127.0.0.1:1", "cluster must be the address of a Ray cluster, got 'ray://127.")):
    try:
        with sp.config(cluster=cluster), sparrow.testing.strategy("tiny_tasks"):
            A.compute(engine="ray")
    except InvalidValueError as error:
        assert expected in str(error), error
    else:
        sys.exit(f"{cluster} was accepted")
"""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    subprocess.run([sys.executable, "-c", program], env=environment | {"PYTHONPATH": str(ROOT)}, check=True)


def test_interrupt_cancels_tasks(matrix: Any, tmp_path: Path) -> None:
    def interrupt(**details: Any) -> None:
        raise KeyboardInterrupt

    with sparrow.testing.on("cluster.wait", interrupt), pytest.raises(KeyboardInterrupt):
        (matrix * 2).save(tmp_path / "B.sparrow")
    assert os.listdir(tmp_path) == []
    assert elements((matrix * 2).save(tmp_path / "B.sparrow")) == elements(matrix * 2)
