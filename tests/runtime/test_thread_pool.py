"""Thread pool: order, exceptions, number of threads, closing, forking, settings."""

from __future__ import annotations

import concurrent.futures.thread
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast
from weakref import WeakSet

import pytest

import sparrow as sp
from sparrow.runtime import settings, thread_pool, threads
from sparrow.runtime.thread_pool import background_thread, is_abandoned, ordered_map

TIMEOUT_SECONDS = 60
"""Seconds after which a test that hangs fails."""


@pytest.fixture
def fresh_pool() -> Iterator[None]:
    with thread_pool.isolate():
        yield


class Count:
    """Number of threads in a block, and its maximum."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self.max = 0
        self.threads: set[int] = set()

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.max = max(self.max, self._now)
            self.threads.add(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._now -= 1


def close(results: Iterator[object]) -> None:
    cast("Generator[object]", results).close()


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
def test_results_are_ordered(threads: int) -> None:
    done = [threading.Event() for _ in range(50)]

    def work(number: int) -> int:
        if threads > 1 and number % 2 == 0:
            assert done[number + 1].wait(TIMEOUT_SECONDS)
        done[number].set()
        return number * number

    assert list(ordered_map(work, range(50), threads)) == [n * n for n in range(50)]


@pytest.mark.parametrize("threads", [1, 3])
def test_exception_is_raised_in_order(threads: int) -> None:
    def work(number: int) -> int:
        if number == 7:
            raise ValueError("seven")
        return number

    results = ordered_map(work, range(20), threads)
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(ValueError, match="seven"):
        next(results)


@pytest.mark.parametrize("threads", [1, 3])
def test_exception_of_items_is_raised_in_order(threads: int) -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("gone")

    results = ordered_map(lambda n: n, items(), threads)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(OSError, match="gone"):
        next(results)


def test_ahead_bounds_consumed_items() -> None:
    consumed = 0

    def items() -> Iterator[int]:
        nonlocal consumed
        for number in range(100):
            consumed += 1
            yield number

    results = ordered_map(lambda n: n, items(), 2, ahead=4)
    for n_results in range(1, 50):
        next(results)
        assert consumed - n_results <= 4
    close(results)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_nested_calls_use_two_threads(depth: int, fresh_pool: None) -> None:
    count = Count()
    both = threading.Barrier(2)
    all_started = threading.Event()

    def leaf(number: int) -> int:
        with count:
            if not all_started.is_set():
                both.wait(TIMEOUT_SECONDS)
                all_started.set()
            return number

    def level(below: int) -> int:
        if not below:
            return sum(ordered_map(leaf, range(4), 2))
        return sum(ordered_map(level, [below - 1] * 3, 2))

    assert level(depth) == 6 * 3**depth
    assert count.max == 2
    assert len(count.threads) <= 3, "two workers, and the caller if it computes items itself"


def test_nested_calls_are_lazy_and_ordered() -> None:
    def outer(_: int) -> list[int]:
        computed: list[int] = []

        def inner(number: int) -> int:
            computed.append(number)
            if number == 3:
                raise ValueError("three")
            return number

        results = ordered_map(inner, range(10), 2)
        assert next(results) == 0
        assert computed == [0]
        assert [next(results), next(results)] == [1, 2]
        with pytest.raises(ValueError, match="three"):
            next(results)
        return computed

    assert list(ordered_map(outer, range(4), 2)) == [[0, 1, 2, 3]] * 4


def test_threads_are_reused(fresh_pool: None) -> None:
    count = Count()

    def work(number: int) -> int:
        with count:
            return number

    for _ in range(50):
        assert list(ordered_map(work, range(5), 2)) == list(range(5))
    assert len(count.threads - {threading.get_ident()}) <= 2


def test_deep_expression_uses_two_workers(tmp_path: Path, fresh_pool: None, monkeypatch: pytest.MonkeyPatch) -> None:
    count = Count()
    run = thread_pool._Task.run

    def run_counted(self: Any, work: Any) -> None:
        with count:
            run(self, work)

    monkeypatch.setattr(thread_pool._Task, "run", run_counted)
    E: Any = sp.random((3000, 3000), nnz=300_000, seed=0).save(tmp_path / "A")
    with settings.config(threads=2):
        for _ in range(2):
            E = E + E.T
        assert E.sum() > 0
    assert count.max <= 3, "two workers, and the caller if it computes items itself"
    assert 1 <= len(count.threads - {threading.get_ident()}) <= 2


@pytest.mark.parametrize("threads", [2, 3])
def test_busy_caller_counts_as_a_thread(threads: int, fresh_pool: None) -> None:
    count = Count()
    begun = [threading.Event() for _ in range(40)]

    def work(number: int) -> int:
        with count:
            begun[number].set()
        return number

    for at, number in enumerate(ordered_map(work, range(40), threads, ahead=8, busy=True)):
        with count:  # workers compute the other pending items meanwhile
            assert begun[min(number + 7, 39)].wait(TIMEOUT_SECONDS)
        assert at == number
    assert count.max <= threads


def test_busy_pool_does_not_block_other_callers(fresh_pool: None) -> None:
    all_busy = threading.Barrier(3)
    go = threading.Event()

    def block(number: int) -> int:
        all_busy.wait(TIMEOUT_SECONDS)
        assert go.wait(TIMEOUT_SECONDS)
        return number

    with ThreadPoolExecutor(1) as user:
        slow = user.submit(lambda: list(ordered_map(block, range(2), 2)))
        all_busy.wait(TIMEOUT_SECONDS)
        assert list(ordered_map(lambda n: n, range(20), 2)) == list(range(20))
        go.set()
        assert slow.result(TIMEOUT_SECONDS) == [0, 1]


def test_close_drops_pending_items() -> None:
    started = [threading.Event() for _ in range(10)]
    ended: list[int] = []

    def work(number: int) -> int:
        started[number].set()
        while number and not is_abandoned():
            threading.Event().wait(0.001)
        ended.append(number)
        return number

    results = ordered_map(work, range(10), 2, ahead=8)
    assert next(results) == 0
    assert started[1].wait(TIMEOUT_SECONDS)
    assert started[2].wait(TIMEOUT_SECONDS)
    close(results)
    assert sorted(ended) == [0, 1, 2]
    assert not any(event.is_set() for event in started[3:])
    assert not is_abandoned()


def test_interrupt_leaves_nothing_running() -> None:
    running = Count()
    started = threading.Event()

    def work(number: int) -> None:
        with running:
            started.set()
            while not is_abandoned():
                threading.Event().wait(0.001)

    def raise_interrupt() -> Iterator[int]:
        yield 0
        assert started.wait(TIMEOUT_SECONDS)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(ordered_map(work, raise_interrupt(), 2))
    assert (running.max, running._now) == (1, 0)


def test_workers_inherit_settings() -> None:
    def threads(_: int) -> int:
        return settings.current().threads

    with settings.config(threads=41):
        results = ordered_map(threads, range(10), 2)
        assert [next(results) for _ in range(5)] == [41] * 5
        assert next(ordered_map(lambda _: list(ordered_map(threads, range(3), 2)), [0], 2)) == [41] * 3
        thread = background_thread("sparrow-test")
        assert thread is not None
        assert thread.submit(threads, 0).result() == 41
        thread.shutdown()
    close(results)


def test_no_background_thread_on_workers() -> None:
    assert list(ordered_map(lambda _: background_thread("sparrow-test"), range(3), 2)) == [None] * 3
    with settings.config(threads=1):
        assert background_thread("sparrow-test") is None


class Thing:
    """Object in the namespace of a thread."""


def test_worker_local_is_dropped_with_the_iterator() -> None:
    things: WeakSet[Thing] = WeakSet()
    thread_pool.worker_local().thing = own_thing = Thing()
    all_started = threading.Barrier(8)
    assert len(list(ordered_map(lambda _: all_started.wait(TIMEOUT_SECONDS), range(8), 8))) == 8  # the pool keeps them

    def work(_: int) -> None:
        own = thread_pool.worker_local()
        if not hasattr(own, "thing"):
            own.thing = Thing()
            things.add(own.thing)
        assert own.thing is not own_thing
        done.release()

    done = threading.Semaphore(0)

    def items() -> Iterator[int]:
        for item in range(100):
            yield item
            assert done.acquire(timeout=TIMEOUT_SECONDS)  # the queue is empty, so the worker leaves

    results = ordered_map(work, items(), 2)
    for _ in range(50):
        next(results)
    assert 1 <= len(things) <= 3, "two workers, and the caller if it computes items itself"
    close(results)
    gc.collect()
    assert not things
    assert thread_pool.worker_local().thing is own_thing


def test_caller_works_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    assert list(ordered_map(lambda n: (n, threading.get_ident()), range(5), 2)) == [
        (n, threading.get_ident()) for n in range(5)
    ]


@pytest.mark.usefixtures("fresh_pool")
def test_ctrl_c_during_thread_start(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[threading.Thread] = []
    start = threading.Thread.start

    def start_and_interrupt(thread: threading.Thread) -> None:
        start(thread)
        begun.append(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(ordered_map(str, range(5), 2))
    for thread in begun:
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive()
    assert len(begun) == 1
    assert list(ordered_map(str, range(5), 2)) == list("01234")


@pytest.mark.usefixtures("fresh_pool")
def test_the_main_thread_starts_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    starters: list[threading.Thread] = []
    start = threading.Thread.start

    def record(thread: threading.Thread) -> None:
        starters.append(threading.current_thread())
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", record)
        assert list(ordered_map(str, range(50), 3)) == [str(k) for k in range(50)]
        pool = threads.BackgroundThread("background")
        assert pool.submit(lambda: settings.current().threads).result() == settings.current().threads
        pool.shutdown()
    assert starters
    assert threading.main_thread() not in starters  # Python raises Ctrl-C there, amid the locks of a start


_WAITING = {
    module.__file__ for module in (thread_pool, threads, threading, concurrent.futures.thread, concurrent.futures._base)
}
"""Code that submits and waits."""


@contextmanager
def interrupt_at(number: int, kind: str) -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` at an event of the code that submits and waits."""
    seen = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal seen
        seen += event == kind and frame.f_code.co_filename in _WAITING
        if seen > number:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def ends(work: Callable[[], Any]) -> bool:
    """Return whether a call ends in time."""
    task = threads.DetachedTask(work, "sparrow-test")
    task.start()
    task.wait(TIMEOUT_SECONDS)
    if task.done:
        task.result()
    return task.done


