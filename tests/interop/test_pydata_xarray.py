"""Arrays of pydata/sparse as operands, and tensors inside xarray."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
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


XARRAY: dict[str, Callable[[Any], Any]] = {
    "shift": lambda x: x.shift(a=1),
    "shift back": lambda x: x.shift(b=-2, fill_value=0),
    "pad": lambda x: x.pad(a=(1, 2), constant_values=0),
    "pad edges": lambda x: x.pad(b=1, mode="edge"),
    "dot": lambda x: xr.dot(x, x, dim="a"),
    "stack": lambda x: x.stack(z=("a", "b")).unstack("z"),
    "transpose": lambda x: x.transpose("b", "a"),
    "cumsum": lambda x: x.cumsum("a"),
    "where": lambda x: x.where(x > 1, 0),
    "std": lambda x: x.std("a"),
    "roll": lambda x: x.roll(a=1),
    "diff": lambda x: x.diff("b"),
    "coarsen": lambda x: x.isel(a=slice(2)).coarsen(a=2).sum(),
}


@pytest.mark.parametrize("name", XARRAY)
def test_xarray_methods(name: str) -> None:
    found = XARRAY[name](xr.DataArray(sp.asarray(DENSE), dims=("a", "b")))
    expected = XARRAY[name](xr.DataArray(DENSE, dims=("a", "b")))
    assert found.dims == expected.dims
    np.testing.assert_array_equal(np.asarray(found.data), expected.data)


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
