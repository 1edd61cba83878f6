"""Arrays of other libraries: NumPy, PyTorch, CuPy, pydata/sparse, .npz files.

Exports take schema and canonical elements, imports return coordinates, values, shape and fill value.
"""

from __future__ import annotations

import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparrow.core.array_validation import (
    as_index,
    as_row_numbers,
    check_compressed,
    check_coordinates,
    check_scipy_array,
)
from sparrow.core.schema import Schema, check_array_ndim
from sparrow.errors import (
    InvalidValueError,
    MissingDependencyError,
    PerformanceWarning,
    ShapeError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.interop.tuning import tuning
from sparrow.kernels.coo import Block, CSRBlock, write_dense
from sparrow.kernels.dispatch import is_jit_loaded
from sparrow.runtime import memory
from sparrow.runtime.caller import warn_caller
from sparrow.runtime.dependencies import missing_dependency
from sparrow.runtime.progress import format_quantity
from sparrow.storage.fs.filesystem import atomic_write, get_filesystem

if TYPE_CHECKING:
    import scipy.sparse

__all__ = [
    "Coordinates",
    "check_dense",
    "check_expansion",
    "cupy_array",
    "dense_array",
    "from_cupy",
    "from_npz",
    "from_pydata",
    "from_torch",
    "implicit_dense_array",
    "match_index_dtype",
    "pydata_array",
    "row_pointers",
    "to_npz",
    "torch_tensor",
]


class Coordinates(NamedTuple):
    """Elements from elsewhere: ndim arrays ``coords`` and ``values`` of shape (n,)."""

    coords: Any
    values: Any
    shape: tuple[int, ...]
    fill_value: Any = 0
    duplicates: str = "error"


def _require_zero_fill(schema: Schema, whose: str) -> None:
    if not schema.has_zero_fill:
        raise UnsupportedError(f"{whose} sparse arrays need fill 0, the tensor has {schema.fill_value}")


def _stack_coords(schema: Schema, block: Block) -> NDArray[np.int64]:
    """Return coordinates as one int64 array of shape (ndim, n)."""
    out = np.empty((schema.ndim, block.count), np.int64)
    for row, column in zip(out, block.coords, strict=True):
        row[:] = column
    return out


def check_dense(schema: Schema, remedy: str = "take a smaller view") -> None:
    """Raise ``TooLargeError`` or ``UnsupportedError`` if a dense array is impossible."""
    check_array_ndim(schema.ndim)
    memory.check(schema.size * schema.dtype.itemsize, "the dense array", remedy)


def dense_array(schema: Schema, block: Block) -> NDArray[Any]:
    """Return a dense NumPy array; :func:`check_dense` must have passed."""
    fill = schema.fill_value
    is_zero = fill.tobytes() in _ZERO_BITS
    out = np.zeros(schema.shape, schema.dtype) if is_zero else np.full(schema.shape, fill, dtype=schema.dtype)
    write_dense(out, block)
    return out


_ZERO_BITS = {bytes(size) for size in (1, 2, 4, 8, 16)}
"""Values of all zero bits; -0.0 is not one."""
_ALTERNATIVES = "to_scipy() returns a sparse array, which most libraries accept; to_numpy() forces the dense one"


def implicit_dense_array(schema: Schema, entries_of: Callable[[], Block]) -> NDArray[Any]:
    """Return a dense array that NumPy or another library asks for; warn of waste.

    Raises
    ------
    TooLargeError
        If it exceeds the memory limit, or 1 GB and 100 times the size of the stored elements.
    """
    check_dense(schema, "take a smaller view; to_scipy() is sparse")
    block = entries_of()
    sparse = max(block.count, 1) * schema.element_bytes()
    what = f"the dense array of shape {schema.shape} and type {schema.dtype}"
    check_expansion(schema.size * schema.dtype.itemsize, sparse, what, _ALTERNATIVES)
    return dense_array(schema, block)


def check_expansion(dense: int, sparse: int, what: str, remedy: str) -> None:
    """Warn of bytes that far exceed those of the stored elements, or raise.

    Parameters
    ----------
    dense, sparse
        Bytes of all elements, and of the stored ones.
    what, remedy
        Name of the array, and the way out, for the message.

    Raises
    ------
    TooLargeError
        If they exceed 1 GB and 100 times the stored ones; the warning comes from 100 MB and 10 times on.
    """
    limits = tuning()
    if dense <= limits.silent_dense_bytes or dense <= limits.warn_expansion * sparse:
        return
    sizes = f"{format_quantity(dense, 'bytes')}, its stored elements {format_quantity(sparse, 'bytes')}"
    if dense > limits.max_dense_bytes and dense > limits.max_expansion * sparse:
        raise TooLargeError(f"{what} would take {sizes}, too much for an implicit conversion: {remedy}")
    warn_caller(f"{what} takes {sizes}: {remedy}", PerformanceWarning)


def row_pointers(block: Block, height: int) -> NDArray[np.int64]:
    """Return the row pointers (``indptr`` of CSR) of elements sorted by row.

    Raises
    ------
    TooLargeError
        If the pointers would exceed the memory limit.
    """
    memory.check(8 * (height + 1), f"the pointers of {height} rows or columns")
    if not isinstance(block, CSRBlock):
        rows = block.column(0)
        limits = tuning()
        is_compiled = is_jit_loaded()
        row_elements = limits.search_row_elements_compiled if is_compiled else limits.search_row_elements
        if row_elements * height <= len(rows):
            return np.searchsorted(rows, np.arange(height + 1, dtype=rows.dtype))  # another type would cast the column
    return block.indptr(height)


# -- PyTorch -------------------------------------------------------------------------------------


def torch_tensor(schema: Schema, block: Block, layout: str) -> Any:
    """Return a PyTorch tensor on the CPU, layout "coo" or "csr"; values are shared."""
    try:
        import torch
    except ImportError as error:
        raise missing_dependency("to_torch()", "torch") from error
    if layout not in ("coo", "csr"):
        raise InvalidValueError(f"layout must be 'coo' or 'csr', got {layout!r}")
    _require_zero_fill(schema, "PyTorch's")
    values = torch.from_numpy(block.values)
    if layout == "coo":
        indices = torch.from_numpy(_stack_coords(schema, block))
        return torch.sparse_coo_tensor(indices, values, schema.shape, is_coalesced=True, check_invariants=False)
    if schema.ndim != 2:
        raise ShapeError(f"layout='csr' needs 2 dimensions, the tensor has {schema.ndim}: use layout='coo'")
    return torch_csr(block.values, block.column(1), row_pointers(block, schema.shape[0]), schema.shape)


def torch_csr(values: NDArray[Any], cols: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, ...]) -> Any:
    """Return compressed rows as a PyTorch tensor on the CPU; arrays are shared."""
    try:
        import torch
    except ImportError as error:
        raise missing_dependency("to_torch()", "torch") from error
    indptr = match_index_dtype(indptr, cols)
    if max(len(values), shape[1]) >= 2**31:
        cols, indptr = cols.astype(np.int64, copy=False), indptr.astype(np.int64, copy=False)
    arrays = (torch.from_numpy(indptr), torch.from_numpy(cols), torch.from_numpy(values))
    return torch.sparse_csr_tensor(*arrays, shape, check_invariants=False)


