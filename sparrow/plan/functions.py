"""Element-wise functions without a NumPy ufunc, as comparable values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cast", "Clip", "GroupQuotient", "Output", "Round", "function_name"]


@dataclass(frozen=True, slots=True)
class Cast:
    """Cast, as ``ndarray.astype``."""

    dtype: np.dtype[Any]

    def __call__(self, values: Any) -> NDArray[Any]:
        """Cast values."""
        return np.asarray(values).astype(self.dtype)


@dataclass(frozen=True, slots=True)
class Clip:
    """Clip to an interval, as ``numpy.clip``; None for no bound."""

    low: Any = None
    high: Any = None

    def __call__(self, values: Any) -> NDArray[Any]:
        """Clip values."""
        return np.asarray(np.clip(values, self.low, self.high))


@dataclass(frozen=True, slots=True)
class Output:
    """One output of a ufunc that has several, such as ``numpy.divmod``."""

    function: np.ufunc
    number: int

    def __call__(self, *values: Any) -> Any:
        """Return this output."""
        return self.function(*values)[self.number]


@dataclass(frozen=True, slots=True)
class GroupQuotient:
    """Division by a reduction: 0 is 0 where the reduction had no elements.

    Takes the dividend, the divisor and the number of elements that were reduced.
    """

    function: Callable[..., Any]

    def __call__(self, dividend: Any, divisor: Any, count: Any) -> NDArray[Any]:
        """Divide, or take a remainder."""
        found = np.asarray(self.function(dividend, divisor))
        return np.where((count == 0) & (dividend == 0), found.dtype.type(0), found)


_MAX_DECIMALS = 1000
"""Powers of 10 are infinite far below; NumPy computes them in a loop over the decimals."""


@dataclass(frozen=True, slots=True)
class Round:
    """Round to a number of decimals, halves to even, as ``numpy.round``."""

    decimals: int = 0

    def __call__(self, values: Any) -> NDArray[Any]:
        """Round values."""
        return np.asarray(np.round(values, max(-_MAX_DECIMALS, min(self.decimals, _MAX_DECIMALS))))


def function_name(function: Callable[..., Any]) -> str:
    """Return a readable name of an element-wise function.

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
    if isinstance(function, GroupQuotient):
        return f"{function_name(function.function)} by groups"
    if isinstance(function, Round):
        return f"round to {function.decimals} decimals"
    name = getattr(function, "__name__", "")
    return name if name and name != "<lambda>" else "a function in Python"
