"""Lazily computed, cached values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Once"]

T = TypeVar("T")


class Once(Generic[T]):
    """Compute a value once, whichever thread asks first; the others wait for it.

    Parameters
    ----------
    compute
        Returns the value. If it raises, the error propagates to the caller, and the next call tries again. It is
        dropped once the value is computed.

    Notes
    -----
    ``self.x = Once(self._compute_x)`` is a reference cycle until the value is computed: the bound method refers to
    ``self``. An object that is dropped before then waits for the garbage collector. Where the object owns a file or
    much memory, pass a function that does not refer to it.

    Examples
    --------
    >>> calls = []
    >>> total = Once(lambda: calls.append("computed") or sum(range(5)))
    >>> total(), total(), calls
    (10, 10, ['computed'])
    """

    __slots__ = ("_compute", "_lock", "_value")

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute: Callable[[], T] | None = compute
        self._lock = threading.RLock()

    def __call__(self) -> T:
        """Return the value, computing it on the first call."""
        if self._compute is not None:
            with self._lock:
                if self._compute is not None:
                    self._value = self._compute()
                    self._compute = None
        return self._value
