"""External sort of stored elements.

Elements arrive as rows in any order and leave as canonical blocks. If their coordinates fit 63 bits they are packed
into keys: rows are sorted on arrival, buffered in memory, spilled as sorted runs to an unnamed file, and merged range
by range on threads. For wider coordinates the leading one is the key, and the rows of a range are sorted by the others
on merge. Import :class:`~sparrow.sorting.sorter.Sorter` from its module, which loads compiled kernels.
"""

from __future__ import annotations

from sparrow.sorting.rows import Rows, Run
from sparrow.sorting.spill import Segment, SpilledBlocks, SpillFile, memory_budget

__all__ = ["Rows", "Run", "Segment", "SpillFile", "SpilledBlocks", "memory_budget"]
