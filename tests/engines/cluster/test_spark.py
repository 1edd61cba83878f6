"""Tasks on Spark on this machine; run where it and Java are installed."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.engines.cluster.spark import Spark, check_java, connect
from sparrow.engines.cluster.tasks import Count, Job, run_task
from sparrow.engines.portable_plan import PortablePlan
from sparrow.errors import InvalidValueError, MissingDependencyError, NotFoundError, WorkerError
from tests.engines.cluster.failing import Deadly, Hungry, Refusing, map_elements
from tests.engines.cluster.helpers import (
    check_killed_driver,
    check_killed_half_step,
    elements,
    ingest_several_files,
    kill_in_mid_save,
    kill_in_mid_sort,
)  # fmt: skip

pytest.importorskip("pyspark", reason="requires Spark: pip install 'pyspark[connect]'")

pytestmark = pytest.mark.filterwarnings("ignore")  # of pyspark, about pandas 3 and sockets that it leaves open

ROOT = Path(__file__).resolve().parents[3]
MASTER = "local-cluster[2,1,1024]"
STOPPED = """
import sys
import sparrow as sp, sparrow.testing
from sparrow.errors import InvalidValueError, WorkerError
from sparrow.engines.cluster.spark import connect
from pyspark.sql import SparkSession

A = sp.eye(300) * 2
try:
    connect("spark://127.0.0.1:1,127.0.0.1:2")
    sys.exit("no master")
except InvalidValueError as error:
    assert "cluster must be a master of Spark, got 'spark://127.0.0.1:1,127.0.0.1:2': " in str(error), error
connect("local[1]")
session = SparkSession.active()
with sp.config(cluster=session, engine="spark"), sparrow.testing.strategy("tiny_tasks"):
    try:
        with sparrow.testing.on("cluster.wait", lambda **details: session.stop()):
            A.compute()
        sys.exit("stopped in mid-round")
    except WorkerError as error:
        assert "the SparkSession must run until the tasks have ended" in str(error), error
    try:
        A.compute()
        sys.exit("stopped")
    except InvalidValueError as error:
        assert "cluster must be a running SparkSession, got one that is stopped" in str(error), error
