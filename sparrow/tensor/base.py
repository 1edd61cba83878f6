"""Base class of tensors: a source and a view of it.

The source is files, memory or an expression.

A tensor of a handle is live: it follows the commits of that handle. A tensor of a relation or of an expression is
read-only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self, overload

import numpy as np
import pyarrow as pa

from sparrow.core.indexing import RangeAxis, View
from sparrow.core.schema import Schema
from sparrow.core.storage_types import infer_view
from sparrow.errors import LabelError, ShapeError, UnsupportedError
from sparrow.interop.conversion import from_object, is_foreign_sparse
from sparrow.plan import Node, Scan, axis_by_name, axis_labels, normalize_axis
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.relations.protocol import Handle, Relation
from sparrow.tensor.records import LabelsByDim

__all__ = ["Base", "as_scan", "read_labels"]


class Base:
    """A source and a view of it. Subclasses add the operations."""

    __slots__ = ("_cached_nnz", "_fitted_view", "_handle", "_initial_view", "_source", "_stype", "_taken_at")

    def __init__(self, source: Handle | Relation | Node, view: View | None = None, stype: str | None = None) -> None:
        self._handle: Handle | None = None
        self._source: Relation | Node | None = None
        given: Any = source
        if hasattr(given, "commit"):  # isinstance of a protocol takes longer than everything else here
            self._handle = given
            relation = given.current
            base = relation.schema
            self._taken_at = relation.token
        else:
            self._source = given
            base = getattr(given, "schema", None)
            if type(base) is not Schema:
                raise UnsupportedError(f"Tensor() does not convert {type(given).__name__}: use sp.asarray(obj)")
        self._cached_nnz: tuple[Any, int] | None = None
        if view is None:
            view = View.identity(base.shape)
            self._stype = base.stype if stype is None else stype
        else:
            self._stype = infer_view(base.stype, view).stype if stype is None else stype
        self._initial_view = view
        self._fitted_view = (view, base.with_view(view, self._stype))

    def _from_node(self, node: Node) -> Self:
        return type(self)(node)

    def _convert_foreign(self, obj: Any) -> Any:
        """Convert a foreign sparse array to a tensor; return others as they are."""
        if isinstance(obj, Base) or not is_foreign_sparse(obj):
            return obj
        return type(self)(MemoryHandle(MemoryRelation(*from_object(obj))))

    @property
    def _base(self) -> Relation | Node:
        """The current relation of the handle, or the expression."""
        return self._source if self._handle is None else self._handle.current  # type: ignore[return-value]

    def _fit_view(self, base: Schema) -> tuple[View, Schema]:
        """Return the view, refitted if the base was resized, and the schema it shows."""
        found = self._fitted_view
        if found[0].base_shape != base.shape:
            view = _refit(self._initial_view, base.dims, base.shape)
            found = self._fitted_view = (view, base.with_view(view, self._stype))
        return found

    @property
    def _view(self) -> View:
        return self._fit_view(self._base.schema)[0]

    @property
    def _schema(self) -> Schema:
        try:
            return self._fit_view(self._base.schema)[1]
        except ShapeError:  # a view that a resize cut off keeps its shape
            return self._base.schema.with_view(self._initial_view, self._stype)

    def __sparrow_scan__(self) -> Scan:
        """Return the scan of this tensor, pinned to the current relation."""
        base = self._base
        return Scan(base, *self._fit_view(base.schema))

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return self._schema.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._schema.ndim

    @property
    def size(self) -> int:
        """Number of elements, absent ones included."""
        return self._schema.size

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions."""
        return self._schema.dims

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the values."""
        return self._schema.dtype

    @property
    def fill_value(self) -> Any:
        """Value of absent elements, a NumPy scalar."""
        return self._schema.fill_value

    @overload
    def labels(self, dim: None = None) -> LabelsByDim: ...
    @overload
    def labels(self, dim: str | int) -> pa.Array | None: ...
    def labels(self, dim: str | int | None = None) -> pa.Array | LabelsByDim | None:
        r"""Return the labels of a dimension in the order of positions, or None.

        Parameters
        ----------
        dim
            Name or number of the dimension; by default all that have labels.

        Returns
        -------
        pyarrow.Array or None
            Without ``dim`` a dictionary of Arrow arrays by name, which renders as a table.

        Raises
        ------
        LabelError, IndexingError
            If there is no dimension of this name or number.
        UnsupportedError
            If ``dim`` is neither a name nor a number.

        Examples
        --------
        >>> from pathlib import Path
        >>> import sparrow as sp
        >>> size = Path("stars.csv").write_text("user,film,stars\nada,7,4.5\nbob,7,3\n")
        >>> A = sp.ingest.columns("stars.csv", "stars.sparrow", coords=["user", "film"], value="stars")
        >>> A.labels("user").to_pylist(), A.labels("film")
        (['ada', 'bob'], None)
        >>> A.labels()
        dimension  size  type    labels
        ---------  ----  ------  --------------------
        user          2  string  ada, bob
        film          8          0 to 7, not labelled
        """
        if dim is None:
            found_by_axis = read_labels(self.__sparrow_scan__())
            named = {self.dims[axis]: labels for axis, labels in sorted(found_by_axis.items())}
            return LabelsByDim(named, dict(zip(self.dims, self.shape, strict=True)))
        found = axis_labels(self.__sparrow_scan__()).get(self._axis(dim))
        return None if found is None else found.array()

    def _axis(self, dim: str | int) -> int:
        """Return the number of a dimension given by name or number."""
        if isinstance(dim, str) and dim not in self.dims:
            raise LabelError(f"no dimension {dim!r}: dimensions are {', '.join(map(repr, self.dims))}")
        return self.dims.index(dim) if isinstance(dim, str) else normalize_axis(dim, self.ndim)

    def _axis_numbers(self, axes: Iterable[Any]) -> tuple[Any, ...]:
        """Return axes with names replaced by numbers."""
        if not isinstance(axes, Iterable):
            raise ShapeError(f"an order must name each of the {self.ndim} dimensions once, got {axes!r}")
        return tuple(axis_by_name(axis, self.dims) if isinstance(axis, str) else axis for axis in axes)

    @property
    def _is_lazy(self) -> bool:
        """True if this is a view of an expression."""
        return isinstance(self._source, Node)


def read_labels(scan: Scan) -> dict[int, pa.Array]:
    """Return the labels of a scan by axis. Does I/O."""
    found = axis_labels(scan)
    return {axis: names.array() for axis, names in found.items()} if found else {}


def as_scan(obj: Any) -> Scan:
    """Return the scan of a tensor, or of an object converted to one."""
    if isinstance(obj, Base):
        return obj.__sparrow_scan__()
    relation = MemoryRelation(*from_object(obj))
    return Scan(relation, View.identity(relation.schema.shape), relation.schema)


def _refit(view: View, names: tuple[str, ...], shape: tuple[int, ...]) -> View:
    """Return a view taken before the base was resized, fitted to the new shape.

    Raises
    ------
    ShapeError
        If some of its elements no longer exist.
    """
    if view.base_shape == shape:
        return view
    if view.is_identity:
        return View.identity(shape)
    if view.size == 0:
        return replace(view, base_shape=shape)
    tops = [(dim, at) for dim, at in view.fixed]
    tops += [
        (axis.dim, max(axis.start, axis.start + axis.step * (axis.length - 1)))
        for axis in view.axes
        if isinstance(axis, RangeAxis) and axis.length
    ]
    for dim, top in tops:
        if top >= shape[dim]:
            raise ShapeError(
                f"this view shows elements up to coordinate {top} of dimension {names[dim]!r}, but the tensor was "
                f"resized from {view.base_shape} to {shape}: take the view again"
            )
    return replace(view, base_shape=shape)
