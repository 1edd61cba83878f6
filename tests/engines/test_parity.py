"""Expressions on every engine against NumPy.

Functions that SQL does not support are listed too (``UNSUPPORTED``), so that the list stays true: they fall back.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.core.schema import is_fill
from sparrow.engines.duckdb import compile_query as compile_scan
from sparrow.engines.duckdb import unsupported_reason
from sparrow.errors import InvalidValueError
from sparrow.plan import Node
from sparrow.plan.aggregates import REDUCTIONS
from tests.engines.conftest import ENGINES
from tests.engines.helpers import memory, stored_relation

REAL = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]

UFUNCS: dict[str, np.ufunc] = {
    name: found
    for name in sorted(dir(np))
    if isinstance(found := getattr(np, name), np.ufunc) and found.nout == 1 and found.signature is None
    and found.nin < 3 and found.__name__ == name
}  # fmt: skip

_WHOLE = "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
UNSUPPORTED = {
    **dict.fromkeys(
        ["arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "copysign", "cos", "cosh",
         "deg2rad", "degrees", "exp", "exp2", "expm1", "fabs", "hypot", "log", "log10", "log1p", "log2", "rad2deg",
         "radians", "rint", "signbit", "sin", "sinh", "sqrt", "tan", "tanh"],
        "bool int8 uint8",  # which become float16
    ),
    "heaviside": "bool int8 uint8",
    "power": f"bool {_WHOLE}",  # whose products wrap
    "reciprocal": f"bool {_WHOLE}",
    **dict.fromkeys(["gcd", "lcm"], _WHOLE),
    **dict.fromkeys(["bitwise_count", "left_shift", "right_shift"], f"bool {_WHOLE}"),
    **dict.fromkeys(["logaddexp", "logaddexp2", "nextafter", "spacing"], f"bool {_WHOLE} float32 float64"),
    "ldexp": "bool int8 int16 int32 int64 uint8 uint16 uint32",
}  # fmt: skip
"""Functions that SQL does not run of two operands of one type, by that type."""

ROUNDED = {
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos", "cosh", "deg2rad",
    "degrees", "exp", "exp2", "expm1", "float_power", "hypot", "log", "log10", "log1p", "log2", "power", "rad2deg",
    "radians", "sin", "sinh", "tan", "tanh",
}  # fmt: skip
"""Functions that libraries round differently."""


@functools.cache
def specials(dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values at which types differ: ends, signs, halves, what is no number."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return np.array([ends.min, ends.min + 1, ends.max, ends.max - 1, 0, 1, 2, 3, 5, 7, 100], dtype)
    large, tiny = np.finfo(dtype).max, np.finfo(dtype).tiny
    return np.array(
        [np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 7, -3, 100.25, 1e-9, -1e-9, 30.5, large,
         -large, large / 2, tiny, -tiny], dtype
    )  # fmt: skip


def cells(shape: tuple[int, ...], dtype: Any, fill: Any, seed: int, summed: bool = False) -> NDArray[Any]:
    """Return an array about half fill; float sums of it are exact."""
    rng = np.random.default_rng(seed)
    pool = specials(np.dtype(dtype))
    if summed:
        wide = pool.astype(float)
        pool = pool[~(np.isfinite(wide) & (np.abs(wide) > 1e9))]
    values = pool[rng.integers(0, len(pool), shape)]
    absent = is_fill(values, fill) | (rng.random(shape) < 0.5)
    return np.where(absent, np.asarray(fill, dtype), values)


class Maker:
    """Makes tensors from arrays: in memory, stored, or a view of a stored one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def __call__(self, dense: NDArray[Any], fill: Any, place: str) -> sp.Tensor:
        if place == "memory" or (dense.dtype == np.uint64 and dense.max(initial=0) >= 2**63):
            return sp.Tensor(memory(dense, fill_value=fill))
        self.count += 1
        folder = self.folder / f"{self.count}"
        if place == "stored":
            return sp.Tensor(stored_relation(folder, dense, fill_value=fill))
        around = [(0, 0)] * (dense.ndim - 1) + [(1, 2)]
        larger = np.pad(dense, around, constant_values=dense.dtype.type(1))[::-1]
        view: Any = sp.Tensor(stored_relation(folder, larger, fill_value=fill))[::-1]
        cut: sp.Tensor = view[..., 1:-2]
        return cut


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return Maker(tmp_path_factory.mktemp("parity"))


