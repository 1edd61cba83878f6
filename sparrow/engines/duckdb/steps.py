"""Plan nodes in SQL, each one SELECT over those of its operands.

A union of elements is a full outer join on the coordinates, with fill values for absent elements; an intersection is an
inner join on the axes that both have, so that broadcast axes are not repeated. Groups are ``GROUP BY``. Elements that
equal the fill of the result are filtered out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sparrow.core.indexing import NewAxis
from sparrow.core.schema import Schema
from sparrow.engines.duckdb.functions import function_sql
from sparrow.engines.duckdb.products import contract_sql, product_sql
from sparrow.engines.duckdb.reductions import reduction_sql
from sparrow.engines.duckdb.tuning import tuning
from sparrow.engines.duckdb.types import UnsupportedInSQL, cast, is_not_fill, literal, sql_type
from sparrow.plan import (
    Accumulate,
    Concat,
    Contraction,
    Dense,
    Diagonal,
    Map,
    Node,
    Reduce,
    Reshape,
    Scan,
    Sort,
    TopK,
    Triangle,
    WithFill,
)
from sparrow.runtime import memory
from sparrow.runtime.duckdb_connection import quote_name

__all__ = ["COMPILERS", "UNSUPPORTED", "ColumnNames", "Operand", "Query", "compile_node", "unsupported_reason"]

ColumnNames: TypeAlias = Mapping[int, str]
"""The column name of each axis that a SELECT returns; ``value`` comes last."""


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT, and the Arrow tables to register by name."""

    text: str
    tables: dict[str, pa.Table]


Operand: TypeAlias = Callable[[Scan | Dense, int, ColumnNames], Query]
"""Compiles an operand, given its number, to a SELECT of some of its axes."""


def compile_node(node: Node, names: ColumnNames, operand: Operand) -> Query:
    """Return the SELECT of a node.

    Raises
    ------
    UnsupportedInSQL
        If SQL does not reproduce the node.
    """
    if type(node) not in COMPILERS:
        _, reason = UNSUPPORTED.get(type(node), ("", f"no compiler for {type(node).__name__}"))
        raise UnsupportedInSQL(f"not supported in SQL: {reason}")
    for dtype in (node.schema.dtype, *(scan.schema.dtype for scan in node.scans)):
        if dtype.kind == "c" or dtype == np.float16:
            raise UnsupportedInSQL(f"SQL has no {dtype}")
    tables: dict[str, pa.Table] = {}

    def select(of: Scan | Dense, number: int, wanted: ColumnNames) -> str:
        query = operand(of, number, wanted)
        tables.update(query.tables)
        return query.text

    return Query(COMPILERS[type(node)](node, names, select), tables)


def unsupported_reason(node: Node) -> str | None:
    """Return why SQL does not support a node, whatever its operands; None if it does."""
    try:
        compile_node(node, dict(enumerate(node.schema.dims)), lambda of, number, names: Query("", {}))
    except UnsupportedInSQL as reason:
        return str(reason)
    return None


_Select: TypeAlias = Callable[[Scan | Dense, int, ColumnNames], str]


def _columns(axes: Mapping[int, str] | list[int] | range | set[int]) -> dict[int, str]:
    """Return the column names of axes inside a node: i0, i1, ..."""
    return {axis: f"i{axis}" for axis in sorted(axes)}


def _select_list(expressions: Mapping[int, str], names: ColumnNames, value: str) -> str:
    """Return the SELECT list."""
    columns = [f"{expressions[axis]} AS {quote_name(name)}" for axis, name in names.items()]
    return ", ".join([*columns, f"{value} AS value"])


def _without_fill(text: str, schema: Schema) -> str:
    """Return a SELECT without elements equal to the fill."""
    return f"SELECT * FROM ({text}) WHERE {is_not_fill('value', schema.fill_value, schema.dtype)}"


# -- element-wise ----------------------------------------------------------------------------


def _map(node: Map, names: ColumnNames, select: _Select) -> str:
    arrays = [operand for operand in node.operands if isinstance(operand, Scan | Dense)]
    needed = iter(node.required)
    inner = [isinstance(array, Dense) or next(needed) for array in arrays]
    if len(arrays) == 1 or any(inner):
        coords, values, source = _join_inner(node, arrays, [True] if len(arrays) == 1 else inner, select)
    else:
        coords, values, source = _join_outer(node, arrays, select)
    stored = iter(values)
    arguments = [
        (next(stored), operand.schema.dtype) if isinstance(operand, Scan | Dense) else operand
        for operand in node.operands
    ]
    value = function_sql(node.function, arguments, node.schema.dtype)
    return _without_fill(f"SELECT {_select_list(coords, names, value)} FROM {source}", node.schema)


