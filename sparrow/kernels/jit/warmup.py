"""Compiling: how arrays are handed to loops, and the word that loops are being compiled.

The first time that a machine runs them takes seconds, without a bar.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow.runtime import progress

__all__ = ["as_readonly", "warn_compiling"]

T = TypeVar("T", bound=np.generic)


@functools.cache
def warn_compiling() -> None:
    """Have a line on standard error when this process first compiles a loop, where progress is shown."""
    from sparrow.kernels.jit.compiler import event

    class Compiling(event.Listener):
        """Told of every function that Numba compiles; not of those that it finds compiled."""

        told = False

        def on_start(self, what: Any) -> None:
            if not self.told and what.data["dispatcher"].py_func.__module__.startswith("sparrow."):
                self.told = progress.write_line("compiling loops for the first use: this takes some seconds, once")

        def on_end(self, what: Any) -> None:
            pass

    event.register("numba:compile", Compiling())  # type: ignore[no-untyped-call]


def as_readonly(array: NDArray[T]) -> NDArray[T]:
    """Return a contiguous read-only array of the same entries: one type for Numba wherever they come from."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view
