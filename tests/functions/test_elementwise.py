"""Element-wise functions by the names of the standard."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sparrow as sp
from sparrow.errors import ShapeError, SparrowError
from sparrow.functions import elementwise

NAMES = [name for name in elementwise.__all__ if name not in ("as_factor", "as_named_operand", "as_operand")]


def test_result_kind_follows_operand() -> None:
    a = np.array([[0.0, 2.0], [-3.0, 0.0]])
    A = sp.asarray(a)
    exp = sp.exp(A)
    assert isinstance(exp, sp.Tensor)
    assert (exp.fill_value, exp.nnz) == (1, 2)
    for dense in (a, a.tolist(), 2.0, np.float32(2)):
        found = sp.exp(dense)
        assert isinstance(found, np.ndarray | np.generic)
        np.testing.assert_array_equal(found, np.exp(dense))
        assert found.dtype == np.exp(dense).dtype
    np.testing.assert_array_equal(sp.exp(scipy.sparse.csr_array(a)).to_numpy(), np.exp(a))
    both: Any = (sp.add(A, A), sp.add(A, 0), sp.multiply(A, a), sp.multiply(2.0, A))
    assert all(isinstance(one, sp.Tensor) for one in both)
    assert isinstance(sp.add(A, a), np.ndarray)
    assert sp.add([1], [2]).tolist() == [3]


def test_clip() -> None:
    a = np.array([[0.0, 5.0], [-3.0, 1.0]])
    A = sp.asarray(a)
    limits: list[tuple[Any, Any]] = [
        (-1, 2), (None, 2), (1, None), (a - 1, None), (sp.asarray(a - 1), a + 1), (None, None),
    ]  # fmt: skip
    for low, high in limits:
        dense: Any = [np.asarray(limit) if isinstance(limit, sp.Tensor) else limit for limit in (low, high)]
        np.testing.assert_array_equal(np.asarray(sp.clip(A, low, high)), np.clip(a, *dense))
    assert sp.clip(A, 1, 2).fill_value == 1
    assert sp.clip(a, max=2).tolist() == np.clip(a, None, 2).tolist()
    assert sp.clip(7, 1, 2) == 2
    np.testing.assert_array_equal(np.asarray(sp.clip(a, A, None)), np.clip(a, a, None))


@pytest.mark.parametrize("name", NAMES)
def test_function_metadata(name: str) -> None:
    function = getattr(sp, name)
    assert (function.__name__, function.__module__) == (name, "sparrow.functions.elementwise")
    assert pickle.loads(pickle.dumps(function)) is function
    assert f"sp.{name}(" in function.__doc__
    assert next(iter(inspect.signature(function).parameters)) in ("x", "x1")


@pytest.mark.parametrize("thing", [None, {}, object(), np.array(["a"]), [[1], [1, 2]]])
def test_unsupported_operands_raise(thing: Any) -> None:
    A = sp.asarray([1, 0])
    calls: list[Callable[[], Any]] = [
        lambda: sp.exp(thing),
        lambda: sp.add(A, thing),
        lambda: sp.add(thing, 1),
        lambda: sp.clip(thing, 1),
    ]
    for call in calls:
        with pytest.raises(SparrowError):
            call()


def test_broadcast_errors() -> None:
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        sp.add(sp.asarray([1, 0]), sp.asarray([1, 2, 3]))
