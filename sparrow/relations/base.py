"""Former location of the modules of this package, until all branches import from those."""

from __future__ import annotations

from sparrow.relations.arrow import arrow_schema, arrow_table, as_arrow, as_numpy, labelled_table
from sparrow.relations.edits import Edit, Growth, apply_edit, merge_labels
from sparrow.relations.memory import MemoryHandle, MemoryRelation, RowSlices
from sparrow.relations.protocol import (
    ArrowSource,
    Chunk,
    Handle,
    ParquetSource,
    Relation,
    ScanStats,
    StoredColumn,
    base_orders,
    scan,
)

__all__ = [
    "ArrowSource", "Chunk", "Edit", "Growth", "Handle", "MemoryHandle", "MemoryRelation", "ParquetSource", "Relation",
    "RowSlices", "ScanStats", "StoredColumn", "apply_edit", "arrow_schema", "arrow_table", "as_arrow", "as_numpy",
    "base_orders", "labelled_table", "merge_labels", "scan",
]  # fmt: skip
