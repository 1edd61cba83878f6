"""Tuning parameters of plans."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, parameter

__all__ = ["PlanTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PlanTuning:
    """Limits of the cost model, of path searches and of labels that are read lazily."""

    label_depth: int = parameter(16, "labels", "Lazy labels nested one inside the other; deeper ones are read at once.")
    max_concat_slices: int = parameter(
        32,
        "slices",
        "Slices along the leading axis that aligning labels concatenates; more are taken by one list index.",
    )
    small_views_ratio: int = parameter(
        4, "ratio", "Size of a box per size of the views of a node in it from which on they are computed one by one."
    )
    estimate_depth: int = parameter(6, "nodes", "Nodes that an estimate looks through; below, every element counts.")
    counted_axis_length: int = parameter(1 << 22, "coordinates", "Longest axis along which elements are counted.")
    counted_elements: int = parameter(1 << 24, "elements", "Most elements that are counted for an estimate.")
    degree_cache_bytes: int = parameter(1 << 26, "bytes", "Counts per coordinate that are cached.")
    degree_entry_bytes: int = parameter(1 << 9, "bytes", "Overhead of one cached array of counts.")
    optimal_path_operands: int = parameter(
        7, "operands", "Operands up to which every contraction order is tried; the search is exponential."
    )
    eager_multiply_ratio: int = parameter(
        8,
        "ratio",
        "Array elements per stored element from which on a product with a writable array is computed at once, "
        "because a copy of the array would cost more.",
    )
    eager_multiply_bytes: int = parameter(1 << 20, "bytes", "Smaller arrays are copied instead.")
    dense_contraction_elements: int = parameter(
        1 << 20, "elements", "Intermediate sums of a dense contraction that are always allowed."
    )
    mostly_absent_ratio: int = parameter(
        4, "ratio", "Elements per stored element from which on a contraction with arrays stays sparse."
    )
    mostly_absent_elements: int = parameter(1 << 10, "elements", "Smaller results of such a contraction are arrays.")
    distributed_elements: int = parameter(
        1 << 20, "elements", "Sums with broadcast terms from which on a product takes each term by itself."
    )
    distributed_ratio: int = parameter(4, "ratio", "Size of such a sum per size of its broadcast terms, at least.")
    max_products: int = parameter(16, "products", "Products that a contraction of sums may become.")


tuning = Tunable("plan", PlanTuning())
