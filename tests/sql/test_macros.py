"""SQL macros in a plain DuckDB, over files that sparrow wrote."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from sparrow import storage
from tests.engines.helpers import memory, random_array

DENSE = random_array((30, 20))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("macros") / "it's.sparrow"
    relation = memory(DENSE, dims=("src", "dst"))
    handle = storage.save(
        folder, relation.schema, iter([relation.block]), sizes=storage.Sizes(file_rows=100, group_rows=10)
    )
    return [record.path for record in handle.files()]


@pytest.fixture
def con(repository: Path) -> Any:
    with duckdb.connect() as connection:
        connection.execute((repository / "sql" / "duckdb" / "macros.sql").read_text(encoding="utf-8"))
        yield connection


def quote_list(files: list[str]) -> str:
    return "[" + ", ".join("'" + path.replace("'", "''") + "'" for path in files) + "]"


def dense(rows: list[tuple[Any, ...]], height: int, width: int = 1) -> NDArray[Any]:
    out = np.zeros((height, width))
    for i, *values in rows:
        out[i] = values
    return out


def test_products_of_views_lists_and_globs(con: Any, files: list[str]) -> None:
    assert len(files) > 1
    rng = np.random.default_rng(0)
    x, X = rng.random(20), rng.random((20, 3))
    con.register("x", pa.table({"anything": np.arange(20), "weight": x}))
    con.register("wide one", pa.table({"j": np.arange(20), "a": X[:, 0], "b": X[:, 1], "value": X[:, 2]}))
    con.execute(f"create view web as from read_parquet({quote_list(files)})")
    glob = "'" + str(Path(files[0]).parent / "*.parquet").replace("'", "''") + "'"
    for matrix in ("'web'", "web", quote_list(files), glob):
        found = con.execute(f"select i, value from spmv({matrix}, 'x')").fetchall()
        np.testing.assert_allclose(dense(found, 30)[:, 0], DENSE @ x)
        cursor = con.execute(f"from spmm({matrix}, 'wide one')")
        assert [column[0] for column in cursor.description] == ["i", "a", "b", "value"]
        np.testing.assert_allclose(dense(cursor.fetchall(), 30, 3), DENSE @ X)


def test_degree(con: Any, files: list[str]) -> None:
    rows = dict(con.execute(f"from degree({quote_list(files)})").fetchall())
    columns = dict(con.execute(f"from degree({quote_list(files)}, dim := 1)").fetchall())
    assert rows == {i: n for i, n in enumerate((DENSE != 0).sum(axis=1).tolist()) if n}
    assert columns == {j: n for j, n in enumerate((DENSE != 0).sum(axis=0).tolist()) if n}


def test_slice(con: Any, files: list[str]) -> None:
    con.execute(f"create view web as from read_parquet({quote_list(files)})")
    found = con.execute("from slice('web', i_from := 5, i_to := 9, j_from := 3) order by all").fetchall()
    expected = [(i, j, DENSE[i, j]) for i in range(5, 9) for j in range(3, 20) if DENSE[i, j]]
    assert found == expected
    assert len(con.execute("from slice('web')").fetchall()) == np.count_nonzero(DENSE)
    plan = con.execute("explain analyze from slice('web', i_from := 5, i_to := 7)").fetchall()[0][1]
    scanned, total = map(int, re.findall(r"Row Groups Scanned:\s*(\d+) / (\d+)", plan)[0])
    assert scanned < total / 3


def test_macros_without_sparrow(repository: Path, files: list[str]) -> None:
    program = (
        "import duckdb, sys\n"
        "con = duckdb.connect()\n"
        "con.execute(open(sys.argv[1]).read())\n"
        "print(con.execute('select sum(degree) from degree(' + sys.argv[2] + ')').fetchall()[0][0])\n"
        "assert 'sparrow' not in sys.modules\n"
    )
    macros = repository / "sql" / "duckdb" / "macros.sql"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, macros, quote_list(files)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == np.count_nonzero(DENSE)
