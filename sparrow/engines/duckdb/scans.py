"""Scans in SQL: a view is a projection over a filter on its base.

The base is Parquet files, an Arrow table, or the SQL of a node. DuckDB pushes the filter, and those of an enclosing
query, down to row groups. Lists are joins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import ListAxis, Points, RangeAxis, View
from sparrow.core.schema import Schema
from sparrow.engines.duckdb.predicate import axis_position, view_predicates
from sparrow.engines.duckdb.steps import ColumnNames, Query, compile_node
from sparrow.engines.duckdb.types import sql_type
from sparrow.engines.sort_orders import scan_order
from sparrow.plan import Dense, Node, Scan, nodes_below
from sparrow.relations.protocol import ArrowSource, ParquetSource
from sparrow.runtime.duckdb_connection import quote_literal, quote_name

__all__ = ["compile_scan"]


def compile_scan(scan: Scan, prefix: str = "sparrow") -> Query:
    """Return the SELECT of a scan: a column per dimension, then ``value``.

    A complex tensor has ``value`` and ``value_im``. Opens no data pages. A node that is used more than once becomes a
    common table expression.

    Parameters
    ----------
    prefix
        Prefix of the names of registered tables.
    """
    steps = nodes_below([scan])
    uses = Counter(below.source for step in steps for below in step.scans)
    common: dict[Node, str] = {}
    found: list[tuple[str, Query]] = []
    for step in steps:
        if uses[step] > 1:
            name = f"{prefix}:{len(common)}"
            whole = Scan(step, View.identity(step.schema.shape), step.schema)
            found.append((name, _select(whole, name, dict(enumerate(step.schema.dims)), common)))
            common[step] = name
    query = _select(scan, prefix, dict(enumerate(scan.schema.dims)), common)
    if not found:
        return query
    text = ", ".join(f"{quote_name(name)} AS MATERIALIZED ({one.text})" for name, one in found)
    tables = {name: table for _, one in found for name, table in one.tables.items()}
    return Query(f"WITH {text} {query.text}", tables | query.tables)


def _select(scan: Scan, prefix: str, names: ColumnNames, common: Mapping[Node, str]) -> Query:
    """Return the SELECT of some axes of a scan; nodes in ``common`` are tables."""
    view, schema = scan.view, scan.schema
    parts = ("value", "value_im") if schema.dtype.kind == "c" else ("value",)
    if view.size == 0:
        return _nothing(schema, names, parts)
    step = scan.step
    if step is None:
        source = scan.relation.source(view.box(), scan_order(scan))
        if isinstance(source, ParquetSource) and not source.paths:
            return _nothing(schema, names, parts)
        stored = scan.relation.schema
        base = _base(source, stored, parts, prefix, joined=bool(view.points) or view.repeats > 1)
        return _project(view, stored, base, prefix, names, parts)
    if step in common:
        text, tables = quote_name(common[step]), {}
    else:

        def operand(of: Scan | Dense, number: int, wanted: ColumnNames) -> Query:
            below = f"{prefix}.{number}"
            if isinstance(of, Scan):
                return _select(of, below, wanted, common)
            return _dense(of, step.schema, below, wanted)

        query = compile_node(step, names if view.is_identity else dict(enumerate(step.schema.dims)), operand)
        if view.is_identity:
            return query
        text, tables = f"({query.text})", dict(query.tables)
    columns = {name: f"e.{quote_name(name)}" for name in (*step.schema.dims, "value")}
    return _project(view, step.schema, (f"{text} AS e", columns, tables), prefix, names, parts)


def _nothing(schema: Schema, names: ColumnNames, parts: tuple[str, ...]) -> Query:
    """Return a SELECT without rows."""
    columns = [(name, sql_type(schema.coordinate_dtype(axis))) for axis, name in names.items()]
    columns += [(part, sql_type(schema.dtype)) for part in parts]
    nothing = ", ".join(f"CAST(NULL AS {kind}) AS {quote_name(name)}" for name, kind in columns)
    return Query(f"SELECT {nothing} WHERE false", {})


def _project(
    view: View,
    schema: Schema,
    base: tuple[str, dict[str, str], dict[str, pa.Table]],
    prefix: str,
    names: ColumnNames,
    parts: tuple[str, ...],
) -> Query:
    """Return the SELECT of a view of a FROM clause, columns and tables."""
    relation, columns, tables = base

    def column(dim: int) -> str:
        return columns[schema.dims[dim]]

    for number, group in enumerate(view.points):
        name = f"{prefix}_points{number}"
        tables[name] = _points_table(schema, group)
        on = " AND ".join(f"{column(dim)} = p{number}.c{k}" for k, dim in enumerate(group.dims))
        relation += f" JOIN {quote_name(name)} AS p{number} ON {on or 'true'}"
    shown = []
    for number, name in names.items():
        axis = view.axes[number]
        if isinstance(axis, RangeAxis):
            expression = axis_position(axis, column(axis.dim))
        elif isinstance(axis, ListAxis):
            expression = f"p{axis.group}.p{axis.position}"
        elif axis.length == 1:
            expression = "CAST(0 AS INTEGER)"
        else:
            relation += f" CROSS JOIN range({axis.length}) AS n{number}(p)"
            expression = f"CAST(n{number}.p AS {'INTEGER' if axis.length <= 2**31 else 'BIGINT'})"
        shown.append(f"{expression} AS {quote_name(name)}")
    shown += [f"{columns[part]} AS {quote_name(part)}" for part in parts]
    text = f"SELECT {', '.join(shown)} FROM {relation}"
    where = view_predicates(view, column)
    return Query(f"{text} WHERE {' AND '.join(where)}" if where else text, tables)


def _base(
    source: ParquetSource | ArrowSource, schema: Schema, parts: tuple[str, ...], prefix: str, joined: bool
) -> tuple[str, dict[str, str], dict[str, pa.Table]]:
    """Return the FROM clause, the columns and the tables of a source."""
    names = (*schema.dims, *parts)
    plain = {name: f"e.{quote_name(name)}" for name in names}
    if isinstance(source, ArrowSource):
        name = f"{prefix}_entries"
        if isinstance(source.table, pa.Table):
            return f"{quote_name(name)} AS e", plain, {name: _without_half(source.table)}
        tried = {part: f"TRY(e.{quote_name(part)})" for part in parts if schema.dtype.kind in "fc"}
        if not (joined and tried):  # filters on floats stay in DuckDB: in Arrow NaN is not the largest
            return f"{quote_name(name)} AS e", plain | tried, {name: source.table}
        columns = ", ".join(f"{tried.get(each, quote_name(each))} AS {quote_name(each)}" for each in names)
        return f"(SELECT {columns} FROM {quote_name(name)} AS e) AS e", plain, {name: source.table}
    files = f"read_parquet([{', '.join(map(quote_literal, source.paths))}], hive_partitioning = false) AS e"
    derived = {}
    for column in source.columns:
        if not column.is_plain and schema.dtype.kind == "c" and column.dtype == schema.dtype:
            continue  # real and imaginary parts are read as they are
        if not column.is_plain:
            derived[column.name] = f"CAST({quote_name(column.stored[0])} AS {sql_type(column.dtype)})"
    if schema.dtype.kind in "fc":
        # Parquet statistics of floats exclude NaN, and DuckDB takes them for bounds of all values: isnan, max and
        # comparisons would be wrong. It derives no statistics through TRY.
        derived |= {part: f"TRY({derived.get(part, part)})" for part in parts}
    if joined and derived:
        # With joined tables, expressions over the columns of files need a subquery. Without, they do not, and filters
        # are pushed down better through one level than through two.
        columns = ", ".join(f"{derived.get(name, quote_name(name))} AS {quote_name(name)}" for name in names)
        return f"(SELECT {columns} FROM {files}) AS e", plain, {}
    return files, plain | derived, {}


def _points_table(schema: Schema, group: Points) -> pa.Table:
    """Return a list of points as a table of coordinates and positions."""
    columns: dict[str, NDArray[Any]] = {}
    for k, (dim, coords) in enumerate(zip(group.dims, group.coords, strict=True)):
        columns[f"c{k}"] = coords.reshape(-1).astype(schema.coordinate_dtype(dim))
    for k, place in enumerate(np.unravel_index(np.arange(group.count), group.shape)):
        columns[f"p{k}"] = place.astype(np.int32 if group.shape[k] <= 2**31 else np.int64)
    return pa.table(columns)


def _dense(dense: Dense, schema: Schema, prefix: str, names: ColumnNames) -> Query:
    """Return the SELECT of some axes of a dense array broadcast to a schema."""
    array = dense.array
    missing = schema.ndim - array.ndim
    places = np.indices(array.shape, sparse=True)
    columns = {
        name: np.broadcast_to(places[axis - missing], array.shape).reshape(-1).astype(schema.coordinate_dtype(axis))
        for axis, name in names.items()
    }
    columns["value"] = array.astype(dense.schema.dtype, copy=False).reshape(-1)
    return Query(f"SELECT * FROM {quote_name(f'{prefix}_dense')}", {f"{prefix}_dense": pa.table(columns)})


def _without_half(table: pa.Table) -> pa.Table:
    """Return a table with float16 cast to float32, since DuckDB has no float16."""
    at = table.schema.get_field_index("value")
    if table.schema.field(at).type != pa.float16():
        return table
    return table.set_column(at, "value", table.column(at).cast(pa.float32()))
