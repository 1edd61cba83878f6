"""LLVM intrinsics that Numba lacks: prefetch, cttz, min, max, call by address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import cgutils, intrinsic, ir, register_jitable, types

__all__ = [
    "BINARY_SEARCH_RATIO",
    "call_address",
    "count_trailing_zeros",
    "lower_bound",
    "maximum",
    "minimum",
    "prefetch",
]

_ONE = np.uint64(1)
BINARY_SEARCH_RATIO = np.uint64(8)
"""Length ratio of two sorted rows from which binary search beats a merge."""


def _cttz(context: Any, word: Any) -> Any:
    """Count the trailing zero bits of a word."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


def _call(context: Any, where: Any, a: Any, b: Any) -> Any:
    """Call a compiled binary function by its address."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        convention, numbers = target.call_conv, (a, a)
        kind = convention.get_function_type(a, numbers).as_pointer()
        function = builder.inttoptr(arguments[0], kind)
        status, value = convention.call_function(builder, function, a, numbers, arguments[1:])
        unlikely: Any = cgutils.if_unlikely
        with unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return value

    return a(types.uint64, a, a), generate


def _prefetch(context: Any, array: Any, position: Any) -> Any:
    """Prefetch an array element into the cache; the position is not bounds-checked."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        where = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(fetch, [where, *(ir.Constant(number, setting) for setting in (0, 3, 1))])
        return target.get_dummy_value()

    return types.void(array, position), generate


def _select(less: str) -> Callable[..., Any]:
    """Build NumPy's min or max: the second of equals, NaN if either is NaN.

    Selecting the stored value would compile to a masked store, which is many times slower than a plain one on some
    processors, so the mask of a NaN is OR-ed into the bits of the result instead.
    """

    def build(context: Any, number: Any, other: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            number, other = arguments[0], target.cast(builder, arguments[1], signature.args[1], kind)
            if kind not in types.real_domain:
                compare = builder.icmp_signed if kind in types.signed_domain else builder.icmp_unsigned
                return builder.select(compare(less, number, other), number, other)
            word = ir.IntType(kind.bitwidth)
            found = builder.bitcast(builder.select(builder.fcmp_ordered(less, number, other), number, other), word)
            none = builder.sext(builder.fcmp_unordered("uno", number, number), word)
            return builder.bitcast(builder.or_(found, none), number.type)

        return number(number, other), generate

    return build


count_trailing_zeros: Any = intrinsic(_cttz)
prefetch: Any = intrinsic(_prefetch)
call_address: Any = intrinsic(_call)
minimum: Any = intrinsic(_select("<"))
maximum: Any = intrinsic(_select(">"))


def _lower_bound(number, numbers, low, high):  # type: ignore[no-untyped-def]
    """Return the first position in [low, high) of a number not smaller, else high."""
    while low < high:
        middle = (low + high) >> _ONE
        if numbers[middle] < number:
            low = middle + _ONE
        else:
            high = middle
    return low


lower_bound: Any = register_jitable(_lower_bound)
