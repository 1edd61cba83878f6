"""Operators and block functions of SciPy and pydata/sparse with tensors.

``S @ A`` converts an unknown operand to an array, and defers to the operand's class only if NumPy cannot: it returns an
object array of one element then. So these operators get such an array; any other caller gets the dense one.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import UnsupportedError

__all__ = [
    "decline_compiled_call", "is_called_by_operator", "is_called_by_stack", "reject_matrix_star", "wrap_operand",
]  # fmt: skip

_NUMBA_FRAMES = 16
"""Frames between pydata/sparse and Numba's question for a type, at most."""
_STACKS = {"_block", "block_array", "bmat", "hstack", "vstack"}
_OPERATORS = {"_matmul_dispatch", "_multiply_2d_with_broadcasting", "multiply", "_divide", "_comparison"}


def is_called_by_operator(caller: FrameType) -> bool:
    """Return whether an operator of SciPy's sparse arrays asks for the array.

    Raises
    ------
    UnsupportedError
        If it is the method ``multiply``, which has no reflected one to leave the product to.
    """
    if caller.f_code.co_name not in _OPERATORS or not _is_scipy(caller):
        return False
    outermost = caller
    while outermost.f_back is not None and _is_scipy(outermost.f_back):
        outermost = outermost.f_back
    if outermost.f_code.co_name == "multiply":
        raise UnsupportedError(
            "operands of the method multiply of SciPy must be arrays, got a tensor: use np.multiply(S, A), "
            "or S.multiply(A.to_scipy())"
        )
    return True


def _is_scipy(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("scipy.sparse.")


def wrap_operand(operand: Any) -> NDArray[Any]:
    """Return a 0-dimensional object array that holds an operand."""
    found = np.empty((), object)
    found[()] = operand
    return found


def is_called_by_stack(caller: FrameType) -> bool:
    """Return whether a block function of SciPy asks for the array.

    It makes an object array of its blocks, and would take the elements of tensors for blocks.
    """
    return caller.f_code.co_name in _STACKS and caller.f_globals.get("__name__") == "scipy.sparse._construct"


def decline_compiled_call(caller: FrameType | None) -> NoReturn:
    """Raise ``NotImplementedError`` within a product of pydata/sparse.

    Raise ``AttributeError`` elsewhere.
    """
    for _ in range(_NUMBA_FRAMES):
        if caller is not None and str(caller.f_globals.get("__name__", "")).startswith("sparse."):
            raise NotImplementedError("pydata/sparse cannot multiply a tensor: use the operator @, or sp.matmul")
        caller = None if caller is None else caller.f_back
    raise AttributeError("tensors have no type of Numba")


def reject_matrix_star(operand: Any) -> None:
    """Raise ``UnsupportedError`` for a SciPy matrix, whose ``*`` means matmul."""
    module = sys.modules.get("scipy.sparse")
    if module is not None and module.isspmatrix(operand):
        raise UnsupportedError(
            f"* is ambiguous for a tensor and a {type(operand).__name__}, which means the matrix product by it: use @, "
            "or np.multiply for the element-wise product"
        )
