"""Row-sparse format: some rows of an array, dense."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from sparrow.core.array_validation import as_index
from sparrow.core.schema import Schema, check_array, check_shape, is_fill
from sparrow.errors import DuplicateError, IndexingError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.formats.container import Container, as_values, readonly
from sparrow.interop.labelled_objects import reject_mixed_labels
from sparrow.kernels.coo import Block
from sparrow.plan import match_axes
from sparrow.runtime import memory

if TYPE_CHECKING:
    import scipy.sparse

__all__ = ["RowSparse"]


class RowSparse(Container):
    """Some rows of an array, dense; the other rows are 0.

    ``dense[indices[k]] = data[k]``. Zeros within stored rows are stored, and so are rows of zeros: the list of rows
    tells which ones a gradient touched. Conversions to other formats and to tensors drop both:
    ``sp.asarray(R).to_format("row_sparse")`` has the rows with nonzero elements.

    Parameters
    ----------
    data
        Shape (rows stored, ...), at least 2-D.
    indices
        Shape (rows stored,): row numbers, from 0, ascending. int32 and int64 are kept, other integers become
        int64.
    shape
        Shape; by default (last index + 1, ...).

    Raises
    ------
    ShapeError
        If shapes contradict each other, or the shape cannot be inferred without rows.
    IndexingError
        If a row number is out of range.
    InvalidValueError, DuplicateError
        If row numbers do not ascend, or one is repeated.

    Examples
    --------
    >>> import sparrow as sp
    >>> R = sp.formats.RowSparse([[1, 2], [3, 4]], [1, 4], shape=(6, 2))
    >>> R
    <RowSparse (6, 2) int64 nnz=4 rows=2>
    >>> R.retain([0, 1]).data
    array([[0, 0],
           [1, 2]])
    """

    __slots__ = ("_indices",)
    stype = "row_sparse"
    _indices: NDArray[Any]

    def __init__(self, data: Any, indices: Any, shape: Sequence[int] | None = None) -> None:
        reject_mixed_labels((data, 0), (indices, 0))
        data = match_axes(data, indices, {0: 0}, "data", "values", "indices")
        self._data, self._indices = as_values(data), as_index("indices", indices)
        if shape is None:
            if not len(self._indices):
                raise ShapeError("shape cannot be inferred without rows: pass shape=")
            shape = (int(self._indices[-1]) + 1, *self._data.shape[1:])
        self._shape = check_shape(shape)
        self.check_format()

    @classmethod
    def _from_valid(cls, data: NDArray[Any], indices: NDArray[Any], shape: tuple[int, ...]) -> Self:
        """Return a container of arrays that are known to be valid."""
        made = cls.__new__(cls)
        made._data, made._indices, made._shape = data, indices, shape
        return made

    @property
    def indices(self) -> NDArray[Any]:
        """Numbers of the stored rows, ascending, read-only."""
        return readonly(self._indices)

    @property
    def nnz(self) -> int:
        """Number of nonzero elements."""
        return int(np.count_nonzero(self._data))

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} rows={len(self._indices)}>"

    def check_format(self, full: bool = True) -> None:
        """Raise if the arrays violate the format.

        Parameters
        ----------
        full
            Check every index; else lengths and dimensions only.

        Raises
        ------
        ShapeError
            If lengths or dimensions contradict each other.
        IndexingError
            If an index is out of range.
        InvalidValueError, DuplicateError
            If indices do not ascend, or one is repeated.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.formats.RowSparse([[1, 2]], [3], shape=(4, 2)).check_format()
        """
        data, indices, shape = self._data, self._indices, self._shape
        if len(shape) < 2:
            raise ShapeError(f"RowSparse needs at least 2 dimensions, got shape {shape}")
        if data.ndim < 2 or data.shape[1:] != shape[1:]:
            wanted = ", ".join(map(str, ("rows stored", *shape[1:])))
            raise ShapeError(f"data must have shape ({wanted}), got {data.shape}")
        if len(data) != len(indices):
            raise ShapeError(f"data must have {len(indices)} rows, one per index, got {len(data)}")
        if not full or not len(indices):
            return
        _check_ascending(indices)
        for extreme in (int(indices[0]), int(indices[-1])):
            if not 0 <= extreme < shape[0]:
                raise IndexingError(f"row {extreme} is out of range for {shape[0]} rows")

    def retain(self, rows: Any) -> RowSparse:
        """Return the container of exactly these rows, zeros if they were not stored.

        Parameters
        ----------
        rows
            Row numbers, from 0, ascending; integral numbers of any dtype.

        Returns
        -------
        RowSparse

        Raises
        ------
        UnsupportedError
            If one is not an integer below 2^63.
        IndexingError
            If one is out of range.
        InvalidValueError, DuplicateError
            If they do not ascend, or one is repeated.

        Examples
        --------
        >>> import sparrow as sp
        >>> R = sp.formats.RowSparse([[1, 2], [3, 4], [5, 6]], [0, 1, 3], shape=(4, 2))
        >>> R.retain([0, 3]).indices, R.retain([0, 3]).data
        (array([0, 3]), array([[1, 2],
               [5, 6]]))
        """
        wanted = self._check_rows(rows)
        memory.check(len(wanted) * math.prod(self._shape[1:]) * self.dtype.itemsize, f"{len(wanted)} rows")
        data = np.zeros((len(wanted), *self._shape[1:]), self.dtype)
        at, stored = self._locate(wanted)
        data[stored] = self._data[at[stored]]
        return RowSparse(data, wanted, self._shape)

    def put(self, rows: Any, data: Any) -> None:
        """Set rows in place, storing those that were not stored.

        Parameters
        ----------
        rows
            Row numbers, from 0, ascending; integral numbers of any dtype.
        data
            Elements, shape (rows, ...), cast to the dtype of the container.

        Raises
        ------
        ShapeError
            If the shape of ``data`` does not match.
        UnsupportedError, IndexingError, InvalidValueError, DuplicateError
            See :meth:`retain`.

        Examples
        --------
        >>> import sparrow as sp
        >>> R = sp.formats.RowSparse([[1, 2]], [3], shape=(4, 2))
        >>> R.put([1, 3], [[5, 6], [7, 8]])
        >>> R.indices, R.data
        (array([1, 3]), array([[5, 6],
               [7, 8]]))
        """
        reject_mixed_labels((data, 0), (rows, 0))
        data = match_axes(data, rows, {0: 0}, "data", "values", "rows")
        wanted, rows_data = self._check_rows(rows), check_array(data, "data")
        if rows_data.shape != (len(wanted), *self._shape[1:]):
            raise ShapeError(f"data must have shape {(len(wanted), *self._shape[1:])}, got {rows_data.shape}")
        for extreme in wanted[[0, -1]] if len(wanted) else ():
            if not 0 <= extreme < self._shape[0]:
                raise IndexingError(f"row {extreme} is out of range for {self._shape[0]} rows")
        at, stored = self._locate(wanted)
        if not stored.all():
            self._indices = np.insert(self._indices, at[~stored], wanted[~stored])
            self._data = np.insert(self._data, at[~stored], 0, axis=0)
            at, stored = self._locate(wanted)
        elif not self._data.flags.writeable:
            self._data = self._data.copy()
        self._data[at] = rows_data

    @staticmethod
    def _check_rows(rows: Any) -> NDArray[Any]:
        """Return ascending row numbers."""
        given = check_array(rows, "rows")
        if given.dtype.kind == "f":
            wrong = ~((given == np.floor(given)) & (np.abs(given) < 2.0**63))
            if wrong.any():
                raise UnsupportedError(f"rows must be integers below 2^63, got {given[wrong][0]}")
            given = given.astype(np.int64)
        wanted = as_index("rows", given)
        _check_ascending(wanted)
        return wanted

    def _locate(self, wanted: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool]]:
        """Return the positions of rows among those stored, and which are stored."""
        at = np.searchsorted(self._indices, wanted)
        stored = np.zeros(len(wanted), bool)
        inside = at < len(self._indices)
        stored[inside] = self._indices[at[inside]] == wanted[inside]
        return at, stored

    @classmethod
    def _from_entries(cls, schema: Schema, block: Block) -> Self:
        leading = block.coords[0]
        fresh = np.ones(len(leading), dtype=bool)
        fresh[1:] = leading[1:] != leading[:-1]
        indices = leading[fresh]
        nbytes = len(indices) * math.prod(schema.shape[1:]) * schema.dtype.itemsize
        memory.check(nbytes, f"{len(indices)} whole rows of shape {schema.shape[1:]}")
        data = np.zeros((len(indices), *schema.shape[1:]), schema.dtype)
        data[(np.cumsum(fresh) - 1, *block.coords[1:])] = block.values
        return cls._from_valid(data, indices, schema.shape)

    def _entries(self) -> Block:
        self.check_format()  # the arrays may be shared with an owner who changes them
        stored = ~is_fill(self._data, self.fill_value)
        row, *others = stored.nonzero()
        kind = self._schema().coordinate_dtype
        columns = (self._indices[row], *others)
        coords = tuple(column.astype(kind(dim), copy=False) for dim, column in enumerate(columns))
        return Block(coords, self._data[stored])

    def _with_data(self, data: NDArray[Any]) -> Self:
        return self._from_valid(data, self._indices, self._shape)

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return (self._data, self._indices)

    def _scipy(self, copy: bool) -> scipy.sparse.sparray:
        found: Container = self.asformat("csr" if self.ndim == 2 else "coo")
        return found._scipy(copy)


def _check_ascending(rows: NDArray[Any]) -> None:
    """Raise if row numbers do not ascend."""
    stuck = np.flatnonzero(rows[1:] <= rows[:-1])
    if len(stuck):
        before, after = int(rows[stuck[0]]), int(rows[stuck[0] + 1])
        if before == after:
            raise DuplicateError(f"row {after} is repeated: sum its rows first")
        raise InvalidValueError(f"row numbers must ascend, {after} follows {before}: sort them together with the rows")
