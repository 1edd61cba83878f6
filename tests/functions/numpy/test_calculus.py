"""np.insert, gradient, ediff1d, trapezoid, polynomials: NumPy's results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import sparrow as sp
from sparrow.errors import InvalidValueError, ShapeError, SparrowError, UnsupportedError

DENSE = np.array([[0.0, 2, 0, 5, 0], [3, 0, -1, 0, 0], [0, 0, 0, 7, 1.5]])
SPACED = np.array([0.0, 1, 3, 3.5, 7])
TYPES = ["float64", "float32", "int64", "int8", "uint8", "complex64", "bool"]

CALLS: dict[str, Callable[[Any], Any]] = {
    "gradient": np.gradient,
    "gradient of an axis": lambda x: np.gradient(x, axis=1),
    "gradient from the end": lambda x: np.gradient(x, axis=-2),
    "gradient of axes": lambda x: np.gradient(x, axis=(1, 0)),
    "gradient spaced": lambda x: np.gradient(x, 0.5),
    "gradient of two spacings": lambda x: np.gradient(x, 2, 3.0),
    "gradient at coordinates": lambda x: np.gradient(x, SPACED, axis=1),
    "gradient second order": lambda x: np.gradient(x, axis=1, edge_order=2),
    "gradient second order at coordinates": lambda x: np.gradient(x, SPACED, axis=1, edge_order=2),
    "gradient of a vector": lambda x: np.gradient(x[1]),
    "ediff1d": np.ediff1d,
    "ediff1d with ends": lambda x: np.ediff1d(x, to_begin=x[0, :2], to_end=x[2]),
    "trapezoid": np.trapezoid,
    "trapezoid of rows": lambda x: np.trapezoid(x, axis=0),
    "trapezoid at coordinates": lambda x: np.trapezoid(x, SPACED),
    "trapezoid at its own": lambda x: np.trapezoid(x, x),
    "trapezoid spaced": lambda x: np.trapezoid(x, dx=0.25),
    "polyval": lambda x: np.polyval([2, 0, 1], x),
    "polyval without constant": lambda x: np.polyval([1, 0], x),
    "insert": lambda x: np.insert(x, 1, 5),
    "insert rows": lambda x: np.insert(x, 1, 7, axis=0),
    "insert a row": lambda x: np.insert(x, -1, x[0], axis=0),
    "insert columns": lambda x: np.insert(x, [1, 1, 4], [[1], [0], [2]], axis=1),
    "insert at a slice": lambda x: np.insert(x, slice(0, 4, 2), 3, axis=1),
    "insert by a mask": lambda x: np.insert(x, np.array([True, False, True]), 1, axis=0),
    "insert nothing": lambda x: np.insert(x, [], 1, axis=0),
    "insert at one place of a list": lambda x: np.insert(x, [2], [[1, 2], [3, 4], [5, 6]], axis=1),
    "insert tensors": lambda x: np.insert(x, 5, x[:, 0], axis=1),
    "insert in an array": lambda x: np.insert(DENSE.astype(x.dtype), 1, x[0], axis=0),
    "distinct rows": lambda x: np.unique(np.concatenate([x, x]), axis=0),
    "distinct columns": lambda x: np.unique(x, axis=1, return_counts=True),
    "equal to None": lambda x: x == None,  # noqa: E711
    "not equal to None": lambda x: x != None,  # noqa: E711
}
FLOATS: dict[str, Callable[[Any], Any]] = {"sinc": np.sinc, "i0": np.i0}


def as_arrays(found: Any) -> list[np.ndarray[Any, Any]]:
    parts = found if isinstance(found, tuple | list) else [found]
    return [part.to_numpy() if hasattr(part, "to_numpy") else np.asarray(part) for part in parts]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_numpy(name: str, dtype: str) -> None:
    dense = abs(DENSE).astype(dtype) if dtype == "uint8" else DENSE.astype(dtype)
    if dtype == "bool" and name.startswith("gradient"):
        with pytest.raises(UnsupportedError, match="must be numeric, got bool"):
            CALLS[name](sp.asarray(dense))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = as_arrays(CALLS[name](dense))
        except (TypeError, ValueError) as error:
            with pytest.raises((SparrowError, type(error))):
                as_arrays(CALLS[name](sp.asarray(dense)))
            return
    found = as_arrays(CALLS[name](sp.asarray(dense)))
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.parametrize("name", FLOATS)
def test_functions_of_floats(name: str, tmp_path: Path) -> None:
    A = sp.asarray(DENSE).save(tmp_path / "A")
    found: Any = FLOATS[name](A)
    np.testing.assert_allclose(found.to_numpy(), FLOATS[name](DENSE), atol=1e-15)
    assert found.fill_value == 1


@given(
    npst.arrays(np.int64, npst.array_shapes(min_dims=1, max_dims=3, max_side=4), elements=st.integers(-2, 2)), st.data()
)
def test_insert_anything_anywhere(dense: Any, data: st.DataObject) -> None:
    axis = data.draw(st.none() | st.integers(-dense.ndim, dense.ndim - 1))
    size = dense.size if axis is None else dense.shape[axis]
    where = data.draw(
        st.integers(-size - 1, size + 1)
        | st.lists(st.integers(-size, size), max_size=3)
        | st.slices(size)
        | st.lists(st.booleans(), min_size=size, max_size=size).map(np.array)
    )
    values = data.draw(st.integers(-2, 2) | npst.arrays(np.int64, npst.array_shapes(max_dims=dense.ndim, max_side=3)))
    try:
        expected = np.insert(dense, where, values, axis)
    except (IndexError, ValueError) as error:
        with pytest.raises((SparrowError, type(error))):
            np.insert(sp.asarray(dense), where, values, axis)
        return
    found: Any = np.insert(sp.asarray(dense), where, values, axis)
    np.testing.assert_array_equal(found.to_numpy(), expected)


def test_results_stay_sparse(tmp_path: Path) -> None:
    A: Any = sp.random((3000, 2000), nnz=500, seed=1).save(tmp_path / "A")
    found: Any
    for found, most in (
        (np.gradient(A, axis=0), 3 * A.nnz),
        (np.ediff1d(A), 2 * A.nnz),
        (np.polyval([3, 1, 0], A), A.nnz),
        (np.insert(A, [4, 9], 0, axis=0), A.nnz),
        (np.insert(A + 1, 4, 1, axis=0), A.nnz),  # values that are the fill
        (A == None, 0),  # noqa: E711
        (A != None, 0),  # noqa: E711
    ):
        assert found.nnz <= most


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: np.gradient(x, 1, 2, 3), InvalidValueError),
        (lambda x: np.gradient(x, axis=(0, 0)), InvalidValueError),
        (lambda x: np.gradient(x, edge_order=x.ndim + 1), InvalidValueError),
        (lambda x: np.gradient(x, [0, 1], axis=1), ShapeError),
        (lambda x: np.gradient(x[:1], axis=0), ShapeError),
        (lambda x: np.trapezoid(x, [1, 2]), ShapeError),
        (lambda x: np.ediff1d(x.astype(int), to_end=1.5), UnsupportedError),
        (lambda x: np.insert(x, np.array([1.5]).tolist(), 0), (SparrowError, IndexError)),
        (lambda x: np.insert(x, 99, 0), IndexError),
    ],
)
def test_errors(call: Callable[[Any], Any], error: Any) -> None:
    with pytest.raises(error):
        call(sp.asarray(DENSE))


def test_reversed_reads_once(tmp_path: Path) -> None:
    A = sp.asarray(DENSE).save(tmp_path / "A")
    with sp.explained() as plans:
        assert list(reversed(A.sum(axis=0))) == DENSE.sum(axis=0)[::-1].tolist()
    assert len(plans) == 1
    assert [row.to_numpy().tolist() for row in reversed(A)] == DENSE[::-1].tolist()


LABELS = {"u": ["c", "a", "b"], "i": list("vwxyz")}


def test_labels_of_an_axis_stay_or_go() -> None:
    A = sp.asarray(DENSE, dims=("u", "i"), labels=LABELS)
    places = sp.asarray(SPACED, dims=("i",), labels={"i": LABELS["i"]})[[4, 2, 0, 1, 3]].compute()  # in another order
    for found, expected, labels in (
        (np.gradient(A, places, axis=1), np.gradient(DENSE, SPACED, axis=1), ["u", "i"]),
        (np.gradient(A, axis=0), np.gradient(DENSE, axis=0), ["u", "i"]),
        (np.trapezoid(A, places), np.trapezoid(DENSE, SPACED), ["u"]),
        (np.trapezoid(A, A), np.trapezoid(DENSE, DENSE), ["u"]),
        (np.insert(A, 1, 5, axis=0), np.insert(DENSE, 1, 5, axis=0), ["i"]),
        (np.insert(A, 1, DENSE[:, 0], axis=1), np.insert(DENSE, 1, DENSE[:, 0], axis=1), ["u"]),
        (np.sinc(A), np.sinc(DENSE), ["u", "i"]),
        (np.polyval([1, 2], A), np.polyval([1, 2], DENSE), ["u", "i"]),
        (A == None, np.zeros(DENSE.shape, bool), ["u", "i"]),  # noqa: E711
    ):
        result: Any = found
        np.testing.assert_allclose(result.to_numpy(), expected, atol=1e-12)
        names = {dim: result.labels(dim).to_pylist() for dim in result.dims if result.labels(dim) is not None}
        assert names == {dim: LABELS[dim] for dim in labels}
