"""Persisted rows of matrices that are multiplied repeatedly: bits, reads, memory."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
from sparrow.engines.repeats import RepeatedProducts
from sparrow.plan import Dense, Scan, make_matmul
from sparrow.runtime import memory
from sparrow.testing import observe, on, strategy, tune
from tests.engines.helpers import TINY, scan_of, stored_relation
from tests.engines.helpers import memory as relation_of

SOURCES = ("memory", "persisted", "files", "order", "runs")


@contextlib.contextmanager
def reads() -> Iterator[list[Any]]:
    """Record chunks of stored tensors that are read."""
    with observe("storage.read_chunk") as seen:
        yield seen


def multiply(scan: Scan, x: NDArray[Any], repeats: RepeatedProducts | None = None) -> list[Any]:
    """Return repeated products, with rows persisted from the first one on."""
    repeats = repeats or RepeatedProducts(after=0)
    return [engines.evaluate_dense(make_matmul(scan, Dense(x)), repeats=repeats) for _ in range(2)]


def some_values(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> NDArray[Any]:
    """Return values whose sums round, some of them infinite or not a number."""
    kind = np.dtype(dtype)
    if kind.kind in "biu":
        return rng.integers(0, 2 if kind.kind == "b" else 120, shape).astype(kind)
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)
    values = values * (1 + 0.3j) if kind.kind == "c" else values
    return values.astype(kind)


def make_source(name: str, dense: NDArray[Any], fill: Any, folder: Path) -> Any:
    """Return a relation with the elements of an array."""
    if name == "memory":
        return relation_of(dense, fill)
    if name == "persisted":
        return sp.Tensor(relation_of(dense, fill)).persist().__sparrow_scan__().relation
    orders = [(1, 0)] if name == "order" else []
    first = dense.copy()
    if name == "runs":
        first[::3, ::2] = first[1::3, 1::2] = fill
    relation = stored_relation(folder / "A.sparrow", first, *orders, fill_value=fill)
    if name == "runs":
        A = sp.open(folder / "A.sparrow")
        for part in (np.s_[::3, ::2], np.s_[1::3, 1::2]):
            rest = np.full_like(dense, fill)
            rest[part] = dense[part]
            A.append(sp.Tensor(relation_of(rest, fill)))
        relation = A.__sparrow_scan__().relation
    return relation


KEYS: tuple[Any, ...] = (
    (slice(None), slice(None)),
    (slice(3, 11), slice(None)),
    (slice(None, None, -1), slice(2, 9)),
    (slice(1, None, 2), slice(None, None, 3)),
    ([4, 1, 1, 7], slice(None)),
    (slice(None), [5, 0, 2]),
)


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=40)
@given(st.data())
def test_bits_are_those_of_the_stream(source: str, tmp_path_factory: Any, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    dtype = data.draw(st.sampled_from(["float64", "float32", "float16", "complex128", "int64", "int8", "bool"]))
    other = data.draw(st.sampled_from(["float64", "float32", "int64", "complex64", "bool"]))
    shape = data.draw(st.sampled_from([(12, 10), (1, 40), (40, 1), (15, 11)]))
    fill = np.dtype(dtype).type(data.draw(st.sampled_from([0, 0, 1])))
    values = some_values(shape, dtype, rng) if data.draw(st.booleans()) else np.full(shape, 3, dtype)
    dense = np.where(rng.random(shape) < data.draw(st.sampled_from([0.1, 0.6, 1.0])), values, fill)
    chunks = {"chunk_elements": data.draw(st.sampled_from([5, 1 << 18]))}
    with tune("relations", **chunks):
        relation = make_source(source, dense, fill, tmp_path_factory.mktemp("repeats"))
        key = data.draw(st.sampled_from(KEYS if min(shape) > 9 else KEYS[:1]))
        scan = scan_of(relation, View.identity(relation.schema.shape).then(key))
        scan = scan.transpose() if data.draw(st.booleans()) else scan
        width = data.draw(st.sampled_from([(), (1,), (9,)]))
        kernels = data.draw(st.sampled_from(["numba", "numpy"]))
        repeats = RepeatedProducts(after=0)
        for each in (scan, scan.transpose()):
            x = some_values((each.schema.shape[1], *width), other, rng)
            with strategy(kernels), np.errstate(all="ignore"):
                expected = engines.evaluate_dense(make_matmul(each, Dense(x)), "stream")
                with observe("engines.persist_rows") as seen:
                    for found in multiply(each, x, repeats):
                        np.testing.assert_array_equal(found, expected)
                        assert found.dtype == expected.dtype
                assert len(seen) == 1


def test_special_values() -> None:
    dense = np.array([[np.inf, 0, 1], [np.nan, 2, 0], [-0.0, 0, 0], [1e308, 1e308, 0]])
    for x in ([1.0, -1.0, 0.0], [0.0, np.inf, np.nan]):
        expected = engines.evaluate_dense(make_matmul(scan_of(relation_of(dense)), Dense(np.array(x))), "stream")
        for found in multiply(scan_of(relation_of(dense)), np.array(x)):
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.fixture
def matrix(tmp_path: Path) -> tuple[sp.Tensor, NDArray[Any]]:
    rng = np.random.default_rng(3)
    dense = np.where(rng.random((30, 20)) < 0.4, rng.standard_normal((30, 20)), 0)
    stored_relation(tmp_path / "A.sparrow", dense)
    return sp.open(tmp_path / "A.sparrow"), dense


def test_later_products_read_nothing(matrix: Any) -> None:
    A, dense = matrix
    x, y = np.ones(20), np.ones(30)
    for _ in range(2):
        with reads() as seen:
            np.testing.assert_allclose(A @ x, dense @ x)
        assert seen
    with reads() as seen:
        np.testing.assert_allclose(A @ x, dense @ x)
        np.testing.assert_allclose(A @ np.ones((20, 3)), dense @ np.ones((20, 3)))
    assert not seen
    for _ in range(4):
        with reads() as seen:
            np.testing.assert_allclose(y @ A, y @ dense)
        assert seen, "few products do not repay sorting the rows of the transpose"
    with reads() as seen, observe("engines.persist_rows") as persisted:
        np.testing.assert_allclose(A.T @ y, dense.T @ y)
        np.testing.assert_allclose(y @ A, y @ dense)
    assert not seen, "they are those of the matrix, sorted"
    assert len(persisted) == 1


def test_writes_are_seen(matrix: Any) -> None:
    A, dense = matrix
    for step in range(4):
        for _ in range(3):
            np.testing.assert_allclose(A @ np.ones(20), dense.sum(axis=1))
        A[step, 0] = dense[step, 0] = 10.0 + step


def test_snapshots_of_one_version_share_rows(matrix: Any) -> None:
    A, dense = matrix
    B = sp.open(A.path)
    A @ np.ones(20), B @ np.ones(20)
    with reads() as seen:
        np.testing.assert_allclose(A @ np.ones(20), dense.sum(axis=1))
        np.testing.assert_allclose(B @ np.ones(20), dense.sum(axis=1))
        A[0, 0] = 5
        B @ np.ones(20)
    assert not [event for _, event in seen if event["snapshot"].version == 0][10:]
    assert (A @ np.ones(20))[0] != (B @ np.ones(20))[0]


def test_forced_engines_persist_nothing(matrix: Any) -> None:
    A, _ = matrix
    x = np.ones(20)
    with observe("engines.persist_rows") as seen:
        for _ in range(3):
            sp.matmul(A, x, engine="stream"), sp.matmul(A, x, engine="duckdb")
            with sp.config(engine="stream"):
                A @ x
            A[3] @ x  # a vector
            (A * 2) @ x
    assert not seen


def test_rows_end_with_the_tensor(tmp_path: Path) -> None:
    stored_relation(tmp_path / "A.sparrow", np.ones((30, 20)))
    gc.collect()
    free = memory.available()
    A = sp.open(tmp_path / "A.sparrow")
    for _ in range(3):
        A @ np.ones(20)
    assert memory.available() < free
    del A
    gc.collect()
    assert memory.available() == free


def test_reservations_evict_rows(matrix: Any) -> None:
    A, dense = matrix
    gc.collect()
    free = memory.available()
    with sp.config(memory_limit=memory.limit() - free + 2_000_000):
        for _ in range(3):
            A @ np.ones(20)
        persisted = 2_000_000 - memory.available()
        assert 0 < persisted < 20_000
        with pytest.raises(sp.errors.TooLargeError):
            memory.check(2_000_001, "more than there is")
        assert memory.available() == 2_000_000 - persisted, "nothing is evicted in vain"
        with memory.reserve(2_000_000 - persisted, "all that is free"), reads() as seen:
            A @ np.ones(20)
            assert not seen
        with memory.reserve(2_000_000 - persisted // 2, "more"):
            assert memory.available() == persisted // 2
            with reads() as seen:
                for _ in range(3):
                    np.testing.assert_allclose(A @ np.ones(20), dense.sum(axis=1))
            assert len(seen) % 3 == 0 < len(seen), "it does not fit beside the reservation"
        for _ in range(2):
            A @ np.ones(20)
        with reads() as seen:
            A @ np.ones(20)
        assert not seen


def test_check_evicts_rows(matrix: Any) -> None:
    A, _ = matrix
    for _ in range(3):
        A @ np.ones(20)
    memory.check(memory.available() + 1, "a little more")
    with reads() as seen:
        A @ np.ones(20)
    assert seen


def test_budget_keeps_recent_rows(tmp_path: Path) -> None:
    matrices = []
    for k, name in enumerate("abc"):
        stored_relation(tmp_path / name, np.ones((30, 20)) + (k + 1) * np.eye(30, 20))
        matrices.append(sp.open(tmp_path / name))
    x = np.ones(20)
    # Rows of one matrix take 600 * 12 + 31 * 8 bytes, and some for rows that chunks share.
    with tune("engines", persisted_share=memory.limit() // 22_000):
        for A in matrices:
            for _ in range(3):
                A @ x
        with reads() as seen:
            matrices[2] @ x, matrices[1] @ x
        assert not seen
        with reads() as seen:
            matrices[0] @ x
        assert seen


def test_matrices_in_turn_do_not_evict_each_other(tmp_path: Path) -> None:
    matrices = []
    for k, name in enumerate("ab"):
        stored_relation(tmp_path / name, np.ones((30, 20)) + (k + 1) * np.eye(30, 20))
        matrices.append(sp.open(tmp_path / name))
    with tune("engines", persisted_share=memory.limit() // 12_000), observe("engines.persist_rows") as seen:
        for _ in range(4):
            for A in matrices:
                A @ np.ones(20)
        assert len(seen) == 1
        matrices[0] @ np.ones(20)
        text = engines.explain(make_matmul(matrices[1].__sparrow_scan__(), Dense(np.ones(20))))
        assert "exceed a quarter of the memory limit together with those of other matrices" in text
        for _ in range(2):
            matrices[1] @ np.ones(20)
        assert len(seen) == 2, "the other one is no longer used"


def test_large_matrices_are_streamed(matrix: Any) -> None:
    A, _ = matrix
    x = np.ones(20)
    with strategy("operators_on_disk"), observe("engines.persist_rows") as seen:
        for _ in range(3):
            A @ x
        text = engines.explain(make_matmul(A.__sparrow_scan__(), Dense(x)))
    assert not seen
    assert "choice      stream: product 4 of this matrix, whose rows of " in text
    assert "exceed a quarter of the memory limit" in text


def test_threads_share_rows(matrix: Any) -> None:
    A, dense = matrix
    with ThreadPoolExecutor(8) as pool, observe("engines.persist_rows") as seen:
        found = list(pool.map(lambda k: A @ np.full(20, k), range(40)))
    for k, each in enumerate(found):
        np.testing.assert_allclose(each, dense @ np.full(20, k), atol=1e-12)
    assert len(seen) == 1


def test_failed_reads_raise_and_are_retried(matrix: Any) -> None:
    A, dense = matrix
    x = np.ones(20)
    A @ x

    def fail(**details: Any) -> None:
        raise OSError("disk on fire")

    with on("storage.read_chunk", fail), pytest.raises(OSError, match="disk on fire"):
        A @ x
    for _ in range(3):
        np.testing.assert_allclose(A @ x, dense @ x)


def test_tall_matrices_with_rows_in_many_chunks(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    dense = rng.standard_normal((3, 90))
    relation = stored_relation(tmp_path / "A.sparrow", dense, sizes=storage.Sizes(file_rows=40, group_rows=7))
    x = rng.standard_normal((90, 2))
    expected = engines.evaluate_dense(make_matmul(scan_of(relation), Dense(x)), "stream")
    assert (expected != dense @ x).any(), "sums of chunks round otherwise"
    for found in multiply(scan_of(relation), x):
        np.testing.assert_array_equal(found, expected)


def test_empty_matrices(tmp_path: Path) -> None:
    for shape in ((0, 5), (5, 0), (4, 5)):
        relation = stored_relation(tmp_path / "x".join(map(str, shape)), np.zeros(shape), sizes=TINY)
        for found in multiply(scan_of(relation), np.ones(shape[1])):
            np.testing.assert_array_equal(found, np.zeros(shape[0]))
