"""What labels, classes and names of features may be, in the words that scikit-learn's checks look for."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.training.features import scattered

__all__ = [
    "as_numbers", "check_labels", "check_names", "check_numbers", "check_share", "class_numbers", "distinct",
    "held_out", "not_fitted", "tell_names",
]  # fmt: skip

BLOCK = 1 << 22
"""Labels that are looked at at a time."""
_SHARES = 2**32
"""Rows are told apart for validation by this many values of a hash."""


def not_fitted(message: str) -> UnsupportedError:
    """Return an error that scikit-learn takes for its own where it is loaded."""
    found = sys.modules.get("sklearn.exceptions")
    if found is None:
        return UnsupportedError(message)
    return type("NotFittedError", (UnsupportedError, found.NotFittedError), {})(message)  # type: ignore[no-any-return]


def distinct(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the distinct labels, ascending, and how many there are of each.

    Raises
    ------
    InvalidValueError
        If they are of kinds that cannot be compared, as None and texts are.
    """
    counts: dict[Any, int] = {}
    for start in range(0, len(y), BLOCK):
        try:
            found, counted = np.unique(y[start : start + BLOCK], return_counts=True)
        except TypeError as error:
            raise InvalidValueError(f"y holds labels that do not sort, and classes are of one kind: {error}") from None
        for label, count in zip(found.tolist(), counted.tolist(), strict=True):
            counts[label] = counts.get(label, 0) + count
    labels = sorted(counts)
    return np.array(labels, y.dtype), np.array([counts[label] for label in labels], np.float64)


def class_numbers(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the number of the class of each label.

    Raises
    ------
    InvalidValueError
        If a label is of no known class.
    """
    count = len(classes)
    codes = np.empty(len(y), np.min_scalar_type(count))
    for start in range(0, len(y), BLOCK):
        block = y[start : start + BLOCK]
        at = np.minimum(np.searchsorted(classes, block), count - 1)
        wrong = classes[at] != block
        if wrong.any():
            p = int(np.flatnonzero(wrong)[0])
            raise InvalidValueError(
                f"row {start + p} has the class {block[p].item()!r}, the model knows {classes.tolist()}: "
                "give all classes to the first partial_fit, or fit anew"
            )
        codes[start : start + BLOCK] = at
    return codes


def as_numbers(y: NDArray[Any]) -> NDArray[Any]:
    """Return objects as numbers."""
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(
            f"Unknown label type: y holds objects, and a regression wants numbers: {error}"
        ) from None


def check_numbers(y: Any) -> None:
    """Raise ``InvalidValueError`` where labels are no numbers."""
    if y.dtype.kind not in "fiub":
        raise InvalidValueError(f"y holds {y.dtype} values: a regression wants numbers")


def check_labels(y: NDArray[Any]) -> None:
    """Raise where labels are no classes."""
    if y.dtype.kind == "f":
        broken = y != np.floor(y)
        if broken.any():
            raise InvalidValueError(
                f"Unknown label type: y holds {y[broken][0]}, and classes are whole numbers or texts: for other "
                "numbers use LinearRegression"
            )
    elif y.dtype.kind == "c":
        raise InvalidValueError("Unknown label type: y is complex")


def check_names(given: NDArray[Any], known: NDArray[Any]) -> None:
    """Raise ``InvalidValueError`` where names of features are not those of the fit."""
    if np.array_equal(given, known):
        return
    text = "The feature names should match those that were passed during fit.\n"
    beyond, missing = sorted(set(given) - set(known)), sorted(set(known) - set(given))
    if beyond:
        text += "Feature names unseen at fit time:\n" + "".join(f"- {name}\n" for name in beyond[:5])
    if missing:
        text += "Feature names seen at fit time, yet now missing:\n" + "".join(f"- {name}\n" for name in missing[:5])
    if not beyond and not missing:
        text += "Feature names must be in the same order as they were in fit.\n"
    raise InvalidValueError(text)


def tell_names(fitted: bool, name: str) -> None:
    """Warn where either side alone, the fit or what is asked about, has names of features."""
    text = (
        f"X does not have valid feature names, but {name} was fitted with feature names"
        if fitted
        else f"X has feature names, but {name} was fitted without feature names"
    )
    warnings.warn(text, UserWarning, stacklevel=5)


def held_out(rows: NDArray[np.int64], seed: int, share: float) -> NDArray[np.bool]:
    """Return which rows are held out: by a hash of their numbers, the same in every epoch and order."""
    hashes = scattered(rows.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 1) % 2**64))
    return (hashes % np.uint64(_SHARES)).astype(np.float64) < share * _SHARES


def check_share(height: int, seed: int, share: float) -> None:
    """Raise ``InvalidValueError`` where a share of so many rows is none or all of them."""
    count, seen = 0, 0
    for start in range(0, height, BLOCK):
        rows = np.arange(start, min(start + BLOCK, height))
        count += int(held_out(rows, seed, share).sum())
        seen += len(rows)
        if 0 < count < seen:
            return
    raise InvalidValueError(
        f"validation={share} holds out {count} of {height} rows: training and validation need some each"
    )
