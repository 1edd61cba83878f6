"""Creation functions of the array API standard: constants, sequences."""

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
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.runtime import memory
from sparrow.runtime.docs import SharedText
from sparrow.tensor import Tensor

__all__ = [
    "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "meshgrid", "ones", "ones_like",
    "tensor_from_block", "zeros", "zeros_like",
]  # fmt: skip


_shared = SharedText(
    dims="""
    dims
        Names of the dimensions, ``d0, d1, ...`` by default.
    """,
    device="""
    device
        "cpu" or None.
    """,
    constant="""
    Parameters
    ----------
    shape
        Sizes of the dimensions; the size of the tensor may exceed 2^63.
    dtype
        Dtype of the values; None means float64.
    %(dims)s
    %(device)s

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If a size is negative.
    InvalidValueError
        If the device is unknown.
    """,
    like="""
    tensor
        Tensor or array whose shape, dimension names and dtype the result has.
    """,
    like_dtype="""
    dtype
        Another dtype.
    %(device)s

    Returns
    -------
    Tensor
        Of the same storage type, if that supports the fill value; otherwise "dense".
    """,
    constant_like="""
    Parameters
    ----------
    %(like)s
    %(like_dtype)s

    Raises
    ------
    InvalidValueError
        If the device is unknown.
    """,
)


@_shared
def zeros(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = "float64",
    dims: Sequence[str] | None = None,
    stype: str = "coo",
    *,
    device: str | None = None,
) -> Tensor:
    """Return a tensor of zeros, without stored elements.

    Parameters
    ----------
    shape
        Sizes of the dimensions; the size of the tensor may exceed 2^63.
    dtype
        Dtype of the values; None means float64.
    %(dims)s
    stype
        Storage type: "coo", "csr", "csc", "row_sparse" or "dense".
    %(device)s

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If the storage type or the device is unknown.
    ShapeError
        If a size is negative, or the storage type does not support the number of dimensions.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.zeros((10_000, 10_000, 100)).nnz
    0
    """
    check_device(device)
    sizes = check_shape(shape)
    schema = Schema(sizes, normalize_dims(dims), _default_float(dtype), stype=check_stype(stype, len(sizes)))
    return tensor_from_block(schema, concat_blocks([], schema.ndim, schema.dtype))


