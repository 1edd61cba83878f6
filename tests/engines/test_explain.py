"""What people are told of a plan, and that telling reads nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparrow import engines, storage
from sparrow.index import View
from sparrow.plan import Contract, Dense
from sparrow.relation import Relation
from sparrow.settings import config
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
    assert "no cells, nothing is read" in engines.explain(at(relation, slice(2, 2)))


def test_a_product(tall: Relation) -> None:
    with config(threads=2):
        text = engines.explain(Contract(at(Unreadable(tall), slice(0, 10)), Dense(np.ones(50))))
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
    flipped = engines.explain(Contract(Dense(np.ones((3, 6))), scan_of(memory(random_array((6, 7))))))
    assert flipped.splitlines()[1].endswith("add entry by entry in scan order, decoded on 2 threads")
    assert flipped.splitlines()[2] == "  dense (d0: 3, d1: 6) float64, in memory"


def test_analyze_counts_what_was_read(tall: Relation) -> None:
    text = engines.explain(at(tall, slice(0, 15)), analyze=True)
    assert "\nanalyzed: 750 entries from 1000 rows, 16.0 kB decoded in 2 chunks, " in text
    text = engines.explain(Contract(Dense(np.ones((3, 15))), at(tall, slice(0, 15))), analyze=True)
    assert "\nanalyzed: dense (d0: 3, d1: 50) float64 from 1000 rows, 16.0 kB decoded in 2 chunks, " in text


@pytest.mark.parametrize("key", [(), (3,), ([2, 2],), (slice(None, None, -2), None, 4), (1, 1)])
def test_building_a_plan_reads_nothing(tmp_path: Path, key: Any) -> None:
    relation = Unreadable(stored(tmp_path / "a", random_array((6, 7))))
    scan = at(relation, *key)
    engines.explain(scan)
    if scan.view.ndim in (1, 2):
        engines.explain(Contract(scan, Dense(np.ones(scan.schema.shape[-1]))))
    scan.transposed()
    with pytest.raises(AssertionError, match="was read"):
        engines.entries(scan_of(relation, View.identity((6, 7)).then(slice(1, None))))
