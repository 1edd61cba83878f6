"""Which engines there are, and what each must be able to do.

An engine says which nodes it takes and why it declines others. What a named engine declines of a plan is computed by
the stream engine, which takes everything, and handed over, at every terminal alike: ``engine=`` chooses who computes,
never what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from sparrow.engines.cupy import CuPy
from sparrow.engines.duckdb import DuckDB
from sparrow.engines.stream import Stream
from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.plan import Accumulate, DenseContraction, Map, MatMulDense, Reduce, Root, Scan
from sparrow.runtime import settings

__all__ = ["ENGINES", "Engine", "engine_for", "register", "unregister"]


class Engine(Protocol):
    """What computes plans.

    Each method is given plans of nodes that the engine takes, over relations; a view of a step is at the root of a
    scan or below a step that the view does not go into.
    """

    name: str
    """What ``engine=`` calls it."""
    max_depth: int | None
    """How many steps may stand on one another; deeper ones are handed over. None for any number."""

    def check(self) -> None:
        """Raise ``MissingDependencyError`` where what it computes with is not there."""

    def unsupported_reason(self, node: Root) -> str | None:
        """Return why it does not run a node, whatever stands below; None where it does."""

    def support(self, kind: type[Any]) -> tuple[str, str]:
        """Return how it stands to a kind of node, and why.

        "yes"; "partly", where ``declines`` says of which; "notimpl", where nobody wrote it down; "notyet", where that
        is planned; "never", where it is not for this engine.
        """

    def entries(self, scan: Scan) -> Block:
        """Return all entries of a scan, canonical in the order of the view's axes.

        Raises
        ------
        TooLargeError
            If they would pass the memory limit.
        """

    def blocks(self, scan: Scan) -> Iterator[Block]:
        """Yield all entries of a scan in canonical blocks, in the order of the view's axes, within the memory limit."""

    def count(self, scan: Scan) -> int:
        """Return the number of entries of a scan."""

    def scalars(self, nodes: Sequence[Reduce]) -> list[Any]:
        """Return reductions over all axes of one scan, as NumPy scalars."""

    def array(self, node: MatMulDense | DenseContraction | Accumulate | Map) -> Any:
        """Return the result of a node that is dense by nature: an array, or a scalar where it has no dimensions.

        Raises
        ------
        TooLargeError
            If it would pass the memory limit.
        """

    def describe(self, node: Root) -> str:
        """Return how it runs a node, in a few words for ``explain``; nothing where there is nothing to say."""


_LATER = {"spark": "the engine for clusters is not part of this version"}

STREAM = Stream()
"""The engine that takes every node."""

_engines: dict[str, Engine] = {}


def register(engine: Engine) -> None:
    """Add an engine under its name.

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
    """Take an engine out again."""
    del _engines[name]
    settings.engines.discard(name)


def names() -> tuple[str, ...]:
    """Return what ``engine=`` may be."""
    return ("auto", *sorted(_engines))


register(STREAM)
register(DuckDB())
register(CuPy())

ENGINES = names()
"""The engines that come with sparrow, and "auto"."""


def engine_for(name: str) -> Engine:
    """Return the engine that a call asks for; under "auto" that of the settings, which is the stream engine by default.

    Every step that there is was measured slower in SQL, as a join or a group-by, than as row groups decoded straight
    into kernels (``docs/decisions/006``).

    Raises
    ------
    InvalidValueError
        If there is no such engine.
    UnsupportedError
        If it is one of a later version.
    MissingDependencyError
        If what it computes with is not there.
    """
    given: object = name
    if not isinstance(given, str):
        raise InvalidValueError(f"engine={name!r}: use one of {', '.join(map(repr, names()))}")
    if name == "auto":
        name = settings.current().engine
    if name == "auto":
        return STREAM
    if name in _engines:
        _engines[name].check()
        return _engines[name]
    if name in _LATER:
        raise UnsupportedError(f"engine={name!r}: {_LATER[name]}; use {', '.join(map(repr, names()))}")
    raise InvalidValueError(f"engine={name!r}: use one of {', '.join(map(repr, names()))}")
