"""Models fitted to tensors, row group by row group."""

from __future__ import annotations

from sparrow.models import evaluation
from sparrow.models.als import ALS

__all__ = ["ALS", "evaluation"]


def __dir__() -> list[str]:
    return sorted(__all__)
