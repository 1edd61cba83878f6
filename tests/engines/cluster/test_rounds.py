"""Plans of rounds of tasks, and what the tasks measured."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.engines.cluster.marks import RoundProgress, mark_end, mark_start
from sparrow.engines.round_profile import PlannedRound, RoundsPlan
from tests.engines.cluster.failing import Deadly, Refusing, map_elements


@pytest.fixture(scope="module", autouse=True)
def in_processes() -> Iterator[None]:
    with sparrow.testing.strategy("tiny_tasks", "partitioned"), sp.config(engine="processes", cluster=2):
        yield


def ran(plan: Any) -> list[dict[str, Any]]:
    """Return the rounds that ran of an analyzed plan."""
    found: list[dict[str, Any]] = json.loads(plan.to_json())["totals"].get("rounds", [])
    return found


def test_analyzed_rounds(matrix: Any) -> None:
    plan = (matrix * 2).explain(analyze=True)
    root = json.loads(plan.to_json())
    (planned,), (actual,) = root["rounds"], root["totals"]["rounds"]
    assert planned["work"] == actual["work"] == "elements"
    assert planned["tasks"] == actual["tasks"] == 4
    assert planned["elements"] == root["totals"]["elements"] == 600
    assert actual["bytes_read"] == 4 * planned["bytes_read"] > 0  # all tasks read the only row group
    assert actual["bytes_written"] > 0  # results above the tiny limit
    assert actual["retries"] == 0
    assert actual["hosts"] == {socket.gethostname(): 4}
    assert actual["processes"] == 2
    seconds = actual["task_seconds"]
    assert 0 < seconds["min"] <= seconds["median"] <= seconds["max"] <= actual["seconds"]
    assert "rounds      1 round of 4 tasks, 150 elements each" in plan
    assert "; save() has tasks write data files, and commits once" in plan
    assert "\nround 1: elements, 4 tasks in " in plan
    assert f"0 retries; 2 processes: 4 on {socket.gethostname()}" in plan
    html = plan._repr_html_()
    assert "4 tasks in 1 round<" in html
    assert "round 1: elements" in html


def test_terminals_have_their_rounds(matrix: Any, tmp_path: Path) -> None:
    X = np.ones((7, 20))
    in_memory = matrix.compute(engine="stream")
    with sparrow.testing.strategy("small_chunks"), sp.config(scratch=tmp_path), sp.explained(analyze=True) as plans:
        (matrix * 2).save(tmp_path / "B.sparrow")
        (in_memory[1:] * 1).max()
        matrix @ X
        _ = (matrix * 3).nnz
    works = [[(each["work"], each["tasks"]) for each in ran(plan)] for plan in plans]
    assert [[work for work, _ in each] for each in works] == [["files"], ["states"], ["products"], ["count"]]
    assert all(tasks > 1 for each in works for _, tasks in each)
    saved, summed, multiplied, _ = plans
    assert "result      data files by tasks, committed once by this process" in saved
    assert ran(saved)[0]["bytes_written"] == sp.open(tmp_path / "B.sparrow").nbytes
    assert json.loads(saved.to_json())["totals"]["elements"] == 600
    assert "result      states of chunks, merged in the order of chunks" in summed
    assert f"shared      {X.nbytes / 1000:.2f} kB of arrays in files that tasks map into memory" in multiplied
    assert ran(multiplied)[0]["bytes_shared"] == X.nbytes


def test_retries_are_counted(matrix: Any, tmp_path: Path) -> None:
    plan = map_elements(Deadly(str(tmp_path), 300.0), matrix).explain(analyze=True)
    assert ran(plan)[0]["retries"] == 1
    assert "1 retries" in plan
    assert ran((matrix * 2).explain(analyze=True))[0]["retries"] == 0


def test_plans_that_run_here_have_no_rounds(matrix: Any) -> None:
    plan = (matrix[:2] * 2).explain(analyze=True)
    assert ran(plan) == []
    assert "rounds      none, computed in this process: the result has fewer than four rows" in plan
    with sp.explained() as plans:
        (matrix * 2).compute()
    assert "rounds" not in json.loads(plans[0].to_json()).get("totals", {})


def test_progress_counts_tasks(matrix: Any) -> None:
    events = ("progress.start", "progress.advance", "progress.finish")
    with sp.config(progress=True), sparrow.testing.observe(*events) as seen:
        (matrix * 2).compute()
    bars = [(name, details) for name, details in seen if details["description"] == "tasks on processes"]
    assert bars[0][1]["total"] == 4
    assert bars[0][1]["unit"] == "tasks"
    assert sum(details["n"] for name, details in bars if name == "progress.advance") == 4
    with (
        sp.config(progress=True), sparrow.testing.observe("progress.finish") as seen, pytest.raises(OverflowError),
    ):  # fmt: skip
        map_elements(Refusing(300.0), matrix).compute()
    assert [details["is_complete"] for _, details in seen if details["description"] == "tasks on processes"] == [False]


def test_progress_follows_marks(tmp_path: Path) -> None:
    advanced: list[int] = []
    progress: Any = RoundProgress(str(tmp_path), "one", 3, advanced.append)
    assert mark_start(str(tmp_path), "one", 0) == 1
    assert mark_start(str(tmp_path), "one", 0) == 2
    assert mark_start(str(tmp_path), "another", 0) == 1
    progress.refresh()
    for number in (0, 2):
        mark_end(str(tmp_path), "one", number)
    mark_end(str(tmp_path), "another", 0)
    progress.refresh()
    progress.refresh()
    assert advanced == [0, 2, 0]


def test_plans_of_several_rounds() -> None:
    plan = RoundsPlan((PlannedRound("cut", 12, 1.2e7, 10**8, 3 * 10**8), PlannedRound("merge", 8, 1.2e7, 3 * 10**8)))
    assert plan.details() == [
        ("rounds", "2 rounds, 300 MB between them"),
        ("round 1", "cut: 12 tasks, 1e+06 elements each, 100 MB read in all, 300 MB in files for the next round"),
        ("round 2", "merge: 8 tasks, 1.5e+06 elements each, 300 MB read in all"),
    ]
    assert plan.to_dicts()[0]["bytes_between"] == 3 * 10**8
