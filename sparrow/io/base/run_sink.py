"""Sorted runs of the rows of files, left by a task of a cluster for a merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.engines.task_rounds import StoredRun, store_columns, tuning
from sparrow.kernels.coo import sort_order
from sparrow.runtime import memory, settings
from sparrow.runtime.events import emit
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Rows

__all__ = ["RunSink"]

T = TypeVar("T")


class Ids(Protocol):
    """Collector of the ids of a dimension."""

    def finish(self) -> NDArray[np.int64]:
        """Return the distinct ids, ascending."""


class RunSink:
    """Place for the rows of files: the scratch folder, instead of a tensor.

    Rows of one element stay, in the order of the input.

    Parameters
    ----------
    folder
        The scratch folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.runs: list[StoredRun] = []
        self.maxima: tuple[int, ...] = ()
        """Largest coordinate of each dimension."""
        self.ids: tuple[NDArray[np.int64] | None, ...] = ()
        """Distinct ids of each relabelled dimension."""
        self.labels: tuple[pa.Array | None, ...] = ()
        """Sorted texts of each dimension whose coordinates are their ranks."""

    @property
    def budget(self) -> int:
        """Bytes of the rows of a run."""
        return memory.share(tuning().run_parts)

    def take(self, items: Iterable[T], rows_of: Callable[[T], Rows], ids: Sequence[Ids | None], ndim: int) -> None:
        """Take the rows of items; see :func:`~sparrow.io.base.coo_writer.write_coo`."""
        waiting, nbytes = list[Rows](), 0
        self.maxima = (-1,) * ndim
        for rows in ordered_map(rows_of, items, settings.current().threads):
            if not rows.size:
                continue
            self.maxima = tuple(map(max, self.maxima, (int(column.max()) for column in rows.coords)))
            waiting.append(rows)
            nbytes += rows.nbytes
            if nbytes > self.budget:
                self._store(waiting)
                waiting, nbytes = [], 0
        if waiting:
            self._store(waiting)
        self.ids = tuple(None if each is None else each.finish() for each in ids)

    def _store(self, waiting: list[Rows]) -> None:
        """Store rows as one run."""
        coords = [np.concatenate(columns) for columns in zip(*(rows.coords for rows in waiting), strict=True)]
        found = [rows.values for rows in waiting if rows.values is not None]
        values = np.concatenate(found) if found else None
        waiting.clear()
        maxima = [int(column.max()) for column in coords]
        emit("cluster.sort", elements=len(coords[0]))
        coords, values = _sort(coords, values, maxima)
        columns = coords if values is None else [*coords, values]
        self.runs.append(store_columns(columns, self.folder, values is not None))


def _sort(
    coords: list[NDArray[Any]], values: NDArray[Any] | None, maxima: Sequence[int]
) -> tuple[list[NDArray[Any]], NDArray[Any] | None]:
    """Return rows sorted by their coordinates; those of one element stay in order."""
    from sparrow.kernels.keys import choose_layout, gather_values, pack, sort_stable, unpack

    layout = choose_layout(maxima)
    if layout is None or len(coords[0]) >= 2**31:
        order = sort_order(coords, [top + 1 for top in maxima])
        if order is None:
            return coords, values
        return [column[order] for column in coords], None if values is None else values[order]
    keys = pack(coords, layout)
    if values is None:
        keys.sort()
    elif (keys[1:] < keys[:-1]).any():
        keys, order = sort_stable(keys, 0)
        values = gather_values(values, order)
    return list(unpack(keys, layout, [np.dtype(np.int32 if top < 2**31 else np.int64) for top in maxima])), values
