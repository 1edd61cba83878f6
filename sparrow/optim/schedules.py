"""Learning rate schedules."""

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
    """Learning rate as a function of the number of earlier updates.

    Any function of one integer works too; a derived class is compared by its fields when a fit resumes from a
    checkpoint.

    Examples
    --------
    >>> import sparrow as sp
    >>> isinstance(sp.optim.Steps(0.1, every=1000), sp.optim.Schedule)
    True
    """

    @abstractmethod
    def __call__(self, step: int) -> float:
        """Return the learning rate after ``step`` updates."""


Rate: TypeAlias = float | Schedule | Callable[[int], float]


@dataclass(frozen=True)
class Steps(Schedule):
    """Learning rate that drops by a factor at regular intervals.

    Parameters
    ----------
    lr
        Initial rate.
    every
        Updates between drops.
    factor
        Factor of a drop.
    least
        Lower bound.

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
        _check_positive(lr=self.lr, every=self.every, factor=self.factor)

    def __call__(self, step: int) -> float:
        """Return the learning rate after ``step`` updates."""
        return max(self.lr * self.factor ** (step // self.every), self.least)


@dataclass(frozen=True)
class InverseScaling(Schedule):
    """Learning rate that decays as a power: ``lr / (1 + step / scale) ** power``.

    Parameters
    ----------
    lr
        Initial rate.
    power
        0.5 suits convex losses, 1 strongly convex ones.
    scale
        Updates after which the rate has decayed by ``2 ** power``.

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
        _check_positive(lr=self.lr, power=self.power, scale=self.scale)

    def __call__(self, step: int) -> float:
        """Return the learning rate after ``step`` updates."""
        return float(self.lr / (1.0 + step / self.scale) ** self.power)


@dataclass(frozen=True)
class Cosine(Schedule):
    """Learning rate that decays along half a cosine, after a linear warm-up.

    Parameters
    ----------
    lr
        Highest rate.
    steps
        Updates after which the rate stays at ``least``.
    least
        Final rate.
    warmup
        Updates of the warm-up, part of ``steps``.

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
        _check_positive(lr=self.lr, steps=self.steps)
        if not 0 <= self.warmup < self.steps:
            raise InvalidValueError(f"warmup must be less than steps={self.steps!r}, got {self.warmup!r}")

    def __call__(self, step: int) -> float:
        """Return the learning rate after ``step`` updates."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = min((step - self.warmup) / (self.steps - self.warmup), 1.0)
        return self.least + (self.lr - self.least) * 0.5 * (1.0 + math.cos(math.pi * done))


def _check_positive(**given: float) -> None:
    for name, value in given.items():
        check_number(name, value)
        if not value:
            raise InvalidValueError(f"{name} must be a finite number above 0, got {value!r}")
