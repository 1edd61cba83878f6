"""What a scan of an expression looks at: its last step, the scan's view pushed into it as far as that goes."""

from __future__ import annotations

from sparrow.engines.derived import Derived
from sparrow.engines.elementwise import elementwise
from sparrow.index import View
from sparrow.plan import Dense, Map, Scan, Step, narrowed, split_view

__all__ = ["pushed", "step_of"]


def step_of(scan: Scan, leading: bool = False) -> tuple[Step, View] | None:
    """Return the step that yields what a scan looks at, and the view of its result that remains.

    None where the scan is of files or arrays, or of an expression that no node describes. The view has cells.

    Parameters
    ----------
    leading
        Cut along the leading dimension alone, as what is streamed piece by piece does; all of a function of cells.
    """
    if not isinstance(scan.relation, Derived) or scan.relation.node is None:
        return None
    step, view = scan.relation.node, scan.view
    if view.is_identity or not view.base_shape:
        return step, view
    if leading and not isinstance(step, Map):
        cells = view.box().ranges[0]
        start, stop = min(cells[0], cells[-1]), max(cells[0], cells[-1]) + 1
        rows = narrowed(step, (slice(start, stop), *(slice(None) for _ in view.base_shape[1:])))
        return rows or step, view
    key, rest = split_view(view)
    found = narrowed(step, key)
    return (step, view) if found is None else (found, rest)


def pushed(scan: Scan) -> Scan:
    """Return a scan of the same entries that reads less, where the view of a function of cells goes into its operands.

    What is computed piece by piece is cut along the leading dimension anyway; this cuts along the others too.
    """
    if not scan.view.size or not scan.view.ndim or _cuts_leading(scan.view):
        return scan
    step, rest = step_of(scan) or (None, scan.view)
    if not isinstance(step, Map):
        return scan
    operands = [
        pushed(operand) if isinstance(operand, Scan) else operand.array if isinstance(operand, Dense) else operand
        for operand in step.operands
    ]
    computed = elementwise(step.function, operands)
    return Scan(computed, rest, scan.schema) if isinstance(computed, Derived) else scan


def _cuts_leading(view: View) -> bool:
    """Return whether the view shows all cells of the base but for the leading dimension."""
    return all(len(cells) == size for cells, size in zip(view.box().ranges[1:], view.base_shape[1:], strict=True))
