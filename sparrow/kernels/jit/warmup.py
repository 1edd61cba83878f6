"""Arguments of kernels."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_readonly"]

T = TypeVar("T", bound=np.generic)


def as_readonly(array: NDArray[T]) -> NDArray[T]:
    """Return a contiguous read-only view or copy.

    Numba types arrays by layout and writability; one type means one compilation.
    """
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view
