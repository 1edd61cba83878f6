"""Half steps on a GPU: tables that stay there, and rows solved in batches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.cupy import solves
from sparrow.engines.cupy.device import Device
from sparrow.engines.cupy.tiles import halved
from sparrow.errors import TooLargeError
from sparrow.models.als_data import Part
from sparrow.models.solvers import Solver, Work
from sparrow.models.tables import FactorTable, Survey, Table
from sparrow.runtime import settings

__all__ = ["DeviceTable", "OnDevice"]

_CHUNK = 1 << 16
"""Rows of a table that are turned or multiplied at once."""


class DeviceTable:
    """A table of factors on a device, kept as the one in memory is, with a row of zeros at its end.

    Parameters
    ----------
    device
        Where it goes.
    table
        What it is a copy of.
    """

    def __init__(self, device: Device, table: FactorTable) -> None:
        self._device, self._table = device, table
        rows, d = self.shape = table.shape
        self._array = device.xp.zeros((rows + 1, d), table.stored.dtype)
        for first in range(0, rows, _CHUNK):
            chunk = np.ascontiguousarray(table.stored[first : first + _CHUNK])
            self._array[first : first + len(chunk)] = device.put(chunk.view(np.ndarray))

    def bring(self) -> None:
        """Copy it to the one in memory."""
        with self._device.here():
            for first in range(0, self.shape[0], _CHUNK):
                last = min(first + _CHUNK, self.shape[0])
                self._table.stored[first:last] = self._device.get(self._array[first:last])

    def rows(self, at: Any, dtype: Any) -> Any:
        """Return rows, given by an array of their numbers or a slice, as floats."""
        return self._decoded(self._array[at]).astype(dtype, copy=False)

    def read(self, start: int, stop: int) -> Any:
        """Return rows in float32: in single precision the table's own memory, else a copy."""
        return self.rows(slice(start, stop), np.float32)

    def write(self, start: int, rows: Any) -> None:
        """Write rows in float32 from ``start``, rounded to nearest."""
        self._array[start : start + rows.shape[0]] = self._encoded(rows)

    def last(self) -> NDArray[np.float32]:
        """Return a copy of the last column, in memory."""
        with self._device.here():
            words = self._array[: self.shape[0], self.shape[1] - 1 :].reshape(-1)
            return self._device.get(self._decoded(words).astype(np.float32, copy=False))

    def put_last(self, values: NDArray[np.float32] | np.float32) -> None:
        """Write the last column, rounded as :meth:`write` does."""
        with self._device.here():
            column = self._device.put(np.ascontiguousarray(np.broadcast_to(values, self.shape[:1])))
            self._array[: self.shape[0], self.shape[1] - 1] = self._encoded(column)

    def rotate(self, basis: NDArray[np.float32]) -> None:
        """Multiply the table by an orthogonal matrix, shape (d, d), in place."""
        with self._device.here():
            turn = self._device.put(basis)
            for first in range(0, self.shape[0], _CHUNK):
                rows = self.read(first, min(first + _CHUNK, self.shape[0]))
                self.write(first, self._device.xp.matmul(rows, turn))

    def survey(self, ridge: Callable[[int, int], NDArray[np.float64]], precise: bool = False) -> Survey:
        """Return T'T and what belongs to it: multiplied in float32, or ``precise`` in float64; added in float64."""
        device, (height, d) = self._device, self.shape
        with device.here():
            gramian, penalty, largest = device.xp.zeros((d, d), np.float64), 0.0, 0.0
            for first in range(0, height, _CHUNK):
                last = min(first + _CHUNK, height)
                rows = self.rows(slice(first, last), np.float64 if precise else np.float32)
                gramian = gramian + device.xp.matmul(rows.transpose(1, 0), rows)
                lengths = device.get((rows * rows).sum(axis=1, dtype=np.float64))
                penalty += float(ridge(first, last) @ lengths)
                largest = max(largest, float(lengths.max()))
            return Survey(device.get(gramian), penalty, largest)

    def _decoded(self, words: Any) -> Any:
        if self._table.dtype != "bfloat16":
            return words.astype(np.float32, copy=False)
        return (words.astype(np.uint32) << 16).view(np.float32)

    def _encoded(self, rows: Any) -> Any:
        if self._table.dtype != "bfloat16":
            return rows.astype(self._array.dtype, copy=False)
        words = rows.view(np.uint32)
        rounded = (words + 0x7FFF + ((words >> 16) & 1)) >> 16
        return self._device.xp.where(self._device.xp.isnan(rows), 0x7FC0, rounded).astype(np.uint16)


