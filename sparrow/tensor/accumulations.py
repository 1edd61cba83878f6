"""What tensors do along axes cell by cell: running sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow import engines
from sparrow.core.schema import check_dtype
from sparrow.plan import accumulated, resolved_axis
from sparrow.tensor.base import Base
from sparrow.tensor.results import into

__all__ = ["Accumulations"]


class Accumulations(Base):
    """Running sums and products of a tensor: arrays, for they are dense after the first entry of a line."""

    __slots__ = ()

    def cumsum(self, axis: int | str | None = None, dtype: DTypeLike | None = None, out: Any = None) -> NDArray[Any]:
        """Return the sum of cells up to each of them, along an axis or in row-major order: an array, at once.

        A running total is dense after the first entry of a line; entries are streamed into the array.

        Parameters
        ----------
        axis
            Along which; without one the result is that of all cells in row-major order, of shape (size,).
        dtype
            In which cells are added up; NumPy's choice by default.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        ndarray

        Raises
        ------
        ShapeError
            If there is no such axis.
        TooLargeError
            If the array would pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2, 0], [1, 0, 1]]).cumsum(axis=1)
        array([[0, 2, 2],
               [1, 1, 2]])
        """
        return self._accumulated(np.add, axis, dtype, out)

    def cumprod(self, axis: int | str | None = None, dtype: DTypeLike | None = None, out: Any = None) -> NDArray[Any]:
        """Return the product of cells up to each of them, along an axis or in row-major order: an array, at once.

        Parameters
        ----------
        axis
            Along which; without one the result is that of all cells in row-major order, of shape (size,).
        dtype
            In which cells are multiplied; NumPy's choice by default.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        ndarray

        Raises
        ------
        ShapeError
            If there is no such axis.
        TooLargeError
            If the array would pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[3, 2, 0], [1, 4, 1]]).cumprod(axis=1)
        array([[3, 6, 0],
               [1, 4, 4]])
        """
        return self._accumulated(np.multiply, axis, dtype, out)

    def _accumulated(self, ufunc: np.ufunc, axis: int | str | None, dtype: DTypeLike | None, out: Any) -> NDArray[Any]:
        node = accumulated(
            self.__sparrow_scan__(),
            ufunc,
            None if axis is None else resolved_axis(axis, self.ndim, self.dims),
            None if dtype is None else check_dtype(dtype),
        )
        totals: NDArray[Any] = into(out, engines.array(node), f"np.{ufunc.__name__}.accumulate")
        return totals
