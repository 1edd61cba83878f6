"""Sparse arrays in .npz files of SciPy and pydata/sparse."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.casting import cast_checked
from sparrow.core.schema import Schema, is_fill
from sparrow.errors import (
    IndexingError,
    IngestError,
    InvalidValueError,
    ShapeError,
    SparrowError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.interop.conversion import from_object
from sparrow.interop.interchange import Coordinates, from_npz
from sparrow.io.base.magic import reject_compressed
from sparrow.io.base.registry import FillValue, Format, Option, Reader, Writer, parse_names, shared
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.source import SIGNATURE_BYTES
from sparrow.kernels.coo import Block
from sparrow.runtime import settings
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.tensor.display import human_bytes

__all__ = ["FORMATS", "Npz", "NpzWriter"]

_SPARSE = {"format", "fill_value"}
"""Names of arrays, one of which every sparse file has."""


@shared
@dataclass
class Npz(Reader):
    """Store a sparse array of a .npz file, which must fit in memory.

    Parameters
    ----------
    src
        File of ``scipy.sparse.save_npz`` (csr, csc, coo, bsr, dia; duplicates are summed), or ``sparse.save_npz`` of
        pydata/sparse (COO, GCXS; with a fill value).
    %(dst)s
    dims
        Names of the dimensions, ``d0, d1, ...`` by default.
    %(fill_value)s
    %(storing)s

    Returns
    -------
    Tensor
        ``sp.open(dst)``: the stored tensor, with shape, dtype and fill value of the array.

    Raises
    ------
    InvalidValueError
        If the name does not end in ``.npz``.
    IngestError
        If the file is damaged, or not a sparse array.
    TooLargeError
        If its arrays exceed the memory limit.
    FileNotFoundError
        If the file does not exist.
    %(exists)s

    Examples
    --------
    >>> import scipy.sparse, sparrow as sp
    >>> scipy.sparse.save_npz("eye.npz", scipy.sparse.eye_array(3))
    >>> sp.ingest.npz("eye.npz", "eye.sparrow").nnz
    3
    """

    _: KW_ONLY
    dims: Annotated[
        Sequence[str] | None, Option("Names. [default: d0,d1,...]", metavar="A,B,...", parse=parse_names)
    ] = None
    fill_value: FillValue = None

    accepts_many: ClassVar[bool] = False
    examples: ClassVar[str] = "sparrow ingest npz matrix.npz matrix.sparrow --dims row,col"

    def read(self) -> str:
        """Store the array and return its folder."""
        if not isinstance(self.src, str | os.PathLike):
            raise InvalidValueError(f"src must be one .npz file, got {self.src!r}")
        name = os.fspath(self.src)
        files = get_filesystem(name)
        if not name.endswith(".npz") and (files.is_remote or not zipfile.is_zipfile(name)):
            raise InvalidValueError(f"{name!r} must end in .npz or be one: sp.ingest(src, dst) detects formats")
        with files.local_copy(name) as near:
            schema, block, given = _read_array(near, name, self.dims, self.fill_value)
        zeros = int(np.count_nonzero(is_fill(given, schema.fill_value)))
        self.report.add(read=len(given), stored=block.count, fill=zeros, merged=len(given) - block.count - zeros)
        storage.save(
            self.dst,
            schema,
            [block],
            profile=self.profile,
            overwrite=self.overwrite,
            operation="ingest npz",
            report=self.report.counts,
            extra={"sources": [os.fspath(self.src)]},
        )
        return os.fspath(self.dst)


def _read_array(
    near: str, name: str, dims: Sequence[str] | None, fill_value: Any
) -> tuple[Schema, Block, NDArray[Any]]:
    """Return the array of a local copy of a file, and the values as stored in it.

    Nothing in the file is trusted.
    """
    limit = settings.current().memory_limit
    try:
        with zipfile.ZipFile(near) as archive:
            size = sum(member.file_size for member in archive.infolist())
            arrays = [member.removesuffix(".npy") for member in archive.namelist()]
        if size > limit:
            raise TooLargeError(
                f"{name} unpacks to {human_bytes(size)}, more than the memory limit of {human_bytes(limit)}: "
                "raise it with sp.config(memory_limit=...) if this is intended"
            )
        if arrays and not _SPARSE & {*arrays}:
            raise InvalidValueError(f"it holds {', '.join(map(repr, arrays))}: {_suggest_code(name, arrays)}")
        found = from_npz(near, any_name=True)
        schema, block = from_object(found, dims=dims, fill_value=fill_value)[:2]
        unfit = cast_checked(block.values, schema.dtype)[1]
        if unfit is not None:
            element = tuple(int(column[unfit]) for column in block.coords)
            way = f"sp.asarray(scipy.sparse.load_npz({name!r}).astype('float64')).save(DST)"
            raise IngestError(f"the value at {element} exceeds 2^63 - 1, the largest stored integer: {way}", name,
                              token=str(block.values[unfit]))  # fmt: skip
        if not isinstance(found, Coordinates):  # dia and bsr store more than their elements
            found = found if found.format in ("csr", "csc", "coo") else found.tocoo()
        return schema, block, np.asarray(found.values if isinstance(found, Coordinates) else found.data)
    except (FileNotFoundError, IsADirectoryError, PermissionError, TooLargeError, ShapeError):
        raise
    except Exception as error:
        if isinstance(error, SparrowError) and not isinstance(error, InvalidValueError | IndexingError):
            raise
        with open(near, "rb") as file:
            reject_compressed(file.read(SIGNATURE_BYTES), name)
        cause = error.__cause__ if isinstance(error, InvalidValueError) and error.__cause__ is not None else error
        reason = " ".join(str(cause).split()).replace(near, name) or type(cause).__name__
        raise IngestError(f"this is not a sparse array of SciPy or pydata/sparse: {reason}", name) from error


def _suggest_code(name: str, arrays: Sequence[str]) -> str:
    """Return code that stores other arrays: parts of a sparse one, or a dense one."""
    for array in arrays:
        first, part, _ = array.rpartition("data")
        for kind, parts, form in (("csr", ("indices", "indptr"), "{}, {}"), ("coo", ("row", "col"), "({}, {})")):
            others = [first + each for each in parts]
            if part and {*others} <= {*arrays}:
                where = form.format(*(f"z[{each!r}]" for each in others))
                shape = f", z[{first + 'shape'!r}]" if f"{first}shape" in arrays else ""
                made = f"scipy.sparse.{kind}_array((z[{array!r}], {where}){shape})"
                return f"z = numpy.load({name!r}); sp.asarray({made}).save(DST)"
    return f"sp.asarray(numpy.load({name!r})[{arrays[0]!r}]).save(DST) stores a dense one"


@dataclass
class NpzWriter(Writer):
    """Write a tensor as SciPy does if it can hold it, else as pydata/sparse does."""

    text: ClassVar[bool] = False

    def write(self) -> int:
        """Write the file and return the number of elements."""
        tensor = self.tensor
        if self.dst == "-":
            raise UnsupportedError("npz cannot be written to standard output")
        tensor.to_npz(self.dst)
        return tensor.nnz


def _detect(sample: Sample) -> str | None:
    is_archive = sample.head.startswith(b"PK\x03\x04")
    if is_archive and (sample.name.endswith(".npz") or b".npy" in sample.head[:80]):
        return "a zip archive of .npy arrays"
    return None


FORMATS = (
    Format(
        "npz",
        "Sparse arrays of SciPy and pydata/sparse.",
        reader=Npz,
        writer=NpzWriter,
        suffixes=(".npz",),
        detectors={Stage.SIGNATURE: _detect},
    ),
)
