"""Rows of tables to stored tensors: labels, ids, values, one tensor or a bundle."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.casting import MAX_STORED_INTEGER
from sparrow.core.label_types import is_string_type
from sparrow.core.schema import MAX_DIMENSION_SIZE, Schema, check_dtype
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, ShapeError
from sparrow.io.base.coo_writer import DistinctIds, LabelEncoder, SpillQueue, WrittenFiles, write_coo
from sparrow.io.base.id_gaps import SeenIds, warn_of_gaps
from sparrow.io.base.report import Report
from sparrow.io.base.run_sink import RunSink
from sparrow.io.base.shards import Shards
from sparrow.io.base.value_cast import ValueCast
from sparrow.io.tabular.delimited import LateTextError
from sparrow.io.tabular.readers import ReadSpec, TableBatch
from sparrow.kernels.coo import Duplicates
from sparrow.sorting import Rows

__all__ = ["IMAGINARY_COLUMN", "TableFacts", "TableIngest", "TableState", "WideIdsError", "is_label_type"]

IMAGINARY_COLUMN = "value_im"
"""Column of the imaginary parts of the column ``value``, in exported files."""


class TableOptions(Protocol):
    """Checked options of a table, as ``Columns`` has them."""

    coord_names: tuple[str, ...]
    value_name: str | None
    """The only column of values."""
    duplicates: Literal["error", "sum", "last", "first", "min", "max", "mean", "count"]
    fill_value: Any
    ids: Mapping[str, str] | None
    index_base: Literal[0, 1]
    nulls: Literal["error", "drop"]
    profile: Literal["fast", "small", "portable"]
    value_columns: tuple[str, ...]
    """Columns of values to read."""
    members: tuple[str, ...] | None
    """Names of the tensors of a bundle."""
    mean: bool
    """True if values given for one element become their mean."""
    given_dtype: np.dtype[Any] | None
    sizes: tuple[int | None, ...]
    relabelled: tuple[bool, ...]
    fixed_labels: list[pa.Array | None]
    """Labels that the coordinates of a dimension must be among."""
    report: Report
    wide_columns: set[str]
    """Columns of integers beyond coordinates, read as texts."""

    @property
    def dim_names(self) -> tuple[str, ...]:
        """Names of the dimensions."""

    @property
    def spec(self) -> ReadSpec:
        """Columns and options to read."""

    def is_bounded(self, dim: int) -> bool:
        """Return whether the shape bounds the integers of a dimension."""


@dataclass(frozen=True, slots=True)
class TableState:
    """Decisions by the first rows of a table."""

    texts: Sequence[bool]
    """True for each column of coordinates that holds texts."""
    dtypes: Sequence[np.dtype[Any]]
    """Type of each column of values."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Facts about the rows of a task."""

    count: int
    seen: Sequence[SeenIds | None]


ParseFiles: TypeAlias = "Callable[[Callable[[], TableState]], AbstractContextManager[Shards | None]]"


class WideIdsError(LateTextError):
    """Integers beyond coordinates, such as hashes: they are read again as texts."""


