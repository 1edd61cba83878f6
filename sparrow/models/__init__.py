"""Models fitted to tensors that may be larger than memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

from sparrow.runtime.hints import hinted_getattr

if TYPE_CHECKING:
    from sparrow.models import evaluation
    from sparrow.models.als import ALS
    from sparrow.models.factorization import FactorizationMachine
    from sparrow.models.linear import LinearRegression, LogisticRegression
    from sparrow.models.loading import load

__all__ = ["ALS", "FactorizationMachine", "LinearRegression", "LogisticRegression", "evaluation", "load"]

_load, __dir__, _ = lazy_loader.attach(
    __name__,
    submodules=["evaluation"],
    submod_attrs={
        "als": ["ALS"],
        "factorization": ["FactorizationMachine"],
        "linear": ["LinearRegression", "LogisticRegression"],
        "loading": ["load"],
    },
)
__getattr__ = hinted_getattr(__name__, _load)
