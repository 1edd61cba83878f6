"""Steps of a few long slices, each of which is computed in pieces of its own: against NumPy and the plain way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
import sparrow.testing
from sparrow import engines, storage
from sparrow.core.indexing import View
from sparrow.engines.stream import batched, operator, planner, scan_reader
from sparrow.engines.stream.batched import BatchedOp
from sparrow.engines.stream.operator import PhysicalOperator
from tests.engines.helpers import stored

SHAPE = (3, 6, 8)
EXPRESSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda a, b, m: a + b,
    "function of several": lambda a, b, m: np.maximum(a * 2.0 - b, a * b),
    "beside one row": lambda a, b, m: a * b[:, :1] + b,
    "beside one matrix": lambda a, b, m: a + b[0],
    "turned": lambda a, b, m: a + np.flip(b, 2),
    "product": lambda a, b, m: a @ m,
    "batches": lambda a, b, m: a @ np.swapaxes(b, 1, 2),
    "one matrix times batches": lambda a, b, m: m @ np.swapaxes(a, 1, 2)[:, :, :5],
    "sum of products": lambda a, b, m: a @ m + (b @ m) * 2.0,
    "product of a sum": lambda a, b, m: (a + b) @ m,
    "other fill": lambda a, b, m: np.exp(a) + b,
    "four dimensions": lambda a, b, m: a[:, None] * b[:, :2, None],
}
SHOWN: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x,
    "a slice": lambda x: x[1],
    "some rows": lambda x: x[::2, 1:5:2],
    "from behind": lambda x: x[::-1, :, 2:],
    "a list": lambda x: x[[2, 0]],
    "turned": lambda x: x.transpose(tuple(reversed(range(x.ndim)))),
    "a sum": lambda x: x.sum(axis=(0, 1)),
    "a largest": lambda x: x.max(axis=-1),
}


@pytest.fixture(autouse=True)
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have slices of three dimensions be long ones."""
    monkeypatch.setattr(batched, "_LONG", 9)
    monkeypatch.setattr(batched, "_COPIES", float("inf"))


def cells(seed: int, shape: tuple[int, ...]) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < rng.choice([0.0, 0.3, 0.9]), rng.integers(-3, 4, shape), 0).astype(float)


@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.parametrize("name", EXPRESSIONS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**20), shown=st.sampled_from(sorted(SHOWN)))
def test_they_are_numpys(name: str, place: str, seed: int, shown: str, tmp_path_factory: Any) -> None:
    a, b, m = cells(seed, SHAPE), cells(seed + 1, SHAPE), cells(seed + 2, (8, 8))
    operands = [sp.asarray(each) for each in (a, b, m)]
    if place == "disk":
        folder = tmp_path_factory.mktemp("sliced")
        operands = [each.save(folder / str(k)) for k, each in enumerate(operands)]
    wanted = SHOWN[shown](EXPRESSIONS[name](a, b, m))
    with sp.config(memory_limit="64MB"):
        found = SHOWN[shown](EXPRESSIONS[name](*operands))
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-12, atol=1e-12)
        assert found.nnz == np.count_nonzero(found.to_numpy() != found.fill_value)
        whole = EXPRESSIONS[name](*operands)
        np.testing.assert_allclose(whole.sum(), EXPRESSIONS[name](a, b, m).sum(), rtol=1e-12, atol=1e-12)


def relation_of(expression: sp.Tensor) -> Any:
    (scan,) = planner.lower([expression.__sparrow_scan__()])
    return scan.relation


