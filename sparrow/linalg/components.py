"""Principal components of tensors that are never centred in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import as_integer
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.views import as_tensor
from sparrow.linalg.operators import check_matrix, shared, unwrap_tensor
from sparrow.linalg.solvers import svds
from sparrow.linalg.tuning import tuning
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = ["pca"]


@shared
def pca(
    A: Any, k: int, center: bool = True, scale: bool = False, *, tol: float = 0.0, rng: Any = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return principal components of the rows of a matrix.

    They are those of scikit-learn's ``PCA``. The centred matrix is not stored: products with it are those of the sparse
    one, less a matrix of rank one, so the tensor may stay on disk. Where columns are far from 0 and hardly vary, the
    difference has fewer correct digits.

    Parameters
    ----------
    %(matrix)s
    k
        Number of components, from 1 to min(m, n).
    center
        Subtract the mean of each column; otherwise they are those of ``TruncatedSVD``.
    scale
        Divide each column by its standard deviation, as ``StandardScaler``; constant ones stay.
    tol
        Relative accuracy of the variances; 0 for that of float64.
    rng
        Seed or generator of the starting vector of the solver.

    Returns
    -------
    scores : ndarray of shape (m, k), float64
        The rows in the basis of the components.
    components : ndarray of shape (k, n), float64
        Orthonormal rows, by decreasing variance. The largest number of each is positive.
    explained_variance : ndarray of shape (k,), float64
        Variance of each column of the scores, by m - 1.

    Raises
    ------
    ShapeError
        If A is no matrix of at least two rows.
    UnsupportedError
        If it is complex.
    InvalidValueError
        If k is out of range.
    ConvergenceError
        If A has NaN or infinity.
    TooLargeError
        If k is min(m, n), which takes a dense matrix, and that exceeds the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [2.0, 1.0, 0.0]])
    >>> scores, components, variance = sp.linalg.pca(A, 1)
    >>> components.round(6) + 0.0, variance.round(6)
    (array([[1., 0., 0.]]), array([1.]))
    """
    tensor = unwrap_tensor(A)
    tensor = tensor if isinstance(tensor, Tensor) else as_tensor(check_matrix(tensor, "pca"))
    check_matrix(tensor, "pca")
    height, width = tensor.shape
    count, center, scale = as_integer(k, "k"), check_flag("center", center), check_flag("scale", scale)
    if tensor.dtype.kind == "c":
        raise UnsupportedError("pca requires a real matrix, got a complex one: take A.real")
    if height < 2:
        raise ShapeError(f"pca requires at least two rows, got shape {tensor.shape}")
    if not 1 <= count <= min(height, width):
        raise InvalidValueError(f"k must be from 1 to {min(height, width)}, the smaller side of A, got {count}")
    tensor = tensor.astype(np.float64)
    mean = tensor.mean(axis=0).to_numpy()
    if scale:
        spread = tensor.std(axis=0).to_numpy()
        spread[spread == 0] = 1
        spread.flags.writeable = False
        tensor, mean = tensor / spread, mean / spread
    if center:
        tensor = tensor - as_tensor(mean)
    if count == min(height, width) or height * width <= tuning().dense_components:
        u, s, vh = np.linalg.svd(tensor.to_numpy(), full_matrices=False)
    else:
        u, s, vh = svds(tensor, count, tol=tol, v0=np.random.default_rng(rng).standard_normal(min(height, width)))
    order = np.argsort(-s, kind="stable")[:count]
    u, s, vh = u[:, order], s[order], vh[order]
    signs = np.sign(vh[np.arange(count), np.abs(vh).argmax(axis=1)])
    signs[signs == 0] = 1
    scores = u * (s * signs)
    return scores, vh * signs[:, None], scores.var(axis=0, ddof=1)
