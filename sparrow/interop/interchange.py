"""Arrays in the layouts of other libraries and protocols: NumPy, PyTorch, CuPy, pydata/sparse, .npz files.

What goes out takes schema and canonical entries, what comes in gives coordinates, values, shape and fill.
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
    """Entries as they come from elsewhere: ``coords`` (ndim arrays of shape (n,)), ``values`` (shape (n,))."""

    coords: Any
    values: Any
    shape: tuple[int, ...]
    fill_value: Any = 0
    duplicates: str = "error"


def _zero_fill(schema: Schema, whose: str) -> None:
    if not schema.has_zero_fill:
        raise UnsupportedError(
            f"{whose} sparse arrays are zero where nothing is stored; here it is {schema.fill_value}"
        )


def _stacked(schema: Schema, block: Block) -> NDArray[np.int64]:
    """Return coordinates as one array of shape (ndim, n), int64."""
    out = np.empty((schema.ndim, block.count), np.int64)
    for row, column in zip(out, block.coords, strict=True):
        row[:] = column
    return out


def check_dense(schema: Schema, remedy: str = "take a smaller view") -> None:
    """Raise ``TooLargeError`` where all cells pass the memory limit, ``UnsupportedError`` where no array holds them."""
    check_array_ndim(schema.ndim)
    memory.check(schema.size * schema.dtype.itemsize, "the dense array", remedy)


def dense_array(schema: Schema, block: Block) -> NDArray[Any]:
    """Return all cells as a NumPy array, :func:`check_dense` having looked whether one holds them."""
    fill = schema.fill_value
    bare = fill.tobytes() in _BARE
    cells = np.zeros(schema.shape, schema.dtype) if bare else np.full(schema.shape, fill, dtype=schema.dtype)
    write_dense(cells, block)
    return cells


_BARE = {bytes(size) for size in (1, 2, 4, 8, 16)}
"""Numbers without a bit set: -0.0 has one."""
_WAY_OUT = "to_scipy() gives a sparse array, which most libraries take; to_numpy() makes the dense one on purpose"


def implicit_dense_array(schema: Schema, entries_of: Callable[[], Block]) -> NDArray[Any]:
    """Return all cells as an array that NumPy asks for, or a library through it; say so where it is a waste.

    Raises
    ------
    TooLargeError
        If it passes the memory limit, or 1 GB and 100 times what the entries take.
    """
    check_dense(schema, "take a smaller view; to_scipy() is sparse")
    block = entries_of()
    _say_what_it_takes(schema, block.count)
    return dense_array(schema, block)


def _say_what_it_takes(schema: Schema, count: int) -> None:
    dense, entries = schema.size * schema.dtype.itemsize, max(count, 1) * schema.element_bytes()
    what = f"the dense array of shape {schema.shape} and type {schema.dtype}"
    sizes = f"{format_quantity(dense, 'bytes')}, its entries {format_quantity(entries, 'bytes')}"
    limits = tuning()
    if dense > limits.max_dense_bytes and dense > limits.max_expansion * entries:
        raise TooLargeError(f"{what} would take {sizes}: it is not made unasked; {_WAY_OUT}")
    if dense > limits.silent_dense_bytes and dense > limits.warn_expansion * entries:
        warnings.warn(f"{what} takes {sizes}: {_WAY_OUT}", PerformanceWarning, stacklevel=4)


def row_pointers(block: Block, height: int) -> NDArray[np.int64]:
    """Return where each of ``height`` rows begins among entries sorted by row, and their number: CSR's indptr.

    Raises
    ------
    TooLargeError
        If the pointers would pass the memory limit.
    """
    memory.check(8 * (height + 1), f"the pointers of {height} rows or columns")
    if not isinstance(block, CSRBlock):
        rows = block.column(0)
        limits = tuning()
        most = limits.search_row_elements_compiled if numpy_fallback.is_jit_loaded() else limits.search_row_elements
        if most * height <= len(rows):
            return np.searchsorted(rows, np.arange(height + 1, dtype=rows.dtype))  # another type would cast the column
    return block.indptr(height)


# -- PyTorch -------------------------------------------------------------------------------------


def torch_tensor(schema: Schema, block: Block, layout: str) -> Any:
    """Return entries as a PyTorch tensor on the CPU, in the layout "coo" or "csr"; the values are not copied."""
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError("to_torch needs PyTorch: pip install torch") from error
    if layout not in ("coo", "csr"):
        raise InvalidValueError(f"layout={layout!r}: use 'coo' or 'csr'")
    _zero_fill(schema, "PyTorch's")
    values = torch.from_numpy(block.values)
    if layout == "coo":
        indices = torch.from_numpy(_stacked(schema, block))
        return torch.sparse_coo_tensor(indices, values, schema.shape, is_coalesced=True, check_invariants=False)
    if schema.ndim != 2:
        raise ShapeError(f"layout='csr' is for two dimensions, not {schema.ndim}: use layout='coo'")
    return torch_csr(block.values, block.column(1), row_pointers(block, schema.shape[0]), schema.shape)


def torch_csr(values: NDArray[Any], cols: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, ...]) -> Any:
    """Return compressed rows as a PyTorch tensor on the CPU; values and columns are not copied."""
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
    """Return the entries of a sparse PyTorch tensor, entries for one cell summed; a dense one as a NumPy array."""
    tensor = tensor.detach().cpu().resolve_conj()
    if str(tensor.dtype) == "torch.bfloat16":  # NumPy has none; float32 holds all of its values
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
    """Return a SciPy array in GPU memory as one of ``cupyx.scipy.sparse``."""
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
    except RuntimeError as error:  # CuPy's CUDARuntimeError, where there is no device
        raise MissingDependencyError(f"to_cupy needs a CUDA device, and CuPy finds none ({error})") from error
    on_device = [tuple(map(cupy.asarray, part)) if isinstance(part, tuple) else cupy.asarray(part) for part in arrays]
    found = getattr(cupyx.scipy.sparse, f"{format}_matrix")(tuple(on_device), shape=array.shape)
    counted = (found.row if format == "coo" else found.indices).dtype
    if max(*array.shape, array.nnz) > np.iinfo(counted).max:
        raise UnsupportedError(
            f"this CuPy counts rows, columns and entries in {counted}, and the matrix has shape {array.shape} and "
            f"{array.nnz} entries: newer ones count in int64"
        )
    return found


def from_cupy(array: Any) -> Any:
    """Return a CuPy array, dense or sparse, as the NumPy or SciPy array of the same entries."""
    return array.get()


# -- pydata/sparse -------------------------------------------------------------------------------


def pydata_array(schema: Schema, block: Block) -> Any:
    """Return entries as a ``sparse.COO``, with their fill."""
    try:
        import sparse
    except ImportError as error:
        raise MissingDependencyError("to_pydata_sparse needs pydata/sparse: pip install sparse") from error
    return sparse.COO(
        _stacked(schema, block),
        block.values,
        shape=schema.shape,
        has_duplicates=False,
        sorted=True,
        fill_value=schema.fill_value,
    )


# -- .npz ----------------------------------------------------------------------------------------


def to_npz(path: str | os.PathLike[str], schema: Schema, block: Block, compressed: bool) -> None:
    """Write entries to a .npz file: as SciPy does where it can hold them, else as pydata/sparse does."""
    arrays: dict[str, Any] = {"shape": np.array(schema.shape, np.int64), "data": block.values}
    if not schema.has_zero_fill or schema.ndim == 0 or schema.dtype == np.float16:
        arrays |= {"format": "coo", "coords": _stacked(schema, block), "fill_value": schema.fill_value}
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
    """Return pointers in the type of the indices where they fit, as SciPy wants them."""
    return indptr.astype(indices.dtype) if len(indices) < 2**31 else indptr


def from_npz(path: str | os.PathLike[str]) -> Any:
    """Return what a .npz file of SciPy or pydata/sparse holds: a SciPy array, or coordinates."""
    import scipy.sparse

    name = os.fspath(path)
    files = get_filesystem(name)
    if Path(name).suffix != ".npz":
        raise InvalidValueError(
            f"{name!r} does not end in .npz, and of files only such are read as arrays: sp.open opens what is stored, "
            "sp.ingest stores text and tables"
        )
    try:
        with files.local_copy(name) as near:
            with np.load(near, allow_pickle=False) as arrays:
                if "fill_value" in arrays:
                    return _from_nodes(arrays)
            found = scipy.sparse.load_npz(near)
        if hasattr(found, "indptr"):
            found.check_format(full_check=True)
        return found
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        reason = error if zipfile.is_zipfile(name) else "what it holds is not what .npz files hold"
        raise InvalidValueError(f"{name} is no sparse array of SciPy or pydata/sparse: {reason}") from error


def _from_nodes(arrays: Any) -> Coordinates:
    """Return the entries of a COO or GCXS array as pydata/sparse writes them."""
    shape = tuple(arrays["shape"].tolist())
    fill, data = arrays["fill_value"][()], arrays["data"]
    kind = str(arrays["format"])
    if kind == "coo":
        return Coordinates(arrays["coords"], data, shape, fill)
    if kind != "gcxs":
        raise ValueError(f"the format {kind!r} is none of 'coo' and 'gcxs'")
    # Generalised compressed storage: some axes ravelled are the rows of a CSR matrix, the others its columns.
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
