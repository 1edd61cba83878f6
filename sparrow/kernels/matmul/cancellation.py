"""Test whether sums of a product may equal the fill, and so are not stored.

A sum that equals the fill is not stored: terms cancel, underflow, wrap around or saturate. :func:`can_cancel` bounds
all sums by interval arithmetic over the values of the operands. Where it returns False, as for products of positive
numbers, :class:`sparrow.kernels.matmul.count.RowCounter` counts the elements of the product without its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ValueRange", "can_cancel"]


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Bounds of the values of an operand, or of what is computed from them.

    Examples
    --------
    >>> import numpy as np
    >>> from sparrow.kernels.matmul.cancellation import ValueRange
    >>> ValueRange.from_values(np.array([3, 1])).union(ValueRange.from_values(np.array([5])))
    ValueRange(low=1, high=5)
    """

    low: Any
    high: Any

    @classmethod
    def from_values(cls, values: NDArray[Any]) -> ValueRange | None:
        """Return the bounds of finite real numbers; None for any others."""
        if values.dtype.kind == "c":
            return None
        if not len(values):
            return cls(1, 1)
        with np.errstate(invalid="ignore"):
            low, high = values.min().item(), values.max().item()  # NaN if one is
        return cls(low, high) if low - low == high - high == 0 else None

    def union(self, other: ValueRange) -> ValueRange:
        """Return the bounds of the values of two ranges."""
        return ValueRange(min(self.low, other.low), max(self.high, other.high))

    def __contains__(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)


def can_cancel(
    add: Any,
    multiply: Any,
    dtype: np.dtype[Any],
    result_dtype: np.dtype[Any],
    fill_value: Any,
    lhs: ValueRange | None,
    rhs: ValueRange | None,
    max_products: int,
) -> bool:
    """Return whether a sum of products may equal the fill of the result.

    It is conservative: it returns True where the bounds of operands cannot exclude it.

    Parameters
    ----------
    add, multiply
        Operations of the semiring: names or functions, of which nothing is known.
    dtype
        Dtype in which products are accumulated.
    result_dtype, fill_value
        Dtype to which sums are cast, and the value that is not stored.
    lhs, rhs
        Bounds of the values of the operands, as cast to ``dtype``; None if unknown. Ignored for "pair".
    max_products
        Upper bound on the products of one result, such as the products of the longest row.

    Examples
    --------
    >>> import numpy as np
    >>> from sparrow.kernels.matmul.cancellation import ValueRange, can_cancel
    >>> double, positive = np.dtype(float), ValueRange(0.5, 8.0)
    >>> can_cancel("plus", "times", double, double, 0.0, positive, positive, 100)
    False
    >>> can_cancel("plus", "times", double, double, 0.0, positive, ValueRange(-1.0, 2.0), 100)
    True
    """
    product = getattr(multiply, "of", multiply)
    if not isinstance(add, str) or not isinstance(product, str) or fill_value != fill_value:
        return True
    if product == "pair":
        lhs = rhs = ValueRange(1, 1)
    elif lhs is None or rhs is None or dtype.kind not in "iuf":
        return True
    bounds = _multiply(product, lhs, rhs, dtype)
    if bounds is not None and product is not multiply:
        bounds = None if 0 in bounds else ValueRange(1, 1)
    if bounds is not None:
        bounds = _add(add, bounds, dtype, max_products)
    return bounds is None or _may_equal(bounds, dtype, result_dtype, fill_value)


def _multiply(name: str, lhs: ValueRange, rhs: ValueRange, dtype: np.dtype[Any]) -> ValueRange | None:
    """Return the bounds of products, None if one may wrap around."""
    if name in ("first", "second", "pair"):
        return rhs if name == "second" else lhs
    if name == "times":
        found = [_times(x, y, dtype) for x in (lhs.low, lhs.high) for y in (rhs.low, rhs.high)]
    elif name == "plus":
        found = [_plus(lhs.low, rhs.low, dtype), _plus(lhs.high, rhs.high, dtype)]
    else:  # "and" takes 0 and 1
        select = max if name == "max" else min
        found = [select(lhs.low, rhs.low), select(lhs.high, rhs.high)]
    return _in_range(ValueRange(min(found), max(found)), dtype)


def _add(name: str, terms: ValueRange, dtype: np.dtype[Any], count: int) -> ValueRange | None:
    """Return the bounds of sums of 1 to ``count`` terms, None if one may wrap around."""
    if name != "plus":  # "or" takes 0 and 1
        return terms
    if dtype.kind in "iu":
        return _in_range(ValueRange(min(terms.low, count * terms.low), max(terms.high, count * terms.high)), dtype)
    return ValueRange(terms.low if terms.low > 0 else -np.inf, terms.high if terms.high < 0 else np.inf)


def _times(x: Any, y: Any, dtype: np.dtype[Any]) -> Any:
    """Return a product, exact for integers and rounded for floats."""
    with np.errstate(all="ignore"):
        return x * y if dtype.kind in "iu" else (dtype.type(x) * dtype.type(y)).item()


def _plus(x: Any, y: Any, dtype: np.dtype[Any]) -> Any:
    with np.errstate(all="ignore"):
        return x + y if dtype.kind in "iu" else (dtype.type(x) + dtype.type(y)).item()


def _in_range(bounds: ValueRange, dtype: np.dtype[Any]) -> ValueRange | None:
    """Return the bounds if an integer dtype holds them, else None."""
    if dtype.kind not in "iu":
        return bounds
    limits = np.iinfo(dtype)
    return bounds if limits.min <= bounds.low <= bounds.high <= limits.max else None


def _may_equal(bounds: ValueRange, dtype: np.dtype[Any], result_dtype: np.dtype[Any], fill_value: Any) -> bool:
    """Return whether sums within bounds may equal the fill once they are cast."""
    fill = np.asarray(fill_value).item()
    if result_dtype.kind == "b":
        return 0 in bounds if not fill else bounds != ValueRange(0, 0)
    if result_dtype.kind == "f" and dtype.kind == "f":
        with np.errstate(all="ignore"):
            bounds = ValueRange(result_dtype.type(bounds.low).item(), result_dtype.type(bounds.high).item())
        return fill in bounds
    if result_dtype.kind in "iu" and dtype.kind in "iu":
        return _in_range(bounds, result_dtype) is None or fill in bounds
    return result_dtype != dtype or fill.real in bounds
