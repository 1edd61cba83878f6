"""Half steps on a GPU: tables stay on the device, rows are solved in batches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.gpu import Device, least_squares, map_halving
from sparrow.errors import TooLargeError
from sparrow.models.als_data import RowPartition
from sparrow.models.als_solvers import PartitionBackend, PartitionSolver, Solver
from sparrow.models.factor_table import FactorTable, Table, TableStatistics
from sparrow.models.tuning import tuning

__all__ = ["DeviceBackend", "DeviceTable"]


class DeviceTable:
    """Copy of a factor table on a device, with a row of zeros at its end.

    Parameters
    ----------
    device
        Device that holds it.
    table
        Table in memory.
    """

    def __init__(self, device: Device, table: FactorTable) -> None:
        self._device, self._table = device, table
        rows, d = self.shape = table.shape
        self._array = device.xp.zeros((rows + 1, d), table.raw.dtype)
        step = tuning().device_chunk_rows
        for first in range(0, rows, step):
            chunk = np.ascontiguousarray(table.raw[first : first + step])
            self._array[first : first + len(chunk)] = device.put(chunk.view(np.ndarray))

    def sync(self) -> None:
        """Copy it back to the table in memory."""
        step = tuning().device_chunk_rows
        with self._device.here():
            for first in range(0, self.shape[0], step):
                last = min(first + step, self.shape[0])
                self._table.raw[first:last] = self._device.get(self._array[first:last])

    def rows(self, at: Any, dtype: Any) -> Any:
        """Return rows, selected by positions or a slice, as floats."""
        return self._decode(self._array[at]).astype(dtype, copy=False)

    def read(self, start: int, stop: int) -> Any:
        """Return rows in float32: a view of a float32 table, else a copy."""
        return self.rows(slice(start, stop), np.float32)

    def write(self, start: int, rows: Any) -> None:
        """Write float32 rows from ``start``, rounded to nearest."""
        self._array[start : start + rows.shape[0]] = self._encode(rows)

    def read_last_column(self) -> NDArray[np.float32]:
        """Return a copy of the last column, in memory."""
        with self._device.here():
            words = self._array[: self.shape[0], self.shape[1] - 1 :].reshape(-1)
            return self._device.get(self._decode(words).astype(np.float32, copy=False))

    def write_last_column(self, values: NDArray[np.float32] | np.float32) -> None:
        """Write the last column, rounded as in :meth:`write`."""
        with self._device.here():
            column = self._device.put(np.ascontiguousarray(np.broadcast_to(values, self.shape[:1])))
            self._array[: self.shape[0], self.shape[1] - 1] = self._encode(column)

    def rotate(self, basis: NDArray[np.float32]) -> None:
        """Multiply the table by an orthogonal matrix, shape (d, d), in place."""
        with self._device.here():
            rotation, step = self._device.put(basis), tuning().device_chunk_rows
            for first in range(0, self.shape[0], step):
                rows = self.read(first, min(first + step, self.shape[0]))
                self.write(first, self._device.xp.matmul(rows, rotation))

    def statistics(self, ridge: Callable[[int, int], NDArray[np.float64]], precise: bool = False) -> TableStatistics:
        """Return the Gramian and norms, as :meth:`FactorTable.statistics`."""
        device, (height, d) = self._device, self.shape
        with device.here():
            gramian, penalty, largest = device.xp.zeros((d, d), np.float64), 0.0, 0.0
            step = tuning().device_chunk_rows
            for first in range(0, height, step):
                last = min(first + step, height)
                rows = self.rows(slice(first, last), np.float64 if precise else np.float32)
                gramian = gramian + device.xp.matmul(rows.transpose(1, 0), rows)
                lengths = device.get((rows * rows).sum(axis=1, dtype=np.float64))
                penalty += float(ridge(first, last) @ lengths)
                largest = max(largest, float(lengths.max()))
            return TableStatistics(device.get(gramian), penalty, largest)

    def _decode(self, words: Any) -> Any:
        if self._table.dtype != "bfloat16":
            return words.astype(np.float32, copy=False)
        return (words.astype(np.uint32) << 16).view(np.float32)

    def _encode(self, rows: Any) -> Any:
        if self._table.dtype != "bfloat16":
            return rows.astype(self._array.dtype, copy=False)
        words = rows.view(np.uint32)
        rounded = (words + 0x7FFF + ((words >> 16) & 1)) >> 16
        return self._device.xp.where(self._device.xp.isnan(rows), 0x7FC0, rounded).astype(np.uint16)


class DeviceBackend(PartitionBackend):
    """Half steps on a GPU; results agree with the CPU to rounding.

    Parameters
    ----------
    device
        Device to use.
    solver, steps, block
        Settings of :class:`sparrow.models.ALS`.
    """

    def __init__(self, device: Device, solver: Solver, steps: int, block: int) -> None:
        self.solver: Solver = solver
        self._device, self._cg_steps, self._block = device, steps, block
        self._tables: list[DeviceTable] = []

    threads = 1
    """Threads that submit work: several contend for the driver (decision 014)."""

    def activate(self) -> AbstractContextManager[Any]:
        """Make the device current for a thread, for the length of a block."""
        return self._device.here()

    def load_tables(self, *tables: FactorTable) -> tuple[Table, ...]:
        """Copy tables to the device.

        Raises
        ------
        TooLargeError
            If they exceed the free memory of the device.
        """
        needed, free = sum(table.raw.nbytes for table in tables), self._device.room()
        problem = (
            f"the factor tables require {needed} bytes of device memory, {free} bytes are free: use "
            "engine='stream', dtype='bfloat16' or fewer factors"
        )
        if needed > tuning().device_table_ratio * free:
            raise TooLargeError(problem)
        try:
            with self.activate():
                self._tables = [DeviceTable(self._device, table) for table in tables]
        except MemoryError as error:
            raise TooLargeError(problem) from error
        return tuple(self._tables)

    def sync_tables(self) -> None:
        """Copy the tables back to those in memory."""
        for table in self._tables:
            table.sync()

    def eigenbasis_solver(
        self, spectrum: NDArray[np.float64], basis: NDArray[np.float32], double: bool
    ) -> PartitionSolver:
        """Return the solver in the eigenbasis, in float32, or float64 if ``double``."""
        return self._partition_solver(spectrum.astype(np.float64 if double else np.float32), basis, self.solver)

    def float64_solver(self, weighted: NDArray[np.float64]) -> PartitionSolver:
        """Return the exact solver in float64, from the weighted Gramian."""
        return self._partition_solver(weighted, np.empty((0, len(weighted)), np.float32), "exact")

    def _partition_solver(self, matrix: NDArray[Any], basis: NDArray[np.float32], solver: Solver) -> PartitionSolver:
        device = self._device
        with self.activate():
            method = least_squares.Solver(solver, device.put(matrix), self._cg_steps, self._block)
            rotation = device.put(basis) if len(basis) and solver != "exact" else None
        task = f"equations of {len(matrix)} factors per row"

        def solve_partition(
            part: RowPartition, fixed: Any, ridge: NDArray[np.float64], factors: Any, losses: NDArray[np.float64]
        ) -> int | None:
            counts = np.diff(part.indptr)
            order = np.argsort(counts, kind="stable")
            order = order[np.searchsorted(counts[order], 1) :]
            if not len(order):
                return None
            counts = counts[order]
            entries = least_squares.RowEntries(
                device.put(part.cols),
                device.put(part.values) if len(part.values) else None,
                fixed.shape[0],
                fixed.rows,
            )
            columns = [device.put(np.ascontiguousarray(a)) for a in (order, part.indptr[order], counts, ridge[order])]

            def solve_batch(first: int, last: int) -> Any:
                at, starts, lengths, weights = (column[first:last] for column in columns)
                before = factors[at] if rotation is None else device.xp.matmul(factors[at], rotation)
                rows = least_squares.RowBatch(starts, lengths, int(counts[last - 1]), weights, before)
                after, error = least_squares.solve_batch(device, entries, rows, method, batch_ratings)
                factors[at] = after.astype(np.float32, copy=False)
                return error

            free = device.room() // 2
            batch_ratings = max(free // (2 * method.room(1, 1)), 1)
            try:
                errors = [
                    error
                    for first, last in least_squares.split_batches(counts, method, batch_ratings, free)
                    for error in map_halving(device, solve_batch, first, last, task)
                ]
            except np.linalg.LinAlgError:
                return part.first
            losses[0] = sum(float(error) for error in errors)
            return None

        return solve_partition