@dataclass
class TableIngest:
    """Writer of the rows of a table: a tensor, or a bundle of one per value."""

    folder: storage.Folder | RunSink
    options: TableOptions
    name: str

    def run(self, found: Generator[TableBatch], parse_files: ParseFiles) -> int:
        """Store the rows, and return their number.

        Parameters
        ----------
        found
            The rows.
        parse_files
            Parses files in tasks instead, given a function that returns what the first rows decide.
        """
        self._count = 0
        batches = map(self._prepare, found)
        first = next(batches, None)
        fields = [] if first is None else [first.data.schema.field(name) for name in self.options.coord_names]
        texts = [is_label_type(field.type) for field in fields] or [False] * len(self.options.coord_names)
        self._begin(texts, [self._value_dtype(first, name) for name in self.options.value_columns or (None,)])
        items = batches if first is None else chain([first], batches)
        if self.options.members is not None:
            self._bundle(items, self._distinct_ids())
            return self._count
        is_known = first is not None and not any(pa.types.is_null(field.type) for field in first.data.schema)

        def decide() -> TableState:
            found.close()
            return TableState(self._texts, self._dtypes)

        with parse_files(decide) if is_known else nullcontext() as shards:
            for facts in () if shards is None else shards.facts:
                self._count = max(self._count, facts.count)
                for seen, more in zip(self._seen, facts.seen, strict=True):
                    if seen is not None and more is not None:
                        seen.merge(more)
            written = self._write_rows(items if shards is None else shards)
        self._encode_ids(written.ids)
        assert not isinstance(self.folder, RunSink)
        self._create(self.folder, self.options.value_name, written.files, self._shape(written.maxima), self._dtypes[0])
        return self._count

    def parse_shard(self, batches: Iterator[TableBatch], state: TableState) -> TableFacts:
        """Leave the rows of some files as runs, and return facts about them."""
        assert isinstance(self.folder, RunSink)
        self._count = 0
        self._begin(state.texts, state.dtypes)
        self._write_rows(map(self._prepare, batches))
        self.folder.labels = tuple(
            labels if text and known is None else None
            for text, labels, known in zip(self._texts, self._labels, self.options.fixed_labels, strict=True)
        )
        return TableFacts(self._count, self._seen)

    def _begin(self, texts: Sequence[bool], dtypes: Sequence[np.dtype[Any]]) -> None:
        """Take what the first rows decide."""
        self._texts, self._dtypes = texts, dtypes
        self._labels: list[pa.Array | None] = list(self.options.fixed_labels)
        self._seen = [
            SeenIds() if not relabel and size is None else None
            for relabel, size in zip(self.options.relabelled, self.options.sizes, strict=True)
        ]

    def _distinct_ids(self) -> list[DistinctIds | None]:
        """Return a collector of the ids of each dimension to relabel."""
        return [
            DistinctIds() if relabel and not text else None
            for relabel, text in zip(self.options.relabelled, self._texts, strict=True)
        ]

    def _write_rows(self, items: Iterator[TableBatch] | Shards) -> WrittenFiles:
        """Write the rows of batches, or of files that tasks parsed."""
        known = self._distinct_ids()
        if any(self._texts):
            return self._write_labelled(items, known)
        return self._write(self.folder, items, lambda batch: self._rows(batch, known), self._dtypes[0], known)

    def locate_duplicate(self, error: DuplicateError, batches: Iterator[TableBatch]) -> DuplicateError:
        """Return the error about a repeated element with its rows, which are searched."""
        assert error.cell is not None
        found: list[tuple[TableBatch, int]] = []
        for batch in map(self._prepare, batches):
            found += [(batch, int(at)) for at in np.flatnonzero(self._rows_of_element(batch, error.cell))[:2]]
            if len(found) > 1:
                break
        else:
            return error
        (before, first), (batch, second) = found[:2]
        row, line = batch.where(second)
        early, early_line = before.where(first)
        first_place = f"row {early}" if early_line is None else f"line {early_line}"
        first_place = first_place if before.source == batch.source else f"{before.source}, {first_place}"
        problem = f"row {row}: {error}".replace("more than once", f"more than once, first in {first_place}", 1)
        if batch.source is not None:
            problem = f"{batch.source}{'' if line is None else f', line {line}'}: {problem}"
        return DuplicateError(problem, error.cell)

    def _rows_of_element(self, batch: TableBatch, element: Sequence[int]) -> NDArray[np.bool_]:
        """Return the rows of a batch that hold an element, by labels or coordinates."""
        giving = np.ones(batch.data.num_rows, bool)
        for dim, (name, labels) in enumerate(zip(self.options.coord_names, self._labels, strict=True)):
            array = batch.data.column(name)
            if labels is None:
                giving &= self._integers(batch, name, array, dim) == element[dim]
                continue
            label = labels[element[dim]].cast(pa.string())
            giving &= pc.equal(_as_text(array).cast(pa.string()), label).to_numpy(zero_copy_only=False)
        return giving

    def _bundle(self, items: Iterator[TableBatch], known: list[DistinctIds | None]) -> None:
        """Queue the rows with all values, then store one value after the other."""
        members = self.options.members
        assert members is not None
        assert not isinstance(self.folder, RunSink)
        names = self._label_encoders()
        with closing(SpillQueue()) as queue:
            for batch in items:
                coords = self._coords(batch, known, names)
                if len(coords[0]):
                    queue.add(Rows(coords, self._records(batch)))
            ranks = self._rank_labels(names)
            numbers = [None if each is None else each.finish() for each in known]
            self._encode_ids(numbers)

            def rows_of(rows: Rows, at: int) -> Rows:
                records = rows.values
                assert records is not None
                places = []
                for column, rank, ids in zip(rows.coords, ranks, numbers, strict=True):
                    numbered = column if ids is None else np.searchsorted(ids, column)
                    places.append(numbered if rank is None else rank[numbered])
                found = Rows(tuple(places), np.ascontiguousarray(records[f"value{at}"]))
                there = records[f"there{at}"]
                return found if there.all() else found.take(there)

            unnumbered: list[DistinctIds | None] = [None] * len(names)
            written = [
                self._write(self.folder / name, queue, partial(rows_of, at=at), dtype, unnumbered)
                for at, (name, dtype) in enumerate(zip(members, self._dtypes, strict=True))
            ]
        shape = self._shape(tuple(map(max, zip(*(each.maxima for each in written), strict=True))))
        for name, each, dtype in zip(members, written, self._dtypes, strict=True):
            self._create(self.folder / name, name, each.files, shape, dtype)
        storage.write_bundle(self.folder, dict.fromkeys(members), {"format": "columns"})

    def _records(self, batch: TableBatch) -> NDArray[Any]:
        """Return the values of each row side by side, with a mask of those given."""
        names = self.options.value_columns
        fields: list[tuple[str, Any]] = []
        for at, dtype in enumerate(self._dtypes):
            fields += [(f"value{at}", np.complex128 if self.options.mean else dtype), (f"there{at}", np.bool_)]
        out = np.zeros(batch.data.num_rows, fields)
        for at, (name, dtype) in enumerate(zip(names, self._dtypes, strict=True)):
            chosen = self._drop_nulls(batch, [name]) if self.options.nulls == "drop" else batch
            there = np.asarray(batch.data.column(name).is_valid()) if chosen is not batch else slice(None)
            out[f"value{at}"][there] = self._values(chosen, name, dtype)
            out[f"there{at}"][there] = True
        return out

    def _encode_ids(self, ids: Sequence[NDArray[np.int64] | None]) -> None:
        for dim, found in enumerate(ids):
            if found is not None:
                self._labels[dim] = pa.array(found)

    def _shape(self, maxima: Sequence[int]) -> tuple[int, ...]:
        shape = tuple(map(self._size, range(len(self._labels)), maxima))
        for name, seen, size, labels in zip(self.options.coord_names, self._seen, shape, self._labels, strict=True):
            if seen is not None and labels is None:
                warn_of_gaps(name, seen, size)
        return shape

    def _create(
        self,
        folder: storage.Folder | Any,
        value: Any,
        files: list[storage.DataFile],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        storage.create(
            folder,
            Schema(shape, self.options.dim_names, dtype, self.options.fill_value),
            files,
            labels={dim: labels for dim, labels in enumerate(self._labels) if labels is not None},
            profile=self.options.profile,
            operation="ingest columns",
            report=self.options.report.counts,
            extra={"sources": [self.name], "coords": list(self.options.coord_names), "value": value},
        )

    def _prepare(self, batch: TableBatch) -> TableBatch:
        """Return a batch without dropped rows, with coordinates of the kinds asked for."""
        self._count = max(self._count, batch.row - 1 + batch.data.num_rows)
        if self.options.nulls == "drop":
            several = self.options.members is not None  # a row without one value may have others
            batch = self._drop_nulls(batch, self.options.coord_names if several else batch.data.schema.names)
        for name, column in zip(batch.data.schema.names, batch.data.columns, strict=True):
            if batch.line_of is not None and pa.types.is_binary(column.type):
                texts = [b"" if text is None else text for text in column.to_pylist()]
                wrong = [text.decode(errors="replace").encode() != text for text in texts]
                raise self._error_at(
                    batch, name, column, pa.array(wrong), "not UTF-8: pass encoding='latin-1' or another"
                )
        wanted = dict(self.options.ids or {})
        for name, labels in zip(self.options.coord_names, self.options.fixed_labels, strict=True):
            if labels is not None:
                wanted[name] = "str" if is_label_type(labels.type) else "int"
        for name, kind in wanted.items():
            column = batch.data.column(name)
            if is_label_type(column.type) == (kind == "str") or pa.types.is_null(column.type):
                continue
            try:
                column = _as_text(column).cast(pa.string() if kind == "str" else pa.int64())
            except pa.ArrowException:
                plain = _as_text(column).cast(pa.string())
                wrong = pc.invert(pc.match_substring_regex(plain, r"^[-+]?\d{1,18}$"))
                raise self._error_at(batch, name, plain, wrong, "not an integer") from None
            place = batch.data.schema.get_field_index(name)
            batch = batch._replace(data=batch.data.set_column(place, name, column))
        return batch

    def _drop_nulls(self, batch: TableBatch, names: Sequence[str]) -> TableBatch:
        """Return the rows without nulls in some columns; the batch itself if all are."""
        columns = [batch.data.column(name) for name in names]
        if not any(column.null_count for column in columns):
            return batch
        valid = np.logical_and.reduce([np.asarray(column.is_valid()) for column in columns])
        kept = np.flatnonzero(valid)
        if self.options.members is None or list(names) == list(self.options.coord_names):
            dropped = len(valid) - len(kept)
            self.options.report.add(read=dropped, skipped=dropped)
        return batch._replace(
            data=batch.data.filter(pa.array(valid)), kept=kept if batch.kept is None else batch.kept[kept]
        )

    def _size(self, dim: int, largest: int) -> int:
        given, labels = self.options.sizes[dim], self._labels[dim]
        if labels is None:
            return largest + 1 if given is None else given
        if given is not None and given != len(labels):
            raise ShapeError(
                f"column {self.options.coord_names[dim]!r} has {len(labels)} labels, but shape has {given}: "
                "pass None for the size of a dimension with labels"
            )
        return len(labels)

    def _is_complex(self, batch: TableBatch) -> bool:
        """Return whether a column holds the imaginary parts of the values."""
        columns, own = batch.data.schema.names, self.options.coord_names
        return self.options.value_name == "value" and IMAGINARY_COLUMN in columns and IMAGINARY_COLUMN not in own

    def _value_dtype(self, first: TableBatch | None, name: str | None) -> np.dtype[Any]:
        if first is not None and name is not None and self._is_complex(first):
            given = self.options.given_dtype
            if self.options.mean or (given is not None and given.kind != "c"):
                what = "duplicates='mean'" if self.options.mean else f"dtype={given}"
                raise InvalidValueError(
                    f"{what} excludes complex values: rename the column {IMAGINARY_COLUMN!r} if it is unrelated"
                )
            narrow = all(first.data.schema.field(half).type == pa.float32() for half in (name, IMAGINARY_COLUMN))
            return given or np.dtype(np.complex64 if narrow else np.complex128)
        if self.options.given_dtype is not None:
            return self.options.given_dtype
        if name is None:
            return np.dtype(np.int64)
        if first is None or self.options.mean:
            return np.dtype(np.float64)
        kind = first.data.schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_decimal(kind) or pa.types.is_null(kind):
            return np.dtype(np.float64)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            line, token = self._first_non_number(first, name)
            way = "pass another value=, or none"
            form, plain = self.options.spec.csv, (token or "").strip()
            ways = []
            if form is not None and form.decimal == "." and re.fullmatch(r"[-+]?\d+,\d+", plain):
                ways.append("pass decimal=',' if the comma is the decimal separator")
            if re.fullmatch(r"[-+]?\d{1,3}([.,' ]\d{3})+([.,]\d+)?", plain):
                ways.append("remove the separators of thousands")
            way = ", or ".join(ways) or way
            if plain == name and form is not None and form.header:
                way = "the header line is repeated, read the files one by one"
            problem = f"values must be numbers, column {name!r} holds {kind}: {way}"
            raise IngestError(problem, first.source, line, token)
        return check_dtype(kind.to_pandas_dtype())

    def _first_non_number(self, batch: TableBatch, name: str) -> tuple[int | None, str | None]:
        """Return line and text of the first value that is not a number."""
        column = batch.data.column(name)
        if batch.line_of is None or not pa.types.is_string(column.type):
            return None, None
        form = self.options.spec.csv
        point = r"\." if form is None else re.escape(form.decimal)
        number = rf"(?i)^\s*([-+]?(\d+{point}?\d*|{point}\d+)(e[-+]?\d+)?|[-+]?(inf|infinity)|nan)?\s*$"
        wrong = pc.invert(pc.match_substring_regex(column, number))
        at = max(pc.index(wrong, True).as_py(), 0)
        return batch.where(at)[1], column[at].as_py()

    def _check_names(self, batch: TableBatch) -> None:
        """Raise ``IngestError`` if the header line occurs again, as in joined files."""
        form = self.options.spec.csv
        if batch.line_of is None or form is None or not form.header or not all(self._texts):
            return
        again = np.ones(batch.data.num_rows, bool)
        for name in batch.data.schema.names:
            column = batch.data.column(name)
            if not is_label_type(column.type):
                return
            again &= pc.equal(_as_text(column), name).fill_null(False).to_numpy(zero_copy_only=False)
        if again.any():
            what = "the name of its column: the header line is repeated, read the files one by one"
            raise self._error_at(batch, name, batch.data.column(name), pa.array(again), what)

    def _write(
        self,
        folder: storage.Folder | Any,
        items: Iterator[Any] | SpillQueue | Shards,
        rows_of: Any,
        dtype: np.dtype[Any],
        known: list[DistinctIds | None],
    ) -> WrittenFiles:
        given = self.options.duplicates
        rule: Duplicates = "sum" if given == "mean" or given == "count" else given
        return write_coo(
            folder,
            items,
            rows_of,
            dims=self.options.dim_names,
            dtype=dtype,
            weighted=bool(self.options.value_columns),
            duplicates=rule,
            mean=self.options.mean,
            fill_value=self.options.fill_value,
            profile=self.options.profile,
            report=self.options.report,
            ids=known,
            describe=self._describe,
        )

    def _describe(self, element: tuple[int, ...]) -> str:
        return str(
            tuple(c if names is None else names[c].as_py() for c, names in zip(element, self._labels, strict=True))
        )

    def _write_labelled(self, items: Iterator[TableBatch] | Shards, known: list[DistinctIds | None]) -> WrittenFiles:
        """Encode texts as they come, queue rows, and rank the codes once all are known."""
        if isinstance(items, Shards):
            for dim, labels in enumerate(items.labels):
                self._labels[dim] = self._labels[dim] if labels is None else labels
            return self._write(self.folder, items, None, self._dtypes[0], known)
        names = self._label_encoders()
        with closing(SpillQueue()) as queue:
            for batch in items:
                rows = self._rows(batch, known, names)
                if rows.size:
                    queue.add(rows)
            ranks = self._rank_labels(names)

            def rows_of(rows: Rows) -> Rows:
                coords = (c if rank is None else rank[c] for c, rank in zip(rows.coords, ranks, strict=True))
                return Rows(tuple(coords), rows.values)

            return self._write(self.folder, queue, rows_of, self._dtypes[0], known)

    def _label_encoders(self) -> list[LabelEncoder | None]:
        """Return the encoders of the dimensions of texts."""
        names = [LabelEncoder() if text else None for text in self._texts]
        for each, labels in zip(names, self._labels, strict=True):
            if each is not None and labels is not None:
                each.codes(labels)  # so that the code of a label is its position
        return names

    def _rank_labels(self, names: Sequence[LabelEncoder | None]) -> list[NDArray[np.int32] | None]:
        """Take the texts as labels, and return the rank of each code."""
        ranks: list[NDArray[np.int32] | None] = [None] * len(names)
        for dim, each in enumerate(names):
            if each is not None and self._labels[dim] is None:
                labels, rank = each.finish()
                found = _as_integers(labels) if self.options.coord_names[dim] in self.options.wide_columns else None
                self._labels[dim], ranks[dim] = (labels, rank) if found is None else (found[0], found[1][rank])
        return ranks

    def _rows(
        self, batch: TableBatch, known: list[DistinctIds | None], names: Sequence[LabelEncoder | None] = ()
    ) -> Rows:
        """Return the rows of a batch, with codes for texts."""
        coords, counted = self._coords(batch, known, names), self.options.value_columns
        return Rows(coords, self._values(batch, counted[0], self._dtypes[0]) if counted else None)

    def _coords(
        self, batch: TableBatch, known: list[DistinctIds | None], names: Sequence[LabelEncoder | None]
    ) -> tuple[NDArray[np.int64], ...]:
        self._check_names(batch)
        coords: list[NDArray[np.int64]] = []
        for dim, name in enumerate(self.options.coord_names):
            array = batch.data.column(name)
            if is_label_type(array.type) != self._texts[dim] and not pa.types.is_null(array.type):
                raise IngestError(
                    f"column {name!r} holds {array.type} from row {batch.row} on, but "
                    f"{'texts' if self._texts[dim] else 'numbers'} before: it must have one type",
                    batch.source,
                )
            self._check_nulls(batch, name, array)
            if self._texts[dim]:
                codes = cast("LabelEncoder", names[dim]).codes(_as_text(array))
                labels = self._labels[dim]
                if labels is not None and len(codes) and int(codes.max()) >= len(labels):
                    raise self._error_at(
                        batch, name, array, pa.array(codes >= len(labels)), "not one of the labels of labels_of"
                    )
                coords.append(codes)
                continue
            if (labels := self._labels[dim]) is not None:
                places = pc.index_in(array.cast(labels.type), labels)
                if places.null_count:
                    raise self._error_at(batch, name, array, places.is_null(), "not one of the labels of labels_of")
                coords.append(places.to_numpy().astype(np.int64))
                continue
            column = self._integers(batch, name, array, dim)
            found = known[dim]
            if found is not None:
                found.add(column)
            coords.append(column)
        return tuple(coords)

    def _check_nulls(self, batch: TableBatch, name: str, array: pa.Array) -> None:
        if array.null_count:
            raise self._error_at(batch, name, array, array.is_null(), "null: pass nulls='drop' to skip such rows")

    def _integers(self, batch: TableBatch, name: str, array: pa.Array, dim: int) -> NDArray[np.int64]:
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
                integral = np.array([value == int(value) and abs(value) < 2**63 for value in array.to_pylist()], bool)
                raise self._error_at(batch, name, array, pa.array(~integral), "not an integer in int64") from None
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise IngestError(
                f"coordinates must be integers, texts or dates, column {name!r} holds {str(kind)[:80]}",
                batch.source,
            )
        given: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        if self.options.relabelled[dim] and len(given) and (given.min() < 0 or given.max() >= MAX_DIMENSION_SIZE):
            problem = "negative or beyond 2^63 - 2, and the source cannot be read again: pass a file or a table"
            wrong = pa.array((given < 0) | (given >= MAX_DIMENSION_SIZE))
            raise WideIdsError(name, *self._error_at(batch, name, array, wrong, problem).args)
        if given.dtype.kind == "f":
            wrong = ~((given == np.floor(given)) & (np.abs(given) < 2**53))
            if wrong.any():
                problem = f"not an integer below 2^53: pass ids={{{name!r}: 'str'}} if these are names"
                raise self._error_at(batch, name, array, pa.array(wrong), problem)
        size = self.options.sizes[dim] if self.options.is_bounded(dim) else None
        base = 0 if self.options.relabelled[dim] else self.options.index_base
        limit = MAX_DIMENSION_SIZE if size is None else size + base
        if len(given):
            if int(given.min()) < base:
                what = "negative: coordinates start at 0; pass relabel=True to number any integers"
                what = what if not base else "below 1: pass index_base=0"
                raise self._error_at(batch, name, array, pa.array(given < base), what)
            if int(given.max()) >= limit:
                wide = f"beyond 2^63 - 2: pass relabel=True, or ids={{{name!r}: 'str'}} if these are names"
                problem = wide if size is None else f"out of range for the size {size}"
                raise self._error_at(batch, name, array, pa.array(given >= limit), problem)
        integers = given.astype(np.int64, copy=False)
        integers = integers - base if base else integers
        if (seen := self._seen[dim]) is not None:
            seen.add(integers)
        return integers

    def _values(self, batch: TableBatch, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        if not self._is_complex(batch):
            return self._numbers(batch, name, dtype)
        if dtype.kind != "c":
            problem = f"column {IMAGINARY_COLUMN!r} is missing before row {batch.row}: read the files one by one"
            raise IngestError(problem, batch.source)
        out = np.empty(batch.data.num_rows, dtype)
        out.real = self._numbers(batch, name, out.real.dtype)
        out.imag = self._numbers(batch, IMAGINARY_COLUMN, out.real.dtype)
        return out

    def _numbers(self, batch: TableBatch, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        array = batch.data.column(name)
        self._check_nulls(batch, name, array)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_decimal(array.type):
            array = array.cast(pa.float64())
        given = array.to_numpy(zero_copy_only=False)
        if not len(given):
            return np.zeros(0, dtype)
        if given.dtype.kind not in "biuf":
            raise IngestError(f"values must be numbers, column {name!r} holds {array.type}", batch.source)
        cast = ValueCast(dtype, self.options.given_dtype is not None, self.options.report, keep=None)
        values, unfit = cast(given)
        if unfit is not None:
            mask = pa.array(np.arange(len(given)) == unfit)
            problem = f"out of range for {dtype}: pass dtype='float64'"
            if dtype == np.uint64 and given[unfit] > MAX_STORED_INTEGER:
                problem = "out of range for uint64, beyond 2^63 - 1, the largest stored integer: pass dtype='float64'"
            if dtype.kind == "f" and given.dtype.kind in "iu":
                problem = cast.problem(given[unfit]).removeprefix("is ")
            raise self._error_at(batch, name, array, mask, problem)
        return values + 1j if self.options.mean else values

    def _error_at(self, batch: TableBatch, name: str, array: pa.Array, where: pa.Array, problem: str) -> IngestError:
        """Return the error about the first element in a mask."""
        at = pc.index(where, True).as_py()
        found = array[at].as_py()
        token = None if found is None else str(found)
        row, line = batch.where(at)
        return IngestError(f"row {row}: column {name!r} is {problem}", batch.source, line, token)


def _as_integers(texts: pa.Array) -> tuple[pa.Array, NDArray[np.int32]] | None:
    """Return texts as ascending integers with the rank of each; None if not integers."""
    for kind in (pa.int64(), pa.uint64()):
        try:
            found = texts.cast(kind).to_numpy()
        except pa.ArrowInvalid:
            continue
        order = np.argsort(found)
        found = found[order]
        if (found[1:] == found[:-1]).any():
            return None
        places = np.empty(len(order), np.int32)
        places[order] = np.arange(len(order))
        return pa.array(found), places
    return None


def is_label_type(kind: pa.DataType) -> bool:
    """Return whether a column of a type holds labels: texts, dates and times."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return is_string_type(kind) or bool(pa.types.is_temporal(kind))


def _as_text(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.string()) if pa.types.is_temporal(array.type) else array
