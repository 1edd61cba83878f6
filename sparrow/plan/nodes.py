"""The nodes of a plan: reading a tensor through a view, a dense array, a product of the two.

Each node knows its ``schema``: shape, names, dtype and fill of its result. Building a node checks shapes
and types and reads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import ShapeError, UnsupportedError
from sparrow.index import View
from sparrow.relation import Relation
from sparrow.schema import Schema, check_dtype

__all__ = ["Contract", "Dense", "Node", "Scan"]


@dataclass(frozen=True, eq=False, slots=True)
class Scan:
    """The entries of a relation that a view shows, at the view's coordinates."""

    relation: Relation
    view: View
    schema: Schema
    """What ``relation.schema.through(view)`` gives."""

    def transposed(self) -> Scan:
        """Return the scan with its axes reversed."""
        view = self.view.permute(tuple(reversed(range(self.view.ndim))))
        return Scan(self.relation, view, self.relation.schema.through(view))


@dataclass(frozen=True, eq=False, slots=True)
class Dense:
    """A NumPy array.

    Raises
    ------
    UnsupportedError
        If its dtype is none that tensors hold.
    """

    array: NDArray[Any]
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", Schema(self.array.shape, (), check_dtype(self.array.dtype)))


@dataclass(frozen=True, eq=False, slots=True)
class Contract:
    """The matrix product of a tensor and a dense array, either first; both of one or two dimensions.

    Shapes combine as in ``numpy.matmul`` and the dtype is NumPy's (of two booleans a boolean). The result is dense.

    Raises
    ------
    ShapeError
        If the shapes do not fit, naming both.
    UnsupportedError
        If not exactly one side is a tensor, or a side has more than two dimensions.
    """

    left: Scan | Dense
    right: Scan | Dense
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        left, right = self.left.schema, self.right.schema
        if isinstance(self.left, Scan) == isinstance(self.right, Scan):
            raise UnsupportedError("a product takes one tensor and one dense array: read one side with to_numpy()")
        for name, side in (("left", left), ("right", right)):
            if side.ndim == 0:
                raise ShapeError(f"matmul: the {name} operand has no dimensions, it needs one or two; scale with '*'")
            if side.ndim > 2:
                raise UnsupportedError(
                    f"matmul: the {name} operand has shape {side.shape}; operands of one or two dimensions are "
                    "supported, so multiply one slice at a time"
                )
        across, down = left.ndim - 1, 0
        if left.shape[across] != right.shape[down]:
            raise ShapeError(
                f"matmul: shapes {left.shape} and {right.shape} do not fit: {_side('left', self.left, across)} "
                f"is not {_side('right', self.right, down)}"
            )
        dtype = np.result_type(left.dtype, right.dtype)
        object.__setattr__(self, "schema", Schema(left.shape[:-1] + right.shape[1:], (), dtype))

    @property
    def flipped(self) -> bool:
        """Whether the dense side stands first: the product is then computed transposed."""
        return isinstance(self.left, Dense)

    @property
    def operands(self) -> tuple[Scan, NDArray[Any]]:
        """The tensor and the dense array such that ``tensor @ array`` is the product, transposed if ``flipped``."""
        if isinstance(self.left, Scan):
            assert isinstance(self.right, Dense)
            return self.left, self.right.array
        assert isinstance(self.right, Scan)
        return self.right.transposed(), self.left.array.T


def _side(name: str, node: Scan | Dense, dim: int) -> str:
    size = node.schema.shape[dim]
    if isinstance(node, Scan):
        return f"dimension {dim} ({node.schema.dims[dim]!r}, size {size}) of the {name} operand"
    return f"dimension {dim} (size {size}) of the {name} operand"


Node: TypeAlias = Scan | Dense | Contract
