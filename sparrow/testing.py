"""Strategies, tuning parameters and events for tests and debugging.

The interface may change between versions. Results never depend on a strategy, only speed and memory do, so a test that
forces one compares its result with the default.

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

from sparrow.runtime.events import listen
from sparrow.runtime.tuning import MemoryShare, Tunable, get_tunables
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
            stack.enter_context(listen(name, lambda name=name, **details: seen.append((name, details))))
        yield seen


@contextlib.contextmanager
def on(name: str, listener: Callable[..., Any]) -> Iterator[None]:
    """Call ``listener(**details)`` for every event of that name.

    If it raises, the operation fails at that point.
    """
    with listen(name, listener):
        yield


def _subsystems() -> Mapping[str, Tunable[Any]]:
    """Import every subsystem's ``tuning`` module; return all parameters."""
    for found in pkgutil.walk_packages([os.path.dirname(__file__)], "sparrow."):
        if found.name.endswith(".tuning") and found.name != "sparrow.runtime.tuning":
            importlib.import_module(found.name)
    return get_tunables()


def _find(subsystem: str) -> Tunable[Any]:
    known = get_tunables()
    if subsystem not in known:
        known = _subsystems()
    if subsystem not in known:
        raise ValueError(f"subsystem must be one of {sorted(known)}, got {subsystem!r}")
    return known[subsystem]


def tuning(subsystem: str) -> Any:
    """Return the tuning parameters in force of a subsystem, a frozen dataclass.

    Raises
    ------
    ValueError
        If there is no such subsystem.
    """
    return _find(subsystem)()


@contextlib.contextmanager
def tune(subsystem: str, **parameters: Any) -> Iterator[None]:
    """Replace tuning parameters of a subsystem within a block, in all threads.

    Raises
    ------
    ValueError
        If there is no such subsystem.
    TypeError
        If it has no such parameter.
    """
    with _find(subsystem).override(**parameters):
        yield


@contextlib.contextmanager
def strategy(*names: str) -> Iterator[None]:
    """Force strategies by name within a block, in all threads.

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
            found = [tunable for tunable in _subsystems().values() if name in tunable.strategies]
            if not found:
                raise ValueError(f"strategy must be one of {sorted(strategies())}, got {name!r}")
            for tunable in found:
                stack.enter_context(tunable.override(**tunable.strategies[name]))
        yield


def strategies() -> dict[str, list[str]]:
    """Return all strategies, each with the subsystems that it affects."""
    out: dict[str, list[str]] = {}
    for name, tunable in sorted(_subsystems().items()):
        for strategy_name in tunable.strategies:
            out.setdefault(strategy_name, []).append(name)
    return out


def parameters() -> list[tuple[str, str, Any, str, str]]:
    """Return every tuning parameter: subsystem, name, default, unit and reason."""
    return [
        (name, field.name, getattr(tunable.default, field.name), field.metadata["unit"], field.metadata["reason"])
        for name, tunable in sorted(_subsystems().items())
        for field in fields(tunable.default)
    ]


def memory_shares() -> list[MemoryShare]:
    """Return the shares of the memory limit, as one table."""
    _subsystems()
    return _memory_shares()
