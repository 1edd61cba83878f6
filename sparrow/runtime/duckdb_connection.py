"""Embedded DuckDB: connections, quoting, error translation, Ctrl-C.

A DuckDB instance has one memory limit, number of threads and temporary directory. There is one instance per
combination of settings in use, and a connection keeps the limits in force when it was opened. Every caller gets its
own connection, whose temporary views and tables are private, and closes it (``with connect() as con``).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from sparrow.errors import NotFoundError, SparrowError, StorageError
from sparrow.runtime import events, memory, settings
from sparrow.runtime.foreign_errors import find_errno, is_interrupt
from sparrow.runtime.threads import DetachedTask
from sparrow.runtime.tuning import tuning

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "collect_profiles",
    "connect",
    "interruptible_relation",
    "isolate",
    "quote_literal",
    "quote_name",
    "stream_batches",
    "translate_errors",
]

_lock = threading.Lock()
_instances: OrderedDict[tuple[int, int, str, bool], duckdb.DuckDBPyConnection] = OrderedDict()
"""Connection to each cached instance, in LRU order.

The key is the memory limit, threads, the temporary directory and whether queries are profiled.
"""
_profiles: ContextVar[list[str] | None] = ContextVar("sparrow_duckdb_profiles", default=None)


@contextmanager
def collect_profiles() -> Iterator[list[str]]:
    """Collect the profiles of queries that :func:`stream_batches` runs in a block.

    Yields
    ------
    list of str
        One JSON document per query that was read to its end.

    Examples
    --------
    >>> with collect_profiles() as found:
    ...     [batch.num_rows for batch in stream_batches(connect(), "SELECT 1 AS n")], len(found)
    ([1], 1)
    """
    found: list[str] = []
    token = _profiles.set(found)
    try:
        yield found
    finally:
        with suppress(ValueError):  # a generator that is closed in another context
            _profiles.reset(token)


def connect() -> duckdb.DuckDBPyConnection:
    """Open a connection under the settings in force."""
    now = settings.current()
    limits = tuning()
    limit = max(now.memory_limit - limits.duckdb_overshoot_bytes, limits.min_duckdb_bytes)
    is_profiled = _profiles.get() is not None
    key = limit, 1 if now.deterministic else now.threads, now.temp_directory, is_profiled
    evicted = []
    with _lock:
        instance = _instances.get(key)
        if instance is None:
            events.emit("duckdb.open", memory_limit=key[0], threads=key[1], temp_directory=key[2], is_profiled=key[3])
            instance = _instances[key] = _open(*key)
        _instances.move_to_end(key)
        while len(_instances) > limits.duckdb_instances:
            evicted.append(_instances.popitem(last=False))
        con = instance.cursor()
    del evicted  # closes instances without connections, outside of the lock
    if is_profiled:
        con.execute("PRAGMA enable_profiling = 'no_output'")
    return con


def _open(memory_limit: int, threads: int, temp_directory: str, is_profiled: bool) -> duckdb.DuckDBPyConnection:
    import duckdb  # takes 100 ms, paid only by users of SQL

    return duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_limit} B",
            "threads": threads,
            "temp_directory": temp_directory,
            "preserve_insertion_order": False,
            "python_enable_replacements": False,  # Python variables must not be visible as tables
            "late_materialization_max_rows": 0,  # its plans hide which labels a query uses
            "lock_configuration": not is_profiled,  # a cursor turns its profiler on; queries are sparrow's own
        },
    )


@contextmanager
def isolate() -> Iterator[None]:
    """Use an empty instance cache within the block; for single-threaded tests."""
    global _instances
    before, _instances = _instances, OrderedDict()
    try:
        yield
    finally:
        _instances = before


def _after_fork() -> None:
    """Leak the instances of the parent.

    Closing one in the child would wait for threads that exist in the parent only.
    """
    global _lock, _instances
    for instance in _instances.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(instance))
    _lock, _instances = threading.Lock(), OrderedDict()


os.register_at_fork(after_in_child=_after_fork)


def quote_name(name: str) -> str:
    """Quote an identifier for SQL.

    Examples
    --------
    >>> print(quote_name('a "b"; drop'))
    "a ""b""; drop"
    """
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Quote a string for SQL.

    Examples
    --------
    >>> print(quote_literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def translate_errors() -> Generator[None]:
    """Translate errors of DuckDB: Ctrl-C, unreadable files, full disk, memory.

    Errors of the query itself stay errors of DuckDB.

    Raises
    ------
    NotFoundError
        If a file is gone.
    StorageError
        If a file cannot be read, or the disk of the temporary directory is full.
    TooLargeError
        If DuckDB runs out of memory and cannot spill.
    """
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
        if isinstance(error, SparrowError):
            raise
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        found = _translate(error)
        if found is None:
            raise
        raise found from error


_MISSING_FILE = re.compile(r"No files found that match the pattern \"(?P<path>[^\n]*)\"")
_FILE = re.compile(r"(?:file|open|read|path)\b[^\"'\n]{0,20}[\"'](?P<path>[^\n]*?)[\"'](?:$|[\s:;,.])")


def _translate(error: Exception) -> SparrowError | None:
    """Return the error to raise for one of DuckDB, None to keep it."""
    import duckdb

    text, number = str(error), find_errno(error)
    if number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT) or "max_temp_directory_size" in text:
        return StorageError(
            f"the disk of the temporary directory {settings.current().temp_directory!r} is full: "
            "free space, or set another one with sp.config(temp_directory=...)"
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return memory.too_large("the DuckDB query", None, "")
    if missing := _MISSING_FILE.search(text):
        return _missing_file(missing["path"])
    if number is None:
        return None
    named = _FILE.search(text)
    path = named["path"] if named else None
    if number == errno.ENOENT:
        return None if path is None else _missing_file(path)
    found = StorageError(
        f"{'a file of the query' if path is None else repr(path)} cannot be read: {os.strerror(number)}"
    )
    found.errno = number
    return found


def _missing_file(path: str) -> NotFoundError:
    return NotFoundError(
        f"no file {path!r}, which the query reads: if it belongs to an old version of a tensor, vacuum() has removed it"
    )


# -- interruptible queries -------------------------------------------------------------------------


def stream_batches(con: duckdb.DuckDBPyConnection, query: str, rows: int = 1_000_000) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a query.

    Ctrl-C interrupts it within :func:`translate_errors`.
    """
    reader = _run_on_thread(lambda: con.sql(query).to_arrow_reader(rows), con)
    while (batch := _run_on_thread(functools.partial(next, reader, None), con)) is not None:
        yield batch
    profiles = _profiles.get()
    if profiles is not None:
        profiles.append(con.get_profiling_information())


