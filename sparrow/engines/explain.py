"""Render a plan for ``explain()``: as text, HTML, JSON and a picture.

The tree shows the engine of each node, the predicate that reaches a scan and the files and row groups that it skips. It
reads the log and footers of files, no data. Plans may be deep, so nothing here recurses.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from sparrow.core.schema import Schema
from sparrow.engines.duckdb.predicate import view_predicates
from sparrow.engines.fallback import optimize_for, unsupported_nodes
from sparrow.engines.plan_entry import PlanEntry, format_schema
from sparrow.engines.profile import Profile
from sparrow.engines.protocol import CostEstimator, Engine, TaskEngine
from sparrow.engines.sort_orders import product_order, scan_order
from sparrow.engines.tuning import tuning
from sparrow.plan import Contraction, Dense, Node, Root, Scan, matrix_form, nodes_below, scans_of
from sparrow.plan.estimates import CostModel
from sparrow.relations.csr import CSRRelation
from sparrow.runtime.progress import format_quantity

if TYPE_CHECKING:
    from sparrow.engines.plan_picture import PlanPicture

__all__ = ["Plan", "PlanEntry", "PlanTree", "format_schema"]


class Plan(str):
    """A query plan: a string that notebooks show as a tree.

    Parameters
    ----------
    entries
        The nodes, each before its operands.
    summary
        Lines about the evaluation as a whole.
    totals
        Counters of the evaluation as a whole, by name.
    queries
        Operators of the queries that DuckDB ran for an analyzed plan, each before its inputs.

    Examples
    --------
    >>> import sparrow as sp
    >>> plan = (sp.asarray([[0, 2], [3, 0]]) * 2).explain()
    >>> plan.splitlines()[0]
    'map multiply (d0: 2, d1: 2) int64'
    >>> import json
    >>> json.loads(plan.to_json())["operation"]
    'map multiply'
    >>> plan.plot().svg[:4]
    '<svg'
    """

    __slots__ = ("entries", "queries", "summary", "totals")

    entries: tuple[PlanEntry, ...]
    summary: tuple[str, ...]
    totals: dict[str, Any]
    queries: tuple[PlanEntry, ...]

    def __new__(  # noqa: D102
        cls,
        entries: Iterable[PlanEntry],
        summary: Iterable[str] = (),
        totals: Mapping[str, Any] | None = None,
        queries: Iterable[PlanEntry] = (),
    ) -> Self:
        entries, summary, levels = tuple(entries), tuple(summary), tuning().max_indent_levels
        lines = []
        for entry in entries:
            indent = "  " * min(entry.depth, levels)
            lines.append(indent + entry.head)
            lines += [f"{indent}  {name:<11} {text}" for name, text in entry.lines]
        plan = super().__new__(cls, "\n".join([*lines, *summary]))
        plan.entries, plan.summary, plan.totals, plan.queries = entries, summary, dict(totals or {}), tuple(queries)
        return plan

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Plan, (self.entries, self.summary, self.totals, self.queries)

    def to_json(self) -> str:
        """Return the plan as JSON.

        Nodes are nested objects with ``operation``, ``dims``, ``dtype``, ``details`` and ``operands``. A scan has
        ``reads``: the files, row groups, rows and bytes that it reads and skips. An analyzed plan has the counters of a
        node as ``actual``. The first node has those of the whole as ``totals`` and ``summary``, and as ``queries`` the
        operators of the queries that DuckDB ran. On a cluster it has the planned rounds of tasks as ``rounds``, and in
        ``totals`` those that ran.
        """
        whole: dict[str, Any] = {"summary": self.summary} if self.summary else {}
        whole |= {"totals": self.totals} if self.totals else {}
        text = _nest(self.entries)
        if self.queries:
            whole["queries"] = json.loads(f"[{_nest(self.queries)}]")
        return f"{text[:-1]}, {json.dumps(whole)[1:]}" if whole else text

    def plot(self) -> PlanPicture:
        """Draw the plan: a box per operator, with bytes read and skipped.

        Returns
        -------
        PlanPicture
            A picture that notebooks show; ``save("plan.svg")`` writes it to a file.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.eye(3).explain().plot()
        PlanPicture of 1 operator, 260 x 130 pixels
        """
        from sparrow.engines.plan_picture import PlanPicture

        return PlanPicture(self.entries, self.totals)

    def _repr_html_(self) -> str:
        """Return a tree of collapsible operators with their counters."""
        from sparrow.engines.plan_html import tree

        return tree(self.entries, self.summary, self.totals, self.queries)


def _nest(entries: Iterable[PlanEntry]) -> str:
    """Return nested JSON objects of nodes, those of several trees after each other."""
    out: list[str] = []
    depth = -1
    for entry in entries:
        out.append("]}" * (depth - entry.depth + 1) + ("," if 0 <= entry.depth <= depth else ""))
        own: dict[str, Any] = {"operation": entry.operation}
        if entry.schema is not None:
            own["dims"] = dict(zip(entry.schema.dims, entry.schema.shape, strict=True))
            own["dtype"] = str(entry.schema.dtype)
        own["note"] = entry.note.strip(" ,")
        own["details"] = dict(entry.details)
        own |= {"reads": entry.reads} if entry.reads else {}
        own |= {"rounds": entry.rounds} if entry.rounds else {}
        own |= {"actual": entry.actual} if entry.actual else {}
        out.append(f'{json.dumps(own)[:-1]}, "operands": [')
        depth = entry.depth
    return "".join([*out, "]}" * (depth + 1)])


_Pending: TypeAlias = "tuple[int, Any, str, tuple[int, ...] | None, bool]"
"""Depth, node, name of its engine, the sort order it reads, whether the view's own order is wanted."""


