"""Protocol of schedulers, and the adapter of a name."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from sparrow.errors import WorkerError
from sparrow.runtime.dependencies import missing_dependency

__all__ = ["SCHEDULERS", "Scheduler", "call_packed", "check_installed", "check_reachable", "connect", "missing_modules"]

T = TypeVar("T")


class Scheduler(Protocol):
    """Runs tasks in other processes."""

    slots: int
    """Tasks that run at the same time."""

    @property
    def memory_limit(self) -> int:
        """Bytes that a task may use, at most the setting of this name."""

    @property
    def threads(self) -> int:
        """Threads that a task may use."""

    def map(self, function: Callable[[Any, int], T], count: int, shared: Any) -> list[T]:
        """Return ``function(shared, number)`` for each number below ``count``.

        A task whose process dies runs again elsewhere. If a task raises, or this process is interrupted, the other
        tasks are cancelled and the error is raised. Spark runs the other tasks of the round first.

        Raises
        ------
        WorkerError
            If processes that run a task die again and again.
        """


SCHEDULERS = {
    "processes": ("sparrow.engines.cluster.processes", ""),
    "dask": ("sparrow.engines.cluster.dask", "distributed"),
    "ray": ("sparrow.engines.cluster.ray", "ray"),
    "spark": ("sparrow.engines.cluster.spark", "pyspark"),
}
"""Module of the adapter, and the module it requires, of each scheduler."""


def check_installed(name: str) -> None:
    """Raise ``MissingDependencyError`` if the package of a scheduler is missing."""
    required = SCHEDULERS[name][1]
    if required and find_spec(required) is None:
        raise missing_dependency(f"engine={name!r}", required)


def connect(name: str, cluster: Any) -> Scheduler:
    """Return the scheduler of a name.

    Parameters
    ----------
    cluster
        The setting ``cluster``: a session or an address; None for the active one.

    Raises
    ------
    InvalidValueError
        If it is no cluster of this scheduler, or there is none.
    """
    module = importlib.import_module(SCHEDULERS[name][0])
    found: Scheduler = module.connect(cluster)
    return found


def call_packed() -> Callable[[bytes, int], Any]:
    """Return a function that runs a task of a pickled function and shared value.

    Workers get it by value, and unpickle the pair when it runs: a module that they lack is an error of the task, where
    a message that does not unpickle would leave Dask waiting.
    """

    def call(payload: bytes, number: int) -> Any:
        import pickle

        try:
            function, shared = pickle.loads(payload)
        except AttributeError as error:  # the module of another version
            raise ModuleNotFoundError(str(error)) from None
        return function(shared, number)

    return call


def missing_modules(error: ModuleNotFoundError) -> WorkerError:
    """Return the error for workers that lack a module."""
    return WorkerError(
        f"every worker must have the modules of this process, in the same versions, got {error}: install them there"
    )


def check_reachable(host: str | None, port: int) -> None:
    """Raise ``OSError`` if nothing listens at an address."""
    socket.create_connection((host, port), timeout=10).close()
