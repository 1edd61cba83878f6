"""Every engine reads what NumPy indexing returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow import engines
from sparrow.core.indexing import View
from sparrow.core.schema import Schema
from sparrow.engines import sort_orders as choose
from sparrow.errors import TooLargeError
from sparrow.kernels.coo import Block, is_sorted
from sparrow.plan import Dense, make_matmul
from sparrow.relations.csr import CSRRelation
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import ParquetSource, Relation
from sparrow.runtime.settings import config
from tests.engines.helpers import Counting, at, memory, random_array, scan_of, stored_relation, to_dense

SHAPES = [(6, 7), (9,), (4, 3, 5), (3, 2, 2, 4), ()]
BASES = {shape: random_array(shape, seed=len(shape)) for shape in SHAPES}


@pytest.fixture(scope="module")
def relations(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, ...], list[Relation]]:
    folder = tmp_path_factory.mktemp("relations")
    found: dict[tuple[int, ...], list[Relation]] = {}
    for number, (shape, dense) in enumerate(BASES.items()):
        plain = memory(dense)
        found[shape] = [plain, CSRRelation(plain.schema, plain.block)]
        if shape:
            found[shape].append(stored_relation(folder / f"{number}-plain", dense))
            found[shape].append(stored_relation(folder / f"{number}-order", dense, tuple(reversed(range(len(shape))))))
    return found


def parts_of(size: int) -> st.SearchStrategy[Any]:
    bound = st.one_of(st.none(), st.integers(-size - 1, size + 1))
    step = st.one_of(st.none(), st.integers(-3, 3).filter(bool))
    options: list[st.SearchStrategy[Any]] = [st.builds(slice, bound, bound, step), st.just(slice(None))]
    if size:
        inside = st.integers(-size, size - 1)
        options += [inside, st.lists(inside, max_size=4)]
        options.append(st.lists(st.booleans(), min_size=size, max_size=size).map(np.array))
    return st.one_of(options)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    parts: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        if draw(st.integers(0, 5)) == 0:
            parts.append(None)
        parts.append(draw(parts_of(size)))
    return tuple(parts)


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...], expected: Any) -> tuple[View, Any]:
    view = View.identity(shape)
    for _ in range(draw(st.integers(1, 3))):
        key = draw(keys(expected.shape))
        try:
            found = expected[key]
        except IndexError:
            assume(False)
        view, expected = view.then(key), np.asarray(found)
        assume(expected.ndim <= 5)
    order = draw(st.permutations(range(view.ndim)))
    return view.permute(order), expected.transpose(order)


def assert_canonical(block: Block, shape: tuple[int, ...]) -> None:
    assert is_sorted(block.coords, strict=True)
    for column, size in zip(block.coords, shape, strict=True):
        assert column.dtype == np.int32
        assert ((column >= 0) & (column < size)).all()


@settings(max_examples=32)
@given(st.data(), st.sampled_from(SHAPES), st.integers(0, 2))
def test_nested_views(
    relations: dict[tuple[int, ...], list[Relation]], data: st.DataObject, shape: tuple[int, ...], which: int
) -> None:
    view, expected = data.draw(views(shape, BASES[shape]), label="view")
    of_shape = relations[shape]
    scan = scan_of(of_shape[which % len(of_shape)], view)
    assert scan.schema.shape == expected.shape
    for engine in ("stream", "duckdb"):
        block = engines.evaluate(scan, engine)
        assert_canonical(block, expected.shape)
        np.testing.assert_array_equal(to_dense(block, scan.schema), expected)
        assert block.values.dtype == np.float64
        assert engines.run.count_nnz(scan, engine) == np.count_nonzero(expected)
    pieces = list(engines.iter_sorted_blocks(scan))
    assert sum(piece.count for piece in pieces) == np.count_nonzero(expected)
    whole = np.zeros(expected.shape)
    for piece in pieces:
        whole += to_dense(piece, scan.schema)
    np.testing.assert_array_equal(whole, expected)
    if view.ndim == 0:
        assert engines.evaluate_element(scan.source, view) == expected[()]


@settings(max_examples=32)
@given(st.data(), st.sampled_from([(6, 7), (9,), (4, 3, 5)]), st.integers(0, 2), st.sampled_from([None, 1, 3, 9]))
def test_products_of_nested_views(
    relations: dict[tuple[int, ...], list[Relation]],
    data: st.DataObject,
    shape: tuple[int, ...],
    which: int,
    columns: int | None,
) -> None:
    view, expected = data.draw(views(shape, BASES[shape]), label="view")
    assume(expected.ndim in (1, 2))
    scan = scan_of(relations[shape][which], view)
    rng = np.random.default_rng(columns)
    tail = () if columns is None else (columns,)
    right, left = rng.random((expected.shape[-1], *tail)), rng.random((*tail, expected.shape[0]))
    for engine in ("stream", "duckdb"):
        found = engines.evaluate_dense(make_matmul(scan, Dense(right)), engine)
        np.testing.assert_allclose(found, expected @ right, rtol=1e-12)
        assert type(found) is type(expected @ right)
        assert found.shape == (expected @ right).shape
        found = engines.evaluate_dense(make_matmul(Dense(left), scan), engine)
        np.testing.assert_allclose(found, left @ expected, rtol=1e-12)
        assert found.shape == (left @ expected).shape


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
)
def test_values_keep_their_dtype(tmp_path: Path, dtype: str, engine: str) -> None:
    dense = random_array((5, 6), dtype)
    for relation in (memory(dense), stored_relation(tmp_path / "a", dense)):
        block = engines.evaluate(at(relation, slice(None, None, -1)), engine)
        assert block.values.dtype == dtype
        np.testing.assert_array_equal(to_dense(block, relation.schema), dense[::-1])


@pytest.mark.parametrize("dtype", ["float16", "complex64", "complex128"])
def test_dtypes_without_sql_arithmetic(tmp_path: Path, dtype: str) -> None:
    dense = random_array((5, 6), dtype) * dtype_unit(dtype)
    for relation in (memory(dense), stored_relation(tmp_path / "a", dense)):
        scan = at(relation, slice(None), [3, 0, 3])
        for engine in ("stream", "duckdb"):
            block = engines.evaluate(scan, engine)
            assert block.values.dtype == dtype
            np.testing.assert_array_equal(to_dense(block, scan.schema), dense[:, [3, 0, 3]])
        pieces = list(engines.iter_sorted_blocks(scan))
        assert pieces[0].values.dtype == dtype
        assert is_sorted(pieces[0].coords, strict=True)


def dtype_unit(dtype: str) -> Any:
    return np.dtype(dtype).type(1 + 2j) if dtype.startswith("complex") else np.dtype(dtype).type(0.5)


def test_wide_coordinates() -> None:
    schema_shape = (2**40, 2**62)
    coords = (np.array([3, 2**39, 2**39]), np.array([2**61, 0, 2**61]))
    relation = MemoryRelation(Schema(schema_shape), Block(coords, np.array([1.0, 2.0, 3.0])))
    scan = scan_of(relation, View.identity(schema_shape).permute((1, 0)))
    for engine in ("stream", "duckdb"):
        block = engines.evaluate(scan, engine)
        assert block.coords[0].tolist() == [0, 2**61, 2**61]
        assert block.coords[1].tolist() == [2**39, 3, 2**39]
        assert block.values.tolist() == [2.0, 1.0, 3.0]
    assert np.concatenate([block.values for block in engines.iter_sorted_blocks(scan)]).tolist() == [2.0, 1.0, 3.0]
    part = at(relation, slice(2**38, 2**38 + 2**39), 2**61)
    for engine in ("stream", "duckdb"):
        assert engines.evaluate(part, engine).coords[0].tolist() == [2**39 - 2**38]


def test_count_reads_partial_chunks_only(tmp_path: Path) -> None:
    dense = np.ones((30, 10))
    relation = stored_relation(tmp_path / "a", dense)
    counting = Counting(relation)
    assert engines.count_nnz(scan_of(counting)) == 300
    assert counting.reads == 0
    assert engines.count_nnz(at(counting, slice(3, 21))) == 180
    assert 1 <= counting.reads <= 2


@pytest.mark.parametrize("engine", ["stream", "duckdb"])
def test_list_reads_row_groups_of_members(tmp_path: Path, engine: str) -> None:
    dense = random_array((60, 50), density=1.0)  # 50 entries a row: seven row groups and a bit
    relation = stored_relation(tmp_path / "a", dense, (1, 0))
    keys: list[tuple[Any, Any, int]] = [
        ([58, 1, 58], slice(3, 40), 2),
        (slice(None), [49, 0, 25], 3),
        ([2, 59], [49, 0], 2),
    ]
    for *key, members in keys:
        scan = at(relation, *key)
        order, box = choose.scan_order(scan), scan.view.box()
        stats = relation.stats(box, order)
        length = 60 if order[0] else 50
        assert stats.row_groups_read <= members * (length // 7 + 2)
        assert stats.files_read <= 3 * members < stats.files
        source = relation.source(box, order)
        assert isinstance(source, ParquetSource)
        assert len(source.paths) == stats.files_read
        np.testing.assert_array_equal(to_dense(engines.evaluate(scan, engine), scan.schema), dense[tuple(key)])
        counting = Counting(relation)
        reads = at(counting, *key)
        assert engines.count_nnz(reads) == np.count_nonzero(dense[tuple(key)])
        assert counting.reads == stats.row_groups_read


def test_row_list_of_expression_reads_members(tmp_path: Path) -> None:
    dense = random_array((60, 50), density=1.0)
    counting = Counting(stored_relation(tmp_path / "a", dense))
    doubled = sp.Tensor(counting) * 2
    np.testing.assert_array_equal(doubled[[57, 2]].to_numpy(), 2 * dense[[57, 2]])
    assert 2 <= counting.reads <= 2 * 9


@given(st.data())
def test_row_lists_in_memory_use_row_starts(data: st.DataObject) -> None:
    dense = random_array((40, 6), seed=3, density=0.3)
    plain = memory(dense)
    rows = data.draw(st.lists(st.integers(-40, 39), max_size=60))
    for relation in plain, CSRRelation(plain.schema, plain.block):
        for key in (rows,), (rows, slice(4, 1, -1)), (None, rows), (slice(None), [5, 0, 0]):
            scan = at(relation, *key)
            found = engines.evaluate(scan)
            assert_canonical(found, scan.schema.shape)
            np.testing.assert_array_equal(to_dense(found, scan.schema), dense[key])
            assert engines.count_nnz(scan) == found.count
    if rows:
        chunks = plain.chunks(at(plain, rows).view.box())
        assert sum(chunk.rows for chunk in chunks) == np.count_nonzero(dense[sorted({row % 40 for row in rows})])


def test_scan_order_has_the_fewest_rows(tmp_path: Path) -> None:
    relation = stored_relation(tmp_path / "a", np.ones((30, 10)), (1, 0))
    assert choose.scan_order(at(relation, 3)) == (0, 1)
    assert choose.scan_order(at(relation, slice(None), 3)) == (1, 0)
    assert choose.scan_order(scan_of(relation)) == (0, 1)
    transposed = scan_of(relation, View.identity((30, 10)).permute((1, 0)))
    assert choose.sorted_order(transposed) == (1, 0)
    assert choose.product_order(transposed) == (1, 0)


def test_results_beyond_the_limit_raise() -> None:
    relation = memory(np.ones((100, 100)))
    with config(memory_limit=1000):
        for engine in ("stream", "duckdb"):
            with pytest.raises(TooLargeError, match="to_batches"):
                engines.evaluate(scan_of(relation), engine)


def test_external_sort() -> None:
    dense = random_array((100, 100), density=1.0)
    scan = scan_of(memory(dense), View.identity((100, 100)).permute((1, 0)))
    with config(memory_limit=500_000):
        block = engines.evaluate(scan)
    assert_canonical(block, (100, 100))
    np.testing.assert_array_equal(to_dense(block, scan.schema), dense.T)


def test_lists_that_repeat() -> None:
    dense = random_array((5, 40), density=1.0)
    scan = at(memory(dense), [2] * 30 + [1])
    np.testing.assert_array_equal(to_dense(engines.evaluate(scan), scan.schema), dense[[2] * 30 + [1]])


def test_broadcast_views(tmp_path: Path) -> None:
    dense = random_array((6, 7))
    for relation in (
        memory(dense),
        stored_relation(tmp_path / "a", dense),
        stored_relation(tmp_path / "b", dense.astype(np.uint8)),
    ):
        for key, shape in [((2,), (3, 7)), ((slice(None), 2, None), (6, 4)), ((slice(2, 3),), (5, 7)), ((), (2, 6, 7))]:
            scan = scan_of(relation, View.identity((6, 7)).then(key).broadcast_to(shape))
            expected = np.broadcast_to(dense[key], shape)
            for engine in ("stream", "duckdb", "cupy"):
                np.testing.assert_array_equal(to_dense(engines.evaluate(scan, engine), scan.schema), expected)
                assert engines.run.count_nnz(scan, engine) == np.count_nonzero(expected)
                if expected.ndim == 2:
                    x, y = np.arange(1.0, shape[1] + 1), np.arange(1.0, shape[0] + 1)
                    assert (
                        engines.evaluate_dense(make_matmul(scan, Dense(x)), engine).tolist() == (expected @ x).tolist()
                    )
                    assert (
                        engines.evaluate_dense(make_matmul(Dense(y), scan), engine).tolist() == (y @ expected).tolist()
                    )


def test_engine_names() -> None:
    scan = scan_of(memory(np.ones((2, 2))))
    with pytest.raises(ValueError, match="'auto', 'cupy', 'dask', 'duckdb', 'processes', 'ray', 'spark', 'stream'"):
        engines.evaluate(scan, "gpu")