@pytest.mark.parametrize("name", ["sum", "product", "batches", "four dimensions"])
def test_pieces_are_parts_of_slices(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(batched, "_LONG", 1000)
    monkeypatch.setattr(operator, "_PIECE_ROWS", 2000)
    sizes = storage.Sizes(file_rows=20_000, group_rows=1000)
    A, B = (
        sp.Tensor(stored(tmp_path / str(seed), sp.random((2, 300, 300), nnz=20_000, seed=seed).to_numpy(), sizes=sizes))
        for seed in (1, 2)
    )
    M = sp.random((300, 300), nnz=900, seed=3)
    expression = EXPRESSIONS[name](A, B, M)
    partitions = sparrow.testing.tune("product", partition_products=400, min_partition_products=400)
    with sp.config(memory_limit="20MB"), partitions:
        relation = relation_of(expression)
        assert isinstance(relation, BatchedOp)
        chunks = relation.chunks(View.identity(relation.schema.shape).box())
        parts = [relation.read(chunk) for chunk in chunks]
        for chunk, part in zip(chunks, parts, strict=True):
            for column, low, high in zip(part.coords, chunk.low, chunk.high, strict=True):
                assert not part.count or (low <= column.min() and column.max() <= high)
        count = sum(part.count for part in parts)
        assert count == expression.nnz
        assert len(chunks) > 4
        assert max(part.count for part in parts) < count / 3
        assert {chunk.low[0] for chunk in chunks} == {0, 1}


def test_what_slices_hold_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    begun = batched.BatchedOp._slice

    def noted(self: BatchedOp, at: int) -> Any:
        found = begun(self, at)
        held.append(len(self._kept))
        return found

    monkeypatch.setattr(batched.BatchedOp, "_slice", noted)
    monkeypatch.setattr(batched, "_LONG", 50)
    A, M = sp.random((9, 30, 30), nnz=900, seed=1), sp.random((30, 30), nnz=90, seed=2)
    np.testing.assert_allclose((A @ M).to_numpy(), A.to_numpy() @ M.to_numpy())
    assert max(held) == batched._AT_ONCE


def test_steps_whose_slices_are_none_are_computed_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    A = sp.random((3, 30, 30), nnz=900, seed=1)
    assert type(relation_of(A * 2.0 + 1.0)) is PhysicalOperator  # pieces are those of what is read
    assert isinstance(relation_of(A + A[::-1]), BatchedOp)
    monkeypatch.setattr(batched, "_LONG", 0)
    assert isinstance(relation_of(A @ A[0]), BatchedOp)
    assert not isinstance(relation_of(A[0] @ A[1]), BatchedOp)
    monkeypatch.undo()
    assert not isinstance(relation_of(A + A[::-1]), BatchedOp)


def test_what_a_slice_uses_twice_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "_LONG", 50)
    A, M = sp.random((2, 40, 40), nnz=900, seed=1), sp.random((40, 40), nnz=90, seed=2)
    x, dense = A, A.to_numpy()
    for _ in range(3):
        y, own = x @ M, dense @ M.to_numpy()
        x, dense = y @ M + y, own @ M.to_numpy() + own
    with sparrow.testing.observe("product.unmasked") as computed:
        np.testing.assert_allclose(x.to_numpy(), dense)
    assert 0 < sum(details["rows"] for _, details in computed) <= 2 * 6 * 40


def test_very_many_steps_in_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "_LONG", 50)
    A = sp.random((2, 40, 40), nnz=900, seed=1)
    x, dense = A + A[::-1], A.to_numpy() + A.to_numpy()[::-1]
    for k in range(26):
        x, dense = (
            (np.tril(x, 38 - k), np.tril(dense, 38 - k)) if k % 2 else (np.triu(x, k - 38), np.triu(dense, k - 38))
        )
    np.testing.assert_allclose(x.to_numpy(), dense)
    np.testing.assert_allclose(x.sum(), dense.sum())


def test_a_shared_step_is_read_by_slices(tmp_path: Path) -> None:
    A = sp.random((3, 40, 40), nnz=900, seed=1).save(tmp_path / "A")
    both = A + A[::-1]
    scans = [each.__sparrow_scan__() for each in (both.sum(axis=0), both.sum(axis=(1, 2)), both)]
    found = [scan_reader.read_block(scan) for scan in planner.lower(scans)]
    dense = A.to_numpy() + A.to_numpy()[::-1]
    assert found[2].count == np.count_nonzero(dense)
    np.testing.assert_allclose(found[1].values, dense.sum(axis=(1, 2)))
    np.testing.assert_allclose(engines.evaluate(both.__sparrow_scan__()).values, dense[dense != 0])
