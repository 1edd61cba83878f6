"""Processes that work on one thing: started, waited for, and named where one dies."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from sparrow.errors import InvalidValueError, UnsupportedError, WorkerError

__all__ = ["run"]

T = TypeVar("T")


def run(work: Callable[..., T], workers: int, args: Sequence[Any]) -> list[T]:
    """Return what a function gives in several new processes.

    Parameters
    ----------
    work
        Called as ``work(args[0], rank, workers, *args[1:])``.
    workers
        How many processes.
    args
        What it is given.

    Raises
    ------
    WorkerError
        If one raises an error or dies; the others are ended.
    InvalidValueError
        If ``workers`` is below 1.
    UnsupportedError
        If the function, or what it is given, does not pickle.
    """
    if workers < 1:
        raise InvalidValueError(f"workers={workers} must be at least 1")
    context = multiprocessing.get_context("spawn")
    processes: list[SpawnProcess] = []
    ends: list[Connection] = []
    try:
        for rank in range(workers):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_serve, args=(theirs, work, rank, workers, tuple(args)), name=f"worker {rank}", daemon=True
            )
            try:
                process.start()
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                ours.close()
                theirs.close()
                raise UnsupportedError(
                    f"a new process cannot be told what to do: {error}. Give a function of a module, not one made "
                    "inside another, and arguments that pickle"
                ) from None
            theirs.close()  # so that the end of the process ends the pipe
            processes.append(process)
            ends.append(ours)
        results: dict[int, T] = {}
        while len(results) < workers:
            for ready in wait([end for rank, end in enumerate(ends) if rank not in results]):
                rank = next(rank for rank, end in enumerate(ends) if end is ready)
                results[rank] = _received(ends[rank], processes[rank], rank, workers)
        for process in processes:
            process.join()
        return [results[rank] for rank in range(workers)]
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()
            process.close()
        for end in ends:
            end.close()


def _serve(end: Connection, work: Callable[..., Any], rank: int, workers: int, args: tuple[Any, ...]) -> None:
    try:
        result, problem = work(args[0], rank, workers, *args[1:]), None
    except Exception as error:  # noqa: BLE001 - told in the process that waits
        result, problem = None, f"{type(error).__name__}: {error}"
    end.send((result, problem))
    end.close()


def _received(end: Connection, process: SpawnProcess, rank: int, workers: int) -> Any:
    try:
        result, problem = end.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise WorkerError(f"worker {rank} of {workers} (process {process.pid}) {how} before it was done") from None
    if problem is not None:
        raise WorkerError(f"worker {rank} of {workers} (process {process.pid}) failed: {problem}")
    return result
