"""Saved ALS models: bundles of factors, biases and the pattern of the ratings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import engines, storage
from sparrow.core.schema import Schema
from sparrow.errors import CorruptionError
from sparrow.kernels.coo import Block
from sparrow.models.biases import Biases
from sparrow.models.factor_table import FactorTable, Precision
from sparrow.models.serialization import write_model_listing
from sparrow.models.topk import can_cache, load_pattern, pattern_schema
from sparrow.models.tuning import tuning
from sparrow.runtime import memory
from sparrow.tensor import Tensor
from sparrow.tensor.base import read_labels

__all__ = ["SavedALS", "read_als", "write_als"]

_TABLES = ("user_factors", "item_factors")
_BIASES = ("user_biases", "item_biases")
_HISTORY, _RATED = "history", "rated_items"


@dataclass(frozen=True, slots=True)
class SavedALS:
    """Content of a saved model."""

    tables: tuple[FactorTable, FactorTable]
    biases: Biases | None
    history: Tensor
    """Pattern of the ratings, bool, shape (rows, items), with the labels."""


def write_als(
    path: str | os.PathLike[str],
    overwrite: bool,
    tables: tuple[FactorTable, FactorTable],
    biases: Biases | None,
    ratings: Tensor,
    metadata: Mapping[str, Any],
) -> None:
    """Write a model as a bundle, in one atomic step and bounded memory."""
    scan = ratings.__sparrow_scan__()
    labels, dims = read_labels(scan), scan.schema.dims
    members = [*_TABLES, _HISTORY]
    with storage.stage_folder(path, overwrite) as folder:
        for axis, (name, table) in enumerate(zip(_TABLES, tables, strict=True)):
            width = table.shape[1] - (biases is not None)
            column = "factor" if dims[axis].casefold() != "factor" else "number"
            schema = Schema((table.shape[0], width), (dims[axis], column), table[:0].dtype, 0)
            storage.save(folder / name, schema, _table_blocks(table, schema), labels=_on_axis(labels, axis))
        pattern = (Block(b.coords, np.ones(b.count, bool)) for b in engines.iter_sorted_blocks(scan))
        storage.save(folder / _HISTORY, pattern_schema(scan.schema), pattern, labels=labels)
        if biases is not None:
            vectors = {**dict(zip(_BIASES, biases.biases, strict=True)), _RATED: biases.rated}
            for name, vector in vectors.items():
                axis = 0 if name == _BIASES[0] else 1
                schema = Schema(vector.shape, (dims[axis],), vector.dtype, 0)
                stored = np.flatnonzero(vector)
                block = Block((stored.astype(schema.coordinate_dtype(0)),), vector[stored])
                storage.save(folder / name, schema, [block], labels=_on_axis(labels, axis))
                members.append(name)
        extra = {} if biases is None else {"mean": biases.mean}
        write_model_listing(folder, members, {**metadata, **extra})


def _on_axis(labels: Mapping[int, pa.Array], axis: int) -> dict[int, pa.Array]:
    return {0: labels[axis]} if axis in labels else {}


def _table_blocks(table: FactorTable, schema: Schema) -> Iterator[Block]:
    """Yield the nonzero factors of a table in order."""
    step, width = tuning().table_chunk_rows, schema.shape[1]
    for first in range(0, table.shape[0], step):
        chunk = table[first : first + step][:, :width]
        rows, columns = chunk.nonzero()
        coords = (rows + first).astype(schema.coordinate_dtype(0)), columns.astype(schema.coordinate_dtype(1))
        yield Block(coords, chunk[rows, columns])


def read_als(
    bundle: Mapping[str, Tensor], metadata: Mapping[str, Any], memory_map: str | os.PathLike[str] | None
) -> SavedALS:
    """Read the tensors of a model.

    Parameters
    ----------
    bundle
        Its tensors.
    metadata
        As written.
    memory_map
        Folder for memory-mapped tables; None reads them into memory.

    Raises
    ------
    KeyError, TypeError
        If something is missing.
    CorruptionError
        If tensors do not fit each other.
    TooLargeError
        If tables exceed the memory limit and are not memory-mapped.
    """
    dtype: Precision = metadata["parameters"]["dtype"]
    history = bundle[_HISTORY]
    sources = [bundle[name] for name in _TABLES]
    is_biased = "mean" in metadata
    (users, d), (items, other) = (source.shape for source in sources)
    if d != other or history.shape != (users, items):
        raise CorruptionError(
            f"factors of shapes {(users, d)} and {(items, other)} do not fit a history of shape {history.shape}"
        )
    nbytes = (users + items) * (d + is_biased) * (4 if dtype == "float32" else 2)
    if memory_map is None:
        memory.check(nbytes, f"tables of {users + items} rows and {d} factors", "pass memory_map=FOLDER")
    paths = [None if memory_map is None else os.path.join(memory_map, f"{name}.npy") for name in _TABLES]
    tables = (
        FactorTable(users, d + is_biased, dtype, paths[0]),
        FactorTable(items, d + is_biased, dtype, paths[1]),
    )
    for table, source in zip(tables, sources, strict=True):
        for block in engines.iter_sorted_blocks(source.__sparrow_scan__()):
            table.assign(block.coords[0], block.coords[1], block.values)
    biases = None
    if is_biased:
        vectors: list[NDArray[Any]] = [bundle[name].to_numpy() for name in (*_BIASES, _RATED)]
        if [len(vector) for vector in vectors] != [users, items, items]:
            raise CorruptionError(f"biases of lengths {[len(vector) for vector in vectors]} do not fit the factors")
        biases = Biases(tables, metadata["mean"], (vectors[0], vectors[1]), vectors[2])
        biases.initialize()
    if can_cache(history.nnz, *history.shape):
        history = load_pattern(history)
    return SavedALS(tables, biases, history)
