"""What people are told of a plan, and that telling reads nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow import engines, storage
from sparrow.core.indexing import View
from sparrow.plan import Dense, MatMulDense
from sparrow.relations.base import Relation
from sparrow.runtime.settings import config
from tests.engines.helpers import Unreadable, at, memory, random_array, scan_of, stored


@pytest.fixture(scope="module")
def tall(tmp_path_factory: pytest.TempPathFactory) -> Relation:
    folder = tmp_path_factory.mktemp("tall") / "a"
    sizes = storage.Sizes(file_rows=5000, group_rows=500)
    return stored(folder, np.ones((400, 50)), (1, 0), sizes=sizes, dims=("src", "dst"))


def without_sizes(text: str) -> str:
    """Blank out bytes, and the row groups of files whose footers nobody looked at."""
    text = re.sub(r"groups  1 of \d+ read, \d+ skipped", "groups  1 of ALL read", text)
    return re.sub(r", [\d.]+ (bytes|kB|MB)\b", ", SIZE", text)


def test_a_scan_of_a_stored_tensor(tall: Relation) -> None:
    text = engines.explain(at(Unreadable(tall), slice(104, 99, -1), slice(10, 30, 2)))
    assert without_sizes(text) == (
        "scan (src: 5, dst: 10) float64, of (src: 400, dst: 50) float64 stored, version 0\n"
        "  engine      stream\n"
        "  predicate   src BETWEEN 100 AND 104 AND dst BETWEEN 10 AND 28 AND dst % 2 = 0\n"
        "  order       src, dst; the view's own order takes a sort\n"
        "  files       1 of 4 read, 3 skipped\n"
        "  row groups  1 of ALL read\n"
        "  rows        500 of 20000 read, 19500 skipped, SIZE"
    )


def test_a_derived_order_is_named(tall: Relation) -> None:
    text = engines.explain(at(Unreadable(tall), slice(None), 7))
    assert "order       dst, src\n" in text
    assert "predicate   dst = 7\n" in text


def test_lists_and_everything() -> None:
    relation = Unreadable(memory(random_array((6, 7)), dims=("a", "b")))
    text = engines.explain(at(relation, [3, 1, 1], [0, 5, 2]))
    assert "predicate   a BETWEEN 1 AND 3 AND b <= 5 AND (a, b) IN a list of 3\n" in text
    assert "predicate   none: everything is read\n" in engines.explain(scan_of(relation))
    assert "no elements, nothing is read" in engines.explain(at(relation, slice(2, 2)))


def test_a_product(tall: Relation) -> None:
    with config(threads=2):
        text = engines.explain(MatMulDense(at(Unreadable(tall), slice(0, 10)), Dense(np.ones(50))))
    assert without_sizes(text) == (
        "matmul (d0: 10) float64\n"
        "  engine      stream: sum runs of equal rows, 2 threads\n"
        "  scan (src: 10, dst: 50) float64, of (src: 400, dst: 50) float64 stored, version 0\n"
        "    engine      stream\n"
        "    predicate   src <= 9\n"
        "    order       src, dst\n"
        "    files       1 of 4 read, 3 skipped\n"
        "    row groups  1 of ALL read\n"
        "    rows        500 of 20000 read, 19500 skipped, SIZE\n"
        "  dense (d0: 50) float64, in memory"
    )
    flipped = engines.explain(MatMulDense(Dense(np.ones((3, 6))), scan_of(memory(random_array((6, 7))))))
    assert flipped.splitlines()[1].endswith("add entry by entry in scan order, decoded on 2 threads")
    assert flipped.splitlines()[2] == "  dense (d0: 3, d1: 6) float64, in memory"


def test_analyze_counts_what_was_read(tall: Relation) -> None:
    text = engines.explain(at(tall, slice(0, 15)), analyze=True)
    assert "\nanalyzed: 750 elements from 1000 rows, 16.0 kB decoded in 2 chunks, " in text
    text = engines.explain(MatMulDense(Dense(np.ones((3, 15))), at(tall, slice(0, 15))), analyze=True)
    assert "\nanalyzed: dense (d0: 3, d1: 50) float64 from 1000 rows, 16.0 kB decoded in 2 chunks, " in text


def test_an_expression_is_a_tree_of_steps(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    found = (A * 2 - A.T[:50].T).sum(axis=1)[100:104]
    text = engines.explain(found.__sparrow_scan__(), engine="duckdb")
    assert without_sizes(text) == (
        "reduce sum over dst (src: 4) float64\n"
        "  engine      duckdb\n"
        "  map subtract (src: 4, dst: 50) float64\n"
        "    engine      duckdb\n"
        "    elements    a union\n"
        "    map multiply (src: 4, dst: 50) float64\n"
        "      engine      duckdb\n"
        "      scan (src: 4, dst: 50) float64, of (src: 400, dst: 50) float64 stored, version 0\n"
        "        engine      duckdb\n"
        "        predicate   src BETWEEN 100 AND 103\n"
        "        order       src, dst\n"
        "        files       1 of 4 read, 3 skipped\n"
        "        row groups  1 of ALL read\n"
        "        rows        500 of 20000 read, 19500 skipped, SIZE\n"
        "      scalar 2\n"
        "    scan (src: 4, dst: 50) float64, of (src: 400, dst: 50) float64 stored, version 0\n"
        "      engine      duckdb\n"
        "      predicate   src BETWEEN 100 AND 103\n"
        "      order       src, dst\n"
        "      files       1 of 4 read, 3 skipped\n"
        "      row groups  1 of ALL read\n"
        "      rows        500 of 20000 read, 19500 skipped, SIZE"
    )
    assert "engine      duckdb" not in engines.explain(found.__sparrow_scan__())


def test_a_step_says_why_it_does_not_run_in_sql(tall: Relation) -> None:
    A: Any = sp.Tensor(Unreadable(tall))
    reason = "float64 to int8: overflow is undefined"
    text = engines.explain((A.astype("int8") + A)[:3, [5, 5]].__sparrow_scan__(), engine="duckdb")
    assert text.splitlines()[:9] == [
        "view (src: 3, dst: 2) float64",
        "  engine      duckdb",
        "  predicate   dst IN a list of 2",
        "  map add (src: 3, dst: 1) float64",
        "    engine      duckdb",
        "    elements    a union",
        "    map astype int8 (src: 3, dst: 1) int8",
        f"      engine      stream, fallback: {reason}",
        "      scan (src: 3, dst: 1) float64, of (src: 400, dst: 50) float64 stored, version 0",
    ]
    streamed = engines.explain((A + A).sum(axis=0, where="stored").__sparrow_scan__())
    assert streamed.startswith(
        "reduce sum over src of stored elements (dst: 50) float64\n  engine      stream\n  map add"
    )


def test_the_way_to_a_column_of_a_sum(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    column = (A + A)[:, 7]
    assert "order       dst, src\n" in column.explain()
    assert column.to_numpy().tolist() == [2.0] * 400
    for engine in ("stream", "duckdb"):
        assert "\nanalyzed: 400 elements, " in column.explain(analyze=True, engine=engine)


@pytest.mark.parametrize("key", [(), (3,), ([2, 2],), (slice(None, None, -2), None, 4), (1, 1)])
def test_building_a_plan_reads_nothing(tmp_path: Path, key: Any) -> None:
    relation = Unreadable(stored(tmp_path / "a", random_array((6, 7))))
    scan = at(relation, *key)
    engines.explain(scan)
    if scan.view.ndim in (1, 2):
        engines.explain(MatMulDense(scan, Dense(np.ones(scan.schema.shape[-1]))))
    scan.transposed()
    with pytest.raises(AssertionError, match="was read"):
        engines.evaluate(scan_of(relation, View.identity((6, 7)).then(slice(1, None))))
