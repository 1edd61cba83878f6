"""Plan nodes: scans, arrays and the operations on them.

A plan is a tree of frozen nodes, or a graph where a node is used more than once. Every node has a ``schema``: shape,
dimension names, dtype, fill value and storage type of its result. Making a node reads nothing and asks no engine.

A :class:`Scan` reads a relation, or the result of a node, through a view. Every node takes scans, so views of views
fold into one. A :class:`Node` produces the stored elements of its result, or an array if it :attr:`~Node.is_dense`.

A new kind of node is one subclass here, a function that makes it (:mod:`sparrow.plan.elementwise`, ``reductions``,
``products``, ``shapes``), one operator of the stream engine, and an entry in the tables of the engines that take it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.core.schema import Schema, check_dtype
from sparrow.plan.aggregates import Reduction, reduction_for
from sparrow.plan.functions import function_name
from sparrow.plan.labels import Labels, labels_through, relation_labels
from sparrow.plan.semirings import Semiring
from sparrow.relations.protocol import Relation

__all__ = [
    "Accumulate", "Concat", "Contraction", "Dense", "Diagonal", "Estimator", "Map", "Node", "Reduce", "Reshape", "Root",
    "Scan", "Score", "Sort", "TopK", "Triangle", "WithFill", "axis_labels", "scans_of", "subscripts",
]  # fmt: skip


class Estimator(Protocol):
    """The cost model as nodes see it: :mod:`sparrow.plan.estimates`."""

    def nnz(self, scan: Scan) -> float:
        """Return the estimated number of stored elements of a scan."""

    def contraction(self, node: Contraction) -> tuple[float, float]:
        """Return the estimated flops and nnz of a contraction."""

    def steps(self, node: Contraction) -> Sequence[Any]:
        """Return the pairwise products of a contraction, with estimates."""


class Node:
    """An operation on scans. Two nodes are equal if they are one object.

    Subclasses define ``schema``, ``scans``, :meth:`with_inputs` and :meth:`key`. This is no ABC, whose ``isinstance``
    costs several times as much: small calls ask it often.
    """

    __slots__ = ("__weakref__", "_depth", "_labels", "_nnz")

    schema: Schema
    _depth: int
    splits_into_slices: ClassVar[bool] = False
    """True if a slice along the leading axis is a node of the same kind on slices of the operands."""

    @property
    def is_dense(self) -> bool:
        """True if an engine returns the result as an array."""
        return self.schema.is_array

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The scans that it takes, in order."""
        raise NotImplementedError

    @property
    def children(self) -> tuple[Any, ...]:
        """Everything that it takes, in order: scans, arrays and scalars."""
        return self.scans

    def with_inputs(self, scans: Sequence[Scan]) -> Self:
        """Return the same operation on other scans of equal schemas."""
        raise NotImplementedError

    def key(self) -> Hashable:
        """Return everything but the scans; equal keys and scans mean equal results."""
        raise NotImplementedError

    def label(self) -> str:
        """Return the name of the operation and what characterizes it, for rendered plans."""
        return type(self).__name__.lower()

    def params(self, estimator: Estimator) -> list[tuple[str, str]]:
        """Return further parameters for rendered plans, as pairs of a name and a text."""
        return []

    def estimate_nnz(self, estimator: Estimator) -> float:
        """Return the estimated nnz, by default the sum of the operands'."""
        return sum(estimator.nnz(scan) for scan in self.scans)

    @property
    def token(self) -> Hashable:
        """The node itself: equal tokens mean equal elements, as those of relations do."""
        return self

    @property
    def depth(self) -> int:
        """Nodes on the longest path from this one to a relation, both ends included."""
        waiting = [self] if getattr(self, "_depth", None) is None else []
        while waiting:
            node = waiting[-1]
            below = [scan.source for scan in node.scans if isinstance(scan.source, Node)]
            unknown = [each for each in below if getattr(each, "_depth", None) is None]
            waiting += unknown
            if not unknown:
                object.__setattr__(waiting.pop(), "_depth", 1 + max((each._depth for each in below), default=0))
        return self._depth

    @property
    def known_nnz(self) -> int | None:
        """The number of stored elements, once it has been counted."""
        return getattr(self, "_nnz", None)

    def set_nnz(self, nnz: int) -> None:
        """Keep the number of stored elements."""
        object.__setattr__(self, "_nnz", nnz)

    @property
    def labels(self) -> Labels:
        """The labels of labelled axes; rewrites drop them."""
        return getattr(self, "_labels", {})

    def with_labels(self, labels: Labels) -> Self:
        """Set the labels of axes and return the node itself."""
        object.__setattr__(self, "_labels", labels)
        return self


