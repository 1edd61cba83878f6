"""Factor tables of ALS in files of the scratch folder, shared by tasks."""

from __future__ import annotations

import itertools
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import storage
from sparrow.engines.task_rounds import Rounds, map_array, pack_array
from sparrow.errors import StorageError
from sparrow.models.als_cluster_ratings import ClusterSide
from sparrow.models.blas_threads import single_threaded_blas
from sparrow.models.factor_table import RAW_DTYPES, FactorTable, Precision, TableStatistics, TableSums, total_statistics
from sparrow.models.tree_sum import TreeSum
from sparrow.plan import Scan

__all__ = ["ClusterTable", "Rotation", "Statistics", "TableFiles", "write_rows"]


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A factor table in files, one per range of rows."""

    folder: str
    width: int
    dtype: Precision
    starts: tuple[int, ...]
    """First row of each file, and the end."""
    names: tuple[str, ...]
    last: Any = None
    """Values of the last column other than in the files: an array, a scalar, or None."""

    def take(self, rows: NDArray[Any]) -> FactorTable:
        """Return ascending rows."""
        out = self._empty(len(rows))
        cuts = np.searchsorted(rows, self.starts).tolist()
        for k, name in enumerate(self.names):
            low, high = cuts[k], cuts[k + 1]
            if low < high:
                source = self._map(name)
                np.take(source, rows[low:high] - self.starts[k], axis=0, out=out.raw[low:high], mode="clip")
        storage.count_files(read=out.raw.nbytes)
        self._write_last(out, rows)
        return out

    def read(self, first: int, stop: int) -> FactorTable:
        """Return a range of rows."""
        out = self._empty(stop - first)
        for start, end, name in zip(self.starts, self.starts[1:], self.names, strict=False):
            low, high = max(first, start), min(stop, end)
            if low < high:
                source = self._map(name)
                out.raw[low - first : high - first] = source[low - start : high - start]
        storage.count_files(read=out.raw.nbytes)
        self._write_last(out, slice(first, stop))
        return out

    def _map(self, name: str) -> NDArray[Any]:
        found: NDArray[Any] = map_array(os.path.join(self.folder, name)).view(np.ndarray)
        return found

    def _empty(self, rows: int) -> FactorTable:
        return FactorTable.of_array(np.empty((rows, self.width), RAW_DTYPES[self.dtype]), self.dtype)

    def _write_last(self, out: FactorTable, rows: Any) -> None:
        if self.last is not None and out.shape[0]:
            out.write_last_column(self.last if np.ndim(self.last) == 0 else np.asarray(self.last[rows]))


def write_rows(folder: str, rows: FactorTable) -> str:
    """Write rows to a new file of a folder, and return its name."""
    name = f"{uuid.uuid4().hex}.npy"
    try:
        np.save(os.path.join(folder, name), rows.raw.view(np.ndarray))
    except OSError as error:
        raise StorageError(f"cannot write factors to {folder!r}: {error.strerror or error}") from error
    storage.count_files(written=rows.raw.nbytes)
    return name


class ClusterTable:
    """A factor table that tasks read and write.

    Parameters
    ----------
    rounds
        Runs the tasks.
    table
        The table in memory, which the new one starts as.
    side
        Ratings by the rows of the table.
    """

    def __init__(self, rounds: Rounds, table: FactorTable, side: ClusterSide) -> None:
        self._rounds, self._table, self._side = rounds, table, side
        self.shape, self.dtype = table.shape, table.dtype
        self._last: Any = None
        self._new_column: NDArray[np.float32] | None = None
        self._is_synced = True
        folder = self.new_folder()
        names = [write_rows(folder, table.rows(*ends)) for ends in itertools.pairwise(side.cut_rows)]
        self._files = TableFiles(folder, self.shape[1], table.dtype, side.cut_rows, tuple(names))

    def new_folder(self) -> str:
        """Return a new folder for files of the table."""
        folder = os.path.join(self._rounds.folder, uuid.uuid4().hex)
        os.mkdir(folder)
        return folder

    def files(self) -> TableFiles:
        """Return the files as tasks read them."""
        last = self._last
        if last is not None and np.ndim(last):
            last = pack_array(self._files.folder, last)
        return replace(self._files, last=last)

    def replace_files(self, folder: str, starts: Sequence[int], names: Sequence[str]) -> None:
        """Continue with other files, and remove the earlier ones."""
        before, self._is_synced = self._files, False
        self._files = replace(before, folder=folder, starts=tuple(starts), names=tuple(names))
        self._last = None
        shutil.rmtree(before.folder, ignore_errors=True)

    def set_last_column(self, values: NDArray[np.float32]) -> None:
        """Remember what the files have in their last column, so that it need not be read."""
        self._new_column = values

    def read_last_column(self) -> NDArray[np.float32]:
        """Return the last column that the latest round wrote."""
        assert self._new_column is not None
        return self._new_column

    def write_last_column(self, values: NDArray[np.float32] | np.float32) -> None:
        """Let tasks read other values in the last column."""
        self._last, self._is_synced = values, False

    @property
    def has_biases(self) -> bool:
        """True if the last column is written and read by itself."""
        return self._last is not None

    def rotate(self, basis: NDArray[np.float32]) -> None:
        """Multiply the table by an orthogonal matrix, in a round of tasks."""
        folder, side = self.new_folder(), self._side
        work = Rotation(self.files(), side.chunk_bounds_file, self._rounds.pack(basis), folder)
        names = self._rounds.run([], work, side.cut)
        self.replace_files(folder, side.cut_rows, names)

    def statistics(self, ridge: Callable[[int, int], NDArray[np.float64]], precise: bool = False) -> TableStatistics:
        """Return the Gramian and norms, from a round of tasks."""
        penalties = pack_array(self._files.folder, ridge(0, self.shape[0]))
        work = Statistics(self.files(), self._side.chunk_bounds_file, penalties, precise)
        sums = TreeSum[TableSums]()
        for nodes in self._rounds.run([], work, self._side.cut):
            sums.extend(nodes)
        return total_statistics(sums, self.shape[1])

    def sync(self) -> None:
        """Copy the table back to the one in memory."""
        if self._is_synced:
            return
        files, table = self._files, self._table
        for start, end, name in zip(files.starts, files.starts[1:], files.names, strict=False):
            table.raw[start:end] = map_array(os.path.join(files.folder, name))
        if self._last is not None:
            table.write_last_column(self._last)
        self._is_synced = True


@dataclass(frozen=True, slots=True)
class Rotation:
    """Multiply rows of a table by a matrix."""

    table: TableFiles
    chunk_bounds: Any
    basis: NDArray[np.float32]
    folder: str
    """Folder of the new files."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> str:
        """Write the rows of chunks [start, stop), and return the name of the file."""
        rows = _read_chunks(self.table, self.chunk_bounds, start, stop)
        with single_threaded_blas(with_scipy=True):
            rows.rotate(self.basis)
        return write_rows(self.folder, rows)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Sum the Gramian and norms of rows of a table."""

    table: TableFiles
    chunk_bounds: Any
    ridge: Any
    """Ridge penalty of each row."""
    precise: bool

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> list[Any]:
        """Return the nodes of the sum of chunks [start, stop)."""
        rows = _read_chunks(self.table, self.chunk_bounds, start, stop)
        ridge = np.asarray(self.ridge[self.chunk_bounds[start] : self.chunk_bounds[stop]])
        sums = TreeSum[TableSums]()
        with single_threaded_blas(with_scipy=True):
            rows.add_chunks(sums, start, lambda a, b: ridge[a:b], self.precise)
        return sums.nodes


def _read_chunks(table: TableFiles, chunk_bounds: NDArray[np.int64], start: int, stop: int) -> FactorTable:
    """Return the rows of chunks [start, stop)."""
    bounds = np.array(chunk_bounds[start : stop + 1])
    rows = table.read(int(bounds[0]), int(bounds[-1]))
    rows.chunk_bounds = bounds - bounds[0]
    return rows
