"""Sorting more entries than memory holds.

Entries come as rows in any order and go out as canonical blocks. Where the coordinates of one entry
fit 63 bits they are packed into a key: blocks are sorted as they come, kept in memory, written as
sorted runs to an unnamed file once memory is full, and merged range by range on threads. Wider
coordinates go through a sort in DuckDB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparrow.sorting.rows import Rows, Run
from sparrow.sorting.spool import Segment, Spool, memory_budget

if TYPE_CHECKING:
    from sparrow.sorting.sorter import Sorter

__all__ = ["Rows", "Run", "Segment", "Sorter", "Spool", "memory_budget"]


def __getattr__(name: str) -> Any:
    """Import the sorter, and with it what compiles loops, when it is first asked for."""
    if name != "Sorter":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sparrow.sorting.sorter import Sorter

    return Sorter
