"""Operators of queries that DuckDB ran, from its profiles."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sparrow.engines.plan_entry import PlanEntry

__all__ = ["parse_profiles"]


def parse_profiles(profiles: Iterable[str]) -> list[PlanEntry]:
    """Return the operators of queries, each before its inputs.

    The first operator of a query has the bytes that the query spilled.

    Parameters
    ----------
    profiles
        JSON documents, as DuckDB writes them.

    Examples
    --------
    >>> operator = {"type": "HASH_GROUP_BY", "timing": 0.5, "intermediate_rows": 3, "extra_info": {"Groups": "#0"}}
    >>> profile = json.dumps({"operator": [operator], "system": {"peak_temp_dir_size": 0}})
    >>> [(entry.operation, entry.details, entry.actual["rows"]) for entry in parse_profiles([profile])]
    [('hash group by', [('groups', '#0')], 3)]
    """
    entries: list[PlanEntry] = []
    for text in profiles:
        profile = json.loads(text)
        first = len(entries)
        pending = [(0, operator) for operator in reversed(profile.get("operator", ()))]
        while pending:
            depth, operator = pending.pop()
            is_result = operator["type"] == "RESULT_COLLECTOR"  # it hands rows over, and has no name for a reader
            if not is_result:
                entries.append(_entry(depth, operator))
            below = depth if is_result else depth + 1
            pending += [(below, each) for each in reversed(operator.get("children", ()))]
        if len(entries) > first:
            entries[first].actual["spilled_bytes"] = profile.get("system", {}).get("peak_temp_dir_size", 0)
    return entries


def _entry(depth: int, operator: dict[str, Any]) -> PlanEntry:
    details = [(name.lower(), _format(value)) for name, value in operator.get("extra_info", {}).items()]
    actual = {"rows": operator.get("intermediate_rows", 0), "seconds": operator.get("timing", 0.0)}
    return PlanEntry(depth, operator["type"].replace("_", " ").lower(), None, "", details, {}, actual)


def _format(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