def from_torch(tensor: Any) -> Coordinates | NDArray[Any]:
    """Return a sparse PyTorch tensor, duplicates summed, or a dense one as an array."""
    tensor = tensor.detach().cpu().resolve_conj()
    if str(tensor.dtype) == "torch.bfloat16":  # NumPy has no bfloat16; float32 holds all of its values
        tensor = tensor.float()
    if str(tensor.layout) == "torch.strided":
        dense: NDArray[Any] = tensor.numpy()
        return dense
    layout, shape = str(tensor.layout).removeprefix("torch."), tuple(tensor.shape)
    if tensor.dense_dim():
        raise UnsupportedError(f"a hybrid tensor has {tensor.dense_dim()} dense dimensions: pass tensor.to_dense()")
    if layout in ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"):
        coords = _torch_compressed_coords(tensor, layout.endswith("c"), shape)
        if layout in ("sparse_csr", "sparse_csc"):
            return Coordinates(coords, tensor.values().numpy(), shape, 0, "sum")
    # The elements of a COO tensor are not coalesced, which would follow its indices unchecked.
    duplicates = "error" if layout == "sparse_coo" and tensor.is_coalesced() else "sum"
    coo = tensor if layout == "sparse_coo" else tensor.to_sparse_coo()
    coords, values = coo._indices().numpy(), coo._values().numpy()
    check_coordinates(coords, shape, len(values))
    return Coordinates(coords, values, shape, 0, duplicates)


