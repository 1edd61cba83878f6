"""Memory budget: reservations, shares, and errors beyond the limit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.core.schema import Schema
from sparrow.errors import TooLargeError
from sparrow.runtime import buffer_pool, memory
from sparrow.runtime.settings import config
from sparrow.runtime.thread_pool import ordered_map


def test_element_bytes() -> None:
    assert Schema((3, 4)).element_bytes() == 4 + 4 + 8
    assert Schema((3, 2**31 + 1), dtype=np.dtype(np.int8)).element_bytes() == 4 + 8 + 1
    assert Schema((3, 4), dtype=np.dtype(np.complex64)).element_bytes(wide=True) == 16 + 8
    assert Schema(()).element_bytes() == 8


def test_reserved_memory_is_not_available() -> None:
    with config(memory_limit=1000):
        assert memory.available() == 1000
        with memory.reserve(600, "one") as one:
            assert memory.available() == 400
            one.grow(100)
            assert (one.nbytes, memory.available()) == (700, 300)
            with pytest.raises(TooLargeError):
                memory.reserve(301, "another")
            with pytest.raises(TooLargeError):
                one.grow(301)
            assert (one.nbytes, memory.available()) == (700, 300)
            with memory.reserve(300, "another"):
                assert memory.available() == 0
        one.release()
        assert memory.available() == 1000


def test_collected_reservation_is_released() -> None:
    with config(memory_limit=1000):
        reservation = memory.reserve(600, "one")
        assert memory.available() == 400
        del reservation
        assert memory.available() == 1000


@buffer_pool.isolate()
def test_finalizers_wait_for_no_lock() -> None:
    arrays = [buffer_pool.Buffer(1 << 20, np.dtype(np.float64)).truncate(1 << 20)]
    rooms = [memory.reserve(600, "one")]
    before = memory.available()
    locked, done = threading.Event(), threading.Event()

    def hold_lock() -> None:
        with memory._ledger.lock:
            locked.set()
            done.wait()

    def collect() -> None:
        with buffer_pool._free_list.lock:  # an allocation under the lock may trigger garbage collection
            rooms.clear()
            arrays.clear()

    holder, collector = (threading.Thread(target=target, daemon=True) for target in (hold_lock, collect))
    holder.start()
    locked.wait()
    collector.start()
    collector.join(60)
    assert not collector.is_alive()
    done.set()
    holder.join()
    assert memory.available() == before + 600
    assert buffer_pool.cached_bytes() == 0  # returned to the system


def test_share_of_available_memory() -> None:
    with config(memory_limit=1000):
        assert memory.share(4) == 250
        assert memory.share(2.5, minimum=50) == 400
        assert memory.share(1, unreserved=300) == 700
        with memory.reserve(800, "one"):
            assert memory.share(4) == 50
            assert memory.share(4, minimum=100) == 100
            assert memory.share(1, minimum=7, unreserved=300) == 7
            buffer = memory.reserve(0, "a buffer")
            buffer.resize(400)  # a minimum may exceed the limit
            assert memory.available() == 0
            buffer.resize(100)
            assert memory.available() == 100


def test_error_messages() -> None:
    with config(memory_limit="1GB"):
        with pytest.raises(TooLargeError) as caught:
            memory.check(2**40, "the dense array")
        assert str(caught.value) == (
            "the dense array would take 1.10 TB (1099511627776 bytes), beyond the memory limit of 1.00 GB (1000000000 "
            "bytes): take a smaller view, or raise the limit with sp.config(memory_limit=...)"
        )
        with memory.reserve(999_999_000, "much"), pytest.raises(TooLargeError) as caught:
            memory.check(1001, "the pointers", "")
        assert str(caught.value) == (
            "the pointers would take 1001 bytes, beyond the memory limit of 1.00 GB (1000000000 bytes), of which "
            "1.00 GB (999999000 bytes) are reserved by concurrent operations: raise the limit with "
            "sp.config(memory_limit=...)"
        )
        assert str(memory.too_large("the labels", 500, "number the ids", room=400)) == (
            "the labels would take 500 bytes, beyond 400 bytes, its share of the memory limit of 1.00 GB (1000000000 "
            "bytes): number the ids, or raise the limit with sp.config(memory_limit=...)"
        )
        assert str(memory.too_large("the query", None, "")).startswith(
            "the query would take more than the memory limit of 1.00 GB"
        )
        memory.check(10**9, "a result of the size of the limit")


def test_error_excludes_the_reservation_itself() -> None:
    with config(memory_limit=1000), memory.reserve(900, "one") as one, pytest.raises(TooLargeError) as caught:
        one.grow(101)
    assert "at least 1001 bytes, beyond the memory limit of 1000 bytes: " in str(caught.value)


def test_workers_share_the_limit() -> None:
    full = threading.Barrier(2)

    def work(_: int) -> bool:
        try:
            with memory.reserve(600, "a piece"):
                full.wait(60)
                full.wait(60)
                return True
        except TooLargeError:
            full.wait(60)
            full.wait(60)
            return False

    with config(memory_limit=1000):
        assert sorted(ordered_map(work, range(2), 2)) == [False, True]
        assert memory.available() == 1000


def test_reservations_are_thread_safe() -> None:
    with config(memory_limit=10**6):
        room = memory.reserve(0, "one")

        def work(_: int) -> None:
            for _ in range(2000):
                with memory.reserve(3, "another"):
                    room.grow(1)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert (room.nbytes, memory.available()) == (8000, 10**6 - 8000)


def test_edit_reserves_its_writes() -> None:
    def fill(edit: Any, rows: int = 1000) -> None:
        for row in range(rows):
            edit[row] = np.ones(1000)

    A: Any = sp.zeros((1000, 1000))
    with config(memory_limit=200_000):
        with A.edit() as edit:
            fill(edit, 5)
            assert memory.available() == 200_000 - edit._room.nbytes < 120_000
            with pytest.raises(TooLargeError, match=r"the writes of this edit .* in several edits"):
                fill(edit)
        assert memory.available() == 200_000
    assert 5000 <= A.nnz <= 12_000


def test_dense_array_respects_reservations() -> None:
    A = sp.eye(1000)
    with config(memory_limit="10MB"):
        assert A.to_numpy().nbytes == 8_000_000
        with (
            memory.reserve(3_000_000, "another"),
            pytest.raises(TooLargeError, match=r"3\.00 MB .* concurrent operations"),
        ):
            A.to_numpy()


FORK = """
import os
from sparrow.runtime import memory
from sparrow.runtime.settings import config
with config(memory_limit=10**6), memory.reserve(600_000, "the parent's") as room:
    pid = os.fork()
    if pid == 0:
        free = memory.available() == 10**6
        room.release()
        os._exit(0 if free and memory.available() == 10**6 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert memory.available() == 400_000
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_has_its_own_account() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", [memory.Reservation, buffer_pool.ScratchPool])
def test_objects_that_were_never_made_are_collected(kind: Any) -> None:
    one = kind.__new__(kind)  # as if Ctrl-C had come before __init__
    del one  # pytest fails on errors of __del__


FAULTS = """
import contextlib, resource, sys
import numpy as np
from sparrow.runtime import memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(1_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
outside = faults()
with memory.reuse_freed_memory():
    faults()
    inside = faults()
print(outside, inside)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_freed_arrays_are_reused_where_the_system_would_get_them() -> None:
    """As in workers of Dask, which set the variable."""
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}
    output = subprocess.check_output([sys.executable, "-c", FAULTS], env=environment, text=True)
    outside, inside = map(int, output.split())
    assert inside < outside / 5, "page faults of 50 arrays"
