"""Tables with named columns to a stored tensor: CSV, Parquet, Arrow streams, Polars, DuckDB."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow import progress, storage
from sparrow.errors import IngestError, InvalidValueError, ShapeError
from sparrow.files.delimited import Form, LateText
from sparrow.files.registry import DType, Format, Option, Reader, ids_of, names_of, number_of, sizes_of
from sparrow.files.rows import Ids, Names, Shelf, Written, cast_values, check_space, write_entries
from sparrow.files.source import open_sources
from sparrow.files.tables import Batch, Query, open_table
from sparrow.kernels.entries import Duplicates
from sparrow.progress import bar
from sparrow.schema import LARGEST_DIMENSION, Schema, check_dims, check_dtype
from sparrow.sorting import Rows
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
        streams and queries are read as they come, larger than memory too.
    dst
        The folder to create.
    coords
        The columns that hold the coordinates, in the order of the dimensions.
    value
        The column of values; None where each row says that its cell is there, which counts 1.
    shape
        Sizes of the dimensions; None, or None for one of them, is what fits.
    dims
        Names of the dimensions; the default are those of the columns.
    relabel
        True, or the columns for which it holds: number the integers that occur from 0 in ascending
        order, and keep them as labels.
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
        ``"error"``, or ``"drop"`` for rows without a coordinate or a value.
    comment
        What begins lines of CSV that say nothing.
    encoding
        How CSV is written where that is not UTF-8, such as ``"latin-1"``.
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
    Tensor
        What ``sp.open(dst)`` does: a stored tensor with a dimension for each column of ``coords``.

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
        Sequence[str], Option("The columns that hold the coordinates.", metavar="A,B,...", parse=names_of)
    ]
    value: Annotated[str | None, Option("The column that holds the values. [default: all are 1]")] = None
    shape: Annotated[
        Sequence[int | None] | None,
        Option("Sizes, ? for what fits. [default: ?,?,...]", metavar="M,N,...", parse=sizes_of),
    ] = None
    dims: Annotated[
        Sequence[str] | None, Option("Names. [default: those of the columns]", metavar="A,B,...", parse=names_of)
    ] = None
    relabel: Annotated[bool | Sequence[str], Option("Number the coordinates anew, without gaps.", flag="--relabel")] = (
        False
    )
    duplicates: Annotated[
        Literal["error", "sum", "last", "first", "min", "max", "mean", "count"],
        Option("What becomes of several values for one cell."),
    ] = "error"
    fill_value: Annotated[Any, Option("The value of absent cells.", metavar="NUMBER", parse=number_of)] = 0
    dtype: DType = None
    header: Annotated[bool, Option("CSV: the first line has names.")] = True
    delimiter: Annotated[str | None, Option("CSV: what parts columns. [default: tab or comma]")] = None
    quotes: Annotated[
        bool | None,
        Option("CSV: fields may be in quotes. [default: unless parted by tabs]", flag="--quotes/--no-quotes"),
    ] = None
    text: Annotated[
        Sequence[str],
        Option("CSV: coordinates that are texts though they look like numbers.", metavar="A,B,...", parse=names_of),
    ] = ()
    ids: Annotated[
        Mapping[str, str] | None,
        Option("What coordinates are, whatever they look like: str or int.", metavar="A=str,...", parse=ids_of),
    ] = None
    labels_of: Annotated[
        Any, Option("Labels and sizes are those of this stored tensor.", metavar="PATH", parse=str)
    ] = None
    index_base: Annotated[Literal[0, 1], Option("What numbers count from.")] = 0
    nulls: Annotated[Literal["error", "drop"], Option("What becomes of rows with nulls.")] = "error"
    comment: Annotated[str | None, Option("CSV: what begins lines that say nothing.")] = None
    encoding: Annotated[str | None, Option("CSV: how it is written, if not in UTF-8.")] = None
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
        self.counted = self.value if self.duplicates != "count" else None
        self.mean = self.duplicates == "mean"
        if self.mean and (self.value is None or (self.given is not None and self.given.kind != "f")):
            raise InvalidValueError("duplicates='mean' takes a column of values, and gives floats")
        self.names = check_dims(self.coords if self.dims is None else self.dims, len(self.coords))
        self.sizes = self._sizes()
        self.anew = self._anew()
        self.others = self._others()

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
            try:
                plain = bytes(range(128)).decode(self.encoding) == bytes(range(128)).decode("ascii")
            except (LookupError, UnicodeDecodeError):
                plain = False
            if not plain:
                raise InvalidValueError(
                    f"encoding={self.encoding!r} is none that ASCII is a part of, as latin-1: use iconv"
                )

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
            if size is not None and not 0 <= size <= LARGEST_DIMENSION:
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
    def query(self) -> Query:
        """What to read."""
        values = () if self.counted is None else (self.counted,)
        floats = values if self.given is not None and self.given.kind in "fc" else ()
        names = list(dict.fromkeys((*self.coords, *values)))
        ids = self.ids or {}
        texts = (self.text,) if isinstance(self.text, str) else tuple(self.text)
        texts += tuple(name for name, kind in ids.items() if kind == "str")
        texts += tuple(
            name
            for name, labels in zip(self.coords, self.others, strict=True)
            if labels is not None and _is_text(labels.type)
        )
        numbers = tuple(name for name, kind in ids.items() if kind == "int")
        form = Form(
            names, floats, texts, tuple(self.coords), numbers, self.header, self.delimiter, self.quotes, self.comment,
            self.encoding,
        )  # fmt: skip
        return Query(names, form, self.format)

    def bounded(self, dim: int) -> bool:
        """Return whether the shape bounds the integers of a dimension: not where they are numbered anew."""
        return self.sizes[dim] is not None and not self.anew[dim]

    def read(self) -> str:
        """Store the table and return its folder."""
        while True:
            try:
                return self._read()
            except LateText as error:
                if (self.ids or {}).get(error.column) == "int" or not self._again():
                    raise
                self.text = (*((self.text,) if isinstance(self.text, str) else self.text), error.column)
                progress.note(
                    f"{error.file}, line {error.line}: column {error.column!r} holds texts, and is read again as such"
                )

    def _again(self) -> bool:
        """Return whether the source can be read again: whether it is files."""
        if not isinstance(self.src, str | os.PathLike | list | tuple):
            return False
        return all(source.size is not None for source in open_sources(self.src))

    def _read(self) -> str:
        table = open_table(self.src, self.query)
        with storage.creating(self.dst, self.overwrite) as folder:
            check_space(folder, table.least, 0)
            with bar("reading the table", table.size) as advance, closing(table.batches(advance)) as batches:
                rows = _Ingest(folder, self, table.name).run(batches)
        if not rows and isinstance(self.src, str | os.PathLike | list | tuple):
            warnings.warn(f"{table.name}: there is no row", stacklevel=2)
        return os.fspath(self.dst)


@dataclass
class _Ingest:
    folder: storage.Folder
    options: Columns
    name: str

    def run(self, batches: Iterator[Batch]) -> int:
        """Store the rows, and return how many there are."""
        self._count = 0
        batches = map(self._chosen, batches)
        first = next(batches, None)
        fields = [] if first is None else [first.data.schema.field(name) for name in self.options.coords]
        self._texts = [_is_text(field.type) for field in fields] or [False] * len(self.options.coords)
        self._dtype = self._value_dtype(first)
        items = batches if first is None else chain([first], batches)
        self._labels: list[pa.Array | None] = list(self.options.others)
        known = [
            Ids() if anew and not text else None for anew, text in zip(self.options.anew, self._texts, strict=True)
        ]
        if any(self._texts):
            written = self._named(items, known)
        else:
            written = self._write(items, lambda batch: self._rows(batch, known), known)
        for dim, found in enumerate(written.ids):
            if found is not None:
                self._labels[dim] = pa.array(found)
        shape = tuple(map(self._size, range(len(self._labels)), written.maxima))
        storage.create(
            self.folder,
            Schema(shape, self.options.names, self._dtype, self.options.fill_value),
            written.files,
            labels={dim: labels for dim, labels in enumerate(self._labels) if labels is not None},
            profile=self.options.profile,
            operation="ingest columns",
            extra={"sources": [self.name], "coords": list(self.options.coords), "value": self.options.value},
        )
        return self._count

    def _chosen(self, batch: Batch) -> Batch:
        """Return a batch without the rows that are dropped for nulls, and coordinates of the kinds asked for."""
        rows, data = batch.data.num_rows, batch.data
        self._count = max(self._count, batch.row - 1 + rows)
        if self.options.nulls == "drop" and any(column.null_count for column in data.columns):
            whole = np.logical_and.reduce([np.asarray(column.is_valid()) for column in data.columns])
            batch = batch._replace(data=data.filter(pa.array(whole)), kept=np.flatnonzero(whole))
        for name, column in zip(batch.data.schema.names, batch.data.columns, strict=True):
            if batch.line_of is not None and pa.types.is_binary(column.type):
                texts = [b"" if text is None else text for text in column.to_pylist()]
                wrong = [text.decode(errors="replace").encode() != text for text in texts]
                raise self._wrong(batch, name, column, pa.array(wrong), "no UTF-8: say encoding='latin-1' or another")
        wanted = dict(self.options.ids or {})
        for name, labels in zip(self.options.coords, self.options.others, strict=True):
            if labels is not None:
                wanted[name] = "str" if _is_text(labels.type) else "int"
        for name, kind in wanted.items():
            column = batch.data.column(name)
            if _is_text(column.type) == (kind == "str") or pa.types.is_null(column.type):
                continue
            try:
                column = _as_text(column).cast(pa.string() if kind == "str" else pa.int64())
            except pa.ArrowException:
                plain = _as_text(column).cast(pa.string())
                wrong = pc.invert(pc.match_substring_regex(plain, r"^[-+]?\d{1,18}$"))
                raise self._wrong(batch, name, plain, wrong, "no integer") from None
            place = batch.data.schema.get_field_index(name)
            batch = batch._replace(data=batch.data.set_column(place, name, column))
        return batch

    def _size(self, dim: int, largest: int) -> int:
        given, labels = self.options.sizes[dim], self._labels[dim]
        if labels is None:
            return largest + 1 if given is None else given
        if given is not None and given != len(labels):
            raise ShapeError(
                f"column {self.options.coords[dim]!r} has {len(labels)} labels, shape says {given}: "
                "give None for the size of a dimension with labels"
            )
        return len(labels)

    def _value_dtype(self, first: Batch | None) -> np.dtype[Any]:
        if self.options.given is not None:
            return self.options.given
        if self.options.counted is None:
            return np.dtype(np.int64)
        if first is None or self.options.mean:
            return np.dtype(np.float64)
        kind = first.data.schema.field(self.options.counted).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_decimal(kind) or pa.types.is_null(kind):
            return np.dtype(np.float64)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise IngestError(
                f"the column {self.options.counted!r} holds {kind}, and values are numbers: name another, "
                "or none to say which cells there are",
                first.source,
                *self._first_text(first, self.options.counted),
            )
        return check_dtype(kind.to_pandas_dtype())

    def _first_text(self, batch: Batch, name: str) -> tuple[int | None, str | None]:
        """Return line and text of the first value that is no number, where there are lines."""
        column = batch.data.column(name)
        if batch.line_of is None or not pa.types.is_string(column.type):
            return None, None
        wrong = pc.invert(pc.match_substring_regex(column, r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"))
        at = max(pc.index(wrong, True).as_py(), 0)
        return batch.where(at)[1], column[at].as_py()

    def _check_names(self, batch: Batch) -> None:
        """Raise ``IngestError`` where the line of names comes again, as of files put one behind another."""
        form = self.options.query.form
        if batch.line_of is None or form is None or not form.header or not all(self._texts):
            return
        again = np.ones(batch.data.num_rows, bool)
        for name in batch.data.schema.names:
            column = batch.data.column(name)
            if not _is_text(column.type):
                return
            again &= pc.equal(_as_text(column), name).fill_null(False).to_numpy(zero_copy_only=False)
        if again.any():
            what = "the name of its column: the line of names comes again; give the files one by one"
            raise self._wrong(batch, name, batch.data.column(name), pa.array(again), what)

    def _write(self, items: Iterator[Any] | Shelf, rows_of: Callable[[Any], Rows], known: list[Ids | None]) -> Written:
        given = self.options.duplicates
        rule: Duplicates = "sum" if given == "mean" or given == "count" else given
        return write_entries(
            self.folder,
            items,
            rows_of,
            dims=self.options.names,
            dtype=self._dtype,
            weighted=self.options.counted is not None,
            duplicates=rule,
            mean=self.options.mean,
            fill_value=Schema((), (), self._dtype, self.options.fill_value).fill_value,
            profile=self.options.profile,
            ids=known,
            describe=self._describe,
        )

    def _describe(self, cell: tuple[int, ...]) -> str:
        return str(tuple(c if names is None else names[c].as_py() for c, names in zip(cell, self._labels, strict=True)))

    def _named(self, items: Iterator[Batch], known: list[Ids | None]) -> Written:
        """Give texts numbers as they come, put rows aside, and take them again with the places of sorted texts."""
        names = [Names() if text else None for text in self._texts]
        for each, labels in zip(names, self._labels, strict=True):
            if each is not None and labels is not None:
                each.codes(labels)  # so that the number of a label is its place
        with closing(Shelf()) as shelf:
            for batch in items:
                rows = self._rows(batch, known, names)
                if rows.size:
                    shelf.add(rows)
            ranks: list[NDArray[np.int32] | None] = [None] * len(names)
            for dim, each in enumerate(names):
                if each is not None and self._labels[dim] is None:
                    self._labels[dim], ranks[dim] = each.finish()

            def rows_of(rows: Rows) -> Rows:
                coords = (c if rank is None else rank[c] for c, rank in zip(rows.coords, ranks, strict=True))
                return Rows(tuple(coords), rows.values)

            return self._write(shelf, rows_of, known)

    def _rows(self, batch: Batch, known: list[Ids | None], names: Sequence[Names | None] = ()) -> Rows:
        """Return the rows of a batch, texts as numbers."""
        self._check_names(batch)
        coords: list[NDArray[np.int64]] = []
        for dim, name in enumerate(self.options.coords):
            array = batch.data.column(name)
            if _is_text(array.type) != self._texts[dim] and not pa.types.is_null(array.type):
                raise IngestError(
                    f"the column {name!r} holds {array.type} from row {batch.row} on, and "
                    f"{'texts' if self._texts[dim] else 'numbers'} before: give it one type",
                    batch.source,
                )
            self._check_nulls(batch, name, array)
            if self._texts[dim]:
                codes = cast("Names", names[dim]).codes(_as_text(array))
                labels = self._labels[dim]
                if labels is not None and len(codes) and int(codes.max()) >= len(labels):
                    raise self._wrong(
                        batch, name, array, pa.array(codes >= len(labels)), "none of the labels there are"
                    )
                coords.append(codes)
                continue
            if (labels := self._labels[dim]) is not None:
                places = pc.index_in(array.cast(labels.type), labels)
                if places.null_count:
                    raise self._wrong(batch, name, array, places.is_null(), "none of the labels there are")
                coords.append(places.to_numpy().astype(np.int64))
                continue
            column = self._integers(batch, name, array, dim)
            found = known[dim]
            if found is not None:
                found.add(column)
            coords.append(column)
        return Rows(tuple(coords), self._values(batch))

    def _check_nulls(self, batch: Batch, name: str, array: pa.Array) -> None:
        if array.null_count:
            raise self._wrong(batch, name, array, array.is_null(), "a null: say nulls='drop' to do without such rows")

    def _integers(self, batch: Batch, name: str, array: pa.Array, dim: int) -> NDArray[np.int64]:
        """Return a column of coordinates as int64."""
        kind = array.type
        if pa.types.is_dictionary(kind):
            array = array.dictionary_decode()
            kind = array.type
        if pa.types.is_null(kind):
            return np.zeros(0, np.int64)
        if pa.types.is_decimal(kind):
            try:
                array = array.cast(pa.int64())
            except pa.ArrowInvalid:
                whole = np.array([value == int(value) and abs(value) < 2**63 for value in array.to_pylist()], bool)
                raise self._wrong(batch, name, array, pa.array(~whole), "no whole number in int64") from None
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise IngestError(
                f"the column {name!r} holds {kind}, and coordinates are integers, texts or dates", batch.source
            )
        given: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        if given.dtype.kind == "f":
            wrong = ~((given == np.floor(given)) & (np.abs(given) < 2**53))
            if wrong.any():
                raise self._wrong(batch, name, array, pa.array(wrong), "no whole number below 2^53")
        size = self.options.sizes[dim] if self.options.bounded(dim) else None
        base = 0 if self.options.anew[dim] else self.options.index_base
        limit = LARGEST_DIMENSION if size is None else size + base
        if len(given):
            if int(given.min()) < base:
                what = "negative: coordinates count from 0" if not base else "below 1: say index_base=0"
                raise self._wrong(batch, name, array, pa.array(given < base), what)
            if int(given.max()) >= limit:
                problem = "beyond 2^63 - 2" if size is None else f"out of range for the size {size} that shape gives"
                raise self._wrong(batch, name, array, pa.array(given >= limit), problem)
        whole = given.astype(np.int64, copy=False)
        return whole - base if base else whole

    def _values(self, batch: Batch) -> NDArray[Any] | None:
        name = self.options.counted
        if name is None:
            return None
        array = batch.data.column(name)
        self._check_nulls(batch, name, array)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_decimal(array.type):
            array = array.cast(pa.float64())
        given = array.to_numpy(zero_copy_only=False)
        if not len(given):
            return np.zeros(0, self._dtype)
        if given.dtype.kind not in "biuf":
            raise IngestError(f"the column {name!r} holds {array.type}, and values are numbers", batch.source)
        values, unfit = cast_values(given, self._dtype)
        if unfit is not None:
            mask = pa.array(np.arange(len(given)) == unfit)
            raise self._wrong(batch, name, array, mask, f"beyond what {self._dtype} holds: say dtype='float64'")
        return values + 1j if self.options.mean else values

    def _wrong(self, batch: Batch, name: str, array: pa.Array, where: pa.Array, problem: str) -> IngestError:
        """Return the error about the first element that ``where`` marks."""
        at = pc.index(where, True).as_py()
        found = array[at].as_py()
        token = None if found is None else str(found)
        row, line = batch.where(at)
        return IngestError(f"row {row}: column {name!r} is {problem}", batch.source, line, token)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_temporal(kind)
    )


def _as_text(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.string()) if pa.types.is_temporal(array.type) else array


FORMATS = (Format("columns", "Tables: CSV, JSON lines, Parquet, Arrow.", reader=Columns),)
