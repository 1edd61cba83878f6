"""Products of sparse tensors with dense arrays, on every engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

import sparrow as sp
import sparrow.testing
from sparrow import engines, storage
from sparrow.core.indexing import View
from sparrow.core.schema import Schema
from sparrow.errors import ShapeError, TooLargeError, UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.plan import Dense, make_matmul
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation
from sparrow.runtime.settings import config
from tests.engines.helpers import at, memory, random_array, scan_of, stored_relation

REAL = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
ALL = [*REAL, "float16", "complex64", "complex128"]


def product(relation: Relation, x: Any, engine: str = "stream") -> Any:
    return engines.evaluate_dense(make_matmul(scan_of(relation), Dense(np.asarray(x))), engine)


def numbers(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Return values up to the ends of an integer type, small ones of others."""
    rng = np.random.default_rng(len(dtype))
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return rng.integers(limits.min // 2 if kind.itemsize == 8 else limits.min, limits.max // 2, shape, dtype=kind)
    values = rng.integers(-8, 8, shape) / 4
    return (values * (1 + 0.5j) if kind.kind == "c" else values).astype(kind)


def assert_close(found: NDArray[Any], expected: NDArray[Any], dense: NDArray[Any], x: NDArray[Any]) -> None:
    """Assert that sums agree up to the rounding of their terms."""
    terms = np.abs(dense).astype(np.float64) @ np.abs(x).astype(np.float64)
    room = 8 * np.finfo(expected.dtype).eps * terms
    assert (np.abs(found.astype(complex) - expected) <= room).all()


@pytest.mark.parametrize("other", ALL)
@pytest.mark.parametrize("dtype", ALL)
def test_dtypes_and_overflow_match_numpy(dtype: str, other: str) -> None:
    dense = np.where(np.random.default_rng(0).random((6, 8)) < 0.5, numbers((6, 8), dtype), np.zeros((), dtype))
    for x in (numbers((8,), other), numbers((8, 2), other)):
        with np.errstate(all="ignore"):
            expected = dense @ x
        found = product(memory(dense), x)
        assert found.dtype == expected.dtype
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(found, expected)
        else:
            assert_close(found, expected, dense, x)


CALLS: dict[str, Callable[[Any], Any]] = {
    "vector": lambda draw: draw.tensor(5, 30) @ draw.array(30),
    "vectors": lambda draw: draw.tensor(5, 30) @ draw.array(30, 3),
    "sampled": lambda draw: sp.einsum("ij,ik,kj->ij", draw.tensor(5, 30), draw.array(5, 9), draw.array(9, 30)),
    "arrays": lambda draw: sp.einsum("ijk,jr,kr->ir", draw.tensor(5, 6, 5), draw.array(6, 4), draw.array(5, 4)),
    "tensors": lambda draw: (draw.tensor(5, 30) @ draw.tensor(30, 5)).to_numpy(),
}


@dataclass(frozen=True)
class Draw:
    """Random operands of a dtype whose products round."""

    rng: np.random.Generator
    dtype: np.dtype[Any]

    def array(self, *shape: int) -> NDArray[Any]:
        values = self.rng.standard_normal(shape)
        return (values + 1j * self.rng.standard_normal(shape) if self.dtype.kind == "c" else values).astype(self.dtype)

    def tensor(self, *shape: int) -> sp.Tensor:
        return sp.asarray(np.where(self.rng.random(shape) < 0.3, self.array(*shape), self.dtype.type(0)))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_numpy_has_the_bits_of_the_kernels(dtype: str, call: str) -> None:
    for seed in range(5):
        found = []
        for kernels in ("numba", "numpy"):
            with sparrow.testing.strategy(kernels):
                found.append(CALLS[call](Draw(np.random.default_rng(seed), np.dtype(dtype))))
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("other", ["bool", "int8", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("dtype", REAL)
def test_dtypes_in_sql(dtype: str, other: str) -> None:
    dense = np.where(np.random.default_rng(0).random((6, 8)) < 0.5, numbers((6, 8), dtype), np.zeros((), dtype))
    vector = numbers((8,), other)
    if vector.dtype.kind in "iu":
        vector = vector // 100
    for x in (vector, np.stack([vector, vector[::-1]], axis=1)):
        expected, found = dense @ x, product(memory(dense), x, "duckdb")
        assert found.dtype == expected.dtype
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(found, expected)
        else:
            assert_close(found, expected, dense, x)


def test_sql_rejects_unsupported_dtypes() -> None:
    """The engine raises; ``engine="duckdb"`` falls back to the stream engine."""

    def product(relation: Relation, x: Any, engine: str) -> Any:
        return engines.engine_for(engine).evaluate_dense(make_matmul(scan_of(relation), Dense(np.asarray(x))))

    ints = memory(np.full((2, 4), 2**60))
    with pytest.raises(UnsupportedError, match="engine='stream'"):
        product(ints, np.full(4, 2**62), "duckdb")
    for dtype in ("float16", "complex64"):
        with pytest.raises(UnsupportedError, match=f"{dtype}.*engine='stream'"):
            product(memory(np.ones((2, 4), dtype)), np.ones(4), "duckdb")
        with pytest.raises(UnsupportedError, match=f"{dtype}.*engine='stream'"):
            product(memory(np.ones((2, 4), "float32")), np.ones(4, dtype), "duckdb")
    with pytest.raises(UnsupportedError, match=r"absent elements are 2\.0.*engine='stream'"):
        product(memory(np.ones((2, 4)), fill_value=2.0), np.ones(4), "duckdb")
    filled = make_matmul(scan_of(memory(np.ones((2, 4)), fill_value=2.0)), Dense(np.ones(4)))
    assert engines.evaluate_dense(filled, "duckdb").tolist() == [4.0, 4.0]
    assert "engine      stream, fallback: a join multiplies stored elements only" in engines.explain(
        filled, engine="duckdb"
    )


def test_absent_elements_annihilate_nan(engine: str) -> None:
    dense = np.array([[0, 2.0, 0], [0, 0, 0], [1.0, 0, 3.0], [np.inf, 1, 0], [np.nan, 0, 0]])
    x = np.array([np.nan, 1.0, np.inf])
    found = product(memory(dense), x, engine)
    np.testing.assert_array_equal(found, [2.0, 0.0, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(product(memory(dense), [1.0, -1.0, 1.0], engine), [-2, 0, 4, np.inf, np.nan])
    wide = product(memory(dense), np.stack([x, np.ones(3)], axis=1), engine)
    np.testing.assert_array_equal(wide, [[2, 2], [0, 0], [np.nan, 4], [np.nan, np.inf], [np.nan, np.nan]])


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool", "complex128", "float16"])
def test_nonzero_fill_counts(dtype: str) -> None:
    fill: Any = np.dtype(dtype).type(1 if dtype != "bool" else True)
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((6, 8)) < 0.3, numbers((6, 8), dtype), fill)
    for x in (numbers((8,), dtype), numbers((8, 3), dtype)):
        with np.errstate(all="ignore"):
            expected = dense @ x
        np.testing.assert_allclose(
            product(memory(dense, fill_value=fill), x), expected, rtol=1e-2 if dtype == "float16" else 1e-12
        )
    np.testing.assert_allclose(
        engines.evaluate_dense(
            make_matmul(at(memory(dense, fill_value=fill), slice(3, 3)), Dense(numbers((8,), dtype)))
        ),
        np.zeros(0, dtype),
    )


def test_nonzero_fill_with_infinity_raises() -> None:
    relation = memory(np.ones((2, 3)), fill_value=2.0)
    with pytest.raises(UnsupportedError, match=r"to_numpy\(\) @ x"):
        product(relation, [1.0, np.inf, 0.0])
    with pytest.raises(UnsupportedError, match="nan"):
        product(memory(np.ones((2, 3)), fill_value=np.nan), [1.0, 1.0, 0.0])


def test_empty_shapes(engine: str) -> None:
    for shape, right in [
        ((0, 3), (3,)),
        ((0, 3), (3, 2)),
        ((3, 0), (0,)),
        ((3, 0), (0, 2)),
        ((3, 4), (4, 0)),
        ((0,), (0,)),
    ]:
        dense, x = np.zeros(shape, np.int32), np.zeros(right)
        found = product(memory(dense), x, engine)
        assert found.shape == (dense @ x).shape
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, dense @ x)
    np.testing.assert_array_equal(product(memory(np.zeros((3, 4))), np.ones(4), engine), np.zeros(3))


def test_vectors(engine: str) -> None:
    dense, x = np.array([0, 2.0, 0, 3.0]), np.arange(4.0)
    found = product(memory(dense), x, engine)
    assert found == 11
    assert type(found) is np.float64
    X = np.arange(8.0).reshape(4, 2)
    np.testing.assert_array_equal(product(memory(dense), X, engine), dense @ X)
    np.testing.assert_array_equal(
        engines.evaluate_dense(make_matmul(Dense(X.T), scan_of(memory(dense))), engine), X.T @ dense
    )


def test_mismatched_shapes_raise() -> None:
    scan = scan_of(memory(np.ones((3, 4)), dims=("src", "dst")))
    with pytest.raises(ShapeError, match=r"\(3, 4\) and \(5,\) do not fit: dimension 1 \('dst', size 4\) of the left"):
        make_matmul(scan, Dense(np.ones(5)))
    with pytest.raises(ShapeError, match=r"\(2, 4\) and \(3, 4\).*dimension 0 \('src', size 3\) of the right"):
        make_matmul(Dense(np.ones((2, 4))), scan)
    with pytest.raises(ShapeError, match="no dimensions"):
        make_matmul(scan, Dense(np.array(2.0)))
    with pytest.raises(UnsupportedError, match="one or two dimensions"):
        make_matmul(scan, Dense(np.ones((2, 4, 3))))
    with pytest.raises(UnsupportedError, match="one or two dimensions"):
        make_matmul(scan_of(memory(np.ones((2, 3, 4)))), Dense(np.ones(4)))
    with pytest.raises(UnsupportedError, match="one tensor and one dense"):
        make_matmul(scan, scan)
    with pytest.raises(UnsupportedError, match="object"):
        Dense(np.array([None, "a"]))
    with pytest.raises(UnsupportedError, match="cast"):
        Dense(np.array(["a", "b"]))


@pytest.mark.parametrize("engine", ["stream", "duckdb"])  # the toy engine is dense
def test_too_large_result_raises(engine: str) -> None:
    relation = MemoryRelation(Schema((2**40, 4)), Block((np.array([2**39]), np.array([1])), np.array([2.0])))
    with pytest.raises(TooLargeError, match=rf"{2**43} bytes.*memory_limit"):
        product(relation, np.ones(4), engine)
    assert engines.evaluate_dense(
        make_matmul(at(relation, slice(2**39, 2**39 + 2)), Dense(np.ones(4))), engine
    ).tolist() == [2, 0]


@pytest.fixture(scope="module")
def graph() -> NDArray[Any]:
    """Return a matrix with rows that span several chunks, and empty rows."""
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((40, 60)) < 0.2, rng.standard_normal((40, 60)), 0)
    dense[3] = rng.standard_normal(60)
    dense[10:14] = 0
    return dense


@pytest.fixture(scope="module")
def relations(graph: NDArray[Any], tmp_path_factory: pytest.TempPathFactory) -> list[Relation]:
    folder = tmp_path_factory.mktemp("graph")
    return [memory(graph), stored_relation(folder / "plain", graph), stored_relation(folder / "order", graph, (1, 0))]


@pytest.mark.parametrize("way", ["numpy", "numba"])
def test_infinities_across_chunks_do_not_warn(way: str, tmp_path: Path) -> None:
    dense = np.ones((1, 20))
    dense[0, 0], dense[0, -1] = np.inf, -np.inf
    relation = stored_relation(tmp_path / "A", dense)
    for x in (np.ones(20), np.ones((20, 2))):
        with sparrow.testing.strategy(way):
            found = engines.evaluate_dense(make_matmul(scan_of(relation), Dense(x)))
        assert np.isnan(found).all()


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        *(((), columns) for columns in (None, 1, 2, 8, 11)),
        *(
            (key, columns)
            for key in [
                (slice(5, 30),),
                (slice(None), slice(7, 50)),
                (slice(None, None, -1),),
                (slice(None), slice(None, None, 3)),
                (slice(None), slice(7, 8)),
                (slice(5, 6), slice(3, None)),
                ([5, 3, 3, 20],),
                (slice(None), [3, 3, 0]),
            ]
            for columns in (None, 11)
        ),
    ],
)
def test_same_bits_with_any_thread_count(
    relations: list[Relation], graph: NDArray[Any], key: Any, columns: int | None
) -> None:
    for relation in relations:
        for order in ((0, 1), (1, 0)):
            view = View.identity(graph.shape).then(key).permute(order)
            expected = graph[key].transpose(order)
            x = np.random.default_rng(2).standard_normal((expected.shape[1], *(() if columns is None else (columns,))))
            contract = make_matmul(scan_of(relation, view), Dense(x))
            results = []
            for threads in (1, 2, 3, 3):
                with config(threads=threads):
                    results.append(engines.evaluate_dense(contract).tobytes())
            assert len(set(results)) == 1
            found = np.frombuffer(results[0]).reshape(expected.shape[0], *x.shape[1:])
            np.testing.assert_allclose(found, expected @ x, rtol=1e-11, atol=1e-13)


