"""Optimisers that update weights in place, row by row where the gradient is row-sparse."""

from __future__ import annotations

from sparrow.optim.adaptive import FTRL, AdaGrad, Adam
from sparrow.optim.base import Optimizer, State
from sparrow.optim.schedules import Cosine, InverseScaling, Schedule, Steps
from sparrow.optim.sgd import SGD

__all__ = ["FTRL", "SGD", "AdaGrad", "Adam", "Cosine", "InverseScaling", "Optimizer", "Schedule", "State", "Steps"]


def __dir__() -> list[str]:
    return sorted(__all__)
