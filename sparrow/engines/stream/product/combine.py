"""Combine rows of partial results by concatenation or addition."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.product.indexing import CompositeIndex
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.plan import Contraction

__all__ = ["AddRows", "CSRPart", "concat_rows"]

CSRPart: TypeAlias = "tuple[NDArray[np.int64], list[NDArray[Any]]]"
"""Row pointers, and arrays of the elements: coordinates along the column indices, and values."""


def concat_rows(parts: list[CSRPart]) -> CSRPart:
    """Return rows that hold the elements of each part, one part after the other."""
    from sparrow.kernels.rows import copy_rows

    if len(parts) == 1:
        return parts[0]
    indptr = np.add.reduce([part_indptr for part_indptr, _ in parts])
    out = [np.empty(int(indptr[-1]), array.dtype) for array in parts[0][1]]
    begins = indptr[:-1].copy()
    for part_indptr, arrays in parts:
        for target, source in zip(out, arrays, strict=True):
            copy_rows(part_indptr[:-1], part_indptr[1:], begins, source, target)
        begins += part_indptr[1:] - part_indptr[:-1]
    return indptr, out


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
        from sparrow.kernels.matmul.merge_add import build_merge_add

        (indptr, (columns, values)), (other_indptr, (other_columns, other_values)) = one, other
        out_indptr, size = np.empty(len(indptr), np.int64), len(values) + len(other_values) + 1
        out_columns, out = np.empty(size, columns.dtype), np.empty(size, values.dtype)
        n = build_merge_add(self._add)(
            as_readonly(indptr), as_readonly(columns), as_readonly(values),
            as_readonly(other_indptr), as_readonly(other_columns), as_readonly(other_values),
            self._fill, out_indptr, out_columns, out,
        )  # fmt: skip
        return out_indptr, [out_columns[:n], out[:n]]
