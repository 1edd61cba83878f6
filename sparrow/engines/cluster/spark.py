"""Scheduler of a Spark cluster."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sparrow.engines.cluster.schedulers import call_packed, check_reachable, missing_modules
from sparrow.errors import InvalidValueError, MissingDependencyError, WorkerError
from sparrow.runtime import settings
from sparrow.runtime.events import emit
from sparrow.runtime.threads import DetachedTask

__all__ = ["Spark", "check_java", "connect"]

T = TypeVar("T")
MIN_JAVA = 17


class Spark:
    """The cluster of a session, classic or of Spark Connect.

    A round is a job of one partition per task, which gives bytes. Spark runs the tasks of a process that dies
    elsewhere.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self.threads = int(session.conf.get("spark.task.cpus", "1"))
        self.slots = max(_count_processors(session) // self.threads, 1)
        here = min(self.slots, max(settings.available_threads() // self.threads, 1))  # tasks on a machine like this one
        self.memory_limit = settings.current().memory_limit // (here + 1)

    def map(self, function: Callable[[Any, int], T], count: int, shared: Any) -> list[T]:
        """Return ``function(shared, number)`` for each number; see the protocol.

        An error is raised when the tasks of the round have ended: Spark would run a task that raises again.
        """
        run, tag = _partition_function(pickle.dumps((function, shared))), f"sparrow-{uuid.uuid4().hex}"
        job = DetachedTask(partial(_run_job, self._session, run, count, tag), "sparrow-spark")
        job.start()
        try:
            emit("cluster.wait", tasks=count)
            rows = job.result()
        except BaseException:
            self._cancel(job, tag)
            raise
        results = {}
        for number, answer in rows:
            results[number], error = pickle.loads(answer)
            if isinstance(error, ModuleNotFoundError):
                raise missing_modules(error)
            if error is not None:
                raise error
        return [results[number] for number in range(count)]

    def _cancel(self, job: DetachedTask[Any], tag: str) -> None:
        """Cancel a job; it may not have started yet."""
        while not job.drop():
            self._session.interruptTag(tag)
            job.wait(0.1)


def _run_job(session: Any, run: Any, count: int, tag: str) -> list[Any]:
    """Return the rows of a job with a tag; tags belong to the thread."""
    errors: tuple[type[Exception], ...] = (AttributeError, *_spark_errors())
    session.addTag(tag)
    try:
        numbers = session.range(0, count, 1, count)
        found: list[Any] = numbers.mapInArrow(run, "number long, answer binary").collect()
    except ImportError as error:
        raise _missing_packages(error) from None
    except errors as error:
        if _is_stopped(session):
            raise WorkerError("the SparkSession must run until the tasks have ended, got one that is stopped") from None
        if isinstance(error, AttributeError):
            raise
        raise WorkerError(
            f"Spark gave up the tasks: {_summarize(error)}: a lower memory_limit= makes tasks smaller"
        ) from None
    finally:
        if not _is_stopped(session):
            session.removeTag(tag)
    return found


def _spark_errors() -> tuple[type[Exception], ...]:
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:  # a client of Spark Connect alone
        return (PySparkException,)
    return PySparkException, Py4JError


def _summarize(error: Exception) -> str:
    """Return the message of an error, without where Java raised it."""
    text = str(error).partition("\n\tat ")[0].strip()
    return text.partition("\n: ")[2] or text


def _partition_function(payload: bytes) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function of a partition."""
    call = call_packed()

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pickle

        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    answer = pickle.dumps((call(payload, number), None))
                except Exception as error:  # noqa: BLE001 - raised by the process that asks
                    answer = pickle.dumps((None, error))
                yield pa.record_batch([pa.array([number]), pa.array([answer], pa.binary())], ["number", "answer"])

    return run


_processors: dict[str, int] = {}
"""Processors of the clusters of sessions of Spark Connect."""
_remote: dict[str, Any] = {}
"""Sessions of addresses of Spark Connect, kept for the next call."""


def _count_processors(session: Any) -> int:
    """Return the number of processors of a cluster."""
    if not _is_remote(session):
        return int(session.sparkContext.defaultParallelism)
    if session.session_id not in _processors:
        partitions = session.range(1_000_000).selectExpr("spark_partition_id()")
        _processors[session.session_id] = partitions.distinct().count()
    return _processors[session.session_id]


def _is_remote(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect.")


def _is_stopped(session: Any) -> bool:
    return bool(session.is_stopped if _is_remote(session) else session.sparkContext._jsc is None)


def connect(cluster: Any) -> Spark:
    """Return the cluster of a session or an address, by default the active session's.

    Raises
    ------
    InvalidValueError
        If there is no such cluster.
    MissingDependencyError
        If an address needs Java, or packages, that are missing.
    """
    if isinstance(cluster, str):
        return Spark(_connect_remote(cluster) if cluster.startswith("sc://") else _start(cluster))
    if cluster is None:
        cluster = _active_session()
        if cluster is None:
            raise InvalidValueError(
                "engine='spark' requires an active session: create a SparkSession, or pass sp.config(cluster=session)"
            )
    if not hasattr(cluster, "interruptTag"):
        raise InvalidValueError(f"cluster must be a SparkSession or an address, got {type(cluster).__name__}")
    if _is_stopped(cluster):
        raise InvalidValueError("cluster must be a running SparkSession, got one that is stopped: create another")
    return Spark(cluster)


def _active_session() -> Any:
    """Return the session of this thread or process, None if there is none."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:
        return None


def _connect_remote(address: str) -> Any:
    """Return a session of a server of Spark Connect."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql.connect.session import SparkSession
    except ImportError as error:
        raise _missing_packages(error) from None
    session = _remote.get(address)
    if session is None or session.is_stopped:
        try:
            where = urlsplit(address)
            check_reachable(where.hostname, where.port or 15002)  # Spark would try for minutes
            session = _remote[address] = SparkSession.builder.remote(address).create()
        except (OSError, PySparkException, ValueError) as error:
            raise InvalidValueError(
                f"cluster must be the address of a server of Spark Connect, got {address!r}: {error}"
            ) from None
    return session


def _start(master: str) -> Any:
    """Return the session of this process; start one if there is none."""
    from pyspark.sql import SparkSession

    session = _active_session()
    if session is None:
        check_java(master)
        if master.startswith("spark://"):
            _check_master(master)
        builder = SparkSession.builder.master(master).appName("sparrow").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        here = {}
        if master.startswith("local"):
            here = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
            for name in ("spark.driver.host", "spark.driver.bindAddress"):
                builder = builder.config(name, "127.0.0.1")
        try:
            with _environment(here):
                return builder.getOrCreate()
        except _spark_errors() as error:
            raise InvalidValueError(f"cluster must be a master of Spark, got {master!r}: {_summarize(error)}") from None
    found = "a server of Spark Connect" if _is_remote(session) else repr(session.sparkContext.master)
    if found != repr(master):
        raise InvalidValueError(
            f"cluster must be {found}, which this process has a session of, got {master!r}: stop it"
        )
    return session


def _check_master(master: str) -> None:
    """Raise ``InvalidValueError`` if none of the hosts of a URL listens.

    Spark would try for a minute, and start no session afterwards.
    """
    problem: Exception | None = None
    for host in master.removeprefix("spark://").split(","):
        where = urlsplit(f"spark://{host}")
        try:
            return check_reachable(where.hostname, where.port or 7077)
        except (OSError, ValueError) as error:
            problem = error
    raise InvalidValueError(f"cluster must be a master of Spark, got {master!r}: {problem}")


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables, other than those that are set, for the length of a block."""
    new = values.keys() - os.environ.keys()
    os.environ.update({name: values[name] for name in new})
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def check_java(master: str) -> None:
    """Raise ``MissingDependencyError`` if there is no Java that can start a master."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr if java else ""
    match = re.search(r'version "(\d+)', text)
    if match is None or int(match[1]) < MIN_JAVA:
        raise MissingDependencyError(
            f"cluster={master!r} requires Java {MIN_JAVA} or newer, got {match[1] if match else 'none'}: "
            f"apt-get install openjdk-{MIN_JAVA}-jre-headless"
        )


def _missing_packages(error: ImportError) -> MissingDependencyError:
    return MissingDependencyError(f"engine='spark' requires more packages: pip install 'pyspark[connect]' ({error})")
