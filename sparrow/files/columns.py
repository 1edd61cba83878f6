"""Tables with named columns to a stored tensor: CSV, Parquet, Arrow streams, Polars, DuckDB."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from sparrow import storage
from sparrow.errors import IngestError, InvalidValueError, ShapeError
from sparrow.files.entries import Ids, Names, Shelf, Written, cast_values, check_space, write_entries
from sparrow.files.tables import Batch, Query, open_table
from sparrow.kernels.entries import Duplicates, check_duplicates
from sparrow.progress import bar
from sparrow.schema import LARGEST_DIMENSION, Schema, check_dims, check_dtype
from sparrow.sorting import Rows

__all__ = ["columns"]


def columns(
    src: Any,
    dst: str | os.PathLike[str],
    *,
    coords: Sequence[str],
    value: str | None = None,
    shape: Sequence[int | None] | None = None,
    dims: Sequence[str] | None = None,
    relabel: bool | Sequence[str] = False,
    duplicates: str = "error",
    fill_value: Any = 0,
    dtype: DTypeLike | None = None,
    header: bool = True,
    delimiter: str | None = None,
    overwrite: bool = False,
    profile: str = "fast",
    format: str | None = None,
) -> str:
    """Store a table: columns of coordinates, and one of values or none.

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
        number), ``"last"``, ``"first"``, ``"min"`` or ``"max"``.
    fill_value
        The value of absent cells; rows with it are not stored.
    dtype
        Type of the values; the default is that of the column, float64 for decimals, int64 without
        values.
    header
        Whether CSV begins with a line of names; without, columns are called c0, c1, ...
    delimiter
        What parts the columns of CSV; the default is a tab or a comma, whichever is in the first
        line more often.
    overwrite
        Replace what is at ``dst``.
    profile
        ``"fast"`` or ``"small"``.
    format
        ``"csv"``, ``"parquet"`` or ``"arrow"``; told from the content by default.

    Returns
    -------
    str
        ``dst``.

    Raises
    ------
    IngestError
        If a column is missing, a coordinate or value is null, a coordinate is negative, no whole
        number or out of ``shape``, or a value does not fit ``dtype``: with file, row and value.
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
    """
    options = _Options.check(
        coords, value, shape, dims, relabel, duplicates, fill_value, dtype, header, delimiter, profile, format
    )
    table = open_table(src, options.query)
    with storage.creating(dst, overwrite) as folder:
        check_space(folder, table.least, 0)
        with bar("reading the table", table.size) as advance, closing(table.batches(advance)) as batches:
            _Ingest(Path(folder), options, table.name).run(batches)
    return os.fspath(dst)


@dataclass(frozen=True, slots=True)
class _Options:
    coords: tuple[str, ...]
    value: str | None
    shape: tuple[int | None, ...]
    dims: tuple[str, ...]
    anew: tuple[bool, ...]
    duplicates: Duplicates
    fill_value: Any
    dtype: np.dtype[Any] | None
    header: bool
    delimiter: str | None
    profile: str
    format: str | None

    @property
    def query(self) -> Query:
        """What to read."""
        values = () if self.value is None else (self.value,)
        floats = values if self.dtype is not None and self.dtype.kind in "fc" else ()
        return Query(list(dict.fromkeys(self.coords + values)), floats, self.header, self.delimiter, self.format)

    def bounded(self, dim: int) -> bool:
        """Return whether the shape bounds the integers of a dimension: not where they are numbered anew."""
        return self.shape[dim] is not None and not self.anew[dim]

    @classmethod
    def check(
        cls,
        coords: Sequence[str],
        value: str | None,
        shape: Sequence[int | None] | None,
        dims: Sequence[str] | None,
        relabel: bool | Sequence[str],
        duplicates: str,
        fill_value: Any,
        dtype: DTypeLike | None,
        header: bool,
        delimiter: str | None,
        profile: str,
        format: str | None,
    ) -> _Options:
        names = (coords,) if isinstance(coords, str) else tuple(coords)
        if not names:
            raise InvalidValueError("coords=[]: name at least one column of coordinates")
        if len(set(names)) < len(names):
            raise InvalidValueError(f"coords={list(names)}: a column can be one dimension only")
        sizes = (None,) * len(names) if shape is None else tuple(shape)
        if len(sizes) != len(names):
            raise ShapeError(f"shape={shape} has {len(sizes)} sizes for {len(names)} columns of coordinates")
        for size in sizes:
            if size is not None and not 0 <= size <= LARGEST_DIMENSION:
                raise ShapeError(f"shape={shape}: a size is a number from 0 to 2^63 - 1, or None")
        anew = names if relabel is True else () if relabel is False else (
            (relabel,) if isinstance(relabel, str) else tuple(relabel)
        )  # fmt: skip
        for name in anew:
            if name not in names:
                raise InvalidValueError(f"relabel names {name!r}, which is none of coords={list(names)}")
        if profile not in ("fast", "small"):
            raise InvalidValueError(f"profile={profile!r}: use 'fast' or 'small'")
        if format not in (None, "csv", "parquet", "arrow"):
            raise InvalidValueError(f"format={format!r}: use 'csv', 'parquet' or 'arrow'")
        if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii()):
            raise InvalidValueError(f"delimiter={delimiter!r}: use one ASCII character")
        return cls(
            names,
            value,
            sizes,
            check_dims(names if dims is None else dims, len(names)),
            tuple(name in anew for name in names),
            check_duplicates(duplicates),
            fill_value,
            None if dtype is None else check_dtype(dtype),
            header,
            delimiter,
            profile,
            format,
        )


@dataclass
class _Ingest:
    folder: Path
    options: _Options
    name: str

    def run(self, batches: Iterator[Batch]) -> None:
        first = next(batches, None)
        fields = [] if first is None else [first.data.schema.field(name) for name in self.options.coords]
        self._texts = [_is_text(field.type) for field in fields] or [False] * len(self.options.coords)
        self._dtype = self._value_dtype(first)
        items = batches if first is None else chain([first], batches)
        self._labels: list[pa.Array | None] = [None] * len(self._texts)
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
            Schema(shape, self.options.dims, self._dtype, self.options.fill_value),
            written.files,
            labels={dim: labels for dim, labels in enumerate(self._labels) if labels is not None},
            profile=self.options.profile,
            operation="ingest columns",
            extra={"sources": [self.name], "coords": list(self.options.coords), "value": self.options.value},
        )

    def _size(self, dim: int, largest: int) -> int:
        given, labels = self.options.shape[dim], self._labels[dim]
        if labels is None:
            return largest + 1 if given is None else given
        if given is not None and given != len(labels):
            raise ShapeError(
                f"column {self.options.coords[dim]!r} has {len(labels)} labels, shape says {given}: "
                "give None for the size of a dimension with labels"
            )
        return len(labels)

    def _value_dtype(self, first: Batch | None) -> np.dtype[Any]:
        if self.options.dtype is not None:
            return self.options.dtype
        if self.options.value is None:
            return np.dtype(np.int64)
        if first is None:
            return np.dtype(np.float64)
        kind = first.data.schema.field(self.options.value).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_decimal(kind) or pa.types.is_null(kind):
            return np.dtype(np.float64)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise IngestError(
                f"the column {self.options.value!r} holds {kind}, and values are numbers: name another, "
                "or none to say which cells there are",
                first.source,
            )
        return check_dtype(kind.to_pandas_dtype())

    def _write(self, items: Iterator[Any] | Shelf, rows_of: Callable[[Any], Rows], known: list[Ids | None]) -> Written:
        return write_entries(
            self.folder,
            items,
            rows_of,
            dims=self.options.dims,
            dtype=self._dtype,
            weighted=self.options.value is not None,
            duplicates=self.options.duplicates,
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
        with closing(Shelf()) as shelf:
            for batch in items:
                rows = self._rows(batch, known, names)
                if rows.size:
                    shelf.add(rows)
            ranks: list[NDArray[np.int32] | None] = [None] * len(names)
            for dim, each in enumerate(names):
                if each is not None:
                    self._labels[dim], ranks[dim] = each.finish()

            def rows_of(rows: Rows) -> Rows:
                coords = (c if rank is None else rank[c] for c, rank in zip(rows.coords, ranks, strict=True))
                return Rows(tuple(coords), rows.values)

            return self._write(shelf, rows_of, known)

    def _rows(self, batch: Batch, known: list[Ids | None], names: Sequence[Names | None] = ()) -> Rows:
        """Return the rows of a batch, texts as numbers."""
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
                coords.append(cast("Names", names[dim]).codes(_as_text(array)))
                continue
            column = self._integers(batch, name, array, dim)
            found = known[dim]
            if found is not None:
                found.add(column)
            coords.append(column)
        return Rows(tuple(coords), self._values(batch))

    def _check_nulls(self, batch: Batch, name: str, array: pa.Array) -> None:
        if array.null_count:
            raise self._wrong(batch, name, array, array.is_null(), "a null: drop such rows, or fill them in")

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
        size = self.options.shape[dim] if self.options.bounded(dim) else None
        limit = LARGEST_DIMENSION if size is None else size
        if len(given):
            if given.dtype.kind != "u" and given.min() < 0:
                raise self._wrong(batch, name, array, pa.array(given < 0), "negative: coordinates count from 0")
            if int(given.max()) >= limit:
                problem = "beyond 2^63 - 2" if size is None else f"out of range for the size {size} that shape gives"
                raise self._wrong(batch, name, array, pa.array(given >= limit), problem)
        return given.astype(np.int64, copy=False)

    def _values(self, batch: Batch) -> NDArray[Any] | None:
        name = self.options.value
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
        return values

    def _wrong(self, batch: Batch, name: str, array: pa.Array, where: pa.Array, problem: str) -> IngestError:
        """Return the error about the first element that ``where`` marks."""
        at = pc.index(where, True).as_py()
        found = array[at].as_py()
        token = None if found is None else str(found)
        return IngestError(f"row {batch.row + at}: column {name!r} is {problem}", batch.source, token=token)


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
