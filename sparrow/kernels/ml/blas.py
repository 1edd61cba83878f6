"""BLAS and LAPACK calls from kernels, through the addresses that SciPy exports.

Addresses are arguments of kernels. As globals they would be compiled in, and the kernel could not be cached, since
addresses differ between processes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sparrow.kernels.jit.compiler import cgutils, get_cython_function_address, intrinsic, ir, types

__all__ = ["address", "fortran"]

_tools: Any = cgutils


@cache
def address(name: str) -> int:
    """Return the address of a routine of BLAS or LAPACK, such as ``"sgemm"``."""
    library = "scipy.linalg.cython_lapack" if name[1:].startswith("po") else "scipy.linalg.cython_blas"
    found: int = get_cython_function_address(library, name)
    return found


def _fortran_call(context: Any, routine: Any, arguments: Any) -> Any:
    """Call a Fortran routine by its address.

    ``fortran(routine, (uint8("N"), n, alpha, array, ...))`` passes all arguments by reference: bytes as characters,
    integers as 32-bit integers, floats unchanged, arrays as the address of their first element.
    """

    def generate(target: Any, builder: Any, signature: Any, given: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        passed = []
        for kind, value in zip(arguments.types, _tools.unpack_tuple(builder, given[1]), strict=True):
            if isinstance(kind, types.Array):
                place = target.make_array(kind)(target, builder, value).data
            else:
                if isinstance(value.type, ir.IntType) and value.type.width == 64:
                    value = builder.trunc(value, ir.IntType(32))
                place = _tools.alloca_once_value(builder, value)
            passed.append(builder.bitcast(place, pointer))
        function = ir.FunctionType(ir.VoidType(), [pointer] * len(passed)).as_pointer()
        builder.call(builder.inttoptr(given[0], function), passed)
        return target.get_dummy_value()

    return types.void(routine, arguments), generate


fortran: Any = intrinsic(_fortran_call)
