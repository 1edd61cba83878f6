"""What tensors do along axes: sums, means, extremes and their positions."""

from __future__ import annotations

from typing import Any, Self, TypeAlias

from numpy.typing import ArrayLike, DTypeLike

from sparrow import engines
from sparrow.plan import Axis, Where, reduction
from sparrow.runtime.validation import check_flag
from sparrow.tensor import masked
from sparrow.tensor.base import Base
from sparrow.tensor.results import into

__all__ = ["Reductions"]

Mask: TypeAlias = "Where | ArrayLike | Base"
"""Which cells a reduction looks at: "all", the "stored" ones, or those that a mask names."""


class Reductions(Base):
    """Reductions of a tensor: a NumPy scalar over all axes, else a lazy tensor.

    Absent cells take part with the fill value, counted exactly; ``where="stored"`` looks at entries only.
    Over all axes with ``keepdims=True`` the result is a tensor too: which of them a call gives depends on the axes,
    so that the type is ``Self | Any``.
    """

    __slots__ = ()

    def _reduced(
        self,
        name: str,
        axis: Axis,
        keepdims: bool,
        where: Any,
        *,
        initial: Any = None,
        out: Any = None,
        **options: Any,
    ) -> Self | Any:
        keepdims = check_flag("keepdims", keepdims)
        cells: Any = "all" if where is True else where
        if initial is not None or not isinstance(cells, str):
            return into(out, masked.reduced(self, name, axis, keepdims, cells, initial, options), name)
        node = reduction(self.__sparrow_scan__(), name, axis, keepdims, cells, **options)  # type: ignore[arg-type]
        found = self._of(node) if node.axes else engines.scalars([node])[0]
        whole = name == "mean" and self.dtype.kind in "biu"  # NumPy cuts off fractions where all are integers
        return found if out is None else into(out, found, name, "unsafe" if whole else "same_kind")

    def sum(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Mask = "all",
        out: Any = None,
    ) -> Self | Any:
        """Return the sum of cells, in NumPy's type; integers wrap.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        dtype
            The type that cells are cast to first, and that of the result.
        keepdims
            Keep them with length 1.
        initial
            What takes part beside the cells.
        where
            "all" cells, or the "stored" ones; a group without entries then gives 0;
            or a mask that broadcasts to the shape, of cells to look at.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is no choice there is.
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
        >>> A.sum(0, "float32").to_numpy()
        array([5., 2.], dtype=float32)
        """
        return self._reduced("sum", axis, keepdims, where, initial=initial, out=out, dtype=dtype)

    def prod(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Mask = "all",
        out: Any = None,
    ) -> Self | Any:
        """Return the product of cells, in NumPy's type; integers wrap.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        dtype
            The type that cells are cast to first, and that of the result.
        keepdims
            Keep them with length 1.
        initial
            What takes part beside the cells.
        where
            "all" cells, or the "stored" ones; a group without entries then gives 1;
            or a mask that broadcasts to the shape, of cells to look at.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is no choice there is.
        UnsupportedError
            If ``dtype`` drops the imaginary parts of complex cells.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> A.prod(), A.prod(where="stored")
        (np.int64(0), np.int64(10))
        """
        return self._reduced("prod", axis, keepdims, where, initial=initial, out=out, dtype=dtype)

    def mean(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        where: Mask = "all",
        out: Any = None,
    ) -> Self | Any:
        """Return the mean: the sum divided by the number of cells, or of entries under ``where="stored"``.

        A group without members gives NaN, without a warning.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        dtype
            The type that cells are cast to first, and that of the result.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without entries then gives NaN;
            or a mask that broadcasts to the shape, of cells to look at.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is no choice there is.
        UnsupportedError
            If ``dtype`` drops the imaginary parts of complex cells.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> A.mean(axis=1).to_numpy()
        array([1. , 0. , 2.5])
        >>> A.mean(where="stored")
        np.float64(3.5)
        """
        return self._reduced("mean", axis, keepdims, where, out=out, dtype=dtype)

    def var(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
        where: Where = "all",
        out: Any = None,
    ) -> Self | Any:
        """Return the variance, divided by the number of members less ``ddof``.

        A group of no more than ``ddof`` members gives NaN, without a warning.

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
            "all" cells, or the "stored" ones; the members are then the entries.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

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
        >>> A = sp.asarray([[0, 2], [4, 0]])
        >>> A.var(axis=1).to_numpy(), A.var(axis=1, ddof=1).to_numpy()
        (array([1., 4.]), array([2., 8.]))
        """
        return self._reduced(
            "var", axis, keepdims, where, out=out, dtype=dtype, ddof=ddof or None, correction=correction
        )

    def std(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
        where: Where = "all",
        out: Any = None,
    ) -> Self | Any:
        """Return the standard deviation, the root of :meth:`var`.

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
            "all" cells, or the "stored" ones; the members are then the entries.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

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
        >>> A = sp.asarray([[0, 2], [4, 0]])
        >>> A.std(axis=1).to_numpy(), A.std(where="stored")
        (array([1., 2.]), np.float64(1.0))
        """
        return self._reduced(
            "std", axis, keepdims, where, out=out, dtype=dtype, ddof=ddof or None, correction=correction
        )

    def min(
        self, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Mask = "all", out: Any = None
    ) -> Self | Any:
        """Return the smallest value; NaN wins.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        keepdims
            Keep them with length 1.
        initial
            What takes part beside the cells.
        where
            "all" cells, or the "stored" ones; a group without entries then gives the fill value;
            or a mask that broadcasts to the shape, of cells to look at.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice, or there are no cells.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is no choice there is.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> A.min(), A.min(where="stored")
        (np.int64(0), np.int64(2))
        >>> A.min(axis=1, keepdims=True).shape
        (3, 1)
        """
        return self._reduced("min", axis, keepdims, where, initial=initial, out=out)

    def max(
        self, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Mask = "all", out: Any = None
    ) -> Self | Any:
        """Return the largest value; NaN wins.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        keepdims
            Keep them with length 1.
        initial
            What takes part beside the cells.
        where
            "all" cells, or the "stored" ones; a group without entries then gives the fill value;
            or a mask that broadcasts to the shape, of cells to look at.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice, or there are no cells.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is no choice there is.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> A.max(), A.max(axis=1).to_numpy()
        (np.int64(5), array([2, 0, 5]))
        """
        return self._reduced("max", axis, keepdims, where, initial=initial, out=out)

    def any(self, axis: Axis = None, *, keepdims: bool = False, where: Mask = "all", out: Any = None) -> Self | Any:
        """Return whether a cell is not 0.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without entries then gives False;
            or a mask that broadcasts to the shape, of cells to look at.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is no choice there is.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> A.any(), A.any(axis=1).to_numpy()
        (np.True_, array([ True, False,  True]))
        """
        return self._reduced("any", axis, keepdims, where, out=out)

    def all(self, axis: Axis = None, *, keepdims: bool = False, where: Mask = "all", out: Any = None) -> Self | Any:
        """Return whether no cell is 0.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without entries then gives True;
            or a mask that broadcasts to the shape, of cells to look at.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is no choice there is.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> A.all(), A.all(where="stored")
        (np.False_, np.True_)
        """
        return self._reduced("all", axis, keepdims, where, out=out)

    def count(self, axis: Axis = None, *, keepdims: bool = False, where: Mask = "all") -> Self | Any:
        """Return the number of cells that differ from fill, int64; over all axes it reads footers only.

        Parameters
        ----------
        axis
            The axes that go: an integer, a tuple, or all by default.
        keepdims
            Keep them with length 1.
        where
            "all" cells or the "stored" ones, which count the same; or a mask that broadcasts to the shape, of cells
            to look at.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is no choice there is.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [2, 5], shape=(3, 2))
        >>> A.count(), A.count(axis=0).to_numpy()
        (np.int64(2), array([1, 1]))
        """
        return self._reduced("count", axis, keepdims, where)

    def norm(self, ord: float = 2, axis: Axis = None, *, keepdims: bool = False, where: Where = "all") -> Self | Any:
        """Return the norm of the cells as one vector, whatever the number of axes.

        Parameters
        ----------
        ord
            A number p for the root of the sum of the p-th powers of the magnitudes; ``np.inf`` for the largest of them,
            ``-np.inf`` for the smallest, 0 for the number of cells that are not 0. Of a negative p a cell of 0
            makes the norm 0.
        axis
            The axes that go: an integer, a tuple, or all by default.
        keepdims
            Keep them with length 1.
        where
            "all" cells, or the "stored" ones; a group without entries then gives 0.

        Returns
        -------
        Tensor or scalar
            A lazy tensor; where no axis is left, a NumPy scalar.

        Raises
        ------
        ShapeError
            If an axis is out of range or named twice.
        InvalidValueError
            If there is no such ``ord``, ``keepdims`` is no bool, or ``where`` neither "all" nor "stored".

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[3, 0], [4, 0]])
        >>> A.norm(), A.norm(np.inf), A.norm(1, axis=0).to_numpy()
        (np.float64(5.0), np.float64(4.0), array([7., 0.]))
        """
        return self._reduced("norm", axis, keepdims, where, ord=ord)

    def argmin(
        self, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all", out: Any = None
    ) -> Self | Any:
        """Return the first position of the smallest cell along an axis, or its flat position, int64.

        NaN wins, and so does the fill where a cell is absent.

        Parameters
        ----------
        axis
            The axis that goes; without one the position is that in all cells in row-major order.
        keepdims
            Keep it, or all of them, with length 1.
        where
            "all" cells, or the "stored" ones; -1 stands for no entries then.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor or scalar
            Positions, int64: a lazy tensor; without ``axis`` and ``keepdims`` a NumPy scalar.

        Raises
        ------
        ShapeError
            If the axis is out of range, or there are no cells.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is no choice there is.
        UnsupportedError
            If ``axis`` is a tuple, or a flat position may pass 2^63 - 1.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 0], [1, 3]], [-3, -1], shape=(1, 4))
        >>> A.argmin(), A.argmin(axis=0).to_numpy()
        (np.int64(1), array([0, 0, 0, 0]))
        """
        return self._reduced("argmin", axis, keepdims, where, out=out)

    def argmax(
        self, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all", out: Any = None
    ) -> Self | Any:
        """Return the first position of the largest cell along an axis, or its flat position, int64.

        NaN wins, and so does the fill where a cell is absent.

        Parameters
        ----------
        axis
            The axis that goes; without one the position is that in all cells in row-major order.
        keepdims
            Keep it, or all of them, with length 1.
        where
            "all" cells, or the "stored" ones; -1 stands for no entries then.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor or scalar
            Positions, int64: a lazy tensor; without ``axis`` and ``keepdims`` a NumPy scalar.

        Raises
        ------
        ShapeError
            If the axis is out of range, or there are no cells.
        InvalidValueError
            If ``keepdims`` is no bool, or ``where`` is no choice there is.
        UnsupportedError
            If ``axis`` is a tuple, or a flat position may pass 2^63 - 1.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 0], [1, 3]], [-3, -1], shape=(1, 4))
        >>> A.argmax(), A.argmax(where="stored")
        (np.int64(0), np.int64(3))
        """
        return self._reduced("argmax", axis, keepdims, where, out=out)

    def describe(self) -> dict[str, Any]:
        """Return statistics of all cells and of the stored ones by name, in one scan.

        Returns
        -------
        dict
            ``nnz``, ``density``, ``min``, ``max``, ``sum``, ``mean`` and ``std``, the extremes where there are cells;
            ``stored_min``, ``stored_max``, ``stored_mean`` and ``stored_std``.

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
