"""Optimizers that update weights in place, by rows for row-sparse gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

from sparrow.runtime.hints import hinted_getattr

if TYPE_CHECKING:
    from sparrow.optim.adaptive import FTRL, AdaGrad, Adam
    from sparrow.optim.base import Optimizer, State
    from sparrow.optim.schedules import Cosine, InverseScaling, Schedule, Steps
    from sparrow.optim.sgd import SGD

__all__ = ["FTRL", "SGD", "AdaGrad", "Adam", "Cosine", "InverseScaling", "Optimizer", "Schedule", "State", "Steps"]

_load, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "adaptive": ["FTRL", "AdaGrad", "Adam"],
        "base": ["Optimizer", "State"],
        "schedules": ["Cosine", "InverseScaling", "Schedule", "Steps"],
        "sgd": ["SGD"],
    },
)
__getattr__ = hinted_getattr(__name__, _load)
