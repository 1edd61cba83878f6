"""Validation of targets: labels, classes, feature names, held-out rows.

Messages contain the wording that scikit-learn's estimator checks require.
"""

from __future__ import annotations

import sys
import warnings
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.models.tuning import tuning
from sparrow.training.features import hash_integers

__all__ = [
    "check_classes", "check_feature_names", "check_numbers", "check_validation_share", "count_classes",
    "encode_classes", "is_held_out", "not_fitted_error", "to_numbers", "warn_feature_names",
]  # fmt: skip

_HASH_RANGE = 2**32
"""Number of hash values that select held-out rows."""


class _NotFittedError(UnsupportedError, AttributeError):
    """Use of a model that is not fitted."""


def not_fitted_error(message: str) -> UnsupportedError:
    """Return an error that is scikit-learn's ``NotFittedError`` too if it is loaded.

    It is an ``AttributeError``, so ``hasattr(model, "coef_")`` is False before the fit.
    """
    sklearn_errors = sys.modules.get("sklearn.exceptions")
    if sklearn_errors is None:
        return _NotFittedError(message)
    return type("NotFittedError", (UnsupportedError, sklearn_errors.NotFittedError), {})(message)  # type: ignore[no-any-return]


def count_classes(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the distinct labels, ascending, and the count of each.

    Raises
    ------
    InvalidValueError
        If labels of different types cannot be compared.
    """
    counts: dict[Any, int] = {}
    step = tuning().label_block_rows
    for start in range(0, len(y), step):
        try:
            chunk_labels, chunk_counts = np.unique(y[start : start + step], return_counts=True)
        except TypeError as error:
            raise InvalidValueError(f"labels in y must be of one comparable type: {error}") from None
        for label, count in zip(chunk_labels.tolist(), chunk_counts.tolist(), strict=True):
            counts[label] = counts.get(label, 0) + count
    labels = sorted(counts)
    return np.array(labels, y.dtype), np.array([counts[label] for label in labels], np.float64)


def encode_classes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the class number of each label.

    Raises
    ------
    InvalidValueError
        If a class is unknown.
    """
    count = len(classes)
    codes = np.empty(len(y), np.min_scalar_type(count))
    step = tuning().label_block_rows
    for start in range(0, len(y), step):
        block = y[start : start + step]
        at = np.minimum(np.searchsorted(classes, block), count - 1)
        wrong = classes[at] != block
        if wrong.any():
            p = int(np.flatnonzero(wrong)[0])
            raise InvalidValueError(
                f"row {start + p} has the unknown class {block[p].item()!r}, expected one of {classes.tolist()}: pass "
                "all classes to the first partial_fit, or call fit"
            )
        codes[start : start + step] = at
    return codes


def to_numbers(y: NDArray[Any]) -> NDArray[Any]:
    """Return labels of dtype object as floats."""
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(
            f"Unknown label type: y must be numeric for a regression, got objects: {error}"
        ) from None


def check_numbers(y: Any) -> None:
    """Raise ``InvalidValueError`` if labels are not numeric."""
    if y.dtype.kind not in "fiub":
        raise InvalidValueError(f"y must be numeric for a regression, got {y.dtype}")


def check_classes(y: NDArray[Any]) -> None:
    """Raise ``InvalidValueError`` if labels are not classes."""
    if y.dtype.kind == "f":
        broken = y != np.floor(y)
        if broken.any():
            raise InvalidValueError(
                f"Unknown label type: classes must be integers or strings, got {y[broken][0]}: use LinearRegression "
                "for other numbers"
            )
    elif y.dtype.kind == "c":
        raise InvalidValueError("Unknown label type: y is complex")
    elif y.dtype.kind == "V":
        raise InvalidValueError(f"Unknown label type: classes must be numbers, text, bytes or dates, got {y.dtype}")
    elif y.dtype.kind == "O":
        kinds = (str, bytes, bool, int, float, np.generic, date)
        for label in y:
            if not isinstance(label, kinds):
                raise InvalidValueError(
                    "Unknown label type: labels in y must be of one comparable type, numbers, text, bytes or dates, "
                    f"got {label!r}"
                )


def check_feature_names(given: NDArray[Any], known: NDArray[Any]) -> None:
    """Raise ``InvalidValueError`` if feature names differ from those of the fit."""
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


def warn_feature_names(fitted: bool, name: str) -> None:
    """Warn that only the fit, or only the input, has feature names."""
    text = (
        f"X does not have valid feature names, but {name} was fitted with feature names"
        if fitted
        else f"X has feature names, but {name} was fitted without feature names"
    )
    warnings.warn(text, UserWarning, stacklevel=5)


def is_held_out(rows: NDArray[np.int64], seed: int, fraction: float) -> NDArray[np.bool]:
    """Return a mask of held-out rows, by a hash of their numbers.

    It is the same in every epoch and order.
    """
    hashes = hash_integers(rows.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 1) % 2**64))
    return (hashes % np.uint64(_HASH_RANGE)).astype(np.float64) < fraction * _HASH_RANGE


def check_validation_share(height: int, seed: int, fraction: float) -> None:
    """Raise ``InvalidValueError`` if no rows, or all, are held out."""
    count, seen = 0, 0
    step = tuning().label_block_rows
    for start in range(0, height, step):
        rows = np.arange(start, min(start + step, height))
        count += int(is_held_out(rows, seed, fraction).sum())
        seen += len(rows)
        if 0 < count < seen:
            return
    raise InvalidValueError(
        f"validation={fraction} holds out {count} of {height} rows: training and validation require at least one each"
    )
