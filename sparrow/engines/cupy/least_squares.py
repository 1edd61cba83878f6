"""Regularized least squares of many sparse rows at once, on a device.

For a row with elements of value y at rows h of a table, the factors w solve ``(sum of h h' + M + ridge I) w = sum of
y h``. Rows of similar length make a batch: their rows of the table are gathered, and products and solutions are those
of stacked matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.cupy.device import Device
from sparrow.engines.cupy.tuning import tuning

__all__ = ["RowBatch", "RowEntries", "Solver", "solve_batch", "split_batches"]


@dataclass(frozen=True, slots=True)
class RowEntries:
    """Elements of sparse rows on a device, and the table their columns index."""

    columns: Any
    """Shape (n,), integers."""
    values: Any
    """Shape (n,), or None if all are 1."""
    last: int
    """Index of a row of zeros in the table."""
    table: Callable[[Any, Any], Any]
    """Returns rows of the table, given an array of indices and a dtype."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows of a batch on a device, each with at least one element."""

    starts: Any
    """Start of each row, shape (rows,)."""
    counts: Any
    """Length of each row, shape (rows,)."""
    longest: int
    """Length of the longest row."""
    ridge: Any
    """Ridge of each row, shape (rows,)."""
    factors: Any
    """Start of an iterative method, shape (rows, d)."""


@dataclass(frozen=True, slots=True)
class Solver:
    """Method that solves the normal equations."""

    name: Literal["cg", "exact", "subspace"]
    matrix: Any
    """M, shape (d, d), or its diagonal, shape (d,), on the device, in the dtype of the computation."""
    steps: int = 0
    """Iterations of "cg"."""
    block: int = 1
    """Block size of "subspace"."""

    def forms(self, longest: int) -> bool:
        """Return whether rows of a length form d x d matrices."""
        d = int(self.matrix.shape[0])
        return self.name == "subspace" or self.matrix.ndim > 1 or longest >= d

    def room(self, longest: int, piece: int) -> int:
        """Return the estimated bytes of a row, gathered ``piece`` elements at a time."""
        d, links = int(self.matrix.shape[0]), min(longest, piece)
        side = d if self.forms(longest) or longest > piece else links
        return int(self.matrix.dtype.itemsize) * (3 * links * d + 3 * side * side + 12 * d) + 40 * links


