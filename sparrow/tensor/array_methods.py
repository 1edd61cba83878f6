"""Methods of tensors under the names of NumPy's functions and ndarray methods.

They call NumPy's function, which dispatches to :mod:`sparrow.functions.numpy`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sparrow.core.schema import as_integers
from sparrow.errors import InvalidValueError, ShapeError
from sparrow.runtime.hints import HintedAttributes
from sparrow.tensor.computing import ComputeMethods
from sparrow.tensor.foreign_callers import XARRAY_ATTRIBUTE, reject_xarray_caller
from sparrow.tensor.operators import Operators

__all__ = ["ArrayMethods"]


class ArrayMethods(HintedAttributes, ComputeMethods, Operators):
    """Methods under the names of NumPy's functions."""

    __slots__ = ()

    if not TYPE_CHECKING:  # as in HintedAttributes

        def __getattr__(self, name: str) -> Any:
            """Raise an error, a ``LabelError`` if xarray drops labels that differ."""
            if name == XARRAY_ATTRIBUTE:
                reject_xarray_caller(self, sys._getframe(1))
            return super().__getattr__(name)

    def argsort(
        self, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None
    ) -> NDArray[np.int64]:
        """Return the positions that sort each line along an axis, a dense array.

        Parameters
        ----------
        axis
            The axis; None sorts all elements, in row-major order.
        kind
            Ignored, as ``stable``: the order of equal elements is always kept.
        order
            None: elements have no fields.
        stable
            Ignored.

        Returns
        -------
        ndarray
            Of the shape of the tensor, int64.

        Raises
        ------
        ShapeError
            If there is no such axis.
        UnsupportedError
            If ``order`` is not None.
        TooLargeError
            If the dense array would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[3, 0, 0, -1]]).argsort()
        array([[3, 1, 2, 0]])
        """
        return np.argsort(self, axis, kind, order, stable=stable)  # type: ignore[arg-type]

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
        """Return a writable copy in memory: :meth:`compute`.

        Returns
        -------
        Tensor

        Raises
        ------
        TooLargeError
            If the stored elements would exceed the memory limit.

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
        """Return a diagonal, or those of a stack of matrices, lazily.

        Parameters
        ----------
        offset
            Offset from the main diagonal, positive to the right.
        axis1, axis2
            Axes of the rows and of the columns.

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
        """Return the dot product, as ``numpy.dot`` does.

        Parameters
        ----------
        b
            Tensor, array or number.
        out
            Array or tensor of the result's shape to write the result to.

        Returns
        -------
        Tensor, ndarray or scalar
            As of ``A @ b``.

        Raises
        ------
        ShapeError
            If the sizes of the contracted axes differ.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0]]).dot([10, 1])
        array([ 2, 30])
        """
        return np.dot(self, b, out)  # type: ignore[call-overload]

    def item(self, *args: Any) -> Any:
        """Return an element as a Python number, as ``ndarray.item`` does.

        Parameters
        ----------
        *args
            Coordinates of the element, or its flat position; may be omitted for a tensor of one element.

        Returns
        -------
        bool, int, float or complex

        Raises
        ------
        InvalidValueError
            If none are passed and the size is not 1.
        ShapeError
            If the number of coordinates differs from the number of dimensions.
        IndexingError
            If a coordinate is out of range.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[7]]).item(), sp.asarray([[1, 2], [3, 4]]).item(1, 0)
        (7, 3)
        """
        at = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        if at:
            elements: Any = self.ravel() if len(at) == 1 else self
            if len(at) != elements.ndim:
                raise ShapeError(f"item: expected {self.ndim} coordinates for shape {self.shape}, got {len(at)}: {at}")
            return elements[(*as_integers(at, "item"),)].item()
        if self.size != 1:
            raise InvalidValueError(f"item: coordinates are required for a tensor of shape {self.shape}")
        return np.asarray(self).item()

    def flatten(self, order: Literal["C", "F", "A"] = "C") -> Self:
        """Return the elements as a vector, lazily: :meth:`ravel`.

        Parameters
        ----------
        order
            "C" for row-major, "F" for column-major order.

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
        """Return the coordinates of the non-zero elements, one array per dimension.

        Returns
        -------
        tuple of ndarray

        Raises
        ------
        TooLargeError
            If they would exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2], [3, 0]]).nonzero()
        (array([0, 1]), array([1, 0]))
        """
        return np.nonzero(self)  # type: ignore[arg-type]

    def ravel(self, order: Literal["C", "F", "A"] = "C") -> Self:
        """Return the elements as a vector, lazily.

        Parameters
        ----------
        order
            "C" for row-major, "F" for column-major order.

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

    def searchsorted(
        self, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None
    ) -> NDArray[np.int64] | np.int64:
        """Return the positions at which to insert values into this sorted vector.

        Parameters
        ----------
        v
            Values, of any shape.
        side
            Insert before elements equal to a value, "left", or after them, "right".
        sorter
            Positions that sort the vector, if it is unsorted.

        Returns
        -------
        ndarray
            Of the shape of ``v``, int64; a scalar if ``v`` is one.

        Raises
        ------
        ShapeError
            If the tensor is not a vector.
        InvalidValueError
            If ``side`` is unknown.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([-5, 0, 0, 7]).searchsorted([-6, 0, 7])
        array([0, 1, 3])
        """
        return np.searchsorted(self, v, side, sorter)  # type: ignore[call-overload,no-any-return]

    def squeeze(self, axis: int | str | Sequence[int | str] | None = None) -> Self:
        """Return a view without axes of length 1.

        Parameters
        ----------
        axis
            Axes to remove, by default all of length 1.

        Returns
        -------
        Tensor

        Raises
        ------
        ShapeError
            If there is no such axis, or its length is not 1.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[1, 2]]).squeeze().shape
        (2,)
        """
        return np.squeeze(self, axis)  # type: ignore[call-overload,no-any-return]

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Return a view with two axes exchanged.

        Parameters
        ----------
        axis1, axis2
            The axes.

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
        """Return the elements at positions along an axis, lazily.

        Parameters
        ----------
        indices
            Integer positions.
        axis
            The axis; by default positions count all elements in row-major order.

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
        """Return all elements as nested lists of Python numbers.

        Returns
        -------
        list
            A number for a tensor without dimensions.

        Raises
        ------
        TooLargeError
            If the dense array would exceed the memory limit.

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
            See :meth:`diagonal`.
        dtype
            Type of the computation, NumPy's choice by default.

        Returns
        -------
        Tensor
            A scalar for one matrix.

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
