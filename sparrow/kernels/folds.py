"""Folds: mergeable aggregates of groups of elements.

A :class:`Fold` is one quantity of a reduction: a sum, a minimum, a mean with squared deviations, the position of a
maximum. Its state is a tuple of arrays with one element per group. States come from runs of elements
(:meth:`Fold.runs`), are merged when a group continues in the next block (:meth:`Fold.merge`), or are updated element by
element (:meth:`Fold.scatter`). Folds ignore elements that are not stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.runs import run_lengths

__all__ = [
    "ExtremumFold",
    "Fold",
    "MappedFold",
    "MomentsFold",
    "NanExtremumFold",
    "NanMomentsFold",
    "State",
    "UfuncFold",
    "merge_moments",
]

State: TypeAlias = tuple[NDArray[Any], ...]
"""Aggregate state: arrays of shape (groups,)."""


class Fold(ABC):
    """Mergeable aggregate state of groups."""

    needs_positions = False
    """True if elements must come with their positions in the group, ascending."""
    scatters = True
    """True if groups may be the elements of dense arrays."""
    is_exact = False
    """True if the order of elements does not change bits."""

    @abstractmethod
    def runs(self, values: NDArray[Any], starts: NDArray[np.int64], positions: NDArray[np.int64] | None) -> State:
        """Return the states of the runs of ``values``, shape (n,), from ``starts`` on."""

    @abstractmethod
    def merge(self, earlier: State, n: NDArray[np.int64], later: State, m: NDArray[np.int64]) -> State:
        """Merge states of groups of ``n`` earlier and ``m`` later elements, all >= 1."""

    @abstractmethod
    def empty(self, size: int) -> State:
        """Return the states of empty groups."""

    @abstractmethod
    def scatter(
        self, state: State, keys: NDArray[np.int64], values: NDArray[Any], positions: NDArray[np.int64] | None
    ) -> None:
        """Add each element to its group, in order."""


@dataclass(frozen=True, slots=True)
class UfuncFold(Fold):
    """Fold of one ufunc, such as a sum or a maximum."""

    ufunc: np.ufunc
    dtype: np.dtype[Any]
    initial: Any
    """State of an empty group."""
    prepare: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    """Function applied to the values first."""

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        """True if the order of elements does not change bits."""
        return self.dtype.kind in "biu" or self.ufunc not in (np.add, np.multiply)

    def _prepare_values(self, values: NDArray[Any]) -> NDArray[Any]:
        if self.prepare is not None:
            values = self.prepare(values)
        # ufunc.at is 15 times slower where dtypes are equal but not NumPy's own instances.
        return values.astype(self.dtype, copy=False).view(self.dtype.type)

    def runs(self, values: NDArray[Any], starts: NDArray[np.int64], positions: NDArray[np.int64] | None) -> State:
        """Return the state of each run, with the same bits beside any other runs."""
        prepared = self._prepare_values(values)
        if len(starts) == 1:  # reduceat has no vector instructions for one long run
            return (self.ufunc.reduce(prepared[1:], keepdims=True, initial=prepared[0]),)
        return (self.ufunc.reduceat(prepared, starts),)

    def total(self, values: NDArray[Any]) -> State:
        """Return the state of all values as one group, summed as ``numpy.sum`` does."""
        return (self.ufunc.reduce(self._prepare_values(values), keepdims=True),)

    def merge(self, earlier: State, n: NDArray[np.int64], later: State, m: NDArray[np.int64]) -> State:
        """Merge states of groups."""
        return (self.ufunc(earlier[0], later[0]),)

    def empty(self, size: int) -> State:
        """Return the states of empty groups."""
        return (np.full(size, self.initial, self.dtype.type),)

    def scatter(
        self, state: State, keys: NDArray[np.int64], values: NDArray[Any], positions: NDArray[np.int64] | None
    ) -> None:
        """Add each element to its group, in order."""
        from sparrow.kernels.scatter import scatter_add

        prepared = self._prepare_values(values)
        if self.ufunc is np.add and self.dtype.kind in "iuf" and self.dtype.itemsize == 8:
            kind = np.float64 if self.dtype.kind == "f" else np.int64
            scatter_add(as_readonly(keys), as_readonly(prepared.view(kind)), state[0].view(kind))
        else:
            self.ufunc.at(state[0], keys, prepared)


@dataclass(frozen=True, slots=True)
class MomentsFold(Fold):
    """Mean and sum of squared deviations; the state is (mean, deviations).

    Two passes within a run, the formula of Chan, Golub and LeVeque (1983) across runs, and that of Welford (1962) for
    single elements: a mean that is large relative to the spread costs no precision.
    """

    dtype: np.dtype[Any]
    """float64, or complex128 for complex values."""

    @property
    def scatters(self) -> bool:  # type: ignore[override]
        """True if groups may be the elements of dense arrays."""
        return self.dtype.kind == "f"

    def runs(self, values: NDArray[Any], starts: NDArray[np.int64], positions: NDArray[np.int64] | None) -> State:
        """Return the state of each run."""
        values = values.astype(self.dtype, copy=False)
        counts = run_lengths(starts, len(values))
        mean = np.add.reduceat(values, starts) / counts
        away = values - np.repeat(mean, counts)
        return mean, np.add.reduceat(_squared_magnitude(away), starts)

    def merge(self, earlier: State, n: NDArray[np.int64], later: State, m: NDArray[np.int64]) -> State:
        """Merge states of groups."""
        return merge_moments(earlier, n.astype(np.float64), later, m.astype(np.float64))

    def empty(self, size: int) -> State:
        """Return the states of empty groups; a third array counts for :meth:`scatter`."""
        return np.zeros(size, self.dtype), np.zeros(size), np.zeros(size, np.int64)

    def scatter(
        self, state: State, keys: NDArray[np.int64], values: NDArray[Any], positions: NDArray[np.int64] | None
    ) -> None:
        """Add each element to its group, in order."""
        from sparrow.kernels.scatter import scatter_moments

        mean, away, count = state
        scatter_moments(as_readonly(keys), as_readonly(values.astype(self.dtype, copy=False)), mean, away, count)


def merge_moments(earlier: State, n: NDArray[np.float64], later: State, m: NDArray[np.float64]) -> State:
    """Merge moments of ``n`` and ``m`` elements, n + m > 0 (Chan et al. 1983)."""
    total = n + m
    apart = later[0] - earlier[0]
    mean = earlier[0] + apart * (m / total)
    return mean, earlier[1] + later[1] + _squared_magnitude(apart) * (n * (m / total))


def _squared_magnitude(values: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(values.real**2 + values.imag**2 if values.dtype.kind == "c" else values * values)


@dataclass(frozen=True, slots=True)
class ExtremumFold(Fold):
    """First extremum (NaN wins), and the first position without a stored element.

    The state is (value, its position, first position, number of consecutive positions from there).
    """

    dtype: np.dtype[Any]
    largest: bool
    needs_positions = True
    is_exact = True

    @property
    def scatters(self) -> bool:  # type: ignore[override]
        """True if groups may be the elements of dense arrays."""
        return self.dtype.kind != "c"

    def runs(self, values: NDArray[Any], starts: NDArray[np.int64], positions: NDArray[np.int64] | None) -> State:
        """Return the state of each run."""
        assert positions is not None
        counts = run_lengths(starts, len(values))
        best = (np.maximum if self.largest else np.minimum).reduceat(values, starts)
        spread = np.repeat(best, counts)
        hit = values == spread
        if self.dtype.kind in "fc":
            hit |= np.isnan(values) & np.isnan(spread)
        nowhere = np.iinfo(np.int64).max
        where = np.minimum.reduceat(np.where(hit, positions, nowhere), starts)
        first = positions[starts]
        rank = np.arange(len(values)) - np.repeat(starts, counts)
        follows = positions - np.repeat(first, counts) == rank
        return best, where, first, np.add.reduceat(follows, starts, dtype=np.int64)

    def merge(self, earlier: State, n: NDArray[np.int64], later: State, m: NDArray[np.int64]) -> State:
        """Merge states of groups."""
        take = self.beats(later[0], earlier[0])
        return (
            np.where(take, later[0], earlier[0]),
            np.where(take, later[1], earlier[1]),
            earlier[2],
            np.where((earlier[3] == n) & (later[2] == earlier[2] + n), n + later[3], earlier[3]),
        )

    def beats(self, challenger: NDArray[Any], holder: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the values that replace earlier ones."""
        better = challenger > holder if self.largest else challenger < holder
        if self.dtype.kind in "fc":
            better = ~np.isnan(holder) & (better | np.isnan(challenger))
        return np.asarray(better)

    def empty(self, size: int) -> State:
        """Return the states of empty groups."""
        integers = tuple(np.zeros(size, np.int64) for _ in range(3))
        return (np.zeros(size, self.dtype), *integers, np.zeros(size, np.int64), np.zeros(size, np.int64))

    def scatter(
        self, state: State, keys: NDArray[np.int64], values: NDArray[Any], positions: NDArray[np.int64] | None
    ) -> None:
        """Add elements in order; the state has two more arrays, counts and ranks."""
        from sparrow.kernels.scatter import scatter_best

        assert positions is not None
        value, where, first, follows, count, rank = state
        ranks = _ranks(values, self.largest)
        changed = scatter_best(
            as_readonly(keys), as_readonly(positions), as_readonly(ranks), where, first, follows, count, rank
        )
        value[keys[changed]] = values[changed]