class OnDevice:
    """What solves half steps on a device; as :class:`sparrow.models.solvers.Processor`, to rounding.

    Parameters
    ----------
    device
        What computes.
    solver, steps, block
        The settings of :class:`sparrow.models.ALS`.
    """

    def __init__(self, device: Device, solver: Solver, steps: int, block: int) -> None:
        self.solver: Solver = solver
        self._device, self._steps, self._block = device, steps, block
        self._taken: list[DeviceTable] = []

    def here(self) -> AbstractContextManager[Any]:
        """Return what a thread enters to compute there."""
        return self._device.here()

    def take(self, *tables: FactorTable) -> tuple[Table, ...]:
        """Return tables that stand for those in memory.

        Raises
        ------
        TooLargeError
            If the device has no room for them.
        """
        needed, room = sum(table.stored.nbytes for table in tables), self._device.room()
        problem = (
            f"both tables of factors take {needed} bytes, and the device has {room} bytes of memory free: use "
            "engine='stream', dtype='bfloat16' or fewer factors"
        )
        if needed > 0.9 * room:
            raise TooLargeError(problem)
        try:
            with self.here():
                self._taken = [DeviceTable(self._device, table) for table in tables]
        except MemoryError as error:
            raise TooLargeError(problem) from error
        return tuple(self._taken)

    def bring(self) -> None:
        """Copy the tables to those in memory."""
        for table in self._taken:
            table.bring()

    def single(self, spectrum: NDArray[np.float64], basis: NDArray[np.float32], double: bool) -> Work:
        """Return the work of the solver in the eigenbasis: in float32, or where ``double`` in float64."""
        return self._work(spectrum.astype(np.float64 if double else np.float32), basis, self.solver)

    def double(self, weighted: NDArray[np.float64]) -> Work:
        """Return the work of the exact solver in float64, from the weighted Gramian."""
        return self._work(weighted, np.empty((0, len(weighted)), np.float32), "exact")

    def _work(self, matrix: NDArray[Any], basis: NDArray[np.float32], solver: Solver) -> Work:
        device, threads = self._device, settings.current().threads
        with self.here():
            method = solves.Method(solver, device.put(matrix), self._steps, self._block)
            turn = device.put(basis) if len(basis) and solver != "exact" else None
        what = f"the equations of rows of {len(matrix)} factors"

        def work(
            part: Part, fixed: Any, ridge: NDArray[np.float64], factors: Any, losses: NDArray[np.float64]
        ) -> int | None:
            counts = np.diff(part.indptr)
            order = np.argsort(counts, kind="stable")
            order = order[np.searchsorted(counts[order], 1) :]
            if not len(order):
                return None
            counts = counts[order]
            links = solves.Links(
                device.put(part.cols),
                device.put(part.values) if len(part.values) else None,
                fixed.shape[0],
                fixed.rows,
            )
            columns = [device.put(np.ascontiguousarray(a)) for a in (order, part.indptr[order], counts, ridge[order])]

            def one(first: int, last: int) -> Any:
                at, starts, lengths, weights = (column[first:last] for column in columns)
                before = factors[at] if turn is None else device.xp.matmul(factors[at], turn)
                rows = solves.Rows(starts, lengths, int(counts[last - 1]), weights, before)
                after, error = solves.solved(device, links, rows, method, piece)
                factors[at] = after.astype(np.float32, copy=False)
                return error

            room = device.room() // (2 * threads)
            piece = max(room // (2 * method.room(1, 1)), 1)
            try:
                errors = [
                    error
                    for first, last in solves.batches(counts, method, piece, room)
                    for error in halved(device, one, first, last, what)
                ]
            except np.linalg.LinAlgError:
                return part.first
            losses[0] = sum(float(error) for error in errors)
            return None

        return work
