"""Layout of delimited text: its separator, and names and kinds of columns."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparrow.errors import IngestError
from sparrow.io.base.magic import split_words
from sparrow.io.base.suggestion import TypedSource

__all__ = [
    "COLUMN_OPTIONS", "ColumnLayout", "TextLayout", "are_since_1970", "dense_rows", "digits_as_integer", "find_layout",
    "is_integral", "is_number", "json_list_command", "json_options", "looks_like_sizes",
]  # fmt: skip

COLUMN_OPTIONS = frozenset({"coords", "value", "nulls", "ids", "relabel", "duplicates"})
"""Options of ``columns`` that are not about CSV."""
_DELIMITERS = ("::", "\t", ";", "|", ",", " ")
_NULLS = frozenset({"", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "NaN", "nan", "\\N"})
_BOOLEANS = frozenset({"true", "false"})
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([T ]\d\d?:\d\d.*)?|\d\d?/\d\d?/\d{4}.*|\d\d?\.\d\d?\.\d{4}|\d\d?:\d\d(:\d\d)?")
_DAY = re.compile(r"\d{4}-\d\d?-\d\d?(?:[T ]00:00(?::00(?:\.0+)?)?)?|\d\d?([/.])\d\d?\1\d{4}")
_COMMA_NUMBER = re.compile(r"[-+]?\d+(,\d+)?([eE][-+]?\d+)?")
_YEAR_1980, _YEAR_2100 = 315_532_800, 4_102_444_800
"""Seconds since 1970."""
_SIZE = re.compile("[0-9]{1,18}")
_LARGE_VALUE = 1000
"""Integers above it are rather ids than values, if most of them differ."""
_MAX_COLUMNS_SHOWN = 12
_MAX_ITEMS = 100
"""Items of a JSON list examined."""
_NOT_VALUES = re.compile(r"(?i)(^|.*[_ .-])(id|timestamp|time|date|index)$|.*[a-z]Id$")
"""Names of columns that hold no values."""
_MIN_GAPS = 20
"""Ids missing among few rows that suggest labels."""
_MIN_ROWS_NAMED = 2
"""Rows from which a first line with one word less may name their columns, but not that of row names."""
_VALUE_NAMES = (
    "value", "rating", "stars", "score", "weight", "count", "counts", "n", "amount", "quantity", "qty", "plays",
    "clicks", "freq", "frequency", "tf", "x", "v", "val", "label",
)  # fmt: skip
"""Names that columns of values usually have."""


def are_since_1970(low: float, high: float) -> bool:
    """Return whether bounds are times in s, ms, us or ns since 1970, after 1980."""
    return any(_YEAR_1980 * unit <= low and high < _YEAR_2100 * unit for unit in (1, 10**3, 10**6, 10**9))


def is_number(token: str) -> bool:
    """Return whether a token is a number."""
    try:
        float(token)
    except ValueError:
        return False
    return "_" not in token


def is_integral(token: str) -> bool:
    """Return whether a number is an integer, such as 7, 7.0 or 7e3."""
    if re.fullmatch(r"[-+]?\d{1,300}(\.0*)?", token):
        return True
    return re.fullmatch(r"[-+]?\d{1,18}(\.\d*)?[eE]\+?\d{1,2}", token) is not None and float(token).is_integer()


def digits_as_integer(token: str) -> int | None:
    """Return the integer of a token of at most 18 digits, else None.

    Spaces and tabs around it are ignored.
    """
    found = re.fullmatch("[ \\t]*([0-9]{1,18})[ \\t]*", token)
    return None if found is None else int(found[1])


@dataclass(frozen=True)
class ColumnLayout:
    """Column of delimited text, by its first rows."""

    name: str
    tokens: Sequence[str]

    @cached_property
    def kind(self) -> str:
        """Kind of the values.

        ``"integer"``, ``"decimal"``, ``"time"`` (since 1970), ``"date"``, ``"boolean"``, ``"text"`` or ``"empty"``.
        """
        tokens = [token for token in self.tokens if token not in _NULLS]
        if not tokens:
            return "empty"
        if all(map(is_number, tokens)):
            if not all(map(is_integral, tokens)):
                return "decimal"
            if any(re.match(r"[-+]?0\d", token) for token in tokens):
                return "integer"
            numbers = [float(token) for token in tokens]
            return "time" if are_since_1970(min(numbers), max(numbers)) else "integer"
        if all(token.lower() in _BOOLEANS for token in tokens):
            return "boolean"
        return "date" if all(map(_DATE.fullmatch, tokens)) else "text"

    @property
    def is_number(self) -> bool:
        """True if it may be a column of values."""
        return self.kind in ("integer", "decimal", "boolean")

    @property
    def is_id(self) -> bool:
        """True if it may be a column of coordinates, dates aside."""
        return self.kind in ("integer", "text")

    @property
    def is_date(self) -> bool:
        """True if it holds times or dates."""
        return self.kind in ("time", "date")

    @property
    def is_dimension(self) -> bool:
        """True if it may distinguish rows of the same ids: days, or texts that repeat."""
        tokens = [token for token in self.tokens if token not in _NULLS]
        if self.kind == "date":
            return all(map(_DAY.fullmatch, tokens))
        return self.kind == "text" and 2 * len({*tokens}) <= len(tokens)

    @property
    def is_negative(self) -> bool:
        """True if it holds integers, some below 0."""
        return self.kind == "integer" and any(token.startswith("-") for token in self.tokens)

    @property
    def has_gaps(self) -> bool:
        """True if it holds integers of which most up to the largest are missing."""
        numbers = {float(token) for token in self.tokens if token not in _NULLS} if self.kind == "integer" else {0.0}
        return max(numbers) + 1 - len(numbers) > max(len(numbers), _MIN_GAPS)

    @property
    def is_beyond(self) -> bool:
        """True if it holds integers that are no coordinates, being too large."""
        return self.kind == "integer" and any(float(token) >= 2**63 for token in self.tokens if token not in _NULLS)

    @property
    def is_key(self) -> bool:
        """True if it holds ids rather than values: integers, most of them different."""
        if self.kind != "integer" or len(self.tokens) < 2:
            return False
        return max(abs(float(token)) for token in self.tokens if token not in _NULLS) > _LARGE_VALUE and (
            2 * len({*self.tokens}) > len(self.tokens)
        )

    def describe(self) -> tuple[str, str, str]:
        """Return name, kind with range, and examples."""
        tokens = [token for token in self.tokens if token not in _NULLS]
        kind = {"text": "texts", "date": "dates", "boolean": "booleans", "empty": "nothing"}.get(self.kind, "")
        if not kind:
            numbers = sorted(tokens, key=float)
            what = {"integer": "integers", "decimal": "decimals", "time": "times"}[self.kind]
            kind = f"{what} {numbers[0][:20]} to {numbers[-1][:20]}"
        examples = ", ".join(token[:24] for token in list(dict.fromkeys(tokens))[:3])
        return self.name.strip() or "(no name)", kind, examples


@dataclass(frozen=True)
class TextLayout:
    """Lines of equal length, split at a separator."""

    delimiter: str
    """A blank stands for any run of blanks and tabs."""
    names: tuple[str, ...] | None
    """Names in the first line, None if it holds data."""
    rows: Sequence[Sequence[str]]
    quoted: bool
    """True if fields are in quotes."""
    unit: str = "line"
    """Unit of the source that is a row: ``"line"`` or ``"row"``."""

    @cached_property
    def has_decimal_commas(self) -> bool:
        """True if a column holds numbers such as 3,5."""
        return self.delimiter != "," and any(map(_has_decimal_commas, zip(*self.rows, strict=False)))

    @cached_property
    def columns(self) -> list[ColumnLayout]:
        """Columns, named c0, c1, ... without a line of names."""
        names = self.names or tuple(f"c{k}" for k in range(len(self.rows[0])))
        columns = [[row[k].strip() for row in self.rows] for k in range(len(names))]
        if self.has_decimal_commas:
            columns = [[_with_point(token) for token in column] for column in columns]
        return [ColumnLayout(name, column) for name, column in zip(names, columns, strict=True)]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def table(self) -> list[str]:
        """Return lines that describe the columns."""
        shown = self.columns[:_MAX_COLUMNS_SHOWN]
        cells = [("column", "values", "examples"), *(column.describe() for column in shown)]
        widths = [max(len(row[k]) for row in cells) for k in range(2)]
        lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in cells]
        count = len(self.rows)
        lines.insert(0, f"in the first {f'{count} {self.unit}s' if count > 1 else self.unit}:")
        return lines + [f"and {self.width - len(shown)} more columns"] * (self.width > len(shown))

    def options(self) -> dict[str, object]:
        """Return options of ``columns`` that read these lines: coordinates and values."""
        coords, value = self._choose()
        coords = self._distinguish(coords, value)
        options: dict[str, object] = {}
        if self.names is None:
            options["header"] = False
        usual = "\t" if self._lead.count("\t") > self._lead.count(",") else ","
        if self.delimiter != usual:
            options["delimiter"] = self.delimiter
        if self.quoted and self.delimiter in "\t ":
            options["quotes"] = True
        if self.has_decimal_commas:
            options["decimal"] = ","
        options["coords"] = [self._reference(k) for k in coords]
        if value is not None:
            options["value"] = self._reference(value)
        chosen = [self.columns[k].tokens for k in (*coords, *([] if value is None else [value]))]
        if any(token in _NULLS for tokens in chosen for token in tokens):
            options["nulls"] = "drop"
        names = [self._reference(k) for k in coords if self.columns[k].kind == "decimal" or self.columns[k].is_beyond]
        if names:
            options["ids"] = dict.fromkeys(names, "str")
        if any(self.columns[k].is_negative or self.columns[k].has_gaps for k in coords):
            options["relabel"] = True
        if self._count_cells(coords) < len(self.rows):
            options["duplicates"] = "sum"
        return options

    def _distinguish(self, coords: list[int], value: int | None) -> list[int]:
        """Return the coordinates, with columns that distinguish rows they share."""
        for k, column in enumerate(self.columns):
            if self._count_cells(coords) == len(self.rows):
                break
            more = sorted({*coords, k})
            if (
                k not in (*coords, value)
                and column.is_dimension
                and self._count_cells(more) > self._count_cells(coords)
            ):
                coords = more
        return coords

    def _count_cells(self, coords: Sequence[int]) -> int:
        """Return the number of different coordinates."""
        return len({*zip(*(self.columns[k].tokens for k in coords), strict=True)})

    @property
    def _lead(self) -> str:
        return self.delimiter.join(self.names or self.rows[0])

    def _reference(self, k: int) -> str:
        """Return the name of a column, or its number if no name will do."""
        name = self.columns[k].name
        if self.names is None or (self.names.count(name) == 1 and name.strip() and "," not in name):
            return name.strip()
        return str(k)

    def _choose(self) -> tuple[list[int], int | None]:
        """Return the columns of coordinates, and that of values, if there is one."""
        columns = self.columns
        usable = [k for k, column in enumerate(columns) if column.name.strip() and column.kind != "empty"]
        usable = usable if len(usable) > 1 else [*range(len(columns))]
        if self.names is None:
            return self._choose_unnamed(usable)
        names = [column.name.strip() for column in columns]
        if names[usable[-1]] == "value":  # as in exported tables
            return usable[:-1], usable[-1]
        known = [k for k in usable if names[k].lower() in _VALUE_NAMES and columns[k].is_number]
        ids = self._coordinates([k for k in usable if k not in known or k == usable[0]])
        ids = ids if len(ids) > 1 else self._coordinates(usable)
        first = ids[:2] if len(usable) > 2 or not known else ids[:1]
        numbers = [k for k in usable if k not in first and columns[k].is_number]
        likely = [k for k in numbers if k in known] or [k for k in numbers if not _NOT_VALUES.fullmatch(names[k])]
        return first, next(iter(likely), None)

    def _coordinates(self, usable: Sequence[int]) -> list[int]:
        """Return the columns that may hold coordinates, ids and dates before times."""
        ids = [k for k in usable if self.columns[k].is_id]
        dated = [k for k in usable if self.columns[k].is_id or self.columns[k].kind == "date"]
        if len(ids) > 1 and dated[0] == ids[0]:
            return dated
        return ids if len(ids) > 1 else [k for k in usable if self.columns[k].is_id or self.columns[k].is_date]

    @cached_property
    def is_dense(self) -> bool:
        """True if lines may be rows of a dense matrix: decimals, and one id at most."""
        kinds = [column.kind for column in self.columns]
        return kinds.count("decimal") > 1 and len(self._coordinates(range(len(kinds)))) < 2

    def _choose_unnamed(self, usable: list[int]) -> tuple[list[int], int | None]:
        """Return columns of coordinates and values without names to go by."""
        columns = self.columns
        numbers = [k for k in usable[2:] if columns[k].is_number and not columns[k].is_key]
        dated = any(columns[k].kind in ("time", "date") for k in usable)
        decimals = [k for k in numbers if columns[k].kind == "decimal"]
        value = numbers[-1] if numbers and not (dated and len(decimals) > 1) else None  # such as two of a place
        ids = [k for k in usable if columns[k].is_id and k not in numbers]
        if len(usable) == 2 and columns[usable[1]].kind == "decimal":  # a vector, by name or number
            return usable[:1], usable[1]
        if value is None:
            return (ids if len(ids) > 1 else usable)[:2] if dated else usable, None
        before = [k for k in usable if k < value and columns[k].is_id]
        return (before if len(before) > 1 and not dated else (ids if len(ids) > 1 else usable)[:2]), value


def find_layout(lines: Sequence[str]) -> TextLayout | None:
    """Return the layout of lines, None if they have no common one.

    Parameters
    ----------
    lines
        Lines with data, whole, at least one.
    """
    has_breaks = any(line.count('"') % 2 for line in lines)  # fields in quotes that hold line ends
    for delimiter in _DELIMITERS:
        is_split = all(delimiter in line or (delimiter == " " and "\t" in line) for line in lines[1:] or lines)
        if not is_split and not (has_breaks and len(delimiter) == 1 and delimiter in lines[0]):
            continue
        rows, quoted = _split(lines, delimiter)
        widths = {len(row) for row in rows[1:]} or {len(rows[0])}
        if len(widths) > 1 or min(widths) < 2 or not 0 <= min(widths) - len(rows[0]) <= 1:
            continue
        short = len(rows[0]) < min(widths)  # names of columns behind those of rows, as R writes them
        names = _names(["", *rows[0]] if short else rows[0], rows[1:], delimiter)
        if short and (names is None or (len(rows) <= _MIN_ROWS_NAMED and not quoted)):
            continue
        found = TextLayout(delimiter, names, rows if names is None else rows[1:], quoted)
        words = delimiter == " " and len(lines) == 1 and all(column.kind == "text" for column in found.columns)
        if not words and (names is not None or sum(column.kind != "empty" for column in found.columns) > 1):
            return found
    return None


def _split(lines: Sequence[str], delimiter: str) -> tuple[list[list[str]], bool]:
    """Return the fields of lines without quotes, and whether there are quotes."""
    quoted = any(re.search(r'(^|[,;|\t ])"(([^"]|"")*"($|[,;|\t ])|([^"]|"")*$)', line) for line in lines[:20])
    if quoted and len(delimiter) == 1:
        try:
            rows = list(csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter == " "))
        except csv.Error:
            rows = [line.split(delimiter) for line in lines]
        return rows, quoted
    if delimiter == " ":
        return [split_words(line) for line in lines], False
    return [line.split(delimiter) for line in lines], quoted


def _has_decimal_commas(column: Sequence[str]) -> bool:
    """Return whether a column holds numbers such as 3,5."""
    tokens = [token.strip() for token in column if token.strip() not in _NULLS]
    return all(map(_COMMA_NUMBER.fullmatch, tokens)) and any("," in token for token in tokens)


def _with_point(token: str) -> str:
    """Return a token with a decimal point, if it is a number with a comma."""
    return token.replace(",", ".") if _COMMA_NUMBER.fullmatch(token) else token


def _names(first: Sequence[str], below: Sequence[Sequence[str]], delimiter: str) -> tuple[str, ...] | None:
    """Return the names in a first line, None if it holds data."""
    if not below or not any(token.strip() for token in first):
        return None
    rows = [[token.strip() for token in row] for row in (first, *below)]
    if delimiter != ",":
        rows = [[_with_point(token) for token in row] for row in rows]
    if any(is_number(token) or _DATE.fullmatch(token) for token in rows[0]):
        return None
    columns = [ColumnLayout("", [row[k] for row in rows[1:]]) for k in range(len(below[0]))]
    differs = any(column.kind not in ("text", "empty") for column in columns)
    return tuple(first) if differs else None


def looks_like_sizes(rows: Sequence[Sequence[str]], whole: bool) -> bool:
    """Return whether a first row may give the sizes and number of the others."""
    first, rest = rows[0], rows[1:]
    if not rest or len(first) not in (2, 3) or not all(map(_SIZE.fullmatch, first)):
        return False
    sizes = [int(token) for token in first]
    if whole and sizes[-1] != len(rest):
        return False
    if not whole and sizes[-1] <= len(rest):
        return False
    ends = [row[:2] for row in rest]
    if not all(len(each) == 2 and all(map(_SIZE.fullmatch, each)) for each in ends):
        return False
    bounds = sizes[:-1] * 2
    return len(rest) > 1 and all(int(token) <= bounds[k] for each in ends for k, token in enumerate(each))


def dense_rows(layout: TextLayout, name: str) -> IngestError:
    """Return the error about rows of a dense matrix, which have no coordinates."""
    way = "in Python, sp.asarray(pandas.read_csv(...)).save(...) stores numbers"
    problem = f"lines of {layout.width} columns may be rows of a dense matrix, without coordinates: {way}"
    return IngestError(problem, name, table=layout.table())


def json_list_command(text: str, typed: TypedSource) -> str | None:
    """Return the command that reads a JSON list, None if its items are no rows."""
    decoder, at = json.JSONDecoder(), text.index("[") + 1
    items: list[Any] = []
    with contextlib.suppress(ValueError, RecursionError):
        while len(items) < _MAX_ITEMS:
            at = re.compile(r"[\s,]*").match(text, at).end()  # type: ignore[union-attr]
            item, at = decoder.raw_decode(text, at)
            items.append(item)
    if items and all(isinstance(item, dict) for item in items):
        options = json_options([json.dumps(item) for item in items])
        return typed.pipe("jq -c '.[]'", "columns", format="json", **options)
    if not items or not all(isinstance(item, list) and len(item) == len(items[0]) > 1 for item in items):
        return None
    rows = [["" if token is None else str(token) for token in item] for item in items]
    if any(isinstance(token, dict | list) for item in items for token in item):
        return None
    return typed.pipe("jq -r '.[] | @csv'", "columns", **TextLayout(",", None, rows, False).options())


def json_options(lines: Sequence[str]) -> dict[str, object]:
    """Return options of ``columns`` that read JSON lines."""
    try:
        objects = [json.loads(line) for line in lines[:100]]
    except (ValueError, RecursionError):
        return {"coords": ["A", "B"]}
    if not all(isinstance(each, dict) for each in objects):
        return {"coords": ["A", "B"]}
    names = [name for name, value in objects[0].items() if not isinstance(value, dict | list)]
    rows = [["" if each.get(name) is None else str(each.get(name)) for name in names] for each in objects]
    options = TextLayout(",", tuple(names), rows, False).options() if len(names) > 1 else {"coords": names or ["A"]}
    return {name: value for name, value in options.items() if name in COLUMN_OPTIONS}
