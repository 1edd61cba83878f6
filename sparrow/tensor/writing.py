"""What tensors offer to write with. What a write means is in assignment, how it is committed in editing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from sparrow import engines, storage
from sparrow.core.indexing import View
from sparrow.errors import (
    DuplicateError,
    IndexingError,
    InvalidValueError,
    LabelError,
    ReadOnlyError,
    UnsupportedError,
)
from sparrow.interop.conversion import columns_to_append, from_appended_table, from_object
from sparrow.kernels.coo import Duplicates, check_duplicates
from sparrow.plan import Scan, axis_labels, fit_to_target
from sparrow.relations.base import Handle, MemoryRelation
from sparrow.tensor import editor
from sparrow.tensor.assignment import assignment, placed, placement
from sparrow.tensor.base import Base, counted_masks

__all__ = ["Writing"]


class Writing(Base):
    """Writes to live tensors: each is one atomic commit that the base and all views of it show."""

    __slots__ = ()
    _read_path: ClassVar[Callable[..., Any]]
    """Returns what a path names as a table or a tensor; the readers of files, which are above, say how."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write cells in one atomic commit; a value that equals fill removes the entry.

        The files that hold the cells are rewritten, whatever the number of cells in each.
        """
        handle = self._writable()
        key = counted_masks(key)
        view = self._view.then(key, "paired", self.dims)
        editor.commit(handle, assignment(handle.current.schema, view, placed(handle.current, view, value)))

    def put(self, coords: ArrayLike, values: ArrayLike) -> None:
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
        editor.commit(handle, placement(self._base.schema, self._view, coords, values, self.dims))

    def edit(self) -> editor.Editor:
        """Gather many writes into one atomic commit, made when the block ends well.

        Later writes win over earlier ones; an exception in the block discards all of them.

        Returns
        -------
        Editor
            A context manager to write to as to the tensor: items, ``put``.

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
        return editor.Editor(self._writable(), self._view, self._schema, counted_masks)

    def append(self, other: Any, duplicates: str = "error", value: str | None = None, **reading: Any) -> None:
        """Add the entries of ``other`` in one atomic commit: by label where both have some, else by position.

        Labels that a dimension does not have yet make it longer, in the same commit; a label has one coordinate
        whoever else is appending. A tensor that is appended to a stored one is streamed and may be larger than memory.
        Many small appends write what is new and little more: entries between those that are there stand beside their
        files until there are as many of them (``sp.config(append_runs=)``, ``compact``). Only those that change cells
        which are there have the files written anew that hold them, and cost more the more is stored: where a hundred
        wrote a hundred times what they brought, a ``PerformanceWarning`` says so.

        Parameters
        ----------
        other
            A tensor, or anything :func:`sparrow.asarray` takes, of the same shape where it has no labels. Or a table,
            or the path of one: a file, a pattern or a folder of what :func:`sparrow.ingest.columns` reads, ``"-"`` for
            standard input, or a stored tensor. Columns are taken by the names of the dimensions, and the values are in
            the column ``value``, or in the one that is left.
        duplicates
            What becomes of a cell that both have, or a table twice: "error", "sum", "last" (the new), "first" (the
            old), "min", "max". Values that equal the fill are no entries, so they leave a cell of this tensor as it
            is: it is cleared by ``put``, or ``A[i, j] = 0``.
        value
            The column of a table that has the values, and others than it and the dimensions are passed over.
        **reading
            How files are read, as :func:`sparrow.ingest.columns` says it: ``header``, ``delimiter``, ``quotes``,
            ``comment``, ``encoding``, ``decimal`` and ``format``; ``coords`` are the columns of the dimensions, in
            their order, where they are not called the same.

        Raises
        ------
        DuplicateError
            If both have a cell and ``duplicates`` is "error", or a table has one twice.
        ShapeError
            If the shapes differ.
        IndexingError
            If a coordinate of a table lies beyond the shape.
        LabelError
            If a column is missing, names of dimensions or types of labels do not fit, or new labels are for a view.
        InvalidValueError
            If the fill values differ, there is no such rule for duplicates or option of reading, or what is appended is
            no file.
        ReadOnlyError
            If the tensor is a copy, an expression or an opened version.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[1, 0], [0, 2]])
        >>> A.append([[5, 3], [0, 0]], duplicates="sum")
        >>> A.to_numpy()
        array([[6, 3],
               [0, 2]])
        >>> import polars as pl
        >>> stars = sp.from_coords([[0, 1]], [4, 3], dims=["user"], labels={"user": ["ann", "bob"]})
        >>> stars.append(pl.DataFrame({"user": ["eve", "dan"], "stars": [5, 2]}))
        >>> stars.labels("user").to_pylist(), stars.to_numpy()
        (['ann', 'bob', 'dan', 'eve'], array([4, 3, 2, 5]))
        """
        rule = check_duplicates(duplicates)
        handle = self._writable()
        scan = self._given(other, rule, value, reading)
        found, more = fit_to_target(scan, self.__sparrow_scan__())
        if not more:
            editor.check_appended(found.schema, self._schema, {})
            try:
                editor.append(handle, self._view, lambda: engines.iter_sorted_blocks(found), rule)
            except DuplicateError as error:
                raise error.by_label(_told(handle)) from None
            return
        if not self._view.is_identity:
            dim, labels = next((self.dims[axis], labels) for axis, labels in more.items())
            raise LabelError(
                f"append: dimension {dim!r} has no label {labels[0].as_py()!r}, and a view does not grow: append to "
                "the tensor that it was taken from"
            )
        try:
            editor.grow(handle, scan, rule)
        except DuplicateError as error:  # a cell that is there has labels that were
            raise error.by_label(_told(handle)) from None

    def _given(self, other: Any, duplicates: Duplicates, value: str | None, reading: Mapping[str, Any]) -> Scan:
        """Return what is to be appended as a scan; columns of a table are taken by the names of the dimensions."""
        is_path = isinstance(other, str | os.PathLike) and not os.fspath(other).endswith(".npz")
        if reading and not is_path:
            raise InvalidValueError(f"append: {', '.join(reading)}: only tables in files are read with options")
        if isinstance(other, Base):
            return other.__sparrow_scan__()
        kinds = {axis: names.array().type for axis, names in axis_labels(self.__sparrow_scan__()).items()}
        if is_path:
            pick = partial(columns_to_append, target=self._schema, value=value)
            dims = {dim: kinds.get(axis) for axis, dim in enumerate(self.dims)}
            other = self._read_path(other, pick, dims, reading)
            if isinstance(other, Base):
                return other.__sparrow_scan__()
        is_table = hasattr(other, "__arrow_c_stream__") or hasattr(other, "collect_batches")
        if is_table and not hasattr(other, "__sparrow_entries__"):
            try:
                relation = MemoryRelation(*from_appended_table(other, self._schema, kinds, duplicates, value))
            except IndexingError as error:
                raise IndexingError(f"append: {error}; resize() makes room") from None
        else:
            relation = MemoryRelation(*from_object(other))
        return Scan(relation, View.identity(relation.schema.shape), relation.schema)

    def resize(self, *shape: int | Sequence[int]) -> None:
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
        editor.commit(handle, editor.resizing(base.schema, lambda dim: base.labels(dim) is not None, wanted))

    def _writable(self) -> Handle:
        if self._handle is None or self._taken.points or getattr(self._handle, "read_only", False):
            raise ReadOnlyError(
                "this tensor is read-only: a view through a list or mask and asformat(...) are copies, an expression "
                "is no place to write to, and an opened version stays as it was; write to the tensor it came from, or "
                "compute() first"
            )
        return self._handle


def _told(handle: Handle) -> list[Any]:
    """Return the labels of all dimensions, None of those without, as an error tells them.

    Those of the latest version: a cell that another writer has brought may have labels that this one has not seen.
    """
    current = handle.current if handle.path is None else storage.open(handle.path).current
    found = [current.labels(dim) for dim in range(current.schema.ndim)]
    return [None if names is None else names.to_pylist() for names in found]
