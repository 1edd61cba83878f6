from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.kernels.graph.adjacency import part_bounds, row_block_bounds
from sparrow.models import ALS
from sparrow.models.als_data import SparseRatings, block_columns
from sparrow.testing import tuning
from tests.models import als_reference as reference

SMALL = 50_000
"""Buffer that forces streaming in small partitions."""


def tensor(dense: Any) -> sp.Tensor:
    at = np.nonzero(dense)
    return sp.from_coords(at, dense[at], shape=dense.shape)


def load_ratings(A: sp.Tensor, budget: int, digest: bool = False) -> SparseRatings:
    return SparseRatings(A.__sparrow_scan__(), A.T.__sparrow_scan__(), 8, budget, budget, digest)


def to_dense(ratings: SparseRatings, transposed: bool, shape: tuple[int, int]) -> Any:
    """Return the partitions of one side as a matrix, after checks of their bounds."""
    side = ratings.cols if transposed else ratings.rows
    out = np.zeros(shape[::-1] if transposed else shape)
    row = block = 0
    for part in side.partitions():
        assert (part.first, part.block) == (row, block)
        assert part.indptr[0] == part.block_starts[0] == 0
        assert part.indptr[-1] == len(part.cols)
        assert len(part.values) == (len(part.cols) if ratings.weighted else 0)
        for k in range(len(part.indptr) - 1):
            at = slice(part.indptr[k], part.indptr[k + 1])
            assert (np.diff(part.cols[at]) > 0).all()
            out[row + k, part.cols[at]] = part.values[at] if ratings.weighted else 1
        row += len(part.indptr) - 1
        block += len(part.block_starts) - 1
    assert (row, block) == (side.rows, side.blocks)
    return out


@pytest.fixture(scope="module")
def rating_tensors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    dense = reference.matrix(900, 700, 12, seed=2, weighted=True).round(1)
    folder = tmp_path_factory.mktemp("stored")
    A = tensor(dense)
    return {
        "dense": dense,
        "memory": A,
        "one order": A.save(folder / "one"),
        "both orders": A.save(folder / "both", orders=[(1, 0)]),
    }


@pytest.mark.parametrize("budget", [10**9, SMALL])
@pytest.mark.parametrize("kind", ["memory", "one order", "both orders", "view", "transposed", "expression"])
def test_both_passes_read_all_ratings(rating_tensors: dict[str, Any], kind: str, budget: int) -> None:
    dense = rating_tensors["dense"]
    special = {
        "view": (lambda: (rating_tensors["both orders"][100:, 5:600], dense[100:, 5:600])),
        "transposed": (lambda: (rating_tensors["one order"].T, dense.T)),
        "expression": (lambda: (rating_tensors["one order"] * 3, dense * 3)),
    }
    A, expected = special[kind]() if kind in special else (rating_tensors[kind], dense)
    ratings = load_ratings(A, budget)
    try:
        assert ratings.count == (expected != 0).sum()
        assert ratings.in_memory == (budget > SMALL and kind != "expression")
        for _ in range(2):
            assert np.allclose(to_dense(ratings, False, expected.shape), expected)
            assert np.allclose(to_dense(ratings, True, expected.shape), expected.T)
    finally:
        ratings.close()


@pytest.mark.parametrize("solver", ["cg", "exact", "subspace"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("weighted", [False, True])
def test_streamed_fit_is_bit_identical(
    rating_tensors: dict[str, Any], solver: Any, dtype: Any, weighted: bool, tmp_path: Path
) -> None:
    result = set()
    ones = (rating_tensors["dense"] != 0).astype(float)
    both = rating_tensors["both orders"] if weighted else tensor(ones).save(tmp_path / "ones", orders=[(1, 0)])
    one = rating_tensors["one order"] if weighted else tensor(ones)
    for A, buffer in ((both, None), (both, SMALL), (one, SMALL), (to_expression(one), SMALL)):
        with sp.config(threads=1 if A is one else 2):
            model = ALS(16, epochs=2, solver=solver, dtype=dtype, buffer=buffer).fit(A)
        result.add((model.user_factors.tobytes(), model.item_factors.tobytes(), model.loss_.tobytes()))
    assert len(result) == 1


def to_expression(A: sp.Tensor) -> sp.Tensor:
    out: sp.Tensor = A + sp.zeros(A.shape)
    return out


def test_rows_longer_than_buffers() -> None:
    rng = np.random.default_rng(0)
    dense = (rng.random((6, 40_000)) < 0.9).astype(float)
    dense[4] = rng.random(40_000) < 1e-3
    result = []
    for solver in ("cg", "exact", "subspace"):
        options: dict[str, Any] = {"factors": 4, "solver": solver, "regularization": 1.0, "epochs": 2, "cg_steps": 12}
        in_memory = ALS(**options).fit(tensor(dense))
        streamed = ALS(**options, buffer=SMALL).fit(tensor(dense))
        assert (in_memory.user_factors == streamed.user_factors).all()
        result.append(in_memory.user_factors @ in_memory.item_factors.T)
        # The items are solved last and exact; fold_in solves the users from them.
        expected = reference.solve(dense, in_memory.item_factors, 1.0, 1e-3)
        assert reference.distance(in_memory.fold_in(dense), expected) < 1e-5
    assert np.abs(result[0] - result[1]).max() < 1e-2
    assert np.abs(result[2] - result[1]).max() < 1e-2


def test_digest_is_independent_of_storage(rating_tensors: dict[str, Any]) -> None:
    def digest(A: sp.Tensor, budget: int = 10**9, with_digest: bool = True) -> str:
        ratings = load_ratings(A, budget, with_digest)
        ratings.close()
        return ratings.digest

    kinds = ("memory", "one order", "both orders")
    result = {digest(rating_tensors[kind], budget) for kind in kinds for budget in (10**9, SMALL)}
    assert len(result) == 1
    assert digest(rating_tensors["memory"].T) not in result
    assert digest(rating_tensors["memory"] * 2) not in result
    assert digest(rating_tensors["memory"], with_digest=False) == ""


@given(
    st.lists(st.integers(0, 40), max_size=60), st.integers(1, 8), st.integers(1, 60), st.integers(1, 20),
    st.integers(1, 100),
)  # fmt: skip
def test_block_and_partition_bounds(counts: list[int], height: int, ratings: int, span: int, part: int) -> None:
    indptr = np.concatenate([[0], np.cumsum(np.array(counts, np.int64))]).astype(np.int64)
    block_starts = row_block_bounds(indptr, height, ratings, span)
    assert block_starts[0] == 0
    assert block_starts[-1] == len(counts)
    assert (np.diff(block_starts) > 0).all() or not counts
    for low, high in itertools.pairwise(block_starts):
        inside = np.array(counts[low:high])
        assert high - low <= span
        assert (inside > 0).sum() <= height
        assert inside.sum() <= ratings or (inside > 0).sum() == 1
    parts = part_bounds(indptr, block_starts, part, span)
    assert (parts[0], parts[-1]) == (0, len(block_starts) - 1)
    for low, high in itertools.pairwise(block_starts[parts]):
        single = high in block_starts and np.searchsorted(block_starts, high) - np.searchsorted(block_starts, low) == 1
        assert single or (sum(counts[low:high]) <= part and high - low <= span)


def test_block_sizes() -> None:
    assert tuning("models").als_block_rows == 64
    assert block_columns(128) == 1024
    assert block_columns(10_000) == 64
