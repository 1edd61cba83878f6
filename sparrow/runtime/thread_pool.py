"""The threads of the process that work: one pool, and results in the order of the items whatever its size.

What runs on a worker never asks the pool for another one: :func:`ordered_map` there works on its own thread. So
``threads=2`` means two working threads however deep calls nest, and no worker waits for another.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from sparrow.runtime import settings

__all__ = [
    "BackgroundThread",
    "DetachedTask",
    "Pool",
    "background_thread",
    "is_abandoned",
    "ordered_map",
    "worker_local",
]

T = TypeVar("T")
R = TypeVar("R")

_here = threading.local()
"""``job``: the job that this worker thread serves; ``own``: what :func:`worker_local` returns in other threads."""


def ordered_map(
    work: Callable[[T], R], items: Iterable[T], threads: int, ahead: int | None = None, busy: bool = False
) -> Iterator[R]:
    """Yield ``work(item)`` for each item, in order, worked on by ``threads`` threads.

    At most ``ahead`` items (default ``threads + 1``) are taken beyond the one whose result was
    last yielded, which bounds memory. An exception of ``work`` or of ``items`` is raised at its
    place in the order; closing the iterator abandons what has not started and waits for what runs.
    The settings of whoever asks for a result travel to the workers. On a worker, and where
    ``threads`` is 1 or a list has one item, each is worked on when its result is asked for.

    Parameters
    ----------
    work
        Called on workers; on the thread of the caller where all workers are busy for others.
    items
        Taken on the thread of the caller.
    busy
        The caller works as hard between results as workers do, and counts as one of the threads then.
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
            except Exception as error:  # noqa: BLE001 - raised below, behind the results of the items before
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
    """Return whether nobody waits any more for what this thread works on: long work looks now and then, and ends."""
    job = _job()
    return job is not None and job.closed


def worker_local() -> SimpleNamespace:
    """Return a place for things of this thread's own; those of a worker are dropped with the iterator it works for.

    A thread of a library, as DuckDB's that pulls a stream of ours, gets a new place each time: Python drops what it
    kept when the thread leaves, half taken down, and a file of pyarrow that is closed then ends the process.
    """
    job = _job()
    if job is not None:
        return job.own()
    if isinstance(threading.current_thread(), threading._DummyThread):
        return SimpleNamespace()
    if not hasattr(_here, "own"):
        _here.own = SimpleNamespace()
    own: SimpleNamespace = _here.own
    return own


