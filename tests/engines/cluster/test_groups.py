"""Reductions over the leading axis: tasks add up chunks, merged in their order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import engines
from tests.engines.cluster.failing import Deadly, map_elements


@pytest.fixture(scope="module", autouse=True)
def in_processes() -> Iterator[None]:
    with sparrow.testing.strategy("tiny_tasks", "partitioned"), sp.config(engine="processes", cluster=2):
        yield


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A stored matrix of 3000 values that do not add up exactly, in 30 row groups."""
    rng = np.random.default_rng(0)
    at = np.sort(rng.choice(600 * 10, 3000, replace=False))
    A = sp.from_coords([at // 10, at % 10], rng.normal(size=3000) * 10.0 ** rng.integers(-9, 9, 3000), shape=(600, 10))
    with sparrow.testing.tune("storage", group_rows=100), sp.config(engine="stream"):
        return A.save(tmp_path_factory.mktemp("matrix") / "A.sparrow")


def bits(A: Any) -> list[Any]:
    block = engines.evaluate(A.__sparrow_scan__())
    return [array.tobytes() for array in (*block.coords, block.values)]


@pytest.mark.parametrize("kind", ["stored", "expression", "part", "integers", "runs"])
def test_reductions_over_the_leading_axis(matrix: Any, kind: str, tmp_path: Path) -> None:
    A = matrix
    if kind == "expression":
        A = matrix * 3 + 1e-3 * matrix[::-1]
    elif kind == "part":
        A = matrix[5:590, 9:0:-2]
    elif kind == "integers":
        A = (matrix * 1e3).clip(-1e4, 1e4).astype("int32")
    elif kind == "runs":
        A = matrix.save(tmp_path / "B.sparrow")
        with sp.config(engine="stream"):
            A.append(sp.from_coords([np.arange(0, 600, 7), np.full(86, 3)], np.full(86, 0.1), shape=(600, 10)), "sum")
    for name in ("sum", "min", "max", "count", "mean", "any", "nansum", "norm", "prod"):
        reduction = getattr(A, name)
        again = getattr(A[:], name)  # nodes keep their results
        with sparrow.testing.observe("cluster.round") as rounds:
            found = bits(reduction(axis=0))
        if kind != "runs":
            assert [type(details["work"]).__name__ for _, details in rounds] == ["Groups"], name
            assert rounds[0][1]["tasks"] >= 2
        with sp.config(engine="stream"):
            assert found == bits(again(axis=0)), name


def test_reductions_inside_of_plans(matrix: Any) -> None:
    def center(A: Any) -> Any:
        return (A - A.sum(axis=0, keepdims=True) / 600).sum(axis=1)

    with sparrow.testing.observe("cluster.round") as rounds:
        found = bits(center(matrix))
    assert [type(details["work"]).__name__ for _, details in rounds] == ["Groups", "Elements", "Elements"]
    with sp.config(engine="stream"):
        assert found == bits(center(matrix[:]))
    with sparrow.testing.observe("cluster.round") as rounds:
        nested = bits((matrix / matrix.max(axis=0)).sum(axis=0))
    assert [type(details["work"]).__name__ for _, details in rounds] == ["Groups"]
    with sp.config(engine="stream"):
        assert nested == bits((matrix[:] / matrix[:].max(axis=0)).sum(axis=0))


def test_products_of_integers_over_the_leading_axis(matrix: Any, tmp_path: Path) -> None:
    with sp.config(engine="stream"), sparrow.testing.tune("storage", group_rows=100):
        A = (matrix * 1e3).clip(-1e4, 1e4).astype("int32").save(tmp_path / "A.sparrow")
    rng = np.random.default_rng(0)
    x, X = rng.integers(-(2**31), 2**31, 600), rng.integers(0, 2**31, (600, 3)).astype("int32")
    products: list[Any] = [
        lambda: x @ A, lambda: A.T @ X, lambda: (A * 3)[::-1, 2:].T @ x, lambda: sp.einsum("ij,i,ik->jk", A, x, X),
        lambda: sp.einsum("ij,i,j->", A, x, x[:10]),
    ]  # fmt: skip
    for number, product in enumerate(products):
        with sparrow.testing.tune("cluster", max_read_ratio=1.5), sparrow.testing.observe("cluster.round") as rounds:
            found = np.asarray(product())
        assert [type(details["work"]).__name__ for _, details in rounds] == ["Sums"], number
        with sp.config(engine="stream"):
            expected = np.asarray(product())
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes(), number
    with sparrow.testing.observe("cluster.round") as rounds:
        x @ matrix  # sums of floats depend on the cut
    assert rounds == []


def test_sums_of_floats_have_lanes(matrix: Any) -> None:
    with sparrow.testing.observe("cluster.round") as rounds:
        matrix.sum(axis=0).compute()
        matrix.count(axis=0).compute()
    assert [details["tasks"] for _, details in rounds] == [4, 4]
    with sparrow.testing.strategy("single_lane"), sparrow.testing.observe("cluster.round") as rounds:
        matrix[:].mean(axis=0).compute()
        matrix[:].max(axis=0).compute()
    assert len(rounds) == 1  # one lane is not divided
    text = matrix[:].sum(axis=0).explain()
    assert "fallback: tasks add up chunks of its operand, and this process the sums of tasks" in text
    assert "rounds      1 round of 4 tasks, 750 elements each" in text
    assert "fallback: each task would reduce all of its operand" in matrix.std(axis=0).explain()


def test_worker_killed_in_mid_reduction(matrix: Any, tmp_path: Path) -> None:
    value = float(matrix.to_arrow().column(2)[2500].as_py())
    plan = map_elements(Deadly(str(tmp_path), value), matrix).sum(axis=0)
    with sparrow.testing.observe("cluster.death") as deaths:
        found = bits(plan)
    assert len(deaths) == 1
    assert os.listdir(tmp_path) == ["died 0"]
    with sp.config(engine="stream"):
        assert found == bits((matrix * 1).sum(axis=0))
