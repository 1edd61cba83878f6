"""Scheduler of processes on this machine, which are started when first needed."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import select
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.spawn import get_executable
from typing import Any, TypeVar

from sparrow.engines.cluster.tuning import tuning
from sparrow.errors import InvalidValueError, WorkerError
from sparrow.runtime import settings
from sparrow.runtime.events import emit

__all__ = ["Processes", "connect"]

T = TypeVar("T")
_numbers = itertools.count()
_PROGRAM = """
import sys
sys.path[:] = {path!r}
from sparrow.engines.cluster.processes import serve
serve({descriptor})
"""


class _Worker:
    """A process that ends with this one, and the connection to it.

    ``multiprocessing`` would run the user's script in it, which then needs ``if __name__ == "__main__"``. Tasks never
    refer to the script.
    """

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        program = _PROGRAM.format(path=sys.path, descriptor=theirs.fileno())
        self.process = subprocess.Popen(
            [get_executable(), "-c", program], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            process_group=0,  # Ctrl-C is for the process that asks
        )  # fmt: skip
        theirs.close()  # so that reading ends with the process
        self.known = -1
        """Number of the shared value that it has."""

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
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
                            _check_deaths(task, deaths[task], worker.process.returncode)
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
        """End the processes that run no task."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().end()

    def forget(self) -> None:
        """Let go of the processes, which belong to the parent of a fork."""
        for worker in self._idle:
            worker.process.returncode = 0  # else collecting it would warn that it runs


def _check_deaths(task: int, deaths: int, code: int) -> None:
    if deaths >= tuning().max_attempts:
        cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        note = ", as the kernel does where memory is short" if code == -signal.SIGKILL else ""
        raise WorkerError(
            f"{deaths} processes died in task {task}, the last one {cause}{note}: a lower memory_limit=, or fewer "
            "processes, makes tasks use less"
        )


def serve(descriptor: int) -> None:
    """Run tasks until the process that asks is gone."""
    connection: Connection[Any, Any] = Connection(descriptor)
    threading.Thread(target=_exit_with_parent, args=(descriptor,), daemon=True).start()
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


def _exit_with_parent(descriptor: int) -> None:
    """End this process when the other side of a connection is gone.

    In the middle of a task, too.
    """
    hung_up = select.poll()
    hung_up.register(descriptor, 0)
    hung_up.poll()
    os._exit(1)


_pools: dict[int, Processes] = {}
_lock = threading.Lock()


def _close_all() -> None:
    for pool in _pools.values():
        pool.close()


def _forget_all() -> None:
    for pool in _pools.values():
        pool.forget()
    _pools.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)


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
