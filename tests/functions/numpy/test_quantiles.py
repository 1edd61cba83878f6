"""Quantiles, weighted counts and masks of reductions, against NumPy."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow.errors import InvalidValueError, LabelError, ShapeError, SparrowError, UnsupportedError

METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
]  # fmt: skip
SHARES: list[Any] = [
    0.3, 0, 1, 0.5, 1.0, [0.1, 0.9], np.float32(0.3), np.array([0, 1]), np.array([0.25, 0.75], "f4"), np.float64(0.7),
    [], [[0.5, 0.2]],
]  # fmt: skip


def draw(seed: int, dtype: str, specials: tuple[float, ...] = ()) -> NDArray[Any]:
    """Return a matrix of which half is 0, with special values if it is of floats."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 6, 2).tolist())
    out = np.where(rng.random(shape) < 0.5, 0, rng.normal(0, 3, shape))
    if np.dtype(dtype).kind in "fc":
        if specials:
            out = np.where(rng.random(shape) < 0.2, rng.choice(specials, shape), out)
        return out.astype(dtype)
    return np.abs(out).astype(dtype)


def as_numpy(call: Any, *arrays: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return call(*arrays)


def assert_same(found: Any, expected: Any, exact: bool = True) -> None:
    found = np.asarray(found)
    assert found.dtype == np.asarray(expected).dtype
    assert found.shape == np.shape(expected)
    if exact:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-2 if found.dtype == np.float16 else 1e-5)


# -- quantiles ------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["f8", "f4", "i8", "i4", "u1"]),
    st.sampled_from(METHODS),
    st.sampled_from(SHARES),
    st.sampled_from([None, 0, 1, (0, 1), -1]),
    st.booleans(),
    st.sampled_from([(), (np.nan,), (np.nan, np.inf, -np.inf)]),
)
def test_quantiles(seed: int, dtype: str, method: Any, q: Any, axis: Any, keepdims: bool, specials: Any) -> None:
    dense = draw(seed, dtype, specials)
    options: dict[str, Any] = {"axis": axis, "method": method, "keepdims": keepdims}
    percents = q * 100 if isinstance(q, int | float) else np.multiply(q, 100)
    calls: list[Any] = [
        lambda x: np.quantile(x, q, **options),
        lambda x: np.percentile(x, percents, **options),
        lambda x: np.nanquantile(x, q, **options),
        lambda x: np.nanpercentile(x, percents, **options),
        lambda x: np.median(x, axis=axis, keepdims=keepdims),
        lambda x: np.nanmedian(x, axis=axis, keepdims=keepdims),
    ]
    for call in calls:
        assert_same(call(sp.asarray(dense)), as_numpy(call, dense))


def test_quantiles_of_fill_nan() -> None:
    dense = draw(5, "f8", (np.nan, np.nan, np.inf))
    dense[0] = np.nan
    at = np.nonzero(~np.isnan(dense))
    A = sp.from_coords(at, dense[at], shape=dense.shape, fill_value=np.nan)
    for call in (lambda x: np.nanmedian(x, axis=1), lambda x: np.nanquantile(x, 0.3, axis=0), np.nanmedian, np.median):
        assert_same(call(A), as_numpy(call, dense))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "?"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_median_of_empty_lines(dtype: str, axis: Any) -> None:
    for shape in ((0, 3), (3, 0)):
        empty = np.zeros(shape, dtype)
        for call in (np.median, np.nanmedian):
            result = as_numpy(lambda x, call=call: call(x, axis=axis), empty)
            found = np.asarray(call(sp.asarray(empty), axis=axis))
            assert found.shape == np.shape(result)
            np.testing.assert_array_equal(found, result)
    with pytest.raises(ShapeError, match="quantiles require elements"):
        np.quantile(sp.zeros((0, 3)), 0.5, axis=0)


