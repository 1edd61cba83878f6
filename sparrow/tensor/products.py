"""Products of tensors."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sparrow import engines
from sparrow.errors import UnsupportedError
from sparrow.plan import Contract, Dense
from sparrow.tensor.base import Base

__all__ = ["Engine", "matmul"]

Engine = Literal["auto", "duckdb", "stream"]


def matmul(A: Any, B: Any, engine: Engine = "auto") -> Any:
    """Return the product of a tensor and a dense vector or matrix: what ``A @ x`` does.

    Parameters
    ----------
    A, B
        One of them a tensor with one or two dimensions, (M, K) or (K,); the other dense, (K, N) or (K,).
    engine
        "stream" runs row groups through kernels on several threads without loading the tensor and gives
        the same bits on any number of threads; "duckdb" runs the SQL join of ``sql/`` where that gives what NumPy
        does, and streams what it does not; "auto" is the engine of the settings, "stream" by default.

    Returns
    -------
    ndarray of shape (M, N), (M,), (N,) or a scalar, of NumPy's result dtype

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    UnsupportedError
        If both are tensors or neither is.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray(np.array([[0, 2], [3, 0], [0, 0]]))
    >>> sp.matmul(A, [10, 1])
    array([ 2, 30,  0])
    """
    if isinstance(A, Base) and isinstance(B, Base):
        raise UnsupportedError(
            "a product of two tensors is not part of this version: A.to_scipy() @ B.to_scipy() where both fit in memory"
        )
    if not isinstance(A, Base) and not isinstance(B, Base):
        raise UnsupportedError("matmul needs a tensor: for two dense arrays use NumPy")
    left: Any = A.__sparrow_scan__() if isinstance(A, Base) else Dense(np.asarray(A))
    right: Any = B.__sparrow_scan__() if isinstance(B, Base) else Dense(np.asarray(B))
    return engines.array(Contract(left, right), engine)
