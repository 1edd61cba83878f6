"""Arguments that are numbers, words and paths: checked where they are given, so that an error names them."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from typing import Any

import numpy as np

from sparrow.errors import InvalidValueError, NotFoundError, UnsupportedError

__all__ = [
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
    """Return a setting that is on or off; raise ``InvalidValueError`` if it is neither."""
    if isinstance(value, bool | np.bool_) or (isinstance(value, int | np.integer) and value in (0, 1)):
        return bool(value)
    raise InvalidValueError(f"{name}={value!r}: give True or False")


def check_unmasked(values: Any) -> None:
    """Raise ``UnsupportedError`` if this is an array of NumPy some of whose cells are masked."""
    if np.ma.is_masked(values):
        raise UnsupportedError("a masked array has cells without values: give them some with its filled(...)")


def check_integer(name: str, value: Any, least: int) -> None:
    """Raise ``InvalidValueError`` unless a setting is an integer of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidValueError(f"{name}={value!r}: give an integer of at least {least}")


def check_number(
    name: str,
    value: Any,
    most: float = math.inf,
    *,
    least: float = 0.0,
    above: float = -math.inf,
    below: float = math.inf,
) -> None:
    """Raise ``InvalidValueError`` unless a setting is a finite number from ``least`` to ``most``, and within bounds."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if number and math.isfinite(value) and least <= value <= most and above < value < below:
        return
    lower = f"above {above:g}" if above > -math.inf else f"of at least {least:g}" if least > -math.inf else ""
    upper = f"below {below:g}" if below < math.inf else ""
    bounds = " and ".join(filter(None, (lower, upper)))
    wanted = f"a number from {least:g} to {most:g}" if most < math.inf else f"a finite number {bounds}".rstrip()
    raise InvalidValueError(f"{name}={value!r}: give {wanted}")


def check_choice(name: str, value: Any, allowed: Collection[str]) -> None:
    """Raise ``InvalidValueError`` unless a setting is one of some words."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidValueError(f"{name}={value!r}: use one of {', '.join(map(repr, allowed))}")


def check_seed(seed: Any, name: str = "seed") -> None:
    """Raise ``InvalidValueError`` unless a seed is an integer that 64 bits hold."""
    check_integer(name, seed, 0)
    if seed >= 2**64:
        raise InvalidValueError(f"{name}={seed!r}: give an integer below 2^64")


def check_path(path: Any, name: str = "path") -> str:
    """Return a path as a text.

    Raises
    ------
    UnsupportedError
        If it is neither a text nor an ``os.PathLike`` of one.
    InvalidValueError
        If no file of this machine can have the name.
    """
    try:
        text = os.fspath(path)
    except TypeError:
        raise UnsupportedError(f"{name}={path!r}: give a path, as a text or pathlib.Path") from None
    if not isinstance(text, str):
        raise UnsupportedError(f"{name}={path!r}: give a path as a text, os.fsdecode({path!r})")
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InvalidValueError(
            f"{name}={text!a}: names of files are {error.encoding} here, which has no {text[error.start]!a}; set "
            "PYTHONUTF8=1 in the environment"
        ) from None
    if b"\0" in encoded:
        raise InvalidValueError(f"{name}={text!r}: no name of a file holds a null character")
    return text


def full_path(path: str) -> str:
    """Return a path of this machine as an absolute one.

    Raises
    ------
    NotFoundError
        If it begins in the current folder, which is no more.
    """
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise NotFoundError(f"{path!r} is in the current folder, which was removed: os.chdir to another one") from None
