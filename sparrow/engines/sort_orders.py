"""Choice of the sort order of a relation that a scan reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparrow.core.indexing import NewAxis, RangeAxis, View
from sparrow.plan import Scan
from sparrow.relations.protocol import Relation

__all__ = ["count_rows_to_read", "groups_output", "product_order", "scan_in_order", "scan_order", "sorted_order"]


def _cheapest(scan: Scan, weight: Callable[[tuple[int, ...]], int]) -> tuple[int, ...]:
    """Return the order with the fewest weighted rows to read."""
    orders = scan.relation.orders
    if len(orders) == 1:
        return orders[0]
    box = scan.view.box()
    return min(orders, key=lambda order: scan.relation.stats(box, order).rows * weight(order))


def scan_order(scan: Scan) -> tuple[int, ...]:
    """Return the order in which the fewest rows are read, the base order on ties."""
    return _cheapest(scan, lambda order: 1)


def scan_in_order(relation: Relation, order: tuple[int, ...]) -> Scan:
    """Return the scan of a relation whose axes are its dimensions in an order."""
    view = View.identity(relation.schema.shape).permute(order)
    return Scan(relation, view, relation.schema.with_view(view))


def count_rows_to_read(scan: Scan) -> int:
    """Return the number of elements read in :func:`scan_order`."""
    return scan.relation.stats(scan.view.box(), scan_order(scan)).rows


def sorted_order(scan: Scan) -> tuple[int, ...]:
    """Return the order to read for a sorted result; sorting costs four reads."""
    return _cheapest(scan, lambda order: 1 if scan.view.preserves_order(order) else 5)


def product_order(scan: Scan, axes: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the order to read for a product that keeps some axes.

    By default the first of two.

    Ungrouped output is added up on one thread, which costs about as much as reading.
    """
    return _cheapest(scan, lambda order: 1 if groups_output(scan.view, order, axes) else 2)


def groups_output(view: View, order: tuple[int, ...], axes: Sequence[int] | None = None) -> bool:
    """Return whether elements that agree along some axes are adjacent.

    By default along the first of two.
    """
    axes = range(view.ndim - 1) if axes is None else axes
    found = [view.axes[axis] for axis in axes]
    along = {axis.dim for axis in found if isinstance(axis, RangeAxis)}
    if any(not isinstance(axis, RangeAxis) and not (isinstance(axis, NewAxis) and axis.length <= 1) for axis in found):
        return False
    fixed = {dim for dim, _ in view.fixed}
    leading = [dim for dim in order if dim not in fixed]
    return along == set(leading[: len(along)])
