"""Tensors with another fill value."""

from __future__ import annotations

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError, TooLargeError, UnsupportedError

a = np.array([[0.0, 2, 0], [3, 0, -1]])


@pytest.mark.parametrize("value", [0, 2, 7.5, np.nan])
def test_refill_keeps_values(value: float) -> None:
    for A in (sp.asarray(a), sp.asarray(a) + 0, sp.asarray(a.T).T):
        found = A.refill(value)
        np.testing.assert_array_equal(found.to_numpy(), a)
        assert np.array_equal(found.fill_value, value, equal_nan=True)
        assert found.nnz == (a.size if value == 7.5 or value != value else (a != value).sum())


def test_refill_with_same_fill_returns_self() -> None:
    A = sp.asarray(a)
    assert A.refill(0) is A
    B = A / A
    assert B.refill(np.nan) is B


def test_concat_after_refill() -> None:
    A = sp.asarray(a)
    with pytest.raises(UnsupportedError):
        sp.concat([A, np.exp(A)])
    joined = sp.concat([A, sp.exp(A).refill(0)])
    np.testing.assert_allclose(joined.to_numpy(), np.concatenate([a, np.exp(a)]))


def test_refill_keeps_dtype() -> None:
    A = sp.asarray(a.astype(np.int8)).asformat("csr")
    assert (A.refill(3).dtype, A.refill(3).stype, A.refill(3).refill(0).nnz) == (np.dtype(np.int8), "coo", 3)


def test_refill_invalid_value_raises() -> None:
    with pytest.raises(InvalidValueError, match="int8"):
        sp.zeros(3, "int8").refill(300)
    with pytest.raises(TooLargeError):
        sp.zeros((2**30, 2**30)).refill(1)
