"""Exact top-k items by inner product or cosine, in blocks of bounded memory.

A block of rows times a block of items is one matrix product that stays in the processor's cache;
:mod:`sparrow.kernels.ml.topk` extracts the scores above the k-th best so far. Threads process blocks of rows in
parallel, each product on one thread. Blocks depend on the sizes alone, so results do not depend on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.schema import Schema
from sparrow.errors import InvalidValueError, ShapeError, TooLargeError
from sparrow.kernels.coo import Block, row_pointers
from sparrow.models.blas_threads import single_threaded_blas
from sparrow.models.ratings import check_matrix
from sparrow.models.tuning import tuning
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import events, memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.tensor import Tensor
from sparrow.tensor.base import read_labels

__all__ = [
    "ColumnSlice", "Directions", "Factors", "Pattern", "block_rows", "can_cache", "iter_patterns", "iter_top_k",
    "load_pattern", "pattern_schema", "to_pattern", "top_k", "unit_vectors",
]  # fmt: skip


class Factors(Protocol):
    """Factor table: an array, or an object that is read like one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and factors."""

    def __getitem__(self, rows: Any, /) -> Any:
        """Return rows, selected by a slice or positions, as an array of floats."""


@dataclass(frozen=True, slots=True)
class ColumnSlice:
    """Slice of the columns of a factor table."""

    table: Factors
    columns: slice

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and factors."""
        rows, width = self.table.shape
        return rows, len(range(width)[self.columns])

    def __getitem__(self, rows: Any) -> Any:
        return self.table[rows][:, self.columns]


@dataclass(frozen=True, slots=True)
class Directions:
    """Factor table divided by the norm of each row; inner products are cosines."""

    table: Factors

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and factors."""
        return self.table.shape

    def __getitem__(self, rows: Any) -> Any:
        return unit_vectors(self.table[rows])


@dataclass(frozen=True, slots=True)
class Pattern:
    """Sparsity pattern in CSR form, column indices ascending."""

    indptr: NDArray[np.int64]
    """Shape (rows + 1,)."""
    indices: NDArray[np.int64]
    """Shape (nnz,)."""

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of columns of each row, shape (rows,)."""
        return np.diff(self.indptr)

    def rows(self, start: int, stop: int) -> Pattern:
        """Return the pattern of rows [start, stop)."""
        first, last = self.indptr[start], self.indptr[stop]
        return Pattern(self.indptr[start : stop + 1] - first, self.indices[first:last])

    def take(self, rows: NDArray[np.int64]) -> Pattern:
        """Return the pattern of listed rows."""
        starts, degrees = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(degrees, out=indptr[1:])
        at = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], degrees)
        return Pattern(indptr, self.indices[at])


def can_cache(*counts: int) -> bool:
    """Return whether a model may keep arrays between calls.

    ``counts`` are their numbers of elements, of 8 bytes each.
    """
    return 8 * sum(counts) <= memory.share(tuning().recommend_cache_share)


def to_pattern(tensor: Tensor) -> Pattern:
    """Return the sparsity pattern of a matrix, in memory.

    Raises
    ------
    ShapeError, UnsupportedError
        If it is not a real matrix with fill 0 or NaN.
    TooLargeError
        If it exceeds the memory limit.
    """
    scan = tensor.__sparrow_scan__()
    check_matrix(scan)
    block = engines.evaluate(scan)
    return _pattern(block.coords[0], block.coords[1], 0, tensor.shape[0])


def load_pattern(ratings: Tensor) -> Tensor:
    """Return the pattern of ratings in memory as a tensor, bool, with their labels.

    Raises
    ------
    TooLargeError
        If it exceeds the memory limit.
    """
    scan = ratings.__sparrow_scan__()
    block = engines.evaluate(scan)
    pattern = Block(block.coords, np.ones(block.count, bool))
    return Tensor(MemoryRelation(pattern_schema(scan.schema), pattern, read_labels(scan)))


