"""Clusters: two processes of each scheduler next to one process of two threads.

Each side runs once in a process of its own, after a start and a first run on small data that are measured apart. CPU
time is that of the whole process tree: schedulers, executors, Java and Python. Schedulers that are not installed have
no rows; ``pip install ray`` and ``pip install 'pyspark[connect]'`` install two of them, and Spark needs Java 17.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from generate import links, matrix, rmat
from harness import DATA, FOLDER, Row, fresh

import sparrow as sp
import sparrow.testing
from sparrow.engines.cluster.spark import check_java, connect
from sparrow.engines.round_profile import collect_rounds
from sparrow.errors import MissingDependencyError

SCHEDULERS = {"processes": "psutil", "dask": "distributed", "ray": "ray", "spark": "pyspark"}
"""The package that each side requires."""
GOALS = {"processes": 2.0, "dask": 2.0, "ray": 2.0, "spark": 4.0}
"""CPU time over that of one process, where the work takes ``LONG`` or the scheduler is not Spark."""
LONG = 10.0
"""Seconds of CPU time."""
MASTER = "local-cluster[2,1,1024]"
CPU_TICK = 0.01
"""Seconds between two values of the clock of CPU time."""
TIME_LIMIT = 3000
"""Seconds of a side; one that takes longer has no rows."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the data."""

    elements: int
    levels: int
    per_row: int
    scale: int
    links: int
    factors: int

    @property
    def folder(self) -> Path:
        return DATA / f"cluster-{self.elements}-{self.levels}-{self.scale}-{self.links}"


FULL = Sizes(10_000_000, 17, 16, 19, 10_000_000, 128)
SMALL = Sizes(200_000, 10, 8, 12, 50_000, 16)


@dataclass(frozen=True)
class Data:
    """Stored tensors: two of floats, graphs to square and rank, and links."""

    A: Any
    B: Any
    R: Any
    graph: Any
    links: Any
    x: Array
    factors: int
    results: Path


