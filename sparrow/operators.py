"""What tensors do as operands: NumPy's functions of cells, in operators, ufuncs and a named list of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray

from sparrow import engines
from sparrow.engines.derived import Derived
from sparrow.errors import UnsupportedError
from sparrow.products import matmul
from sparrow.reducing import NUMPY, Reductions
from sparrow.schema import check_dtype

__all__ = ["Operators", "where"]


class Operators(Reductions, NDArrayOperatorsMixin):
    """Operators and ufuncs of a tensor, lazy wherever the result is sparse.

    The fill goes through the function; only in a product of arrays does an absent cell of fill 0 annihilate.
    """

    __slots__ = ()
    _functions: ClassVar[dict[Any, Callable[..., Any]]] = {}

    def _cells(self, function: Callable[..., Any], *operands: Any) -> Any:
        """Return a function of cells as a lazy tensor, or as an array where a dense operand leaves no fill."""
        found = engines.elementwise(function, [_operand(operand) for operand in operands])
        return self._of(found) if isinstance(found, Derived) else found

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply one of NumPy's functions of cells."""
        if any(not _is_operand(operand) for operand in inputs):
            return NotImplemented
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
        return result if out[0] is None else _into(out[0], result, ufunc)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Apply one of NumPy's functions of the named list; of any other a clear error."""
        if func not in self._functions:
            raise UnsupportedError(
                f"np.{func.__name__} is not supported on sparse tensors: a method or a function of sparrow may do it, "
                "or A.to_numpy() where it fits in memory"
            )
        return self._functions[func](*args, **kwargs)

    def astype(self, dtype: DTypeLike) -> Any:
        """Return the tensor with another type of values, lazily; values that become fill are not kept.

        Raises
        ------
        UnsupportedError
            If tensors cannot hold the type.
        """
        wanted = check_dtype(dtype)
        return self if wanted == self.__sparrow_scan__().schema.dtype else self._cells(_Cast(wanted), self)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """Return the cells limited to the interval from ``min`` to ``max``, lazily; the fill too."""
        return self._cells(lambda values: np.clip(values, min, max), self)

    def round(self, decimals: int = 0) -> Any:
        """Return the cells rounded to a number of decimals, lazily."""
        return self._cells(lambda values: np.round(values, decimals), self)

    def conj(self) -> Any:
        """Return the complex conjugates, lazily."""
        return self._cells(np.conjugate, self)

    @property
    def real(self) -> Any:
        """The real parts, lazily."""
        return self._cells(np.real, self)

    @property
    def imag(self) -> Any:
        """The imaginary parts, lazily."""
        return self._cells(np.imag, self)


class _Cast:
    """A cast, as a function of cells."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def __call__(self, values: Any) -> NDArray[Any]:
        return np.asarray(values).astype(self.dtype)


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
        operand = np.asarray(operand)
    if not _is_operand(operand) or (isinstance(operand, np.ndarray) and operand.dtype.kind not in "biufc"):
        raise UnsupportedError(f"{type(operand).__name__} {operand!r} is no operand: use tensors, arrays and numbers")
    return operand


def _into(target: Any, result: Any, ufunc: np.ufunc) -> Any:
    """Write a result to the target of an in-place operation, which keeps its dtype and fill."""
    if not np.can_cast(result.dtype, target.dtype, "same_kind"):
        raise UnsupportedError(
            f"np.{ufunc.__name__} gives {result.dtype}, which an in-place operation cannot write to {target.dtype}: "
            "use A = A.astype(...) first"
        )
    target[...] = result if isinstance(target, Operators) or not isinstance(result, Operators) else np.asarray(result)
    return target


Operators._functions.update(
    NUMPY
    | {
        np.where: where,
        np.clip: lambda a, a_min=None, a_max=None: a.clip(a_min, a_max),
        np.round: lambda a, decimals=0: a.round(decimals),
        np.real: lambda val: val.real,
        np.imag: lambda val: val.imag,
        np.shape: lambda a: a.shape,
        np.ndim: lambda a: a.ndim,
        np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
        np.transpose: lambda a, axes=None: a.transpose() if axes is None else a.transpose(axes),
    }
)
