"""The best items of rows by inner product of factors, block by block: all scores never stand in memory.

A block of rows times a block of items is one matrix product that stays in a processor's cache; the kernels of
:mod:`sparrow.kernels.ml.topk` take from it what is above the k-th best so far. Threads work on blocks of rows side by
side, each with a product on one thread. The blocks depend on the sizes alone, so the same factors give the same bits
whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.errors import InvalidValueError, ShapeError, TooLargeError
from sparrow.kernels.coo import row_pointers
from sparrow.models.als_data import check_matrix
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import ordered_map

if TYPE_CHECKING:
    from sparrow.tensor import Tensor

__all__ = ["Columns", "Factors", "Pattern", "best", "pattern_of", "patterns_by_block", "ranked", "rows_of_block"]

_ITEMS = 1024
"""Items of a block: with ``_ROWS`` rows, 2 MB of scores."""
_ROWS = 512
_KEYS = 1 << 21
"""Candidates held at a time by a thread, unless one row has more."""


class Factors(Protocol):
    """A table of factors, one row each: an array, in memory or mapped, or what reads like one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and factors."""

    def __getitem__(self, rows: Any, /) -> Any:
        """Return some rows, given as a slice or by their numbers, as an array of floats."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Some columns of a table of factors."""

    table: Factors
    columns: slice

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and factors."""
        rows, width = self.table.shape
        return rows, len(range(width)[self.columns])

    def __getitem__(self, rows: Any) -> Any:
        return self.table[rows][:, self.columns]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The columns of consecutive rows, ascending: ``indices[indptr[r]:indptr[r + 1]]`` are those of row r."""

    indptr: NDArray[np.int64]
    """Shape (rows + 1,)."""
    indices: NDArray[np.int64]
    """Shape (links,)."""

    @property
    def degrees(self) -> NDArray[np.int64]:
        """The number of columns of each row, shape (rows,)."""
        return np.diff(self.indptr)

    def rows(self, start: int, stop: int) -> Pattern:
        """Return those of some rows."""
        first, last = self.indptr[start], self.indptr[stop]
        return Pattern(self.indptr[start : stop + 1] - first, self.indices[first:last])


def pattern_of(tensor: Tensor) -> Pattern:
    """Return the entries of a matrix (rows, columns), without their values.

    Raises
    ------
    ShapeError, UnsupportedError
        If this is no matrix of real numbers and fill 0.
    TooLargeError
        If they would pass the memory limit.
    """
    scan = tensor.__sparrow_scan__()
    check_matrix(scan)
    block = engines.evaluate(scan)
    return _pattern(block.coords[0], block.coords[1], 0, tensor.shape[0])


