"""What tensors do along axes: sums, means, extremes and their positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.base import Base
from sparrow.engines.derived import Derived
from sparrow.reductions import Axis, Where, reduced, statistics

__all__ = ["Reductions"]


class Reductions(Base):
    """Reductions of a tensor: a NumPy scalar over all axes, else a lazy tensor.

    Absent cells take part with the fill value, counted exactly; ``where="stored"`` looks at entries only.
    Over all axes with ``keepdims=True`` the result is a tensor too.
    """

    __slots__ = ()

    def _reduced(self, name: str, axis: Axis, keepdims: bool, where: Where, **options: Any) -> Any:
        found = reduced(self.__sparrow_scan__(), name, axis, keepdims, where, **options)
        return self._of(found) if isinstance(found, Derived) else found

    def sum(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the sum of cells, in NumPy's type; integers wrap.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without entries then gives 0.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> A.sum()
        np.int64(7)
        >>> A.sum(axis=0).to_numpy()
        array([5, 2])
        """
        return self._reduced("sum", axis, keepdims, where)

    def prod(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the product of cells, in NumPy's type; of no entries 1. See :meth:`sum`."""
        return self._reduced("prod", axis, keepdims, where)

    def mean(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the mean: the sum divided by the number of cells, or of entries under ``where="stored"``.

        A group without members gives NaN, without a warning. See :meth:`sum`.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> float(A.mean(where="stored"))
        3.5
        """
        return self._reduced("mean", axis, keepdims, where)

    def var(self, axis: Axis = None, keepdims: bool = False, where: Where = "all", ddof: float = 0) -> Any:
        """Return the variance, divided by the number of members less ``ddof``. See :meth:`mean`."""
        return self._reduced("var", axis, keepdims, where, ddof=ddof)

    def std(self, axis: Axis = None, keepdims: bool = False, where: Where = "all", ddof: float = 0) -> Any:
        """Return the standard deviation, the root of :meth:`var`."""
        return self._reduced("std", axis, keepdims, where, ddof=ddof)

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
            2, 1 (sum of magnitudes), ``np.inf`` (the largest) or 0 (the number of cells that are not 0).
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

    def nansum(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the sum of the cells that are not NaN. See :meth:`sum`."""
        return self._reduced("nansum", axis, keepdims, where)

    def nanmean(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the mean of the cells that are not NaN. See :meth:`mean`."""
        return self._reduced("nanmean", axis, keepdims, where)

    def nanmin(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the smallest value that is not NaN, NaN where there is none. See :meth:`min`."""
        return self._reduced("nanmin", axis, keepdims, where)

    def nanmax(self, axis: Axis = None, keepdims: bool = False, where: Where = "all") -> Any:
        """Return the largest value that is not NaN, NaN where there is none. See :meth:`min`."""
        return self._reduced("nanmax", axis, keepdims, where)

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
        return statistics(scan, names)


NUMPY = {
    getattr(np, name): getattr(Reductions, name)
    for name in (
        "sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax",
        "nansum", "nanmean", "nanmin", "nanmax",
    )
}  # fmt: skip
"""NumPy's functions, and the methods that do them."""
