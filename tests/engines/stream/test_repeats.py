"""Lists that repeat elements: the results of NumPy, in bounded parts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.core.indexing import Points, View
from sparrow.errors import TooLargeError
from sparrow.testing import observe, strategy, tune
from tests.engines.helpers import random_array, stored_relation

SHAPE = (6, 5)
PLACES = st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=20)
LISTS = st.lists(st.integers(0, 4), min_size=1, max_size=12)

ASKED: dict[str, Callable[[Any], Any]] = {
    "all": lambda V: V,
    "sum": lambda V: V.sum(),
    "max": lambda V: V.max(),
    "sum of rows": lambda V: V.sum(axis=1),
    "sum of columns": lambda V: V.sum(axis=0),
    "twice": lambda V: V * 2,
    "beside itself": lambda V: V + V[::-1],
    "product": lambda V: V @ np.arange(V.shape[1]),
    "product from the left": lambda V: np.arange(V.shape[0]) @ V,
    "position": lambda V: V.argmax(axis=1),
    "turned": lambda V: V.T * 3,
    "part": lambda V: V[1:, ::2],
}


@given(
    lists=st.tuples(LISTS, LISTS), kind=st.sampled_from(["rows", "columns", "both", "pairs"]),
    ask=st.sampled_from(sorted(ASKED)), seed=st.integers(0, 9), stored=st.booleans(), shown=st.sampled_from([1, 6, 99]),
    ascending=st.booleans(), fits=st.booleans(),
)  # fmt: skip
def test_lists_with_repeats_equal_numpy(
    tmp_path_factory: pytest.TempPathFactory, lists: tuple[list[int], list[int]], kind: str, ask: str, seed: int,
    stored: bool, shown: int, ascending: bool, fits: bool,
) -> None:  # fmt: skip
    dense = random_array(SHAPE, seed=seed)
    A: Any = sp.asarray(dense)
    if stored:
        A = sp.Tensor(stored_relation(tmp_path_factory.mktemp("A") / "A", dense))
    rows, columns = map(sorted, lists) if ascending else lists
    if kind == "pairs":
        many = min(len(rows), len(columns))
        key: Any = (np.array(rows[:many])[:, None], np.array(columns[:many])[None, ::-1])
    else:
        both = {"rows": (rows, slice(None)), "columns": (slice(None), columns), "both": np.ix_(rows, columns)}
        key = both[kind]
    parts = 8 if fits else 1 << 60
    with tune("stream", max_shown_elements=shown, partition_rows=16, min_partition_rows=1, lookup_parts=parts):
        found, expected = ASKED[ask](A[key]), ASKED[ask](dense[key])
        np.testing.assert_allclose(found.to_numpy() if isinstance(found, sp.Tensor) else found, expected)
        assert A[key].nnz == np.count_nonzero(dense[key])


@given(
    PLACES, PLACES,
    st.sampled_from([1, 2**40]), st.sampled_from(["points_table", "points_bisection"]), st.integers(1, 3),
)  # fmt: skip
def test_points_are_joined_with_elements(
    points: list[tuple[int, ...]], elements: list[tuple[int, ...]], stride: int, way: str, ndim: int
) -> None:
    def columns(of: list[tuple[int, ...]]) -> tuple[Any, ...]:
        return tuple(np.array([each[k] * stride for each in of], np.int64) for k in range(ndim))

    group = Points(tuple(range(ndim)), columns(points), (len(points),))
    pairs = sorted(
        (n, m) for n, one in enumerate(elements) for m, other in enumerate(points) if one[:ndim] == other[:ndim]
    )
    with strategy(way):
        found = group.match(columns(elements))
        assert sorted(zip(*(part.tolist() for part in found), strict=True)) == pairs
        counts = group.count_matches(columns(elements))
    assert counts.tolist() == [sum(n == k for n, _ in pairs) for k in range(len(elements))]
    repeats = [sum(other[:ndim] == one[:ndim] for other in points) for one in points]
    assert group.max_repeats == max(repeats, default=0)
    for dim, distinct in enumerate(group.distinct):
        np.testing.assert_array_equal(distinct, np.unique(columns(points)[dim]))


@given(LISTS, st.integers(1, 4), st.integers(0, 9))
def test_shown_elements_are_counted(rows: list[int], times: int, seed: int) -> None:
    coords = random_array(SHAPE, seed=seed).nonzero()
    view = View.identity(SHAPE).then((rows, slice(1, None), None))
    view = view.broadcast_to((*view.shape[:2], times))
    assert view.count_shown(coords, len(coords[0])) == len(view.from_base(coords)[0][0])


def test_mask_selection_reads_each_chunk_once(tmp_path: Path) -> None:
    dense = random_array((40, 30), seed=1)
    A: Any = sp.Tensor(stored_relation(tmp_path / "A", dense))
    np.testing.assert_array_equal(A[A > 2].to_numpy(), dense[dense > 2])
    np.testing.assert_array_equal(A[dense > 2].to_numpy(), dense[dense > 2])
    i, j = np.random.default_rng(0).integers(0, 30, (2, 200))
    np.testing.assert_array_equal(A[i, j].to_numpy(), dense[i, j])
    with observe("stream.scan") as seen:
        A[A > 2].compute()
    assert len(seen) <= 2  # of the mask and of the tensor


def test_repeats_beyond_memory_are_refused() -> None:
    row: Any = sp.from_coords([np.zeros(2**17, int), np.arange(2**17)], 1.0, shape=(2, 2**17))
    V = row[np.zeros(2**17, int)]
    assert V.nnz == 2**34
    with sp.config(memory_limit="300MB"):
        for call in (V.compute, V.to_scipy, (V * 2).compute, V.to_numpy):
            with pytest.raises(TooLargeError):
                call()


WORK = """
import sys
import numpy as np, sparrow as sp
limit = 500 * 10**6
sp.config(memory_limit=limit, progress=False)
row = sp.from_coords([np.zeros(10**5, int), np.arange(10**5)], 1.0, shape=(2, 10**5))
if sys.argv[1] == "stored":
    row = row.save(sys.argv[2] + "/row")
V = row[np.zeros(300, int)]
assert V.sum() == V.nnz == (V * 2).nnz == (V @ np.ones(10**5)).sum() == V.sum(axis=0).sum() == 30_000_000
assert V.max() == 1
parts = [sp.random((2000, 1000), nnz=200_000, seed=k) for k in range(30)]
assert sp.concat(parts, axis=1).nnz == 6_000_000
with open("/proc/self/status") as file:  # ru_maxrss begins with that of the parent
    print(next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM")) - limit)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("where", ["memory", "stored"])
def test_repeated_rows_keep_to_the_memory_limit(where: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORK, where, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert int(run.stdout) <= 200 * 10**6
