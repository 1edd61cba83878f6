"""Header of Extreme Classification files: points, features and labels."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.errors import IngestError
from sparrow.io.base.source import TextBlock, compression_of
from sparrow.io.base.suggestion import TypedSource

__all__ = ["ExtremeHeader", "HeaderLines", "find_bad_label"]

_ABOVE = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*")
"""Blank lines and comments."""
_SIZES = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?[ \t\r]*\n")
_PAIR = re.compile(rb"(?:[^\n:]*[ \t])?\d+:")
_BARE_PAIRS = re.compile(rb"(?:[ \t]*(?:\d+:[^\n]*)?\n)*+\Z")
"""Rows that begin with a pair index:value."""


class ExtremeHeader(NamedTuple):
    """Sizes that a first line declares."""

    points: int
    features: int
    labels: int


class HeaderLines:
    """Reader of the first lines of files, which all have a header or none.

    Parameters
    ----------
    src
        The source as it was typed, for commands.
    """

    def __init__(self, src: Any) -> None:
        self._src = src
        self._is_above = False
        self._files = 0
        self.header: ExtremeHeader | None = None
        """Header of the first file, with the points of all."""

    def take(self, block: TextBlock) -> TextBlock:
        """Return a block without the header of its file, which is blanked out."""
        self._is_above |= block.first_line == 1
        if not self._is_above:
            return block
        data = bytes(block.data)
        start = _ABOVE.match(data).end()  # type: ignore[union-attr]
        if start == len(data):
            return block
        self._is_above = False
        found = _SIZES.match(data, start)
        if found is not None and found[3] is None:
            self._reject_sizes(block, found)
        header = None if found is None or found[3] is None else ExtremeHeader(*map(int, found.groups()))
        self._files += 1
        self._check(block, header, start)
        if header is None or found is None:
            return block
        points = 0 if self.header is None else self.header.points
        self.header = header._replace(points=points + header.points)
        rest = block.data.copy()
        rest[start : found.end() - 1] = 32
        return replace(block, data=rest)

    def _check(self, block: TextBlock, header: ExtremeHeader | None, start: int) -> None:
        """Raise ``IngestError`` if the header of a file does not fit the first file's."""
        if self._files == 1 or (header is None and self.header is None):
            return
        first, own = (None if each is None else each[1:] for each in (self.header, header))
        if first != own:
            shown = [f"{each[0]} features and {each[1]} labels" if each else "no header" for each in (first, own)]
            problem = f"all files must have the same header: the first has {shown[0]}, this one {shown[1]}"
            raise IngestError(problem, block.source.name, block.line_at(start), block.line_text(start))

    def _reject_sizes(self, block: TextBlock, found: re.Match[bytes]) -> None:
        """Raise ``IngestError`` for two numbers above rows of pairs."""
        data = found.string
        if _PAIR.match(data, found.end()) is None:
            return
        typed = TypedSource.of(self._src, compression_of(block.source))
        options = {"index_base": 0, "n_features": int(found[2])}
        problem = "the first line holds numbers of rows and columns"
        if _BARE_PAIRS.match(data, found.end()):
            way = typed.pipe("sed '1d; s/^/0 /'", "libsvm", **options)
            problem = f"{problem}, and rows have no labels: they are read as label 0 by"
        else:
            way = typed.pipe("sed 1d", "libsvm", **options)
        raise IngestError(problem, block.source.name, block.line_at(found.start()), commands=[way])

    def check_rows(self, rows: int, name: str) -> None:
        """Raise ``IngestError`` if another number of rows was read than declared."""
        if self.header is not None and rows != self.header.points:
            raise IngestError(
                f"the header declares {self.header.points:,} points, got {rows:,} rows: the file may be cut off; to "
                "ignore the header, remove the first line",
                name,
            )


def find_bad_label(texts: pa.Array, labels: int) -> tuple[int, str] | None:
    """Return the first row and label that is no integer below a number, or None."""
    lists = pc.split_pattern(texts, ",")
    tokens = pc.list_flatten(lists)
    present = np.asarray(pc.not_equal(tokens, ""))
    is_integer = np.asarray(pc.match_substring_regex(tokens, r"^\d{1,18}$"))
    numbers: NDArray[np.int64] = np.zeros(len(tokens), np.int64)
    numbers[is_integer] = np.asarray(tokens.filter(pa.array(is_integer)).cast(pa.int64()))
    wrong = present & (~is_integer | (numbers >= labels))
    if not wrong.any():
        return None
    at = int(np.argmax(wrong))
    return pc.list_parent_indices(lists)[at].as_py(), tokens[at].as_py()
