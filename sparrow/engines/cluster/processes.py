"""Scheduler of processes on this machine, which are started when first needed."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from sparrow.engines.cluster.tuning import tuning
from sparrow.errors import InvalidValueError, WorkerError
from sparrow.runtime import settings
from sparrow.runtime.events import emit

__all__ = ["Processes", "connect"]

T = TypeVar("T")
_numbers = itertools.count()


class _Worker:
    """A spawned process, which ends with this one, and the connection to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True, name="sparrow worker")
        self.process.start()
        theirs.close()  # so that reading ends with the process
        self.known = -1
        """Number of the shared value that it has."""

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class Processes:
    """Spawned processes; one that dies is replaced."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()

    @property
    def memory_limit(self) -> int:
        """An equal share of the limit of this process."""
        return max(settings.current().memory_limit // (self.slots + 1), 1_000_000)

    @property
    def threads(self) -> int:
        """An equal share of the threads of this process."""
        return max(settings.current().threads // self.slots, 1)

    def map(self, function: Callable[[Any, int], T], count: int, shared: Any) -> list[T]:
        """Return ``function(shared, number)`` for each number; see the protocol."""
        number, results, deaths = next(_numbers), dict[int, T](), Counter[int]()
        todo, running = deque(range(count)), dict[Connection, tuple[_Worker, int]]()
        with self._lock:
            try:
                while len(results) < count:
                    while todo and len(running) < self.slots:
                        worker = self._idle.pop() if self._idle else _Worker()
                        known = worker.known == number
                        try:
                            worker.connection.send((function, known, None if known else shared, todo[0]))
                        except (BrokenPipeError, ConnectionResetError):
                            pass  # it died, which reading notices
                        except BaseException:
                            self._idle.append(worker)  # what does not pickle is not sent at all
                            raise
                        worker.known, running[worker.connection] = number, (worker, todo[0])
                        emit("cluster.task", task=todo.popleft(), pid=worker.process.pid)
                    for connection in wait(list(running)):
                        worker, task = running[connection]  # type: ignore[index]
                        try:
                            found, error = worker.connection.recv()
                        except (EOFError, ConnectionResetError):
                            del running[worker.connection]
                            worker.end()
                            emit("cluster.death", task=task, pid=worker.process.pid)
                            deaths[task] += 1
                            _check_deaths(task, deaths[task], worker.process.exitcode)
                            todo.appendleft(task)
                            continue
                        del running[worker.connection]
                        self._idle.append(worker)
                        if error is not None:
                            raise error
                        results[task] = found
            finally:  # after an error or Ctrl-C, tasks that run would go on in vain
                for worker, _ in running.values():
                    worker.end()
        return [results[task] for task in range(count)]

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            while self._idle:
                self._idle.pop().end()


def _check_deaths(task: int, deaths: int, code: int | None) -> None:
    if deaths >= tuning().max_attempts:
        cause = f"killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"
        raise WorkerError(
            f"{deaths} processes died in task {task}, the last one {cause}: a lower memory_limit= makes tasks smaller; "
            'a script that is not in a notebook must start its work below if __name__ == "__main__"'
        )


def _serve(connection: Connection) -> None:
    """Run tasks until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    shared = None
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            try:
                function, known, value, task = connection.recv()
                shared = shared if known else value
                answer: tuple[Any, Exception | None] = function(shared, task), None
            except EOFError:
                raise
            except Exception as error:  # noqa: BLE001 - raised by the process that asks
                answer = None, error
            try:
                connection.send(answer)
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:  # noqa: BLE001 - an answer that does not pickle
                connection.send((None, WorkerError(f"{type(error).__name__}: {error}, of {answer!r:.200}")))


_pools: dict[int, Processes] = {}
_lock = threading.Lock()
os.register_at_fork(after_in_child=_pools.clear)  # the processes belong to the parent


def connect(cluster: Any) -> Processes:
    """Return the processes of a number, by default one per processor.

    Raises
    ------
    InvalidValueError
        If ``cluster`` is no number.
    """
    count = settings.available_threads() if cluster is None else cluster
    if isinstance(count, str) and count.isdigit():
        count = int(count)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InvalidValueError(f"cluster must be a number of processes for engine='processes', got {cluster!r}")
    with _lock:
        return _pools.setdefault(count, Processes(count))
