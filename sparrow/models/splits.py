"""Train/test splits of ratings: held-out rows and held-out elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.schema import Schema
from sparrow.errors import InvalidValueError, ShapeError
from sparrow.functions.creation import asarray
from sparrow.kernels.coo import Block
from sparrow.models.ratings import as_ratings, check_matrix
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.runtime.validation import check_integer, check_seed
from sparrow.tensor import Tensor
from sparrow.tensor.base import read_labels

__all__ = ["HeldOut", "HeldOutEntries", "Split", "hold_out", "hold_out_entries", "min_links", "split"]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Held-out rows, each divided into history and truth.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> held_out = sp.models.evaluation.hold_out(np.ones((3, 8)))
    >>> held_out.rows, held_out.history.nnz, held_out.truth.nnz
    (array([0, 1, 2]), 18, 6)
    """

    rows: NDArray[np.int64]
    """Row numbers in the original tensor, ascending, shape (m,)."""
    history: Tensor
    """Ratings to fold in, shape (m, items)."""
    truth: Tensor
    """Ratings to predict, shape (m, items)."""


@dataclass(frozen=True, slots=True)
class HeldOutEntries:
    """Ratings for training and held-out ratings.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> parts = sp.models.evaluation.hold_out_entries(np.ones((4, 5)))
    >>> parts.train.nnz, parts.test.nnz
    (18, 2)
    """

    train: Tensor
    """Ratings to fit, with the shape and labels of the tensor."""
    test: Tensor
    """Ratings to predict."""


@dataclass(frozen=True, slots=True)
class Split:
    """Training rows, and held-out rows for validation and test.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> parts = sp.models.evaluation.split(np.ones((20, 5)))
    >>> len(parts.rows), parts.validation is None, len(parts.test.rows)
    (18, True, 2)
    """

    train: Tensor
    """Training rows, shape (n, items), a view."""
    rows: NDArray[np.int64]
    """Numbers of the training rows, ascending, shape (n,)."""
    validation: HeldOut | None
    """Rows to choose settings by, or None."""
    test: HeldOut
    """Rows to test with; they do not depend on ``validation``."""


def split(A: Any, seed: int = 0, test: float = 0.1, validation: float = 0.0) -> Split:
    """Split rows into training rows and held-out test and validation rows.

    Parameters
    ----------
    A
        Ratings, shape (rows, items), fill 0 or NaN: a tensor, or what :func:`sparrow.asarray` accepts.
    seed
        Seed of the drawn rows and held-out ratings.
    test, validation
        Fractions of the rows; those with fewer than 4 ratings are dropped.

    Returns
    -------
    Split

    Raises
    ------
    InvalidValueError
        If the fractions, or their sum, are not between 0 and 1, the seed is negative, or no drawn row has 4 ratings.
    ShapeError, UnsupportedError
        If ``A`` is not a real matrix with fill 0 or NaN.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> from sparrow.models.evaluation import split
    >>> A = sp.asarray(np.ones((20, 5)))
    >>> parts = split(A, test=0.1)
    >>> parts.train.shape, parts.test.history.nnz, parts.test.truth.nnz
    ((18, 5), 8, 2)
    """
    A = as_ratings(A)
    check_matrix(A.__sparrow_scan__())
    check_seed(seed)
    given: tuple[Any, ...] = test, validation
    are_numbers = all(isinstance(share, int | float | np.floating) for share in given)
    if not (are_numbers and test > 0 and validation >= 0 and test + validation < 1):
        raise InvalidValueError(
            f"test and validation must be fractions between 0 and 1, also in sum, got test={test!r} and "
            f"validation={validation!r}"
        )
    height = A.shape[0]
    permutation = np.random.default_rng([seed, 0]).permutation(height)
    first = round(test * height)
    second = first + round(validation * height)
    rows = np.sort(permutation[second:])
    tested = _hold_out_rows(A, np.sort(permutation[:first]), [seed, 1])
    validated = _hold_out_rows(A, np.sort(permutation[first:second]), [seed, 2]) if validation else None
    return Split(A[rows], rows, validated, tested)


def _hold_out_rows(A: Tensor, rows: NDArray[np.int64], seed: int | Sequence[int]) -> HeldOut:
    result = hold_out(A[rows], seed)
    return HeldOut(rows[result.rows], result.history, result.truth)


