"""Ctrl-C while the result of ``sp.sql`` is fetched."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.runtime import duckdb_connection, threads


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("fetch", ["fetchall", "to_arrow_table", "pl", "__repr__", "_repr_mimebundle_", "__len__"])
def test_interrupt_of_sql(fetch: str) -> None:
    endless = sp.sql("select sum(a.range * b.range) as s from range(1000000000) a, range(1000000) b")
    derived = endless.filter("s > 0")
    for relation in (endless, derived):
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            getattr(relation, fetch)()
        timer.join()
    assert sp.sql("select 1").fetchall() == [(1,)]


@pytest.mark.usefixtures("ctrl_c")
def test_interrupt_of_the_duckdb_engine() -> None:
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    endless = "select sum(a.range * b.range) as s from range(1000000000) a, range(1000000) b order by s"
    with pytest.raises(KeyboardInterrupt), duckdb_connection.translate_errors():
        list(duckdb_connection.stream_batches(duckdb_connection.connect(), endless))
    timer.join()
    A = sp.asarray([[0, 1], [2, 3]])
    assert sp.matmul(A, A, engine="duckdb").nnz == 4


def test_interrupt_during_registration() -> None:
    A = sp.asarray([[0, 1], [2, 3]])

    def fail(**details: Any) -> Any:
        raise duckdb.InvalidInputException("reading the schema of the object registered as x failed: KeyboardInterrupt")

    calls: list[Callable[[], Any]] = [
        lambda: (A @ A).compute("duckdb"),
        lambda: engines.count_nnz((A @ A)[:1].__sparrow_scan__(), "duckdb"),
        lambda: sp.matmul(A, np.ones(2), engine="duckdb"),
        lambda: sp.sql("select * from A", A=A),
    ]
    with sparrow.testing.on("duckdb.register", fail):
        for call in calls:
            with pytest.raises(KeyboardInterrupt):
                call()
    assert sp.sql("select count(*) from A", A=A).fetchall() == [(3,)]


def test_result_is_a_duckdb_relation() -> None:
    A = sp.asarray([[0, 1], [2, 3]])
    found: Any = sp.sql("select d0, sum(value) as s from A group by d0 order by d0", A=A)
    assert isinstance(found, duckdb.DuckDBPyRelation)
    assert type(found).__name__ == "DuckDBPyRelation"
    assert found.project("s + 1 as s").fetchall() == [(2,), (6,)]
    assert type(found.limit(1)) is type(found)
    assert sp.from_relation(found, coords=["d0"], value="s").to_numpy().tolist() == [1, 5]
    assert sp.sql("select count(*) from found").fetchall() == [(2,)]


def test_other_errors_are_duckdbs() -> None:
    with pytest.raises(duckdb.ConversionException):
        sp.sql("select cast(s as int) from (values ('x')) t(s)").fetchall()


class _Query:
    """A query that runs until it is interrupted, and its connection."""

    def __init__(self) -> None:
        self.begun, self.interrupted, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        self.interrupted.wait()
        self.ended.set()

    def interrupt(self) -> None:
        self.interrupted.set()


_WAITING = {duckdb_connection.__file__, threads.__file__, threading.__file__}
"""Code that waits for a query. While objects are collected Python drops errors, Ctrl-C too."""


def _run_traced(trace: Any, query: Any) -> None:
    sys.settrace(trace)
    duckdb_connection._run_on_thread(query, query)


@pytest.mark.parametrize("kind", ["call", "line", "return"])
@pytest.mark.parametrize("begun", [False, True])
def test_interrupt_anywhere_ends_the_query(kind: str, begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = threads.DetachedTask.wait
    monkeypatch.setattr(threads.DetachedTask, "wait", lambda self, seconds: inner(self, seconds / 100))
    for number in range(25):
        query: Any = _Query()
        seen = 0

        def trace(frame: Any, event: str, arg: Any, query: Any = query, number: int = number) -> Any:
            nonlocal seen
            own = frame.f_code.co_filename in _WAITING
            seen += own and event == kind and query.begun.is_set() >= begun
            if seen > number:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        gc.disable()
        try:
            with pytest.raises((KeyboardInterrupt, RuntimeError)):
                _run_traced(trace, query)
        finally:
            gc.enable()
            sys.settrace(before)
        assert not query.begun.is_set() or query.ended.wait(30)
