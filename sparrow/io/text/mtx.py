"""Matrix Market files, coordinate and array layouts, with their symmetries.

R. F. Boisvert, R. Pozo and K. A. Remington, The Matrix Market Exchange Formats: Initial Design, NISTIR 5935, 1996.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.schema import assigned_dims, check_dims, check_dtype, is_fill
from sparrow.errors import IngestError, InvalidValueError, UnsupportedError
from sparrow.io.base.magic import split_words
from sparrow.io.base.registry import Format, Option, parse_names, shared
from sparrow.io.base.sample import Sample, Stage, read_sample
from sparrow.io.base.source import TextBlock
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.base.value_cast import ValueCast
from sparrow.io.text.number_lines import (
    ElementParser,
    HeaderReader,
    LineLayout,
    NumberLinesReader,
    NumberLinesWriter,
    cast_lines,
    check_coords,
    parse_lines,
)
from sparrow.sorting import Rows

__all__ = ["FORMATS", "MatrixMarket", "MatrixMarketWriter", "missing_banner"]

_BANNERS = ("%%matrixmarket", "%matrixmarket")
_TYPES = {"real": "f8", "double": "f8", "complex": "c16", "integer": "i8", "unsigned-integer": "u8", "pattern": "i8"}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


@shared
@dataclass
class MatrixMarket(NumberLinesReader):
    r"""Store a Matrix Market file as a matrix with fill 0.

    Both layouts (``coordinate``, ``array``), all fields (``real``, ``integer``, ``unsigned-integer``, ``complex``,
    ``pattern``, whose elements are 1) and all symmetries (``general``, ``symmetric``, ``skew-symmetric``,
    ``Hermitian``) are read: elements that the file omits for symmetry are stored as well.

    Parameters
    ----------
    %(src_file)s
    %(dst)s
    %(duplicates)s
    dtype
        Type of the values; by default float64, complex128, int64 or uint64 by the field, and int64 for patterns.
    %(fill_value)s
    dims
        Names of the dimensions, ``row, col`` by default.
    %(storing)s

    Returns
    -------
    Tensor
        ``sp.open(dst)``: the stored matrix, of the shape given by the file.

    Raises
    ------
    IngestError
        If banner or lines are malformed, an index exceeds the sizes, the number of elements differs from the file's,
        or a value does not fit ``dtype``: with file, line and token.
    %(duplicate_error)s
    %(not_found)s
    %(exists)s
    InvalidValueError, ShapeError
        If an argument has none of the values above.

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> lines = ["%%MatrixMarket matrix coordinate real symmetric", "3 3 2", "1 1 5", "3 1 2.5"]
    >>> size = Path("small.mtx").write_text("\n".join(lines))
    >>> sp.ingest.mtx("small.mtx", "small.sparrow").to_numpy()
    array([[5. , 0. , 2.5],
           [0. , 0. , 0. ],
           [2.5, 0. , 0. ]])
    """

    _: KW_ONLY
    dims: Annotated[Sequence[str] | None, Option("Names. [default: row,col]", metavar="A,B", parse=parse_names)] = None

    format: ClassVar[str] = "mtx"
    examples: ClassVar[str] = "sparrow ingest mtx west0479.mtx west.sparrow"

    def begin(self, lines: HeaderReader, name: str) -> tuple[ElementParser, tuple[str, ...], dict[str, Any]]:
        """Parse the banner and the line of sizes."""
        dims = check_dims(assigned_dims("row", "col") if self.dims is None else self.dims, 2)
        matrix = _read_header(lines, name)
        dtype = matrix.layout.dtype if self.dtype is None else check_dtype(self.dtype)
        if matrix.layout.dtype.kind == "c" and dtype.kind != "c":
            raise InvalidValueError(f"dtype={dtype} cannot hold complex values: omit dtype, or pass complex64")
        if matrix.strict and dtype.kind in "bu":
            raise InvalidValueError(
                f"dtype={dtype} cannot hold the negatives of a skew-symmetric matrix: pass a signed one, such as int64"
            )
        if matrix.layout.values == 1 and dtype.kind in "fc":  # integers beyond int64 are read as floats
            matrix = replace(matrix, layout=replace(matrix.layout, dtype=np.dtype(np.float64)))
        elif matrix.layout.values == 1 and matrix.layout.dtype.kind in "iu" and dtype.kind in "iu":
            is_unsigned = dtype == np.uint64 or (dtype.kind == "u" and matrix.layout.dtype.kind == "u")
            read = np.dtype(np.uint64 if is_unsigned else np.int64)
            matrix = replace(matrix, layout=replace(matrix.layout, dtype=read))
        cast = ValueCast(dtype, self.dtype is not None, self.report, "declare the field integer")
        return _Entries(matrix, cast, self.fill_value, name), dims, {"symmetry": matrix.symmetry}


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Facts of the banner and the line of sizes."""

    shape: tuple[int, int]
    count: int
    """Number of elements in the file."""
    layout: LineLayout
    symmetry: str

    @property
    def strict(self) -> int:
        """1 if the diagonal is omitted."""
        return int(self.symmetry == "skew-symmetric")


