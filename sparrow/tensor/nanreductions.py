"""What tensors do along axes with the cells that are not NaN."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import DTypeLike

from sparrow.plan import Axis, Where
from sparrow.tensor.reductions import Reductions

__all__ = ["NanReductions"]


class NanReductions(Reductions):
    """Reductions of a tensor that leave NaN out, otherwise as those that do not."""

    __slots__ = ()

    def nansum(
        self, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Where = "all"
    ) -> Self | Any:
        """Return the sum of the cells that are not NaN.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        dtype
            The type that cells are cast to first, and that of the result.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without such entries then gives 0.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is neither "all" nor "stored".
        UnsupportedError
            If ``dtype`` drops the imaginary parts of complex cells.

        Examples
        --------
        >>> import sparrow as sp
        >>> nan = float("nan")
        >>> A = sp.asarray([[1.0, nan], [3.0, 0.0]])
        >>> A.nansum(), A.nansum(axis=0).to_numpy()
        (np.float64(4.0), array([4., 0.]))
        """
        return self._reduced("nansum", axis, keepdims, where, dtype=dtype)

    def nanprod(
        self, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Where = "all"
    ) -> Self | Any:
        """Return the product of the cells that are not NaN.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        dtype
            The type that cells are cast to first, and that of the result.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without such entries then gives 1.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is neither "all" nor "stored".
        UnsupportedError
            If ``dtype`` drops the imaginary parts of complex cells.

        Examples
        --------
        >>> import sparrow as sp
        >>> nan = float("nan")
        >>> A = sp.asarray([[1.0, nan], [3.0, 0.0]])
        >>> A.nanprod(), A.nanprod(where="stored")
        (np.float64(0.0), np.float64(3.0))
        """
        return self._reduced("nanprod", axis, keepdims, where, dtype=dtype)

    def nanmean(
        self, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Where = "all"
    ) -> Self | Any:
        """Return the mean of the cells that are not NaN, NaN where there is none.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        dtype
            The type that cells are cast to first, and that of the result.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without such entries then gives NaN.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is neither "all" nor "stored".
        UnsupportedError
            If ``dtype`` drops the imaginary parts of complex cells.

        Examples
        --------
        >>> import sparrow as sp
        >>> nan = float("nan")
        >>> A = sp.asarray([[1.0, nan], [3.0, 0.0]])
        >>> A.nanmean(axis=1).to_numpy(), A.nanmean(where="stored")
        (array([1. , 1.5]), np.float64(2.0))
        """
        return self._reduced("nanmean", axis, keepdims, where, dtype=dtype)

    def nanvar(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
        where: Where = "all",
    ) -> Self | Any:
        """Return the variance of the cells that are not NaN, NaN where they are not more than ``ddof``.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        dtype
            The floating type that cells are cast to first.
        ddof, correction
            What is taken off the number of members: NumPy's name and that of the array standard, one of them.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; the members are then entries that are not NaN.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, ``where`` neither "all" nor "stored", or both ``ddof`` and ``correction`` are
            given.
        UnsupportedError
            If ``dtype`` has no fractions.

        Examples
        --------
        >>> import sparrow as sp
        >>> nan = float("nan")
        >>> A = sp.asarray([[1.0, nan], [3.0, 0.0]])
        >>> A.nanvar(axis=1).to_numpy(), A.nanvar(where="stored")
        (array([0.  , 2.25]), np.float64(1.0))
        """
        return self._reduced("nanvar", axis, keepdims, where, dtype=dtype, ddof=ddof or None, correction=correction)

    def nanstd(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
        where: Where = "all",
    ) -> Self | Any:
        """Return the standard deviation of the cells that are not NaN, the root of :meth:`nanvar`.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        dtype
            The floating type that cells are cast to first.
        ddof, correction
            What is taken off the number of members: NumPy's name and that of the array standard, one of them.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; the members are then entries that are not NaN.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, ``where`` neither "all" nor "stored", or both ``ddof`` and ``correction`` are
            given.
        UnsupportedError
            If ``dtype`` has no fractions.

        Examples
        --------
        >>> import sparrow as sp
        >>> nan = float("nan")
        >>> A = sp.asarray([[1.0, nan], [3.0, 0.0]])
        >>> A.nanstd(axis=1).to_numpy(), A.nanstd(where="stored")
        (array([0. , 1.5]), np.float64(1.0))
        """
        return self._reduced("nanstd", axis, keepdims, where, dtype=dtype, ddof=ddof or None, correction=correction)

    def nanmin(self, axis: Axis = None, *, keepdims: bool = False, where: Where = "all") -> Self | Any:
        """Return the smallest value that is not NaN, NaN where there is none.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without entries then gives the fill value.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice, or there are no cells.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is neither "all" nor "stored".

        Examples
        --------
        >>> import sparrow as sp
        >>> nan = float("nan")
        >>> A = sp.asarray([[1.0, nan], [3.0, 0.0]])
        >>> A.nanmin(axis=0).to_numpy(), A.nanmin(where="stored")
        (array([1., 0.]), np.float64(1.0))
        """
        return self._reduced("nanmin", axis, keepdims, where)

    def nanmax(self, axis: Axis = None, *, keepdims: bool = False, where: Where = "all") -> Self | Any:
        """Return the largest value that is not NaN, NaN where there is none.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without entries then gives the fill value.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice, or there are no cells.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is neither "all" nor "stored".

        Examples
        --------
        >>> import sparrow as sp
        >>> nan = float("nan")
        >>> A = sp.asarray([[1.0, nan], [3.0, 0.0]])
        >>> A.nanmax(), A.nanmax(axis=1).to_numpy()
        (np.float64(3.0), array([1., 3.]))
        """
        return self._reduced("nanmax", axis, keepdims, where)

    def nanargmin(self, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all") -> Self | Any:
        """Return the first position of the smallest cell that is not NaN, or its flat position, int64.

        Parameters
        ----------
        axis
            The axis that goes; without one the position is that in all cells in row-major order.
        keepdims
            Keep it, or all of them, with length 1.
        where
            "all" cells, or the "stored" ones; -1 stands for no such entries then.

        Returns
        -------
        Tensor or scalar
            Positions, int64: a lazy tensor; without ``axis`` and ``keepdims`` a NumPy scalar.

        Raises
        ------
        ShapeError
            If the axis is out of range, or there are no cells.
        InvalidValueError
            If a line holds nothing but NaN, or may where absent cells are NaN, unless ``where="stored"``; a lazy
            result raises when it is computed. Also if ``keepdims`` is no bool, or there is no such ``where``.
        UnsupportedError
            If ``axis`` is a tuple, or a flat position may pass 2^63 - 1.

        Examples
        --------
        >>> import sparrow as sp
        >>> nan = float("nan")
        >>> A = sp.asarray([[4.0, nan, 2.0]])
        >>> A.nanargmin(), A.nanargmin(axis=1).to_numpy()
        (np.int64(2), array([2]))
        """
        return self._reduced("nanargmin", axis, keepdims, where)

    def nanargmax(self, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all") -> Self | Any:
        """Return the first position of the largest cell that is not NaN, or its flat position, int64.

        Parameters
        ----------
        axis
            The axis that goes; without one the position is that in all cells in row-major order.
        keepdims
            Keep it, or all of them, with length 1.
        where
            "all" cells, or the "stored" ones; -1 stands for no such entries then.

        Returns
        -------
        Tensor or scalar
            Positions, int64: a lazy tensor; without ``axis`` and ``keepdims`` a NumPy scalar.

        Raises
        ------
        ShapeError
            If the axis is out of range, or there are no cells.
        InvalidValueError
            If a line holds nothing but NaN, or may where absent cells are NaN, unless ``where="stored"``; a lazy
            result raises when it is computed. Also if ``keepdims`` is no bool, or there is no such ``where``.
        UnsupportedError
            If ``axis`` is a tuple, or a flat position may pass 2^63 - 1.

        Examples
        --------
        >>> import sparrow as sp
        >>> nan = float("nan")
        >>> A = sp.asarray([[4.0, nan, 2.0]])
        >>> A.nanargmax(), A.nanargmax(axis=1).to_numpy()
        (np.int64(0), array([0]))
        """
        return self._reduced("nanargmax", axis, keepdims, where)
