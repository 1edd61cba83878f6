"""Reductions of tensors along axes, with and without NaN, and running totals."""

from __future__ import annotations

from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sparrow import engines
from sparrow.core.indexing import broadcast_shapes
from sparrow.core.schema import check_dtype
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.interop.conversion import check_fill
from sparrow.plan import Axis, Scan, Where, make_accumulate, make_map, make_reduce, match_broadcast_mask, normalize_axis
from sparrow.runtime.docs import SharedText
from sparrow.runtime.validation import check_flag
from sparrow.tensor.base import Base, as_scan
from sparrow.tensor.matching import to_labelled
from sparrow.tensor.ufuncs import write_out

__all__ = ["Reductions"]

Mask: TypeAlias = "Where | ArrayLike | Base"
"""The elements that a reduction includes: "all", the "stored" ones, or those where a mask is True."""

_MASK_IDENTITIES = {
    "sum": 0, "prod": 1, "any": False, "all": True, "mean": 0, "nansum": 0, "nanprod": 1, "nanmean": np.nan,
    "nanvar": np.nan, "nanstd": np.nan,
}  # fmt: skip
"""Values that do not change a reduction, which replace excluded elements."""
_COMBINE_INITIAL = {
    "sum": np.add, "prod": np.multiply, "any": np.logical_or, "all": np.logical_and, "nansum": np.add,
    "nanprod": np.multiply,
    "min": np.minimum, "max": np.maximum, "nanmin": np.fmin, "nanmax": np.fmax,
}  # fmt: skip
_EXTREMES = ("min", "max", "nanmin", "nanmax")

