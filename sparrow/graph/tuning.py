"""Tuning parameters of the graph algorithms."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["GraphTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GraphTuning:
    """Thresholds and memory shares of :mod:`sparrow.graph`."""

    adjacency_share: int = memory_share(4, "Adjacency lists held in memory; larger ones spill to disk.")
    component_share: int = memory_share(4, "Edges between components, held during one pass over a spilled graph.")
    triangle_share: int = memory_share(4, "Edges that close triangles, held while all edges are read.")
    edges_per_call: int = parameter(1 << 25, "edges", "Work of one kernel call; Ctrl-C is checked between calls.")
    read_edges: int = parameter(1 << 18, "edges", "Read size of spilled adjacency lists.")
    read_gap_edges: int = parameter(1 << 12, "edges", "Gap between two spilled lists that is read rather than skipped.")
    seek_ratio: int = parameter(
        16, "nodes per active node", "With n or more nodes per active node, only the active lists are read."
    )
    component_edge_bytes: int = parameter(
        64, "bytes", "Memory of one edge while SciPy finds components: its keys, its ends and a CSR matrix."
    )
    min_component_edges: int = parameter(4, "edges", "Edges between components held under any memory limit.")
    coloring_ratio: float = parameter(
        0.8, "ratio", "Above this share of edges left by a pass, the next one colors what the largest nodes reach."
    )
    triangle_parts_per_thread: int = parameter(16, "parts", "Parts of the nodes per thread, to balance the load.")
    weight_sample: int = parameter(1024, "edges", "Sample of the weights that sets the bucket width of delta-stepping.")
    passes_before_cycle_check: int = parameter(
        4, "passes", "Passes over all edges before the first check for negative cycles."
    )


tuning = Tunable("graph", GraphTuning(), strategies={"edges_on_disk": {"adjacency_share": 1 << 40}})
