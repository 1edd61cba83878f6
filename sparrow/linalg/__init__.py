"""Linear algebra on sparse tensors: norms, products, solvers, factorizations.

* :func:`norm`, :func:`trace`, :func:`vecdot`, ... follow the array API standard.
* :func:`aslinearoperator` wraps a tensor as SciPy's ``LinearOperator``. Each product reads the files once; a tensor
  that fits is persisted in memory instead.
* :func:`cg`, :func:`gmres`, :func:`lsqr`, :func:`eigsh`, :func:`svds`, ... call SciPy's solvers with that operator and
  show progress. Arguments and results are SciPy's.
* :func:`pca` takes principal components of a matrix that is never centred in memory.
* :func:`pagerank` and :func:`power_iteration` take one product per round.
* :func:`inv`, :func:`solve`, :func:`svd`, ... call NumPy on matrices that fit in memory when dense.
* :func:`spsolve`, :func:`splu` and :func:`spilu` load the tensor for SciPy if it fits with factors of four times its
  size. Fill-in is unknown beforehand: factors may exceed the memory limit, and SuperLU cannot be interrupted.

Functions take tensors and return NumPy arrays; :mod:`sparrow.graph` keeps node labels. Vectors that are labelled
tensors are aligned with the labels of rows or columns; arrays are used by position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

from sparrow.runtime.hints import hinted_getattr

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
    from sparrow.linalg.components import pca
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
    "matrix_power", "matrix_rank", "matrix_transpose", "minres", "norm", "outer", "pagerank", "pca",
    "pinv", "power_iteration", "qr", "slogdet", "solve", "spilu", "splu", "spsolve", "spsolve_triangular", "svd",
    "svds", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

_load, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "arrays": [
            "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "norm", "outer", "tensordot",
            "trace", "vecdot", "vector_norm",
        ],
        "components": ["pca"],
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
__getattr__ = hinted_getattr(__name__, _load)
