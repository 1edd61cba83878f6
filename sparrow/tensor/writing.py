"""Write methods of tensors: assignment, put, edit, append and resize."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from sparrow import engines, storage
from sparrow.core.indexing import View
from sparrow.errors import (
    DuplicateError,
    InvalidValueError,
    LabelError,
    ReadOnlyError,
    UnsupportedError,
)
from sparrow.interop.conversion import columns_to_append, from_appended_table, from_object, table_of_columns
from sparrow.kernels.coo import Duplicates, check_duplicates
from sparrow.kernels.sums import SumRangeError
from sparrow.plan import Scan, axis_labels, fit_to_target
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Handle
from sparrow.runtime import progress
from sparrow.tensor import editor
from sparrow.tensor.assignment import align_value, assignment_edit, put_edit
from sparrow.tensor.base import Base
from sparrow.tensor.matching import label_operands, resolve_key, to_labelled
from sparrow.tensor.swaps import begin_write, end_write

__all__ = ["WriteMethods"]


class WriteMethods(Base):
    """Writes to live tensors, each one atomic commit."""

    __slots__ = ()
    _read_path: ClassVar[Callable[..., Any]]
    """Reads a path as a table or a tensor; set by the layer that reads files."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write elements in one atomic commit; the fill value removes them.

        Every file that holds one of the elements is rewritten. ``A[i], A[j] = A[j], A[i]`` swaps.
        """
        handle = self._writable()
        key = resolve_key(key, self)
        view = self._view.then(key, "paired", self.dims)
        value, overwrite = begin_write(handle, view, to_labelled(value, self))
        editor.commit(handle, assignment_edit(handle.current.schema, view, align_value(handle.current, view, value)))
        end_write(handle, overwrite)

    def __delitem__(self, key: Any) -> None:
        """Raise ``UnsupportedError``: a tensor keeps its shape."""
        raise UnsupportedError(
            "elements of a tensor cannot be deleted: A[i] = 0 removes what is stored there, A[1:] is a view without "
            "the first row, and resize() cuts off the end"
        )

    def put(self, coords: ArrayLike, values: ArrayLike) -> None:
        """Write elements by coordinate in one atomic commit; the last wins.

        The cost of a call: every file that holds one of the elements is read and rewritten, 32 to 128 MB each, and the
        log gains a version. One element costs as much as a million elements of the same files, so write many at once,
        here or with :meth:`edit`. In memory the arrays are copied.

        Parameters
        ----------
        coords
            Shape (ndim, n), counted from 0; negative from the end.
        values
            Scalar or shape (n,). An element equal to the fill value is removed.

        Raises
        ------
        ShapeError
            If ``coords`` is not (ndim, n), or ``values`` is neither a scalar nor (n,).
        IndexingError
            If a coordinate is not an integer, or out of range.
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
        coords, values = label_operands((coords, values))
        editor.commit(handle, put_edit(self._base.schema, self._view, coords, values, self.dims))

    def edit(self) -> editor.Editor:
        """Collect many writes into one atomic commit at the end of a ``with`` block.

        Later writes win over earlier ones; an exception in the block discards all of them.

        Returns
        -------
        Editor
            Context manager that is written to as the tensor is: by index and with ``put``.

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
        labelled = partial(to_labelled, target=self)
        return editor.Editor(self._writable(), self._view, self._schema, partial(resolve_key, target=self), labelled)

    def append(
        self,
        other: Any,
        duplicates: str = "error",
        value: str | int | None = None,
        *,
        index_base: Literal[0, 1] = 0,
        **reading: Any,
    ) -> None:
        """Append stored elements in one atomic commit, by label or position.

        Where both have labels they are matched by label, and new labels make the dimension longer in the same commit; a
        label has one coordinate, whoever else appends at the same time. An appended tensor is streamed to a stored one
        and may be larger than memory. Small appends write new runs beside the sorted files, which are merged once they
        are as large (``sp.config(append_runs=)``, :meth:`compact`). Appends that change existing elements rewrite the
        files that hold them; a ``PerformanceWarning`` reports it if a hundred appends wrote a hundred times the
        elements they brought.

        Parameters
        ----------
        other
            Tensor, or anything :func:`sparrow.asarray` accepts, of the same shape if it has no labels. Or a table, a
            dictionary of its columns, or the path of one: a file, a glob or a folder that
            :func:`sparrow.ingest.columns` reads, ``"-"`` for standard input, or a stored tensor. Columns are matched to
            dimensions by name; values are in the column ``value``, or in the remaining one.
        duplicates
            Rule for an element that both have, or a table twice: "error", "sum", "last" (the new one), "first" (the old
            one), "min", "max". Elements of ``other`` equal to the fill value are not stored, so they change nothing;
            remove an element with ``put`` or ``A[i, j] = 0``.
        value
            Column of a table that has the values, by default ``"value"`` or the only column left; columns other than
            this and the dimensions are ignored. If several are left, one must be named, in files perhaps by its number,
            from 0.
        index_base
            Number of the first coordinate in a table, 0 or 1, as in :func:`sparrow.ingest.columns`. The tensor does not
            remember the one it was ingested with. Labels stay as they are.
        **reading
            Options of reading files, see :func:`sparrow.ingest.columns`: ``header``, ``delimiter``, ``quotes``,
            ``comment``, ``encoding``, ``decimal`` and ``format``; ``coords`` names the columns of the dimensions, in
            their order, if these are named otherwise.

        Raises
        ------
        DuplicateError
            If both have an element and ``duplicates`` is "error", or a table has one twice.
        ShapeError
            If the shapes differ.
        IndexingError
            If a coordinate of a table is out of range, or below ``index_base``.
        LabelError
            If a column is missing, dimension names or label types do not match, or a view would gain labels.
        InvalidValueError
            If the fill values differ, the rule or a reading option is unknown, the path is not a file, or
            ``index_base`` is neither 0 nor 1, or 1 for what is not a table.
        NumberRangeError
            If ``duplicates="sum"`` adds integers beyond the dtype.
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
        rule = _check_rule(duplicates)
        handle = self._writable()
        if str(index_base) not in ("0", "1"):
            raise InvalidValueError(f"index_base must be 0 or 1, got {index_base!r}")
        scan = self._appended_scan(other, rule, None if value is None else str(value), reading, int(index_base))
        found, more = fit_to_target(scan, self.__sparrow_scan__())
        if not more:
            editor.check_append_schema(found.schema, self._schema, {})
            try:
                editor.append(handle, self._view, lambda: engines.iter_sorted_blocks(found), rule)
            except (DuplicateError, SumRangeError) as error:
                raise _append_error(error, handle) from None
            return
        if not self._view.is_identity:
            dim, labels = next((self.dims[axis], labels) for axis, labels in more.items())
            raise LabelError(
                f"append: dimension {dim!r} has no label {labels[0].as_py()!r}, and a view cannot grow: append to the "
                "tensor it was taken from"
            )
        try:
            editor.grow(handle, scan, rule)
        except (DuplicateError, SumRangeError) as error:
            raise _append_error(error, handle) from None

    def _appended_scan(
        self, other: Any, duplicates: Duplicates, value: str | None, reading: Mapping[str, Any], base: int
    ) -> Scan:
        """Return the appended object as a scan.

        Table columns are matched to dimensions by name.
        """
        is_path = isinstance(other, str | os.PathLike) and not os.fspath(other).endswith(".npz")
        if reading and not is_path:
            raise InvalidValueError(
                f"append: options {', '.join(reading)} require a path of a table, got {type(other).__name__}"
            )
        if isinstance(other, dict):
            other = table_of_columns(other)
        kinds = {axis: names.array().type for axis, names in axis_labels(self.__sparrow_scan__()).items()}
        if is_path:
            pick = partial(columns_to_append, target=self._schema, value=value)
            dims = {dim: kinds.get(axis) for axis, dim in enumerate(self.dims)}
            other = self._read_path(other, pick, dims, reading, value)
        is_table = hasattr(other, "__arrow_c_stream__") or hasattr(other, "collect_batches")
        is_table = is_table and not isinstance(other, Base) and not hasattr(other, "__sparrow_entries__")
        if base and not is_table:
            raise InvalidValueError(f"append: index_base=1 requires a table, got {type(other).__name__}")
        if isinstance(other, Base):
            return other.__sparrow_scan__()
        if is_table:
            relation = MemoryRelation(
                *from_appended_table(other, self._schema, kinds, duplicates, value, base, _note_appended_fill)
            )
        else:
            relation = MemoryRelation(*from_object(other, on_fill=_note_appended_fill))
        return Scan(relation, View.identity(relation.schema.shape), relation.schema)

    def resize(self, *shape: int | Sequence[int]) -> None:
        """Change the shape in one atomic commit; elements outside are removed.

        The number of dimensions stays. Tensors that show the whole base take the new shape; views of parts keep their
        elements, and raise ``ShapeError`` if some no longer exist. Growing writes no data.

        Parameters
        ----------
        *shape
            New shape, as a tuple or as integers.

        Raises
        ------
        ShapeError
            If the number of dimensions differs, or a size is negative or exceeds 2^63 - 1.
        UnsupportedError
            If this is a view, or a dimension with labels would grow.
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
        editor.commit(handle, editor.resize_edit(base.schema, lambda dim: base.labels(dim) is not None, wanted))

    def _writable(self) -> Handle:
        if self._handle is None or self._initial_view.points or getattr(self._handle, "read_only", False):
            raise ReadOnlyError(
                "this tensor is read-only: views through lists or masks, results of asformat(), expressions, and what "
                "copy and pickle make of stored tensors are copies, and an opened version never changes; write to the "
                "tensor it came from, sp.open(path) again, or compute() first"
            )
        return self._handle


def _check_rule(duplicates: Any) -> Duplicates:
    """Return the rule for duplicates; values in its place are those of ``put``."""
    try:
        return check_duplicates(duplicates)
    except InvalidValueError as error:
        if isinstance(duplicates, str):
            raise
        raise InvalidValueError(
            f"{error}; append coordinates and values as a tensor, A.append(sp.from_coords(coords, values, A.shape)), "
            "or write them with A.put(coords, values)"
        ) from None


def _note_appended_fill(count: int) -> None:
    rows = "1 row equals" if count == 1 else f"{count:,} rows equal"
    progress.write_note(f"append: {rows} the fill value and changed nothing: put() writes it")


def _append_error(error: DuplicateError | SumRangeError, handle: Handle) -> Exception:
    """Return the error about an element that was appended to."""
    labels = _latest_labels(handle)
    if isinstance(error, DuplicateError):
        return error.by_label(labels)
    return error.restate("append to A.astype({!r}) instead, saved as another tensor", labels)


def _latest_labels(handle: Handle) -> list[Any]:
    """Return the labels of the latest version, for an error message.

    Another writer may have added the labels of the duplicate since the handle was read.
    """
    current = handle.current if handle.path is None else storage.open(handle.path).current
    found = [current.labels(dim) for dim in range(current.schema.ndim)]
    return [None if names is None else names.to_pylist() for names in found]
