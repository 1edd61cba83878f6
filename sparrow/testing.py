"""Force strategies and tuning parameters in tests.

For sparrow's own tests and for debugging: nothing here is stable between versions. Results never depend on a strategy,
only speed and memory do, so a test that forces one compares its result with the default.

Examples
--------
>>> import sparrow as sp
>>> import sparrow.testing
>>> A = sp.random((100, 100), density=0.1, seed=1)
>>> with sparrow.testing.tune("sorting", memory_parts=8):
...     total = float(A.sum())
>>> total == float(A.sum())
True
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from sparrow.runtime.events import listening
from sparrow.runtime.tuning import MemoryShare, Tunable, registered
from sparrow.runtime.tuning import memory_shares as _memory_shares

__all__ = ["memory_shares", "observe", "on", "parameters", "strategies", "strategy", "tune", "tuning"]


@contextlib.contextmanager
def observe(*names: str) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Record events by name, in the order in which they are emitted.

    Examples
    --------
    >>> from sparrow.runtime.events import emit
    >>> with observe("demo.step") as seen:
    ...     emit("demo.step", n=1)
    >>> seen
    [('demo.step', {'n': 1})]
    """
    seen: list[tuple[str, dict[str, Any]]] = []
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(listening(name, lambda name=name, **details: seen.append((name, details))))
        yield seen


@contextlib.contextmanager
def on(name: str, listener: Callable[..., Any]) -> Iterator[None]:
    """Call ``listener(**details)`` at every event of that name; if it raises, the operation fails there."""
    with listening(name, listener):
        yield


def _subsystems() -> Mapping[str, Tunable[Any]]:
    """Import the ``tuning`` module of every subsystem and return what they register."""
    for found in pkgutil.walk_packages([os.path.dirname(__file__)], "sparrow."):
        if found.name.endswith(".tuning") and found.name != "sparrow.runtime.tuning":
            importlib.import_module(found.name)
    return registered()


def _find(subsystem: str) -> Tunable[Any]:
    known = registered()
    if subsystem not in known:
        known = _subsystems()
    if subsystem not in known:
        raise ValueError(f"subsystem must be one of {sorted(known)}, got {subsystem!r}")
    return known[subsystem]


def tuning(subsystem: str) -> Any:
    """Return the tuning parameters of a subsystem that are in force, a frozen dataclass.

    Raises
    ------
    ValueError
        If there is no such subsystem.
    """
    return _find(subsystem)()


@contextlib.contextmanager
def tune(subsystem: str, **parameters: Any) -> Iterator[None]:
    """Replace tuning parameters of a subsystem for the length of a block, in all threads.

    Raises
    ------
    ValueError
        If there is no such subsystem.
    TypeError
        If it has no such parameter.
    """
    with _find(subsystem).overridden(**parameters):
        yield


@contextlib.contextmanager
def strategy(*names: str) -> Iterator[None]:
    """Force strategies by name for the length of a block, in all threads.

    Parameters
    ----------
    names
        Names that :func:`strategies` lists, such as ``"row_sections"`` or ``"numpy"``.

    Raises
    ------
    ValueError
        If there is no such strategy.
    """
    with contextlib.ExitStack() as stack:
        for name in names:
            found = [each for each in _subsystems().values() if name in each.strategies]
            if not found:
                raise ValueError(f"strategy must be one of {sorted(strategies())}, got {name!r}")
            for each in found:
                stack.enter_context(each.overridden(**each.strategies[name]))
        yield


def strategies() -> dict[str, list[str]]:
    """Return the strategies that can be forced, each with the subsystems that it concerns."""
    out: dict[str, list[str]] = {}
    for name, each in sorted(_subsystems().items()):
        for strategy_name in each.strategies:
            out.setdefault(strategy_name, []).append(name)
    return out


def parameters() -> list[tuple[str, str, Any, str, str]]:
    """Return every tuning parameter: subsystem, name, default, unit and reason."""
    return [
        (name, each.name, getattr(tunable.default, each.name), each.metadata["unit"], each.metadata["reason"])
        for name, tunable in sorted(_subsystems().items())
        for each in fields(tunable.default)
    ]


def memory_shares() -> list[MemoryShare]:
    """Return the shares of the memory limit, as one table."""
    _subsystems()
    return _memory_shares()