def pattern_schema(schema: Schema) -> Schema:
    """Return the schema of the pattern of a tensor."""
    return Schema(schema.shape, schema.dims, np.dtype(bool), False)


def iter_patterns(tensor: Tensor, size: int) -> Iterator[Pattern]:
    """Yield the sparsity pattern of a matrix, ``size`` rows at a time, in one read.

    Raises
    ------
    ShapeError, UnsupportedError
        If it is not a real matrix with fill 0 or NaN.
    """
    scan = tensor.__sparrow_scan__()
    check_matrix(scan)
    height = scan.schema.shape[0]
    start = 0
    rows = cols = np.empty(0, np.int64)
    for block in engines.iter_sorted_blocks(scan):
        rows = np.concatenate([rows, block.coords[0]]) if len(rows) else block.coords[0]
        cols = np.concatenate([cols, block.coords[1]]) if len(cols) else block.coords[1]
        while len(rows) and rows[-1] >= start + size:
            cut = int(np.searchsorted(rows, start + size))
            yield _pattern(rows[:cut], cols[:cut], start, size)
            rows, cols, start = rows[cut:], cols[cut:], start + size
    while start < height:
        count = min(size, height - start)
        cut = int(np.searchsorted(rows, start + count))
        yield _pattern(rows[:cut], cols[:cut], start, count)
        rows, cols, start = rows[cut:], cols[cut:], start + count


def _pattern(rows: NDArray[Any], cols: NDArray[Any], start: int, height: int) -> Pattern:
    return Pattern(row_pointers(rows - start, height), cols.astype(np.int64, copy=False))


