"""Settings: plain calls, blocks, threads, tasks and generators."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sparrow import engines
from sparrow.errors import InvalidValueError
from sparrow.runtime import settings
from sparrow.runtime.settings import config, current, parse_bytes
from sparrow.testing import on, tune

T = TypeVar("T")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, 1),
        (2.5e3, 2500),
        ("700", 700),
        ("1GB", 10**9),
        ("1.5 gb", 1_500_000_000),
        ("512MiB", 512 * 2**20),
        (" 2 TiB ", 2 * 2**40),
        ("64kb", 64_000),
    ],
)
def test_sizes(size: int | float | str, expected: int) -> None:
    assert parse_bytes(size) == expected


@pytest.mark.parametrize("size", ["", "GB", "1XB", "-1GB", "1 2", "1e9", 0, -5, "0", float("nan")])
def test_invalid_sizes_raise(size: int | float | str) -> None:
    with pytest.raises(InvalidValueError, match="size"):
        parse_bytes(size)


def test_plain_call_and_block() -> None:
    before = current()
    with config(memory_limit="1GB", threads=3, deterministic=True) as inside:
        assert inside is current()
        assert (inside.memory_limit, inside.threads, inside.deterministic) == (10**9, 3, True)
        assert inside.temp_directory == before.temp_directory
        config(threads=1)
        assert current().threads == 1
    assert current() == before


def test_block_restores_after_error() -> None:
    before = current()
    with pytest.raises(ZeroDivisionError), config(threads=7):
        _ = 1 // 0
    assert current() == before


@pytest.mark.parametrize("size", [1, 4, 0.5, "16", "999kB"])
@tune("runtime", min_limit_bytes=1_000_000)
def test_limit_without_unit_raises(size: float | str) -> None:
    with pytest.raises(InvalidValueError, match=r"must be at least '1MB', got .*: pass a unit, as in '4GB'"):
        config(memory_limit=size)
    with config(memory_limit="1MB") as now:
        assert now.memory_limit == 1_000_000


def test_invalid_setting_changes_nothing(tmp_path: Path) -> None:
    before = current()
    with pytest.raises(InvalidValueError, match="threads must be an integer of at least 1, got 0"):
        config(memory_limit="1GB", threads=0)
    with pytest.raises(InvalidValueError, match="must be an existing directory"):
        config(temp_directory=tmp_path / "absent")
    assert current() == before


def test_defaults() -> None:
    now = current()
    assert now.memory_limit >= 700_000_000
    assert now.threads >= 1
    assert Path(now.temp_directory).is_dir()


@pytest.mark.parametrize("enabled", [True, False])
def test_progress_can_be_forced(enabled: bool) -> None:
    with config(progress=enabled):
        assert current().show_progress() is enabled


@pytest.mark.parametrize("engine", ["", 3])
def test_engine_must_be_a_name(engine: Any) -> None:
    assert current().engine == "auto"
    with config(engine="stream") as inside:
        assert inside.engine == "stream"
    with pytest.raises(InvalidValueError, match="engine must be a name"):
        config(engine=engine)
    assert current().engine == "auto"


def test_engine_must_be_registered() -> None:
    before = current()
    with pytest.raises(
        InvalidValueError,
        match="engine must be one of 'auto', 'cupy', 'dask', 'duckdb', 'processes', 'ray', 'spark', 'stream', got 'mi",
    ):
        config(engine="mine", threads=1)
    with pytest.raises(InvalidValueError, match="got 'mine'"):
        config.engine = "mine"
    assert current() == before
    own: Any = type("Mine", (type(engines.registry.STREAM),), {"name": "mine"})()
    engines.register(own)
    try:
        with config(engine="mine") as inside:
            assert inside.engine == "mine"
    finally:
        engines.unregister("mine")


# -- threads, tasks, generators ------------------------------------------------------------------


def call_in_thread(work: Callable[[], T]) -> T:
    """Return ``work()``, called in a new thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(60)


