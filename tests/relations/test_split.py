"""Relations whose chunks are split: slices of the elements in a box."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.core.indexing import Box
from sparrow.engines.stream.repeats import split_repeats
from sparrow.relations.split import SplitRelation
from sparrow.tensor.base import as_scan
from tests.engines.helpers import stored_relation


@pytest.mark.parametrize("rows", [1, 3, 1000])
@pytest.mark.parametrize("ranges", [(range(40), range(5)), (range(7, 9), range(5)), (range(0, 40, 3), range(1, 2))])
def test_slices_hold_the_elements_of_a_box_once(tmp_path: Path, rows: int, ranges: tuple[range, range]) -> None:
    dense = np.random.default_rng(0).integers(1, 9, (40, 5)) * (np.random.default_rng(1).random((40, 5)) < 0.6)
    stored = stored_relation(tmp_path / "t", dense)
    relation = SplitRelation(stored, rows, 5.0)
    with sparrow.testing.tune("relations", max_slices=16):
        chunks = relation.chunks(Box(ranges))
        blocks = [relation.read(chunk) for chunk in chunks]
    assert len(stored.chunks(Box(ranges))) <= len(chunks) <= 16 * len(stored.chunks(Box(ranges)))
    found = np.zeros_like(dense)
    for block in blocks:
        np.add.at(found, tuple(block.coords), block.values)
    wanted = np.zeros_like(dense)
    wanted[np.ix_(*ranges)] = dense[np.ix_(*ranges)]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("is_stored", [True, False])
def test_boxes_that_follow_each_other_are_told_apart(tmp_path: Path, is_stored: bool) -> None:
    dense = np.arange(1, 301)
    relation = SplitRelation(
        stored_relation(tmp_path / "t", dense) if is_stored else as_scan(dense).relation, 1000, 1.0
    )
    for row in range(300):  # each chunk and box may get the memory, and so the id, of those before
        (chunk,) = relation.chunks(Box((range(row, row + 1),)))
        assert relation.read(chunk).coords[0].tolist() == [row]


def test_repeating_one_of_many_rows_makes_few_slices(tmp_path: Path) -> None:
    A = sp.random((5000, 20), density=0.5, seed=1).save(tmp_path / "A")
    scan = split_repeats(as_scan(A[np.zeros(2_000_000, int)]))
    relation = scan.relation
    assert isinstance(relation, SplitRelation)
    chunks = relation.chunks(scan.view.box())
    assert 1 < len(chunks) <= 1 << 12  # a chunk has 50,000 elements
    assert sum(relation.read(chunk).count for chunk in chunks) == A[0].nnz
