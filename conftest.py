"""The examples in docstrings run in a folder of their own; and what keeps the tests from taking longer."""

from __future__ import annotations

import gc
import os
import sys

import pytest
from _pytest.doctest import DoctestItem

# The processes that tests start import sparrow too: it is compiled once for all of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Collecting makes half a million objects, none of them garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave what is there alone, and look for garbage from here on."""
    gc.enable()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let libraries that count what they leave behind see it go."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def doctest_folder(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
