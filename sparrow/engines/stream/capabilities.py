"""Cursors, and the optional capabilities of physical operators.

A capability is an abstract class that an operator or a cursor also inherits from; callers ask with ``isinstance``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from sparrow.kernels.coo import Block
from sparrow.relations.protocol import Chunk

__all__ = ["CSRChunks", "CountPushdown", "Cursor", "ReadRange", "RowOutput", "SmallEvaluation", "SumPushdown"]

ReadRange: TypeAlias = Callable[[int, int], Block]
"""``Cursor.read`` as a function."""


class Cursor(Protocol):
    """Reader of row ranges that keeps state between them, such as a sorted input."""

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop), canonical. Thread-safe.

        Coordinates are those of the whole, not of the range.
        """


class RowOutput:
    """A cursor that can return elements in CSR form."""

    def read_csr(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop), in CSR form if that saves work."""
        raise NotImplementedError


class CSRChunks:
    """A relation whose chunks can be read in CSR form."""

    def read_csr(self, chunk: Chunk) -> Block:
        """Return the elements of a chunk, in CSR form if that saves work."""
        raise NotImplementedError


class SmallEvaluation:
    """An operator that evaluates small inputs at once.

    Its output has no more elements than its inputs.
    """

    is_fresh = True
    """True if ``evaluate`` returns arrays that share no memory with its inputs, in the dtypes of the schema."""

    def evaluate(self, *blocks: Block) -> Block:
        """Return all elements of the output, given those of each input."""
        raise NotImplementedError


class CountPushdown:
    """An operator that can count its output without materializing it."""

    def count(self) -> int | None:
        """Return the number of stored elements, or None if they have to be materialized."""
        raise NotImplementedError


class SumPushdown:
    """An operator that can sum its output without materializing it."""

    def sum(self) -> Any:
        """Return the sum of all elements, or None if they have to be materialized."""
        raise NotImplementedError