def block_rows(k: Any, items: int) -> int:
    """Return the number of rows that :func:`iter_top_k` yields at a time.

    Parameters
    ----------
    k
        Number of items per row.
    items
        Number of items.

    Raises
    ------
    InvalidValueError
        If ``k`` is not a positive integer.
    """
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InvalidValueError(f"k must be a positive integer, got {k!r}")
    return max(1, min(tuning().topk_block_rows, tuning().topk_candidates // _capacity(min(int(k), items))))


def _capacity(k: int) -> int:
    return k + max(k, 64)


def iter_top_k(
    rows: Factors, items: Factors, k: int, exclude: Pattern | Tensor | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield the k best items of each row, :func:`block_rows` rows at a time.

    Products are summed in float32 and not rounded further.

    Parameters
    ----------
    rows
        Shape (m, d), any float type.
    items
        Shape (n, d), any float type.
    k
        Number of items per row.
    exclude
        Items to exclude, shape (m, n): the stored elements of a tensor, which is read once, or a pattern.

    Yields
    ------
    ids : ndarray of int64, shape (block, min(k, n))
        By descending score, ties by ascending id. Items with score NaN or -inf do not rank; missing items are -1.
    scores : ndarray of float32, shape (block, min(k, n))
        -inf where the id is -1.

    Raises
    ------
    InvalidValueError
        If ``k`` is not a positive integer.
    ShapeError
        If the numbers of factors differ.
    TooLargeError
        If there are more than 2^32 items.
    """
    from sparrow.kernels.jit.warmup import as_readonly
    from sparrow.kernels.ml import topk

    events.emit("models.top_k")
    height, count = _check_shapes(rows, items, topk.LARGEST)
    size = block_rows(k, count)
    k = min(int(k), count)
    room = _capacity(k)
    step = _block_items(min(size, height), items.shape[1])

    def rank_block(block: tuple[int, Pattern | None]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        start, excluded = block
        with np.errstate(all="ignore"):
            left = _to_float32(rows[start : start + size])
            keys = np.empty((len(left), room), np.uint64)
            counts = np.zeros(len(left), np.int64)
            thresholds = np.full(len(left), -np.inf, np.float32)
            space = np.empty(len(left) * min(step, count), np.float32)
            cursors = None if excluded is None else excluded.indptr[:-1].copy()
            for first in range(0, count, step):
                right = _to_float32(items[first : first + step])
                scores = space[: len(left) * len(right)].reshape(len(left), len(right))
                np.matmul(left, right.T, out=scores)
                events.emit("models.score_block", size=scores.size)
                if excluded is not None:
                    topk.exclude_columns(
                        scores, first, as_readonly(excluded.indptr), as_readonly(excluded.indices), cursors
                    )
                topk.update_candidates(scores, first, k, keys, counts, thresholds)
            topk.sort_candidates(keys, counts)
            return topk.decode(keys[:, :k])

    starts = range(0, height, size)
    blocks: Iterable[tuple[int, Pattern | None]] = ((start, None) for start in starts)
    if isinstance(exclude, Pattern):
        pattern = exclude
        blocks = ((start, pattern.rows(start, min(start + size, height))) for start in starts)
    elif exclude is not None:
        blocks = zip(starts, iter_patterns(exclude, size), strict=True)
    with single_threaded_blas():
        yield from ordered_map(rank_block, blocks, min(settings.current().threads, len(starts)))


def top_k(
    rows: Factors,
    items: Factors,
    k: int,
    exclude: Pattern | Tensor | None = None,
    iterate: Callable[..., Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]] = iter_top_k,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the k best items of all rows, shapes (m, k), as :func:`iter_top_k`.

    Parameters
    ----------
    iterate
        Function that yields them, block by block.

    Raises
    ------
    InvalidValueError, ShapeError
        See :func:`iter_top_k`.
    TooLargeError
        If there are more than 2^32 items, or the result exceeds the memory limit.

    Examples
    --------
    >>> import numpy as np
    >>> items = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> rated = Pattern(np.array([0, 1]), np.array([2]))
    >>> top_k(np.array([[2.0, 1.0]]), items, 3, rated)
    (array([[ 0,  1, -1]]), array([[  2.,   1., -inf]], dtype=float32))
    """
    from sparrow.kernels.ml import topk

    height, count = _check_shapes(rows, items, topk.LARGEST)
    block_rows(k, count)  # validates k
    remedy = "pass fewer rows, or write all to a file with recommend_all(path, k)"
    memory.check(12 * height * k, f"the top {k} items of {height} rows", remedy)
    ids, scores = np.full((height, k), -1), np.full((height, k), -np.inf, np.float32)
    start = 0
    for top, values in iterate(rows, items, k, exclude):
        block = np.s_[start : start + len(top), : top.shape[1]]
        ids[block], scores[block] = top, values
        start += len(top)
    return ids, scores


def _check_shapes(rows: Factors, items: Factors, largest: int) -> tuple[int, int]:
    if len(rows.shape) != 2 or len(items.shape) != 2 or rows.shape[1] != items.shape[1]:
        raise ShapeError(f"factors must have shapes (rows, d) and (items, d), got {rows.shape} and {items.shape}")
    if items.shape[0] > largest:
        raise TooLargeError(f"number of items must be at most 2^32, got {items.shape[0]}: rank parts of them")
    return rows.shape[0], items.shape[0]


def _to_float32(factors: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(factors, dtype=np.float32)


@np.errstate(all="ignore")
def unit_vectors(factors: Any) -> NDArray[np.float32]:
    """Return vectors divided by their norm, NaN for zero vectors."""
    out = np.empty(np.shape(factors), np.float32)
    step = tuning().topk_block_items
    for first in range(0, len(out), step):
        wide = np.asarray(factors[first : first + step], dtype=np.float64)
        out[first : first + step] = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return out


def _block_items(rows: int, factors: int) -> int:
    """Return the number of items scored at once: more for few rows."""
    sizes = tuning()
    by_scores = sizes.topk_block_items * sizes.topk_block_rows // max(rows, 1)
    return max(sizes.topk_block_items, min(by_scores, sizes.topk_block_bytes // (4 * max(factors, 1))))