def _ranks(values: NDArray[Any], largest: bool) -> NDArray[np.int64]:
    """Map real values to int64 ranks in their order, NaN the highest."""
    if values.dtype.kind == "f":
        wide = values.astype(np.float64) + 0.0
        bits = wide.view(np.int64)
        ranks = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
        ranks = ranks if largest else ~ranks
        return np.where(np.isnan(wide), np.iinfo(np.int64).max, ranks)
    flipped = values.dtype == np.uint64  # the top bit makes the order that of signed numbers
    ranks = (values ^ np.uint64(1 << 63)).view(np.int64) if flipped else values.astype(np.int64)
    return ranks if largest else ~ranks


@dataclass(frozen=True, slots=True)
class MappedFold(Fold):
    """Fold of values transformed by a function."""

    fold: Fold
    prepare: Callable[[NDArray[Any]], NDArray[Any]]

    @property
    def needs_positions(self) -> bool:  # type: ignore[override]
        """True if elements must come with their positions in the group."""
        return self.fold.needs_positions

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        """True if the order of elements does not change bits."""
        return self.fold.is_exact

    @property
    def scatters(self) -> bool:  # type: ignore[override]
        """True if groups may be the elements of dense arrays."""
        return self.fold.scatters

    def runs(self, values: NDArray[Any], starts: NDArray[np.int64], positions: NDArray[np.int64] | None) -> State:
        """Return the state of each run."""
        return self.fold.runs(self.prepare(values), starts, positions)

    def merge(self, earlier: State, n: NDArray[np.int64], later: State, m: NDArray[np.int64]) -> State:
        """Merge states of groups."""
        return self.fold.merge(earlier, n, later, m)

    def empty(self, size: int) -> State:
        """Return the states of empty groups."""
        return self.fold.empty(size)

    def scatter(
        self, state: State, keys: NDArray[np.int64], values: NDArray[Any], positions: NDArray[np.int64] | None
    ) -> None:
        """Add each element to its group, in order."""
        self.fold.scatter(state, keys, self.prepare(values), positions)


