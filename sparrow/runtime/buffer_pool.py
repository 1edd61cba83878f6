"""Memory of large results that nobody has any more, for the next ones to stand in.

What is new to a process the system clears, page by page, as it is first written to: that takes as long as the writing.
So memory is kept when the last array in it is gone, at most an eighth of the memory limit. The system may take it
whenever it needs some; room that is reserved comes first; and where the limit is small nothing is kept.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.runtime import settings

__all__ = ["Buffer", "ScratchPool", "cached_bytes", "release"]

_LEAST = 1 << 22
"""Bytes from which it is worth it."""
_LARGE = 1 << 21
"""Bytes of a large page: part of one is not given up."""
_PART = 8
"""Of the limit, one part is kept at most."""
_LOOSE = 4
"""How many times longer memory may be than what is to stand in it."""


class Buffer:
    """An array to write to, made longer than what comes to stand in it: what is not written to takes no memory.

    Parameters
    ----------
    count
        Its length, at most.
    dtype
        Its type.
    scratch
        Whose memory it takes, where it does not stay.

    Examples
    --------
    >>> import numpy as np
    >>> cells = Cells(10**6, np.dtype(np.float64))
    >>> cells.array[:3] = 1, 2, 3
    >>> cells.first(3)
    array([1., 2., 3.])
    """

    def __init__(self, count: int, dtype: np.dtype[Any], scratch: ScratchPool | None = None) -> None:
        self.count, self._dtype, self._scratch = count, dtype, scratch
        self._memory: _Memory | None = None
        self._array: NDArray[Any] | None = None

    @property
    def array(self) -> NDArray[Any]:
        """All of it, holding anything; made when first asked for."""
        if self._array is None:
            nbytes = self.count * self._dtype.itemsize
            if nbytes < _LEAST or not _is_ample():
                self._array = np.empty(self.count, self._dtype)
            else:
                scratch = self._scratch
                self._memory = _memory(nbytes) if scratch is None else scratch.taken(nbytes)
                back = _keep if scratch is None else scratch.give
                self._array = np.frombuffer(_lent(self._memory, back), self._dtype, self.count)
        return self._array

    def longer(self, count: int, used: int) -> Buffer:
        """Return more of them, the first ones, of which so many are in use, copied."""
        cells = Buffer(count, self._dtype)
        if self._array is not None:
            cells.array[:used] = self._array[:used]
        return cells

    def first(self, count: int) -> NDArray[Any]:
        """Return so many of them, for good: what lies beyond is given up, but of scratch."""
        array, self._array = self.array, None
        if self._memory is not None:
            if self._scratch is None:
                self._memory.end(count * array.itemsize)
            return array[:count]
        if count < len(array):
            array.resize(count, refcheck=False)  # in place: what is cut off was never written to
        return array


class ScratchPool:
    """Memory of arrays that come and go while one thing is computed: it stays written to until that is done.

    Threads that allocate as much give it back to the system each time, and have it cleared each time they ask.
    """

    def __init__(self) -> None:
        self._free: deque[_Memory] = deque()

    def taken(self, nbytes: int) -> _Memory:
        """Return memory of at least so many bytes: what was given back last, if it is about as long."""
        for _ in range(len(self._free)):
            try:
                memory = self._free.pop()
            except IndexError:  # another thread was quicker
                break
            if nbytes <= memory.size <= _LOOSE * nbytes:
                return memory
            self._free.appendleft(memory)
        return _memory(nbytes)

    def give(self, memory: _Memory) -> None:
        """Take memory back that no array stands in any more."""
        self._free.append(memory)

    def __del__(self) -> None:
        while self._free:
            _keep(self._free.pop())


class _Memory:
    """Pages of the process."""

    __slots__ = ("pages", "size", "written")

    def __init__(self, size: int) -> None:
        self.pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # a system without large pages
            self.pages.madvise(mmap.MADV_HUGEPAGE)
        self.size = self.written = size
        """Its bytes, and those from its beginning beyond which none was written."""

    def end(self, nbytes: int) -> None:
        """Give the system the pages that lie beyond some bytes."""
        stop = min(_whole(nbytes, _LARGE), self.size)
        if stop < self.size:
            self.pages.madvise(mmap.MADV_DONTNEED, stop, self.size - stop)
        self.written = stop


class _Kept:
    """Memory that nothing stands in, the longest unused first."""

    def __init__(self) -> None:
        self.all: list[_Memory] = []
        self.nbytes = 0
        self.lock = threading.Lock()

    def remove(self, memory: _Memory) -> None:
        self.all.remove(memory)
        self.nbytes -= memory.written

    def give_up(self, most: int) -> None:
        """Keep so many bytes at most; for who holds the lock."""
        while self.nbytes > most:
            self.remove(self.all[0])


_kept = _Kept()


def cached_bytes() -> int:
    """Return the bytes that are kept."""
    return _kept.nbytes


def release(most: int = 0) -> None:
    """Give the system what is kept, the longest unused first, but for so many bytes."""
    with _kept.lock:
        _kept.give_up(most)


def _whole(nbytes: int, page: int) -> int:
    return -(-nbytes // page) * page


def _is_ample() -> bool:
    return sys.platform == "linux" and settings.current().ample


def _memory(nbytes: int) -> _Memory:
    """Return memory of at least so many bytes: the smallest that is kept, or new."""
    size = _whole(nbytes, mmap.PAGESIZE)
    with _kept.lock:
        fit = [memory for memory in _kept.all if size <= memory.size <= _LOOSE * size]
        if fit:
            memory = min(fit, key=lambda one: one.size)
            _kept.remove(memory)
            return memory
    with suppress(OSError):
        return _Memory(size)
    release()
    try:
        return _Memory(size)
    except OSError as error:
        raise MemoryError(f"the system gives no {nbytes} bytes") from error


def _lent(memory: _Memory, back: Callable[[_Memory], None]) -> Any:
    """Return what arrays in memory hold on to: it is given back when the last of them is gone."""
    memory.written = memory.size
    lent = (ctypes.c_char * memory.size).from_buffer(memory.pages)
    weakref.finalize(lent, back, memory).atexit = False
    return lent


def _keep(memory: _Memory) -> None:
    most = settings.current().memory_limit // _PART
    if not 0 < memory.written <= most or not _is_ample():
        return
    try:
        memory.pages.madvise(mmap.MADV_FREE, 0, memory.written)  # the system may take them until they are written to
    except OSError:  # it cannot, so it shall have them now
        return
    if not _kept.lock.acquire(blocking=False):  # an array is collected anywhere, even by who holds it
        return
    try:
        _kept.all.append(memory)
        _kept.nbytes += memory.written
        _kept.give_up(most)
    finally:
        _kept.lock.release()


def _after_fork() -> None:
    """Begin anew: what the parent keeps is its own, and its lock may be held."""
    global _kept
    _kept = _Kept()


os.register_at_fork(after_in_child=_after_fork)
