"""Choice of the engine: situations, and what plans say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow import engines
from sparrow.engines.choice import choose
from sparrow.plan import Dense, make_matmul
from sparrow.testing import strategy, tune
from tests.engines.helpers import random_array, stored_relation

VECTOR = np.ones(20)


@pytest.fixture(name="A")
def fixture_matrix(tmp_path: Path) -> sp.Tensor:
    stored_relation(tmp_path / "A.sparrow", random_array((30, 20)))
    return sp.open(tmp_path / "A.sparrow")


def explain_product(A: Any, x: Any = VECTOR, **options: Any) -> engines.Plan:
    return engines.explain(make_matmul(A.__sparrow_scan__(), Dense(np.asarray(x))), **options)


def choice_of(plan: engines.Plan) -> str | None:
    """Return the choice that a plan shows, the same as text, JSON and HTML."""
    found = dict(plan.entries[0].details).get("choice")
    assert json.loads(plan.to_json())["details"].get("choice") == found
    assert (f"  choice      {found}\n" in plan) == (found is not None)
    assert (f"<th>choice</th><td>{found}</td>" in plan._repr_html_()) == (found is not None)
    return found


def test_repeated_products_persist_rows(A: sp.Tensor) -> None:
    assert choice_of(explain_product(A)) == "stream: product 1 of this matrix, repeated ones persist its rows"
    A @ VECTOR
    text = explain_product(A)
    assert str(choice_of(text)).startswith("persisted rows: product 2 of this matrix, at most ")
    assert "  engine      stream: rows of a persisted matrix, " in text
    for number in (3, 4):
        A @ VECTOR
        text = str(choice_of(explain_product(A)))
        assert text.startswith(f"persisted rows: product {number} of this matrix, ")
        assert text.endswith("B in memory")
    assert str(choice_of(explain_product(A, np.ones(20, np.float32)))).startswith("persisted rows: product 4")
    assert choice_of(explain_product(A, np.ones(20, np.complex64))).startswith("stream: product 1 ")  # type: ignore[union-attr]
    assert choice_of(explain_product(A.T, np.ones(30))).startswith("stream: product 1 ")  # type: ignore[union-attr]
    assert choice_of(explain_product(A[3:], VECTOR)).startswith("stream: product 1 ")  # type: ignore[union-attr]


def test_large_rows_are_refused(A: sp.Tensor) -> None:
    A @ VECTOR
    with strategy("operators_on_disk"):
        text = str(choice_of(explain_product(A)))
    assert text.startswith("stream: product 2 of this matrix, whose rows of ")
    assert text.endswith(" exceed a quarter of the memory limit, 0 bytes")


def test_other_matrices(A: sp.Tensor) -> None:
    small = A.compute()
    for _ in range(3):
        small @ VECTOR, (A * 2) @ VECTOR
    assert choice_of(explain_product(small)) == "stream: the operands are small and in memory"
    assert choice_of(explain_product(A * 2)) == (
        "stream: the matrix is an expression, computed for each product; persist() computes it once"
    )
    with tune("relations", chunk_elements=50):
        large = A.compute()
        assert str(choice_of(explain_product(large))).startswith("stream: product 1 of this matrix")
        large @ VECTOR
        assert str(choice_of(explain_product(large))).startswith("persisted rows: product 2 of this matrix")
        assert choice_of(explain_product(A.persist())) == "stream: the matrix is persisted"


def test_other_nodes(A: sp.Tensor) -> None:
    for expression in (A + 1, A.sum(axis=0), A.T @ A, (A * 2)[3:], A.reshape(-1)):
        assert choice_of(expression.explain()) == "stream: other engines take longer for this node"
    for tensor in (A, A[3:, ::2], A.compute()):
        assert choice_of(tensor.explain()) is None


def test_given_engines_are_not_chosen(A: sp.Tensor) -> None:
    for engine in ("stream", "duckdb", "toy"):
        assert choice_of(explain_product(A, engine=engine)) is None
        with sp.config(engine=engine):
            plan = explain_product(A)
            assert choice_of(plan) is None
            assert choice_of((A + 1).explain()) is None
        assert f"  engine      {engine}" in plan
        assert choose((A + 1).__sparrow_scan__(), engine).engine is engines.engine_for(engine)


def test_evaluations_show_the_choice(A: sp.Tensor) -> None:
    with sp.explained() as plans, sp.explained(analyze=True) as analyzed:
        pass
    for analyze in (False, True):
        with sp.explained(analyze=analyze) as plans:
            (A + 1).compute(), A.sum(), (A + 1).nnz, list((A * 2).to_batches())
            sp.compute(A * 3), A @ VECTOR
        assert not analyzed
        assert len(plans) >= 6
        assert all(choice_of(plan) is not None for plan in plans)
    plan = explain_product(A, analyze=True)
    assert str(choice_of(plan)).startswith("persisted rows: product 3 of this matrix, ")
    assert "\nanalyzed: dense (d0: 30) float64 from 0 rows" in plan
