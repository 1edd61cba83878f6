"""Ufuncs and reductions with all arguments of NumPy, ``out=`` included."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError, ReadOnlyError, ShapeError, SparrowError, UnsupportedError
from tests.functions.numpy.test_functions import same
from tests.tensor.test_arithmetic import Maker, agree, make

__all__ = ["make"]

a = np.array([[0.0, 2, 0, 5], [3, 0, -1, 0], [0, 0, 0, 7]])
i = np.array([[0, 100, 0], [-3, 0, 120]], np.int8)
MASK = np.array([[True, True, False, True], [False] * 4, [False, True, True, False]])

METHODS: list[Callable[[Any], Any]] = [
    np.add.reduce,
    np.logical_or.reduce,
    lambda x: np.add.reduce(x, axis=None, dtype=np.float32),
    lambda x: np.multiply.reduce(x, axis=1, keepdims=True, initial=2),
    lambda x: np.maximum.reduce(x, axis=(0, 1)),
    lambda x: np.minimum.reduce(x, 1, where=MASK, initial=4),
    lambda x: np.logical_and.reduce(x, axis=1),
    lambda x: np.logical_and.reduce(x, initial=False),
    lambda x: np.logical_or.reduce(x, axis=None, initial=1),
    lambda x: np.fmax.reduce(np.where(x > 1, np.nan, x)),
    lambda x: np.fmin.reduce(x, axis=1, keepdims=True, initial=-1),
    lambda x: np.fmax.reduce(np.where(x > 1, np.nan, x), 1, where=MASK, initial=1),
    lambda x: np.fmax.reduce(x[:0], initial=3),
    lambda x: np.fmin.reduce(x, initial=None),
    lambda x: np.logical_and.reduce(x > -2, initial=None),
    lambda x: np.logical_or.reduce(x, axis=1, initial=0.5, where=MASK),
    np.add.accumulate,
    lambda x: np.multiply.accumulate(x, axis=1, dtype=np.float32),
    np.maximum.accumulate,
    lambda x: np.logical_or.accumulate(x, axis=-1),
    lambda x: np.subtract.outer(x, x[0]),
    lambda x: np.multiply.outer(x, [1, 2]),
    lambda x: np.add.outer(3, x),
    np.modf,
    np.frexp,
    lambda x: np.divmod(x, 3),
    lambda x: np.divmod(x, 3, dtype=np.float32),
    lambda x: np.modf(x, dtype=np.float32),
    lambda x: np.add(x, x, dtype=np.float32),
    lambda x: np.true_divide(x, 4, dtype=np.float32, casting="same_kind"),
]
REDUCED: list[Callable[[Any], Any]] = [
    lambda x: x.sum(initial=5),
    lambda x: x.sum(0, initial=5),
    lambda x: x.prod(1, initial=2, keepdims=True),
    lambda x: x.min(initial=-3),
    lambda x: x.max(0, initial=4),
    lambda x: x[:0].max(0, initial=4),
    lambda x: x[:, :0].min(initial=4),
    lambda x: x.sum(where=MASK),
    lambda x: x.sum(1, where=MASK[:1]),
    lambda x: x.prod(0, where=MASK, dtype=np.float32),
    lambda x: x.min(1, where=MASK, initial=9),
    lambda x: x.max(where=MASK, initial=-9),
    lambda x: x.any(1, where=MASK),
    lambda x: x.all(0, where=MASK),
    lambda x: x.mean(where=MASK),
    lambda x: x.mean(1, where=MASK | (a > 2)),
    lambda x: x.mean(0, where=MASK, dtype=np.float32, keepdims=True),
    lambda x: x.sum(0, where=True),
    lambda x: np.sum(x, 1, where=MASK, initial=1),
]


@pytest.mark.parametrize("call", METHODS + REDUCED)
def test_all_arguments(make: Maker, call: Callable[[Any], Any]) -> None:
    with np.errstate(all="ignore"):
        same(call(make(a)), call(a))


def test_empty_mean_is_nan_without_warning(make: Maker) -> None:
    assert np.isnan(make(a).mean(1, where=MASK).to_numpy()).tolist() == [False, True, False]


def test_dtype_sets_computation_type() -> None:
    same(np.add(sp.asarray(i), sp.asarray(i), dtype=np.int64), np.add(i, i, dtype=np.int64))
    same(np.multiply(sp.asarray(i), 100, dtype=np.int16), np.multiply(i, 100, dtype=np.int16))
    for options in ({"dtype": np.int8}, {"casting": "no"}):
        with pytest.raises(UnsupportedError, match=r"np\.add"):
            np.add(sp.asarray(i), 0.5, **options)


OUT: list[tuple[tuple[int, ...], Callable[[Any, Any], Any]]] = [
    ((3, 4), lambda x, out: np.add(x, x, out=out)),
    ((3, 4), np.exp),
    ((3, 4), lambda x, out: np.round(x, 1, out=out)),
    ((3, 4), lambda x, out: x.round(out=out)),
    ((3, 4), lambda x, out: np.clip(x, 1, 3, out=out)),
    ((3, 4), lambda x, out: x.clip(1, 3, out=out)),
    ((3, 4), lambda x, out: np.multiply(x, 3, out=out, where=x > 0)),
    ((3, 4), lambda x, out: np.cumsum(x, axis=0, out=out)),
    ((12,), lambda x, out: x.cumprod(out=out)),
    ((4,), lambda x, out: x.sum(0, out=out)),
    ((4,), lambda x, out: np.mean(x, axis=0, out=out)),
    ((4,), lambda x, out: np.add.reduce(x, out=out)),
    ((4,), lambda x, out: np.nanmax(x, axis=0, out=out)),
    ((3, 1), lambda x, out: x.max(1, keepdims=True, out=out)),
    ((), lambda x, out: x.std(out=out)),
    ((6, 4), lambda x, out: np.concatenate([x, x], out=out)),
    ((3, 3, 4), lambda x, out: np.stack([x, x, x], out=out)),
    ((3, 4), lambda x, out: np.take(x, [2, 1, 0], axis=0, out=out)),
    ((3,), lambda x, out: np.matmul(x, np.ones(4), out=out)),
    ((3, 4), lambda x, out: np.add(np.ones((3, 4)), 1, out=out)),
]


@pytest.mark.parametrize(("shape", "call"), OUT)
def test_out_argument(shape: tuple[int, ...], call: Callable[[Any, Any], Any]) -> None:
    wanted = np.full(shape, 9.0)
    call(a, wanted)
    dense, tensor = np.full(shape, 9.0), sp.asarray(np.full(shape, 9.0))
    A = sp.asarray(a)
    assert call(A, dense) is dense
    np.testing.assert_allclose(dense, wanted)
    assert call(A, tensor) is tensor
    np.testing.assert_allclose(tensor.to_numpy(), wanted)


def test_integer_mean_into_integers() -> None:
    found, wanted = np.zeros(3, int), np.zeros(3, int)
    np.testing.assert_array_equal(sp.asarray(i).mean(0, out=found), i.mean(0, out=wanted))
    with pytest.raises(UnsupportedError):
        sp.asarray(a).mean(0, out=np.zeros(4, int))


def test_multiple_outputs() -> None:
    A = sp.asarray(a)
    whole, part = np.zeros((3, 4)), sp.zeros((3, 4))
    halves: Any = np.modf
    found = halves(A / 2, out=(part, whole))
    assert found[0] is part
    assert found[1] is whole
    for one, wanted in zip(found, np.modf(a / 2), strict=True):
        np.testing.assert_array_equal(np.asarray(one), wanted)


def test_out_mismatch_raises() -> None:
    A = sp.asarray(a)
    refused: list[tuple[type[SparrowError], Callable[[], Any]]] = [
        (UnsupportedError, lambda: np.add(A, 0.5, out=np.zeros((3, 4), int))),
        (UnsupportedError, lambda: A.sum(0, out=sp.zeros(4, dtype=int))),
        (ShapeError, lambda: np.add(A, 1, out=np.zeros((1, 3, 4)))),
        (ShapeError, lambda: A.sum(0, out=np.zeros(3))),
        (ReadOnlyError, lambda: np.add(A, 1, out=A * 2)),
        (InvalidValueError, lambda: A.min(where=MASK)),
        (InvalidValueError, lambda: sp.asarray(i).max(initial=0.5)),
        (InvalidValueError, lambda: np.fmax.reduce(sp.asarray(i), initial=300)),
        (InvalidValueError, lambda: A.sum(where=a)),
        (ShapeError, lambda: A.sum(where=MASK[None])),
    ]
    for kind, call in refused:
        with pytest.raises(kind):
            call()
    assert A.sum() == a.sum()


OPERATORS = ["+=", "-=", "*=", "/=", "//=", "%=", "**="]


@pytest.mark.parametrize("operator", OPERATORS)
def test_in_place_on_expression(make: Maker, operator: str) -> None:
    A = make(a)
    B, b = A * 2, a * 2
    before = B
    names = {"A": A + 1, "B": B, "L": A[[2, 0]]}
    dense = {"A": a + 1, "B": b.copy(), "L": a[[2, 0]]}
    for line in (f"B {operator} A", f"B {operator} 2", f"L {operator} 3"):
        with np.errstate(all="ignore"):
            exec(line, names)
            exec(line, dense)
    agree(names["B"], dense["B"])
    agree(names["L"], dense["L"])
    agree(before, b)
    agree(A, a)


def test_in_place_keeps_dtype_of_expression() -> None:
    B = sp.asarray(i) * 2
    B += np.int64(1)
    assert B.dtype == np.int8
    with pytest.raises(UnsupportedError, match="astype"):
        B /= 2
    with pytest.raises(ShapeError, match="shape"):
        B += np.ones((3, 2, 3), np.int8)
    A = sp.asarray(a)
    A[[0, 2]] += 1  # through a list: taken, added to and written
    np.testing.assert_array_equal(A.to_numpy()[0], a[0] + 1)
    np.testing.assert_array_equal(A.to_numpy()[1], a[1])


def test_in_place_on_opened_version(tmp_path: Any) -> None:
    path = sp.asarray(a).save(tmp_path / "A.sparrow").path
    opened = sp.open(str(path), version=0)
    with pytest.raises(ReadOnlyError):
        opened += 1


class Own:
    """Operand of a class that NumPy does not know."""

    def __radd__(self, other: Any) -> Any:
        return ("radd", other)

    def __rmatmul__(self, other: Any) -> Any:
        return ("rmatmul", other)

    def __gt__(self, other: Any) -> Any:
        return ("gt", other)

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return ("eq", other)


def test_defers_to_foreign_classes() -> None:
    A: Any = sp.asarray(a)
    own = Own()
    assert A + own == ("radd", A)
    assert A @ own == ("rmatmul", A)
    compared = [own > A, own == A]
    assert compared == [("gt", A), ("eq", A)]
    B = A
    B += own
    assert B == ("radd", A)
    refused: list[Callable[[], Any]] = [lambda: A - own, lambda: A == "x", lambda: A * None, lambda: A + object()]
    for call in refused:
        with pytest.raises(UnsupportedError, match="operands must be tensors, arrays or numbers"):
            call()
    with pytest.raises(TypeError):
        A + Fraction(1, 2)


def test_rounding_and_formatting() -> None:
    A = sp.asarray(a / 3)
    agree(round(A), np.round(a / 3))
    with np.errstate(all="ignore"):
        for decimals in (5000, -5000):
            agree(A.round(20_000 * decimals), np.round(a / 3, decimals))
    agree(round(A, 2), np.round(a / 3, 2))
    assert f"{A}" == format(A) == repr(A)
    assert f"{sp.asarray(2.5):.2f}" == "2.50"
    with pytest.raises(UnsupportedError, match="requires a single element"):
        format(A, ".2f")


def test_reshape_and_astype_arguments() -> None:
    A = sp.asarray(a)
    agree(A.reshape(2, 6, order="F"), a.reshape(2, 6, order="F"))
    agree(A.reshape((4, -1), copy=True), a.reshape(4, 3))
    other = A.astype(float, copy=True)
    assert other is not A
    agree(other, a)
    assert A.astype(float) is A
    with pytest.raises(UnsupportedError, match="does not allow a cast from float64 to int64"):
        A.astype(int, casting="safe")
    calls: list[Callable[[], Any]] = [
        lambda: A.astype(int, casting="x"),
        lambda: A.reshape(12, copy=False),
        lambda: A.reshape(12, order="x"),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(InvalidValueError):
            call()


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize(
    "name",
    [
        *("sum", "prod", "mean", "var", "std", "any", "all", "max", "min", "nansum", "nanprod", "nanmean", "nanmax"),
        *("nanmin", "nanvar", "nanstd"),
    ],
)
def test_reductions_of_arrays_take_tensors_as_masks(name: str, axis: int | None) -> None:
    mask, options = MASK | (np.arange(4) == 1), {"initial": 1.5} if name.removeprefix("nan") in ("max", "min") else {}
    found = getattr(np, name)(a, axis=axis, where=sp.asarray(mask), **options)
    np.testing.assert_allclose(np.asarray(found), getattr(np, name)(a, axis=axis, where=mask, **options))


def test_ufuncs_of_arrays_take_tensors_as_masks() -> None:
    outs: list[Any] = [a.copy(), sp.asarray(a)]
    for out in outs:
        np.add(a, 1, where=sp.asarray(MASK), out=out)
        np.testing.assert_array_equal(np.asarray(out), np.where(MASK, a + 1, a))
    np.testing.assert_array_equal(np.asarray(np.add.reduce(a, where=sp.asarray(MASK))), np.add.reduce(a, where=MASK))
    np.testing.assert_array_equal(np.asarray(np.subtract(sp.asarray(a), a, casting="unsafe")), a - a)
