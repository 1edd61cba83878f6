"""Scheduler of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sparrow.engines.cluster.tuning import tuning
from sparrow.errors import InvalidValueError, WorkerError
from sparrow.runtime import settings
from sparrow.runtime.events import emit

__all__ = ["Dask", "connect"]

T = TypeVar("T")


class Dask:
    """Workers of a Dask cluster; Dask runs the tasks of one that dies elsewhere."""

    def __init__(self, client: Any) -> None:
        self._client = client
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        self.slots = sum(worker["nthreads"] for worker in workers)
        if not self.slots:
            raise InvalidValueError(f"cluster must have workers, got {client!r}: add some, or wait for them")
        self.threads = 1  # a worker has a thread per processor, and each runs a task
        shares = [worker["memory_limit"] // (worker["nthreads"] + 1) for worker in workers if worker["memory_limit"]]
        self.memory_limit = min([settings.current().memory_limit, *shares])

    def map(self, function: Callable[[Any, int], T], count: int, shared: Any) -> list[T]:
        """Return ``function(shared, number)`` for each number; see the protocol."""
        from distributed.scheduler import KilledWorker

        retries = tuning().max_attempts - 1
        futures = [
            self._client.submit(function, shared, number, pure=False, retries=retries) for number in range(count)
        ]
        try:
            emit("cluster.wait", tasks=count)
            found: list[T] = self._client.gather(futures)
        except KilledWorker as error:
            raise WorkerError(f"{error}: raise the memory of workers, or lower memory_limit=") from None
        finally:
            self._client.cancel([future for future in futures if not future.done()], force=True)
        return found


_clients: dict[str, Any] = {}
"""Clients of addresses, kept for the next call."""


def connect(cluster: Any) -> Dask:
    """Return the cluster of a client or an address, by default the active client's.

    Raises
    ------
    InvalidValueError
        If there is no such cluster.
    """
    from distributed import Client, default_client

    if cluster is None:
        try:
            found: Any = default_client  # untyped
            return Dask(found())
        except ValueError:
            raise InvalidValueError(
                "engine='dask' requires an active client: create distributed.Client(address), or pass "
                "sp.config(cluster=address)"
            ) from None
    if isinstance(cluster, Client):
        return Dask(cluster)
    if not isinstance(cluster, str):
        raise InvalidValueError(f"cluster must be a distributed.Client or an address, got {type(cluster).__name__}")
    client = _clients.get(cluster)
    if client is not None and client.status == "running":
        return Dask(client)
    try:
        create: Any = Client  # untyped
        client = _clients[cluster] = create(cluster, set_as_default=False)
        return Dask(client)
    except (OSError, ValueError) as error:
        raise InvalidValueError(f"cluster must be the address of a Dask scheduler, got {cluster!r}: {error}") from error
