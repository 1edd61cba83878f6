"""Tuning parameters of the DuckDB engine."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["DuckDBTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DuckDBTuning:
    """Limits of compiled queries."""

    max_nested_nodes: int = parameter(40, "nodes", "Nesting of a query, whose planning time grows faster than it.")
    max_scans: int = parameter(64, "scans", "Scans of a query, whose planning time grows with their square.")
    dense_table_share: float = memory_share(
        8, "A dense operand as a table; larger ones fall back to the stream engine."
    )


tuning = Tunable("duckdb", DuckDBTuning())
