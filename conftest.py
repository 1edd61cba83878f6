"""Doctests run in temporary folders; tests share compiled kernels."""

from __future__ import annotations

import fcntl
import gc
import os
import sys
from pathlib import Path
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

# Left out by ``--fast``: tests that compile kernels, start processes, or kill and race them.
SLOW = frozenset({
    "tests/array_api", "tests/blas", "tests/cli", "tests/datasets", "tests/engines/stream/test_product.py",
    "tests/engines/stream/test_spilled.py", "tests/engines/test_parity.py", "tests/engines/test_views.py",
    "tests/explorer",
    "tests/faults", "tests/functions/test_contraction.py", "tests/functions/test_manipulation.py",
    "tests/graph", "tests/io/binary", "tests/io/tabular", "tests/io/text", "tests/io/base/test_export.py",
    "tests/interop/test_damaged.py", "tests/kernels/test_index_arrays.py",
    "tests/kernels/jit", "tests/kernels/matmul", "tests/linalg", "tests/models", "tests/properties",
    "tests/runtime/test_buffer_pool.py", "tests/runtime/test_duckdb_connection.py",
    "tests/runtime/test_lazy_imports.py", "tests/storage/test_clouds.py", "tests/storage/test_compact.py",
    "tests/storage/test_filesystem.py", "tests/storage/test_many_appends.py", "tests/storage/test_objects.py",
    "tests/storage/test_runs.py", "tests/storage/test_snapshot.py", "tests/tensor/test_exports.py",
    "tests/tensor/test_labels.py", "tests/tensor/test_reductions.py", "tests/test_notebooks.py",
    "tests/test_install.py", "tests/test_site.py", "tests/test_screenshots.py", "tests/walks",
    "tests/engines/stream/test_batched.py", "tests/engines/stream/test_dense.py", "tests/functions/test_products.py",
    "tests/engines/cluster",
    "tests/engines/test_choice.py", "tests/engines/test_repeats.py", "tests/engines/stream/test_repeats.py",
    "tests/engines/stream/test_budget.py", "tests/engines/stream/test_physical.py", "tests/functions/test_neighbors.py",
    "tests/io/test_suggestions.py", "tests/io/base/test_label_texts.py", "tests/tensor/test_swaps.py",
    "tests/io/base/test_magic.py", "tests/io/base/test_detect.py", "tests/optim", "tests/test_packaging.py",
    "tests/test_pages.py", "tests/test_public_api.py", "tests/test_security.py", "tests/training",
})  # fmt: skip
ROOT = Path(__file__).resolve().parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of tiers of tests."""
    parser.addoption("--fast", action="store_true", help="leave out slow tests (conftest.SLOW)")
    parser.addoption("--clean-install", action="store_true", help="share nothing with the environments of test_install")
    parser.addoption("--readers", metavar="FOLDER", help="try other readers, with their environments in FOLDER")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what is slow under ``--fast``, readers without ``--readers``."""
    if not collection_path.is_relative_to(ROOT):
        return None
    path = collection_path.relative_to(ROOT).as_posix()
    if config.getoption("--readers") is None and path == "tests/interop/test_readers.py":
        return True
    return (config.getoption("--fast") and path in SLOW) or None


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
