"""Shared and deep plans: work in proportion to distinct nodes, no recursion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow import engines, plan
from sparrow.plan import Dense, Map, make_matmul, nodes_below, optimize_plan
from sparrow.testing import tune
from tests.engines.helpers import Counting, memory, random_array, scan_of, stored_relation

SEEDS = st.integers(0, 2**16)


def matrix(n: int, seed: int = 0) -> NDArray[Any]:
    return random_array((n, n), seed=seed)


@pytest.mark.parametrize("depth", [3, 8, 14])
def test_shared_nodes_are_computed_once(depth: int) -> None:
    dense = matrix(20)
    calls: Counter[str] = Counter()

    def add(a: Any, b: Any) -> Any:
        calls["add"] += np.size(a) > 1
        return np.add(a, b)

    E: Any = sp.asarray(dense)
    for _ in range(depth):
        E = sp.Tensor(plan.make_map(add, [E.__sparrow_scan__(), E.T.__sparrow_scan__()]))
        dense = dense + dense.T
    calls.clear()
    np.testing.assert_array_equal(E.to_numpy(), dense)
    assert calls["add"] <= 2 * depth  # a node and its transpose at every level


def test_equal_nodes_are_merged(tmp_path: Path) -> None:
    dense = matrix(30)
    relation: Any = Counting(stored_relation(tmp_path / "a", dense))
    A: Any = sp.Tensor(relation)
    G = A
    for _ in range(6):
        G = G + G
    np.testing.assert_array_equal(G.to_numpy(), 64 * dense)
    once = relation.reads
    relation.reads = 0
    A.to_numpy()
    assert once == relation.reads
    (scan,) = optimize_plan([((A + 1) * (A + 1)).__sparrow_scan__()])
    assert len(nodes_below([scan])) == 2  # the sum, once, and the product


LINKS: dict[str, Callable[[Any], Any]] = {
    "scalar": lambda A: A * 1,
    "sum": lambda A: A + A,
    "other": lambda A: A + sp.eye(4, dtype="int64") * 0,
    "cast": lambda A: A.astype("int32" if A.dtype == "int64" else "int64"),
    "reshape": lambda A: sp.reshape(A, (2, 8) if A.shape == (4, 4) else (4, 4)),
    "concat": lambda A: sp.concat([A, A[:0]]),
    "triangle": sp.triu,
    "view": lambda A: A[::-1],
    "roll": lambda A: sp.roll(A, 1, 0),
    "sort": lambda A: sp.sort(A, axis=0),
    "format": lambda A: A.asformat("coo").T,
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("engine", ["stream", "duckdb"])
def test_long_chains_do_not_recurse(link: str, engine: str) -> None:
    long = {"scalar": 3000, "view": 3000, "cast": 1500, "reshape": 1500, "concat": 1500}
    length = long.get(link, 60) if engine == "stream" else 60
    dense = np.triu(np.arange(16).reshape(4, 4))
    A: Any = sp.asarray(dense)
    expected: Any = sp.asarray(dense)
    chain = A
    for _ in range(length):
        chain = LINKS[link](chain)
    for _ in range(4):  # all of these come round after four, but for doubling
        expected = LINKS[link](expected)
    found = chain.compute(engine=engine).to_numpy()
    if link != "sum":
        np.testing.assert_array_equal(found, expected.to_numpy())
    text = chain.explain(engine=engine)
    assert len(text) < 5000 * (length + 2)


def test_explain_numbers_shared_nodes() -> None:
    A: Any = sp.asarray(matrix(5))
    G = A
    for _ in range(10):
        G = G + G
    text = G.explain()
    assert len(text.splitlines()) < 80
    assert text.count("[1], as above") == 1
    assert "map add (d0: 5, d1: 5) float64  [9], as above" in text


KINDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda like, A, B: A + B,
    "times": lambda like, A, B: A * B,
    "scale": lambda like, A, B: A * 3,
    "turn": lambda like, A, B: A.T,
    "flip": lambda like, A, B: A[::-1],
    "sum": lambda like, A, B: B - A.sum(axis=0),
    "triu": lambda like, A, B: like.triu(A, 1),
    "roll": lambda like, A, B: like.roll(A, 2, 1),
    "shift": lambda like, A, B: like.concat([A[1:] + B[:-1], A[:1]]),
    "max": lambda like, A, B: np.maximum(A, B),
}
"""Expressions of two square matrices, for sparrow and NumPy."""


def expressions(data: st.DataObject, known: list[tuple[Any, NDArray[Any]]], steps: int) -> None:
    """Add expressions of matrices to those known, each with what NumPy makes of it."""
    for _ in range(steps):
        (A, a), (B, b) = (known[data.draw(st.integers(0, len(known) - 1))] for _ in range(2))
        make = KINDS[data.draw(st.sampled_from(sorted(KINDS)))]
        known.append((make(sp, A, B), make(np, a, b)))


@settings(max_examples=15)
@given(st.data(), SEEDS)
def test_random_graphs_equal_numpy(data: st.DataObject, seed: int) -> None:
    dense = [np.asarray(matrix(6, seed + k), np.int64) for k in range(2)]
    known: list[tuple[Any, NDArray[Any]]] = [(sp.asarray(array), array) for array in dense]
    expressions(data, known, data.draw(st.integers(1, 9)))
    key: Any = data.draw(st.sampled_from([(), (slice(1, 5),), (2,), (slice(None), slice(4, None, -2)), ([4, 1, 1],)]))
    with tune("stream", partition_rows=7, max_pipeline_depth=data.draw(st.integers(1, 3))):
        for tensor, array in known[2:]:
            np.testing.assert_array_equal(tensor[key].to_numpy() if key else tensor.to_numpy(), array[key])
        together = sp.compute(*(tensor[key] if key else tensor for tensor, _ in known[2:]))
    for tensor, (_, array) in zip(together, known[2:], strict=True):
        np.testing.assert_array_equal(tensor.to_numpy(), array[key])


ODD = st.sampled_from([0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, -0.0])


@settings(max_examples=15)
@given(st.lists(ODD, min_size=12, max_size=12), st.lists(ODD, min_size=12, max_size=12), st.data())
def test_fused_kernels_keep_bits(one: list[float], two: list[float], data: st.DataObject) -> None:
    known: list[Any] = [sp.asarray(np.reshape(values, (3, 4))) for values in (one, two)]
    plain = [tensor.compute() for tensor in known]
    for _ in range(data.draw(st.integers(2, 6))):
        i, j = (data.draw(st.integers(0, len(known) - 1)) for _ in range(2))
        function = data.draw(
            st.sampled_from([np.add, np.multiply, np.divide, np.maximum, np.sqrt, np.negative, np.exp])
        )
        operands = (i, j)[: function.nin]
        known.append(function(*(known[k] for k in operands)))
        plain.append(function(*(plain[k] for k in operands)).compute())
    for lazy, eager in zip(known, plain, strict=True):
        a, b = lazy.compute().to_arrow(), eager.to_arrow()
        assert a.drop(["value"]).equals(b.drop(["value"]))
        left, right = (table.column("value").to_numpy() for table in (a, b))
        assert np.array_equal(left, right, equal_nan=True)
        assert np.array_equal(np.signbit(left[left == left]), np.signbit(right[right == right]))


def test_views_reuse_a_whole_result(tmp_path: Path) -> None:
    relation: Any = Counting(stored_relation(tmp_path / "a", matrix(30)))
    A: Any = sp.Tensor(relation)
    total = A.sum(axis=1)
    scans = optimize_plan([(total + 1).__sparrow_scan__(), total[3:5].__sparrow_scan__()])
    steps = nodes_below(scans)
    assert sum(not isinstance(step, Map) for step in steps) == 1
    (alone,) = optimize_plan([total[3:5].__sparrow_scan__()])
    assert alone.schema.shape == (2,)
    assert alone.view.is_identity


def test_optimize_keeps_unchanged_nodes() -> None:
    A: Any = sp.asarray(matrix(5))
    scan = (A + A.T).sum(axis=0).__sparrow_scan__()
    assert optimize_plan([scan])[0].step is scan.step
    leaf = scan_of(memory(matrix(3)))
    assert optimize_plan([leaf]) == [leaf]


def test_explained_collects_inside_the_block() -> None:
    A: Any = sp.asarray(matrix(6))
    with sp.explained() as plans:
        A @ np.ones(6)
        assert A.sum() > 0
        (A + A.T).to_numpy()
        sp.compute(A * 2, A * 3)
        assert list((A * 2).to_batches())
    assert [text.split()[0] for text in plans] == ["contraction", "reduce", "map", "map", "map", "map"]
    A.to_numpy()
    assert len(plans) == 6
    with sp.explained(analyze=True) as plans:
        A @ np.ones(6)
    assert "\nanalyzed: dense (d0: 6) float64 from " in plans[0]
    persisted = A.persist()
    assert "whole of csr x array" in engines.explain(
        plan.make_matmul(persisted.__sparrow_scan__(), plan.Dense(np.ones(6)))
    )
    assert "in memory, by rows" in persisted.explain()


@pytest.mark.parametrize(
    "beside",
    [
        lambda E: E[1] * E,
        lambda E: E - E[[1, 0, 1, 4, 4]],
        lambda E: np.maximum(E, E[:, ::-1]) * E,
        lambda E: E[[1], [2]] + E,
        lambda E: (E[1] * E).sum(axis=0) + E[0],
        lambda E: np.where(E[2] > 0, E, E[::-1]),
    ],
)
@pytest.mark.parametrize("engine", ["stream", "duckdb"])
def test_expression_with_a_view_of_itself(beside: Callable[[Any], Any], engine: Any, tmp_path: Path) -> None:
    dense = random_array((5, 5), seed=3)
    for A in (sp.asarray(dense), sp.asarray(dense).save(tmp_path / "A")):
        np.testing.assert_array_equal(beside(A * 2).compute(engine=engine).to_numpy(), beside(dense * 2))


def test_key_of_a_matrix_product_identifies_its_array() -> None:
    scan, x = scan_of(memory(np.eye(3))), Dense(np.ones((3, 3)))
    for other in (Dense(x.array), Dense(x.array.copy())):
        is_same = other.array is x.array
        assert (make_matmul(x, scan).key() == make_matmul(other, scan).key()) is is_same
        assert (make_matmul(scan, x).key() == make_matmul(scan, other).key()) is is_same
    assert make_matmul(x, scan).key() != make_matmul(scan, x).key()
