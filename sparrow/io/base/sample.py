"""Sample of a source: what the detectors of formats examine, stage by stage."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeAlias

from sparrow.errors import IngestError
from sparrow.io.base.layout import TextLayout, find_layout
from sparrow.io.base.magic import detect_compression, split_words
from sparrow.io.base.source import Source, folder_path, open_sources, read_blocks
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.tuning import tuning

__all__ = ["Detector", "Sample", "Stage", "fill_sample", "read_sample"]


class Stage(IntEnum):
    """Stages of detection, in order."""

    PATH = 0
    """Names of files and folders: nothing is read."""
    SIGNATURE = 1
    """First bytes of a binary file."""
    HDF5 = 2
    """Members of an HDF5 file, which is opened once for all formats."""
    HEADER = 3
    """Banners and comments of text."""
    LINES = 4
    """Tokens that only one format has."""
    LISTS = 5
    """Suffixes of text, and lines of numbers whose lengths tell a format."""
    TABLE = 6
    """Named columns, which take options to read."""
    FALLBACK = 7
    """Lines that may be anything."""


@dataclass
class Sample:
    """First bytes and lines of a source, as far as they are read at a stage."""

    src: str
    """Path, pattern or folder as given; the first of several."""
    name: str = ""
    """Name of the file."""
    head: bytes = b""
    """First 262 bytes, as stored."""
    hdf5: Any = None
    """The open ``h5py.File``, at the stage HDF5."""
    text: str = ""
    """First whole lines, decompressed."""
    whole: bool = False
    """True if ``text`` is all of the file."""
    words: Sequence[str] = ()
    """All paths as given."""
    unpack: str | None = None
    """Command that prints the text, if it is part of an archive."""
    encoding: str | None = None
    """Likely encoding of the text, None for UTF-8."""

    @property
    def typed(self) -> TypedSource:
        """The source as it was typed, for commands."""
        typed = TypedSource.of(list(self.words) or self.src, detect_compression(self.head))
        return replace(typed, unpack=self.unpack)

    @property
    def below_comments(self) -> TypedSource:
        """The source below its first comments, for readers that take none."""
        lines = re.split(r"\r\n|\n|\r", self.text)
        first = next((k for k, line in enumerate(lines) if line.strip() and line.strip()[0] not in "#%"), 0)
        if not any(line.strip() for line in lines[:first]):
            return self.typed
        return self.typed.filter(f"sed 1,{first}d")

    @cached_property
    def commented_table(self) -> tuple[TextLayout, TypedSource] | None:
        """Layout of a table whose names follow a ``#``, and the source without it.

        It has three columns or more, since two that are named in a comment are those of edges, and no blanks between
        them, as comments of edge lists have.
        """
        layout, lines = self.layout, re.split(r"\r\n|\n|\r", self.text)
        first = next((k for k, line in enumerate(lines) if line.strip() and line.strip()[0] not in "#%"), 0)
        header = re.fullmatch(r"#[ \t]*(.*\S)[ \t]*", lines[first - 1]) if first else None
        if header is None or layout is None or layout.names is not None or layout.width < 3:
            return None
        sign = layout.delimiter
        if sign not in ",;|" or (f"{sign} " in header[1] and f"{sign} " not in self.data[0]):  # prose
            return None
        fields = [field.strip() for field in header[1].split(sign)]
        if len(fields) != layout.width or not all(map(_NAME.fullmatch, fields)):
            return None
        named = find_layout([header[1], *self.data[: tuning().detection_lines]])
        if named is None or named.names is None:
            return None
        above = f"1,{first - 1}d;" if first > 1 else ""
        return named, self.typed.filter(f"sed '{above}{first}s/^#[[:blank:]]*//'")

    def columns_command(self, options: Mapping[str, Any]) -> str:
        """Return the command that reads the source as a table."""
        coords: Any = options["coords"]
        if len(coords) < 2:
            options = {**options, "coords": [*coords, *self.partitions]}
        typed = self.below_comments if self.text else self.typed
        return typed.command("columns", **options, encoding=self.encoding)

    @property
    def partitions(self) -> list[str]:
        """Columns in the names of folders, such as year=2026."""
        if self.folder is None:
            return []
        parts = self.name.removeprefix(self.folder).split("/")[:-1]
        return [part.partition("=")[0] for part in parts if "=" in part]

    @cached_property
    def folder(self) -> str | None:
        """The path, if it is a folder."""
        return folder_path(self.src)

    @cached_property
    def lines(self) -> list[str]:
        """Lines that are not blank, stripped."""
        return [line.strip() for line in re.split(r"[\r\n]+", self.text) if line.strip()]

    @cached_property
    def data(self) -> list[str]:
        """Lines that are neither blank nor comments."""
        return [line for line in self.lines if line[0] not in "#%"]

    @cached_property
    def rows(self) -> list[list[str]]:
        """Words of the data lines, without trailing comments."""
        return [split_words(line.split("#")[0]) for line in self.data]

    @cached_property
    def layout(self) -> TextLayout | None:
        """Columns of the data lines, None if they have no common layout."""
        data = self.data[: tuning().detection_lines]
        plain = [re.sub(r"\s+#(\s.*)?$", "", line) for line in data]
        return find_layout(data) or find_layout([line for line in plain if line.strip(", ")] or data)

    @cached_property
    def number_rows(self) -> list[list[str]] | None:
        """Words of the lines below the first, or None if one is not digits.

        Lines that begin with ``%`` are comments.
        """
        limit = tuning().detection_lines
        lines = self.text.split("\n", limit)[1:limit]
        rows = [split_words(line) for line in lines if line[:1] != "%"]
        if not all(re.fullmatch("[0-9]+", token) for row in rows for token in row):
            return None
        return rows[:-1] if rows and not rows[-1] else rows  # the line end of the last line


_NAME = re.compile(r"[^\W\d][\w .-]{0,40}")
"""Name of a column in a comment, rather than a part of a sentence."""

Detector: TypeAlias = Callable[[Sample], str | None]
"""Returns why a sample is of a format, or None; raises ``IngestError`` if reading it takes options."""


def read_sample(path: str) -> Sample:
    """Return the first lines of a file of text.

    Raises
    ------
    IngestError
        If it is not text, or cannot be read.
    """
    source = open_sources(path)[0]
    sample = Sample(path, source.name)
    fill_sample(sample, source)
    return sample


def fill_sample(sample: Sample, source: Source) -> None:
    """Read the first lines of a source into a sample; raise if it is empty."""
    size = tuning().detection_bytes
    with closing(read_blocks(source, size)) as text:
        block = next(text, None)
    if block is None:
        raise IngestError("the file is empty", source.name)
    start = block.text(0, size)
    try:
        bytes(block.data[:size]).decode()
    except UnicodeDecodeError as error:
        if error.start < len(block.data[:size]) - 4:  # not a character that is cut
            sample.encoding = "latin-1"
            start = bytes(block.data[:size]).decode("latin-1")
    sample.whole = len(block.data) <= size and block.advance >= (source.size or 0)
    sample.text = start if len(block.data) <= size else start.rpartition("\n")[0] or start
