"""Dense arrays in .npy files of NumPy."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparrow import engines, storage
from sparrow.core.array_validation import as_canonical
from sparrow.core.schema import Schema, check_dims, check_dtype, is_fill
from sparrow.errors import IngestError, InvalidValueError, SparrowError, StorageError, UnsupportedError
from sparrow.interop.conversion import check_fill
from sparrow.io.base.coo_writer import write_coo
from sparrow.io.base.magic import reject_compressed
from sparrow.io.base.registry import DType, FillValue, Format, Option, Reader, Writer, parse_names, shared
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.source import SIGNATURE_BYTES, open_sources
from sparrow.io.base.value_cast import ValueCast
from sparrow.io.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.runtime.progress import bar
from sparrow.sorting import Rows
from sparrow.storage.fs.failures import read_error
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["FORMATS", "Npy", "NpyWriter"]


@shared
@dataclass
class Npy(Reader):
    """Store the elements of a dense .npy array that differ from the fill value.

    The array may be larger than memory.

    Parameters
    ----------
    src
        File of ``np.save``, of numbers, in C or Fortran order.
    %(dst)s
    dims
        Names of the dimensions, ``d0, d1, ...`` by default.
    %(fill_value)s
    dtype
        Type of the values; that of the array by default.
    %(storing)s

    Returns
    -------
    Tensor
        ``sp.open(dst)``: the stored tensor.

    Raises
    ------
    IngestError
        If the file is not an array, is truncated or too long, holds objects or fields, or a value does not fit
        ``dtype``.
    %(not_found)s
    %(exists)s
    InvalidValueError, ShapeError
        If an argument has none of the values above.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> np.save("eye.npy", np.eye(3))
    >>> sp.ingest.npy("eye.npy", "eye.sparrow").nnz
    3
    """

    _: KW_ONLY
    dims: Annotated[
        Sequence[str] | None, Option("Names. [default: d0,d1,...]", metavar="A,B,...", parse=parse_names)
    ] = None
    fill_value: FillValue = 0
    dtype: DType = None

    accepts_many: ClassVar[bool] = False
    examples: ClassVar[str] = "sparrow ingest npy counts.npy counts.sparrow --dims cell,gene"

    def read(self) -> str:
        """Store the array and return its folder."""
        sources = open_sources(self.src)
        if len(sources) > 1 or sources[0].size is None:
            raise InvalidValueError(f"src must be one .npy file, got {self.src!r}")
        name, size = sources[0].name, sources[0].size
        head = _read_header(name, size)
        dtype = check_dtype(head.dtype if self.dtype is None else self.dtype)
        if head.dtype.kind == "c" and dtype.kind != "c":
            raise InvalidValueError(f"dtype={dtype} cannot hold complex values: omit dtype, or pass complex64")
        schema = Schema(
            head.shape, check_dims(self.dims, len(head.shape)), dtype, check_fill(self.fill_value, dtype, None)
        )

        cast = ValueCast(dtype, self.dtype is not None, self.report)

        def rows_of(block: tuple[int, NDArray[Any]]) -> Rows:
            start, values = block
            at = np.flatnonzero(~is_fill(values, schema.fill_value))
            found, unfit = cast(values[at])
            coords: tuple[NDArray[Any], ...] = tuple(np.empty(0, np.int64) for _ in head.shape)
            if len(at) and head.shape:
                coords = np.unravel_index(at + start, head.shape, "F" if head.fortran else "C")
            if unfit is not None:
                element, value = tuple(int(column[unfit]) for column in coords), values[at][unfit]
                raise IngestError(f"the value at {element} {cast.problem(value)}", name, token=str(value))
            return Rows(tuple(column.astype(np.int64) for column in coords), found)

        if not head.shape:
            (value,) = _blocks(name, head)
            found = rows_of(value).values
            assert found is not None
            block = Block((), found)
            extra = {"sources": [name]}
            storage.save(self.dst, schema, [block], profile=self.profile, overwrite=self.overwrite,
                         operation="ingest npy", extra=extra)  # fmt: skip
            return os.fspath(self.dst)
        with storage.stage_folder(self.dst, self.overwrite) as folder, bar("reading the array", size) as advance:

            def items() -> Iterator[tuple[int, NDArray[Any]]]:
                for block in _blocks(name, head):
                    yield block
                    advance(block[1].nbytes)

            written = write_coo(
                folder,
                items(),
                rows_of,
                dims=schema.dims,
                dtype=dtype,
                weighted=True,
                duplicates="error",
                fill_value=schema.fill_value,
                profile=self.profile,
                report=self.report,
            )
            storage.create(
                folder,
                schema,
                written.files,
                profile=self.profile,
                operation="ingest npy",
                report=self.report.counts,
                extra={"sources": [name]},
            )
        return os.fspath(self.dst)


class _Head(NamedTuple):
    """Header of a .npy file."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int
    """Byte at which the values begin."""


