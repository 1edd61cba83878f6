"""Tuning parameters of plan rendering and density maps."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, parameter

__all__ = ["EnginesTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class EnginesTuning:
    """Limits of rendered plans and density maps."""

    max_indent_levels: int = parameter(
        30, "levels", "Deepest indentation of a rendered plan; deeper nodes align there."
    )
    density_sample_chunks: int = parameter(96, "chunks", "Chunks that a sampled density map reads.")


tuning = Tunable("engines", EnginesTuning())
