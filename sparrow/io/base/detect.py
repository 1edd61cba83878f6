"""Detect the format of a file from its path, its first bytes and its first lines.

Every format declares its detectors (:attr:`sparrow.io.base.registry.Format.detectors`); this is the driver.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import MISSING
from typing import Any, NamedTuple

from sparrow.errors import IngestError, InvalidValueError, SparrowError
from sparrow.io.base.command_line import parse_command
from sparrow.io.base.foreign import reject_answer, reject_foreign
from sparrow.io.base.magic import detect_compression, looks_binary
from sparrow.io.base.registry import DeclaredOption, formats, options_of
from sparrow.io.base.sample import Sample, Stage, fill_sample
from sparrow.io.base.source import SIGNATURE_BYTES, SourceLike, as_rereadable, open_sources, peek_source
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.binary.hdf5 import HDF5_MAGIC, open_file, unknown_layout
from sparrow.io.tuning import tuning
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["Detection", "detect_format"]


_MAX_FILES_SHOWN = 8


class Detection(NamedTuple):
    """A format, and the reason for it."""

    format: str
    reason: str

    def describe(self, words: Sequence[Any]) -> str:
        """Return one line on the format of a source."""
        return f"{words[0] if isinstance(words[0], str) else words[0].name} has the format {self.format}: {self.reason}"


def detect_format(src: SourceLike, options: Collection[str] = ()) -> Detection:
    r"""Return the format of a file.

    Parameters
    ----------
    src
        A file, a folder, or a pattern, of which the first match is examined; compressed or not. Or several of them. An
        open file without a path is one of :func:`~sparrow.io.base.source.as_rereadable`.
    options
        Names of the options that it will be read with. They decide between formats that are likely.

    Raises
    ------
    IngestError
        If reading the file takes options, or no reader takes it: with the command to type.
    InvalidValueError
        If it is standard input, which can be read once only.
    NotFoundError
        If there is no such file.

    Examples
    --------
    >>> from pathlib import Path
    >>> size = Path("small.txt").write_text("+1 3:0.5 7:1\n-1 2:1\n")
    >>> detect_format("small.txt")
    Detection(format='libsvm', reason='lines are a label and index:value pairs')
    """
    try:
        return _find_format(as_rereadable(src))
    except IngestError as error:
        if (meant := _find_meant(error.commands, options)) is None:
            raise
        if unknown := [name for name in options if name not in {each.name for each in _options(meant)}]:
            kind = error.problem.partition(": name the columns")[0]
            error.problem = f"{kind}: {meant} has no option {unknown[0]!r}; without it, for example"
            raise
        own = [name for name in options if name in {each.name for each in _options(meant)}]
        return Detection(
            meant, f"the option{'s' * (len(own) > 1)} {_enumerate(own)} belong{'s' * (len(own) == 1)} to it"
        )


def _find_meant(commands: Sequence[str], options: Collection[str]) -> str | None:
    """Return the suggested format that the options are of, if there is one.

    It may lack some of them.
    """
    parsed = {each.format: each.options for each in filter(None, map(parse_command, commands)) if each.format}
    known = {name: {each.name: each for each in _options(name)} for name in parsed}
    meant = []
    for name, own in known.items():
        others = set().union(*(names for other, names in known.items() if other != name))
        telling = {*own} - others if others else {*parsed[name]}
        required = {each.name for each in own.values() if each.default is MISSING}
        if required <= {*options} and not telling.isdisjoint(options):
            meant.append(name)
    meant = [name for name in meant if {*options} <= {*known[name]}] or meant
    return meant[0] if len(meant) == 1 else None


def _enumerate(names: Sequence[str]) -> str:
    """Return names as a list in English."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _options(format: str) -> tuple[DeclaredOption, ...]:
    reader = formats()[format].reader
    return () if reader is None else options_of(reader)


def _find_format(words: Sequence[Any]) -> Detection:
    source = None if words and isinstance(words[0], str) else open_sources(words)[0]
    sample = Sample(words[0] if source is None else source.name, words=words)
    if source is None and (found := _detect(Stage.PATH, sample)):
        return found
    if source is None and len(words) == 1 and sample.folder is not None:
        _reject_folder(sample.folder, words)
    source = open_sources(words)[0]
    sample.name = source.name
    if source.stream is not None:
        source = peek_source(source, tuning().peek_bytes)
        sample.head = source.stream.peek(SIGNATURE_BYTES)[:SIGNATURE_BYTES]
        if looks_binary(sample.head) and detect_compression(sample.head) is None:
            raise IngestError("only text is read from an open file without a path: write it to a file", source.name)
    elif source.path is None:
        raise InvalidValueError("the format of standard input cannot be detected: name it")
    elif source.size is None:  # what is read of it is gone
        raise InvalidValueError(f"the format of {source.name!r}, a pipe or device, cannot be detected: name it")
    else:
        with get_filesystem(source.path).open(source.path, size=source.size) as file:
            sample.head = file.read(SIGNATURE_BYTES)
    if source.path is not None and sample.head and (found := _detect(Stage.SIGNATURE, sample)):
        return found
    if source.path is not None and sample.head.startswith(HDF5_MAGIC):
        with open_file(source.name) as (name, sample.hdf5):
            if found := _detect(Stage.HDF5, sample):
                return found
            raise unknown_layout(sample.hdf5, name)
    try:
        fill_sample(sample, source)
    except IngestError as error:
        is_archive = sample.head.startswith(b"PK\x03\x04") and any(" FORMAT " in each for each in error.commands)
        if source.path is not None and is_archive:
            _look_into(sample, source.path)
        error.commands = tuple(_without_format(each, source.name) for each in error.commands)
        raise
    return _detect_text(sample)


