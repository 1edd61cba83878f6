"""Tensors in text, an element per line: FROSTT, Tensor Toolbox, ParTI.

S. Smith et al., FROSTT: The Formidable Repository of Open Sparse Tensors and Tools, 2017.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from sparrow.core.schema import check_dims, check_dtype
from sparrow.errors import IngestError, InvalidValueError, UnsupportedError
from sparrow.io.base.layout import TextLayout
from sparrow.io.base.magic import split_words
from sparrow.io.base.registry import Format, Option, parse_names, parse_shape, shared
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.source import TextBlock
from sparrow.io.base.value_cast import ValueCast
from sparrow.io.text.number_lines import (
    ElementParser,
    HeaderLine,
    HeaderReader,
    LineLayout,
    NumberLinesReader,
    NumberLinesWriter,
    cast_lines,
    check_coords,
    parse_lines,
    reject_banner,
)
from sparrow.sorting import Rows

__all__ = ["FORMATS", "Tns", "TnsWriter"]


@shared
@dataclass
class Tns(NumberLinesReader):
    r"""Store lines of coordinates and a value as a tensor of any rank, with fill 0.

    Lines hold a coordinate per dimension, then the value, separated by blanks. Lines that begin with ``#`` and blank
    lines are ignored. Sizes may come first: the number of dimensions and a line of sizes, or ``sptensor``, these and
    the number of elements. Without them the size of a dimension is its largest coordinate.

    Parameters
    ----------
    %(src_file)s
    %(dst)s
    %(duplicates)s
    dtype
        Type of the values; float64 by default, int64 without values.
    %(fill_value)s
    dims
        Names of the dimensions, ``d0, d1, ...`` by default.
    shape
        Sizes, with None for those that follow from the file.
    index_base
        Number of the first coordinate, 1 or 0.
    values
        False if lines hold coordinates only: each element is 1.
    %(storing)s

    Returns
    -------
    Tensor
        ``sp.open(dst)``: the stored tensor.

    Raises
    ------
    IngestError
        If a line is malformed, a coordinate is below ``index_base`` or exceeds the sizes, the number of elements
        differs from the file's, or a value does not fit ``dtype``: with file, line and token.
    %(duplicate_error)s
    %(not_found)s
    %(exists)s
    InvalidValueError, ShapeError
        If an argument has none of the values above, or does not fit the number of dimensions.

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> size = Path("small.tns").write_text("1 1 1 2.5\n2 3 1 4\n")
    >>> A = sp.ingest.tns("small.tns", "small.sparrow")
    >>> A.shape, A[1, 2, 0]
    ((2, 3, 1), np.float64(4.0))
    """

    _: KW_ONLY
    dims: Annotated[
        Sequence[str] | None, Option("Names. [default: d0,d1,...]", metavar="A,B,...", parse=parse_names)
    ] = None
    shape: Annotated[
        Sequence[int | None] | None,
        Option("Sizes, ? for those that follow from the file.", metavar="M,N,...", parse=parse_shape),
    ] = None
    index_base: Annotated[Literal[0, 1], Option("Number of the first coordinate.")] = 1
    values: Annotated[bool, Option("Whether a value follows the coordinates.", flag="--values/--no-values")] = True

    format: ClassVar[str] = "tns"
    examples: ClassVar[str] = "sparrow ingest tns nell-2.tns.gz nell.sparrow --dims entity,relation,object"

    def begin(self, lines: HeaderReader, name: str) -> tuple[ElementParser, tuple[str, ...], dict[str, Any]]:
        """Parse the lines of sizes, if any."""
        reject_banner(lines, name)
        head = _read_header(lines, name, self.values)
        return _Entries(self, head, name), check_dims(self.dims, head.ndim), {"index_base": self.index_base}


_SIZES = re.compile(rb"(?m)^[ \t]*# sizes:((?: \d+)+)[ \t\r]*$")
"""Comment with the shape, in exported files."""


class _Head(NamedTuple):
    """Facts of the lines before the elements."""

    ndim: int
    shape: tuple[int, ...] | None
    num_elements: int | None


def _read_header(lines: HeaderReader, name: str, values: bool) -> _Head:
    declared: tuple[int, ...] | None = None
    line = lines.peek_data()
    for found in _SIZES.finditer(lines.comments):
        number, text = lines.comments.count(b"\n", 0, found.start()) + 1, found[1].decode()
        declared = HeaderLine(number, text).sizes(len(split_words(text)), "sizes", name)
    if line is None and declared is not None:
        return _Head(len(declared), declared, None)
    if line is None:
        raise IngestError("the file has neither elements nor sizes", name)
    toolbox = line.text == "sptensor"
    if toolbox:
        lines.skip()
        line = lines.peek_data()
    if line is None or len(split_words(line.text)) > 1 or (line.text == "1" and not (toolbox or values)):
        if toolbox:
            raise IngestError("the line after sptensor must be the number of dimensions", name)
        assert line is not None
        ndim = len(split_words(line.text.split("#")[0])) - values
        if ndim < 1:
            raise line.error(
                "a line needs a coordinate before its value: pass values=False if lines have no values", name
            )
        return _Head(ndim, declared if declared is not None and len(declared) == ndim else None, None)
    (ndim,) = line.sizes(1, "the number of dimensions", name)
    lines.skip()
    sizes = lines.peek_data()
    if sizes is None:
        raise IngestError("the file ends before the line of sizes", name)
    shape = sizes.sizes(ndim, f"a line of {ndim} sizes", name)
    lines.skip()
    if not toolbox:
        return _Head(ndim, shape, None)
    line = lines.peek_data()
    if line is None:
        raise IngestError("the file ends before the number of elements", name)
    (count,) = line.sizes(1, "the number of elements", name)
    lines.skip()
    return _Head(ndim, shape, count)


class _Entries(ElementParser):
    """Parser of the elements of a file."""

    def __init__(self, options: Tns, head: _Head, name: str) -> None:
        given = None if options.dtype is None else check_dtype(options.dtype)
        if given is not None and given.kind == "c" and options.values:
            raise InvalidValueError(f"dtype must be real, the lines hold one number per value, got {given}")
        is_integer = not options.values or (given is not None and given.kind in "iu")
        read = np.dtype("f8" if not is_integer else "u8" if given is not None and given.kind == "u" else "i8")
        layout = LineLayout(head.ndim, int(options.values), read, options.index_base)
        cast = ValueCast(read if given is None else given, given is not None, options.report)
        super().__init__(layout, cast, name)
        self._expected = head.num_elements
        self._shape: list[int | None] = list(head.shape or (None,) * head.ndim)
        if options.shape is not None:
            if len(options.shape) != head.ndim:
                raise InvalidValueError(f"shape must have {head.ndim} sizes, got {tuple(options.shape)}")
            declared = zip(self._shape, options.shape, strict=True)
            self._shape = [size if wanted is None else wanted for size, wanted in declared]

    def rows(self, item: tuple[TextBlock, Any]) -> Rows:
        """Return the elements of a block."""
        block, _ = item
        parsed = parse_lines(block, self.layout)
        hint = ": pass index_base=0 if they count from 0" if self.layout.base else ""
        check_coords(block, parsed, self.layout.base, self._shape, hint)
        self.add(parsed.coords.shape[1])
        return Rows(tuple(parsed.coords), cast_lines(block, self.layout, parsed, self.cast))

    def shape(self, maxima: Sequence[int]) -> tuple[int, ...]:
        """Return the shape; raise if elements are missing or too many."""
        if self._expected not in (None, self.found):
            raise IngestError(f"expected {self._expected} elements by the header, got {self.found}", self.name)
        return tuple(top + 1 if size is None else size for size, top in zip(self._shape, maxima, strict=True))


@dataclass
class TnsWriter(NumberLinesWriter):
    """Write lines of coordinates, from 1, and a value, with sizes in a comment."""

    title: ClassVar[str] = "a .tns file"

    def head(self) -> list[str]:
        """Return a comment of the sizes."""
        tensor = self.tensor
        if not tensor.ndim or tensor.dtype.kind == "c":
            what = f"values are {tensor.dtype}" if tensor.ndim else "the tensor has no dimension"
            raise UnsupportedError(f"a .tns file needs dimensions and real values, but {what}: use csv")
        return [f"# sizes: {' '.join(map(str, tensor.shape))}"]


def _looks_valueless(layout: TextLayout) -> bool:
    """Return whether the last column holds coordinates, as large as others."""
    last = layout.columns[-1]
    largest = [max(map(float, each.tokens)) for each in layout.columns if each.kind == "integer"]
    return (
        all(each.kind == "integer" for each in layout.columns) and last.is_key and largest[-1] < 2 * max(largest[:-1])
    )


def _detect(sample: Sample) -> str | None:
    data = sample.data
    sizes = re.search(r"(?m)^# sizes:((?: \d+)+)\s*$", sample.text)
    if sizes is not None and (not data or len(split_words(data[0])) == len(split_words(sizes[1])) + 1):
        return "a comment gives the sizes, as exported files do"
    if data and data[0] == "sptensor":
        return "the first line is sptensor"
    if data and ".tns" in sample.name.rsplit("/", 1)[-1]:
        if (layout := sample.layout) is not None and _looks_valueless(layout):
            problem = "the last of the columns may be a value, or a coordinate as the others"
            ways = [sample.typed.command("tns", values=values) for values in (False, True)]
            raise IngestError(problem, sample.name, commands=ways, table=layout.table())
        return "the name ends in .tns"
    return None


FORMATS = (
    Format(
        "tns",
        "Tensors in text (FROSTT).",
        reader=Tns,
        writer=TnsWriter,
        suffixes=(".tns",),
        detectors={Stage.HEADER: _detect},
    ),
)
