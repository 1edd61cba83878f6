"""Manipulation functions against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import ReadOnlyError, ShapeError, TooLargeError, UnsupportedError
from sparrow.testing import strategy, tune
from tests.tensor.test_arithmetic import Maker, agree, make, some

__all__ = ["make"]

SEEDS = st.integers(0, 2**16)
SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Any:
    with tune("stream", partition_rows=3):
        yield


@given(st.data(), SHAPES, SEEDS)
def test_concat_and_stack(make: Maker, data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    other = list(shape)
    other[axis] = data.draw(st.integers(0, 3))
    a, b, c = some(shape, seed), some(tuple(other), seed + 1, np.float32), some(shape, seed + 2)
    agree(sp.concat([make(a), make(b), c], axis), np.concatenate([a, b, c], axis))
    agree(sp.stack([make(a), make(c)], axis), np.stack([a, c], axis))


@given(st.data(), SHAPES, SEEDS)
def test_reshape(make: Maker, data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    a = some(shape, seed)
    A = make(a)
    size = a.size
    first = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])) if size else 0
    wanted = (first, size // first) if size else (0, 3)
    agree(sp.reshape(A, wanted), a.reshape(wanted))
    agree(sp.reshape(A, size), a.reshape(size))
    agree(sp.reshape(sp.reshape(A, *wanted)[::-1], shape), a.reshape(wanted)[::-1].reshape(shape))
    if size:
        agree(sp.reshape(A, (-1, first)), a.reshape(-1, first))
        agree(sp.reshape(A[(slice(None, 1),) * a.ndim], ()), a[(slice(None, 1),) * a.ndim].reshape(()))


@given(st.data(), SHAPES, SEEDS)
def test_views(make: Maker, data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    a = some(shape, seed)
    A = make(a)
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    agree(sp.flip(A), np.flip(a))
    agree(sp.flip(A, axis), np.flip(a, axis))
    agree(sp.expand_dims(A, axis), np.expand_dims(a, axis))
    agree(sp.squeeze(A), a.squeeze())
    agree(sp.moveaxis(A, axis, 0), np.moveaxis(a, axis, 0))
    for found, part in zip(sp.split(A, [1, 3], axis), np.split(a, [1, 3], axis), strict=True):
        agree(found, part)
    agree(sp.repeat(A, 2, axis), np.repeat(a, 2, axis))


@given(st.data(), SHAPES, SEEDS)
def test_roll_and_tile(make: Maker, data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    a = some(shape, seed)
    A = make(a)
    shift, axis = data.draw(st.integers(-6, 6)), data.draw(st.integers(-a.ndim, a.ndim - 1))
    agree(sp.roll(A, shift, axis), np.roll(a, shift, axis))
    agree(sp.roll(A, shift), np.roll(a, shift))
    times = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))
    agree(sp.tile(A, times), np.tile(a, times))


@given(st.tuples(st.integers(0, 5), st.integers(0, 5)), st.integers(-6, 6), SEEDS)
def test_triangles_and_diagonals(make: Maker, shape: tuple[int, int], k: int, seed: int) -> None:
    a = some(shape, seed)
    A = make(a)
    agree(sp.tril(A, k), np.tril(a, k))
    agree(sp.triu(A, k), np.triu(a, k))
    agree(sp.diagonal(A, k), np.diagonal(a, k))
    agree(sp.diagonal(A.T, k), np.diagonal(a.T, k))


def test_elements_far_along_long_axis(tmp_path: Path) -> None:
    places, values = [[2**33, 5, 2**33 + 3], [0, 5, 2]], [1.0, 2.0, 3.0]
    held = sp.from_coords(places, values, shape=(2**40, 10))
    for tall in (held, held.save(tmp_path / "tall")):
        first, third = [1.0] + [0.0] * 9, [0.0, 0.0, 3.0] + [0.0] * 7
        np.testing.assert_array_equal(sp.diagonal(tall, offset=-(2**33)).to_numpy(), first)
        np.testing.assert_array_equal(sp.diagonal(tall, offset=-(2**33) - 1).to_numpy(), third)
        np.testing.assert_array_equal(sp.diagonal(tall.T, offset=2**33).to_numpy(), first)
        flat, start = sp.reshape(tall, -1), 10 * 2**33
        np.testing.assert_array_equal(flat[start : start + 10].to_numpy(), first)
        np.testing.assert_array_equal(flat[start + 30 : start + 40].to_numpy(), third)
        assert flat[start + 32] == 3.0
        assert not sp.reshape(tall, (2**39, 20))[2**36 : 2**36 + 2].nnz


@given(st.data(), SHAPES, SEEDS)
def test_broadcast_to(make: Maker, data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    shape = tuple(data.draw(st.sampled_from([1, n])) for n in shape)
    target = (data.draw(st.integers(0, 3)), *(data.draw(st.integers(1, 3)) if n == 1 else n for n in shape))
    a = some(shape, seed)
    A, expected = sp.broadcast_to(make(a), target), np.broadcast_to(a, target)
    agree(A, expected)
    assert A.nnz == np.count_nonzero(expected)
    for engine in ("stream", "duckdb"):
        assert np.array_equal(A.compute(engine).to_numpy(), expected)
        if len(target) == 2:
            x = np.arange(1.0, target[1] + 1)
            np.testing.assert_allclose(sp.matmul(A, x, engine=engine), expected @ x)
            np.testing.assert_allclose(
                sp.matmul(A.T, np.ones(target[0]), engine=engine), expected.T @ np.ones(target[0])
            )
    agree(A[::-1, 1:], expected[::-1, 1:])
    if expected.size > a.size:
        with pytest.raises(ValueError, match="read-only"):
            A[...] = 1


@given(SHAPES, SEEDS)
def test_nonzero_and_unique(make: Maker, shape: tuple[int, ...], seed: int) -> None:
    a = some(shape, seed)
    for found, expected in zip(sp.nonzero(make(a)), a.nonzero(), strict=True):
        assert np.array_equal(found, expected)
    for found, expected in zip(sp.nonzero(make(a) + 1), (a + 1).nonzero(), strict=True):
        assert np.array_equal(found, expected)
    assert np.array_equal(sp.unique(make(a)), np.unique(a))


@given(st.data(), st.lists(st.integers(0, 4), min_size=2, max_size=3).map(tuple), SEEDS)
@settings(max_examples=15)
def test_multiple_axes(make: Maker, data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    a = some(shape, seed)
    A = make(a)
    agree(sp.concat([A, a[::-1]], None), np.concatenate([a, a[::-1]], None))
    agree(sp.roll(A, (1, -2), (0, -1)), np.roll(a, (1, -2), (0, -1)))
    agree(sp.roll(A, 2, (0, 1, 0)), np.roll(a, 2, (0, 1, 0)))
    agree(sp.moveaxis(A, (0, 1), (-1, 0)), np.moveaxis(a, (0, 1), (-1, 0)))
    agree(sp.flip(A, (0, 1)), np.flip(a, (0, 1)))
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    counts = data.draw(st.lists(st.integers(0, 3), min_size=shape[axis], max_size=shape[axis]))
    agree(sp.repeat(A, counts, axis), np.repeat(a, np.array(counts, int), axis))
    agree(sp.repeat(A, 2), np.repeat(a, 2))


def test_kron(make: Maker) -> None:
    a, b = some((2, 3), 1), some((3, 2), 2)
    agree(sp.kron(make(a), b), np.kron(a, b))
    agree(sp.kron(make(a[0]), make(b.astype("int8"))), np.kron(a[0], b.astype("int8")))
    agree(np.kron(b, sp.stack([make(a), make(a * 2)])), np.kron(b, np.stack([a, a * 2])))
    agree(sp.kron(make(a), 3), np.kron(a, 3))
    agree(sp.kron(make(a > 0), b > 0), np.kron(a > 0, b > 0))


def test_reshape_huge_tensor() -> None:
    n = 2**40
    A = sp.from_coords([[3, n - 1], [5, n - 1]], [1.0, 2.0], shape=(n, n))
    B = sp.reshape(A, (2 * n, n // 2))
    assert B.to_arrow().to_pydict() == {"d0": [6, 2 * n - 1], "d1": [5, n // 2 - 1], "value": [1.0, 2.0]}
    assert sp.reshape(B, (n, n))[n - 1, n - 1] == 2.0


def test_shape_mismatches_raise(make: Maker) -> None:
    A = make(some((2, 3), 1))
    for call in (
        lambda: sp.reshape(A, (4, 2)),
        lambda: sp.reshape(A, (-1, 4)),
        lambda: sp.concat([A, A[:, 1:]]),
        lambda: sp.concat([]),
        lambda: sp.stack([A, A[1:]]),
        lambda: sp.split(A, 2, 1),
        lambda: sp.squeeze(A, 0),
        lambda: sp.flip(A, 2),
        lambda: sp.broadcast_to(A, (3, 3)),
        lambda: sp.tril(A[0]),
        lambda: sp.diagonal(A[0]),
    ):
        with pytest.raises(ShapeError):
            call()
    with pytest.raises(UnsupportedError, match="fill"):
        sp.concat([A, A + 1])
    with pytest.raises(UnsupportedError, match="absent elements of the left operand are 1"):
        sp.kron(A + 1, A)
    with pytest.raises(UnsupportedError, match="dense"):
        sp.triu(A + 1)


def test_numpy_argument_names() -> None:
    a = np.array([[0, 2, 0], [3, 0, -1]])
    A = sp.asarray(a)
    np.testing.assert_array_equal(sp.tile(A, reps=(2, 1)).to_numpy(), np.tile(a, (2, 1)))
    np.testing.assert_array_equal(np.asarray(np.tile(A, reps=(2, 1))), np.tile(a, (2, 1)))
    np.testing.assert_array_equal(sp.repeat(A, repeats=2, axis=0).to_numpy(), np.repeat(a, 2, 0))
    assert [part.shape for part in sp.split(A, indices_or_sections=[1], axis=1)] == [(2, 1), (2, 2)]
    np.testing.assert_array_equal(np.asarray(np.swapaxes(A, axis1=0, axis2=1)), a.T)
    np.testing.assert_array_equal(sp.kron(a=A, b=A).to_numpy(), np.kron(a, a))


def test_slice_of_large_result(tmp_path: Path) -> None:
    n, height = 20_000, 40
    at = np.arange(n * height)
    A = sp.from_coords([at // n, at % n], np.ones(len(at)), shape=(height, n)).save(tmp_path / "A")
    with sp.config(memory_limit=10_000_000):
        for shape in [(1, height, n), (5, n * height // 10, 2), (2, n * height // 2)]:
            found = A.reshape(shape)
            assert found.nnz == A.nnz
            np.testing.assert_array_equal(found[-1].reshape(-1)[-5:].to_numpy(), np.ones(5))
        saved = found.save(tmp_path / "B")
    assert saved.verify() == []
    assert (saved.to_numpy() == 1).all()


def test_small_partitions_of_long_dimensions() -> None:
    rows = np.arange(600_000)
    A = sp.from_coords([rows * 6, rows % 10], rows + 1, shape=(2**22, 2**10))
    places = rows * 6 * 2**10 + rows % 10
    for shape in [(1, 2**32), (2, 2**31), (2, 1, 2**31)]:
        table = A.reshape(shape).to_arrow()
        leading, last = (table.column(axis).to_numpy().astype(np.int64) for axis in (0, len(shape) - 1))
        np.testing.assert_array_equal(leading * shape[-1] + last, places)


@pytest.mark.parametrize("offset", [-2, 0, 1, 9])
def test_long_diagonals_cost_nnz(offset: int) -> None:
    dense = np.arange(120).reshape(3, 4, 2, 5) % 3
    with strategy("diagonal_by_einsum"):
        found = sp.diagonal(sp.asarray(dense), offset=offset, axis1=1, axis2=3)
    np.testing.assert_array_equal(found.to_numpy(), np.diagonal(dense, offset, 1, 3))
    n = 2**40
    huge = sp.from_coords([[5, n - 1], [1, 0], [5 + offset, n - 2]], [2, 3], shape=(n, 2, n))
    assert [c.tolist() for c in sp.diagonal(huge, offset=offset, axis1=0, axis2=2).to_format("coo").coords] == [
        [1], [5 + min(offset, 0)]
    ]  # fmt: skip
    with pytest.raises(TooLargeError, match="the positions of"):
        sp.diagonal(sp.exp(huge), axis1=0, axis2=2)


def test_single_copy_is_a_copy(tmp_path: Path) -> None:
    A = sp.from_coords([[0, 1]], [4, 3], dims=("user",), labels={"user": ["ann", "bob"]}).save(tmp_path / "A")
    copies: list[Any] = [sp.tile(A, 1), sp.tile(A, (1, 1)), np.pad(A, 0)]
    for copied in copies:
        with pytest.raises(ReadOnlyError):
            copied[..., 0] = 9
        assert copied.labels("user").to_pylist() == ["ann", "bob"]
    assert A.to_numpy().tolist() == [4, 3]
