"""Models fitted to tensors, row group by row group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparrow.runtime.lazy_imports import on_demand

if TYPE_CHECKING:
    from sparrow.models import evaluation
    from sparrow.models.als import ALS
    from sparrow.models.factorization import FactorizationMachine
    from sparrow.models.linear import LinearRegression, LogisticRegression
    from sparrow.models.saving import load

__all__ = ["ALS", "FactorizationMachine", "LinearRegression", "LogisticRegression", "evaluation", "load"]

__getattr__, __dir__ = on_demand(__name__, __all__)
