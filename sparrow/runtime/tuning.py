"""Tuning parameters of subsystems: thresholds and memory shares.

A subsystem declares its parameters as a frozen dataclass in a module named ``tuning``::

    @dataclass(frozen=True, kw_only=True, repr=False, eq=False)
    class SortingTuning:
        run_bytes: int = parameter(1 << 26, "bytes", "Size of a sorted run; larger runs merge no faster.")
        merge_share: float = memory_share(4, "Buffers of the merge, one per run.")


    tuning = Tunable("sorting", SortingTuning(), strategies={"one_run": {"run_bytes": 1 << 40}})

Code reads ``tuning().run_bytes`` where it decides, never at import. :mod:`sparrow.testing` replaces parameters, or
selects a strategy by name, for the length of a block.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, TypeVar

__all__ = [
    "MemoryShare", "RuntimeTuning", "Tunable", "get_tunables", "memory_share", "memory_shares", "parameter", "tuning",
]  # fmt: skip

T = TypeVar("T")


def parameter(default: Any, unit: str, reason: str) -> Any:
    """Declare a tuning parameter of a frozen dataclass.

    Parameters
    ----------
    default
        Value in production.
    unit
        Unit of the value: ``"bytes"``, ``"rows"``, ``"elements"``, ``"seconds"``, ``"ratio"``.
    reason
        Quantity that it bounds, and the measurement or argument that set it.
    """
    return field(default=default, metadata={"unit": unit, "reason": reason})


def memory_share(parts: float, reason: str) -> Any:
    """Declare a share of the memory limit, 1 part in ``parts``.

    :func:`sparrow.runtime.memory.share` computes its bytes.
    """
    return field(default=parts, metadata={"unit": "1/n of the memory limit", "reason": reason, "memory_share": True})


class Tunable(Generic[T]):
    """Tuning parameters of a subsystem; a call returns the values in force.

    Parameters
    ----------
    name
        Unique name of the subsystem.
    default
        Frozen dataclass whose fields are declared by :func:`parameter` and :func:`memory_share`.
    strategies
        Fields that force each strategy, by name.

    Examples
    --------
    >>> from sparrow.sorting.tuning import tuning
    >>> tuning().memory_parts > 0
    True
    """

    def __init__(self, name: str, default: T, strategies: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.name, self.default = name, default
        self.strategies = dict(strategies or {})
        self._current = default
        self._lock = threading.RLock()
        _registered[name] = self

    def __call__(self) -> T:
        """Return the parameters in force."""
        return self._current

    @contextlib.contextmanager
    def override(self, **changes: Any) -> Iterator[T]:
        """Replace fields within the block, in all threads.

        Raises
        ------
        TypeError
            If a field does not exist.
        """
        with self._lock:
            before = self._current
            self._current = replace(before, **changes)  # type: ignore[type-var]
        try:
            yield self._current
        finally:
            with self._lock:
                self._current = before


_registered: dict[str, Tunable[Any]] = {}


def get_tunables() -> Mapping[str, Tunable[Any]]:
    """Return the tuning parameters of all imported subsystems, by name."""
    return dict(_registered)


@dataclass(frozen=True, slots=True)
class MemoryShare:
    """One row of the table of memory shares."""

    subsystem: str
    name: str
    parts: float
    reason: str


def memory_shares() -> list[MemoryShare]:
    """Return the shares of the memory limit of every registered subsystem."""
    return [
        MemoryShare(name, field_.name, getattr(tunable.default, field_.name), field_.metadata["reason"])
        for name, tunable in sorted(_registered.items())
        for field_ in fields(tunable.default)
        if field_.metadata.get("memory_share")
    ]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RuntimeTuning:
    """Limits of settings, memory, buffer pool, progress bars and DuckDB."""

    default_limit_ratio: float = parameter(0.6, "ratio", "Default memory limit relative to the memory of the machine.")
    min_default_limit_bytes: int = parameter(700_000_000, "bytes", "Default memory limit of small machines.")
    min_limit_bytes: int = parameter(1_000_000, "bytes", "Buffers of a row group; a smaller limit lacks its unit.")
    ample_limit_bytes: int = parameter(1 << 30, "bytes", "Above this limit, tens of megabytes of slack do not matter.")
    library_bytes: int = parameter(
        120_000_000, "bytes", "Libraries take 300 MB: 200 MB may exceed the limit, and 20 MB stay free."
    )
    min_working_bytes: int = parameter(30_000_000, "bytes", "Working memory under limits smaller than the libraries.")
    pooled_min_bytes: int = parameter(1 << 22, "bytes", "Smaller buffers are zeroed faster than they are pooled.")
    pool_parts: float = memory_share(8, "Free pages kept for later results; reservations evict them.")
    pooled_max_ratio: int = parameter(4, "ratio", "A pooled buffer serves requests of at least a quarter of its size.")
    progress_delay_seconds: float = parameter(1.0, "seconds", "Shorter work shows no progress bar.")
    progress_interval_seconds: float = parameter(0.1, "seconds", "Time between two redraws of a bar.")
    progress_bundle_seconds: float = parameter(
        2.0, "seconds", "Time between two updates of a widget for front ends that show no widgets."
    )
    progress_columns: int = parameter(100, "columns", "Width of a progress bar in a notebook, as text.")
    duckdb_overshoot_bytes: int = parameter(
        340_000_000, "bytes", "Measured excess of Arrow scans over DuckDB's own limit, which is set lower by as much."
    )
    min_duckdb_bytes: int = parameter(120_000_000, "bytes", "DuckDB fails to plan joins with less.")
    duckdb_instances: int = parameter(4, "instances", "Cached instances: one takes 50 ms to open and 5 MB.")
    interrupt_poll_seconds: float = parameter(0.1, "seconds", "Latency of Ctrl-C while a query runs.")


tuning = Tunable("runtime", RuntimeTuning())
