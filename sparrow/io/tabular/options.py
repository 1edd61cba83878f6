"""Tables with named columns to tensors: CSV, JSON lines, Parquet, Arrow, frames."""

from __future__ import annotations

import json
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from sparrow import storage
from sparrow.core.schema import MAX_DIMENSION_SIZE, check_dims, check_dtype
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, ShapeError
from sparrow.io.base.coo_writer import check_disk_space
from sparrow.io.base.registry import (
    DType,
    FillValue,
    Format,
    Option,
    Reader,
    parse_id_kinds,
    parse_names,
    parse_shape,
    parse_value_names,
    shared,
    shared_help,
)
from sparrow.io.base.report import Report
from sparrow.io.base.sample import Sample, Stage, is_number
from sparrow.io.base.source import check_encoding, open_sources
from sparrow.io.tabular.delimited import CsvOptions, LateTextError
from sparrow.io.tabular.ingest import IMAGINARY_COLUMN, TableIngest, WideIdsError, is_label_type
from sparrow.io.tabular.readers import ReadSpec, open_table
from sparrow.runtime import progress
from sparrow.runtime.progress import bar
from sparrow.tensor import Tensor

__all__ = ["FORMATS", "Columns"]


@shared
@dataclass
class Columns(Reader):
    r"""Store a table: columns of coordinates, and one of values or none.

    Integers are coordinates, from 0. Texts and dates become labels: each dimension has its own, sorted, and the
    position of a label is its coordinate.

    Parameters
    ----------
    src
        Files: a path, a glob pattern, ``"-"`` for standard input, or a list of these. CSV (gzip, zstd and bz2 are
        detected from the content), JSON lines, Parquet or Arrow. Or a table: any object with ``__arrow_c_stream__``
        (Arrow, Polars, pandas), a Polars LazyFrame, a DuckDB relation; streams and queries are read batch by batch and
        may be larger than memory. Folders ``name=value`` on the paths of files, as in
        ``"log/year=*/month=*/*.parquet"``, are columns of integers, dates or texts; the folder ``"log"`` stands for
        all files in it.
    %(dst)s
    coords
        Columns of the coordinates, in the order of the dimensions. In JSON lines, Parquet and Arrow ``user.id`` is the
        member ``id`` of the object ``user``.
    value
        Column of the values; None if each row is an element of value 1. Each of several columns becomes a tensor of a
        bundle, by its name, with common labels and shape. A column ``value_im`` beside ``value``, as exports of complex
        tensors write it, is its imaginary part.
    shape
        Sizes of the dimensions; None, or None for one of them, follows from the data.
    dims
        Names of the dimensions; by default those of the columns.
    relabel
        True, or the columns for which it holds: number the integers that occur from 0, ascending, and keep them as
        labels. They may be negative, or hashes of 64 bits if the source is files or a table, which is then read twice.
    duplicates
        Rule for elements given more than once: ``"error"``, ``"sum"`` (without values: their count), ``"last"``,
        ``"first"``, ``"min"``, ``"max"``, ``"mean"`` or ``"count"``, the number of rows whatever their values.
    %(fill_value)s
    dtype
        Type of the values; by default that of the column, float64 for decimals, int64 without values.
    header
        Whether CSV begins with a line of names; otherwise columns are c0, c1, ...
    delimiter
        Separator of CSV: a character, several as in ``1::5``, or a blank for any run of blanks and tabs. By default
        the tab or the comma, whichever is more frequent in the first line.
    quotes
        Whether fields of CSV may be quoted, and then hold separators and line ends; by default yes, except for tabs,
        blanks and separators of several characters.
    text
        Columns of CSV coordinates that are texts though they look like numbers. Columns with leading zeros, as
        ``007``, are texts in any case, and so are those in which a text comes late: the files are then read twice.
    ids
        Kind of the coordinates of a column, ``{"item": "str", "user": "int"}``, whatever they look like.
    labels_of
        Stored tensor, or its path, whose dimensions of the same names define the coordinates: labels must be among its
        labels, and numbers below its sizes.
    %(index_base)s
    nulls
        ``"error"``, or ``"drop"`` for rows without a coordinate or a value; of several values the others are kept. An
        empty field of CSV is a null, unless it is a quoted text; so are ``NA`` and ``NULL`` among numbers.
    comment
        Prefix of lines of CSV to ignore.
    encoding
        Encoding of CSV, such as ``"latin-1"``; UTF-8 by default.
    decimal
        Decimal separator of CSV: ``"."``, or ``","`` as in ``3,5``.
    format
        ``"csv"``, ``"json"`` (an object per line), ``"parquet"`` or ``"arrow"``; detected from the content by default.
    %(storing)s

    Returns
    -------
    Tensor or Bundle
        ``sp.open(dst)``: the stored tensor, with a dimension per column of ``coords``; a bundle if ``value`` is a list.

    Raises
    ------
    IngestError
        If a column is missing, a coordinate or value is null, a coordinate is negative, not an integer, out of
        ``shape`` or not in ``labels_of``, or a value does not fit ``dtype``: with file, row and value, and the line of
        text.
    %(duplicate_error)s
    %(not_found)s
    %(exists)s
    ShapeError
        If the shape or the names of dimensions do not fit the coordinates.
    StorageError
        If the disk is too small.
    %(invalid)s

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> size = Path("ratings.csv").write_text("user,film,stars\nada,7,4.5\nbob,7,3\n")
    >>> ratings = sp.ingest.columns("ratings.csv", "ratings.sparrow", coords=["user", "film"], value="stars")
    >>> ratings.shape, ratings.labels("user").to_pylist(), ratings.nnz
    ((2, 8), ['ada', 'bob'], 2)
    """

    src: Any
    _: KW_ONLY
    coords: Annotated[Sequence[str], Option("Columns of the coordinates.", metavar="A,B,...", parse=parse_names)]
    value: Annotated[
        str | Sequence[str] | None,
        Option(
            "Column of the values; several make a bundle. [default: all are 1]",
            metavar="A,B,...",
            parse=parse_value_names,
        ),
    ] = None
    shape: Annotated[
        Sequence[int | None] | None,
        Option(
            "Sizes, ? for those that follow from the data. [default: ?,?,...]", metavar="M,N,...", parse=parse_shape
        ),
    ] = None
    dims: Annotated[
        Sequence[str] | None, Option("Names. [default: those of the columns]", metavar="A,B,...", parse=parse_names)
    ] = None
    relabel: Annotated[
        bool | Sequence[str], Option("Number the coordinates that occur, without gaps.", flag="--relabel")
    ] = False
    duplicates: Annotated[
        Literal["error", "sum", "last", "first", "min", "max", "mean", "count"],
        Option(shared_help("duplicates")),
    ] = "error"
    fill_value: FillValue = 0
    dtype: DType = None
    header: Annotated[bool, Option("CSV: the first line has names.")] = True
    delimiter: Annotated[str | None, Option("CSV: separator of columns. [default: tab or comma]")] = None
    quotes: Annotated[
        bool | None,
        Option("CSV: fields may be quoted. [default: unless separated by tabs]", flag="--quotes/--no-quotes"),
    ] = None
    text: Annotated[
        Sequence[str],
        Option(
            "CSV: columns of coordinates that are texts though they look like numbers.",
            metavar="A,B,...",
            parse=parse_names,
        ),
    ] = ()
    ids: Annotated[
        Mapping[str, str] | None,
        Option("Kind of coordinates, whatever they look like: str or int.", metavar="A=str,...", parse=parse_id_kinds),
    ] = None
    labels_of: Annotated[Any, Option("Stored tensor whose labels and sizes to use.", metavar="PATH", parse=str)] = None
    index_base: Annotated[Literal[0, 1], Option(shared_help("index_base"))] = 0
    nulls: Annotated[Literal["error", "drop"], Option("Rule for rows with nulls.")] = "error"
    comment: Annotated[str | None, Option("CSV: prefix of lines to ignore.")] = None
    encoding: Annotated[str | None, Option("CSV: encoding, UTF-8 by default.")] = None
    decimal: Annotated[Literal[".", ","], Option("CSV: decimal separator.")] = "."
    format: Annotated[
        Literal["csv", "json", "parquet", "arrow"] | None,
        Option("Format of the files. [default: detected from the content]"),
    ] = None

    unit: ClassVar[str] = "rows"
    examples: ClassVar[str] = """\
sparrow ingest columns ratings.csv ratings.sparrow \\
    --coords userId,movieId --value rating --relabel"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.coords = (self.coords,) if isinstance(self.coords, str) else tuple(self.coords)
        if not self.coords:
            raise InvalidValueError("coords must name at least one column, got []")
        if len(set(self.coords)) < len(self.coords):
            raise InvalidValueError(f"coords must be distinct columns, got {list(self.coords)}")
        self._check_form()
        for name in (self.text,) if isinstance(self.text, str) else self.text:
            if name not in self.coords:
                raise InvalidValueError(f"text must name columns of coords={list(self.coords)}, got {name!r}")
        for name, kind in (self.ids or {}).items():
            if name not in self.coords or kind not in ("str", "int"):
                raise InvalidValueError(f"ids must map columns of coords to 'str' or 'int', got {{{name!r}: {kind!r}}}")
        self.given_dtype = None if self.dtype is None else check_dtype(self.dtype)
        self.members = None if self.value is None or isinstance(self.value, str) else tuple(self.value)
        values = ((self.value,) if isinstance(self.value, str) else ()) if self.members is None else self.members
        self._check_values(values)
        self.value_columns = values if self.duplicates != "count" else ()
        self.mean = self.duplicates == "mean"
        if self.mean and (self.value is None or (self.given_dtype is not None and self.given_dtype.kind != "f")):
            raise InvalidValueError("duplicates='mean' needs a column of values and a float dtype")
        self.dim_names = check_dims(self.coords if self.dims is None else self.dims, len(self.coords))
        self.sizes = self._sizes()
        self.relabelled = self._find_relabelled()
        self.fixed_labels = self._find_fixed_labels()
        self.wide_columns: set[str] = set()  # columns of integers beyond coordinates, found while reading

    def _check_values(self, values: Sequence[str]) -> None:
        """Raise ``InvalidValueError`` if columns of values cannot form a bundle."""
        if self.members is None:
            return
        if not values:
            raise InvalidValueError("value must name at least one column, or be None, got []")
        if len({name.casefold() for name in values}) < len(values):
            raise InvalidValueError(f"value must be distinct columns, got {list(values)}")
        if self.duplicates == "count":
            raise InvalidValueError("duplicates='count' ignores values: pass one column of values, or none")
        storage.check_member_names(values)

    def _check_form(self) -> None:
        """Raise ``InvalidValueError`` for options of CSV that contradict each other."""
        delimiter = self.delimiter
        if delimiter is not None and (not delimiter.isascii() or not delimiter or set(delimiter) & set('\r\n"')):
            raise InvalidValueError(f"delimiter must be ASCII without quotes or line ends, got {delimiter!r}")
        if self.quotes and delimiter is not None and (len(delimiter) > 1 or delimiter == " "):
            raise InvalidValueError(
                f"quotes=True needs a delimiter of one character that is not a blank, got {delimiter!r}"
            )
        if self.comment is not None and (not self.comment.strip() or "\n" in self.comment):
            raise InvalidValueError(f"comment must be a prefix such as '#', got {self.comment!r}")
        if self.encoding is not None:
            check_encoding(self.encoding)
        if self.decimal == delimiter:
            raise InvalidValueError(f"decimal must differ from delimiter, got {self.decimal!r} for both")

    def _find_fixed_labels(self) -> list[pa.Array | None]:
        """Return the labels of each dimension in ``labels_of``, and take its sizes."""
        if self.labels_of is None:
            return [None] * len(self.coords)
        other = self.labels_of if isinstance(self.labels_of, Tensor) else Tensor(storage.open(self.labels_of))
        common = [name for name in self.dim_names if name in other.dims]
        if not common:
            raise InvalidValueError(f"labels_of must have one of the dimensions {self.dim_names}, got {other.dims}")
        sizes, found = list(self.sizes), []
        for dim, name in enumerate(self.dim_names):
            labels = other.labels(name) if name in common else None
            found.append(labels)
            if name in common:
                if self.relabelled[dim]:
                    raise InvalidValueError(f"relabel and labels_of exclude each other, both define {name!r}")
                sizes[dim] = None if labels is not None else other.shape[other.dims.index(name)]
        self.sizes = tuple(sizes)
        return found

    def _sizes(self) -> tuple[int | None, ...]:
        """Return the size of each dimension, None if it follows from the data."""
        sizes = (None,) * len(self.coords) if self.shape is None else tuple(self.shape)
        if len(sizes) != len(self.coords):
            raise ShapeError(
                f"shape must have {len(self.coords)} sizes, one per column of coordinates, got {self.shape}"
            )
        for size in sizes:
            if size is not None and not 0 <= size <= MAX_DIMENSION_SIZE:
                raise ShapeError(f"sizes must be from 0 to 2^63 - 1, or None, got shape={self.shape}")
        return sizes

    def _find_relabelled(self) -> tuple[bool, ...]:
        """Return for each dimension whether it is relabelled."""
        if isinstance(self.relabel, bool):
            return (self.relabel,) * len(self.coords)
        relabelled = (self.relabel,) if isinstance(self.relabel, str) else tuple(self.relabel)
        for name in relabelled:
            if name not in self.coords:
                raise InvalidValueError(f"relabel must name columns of coords={list(self.coords)}, got {name!r}")
        return tuple(name in relabelled for name in self.coords)

    @property
    def spec(self) -> ReadSpec:
        """Columns and options to read."""
        values = self.value_columns
        floats = values if self.given_dtype is not None and self.given_dtype.kind in "fc" else ()
        names = list(dict.fromkeys((*self.coords, *values)))
        ids = self.ids or {}
        texts = (self.text,) if isinstance(self.text, str) else tuple(self.text)
        texts += tuple(name for name, kind in ids.items() if kind == "str")
        texts += tuple(
            name
            for name, labels in zip(self.coords, self.fixed_labels, strict=True)
            if labels is not None and is_label_type(labels.type)
        )
        numbers = tuple(name for name, kind in ids.items() if kind == "int")
        form = CsvOptions(
            names, floats, texts, tuple(self.coords), numbers, self.header, self.delimiter, self.quotes, self.comment,
            self.encoding, self.decimal,
        )  # fmt: skip
        return ReadSpec(
            names,
            form,
            self.format,
            complex_columns=("value", IMAGINARY_COLUMN) if self.value == "value" and values else None,
            report=self.report,
        )

    def is_bounded(self, dim: int) -> bool:
        """Return whether the shape bounds the integers of a dimension."""
        return self.sizes[dim] is not None and not self.relabelled[dim]

    def read(self) -> str:
        """Store the table and return its folder."""
        while True:
            self.report = Report(self.unit)
            try:
                return self._read()
            except WideIdsError as error:
                if not self._is_rereadable():
                    raise
                self.wide_columns = {*self.wide_columns, error.column}
                self.ids = {**(self.ids or {}), error.column: "str"}
            except LateTextError as error:
                known = (self.text,) if isinstance(self.text, str) else self.text
                if error.column in known or (self.ids or {}).get(error.column) == "int" or not self._is_rereadable():
                    raise
                if any(new and name == error.column for name, new in zip(self.coords, self.relabelled, strict=True)):
                    self.wide_columns = {*self.wide_columns, error.column}  # perhaps late integers beyond int64
                self.text = (*known, error.column)
                progress.write_note(
                    f"{error.file}, line {error.line}: column {error.column!r} holds texts, and is read again as text"
                )

    def _is_rereadable(self) -> bool:
        """Return whether the source can be read again: files, a table or a query."""
        if not isinstance(self.src, str | os.PathLike | list | tuple):
            return hasattr(self.src, "__len__") or hasattr(self.src, "collect_batches")
        return all(source.size is not None for source in open_sources(self.src))

    def _read(self) -> str:
        query = self.spec
        table = open_table(self.src, query)
        with storage.stage_folder(self.dst, self.overwrite) as folder:
            check_disk_space(folder, table.min_bytes, 0)
            with bar("reading the table", table.size) as advance, closing(table.batches(advance)) as batches:
                ingest = TableIngest(folder, self, table.name)
                try:
                    rows = ingest.run(batches)
                except DuplicateError as error:
                    if error.cell is None or not self._is_rereadable():
                        raise
                    batches.close()
                    again = open_table(self.src, query)
                    with bar("looking for the rows", again.size) as advance, closing(again.batches(advance)) as batches:
                        raise ingest.locate_duplicate(error, batches) from None
        if not rows and isinstance(self.src, str | os.PathLike | list | tuple):
            warnings.warn(f"{table.name}: there are no rows", stacklevel=2)
        if self.value is None and self.duplicates != "count" and "value" in query.seen.difference(query.columns):
            progress.write_note(
                f"{table.name}: every value is 1, the column 'value' was not read: pass value='value' to read it"
            )
        return os.fspath(self.dst)


_COMMAND = "sparrow ingest columns {file} DST --coords A,B --value V"
_SIGNATURES = {
    b"PAR1": ("Parquet", _COMMAND),
    b"ARROW1": ("an Arrow file", _COMMAND),
    b"\xff\xff\xff\xff": ("an Arrow stream", _COMMAND),
}


def _detect_signature(sample: Sample) -> None:
    for magic, (kind, _) in _SIGNATURES.items():
        if sample.head.startswith(magic):
            raise _name_columns(f"this is {kind}", sample.name)


def _detect_syntax(sample: Sample) -> None:
    """Raise for JSON lines and columns between ``::``, whatever the suffix."""
    data, name = sample.data, sample.name
    if data[0].startswith("{"):
        raise _json_lines(data[0], name)
    if all(line.count("::") == data[0].count("::") > 0 for line in data):
        coords, value = ("c0,c1", "c2") if data[0].count("::") > 1 else ("c0", "c1")
        raise IngestError(
            f"columns are separated by '::': sparrow ingest columns {sample.file} DST --delimiter '::' --no-header "
            f"--coords {coords} --value {value}",
            name,
        )


def _detect_table(sample: Sample) -> None:
    """Raise for text with named columns, which takes options to read."""
    data, name = sample.data, sample.name
    for delimiter in ("\t", ",", ";", "|"):
        first = data[0].split(delimiter)
        if len(first) < 2 or len(data) < 2:
            continue
        below = [line.split(delimiter) for line in data[1:20]]
        numbers = any(is_number(token) for row in below for token in row)
        if numbers and not any(is_number(token) for token in first) and all(len(row) >= len(first) for row in below):
            names = [token.strip().strip('"') for token in first]
            complete = [row for row in below if len(row) == len(names)]
            values = [
                column
                for k, column in enumerate(names[1:], 1)
                if (k > 1 or column == "value") and complete and all(is_number(row[k].strip('"')) for row in complete)
            ]
            best = "value" if "value" in values else values[0] if values else None
            raise _name_columns("this is a table", name, names, best)


def _json_lines(line: str, name: str) -> IngestError:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return IngestError("this is JSON, but not an object in each line: write it so", name, token=line[:80])
    numbers = [str(key) for key in list(found)[2:] if isinstance(found[key], int | float)]
    return _name_columns("these are JSON lines", name, [str(key) for key in found], numbers[0] if numbers else None)


def _name_columns(kind: str, name: str, columns: list[str] | None = None, value: str | None = None) -> IngestError:
    """Return the error that asks for columns, with an example."""
    named = f" of columns {', '.join(map(repr, columns))}" if columns else ""
    coords = ",".join(columns[:2]) if columns else "A,B"
    if columns and value == columns[-1] == "value":  # as in exported tables
        coords = ",".join(columns[:-1])
    if not columns:
        value = "V"
    values = f" --value {shlex.quote(value)}" if value else ""
    example = shlex.join(["sparrow", "ingest", "columns", name]) + f" DST --coords {shlex.quote(coords)}{values}"
    problem = f"{kind}{named}: name the columns of coordinates and values, for example {example}"
    return IngestError(problem, name)


FORMATS = (
    Format(
        "columns",
        "Tables: CSV, JSON lines, Parquet, Arrow.",
        reader=Columns,
        signatures=_SIGNATURES,
        detectors={Stage.SIGNATURE: _detect_signature, Stage.LISTS: _detect_syntax, Stage.TABLE: _detect_table},
    ),
)
