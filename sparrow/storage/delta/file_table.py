"""The data files of one version, as the log tells them: those in order, and the runs beside them."""

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
from sparrow.relations.base import ScanStats
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage.delta.log import Active, Log
from sparrow.storage.parquet.layout import Metadata
from sparrow.storage.parquet.reader import DATA_FILE, RUN, Footer, check_row_groups, prefetch_footers, read_footer

__all__ = ["FileTable", "beside", "digest", "file_tables", "groups_meeting", "log_tables"]


def groups_meeting(footer: Footer, box: Box) -> list[int]:
    """Return the row groups that may hold entries of a box, of a file that may."""
    if len(footer.rows) == 1:  # its bounds are those of the file
        return [0]
    found: list[int] = np.flatnonzero(box.intersecting(footer.low, footer.high)).tolist()
    return found


class FileTable:
    """The files of one version of one order, sorted by their keys; arrays have one row for each file.

    Key ranges are disjoint but for those of several runs, so the bounds of the dimensions suffice to sort files: where
    those of the leading dimension agree, all their entries do, and the next dimension decides.
    """

    def __init__(
        self, folder: str, order: tuple[int, ...], active: Active, coordinate_dtypes: tuple[np.dtype[Any], ...]
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
        self._footers: WeakValueDictionary[int, Footer] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self.names)

    def path(self, at: int) -> str:
        """Return the full path of a file, by its place in the order."""
        return os.path.join(self.folder, self.names[at])

    def footer(self, at: int) -> Footer:
        """Return the footer of a file, which agrees with the log.

        Raises
        ------
        NotFoundError
            If the file is gone.
        CorruptionError
            If it is damaged, or not the file that the log means.
        """
        found = read_footer(self.path(at), len(self.order))
        if self._footers.get(at) is not found:
            told = int(self.nbytes[at]), int(self.rows[at]), self.low[at].tolist(), self.high[at].tolist()
            low, high = (found.low.min(axis=0), found.high.max(axis=0)) if len(found.rows) else (found.low, found.high)
            if told != (found.size, int(found.rows.sum()), low.tolist(), high.tolist()):
                raise CorruptionError(
                    f"the data file {self.path(at)!r} is not the one that the log means: its size, rows or bounds "
                    "differ; verify() tells more"
                )
            self._footers[at] = found
        return found

    def prefetch_footers(self, places: Iterable[int]) -> None:
        """Take note that some footers will be read."""
        prefetch_footers([self.path(at) for at in places])

    def check_groups(self, places: Iterable[int]) -> None:
        """Check all row groups of some files, for readers that cannot."""

        def work(at: int) -> None:
            self.footer(at)
            check_row_groups(self.path(at), len(self.order))

        for _ in ordered_map(work, places, settings.current().threads):
            pass

    def intersecting(self, box: Box) -> NDArray[np.int64]:
        """Return the places of the files that may hold entries of a box."""
        return np.flatnonzero(box.intersecting(self.low, self.high))

    def stats(self, box: Box) -> ScanStats:
        """Return what a scan of a box touches of the files."""
        files = self.intersecting(box)
        self.prefetch_footers(files.tolist())
        groups = read = rows = nbytes = files_read = 0
        inside = 0.0
        for at in files.tolist():
            found = self.footer(at)
            meets = groups_meeting(found, box)
            groups += len(found.rows)
            read += len(meets)
            files_read += bool(meets)
            rows += int(found.rows[meets].sum())
            nbytes += int(found.nbytes[meets].sum())
            inside += float(found.rows[meets] @ box.overlap_fractions(found.low[meets], found.high[meets]))
        skipped = np.ones(len(self), dtype=bool)
        skipped[files] = False
        if skipped.any():
            # An estimate: groups are of almost one size but for the last of a file, so a large file tells that of all.
            known = int(files[self.rows[files].argmax()]) if files.size else -1
            if known < 0 or len(self.footer(known).rows) < 2:
                known = int(self.rows.argmax())
            sizes = self.footer(known).rows
            size = max(round(float(sizes[:-1].mean() if len(sizes) > 1 else sizes[0])), 1)
            groups += int((-(-self.rows[skipped] // size)).sum())
        return ScanStats(len(self), files_read, groups, read, rows, nbytes, inside)

    @property
    def active(self) -> Active:
        """The files, as the log tells them."""
        return Active(self.names, self.nbytes, self.rows, self.low, self.high)


def digest(names: Iterable[str]) -> str:
    """Return what tells the contents of files: equal digests mean equal bytes in them."""
    return hashlib.sha256("\n".join(sorted(name.split("-")[0] for name in names)).encode()).hexdigest()


def file_tables(
    folder: str, order: Sequence[int], active: Active, coordinate_dtypes: tuple[np.dtype[Any], ...]
) -> tuple[FileTable, tuple[FileTable, ...]]:
    """Return the files in order, and the runs beside them, large ones first."""
    writers: dict[str, list[int]] = {}
    for at, name in enumerate(active.paths):
        if name.endswith(f"{RUN}.parquet") and (named := DATA_FILE.fullmatch(name)) is not None:
            writers.setdefault(named["nonce"][:16], []).append(at)
    if not writers:
        return FileTable(folder, tuple(order), active, coordinate_dtypes), ()
    beside = {at for places in writers.values() for at in places}
    base, *runs = (
        FileTable(folder, tuple(order), active.at(places), coordinate_dtypes)
        for places in ([at for at in range(len(active.paths)) if at not in beside], *writers.values())
    )
    return base, tuple(sorted(runs, key=lambda run: (-int(run.rows.sum()), run.names)))


def beside(runs: Sequence[FileTable]) -> FileTable:
    """Return the files of all runs, which may lie between each other's keys, as one table."""
    active = runs[0].active
    for run in runs[1:]:
        active = active.plus(run.active)
    return FileTable(runs[0].folder, runs[0].order, active, runs[0].coordinate_dtypes)


def log_tables(log: Log, metadata: Metadata, order: Sequence[int]) -> tuple[FileTable, tuple[FileTable, ...]]:
    """Return the files of a log's version, those in order and runs."""
    ndim = metadata.schema.ndim
    schema = log.schema()
    if tuple(schema.names[:ndim]) != metadata.schema.dims or schema.get_field_index("value") != ndim:
        raise CorruptionError(f"the columns {schema.names} of {log.path!r} are not those its metadata names")
    log.check(log.shape(metadata.schema.shape))
    kinds = tuple(np.dtype(schema.field(dim).type.to_pandas_dtype()) for dim in range(ndim))
    return file_tables(log.path, order, log.active(metadata.schema.dims), kinds)
