"""searchsorted and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError, ShapeError


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("fill", [0.0, 3.0, -2.0, np.nan])
def test_searchsorted(side: Any, fill: float) -> None:
    a = np.sort(np.array([-2.0, -1.0, fill, fill, 3.0, 3.5, fill]))
    at = np.flatnonzero((a != fill) & (a == a))
    A = sp.from_coords([at], a[at], shape=a.shape, fill_value=fill)
    values = np.array([[-5, -2, -1.5, 0], [3, 3.2, 9, np.nan]])
    found = sp.searchsorted(A, values, side=side)
    np.testing.assert_array_equal(found, np.searchsorted(a, values, side))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(sp.searchsorted(a, sp.asarray(values), side=side), found)
    turned = np.arange(len(a))[::-1]
    np.testing.assert_array_equal(sp.searchsorted(A[::-1], values, side=side, sorter=turned), found)
    assert sp.searchsorted(A, 3.2, side=side) == np.searchsorted(a, 3.2, side)


def test_invalid_input_raises() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 2\)"):
        sp.searchsorted(sp.eye(2), [1])
    with pytest.raises(InvalidValueError, match="'middle'"):
        sp.searchsorted(sp.asarray([1]), [1], side="middle")  # type: ignore[arg-type]
