"""Detect the format of a file from its path, its first bytes and its first lines.

Every format declares its detectors (:attr:`sparrow.io.base.registry.Format.detectors`); this is the driver.
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from sparrow.errors import IngestError, InvalidValueError
from sparrow.io.base.registry import formats
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.source import SIGNATURE_BYTES, open_sources, read_blocks
from sparrow.io.binary.hdf5 import HDF5_MAGIC, open_file, unknown_layout
from sparrow.io.tuning import tuning
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["Detection", "detect_format"]


class Detection(NamedTuple):
    """A format, and the reason for it."""

    format: str
    reason: str


def detect_format(src: str) -> Detection:
    r"""Return the format of a file.

    Parameters
    ----------
    src
        A file, a folder, or a pattern, of which the first match is examined; compressed or not.

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
    sample = Sample(src)
    if found := _detect(Stage.PATH, sample):
        return found
    source = open_sources(src)[0]
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
    size = tuning().detection_bytes
    with closing(read_blocks(source, size)) as text:
        block = next(text, None)
    if block is None:
        raise IngestError("the file is empty", source.name)
    start = block.text(0, size)
    sample.text = start if len(block.data) <= size else start.rpartition("\n")[0] or start
    if found := _detect(Stage.HEADER, sample):
        return found
    if not sample.data:
        raise IngestError("the file begins with comments only: name its format", source.name)
    for stage in (Stage.LINES, Stage.LISTS, Stage.TABLE, Stage.FALLBACK):
        if found := _detect(stage, sample):
            return found
    raise IngestError("the format is unknown: name it", source.name, token=sample.data[0][:80])


def _detect(stage: Stage, sample: Sample) -> Detection | None:
    for known in formats().values():
        detector = known.detectors.get(stage)
        if detector is not None and (reason := detector(sample)) is not None:
            return Detection(known.name, reason)
    return None
