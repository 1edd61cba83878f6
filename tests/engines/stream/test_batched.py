"""Nodes with a few large slices, evaluated slice by slice, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow import engines, storage
from sparrow.core.indexing import View
from sparrow.engines.stream import planner, scan_reader
from sparrow.engines.stream.batched import BatchedOp
from sparrow.engines.stream.elementwise.map import MapPerChunk
from sparrow.engines.stream.tuning import StreamTuning
from sparrow.testing import observe, strategy, tune, tuning
from tests.engines.helpers import stored_relation

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
def small_batches() -> Iterator[None]:
    """Evaluate small slices of three dimensions one by one."""
    with strategy("batched"), tune("stream", min_batch_elements=9):
        yield


def cells(seed: int, shape: tuple[int, ...]) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < rng.choice([0.0, 0.3, 0.9]), rng.integers(-3, 4, shape), 0).astype(float)


@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.parametrize("name", EXPRESSIONS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**20), shown=st.sampled_from(sorted(SHOWN)))
def test_batched_matches_numpy(name: str, place: str, seed: int, shown: str, tmp_path_factory: Any) -> None:
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
@tune("stream", min_batch_elements=1000, partition_rows=2000)
@tune("product", partition_products=400, min_partition_products=400)
def test_partitions_divide_slices(name: str, tmp_path: Path) -> None:
    sizes = storage.Sizes(file_rows=20_000, group_rows=1000)
    A, B = (
        sp.Tensor(
            stored_relation(
                tmp_path / str(seed), sp.random((2, 300, 300), nnz=20_000, seed=seed).to_numpy(), sizes=sizes
            )
        )
        for seed in (1, 2)
    )
    M = sp.random((300, 300), nnz=900, seed=3)
    expression = EXPRESSIONS[name](A, B, M)
    with sp.config(memory_limit="20MB"):
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


@tune("stream", min_batch_elements=50)
def test_few_slices_are_open() -> None:
    A, M = sp.random((9, 30, 30), nnz=900, seed=1), sp.random((30, 30), nnz=90, seed=2)
    with observe("stream.open_batch") as opened:
        np.testing.assert_allclose((A @ M).to_numpy(), A.to_numpy() @ M.to_numpy())
    assert max(details["num_open"] for _, details in opened) == tuning("stream").max_open_batches


def test_unbatched_nodes() -> None:
    A = sp.random((3, 30, 30), nnz=900, seed=1)
    assert type(relation_of(A * 2.0 + 1.0)) is MapPerChunk  # partitions are the chunks of the input
    assert isinstance(relation_of(A + A[::-1]), BatchedOp)
    with tune("stream", min_batch_elements=0):
        assert isinstance(relation_of(A @ A[0]), BatchedOp)
        assert not isinstance(relation_of(A[0] @ A[1]), BatchedOp)
    with tune("stream", **{each.name: each.default for each in fields(StreamTuning)}):
        assert not isinstance(relation_of(A + A[::-1]), BatchedOp)


@tune("stream", min_batch_elements=50)
def test_shared_operand_of_a_slice_is_computed_once() -> None:
    A, M = sp.random((2, 40, 40), nnz=900, seed=1), sp.random((40, 40), nnz=90, seed=2)
    x, dense = A, A.to_numpy()
    for _ in range(3):
        y, own = x @ M, dense @ M.to_numpy()
        x, dense = y @ M + y, own @ M.to_numpy() + own
    with observe("product.unmasked") as computed:
        np.testing.assert_allclose(x.to_numpy(), dense)
    assert 0 < sum(details["rows"] for _, details in computed) <= 2 * 6 * 40


@tune("stream", min_batch_elements=50)
def test_deep_plan_of_a_slice() -> None:
    A = sp.random((2, 40, 40), nnz=900, seed=1)
    x, dense = A + A[::-1], A.to_numpy() + A.to_numpy()[::-1]
    for k in range(26):
        x, dense = (
            (np.tril(x, 38 - k), np.tril(dense, 38 - k)) if k % 2 else (np.triu(x, k - 38), np.triu(dense, k - 38))
        )
    np.testing.assert_allclose(x.to_numpy(), dense)
    np.testing.assert_allclose(x.sum(), dense.sum())


def test_shared_node_is_read_by_slices(tmp_path: Path) -> None:
    A = sp.random((3, 40, 40), nnz=900, seed=1).save(tmp_path / "A")
    both = A + A[::-1]
    scans = [each.__sparrow_scan__() for each in (both.sum(axis=0), both.sum(axis=(1, 2)), both)]
    found = [scan_reader.read_block(scan) for scan in planner.lower(scans)]
    dense = A.to_numpy() + A.to_numpy()[::-1]
    assert found[2].count == np.count_nonzero(dense)
    np.testing.assert_allclose(found[1].values, dense.sum(axis=(1, 2)))
    np.testing.assert_allclose(engines.evaluate(both.__sparrow_scan__()).values, dense[dense != 0])