def hold_out(rows: Any, seed: int | Sequence[int] = 0) -> HeldOut:
    """Hold out floor(n / 4) of the n ratings of each row, at random.

    Parameters
    ----------
    rows
        Ratings, shape (m, items), fill 0 or NaN: a tensor, or what :func:`sparrow.asarray` accepts. Rows with fewer
        than 4 are dropped.
    seed
        Seed of the held-out ratings.

    Returns
    -------
    HeldOut

    Raises
    ------
    InvalidValueError
        If no row has 4 ratings.
    ShapeError, UnsupportedError
        If ``rows`` is not a real matrix with fill 0 or NaN.
    TooLargeError
        If the ratings exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import hold_out
    >>> held_out = hold_out(sp.asarray([[1, 1, 1, 1, 0], [0, 0, 1, 1, 0]]))
    >>> held_out.rows, held_out.history.nnz, held_out.truth.nnz
    (array([0]), 3, 1)
    """
    rows = as_ratings(rows)
    scan = rows.__sparrow_scan__()
    check_matrix(scan)
    block = engines.evaluate(scan)
    row = block.coords[0]
    degrees = np.bincount(row, minlength=rows.shape[0])
    n_held_out = degrees // 4
    evaluated = np.flatnonzero(n_held_out)
    if not len(evaluated):
        raise InvalidValueError(f"a row must have at least 4 ratings to evaluate, got none of {rows.shape[0]} rows")
    order = np.lexsort((np.random.default_rng(seed).random(block.count), row))
    starts = np.cumsum(degrees) - degrees
    is_hidden = np.zeros(block.count, bool)
    is_hidden[order] = np.arange(block.count) - starts[row] < n_held_out[row]
    renumbered = np.full(rows.shape[0], -1)
    renumbered[evaluated] = np.arange(len(evaluated))
    is_kept = n_held_out[row] > 0
    labels = read_labels(scan)
    kept_labels = {axis: found.take(pa.array(evaluated)) if axis == 0 else found for axis, found in labels.items()}

    def to_tensor(mask: NDArray[np.bool_]) -> Tensor:
        at = np.flatnonzero(mask)
        schema = Schema((len(evaluated), rows.shape[1]), rows.dims, rows.dtype, rows.fill_value)
        selected = Block((renumbered[row[at]], block.coords[1][at]), block.values[at])
        return Tensor(MemoryHandle(MemoryRelation(schema, selected, kept_labels)))

    return HeldOut(evaluated, to_tensor(is_kept & ~is_hidden), to_tensor(is_hidden))


def hold_out_entries(A: Any, share: float = 0.1, seed: int = 0) -> HeldOutEntries:
    """Hold out a random fraction of the ratings, to test predicted values.

    All rows and columns stay in both parts, so the model knows them; :func:`split` holds out whole rows.

    Parameters
    ----------
    A
        Ratings, shape (rows, items), fill 0 or NaN: a tensor, or what :func:`sparrow.asarray` accepts.
    share
        Fraction of the ratings to hold out.
    seed
        Seed of the held-out ratings.

    Returns
    -------
    HeldOutEntries

    Raises
    ------
    InvalidValueError
        If ``share`` is not between 0 and 1, or leaves a part empty.
    ShapeError, UnsupportedError
        If ``A`` is not a real matrix with fill 0 or NaN.
    TooLargeError
        If the ratings exceed the memory limit.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray(np.arange(1.0, 13).reshape(3, 4))
    >>> parts = sp.models.evaluation.hold_out_entries(A, share=0.25)
    >>> parts.train.nnz, parts.test.nnz, np.array_equal((parts.train + parts.test).to_numpy(), A.to_numpy())
    (9, 3, True)
    """
    A = as_ratings(A)
    scan = A.__sparrow_scan__()
    check_matrix(scan)
    block = engines.evaluate(scan)
    check_seed(seed)
    number: Any = share
    count = round(number * block.count) if isinstance(number, int | float | np.floating) and 0 < number < 1 else 0
    if not 0 < count < block.count:
        raise InvalidValueError(f"share must leave ratings to train and to test, got share={share!r} of {block.count}")
    is_test = np.zeros(block.count, bool)
    is_test[np.random.default_rng(seed).permutation(block.count)[:count]] = True
    names = read_labels(scan)

    def to_tensor(mask: NDArray[np.bool_]) -> Tensor:
        at = np.flatnonzero(mask)
        selected = Block(tuple(column[at] for column in block.coords), block.values[at])
        return Tensor(MemoryHandle(MemoryRelation(scan.schema, selected, names)))

    return HeldOutEntries(to_tensor(~is_test), to_tensor(is_test))


def min_links(A: Any, least: int) -> tuple[Tensor, NDArray[np.int64]]:
    """Return the subgraph of nodes with a minimum in-degree and out-degree.

    It filters once, as the published WebGraph data sets do, so remaining nodes may end up with lower degrees.

    Parameters
    ----------
    A
        Adjacency matrix, shape (n, n): a tensor, or what :func:`sparrow.asarray` accepts.
    least
        Minimum in-degree and out-degree.

    Returns
    -------
    part : Tensor
        Subgraph, shape (m, m), a view.
    kept : ndarray of int64, shape (m,)
        Its nodes, ascending: node ``kept[i]`` of ``A`` is node i of the part.

    Raises
    ------
    ShapeError
        If ``A`` is not square.
    InvalidValueError
        If ``least`` is negative, or no node qualifies.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import min_links
    >>> A = sp.from_coords([[0, 1, 2, 2, 3], [1, 2, 1, 3, 2]], 1, shape=(4, 4))
    >>> part, kept = min_links(A, 1)
    >>> kept, part.shape
    (array([1, 2, 3]), (3, 3))
    """
    A = asarray(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"graph must be a square matrix, got shape {A.shape}")
    check_integer("least", least, 0)
    degrees = np.minimum(np.asarray(A.count(axis=1)), np.asarray(A.count(axis=0)))
    nodes = np.flatnonzero(degrees >= least)
    if not len(nodes):
        raise InvalidValueError(f"no node has an in-degree and out-degree of at least {least}: lower it")
    return A.oindex[nodes, nodes], nodes
