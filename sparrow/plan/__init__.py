"""Plans: what is to be computed, as frozen nodes. No I/O happens here, and no engine is known."""

from __future__ import annotations

from sparrow.plan.cells import called, map_cells
from sparrow.plan.functions import Cast, Clip, Output, Round, function_name
from sparrow.plan.labels import labels_of
from sparrow.plan.nodes import (
    Accumulate,
    Concat,
    Contract,
    Dense,
    Diagonal,
    Map,
    Node,
    Reduce,
    Refill,
    Reshape,
    Scan,
    Sort,
    Step,
    Triangle,
    scans_of,
)
from sparrow.plan.reductions import Axis, Where, reduction, resolved_axis
from sparrow.plan.rewrites import narrowed, rewritten, split_view, steps_below
from sparrow.plan.shapes import (
    accumulated,
    concatenated,
    diagonal,
    refilled,
    reshaped,
    sorted_lines,
    starts_of,
    triangle,
)

__all__ = [
    "Accumulate", "Axis", "Cast", "Clip", "Concat", "Contract", "Dense", "Diagonal", "Map", "Node", "Output", "Reduce",
    "Refill", "Reshape", "Round", "Scan", "Sort", "Step", "Triangle", "Where", "accumulated", "called", "concatenated",
    "diagonal", "function_name", "labels_of", "map_cells", "narrowed", "reduction", "refilled", "reshaped",
    "resolved_axis", "rewritten", "scans_of", "sorted_lines", "split_view", "starts_of", "steps_below", "triangle",
]  # fmt: skip
