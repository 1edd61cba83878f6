"""Rows of a product of which each part gives some entries: side by side, or added up."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.product.indexing import Numbering
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.plan import Product

__all__ = ["Adding", "Given", "side_by_side"]

Given: TypeAlias = "tuple[NDArray[np.int64], list[NDArray[Any]]]"
"""Where the entries of each row begin, and arrays of them: coordinates along letters, and values."""


def side_by_side(parts: list[Given]) -> Given:
    """Return rows that have the entries of each part, one part behind the other."""
    from sparrow.kernels.rows import copy_rows

    if len(parts) == 1:
        return parts[0]
    pointers = np.add.reduce([each for each, _ in parts])
    arrays = [np.empty(int(pointers[-1]), array.dtype) for array in parts[0][1]]
    begins = pointers[:-1].copy()
    for each, given in parts:
        for array, source in zip(arrays, given, strict=True):
            copy_rows(each[:-1], each[1:], begins, source, array)
        begins += each[1:] - each[:-1]
    return pointers, arrays


class Adding:
    """Adds up rows of parts, two and two, entry by entry.

    Parameters
    ----------
    node
        The product.
    columns
        The letters of its columns.
    fill
        What is no entry among sums, in their type.
    """

    def __init__(self, node: Product, columns: Sequence[int], fill: Any) -> None:
        sizes = dict(zip(node.output_indices, node.schema.shape, strict=True))
        self._add, self._fill = node.semiring.add, fill
        self._sizes = [sizes[letter] for letter in columns]

    def __call__(self, parts: list[Given]) -> Given:
        """Return rows that have the sums of the entries of all parts, which are taken off the list."""
        if len(parts) == 1 or len(self._sizes) == 1:
            return self._sums(parts)
        coords = [np.concatenate(arrays) for arrays in zip(*(given[:-1] for _, given in parts), strict=True)]
        numbering = Numbering(coords, self._sizes)
        own = np.zeros(sum(len(given[-1]) for _, given in parts), np.int32) if numbering.own is None else numbering.own
        at = np.cumsum([0, *(len(given[-1]) for _, given in parts)])
        numbered = [
            (each, [own[first:last], given[-1]])
            for (each, given), (first, last) in zip(parts, itertools.pairwise(at.tolist()), strict=True)
        ]
        pointers, (found, values) = self._sums(numbered)
        return pointers, [*numbering.columns(found, coords, [column.dtype for column in coords]), values]

    def _sums(self, parts: list[Given]) -> Given:
        """Add up parts of one column, each held no longer than until it is added."""
        while len(parts) > 1:
            parts = [self._sum(parts.pop(0), parts.pop(0)) for _ in range(len(parts) // 2)] + parts
        return parts[0]

    def _sum(self, one: Given, other: Given) -> Given:
        """Add up two parts of one column."""
        from sparrow.kernels.matmul.merge_add import adding_of

        (begins, (columns, values)), (others, (more_columns, more)) = one, other
        pointers, size = np.empty(len(begins), np.int64), len(values) + len(more) + 1
        out_columns, out = np.empty(size, columns.dtype), np.empty(size, values.dtype)
        n = adding_of(self._add)(
            as_readonly(begins), as_readonly(columns), as_readonly(values), as_readonly(others),
            as_readonly(more_columns),
            as_readonly(more), self._fill, pointers, out_columns, out,
        )  # fmt: skip
        return pointers, [out_columns[:n], out[:n]]
