"""File table: data files of a version with sizes and bounds from the log."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import Box
from sparrow.errors import CorruptionError
from sparrow.relations.protocol import ScanStats
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage.delta.log import ActiveFiles, Log
from sparrow.storage.parquet.layout import Metadata
from sparrow.storage.parquet.reader import (
    DATA_FILE,
    RUN_SUFFIX,
    Footer,
    check_row_groups,
    prefetch_footers,
    read_footer,
)

__all__ = ["FileTable", "concat_runs", "content_digest", "file_tables", "read_tables", "select_row_groups"]


def select_row_groups(footer: Footer, box: Box) -> list[int]:
    """Return the row groups of a file that may hold elements of a box."""
    if len(footer.rows) == 1:  # whose bounds are those of the file
        return [0]
    found: list[int] = np.flatnonzero(box.intersection_mask(footer.low, footer.high)).tolist()
    return found


class FileTable:
    """Files of one sort order of a version, sorted by their keys.

    Arrays have one row for each file.

    Key ranges are disjoint, except between append runs. So the bounds of the dimensions suffice to sort files: where
    those of the leading dimension are equal, all elements agree in it and the next dimension decides.
    """

    def __init__(
        self,
        folder: str,
        order: tuple[int, ...],
        active: ActiveFiles,
        coordinate_dtypes: tuple[np.dtype[Any], ...],
        is_disjoint: bool = True,
    ) -> None:
        keys: list[NDArray[np.int64]] = []
        for dim in order:
            keys += [active.low[:, dim], active.high[:, dim]]
        ranked = np.lexsort(tuple(reversed(keys))) if keys else np.arange(len(active.paths))
        self.folder = folder
        self.order = order
        self.coordinate_dtypes = coordinate_dtypes
        self.names = [active.paths[at] for at in ranked.tolist()]
        self.nbytes, self.rows = active.nbytes[ranked], active.rows[ranked]
        self.low, self.high = active.low[ranked], active.high[ranked]
        own = np.array([DATA_FILE.fullmatch(name) is not None for name in self.names], bool)
        self._is_own = bool(own.all())
        low, high = (bounds[own][:, self.order[:1]] for bounds in (self.low, self.high))
        self.overlaps = is_disjoint and bool((low[1:] < high[:-1]).any())
        """True if files of sparrow that must follow one another overlap."""
        self._outside: tuple[Sequence[int], int | None] | None = None
        """Shape, and a file with coordinates outside of it."""
        self._footers: WeakValueDictionary[int, Footer] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self.names)

    def find_foreign(self, shape: Sequence[int], places: NDArray[Any]) -> int | None:
        """Return a file that no scan accepts, None if there is none.

        Parameters
        ----------
        shape
            Shape of the tensor: a file with coordinates outside is not accepted, wherever it is.
        places
            Numbers of the files that are scanned, which sparrow must have written.
        """
        if self._outside is None or self._outside[0] != shape:
            outside = ((self.low < 0) | (self.high >= np.array(shape, np.int64))).any(axis=1) & (self.rows != 0)
            self._outside = shape, int(np.argmax(outside)) if outside.any() else None
        if self._outside[1] is not None or self._is_own:
            return self._outside[1]
        return next((at for at in places.tolist() if not DATA_FILE.fullmatch(self.names[at])), None)

    def path(self, at: int) -> str:
        """Return the full path of a file."""
        return os.path.join(self.folder, self.names[at])

    def footer(self, at: int) -> Footer:
        """Return the footer of a file, checked against the log.

        Raises
        ------
        NotFoundError
            If the file is gone.
        CorruptionError
            If it is damaged, or not the file in the log.
        """
        found = read_footer(self.path(at), len(self.order))
        if self._footers.get(at) is not found:
            expected = int(self.nbytes[at]), int(self.rows[at]), self.low[at].tolist(), self.high[at].tolist()
            low, high = (found.low.min(axis=0), found.high.max(axis=0)) if len(found.rows) else (found.low, found.high)
            if expected != (found.size, int(found.rows.sum()), low.tolist(), high.tolist()):
                raise CorruptionError(
                    f"the data file {self.path(at)!r} is not the one in the log: its size, rows or bounds "
                    "differ; verify() lists all damage"
                )
            leading = self.order[:1]
            if (found.low[1:, leading] < found.high[:-1, leading]).any():
                raise CorruptionError(
                    f"the row groups of the data file {self.path(at)!r} are out of order; verify() lists all damage"
                )
            found.leading[:] = leading
            self._footers[at] = found
        return found

    def prefetch_footers(self, places: Iterable[int]) -> None:
        """Prefetch footers that will be read."""
        prefetch_footers([self.path(at) for at in places])

    def check_row_groups(self, places: Iterable[int]) -> None:
        """Verify the row groups of some files, for readers that do not."""

        def check(at: int) -> None:
            self.footer(at)
            check_row_groups(self.path(at), len(self.order))

        for _ in ordered_map(check, places, settings.current().threads):
            pass

    def select_files(self, box: Box) -> NDArray[np.int64]:
        """Return the numbers of the files that may hold elements of a box."""
        return np.flatnonzero(box.intersection_mask(self.low, self.high))

    def stats(self, box: Box) -> ScanStats:
        """Return the statistics of a scan of a box."""
        files = self.select_files(box)
        self.prefetch_footers(files.tolist())
        groups = read = rows = nbytes = files_read = skipped_nbytes = 0
        inside = 0.0
        for at in files.tolist():
            found = self.footer(at)
            meets = select_row_groups(found, box)
            groups += len(found.rows)
            read += len(meets)
            files_read += bool(meets)
            rows += int(found.rows[meets].sum())
            nbytes += int(found.nbytes[meets].sum())
            skipped_nbytes += int(found.nbytes.sum()) - int(found.nbytes[meets].sum())
            inside += float(found.rows[meets] @ box.overlap_fractions(found.low[meets], found.high[meets]))
        skipped = np.ones(len(self), dtype=bool)
        skipped[files] = False
        if skipped.any():
            skipped_nbytes += int(self.nbytes[skipped].sum())
            # Estimate: all row groups but the last of a file have about the same size; ask a large file for it.
            known = int(files[self.rows[files].argmax()]) if files.size else -1
            if known < 0 or len(self.footer(known).rows) < 2:
                known = int(self.rows.argmax())
            sizes = self.footer(known).rows
            size = max(round(float(sizes[:-1].mean() if len(sizes) > 1 else sizes[0])), 1)
            groups += int((-(-self.rows[skipped] // size)).sum())
        return ScanStats(len(self), files_read, groups, read, rows, nbytes, inside, skipped_nbytes)

    @property
    def active(self) -> ActiveFiles:
        """The files as the log lists them."""
        return ActiveFiles(self.names, self.nbytes, self.rows, self.low, self.high)


def content_digest(names: Iterable[str]) -> str:
    """Return the digest of the contents of files; equal digests mean equal bytes."""
    return hashlib.sha256("\n".join(sorted(name.split("-")[0] for name in names)).encode()).hexdigest()


def file_tables(
    folder: str, order: Sequence[int], active: ActiveFiles, coordinate_dtypes: tuple[np.dtype[Any], ...]
) -> tuple[FileTable, tuple[FileTable, ...]]:
    """Return the base files, and the append runs, largest first."""
    writers: dict[str, list[int]] = {}
    for at, name in enumerate(active.paths):
        if name.endswith(f"{RUN_SUFFIX}.parquet") and (named := DATA_FILE.fullmatch(name)) is not None:
            writers.setdefault(named["nonce"][:16], []).append(at)
    if not writers:
        return FileTable(folder, tuple(order), active, coordinate_dtypes), ()
    beside = {at for places in writers.values() for at in places}
    base, *runs = (
        FileTable(folder, tuple(order), active.select(places), coordinate_dtypes)
        for places in ([at for at in range(len(active.paths)) if at not in beside], *writers.values())
    )
    return base, tuple(sorted(runs, key=lambda run: (-int(run.rows.sum()), run.names)))


def concat_runs(runs: Sequence[FileTable]) -> FileTable:
    """Return the files of all runs, whose keys may overlap, as one table."""
    active = runs[0].active
    for run in runs[1:]:
        active = active.concat(run.active)
    return FileTable(runs[0].folder, runs[0].order, active, runs[0].coordinate_dtypes, is_disjoint=False)


def read_tables(log: Log, metadata: Metadata, order: Sequence[int]) -> tuple[FileTable, tuple[FileTable, ...]]:
    """Return the base files and the append runs of a log's version."""
    ndim = metadata.schema.ndim
    schema = log.schema()
    if tuple(schema.names[:ndim]) != metadata.schema.dims or schema.get_field_index("value") != ndim:
        raise CorruptionError(f"the columns {schema.names} of {log.path!r} are not those its metadata names")
    log.check(log.shape(metadata.schema.shape))
    dtypes = tuple(np.dtype(schema.field(dim).type.to_pandas_dtype()) for dim in range(ndim))
    return file_tables(log.path, order, log.active(metadata.schema.dims), dtypes)
