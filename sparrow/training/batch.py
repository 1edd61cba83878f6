"""Mini-batches: rows of every input, cut out of windows of rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparrow.formats import CSR
from sparrow.formats.container import check_scipy
from sparrow.interop.interchange import cupy_array, match_index_dtype, torch_csr
from sparrow.runtime import settings
from sparrow.runtime.hints import HintedAttributes
from sparrow.runtime.memory import Reservation
from sparrow.runtime.thread_pool import ordered_map

if TYPE_CHECKING:
    import cupyx.scipy.sparse
    import scipy.sparse
    import torch

__all__ = ["Batch", "CSRRows", "RowSlice", "WindowRows", "concat_rows", "gather_slices", "permute_rows"]


class Batch(HintedAttributes):
    """Mini-batch of rows with their labels, made by :func:`sparrow.batches`.

    Attributes
    ----------
    data
        Inputs by name, each a :class:`sparrow.formats.CSR`. A single input is called "X".
    label
        Labels by name: arrays whose first axis is the rows, or a ``CSR`` for a sparse label matrix. Single labels are
        called "y"; empty if there are none.
    rows
        Row numbers in ``X``, int64; padding rows come last.
    pad
        Number of padding rows at the end, which repeat rows of the beginning.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> for batch in sp.batches(np.eye(3), [5, 6, 7], batch_size=2, last_batch="pad"):
    ...     print(batch, batch.rows, batch.y)
    <Batch X: (2, 3) nnz=2> [0 1] [5 6]
    <Batch X: (2, 3) nnz=2, the last 1 of 2 rows pad> [2 0] [7 5]
    """

    __slots__ = ("data", "label", "pad", "rows")

    def __init__(self, data: dict[str, CSR], label: dict[str, Any], rows: NDArray[np.int64], pad: int = 0) -> None:
        self.data = data
        self.label = label
        self.rows = rows
        self.pad = pad

    @property
    def X(self) -> CSR:
        """Input; the first of several."""
        return next(iter(self.data.values()))

    @property
    def y(self) -> Any:
        """Labels; the first of several, None if there are none."""
        return next(iter(self.label.values()), None)

    @property
    def size(self) -> int:
        """Number of rows, padding included."""
        return len(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over ``X`` and ``y``, for ``for X, y in batches``."""
        return iter((self.X, self.y))

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {matrix.shape} nnz={matrix.nnz}" for name, matrix in self.data.items())
        return f"<Batch {inputs}{f', the last {self.pad} of {self.size} rows pad' if self.pad else ''}>"

    def to_scipy(self, name: str | None = None) -> scipy.sparse.csr_array:
        """Return an input as a SciPy array that shares its indices and values.

        Parameters
        ----------
        name
            Name of the input, the first by default.

        Returns
        -------
        scipy.sparse.csr_array

        Raises
        ------
        UnsupportedError
            If SciPy does not support the dtype.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> batch = next(iter(sp.batches(np.eye(3), batch_size=2)))
        >>> batch.to_scipy().shape
        (2, 3)
        """
        rows = self._select(name)
        if rows.dtype == np.float16:
            check_scipy(rows._schema())  # raises
        # SciPy's constructor copies arrays that are a small part of a larger one.
        out = copy(_empty_csr(rows.shape, rows.dtype))
        indptr = match_index_dtype(rows._indptr, rows._indices)
        out.data, out.indices, out.indptr = rows._data, rows._indices.astype(indptr.dtype, copy=False), indptr
        return out

    def to_torch(self, name: str | None = None) -> torch.Tensor:
        """Return an input as a PyTorch tensor (``sparse_csr``) that shares its arrays.

        Parameters
        ----------
        name
            Name of the input, the first by default.

        Returns
        -------
        torch.Tensor

        Raises
        ------
        MissingDependencyError
            If PyTorch is not installed.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> batch = next(iter(sp.batches(np.eye(3), batch_size=2)))
        >>> batch.to_torch().to("cuda")  # doctest: +SKIP
        """
        rows = self._select(name)
        out: torch.Tensor = torch_csr(rows._data, rows._indices, rows._indptr, rows.shape)
        return out

    def to_cupy(self, name: str | None = None) -> cupyx.scipy.sparse.csr_matrix:
        """Return an input in the memory of the current GPU.

        Parameters
        ----------
        name
            Name of the input, the first by default.

        Returns
        -------
        cupyx.scipy.sparse.csr_matrix

        Raises
        ------
        MissingDependencyError
            If CuPy is not installed.
        UnsupportedError
            If CuPy does not support the dtype.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> batch = next(iter(sp.batches(np.eye(3), batch_size=2)))
        >>> batch.to_cupy()  # doctest: +SKIP
        """
        return cupy_array(self.to_scipy(name), "csr")

    def _select(self, name: str | None) -> CSR:
        return self.X if name is None else self.data[name]


