"""Threads, and ways to wait for them, that Ctrl-C cannot break.

Python raises ``KeyboardInterrupt`` on the main thread between any two instructions of Python code. Futures, conditions,
semaphores and events acquire locks in Python code, so an interrupt between acquire and release would leave the other
threads waiting for ever. Here each waiting thread has a lock of its own.
"""

from __future__ import annotations

import _thread as _thread_module
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

__all__ = ["BackgroundThread", "Channel", "DetachedTask", "Pool", "Task", "Waiters", "call_elsewhere"]

R = TypeVar("R")
T = TypeVar("T")


class Waiters:
    """Threads that wait for a change of state, which other threads announce."""

    def __init__(self) -> None:
        self._locks: list[Any] = []

    def wait_until(self, is_reached: Callable[[], bool], seconds: float = -1) -> None:
        """Wait until a state is reached.

        Parameters
        ----------
        seconds
            Waits at most as long after each change, for ever if negative.
        """
        while not is_reached():
            lock = _thread_module.allocate_lock()
            lock.acquire()
            self._locks.append(lock)
            if is_reached():  # announced before this thread was listed
                return
            if not lock.acquire(timeout=seconds):
                with suppress(ValueError):  # announced meanwhile
                    self._locks.remove(lock)
                return

    def notify(self) -> None:
        """Announce a change, after it was made."""
        with suppress(IndexError):
            while True:
                self._locks.pop().release()


class Channel(Generic[T]):
    """Items that one thread hands to another, in order.

    Parameters
    ----------
    size
        Maximal number of items that were put and not taken.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[T] = deque()
        self._waiters = Waiters()
        self._closed = False

    def put(self, item: T) -> bool:
        """Add an item when there is room; return False if the channel is closed."""
        self._waiters.wait_until(lambda: self._closed or len(self._items) < self._size)
        if not self._closed:
            self._items.append(item)
            self._waiters.notify()
        return not self._closed

    def get(self) -> T:
        """Take the next item, when there is one."""
        self._waiters.wait_until(lambda: bool(self._items))
        item = self._items.popleft()
        self._waiters.notify()
        return item

    def close(self) -> None:
        """Let the thread that puts items end."""
        self._closed = True
        self._items.clear()
        self._waiters.notify()


class Task(Generic[R]):
    """Call on another thread."""

    def __init__(self, work: Callable[[], R]) -> None:
        self._work = work
        self._waiters = Waiters()
        self._begun = self._dropped = False
        self._error: BaseException | None = None
        self._result: R
        self.done = False

    def run(self) -> None:
        """Run the call, once."""
        self._begun = True
        try:
            if not self._dropped:
                self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised by result()
            self._error = error
        del self._work
        self.done = True
        self._waiters.notify()

    def wait(self, seconds: float = -1) -> None:
        """Wait for the end of the call, at most ``seconds``, for ever if negative."""
        self._waiters.wait_until(lambda: self.done, seconds)

    def drop(self) -> bool:
        """Cancel the call if it has not started; return whether it is not running."""
        self._dropped = True
        return self.done or not self._begun

    def result(self) -> R:
        """Wait for the end of the call; return its result, or raise its error."""
        self.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # the traceback refers to this frame: break the cycle
        return self._result


class DetachedTask(Task[R]):
    """Call on a daemon thread, which the interpreter does not wait for at exit."""

    def __init__(self, work: Callable[[], R], name: str) -> None:
        super().__init__(work)
        self._name = name

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=copy_context().run, args=(self.run,), name=self._name, daemon=True).start()


class _IdleThreads(list[None]):
    """Semaphore of the idle threads of an executor, without a lock."""

    def release(self) -> None:
        self.append(None)

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take an idle thread if there is one; never waits."""
        with suppress(IndexError):
            self.pop()
            return True
        return False


class Pool:
    """Threads that run calls, started by need.

    Parameters
    ----------
    size
        Maximal number of threads.
    name
        Beginning of their names.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._executor = ThreadPoolExecutor(size, name)
        self._executor._idle_semaphore = _IdleThreads()  # type: ignore[assignment]
        self.is_shut_down = False
        """True if the pool must be replaced."""

    def submit(self, work: Callable[..., R], /, *args: Any, **kwargs: Any) -> Task[R]:
        """Submit a call and return its task.

        Ctrl-C while a thread starts would leave one that waits for the locks of its start, and the process with it when
        it exits. So the main thread lets another one start threads. Ctrl-C while it waits for that shuts the pool down
        after its pending work.
        """
        task = Task(partial(work, *args, **kwargs))

        def submit() -> None:
            self._executor.submit(task.run)  # the future is for the executor alone

        try:
            if threading.current_thread() is threading.main_thread() and len(self._executor._threads) < self._size:
                call_elsewhere(submit)
            else:
                submit()
        except KeyboardInterrupt:
            self.shutdown(wait=False)
            raise
        return task

    def shutdown(self, wait: bool = True, drop: bool = False) -> None:
        """End the threads after the pending calls.

        Parameters
        ----------
        wait
            Wait for their end.
        drop
            Drop calls that have not started.
        """
        self.is_shut_down = True
        self._executor.shutdown(wait, cancel_futures=drop)


class BackgroundThread(Pool):
    """Background thread that runs calls in order, under the caller's settings."""

    def __init__(self, name: str) -> None:
        super().__init__(1, name)

    def submit(self, work: Callable[..., R], /, *args: Any, **kwargs: Any) -> Task[R]:
        """Submit a call and return its task."""
        return super().submit(copy_context().run, work, *args, **kwargs)


def call_elsewhere(work: Callable[[], R]) -> R:
    """Call on another thread; return the result or raise the error.

    The thread is started without locks of Python. Ctrl-C does not reach the call, which goes on after it.
    """
    task = Task(work)
    _thread_module.start_new_thread(task.run, ())
    return task.result()
