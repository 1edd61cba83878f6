"""What solvers ask of an operator: its products with vectors, under the names by which SciPy finds them.

``scipy.sparse.linalg`` takes whatever has ``shape`` and ``matvec``, so that ``aslinearoperator(A)``, ``eigsh(A)``,
``svds(A)`` and ``cg(A, b)`` stream a tensor as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.core.schema import check_array
from sparrow.errors import ShapeError
from sparrow.tensor.base import Base
from sparrow.tensor.products import matmul

__all__ = ["Actions"]


class Actions(Base):
    """Products of a matrix with dense vectors and matrices."""

    __slots__ = ()

    def matvec(self, x: ArrayLike) -> NDArray[Any]:
        """Return the product of a matrix and a vector, or a matrix of one column: ``A @ x``.

        Parameters
        ----------
        x
            Of as many cells as the matrix has columns.

        Returns
        -------
        ndarray
            Of the dimensions of ``x``.

        Raises
        ------
        ShapeError
            If the tensor is no matrix, or the sizes do not fit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0], [0, 0]]).matvec([10, 1])
        array([ 2, 30,  0])
        """
        return self._product(check_array(x, "x"), self)

    def rmatvec(self, x: ArrayLike) -> NDArray[Any]:
        """Return the product of the conjugate transpose of a matrix and a vector: ``A.conj().T @ x``.

        Parameters
        ----------
        x
            Of as many cells as the matrix has rows.

        Returns
        -------
        ndarray
            Of the dimensions of ``x``.

        Raises
        ------
        ShapeError
            If the tensor is no matrix, or the sizes do not fit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0], [0, 0]]).rmatvec([1, 10, 100])
        array([30,  2])
        """
        turned: Any = self
        if self.dtype.kind == "c":  # the conjugate of a product of conjugates reads the matrix as it is stored
            return self._product(np.conj(check_array(x, "x")), turned.T).conj()
        return self._product(check_array(x, "x"), turned.T)

    def rmatmat(self, X: ArrayLike) -> NDArray[Any]:
        """Return the product of the conjugate transpose of a matrix and a dense matrix: ``A.conj().T @ X``.

        Parameters
        ----------
        X
            Of as many rows as the matrix has.

        Returns
        -------
        ndarray

        Raises
        ------
        ShapeError
            If the tensor is no matrix, or the sizes do not fit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0]]).rmatmat([[1, 0], [0, 1]])
        array([[0, 3],
               [2, 0]])
        """
        return self.rmatvec(X)

    def _product(self, x: NDArray[Any], matrix: Any) -> NDArray[Any]:
        if self.ndim != 2:
            raise ShapeError(f"matvec is of matrices, and this tensor has shape {self.shape}")
        found: NDArray[Any] = matmul(matrix, x)
        return found
