"""Tables of factors: in memory or in a memory-mapped file, in single or half precision."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import StorageError
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["DTYPES", "FactorTable", "Precision", "Survey", "Table"]

Precision = Literal["float32", "float16", "bfloat16"]
DTYPES = ("float32", "float16", "bfloat16")
_CHUNK = 1 << 12
"""Rows of a table that are read at once: a constant, since sums depend on where they are cut."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a half step needs to know of a table T as a whole."""

    gramian: NDArray[np.float64]
    """T'T, shape (d, d)."""
    penalty: float
    """The sum of squared lengths of rows, each times its regularisation."""
    largest: float
    """The largest squared length of a row."""


class Table(Protocol):
    """What half steps ask of a table: :class:`FactorTable` says what each means.

    Rows that are read and written are arrays of wherever it is.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of factors."""

    def read(self, start: int, stop: int) -> Any:
        """Return rows in float32."""

    def write(self, start: int, rows: Any) -> None:
        """Write rows from ``start``."""

    def last(self) -> NDArray[np.float32]:
        """Return a copy of the last column, in memory."""

    def put_last(self, values: NDArray[np.float32] | np.float32) -> None:
        """Write the last column."""

    def rotate(self, basis: NDArray[np.float32]) -> None:
        """Multiply the table by an orthogonal matrix, in place."""

    def survey(self, ridge: Callable[[int, int], NDArray[np.float64]], precise: bool = False) -> Survey:
        """Return T'T and what belongs to it."""


