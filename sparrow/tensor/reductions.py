"""What tensors do along axes: sums, means, extremes and their positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow import engines
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.plan import Axis, Where, accumulated, reduction, resolved_axis
from sparrow.schema import check_dtype
from sparrow.tensor.base import Base
from sparrow.tensor.signatures import called_as

__all__ = ["Reductions"]


class Reductions(Base):
    """Reductions of a tensor: a NumPy scalar over all axes, else a lazy tensor.

    Absent cells take part with the fill value, counted exactly; ``where="stored"`` looks at entries only.
    Over all axes with ``keepdims=True`` the result is a tensor too.
    """

    __slots__ = ()

    def _reduced(self, name: str, axis: Axis, keepdims: bool, where: Where, **options: Any) -> Any:
        node = reduction(self.__sparrow_scan__(), name, axis, keepdims, where, **options)
        return self._of(node) if node.axes else engines.scalars([node])[0]

    def sum(
        self, axis: Axis = None, keepdims: bool = False, where: Where = "all", dtype: DTypeLike | None = None
    ) -> Any:
        """Return the sum of cells, in NumPy's type; integers wrap.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without entries then gives 0.
        dtype
            The type that cells are cast to first, and that of the result.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        UnsupportedError
            If ``dtype`` drops the imaginary parts of complex cells.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> A.sum()
        np.int64(7)
        >>> A.sum(axis=0).to_numpy()
        array([5, 2])
        """
        return self._reduced("sum", axis, keepdims, where, dtype=dtype)

    def prod(
        self, axis: Axis = None, keepdims: bool = False, where: Where = "all", dtype: DTypeLike | None = None
    ) -> Any:
        """Return the product of cells, in NumPy's type; of no entries 1. See :meth:`sum`."""
        return self._reduced("prod", axis, keepdims, where, dtype=dtype)

    def mean(
        self, axis: Axis = None, keepdims: bool = False, where: Where = "all", dtype: DTypeLike | None = None
    ) -> Any:
        """Return the mean: the sum divided by the number of cells, or of entries under ``where="stored"``.

        A group without members gives NaN, without a warning. See :meth:`sum`.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> float(A.mean(where="stored"))
        3.5
        """
        return self._reduced("mean", axis, keepdims, where, dtype=dtype)

    def var(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        where: Where = "all",
        ddof: float = 0,
        correction: float | None = None,
        dtype: DTypeLike | None = None,
    ) -> Any:
        """Return the variance, divided by the number of members less ``ddof``. See :meth:`mean`.

        Parameters
        ----------
        axis, keepdims, where
            As of :meth:`sum`.
        ddof, correction
            What is taken off the number of members: NumPy's name and that of the array standard, one of them.
        dtype
            The floating type that cells are cast to first.

        Raises
        ------
        InvalidValueError
            If both ``ddof`` and ``correction`` are given.
        UnsupportedError
            If ``dtype`` has no fractions.
        """
        return self._reduced("var", axis, keepdims, where, ddof=ddof or None, correction=correction, dtype=dtype)

    def std(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        where: Where = "all",
        ddof: float = 0,
        correction: float | None = None,
        dtype: DTypeLike | None = None,
    ) -> Any:
        """Return the standard deviation, the root of :meth:`var`."""
        return self._reduced("std", axis, keepdims, where, ddof=ddof or None, correction=correction, dtype=dtype)

    def min(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the smallest value; NaN wins. Of no entries the fill value. See :meth:`sum`.

        Raises
        ------
        ShapeError
            If there are no cells.
        """
        return self._reduced("min", axis, keepdims, where)

    def max(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the largest value, as :meth:`min` does the smallest."""
        return self._reduced("max", axis, keepdims, where)

    def any(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return whether a cell is not 0. See :meth:`sum`."""
        return self._reduced("any", axis, keepdims, where)

    def all(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return whether no cell is 0. See :meth:`sum`."""
        return self._reduced("all", axis, keepdims, where)

    def count(self, axis: Axis = None, keepdims: bool = False) -> Any:
        """Return the number of cells that differ from fill, int64; over all axes it reads footers only."""
        return self._reduced("count", axis, keepdims, "all")

    def norm(self, ord: float = 2, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the norm of the cells as one vector, whatever the number of axes.

        Parameters
        ----------
        ord
            A positive number p for the root of the sum of the p-th powers of the magnitudes; ``np.inf`` for the
            largest of them, ``-np.inf`` for the smallest, 0 for the number of cells that are not 0.
        axis, keepdims, where
            As of :meth:`sum`.

        Raises
        ------
        InvalidValueError
            If there is no such ``ord``.
        """
        return self._reduced("norm", axis, keepdims, where, ord=ord)

    def argmin(self, axis: int | None = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the first position of the smallest cell along an axis, or its flat position, int64.

        NaN wins, and so does the fill where a cell is absent. Under ``where="stored"`` -1 stands for no entries.

        Raises
        ------
        ShapeError
            If there are no cells.
        UnsupportedError
            If a flat position may pass 2^63 - 1.
        """
        return self._reduced("argmin", axis, keepdims, where)

    def argmax(self, axis: int | None = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the first position of the largest cell, as :meth:`argmin` does of the smallest.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 0], [1, 3]], [-3, -1], shape=(1, 4))
        >>> A.argmax(), A.argmax(where="stored")
        (np.int64(0), np.int64(3))
        """
        return self._reduced("argmax", axis, keepdims, where)

    def nansum(
        self, axis: Axis = None, keepdims: bool = False, where: Where = "all", dtype: DTypeLike | None = None
    ) -> Any:
        """Return the sum of the cells that are not NaN. See :meth:`sum`."""
        return self._reduced("nansum", axis, keepdims, where, dtype=dtype)

    def nanprod(
        self, axis: Axis = None, keepdims: bool = False, where: Where = "all", dtype: DTypeLike | None = None
    ) -> Any:
        """Return the product of the cells that are not NaN. See :meth:`prod`."""
        return self._reduced("nanprod", axis, keepdims, where, dtype=dtype)

    def nanmean(
        self, axis: Axis = None, keepdims: bool = False, where: Where = "all", dtype: DTypeLike | None = None
    ) -> Any:
        """Return the mean of the cells that are not NaN. See :meth:`mean`."""
        return self._reduced("nanmean", axis, keepdims, where, dtype=dtype)

    def nanvar(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        where: Where = "all",
        ddof: float = 0,
        correction: float | None = None,
        dtype: DTypeLike | None = None,
    ) -> Any:
        """Return the variance of the cells that are not NaN, NaN where they are not more than ``ddof``.

        See :meth:`var`.
        """
        return self._reduced("nanvar", axis, keepdims, where, ddof=ddof or None, correction=correction, dtype=dtype)

    def nanstd(
        self,
        axis: Axis = None,
        keepdims: bool = False,
        where: Where = "all",
        ddof: float = 0,
        correction: float | None = None,
        dtype: DTypeLike | None = None,
    ) -> Any:
        """Return the standard deviation of the cells that are not NaN, the root of :meth:`nanvar`."""
        return self._reduced("nanstd", axis, keepdims, where, ddof=ddof or None, correction=correction, dtype=dtype)

    def nanmin(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the smallest value that is not NaN, NaN where there is none. See :meth:`min`."""
        return self._reduced("nanmin", axis, keepdims, where)

    def nanmax(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the largest value that is not NaN, NaN where there is none. See :meth:`min`."""
        return self._reduced("nanmax", axis, keepdims, where)

    def nanargmin(self, axis: int | None = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the first position of the smallest cell that is not NaN, as :meth:`argmin` does.

        Raises
        ------
        InvalidValueError
            If a line holds nothing but NaN, or may where absent cells are NaN; ``where="stored"`` gives -1 there. A
            lazy result raises when it is computed.
        """
        return self._reduced("nanargmin", axis, keepdims, where)

    def nanargmax(self, axis: int | None = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the first position of the largest cell that is not NaN, as :meth:`nanargmin` of the smallest."""
        return self._reduced("nanargmax", axis, keepdims, where)

    def cumsum(self, axis: int | None = None, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return the sum of cells up to each of them, along an axis or in row-major order: an array, at once.

        A running total is dense after the first entry of a line; entries are streamed into the array.

        Parameters
        ----------
        axis
            Along which; without one the result is that of all cells in row-major order, of shape (size,).
        dtype
            In which cells are added up; NumPy's choice by default.

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
        return self._accumulated(np.add, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return the product of cells up to each of them, as :meth:`cumsum` does the sum."""
        return self._accumulated(np.multiply, axis, dtype)

    def _accumulated(self, ufunc: np.ufunc, axis: int | None, dtype: DTypeLike | None) -> NDArray[Any]:
        node = accumulated(
            self.__sparrow_scan__(),
            ufunc,
            None if axis is None else resolved_axis(axis, self.ndim),
            None if dtype is None else check_dtype(dtype),
        )
        totals: NDArray[Any] = engines.array(node)
        return totals

    def describe(self) -> dict[str, Any]:
        """Return statistics of all cells and of the stored ones by name, in one scan.

        Examples
        --------
        >>> import sparrow as sp
        >>> found = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2)).describe()
        >>> int(found["nnz"]), int(found["max"]), float(found["stored_mean"])
        (2, 5, 3.5)
        """
        scan = self.__sparrow_scan__()
        names = ["nnz", "density", "sum", "mean", "std", "stored_min", "stored_max", "stored_mean", "stored_std"]
        if scan.schema.size:
            names[2:2] = ["min", "max"]
        plain = {name: name.removeprefix("stored_") if name != "nnz" else "count" for name in names}
        nodes = [
            reduction(scan, plain[name], where="stored" if name.startswith("stored_") else "all") for name in names
        ]
        return dict(zip(names, engines.scalars(nodes), strict=True))


def _count_nonzero(tensor: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return tensor.count(axis, keepdims) if tensor.fill_value == 0 else (tensor != 0).sum(axis, keepdims)


def _norm(tensor: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return what ``np.linalg.norm`` does: of a matrix and an order a norm of the matrix, else of vectors."""
    pair = axis if isinstance(axis, tuple) else tuple(range(tensor.ndim)) if axis is None else (axis,)
    if ord is None or (ord == "fro" and len(pair) == 2):
        return tensor.norm(2, axis, keepdims)
    if len(pair) == 1:
        return tensor.norm(ord, pair, keepdims)
    if len(pair) != 2:
        raise ShapeError(f"np.linalg.norm: ord={ord!r} is for vectors and matrices, not for {len(pair)} axes")
    if ord not in (1, -1, np.inf, -np.inf):
        raise UnsupportedError(
            f"np.linalg.norm: ord={ord!r} of a matrix needs its singular values: use 'fro', 1, -1, inf or -inf, or "
            "A.norm(ord), which is that of all cells as one vector"
        )
    rows, columns = (resolved_axis(k, tensor.ndim) for k in pair)
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = abs(tensor).sum(inner, keepdims=True)
    both = (sums.max if ord > 0 else sums.min)(outer, keepdims=True)
    return both if keepdims else both[tuple(0 if k in (rows, columns) else slice(None) for k in range(tensor.ndim))]


_BY_NAME = (
    "sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax", "nansum", "nanprod", "nanmean",
    "nanvar", "nanstd", "nanmin", "nanmax", "nanargmin", "nanargmax", "cumsum", "cumprod",
)  # fmt: skip


def _matrix_norm(tensor: Any, keepdims: bool = False, ord: Any = "fro") -> Any:
    return _norm(tensor, ord, (-2, -1), keepdims)


NUMPY = {getattr(np, name): called_as(getattr(np, name), getattr(Reductions, name)) for name in _BY_NAME} | {
    np.count_nonzero: called_as(np.count_nonzero, _count_nonzero),
    np.linalg.matrix_norm: called_as(np.linalg.matrix_norm, _matrix_norm),
    np.linalg.norm: called_as(np.linalg.norm, _norm),
    np.linalg.vector_norm: called_as(np.linalg.vector_norm, Reductions.norm),
}
"""NumPy's functions, and what does them, with NumPy's arguments."""