class Pool(ThreadPoolExecutor):
    """Threads that end with the process, wherever Ctrl-C came in between."""

    ended = False
    """Whether it takes no more work: another one is needed."""

    def submit(self, work: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Return the future result of ``work``.

        Ctrl-C while a thread starts leaves one that the executor does not know and would never end: so all of them do,
        after what they were given.
        """
        try:
            return super().submit(work, *args, **kwargs)
        except KeyboardInterrupt:
            self.ended = True
            self.shutdown(wait=False)
            raise


class BackgroundThread(Pool):
    """A thread beside the caller's, for work in the order in which it is submitted; the settings travel to it."""

    def __init__(self, name: str) -> None:
        super().__init__(1, name)

    def submit(self, work: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Return the future result of ``work``."""
        return super().submit(copy_context().run, work, *args, **kwargs)


class DetachedTask(Generic[R]):
    """Work on a thread of its own, which the end of the process does not wait for.

    Ctrl-C may come at any place of the thread that waits. Futures and conditions take their locks in Python, where it
    can come between a lock and what gives it back, and the other side waits for ever: this waits for a bare lock.
    """

    def __init__(self, work: Callable[[], R], name: str) -> None:
        self._work, self._name = work, name
        self._ended = threading.Lock()
        self._ended.acquire()
        self._begun = self._dropped = False
        self._error: BaseException | None = None
        self._result: R
        self.done = False

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=copy_context().run, args=(self._run,), name=self._name, daemon=True).start()

    def _run(self) -> None:
        self._begun = True
        try:
            if not self._dropped:
                self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._error = error
        self.done = True
        self._ended.release()

    def wait(self, seconds: float) -> None:
        """Wait until it is done, at most so long."""
        if not self.done:
            self._ended.acquire(timeout=seconds)

    def drop(self) -> bool:
        """Let work that has not begun never begin; return whether none is going on."""
        self._dropped = True
        return self.done or not self._begun

    def result(self) -> R:
        """Return what the work that is done returned, or raise what it raised."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback holds this frame: no cycle
        return self._result


def background_thread(name: str) -> BackgroundThread | None:
    """Return a thread for what may go on beside the caller, None where that would pass the threads of the settings."""
    return BackgroundThread(name) if settings.current().threads > 1 and _job() is None else None


class _Task(Generic[T, R]):
    """One item."""

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
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self.error = error


class _Job(Generic[T, R]):
    """The items of one iterator. They start in their order, so the one that is waited for starts before all others."""

    def __init__(self, work: Callable[[T], R], threads: int, busy: bool) -> None:
        self.threads = threads
        self._busy = busy
        self._wanted: _Task[T, R] | None = None
        """What the caller waits for."""
        self.closed = False
        self._work = work
        self._pid = os.getpid()
        self._lock = threading.RLock()
        """Taken by itself, not by the condition: Ctrl-C within what that does in Python would leave it taken."""
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[_Task[T, R]] = deque()
        self._lanes = 0
        """Workers that are at it or asked for."""
        self._running = 0
        self._helping = 0
        """1 while the caller works itself."""
        self._own: dict[int, SimpleNamespace] = {}

    def add(self, item: T) -> _Task[T, R]:
        """Take in an item."""
        self._check_process()
        task: _Task[T, R] = _Task(item)
        with self._lock:
            self._waiting.append(task)
        self._staff()
        return task

    def result(self, task: _Task[T, R]) -> R:
        """Return the result of an item; begin it here where no worker has."""
        self._check_process()
        with self._lock:
            self._wanted = None if task.done else task
            if self._waiting and self._waiting[0] is task:
                self._waiting.popleft()
                self._helping = 1
        if self._helping:
            before, _here.job = _job(), self
            try:
                task.run(self._work)
            finally:
                _here.job = before
                self._helping, self._wanted = 0, None
            self._staff()
        else:
            if self._busy and not task.done:
                self._staff()
            with self._lock:
                while not task.done:
                    self._changed.wait()
        if task.error is not None:
            try:
                raise task.error
            finally:
                task.error = None  # its traceback holds this frame: no cycle
        return task.result

    def close(self) -> None:
        """Drop what has not started and wait for what runs."""
        self.closed = True
        if os.getpid() != self._pid:
            return  # the workers are in the parent
        with self._lock:
            self._waiting.clear()
            while self._running:
                self._changed.wait()
        self._own.clear()
        del self._work  # a worker that is about to leave the job keeps nothing of the caller's

    def serve(self) -> None:
        """Work on items until none waits; on a worker."""
        _here.job = self
        try:
            while True:
                with self._lock:
                    if not self._waiting or self._running >= self._most():
                        self._lanes -= 1
                        return
                    task = self._waiting.popleft()
                    self._running += 1
                task.run(self._work)
                with self._lock:
                    task.done = True
                    self._running -= 1
                    awaited = self._wanted is task
                    if awaited:
                        self._wanted = None
                    del task
                    if awaited or self.closed:
                        self._changed.notify_all()
        finally:
            _here.job = None

    def own(self) -> SimpleNamespace:
        """Return what this thread keeps for the job."""
        return self._own.setdefault(threading.get_ident(), SimpleNamespace())

    def _most(self) -> int:
        """Return how many workers may be at it: a caller that works is one of the threads."""
        return self.threads - (self._helping or int(self._busy and self._wanted is None))

    def _staff(self) -> None:
        """Ask for one more worker if there is work for one."""
        with self._lock:
            if not self._waiting or self._lanes >= self._most():
                return
            self._lanes += 1
        if not _start(self):
            with self._lock:
                self._lanes -= 1

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("an iterator that was begun before a fork cannot go on in the child: begin it there")


def _job() -> _Job[Any, Any] | None:
    return getattr(_here, "job", None)


# -- the pool ------------------------------------------------------------------------------------

_lock = threading.Lock()
_pool: Pool | None = None
_size = 0


def _start(job: _Job[Any, Any]) -> bool:
    """Let a worker serve a job; return False where no thread can be had, so that the caller does the work."""
    global _pool, _size
    with _lock:
        if _pool is None or _pool.ended or _size < job.threads:
            if _pool is not None:
                _pool.shutdown(wait=False)  # its threads finish what they were given
            _pool, _size = Pool(job.threads, "sparrow-worker"), job.threads
        try:
            _pool.submit(job.serve)
        except RuntimeError:  # the interpreter ends, or the system has no more threads
            return False
    return True


def _after_fork() -> None:
    """Forget the threads of the parent."""
    global _lock, _pool, _size
    _lock, _pool, _size = threading.Lock(), None, 0
    _here.job = None


os.register_at_fork(after_in_child=_after_fork)
