"""The nodes of a plan: what is read, and what is done with what was read.

A plan is a tree of frozen nodes, or a graph where a node is used more than once. Each knows its ``schema``: shape,
names, dtype, fill and storage type of its result. Building a node reads nothing and asks no engine.

:class:`Scan` reads a relation, or the result of a step, through a view: it is what every step takes in, so views of
views fold into one and steps nest through scans. A :class:`Node` computes entries from those of its scans.
:class:`MatMulDense`, :class:`DenseContraction` and :class:`Accumulate`, and a :class:`Map` that leaves no fill, are
dense: an engine returns their result as an array.

What nodes mean is said where they are made: functions of cells in :mod:`sparrow.plan.elementwise`, reductions in
:mod:`sparrow.plan.reductions`, products of tensors in :mod:`sparrow.plan.products`, rearrangements in
:mod:`sparrow.plan.shapes`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.core.schema import Schema, check_dtype
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.plan.aggregates import Reduction
from sparrow.plan.semirings import Semiring
from sparrow.relations.base import Relation

if TYPE_CHECKING:
    from sparrow.plan.labels import AxisLabels

__all__ = [
    "Accumulate",
    "Concat",
    "Dense",
    "DenseContraction",
    "Diagonal",
    "Map",
    "MatMulDense",
    "Node",
    "Product",
    "Reduce",
    "Reshape",
    "Root",
    "Scan",
    "Sort",
    "Triangle",
    "WithFill",
    "scans_of",
]  # fmt: skip


class Node:
    """What is computed from the entries of scans. Two steps are equal where they are one object."""

    __slots__ = ("__weakref__", "_names", "_nnz")

    schema: Schema

    @property
    def scans(self) -> tuple[Scan, ...]:
        """What it takes in, in order."""
        raise AssertionError

    def with_inputs(self, scans: Sequence[Scan]) -> Self:
        """Return the step that does the same with other scans of equal schemas."""
        raise AssertionError

    def key(self) -> Hashable:
        """Return what it does, its scans left out: steps of one kind and detail do the same with the same scans."""
        raise AssertionError

    @property
    def token(self) -> Hashable:
        """Itself: equal tokens mean equal entries, as those of relations do."""
        return self

    @property
    def known_nnz(self) -> int | None:
        """The number of entries, once somebody has counted them."""
        return getattr(self, "_nnz", None)

    def set_nnz(self, nnz: int) -> None:
        """Keep the number of entries."""
        object.__setattr__(self, "_nnz", nnz)

    @property
    def labels(self) -> Mapping[int, AxisLabels]:
        """The labels of the axes that have some, said where a step is built; steps made of it later have none."""
        return getattr(self, "_names", {})

    def with_labels(self, names: Mapping[int, AxisLabels]) -> Self:
        """Return the step itself, its axes labelled."""
        object.__setattr__(self, "_names", names)
        return self


@dataclass(eq=False, slots=True)  # a frozen one takes three times as long to make, and every call makes a few
class Scan:
    """The entries of a source that a view shows, at the view's coordinates; not changed once it is made."""

    source: Relation | Node
    view: View
    schema: Schema
    """``source.schema.with_view(view)``."""

    def then(self, view: View) -> Scan:
        """Return the scan of the same source through another view."""
        return Scan(self.source, view, self.source.schema.with_view(view))

    def transposed(self) -> Scan:
        """Return the scan with its axes reversed."""
        return self.then(self.view.permute(tuple(reversed(range(self.view.ndim)))))

    @property
    def relation(self) -> Relation:
        """The relation that is read: there is one in plans that are lowered."""
        return self.source  # type: ignore[return-value]

    @property
    def step(self) -> Node | None:
        """The step whose result is read, None where a relation is."""
        return self.source if isinstance(self.source, Node) else None


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
class MatMulDense:
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
    def scans(self) -> tuple[Scan, ...]:
        """The tensor, as it stands."""
        return tuple(side for side in (self.left, self.right) if isinstance(side, Scan))

    def with_inputs(self, scans: Sequence[Scan]) -> MatMulDense:
        """Return the same product of another scan of equal schema."""
        (scan,) = scans
        if scan is self.left or scan is self.right:
            return self
        return MatMulDense(scan, self.right) if isinstance(self.left, Scan) else MatMulDense(self.left, scan)

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
class Map(Node):
    """A function of cells, its operands of one shape."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    """In the order of the function's arguments: scans of the shape of the result, ``Dense`` that broadcast to it,
    and Python or NumPy scalars."""
    required: tuple[bool, ...]
    """For each scan whether a cell counts only where it has an entry; of none required, where any has."""
    schema: Schema
    is_dense: bool = False
    """Whether an operand that is no tensor leaves no fill: the result is an array."""

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The operands that are scans."""
        return tuple(operand for operand in self.operands if isinstance(operand, Scan))

    def with_inputs(self, scans: Sequence[Scan]) -> Map:
        """Return the same function of other scans."""
        given = iter(scans)
        return replace(self, operands=tuple(next(given) if isinstance(o, Scan) else o for o in self.operands))

    def key(self) -> Hashable:
        """Return the function, its dense operands and scalars."""
        others = tuple(
            None if isinstance(o, Scan) else id(o.array) if isinstance(o, Dense) else (type(o), repr(o))
            for o in self.operands
        )
        return self.function, others, self.schema.shape, self.schema.dtype, self.schema.stype