@dataclass(frozen=True, slots=True)
class NanMomentsFold(Fold):
    """Moments that ignore NaN; the state is (mean, deviations, counts)."""

    dtype: np.dtype[Any]
    """float64, or complex128 for complex values."""

    @property
    def scatters(self) -> bool:  # type: ignore[override]
        """True if groups may be the elements of dense arrays."""
        return MomentsFold(self.dtype).scatters

    def runs(self, values: NDArray[Any], starts: NDArray[np.int64], positions: NDArray[np.int64] | None) -> State:
        """Return the state of each run, in two passes."""
        values = values.astype(self.dtype, copy=False)
        numbers = ~np.isnan(values)
        counts = np.add.reduceat(numbers, starts, dtype=np.int64)
        mean = np.add.reduceat(np.where(numbers, values, 0), starts) / np.maximum(counts, 1)
        away = np.where(numbers, values - np.repeat(mean, run_lengths(starts, len(values))), 0)
        return mean, np.add.reduceat(away.real**2 + away.imag**2, starts), counts

    def merge(self, earlier: State, n: NDArray[np.int64], later: State, m: NDArray[np.int64]) -> State:
        """Merge states of groups by the counts in the state, not ``n`` and ``m``."""
        first, second = earlier[2], later[2]
        mean, away = merge_moments(earlier[:2], first.astype(np.float64), later[:2], second.astype(np.float64))
        alone = (first == 0) | (second == 0)
        one = first > 0
        return (
            np.where(alone, np.where(one, earlier[0], later[0]), mean),
            np.where(alone, np.where(one, earlier[1], later[1]), away),
            first + second,
        )

    def empty(self, size: int) -> State:
        """Return the states of empty groups."""
        return MomentsFold(self.dtype).empty(size)

    def scatter(
        self, state: State, keys: NDArray[np.int64], values: NDArray[Any], positions: NDArray[np.int64] | None
    ) -> None:
        """Add each number to its group, in order."""
        numbers = ~np.isnan(values)
        MomentsFold(self.dtype).scatter(state, keys[numbers], values[numbers], None)


@dataclass(frozen=True, slots=True)
class NanExtremumFold(ExtremumFold):
    """First extremum, ignoring NaN; NaN without a position if all are NaN."""

    @property
    def scatters(self) -> bool:  # type: ignore[override]
        """Always False: NaN ranks above all numbers there."""
        return False

    def runs(self, values: NDArray[Any], starts: NDArray[np.int64], positions: NDArray[np.int64] | None) -> State:
        """Return the state of each run."""
        worst = complex(-np.inf, -np.inf) if self.largest else complex(np.inf, np.inf)
        blind = np.isnan(values)
        filled = np.where(blind, worst if self.dtype.kind == "c" else worst.real, values).astype(self.dtype)
        best, where, first, follows = super(NanExtremumFold, self).runs(filled, starts, positions)
        assert positions is not None
        hit = ~blind & (filled == np.repeat(best, run_lengths(starts, len(values))))
        where = np.minimum.reduceat(np.where(hit, positions, np.iinfo(np.int64).max), starts)
        return np.where(np.logical_or.reduceat(~blind, starts), best, self.dtype.type(np.nan)), where, first, follows

    def beats(self, challenger: NDArray[Any], holder: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the values that replace earlier ones."""
        better = challenger > holder if self.largest else challenger < holder
        return np.asarray(better | (np.isnan(holder) & ~np.isnan(challenger)))