class PlanTree:
    """The plan of a root as an engine runs it.

    Parameters
    ----------
    root
        It is optimized first.
    engine
        Unsupported nodes fall back to the stream engine.
    reason
        Why the engine was chosen; empty if it was given.
    saves
        Whether the elements are written to data files.
    """

    def __init__(self, root: Root, engine: Engine, reason: str = "", saves: bool = False) -> None:
        self._engine = engine
        self.scans: list[Scan] = optimize_for(engine, [root] if isinstance(root, Scan) else scans_of(root))
        """The scans of the root, or itself, optimized."""
        self.root: Root = root
        """The root, optimized."""
        if isinstance(root, Scan):
            self.root = self.scans[0]
        elif isinstance(root, Node):
            self.root = root.with_inputs(self.scans)
        nodes = nodes_below(self.scans)
        self._unsupported = unsupported_nodes(engine, nodes)
        uses = Counter(scan.source for node in nodes for scan in node.scans if isinstance(scan.source, Node))
        uses.update(scan.source for scan in self.scans if isinstance(scan.source, Node))
        shared = [node for node in reversed(nodes) if uses[node] > 1]
        self._number = {node: k for k, node in enumerate(shared, 1)}
        self._seen: set[Node] = set()
        self._tokens: list[Hashable] = []
        self.entries = self._render()
        """The nodes, each before its operands."""
        if reason:
            self.entries[0].details.insert(1, ("choice", reason))
        if isinstance(engine, TaskEngine):
            rounds = engine.plan_rounds(self.root, saves)
            if rounds is not None:
                self.entries[0].details += rounds.details()
                self.entries[0].rounds = rounds.to_dicts()

    def plan(
        self,
        profile: Profile | None = None,
        executed: dict[Any, Any] | None = None,
        summary: Sequence[str] = (),
        totals: Mapping[str, Any] | None = None,
        queries: Sequence[PlanEntry] = (),
    ) -> Plan:
        """Return the rendered plan.

        Parameters
        ----------
        profile
            Counters that are shown with the nodes.
        executed
            The nodes that ran in place of nodes of this tree.
        summary
            Lines about the evaluation as a whole.
        totals
            Counters of the evaluation as a whole, by name.
        queries
            Operators of the queries that DuckDB ran.
        """
        if profile is not None:
            for entry, token in zip(self.entries, self._tokens, strict=True):
                if token is not None:
                    operator = profile.operator((executed or {}).get(token, token))
                    entry.actual = {} if operator.is_empty else operator.to_dict()
        return Plan(self.entries, summary, totals, queries)

    def _render(self) -> list[PlanEntry]:
        root, out = self.root, []
        order = scan_order(root) if isinstance(root, Scan) and root.step is None and root.view.size else None
        pending: list[_Pending] = [(0, root, self._engine.name, order, isinstance(root, Scan))]
        while pending:
            depth, item, engine, order, sorts = pending.pop()
            entry, token, below = self._entry(depth, item, engine, order, sorts)
            out.append(entry)
            self._tokens.append(token)
            pending.extend((depth + 1, *rest) for rest in reversed(below))
        return out

    def _entry(
        self, depth: int, item: Any, engine: str, order: tuple[int, ...] | None, sorts: bool
    ) -> tuple[PlanEntry, Hashable | None, list[Any]]:
        """Return the entry of an item, the key of its counters, and its operands."""
        if isinstance(item, Dense):
            return PlanEntry(depth, "dense", item.schema, ", in memory"), None, []
        if isinstance(item, Node):
            return self._node(depth, item, engine)
        if not isinstance(item, Scan):
            return PlanEntry(depth, f"scalar {item!r}", None), None, []
        if item.view.size == 0:
            details = [("engine", "none: the view has no elements, nothing is read")]
            return PlanEntry(depth, "scan", item.schema, _source_note(item), details, _nothing_read(item)), None, []
        if item.step is None:
            order = scan_order(item) if order is None else order
            unsorted = sorts and not item.view.preserves_order(order)
            sort = "; the view's own order takes a sort" if unsorted else ""
            details, reads = _scan_details(item, engine, order, sort)
            return PlanEntry(depth, "scan", item.schema, _source_note(item), details, reads), item.source.token, []
        if item.view.is_identity:
            return self._node(depth, item.step, engine)
        details = [("engine", engine), ("predicate", _predicate(item, item.step.schema))]
        return PlanEntry(depth, "view", item.schema, "", details), None, [(item.step, engine, None, False)]

    def _node(self, depth: int, node: Node, engine: str) -> tuple[PlanEntry, Hashable | None, list[Any]]:
        number = f"  [{self._number[node]}]" if node in self._number else ""
        if node in self._seen:
            return PlanEntry(depth, node.label(), node.schema, f"{number}, as above"), None, []
        self._seen.add(node)
        reason, strategy = None, ""
        if engine == self._engine.name:
            reason = self._engine.unsupported_reason(node) if node is self.root else self._unsupported.get(node)
            strategy = "" if reason else self._engine.describe(node)
        runs = "stream" if reason else engine
        details = [("engine", f"{runs}, fallback: {reason}" if reason else f"{runs}{': ' * bool(strategy)}{strategy}")]
        details += node.params(CostModel().below())
        costs = (
            self._engine.costs(node) if runs == self._engine.name and isinstance(self._engine, CostEstimator) else ""
        )
        details += [("costs", costs)] if costs else []
        order = None
        form = matrix_form(node) if isinstance(node, Contraction) else None
        if form is not None:
            scan = form.scan
            order = product_order(scan) if scan.step is None and scan.view.size else None
        operands = [(below, runs, order if isinstance(below, Scan) else None, False) for below in node.children]
        return PlanEntry(depth, node.label(), node.schema, number, details), node, operands


