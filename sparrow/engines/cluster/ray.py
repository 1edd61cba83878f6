"""Scheduler of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sparrow.engines.cluster.tuning import tuning
from sparrow.errors import InvalidValueError, WorkerError
from sparrow.runtime import settings
from sparrow.runtime.events import emit

__all__ = ["Ray", "connect"]

T = TypeVar("T")


class Ray:
    """The cluster that this process is connected to.

    Ray runs the tasks of a process that dies elsewhere.
    """

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
        from ray.exceptions import OutOfMemoryError, RayTaskError, WorkerCrashedError

        remote: Any = ray.remote(max_retries=tuning().max_attempts - 1)(function)
        handle = ray.put(shared)
        tasks = [remote.remote(handle, number) for number in range(count)]
        try:
            emit("cluster.wait", tasks=count)
            found: list[T] = ray.get(tasks)
        except RayTaskError as error:
            raise error.cause from None
        except (OutOfMemoryError, WorkerCrashedError) as error:
            raise WorkerError(f"{error}: a lower memory_limit= makes tasks smaller") from None
        finally:
            for task in ray.wait(tasks, num_returns=count, timeout=0)[1]:
                ray.cancel(task, force=True)
        return found


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
            ray.init(cluster, log_to_driver=False)
        except (ConnectionError, ValueError) as error:
            raise InvalidValueError(
                f"cluster must be the address of a Ray cluster, got {cluster!r}: {error}"
            ) from error
    return Ray()
