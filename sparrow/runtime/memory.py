"""Memory budget: reservations against the memory limit of the process.

Code that materializes a result reserves memory for it and releases the reservation when the result reaches the caller,
whose arrays do not count. Buffers of flexible size take a share of the available memory. Caches reserve what they keep
and are evicted before a reservation is refused. :func:`too_large` words the error.

Available memory depends on what else runs. Whatever decides the order of a float sum, and hence its bits, must depend
on :func:`limit` alone, except for the choice between algorithms that may round differently anyway.
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
from typing import Self

from sparrow.errors import TooLargeError
from sparrow.runtime import buffer_pool, settings
from sparrow.runtime.progress import format_quantity
from sparrow.runtime.tuning import tuning

__all__ = [
    "Reservation", "add_cache", "available", "check", "isolate", "limit", "reserve", "reuse_freed_memory", "share",
    "too_large", "trim", "working_bytes",
]  # fmt: skip

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_malloc_trim, _mallopt = getattr(_libc, "malloc_trim", None), getattr(_libc, "mallopt", None)
"""Functions of glibc; None with other C libraries."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of ``mallopt``."""


def limit() -> int:
    """Return the memory limit in force, in bytes."""
    return settings.current().memory_limit


def working_bytes() -> int:
    """Return the memory limit less the memory of libraries, in bytes.

    A process that keeps to it exceeds the limit by at most 200 MB.
    """
    return max(limit() - tuning().library_bytes, min(limit(), tuning().min_working_bytes))


def available() -> int:
    """Return the bytes of the limit that are not reserved."""
    return max(settings.current().memory_limit - _ledger.reserved_bytes(), 0)


def share(parts: float, minimum: int = 0, unreserved: int = 0) -> int:
    """Return a share of the available memory, 1 part in ``parts``, in bytes.

    Parameters
    ----------
    minimum
        Lower bound of the result, even if less is available.
    unreserved
        Bytes in use without a reservation.
    """
    return max(int((available() - unreserved) / parts), minimum)


def trim() -> None:
    """Return free memory of the allocators to the system if the limit is small.

    Called between stages of long operations, so that the peaks of two stages do not add up.
    """
    if settings.current().has_ample_memory:
        return
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.default_memory_pool().release_unused()
    if _malloc_trim is not None:
        _malloc_trim(0)


@contextmanager
def reuse_freed_memory() -> Iterator[None]:
    """Let glibc keep freed arrays for the next ones within the block.

    Dask sets ``MALLOC_TRIM_THRESHOLD_`` for its workers. Each freed array then goes to the system, which clears the
    pages of the next one: a sum or a save takes twice the CPU time.
    """
    if _mallopt is None or _malloc_trim is None or "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        yield
        return
    _mallopt(_M_TRIM_THRESHOLD, 2**30)
    _mallopt(_M_MMAP_THRESHOLD, 2**25)  # the most that glibc takes
    try:
        yield
    finally:
        _malloc_trim(0)


def check(nbytes: int, what: str | Callable[[], str], remedy: str = "take a smaller view") -> None:
    """Check that memory is available for a result that is returned immediately.

    Parameters
    ----------
    what
        What is allocated, or a function that returns it for the error.

    Raises
    ------
    TooLargeError
        If ``nbytes`` exceeds the available memory; see :func:`too_large`.
    """
    missing = nbytes - available()
    if missing > 0 and not _evict(missing):
        raise too_large(what() if callable(what) else what, nbytes, remedy)


def add_cache(evict: Callable[[int], bool]) -> None:
    """Register a cache that gives way to reservations.

    Parameters
    ----------
    evict
        Releases at least ``nbytes``, its argument, of what the cache reserved, or nothing if it has less; returns
        whether it did. Any thread calls it, possibly while that holds locks: it must not reserve memory.
    """
    _caches.append(evict)


_caches: list[Callable[[int], bool]] = []


def _evict(nbytes: int) -> bool:
    """Evict ``nbytes`` of cached memory; return whether a cache had them."""
    return any(evict(nbytes) for evict in _caches)


def reserve(nbytes: int, what: str, remedy: str = "take a smaller view") -> Reservation:
    """Reserve memory until the reservation is released.

    As a context manager it is released at the end of the block.

    Raises
    ------
    TooLargeError
        If ``nbytes`` exceeds the available memory; see :func:`too_large`.

    Examples
    --------
    >>> with reserve(1000, "the dense array") as reservation:
    ...     reservation.grow(500)
    ...     reservation.nbytes
    1500
    """
    reservation = Reservation(what, remedy)
    if nbytes:
        reservation.grow(nbytes)
    return reservation


