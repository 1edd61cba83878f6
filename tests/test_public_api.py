from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import sparrow as sp

MODULES = ["sparrow"] + [
    found.name for found in pkgutil.walk_packages(sp.__path__, "sparrow.") if not found.name.endswith("__main__")
]
PROMISED = "Tensor Bundle open from_coords asarray zeros from_relation matmul sql config formats ingest datasets errors"


def _own(module: ModuleType) -> set[str]:
    """Return the names without an underscore of functions and classes of sparrow in a module."""
    return {
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__.startswith("sparrow")
    }


@pytest.mark.parametrize("name", MODULES)
def test_all_names_what_there_is(name: str) -> None:
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    if listed is None:
        assert _own(module) == set(), f"{name} has no __all__"
        return
    assert len(set(listed)) == len(listed)
    assert [word for word in listed if not hasattr(module, word)] == []


@pytest.mark.parametrize("name", MODULES)
def test_public_things_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    for word in getattr(module, "__all__", ()):
        thing = getattr(module, word)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"{name}.{word}"


def test_the_promised_names_are_there() -> None:
    assert set(PROMISED.split()) <= set(sp.__all__)
    assert {"libsvm", "edges", "columns"} <= set(sp.ingest.__all__)
    assert {"load", "names", "path"} <= set(sp.datasets.__all__)


def test_nothing_else_is_public() -> None:
    assert _own(sp) <= set(sp.__all__)


def test_importing_takes_no_heavy_library_along() -> None:
    script = "import sys, sparrow; print([m for m in ('polars', 'numba', 'rich', 'typer') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
