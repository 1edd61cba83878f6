"""Stored tensors to files that other programs read: Parquet, Arrow, CSV, edge lists, .npz, libsvm.

Entries are streamed, so a tensor may be larger than memory (a .npz file is made in memory). A file appears under its
name when it is whole: a failed or interrupted export leaves what was there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.errors import ExistsError, InvalidValueError, UnsupportedError
from sparrow.interop.interchange import replacing
from sparrow.progress import bar
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

__all__ = ["FORMATS", "export"]

FORMATS = ("parquet", "arrow", "csv", "tsv", "edges", "npz", "libsvm")
"""What can be written."""

_SUFFIXES = {".ipc": "arrow", ".feather": "arrow", ".svm": "libsvm", ".txt": "edges"}
_COMPRESSION = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


def export(
    source: Tensor | Bundle,
    dst: str | os.PathLike[str],
    *,
    format: str | None = None,
    labels: bool = True,
    index_base: int = 1,
    overwrite: bool = False,
) -> int:
    """Write a tensor, or a bundle of ``X`` and ``y``, to a file and return the number of rows written.

    What is written are the entries. Of shape, fill and types a .npz file keeps all, a table those of its columns.

    Parameters
    ----------
    source
        The tensor; a bundle for libsvm.
    dst
        The file; ``"-"`` is standard output. Text is compressed where the name ends in ``.gz``, ``.zst`` or ``.bz2``.
    format
        By default what the name ends in says: ``.parquet``, ``.arrow`` (``.ipc``, ``.feather``), ``.csv``, ``.tsv``,
        ``.edges`` or ``.txt`` (an edge list: a line ``# src dst value``, then columns parted by tabs, True as 1),
        ``.npz``, ``.libsvm`` or ``.svm``.
    labels
        Write labels instead of coordinates where a dimension has some; libsvm, .npz and Arrow arrays know none.
    index_base
        Of libsvm: what the first column is called, 0 or 1.
    overwrite
        Replace a file that is there.

    Raises
    ------
    ExistsError
        If there is a file and ``overwrite`` is not set.
    InvalidValueError
        If no format is told, or an option is not one of those above.
    NotFoundError
        If there is no such folder.
    UnsupportedError
        If the format cannot hold the tensor.
    """
    if not isinstance(source, Tensor | Bundle):
        raise UnsupportedError(f"{type(source).__name__} is no tensor: sp.asarray makes one of an array or a table")
    name = os.fspath(dst)
    kind, compression = _format(name, format)
    if index_base not in (0, 1):
        raise InvalidValueError(f"index_base={index_base}: use 0 or 1")
    if name != "-" and os.path.lexists(name) and not overwrite:
        raise ExistsError(f"{name!r} exists: choose another name, or pass overwrite=True to replace it")
    if kind == "libsvm":
        data = _Samples(source, index_base)
        with _sink(name, compression) as file, bar("exporting", data.X.nnz, "entries") as advance:
            return data.write(file, advance)
    if not isinstance(source, Tensor):
        members = ", ".join(map(repr, source))
        raise UnsupportedError(f"a bundle is exported as libsvm, or tensor by tensor: it holds {members}")
    if kind == "npz":
        if name == "-":
            raise UnsupportedError("a .npz file is not written to standard output: give a name")
        source.to_npz(name)
        return source.nnz
    return _table(source, name, kind, compression, labels)


def _format(name: str, format: str | None) -> tuple[str, str | None]:
    """Return the format and the compression that a name, and who calls, ask for."""
    if format is not None and format not in FORMATS:
        raise InvalidValueError(f"format={format!r}: use one of {', '.join(map(repr, FORMATS))}")
    path = Path(name)
    compression = _COMPRESSION.get(path.suffix)
    suffix = (path.with_suffix("") if compression else path).suffix
    kind = format or _SUFFIXES.get(suffix, suffix.removeprefix("."))
    if kind not in FORMATS:
        raise InvalidValueError(
            f"the name {name!r} tells no format: say format=, one of {', '.join(map(repr, FORMATS))}"
        )
    if compression and kind in ("parquet", "arrow", "npz"):
        raise InvalidValueError(f"{name!r}: {kind} is compressed inside, leave out {path.suffix}")
    return kind, compression


@contextmanager
def _sink(name: str, compression: str | None) -> Iterator[Any]:
    """Open a file that takes its name when the block ends well, or standard output."""
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(name) as file:
        packed: AbstractContextManager[Any] = (
            nullcontext(file) if compression is None else pa.CompressedOutputStream(file, compression)
        )
        with packed as sink:
            yield sink


def _table(tensor: Tensor, name: str, kind: str, compression: str | None, labels: bool) -> int:
    """Write the entries as a table, a column for each dimension and one for the values (two for complex ones)."""
    if kind == "edges" and tensor.ndim != 2:
        raise UnsupportedError(f"an edge list has two dimensions, this tensor {tensor.ndim}: use csv or parquet")
    if kind == "edges" and tensor.dtype.kind == "c":
        raise UnsupportedError(f"an edge has one number, and these are {tensor.dtype}: use csv or parquet")
    named = {axis: found for axis in range(tensor.ndim) if labels and (found := tensor.labels(axis)) is not None}
    for axis, found in named.items() if kind == "edges" else ():
        texts = pa.types.is_string(found.type) or pa.types.is_large_string(found.type)
        if texts and pc.any(pc.match_substring_regex(found, r"[\s,\"]")).as_py():
            raise UnsupportedError(
                f"labels of {tensor.dims[axis]!r} hold blanks, commas or quotes, which part the columns of an edge "
                "list: write numbers with labels=False, or csv"
            )
    schema = pa.RecordBatchReader.from_stream(tensor).schema
    for axis, found in named.items():
        field = pa.field(schema.field(axis).name, found.type, nullable=False)
        schema = schema.set(axis, field)
    if kind in ("csv", "tsv", "edges"):  # CSV is written of plain numbers
        halves = [k for k, field in enumerate(schema) if pa.types.is_float16(field.type)]
        for k in halves:
            schema = schema.set(k, schema.field(k).with_type(pa.float32()))
        if kind == "edges" and tensor.dtype.kind == "b":
            schema = schema.set(2, schema.field(2).with_type(pa.int8()))
    rows = 0
    with (
        _sink(name, compression) as file,
        _writer(kind, file, schema) as write,
        bar("exporting", tensor.nnz, "entries") as advance,
    ):
        for batch in tensor.to_batches():
            columns = list(batch.columns)
            for axis, found in named.items():
                columns[axis] = found.take(columns[axis])
            columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
            write(pa.RecordBatch.from_arrays(columns, schema=schema))
            rows += batch.num_rows
            advance(batch.num_rows)
    return rows


@contextmanager
def _writer(kind: str, file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
    """Return what writes a batch in a format."""
    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetWriter(file, schema, compression="zstd") as parquet:
            yield parquet.write_batch
    elif kind == "arrow":
        with pa.ipc.new_file(file, schema) as arrow:
            yield arrow.write_batch
    else:
        from pyarrow import csv

        delimiter = "," if kind == "csv" else "\t"
        names = [f'"{name.replace(chr(34), chr(34) * 2)}"' if delimiter in name else name for name in schema.names]
        file.write((("# " if kind == "edges" else "") + delimiter.join(names) + "\n").encode())
        quotes = "none" if kind == "edges" else "needed"
        options = csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=quotes)
        with csv.CSVWriter(pa.PythonFile(file, mode="w"), schema, write_options=options) as text:
            yield text.write_batch


class _Samples:
    """A bundle as lines of libsvm: ``label index:value ...``, a line for each row."""

    def __init__(self, source: Tensor | Bundle, index_base: int) -> None:
        found: Mapping[str, Tensor] = source if isinstance(source, Bundle) else {}
        if "X" not in found or "y" not in found or found["X"].ndim != 2 or found["X"].dtype.kind == "c":
            raise UnsupportedError(
                "libsvm is written of a bundle with a matrix X and labels y, such as sp.ingest.libsvm makes"
            )
        self.X = found["X"]
        if self.X.fill_value != 0:
            raise UnsupportedError(f"libsvm leaves out zeros, and the absent cells of X are {self.X.fill_value}")
        self._base = index_base
        self._heads = self._labels(found["y"])
        if "qid" in found:
            numbers = pa.array(found["qid"].to_numpy()).cast(pa.string())
            self._heads = pc.binary_join_element_wise(self._heads, numbers, " qid:")

    def _labels(self, y: Tensor) -> pa.Array:
        """Return the text of each row's label; several are joined by commas."""
        if y.ndim == 1:
            return pa.array(y.to_numpy()).cast(pa.string())
        names = y.labels(1)
        entries = y.to_arrow()
        which = entries.column(1).combine_chunks()
        texts = which.cast(pa.string()) if names is None else names.take(which)
        return _joined(entries.column(0).to_numpy(), texts, 0, y.shape[0], ",")

    def write(self, file: BinaryIO, advance: Callable[[int], None]) -> int:
        """Write the lines and return their number."""
        done = 0
        held: list[pa.RecordBatch] = []
        for batch in self.X.to_batches():
            rows = batch.column(0).to_numpy()
            cut = int(np.searchsorted(rows, rows[-1], "left"))  # the last row may go on in the next batch
            held.append(batch.slice(0, cut))
            if cut:
                done = self._lines(file, held, done, int(rows[-1]))
                held = []
            held.append(batch.slice(cut))
            advance(batch.num_rows)
        return self._lines(file, held, done, self.X.shape[0])

    def _lines(self, file: BinaryIO, batches: list[pa.RecordBatch], start: int, stop: int) -> int:
        """Write the rows from ``start`` up to ``stop``, whose entries are in the batches, and return ``stop``."""
        rows = np.concatenate([batch.column(0).to_numpy() for batch in batches] or [np.zeros(0, np.int64)])
        tokens = [
            pc.binary_join_element_wise(
                pc.add(batch.column(1).cast(pa.int64()), self._base).cast(pa.string()),
                _number(batch.column(2)).cast(pa.string()),
                ":",
            )
            for batch in batches
        ]
        texts = pa.concat_arrays(tokens) if tokens else pa.array([], pa.string())
        lines = _joined(rows, texts, start, stop, " ")
        heads = self._heads.slice(start, stop - start)
        text = pc.binary_join_element_wise(heads, lines, " ").to_pylist()
        if text:
            nothing = f"{self._base}:0"  # a blank line would be no row
            file.write("\n".join(line.strip() or nothing for line in text).encode() + b"\n")
        return stop


def _number(values: pa.Array) -> pa.Array:
    """Return values as numbers: booleans as 0 and 1."""
    return values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values


def _joined(rows: NDArray[Any], texts: pa.Array, start: int, stop: int, separator: str) -> pa.Array:
    """Return the texts of each row from ``start`` up to ``stop``, joined; ``rows`` ascends."""
    offsets = np.searchsorted(rows, np.arange(start, stop + 1))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts), separator)
