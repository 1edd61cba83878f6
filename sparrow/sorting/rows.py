"""Rows as they come, and as sorted runs of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.sorting.spill import Segment

if TYPE_CHECKING:
    from sparrow.kernels.keys import Keys, Layout

__all__ = ["Column", "Rows", "Run", "unpack_key"]


class Rows(NamedTuple):
    """Entries as they come: ``coords[k]`` (shape (n,), integers from 0) along dimension k, ``values`` (shape (n,)).

    Without values each row is one occurrence of its cell.
    """

    coords: tuple[NDArray[Any], ...]
    values: NDArray[Any] | None

    @property
    def size(self) -> int:
        """The number of rows, n."""
        return len(self.coords[0])

    def take(self, at: Any) -> Rows:
        """Return the rows at positions, in a slice or under a mask."""
        return Rows(tuple(c[at] for c in self.coords), None if self.values is None else self.values[at])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(c.nbytes for c in self.coords) + (0 if self.values is None else self.values.nbytes)


Column: TypeAlias = "NDArray[Any] | Segment"


@dataclass(frozen=True, slots=True)
class Run:
    """Sorted rows, or loosely sorted ones; equal keys are in the order of the input."""

    layout: Layout
    count: int
    maxima: tuple[int, ...]
    keys: Column
    values: Column | None
    samples: Keys
    """Every key whose position is a multiple of the sampling distance."""
    ascending: bool
    """Whether the rows came in strictly ascending order."""
    last: tuple[int, ...]
    """The coordinates of the last row."""
    minor: tuple[int, int] | None = None
    """Where rows came sorted by all coordinates but the leading one: these of the first row and of the last, packed."""
    loose: int | None = None
    """The low bits of the leading coordinate that rows are not sorted by, nor by what follows; None where all sorts."""

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return sum(column.nbytes for column in (self.keys, self.values) if isinstance(column, np.ndarray))

    @property
    def first(self) -> tuple[int, ...]:
        """The coordinates of the first row."""
        return unpack_key(self.samples[0], self.layout)

    def rows(self) -> Rows:
        """Return the rows of a run in memory."""
        assert isinstance(self.keys, np.ndarray)
        assert not isinstance(self.values, Segment)
        from sparrow.kernels.keys import unpack

        return Rows(unpack(self.keys, self.layout), self.values)


def unpack_key(key: Any, layout: Layout) -> tuple[int, ...]:
    """Return the coordinates of a key."""
    from sparrow.kernels.keys import unpack

    return tuple(int(column[0]) for column in unpack(np.array([key], np.int64), layout))
