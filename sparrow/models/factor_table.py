"""Factor tables in memory or memory-mapped, in single or half precision."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import StorageError
from sparrow.models.tree_sum import TreeSum
from sparrow.models.tuning import tuning
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "DTYPES", "RAW_DTYPES", "FactorTable", "Precision", "Table", "TableStatistics", "TableSums", "total_statistics",
]  # fmt: skip

Precision = Literal["float32", "float16", "bfloat16"]
DTYPES = ("float32", "float16", "bfloat16")
RAW_DTYPES: dict[Precision, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
}
"""Types of the arrays that store tables."""


@dataclass(frozen=True, slots=True)
class TableSums:
    """Sums over rows of a table."""

    upper: NDArray[np.float64]
    """Gramian, shape (d, d), of which the upper triangle is defined."""
    penalty: float
    largest: float

    def __add__(self, other: TableSums) -> TableSums:
        penalty, largest = self.penalty + other.penalty, max(self.largest, other.largest)
        return TableSums(self.upper + other.upper, penalty, largest)

    def statistics(self) -> TableStatistics:
        """Return the statistics of the table."""
        return TableStatistics(np.triu(self.upper) + np.triu(self.upper, 1).T, self.penalty, self.largest)


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Statistics of a table T that a half step needs."""

    gramian: NDArray[np.float64]
    """T'T, shape (d, d)."""
    penalty: float
    """Sum over rows of the ridge penalty times the squared norm."""
    largest: float
    """Largest squared norm of a row."""


def total_statistics(sums: TreeSum[TableSums], factors: int) -> TableStatistics:
    """Return the statistics of a table from the sums over its chunks."""
    return (sums.total() or TableSums(np.zeros((factors, factors)), 0.0, 0.0)).statistics()


class Table(Protocol):
    """Factor table wherever it is; :class:`FactorTable` documents the methods."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and factors."""

    def read_last_column(self) -> NDArray[np.float32]:
        """Return a copy of the last column, in memory."""

    def write_last_column(self, values: NDArray[np.float32] | np.float32) -> None:
        """Write the last column."""

    def rotate(self, basis: NDArray[np.float32]) -> None:
        """Multiply the table by an orthogonal matrix, in place."""

    def statistics(self, ridge: Callable[[int, int], NDArray[np.float64]], precise: bool = False) -> TableStatistics:
        """Return the Gramian and norms."""


