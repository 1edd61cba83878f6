"""Operands that all tasks need are computed once; chains and arrays in tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.engines.cluster import Cluster
from tests.engines.cluster import failing
from tests.engines.cluster.failing import count_values, map_elements
from tests.engines.cluster.here import Here


@pytest.fixture(scope="module", autouse=True)
def in_tasks() -> Iterator[None]:
    engines.register(Cluster("in_tasks", lambda cluster: Here()))
    with sparrow.testing.strategy("tiny_tasks", "partitioned"):
        yield
    engines.unregister("in_tasks")


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    rng, found = np.random.default_rng(0), []
    for number in range(4):
        coords, values = rng.integers(0, 40, (2, 400)), rng.random(400)
        A = sp.from_coords(coords, values, shape=(40, 40), duplicates="last")
        found.append(A.save(tmp_path_factory.mktemp("operands") / f"{number}.sparrow"))
    return found


def bits(result: Any) -> list[bytes]:
    if not isinstance(result, sp.Tensor):
        return [np.asarray(result).tobytes()]
    block = engines.evaluate(result.__sparrow_scan__())
    return [array.tobytes() for array in (*block.coords, block.values)]


RIGHT: dict[str, Callable[..., Any]] = {
    "product": lambda A, B, C: A @ (B + C),
    "nested": lambda A, B, C: (A @ (B @ (C * 2))) * 3,
    "broadcast": lambda A, B, C: A * (B[3] + C[4])[None, :],
    "column": lambda A, B, C: A + (B @ C).sum(axis=1)[None, :],
    "masked": lambda A, B, C: sp.matmul(A, B + C, mask=A),
    "masked sum": lambda A, B, C: sp.matmul(A, B + C, mask=A).sum(),
    "twice": lambda A, B, C: (A @ (B * C)) + A @ (B * C).T,
    "sum": lambda A, B, C: (A @ (B + C)).sum(),
    "rows": lambda A, B, C: (A @ (B + C)).sum(axis=1),
    "columns": lambda A, B, C: (A @ (B + C)).sum(axis=0),
    "view": lambda A, B, C: (A @ (B + C))[5:31:2, ::-1],
    "vector": lambda A, B, C: (A @ (B + C)) @ np.arange(40.0),
    "transposed": lambda A, B, C: (A @ (B + C)).T,
    "chain": lambda A, B, C: sp.einsum("ij,jk,kl->il", A, B, C),
    "chain and more": lambda A, B, C: sp.einsum("ij,jk,kl->il", A * 2, B, C + A) * A,
    "chain sum": lambda A, B, C: sp.einsum("ij,jk,kl->il", A, B, C).sum(),
    "chain of views": lambda A, B, C: sp.einsum("ij,kj,kl,lm->mi", A, B[3:], C[3:], A)[::2],
    "chain total": lambda A, B, C: sp.einsum("ij,jk,ik->", A, B, C),
    "chain columns": lambda A, B, C: sp.einsum("ij,jk,kl->il", A, B, C).sum(axis=0),
    "array": lambda A, B, C: A * 2 + np.arange(40.0),
    "array of rows": lambda A, B, C: (A + B)[3:, ::-1] - np.arange(37.0)[:, None],
    "array of all": lambda A, B, C: sp.exp(A @ (B + C)) * np.arange(1600.0).reshape(40, 40),
}


@pytest.mark.parametrize("name", RIGHT)
def test_same_bits(name: str, tensors: list[Any]) -> None:
    in_process = {"sum", "masked sum", "columns", "chain columns", "chain total"}
    for strategies, result_bytes in (([], 1024), (["small_chunks"], 10**6)):
        with sparrow.testing.strategy(*strategies), sparrow.testing.tune("cluster", result_bytes=result_bytes):
            with sp.config(engine="stream"):
                expected = bits(RIGHT[name](*tensors[:3]))
            with sp.config(engine="in_tasks"), sparrow.testing.observe("cluster.round") as rounds:
                assert bits(RIGHT[name](*tensors[:3])) == expected
            assert rounds or name in in_process or strategies, name


@pytest.mark.parametrize("result_bytes", [100, 10**6])
def test_operands_are_computed_once(tensors: list[Any], tmp_path: Path, result_bytes: int) -> None:
    A, B, C, D = tensors
    plans = {
        "product": A @ map_elements(count_values, B),
        "two": (A @ map_elements(count_values, B)) * (D @ map_elements(count_values, C)).sum(axis=0),
        "twice": A @ map_elements(count_values, B) + map_elements(count_values, B),
        "broadcast": A * map_elements(count_values, B[3])[None, :],
    }
    counts = {"product": B.nnz, "two": B.nnz + C.nnz, "twice": B.nnz, "broadcast": B[3].nnz}
    for name, plan in plans.items():
        failing.COUNTED[0] = 0
        with (
            sp.config(engine="in_tasks", scratch=tmp_path),
            sparrow.testing.tune("cluster", result_bytes=result_bytes),
            sparrow.testing.observe("cluster.round") as rounds,
        ):
            plan.compute()
        assert (name, failing.COUNTED[0]) == (name, counts[name])
        assert max(details["tasks"] for _, details in rounds) > 1
    assert list(tmp_path.iterdir()) == []


def test_chains_take_rounds(tensors: list[Any]) -> None:
    A, B, C, D = tensors
    chain = sp.einsum("ij,jk,kl,lm->im", A, B, C, D)
    text = chain.explain(engine="in_tasks")
    assert "engine      in_tasks: products of two tensors, each in rounds of its own" in text
    with sp.config(engine="in_tasks"), sparrow.testing.observe("cluster.round") as rounds:
        chain.compute()
    assert [type(details["work"]).__name__ for _, details in rounds] == ["Elements"] * 3


def test_plans_show_operands(tensors: list[Any]) -> None:
    A, B, C, _ = tensors
    text = (A @ (B + C)).explain(engine="in_tasks")
    assert "round 1     operand, elements: 4 tasks" in text
    assert "round 2     elements: 4 tasks" in text
    assert "of arrays in files that tasks map into memory" in text
    with sp.config(engine="in_tasks"), sp.explained() as plans:
        A + np.ones((40, 1))
    assert "rounds      1 round of 4 tasks, 400 elements each" in plans[0]


def test_squares_of_expressions() -> None:
    rng = np.random.default_rng(1)
    with sparrow.testing.tune("cluster", max_read_ratio=1.5), sparrow.testing.tune("relations", chunk_elements=100):
        A = sp.from_coords(rng.integers(0, 300, (2, 4000)), rng.random(4000), shape=(300, 300), duplicates="last")
        normalized = A / A.sum(axis=1)[:, None]
        for plan in (normalized @ normalized, (normalized @ normalized)[1:, ::-1], normalized @ (A * 2 + A.T)):
            with sp.config(engine="stream"):
                expected = bits(plan)
            with sp.config(engine="in_tasks"), sparrow.testing.observe("cluster.round") as rounds:
                assert bits(plan) == expected
                assert "operand, elements" in plan.explain()
            assert len(rounds) > 1


def test_errors_of_operands(tensors: list[Any], tmp_path: Path) -> None:
    A, B, _, _ = tensors
    value = float(engines.evaluate(B.__sparrow_scan__()).values[0])
    with sp.config(engine="in_tasks", scratch=tmp_path), pytest.raises(OverflowError, match="is refused"):
        (A @ map_elements(failing.Refusing(value), B)).compute()
    assert list(tmp_path.iterdir()) == []
