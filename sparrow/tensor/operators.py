"""Tensors as operands: operators, ufuncs, NumPy's functions and casts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sparrow import engines
from sparrow.core.schema import Schema, as_integer, check_dtype
from sparrow.errors import IndexingError, InvalidValueError, SingularError, SparrowError, UnsupportedError
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.interop.labelled_objects import is_pandas, is_polars
from sparrow.interop.scipy_operators import decline_compiled_call, reject_matrix_star
from sparrow.interop.tuning import tuning
from sparrow.plan import Cast, Clip, Round, make_map
from sparrow.runtime.validation import check_unmasked
from sparrow.tensor.arithmetic import Arithmetic
from sparrow.tensor.base import as_scan
from sparrow.tensor.matching import contracted_axes, label_operands, reject_frame, reject_other_labels
from sparrow.tensor.products import as_explicit_scan
from sparrow.tensor.reductions import Reductions
from sparrow.tensor.ufuncs import apply_ufunc, cast_in_place, find_numpy_function, is_operand, write_out

__all__ = ["Operators"]


def _is_large_broadcast(schema: Schema, operands: Sequence[Any]) -> bool:
    """Return whether far smaller arrays would make a large array of a tensor."""
    nbytes = schema.size * schema.dtype.itemsize
    if nbytes <= tuning().silent_dense_bytes:
        return False
    arrays = sum(operand.nbytes for operand in operands if isinstance(operand, np.ndarray))
    return arrays * tuning().warn_expansion <= nbytes


class Operators(Reductions, Arithmetic):
    """Operators and ufuncs of a tensor, lazy wherever the result is sparse.

    Functions apply to the fill value too; only in products with arrays does an absent element of fill 0 annihilate.
    """

    __slots__ = ()
    __pandas_priority__ = 5000  # above that of frames, 4000

    def _elementwise(self, function: Callable[..., Any], *operands: Any) -> Any:
        """Return an element-wise function, an array if nothing stays sparse."""
        given = [_as_operand(operand) for operand in operands]
        node = make_map(function, given)
        if node.is_dense and _is_large_broadcast(node.schema, given):
            lazy = [as_explicit_scan(each) if isinstance(each, np.ndarray) and each.ndim else each for each in given]
            node = make_map(function, lazy)
        return engines.evaluate_dense(node) if node.is_dense else self._from_node(node)

    def _map_values(self, function: Callable[..., Any]) -> Self:
        """Return an element-wise function of this tensor alone, lazily."""
        return self._from_node(make_map(function, [self.__sparrow_scan__()]))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __rmatmul__(self, other: Any) -> Any:
        given, _ = label_operands((other, self))
        return np.matmul(self._convert_foreign(given), self)  # type: ignore[call-overload]

    @property
    def _numba_type_(self) -> NoReturn:
        """Raise: Numba asks for this type of arguments.

        ``S @ A`` of pydata/sparse passes a tensor to a compiled function, and yields to the tensor's own product if
        that is not implemented.
        """
        decline_compiled_call(sys._getframe(1))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return apply_ufunc(self, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        own = find_numpy_function(func)
        if own is None:
            module = func.__module__.replace("numpy", "np", 1)
            raise UnsupportedError(
                f"{module}.{func.__name__} is not supported on sparse tensors: look for a method or a function of "
                "sparrow, or use A.to_numpy() if it fits in memory"
            )
        for operand in (*args, *kwargs.values()):
            check_unmasked(operand)
        try:
            given = label_operands((*args, *kwargs.values()))
            return own(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))
        except SparrowError:
            raise
        except np.linalg.LinAlgError as error:
            if "Singular" in str(error):
                raise SingularError(f"np.linalg.{func.__name__}: {error}") from error
            raise
        except (TypeError, ValueError, IndexError) as error:  # of NumPy, where it does a part of the work
            kinds = ((TypeError, UnsupportedError), (ValueError, InvalidValueError), (IndexError, IndexingError))
            kind = next(own for theirs, own in kinds if isinstance(error, theirs))
            raise kind(f"np.{func.__name__}: {error}") from error

    def __pow__(self, other: Any) -> Any:
        # NumPy's operator squares booleans as int8, np.power does not.
        return np.square(self) if self.dtype == bool and type(other) is int and other == 2 else super().__pow__(other)

    def astype(self, dtype: DTypeLike, *, casting: Any = "unsafe", copy: bool = False) -> Self:
        """Return the tensor cast to another dtype, lazily.

        Elements that become equal to the fill value are not stored.

        Parameters
        ----------
        dtype
            Any numeric dtype of NumPy.
        casting
            Casts allowed, by NumPy's rules: "unsafe" for any, "same_kind", "safe", "equiv" or "no".
        copy
            Return a new, lazy and read-only tensor even if the dtype is the same; by default the tensor itself.

        Returns
        -------
        Tensor

        Raises
        ------
        UnsupportedError
            If tensors do not support the dtype, or ``casting`` does not allow the cast.
        InvalidValueError
            If ``casting`` is unknown.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[0.5, 0.0], [0.0, -2.0]]).astype("int64")
        <Tensor (d0: 2, d1: 2) int64 nnz=? coo lazy>
        """
        wanted = check_dtype(dtype)
        scan = self.__sparrow_scan__()
        if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
            raise InvalidValueError(f"casting must be 'no', 'equiv', 'safe', 'same_kind' or 'unsafe', got {casting!r}")
        if not np.can_cast(scan.schema.dtype, wanted, casting):
            raise UnsupportedError(f"casting={casting!r} does not allow a cast from {scan.schema.dtype} to {wanted}")
        if wanted == scan.schema.dtype:
            return type(self)(scan.source, scan.view, scan.schema.stype) if copy else self
        return self._map_values(Cast(wanted))

    def clip(
        self, min: Self | ArrayLike | None = None, max: Self | ArrayLike | None = None, out: Any = None
    ) -> Self | NDArray[Any]:
        """Limit the elements, and the fill value, to an interval.

        Parameters
        ----------
        min, max
            Numbers, or arrays or tensors that broadcast to the shape; None for no limit.
        out
            Array or tensor of the result's shape to write the result to.

        Returns
        -------
        Tensor or ndarray
            Lazy; an array, at once, if a limit is one.

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
            low = self if min is None else self._elementwise(np.maximum, self, min)
            return write_out(out, low if max is None else self._elementwise(np.minimum, low, max), "clip")  # type: ignore[no-any-return]
        low, high = (limit[()] if isinstance(limit, np.ndarray) else limit for limit in (min, max))
        return write_out(out, self._map_values(Clip(low, high)), "clip")  # type: ignore[no-any-return]

    def round(self, decimals: int = 0, out: Any = None) -> Self:
        """Round the elements to a number of decimals, lazily.

        Parameters
        ----------
        decimals
            Number of decimals; negative numbers count to the left of the point.
        out
            Array or tensor of the result's shape to write the result to.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([0.25, 0.0, 1.75]).round(1).to_numpy()
        array([0.2, 0. , 1.8])
        """
        return write_out(out, self._map_values(Round(as_integer(decimals, "decimals"))), "round")  # type: ignore[no-any-return]

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
        return self if self.dtype == bool else self._map_values(np.conjugate)

    @property
    def real(self) -> Self:
        """The real parts, lazily."""
        return self._map_values(np.real)

    @property
    def imag(self) -> Self:
        """The imaginary parts, lazily."""
        return self._map_values(np.imag)


