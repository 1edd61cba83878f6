"""SQL over tensors: names, scopes, views, labels."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.functions.sql import sql
from tests.engines.helpers import Labelled, at, memory, random_array, scan_of, stored_relation

LINKS = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]])
web = Labelled(scan_of(memory(LINKS, dims=("src", "dst"))))


def tensor(dense: Any, *key: Any, dims: tuple[str, ...] = ()) -> Labelled:
    return Labelled(at(memory(np.asarray(dense), dims=dims), *key))


def test_tensor_is_a_relation() -> None:
    found = sql("select src, count(*) as links from web group by src order by src")
    assert found.fetchall() == [(0, 2), (2, 1)]
    assert found.columns == ["src", "links"]
    assert [str(kind) for kind in sql("from web").types] == ["INTEGER", "INTEGER", "BIGINT"]


def test_names_come_from_keywords_locals_and_globals() -> None:
    local = tensor([5, 0, 6])
    assert local.dims
    assert sql("from local order by all").fetchall() == [(0, 5), (2, 6)]
    assert sql("select count(*) from LOCAL, Web").fetchall() == [(6,)]
    assert sql("select sum(value) from local", local=tensor([1, 1])).fetchall() == [(2,)]
    web = tensor([7], dims=("dst",))
    assert sql("select * exclude (dst) from web").fetchall() == [(7,)]
    assert web.dims == ("dst",)


def test_caller_frame() -> None:
    def ask() -> Any:
        hidden = tensor([1, 2, 3])
        assert hidden.dims
        return sql("select sum(value) from hidden")

    relation = ask()
    gc.collect()
    assert relation.fetchall() == [(6,)]


def test_concurrent_results() -> None:
    first = sql("select sum(value) as s from t", t=tensor([1, 2]))
    second = sql("select sum(value) as s from t", t=tensor([10, 20, 30], [0, 0, 2]))
    gc.collect()
    assert first.fetchall() == [(3,)]
    assert second.fetchall() == [(50,)]
    assert first.filter("s > 1").fetchall() == [(3,)]


def test_result_outlives_its_tensors(tmp_path: Path) -> None:
    relation = sql("select sum(value) from a", a=Labelled(scan_of(stored_relation(tmp_path / "a", LINKS))))
    gc.collect()
    assert relation.fetchall() == [(3,)]


@pytest.mark.parametrize(
    "name",
    [
        "two words",
        'a "quoted" one',
        "x; drop table y; --",
        "it's",
        "select",
        "größe",
        "名前",
        "a.b",
        "value",
        "sparrow_entries",
    ],
)
def test_names_are_data(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    named: dict[str, Any] = {name: tensor([1, 2])}
    assert sql(f"select sum(value) from {quoted}", **named).fetchall() == [(3,)]
    scoped: dict[str, Any] = {name: tensor([3, 4]), "sql": sql}
    exec(f"found = sql('select sum(value) from ' + {quoted!r}).fetchall()", scoped)
    assert scoped["found"] == [(7,)]


@settings(max_examples=15)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8))
def test_any_dimension_name(name: str) -> None:
    if name.casefold() in ("value", "value_im"):
        return
    found = sql("from t order by all", t=tensor([0, 5, 6], slice(1, None), dims=(name,)))
    assert found.columns == [name, "value"]
    assert found.fetchall() == [(0, 5), (1, 6)]


def test_label_relation() -> None:
    names = pa.array(["a'; drop", 'b"', "ç"])
    src, dst = LINKS.nonzero()
    labels = {"src": names, "dst": names}
    web = sp.from_coords([src, dst], 1, shape=LINKS.shape, dims=("src", "dst"), labels=labels)
    found = sql("select s.label, d.label from web join web_src s using (src) join WEB_DST d using (dst) order by all")
    assert found.fetchall() == [("a'; drop", 'b"'), ("a'; drop", "ç"), ("ç", "a'; drop")]
    found = sql("from t_src order by src_code", t=web)
    assert found.columns == ["src", "label", "src_code"]
    assert found.fetchall() == [(name, name, code) for code, name in enumerate(names.to_pylist())]
    with pytest.raises(InvalidValueError, match="'web_nope'"):
        sql("from web_nope")


def test_tables_beside_tensors() -> None:
    frame = polars.DataFrame({"src": [0, 2], "weight": [10, 100]})
    table = pa.table({"dst": [0, 1, 2], "name": ["x", "y", "z"]})
    query = "select name, value * weight from web join frame using (src) join table_ using (dst) order by all"
    assert sql(query, table_=table).fetchall() == [("x", 100), ("y", 10), ("z", 10)]
    assert frame.shape == (2, 2)
    earlier = sql("select src from web")
    assert sql("select count(*) from earlier").fetchall() == earlier.aggregate("count(*)").fetchall()
    reader = table.to_reader()
    assert sql("select count(*) from r", r=reader).fetchall() == [(3,)]


def test_index_of_pandas_is_a_column_if_named(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"src": [0, 2, 4], "weight": [10, 100, 7]})
    for sold in (frame, frame[frame.weight != 100], frame.set_axis(list("abc"))):
        assert sp.sql("select * from sold", sold=sold).columns == ["src", "weight"]
    for order in ([0, 1, 2], [2, 0, 1]):  # the index is a range, or not
        named = frame.iloc[order].set_index("src")
        assert sp.sql("select * from named").columns == ["weight", "src"]
        found = sp.from_relation(named, coords=["src"], value="weight")
        assert found.to_numpy().tolist() == [10, 0, 100, 0, 7]
        stored = sp.ingest.columns(named, tmp_path / str(order[0]), coords=["src"], value="weight")
        assert stored.to_numpy().tolist() == [10, 0, 100, 0, 7]
    kept = frame.rename_axis("row").iloc[[0, 2]]
    assert sp.sql("select row from kept order by row", kept=kept).fetchall() == [(0,), (2,)]


def test_bundles_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:1\n")
    with pytest.raises(UnsupportedError, match=r"got .*Bundle: pass one of its tensors, b=bundle\[...\]"):
        sp.sql("select 1 from b", b=sp.ingest.libsvm(tmp_path / "a.svm", tmp_path / "b"))


def test_views_of_every_kind(tmp_path: Path) -> None:
    dense = random_array((6, 7))
    relation = stored_relation(tmp_path / "a", dense)
    for key in [(slice(None, None, -2),), ([3, 3, 0], slice(1, 4)), (2, None), (slice(2, 2),), (1, 1)]:
        found = sql("select sum(value), count(*) from v", v=Labelled(at(relation, *key))).fetchall()
        expected = np.asarray(dense[key])
        assert found == [(expected.sum() if expected.any() else None, np.count_nonzero(expected))]


def test_values_without_sql_type() -> None:
    assert sql("from t", t=tensor(np.array([1 + 2j, 0]))).fetchall() == [(0, 1.0, 2.0)]
    assert sql("from t", t=tensor(np.array([0, 2.5], np.float16))).fetchall() == [(1, 2.5)]
    assert sql("from t", t=tensor(np.array([True, False]))).fetchall() == [(0, True)]


def test_other_statements(tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    sql(f"copy (from web) to '{target}'", allow_side_effects=True)
    assert sql(f"select count(*) from '{target}'").fetchall() == [(3,)]
    assert len(sql("pivot web on dst using sum(value) group by src").fetchall()) == 2
    assert "src" in str(sql("summarize web").fetchall())


def test_unknown_names() -> None:
    other = tensor([1])
    assert other.dims
    with pytest.raises(InvalidValueError, match=r"named 'nope'.*nope=A\); tensors in scope: extra, other, web$"):
        sql("select * from web join nope using (src)", extra=other)
    with pytest.raises(InvalidValueError, match=r"'no such; thing'.*name=A"):
        sql('from "no such; thing"')
    with pytest.raises(duckdb.CatalogException, match="schema"):
        sql("from s.web")
    with pytest.raises(InvalidValueError, match="'frame'"):
        sql("from frame")


def test_errors() -> None:
    with pytest.raises(InvalidValueError, match=r"'t' and 'T' differ only in case"):
        sql("from t", t=tensor([1]), T=tensor([2]))
    with pytest.raises(InvalidValueError, match="one statement, got 2"):
        sql("from web; from web")
    with pytest.raises(InvalidValueError, match="one statement, got 0"):
        sql("-- nothing")
    with pytest.raises(UnsupportedError, match=r"x= must be .*, got int"):
        sql("from x", x=3)
    with pytest.raises(duckdb.ParserException):
        sql("selec 1")
    with pytest.raises(duckdb.BinderException):
        sql("select nope from web")


def test_names_of_enclosing_functions() -> None:
    here = sp.asarray(np.eye(3))
    text = "select count(*) from here"
    assert [sp.sql(text).fetchall() for _ in range(1)] == [[(3,)]]
    assert list(sp.sql(text).fetchall() for _ in range(1)) == [[(3,)]]  # noqa: C400

    def inner() -> list[Any]:
        return [sp.sql(text).fetchall() for _ in range(2)]

    assert inner() == [[(3,)], [(3,)]]
    assert here.nnz == 3


def test_variables_of_other_functions() -> None:
    hidden = sp.asarray(np.eye(3))
    with pytest.raises(ValueError, match="'hidden'"):
        _query_elsewhere("select * from hidden")
    assert hidden.nnz == 3


def _query_elsewhere(text: str) -> object:
    return sp.sql(text)


@pytest.mark.parametrize(
    "statement", ["create table leak as select 1 a", "drop table leak", "attach ':memory:' as leak"]
)
def test_persistent_statements_raise(statement: str) -> None:
    with pytest.raises(UnsupportedError, match="use your own connection"):
        sp.sql(statement)
