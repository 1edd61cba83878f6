"""Lossless casts of values on their way into a tensor."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError

__all__ = [
    "MAX_STORED_INTEGER", "cast_appended", "cast_checked", "find_rounded", "find_unrepresentable", "is_rounded_integer",
    "misfit_message",
]  # fmt: skip

MAX_STORED_INTEGER = 2**63 - 1
"""Largest integer in files, which store uint64 as int64."""

_LONGEST_INTEGER = 300
"""Digits of integers that are surely finite as floats."""


def cast_checked(given: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], int | None]:
    """Return values in a dtype, and the position of the first that does not fit.

    Decimals are rounded to the precision of a float; for integers see :func:`find_rounded`.
    """
    if given.dtype == dtype:
        beyond = dtype == np.uint64 and given > MAX_STORED_INTEGER
        return given, int(np.argmax(beyond)) if np.any(beyond) else None
    with np.errstate(all="ignore"):
        values = given.astype(dtype)
    unfit = find_unrepresentable(given, values)
    return values, int(np.argmax(unfit)) if unfit.any() else None


def find_unrepresentable(given: NDArray[Any], values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the mask of values that a cast changed, rounding to floats aside."""
    dtype = values.dtype
    with np.errstate(all="ignore"):
        if dtype.kind in "fc":
            return np.asarray(np.isinf(values) & np.isfinite(given))
        if dtype.kind == "b":
            return np.asarray((given != 0) & (given != 1))
        unfit = values != given
        if given.dtype.kind == "f":
            # The largest integers round up to floats beyond their range.
            unfit |= (given >= 2.0 ** (np.iinfo(dtype).bits - (dtype.kind == "i"))) | (given != np.floor(given))
        elif given.dtype.kind in "iu":
            unfit |= (values < 0) != (given < 0)
        if dtype == np.uint64:
            unfit |= values > MAX_STORED_INTEGER
    return np.asarray(unfit)


def find_rounded(given: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.bool_] | None:
    """Return the mask of integers that a float dtype rounds, None if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> find_rounded(np.array([2**53, 2**53 + 1]), np.dtype("float64"))
    array([False,  True])
    """
    if given.dtype.kind not in "iu" or dtype.kind not in "fc" or not len(given):
        return None
    real = np.empty(0, dtype).real.dtype
    exact = 2 ** (np.finfo(real).nmant + 1)
    if int(given.max()) <= exact and int(given.min()) >= -exact:
        return None
    with np.errstate(all="ignore"):
        rounded = given.astype(real)
        top = 2.0 ** (np.iinfo(given.dtype).bits - (given.dtype.kind == "i"))
        fits = rounded < top  # a cast of what rounds up beyond the range has no meaning
        back = np.where(fits, rounded, 0).astype(given.dtype)
    found = ~fits | (back != given)
    return found if found.any() else None


def is_rounded_integer(token: str | bytes) -> bool:
    """Return whether a token is an integer that float64 does not hold.

    Examples
    --------
    >>> is_rounded_integer("9007199254740993"), is_rounded_integer("1e20"), is_rounded_integer(str(2**70))
    (True, False, False)
    """
    text = token.decode(errors="replace") if isinstance(token, bytes) else token
    found = re.fullmatch(r"[-+]?\d{16,}", text.strip())
    if found is None or len(found[0]) > _LONGEST_INTEGER:
        return found is not None
    return int(float(found[0])) != int(found[0])


def misfit_message(value: Any, dtype: np.dtype[Any]) -> str:
    """Return the error message for a value that a cast would change."""
    if dtype == np.uint64 and value > MAX_STORED_INTEGER and value != np.inf:
        return "exceeds 2^63 - 1, the largest stored integer: pass dtype='float64'"
    if dtype.kind in "fc" and isinstance(value, int | np.integer):
        return f"is an integer that {dtype} does not hold: pass dtype='int64' to keep it, or dtype='{dtype}' to round"
    return f"does not fit {dtype}"


def cast_appended(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values in the dtype of the tensor that they are appended to.

    Raises
    ------
    InvalidValueError
        If the dtype does not hold one of them.
    """
    found, unfit = cast_checked(values, dtype)
    if unfit is None and (rounded := find_rounded(values, dtype)) is not None:
        unfit = int(np.argmax(rounded))
    if unfit is not None:
        problem = f"append: values must fit {dtype} of the tensor, got {values[unfit].item()!r}: round the values first"
        wider = "float64" if values.dtype.kind == "f" else str(values.dtype)
        if np.can_cast(dtype, wider):
            problem += f", or store the tensor as {wider} with A.astype({wider!r}).save(path), and append to that"
        raise InvalidValueError(problem)
    return found
