"""Matrix Market files, as NIST defines them: coordinates or whole columns, with their symmetries.

R. F. Boisvert, R. Pozo and K. A. Remington, The Matrix Market Exchange Formats: Initial Design, NISTIR 5935, 1996.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.schema import check_dims, check_dtype
from sparrow.errors import IngestError, InvalidValueError, UnsupportedError
from sparrow.io.base.magic import split_words
from sparrow.io.base.registry import Format, Option, parse_names
from sparrow.io.base.source import TextBlock
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

__all__ = ["FORMATS", "MatrixMarket", "MatrixMarketWriter"]

_BANNERS = ("%%matrixmarket", "%matrixmarket")
_TYPES = {"real": "f8", "double": "f8", "complex": "c16", "integer": "i8", "unsigned-integer": "u8", "pattern": "i8"}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


@dataclass
class MatrixMarket(NumberLinesReader):
    r"""Store a Matrix Market file as a matrix with fill 0.

    Both layouts are read (``coordinate`` and ``array``), all fields (``real``, ``integer``, ``unsigned-integer``,
    ``complex``, ``pattern``, whose entries count 1) and symmetries (``general``, ``symmetric``, ``skew-symmetric``,
    ``Hermitian``): what the file leaves out for symmetry is stored as well. Zeros are not stored.

    Parameters
    ----------
    src
        The file, ``"-"`` for standard input. gzip, zstd and bz2 are told from the content.
    dst
        The folder to create.
    duplicates
        What becomes of several values for one cell: ``"error"``, ``"sum"``, ``"last"``, ``"first"``, ``"min"`` or
        ``"max"``.
    dtype
        Type of the values; by default float64, complex128, int64 or uint64 by the field, and int64 for patterns.
    dims
        Names of the dimensions, ``row, col`` by default.
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
        What ``sp.open(dst)`` does: a stored matrix of the shape that the file tells.

    Raises
    ------
    IngestError
        If the banner is none, a line holds anything else than it should, an index is beyond the sizes, the number of
        entries is another one than the file tells, or a value does not fit ``dtype``: with file, line and token.
    DuplicateError
        If a cell comes twice and ``duplicates`` is ``"error"``.
    NotFoundError
        If there is no such file.
    ExistsError
        If something is at ``dst`` and ``overwrite`` is not set.
    InvalidValueError, ShapeError
        If an argument is not one of those above.

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
        """Take banner and line of sizes off."""
        dims = check_dims(("row", "col") if self.dims is None else self.dims, 2)
        matrix = _header(lines, name)
        dtype = matrix.layout.dtype if self.dtype is None else check_dtype(self.dtype)
        if matrix.layout.dtype.kind == "c" and dtype.kind != "c":
            raise InvalidValueError(f"dtype={dtype}: the values are complex; leave dtype out, or give complex64")
        if matrix.strict and dtype.kind in "bu":
            raise InvalidValueError(
                f"dtype={dtype}: a skew-symmetric matrix has negatives: give a signed type, as int64"
            )
        if matrix.layout.values == 1 and dtype.kind in "fc":  # integers beyond int64 are read as floats
            matrix = replace(matrix, layout=replace(matrix.layout, dtype=np.dtype(np.float64)))
        return _Entries(matrix, dtype, name), dims, {"symmetry": matrix.symmetry}


@dataclass(frozen=True, slots=True)
class _Matrix:
    """What banner and size line tell."""

    shape: tuple[int, int]
    entries: int
    """The lines of entries in the file."""
    layout: LineLayout
    symmetry: str

    @property
    def strict(self) -> int:
        """1 where the diagonal is left out."""
        return int(self.symmetry == "skew-symmetric")