_connections: WeakKeyDictionary[Any, duckdb.DuckDBPyConnection] = WeakKeyDictionary()
"""Connection of each relation that :func:`interruptible_relation` returned."""


def interruptible_relation(
    relation: duckdb.DuckDBPyRelation, con: duckdb.DuckDBPyConnection
) -> duckdb.DuckDBPyRelation:
    """Return the relation with methods that Ctrl-C interrupts.

    They raise ``KeyboardInterrupt``. Plain relations raise ``RuntimeError``, and ignore Ctrl-C while they fill Arrow
    tables and data frames.
    """
    relation.__class__ = _interruptible_class()
    _connections[relation] = con
    return relation


_DISPLAY_METHODS = {"__arrow_c_stream__", "__len__", "__repr__", "__str__", "_repr_mimebundle_"}
"""Special methods that run the query, such as the display hooks of notebooks."""


@functools.cache
def _interruptible_class() -> type[duckdb.DuckDBPyRelation]:
    """Return the subclass of relations whose methods are interruptible."""
    import duckdb

    plain = duckdb.DuckDBPyRelation

    def make_interruptible(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: duckdb.DuckDBPyRelation, *args: Any, **options: Any) -> Any:
            con = _connections[self]
            with translate_errors():
                out = _run_on_thread(functools.partial(method, self, *args, **options), con)
            if isinstance(out, pa.RecordBatchReader):
                return pa.RecordBatchReader.from_batches(out.schema, _checked_batches(out, con))
            return interruptible_relation(out, con) if type(out) is plain else out

        return call

    public = {
        name: method
        for name, method in vars(plain).items()
        if callable(method) and (not name.startswith("_") or name in _DISPLAY_METHODS)
    }
    methods = {name: make_interruptible(method) for name, method in public.items()}
    return type(plain.__name__, (plain,), {"__slots__": (), **methods})


def _checked_batches(reader: pa.RecordBatchReader, con: duckdb.DuckDBPyConnection) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a reader; errors are translated."""
    while True:
        with translate_errors():
            batch = _run_on_thread(functools.partial(next, reader, None), con)
        if batch is None:
            return
        yield batch


def _run_on_thread(work: Callable[[], Any], con: duckdb.DuckDBPyConnection) -> Any:
    """Call ``work`` on another thread, and interrupt its query on Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    poll = tuning().interrupt_poll_seconds
    query = DetachedTask(work, "sparrow-query")
    try:
        query.start()
        while not query.done:
            query.wait(poll)  # the signal handler of Polars keeps Python from waking up for Ctrl-C
        return query.result()
    except BaseException:  # Ctrl-C, which may surface as a lock error while the thread starts
        while not query.drop():
            con.interrupt()
            query.wait(poll)
        raise
