"""Graphs as lists of neighbours, one line for each vertex: what the readers of such text share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import IngestError
from sparrow.io.base.magic import split_words
from sparrow.io.base.source import TextBlock

__all__ = ["NeighborLists", "parse_neighbor_lists"]


class NeighborLists(NamedTuple):
    """What the lines of a block hold."""

    lines: NDArray[np.int64]
    """Of each neighbour the list that it stands in, counted from 0."""
    numbers: NDArray[np.int64]
    weights: NDArray[np.int64] | None
    heads: NDArray[np.int64]
    """The numbers that stand first, a row for each list."""
    lists: int


def parse_neighbor_lists(block: TextBlock, comment: str = "", first: int = 0, weighted: bool = False) -> NeighborLists:
    """Return the lists in the lines of a block; a blank line is an empty one.

    Parameters
    ----------
    block
        Whole lines.
    comment
        What begins a line that is no list.
    first
        So many numbers stand before the neighbours.
    weighted
        Whether a weight follows each neighbour.

    Raises
    ------
    IngestError
        If a token is no integer, or one is missing: with file, line and token.
    """
    from sparrow.kernels.parse import adjacency_lines as kernels

    most = kernels.count_numbers(block.data)
    lines, numbers = np.empty(most, np.int64), np.empty(most, np.int64)
    weights = np.empty(most if weighted else 0, np.int64)
    heads = np.empty((block.lines if first else 0, first), np.int64)
    sign = ord(comment) if comment else -1
    count, lists, status, at = kernels.parse_lists(block.data, sign, first, weighted, lines, numbers, weights, heads)
    if status != kernels.GOOD:
        problem = {
            kernels.BAD_NUMBER: "this is no integer",
            kernels.LARGE: "the number is beyond 2^63 - 1",
            kernels.NO_WEIGHT: "the line ends before the weight of its last neighbour",
            kernels.TOO_FEW: f"the line ends too early: {first} numbers stand before the neighbours",
        }[status]
        token = split_words(block.text(at, at + 80))[0] if status < kernels.NO_WEIGHT else None
        raise IngestError(problem, block.source.name, block.line_at(at), token)
    return NeighborLists(lines[:count], numbers[:count], weights[:count] if weighted else None, heads[:lists], lists)
