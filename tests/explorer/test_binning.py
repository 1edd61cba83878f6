"""Pictures of windows beside NumPy's histograms; estimates read few row groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.explorer.binning import WindowCounts, spread_order
from sparrow.explorer.window import Window
from sparrow.testing import observe, tune
from tests.explorer.helpers import expected_counts, make_sparse, save


def count(tensor: sp.Tensor, given: dict[str, Any], bins: tuple[int, ...], sums: bool = False) -> WindowCounts:
    window = Window.parse(given, tensor.shape)
    return WindowCounts(window.scan(tensor), window.places, bins, sums)


def read_all(counts: WindowCounts) -> WindowCounts:
    while not counts.is_exact:
        counts.read(7)
    return counts


SOURCES: dict[str, Callable[[sp.Tensor, Path], sp.Tensor]] = {
    "memory": lambda A, path: A,
    "stored": save,
    "lazy": lambda A, path: save(A, path) * 2 - A,
    "transposed": lambda A, path: save(A.T.persist(), path).T,
    "flipped": lambda A, path: save(A[::-1, ::-1].persist(), path)[::-1, ::-1],
    "listed": lambda A, path: save(A, path)[np.arange(A.shape[0])],
    "ordered": lambda A, path: save(A, path, orders=[(1, 0)]),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("ranges", "bins"),
    [
        ([(0, 70), (0, 50)], (70, 50)),
        ([(0, 70), (0, 50)], (9, 7)),
        ([(11, 64), (3, 4)], (5, 5)),
        ([(69, 70), (0, 50)], (100, 100)),
    ],
)
def test_counts_are_those_of_histogram2d(source: str, ranges: Any, bins: Any, tmp_path: Path) -> None:
    matrix = make_sparse((70, 50), 900)
    tensor = SOURCES[source](matrix, tmp_path / "t")
    found = read_all(count(tensor, {"ranges": ranges}, bins, sums=True)).picture()
    dense = matrix.to_numpy()
    assert np.array_equal(found.counts, expected_counts(dense, ranges, found.steps))
    assert found.sums is not None
    assert np.allclose(found.sums, expected_counts(dense, ranges, found.steps, weights=True))


@pytest.mark.parametrize("source", ["memory", "stored"])
def test_other_axes_are_fixed_or_summed(source: str, tmp_path: Path) -> None:
    cube = make_sparse((20, 30, 10), 2000)
    dense, tensor = cube.to_numpy(), SOURCES[source](cube, tmp_path / "t")
    asked = {"axes": [2, 0], "ranges": [[2, 9], [5, 20]], "fixed": {"1": 3}}
    found = read_all(count(tensor, asked, (100, 100))).picture()
    assert np.array_equal(found.counts, (dense[5:, 3, 2:9] != 0).T)
    found = read_all(count(tensor, {"axes": [1, 2]}, (100, 100))).picture()
    assert np.array_equal(found.counts, (dense != 0).sum(axis=0))


@pytest.mark.parametrize("source", ["memory", "stored"])
def test_vectors_have_counts_and_sums(source: str, tmp_path: Path) -> None:
    vector = make_sparse((1000,), 400)
    tensor = SOURCES[source](vector, tmp_path / "t")
    found = read_all(count(tensor, {"ranges": [[100, 900]]}, (64,), sums=True)).picture()
    dense = vector.to_numpy()
    assert found.sums is not None
    assert np.array_equal(found.counts, expected_counts(dense, [(100, 900)], found.steps))
    assert np.allclose(found.sums, expected_counts(dense, [(100, 900)], found.steps, weights=True))


def test_degrees_and_values_of_a_window(tmp_path: Path) -> None:
    matrix = make_sparse((70, 50), 900)
    counts = read_all(count(save(matrix, tmp_path / "t"), {"ranges": [[10, 60], [5, 45]]}, (8, 8)))
    part = matrix.to_numpy()[10:60, 5:45]
    for axis, counter in enumerate(counts.degrees):
        degrees = (part != 0).sum(axis=1 - axis)
        distinct, number = np.unique(degrees[degrees > 0], return_counts=True)
        assert (counter.summary()["degree"], counter.summary()["count"]) == (distinct.tolist(), number.tolist())
    _, number = np.unique(part[part != 0], return_counts=True)
    assert counts.values.summary()["count"] == number.tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 31, 32, 33])
def test_spread_order_is_a_permutation(n: int) -> None:
    order = spread_order(n)
    assert np.array_equal(np.sort(order), np.arange(n))
    if n > 4:
        gaps = np.diff(np.sort(np.append(order[:4], [-1, n])))
        assert gaps.max() <= n // 4 + 2


def test_first_picture_reads_no_row_group(tmp_path: Path) -> None:
    tensor = save(make_sparse((400, 300), 6000), tmp_path / "t")
    with observe("storage.read_row_group") as reads:
        counts = count(tensor, {}, (40, 30))
        found = counts.picture()
    assert reads == []
    assert counts.num_chunks > 100
    assert not found.is_exact
    assert found.counts.sum() == pytest.approx(tensor.nnz)
    rows = np.cumsum(found.counts.sum(axis=1))
    truth = np.cumsum(expected_counts(tensor.to_numpy(), [(0, 400), (0, 300)], found.steps).sum(axis=1))
    assert np.abs(rows - truth).max() <= 40  # elements of a row group


@pytest.mark.parametrize("transposed", [False, True])
def test_estimates_read_as_few_row_groups_as_asked(transposed: bool, tmp_path: Path) -> None:
    tensor = save(make_sparse((400, 300), 6000), tmp_path / "t")
    tensor = tensor.T if transposed else tensor
    counts = count(tensor, {}, (30, 30), sums=True)
    with observe("storage.read_row_group") as reads:
        counts.read(12)
    assert len(reads) == 12
    found = counts.picture()
    assert (found.read, found.chunks) == (12, counts.num_chunks)
    assert found.counts.sum() == pytest.approx(tensor.nnz)
    assert found.sums is not None
    assert found.sums.sum() == pytest.approx(float(tensor.sum()), rel=0.1)
    shape = tensor.shape
    truth = expected_counts(tensor.to_numpy(), [(0, shape[0]), (0, shape[1])], found.steps)
    for axis in (0, 1):
        shares, true_shares = (np.cumsum(each.sum(axis=axis)) / each.sum() for each in (found.counts, truth))
        assert np.abs(shares - true_shares).max() < 0.1


def test_refinement_ends_exact_and_reads_each_chunk_once(tmp_path: Path) -> None:
    tensor = save(make_sparse((400, 300), 6000), tmp_path / "t")
    counts = count(tensor, {}, (30, 30))
    with observe("storage.read_row_group") as reads:
        read_all(counts)
        counts.read(10)
    assert len(reads) == len({(each["path"], each["row_group"]) for _, each in reads}) == counts.num_chunks


def test_narrow_windows_read_the_order_of_their_axis(tmp_path: Path) -> None:
    matrix = make_sparse((400, 300), 6000)
    tensor = save(matrix, tmp_path / "t", orders=[(1, 0)])
    with observe("storage.read_row_group") as reads:
        counts = read_all(count(tensor, {"ranges": [[0, 400], [250, 256]]}, (100, 100)))
    assert counts.order == (1, 0)
    assert len(reads) == counts.num_chunks <= 10
    dense = matrix.to_numpy()
    assert counts.picture().counts.sum() == (dense[:, 250:256] != 0).sum()


def test_slow_reads_end_a_step_early(tmp_path: Path) -> None:
    tensor = save(make_sparse((400, 300), 6000), tmp_path / "t")
    counts = count(tensor, {}, (30, 30))
    with tune("explorer", step_seconds=0.0), sp.config(threads=1):
        counts.read(50)
    assert counts.num_read == 1
    read_all(counts)
    assert counts.picture().counts.sum() == tensor.nnz


def test_appended_elements_are_counted(tmp_path: Path) -> None:
    tensor = save(make_sparse((400, 300), 6000), tmp_path / "t")
    with tune("storage", append_run_factor=1):
        for seed in (1, 2):
            tensor.append(make_sparse((400, 300), 50, seed), duplicates="last")
    assert np.array_equal(read_all(count(tensor, {}, (400, 300))).picture().counts, tensor.to_numpy() != 0)


@pytest.mark.parametrize("shape", [(0, 5), (5, 5)])
def test_tensors_without_elements(shape: tuple[int, int]) -> None:
    counts = count(sp.zeros(shape), {}, (4, 4))
    assert counts.is_exact
    assert counts.picture().counts.sum() == 0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"axes": [0, 0]}, "axes must be 2 different axes"),
        ({"axes": [0, 5]}, "axes must be an integer from 0 to 2"),
        ({"axes": "01"}, "axes must be a list"),
        ({"ranges": [[0, 1]]}, "ranges must be one pair for each axis"),
        ({"ranges": [[0, 1], [0]]}, "a range must be a pair"),
        ({"ranges": [[0, "x"], [0, 1]]}, "a range must be an integer"),
        ({"fixed": {"1": 99}}, "fixed must be an integer from 0 to 4"),
        ({"fixed": {"0": 0}}, "fixed or shown"),
        ({"fixed": [1]}, "fixed must be an object"),
    ],
)
def test_wrong_windows_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(sp.errors.InvalidValueError, match=problem):
        Window.parse(given, (3, 5, 4))


def test_ranges_are_clipped() -> None:
    window = Window.parse({"ranges": [[-5, 2**62], [2, 2]]}, (3, 5))
    assert window.ranges == ((0, 3), (2, 3))
