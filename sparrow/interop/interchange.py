"""Arrays of other libraries: NumPy, PyTorch, CuPy, pydata/sparse, .npz files.

Exports take schema and canonical elements, imports return coordinates, values, shape and fill value.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from sparrow.kernels.matmul import numpy_fallback
from sparrow.runtime import memory
from sparrow.runtime.progress import format_quantity
from sparrow.storage.fs.filesystem import atomic_write, get_filesystem

if TYPE_CHECKING:
    import scipy.sparse

__all__ = [
    "Coordinates",
    "cupy_array",
    "dense_array",
    "from_cupy",
    "from_npz",
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
    _warn_expansion(schema, block.count)
    return dense_array(schema, block)


def _warn_expansion(schema: Schema, count: int) -> None:
    dense, sparse = schema.size * schema.dtype.itemsize, max(count, 1) * schema.element_bytes()
    what = f"the dense array of shape {schema.shape} and type {schema.dtype}"
    sizes = f"{format_quantity(dense, 'bytes')}, its stored elements {format_quantity(sparse, 'bytes')}"
    limits = tuning()
    if dense > limits.max_dense_bytes and dense > limits.max_expansion * sparse:
        raise TooLargeError(f"{what} would take {sizes}, too much for an implicit conversion: {_ALTERNATIVES}")
    if dense > limits.silent_dense_bytes and dense > limits.warn_expansion * sparse:
        warnings.warn(f"{what} takes {sizes}: {_ALTERNATIVES}", PerformanceWarning, stacklevel=4)


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
        is_compiled = numpy_fallback.is_jit_loaded()
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
        raise MissingDependencyError("to_torch needs PyTorch: pip install torch") from error
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
        raise MissingDependencyError("to_torch needs PyTorch: pip install torch") from error
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
    coo = tensor.to_sparse_coo().coalesce()
    if coo.dense_dim():
        raise UnsupportedError(f"a hybrid tensor has {coo.dense_dim()} dense dimensions: pass tensor.to_dense()")
    return Coordinates(coo.indices().numpy(), coo.values().numpy(), tuple(coo.shape))


# -- CuPy ----------------------------------------------------------------------------------------


def cupy_array(array: scipy.sparse.sparray, format: str) -> Any:
    """Return a SciPy array in GPU memory, of ``cupyx.scipy.sparse``."""
    try:
        import cupy
        import cupyx.scipy.sparse
    except ImportError as error:
        raise MissingDependencyError("to_cupy needs CuPy: pip install cupy-cuda12x, or -cuda13x") from error
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
        raise MissingDependencyError("to_pydata_sparse needs pydata/sparse: pip install sparse") from error
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


def from_npz(path: str | os.PathLike[str]) -> Any:
    """Return the contents of a .npz file of SciPy or pydata/sparse."""
    import scipy.sparse

    name = os.fspath(path)
    files = get_filesystem(name)
    if Path(name).suffix != ".npz":
        raise InvalidValueError(
            f"file must end in .npz to be read as an array, got {name!r}: sp.open opens stored tensors, "
            "sp.ingest stores text and tables"
        )
    try:
        with files.local_copy(name) as near:
            with np.load(near, allow_pickle=False) as arrays:
                if "fill_value" in arrays:
                    return _from_pydata(arrays)
            found = scipy.sparse.load_npz(near)
        if hasattr(found, "indptr"):
            found.check_format(full_check=True)
        return found
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        reason = error if zipfile.is_zipfile(name) else "it is not a zip archive"
        raise InvalidValueError(f"{name} is not a sparse array of SciPy or pydata/sparse: {reason}") from error


def _from_pydata(arrays: Any) -> Coordinates:
    """Return the elements of a COO or GCXS array of pydata/sparse."""
    shape = tuple(arrays["shape"].tolist())
    fill, data = arrays["fill_value"][()], arrays["data"]
    kind = str(arrays["format"])
    if kind == "coo":
        return Coordinates(arrays["coords"], data, shape, fill)
    if kind != "gcxs":
        raise ValueError(f"format must be 'coo' or 'gcxs', got {kind!r}")
    # GCXS: a CSR matrix whose rows are some axes, ravelled, and whose columns are the others.
    down = tuple(arrays["compressed_axes"].tolist())
    indices, indptr = arrays["indices"], arrays["indptr"]
    if not down:
        return Coordinates([indices], data, shape, fill)
    across = tuple(axis for axis in range(len(shape)) if axis not in down)
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    coords: dict[int, NDArray[Any]] = {}
    for axes, flat in ((down, rows), (across, indices)):
        coords |= dict(zip(axes, np.unravel_index(flat, [shape[axis] for axis in axes]), strict=True))
    return Coordinates([coords[axis] for axis in range(len(shape))], data, shape, fill)