PLACES = st.sampled_from(["memory", "stored", "view"])
SHAPES = st.sampled_from([(7,), (5, 6), (3, 1, 4), (0, 3), (1,), (30, 3)])
SEEDS = st.integers(0, 2**16)


def step(tensor: Any) -> Node:
    """Return the last step of an expression."""
    found: Node | None = tensor.__sparrow_scan__().step
    assert found is not None
    return found


def agree(found: Any, expected: Any, rounded: bool = False) -> None:
    """Compare an expression with an array on every engine."""
    expected = np.asarray(expected)
    if not isinstance(found, sp.Tensor):
        np.testing.assert_array_equal(found, expected)
        return
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    for engine in ENGINES:
        block = engines.evaluate(found.__sparrow_scan__(), engine)
        assert not is_fill(block.values, found.fill_value).any(), engine
        for earlier, later in zip(
            zip(*block.coords, strict=True), list(zip(*block.coords, strict=True))[1:], strict=False
        ):
            assert earlier < later, engine
        out = np.full(found.shape, found.fill_value, found.dtype)
        if found.ndim:
            out[block.coords] = block.values
        elif block.count:
            out[...] = block.values[0]
        if rounded and expected.dtype.kind == "f":
            eps = 1e-5 if expected.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(
                out, expected, rtol=eps, atol=float(np.finfo(expected.dtype).tiny), err_msg=engine
            )
        else:
            np.testing.assert_array_equal(out, expected, err_msg=engine)


