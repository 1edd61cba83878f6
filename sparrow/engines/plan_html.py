"""HTML tree of a query plan, for notebooks.

Colors suit light and dark themes: text inherits, and surfaces are translucent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sparrow.engines.plan_entry import PlanEntry, format_schema
from sparrow.runtime.quantities import format_quantity

__all__ = ["READ_COLOR", "SKIPPED_COLOR", "counters", "read_share", "read_sizes", "total_counters", "tree"]

READ_COLOR, SKIPPED_COLOR = "#2f7fc1", "#8c8c8c"
"""Colors of data that is read, and of data that is skipped, on light and dark backgrounds."""

_STYLE = f"""<style>
.sparrow-plan {{line-height: 1.5}}
.sparrow-plan details {{margin: .1em 0 .1em 1.2em}}
.sparrow-plan > details {{margin-left: 0}}
.sparrow-plan summary {{cursor: pointer}}
.sparrow-plan table {{margin: 0 0 .2em 1.1em; border: none; font-size: .9em}}
.sparrow-plan table tr {{background: none !important}}
.sparrow-plan table th, .sparrow-plan table td {{text-align: left !important; padding: 0 1em 0 0; border: none}}
.sparrow-plan table td {{white-space: normal}}
.sparrow-plan table th {{font-weight: normal; opacity: .65}}
.sparrow-plan-chip {{background: rgba(128, 128, 128, .15); border-radius: 3px; padding: 0 .4em; white-space: nowrap}}
.sparrow-plan-hot {{background: rgba(230, 120, 30, .3)}}
.sparrow-plan-bar {{display: inline-block; width: 6em; height: .6em; border-radius: 3px; overflow: hidden;
  vertical-align: middle; background: {SKIPPED_COLOR}66}}
.sparrow-plan-bar span {{display: block; height: 100%; background: {READ_COLOR}}}
</style>"""


def tree(
    entries: Sequence[PlanEntry],
    summary: Sequence[str] = (),
    totals: Mapping[str, Any] | None = None,
    queries: Sequence[PlanEntry] = (),
) -> str:
    """Return a tree of collapsible operators with their counters.

    Parameters
    ----------
    entries
        The nodes of a plan, each before its operands.
    summary
        Lines below the tree.
    totals
        Counters of the evaluation, for the first node of an engine that does not count operators.
    queries
        Operators of the queries that DuckDB ran.

    Examples
    --------
    >>> import sparrow as sp
    >>> tree(sp.eye(3).explain().entries).count("<details")
    1
    """
    lines = "".join(f"<div>{escape(line)}</div>" for line in summary)
    ran = ""
    if queries:
        ran = f"<details><summary>Operators of DuckDB</summary>{_nest(queries)}</details>"
    return f'<div class="sparrow-plan">{_STYLE}{_nest(entries, totals)}{lines}{ran}</div>'


def _nest(entries: Sequence[PlanEntry], totals: Mapping[str, Any] | None = None) -> str:
    """Return nested operators."""
    longest = max((entry.actual.get("seconds", 0.0) for entry in entries), default=0.0)
    out: list[str] = []
    depth = -1
    for entry in entries:
        out.append("</details>" * (depth - entry.depth + 1))
        chips = counters(entry)
        if totals and not chips and not entry.depth:
            chips = total_counters(totals)
        is_longest = bool(longest) and entry.actual.get("seconds") == longest
        out.append(f"<details open><summary>{_head(entry, chips, is_longest)}</summary>")
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in _rows(entry))
        out.append(f"<table>{rows}</table>" if rows else "")
        depth = entry.depth
    return "".join([*out, "</details>" * (depth + 1)])


def _rows(entry: PlanEntry) -> list[tuple[str, str]]:
    """Return names and texts below an operator; its counters are beside its name."""
    source = [("source", entry.note.removeprefix(", of "))] if entry.reads else []
    return source + entry.details


def _head(entry: PlanEntry, chips: Sequence[tuple[str, str]], is_longest: bool) -> str:
    """Return the line of an operator: name, schema, reads and counters."""
    schema = "" if entry.schema is None else format_schema(entry.schema)
    text = schema if entry.reads else f"{schema}{entry.note}"
    parts = [f"<b>{escape(entry.operation)}</b>", f'<code style="background:none">{escape(text)}</code>']
    if entry.reads:
        bar = f'<span class="sparrow-plan-bar"><span style="width:{100 * read_share(entry):.1f}%"></span></span>'
        parts.append(f'<span style="white-space:nowrap">{bar} {escape(read_sizes(entry))}</span>')
    for name, chip in chips:
        hot = " sparrow-plan-hot" if name == "seconds" and is_longest else ""
        parts.append(f'<span class="sparrow-plan-chip{hot}">{escape(chip)}</span>')
    return " ".join(parts)


def total_counters(totals: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and texts of the counters of a whole evaluation.

    Examples
    --------
    >>> total_counters({"elements": 2000, "seconds": 0.25})
    [('rows', '2,000 elements'), ('seconds', '250.0 ms')]
    """
    rows = [] if totals["elements"] is None else [("rows", f"{totals['elements']:,} elements")]
    found = [*rows, ("seconds", f"{1000 * totals['seconds']:,.1f} ms")]
    rounds = totals.get("rounds", ())
    if rounds:
        retries = sum(each["retries"] for each in rounds)
        text = f"{sum(each['tasks'] for each in rounds)} tasks in {len(rounds)} round{'s' * (len(rounds) > 1)}"
        found.append(("tasks", f"{text}, {retries} retries" if retries else text))
    return found


def read_share(entry: PlanEntry) -> float:
    """Return the share of the bytes of a scan that is read; 0 if it has none."""
    read, skipped = entry.reads["bytes_read"], entry.reads["bytes_skipped"]
    return read / (read + skipped) if read else 0.0


def read_sizes(entry: PlanEntry) -> str:
    """Return the bytes that a scan reads and skips, as text."""
    read, skipped = (format_quantity(entry.reads[f"bytes_{what}"], "bytes") for what in ("read", "skipped"))
    return f"{read} read, {skipped} skipped"


def counters(entry: PlanEntry) -> list[tuple[str, str]]:
    """Return names and texts of the counters of an analyzed operator.

    Examples
    --------
    >>> import sparrow as sp
    >>> [name for name, _ in counters((sp.eye(3) * 2).explain(analyze=True).entries[0])]
    ['rows', 'seconds', 'strategy']
    """
    actual = entry.actual
    if not actual:
        return []
    noun = "rows" if entry.schema is None else "elements"
    found = [("rows", f"{actual['rows']:,} {noun}"), ("seconds", f"{1000 * actual['seconds']:,.1f} ms")]
    for name, verb in (("bytes_read", "decoded"), ("held_bytes", "held"), ("spilled_bytes", "spilled")):
        if actual.get(name) or (name == "spilled_bytes" and actual.get("flops")):
            found.append((name, f"{format_quantity(actual[name], 'bytes')} {verb}"))
    if actual.get("flops"):
        found.append(("flops", format_quantity(actual["flops"], "products")))
    if actual.get("strategy"):
        found.append(("strategy", actual["strategy"]))
    return found
