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
    opened: sp.Tensor = sp.open(tmp_path / "A.sparrow")
    return opened


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
    plan = explain_product(A)
    assert str(choice_of(plan)).startswith("persisted rows: product 2 of this matrix, at most ")
    assert "  engine      stream: rows of a persisted matrix, " in plan
    for number in (3, 4):
        A @ VECTOR
        text = str(choice_of(explain_product(A)))
        assert text.startswith(f"persisted rows: product {number} of this matrix, ")
        assert text.endswith("B in memory")
    same = np.ones(20, np.float32), np.ones((20, 3)), np.ones(20, int)
    assert all(str(choice_of(explain_product(A, x))).startswith("persisted rows: product 4") for x in same)
    for other, x in ((A, np.ones(20, np.complex64)), (A.T, np.ones(30)), (A[3:], VECTOR)):
        assert str(choice_of(explain_product(other, x))).startswith("stream: product 1 ")


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


SEMIRINGS = ("plus_times", "min_plus", "max_times", "or_and", "any_pair", "plus_pair", "plus_first", "min_max")


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_exact_products_may_be_joins(A: sp.Tensor, tmp_path: Path, semiring: str) -> None:
    B = (A > 6).astype("float64").save(tmp_path / "B.sparrow")
    ints = [each.astype("int32").save(tmp_path / f"{k}.sparrow") for k, each in enumerate((A, B))]
    for left, right, kind in ((A, B, "f"), (*ints, "i")):
        product: Any = sp.matmul(left.T, right, semiring=semiring)
        is_exact = product.dtype.kind in "bi" or not semiring.startswith("plus")
        expected = product.compute(engine="stream")
        assert choice_of(product.explain()) == "stream: other engines take longer for this node", kind
        with strategy("joins"):
            text = str(choice_of(product.explain()))
            assert text.startswith("duckdb: a join of " if is_exact else "stream: other engines"), text
            with sp.explained() as plans:
                found = product.compute()
                assert product.nnz == expected.nnz
            assert ("\n  engine      duckdb" in plans[0]) == is_exact
            for one, other in zip(found.to_format("coo").coords, expected.to_format("coo").coords, strict=True):
                np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(found.to_format("coo").data, expected.to_format("coo").data)


def test_joins_need_files_and_memory(A: sp.Tensor, tmp_path: Path) -> None:
    A = A.astype("int64").save(tmp_path / "ints.sparrow")
    product: Any = A.T @ A
    streamed = "stream: other engines take longer for this node"
    with strategy("joins"):
        assert str(choice_of(product.explain())).startswith("duckdb: ")
        assert str(choice_of(product[2:].explain())).startswith("duckdb: ")
        assert str(choice_of((A.T[3:, ::2] @ A[::2, 1:]).explain())).startswith("duckdb: ")
        assert choice_of((A.T.compute() @ A).explain()) == streamed
        assert choice_of(((A * 2).T @ A).explain()) == streamed
        assert choice_of(sp.matmul(A.T, A, mask=A.T @ A).explain()) == streamed
        assert choice_of(product.sum(axis=0).explain()) == streamed
        with sp.config(memory_limit="500MB"):
            assert choice_of(product.explain()) == streamed
        with sp.explained() as plans:
            sp.compute(product, A + A)
        assert [choice_of(plan) for plan in plans] == ["stream: 2 tensors share what they read"] * 2
        unsigned = A.astype("uint64").save(tmp_path / "unsigned.sparrow")
        assert choice_of((unsigned.T @ unsigned).explain()) == streamed, "SQL does not have NumPy's result"
    estimates = choose(product.__sparrow_scan__()).estimates
    assert estimates == {}
    with tune("engines", duckdb_min_elements=0, duckdb_load_ms=1.0, duckdb_query_ms=1.0):
        choice = choose(product.__sparrow_scan__())
        assert choice.estimates["elements"] == A.nnz
        assert choice.estimates["duckdb"] > 1 > choice.estimates["stream"]
        assert choice.engine.name == "stream"


def test_devices_are_chosen_for_large_products(A: sp.Tensor) -> None:
    x, wide = np.ones(20), np.ones((20, 40))
    with sp.config(device="cupy"):
        assert str(choice_of(explain_product(A, wide))).startswith("stream: product 1 ")
        with tune("engines", device_min_products=1000):
            assert choice_of(explain_product(A, wide)) == "cupy: 40 products per element pay for the transfer"
            assert str(choice_of(explain_product(A))).startswith("stream: product 1 ")
        with strategy("device"):
            assert str(choice_of((A.T @ A).explain())).startswith("cupy: ")
            dense = A.to_numpy()
            with sp.explained() as plans:
                np.testing.assert_allclose(A @ x, dense @ x)
                np.testing.assert_allclose((A.T @ A).to_numpy(), dense.T @ dense)
            assert len(plans) == 2
            assert all(plan.splitlines()[1].startswith("  engine      cupy") for plan in plans)
            with sp.config(deterministic=True):
                assert str(choice_of(explain_product(A, wide))).startswith("stream: ")
            assert choice_of((A + 1).explain()) == "stream: other engines take longer for this node"
    with strategy("device"):
        assert str(choice_of(explain_product(A, wide))).startswith("stream: ")
        with (
            sp.config(device="duckdb"),
            pytest.raises(sp.errors.InvalidValueError, match=r"such as 'cupy', got 'duckdb'"),
        ):
            explain_product(A, wide)
    with pytest.raises(sp.errors.InvalidValueError, match=r"device must be one of 'auto', 'cupy', .*, got 'gpu'"):
        sp.config(device="gpu")


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
