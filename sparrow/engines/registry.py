"""Registry of engines: built-in, registered, and from entry points.

A package offers an engine by an entry point of the group ``sparrow.engines``, whose name is the name of the engine and
whose object returns one when called. It is loaded when it is first asked for.
"""

from __future__ import annotations

import threading

from sparrow.engines.cluster import Cluster
from sparrow.engines.cupy import CuPy
from sparrow.engines.duckdb import DuckDB
from sparrow.engines.protocol import Engine
from sparrow.engines.stream import Stream
from sparrow.errors import InvalidValueError
from sparrow.runtime import settings

__all__ = ["ENGINES", "STREAM", "engine_for", "names", "register", "unregister"]

STREAM = Stream()
"""The engine that supports every node, to which others fall back."""

_engines: dict[str, Engine] = {}
_lock = threading.RLock()


def register(engine: Engine) -> None:
    """Register an engine under its name.

    Raises
    ------
    InvalidValueError
        If the name is taken, or is "auto".
    """
    if engine.name in _engines or engine.name == "auto":
        raise InvalidValueError(f"an engine named {engine.name!r} is registered already")
    _engines[engine.name] = engine
    settings.engines.add(engine.name)


def unregister(name: str) -> None:
    """Remove an engine."""
    del _engines[name]
    settings.engines.discard(name)


def names() -> tuple[str, ...]:
    """Return the values of ``engine=``."""
    return ("auto", *(name for name in settings.engine_names() if name != "auto"))


def _load(name: str) -> Engine | None:
    """Register and return the engine of an entry point, None if not found."""
    from importlib.metadata import entry_points

    with _lock:
        if name in _engines:  # another thread was first
            return _engines[name]
        for entry in entry_points(group=settings.ENGINE_ENTRY_POINTS, name=name):
            engine: Engine = entry.load()()
            register(engine)
            return engine
    return None


for _engine in (STREAM, DuckDB(), CuPy(), Cluster("processes"), Cluster("dask"), Cluster("ray"), Cluster("spark")):
    register(_engine)

ENGINES = ("auto", *sorted(_engines))
"""The built-in engines, and "auto"."""


def engine_for(name: str) -> Engine:
    """Return an engine by name; "auto" is the one of the settings.

    Where they have "auto" too, it is the stream engine; :func:`sparrow.engines.choice.choose` compares engines.

    Raises
    ------
    InvalidValueError
        If there is no such engine.
    MissingDependencyError
        If a dependency or a device is missing.
    """
    given: object = name
    if not isinstance(given, str):
        raise InvalidValueError(f"engine={name!r}: use one of {', '.join(map(repr, names()))}")
    if name == "auto":
        name = settings.current().engine
    if name == "auto":
        return STREAM
    found = _engines.get(name) or _load(name)
    if found is not None:
        found.check()
        return found
    raise InvalidValueError(f"engine={name!r}: use one of {', '.join(map(repr, names()))}")
