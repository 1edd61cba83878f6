"""Counters of elements, chunk by chunk: degrees, and a histogram of values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.explorer.tuning import tuning

__all__ = ["DegreeCounter", "ValueHistogram"]

_EXTREME = 1e290
"""Larger magnitudes share the outermost bins, so that the width of a bin stays finite."""


class DegreeCounter:
    """Number of elements at each position of an axis, or at every nth of many.

    Examples
    --------
    >>> import numpy as np
    >>> degrees = DegreeCounter(4)
    >>> degrees.add(np.array([0, 0, 3]))
    >>> degrees.summary()["degree"], degrees.summary()["count"], degrees.summary()["empty"]
    ([1.0, 2.0], [1.0, 1.0], 2)
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.stride = -(-size // tuning().degree_ids) | 1 if size > tuning().degree_ids else 1
        self._counts = np.zeros(-(-size // self.stride), np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the counters."""
        return self._counts.nbytes

    def add(self, positions: NDArray[Any]) -> None:
        """Count the elements of a chunk."""
        if self.stride > 1:
            positions = positions[positions % self.stride == 0] // self.stride
        if not len(positions):
            return
        if (positions[1:] >= positions[:-1]).all():  # sorted: one addition per run
            starts = np.flatnonzero(np.append(True, positions[1:] != positions[:-1]))
            self._counts[positions[starts]] += np.diff(np.append(starts, len(positions)))
        else:
            np.add.at(self._counts, positions, 1)

    def summary(self, scale: float = 1.0) -> dict[str, Any]:
        """Return the distribution: degrees, and the number of positions of each.

        Many degrees are grouped, ten to a decade: the number is then the mean over the degrees of a group.

        Parameters
        ----------
        scale
            Factor for positions that were not read.
        """
        found = self._counts[self._counts > 0]
        out: dict[str, Any] = {"size": self.size, "every": self.stride, "largest": int(found.max(initial=0))}
        scale *= self.stride
        out["empty"] = max(self.size - round(len(found) * scale), 0)
        out["mean"] = float(found.mean()) if len(found) else 0.0
        degrees, counts = np.unique(found, return_counts=True)
        if len(degrees) > tuning().degree_points:
            edges = np.unique(np.floor(10 ** np.arange(0, math.log10(degrees[-1]) + 0.2, 0.1)).astype(np.int64))
            group = np.searchsorted(edges, degrees, "right") - 1
            ends = np.append(edges[1:], edges[-1] + 1)
            totals = np.bincount(group, counts, len(edges))
            used = totals > 0
            middle = np.sqrt(edges * np.maximum(ends - 1, edges).astype(np.float64))
            degrees, counts = middle[used], (totals / (ends - edges))[used]
        out["degree"] = degrees.astype(np.float64).tolist()
        out["count"] = (counts * scale).tolist()
        return out


@dataclass
class ValueHistogram:
    """Exact histogram of values whose range is not known in advance.

    Few distinct values are counted one by one. Otherwise bins of equal width, of values or of their logarithms, cover a
    range that doubles, by adding up pairs of bins, whenever a value lies outside.

    Examples
    --------
    >>> import numpy as np
    >>> values = ValueHistogram(np.dtype("int64"))
    >>> values.add(np.array([1, 1, 5]))
    >>> values.summary()["values"], values.summary()["count"]
    (['1', '5'], [2.0, 1.0])
    """

    dtype: np.dtype[Any]
    total: int = 0
    nan: int = 0
    least: float = math.inf
    largest: float = -math.inf
    sum: float = 0.0
    scale: str = ""
    """"categories", "linear" or "log", once there is a value."""
    outside: int = 0
    """Values that a logarithmic scale lacks: zero and below."""
    _values: NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    _counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _low: float = 0.0
    _width: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of the counters."""
        return int(self._counts.nbytes + self._values.nbytes)

    def add(self, values: NDArray[Any]) -> None:
        """Count the values of a chunk; of complex numbers their magnitudes."""
        values = np.abs(values) if values.dtype.kind == "c" else values
        values = values.view(np.uint8) if values.dtype.kind == "b" else values
        self.total += len(values)
        if values.dtype.kind == "f" and len(values) and np.isnan(values.min()):
            missing = np.isnan(values)
            self.nan += int(missing.sum())
            values = values[~missing]
        if not len(values):
            return
        with np.errstate(all="ignore"):
            self.least, self.largest = min(self.least, float(values.min())), max(self.largest, float(values.max()))
            self.sum += float(values.sum(dtype=np.float64))
        if not self.scale:
            self._choose_scale(values)
        if self.scale == "categories":
            values = self._add_categories(values)
            if not len(values):
                return
        self._add_to_bins(values.astype(np.float64), None)

    def _choose_scale(self, values: NDArray[Any]) -> None:
        limits = tuning()
        probe = values[:: max(len(values) // limits.value_probe, 1)]
        if len(np.unique(probe)) <= limits.value_categories:
            self.scale, self._values = "categories", np.zeros(0, values.dtype)
        else:
            self.scale = self._continuous_scale(probe)

    def _continuous_scale(self, values: NDArray[Any]) -> str:
        if float(values.min()) <= 0:
            return "linear"
        low, high = np.quantile(values.astype(np.float64), [0.02, 0.98])
        return "log" if high / low >= tuning().log_scale_ratio else "linear"

    def _add_categories(self, values: NDArray[Any]) -> NDArray[Any]:
        """Count values one by one; return those that are left if there are too many."""
        at = np.searchsorted(self._values, values)
        known = np.zeros(len(values), bool)
        if len(self._values):
            at = np.minimum(at, len(self._values) - 1)
            known = self._values[at] == values
        others = values[~known]
        self._counts += np.bincount(at[known], minlength=len(self._values))
        if not len(others):
            return others
        new, counts = np.unique(others, return_counts=True)
        if len(self._values) + len(new) <= tuning().value_categories:
            places = np.searchsorted(self._values, new)
            self._values = np.insert(self._values, places, new)
            self._counts = np.insert(self._counts, places, counts)
            return others[:0]
        before, weights = self._values.astype(np.float64), self._counts
        self.scale, self._counts = self._continuous_scale(np.concatenate([self._values, new])), np.zeros(0, np.int64)
        self._values = self._values[:0]
        if len(before):
            self._add_to_bins(before, weights)
        return others

    def _add_to_bins(self, values: NDArray[np.float64], weights: NDArray[np.int64] | None) -> None:
        bins = tuning().value_bins // 2 * 2
        if self.scale == "log":
            positive = values > 0
            self.outside += int((~positive).sum() if weights is None else weights[~positive].sum())
            values = np.log10(values[positive])
            weights = None if weights is None else weights[positive]
            if not len(values):
                return
        values = np.clip(values, -_EXTREME, _EXTREME)
        least, largest = float(values.min()), float(values.max())
        if not len(self._counts):
            self._counts = np.zeros(bins, np.int64)
            if self.scale == "linear" and 0 <= least < (largest - least) / 2:
                least = 0.0  # later values are hardly below, which would double the range
            if self.dtype.kind in "iub" and self.scale == "linear":
                self._low, self._width = math.floor(least), float(max(math.ceil((largest - least + 1) / bins), 1))
            else:
                self._low = least
                self._width = (largest - least) * (1 + 1e-9) / bins or max(abs(least), 1.0) * 2**-20
        half = bins // 2
        while largest >= self._low + bins * self._width:
            self._counts = np.append(self._counts.reshape(half, 2).sum(axis=1), np.zeros(half, np.int64))
            self._width *= 2
        while least < self._low:
            self._counts = np.append(np.zeros(half, np.int64), self._counts.reshape(half, 2).sum(axis=1))
            self._low -= bins * self._width
            self._width *= 2
        at = np.clip((values - self._low) / self._width, 0, bins - 1).astype(np.int64)
        found = np.bincount(at, weights, bins)
        self._counts += found.astype(np.int64)

    def summary(self, factor: float = 1.0) -> dict[str, Any]:
        """Return the histogram; ``factor`` scales counts of a sample."""
        empty = self.least > self.largest
        out: dict[str, Any] = {
            "scale": self.scale or "linear",
            "total": self.total * factor,
            "nan": self.nan * factor,
            "outside": self.outside * factor,
            "least": None if empty else _finite(self.least),
            "largest": None if empty else _finite(self.largest),
            "mean": None if empty else _finite(self.sum / max(self.total - self.nan, 1)),
        }
        if self.scale == "categories":
            kind = self.dtype.kind
            out["values"] = [str(bool(v)) if kind == "b" else f"{v:.6g}" if kind in "fc" else str(v)
                             for v in self._values.tolist()]  # fmt: skip
        else:
            filled = np.flatnonzero(self._counts)
            first, last = (int(filled[0]), int(filled[-1]) + 1) if len(filled) else (0, 0)
            edges = self._low + self._width * np.arange(first, last + 1)
            out["edges"] = (10.0**edges if self.scale == "log" else edges).tolist()
            out["count"] = (self._counts[first:last] * factor).tolist()
            return out
        out["count"] = (self._counts * factor).tolist()
        return out


def _finite(value: float) -> float | str:
    """Return a number, or the text of one that JSON lacks."""
    return value if math.isfinite(value) else str(value)
