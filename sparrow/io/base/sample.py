"""Sample of a source: what the detectors of formats examine, stage by stage."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TypeAlias

from sparrow.io.base.magic import quote_file, split_words

__all__ = ["Detector", "Sample", "Stage", "is_number"]


class Stage(IntEnum):
    """Stages of detection, in order."""

    PATH = 0
    """Names of files and folders: nothing is read."""
    SIGNATURE = 1
    """First bytes of a binary file."""
    HEADER = 2
    """Banners and comments of text."""
    LINES = 3
    """Tokens that only one format has."""
    LISTS = 4
    """Lines of numbers whose lengths tell a format."""
    TABLE = 5
    """Named columns, which take options to read."""
    FALLBACK = 6
    """Lines that may be anything."""


@dataclass
class Sample:
    """First bytes and lines of a source, as far as they are read at a stage."""

    src: str
    """Path, pattern or folder as given."""
    folder: str | None = None
    """The path, if it is a folder."""
    name: str = ""
    """Name of the file."""
    head: bytes = b""
    """First 262 bytes, as stored."""
    text: str = ""
    """First whole lines, decompressed."""

    @property
    def file(self) -> str:
        """The name for a command line."""
        return quote_file(self.name)

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


Detector: TypeAlias = Callable[[Sample], str | None]
"""Returns why a sample is of a format, or None; raises ``IngestError`` if reading it takes options."""


def is_number(token: str) -> bool:
    """Return whether a token is a number."""
    try:
        float(token)
    except ValueError:
        return False
    return True
