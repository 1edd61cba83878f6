"""Tuning parameters of the choice of engines, plan rendering and density maps."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["EnginesTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class EnginesTuning:
    """Thresholds of the choice of engines; limits of rendered plans and density maps."""

    persisted_share: int = memory_share(4, "Rows of matrices that are multiplied repeatedly, until they are evicted.")
    numpy_products: int = parameter(1 << 12, "products", "NumPy adds fewer products as fast as the kernel does.")
    numpy_products_without_kernels: int = parameter(
        1 << 15, "products", "NumPy adds fewer products a thousand times in the time that loading a kernel takes."
    )

    max_indent_levels: int = parameter(
        30, "levels", "Deepest indentation of a rendered plan; deeper nodes align there."
    )
    density_sample_chunks: int = parameter(96, "chunks", "Chunks that a sampled density map reads.")


tuning = Tunable(
    "engines",
    EnginesTuning(),
    strategies={
        "operators_on_disk": {"persisted_share": 1 << 60},
        "numba_rows": {"numpy_products": -1, "numpy_products_without_kernels": -1},
        "numpy_rows": {"numpy_products": 1 << 62, "numpy_products_without_kernels": 1 << 62},
    },
)
