"""Axis functions and broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import AxisError, ShapeError, UnsupportedError

a = np.array([[[0, 2, 0], [3, 0, -1]]])
A = sp.asarray(a)


def test_permute_axes() -> None:
    np.testing.assert_array_equal(sp.permute_dims(A, (2, 0, 1)).to_numpy(), np.permute_dims(a, (2, 0, 1)))
    np.testing.assert_array_equal(sp.matrix_transpose(A).to_numpy(), np.matrix_transpose(a))
    assert sp.permute_dims(sp.asarray(2.5), ()).ndim == 0
    with pytest.raises(ShapeError):
        sp.permute_dims(A, (0, 1))
    with pytest.raises(ShapeError):
        sp.matrix_transpose(A[0, 0])


@pytest.mark.parametrize("axis", [0, -1, (0, 2), (-1, 0), (1, 2, 5), (), 3])
def test_expand_dims(axis: Any) -> None:
    for found in (sp.expand_dims(A, axis), np.expand_dims(A, axis)):
        assert found.shape == np.expand_dims(a, axis).shape
    with pytest.raises(ShapeError, match="must not repeat"):
        sp.expand_dims(A, (0, 0))
    with pytest.raises(AxisError):
        sp.expand_dims(A, (0, 5))


def test_unstack() -> None:
    found = sp.unstack(A, axis=1)
    for one, other in zip(found, np.unstack(a, axis=1), strict=True):
        np.testing.assert_array_equal(one.to_numpy(), other)
    assert sp.unstack(A[0, 0]) == (0, 2, 0)
    with pytest.raises(AxisError):
        sp.unstack(A, axis=3)


def test_broadcast() -> None:
    found = sp.broadcast_arrays(A, A[0, 0], [[7], [8]])
    for one, other in zip(found, np.broadcast_arrays(a, a[0, 0], [[7], [8]]), strict=True):
        np.testing.assert_array_equal(one.to_numpy(), other)
    assert found[0] is A
    assert sp.broadcast_shapes((3, 1), 4, (), (1, 1, 1)) == np.broadcast_shapes((3, 1), 4, (), (1, 1, 1)) == (1, 3, 4)
    assert sp.broadcast_shapes((0, 1), (1, 2)) == (0, 2)
    assert sp.broadcast_shapes() == ()
    with pytest.raises(ShapeError, match=r"\[2, 3\]"):
        sp.broadcast_arrays(A, [1, 2])


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_meshgrid(indexing: Any, count: int) -> None:
    vectors = [np.arange(n) for n in (3, 2, 4)[:count]]
    found = sp.meshgrid(*map(sp.asarray, vectors), indexing=indexing)
    wanted = np.meshgrid(*vectors, indexing=indexing)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one.to_numpy(), other)


def test_meshgrid_of_scalars_and_errors() -> None:
    assert [grid.shape for grid in sp.meshgrid(sp.asarray(1), [1, 2])] == [(2, 1), (2, 1)]
    with pytest.raises(ShapeError, match=r"\(1, 2, 3\)"):
        sp.meshgrid(A)
    with pytest.raises(UnsupportedError, match="float64"):
        sp.meshgrid([1.0], [1])
    with pytest.raises(ValueError, match="'yx'"):
        sp.meshgrid([1], indexing="yx")  # type: ignore[arg-type]