_shared = SharedText(
    axis="""
    axis
        Axes to reduce: one or a tuple, by number or name; all by default.
    """,
    dtype="""
    dtype
        Type of the computation and of the result; NumPy's choice by default.
    """,
    ddof="""
    dtype
        Floating type of the computation; another one raises ``UnsupportedError``.
    ddof, correction
        Number subtracted from the divisor: NumPy's name and that of the array API. Passing both raises
        ``InvalidValueError``.
    """,
    keepdims="""
    keepdims
        Keep the reduced axes with length 1.
    """,
    initial="""
    initial
        Value that takes part beside the elements.
    """,
    where="""
    where
        "all" elements or the "stored" ones, or a boolean mask that broadcasts to the shape. A mask with labels is
        brought to those of the tensor, and absent at labels that it lacks. A mask of a minimum or maximum requires
        ``initial``.
    """,
    stored="""
    where
        "all" elements or the "stored" ones.
    """,
    out="""
    out
        Array or tensor of the result's shape to write the result to.
    """,
    invalid_options="""
    InvalidValueError
        If ``keepdims`` is not a bool, or ``where`` is unknown.
    """,
    returns="""
    Returns
    -------
    Tensor or scalar
        A lazy tensor; a NumPy scalar if no axis is left.
    """,
    result="""
    %(returns)s

    Raises
    ------
    ShapeError
        If an axis is out of range or repeated.
    %(invalid_options)s
    """,
    typed_result="""
    %(result)s
    UnsupportedError
        If ``dtype`` would drop imaginary parts.
    """,
    extreme_result="""
    %(returns)s

    Raises
    ------
    ShapeError
        If an axis is out of range or repeated, or the tensor has no elements.
    %(invalid_options)s
    """,
    position="""
    axis
        Axis to search; by default all elements in row-major order.
    keepdims
        Keep the reduced axes with length 1.
    where
        "all" elements or the "stored" ones; the position is -1 where none is stored.
    """,
    position_result="""
    Returns
    -------
    Tensor or scalar
        Positions, int64: a lazy tensor; a NumPy scalar without ``axis`` and ``keepdims``.

    Raises
    ------
    ShapeError
        If the axis is out of range, or the tensor has no elements.
    UnsupportedError
        If ``axis`` is a tuple, or a flat position may exceed 2^63 - 1.
    %(invalid_options)s
    """,
    nanposition_result="""
    %(position_result)s
        Also if a line holds only NaN, or may do so where absent elements are NaN, unless ``where="stored"``: at once
        or, for a lazy result, when it is computed.
    """,
    sum_like="""
    Parameters
    ----------
    %(axis)s
    %(dtype)s
    %(keepdims)s
    %(initial)s
    %(where)s
    %(out)s

    %(typed_result)s
    """,
    mean_like="""
    Parameters
    ----------
    %(axis)s
    %(dtype)s
    %(keepdims)s
    %(where)s
    %(out)s

    %(typed_result)s
    """,
    var_like="""
    Parameters
    ----------
    %(axis)s
    %(ddof)s
    %(keepdims)s
    %(where)s
    %(out)s

    %(result)s
    """,
    min_like="""
    Parameters
    ----------
    %(axis)s
    %(keepdims)s
    %(initial)s
    %(where)s
    %(out)s

    %(extreme_result)s
    """,
    any_like="""
    Parameters
    ----------
    %(axis)s
    %(keepdims)s
    %(where)s
    %(out)s

    %(result)s
    """,
    count_like="""
    Parameters
    ----------
    %(axis)s
    %(keepdims)s
    %(where)s

    %(result)s
    """,
    argmin_like="""
    Parameters
    ----------
    %(position)s
    %(out)s

    %(position_result)s
    """,
    nanmean_like="""
    Parameters
    ----------
    %(axis)s
    %(dtype)s
    %(keepdims)s
    %(where)s

    %(typed_result)s
    """,
    nansum_like="""
    Parameters
    ----------
    %(axis)s
    %(dtype)s
    %(keepdims)s
    %(initial)s
    %(where)s

    %(typed_result)s
    """,
    nanvar_like="""
    Parameters
    ----------
    %(axis)s
    %(ddof)s
    %(keepdims)s
    %(where)s

    %(result)s
    """,
    nanmin_like="""
    Parameters
    ----------
    %(axis)s
    %(keepdims)s
    %(initial)s
    %(where)s

    %(extreme_result)s
    """,
    nanargmin_like="""
    Parameters
    ----------
    %(position)s

    %(nanposition_result)s
    """,
    accumulation="""
    Parameters
    ----------
    axis
        Axis to accumulate along; by default all elements in row-major order, which gives shape (size,).
    dtype
        Type of the computation; NumPy's choice by default.
    out
        Array or tensor of the result's shape to write the result to.

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If there is no such axis.
    TooLargeError
        If the array would exceed the memory limit.
    """,
)


