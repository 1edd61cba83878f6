"""DuckDB engine: plans compiled to one SQL query.

``scans`` and ``steps`` compile, with the tables of ``functions`` and ``reductions``; ``types`` and ``predicate`` render
values and views; ``engine`` runs the queries.
"""

from __future__ import annotations

from sparrow.engines.duckdb.engine import DuckDB, compile_query, register_select
from sparrow.engines.duckdb.products import contract_sql
from sparrow.engines.duckdb.steps import unsupported_reason

__all__ = ["DuckDB", "compile_query", "contract_sql", "register_select", "unsupported_reason"]
