"""Unsorted rows, and sorted runs of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import DuplicateError
from sparrow.sorting.spill import Segment

if TYPE_CHECKING:
    from sparrow.kernels.keys import Keys, Layout

__all__ = ["Column", "Rows", "Run", "duplicate_error", "unpack_key"]


class Rows(NamedTuple):
    """Unsorted rows: coordinates and values of elements.

    ``coords[k]`` (shape (n,), non-negative integers) are coordinates along dimension k; ``values`` has shape (n,).
    Without values each row counts as one occurrence of its element.
    """

    coords: tuple[NDArray[Any], ...]
    values: NDArray[Any] | None

    @property
    def size(self) -> int:
        """Number of rows, n."""
        return len(self.coords[0])

    def take(self, at: Any) -> Rows:
        """Return the rows selected by positions, a slice or a mask."""
        return Rows(tuple(c[at] for c in self.coords), None if self.values is None else self.values[at])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(c.nbytes for c in self.coords) + (0 if self.values is None else self.values.nbytes)


Column: TypeAlias = "NDArray[Any] | Segment"


@dataclass(frozen=True, slots=True)
class Run:
    """Sorted or partitioned rows; equal keys are in input order."""

    layout: Layout
    count: int
    maxima: tuple[int, ...]
    keys: Column
    values: Column | None
    samples: Keys
    """Every key whose position is a multiple of the sample stride."""
    ascending: bool
    """True if the rows arrived in strictly ascending order."""
    last: tuple[int, ...]
    """Coordinates of the last row."""
    minor: tuple[int, int] | None = None
    """Packed coordinates but the leading one of the first and last row, if rows arrived sorted by them."""
    unsorted_bits: int | None = None
    """Low bits of the leading coordinate by which a partitioned run is not sorted; None if sorted."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(column.nbytes for column in (self.keys, self.values) if isinstance(column, np.ndarray))

    @property
    def first(self) -> tuple[int, ...]:
        """Coordinates of the first row."""
        return unpack_key(self.samples[0], self.layout)

    def rows(self) -> Rows:
        """Return the rows of a run in memory."""
        assert isinstance(self.keys, np.ndarray)
        assert not isinstance(self.values, Segment)
        from sparrow.kernels.keys import unpack

        return Rows(unpack(self.keys, self.layout), self.values)


def duplicate_error(cell: tuple[int, ...], describe: Callable[[tuple[int, ...]], str] = str) -> DuplicateError:
    """Return the error about an element that has several rows."""
    return DuplicateError(
        f"element {describe(cell)} is given more than once: pass duplicates='sum', 'last', 'first', 'min' or 'max'",
        cell,
    )


def unpack_key(key: Any, layout: Layout) -> tuple[int, ...]:
    """Return the coordinates of a key."""
    from sparrow.kernels.keys import unpack

    return tuple(int(column[0]) for column in unpack(np.array([key], np.int64), layout))
