"""Buffer pool: pages of collected results are reused, pages in use never are."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.runtime import buffer_pool, memory
from sparrow.runtime.settings import config

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are asked of Linux")

MIB = 1 << 20
FLOAT = np.dtype(np.float64)


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    with buffer_pool.isolated(), config(memory_limit="8GiB"):
        yield


def place(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def filled(count: int, value: float, most: int | None = None) -> np.ndarray:
    buffer = buffer_pool.Buffer(most or count, FLOAT)
    buffer.array[:count] = value
    return buffer.truncate(count)


def test_pages_are_pooled_after_the_last_array() -> None:
    first = filled(MIB, 1.0)
    at, part = place(first), first[10:20]
    del first
    assert buffer_pool.cached_bytes() == 0
    second = filled(MIB, 2.0)
    assert place(second) != at
    assert (part == 1).all()
    del part
    assert buffer_pool.cached_bytes() == 8 * MIB
    assert place(filled(MIB, 3.0)) == at
    assert (second == 2).all()


def test_truncate_frees_the_tail() -> None:
    long = filled(MIB, 1.0, most=64 * MIB)
    assert len(long) == MIB
    del long
    assert buffer_pool.cached_bytes() == 8 * MIB
    whole = buffer_pool.Buffer(64 * MIB, FLOAT)
    assert (whole.array[:MIB] == 1).all() or (whole.array[:MIB] == 0).any()  # the same pages, or taken meanwhile
    assert (whole.array[MIB :: MIB // 8] == 0).all()


def test_shorter_results_reuse_similar_sizes() -> None:
    del_me = filled(8 * MIB, 1.0)
    at = place(del_me)
    del del_me
    small = filled(MIB, 2.0)
    assert place(small) != at
    assert buffer_pool.cached_bytes() == 64 * MIB
    half = filled(4 * MIB, 3.0)
    assert place(half) == at
    assert buffer_pool.cached_bytes() == 0
    del half
    assert buffer_pool.cached_bytes() == 32 * MIB


def test_smallest_fitting_pages_are_reused() -> None:
    arrays = [filled(count * MIB, 1.0) for count in (4, 2, 3)]
    places = [place(array) for array in arrays]
    del arrays
    assert place(filled(2 * MIB, 0.0)) == places[1]


def test_pool_share_evicts_least_recently_used() -> None:
    with config(memory_limit=8 * 40 * MIB * 4):  # of which 160 MiB
        first, second, third = (filled(8 * MIB, 1.0) for _ in range(3))
        others = place(second), place(third)
        del first, second
        assert buffer_pool.cached_bytes() == 128 * MIB
        del third
        assert buffer_pool.cached_bytes() == 128 * MIB
        assert {place(kept) for kept in (filled(8 * MIB, 1.0), filled(8 * MIB, 1.0))} <= set(others)
        buffer_pool.release()
        long = filled(21 * MIB, 1.0)
        del long
        assert buffer_pool.cached_bytes() == 0


def test_reservations_evict_pages() -> None:
    with config(memory_limit="2GiB"):
        array = filled(8 * MIB, 1.0)
        del array
        with memory.reserve(2048 * MIB - 64 * MIB, "most of it") as room:
            assert buffer_pool.cached_bytes() == 64 * MIB
            room.grow(1)
            assert buffer_pool.cached_bytes() == 0


def test_scratch_pages_are_reused_then_pooled() -> None:
    scratch = buffer_pool.ScratchPool()
    one, other = (buffer_pool.Buffer(MIB, FLOAT, scratch).truncate(MIB // 2) for _ in range(2))
    one[:], other[:] = 1, 2
    places = {place(one), place(other)}
    del one, other
    assert buffer_pool.cached_bytes() == 0
    again = [buffer_pool.Buffer(MIB, FLOAT, scratch).truncate(MIB) for _ in range(2)]
    assert {place(array) for array in again} == places
    assert sorted(array[: MIB // 2].tolist()[0] for array in again) == [1, 2]  # nobody cleared it
    long = buffer_pool.Buffer(8 * MIB, FLOAT, scratch).truncate(1)  # not in so little
    assert place(long) not in places
    third = buffer_pool.Buffer(MIB, FLOAT, scratch).truncate(MIB)
    assert place(third) not in places
    del again[0], third
    del scratch
    assert buffer_pool.cached_bytes() == 0  # an array is in it still
    del again, long
    gc.collect()
    assert buffer_pool.cached_bytes() == 3 * 8 * MIB + 64 * MIB
    assert len(buffer_pool.Buffer(100, FLOAT, buffer_pool.ScratchPool()).truncate(10)) == 10


def test_threads_share_scratch() -> None:
    scratch = buffer_pool.ScratchPool()

    def used(number: int, scratch: buffer_pool.ScratchPool) -> bool:
        for more in range(200):
            array = buffer_pool.Buffer(MIB, FLOAT, scratch).truncate(MIB)
            array[::4096] = number + more
            if (array[::4096] != number + more).any():
                return False
            del array  # before the next one is made
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(used, range(0, 4000, 1000), [scratch] * 4))
    del scratch
    gc.collect()
    assert 8 * MIB <= buffer_pool.cached_bytes() <= 4 * 8 * MIB


def test_small_limits_disable_the_pool() -> None:
    with config(memory_limit="1GiB"):
        array = filled(8 * MIB, 1.0)
        assert array.flags.owndata
        del array
    array = filled(8 * MIB, 1.0)
    with config(memory_limit="500MB"):
        del array
    assert buffer_pool.cached_bytes() == 0


def test_pages_are_unmapped_without_madv_free(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pages(mmap.mmap):
        def madvise(self, option: int, *span: int) -> None:
            if option != mmap.MADV_DONTNEED:
                raise OSError(errno.EINVAL, "Invalid argument")
            super().madvise(option, *span)

    monkeypatch.setattr(mmap, "mmap", Pages)
    array = filled(8 * MIB, 1.0, most=16 * MIB)
    assert (array == 1).all()
    del array
    assert buffer_pool.cached_bytes() == 0


def test_failed_mapping_empties_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    array = filled(8 * MIB, 1.0)
    del array
    kept: list[int] = []
    made = mmap.mmap

    def mapped(*args: Any, **options: Any) -> mmap.mmap:
        kept.append(buffer_pool.cached_bytes())
        if kept[-1]:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return made(*args, **options)

    monkeypatch.setattr(mmap, "mmap", mapped)
    assert (filled(MIB, 2.0) == 2).all()
    assert kept == [64 * MIB, 0]


def test_impossible_size_raises_memory_error() -> None:
    with pytest.raises(MemoryError):
        _ = buffer_pool.Buffer(1 << 58, FLOAT).array


def test_results_in_use_are_never_overwritten() -> None:
    rng = np.random.default_rng(5)
    A = sp.random((4000, 4000), nnz=700_000, seed=1)
    entries = A.compute().to_scipy("coo")
    held: list[tuple[float, Any]] = []
    reused: set[int] = set()
    again = 0
    for turn in range(40):
        factor = float(turn + 1)
        computed = (A * factor).compute()
        values = computed.__sparrow_scan__().relation.block.values
        again += place(values) in reused
        reused.add(place(values))
        table = computed.to_arrow()
        held.append((factor, [values, values[5:], computed, table][rng.integers(4)]))
        del computed, values, table
        while len(held) > 5:
            held.pop(int(rng.integers(len(held))))
        for factor, kept in held:
            if isinstance(kept, sp.Tensor):
                found = kept.to_scipy("coo").data
            else:
                found = kept if isinstance(kept, np.ndarray) else kept["value"].to_numpy()
            np.testing.assert_array_equal(found, (entries.data * factor)[len(entries.data) - len(found) :])
    assert again > 10
    held.clear()
    gc.collect()


FORK = """
import os, sys
import numpy as np
from sparrow.runtime import buffer_pool
array = buffer_pool.Buffer(1 << 20, np.dtype(np.float64)).truncate(1 << 20)
array[:] = 1
other = buffer_pool.Buffer(1 << 20, np.dtype(np.float64)).truncate(1 << 20)
del other
buffer_pool._free_list.lock.acquire()  # as of a thread that is not in the child
pid = os.fork()
if not pid:
    ok = buffer_pool.cached_bytes() == 0
    mine = buffer_pool.Buffer(1 << 20, np.dtype(np.float64)).truncate(1 << 20)
    mine[:] = 2
    del array
    array = buffer_pool.Buffer(1 << 20, np.dtype(np.float64)).truncate(1 << 20)
    array[:] = 3
    os._exit(0 if ok and (mine == 2).all() else 1)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status) or not (array == 1).all() or buffer_pool.cached_bytes() != 8 << 20)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_has_empty_pool() -> None:
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK], check=True, timeout=60)
