"""Plans as values that pickle, for other processes and machines.

A portable plan is a flat list: stored tensors as path and version, tensors in memory as arrays, then nodes in
topological order, which refer to earlier entries by number. So a node that is used twice is sent once, and stays one
node where it arrives, and plans of any depth pickle without recursion.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.array_validation import check_coordinates
from sparrow.core.indexing import View
from sparrow.core.label_types import check_labels
from sparrow.core.schema import Schema
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.kernels.coo import Block, is_sorted
from sparrow.plan import (
    AxisLabels,
    Contraction,
    Dense,
    Map,
    Node,
    Scan,
    Semiring,
    dimension_labels,
    function_name,
    nodes_below,
)
from sparrow.relations.csr import CSRRelation
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation
from sparrow.storage import Snapshot, reopen

__all__ = ["MemorySource", "PortablePlan", "StoredSource"]

PackArray: TypeAlias = "Callable[[NDArray[Any]], Any]"
"""Returns what is pickled in place of an array: it must unpickle as an equal array, and have its shape and dtype."""


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A version of a stored tensor."""

    path: str
    version: int
    orders: tuple[tuple[tuple[int, ...], str], ...] = ()
    """Sort orders in other folders."""

    def open(self) -> Relation:
        """Return its snapshot.

        Raises
        ------
        StorageError
            If it cannot be opened.
        """
        found = reopen(self.path, self.version).current
        for order, folder in self.orders:
            found = found.with_order(order, folder)
        return found


@dataclass(frozen=True, slots=True)
class MemorySource:
    """A relation in memory.

    Parameters
    ----------
    schema
        Its schema.
    coords, values
        Arrays of its elements.
    labels
        Labels by dimension number.
    is_csr
        Whether it is laid out for repeated products.
    """

    schema: Schema
    coords: tuple[Any, ...]
    values: Any
    labels: dict[int, pa.Array] = field(default_factory=dict)
    is_csr: bool = False

    def open(self) -> MemoryRelation:
        """Return a relation of the arrays, after checking them.

        Raises
        ------
        ShapeError, IndexingError, InvalidValueError
            If they contradict the schema: the pickle is damaged.
        """
        schema, values = self.schema, self.values
        count = len(values)
        check_coordinates(self.coords, schema.shape, count)
        if values.shape != (count,) or values.dtype != schema.dtype:
            raise ShapeError(
                f"values of a pickled tensor must be {schema.dtype} of shape ({count},), got {values.dtype} of shape "
                f"{values.shape}"
            )
        if not is_sorted(self.coords, strict=True) or (not schema.ndim and count > 1):
            raise InvalidValueError("coordinates of a pickled tensor must ascend, without repeated elements")
        for dim, names in self.labels.items():
            if len(check_labels(names, schema.dims[dim])) < schema.shape[dim]:  # shrinking a dimension keeps its labels
                raise ShapeError(
                    f"dimension {dim} of a pickled tensor needs {schema.shape[dim]} labels, got {len(names)}"
                )
        kind = CSRRelation if self.is_csr else MemoryRelation
        return kind(schema, Block(self.coords, values), self.labels)


@dataclass(frozen=True, slots=True)
class StoredLabels:
    """Labels of a range of the coordinates of an entry's dimension."""

    number: int
    dim: int
    positions: range


_Labels: TypeAlias = "dict[int, StoredLabels | pa.Array]"


class PortablePlan:
    """Scans of a plan that can be pickled.

    Parameters
    ----------
    scans
        The roots. Labels of a root without a view travel with it, those of other nodes do not.
    pack_array
        Packs arrays, by default as they are.
    materialize
        Returns a relation in memory for one that is neither stored nor in memory; by default it is pickled as it is.

    Raises
    ------
    UnsupportedError
        On pickling, if a function of the plan cannot be pickled.

    Examples
    --------
    >>> import pickle
    >>> import sparrow as sp
    >>> A = sp.eye(3)
    >>> plan = pickle.loads(pickle.dumps(PortablePlan([(A @ A).__sparrow_scan__()])))
    >>> plan.scans[0].schema.shape
    (3, 3)
    """

    __slots__ = ("_flat", "_materialize", "_pack_array", "_scans")

    def __init__(
        self,
        scans: Sequence[Scan],
        pack_array: PackArray = lambda array: array,
        materialize: Callable[[Relation], Relation] = lambda relation: relation,
    ) -> None:
        self._scans: list[Scan] | None = list(scans)
        self._flat: tuple[list[Any], list[Scan], _Labels] | None = None
        self._pack_array, self._materialize = pack_array, materialize

    @classmethod
    def _of(cls, flat: tuple[list[Any], list[Scan], _Labels]) -> Self:
        """Return a plan that was pickled; nothing is opened yet."""
        found = cls([])
        found._scans, found._flat = None, flat
        return found

    @property
    def scans(self) -> list[Scan]:
        """The roots; of a plan that was pickled its tensors are opened first.

        Raises
        ------
        StorageError
            If a stored tensor cannot be opened.
        """
        if self._scans is None:
            assert self._flat is not None
            self._scans = _open_plan(*self._flat)
        return self._scans

    def flatten(self) -> Self:
        """Return the plan as it is pickled: packed arrays, relations in memory."""
        return self._of(_Flattening(self.scans, self._pack_array, self._materialize).flat)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of, (self._flat or self.flatten()._flat,)

    def __copy__(self) -> Self:
        return self  # plans do not change

    def __deepcopy__(self, memo: object) -> Self:
        return self


