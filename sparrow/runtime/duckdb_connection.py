"""The embedded DuckDB: connections under the limits of the settings, quoting, the texts of ``sql/``.

An instance of DuckDB has one memory limit, one number of threads and one temporary folder for all its connections.
So there is an instance for each combination of them in use, and a connection, with all that is made of it such as a
lazy relation, keeps those it was made under. Every caller gets a connection of its own, whose temporary views and
tables nobody else sees; who is done with it closes it (``with connect() as con``).
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from sparrow.errors import StorageError
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import DetachedTask

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "connect",
    "interruptible_relation",
    "quote_literal",
    "quote_name",
    "stream_batches",
    "translate_errors",
    "translate_interrupts",
]

FEED_OVERSHOOT = 340_000_000
"""Bytes by which an Arrow feed was seen to pass DuckDB's own limit; the limit is set that much lower."""
_LEAST = 120_000_000
_KEPT = 4
"""Instances kept for the next caller: one takes 50 ms to make, 5 MB and some threads that sleep."""

_INTERRUPTED = "Query interrupted", "KeyboardInterrupt"
"""What DuckDB makes of Ctrl-C: of one that it listens to, and of one that came in Python while it asked something."""

_lock = threading.Lock()
_instances: OrderedDict[tuple[int, int, str], duckdb.DuckDBPyConnection] = OrderedDict()
"""A connection to each instance, by memory limit, threads and temporary folder; those used last are at the end."""


def connect() -> duckdb.DuckDBPyConnection:
    """Return a new connection under the memory limit, threads and temporary folder in force; it keeps them."""
    now = settings.current()
    limit = max(now.memory_limit - FEED_OVERSHOOT, _LEAST)
    made_for = limit, 1 if now.deterministic else now.threads, now.temp_directory
    dropped = []
    with _lock:
        instance = _instances.get(made_for)
        if instance is None:
            instance = _instances[made_for] = _new(*made_for)
        _instances.move_to_end(made_for)
        while len(_instances) > _KEPT:
            dropped.append(_instances.popitem(last=False))
        con = instance.cursor()
    del dropped  # what still has connections lives on with them; what has none ends here, out of the lock
    return con


def _new(memory_limit: int, threads: int, temp_directory: str) -> duckdb.DuckDBPyConnection:
    import duckdb  # a tenth of a second, which who runs no SQL does not pay

    return duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_limit} B",
            "threads": threads,
            "temp_directory": temp_directory,
            "preserve_insertion_order": False,
            "python_enable_replacements": False,  # the variables of our functions are no tables
            "lock_configuration": True,
        },
    )


def _after_fork() -> None:
    """Leave the parent's instances alone: their threads are not here, and to end one would wait for them for ever."""
    global _lock, _instances
    for instance in _instances.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(instance))
    _lock, _instances = threading.Lock(), OrderedDict()


os.register_at_fork(after_in_child=_after_fork)


def quote_name(name: str) -> str:
    """Return an identifier quoted for SQL: a name is data, never SQL.

    Examples
    --------
    >>> print(quote_name('a "b"; drop'))
    "a ""b""; drop"
    """
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Return a text quoted for SQL.

    Examples
    --------
    >>> print(quote_literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def translate_errors() -> Generator[None]:
    """Raise what DuckDB meets in the block as what it is: Ctrl-C, a full disk, too little memory.

    Raises
    ------
    StorageError
        If the disk of the temporary folder is full.
    TooLargeError
        If DuckDB runs out of memory and cannot spill.
    """
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
        if _is_interrupt(error):
            raise KeyboardInterrupt from error
        text = str(error)
        folder = settings.current().temp_directory
        if "No space left" in text or "File too large" in text or "max_temp_directory_size" in text:
            raise StorageError(
                f"the disk of the temporary folder {folder!r} is full: "
                "free space, or name another with sp.config(temp_directory=...)"
            ) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise memory.too_large("what DuckDB does here", None, "") from error
        raise


# -- answers that Ctrl-C ends ----------------------------------------------------------------------


def stream_batches(con: duckdb.DuckDBPyConnection, query: str, rows: int = 1_000_000) -> Iterator[pa.RecordBatch]:
    """Yield what a query gives; within :func:`translate_errors` Ctrl-C ends it at once, whatever DuckDB is at."""
    reader = _on_a_thread(lambda: con.sql(query).to_arrow_reader(rows), con)
    while (batch := _on_a_thread(functools.partial(next, reader, None), con)) is not None:
        yield batch


_answers: WeakKeyDictionary[Any, duckdb.DuckDBPyConnection] = WeakKeyDictionary()
"""The connection of each relation that :func:`interruptible_relation` gave."""


def interruptible_relation(
    relation: duckdb.DuckDBPyRelation, con: duckdb.DuckDBPyConnection
) -> duckdb.DuckDBPyRelation:
    """Return the relation, a query of this connection, so that Ctrl-C while it is fetched is a ``KeyboardInterrupt``.

    DuckDB makes a ``RuntimeError`` of it, and while it fills Arrow tables and frames does not listen.
    """
    relation.__class__ = _answer_class()
    _answers[relation] = con
    return relation


_SHOWING = {"__arrow_c_stream__", "__len__", "__repr__", "__str__", "_repr_mimebundle_"}
"""What else of a relation runs its query: a notebook shows the last of a cell."""


@functools.cache
def _answer_class() -> type[duckdb.DuckDBPyRelation]:
    """Return a relation whose methods listen to Ctrl-C, and what they return too."""
    import duckdb

    plain = duckdb.DuckDBPyRelation

    def listening(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: duckdb.DuckDBPyRelation, *args: Any, **options: Any) -> Any:
            con = _answers[self]
            with translate_interrupts():
                out = _on_a_thread(functools.partial(method, self, *args, **options), con)
            return interruptible_relation(out, con) if type(out) is plain else out

        return call

    public = {
        name: method
        for name, method in vars(plain).items()
        if callable(method) and (not name.startswith("_") or name in _SHOWING)
    }
    methods = {name: listening(method) for name, method in public.items()}
    return type(plain.__name__, (plain,), {"__slots__": (), **methods})


def _on_a_thread(work: Callable[[], Any], con: duckdb.DuckDBPyConnection) -> Any:
    """Return what ``work`` returns; Ctrl-C ends the query that it runs."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    query = DetachedTask(work, "sparrow-answer")
    try:
        query.start()
        while not query.done:
            query.wait(0.1)  # Polars has a signal handler under which Python would not wake for Ctrl-C
        return query.result()
    except BaseException:  # Ctrl-C, which Python tells as an error of the lock that it hit while the thread starts
        while not query.drop():
            con.interrupt()
            query.wait(0.1)
        raise


def _is_interrupt(error: Exception) -> bool:
    return any(told in str(error) for told in _INTERRUPTED)


@contextmanager
def translate_interrupts() -> Generator[None]:
    """Raise a ``KeyboardInterrupt`` where DuckDB tells of one in the block."""
    import duckdb

    try:
        yield
    except (RuntimeError, duckdb.Error) as error:
        if not _is_interrupt(error):
            raise
        raise KeyboardInterrupt from error