def missing_banner(problem: str, rows: Sequence[Sequence[str]], typed: TypedSource, name: str) -> IngestError:
    """Return the error about lines without a banner, with a command that adds it."""
    below = [row for row in rows[1:] if len(row) > 2]
    is_integer = all(re.fullmatch(r"[-+]?\d+", row[2]) for row in below)
    field = "pattern" if not below else "integer" if is_integer else "real"
    way = typed.pipe(f"(echo '%%MatrixMarket matrix coordinate {field} general'; {{text}})", "mtx")
    return IngestError(f"{problem}; if it begins with sizes", name, token=" ".join(rows[0])[:80], commands=[way])


def _read_header(lines: HeaderReader, name: str) -> _Matrix:
    banner = lines.peek()
    said = [] if banner is None else split_words(banner.text.lower())
    if banner is None or not said or said[0] not in _BANNERS:
        token = None if banner is None else banner.text[:80]
        problem = "a Matrix Market file must begin with %%MatrixMarket matrix coordinate ..."
        if os.path.isfile(name) and (banner is not None and banner.text[:1] in "0123456789%"):
            sample = read_sample(name)
            if sample.rows and re.fullmatch(r"\d+ \d+ \d+", " ".join(sample.rows[0])):
                raise missing_banner(problem, sample.rows, sample.typed, name)
        raise IngestError(problem, name, 1, token)
    lines.skip()
    if len(said) != 5 or said[1] != "matrix":
        raise banner.error("the banner must be %%MatrixMarket matrix LAYOUT FIELD SYMMETRY", name)
    _, _, layout, field, symmetry = said
    for word, known in ((layout, ("coordinate", "array")), (field, (*_TYPES,)), (symmetry, _SYMMETRIES)):
        if word not in known:
            raise banner.error(f"the banner must have one of {', '.join(known)}, got {word!r}", name)
    array = layout == "array"
    if array and field == "pattern":
        raise banner.error("layout array and field pattern exclude each other", name)
    if field == "pattern" and symmetry == "skew-symmetric":
        raise banner.error("field pattern and symmetry skew-symmetric exclude each other", name)
    size = lines.peek_data()
    if size is None:
        raise IngestError("the file ends before the line of sizes", name)
    what = "the line of sizes: rows, columns" + ("" if array else ", elements")
    rows, cols, *count = size.sizes(2 if array else 3, what, name)
    lines.skip()
    if symmetry != "general" and rows != cols:
        raise size.error(f"a {symmetry} matrix must be square, got {rows} x {cols}", name)
    values = {"pattern": 0, "complex": 2}.get(field, 1)
    strict = symmetry == "skew-symmetric"
    if array:
        count = [rows * cols if symmetry == "general" else rows * (rows + 1 - 2 * strict) // 2]
    return _Matrix((rows, cols), count[0], LineLayout(0 if array else 2, values, np.dtype(_TYPES[field])), symmetry)


class _Entries(ElementParser):
    """Parser of the elements of a file, mirrored where the file omits them."""

    def __init__(self, matrix: _Matrix, cast: ValueCast, fill_value: Any, name: str) -> None:
        super().__init__(matrix.layout, cast, name)
        self._matrix, self._fill = matrix, fill_value

    def add(self, count: int) -> None:
        """Count elements; raise if there are too many."""
        super().add(count)
        if self.found > (expected := self._matrix.count):
            raise IngestError(f"expected {expected} elements by the line of sizes, got more", self.name)

    def items(self, text: Iterator[TextBlock]) -> Iterator[tuple[TextBlock, Any]]:
        """Yield blocks; those of arrays parsed, with the number of values before them."""
        for block in text:
            if self.layout.coords:
                yield block, None
                continue
            first, parsed = self.found, parse_lines(block, self.layout)
            assert parsed.values is not None
            self.add(len(parsed.values))
            yield block, (first, parsed)

    def rows(self, item: tuple[TextBlock, Any]) -> Rows:
        """Return the elements of a block."""
        block, numbered = item
        if numbered is None:
            parsed = parse_lines(block, self.layout)
            row, col = parsed.coords
            self.add(len(row))
            check_coords(block, parsed, self.layout.base, self._matrix.shape)
            values = cast_lines(block, self.layout, parsed, self.cast)
        else:
            first, parsed = numbered
            values = cast_lines(block, self.layout, parsed, self.cast)
            assert values is not None
            kept = np.flatnonzero(~is_fill(values, self._fill))  # arrays are often mostly zeros
            row, col = self._positions(first + kept)
            values = values[kept]
        return self._mirror(row, col, values)

    def _positions(self, number: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return row and column of values by position, in columns or lower triangles."""
        rows, strict = self._matrix.shape[0], self._matrix.strict
        if self._matrix.symmetry == "general":
            return number % max(rows, 1), number // max(rows, 1)
        heights = np.arange(rows - strict, -strict, -1)
        begins = np.concatenate([[0], np.cumsum(heights)])
        col = np.searchsorted(begins, number, "right") - 1
        return number - begins[col] + col + strict, col

    def _mirror(self, row: NDArray[np.int64], col: NDArray[np.int64], values: NDArray[Any] | None) -> Rows:
        symmetry = self._matrix.symmetry
        if symmetry == "general":
            return Rows((row, col), values)
        away = row != col
        mirrored = int(np.count_nonzero(away))
        self.cast.report.add(read=-mirrored, mirrored=mirrored)
        if values is not None:
            other = values[away]
            if symmetry == "skew-symmetric" and other.dtype.kind == "i" and (other == np.iinfo(other.dtype).min).any():
                raise IngestError(f"a value has no negative in {other.dtype}: pass dtype='float64'", self.name)
            with np.errstate(over="ignore"):
                other = -other if symmetry == "skew-symmetric" else np.conj(other) if symmetry == "hermitian" else other
            values = np.concatenate([values, other])
        return Rows((np.concatenate([row, col[away]]), np.concatenate([col, row[away]])), values)

    def shape(self, maxima: Sequence[int]) -> tuple[int, ...]:
        """Return the shape; raise if elements are missing."""
        if self.found != self._matrix.count:
            raise IngestError(
                f"expected {self._matrix.count} elements by the line of sizes, got {self.found}: is it truncated?",
                self.name,
            )
        return self._matrix.shape


@dataclass
class MatrixMarketWriter(NumberLinesWriter):
    """Write a matrix as Matrix Market, ``coordinate`` and ``general``."""

    title: ClassVar[str] = "Matrix Market"

    def head(self) -> list[str]:
        """Return the banner and the line of sizes."""
        tensor = self.tensor
        if tensor.ndim != 2:
            raise UnsupportedError(f"Matrix Market needs 2 dimensions, the tensor has {tensor.ndim}: use tns or csv")
        fields = {"f": "real", "c": "complex", "i": "integer", "u": "unsigned-integer", "b": "pattern"}
        rows, cols = tensor.shape
        return [f"%%MatrixMarket matrix coordinate {fields[tensor.dtype.kind]} general", f"{rows} {cols} {self.count}"]

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of the lines; of booleans the coordinates only."""
        return super().columns(batch)[: 2 if self.tensor.dtype.kind == "b" else None]


def _detect(sample: Sample) -> str | None:
    is_banner = bool(sample.lines) and sample.lines[0].lower().startswith(_BANNERS)
    return "the first line is a banner %%MatrixMarket" if is_banner else None


FORMATS = (
    Format(
        "mtx",
        "Matrix Market.",
        reader=MatrixMarket,
        writer=MatrixMarketWriter,
        suffixes=(".mtx", ".mm"),
        detectors={Stage.HEADER: _detect},
    ),
)
