"""The order of the rows in an epoch: which stretches are read together, and how their rows are mixed.

Nothing here reads: an order is made of bounds of stretches, so any part of any epoch can be had again.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["WINDOW", "Order", "Window", "epoch_order"]

WINDOW = 8
"""The stretches that are mixed with each other."""


@dataclass(frozen=True, slots=True)
class Window:
    """Stretches of rows that are read together, and how their rows are mixed."""

    stretches: tuple[tuple[int, int], ...]
    seed: tuple[int, ...] | None
    """What decides the order of the rows; None leaves them as they are."""

    @property
    def height(self) -> int:
        """The number of rows."""
        return sum(stop - start for start, stop in self.stretches)

    def mixed(self) -> NDArray[np.int64] | None:
        """Return the order in which the rows of the stretches, one below the other, come; None is as they are."""
        return None if self.seed is None else np.random.default_rng(self.seed).permutation(self.height)

    def rows(self) -> NDArray[np.int64]:
        """Return the numbers of the rows of the stretches, one below the other."""
        return np.concatenate([np.arange(start, stop, dtype=np.int64) for start, stop in self.stretches])


@dataclass(frozen=True, slots=True)
class Order:
    """The windows of an epoch, and how many rows there are in them."""

    windows: tuple[Window, ...]
    height: int


def epoch_order(bounds: Sequence[int], shuffle: bool, seed: int, epoch: int) -> Order:
    """Return the order of an epoch over the stretches between ascending bounds.

    Parameters
    ----------
    bounds
        As :func:`sparrow.engines.open_partitions` gives them.
    shuffle
        Whether stretches are drawn, and rows within windows of :data:`WINDOW` of them.
    seed, epoch
        What decides how.
    """
    stretches = list(itertools.pairwise(bounds))
    height = bounds[-1] - bounds[0]
    if not shuffle:
        return Order(tuple(Window((one,), None) for one in stretches), height)
    drawn = [stretches[k] for k in np.random.default_rng((seed, epoch)).permutation(len(stretches))]
    count = -(-len(drawn) // WINDOW)
    cuts = [len(drawn) * k // count for k in range(count + 1)] if count else [0]  # of almost equal sizes
    return Order(
        tuple(
            Window(tuple(drawn[first:last]), (seed, epoch, number))
            for number, (first, last) in enumerate(itertools.pairwise(cuts))
        ),
        height,
    )
