"""Worker threads: one pool per process, with results in the order of the items.

Nested calls of :func:`ordered_map` on a worker run serially on that worker. So ``threads=2`` means two busy threads
however deep calls nest, and no worker ever waits for another.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from sparrow.runtime import settings
from sparrow.runtime.threads import BackgroundThread, Pool, Waiters

__all__ = ["background_thread", "is_abandoned", "isolate", "ordered_map", "worker_local"]

T = TypeVar("T")
R = TypeVar("R")

_thread = threading.local()
"""``job``: the job that this worker serves; ``own``: namespace of :func:`worker_local` on other threads."""


def ordered_map(
    work: Callable[[T], R], items: Iterable[T], threads: int, ahead: int | None = None, busy: bool = False
) -> Iterator[R]:
    """Yield ``work(item)`` for each item, in order, computed by ``threads`` threads.

    An exception of ``work`` or ``items`` is raised at its place in the order. Closing the iterator drops items that
    have not started and waits for those that run. Workers inherit the caller's settings. On a worker, with one thread,
    or for a list of one item, each item is computed lazily on the calling thread.

    Parameters
    ----------
    work
        Called on workers, or on the calling thread if all workers serve other iterators.
    items
        Consumed on the calling thread.
    threads
        Number of threads.
    ahead
        Maximal number of items consumed beyond the last result yielded, which bounds memory; by default
        ``threads + 1``.
    busy
        Whether the caller computes as much between results as a worker does, and so counts as one of the threads.
    """
    if threads <= 1 or (isinstance(items, list) and len(items) < 2) or _job() is not None:
        for item in items:
            yield work(item)
        return
    ahead = threads + 1 if ahead is None else ahead
    job = _Job(work, threads, busy)
    pending: deque[_Task[T, R]] = deque()
    source = iter(items)
    failure: Exception | None = None
    try:
        while failure is None:
            try:
                item = next(source)
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - raised below, after the results of earlier items
                failure = error
                break
            pending.append(job.add(item))
            if len(pending) >= ahead:
                yield job.result(pending.popleft())
        while pending:
            yield job.result(pending.popleft())
        if failure is not None:
            raise failure
    finally:
        job.close()


def is_abandoned() -> bool:
    """Return whether the iterator that this worker serves was closed.

    Long tasks poll it to end early.
    """
    job = _job()
    return job is not None and job.closed


def worker_local() -> SimpleNamespace:
    """Return a thread-local namespace.

    On a worker it lives as long as the iterator that the worker serves. Threads of other libraries, such as DuckDB's
    that pull an Arrow stream, get a new namespace per call: Python clears thread locals while such a thread is torn
    down, and closing a pyarrow file then crashes the process.
    """
    job = _job()
    if job is not None:
        return job.namespace()
    if isinstance(threading.current_thread(), threading._DummyThread):
        return SimpleNamespace()
    if not hasattr(_thread, "own"):
        _thread.own = SimpleNamespace()
    own: SimpleNamespace = _thread.own
    return own


def background_thread(name: str) -> BackgroundThread | None:
    """Return a background thread, or None if only one thread is allowed."""
    return BackgroundThread(name) if settings.current().threads > 1 and _job() is None else None


class _Task(Generic[T, R]):
    """One item and its result."""

    __slots__ = ("context", "done", "error", "item", "result")

    def __init__(self, item: T) -> None:
        self.item = item
        self.context = copy_context()
        self.done = False
        self.error: BaseException | None = None
        self.result: R

    def run(self, work: Callable[[T], R]) -> None:
        try:
            self.result = self.context.run(work, self.item)
        except BaseException as error:  # noqa: BLE001 - raised by _Job.result
            self.error = error


class _Job(Generic[T, R]):
    """Items of one iterator, started in order.

    So the awaited item starts before all others.
    """

    def __init__(self, work: Callable[[T], R], threads: int, busy: bool) -> None:
        self.threads = threads
        self._busy = busy
        self._awaited: _Task[T, R] | None = None
        """Task that the caller waits for."""
        self.closed = False
        self._work = work
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._waiters = Waiters()
        self._waiting: deque[_Task[T, R]] = deque()
        self._workers = 0
        """Number of workers that serve the job or were asked to."""
        self._running = 0
        self._caller_works = 0
        """1 while the caller computes an item itself."""
        self._own: dict[int, SimpleNamespace] = {}
        self._spare: list[SimpleNamespace] = []
        """Namespaces of workers that left, for the next ones: the pool may have more threads than the job."""

    def add(self, item: T) -> _Task[T, R]:
        """Enqueue an item and return its task."""
        self._check_process()
        task: _Task[T, R] = _Task(item)
        with self._lock:
            self._waiting.append(task)
        self._request_worker()
        return task

    def result(self, task: _Task[T, R]) -> R:
        """Return the result of an item, computed here if no worker has started it."""
        self._check_process()
        with self._lock:
            self._awaited = None if task.done else task
            if self._waiting and self._waiting[0] is task:
                self._waiting.popleft()
                self._caller_works = 1
        if self._caller_works:
            before, _thread.job = _job(), self
            try:
                task.run(self._work)
            finally:
                _thread.job = before
                self._caller_works, self._awaited = 0, None
            self._request_worker()
        else:
            if self._busy and not task.done:
                self._request_worker()
            self._waiters.wait_until(lambda: task.done)
        if task.error is not None:
            try:
                raise task.error
            finally:
                task.error = None  # its traceback refers to this frame: break the cycle
        return task.result

    def close(self) -> None:
        """Drop items that have not started and wait for those that run."""
        self.closed = True
        if os.getpid() != self._pid:
            return  # the workers belong to the parent process
        with self._lock:
            self._waiting.clear()
        self._waiters.wait_until(lambda: not self._running)
        self._own.clear()
        self._spare.clear()
        del self._work  # a worker about to leave the job must not keep the caller's objects alive

    def serve(self) -> None:
        """Compute items until the queue is empty; runs on a worker."""
        _thread.job = self
        try:
            while True:
                with self._lock:
                    if not self._waiting or self._running >= self._max_workers():
                        self._workers -= 1
                        if (own := self._own.pop(threading.get_ident(), None)) is not None:
                            self._spare.append(own)
                        return
                    task = self._waiting.popleft()
                    self._running += 1
                task.run(self._work)
                with self._lock:
                    task.done = True
                    self._running -= 1
                    awaited = self._awaited is task
                    if awaited:
                        self._awaited = None
                    del task
                    if awaited or self.closed:
                        self._waiters.notify()
        finally:
            _thread.job = None

    def namespace(self) -> SimpleNamespace:
        """Return the namespace of this thread for the job."""
        thread = threading.get_ident()
        if (own := self._own.get(thread)) is None:
            with self._lock:
                own = self._own[thread] = self._spare.pop() if self._spare else SimpleNamespace()
        return own

    def _max_workers(self) -> int:
        """Return the maximal number of workers; a busy caller counts as one."""
        return self.threads - (self._caller_works or int(self._busy and self._awaited is None))

    def _request_worker(self) -> None:
        """Request one more worker if there is work for it."""
        with self._lock:
            if not self._waiting or self._workers >= self._max_workers():
                return
            self._workers += 1
        if not _start(self):
            with self._lock:
                self._workers -= 1

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("iterator was created before a fork: create another one in the child process")


def _job() -> _Job[Any, Any] | None:
    return getattr(_thread, "job", None)


# -- the pool ------------------------------------------------------------------------------------

_lock = threading.Lock()
_pool: Pool | None = None
_size = 0


def _start(job: _Job[Any, Any]) -> bool:
    """Submit a job to the pool; return False if no thread can be started."""
    global _pool, _size
    with _lock:
        if _pool is None or _pool.is_shut_down or _size < job.threads:
            if _pool is not None:
                _pool.shutdown(wait=False)  # its threads finish their pending work
            _pool, _size = Pool(job.threads, "sparrow-worker"), job.threads
        try:
            _pool.submit(job.serve)
        except RuntimeError:  # interpreter shutdown, or no more threads
            return False
    return True


@contextmanager
def isolate() -> Iterator[None]:
    """Use a new pool within the block; for single-threaded tests."""
    global _pool, _size
    before = _pool, _size
    _pool, _size = None, 0
    try:
        yield
    finally:
        if _pool is not None:
            _pool.shutdown()
        _pool, _size = before


def _after_fork() -> None:
    """Forget the threads of the parent process."""
    global _lock, _pool, _size
    _lock, _pool, _size = threading.Lock(), None, 0
    _thread.job = None


os.register_at_fork(after_in_child=_after_fork)
