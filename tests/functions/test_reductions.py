"""Reductions by the names of the standard, of tensors and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import ShapeError, UnsupportedError

NAMES = ["all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var"]
a = np.array([[0, 2, 0], [3, 0, -1]])
A = sp.asarray(a)


@pytest.mark.parametrize("name", [*NAMES, "count_nonzero"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_of_tensors_and_arrays(name: str, axis: int | None, keepdims: bool) -> None:
    own, wanted = getattr(sp, name), getattr(np, name)(a, axis=axis, keepdims=keepdims)
    found = own(A, axis=axis, keepdims=keepdims)
    assert isinstance(found, sp.Tensor) == (axis is not None or keepdims)
    for one in (found, own(a, axis=axis, keepdims=keepdims), own(A, axis, keepdims=keepdims)):
        np.testing.assert_allclose(np.asarray(one), wanted)
        assert np.asarray(one).dtype == wanted.dtype
    assert not isinstance(own(a, axis=axis), sp.Tensor)


def test_axes_as_list() -> None:
    assert sp.sum(A, [0, 1]) == sp.count_nonzero(A, [0, 1]) + 1 == sp.sum(a, [0, 1]) == 4


def test_stored_elements_only() -> None:
    assert sp.mean(A, where="stored") == pytest.approx(4 / 3)
    np.testing.assert_array_equal(sp.argmax(A, 1, where="stored").to_numpy(), [1, 0])
    with pytest.raises(UnsupportedError, match="where='stored'"):
        sp.mean(a, where="stored")


def test_dtype_and_correction() -> None:
    assert sp.sum(A, dtype=sp.float32).dtype == sp.prod(a, dtype=sp.float32).dtype == np.float32
    assert sp.var(A, correction=1) == pytest.approx(np.var(a, ddof=1))
    assert sp.std(a, correction=1) == pytest.approx(np.std(a, ddof=1))


@pytest.mark.parametrize("name", [*NAMES, "count_nonzero"])
def test_invalid_input_raises(name: str) -> None:
    own: Any = getattr(sp, name)
    with pytest.raises(ShapeError):
        own(A, axis=2)
    with pytest.raises(UnsupportedError):
        own(None)