@dataclass(frozen=True, eq=False, slots=True)
class Product(Node):
    """Products of the entries of two scans that agree along common letters, added up where the result has no letter.

    A letter is a number that names axes: those with the same one, of either scan, take the same coordinate.
    """

    left: Scan
    right: Scan
    indices: tuple[tuple[int, ...], tuple[int, ...]]
    """The letter of each axis of the two scans."""
    output_indices: tuple[int, ...]
    """The letters of the result, each once."""
    semiring: Semiring
    mask: Scan | None
    """Of the shape of the result: only cells at which it has an entry may have one; None for all."""
    complement: bool
    """Whether it is the cells at which the mask has none."""
    schema: Schema
    reorderable: bool = False
    """Whether it is a step of several that an engine may put in another order, with those of its scans that are."""
    keep_fill: bool = False
    """Whether a cell that comes out as the fill is an entry all the same, for the product that it is an operand of."""

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The two scans, and the mask."""
        return (self.left, self.right) if self.mask is None else (self.left, self.right, self.mask)

    def with_inputs(self, scans: Sequence[Scan]) -> Product:
        """Return the same product of other scans."""
        return replace(self, left=scans[0], right=scans[1], mask=None if self.mask is None else scans[2])

    def key(self) -> Hashable:
        """Return the letters, the semiring, how the mask is meant, whether the order is free and the fill kept."""
        return (
            self.indices,
            self.output_indices,
            self.semiring,
            self.complement,
            self.schema,
            self.reorderable,
            self.keep_fill,
        )

    @property
    def contracted_indices(self) -> tuple[int, ...]:
        """The letters that the result lacks."""
        return tuple(dict.fromkeys(k for own in self.indices for k in own if k not in self.output_indices))


@dataclass(frozen=True, eq=False, slots=True)
class _Single(Node):
    """A step of one scan."""

    operand: Scan

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The one scan."""
        return (self.operand,)

    def with_inputs(self, scans: Sequence[Scan]) -> Self:
        """Return the same step of another scan."""
        (operand,) = scans
        return self if operand is self.operand else replace(self, operand=operand)

    def key(self) -> Hashable:
        """Return all fields but the scan."""
        return tuple(getattr(self, name) for name in self.__slots__ if name != "schema"), self.schema


@dataclass(frozen=True, eq=False, slots=True)
class Reduce(_Single):
    """A reduction of the entries of a scan, by groups that agree along the axes that stay."""

    name: str
    """As in :data:`sparrow.plan.aggregates.REDUCTIONS`, or "density"."""
    axes: tuple[int | None, ...]
    """For each axis of the result the operand's axis that it is; None for one that went and is kept with length 1."""
    stored: bool
    """Whether only entries take part, and no absent cells."""
    options: Mapping[str, Any]
    reduction: Reduction
    """What is needed of each group of entries, and how the result comes of that."""
    schema: Schema

    @property
    def kept_axes(self) -> tuple[int, ...]:
        """The operand's axes that stay."""
        return tuple(axis for axis in self.axes if axis is not None)

    @property
    def group_size(self) -> int:
        """The number of cells of each group, absent ones included; may pass 2^63."""
        return math.prod(n for k, n in enumerate(self.operand.schema.shape) if k not in self.axes)

    def key(self) -> Hashable:
        """Return what is computed, of which groups."""
        return self.name, self.axes, self.stored, repr(sorted(self.options.items())), self.schema.stype


@dataclass(frozen=True, eq=False, slots=True)
class Concat(Node):
    """Scans joined along an axis."""

    operands: tuple[Scan, ...]
    axis: int
    schema: Schema

    @property
    def scans(self) -> tuple[Scan, ...]:
        """What is joined."""
        return self.operands

    def with_inputs(self, scans: Sequence[Scan]) -> Concat:
        """Return other scans joined."""
        return replace(self, operands=tuple(scans))

    def key(self) -> Hashable:
        """Return the axis and the type."""
        return self.axis, self.schema


@dataclass(frozen=True, eq=False, slots=True)
class Reshape(_Single):
    """The cells of a scan in another shape of as many cells, in row-major order."""

    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class Triangle(_Single):
    """The cells of the last two axes on and above, or on and below, the diagonal ``k`` to the right."""

    k: int
    upper: bool
    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class Diagonal(_Single):
    """The diagonal of a matrix that lies ``offset`` to the right."""

    offset: int
    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class Sort(_Single):
    """The cells of a scan, each line along the last axis in ascending order, NaN last."""

    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class WithFill(_Single):
    """The cells of a scan as entries beside another fill, that of the schema."""

    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class Accumulate(_Single):
    """What a ufunc makes of each line from its start up to each cell: an array."""

    ufunc: np.ufunc
    """``np.add`` or ``np.multiply``."""
    axis: int | None
    """Along which; None means all cells in row-major order."""
    initial: Any
    """What stands before the first cell of each line, None where nothing does."""
    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class DenseContraction(_Single):
    """The entries of a scan of fill 0, each times the cells of arrays at its coordinates, added up: an array.

    A letter is a number that names axes, as in :class:`Product`. One of the arrays has all those that the scan has not,
    but for letters of one array alone that the result has not: along them it is summed first.
    """

    indices: tuple[int, ...]
    """The letter of each axis of the scan."""
    arrays: tuple[Dense, ...]
    array_indices: tuple[tuple[int, ...], ...]
    """The letter of each axis of each array."""
    output_indices: tuple[int, ...]
    """The letters of the result, each once."""
    schema: Schema

    @property
    def surviving_array_indices(self) -> tuple[tuple[int, ...], ...]:
        """The letters of each array along which it is not summed first."""
        uses = Counter(itertools.chain(self.indices, self.output_indices, *self.array_indices))
        known = set(self.indices)
        return tuple(tuple(x for x in own if x in known or uses[x] > 1) for own in self.array_indices)


Root: TypeAlias = Scan | Dense | MatMulDense | Node


def scans_of(node: Root) -> tuple[Scan, ...]:
    """Return the scans that a node takes in."""
    return () if isinstance(node, Scan | Dense) else node.scans
