"""Tuning parameters of the explorer: budgets of reads, caches and queries."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["ExplorerTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ExplorerTuning:
    """Parameters of :mod:`sparrow.explorer`."""

    first_chunks: int = parameter(
        16, "chunks", "Chunks that the first picture of a window reads: 0.1 s of two cores for row groups of 2^18 rows."
    )
    refine_chunks: int = parameter(32, "chunks", "Chunks that one refinement reads at most.")
    step_seconds: float = parameter(0.2, "seconds", "A step that takes longer ends early, with the chunks read so far.")
    max_bins: int = parameter(1024, "bins", "Bins of a picture along one axis; a page asks for one per pixel.")
    range_groups: int = parameter(512, "groups", "Groups of chunks in the picture drawn from key ranges alone.")
    window_parts: float = memory_share(16, "Grids and counters of windows that were looked at.")
    cached_windows: int = parameter(16, "windows", "Windows whose grids are cached.")
    degree_ids: int = parameter(1 << 21, "ids", "Rows and columns whose elements are counted; of more, every nth is.")
    value_bins: int = parameter(96, "bins", "Bins of the histogram of values.")
    value_categories: int = parameter(24, "values", "Up to n distinct values are counted one by one.")
    value_probe: int = parameter(4096, "values", "Values of the first chunk that choose the scale of the histogram.")
    log_scale_ratio: float = parameter(
        100, "ratio", "Positive values whose 98th percentile is n times the 2nd have a logarithmic scale."
    )
    degree_points: int = parameter(160, "points", "More distinct degrees than that are grouped, ten to a decade.")
    listed_elements: int = parameter(200, "elements", "Elements of a window that are listed.")
    listing_chunks: int = parameter(8, "chunks", "Chunks that a list of elements reads at most.")
    map_cells: int = parameter(1200, "cells", "Cells of the map of row groups; more row groups share cells.")
    search_results: int = parameter(20, "labels", "Labels that a search lists.")
    search_text_labels: int = parameter(5_000_000, "labels", "More labels are searched for whole labels only.")
    labels_sent: int = parameter(700, "labels", "A window with at most n rows has all their labels.")
    label_characters: int = parameter(160, "characters", "Longer labels and cells are cut.")
    versions_listed: int = parameter(500, "versions", "Versions of the timeline, the newest ones.")
    sql_rows: int = parameter(500, "rows", "Rows of a query that are shown.")
    sql_seconds: float = parameter(30, "seconds", "Time limit of a query.")
    interrupt_seconds: float = parameter(0.05, "seconds", "Time between two interrupts of a query that is stopped.")
    request_bytes: int = parameter(1 << 18, "bytes", "Longest body of a request.")
    idle_seconds: float = parameter(60, "seconds", "Silence after which a connection is closed.")


tuning = Tunable("explorer", ExplorerTuning())
