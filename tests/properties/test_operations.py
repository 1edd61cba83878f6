"""Operations against NumPy: the same function on arrays and tensors."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow import engines, storage
from sparrow.core.schema import is_fill
from sparrow.errors import SparrowError
from sparrow.relations.memory import MemoryHandle
from sparrow.testing import tune
from tests.core.indexing.test_view import assume_valid, keys
from tests.engines.helpers import TINY, memory
from tests.tensor.test_reductions import best_number

Array = np.ndarray[Any, Any]
Operation = Callable[[Any], Any]

DTYPES = ["bool", "int8", "int64", "uint8", "float16", "float32", "float64", "complex128"]
UNARY = [
    np.negative, np.absolute, np.sqrt, np.exp, np.log1p, np.sin, np.arctan, np.square, np.sign, np.isnan, np.isfinite,
    np.floor, np.rint, np.logical_not, np.reciprocal, np.conjugate, np.expm1, np.cbrt, np.positive, np.invert,
]  # fmt: skip
BINARY = [
    np.add, np.subtract, np.multiply, np.true_divide, np.floor_divide, np.remainder, np.power, np.maximum, np.fmin,
    np.greater, np.less_equal, np.equal, np.not_equal, np.logical_and, np.logical_xor, np.hypot, np.arctan2,
    np.copysign, np.bitwise_or, np.left_shift,
]  # fmt: skip
EXACT = [
    np.min, np.max, np.any, np.all, np.argmin, np.argmax, np.nanmin, np.nanmax, np.count_nonzero, np.nanargmin,
    np.nanargmax,
]  # fmt: skip
SUMS = [np.sum, np.prod, np.mean, np.nansum, np.nanprod, np.nanmean, np.cumsum, np.cumprod]
SPREADS = [np.var, np.std, np.nanvar, np.nanstd]


def cells(dtype: str) -> list[Any]:
    """Return values of a dtype, with its limits, NaN and infinities."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return [True, False]
    if kind in "iu":
        limits = np.iinfo(dtype)
        return [0, 1, 2, 3, limits.max, limits.min]
    return [0, 1, 1j, -2 + 1j, 3] if kind == "c" else [0.0, -0.0, 1.0, -2.0, 3.0, np.inf, -np.inf, np.nan]


