"""Sorting more entries than memory holds.

Entries come as rows in any order and go out as canonical blocks. Where the coordinates of one entry
fit 63 bits they are packed into a key: blocks are sorted as they come, kept in memory, written as
sorted runs to an unnamed file once memory is full, and merged range by range on threads. Of wider
coordinates the leading one is the key, and the rows of a range are sorted by the others where they
meet. The :class:`~sparrow.sorting.sorter.Sorter` is imported from its module, which brings what
compiles loops.
"""

from __future__ import annotations

from sparrow.sorting.rows import Rows, Run
from sparrow.sorting.spill import Segment, SpilledBlocks, SpillFile, memory_budget

__all__ = ["Rows", "Run", "Segment", "SpillFile", "SpilledBlocks", "memory_budget"]
