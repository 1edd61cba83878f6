"""Rows and entries set aside, to evaluate models on what they did not see: the parts that the protocol asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.schema import Schema
from sparrow.errors import InvalidValueError, ShapeError
from sparrow.functions.creation import asarray
from sparrow.kernels.coo import Block
from sparrow.models.als_data import check_matrix
from sparrow.relations.base import MemoryHandle, MemoryRelation
from sparrow.runtime.validation import check_integer, check_seed
from sparrow.tensor import Tensor
from sparrow.tensor.base import read_labels

__all__ = ["HeldOut", "HeldOutEntries", "Split", "hold_out", "hold_out_entries", "min_links", "split"]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Rows to evaluate, each cut in two.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> held = sp.models.evaluation.hold_out(np.ones((3, 8)))
    >>> held.rows, held.history.nnz, held.truth.nnz
    (array([0, 1, 2]), 18, 6)
    """

    rows: NDArray[np.int64]
    """Shape (m,): their numbers in the tensor they were taken from, ascending."""
    history: Tensor
    """Shape (m, items): the links to fold in."""
    truth: Tensor
    """Shape (m, items): the links to find."""


@dataclass(frozen=True, slots=True)
class HeldOutEntries:
    """The entries of a tensor, for training and to test with.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> parts = sp.models.evaluation.hold_out_entries(np.ones((4, 5)))
    >>> parts.train.nnz, parts.test.nnz
    (18, 2)
    """

    train: Tensor
    """The entries to fit to, in the shape and with the labels of the tensor."""
    test: Tensor
    """The others, to be predicted."""


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of a tensor, for training and to evaluate.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> parts = sp.models.evaluation.split(np.ones((20, 5)))
    >>> len(parts.rows), parts.validation is None, len(parts.test.rows)
    (18, True, 2)
    """

    train: Tensor
    """Shape (n, items): the rows that are neither for validation nor for test; a view, nothing is copied."""
    rows: NDArray[np.int64]
    """Shape (n,): their numbers, ascending."""
    validation: HeldOut | None
    """The rows to choose settings by, None where none were asked for."""
    test: HeldOut
    """The rows to test with: the same whether there is a validation set or not."""


def split(A: Any, seed: int = 0, test: float = 0.1, validation: float = 0.0) -> Split:
    """Return training rows, and test and validation rows with a part of their links held out.

    Parameters
    ----------
    A
        Links (rows, items), fill 0: a tensor, or what :func:`sparrow.asarray` takes.
    seed
        Of the rows that are drawn and of the links held out, at least 0.
    test, validation
        Their shares of the rows; of those, the rows with at least 4 links are evaluated.

    Returns
    -------
    Split

    Raises
    ------
    InvalidValueError
        If the shares are not between 0 and 1 together, the seed is negative, or no row that was
        drawn has 4 links.
    ShapeError, UnsupportedError
        If this is no matrix of real numbers and fill 0.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> from sparrow.models.evaluation import split
    >>> A = sp.asarray(np.ones((20, 5)))
    >>> parts = split(A, test=0.1)
    >>> parts.train.shape, parts.test.history.nnz, parts.test.truth.nnz
    ((18, 5), 8, 2)
    """
    A = asarray(A)
    check_matrix(A.__sparrow_scan__())
    check_seed(seed)
    given: tuple[Any, ...] = test, validation
    numbers = all(isinstance(share, int | float | np.floating) for share in given)
    if not (numbers and test > 0 and validation >= 0 and test + validation < 1):
        raise InvalidValueError(
            f"test={test!r} and validation={validation!r} are shares of the rows: between 0 and 1, together too"
        )
    height = A.shape[0]
    drawn = np.random.default_rng([seed, 0]).permutation(height)
    first = round(test * height)
    second = first + round(validation * height)
    rows = np.sort(drawn[second:])
    tested = _held_out(A, np.sort(drawn[:first]), [seed, 1])
    validated = _held_out(A, np.sort(drawn[first:second]), [seed, 2]) if validation else None
    return Split(A[rows], rows, validated, tested)


def _held_out(A: Tensor, rows: NDArray[np.int64], seed: int | Sequence[int]) -> HeldOut:
    found = hold_out(A[rows], seed)
    return HeldOut(rows[found.rows], found.history, found.truth)


def hold_out(rows: Any, seed: int | Sequence[int] = 0) -> HeldOut:
    """Return rows with a quarter of their links held out: floor(n / 4) of n, drawn at random.

    Parameters
    ----------
    rows
        Links (m, items), fill 0: a tensor, or what :func:`sparrow.asarray` takes. Rows with fewer than 4 are dropped.
    seed
        Of the links that are drawn.

    Returns
    -------
    HeldOut

    Raises
    ------
    InvalidValueError
        If no row has 4 links.
    ShapeError, UnsupportedError
        If this is no matrix of real numbers and fill 0.
    TooLargeError
        If the links would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> from sparrow.models.evaluation import hold_out
    >>> held = hold_out(sp.asarray([[1, 1, 1, 1, 0], [0, 0, 1, 1, 0]]))
    >>> held.rows, held.history.nnz, held.truth.nnz
    (array([0]), 3, 1)
    """
    rows = asarray(rows)
    scan = rows.__sparrow_scan__()
    check_matrix(scan)
    block = engines.evaluate(scan)
    row = block.coords[0]
    degrees = np.bincount(row, minlength=rows.shape[0])
    held = degrees // 4
    kept = np.flatnonzero(held)
    if not len(kept):
        raise InvalidValueError(f"none of the {rows.shape[0]} rows drawn has 4 links: there is nothing to evaluate")
    order = np.lexsort((np.random.default_rng(seed).random(block.count), row))
    starts = np.cumsum(degrees) - degrees
    hidden = np.zeros(block.count, bool)
    hidden[order] = np.arange(block.count) - starts[row] < held[row]
    renumbered = np.full(rows.shape[0], -1)
    renumbered[kept] = np.arange(len(kept))
    there = held[row] > 0

    def part(mask: NDArray[np.bool_]) -> Tensor:
        at = np.flatnonzero(mask)
        schema = Schema((len(kept), rows.shape[1]), rows.dims, rows.dtype, rows.fill_value)
        taken = Block((renumbered[row[at]], block.coords[1][at]), block.values[at])
        return Tensor(MemoryHandle(MemoryRelation(schema, taken)))

    return HeldOut(kept, part(there & ~hidden), part(hidden))


def hold_out_entries(A: Any, share: float = 0.1, seed: int = 0) -> HeldOutEntries:
    """Return entries to train with and entries to test with, drawn at random: for ratings, whose values are predicted.

    Rows and columns stay as they are, so that the model knows all of them; :func:`split` leaves out whole rows.

    Parameters
    ----------
    A
        The ratings (rows, items), fill 0: a tensor, or what :func:`sparrow.asarray` takes.
    share
        The share of the entries to test with.
    seed
        Of the entries that are drawn.

    Returns
    -------
    HeldOutEntries

    Raises
    ------
    InvalidValueError
        If the share is not between 0 and 1, or leaves nothing to train or to test with.
    ShapeError, UnsupportedError
        If this is no matrix of real numbers and fill 0.
    TooLargeError
        If the entries would pass the memory limit.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray(np.arange(1.0, 13).reshape(3, 4))
    >>> parts = sp.models.evaluation.hold_out_entries(A, share=0.25)
    >>> parts.train.nnz, parts.test.nnz, np.array_equal((parts.train + parts.test).to_numpy(), A.to_numpy())
    (9, 3, True)
    """
    A = asarray(A)
    scan = A.__sparrow_scan__()
    check_matrix(scan)
    block = engines.evaluate(scan)
    check_seed(seed)
    number: Any = share
    count = round(number * block.count) if isinstance(number, int | float | np.floating) and 0 < number < 1 else 0
    if not 0 < count < block.count:
        raise InvalidValueError(f"share={share!r} of {block.count} entries leaves nothing to train or to test with")
    tested = np.zeros(block.count, bool)
    tested[np.random.default_rng(seed).permutation(block.count)[:count]] = True
    names = read_labels(scan)

    def part(mask: NDArray[np.bool_]) -> Tensor:
        at = np.flatnonzero(mask)
        taken = Block(tuple(column[at] for column in block.coords), block.values[at])
        return Tensor(MemoryHandle(MemoryRelation(scan.schema, taken, names)))

    return HeldOutEntries(part(~tested), part(tested))


def min_links(A: Any, least: int) -> tuple[Tensor, NDArray[np.int64]]:
    """Return the part of a graph whose nodes have many links: the filter of the WebGraph data sets.

    It is applied once, so that some of the nodes that stay end below it.

    Parameters
    ----------
    A
        The links of a graph (n, n), from row to column: a tensor, or what :func:`sparrow.asarray` takes.
    least
        What a node needs of links to it and of links from it, each.

    Returns
    -------
    part : Tensor
        Shape (m, m), a view: nothing is copied.
    kept : ndarray of int64, shape (m,)
        The nodes that stay, ascending: node ``kept[i]`` of ``A`` is node i of the part.

    Raises
    ------
    ShapeError
        If ``A`` is not square.
    InvalidValueError
        If ``least`` is negative, or no node has so many.

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
        raise ShapeError(f"a graph is a square matrix, and this tensor has the shape {A.shape}")
    check_integer("least", least, 0)
    degrees = np.minimum(np.asarray(A.count(axis=1)), np.asarray(A.count(axis=0)))
    kept = np.flatnonzero(degrees >= least)
    if not len(kept):
        raise InvalidValueError(f"no node has {least} links to it and {least} from it: take a smaller number")
    return A.oindex[kept, kept], kept