def test_many_chunks_match_scipy() -> None:
    matrix = scipy.sparse.random_array((3000, 2000), density=0.1, rng=np.random.default_rng(0), format="csr")
    entries = matrix.tocoo()
    schema = Schema(matrix.shape)
    relation = MemoryRelation(schema, Block(entries.coords, entries.data))
    assert len(relation.chunks(View.identity(matrix.shape).box())) > 2
    x = np.random.default_rng(1).random((2000, 8))
    for engine in ("stream", "duckdb"):
        np.testing.assert_allclose(product(relation, x, engine), matrix @ x, rtol=1e-12)
        np.testing.assert_allclose(product(relation, x[:, 0], engine), matrix @ x[:, 0], rtol=1e-12)
    tall = scan_of(relation, View.identity(matrix.shape).permute((1, 0)))
    y = np.random.default_rng(1).random(3000)
    np.testing.assert_allclose(engines.evaluate_dense(make_matmul(tall, Dense(y))), matrix.T @ y, rtol=1e-12)


def test_operand_memory_layouts() -> None:
    dense = random_array((5, 6))
    x = np.random.default_rng(0).random((12, 18))
    for operand in (x[::2, 4], x[::2, ::3], x[:6].T[::3].T, np.asfortranarray(x[:6]), x[5::-1, ::-1]):
        for engine in ("stream", "duckdb"):
            np.testing.assert_allclose(product(memory(dense), operand, engine), dense @ operand)
    for big_endian in (x[:6, 0].astype(">f8"), np.arange(6, dtype=">i4")):
        for engine in ("stream", "duckdb"):
            np.testing.assert_allclose(product(memory(dense.astype(int)), big_endian, engine), dense @ big_endian)


