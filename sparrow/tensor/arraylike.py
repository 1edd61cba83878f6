"""Methods that arrays of NumPy have by the names of functions: what the function does, of the tensor.

Of others, NumPy's, SciPy's and pydata/sparse's, the error says what does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sparrow.core.schema import as_integers
from sparrow.errors import InvalidValueError, ShapeError
from sparrow.tensor.computing import Computing
from sparrow.tensor.operators import Operators

__all__ = ["ArrayMethods"]

_ELSEWHERE = {
    **dict.fromkeys(("toarray", "todense", "maybe_densify", "A"), "A.to_numpy()"),
    **{f"to{kind}": f"A.to_scipy({kind!r})" for kind in ("coo", "csr", "csc")},
    **{f"to{kind}": f"A.to_scipy().asformat({kind!r})" for kind in ("bsr", "dia", "dok", "lil")},
    **{name: f'A.to_format("coo").{name}' for name in ("coords", "data")},
    **{name: f'A.to_format("csr").{name}' for name in ("indices", "indptr")},
    **{name: f"np.{name}(A, ...)" for name in ("argsort", "compress", "maximum", "minimum", "repeat", "searchsorted")},
    **{name: f"np.{name}(A)" for name in ("isinf", "isnan", "sort")},
    "H": "A.conj().mT",
    "broadcast_to": "sp.broadcast_to(A, shape)",
    "count_nonzero": "A.count(axis)",
    "format": "A.stype",
    "getnnz": "A.nnz, or A.count(axis)",
    "itemsize": "A.dtype.itemsize",
    "multiply": "A * B",
    "power": "A ** n",
    "setdiag": "A[i, i] = values",
    "tensordot": "sp.tensordot(A, B)",
    "tobytes": "A.to_numpy().tobytes()",
    "to_scipy_sparse": "A.to_scipy()",
}
"""What other libraries name otherwise."""


class ArrayMethods(Computing, Operators):
    """Methods by the names of NumPy's functions."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a class that has this has every attribute, to a checker of types

        def __getattr__(self, name: str) -> NoReturn:
            """Say what does what an attribute of other libraries does; of any other Python's own error."""
            if name not in _ELSEWHERE:
                object.__getattribute__(self, name)
            said = f"{type(self).__name__!r} object has no attribute {name!r}: {_ELSEWHERE[name]}"
            raise AttributeError(said, name=name, obj=self)

    def conjugate(self) -> Self:
        """Return the complex conjugates, lazily: :meth:`conj`.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([1 + 2j, 3]).conjugate().to_numpy()
        array([1.-2.j, 3.-0.j])
        """
        return self.conj()

    def copy(self) -> Self:
        """Return the tensor in memory as one of its own, which can be written to: :meth:`compute`.

        Returns
        -------
        Tensor

        Raises
        ------
        TooLargeError
            If its entries would pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([1, 0])
        >>> B = A.copy()
        >>> B[1] = 7
        >>> A.nnz, B.nnz
        (1, 2)
        """
        return self.compute()

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """Return a diagonal, lazily, as :func:`sparrow.diagonal` does.

        Parameters
        ----------
        offset
            How far it lies to the right of the main one, negative to the left.
        axis1, axis2
            The axes that count the rows and the columns.

        Returns
        -------
        Tensor

        Raises
        ------
        ShapeError
            If there are no such two axes.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[1, 2], [0, 3]]).diagonal().to_numpy()
        array([1, 3])
        """
        return np.diagonal(self, offset, axis1, axis2)  # type: ignore[call-overload,no-any-return]

    def dot(self, b: Self | ArrayLike, out: Any = None) -> Any:
        """Return the sums of products over the last axis and the last but one of the other, as ``numpy.dot`` does.

        Parameters
        ----------
        b
            A tensor, an array or a number.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor, ndarray or scalar
            As of ``A @ b``.

        Raises
        ------
        ShapeError
            If the sizes of the two axes differ.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0]]).dot([10, 1])
        array([ 2, 30])
        """
        return np.dot(self, b, out)  # type: ignore[call-overload]

    def item(self, *args: Any) -> Any:
        """Return a cell as a Python number, as ``ndarray.item`` does.

        Parameters
        ----------
        *args
            The coordinates of the cell, or its position among all of them; none where there is one cell.

        Returns
        -------
        bool, int, float or complex

        Raises
        ------
        InvalidValueError
            If it has more cells, or none, and nothing says which.
        ShapeError
            If there are too few or too many coordinates.
        IndexingError
            If there is no such cell.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[7]]).item(), sp.asarray([[1, 2], [3, 4]]).item(1, 0)
        (7, 3)
        """
        at = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        if at:
            cells: Any = self.ravel() if len(at) == 1 else self
            if len(at) != cells.ndim:
                raise ShapeError(f"{len(at)} coordinates {at} for a cell of a tensor of shape {self.shape}")
            return cells[(*as_integers(at, "a cell"),)].item()
        if self.size != 1:
            raise InvalidValueError(f"a tensor of shape {self.shape} is not one number: read a cell of it")
        return np.asarray(self).item()

    def flatten(self, order: Literal["C", "F", "A"] = "C") -> Self:
        """Return the cells as a vector, lazily: :meth:`ravel`.

        Parameters
        ----------
        order
            "F" for column-major order.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[1, 2], [0, 3]]).flatten("F").to_numpy()
        array([1, 0, 2, 3])
        """
        return self.ravel(order)

    def nonzero(self) -> tuple[NDArray[np.int64], ...]:
        """Return the coordinates of the cells that are not 0, an array for each dimension.

        Returns
        -------
        tuple of ndarray

        Raises
        ------
        TooLargeError
            If they would pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0]]).nonzero()
        (array([0, 1]), array([1, 0]))
        """
        return np.nonzero(self)  # type: ignore[arg-type]

    def ravel(self, order: Literal["C", "F", "A"] = "C") -> Self:
        """Return the cells as a vector, lazily.

        Parameters
        ----------
        order
            "F" for column-major order.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[1, 2], [0, 3]]).ravel().to_numpy()
        array([1, 2, 0, 3])
        """
        return np.ravel(self, order)  # type: ignore[call-overload,no-any-return]

    def squeeze(self, axis: int | str | Sequence[int | str] | None = None) -> Self:
        """Return the view without axes of length 1, or without those given.

        Parameters
        ----------
        axis
            The axes that go, all of length 1 by default.

        Returns
        -------
        Tensor

        Raises
        ------
        ShapeError
            If there is no such axis, or it has another length.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[1, 2]]).squeeze().shape
        (2,)
        """
        return np.squeeze(self, axis)  # type: ignore[call-overload,no-any-return]

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Return the view with two axes exchanged.

        Parameters
        ----------
        axis1, axis2
            Which.

        Returns
        -------
        Tensor

        Raises
        ------
        ShapeError
            If there are no such axes.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.zeros((2, 3, 4)).swapaxes(0, 2).shape
        (4, 3, 2)
        """
        return np.swapaxes(self, axis1, axis2)  # type: ignore[call-overload,no-any-return]

    def take(self, indices: ArrayLike, axis: int | None = None) -> Self:
        """Return the cells at positions along an axis, lazily; of all cells in row-major order by default.

        Parameters
        ----------
        indices
            Integers.
        axis
            Along which.

        Returns
        -------
        Tensor

        Raises
        ------
        IndexingError
            If a position is out of range.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[1, 2], [0, 3]]).take([1], axis=1).to_numpy()
        array([[2],
               [3]])
        """
        return np.take(self, indices, axis)  # type: ignore[call-overload,no-any-return]

    def tolist(self) -> Any:
        """Return all cells as nested lists of Python numbers.

        Returns
        -------
        list
            A number of a tensor without dimensions.

        Raises
        ------
        TooLargeError
            If the array would pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0]]).tolist()
        [[0, 2], [3, 0]]
        """
        return np.asarray(self).tolist()

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None) -> Any:
        """Return the sums of diagonals.

        Parameters
        ----------
        offset, axis1, axis2
            As of :meth:`diagonal`.
        dtype
            The type in which they are added up, NumPy's choice by default.

        Returns
        -------
        Tensor
            A number of one matrix.

        Raises
        ------
        ShapeError
            If there are no such two axes.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[1, 2], [0, 3]]).trace()
        np.int64(4)
        """
        return np.trace(self, offset, axis1, axis2, dtype)  # type: ignore[call-overload]
