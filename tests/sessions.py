"""Sessions of documents: fenced blocks, commands and their output."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

SIZE = re.compile(r"(\d+(?:\.\d+)?) (bytes|kB|MB|GB)\b")
TIME = re.compile(r"\d+\.\d+ s\b")
UNITS = {"bytes": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


def read_blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def parse_commands(blocks: Iterable[str]) -> list[tuple[str, str]]:
    """Return the commands of console blocks, each with the output shown below it."""
    commands = []
    for part in re.split(r"^\$ ", "".join(blocks), flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        count = next(k for k in range(1, len(lines)) if not _is_open("\n".join(lines[:k])))
        commands.append(("\n".join(lines[:count]), "\n".join(lines[count:])))
    return commands


def _is_open(typed: str) -> bool:
    """Return whether the shell expects another line."""
    return typed.count('"') % 2 == 1 or typed.endswith("\\")


def compare_output(actual: str, shown: str, typed: str, notes: str = "") -> None:
    """Compare output with the page; sizes in bytes may differ by 10 %, and times.

    Parameters
    ----------
    actual
        Standard output.
    shown
        Output on the page: both streams, as a terminal shows them.
    typed
        The command.
    notes
        Standard error.
    """
    lines = shown.splitlines()
    for note in notes.splitlines():
        same = [k for k, line in enumerate(lines) if TIME.sub("# s", line) == TIME.sub("# s", note)]
        assert same, f"{typed}: the page must show {note!r}"
        del lines[same[0]]
    shown = "\n".join(lines)
    assert SIZE.sub("#", actual).rstrip() == SIZE.sub("#", shown).rstrip(), typed
    sizes = ([float(n) * UNITS[unit] for n, unit in SIZE.findall(text)] for text in (actual, shown))
    for found, expected in zip(*sizes, strict=True):
        assert found == pytest.approx(expected, rel=0.1), typed


def share_compiled_kernels(repository: Path, packages: Path) -> None:
    """Let an installed copy of sparrow use the kernels that the tests compile."""
    source, target = repository / "sparrow", packages / "sparrow"
    for folder in {path.parent.relative_to(source) for path in source.glob("kernels/**/*.py")}:
        for path in (target / folder).glob("*.py"):
            before = (source / folder / path.name).stat()
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # unchanged sources are not compiled again
        (source / folder / "__pycache__").mkdir(exist_ok=True)
        shutil.rmtree(target / folder / "__pycache__", ignore_errors=True)
        (target / folder / "__pycache__").symlink_to(source / folder / "__pycache__")