def too_large(what: str, nbytes: int | None, remedy: str, room: int | None = None) -> TooLargeError:
    """Return the error for something that exceeds the memory limit.

    Parameters
    ----------
    what
        What is allocated: the beginning of a sentence.
    nbytes
        Its size; None if unknown.
    remedy
        The alternative to a larger limit, an imperative; may be empty.
    room
        Bytes that it may occupy, if less than the available memory.
    """
    return _error(what, nbytes, remedy, room, _ledger.reserved_bytes())


def _error(
    what: str, nbytes: int | None, remedy: str, room: int | None, others: int, is_partial: bool = False
) -> TooLargeError:
    amount = "more than" if nbytes is None else f"{'at least ' if is_partial else ''}{_size(nbytes)}, beyond"
    part = "" if room is None else f"{_size(room)}, its share of "
    reserved = f", of which {_size(others)} are reserved by concurrent operations" if others else ""
    advice = f"{remedy}, or raise" if remedy else "raise"
    return TooLargeError(
        f"{what} would take {amount} {part}the memory limit of {_size(limit())}{reserved}: "
        f"{advice} the limit with sp.config(memory_limit=...)"
    )


def _size(nbytes: int) -> str:
    return f"{nbytes} bytes" if nbytes < 10_000 else f"{format_quantity(nbytes, 'bytes')} ({nbytes} bytes)"


class Reservation:
    """Reserved bytes of the memory limit. Thread-safe."""

    __slots__ = ("_ledger", "nbytes", "remedy", "what")

    def __init__(self, what: str, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        self.nbytes = 0
        """Bytes reserved."""
        self._ledger = _ledger

    def grow(self, nbytes: int) -> None:
        """Reserve ``nbytes`` more.

        Raises
        ------
        TooLargeError
            If they are not available; the reservation is unchanged.
        """
        maximum = limit()
        missing = self._ledger.reserved_bytes() + nbytes - maximum
        if missing > 0:
            _evict(missing)
        with self._ledger.lock:
            if self._ledger.reserved_bytes() + nbytes <= maximum:
                self._ledger.reserved += nbytes
                self.nbytes += nbytes
                self._ledger.evict_pool()
                return
            others = self._ledger.reserved - self.nbytes
        raise _error(self.what, self.nbytes + nbytes, self.remedy, None, others, is_partial=self.nbytes > 0)

    def resize(self, nbytes: int) -> None:
        """Set the size without a check, for buffers that keep to their :func:`share`."""
        with self._ledger.lock:
            self._ledger.reserved_bytes()
            self._ledger.reserved += nbytes - self.nbytes
            self.nbytes = nbytes
            self._ledger.evict_pool()

    def release(self) -> None:
        """Release the memory; idempotent."""
        self.resize(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        nbytes = getattr(self, "nbytes", 0)  # there is none if Ctrl-C came before
        if nbytes:  # finalizers run in any thread, so they must not take the lock
            self._ledger.collected.append(nbytes)


class _Ledger:
    """Sum of all reservations of the process."""

    def __init__(self) -> None:
        self.reserved = 0
        self.collected: deque[int] = deque()
        """Sizes of reservations that were garbage-collected before their release."""
        self.lock = threading.RLock()

    def reserved_bytes(self) -> int:
        """Return the reserved bytes, less those of collected reservations."""
        if self.collected:
            with self.lock:
                while self.collected:
                    self.reserved -= self.collected.popleft()
        return self.reserved

    def evict_pool(self) -> None:
        """Shrink the buffer pool to the available memory."""
        if buffer_pool.cached_bytes():
            buffer_pool.release(max(limit() - self.reserved, 0))


_ledger = _Ledger()


@contextmanager
def isolate() -> Iterator[None]:
    """Ignore earlier reservations within the block; for single-threaded tests."""
    global _ledger
    before, _ledger = _ledger, _Ledger()
    try:
        yield
    finally:
        _ledger = before


def _after_fork() -> None:
    """Start a new ledger: the child never releases reservations of the parent."""
    global _ledger
    _ledger = _Ledger()


os.register_at_fork(after_in_child=_after_fork)
