"""Helpers of the tests of engines and SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sparrow import engines, storage
from sparrow.core.indexing import Box, View
from sparrow.core.schema import Schema, is_fill
from sparrow.engines.stream import lower
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.kernels.coo import Block, canonicalize
from sparrow.plan import Node, Scan, make_reduce
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Chunk, Relation

TINY = storage.Sizes(file_rows=40, group_rows=7)
"""Files of a few row groups of 7 elements."""


def random_array(shape: tuple[int, ...], dtype: Any = np.float64, seed: int = 0, density: float = 0.4) -> NDArray[Any]:
    """Return a dense array of small integers, most of them 0."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 9, shape).astype(dtype)
    return np.where(rng.random(shape) < density, values, np.zeros((), dtype))


def memory(dense: NDArray[Any], fill_value: Any = 0, dims: tuple[str, ...] = ()) -> MemoryRelation:
    """Return a relation in memory."""
    schema = Schema(dense.shape, dims, dense.dtype, fill_value)
    stored = ~is_fill(dense, schema.fill_value)
    coords = stored.nonzero() if dense.ndim else ()
    return MemoryRelation(schema, canonicalize(Block(coords, dense[stored]), dense.shape, fill_value))


def stored_relation(
    folder: Path, dense: NDArray[Any], *orders: tuple[int, ...], sizes: Any = TINY, **options: Any
) -> Relation:
    """Return a stored relation with further orders."""
    relation = memory(dense, **options)
    handle = storage.save(folder, relation.schema, iter([relation.block]), orders=orders, sizes=sizes)
    return handle.current


def scan_of(source: Relation | Node, view: View | None = None) -> Scan:
    """Return the scan of a view, by default of everything."""
    view = View.identity(source.schema.shape) if view is None else view
    return Scan(source, view, source.schema.with_view(view))


def lower_node(step: Node) -> PhysicalOperator:
    """Return the relation of a lowered node."""
    (scan,) = lower([scan_of(step)])
    assert isinstance(scan.source, PhysicalOperator)
    return scan.source


def at(relation: Relation, *key: Any) -> Scan:
    """Return the scan of an index."""
    return scan_of(relation, View.identity(relation.schema.shape).then(key))


def reduce_scan(scan: Scan, name: str, *args: Any, **options: Any) -> Any:
    """Return a reduction: a scalar over all axes, else a node."""
    node = make_reduce(scan, name, *args, **options)
    return node if node.axes else engines.reduce_all([node])[0]


def to_dense(block: Block, schema: Schema) -> NDArray[Any]:
    """Return the dense array of a block."""
    out = np.full(schema.shape, schema.fill_value, schema.dtype)
    if schema.ndim:
        out[block.coords] = block.values
    elif block.count:
        out[...] = block.values[0]
    return out


class _Around:
    """A relation that delegates to another."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation

    is_small = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._relation, name)


class Counting(_Around):
    """A relation that counts the chunks read."""

    reads = 0

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        self.reads += 1
        return self._relation.read(chunk, dims)


class Unreadable(_Around):
    """A relation whose data pages must not be read."""

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> NoReturn:
        raise AssertionError(f"{chunk} was read")

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> NoReturn:
        raise AssertionError(f"{box} was about to be read")


class Labelled:
    """Minimal tensor for ``sp.sql``."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan

    @property
    def dims(self) -> tuple[str, ...]:
        return self._scan.schema.dims

    def __sparrow_scan__(self) -> Scan:
        return self._scan
