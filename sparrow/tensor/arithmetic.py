"""Python's operators as calls of NumPy's ufuncs.

``numpy.lib.mixins.NDArrayOperatorsMixin`` does the same, but a class that inherits from it makes completion in a
notebook (``A.t`` + Tab) parse NumPy's stubs, 15,000 lines: completion follows the bases of a class to their source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Arithmetic"]

_Unary: TypeAlias = Callable[[Any], Any]
_Binary: TypeAlias = Callable[[Any, Any], Any]


def _unary(function: np.ufunc, name: str) -> _Unary:
    def method(self: Any) -> Any:
        return function(self)

    method.__name__ = f"__{name}__"
    return method


def _binary(function: Callable[..., Any], name: str) -> _Binary:
    """Return a binary method that yields to classes with ``__array_ufunc__ = None``."""

    def method(self: Any, other: Any) -> Any:
        return NotImplemented if _declines_ufuncs(other) else function(self, other)

    method.__name__ = f"__{name}__"
    return method


def _comparison(function: np.ufunc, name: str) -> _Binary:
    """Return ``==`` or ``!=``; no element equals None."""
    compare = _binary(function, name)

    def method(self: Any, other: Any) -> Any:
        if other is None:
            return np.logical_and(self, False) if function is np.equal else np.logical_or(self, True)
        return compare(self, other)

    method.__name__ = f"__{name}__"
    return method


def _numeric(function: np.ufunc, name: str) -> tuple[_Binary, _Binary, _Binary]:
    """Return the operator, the reflected operator and the operator in place."""

    def reflected_operator(self: Any, other: Any) -> Any:
        return function(other, self)

    def in_place(self: Any, other: Any) -> Any:
        return function(self, other, out=(self,))

    in_place.__name__ = f"__i{name}__"
    return _binary(function, name), _binary(reflected_operator, f"r{name}"), in_place


def _declines_ufuncs(other: Any) -> bool:
    return getattr(other, "__array_ufunc__", True) is None


class Arithmetic:
    """Operators that call ufuncs, and with them ``__array_ufunc__``."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    __lt__ = _binary(np.less, "lt")
    __le__ = _binary(np.less_equal, "le")
    __eq__ = _comparison(np.equal, "eq")
    __ne__ = _comparison(np.not_equal, "ne")
    __gt__ = _binary(np.greater, "gt")
    __ge__ = _binary(np.greater_equal, "ge")
    __add__, __radd__, __iadd__ = _numeric(np.add, "add")
    __sub__, __rsub__, __isub__ = _numeric(np.subtract, "sub")
    __mul__, __rmul__, __imul__ = _numeric(np.multiply, "mul")
    __matmul__, __rmatmul__, __imatmul__ = _numeric(np.matmul, "matmul")
    __truediv__, __rtruediv__, __itruediv__ = _numeric(np.true_divide, "truediv")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _numeric(np.floor_divide, "floordiv")
    __mod__, __rmod__, __imod__ = _numeric(np.remainder, "mod")
    __pow__, __rpow__, __ipow__ = _numeric(np.power, "pow")
    __lshift__, __rlshift__, __ilshift__ = _numeric(np.left_shift, "lshift")
    __rshift__, __rrshift__, __irshift__ = _numeric(np.right_shift, "rshift")
    __and__, __rand__, __iand__ = _numeric(np.bitwise_and, "and")
    __xor__, __rxor__, __ixor__ = _numeric(np.bitwise_xor, "xor")
    __or__, __ror__, __ior__ = _numeric(np.bitwise_or, "or")
    __divmod__, __rdivmod__ = _numeric(np.divmod, "divmod")[:2]
    __neg__ = _unary(np.negative, "neg")
    __pos__ = _unary(np.positive, "pos")
    __abs__ = _unary(np.absolute, "abs")
    __invert__ = _unary(np.invert, "invert")