@pytest.mark.parametrize("kind", ["call", "return"])  # where Python handles signals; between lines it need not
def test_ctrl_c_anywhere_leaves_results_in_order(kind: str) -> None:
    interrupted = 0
    started: SimpleQueue[int] = SimpleQueue()

    def work(item: int) -> int:
        started.put(item)
        return item

    def items() -> Iterator[int]:
        for item in range(20):
            yield item
            with suppress(Empty):
                started.get(timeout=0.001)  # workers start some items and the caller others

    for number in range(0, 700, 7):
        try:
            with interrupt_at(number, kind):
                assert list(ordered_map(work, items(), 3)) == list(range(20))
        except KeyboardInterrupt:
            interrupted += 1
        assert ends(lambda: list(ordered_map(work, items(), 3))), f"a thread waits after Ctrl-C at event {number}"
    assert interrupted > 4


@pytest.mark.parametrize("kind", ["call", "return"])  # where Python handles signals; between lines it need not
def test_ctrl_c_anywhere_leaves_no_thread_waiting(kind: str) -> None:
    interrupted = 0
    for number in range(0, 400, 3):
        pool = threads.BackgroundThread("sparrow-test")
        assert pool.submit(int).result() == 0
        try:
            with interrupt_at(number, kind):
                assert [task.result() for task in [pool.submit(int) for _ in range(4)]] == [0] * 4
        except KeyboardInterrupt:
            interrupted += 1
        assert ends(pool.shutdown), f"a thread waits after Ctrl-C at event {number}"
    assert interrupted > 4