"""


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, Any]]:
    """Ways to name one cluster, which serves Spark Connect too."""
    try:
        check_java(MASTER)
    except MissingDependencyError as error:
        pytest.skip(str(error))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    options = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.log.level": "OFF",
        "spark.executor.pyspark.memory": "8g",
        "spark.sql.shuffle.partitions": "2",
    }
    with pytest.MonkeyPatch.context() as patch:
        submit = " ".join(f"--conf {name}={value}" for name, value in options.items())
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{submit} pyspark-shell")
        patch.setenv("PYTHONPATH", str(ROOT))
        connect(MASTER)
    from pyspark.sql import SparkSession

    session = SparkSession.active()
    address = f"sc://127.0.0.1:{port}"
    yield {"active": None, "session": session, "master": MASTER, "connect": address}
    connect(address)._session.stop()  # else it would look for its server for minutes when the process ends
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def in_spark(clusters: dict[str, Any]) -> Iterator[None]:
    with sparrow.testing.strategy("tiny_tasks", "partitioned"), sp.config(engine="spark"):
        yield


@pytest.mark.parametrize("way", ["active", "session", "master", "connect"])
def test_views(way: str, clusters: dict[str, Any], matrix: Any) -> None:
    with sp.config(cluster=clusters[way]), sparrow.testing.observe("cluster.round") as rounds:
        found = (matrix + 1)[20:150:3].compute()
        assert "rounds      1 round of 4 tasks" in (matrix + 1).explain()
    assert [details["tasks"] for _, details in rounds] == [4]
    assert elements(found) == elements((matrix + 1)[20:150:3])


def test_results(matrix: Any, tmp_path: Path) -> None:
    x = np.arange(70.0).reshape(7, 10)
    with sparrow.testing.observe("cluster.round") as rounds:
        found = [(matrix + matrix.T[:7].T).compute(), (matrix @ matrix.T).sum(axis=1).compute()]
        product, count = matrix @ x, (matrix @ matrix.T).nnz
        saved = (matrix * 2).save(tmp_path / "B.sparrow")
    assert [type(details["work"]).__name__ for _, details in rounds] == [
        "Elements", "Elements", "Products", "Count", "Files"
    ]  # fmt: skip
    assert elements(found[0]) == elements(matrix + matrix.T[:7].T)
    assert elements(found[1]) == elements((matrix @ matrix.T).sum(axis=1))
    with sp.config(engine="stream"):
        assert product.tobytes() == (matrix @ x).tobytes()
        assert count == (matrix @ matrix.T).nnz
    assert elements(saved) == elements(matrix * 2)
    assert saved.verify() == []


def test_sums() -> None:
    with sparrow.testing.tune("relations", chunk_elements=50), sparrow.testing.observe("cluster.round") as rounds:
        A = sp.asarray(np.arange(3000.0).reshape(300, 10) / 7)[1:] * 1
        total = A.sum()
        with sp.config(engine="stream"):
            assert total == A.sum()
    assert [type(details["work"]).__name__ for _, details in rounds] == ["States"]


@pytest.mark.parametrize(("levels", "name"), [(0, "python"), (2, "java")])
def test_killed_in_mid_save(levels: int, name: str, matrix: Any, tmp_path: Path) -> None:
    assert kill_in_mid_save(matrix, tmp_path, levels).startswith(name)


def test_worker_killed_in_mid_sort(matrix: Any, tmp_path: Path) -> None:
    kill_in_mid_sort(matrix, tmp_path)


def test_ingest_of_several_files(tmp_path: Path) -> None:
    ingest_several_files(tmp_path)


def test_worker_killed_in_mid_als(tmp_path: Path) -> None:
    check_killed_half_step(connect(None), tmp_path)


def test_worker_dies_again_and_again(matrix: Any, tmp_path: Path) -> None:
    (tmp_path / "deaths").mkdir()
    with pytest.raises(WorkerError, match=r"Spark gave up the tasks: .*4 times.* exited unexpectedly"):
        map_elements(Deadly(str(tmp_path / "deaths"), 300.0, times=4), matrix).save(tmp_path / "B.sparrow")
    assert os.listdir(tmp_path) == ["deaths"]


def test_driver_killed_leaves_nothing_visible(clusters: dict[str, Any], matrix: Any, tmp_path: Path) -> None:
    check_killed_driver("spark", clusters["connect"], matrix, tmp_path)


def test_worker_out_of_memory(matrix: Any, tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"tasks must fit into the memory .* Unable to allocate .* a lower memory_l"):
        map_elements(Hungry(300.0, 16_000_000_000), matrix).save(tmp_path / "B.sparrow")
    assert os.listdir(tmp_path) == []


def test_stopped_sessions(clusters: dict[str, Any], matrix: Any) -> None:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(clusters["connect"]).create()
    session.stop()
    with sp.config(cluster=session), pytest.raises(InvalidValueError, match="running SparkSession, got one that is st"):
        (matrix * 2).compute()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    subprocess.run([sys.executable, "-c", STOPPED], env=environment, check=True)


def test_errors_of_tasks(matrix: Any, tmp_path: Path) -> None:
    with pytest.raises(OverflowError, match=r"300\.0 is refused"):
        map_elements(Refusing(300.0), matrix).save(tmp_path / "B.sparrow")
    missing = matrix.save(tmp_path / "C.sparrow") * 2
    shutil.rmtree(tmp_path / "C.sparrow")
    with pytest.raises(NotFoundError, match=r"C\.sparrow"):
        missing.compute()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("way", ["session", "connect"])
def test_workers_must_match(way: str, clusters: dict[str, Any], matrix: Any, tmp_path: Path) -> None:
    plan, scheduler = PortablePlan([matrix.__sparrow_scan__()]), connect(clusters[way])
    assert isinstance(scheduler, Spark)
    assert (scheduler.slots, scheduler.threads) == (2, 1)
    old = Job(plan, Count(), (0, 200), str(tmp_path), 10**9, 1, {}, version="0.0.1")
    with pytest.raises(WorkerError, match=r"sparrow must be 0\.0\.1 on every worker, got "):
        scheduler.map(run_task, 1, old)
    hidden = Job(plan, Count(), (0, 200), str(tmp_path / "none"), 10**9, 1, {})
    with pytest.raises(WorkerError, match="scratch must be a folder that every worker sees"):
        scheduler.map(run_task, 1, hidden)


def test_missing_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("def add(shared, number):\n    return shared + number\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    add = importlib.import_module("only_here").add
    with pytest.raises(
        WorkerError, match=r"must have the modules of this process, in .* got No module named 'only_here'"
    ):
        connect(None).map(add, 2, 1)


@pytest.mark.parametrize("way", ["session", "connect"])
def test_interrupt_cancels_tasks(way: str, clusters: dict[str, Any], matrix: Any, tmp_path: Path) -> None:
    def interrupt(**details: Any) -> None:
        raise KeyboardInterrupt

    with (
        sp.config(cluster=clusters[way]),
        sparrow.testing.on("cluster.wait", interrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        (matrix * 2).save(tmp_path / "B.sparrow")
    assert os.listdir(tmp_path) == []
    assert clusters["session"].sparkContext.statusTracker().getActiveJobsIds() == []
    assert elements((matrix * 2).save(tmp_path / "B.sparrow")) == elements(matrix * 2)


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        (3, "cluster must be a SparkSession or an address, got int"),
        ("local[1]", r"cluster must be 'local-cluster\[2,1,1024\]', which this process has a session of, got 'local"),
        ("sc://127.0.0.1:1", "cluster must be the address of a server of Spark Connect, got 'sc://127.0.0.1:1': "),
    ],
)
def test_arguments(cluster: Any, problem: str, matrix: Any) -> None:
    with sp.config(cluster=cluster), pytest.raises(InvalidValueError, match=problem):
        (matrix * 2).compute()


def test_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        MissingDependencyError, match="Java 17 or newer, got none: apt-get install openjdk-17-jre-headl"
    ):
        check_java(MASTER)
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    with pytest.raises(MissingDependencyError, match="Java 17 or newer, got 11: "):
        check_java(MASTER)
