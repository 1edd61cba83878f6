"""Writes to tensors in memory and stored: puts, edits, resizes, appends."""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.core.indexing import Box, Selection
from sparrow.core.schema import Schema
from sparrow.errors import (
    ConflictError,
    DuplicateError,
    IndexingError,
    InvalidValueError,
    LabelError,
    NotFoundError,
    PerformanceWarning,
    ReadOnlyError,
    ShapeError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.kernels.coo import Block
from sparrow.relations.edits import apply_edit
from sparrow.tensor import editor
from sparrow.tensor.assignment import assignment_edit
from sparrow.tensor.matching import resolve_key
from sparrow.testing import observe, strategy, tune, tuning

Maker = Callable[..., sp.Tensor]


@pytest.fixture(params=["memory", "stored"], scope="module")
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Maker:
    def maker(what: Any, **save: Any) -> sp.Tensor:
        A = what if isinstance(what, sp.Tensor) else sp.asarray(np.asarray(what))
        if request.param == "memory":
            return A
        return A.save(tmp_path_factory.mktemp("tensor") / "A.sparrow", **save)

    return maker


# -- worked numbers ------------------------------------------------------------------------------

FIVE = np.zeros((5, 5), dtype=int)
FIVE[[0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4], [0, 1, 3, 0, 1, 2, 3, 4, 0, 2, 3, 1, 4]] = [
    1, -2, -3, -2, 5, 4, 6, 4, -4, 2, 7, 8, -5,
]  # fmt: skip
B4 = [[0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 0], [1, 0, 4, 0], [0, 0, 2, 1]]

# Start, then pairs (coordinate, value) put in turn, then the resulting coordinates and values.
PUTS: dict[str, tuple[Any, list[tuple[tuple[int, ...], int]], list[list[int]], list[int]]] = {
    "absent to zero is nothing": ([[1, 0, 2]], [((0, 1), 0)], [[0, 0], [0, 2]], [1, 2]),
    "zero removes": ([[1, 0, 2]], [((0, 0), 0)], [[0], [2]], [2]),
    "absent to non-zero inserts": ([[1, 0, 2]], [((0, 1), 3)], [[0, 0, 0], [0, 1, 2]], [1, 3, 2]),
    "replacing twice keeps nnz": ([[1, 0, 2]], [((0, 0), 5), ((0, 0), 6)], [[0, 0], [0, 2]], [6, 2]),
    "order of insertion does not matter": (
        np.eye(1, 36, dtype=int).reshape(4, 3, 3), [((2, 2, 2), 3), ((1, 1, 1), 2)],
        [[0, 1, 2], [0, 1, 2], [0, 1, 2]], [1, 2, 3],
    ),
    "values go with their coordinates": (
        np.zeros((2, 2, 2), int), [((1, 0, 0), 2), ((0, 1, 1), 1), ((0, 1, 0), 7), ((1, 1, 1), 3)],
        [[0, 0, 1, 1], [1, 1, 0, 1], [0, 1, 0, 1]], [7, 1, 2, 3],
    ),
    "insert inside a row": (
        FIVE, [((2, 1), 3)],
        [[0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4], [0, 1, 3, 0, 1, 1, 2, 3, 4, 0, 2, 3, 1, 4]],
        [1, -2, -3, -2, 5, 3, 4, 6, 4, -4, 2, 7, 8, -5],
    ),
    "replace inside a row": (
        FIVE, [((2, 2), 10)],
        [[0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4], [0, 1, 3, 0, 1, 2, 3, 4, 0, 2, 3, 1, 4]],
        [1, -2, -3, -2, 5, 10, 6, 4, -4, 2, 7, 8, -5],
    ),
    "insert into an empty row": (
        B4, [((2, 0), 9)], [[0, 1, 2, 3, 3, 4, 4], [1, 2, 0, 0, 2, 2, 3]], [2, 3, 9, 1, 4, 2, 1]
    ),
    "insert at the end of a row": (
        B4, [((3, 3), 9)], [[0, 1, 3, 3, 3, 4, 4], [1, 2, 0, 2, 3, 2, 3]], [2, 3, 1, 4, 9, 2, 1]
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", ["setitem", "put", "edit"])
@pytest.mark.parametrize("name", PUTS)
def test_put(make: Maker, name: str, how: str) -> None:
    start, puts, coords, values = PUTS[name]
    A = make(start)
    if how == "edit":
        with A.edit() as e:
            for cell, value in puts:
                e[cell] = value
    else:
        for cell, value in puts:
            if how == "put":
                A.put([[at] for at in cell], [value])
            else:
                A[cell] = value
    table = A.to_arrow()
    assert [table[name].to_pylist() for name in A.dims] == coords
    assert table["value"].to_pylist() == values
    assert A.nnz == len(values)


def test_write_through_new_axis(make: Maker) -> None:
    A = make([[[0, 2, 3], [4, 0, 5], [2, 8, 0]], [[0, 3, 7], [0, 0, 6], [0, 1, 4]]])
    view, sibling = A[None, 0, 1:3, 1:3], A[0]
    assert (A.nnz, view.to_numpy().tolist()) == (11, [[[0, 5], [8, 0]]])
    view[0, 0, 0] = 9
    assert (A[0, 1, 1], A.nnz, view.nnz, sibling.nnz) == (9, 12, 3, 7)
    view[0, 0, 1] = 0
    assert (A[0, 1, 2], A.nnz, view.nnz, sibling.nnz) == (0, 11, 2, 6)
    view.put([[0, 0], [1, -1], [1, 0]], [6, 0])
    assert sibling.to_numpy().tolist() == [[0, 2, 3], [4, 9, 0], [2, 0, 6]]
    view[:, ::-1, None][..., 0] = [[[1], [2]]]
    assert sibling.to_numpy().tolist() == [[0, 2, 3], [4, 2, 0], [2, 1, 6]]


def test_views_see_later_writes(make: Maker) -> None:
    A = make(sp.zeros((200, 200)))
    view = A[50:150, 50:150]
    i, j = np.divmod(np.arange(10_000), 100)
    A.put([i + 50, j + 50], np.arange(1.0, 10_001))
    assert view.nnz == 10_000
    assert view[99, 99] == 10_000


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ((), (3,)),
        ((), (4, 1)),
        ((), (1, 1, 1, 3)),
        ((slice(1, 3),), (1, 3)),
        ((0,), (1, 3)),
        ((), ()),
        (([0, 0],), (3,)),
    ],
)
def test_broadcasting(make: Maker, key: Any, shape: tuple[int, ...], sparse: bool) -> None:
    dense = np.arange(12).reshape(4, 3)
    values = np.arange(int(np.prod(shape))).reshape(shape) * 5
    A = make(dense)
    A[key] = sp.asarray(values) if sparse else values
    dense[key] = values
    assert np.array_equal(A.to_numpy(), dense)
    assert A.nnz == np.count_nonzero(dense)


def test_sparse_values_stay_sparse(make: Maker) -> None:
    A = make(sp.zeros((10**6, 10**6)))
    row = sp.from_coords([[5, 10**5]], [1.0, 2.0], shape=(10**6,))
    A[:1000] = row
    assert A.nnz == 2000
    A[3 : 10**6] = row[None] * 0
    assert A.nnz == 6
    A[...] = sp.from_coords([[0], [1]], [3.0], shape=(10**6, 10**6))
    assert (A.nnz, A[0, 1]) == (1, 3)
    with sp.config(memory_limit="100MB"), pytest.raises(TooLargeError, match="memory limit"):
        A[:] = 1 + row


@pytest.mark.parametrize("fill", [1.0, np.nan])
def test_other_fills(make: Maker, fill: float) -> None:
    A = make(sp.from_coords([[0], [1]], [5.0], shape=(2, 3), fill_value=fill))
    A[1] = [fill, 0, 2]
    assert A.nnz == 3
    np.testing.assert_array_equal(A.to_numpy(), [[fill, 5, fill], [fill, 0, 2]])
    A[:, :2] = fill
    assert A.nnz == 1
    A[0] = sp.from_coords([[2]], [7.0], shape=(3,), fill_value=fill)
    np.testing.assert_array_equal(A.to_numpy(), [[fill, fill, 7], [fill, fill, 2]])
    A[0] = sp.from_coords([[2]], [7.0], shape=(3,))
    np.testing.assert_array_equal(A.to_numpy(), [[0, 0, 7], [fill, fill, 2]])
    with pytest.raises(InvalidValueError, match="fill value must be"):
        A.append(sp.zeros((2, 3)))


# -- edits ---------------------------------------------------------------------------------------


def test_edit_single_commit(make: Maker) -> None:
    A = make(np.eye(4))
    view, before = A[1:, 1:], A.version
    with A.edit() as e:
        e[0] = 5
        e[0, 1] = 0
        e[:, 0] = 0
        e.put([[3, 3], [0, -1]], [7, 8])
        e[np.eye(4) > 0] = 1
        e[sp.asarray(np.eye(4) > 0)] = 2
        assert np.array_equal(A.to_numpy(), np.eye(4))
    assert A.to_numpy().tolist() == [[2, 0, 5, 5], [0, 2, 0, 0], [0, 0, 2, 0], [7, 0, 0, 2]]
    assert (A.nnz, view.nnz) == (7, 3)
    if before is not None:
        assert A.version == before + 1
        assert A.history()[0]["operation"] == "edit"
    with view.edit() as e:
        e[...] = 0
        e[0] = [1, 2, 3]
    assert A.to_numpy().tolist() == [[2, 0, 5, 5], [0, 1, 2, 3], [0, 0, 0, 0], [7, 0, 0, 0]]


def written(A: sp.Tensor, then: Callable[[Any], Any]) -> None:
    """Write all elements in an edit, and run an action in its block."""
    with A.edit() as e:
        e[...] = 5
        then(e)


def interrupt(e: Any) -> None:
    raise KeyboardInterrupt


def test_failed_edit_writes_nothing(make: Maker) -> None:
    A = make(np.eye(3))
    for bad, error in [
        (lambda e: e.put([[9], [0]], 1), IndexError),
        (lambda e: e.__setitem__((slice(None),), [1, 2]), ValueError),
        (lambda e: 1 / 0, ZeroDivisionError),
    ]:
        with pytest.raises(error):
            written(A, bad)
        assert np.array_equal(A.to_numpy(), np.eye(3))
    with pytest.raises(KeyboardInterrupt):
        written(A, interrupt)
    with A.edit():
        pass
    assert A.version in (None, 0)


def test_edit_is_write_only(make: Maker) -> None:
    A = make(np.eye(3))
    with A.edit() as e, pytest.raises(UnsupportedError, match="cannot be read"):
        e[0, 0] += 1
    with pytest.raises(InvalidValueError, match="not open"):
        e[0] = 1
    with pytest.raises(InvalidValueError, match="not open"):
        A.edit().put([[0], [0]], 1)
    with pytest.raises(ReadOnlyError):
        A[[0, 1]].edit()
    with pytest.raises(ReadOnlyError):
        (A + A).edit()
    with pytest.raises(ShapeError, match="resized from"):
        written(A, lambda e: A.resize(2, 2))
    assert A.to_numpy().tolist() == [[1, 0], [0, 1]]


def test_edit_reads_values_immediately(make: Maker) -> None:
    A = make([[1, 2], [3, 4]])
    with A.edit() as e:
        e[...] = A.T
        e[0] = A[1]
    assert A.to_numpy().tolist() == [[3, 4], [2, 4]]


def test_clear_huge_box(make: Maker) -> None:
    A = make(sp.zeros((100_000, 100_000, 100)))
    with A.edit() as e:
        e[0, 0, :] = 1
        e[:, :, ::2] = 0
        e[5, 5] = 2
        e[1:] = 0
        e[7, 7, 7] = 3
    assert A.nnz == 51
    A[...] = 0
    assert A.nnz == 0


def test_clear_dropped_if_fully_written(make: Maker) -> None:
    A = make(np.zeros((3, 3)))
    e = A.edit()
    with e:
        e[0] = [1, 0, 2]
        e[0, 0] = 0
        edit = e._merge()
    assert edit.clear == ()
    assert A.to_numpy().tolist() == [[0, 0, 2], [0, 0, 0], [0, 0, 0]]


@given(st.data(), st.integers(0, 2**16))
def test_edit_merges_exactly(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (3, 4)
    dense = rng.integers(-1, 2, shape)
    A = sp.asarray(dense)
    with strategy("clear_boxes"), A.edit() as e:
        for _ in range(data.draw(st.integers(0, 6))):
            (a, b), (c, d) = sorted(rng.integers(0, 4, 2)), sorted(rng.integers(0, 5, 2))
            key: Any = (slice(a, b, rng.integers(1, 3)), slice(c, d))
            key = data.draw(st.sampled_from([key, ([2, 0, 2],), (slice(None), [3, 1, 1]), np.ix_([1, 0], [0, 0, 3])]))
            value: Any = data.draw(st.sampled_from([0, 1, "some"]))
            if value == "some":
                value = rng.integers(-1, 2, dense[key].shape)
            dense[key] = value
            e[key] = value
        folded = e._merge()
    start = Block((np.zeros(0, int), np.zeros(0, int)), np.zeros(0, int))
    assert apply_edit(start, folded, Schema(shape, dtype=np.dtype(int))).count <= 12
    assert np.array_equal(A.to_numpy(), dense)


KEYS: dict[str, Any] = {
    "rows": [4, 1, 7],
    "rows twice": [4, 1, 4, 7, 7],
    "a mask of rows": np.arange(8) % 3 == 1,
    "columns": (slice(None), [5, 0, 5]),
    "some of some rows": ([6, 2], slice(1, None, 2)),
    "rows of columns": np.ix_([1, 5, 1], [2, 2, 0]),
    "pairs": ([1, 5, 1], [2, 2, 2]),
    "a mask": np.arange(48).reshape(8, 6) % 5 < 2,
    "rows of a column": ([3, 0, 3], 2),
    "new axes": (None, [3, 0], slice(None)),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
@pytest.mark.parametrize("cleared", [True, False])
def test_writes_through_lists_equal_numpy(make: Maker, key: Any, cleared: bool) -> None:
    rng = np.random.default_rng(0)
    start = rng.integers(-1, 2, (8, 6))
    shown = start[key].shape
    values = [0, 3, np.zeros(shown, int), rng.integers(-1, 2, shown), rng.integers(0, 2, shown[-1:]), start[key] * 2]
    for value in values:
        A, dense = make(start), start.copy()
        sizes = {"clear_box_max_elements": 0 if cleared else 1024}
        with tune("tensor", **sizes):
            A[key] = value
            dense[key] = value
            np.testing.assert_array_equal(A.to_numpy(), dense)
            if np.ndim(value):
                B = make(start)
                B[key] = sp.asarray(value)
                np.testing.assert_array_equal(B.to_numpy(), dense)


def test_writes_through_lists_cost_elements(make: Maker) -> None:
    W = make(sp.random((2000, 3000), nnz=4000, seed=1))
    before, rows = W.to_numpy(), np.arange(100, 1900, 3)
    mask = before > 0.5
    written: list[int] = []
    for key, value in (
        (rows, 0),
        (rows, sp.zeros((len(rows), 3000))),
        (np.isin(np.arange(2000), rows), 0),
        ((slice(None), rows), 0),
        (W.sum(axis=1) > 3, 0),
        (mask, 0),
        (np.ix_(rows, rows), 0),
    ):
        edit = assignment_edit(W._base.schema, W._view.then(resolve_key(key, W), "paired", W.dims), value)
        assert edit.upsert is not None
        written.append(edit.upsert.count)
        (box,) = edit.clear
        assert isinstance(box, Selection)
        assert box.size == np.zeros(W.shape, np.int8)[np.asarray(key) if isinstance(key, sp.Tensor) else key].size
    assert written == [0] * 7
    W[rows] *= 2
    before[rows] *= 2
    np.testing.assert_array_equal(W.to_numpy(), before)
    W[rows] = 0
    before[rows] = 0
    np.testing.assert_array_equal(W.to_numpy(), before)


def test_concurrent_writes_through_lists(tmp_path: Path) -> None:
    A = sp.random((5000, 10), nnz=5000, seed=1).save(tmp_path / "A")
    B = sp.open(tmp_path / "A")
    A[np.arange(0, 2000, 2)] = 0
    B[np.arange(3000, 5000, 2)] = 0  # of other rows: the commit of the other handle comes first
    assert B.sum(axis=1).to_numpy()[[0, 2, 3000, 3002]].tolist() == [0, 0, 0, 0]
    A.refresh()
    C = sp.open(tmp_path / "A")
    A[np.arange(0, 4000)] = 0
    with pytest.raises(ConflictError):
        C[np.arange(1, 4001, 2)] = 5


# -- shape ---------------------------------------------------------------------------------------


def test_resize(make: Maker) -> None:
    A = make(np.arange(12).reshape(3, 4))
    same, whole, turned, part, low = A[:], A[...], A.T, A[1:, 1:3], A[:2, 0]
    A.resize((5, 3))
    assert A.to_numpy().tolist() == [[0, 1, 2], [4, 5, 6], [8, 9, 10], [0, 0, 0], [0, 0, 0]]
    assert (A.nnz, same.shape, whole.shape, same.nnz) == (8, (5, 3), (5, 3), 8)
    assert part.to_numpy().tolist() == [[5, 6], [9, 10]]
    assert low.to_numpy().tolist() == [0, 4]
    assert "(d1: 4, d0: 3)" in repr(turned)
    for use in (turned.to_numpy, lambda: turned[0], lambda: turned.nnz, lambda: turned.__setitem__(0, 1)):
        with pytest.raises(ShapeError, match=r"coordinate 3 of dimension 'd1'.*resized from \(3, 4\) to \(5, 3\)"):
            use()
    part[1, 1] = 0
    edge = A[1:, 1:]
    A.resize(5, 5)
    A[:, 4] = 8
    assert (edge.to_numpy().tolist(), edge.nnz) == ([[5, 6], [9, 0], [0, 0], [0, 0]], 3)
    A.resize(5, 3)
    A[4, 1:] = 7
    assert A.nnz == 9
    assert (part.to_numpy().tolist(), part.nnz) == ([[5, 6], [9, 0]], 3)
    A.resize(3, 6)
    assert turned.to_numpy().tolist() == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [0, 0, 0]]
    assert A.shape == same.shape == (3, 6)
    A.resize(0, 6)
    assert (A.nnz, A.shape, same.to_numpy().shape) == (0, (0, 6), (0, 6))
    with pytest.raises(ShapeError, match="resized"):
        low.to_numpy()


def test_resize_huge(make: Maker) -> None:
    A = make(np.eye(3))
    A.resize(2**40, 3)
    A[2**39, 1] = 5
    assert (A.nnz, A[2**39, 1]) == (4, 5)
    A.resize((2, 2))
    assert A.to_numpy().tolist() == [[1, 0], [0, 1]]


def test_resize_errors(make: Maker) -> None:
    A = make(np.eye(3))
    shapes: list[Any] = [(3,), (3, 3, 3), (-1, 3), (2.5, 3), ("a", 3), (2**63, 3)]
    for shape in shapes:
        with pytest.raises(ShapeError):
            A.resize(shape)
    for view in (A[1:], A.T, A[None]):
        with pytest.raises(UnsupportedError, match="view"):
            view.resize(3, 3)
    for copy in (A[[0, 1]], A + A):
        with pytest.raises(ReadOnlyError):
            copy.resize(3, 3)
    assert A.version in (None, 0)


def test_resize_labelled_dimension(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("b\ta\t2\nc\tb\t3\na\tc\t1\n")
    stored = sp.ingest.edges(tmp_path / "g.txt", tmp_path / "g.sparrow")
    for A in (stored.compute(), stored):
        with pytest.raises(UnsupportedError, match="'src' has 3 labels"):
            A.resize(4, 3)
        A.resize(2, 3)
        assert A.labels("src").to_pylist() == ["a", "b"]
        assert A.sel(src="b", dst="a") == 2
        assert A.compute().labels("src").to_pylist() == ["a", "b"]
        with pytest.raises(KeyError):
            A.sel(src="c")
    assert stored.verify() == []
    stored.restore(0)
    assert stored.sel(src="c", dst="b") == 3


# -- append --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["sum", "last", "first", "min", "max"])
def test_append_streams_into_view(make: Maker, how: str) -> None:
    rng = np.random.default_rng(1)
    old, new = (rng.integers(-3, 4, (6, 7)) * (rng.random((6, 7)) < 0.6) for _ in "ab")
    A = make(np.pad(old, 1).T)
    with sp.config(memory_limit="1GB"), strategy("append_in_batches"), observe("tensor.append_in_batches") as batched:
        A[1:-1, 1:-1].T.append(sp.asarray(new), duplicates=how)
    assert len(batched) == (A.version is not None)  # tensors in memory are edited at once
    function: Any = {
        "sum": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "last": lambda a, b: b,
        "first": lambda a, b: a,
    }
    both = (old != 0) & (new != 0)
    assert np.array_equal(A.to_numpy(), np.pad(np.where(both, function[how](old, new), old + new), 1).T)
    assert A.version in (None, 1)


def test_append_to_itself(make: Maker) -> None:
    dense = np.arange(100).reshape(10, 10)
    A = make(dense)
    with sp.config(memory_limit="1GB"), strategy("append_in_batches"):
        A.append(A, duplicates="sum")
        with pytest.raises(DuplicateError, match=r"\(0, 1\)"):
            A.append(A[:].T)
    assert np.array_equal(A.to_numpy(), 2 * dense)


# -- versions ------------------------------------------------------------------------------------


def test_restore_and_compact(tmp_path: Path) -> None:
    A = sp.asarray(np.eye(3)).save(tmp_path / "A", orders=[(1, 0)])
    view = A[1:, :2]
    A[0, 1] = 5
    A.resize(4, 2)
    A.compact()
    A.compact("small")
    assert A.version == 3
    A.restore(1)
    assert A.to_numpy().tolist() == [[1, 5, 0], [0, 1, 0], [0, 0, 1]]
    assert view.to_numpy().tolist() == [[0, 1], [0, 0]]
    A.restore(0)
    assert np.array_equal(A.to_numpy(), np.eye(3))
    with pytest.raises(NotFoundError, match="no version 99"):
        A.restore(99)
    for readonly in (sp.open(tmp_path / "A", version=0), pickle.loads(pickle.dumps(A))):
        for write in (readonly.compact, lambda B=readonly: B.restore(0), lambda B=readonly: B.resize(1, 1)):
            with pytest.raises(ReadOnlyError):
                write()
    memory = sp.asarray(np.eye(3))
    memory.compact()
    with pytest.raises(UnsupportedError, match="save"):
        memory.restore(0)
    with pytest.raises(InvalidValueError, match="'fast', 'small' or 'portable'"):
        memory.compact("tiny")  # type: ignore[arg-type]


def test_two_sessions(tmp_path: Path) -> None:
    A = sp.asarray(np.eye(3)).save(tmp_path / "A")
    B = sp.open(tmp_path / "A")
    view = B[:]
    A.resize(5, 5)
    A[4, 4] = 7
    with pytest.raises(ConflictError, match="shape"):
        B.resize(2, 2)
    assert B.shape == view.shape == (3, 3)
    B.refresh()
    assert (B.shape, view.shape, view[4, 4]) == ((5, 5), (5, 5), 7)


# -- warnings and errors --------------------------------------------------------------------


def test_many_small_commits_warn(make: Maker) -> None:
    assert tuning("tensor").small_commits_before_warning == 100
    with tune("tensor", small_commits_before_warning=20):  # each commit takes a while
        _check_small_commit_warnings(make)


def _check_small_commit_warnings(make: Maker) -> None:
    A = make(sp.zeros((500,)))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for k in range(25):
            A[k] = 1
    assert [(w.category, "A.put" in str(w.message), "A.edit" in str(w.message)) for w in found] == [
        (PerformanceWarning, True, True)
    ]
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(10):
            A[k : k + 2] = 3
        B = make(sp.zeros((500,)))
        for k in range(19):
            B.put([[k]], 1)
        with B.edit() as e:
            for k in range(200):
                e[k] = 1
    with pytest.warns(PerformanceWarning) as again:
        B.put([[0]], 2)
    assert again[0].filename == __file__


def test_put_documents_cost() -> None:
    text = inspect.getdoc(sp.Tensor.put)
    assert text is not None
    assert "cost" in text
    assert "every file that holds one of the elements" in text


BAD_PUTS: list[tuple[Any, Any, type[Exception], str]] = [
    ([[0]], 1, ShapeError, r"\(ndim, n\) = \(2, n\), got \(1, 1\)"),
    ([[0, 1], [1, 1], [2, 2]], [1, 2, 3], ShapeError, r"got \(3, 2\): it looks like \(n, ndim\), pass its transpose"),
    ([[0, 1], [1]], 1, ShapeError, r"\(2,\), \(1,\)"),
    (np.zeros((2, 1, 1), int), 1, ShapeError, r"\(1, 1\)"),
    (5, 1, ShapeError, r"must have shape \(ndim, n\)"),
    ([[0, 1], [1, 1]], [1, 2, 3], ShapeError, r"have shape \(2,\), got shape \(3,\)"),
    ([[0, 1], [1, 1]], [[1, 2]], ShapeError, r"have shape \(2,\), got shape \(1, 2\)"),
    ([[0], [1]], [[1, 2], [3]], ShapeError, "ragged"),
    ([[0], [3]], 1, IndexingError, "index 3 is out of range for dimension 'd1' of size 3"),
    ([[0, -4], [0, 0]], 1, IndexingError, r"index -4 .* 'd0' of size 3 \(column 1"),
    ([[0.5], [1]], 1, IndexingError, "integers, got float64"),
    ([[True], [False]], 1, IndexingError, "integers, got bool"),
    ([["a"], [0]], 1, IndexingError, "coords must be integers"),
    ([[0], [0]], "text", UnsupportedError, "str values"),
    ([[0], [0]], None, UnsupportedError, "NoneType"),
    ([[0], [0]], 1j, UnsupportedError, "real part"),
]


@pytest.mark.parametrize(("coords", "values", "error", "match"), BAD_PUTS)
def test_put_errors(make: Maker, coords: Any, values: Any, error: type[Exception], match: str) -> None:
    A = make(np.eye(3))
    with pytest.raises(error, match=match):
        A.put(coords, values)
    with pytest.raises(error, match=match):
        written(A, lambda e: e.put(coords, values))
    assert np.array_equal(A.to_numpy(), np.eye(3))
    assert A.version in (None, 0)


@pytest.mark.parametrize(
    ("key", "value", "error", "match"),
    [
        ((slice(None),), [1, 2], ShapeError, r"\(2,\) do not broadcast .* \(3, 3\)"),
        ((0,), np.ones((2, 3)), ShapeError, r"\(2, 3\) do not broadcast .* \(3,\)"),
        (([0, 1],), np.ones((3, 3)), ShapeError, r"\(3, 3\) do not broadcast .* \(2, 3\)"),
        ((0, 0), [1, 2], ShapeError, r"\(2,\) do not broadcast .* \(\)"),
        ((slice(None),), [[1, 2], [3]], ShapeError, "ragged"),
        ((3,), 1, IndexingError, "3"),
        (([0, 3],), 1, IndexingError, "3"),
        ((0, 0, 0), 1, IndexingError, "too many"),
        ((0,), "text", UnsupportedError, "str"),
        ((0,), 1 + 1j, UnsupportedError, "complex128"),
        ((slice(None),), "sparse", ShapeError, r"\(2,\) do not broadcast .* \(3, 3\)"),
    ],
)
def test_assignment_errors(make: Maker, key: Any, value: Any, error: type[Exception], match: str) -> None:
    A = make(np.eye(3))
    with pytest.raises(error, match=match):
        A[key] = sp.asarray([1.0, 2.0]) if isinstance(value, str) and value == "sparse" else value
    assert np.array_equal(A.to_numpy(), np.eye(3))
    assert A.version in (None, 0)


def test_out_of_range_numbers(make: Maker) -> None:
    A = make(np.zeros(3, dtype=np.int8))
    with pytest.raises(InvalidValueError, match="300"):
        A[0] = 300
    with pytest.raises(ValueError, match="nan"):
        A[0] = float("nan")
    A[0] = 1.7
    A[1] = True
    assert A.to_numpy().tolist() == [1, 1, 0]


def test_zero_dimensions(make: Maker) -> None:
    A = make(np.array(0.0))
    A[()] = 5
    assert A.nnz == 1
    A[...] = 0
    assert A.nnz == 0
    with A.edit() as e:
        e[...] = 3
        e[()] = 4
    assert A.to_numpy() == 4
    A.append(np.array(2.0), duplicates="sum")
    assert A.to_numpy() == 6
    A.resize(())
    A.compact()
    assert A.nnz == 1


def blocks_of(count: int, width: int) -> Iterator[Block]:
    for start in range(count):
        yield Block((np.full(width, start, np.int32), np.arange(width, dtype=np.int32)), np.full(width, 1.5))


def test_append_claims_its_view(tmp_path: Path) -> None:
    A = sp.zeros((50, 50)).save(tmp_path / "A")
    handle = A._stored_handle()
    editor.append(handle, A._view, lambda: blocks_of(50, 50), "error")
    assert A.nnz == 2500
    with sp.config(memory_limit="1GB"), tune("tensor", append_memory_parts=10**6):
        editor.append(handle, A._view, lambda: blocks_of(50, 50), "sum")
    assert (A.version, A[49, 49]) == (2, 3.0)
    notes = handle._log.commits(2)[0].notes
    assert notes is not None
    assert notes["claim"] == {
        "ranges": [],
        "boxes": [[[r.start, r.stop, r.step] for r in Box.from_shape((50, 50)).ranges]],
    }


def test_fill_long_rows() -> None:
    n = 2**40
    A = sp.from_coords([[1, 5, 5], [2, 5, n - 1]], [1.0, 2.0, 3.0], shape=(n, n))
    A[5, :] = 0
    assert A.nnz == 1
    A[:, 2:] = 0
    assert A.nnz == 0


def test_large_dense_writes_are_refused(tmp_path: Path) -> None:
    A = sp.random((4000, 400), nnz=4000, seed=0).save(tmp_path / "A")
    rows, before = np.arange(0, 4000, 2), A.to_numpy()
    nbytes = 2000 * 400 * 24
    with sp.config(memory_limit=4 * nbytes):
        with pytest.raises(TooLargeError, match=r"800000 elements to write.* fewer rows"):
            A[rows] = 7.0
        with pytest.raises(TooLargeError, match=r"800000 elements to write.* fewer rows"):
            A[::2] = 7.0
        np.testing.assert_array_equal(A.to_numpy(), before)
        A[rows[:100]] = 7.0
        A[rows[100:]] = 0
    before[rows[:100]], before[rows[100:]] = 7, 0
    np.testing.assert_array_equal(A.to_numpy(), before)


# -- appended coordinates and columns -------------------------------------------------------------------


@pytest.mark.parametrize("values", [[5], np.array([5]), None, 5])
def test_append_of_coordinates_names_the_way(values: Any) -> None:
    A = sp.zeros((3, 3), dtype="int64")
    way = r"duplicates must be one of 'error', .*, got .*; .*A.append\(sp.from_coords\(coords, values, A.shape\)\)"
    with pytest.raises(InvalidValueError, match=way):
        A.append([[1], [2]], values)
    A.append(sp.from_coords([[1], [2]], [5], A.shape))
    assert A[1, 2] == 5


@pytest.mark.parametrize("make", [list, np.array, pa.array, pl.Series])
def test_append_takes_a_dictionary_of_columns(make: Any) -> None:
    A = sp.from_coords([[0], [0]], [1], dims=("user", "film"), labels={"user": ["ann"], "film": ["x"]})
    A.append({"film": make(["y", "x"]), "user": make(["ann", "bob"]), "value": make([3, 4])})
    users, films = A.labels("user"), A.labels("film")
    assert users is not None
    assert films is not None
    assert (users.to_pylist(), films.to_pylist()) == (["ann", "bob"], ["x", "y"])
    assert A.to_numpy().tolist() == [[1, 3], [4, 0]]


def test_append_of_bad_columns() -> None:
    A = sp.from_coords([[0], [0]], [1], dims=("user", "film"))
    with pytest.raises(ShapeError, match="columns must be of one length, got 'user' 2, 'film' 1"):
        A.append({"user": [0, 1], "film": [0], "value": [3, 4]})
    with pytest.raises(UnsupportedError, match="column 'user' must be a list of one type"):
        A.append({"user": [0, "x"], "film": [0, 1], "value": [3, 4]})
    with pytest.raises(LabelError, match="no column 'film'"):
        A.append({"user": [0], "value": [3]})
    assert A.nnz == 1


def test_append_without_names_tells_of_coords(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("0,1,5\n")
    A = sp.from_coords([[0], [0]], [1], shape=(2, 2), dims=("user", "film"))
    with pytest.raises(LabelError, match=r"no column 'user' .*: pass coords= .* coords=\['c0', 'c1'\]"):
        A.append(tmp_path / "new.csv", header=False)
    A.append(tmp_path / "new.csv", header=False, coords=["c0", "c1"])
    assert A[0, 1] == 5
