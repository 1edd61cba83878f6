"""Plans told to people: the tree, the engine of each step, the predicate that reaches a scan and what it skips."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from sparrow.core.indexing import View
from sparrow.core.schema import Schema
from sparrow.engines.duckdb.predicate import conditions
from sparrow.engines.fallback import unsupported_nodes
from sparrow.engines.sort_orders import product_order, scan_order
from sparrow.plan import (
    Dense,
    MatMulDense,
    Node,
    Root,
    Scan,
    nodes_below,
    optimize_plan,
    scans_of,
)
from sparrow.plan.estimates import CostModel
from sparrow.relations.csr import CSRRelation
from sparrow.runtime.progress import format_quantity

if TYPE_CHECKING:
    from sparrow.engines.registry import Engine

__all__ = ["format_schema", "render_plan"]

_INDENTED = 30
"""Levels that are indented; deeper ones stand below one another."""


def render_plan(node: Root, engine: Engine) -> str:
    """Return the plan of a node as an engine would run it. Looks at the log and at footers, not at data."""
    return "\n".join(_Telling(node, engine).lines())


_Item: TypeAlias = "tuple[int, Any, str, tuple[int, ...] | None, bool]"
"""Depth, what is told, the name of its engine, the sort order it reads, whether it wants the view's own order."""


class _Telling:
    """One plan on its way to a text; without recursion, since plans may be deep."""

    def __init__(self, node: Root, engine: Engine) -> None:
        self._engine = engine
        if isinstance(node, Scan):
            self._node: Root = optimize_plan([node])[0]
        elif isinstance(node, MatMulDense | Node):
            self._node = node.with_inputs(optimize_plan(node.scans))
        else:
            self._node = node
        scans = [self._node] if isinstance(self._node, Scan) else list(scans_of(self._node))
        self._steps = nodes_below(scans)
        self._away = {} if engine.name == "stream" else unsupported_nodes(engine, self._steps)
        uses = Counter(scan.source for step in self._steps for scan in step.scans if isinstance(scan.source, Node))
        uses.update(scan.source for scan in scans if isinstance(scan.source, Node))
        several = [step for step in reversed(self._steps) if uses[step] > 1]
        self._number = {step: k for k, step in enumerate(several, 1)}
        self._told: set[Node] = set()

    def lines(self) -> list[str]:
        """Return the lines of the text."""
        out: list[str] = []
        node = self._node
        order = scan_order(node) if isinstance(node, Scan) and node.step is None and node.view.size else None
        waiting: list[_Item] = [(0, node, self._engine.name, order, isinstance(node, Scan))]
        while waiting:
            depth, item, engine, order, sorts = waiting.pop()
            lines, below = self._one(item, engine, order, sorts)
            out += ["  " * min(depth, _INDENTED) + line for line in lines]
            waiting.extend((depth + 1, *rest) for rest in reversed(below))
        return out

    def _one(self, item: Any, engine: str, order: tuple[int, ...] | None, sorts: bool) -> tuple[list[str], list[Any]]:
        """Return the lines of one item, and what stands below it."""
        if isinstance(item, Dense):
            return [f"dense {format_schema(item.schema)}, in memory"], []
        if isinstance(item, MatMulDense):
            return self._contract(item)
        if isinstance(item, Node):
            return self._step(item, engine)
        if not isinstance(item, Scan):
            return [f"scalar {item!r}"], []
        if item.view.size == 0:
            return [_head(item), "  engine      none: the view has no cells, nothing is read"], []
        if item.step is None:
            order = scan_order(item) if order is None else order
            unsorted = sorts and not item.view.preserves_order(order)
            return _scan(item, engine, order, "; the view's own order takes a sort" if unsorted else ""), []
        if item.view.is_identity:
            return self._step(item.step, engine)
        predicate = f"  predicate   {_predicate(item, item.step.schema)}"
        lines = [f"view {format_schema(item.schema)}", f"  engine      {engine}", predicate]
        return lines, [(item.step, engine, None, False)]

    def _contract(self, node: MatMulDense) -> tuple[list[str], list[Any]]:
        reason = self._engine.unsupported_reason(node)
        engine = self._engine.name if reason is None else "stream"
        told = self._engine.describe(node) if reason is None else reason
        lines = [f"matmul {format_schema(node.schema)}", f"  engine      {engine}{': ' * bool(told)}{told}"]
        scan = node.operands[0]
        order = product_order(scan) if scan.step is None and scan.view.size else None
        return lines, [(side, engine, order, False) for side in (node.left, node.right)]

    def _step(self, step: Node, engine: str) -> tuple[list[str], list[Any]]:
        number = f"  [{self._number[step]}]" if step in self._number else ""
        head = f"{step.label()} {format_schema(step.schema)}{number}"
        if step in self._told:
            return [f"{head}, as above"], []
        self._told.add(step)
        reason = self._away.get(step) if engine != "stream" else None
        runs = "stream" if reason else engine
        why = f": {reason}; its entries are handed over to {engine}" if reason else ""
        lines = [head, f"  engine      {runs}{why}"]
        lines += [f"  {name:<11} {text}" for name, text in step.params(CostModel())]
        return lines, [(below, runs, None, False) for below in step.inputs]


def _head(scan: Scan) -> str:
    source = scan.source
    where = "in memory, by rows" if isinstance(source, CSRRelation) else "in memory"
    if isinstance(source, Node):
        where = "computed"
    elif source.version is not None:
        where = f"stored, version {source.version}"
    return f"scan {format_schema(scan.schema)}, of {format_schema(source.schema)} {where}"


def _scan(scan: Scan, engine: str, order: tuple[int, ...], sort: str) -> list[str]:
    relation, view, base = scan.relation, scan.view, scan.relation.schema
    stats = relation.stats(view.box(), order)
    lines = [_head(scan), f"  engine      {engine}", f"  predicate   {_predicate(scan, base)}"]
    lines.append(f"  order       {', '.join(base.dims[dim] for dim in order) or 'none'}{sort}")
    if stats.files:
        lines.append(f"  files       {_of(stats.files_read, stats.files)}")
        lines.append(f"  row groups  {_of(stats.row_groups_read, stats.row_groups)}")
    lines.append(f"  rows        {_of(stats.rows, relation.nnz)}, {format_quantity(stats.nbytes, 'bytes')}")
    return lines


def _predicate(scan: Scan, base: Schema) -> str:
    view: View = scan.view
    dims = base.dims
    found = conditions(view, lambda dim: dims[dim])
    for group in view.points:
        names = ", ".join(dims[dim] for dim in group.dims)
        names = f"({names})" if len(group.dims) != 1 else names
        found.append(f"{names} IN a list of {group.count}")
    return " AND ".join(found) or "none: everything is read"


def _of(read: int, total: int) -> str:
    return f"{read} of {total} read, {total - read} skipped"


def format_schema(schema: Schema) -> str:
    """Return names, sizes and the type of a result."""
    return f"({', '.join(f'{name}: {n}' for name, n in zip(schema.dims, schema.shape, strict=True))}) {schema.dtype}"
