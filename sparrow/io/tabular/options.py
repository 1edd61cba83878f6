"""Tables with named columns to tensors: CSV, JSON lines, Parquet, Arrow, frames."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from sparrow import storage
from sparrow.core.schema import MAX_DIMENSION_SIZE, check_dims, check_dtype
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, ShapeError
from sparrow.interop.conversion import describe_unread
from sparrow.io.base.coo_writer import check_disk_space
from sparrow.io.base.layout import COLUMN_OPTIONS, TextLayout, dense_rows, json_list_command, json_options
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
from sparrow.io.base.run_sink import RunSink
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.shards import Shards, parse_shards
from sparrow.io.base.source import Source, check_encoding, open_sources
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.tabular.delimited import CsvOptions, LateTextError
from sparrow.io.tabular.ingest import IMAGINARY_COLUMN, TableFacts, TableIngest, TableState, WideIdsError, is_label_type
from sparrow.io.tabular.readers import Advance, ReadSpec, TableSource, constants_of, iter_files, open_table, read_head
from sparrow.runtime import progress
from sparrow.runtime.progress import bar
from sparrow.runtime.validation import as_names
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
        (Arrow, Polars, pandas), a Polars LazyFrame, a DuckDB relation, the folder of a Delta table; streams and queries
        are read batch by batch and may be larger than memory. Folders ``name=value`` on the paths of files, as in
        ``"log/year=*/month=*/*.parquet"``, are columns of integers, dates or texts; the folder ``"log"`` stands for
        all files in it.
    %(dst)s
    coords
        Columns of the coordinates, in the order of the dimensions: names, or numbers counted from 0 where a name is
        missing or repeated. In JSON lines, Parquet and Arrow ``user.id`` is the member ``id`` of the object ``user``.
    value
        Column of the values; None if each row is an element of value 1, whatever the columns: a note names the numeric
        ones that are not read, ``"value"`` included. Each of several columns becomes a tensor of a
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
    coords: Annotated[Sequence[str | int], Option("Columns of the coordinates.", metavar="A,B,...", parse=parse_names)]
    value: Annotated[
        str | int | Sequence[str | int] | None,
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
        as_names("coords", self.coords)
        self.coord_names = _spell_columns(self.coords)
        values = () if self.value is None else _spell_columns(self.value)
        self.value_name = values[0] if isinstance(self.value, str | int) else None
        if not self.coord_names:
            raise InvalidValueError("coords must name at least one column, got []")
        if len(set(self.coord_names)) < len(self.coord_names):
            raise InvalidValueError(f"coords must be distinct columns, got {list(self.coord_names)}: the "
                                    "number of a column names it, too, such as 0")  # fmt: skip
        self._check_form()
        self.text_names = _spell_columns(self.text)
        for name in self.text_names:
            if name not in self.coord_names:
                raise InvalidValueError(f"text must name columns of coords={list(self.coord_names)}, got {name!r}")
        for name, kind in (self.ids or {}).items():
            if name not in self.coord_names or kind not in ("str", "int"):
                raise InvalidValueError(f"ids must map columns of coords to 'str' or 'int', got {{{name!r}: {kind!r}}}")
        self.given_dtype = None if self.dtype is None else check_dtype(self.dtype)
        self.members = None if self.value is None or isinstance(self.value, str | int) else values
        self._check_values(values)
        self.value_columns = values if self.duplicates != "count" else ()
        self.mean = self.duplicates == "mean"
        if self.mean and (self.value is None or (self.given_dtype is not None and self.given_dtype.kind != "f")):
            raise InvalidValueError("duplicates='mean' needs a column of values and a float dtype")
        self.resolved: dict[str, str] = {}  # names in the file of columns given by number
        check_dims(self.coord_names if self.dims is None else self.dims, len(self.coord_names))
        self.sizes = self._sizes()
        self.relabelled = self._find_relabelled()
        self.fixed_labels = self._find_fixed_labels()
        self.wide_columns: set[str] = set()  # columns of integers beyond coordinates, found while reading

    @property
    def dim_names(self) -> tuple[str, ...]:
        """Names of the dimensions, by default those of the columns in the file."""
        if self.dims is not None:
            return check_dims(self.dims, len(self.coord_names))
        names: list[str] = []
        for dim, name in enumerate(self.coord_names):
            found = self.resolved.get(name, name).strip() or f"d{dim}"
            again = found.casefold() in (each.casefold() for each in names) or found == "value"
            names.append(f"{found}_{dim}" if again else found)
        return check_dims(names, len(self.coord_names))

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
        delimiter = self.delimiter = None if self.delimiter is None else self.delimiter.replace("\\t", "\t")
        if delimiter is not None and (not delimiter.isascii() or not delimiter or set(delimiter) & set('\r\n"')):
            raise InvalidValueError(f"delimiter must be ASCII without quotes or line ends, got {delimiter!r}")
        if self.quotes and delimiter is not None and len(delimiter) > 1:
            raise InvalidValueError(f"quotes=True needs a delimiter of one character, got {delimiter!r}")
        if self.comment is not None and (not self.comment.strip() or "\n" in self.comment):
            raise InvalidValueError(f"comment must be a prefix such as '#', got {self.comment!r}")
        if self.encoding is not None:
            check_encoding(self.encoding)
        if self.decimal == delimiter:
            raise InvalidValueError(f"decimal must differ from delimiter, got {self.decimal!r} for both")

    def _find_fixed_labels(self) -> list[pa.Array | None]:
        """Return the labels of each dimension in ``labels_of``, and take its sizes."""
        if self.labels_of is None:
            return [None] * len(self.coord_names)
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
        sizes = (None,) * len(self.coord_names) if self.shape is None else tuple(self.shape)
        if len(sizes) != len(self.coord_names):
            raise ShapeError(
                f"shape must have {len(self.coord_names)} sizes, one per column of coordinates, got {self.shape}"
            )
        for size in sizes:
            if size is not None and not 0 <= size <= MAX_DIMENSION_SIZE:
                raise ShapeError(f"sizes must be from 0 to 2^63 - 1, or None, got shape={self.shape}")
        return sizes

    def _find_relabelled(self) -> tuple[bool, ...]:
        """Return for each dimension whether it is relabelled."""
        if isinstance(self.relabel, bool):
            return (self.relabel,) * len(self.coord_names)
        relabelled = _spell_columns(self.relabel)
        for name in relabelled:
            if name not in self.coord_names:
                raise InvalidValueError(f"relabel must name columns of coords={list(self.coord_names)}, got {name!r}")
        return tuple(name in relabelled for name in self.coord_names)

    @property
    def spec(self) -> ReadSpec:
        """Columns and options to read."""
        values = self.value_columns
        floats = values if self.given_dtype is not None and self.given_dtype.kind in "fc" else ()
        names = list(dict.fromkeys((*self.coord_names, *values)))
        ids = self.ids or {}
        texts = self.text_names + tuple(name for name, kind in ids.items() if kind == "str")
        texts += tuple(
            name
            for name, labels in zip(self.coord_names, self.fixed_labels, strict=True)
            if labels is not None and is_label_type(labels.type)
        )
        numbers = tuple(name for name, kind in ids.items() if kind == "int")
        form = CsvOptions(
            names, floats, texts, self.coord_names, numbers, self.header, self.delimiter, self.quotes, self.comment,
            self.encoding, self.decimal,
        )  # fmt: skip
        return ReadSpec(
            names,
            form,
            self.format,
            complex_columns=("value", IMAGINARY_COLUMN) if self.value_name == "value" and values else None,
            report=self.report,
            resolved=self.resolved,
            unread={} if self.value is None and self.duplicates != "count" else None,
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
                if (self.ids or {}).get(error.column) == "int":
                    error.problem += f": pass ids={{{error.column!r}: 'str'}} if these are names"
                    raise
                if error.column in self.text_names or not self._is_rereadable():
                    raise
                if any(
                    new and name == error.column for name, new in zip(self.coord_names, self.relabelled, strict=True)
                ):
                    self.wide_columns = {*self.wide_columns, error.column}  # perhaps late integers beyond int64
                self.text_names = (*self.text_names, error.column)
                progress.write_note(
                    f"{error.file}, line {error.line}: column {error.column!r} holds texts, and is read again as text"
                )

    def _parse_files(
        self,
        table: TableSource,
        query: ReadSpec,
        folder: storage.Folder,
        advance: Advance,
        decide: Callable[[], TableState],
    ) -> AbstractContextManager[Shards | None]:
        """Parse the files of a table in tasks; None if this process should."""
        if self.wide_columns:  # labels that are integers in the end have another order
            return nullcontext()

        def state() -> Any:
            found = decide()
            advance(table.size or 0)
            names = [source.name for source in table.files]
            return found, query.types, constants_of(table.files, query), names

        return parse_shards(self, table.files, folder, state)

    def parse_shard(self, sources: Sequence[Source], state: Any, sink: RunSink) -> TableFacts:
        """Leave the rows of some of the files as runs, and return facts about them."""
        found, types, constants, names = state
        query = replace(self.spec, types=dict(types))
        first = names.index(sources[0].name)
        ingest = TableIngest(sink, self, "")
        with closing(iter_files(sources, query, partitions=constants[first : first + len(sources)])) as batches:
            return ingest.parse_shard(batches, found)

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
                    rows = ingest.run(batches, partial(self._parse_files, table, query, folder, advance))
                except DuplicateError as error:
                    if error.cell is None or not self._is_rereadable():
                        raise
                    batches.close()
                    again = open_table(self.src, query)
                    with bar("looking for the rows", again.size) as advance, closing(again.batches(advance)) as batches:
                        raise ingest.locate_duplicate(error, batches) from None
        if not rows and isinstance(self.src, str | os.PathLike | list | tuple):
            warnings.warn(f"{table.name}: there are no rows", stacklevel=2)
        if query.unread:
            self.report.note(f"{table.name}: {describe_unread([*query.unread])}")
        return os.fspath(self.dst)


def _spell_columns(given: str | int | Sequence[str | int]) -> tuple[str, ...]:
    """Return the names of columns, of which some may be given by number."""
    return (str(given),) if isinstance(given, str | int) else tuple(map(str, given))


def _file_layout(path: str) -> TextLayout | None:
    """Return the columns of a Parquet or Arrow file; None if it is damaged."""
    try:
        table = read_head(path)
    except (OSError, pa.ArrowException, IngestError):  # damaged, or compressed
        return None
    plain = [place for place, field in enumerate(table.schema) if not pa.types.is_nested(field.type)]
    if not plain:
        return None
    columns = [table.column(place).to_pylist() for place in plain]  # names may occur twice
    texts = [["" if value is None else str(value) for value in column] for column in columns]
    return TextLayout(
        ",", tuple(table.column_names[place] for place in plain), [*zip(*texts, strict=True)], False, "row"
    )


def _file_command(path: str) -> str:
    """Return the command that reads a Parquet or Arrow file."""
    layout = _file_layout(path)
    options = {"coords": ["A", "B"], "value": "V"} if layout is None else columns_options(layout)
    return TypedSource.of(path).command("columns", **options)


def columns_options(layout: TextLayout) -> dict[str, object]:
    """Return the options that name columns, without those of CSV."""
    return {name: value for name, value in layout.options().items() if name in COLUMN_OPTIONS}


_SIGNATURES = {
    b"PAR1": ("Parquet", _file_command),
    b"ARROW1": ("an Arrow file", _file_command),
    b"\xff\xff\xff\xff": ("an Arrow stream", _file_command),
}


def _detect_signature(sample: Sample) -> None:
    for magic, (kind, _) in _SIGNATURES.items():
        if sample.head.startswith(magic):
            layout = _file_layout(sample.name)
            options = {"coords": ["A", "B"], "value": "V"} if layout is None else columns_options(layout)
            raise _name_columns(f"this is {kind}", sample, options, [] if layout is None else layout.table())


def _detect_folder(sample: Sample) -> None:
    """Raise for a Delta table of another tool, which takes options to read."""
    if sample.folder is None or not storage.is_tensor(sample.folder):
        return
    sample.name = sample.folder
    with storage.delta_table(sample.folder) as frame:
        head = frame.head(20).collect().to_arrow()
    names = tuple(head.column_names)
    texts = [["" if value is None else str(value) for value in column.to_pylist()] for column in head.columns]
    layout = TextLayout(",", names, [*zip(*texts, strict=True)], False, "row")
    raise _name_columns("this is a Delta table", sample, columns_options(layout), layout.table())


def _detect_syntax(sample: Sample) -> None:
    """Raise for JSON lines and columns between ``::``, whatever the suffix."""
    data, name = sample.data, sample.name
    if data[0].startswith("{"):
        try:
            keys = list(json.loads(data[0]))
        except (ValueError, RecursionError):
            problem = "this is JSON, but not an object in each line: write it so"
            raise IngestError(problem, name, token=data[0][:80]) from None
        raise _name_columns("these are JSON lines", sample, json_options(data), names=keys)
    if data[0].startswith("[") and "{" in data[0]:
        way = json_list_command(sample.text, sample.typed)
        raise IngestError("this is JSON, but not an object in each line", name, token=data[0][:80],
                          commands=[] if way is None else [way])  # fmt: skip
    if all(line.count("::") == data[0].count("::") > 0 for line in data):
        options: dict[str, object] = {"delimiter": "::", "header": False, "coords": ["c0", "c1"], "value": "c2"}
        if data[0].count("::") == 1:
            options |= {"coords": ["c0"], "value": "c1"}
        table = [] if sample.layout is None else sample.layout.table()
        command = sample.columns_command(options)
        raise IngestError("columns are separated by '::'", name, commands=[command], table=table)


def _detect_table(sample: Sample) -> None:
    """Raise for text with named columns, which takes options to read."""
    if sample.commented_table is not None:
        table, typed = sample.commented_table
        command = typed.command("columns", **table.options(), encoding=sample.encoding)
        error = _name_columns("this is a table", sample, table.options(), table.table(), table.names)
        error.commands = (command, sample.typed.command("edges")) if table.width == 3 else (command,)
        raise error
    layout = sample.layout
    if layout is not None and layout.names is not None:
        if layout.is_dense:
            raise dense_rows(layout, sample.name)
        ids = all(column.kind == "integer" for column in layout.columns)
        error = _name_columns("this is a table", sample, layout.options(), layout.table(), layout.names)
        if layout.width == 2 and ids and layout.delimiter in (" ", "\t", ","):
            error.commands = (sample.typed.command("edges", header=True), *error.commands)
        raise error


def _name_columns(
    kind: str,
    sample: Sample,
    options: Mapping[str, object],
    table: Sequence[str] = (),
    names: Sequence[object] | None = None,
) -> IngestError:
    """Return the error that asks for columns, with an example."""
    named = f" of columns {', '.join(map(repr, names))}" if names else ""
    problem = f"{kind}{named}: name the columns of coordinates and values, for example"
    if "duplicates" in options:
        alike: Any = options["coords"]
        problem += f", where rows of the same {' and '.join(alike)} are summed"
    return IngestError(problem, sample.name or sample.src, commands=[sample.columns_command(options)], table=table)


FORMATS = (
    Format(
        "columns",
        "Tables: CSV, JSON lines, Parquet, Arrow.",
        reader=Columns,
        signatures=_SIGNATURES,
        detectors={
            Stage.PATH: _detect_folder,
            Stage.SIGNATURE: _detect_signature,
            Stage.LISTS: _detect_syntax,
            Stage.TABLE: _detect_table,
        },
    ),
)
