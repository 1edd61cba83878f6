"""Tables with named columns to a stored tensor: CSV, Parquet, Arrow streams, Polars, DuckDB."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from sparrow import storage
from sparrow.core.schema import MAX_DIMENSION_SIZE, check_dims, check_dtype
from sparrow.errors import DuplicateError, InvalidValueError, ShapeError
from sparrow.io.base.coo_writer import check_disk_space
from sparrow.io.base.registry import (
    DType,
    Format,
    Option,
    Reader,
    parse_id_kinds,
    parse_names,
    parse_number,
    parse_shape,
    parse_value_names,
)
from sparrow.io.base.source import check_encoding, open_sources
from sparrow.io.tabular.delimited import CsvOptions, LateTextError
from sparrow.io.tabular.ingest import IMAGINARY_COLUMN, TableIngest, WideIdsError, is_label_type
from sparrow.io.tabular.readers import ReadSpec, open_table
from sparrow.runtime import progress
from sparrow.runtime.progress import bar
from sparrow.tensor import Tensor

__all__ = ["FORMATS", "Columns"]


@dataclass
class Columns(Reader):
    r"""Store a table: columns of coordinates, and one of values or none.

    Integers are coordinates, counted from 0. Texts and dates become labels: each dimension has its
    own, sorted, and the position of a label is its coordinate.

    Parameters
    ----------
    src
        Files: a path, a glob pattern, ``"-"`` for standard input, or a list of these. CSV (gzip,
        zstd and bz2 are told from the content), Parquet or Arrow. Or a table: anything with
        ``__arrow_c_stream__`` (Arrow, Polars, pandas), a Polars LazyFrame, a DuckDB relation;
        streams and queries are read as they come, larger than memory too. Folders called ``name=value`` on the paths
        of files, as in ``"log/year=*/month=*/*.parquet"``, are columns: of integers, dates or texts. The folder of such
        folders, ``"log"``, stands for all files in it.
    dst
        The folder to create.
    coords
        The columns that hold the coordinates, in the order of the dimensions. In JSON lines, Parquet and Arrow
        ``user.id`` is the member ``id`` of the object ``user``.
    value
        The column of values; None where each row says that its cell is there, which counts 1. Of several columns
        each becomes a tensor of a bundle, by its name; they are read at once and have the same labels and shape.
        Where there is a column ``value_im`` beside ``value``, as in exports of complex tensors, it is the imaginary
        half of the values.
    shape
        Sizes of the dimensions; None, or None for one of them, is what fits.
    dims
        Names of the dimensions; the default are those of the columns.
    relabel
        True, or the columns for which it holds: number the integers that occur from 0 in ascending
        order, and keep them as labels. They may be negative and have 64 bits, as hashes do, in files and tables, which
        are then read once more.
    duplicates
        What becomes of a cell that comes twice: ``"error"``, ``"sum"`` (without values: their
        number), ``"last"``, ``"first"``, ``"min"``, ``"max"``, ``"mean"`` or ``"count"``, which is how often it comes,
        whatever its values.
    fill_value
        The value of absent cells; rows with it are not stored.
    dtype
        Type of the values; the default is that of the column, float64 for decimals, int64 without
        values.
    header
        Whether CSV begins with a line of names; without, columns are called c0, c1, ...
    delimiter
        What parts the columns of CSV: a character, several as in ``1::5``, or a blank for any run of blanks and tabs.
        The default is a tab or a comma, whichever is in the first line more often.
    quotes
        Whether fields of CSV may be set in quotes, and then hold delimiters and line ends; the default is yes, but no
        where tabs, blanks or several characters part columns: quotes are characters like others there.
    text
        Columns of coordinates in CSV that are texts though they look like numbers. Columns whose numbers begin with
        zeros, as ``007``, are texts in any case, and so are those in which a text comes late: the files are read again.
    ids
        What the coordinates of a column are, ``{"item": "str", "user": "int"}``, whatever they look like.
    labels_of
        A stored tensor, or its path. Its dimensions of the same names tell the coordinates: labels are found among its
        labels, and numbers are below its sizes.
    index_base
        What numbers count from.
    nulls
        ``"error"``, or ``"drop"`` for rows without a coordinate or a value; of several values, those that are there
        are kept. An empty field of CSV is a null, unless it is a text in quotes; so are ``NA`` and ``NULL`` among
        numbers.
    comment
        What begins lines of CSV that say nothing.
    encoding
        How CSV is written where that is not UTF-8, such as ``"latin-1"``.
    decimal
        What parts the whole from the fraction in the numbers of CSV: ``"."``, or ``","`` as in ``3,5``.
    format
        ``"csv"``, ``"json"`` (an object in each line), ``"parquet"`` or ``"arrow"``; told from the content by default.
    overwrite
        Replace what is at ``dst``.
    if_exists
        Where a tensor or bundle is at ``dst`` already: ``"error"``, ``"open"`` to open it and read nothing, or
        ``"replace"``, which is ``overwrite=True``.
    profile
        ``"fast"`` or ``"small"``.

    Returns
    -------
    Tensor or Bundle
        What ``sp.open(dst)`` does: a stored tensor with a dimension for each column of ``coords``; a bundle of such
        where ``value`` is a list.

    Raises
    ------
    IngestError
        If a column is missing, a coordinate or value is null, a coordinate is negative, no whole
        number, out of ``shape`` or none of ``labels_of``, or a value does not fit ``dtype``: with file, row and value,
        and the line of text.
    DuplicateError
        If a cell comes twice and ``duplicates`` is ``"error"``.
    NotFoundError
        If a file is missing or a pattern matches none.
    ExistsError
        If something is at ``dst`` and ``overwrite`` is not set.
    ShapeError
        If the shape or the names of dimensions do not fit the coordinates.
    StorageError
        If the disk is too small.
    InvalidValueError
        If an argument is not one of those above.

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
    coords: Annotated[
        Sequence[str], Option("The columns that hold the coordinates.", metavar="A,B,...", parse=parse_names)
    ]
    value: Annotated[
        str | Sequence[str] | None,
        Option(
            "The column that holds the values; several make a bundle. [default: all are 1]",
            metavar="A,B,...",
            parse=parse_value_names,
        ),
    ] = None
    shape: Annotated[
        Sequence[int | None] | None,
        Option("Sizes, ? for what fits. [default: ?,?,...]", metavar="M,N,...", parse=parse_shape),
    ] = None
    dims: Annotated[
        Sequence[str] | None, Option("Names. [default: those of the columns]", metavar="A,B,...", parse=parse_names)
    ] = None
    relabel: Annotated[bool | Sequence[str], Option("Number the coordinates anew, without gaps.", flag="--relabel")] = (
        False
    )
    duplicates: Annotated[
        Literal["error", "sum", "last", "first", "min", "max", "mean", "count"],
        Option("What becomes of several values for one cell."),
    ] = "error"
    fill_value: Annotated[Any, Option("The value of absent cells.", metavar="NUMBER", parse=parse_number)] = 0
    dtype: DType = None
    header: Annotated[bool, Option("CSV: the first line has names.")] = True
    delimiter: Annotated[str | None, Option("CSV: what parts columns. [default: tab or comma]")] = None
    quotes: Annotated[
        bool | None,
        Option("CSV: fields may be in quotes. [default: unless parted by tabs]", flag="--quotes/--no-quotes"),
    ] = None
    text: Annotated[
        Sequence[str],
        Option("CSV: coordinates that are texts though they look like numbers.", metavar="A,B,...", parse=parse_names),
    ] = ()
    ids: Annotated[
        Mapping[str, str] | None,
        Option("What coordinates are, whatever they look like: str or int.", metavar="A=str,...", parse=parse_id_kinds),
    ] = None
    labels_of: Annotated[
        Any, Option("Labels and sizes are those of this stored tensor.", metavar="PATH", parse=str)
    ] = None
    index_base: Annotated[Literal[0, 1], Option("What numbers count from.")] = 0
    nulls: Annotated[Literal["error", "drop"], Option("What becomes of rows with nulls.")] = "error"
    comment: Annotated[str | None, Option("CSV: what begins lines that say nothing.")] = None
    encoding: Annotated[str | None, Option("CSV: how it is written, if not in UTF-8.")] = None
    decimal: Annotated[Literal[".", ","], Option("CSV: what stands before the fraction of a number.")] = "."
    format: Annotated[
        Literal["csv", "json", "parquet", "arrow"] | None, Option("Of the files. [default: told from the content]")
    ] = None

    examples: ClassVar[str] = """\
sparrow ingest columns ratings.csv ratings.sparrow \\
    --coords userId,movieId --value rating --relabel"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.coords = (self.coords,) if isinstance(self.coords, str) else tuple(self.coords)
        if not self.coords:
            raise InvalidValueError("coords=[]: name at least one column of coordinates")
        if len(set(self.coords)) < len(self.coords):
            raise InvalidValueError(f"coords={list(self.coords)}: a column can be one dimension only")
        self._check_form()
        for name in (self.text,) if isinstance(self.text, str) else self.text:
            if name not in self.coords:
                raise InvalidValueError(f"text names {name!r}, which is none of coords={list(self.coords)}")
        for name, kind in (self.ids or {}).items():
            if name not in self.coords or kind not in ("str", "int"):
                raise InvalidValueError(f"ids={{{name!r}: {kind!r}}}: a column of coords is str or int")
        self.given = None if self.dtype is None else check_dtype(self.dtype)
        self.members = None if self.value is None or isinstance(self.value, str) else tuple(self.value)
        values = ((self.value,) if isinstance(self.value, str) else ()) if self.members is None else self.members
        self._check_values(values)
        self.counted = values if self.duplicates != "count" else ()
        self.mean = self.duplicates == "mean"
        if self.mean and (self.value is None or (self.given is not None and self.given.kind != "f")):
            raise InvalidValueError("duplicates='mean' takes a column of values, and gives floats")
        self.names = check_dims(self.coords if self.dims is None else self.dims, len(self.coords))
        self.sizes = self._sizes()
        self.anew = self._anew()
        self.others = self._others()
        self.wide: set[str] = set()  # columns of integers that are no coordinates, found when they are read

    def _check_values(self, values: Sequence[str]) -> None:
        """Raise ``InvalidValueError`` where several columns of values cannot make a bundle."""
        if self.members is None:
            return
        if not values:
            raise InvalidValueError("value=[]: name at least one column of values, or None")
        if len({name.casefold() for name in values}) < len(values):
            raise InvalidValueError(f"value={list(values)}: a column can be one tensor only")
        if self.duplicates == "count":
            raise InvalidValueError("duplicates='count' looks at no values: name one column, or none")
        storage.check_member_names(values)

    def _check_form(self) -> None:
        """Raise ``InvalidValueError`` for text that cannot be parted, or read."""
        parted = self.delimiter
        if parted is not None and (not parted.isascii() or not parted or set(parted) & set('\r\n"')):
            raise InvalidValueError(f"delimiter={parted!r}: use ASCII characters, no quotes or line ends")
        if self.quotes and parted is not None and (len(parted) > 1 or parted == " "):
            raise InvalidValueError(f"quotes=True, delimiter={parted!r}: in quotes one character parts columns")
        if self.comment is not None and (not self.comment.strip() or "\n" in self.comment):
            raise InvalidValueError(f"comment={self.comment!r}: say what such lines begin with, as '#'")
        if self.encoding is not None:
            check_encoding(self.encoding)
        if self.decimal == parted:
            raise InvalidValueError(f"decimal={self.decimal!r} parts the columns: it can mean one thing only")

    def _others(self) -> list[pa.Array | None]:
        """Return the labels that ``labels_of`` has for each dimension, and take its sizes for the others."""
        if self.labels_of is None:
            return [None] * len(self.coords)
        other = self.labels_of if isinstance(self.labels_of, Tensor) else Tensor(storage.open(self.labels_of))
        common = [name for name in self.names if name in other.dims]
        if not common:
            raise InvalidValueError(f"labels_of: it has the dimensions {other.dims}, and none of {self.names}")
        sizes, found = list(self.sizes), []
        for dim, name in enumerate(self.names):
            labels = other.labels(name) if name in common else None
            found.append(labels)
            if name in common:
                if self.anew[dim]:
                    raise InvalidValueError(f"relabel numbers {name!r} anew, which labels_of does")
                sizes[dim] = None if labels is not None else other.shape[other.dims.index(name)]
        self.sizes = tuple(sizes)
        return found

    def _sizes(self) -> tuple[int | None, ...]:
        """Return the size of each dimension, None where it is what fits."""
        sizes = (None,) * len(self.coords) if self.shape is None else tuple(self.shape)
        if len(sizes) != len(self.coords):
            raise ShapeError(f"shape={self.shape} has {len(sizes)} sizes for {len(self.coords)} columns of coordinates")
        for size in sizes:
            if size is not None and not 0 <= size <= MAX_DIMENSION_SIZE:
                raise ShapeError(f"shape={self.shape}: a size is a number from 0 to 2^63 - 1, or None")
        return sizes

    def _anew(self) -> tuple[bool, ...]:
        """Return which dimensions are numbered anew."""
        if isinstance(self.relabel, bool):
            return (self.relabel,) * len(self.coords)
        anew = (self.relabel,) if isinstance(self.relabel, str) else tuple(self.relabel)
        for name in anew:
            if name not in self.coords:
                raise InvalidValueError(f"relabel names {name!r}, which is none of coords={list(self.coords)}")
        return tuple(name in anew for name in self.coords)

    @property
    def query(self) -> ReadSpec:
        """What to read."""
        values = self.counted
        floats = values if self.given is not None and self.given.kind in "fc" else ()
        names = list(dict.fromkeys((*self.coords, *values)))
        ids = self.ids or {}
        texts = (self.text,) if isinstance(self.text, str) else tuple(self.text)
        texts += tuple(name for name, kind in ids.items() if kind == "str")
        texts += tuple(
            name
            for name, labels in zip(self.coords, self.others, strict=True)
            if labels is not None and is_label_type(labels.type)
        )
        numbers = tuple(name for name, kind in ids.items() if kind == "int")
        form = CsvOptions(
            names, floats, texts, tuple(self.coords), numbers, self.header, self.delimiter, self.quotes, self.comment,
            self.encoding, self.decimal,
        )  # fmt: skip
        return ReadSpec(
            names, form, self.format, halves=("value", IMAGINARY_COLUMN) if self.value == "value" and values else None
        )

    def bounded(self, dim: int) -> bool:
        """Return whether the shape bounds the integers of a dimension: not where they are numbered anew."""
        return self.sizes[dim] is not None and not self.anew[dim]

    def read(self) -> str:
        """Store the table and return its folder."""
        while True:
            try:
                return self._read()
            except WideIdsError as error:
                if not self._again():
                    raise
                self.wide = {*self.wide, error.column}
                self.ids = {**(self.ids or {}), error.column: "str"}
            except LateTextError as error:
                known = (self.text,) if isinstance(self.text, str) else self.text
                if error.column in known or (self.ids or {}).get(error.column) == "int" or not self._again():
                    raise
                if any(new and name == error.column for name, new in zip(self.coords, self.anew, strict=True)):
                    self.wide = {*self.wide, error.column}  # perhaps integers that come late and are beyond int64
                self.text = (*known, error.column)
                progress.write_note(
                    f"{error.file}, line {error.line}: column {error.column!r} holds texts, and is read again as such"
                )

    def _again(self) -> bool:
        """Return whether the source can be read again: whether it is files, a table or a query."""
        if not isinstance(self.src, str | os.PathLike | list | tuple):
            return hasattr(self.src, "__len__") or hasattr(self.src, "collect_batches")
        return all(source.size is not None for source in open_sources(self.src))

    def _read(self) -> str:
        query = self.query
        table = open_table(self.src, query)
        with storage.stage_folder(self.dst, self.overwrite) as folder:
            check_disk_space(folder, table.least, 0)
            with bar("reading the table", table.size) as advance, closing(table.batches(advance)) as batches:
                ingest = TableIngest(folder, self, table.name)
                try:
                    rows = ingest.run(batches)
                except DuplicateError as error:
                    if error.cell is None or not self._again():
                        raise
                    batches.close()
                    again = open_table(self.src, query)
                    with bar("looking for the rows", again.size) as advance, closing(again.batches(advance)) as batches:
                        raise ingest.placed(error, batches) from None
        if not rows and isinstance(self.src, str | os.PathLike | list | tuple):
            warnings.warn(f"{table.name}: there is no row", stacklevel=2)
        if self.value is None and self.duplicates != "count" and "value" in query.seen.difference(query.columns):
            progress.write_note(
                f"{table.name}: every value is 1, and the column 'value' was not read: say value='value' for it"
            )
        return os.fspath(self.dst)


FORMATS = (Format("columns", "Tables: CSV, JSON lines, Parquet, Arrow.", reader=Columns),)
