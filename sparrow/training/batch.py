"""A batch: some rows of every input, and how they are cut out of what was read."""

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
from sparrow.runtime.memory import Reservation
from sparrow.runtime.thread_pool import ordered_map

if TYPE_CHECKING:
    import cupyx.scipy.sparse
    import scipy.sparse
    import torch

__all__ = ["Batch", "Rows", "Slab", "Slice", "cut", "joined", "mixed"]


class Batch:
    """Some rows of every input and their labels, in the same order.

    Made by iterating over :func:`sparrow.batches`.

    Attributes
    ----------
    data
        The inputs by name, each a :class:`sparrow.formats.CSR`. A single input is called "X".
    label
        The labels by name: arrays whose first axis is the rows, or a ``CSR`` where labels are a sparse matrix. Single
        labels are called "y"; empty where there are none.
    rows
        The numbers that the rows have in ``X``, int64; those that pad come last, with their numbers.
    pad
        How many rows at the end only fill the batch up: they are rows of the beginning, once more.

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
        """The input; of several the first."""
        return next(iter(self.data.values()))

    @property
    def y(self) -> Any:
        """The labels; of several the first, None where there are none."""
        return next(iter(self.label.values()), None)

    @property
    def size(self) -> int:
        """The number of rows, those that pad included."""
        return len(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        """Return the input and the labels, for ``for X, y in batches``; of several the first, None for no labels."""
        return iter((self.X, self.y))

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {one.shape} nnz={one.nnz}" for name, one in self.data.items())
        return f"<Batch {inputs}{f', the last {self.pad} of {self.size} rows pad' if self.pad else ''}>"

    def to_scipy(self, name: str | None = None) -> scipy.sparse.csr_array:
        """Return an input as a SciPy array that shares its columns and values.

        Parameters
        ----------
        name
            The name of the input, the first by default.

        Returns
        -------
        scipy.sparse.csr_array

        Raises
        ------
        UnsupportedError
            If SciPy has no such values.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> batch = next(iter(sp.batches(np.eye(3), batch_size=2)))
        >>> batch.to_scipy().shape
        (2, 3)
        """
        rows = self._input(name)
        if rows.dtype == np.float16:
            check_scipy(rows._schema())  # says so
        # Given to SciPy's constructor, columns and values would be copied where they are a small part of an array.
        out = copy(_empty(rows.shape, rows.dtype))
        indptr = match_index_dtype(rows._indptr, rows._indices)
        out.data, out.indices, out.indptr = rows._data, rows._indices.astype(indptr.dtype, copy=False), indptr
        return out

    def to_torch(self, name: str | None = None) -> torch.Tensor:
        """Return an input as a PyTorch tensor of layout ``sparse_csr`` that shares its columns and values.

        Parameters
        ----------
        name
            The name of the input, the first by default.

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
        rows = self._input(name)
        out: torch.Tensor = torch_csr(rows._data, rows._indices, rows._indptr, rows.shape)
        return out

    def to_cupy(self, name: str | None = None) -> cupyx.scipy.sparse.csr_matrix:
        """Return an input in the memory of the current GPU.

        Parameters
        ----------
        name
            The name of the input, the first by default.

        Returns
        -------
        cupyx.scipy.sparse.csr_matrix

        Raises
        ------
        MissingDependencyError
            If CuPy is not installed.
        UnsupportedError
            If CuPy has no such values.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> batch = next(iter(sp.batches(np.eye(3), batch_size=2)))
        >>> batch.to_cupy()  # doctest: +SKIP
        """
        return cupy_array(self.to_scipy(name), "csr")

    def _input(self, name: str | None) -> CSR:
        return self.X if name is None else self.data[name]


@lru_cache(16)
def _empty(shape: tuple[int, int], dtype: np.dtype[Any]) -> scipy.sparse.csr_array:
    """Return rows without entries, marked as canonical, to be copied: SciPy takes ten times as long to make some."""
    import scipy.sparse

    out = scipy.sparse.csr_array(shape, dtype=dtype)
    out.has_sorted_indices = out.has_canonical_format = True
    return out


@dataclass(frozen=True, slots=True)
class Rows:
    """Compressed rows: columns and values of row k are those from ``indptr[k]`` to ``indptr[k + 1]``."""

    indptr: NDArray[np.int64]
    cols: NDArray[Any]
    values: NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.indptr.nbytes + self.cols.nbytes + self.values.nbytes

    def between(self, start: int, stop: int) -> Rows:
        """Return some rows, of the same columns and values."""
        indptr = self.indptr[start : stop + 1]
        first, last = int(indptr[0]), int(indptr[-1])
        return Rows(indptr - first if first else indptr, self.cols[first:last], self.values[first:last])

    def copied(self) -> Rows:
        """Return them in arrays of their own."""
        return Rows(self.indptr.copy(), self.cols.copy(), self.values.copy())


def joined(parts: Sequence[Rows]) -> Rows:
    """Return rows one below the other."""
    ends = np.cumsum([part.indptr[-1] for part in parts])
    pointers = [parts[0].indptr]
    pointers += [part.indptr[1:] + end for part, end in zip(parts[1:], ends[:-1], strict=True)]
    return Rows(
        np.concatenate(pointers),
        np.concatenate([part.cols for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def mixed(parts: Sequence[Rows], order: NDArray[np.int64]) -> Rows:
    """Return rows of parts, numbered one below the other, in an order."""
    from sparrow.kernels.rows import copy_rows

    indptr = np.zeros(len(order) + 1, np.int64)
    np.cumsum(np.concatenate([np.diff(part.indptr) for part in parts])[order], out=indptr[1:])
    begins = np.empty(len(order), np.int64)
    begins[order] = indptr[:-1]
    out = Rows(indptr, np.empty(int(indptr[-1]), parts[0].cols.dtype), np.empty(int(indptr[-1]), parts[0].values.dtype))
    ends = np.cumsum([0, *(len(part.indptr) - 1 for part in parts)])
    moves = [
        (part.indptr[:-1], part.indptr[1:], begins[first:last], source, target)
        for part, first, last in zip(parts, ends[:-1], ends[1:], strict=True)
        for source, target in ((part.cols, out.cols), (part.values, out.values))
    ]
    deque(ordered_map(lambda move: copy_rows(*move), moves, settings.current().threads), 0)
    return out


@dataclass(frozen=True, slots=True)
class Slab:
    """Rows of every sparse input in memory, in the order of an epoch."""

    rows: NDArray[np.int64]
    """Their numbers."""
    inputs: dict[str, Rows]
    room: Reservation
    """Of the memory limit, given back with the slab."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.rows.nbytes + sum(one.nbytes for one in self.inputs.values())

    def copied(self, start: int, stop: int) -> Slab:
        """Return some of the rows in arrays of their own."""
        inputs = {name: rows.between(start, stop).copied() for name, rows in self.inputs.items()}
        return Slab(self.rows[start:stop].copy(), inputs, self.room)


Slice = tuple[Slab, int, int]
"""The rows of a slab between two bounds."""


def cut(slices: Sequence[Slice], name: str) -> Rows:
    """Return the rows of slices of slabs of one input; of one slice without a copy."""
    parts = [slab.inputs[name].between(start, stop) for slab, start, stop in slices]
    return parts[0] if len(parts) == 1 else joined(parts)