def _mapped(path: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return zeros in a new file, its whole space on the disk taken."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # a file of that name may be mapped by a model fitted before
        if not shape[0]:  # an empty file cannot be mapped
            np.save(path, np.zeros(shape, dtype))
            return np.zeros(shape, dtype)
        out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        if hasattr(os, "posix_fallocate"):  # else a full disk shows as a crash later
            with open(path, "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise StorageError(f"cannot map a table to {os.fspath(path)!r}: {error.strerror or error}") from error
    return out


class FactorTable:
    """A matrix of factors, shape (rows, d).

    Parameters
    ----------
    rows, factors
        Its shape.
    dtype
        How it is kept: ``"float32"``, ``"float16"`` or ``"bfloat16"``. It is always computed with in float32.
    path
        A file to keep it in, memory-mapped, in NumPy's format; bfloat16 as the 16-bit words that it consists of.
        None keeps it in memory.

    Raises
    ------
    StorageError
        If the file cannot be made.
    """

    def __init__(self, rows: int, factors: int, dtype: Precision, path: str | os.PathLike[str] | None = None) -> None:
        from sparrow.kernels.ml import factors as loops

        self.dtype = dtype
        self.kind = {"float32": loops.FLOAT32, "float16": loops.FLOAT16, "bfloat16": loops.BFLOAT16}[dtype]
        kept = np.dtype({"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}[dtype])
        self._array: NDArray[Any]
        if path is None:
            self._array = np.zeros((rows, factors), kept)
        else:
            self._array = _mapped(Path(path), (rows, factors), kept)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of factors."""
        return self._array.shape

    @property
    def stored(self) -> NDArray[Any]:
        """The numbers as they are kept: bfloat16 as 16-bit words."""
        return self._array

    def to_numpy(self) -> NDArray[Any]:
        """Return the table as floats: without a copy, but for bfloat16, which comes as float32."""
        return self.read(0, self.shape[0]) if self.dtype == "bfloat16" else self._array

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Return some rows, given as a slice or by their numbers, as floats; bfloat16 as float32."""
        found: NDArray[Any] = self._array[rows].view(np.ndarray)
        return (found.astype(np.uint32) << 16).view(np.float32) if self.dtype == "bfloat16" else found

    def operands(self) -> tuple[NDArray[np.float32], NDArray[np.uint16], int]:
        """Return the table as the kernels take it: floats or nothing, words or nothing, which of both."""
        from sparrow.kernels.jit.warmup import as_readonly

        plain = self._array.view(np.ndarray)
        if self.dtype == "float32":
            return as_readonly(plain), as_readonly(np.empty((0, self.shape[1]), np.uint16)), self.kind
        return as_readonly(np.empty((0, self.shape[1]), np.float32)), as_readonly(plain.view(np.uint16)), self.kind

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return rows in float32: in single precision the table's own memory, else a copy."""
        rows = self._array[start:stop].view(np.ndarray)
        if self.dtype == "float32":
            return rows
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import factors as loops

        out = np.empty(rows.shape, np.float32)
        loops.decode(as_readonly(rows.reshape(-1).view(np.uint16)), self.kind, out.reshape(-1))
        return out

    def write(self, start: int, rows: NDArray[np.float32]) -> None:
        """Write rows from ``start``, rounded to nearest; what is too large for float16 becomes infinite.

        Rows that :meth:`read` gave of single precision are in the table already.
        """
        target = self._array[start : start + len(rows)].view(np.ndarray)
        if self.dtype == "bfloat16":
            from sparrow.kernels.jit.warmup import as_readonly
            from sparrow.kernels.ml import factors as loops

            loops.encode(as_readonly(rows.reshape(-1).view(np.uint32)), target.reshape(-1))
        elif not np.may_share_memory(target, rows):
            with np.errstate(over="ignore"):
                target[:] = rows

    def last(self) -> NDArray[np.float32]:
        """Return a copy of the last column."""
        words = np.ascontiguousarray(self._array[:, -1])
        return (
            (words.astype(np.uint32) << 16).view(np.float32) if self.dtype == "bfloat16" else words.astype(np.float32)
        )

    def put_last(self, values: NDArray[np.float32] | np.float32) -> None:
        """Write the last column, rounded as :meth:`write` does."""
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import factors as loops

        if self.dtype == "bfloat16":
            single = np.ascontiguousarray(np.broadcast_to(values, self.shape[:1]))
            words = np.empty(len(single), np.uint16)
            loops.encode(as_readonly(single.view(np.uint32)), words)
            self._array[:, -1] = words
        else:
            with np.errstate(over="ignore"):
                self._array[:, -1] = values

    def start(self, seed: tuple[int, int], init: str, filled: NDArray[np.bool_]) -> None:
        """Fill the rows with links with random numbers and the others with zeros.

        ``"uniform"`` draws from [0, 0.01), ``"normal"`` from a centred normal distribution of standard deviation
        0.1 / sqrt(d).
        """
        rng = np.random.default_rng(seed)
        d = self.shape[1]
        for first in range(0, self.shape[0], _CHUNK):
            shape = (min(_CHUNK, self.shape[0] - first), d)
            if init == "uniform":
                drawn = rng.random(shape, np.float32) * np.float32(0.01)
            else:
                drawn = rng.standard_normal(shape, np.float32) * np.float32(0.1 / np.sqrt(d))
            self.write(first, drawn * filled[first : first + _CHUNK, None])

    def rotate(self, basis: NDArray[np.float32]) -> None:
        """Multiply the table by an orthogonal matrix, shape (d, d), in place."""
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import factors as loops
        from sparrow.kernels.ml.blas import address

        table, turn, gemm = self.operands(), as_readonly(basis), address("sgemm")

        def turned(first: int) -> None:
            last = min(first + _CHUNK, self.shape[0])
            rows = self.read(first, last)  # of single precision: where the product goes
            loops.rotate(table, first, last, turn, gemm, rows)
            self.write(first, rows)

        for _ in ordered_map(turned, range(0, self.shape[0], _CHUNK), settings.current().threads):
            pass

    def survey(self, ridge: Callable[[int, int], NDArray[np.float64]], precise: bool = False) -> Survey:
        """Return T'T and what belongs to it: multiplied in float32, or ``precise`` in float64; added in float64.

        Parameters
        ----------
        ridge
            Gives the regularisation of the rows between two.
        """
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import factors as loops
        from sparrow.kernels.ml.blas import address

        (height, d), table = self.shape, self.operands()
        syrk = address("dsyrk" if precise else "ssyrk")

        def chunk(first: int) -> tuple[NDArray[Any], float, float]:
            last = min(first + _CHUNK, height)
            product = np.zeros((d, d), np.float64 if precise else np.float32)
            return product, *loops.survey(table, first, last, as_readonly(ridge(first, last)), syrk, product)

        upper, penalty, largest = np.zeros((d, d)), 0.0, 0.0
        for product, weighted, length in ordered_map(chunk, range(0, height, _CHUNK), settings.current().threads):
            upper += product
            penalty += weighted
            largest = max(largest, length)
        return Survey(np.triu(upper) + np.triu(upper, 1).T, penalty, largest)
