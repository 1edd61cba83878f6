"""Counters of requests to object stores, for ``explain(analyze=True)``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Traffic", "count_request", "count_traffic"]


class Traffic:
    """Number of requests to object stores, and the bytes they returned."""

    def __init__(self) -> None:
        self.requests = self.nbytes = 0
        self._lock = threading.Lock()

    def add(self, nbytes: int = 0) -> None:
        """Count a request."""
        with self._lock:
            self.requests += 1
            self.nbytes += nbytes


_counters: ContextVar[tuple[Traffic, ...]] = ContextVar("sparrow_traffic", default=())


@contextmanager
def count_traffic() -> Iterator[Traffic]:
    """Count the requests of this thread and its workers in a block.

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
