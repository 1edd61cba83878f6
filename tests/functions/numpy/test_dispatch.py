"""Dispatch of NumPy's functions, with NumPy's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError, ShapeError, SparrowError, UnsupportedError
from tests.tensor.test_arithmetic import Maker, agree, make, some

__all__ = ["make"]


def test_positional_and_keyword_arguments(make: Maker) -> None:
    a = some((3, 4), 1)
    A = make(a)
    agree(np.sum(A, 0, np.float32), np.sum(a, 0, np.float32))
    agree(np.max(A, 1, None, True), np.max(a, 1, None, True))
    np.testing.assert_allclose(np.asarray(np.var(A, 0, None, None, 1)), np.var(a, 0, None, None, 1))
    spread = np.asarray(np.std(A, axis=0, correction=1, keepdims=True))
    np.testing.assert_allclose(spread, np.std(a, axis=0, correction=1, keepdims=True))
    agree(np.roll(A, shift=1, axis=0), np.roll(a, shift=1, axis=0))
    agree(np.clip(A, min=-1, max=1), np.clip(a, min=-1, max=1))
    agree(np.clip(A, a - 1, None), np.clip(a, a - 1, None))
    assert np.mean(A, where="stored") == a[a != 0].mean()  # type: ignore[call-overload]


def test_method_dtype_position(make: Maker) -> None:
    a = some((3, 4), 1)
    A = make(a)
    for name in ("sum", "prod", "mean", "var", "std", "nansum", "nanprod", "nanmean", "nanvar", "nanstd"):
        found, wanted = getattr(A, name)(0, np.float32), getattr(np, name)(a, 0, np.float32)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-5)
        with pytest.raises(UnsupportedError, match="'x'"):
            getattr(A, name)(0, "x")
    for name in ("min", "max", "any", "all", "count", "argmin", "argmax", "sum", "nanmin"):
        with pytest.raises(InvalidValueError, match="keepdims must be True or False, got 'x'"):
            getattr(A, name)(0, keepdims="x")
    with pytest.raises(TypeError):
        A.min(0, True)  # type: ignore[call-arg]


@pytest.mark.parametrize("ord", [None, "fro", 1, -1, np.inf, -np.inf])
def test_matrix_norms(make: Maker, ord: Any) -> None:
    a = some((3, 4), 2)
    A = make(a)
    assert np.linalg.norm(A, ord) == pytest.approx(np.linalg.norm(a, ord))
    found = np.linalg.norm(A, ord, (1, 0), keepdims=True)
    np.testing.assert_allclose(found.to_numpy(), np.linalg.norm(a, ord, (1, 0), keepdims=True))
    wide = np.linalg.norm(sp.stack([A, A * 2]), ord, (-2, -1)).to_numpy() if ord not in (None, "fro") else None
    assert wide is None or wide == pytest.approx(np.linalg.norm(np.stack([a, a * 2]), ord, (-2, -1)))


def test_vector_norms(make: Maker) -> None:
    a = some((3, 4), 3)
    A = make(a)
    for degree in (None, 0, 1, 2, 3, 0.5, np.inf, -np.inf, -1, -2.5):
        with np.errstate(divide="ignore"):
            wanted = np.linalg.norm(a, degree, 1)
            line = np.linalg.norm(a[0], degree)
        np.testing.assert_allclose(np.linalg.norm(A, degree, 1).to_numpy(), wanted)
        assert np.linalg.norm(A[0], degree) == pytest.approx(line)
    for order in (2, "nuc"):
        with pytest.raises(UnsupportedError, match="singular values"):
            np.linalg.norm(A, order)
    with pytest.raises(ShapeError, match="3 axes"):
        np.linalg.norm(sp.stack([A, A]), 1)


def test_count_and_array_equal_any_fill() -> None:
    a = np.array([[1, 0, 1], [1, 1, 2]])
    A = sp.from_coords([[0, 1], [1, 2]], [0, 2], shape=(2, 3), fill_value=1)
    assert np.count_nonzero(A) == 5
    agree(np.count_nonzero(A, axis=0), np.count_nonzero(a, axis=0))
    assert np.array_equal(A, a)
    assert np.array_equal(a, A)
    assert not np.array_equal(A, a[:1])
    assert not np.array_equal(A, A + 1)


def test_axis_none_and_where_without_choices() -> None:
    a = np.array([[3, 0, -1], [0, 2, 1]])
    A = sp.asarray(a)
    agree(np.sort(A, axis=None), np.sort(a, axis=None))
    np.testing.assert_array_equal(np.where(A), np.where(a))
    agree(np.where(A, A, 5), np.where(a, a, 5))


def test_unsupported_arguments_raise() -> None:
    A: Any = sp.asarray(np.eye(3))
    refused: list[tuple[Any, str]] = [
        (lambda: np.add(A, 1, where=A > 0), r"np\.add\(where=\) requires out="),
        (lambda: A.sum(0, out=[1]), "out= must be an array or a tensor, got list"),
        (lambda: A.clip(0, out="x"), "out= must be an array or a tensor, got str"),
        (lambda: np.add.at(A, [0], 1), r"np\.add\.at"),
        (lambda: np.subtract.reduce(A), r"np\.subtract\.reduce"),
        (lambda: np.argsort(A, order="x"), r"np\.argsort\(order=\)"),
        (lambda: np.pad(A, 1, end_values=3, mode="edge"), r"np\.pad\(end_values=\)"),
        (lambda: np.pad(A, 1, "mean"), r"np\.pad\(mode='mean'\)"),
        (lambda: np.histogram(A, "auto"), "bins='auto'"),
        (lambda: np.bincount(A[0]), "integers"),
        (lambda: np.meshgrid(A[0], A[0], sparse=True), r"np\.meshgrid\(sparse=True\)"),
        (lambda: np.nan_to_num(A, copy=False), r"np\.nan_to_num\(copy=False\)"),
        (lambda: np.convolve(A[0], A[0]), r"np\.convolve is not supported"),
    ]
    for call, words in refused:
        with pytest.raises(UnsupportedError, match=words):
            call()


def test_single_element_is_number() -> None:
    A = sp.asarray([[0, 3]])
    assert (A[:, 1:].item(), float(A[:1, 1:]), int(A[0, 1:]), complex(A[0, :1])) == (3, 3.0, 3, 0j)
    assert [10, 20, 30, 40][A[0, 1, ...]] == 40
    with pytest.raises(TypeError, match="an index must be an integer scalar"):
        range(A[0])


RAGGED = [[1], [1, 2]]


def test_numpy_errors_are_translated() -> None:
    A: Any = sp.asarray(np.eye(3))
    numpy: Any = np
    own: Any = sp
    calls: list[Any] = [
        lambda: np.where(A, A),
        lambda: numpy.quantile(A, "x"),
        lambda: numpy.percentile(A, None),
        lambda: np.isclose(A, A, "x"),
        lambda: np.can_cast(A, "x"),
        lambda: numpy.rot90(A, 1, 3),
        lambda: np.histogram(A, 1.5),
        lambda: np.copyto(A, [1, 2]),
        lambda: np.take(A, RAGGED),
        lambda: np.average(A, weights=RAGGED),
        lambda: numpy.add(A, 1, casting="x"),
        lambda: numpy.add.reduce(A, axis="x"),
        lambda: A.labels(1.5),
        lambda: A.sel(3),
        lambda: A.refill(RAGGED),
        lambda: A.reshape(RAGGED),
        lambda: A.clip(RAGGED),
        lambda: A.matvec(RAGGED),
        lambda: A.max(initial=RAGGED),
        lambda: A.compute([]),
        lambda: sp.full(3, RAGGED),
        lambda: own.repeat(A, RAGGED),
        lambda: sp.take(A, RAGGED),
        lambda: sp.take_along_axis(A, RAGGED),
    ]
    for call in calls:
        with pytest.raises(SparrowError):
            call()


def test_methods_match_functions(make: Maker) -> None:
    a = some((3, 4), 5)
    A = make(a)
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("conjugate", ()), ("copy", ()), ("diagonal", (1,)), ("dot", (np.arange(4.0),)), ("flatten", ("F",)),
        ("ravel", ()), ("squeeze", ()), ("swapaxes", (0, -1)), ("take", ([2, -1, 0], 1)),
        ("take", ([[5, 0]],)), ("trace", (-1,)),
    ]  # fmt: skip
    for name, arguments in calls:
        agree(getattr(A, name)(*arguments), getattr(a, name)(*arguments))
    assert A.tolist() == a.tolist()
    np.testing.assert_array_equal(A.nonzero(), a.nonzero())
    out = np.zeros(3)
    assert A.dot(np.arange(4.0), out) is out
    agree(out, a @ np.arange(4.0))
    agree(A.dot(A.T), a @ a.T)
    agree(make(a[None]).squeeze(0), a)
    own = A.copy()
    own[0, 0] = 77.0
    assert own[0, 0] == 77.0 != A[0, 0]
    with pytest.raises(ShapeError, match="axis 0 of size 3"):
        A.squeeze(0)
