"""Fixtures of all tests: data folders, settings, memory, command line."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from sparrow.runtime import memory
from sparrow.runtime import settings as sparrow_settings
from sparrow.testing import tune

# No deadlines, since loaded machines are slow. Derandomized, so that failures are reproducible.
settings.register_profile(
    "same", max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True,
    derandomize=True,
)  # fmt: skip
settings.register_profile("seeds", settings.get_profile("same"), derandomize=False)
settings.register_profile("thorough", settings.get_profile("seeds"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_collection_finish() -> None:
    """Exempt collected tests and imported modules from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def repository() -> Path:
    """Folder of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of additional real data sets; skips the test if it is missing."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("requires the folder shared/data beside the checkout")
    return folder


@pytest.fixture(scope="session")
def datasets_folder() -> Path:
    """Folder of the data sets in the checkout."""
    return REPOSITORY / "datasets"


@pytest.fixture(autouse=True)
def restore_settings() -> Iterator[None]:
    """Undo changes of settings after each test."""
    with sparrow_settings.config():
        yield


@pytest.fixture(autouse=True)
def isolate_memory() -> Iterator[None]:
    """Account for memory per test.

    Reservations of earlier tests may be released late, when they are garbage-collected.
    """
    with memory.isolate():
        yield


@pytest.fixture(autouse=True, scope="session")
def permit_tiny_limits() -> Iterator[None]:
    """Permit tiny memory limits, so that small tensors exceed them."""
    with tune("runtime", min_limit_bytes=1):
        yield


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Reset SIGINT, which background jobs inherit as ignored, for child processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def pipe_stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Return a function that replaces standard input by a pipe of bytes."""
    with contextlib.ExitStack() as stack:

        def pipe(data: bytes) -> None:
            read_end, write_end = os.pipe()
            os.write(write_end, data)
            os.close(write_end)
            monkeypatch.setattr(sys, "stdin", stack.enter_context(open(read_end)))

        yield pipe


class Run:
    """Result of a command line call."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def table(self) -> list[list[str]]:
        return [line.split() for line in self.out.splitlines() if line.strip() and not set(line.strip()) <= set("-─ ")]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Return a function that runs the command line in this process."""
    from sparrow.cli import main

    def run(*words: object) -> Run:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return Run(caught.value.code, out, err)

    return run
