"""External sort compared with a dictionary: in memory, spilled, wide keys."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparrow.errors import DuplicateError, IngestError, InvalidValueError, StorageError
from sparrow.kernels.coo import Duplicates
from sparrow.kernels.keys import choose_layout, pack, sort_stable, unpack
from sparrow.runtime import memory, settings
from sparrow.sorting import Rows, SpillFile, memory_budget
from sparrow.sorting.sorter import Sorter
from sparrow.testing import observe, strategy, tune

RULES: list[Duplicates] = ["sum", "last", "first", "min", "max"]


def fold(rule: str, values: Sequence[Any]) -> Any:
    if rule == "sum":
        return functools.reduce(np.add, values)
    return {"last": values[-1], "first": values[0], "min": np.min(values), "max": np.max(values)}[rule]


def reduce_rows(batches: Sequence[Rows], rule: str, dtype: np.dtype[Any]) -> dict[tuple[int, ...], Any]:
    cells: dict[tuple[int, ...], list[Any]] = {}
    for batch in batches:
        values = np.ones(batch.size, dtype) if batch.values is None else batch.values
        for cell, value in zip(zip(*(c.tolist() for c in batch.coords), strict=True), values, strict=True):
            cells.setdefault(cell, []).append(value)
    folded = {cell: fold(rule, cells[cell]) for cell in sorted(cells)}
    return {cell: value for cell, value in folded.items() if value != 0}


def run(
    batches: Sequence[Rows], rule: Duplicates, dtype: np.dtype[Any], ids: Any = None
) -> tuple[dict[tuple[int, ...], Any], Sorter]:
    ndim = len(batches[0].coords)
    out: dict[tuple[int, ...], Any] = {}
    last: tuple[int, ...] | None = None
    with closing(Sorter(ndim, dtype, weighted=batches[0].values is not None, duplicates=rule)) as sorter:
        assert not sorter.consume(map(sorter.prepare, batches))
        for block in sorter.blocks([np.dtype(np.int64)] * ndim, dtype.type(0), ids):
            assert block.values.dtype == dtype
            for cell, value in zip(zip(*(c.tolist() for c in block.coords), strict=True), block.values, strict=True):
                assert last is None or last < cell
                last = cell
                out[cell] = value
    return out, sorter


@st.composite
def inputs(draw: st.DrawFn, weighted: bool, largest: int) -> list[Rows]:
    ndim = draw(st.integers(1, 4))
    tops = [draw(st.sampled_from([0, 1, 3, 40, 2**20, 2**31, largest])) for _ in range(ndim)]
    seed = draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    batches = []
    for _ in range(draw(st.integers(1, 6))):
        n = draw(st.sampled_from([0, 1, 2, 5, 50, 300]))
        coords = tuple(
            np.minimum(rng.integers(0, top, n, endpoint=True), rng.integers(0, top, n, endpoint=True)) for top in tops
        )
        values = rng.integers(-3, 4, n) * 0.1 if weighted else None
        rows = Rows(coords, values)
        if draw(st.booleans()):
            rows = rows.take(np.lexsort(tuple(reversed(coords))))
        batches.append(rows)
    if draw(st.booleans()):  # as files in column order are read
        whole = Rows(
            tuple(np.concatenate([batch.coords[k] for batch in batches]) for k in range(ndim)),
            np.concatenate([batch.values for batch in batches]) if weighted else None,
        )
        whole = whole.take(np.lexsort((whole.coords[0], *reversed(whole.coords[1:]))))
        cuts = np.cumsum([batch.size for batch in batches])
        batches = [whole.take(slice(stop - batch.size, stop)) for batch, stop in zip(batches, cuts, strict=True)]
    return batches


@given(st.data(), st.sampled_from(RULES), st.booleans(), st.booleans())
def test_sorter_equals_dictionary(data: st.DataObject, rule: Duplicates, weighted: bool, spill: bool) -> None:
    batches = data.draw(inputs(weighted, 2**40))
    dtype = np.dtype(np.float64 if weighted else np.int64)
    with tune("sorting", budget_bytes=800 if spill else None, sample_stride=4):
        found, sorter = run(batches, rule, dtype)
    want = reduce_rows(batches, rule, dtype)
    assert list(found) == list(want)
    # Bit for bit: sums run in the order of the input.
    assert [np.asarray(v).tobytes() for v in found.values()] == [np.asarray(v).tobytes() for v in want.values()]
    for dim, top in enumerate(sorter.maxima):
        assert top == max((int(p.coords[dim].max()) for p in batches if p.size), default=-1)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float32", "complex64", "complex128"])
@pytest.mark.parametrize("top", [7, 2**62])
def test_every_dtype(rule: Duplicates, dtype: str, top: int) -> None:
    rng = np.random.default_rng(3)
    batches = []
    for n in (40, 1, 90):
        coords = (rng.integers(0, 3, n) * (top // 3), rng.integers(0, 3, n) * (top // 3))
        values = rng.integers(0, 5, n).astype(dtype)
        if values.dtype.kind == "c":
            values = (values * (1 + 2j)).astype(dtype)
        batches.append(Rows(coords, values))
    found, _ = run(batches, rule, np.dtype(dtype))
    assert found == reduce_rows(batches, rule, np.dtype(dtype))


def big_batches(weighted: bool, spread: int, far: int = 1, ndim: int = 2) -> Iterator[Rows]:
    """Yield rows of which most are one element.

    With ``far=2**60`` coordinates exceed 63 bits.
    """
    rng = np.random.default_rng(11)
    for _ in range(6):
        n = 4000
        src = np.where(rng.random(n) < 0.6, 5, rng.integers(0, spread, n))
        dst = np.where(src == 5, 7, rng.integers(0, 4, n))
        others = [np.where(src == 5, 7, rng.integers(0, 4, n)) for _ in range(ndim - 2)]
        yield Rows((src, *(column * far for column in (dst, *others))), rng.random(n) if weighted else None)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("budget", [10**9, 200_000])
@pytest.mark.parametrize(("far", "ndim"), [(1, 2), (2**60, 2), (2**60, 3)])
def test_duplicates_exceed_a_range(weighted: bool, rule: Duplicates, budget: int, far: int, ndim: int) -> None:
    batches = list(big_batches(weighted, 3000, far, ndim))
    dtype = np.dtype(np.float64 if weighted else np.int64)
    with (
        tune("sorting", budget_bytes=budget, chunk_rows=1000, min_range_rows=1 << 12, max_range_rows=1 << 12),
        observe("sorting.sort_group") as groups,
    ):
        found, _ = run(batches, rule, dtype)
    assert found == reduce_rows(batches, rule, dtype)
    assert len(groups) == (ndim - 1 if far > 1 else 0)


@pytest.mark.parametrize("ndim", [2, 3])
def test_duplicate_error_names_wide_coordinates(ndim: int) -> None:
    rng = np.random.default_rng(2)
    coords = [np.full(20_000, 5), *(rng.permutation(20_000) + 2**62 for _ in range(ndim - 1))]
    batches = [Rows(tuple(coords), None), Rows(tuple(column[77:78] for column in coords), None)]
    cell = ", ".join(str(int(column[77])) for column in coords)
    with tune("sorting", min_range_rows=1 << 12, max_range_rows=1 << 12):
        with pytest.raises(DuplicateError, match=rf"element \({cell}\) is given more than once"):
            run(batches, "error", np.dtype(np.int64))
        assert len(run(batches[:1], "error", np.dtype(np.int64))[0]) == 20_000


@pytest.mark.parametrize("far", [1, 2**60])
def test_bits_independent_of_threads_and_memory(far: int) -> None:
    batches = list(big_batches(True, 50, far))
    dtype = np.dtype(np.float64)
    runs = []
    for threads in (1, 4):
        for budget in (10**9, 300_000):
            with tune("sorting", budget_bytes=budget), settings.config(threads=threads):
                runs.append(run(batches, "sum", dtype)[0])
    assert all(each == runs[0] for each in runs)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("far", [1, 2**60])
def test_parts_are_consecutive(weighted: bool, far: int) -> None:
    batches = list(big_batches(weighted, 3000, far))
    dtype = np.dtype(np.float64 if weighted else np.int64)
    small = tune(
        "sorting", single_part_max_rows=5000, max_part_rows=5000, min_range_rows=1 << 12, max_range_rows=1 << 12
    )
    with small, closing(Sorter(2, dtype, weighted=weighted, duplicates="sum")) as sorter:
        sorter.consume(map(sorter.prepare, batches))
        parts = sorter.parts([np.dtype(np.int64)] * 2, dtype.type(0))
        assert len(parts) > 3
        cells = [list(zip(*(c.tolist() for c in block.coords), strict=True)) for part in parts for block in part]
    flat = [cell for block in cells for cell in block]
    assert flat == list(reduce_rows(batches, "sum", dtype))


@pytest.mark.parametrize("top", [9, 2**62])
@pytest.mark.parametrize("weighted", [True, False])
def test_duplicate_error_names_the_element(top: int, weighted: bool) -> None:
    values = np.ones(2) if weighted else None
    batches = [Rows((np.array([0, top]), np.array([top, 3])), values)] * 2
    with pytest.raises(DuplicateError, match=rf"element \(0, {top}\) is given more than once: pass duplicates='sum'"):
        run(batches, "error", np.dtype(np.float64 if weighted else np.int64))


def test_duplicate_error_beyond_a_range() -> None:
    small = tune("sorting", min_range_rows=1 << 12, max_range_rows=1 << 12)
    with small, pytest.raises(DuplicateError, match=r"element \(5, 7\)"):
        run([Rows((np.full(50_000, 5), np.full(50_000, 7)), None)], "error", np.dtype(np.int64))


def test_late_large_coordinates_repack_runs() -> None:
    """Repack runs in memory and on disk, then switch to the leading coordinate."""
    rng = np.random.default_rng(5)
    for tops in ([9, 2**31, 2**33], [9, 2**31, 2**33, 2**40, 2**61]):
        batches = [
            Rows((rng.integers(0, 4, 500), rng.integers(0, top, 500, endpoint=True)), rng.random(500)) for top in tops
        ]
        batches.append(Rows((np.array([2**31]), np.array([0])), np.array([1.0])))
        with tune("sorting", budget_bytes=3000):
            found, sorter = run(batches, "sum", np.dtype(np.float64))
        assert found == reduce_rows(batches, "sum", np.dtype(np.float64))
        assert sorter.maxima[0] == 2**31


def test_counts_must_fit_dtype() -> None:
    batches = [Rows((np.zeros(300, np.int64),), None)]
    assert run(batches, "sum", np.dtype(np.int16))[0] == {(0,): 300}
    assert run(batches, "first", np.dtype(np.int8))[0] == {(0,): 1}
    with pytest.raises(InvalidValueError, match="the count of an element must fit int8, got 300"):
        run(batches, "sum", np.dtype(np.int8))


def test_ids_become_positions() -> None:
    batches = [Rows((np.array([30, 10, 30]), np.array([1, 2, 2])), None)]
    found, _ = run(batches, "sum", np.dtype(np.int64), [np.array([10, 30]), None])
    assert found == {(0, 2): 1, (1, 1): 1, (1, 2): 1}


def test_consume_pauses_while_rows_ascend() -> None:
    with tune("sorting", budget_bytes=1000):
        sorter = Sorter(1, np.dtype(np.int64), weighted=False, duplicates="sum")
    batches = iter([sorter.prepare(Rows((np.arange(k * 100, k * 100 + 100),), None)) for k in range(5)])
    assert sorter.consume(batches, pause=True)
    assert sum(run.count for run in sorter.drain()) == 200
    following = next(batches)
    assert sorter.follows(following)
    assert not sorter.follows(sorter.prepare(Rows((np.arange(150, 160),), None)))
    assert not sorter.follows(sorter.prepare(Rows((np.array([900, 900]),), None)))


def test_waiting_rows_are_reserved_until_released() -> None:
    free = memory.available()
    rows = Rows((np.arange(1000)[::-1],), np.ones(1000))
    with closing(Sorter(1, np.dtype(np.float64), weighted=True, duplicates="sum")) as sorter:
        sorter.consume([sorter.prepare(rows)])
        assert memory.available() == free - 16_000
        assert sum(block.count for block in sorter.blocks([np.dtype(np.int64)], 0.0)) == 1000
    assert memory.available() == free
    with (
        tune("sorting", budget_bytes=20_000),
        observe("sorting.spill") as spills,
        closing(Sorter(1, np.dtype(np.float64), weighted=True, duplicates="sum")) as sorter,
    ):
        for reserved in (16_000, 0, 16_000, 0):  # the second run exceeds the budget: both are spilled
            sorter.consume([sorter.prepare(rows)])
            assert memory.available() == free - reserved
        assert len(spills) == 2
    assert memory.available() == free


def test_memory_budget_is_a_share_of_free_memory() -> None:
    with settings.config(memory_limit="1.4GB"):
        assert memory_budget() == 400_000_000
        with memory.reserve(500_000_000, "another"):
            assert memory_budget() == 200_000_000
        with memory.reserve(1_300_000_000, "another"):
            assert memory_budget() == 40_000_000


@pytest.mark.parametrize("far", [1, 2**60])
def test_full_disk_raises_storage_error(far: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with (
        tune("sorting", budget_bytes=1000),
        pytest.raises(StorageError, match=r"No space left on device; free space, or set another"),
    ):
        run(list(big_batches(False, 100, far)), "sum", np.dtype(np.int64))


@pytest.mark.parametrize("far", [1, 2**60])
@pytest.mark.parametrize("error", [IngestError("a bad token", "file.txt", 7, "x"), KeyboardInterrupt()])
def test_errors_of_the_input_propagate(far: int, error: BaseException) -> None:
    def failing() -> Iterator[Rows]:
        yield from big_batches(False, 100, far)
        raise error

    with closing(Sorter(2, np.dtype(np.int64), weighted=False, duplicates="sum")) as sorter:
        with pytest.raises(type(error)) as caught:
            sorter.consume(map(sorter.prepare, failing()))
        assert caught.value is error


def test_spill_file_is_unnamed(tmp_path: Any) -> None:
    with settings.config(temp_directory=tmp_path):
        spool = SpillFile()
        first = spool.append(np.arange(5))
        second = spool.append(np.arange(3, dtype=np.int16))
        spool.write(first, 2, np.array([20, 30]))
        assert spool.read(first, 1, 5).tolist() == [1, 20, 30, 4]
        assert spool.read(second, 0, 3).tolist() == [0, 1, 2]
        assert not list(tmp_path.iterdir())
        spool.close()
        with pytest.raises(ValueError, match="is closed"):
            spool.read(first, 0, 5)
        with pytest.raises(ValueError, match="is closed"):
            spool.append(np.arange(5))


@given(st.lists(st.integers(0, 2**63 - 1)), st.integers(0, 63))
def test_radix_sort_is_stable(keys: list[int], shift: int) -> None:
    array: NDArray[np.int64] = np.array(keys, np.int64) >> shift
    found, order = sort_stable(array, 0)
    want = np.argsort(array, kind="stable")
    assert order.tolist() == want.tolist()
    assert found.tolist() == array[want].tolist()


def test_column_sorted_input_skips_sorted_bits() -> None:
    rng = np.random.default_rng(5)
    batches = [Rows((rng.integers(0, 50, 400), np.sort(rng.integers(100 * k, 100 * (k + 1), 400))), rng.random(400))
              for k in range(3)]  # fmt: skip
    for parts, bits in ((batches, [32] * 4), (batches[::-1], [32] * 3 + [0])):
        with observe("sorting.sort_rows") as sorts:
            found, _ = run(parts, "sum", np.dtype(np.float64))
        assert found == reduce_rows(parts, "sum", np.dtype(np.float64))
        assert [details["sorted_bits"] for _, details in sorts] == bits


@pytest.mark.parametrize("top", [10, 100_000, 2**33])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("count", [1, 5])
def test_runs_are_partitioned_then_sorted_on_merge(top: int, together: bool, columns: bool, count: int) -> None:
    rng = np.random.default_rng(top + together)
    batches = []
    for k in range(count):
        rows, cols = rng.integers(0, top, 300), rng.integers(100 * k, 100 * (k + 1), 300)
        if together:  # rows in the same partition
            rows = np.where(rng.random(300) < 0.9, rows % 7, rows)
        batches.append(Rows((rows, np.sort(cols) if columns else cols), rng.integers(1, 9, 300) * 0.1))
    with strategy("small_ranges"), observe("sorting.sort_run") as sorts:
        found, _ = run(batches, "last", np.dtype(np.float64))
    assert found == reduce_rows(batches, "last", np.dtype(np.float64))
    if top > 1 << 11:
        assert bool(sorts) == together


@given(st.lists(st.integers(0, 2**21 - 1), min_size=3, max_size=3))
def test_keys_round_trip(cell: list[int]) -> None:
    layout = choose_layout([2**21 - 1] * 3)
    assert layout == (21, 21, 21)
    columns = [np.array([c]) for c in cell]
    assert [int(c[0]) for c in unpack(pack(columns, layout), layout)] == cell


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
@pytest.mark.parametrize("far", [1, 2**60])
@pytest.mark.parametrize("spill", [False, True])
def test_wide_sums(dtype: str, far: int, spill: bool) -> None:
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(5):
        rows = rng.integers(0, 3, 3000)
        values = rng.random(3000).astype(dtype)
        batches.append(Rows((rows, rows * far, rows % 2 * far), values))
    exact = np.zeros(3, np.complex128)
    for batch in batches:
        assert batch.values is not None
        np.add.at(exact, batch.coords[0], batch.values.astype(np.complex128))
    kind = np.dtype(dtype)
    with (
        tune("sorting", budget_bytes=20_000 if spill else None, sample_stride=4),
        closing(Sorter(3, kind, weighted=True, duplicates="sum", wide_sums=True)) as sorter,
    ):
        sorter.consume(map(sorter.prepare, batches))
        blocks = list(sorter.blocks([np.dtype(np.int64)] * 3, None))
    found = np.concatenate([block.values for block in blocks])
    assert found.dtype == kind
    np.testing.assert_array_equal(found, (exact if kind.kind == "c" else exact.real).astype(kind))
