"""Cast of the values of every format to the dtype of the tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.casting import cast_checked, find_rounded, misfit_message, parse_digits
from sparrow.io.base.report import Report

__all__ = ["ValueCast"]


@dataclass(frozen=True, slots=True)
class ValueCast:
    """Lossless cast of values; what the caller asked to round is counted.

    Examples
    --------
    >>> import numpy as np
    >>> cast = ValueCast(np.dtype("float64"), False, Report())
    >>> cast(np.array([1, 2**53 + 1]))[1], cast.problem(2**53 + 1)
    (1, "is an integer that float64 does not hold: pass dtype='int64' to keep it, or dtype='float64' to round")
    """

    dtype: np.dtype[Any]
    declared: bool
    """True if the caller passed the dtype: integers that a float does not hold are then rounded and counted."""
    report: Report
    keep: str | None = "pass dtype='int64'"
    """Way to keep integers that a float does not hold, None if the format has none."""

    def __call__(self, given: NDArray[Any]) -> tuple[NDArray[Any], int | None]:
        """Return values in the dtype, and the position of the first that is lost."""
        values, unfit = cast_checked(given, self.dtype)
        if (rounded := find_rounded(given, self.dtype)) is not None:
            if self.declared:
                self.report.add(rounded=int(np.count_nonzero(rounded)))
            else:
                first = int(np.argmax(rounded))
                unfit = first if unfit is None else min(first, unfit)
        return values, unfit

    def accepts_rounded(self, count: int) -> bool:
        """Count integers that a parser rounded; return whether that was asked for."""
        if count and self.declared:
            self.report.add(rounded=count)
        return not count or self.declared

    def problem(self, value: Any) -> str:
        """Return the error message for a value that :meth:`__call__` found."""
        return misfit_message(value, self.dtype, self.keep)

    def problem_of(self, token: str) -> str:
        """Return the error message for a token that a parser rounded."""
        number = parse_digits(token)
        return misfit_message(0 if number is None else number, self.dtype, self.keep)