def _create_memory_map(path: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return zeros in a new file whose disk space is allocated."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # an earlier model may map a file of that name
        if not shape[0]:  # an empty file cannot be mapped
            np.save(path, np.zeros(shape, dtype))
            return np.zeros(shape, dtype)
        out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        if hasattr(os, "posix_fallocate"):  # without it, writing to a full disk later crashes the process
            with open(path, "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise StorageError(f"cannot memory-map {os.fspath(path)!r}: {error.strerror or error}") from error
    return out


class FactorTable:
    """Table of factors, shape (rows, d).

    Parameters
    ----------
    rows, factors
        Shape.
    dtype
        Storage type: ``"float32"``, ``"float16"`` or ``"bfloat16"``. Computations use float32.
    path
        File to memory-map, in NumPy's format; bfloat16 as 16-bit words. None keeps the table in memory.

    Raises
    ------
    StorageError
        If the file cannot be created.
    """

    def __init__(self, rows: int, factors: int, dtype: Precision, path: str | os.PathLike[str] | None = None) -> None:
        from sparrow.kernels.ml import factors as loops

        self.dtype = dtype
        self.kind = {"float32": loops.FLOAT32, "float16": loops.FLOAT16, "bfloat16": loops.BFLOAT16}[dtype]
        self.chunk_bounds: NDArray[np.int64] | None = None
        """Bounds of the rows that are rotated and summed at once; None for chunks of equal sizes."""
        self._array: NDArray[Any]
        if path is None:
            self._array = np.zeros((rows, factors), RAW_DTYPES[dtype])
        else:
            self._array = _create_memory_map(Path(path), (rows, factors), RAW_DTYPES[dtype])

    @classmethod
    def of_array(cls, raw: NDArray[Any], dtype: Precision) -> FactorTable:
        """Return the table of an array, bfloat16 as 16-bit words, without a copy."""
        found = cls(0, raw.shape[1], dtype)
        found._array = raw
        return found

    def rows(self, start: int, stop: int) -> FactorTable:
        """Return the table of a range of rows, which shares their memory."""
        return FactorTable.of_array(self._array[start:stop], self.dtype)

    def _chunks(self) -> Iterator[tuple[int, int]]:
        height, step = self.shape[0], tuning().table_chunk_rows
        bounds = [*range(0, height, step), height] if self.chunk_bounds is None else self.chunk_bounds.tolist()
        return itertools.pairwise(bounds)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and factors."""
        return self._array.shape

    @property
    def raw(self) -> NDArray[Any]:
        """Underlying array: bfloat16 as 16-bit words."""
        return self._array

    def to_numpy(self) -> NDArray[Any]:
        """Return the table as floats, without a copy; bfloat16 is copied to float32."""
        return self.read(0, self.shape[0]) if self.dtype == "bfloat16" else self._array

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Return rows, selected by a slice or positions, as floats; bfloat16 as float32."""
        result: NDArray[Any] = self._array[rows].view(np.ndarray)
        return (result.astype(np.uint32) << 16).view(np.float32) if self.dtype == "bfloat16" else result

    def kernel_arguments(self) -> tuple[NDArray[np.float32], NDArray[np.uint16], int]:
        """Return the table for kernels: float32 data, 16-bit data (one is empty), kind."""
        from sparrow.kernels.jit.warmup import as_readonly

        plain = self._array.view(np.ndarray)
        if self.dtype == "float32":
            return as_readonly(plain), as_readonly(np.empty((0, self.shape[1]), np.uint16)), self.kind
        return as_readonly(np.empty((0, self.shape[1]), np.float32)), as_readonly(plain.view(np.uint16)), self.kind

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return rows in float32: a view of a float32 table, else a copy."""
        rows = self._array[start:stop].view(np.ndarray)
        if self.dtype == "float32":
            return rows
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import factors as loops

        out = np.empty(rows.shape, np.float32)
        loops.decode(as_readonly(rows.reshape(-1).view(np.uint16)), self.kind, out.reshape(-1))
        return out

    def write(self, start: int, rows: NDArray[np.float32]) -> None:
        """Write rows from ``start``, rounded to nearest; float16 overflows to infinity.

        A view that :meth:`read` returned needs no copy.
        """
        target = self._array[start : start + len(rows)].view(np.ndarray)
        if self.dtype == "bfloat16":
            from sparrow.kernels.jit.warmup import as_readonly
            from sparrow.kernels.ml import factors as loops

            loops.encode(as_readonly(rows.reshape(-1).view(np.uint32)), target.reshape(-1))
        elif not np.may_share_memory(target, rows):
            with np.errstate(over="ignore"):
                target[:] = rows

    def assign(self, rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]) -> None:
        """Write single factors, rounded as in :meth:`write`."""
        if self.dtype == "bfloat16":
            from sparrow.kernels.jit.warmup import as_readonly
            from sparrow.kernels.ml import factors as loops

            words = np.empty(len(values), np.uint16)
            loops.encode(as_readonly(np.ascontiguousarray(values, np.float32).view(np.uint32)), words)
            self._array[rows, columns] = words
        else:
            self._array[rows, columns] = values

    def read_last_column(self) -> NDArray[np.float32]:
        """Return a copy of the last column."""
        words = np.ascontiguousarray(self._array[:, -1])
        return (
            (words.astype(np.uint32) << 16).view(np.float32) if self.dtype == "bfloat16" else words.astype(np.float32)
        )

    def write_last_column(self, values: NDArray[np.float32] | np.float32) -> None:
        """Write the last column, rounded as in :meth:`write`."""
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import factors as loops

        if self.dtype == "bfloat16":
            column = np.ascontiguousarray(np.broadcast_to(values, self.shape[:1]))
            words = np.empty(len(column), np.uint16)
            loops.encode(as_readonly(column.view(np.uint32)), words)
            self._array[:, -1] = words
        else:
            with np.errstate(over="ignore"):
                self._array[:, -1] = values

    def initialize(self, seed: tuple[int, int], init: str, filled: NDArray[np.bool_]) -> None:
        """Fill rows that have ratings with random numbers and the others with zeros.

        ``"uniform"`` draws from [0, 0.01), ``"normal"`` from a normal distribution with mean 0 and standard deviation
        0.1 / sqrt(d).
        """
        rng = np.random.default_rng(seed)
        d = self.shape[1]
        step = tuning().table_chunk_rows
        for first in range(0, self.shape[0], step):
            shape = (min(step, self.shape[0] - first), d)
            if init == "uniform":
                drawn = rng.random(shape, np.float32) * np.float32(0.01)
            else:
                drawn = rng.standard_normal(shape, np.float32) * np.float32(0.1 / np.sqrt(d))
            self.write(first, drawn * filled[first : first + step, None])

    def rotate(self, basis: NDArray[np.float32]) -> None:
        """Multiply the table by an orthogonal matrix, shape (d, d), in place."""
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import factors as loops
        from sparrow.kernels.ml.blas import address

        table, rotation, gemm = self.kernel_arguments(), as_readonly(basis), address("sgemm")

        def rotate_chunk(bounds: tuple[int, int]) -> None:
            rows = self.read(*bounds)  # of a float32 table a view, which receives the product
            loops.rotate(table, *bounds, rotation, gemm, rows)
            self.write(bounds[0], rows)

        for _ in ordered_map(rotate_chunk, self._chunks(), settings.current().threads):
            pass

    def statistics(self, ridge: Callable[[int, int], NDArray[np.float64]], precise: bool = False) -> TableStatistics:
        """Return the Gramian and norms.

        Parameters
        ----------
        ridge
            Function of (start, stop) that returns the ridge penalty of these rows.
        precise
            Multiply in float64 instead of float32; sums are in float64 in any case.
        """
        sums = TreeSum[TableSums]()
        self.add_chunks(sums, 0, ridge, precise)
        return total_statistics(sums, self.shape[1])

    def add_chunks(
        self,
        sums: TreeSum[TableSums],
        number: int,
        ridge: Callable[[int, int], NDArray[np.float64]],
        precise: bool = False,
    ) -> None:
        """Add sums over each chunk, numbered from ``number``.

        See :meth:`statistics`.
        """
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import factors as loops
        from sparrow.kernels.ml.blas import address

        d, table = self.shape[1], self.kernel_arguments()
        syrk = address("dsyrk" if precise else "ssyrk")

        def measure_chunk(bounds: tuple[int, int]) -> TableSums:
            product = np.zeros((d, d), np.float64 if precise else np.float32)
            penalty, largest = loops.survey(table, *bounds, as_readonly(ridge(*bounds)), syrk, product)
            return TableSums(product.astype(np.float64, copy=False), penalty, largest)

        for at, found in enumerate(ordered_map(measure_chunk, self._chunks(), settings.current().threads), number):
            sums.add(at, found)
