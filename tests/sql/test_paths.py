"""Paths of stored tensors in queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import InvalidValueError, NotFoundError
from sparrow.functions.query_paths import is_path, stem
from sparrow.functions.sql import run_query


@pytest.fixture(name="folder")
def stored_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two tensors and a bundle."""
    monkeypatch.chdir(tmp_path)
    web = sp.from_coords([[0, 0, 2], [1, 2, 0]], [1, 2, 3], shape=(3, 3), dims=("src", "dst"))
    stars = sp.from_coords([[0, 1], [1, 0]], [5.0, 4.0], dims=("user", "film"), labels={"user": ["ann", "bob"]})
    web.save("web.sparrow")
    (tmp_path / "it's here").mkdir()
    stars.save("it's here/stars.sparrow")
    sp.Bundle({"X": web, "y": stars}).save("both.sparrow")
    return tmp_path


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("from 'web.sparrow' select count(*)", [(3,)]),
        ("select sum(value) from 'web.sparrow' where src = 0", [(3,)]),
        ('select sum(value) from "web.sparrow"', [(6,)]),
        ("from './web.sparrow' select max(dst)", [(2,)]),
        ("from 'both.sparrow/X' select count(*)", [(3,)]),
        ("select user from 'it''s here/stars.sparrow' order by user_code", [("ann",), ("bob",)]),
        ("select web.dst, web.value from 'web.sparrow' where web.src = 2", [(0, 3)]),
        ("select X.dst from 'both.sparrow/X' where X.src = 2", [(0,)]),
        ("select w.dst from 'web.sparrow' as w where w.src = 2", [(0,)]),
        ("select a.dst from 'web.sparrow' a join 'both.sparrow/X' b using (src, dst) where a.src = 2", [(0,)]),
        ("with w as (from 'web.sparrow') select (select count(*) from w), 'web.sparrow'", [(3, "web.sparrow")]),
        ("select count(*) from 'web.sparrow', 'both.sparrow/y'", [(6,)]),
    ],
)
def test_paths_are_tensors(folder: Path, query: str, rows: list[Any]) -> None:
    assert sp.sql(query).fetchall() == rows


def test_absolute_paths_and_other_tables(folder: Path) -> None:
    assert sp.sql(f"from '{folder / 'web.sparrow'}' select count(*)").fetchall() == [(3,)]
    sp.sql("copy (select 1 as a) to 'a.parquet'", allow_side_effects=True)
    (folder / "b.csv").write_text("a,b\n1,x\n")
    assert sp.sql("from 'a.parquet' join 'b.csv' using (a)").fetchall() == [(1, "x")]
    assert sp.sql("select count(*) from 'web.sparrow/*.parquet'").fetchall() == [(3,)]


def test_variables_win_over_paths(folder: Path) -> None:
    other = sp.from_coords([[0]], [7])
    named: dict[str, Any] = {"web.sparrow": other}
    assert sp.sql('from "web.sparrow" select value', **named).fetchall() == [(7,)]
    with pytest.raises(InvalidValueError, match=r"no tensor or table is named 'web': .*, from 'web.sparrow';"):
        sp.sql("from web")
    web = other
    assert sp.sql("from web select value").fetchall() == [(7,)]
    assert web.nnz == 1


@pytest.mark.parametrize(
    ("path", "error", "told"),
    [
        ("wep.sparrow", NotFoundError, "no tensor is stored at 'wep.sparrow': did you mean 'web.sparrow'"),
        ("both.sparrow/Z", NotFoundError, "there are 'both.sparrow/X', 'both.sparrow/y'"),
        ("none/web.sparrow", NotFoundError, "there is no folder 'none'"),
        ("both.sparrow", InvalidValueError, "is a bundle of tensors: name one of them, 'both.sparrow/X' or"),
        ("notes.mtx", InvalidValueError, "'notes.mtx' is neither a stored tensor nor a file that DuckDB reads"),
        ("a.b", InvalidValueError, "no tensor or table is named 'a.b'"),
    ],
)
def test_wrong_paths(folder: Path, path: str, error: type[Exception], told: str) -> None:
    (folder / "notes.mtx").write_text("1\n")
    with pytest.raises(error, match=told):
        sp.sql(f"from '{path}'")


def test_paths_at_a_version(folder: Path) -> None:
    A = sp.open("web.sparrow")
    A[1, 1] = 9
    count = "from 'web.sparrow' select count(*)"
    for version, expected in ((None, 4), (0, 3)):
        relation = run_query(count, None, False, {}, (), version=version).relation
        assert relation is not None
        assert relation.fetchall() == [(expected,)]


def test_explain_names_paths_and_joins_used_labels(folder: Path) -> None:
    (row,) = sp.sql("explain select count(*) from 'both.sparrow/y'").fetchall()
    assert "Join" not in row[1]
    (row,) = sp.sql("explain select user from 'both.sparrow/y'").fetchall()
    assert row[1].count("Join Type") == 1
    (row,) = sp.sql("explain analyze select user from 'both.sparrow/y'").fetchall()
    assert row[0] == "analyzed_plan"
    assert row[1].count("Join Type") == 1


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\x00\\"), min_size=1, max_size=8))
def test_stem_is_the_name_of_the_file(name: str) -> None:
    path = f"folder/{name}.sparrow"
    assert is_path(path)
    assert stem(path) == name


def test_implied_positions(folder: Path) -> None:
    """Columns of positions that only ``*`` names."""
    named: dict[str, Any] = {"r": sp.open("both.sparrow/y")}
    for query, implied in (
        ("from r", {"user_code"}),
        ("select *, user_code from r", set()),
        ('select "USER_CODE" from r', set()),
        ("from r where user = 'user_code'", {"user_code"}),
        ("select 1 as user_code", set()),
    ):
        assert run_query(query, None, False, named, ()).implied == implied, query
    assert np.array_equal(sp.sql("from r", **named).columns, ["user", "film", "value", "user_code"])
