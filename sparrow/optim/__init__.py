"""Optimisers that update weights in place, row by row where the gradient is row-sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparrow.runtime.lazy_imports import on_demand

if TYPE_CHECKING:
    from sparrow.optim.adaptive import FTRL, AdaGrad, Adam
    from sparrow.optim.base import Optimizer, State
    from sparrow.optim.schedules import Cosine, InverseScaling, Schedule, Steps
    from sparrow.optim.sgd import SGD

__all__ = ["FTRL", "SGD", "AdaGrad", "Adam", "Cosine", "InverseScaling", "Optimizer", "Schedule", "State", "Steps"]

__getattr__, __dir__ = on_demand(__name__, __all__)
