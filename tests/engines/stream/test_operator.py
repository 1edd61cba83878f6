"""Chunks, partitions and cursors of physical operators, against NumPy."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow import engines
from sparrow.core.indexing import Box, View
from sparrow.engines.stream import scan_reader as stream
from sparrow.engines.stream.cursors import ChunkCursor
from sparrow.engines.stream.groupby import num_lanes
from sparrow.engines.stream.partitioning import partition_bounds
from sparrow.errors import StorageError
from sparrow.kernels.coo import Block
from sparrow.kernels.folds import ExtremumFold, UfuncFold
from sparrow.plan import Node, make_map
from sparrow.relations.protocol import Relation
from sparrow.runtime import settings
from sparrow.testing import observe, strategy, tune
from tests.engines.helpers import (
    Counting,
    Unreadable,
    at,
    lower_node,
    memory,
    random_array,
    reduce_scan,
    scan_of,
    stored_relation,
    to_dense,
)

KEYS: list[tuple[Any, ...]] = [
    (),
    (slice(2, 9),),
    (slice(1, None, 3), slice(None, None, -1)),
    (4,),
    (slice(None), 3),
    ([5, 1, 5],),
    (None, slice(None), slice(2, 5)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("relations")


@pytest.fixture(scope="module", params=["memory", "stored"])
def relation(request: pytest.FixtureRequest, folder: Path) -> tuple[Relation, NDArray[Any]]:
    dense = random_array((12, 9), seed=7)
    return (memory(dense) if request.param == "memory" else stored_relation(folder / "A.sparrow", dense)), dense


@pytest.fixture
def small_partitions(where: str) -> Iterator[None]:
    """Divide small tensors into many partitions; sort on disk if so asked."""
    with tune("stream", partition_rows=10), strategy(*["spilled_sort"] if where == "disk" else []):
        yield


def dense_of(found: Node) -> NDArray[Any]:
    return to_dense(engines.evaluate(scan_of(found)), found.schema)


@pytest.mark.parametrize("dtype", ["float64", "uint8", "complex64"])
@pytest.mark.parametrize("dims", [(), (1,), (2, 0)])
def test_read_chunk_with_some_dims(dtype: str, dims: tuple[int, ...], tmp_path: Path) -> None:
    dense = random_array((4, 5, 6), dtype, seed=1)
    relation = stored_relation(tmp_path / "A.sparrow", dense, dims=("a", "a.b", "b"))
    for chunk in relation.chunks(Box.from_shape(dense.shape)):
        whole, part = relation.read(chunk), relation.read(chunk, dims)
        np.testing.assert_array_equal(part.values, whole.values)
        assert [len(column) for column in part.coords] == [whole.count] * 3
        for dim in dims:
            np.testing.assert_array_equal(part.coords[dim], whole.coords[dim])
            assert part.coords[dim].dtype == whole.coords[dim].dtype


@pytest.mark.parametrize("key", KEYS)
def test_blocks_of_some_axes_match_all(relation: tuple[Relation, NDArray[Any]], key: tuple[Any, ...]) -> None:
    scan = at(relation[0], *key)
    for axes in [(), *((axis,) for axis in range(scan.schema.ndim))]:
        for whole, part in zip(stream.iter_blocks(scan), stream.iter_blocks(scan, axes=axes), strict=True):
            np.testing.assert_array_equal(part.values, whole.values)
            for axis in axes:
                np.testing.assert_array_equal(part.coords[axis], whole.coords[axis])


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("outer", [(), (slice(1, 2),), (slice(None, None, 2), ...)])
def test_unary_map_follows_input_chunks(
    relation: tuple[Relation, NDArray[Any]], key: tuple[Any, ...], outer: tuple[Any, ...]
) -> None:
    scan, dense = at(relation[0], *key), relation[1][key]
    found = make_map(np.negative, [scan])
    shown = scan_of(found, View.identity(found.schema.shape).then(outer))
    np.testing.assert_array_equal(to_dense(engines.evaluate(shown), shown.schema), -dense[outer])
    for chunk in lower_node(found).chunks(Box.from_shape(dense.shape)):
        block = lower_node(found).read(chunk)
        for low, column, high in zip(chunk.low, block.coords, chunk.high, strict=True):
            assert block.count == 0 or low <= column.min() <= column.max() <= high
    np.testing.assert_array_equal(
        dense_of(reduce_scan(scan_of(found), "sum", keepdims=True)), (-dense).sum(keepdims=True)
    )
    assert reduce_scan(scan_of(found), "max") == (-dense).max()


def test_unary_map_decodes_row_groups_of_box(folder: Path) -> None:
    dense = random_array((40, 9), seed=2)
    counting: Any = Counting(stored_relation(folder / "box.sparrow", dense))
    found = make_map(np.multiply, [scan_of(counting), 3])
    view = View.identity(dense.shape).then((slice(30, 33),))
    block = engines.evaluate(scan_of(found, view))
    np.testing.assert_array_equal(to_dense(block, scan_of(found, view).schema), 3 * dense[30:33])
    assert counting.reads == len(counting.chunks(view.box())) < len(counting.chunks(Box.from_shape(dense.shape)))
    assert lower_node(found).stats(view.box()).rows < lower_node(found).stats(Box.from_shape(dense.shape)).rows


@pytest.mark.parametrize("rows", [3, 20, 1000])
def test_binary_map_reads_each_chunk_once(folder: Path, rows: int) -> None:
    one, two = random_array((30, 9), seed=3), random_array((30, 9), seed=4)
    sides: list[Any] = [
        Counting(stored_relation(folder / f"{name}-{rows}.sparrow", side))
        for name, side in (("one", one), ("two", two))
    ]
    with settings.config(threads=3), tune("stream", partition_rows=rows):
        found = make_map(np.subtract, [scan_of(side) for side in sides])
        np.testing.assert_array_equal(dense_of(found), one - two)
    assert [side.reads for side in sides] == [len(side.chunks(Box.from_shape(one.shape))) for side in sides]


@pytest.mark.parametrize("key", [np.s_[2:27], np.s_[1:29:2, 3:], np.s_[4:, 2:8:3], np.s_[:, 1:]])
def test_slices_read_each_chunk_once(folder: Path, key: Any) -> None:
    dense = random_array((30, 9), seed=5), random_array((30, 9), seed=6)
    path = str(folder / f"{key}.sparrow").replace(" ", "")
    sides: list[Any] = [Counting(stored_relation(Path(f"{path}-{number}"), one)) for number, one in enumerate(dense)]
    keys = key if isinstance(key, tuple) else (key,)
    with settings.config(threads=3), tune("stream", partition_rows=5):
        scans = [at(side, *keys) for side in sides]
        np.testing.assert_array_equal(dense_of(make_map(np.add, scans)), dense[0][key] + dense[1][key])
    assert [side.reads for side in sides] == [len(side.chunks(scans[0].view.box())) for side in sides]


def test_chunk_cursor_keeps_chunks_until_read(folder: Path) -> None:
    dense = random_array((30, 9), seed=3)
    counting: Any = Counting(stored_relation(folder / "kept.sparrow", dense))
    scan, bounds = scan_of(counting), [*range(2, 27, 3), 28]
    cursor = ChunkCursor(scan, bounds[0], bounds[-1])
    order = np.random.default_rng(0).permutation(len(bounds) - 1)
    cursor._capacity = len(counting.chunks(Box.from_shape(dense.shape)))
    for number in order:
        start, stop = bounds[number], bounds[number + 1]
        found = to_dense(cursor.read(start, stop), scan.schema)
        np.testing.assert_array_equal(found[start:stop], dense[start:stop])
        assert not found[:start].any()
        assert not found[stop:].any()
    assert counting.reads == len(counting.chunks(View.identity(dense.shape).then((slice(2, 28),)).box()))
    assert not cursor._cached
    assert not cursor._unread


@pytest.mark.parametrize(
    ("limit", "width", "entries"),
    [(10**9, 700, 400), (2 * 10**8, 700, 400), (10**6, 700, 62), (10**6, 2**40, 50), (10**5, 700, 20)],
)
@tune("stream", partition_rows=400, min_partition_rows=20, partition_copies=1000)
def test_partitions_shrink_with_the_memory_limit(limit: int, width: int, entries: int) -> None:
    ids = np.arange(2400)
    A = sp.from_coords([ids % 700, ids], np.ones(2400), shape=(700, max(width, 2400)))
    for threads in (1, 5):
        with settings.config(memory_limit=limit, threads=threads):
            bounds = partition_bounds([A.T.__sparrow_scan__()], 2400)
        assert len(bounds) - 1 == -(-2400 // entries)


def test_partitions_are_at_most_rows() -> None:
    A = sp.asarray(np.arange(1.0, 11))[:, None]
    many = sp.broadcast_to(A, (10, 2**40))
    assert partition_bounds([many.__sparrow_scan__()], 10, rows=1000) == list(range(11))
    across = sp.broadcast_to(A.T, (7, 10))[:, :, None]
    assert len(partition_bounds([sp.broadcast_to(across, (7, 10, 2**40)).__sparrow_scan__()], 7, rows=1000)) == 8


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_other_order_is_sorted_once(folder: Path, where: str, small_partitions: None) -> None:
    dense = random_array((20, 20), seed=5)
    counting: Any = Counting(stored_relation(folder / f"turned-{where}.sparrow", dense))
    scan = scan_of(counting)
    found = make_map(np.add, [scan, scan.transpose()])
    np.testing.assert_array_equal(dense_of(found), dense + dense.T)
    assert counting.reads == 2 * len(counting.chunks(Box.from_shape(dense.shape)))
    part = scan_of(found, View.identity(dense.shape).then((slice(7, 9),)))
    np.testing.assert_array_equal(to_dense(engines.evaluate(part), part.schema), (dense + dense.T)[7:9])


@pytest.mark.parametrize("where", ["memory", "disk"])
@pytest.mark.parametrize(
    ("build", "scans"),
    [
        (lambda A, xp: xp.concat([A, A.T], axis=1), 2), (lambda A, xp: xp.concat([A.T, A], axis=0), 2),
        (lambda A, xp: xp.tile(A.T, (1, 2)), 2), (lambda A, xp: xp.triu(A.T, k=-2), 1),
        (lambda A, xp: xp.reshape(A.T, (10, 40)), 1), (lambda A, xp: xp.reshape(A.T, (400,)), 1),
        (lambda A, xp: xp.linalg.diagonal(A.T, offset=3), 1), (lambda A, xp: xp.sort(A, axis=0), 1),
        (lambda A, xp: A.T[::-1] - A.T, 2),
    ],
)  # fmt: skip
def test_structural_operators_read_once(
    folder: Path, where: str, build: Any, scans: int, small_partitions: None
) -> None:
    dense = random_array((20, 20), seed=5)
    path = folder / f"rearranged-{where}.sparrow"
    counting: Any = Counting(
        stored_relation(path, dense) if not path.exists() else sp.open(path).__sparrow_scan__().relation
    )
    found = build(sp.Tensor(counting), sp)
    np.testing.assert_array_equal(found.to_numpy(), build(dense, np))
    assert counting.reads <= scans * len(counting.chunks(Box.from_shape(dense.shape)))


@pytest.mark.parametrize("where", ["memory", "disk"])
@pytest.mark.parametrize(
    ("build", "scans"),
    [
        (lambda A, xp: xp.sum(A + A.T, axis=1), 2), (lambda A, xp: xp.max(A + A.T, axis=0), 8),
        (lambda A, xp: xp.sum((A + A.T) * 2, axis=1), 2), (lambda A, xp: xp.max(A.T * 2 + A, axis=1), 2),
        (lambda A, xp: xp.max(xp.reshape(A.T, (40, 10)), axis=1), 1),
        (lambda A, xp: xp.max(xp.triu(A.T)[::-1] + A, axis=1), 2),
        (lambda A, xp: xp.max((A + A.T)[2:], axis=1), 2), (lambda A, xp: (A + A.T)[2:, ::-1] - A[2:], 3),
    ],
)  # fmt: skip
def test_partitioned_reductions_sort_once(
    folder: Path, where: str, build: Any, scans: int, small_partitions: None
) -> None:
    dense = random_array((20, 20), seed=5)
    path = folder / f"stretches-{where}.sparrow"
    relation = stored_relation(path, dense) if not path.exists() else sp.open(path).__sparrow_scan__().relation
    counting: Any = Counting(relation)
    with tune("stream", group_bytes=600):
        np.testing.assert_array_equal(build(sp.Tensor(counting), sp).to_numpy(), build(dense, np))
    assert counting.reads <= scans * len(counting.chunks(Box.from_shape(dense.shape))) + 15


@given(st.integers(0, 2**32), st.integers(1, 4), st.permutations(range(3)), st.lists(st.integers(0, 3), max_size=3))
def test_spilled_sort_matches_memory(seed: int, threads: int, order: tuple[int, ...], turned: list[int]) -> None:
    dense = random_array((7, 6, 8), seed=seed)
    key = tuple(slice(None, None, -1) if axis in turned else slice(1, None) for axis in range(3))
    A = sp.Tensor(memory(dense))
    with strategy("spilled_sort"), tune("stream", partition_rows=5), settings.config(threads=threads):
        shown, wanted = A.transpose(order)[key], dense.transpose(order)[key]
        np.testing.assert_array_equal((shown - 1).to_numpy(), wanted - 1)
        both, double = shown + shown[::-1], wanted + wanted[::-1]
        np.testing.assert_array_equal(both.to_numpy(), double)
        np.testing.assert_array_equal(both[1:3].to_numpy(), double[1:3])


@strategy("spilled_sort")
@tune("stream", partition_rows=10)
def test_full_disk_raises_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = random_array((20, 20), seed=5)
    A = sp.Tensor(stored_relation(folder / "full.sparrow", dense))
    both = A + A.T
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
        with pytest.raises(StorageError, match="No space left on device"):
            both.to_numpy()
    np.testing.assert_array_equal(both.to_numpy(), dense + dense.T)


@pytest.mark.parametrize("shape", [(60, 1), (1, 50)])
@tune("stream", partition_rows=100)
def test_partition_size_counts_repeated_elements(shape: tuple[int, ...]) -> None:
    one, two = np.ones((60, 50, 1)), random_array((*shape, 20), seed=10)
    found = make_map(np.add, [scan_of(memory(one, 1.0)), scan_of(memory(two))])
    np.testing.assert_array_equal(dense_of(found), one + two)
    assert (
        max(lower_node(found).read(chunk).count for chunk in lower_node(found).chunks(Box.from_shape((60, 50, 20))))
        <= 1000
    )


def test_building_an_expression_reads_nothing(folder: Path) -> None:
    dense = random_array((12, 12), seed=11)
    A: Any = sp.Tensor(Unreadable(stored_relation(folder / "unread.sparrow", dense, (1, 0))))
    built = [
        A + A.T, A * A[:1], A * dense, A / (1 + dense), np.exp(A), A.astype("float32"), np.clip(A, 0, 1),
        sp.where(A > 0, A, A.T), A.sum(axis=0), A.mean(axis=1, keepdims=True), A.argmax(axis=0), np.nanmax(A, axis=1),
        sp.sort(A, axis=0), sp.roll(A, 3), sp.concat([A, A], 1), sp.stack([A, A]), sp.reshape(A, -1), sp.tril(A),
        sp.diagonal(A), sp.repeat(A, 2, 0), sp.tile(A, 2), np.take(A, [3, 1], axis=1), A[::-2, None, [1, 2]],
        ((A + 1).sum(axis=0) * A)[3:5],
    ]  # fmt: skip
    for expression in built:
        assert "nnz=?" in repr(expression)
        with pytest.raises(AssertionError, match="read"):
            expression.compute()


def test_read_errors_propagate(folder: Path) -> None:
    class Failing(Counting):
        def read(self, chunk: Any, dims: Any = None) -> Block:
            raise OSError("the disk is gone")

    dense = random_array((8, 9), seed=6)
    failing: Any = Failing(memory(dense))
    found = make_map(np.add, [scan_of(failing), scan_of(memory(dense))])
    with pytest.raises(OSError, match="the disk is gone"):
        dense_of(found)


ODD = st.sampled_from([0.0, -0.0, 1.0, 1e300, -1e300, 0.1, 1e-300, np.nan, np.inf, -np.inf])


@given(st.lists(ODD, min_size=1, max_size=60), st.sampled_from(["sum", "max", "nansum", "any", "prod", "mean", "norm"]))
def test_lanes_and_threads_keep_bits(values: list[float], name: str) -> None:
    dense = np.array([*values, *[0.0] * (-len(values) % 3)]).reshape(-1, 3)
    found = []
    with tune("relations", chunk_elements=4):
        scan = scan_of(memory(dense))
        for threads in (1, 3):
            with settings.config(threads=threads):
                found.append(dense_of(reduce_scan(scan, name, axis=0)))
    assert found[0].tobytes() == found[1].tobytes()
    with strategy("single_lane"):
        one = dense_of(reduce_scan(scan, name, axis=0))
    np.testing.assert_allclose(found[0], one, rtol=1e-12)


@tune("relations", chunk_elements=50)
def test_many_elements_per_group_use_lanes() -> None:
    dense = np.random.default_rng(8).standard_normal((400, 3))
    scan = scan_of(memory(dense))
    fold = UfuncFold(np.add, np.dtype(np.float64), 0)
    assert num_lanes(scan.relation.nnz, 3, [fold]) == 4
    np.testing.assert_allclose(dense_of(reduce_scan(scan, "sum", axis=0)), dense.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(
        dense_of(reduce_scan(scan, "mean", axis=0, where="stored")), dense.mean(axis=0), rtol=1e-12
    )
    assert num_lanes(scan.relation.nnz, 3, [ExtremumFold(np.dtype(float), True)]) == 1


def test_long_work_shows_progress() -> None:
    A = sp.asarray(random_array((40, 40)))
    with observe("progress.start") as bars, tune("relations", chunk_elements=50), strategy("partitioned"):
        (A + A[::-1]).compute()
        A.sum(axis=0).compute()
        A.sum(axis=1).compute()
        (A * 2).count(axis=None)
    assert {"computing", "reducing", "counting"} <= {details["description"] for _, details in bars}


def test_view_of_a_map() -> None:
    dense = random_array((6, 7, 8), seed=9)
    found = make_map(np.absolute, [at(memory(dense), slice(1, 5), 2)])
    view = View.identity(found.schema.shape).then((slice(2, None), slice(None, None, 3))).permute((1, 0))
    block = engines.evaluate(scan_of(found, view))
    np.testing.assert_array_equal(to_dense(block, found.schema.with_view(view)), np.abs(dense)[1:5, 2][2:, ::3].T)


def test_largest_32_bit_coordinates() -> None:
    n = 2**31
    A = sp.from_coords([[0, 5, n - 1], [n - 1, 7, 5]], [1.0, 2.0, 3.0], shape=(n, n))
    found = (A + A.T).to_arrow().to_pydict()
    assert found == {"d0": [0, 5, 5, 7, n - 1, n - 1], "d1": [n - 1, 7, n - 1, 5, 0, 5], "value": [1, 2, 3, 2, 1, 3]}
    assert (A.T * 2)[n - 1, 0] == 2


def test_small_inputs_are_evaluated_at_once() -> None:
    dense, other = random_array((12, 9), seed=3), random_array((12, 9), seed=4)
    A, B = sp.asarray(dense), sp.asarray(other)
    cases: list[tuple[Any, NDArray[Any]]] = [
        (A, dense), (A.T, dense.T), (A[2:9, ::-1], dense[2:9, ::-1]), (A[[5, 1, 5]], dense[[5, 1, 5]]),
        (A[:, None, 3], dense[:, None, 3]), (A[4], dense[4]), (A.reshape(9, 12), dense.reshape(9, 12)),
        (sp.tril(A), np.tril(dense)), (sp.diagonal(A, 1), np.diagonal(dense, 1)),
        (sp.stack([A, B], axis=1), np.stack([dense, other], axis=1)),
        (sp.concat([A, B]), np.concatenate([dense, other])),
        (A * 2, dense * 2), (A * A, dense * dense), (A.T + B.T, (dense + other).T),
        (sp.tril(A.reshape(9, 12) * 3), np.tril(dense.reshape(9, 12) * 3)), (A[1:1], dense[1:1]),
    ]  # fmt: skip
    with observe("stream.scan") as scans:  # no chunks, no threads
        for found, wanted in cases:
            np.testing.assert_allclose(found.compute().to_numpy(), wanted)
        for i, j in np.ndindex(*dense.shape):
            assert A[i, j] == dense[i, j]
    assert not scans


def test_results_own_their_memory() -> None:
    A = sp.asarray(random_array((12, 9), seed=5))
    own = A.to_format("coo")
    for found in (A.compute(), A[2:].compute(), sp.concat([A]).compute(), A.reshape(9, 12).compute(), A.T.compute()):
        made = found.to_format("coo")
        assert not np.shares_memory(made.data, own.data)
        sources: list[Any] = [tensor.__sparrow_scan__().source for tensor in (found, A)]
        mine, base = ((*source.block.coords, source.block.values) for source in sources)
        assert not any(np.shares_memory(a, b) for a in mine for b in base)
