"""Counters of requests and files, for ``explain(analyze=True)``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Traffic", "count_files", "count_request", "count_traffic", "is_counting"]


class Traffic:
    """Number of requests to object stores, and the bytes they returned.

    Attributes
    ----------
    requests, nbytes
        Requests to object stores, and the bytes they returned.
    bytes_read, bytes_written
        Compressed bytes of row groups that were read, and of files that were written, wherever they are.
    """

    def __init__(self) -> None:
        self.requests = self.nbytes = self.bytes_read = self.bytes_written = 0
        self._lock = threading.Lock()

    def add(self, nbytes: int = 0) -> None:
        """Count a request."""
        with self._lock:
            self.requests += 1
            self.nbytes += nbytes

    def add_files(self, read: int, written: int) -> None:
        """Count bytes of files."""
        with self._lock:
            self.bytes_read += read
            self.bytes_written += written


_counters: ContextVar[tuple[Traffic, ...]] = ContextVar("sparrow_traffic", default=())


@contextmanager
def count_traffic() -> Iterator[Traffic]:
    """Count the requests and files of this thread and its workers in a block.

    Reads of logs are not counted.
    """
    traffic = Traffic()
    _counters.set((*_counters.get(), traffic))
    try:
        yield traffic
    finally:  # no token: a generator may end in another context than it began in
        _counters.set(tuple(each for each in _counters.get() if each is not traffic))


def count_request(nbytes: int = 0) -> None:
    """Count a request in every enclosing :func:`count_traffic` block."""
    for traffic in _counters.get():
        traffic.add(nbytes)


def is_counting() -> bool:
    """Return whether this thread is in a :func:`count_traffic` block."""
    return bool(_counters.get())


def count_files(*, read: int = 0, written: int = 0) -> None:
    """Count bytes of files in every enclosing :func:`count_traffic` block."""
    for traffic in _counters.get():
        traffic.add_files(read, written)