def outside_of_blocks(test: Callable[[], None]) -> Callable[[], None]:
    """Run a test outside of all blocks, and restore settings of the process.

    Other tests run within the block of an automatic fixture.
    """

    @functools.wraps(test)
    def run() -> None:
        before = current()
        try:
            contextvars.Context().run(test)
        finally:
            earlier = {name: getattr(before, name) for name in ("memory_limit", "threads", "deterministic")}
            contextvars.Context().run(lambda: repr(config(**earlier)))
        assert current() == before

    return run


@outside_of_blocks
def test_overlapping_blocks_of_two_threads() -> None:
    before = current()
    steps = [threading.Event() for _ in range(3)]
    seen = []

    def first() -> None:
        with config(threads=41):
            steps[0].set()
            assert steps[1].wait(60)
            seen.append(current().threads)
        seen.append(current().threads)
        steps[2].set()

    def second() -> None:
        assert steps[0].wait(60)
        with config(memory_limit="43GB"):
            steps[1].set()
            assert steps[2].wait(60)
            seen.append(current().threads)
            assert current().memory_limit == 43 * 10**9
        assert current() == before

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(first), pool.submit(second)]:
            done.result(60)
    assert seen == [41, before.threads, before.threads]
    assert current() == before


@outside_of_blocks
def test_block_is_thread_local() -> None:
    before = current()
    with config(threads=41):
        assert call_in_thread(current) == before
        config(deterministic=True)
        assert current().deterministic
        assert call_in_thread(current) == before


@outside_of_blocks
def test_block_head_does_not_affect_threads() -> None:
    before = current()
    head = config(threads=41)
    assert call_in_thread(current) == before
    with head as inside:
        assert inside.threads == 41
        assert call_in_thread(current) == before
    assert current() == before


@outside_of_blocks
def test_plain_call_affects_the_process() -> None:
    config(threads=41)
    assert call_in_thread(current).threads == 41
    result = config(threads=42)
    assert current().threads == 42
    assert call_in_thread(current).threads == 42
    assert repr(result) == "sp.config(threads=42)"
    call_in_thread(lambda: repr(config(deterministic=True)))
    assert (current().threads, current().deterministic) == (42, True)


@outside_of_blocks
def test_block_overlays_process_settings() -> None:
    with config(threads=41):
        call_in_thread(lambda: repr(config(threads=42, memory_limit="43GB")))
        assert (current().threads, current().memory_limit) == (41, 43 * 10**9)
    assert current().threads == 42


def test_plain_call_in_block_ends_with_it() -> None:
    before = current()
    with config(threads=41):
        for threads in range(1, 2000):
            config(threads=threads)
        config(memory_limit="43GB")
        assert (current().threads, current().memory_limit) == (1999, 43 * 10**9)
        with config(deterministic=True):
            config(threads=7)
            assert current().threads == 7
        assert (current().threads, current().deterministic) == (1999, before.deterministic)
    assert current() == before


def test_block_cannot_be_reentered() -> None:
    block = config(threads=41)
    with block, pytest.raises(InvalidValueError, match="already entered"), block:
        pass


def test_settings_of_tasks() -> None:
    before = current()

    async def task(threads: int, turn: asyncio.Barrier) -> list[int]:
        seen = [current().threads]
        with config(threads=threads):
            await turn.wait()
            seen.append(current().threads)
            config(threads=threads + 1)
            await turn.wait()
            seen += [current().threads, await asyncio.to_thread(lambda: current().threads)]
        return [*seen, current().threads]

    async def main() -> list[list[int]]:
        turn = asyncio.Barrier(2)
        with config(threads=41):
            return list(await asyncio.gather(task(50, turn), task(60, turn)))

    assert asyncio.run(main()) == [[41, 50, 51, 51, 41], [41, 60, 61, 61, 41]]
    assert current() == before


def test_task_inherits_settings() -> None:
    async def main() -> tuple[int, int]:
        go = asyncio.Event()

        async def late() -> int:
            await go.wait()
            return current().threads

        with config(threads=41):
            task = asyncio.create_task(late())
            await asyncio.sleep(0)
        go.set()
        return await task, current().threads

    assert asyncio.run(main()) == (41, current().threads)