def patterns_by_block(tensor: Tensor, size: int) -> Iterator[Pattern]:
    """Yield the entries of a matrix as :func:`pattern_of` does, ``size`` rows at a time, reading it once.

    Raises
    ------
    ShapeError, UnsupportedError
        As of :func:`pattern_of`.
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
        here = min(size, height - start)
        cut = int(np.searchsorted(rows, start + here))
        yield _pattern(rows[:cut], cols[:cut], start, here)
        rows, cols, start = rows[cut:], cols[cut:], start + here


def _pattern(rows: NDArray[Any], cols: NDArray[Any], start: int, height: int) -> Pattern:
    return Pattern(row_pointers(rows - start, height), cols.astype(np.int64, copy=False))


def rows_of_block(k: Any, items: int) -> int:
    """Return how many rows :func:`ranked` takes at a time, for each of which k of so many items are wanted.

    Raises
    ------
    InvalidValueError
        If ``k`` is no integer of at least 1.
    """
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InvalidValueError(f"k={k!r}: say how many items, an integer of at least 1")
    return max(1, min(_ROWS, _KEYS // _room(min(int(k), items))))


def _room(k: int) -> int:
    return k + max(k, 64)


def ranked(
    rows: Factors, items: Factors, k: int, exclude: Iterable[Pattern] | None = None, cosine: bool = False
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield the k best items of blocks of rows, in the order of the rows, :func:`rows_of_block` at a time.

    Products are summed in float32, and no scores are rounded further before they are compared.

    Parameters
    ----------
    rows
        Shape (m, d), any float type.
    items
        Shape (n, d), any float type.
    k
        How many.
    exclude
        The items to leave out, for each block of rows in turn.
    cosine
        Score by the cosine of the angle, not by the inner product. Vectors without a direction have no candidates
        and are none.

    Yields
    ------
    ids : ndarray of int64, shape (block, min(k, n))
        By descending score, the smaller id first where scores are equal. Scores of NaN and -inf are no candidates;
        where there are fewer candidates than k, -1.
    scores : ndarray of float32, shape (block, min(k, n))
        -inf where the id is -1.

    Raises
    ------
    InvalidValueError
        If ``k`` is no integer of at least 1.
    ShapeError
        If the factors do not fit together.
    TooLargeError
        If there are more than 2^32 items.
    """
    from threadpoolctl import threadpool_limits

    from sparrow.kernels.jit import warmup
    from sparrow.kernels.jit.warmup import as_readonly
    from sparrow.kernels.ml import topk

    warmup.warn_compiling()
    height, count = _check(rows, items, topk.LARGEST)
    size = rows_of_block(k, count)
    k = min(int(k), count)
    room = _room(k)
    prepared = _directions if cosine else _single

    def work(part: tuple[int, Pattern | None]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        start, excluded = part
        with np.errstate(all="ignore"):
            left = prepared(rows[start : start + size])
            keys = np.empty((len(left), room), np.uint64)
            counts = np.zeros(len(left), np.int64)
            thresholds = np.full(len(left), -np.inf, np.float32)
            space = np.empty(len(left) * min(_ITEMS, count), np.float32)
            cursors = None if excluded is None else excluded.indptr[:-1].copy()
            for first in range(0, count, _ITEMS):
                right = prepared(items[first : first + _ITEMS])
                scores = space[: len(left) * len(right)].reshape(len(left), len(right))
                np.matmul(left, right.T, out=scores)
                if excluded is not None:
                    topk.exclude_columns(
                        scores, first, as_readonly(excluded.indptr), as_readonly(excluded.indices), cursors
                    )
                topk.update_candidates(scores, first, k, keys, counts, thresholds)
            topk.sort_candidates(keys, counts)
            return topk.decode(keys[:, :k])

    starts = range(0, height, size)
    parts = ((start, None) for start in starts) if exclude is None else zip(starts, exclude, strict=True)
    with threadpool_limits(limits=1, user_api="blas"):
        yield from ordered_map(work, parts, min(settings.current().threads, len(starts)))


def best(
    rows: Factors, items: Factors, k: int, exclude: Pattern | None = None, cosine: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the k best items of all rows, shapes (m, k): what :func:`ranked` yields, in one piece and padded to k.

    Raises
    ------
    InvalidValueError, ShapeError, TooLargeError
        As of :func:`ranked`; ``TooLargeError`` too if the result would pass the memory limit.

    Examples
    --------
    >>> import numpy as np
    >>> items = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> already = Pattern(np.array([0, 1]), np.array([2]))
    >>> best(np.array([[2.0, 1.0]]), items, 3, already)
    (array([[ 0,  1, -1]]), array([[  2.,   1., -inf]], dtype=float32))
    """
    from sparrow.kernels.ml import topk

    height, count = _check(rows, items, topk.LARGEST)
    size = rows_of_block(k, count)
    remedy = "ask for fewer rows at a time, stream all to a file with recommend_all(path, k)"
    memory.check(12 * height * k, f"the {k} best of {height} rows", remedy)
    ids, scores = np.full((height, k), -1), np.full((height, k), -np.inf, np.float32)
    cuts = None
    if exclude is not None:
        cuts = (exclude.rows(start, min(start + size, height)) for start in range(0, height, size))
    for number, (found, values) in enumerate(ranked(rows, items, k, cuts, cosine)):
        block = np.s_[number * size : number * size + len(found), : found.shape[1]]
        ids[block], scores[block] = found, values
    return ids, scores


def _check(rows: Factors, items: Factors, largest: int) -> tuple[int, int]:
    if len(rows.shape) != 2 or len(items.shape) != 2 or rows.shape[1] != items.shape[1]:
        raise ShapeError(f"factors are (rows, d) and (items, d), got {rows.shape} and {items.shape}")
    if items.shape[0] > largest:
        raise TooLargeError(f"{items.shape[0]} items are more than the 2^32 that can be ranked: rank parts of them")
    return rows.shape[0], items.shape[0]


def _single(factors: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(factors, dtype=np.float32)


def _directions(factors: Any) -> NDArray[np.float32]:
    """Return vectors of length 1; NaN where a vector is 0."""
    wide = np.asarray(factors, dtype=np.float64)
    return np.ascontiguousarray(wide / np.linalg.norm(wide, axis=1, keepdims=True), dtype=np.float32)
