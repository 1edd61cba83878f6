"""What loops ask of the processor that Numba has no word for, and what several of them do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import cgutils, intrinsic, ir, register_jitable, types

__all__ = ["SEARCHED", "at_address", "least", "most", "place_of", "prefetch", "trailing"]

_ONE = np.uint64(1)
SEARCHED = np.uint64(8)
"""How many times longer a row is, ascending, than what is looked for in it, where to search takes less than to walk."""


def _count_zeros(context: Any, word: Any) -> Any:
    """Return how many low bits of a word are 0."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


def _call_address(context: Any, where: Any, a: Any, b: Any) -> Any:
    """Call a compiled function of two numbers that stands at an address."""

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


def _touch(context: Any, array: Any, position: Any) -> Any:
    """Have an entry of an array fetched into the cache, if it is one: positions are not checked."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        where = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(fetch, [where, *(ir.Constant(number, setting) for setting in (0, 3, 1))])
        return target.get_dummy_value()

    return types.void(array, position), generate


def _nearest(less: str) -> Callable[..., Any]:
    """Return what gives one of two numbers, the second one if they are equal, and NaN if either is one, as NumPy does.

    Of a choice of what stands in a cell LLVM makes a store under a mask, which takes many times as long as a plain one
    on some processors. So a NaN in the cell is not chosen: its mask is added to what is.
    """

    def typed(context: Any, number: Any, other: Any) -> Any:
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

    return typed


trailing: Any = intrinsic(_count_zeros)
prefetch: Any = intrinsic(_touch)
at_address: Any = intrinsic(_call_address)
least: Any = intrinsic(_nearest("<"))
most: Any = intrinsic(_nearest(">"))


def _bisect(number, numbers, low, high):  # type: ignore[no-untyped-def]
    """Return the first place from ``low`` on, unsigned, where an ascending number is no less; ``high`` if none is."""
    while low < high:
        middle = (low + high) >> _ONE
        if numbers[middle] < number:
            low = middle + _ONE
        else:
            high = middle
    return low


place_of: Any = register_jitable(_bisect)