@dataclass(eq=False, slots=True)  # a frozen one takes three times as long to make, and every call makes a few
class Scan:
    """A source read through a view, at the view's coordinates. Immutable."""

    source: Relation | Node
    view: View
    schema: Schema
    """Equal to ``source.schema.with_view(view)``."""

    def then(self, view: View) -> Scan:
        """Return the scan of the same source through another view."""
        return Scan(self.source, view, self.source.schema.with_view(view))

    def transpose(self) -> Scan:
        """Return the scan with its axes reversed."""
        return self.then(self.view.permute(tuple(reversed(range(self.view.ndim)))))

    @property
    def relation(self) -> Relation:
        """The relation that is read, in a plan that is lowered."""
        return self.source  # type: ignore[return-value]

    @property
    def step(self) -> Node | None:
        """The node whose result is read, None if a relation is."""
        return self.source if isinstance(self.source, Node) else None

    @property
    def is_stored(self) -> bool:
        """True if a stored tensor is read, from files, rather than memory or a node."""
        return not isinstance(self.source, Node) and self.source.version is not None


def axis_labels(scan: Scan) -> Labels:
    """Return the labels of the axes of a scan. Does no I/O."""
    source = scan.source
    if not isinstance(source, Node):
        return labels_through(relation_labels(source), scan.view) if source.label_keys else {}
    own = source.labels
    return labels_through(own, scan.view) if own else own


@dataclass(frozen=True, eq=False, slots=True)
class Dense:
    """A NumPy array.

    Raises
    ------
    UnsupportedError
        If tensors do not support its dtype.
    """

    array: NDArray[Any]
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", Schema(self.array.shape, (), check_dtype(self.array.dtype)))


@dataclass(frozen=True, eq=False, slots=True)
class Map(Node):
    """Element-wise function of operands of one shape."""

    splits_into_slices: ClassVar[bool] = True

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    """In the order of the function's arguments: scans of the shape of the result, ``Dense`` that broadcast to it,
    and Python or NumPy scalars."""
    required: tuple[bool, ...]
    """For each scan whether an element of the result needs a stored element there; if none is required, any will do."""
    schema: Schema
    """Schema of an array if an array among the operands leaves no fill value."""

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The operands that are scans."""
        return tuple(operand for operand in self.operands if isinstance(operand, Scan))

    @property
    def children(self) -> tuple[Any, ...]:
        """The operands."""
        return self.operands

    def with_inputs(self, scans: Sequence[Scan]) -> Map:
        """Return the same function of other scans."""
        given = iter(scans)
        return replace(self, operands=tuple(next(given) if isinstance(o, Scan) else o for o in self.operands))

    def key(self) -> Hashable:
        """Return the function, the arrays and the scalars."""
        others = tuple(
            None if isinstance(o, Scan) else id(o.array) if isinstance(o, Dense) else (type(o), repr(o))
            for o in self.operands
        )
        return self.function, others, self.schema.shape, self.schema.dtype, self.schema.stype

    def label(self) -> str:
        """Return the name of the function."""
        return f"map {function_name(self.function)}"

    def params(self, estimator: Estimator) -> list[tuple[str, str]]:
        """Return the set of elements that are computed."""
        if len(self.scans) < 2:
            return []
        if not any(self.required):
            return [("elements", "a union")]
        if all(self.required):
            return [("elements", "an intersection")]
        needed = " and ".join(str(number) for number, needs in enumerate(self.required, 1) if needs)
        return [("elements", f"where operand {needed} has one")]


@dataclass(frozen=True, eq=False, slots=True)
class Score:
    """Function of the elements of a matrix product, such as a distance."""

    function: Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], NDArray[Any]]
    """Takes elements, and the terms of their rows and columns."""
    row_terms: NDArray[Any]
    """One per row, shape (m,)."""
    column_terms: NDArray[Any]
    """One per column, shape (n,)."""


@dataclass(frozen=True, eq=False, slots=True)
class Contraction(Node):
    """Sum of products of tensors and arrays over a semiring, as in ``einsum``.

    An index is a number that names axes: axes with the same index, of any operand, have the same coordinate. Indices
    that the output lacks are summed. Products of matrices, masked products, Kronecker products, sampled products and
    contractions of a tensor with several arrays are all nodes of this kind.

    An engine chooses the order of more than two tensors. They have the dtype of the result, and the semiring is one
    that may be reordered.
    """

    splits_into_slices: ClassVar[bool] = True

    operands: tuple[Scan | Dense, ...]
    """At least one scan. Next to arrays there is only one."""
    indices: tuple[tuple[int, ...], ...]
    """The index of each axis of each operand."""
    output_indices: tuple[int, ...]
    """The indices of the result, each once."""
    semiring: Semiring
    schema: Schema
    """Schema of an array for results that are dense by nature, such as ``A @ x``."""
    mask: Scan | None = None
    """Scan of the shape of the result: only positions at which it has a stored element are computed; None for all."""
    complement: bool = False
    """True if only positions at which the mask has no stored element are computed."""
    keep_fill: bool = False
    """True if results that equal the fill are stored, for the contraction that takes them."""
    topk: int | None = None
    """Number of the largest elements that are kept along the last axis of the result; None for all."""
    score: Score | None = None
    """Function that replaces the elements before the largest are selected."""

    @property
    def tensors(self) -> tuple[Scan, ...]:
        """The operands that are scans."""
        return tuple([operand for operand in self.operands if isinstance(operand, Scan)])

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The operands that are scans, and the mask."""
        return self.tensors if self.mask is None else (*self.tensors, self.mask)

    @property
    def children(self) -> tuple[Any, ...]:
        """The operands, and the mask."""
        return self.operands if self.mask is None else (*self.operands, self.mask)

    def with_inputs(self, scans: Sequence[Scan]) -> Contraction:
        """Return the same contraction of other scans."""
        now = self.scans
        if len(now) == 1 and now[0] is scans[0]:
            return self
        given = iter(scans)
        operands = tuple([next(given) if isinstance(each, Scan) else each for each in self.operands])
        return replace(self, operands=operands, mask=None if self.mask is None else next(given))

    def key(self) -> Hashable:
        """Return the indices, the semiring, the arrays and the meaning of the mask."""
        arrays = tuple(id(each.array) if isinstance(each, Dense) else None for each in self.operands)
        flags = self.complement, self.keep_fill, self.topk, self.score
        return self.indices, self.output_indices, self.semiring, self.schema, arrays, flags

    def label(self) -> str:
        """Return the subscripts and the semiring."""
        top = "" if self.topk is None else f", top {self.topk}"
        return f"contraction {subscripts(self.indices, self.output_indices)} {self.semiring}{top}"

    def params(self, estimator: Estimator) -> list[tuple[str, str]]:
        """Return the estimates and the mask."""
        flops, nnz = estimator.contraction(self)
        out = [("expected", f"{flops:.3g} products, {nnz:.3g} elements")]
        if len(self.tensors) > 2:
            for step in estimator.steps(self):
                name = subscripts(step.operands, step.result.indices, within=self.indices)
                out.append(("step", f"{name}, {step.flops:.3g} products, {step.result.nnz:.3g} elements"))
        if self.mask is not None:
            out.append(("mask", f"the last operand: only where it has {'no' if self.complement else 'an'} element"))
        return out

    def estimate_nnz(self, estimator: Estimator) -> float:
        """Return the estimate of the cost model; a mask is ignored."""
        nnz = estimator.contraction(self)[1]
        return nnz if self.topk is None else min(nnz, float(self.topk * math.prod(self.schema.shape[:-1])))

    @property
    def contracted_indices(self) -> tuple[int, ...]:
        """The indices that the result lacks."""
        return tuple(dict.fromkeys(k for own in self.indices for k in own if k not in self.output_indices))


