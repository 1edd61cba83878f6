"""Evaluation against NumPy: compute, persist, and compute of several."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.engines.stream.cache import Cache, cache_bytes
from sparrow.errors import TooLargeError
from sparrow.kernels.coo import Block
from sparrow.plan.aggregates import REDUCTIONS
from sparrow.relations import csr
from sparrow.runtime import memory
from sparrow.testing import on, tune

SEEDS = st.integers(0, 2**16)
DTYPES = ("bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "complex128")


def some_dense(shape: tuple[int, ...], seed: int, dtype: Any = float) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 4, shape) * (rng.random(shape) < 0.4)).astype(dtype)


@pytest.fixture
def reads() -> Iterator[Counter[Any]]:
    """Count reads of each row group of files and computations of each chunk."""
    found: Counter[Any] = Counter()

    def count_stored(path: str, row_group: int) -> None:
        found["file", path, row_group] += 1

    def count_computed(operator: Any, chunk: Any) -> None:
        found[type(operator).__name__, operator.token, chunk.ref] += 1

    with on("storage.read_row_group", count_stored), on("stream.read", count_computed):
        yield found


# -- persist -------------------------------------------------------------------------------------


@given(st.data(), SEEDS, st.sampled_from(DTYPES), st.sampled_from([(0, 3), (3, 0), (1, 1), (5, 4), (9, 30)]))
def test_persisted_product(data: st.DataObject, seed: int, dtype: str, shape: tuple[int, int]) -> None:
    dense = some_dense(shape, seed, dtype)
    A = sp.asarray(dense).persist()
    x_dtype = data.draw(st.sampled_from(("int32", "float32", "float64", "complex128")))
    columns = data.draw(st.sampled_from([(), (1,), (3,), (8,), (19,)]))
    for tensor, array in ((A, dense), (A.T, dense.T), (A[1:], dense[1:]), (A[:, :2], dense[:, :2])):
        x = some_dense((array.shape[1], *columns), seed + 1, x_dtype)
        found = tensor @ x
        assert found.dtype == (array @ x).dtype
        assert np.array_equal(found, array @ x)
        y = some_dense((array.shape[0],), seed + 2, x_dtype)
        assert np.array_equal(y @ tensor, y @ array)


def test_persisted_product_matches_plain() -> None:
    dense = np.array([[0.0, np.nan, 2.0], [0.0, 0.0, 0.0], [np.inf, 1.0, 0.0]])
    A = sp.asarray(dense)
    x = np.array([np.nan, 1.0, np.inf])
    np.testing.assert_array_equal(A.persist() @ x, A @ x)
    filled = sp.from_coords([[0, 1], [1, 2]], [5.0, 7.0], shape=(2, 3), fill_value=2.0)
    np.testing.assert_array_equal(filled.persist() @ [1.0, 2.0, 4.0], filled.to_numpy() @ [1.0, 2.0, 4.0])


@tune("relations", min_partition_elements=64, max_partition_elements=500)
def test_persisted_bits_independent_of_threads() -> None:
    rng = np.random.default_rng(5)
    dense = np.where(rng.random((200, 90)) < 0.3, rng.standard_normal((200, 90)), 0)
    dense[17] = rng.standard_normal(90)
    A = sp.asarray(dense).persist()
    x, X = rng.standard_normal(90), rng.standard_normal((90, 9))
    found = []
    for threads in (1, 2, 5):
        with sp.config(threads=threads):
            found.append((A @ x, A @ X, x @ A.T, X.T @ A.T))
    np.testing.assert_allclose(found[0][0], dense @ x)
    np.testing.assert_allclose(found[0][1], dense @ X)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert one.tobytes() == other.tobytes()


def test_layouts_built_once_csc_on_demand() -> None:
    A = sp.asarray(some_dense((6, 7), 1)).persist()
    relation = A.__sparrow_scan__().relation
    assert isinstance(relation, csr.CSRRelation)
    assert list(relation._layouts) == [0]
    rows = relation.rows(0)
    assert rows is not None
    assert rows.indices.dtype == np.int32
    assert rows.indices is relation.block.coords[1]  # no copy
    A.T @ np.ones(6)
    columns = relation.rows(1)
    A.T @ np.ones(6)
    assert relation.rows(1) is columns
    csc = A.to_scipy("csc")
    assert columns is not None
    assert np.array_equal(columns.indptr, csc.indptr)
    assert np.array_equal(columns.indices, csc.indices)
    assert np.array_equal(columns.values, csc.data)


def test_persisted_is_independent_and_survives_writes(tmp_path: Path) -> None:
    dense = some_dense((5, 4), 2)
    stored = sp.asarray(dense).save(tmp_path / "A.sparrow")
    A = stored[1:].persist()
    A[0, 0] = 9
    assert stored[1, 0] == dense[1, 0]
    dense = dense[1:].copy()
    dense[0, 0] = 9
    assert np.array_equal(A @ np.arange(4), dense @ np.arange(4))
    assert isinstance(A.__sparrow_scan__().relation, csr.CSRRelation)
    B = sp.asarray(dense)
    B.persist()[0, 0] = 1
    assert np.array_equal(B.to_numpy(), dense)


def test_hypersparse_without_row_pointers() -> None:
    A = sp.from_coords([[0, 2**40], [1, 0]], [2.0, 3.0], shape=(2**41, 3)).persist()
    relation = A.__sparrow_scan__().relation
    assert isinstance(relation, csr.CSRRelation)
    assert relation.rows(0) is None
    assert np.array_equal(A[2**40 :][:2] @ np.arange(1.0, 4), [3.0, 0.0])
    assert np.array_equal(A.T[:, 2**40 : 2**40 + 2] @ [1.0, 1.0], [3.0, 0.0, 0.0])


def test_csc_layout_skipped_beyond_limit() -> None:
    dense = some_dense((50, 60), 3)
    A = sp.asarray(dense).persist()
    with sp.config(memory_limit=A.nbytes + 100):
        assert np.array_equal(A.T @ np.ones(50), dense.T @ np.ones(50))
    relation = A.__sparrow_scan__().relation
    assert isinstance(relation, csr.CSRRelation)
    assert list(relation._layouts) == [0]
    assert np.array_equal(A.T @ np.ones(50), dense.T @ np.ones(50))
    assert list(relation._layouts) == [0, 1]


@pytest.mark.parametrize("dtype", ["bool", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(300, 90), (300, 9, 10)])
def test_row_lists_of_persisted(shape: tuple[int, ...], dtype: str) -> None:
    dense = some_dense(shape, 5, dtype)
    dense[::7] = 0
    A = sp.asarray(dense).persist()
    rng = np.random.default_rng(6)
    for rows in (
        rng.integers(-300, 300, 500),
        rng.permutation(300),
        np.unique(rng.integers(0, 300, 200)),
        [299, 0, 299],
    ):
        found = A[rows]
        np.testing.assert_array_equal(found.to_numpy(), dense[rows])
        assert found.nnz == np.count_nonzero(dense[rows])
        if dense.ndim == 2:
            wanted = scipy.sparse.csr_array(dense)[rows]
            assert (found.to_scipy("csr") != wanted).nnz == 0
    with pytest.raises(IndexError, match="index 300 is out of range"):
        A[[0, 300]]
    with pytest.raises(IndexError, match="index -301 is out of range"):
        A[[-301, 0]]


@pytest.mark.parametrize("shape", [(20, 30), (20, 1), (1, 30), (600, 600)])
@pytest.mark.parametrize("format", ["coo", "csr", "csc"])
def test_to_scipy_copies(format: str, shape: tuple[int, int]) -> None:
    dense = some_dense(shape, 7)
    A = sp.asarray(dense)
    kept, container = A.persist(), A.to_format("csr" if format == "coo" else format)
    sources: list[Any] = [A, A * 2, kept, kept[2:], kept[[-1, 0, -1]], kept.T, sp.asarray(container)]
    for tensor, found in [*((each, each.to_scipy(format)) for each in sources), (container, container.to_scipy())]:
        before = tensor.to_numpy()
        found.data[:] = -1
        for part in found.coords if found.format == "coo" else (found.indices, found.indptr):
            part[:] = 0
        np.testing.assert_array_equal(tensor.to_numpy(), before)
    with (
        sp.config(memory_limit=12 * A.nnz),
        pytest.raises(TooLargeError, match=r"the stored elements .* take a smaller view"),
    ):
        A.to_scipy(format)


@pytest.mark.parametrize("shape", [(), (4,), (3, 0), (2, 3, 4)])
def test_persist_any_ndim(shape: tuple[int, ...]) -> None:
    dense = some_dense(shape, 4)
    A = sp.asarray(dense).persist()
    assert np.array_equal(A.to_numpy(), dense)
    assert A.dims == sp.asarray(dense).dims
    if shape == (2, 3, 4):
        assert np.array_equal(A[1] @ np.arange(4), dense[1] @ np.arange(4))
        assert np.array_equal(A[:, 1] @ np.arange(4), dense[:, 1] @ np.arange(4))


# -- several at once -----------------------------------------------------------------------------


def test_compute_several(tmp_path: Path) -> None:
    dense = some_dense((30, 20), 6)
    A = sp.asarray(dense).save(tmp_path / "A.sparrow")
    C = A * 2 + A
    found = sp.compute(A, C, C.sum(axis=0), C.mean(axis=0), C[3:9], (C - 1).T, A.sum(), np.arange(3), C)
    expected = (
        dense, 3 * dense, 3 * dense.sum(axis=0), 3 * dense.mean(axis=0), 3 * dense[3:9], (3 * dense - 1).T
    )  # fmt: skip
    for tensor, array in zip(found, expected, strict=False):
        assert tensor.path is None
        np.testing.assert_allclose(tensor.to_numpy(), array)
        tensor[(0,) * tensor.ndim] = 5  # in memory, its own
    assert found[6] == dense.sum()
    assert np.array_equal(found[7], [0, 1, 2])
    np.testing.assert_array_equal(found[8].to_numpy(), 3 * dense)
    assert sp.compute() == ()


def test_shared_files_read_once(tmp_path: Path, reads: Counter[Any]) -> None:
    A = sp.asarray(some_dense((40, 30), 7)).save(tmp_path / "A.sparrow")
    B = sp.asarray(some_dense((40, 30), 8)).save(tmp_path / "B.sparrow")
    sp.compute(A + B, A * B, A.sum(axis=1), (B + 1)[3:5], A.T)
    files = {key: count for key, count in reads.items() if key[0] == "file"}
    assert set(files.values()) == {1}
    assert len(files) == 2
    reads.clear()
    for tensor in (A + B, A * B, A.sum(axis=1), (B + 1)[3:5], A.T):
        tensor.compute()
    assert sum(count for key, count in reads.items() if key[0] == "file") == 7


def test_shared_expression_computed_once(tmp_path: Path, reads: Counter[Any]) -> None:
    dense = some_dense((40, 30), 9)
    A = sp.asarray(dense).save(tmp_path / "A.sparrow")
    C: Any = np.sqrt(A)
    token = C.__sparrow_scan__().step
    total, twice, part = sp.compute(C.sum(axis=0), C * 2, C[7:19] + 1)
    np.testing.assert_allclose(total.to_numpy(), np.sqrt(dense).sum(axis=0))
    np.testing.assert_allclose(twice.to_numpy(), 2 * np.sqrt(dense))
    np.testing.assert_allclose(part.to_numpy(), np.sqrt(dense)[7:19] + 1)
    assert [count for key, count in reads.items() if key[1] == token] == [1]


def test_reductions_share_scan(tmp_path: Path, reads: Counter[Any]) -> None:
    dense = some_dense((40, 30), 10)
    A = sp.asarray(dense).save(tmp_path / "A.sparrow")
    names = ("sum", "mean", "min", "max", "std", "count")
    lazy = [getattr(A, name)(axis=0) for name in names]
    doubled = A.sum(axis=0, where="stored") * 2  # inside another expression
    other = A.sum(axis=1)
    with sp.config(memory_limit="1GB"):
        found = sp.compute(*lazy, doubled, other)
    for name, tensor in zip(names[:-1], found, strict=False):
        np.testing.assert_allclose(tensor.to_numpy(), getattr(dense, name)(axis=0))
    assert np.array_equal(found[5].to_numpy(), np.count_nonzero(dense, axis=0))
    assert np.array_equal(found[6].to_numpy(), 2 * dense.sum(axis=0))
    assert np.array_equal(found[7].to_numpy(), dense.sum(axis=1))
    assert {count for key, count in reads.items() if key[0] == "file"} == {1}
    reads.clear()
    sp.compute(A.sum(axis=0), A.mean(axis=0))
    assert sum(count for key, count in reads.items() if key[0] == "file") == 1


@pytest.mark.parametrize("fill", [0, 2])
def test_shared_reductions_bitwise_equal(fill: int) -> None:
    rng = np.random.default_rng(12)
    dense = np.where(rng.random((13, 9)) < 0.5, rng.standard_normal((13, 9)), fill)
    at = np.nonzero(dense != fill)
    A = sp.from_coords(at, dense[at], shape=dense.shape, fill_value=fill)
    options: list[dict[str, Any]] = [{}, {"where": "stored"}, {"ddof": 1}, {"ord": 1}, {"dtype": "float32"}]
    lazy = [
        getattr(A, name)(axis=0, **given)
        for name in REDUCTIONS
        for given in options
        if set(given) <= set(inspect.signature(getattr(A, name)).parameters)
    ]
    assert len(lazy) > 2 * len(REDUCTIONS)
    for alone, together in zip(lazy, sp.compute(*lazy), strict=True):
        assert alone.dtype == together.dtype
        assert alone.compute().to_numpy().tobytes() == together.to_numpy().tobytes()


@settings(max_examples=15)
@given(st.data(), SEEDS, st.sampled_from([10**9, 3000]))
def test_compute_together_equals_alone(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int, budget: int
) -> None:
    folder = tmp_path_factory.mktemp("together")
    dense = [some_dense((23, 7), seed + k) for k in range(2)]
    known: list[tuple[Any, Any]] = [(sp.asarray(d).save(folder / f"{k}.sparrow"), d) for k, d in enumerate(dense)]
    known.append((sp.asarray(dense[0] - 1), dense[0] - 1))
    for _ in range(data.draw(st.integers(2, 7))):
        (A, a), (B, b) = (known[data.draw(st.integers(0, len(known) - 1))] for _ in range(2))
        kind = data.draw(st.sampled_from(["add", "multiply", "scale", "rows", "turn", "sum", "mean", "max", "across"]))
        if kind in ("sum", "mean", "max"):
            C, c = getattr(A, kind)(axis=0, keepdims=True), getattr(a, kind)(axis=0, keepdims=True)
        elif kind == "across":
            C, c = A.sum(axis=1, keepdims=True), a.sum(axis=1, keepdims=True)
        elif kind == "rows":
            C, c = A[len(a) // 3 :], a[len(a) // 3 :]
        elif kind == "turn":
            C, c = (A[::-1], a[::-1]) if data.draw(st.booleans()) else (A.T, a.T)
        elif kind == "scale" or np.broadcast_shapes((1, 1), a.shape) != b.shape:
            C, c = A * 2 + 1, a * 2 + 1
        else:
            C, c = (A + B, a + b) if kind == "add" else (A * B, a * b)
        known.append((C, c))
    with tune("stream", partition_rows=20, cache_bytes=budget):
        found = sp.compute(*(tensor for tensor, _ in known))
    for tensor, (_, array) in zip(found, known, strict=True):
        np.testing.assert_allclose(tensor.to_numpy(), array)


def test_error_in_one_clears_shared_cache(tmp_path: Path) -> None:
    A = sp.asarray(some_dense((40, 30), 11)).save(tmp_path / "A.sparrow")
    with sp.config(memory_limit=1000), pytest.raises(TooLargeError):
        sp.compute(A, A + A, A.sum(axis=0))
    assert sp.compute(A.sum(axis=0), A)[0].shape == (30,)


def test_expressions_share_memory_limit(tmp_path: Path) -> None:
    n = 30_000
    A = sp.from_coords((np.arange(n), np.arange(n) % 7), np.ones(n), shape=(n, 7)).save(tmp_path / "A.sparrow")
    ten = [A * k for k in range(1, 11)]
    entries = n * (4 + 4 + 8)
    with sp.config(memory_limit=5 * entries):
        assert [one.compute().nnz for one in ten] == [n] * 10
        with pytest.raises(TooLargeError):
            sp.compute(*ten)
        assert memory.available() == 5 * entries
    with sp.config(memory_limit=20 * entries):
        assert [one.nnz for one in sp.compute(*ten)] == [n] * 10


def test_cache_evicts_least_recently_used() -> None:
    made: list[int] = []

    def block(key: int) -> Block:
        made.append(key)
        return Block((), np.zeros(10))

    cache = Cache(budget=200)
    for key in (0, 1, 0, 2, 0, 1):
        cache.get(key, lambda key=key: block(key))  # type: ignore[misc]
    assert made == [0, 1, 2, 1]
    assert cache._room.nbytes == 160  # what is kept is reserved
    with sp.config(memory_limit="160MB"):
        assert cache_bytes() <= memory.working_bytes() // 8


def test_sparse_ends_of_long_dimensions() -> None:
    for size in (2**31, 2**31 + 1, 2**40):
        places, values = [5, size - 1, 7], [1.0, 2.0, 3.0]
        A = sp.from_coords([places, [0, 1, 2]], values, shape=(size, 3))
        assert [column.tolist() for column in A[6:].compute().to_format("coo").coords] == [[1, size - 7], [2, 1]]
        assert [column.tolist() for column in A[6:].T.compute().to_format("coo").coords] == [[1, 2], [size - 7, 1]]
        assert A[6:8][:, None].compute().to_format("coo").coords[0].dtype == np.int32
        assert A[8 : size - 1].nnz == 0