def numpy(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return NumPy's result, None if it does not define the function."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments)
    except TypeError:
        return None


def fill_of(dtype: str, odd: bool) -> Any:
    return np.dtype(dtype).type(1 if odd else 0)


@settings(max_examples=26)
@given(
    st.sampled_from([u for u in UFUNCS.values() if u.nin == 1]),
    st.sampled_from(REAL),
    st.booleans(),
    SHAPES,
    PLACES,
    SEEDS,
)
def test_functions_of_one(
    make: Maker, ufunc: np.ufunc, dtype: str, odd: bool, shape: tuple[int, ...], place: str, seed: int
) -> None:
    fill = fill_of(dtype, odd)
    a = cells(shape, dtype, fill, seed)
    expected = numpy(ufunc, a)
    if expected is None:
        return
    agree(ufunc(make(a, fill, place)), expected, ufunc.__name__ in ROUNDED)


@settings(max_examples=32)
@given(
    st.sampled_from([u for u in UFUNCS.values() if u.nin == 2]), st.sampled_from(REAL), st.sampled_from(REAL),
    st.booleans(), st.booleans(), SHAPES, PLACES, SEEDS, st.data(),
)  # fmt: skip
def test_functions_of_two(
    make: Maker, ufunc: np.ufunc, one: str, two: str, odd: bool, odder: bool, shape: tuple[int, ...], place: str,
    seed: int, data: st.DataObject,
) -> None:  # fmt: skip
    other = tuple(data.draw(st.sampled_from([n, 1])) for n in shape)[data.draw(st.integers(0, len(shape))) :]
    fill, refill = fill_of(one, odd), fill_of(two, odder)
    a, b = cells(shape, one, fill, seed), cells(other, two, refill, seed + 1)
    try:
        expected = numpy(ufunc, a, b)
    except ValueError:  # integers to negative powers
        return
    if expected is None:
        return
    A, B = make(a, fill, place), make(b, refill, "memory" if place == "stored" else "stored")
    if ufunc is np.multiply:
        annihilated = (is_fill(a, fill) & (fill == 0)) | (is_fill(b, refill) & (refill == 0))
        expected = np.where(annihilated, expected.dtype.type(0), expected)
    agree(ufunc(A, B), expected, ufunc.__name__ in ROUNDED)


@settings(max_examples=32)
@given(
    st.sampled_from(REDUCTIONS), st.sampled_from(REAL), st.sampled_from([0, 1, 2, np.nan]), SHAPES, PLACES,
    SEEDS, st.booleans(), st.data(),
)  # fmt: skip
def test_reductions(
    make: Maker, name: str, dtype: str, fill: Any, shape: tuple[int, ...], place: str, seed: int, keepdims: bool,
    data: st.DataObject,
) -> None:  # fmt: skip
    fill = np.dtype(dtype).type(fill if np.dtype(dtype).kind == "f" or fill == fill else 1)
    exact = any(part in name for part in ("min", "max"))
    wraps = name in ("sum", "nansum", "prod", "nanprod") and np.dtype(dtype).kind in "iu"
    a = cells(shape, dtype, fill, seed, summed=not exact and not wraps)
    most = len(shape) if keepdims else max(len(shape) - 1, 1)
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1, max_size=most))
    axis: Any = min(axes) if "arg" in name else tuple(axes)
    stored_only = data.draw(st.booleans()) and name != "count"
    A = make(a, fill, place)
    where: Any = "stored" if stored_only else "all"
    options: dict[str, Any] = {}
    if name in ("var", "std", "nanvar", "nanstd"):
        options["ddof"] = data.draw(st.sampled_from([0, 1, 2]))
    if name == "norm":
        options["ord"] = data.draw(st.sampled_from([0, 1, 2, np.inf]))
    extra = {} if name == "count" else {"where": where}
    try:
        found = getattr(A, name)(axis=axis, keepdims=keepdims, **extra, **options)
    except ValueError:  # no cells, and no identity
        return
    if not isinstance(found, sp.Tensor):
        return
    try:
        blocks = {engine: engines.evaluate(found.__sparrow_scan__(), engine) for engine in ENGINES}
    except InvalidValueError:  # nothing but NaN, and NumPy's ValueError
        assert "nanarg" in name
        assert np.isnan(a).all(axis=axis).any()
        return
    dense = {}
    for engine, block in blocks.items():
        assert not is_fill(block.values, found.fill_value).any(), engine
        dense[engine] = np.full(found.shape, found.fill_value, found.dtype)
        dense[engine][block.coords] = block.values
    if found.dtype.kind == "f":
        eps = 1e-5 if found.dtype == np.float32 else 1e-9
        for engine in ("duckdb", "cupy", "toy"):
            np.testing.assert_allclose(dense[engine], dense["stream"], rtol=eps, atol=eps, err_msg=engine)
    else:
        for engine in ("duckdb", "cupy", "toy"):
            np.testing.assert_array_equal(dense[engine], dense["stream"], err_msg=engine)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fill", [0, 2, np.nan])
def test_groups_of_nan_only(dtype: str, fill: float) -> None:
    nan = np.nan
    a = np.array([[nan, nan, 1], [nan, fill, nan], [nan, nan, nan], [fill, fill, fill], [np.inf, nan, -np.inf]], dtype)
    A = sp.Tensor(memory(a, fill_value=fill))
    for axis in (0, 1):
        for name in (
            "nanmin",
            "nanmax",
            "nansum",
            "nanmean",
            "nanprod",
            "nanvar",
            "nanstd",
            "var",
            "prod",
            "min",
            "max",
            "sum",
            "mean",
            "any",
            "all",
        ):
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                expected = getattr(np, name)(a, axis=axis)
            agree(getattr(A, name)(axis=axis), expected, rounded=True)


def test_unsupported_in_sql() -> None:
    found: dict[str, str] = {}
    for name, ufunc in UFUNCS.items():
        for dtype in REAL:
            tensor = sp.asarray(np.array([0, 1], dtype))
            try:
                declined = unsupported_reason(step(ufunc(*[tensor] * ufunc.nin)))
            except TypeError:  # NumPy has no such function
                continue
            if declined is not None:
                found[name] = f"{found[name]} {dtype}" if name in found else dtype
    assert found == UNSUPPORTED


