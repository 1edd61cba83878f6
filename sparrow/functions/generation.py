"""Tensors made of nothing but a rule: constant, the identity, sequences of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from sparrow.core.schema import Schema, as_integer, check_array, check_dtype, check_shape, normalize_dims
from sparrow.core.storage_types import COMPRESSED, check_stype
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.inspection import check_device
from sparrow.functions.views import as_tensor, broadcast_to, moveaxis
from sparrow.interop.conversion import check_fill
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.relations.base import MemoryHandle, MemoryRelation
from sparrow.runtime import memory
from sparrow.tensor import Tensor

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tensor_from_block",
    "zeros",
    "zeros_like",
]  # fmt: skip


def zeros(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = "float64",
    dims: Sequence[str] | None = None,
    stype: str = "coo",
    *,
    device: str | None = None,
) -> Tensor:
    """Return a tensor without entries, whatever its shape.

    Parameters
    ----------
    shape
        The sizes of the dimensions; their product may pass 2^63.
    dtype
        The type of the values; None for float64.
    dims
        The names of the dimensions, ``d0, d1, ...`` by default.
    stype
        The storage type: "coo", "csr", "csc", "row_sparse" or "dense".
    device
        "cpu", or None for it.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If there is no such storage type, or no such device.
    ShapeError
        If a size is negative, or the storage type is not for as many dimensions.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.zeros((10_000, 10_000, 100)).nnz
    0
    """
    check_device(device)
    sizes = check_shape(shape)
    schema = Schema(sizes, normalize_dims(dims), _or_float(dtype), stype=check_stype(stype, len(sizes)))
    return tensor_from_block(schema, concat_blocks([], schema.ndim, schema.dtype))


def empty(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = "float64",
    dims: Sequence[str] | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """Return a tensor to be written to: :func:`zeros`, for there is no memory to leave as it was.

    Parameters
    ----------
    shape, dtype, dims, device
        As of :func:`zeros`.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If a size is negative.
    InvalidValueError
        If there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype, dims, device=device)


