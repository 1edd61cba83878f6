"""Plans compiled to SQL in DuckDB's dialect: scans, and the steps of expressions over them, in one query."""

from __future__ import annotations

from sparrow.engines.sql.scans import compile_scan
from sparrow.engines.sql.steps import Query, declines
from sparrow.engines.sql.types import sql_type

__all__ = ["Query", "compile_scan", "declines", "sql_type"]
