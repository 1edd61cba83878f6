"""Arguments of kernels, and the notice that kernels are being compiled."""

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
    """Print a notice when this process first compiles a kernel, if progress is shown."""
    from sparrow.kernels.jit.compiler import event

    class Compiling(event.Listener):
        """Listener for compilations; cached functions do not trigger it."""

        noticed = False

        def on_start(self, what: Any) -> None:
            if not self.noticed and what.data["dispatcher"].py_func.__module__.startswith("sparrow."):
                self.noticed = progress.write_line("compiling kernels on first use, which takes a few seconds once")

        def on_end(self, what: Any) -> None:
            pass

    event.register("numba:compile", Compiling())  # type: ignore[no-untyped-call]


def as_readonly(array: NDArray[T]) -> NDArray[T]:
    """Return a contiguous read-only view or copy.

    Numba types arrays by layout and writability; one type means one compilation.
    """
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view
