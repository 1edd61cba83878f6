"""Doctests run in temporary folders; tests share compiled kernels."""

from __future__ import annotations

import fcntl
import gc
import os
import sys
from typing import Any

import pytest
from _pytest.doctest import DoctestItem
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

# The processes that tests start import sparrow too: it is compiled once for all of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Two workers that need the same loop at once compile it once: one waits, and finds it in the cache.
_compile: Any = Dispatcher.compile
_compiling: list[Dispatcher] = []


def _compile_in_turn(dispatcher: Any, signature: Any) -> Any:
    with global_compiler_lock:
        path = dispatcher.py_func.__code__.co_filename
        if _compiling or not os.path.isfile(path):
            return _compile(dispatcher, signature)
        with open(path, "rb") as source:
            fcntl.flock(source, fcntl.LOCK_EX)
            _compiling.append(dispatcher)
            try:
                return _compile(dispatcher, signature)
            finally:
                _compiling.clear()


Dispatcher.compile = _compile_in_turn  # type: ignore[method-assign]

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