def make(sizes: Sizes) -> Data:
    """Return the data of a size, generated once."""
    folder = sizes.folder
    if not (folder / "x.npy").exists():
        n = max(sizes.elements // 24, 1000)
        for seed, name in enumerate("AB"):
            rows, columns, values = matrix(n, sizes.elements // (1, 4)[seed], seed=seed)
            sp.from_coords([rows, columns], values, shape=(n, n)).save(fresh(folder / f"{name}.sparrow"))
        rmat(sizes.levels, sizes.per_row).save(fresh(folder / "R.sparrow"))
        web = sp.datasets.load("cnr-2000")
        part = web if sizes is FULL else web[:3000, :3000]
        part.save(fresh(folder / "links.sparrow"), orders=[(1, 0)])
        links(sizes.scale, sizes.links)
        np.save(folder / "x.npy", np.random.default_rng(0).random(n))
    A, B, R, web = (sp.open(folder / f"{name}.sparrow") for name in ("A", "B", "R", "links"))
    x = np.load(folder / "x.npy")
    return Data(A, B, R, links(sizes.scale, sizes.links), web, x, sizes.factors, folder)


# -- work ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """Something that every side computes.

    Parameters
    ----------
    run
        Takes the data and a folder to write to; returns a stored tensor, or numbers.
    sql
        Takes the session, the data and a folder; returns the numbers that Spark SQL finds.
    """

    run: Callable[[Data, Path], Any]
    sql: Callable[[Any, Data, Path], Any] | None = None


def _als(solver: str) -> Callable[[Data, Path], Any]:
    def fit(data: Data, out: Path) -> Any:
        model = sp.models.ALS(factors=data.factors, solver=solver, epochs=1, regularization=0.2, unobserved_weight=1e-3)
        return model.fit(data.links).loss_

    return fit


def _frame(session: Any, A: Any) -> Any:
    return session.read.parquet(*[file.path for file in A.files()]).toDF("i", "j", "v")


def _spmv_sql(session: Any, data: Data, out: Path) -> Any:
    pq.write_table(pa.table({"j": np.arange(len(data.x), dtype=np.int32), "x": data.x}), out)
    joined = _frame(session, data.A).join(session.read.parquet(str(out)), "j")
    found = joined.selectExpr("i", "v * x as p").groupBy("i").sum("p").toPandas()
    y = np.zeros(data.A.shape[0])
    y[found.iloc[:, 0].to_numpy()] = found.iloc[:, 1].to_numpy()
    return y


def _sum_sql(session: Any, data: Data, out: Path) -> Any:
    both = _frame(session, data.A).union(_frame(session, data.B)).groupBy("i", "j").agg({"v": "sum"})
    return both.toDF("i", "j", "v").selectExpr("sum(abs(v))").collect()[0][0]


def _sort_sql(session: Any, data: Data, out: Path) -> Any:
    ordered = _frame(session, data.A).repartitionByRange(8, "j", "i").sortWithinPartitions("j", "i")
    ordered.write.parquet(str(out))
    assert pyarrow.dataset.dataset(out).count_rows() == data.A.nnz
    return _summary(data.A.T)


def _pagerank(data: Data, out: Path) -> Any:
    """Return ranks, computed in rounds although the graph fits in one process."""
    with sparrow.testing.tune("cluster", local_product_elements=0):
        return sp.linalg.pagerank(data.graph, tol=1e-8)


WORKS = {
    "A @ x": Work(lambda data, out: data.A @ data.x, _spmv_sql),
    "R @ R, maximum of rows": Work(lambda data, out: (data.R @ data.R).max(axis=1).to_numpy()),
    "sum of abs(A + B)": Work(lambda data, out: abs(data.A + data.B).sum(), _sum_sql),
    "save of A + B": Work(lambda data, out: (data.A + data.B).save(out)),
    "save of A.T, another order": Work(lambda data, out: data.A.T.save(out), _sort_sql),
    "PageRank": Work(_pagerank),
    "ALS epoch, exact": Work(_als("exact")),
    "ALS epoch, cg": Work(_als("cg")),
}


def _summary(found: Any) -> Any:
    """Return the count and checksums of a tensor, other values as they are."""
    if not isinstance(found, sp.Tensor):
        return found
    checksums = [0] * (found.ndim + 1)
    with sp.config(engine="stream"):
        for batch in found.to_batches():
            for number, column in enumerate(batch.columns):
                checksums[number] = zlib.crc32(column.to_numpy(zero_copy_only=False), checksums[number])
        return [found.nnz, *checksums]


# -- sides ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Took:
    """Seconds, of all processes for ``cpu``."""

    cpu: float
    wall: float
    rounds: int = 0
    tasks: int = 0
    retries: int = 0

    def __str__(self) -> str:
        ran = f", {self.rounds} rounds of {self.tasks} tasks in all" if self.rounds else ""
        return f"{self.cpu:.2f} s of CPU, {self.wall:.2f} s of time{ran}"


def _tree_cpu() -> float:
    """Return the CPU seconds of this process, its descendants, and those that ended."""
    me, total = psutil.Process(), 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def measure_call(run: Callable[[], Any]) -> tuple[Any, Took]:
    cpu, wall = _tree_cpu(), time.perf_counter()
    with collect_rounds() as rounds:
        found = run()
    tasks = [task for each in rounds for task in each.tasks]
    retries = sum(task.attempts - 1 for task in tasks)
    return found, Took(max(_tree_cpu() - cpu, CPU_TICK), time.perf_counter() - wall, len(rounds), len(tasks), retries)


@contextmanager
def _start(side: str, folder: Path) -> Iterator[Any]:
    """Start two processes of a scheduler; yield the setting ``cluster``."""
    if side == "processes":
        yield 2
    elif side == "dask":
        from distributed import Client, LocalCluster

        where: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": None, "local_directory": str(folder)}
        create: Any = Client
        with LocalCluster(n_workers=2, threads_per_worker=1, **where) as cluster, create(cluster) as client:
            yield client
    elif side == "ray":
        import ray

        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - 15 by default, behind other work
        ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
        yield None
        ray.shutdown()
    elif side in ("spark", "sql", "mllib"):
        from pyspark.sql import SparkSession

        connect(MASTER)
        session = SparkSession.active()
        session.conf.set("spark.sql.shuffle.partitions", "8")
        yield session
        session.stop()
    else:
        yield None


def measure(side: str, small: bool, names: list[str]) -> dict[str, Any]:
    """Run the works of a side; return seconds, and results in files."""
    folder = fresh(DATA / f"cluster-{side}")
    folder.mkdir()
    cpu, wall = _tree_cpu(), time.perf_counter()
    sp.config(threads=2, progress=False, scratch=folder, temp_directory=folder)
    with _start(side, folder) as cluster:
        tiny, data = make(SMALL), make(SMALL if small else FULL)
        if side in ("sql", "mllib"):
            cluster.range(100_000).selectExpr("sum(id)").collect()
        else:
            engine = "stream" if side == "local" else side
            sp.config(engine=engine, cluster=None if side == "local" else cluster)
            with sparrow.testing.strategy("tiny_tasks"):
                (tiny.A * 2).compute()
        took = {"start": Took(_tree_cpu() - cpu, time.perf_counter() - wall)}
        for number, name in enumerate(names):
            run = _side_work(side, cluster, name)
            with sparrow.testing.strategy("tiny_tasks"):
                _summary(run(tiny, folder / f"warm-{number}"))
            with sparrow.testing.strategy("tiny_tasks") if small else nullcontext():
                found, took[name] = measure_call(lambda run=run, number=number: run(data, folder / f"result-{number}"))
            np.save(folder / f"{number}.npy", np.asarray(_summary(found), np.float64))
    return {name: asdict(each) for name, each in took.items()}


def _side_work(side: str, session: Any, name: str) -> Callable[[Data, Path], Any]:
    if side == "mllib":
        return lambda data, out: _mllib(session, data)
    work = WORKS[name]
    if side == "sql":
        assert work.sql is not None
        return lambda data, out: work.sql(session, data, out)
    return work.run


def _mllib(session: Any, data: Data) -> float:
    """Fit MLlib's implicit ALS for an iteration; return its rank."""
    from pyspark.ml.recommendation import ALS

    model = ALS(rank=data.factors, maxIter=1, regParam=0.01, alpha=100.0, implicitPrefs=True, numUserBlocks=2,
                numItemBlocks=2, userCol="i", itemCol="j", ratingCol="v").fit(_frame(session, data.links))  # fmt: skip
    return float(model.rank)


def _measure_apart(side: str, small: bool, names: list[str]) -> dict[str, Took]:
    """Run a side in a process of its own; empty if it takes too long."""
    arguments = [sys.executable, __file__, side, str(int(small)), json.dumps(names)]
    try:
        run = subprocess.run(
            arguments, stdout=subprocess.PIPE, text=True, check=True, cwd=FOLDER.parent, timeout=TIME_LIMIT,
            env=os.environ | {"PYTHONWARNINGS": "ignore", "PYTHONPATH": str(FOLDER.parent)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        print(f"{side} took more than {TIME_LIMIT} s: no rows", file=sys.stderr)
        return {}
    return {name: Took(**each) for name, each in json.loads(run.stdout.splitlines()[-1]).items()}


# -- rows ----------------------------------------------------------------------------------------------


def run(small: bool) -> list[Row]:
    """Return the rows of all schedulers that are installed."""
    make(SMALL)
    make(SMALL if small else FULL)
    names = list(WORKS)
    local = _measure_apart("local", small, names)
    out, sides = [], {}
    for side in SCHEDULERS:
        missing = _missing(side)
        if missing:
            print(f"no rows of {side}: {missing}", file=sys.stderr)
            continue
        sides[side] = _measure_apart(side, small, names)
        out += _beside_local(side, sides[side], local, names)
    if sides.get("spark"):
        queries = [name for name, work in WORKS.items() if work.sql is not None]
        sql = _measure_apart("sql", small, queries)
        for name in [name for name in queries if sql]:
            _check("sql", queries.index(name), names.index(name), name, 1e-6)
            ours, theirs = sides["spark"][name], sql[name]
            out.append(Row(f"{name}, spark, CPU", f"Spark SQL, {theirs.cpu:.1f} s", ours.cpu / theirs.cpu, 1.0,
                           f"{ours} : {theirs}"))  # fmt: skip
        exact = "ALS epoch, exact"
        mllib = _measure_apart("mllib", small, [exact])
        pairs = [(side, name) for side in sides if sides[side] for name in (exact, "ALS epoch, cg")]
        for side, name in pairs if mllib else []:
            ours, theirs = sides[side][name], mllib[exact]
            against = f"MLlib, one iteration, {theirs.cpu:.0f} s"
            detail = f"{theirs} : {ours}"
            work = f"{name}, {side}, CPU of the peer"
            out.append(Row(work, against, theirs.cpu / ours.cpu, 20.0, detail, True))
    return out


def _missing(side: str) -> str:
    """Return the requirement that a scheduler lacks, "" if it can start."""
    if find_spec(SCHEDULERS[side]) is None:
        return f"{SCHEDULERS[side]} is not installed"
    try:
        if side == "spark":
            check_java(MASTER)
    except MissingDependencyError as error:
        return str(error)
    return ""


def _beside_local(side: str, took: dict[str, Took], local: dict[str, Took], names: list[str]) -> list[Row]:
    """Return the rows of a scheduler; its results must be those of one process."""
    if not took:
        return []
    start = took["start"]
    out = [Row(f"start and first tasks, {side}", "1 s of CPU", start.cpu, math.inf, str(start))]
    for number, name in enumerate(names):
        _check(side, number, number, name)
        ours, theirs = took[name], local[name]
        goal = GOALS[side] if side != "spark" or theirs.cpu >= LONG else math.inf
        detail = f"{ours} : {theirs}"
        out.append(Row(f"{name}, {side}, CPU", f"one process, {theirs.cpu:.2f} s", ours.cpu / theirs.cpu, goal, detail))
        against = f"one process, {theirs.wall:.2f} s"
        out.append(Row(f"{name}, {side}, time", against, ours.wall / theirs.wall, math.inf, detail))
    return out


def _check(side: str, number: int, local: int, name: str, rtol: float = 0.0) -> None:
    """Raise if the result of a side differs from that of one process.

    An ``rtol`` of 0 requires the same bits.
    """
    found = np.load(DATA / f"cluster-{side}" / f"{number}.npy")
    expected = np.load(DATA / "cluster-local" / f"{local}.npy")
    if rtol:
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-9, err_msg=f"{name}, {side}")
    elif found.tobytes() != expected.tobytes():
        raise AssertionError(f"{name}, {side}: other bits than one process")


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], bool(int(sys.argv[2])), json.loads(sys.argv[3]))))