def _join_inner(
    node: Map, arrays: list[Any], inner: list[bool], select: _Select
) -> tuple[dict[int, str], list[str], str]:
    """Return coordinates, values and FROM clause of an inner join of ``inner``.

    The others are left-joined. An operand is joined on the axes along which it is not broadcast.
    """
    own = [_own_axes(array, node.schema) for array in arrays]
    order = sorted(range(len(arrays)), key=lambda k: (not inner[k], isinstance(arrays[k], Dense)))
    first = order[0]
    own[first] |= set(range(node.schema.ndim)) - set().union(*(own[k] for k in order if inner[k]))
    coords: dict[int, str] = {}
    values = [""] * len(arrays)
    source = ""
    for k in order:
        if isinstance(arrays[k], Dense):
            _check_room(arrays[k], own[k])
        text = f"({select(arrays[k], k, _columns(own[k]))}) AS a{k}"
        on = " AND ".join(f"{coords[axis]} = a{k}.i{axis}" for axis in sorted(own[k]) if axis in coords) or "true"
        source = text if k == first else f"{source} {'JOIN' if inner[k] else 'LEFT JOIN'} {text} ON {on}"
        coords = {axis: f"a{k}.i{axis}" for axis in own[k]} | coords
        values[k] = f"a{k}.value" if inner[k] else _coalesce_fill(f"a{k}.value", arrays[k])
    return coords, values, source


def _join_outer(node: Map, arrays: list[Any], select: _Select) -> tuple[dict[int, str], list[str], str]:
    """Return coordinates, values and FROM clause of a full outer join."""
    axes = range(node.schema.ndim)
    plain = [f"i{axis}" for axis in axes] or ["one"]

    def below(k: int) -> str:
        text = select(arrays[k], k, _columns(axes))
        return text if axes else f"SELECT 1 AS one, value FROM ({text})"

    text = f"SELECT {', '.join(plain)}, value AS v0 FROM ({below(0)})"
    for k in range(1, len(arrays)):
        coords = ", ".join(f"coalesce(l.{i}, r.{i}) AS {i}" for i in plain)
        before = ", ".join(f"l.v{earlier}" for earlier in range(k))
        on = " AND ".join(f"l.{i} = r.{i}" for i in plain)
        text = f"SELECT {coords}, {before}, r.value AS v{k} FROM ({text}) AS l FULL JOIN ({below(k)}) AS r ON {on}"
    values = [_coalesce_fill(f"e.v{k}", array) for k, array in enumerate(arrays)]
    return {axis: f"e.i{axis}" for axis in axes}, values, f"({text}) AS e"


def _own_axes(operand: Scan | Dense, schema: Schema) -> set[int]:
    """Return the axes along which an operand is not broadcast."""
    if isinstance(operand, Scan):
        return {k for k, axis in enumerate(operand.view.axes) if not isinstance(axis, NewAxis)}
    missing = schema.ndim - operand.array.ndim
    return {k for k in range(missing, schema.ndim) if operand.array.shape[k - missing] != 1}


def _coalesce_fill(column: str, scan: Scan) -> str:
    return f"coalesce({column}, {literal(scan.schema.fill_value, scan.schema.dtype)})"


def _check_room(dense: Dense, axes: set[int]) -> None:
    """Raise for a dense array that is large as a table."""
    nbytes = dense.array.size * (dense.array.itemsize + 8 * len(axes))
    if nbytes > memory.limit() // tuning().dense_table_share:
        raise UnsupportedInSQL(f"a dense array of {dense.array.size} elements is large as a table")


# -- groups --------------------------------------------------------------------------------------


def _reduce(node: Reduce, names: ColumnNames, select: _Select) -> str:
    value = reduction_sql(node)
    kept = [axis for axis in node.axes if axis is not None]
    repeated = {k for k, axis in enumerate(node.operand.view.axes) if isinstance(axis, NewAxis) and axis.length > 1}
    below = select(node.operand, 0, _columns({*kept, *repeated}))
    coords = {k: "CAST(0 AS INTEGER)" if axis is None else f"e.i{axis}" for k, axis in enumerate(node.axes)}
    # Without GROUP BY an aggregate of nothing still returns a row, which would equal the fill.
    groups = f"GROUP BY {', '.join(f'e.i{axis}' for axis in kept)}" if kept else "HAVING count(*) > 0"
    return _without_fill(f"SELECT {_select_list(coords, names, value)} FROM ({below}) AS e {groups}", node.schema)


# -- products ------------------------------------------------------------------------------------


