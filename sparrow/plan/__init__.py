"""Plans: what is to be computed, as frozen nodes. No I/O happens here, and no engine is known."""

from __future__ import annotations

from sparrow.plan.alignment import Join, aligned, by_name, fitted, matched, multiplied, on_labels, places_of
from sparrow.plan.elementwise import called, map_cells, pinned
from sparrow.plan.functions import Cast, Clip, Output, Round, function_name
from sparrow.plan.labels import Labels, Names, alike, names_along
from sparrow.plan.nodes import (
    Accumulate,
    Concat,
    Contract,
    Dense,
    Diagonal,
    Map,
    Node,
    Product,
    Reduce,
    Refill,
    Reshape,
    Scan,
    Sort,
    Step,
    Triangle,
    Weighted,
    scans_of,
)
from sparrow.plan.products import cell_by_cell, product, weighted
from sparrow.plan.reductions import Axis, Where, named_axis, reduction, resolved_axis
from sparrow.plan.rewrites import narrowed, rewritten, split_view, steps_below
from sparrow.plan.semirings import PLUS_TIMES, SEMIRINGS, Semiring, semiring_of
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
    "PLUS_TIMES", "SEMIRINGS", "Accumulate", "Axis", "Cast", "Clip", "Concat", "Contract", "Dense", "Diagonal", "Join",
    "Labels", "Map", "Names", "Node", "Output", "Product", "Reduce", "Refill", "Reshape", "Round", "Scan", "Semiring",
    "Sort", "Step", "Triangle", "Weighted", "Where", "accumulated", "aligned", "alike", "by_name", "called",
    "cell_by_cell", "concatenated", "diagonal", "fitted", "function_name", "map_cells", "matched", "multiplied",
    "named_axis", "names_along", "narrowed", "on_labels", "pinned", "places_of", "product", "reduction", "refilled",
    "reshaped", "resolved_axis", "rewritten", "scans_of", "semiring_of", "sorted_lines", "split_view", "starts_of",
    "steps_below", "triangle", "weighted",
]  # fmt: skip
