"""Tuning parameters of linear algebra."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["LinalgTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LinalgTuning:
    """Thresholds and memory shares of :mod:`sparrow.linalg`."""

    operator_share: int = memory_share(
        4, "Tensor persisted for products. Of the limit, not of the free memory: the choice changes summation order."
    )
    factor_fill_ratio: int = parameter(
        4, "ratio", "Assumed size of LU factors relative to the matrix; fill-in is unknown before the factorization."
    )


tuning = Tunable("linalg", LinalgTuning(), strategies={"operators_on_disk": {"operator_share": 1 << 60}})
