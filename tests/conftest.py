"""What the tests share: folders, settings that do not leak, Hypothesis profiles."""

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

# A machine under load is slow, not wrong; and who runs the tests asks about their own change: others draw new examples.
settings.register_profile(
    "same", max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True,
    derandomize=True,
)  # fmt: skip
settings.register_profile("seeds", settings.get_profile("same"), derandomize=False)
settings.register_profile("thorough", settings.get_profile("seeds"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_collection_finish() -> None:
    """Let the collector pass over what stays to the end, thousands of tests and what they import."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of further real data sets, beside the checkout; skips where there is none."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the folder shared/data beside the checkout")
    return folder


@pytest.fixture(scope="session")
def shipped() -> Path:
    """The folder of the data sets in the checkout."""
    return REPOSITORY / "datasets"


@pytest.fixture(autouse=True)
def own_settings() -> Iterator[None]:
    """Give each test the settings as they were before the one before it changed them."""
    with sparrow_settings.config():
        yield


@pytest.fixture(autouse=True)
def isolated_memory() -> Iterator[None]:
    """Account for memory per test: reservations of earlier tests may be released later, when they are collected."""
    with memory.isolated():
        yield


@pytest.fixture(autouse=True, scope="session")
def tight_limits() -> Iterator[None]:
    """Let tests set limits that nobody else can: what passes them is quickly made."""
    least, sparrow_settings._LEAST_LIMIT = sparrow_settings._LEAST_LIMIT, 1
    yield
    sparrow_settings._LEAST_LIMIT = least


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let processes that are started heed SIGINT, which a job in the background inherits as ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Return what makes a few bytes the standard input, through a pipe that ends behind them."""
    with contextlib.ExitStack() as opened:

        def give(data: bytes) -> None:
            there, here = os.pipe()
            os.write(here, data)
            os.close(here)
            monkeypatch.setattr(sys, "stdin", opened.enter_context(open(there)))

        yield give


class Run:
    """What a run of the command line did."""

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
    """Return what runs the command line in this process."""
    from sparrow.cli import main

    def run(*words: object) -> Run:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Run(end.value.code, out, err)

    return run
