"""Values in SQL: column types, literals, and casts with NumPy's results."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["UnsupportedInSQL", "cast", "is_not_fill", "literal", "sql_type", "wrap_integer"]

_TYPES = {
    "bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT",
    "float16": "FLOAT", "float32": "FLOAT", "float64": "DOUBLE", "complex64": "FLOAT", "complex128": "DOUBLE",
}  # fmt: skip


class UnsupportedInSQL(Exception):
    """SQL does not reproduce NumPy's result of a node; the text is the reason."""


def sql_type(dtype: np.dtype[Any]) -> str:
    """Return the SQL type of a column of values, or of a part of complex ones.

    Examples
    --------
    >>> sql_type(np.dtype("uint16"))
    'USMALLINT'
    """
    return _TYPES[dtype.name]


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """Return a scalar as a typed literal.

    Raises
    ------
    UnsupportedInSQL
        If SQL has no such type, or an integer does not fit it.

    Examples
    --------
    >>> literal(0.1, np.dtype("float32")), literal(np.nan, np.dtype("float64")), literal(3, np.dtype("int8"))
    ("CAST('0.10000000149011612' AS FLOAT)", "CAST('nan' AS DOUBLE)", 'CAST(3 AS TINYINT)')
    """
    if dtype.kind == "c" or dtype == np.float16 or isinstance(value, complex | np.complexfloating):
        raise UnsupportedInSQL(f"SQL has no {dtype if dtype.kind == 'c' or dtype == np.float16 else 'complex'}")
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not limits.min <= int(value) <= limits.max:
            raise UnsupportedInSQL(f"{value} does not fit {dtype}")
        return f"CAST({int(value)} AS {sql_type(dtype)})"
    with np.errstate(all="ignore"):
        number = float(np.asarray(value).astype(dtype)[()])
    return f"CAST('{number!r}' AS {sql_type(dtype)})"


def cast(sql: str, have: np.dtype[Any], want: np.dtype[Any]) -> str:
    """Return a cast with the overflow of ``astype``.

    Raises
    ------
    UnsupportedInSQL
        If floats become integers: the result of overflow depends on the processor.
    """
    if have == want:
        return sql
    if want.kind == "b":
        return f"({sql} <> 0)"
    if want == np.float32 and have == np.float64:
        return _single(sql)
    if want.kind in "iu" and have.kind == "f":
        raise UnsupportedInSQL(f"{have} to {want}: overflow is undefined")
    if want.kind in "iu" and have.kind in "iu" and not np.can_cast(have, want):
        return wrap_integer(f"CAST({sql} AS HUGEINT)", want)
    return f"CAST({sql} AS {sql_type(want)})"


def wrap_integer(sql: str, dtype: np.dtype[Any]) -> str:
    """Return a 128-bit integer wrapped to an integer type, as NumPy wraps.

    Examples
    --------
    >>> wrap_integer("x", np.dtype("int8")), wrap_integer("x", np.dtype("uint8"))
    ('CAST(xor(x & 255, 128) - 128 AS TINYINT)', 'CAST(x & 255 AS UTINYINT)')
    """
    bits = 8 * dtype.itemsize
    mask, sign = 2**bits - 1, 2 ** (bits - 1)
    if dtype.kind == "u":
        return f"CAST({sql} & {mask} AS {sql_type(dtype)})"
    return f"CAST(xor({sql} & {mask}, {sign}) - {sign} AS {sql_type(dtype)})"


def _single(sql: str) -> str:
    """Return a double as a float, infinite on overflow, where DuckDB would raise."""
    infinity = f"CASE WHEN {sql} > 0 THEN CAST('inf' AS FLOAT) ELSE CAST('-inf' AS FLOAT) END"
    return f"coalesce(TRY_CAST({sql} AS FLOAT), {infinity})"


def is_not_fill(sql: str, fill: Any, dtype: np.dtype[Any]) -> str:
    """Return the predicate that a value differs from the fill."""
    if fill != fill:
        return f"NOT isnan({sql})"
    return f"{sql} <> {literal(fill, dtype)}"