def _contraction(node: Contraction, names: ColumnNames, select: _Select) -> str:
    value = product_sql(node)
    sides, tests = [], []
    place: dict[int, str] = {}
    for number, (scan, indices) in enumerate(zip(node.tensors, node.indices, strict=True)):
        side = "ab"[number]
        sides.append(f"({select(scan, number, _columns(range(len(indices))))}) AS {side}")
        for axis, index in enumerate(indices):
            column = f"{side}.i{axis}"
            tests += [f"{place[index]} = {column}"] if index in place else []
            place.setdefault(index, column)
    columns = {axis: place[index] for axis, index in enumerate(node.output_indices)}
    source, mask = f"{sides[0]} JOIN {sides[1]} ON {' AND '.join(tests) or 'true'}", ""
    if node.mask is not None:
        below = select(node.mask, 2, _columns(range(node.schema.ndim)))
        same = " AND ".join(f"m.i{axis} = {column}" for axis, column in columns.items()) or "true"
        mask = f" {'ANTI' if node.complement else 'SEMI'} JOIN ({below}) AS m ON {same}"
    groups = f"GROUP BY {', '.join(columns.values())}" if columns else "HAVING count(*) > 0"
    text = contract_sql(_select_list(columns, names, value), source, mask, groups)
    return text if node.keep_fill else _without_fill(text, node.schema)


# -- structural ----------------------------------------------------------------------------------


def _coordinate(schema: Schema, axis: int) -> str:
    return sql_type(schema.coordinate_dtype(axis))


def _concat(node: Concat, names: ColumnNames, select: _Select) -> str:
    parts, start = [], 0
    for k, scan in enumerate(node.operands):
        coords = {axis: f"e.i{axis}" for axis in range(node.schema.ndim)}
        coords[node.axis] = f"CAST(e.i{node.axis} AS {_coordinate(node.schema, node.axis)}) + {start}"
        value = cast("e.value", scan.schema.dtype, node.schema.dtype)
        below = select(scan, k, _columns(range(node.schema.ndim)))
        parts.append(f"SELECT {_select_list(coords, names, value)} FROM ({below}) AS e")
        start += scan.schema.shape[node.axis]
    return " UNION ALL ".join(parts)


def _reshape(node: Reshape, names: ColumnNames, select: _Select) -> str:
    old, new = node.operand.schema.shape, node.schema.shape
    if node.schema.size >= 2**126:
        raise UnsupportedInSQL("positions exceed 126 bits")
    wide = "BIGINT" if node.schema.size < 2**63 else "HUGEINT"
    terms = [f"CAST(i{k} AS {wide}) * {math.prod(old[k + 1 :])}" for k in range(len(old))]
    below = select(node.operand, 0, _columns(range(len(old))))
    coords = {
        k: f"CAST(e.p // {max(math.prod(new[k + 1 :]), 1)} % {max(n, 1)} AS {_coordinate(node.schema, k)})"
        for k, n in enumerate(new)
    }
    position = " + ".join(terms) or "0"
    return f"SELECT {_select_list(coords, names, 'e.value')} FROM (SELECT {position} AS p, value FROM ({below})) AS e"


def _triangle(node: Triangle, names: ColumnNames, select: _Select) -> str:
    ndim = node.schema.ndim
    below = select(node.operand, 0, _columns(range(ndim)))
    coords = {axis: f"e.i{axis}" for axis in range(ndim)}
    distance = f"CAST(e.i{ndim - 1} AS BIGINT) - e.i{ndim - 2}"
    test = f"{distance} {'>=' if node.upper else '<='} {node.k}"
    return f"SELECT {_select_list(coords, names, 'e.value')} FROM ({below}) AS e WHERE {test}"


def _diagonal(node: Diagonal, names: ColumnNames, select: _Select) -> str:
    below = select(node.operand, 0, _columns(range(2)))
    row = max(-node.offset, 0)
    test = f"CAST(e.i1 AS BIGINT) - e.i0 = {node.offset}"
    return f"SELECT {_select_list({0: f'e.i0 - {row}'}, names, 'e.value')} FROM ({below}) AS e WHERE {test}"


COMPILERS: dict[type[Node], Callable[[Any, ColumnNames, _Select], str]] = {
    Map: _map,
    Reduce: _reduce,
    Contraction: _contraction,
    Concat: _concat,
    Reshape: _reshape,
    Triangle: _triangle,
    Diagonal: _diagonal,
}
"""Compilers by node type."""

UNSUPPORTED: dict[type[Node], tuple[str, str]] = {
    Sort: ("notyet", "sorting by window functions"),
    TopK: ("notyet", "ranking by window functions"),
    WithFill: ("never", "every absent element becomes a row"),
    Accumulate: ("never", "SQL returns rows, not an array"),
}
"""Unsupported node types, each with the support mark and the reason."""
