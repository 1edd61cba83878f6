"""Operators of SciPy's sparse arrays with a tensor on the right: they leave it to the tensor, and nothing is dense.

``S @ A`` and its kin make an array of whatever they do not know, and give way to its class only where NumPy cannot make
one, which NumPy tells by an array of one object. So that is what their question gets; any other asks for the cells.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import UnsupportedError

__all__ = ["is_called_by_operator", "reject_matrix_star", "wrap_operand"]

_OPERATORS = {"_matmul_dispatch", "_multiply_2d_with_broadcasting", "multiply", "_divide", "_comparison"}


def is_called_by_operator(caller: FrameType) -> bool:
    """Return whether an operator of a sparse array asks for the array that an operand is."""
    if caller.f_code.co_name not in _OPERATORS:
        return False
    return str(caller.f_globals.get("__name__", "")).startswith("scipy.sparse.")


def wrap_operand(operand: Any) -> NDArray[Any]:
    """Return an array without dimensions that holds an operand as an object."""
    found = np.empty((), object)
    found[()] = operand
    return found


def reject_matrix_star(operand: Any) -> None:
    """Raise ``UnsupportedError`` for a factor of ``*`` whose class means the product of matrices by it."""
    module = sys.modules.get("scipy.sparse")
    if module is not None and module.isspmatrix(operand):
        raise UnsupportedError(
            f"* of a tensor and a {type(operand).__name__}, to which it is the product of matrices: say @, or "
            "np.multiply for that of cells"
        )
