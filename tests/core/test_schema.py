"""Schema: shapes, names, dtypes, fill values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparrow.core.indexing import View
from sparrow.core.schema import DTYPES, Schema, check_dims, check_shape, is_fill
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError


def test_size_may_exceed_int64() -> None:
    schema = Schema((2**62, 2**62))
    assert schema.size == 2**124
    assert schema.coordinate_dtype(0) == np.int64
    assert Schema((2**31, 2**31 + 1)).coordinate_dtype(0) == np.int32
    assert Schema((2**31, 2**31 + 1)).coordinate_dtype(1) == np.int64


def test_shape_from_array() -> None:
    assert check_shape(np.array([2, 3])) == (2, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "message"), [((-1,), "negative"), ((2**63,), "2\\^63"), ((1.5,), "integers"), (("a",), "integers")]
)
def test_invalid_shapes_raise(shape: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Schema(shape)


@pytest.mark.parametrize("dims", [("a", "A"), ("value", "b"), ("", "b"), ("VALUE_im", "b")])
def test_invalid_names_raise(dims: tuple[str, ...]) -> None:
    with pytest.raises(InvalidValueError):
        check_dims(dims, 2)
    with pytest.raises(ShapeError, match="dims must have 3 names, got 2"):
        check_dims(dims, 3)


def test_fill_value_is_cast_to_dtype() -> None:
    assert Schema((1,), dtype=np.dtype("int8"), fill_value=3).fill_value.dtype == np.int8
    assert Schema((1,)).has_zero_fill
    assert not Schema((1,), fill_value=np.nan).has_zero_fill


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_is_fill_for_every_dtype(dtype: np.dtype[Any]) -> None:
    assert is_fill(np.zeros(2, dtype), np.zeros((), dtype)[()]).all()
    assert not is_fill(np.ones(2, dtype), np.zeros((), dtype)[()]).any()


@pytest.mark.parametrize("dtype", ["U3", "O", "M8[s]", "longdouble"])
def test_unsupported_dtypes_raise(dtype: str) -> None:
    with pytest.raises(UnsupportedError, match="float64"):
        Schema((1,), dtype=np.dtype(dtype))


def test_with_view_names_axes() -> None:
    schema = Schema((4, 5, 6), ("src", "dst", "d1"))
    view = View.identity(schema.shape)
    assert schema.with_view(view.then((0, None))).dims == ("d0", "dst", "d1")
    assert schema.with_view(view.then((slice(None), None))).dims == ("src", "d1_1", "dst", "d1")
    assert schema.with_view(view.then(([1, 2],))).dims == ("src", "dst", "d1")
    assert schema.with_view(view.then(([1, 2], [0, 1]))).dims == ("d0", "d1")
    assert schema.with_view(view.permute((2, 0, 1))).dims == ("d1", "src", "dst")
    assert schema.with_view(view) is schema
