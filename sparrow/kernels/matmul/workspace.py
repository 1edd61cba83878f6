"""What a thread needs to multiply rows of sparse matrices: buffers, clean between calls, and a dense row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.matmul.simd import FLAGS, LANES
from sparrow.kernels.matmul.symbolic import FEW, RECENT, THICKNESS

__all__ = ["BUFFER", "DEPTH", "IN_LINE", "NARROW", "SLACK", "Workspace", "seed_of"]

SLACK = 8
"""Entries of room more than products: what is written eight at a time passes the last one."""
_LINE, IN_LINE = 512, np.uint64(64)
"""The columns, and the eights, of a line of flags."""
BUFFER = 1024
"""How many eights are found before they are read out."""
DEPTH, NARROW = np.uint64(32), np.uint64(64)
"""How many rows that are alike are added up side by side, where they have so many columns at most."""
_NOTHING_SEEN = np.empty(0, np.uint8)
"""What of a dense row with a seed need not be known: which of its columns were added to."""
_WIDEST = 1 << 20
"""Columns up to which a dense row is filled with an identity that is not 0, which takes the room at once, where the
right matrix has fewer entries."""


class Workspace:
    """Buffers that one thread uses for products of some width, clean between calls.

    Parameters
    ----------
    width
        The number of columns.
    dtype
        The type in which products are added up.
    seed
        What the dense row holds wherever nothing is added up; None where it holds anything.
    """

    def __init__(self, width: int, dtype: np.dtype[Any], seed: Any = None) -> None:
        lines = -(-(width + 1) // (_LINE * int(FLAGS))) * int(FLAGS)
        self._seeded = seed is not None
        self.seed = dtype.type(seed or 0)
        self.eights = np.zeros(lines * int(IN_LINE), np.uint8)
        self.lines = np.zeros(lines, np.uint8)
        self.line_words = self.lines.view(np.uint64)
        self.found_lines = np.empty(lines + int(FLAGS), np.uint32)
        self.found = np.empty(BUFFER + int(IN_LINE + FLAGS), np.uint32)
        self.held = np.empty(max(FEW + 1, int(DEPTH * NARROW)), dtype)
        self.window = np.full(int(THICKNESS) * FEW + int(LANES), self.seed)
        self.order = np.empty((3, FEW), np.uint64)
        self.counts = np.zeros(257, np.uint32)
        self.plans = np.empty((int(RECENT), 6), np.uint64)
        self._plan: tuple[NDArray[Any], ...] = ()
        self._width = width
        self._total: NDArray[Any] | None = None
        self._state: NDArray[np.uint8] | None = None
        self._weights: NDArray[Any] | None = None

    def plan(self, rows: int, products: int) -> tuple[NDArray[Any], ...]:
        """Return room for what is planned of some rows, which gathers so many products at most."""
        if not self._plan or len(self._plan[0]) < rows or len(self._plan[2]) < products:
            slots, keys = np.empty(products, np.uint16), np.empty(products, np.uint32)
            self._plan = np.empty(rows, np.uint8), np.empty(rows, np.uint16), slots, keys
        kinds, sizes, *gathered = self._plan
        return kinds[:rows], sizes[:rows], *gathered

    def dense(self, wanted: bool) -> tuple[Any, ...]:
        """Return what rows are added up in, as a loop ``rows`` takes it, without a dense row if none is wanted."""
        seen = self.state if wanted and not self._seeded else _NOTHING_SEEN
        total = self.total if wanted else self.window[:0]
        flags = self.eights, self.lines, self.line_words, self.found_lines, self.found
        return self.seed, total, seen, self.held, self.window, *flags

    @property
    def total(self) -> NDArray[Any]:
        """A dense row: the seed for each column, and some more."""
        if self._total is None:
            self._total = _aligned(len(self.lines) * _LINE, self.seed)
        return self._total

    @property
    def state(self) -> NDArray[np.uint8]:
        """A byte for each column, 0, and some more: eight are looked at together."""
        if self._state is None:
            self._state = np.zeros(len(self.lines) * _LINE, np.uint8)
        return self._state

    @property
    def weights(self) -> NDArray[Any]:
        """A number for each column, 0."""
        if self._weights is None:
            self._weights = np.zeros(max(self._width, 1), self.window.dtype)
        return self._weights


def _aligned(count: int, value: Any) -> NDArray[Any]:
    """Return so many times a value, eights of which do not pass the end of a line of the cache."""
    room = np.zeros(count + 64 // value.itemsize, value.dtype)
    first = -room.ctypes.data % 64 // value.itemsize
    if value != 0:
        room[:] = value
    return room[first : first + count]


def seed_of(add: Any, dtype: np.dtype[Any], width: int, entries: int) -> Any:
    """Return what ``add`` leaves as it is, if it can stand in a dense row of a width where nothing was added up.

    None where there is no such number, and where filling a row with it takes long beside so many entries of the right
    matrix.
    """
    if not isinstance(add, str) or dtype.kind not in "iuf":
        return None  # of complex numbers each part has its own sign of 0
    if add in ("plus", "or"):
        return 0
    if add not in ("min", "max") or width > max(_WIDEST, entries):
        return None
    if dtype.kind == "f":
        return np.inf if add == "min" else -np.inf
    bounds = np.iinfo(dtype)
    return bounds.max if add == "min" else bounds.min
