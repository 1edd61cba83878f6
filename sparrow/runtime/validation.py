"""Validation of arguments: flags, numbers, choices, seeds and paths."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from sparrow.errors import InvalidValueError, NotFoundError, UnsupportedError

__all__ = [
    "as_names",
    "check_choice",
    "check_flag",
    "check_integer",
    "check_number",
    "check_path",
    "check_seed",
    "check_unmasked",
    "full_path",
]


def check_flag(name: str, value: Any) -> bool:
    """Return a flag as a bool; raise ``InvalidValueError`` unless it is one."""
    if isinstance(value, bool | np.bool_) or (isinstance(value, int | np.integer) and value in (0, 1)):
        return bool(value)
    raise InvalidValueError(f"{name} must be True or False, got {value!r}")


def check_unmasked(values: Any, name: str = "values") -> None:
    """Raise ``UnsupportedError`` for a NumPy masked array with masked elements.

    In lists and tuples, too.
    """
    masked = sys.modules.get("numpy.ma")
    if masked is None or type(values) is np.ndarray:  # NumPy imports it when it is first used
        return
    if type(values) in (list, tuple):
        for one in values:
            if type(one) not in (int, float, np.ndarray):
                check_unmasked(one, name)
    elif masked.is_masked(values):
        raise UnsupportedError(f"{name} must not contain masked elements: replace them with filled(...)")


def check_integer(name: str, value: Any, minimum: int) -> None:
    """Raise ``InvalidValueError`` unless ``value`` is an integer in range."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise InvalidValueError(f"{name} must be an integer of at least {minimum}, got {value!r}")


def check_number(
    name: str,
    value: Any,
    maximum: float = math.inf,
    *,
    minimum: float = 0.0,
    above: float = -math.inf,
    below: float = math.inf,
) -> None:
    """Raise ``InvalidValueError`` unless ``value`` is a finite number in range.

    Parameters
    ----------
    maximum, minimum
        Inclusive bounds.
    above, below
        Exclusive bounds.
    """
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if number and math.isfinite(value) and minimum <= value <= maximum and above < value < below:
        return
    lower = f"above {above:g}" if above > -math.inf else f"of at least {minimum:g}" if minimum > -math.inf else ""
    upper = f"below {below:g}" if below < math.inf else ""
    bounds = " and ".join(filter(None, (lower, upper)))
    expected = (
        f"a number from {minimum:g} to {maximum:g}" if maximum < math.inf else f"a finite number {bounds}".rstrip()
    )
    raise InvalidValueError(f"{name} must be {expected}, got {value!r}")


def check_choice(name: str, value: Any, allowed: Collection[str]) -> None:
    """Raise ``InvalidValueError`` unless ``value`` is an allowed string."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def as_names(name: str, value: Any) -> list[Any]:
    """Return a list of names; one name is a list of one.

    Raises
    ------
    InvalidValueError
        If ``value`` is neither a string nor a list.
    """
    if isinstance(value, bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        raise InvalidValueError(f"{name} must be a list of names, got {value!r}")
    return [value] if isinstance(value, str) else list(value)


def check_seed(seed: Any) -> None:
    """Raise ``InvalidValueError`` unless a seed is a non-negative integer below 2^64."""
    check_integer("seed", seed, 0)
    if seed >= 2**64:
        raise InvalidValueError(f"seed must be an integer below 2^64, got {seed!r}")


def check_path(path: Any, name: str = "path") -> str:
    """Return a path as a string.

    Raises
    ------
    UnsupportedError
        If it is neither a string nor an ``os.PathLike`` of one.
    InvalidValueError
        If it is not a valid file name.
    """
    try:
        text = os.fspath(path)
    except TypeError:
        raise UnsupportedError(f"{name} must be a str or pathlib.Path, got {path!r}") from None
    if not isinstance(text, str):
        raise UnsupportedError(f"{name} must be a str, got {path!r}: use os.fsdecode({path!r})")
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InvalidValueError(
            f"{name}={text!a} cannot be encoded in the file system encoding {error.encoding}, which lacks "
            f"{text[error.start]!a}: set PYTHONUTF8=1 in the environment"
        ) from None
    if b"\0" in encoded:
        raise InvalidValueError(f"{name} must not contain a null character, got {text!r}")
    return text


def full_path(path: str) -> str:
    """Return the absolute path of a local path.

    Raises
    ------
    NotFoundError
        If it is relative and the current directory does not exist.
    """
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise NotFoundError(
            f"{path!r} is relative to the current directory, which was removed: os.chdir to another one"
        ) from None
