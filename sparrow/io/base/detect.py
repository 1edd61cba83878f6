"""Detect the format of a file from its path, its first bytes and its first lines.

Every format declares its detectors (:attr:`sparrow.io.base.registry.Format.detectors`); this is the driver.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import zipfile
from collections.abc import Sequence
from typing import NamedTuple

from sparrow.errors import IngestError, InvalidValueError
from sparrow.io.base.foreign import reject_foreign
from sparrow.io.base.registry import formats
from sparrow.io.base.sample import Sample, Stage, fill_sample
from sparrow.io.base.source import SIGNATURE_BYTES, open_sources
from sparrow.io.binary.hdf5 import HDF5_MAGIC, open_file, unknown_layout
from sparrow.io.tuning import tuning
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["Detection", "detect_format"]


class Detection(NamedTuple):
    """A format, and the reason for it."""

    format: str
    reason: str


def detect_format(src: str | Sequence[str]) -> Detection:
    r"""Return the format of a file.

    Parameters
    ----------
    src
        A file, a folder, or a pattern, of which the first match is examined; compressed or not. Or several of them.

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
    words = [src] if isinstance(src, str) else list(src)
    sample = Sample(words[0], words=words)
    if found := _detect(Stage.PATH, sample):
        return found
    source = open_sources(words)[0]
    if source.path is None:
        raise InvalidValueError("the format of standard input cannot be detected: name it")
    sample.name = source.name
    if source.size is not None:
        with get_filesystem(source.path).open(source.path, size=source.size) as file:
            sample.head = file.read(SIGNATURE_BYTES)
        if found := _detect(Stage.SIGNATURE, sample):
            return found
        if sample.head.startswith(HDF5_MAGIC):
            with open_file(source.name) as (name, sample.hdf5):
                if found := _detect(Stage.HDF5, sample):
                    return found
                raise unknown_layout(sample.hdf5, name)
    try:
        fill_sample(sample, source)
    except IngestError as error:
        if sample.head.startswith(b"PK\x03\x04") and any(" FORMAT " in each for each in error.commands):
            _look_into(sample, source.path)
        error.commands = tuple(_without_format(each, source.name) for each in error.commands)
        raise
    return _detect_text(sample)


def _detect_text(sample: Sample) -> Detection:
    """Return the format of a sample of text."""
    if found := _detect(Stage.HEADER, sample):
        return found
    if not sample.data:
        raise IngestError("the file begins with comments only: name its format", sample.name)
    if found := _detect(Stage.LINES, sample) or _detect(Stage.LISTS, sample):
        return found
    if sample.data[0][0] not in "{[":
        reject_foreign(sample.text, sample.typed, sample.name)
    if found := _detect(Stage.TABLE, sample) or _detect(Stage.FALLBACK, sample):
        return found
    raise IngestError("the format is unknown: name it", sample.name, token=sample.data[0][:80])


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
