"""The embedded DuckDB: limits, quoting, feeds that fail, the sort outside memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparrow import settings
from sparrow.database import Feed, connect, failures, load, quote_literal, quote_name, sorted_batches
from sparrow.errors import IngestError, StorageError, TooLargeError

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64())])


def setting(con: duckdb.DuckDBPyConnection, name: str) -> str:
    return str(con.execute("select current_setting(?)", [name]).fetchall()[0][0])


def test_connections_follow_the_settings(tmp_path: Path) -> None:
    with settings.config(memory_limit="2GB", threads=3, temp_directory=tmp_path), closing(connect()) as con:
        assert setting(con, "threads") == "3"
        assert setting(con, "temp_directory") == str(tmp_path)
        assert setting(con, "memory_limit") == "1.5 GiB"
    with settings.config(deterministic=True), closing(connect()) as con:
        assert setting(con, "threads") == "1"


def test_the_temporary_folder_may_change_after_a_spill(tmp_path: Path) -> None:
    with settings.config(memory_limit="100MB"), closing(connect()) as con:
        con.execute("create temp table t as select range a, hash(range) b from range(10_000_000)")
        with settings.config(temp_directory=tmp_path), closing(connect()) as other:
            assert setting(other, "temp_directory") == str(tmp_path)
        assert con.execute("select count(*) from t").fetchall() == [(10_000_000,)]


def test_temporary_tables_are_a_connections_own() -> None:
    with closing(connect()) as one, closing(connect()) as other:
        one.execute("create temp table t as select 1 as a")
        assert one.execute("select * from t").fetchall() == [(1,)]
        with pytest.raises(duckdb.CatalogException):
            other.execute("select * from t")


def test_python_variables_are_no_tables() -> None:
    secret = pa.table({"a": [1]})
    with closing(connect()) as con, pytest.raises(duckdb.CatalogException):
        con.execute("select * from secret")
    assert secret.num_rows == 1


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_names_and_texts_are_data(text: str) -> None:
    with closing(connect()) as con:
        found = con.execute(f"select {quote_literal(text)} as {quote_name(text)}")
        assert [column[0] for column in found.description or []] == [text]
        assert found.fetchall() == [(text,)]


def batches(n: int, size: int = 50_000) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(4)
    for start in range(0, n, size):
        count = min(size, n - start)
        keys = rng.integers(0, n, count)
        yield pa.record_batch([pa.array(keys), pa.array(np.arange(start, start + count, dtype=float))], schema=SCHEMA)


def test_rows_come_back_sorted() -> None:
    given_rows = pa.Table.from_batches(batches(200_000))
    with closing(connect()) as con:
        load(con, 'the "table"', SCHEMA, batches(200_000))
        found = pa.Table.from_batches(list(sorted_batches(con, 'the "table"', ["v", "k"], ["k", "v"])))
    want = given_rows.sort_by([("k", "ascending"), ("v", "ascending")]).select(["v", "k"])
    assert found.combine_chunks().equals(want.combine_chunks())


def test_what_a_feed_raises_comes_as_it_is() -> None:
    mine = IngestError("a bad token", "file.txt", 7, "x")

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(100_000)
        raise mine

    with closing(connect()) as con:
        with pytest.raises(IngestError) as caught:
            load(con, "t", SCHEMA, failing())
        assert caught.value is mine
        load(con, "t", SCHEMA, batches(10))
        assert con.execute("select count(*) from t").fetchall() == [(10,)]


def test_an_interrupt_in_a_feed_is_one() -> None:
    def interrupted() -> Iterator[pa.RecordBatch]:
        yield from batches(1000)
        raise KeyboardInterrupt

    with closing(connect()) as con, pytest.raises(KeyboardInterrupt):
        load(con, "t", SCHEMA, interrupted())


def test_other_failures_stay_what_they_are() -> None:
    feed = Feed(SCHEMA, [])
    with pytest.raises(duckdb.ParserException), failures(feed), closing(connect()) as con:
        con.execute("selec")
    with pytest.raises(TooLargeError, match="more than the memory limit"), failures():
        raise duckdb.OutOfMemoryException("could not allocate block")
    with pytest.raises(StorageError, match="the disk of the temporary folder"), failures():
        raise duckdb.IOException("Could not write file: No space left on device")


FULL = """
import resource, signal, sys
import numpy as np, pyarrow as pa
from sparrow import settings
from sparrow.database import connect, load, sorted_batches
from sparrow.errors import StorageError
settings.config(memory_limit="100MB", temp_directory=sys.argv[1], threads=2)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
rng = np.random.default_rng(0)
def batches():
    for _ in range(120):
        yield pa.record_batch([pa.array(rng.integers(0, 2**62, 200_000)) for _ in range(2)], schema=schema)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
con = connect()
try:
    load(con, "t", schema, batches())
    for batch in sorted_batches(con, "t", ["k"], ["k"]):
        pass
except StorageError as error:
    print("StorageError", error)
"""


def test_a_disk_that_fills_up_is_a_storage_error(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, tmp_path], capture_output=True, text=True)
    assert done.stdout.startswith(f"StorageError the disk of the temporary folder {str(tmp_path)!r} is full"), (
        done.stderr
    )