@st.composite
def arrays(draw: st.DrawFn, largest: int = 4) -> tuple[Array, Any]:
    """Return a dense array, and the fill that makes it sparse."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(0, largest), max_size=3)))
    fill = draw(st.sampled_from([0, 0, 0, *cells(dtype)]))
    choice = [fill] * len(cells(dtype)) + cells(dtype)
    size = math.prod(shape)
    values = draw(st.lists(st.sampled_from(choice), min_size=size, max_size=size))
    dense = np.array(values, dtype=object).astype(dtype).reshape(shape)
    return np.where(
        dense == fill, np.asarray(fill).astype(dtype), dense
    ), fill  # an absent element has the sign of the fill


Maker = Callable[[Array, Any, st.DataObject], sp.Tensor]


@pytest.fixture(params=["memory", "stored"], scope="module")
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Maker:
    def tensor(dense: Array, fill: Any) -> sp.Tensor:
        relation = memory(dense, fill)
        if request.param == "memory":
            return sp.Tensor(MemoryHandle(relation))
        folder = tmp_path_factory.mktemp("tensor") / "A"
        return sp.Tensor(storage.save(folder, relation.schema, iter([relation.block]), sizes=TINY))

    def maker(dense: Array, fill: Any, data: st.DataObject) -> sp.Tensor:
        if not dense.ndim or data.draw(st.booleans(), "whole"):
            return tensor(dense, fill)
        order = data.draw(st.permutations(range(dense.ndim)), "order")
        ways = [lambda n: slice(1, n + 1), lambda n: slice(n, 0, -1), lambda n: slice(0, 2 * n, 2)]
        moved = dense.transpose(order)
        key = tuple(data.draw(st.sampled_from(ways), "way")(n) for n in moved.shape)
        base = np.full([2 * n + 1 for n in moved.shape], cells(str(dense.dtype))[1]).astype(dense.dtype)
        base[key] = moved
        view: sp.Tensor = tensor(base, fill)[key].transpose(np.argsort(order).tolist())
        return view

    return maker


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Any:
    with tune("stream", partition_rows=3):
        yield


def agree(
    operation: Operation, tensor: sp.Tensor, dense: Array, rtol: float = 0, oracle: Operation | None = None
) -> None:
    """Compare results on a tensor and an array: values and dtype, or errors."""
    try:
        with np.errstate(all="ignore"):
            expected = (oracle or operation)(dense)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        kinds = [one for one in (IndexError, OverflowError, TypeError, ValueError) if isinstance(error, one)]
        with pytest.raises(SparrowError) as caught, np.errstate(all="ignore"):
            same(operation(tensor), None, 0)
        assert all(isinstance(caught.value, kind) for kind in kinds)
        return
    with np.errstate(all="ignore"):
        same(operation(tensor), expected, rtol)


def same(found: Any, expected: Any, rtol: float) -> None:
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, rtol)
        return
    if isinstance(found, sp.Tensor):
        values = engines.evaluate(found.__sparrow_scan__()).values
        assert not is_fill(values, found.fill_value).any()
        assert found.nnz == len(values)
        found = found.to_numpy()
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def and_second(function: Any, second: Any, tensor: Any = None) -> Operation:
    """Bind the second operand of a binary function; it may be a tensor."""
    return lambda a: function(a, tensor if tensor is not None and isinstance(a, sp.Tensor) else second)


def and_of_fill(operation: Operation, fill: Any) -> Operation:
    """Return an operation that raises for the fill value as for an element."""
    return lambda a: (operation(np.full(1, fill)), operation(a))[1]


def examples(count: int) -> Any:
    """Return settings of n examples, of more under a thorough profile."""
    profile = settings.get_current_profile_name()
    many = count * settings.get_profile(profile).max_examples // settings.get_profile("default").max_examples
    return settings(max_examples=many, suppress_health_check=list(HealthCheck), phases=tuple(Phase)[:-1])


@given(arrays(), st.data())
@examples(24)
def test_elementwise_functions(make: Maker, case: tuple[Array, Any], data: st.DataObject) -> None:
    dense, fill = case
    A = make(dense, fill, data)
    for _ in range(4):
        ufunc = data.draw(st.sampled_from(UNARY), "function")
        agree(ufunc, A, dense)


@given(arrays(), st.data())
@examples(24)
def test_binary_functions(make: Maker, case: tuple[Array, Any], data: st.DataObject) -> None:
    dense, fill = case
    A = make(dense, fill, data)
    shape = tuple(data.draw(st.sampled_from([n, 1]), "size") for n in dense.shape)[data.draw(st.integers(0, 1)) :]
    dtype = data.draw(st.sampled_from(DTYPES), "dtype")
    values = data.draw(st.lists(st.sampled_from(cells(dtype)), min_size=math.prod(shape), max_size=math.prod(shape)))
    other = np.array(values, dtype=object).astype(dtype).reshape(shape)
    other[other == 0] = 0
    B = make(other, 0, data)
    number = data.draw(st.sampled_from([0, 1, -2, 300, 2.5, np.nan, True]), "number")
    for _ in range(3):
        ufunc = data.draw(st.sampled_from(BINARY), "function")
        for operation in (and_second(ufunc, number), partial(ufunc, number)):
            agree(operation, A, dense, oracle=and_of_fill(operation, A.fill_value))
        if ufunc is np.power and dense.dtype.kind == "i" and fill < 0:
            continue  # raises for the fill value, even if no element is absent
        if ufunc is np.multiply and not (np.isfinite(dense).all() and np.isfinite(other).all()):
            continue  # absent elements annihilate in products of arrays, against NaN and infinity too
        agree(and_second(ufunc, other, B), A, dense)
        agree(partial(ufunc, other), A, dense)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of empty slices
@given(arrays(), st.data())
@examples(30)
def test_reductions(make: Maker, case: tuple[Array, Any], data: st.DataObject) -> None:
    dense, fill = case
    A = make(dense, fill, data)
    axis = data.draw(st.sampled_from([None, *range(-dense.ndim, dense.ndim), dense.ndim + 1]), "axis")
    for _ in range(3):
        function: Any = data.draw(st.sampled_from(EXACT), "function")
        if function not in (np.nanargmin, np.nanargmax) or fill == fill:
            oracle = {np.nanargmin: False, np.nanargmax: True}.get(function)
            own = None if oracle is None else partial(best_number, largest=oracle, axis=axis, keepdims=bool(fill))
            agree(partial(function, axis=axis, keepdims=bool(fill)), A, dense, oracle=own)
        wide = dense.dtype.kind in "biu" or dense.dtype == np.float64
        small = bool(np.abs(dense.astype(complex)).max(initial=0) < 1e6)
        function = data.draw(st.sampled_from(SUMS), "sum")
        rounds = function in (np.mean, np.nanmean) or (function in (np.prod, np.nanprod) and not wide)
        if not rounds or (wide and small):  # elsewhere other digits are lost than NumPy loses
            agree(partial(function, axis=axis), A, dense, rtol=1e-12)
        if wide and small:
            function = data.draw(st.sampled_from(SPREADS), "spread")
            ddof = data.draw(st.sampled_from([0, 1]), "ddof")
            agree(partial(function, axis=axis, ddof=ddof), A, dense, rtol=1e-7)
        if dense.dtype.kind in "biu" and small:
            agree(partial(np.sum, axis=axis, dtype=np.int16), A, dense)
            agree(partial(np.mean, axis=axis, dtype=np.float32), A, dense, rtol=1e-6)


def shapings(shape: tuple[int, ...], data: st.DataObject) -> Operation:
    """Return a change of shape that is usually valid."""
    ndim = len(shape)
    if not ndim:  # NumPy's functions disagree about invalid axes
        some: list[Any] = [np.squeeze, np.transpose, lambda a: np.stack([a, a])]
        return cast("Operation", data.draw(st.sampled_from(some), "change"))
    axis = data.draw(st.integers(-ndim - 1, ndim), "axis")
    n = data.draw(st.integers(-3, 3), "number")
    changes: list[Any] = [
        lambda a: np.concatenate([a, a], axis),
        lambda a: np.stack([a, a], axis),
        lambda a: np.split(a, [1, 2], axis),
        lambda a: np.split(a, 2, axis),
        lambda a: np.expand_dims(a, axis),
        np.squeeze,
        lambda a: np.squeeze(a, axis),
        lambda a: np.moveaxis(a, axis, 0),
        lambda a: np.swapaxes(a, 0, axis),
        lambda a: np.flip(a, axis),
        lambda a: np.roll(a, n, axis),
        lambda a: np.roll(a, n),
        lambda a: np.reshape(a, (-1, abs(n))),
        lambda a: np.reshape(a, a.size),
        np.transpose,
        lambda a: np.repeat(a, abs(n), axis),
        lambda a: np.tile(a, (2, abs(n))),
        lambda a: np.broadcast_to(a, (2, *shape)),
        lambda a: np.take(a, [0, n], axis) if a.size else a,
        lambda a: np.sort(a, axis),
        lambda a: np.unstack(a, axis=axis),
        np.nonzero,
        np.unique,
        lambda a: np.tril(a, n) if a.ndim > 1 else a,
        lambda a: np.triu(a, n) if a.ndim > 1 else a,
        lambda a: np.diagonal(a, n) if a.ndim == 2 else a,
        lambda a: np.cumulative_sum(a, axis=axis, include_initial=True),
    ]
    return cast("Operation", data.draw(st.sampled_from(changes), "change"))


@given(arrays(), st.data())
@examples(30)
def test_shapes(make: Maker, case: tuple[Array, Any], data: st.DataObject) -> None:
    dense, fill = case
    if fill != 0 and dense.ndim > 1:
        fill = 0
    A = make(dense, fill, data)
    for _ in range(4):
        agree(shapings(dense.shape, data), A, dense, rtol=1e-6)


@given(arrays(), st.data())
@examples(24)
def test_indexing(make: Maker, case: tuple[Array, Any], data: st.DataObject) -> None:
    dense, fill = case
    A = make(dense, fill, data)
    first = assume_valid(dense, data.draw(keys(dense.shape), "key"))
    agree(operator.itemgetter(first), A, dense)
    shown, view = dense[first], A[first]
    if isinstance(view, sp.Tensor):
        second = assume_valid(shown, data.draw(keys(shown.shape), "second"))
        agree(operator.itemgetter(second), view, shown)
        agree(lambda a: np.maximum(a, 1), view, shown)
        agree(lambda a: np.concatenate([a, a]), view, shown)


@given(arrays(), st.data())
@examples(24)
def test_writes(make: Maker, case: tuple[Array, Any], data: st.DataObject) -> None:
    dense, fill = case
    A = make(dense, fill, data)
    dense = dense.copy()
    for _ in range(3):
        key = assume_valid(dense, data.draw(keys(dense.shape), "key"))
        target = np.shape(dense[key])
        kind = data.draw(st.sampled_from(["number", "array", "row", "tensor", "misfit"]), "kind")
        shape = {"number": (), "row": target[-1:], "misfit": (*target, 7) if dense.ndim else ()}.get(kind, target)
        size = math.prod(shape)
        values = data.draw(st.lists(st.sampled_from(cells(str(dense.dtype))), min_size=size, max_size=size), "values")
        value: Any = np.array(values, dtype=object).astype(dense.dtype).reshape(shape)
        wanted = dense.copy()
        try:
            wanted[key] = value
        except (ValueError, TypeError):  # the latter through a mask
            with pytest.raises(SparrowError) as caught:
                A[key] = value
            assert isinstance(caught.value, ValueError)
        else:
            dense = wanted
            A[key] = sp.asarray(value) if kind == "tensor" else value
        np.testing.assert_array_equal(A.to_numpy(), dense)
        assert A.nnz == np.count_nonzero(~is_fill(dense, A.fill_value))


@pytest.mark.parametrize("function", [operator.add, operator.mul, operator.sub, operator.pow])
@pytest.mark.parametrize(
    ("one", "two"), list(itertools.combinations(["int8", "uint8", "int64", "float16", "float32"], 2))
)
def test_overflow_matches_numpy(one: str, two: str, function: Any) -> None:
    a, b = (np.array([0, 100, 127, 0, 1]).astype(dtype) for dtype in (one, two))
    agree(lambda x: function(x, x), sp.asarray(a), a)
    agree(and_second(function, b, sp.asarray(b)), sp.asarray(a), a)
