"""Linear algebra: norms and products by the standard's names, and SciPy's solvers on tensors that stay on disk.

* :func:`norm`, :func:`trace`, :func:`vecdot`, ... are those of the array API standard;
* :func:`aslinearoperator` is a tensor as SciPy's ``LinearOperator``: every product reads the files once, or goes
  through memory where that pays;
* :func:`cg`, :func:`gmres`, :func:`lsqr`, :func:`eigsh`, :func:`svds`, ... are SciPy's own, handed that operator, with
  progress; they take what SciPy's take and return what those return;
* :func:`pagerank` and :func:`power_iteration`;
* :func:`inv`, :func:`solve`, :func:`svd` and their kin by the standard's names are NumPy's, of matrices that fit dense;
* :func:`spsolve`, :func:`splu` and :func:`spilu` bring the tensor into memory for SciPy, if it fits with factors of
  four times its size. What they fill in is not known before: they may grow beyond the memory limit, and Ctrl-C is
  answered when SuperLU returns.

Functions here take tensors and give NumPy arrays; :mod:`sparrow.graph` keeps the labels of nodes. Vectors that are
tensors with labels go by those of the rows or the columns, arrays by position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from sparrow.linalg.arrays import (
        diagonal,
        matmul,
        matrix_norm,
        matrix_power,
        matrix_transpose,
        norm,
        outer,
        tensordot,
        trace,
        vecdot,
        vector_norm,
    )
    from sparrow.linalg.direct import spilu, splu, spsolve, spsolve_triangular
    from sparrow.linalg.factorizations import (
        cholesky,
        cross,
        det,
        eig,
        eigh,
        eigvals,
        eigvalsh,
        inv,
        matrix_rank,
        pinv,
        qr,
        slogdet,
        solve,
        svd,
        svdvals,
    )
    from sparrow.linalg.iterations import pagerank, power_iteration
    from sparrow.linalg.operators import Operator, aslinearoperator
    from sparrow.linalg.solvers import (
        bicgstab,
        cg,
        eigsh,
        expm_multiply,
        gmres,
        lobpcg,
        lsmr,
        lsqr,
        minres,
        svds,
    )

__all__ = [
    "Operator", "aslinearoperator", "bicgstab", "cg", "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigsh",
    "eigvals", "eigvalsh", "expm_multiply", "gmres", "inv", "lobpcg", "lsmr", "lsqr", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "minres", "norm", "outer", "pagerank", "pinv",
    "power_iteration", "qr", "slogdet", "solve", "spilu", "splu", "spsolve", "spsolve_triangular", "svd", "svds",
    "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "arrays": [
            "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "norm", "outer", "tensordot",
            "trace", "vecdot", "vector_norm",
        ],
        "direct": ["spilu", "splu", "spsolve", "spsolve_triangular"],
        "factorizations": [
            "cholesky", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matrix_rank", "pinv", "qr",
            "slogdet", "solve", "svd", "svdvals",
        ],
        "iterations": ["pagerank", "power_iteration"],
        "operators": ["Operator", "aslinearoperator"],
        "solvers": [
            "bicgstab", "cg", "eigsh", "expm_multiply", "gmres", "lobpcg", "lsmr", "lsqr", "minres", "svds",
        ],
    },
)  # fmt: skip
