"""Commands that errors suggest, rendered from options.

``DST`` stands for the folder to create, and ``FORMAT`` for the format and options of a reader: the command line and
:meth:`sparrow.io.base.registry.Reader.ingest` replace them. Tests run every suggestion on the input that caused it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = [
    "DECOMPRESSORS", "PACKED_SUFFIXES", "PLACEHOLDER", "TypedSource", "option_words", "with_destination",
    "with_options",
]  # fmt: skip

DECOMPRESSORS = {"gzip": "gzip", "zstd": "zstd", "bz2": "bzip2", "xz": "xz"}
"""Commands that decompress what readers take."""

PACKED_SUFFIXES = frozenset({".gz", ".zst", ".bz2", ".xz"})
"""Suffixes of compressed files."""

PLACEHOLDER = "DST"
"""Stands for the folder to create."""

_NEGATED = {"directed": "--undirected", "labels": "--numbers", "lower": "--as-written"}
"""Spelling of options that are off, where it is not ``--no-``."""


@dataclass(frozen=True)
class TypedSource:
    """Source as it was typed, which renders commands that read it.

    Examples
    --------
    >>> typed = TypedSource.of(["part-*.txt.gz"], "gzip")
    >>> typed.command("edges", ids="str", header=True)
    "sparrow ingest edges 'part-*.txt.gz' DST --ids str --header"
    >>> typed.pipe("cut -f 1,2", "edges")
    "gzip -dc 'part-*.txt.gz' | cut -f 1,2 | sparrow ingest edges - DST"
    """

    words: tuple[str, ...]
    """Paths and patterns; empty for standard input and objects."""
    compression: str | None = None
    unpack: str | None = None
    """Command that prints the text, if the source itself is not read."""

    @classmethod
    def of(cls, src: Any, compression: str | None = None) -> TypedSource:
        """Return the source of a path, a list of paths, or anything else."""
        given = src if isinstance(src, list | tuple) else [src]
        paths = [os.fspath(each) for each in given if isinstance(each, str | os.PathLike) and each != "-"]
        return cls(tuple(paths) if len(paths) == len(given) else (), compression)

    def __str__(self) -> str:
        return " ".join(map(shlex.quote, self.words)) or "FILE"

    def command(self, format: str | None, /, **options: Any) -> str:
        """Return the command that ingests the source; without a format it is detected."""
        if self.unpack is not None:
            return " ".join([f"{self.unpack} | sparrow ingest {format} - {PLACEHOLDER}", *option_words(options)])
        words = ["sparrow", "ingest", *([] if format is None else [format]), str(self), PLACEHOLDER]
        return " ".join([*words, *option_words(options)])

    def filter(self, shell: str) -> TypedSource:
        """Return the source that a shell command makes of the text."""
        unpack = self.unpack
        if unpack is None and self.compression is not None:
            unpack = f"{DECOMPRESSORS[self.compression]} -dc {self}"
        return replace(self, unpack=f"{shell} {self}" if unpack is None else f"{unpack} | {shell}")

    def pipe(self, shell: str, format: str = "FORMAT", /, **options: Any) -> str:
        """Return the command that ingests what a shell command makes of the text.

        The name of the file is appended to the command; or ``{text}`` in it becomes a command that prints the text.
        """
        unpack = self.unpack
        if unpack is None and self.compression is not None:
            unpack = f"{DECOMPRESSORS[self.compression]} -dc {self}"
        if "{text}" in shell:
            shell = shell.replace("{text}", unpack or f"cat {self}")
        else:
            shell = f"{shell} {self}" if unpack is None else f"{unpack} | {shell}"
        return " ".join([f"{shell} | sparrow ingest {format} - {PLACEHOLDER}", *option_words(options)])


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Return options as words of a command line."""
    words = []
    for name, value in options.items():
        spelled = name.replace("_", "-")
        if value is None:
            continue
        if value is True or value is False:
            words.append(f"--{spelled}" if value else _NEGATED.get(name, f"--no-{spelled}"))
        else:
            words += [f"--{spelled}", shlex.quote(_spell(value))]
    return words


def _spell(value: Any) -> str:
    """Return a value as the command line parses it."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={kind}" for name, kind in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join("?" if each is None else str(each) for each in value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return np.dtype(value).name
    return str(value).replace("\t", "\\t")


def with_options(command: str, options: Mapping[str, Any]) -> str:
    """Return a command with further options, unless it has them.

    Examples
    --------
    >>> with_options("sed 1d F | sparrow ingest edges - DST --ids str", {"ids": "int", "relabel": True})
    'sed 1d F | sparrow ingest edges - DST --ids str --relabel'
    """
    tail = command.rpartition(f" {PLACEHOLDER}")[2]
    more = {
        name: value
        for name, value in options.items()
        if not re.search(rf"--(no-)?{name.replace('_', '-')}\b", tail) and _NEGATED.get(name, "--?") not in tail
    }
    return " ".join([command, *option_words(more)])


def with_destination(commands: Iterable[str], dst: str) -> tuple[str, ...]:
    """Return commands with the folder to create in place of ``DST``."""
    return tuple(re.sub(rf"(?<= ){PLACEHOLDER}(?= |$)", lambda _: shlex.quote(dst), each) for each in commands)
