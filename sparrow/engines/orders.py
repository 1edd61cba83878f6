"""Which sort order of a relation a scan reads."""

from __future__ import annotations

from collections.abc import Callable

from sparrow.index import New, Range, View
from sparrow.plan import Scan

__all__ = ["groups_output", "product_order", "rows_read", "scan_order", "sorted_order"]


def _cheapest(scan: Scan, weight: Callable[[tuple[int, ...]], int]) -> tuple[int, ...]:
    """Return the order with the fewest rows to read, times a weight; of equals the first."""
    orders = scan.relation.orders
    if len(orders) == 1:
        return orders[0]
    box = scan.view.box()
    return min(orders, key=lambda order: scan.relation.stats(box, order).rows * weight(order))


def scan_order(scan: Scan) -> tuple[int, ...]:
    """Return the order in which the fewest rows are read; the base order on ties."""
    return _cheapest(scan, lambda order: 1)


def rows_read(scan: Scan) -> int:
    """Return how many entries are read in that order, each once. Reads footers, no data."""
    return scan.relation.stats(scan.view.box(), scan_order(scan)).rows


def sorted_order(scan: Scan) -> tuple[int, ...]:
    """Return the order to read where the result must be sorted: sorting a row costs about four reads."""
    return _cheapest(scan, lambda order: 1 if scan.view.keeps_order(order) else 5)


def product_order(scan: Scan) -> tuple[int, ...]:
    """Return the order to read for a product: adding up on one thread costs about as much again."""
    return _cheapest(scan, lambda order: 1 if groups_output(scan.view, order) else 2)


def groups_output(view: View, order: tuple[int, ...]) -> bool:
    """Return whether entries with one coordinate along the first of two axes stand together in the order.

    A view with one axis contracts to one cell, so there they do.
    """
    if view.ndim == 1:
        return True
    axis = view.axes[0]
    if isinstance(axis, New):
        return axis.length <= 1
    fixed = {dim for dim, _ in view.fixed}
    leading = next((dim for dim in order if dim not in fixed), None)
    return isinstance(axis, Range) and axis.dim == leading
