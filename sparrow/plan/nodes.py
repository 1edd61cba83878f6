"""The nodes of a plan: reading a tensor through a view, and what is done with what was read.

Each node knows its ``schema``: shape, names, dtype and fill of its result. Building a node reads nothing. What an
expression is made of says so in a node (``Map``, ``Reduce``, ``Concat``, ``Reshape``, ``Triangle``, ``Diagonal``),
whose operands are scans; a scan of another expression is how they nest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import ShapeError, UnsupportedError
from sparrow.index import View
from sparrow.relation import Relation
from sparrow.schema import Schema, check_dtype

__all__ = ["Concat", "Contract", "Dense", "Diagonal", "Map", "Node", "Reduce", "Reshape", "Scan", "Step", "Triangle"]


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


@dataclass(frozen=True, eq=False, slots=True)
class Map:
    """A function of cells, its operands of one shape."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    """In the order of the function's arguments: scans of the shape of the result, ``Dense`` that broadcast to it,
    and Python or NumPy scalars."""
    required: tuple[bool, ...]
    """For each scan whether a cell counts only where it has an entry; of none required, where any has."""
    schema: Schema

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The operands that are scans."""
        return tuple(operand for operand in self.operands if isinstance(operand, Scan))


@dataclass(frozen=True, eq=False, slots=True)
class Reduce:
    """A reduction of the entries of a scan, by groups that agree along the axes that stay."""

    name: str
    """As in ``sparrow.engines.reductions.REDUCTIONS``."""
    operand: Scan
    axes: tuple[int | None, ...]
    """For each axis of the result the operand's axis that it is; None for one that went and is kept with length 1."""
    stored: bool
    """Whether only entries take part, and no absent cells."""
    options: Mapping[str, Any]
    schema: Schema

    @property
    def cells(self) -> int:
        """The number of cells of each group, absent ones included; may pass 2^63."""
        return math.prod(n for k, n in enumerate(self.operand.schema.shape) if k not in self.axes)


@dataclass(frozen=True, eq=False, slots=True)
class Concat:
    """Scans joined along an axis."""

    operands: tuple[Scan, ...]
    axis: int
    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class Reshape:
    """The cells of a scan in another shape of as many cells, in row-major order."""

    operand: Scan
    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class Triangle:
    """The cells of the last two axes on and above, or on and below, the diagonal ``k`` to the right."""

    operand: Scan
    k: int
    upper: bool
    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class Diagonal:
    """The diagonal of a matrix that lies ``offset`` to the right."""

    operand: Scan
    offset: int
    schema: Schema


Step: TypeAlias = Map | Reduce | Concat | Reshape | Triangle | Diagonal
"""What an expression does with its operands."""

Node: TypeAlias = Scan | Dense | Contract | Step