@dataclass(frozen=True, eq=False, slots=True)
class _Unary(Node):
    """A node of one scan."""

    operand: Scan

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The one scan."""
        return (self.operand,)

    def with_inputs(self, scans: Sequence[Scan]) -> Self:
        """Return the same node of another scan."""
        (operand,) = scans
        return self if operand is self.operand else replace(self, operand=operand)

    def key(self) -> Hashable:
        """Return all fields but the scan."""
        return tuple(getattr(self, name) for name in self.__slots__ if name != "schema"), self.schema


@dataclass(frozen=True, eq=False, slots=True)
class Reduce(_Unary):
    """Reduction of a scan along some axes."""

    name: str
    """One of :data:`sparrow.plan.aggregates.REDUCTIONS`, or "density"."""
    axes: tuple[int | None, ...]
    """For each axis of the result the axis of the operand; None for a reduced one that is kept with length 1."""
    stored: bool
    """True if only stored elements take part."""
    options: Mapping[str, Any]
    reduction: Reduction
    schema: Schema

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_reduce, (self.operand, self.name, self.axes, self.stored, dict(self.options), self.schema)

    @property
    def kept_axes(self) -> tuple[int, ...]:
        """The axes of the operand that stay."""
        return tuple(axis for axis in self.axes if axis is not None)

    @property
    def group_size(self) -> int:
        """The number of elements of each group, absent ones included; may exceed 2^63."""
        return math.prod(n for k, n in enumerate(self.operand.schema.shape) if k not in self.axes)

    def key(self) -> Hashable:
        """Return the reduction, its options and the axes."""
        return self.name, self.axes, self.stored, repr(sorted(self.options.items())), self.schema.stype

    def label(self) -> str:
        """Return the reduction and the axes that go."""
        dims = [name for axis, name in enumerate(self.operand.schema.dims) if axis not in self.axes]
        return f"reduce {self.name} over {', '.join(dims) or 'no axis'}{' of stored elements' if self.stored else ''}"


def _make_reduce(
    operand: Scan, name: str, axes: tuple[int | None, ...], stored: bool, options: Mapping[str, Any], schema: Schema
) -> Reduce:
    """Return a reduction that was pickled: its functions are made again."""
    return Reduce(operand, name, axes, stored, options, reduction_for(name, operand.schema, options), schema)


@dataclass(frozen=True, eq=False, slots=True)
class Concat(Node):
    """Scans joined along an axis."""

    splits_into_slices: ClassVar[bool] = True

    operands: tuple[Scan, ...]
    axis: int
    schema: Schema

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The operands."""
        return self.operands

    def with_inputs(self, scans: Sequence[Scan]) -> Concat:
        """Return other scans joined."""
        return replace(self, operands=tuple(scans))

    def key(self) -> Hashable:
        """Return the axis and the schema."""
        return self.axis, self.schema

    def label(self) -> str:
        """Return the axis."""
        return f"concat along {self.schema.dims[self.axis]}"


