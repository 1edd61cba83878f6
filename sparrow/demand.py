"""Names of a package that are imported when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["on_demand"]


def on_demand(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names are in these modules: of its own, or told by a whole name.

    Whoever completes names after ``sp.`` asks for every package, and should not wait for what these import.

    Examples
    --------
    >>> on_demand("sparrow.linalg", {"arrays": ["norm"]})("norm").__module__
    'sparrow.linalg.arrays'
    """
    where = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(where[name] if "." in where[name] else f"{package}.{where[name]}")
        found = module if name == where[name] else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return get
