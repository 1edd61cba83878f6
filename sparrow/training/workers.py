"""Worker processes that run one function; errors name the one that fails."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from sparrow.errors import InvalidValueError, StorageError, UnsupportedError, WorkerError
from sparrow.training.shared_memory import translate_os_errors

__all__ = ["run_workers"]

T = TypeVar("T")


def run_workers(work: Callable[..., T], workers: int, args: Sequence[Any]) -> list[T]:
    """Call a function in several new processes and return the results by rank.

    Parameters
    ----------
    work
        Called as ``work(args[0], rank, workers, *args[1:])``.
    workers
        Number of processes.
    args
        Arguments.

    Raises
    ------
    WorkerError
        If a process raises an error or dies; the others are terminated.
    StorageError
        If the system does not start a process.
    InvalidValueError
        If ``workers`` is less than 1.
    UnsupportedError
        If the function or an argument cannot be pickled.
    """
    if workers < 1:
        raise InvalidValueError(f"workers must be at least 1, got {workers}")
    context = multiprocessing.get_context("spawn")
    processes: list[SpawnProcess] = []
    pipes: list[Connection] = []
    try:
        for rank in range(workers):
            with translate_os_errors(f"start worker {rank} of {workers}"):
                ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_run_worker, args=(theirs, work, rank, workers, tuple(args)), name=f"worker {rank}", daemon=True
            )
            try:
                with translate_os_errors(f"start worker {rank} of {workers}"):
                    process.start()
            except StorageError:
                ours.close()
                theirs.close()
                raise
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                ours.close()
                theirs.close()
                raise UnsupportedError(
                    f"work and its arguments must be picklable ({error}): pass a function of a module, not a local one"
                ) from None
            theirs.close()  # so that the pipe ends with the process
            processes.append(process)
            pipes.append(ours)
        results: dict[int, T] = {}
        while len(results) < workers:
            for ready in wait([pipe for rank, pipe in enumerate(pipes) if rank not in results]):
                rank = next(rank for rank, pipe in enumerate(pipes) if pipe is ready)
                results[rank] = _receive_result(pipes[rank], processes[rank], rank, workers)
        for process in processes:
            process.join()
        return [results[rank] for rank in range(workers)]
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()
            process.close()
        for pipe in pipes:
            pipe.close()


def _run_worker(pipe: Connection, work: Callable[..., Any], rank: int, workers: int, args: tuple[Any, ...]) -> None:
    try:
        result, problem = work(args[0], rank, workers, *args[1:]), None
    except Exception as error:  # noqa: BLE001 - raised again in the parent process
        result, problem = None, f"{type(error).__name__}: {error}"
    pipe.send((result, problem))
    pipe.close()


def _receive_result(pipe: Connection, process: SpawnProcess, rank: int, workers: int) -> Any:
    try:
        result, problem = pipe.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        cause = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise WorkerError(f"worker {rank} of {workers} (process {process.pid}) {cause} before it was done") from None
    if problem is not None:
        raise WorkerError(f"worker {rank} of {workers} (process {process.pid}) failed: {problem}")
    return result
