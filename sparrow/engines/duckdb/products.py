"""Products of tensors in SQL: aggregates of ``a.value`` times ``b.value``."""

from __future__ import annotations

from string import Template
from typing import Any

import numpy as np

from sparrow.engines.duckdb.types import UnsupportedInSQL, cast, wrap_integer
from sparrow.plan import Contraction
from sparrow.runtime.resources import sql_text

__all__ = ["contract_sql", "product_sql"]

_COMPARISONS = {"min": "<", "max": ">"}


def contract_sql(columns: str, operands: str, mask: str, groups: str) -> str:
    """Return the query of a product, from the template ``contract.sql``."""
    lines = (line for line in sql_text("duckdb", "contract").splitlines() if not line.startswith("--"))
    return Template("\n".join(lines)).substitute(columns=columns, operands=operands, mask=mask, groups=groups)


def product_sql(node: Contraction) -> str:
    """Return the aggregate of one element of the result.

    Raises
    ------
    UnsupportedInSQL
        If SQL does not reproduce the semiring for the dtypes.
    """
    semiring, dtype = node.semiring, node.schema.dtype
    if callable(semiring.add) or callable(semiring.multiply):
        raise UnsupportedInSQL(f"semiring {semiring} has Python functions")
    if dtype.kind == "c" or dtype == np.float16:
        raise UnsupportedInSQL(f"SQL has no {dtype}")
    a, b = (_operand(node, number) for number in (0, 1))
    values = [scan.schema.dtype for scan in node.tensors]
    floating = dtype.kind == "f"
    if semiring.multiply == "times":
        if dtype == np.uint64:
            raise UnsupportedInSQL("products of uint64 could exceed 128 bits")
        found = f"{a} * {b}" if floating else f"CAST({wrap_integer(f'{a} * {b}', np.dtype(np.int64))} AS HUGEINT)"
    elif semiring.multiply == "plus":
        found = f"{a} + {b}"
    elif semiring.multiply in _COMPARISONS:
        # NaN propagates; DuckDB orders it as the largest number.
        nan = " OR ".join(f"isnan({side})" for side, own in zip((a, b), values, strict=True) if own.kind == "f")
        plain = f"{'least' if semiring.multiply == 'min' else 'greatest'}({a}, {b})"
        found = f"CASE WHEN {nan} THEN CAST('nan' AS DOUBLE) ELSE {plain} END" if nan else plain
    else:
        one = "true" if semiring.add == "or" else "1"
        found = {"and": f"({a} AND {b})", "first": a, "second": b, "pair": one}[str(semiring.multiply)]
    return _aggregate(node, found, floating)


def _operand(node: Contraction, number: int) -> str:
    """Return an operand cast to the type of the accumulator."""
    scan, side = node.tensors[number], "ab"[number]
    column, have = f"{side}.value", scan.schema.dtype
    if node.semiring.multiply == "and" or node.semiring.add == "or":
        return column if have.kind == "b" else f"({column} <> 0)"
    if node.schema.dtype.kind == "f":
        return f"CAST({column} AS DOUBLE)"
    return f"CAST({column} AS HUGEINT)" if have.kind != "f" else column


def _aggregate(node: Contraction, found: str, floating: bool) -> str:
    """Return the aggregate of products, cast to the dtype of the result."""
    add, dtype = node.semiring.add, node.schema.dtype
    if add == "or":
        return f"bool_or({found})"
    if add == "any":
        return _cast_result(f"any_value({found})", dtype, floating)
    if add == "plus":
        summed = f"sum({found})"
        return _cast_result(summed if dtype.kind != "b" else f"sum(CAST({found} <> 0 AS BIGINT))", dtype, floating)
    if dtype.kind in "iu":  # wrap before comparing
        found = wrap_integer(f"CAST({found} AS HUGEINT)", dtype)
    value = f"{add}({found})"
    if floating and add == "min":
        value = f"CASE WHEN bool_or(isnan({found})) THEN CAST('nan' AS DOUBLE) ELSE {value} END"
    return _cast_result(value, dtype, floating)


def _cast_result(sql: str, dtype: np.dtype[Any], floating: bool) -> str:
    if floating:
        return cast(sql, np.dtype(np.float64), dtype)
    return f"({sql} <> 0)" if dtype.kind == "b" else wrap_integer(sql, dtype)