@_shared
def empty(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = "float64",
    dims: Sequence[str] | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """Return a tensor to be written to, without stored elements: :func:`zeros`.

    %(constant)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype, dims, device=device)


@_shared
def ones(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = "float64",
    dims: Sequence[str] | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """Return a tensor of fill value 1, without stored elements.

    %(constant)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.ones((2, 3))
    >>> A.nnz, A.fill_value, float(A.sum())
    (0, np.float64(1.0), 6.0)
    """
    return full(shape, 1, _default_float(dtype), dims, device=device)


@_shared
def full(
    shape: int | Sequence[int],
    fill_value: Any,
    dtype: DTypeLike | None = None,
    dims: Sequence[str] | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """Return a tensor of one value: its fill value, without stored elements.

    Parameters
    ----------
    shape
        Sizes of the dimensions; the size of the tensor may exceed 2^63.
    fill_value
        Value of all elements.
    dtype
        Dtype of the values, NumPy's dtype of ``fill_value`` by default.
    %(dims)s
    %(device)s

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If ``fill_value`` is not a number that the dtype can hold, or the device is unknown.

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
        raise InvalidValueError(f"fill_value must be a number, got {fill_value!r}")
    kind = check_dtype(given.dtype if dtype is None else dtype)
    schema = Schema(check_shape(shape), normalize_dims(dims), kind, check_fill(fill_value, kind))
    return tensor_from_block(schema, concat_blocks([], schema.ndim, kind))


@_shared
def zeros_like(tensor: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a tensor of zeros like another one.

    %(constant_like)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.zeros_like(sp.asarray([[0, 2], [3, 0]])).to_numpy()
    array([[0, 0],
           [0, 0]])
    """
    return full_like(tensor, 0, dtype, device=device)


@_shared
def empty_like(tensor: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a tensor to be written to like another one: :func:`zeros_like`.

    %(constant_like)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.empty_like(sp.asarray([[0, 2], [3, 0]])).to_numpy()
    array([[0, 0],
           [0, 0]])
    """
    return full_like(tensor, 0, dtype, device=device)


@_shared
def ones_like(tensor: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a tensor of fill value 1 like another one.

    %(constant_like)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.ones_like(sp.asarray([[0, 2], [3, 0]])).to_numpy()
    array([[1, 1],
           [1, 1]])
    """
    return full_like(tensor, 1, dtype, device=device)


@_shared
def full_like(tensor: Any, fill_value: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return a tensor of one value like another one.

    Parameters
    ----------
    %(like)s
    fill_value
        Value of all elements.
    %(like_dtype)s

    Raises
    ------
    InvalidValueError
        If ``fill_value`` is not a number that the dtype can hold, or the device is unknown.

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


@_shared
def eye(
    n_rows: int,
    n_cols: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = "float64",
    *,
    device: str | None = None,
) -> Tensor:
    """Return a matrix with ones on a diagonal.

    Parameters
    ----------
    n_rows, n_cols
        Numbers of rows and columns; square by default.
    k
        Offset from the main diagonal, positive to the right.
    dtype
        Dtype of the values; None means float64.
    %(device)s

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If a size is negative.
    InvalidValueError
        If the device is unknown.
    TooLargeError
        If the stored elements would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.eye(2, 3, k=1, dtype=int).to_numpy()
    array([[0, 1, 0],
           [0, 0, 1]])
    """
    check_device(device)
    schema = Schema(check_shape((n_rows, n_rows if n_cols is None else n_cols)), dtype=_default_float(dtype))
    height, width = schema.shape
    offset = as_integer(k, "k")
    row, column = max(-offset, 0), max(offset, 0)
    count = max(min(height - row, width - column), 0)
    memory.check(count * schema.element_bytes(), f"the {count} elements of the diagonal")
    if not count:
        return tensor_from_block(schema, concat_blocks([], 2, schema.dtype))
    coords = tuple(
        np.arange(at, at + count, dtype=schema.coordinate_dtype(dim)) for dim, at in enumerate((row, column))
    )
    return tensor_from_block(schema, Block(coords, np.ones(count, schema.dtype)))


@_shared
def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return evenly spaced numbers of a half-open interval, the non-zero ones stored.

    Parameters
    ----------
    start
        First number; or the end, with the first number 0, if ``stop`` is omitted.
    stop
        End of the interval, exclusive.
    step
        Spacing.
    dtype
        Dtype of the values, NumPy's choice by default.
    %(device)s

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If ``step`` is 0, an argument is not a real number, or the device is unknown.

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
        values = np.arange(first, end, step, dtype=kind)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise InvalidValueError(f"arange({start!r}, {stop!r}, {step!r}): {error}") from None
    return as_tensor(values)


@_shared
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
    """Return evenly spaced numbers of a closed interval.

    Parameters
    ----------
    start, stop
        First and last number.
    num
        Number of numbers.
    dtype
        Dtype of the values, float64 or complex128 by default.
    %(device)s
    endpoint
        Whether ``stop`` is included.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If ``num`` is negative, an argument is not a number, or the device is unknown.

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
        values = np.linspace(start, stop, count, dtype=kind, endpoint=endpoint)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"linspace({start!r}, {stop!r}, {num!r}): {error}") from None
    return as_tensor(values)


def meshgrid(*tensors: Any, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Return coordinate grids of vectors, read-only views.

    Parameters
    ----------
    *tensors
        Vectors, or numbers for vectors of length 1, of one dtype.
    indexing
        "xy": the first vector runs along the second axis and the second along the first; "ij": as given.

    Returns
    -------
    tuple of Tensor
        One for each vector.

    Raises
    ------
    ShapeError
        If one is not a vector.
    UnsupportedError
        If their dtypes differ.
    InvalidValueError
        If ``indexing`` is unknown.

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
        raise InvalidValueError(f"indexing must be 'xy' or 'ij', got {indexing!r}")
    vectors = [as_tensor(tensor) for tensor in tensors]
    vectors = [vector if vector.ndim else vector[None, ...] for vector in vectors]
    if any(vector.ndim != 1 for vector in vectors):
        raise ShapeError(
            f"meshgrid: operands must be vectors, got shapes {', '.join(str(vector.shape) for vector in vectors)}"
        )
    if len({vector.dtype for vector in vectors}) > 1:
        types = ", ".join(str(vector.dtype) for vector in vectors)
        raise UnsupportedError(f"meshgrid: vectors must have one dtype, got {types}: cast them first")
    ndim = len(vectors)
    shape = tuple(len(vector) for vector in vectors)
    found = tuple(
        broadcast_to(vector[(*(None,) * k, slice(None), *(None,) * (ndim - k - 1))], shape)
        for k, vector in enumerate(vectors)
    )
    return tuple(moveaxis(grid, 0, 1) for grid in found) if indexing == "xy" and ndim > 1 else found


def _default_float(dtype: DTypeLike | None) -> np.dtype[Any]:
    return check_dtype("float64" if dtype is None else dtype)


def tensor_from_block(schema: Schema, block: Block, labels: dict[int, pa.Array] | None = None) -> Tensor:
    """Return the tensor of stored elements in memory.

    Parameters
    ----------
    schema
        Schema of the tensor.
    block
        Canonical elements: sorted, unique, none equal to the fill value.
    labels
        Labels by dimension number.
    """
    return Tensor(MemoryHandle(MemoryRelation(schema, block, labels)))
