"""External sort of stored elements.

The input is rows in any order, the output canonical blocks. Coordinates that fit 63 bits are packed into keys. Each
batch of rows is sorted into a run. Runs are buffered in memory, spilled to an unnamed file, and merged range by range
on threads. For wider coordinates the leading one is the key; the merge sorts the rows of a range by the others.

Import :class:`~sparrow.sorting.sorter.Sorter` from its module, which loads compiled kernels.
"""

from __future__ import annotations

from sparrow.sorting.rows import Rows, Run, duplicate_error
from sparrow.sorting.spill import Segment, SpilledBlocks, SpillFile, memory_budget

__all__ = ["Rows", "Run", "Segment", "SpillFile", "SpilledBlocks", "duplicate_error", "memory_budget"]
