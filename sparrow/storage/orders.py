"""Derived sort orders: the same entries in files of their own, sorted by other dimensions first."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparrow import memory
from sparrow.database import connect, quote_literal, quote_name, streamed
from sparrow.errors import ExistsError
from sparrow.index import Box, check_permutation
from sparrow.kernels.entries import Block, concatenate, sort_order
from sparrow.relation import ParquetSource, as_numpy, scan
from sparrow.storage.creation import create, creating
from sparrow.storage.filesystem import of
from sparrow.storage.layout import METADATA_KEY, Metadata, Sizes, arrow_schema, decode
from sparrow.storage.log import Log, LostRace
from sparrow.storage.rewrites import discard
from sparrow.storage.snapshot import Snapshot, order_folder
from sparrow.storage.writer import TensorWriter

__all__ = ["build_order"]

_BATCH = 1 << 18

_COPIES = 7
"""How many times a sort in memory holds the entries."""


def build_order(snapshot: Snapshot, order: Sequence[int], sizes: Sizes) -> None:
    """Build a sort order of a snapshot, or rebuild it where it is stale or damaged; in memory if that is small enough.

    Raises
    ------
    ShapeError
        If ``order`` does not name each dimension once.
    """
    schema = snapshot.schema
    wanted = check_permutation(order, schema.ndim)
    if wanted in snapshot.orders:
        return
    folder = order_folder(snapshot.path, wanted)
    if wanted in snapshot.damaged and snapshot.damaged[wanted].table is None:
        of(folder).delete(folder)
    metadata = Metadata(schema, snapshot.metadata.profile, wanted, {}, snapshot.digest)
    if not of(folder).occupied(folder):
        with contextlib.suppress(ExistsError):  # another process built it meanwhile: ours goes on top
            with creating(folder) as made:
                files = _write(os.fspath(made), snapshot, wanted, sizes)
                create(
                    made,
                    schema,
                    files,
                    profile=metadata.profile,
                    operation="add_order",
                    order=wanted,
                    built_from=snapshot.digest,
                )
            return
    log = Log.open(folder)
    before, nonce = log.version, os.urandom(8).hex()
    files = _write(folder, snapshot, wanted, sizes)
    kinds = [
        np.dtype(files[0].coordinate_dtypes[dim]) if files else schema.coordinate_dtype(dim)
        for dim in range(schema.ndim)
    ]
    columns = arrow_schema(schema.dims, schema.dtype, kinds, {METADATA_KEY: metadata.to_json()})
    notes = {
        "operation": "add_order",
        "nonce": nonce,
        "nnz": snapshot.nnz,
        "shape": list(schema.shape),
    }
    try:
        log.commit(files, (), notes, schema.shape, columns)
    except LostRace:
        discard(folder, files)
    except BaseException:
        if not log.landed(before, nonce):  # the log may have them though what came after it failed
            discard(folder, files)
        raise


def _write(folder: str, snapshot: Snapshot, order: tuple[int, ...], sizes: Sizes) -> list[Any]:
    schema = snapshot.schema
    with TensorWriter(
        folder,
        schema.dims,
        schema.dtype,
        profile=snapshot.metadata.profile,
        order=order,
        coordinate_dtypes=snapshot.base.coordinate_dtypes,
        sizes=sizes,
    ) as writer:
        for block in _sorted(snapshot, order):
            writer.write(block)
        return writer.finish()


def _sorted(snapshot: Snapshot, order: tuple[int, ...]) -> Iterator[Block]:
    """Yield the entries of a snapshot in an order."""
    schema = snapshot.schema
    if not snapshot.nnz:
        return
    if snapshot.nnz * (memory.entry_bytes(schema) + 8) < memory.share(_COPIES):
        everything = Box.everything(schema.shape)
        block = concatenate(list(scan(snapshot, everything)), schema.ndim, schema.dtype)
        ranked = sort_order([block.coords[dim] for dim in order], [schema.shape[dim] for dim in order])
        for start in range(0, block.count, _BATCH):
            part = slice(start, start + _BATCH)
            yield block.take(part if ranked is None else ranked[part])
        return
    source = snapshot.source(Box.everything(schema.shape))
    columns = [*schema.dims, "value"] + (["value_im"] if schema.dtype.kind == "c" else [])
    names = ", ".join(map(quote_name, columns))
    keys = ", ".join(quote_name(schema.dims[dim]) for dim in order)
    con = connect()
    try:
        if isinstance(source, ParquetSource):
            files = f"read_parquet([{', '.join(map(quote_literal, source.paths))}], hive_partitioning = false)"
        else:
            con.register("entries", source.table)
            files = "entries"
        for batch in streamed(con, f"select {names} from {files} order by {keys}", _BATCH):
            arrays = [as_numpy(column) for column in batch.columns]
            yield Block(tuple(arrays[: schema.ndim]), decode(arrays[schema.ndim :], schema.dtype))
    finally:
        con.close()
