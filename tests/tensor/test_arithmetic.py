"""Operators and ufuncs against NumPy: in memory, stored and through views."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.mixins import NDArrayOperatorsMixin

import sparrow as sp
from sparrow import engines
from sparrow.core.schema import DTYPES, is_fill
from sparrow.errors import InvalidValueError, ShapeError, TooLargeError, UnsupportedError
from sparrow.plan import freeze_array
from sparrow.tensor.arithmetic import Arithmetic
from sparrow.testing import tune

Maker = Callable[[Any], sp.Tensor]


@pytest.fixture(params=["memory", "stored", "view"], scope="module")
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Maker:
    def maker(dense: Any) -> sp.Tensor:
        dense = np.asarray(dense)
        if request.param == "view" and dense.ndim:
            bigger = np.full([n + 2 for n in dense.shape], dense.dtype.type(1))
            bigger[tuple(slice(1, -1) for _ in dense.shape)] = dense[::-1]
            view: sp.Tensor = sp.asarray(bigger)[(slice(-2, 0, -1), *(slice(1, -1) for _ in dense.shape[1:]))]
            return view
        A = sp.asarray(dense)
        return A.save(tmp_path_factory.mktemp("tensor") / "A.sparrow") if request.param == "stored" else A

    return maker


def some(shape: tuple[int, ...], seed: int, dtype: Any = float, odd: bool = False) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, shape) * (rng.random(shape) < 0.5)
    with np.errstate(all="ignore"):
        dense = np.asarray(values).astype(dtype)
    if odd and dense.dtype.kind in "fc" and dense.size:
        flat = dense.reshape(-1)
        flat[rng.integers(0, dense.size)] = np.nan
        flat[rng.integers(0, dense.size)] = np.inf
    return dense


def agree(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    if isinstance(found, sp.Tensor):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        values = engines.evaluate(found.__sparrow_scan__()).values
        assert not is_fill(values, found.fill_value).any()
        found = found.to_numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


UNARY = [np.negative, np.absolute, np.exp, np.sin, np.sqrt, np.isnan, np.sign, np.square, np.floor, np.log1p, np.cos]
BINARY = [
    np.add, np.subtract, np.multiply, np.true_divide, np.maximum, np.minimum, np.greater, np.less_equal, np.equal,
    np.not_equal, np.arctan2, np.hypot, np.logical_and, np.logical_or, np.floor_divide, np.remainder, np.fmax,
]  # fmt: skip
SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)
SEEDS = st.integers(0, 2**16)


@given(st.sampled_from(UNARY), SHAPES, SEEDS)
def test_unary_functions(make: Maker, ufunc: np.ufunc, shape: tuple[int, ...], seed: int) -> None:
    dense = some(shape, seed, odd=True)
    with np.errstate(all="ignore"):
        agree(ufunc(make(dense)), ufunc(dense))


@given(st.data(), st.sampled_from(BINARY), SHAPES, SEEDS)
def test_binary_functions(make: Maker, data: st.DataObject, ufunc: np.ufunc, shape: tuple[int, ...], seed: int) -> None:
    other = tuple(data.draw(st.sampled_from([n, 1])) for n in shape)[data.draw(st.integers(0, len(shape))) :]
    odd = ufunc is not np.multiply
    a, b = some(shape, seed, odd=odd), some(other, seed + 1, odd=odd)
    with np.errstate(all="ignore"):
        agree(ufunc(make(a), make(b)), ufunc(a, b))
        agree(ufunc(make(a), b), ufunc(a, b))
        agree(ufunc(b, make(a)), ufunc(b, a))


@given(st.sampled_from(BINARY), st.sampled_from([0, 1, 2.5, -1, np.nan, np.float32(2), True]), SHAPES, SEEDS)
def test_scalar_operands(make: Maker, ufunc: np.ufunc, scalar: Any, shape: tuple[int, ...], seed: int) -> None:
    dense = some(shape, seed, odd=True)
    with np.errstate(all="ignore"):
        agree(ufunc(make(dense), scalar), ufunc(dense, scalar))
        agree(ufunc(scalar, make(dense)), ufunc(scalar, dense))


@given(st.sampled_from([operator.add, operator.mul, operator.sub, operator.lt]), st.data(), SEEDS)
def test_promotion_and_overflow(function: Any, data: st.DataObject, seed: int) -> None:
    one, two = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))
    a, b = some((4, 3), seed, one), some((4, 3), seed + 1, two)
    try:
        with np.errstate(all="ignore"):
            expected = function(a, b)
    except TypeError:
        with pytest.raises(TypeError):
            function(sp.asarray(a), sp.asarray(b))
        return
    agree(function(sp.asarray(a), sp.asarray(b)), expected)


def test_absent_elements_annihilate_in_array_products() -> None:
    A: Any = sp.asarray([0.0, 2.0, 0.0])
    B = sp.asarray([np.nan, np.inf, 3.0])
    assert (A * B).to_numpy().tolist() == [0, np.inf, 0]
    assert (A * B.to_numpy()).nnz == 1
    assert np.isnan((A * np.nan).fill_value)
    assert np.exp(A).fill_value == 1
    assert np.isnan((A / A).fill_value)
    assert (np.exp(A).nnz, (A / A).nnz) == (1, 1)


def test_nnz_of_products_and_sums() -> None:
    n = 10**12
    A = sp.from_coords([[5, n - 1], [7, n - 1]], [2.0, 3.0], shape=(n, n))
    B = sp.from_coords([[5, 6], [7, 8]], [10.0, 20.0], shape=(n, n))
    assert (A * B).to_arrow().to_pydict() == {"d0": [5], "d1": [7], "value": [20.0]}
    assert (A + B).to_arrow()["value"].to_pylist() == [12, 20, 3]
    assert (A == B).fill_value
    assert (A == B).nnz == 3


def test_product_with_broadcast_operand() -> None:
    n = 10**9  # repeated that often no operand would fit
    A: Any = sp.from_coords([[0, 5, n - 1], [7, 8, n - 1]], [2.0, np.inf, 3.0], shape=(n, n))
    row = sp.from_coords([[0, 0], [7, n - 1]], [np.nan, 10.0], shape=(1, n))
    column = sp.from_coords([[5, n - 1], [0, 0]], [-1.0, 4.0], shape=(n, 1))
    ones = sp.from_coords([[8]], [0.5], shape=(n,), fill_value=1.0)
    cell = sp.from_coords([[0], [0]], [2.0], shape=(1, 1))
    for found, entries in (
        (A * row, [(0, 7, np.nan), (n - 1, n - 1, 30.0)]),
        (column * A, [(5, 8, -np.inf), (n - 1, n - 1, 12.0)]),
        (A * ones, [(0, 7, 2.0), (5, 8, np.inf), (n - 1, n - 1, 3.0)]),
        (A * cell, [(0, 7, 4.0), (5, 8, np.inf), (n - 1, n - 1, 6.0)]),
        ((A * column)[5:], [(0, 8, -np.inf), (n - 6, n - 1, 12.0)]),
        ((A * sp.from_coords([[], []], [], shape=(1, n))), []),
    ):
        np.testing.assert_equal([tuple(row.values()) for row in found.to_arrow().to_pylist()], entries)
        assert found.fill_value == 0


@given(seed=st.integers(0, 99), turned=st.booleans(), data=st.data())
def test_product_without_shared_axes(seed: int, turned: bool, data: st.DataObject) -> None:
    first, second = (tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=2))) for _ in range(2))
    key = (slice(None),) * len(first) + (None,) * len(second)
    a, b = some(first, seed, data.draw(st.sampled_from(DTYPES)))[key], some(second, seed + 1)
    A, B = sp.asarray(a.reshape(first))[key], sp.asarray(b)
    if turned:
        a, b, A, B = a[::-1], b[..., ::-1], A[::-1], B[..., ::-1]
    with tune("stream", partition_rows=3):
        agree(A * B, a * b)
        agree(B * A, b * a)
        agree((A * 2 * B)[1:, ..., :2], (a * 2 * b)[1:, ..., :2])


def test_outer_product_of_stored_elements() -> None:
    n = 10**12
    v = sp.from_coords([[5, n - 1]], [2.0, np.inf], shape=(n,))
    w = sp.from_coords([[7, 8]], [10.0, 0.5], shape=(n,))
    assert (v[:, None] * w).to_arrow()["value"].to_pylist() == [20, 1, np.inf, np.inf]
    many = sp.asarray(np.ones(2**18))
    for outer in (many[:, None] * many, many[:, None] + many, many[:, None] / many):
        with pytest.raises(TooLargeError, match=r"68\.7G elements, would take 1\.10 TB"):
            outer.nnz  # noqa: B018
    assert (many[:, None] * many)[[3, 5]].nnz == 2**19


def test_lazy_if_sparse_eager_if_dense() -> None:
    A, D = sp.asarray([[0, 2], [3, 0]]), np.array([[1, 0], [1, 1]])
    assert repr(A + A).endswith("nnz=? coo lazy>")
    assert isinstance(A * D, sp.Tensor)
    assert isinstance(A / D, sp.Tensor)
    assert isinstance(A + D, np.ndarray)
    assert isinstance(A > D, np.ndarray)
    agree(A / D, np.array([[0, np.inf], [3, 0]]))
    agree(A / np.array([0.0, np.nan]), np.array([[np.nan, np.nan], [np.inf, np.nan]]))


def test_expressions_pin_their_operands(make: Maker) -> None:
    A = make([1.0, 0, 3])
    twice = A * 2
    A[0] = 5
    assert twice.to_numpy().tolist() == [2, 0, 6]
    with pytest.raises(ValueError, match="expression"):
        twice[0] = 1


@tune("stream", partition_rows=5)
def test_expressions_are_tensors(make: Maker) -> None:
    a, b = some((7, 6), 1), some((7, 6), 2)
    C, c = make(a) + make(b) * 2, a + b * 2
    assert C.nnz == np.count_nonzero(c)
    assert C[3, 4] == c[3, 4]
    agree(C.T[::-1, 1:5], c.T[::-1, 1:5])
    agree(C[[4, 0, 4]], c[[4, 0, 4]])
    agree(C[C > 1], c[c > 1])
    np.testing.assert_allclose(C @ np.arange(6.0), c @ np.arange(6.0))
    np.testing.assert_allclose(sp.matmul(C.T, np.arange(7.0), engine="duckdb"), c.T @ np.arange(7.0))
    assert sp.sql("select sum(value) from C", C=C).fetchall() == [(c.sum(),)]
    assert "scan" in C.explain()


@tune("stream", partition_rows=9)
def test_save_expression_streams(tmp_path: Path) -> None:
    dense = some((40, 8), 3)
    A = sp.asarray(dense).save(tmp_path / "A.sparrow")
    B = (A - A[::-1]).save(tmp_path / "B.sparrow")
    agree(B, dense - dense[::-1])
    assert B.verify() == []


def test_in_place_keeps_dtype_and_fill(make: Maker) -> None:
    a = some((3, 4), 4)
    A = make(a.copy())
    same = A
    A += np.ones(4)
    a += np.ones(4)
    A *= A
    a *= a
    assert A is same
    agree(A, a)
    assert A.fill_value == 0
    with pytest.raises(TypeError, match="astype"):
        make([1, 2]).__itruediv__(3)
    dense = np.ones((3, 4))
    dense *= A
    np.testing.assert_array_equal(dense, a)


def test_where_clip_round_astype(make: Maker) -> None:
    a, b = some((3, 4), 5), some((3, 4), 6)
    A, B = make(a), make(b)
    agree(sp.where(A > 0, A, B), np.where(a > 0, a, b))
    agree(np.where(A > 0, 0, B), np.where(a > 0, 0, b))
    agree(A.clip(-1, 1), a.clip(-1, 1))
    agree(np.clip(A, 1, 2), np.clip(a, 1, 2))
    limit = np.array(1)
    limited = A.clip(0, limit)
    limit[...] = 7  # too late for a tensor that is computed when it is read
    agree(limited, a.clip(0, 1))
    agree((A / 3).round(1), (a / 3).round(1))
    agree(A.astype("int8"), a.astype("int8"))
    assert (A * 0.1).astype(int).nnz == 0
    agree((A + 1j * B).imag, b)
    agree(np.conjugate(A * 1j), np.conjugate(a * 1j))
    agree((A * 1j).conj(), (a * 1j).conj())
    agree((A + 1j * B).real, a)
    quotient, rest = divmod(A, 2)
    agree(quotient, a // 2)
    agree(rest, a % 2)


def test_contains() -> None:
    A = sp.asarray([[1.0, np.nan], [0.0, 3.0]])
    assert [value in A for value in (3, 0, 2, np.nan)] == [True, True, False, False]
    assert 0 not in sp.asarray([[1, 2]])


def test_ragged_list_raises() -> None:
    with pytest.raises(UnsupportedError, match=r"is not an operand: .*inhomogeneous"):
        np.add(sp.asarray([[1, 2]]), [[1], [1, 2]])


def test_error_suggests_fix(make: Maker) -> None:
    A = make([[1.0, 0]])
    with pytest.raises(ShapeError, match=r"\(1, 2\) and \(3,\)"):
        A + np.ones(3)
    with pytest.raises(UnsupportedError, match=r"np.add.reduceat.*to_numpy"):
        np.add.reduceat(A, [0])
    with pytest.raises(UnsupportedError, match=r"np\.unwrap"):
        np.unwrap(A)
    with pytest.raises(TypeError):
        A + "a"
    with pytest.raises(TypeError):
        np.bitwise_and(A, 1)
    with pytest.raises(ValueError, match="negative integer powers"):
        sp.asarray([1, 0]) ** -1


@pytest.mark.parametrize("engine", ["stream", "duckdb"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "bool", "complex64"])
def test_divide_by_array(engine: Any, dtype: str) -> None:
    dense = np.random.default_rng(0).integers(-2, 3, (6, 5)).astype(dtype)
    tensor = sp.asarray(dense)
    whole, holes = np.array([2.0, -1.0, 4.0, 3.0, 1.0]), np.array([2.0, 0.0, np.nan, -0.0, 1.0])
    for divisor in whole, holes, np.zeros(5), np.array([2, 0, 1, 5, 0], "int8"), holes.astype("float32"):
        for by in divisor, divisor[:, None], np.tile(divisor, (6, 1)):
            if by.shape == (5, 1):
                numbers, other = dense[:5], tensor[:5]
            else:
                numbers, other = dense, tensor
            with np.errstate(all="ignore"):
                expected = numbers / by
            found = (other / by).compute(engine=engine)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found.to_numpy(), expected)


def test_divide_by_array_cost_and_nan_limit() -> None:
    tensor = sp.from_coords([[0, 5], [1, 2]], [1.0, 2.0], shape=(100_000, 100_000))
    divisor = np.full(100_000, 4.0)
    assert (tensor / divisor[:, None]).compute().nnz == (tensor / divisor).sum() * 4 - 1 == 2
    divisor[::2] = 0
    quotient = tensor / divisor[:, None]
    with sp.config(memory_limit="1GB"):
        assert quotient[:2].nnz == 100_000
        for work in (lambda: quotient.nnz), (lambda: quotient.sum(axis=0).compute()), quotient.compute:
            with pytest.raises(TooLargeError, match=r"divide of shape .* 5\.00G elements.*np\.where\(d == 0"):
                work()


@pytest.mark.parametrize(
    "build",
    [
        lambda A, D: A * D,
        lambda A, D: A * D[0],
        lambda A, D: A / D,
        lambda A, D: A * np.broadcast_to(D[0], (6, 5)),
        lambda A, D: A * D.T.reshape(6, 5),
        lambda A, D: sp.where(A > 0, D[:1] * 1, A) * D[::-1],
        lambda A, D: sp.einsum("ij,kl->ijkl", A, D),
    ],
)
def test_expression_pins_arrays(build: Callable[..., Any]) -> None:
    A, D = sp.random((6, 5), density=0.5, seed=0), np.arange(1.0, 31).reshape(6, 5)
    found, wanted = build(A, D), np.asarray(build(A, D.copy()))
    D[:] = 7
    np.testing.assert_array_equal(np.asarray(found), wanted)


def test_read_only_arrays_are_not_copied(tmp_path: Path) -> None:
    D = np.ones((6, 5))
    D.flags.writeable = False
    assert freeze_array(D) is D
    assert freeze_array(view := D[::2].T) is view
    np.save(tmp_path / "D.npy", D)
    for mode in ("r", "r+", "c"):
        mapped: Any = np.load(tmp_path / "D.npy", mmap_mode=mode)
        for array in (mapped, np.asarray(mapped), mapped[1:], np.broadcast_to(mapped[0], (9, 5))):
            assert freeze_array(array) is array
    tall = np.broadcast_to(np.ones(5), (10**9, 5))
    assert freeze_array(tall).strides == tall.strides  # one row of it is copied
    with sp.config(memory_limit="1MB"), pytest.raises(TooLargeError, match="writeable = False"):
        sp.zeros((1000, 1000)).T * np.ones((1000, 1000))


@pytest.mark.parametrize("ndim", [32, 63, 64])
def test_many_dimensions_times_large_array(ndim: int) -> None:
    D = np.arange(1 << 17, dtype=float)
    A = sp.from_coords([[0]] * (ndim - 1) + [[5]], [2.0], shape=(1,) * (ndim - 1) + D.shape)
    found = A * D
    assert found.nnz == 1
    assert found.sum() == 10


@pytest.mark.parametrize("engine", ["stream", "duckdb"])
@pytest.mark.parametrize("build", [lambda A, D: A * D, lambda A, D: D * A, lambda A, D: A / D, lambda A, D: A * D * D])
def test_small_product_caches_result(build: Callable[..., Any], engine: Any) -> None:
    A = sp.from_coords([[0, 0, 9, 9], [1, 7, 0, 9]], [1.5, -2.0, 3.0, 0.5], shape=(10, 20_000))
    D = np.random.default_rng(0).random((10, 20_000))
    D[0, 1], D[9] = np.nan, np.inf
    for D[9, 0] in (0.0, 2.0):
        wanted = np.zeros(D.shape)
        with np.errstate(all="ignore"):
            wanted[A.to_numpy() != 0] = build(A.to_numpy(), D)[A.to_numpy() != 0]
        given = D.copy()
        found = build(A, given)
        given[:] = 7
        np.testing.assert_array_equal(found.compute(engine=engine).to_numpy(), wanted)
    with sp.config(memory_limit="1MB"):
        product = sp.eye(1000) * np.full((1000, 1000), 2.0)
        assert (product.sum(), len(product._source.operands)) == (2000, 1)  # it is done: nothing is to be matched later


def test_square_of_booleans() -> None:
    dense = np.array([[True, False], [False, True]])
    for power in (2, 3, 2.0, np.int64(2)):
        found, wanted = sp.asarray(dense) ** power, dense**power
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.to_numpy(), wanted)


def test_error_only_if_an_element_has_the_value() -> None:
    nothing = sp.asarray(np.zeros((0, 3), np.int64)).refill(3)
    assert (nothing**-2).to_numpy().shape == (0, 3)
    with pytest.raises(InvalidValueError, match="negative integer powers"):
        sp.asarray(np.zeros((1, 3), np.int64)).refill(3) ** -2


def test_operators_match_numpy_mixin() -> None:
    class Recorder:
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
            return ufunc, method, [each is self for each in inputs], list(options)

    class Own(Recorder, Arithmetic): ...

    class Theirs(Recorder, NDArrayOperatorsMixin): ...

    class Declining:
        __array_ufunc__ = None

    assert NDArrayOperatorsMixin not in sp.Tensor.__mro__  # completion would read the stubs that it is in
    methods = [name for name, found in vars(NDArrayOperatorsMixin).items() if callable(found)]
    assert "__rdivmod__" in methods
    for name in methods:
        for operands in ((), (2,), (Declining(),)):
            found, wanted = (_result(getattr(made, name), operands) for made in (Own(), Theirs()))
            assert found == wanted


def _result(method: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    try:
        return method(*operands)
    except TypeError:
        return TypeError
