"""Tuning of product kernels: NumPy fallback and dense rows."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, parameter

__all__ = ["MatmulKernelsTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MatmulKernelsTuning:
    """Tuning parameters of product kernels."""

    use_numpy: bool | None = parameter(
        None, "flag", "Force NumPy (True) or Numba (False) for products that both can compute; None decides by size."
    )
    numpy_max_products: int = parameter(
        1 << 16,
        "products",
        "NumPy multiplies these in a small part of the 0.3 s that loading the first kernel takes.",
    )
    numpy_call_products: int = parameter(
        1 << 10, "products", "A call of the NumPy fallback costs as much as multiplying these."
    )
    numpy_total_products: int = parameter(
        1 << 20, "products", "All that NumPy multiplies in place of one kernel before loading that kernel costs less."
    )
    seeded_max_columns: int = parameter(
        1 << 20, "columns", "Wider dense rows are filled with a non-zero identity only if the right operand is larger."
    )


tuning = Tunable(
    "matmul_kernels", MatmulKernelsTuning(), strategies={"numpy": {"use_numpy": True}, "numba": {"use_numpy": False}}
)
