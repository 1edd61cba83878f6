"""Tasks on a Dask cluster of this machine."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.engines.cluster.dask import connect
from sparrow.engines.cluster.tasks import Count, Job, run_task
from sparrow.engines.portable_plan import PortablePlan
from sparrow.errors import InvalidValueError, NotFoundError, WorkerError
from tests.engines.cluster.failing import Hungry, Refusing, map_elements
from tests.engines.cluster.helpers import (
    check_killed_driver,
    check_killed_half_step,
    elements,
    ingest_several_files,
    kill_in_mid_save,
    kill_in_mid_sort,
)  # fmt: skip
from tests.sessions import read_blocks

distributed = pytest.importorskip("distributed", reason="requires Dask: pip install distributed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's event loops, when workers are killed


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("dask")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, local_directory=str(folder),
            silence_logs="CRITICAL", memory_limit="1GB",
        ) as cluster,
        distributed.Client(cluster) as found,
    ):  # fmt: skip
        yield found


@pytest.fixture(scope="module", autouse=True)
def in_dask(client: Any) -> Iterator[None]:
    with sparrow.testing.strategy("tiny_tasks", "partitioned"), sp.config(engine="dask"):
        yield


def test_results(matrix: Any, client: Any, tmp_path: Path) -> None:
    x = np.arange(70.0).reshape(7, 10)
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
    for cluster in (client, client.scheduler.address):
        with sp.config(cluster=cluster):
            assert elements((matrix + 1).compute()) == elements(found[0])
    assert "rounds      1 round of 4 tasks" in (matrix + 1).explain()


@pytest.mark.parametrize("page", ["README.md", "docs/howto/cluster.md", "docs/howto/dask.md"])
def test_three_lines(page: str, matrix: Any, client: Any, tmp_path: Path, repository: Path) -> None:
    (block,) = (text for text in read_blocks((repository / page).read_text(), "python") if "tcp://" in text)
    lines = block.replace("tcp://scheduler:8786", client.scheduler.address).replace("/shared/scratch", str(tmp_path))
    names: dict[str, Any] = {"sp": sp}
    exec(lines, names)
    with names["client"], sparrow.testing.observe("cluster.round") as rounds:
        assert elements((matrix + 1).compute()) == elements(matrix + 1)
    assert [details["folder"].startswith(str(tmp_path)) for _, details in rounds] == [True]


def test_worker_killed_in_mid_save(matrix: Any, tmp_path: Path) -> None:
    kill_in_mid_save(matrix, tmp_path)


def test_worker_killed_in_mid_als(tmp_path: Path) -> None:
    check_killed_half_step(connect(None), tmp_path)


def test_driver_killed_leaves_nothing_visible(matrix: Any, client: Any, tmp_path: Path) -> None:
    check_killed_driver("dask", client.scheduler.address, matrix, tmp_path)


def test_worker_killed_in_mid_sort(matrix: Any, tmp_path: Path) -> None:
    kill_in_mid_sort(matrix, tmp_path)


def test_ingest_of_several_files(tmp_path: Path) -> None:
    ingest_several_files(tmp_path)


def test_failures(matrix: Any, client: Any, tmp_path: Path) -> None:
    with pytest.raises(OverflowError, match=r"300\.0 is refused"):
        map_elements(Refusing(300.0), matrix).save(tmp_path / "B.sparrow")
    with sparrow.testing.observe("cluster.round") as rounds, pytest.raises(OverflowError):
        map_elements(Refusing(300.0), matrix).compute()
    assert not os.path.exists(rounds[0][1]["folder"])
    plan = PortablePlan([matrix.__sparrow_scan__()])
    old = Job(plan, Count(), (0, 200), str(tmp_path), 10**9, 1, {}, version="0.0.1")
    with pytest.raises(WorkerError, match=r"sparrow must be 0\.0\.1 on every worker, got "):
        client.submit(run_task, old, 0).result()
    hidden = Job(plan, Count(), (0, 200), str(tmp_path / "none"), 10**9, 1, {})
    with pytest.raises(WorkerError, match="scratch must be a folder that every worker sees"):
        client.submit(run_task, hidden, 0).result()
    missing = matrix.save(tmp_path / "C.sparrow") * 2
    shutil.rmtree(tmp_path / "C.sparrow")
    with pytest.raises(NotFoundError, match=r"C\.sparrow"):
        missing.compute()
    assert os.listdir(tmp_path) == []


def count_unfinished(dask_scheduler: Any) -> int:
    """Return the number of tasks that a scheduler has still to run."""
    return sum(task.state in ("processing", "queued", "waiting") for task in dask_scheduler.tasks.values())


def test_interrupt_cancels_tasks(matrix: Any, client: Any, tmp_path: Path) -> None:
    def interrupt(**details: Any) -> None:
        raise KeyboardInterrupt

    with sparrow.testing.on("cluster.wait", interrupt), pytest.raises(KeyboardInterrupt):
        (matrix * 2).save(tmp_path / "B.sparrow")
    assert os.listdir(tmp_path) == []
    assert client.submit(int, 1).result() == 1  # messages keep their order
    assert client.run_on_scheduler(count_unfinished) == 0


def test_worker_out_of_memory(matrix: Any, client: Any, tmp_path: Path) -> None:
    client.run_on_scheduler(allow_failures, 0)
    with pytest.raises(
        WorkerError, match=r"1 workers died in one task, .* a lower memory_limit=, or workers with more"
    ):
        map_elements(Hungry(300.0, 1_500_000_000), matrix).save(tmp_path / "B.sparrow")
    client.run_on_scheduler(allow_failures, 3)
    assert os.listdir(tmp_path) == []
    assert elements((matrix * 2).compute()) == elements(matrix * 2)


def allow_failures(count: int, dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = count


def test_modules_that_workers_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_this.py").write_text("def add(shared, number):\n    return shared + number\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    add = importlib.import_module("only_this").add
    with pytest.raises(WorkerError, match=r"every worker must have the modules .* got No module named 'only_this'"):
        connect(None).map(add, 2, 1)


def test_closed_clients(matrix: Any, client: Any) -> None:
    other = distributed.Client(client.scheduler.address, set_as_default=False)

    def close(**details: Any) -> None:
        other.close()

    with sp.config(cluster=other):
        with (
            sparrow.testing.on("cluster.wait", close),
            pytest.raises(WorkerError, match="scheduler must run until the tas"),
        ):
            (matrix * 2).compute()
        with pytest.raises(InvalidValueError, match=r"must be a running distributed\.Client, got one that is closed"):
            (matrix * 2).compute()


def test_arguments(matrix: Any) -> None:
    with (
        sp.config(cluster=3),
        pytest.raises(InvalidValueError, match=r"cluster must be a distributed\.Client or an addr"),
    ):
        (matrix * 2).compute()
    with sp.config(cluster="nonsense://"), pytest.raises(InvalidValueError, match="cluster must be the address of"):
        (matrix * 2).compute()


def test_worker_killed_in_mid_pagerank(matrix: Any, client: Any) -> None:
    A, rounds = matrix[:7], []

    def kill(tasks: int) -> None:
        rounds.append(tasks)
        if len(rounds) == 5:
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)

    with sp.config(engine="stream"):
        expected = sp.graph.pagerank(A).to_numpy().tobytes()
    with sparrow.testing.on("cluster.wait", kill):
        assert sp.graph.pagerank(A).to_numpy().tobytes() == expected
    assert len(rounds) > 6
