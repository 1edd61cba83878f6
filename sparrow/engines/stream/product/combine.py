"""Combine rows of partial results: add, select the largest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.product.indexing import CompositeIndex
from sparrow.kernels.dispatch import prefer_numpy
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.plan import Contraction

__all__ = ["AddRows", "CSRPart", "find_largest"]

CSRPart: TypeAlias = "tuple[NDArray[np.int64], list[NDArray[Any]]]"
"""Row pointers, and arrays of the elements: coordinates along the column indices, and values."""


class AddRows:
    """Adds the rows of parts, pairwise, element by element.

    Parameters
    ----------
    node
        Plan node of the product.
    columns
        Its column indices.
    fill
        Sum that is no stored element, in the dtype of accumulation.
    """

    def __init__(self, node: Contraction, columns: Sequence[int], fill: Any) -> None:
        sizes = dict(zip(node.output_indices, node.schema.shape, strict=True))
        self._add, self._fill = node.semiring.add, fill
        self._sizes = [sizes[index] for index in columns]

    def __call__(self, parts: list[CSRPart]) -> CSRPart:
        """Return rows that hold the sums of all parts; may remove parts from the list."""
        if len(parts) == 1 or len(self._sizes) == 1:
            return self._reduce(parts)
        coords = [np.concatenate(arrays) for arrays in zip(*(arrays[:-1] for _, arrays in parts), strict=True)]
        index = CompositeIndex(coords, self._sizes)
        counts = [len(arrays[-1]) for _, arrays in parts]
        codes = np.zeros(sum(counts), np.int32) if index.codes is None else index.codes
        bounds = itertools.pairwise(np.cumsum([0, *counts]).tolist())
        coded = [
            (indptr, [codes[first:last], arrays[-1]])
            for (indptr, arrays), (first, last) in zip(parts, bounds, strict=True)
        ]
        indptr, (sum_codes, values) = self._reduce(coded)
        return indptr, [*index.decode(sum_codes, coords, [column.dtype for column in coords]), values]

    def _reduce(self, parts: list[CSRPart]) -> CSRPart:
        """Add parts of one column array, releasing each as soon as it is added."""
        while len(parts) > 1:
            parts = [self._add_pair(parts.pop(0), parts.pop(0)) for _ in range(len(parts) // 2)] + parts
        return parts[0]

    def _add_pair(self, one: CSRPart, other: CSRPart) -> CSRPart:
        """Add two parts of one column array."""
        from sparrow.kernels.matmul.spgemm import get_merge_add

        (indptr, (columns, values)), (other_indptr, (other_columns, other_values)) = one, other
        out_indptr, size = np.empty(len(indptr), np.int64), len(values) + len(other_values) + 1
        out_columns, out = np.empty(size, columns.dtype), np.empty(size, values.dtype)
        n = get_merge_add(self._add, values.dtype)(
            as_readonly(indptr), as_readonly(columns), as_readonly(values),
            as_readonly(other_indptr), as_readonly(other_columns), as_readonly(other_values),
            self._fill, out_indptr, out_columns, out,
        )  # fmt: skip
        return out_indptr, [out_columns[:n], out[:n]]


def find_largest(indptr: NDArray[np.int64], values: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Return the positions of the ``k`` largest values of each row, ascending.

    Of equal values the first ones are taken, and NaN only where nothing else is left.

    Examples
    --------
    >>> find_largest(np.array([0, 3, 5]), np.array([5.0, 7.0, 7.0, 1.0, 2.0]), 1)
    array([1, 4])
    """
    lengths = np.diff(indptr)
    if not (lengths > k).any():
        return np.arange(indptr[0], indptr[-1])
    is_compiled = values.dtype.kind in "iuf" and values.dtype != np.float16
    if is_compiled and not prefer_numpy("select_largest", len(values)):
        from sparrow.kernels.matmul.select import select_largest

        out = np.empty(int(np.minimum(lengths, k).sum()), np.int64)
        select: Any = select_largest
        select(as_readonly(indptr), as_readonly(values), k, out)
        return out
    values = values[indptr[0] : indptr[-1]]
    rows = np.repeat(np.arange(len(lengths)), lengths)
    if values.dtype.kind in "iub":  # the order of -x wraps around
        order = np.argsort(values, kind="stable")[::-1]
        ranks = np.empty(len(values), np.int64)
        ranks[order] = np.arange(len(values))
        is_new = np.ones(len(values), bool)
        np.not_equal(values[order][1:], values[order][:-1], out=is_new[1:])
        keys: NDArray[Any] = np.cumsum(is_new)[ranks]
    else:
        keys = -values
    order = np.lexsort((keys, rows))  # stable, and NaN comes last
    rank = np.arange(len(order)) - np.repeat(indptr[:-1] - indptr[0], lengths)
    largest: NDArray[np.int64] = np.sort(order[rank < k]) + indptr[0]
    return largest
