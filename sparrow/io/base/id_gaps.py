"""Gaps between integer ids: positions of a dimension that no row of a table has."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import MAX_DIMENSION_SIZE
from sparrow.io.tuning import tuning
from sparrow.runtime.caller import warn_caller

__all__ = ["SeenIds", "warn_of_gaps"]


class SeenIds:
    """Count of the distinct ids of a column, from several threads.

    Ids beyond a limit end the count: the number of rows is an upper bound then.

    Examples
    --------
    >>> seen = SeenIds()
    >>> seen.add(np.array([7, 3, 7]))
    >>> seen.count, seen.smallest
    (2, 3)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: NDArray[np.bool_] | None = np.zeros(1 << 10, bool)
        self._rows = 0
        self.smallest = MAX_DIMENSION_SIZE

    def add(self, column: NDArray[Any]) -> None:
        """Count the ids of a column, none of them negative."""
        if not len(column):
            return
        low, top = int(column.min()), int(column.max()) + 1
        with self._lock:
            self._rows += len(column)
            self.smallest = min(self.smallest, low)
            if top > tuning().counted_ids:
                self._seen = None
            if self._seen is None:
                return
            if top > len(self._seen):
                grown = np.zeros(1 << (top - 1).bit_length(), bool)
                grown[: len(self._seen)] = self._seen
                self._seen = grown
            self._seen[column] = True

    def merge(self, other: SeenIds) -> None:
        """Count the ids that another object has seen."""
        with self._lock:
            self._rows += other._rows
            self.smallest = min(self.smallest, other.smallest)
            if self._seen is None or other._seen is None:
                self._seen = None
                return
            long, short = sorted((self._seen, other._seen), key=len, reverse=True)
            self._seen = long.copy()
            self._seen[: len(short)] |= short

    def __getstate__(self) -> tuple[Any, int, int]:
        return None if self._seen is None else np.packbits(self._seen), self._rows, self.smallest

    def __setstate__(self, state: tuple[Any, int, int]) -> None:
        bits, self._rows, self.smallest = state
        self._lock, self._seen = threading.Lock(), None if bits is None else np.unpackbits(bits).astype(bool)

    @property
    def is_exact(self) -> bool:
        """False if the count is an upper bound."""
        return self._seen is not None

    @property
    def count(self) -> int:
        """Number of distinct ids, or of rows."""
        return self._rows if self._seen is None else int(np.count_nonzero(self._seen))


def warn_of_gaps(name: str, seen: SeenIds, size: int) -> None:
    """Warn if most positions of a dimension are gaps between ids.

    A few thousand before the smallest, as of years, are not worth it.

    Parameters
    ----------
    name
        Column of the ids.
    seen
        Ids that occur.
    size
        Size of the dimension.
    """
    limits, count = tuning(), seen.count
    is_offset = size - seen.smallest - count < limits.min_id_gaps and seen.smallest < limits.max_first_id
    if not count or count * limits.sparse_ids > size or is_offset:
        return
    counted = f"{count:,}" if seen.is_exact else f"at most {count:,}"
    warn_caller(
        f"{name}: {counted} of {size:,} ids occur; relabel=True makes them labels, without rows for the others (shape= "
        "keeps them)",
        UserWarning,
    )