def _as_operand(operand: Any) -> Any:
    """Return an operand as a scan, an array or a scalar."""
    if isinstance(operand, Operators) or is_foreign_sparse(operand):
        return as_scan(operand)
    if isinstance(operand, list | tuple):
        try:
            operand = np.asarray(operand)
        except ValueError as error:
            raise UnsupportedError(f"{operand!r} is not an operand: {error}") from None
    reject_frame(operand)
    if not is_operand(operand) or (isinstance(operand, np.ndarray) and operand.dtype.kind not in "biufc"):
        raise UnsupportedError(
            f"{type(operand).__name__} {operand!r} is not an operand: use tensors, arrays and numbers"
        )
    return operand


def _defer_to_reflected(operation: Callable[..., Any], reflected: str, writes: bool = False) -> Callable[..., Any]:
    """Return an operator that yields to the reflected one of foreign classes.

    The operators of pandas yield to those of tensors, which leave only operators that write to the others.
    """

    def call(self: Operators, other: Any) -> Any:
        if not is_operand(other) and type(other).__module__ != "builtins" and not is_polars(other):
            own = getattr(type(other), reflected, None)
            if own is not None and own is not getattr(object, reflected, None):
                if reflected == "__rmatmul__":
                    reject_other_labels(self, other, contracted_axes(self, other, True))
                    return NotImplemented
                if not is_pandas(other) or (writes and self.ndim <= getattr(other, "ndim", 0)):
                    reject_other_labels(self, other)
                    return NotImplemented
        return operation(self, other)

    return call


def _in_place(operation: Callable[..., Any], binary: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return an operator in place; on read-only tensors it returns a new one."""

    def call(self: Operators, other: Any) -> Any:
        if self._handle is not None and not self._initial_view.points:
            return operation(self, other)
        found = binary(self, other)
        return found if found is NotImplemented else cast_in_place(self, found, name)

    return call


def _elementwise_star(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Return the operator ``*``, which rejects matrix classes."""

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
    setattr(Operators, _name, _elementwise_star(getattr(Operators, _name)))
for _name, _other in _REFLECTED.items():
    _binary = _defer_to_reflected(getattr(Operators, f"__{_name}__"), f"__{_other}__")
    setattr(Operators, f"__{_name}__", _binary)
    if hasattr(Operators, f"__i{_name}__"):
        _written = _defer_to_reflected(getattr(Operators, f"__i{_name}__"), f"__{_other}__", writes=True)
        setattr(Operators, f"__i{_name}__", _in_place(_written, _binary, f"{_name} in place"))