@pytest.mark.parametrize("exponent", [53, 54, 60, 62])
@pytest.mark.parametrize("method", METHODS)
def test_quantiles_of_long_lines(exponent: int, method: Any) -> None:
    n = 2**exponent
    v = sp.from_coords([[0, n // 2, n - 1]], [-3.0, 2.0, 7.0], shape=(n,))
    assert np.quantile(v, 1.0, method=method) == 7
    assert np.quantile(v, 0.0, method=method) == -3
    assert np.quantile(v, 0.5, method=method) == 0
    assert np.nanquantile(v, [0.0, 1.0], method=method).tolist() == [-3, 7]
    assert np.median(v) == 0
    # The two largest of n elements are 2 and 7.
    last = np.quantile(v, 1 - 2.0**-53, method=method)
    assert last in (0, 2, 7) or 0 < last < 7


def test_integer_shares_keep_elements() -> None:
    big = np.array([2**62 + 1, 0, -(2**62) - 1])
    q: Any
    for q in (0, 1):
        assert_same(np.quantile(sp.asarray(big), q), np.quantile(big, q))
    infinite = np.array([[np.inf]])
    for q in (1, 1.0):
        assert_same(np.quantile(sp.asarray(infinite), q), as_numpy(lambda x, q=q: np.quantile(x, q), infinite))
    flags = np.array([True, False, True])
    assert_same(np.quantile(sp.asarray(flags), 0.4, method="lower"), np.quantile(flags, 0.4, method="lower"))


def test_quantile_errors() -> None:
    A = sp.asarray(np.eye(3))
    with pytest.raises(InvalidValueError, match="method must be one of 'linear'"):
        np.quantile(A, 0.5, method="best")  # type: ignore[call-overload]
    with pytest.raises(UnsupportedError, match="between booleans"):
        np.quantile(A > 0, 0.5)
    with pytest.raises(UnsupportedError, match="real dtype"):
        np.nanmedian(A * 1j)
    with pytest.raises(InvalidValueError, match="between 0 and 1"):
        np.nanpercentile(A, 101)


# -- masks of reductions ------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["f8", "f4", "f2", "i8", "u1", "c16", "?"]),
    st.sampled_from([None, 0, 1, (0, 1)]),
    st.booleans(),
    st.sampled_from([(), (np.nan,), (np.nan, np.inf)]),
)
def test_masked_reductions(seed: int, dtype: str, axis: Any, keepdims: bool, specials: Any) -> None:
    dense = draw(seed, dtype, specials)
    rng = np.random.default_rng(seed)
    mask = rng.random(dense.shape) < rng.choice([0, 0.5, 1]) if seed % 2 else rng.random(dense.shape[1]) < 0.5
    calls: list[Any] = [
        lambda x, m, name=name: getattr(np, name)(x, axis=axis, where=m, keepdims=keepdims)
        for name in ("var", "std", "nanvar", "nanstd", "nansum", "nanprod", "nanmean", "sum", "mean", "any", "all")
    ]
    calls += [
        lambda x, m, name=name: getattr(np, name)(x, axis=axis, where=m, keepdims=keepdims, initial=2)
        for name in ("nansum", "nanprod", *(("nanmin", "nanmax", "max") if dtype not in ("c16", "?") else ()))
    ]
    for call in calls:
        expected = as_numpy(call, dense, mask)
        for where in (mask, sp.asarray(mask)):
            assert_same(call(sp.asarray(dense), where), expected, exact=False)


def test_masked_reduction_errors() -> None:
    A = sp.asarray(np.eye(3))
    for name in ("nanmin", "nanmax", "min", "max"):
        with pytest.raises(InvalidValueError, match=f"{name}: a mask for where= requires initial="):
            getattr(A, name)(where=A > 0)
    with pytest.raises(UnsupportedError, match="argmax: where= must be 'all' or 'stored', got a mask"):
        A.argmax(where=A > 0)
    with pytest.raises(ShapeError, match="do not broadcast"):
        A.var(where=np.ones(2, bool))


def test_masked_variance_stays_sparse() -> None:
    A = sp.random((10**9, 10**9), nnz=1000, seed=0)
    stored = A.to_format("coo").data
    assert A.var(where=A > 0) == pytest.approx(stored.var())
    assert A.nanstd(where=A > 0.5) == pytest.approx(stored[stored > 0.5].std())


# -- weights --------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(["f8", "f4", "i4", "c16"]), st.booleans())
def test_weighted_counts(seed: int, dtype: str, is_tensor: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 30))
    x = rng.integers(0, 9, n) * (rng.random(n) < 0.5)
    weights = (rng.normal(0, 3, n) * (rng.random(n) < 0.7)).astype(dtype)
    shares = sp.asarray(weights) if is_tensor else weights
    minlength = int(rng.integers(0, 12))
    if dtype != "c16":
        found = np.bincount(sp.asarray(x), shares, minlength)
        assert_same(found, np.bincount(x, weights, minlength), exact=False)
    bins: Any = [4, [0, 1, 2.5, 9], np.arange(10)][seed % 3]
    for options in ({}, {"range": (1, 6)}, {"density": True}) if n and dtype != "c16" else ({},):
        count: Any = partial(np.histogram, bins=bins, **options)
        one = as_numpy(lambda a, w, count=count: count(a, weights=w), x, weights)
        other = as_numpy(lambda a, w, count=count: count(a, weights=w), sp.asarray(x), shares)
        np.testing.assert_allclose(other[0], one[0], rtol=1e-4, atol=1e-5)
        assert other[0].dtype == one[0].dtype
        np.testing.assert_array_equal(other[1], one[1])


def test_weights_of_matrices_and_long_vectors() -> None:
    dense = draw(3, "f8")
    weights = np.arange(float(dense.size)).reshape(dense.shape)
    for own in (weights, sp.asarray(weights)):
        found = np.histogram(sp.asarray(dense), 5, weights=own)
        np.testing.assert_allclose(found[0], np.histogram(dense, 5, weights=weights)[0])
    x = sp.from_coords([[3, 2**40 - 1]], [2, 5], shape=(2**40,))
    w = sp.from_coords([[3, 4, 2**40 - 1]], [0.5, 2.0, 1.0], shape=(2**40,))
    assert np.bincount(x, w).tolist() == [2, 0, 0.5, 0, 0, 1]


def test_weight_errors() -> None:
    x = sp.asarray([1, 0, 2])
    with pytest.raises(ShapeError, match=r"weights must have shape \(3,\)"):
        np.bincount(x, [1, 2])
    with pytest.raises(ShapeError, match="weights must have shape"):
        np.histogram(x, 3, weights=[1.0, 2.0])
    one, other = (
        sp.from_coords([[0, 1]], [1, 2], dims=["u"], labels={"u": names}) for names in (["a", "b"], ["b", "a"])
    )
    with pytest.raises(LabelError):
        np.bincount(one, other)


def test_array_equal_with_nan() -> None:
    dense = np.array([[np.nan, 0, 1], [2, np.nan, 0]])
    A = sp.asarray(dense)
    for other in (dense, np.nan_to_num(dense), dense[:, :2], np.where(np.isnan(dense), 0, dense)):
        for second in (other, sp.asarray(other)):
            for equal_nan in (True, False):
                expected = np.array_equal(dense, other, equal_nan=equal_nan)
                assert np.array_equal(A, second, equal_nan=equal_nan) is expected
    assert np.array_equal(sp.asarray([1, 2]), [1, 2], equal_nan=True)
    absent = sp.from_coords([[0]], [1.0], shape=(3,), fill_value=np.nan)
    assert np.array_equal(absent, [1, np.nan, np.nan], equal_nan=True)


# -- tensors in any place of the arguments ----------------------------------------------------------

V, M = np.array([3.0, 0, 1, 0, 2]), np.array([[0.0, 2, 0], [1, 0, 3]])
AT, B = np.array([1, 2]), np.array([True, False, True, False, True])
CALLS: dict[str, tuple[Any, ...]] = {
    "delete by numbers": (np.delete, V, AT),
    "delete by mask": (np.delete, V, B),
    "delete rows": (lambda m, i: np.delete(m, i, axis=1), M, AT),
    "append": (np.append, V, V),
    "isin": (np.isin, V, V),
    "interp": (np.interp, V, np.array([0.0, 4]), np.array([1.0, 2])),
    "digitize": (np.digitize, V, np.array([0.5, 2])),
    "searchsorted": (np.searchsorted, np.sort(V), V),
    "take": (np.take, V, AT),
    "take_along_axis": (lambda m, i: np.take_along_axis(m, i, 1), M, np.array([[0], [2]])),
    "compress": (np.compress, B, V),
    "extract": (np.extract, B, V),
    "select": (lambda b, v: np.select([b], [v], 7), B, V),
    "where": (np.where, B, V, V),
    "repeat": (np.repeat, V, np.array([1, 2, 0, 1, 3])),
    "average": (lambda v, w: np.average(v, weights=w), V, V),
    "bincount": (np.bincount, V.astype(int), V),
    "histogram": (lambda v, w: np.histogram(v, 3, weights=w)[0], V, V),
    "histogram edges": (lambda v, e: np.histogram(v, e)[0], V, np.array([0.0, 1, 4])),
    "quantile": (np.quantile, V, np.array([0.2, 0.5])),
    "percentile": (np.percentile, V, np.array([20.0, 50])),
    "nanquantile": (np.nanquantile, V, np.array([0.2, 0.5])),
    "clip": (np.clip, V, V, V),
    "diff": (lambda v, p: np.diff(v, prepend=p), V, np.array([5.0])),
    "union1d": (np.union1d, V, V),
    "setdiff1d": (np.setdiff1d, V, V),
    "outer": (np.outer, V, V),
    "kron": (np.kron, V, V),
    "dot": (np.dot, M, np.array([1.0, 2, 0])),
    "inner": (np.inner, V, V),
    "vdot": (np.vdot, V, V),
    "tensordot": (lambda a, b: np.tensordot(a, b, 1), M, M.T),
    "einsum": (lambda a, b: np.einsum("ij,kj->ik", a, b), M, M),
    "allclose": (np.allclose, V, V),
    "array_equal": (np.array_equal, V, V),
    "concatenate": (lambda a, b: np.concatenate([a, b]), V, V),
    "stack": (lambda a, b: np.stack([a, b]), V, V),
    "block": (lambda a, b: np.block([a, b]), V, V),
    "cov": (np.cov, V, V),
    "cross": (np.cross, V[:3], V[:3]),
}


@pytest.mark.parametrize("name", CALLS)
def test_tensors_as_any_argument(name: str) -> None:
    call, *arrays = CALLS[name]
    expected = call(*arrays)
    for chosen in range(1, 2 ** len(arrays)):
        operands = [sp.asarray(one) if chosen >> k & 1 else one for k, one in enumerate(arrays)]
        try:
            found = call(*operands)
        except SparrowError as error:
            assert "not supported" in str(error) or "must be" in str(error)  # noqa: PT017
            continue
        np.testing.assert_allclose(np.asarray(found), expected)


def test_delete_by_sparse_mask() -> None:
    x: Any = sp.asarray(V)
    rest: Any = np.delete(x, x > 1)
    assert rest.to_numpy().tolist() == [0, 1, 0]
    assert np.delete(V, x > 1).tolist() == [0, 1, 0]
    kept: Any = np.delete(sp.asarray(M), sp.asarray([False, True, False]), axis=1)
    assert kept.to_numpy().tolist() == [[0, 0], [1, 3]]
    with pytest.raises(ShapeError, match="a mask must have shape"):
        np.delete(x, sp.asarray([True]))
