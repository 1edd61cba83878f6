"""A tensor as a Polars lazy frame, with pushdown of projections and predicates.

Only the columns asked for are decoded. Ranges of coordinates in the predicate narrow the view, so that row groups and
partitions outside are skipped; then the predicate is applied to what was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sparrow import engines
from sparrow.kernels.coo import Block
from sparrow.plan import Scan
from sparrow.relations.arrow import arrow_schema, arrow_table

if TYPE_CHECKING:
    import polars

__all__ = ["lazy_frame", "predicate_bounds"]

_MIRRORED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq"}


def lazy_frame(scan: Scan, labels: Mapping[int, pa.Array]) -> polars.LazyFrame:
    """Return a lazy frame of the stored elements: a column per axis, then ``value``.

    Labels replace the coordinates of labelled axes after the scan.
    """
    import polars
    from polars.io.plugins import register_io_source

    schema = scan.schema
    empty = polars.from_arrow(arrow_schema(schema).empty_table())
    assert isinstance(empty, polars.DataFrame)

    def read(
        with_columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[polars.DataFrame]:
        columns = empty.columns if with_columns is None else with_columns
        used = set(columns) | (set() if predicate is None else set(predicate.meta.root_names()))
        axes = [axis for axis, name in enumerate(schema.dims) if name in used]
        left = n_rows
        for block in _read_range(scan, predicate, axes):
            frame = polars.from_arrow(arrow_table(schema, block))
            assert isinstance(frame, polars.DataFrame)
            if predicate is not None:
                frame = frame.filter(predicate)
            frame = frame.select(columns)
            if left is not None:
                frame = frame.head(left)
                left -= len(frame)
            yield frame
            if left == 0:
                return

    frame = register_io_source(read, schema=dict(empty.schema), is_pure=True)
    named = [
        polars.lit(polars.Series(schema.dims[axis], names)).gather(polars.col(schema.dims[axis]))
        for axis, names in labels.items()
    ]
    return frame.with_columns(named) if named else frame


def _read_range(scan: Scan, predicate: polars.Expr | None, axes: Sequence[int]) -> Iterator[Block]:
    """Yield the elements that may satisfy a predicate, at their coordinates."""
    shape = scan.schema.shape
    if predicate is None:
        yield from engines.iter_blocks(scan, axes)
        return
    limits = predicate_bounds(predicate, scan.schema.dims)
    starts = [limits.get(name, (0, n))[0] for name, n in zip(scan.schema.dims, shape, strict=True)]
    stops = [limits.get(name, (0, n))[1] for name, n in zip(scan.schema.dims, shape, strict=True)]
    view = scan.view.then(tuple(slice(start, max(start, stop)) for start, stop in zip(starts, stops, strict=True)))
    for block in engines.iter_blocks(scan.then(view), axes):
        coords = [column.astype(scan.schema.coordinate_dtype(axis)) for axis, column in enumerate(block.coords)]
        for axis in axes:
            coords[axis] += np.asarray(starts[axis], coords[axis].dtype)
        yield Block(tuple(coords), block.values)


def predicate_bounds(predicate: polars.Expr, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return half-open ranges of columns outside of which a predicate is false.

    Comparisons with integers, ``is_between`` and conjunctions are analyzed; other expressions bound nothing.

    Examples
    --------
    >>> import polars as pl
    >>> predicate_bounds((pl.col("i") >= 3) & pl.col("j").is_between(0, 4) & (pl.col("value") > 0.5), ["i", "j"])
    {'i': (3, 9223372036854775807), 'j': (0, 5)}
    """
    found: dict[str, tuple[int, int]] = {}

    def narrow(column: Any, operation: str, literal: Any) -> None:
        name, number = column.get("Column"), _integer(literal)
        if name not in names or number is None or operation not in _MIRRORED:
            return
        low, high = found.get(name, (0, 2**63 - 1))
        if operation in ("Gt", "GtEq", "Eq"):
            low = max(low, number + (operation == "Gt"))
        if operation in ("Lt", "LtEq", "Eq"):
            high = min(high, number + (operation != "Lt"))
        found[name] = (max(low, 0), max(high, 0))

    def visit(node: Any) -> None:
        match node:
            case {"BinaryExpr": {"left": left, "op": "And", "right": right}}:
                visit(left)
                visit(right)
            case {"BinaryExpr": {"left": {"Column": _} as left, "op": operation, "right": right}}:
                narrow(left, operation, right)
            case {"BinaryExpr": {"left": left, "op": operation, "right": {"Column": _} as right}}:
                narrow(right, _MIRRORED.get(operation, operation), left)
            case {
                "Function": {
                    "input": [{"Column": _} as column, low, high],
                    "function": {"Boolean": {"IsBetween": {"closed": closed}}},
                }
            }:
                narrow(column, "GtEq" if closed in ("Both", "Left") else "Gt", low)
                narrow(column, "LtEq" if closed in ("Both", "Right") else "Lt", high)

    visit(json.loads(predicate.meta.serialize(format="json")))
    return found


def _integer(node: Any) -> int | None:
    """Return the integer of a literal, or None."""
    match node:
        case {"Literal": {"Dyn": {"Int": int(number)}}}:
            return number
        case {"Literal": {"Scalar": dict(typed)}}:
            ((kind, value),) = typed.items()
            return value if kind.removeprefix("U").startswith("Int") and type(value) is int else None
    return None
