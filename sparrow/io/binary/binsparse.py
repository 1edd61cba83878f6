"""Tensors in HDF5 by the Binary Sparse Format Specification 0.1.

https://graphblas.org/binsparse-specification: a descriptor in JSON, and named arrays.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparrow.core.array_validation import as_canonical
from sparrow.core.schema import Schema, check_dims, check_dtype, check_shape
from sparrow.errors import IngestError, InvalidValueError, UnsupportedError
from sparrow.interop.binsparse import descriptor_of, format_of
from sparrow.io.base.registry import DType, Duplicates, Format, Option, Reader, Writer, parse_names, shared
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.binary import hdf5, hdf5_output
from sparrow.io.tuning import tuning
from sparrow.runtime.progress import bar
from sparrow.storage.parquet.layout import decode_values

__all__ = ["FORMATS", "Binsparse", "BinsparseWriter", "find_descriptors"]

_NAME = "binsparse"
_STRUCTURES: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "symmetric": lambda values: values,
    "skew_symmetric": lambda values: -values,
    "hermitian": np.conj,
}
"""Values on the other side of the diagonal, by structure."""


@shared
@dataclass
class Binsparse(Reader):
    """Store a tensor of a binsparse file in HDF5.

    All predefined formats of the specification are read, tensors of one sparse level, values that are all equal
    (``iso``) and matrices stored as a triangle. The tensor is streamed. Needs the extra ``hdf5``.

    Parameters
    ----------
    src
        The file.
    %(dst)s
    group
        Group that holds the tensor; by default the file itself, or the only group with a descriptor.
    dims
        Names of the dimensions, ``d0, d1, ...`` by default.
    %(duplicates)s
    dtype
        Type of the values; that of the file by default.
    %(storing)s

    Returns
    -------
    Tensor
        ``sp.open(dst)``: the stored tensor.

    Raises
    ------
    IngestError
        If the file is damaged, has no descriptor or one of another version or format, arrays contradict each other, or
        a value does not fit ``dtype``.
    MissingDependencyError
        If h5py is not installed.
    %(duplicate_error)s
    %(not_found)s
    %(exists)s
    InvalidValueError, ShapeError
        If an argument has none of the values above.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1], [2, 0]], [3.5, 1.0], fill_value=1.5)
    >>> sp.export(A, "small.h5")
    2
    >>> sp.ingest.binsparse("small.h5", "small.sparrow").to_numpy()
    array([[1.5, 1.5, 3.5],
           [1. , 1.5, 1.5]])
    """

    _: KW_ONLY
    group: Annotated[str | None, Option("Group that holds the tensor.", metavar="PATH")] = None
    dims: Annotated[Sequence[str] | None, Option("Names. [default: d0,d1,...]", metavar="A,B", parse=parse_names)] = (
        None
    )
    duplicates: Duplicates = "error"
    dtype: DType = None

    accepts_many: ClassVar[bool] = False
    examples: ClassVar[str] = "sparrow ingest binsparse west0479.bsp.h5 west.sparrow"

    def read(self) -> str:
        """Store the tensor and return its folder."""
        dtype = None if self.dtype is None else check_dtype(self.dtype)
        with hdf5.open_file(self.src) as (name, file):
            there = find_descriptors(file)
            path = (there[0] if len(there) == 1 else "/") if self.group is None else self.group
            group = hdf5.get_member(file, path, name)
            if group is None or _NAME not in group.attrs:
                described = ", ".join(map(repr, there)) or "no group"
                raise IngestError(f"{path!r} must have an attribute 'binsparse', which {described} has", name)
            tensor, fill = _tensor(group, name)
            usual = [f"d{dim}" for dim in range(len(tensor.shape))]
            return hdf5.store_matrix(
                self.dst,
                tensor,
                dims=check_dims(usual if self.dims is None else self.dims, len(tensor.shape)),
                labels={},
                dtype=dtype,
                duplicates=self.duplicates,
                overwrite=self.overwrite,
                profile=self.profile,
                operation="ingest binsparse",
                name=name,
                report=self.report,
                fill_value=fill,
            )


def find_descriptors(file: Any) -> list[str]:
    """Return the groups of a file that have a descriptor, the file itself first."""
    inside = [f"/{name}" for name in file if hasattr(file[name], "keys") and _NAME in file[name].attrs]
    return ["/"] * (_NAME in file.attrs) + inside


def _tensor(group: Any, name: str) -> tuple[hdf5.StoredMatrix, Any]:
    """Return the tensor in a group, and its fill value."""
    text = group.attrs[_NAME]
    try:
        found = json.loads(text)[_NAME]
        version, shape = str(found["version"]), check_shape(found["shape"])
        layout, kind = found["format"], str(found["data_types"]["values"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IngestError(f"the descriptor of {group.name!r} cannot be read: {error!r}", name) from None
    if not version.startswith("0."):
        raise IngestError(f"binsparse version must be 0.1, got {version}", name)
    values = _Values(hdf5.get_group(group.file, group.name, name, "values")["values"], kind, found, group, name)
    if (count := found.get("number_of_stored_values", len(values))) != len(values):
        raise IngestError(f"{group.name!r} must have {count!r:.30} values by its descriptor, got {len(values)}", name)
    order, levels = _levels(found, len(shape), name)
    if levels == [("sparse", len(shape))]:
        tensor = _coordinates(group, values, shape, order, name)
    elif levels == [("dense", len(shape))]:
        tensor = _dense(values, shape, order, name)
    elif len(shape) == 2 and levels[1:] == [("sparse", 1)]:
        doubly = levels[0] == ("sparse", 1)
        members = ("values", "indices_1", "pointers_to_1")
        hdf5.get_group(group.file, group.name, name, *members, *["indices_0"] * doubly)
        lines = group["indices_0"] if doubly else None
        tensor = hdf5.read_compressed(group, shape, order[0] == 0, name, members, values, lines)
    else:
        raise IngestError(f"the format {layout!r:.80} of {len(shape)} dimensions is not read", name)
    if "structure" in found:
        tensor = tensor._replace(chunks=partial(_mirror, tensor, str(found["structure"]), name))
    fill = 0
    if found.get("fill") and levels != [("dense", len(shape))]:  # of no use if all elements are stored
        hdf5.get_group(group.file, group.name, name, "fill_value")
        fill = _Values(group["fill_value"], kind.removeprefix("iso[").rstrip("]"), {}, group, name)[0:1][0]
    return tensor._replace(dtype=values.dtype), fill


def _levels(found: dict[str, Any], ndim: int, name: str) -> tuple[Sequence[int], list[tuple[str, int]]]:
    """Return the order of dimensions, and kind and rank of each level."""
    levels = []
    try:
        order, level = format_of(found, ndim)
        while level["level_desc"] != "element":
            levels.append((str(level["level_desc"]), int(level.get("rank", 1))))
            level = level["level"]
        is_valid = sorted(order) == list(range(ndim)) and sum(rank for _, rank in levels) == ndim
    except (InvalidValueError, KeyError, TypeError, ValueError, AttributeError):
        is_valid = False
    if not is_valid:
        raise IngestError(f"the format {found['format']!r:.80} of {ndim} dimensions is not read", name)
    return order, levels


class _Values:
    """Values as declared: complex numbers in pairs, booleans in bytes, one for all."""

    def __init__(self, array: Any, kind: str, found: dict[str, Any], group: Any, name: str) -> None:
        self.name, self._array = array.name, array
        self._iso = kind.startswith("iso[")
        plain = kind.removeprefix("iso[").rstrip("]")
        self._pairs = plain.startswith("complex[") and array.dtype.kind != "c"
        if array.ndim != 1 or (self._pairs and array.dtype.kind != "f") or (self._iso and not array.size):
            raise IngestError(f"{array.name!r} must be a list of {kind} values", name)
        read = np.result_type(array.dtype, np.complex64) if self._pairs else array.dtype
        try:
            self.dtype = np.dtype(bool) if plain == "bint8" else check_dtype(read)
        except UnsupportedError:
            raise IngestError(f"{array.name!r} must be numbers or booleans, got {array.dtype}", name) from None
        self._length = len(array) // (2 if self._pairs else 1)
        if self._iso:
            counts = [group[member] for member in ("indices_1", "indices_0") if member in group]
            self._length = len(counts[0]) if counts else math.prod(found.get("shape", ()))
        hdf5.check_unpacked_size(array, name)

    ndim = 1

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> NDArray[Any]:
        count = part.stop - part.start
        if self._iso:
            return np.repeat(self._plain(slice(0, 1)), count)
        return self._plain(part)

    def _plain(self, part: slice) -> NDArray[Any]:
        if self._pairs:
            return np.ascontiguousarray(self._array[2 * part.start : 2 * part.stop]).view(self.dtype)
        return as_canonical(np.asarray(self._array[part], self.dtype))


def _coordinates(
    group: Any, values: _Values, shape: tuple[int, ...], order: Sequence[int], name: str
) -> hdf5.StoredMatrix:
    members = [f"indices_{k}" for k in range(len(shape))]
    hdf5.get_group(group.file, group.name, name, *members)
    arrays = [group[member] for member in members]
    if any(array.ndim != 1 or array.dtype.kind not in "iu" or len(array) != len(values) for array in arrays):
        raise IngestError(f"the coordinates in {group.name!r} must be {len(values)} integers per dimension", name)
    for array in arrays:
        hdf5.check_unpacked_size(array, name)

    def chunks(advance: Callable[[int], None]) -> hdf5.ElementChunks:
        step = tuning().hdf5_elements
        for start in range(0, len(values), step):
            stop = min(start + step, len(values))
            columns = {dim: hdf5.read_indices(array, start, stop, shape[dim], name)
                       for dim, array in zip(order, arrays, strict=True)}  # fmt: skip
            yield (*(columns[dim] for dim in range(len(shape))), values[start:stop])
            advance((stop - start) * values.dtype.itemsize)

    return hdf5.StoredMatrix(shape, values.dtype, len(values) * values.dtype.itemsize, chunks)


def _dense(values: _Values, shape: tuple[int, ...], order: Sequence[int], name: str) -> hdf5.StoredMatrix:
    if len(values) != math.prod(shape):
        raise IngestError(f"{values.name!r} must have {math.prod(shape)} values, got {len(values)}", name)
    sizes = [shape[dim] for dim in order]

    def chunks(advance: Callable[[int], None]) -> hdf5.ElementChunks:
        step = tuning().hdf5_elements
        for start in range(0, len(values), step):
            part = values[start : min(start + step, len(values))]
            kept = np.flatnonzero(part)
            columns = dict(zip(order, np.unravel_index(kept + start, sizes), strict=True))
            yield (*(columns[dim] for dim in range(len(shape))), part[kept])
            advance(len(part) * values.dtype.itemsize)

    return hdf5.StoredMatrix(shape, values.dtype, len(values) * values.dtype.itemsize, chunks)


def _mirror(tensor: hdf5.StoredMatrix, structure: str, name: str, advance: Callable[[int], None]) -> hdf5.ElementChunks:
    """Yield the elements of a matrix, and those implied by its structure."""
    kind, _, side = structure.rpartition("_")
    square = len(tensor.shape) == 2 and tensor.shape[0] == tensor.shape[1]
    signed = kind != "skew_symmetric" or tensor.dtype.kind not in "ub"
    if kind not in _STRUCTURES or side not in ("lower", "upper") or not square or not signed:
        raise IngestError(f"structure {structure!r} does not apply to {tensor.dtype} of shape {tensor.shape}", name)
    for row, col, values in tensor.chunks(advance):
        away = row != col
        if ((row < col) if side == "lower" else (row > col)).any():
            raise IngestError(f"an element is on the wrong side of the diagonal for {structure!r}", name)
        other = _STRUCTURES[kind](values[away])
        yield np.append(row, col[away]), np.append(col, row[away]), np.append(values, other)


@dataclass
class BinsparseWriter(Writer):
    """Write a tensor as binsparse in HDF5: CVEC, COOR, or one sparse level."""

    text: ClassVar[bool] = False

    def write(self) -> int:
        """Write the file and return the number of elements."""
        tensor = self.tensor
        if self.dst == "-":
            raise UnsupportedError("HDF5 cannot be written to standard output")
        if not tensor.ndim:
            raise UnsupportedError("binsparse needs at least 1 dimension: use npy")
        schema, count = Schema(tensor.shape, tensor.dims, tensor.dtype, tensor.fill_value), tensor.nnz
        descriptor = descriptor_of(schema, count, "sparrow")
        kinds = descriptor[_NAME]["data_types"]
        pairs = schema.dtype.kind == "c"
        stored = np.dtype(f"f{schema.dtype.itemsize // 2}") if pairs else schema.dtype
        stored = np.dtype(np.uint8) if schema.dtype.kind == "b" else stored
        names = [*(f"indices_{dim}" for dim in range(tensor.ndim)), "values"]
        types = dict(zip(names, [*(kinds[name] for name in names[:-1]), stored], strict=True))
        fill = None if schema.has_zero_fill else np.full(1, schema.fill_value, schema.dtype).view(stored)
        with self.sink() as sink, hdf5_output.create_file(sink) as file, bar("exporting", count, "elements") as advance:
            file.run(_create_tensor, json.dumps(descriptor), types, fill)
            for batch in tensor.to_batches():
                parts = [column.to_numpy(zero_copy_only=False) for column in batch.columns[tensor.ndim :]]
                values = np.ascontiguousarray(decode_values(parts, schema.dtype)).view(stored)
                coords = [column.to_numpy() for column in batch.columns[: tensor.ndim]]
                file.append(dict(zip(names, [*coords, values], strict=True)))
                advance(batch.num_rows)
        return count


def _create_tensor(file: Any, descriptor: str, types: dict[str, Any], fill: NDArray[Any] | None) -> None:
    file.attrs[_NAME] = descriptor
    for name, kind in types.items():
        hdf5_output.create_resizable(file, name, kind)
    if fill is not None:
        file["fill_value"] = fill


def _detect(sample: Sample) -> str | None:
    return "HDF5 with an attribute binsparse, the descriptor of its arrays" if find_descriptors(sample.hdf5) else None


FORMATS = (
    Format(
        "binsparse",
        "Binary Sparse Format (HDF5).",
        Binsparse,
        BinsparseWriter,
        (".h5", ".hdf5"),
        signatures={hdf5.HDF5_MAGIC: ("HDF5", "sparrow ingest {file} DST detects the layout and reads it")},
        detectors={Stage.HDF5: _detect},
    ),
)