def test_reductions_unsupported_in_sql() -> None:
    found = {}
    for name in REDUCTIONS:
        of = [
            dtype
            for dtype in REAL
            if unsupported_reason(step(getattr(sp.asarray(np.ones((2, 2), dtype)), name)(axis=0)))
        ]
        if of:
            found[name] = " ".join(of)
    assert found == {
        "prod": f"bool {_WHOLE}",  # wraps
        "nanprod": f"bool {_WHOLE}",
        **dict.fromkeys(["argmin", "argmax", "nanargmin", "nanargmax"], " ".join(REAL)),
    }
    tensor = sp.asarray(np.ones((2, 2)))
    assert "ord" not in str(unsupported_reason(step(tensor.norm(axis=0))))
    assert unsupported_reason(step(tensor.norm(axis=0, ord=3))) == "the norm of order 3"
    assert unsupported_reason(step(tensor.astype("complex64").sum(axis=0))) == "SQL has no complex64"
    assert unsupported_reason(step(tensor.astype("float16") + 1)) == "SQL has no float16"
    assert unsupported_reason(step(tensor.astype("int8"))) == "float64 to int8: overflow is undefined"


CASTS = st.sampled_from(REAL)


@settings(max_examples=13)
@given(CASTS, CASTS, SHAPES, PLACES, SEEDS)
def test_casts(make: Maker, one: str, two: str, shape: tuple[int, ...], place: str, seed: int) -> None:
    a = cells(shape, one, 0, seed)
    if np.dtype(one).kind == "f" and np.dtype(two).kind in "iu":
        a = np.where(np.abs(a) < 100, a, 0).astype(one)  # overflow is undefined
    with np.errstate(all="ignore"):
        expected = a.astype(two)
    agree(make(a, 0, place).astype(two), expected)


@settings(max_examples=9)
@given(st.sampled_from(REAL), SHAPES, PLACES, SEEDS)
def test_where_clip_round_and_real(make: Maker, dtype: str, shape: tuple[int, ...], place: str, seed: int) -> None:
    a, b = cells(shape, dtype, 0, seed), cells(shape, dtype, 1, seed + 1)
    A, B = make(a, 0, place), make(b, np.dtype(dtype).type(1), place)
    with np.errstate(all="ignore"):
        agree(sp.where(A, B, A), np.where(a, b, a))
        agree(sp.where(A > B, A, 0), np.where(a > b, a, 0))
        agree(A.real, a.real)
        if dtype != "bool":
            agree(A.clip(1, 3), np.clip(a, 1, 3))
            agree(A.clip(max=2), np.clip(a, None, 2))
            agree(A**2, a**2, rounded=True)
        if np.dtype(dtype).kind == "f":
            agree(A.round(), np.round(a))
            agree(A.round(1), np.round(a, 1))


SCALARS = st.sampled_from([0, 1, -1, 2.5, np.nan, np.inf, True, np.float32(0.1), np.int8(-3), np.uint64(7), 2**40])


@settings(max_examples=17)
@given(st.sampled_from([u for u in UFUNCS.values() if u.nin == 2]), SCALARS, st.sampled_from(REAL), PLACES, SEEDS)
def test_functions_with_scalars(make: Maker, ufunc: np.ufunc, scalar: Any, dtype: str, place: str, seed: int) -> None:
    a = cells((6, 5), dtype, 0, seed)
    A = make(a, 0, place)
    for arguments, tensors in (((a, scalar), (A, scalar)), ((scalar, a), (scalar, A))):
        try:
            expected = numpy(ufunc, *arguments)
        except (OverflowError, ValueError):  # a number that does not fit, or integers to negative powers
            continue
        if expected is not None:
            agree(ufunc(*tensors), expected, ufunc.__name__ in ROUNDED)


