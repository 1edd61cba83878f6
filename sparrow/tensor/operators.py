"""What tensors do as operands: NumPy's functions of cells, in operators, ufuncs and a named list of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sparrow import engines
from sparrow.errors import UnsupportedError
from sparrow.plan import Cast, Clip, Round, map_cells
from sparrow.schema import check_dtype
from sparrow.tensor.nanreductions import NanReductions
from sparrow.tensor.numpy_reductions import NUMPY
from sparrow.tensor.products import matmul

__all__ = ["Operators", "where"]


class Operators(NanReductions, NDArrayOperatorsMixin):
    """Operators and ufuncs of a tensor, lazy wherever the result is sparse.

    The fill goes through the function; only in a product of arrays does an absent cell of fill 0 annihilate.
    """

    __slots__ = ()
    _functions: ClassVar[dict[Any, Callable[..., Any]]] = {}

    def _cells(self, function: Callable[..., Any], *operands: Any) -> Any:
        """Return a function of cells as a lazy tensor, or as an array where a dense operand leaves no fill."""
        node = map_cells(function, [_operand(operand) for operand in operands])
        return engines.array(node) if node.dense else self._of(node)

    def __contains__(self, value: Any) -> bool:
        """Return whether some cell, absent ones among them, equals a value."""
        return bool((self == value).any())

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply one of NumPy's functions of cells."""
        strange = [operand for operand in inputs if not _is_operand(operand)]
        if any(hasattr(type(operand), "__array_ufunc__") for operand in strange):
            return NotImplemented
        if strange:
            raise UnsupportedError(
                f"np.{ufunc.__name__}: {type(strange[0]).__name__} {strange[0]!r} is no operand: use tensors, arrays "
                "and numbers"
            )
        out = kwargs.pop("out", (None,))
        dtype = kwargs.pop("dtype", None)
        if method != "__call__" or kwargs:
            what = (
                f"np.{ufunc.__name__}.{method}"
                if method != "__call__"
                else f"np.{ufunc.__name__}({next(iter(kwargs))}=)"
            )
            raise UnsupportedError(f"{what} is not supported on sparse tensors: A.to_numpy() where it fits")
        if ufunc is np.matmul:
            result: Any = matmul(*inputs)
        elif ufunc.signature is not None:
            raise UnsupportedError(
                f"np.{ufunc.__name__} is not supported on sparse tensors: A.to_numpy() where it fits"
            )
        elif ufunc.nout > 1:
            return tuple(self._cells(lambda *values, k=k: ufunc(*values)[k], *inputs) for k in range(ufunc.nout))
        else:
            result = self._cells(ufunc, *inputs)
        if dtype is not None:
            result = result.astype(dtype)
        return result if out[0] is None else _into(out[0], result, ufunc.__name__)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Apply one of NumPy's functions of the named list; of any other a clear error."""
        if func not in self._functions:
            raise UnsupportedError(
                f"np.{func.__name__} is not supported on sparse tensors: a method or a function of sparrow may do it, "
                "or A.to_numpy() where it fits in memory"
            )
        return self._functions[func](*args, **kwargs)

    def _mapped(self, function: Callable[..., Any]) -> Self:
        """Return a function of the cells of this tensor alone, which leaves them sparse."""
        return self._of(map_cells(function, [self.__sparrow_scan__()]))

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the tensor with another type of values, lazily; values that become fill are not kept.

        Parameters
        ----------
        dtype
            The type; the tensor itself is returned where it has it.

        Returns
        -------
        Tensor

        Raises
        ------
        UnsupportedError
            If tensors cannot hold the type.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0.5, 0.0], [0.0, -2.0]]).astype("int64")
        <Tensor (d0: 2, d1: 2) int64 nnz=? coo lazy>
        """
        wanted = check_dtype(dtype)
        return self if wanted == self.__sparrow_scan__().schema.dtype else self._mapped(Cast(wanted))

    def clip(self, min: Self | ArrayLike | None = None, max: Self | ArrayLike | None = None) -> Self | NDArray[Any]:
        """Return the cells limited to the interval from ``min`` to ``max``, lazily; the fill too.

        Parameters
        ----------
        min, max
            Numbers, or arrays or tensors that broadcast to limits of each cell; None for no limit.

        Returns
        -------
        Tensor or ndarray
            An array, at once, where a limit is one.

        Raises
        ------
        ShapeError
            If the shapes do not broadcast.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0, 5], [-3, 2]]).clip(-1, 3).to_numpy()
        array([[ 0,  3],
               [-1,  2]])
        """
        if np.ndim(min) or np.ndim(max):  # type: ignore[arg-type]
            low = self if min is None else self._cells(np.maximum, self, min)
            return low if max is None else self._cells(np.minimum, low, max)
        return self._mapped(Clip(min, max))

    def round(self, decimals: int = 0) -> Self:
        """Return the cells rounded to a number of decimals, lazily.

        Parameters
        ----------
        decimals
            How many; negative ones count to the left of the point.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([0.25, 0.0, 1.75]).round(1).to_numpy()
        array([0.2, 0. , 1.8])
        """
        return self._mapped(Round(decimals))

    def conj(self) -> Self:
        """Return the complex conjugates, lazily.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([1 + 2j, 3]).conj().to_numpy()
        array([1.-2.j, 3.-0.j])
        """
        return self._mapped(np.conjugate)

    @property
    def real(self) -> Self:
        """The real parts, lazily."""
        return self._mapped(np.real)

    @property
    def imag(self) -> Self:
        """The imaginary parts, lazily."""
        return self._mapped(np.imag)


def where(condition: Any, x: Any, y: Any) -> Any:
    """Return the cells of ``x`` where ``condition`` holds and those of ``y`` elsewhere; shapes broadcast.

    Lazy where all three are tensors or scalars; an array at once where one is dense.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [-3, 4]])
    >>> sp.where(A > 0, A, 0).to_numpy()
    array([[0, 2],
           [0, 4]])
    """
    tensor = next((o for o in (condition, x, y) if isinstance(o, Operators)), None)
    if tensor is None:
        raise UnsupportedError("where needs a tensor: for dense arrays use NumPy")
    return tensor._cells(np.where, condition, x, y)


def _is_operand(operand: Any) -> bool:
    return isinstance(operand, Operators | np.ndarray | np.generic | bool | int | float | complex | list | tuple)


def _operand(operand: Any) -> Any:
    """Return an operand as a scan, an array or a scalar.

    Raises
    ------
    UnsupportedError
        If it is none of these.
    """
    if isinstance(operand, Operators):
        return operand.__sparrow_scan__()
    if isinstance(operand, list | tuple):
        try:
            operand = np.asarray(operand)
        except ValueError as error:
            raise UnsupportedError(f"{operand!r} is no operand: {error}") from None
    if not _is_operand(operand) or (isinstance(operand, np.ndarray) and operand.dtype.kind not in "biufc"):
        raise UnsupportedError(f"{type(operand).__name__} {operand!r} is no operand: use tensors, arrays and numbers")
    return operand


def _into(target: Any, result: Any, name: str) -> Any:
    """Write a result to the target of an in-place operation, which keeps its dtype and fill."""
    if not np.can_cast(result.dtype, target.dtype, "same_kind"):
        raise UnsupportedError(
            f"np.{name} gives {result.dtype}, which an in-place operation cannot write to {target.dtype}: "
            "use A = A.astype(...) first"
        )
    target[...] = result if isinstance(target, Operators) or not isinstance(result, Operators) else np.asarray(result)
    return target


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """Return the cells limited, with NumPy's names for the limits and those of the array standard."""
    return a.clip(min if a_min is None else a_min, max if a_max is None else a_max)


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write the cells of one to the other, which keeps its dtype, fill and storage type."""
    if where is not True or casting != "same_kind":
        raise UnsupportedError("np.copyto to or from a tensor takes no casting= and no where=: dst[mask] = src[mask]")
    _into(dst, src if hasattr(src, "dtype") else np.asarray(src), "copyto")


Operators._functions.update(
    NUMPY
    | {
        np.copyto: _copyto,
        np.clip: _clip,
        np.round: lambda a, decimals=0: a.round(decimals),
        np.real: lambda val: val.real,
        np.imag: lambda val: val.imag,
        np.shape: lambda a: a.shape,
        np.ndim: lambda a: a.ndim,
        np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
        np.transpose: lambda a, axes=None: a.transpose() if axes is None else a.transpose(axes),
    }
)
