"""Order of the rows in an epoch: partitions in windows, shuffled within.

Nothing is read here: an order depends on partition bounds, seed and epoch alone, so any part of any epoch is
reproducible.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparrow.training.tuning import tuning

__all__ = ["Window", "plan_epoch"]


@dataclass(frozen=True, slots=True)
class Window:
    """Partitions of rows that are read and shuffled together."""

    partitions: tuple[tuple[int, int], ...]
    """Row bounds [start, stop)."""
    seed: tuple[int, ...] | None
    """Seed of the permutation; None keeps the order."""

    @property
    def height(self) -> int:
        """Number of rows."""
        return sum(stop - start for start, stop in self.partitions)

    def permutation(self) -> NDArray[np.int64] | None:
        """Return the order of the concatenated rows, or None."""
        return None if self.seed is None else np.random.default_rng(self.seed).permutation(self.height)

    def row_numbers(self) -> NDArray[np.int64]:
        """Return the numbers of the concatenated rows."""
        return np.concatenate([np.arange(start, stop, dtype=np.int64) for start, stop in self.partitions])


def plan_epoch(bounds: Sequence[int], shuffle: bool, seed: int, epoch: int) -> tuple[Window, ...]:
    """Return the windows of an epoch, in order.

    Parameters
    ----------
    bounds
        Ascending partition bounds, as :func:`sparrow.engines.open_partitions` returns them.
    shuffle
        Draw partitions at random and shuffle rows within windows of them.
    seed, epoch
        Seed of the order.
    """
    partitions = list(itertools.pairwise(bounds))
    if not shuffle:
        return tuple(Window((partition,), None) for partition in partitions)
    drawn = [partitions[k] for k in np.random.default_rng((seed, epoch)).permutation(len(partitions))]
    count = -(-len(drawn) // tuning().window_partitions)
    cuts = [len(drawn) * k // count for k in range(count + 1)] if count else [0]  # windows of almost equal size
    return tuple(
        Window(tuple(drawn[first:last]), (seed, epoch, number))
        for number, (first, last) in enumerate(itertools.pairwise(cuts))
    )