def ones(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = "float64",
    dims: Sequence[str] | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """Return a tensor of fill 1 without entries.

    Parameters
    ----------
    shape, dtype, dims, device
        As of :func:`zeros`.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If a size is negative.
    InvalidValueError
        If there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.ones((2, 3))
    >>> A.nnz, A.fill_value, float(A.sum())
    (0, np.float64(1.0), 6.0)
    """
    return full(shape, 1, _or_float(dtype), dims, device=device)


def full(
    shape: int | Sequence[int],
    fill_value: Any,
    dtype: DTypeLike | None = None,
    dims: Sequence[str] | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """Return a tensor whose cells all are one value: its fill, so that there are no entries.

    Parameters
    ----------
    shape
        The sizes of the dimensions; their product may pass 2^63.
    fill_value
        The value of all cells.
    dtype
        The type of the values, NumPy's type of ``fill_value`` by default.
    dims
        The names of the dimensions, ``d0, d1, ...`` by default.
    device
        "cpu", or None for it.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If ``fill_value`` is no number, or none that the dtype can hold, or there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.full((2, 3), 7)
    >>> A.nnz, A.to_numpy()
    (0, array([[7, 7, 7],
           [7, 7, 7]]))
    """
    check_device(device)
    given = check_array(fill_value, "fill_value")
    if given.ndim or given.dtype.kind not in "biufc":
        raise InvalidValueError(f"fill_value={fill_value!r} is no number")
    kind = check_dtype(given.dtype if dtype is None else dtype)
    schema = Schema(check_shape(shape), normalize_dims(dims), kind, check_fill(fill_value, kind))
    return tensor_from_block(schema, concat_blocks([], schema.ndim, kind))


def zeros_like(tensor: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a tensor of zeros with the shape, dimension names and, unless given, type of another tensor.

    Parameters
    ----------
    tensor
        The other, or an array.
    dtype
        The type of the values.
    device
        "cpu", or None for it.

    Returns
    -------
    Tensor
        Of the storage type of the other.

    Raises
    ------
    InvalidValueError
        If there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.zeros_like(sp.asarray([[0, 2], [3, 0]])).to_numpy()
    array([[0, 0],
           [0, 0]])
    """
    return full_like(tensor, 0, dtype, device=device)


def empty_like(tensor: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a tensor of zeros with the shape, dimension names and, unless given, type of another tensor.

    Parameters
    ----------
    tensor
        The other, or an array.
    dtype
        The type of the values.
    device
        "cpu", or None for it.

    Returns
    -------
    Tensor
        Of the storage type of the other.

    Raises
    ------
    InvalidValueError
        If there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.empty_like(sp.asarray([[0, 2], [3, 0]])).to_numpy()
    array([[0, 0],
           [0, 0]])
    """
    return full_like(tensor, 0, dtype, device=device)


def ones_like(tensor: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a tensor of fill 1 with the shape, dimension names and, unless given, type of another tensor.

    Parameters
    ----------
    tensor
        The other, or an array.
    dtype
        The type of the values.
    device
        "cpu", or None for it.

    Returns
    -------
    Tensor
        Of the storage type of the other, where it can have such a fill; else it is dense.

    Raises
    ------
    InvalidValueError
        If there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.ones_like(sp.asarray([[0, 2], [3, 0]])).to_numpy()
    array([[1, 1],
           [1, 1]])
    """
    return full_like(tensor, 1, dtype, device=device)


def full_like(tensor: Any, fill_value: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return :func:`full` with the shape, dimension names and, unless given, type of another tensor.

    Parameters
    ----------
    tensor
        The other, or an array.
    fill_value
        The value of all cells.
    dtype
        The type of the values.
    device
        "cpu", or None for it.

    Returns
    -------
    Tensor
        Of the storage type of the other, where it can have such a fill; else it is "dense".

    Raises
    ------
    InvalidValueError
        If ``fill_value`` is no number, or none that the type can hold, or there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.full_like(sp.asarray([[0, 2], [3, 0]]), 7).to_numpy()
    array([[7, 7],
           [7, 7]])
    """
    tensor = as_tensor(tensor)
    like = full(tensor.shape, fill_value, tensor.dtype if dtype is None else dtype, tensor.dims, device=device)
    schema = like.__sparrow_scan__().schema
    stype = "dense" if tensor.stype in COMPRESSED and not schema.has_zero_fill else tensor.stype
    return tensor_from_block(replace(schema, stype=stype), concat_blocks([], schema.ndim, schema.dtype))


def eye(
    n_rows: int,
    n_cols: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = "float64",
    *,
    device: str | None = None,
) -> Tensor:
    """Return the matrix with ones on a diagonal.

    Parameters
    ----------
    n_rows, n_cols
        Rows and columns; as many columns as rows by default.
    k
        How far to the right of the main diagonal, negative to the left.
    dtype
        The type of the values; None for float64.
    device
        "cpu", or None for it.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If a size is negative.
    InvalidValueError
        If there is no such device.
    TooLargeError
        If the entries would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.eye(2, 3, k=1, dtype=int).to_numpy()
    array([[0, 1, 0],
           [0, 0, 1]])
    """
    check_device(device)
    schema = Schema(check_shape((n_rows, n_rows if n_cols is None else n_cols)), dtype=_or_float(dtype))
    height, width = schema.shape
    offset = as_integer(k, "k")
    row, column = max(-offset, 0), max(offset, 0)
    count = max(min(height - row, width - column), 0)
    memory.check(count * schema.element_bytes(), f"the {count} entries of the diagonal")
    if not count:
        return tensor_from_block(schema, concat_blocks([], 2, schema.dtype))
    coords = tuple(
        np.arange(at, at + count, dtype=schema.coordinate_dtype(dim)) for dim, at in enumerate((row, column))
    )
    return tensor_from_block(schema, Block(coords, np.ones(count, schema.dtype)))


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return evenly spaced numbers of a half-open interval as a tensor: every cell that is not 0 is an entry.

    Parameters
    ----------
    start
        The first number; the end where ``stop`` is not given, and the first is 0.
    stop
        The end, itself not among them.
    step
        From each number to the next.
    dtype
        The type of the values, by default NumPy's choice.
    device
        "cpu", or None for it.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If ``step`` is 0, one of them is no real number, or there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.arange(1, 10, 3).to_numpy()
    array([1, 4, 7])
    """
    check_device(device)
    kind = None if dtype is None else check_dtype(dtype)
    try:
        first, end = (0, start) if stop is None else (start, stop)
        cells = np.arange(first, end, step, dtype=kind)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise InvalidValueError(f"arange({start!r}, {stop!r}, {step!r}): {error}") from None
    return as_tensor(cells)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """Return so many evenly spaced numbers from one to another as a tensor: every cell that is not 0 is an entry.

    Parameters
    ----------
    start, stop
        The first number and the last.
    num
        How many.
    dtype
        The type of the values, float64 or complex128 by default.
    device
        "cpu", or None for it.
    endpoint
        Whether ``stop`` is among them.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If ``num`` is negative, one of them is no number, or there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linspace(0, 1, 5).to_numpy()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    check_device(device)
    count = as_integer(num, "num")
    kind = None if dtype is None else check_dtype(dtype)
    try:
        cells = np.linspace(start, stop, count, dtype=kind, endpoint=endpoint)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"linspace({start!r}, {stop!r}, {num!r}): {error}") from None
    return as_tensor(cells)


def meshgrid(*tensors: Any, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Return read-only views of vectors, each along an axis of its own and repeated along the others'.

    Parameters
    ----------
    *tensors
        Vectors, or numbers for vectors of one cell, of one type.
    indexing
        "xy": the first vector lies along the second axis and the second along the first; "ij": as they are given.

    Returns
    -------
    tuple of Tensor
        One for each vector.

    Raises
    ------
    ShapeError
        If one is no vector.
    UnsupportedError
        If their types differ.
    InvalidValueError
        If there is no such ``indexing``.

    Examples
    --------
    >>> import sparrow as sp
    >>> x, y = sp.meshgrid(sp.asarray([0, 1, 2]), sp.asarray([5, 0]))
    >>> x.to_numpy(), y.to_numpy()
    (array([[0, 1, 2],
           [0, 1, 2]]), array([[5, 5, 5],
           [0, 0, 0]]))
    """
    if indexing not in ("xy", "ij"):
        raise InvalidValueError(f"indexing={indexing!r} must be 'xy' or 'ij'")
    vectors = [as_tensor(tensor) for tensor in tensors]
    vectors = [vector if vector.ndim else vector[None, ...] for vector in vectors]
    if any(vector.ndim != 1 for vector in vectors):
        raise ShapeError(f"meshgrid takes vectors, got shapes {', '.join(str(vector.shape) for vector in vectors)}")
    if len({vector.dtype for vector in vectors}) > 1:
        types = ", ".join(str(vector.dtype) for vector in vectors)
        raise UnsupportedError(f"meshgrid takes vectors of one type, got {types}: cast them first")
    ndim = len(vectors)
    shape = tuple(len(vector) for vector in vectors)
    found = tuple(
        broadcast_to(vector[(*(None,) * k, slice(None), *(None,) * (ndim - k - 1))], shape)
        for k, vector in enumerate(vectors)
    )
    return tuple(moveaxis(grid, 0, 1) for grid in found) if indexing == "xy" and ndim > 1 else found


def _or_float(dtype: DTypeLike | None) -> np.dtype[Any]:
    return check_dtype("float64" if dtype is None else dtype)


def tensor_from_block(schema: Schema, block: Block, labels: dict[int, pa.Array] | None = None) -> Tensor:
    """Return the tensor of entries in memory.

    Parameters
    ----------
    schema
        Its own.
    block
        Canonical entries.
    labels
        Labels by dimension number.
    """
    return Tensor(MemoryHandle(MemoryRelation(schema, block, labels)))