@_shared
class Reductions(Base):
    """Reductions of a tensor: a NumPy scalar over all axes, otherwise a lazy tensor.

    Absent elements take part with the fill value and are counted exactly; ``where="stored"`` includes stored elements
    only. ``keepdims=True`` gives a tensor over all axes too, hence the type ``Self | Any``.
    """

    __slots__ = ()

    def _reduce(
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
        """Return a reduction by name, with NumPy's masks and ``out=``."""
        keepdims = check_flag("keepdims", keepdims)
        included: Any = "all" if where is True else where
        if initial is not None or not isinstance(included, str):
            found = _reduce_masked(self, name, axis, keepdims, included, initial, options)
            return write_out(out, found, name)
        node = make_reduce(self.__sparrow_scan__(), name, axis, keepdims, included, **options)  # type: ignore[arg-type]
        found = self._from_node(node) if node.axes else engines.reduce_all([node])[0]
        if out is None:
            return found
        truncates = name == "mean" and self.dtype.kind in "biu"  # as NumPy does for integers throughout
        return write_out(out, found, name, "unsafe" if truncates else "same_kind")

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
        """Return the sum of elements.

        Integers wrap on overflow. The sum over no elements is 0.

        %(sum_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> sp.sum(A), A.sum(axis=0).to_numpy()
        (np.int64(4), array([ 3,  2, -1]))
        >>> A.sum(0, "float32").dtype
        dtype('float32')
        """
        return self._reduce("sum", axis, keepdims, where, initial=initial, out=out, dtype=dtype)

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
        """Return the product of elements.

        Integers wrap on overflow. The product over no elements is 1.

        %(sum_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> sp.prod(A), A.prod(where="stored")
        (np.int64(0), np.int64(-6))
        """
        return self._reduce("prod", axis, keepdims, where, initial=initial, out=out, dtype=dtype)

    def mean(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        where: Mask = "all",
        out: Any = None,
    ) -> Self | Any:
        """Return the mean: the sum divided by the number of elements.

        Under ``where="stored"`` the divisor is the number of stored elements. The mean of no elements is NaN, without a
        warning.

        %(mean_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> A.mean(axis=0).to_numpy(), float(sp.mean(A, where="stored"))
        (array([ 1.5,  1. , -0.5]), 1.3333333333333333)
        """
        return self._reduce("mean", axis, keepdims, where, out=out, dtype=dtype)

    def var(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
        where: Mask = "all",
        out: Any = None,
    ) -> Self | Any:
        """Return the variance: the mean squared distance from the mean.

        The result is NaN, without a warning, where the divisor is not positive.

        %(var_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> sp.var(A, axis=0).to_numpy(), A.var(axis=0, ddof=1).to_numpy()
        (array([2.25, 1.  , 0.25]), array([4.5, 2. , 0.5]))
        """
        return self._reduce(
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
        where: Mask = "all",
        out: Any = None,
    ) -> Self | Any:
        """Return the standard deviation, the square root of the variance.

        The result is NaN, without a warning, where the divisor is not positive.

        %(var_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> sp.std(A, axis=0).to_numpy(), float(A.std(where="stored"))
        (array([1.5, 1. , 0.5]), 1.699673171197595)
        """
        return self._reduce(
            "std", axis, keepdims, where, out=out, dtype=dtype, ddof=ddof or None, correction=correction
        )

    def min(
        self, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Mask = "all", out: Any = None
    ) -> Self | Any:
        """Return the smallest element; NaN if there is one.

        Under ``where="stored"`` a group without stored elements gives the fill value.

        %(min_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> sp.min(A), A.min(axis=0).to_numpy()
        (np.int64(-1), array([ 0,  0, -1]))
        >>> A.min(axis=1, keepdims=True).shape
        (2, 1)
        """
        return self._reduce("min", axis, keepdims, where, initial=initial, out=out)

    def max(
        self, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Mask = "all", out: Any = None
    ) -> Self | Any:
        """Return the largest element; NaN if there is one.

        Under ``where="stored"`` a group without stored elements gives the fill value.

        %(min_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> sp.max(A), A.max(axis=1, where="stored").to_numpy()
        (np.int64(3), array([2, 3]))
        """
        return self._reduce("max", axis, keepdims, where, initial=initial, out=out)

    def any(self, axis: Axis = None, *, keepdims: bool = False, where: Mask = "all", out: Any = None) -> Self | Any:
        """Return whether any element is non-zero.

        False over no elements.

        %(any_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> sp.any(A), A.any(axis=1).to_numpy()
        (np.True_, array([ True,  True]))
        """
        return self._reduce("any", axis, keepdims, where, out=out)

    def all(self, axis: Axis = None, *, keepdims: bool = False, where: Mask = "all", out: Any = None) -> Self | Any:
        """Return whether all elements are non-zero.

        True over no elements.

        %(any_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> sp.all(A), A.all(axis=1, where="stored").to_numpy()
        (np.False_, array([ True,  True]))
        """
        return self._reduce("all", axis, keepdims, where, out=out)

    def count(self, axis: Axis = None, *, keepdims: bool = False, where: Mask = "all") -> Self | Any:
        """Return the number of elements that differ from the fill value, int64.

        Over all axes of a stored tensor this reads file footers only.

        %(count_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> A.count(), A.count(axis=0).to_numpy()
        (np.int64(3), array([1, 1, 1]))
        """
        return self._reduce("count", axis, keepdims, where)

    def norm(self, ord: float = 2, axis: Axis = None, *, keepdims: bool = False, where: Where = "all") -> Self | Any:
        """Return the vector norm of the elements, over any number of axes.

        The norm of no elements is 0.

        Parameters
        ----------
        ord
            p, for the p-th root of the sum of the p-th powers of magnitudes; ``inf`` and ``-inf`` for the largest and
            smallest magnitude, 0 for the number of non-zero elements. With a negative p an element of 0 gives 0.
        %(axis)s
        %(keepdims)s
        %(stored)s

        %(result)s

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[3, 0], [4, 0]])
        >>> A.norm(), A.norm(np.inf), A.norm(1, axis=0).to_numpy()
        (np.float64(5.0), np.float64(4.0), array([7., 0.]))
        """
        return self._reduce("norm", axis, keepdims, where, ord=ord)

    def argmin(
        self, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all", out: Any = None
    ) -> Self | Any:
        """Return the first position of the smallest element.

        NaN counts as that element; so does the fill value where an element is absent.

        %(argmin_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> sp.argmin(A), A.argmin(axis=1).to_numpy()
        (np.int64(5), array([0, 2]))
        """
        return self._reduce("argmin", axis, keepdims, where, out=out)

    def argmax(
        self, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all", out: Any = None
    ) -> Self | Any:
        """Return the first position of the largest element.

        NaN counts as that element; so does the fill value where an element is absent.

        %(argmin_like)s

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
        >>> sp.argmax(A), A.argmax(axis=1).to_numpy()
        (np.int64(3), array([1, 0]))
        """
        return self._reduce("argmax", axis, keepdims, where, out=out)

    # -- ignoring NaN ---------------------------------------------------------------------------

    def nansum(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Mask = "all",
    ) -> Self | Any:
        """Return the sum of the elements, ignoring NaN.

        The sum over no elements is 0.

        %(nansum_like)s

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[1.0, np.nan], [3.0, 0.0]])
        >>> A.nansum(), A.nansum(axis=0).to_numpy()
        (np.float64(4.0), array([4., 0.]))
        """
        return self._reduce("nansum", axis, keepdims, where, initial=initial, dtype=dtype)

    def nanprod(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Mask = "all",
    ) -> Self | Any:
        """Return the product of the elements, ignoring NaN.

        The product over no elements is 1.

        %(nansum_like)s

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[1.0, np.nan], [3.0, 0.0]])
        >>> A.nanprod(), A.nanprod(where="stored")
        (np.float64(0.0), np.float64(3.0))
        """
        return self._reduce("nanprod", axis, keepdims, where, initial=initial, dtype=dtype)

    def nanmean(
        self, axis: Axis = None, dtype: DTypeLike | None = None, *, keepdims: bool = False, where: Mask = "all"
    ) -> Self | Any:
        """Return the mean of the elements, ignoring NaN.

        The mean of no elements is NaN, without a warning.

        %(nanmean_like)s

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[1.0, np.nan], [3.0, 0.0]])
        >>> A.nanmean(axis=1).to_numpy(), A.nanmean(where="stored")
        (array([1. , 1.5]), np.float64(2.0))
        """
        return self._reduce("nanmean", axis, keepdims, where, dtype=dtype)

    def nanvar(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
        where: Mask = "all",
    ) -> Self | Any:
        """Return the variance of the elements, ignoring NaN.

        The result is NaN, without a warning, where the divisor is not positive.

        %(nanvar_like)s

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[1.0, np.nan], [3.0, 0.0]])
        >>> A.nanvar(axis=1).to_numpy(), A.nanvar(where="stored")
        (array([0.  , 2.25]), np.float64(1.0))
        """
        return self._reduce("nanvar", axis, keepdims, where, dtype=dtype, ddof=ddof or None, correction=correction)

    def nanstd(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
        where: Mask = "all",
    ) -> Self | Any:
        """Return the standard deviation of the elements, ignoring NaN.

        The result is NaN, without a warning, where the divisor is not positive.

        %(nanvar_like)s

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[1.0, np.nan], [3.0, 0.0]])
        >>> A.nanstd(axis=1).to_numpy(), A.nanstd(where="stored")
        (array([0. , 1.5]), np.float64(1.0))
        """
        return self._reduce("nanstd", axis, keepdims, where, dtype=dtype, ddof=ddof or None, correction=correction)

    def nanmin(
        self, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Mask = "all"
    ) -> Self | Any:
        """Return the smallest element, ignoring NaN; NaN if all are.

        Under ``where="stored"`` a group without stored elements gives the fill value.

        %(nanmin_like)s

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[1.0, np.nan], [3.0, 0.0]])
        >>> A.nanmin(axis=0).to_numpy(), A.nanmin(where="stored")
        (array([1., 0.]), np.float64(1.0))
        """
        return self._reduce("nanmin", axis, keepdims, where, initial=initial)

    def nanmax(
        self, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Mask = "all"
    ) -> Self | Any:
        """Return the largest element, ignoring NaN; NaN if all are.

        Under ``where="stored"`` a group without stored elements gives the fill value.

        %(nanmin_like)s

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[1.0, np.nan], [3.0, 0.0]])
        >>> A.nanmax(), A.nanmax(axis=1).to_numpy()
        (np.float64(3.0), array([1., 3.]))
        """
        return self._reduce("nanmax", axis, keepdims, where, initial=initial)

    def nanargmin(self, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all") -> Self | Any:
        """Return the first position of the smallest element, ignoring NaN.

        %(nanargmin_like)s

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[1.0, np.nan], [3.0, 0.0]])
        >>> A.nanargmin(), A.nanargmin(axis=1).to_numpy()
        (np.int64(3), array([0, 1]))
        """
        return self._reduce("nanargmin", axis, keepdims, where)

    def nanargmax(self, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all") -> Self | Any:
        """Return the first position of the largest element, ignoring NaN.

        %(nanargmin_like)s

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray([[1.0, np.nan], [3.0, 0.0]])
        >>> A.nanargmax(), A.nanargmax(axis=1).to_numpy()
        (np.int64(2), array([0, 0]))
        """
        return self._reduce("nanargmax", axis, keepdims, where)

    # -- running totals -------------------------------------------------------------------------

    def cumsum(self, axis: int | str | None = None, dtype: DTypeLike | None = None, out: Any = None) -> NDArray[Any]:
        """Return the cumulative sum of the elements, a dense array.

        %(accumulation)s

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 2, 0], [1, 0, 1]]).cumsum(axis=1)
        array([[0, 2, 2],
               [1, 1, 2]])
        """
        return self._accumulate(np.add, axis, dtype, out)

    def cumprod(self, axis: int | str | None = None, dtype: DTypeLike | None = None, out: Any = None) -> NDArray[Any]:
        """Return the cumulative product of the elements, a dense array.

        %(accumulation)s

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[3, 2, 0], [1, 4, 1]]).cumprod(axis=1)
        array([[3, 6, 0],
               [1, 4, 4]])
        """
        return self._accumulate(np.multiply, axis, dtype, out)

    def _accumulate(self, ufunc: np.ufunc, axis: int | str | None, dtype: DTypeLike | None, out: Any) -> NDArray[Any]:
        node = make_accumulate(
            self.__sparrow_scan__(),
            ufunc,
            None if axis is None else normalize_axis(axis, self.ndim, self.dims),
            None if dtype is None else check_dtype(dtype),
        )
        totals: NDArray[Any] = write_out(out, engines.evaluate_dense(node), f"np.{ufunc.__name__}.accumulate")
        return totals


# -- masks and initial values --------------------------------------------------------------------


def _reduce_masked(
    tensor: Any, name: str, axis: Any, keepdims: bool, where: Any, initial: Any, options: dict[str, Any]
) -> Any:
    """Return a reduction with a ``where=`` mask and ``initial=``.

    Elements that the mask excludes become the identity of the reduction.
    """
    if isinstance(where, str):
        return _reduce_from_initial(tensor, name, axis, keepdims, where, initial, options)
    if name in _EXTREMES and initial is None:
        raise InvalidValueError(f"{name}: a mask for where= requires initial=, the result of an empty selection")
    if name not in ("count", "var", "std", *_MASK_IDENTITIES) and initial is None:
        raise UnsupportedError(
            f"{name}: where= must be 'all' or 'stored', got a mask, which sums, products, means, variances, extremes, "
            "any, all and count accept"
        )
    mask = _as_mask(tensor, where)
    if name in ("var", "std"):
        return _masked_variance(tensor, name, axis, keepdims, mask, options)
    if name in _MASK_IDENTITIES:
        identity: Any = _MASK_IDENTITIES[name]
        if tensor.dtype == bool and name in ("sum", "nansum", "mean"):
            identity = False  # booleans are counted exactly, integers wrap
    else:
        identity = tensor.fill_value if name == "count" else check_fill(initial, tensor.dtype)
    selected = tensor._from_node(make_map(np.where, [mask, tensor.__sparrow_scan__(), identity]))
    if name != "mean":
        return _reduce_from_initial(selected, name, axis, keepdims, "all", initial, options)
    dtype = options.get("dtype") or (np.float64 if tensor.dtype.kind in "biu" else tensor.dtype)
    total = selected.sum(axis, np.float32 if dtype == np.float16 else dtype, keepdims=keepdims)
    with np.errstate(all="ignore"):
        return (total / type(tensor)(mask.source, mask.view).sum(axis, keepdims=keepdims)).astype(dtype)


def _masked_variance(tensor: Any, name: str, axis: Any, keepdims: bool, mask: Scan, options: dict[str, Any]) -> Any:
    """Return the variance or standard deviation of the elements where a mask is True.

    Excluded elements become NaN, which is ignored; NaN among the others must not be.
    """
    scan = tensor.__sparrow_scan__()
    selected = tensor._from_node(make_map(np.where, [mask, scan, np.nan]))
    found = selected._reduce(f"nan{name}", axis, keepdims, "all", **options)
    if tensor.dtype.kind not in "fc":
        return found
    broken = tensor._from_node(make_map(np.logical_and, [mask, as_scan(np.isnan(tensor))]))
    spoiled = broken._reduce("any", axis, keepdims, "all")
    if not isinstance(found, Base):
        return found.dtype.type(np.nan) if spoiled else found
    return tensor._from_node(make_map(np.where, [as_scan(spoiled), found.dtype.type(np.nan), as_scan(found)]))


def _as_mask(tensor: Base, where: Any) -> Scan:
    """Return a mask, matched by name and label, as a scan of the tensor's shape."""
    scan = as_scan(to_labelled(where, tensor))
    if scan.schema.dtype != bool:
        raise InvalidValueError(f"where= must be 'all', 'stored' or a boolean mask, got dtype {scan.schema.dtype}")
    scan = match_broadcast_mask(scan, tensor.__sparrow_scan__(), "the mask where=")
    if broadcast_shapes([scan.schema.shape, tensor.shape]) != tensor.shape:
        raise ShapeError(f"where= of shape {scan.schema.shape} does not broadcast to {tensor.shape}")
    return scan if scan.schema.shape == tensor.shape else scan.then(scan.view.broadcast_to(tensor.shape))


def _reduce_from_initial(
    tensor: Any, name: str, axis: Any, keepdims: bool, where: str, initial: Any, options: dict[str, Any]
) -> Any:
    if initial is None:
        return tensor._reduce(name, axis, keepdims, where, **options)
    if name in _EXTREMES:
        start = check_fill(initial, tensor.dtype)
        if not tensor.size:  # the initial value alone, in the shape of any reduction
            return tensor._reduce("count", axis, keepdims, "all").astype(tensor.dtype) + start
    found = tensor._reduce(name, axis, keepdims, where, **options)
    start = check_fill(initial, np.dtype(complex) if name in ("any", "all") else found.dtype)
    with np.errstate(all="ignore"):
        return _COMBINE_INITIAL[name](found, start).astype(found.dtype)
