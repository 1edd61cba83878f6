"""The front of the engines: each call names an engine, or "auto"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparrow.engines import duckdb, stream
from sparrow.engines.choose import engine_for
from sparrow.engines.pushdown import pushed
from sparrow.index import View
from sparrow.kernels.entries import Block
from sparrow.plan import Contract, Scan
from sparrow.relation import Relation

__all__ = ["cell", "count", "entries", "matmul", "sorted_blocks"]


def entries(scan: Scan, engine: str = "auto") -> Block:
    """Return the entries of a scan, canonical in the order of the view's axes, in memory.

    Raises
    ------
    TooLargeError
        If they would pass the memory limit.
    InvalidValueError, UnsupportedError
        If there is no such engine, or it does not do this.
    """
    return duckdb.entries(scan) if engine_for(engine) == "duckdb" else stream.entries(pushed(scan))


def count(scan: Scan, engine: str = "auto") -> int:
    """Return the number of entries of a scan."""
    return duckdb.count(scan) if engine_for(engine) == "duckdb" else stream.count(pushed(scan))


def cell(relation: Relation, view: View) -> Any:
    """Return the one cell that a view without axes shows, as a NumPy scalar."""
    return stream.cell(relation, view)


def sorted_blocks(scan: Scan) -> Iterator[Block]:
    """Yield the entries of a scan in canonical blocks, in the order of the view's axes, within the memory limit."""
    return stream.sorted_blocks(pushed(scan))


def matmul(contract: Contract, engine: str = "auto") -> Any:
    """Return a product as a NumPy array, or a NumPy scalar where it has no dimensions.

    Raises
    ------
    TooLargeError
        If the result would pass the memory limit.
    InvalidValueError, UnsupportedError
        If there is no such engine, or it does not do this.
    """
    return duckdb.matmul(contract) if engine_for(engine) == "duckdb" else stream.matmul(_pushed(contract))


def _pushed(contract: Contract) -> Contract:
    sides = (pushed(side) if isinstance(side, Scan) else side for side in (contract.left, contract.right))
    return Contract(*sides)
