"""Labels in SQL: text columns of labelled dimensions, read on use."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
import sparrow.testing
from sparrow.functions.sql import codes_of

USERS = ["ann", "bob", "it's", "ann b"]
ITEMS = ["x", "y", "z"]


def ratings() -> sp.Tensor:
    return sp.from_coords(
        [[0, 0, 1, 2], [0, 2, 1, 0]], [4.0, 3.0, 5.0, 1.0], shape=(4, 3), dims=("user", "item"),
        labels={"user": USERS, "item": ITEMS},
    )  # fmt: skip


def test_labelled_dimension_has_two_columns() -> None:
    A = ratings()
    found = sp.sql("from A order by user_code, item_code")
    assert found.columns == ["user", "item", "value", "user_code", "item_code"]
    assert found.fetchall()[:2] == [("ann", "x", 4.0, 0, 0), ("ann", "z", 3.0, 0, 2)]
    means = sp.sql("select user, avg(value) as mean from A group by user order by user").fetchall()
    assert means == [("ann", 3.5), ("bob", 5.0), ("it's", 1.0)]
    assert sp.sql("select sum(value) from A where user = 'it''s'").fetchall() == [(1.0,)]
    part = A[1:, ::-1]
    assert sp.sql("select user, item from part order by all", part=part).fetchall() == [("bob", "y"), ("it's", "x")]
    more = A + sp.from_coords([[0], [0]], [1.0], dims=("user", "item"), labels={"user": ["eve"], "item": ["x"]})
    found = sp.sql("select user from more where item = 'x' order by user", more=more)
    assert found.fetchall() == [("ann",), ("eve",), ("it's",)]


QUERIES = [
    "select {user}, sum(value) as s from A group by {user}",
    "select count(*) as n, count(distinct {user}) as m from A where {item} <> 'y'",
    "select a.{user}, b.{item} from A a join A b using ({user}) where a.{item} < b.{item}",
    "with t as (from A) select max({user}) as m, min({item}) as k from t",
    "select value, row_number() over (partition by {user} order by {item}) as k from A",
    "select {item} from A where exists (select 1 from A b where b.{user} > A.{user}) order by value limit 2",
    "select count(*) as n from A where {user} is not null and {item} in ('x', 'z')",
    "pivot A on {item} using sum(value) group by {user}",
]


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=5)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), unique=True, max_size=9))
def test_results_equal_a_text_table(query: str, cells: list[tuple[int, int]]) -> None:
    users, items = ([at[k] for at in cells] for k in (0, 1))
    values = np.arange(1.0, len(cells) + 1)
    A = sp.from_coords(
        np.array([users, items], dtype=int).reshape(2, -1), values, shape=(4, 3), dims=("user", "item"),
        labels={"user": USERS, "item": ITEMS},
    )  # fmt: skip
    named = [[names[at] for at in coords] for names, coords in ((USERS, users), (ITEMS, items))]
    table = pa.table(
        {"user": pa.array(named[0], pa.string()), "item": pa.array(named[1], pa.string()), "value": values}
    )
    asked = query.format(user="user", item="item")
    found, expected = (sp.sql(asked, A=of).df() for of in (A, table))
    columns = list(expected.columns)
    assert list(found.columns) == columns
    pd.testing.assert_frame_equal(*(
        frame.sort_values(columns, ignore_index=True, na_position="last") for frame in (found, expected)
    ))  # fmt: skip


def test_labels_are_read_on_use(tmp_path: Path) -> None:
    ratings().save(tmp_path / "a")

    def reads(query: str) -> list[int]:
        with sparrow.testing.observe("plan.labels") as seen:
            sp.sql(query, A=sp.open(tmp_path / "a")).fetchall()
        return [details["length"] for _, details in seen]

    assert reads("select sum(value) from A") == []
    assert reads("select user_code, count(*) from A where item_code = 2 group by user_code") == []
    assert reads("with t as (select * from A) select max(value) from t") == []
    assert reads("select item, count(*) from A group by item") == [3]
    assert reads("from A") == [4, 3]


def test_label_filters_skip_row_groups(tmp_path: Path) -> None:
    n = 700_000
    labels = {"row": pa.array([f"r{k}" for k in range(n)])}
    sp.from_coords([np.arange(n)], np.arange(n), dims=("row",), labels=labels).save(tmp_path / "a")
    A = sp.open(tmp_path / "a")
    plan = sp.sql("explain analyze select value from A where row = 'r500000'").fetchall()[0][1]
    assert "Row Groups Scanned: 1 / 3" in plan
    assert sp.sql("select value from A where row = 'r500000'").fetchall() == [(500_000,)]
    assert A.nnz == n - 1


def test_code_column_has_a_unique_name() -> None:
    assert codes_of(("user", "User_Code", "item"), [0, 2]) == {0: "user_code_", 2: "item_code"}
    A = sp.from_coords([[0], [1]], [2], dims=("user", "user_code"), labels={"user": ["ann"]})
    assert sp.sql("select user, user_code, user_code_ from A", A=A).fetchall() == [("ann", 1, 0)]


def test_complex_values_and_statements_about_a_query() -> None:
    A = sp.from_coords([[1]], [2 + 3j], shape=(2,), dims=("user",), labels={"user": ["ann", "bob"]})
    assert sp.sql("from A", A=A).fetchall() == [("bob", 2.0, 3.0, 1)]
    assert sp.sql("describe A").fetchall()[0][:2] == ("user", "VARCHAR")
    assert "sparrow:labels" not in sp.sql("explain select user from A").fetchall()[0][1]
    assert sp.sql("summarize A").fetchall()[0][2:4] == ("bob", "bob")


ORDERED = [
    "from A order by item_code, user_code limit 1",
    "select user || '!' as u from A order by value limit 3",
    "select {a: user, b: item} as both from A order by value desc limit 2",
    "select u from (select user as u, value from A) order by value limit 2",
    "select case when value > 1 then user end as u from A order by value limit 2",
    "select upper(u) as u from (select user as u, value from A order by value limit 2) order by u",
    "select (select user from A order by value limit 1) as u",
    "select count(u) as n from (select user || item as u from A using sample 3 rows)",
    "with t(u, i, v) as (select user, item, value from A) select u from t order by v limit 1",
    "select * from (from A order by value limit 1) union all from A order by all",
]


@pytest.mark.parametrize("query", ORDERED)
def test_first_rows_of_stored_labels(query: str, tmp_path: Path) -> None:
    """DuckDB reads other columns of stored tensors after it has found the first rows."""
    stored = ratings().save(tmp_path / "A.sparrow")
    assert sp.sql(query, A=stored).fetchall() == sp.sql(query, A=ratings()).fetchall()


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("s")])
def test_labels_have_their_types(kind: pa.DataType) -> None:
    days = pa.array([date(2026, 1, 1), date(2026, 2, 5)]).cast(kind)
    A = sp.from_coords([[0, 1]], [1, 2], dims=("d",), labels={"d": days})
    table = pa.table({"d": days, "value": [1, 2]})
    for query in (
        "select typeof(d), value from A order by value",
        "select d from A where d > date '2026-01-03'",
        "select month(d), sum(value) from A group by all order by all",
        "select max(d) - interval 1 day from A",
        "select value from A where d between date '2026-01-01' and timestamp '2026-01-02'",
    ):
        assert sp.sql(query, A=A).fetchall() == sp.sql(query, A=table).fetchall(), query


def test_labels_of_a_wrong_type_are_told(tmp_path: Path) -> None:
    ratings().save(tmp_path / "a")
    with pytest.raises(duckdb.BinderException, match="month"):
        sp.sql("select month(item) from A", A=sp.open(tmp_path / "a"))