@settings(max_examples=9)
@given(st.sampled_from(REAL), st.sampled_from([(5, 4), (4,), (1, 4), (5, 1)]), PLACES, SEEDS)
def test_products_with_dense_arrays(make: Maker, dtype: str, other: tuple[int, ...], place: str, seed: int) -> None:
    a, b = cells((5, 4), dtype, 0, seed), cells(other, "float64", 1, seed + 1)
    with np.errstate(all="ignore"):
        expected = np.where(a == 0, 0, a * b)
        agree(make(a, 0, place) * b, expected)
        agree((make(a, 0, place) * b)[::-2, 1:], expected[::-2, 1:])


def structural_nodes(A: Any, B: Any, like: Any) -> list[Any]:
    """Return rearrangements of tensors by sparrow, or of arrays by NumPy."""
    return [
        like.concat([A, B]), like.concat([A, B], 1)[2], like.concat([A, B, A])[::-3, 1:3], like.concat([A, B])[4:9],
        like.reshape(A, (4, -1)), like.reshape(A, (2, 3, 2, -1))[1, ::-1], like.tril(A, 1), like.triu(B, -1)[1:4, 2:],
        like.triu(A)[::-1], like.diagonal(A, 1), like.diagonal(B, -2)[1:], like.roll(A, 2, 1), A.T,
        like.stack([A, B], 1),
    ]  # fmt: skip


class _NumPy:
    concat, reshape, tril, triu, diagonal = np.concatenate, np.reshape, np.tril, np.triu, np.diagonal
    roll, stack = np.roll, np.stack


@settings(max_examples=8)
@given(st.sampled_from(REAL), PLACES, SEEDS)
def test_structural_nodes(make: Maker, dtype: str, place: str, seed: int) -> None:
    a, b = cells((6, 8), dtype, 0, seed), cells((6, 8), "float64" if seed % 2 else dtype, 0, seed + 1)
    found = structural_nodes(make(a, 0, place), make(b, 0, place), sp)
    for tensor, expected in zip(found, structural_nodes(a, b, _NumPy), strict=True):
        agree(tensor, expected)


NESTED: list[Callable[[Any, Any], Any]] = [
    lambda A, B: (A + B.T * 2)[1:, ::-2],
    lambda A, B: ((A + B) * (A - B)).sum(axis=1),
    lambda A, B: (A.T + B.sum(axis=0, keepdims=True))[3:0:-1],
    lambda A, B: np.maximum(A, B)[2] + A[:, 1],
    lambda A, B: (A > B)[[4, 1, 1]].sum(axis=0),
    lambda A, B: (abs(A) + 1).max(axis=0)[1:4] - B[0, 1:4],
    lambda A, B: ((A + B)[..., None] * (A - 1)[:, None, :]).sum(axis=(0, 2)),
    lambda A, B: (A + B)[[0, 2, 3], [1, 1, 4]] * 2,
    lambda A, B: (A + 0.5).var(axis=0, keepdims=True) * (B + A),
    lambda A, B: (A * B + 1).sum(axis=0),
]


@pytest.mark.parametrize("place", ["memory", "stored", "view"])
@pytest.mark.parametrize("number", range(len(NESTED)))
def test_nested_expressions_are_one_query(make: Maker, number: int, place: str) -> None:
    rng = np.random.default_rng(number)
    a, b = (rng.integers(-3, 4, (5, 5)) * (rng.random((5, 5)) < 0.5) * 1.0 for _ in range(2))
    found, expected = (NESTED[number](*pair) for pair in ((make(a, 0.0, place), make(b, 0.0, "stored")), (a, b)))
    agree(found, expected, rounded=True)
    with sparrow.testing.observe("engines.fallback") as fallbacks:
        computed = found.compute(engine="duckdb")
        counted = sp.sql("select count(*), sum(value) from found").fetchall()[0]
    assert fallbacks == []
    np.testing.assert_allclose(computed.to_numpy(), expected)
    assert counted[0] == computed.nnz
    assert (counted[1] or 0) == pytest.approx(float(computed.sum(where="stored")))


