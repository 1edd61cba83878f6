"""Compressed rows and columns (CSR, CSC)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sparrow.core.array_validation import as_index, as_row_numbers, check_compressed
from sparrow.core.schema import Schema, check_shape, is_fill
from sparrow.errors import DuplicateError, InvalidValueError, ShapeError
from sparrow.formats.container import Container, as_values, readonly
from sparrow.interop.interchange import match_index_dtype, row_pointers
from sparrow.interop.labelled_objects import reject_mixed_labels
from sparrow.kernels.coo import Block
from sparrow.plan import check_equal_labels
from sparrow.runtime import memory

if TYPE_CHECKING:
    import scipy.sparse

__all__ = ["CSC", "CSR"]


class _Compressed(Container):
    """Base of CSR and CSC. A *line* is a row of CSR, a column of CSC."""

    __slots__ = ("_indices", "_indptr")
    _major: ClassVar[int]
    """Dimension that is compressed."""
    _line: ClassVar[str]
    _indices: NDArray[Any]
    _indptr: NDArray[Any]

    def __init__(self, data: Any, indices: Any, indptr: Any, shape: Sequence[int] | None = None) -> None:
        reject_mixed_labels((data, 0), (indices, 0))
        check_equal_labels(data, indices, ("data", "indices"))
        self._data, self._indices = as_values(data), as_index("indices", indices)
        self._indptr = as_index("indptr", indptr)
        if shape is None:
            shape = self._infer_shape()
        self._shape = self._sizes(shape)
        self.check_format()
        stored = ~is_fill(self._data, self.fill_value)
        if not stored.all():
            self._indptr = np.append(0, np.cumsum(stored))[self._indptr]
            self._data, self._indices = self._data[stored], self._indices[stored]

    @classmethod
    def _sizes(cls, shape: Sequence[int]) -> tuple[int, ...]:
        sizes = check_shape(shape)
        if len(sizes) != 2:
            raise ShapeError(f"{cls.__name__} needs a shape of 2 sizes, got {sizes}")
        return sizes

    def _infer_shape(self) -> tuple[int, int]:
        if not len(self._indices):
            raise ShapeError("shape cannot be inferred without elements: pass shape=")
        lines, across = len(self._indptr) - 1, int(self._indices.max()) + 1
        return (across, lines) if self._major else (lines, across)

    @classmethod
    def _from_valid(
        cls, data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, ...]
    ) -> Self:
        """Return a container of arrays that are known to be valid."""
        made = cls.__new__(cls)
        made._data, made._indices, made._indptr, made._shape = data, indices, indptr, shape
        return made

    @classmethod
    def from_begin_end(cls, data: Any, indices: Any, begin: Any, end: Any, shape: Sequence[int] | None = None) -> Self:
        """Return the container of four arrays, as MKL has them.

        Line i has the elements ``begin[i]`` to ``end[i]``. Lines may be in any order, with gaps between them; elements
        of no line are dropped.

        Parameters
        ----------
        data, indices
            Shape (n,): values, and their columns (CSC: rows), from 0, in any order within a line.
        begin, end
            Shape (lines,): positions in ``data``.
        shape
            Shape; by default the length of ``begin``, and the largest index + 1.

        Returns
        -------
        CSR or CSC

        Raises
        ------
        ShapeError
            If lengths differ, or a range exceeds ``data``.
        IndexingError
            If an index is out of range.
        DuplicateError
            If an index is repeated in a line.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.formats.CSR.from_begin_end([5, 2, 3, 9], [1, 0, 2, 0], [1, 0], [3, 1], shape=(2, 3))
        >>> A.to_numpy()
        array([[2, 0, 3],
               [0, 5, 0]])
        """
        reject_mixed_labels((data, 0), (indices, 0))
        check_equal_labels(data, indices, ("data", "indices"))
        values, places = as_values(data), as_index("indices", indices)
        reject_mixed_labels((begin, 0), (end, 0))
        check_equal_labels(begin, end, ("begin", "end"))
        first, last = as_index("begin", begin), as_index("end", end)
        if values.shape != places.shape:
            raise ShapeError(f"data and indices must have one shape (n,), got {values.shape} and {places.shape}")
        if len(first) != len(last):
            raise ShapeError(f"begin and end must have one position per {cls._line}, got {len(first)} and {len(last)}")
        wrong = (first < 0) | (last < first) | (last > len(values))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise ShapeError(
                f"{cls._line} {at} runs from {int(first[at])} to {int(last[at])}, outside the {len(values)} elements"
            )
        counts = last - first
        ends = np.cumsum(counts)
        at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - counts), counts)
        lines = np.repeat(np.arange(len(first)), counts)
        if shape is None:
            across = 1 + int(places[at].max(initial=-1))
            if not across:
                raise ShapeError("shape cannot be inferred without elements: pass shape=")
            shape = (across, len(first)) if cls._major else (len(first), across)
        shape = cls._sizes(shape)
        if shape[cls._major] != len(first):
            raise ShapeError(f"begin must have {shape[cls._major]} positions, one per {cls._line}, got {len(first)}")
        coords = (places[at], lines) if cls._major else (lines, places[at])
        return cls.from_coords(coords, values[at], shape, "error")

    @property
    def indices(self) -> NDArray[Any]:
        """Column (CSC: row) of each value, shape (nnz,), ascending in a line, read-only."""
        return readonly(self._indices)

    @property
    def indptr(self) -> NDArray[Any]:
        """Pointers to lines, shape (lines + 1,), read-only.

        Line i has the elements ``indptr[i]`` to ``indptr[i + 1]``. Of the four-array form ``indptr[:-1]`` is ``begin``
        and ``indptr[1:]`` is ``end``.
        """
        return readonly(self._indptr)

    def check_format(self, full: bool = True) -> None:
        """Raise if the arrays violate the format. See :meth:`Container.check_format`."""
        data, indices, indptr = self._data, self._indices, self._indptr
        lines, across = self._shape[self._major], self._shape[1 - self._major]
        if data.ndim != 1:
            raise ShapeError(f"data must be 1-D, got shape {data.shape}")
        check_compressed(data, indices, indptr, lines, across, self._line, full)
        if not full:
            return
        begins = np.zeros(len(indices) + 1, bool)
        begins[indptr] = True
        stuck = (indices[1:] <= indices[:-1]) & ~begins[1:-1]
        if stuck.any():
            at = int(np.argmax(stuck)) + 1
            where = f"{self._line} {self._line_of(at)}"
            hint = f"{type(self).__name__}.from_array of a SciPy array sorts and sums"
            if indices[at] == indices[at - 1]:
                raise DuplicateError(f"{where} has the index {int(indices[at])} twice: {hint}")
            raise InvalidValueError(
                f"indices of {where} must ascend, {int(indices[at])} follows {int(indices[at - 1])}: {hint}"
            )

    def _line_of(self, at: int) -> int:
        return int(np.searchsorted(self._indptr, at, "right")) - 1

    def _lines(self) -> NDArray[Any]:
        """Return the line of each value."""
        kind = np.int32 if self._shape[self._major] <= 2**31 else np.int64
        return as_row_numbers(self._indptr, kind)

    def _with_data(self, data: NDArray[Any]) -> Self:
        return type(self)(data, self._indices, self._indptr, self._shape)

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return (self._data, self._indices, self._indptr)


class CSR(_Compressed):
    """Compressed sparse rows.

    Row i has ``data[indptr[i]:indptr[i + 1]]`` at the columns ``indices[indptr[i]:indptr[i + 1]]``. The columns of a
    row ascend strictly; explicit zeros are dropped.

    Parameters
    ----------
    data
        Shape (nnz,).
    indices
        Shape (nnz,): columns, from 0. int32 and int64 are kept, other integers become int64.
    indptr
        Shape (rows + 1,): from 0 to nnz, not decreasing.
    shape
        Shape; by default (len(indptr) - 1, largest index + 1).

    Raises
    ------
    ShapeError
        If lengths differ, ``indptr`` does not run from 0 to nnz or decreases, or the shape cannot be inferred without
        elements.
    IndexingError
        If a column is out of range.
    InvalidValueError, DuplicateError
        If the columns of a row do not ascend, or one is repeated.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.formats.CSR([7, 8, 9], [0, 2, 1], [0, 2, 2, 3], shape=(3, 3))
    >>> A.to_numpy()
    array([[7, 0, 8],
           [0, 0, 0],
           [0, 9, 0]])
    >>> sp.asarray(A)
    <Tensor (d0: 3, d1: 3) int64 nnz=3 csr in memory>
    density 33.3 %
    d0 / d1  0  1  2
          0  7  ·  8
          1  ·  ·  ·
          2  ·  9  ·
    """

    __slots__ = ()
    stype = "csr"
    _major = 0
    _line = "row"

    @property
    def T(self) -> CSC:
        """The transpose, sharing the arrays."""
        return CSC._from_valid(self._data, self._indices, self._indptr, self._shape[::-1])

    @classmethod
    def _from_entries(cls, schema: Schema, block: Block) -> Self:
        return cls._from_valid(block.values, block.column(1), row_pointers(block, schema.shape[0]), schema.shape)

    def _entries(self) -> Block:
        self.check_format()  # the arrays may be shared with an owner who changes them
        kind = np.int32 if self._shape[1] <= 2**31 else np.int64
        return Block((self._lines(), self._indices.astype(kind, copy=False)), self._data)

    def _scipy(self, copy: bool) -> scipy.sparse.sparray:
        import scipy.sparse

        indptr = match_index_dtype(self._indptr, self._indices)
        return scipy.sparse.csr_array((self._data, self._indices, indptr), shape=self._shape, copy=copy)


class CSC(_Compressed):
    """Compressed sparse columns: :class:`CSR` with rows and columns swapped.

    Parameters
    ----------
    data
        Shape (nnz,).
    indices
        Shape (nnz,): rows, from 0. int32 and int64 are kept, other integers become int64.
    indptr
        Shape (columns + 1,): from 0 to nnz, not decreasing.
    shape
        Shape; by default (largest index + 1, len(indptr) - 1).

    Raises
    ------
    ShapeError, IndexingError, InvalidValueError, DuplicateError
        As :class:`CSR`.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.formats.CSC([1, 2, 3, 4], [2, 0, 1, 2], [0, 1, 2, 4], shape=(4, 3))
    >>> A.to_numpy()
    array([[0, 2, 0],
           [0, 0, 3],
           [1, 0, 4],
           [0, 0, 0]])
    """

    __slots__ = ()
    stype = "csc"
    _major = 1
    _line = "column"

    @property
    def T(self) -> CSR:
        """The transpose, sharing the arrays."""
        return CSR._from_valid(self._data, self._indices, self._indptr, self._shape[::-1])

    @classmethod
    def _from_entries(cls, schema: Schema, block: Block) -> Self:
        rows, columns = block.coords
        return cls._from_valid(*_group_by_line(columns, rows, block.values, schema.shape[::-1]), schema.shape)

    def _entries(self) -> Block:
        self.check_format()  # the arrays may be shared with an owner who changes them
        rows, columns, data = self._indices, self._lines(), self._data
        kind = np.int32 if self._shape[0] <= 2**31 else np.int64
        if self._shape[0] > 8 * len(rows):
            order = np.argsort(rows, kind="stable")
            return Block((rows[order].astype(kind, copy=False), columns[order]), data[order])
        data, columns, indptr = _group_by_line(rows, columns, data, self._shape)
        return CSR._from_valid(data, columns, indptr, self._shape)._entries()

    def _scipy(self, copy: bool) -> scipy.sparse.sparray:
        import scipy.sparse

        indptr = match_index_dtype(self._indptr, self._indices)
        return scipy.sparse.csc_array((self._data, self._indices, indptr), shape=self._shape, copy=copy)


def _group_by_line(
    lines: NDArray[Any], places: NDArray[Any], values: NDArray[Any], shape: tuple[int, ...]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Return data, indices and pointers of elements that ascend within each line."""
    import scipy.sparse

    memory.check(8 * (shape[0] + 1), f"the pointers of {shape[0]} rows or columns")
    plain = values.view(np.uint16) if values.dtype == np.float16 else values  # SciPy has no float16
    found = scipy.sparse.coo_array((plain, (lines, places)), shape=shape).tocsr()
    return found.data.view(values.dtype), found.indices, found.indptr.astype(np.int64)