def _read_header(name: str, size: int) -> _Head:
    try:
        with get_filesystem(name).open(name, sequential=True, size=size) as file:
            reject_compressed(file.read(SIGNATURE_BYTES), name)
            file.seek(0)
            version = np.lib.format.read_magic(file)
            reading = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            if version == (3, 0):  # version 2 with names of fields in UTF-8, which are rejected anyway
                version = (2, 0)
            if version not in reading:
                raise IngestError(f"version {version} of the format is unknown", name)
            shape, fortran, dtype = reading[version](file)
            start = file.tell()
    except SparrowError:
        raise
    except OSError as error:
        raise read_error(error, name) from error
    except Exception as error:  # NumPy and its parser raise anything on a damaged header
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise IngestError(f"this is not a .npy file of an array: {reason}", name) from error
    try:
        check_dtype(dtype)
    except UnsupportedError:
        problem = f"values must be numbers or booleans, got {dtype}"
        if dtype.kind == "O":
            problem += ", a pickle, which is never loaded: scipy.sparse.save_npz(...) writes a sparse array to be read"
        raise IngestError(problem, name) from None
    count = math.prod(shape)
    if any(n < 0 for n in shape) or start + count * dtype.itemsize != size:
        problem = f"the file must have {start + count * dtype.itemsize} bytes for {dtype} of shape {shape}, got {size}"
        raise IngestError(problem, name)
    return _Head(shape, bool(fortran) and len(shape) > 1, dtype, start)


def _blocks(name: str, head: _Head) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield values in the order of the file, each with the number of those before."""
    count, done = math.prod(head.shape), 0
    with get_filesystem(name).open(name, sequential=True) as file:
        file.seek(head.start)
        while done < count:
            values = np.empty(min(tuning().npy_block_bytes // head.dtype.itemsize, count - done), head.dtype)
            if file.readinto(values.view(np.uint8).data) != values.nbytes:
                raise IngestError(f"the file ends after {done} values of {count}", name)
            yield done, as_canonical(values)
            done += len(values)


@dataclass
class NpyWriter(Writer):
    """Write a tensor as a dense array, streamed."""

    text: ClassVar[bool] = False

    def write(self) -> int:
        """Write the file and return the number of stored elements."""
        tensor = self.tensor
        shape, dtype, fill = tensor.shape, tensor.dtype, tensor.fill_value
        count = math.prod(shape)
        disk = None if self.dst == "-" else get_filesystem(self.dst).local_disk(self.dst)
        if disk is not None:
            free = shutil.disk_usage(disk).free
            if count * dtype.itemsize > free:
                raise StorageError(
                    f"a dense {dtype} array of shape {shape} needs {count * dtype.itemsize} bytes, {free} are free: "
                    "write the stored elements only, as npz or parquet"
                )
        rows = 0
        with self.sink() as file, bar("exporting", count, "elements") as advance:
            head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, head)
            done = 0
            if not shape:
                file.write(tensor.to_numpy().astype(dtype).tobytes())
                return tensor.nnz
            room = tuning().npy_block_bytes // dtype.itemsize
            buffer = np.full(min(room, count), fill, dtype)
            for block in engines.iter_sorted_blocks(tensor.__sparrow_scan__()):
                at = np.ravel_multi_index(tuple(column.astype(np.int64) for column in block.coords), shape)
                start = 0
                while start < len(at):
                    stop = int(np.searchsorted(at, done + len(buffer)))
                    buffer[at[start:stop] - done] = block.values[start:stop]
                    if stop < len(at):
                        file.write(buffer.tobytes())
                        advance(len(buffer))
                        done += len(buffer)
                        buffer = np.full(min(room, count - done), fill, dtype)
                    start = stop
                rows += len(at)
            while done < count:
                file.write(buffer.tobytes())
                advance(len(buffer))
                done += len(buffer)
                buffer = np.full(min(room, count - done), fill, dtype)
        return rows


_SIGNATURE = b"\x93NUMPY"


def _detect(sample: Sample) -> str | None:
    return "it begins with the signature of NumPy's .npy files" if sample.head.startswith(_SIGNATURE) else None


FORMATS = (
    Format(
        "npy",
        "Dense arrays of NumPy.",
        reader=Npy,
        writer=NpyWriter,
        suffixes=(".npy",),
        signatures={_SIGNATURE: ("a NumPy array", "sparrow ingest npy {file} DST")},
        detectors={Stage.SIGNATURE: _detect},
    ),
)
