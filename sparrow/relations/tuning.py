"""Tuning parameters of relations in memory."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, parameter

__all__ = ["RelationTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RelationTuning:
    """Chunk sizes of arrays in memory, and limits of their CSR layout."""

    chunk_elements: int = parameter(1 << 18, "elements", "Chunk of arrays in memory: the unit of parallel reading.")
    min_partition_elements: int = parameter(1 << 17, "elements", "Smaller partitions of a product waste thread time.")
    max_partition_elements: int = parameter(1 << 19, "elements", "Larger partitions of a product balance badly.")
    max_pointers_per_element: int = parameter(8, "ratio", "Row pointers per element, above which CSR wastes memory.")
    max_slices: int = parameter(1 << 12, "slices", "Slices of a chunk; more take longer to plan than to read.")


tuning = Tunable("relations", RelationTuning(), strategies={"small_chunks": {"chunk_elements": 7}})
