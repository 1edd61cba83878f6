"""Names of a package that are imported when they are first asked for."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["on_demand"]


def on_demand(package: str, public: Sequence[str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports its public names under ``if TYPE_CHECKING``.

    Type checkers take those imports for what they are; here they tell where a name comes from, once it is asked for.
    Whoever completes names after ``sp.`` asks for every package, and should not wait for what these import.

    Examples
    --------
    >>> get, names = on_demand("sparrow.linalg", ["norm", "diagonal"])
    >>> get("norm").__module__, names()
    ('sparrow.linalg.arrays', ['diagonal', 'norm'])
    """

    @functools.cache
    def modules() -> dict[str, str]:
        tree = ast.parse(inspect.getsource(sys.modules[package]))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        return {alias.name: str(node.module) for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        where = modules()[name]
        if where == package:
            found = importlib.import_module(f"{package}.{name}")
        else:
            found = getattr(importlib.import_module(where), name)
        setattr(sys.modules[package], name, found)
        return found

    return get, lambda: sorted(public)
