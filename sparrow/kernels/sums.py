"""Exact sums of integers given for one element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.casting import MAX_STORED_INTEGER, misfit_message, wider_dtype
from sparrow.errors import NumberRangeError

__all__ = ["CAST_FIRST", "SumRangeError", "exact_sum", "find_overflow", "is_storable"]

CAST_FIRST = "cast the values with astype({!r}) first"
"""Way out for values in memory."""

_LOW_BITS = 32
_LOW = 2**_LOW_BITS - 1


class SumRangeError(NumberRangeError):
    """Integers of one element whose sum does not fit the dtype.

    Parameters
    ----------
    problem
        Description of the problem and the way out.
    cell
        Coordinates of the element.
    total
        The sum.
    dtype
        The dtype.
    """

    def __init__(
        self, problem: str, cell: tuple[int, ...] = (), total: int = 0, dtype: np.dtype[Any] | None = None
    ) -> None:
        super().__init__(problem)
        self.cell, self.total, self.dtype = cell, total, dtype

    @classmethod
    def of(
        cls,
        cell: tuple[int, ...],
        total: int,
        dtype: np.dtype[Any],
        describe: Callable[[tuple[int, ...]], str] = str,
        way: str = "pass dtype={!r}",
    ) -> SumRangeError:
        """Return the error about an element that is given several times.

        ``way`` is a format of the way out, of the name of a wider dtype.
        """
        problem = misfit_message(total, dtype).partition(":")[0]
        way = way.format(wider_dtype(total, dtype))
        return cls(
            f"the values given for element {describe(cell)} have the sum {total}, which {problem}: {way}",
            cell,
            total,
            dtype,
        )

    def restate(self, way: str, labels: Sequence[Sequence[Any] | None]) -> SumRangeError:
        """Return the error with labels in place of coordinates, and another way out."""
        assert self.dtype is not None

        def by_label(cell: tuple[int, ...]) -> str:
            return str(tuple(at if names is None else names[at] for names, at in zip(labels, cell, strict=True)))

        return self.of(self.cell, self.total, self.dtype, by_label, way)


def find_overflow(values: NDArray[Any], starts: NDArray[np.int64], stored: bool = False) -> tuple[int, int] | None:
    """Return the first run of integers whose sum is beyond the dtype, and it.

    Runs begin at ``starts``. ``stored`` is set for sums on their way into files, where integers end at 2^63 - 1.

    Examples
    --------
    >>> import numpy as np
    >>> find_overflow(np.array([1, 100, 100], np.int8), np.array([0, 1]))
    (1, 200)
    """
    if values.dtype.kind not in "iu" or not len(starts):
        return None
    low, top = _bounds(values.dtype, stored)
    longest = int(np.diff(starts, append=len(values)).max())
    if longest * max(int(values.max()), -int(values.min())) <= top:
        return None
    high_sum, low_sum = (np.add.reduceat(half, starts) for half in _halves(values))
    high_sum += low_sum >> _LOW_BITS
    low_sum &= _LOW
    unfit = (high_sum > top >> _LOW_BITS) | (high_sum < low >> _LOW_BITS)
    unfit |= (high_sum == top >> _LOW_BITS) & (low_sum > top & _LOW)
    unfit |= (high_sum == low >> _LOW_BITS) & (low_sum < low & _LOW)
    if not unfit.any():
        return None
    at = int(np.argmax(unfit))
    return at, (int(high_sum[at]) << _LOW_BITS) + int(low_sum[at])


def exact_sum(values: NDArray[Any]) -> int:
    """Return the sum of integers, of any size."""
    high, low = _halves(values)
    return (int(high.sum()) << _LOW_BITS) + int(low.sum())


def is_storable(total: int, dtype: np.dtype[Any]) -> bool:
    """Return whether a sum can be stored in a dtype of integers."""
    low, top = _bounds(dtype, True)
    return low <= total <= top


def _bounds(dtype: np.dtype[Any], stored: bool) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), min(int(info.max), MAX_STORED_INTEGER) if stored else int(info.max)


def _halves(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the upper and the lower 32 bits of integers, whose sums do not overflow."""
    wide = values if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
    kind = wide.dtype.type
    return (wide >> kind(_LOW_BITS)).astype(np.int64), (wide & kind(_LOW)).astype(np.int64)