def test_out_of_range_coordinates_are_skipped() -> None:
    outside = Block((np.array([0, 1, 900]), np.array([1, 900, 1])), np.array([1.0, 2.0, 3.0]))
    relation = MemoryRelation(Schema((2, 3)), outside)
    for x in (np.ones(3), np.ones((3, 8))):
        assert product(relation, x).reshape(2, -1)[:, 0].tolist() == [1.0, 0.0]
        flipped = scan_of(relation, View.identity((2, 3)).permute((1, 0)))
        assert engines.evaluate_dense(make_matmul(flipped, Dense(x[:2]))).reshape(3, -1)[:, 0].tolist() == [
            0.0,
            1.0,
            0.0,
        ]


@pytest.mark.parametrize("dtype", ["bool", "int32", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("view", [(), (slice(7, 60), slice(3, 30)), (slice(None, None, -2),), (5,)], ids=str)
def test_numpy_matches_kernels_bit_for_bit(tmp_path: Path, dtype: str, view: tuple[Any, ...]) -> None:
    dense = random_array((70, 40), seed=3)
    dense = (dense / 7 if np.dtype(dtype).kind in "fc" else dense).astype(dtype)
    relation = stored_relation(tmp_path / "t", dense, sizes=storage.Sizes(file_rows=200, group_rows=50))
    rng = np.random.default_rng(0)
    shown = View.identity(dense.shape).then(view)
    part = dense[view]
    turns = [(shown, part), (shown.permute((1, 0)), part.T)] if part.ndim == 2 else [(shown, part)]
    for seen, cells in turns:
        for columns in ((), (3,)):
            x = rng.normal(size=(cells.shape[-1], *columns))
            found = []
            for way in ("numba", "numpy"):
                with sparrow.testing.strategy(way):
                    found.append(engines.evaluate_dense(make_matmul(scan_of(relation, seen), Dense(x)), "stream"))
            assert np.asarray(found[0]).tobytes() == np.asarray(found[1]).tobytes()
            np.testing.assert_allclose(found[0], cells @ x, rtol=1e-3, atol=1e-3)


def test_numpy_adds_until_loading_the_kernel_costs_less() -> None:
    code = """
import numpy as np, sparrow as sp, sparrow.testing
A, x = sp.eye(60), np.arange(60.0)
with (
    sparrow.testing.tune("dispatch", small_work=0, load_work=100),
    sparrow.testing.observe("product.dense_numpy") as seen,
):
    for _ in range(3):
        np.testing.assert_array_equal(A @ x, x)
print([details["elements"] for _, details in seen])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[60]\n"
