"""The DuckDB engine: plans compiled to one query in its dialect.

``scans`` and ``steps`` compile, over the tables of ``functions`` and ``reductions``; ``types`` and ``predicate`` are
values and views in SQL; ``engine`` runs the queries.
"""

from __future__ import annotations

from sparrow.engines.duckdb.engine import DuckDB, compile_query, register_select
from sparrow.engines.duckdb.steps import unsupported_reason

__all__ = ["DuckDB", "compile_query", "register_select", "unsupported_reason"]
