"""Buffer pool: reuse of pages of collected results, never of pages in use."""

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

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the pool requires Linux")

MIB = 1 << 20
FLOAT = np.dtype(np.float64)


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    with buffer_pool.isolate(), config(memory_limit="8GiB"):
        yield


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def make_filled(count: int, value: float, max_count: int | None = None) -> np.ndarray:
    buffer = buffer_pool.Buffer(max_count or count, FLOAT)
    buffer.array[:count] = value
    return buffer.truncate(count)


def test_pages_are_pooled_after_the_last_array() -> None:
    first = make_filled(MIB, 1.0)
    freed, part = address(first), first[10:20]
    del first
    assert buffer_pool.cached_bytes() == 0
    second = make_filled(MIB, 2.0)
    assert address(second) != freed
    assert (part == 1).all()
    del part
    assert buffer_pool.cached_bytes() == 8 * MIB
    assert address(make_filled(MIB, 3.0)) == freed
    assert (second == 2).all()


def test_truncate_frees_the_tail() -> None:
    long = make_filled(MIB, 1.0, max_count=64 * MIB)
    assert len(long) == MIB
    del long
    assert buffer_pool.cached_bytes() == 8 * MIB
    buffer = buffer_pool.Buffer(64 * MIB, FLOAT)
    assert (buffer.array[:MIB] == 1).all() or (buffer.array[:MIB] == 0).any()  # the same pages, or reclaimed meanwhile
    assert (buffer.array[MIB :: MIB // 8] == 0).all()


def test_shorter_results_reuse_similar_sizes() -> None:
    large = make_filled(8 * MIB, 1.0)
    freed = address(large)
    del large
    small = make_filled(MIB, 2.0)
    assert address(small) != freed
    assert buffer_pool.cached_bytes() == 64 * MIB
    half = make_filled(4 * MIB, 3.0)
    assert address(half) == freed
    assert buffer_pool.cached_bytes() == 0
    del half
    assert buffer_pool.cached_bytes() == 32 * MIB


def test_smallest_fitting_pages_are_reused() -> None:
    arrays = [make_filled(count * MIB, 1.0) for count in (4, 2, 3)]
    addresses = [address(array) for array in arrays]
    del arrays
    assert address(make_filled(2 * MIB, 0.0)) == addresses[1]


def test_pool_share_evicts_least_recently_used() -> None:
    with config(memory_limit=8 * 40 * MIB * 4):  # the pool may use 160 MiB
        first, second, third = (make_filled(8 * MIB, 1.0) for _ in range(3))
        others = address(second), address(third)
        del first, second
        assert buffer_pool.cached_bytes() == 128 * MIB
        del third
        assert buffer_pool.cached_bytes() == 128 * MIB
        assert {address(array) for array in (make_filled(8 * MIB, 1.0), make_filled(8 * MIB, 1.0))} <= set(others)
        buffer_pool.release()
        long = make_filled(21 * MIB, 1.0)
        del long
        assert buffer_pool.cached_bytes() == 0


def test_reservations_evict_pages() -> None:
    with config(memory_limit="2GiB"):
        array = make_filled(8 * MIB, 1.0)
        del array
        with memory.reserve(2048 * MIB - 64 * MIB, "a large result") as room:
            assert buffer_pool.cached_bytes() == 64 * MIB
            room.grow(1)
            assert buffer_pool.cached_bytes() == 0


def test_scratch_pages_are_reused_then_pooled() -> None:
    scratch = buffer_pool.ScratchPool()
    one, other = (buffer_pool.Buffer(MIB, FLOAT, scratch).truncate(MIB // 2) for _ in range(2))
    one[:], other[:] = 1, 2
    addresses = {address(one), address(other)}
    del one, other
    assert buffer_pool.cached_bytes() == 0
    again = [buffer_pool.Buffer(MIB, FLOAT, scratch).truncate(MIB) for _ in range(2)]
    assert {address(array) for array in again} == addresses
    assert sorted(array[: MIB // 2].tolist()[0] for array in again) == [1, 2]  # not zeroed
    long = buffer_pool.Buffer(8 * MIB, FLOAT, scratch).truncate(1)  # larger than the free pages
    assert address(long) not in addresses
    third = buffer_pool.Buffer(MIB, FLOAT, scratch).truncate(MIB)
    assert address(third) not in addresses
    del again[0], third
    del scratch
    assert buffer_pool.cached_bytes() == 0  # an array still uses the pages
    del again, long
    gc.collect()
    assert buffer_pool.cached_bytes() == 3 * 8 * MIB + 64 * MIB
    assert len(buffer_pool.Buffer(100, FLOAT, buffer_pool.ScratchPool()).truncate(10)) == 10


def test_threads_share_scratch() -> None:
    scratch = buffer_pool.ScratchPool()

    def fill_repeatedly(number: int, scratch: buffer_pool.ScratchPool) -> bool:
        for more in range(200):
            array = buffer_pool.Buffer(MIB, FLOAT, scratch).truncate(MIB)
            array[::4096] = number + more
            if (array[::4096] != number + more).any():
                return False
            del array  # before the next allocation
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(fill_repeatedly, range(0, 4000, 1000), [scratch] * 4))
    del scratch
    gc.collect()
    assert 8 * MIB <= buffer_pool.cached_bytes() <= 4 * 8 * MIB


def test_small_limits_disable_the_pool() -> None:
    with config(memory_limit="1GiB"):
        array = make_filled(8 * MIB, 1.0)
        assert array.flags.owndata
        del array
    array = make_filled(8 * MIB, 1.0)
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
    array = make_filled(8 * MIB, 1.0, max_count=16 * MIB)
    assert (array == 1).all()
    del array
    assert buffer_pool.cached_bytes() == 0


def test_failed_mapping_empties_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    array = make_filled(8 * MIB, 1.0)
    del array
    cached: list[int] = []
    mmap_class = mmap.mmap

    def fail_while_cached(*args: Any, **options: Any) -> mmap.mmap:
        cached.append(buffer_pool.cached_bytes())
        if cached[-1]:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return mmap_class(*args, **options)

    monkeypatch.setattr(mmap, "mmap", fail_while_cached)
    assert (make_filled(MIB, 2.0) == 2).all()
    assert cached == [64 * MIB, 0]


def test_impossible_size_raises_memory_error() -> None:
    with pytest.raises(MemoryError):
        _ = buffer_pool.Buffer(1 << 58, FLOAT).array


def test_results_in_use_are_never_overwritten() -> None:
    rng = np.random.default_rng(5)
    A = sp.random((4000, 4000), nnz=700_000, seed=1)
    entries = A.compute().to_scipy("coo")
    results: list[tuple[float, Any]] = []
    reused: set[int] = set()
    again = 0
    for turn in range(40):
        factor = float(turn + 1)
        computed = (A * factor).compute()
        values = computed.__sparrow_scan__().relation.block.values
        again += address(values) in reused
        reused.add(address(values))
        table = computed.to_arrow()
        results.append((factor, [values, values[5:], computed, table][rng.integers(4)]))
        del computed, values, table
        while len(results) > 5:
            results.pop(int(rng.integers(len(results))))
        for factor, result in results:
            if isinstance(result, sp.Tensor):
                found = result.to_scipy("coo").data
            else:
                found = result if isinstance(result, np.ndarray) else result["value"].to_numpy()
            np.testing.assert_array_equal(found, (entries.data * factor)[len(entries.data) - len(found) :])
    assert again > 10
    results.clear()
    gc.collect()


FORK = """
import os, sys
import numpy as np
from sparrow.runtime import buffer_pool
array = buffer_pool.Buffer(1 << 20, np.dtype(np.float64)).truncate(1 << 20)
array[:] = 1
other = buffer_pool.Buffer(1 << 20, np.dtype(np.float64)).truncate(1 << 20)
del other
buffer_pool._free_list.lock.acquire()  # as by a thread that does not exist in the child
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
