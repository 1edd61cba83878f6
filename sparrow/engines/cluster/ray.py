"""Scheduler of a Ray cluster."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sparrow.engines.cluster.schedulers import call_packed, check_reachable, missing_modules
from sparrow.engines.cluster.tuning import tuning
from sparrow.errors import InvalidValueError, WorkerError
from sparrow.runtime import settings
from sparrow.runtime.events import emit

__all__ = ["Ray", "connect"]

T = TypeVar("T")


class Ray:
    """The cluster that this process is connected to."""

    def __init__(self) -> None:
        import ray

        resources = ray.cluster_resources()
        self.slots = int(resources.get("CPU", 0))
        if not self.slots:
            raise InvalidValueError("cluster must have processors for tasks, got a Ray cluster without any")
        self.threads = 1  # a processor is a slot
        self.memory_limit = min(settings.current().memory_limit, int(resources["memory"]) // (self.slots + 1))

    def map(self, function: Callable[[Any, int], T], count: int, shared: Any) -> list[T]:
        """Return ``function(shared, number)`` for each number; see the protocol."""
        import ray
        from ray.exceptions import NodeDiedError, ObjectLostError, OutOfMemoryError, RayTaskError, WorkerCrashedError

        # Ray would try a task that lacks memory again for ever.
        remote: Any = ray.remote(max_retries=0)(call_packed())
        payload, results, deaths = ray.put(pickle.dumps((function, shared))), dict[int, T](), Counter[int]()
        tasks = {remote.remote(payload, number): number for number in range(count)}
        try:
            emit("cluster.wait", tasks=count)
            while tasks:
                ready = ray.wait(list(tasks))[0][0]
                number = tasks.pop(ready)
                try:
                    results[number] = ray.get(ready)
                except RayTaskError as error:
                    raise _cause(error) from None
                except (NodeDiedError, ObjectLostError, OutOfMemoryError, WorkerCrashedError) as error:
                    deaths[number] += 1
                    if deaths[number] >= tuning().max_attempts:
                        raise WorkerError(
                            f"{deaths[number]} workers died in one task: a lower memory_limit= makes tasks use less; "
                            f"the last one: {str(error).partition(chr(10))[0]}"
                        ) from None
                    tasks[remote.remote(payload, number)] = number
        finally:
            for task in tasks:
                ray.cancel(task, force=True)
        return [results[number] for number in range(count)]


def _cause(error: Any) -> Exception:
    """Return the error that a task raised."""
    cause: Exception = error.cause
    return missing_modules(cause) if isinstance(cause, ModuleNotFoundError) else cause


def connect(cluster: Any) -> Ray:
    """Return the cluster that this process is connected to, or connects to.

    Raises
    ------
    InvalidValueError
        If ``cluster`` is no address, or there is no cluster.
    """
    import ray

    if not ray.is_initialized():
        if not isinstance(cluster, str):
            raise InvalidValueError(
                "engine='ray' requires a connection: call ray.init(address), or pass sp.config(cluster=address)"
            )
        try:
            where = urlsplit(cluster if "://" in cluster else f"gcs://{cluster}")
            if where.port:
                check_reachable(where.hostname, where.port)  # Ray would try for minutes
            ray.init(cluster, log_to_driver=False)
        except (OSError, ValueError) as error:
            raise InvalidValueError(
                f"cluster must be the address of a Ray cluster, got {cluster!r}: {error}"
            ) from error
    return Ray()
