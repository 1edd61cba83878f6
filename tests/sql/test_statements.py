"""Parameters of ``sp.sql``, statements with side effects, and missing files."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sparrow as sp
from sparrow import errors


def web() -> Any:
    return sp.from_coords([[0, 0, 2], [1, 2, 0]], [1, 2, 3], shape=(3, 3), dims=("src", "dst"))


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(),
    st.binary(), st.dates(), st.datetimes(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, max_value=10**9),
    st.lists(st.integers(0, 9), min_size=1),
)  # fmt: skip


@given(st.lists(VALUES, min_size=1, max_size=4))
@example(["'; drop table x; --", "$1", "?"])
@example([np.int64(5), np.float32(0.5), np.bool_(True), np.str_("x"), np.datetime64("2020-01-01")])
def test_parameters_are_values_not_text(values: list[Any]) -> None:
    plain = [each.item() if isinstance(each, np.generic) else each for each in values]
    by_mark = sp.sql(f"select {', '.join('?' * len(values))}", params=values).fetchall()
    names = {f"p{k}": value for k, value in enumerate(values)}
    by_name = sp.sql(f"select {', '.join(f'${name}' for name in names)}", params=names).fetchall()
    assert by_mark == by_name == [tuple(plain)]


def test_parameters_filter_tensors_and_labels() -> None:
    A = web()
    found = sp.sql("select dst from A where src = $1 and value > $2 order by dst", params=[0, 1.5], A=A)
    assert found.fetchall() == [(2,)]
    stars = sp.from_coords([[0, 1], [0, 0]], [4.5, 3.0], dims=("user", "film"), labels={"user": ["it's", "bob"]})
    query = "select value from stars where user = $who"
    assert sp.sql(query, params={"who": "it's"}, stars=stars).fetchall() == [(4.5,)]
    assert sp.sql(query, params={"who": "eve"}, stars=stars).filter("value > 0").fetchall() == []


@pytest.mark.parametrize(
    ("query", "params", "message"),
    [
        ("select ?", None, r"it has \$1, got none"),
        ("select ?, ?", [1], r"it has \$1, \$2, got \$1"),
        ("select $a", {"b": 1}, r"it has \$a, got \$b"),
        ("select 1", [1], "it has no parameters, got"),
    ],
)
def test_parameters_must_fit(query: str, params: Any, message: str) -> None:
    with pytest.raises(errors.InvalidValueError, match=message):
        sp.sql(query, params=params)
    with pytest.raises(errors.UnsupportedError, match="params must be a list or a dict"):
        sp.sql("select ?", params="x")


WRITING = {
    "copy (select 1) to '{}'": "COPY",
    "COPY A TO '{}'": "COPY",
    "export database '{}'": "EXPORT",
    "import database '{}'": "PRAGMA",
    "install '{}'": "LOAD",
    "force install httpfs": "LOAD",
    "load '{}'": "LOAD",
    "attach '{}'": "ATTACH",
    "update extensions": "unknown",
    "create table t as from A": "CREATE",
    "create table t as pivot A on src using sum(value)": "CREATE",
    "set threads = 1": "SET",
    "pragma version": "PRAGMA",
    "call pragma_version()": "CALL",
    "explain analyze copy A to '{}'": "COPY",
    "explain (analyze, format json) copy A to '{}'": "COPY",
    "with t as (copy A to '{}') select 1": "COPY",
    "explain analyze with t as (copy A to '{}') select 1": "COPY",
    "select (with t as (copy A to '{}') select count(*) from t)": "COPY",
    "copy (pivot A on src using sum(value)) to '{}'": "COPY",
    "with t as (copy A to '{}') pivot A on src using sum(value)": "COPY",
    "with t as (insert into A values (1, 1, 1) returning *) from t": "INSERT",
    "with t as (delete from A returning *) from t": "DELETE",
}


@pytest.mark.parametrize("query", WRITING)
def test_statements_with_side_effects(query: str, tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedError, match=f"must be a query, got .*{WRITING[query]}.*allow_side_effects"):
        sp.sql(query.format(tmp_path / "out"), A=web())
    assert os.listdir(tmp_path) == []


def test_side_effects_can_be_allowed(tmp_path: Path) -> None:
    A = web()
    assert sp.sql(f"copy A to '{tmp_path}/a.csv'", allow_side_effects=True, A=A).fetchall() == [(3,)]
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "src,dst,value"
    with pytest.raises(errors.InvalidValueError, match="allow_side_effects must be True or False"):
        sp.sql("select 1", allow_side_effects="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "query",
    [
        "select copy from (select 1 as copy)",
        'select "insert" as update from (select 1 as "insert")',
        "explain select * from A",
        "explain analyze select * from A",
        "explain (analyze, format json) from A",
        "pivot A on src using sum(value)",
        "describe A",
        "summarize A",
        "values (1)",
        "select 'copy A to x' as s -- copy A to 'x'",
    ],
)
def test_queries_with_words_of_statements_run(query: str) -> None:
    assert sp.sql(query, A=web()).fetchall()


# -- names ------------------------------------------------------------------------------------------


def test_variables_that_are_no_tables_are_named() -> None:
    bundle, matrix, text = {"X": web()}, np.eye(2), "text"
    assert len(bundle) == matrix.ndim - 1 == len(text) - 3
    for name, message in (
        ("bundle", r"'bundle' is a dict of several tables: pass one, bundle\['X'\]"),
        ("matrix", r"'matrix' is a numpy.ndarray, not a tensor or a table: pass sp.asarray of it"),
        ("text", r"'text' is a str, not a tensor or a table: pass a tensor or a table by keyword"),
        ("nothing", "no tensor or table is named 'nothing': pass it by keyword"),
    ):
        with pytest.raises(errors.InvalidValueError, match=message):
            sp.sql(f"from {name}")


def test_names_that_differ_in_case() -> None:
    A, a = web(), web() * 10
    assert a.nnz == A.nnz
    assert sp.sql("select sum(value) from A").fetchall() == [(6,)]
    assert sp.sql("select sum(value) from a where value > ?", params=[15]).fetchall() == [(50,)]
    with pytest.raises(errors.InvalidValueError, match="'A' and 'a' differ only in case"):
        sp.sql("select count(*) from A, a")


def test_lazy_frames_of_polars() -> None:
    frame = pl.LazyFrame({"x": [1, 2]}).filter(pl.col("x") > 1)
    assert frame is not None
    assert sp.sql("from frame").fetchall() == [(2,)]


# -- files -------------------------------------------------------------------------------------------

FETCHES = ("fetchall", "to_arrow_table", "pl", "df", "__repr__", "reader")


@pytest.mark.parametrize("fetch", FETCHES)
def test_vacuumed_files_are_not_found(fetch: str, tmp_path: Path) -> None:
    A = sp.random((40, 40), nnz=200, seed=0).save(tmp_path / "t")
    old = sp.open(tmp_path / "t")
    relation = sp.sql("select sum(value) from old", old=old)
    A[0, 0] = 7
    A.compact("small")
    A.vacuum("0 seconds")
    with pytest.raises(errors.NotFoundError, match=r"\.parquet'.*vacuum\(\) has removed it"):
        relation.to_arrow_reader().read_all() if fetch == "reader" else getattr(relation, fetch)()
    with pytest.raises(errors.NotFoundError, match="vacuum"):
        sp.sql("from old", old=old)


def test_damage_is_named_in_queries(tmp_path: Path) -> None:
    sp.random((40, 40), nnz=200, seed=0).save(tmp_path / "t")
    tensor = sp.open(tmp_path / "t")
    relation = sp.sql("from tensor", tensor=tensor)
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(errors.NotFoundError, match=r"no file .*\.parquet"):
        relation.fetchall()
    with pytest.raises(errors.NotFoundError, match=r"no file 'missing\.csv'"):
        sp.sql("from 'missing.csv'")


def test_decimal_and_dates_in_filters() -> None:
    query = "select $1 > $2, $3 < $4"
    values = [decimal.Decimal("1.25"), 1, dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 12)]
    assert sp.sql(query, params=values).fetchall() == [(True, True)]
