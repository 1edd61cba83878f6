"""take and take_along_axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import AxisError, IndexingError, ShapeError

a = np.array([[0, 2, 0, 5], [3, 0, -1, 0], [0, 0, 0, 7]])
A = sp.asarray(a)


@pytest.mark.parametrize("indices", [[2, 0, -1], [[0, 1], [2, 2]], 1, []])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_take(indices: Any, axis: int | None) -> None:
    wanted = np.take(a, np.asarray(indices, int), axis)
    for found in (
        sp.take(A, np.asarray(indices, int), axis=axis),
        sp.take(A, sp.asarray(np.asarray(indices, int)), axis=axis),
        np.take(A, np.asarray(indices, int), axis),
    ):
        np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis(axis: int) -> None:
    order = np.argsort(a, axis, stable=True)
    found = sp.take_along_axis(A, order, axis)
    assert isinstance(found, sp.Tensor)
    np.testing.assert_array_equal(found.to_numpy(), np.take_along_axis(a, order, axis))
    np.testing.assert_array_equal(found.to_numpy(), sp.sort(A, axis).to_numpy())
    one = np.take(order, [-1], axis)
    np.testing.assert_array_equal(
        sp.take_along_axis(A, sp.asarray(one), axis).to_numpy(), np.max(a, axis, keepdims=True)
    )


def test_take_along_axis_broadcasts() -> None:
    np.testing.assert_array_equal(
        sp.take_along_axis(A, [[-1, 0]]).to_numpy(), np.take_along_axis(a, np.array([[-1, 0]]), 1)
    )
    long = np.array([[1], [2], [0], [3]])
    np.testing.assert_array_equal(sp.take_along_axis(A[:1], long).to_numpy(), np.take_along_axis(a[:1], long, 1))


def test_invalid_input_raises() -> None:
    with pytest.raises(AxisError):
        sp.take_along_axis(A, [[0]], axis=2)
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        sp.take_along_axis(A, [0, 1])
    with pytest.raises(ShapeError, match=r"\(2, 1\)"):
        sp.take_along_axis(A, [[0], [1]])
    with pytest.raises(IndexingError, match="size 4"):
        sp.take_along_axis(A, [[4]])
