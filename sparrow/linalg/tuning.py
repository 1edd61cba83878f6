"""Tuning parameters of linear algebra."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, parameter

__all__ = ["LinalgTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LinalgTuning:
    """Thresholds of :mod:`sparrow.linalg`."""

    factor_fill_ratio: int = parameter(
        4, "ratio", "Assumed size of LU factors relative to the matrix; fill-in is unknown before the factorization."
    )
    dense_components: int = parameter(
        250_000, "elements", "Matrices up to this size are decomposed as arrays by pca, faster than by iterations."
    )


tuning = Tunable("linalg", LinalgTuning())