def iter_threads_in_block() -> Iterator[int]:
    with config(threads=41):
        yield current().threads
        yield current().threads


def test_generator_block_may_end_in_other_context() -> None:
    before = current()
    steps = iter_threads_in_block()
    assert next(steps) == 41
    assert call_in_thread(lambda: list(steps)) == [before.threads]
    assert current() == before
    steps = iter_threads_in_block()
    assert contextvars.copy_context().run(next, steps) == 41
    assert list(steps) == [before.threads]
    assert current() == before
    steps = iter_threads_in_block()
    assert next(steps) == 41
    assert contextvars.copy_context().run(list, steps) == [41]
    assert current() == before


def test_blocks_may_end_out_of_order() -> None:
    before = current()
    steps = iter_threads_in_block()
    with config(deterministic=True):
        next(steps)
    assert (current().threads, current().deterministic) == (41, before.deterministic)
    steps.close()  # type: ignore[attr-defined]
    assert current() == before


def test_generator_uses_settings_of_its_caller() -> None:
    steps = (current().threads for _ in range(2))
    with config(threads=41):
        assert next(steps) == 41
    assert next(steps) == current().threads


def test_empty_config_shows_settings() -> None:
    before = settings.current()
    with config(memory_limit="2GB", threads=3, progress=False):
        lines = dict(line.split(maxsplit=1) for line in repr(config()).split("\n"))
    assert lines["memory_limit"] == "2,000,000,000 bytes"
    assert (lines["threads"], lines["progress"], lines["engine"]) == ("3", "False", "'auto'")
    assert set(lines) == {field.name for field in dataclasses.fields(before) if field.repr}  # except secrets
    assert settings.current() == before


def test_settings_are_readable_attributes() -> None:
    with config(threads=1, memory_limit="1GB"):
        assert (config().threads, config().memory_limit) == (1, 10**9)
    with pytest.raises(AttributeError, match="unknown setting 'thread': expected one of memory_limit, threads"):
        getattr(config(), "thread")  # noqa: B009


def test_settings_are_assignable_attributes() -> None:
    with config(threads=2):
        config.threads = 1
        config.memory_limit = "1GB"
        assert (config.threads, config.memory_limit, current().threads) == (1, 10**9, 1)
        for name, value, error in [("thread", 1, AttributeError), ("threads", 0, InvalidValueError),
                                   ("progress", None, InvalidValueError)]:  # fmt: skip
            with pytest.raises(error, match=name):
                setattr(config, name, value)
        assert (config.threads, config.memory_limit) == (1, 10**9)
    assert config.threads == current().threads


@outside_of_blocks
def test_concurrent_first_read_loses_no_call() -> None:
    before = config.threads
    found: list[int] = []
    others: list[threading.Thread] = []

    def read_in_another_thread() -> None:
        """Read settings while the first thread computes the defaults.

        The read waits, or sees the call.
        """
        if not found:
            found.append(0)
            others.append(threading.Thread(target=lambda: found.append(config.threads)))
            others[0].start()
            others[0].join(0.2)

    with settings.isolate(), on("settings.defaults", read_in_another_thread):
        config(threads=before + 5)
        assert config.threads == before + 5
        others[0].join()
        assert found == [0, before + 5]
        assert config.threads == before + 5


@pytest.mark.parametrize("size", ["1GB", "1500MB", "2GiB", "300MB", 1_234_567])
def test_repr_shows_what_was_changed(size: Any, tmp_path: Path) -> None:
    shown = f'"{size}"' if isinstance(size, str) else size
    assert repr(config(memory_limit=size)) == f"sp.config(memory_limit={shown})"
    text = repr(config(memory_limit=size, threads=2, progress=False, engine="stream", temp_directory=tmp_path))
    assert text == (
        f'sp.config(memory_limit={shown}, threads=2, temp_directory="{tmp_path}", progress=False, engine="stream")'
    )
    assert "secret" not in repr(config(storage_options={"key": "secret"}))
