"""The accountant of the memory limit: what runs at once in the process shares one limit.

Whatever gathers a result in memory reserves room for it and gives the room back when the result is handed to the
caller, whose arrays do not count. A buffer that can be of any size takes a share of what is free, and says what it
holds. One place, :func:`too_large`, words the error.

Room depends on what else runs. What decides the order of a float sum, and so its bits, is cut by :func:`limit`, but
for whether there is room for the quicker of two ways: what else holds memory may be told by last digits there.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from sparrow.errors import TooLargeError
from sparrow.runtime import buffer_pool, settings
from sparrow.runtime.progress import format_quantity

__all__ = [
    "Reservation",
    "available",
    "check",
    "entry_bytes",
    "isolated",
    "limit",
    "reserve",
    "share",
    "too_large",
    "trim",
    "working_bytes",
]

_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
"""That of glibc; others have none."""
_LIBRARIES = 120_000_000
"""Of the limit, for libraries: they take 300 MB, of which 200 MB may lie beside the limit, and 20 MB stay free."""
_LEAST_WORKING = 30_000_000
"""Where the limit leaves less, so much is worked in all the same."""


def entry_bytes(schema: Any, wide: bool = False) -> int:
    """Return ``schema.element_bytes(wide)``, until all callers use that."""
    size: int = schema.element_bytes(wide)
    return size


def limit() -> int:
    """Return the memory limit in force, in bytes."""
    return settings.current().memory_limit


def working_bytes() -> int:
    """Return the bytes to work in where the process is to stay within the limit and 200 MB, libraries included."""
    return max(limit() - _LIBRARIES, min(limit(), _LEAST_WORKING))


def available() -> int:
    """Return the bytes of the limit that nothing has reserved."""
    return max(settings.current().memory_limit - _ledger.settled(), 0)


def share(parts: float, least: int = 0, beside: int = 0) -> int:
    """Return the bytes that a buffer may take: one of so many equal parts of what is free.

    Parameters
    ----------
    least
        What it takes in any case, however little is free.
    beside
        Bytes that are in use though nobody reserved them.
    """
    return max(int((available() - beside) / parts), least)


def trim() -> None:
    """Give what is free within the process back to the system, where the limit is small and allocators keep it.

    For the ends of the stages of long work, so that what one leaves is not added to what the next one takes.
    """
    if settings.current().ample:
        return
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.default_memory_pool().release_unused()
    if _malloc_trim is not None:
        _malloc_trim(0)


def check(nbytes: int, what: str | Callable[[], str], remedy: str = "take a smaller view") -> None:
    """Check that there is room for something that is made at once and handed to the caller.

    What it is may be a function, which is called where it is told.

    Raises
    ------
    TooLargeError
        If ``nbytes`` is more than is free, worded by :func:`too_large`.
    """
    if nbytes > available():
        raise too_large(what() if callable(what) else what, nbytes, remedy)


def reserve(nbytes: int, what: str, remedy: str = "take a smaller view") -> Reservation:
    """Reserve room until the result is released, or until the end of its block as a context manager.

    Raises
    ------
    TooLargeError
        If ``nbytes`` is more than is free, worded by :func:`too_large`.

    Examples
    --------
    >>> with reserve(1000, "the dense array") as room:
    ...     room.grow(500)
    ...     room.nbytes
    1500
    """
    room = Reservation(what, remedy)
    if nbytes:
        room.grow(nbytes)
    return room


def too_large(what: str, nbytes: int | None, remedy: str, room: int | None = None) -> TooLargeError:
    """Return the error for something that does not fit, and the way out.

    Parameters
    ----------
    what
        What it is: the beginning of a sentence.
    nbytes
        What it takes; None where that is not known.
    remedy
        The way out beside a larger limit, an imperative; may be empty.
    room
        What it may take, where that is less than what is free of the limit.
    """
    return _error(what, nbytes, remedy, room, _ledger.settled())


def _error(
    what: str, nbytes: int | None, remedy: str, room: int | None, others: int, grown: bool = False
) -> TooLargeError:
    takes = "more than" if nbytes is None else f"{'at least ' if grown else ''}{_size(nbytes)}, beyond"
    part = "" if room is None else f"{_size(room)}, its share of "
    beside = f", of which {_size(others)} are taken by what runs at the same time" if others else ""
    way = f"{remedy}, or raise" if remedy else "raise"
    return TooLargeError(
        f"{what} would take {takes} {part}the memory limit of {_size(limit())}{beside}: "
        f"{way} the limit with sp.config(memory_limit=...)"
    )


def _size(nbytes: int) -> str:
    return f"{nbytes} bytes" if nbytes < 10_000 else f"{format_quantity(nbytes, 'bytes')} ({nbytes} bytes)"


class Reservation:
    """Room of the limit that something takes. Several threads may change it."""

    __slots__ = ("_ledger", "nbytes", "remedy", "what")

    def __init__(self, what: str, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        self.nbytes = 0
        """What is reserved."""
        self._ledger = _ledger

    def grow(self, nbytes: int) -> None:
        """Reserve so much more.

        Raises
        ------
        TooLargeError
            If it is not free; what is reserved stays.
        """
        most = limit()
        with self._ledger.lock:
            if self._ledger.settled() + nbytes <= most:
                self._ledger.reserved += nbytes
                self.nbytes += nbytes
                self._ledger.make_room()
                return
            others = self._ledger.reserved - self.nbytes
        raise _error(self.what, self.nbytes + nbytes, self.remedy, None, others, grown=self.nbytes > 0)

    def hold(self, nbytes: int) -> None:
        """Say what a buffer now takes, which keeps to its :func:`share` by itself."""
        with self._ledger.lock:
            self._ledger.settled()
            self._ledger.reserved += nbytes - self.nbytes
            self.nbytes = nbytes
            self._ledger.make_room()

    def release(self) -> None:
        """Give the room back; once more does nothing."""
        self.hold(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        if self.nbytes:  # wherever it is collected, whoever holds a lock there: none is taken
            self._ledger.collected.append(self.nbytes)


class _Ledger:
    """What all reservations of the process come to."""

    def __init__(self) -> None:
        self.reserved = 0
        self.collected: deque[int] = deque()
        """What reservations had that were collected before they were released."""
        self.lock = threading.RLock()

    def settled(self) -> int:
        """Return what is reserved, after what was collected is taken off."""
        if self.collected:
            with self.lock:
                while self.collected:
                    self.reserved -= self.collected.popleft()
        return self.reserved

    def make_room(self) -> None:
        """Give up what is kept of earlier results where that is reserved."""
        if buffer_pool.cached_bytes():
            buffer_pool.release(max(limit() - self.reserved, 0))


_ledger = _Ledger()


@contextmanager
def isolated() -> Iterator[None]:
    """Account for reservations made within the block alone, as in a new process. For tests; not for threads."""
    global _ledger
    before, _ledger = _ledger, _Ledger()
    try:
        yield
    finally:
        _ledger = before


def _after_fork() -> None:
    """Begin anew: what others reserved in the parent is never given back here."""
    global _ledger
    _ledger = _Ledger()


os.register_at_fork(after_in_child=_after_fork)
