"""Ordered work on threads: results come in the order of the items, whatever the number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["ordered_map"]

T = TypeVar("T")
R = TypeVar("R")


def ordered_map(work: Callable[[T], R], items: Iterable[T], threads: int, ahead: int | None = None) -> Iterator[R]:
    """Yield ``work(item)`` for each item, in order, worked on by ``threads`` threads.

    At most ``ahead`` items (default ``threads + 1``) are taken beyond the one whose result was
    last yielded, which bounds memory. An exception of ``work`` or of ``items`` is raised at its
    place in the order; closing the iterator abandons what has not started.
    """
    if threads <= 1:
        for item in items:
            yield work(item)
        return
    ahead = threads + 1 if ahead is None else ahead
    pool = ThreadPoolExecutor(threads, thread_name_prefix="sparrow")
    pending: deque[Future[R]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) >= ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        pool.shutdown(wait=True, cancel_futures=True)