def _detect_text(sample: Sample) -> Detection:
    """Return the format of a sample of text."""
    if found := _detect(Stage.HEADER, sample):
        return found
    if not sample.lines:
        raise IngestError("the file holds blank lines only", sample.name)
    if not sample.data:
        raise IngestError("the file begins with comments only: name its format", sample.name)
    if sample.whole and sample.data[0][0] == "{":
        reject_answer(sample.text, sample.name)
    if found := _detect(Stage.LINES, sample) or _detect(Stage.LISTS, sample):
        return found
    if sample.data[0][0] != "{":
        reject_foreign(sample.text, sample.typed, sample.name)
    if found := _detect(Stage.TABLE, sample) or _detect(Stage.FALLBACK, sample):
        return found
    raise IngestError("the format is unknown: name it", sample.name, token=sample.data[0][:80])


def _reject_folder(folder: str, words: Sequence[str]) -> None:
    """Raise ``IngestError`` for a folder of other files, with a command for each."""
    try:
        open_sources(words)
    except IngestError as error:
        if error.commands:
            raise
        files = get_filesystem(folder)
        names = sorted(name for name in files.names(folder) if not name.startswith((".", "_")))
        if not names:
            raise
        rows, error.commands = [("file", "content")], ()
        for name in names[:_MAX_FILES_SHOWN]:
            path = os.path.join(folder, name)
            if not files.is_remote and not os.path.isfile(path):
                rows.append((name, "a folder" if os.path.isdir(path) else "no file"))
                continue
            try:
                found = _find_format([path])
                error.commands += (TypedSource.of(path).command(found.format),)
                rows.append((name, f"{found.format}: {found.reason}"))
            except SparrowError as problem:
                error.commands += getattr(problem, "commands", ())[:1]
                rows.append((name, getattr(problem, "problem", str(problem)).partition(":")[0]))
        width = max(len(row[0]) for row in rows)
        error.table = tuple(f"{name:<{width}}  {content}".rstrip() for name, content in rows)
        error.table += (f"and {len(names) - _MAX_FILES_SHOWN} more files",) * (len(names) > _MAX_FILES_SHOWN)
        raise


def _look_into(sample: Sample, path: str) -> None:
    """Raise ``IngestError`` with the command for the only file in a zip archive."""
    with contextlib.suppress(OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        archive = zipfile.ZipFile(path)
        members = [each for each in archive.infolist() if not each.is_dir() and each.file_size]
        if len(members) > 1:
            names = ", ".join(repr(each.filename) for each in members[:10])
            unpack = f"unzip -p {shlex.quote(path)} {shlex.quote(members[0].filename)}"
            way = f"{unpack} > FILE && sparrow ingest FILE DST"
            raise IngestError(f"zip files are not read; it holds {names}: unpack one of them", sample.name, commands=[
                way.replace("FILE", shlex.quote(os.path.basename(members[0].filename)))
            ])  # fmt: skip
        with archive.open(members[0]) as file:
            data = file.read(tuning().detection_bytes)
        text = data.decode(errors="backslashreplace")
        whole = len(data) == members[0].file_size
        unpack = f"unzip -p {shlex.quote(path)}"
        inner = Sample(sample.src, members[0].filename, text=text if whole else text.rpartition("\n")[0], whole=whole)
        inner.unpack = unpack
        if b"\0" in data:
            return
        found = _detect_text(inner)
        problem = f"zip files are not read: it holds {found.format}, as {found.reason}"
        raise IngestError(problem, sample.name, commands=[inner.typed.command(found.format)])


def _without_format(command: str, name: str) -> str:
    """Return a command for a format as one for a file, whose format is detected then."""
    plain = os.path.basename(name)
    stem = os.path.splitext(plain)[0]
    file = shlex.quote(f"{stem}.unpacked" if stem in ("", plain) else stem)
    return command.replace("| sparrow ingest FORMAT - ", f"> {file} && sparrow ingest {file} ")


def _detect(stage: Stage, sample: Sample) -> Detection | None:
    for known in formats().values():
        detector = known.detectors.get(stage)
        if detector is not None and (reason := detector(sample)) is not None:
            return Detection(known.name, reason)
    return None