class _Flattening:
    """The entries of a plan, in topological order."""

    def __init__(
        self, scans: Sequence[Scan], pack_array: PackArray, materialize: Callable[[Relation], Relation]
    ) -> None:
        self._pack_array, self._materialize = pack_array, materialize
        self._entries: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._arrays: dict[int, Any] = {}
        self._functions: dict[int, Any] = {}
        for node in nodes_below(scans):
            placed = node.with_inputs([self._refer(scan) for scan in node.scans])
            self._numbers[node] = len(self._entries)
            self._entries.append(self._pack_node(placed))
        roots = [self._refer(scan) for scan in scans]
        labels: _Labels = {}
        if len(scans) == 1 and scans[0].step is not None:
            labels = {axis: self._pack_labels(each) for axis, each in scans[0].step.labels.items()}
        self.flat = self._entries, roots, labels

    def _number(self, source: Relation | Node) -> int:
        """Return the number of a source; a relation is added when it is first met."""
        number = self._numbers.get(source.token)
        if number is None:
            assert not isinstance(source, Node)
            number = self._numbers[source.token] = len(self._entries)
            self._entries.append(self._pack_relation(source))
        return number

    def _refer(self, scan: Scan) -> Scan:
        """Return a scan with the number of its source."""
        return Scan(self._number(scan.source), scan.view, scan.schema)  # type: ignore[arg-type]

    def _pack_relation(self, relation: Relation) -> Any:
        if not isinstance(relation, Snapshot | MemoryRelation):
            relation = self._materialize(relation)
        if isinstance(relation, Snapshot):
            return StoredSource(relation.path, relation.version, relation.further_orders)
        if isinstance(relation, MemoryRelation):
            labels = {dim: found for dim in relation.label_keys if (found := relation.labels(dim)) is not None}
            coords = tuple(map(self._pack, relation.block.coords))
            values = self._pack(relation.block.values)
            return MemorySource(relation.schema, coords, values, labels, isinstance(relation, CSRRelation))
        return relation

    def _pack(self, array: NDArray[Any]) -> Any:
        """Pack an array, once if it occurs several times."""
        found = self._arrays.get(id(array))
        if found is None:
            found = self._arrays[id(array)] = self._pack_array(array)
        return found

    def _pack_node(self, node: Any) -> Any:
        """Return a node with packed arrays and functions."""
        if isinstance(node, Map):
            function = self._pack_function(node.function)
            return replace(node, function=function, operands=tuple(map(self._pack_operand, node.operands)))
        if isinstance(node, Contraction):
            semiring, score = self._pack_semiring(node.semiring), node.score
            if score is not None:
                score = replace(score, function=self._pack_function(score.function))
            operands = tuple(map(self._pack_operand, node.operands))
            return replace(node, operands=operands, semiring=semiring, score=score)
        return node

    def _pack_operand(self, operand: Any) -> Any:
        return Dense(self._pack(operand.array)) if isinstance(operand, Dense) else operand

    def _pack_semiring(self, semiring: Semiring) -> Semiring:
        add, multiply = (
            self._pack_function(each) if callable(each) else each for each in (semiring.add, semiring.multiply)
        )
        return semiring if (add, multiply) == (semiring.add, semiring.multiply) else replace(
            semiring, add=add, multiply=multiply
        )  # fmt: skip

    def _pack_function(self, function: Callable[..., Any]) -> Any:
        if isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is function:
            return function
        found = self._functions.get(id(function))
        if found is None:
            found = self._functions[id(function)] = _PortableFunction(function)
        return found

    def _pack_labels(self, labels: AxisLabels) -> StoredLabels | pa.Array:
        if labels.origin is None or not isinstance(labels.origin[0], Snapshot):
            return labels.array()
        relation, dim, positions = labels.origin
        return StoredLabels(self._number(relation), dim, positions)


class _PortableFunction:
    """A function of a plan that pickles as that function, or by value."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            if b"__main__" not in pickle.dumps(self.function):
                return _same, (self.function,)
            problem = "it belongs to __main__, which other processes do not have"
        except (AttributeError, TypeError, ValueError, pickle.PicklingError) as error:
            problem = str(error)
        try:
            from cloudpickle import dumps, loads
        except ImportError:
            remedy = "pip install cloudpickle, define it in a module, or compute() first"
        else:
            remedy = "define it in a module, without objects that belong to this process, or compute() first"
            try:
                return loads, (dumps(self.function),)
            except Exception as error:  # noqa: BLE001 - of whatever the function refers to
                problem = f"{type(error).__name__}: {error}"
        raise UnsupportedError(f"{function_name(self.function)} must be a picklable function, got {problem}: {remedy}")


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _open_plan(entries: Sequence[Any], roots: Sequence[Scan], labels: _Labels) -> list[Scan]:
    """Return the roots of a flat plan."""
    opened: list[Any] = []

    def resolve(scan: Scan) -> Scan:
        source = opened[scan.source]  # type: ignore[call-overload]
        view: View = scan.view
        view.check(source.schema.shape)
        return Scan(source, view, source.schema.with_view(view, scan.schema.stype))

    for entry in entries:
        if isinstance(entry, Node):
            opened.append(entry.with_inputs([resolve(scan) for scan in entry.scans]))
        else:
            opened.append(entry.open() if isinstance(entry, StoredSource | MemorySource) else entry)
    found = [resolve(scan) for scan in roots]
    if labels:
        node = found[0].source
        assert isinstance(node, Node)
        node.with_labels({axis: _open_labels(each, opened) for axis, each in labels.items()})
    return found


def _open_labels(labels: StoredLabels | pa.Array, opened: Sequence[Any]) -> AxisLabels:
    if not isinstance(labels, StoredLabels):
        return AxisLabels.of(labels)
    relation = opened[labels.number]
    return dimension_labels(relation, labels.dim, relation.label_keys[labels.dim]).take(labels.positions)
