"""NumPy's functions: the same call on arrays and tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sparrow as sp
from sparrow.errors import (
    IndexingError,
    InvalidValueError,
    ShapeError,
    SingularError,
    SparrowError,
    TooLargeError,
    UnsupportedError,
)

a = np.array([[0.0, 2, 0, 5], [3, 0, -1, 0], [0, 0, 0, 7]])
b = np.stack([a, a[::-1] * 2])
SPECIAL = np.array([[0.0, np.nan, 2, np.inf], [-np.inf, 0, 1, 3]])
HALF = np.where(a == 0, 0.5, a)
LAZY: list[Callable[[Any], Any]] = [
    np.ravel,
    lambda x: np.ravel(x, "F"),
    lambda x: np.ravel(x, order="A"),
    lambda x: np.reshape(x, (-1, 2), order="F"),
    lambda x: np.reshape(x, shape=(2, 6), copy=True),
    lambda x: np.amax(x, 0),
    lambda x: np.amin(x, axis=1, keepdims=True),
    lambda x: np.vstack([x, x[0], x]),
    lambda x: np.hstack([x, x]),
    lambda x: np.hstack([x[0], x[1]]),
    lambda x: np.dstack([x, x]),
    lambda x: np.dstack([x[0], x[0]]),
    lambda x: np.column_stack([x, x[:, 0]]),
    lambda x: np.append(x, x[:1], axis=0),
    lambda x: np.append(x, x[0]),
    lambda x: np.array_split(x, 3, axis=1),
    lambda x: np.array_split(x, 5),
    lambda x: np.array_split(x, [1, 2]),
    np.fliplr,
    np.flipud,
    *(lambda x, k=k: np.rot90(x, k) for k in range(-1, 5)),
    lambda x: np.rot90(x, axes=(1, 0)),
    np.diag,
    lambda x: np.diag(x, -1),
    lambda x: np.diag(x[1]),
    lambda x: np.diag(x[1], 2),
    lambda x: np.diag(x[1], -1),
    lambda x: np.zeros_like(np.empty_like(x)),
    np.copy,
    lambda x: np.isclose(x, x + 1e-9),
    lambda x: np.isclose(x, 2.0, atol=1),
    np.atleast_1d,
    np.atleast_2d,
    np.atleast_3d,
    lambda x: np.atleast_3d(x[0], x[:2]),
    lambda x: np.broadcast_arrays(x, x[:1]),
    np.nan_to_num,
    np.ptp,
    lambda x: np.ptp(x, axis=0),
    np.average,
    lambda x: np.average(x, axis=0),
    lambda x: np.average(x, axis=1, weights=abs(x) + 1, keepdims=True),
    lambda x: np.average(x, axis=0, weights=[1, 2, 3], returned=True),
    lambda x: np.average(x, returned=True),
    lambda x: np.average(np.astype(x, np.float32), returned=True),
    lambda x: np.var(x, 0, np.complex128),
    lambda x: np.average(x, axis=0, returned=True),
    lambda x: np.average(x, axis=(1, 0), weights=np.arange(12).reshape(4, 3)),
    lambda x: np.select([x > 2, x < 0], [x, x * 2]),
    lambda x: np.select([x > 2], [0], default=1.5),
    lambda x: np.select([x > 2, x < 0], [np.astype(x, np.float32), 7], 3),
    lambda x: np.compress([True, False, True], x, axis=0),
    lambda x: np.compress([False, True, True], x),
    lambda x: np.compress(x[0] > 0, x, axis=1),
    lambda x: np.pad(x, 1, constant_values=x[0, 0]),
    lambda x: np.pad(x, ((1, 0), (0, 2)), "edge"),
    lambda x: np.pad(x, (1, 2), mode="reflect"),
    lambda x: np.pad(x, 2, mode="symmetric"),
    lambda x: np.pad(x, 2, mode="wrap"),
    lambda x: np.diff(x, axis=0),
    lambda x: np.diff(x, n=2),
    lambda x: np.isin(x, [0, 7]),
    lambda x: np.isin(x, [0, 7], invert=True),
    np.median,
    lambda x: np.median(x, axis=0),
    lambda x: np.median(x, axis=1, keepdims=True),
    lambda x: np.quantile(x, 0.3, axis=1),
    lambda x: np.quantile(x, [0, 0.25, 1], axis=0, keepdims=True),
    lambda x: np.quantile(x, [[0.1, 0.9]]),
    lambda x: np.percentile(x, 60, axis=(0, 1)),
    lambda x: np.percentile(x, [5, 95], axis=-1),
    lambda x: np.percentile(np.astype(x, np.float32), [25, 50]),
    lambda x: np.quantile(np.astype(x, np.float32), [0, 1], axis=0),
    lambda x: np.quantile(np.astype(x, np.float32), np.float64(0.5), axis=0),
    lambda x: np.percentile(np.astype(x, np.float32), 50, axis=0),
    np.trace,
    lambda x: np.diagonal(x, 1),
    lambda x: np.diagonal(x, 1, 1, 0),
    lambda x: np.diagonal(x, offset=-1, axis1=-1, axis2=0),
    lambda x: np.trace(x, 1, 1, 0),
    lambda x: np.take_along_axis(x, np.array([[1], [0], [2]]), 1),
    lambda x: np.expand_dims(x, (0, -1)),
    lambda x: np.clip(x, None, 1),
    lambda x: np.clip(x, min=0),
    lambda x: np.clip(x, 0, 1),
    lambda x: np.dot(np.astype(x, np.int8), 2),
    lambda x: np.inner(3, np.astype(x, np.uint8)),
    lambda x: np.clip(x, x[0, 0, ...], 1),
    lambda x: np.clip(x, 0, x.max(keepdims=True).reshape(())),
    lambda x: np.interp(x, [-1, 0, 4], [5, 2, 3]),
    lambda x: np.interp(x, [1, 2], [1.5, 2], left=-1, right=9),
    lambda x: np.outer(x, x[0]),
    lambda x: np.outer(x[1], [1, 2]),
    lambda x: np.concatenate([x, x[:1]], dtype=np.float32),
    lambda x: np.concatenate([x, x], axis=1, dtype=int, casting="unsafe"),
    lambda x: np.stack([x, x], axis=-1, dtype=np.complex64),
    lambda x: np.ones_like(x, shape=(2, 1), order="C"),
    lambda x: np.full_like(x, 3, dtype=int, subok=False),
    lambda x: np.zeros_like(x, shape=()),
    lambda x: np.concatenate([x, a]),
    lambda x: np.stack([a.astype(int), x], axis=1),
    lambda x: np.vstack([a[0], x]),
    lambda x: np.hstack([x, a[:, :1]]),
    lambda x: np.column_stack([a[:, 0], x]),
    lambda x: np.append(x, [[1.0]]),
    lambda x: np.concatenate([np.zeros_like(x)[:0], x]),
    lambda x: np.pad(x, 1),
    lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=7),
    lambda x: np.around(x, 1),
    np.angle,
    lambda x: np.angle(x * 1j, deg=True),
    lambda x: np.block([[x, a], [np.ones((1, 8))]]),
    lambda x: np.block([x[0], 3]),
    np.block,
    lambda x: np.delete(x, 1, 0),
    lambda x: np.delete(x, [0, -1], axis=1),
    lambda x: np.delete(x, slice(2, 5)),
    lambda x: np.diagflat(x[:2]),
    lambda x: np.digitize(x, [-1, 0, 3]),
    lambda x: np.digitize(x, [3, 0, -1], right=True),
    lambda x: np.extract(a > 0, x),
    lambda x: np.extract(x > 0, x),
    np.fix,
    lambda x: np.hsplit(x, 2),
    lambda x: np.hsplit(x[0], [1]),
    lambda x: np.vsplit(x, 3),
    lambda x: np.dsplit(x[None], [1, 3]),
    np.iscomplex,
    lambda x: np.isreal(x + 1j * x),
    lambda x: np.isposinf(np.where(x > 2, np.inf, x)),
    np.isneginf,
    lambda x: np.rollaxis(x[None], 2),
    lambda x: np.rollaxis(x[None], 0, 3),
    lambda x: np.take(x, [5, -9], 1, mode="clip"),
    lambda x: np.take(x, [17, -9], mode="wrap"),
    lambda x: np.fft.fftshift(x, 1),
    lambda x: np.median(x > 1, axis=0),
]
AT_ONCE: list[Callable[[Any], Any]] = [
    np.argwhere,
    np.flatnonzero,
    lambda x: np.allclose(x, x + 1e-9),
    lambda x: np.allclose(x, 0),
    lambda x: np.average(x, 1, weights=[1, 2, 3, 4]),
    lambda x: (x.item(1, 2), x.item((-1, 0)), x.item(-2), x[0, 0, ...].item()),
    np.histogram,
    lambda x: np.histogram(x, 4, range=(0, 5)),
    lambda x: np.histogram(x, [-2, 0, 1, 8], density=True),
    lambda x: np.bincount(np.astype(abs(x[0]), int)),
    lambda x: np.bincount(np.astype(abs(x[0]), int), minlength=9),
    np.argsort,
    lambda x: np.argsort(x, axis=None, kind="stable"),
    lambda x: np.argsort(x, 0, stable=True),
    lambda x: np.searchsorted(np.sort(x[0]), [0, 3]),
    lambda x: np.searchsorted(np.sort(x[0]), x, side="right"),
    lambda x: np.size(x, (0, 1)),
    lambda x: np.size(x, axis=-1),
    lambda x: np.result_type(x, np.int8),
    lambda x: np.result_type(x, 1),
    lambda x: np.can_cast(x.dtype, np.float32),
    lambda x: np.can_cast(x, np.float32, "same_kind") if isinstance(x, sp.Tensor) else True,
    np.iscomplexobj,
    np.isrealobj,
    lambda x: np.common_type(x, np.zeros(1, np.complex64)),
    lambda x: np.unique(x, return_counts=True),
    lambda x: np.unique(x, return_index=True, return_inverse=True, return_counts=True),
    np.unique_counts,
    np.unique_all,
    np.unique_inverse,
    lambda x: np.meshgrid(x[0], x[:, 1], indexing="ij"),
    lambda x: np.intersect1d(x, [0, 2, 9]),
    lambda x: np.union1d([9.0], x),
    lambda x: np.setdiff1d(x, [0, 2]),
    lambda x: np.setxor1d([0, 9.0], x),
    lambda x: np.nancumsum(np.where(x > 4, np.nan, x)),
    lambda x: np.nancumprod(np.where(x > 4, np.nan, x), 1),
    lambda x: np.linalg.inv(x[:, 1:] + 9 * np.eye(3)),
    lambda x: np.linalg.solve(x[:, :3] + 9 * np.eye(3), x[:, 3]),
    lambda x: np.linalg.svd(x)[1],
    lambda x: np.linalg.det(x[:, 1:]),
    lambda x: np.cross(x[:, :3], [1, 2, 3]),
    lambda x: np.fft.rfft(x, axis=0),
    np.cov,
    lambda x: np.corrcoef(x, rowvar=False),
    np.fft.fft2,
]


def tensors() -> list[tuple[str, np.ndarray[Any, Any], sp.Tensor]]:
    filled = sp.from_coords(np.array((HALF != 0.5).nonzero()), HALF[HALF != 0.5], shape=a.shape, fill_value=0.5)
    return [("zero", a, sp.asarray(a)), ("half", HALF, filled), ("view", a, sp.asarray(np.tile(a, (2, 2)))[3:, 4:])]


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
        return
    if isinstance(wanted, np.ndarray | np.generic):
        dense = np.asarray(found)
        assert (dense.dtype, dense.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(dense, np.asarray(wanted), rtol=1e-12)
    else:
        assert found == wanted
        assert type(found) is type(wanted)


@pytest.mark.parametrize("call", LAZY)
@pytest.mark.parametrize(("kind", "dense", "tensor"), tensors(), ids=lambda one: one if isinstance(one, str) else "")
def test_results_are_tensors(call: Callable[[Any], Any], kind: str, dense: Any, tensor: sp.Tensor) -> None:
    found, wanted = call(tensor), call(dense)
    same(found, wanted)
    if isinstance(wanted, np.ndarray):
        assert isinstance(found, sp.Tensor)


@pytest.mark.parametrize("call", AT_ONCE)
@pytest.mark.parametrize(("kind", "dense", "tensor"), tensors(), ids=lambda one: one if isinstance(one, str) else "")
def test_dense_results(call: Callable[[Any], Any], kind: str, dense: Any, tensor: sp.Tensor) -> None:
    same(call(tensor), call(dense))


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (-1, 0), (2, 1)])
@pytest.mark.parametrize("offset", [-4, -1, 0, 2, 5])
def test_diagonals_of_stacks(axes: tuple[int, int], offset: int) -> None:
    B = sp.asarray(b)
    same(np.diagonal(B, offset, *axes), np.diagonal(b, offset, *axes))
    same(sp.diagonal(B, offset, *axes), np.diagonal(b, offset, *axes))
    same(np.trace(B, offset, *axes), np.trace(b, offset, *axes))
    same(sp.linalg.diagonal(B, offset=offset), np.linalg.diagonal(b, offset=offset))
    same(np.linalg.trace(B, offset=offset), np.linalg.trace(b, offset=offset))
    same(sp.linalg.trace(B, offset=offset), np.linalg.trace(b, offset=offset))


def test_nan_and_infinity() -> None:
    S = sp.asarray(SPECIAL)
    for call in (
        np.nan_to_num,
        lambda x: np.nan_to_num(x, nan=7.0, posinf=1.0, neginf=-1.0),
        lambda x: np.isclose(x, x, equal_nan=True),
        lambda x: np.isclose(x, x),
        lambda x: np.median(x, axis=1),
        lambda x: np.median(x, axis=0),
        lambda x: np.quantile(x, [0.0, 0.5, 0.9, 1.0], axis=0),
        np.median,
        lambda x: np.unique(np.where(x > 0, np.nan, x), return_counts=True),
        lambda x: np.unique(np.where(x > 0, np.nan, x), return_counts=True, equal_nan=False),
    ):
        with np.errstate(invalid="ignore"):
            same(call(S), call(SPECIAL))


def test_long_tensors() -> None:
    A = sp.from_coords([[3, 2**40 - 1]], [-2, 5], shape=(2**40,))
    assert np.median(A) == np.quantile(A, 0.3) == 0
    assert np.ptp(A) == 7
    counts = np.histogram(A, [-3, -1, 1, 6])[0]
    assert counts.tolist() == [1, 2**40 - 2, 1]
    assert np.searchsorted(np.sort(A), [-2, 0, 1]).tolist() == [0, 1, 2**40 - 1]
    assert np.bincount(A + 2).tolist() == [1, 0, 2**40 - 2, 0, 0, 0, 0, 1]


def test_unsupported_dtypes_raise() -> None:
    c = np.array([1j, 0])
    for call in (np.iscomplexobj, np.isrealobj, lambda x: np.common_type(x, a), lambda x: np.result_type(x, a)):
        assert call(sp.asarray(c)) == call(c)


def test_invalid_input_raises() -> None:
    A = sp.asarray(a)
    fft: Any = np.fft.fft
    refused: list[tuple[type[SparrowError], Callable[[], Any]]] = [
        (InvalidValueError, lambda: np.clip(A, 1, min=2)),
        (InvalidValueError, lambda: np.quantile(A, 1.5)),
        (InvalidValueError, lambda: np.array_split(A, 0)),
        (InvalidValueError, lambda: np.average(A, 0, weights=[1, -1, 0])),
        (InvalidValueError, lambda: np.select([A > 1], [])),
        (InvalidValueError, lambda: np.bincount(A[1].astype(int))),
        (InvalidValueError, lambda: np.pad(A, -1)),
        (InvalidValueError, lambda: sp.reshape(A, 12, copy=False)),
        (InvalidValueError, lambda: sp.reshape(A, 12, order="x")),  # type: ignore[arg-type]
        (ShapeError, lambda: A.item(1, 2, 3)),
        (ShapeError, lambda: np.average(A, 0, weights=[1, 2])),
        (ShapeError, lambda: np.compress([[True]], A)),
        (ShapeError, lambda: np.diagonal(A, 0, 1, 1)),
        (ShapeError, lambda: np.rot90(A, axes=(1, 1))),
        (ShapeError, lambda: np.size(A, 5)),
        (ShapeError, lambda: np.vsplit(A[0], 2)),
        (ShapeError, lambda: np.block([[A], A])),
        (ShapeError, lambda: np.matvec(A[0], a[0])),
        (ShapeError, lambda: np.vecmat(A[0], a[0])),
        (IndexingError, lambda: np.take(A[:0], [1], 0, mode="wrap")),
        (IndexingError, lambda: np.delete(A, 12)),
        (TooLargeError, lambda: np.delete(sp.zeros((10**6, 10**6)), 0)),
        (UnsupportedError, lambda: fft(A, out=sp.zeros(a.shape))),
        (UnsupportedError, lambda: np.vstack([sp.full((1, 9), 0.5), scipy.sparse.coo_array((2, 9))])),
        (InvalidValueError, lambda: np.take(A, [1], 0, mode="x")),  # type: ignore[call-overload]
    ]
    for kind, call in refused:
        with pytest.raises(kind):
            call()


def test_fft_out() -> None:
    fft: Any = np.fft.fft
    for out in (np.zeros(a.shape, complex), sp.zeros(a.shape, dtype=complex)):
        assert fft(sp.asarray(a), out=out) is out
        same(out, np.fft.fft(a))


def test_median_of_float16_does_not_overflow() -> None:
    halves = np.array([40000, 50000], np.float16)
    same(np.median(sp.asarray(halves)), np.median(halves))


def test_shares_memory() -> None:
    A = sp.asarray(a)
    for ask in (np.may_share_memory, np.shares_memory):
        asked: Any = ask
        assert not asked(A, np.asarray(A))
        assert not asked(a, A)
        assert not asked(A, np.copy(A))
        assert asked(A[1:], A.T)


def test_singular_matrix() -> None:
    for inverse in (np.linalg.inv, sp.linalg.inv):
        with pytest.raises(np.linalg.LinAlgError) as found:
            inverse(sp.zeros((2, 2)))
        assert isinstance(found.value, SingularError)
    with pytest.raises(SingularError, match="singular"):
        sp.linalg.solve(sp.zeros((2, 2)), [1.0, 2.0])
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        np.linalg.cholesky(-sp.eye(2))


def test_boolean_products() -> None:
    X, Y = np.ones((2, 3), bool), np.eye(3, dtype=bool)
    for A, B in ((sp.asarray(X), sp.asarray(Y)), (X, sp.asarray(Y)), (sp.asarray(X), Y)):
        same(np.vecmat(A, B), np.vecmat(X, Y))
        same(np.matvec(B, A), np.matvec(Y, X))


def test_pad_keeps_names_and_labels() -> None:
    labels = {"user": ["ann", "bob"], "item": ["x", "y"]}
    a = sp.from_coords([[0, 1], [0, 1]], [1.0, 2.0], dims=("user", "item"), labels=labels)
    found: Any = np.pad(a, ((0, 0), (1, 2)))
    assert found.dims == ("user", "item")
    assert found.sel(user="bob").to_numpy().tolist() == [0, 0, 2, 0, 0]
    assert found.labels("item") is None


def test_compress_sparse_condition() -> None:
    v = sp.from_coords([[3, 10**11]], [1.0, 2.0], shape=(2 * 10**11,))
    for chosen in (np.extract, np.compress):
        found: Any = chosen(v > 0, v)
        assert found.to_numpy().tolist() == [1, 2]
