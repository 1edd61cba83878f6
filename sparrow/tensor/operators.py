"""What tensors do as operands: NumPy's functions of cells, in operators, ufuncs and a named list of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sparrow import engines
from sparrow.core.schema import as_integer, check_dtype
from sparrow.errors import IndexingError, InvalidValueError, SparrowError, UnsupportedError
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.interop.scipy_operators import reject_matrix_star
from sparrow.plan import Cast, Clip, Round, map_cells
from sparrow.tensor.accumulations import Accumulations
from sparrow.tensor.arithmetic import Arithmetic
from sparrow.tensor.base import as_scan
from sparrow.tensor.nanreductions import NanReductions
from sparrow.tensor.numpy_reductions import NUMPY
from sparrow.tensor.results import into, kept
from sparrow.tensor.ufuncs import applied, is_operand

__all__ = ["Operators", "where"]


class Operators(NanReductions, Accumulations, Arithmetic):
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
        """Apply one of NumPy's functions of cells, or one of its methods."""
        return applied(self, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Apply one of NumPy's functions of the named list; of any other a clear error."""
        if func not in self._functions:
            module = func.__module__.replace("numpy", "np", 1)
            raise UnsupportedError(
                f"{module}.{func.__name__} is not supported on sparse tensors: a method or a function of sparrow may "
                "do it, or A.to_numpy() where it fits in memory"
            )
        try:
            return self._functions[func](*args, **kwargs)
        except (SparrowError, np.linalg.LinAlgError):
            raise
        except (TypeError, ValueError, IndexError) as error:  # what NumPy, asked for a part of it, says of an argument
            kinds = ((TypeError, UnsupportedError), (ValueError, InvalidValueError), (IndexError, IndexingError))
            kind = next(own for theirs, own in kinds if isinstance(error, theirs))
            raise kind(f"np.{func.__name__}: {error}") from error

    def __pow__(self, other: Any) -> Any:
        """Return powers of cells; of a boolean tensor squares have the type that NumPy's operator gives them, int8."""
        return np.square(self) if self.dtype == bool and type(other) is int and other == 2 else super().__pow__(other)

    def _mapped(self, function: Callable[..., Any]) -> Self:
        """Return a function of the cells of this tensor alone, which leaves them sparse."""
        return self._of(map_cells(function, [self.__sparrow_scan__()]))

    def astype(self, dtype: DTypeLike, *, casting: Any = "unsafe", copy: bool = False) -> Self:
        """Return the tensor with another type of values, lazily; values that become fill are not kept.

        Parameters
        ----------
        dtype
            The type.
        casting
            Which changes are allowed, by NumPy's rules: "unsafe" for any, "same_kind", "safe", "equiv" or "no".
        copy
            Whether the result is another tensor where the type is the same: lazy and read-only, as a view through a
            list. The tensor itself is returned by default.

        Returns
        -------
        Tensor

        Raises
        ------
        UnsupportedError
            If tensors cannot hold the type, or ``casting`` does not allow the change.
        InvalidValueError
            If there is no such rule.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0.5, 0.0], [0.0, -2.0]]).astype("int64")
        <Tensor (d0: 2, d1: 2) int64 nnz=? coo lazy>
        """
        wanted = check_dtype(dtype)
        scan = self.__sparrow_scan__()
        if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
            raise InvalidValueError(f"casting={casting!r} must be 'no', 'equiv', 'safe', 'same_kind' or 'unsafe'")
        if not np.can_cast(scan.schema.dtype, wanted, casting):
            raise UnsupportedError(f"casting={casting!r} does not allow {scan.schema.dtype} to become {wanted}")
        if wanted == scan.schema.dtype:
            return type(self)(scan.source, scan.view, scan.schema.stype) if copy else self
        return self._mapped(Cast(wanted))

    def clip(
        self, min: Self | ArrayLike | None = None, max: Self | ArrayLike | None = None, out: Any = None
    ) -> Self | NDArray[Any]:
        """Return the cells limited to the interval from ``min`` to ``max``, lazily; the fill too.

        Parameters
        ----------
        min, max
            Numbers, or arrays or tensors that broadcast to limits of each cell; None for no limit.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

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
        if any(isinstance(limit, list | tuple | Operators) or np.ndim(limit) for limit in (min, max)):  # type: ignore[arg-type]
            low = self if min is None else self._cells(np.maximum, self, min)
            return into(out, low if max is None else self._cells(np.minimum, low, max), "clip")  # type: ignore[no-any-return]
        low, high = (limit[()] if isinstance(limit, np.ndarray) else limit for limit in (min, max))
        return into(out, self._mapped(Clip(low, high)), "clip")  # type: ignore[no-any-return]

    def round(self, decimals: int = 0, out: Any = None) -> Self:
        """Return the cells rounded to a number of decimals, lazily.

        Parameters
        ----------
        decimals
            How many; negative ones count to the left of the point.
        out
            An array or a tensor of the result's shape to write to, which is returned then.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([0.25, 0.0, 1.75]).round(1).to_numpy()
        array([0.2, 0. , 1.8])
        """
        return into(out, self._mapped(Round(as_integer(decimals, "decimals"))), "round")  # type: ignore[no-any-return]

    def __round__(self, ndigits: int | None = None) -> Self:
        return self.round(ndigits or 0)

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


def _operand(operand: Any) -> Any:
    """Return an operand as a scan, an array or a scalar.

    Raises
    ------
    UnsupportedError
        If it is none of these.
    """
    if isinstance(operand, Operators) or is_foreign_sparse(operand):
        return as_scan(operand)
    if isinstance(operand, list | tuple):
        try:
            operand = np.asarray(operand)
        except ValueError as error:
            raise UnsupportedError(f"{operand!r} is no operand: {error}") from None
    if not is_operand(operand) or (isinstance(operand, np.ndarray) and operand.dtype.kind not in "biufc"):
        raise UnsupportedError(f"{type(operand).__name__} {operand!r} is no operand: use tensors, arrays and numbers")
    return operand


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write the cells of one to the other, which keeps its dtype, fill and storage type."""
    if where is not True or casting != "same_kind":
        raise UnsupportedError("np.copyto to or from a tensor takes no casting= and no where=: dst[mask] = src[mask]")
    given = src if hasattr(src, "dtype") else np.asarray(src)
    into(dst, given if np.shape(given) == dst.shape else np.broadcast_to(given, dst.shape), "np.copyto")


def _giving_way(operation: Callable[..., Any], reflected: str) -> Callable[..., Any]:
    """Return an operator that leaves an operand of a class of its own, which has the reflected one, its turn."""

    def call(self: Operators, other: Any) -> Any:
        if not is_operand(other) and type(other).__module__ != "builtins":
            own = getattr(type(other), reflected, None)
            if own is not None and own is not getattr(object, reflected, None):
                return NotImplemented
        return operation(self, other)

    return call


def _in_place(operation: Callable[..., Any], plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return an operator in place: what can be written to is, of anything else the result is another tensor."""

    def call(self: Operators, other: Any) -> Any:
        if self._handle is not None and not self._taken.points:
            return operation(self, other)
        found = plain(self, other)
        return found if found is NotImplemented else kept(self, found, name)

    return call


def _of_cells(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Return the product of cells, which refuses factors whose class means another product."""

    def call(self: Operators, other: Any) -> Any:
        reject_matrix_star(other)
        return operation(self, other)

    return call


_REFLECTED = {
    "lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne",
    **{name: f"r{name}" for name in (
        "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "xor",
        "or",
    )},
}  # fmt: skip
for _name in ("__mul__", "__rmul__", "__imul__"):
    setattr(Operators, _name, _of_cells(getattr(Operators, _name)))
for _name, _other in _REFLECTED.items():
    _plain = _giving_way(getattr(Operators, f"__{_name}__"), f"__{_other}__")
    setattr(Operators, f"__{_name}__", _plain)
    if hasattr(Operators, f"__i{_name}__"):
        _written = _giving_way(getattr(Operators, f"__i{_name}__"), f"__{_other}__")
        setattr(Operators, f"__i{_name}__", _in_place(_written, _plain, f"{_name} in place"))


Operators._functions.update(
    NUMPY
    | {
        np.copyto: _copyto,
        np.real: lambda val: val.real,
        np.imag: lambda val: val.imag,
        np.shape: lambda a: a.shape,
        np.ndim: lambda a: a.ndim,
        np.transpose: lambda a, axes=None: a.transpose() if axes is None else a.transpose(axes),
    }
)
