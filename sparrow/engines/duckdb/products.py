"""What SQL runs of products of tensors: the aggregate of the products of a group, ``a.value`` with ``b.value``."""

from __future__ import annotations

from string import Template
from typing import Any

import numpy as np

from sparrow.engines.duckdb.types import Declined, cast, whole
from sparrow.plan import Product
from sparrow.runtime.resources import sql_text

__all__ = ["contract_sql", "product_sql"]

_ORDERED = {"min": "<", "max": ">"}


def contract_sql(columns: str, operands: str, mask: str, groups: str) -> str:
    """Return the query of a product: ``sql/duckdb/contract.sql``, without its comment."""
    lines = (line for line in sql_text("duckdb", "contract").splitlines() if not line.startswith("--"))
    return Template("\n".join(lines)).substitute(columns=columns, operands=operands, mask=mask, groups=groups)


def product_sql(node: Product) -> str:
    """Return the value of a cell of the result.

    Raises
    ------
    Declined
        If SQL does not reproduce it.
    """
    semiring, dtype = node.semiring, node.schema.dtype
    if callable(semiring.add) or callable(semiring.multiply):
        raise Declined(f"semiring {semiring} is made of functions in Python")
    if dtype.kind == "c" or dtype == np.float16:
        raise Declined(f"SQL has no {dtype}")
    a, b = (_operand(node, number) for number in (0, 1))
    values = [scan.schema.dtype for scan in (node.left, node.right)]
    floating = dtype.kind == "f"
    if semiring.multiply == "times":
        if dtype == np.uint64:
            raise Declined("products of uint64 could pass 128 bits")
        found = f"{a} * {b}" if floating else f"CAST({whole(f'{a} * {b}', np.dtype(np.int64))} AS HUGEINT)"
    elif semiring.multiply == "plus":
        found = f"{a} + {b}"
    elif semiring.multiply in _ORDERED:
        # NaN wins, which to DuckDB is the largest number.
        nan = " OR ".join(f"isnan({side})" for side, own in zip((a, b), values, strict=True) if own.kind == "f")
        plain = f"{'least' if semiring.multiply == 'min' else 'greatest'}({a}, {b})"
        found = f"CASE WHEN {nan} THEN CAST('nan' AS DOUBLE) ELSE {plain} END" if nan else plain
    else:
        one = "true" if semiring.add == "or" else "1"
        found = {"and": f"({a} AND {b})", "first": a, "second": b, "pair": one}[str(semiring.multiply)]
    return _aggregate(node, found, floating)


def _operand(node: Product, number: int) -> str:
    """Return the value of an operand in the type in which products are added up."""
    scan, side = (node.left, node.right)[number], "ab"[number]
    column, have = f"{side}.value", scan.schema.dtype
    if node.semiring.multiply == "and" or node.semiring.add == "or":
        return column if have.kind == "b" else f"({column} <> 0)"
    if node.schema.dtype.kind == "f":
        return f"CAST({column} AS DOUBLE)"
    return f"CAST({column} AS HUGEINT)" if have.kind != "f" else column


def _aggregate(node: Product, found: str, floating: bool) -> str:
    """Return the aggregate of products, as the type of the result."""
    add, dtype = node.semiring.add, node.schema.dtype
    if add == "or":
        return f"bool_or({found})"
    if add == "any":
        return _typed(f"any_value({found})", dtype, floating)
    if add == "plus":
        summed = f"sum({found})"
        return _typed(summed if dtype.kind != "b" else f"sum(CAST({found} <> 0 AS BIGINT))", dtype, floating)
    if dtype.kind in "iu":  # wraps before it is compared
        found = whole(f"CAST({found} AS HUGEINT)", dtype)
    value = f"{add}({found})"
    if floating and add == "min":
        value = f"CASE WHEN bool_or(isnan({found})) THEN CAST('nan' AS DOUBLE) ELSE {value} END"
    return _typed(value, dtype, floating)


def _typed(sql: str, dtype: np.dtype[Any], floating: bool) -> str:
    if floating:
        return cast(sql, np.dtype(np.float64), dtype)
    return f"({sql} <> 0)" if dtype.kind == "b" else whole(sql, dtype)
