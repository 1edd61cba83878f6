"""Derived sort orders: the same elements, sorted by other dimensions first."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from sparrow.core.indexing import Box, check_permutation
from sparrow.errors import ExistsError, NotFoundError
from sparrow.kernels.coo import Block
from sparrow.relations.protocol import scan
from sparrow.sorting import Rows
from sparrow.storage.creation import create, stage_folder
from sparrow.storage.delta.log import Log, LostRace
from sparrow.storage.delta.rewrite_plan import delete_files
from sparrow.storage.delta.snapshot import Snapshot, order_folder
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.layout import METADATA_KEY, Metadata, Sizes, arrow_schema
from sparrow.storage.parquet.writer import DataFile, TensorWriter

__all__ = ["WriteOrder", "build_order"]


WriteOrder: TypeAlias = "Callable[[Snapshot, str, tuple[int, ...]], Sequence[DataFile] | None]"
"""Writes the data files of a sort order to a folder in other processes; returns None where this one should."""


def build_order(snapshot: Snapshot, order: Sequence[int], sizes: Sizes, write_order: WriteOrder | None = None) -> None:
    """Build a sort order of a snapshot, or rebuild it if it is stale or damaged.

    Raises
    ------
    ShapeError
        If ``order`` is not a permutation of the dimensions.
    """
    schema = snapshot.schema
    wanted = check_permutation(order, schema.ndim)
    if wanted in snapshot.orders:
        return
    folder = order_folder(snapshot.path, wanted)
    if wanted in snapshot.damaged and snapshot.damaged[wanted].table is None:
        get_filesystem(folder).delete(folder)
    metadata = Metadata(schema, snapshot.metadata.profile, wanted, {}, snapshot.digest)
    if not get_filesystem(folder).is_occupied(folder):
        with contextlib.suppress(ExistsError):  # another process built it meanwhile: commit on top
            with stage_folder(folder) as made:
                files = _write(os.fspath(made), snapshot, wanted, sizes, write_order)
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
    try:
        log = Log.open(folder)
    except NotFoundError:  # what a vacuum that was interrupted left
        get_filesystem(folder).delete(folder)
        build_order(snapshot, order, sizes, write_order)
        return
    before, nonce = log.version, os.urandom(8).hex()
    files = _write(folder, snapshot, wanted, sizes, write_order)
    dtypes = [
        np.dtype(files[0].coordinate_dtypes[dim]) if files else schema.coordinate_dtype(dim)
        for dim in range(schema.ndim)
    ]
    columns = arrow_schema(schema.dims, schema.dtype, dtypes, {METADATA_KEY: metadata.to_json()})
    notes = {
        "operation": "add_order",
        "nonce": nonce,
        "nnz": snapshot.nnz,
        "shape": list(schema.shape),
    }
    try:
        log.commit(files, (), notes, schema.shape, columns)
    except LostRace:
        delete_files(folder, files)
    except BaseException:
        if not log.has_landed(before, nonce):  # the commit may have succeeded and the step after it failed
            delete_files(folder, files)
        raise


def _write(
    folder: str, snapshot: Snapshot, order: tuple[int, ...], sizes: Sizes, write_order: WriteOrder | None
) -> Sequence[DataFile]:
    found = None if write_order is None else write_order(snapshot, folder, order)
    if found is not None:
        return found
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
        for block in _sorted_blocks(snapshot, order):
            writer.write(block)
        return writer.finish()


def _sorted_blocks(snapshot: Snapshot, order: tuple[int, ...]) -> Iterator[Block]:
    """Yield the elements of a snapshot in an order."""
    from sparrow.sorting.sorter import sorted_blocks

    schema = snapshot.schema
    shape, dims = tuple(schema.shape[dim] for dim in order), tuple(schema.dims[dim] for dim in order)
    back = [order.index(dim) for dim in range(schema.ndim)]
    entries = scan(snapshot, Box.from_shape(schema.shape))
    rows = (Rows(tuple(block.coords[dim] for dim in order), block.values) for block in entries)
    for block in sorted_blocks(rows, replace(schema, shape=shape, dims=dims)):
        yield Block(tuple(block.coords[dim] for dim in back), block.values)