@lru_cache(16)
def _empty_csr(shape: tuple[int, int], dtype: np.dtype[Any]) -> scipy.sparse.csr_array:
    """Return an empty canonical array to copy; the constructor is ten times as slow."""
    import scipy.sparse

    out = scipy.sparse.csr_array(shape, dtype=dtype)
    out.has_sorted_indices = out.has_canonical_format = True
    return out


@dataclass(frozen=True, slots=True)
class CSRRows:
    """Rows in CSR form."""

    indptr: NDArray[np.int64]
    cols: NDArray[Any]
    values: NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Size of the arrays, in bytes."""
        return self.indptr.nbytes + self.cols.nbytes + self.values.nbytes

    def slice_rows(self, start: int, stop: int) -> CSRRows:
        """Return rows [start, stop) as views."""
        indptr = self.indptr[start : stop + 1]
        first, last = int(indptr[0]), int(indptr[-1])
        return CSRRows(indptr - first if first else indptr, self.cols[first:last], self.values[first:last])

    def copy(self) -> CSRRows:
        """Return a copy."""
        return CSRRows(self.indptr.copy(), self.cols.copy(), self.values.copy())


def concat_rows(parts: Sequence[CSRRows]) -> CSRRows:
    """Return rows concatenated."""
    ends = np.cumsum([part.indptr[-1] for part in parts])
    pointers = [parts[0].indptr]
    pointers += [part.indptr[1:] + end for part, end in zip(parts[1:], ends[:-1], strict=True)]
    return CSRRows(
        np.concatenate(pointers),
        np.concatenate([part.cols for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def permute_rows(parts: Sequence[CSRRows], order: NDArray[np.int64]) -> CSRRows:
    """Return concatenated rows in another order."""
    from sparrow.kernels.rows import copy_rows

    indptr = np.zeros(len(order) + 1, np.int64)
    np.cumsum(np.concatenate([np.diff(part.indptr) for part in parts])[order], out=indptr[1:])
    begins = np.empty(len(order), np.int64)
    begins[order] = indptr[:-1]
    out = CSRRows(
        indptr, np.empty(int(indptr[-1]), parts[0].cols.dtype), np.empty(int(indptr[-1]), parts[0].values.dtype)
    )
    ends = np.cumsum([0, *(len(part.indptr) - 1 for part in parts)])
    moves = [
        (part.indptr[:-1], part.indptr[1:], begins[first:last], source, target)
        for part, first, last in zip(parts, ends[:-1], ends[1:], strict=True)
        for source, target in ((part.cols, out.cols), (part.values, out.values))
    ]
    deque(ordered_map(lambda move: copy_rows(*move), moves, settings.current().threads), 0)
    return out


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Rows of every sparse input of a window, in memory, in the order of the epoch."""

    rows: NDArray[np.int64]
    """Row numbers."""
    inputs: dict[str, CSRRows]
    reservation: Reservation
    """Memory reservation, released with the object."""

    @property
    def nbytes(self) -> int:
        """Size of the arrays, in bytes."""
        return self.rows.nbytes + sum(part.nbytes for part in self.inputs.values())

    def copy_slice(self, start: int, stop: int) -> WindowRows:
        """Return a copy of rows [start, stop)."""
        inputs = {name: rows.slice_rows(start, stop).copy() for name, rows in self.inputs.items()}
        return WindowRows(self.rows[start:stop].copy(), inputs, self.reservation)


RowSlice = tuple[WindowRows, int, int]
"""Rows [start, stop) of a window."""


def gather_slices(slices: Sequence[RowSlice], name: str) -> CSRRows:
    """Return the rows of slices of one input; a single slice is not copied."""
    parts = [window.inputs[name].slice_rows(start, stop) for window, start, stop in slices]
    return parts[0] if len(parts) == 1 else concat_rows(parts)
