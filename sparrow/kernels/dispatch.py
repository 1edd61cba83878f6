"""Dispatch between NumPy and compiled loops: one policy for all kernels.

NumPy is as fast as a compiled loop for small inputs. For larger ones it bridges the time until loading pays: importing
Numba takes 0.3 s, loading a further kernel up to 0.1 s, and compiling one that is not cached 2 s. NumPy and kernels
give the same bits, so the choice shows in time only.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable

from sparrow.kernels.tuning import dispatch

__all__ = ["is_jit_loaded", "prefer_numpy"]

_done: dict[Hashable, float] = {}
"""Work that NumPy has done in place of each kernel, infinite once it is loaded.

Threads may lose updates, which affects speed but not results.
"""


def is_jit_loaded() -> bool:
    """Return whether the process has imported Numba."""
    return "numba" in sys.modules


def prefer_numpy(kernel: Hashable, work: int) -> bool:
    """Return whether NumPy should do some work in place of a kernel.

    It should where it is as fast, and until all that it has done in place of this kernel takes as long as loading it.
    Once this returns False, the kernel counts as loaded.

    Parameters
    ----------
    kernel
        Identity of the kernel: a name, or a tuple with the semiring and dtype that it is compiled for.
    work
        Elements that NumPy would process, at about 20 ns each.

    Examples
    --------
    >>> from sparrow.kernels.dispatch import prefer_numpy
    >>> prefer_numpy("example", 10), prefer_numpy("example", 1 << 40)
    (True, False)
    """
    current = dispatch()
    if current.forced is not None:
        return bool(current.forced == "numpy")
    if work <= current.small_work:
        return True
    done = _done.get(kernel, 0) + work
    is_deferred = done <= current.load_work
    _done[kernel] = done if is_deferred else math.inf
    return is_deferred
