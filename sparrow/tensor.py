"""Tensor: what people hold. A base (files or memory) and a view of it; everything else is elsewhere.

A live tensor shares a handle with its base and all views of it: a commit through any of them shows
in all. A pinned tensor (a view through a list or mask, or an opened version) keeps one relation.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from sparrow import display, editing, engines, exports, pictures, storage
from sparrow.assignment import assignment, check_kind, placement
from sparrow.conversion import from_object
from sparrow.errors import (
    IndexingError,
    InvalidValueError,
    LabelError,
    ReadOnlyError,
    ShapeError,
    StorageError,
    UnsupportedError,
)
from sparrow.index import Listed, Mask, Mode, Range, View, check_permutation
from sparrow.kernels.entries import Block, check_duplicates
from sparrow.operators import Operators
from sparrow.plan import Contract, Dense, Scan
from sparrow.relation import (
    Handle,
    MemoryHandle,
    MemoryRelation,
    Relation,
    arrow_schema,
    arrow_table,
    label_position,
)
from sparrow.schema import Schema, is_fill

if TYPE_CHECKING:
    import os

    import polars
    import scipy.sparse

__all__ = ["Tensor", "matmul"]

Engine = Literal["auto", "duckdb", "stream"]


class Tensor(Operators):
    """A sparse array: a view of entries that are stored or in memory.

    Made by :func:`sparrow.open`, :func:`sparrow.from_coords` and :func:`sparrow.asarray`, and by indexing.
    Indexing is NumPy's and lazy: it reads nothing, except that one cell is read at once and
    that a sparse mask is counted.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2], [1, 2, 0]], [2.0, 3.0, 1.0], shape=(3, 4))
    >>> A
    <Tensor (d0: 3, d1: 4) float64 nnz=3 coo in memory>
    >>> A[1:, 2].to_numpy()
    array([3., 0.])
    >>> A @ [1, 1, 1, 1]
    array([2., 3., 1.])
    """

    __slots__ = ("_counted", "_fitted", "_handle", "_relation", "_taken")

    def __init__(self, source: Handle | Relation, view: View | None = None) -> None:
        self._handle: Handle | None = None
        self._relation: Relation | None = None
        if isinstance(source, Handle):
            self._handle = source
        else:
            self._relation = source
        base = self._base.schema
        self._taken = View.identity(base.shape) if view is None else view
        self._fitted = (self._taken, base.through(self._taken))
        self._counted: tuple[Any, int] | None = None

    @property
    def _base(self) -> Relation:
        """The relation in force."""
        if self._handle is not None:
            return self._handle.current
        assert self._relation is not None
        return self._relation

    def _through(self, base: Schema) -> tuple[View, Schema]:
        """Return the view, as it was taken or refitted to another shape of the base, and what it shows."""
        found = self._fitted
        if found[0].base_shape != base.shape:
            view = editing.refit(self._taken, base.dims, base.shape)
            found = self._fitted = (view, base.through(view))
        return found

    @property
    def _view(self) -> View:
        return self._through(self._base.schema)[0]

    @property
    def _schema(self) -> Schema:
        try:
            return self._through(self._base.schema)[1]
        except ShapeError:  # a view that a resize cut off still says what it was
            return self._base.schema.through(self._taken)

    def __sparrow_scan__(self) -> Scan:
        """Return the plan of reading this tensor, pinned to the relation in force."""
        base = self._base
        return Scan(base, *self._through(base.schema))

    # -- what it is -----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each dimension."""
        return self._schema.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._schema.ndim

    @property
    def size(self) -> int:
        """The number of cells, absent ones included."""
        return self._schema.size

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the dimensions."""
        return self._schema.dims

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return self._schema.dtype

    @property
    def fill_value(self) -> Any:
        """The value of absent cells, a NumPy scalar."""
        return self._schema.fill_value

    @property
    def stype(self) -> str:
        """The storage type."""
        return self._schema.stype

    @property
    def version(self) -> int | None:
        """The version of a stored tensor, None in memory."""
        return self._base.version

    @property
    def nbytes(self) -> int:
        """Bytes of the base's data files, or of its arrays in memory."""
        return self._base.nbytes

    @property
    def path(self) -> str | None:
        """Where the tensor is stored, None in memory."""
        return self._handle.path if self._handle is not None else None

    @property
    def nnz(self) -> int:
        """The number of cells that differ from fill. Of a base this is known; a view is counted once a version."""
        known = self._known_nnz()
        if known is None:
            scan = self.__sparrow_scan__()
            known = engines.count(scan)
            self._counted = (scan.relation.token, known)
        return known

    def _known_nnz(self) -> int | None:
        base = self._base
        try:
            view = self._through(base.schema)[0]
        except ShapeError:
            return None
        if view.is_identity:
            return base.known_nnz if isinstance(base, engines.Derived) else base.nnz
        if view.size == 0:
            return 0
        if self._counted is not None and self._counted[0] == base.token:
            return self._counted[1]
        return None

    @property
    def density(self) -> float:
        """The share of cells that differ from fill, nnz / size; NaN where there are no cells."""
        return self.nnz / self.size if self.size else math.nan

    def __len__(self) -> int:
        if not self.ndim:
            raise UnsupportedError("a tensor without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise InvalidValueError(
                f"the truth of a tensor of shape {self.shape} is ambiguous: compare nnz, or read one cell"
            )
        return bool(self.to_numpy().reshape(-1)[0])

    @property
    def _is_lazy(self) -> bool:
        """Whether this is a view of an expression."""
        return isinstance(self._relation, engines.Derived)

    def __repr__(self) -> str:
        known = self._known_nnz()
        return display.one_line(
            self.shape, self.dims, self.dtype, known, self.stype, self.path, self.version, self._is_lazy
        )

    def _repr_html_(self) -> str:
        """Return shape, entries and bytes as a small table, with a picture of at most 96 row groups."""
        picture = None
        if self.ndim and self.size and not self._is_lazy and pictures.can_draw():
            with contextlib.suppress(StorageError):  # a tensor whose files are gone can still be named
                found = self._density((0, self.ndim - 1), 120, sample=True)
                picture = pictures.data_url(found, (self.dims[0], self.dims[-1]))
        nbytes = None if self._is_lazy else self.nbytes
        return display.html(
            self.shape, self.dims, self.dtype, self._known_nnz(), self.stype, self.path, self.version, nbytes,
            self.fill_value, self._is_lazy, picture,
        )  # fmt: skip

    def _density(self, axes: tuple[int, int], bins: int, sample: bool) -> engines.DensityMap:
        flat = self if self.ndim > 1 else self[None]
        return engines.density(flat.__sparrow_scan__(), axes if self.ndim > 1 else (0, 1), bins, sample)

    def spy(self, axes: tuple[int, int] = (0, -1), bins: int = 400, ax: Any = None, sample: bool = False) -> Any:
        """Draw where the entries are: a density map over two axes, by one scan. Needs Matplotlib.

        Parameters
        ----------
        axes
            The axes down and across; entries of all others are added up.
        bins
            Cells of the picture along each axis.
        ax
            Matplotlib axes to draw into; new ones by default.
        sample
            Read at most 96 row groups, evenly spread, and estimate the rest.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            If Matplotlib is not installed.
        ShapeError
            If the tensor has no such axes.
        """
        if not self.ndim or any(not -self.ndim <= axis < self.ndim for axis in axes):
            raise ShapeError(f"axes {axes} are out of range for {self.ndim} dimensions")
        down, across = (axis % self.ndim for axis in axes)
        found = self._density((down, across), bins, sample)
        names = (self.dims[down], self.dims[across]) if self.ndim > 1 else ("", self.dims[0])
        title = f"{self.nnz:,} entries of {display.human_count(self.size)} cells"
        return pictures.draw(found, names, title, ax)

    # -- views ----------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """Return the view that NumPy's indexing rules give; one cell is read at once."""
        return self._index(key, "paired")

    @property
    def oindex(self) -> _Indexer:
        """Indexing that crosses lists, each in its place: ``A.oindex[[0, 2], [1, 3]]`` has shape (2, 2)."""
        return _Indexer(self, "orthogonal")

    @property
    def vindex(self) -> _Indexer:
        """Indexing that pairs lists and puts their axes first."""
        return _Indexer(self, "pointwise")

    @property
    def T(self) -> Tensor:
        """The view with its axes reversed."""
        return self.transpose()

    def transpose(self, *axes: int | Sequence[int]) -> Tensor:
        """Return the view with its axes in the order ``axes``, reversed by default.

        Raises
        ------
        ShapeError
            If ``axes`` does not name each axis once.
        """
        wanted: Any = axes[0] if len(axes) == 1 and not isinstance(axes[0], int | np.integer) else axes
        order = tuple(reversed(range(self.ndim))) if not axes or wanted is None else tuple(wanted)
        return self._with(self._view.permute(check_permutation(order, self.ndim)))

    def sel(self, labels: Mapping[str, Any] | None = None, /, **by_name: Any) -> Any:
        """Return the view at labels: ``A.sel(src="example.org")``; lists of labels cross.

        Parameters
        ----------
        labels
            Labels by dimension name, where a name is no Python identifier.
        **by_name
            Labels by dimension name: one label drops the dimension, a list keeps it.

        Raises
        ------
        LabelError
            If a dimension or a label does not exist.
        """
        wanted = {**(labels or {}), **by_name}
        key: list[Any] = [slice(None)] * self.ndim
        for name, label in wanted.items():
            if name not in self.dims:
                raise LabelError(f"no dimension {name!r}: there are {', '.join(map(repr, self.dims))}")
            axis = self.dims.index(name)
            names = self.labels(name)
            if isinstance(label, list | tuple | np.ndarray):
                key[axis] = [label_position(names, one, name) for one in label]
            else:
                key[axis] = label_position(names, label, name)
        return self._index(tuple(key), "orthogonal")

    def labels(self, dim: str | int) -> pa.Array | None:
        """Return the labels of a dimension, position = index, or None where it has none.

        Raises
        ------
        LabelError, IndexingError
            If there is no dimension of this name, or number.
        """
        if isinstance(dim, str) and dim not in self.dims:
            raise LabelError(f"no dimension {dim!r}: there are {', '.join(map(repr, self.dims))}")
        axis = self.dims.index(dim) if isinstance(dim, str) else dim
        if not -self.ndim <= axis < self.ndim:
            raise IndexingError(f"dimension {axis} is out of range for a tensor of {self.ndim} dimensions")
        found = self._view.axes[axis]
        if isinstance(found, Range):
            names = self._base.labels(found.dim)
            if names is None or (found.start == 0 and found.step == 1 and found.length == len(names)):
                return names
            return names.take(pa.array(found.start + found.step * np.arange(found.length)))
        if isinstance(found, Listed):
            group = self._view.points[found.group]
            if len(group.dims) == 1 and len(group.shape) == 1:
                names = self._base.labels(group.dims[0])
                return None if names is None else names.take(pa.array(group.coords[0]))
        return None

    def _with(self, view: View) -> Tensor:
        live = self._handle is not None and not view.points and view.repeats <= 1
        return Tensor(self._handle if live and self._handle is not None else self._base, view)

    def _index(self, key: Any, mode: Mode) -> Any:
        key = _counted_masks(key)
        view = self._view.then(key, mode, self.dims)
        if view.ndim == 0 and not _has_ellipsis(key):
            return engines.cell(self._base, view)
        return self._with(view)

    # -- writing --------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write cells in one atomic commit; a value that equals fill removes the entry.

        The files that hold the cells are rewritten, whatever the number of cells in each.
        """
        handle = self._writable()
        key = _counted_masks(key)
        view = self._view.then(key, "paired", self.dims)
        editing.commit(handle, assignment(self._base.schema, view, value))

    def put(self, coords: Any, values: Any) -> None:
        """Write cells by coordinate in one atomic commit; of equal coordinates the last wins.

        What a call costs: every file that holds one of the cells is read and written anew, 32 to 128 MB
        each, and one version is added to the log. A cell costs as much as a million cells of the
        same files, so write many at once, here or with :meth:`edit`. In memory the arrays are copied.

        Parameters
        ----------
        coords
            Shape (ndim, n), counted from 0, negative from the end.
        values
            A scalar or shape (n,). A value that equals fill removes the entry.

        Raises
        ------
        ShapeError
            If ``coords`` is not (ndim, n), or ``values`` neither a scalar nor (n,).
        IndexingError
            If a coordinate is no integer, or out of range.
        UnsupportedError, InvalidValueError
            If the dtype cannot hold the values.
        ReadOnlyError
            If the tensor is a copy, an expression or an opened version.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.zeros((2, 3), dtype="int64")
        >>> A.put([[0, 1, -1], [1, 2, 2]], [5, 6, 7])
        >>> A.to_numpy()
        array([[0, 5, 0],
               [0, 0, 7]])
        """
        handle = self._writable()
        editing.commit(handle, placement(self._base.schema, self._view, coords, values, self.dims))

    def edit(self) -> editing.Editor:
        """Gather many writes into one atomic commit, made when the block ends well.

        Later writes win over earlier ones; an exception in the block discards all of them.

        Raises
        ------
        ReadOnlyError
            If the tensor is a copy, an expression or an opened version.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.zeros((2, 3), dtype="int64")
        >>> with A.edit() as e:
        ...     e[0] = 1
        ...     e[:, 1] = [7, 8]
        ...     e.put([[1], [2]], 9)
        >>> A.to_numpy()
        array([[1, 7, 1],
               [0, 8, 9]])
        """
        return editing.Editor(self._writable(), self._view, self._schema, _counted_masks)

    def append(self, other: Any, duplicates: str = "error") -> None:
        """Add the entries of ``other``, in the same coordinates, in one atomic commit.

        What is appended to a stored tensor is streamed and may be larger than memory.

        Parameters
        ----------
        other
            A tensor, or anything :func:`sparrow.asarray` takes, of the same shape.
        duplicates
            What becomes of a cell that both have: "error", "sum", "last" (the new), "first" (the old), "min", "max".

        Raises
        ------
        DuplicateError
            If both have a cell and ``duplicates`` is "error".
        ShapeError
            If the shapes differ.
        InvalidValueError
            If the fill values differ.
        """
        rule = check_duplicates(duplicates)
        handle = self._writable()
        if isinstance(other, Tensor):
            scan = other.__sparrow_scan__()
            schema, parts = scan.schema, lambda: engines.sorted_blocks(scan)
        else:
            schema, block = from_object(other)
            parts = lambda: iter((block,))  # noqa: E731
        if schema.shape != self.shape:
            raise ShapeError(f"append: the shapes must be equal, got {self.shape} and {schema.shape}")
        check_kind(schema.dtype, self.dtype)
        if not is_fill(np.asarray([schema.fill_value]), self.fill_value)[0]:
            raise InvalidValueError(
                f"append: the fill values must be equal, got {self.fill_value} and {schema.fill_value}"
            )
        editing.append(handle, self._view, parts, rule)

    def resize(self, *shape: Any) -> None:
        """Change the shape in one atomic commit: new cells are fill, entries outside the new shape go.

        The number of dimensions stays. Every tensor that is the whole of this one takes the new shape;
        views of parts keep their cells, and raise ``ShapeError`` where some are no more. Growing writes
        no data.

        Parameters
        ----------
        *shape
            The new shape, as a tuple or as integers.

        Raises
        ------
        ShapeError
            If the number of dimensions differs, or a size is negative or past 2^63 - 1.
        UnsupportedError
            If this is a view, or a dimension with labels is to grow.
        ReadOnlyError
            If the tensor is a copy, an expression or an opened version.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 2], [1, 0]], [5, 6])
        >>> A.resize(2, 4)
        >>> A.to_numpy()
        array([[0, 5, 0, 0],
               [0, 0, 0, 0]])
        """
        handle = self._writable()
        if not self._view.is_identity:
            raise UnsupportedError("a view cannot be resized: resize the tensor it was taken from")
        wanted = shape[0] if len(shape) == 1 else shape
        base = handle.current
        editing.commit(handle, editing.resizing(base.schema, lambda dim: base.labels(dim) is not None, wanted))

    def _writable(self) -> Handle:
        if self._handle is None or self._taken.points or getattr(self._handle, "read_only", False):
            raise ReadOnlyError(
                "this tensor is read-only: a view through a list or mask is a copy, an expression is no place to write "
                "to, and an opened version stays as it was; write to the tensor it came from, or compute() first"
            )
        return self._handle

    # -- computing ------------------------------------------------------------------------------

    def compute(self, engine: Engine = "auto") -> Tensor:
        """Return the tensor in memory, as a base of its own.

        Raises
        ------
        TooLargeError
            If its entries would pass the memory limit.
        """
        scan = self.__sparrow_scan__()
        block = engines.entries(scan, engine)
        labels = {axis: names for axis in range(self.ndim) if (names := self.labels(axis)) is not None}
        return Tensor(MemoryHandle(MemoryRelation(scan.schema, block, labels)))

    def explain(self, analyze: bool = False) -> str:
        """Return the plan: the predicate that reaches the scan, files and row groups read and skipped, bytes.

        With ``analyze`` it is run, and rows, bytes and time are counted.
        """
        return engines.explain(self.__sparrow_scan__(), analyze)

    def _of(self, relation: engines.Derived) -> Tensor:
        return Tensor(relation)

    def _matmul(self, left: Any, right: Any) -> Any:
        return matmul(left, right)

    # -- out of sparrow -------------------------------------------------------------------------

    def to_numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return all cells as a NumPy array.

        Raises
        ------
        TooLargeError
            If the array would pass the memory limit.
        """
        return exports.dense(self.__sparrow_scan__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, np.dtype[Any]]:
        if copy is False:
            raise InvalidValueError("a sparse tensor has no dense array to share: copy=False is not possible")
        dense = self.to_numpy()
        return dense if dtype is None else dense.astype(dtype)

    def to_scipy(self, format: str = "csr") -> scipy.sparse.sparray:
        """Return a SciPy sparse array in a format such as "csr", "csc" or "coo", its fill being 0.

        Raises
        ------
        UnsupportedError
            If the fill is not 0 or SciPy has no such values.
        """
        return exports.scipy_array(self.__sparrow_scan__(), format)

    def to_arrow(self) -> pa.Table:
        """Return the entries as an Arrow table: a column for each dimension, then ``value``; sorted."""
        return arrow_table(self._schema, engines.entries(self.__sparrow_scan__()))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the entries as Arrow record batches, sorted by the dimensions, without holding all of them."""
        for block in engines.sorted_blocks(self.__sparrow_scan__()):
            yield from arrow_table(self._schema, block).to_batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(arrow_schema(self._schema), self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def to_polars(self) -> polars.DataFrame:
        """Return the entries as a Polars data frame: a column for each dimension, then ``value``."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    # -- stored tensors -------------------------------------------------------------------------

    def save(
        self,
        path: str | os.PathLike[str],
        orders: Sequence[Sequence[int]] = (),
        overwrite: bool = False,
        profile: Literal["fast", "small"] = "fast",
    ) -> Tensor:
        """Store the tensor, in one atomic step, and return the stored one.

        Parameters
        ----------
        path
            A folder that does not exist yet.
        orders
            Further sort orders to keep, such as ``[(1, 0)]`` for fast column slices.
        overwrite
            Replace a tensor or bundle that stands there.
        profile
            "fast" to read, or "small" on disk.

        Raises
        ------
        ExistsError
            If ``path`` exists and ``overwrite`` is False.
        """
        scan = self.__sparrow_scan__()
        labels = {axis: names for axis in range(self.ndim) if (names := self.labels(axis)) is not None}
        handle = storage.save(
            path,
            scan.schema,
            engines.sorted_blocks(scan),
            profile=profile,
            overwrite=overwrite,
            labels=labels,
            orders=[check_permutation(order, self.ndim) for order in orders],
        )
        return Tensor(handle)

    def _stored(self) -> storage.StoredHandle:
        if not isinstance(self._handle, storage.StoredHandle):
            raise UnsupportedError("this tensor is not a stored one: save(path) it, or open the tensor it came from")
        return self._handle

    def refresh(self) -> None:
        """Take in the commits of other processes."""
        if self._handle is not None:
            self._handle.refresh()

    def history(self) -> list[dict[str, Any]]:
        """Return the versions, newest first: number, time, operation."""
        return self._stored().history()

    def add_order(self, order: Sequence[int]) -> None:
        """Keep the entries in a further sort order, such as ``(1, 0)`` for fast column slices."""
        self._stored().add_order(check_permutation(order, self._base.schema.ndim))

    def files(self, order: Sequence[int] | None = None) -> list[storage.FileRecord]:
        """Return the data files of the version: path, rows, bytes, first and last coordinate."""
        return self._stored().files(None if order is None else check_permutation(order, self._base.schema.ndim))

    def verify(self) -> list[storage.Finding]:
        """Return what is wrong with the files that this version references: an empty list when sound."""
        return self._stored().verify()

    def restore(self, version: int) -> None:
        """Make a new version whose entries and shape are those of an old one, in one atomic commit.

        No data is written: the files of the old version are still there, unless :meth:`vacuum` deleted them.

        Raises
        ------
        NotFoundError
            If there is no such version, or its files are gone.
        UnsupportedError
            If the tensor is in memory, which keeps no versions.
        ReadOnlyError
            If this is an opened version.
        """
        self._stored().restore(version)

    def compact(self, profile: Literal["fast", "small"] | None = None) -> None:
        """Rewrite small neighbouring files as full ones in one atomic commit; the entries stay as they are.

        Sort orders are rebuilt. In memory there is nothing to do.

        Parameters
        ----------
        profile
            "fast" to read or "small" on disk, for all files and later ones; by default they keep theirs.

        Raises
        ------
        InvalidValueError
            If there is no such profile.
        ReadOnlyError
            If this is an expression or an opened version.
        """
        if profile not in (None, "fast", "small"):
            raise InvalidValueError(f"profile={profile!r}: use 'fast' or 'small'")
        handle = self._writable()
        if isinstance(handle, storage.StoredHandle):
            handle.compact(profile)

    def vacuum(self, older_than: str | timedelta = "7 days", dry_run: bool = False) -> list[str]:
        """Delete files that no version younger than ``older_than`` uses, and return their paths.

        A horizon shorter than the longest write may take files that a live writer is about to commit.
        """
        return self._stored().vacuum(older_than, dry_run)

    def __reduce__(self) -> tuple[Any, ...]:
        base = self._base
        if isinstance(self._handle, storage.StoredHandle):
            return _reopen, (self._handle.path, base.version, self._view)
        if isinstance(base, MemoryRelation):
            names = {dim: found for dim in range(base.schema.ndim) if (found := base.labels(dim)) is not None}
            return _rebuild, (base.schema, base.block, names, self._view)
        if isinstance(base, storage.Snapshot):
            return _reopen_pinned, (base.path, base.version, self._view)
        return _rebuild, (self._schema, engines.entries(self.__sparrow_scan__()), {}, None)


