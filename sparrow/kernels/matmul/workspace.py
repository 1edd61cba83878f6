"""Per-thread workspace of SpGEMM kernels: accumulators, clean between calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.matmul.simd import FLAGS
from sparrow.kernels.matmul.symbolic import MAX_GATHERED
from sparrow.kernels.matmul.tuning import tuning

__all__ = [
    "GROUPS_PER_LINE",
    "MAX_FOUND_GROUPS",
    "OUTPUT_SLACK",
    "Workspace",
    "get_seed",
]

OUTPUT_SLACK = 8
"""Output elements beyond the number of products: stores of eight lanes write past the last one."""
_COLUMNS_PER_LINE, GROUPS_PER_LINE = 512, np.uint64(64)
"""Columns, and groups of eight columns, that share a line flag."""
MAX_FOUND_GROUPS = 1024
"""Touched groups collected before they are written out."""
_UNTRACKED = np.empty(0, np.uint8)
"""Touched flags of a seeded dense row, which needs none."""


class Workspace:
    """Accumulators of one thread for products of some width, clean between calls.

    A dense row is divided into groups of eight columns and lines of 64 groups; flags mark the touched ones.

    Parameters
    ----------
    width
        Number of columns.
    dtype
        Dtype in which products are accumulated.
    seed
        Identity of the addition that fills the dense row. None to leave the row undefined and track touched columns.
    """

    def __init__(self, width: int, dtype: np.dtype[Any], seed: Any = None) -> None:
        n_lines = -(-(width + 1) // (_COLUMNS_PER_LINE * int(FLAGS))) * int(FLAGS)
        self._is_seeded = seed is not None
        self.seed = dtype.type(seed or 0)
        self.group_flags = np.zeros(n_lines * int(GROUPS_PER_LINE), np.uint8)
        self.line_flags = np.zeros(n_lines, np.uint8)
        self.line_words = self.line_flags.view(np.uint64)
        self.found_lines = np.empty(n_lines + int(FLAGS), np.uint32)
        self.found_groups = np.empty(MAX_FOUND_GROUPS + int(GROUPS_PER_LINE + FLAGS), np.uint32)
        self.slot_values = np.empty(MAX_GATHERED + 1, dtype)
        self.order = np.empty((3, MAX_GATHERED), np.uint64)
        self.counts = np.zeros(257, np.uint32)
        self._plan: tuple[NDArray[Any], ...] = ()
        self._width = width
        self._row: NDArray[Any] | None = None
        self._state: NDArray[np.uint8] | None = None
        self._weights: NDArray[Any] | None = None

    def plan(self, rows: int, products: int) -> tuple[NDArray[Any], ...]:
        """Return plan buffers for rows that gather at most ``products`` products."""
        if not self._plan or len(self._plan[0]) < rows or len(self._plan[2]) < products:
            slots, keys = np.empty(products, np.uint16), np.empty(products, np.uint32)
            self._plan = np.empty(rows, np.uint8), np.empty(rows, np.uint16), slots, keys
        kinds, sizes, *gathered = self._plan
        return kinds[:rows], sizes[:rows], *gathered

    def dense(self, needed: bool) -> tuple[Any, ...]:
        """Return the accumulator arguments of the kernel ``rows``."""
        touched = self.state if needed and not self._is_seeded else _UNTRACKED
        row = self.row if needed else self.slot_values[:0]
        flags = self.group_flags, self.line_flags, self.line_words, self.found_lines, self.found_groups
        return self.seed, row, touched, self.slot_values, *flags

    @property
    def row(self) -> NDArray[Any]:
        """Dense row filled with the seed, padded to complete lines."""
        if self._row is None:
            self._row = _full_aligned(len(self.line_flags) * _COLUMNS_PER_LINE, self.seed)
        return self._row

    @property
    def state(self) -> NDArray[np.uint8]:
        """State of each column, 0, padded to complete lines."""
        if self._state is None:
            self._state = np.zeros(len(self.line_flags) * _COLUMNS_PER_LINE, np.uint8)
        return self._state

    @property
    def weights(self) -> NDArray[Any]:
        """Weight of each column, 0."""
        if self._weights is None:
            self._weights = np.zeros(max(self._width, 1), self.slot_values.dtype)
        return self._weights


def _full_aligned(count: int, value: Any) -> NDArray[Any]:
    """Return an array of one value, aligned to cache lines."""
    room = np.zeros(count + 64 // value.itemsize, value.dtype)
    first = -room.ctypes.data % 64 // value.itemsize
    if value != 0:
        room[:] = value
    return room[first : first + count]


def get_seed(add: Any, dtype: np.dtype[Any], width: int, nnz: int) -> Any:
    """Return the identity of ``add`` to fill dense rows with, or None.

    None if no identity exists, or if filling a row is expensive relative to the ``nnz`` elements of the right matrix.
    """
    if not isinstance(add, str) or dtype.kind not in "iuf":
        return None  # the parts of a complex zero are signed
    if add in ("plus", "or"):
        return 0
    if add not in ("min", "max") or width > max(tuning().seeded_max_columns, nnz):
        return None
    if dtype.kind == "f":
        return np.inf if add == "min" else -np.inf
    bounds = np.iinfo(dtype)
    return bounds.max if add == "min" else bounds.min
