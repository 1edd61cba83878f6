"""BLAS on sparse vectors and matrices, by its names: tensors in memory, on disk, lazy, views of them, and arrays.

Arguments come in the order of ``scipy.linalg.blas``, with one function for all types. Operands stay as they are:
results are returned. They are lazy tensors where all operands are tensors, arrays where one of them is an array.
Indices count cells from 0, absent ones too. Level 2 and 3 read a tensor chunk by chunk; ``trsv`` and ``trsm`` bring it
into memory for SciPy.
"""

from __future__ import annotations

from sparrow.blas.level1 import (
    asum,
    axpy,
    copy,
    dot,
    dotc,
    gather,
    gather_zero,
    iamax,
    iamin,
    nrm2,
    rot,
    scal,
    scatter,
    swap,
)
from sparrow.blas.level2 import gemv, ger, gerc, hemv, symv, trsv
from sparrow.blas.level3 import gemm, symm, syrk, trsm

__all__ = [
    "asum", "axpy", "copy", "dot", "dotc", "gather", "gather_zero", "gemm", "gemv", "ger", "gerc", "hemv", "iamax",
    "iamin", "nrm2", "rot", "scal", "scatter", "swap", "symm", "symv", "syrk", "trsm", "trsv",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
