"""Profile of an evaluation: counters per operator, for ``analyze=True``.

An operator records what it does if a profile is active, and pays one lookup if none is::

    profile = active()
    if profile is None:
        return self._compute(start, stop)
    operator = profile.operator(self.step)
    with operator.measure():
        block = self._compute(start, stop)
    operator.record(rows=block.count, bytes=block.nbytes, partitions=1)
    return block

The active profile is part of the context, so it follows work to the threads of :mod:`sparrow.runtime.thread_pool`, and
two analyzed evaluations in two threads do not mix.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Hashable, Iterator
from contextvars import ContextVar
from typing import Any

from sparrow.plan.nodes import Scan

__all__ = ["OperatorProfile", "Profile", "active", "profiling"]


class OperatorProfile:
    """Counters of one operator; several threads may add to them.

    Attributes
    ----------
    rows
        Elements produced.
    bytes_produced
        Bytes of the coordinates and values of these elements.
    seconds
        Time inside :meth:`measure`, less the time that operators below measured on the same thread, summed over
        threads.
    partitions
        Partitions or chunks produced.
    spilled_bytes
        Bytes written to spill files.
    flops
        Multiplications of a contraction.
    held_bytes
        Bytes of the operands of a contraction that were held in memory, at most.
    elements_read
        Elements of the operands of a contraction that were read, from their source or from spill files.
    bytes_read
        Bytes decoded from files or read from memory, of scans.
    strategy
        Name of the physical strategy, None if the operator has only one.
    """

    __slots__ = (
        "_lock",
        "bytes_produced",
        "bytes_read",
        "elements_read",
        "flops",
        "held_bytes",
        "partitions",
        "rows",
        "seconds",
        "spilled_bytes",
        "strategy",
    )

    def __init__(self) -> None:
        self.rows = self.bytes_produced = self.partitions = self.spilled_bytes = self.bytes_read = 0
        self.flops = self.held_bytes = self.elements_read = 0
        self.seconds = 0.0
        self.strategy: str | None = None
        self._lock = threading.Lock()

    def record(
        self,
        *,
        rows: int = 0,
        bytes: int = 0,
        seconds: float = 0.0,
        partitions: int = 0,
        spilled_bytes: int = 0,
        bytes_read: int = 0,
        flops: int = 0,
        strategy: str | None = None,
    ) -> None:
        """Add to the counters; replace ``strategy`` if one is given."""
        with self._lock:
            self.rows += rows
            self.bytes_produced += bytes
            self.seconds += seconds
            self.partitions += partitions
            self.spilled_bytes += spilled_bytes
            self.bytes_read += bytes_read
            self.flops += flops
            if strategy is not None:
                self.strategy = strategy

    def record_state(self, *, held_bytes: int, spilled_bytes: int, elements_read: int) -> None:
        """Set counters that the operator keeps itself."""
        with self._lock:
            self.held_bytes, self.spilled_bytes, self.elements_read = held_bytes, spilled_bytes, elements_read

    def measure(self) -> _Timer:
        """Return a context manager that adds the exclusive time of its block.

        Examples
        --------
        >>> total, part = OperatorProfile(), OperatorProfile()
        >>> with total.measure(), part.measure():
        ...     time.sleep(0.002)
        >>> total.seconds < part.seconds
        True
        """
        return _Timer(self)

    @property
    def is_empty(self) -> bool:
        """True if nothing was recorded."""
        return not any(self.to_dict().values())

    def to_dict(self) -> dict[str, Any]:
        """Return the counters by name."""
        return {
            "rows": self.rows,
            "bytes": self.bytes_produced,
            "seconds": self.seconds,
            "partitions": self.partitions,
            "bytes_read": self.bytes_read,
            "spilled_bytes": self.spilled_bytes,
            "flops": self.flops,
            "held_bytes": self.held_bytes,
            "elements_read": self.elements_read,
            "strategy": self.strategy,
        }


class _Stack(threading.local):
    """Innermost timer of each thread."""

    top: _Timer | None = None


_stack = _Stack()


class _Timer:
    """Time of a block, without the blocks measured inside of it."""

    __slots__ = ("_inside", "_operator", "_outer", "_start")

    def __init__(self, operator: OperatorProfile) -> None:
        self._operator = operator

    def __enter__(self) -> None:
        self._inside, self._outer = 0.0, _stack.top
        _stack.top = self
        self._start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        seconds = time.perf_counter() - self._start
        _stack.top = self._outer
        if self._outer is not None:
            self._outer._inside += seconds
        self._operator.record(seconds=seconds - self._inside)


class Profile:
    """Counters of an evaluation, one :class:`OperatorProfile` per operator.

    Examples
    --------
    >>> step = object()
    >>> with profiling(Profile()) as profile:
    ...     active().operator(step).record(rows=3)
    >>> profile.operator(step).rows
    3
    """

    def __init__(self) -> None:
        self._operators: dict[Hashable, OperatorProfile] = {}
        self._lock = threading.Lock()

    def operator(self, node: Any) -> OperatorProfile:
        """Return the counters of a node, empty ones if nothing was recorded of it.

        Parameters
        ----------
        node
            A node, a relation, or a scan of one: scans of one relation share their counters.
        """
        key = _key(node)
        found = self._operators.get(key)
        if found is None:
            with self._lock:
                found = self._operators.setdefault(key, OperatorProfile())
        return found


def _key(node: Any) -> Hashable:
    found: Hashable = node.source.token if isinstance(node, Scan) else getattr(node, "token", node)
    return found


_active: ContextVar[Profile | None] = ContextVar("sparrow_profile", default=None)


def active() -> Profile | None:
    """Return the profile that operators record to, None without analysis."""
    return _active.get()


@contextlib.contextmanager
def profiling(profile: Profile) -> Iterator[Profile]:
    """Make a profile the active one in a block and in contexts copied there."""
    token = _active.set(profile)
    try:
        yield profile
    finally:
        with contextlib.suppress(ValueError):  # a generator that is closed in another context
            _active.reset(token)
