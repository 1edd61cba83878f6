"""Arrays of pydata/sparse as operands, and tensors inside xarray."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse
import sparse
import xarray as xr

import sparrow as sp

DENSE = np.array([[0, 2, 0], [1, 0, 3], [0, 0, 4.0]])
OTHER = np.array([[5, 0, 0], [1, 0, 2], [0, 7, 0.0]])
KINDS: dict[str, Callable[[Any], Any]] = {
    "COO": sparse.COO.from_numpy,
    "GCXS": sparse.GCXS.from_numpy,
    "DOK": sparse.DOK.from_numpy,
    "filled": lambda array: sparse.COO.from_numpy(array, fill_value=7.0),
}


@pytest.mark.filterwarnings("ignore:.*(divide|invalid value)")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "gt", "le", "eq", "ne", "pow", "floordiv", "mod"])
def test_operators_of_pydata(kind: str, name: str) -> None:
    call = getattr(operator, name)
    A, S = sp.asarray(DENSE), KINDS[kind](OTHER)
    for found, expected in ((call(A, S), call(DENSE, OTHER)), (call(S, A), call(OTHER, DENSE))):
        assert isinstance(found, sp.Tensor | np.ndarray)
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("kind", ["COO", "GCXS"])
def test_products_with_pydata(kind: str) -> None:
    A, S = sp.asarray(DENSE), KINDS[kind](OTHER)
    for found, expected in (
        (A @ S, DENSE @ OTHER),
        (S @ A, OTHER @ DENSE),
        (sp.matmul(S, A), OTHER @ DENSE),
        (sp.einsum("ij,kj->ik", A, S), DENSE @ OTHER.T),
        (sp.tensordot(A, S, 1), DENSE @ OTHER),
        (sp.where(A > 1, S, 0), np.where(DENSE > 1, OTHER, 0)),
        (sp.concat([A, sp.asarray(S)]), np.concatenate([DENSE, OTHER])),
    ):
        np.testing.assert_array_equal(np.asarray(found), expected)
    B = A.compute()
    B[...] = S
    np.testing.assert_array_equal(B.to_numpy(), OTHER)
    x = sp.linalg.spsolve(KINDS[kind](DENSE + 5 * np.eye(3)), np.ones(3))
    np.testing.assert_allclose((DENSE + 5 * np.eye(3)) @ x, 1)


def test_ufunc_of_pydata_names_the_way_out() -> None:
    with pytest.raises(NotImplementedError, match=r"use the operator @, or sp\.matmul"):
        np.matmul(sparse.COO.from_numpy(OTHER), sp.asarray(DENSE))
    assert not hasattr(sp.asarray(DENSE), "_numba_type_")


XARRAY = """
x.all('a')
x.any()
np.all(x)
np.any(x, axis=0)
x.argmax('a')
x.argmin('b')
x.argsort()
x.argsort(axis=0)
x.astype('int64')
x.broadcast_like(xr.DataArray(np.zeros((3, 3, 2)), dims=('a', 'b', 'c')))
x.clip(1, 3)
x.isel(a=slice(2)).coarsen(a=2).mean()
x.coarsen(b=2, boundary='trim').std()
x.isel(a=slice(2)).coarsen(a=2).construct(a=('p', 'q'))
x.combine_first(x.shift(a=1))
x.compute()
x.conj()
(x > 1).conj()
x.copy()
x.count('a')
x.cumprod('a')
x.cumsum('b')
x.cumsum('b', skipna=False)
x.cumulative('b').sum()
x.cumulative(['a', 'b']).max()
x.cumulative_integrate('b')
x.diff('b')
x.differentiate('b')
x.differentiate('b', edge_order=2)
x.dot(x)
xr.dot(x, W, dim='b')
xr.cross(x, x, dim='b')
xr.corr(x, x, 'a')
xr.cov(x, x)
x.drop_duplicates('b')
x.drop_isel(b=[0])
x.drop_sel(b=[0])
x.dropna('a')
x.equals(x)
x.expand_dims('c')
x.fillna(0)
x.groupby(G).mean()
x.groupby(G).median()
x.groupby(G).first()
x.groupby(G) - x.groupby(G).mean()
x.groupby_bins('b', [-1, 0.5, 3]).sum()
x.head(a=2)
x.idxmax('b')
x.imag
x.integrate('b')
x.interp(b=[0.5, 1.5])
x.interp(b=[0.5], method='quadratic')
x.interpolate_na('b')
x.isel(a=1)
x.isel(a=[0, 0, 2])
x.isel(a=[True, False, True], b=[1, 2])
x.isin([1, 2])
x.isnull()
x.loc[:, 1]
x.map_blocks(lambda t: t + 1)
x.max()
x.mean('a')
x.median('a', skipna=False)
x.min('b')
x.notnull()
x.pad(a=1)
x.pad(a=(1, 2), constant_values=0)
x.pad(b=1, mode='edge')
x.polyfit('b', 1).polyfit_coefficients
x.prod('a')
x.quantile([0.25, 0.5], 'a')
x.query(b='b > 0')
x.reduce(np.sum, 'a')
x.reindex(b=[0, 5])
x.roll(a=1)
x.rolling(b=2).mean()
x.rolling(b=2).construct('w')
x.rolling(a=2, b=2, center=True).max()
x.rolling(a=2, min_periods=1).std()
x.rolling(b=2).count()
x.rolling(b=2).argmax()
x.rolling(b=2).reduce(np.sum)
x.round(1)
x.sel(b=[0.4], method='nearest')
x.shift(a=1)
x.shift(b=-2, fill_value=0)
x.sortby('b', ascending=False)
x.stack(z=('a', 'b')).unstack('z')
x.std('a')
x.std('a', ddof=1, skipna=False)
x.sum('a')
x.sum()
x.swap_dims(b='q')
x.thin(a=2)
x.to_dataset(dim='a').to_array('a')
x.to_series().to_xarray()
x.transpose('b', 'a')
x.var(skipna=False)
x.weighted(W).mean('b')
x.weighted(W).std()
x.weighted(W).quantile(0.5, dim='b')
x.where(x > 1)
x.where(x > 1, 0)
x.where(x > 0, drop=True)
xr.apply_ufunc(np.exp, x)
xr.concat([x, x], 'a')
xr.full_like(x, 3)
xr.where(x > 1, x, 0)
x[0].sortby('b').searchsorted(7)
""".strip().splitlines()
REFUSED = {
    "x.pad(a=1, mode='mean')": r"A\.to_numpy\(\)",
    "x.where(x != 3).polyfit('b', 1, skipna=True)": r"A\.to_numpy\(\)",
    "x.groupby(G).count()": r"A\.refill",
    "x.astype(bool).shift(a=1)": "dtype object is not supported: cast",
    "(x + 1j).median('a')": r"take A\.real",
}


def evaluate_xarray(call: str, data: Any) -> Any:
    b = [0.0, 1.0, 2.0]
    names = {
        "np": np,
        "xr": xr,
        "x": xr.DataArray(data, dims=("a", "b"), coords={"b": b}, name="v"),
        "W": xr.DataArray([1.0, 2.0, 3.0], dims="b", coords={"b": b}),
        "G": xr.DataArray(["x", "y", "x"], dims="b", name="g"),
    }
    return eval(call, names)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("call", XARRAY)
def test_xarray_methods(call: str) -> None:
    found, expected = evaluate_xarray(call, sp.asarray(DENSE)), evaluate_xarray(call, DENSE)
    if not isinstance(expected, xr.DataArray):
        np.testing.assert_array_equal(found, expected)
        return
    assert (found.dims, found.dtype) == (expected.dims, expected.dtype)
    xr.testing.assert_allclose(found.as_numpy(), expected)


@pytest.mark.parametrize("call", REFUSED)
def test_xarray_refusals_name_the_way_out(call: str) -> None:
    with pytest.raises(sp.errors.UnsupportedError, match=REFUSED[call]):
        evaluate_xarray(call, sp.asarray(DENSE))


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("axis", [None, 1, (0, 0), (-1, 0)])
def test_sliding_windows(size: int, axis: Any) -> None:
    windows = np.lib.stride_tricks.sliding_window_view
    sizes = size if axis == 1 else (size, 1)
    expected = windows(DENSE, sizes, axis)
    np.testing.assert_array_equal(np.asarray(windows(sp.asarray(DENSE), sizes, axis)), expected, strict=True)
    with pytest.raises(sp.errors.InvalidValueError, match=r"axis [01] must have from 0 to 3 elements, got 4"):
        windows(sp.asarray(DENSE), 4 if axis == 1 else (4, 1), axis)


BLOCKS = "vstack([A, A])|hstack([A, A])|vstack([S, A])|hstack([A, S])|vstack([A])|block_array([[A, None], [None, A]])"


@pytest.mark.parametrize("call", f"{BLOCKS}|bmat([[A, S]])|block_diag([A, S])|kron(A, S)".split("|"))
def test_blocks_of_scipy(call: str) -> None:
    S = scipy.sparse.csr_array(DENSE)
    found, expected = (eval(call, vars(scipy.sparse) | {"A": A, "S": S}) for A in (sp.asarray(DENSE), S))
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


@pytest.mark.parametrize("call", ["A + p", "A[0] * s", "A[0] < s", "A @ s", "p @ A", "np.add(A[0], s)", "A[0].dot(s)"])
def test_polars_operands_name_the_way_out(call: str) -> None:
    names: Any = {"np": np, "A": sp.asarray(DENSE), "s": pl.Series([1.0, 2, 3]), "p": pl.DataFrame({"a": [1.0, 2, 3]})}
    with pytest.raises(sp.errors.UnsupportedError, match=r"got (Series|DataFrame): pass its to_numpy\(\)"):
        eval(call, names)


@pytest.mark.parametrize("widths", [1, (0, 2), ((1, 0), (2, 3))])
@pytest.mark.parametrize("value", [0, 5])
def test_pad(widths: Any, value: int) -> None:
    found = sp.pad(sp.asarray(DENSE), widths, constant_values=value)
    np.testing.assert_array_equal(found.to_numpy(), np.pad(DENSE, widths, constant_values=value))


@pytest.mark.parametrize("axes", [None, (1, 0, 2), (2, 0, 1)])
def test_transpose(axes: Any) -> None:
    dense = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(sp.transpose(sp.asarray(dense), axes).to_numpy(), dense.transpose(axes))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("value", [5, 0.5, np.float32(2), np.array(3)])
def test_diff_with_numbers_at_the_ends(axis: int, value: Any) -> None:
    for dense in (DENSE, DENSE.astype(np.int64)):
        for ends in ({"prepend": value}, {"append": value}, {"prepend": value, "append": 0}):
            expected = np.diff(dense, axis=axis, **ends)
            for call in (np.diff, sp.diff):
                found = call(sp.asarray(dense), axis=axis, **ends)
                np.testing.assert_array_equal(found.to_numpy(), expected, strict=True)
