"""Writers of tables (CSV, TSV, Parquet, Arrow): a column per dimension and value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from sparrow.core.label_types import is_string_type
from sparrow.errors import UnsupportedError
from sparrow.io.base.registry import Format, Option, Writer
from sparrow.runtime.progress import bar

__all__ = ["FORMATS", "ArrowWriter", "ParquetWriter", "TableWriter", "TsvWriter", "check_no_nul"]


@dataclass
class TableWriter(Writer):
    """Write the elements of a tensor as a table, CSV by default."""

    _: KW_ONLY
    labels: Annotated[bool, Option("Write labels, or coordinates.", flag="--labels/--numbers")] = True

    writes_labels: ClassVar[bool] = True
    writes_dims: ClassVar[bool] = True
    writes_fill: ClassVar[bool] = False
    delimiter: ClassVar[str] = ","
    quoting: ClassVar[str] = "needed"
    title: ClassVar[str] = "comma-separated text"
    comment: ClassVar[str] = ""
    """Prefix of the header line."""

    @cached_property
    def written_labels(self) -> dict[int, pa.Array]:
        """Labels that are written instead of coordinates, by axis."""
        tensor = self.tensor
        labels = ((axis, tensor.labels(axis)) for axis in range(tensor.ndim) if self.labels)
        return {axis: found for axis, found in labels if found is not None}

    forbidden_labels: ClassVar[tuple[str, str]] = ("", "")
    """Pattern of what labels must not hold, and the reason."""

    def check(self) -> None:
        """Raise ``UnsupportedError`` for a tensor that the format cannot hold."""
        pattern, what = self.forbidden_labels
        for axis, found in self.written_labels.items():
            if self.text:
                check_no_nul(
                    found, self.tensor.dims[axis], self.title, "write coordinates with labels=False, or parquet"
                )
            if not pattern or pa.types.is_integer(found.type):
                continue
            texts = found.cast(pa.string())
            at = pc.index(pc.match_substring_regex(texts, pattern), True).as_py()
            if at >= 0:
                raise UnsupportedError(
                    f"label {texts[at].as_py()!r} of {self.tensor.dims[axis]!r} cannot be written to "
                    f"{self.title}, where {what}: write coordinates with labels=False, or csv"
                )

    def schema(self) -> pa.Schema:
        """Return the columns as written."""
        schema = pa.RecordBatchReader.from_stream(self.tensor).schema
        for axis, found in self.written_labels.items():
            schema = schema.set(axis, pa.field(schema.field(axis).name, found.type, nullable=False))
        if self.text:  # pyarrow writes no float16 as text
            for k, field in enumerate(schema):
                if pa.types.is_float16(field.type):
                    schema = schema.set(k, field.with_type(pa.float32()))
        return schema

    @contextmanager
    def batches(self, file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
        """Open a writer of record batches to a file."""
        from pyarrow import csv as arrow_csv

        names = [f'"{name.replace(chr(34), chr(34) * 2)}"' if self.delimiter in name else name for name in schema.names]
        file.write((self.comment + self.delimiter.join(names) + "\n").encode())
        options = arrow_csv.WriteOptions(include_header=False, delimiter=self.delimiter, quoting_style=self.quoting)
        with arrow_csv.CSVWriter(pa.PythonFile(file, mode="w"), schema, write_options=options) as text:
            yield text.write_batch

    def write(self) -> int:
        """Write the file and return the number of rows."""
        tensor, rows = self.tensor, 0
        self.check()
        schema = self.schema()
        with (
            self.sink() as file,
            self.batches(file, schema) as write,
            bar("exporting", tensor.nnz, "elements") as advance,
        ):
            for batch in tensor.to_batches():
                columns = list(batch.columns)
                for axis, found in self.written_labels.items():
                    columns[axis] = found.take(columns[axis])
                columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
                write(pa.RecordBatch.from_arrays(columns, schema=schema))
                rows += batch.num_rows
                advance(batch.num_rows)
        return rows


def check_no_nul(labels: pa.Array, dim: str, title: str, remedy: str) -> None:
    """Raise ``UnsupportedError`` for a text with a NUL, which ends texts elsewhere."""
    if not is_string_type(labels.type):
        return
    at = pc.index(pc.match_substring(labels.cast(pa.large_string()), "\0"), True).as_py()
    if at >= 0:
        raise UnsupportedError(
            f"label {labels[at].as_py()!r} of {dim!r} cannot be written to {title}, whose texts hold no NUL: {remedy}"
        )


@dataclass
class TsvWriter(TableWriter):
    """Write the elements as tab-separated columns, without quotes."""

    delimiter: ClassVar[str] = "\t"
    quoting: ClassVar[str] = "none"
    forbidden_labels: ClassVar[tuple[str, str]] = (
        r"[\t\r\n\"]|^$",
        "tabs, line ends and quotes are separators, and empty texts are nulls",
    )
    title: ClassVar[str] = "tab-separated text"


@dataclass
class ParquetWriter(TableWriter):
    """Write the elements as Parquet."""

    text: ClassVar[bool] = False

    @contextmanager
    def batches(self, file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
        """Open a writer of record batches to a file."""
        import pyarrow.parquet as pq

        with pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as parquet:
            yield parquet.write_batch


@dataclass
class ArrowWriter(TableWriter):
    """Write the elements as an Arrow file."""

    text: ClassVar[bool] = False

    @contextmanager
    def batches(self, file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
        """Open a writer of record batches to a file."""
        with pa.ipc.new_file(file, schema) as arrow:
            yield arrow.write_batch


FORMATS = (
    Format("parquet", "Parquet.", writer=ParquetWriter, suffixes=(".parquet",)),
    Format("arrow", "Arrow files.", writer=ArrowWriter, suffixes=(".arrow", ".ipc", ".feather")),
    Format("csv", "Comma-separated columns.", writer=TableWriter, suffixes=(".csv",)),
    Format("tsv", "Tab-separated columns.", writer=TsvWriter, suffixes=(".tsv",)),
)
"""Formats that are written; the format ``columns`` reads them all."""