def _reopen(path: str, version: int, view: View) -> Tensor:
    return Tensor(storage.open(path, version), view)


def _reopen_pinned(path: str, version: int, view: View) -> Tensor:
    return Tensor(storage.open(path, version).current, view)


def _rebuild(schema: Schema, block: Block, labels: dict[int, pa.Array], view: View | None) -> Tensor:
    return Tensor(MemoryHandle(MemoryRelation(schema, block, labels)), view)


class _Indexer:
    """``A.oindex`` and ``A.vindex``."""

    __slots__ = ("_mode", "_tensor")

    def __init__(self, tensor: Tensor, mode: Mode) -> None:
        self._tensor = tensor
        self._mode = mode

    def __getitem__(self, key: Any) -> Any:
        return self._tensor._index(key, self._mode)


def matmul(A: Any, B: Any, engine: Engine = "auto") -> Any:
    """Return the product of a tensor and a dense vector or matrix: what ``A @ x`` does.

    Parameters
    ----------
    A, B
        One of them a tensor with one or two dimensions, (M, K) or (K,); the other dense, (K, N) or (K,).
    engine
        "stream" runs row groups through kernels on several threads without loading the tensor and gives
        the same bits on any number of threads; "duckdb" runs the SQL join of ``sql/``; "auto" chooses.

    Returns
    -------
    ndarray of shape (M, N), (M,), (N,) or a scalar, of NumPy's result dtype

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    UnsupportedError
        If both are tensors or neither is.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray(np.array([[0, 2], [3, 0], [0, 0]]))
    >>> sp.matmul(A, [10, 1])
    array([ 2, 30,  0])
    """
    if isinstance(A, Tensor) and isinstance(B, Tensor):
        raise UnsupportedError(
            "a product of two tensors is not part of this version: A.to_scipy() @ B.to_scipy() where both fit in memory"
        )
    if not isinstance(A, Tensor) and not isinstance(B, Tensor):
        raise UnsupportedError("matmul needs a tensor: for two dense arrays use NumPy")
    left: Any = A.__sparrow_scan__() if isinstance(A, Tensor) else Dense(np.asarray(A))
    right: Any = B.__sparrow_scan__() if isinstance(B, Tensor) else Dense(np.asarray(B))
    return engines.matmul(Contract(left, right), engine)


def _has_ellipsis(key: Any) -> bool:
    return key is Ellipsis or (isinstance(key, tuple) and any(part is Ellipsis for part in key))


def _counted_masks(key: Any) -> Any:
    """Replace sparse masks in a key by the positions where they hold: the one index that reads."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(part, Tensor) for part in parts):
        return key
    out: list[Any] = []
    for part in parts:
        if not isinstance(part, Tensor):
            out.append(part)
        elif part.dtype != bool:
            raise IndexingError(f"a tensor of {part.dtype} is no index: use a mask of booleans")
        elif part.fill_value or not part.ndim:
            out.append(part.to_numpy())
        else:
            out.append(Mask(part.shape, engines.entries(part.__sparrow_scan__()).coords))
    return tuple(out)
