"""Pool of page buffers reused for large results.

The system zeroes new pages on first write, which takes as long as writing them. The pool therefore keeps the pages of
large arrays that were garbage-collected, up to a share of the memory limit, for the next results. The system may
reclaim them at any time (``MADV_FREE``), reservations evict them, and small memory limits disable the pool.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.runtime import settings
from sparrow.runtime.tuning import tuning

__all__ = ["Buffer", "ScratchPool", "cached_bytes", "isolate", "release"]

_HUGE_PAGE_BYTES = 1 << 21


class Buffer:
    """Uninitialized array, truncated once its final length is known.

    Parameters
    ----------
    count
        Upper bound on the length. Elements that are never written take no memory.
    dtype
        Dtype of the array.
    scratch
        Pool of a temporary buffer; None for a result.

    Examples
    --------
    >>> import numpy as np
    >>> buffer = Buffer(10**6, np.dtype(np.float64))
    >>> buffer.array[:3] = 1, 2, 3
    >>> buffer.truncate(3)
    array([1., 2., 3.])
    """

    def __init__(self, count: int, dtype: np.dtype[Any], scratch: ScratchPool | None = None) -> None:
        self.count, self._dtype, self._scratch = count, dtype, scratch
        self._pages: _Pages | None = None
        self._array: NDArray[Any] | None = None

    @property
    def array(self) -> NDArray[Any]:
        """All ``count`` elements, allocated on first access."""
        if self._array is None:
            nbytes = self.count * self._dtype.itemsize
            if nbytes < tuning().pooled_min_bytes or not _is_enabled():
                self._array = np.empty(self.count, self._dtype)
            else:
                scratch = self._scratch
                self._pages = _acquire(nbytes) if scratch is None else scratch.acquire(nbytes)
                recycle = _recycle if scratch is None else scratch.recycle
                self._array = np.frombuffer(_lend(self._pages, recycle), self._dtype, self.count)
        return self._array

    def grow(self, count: int, used: int) -> Buffer:
        """Return a buffer of ``count`` elements with the first ``used`` ones copied."""
        grown = Buffer(count, self._dtype)
        if self._array is not None:
            grown.array[:used] = self._array[:used]
        return grown

    def truncate(self, count: int) -> NDArray[Any]:
        """Return the first ``count`` elements and free the others.

        Scratch buffers keep all their pages.
        """
        array, self._array = self.array, None
        if self._pages is not None:
            if self._scratch is None:
                self._pages.truncate(count * array.itemsize)
            return array[:count]
        if count < len(array):
            array.resize(count, refcheck=False)  # in place: the tail was never written
        return array


class ScratchPool:
    """Pages of temporary arrays, reused until one computation ends.

    Otherwise threads return them to the system after every allocation, which zeroes them again.
    """

    def __init__(self) -> None:
        self._free: deque[_Pages] = deque()

    def acquire(self, nbytes: int) -> _Pages:
        """Return pages of at least ``nbytes`` bytes.

        Prefer the most recently used pages of a similar size to new ones.
        """
        for _ in range(len(self._free)):
            try:
                pages = self._free.pop()
            except IndexError:  # another thread took the last pages
                break
            if nbytes <= pages.size <= tuning().pooled_max_ratio * nbytes:
                return pages
            self._free.appendleft(pages)
        return _acquire(nbytes)

    def recycle(self, pages: _Pages) -> None:
        """Add pages that no array uses."""
        self._free.append(pages)

    def __del__(self) -> None:
        free = getattr(self, "_free", ())  # there is none if Ctrl-C came before
        while free:
            _recycle(free.pop())


class _Pages:
    """Anonymous memory mapping."""

    __slots__ = ("mapping", "size", "written")

    def __init__(self, size: int) -> None:
        self.mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # the system has no huge pages
            self.mapping.madvise(mmap.MADV_HUGEPAGE)
        self.size = self.written = size
        """Bytes mapped, and bytes from the start that may have been written."""

    def truncate(self, nbytes: int) -> None:
        """Return the pages beyond ``nbytes`` to the system."""
        stop = min(_round_up(nbytes, _HUGE_PAGE_BYTES), self.size)
        if stop < self.size:
            self.mapping.madvise(mmap.MADV_DONTNEED, stop, self.size - stop)
        self.written = stop


class _FreeList:
    """Free pages, the least recently used first."""

    def __init__(self) -> None:
        self.pages: list[_Pages] = []
        self.nbytes = 0
        self.lock = threading.Lock()

    def remove(self, pages: _Pages) -> None:
        self.pages.remove(pages)
        self.nbytes -= pages.written

    def evict(self, max_bytes: int) -> None:
        """Free least recently used pages beyond ``max_bytes``; requires the lock."""
        while self.nbytes > max_bytes:
            self.remove(self.pages[0])


_free_list = _FreeList()


def cached_bytes() -> int:
    """Return the bytes of free pages in the pool."""
    return _free_list.nbytes


def release(max_bytes: int = 0) -> None:
    """Unmap free pages until at most ``max_bytes`` are left.

    The least recently used pages go first.
    """
    with _free_list.lock:
        _free_list.evict(max_bytes)


@contextmanager
def isolate() -> Iterator[None]:
    """Use an empty pool within the block; for single-threaded tests."""
    global _free_list
    before, _free_list = _free_list, _FreeList()
    try:
        yield
    finally:
        _free_list = before


def _round_up(nbytes: int, page: int) -> int:
    return -(-nbytes // page) * page


def _is_enabled() -> bool:
    return sys.platform == "linux" and settings.current().has_ample_memory


def _acquire(nbytes: int) -> _Pages:
    """Return the smallest fitting free pages, or new ones."""
    size = _round_up(nbytes, mmap.PAGESIZE)
    with _free_list.lock:
        fitting = [pages for pages in _free_list.pages if size <= pages.size <= tuning().pooled_max_ratio * size]
        if fitting:
            pages = min(fitting, key=lambda candidate: candidate.size)
            _free_list.remove(pages)
            return pages
    with suppress(OSError):
        return _Pages(size)
    release()
    try:
        return _Pages(size)
    except OSError as error:
        raise MemoryError(f"cannot allocate {nbytes} bytes") from error


def _lend(pages: _Pages, recycle: Callable[[_Pages], None]) -> Any:
    """Return a buffer over pages that recycles them once no array refers to it."""
    pages.written = pages.size
    owner = (ctypes.c_char * pages.size).from_buffer(pages.mapping)
    weakref.finalize(owner, recycle, pages).atexit = False
    return owner


def _recycle(pages: _Pages) -> None:
    max_bytes = int(settings.current().memory_limit / tuning().pool_parts)
    if not 0 < pages.written <= max_bytes or not _is_enabled():
        return
    try:
        pages.mapping.madvise(mmap.MADV_FREE, 0, pages.written)  # until the next write the system may reclaim them
    except OSError:  # without MADV_FREE the pages are unmapped
        return
    if not _free_list.lock.acquire(blocking=False):  # a finalizer may run in the thread that holds the lock
        return
    try:
        _free_list.pages.append(pages)
        _free_list.nbytes += pages.written
        _free_list.evict(max_bytes)
    finally:
        _free_list.lock.release()


def _after_fork() -> None:
    """Start with an empty pool; a thread of the parent may hold the lock."""
    global _free_list
    _free_list = _FreeList()


os.register_at_fork(after_in_child=_after_fork)
