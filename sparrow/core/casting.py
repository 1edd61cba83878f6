"""Lossless casts of values on their way into a tensor."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError

__all__ = [
    "MAX_STORED_INTEGER", "cast_appended", "cast_checked", "find_rounded", "find_unrepresentable", "is_rounded_integer",
    "misfit_message", "parse_digits", "wider_dtype",
]  # fmt: skip

MAX_STORED_INTEGER = 2**63 - 1
"""Largest integer in files, which store uint64 as int64."""

_LONGEST_INTEGER = 300
"""Digits of integers that are surely finite as floats."""

_MAX_PARSED_DIGITS = 4000
"""Digits of integers that are parsed; longer ones are beyond every type."""

_LARGEST_PARSED: int = 10**_MAX_PARSED_DIGITS

_MAX_FLOAT64 = int(np.finfo(np.float64).max)


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


def parse_digits(token: str) -> int | None:
    """Return an integer as written, None for other tokens.

    Examples
    --------
    >>> parse_digits(" -7"), parse_digits("1e3"), parse_digits("9" * 5000) > 2**64
    (-7, None, True)
    """
    found = re.fullmatch(r"([-+]?)(\d+)", token.strip(), re.ASCII)
    if found is None:
        return None
    if len(found[2]) > _MAX_PARSED_DIGITS:  # which int() refuses
        return _LARGEST_PARSED if found[1] != "-" else -_LARGEST_PARSED
    return int(found[0])


def misfit_message(value: Any, dtype: np.dtype[Any], keep: str | None = "pass dtype='int64'") -> str:
    """Return the error message for a value that a cast changes, and the way out.

    Parameters
    ----------
    value
        The value as it was read: an integer if it was written as one, and not rounded before.
    dtype
        Type of the cast.
    keep
        Way to keep integers within int64 as they are, None if the format has none.

    Examples
    --------
    >>> import numpy as np
    >>> misfit_message(300, np.dtype("int8"))
    "does not fit int8: pass dtype='int64'"
    >>> misfit_message(2**64 - 1, np.dtype("float64"))
    "is an integer that float64 does not hold, beyond 2^63 - 1, the largest stored one: pass dtype='float64' to round"
    """
    is_integer = isinstance(value, int | np.integer)
    if dtype == np.uint64 and value > MAX_STORED_INTEGER and value != np.inf:
        return "exceeds 2^63 - 1, the largest stored integer: pass dtype='float64'"
    if dtype.kind in "fc" and is_integer and abs(int(value)) <= int(np.finfo(dtype).max):
        text = f"is an integer that {dtype} does not hold"
        if int(value) > MAX_STORED_INTEGER:
            return f"{text}, beyond 2^63 - 1, the largest stored one: pass dtype='{dtype}' to round"
        if keep is None or int(value) < -(2**63):
            return f"{text}: pass dtype='{dtype}' to round"
        return f"{text}: {keep} to keep it, or {'' if keep.startswith('pass ') else 'pass '}dtype='{dtype}' to round"
    wider = wider_dtype(value, dtype)
    return f"does not fit {dtype}" + ("" if wider is None else f": pass dtype='{wider}'")


def wider_dtype(value: Any, dtype: np.dtype[Any]) -> str | None:
    """Return a type that takes a value that does not fit a type, None if none does."""
    if dtype.kind == "c":
        return None if dtype == np.complex128 else "complex128"
    if dtype.kind == "f":
        return None if dtype == np.float64 or (isinstance(value, int) and abs(value) > _MAX_FLOAT64) else "float64"
    if not isinstance(value, int | np.integer):  # perhaps rounded to the bounds
        is_stored = -(2.0**63) < value < 2.0**63 and value == np.floor(value)
    else:
        is_stored = -(2**63) <= int(value) <= MAX_STORED_INTEGER
    return "int64" if is_stored and dtype != np.int64 else "float64"


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
