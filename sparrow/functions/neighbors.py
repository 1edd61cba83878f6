"""Nearest neighbors of rows, by products that keep the largest elements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.indexing import View
from sparrow.core.schema import Schema, as_integer
from sparrow.engines import EngineName
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.generation import eye
from sparrow.functions.labels import to_labelled_tensor
from sparrow.functions.tuning import tuning
from sparrow.functions.views import as_tensor
from sparrow.kernels.coo import Block
from sparrow.plan import Contraction, Scan, Score, axis_labels, make_contraction
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import memory
from sparrow.runtime.validation import check_choice
from sparrow.tensor import Tensor
from sparrow.tensor.matching import match_axes

__all__ = ["neighbors"]

_METRICS = ("cosine", "dot", "jaccard", "euclidean")


def neighbors(
    A: Any,
    k: int,
    *,
    metric: Literal["cosine", "dot", "jaccard", "euclidean"] = "cosine",
    data: Any = None,
    engine: EngineName = "auto",
) -> Tensor:
    """Return the nearest neighbors of each row of a matrix.

    The product of all pairs of rows is never formed: rows are multiplied some at a time, and of each the best ``k`` are
    kept. Under all metrics but "euclidean" the result is lazy, and rows that share no column are no neighbors.

    Parameters
    ----------
    A
        Matrix of shape (m, n) and fill value 0, of real numbers.
    k
        Neighbors of each row, at most. Of equally near ones those with a smaller index are kept.
    metric
        "cosine" similarity, "dot" product, "jaccard" similarity of the columns with stored elements (the size of the
        intersection over that of the union), or "euclidean" distance, whose nearest rows have the smallest values.
    data
        Matrix of shape (p, n) whose rows are the candidates; by default the other rows of ``A``. Labelled columns are
        matched with those of ``A``.
    engine
        See :func:`sparrow.matmul`.

    Returns
    -------
    Tensor
        Shape (m, p): in row i the similarity or distance of its neighbors, float64. Absent pairs are 0, or infinity
        under "euclidean". Rows and columns have the labels of the rows of ``A`` and ``data``.

    Raises
    ------
    ShapeError
        If an operand is no matrix, or the numbers of columns differ.
    LabelError
        If columns have labels that are not the same.
    UnsupportedError
        If the values are complex, or a fill value is not 0.
    InvalidValueError
        If the metric is unknown, or ``k`` is not positive.
    TooLargeError
        If the neighbors under "euclidean" exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[3.0, 4.0, 0.0], [6.0, 8.0, 0.0], [0.0, 1.0, 1.0]])
    >>> sp.neighbors(A, 1).to_numpy().round(3)
    array([[0.   , 1.   , 0.   ],
           [1.   , 0.   , 0.   ],
           [0.566, 0.   , 0.   ]])
    >>> sp.neighbors(A, 1, metric="jaccard").argmax(axis=1).to_numpy()
    array([1, 0, 0])
    """
    check_choice("metric", metric, _METRICS)
    count = as_integer(k, "k")
    if count < 1:
        raise InvalidValueError(f"neighbors: k must be at least 1, got {k}")
    rows, others = _as_operand(A, "A"), None if data is None else _as_operand(data, "data")
    others = match_axes(others, rows, {1: 1}, "neighbors: data", "values", "A")
    if others is not None and others.shape[1] != rows.shape[1]:
        raise ShapeError(f"neighbors: A and data must have as many columns, got shapes {rows.shape} and {others.shape}")
    if metric == "cosine":
        rows, others = _normalize_rows(rows), None if others is None else _normalize_rows(others)
    elif metric == "jaccard":
        rows, others = _to_pattern(rows), None if others is None else _to_pattern(others)
    if metric == "euclidean":
        return _nearest(rows, others, count, engine)
    score = None
    if metric == "jaccard":
        sizes = [_sum_rows(rows), _sum_rows(rows if others is None else others)]
        score = Score(_jaccard, *sizes)
    found = _relabel(_make_topk(rows, others, count, score), rows, others)
    return found if engine == "auto" else found.compute(engine)


def _as_operand(A: Any, name: str) -> Tensor:
    """Return an operand as a matrix of real numbers in double precision."""
    tensor = as_tensor(A)
    if tensor.ndim != 2:
        raise ShapeError(f"neighbors: {name} must be a matrix, got shape {tensor.shape}")
    if tensor.dtype.kind == "c":
        raise UnsupportedError(f"neighbors: {name} must have real values, got dtype {tensor.dtype}: take abs or real")
    if tensor.fill_value != 0:
        raise UnsupportedError(f"neighbors: {name} must have fill value 0, got {tensor.fill_value}: use refill(0)")
    return tensor if tensor.dtype == np.float64 else tensor.astype(np.float64)


def _sum_rows(A: Tensor) -> NDArray[np.float64]:
    found: NDArray[np.float64] = A.sum(axis=1).to_numpy()
    return found


def _normalize_rows(A: Tensor) -> Tensor:
    """Return a matrix with rows of length 1; those without elements stay as they are."""
    lengths = np.sqrt(_sum_rows(A * A))
    found: Tensor = A * np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths != 0)[:, None]
    return found


def _to_pattern(A: Tensor) -> Tensor:
    found: Tensor = (A != 0).astype(np.float64)
    return found


def _jaccard(shared: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[Any]:
    """Return the sizes of intersections over those of unions."""
    return np.asarray(shared / (rows + columns - shared))


def _squared_distance(dot: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[Any]:
    """Return negative squared distances: the largest are the nearest."""
    return np.asarray(-np.maximum(rows + columns - 2 * dot, 0))


def _make_topk(
    rows: Tensor, others: Tensor | None, k: int, score: Score | None, keep_fill: bool = False
) -> Contraction:
    """Return the product of rows and other rows that keeps the best of each row."""
    left = rows.__sparrow_scan__()
    right = left if others is None else others.__sparrow_scan__()
    mask: Any = None if others is not None else eye(rows.shape[0], dtype=bool).__sparrow_scan__()
    unlabelled = [Scan(scan.source, scan.view, scan.schema) for scan in (left, right)]
    node = make_contraction(unlabelled, [(0, 2), (1, 2)], (0, 1), topk=k, keep_fill=keep_fill)
    return replace(node, mask=mask, complement=mask is not None, score=score)


def _relabel(node: Contraction, rows: Tensor, others: Tensor | None) -> Tensor:
    """Return the tensor of a product of rows, with the labels of both."""
    scan = Scan(node, View.identity(node.schema.shape), node.schema)
    sides = rows, rows if others is None else others
    names = {axis: axis_labels(side.__sparrow_scan__()).get(0) for axis, side in enumerate(sides)}
    return to_labelled_tensor(scan, {axis: found for axis, found in names.items() if found is not None})


def _nearest(rows: Tensor, others: Tensor | None, k: int, engine: EngineName) -> Tensor:
    """Return the rows at the smallest Euclidean distances.

    The squared distance of two rows is the sum of their squared lengths, less twice their product. Of rows that share
    no column with another the shortest ones are its nearest, so a few short rows are candidates of every row. That is
    all unless products are negative: rows that could have nearer neighbors are then compared with all others.
    """
    data = rows if others is None else others
    lengths = _sum_rows(rows * rows)
    data_lengths = lengths if others is None else _sum_rows(data * data)
    height, width = rows.shape[0], data.shape[0]
    k = min(k, max(width - (others is None), 0))
    what = f"the {k} nearest neighbors of {height} rows"
    with memory.reserve(6 * 8 * height * (2 * k + 1), what, "pass fewer rows at a time"):
        node = _make_topk(rows, others, k, Score(_squared_distance, lengths, data_lengths), keep_fill=True)
        block = engines.evaluate(Scan(node, View.identity(node.schema.shape), node.schema), engine)
        order = np.argsort(data_lengths, kind="stable")
        shortest = np.sort(order[: k + 1])
        dots = (rows @ data[shortest].T).to_numpy() if len(shortest) else np.zeros((height, 0))
        distances = _squared_distance(dots, lengths[:, None], data_lengths[shortest])
        row = np.concatenate([block.coords[0], np.repeat(np.arange(height), len(shortest))])
        column = np.concatenate([block.coords[1], np.tile(shortest, height)])
        value = np.concatenate([block.values, distances.ravel()])
        found = _select(row, column, value, height, k, others is None)
        if len(order) > k + 1:  # no other row that shares no column is nearer than the next longer one
            worst = np.full(height, -np.inf)
            worst[found[0]] = 0
            np.minimum.at(worst, found[0], found[2])
            unsure = np.flatnonzero(worst < -(lengths + data_lengths[order[k + 1]]))
            found = _compare_all(rows, data, (lengths, data_lengths), unsure, found, k, others is None)
    row, column, value = found
    schema = Schema((height, width), (), np.dtype(np.float64), np.inf)
    coords = tuple(each.astype(dtype) for each, dtype in zip((row, column), schema.coordinate_dtypes, strict=True))
    scan = Scan(MemoryRelation(schema, Block(coords, np.sqrt(-value))), View.identity(schema.shape), schema)
    names = {axis: axis_labels(side.__sparrow_scan__()).get(0) for axis, side in enumerate((rows, data))}
    return to_labelled_tensor(scan, {axis: labels for axis, labels in names.items() if labels is not None})


_Pairs: TypeAlias = "tuple[NDArray[Any], NDArray[Any], NDArray[Any]]"
"""Rows, columns and negative squared distances, sorted by row and column."""


def _select(row: NDArray[Any], column: NDArray[Any], value: NDArray[Any], height: int, k: int, apart: bool) -> _Pairs:
    """Return the largest values of each row, each column once.

    ``apart`` leaves out the column of the row itself.
    """
    if apart:
        differs = row != column
        row, column, value = row[differs], column[differs], value[differs]
    order = np.lexsort((value, column, row))
    row, column, value = row[order], column[order], value[order]
    is_last = np.ones(len(row), bool)
    is_last[:-1] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    row, column, value = row[is_last], column[is_last], value[is_last]
    indptr = np.searchsorted(row, np.arange(height + 1))
    order = np.lexsort((column, -value, row))
    order = np.sort(order[np.arange(len(order)) - np.repeat(indptr[:-1], np.diff(indptr)) < k])
    return row[order], column[order], value[order]


def _compare_all(
    rows: Tensor, data: Tensor, lengths: tuple[NDArray[Any], NDArray[Any]], unsure: NDArray[Any], found: _Pairs, k: int,
    apart: bool,
) -> _Pairs:  # fmt: skip
    """Return neighbors, those of unsure rows from all candidates."""
    width = data.shape[0]
    batch = max(memory.share(tuning().compared_rows_share) // (8 * 4 * max(width, 1)), 1)
    parts = [tuple(each[~np.isin(found[0], unsure)] for each in found)]
    for start in range(0, len(unsure), batch):
        some = unsure[start : start + batch]
        dots = (rows[some] @ data.T).to_numpy()
        value = _squared_distance(dots, lengths[0][some, None], lengths[1]).ravel()
        column = np.tile(np.arange(width), len(some))
        parts.append(_select(np.repeat(some, width), column, value, rows.shape[0], k, apart))
    row, column, value = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.lexsort((column, row))
    return row[order], column[order], value[order]
