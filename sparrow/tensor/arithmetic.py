"""Python's operators by NumPy's functions of cells.

``numpy.lib.mixins`` has the same. Who inherits from it has NumPy's stubs read, 15,000 lines, when somebody completes
``A.t`` in a notebook: completion follows the bases of a class to their source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Arithmetic"]

_One: TypeAlias = Callable[[Any], Any]
_Two: TypeAlias = Callable[[Any, Any], Any]


def _one(function: np.ufunc, name: str) -> _One:
    """Return a method that is a function of this operand."""

    def method(self: Any) -> Any:
        return function(self)

    method.__name__ = f"__{name}__"
    return method


def _two(function: Callable[..., Any], name: str) -> _Two:
    """Return a method that is a function of this operand and another, which may decline NumPy's functions."""

    def method(self: Any, other: Any) -> Any:
        return NotImplemented if _declines(other) else function(self, other)

    method.__name__ = f"__{name}__"
    return method


def _three(function: np.ufunc, name: str) -> tuple[_Two, _Two, _Two]:
    """Return the methods of an operator: with this operand on its left, on its right, and written to."""

    def right(self: Any, other: Any) -> Any:
        return function(other, self)

    def written(self: Any, other: Any) -> Any:
        return function(self, other, out=(self,))

    written.__name__ = f"__i{name}__"
    return _two(function, name), _two(right, f"r{name}"), written


def _declines(other: Any) -> bool:
    """Return whether the class of an operand says that NumPy's functions are not for it."""
    return getattr(other, "__array_ufunc__", True) is None


class Arithmetic:
    """The operators of Python, as ``__array_ufunc__`` takes them."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    __lt__ = _two(np.less, "lt")
    __le__ = _two(np.less_equal, "le")
    __eq__ = _two(np.equal, "eq")
    __ne__ = _two(np.not_equal, "ne")
    __gt__ = _two(np.greater, "gt")
    __ge__ = _two(np.greater_equal, "ge")
    __add__, __radd__, __iadd__ = _three(np.add, "add")
    __sub__, __rsub__, __isub__ = _three(np.subtract, "sub")
    __mul__, __rmul__, __imul__ = _three(np.multiply, "mul")
    __matmul__, __rmatmul__, __imatmul__ = _three(np.matmul, "matmul")
    __truediv__, __rtruediv__, __itruediv__ = _three(np.true_divide, "truediv")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _three(np.floor_divide, "floordiv")
    __mod__, __rmod__, __imod__ = _three(np.remainder, "mod")
    __pow__, __rpow__, __ipow__ = _three(np.power, "pow")
    __lshift__, __rlshift__, __ilshift__ = _three(np.left_shift, "lshift")
    __rshift__, __rrshift__, __irshift__ = _three(np.right_shift, "rshift")
    __and__, __rand__, __iand__ = _three(np.bitwise_and, "and")
    __xor__, __rxor__, __ixor__ = _three(np.bitwise_xor, "xor")
    __or__, __ror__, __ior__ = _three(np.bitwise_or, "or")
    __divmod__, __rdivmod__ = _three(np.divmod, "divmod")[:2]
    __neg__ = _one(np.negative, "neg")
    __pos__ = _one(np.positive, "pos")
    __abs__ = _one(np.absolute, "abs")
    __invert__ = _one(np.invert, "invert")
