"""Scheduler of a Dask cluster."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from sparrow.engines.cluster.schedulers import call_packed, missing_modules
from sparrow.engines.cluster.tuning import tuning
from sparrow.errors import InvalidValueError, WorkerError
from sparrow.runtime import settings
from sparrow.runtime.events import emit

__all__ = ["Dask", "connect"]

T = TypeVar("T")


class Dask:
    """Workers of a Dask cluster; Dask runs the tasks of one that dies elsewhere."""

    def __init__(self, client: Any) -> None:
        if client.status != "running":
            raise InvalidValueError(f"cluster must be a running distributed.Client, got one that is {client.status}")
        self._client = client
        workers = self._find_workers()
        self.slots = sum(worker["nthreads"] for worker in workers)
        self.threads = 1  # a worker has a thread per processor, and each runs a task
        shares = [worker["memory_limit"] // (worker["nthreads"] + 1) for worker in workers if worker["memory_limit"]]
        self.memory_limit = min([settings.current().memory_limit, *shares])

    def _find_workers(self) -> list[Any]:
        """Return the workers; wait for the first one."""
        timeout = tuning().worker_wait_seconds
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        if not workers:
            task = self._client.submit(int, pure=False)  # a cluster that adapts starts workers for it
            try:
                task.result(timeout=timeout)
            except TimeoutError:
                raise InvalidValueError(
                    f"cluster must have workers, got none in {timeout} s: start some, as with cluster.scale(4)"
                ) from None
            finally:
                task.cancel()
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return list(workers.values())

    def map(self, function: Callable[[Any, int], T], count: int, shared: Any) -> list[T]:
        """Return ``function(shared, number)`` for each number; see the protocol."""
        from distributed import CancelledError
        from distributed.scheduler import KilledWorker

        call, payload = call_packed(), pickle.dumps((function, shared))
        futures = [self._client.submit(call, payload, number, key=f"sparrow-{uuid.uuid4()}") for number in range(count)]
        try:
            emit("cluster.wait", tasks=count)
            found: list[T] = self._client.gather(futures)
        except KilledWorker as error:
            raise WorkerError(
                f"{error.allowed_failures + 1} workers died in one task, the last one at {error.last_worker.address}, "
                "as Dask ends them where memory is short: a lower memory_limit=, or workers with more memory"
            ) from None
        except ModuleNotFoundError as error:
            raise missing_modules(error) from None
        except (CancelledError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and self._client.status == "running":
                raise
            raise WorkerError(f"the Dask client and scheduler must run until the tasks have ended: {error}") from None
        finally:
            if self._client.status == "running":
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
        default: Any = default_client  # untyped
        try:
            cluster = default()
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
    except (OSError, ValueError) as error:
        raise InvalidValueError(f"cluster must be the address of a Dask scheduler, got {cluster!r}: {error}") from error
    return Dask(client)
