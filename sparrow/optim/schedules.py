"""Learning rates that change from update to update."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sparrow.errors import InvalidValueError
from sparrow.runtime.validation import check_number

__all__ = ["Cosine", "InverseScaling", "Rate", "Schedule", "Steps"]


class Schedule(ABC):
    """A learning rate by the number of updates that were made before.

    Any function of one integer does as well; a class that derives from this one is told from others by its fields
    when a fit goes on from a checkpoint.

    Examples
    --------
    >>> import sparrow as sp
    >>> isinstance(sp.optim.Steps(0.1, every=1000), sp.optim.Schedule)
    True
    """

    @abstractmethod
    def __call__(self, step: int) -> float:
        """Return the learning rate of the update that comes after ``step`` others."""


Rate: TypeAlias = float | Schedule | Callable[[int], float]


@dataclass(frozen=True)
class Steps(Schedule):
    """A rate that falls by a factor every so many updates.

    Parameters
    ----------
    lr
        The rate at first.
    every
        Updates between two falls.
    factor
        What it is multiplied by.
    least
        It never falls below this.

    Examples
    --------
    >>> import sparrow as sp
    >>> rate = sp.optim.Steps(0.4, every=10, factor=0.5)
    >>> rate(0), rate(9), rate(10), rate(25)
    (0.4, 0.4, 0.2, 0.1)
    """

    lr: float
    every: int
    factor: float = 0.1
    least: float = 0.0

    def __post_init__(self) -> None:
        _above_zero(lr=self.lr, every=self.every, factor=self.factor)

    def __call__(self, step: int) -> float:
        """Return the learning rate of the update that comes after ``step`` others."""
        return max(self.lr * self.factor ** (step // self.every), self.least)


@dataclass(frozen=True)
class InverseScaling(Schedule):
    """A rate that falls as a power of the updates: ``lr / (1 + step / scale) ** power``.

    Parameters
    ----------
    lr
        The rate at first.
    power
        0.5 suits convex losses, 1 strongly convex ones.
    scale
        Updates after which it has fallen by ``2 ** power``.

    Examples
    --------
    >>> import sparrow as sp
    >>> rate = sp.optim.InverseScaling(0.1, power=1, scale=100)
    >>> rate(0), rate(100), rate(300)
    (0.1, 0.05, 0.025)
    """

    lr: float
    power: float = 0.5
    scale: float = 1000.0

    def __post_init__(self) -> None:
        _above_zero(lr=self.lr, power=self.power, scale=self.scale)

    def __call__(self, step: int) -> float:
        """Return the learning rate of the update that comes after ``step`` others."""
        return float(self.lr / (1.0 + step / self.scale) ** self.power)


@dataclass(frozen=True)
class Cosine(Schedule):
    """A rate that falls along half a cosine, after a warm-up in which it rises by equal amounts.

    Parameters
    ----------
    lr
        The highest rate.
    steps
        Updates after which it is ``least``, and stays there.
    least
        The rate at the end.
    warmup
        Updates, of ``steps``, in which it rises.

    Examples
    --------
    >>> import sparrow as sp
    >>> rate = sp.optim.Cosine(0.4, steps=8, warmup=4)
    >>> [round(rate(step), 3) for step in (0, 3, 4, 6, 8, 100)]
    [0.1, 0.4, 0.4, 0.2, 0.0, 0.0]
    """

    lr: float
    steps: int
    least: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        _above_zero(lr=self.lr, steps=self.steps)
        if not 0 <= self.warmup < self.steps:
            raise InvalidValueError(f"warmup={self.warmup!r} of steps={self.steps!r}: leave some steps after it")

    def __call__(self, step: int) -> float:
        """Return the learning rate of the update that comes after ``step`` others."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = min((step - self.warmup) / (self.steps - self.warmup), 1.0)
        return self.least + (self.lr - self.least) * 0.5 * (1.0 + math.cos(math.pi * done))


def _above_zero(**given: float) -> None:
    for name, value in given.items():
        check_number(name, value)
        if not value:
            raise InvalidValueError(f"{name}={value!r}: give a finite number above 0")