def test_fallback_inside_a_query() -> None:
    a = np.array([[0, 2, 3], [0, 0, 5]])
    A = sp.asarray(a)
    inner = A.prod(axis=0, keepdims=True) + A
    query = compile_scan(((inner + 1).sum(axis=0) * 2).__sparrow_scan__())
    assert query.text.count("FULL JOIN") == 1
    assert "GROUP BY" in query.text
    assert sorted(table.num_rows for table in query.tables.values()) == [1, 3]
    agree((inner + 1).sum(axis=0) * 2, ((a.prod(axis=0, keepdims=True) + a) + 1).sum(axis=0) * 2)


def test_products_of_expressions(make: Maker) -> None:
    a, b = cells((5, 6), "int32", 0, 1), cells((5, 6), "int16", 0, 2)
    A, B = make(a, 0, "stored"), make(b, 0, "memory")
    for engine in ENGINES:
        assert (
            sp.matmul((A * 3 + B)[:, 1:], np.arange(5), engine=engine).tolist()
            == ((a * 3 + b)[:, 1:] @ np.arange(5)).tolist()
        )


def test_complex_and_float16_fall_back(make: Maker) -> None:
    a = np.array([[0, 1 + 2j, 3], [0, 0, -1j]], np.complex64)
    agree(make(a, 0, "stored") * 2 + 1, a * 2 + 1)
    half = np.array([[0, 1, np.inf], [0, 0, -0.5]], np.float16)
    agree(np.exp(make(half, 0, "stored")), np.exp(half))
    agree(make(half, 0, "stored").astype("float32") + 1, half.astype("float32") + 1)


def test_nan_despite_parquet_statistics(make: Maker) -> None:
    a = np.array([[0, 1, np.nan], [2, np.nan, 3]])
    A = make(a, 0.0, "stored")
    assert np.isnan(sp.sql("select max(value) from A").fetchall()[0][0])
    assert sp.sql("select count(*) from A where isnan(value)").fetchall() == [(2,)]
    agree(A > 100, a > 100)
    agree(A.max(axis=1), a.max(axis=1))


def test_deterministic_sums() -> None:
    rng = np.random.default_rng(0)
    A = sp.asarray(rng.random((400, 300)))
    with sp.config(deterministic=True, threads=2):
        found = {(A + A).sum(axis=0).compute(engine="duckdb").to_numpy().tobytes() for _ in range(4)}
    assert len(found) == 1


def test_groups_larger_than_int64() -> None:
    shape = (2**45, 2**40, 3)
    for dtype, fill in (("int64", 3), ("uint64", 2**63 + 5), ("float64", 0.5), ("float64", 0)):
        T: Any = sp.from_coords(
            [[0, 2**44, 2**44], [2**39, 7, 7], [0, 1, 2]], np.array([5, 6, 7], dtype), shape=shape, fill_value=fill
        )
        for name in ("sum", "mean", "var", "min", "max", "any", "all", "norm", "count"):
            for axis in ((0,), (1, 2), (0, 1)):
                found = getattr(T, name)(axis=axis)
                blocks = [engines.evaluate(found.__sparrow_scan__(), engine) for engine in ("stream", "duckdb")]
                assert unsupported_reason(step(found)) is None
                np.testing.assert_array_equal(blocks[0].coords, blocks[1].coords)
                np.testing.assert_allclose(blocks[0].values, blocks[1].values, rtol=1e-12)
        flat = sp.reshape(T, (2**40, 3, 2**45))
        blocks = [engines.evaluate(flat.__sparrow_scan__(), engine) for engine in ("stream", "duckdb")]
        np.testing.assert_array_equal(blocks[0].coords, blocks[1].coords)
        np.testing.assert_array_equal(blocks[0].values, blocks[1].values)


def test_large_dense_operands_fall_back() -> None:
    A, x = sp.from_coords([[0], [5]], [2.0], shape=(1000, 1000)), np.ones((1000, 1000))
    x.flags.writeable = False  # else the product is done at once
    assert unsupported_reason(step(A * x)) is None
    with sp.config(memory_limit=10_000_000):
        assert unsupported_reason(step(A * x)) == "a dense array of 1000000 elements is large as a table"
        agree(A * x, np.where(np.arange(10**6).reshape(1000, 1000) == 5, 2.0, 0))
