"""Annotated matrices of AnnData in HDF5: observations x variables.

I. Virshup et al., anndata: Access and store annotated data matrices, 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.schema import assigned_dims, check_dims, check_dtype
from sparrow.errors import IngestError, UnsupportedError
from sparrow.io.base.registry import DType, Duplicates, FillValue, Format, Option, Reader, Writer, parse_names, shared
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.binary import hdf5, hdf5_output
from sparrow.io.tabular.writers import check_no_nul
from sparrow.io.tuning import tuning
from sparrow.runtime import memory
from sparrow.runtime.progress import bar

__all__ = ["FORMATS", "H5ad", "H5adWriter"]


@shared
@dataclass
class H5ad(Reader):
    """Store a matrix of an .h5ad file of AnnData, with its names as labels.

    The matrix may be stored by rows, by columns or dense; it is streamed. Needs the extra ``hdf5``.

    Parameters
    ----------
    src
        The file.
    %(dst)s
    matrix
        Path of the matrix: ``"X"``, ``"layers/counts"``, ``"raw/X"``, ``"obsp/distances"``, ``"obsm/X_pca"``, ...
    labels
        False ignores the names; repeated names cannot be labels.
    dims
        Names of the dimensions, ``obs, var`` by default, ``obs, component`` of a matrix in ``obsm``.
    %(duplicates)s
    dtype
        Type of the values; that of the file by default.
    %(fill_value)s
    %(storing)s

    Returns
    -------
    Tensor
        ``sp.open(dst)``: the stored matrix.

    Raises
    ------
    IngestError
        If the file is damaged, not one of AnnData, or lacks the matrix, names repeat, or a value does not fit
        ``dtype``.
    MissingDependencyError
        If h5py is not installed.
    %(duplicate_error)s
    %(not_found)s
    %(exists)s
    TooLargeError
        If the names exceed their share of the memory limit.
    InvalidValueError, ShapeError
        If an argument has none of the values above.

    Examples
    --------
    >>> import sparrow as sp
    >>> counts = sp.from_coords([[0, 1], [0, 0]], [3, 1], dims=("obs", "var"), labels={"var": ["APP"]})
    >>> sp.export(counts, "cells.h5ad")
    2
    >>> cells = sp.ingest.h5ad("cells.h5ad", "cells.sparrow")
    >>> cells.shape, cells.labels("var").to_pylist()
    ((2, 1), ['APP'])
    """

    _: KW_ONLY
    matrix: Annotated[str, Option("Path of the matrix, such as layers/counts.", metavar="PATH")] = "X"
    labels: Annotated[bool, Option("Use names as labels.", flag="--labels/--numbers")] = True
    dims: Annotated[Sequence[str] | None, Option("Names. [default: obs,var]", metavar="A,B", parse=parse_names)] = None
    duplicates: Duplicates = "sum"
    dtype: DType = None
    fill_value: FillValue = 0

    accepts_many: ClassVar[bool] = False
    examples: ClassVar[str] = "sparrow ingest h5ad pbmc3k.h5ad pbmc.sparrow --matrix raw/X"

    def read(self) -> str:
        """Store the matrix and return its folder."""
        dtype = None if self.dtype is None else check_dtype(self.dtype)
        with hdf5.open_file(self.src) as (name, file):
            path = self.matrix.strip("/")
            found = hdf5.get_member(file, path, name)
            if found is None or getattr(found, "shape", ()) is None:  # an empty placeholder
                groups = ("layers", "obsp", "varp", "obsm", "varm")
                there = [f"{group}/{key}" for group in groups for key in file.get(group, ())]
                there = ["X"] * ("X" in file and file["X"] != found) + ["raw/X"] * ("raw/X" in file) + there
                hint = (
                    f": pass matrix={there[0]!r}, of {', '.join(there)}" if there else ": this is not a file of AnnData"
                )
                raise IngestError(f"there is no matrix {self.matrix!r}{hint}", name)
            matrix = _open_matrix(found, name, self.fill_value)
            sides = _name_groups(path)
            usual = ("obs", "var") if sides[0] != sides[1] else assigned_dims(sides[0], sides[0] + "2")
            if not sides[1]:
                usual = (sides[0], "component")
            labels = {}
            for axis, side in enumerate(sides if self.labels else ()):
                if side and (names := _names(file, side, name)) is not None:
                    way = "pass labels=False to ignore names"
                    labels[axis] = hdf5.check_unique_labels(names, matrix.shape[axis], f"names of {side}", way, name)
            return hdf5.store_matrix(
                self.dst,
                matrix,
                dims=check_dims(usual if self.dims is None else self.dims, 2),
                labels=labels,
                dtype=dtype,
                duplicates=self.duplicates,
                overwrite=self.overwrite,
                profile=self.profile,
                operation="ingest h5ad",
                name=name,
                report=self.report,
                fill_value=self.fill_value,
            )


def _name_groups(path: str) -> tuple[str, str]:
    """Return the groups that name rows and columns, empty for those without names."""
    if path.startswith(("obsp/", "varp/")):
        return path[:3], path[:3]
    if path.startswith(("obsm/", "varm/")):
        return path[:3], ""
    return "obs", "raw/var" if path.startswith("raw/") else "var"


def _open_matrix(found: Any, name: str, fill_value: Any) -> hdf5.StoredMatrix:
    """Return the matrix in a group or dataset."""
    if not hasattr(found, "keys"):
        return hdf5.read_dense(found, name, fill_value)
    attributes = dict(found.attrs)
    kind = _text(attributes.get("encoding-type", attributes.get("h5sparse_format", "")))
    shape: Any = attributes.get("shape", attributes.get("h5sparse_shape"))
    if kind not in ("csr_matrix", "csc_matrix", "csr", "csc"):
        inside = f": pass matrix={found.name.strip('/') + '/X'!r}" if "X" in found else ""
        raise IngestError(
            f"{found.name!r} must be a matrix of AnnData, got {repr(kind) if kind else 'a group'}{inside}", name
        )
    if np.shape(shape) != (2,):
        raise IngestError(f"{found.name!r} must have an attribute 'shape' of two sizes", name)
    hdf5.get_group(found.file, found.name, name, "data", "indices", "indptr")
    height, width = map(int, np.asarray(shape).tolist())
    return hdf5.read_compressed(found, (height, width), kind[:3] == "csr", name)


def _names(file: Any, side: str, name: str) -> pa.Array | None:
    """Return the names of observations or variables; None if missing."""
    found = hdf5.get_member(file, side, name)
    if found is None:
        return None
    if not hasattr(found, "keys"):  # the first versions: a table
        field = next((field for field in ("index", "_index") if field in (found.dtype.names or ())), None)
        if field is None:
            return None
        values = found[:][field].tolist() if len(found) else []
        return pa.array([value.decode() if isinstance(value, bytes) else str(value) for value in values], pa.string())
    index = hdf5.get_member(found, _text(found.attrs.get("_index", "_index")), name)
    return None if index is None else hdf5.read_labels(index, name)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


@dataclass
class H5adWriter(Writer):
    """Write a matrix as the ``X`` of an .h5ad file, by rows, with labels as names."""

    text: ClassVar[bool] = False
    writes_labels: ClassVar[bool] = True

    def write(self) -> int:
        """Write the file and return the number of elements."""
        tensor = self.tensor
        if self.dst == "-":
            raise UnsupportedError("h5ad cannot be written to standard output")
        if tensor.ndim != 2 or tensor.dtype.kind == "c":
            raise UnsupportedError(f"h5ad needs a real matrix, got {tensor.dtype} of shape {tensor.shape}: use parquet")
        if tensor.fill_value != 0:
            raise UnsupportedError(f"h5ad needs fill 0, the tensor has {tensor.fill_value}: use npz")
        for axis, labels in enumerate(map(tensor.labels, range(2))):
            if labels is not None:
                check_no_nul(labels, tensor.dims[axis], "h5ad", "write parquet")
        height, width = tensor.shape
        wide = np.dtype(np.int32 if max(width, tensor.nnz) < 2**31 else np.int64)
        with (
            self.sink() as sink,
            memory.reserve(2 * 8 * (height + 1), "row pointers"),
            hdf5_output.create_file(sink) as file,
            bar("exporting", tensor.nnz, "elements") as advance,
        ):
            file.run(_create_matrix, tensor.shape, {"data": tensor.dtype, "indices": wide})
            lengths = np.zeros(height + 1, np.int64)
            count = 0
            for batch in tensor.to_batches():
                rows, cols, values = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
                file.append({"X/data": values, "X/indices": cols})
                first = int(rows[0])
                found = np.bincount(rows - first)
                lengths[first + 1 : first + 1 + len(found)] += found
                count += len(rows)
                advance(len(rows))
            file.run(_write_pointers, np.cumsum(lengths).astype(wide))
            for axis, side in enumerate(("obs", "var")):
                self._write_side(file, side, tensor.labels(axis), tensor.shape[axis])
            file.run(_create_empty_groups)
        return count

    def _write_side(self, file: hdf5_output.OutputFile, side: str, labels: pa.Array | None, size: int) -> None:
        file.run(_create_side, side, size)
        step = tuning().hdf5_label_batch
        for start in range(0, size, step):
            stop = min(start + step, size)
            texts = (
                range(start, stop)
                if labels is None
                else labels.slice(start, stop - start).cast(pa.string()).to_pylist()
            )
            file.run(_write_names, side, start, [str(text) for text in texts])


def _create_matrix(file: Any, shape: tuple[int, ...], kinds: dict[str, np.dtype[Any]]) -> None:
    file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
    group = file.create_group("X")
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": shape})
    for name, kind in kinds.items():
        hdf5_output.create_resizable(group, name, kind)


def _write_pointers(file: Any, pointers: NDArray[Any]) -> None:
    file.create_dataset("X/indptr", data=pointers)


def _create_side(file: Any, side: str, size: int) -> None:
    import h5py

    group = file.create_group(side)
    group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
    group.attrs["column-order"] = np.empty(0, np.float64)
    names = group.create_dataset("_index", (size,), h5py.string_dtype())
    names.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})


def _write_names(file: Any, side: str, start: int, texts: list[str]) -> None:
    file[f"{side}/_index"][start : start + len(texts)] = texts


def _create_empty_groups(file: Any) -> None:
    for empty in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
        file.create_group(empty).attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})


def _detect(sample: Sample) -> str | None:
    return "HDF5 with obs or X, as AnnData writes it" if "X" in sample.hdf5 or "obs" in sample.hdf5 else None


FORMATS = (
    Format(
        "h5ad",
        "Annotated matrices of AnnData (HDF5).",
        reader=H5ad,
        writer=H5adWriter,
        suffixes=(".h5ad",),
        detectors={Stage.HDF5: _detect},
    ),
)
