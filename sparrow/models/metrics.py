"""How well predictions do, counted as they come: one pass over the rows, in memory that does not grow with them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Classification", "Metrics", "Regression"]

_BITS = 20
_BINS = 1 << _BITS


class Metrics(Protocol):
    """Counts over rows, of which figures are made in the end."""

    def add(self, scores: NDArray[np.float64], targets: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Count further rows: scores of shape (rows, outputs), targets as the kernels take them."""

    def result(self) -> dict[str, float]:
        """Return the figures by name."""


class Regression:
    """Mean squared error and R^2; the variance by the rule of Chan, which does not lose digits."""

    def __init__(self) -> None:
        self._count = self._mean = self._squares = self._errors = 0.0

    def add(self, scores: NDArray[np.float64], targets: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Count further rows."""
        count = float(weights.sum())
        if count <= 0:
            return
        self._errors += float(weights @ (scores[:, 0] - targets) ** 2)
        mean = float(weights @ targets) / count
        shift, both = mean - self._mean, self._count + count
        self._squares += float(weights @ (targets - mean) ** 2) + shift * shift * self._count * count / both
        self._mean += shift * count / both
        self._count = both

    def result(self) -> dict[str, float]:
        """Return the figures."""
        if not self._count:
            return {"mse": float("nan"), "r2": float("nan")}
        # As scikit-learn has it: without variance a perfect fit has 1, any other 0.
        explained = 1.0 - self._errors / self._squares if self._squares else float(self._errors == 0)
        return {"mse": self._errors / self._count, "r2": explained}


class Classification:
    """Accuracy, log loss if scores give chances, and of two classes the area under the ROC curve.

    The area is counted in bins of scores that agree in sign, exponent and 11 binary digits; pairs within a bin count
    one half. On real data that is right to four digits and more.

    Parameters
    ----------
    chances
        Whether scores are log odds.
    """

    def __init__(self, chances: bool) -> None:
        self._chances = chances
        self._count = self._right = self._loss = 0.0
        self._bins: NDArray[np.float64] | None = None

    def add(self, scores: NDArray[np.float64], targets: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Count further rows."""
        self._count += float(weights.sum())
        if scores.shape[1] > 1:
            wanted = targets.astype(np.intp)
            self._right += float(weights @ (scores.argmax(axis=1) == wanted))
            if self._chances:
                top = scores.max(axis=1)
                total = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top
                self._loss += float(weights @ (total - scores[np.arange(len(scores)), wanted]))
            return
        score, positive = scores[:, 0], targets > 0.5
        self._right += float(weights @ ((score > 0) == positive))
        if self._chances:
            self._loss += float(weights @ np.logaddexp(0.0, np.where(positive, -score, score)))
        if self._bins is None:
            self._bins = np.zeros((2, _BINS))
        at = _bin(score)
        for row, chosen in zip(self._bins, (~positive, positive), strict=True):
            np.add.at(row, at[chosen], weights[chosen])

    def result(self) -> dict[str, float]:
        """Return the figures."""
        found = {"accuracy": self._right / self._count if self._count else float("nan")}
        if self._chances:
            found["log_loss"] = self._loss / self._count if self._count else float("nan")
        if self._bins is not None:
            negative, positive = self._bins
            pairs = float(negative.sum()) * float(positive.sum())
            below = np.cumsum(negative) - 0.5 * negative
            found["auc"] = float(positive @ below) / pairs if pairs else float("nan")
        return found


def _bin(score: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of the bin of each score, ascending as the scores do."""
    bits = (score.astype(np.float32) + np.float32(0)).view(np.int32).astype(np.int64)
    ordered = np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)  # negative floats ascend as their bits fall
    found: NDArray[np.int64] = (ordered + (1 << 31)) >> (32 - _BITS)
    return found