def _header(lines: HeaderReader, name: str) -> _Matrix:
    banner = lines.peek()
    said = [] if banner is None else split_words(banner.text.lower())
    if banner is None or not said or said[0] not in _BANNERS:
        token = None if banner is None else banner.text[:80]
        raise IngestError("a Matrix Market file begins with %%MatrixMarket matrix coordinate ...", name, 1, token)
    lines.skip()
    if len(said) != 5 or said[1] != "matrix":
        raise banner.error("the banner is to say %%MatrixMarket matrix LAYOUT FIELD SYMMETRY", name)
    _, _, layout, field, symmetry = said
    for word, known in ((layout, ("coordinate", "array")), (field, (*_TYPES,)), (symmetry, _SYMMETRIES)):
        if word not in known:
            raise banner.error(f"{word!r} in the banner: there are {', '.join(known)}", name)
    array = layout == "array"
    if array and field == "pattern":
        raise banner.error("there is no array of field pattern", name)
    if field == "pattern" and symmetry == "skew-symmetric":
        raise banner.error("a pattern has no sign to be skew-symmetric by", name)
    size = lines.peek_data()
    if size is None:
        raise IngestError("the file ends before the line of sizes", name)
    what = "the line of sizes: rows, columns" + ("" if array else ", entries")
    rows, cols, *entries = size.sizes(2 if array else 3, what, name)
    lines.skip()
    if symmetry != "general" and rows != cols:
        raise size.error(f"a matrix of {rows} x {cols} is not {symmetry}", name)
    values = {"pattern": 0, "complex": 2}.get(field, 1)
    strict = symmetry == "skew-symmetric"
    if array:
        entries = [rows * cols if symmetry == "general" else rows * (rows + 1 - 2 * strict) // 2]
    return _Matrix((rows, cols), entries[0], LineLayout(0 if array else 2, values, np.dtype(_TYPES[field])), symmetry)


class _Entries(ElementParser):
    """The entries of a file, mirrored where it leaves them out."""

    def __init__(self, matrix: _Matrix, dtype: np.dtype[Any], name: str) -> None:
        super().__init__(matrix.layout, dtype, name)
        self._matrix = matrix

    def add(self, count: int) -> None:
        """Count entries, as long as there are not too many."""
        super().add(count)
        if self.found > (told := self._matrix.entries):
            raise IngestError(f"there are more than the {told} entries that the line of sizes tells", self.name)

    def items(self, text: Iterator[TextBlock]) -> Iterator[tuple[TextBlock, Any]]:
        """Yield blocks; those of arrays, whose entries are known by their number, with that of the first and parsed."""
        for block in text:
            if self.layout.coords:
                yield block, None
                continue
            first, values = self.found, parse_lines(block, self.layout).values
            assert values is not None
            self.add(len(values))
            yield block, (first, values)

    def rows(self, item: tuple[TextBlock, Any]) -> Rows:
        """Return the entries of a block."""
        block, numbered = item
        if numbered is None:
            parsed = parse_lines(block, self.layout)
            (row, col), values = parsed.coords, parsed.values
            self.add(len(row))
            check_coords(block, parsed, self.layout.base, self._matrix.shape)
            if values is not None:
                values = cast_lines(block, self.layout, values, self.dtype)
        else:
            first, values = numbered
            kept = np.flatnonzero(values)  # zeros are most of many an array
            row, col = self._places(first + kept)
            values = cast_lines(block, self.layout, values, self.dtype)[kept]
        return self._mirrored(row, col, values)

    def _places(self, number: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return row and column of values by their number: whole columns, or what is below the diagonal of each."""
        rows, strict = self._matrix.shape[0], self._matrix.strict
        if self._matrix.symmetry == "general":
            return number % max(rows, 1), number // max(rows, 1)
        heights = np.arange(rows - strict, -strict, -1)
        begins = np.concatenate([[0], np.cumsum(heights)])
        col = np.searchsorted(begins, number, "right") - 1
        return number - begins[col] + col + strict, col

    def _mirrored(self, row: NDArray[np.int64], col: NDArray[np.int64], values: NDArray[Any] | None) -> Rows:
        symmetry = self._matrix.symmetry
        if symmetry == "general":
            return Rows((row, col), values)
        away = row != col
        if values is not None:
            other = values[away]
            if symmetry == "skew-symmetric" and other.dtype.kind == "i" and (other == np.iinfo(other.dtype).min).any():
                raise IngestError(f"a value has no negative in {other.dtype}: say dtype='float64'", self.name)
            with np.errstate(over="ignore"):
                other = -other if symmetry == "skew-symmetric" else np.conj(other) if symmetry == "hermitian" else other
            values = np.concatenate([values, other])
        return Rows((np.concatenate([row, col[away]]), np.concatenate([col, row[away]])), values)

    def shape(self, maxima: Sequence[int]) -> tuple[int, ...]:
        """Return the shape, or raise where entries are missing."""
        if self.found != self._matrix.entries:
            raise IngestError(
                f"there are {self.found} entries, not the {self._matrix.entries} of the line of sizes: is it cut off?",
                self.name,
            )
        return self._matrix.shape


@dataclass
class MatrixMarketWriter(NumberLinesWriter):
    """Write the entries of a matrix as Matrix Market, layout ``coordinate``, symmetry ``general``."""

    called: ClassVar[str] = "Matrix Market"

    def head(self) -> list[str]:
        """Return banner and line of sizes."""
        tensor = self.tensor
        if tensor.ndim != 2:
            raise UnsupportedError(f"Matrix Market has two dimensions, this tensor {tensor.ndim}: use tns or csv")
        fields = {"f": "real", "c": "complex", "i": "integer", "u": "unsigned-integer", "b": "pattern"}
        rows, cols = tensor.shape
        return [f"%%MatrixMarket matrix coordinate {fields[tensor.dtype.kind]} general", f"{rows} {cols} {self.count}"]

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return what stands in the lines: of True nothing but its place."""
        return super().columns(batch)[: 2 if self.tensor.dtype.kind == "b" else None]


FORMATS = (Format("mtx", "Matrix Market.", reader=MatrixMarket, writer=MatrixMarketWriter, suffixes=(".mtx", ".mm")),)