@pytest.mark.parametrize("kind", ["call", "return"])
def test_ctrl_c_anywhere_leaves_no_source_waiting(kind: str) -> None:
    interrupted = 0
    for number in range(0, 400, 3):
        channel = threads.Channel[int](2)
        source = threads.DetachedTask(lambda: [n for n in range(6) if channel.put(n)], "sparrow-test")  # noqa: B023
        source.start()
        try:
            with interrupt_at(number, kind):
                assert [channel.get() for _ in range(6)] == list(range(6))
        except KeyboardInterrupt:
            interrupted += 1
        assert ends(channel.close), f"the caller waits after Ctrl-C at event {number}"
        source.wait(TIMEOUT_SECONDS)
        assert source.done, f"the source waits after Ctrl-C at event {number}"
    assert interrupted > 4


def test_a_channel_has_few_items() -> None:
    channel, put = threads.Channel[int](2), list[int]()

    def fill() -> None:
        for item in range(5):
            put.append(item)
            channel.put(item)

    source = threads.DetachedTask(fill, "sparrow-test")
    source.start()
    for item in range(5):
        assert channel.get() == item
        assert len(put) <= item + 4  # one taken, two in the channel, one that waits
    source.wait(TIMEOUT_SECONDS)
    channel.close()
    assert not channel.put(5)


FORK = """
import os, threading
from sparrow.runtime.thread_pool import ordered_map

def child(work):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0

def works():
    assert list(ordered_map(lambda n: n * n, range(20), 2)) == [n * n for n in range(20)]
    # Both threads of the child's pool work at the same time.
    both = threading.Barrier(2)
    assert len(list(ordered_map(lambda n: both.wait(60), range(2), 2))) == 2

works()
child(works)
list(ordered_map(lambda n: child(works), range(2), 2))

iterator = ordered_map(lambda n: n, range(20), 2)
next(iterator)
def use_iterator():
    try:
        next(iterator)
    except RuntimeError as error:
        assert "created before a fork" in str(error)
    else:
        raise AssertionError
child(use_iterator)
child(lambda: iterator.close())
assert list(iterator) == list(range(1, 20))
"""


def test_forked_child_has_its_own_pool() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=2 * TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stderr


def test_single_item_runs_on_the_caller() -> None:
    assert list(ordered_map(lambda item: (item, threading.get_ident()), [7], 4)) == [(7, threading.get_ident())]
    assert list(ordered_map(str, [], 4)) == []
