"""Array API functions against the strict implementation, with special values."""

from __future__ import annotations

import itertools
import json
import operator
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp

strict = pytest.importorskip("array_api_strict")
FUNCTIONS: dict[str, Any] = json.loads((Path(__file__).parent / "functions.json").read_text(encoding="utf-8"))
ELEMENTWISE = [name for name, how in FUNCTIONS["claimed"].items() if "calls" not in how]
CALLS = [(name, call) for name, how in FUNCTIONS["claimed"].items() for call in how.get("calls", ())]

INTEGERS = ["int8", "int64", "uint8"]
REAL = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
TYPES = {
    "boolean": ["bool"],
    "integer or boolean": [*INTEGERS, "bool"],
    "shift": INTEGERS,
    "real floating": REAL,
    "floating": REAL + COMPLEX,
    "complex": COMPLEX,
    "real": INTEGERS + REAL,
    "numeric": INTEGERS + REAL + COMPLEX,
}
SPECIAL = [0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e300, 5e-324, -7.0]
OTHER = [0.0, 2.0, -1.0, 3.0, np.inf, np.nan, -np.inf, 0.5]


def values(dtype: str, given: list[float], shift: bool = False) -> np.ndarray[Any, Any]:
    """Return the special values of a dtype."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return np.array([0, 1, 3, 2] if shift else [0, 1, 3, limits.max, limits.min, 7], kind)
    with np.errstate(all="ignore"):
        found = np.array(given).astype(kind)
    return np.concatenate([found, np.array([1 + 2j, -1j], kind)]) if kind.kind == "c" else found


def same(found: Any, wanted: Any) -> None:
    """Compare results with those of the strict implementation."""
    if isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
        return
    expected = np.asarray(wanted._array)
    found = found.to_numpy() if isinstance(found, sp.Tensor) else np.asarray(found)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "fc":
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(expected.dtype).eps)
    else:
        np.testing.assert_array_equal(found, expected)


def check_function(name: str, *arrays: np.ndarray[Any, Any]) -> None:
    """Compare an element-wise function on tensors and on dense arrays."""
    tensors = [sp.asarray(array) for array in arrays]
    twins = [strict.asarray(tensor.to_numpy()) for tensor in tensors]  # an absent element is 0.0, whatever its sign was
    with np.errstate(all="ignore"):
        same(getattr(sp, name)(*tensors), getattr(strict, name)(*twins))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions(name: str) -> None:
    how = FUNCTIONS["claimed"][name]
    unary = "unary" in how
    for dtype in TYPES[how["unary" if unary else "binary"]]:
        one = values(dtype, SPECIAL)
        if name == "sign" and dtype in COMPLEX:  # NumPy does better than x / abs(x) where that leaves the range
            one = values(dtype, [0.0, 2.0, -1.0, 0.5])
        if unary:
            check_function(name, one)
            check_function(name, one[:0].reshape(0, 2))
            check_function(name, one[-1].reshape(()))
            continue
        two = values(dtype, OTHER, shift=how["binary"] == "shift")
        if name == "multiply":  # absent elements annihilate, also against NaN and infinity
            one, two = one[np.isfinite(one)], two[np.isfinite(two)]
        check_function(name, *(np.array(column) for column in zip(*itertools.product(one, two), strict=True)))
        check_function(name, one[:, None], two[None, :])
        check_function(name, one[:0], two[:1])
        check_function(name, one[1].reshape(()), two[:2])


@pytest.mark.parametrize(("name", "call"), CALLS, ids=[call for _, call in CALLS])
def test_calls(name: str, call: str) -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(-3, 4, (3, 4)) * (rng.random((3, 4)) < 0.6) + 0.0
    x = np.array([[0, np.nan, 2, 0], [-1.5, 0, np.inf, 0], [3, 0, 0, -np.inf]])
    i = np.array([3, 0, 0])
    if name in ("max", "min", "argmax", "argmin", "sum", "prod", "mean", "std", "var"):
        x = y
    dense = {name: strict.asarray(array) for name, array in (("x", x), ("y", y), ("i", i))}
    with np.errstate(all="ignore"):
        found = eval(call, {"xp": sp, "np": np, "x": sp.asarray(x), "y": sp.asarray(y), "i": i})
        wanted = eval(call, {"xp": strict, "np": strict, **dense})
    same(found, wanted)


@pytest.mark.parametrize("call", FUNCTIONS["unlisted"])
def test_beyond_strict_implementation(call: str) -> None:
    x = np.array([[0, 2.0, 0, -3], [0, 0, 1, 0], [4, 0, 0, 0], [0, -1, 0, 2]])
    found = eval(call, {"xp": sp, "x": sp.asarray(x)})
    with strict.ArrayAPIStrictFlags(api_version="2025.12"):
        same(found, eval(call, {"xp": strict, "x": strict.asarray(x)}))


def test_all_standard_functions_exist() -> None:
    found = {n for n in strict.__all__ if isinstance(getattr(strict, n), types.FunctionType)}
    found = {n for n in found if not n.startswith("__") and not n.endswith("_flags")}
    for extension in ("linalg", "fft"):
        module = getattr(strict, extension)
        found |= {f"{extension}.{name}" for name in module.__all__ if callable(getattr(module, name))}
    assert set(FUNCTIONS["claimed"]) == found
    assert [name for name in found if not callable(operator.attrgetter(name)(sp))] == []
    assert strict.__array_api_version__ >= FUNCTIONS["standard"]


def test_documented_number_of_functions(repository: Path) -> None:
    found = re.search(r"(\d+) functions of the standard", (repository / "docs" / "array-api.md").read_text())
    assert found is not None
    assert int(found[1]) == len(FUNCTIONS["claimed"])