def split_batches(counts: NDArray[np.int64], method: Solver, piece: int, room: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of batches of rows sorted by length."""
    limits, first = tuning(), 0
    while first < len(counts):
        longest = counts[first] * limits.batch_length_ratio + limits.batch_length_slack
        last = int(np.searchsorted(counts, longest, side="right"))
        last = min(last, first + max(room // method.room(int(counts[last - 1]), piece), 1))
        yield first, last
        first = last


def solve_batch(device: Device, links: RowEntries, rows: RowBatch, method: Solver, piece: int) -> tuple[Any, Any]:
    """Return the factors, shape (rows, d), and the sum of squared errors.

    Parameters
    ----------
    piece
        Most elements of a row that are gathered together.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is not positive definite.
    """
    xp, matrix = device.xp, method.matrix
    dtype = matrix.dtype
    held = [_gather_rows(device, links, rows, 0, rows.longest, dtype)] if rows.longest <= piece else None

    def pieces() -> Iterable[tuple[Any, Any]]:
        starts = range(0, rows.longest, piece)
        return held or (_gather_rows(device, links, rows, at, min(piece, rows.longest - at), dtype) for at in starts)

    ridge, before = (given.astype(dtype, copy=False) for given in (rows.ridge, rows.factors))
    if held is not None and not method.forms(rows.longest):
        ((table_rows, values),) = held
        diagonal = ridge[:, None] + matrix
        if method.name == "cg":

            def apply(x: Any) -> Any:
                return _vecmat(xp, _matvec(xp, table_rows, x), table_rows) + diagonal * x

            after = _conjugate_gradient(xp, apply, before, _vecmat(xp, values, table_rows), method.steps)
        else:
            after = _solve_short_rows(device, table_rows, values, diagonal)
    else:
        left, right = _form_equations(xp, pieces())
        size, d = right.shape
        if matrix.ndim > 1:
            left = left + matrix
            matrix = xp.zeros(d, dtype)
        across = left.reshape(size, d * d)[:, :: d + 1]
        across[...] = across + (ridge[:, None] + matrix)
        if method.name == "exact":
            after = device.solve(left, right)
        elif method.name == "cg":
            after = _conjugate_gradient(xp, lambda x: _matvec(xp, left, x), before, right, method.steps)
        else:
            after = _block_descent(device, left, right, before, method.block)
    error = xp.zeros((), np.float64)
    for table_rows, values in pieces():
        gap = values - _matvec(xp, table_rows, after)
        error = error + (gap * gap).sum(dtype=np.float64)
    return after, error


def _gather_rows(
    device: Device, links: RowEntries, rows: RowBatch, first: int, count: int, dtype: Any
) -> tuple[Any, Any]:
    """Return gathered table rows, shape (rows, count, d), and their values.

    Both are 0 past the end of a shorter row.
    """
    xp = device.xp
    place = xp.arange(first, first + count, dtype=np.int64)
    there = place < rows.counts[:, None]
    at = xp.where(there, rows.starts[:, None] + place, 0)
    table_rows = links.table(xp.where(there, links.columns[at], links.last), dtype)
    return table_rows, there.astype(dtype) if links.values is None else xp.where(there, links.values[at], 0).astype(
        dtype
    )


def _matvec(xp: Any, matrices: Any, vectors: Any) -> Any:
    """Return each matrix times its vector."""
    return xp.matmul(matrices, vectors[:, :, None])[:, :, 0]


def _vecmat(xp: Any, vectors: Any, matrices: Any) -> Any:
    """Return each vector times its matrix."""
    return xp.matmul(vectors[:, None, :], matrices)[:, 0, :]


def _form_equations(xp: Any, pieces: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return the sums of h h' and of y h of each row."""
    left = right = None
    for table_rows, values in pieces:
        one, other = xp.matmul(table_rows.transpose(0, 2, 1), table_rows), _vecmat(xp, values, table_rows)
        left, right = (one, other) if left is None else (left + one, right + other)
    return left, right


def _solve_short_rows(device: Device, table_rows: Any, values: Any, diagonal: Any) -> Any:
    """Solve short rows with diagonal M by the Woodbury identity."""
    xp = device.xp
    root = 1 / xp.sqrt(diagonal)
    table_rows = table_rows * root[:, None, :]
    left = xp.matmul(table_rows, table_rows.transpose(0, 2, 1))
    size, n = values.shape
    across = left.reshape(size, n * n)[:, :: n + 1]
    across[...] = across + 1
    return root * _vecmat(xp, device.solve(left, values), table_rows)


def _conjugate_gradient(xp: Any, apply: Callable[[Any], Any], x: Any, right: Any, steps: int) -> Any:
    """Return ``x`` after some steps of conjugate gradients; rows stop on convergence."""
    residual = right - apply(x)
    along = residual
    energy = (residual * residual).sum(axis=1)
    smallest = np.finfo(np.float32).tiny  # quotients of smaller squared norms are meaningless
    enough = xp.maximum(energy * 1e-13, smallest)
    for _ in range(steps):
        away = apply(along)
        curvature = (away * along).sum(axis=1)
        done = (energy < enough) | (curvature == 0)
        length = xp.where(done, 0, energy / curvature)[:, None]
        x = x + xp.where(done[:, None], 0, length * along)
        residual = residual - xp.where(done[:, None], 0, length * away)
        left = (residual * residual).sum(axis=1)
        along = residual + xp.where(done, 0, left / energy)[:, None] * along
        energy = left
    return x


def _block_descent(device: Device, left: Any, right: Any, x: Any, block: int) -> Any:
    """Return ``x`` after solving for blocks of coordinates in turn."""
    xp = device.xp
    residual = right - _matvec(xp, left, x)
    moves = []
    for low in range(0, x.shape[1], block):
        part = slice(low, low + block)
        moved = device.solve(left[:, part, part], residual[:, part])
        residual = residual - _matvec(xp, left[:, :, part], moved)
        moves.append(moved)
    return x + xp.concatenate(moves, axis=1)
