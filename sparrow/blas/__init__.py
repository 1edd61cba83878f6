"""BLAS routines on sparse vectors and matrices, under their BLAS names.

Arguments are in the order of ``scipy.linalg.blas``; one function serves all types. Operands are tensors (in memory, on
disk, lazy, views) or arrays, and are never modified: results are returned, as lazy tensors if all operands are tensors,
else as arrays. Indices count from 0 and include absent elements. Levels 2 and 3 read a tensor chunk by chunk; ``trsv``
and ``trsm`` load it into memory for SciPy.
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