def _source_note(scan: Scan) -> str:
    source = scan.source
    where = "in memory, by rows" if isinstance(source, CSRRelation) else "in memory"
    if isinstance(source, Node):
        where = "computed"
    elif scan.is_stored:
        where = f"stored, version {source.version}"
    return f", of {format_schema(source.schema)} {where}"


def _nothing_read(scan: Scan) -> dict[str, int]:
    """Return the reads of a scan without elements: all is skipped."""
    if scan.step is not None:
        return {}
    relation = scan.relation
    return {"rows_read": 0, "rows_skipped": relation.nnz, "bytes_read": 0, "bytes_skipped": relation.nbytes}


def _scan_details(
    scan: Scan, engine: str, order: tuple[int, ...], sort: str
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Return the lines on a scan, and what it reads and skips."""
    relation, base = scan.relation, scan.relation.schema
    stats = relation.stats(scan.view.box(), order)
    found = [
        ("engine", engine),
        ("predicate", _predicate(scan, base)),
        ("order", f"{', '.join(base.dims[dim] for dim in order) or 'none'}{sort}"),
    ]
    reads: dict[str, int] = {}
    if stats.files:
        reads = {
            "files_read": stats.files_read,
            "files_skipped": stats.files - stats.files_read,
            "row_groups_read": stats.row_groups_read,
            "row_groups_skipped": stats.row_groups - stats.row_groups_read,
        }
        found.append(("files", _read_of(stats.files_read, stats.files)))
        found.append(("row groups", _read_of(stats.row_groups_read, stats.row_groups)))
    found.append(("rows", f"{_read_of(stats.rows, relation.nnz)}, {format_quantity(stats.nbytes, 'bytes')}"))
    reads |= {
        "rows_read": stats.rows,
        "rows_skipped": relation.nnz - stats.rows,
        "bytes_read": stats.nbytes,
        "bytes_skipped": stats.skipped_nbytes,
    }
    return found, reads


def _predicate(scan: Scan, base: Schema) -> str:
    dims = base.dims
    found = view_predicates(scan.view, lambda dim: dims[dim])
    for group in scan.view.points:
        names = ", ".join(dims[dim] for dim in group.dims)
        names = f"({names})" if len(group.dims) != 1 else names
        found.append(f"{names} IN a list of {group.count}")
    return " AND ".join(found) or "none: everything is read"


def _read_of(read: int, total: int) -> str:
    return f"{read} of {total} read, {total - read} skipped"
