"""Further folds: over values that are changed first, and over numbers only, NaN left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.reduce import Best, Fold, Moments, State, merged_moments, run_lengths

__all__ = ["BestNumber", "NumberMoments", "Prepared"]


@dataclass(frozen=True, slots=True)
class Prepared(Fold):
    """A fold of values that a function is applied to first."""

    fold: Fold
    prepare: Callable[[NDArray[Any]], NDArray[Any]]

    @property
    def needs_positions(self) -> bool:  # type: ignore[override]
        """Whether entries of a group must come with their positions."""
        return self.fold.needs_positions

    @property
    def scatters(self) -> bool:  # type: ignore[override]
        """Whether groups may be the cells of dense arrays."""
        return self.fold.scatters

    def runs(self, values: NDArray[Any], starts: NDArray[np.int64], positions: NDArray[np.int64] | None) -> State:
        """Return the state of each run."""
        return self.fold.runs(self.prepare(values), starts, positions)

    def merge(self, earlier: State, n: NDArray[np.int64], later: State, m: NDArray[np.int64]) -> State:
        """Return the states of groups that go on."""
        return self.fold.merge(earlier, n, later, m)

    def empty(self, size: int) -> State:
        """Return the states of groups without entries."""
        return self.fold.empty(size)

    def scatter(
        self, state: State, keys: NDArray[np.int64], values: NDArray[Any], positions: NDArray[np.int64] | None
    ) -> None:
        """Add each entry to its group, in order."""
        self.fold.scatter(state, keys, self.prepare(values), positions)


@dataclass(frozen=True, slots=True)
class NumberMoments(Fold):
    """Mean and sum of squared deviations of the values that are not NaN: the state is (mean, deviations, numbers)."""

    dtype: np.dtype[Any]
    """float64, or complex128 for complex values."""

    @property
    def scatters(self) -> bool:  # type: ignore[override]
        """Whether groups may be the cells of dense arrays."""
        return Moments(self.dtype).scatters

    def runs(self, values: NDArray[Any], starts: NDArray[np.int64], positions: NDArray[np.int64] | None) -> State:
        """Return the state of each run, in two passes."""
        values = values.astype(self.dtype, copy=False)
        numbers = ~np.isnan(values)
        counts = np.add.reduceat(numbers, starts, dtype=np.int64)
        mean = np.add.reduceat(np.where(numbers, values, 0), starts) / np.maximum(counts, 1)
        away = np.where(numbers, values - np.repeat(mean, run_lengths(starts, len(values))), 0)
        return mean, np.add.reduceat(away.real**2 + away.imag**2, starts), counts

    def merge(self, earlier: State, n: NDArray[np.int64], later: State, m: NDArray[np.int64]) -> State:
        """Return the states of groups that go on; numbers of entries, NaN among them, do not matter."""
        first, second = earlier[2], later[2]
        mean, away = merged_moments(earlier[:2], first.astype(np.float64), later[:2], second.astype(np.float64))
        alone = (first == 0) | (second == 0)
        one = first > 0
        return (
            np.where(alone, np.where(one, earlier[0], later[0]), mean),
            np.where(alone, np.where(one, earlier[1], later[1]), away),
            first + second,
        )

    def empty(self, size: int) -> State:
        """Return the states of groups without numbers."""
        return Moments(self.dtype).empty(size)

    def scatter(
        self, state: State, keys: NDArray[np.int64], values: NDArray[Any], positions: NDArray[np.int64] | None
    ) -> None:
        """Add each number to its group, in order."""
        numbers = ~np.isnan(values)
        Moments(self.dtype).scatter(state, keys[numbers], values[numbers], None)


@dataclass(frozen=True, slots=True)
class BestNumber(Best):
    """The first largest or smallest value that is a number; NaN, at no position, where there is none."""

    @property
    def scatters(self) -> bool:  # type: ignore[override]
        """Never: NaN has its rank above the numbers there."""
        return False

    def runs(self, values: NDArray[Any], starts: NDArray[np.int64], positions: NDArray[np.int64] | None) -> State:
        """Return the state of each run."""
        worst = complex(-np.inf, -np.inf) if self.largest else complex(np.inf, np.inf)
        blind = np.isnan(values)
        filled = np.where(blind, worst if self.dtype.kind == "c" else worst.real, values).astype(self.dtype)
        best, where, first, follows = super(BestNumber, self).runs(filled, starts, positions)
        assert positions is not None
        hit = ~blind & (filled == np.repeat(best, run_lengths(starts, len(values))))
        where = np.minimum.reduceat(np.where(hit, positions, np.iinfo(np.int64).max), starts)
        return np.where(np.logical_or.reduceat(~blind, starts), best, self.dtype.type(np.nan)), where, first, follows

    def beats(self, challenger: NDArray[Any], holder: NDArray[Any]) -> NDArray[np.bool_]:
        """Return where a value takes the place of an earlier one."""
        better = challenger > holder if self.largest else challenger < holder
        return np.asarray(better | (np.isnan(holder) & ~np.isnan(challenger)))
