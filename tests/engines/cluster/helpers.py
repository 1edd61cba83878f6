"""Values of tensors, computed in this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.engines.cluster import Cluster
from sparrow.models import ALS
from tests.engines.cluster.failing import Deadly, Lethal, map_elements
from tests.models import als_reference

__all__ = [
    "RATINGS", "bits", "check_killed_driver", "check_killed_half_step", "elements", "ingest_several_files",
    "kill_in_mid_save", "kill_in_mid_sort", "small_half_steps",
]  # fmt: skip

RATINGS = als_reference.matrix(300, 200, 8, weighted=True)
"""Ratings with empty rows and columns, and a long row."""


KILLED = """
import os, signal, sys
import numpy as np
import sparrow as sp, sparrow.testing
from tests.engines.cluster.failing import map_elements

def double(values):
    return np.asarray(values) * 2

def die(**details):
    print(details.get("pid"), flush=True)
    if details.get("task", 1) == 1:  # task 0 is done
        os.kill(os.getpid(), signal.SIGKILL)

engine, cluster, scratch, source, path, event = sys.argv[1:]
sp.config(engine=engine, cluster=cluster, scratch=scratch)
with sparrow.testing.strategy("tiny_tasks"), sparrow.testing.on(event, die):
    map_elements(double, sp.open(source)).save(path)
"""
"""A program that is killed while tasks save a tensor."""


def check_killed_driver(engine: str, cluster: str, matrix: Any, folder: Path, event: str = "cluster.wait") -> list[str]:
    """Check that a killed driver leaves nothing that the next one does not remove.

    The program comes from standard input, without ``if __name__ == "__main__"``. Return its output.
    """
    for name in ("saved", "scratch"):
        (folder / name).mkdir()
    saved, scratch = folder / "saved" / "B.sparrow", folder / "scratch"
    command = [sys.executable, "-", engine, cluster, str(scratch), matrix.path, str(saved), event]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    run = subprocess.run(command, input=KILLED, env=environment, capture_output=True, text=True)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert not saved.exists()
    assert len(os.listdir(scratch)) == 1
    with sp.config(scratch=scratch):
        B = (matrix * 2).save(saved)
    assert elements(B) == elements(matrix * 2)
    assert os.listdir(folder / "saved") == ["B.sparrow"]
    assert os.listdir(scratch) == []
    return run.stdout.split()


def elements(A: Any) -> list[Any]:
    with sp.config(engine="stream"):
        found: list[Any] = A.to_numpy().tolist()
    return found


def bits(model: ALS) -> tuple[bytes, ...]:
    """Return the factors and losses of a model."""
    return model.user_factors_.tobytes(), model.item_factors_.tobytes(), model.loss_.tobytes()


@contextmanager
def small_half_steps() -> Iterator[None]:
    """Let small matrices take several tasks, and 65 ratings be a long row."""
    with sparrow.testing.tune(
        "models", als_task_products=1, als_chunk_ratings=100, table_chunk_rows=16, als_block_rows=4, als_block_bytes=1,
        als_long_row_ratings=1, als_partition_min_ratings=50,
    ):  # fmt: skip
        yield


def check_killed_half_step(scheduler: Any, folder: Path) -> None:
    """Check that a fit has the same bits if a worker dies in a half step."""
    options: dict[str, Any] = {"factors": 4, "epochs": 2, "unobserved_weight": 0.1}
    engines.register(Cluster("lethal", lambda cluster: Lethal(scheduler, "HalfStep", folder)))
    try:
        with small_half_steps():
            expected = bits(ALS(**options, engine="stream").fit(RATINGS))
            with sp.config(engine="lethal"):
                model = ALS(**options).fit(RATINGS)
            assert bits(model) == expected
            assert max(each["retries"] for each in model.rounds_ if each["work"] == "halfstep") >= 1
    finally:
        engines.unregister("lethal")
    assert [path.name for path in folder.iterdir()] == ["died"]


def kill_in_mid_save(matrix: Any, folder: Path, levels: int = 0) -> str:
    """Save while the process of a task, or one above it, dies; return which."""
    (folder / "deaths").mkdir()
    B = map_elements(Deadly(str(folder / "deaths"), 300.0, levels=levels), matrix).save(folder / "B.sparrow")
    assert os.listdir(folder / "deaths") == ["died 0"]
    assert elements(B) == elements(matrix)
    assert B.verify() == []
    there = {name for name in os.listdir(folder / "B.sparrow") if not name.startswith("_")}
    assert there == {Path(file.path).name for file in B.files()}
    return (folder / "deaths" / "died 0").read_text()


def kill_in_mid_sort(matrix: Any, folder: Path) -> None:
    """Save a transposed expression while the process of a task dies."""
    (folder / "deaths").mkdir()
    with sp.config(engine="stream"), sparrow.testing.tune("storage", group_rows=50):
        links = matrix.save(folder / "A.sparrow")
    plan = map_elements(Deadly(str(folder / "deaths"), 300.0), links).T
    with sparrow.testing.tune("cluster", max_read_ratio=1.5), sparrow.testing.observe("cluster.round") as rounds:
        assert "round 1     runs" in plan.explain()
        B = plan.save(folder / "B.sparrow")
    assert [type(details["work"]).__name__ for _, details in rounds] == ["Runs", "MergedFiles"]
    assert os.listdir(folder / "deaths") == ["died 0"]
    assert elements(B) == elements(matrix.T)
    assert B.verify() == []


def ingest_several_files(folder: Path) -> None:
    """Compare an ingest in tasks with one in this process."""
    for number in range(4):
        lines = (f"n{k * k % 17}\tn{k}\t0.{k}" for k in range(number, 300, 3))
        (folder / f"{number}.txt").write_text("\n".join(lines) + "\n")
    with sparrow.testing.observe("cluster.round") as rounds:
        A = sp.ingest.edges(str(folder / "*.txt"), folder / "A.sparrow")
    assert [type(details["work"]).__name__ for _, details in rounds] == ["ParsedFiles", "MergedRows"]
    with sp.config(engine="stream"):
        B = sp.ingest.edges(str(folder / "*.txt"), folder / "B.sparrow")
    assert elements(A) == elements(B)
    assert A.labels(0).to_pylist() == B.labels(0).to_pylist()
    assert A.history()[0]["report"] == B.history()[0]["report"]
