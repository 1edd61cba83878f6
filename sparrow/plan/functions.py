"""Functions of cells that NumPy has no ufunc for, as values that a plan can look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cast", "Clip", "Output", "Round", "function_name"]


@dataclass(frozen=True, slots=True)
class Cast:
    """A change of type, as ``ndarray.astype`` does it."""

    dtype: np.dtype[Any]

    def __call__(self, values: Any) -> NDArray[Any]:
        """Return the values in the type."""
        return np.asarray(values).astype(self.dtype)


@dataclass(frozen=True, slots=True)
class Clip:
    """Values limited to an interval, as ``numpy.clip`` does it; None stands for no bound."""

    low: Any = None
    high: Any = None

    def __call__(self, values: Any) -> NDArray[Any]:
        """Return the values limited."""
        return np.asarray(np.clip(values, self.low, self.high))


@dataclass(frozen=True, slots=True)
class Output:
    """One of the results of a function that has several, such as ``numpy.divmod``."""

    function: np.ufunc
    number: int

    def __call__(self, *values: Any) -> Any:
        """Return this result."""
        return self.function(*values)[self.number]


_FEW = 1000
"""Decimals beyond which 10 to their power is infinite, as of a third of them; NumPy multiplies it up in a loop."""


@dataclass(frozen=True, slots=True)
class Round:
    """Values rounded to a number of decimals, halves to even, as ``numpy.round`` does it."""

    decimals: int = 0

    def __call__(self, values: Any) -> NDArray[Any]:
        """Return the values rounded."""
        return np.asarray(np.round(values, max(-_FEW, min(self.decimals, _FEW))))


def function_name(function: Callable[..., Any]) -> str:
    """Return what people call a function of cells.

    Examples
    --------
    >>> function_name(np.add), function_name(Cast(np.dtype("int8")))
    ('add', 'astype int8')
    """
    if isinstance(function, Cast):
        return f"astype {function.dtype}"
    if isinstance(function, Clip):
        return f"clip to {function.low} .. {function.high}"
    if isinstance(function, Output):
        return f"{function.function.__name__}, result {function.number}"
    if isinstance(function, Round):
        return f"round to {function.decimals} decimals"
    name = getattr(function, "__name__", "")
    return name if name and name != "<lambda>" else "a function in Python"