@dataclass(frozen=True, eq=False, slots=True)
class Reshape(_Unary):
    """The elements of a scan in another shape of equal size, in row-major order."""

    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class Triangle(_Unary):
    """The elements of the last two axes on and above, or on and below, a diagonal."""

    splits_into_slices: ClassVar[bool] = True

    k: int
    """Distance of the diagonal to the right of the main one."""
    upper: bool
    schema: Schema

    def label(self) -> str:
        """Return the side and the diagonal."""
        return f"triangle {'from' if self.upper else 'up to'} diagonal {self.k}"


@dataclass(frozen=True, eq=False, slots=True)
class Diagonal(_Unary):
    """The diagonal of a matrix, ``offset`` to the right of the main one."""

    offset: int
    schema: Schema

    def label(self) -> str:
        """Return the offset."""
        return f"diagonal {self.offset}"


@dataclass(frozen=True, eq=False, slots=True)
class Sort(_Unary):
    """The elements of a scan sorted along the last axis in ascending order, NaN last."""

    schema: Schema


@dataclass(frozen=True, eq=False, slots=True)
class TopK(_Unary):
    """The largest or smallest stored elements of each line along the last axis.

    Of equal ones the first are taken, and NaN only where nothing else is left.
    """

    k: int
    largest: bool
    schema: Schema

    def label(self) -> str:
        """Return the number of elements of a line."""
        return f"topk {self.k}{'' if self.largest else ' smallest'}"


@dataclass(frozen=True, eq=False, slots=True)
class WithFill(_Unary):
    """The elements of a scan stored beside another fill value, that of the schema."""

    splits_into_slices: ClassVar[bool] = True

    schema: Schema

    def label(self) -> str:
        """Return the fill value."""
        return f"with fill {self.schema.fill_value}"


@dataclass(frozen=True, eq=False, slots=True)
class Accumulate(_Unary):
    """``ufunc.accumulate`` along an axis: an array."""

    ufunc: np.ufunc
    """``np.add`` or ``np.multiply``."""
    axis: int | None
    """None flattens in row-major order."""
    initial: Any
    """First value of each line, None for no such value."""
    schema: Schema

    def label(self) -> str:
        """Return the function."""
        return f"accumulate {self.ufunc.__name__}"


Root: TypeAlias = Scan | Dense | Node
"""The root of a plan."""


def scans_of(root: Root) -> tuple[Scan, ...]:
    """Return the scans that a root takes: none for a scan or an array."""
    return root.scans if isinstance(root, Node) else ()


def subscripts(
    indices: Sequence[Sequence[Hashable]],
    output_indices: Sequence[Hashable],
    within: Sequence[Sequence[Hashable]] | None = None,
) -> str:
    """Return the subscripts of a contraction as ``numpy.einsum`` writes them.

    Parameters
    ----------
    within
        The indices of the operands of a larger contraction, whose letters are used.

    Examples
    --------
    >>> subscripts([(4, 7), (7, 5)], (4, 5))
    'ij,jk->ik'
    """
    number = {
        index: k for k, index in enumerate(dict.fromkeys(itertools.chain(*(indices if within is None else within))))
    }
    *sides, output = ("".join(_letter(number[index]) for index in own) for own in (*indices, output_indices))
    return f"{','.join(sides)}->{output}"


def _letter(number: int) -> str:
    if number < 44:
        return chr(ord("i") + number) if number < 18 else chr(ord("A") + number - 18)
    return chr(0x3B1 + number - 44)
