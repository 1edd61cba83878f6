"""SQL of scans, and its pushdown in DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparrow as sp
from sparrow import engines, storage
from sparrow.core.indexing import View
from sparrow.engines.duckdb import compile_query as compile_scan
from sparrow.engines.duckdb import register_select
from sparrow.relations.protocol import Relation
from sparrow.runtime import duckdb_connection
from sparrow.runtime.resources import sql_text
from sparrow.testing import observe
from tests.engines.helpers import at, memory, random_array, scan_of, stored_relation

ENTRIES = '"sparrow_entries" AS e'


@pytest.fixture(scope="module")
def cube() -> Relation:
    return memory(random_array((6, 7, 5)), dims=("a", "b b", 'c"c'))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ((), f'SELECT e."a" AS "a", e."b b" AS "b b", e."c""c" AS "c""c", e."value" AS "value" FROM {ENTRIES}'),
        (
            (3, slice(None), 1),
            f'SELECT e."b b" AS "b b", e."value" AS "value" FROM {ENTRIES} WHERE e."a" = 3 AND e."c""c" = 1',
        ),
        (
            (slice(2, 5), 0, slice(3, None)),
            (
                f'SELECT e."a" - 2 AS "a", e."c""c" - 3 AS "c""c", e."value" AS "value" FROM {ENTRIES} '
                'WHERE e."b b" = 0 AND e."a" BETWEEN 2 AND 4 AND e."c""c" >= 3'
            ),
        ),
        (
            (slice(None, None, -1), slice(1, None, 3), 0),
            (
                f'SELECT 5 - e."a" AS "a", (e."b b" - 1) // 3 AS "b b", e."value" AS "value" FROM {ENTRIES} '
                'WHERE e."c""c" = 0 AND e."b b" >= 1 AND e."b b" % 3 = 1'
            ),
        ),
        (
            ([4, 1, 1], None, 2),
            (
                'SELECT p0.p0 AS "a", CAST(0 AS INTEGER) AS "d1", e."c""c" AS "c""c", e."value" AS "value" '
                f'FROM {ENTRIES} JOIN "sparrow_points0" AS p0 ON e."a" = p0.c0 '
                'WHERE e."b b" = 2 AND e."a" BETWEEN 1 AND 4'
            ),
        ),
        (
            (slice(2, 2), 0, 0),
            'SELECT CAST(NULL AS INTEGER) AS "a", CAST(NULL AS DOUBLE) AS "value" WHERE false',
        ),
    ],
)
def test_sql_of_views(cube: Relation, key: Any, text: str) -> None:
    assert compile_scan(at(cube, *key)).text == text


def test_list_is_a_table(cube: Relation) -> None:
    table = compile_scan(at(cube, slice(None), [[4, 1], [1, 1]])).tables["sparrow_points0"]
    assert table.to_pydict() == {"c0": [4, 1, 1, 1], "p0": [0, 0, 1, 1], "p1": [0, 1, 0, 1]}
    assert table.schema.field("c0").type == pa.int32()


def test_complex_has_two_columns() -> None:
    query = compile_scan(scan_of(memory(np.array([1 + 2j, 0]))))
    assert (
        query.text
        == 'SELECT e."d0" AS "d0", e."value" AS "value", e."value_im" AS "value_im" FROM "sparrow_entries" AS e'
    )
    assert compile_scan(at(memory(np.array([1 + 2j, 0])), slice(0))).text.endswith('AS "value_im" WHERE false')


@pytest.mark.parametrize("kinds", [(np.float64, np.complex128), (np.complex64, np.float32), (np.int64, np.complex128)])
def test_real_part_of_complex_has_two_columns(kinds: tuple[type, type]) -> None:
    a: Any = np.array([3, 0, 7]).astype(kinds[0])
    b: Any = np.array([-4, 0, 2]).astype(kinds[1])
    A, B = sp.asarray(a), sp.asarray(b)
    joined, stacked = np.concatenate([a, b]), np.stack([a, b])
    for key in (np.s_[:3], np.s_[3:], [0, 2], np.s_[1:2]):
        part = sp.concat([A, B])[key]
        np.testing.assert_array_equal(part.compute("duckdb").to_numpy(), joined[key])
        table = sp.sql("select * from part order by 1", part=part).fetchall()
        assert [complex(*line[1:]) for line in table] == [cell for cell in joined[key] if cell]
    for row in (0, 1):
        one = sp.stack([A, B])[row : row + 1]
        np.testing.assert_array_equal(one.compute("duckdb").to_numpy(), stacked[row : row + 1])


def test_sql_of_files(tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s [a] * "name"' / "year=2024"
    folder.parent.mkdir()
    dense = random_array((20, 30))
    relation = stored_relation(folder, dense, dims=("year", "b"))
    text = compile_scan(at(relation, slice(3, 9))).text
    assert f"{folder}/".replace("'", "''") in text
    assert engines.count_nnz(at(relation, slice(3, 9))) == np.count_nonzero(dense[3:9])


@pytest.fixture(scope="module")
def tall(tmp_path_factory: pytest.TempPathFactory) -> Relation:
    """Files that hold many row groups."""
    folder = tmp_path_factory.mktemp("tall") / "a"
    return stored_relation(folder, np.ones((400, 50)), (1, 0), sizes=storage.Sizes(file_rows=20_000, group_rows=500))


def groups_scanned(con: Any, query: str) -> tuple[int, int]:
    plan = con.execute(f"EXPLAIN ANALYZE {query}").fetchall()[0][1]
    found = re.findall(r"Row Groups Scanned:\s*(\d+) / (\d+)", plan)
    assert len(found) == 1, plan
    return int(found[0][0]), int(found[0][1])


def test_view_is_pushed_to_row_groups(tall: Relation) -> None:
    con = duckdb_connection.connect()
    assert groups_scanned(con, register_select(scan_of(tall), con)) == (40, 40)
    for key in ((slice(100, 105),), (103,), (slice(104, 99, -1),), ([104, 100, 100],)):
        scanned, total = groups_scanned(con, register_select(at(tall, *key), con))
        assert total == 40
        assert scanned <= 2


def test_filters_are_pushed_to_row_groups(tall: Relation) -> None:
    con = duckdb_connection.connect()
    text = register_select(at(tall, slice(100, None)), con)
    scanned, _ = groups_scanned(con, f"SELECT count(*) FROM ({text}) WHERE d0 BETWEEN 200 AND 205")
    assert scanned <= 2
    assert con.execute(f"SELECT count(*) FROM ({text}) WHERE d0 BETWEEN 200 AND 205").fetchall() == [(300,)]


def test_derived_order_for_column_slices(tall: Relation) -> None:
    text = compile_scan(at(tall, slice(None), 7)).text
    assert "_orders" in text
    con = duckdb_connection.connect()
    scanned, _ = groups_scanned(con, text)
    assert scanned <= 2


def scanned_by(scan: Any, where: str = "true") -> list[tuple[int, int]]:
    """Return the row groups read, and those of opened files, per scan."""
    con = duckdb_connection.connect()
    text = f"SELECT count(*) FROM ({register_select(scan, con)}) WHERE {where}"
    plan = con.execute(f"EXPLAIN ANALYZE {text}").fetchall()[0][1]
    found = re.findall(r"Row Groups Scanned:\s*(\d+) / (\d+)", plan)
    return [(int(read), int(total)) for read, total in found]


def test_view_of_expression_is_pushed(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    for part in ((A + A * 2)[100:105], (A + A * 2)[104:99:-1], (A * 2 + A).sum(axis=1)[100:105], (A + A)[[104, 100]]):
        scanned = scanned_by(part.__sparrow_scan__())
        assert len(scanned) >= 2
        assert all(read <= 2 for read, _ in scanned)
        assert part.compute(engine="duckdb").to_numpy().shape == part.shape
    text = compile_scan((A + A)[:, 7].__sparrow_scan__()).text
    assert text.count("_orders") == 2


def test_filters_of_expression_are_pushed(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    for whole in (A + A, A * A, (A + A).sum(axis=1)):
        scanned = scanned_by(whole.__sparrow_scan__(), "d0 BETWEEN 200 AND 205")
        assert all(read <= 2 for read, _ in scanned), scanned


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda A, B: A + B,
            """
            SELECT * FROM (
                SELECT e.i0 AS "a", e.i1 AS "b",
                    (coalesce(e.v0, CAST('0.0' AS DOUBLE)) + coalesce(e.v1, CAST('0.0' AS DOUBLE))) AS value
                FROM (
                    SELECT coalesce(l.i0, r.i0) AS i0, coalesce(l.i1, r.i1) AS i1, l.v0, r.value AS v1
                    FROM (
                        SELECT i0, i1, value AS v0
                        FROM (SELECT e."a" AS "i0", e."b" AS "i1", e."value" AS "value" FROM "sparrow.0_entries" AS e)
                    ) AS l
                    FULL JOIN (
                        SELECT e."a" AS "i0", e."b" AS "i1", e."value" AS "value" FROM "sparrow.1_entries" AS e
                    ) AS r ON l.i0 = r.i0 AND l.i1 = r.i1
                ) AS e
            ) WHERE value <> CAST('0.0' AS DOUBLE)
            """,
        ),
        (
            lambda A, B: A * B[0],
            """
            SELECT * FROM (
                SELECT a0.i0 AS "a", a0.i1 AS "b", (a0.value * a1.value) AS value
                FROM (SELECT e."a" AS "i0", e."b" AS "i1", e."value" AS "value" FROM "sparrow.0_entries" AS e) AS a0
                JOIN (
                    SELECT e."b" AS "i1", e."value" AS "value" FROM "sparrow.1_entries" AS e WHERE e."a" = 0
                ) AS a1 ON a0.i1 = a1.i1
            ) WHERE value <> CAST('0.0' AS DOUBLE)
            """,
        ),
        (
            lambda A, B: A.mean(axis=1),
            """
            SELECT * FROM (
                SELECT e.i0 AS "a", sum(CAST(e.value AS DOUBLE)) / CAST('4.0' AS DOUBLE) AS value
                FROM (SELECT e."a" AS "i0", e."value" AS "value" FROM "sparrow.0_entries" AS e) AS e
                GROUP BY e.i0
            ) WHERE value <> CAST('0.0' AS DOUBLE)
            """,
        ),
    ],
)
def test_sql_of_nodes(make: Any, text: str) -> None:
    A, B = (sp.from_coords([[0, 2], [1, 3]], [2.0, 5.0], shape=(3, 4), dims=("a", "b")) for _ in range(2))
    found = compile_scan(make(A, B).__sparrow_scan__()).text
    assert found == re.sub(r"\( | \)", lambda at: at[0].strip(), " ".join(text.split()))


def test_sql_files_have_headers() -> None:
    folder = Path(__file__).parent.parent.parent / "sql" / "duckdb"
    names = sorted(path.stem for path in folder.glob("*.sql"))
    assert names == ["contract", "macros", "modulo64", "spmm", "spmv"]
    for name in names:
        text = sql_text("duckdb", name)
        header = text[: next(at.start() for at in re.finditer(r"^(?!--)", text, re.MULTILINE))]
        assert "Used by" in header
        assert header.startswith("-- ")


def test_views_of_views_are_one_scan(cube: Relation) -> None:
    view = (
        View.identity((6, 7, 5))
        .then((slice(1, None), slice(None), 2))
        .then((slice(None, None, 2), 3))
        .then(slice(1, 3))
    )
    text = compile_scan(scan_of(cube, view)).text
    assert text == (
        f'SELECT (e."a" - 3) // 2 AS "a", e."value" AS "value" FROM {ENTRIES} '
        'WHERE e."b b" = 3 AND e."c""c" = 2 AND e."a" >= 3 AND e."a" % 2 = 1'
    )


def concat_steps(parts: int) -> Any:
    A = sp.random((20, 20), nnz=40, seed=1)
    found = A
    for _ in range(parts):
        found = sp.concat([found, A[:1]])
    return found


def concat_grid(parts: int) -> Any:
    A = sp.random((40, 40), nnz=400, seed=1)
    return sp.concat(
        [sp.concat([A[j : j + 3, i % 30 : i % 30 + 4] for j in range(10)], axis=1) for i in range(parts // 10)]
    )


@pytest.mark.parametrize("make", [concat_steps, concat_grid])
def test_queries_over_many_parts_have_few_tables(make: Callable[[int], Any]) -> None:
    """DuckDB plans a query in time that grows with the square of its tables."""
    done = []
    for parts in (20, 100, 200, 400):
        A = make(parts)
        expected = [(A.nnz, A.to_numpy().sum())]
        with sp.config(threads=1), observe("duckdb.register", "stream.read", "stream.evaluate") as seen:
            found = sp.sql("select count(*), sum(value) from A", A=A).fetchall()
        np.testing.assert_allclose(found, expected)
        tables = [len(details["tables"]) for event, details in seen if event == "duckdb.register"]
        assert tables[0] <= 64
        assert make is concat_steps or tables[0] == (parts if parts == 20 else 1)
        done.append(len(seen))
    assert done[3] - done[2] <= 2.5 * max(done[2] - done[1], 10)