def _torch_compressed_coords(tensor: Any, by_columns: bool, shape: tuple[int, ...]) -> tuple[NDArray[Any], ...]:
    """Return row and column of each value or block of a compressed tensor."""
    if len(shape) != 2:
        raise UnsupportedError(f"a batch of compressed tensors has {len(shape)} dimensions: pass tensor.to_dense()")
    pointers, places = (
        (tensor.ccol_indices(), tensor.row_indices()) if by_columns else (tensor.crow_indices(), tensor.col_indices())
    )
    indptr, indices, values = as_index("indptr", pointers.numpy()), as_index("indices", places.numpy()), tensor.values()
    block = tuple(values.shape[1:]) or (1, 1)
    height, width = (size // side for size, side in zip(shape, block, strict=True))
    lines, across = (width, height) if by_columns else (height, width)
    check_compressed(values.numpy(), indices, indptr, lines, across, "column" if by_columns else "row")
    coords = (as_row_numbers(indptr), indices)
    return coords[::-1] if by_columns else coords


# -- CuPy ----------------------------------------------------------------------------------------


def cupy_array(array: scipy.sparse.sparray, format: str) -> Any:
    """Return a SciPy array in GPU memory, of ``cupyx.scipy.sparse``."""
    try:
        import cupy
        import cupyx.scipy.sparse
    except ImportError as error:
        raise missing_dependency("to_cupy()", "cupy") from error
    if array.dtype.char not in "?fdFD":
        raise UnsupportedError(
            f"CuPy's sparse arrays hold bool, float32, float64, complex64 and complex128, not {array.dtype}: "
            "use astype first"
        )
    arrays = (array.data, array.coords) if format == "coo" else (array.data, array.indices, array.indptr)
    try:
        cupy.cuda.runtime.getDeviceCount()
    except RuntimeError as error:  # CuPy's CUDARuntimeError without a device
        raise MissingDependencyError(f"to_cupy needs a CUDA device, and CuPy finds none ({error})") from error
    on_device = [tuple(map(cupy.asarray, part)) if isinstance(part, tuple) else cupy.asarray(part) for part in arrays]
    found = getattr(cupyx.scipy.sparse, f"{format}_matrix")(tuple(on_device), shape=array.shape)
    counted = (found.row if format == "coo" else found.indices).dtype
    if max(*array.shape, array.nnz) > np.iinfo(counted).max:
        raise UnsupportedError(
            f"this CuPy has {counted} indices, too narrow for shape {array.shape} and "
            f"{array.nnz} elements: newer ones have int64"
        )
    return found


def from_cupy(array: Any) -> Any:
    """Return a CuPy array, dense or sparse, as a NumPy or SciPy array."""
    return array.get()


# -- pydata/sparse -------------------------------------------------------------------------------


def pydata_array(schema: Schema, block: Block) -> Any:
    """Return a ``sparse.COO`` with the fill value."""
    try:
        import sparse
    except ImportError as error:
        raise missing_dependency("to_pydata_sparse()", "sparse") from error
    return sparse.COO(
        _stack_coords(schema, block),
        block.values,
        shape=schema.shape,
        has_duplicates=False,
        sorted=True,
        fill_value=schema.fill_value,
    )


# -- .npz ----------------------------------------------------------------------------------------


def to_npz(path: str | os.PathLike[str], schema: Schema, block: Block, compressed: bool) -> None:
    """Write a .npz file, as SciPy does if it can hold the tensor, else pydata/sparse."""
    arrays: dict[str, Any] = {"shape": np.array(schema.shape, np.int64), "data": block.values}
    if not schema.has_zero_fill or schema.ndim == 0 or schema.dtype == np.float16:
        arrays |= {"format": "coo", "coords": _stack_coords(schema, block), "fill_value": schema.fill_value}
    else:
        arrays["_is_array"] = True
        if schema.ndim == 2 and schema.shape[0] <= block.count:
            cols, indptr = block.column(1), row_pointers(block, schema.shape[0])
            arrays |= {"format": b"csr", "indices": cols, "indptr": match_index_dtype(indptr, cols)}
        elif schema.ndim == 2:
            arrays |= {"format": b"coo", "row": block.coords[0], "col": block.coords[1]}
        else:
            arrays |= {"format": b"coo", "coords": np.array(block.coords)}
    with atomic_write(path) as file:
        (np.savez_compressed if compressed else np.savez)(file, **arrays)


def match_index_dtype(indptr: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """Return pointers in the dtype of the indices if they fit, as SciPy requires."""
    return indptr.astype(indices.dtype) if len(indices) < 2**31 else indptr


_DAMAGED_NPZ = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, EOFError, RuntimeError, SyntaxError,
    zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError,
)  # fmt: skip
"""Errors of zipfile and NumPy for damaged archives and headers of arrays."""


def from_npz(path: str | os.PathLike[str], any_name: bool = False) -> Any:
    """Return the contents of a .npz file of SciPy or pydata/sparse."""
    name = os.fspath(path)
    files = get_filesystem(name)
    if Path(name).suffix != ".npz" and not any_name:
        raise InvalidValueError(
            f"file must end in .npz to be read as an array, got {name!r}: sp.open opens stored tensors, "
            "sp.ingest stores text and tables"
        )
    try:
        with files.local_copy(name) as near, np.load(near, allow_pickle=False) as arrays:
            return _from_pydata_npz(arrays) if "fill_value" in arrays else _from_scipy_npz(arrays)
    except _DAMAGED_NPZ as error:
        reason = error if zipfile.is_zipfile(name) else "it is not a zip archive"
        raise InvalidValueError(f"{name} is not a sparse array of SciPy or pydata/sparse: {reason}") from error


def _from_scipy_npz(arrays: Any) -> Any:
    """Return the sparse array in a file of ``scipy.sparse.save_npz``.

    Indices are checked first: SciPy's constructors cast them silently, and its conversions follow them unchecked.
    """
    import scipy.sparse

    layout = arrays["format"].item()
    layout = layout.decode("ascii") if isinstance(layout, bytes) else layout
    shape = tuple(as_index("shape", arrays["shape"]).tolist())
    if layout in ("csr", "csc", "bsr"):
        parts: Any = (arrays["data"], as_index("indices", arrays["indices"]), as_index("indptr", arrays["indptr"]))
    elif layout == "dia":
        parts = (arrays["data"], as_index("offsets", arrays["offsets"]))
    elif layout == "coo":
        coords = arrays["coords"] if "coords" in arrays else (arrays["row"], arrays["col"])
        parts = (arrays["data"], tuple(as_index(f"coords[{dim}]", column) for dim, column in enumerate(coords)))
    else:
        raise ValueError(f"format must be 'csr', 'csc', 'bsr', 'dia' or 'coo', got {layout!r}")
    found = getattr(scipy.sparse, f"{layout}_array")(parts, shape=shape)
    return check_scipy_array(found)


def _from_pydata_npz(arrays: Any) -> Coordinates:
    """Return the elements in a file of ``sparse.save_npz``: a COO or GCXS array."""
    shape = tuple(as_index("shape", arrays["shape"]).tolist())
    fill, data = arrays["fill_value"][()], arrays["data"]
    kind = str(arrays["format"])
    if kind == "coo":
        return _coordinates_of(arrays["coords"], data, shape, fill)
    if kind != "gcxs":
        raise ValueError(f"format must be 'coo' or 'gcxs', got {kind!r}")
    axes = as_index("compressed_axes", arrays["compressed_axes"])
    return _from_gcxs(data, arrays["indices"], arrays["indptr"], tuple(axes.tolist()), shape, fill)


def from_pydata(array: Any) -> Coordinates:
    """Return the elements of an array of pydata/sparse: COO, GCXS or DOK."""
    shape, fill = tuple(array.shape), array.fill_value
    if hasattr(array, "indptr"):
        axes = tuple(array.compressed_axes or ())
        return _from_gcxs(array.data, array.indices, array.indptr, axes, shape, fill)
    array = array.asformat("coo")
    return _coordinates_of(array.coords, array.data, shape, fill)


def _coordinates_of(coords: Any, data: NDArray[Any], shape: tuple[int, ...], fill: Any) -> Coordinates:
    columns = [as_index(f"coords[{dim}]", column) for dim, column in enumerate(coords)]
    check_coordinates(columns, shape, len(data))
    return Coordinates(columns, data, shape, fill)


def _from_gcxs(
    data: NDArray[Any], indices: Any, indptr: Any, down: tuple[int, ...], shape: tuple[int, ...], fill: Any
) -> Coordinates:
    """Return the elements of GCXS arrays.

    GCXS is a CSR matrix whose rows are some axes, ravelled, and whose columns are the others.
    """
    indices = as_index("indices", indices)
    if not down:
        return _coordinates_of([indices], data, shape, fill)
    if len({*down} & {*range(len(shape))}) != len(down):
        raise ShapeError(f"compressed_axes must be distinct axes of the shape {shape}, got {down}")
    indptr = as_index("indptr", indptr)
    across = tuple(axis for axis in range(len(shape)) if axis not in down)
    height, width = (math.prod(shape[axis] for axis in axes) for axes in (down, across))
    check_compressed(data, indices, indptr, height, width)
    coords: dict[int, NDArray[Any]] = {}
    for axes, flat in ((down, as_row_numbers(indptr)), (across, indices)):
        coords |= dict(zip(axes, np.unravel_index(flat, [shape[axis] for axis in axes]), strict=True))
    return Coordinates([coords[axis] for axis in range(len(shape))], data, shape, fill)
