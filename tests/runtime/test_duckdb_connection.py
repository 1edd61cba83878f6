"""Embedded DuckDB: limits, quoting, error translation."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import StorageError, TooLargeError
from sparrow.runtime import duckdb_connection, settings
from sparrow.runtime.duckdb_connection import connect, quote_literal, quote_name, translate_errors
from sparrow.testing import observe


def setting(con: duckdb.DuckDBPyConnection, name: str) -> str:
    return str(con.execute("select current_setting(?)", [name]).fetchall()[0][0])


def test_connections_follow_the_settings(tmp_path: Path) -> None:
    with settings.config(memory_limit="2GB", threads=3, temp_directory=tmp_path), closing(connect()) as con:
        assert setting(con, "threads") == "3"
        assert setting(con, "temp_directory") == str(tmp_path)
        assert setting(con, "memory_limit") == "1.5 GiB"
    with settings.config(deterministic=True), closing(connect()) as con:
        assert setting(con, "threads") == "1"


def test_connection_keeps_its_settings() -> None:
    with settings.config(deterministic=True, memory_limit="2GB"):
        con = connect()
    relation = con.sql("select current_setting('threads') as threads, current_setting('memory_limit') as memory")
    for threads in range(2, 9):  # more instances than the cache holds
        with settings.config(threads=threads), connect() as other:
            assert setting(other, "threads") == str(threads)
    assert relation.fetchall() == [(1, "1.5 GiB")]
    assert setting(con, "threads") == "1"


def test_lazy_query_keeps_its_settings() -> None:
    ones = pa.table({"i": np.arange(10), "v": np.ones(10)})
    with settings.config(deterministic=True):
        lazy = sp.sql("select current_setting('threads'), sum(v) from ones", ones=ones)
    with settings.config(threads=3):
        assert sp.sql("select current_setting('threads'), sum(v) from ones", ones=ones).fetchall() == [(3, 10.0)]
        assert lazy.fetchall() == [(1, 10.0)]


@duckdb_connection.isolate()
def test_equal_settings_share_an_instance() -> None:
    with observe("duckdb.open") as opened:
        for _ in range(3):
            for threads in (2, 3):
                with settings.config(threads=threads), connect():
                    pass
            with settings.config(threads=5, deterministic=True), connect():
                pass
        assert [details["threads"] for _, details in opened] == [2, 3, 1]
        for threads in range(6, 20):
            with settings.config(threads=threads), connect():
                pass
    assert list(duckdb_connection._instances) == [tuple(details.values()) for _, details in opened[-4:]]


def test_connection_closes_with_its_block() -> None:
    with connect() as con, pytest.raises(duckdb.InvalidInputException, match="locked"):
        con.execute("set threads = 1")
    with pytest.raises(duckdb.ConnectionException, match="closed"):
        con.execute("select 1")


FORK = """
import os, sys
from sparrow.runtime.duckdb_connection import connect
query = "select sum(i) from range(3_000_000) t(i)"
first = connect()
first.execute(query).fetchall()
pid = os.fork()
if pid == 0:
    with connect() as con:
        print("child", con.execute(query).fetchall(), flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
with connect() as con:
    print("parent", con.execute(query).fetchall())
"""


def test_forked_child_opens_its_own_instance() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["child [(4499998500000,)]", "parent [(4499998500000,)]"], done.stderr


def test_temp_directory_may_change_after_a_spill(tmp_path: Path) -> None:
    with settings.config(memory_limit="100MB"), closing(connect()) as con:
        con.execute("create temp table t as select range a, hash(range) b from range(10_000_000)")
        with settings.config(temp_directory=tmp_path), closing(connect()) as other:
            assert setting(other, "temp_directory") == str(tmp_path)
        assert con.execute("select count(*) from t").fetchall() == [(10_000_000,)]


def test_temporary_tables_are_private() -> None:
    with closing(connect()) as one, closing(connect()) as other:
        one.execute("create temp table t as select 1 as a")
        assert one.execute("select * from t").fetchall() == [(1,)]
        with pytest.raises(duckdb.CatalogException):
            other.execute("select * from t")


def test_python_variables_are_not_tables() -> None:
    secret = pa.table({"a": [1]})
    with closing(connect()) as con, pytest.raises(duckdb.CatalogException):
        con.execute("select * from secret")
    assert secret.num_rows == 1


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_quoting(text: str) -> None:
    with closing(connect()) as con:
        found = con.execute(f"select {quote_literal(text)} as {quote_name(text)}")
        assert [column[0] for column in found.description or []] == [text]
        assert found.fetchall() == [(text,)]


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(duckdb.ParserException), translate_errors(), closing(connect()) as con:
        con.execute("selec")
    with pytest.raises(TooLargeError, match="more than the memory limit"), translate_errors():
        raise duckdb.OutOfMemoryException("could not allocate block")
    with pytest.raises(StorageError, match="the disk of the temporary directory"), translate_errors():
        raise duckdb.IOException("Could not write file: No space left on device")


FULL = """
import resource, signal, sys
import sparrow as sp
from sparrow.runtime.duckdb_connection import connect, stream_batches, translate_errors
from sparrow.errors import StorageError
sp.config(memory_limit="100MB", temp_directory=sys.argv[1], threads=2)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
query = "select hash(i) k, hash(i + 1) v from range(40_000_000) t(i) order by k"
try:
    if sys.argv[2] == "reader":
        for batch in sp.sql(query).to_arrow_reader():
            pass
    with translate_errors():
        for batch in stream_batches(connect(), query):
            pass
except StorageError as error:
    print("StorageError", error)
"""


@pytest.mark.parametrize("way", ["engine", "reader"])
def test_full_disk_raises_storage_error(tmp_path: Path, way: str) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, tmp_path, way], capture_output=True, text=True)
    assert done.stdout.startswith(f"StorageError the disk of the temporary directory {str(tmp_path)!r} is full"), (
        done.stderr
    )
