"""Web graphs of ALX, published by TensorFlow Datasets as TFRecord shards.

H. Mehta et al., ALX: Large Scale Matrix Factorization on TPUs, 2021. TensorFlow is not needed.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, dataclass, field
from heapq import merge
from itertools import groupby, pairwise, repeat
from typing import Annotated, Any, BinaryIO, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.schema import Schema, assigned_dims
from sparrow.errors import ExistsError, IngestError, InvalidValueError, NotFoundError, UnsupportedError
from sparrow.io.base.coo_writer import WrittenFiles, write_coo
from sparrow.io.base.magic import detect_compression
from sparrow.io.base.registry import Duplicates, Format, Option, Reader, Writer, shared
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.source import SourceLike, folder_path, open_sources
from sparrow.io.tuning import tuning
from sparrow.runtime import memory
from sparrow.runtime.foreign_errors import find_errno
from sparrow.runtime.progress import bar
from sparrow.runtime.validation import full_path
from sparrow.sorting import Rows
from sparrow.storage.fs.failures import read_error
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

__all__ = ["FORMATS", "Alx", "AlxWriter", "shard_split"]

_DIMS = assigned_dims("src", "dst")
_VALUES = np.dtype(np.int64)
_NAMES = np.frombuffer(b"row_tagcol_taggt_tag", np.uint8).copy()
_SHARD = re.compile(
    r"(?:^|[-_.])(train_t|train\.transpose|train|test)(?:\.tfr(?:ecords?)?(?:-(\d+)-of-(\d+))?|-(\d+)-of-(\d+)\.tfr(?:ecords?)?)"
    r"(?:\.(?:gz|zst|bz2))?$"
)
_ZLIB = "gzip"
"""Codec for TensorFlow's ZLIB streams: pyarrow tells them apart from gzip."""
_SPLITS = {"train": "train", "train_t": "train_t", "train.transpose": "train_t", "test": "test"}


class _Shard(NamedTuple):
    split: str
    number: int
    total: int
    path: str


def shard_split(path: str) -> str | None:
    """Return the split in the name of a shard: train, train_t, test, or None."""
    found = _SHARD.search(os.path.basename(path))
    return None if found is None else _SPLITS[found[1]]


@shared
@dataclass
class Alx(Reader):
    """Store the shards of a web graph of ALX as a bundle.

    The bundle has ``train``, ``test`` and ``truth``. A row is a page, and its columns the pages it links to, numbered
    together. The rows of ``test`` are not rows of ``train``: part of their links is given, the rest is the held-out
    ``truth``. Transposed shards, if present, are compared with ``train``. All checksums are verified.

    Parameters
    ----------
    src
        Folder of the shards, or the shards: files or a glob pattern. Their names tell the split, such as
        ``train.tfr-00000-of-00010``, ``train.transpose.tfr-...``, ``test.tfr-...`` or ``web_graph-train.tfrecord-...``.
    %(dst)s
    %(duplicates)s
    partial
        Accept that shards are missing.
    %(storing)s

    Returns
    -------
    Bundle
        ``sp.open(dst)``: the stored int64 matrices ``src, dst`` of ones, of one shape, for the splits that exist.

    Raises
    ------
    IngestError
        If a frame is damaged or truncated, or holds another message, a shard is missing, or the transposed links
        differ: with the shard and the byte offset of the frame.
    %(duplicate_error)s
    NotFoundError
        If a file or folder is missing, or the folder has no shard.
    %(exists)s
    StorageError
        If the disk is too small.
    %(invalid)s

    Examples
    --------
    >>> import sparrow as sp
    >>> web = sp.Bundle({"train": sp.from_coords([[0, 1], [1, 0]], [1, 1], shape=(3, 3))})
    >>> sp.export(web, "shards", format="alx", shards=2)
    4
    >>> sp.ingest.alx("shards", "web.sparrow")["train"].nnz
    2
    """

    _: KW_ONLY
    duplicates: Duplicates = "first"
    partial: Annotated[bool, Option("Accept that shards are missing.")] = False

    examples: ClassVar[str] = "sparrow ingest alx web_graph/de_dense/1.0.0 web.sparrow"

    def read(self) -> str:
        """Store the shards and return the folder of the bundle."""
        shards = _find_shards(self.src)
        for split in ("train", "train_t", "test"):
            self._check(split, [shard for shard in shards if shard.split == split])
        sources = sorted(shard.path for shard in shards)
        total = sum(get_filesystem(shard.path).size(shard.path) * (1 + (shard.split == "test")) for shard in shards)
        with storage.stage_folder(self.dst, self.overwrite) as folder, bar("reading shards", total) as advance:
            reading = _ShardReader(folder, self, advance)
            members: dict[str, WrittenFiles] = {}
            for member, split, which in (("train", "train", 1), ("test", "test", 1), ("truth", "test", 2)):
                own = [shard.path for shard in shards if shard.split == split]
                if own:
                    members[member] = reading.write(member, own, which)
            transposed = [shard.path for shard in shards if shard.split == "train_t"]
            if transposed and "train" in members:
                reading.compare(transposed)
            n = reading.largest + 1
            for member, written in members.items():
                storage.create(
                    folder / member,
                    Schema((n, n), _DIMS, _VALUES, 0),
                    written.files,
                    profile=self.profile,
                    operation="ingest alx",
                    report=self.report.counts,
                    extra={"sources": sources},
                )
            storage.write_bundle(folder, dict.fromkeys(members), {"format": "alx"})
        return os.fspath(self.dst)

    def _check(self, split: str, shards: Sequence[_Shard]) -> None:
        """Raise ``IngestError`` if shards of a split are missing or repeated."""
        if len({shard.total for shard in shards}) > 1:
            totals = ", ".join(sorted({str(shard.total) for shard in shards}))
            raise IngestError(f"shards of {split} must agree on their number, got {totals}: pass those of one graph",
                              shards[0].path)  # fmt: skip
        for one, other in pairwise(shards):
            if one.number == other.number:
                raise IngestError(f"two files are shard {one.number} of {split}", other.path)
        missing = sorted(set(range(shards[0].total)) - {shard.number for shard in shards}) if shards else []
        if missing and not self.partial:
            first = re.sub(
                r"\d+(?=-of-\d)", lambda found: f"{missing[0]:0{len(found[0])}}", os.path.basename(shards[0].path)
            )
            raise IngestError(
                f"{len(missing)} of the {shards[0].total} shards of {split} are missing, the first is {first}: pass "
                "partial=True to read the others",
                shards[0].path,
            )


def _find_shards(src: SourceLike) -> list[_Shard]:
    wanted = [src] if isinstance(src, str | os.PathLike) else list(src)
    paths: list[str] = []
    for each in wanted:
        if (folder := folder_path(each)) is not None:
            shards = [os.path.join(folder, name) for name in get_filesystem(folder).names(folder) if shard_split(name)]
            if not shards:
                raise NotFoundError(f"folder {folder!r} has no shard such as train.tfr-00000-of-00010")
            paths += shards
        else:
            paths += [source.path for source in open_sources(each) if source.path is not None]
    if not paths:
        raise InvalidValueError(f"src must be the shards, or their folder, got {src!r}")
    out = []
    for path in paths:
        found = _SHARD.search(os.path.basename(path))
        if found is None:
            raise IngestError("the name of a shard must be train.tfr-..., train.transpose.tfr-... or "
                              "test.tfr-...", path)  # fmt: skip
        number, count = int(found[2] or found[4] or 0), int(found[3] or found[5] or 1)
        if number >= count or count > 10**6:
            raise IngestError(f"the number of a shard must be below their count, got {number} of {count}", path)
        out.append(_Shard(_SPLITS[found[1]], number, count, path))
    return sorted(out)


class _Frames(NamedTuple):
    """Whole frames of a shard."""

    path: str
    offset: int
    """Byte of the shard at which they begin."""
    data: NDArray[np.uint8]


@dataclass
class _ShardReader:
    """Reader of shards, with counters over all of them."""

    folder: storage.Folder
    options: Alx
    advance: Any
    largest: int = -1
    links: int = 0
    hash: int = 0
    """Order-independent hash of the links of ``train``."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, member: str, paths: Sequence[str], which: int) -> WrittenFiles:
        """Write the links of one list of all messages."""
        folder = self.folder / member

        def rows_of(frames: _Frames) -> Rows:
            src, dst = self._links(frames, which)
            if member == "train":
                self._count(src, dst, 1)
            return Rows((src, dst), None)

        with closing(self._frames(paths)) as items:
            return write_coo(
                folder,
                items,
                rows_of,
                dims=_DIMS,
                dtype=_VALUES,
                weighted=False,
                duplicates=self.options.duplicates,
                fill_value=0,
                profile=self.options.profile,
                report=self.options.report,
            )

    def compare(self, paths: Sequence[str]) -> None:
        """Raise ``IngestError`` if the transposed shards hold other links."""
        with closing(self._frames(paths)) as items:
            for frames in items:
                dst, src = self._links(frames, 1)
                self._count(src, dst, -1)
        if self.links or self.hash:
            raise IngestError(
                "the transposed shards hold other links than train: omit them if they belong to another graph",
                paths[0],
            )

    def _count(self, src: NDArray[np.int64], dst: NDArray[np.int64], sign: int) -> None:
        from sparrow.kernels.parse import tfrecords as kernels

        found = int(kernels.digest(src, dst))
        with self._lock:
            self.links += sign * len(src)
            self.hash = (self.hash + sign * found) % 2**64

    def _links(self, frames: _Frames, which: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        from sparrow.kernels.parse import tfrecords as kernels

        max_count = int(np.count_nonzero(frames.data < 128))
        src, dst = np.empty(max_count, np.int64), np.empty(max_count, np.int64)
        count, _, largest, status, at = kernels.parse(frames.data, which, src, dst)
        if status != kernels.GOOD:
            problem = {
                kernels.BAD_CHECKSUM: "is damaged: its checksum differs",
                kernels.BAD_MESSAGE: "is not an Example of lists of integers",
                kernels.BAD_ROW: "must have one integer in row_tag",
                kernels.NEGATIVE: "holds a negative id",
            }[status]
            raise IngestError(f"the frame at byte {frames.offset + at} {problem}", frames.path)
        if largest >= 2**63 - 1:
            raise IngestError(f"a frame from byte {frames.offset} on holds an id beyond 2^63 - 2", frames.path)
        with self._lock:
            self.largest = max(self.largest, largest)
        return src[:count].copy(), dst[:count].copy()

    def _frames(self, paths: Sequence[str]) -> Generator[_Frames]:
        """Yield the frames of shards, some megabytes at a time."""
        for path in paths:
            with ExitStack() as stack:
                raw, file = _open_shard(path, stack)
                position = 0
                for frames in _read_frames(path, file):
                    yield frames
                    now = raw.tell()
                    self.advance(now - position)
                    position = now


def _open_shard(path: str, stack: ExitStack) -> tuple[Any, Any]:
    """Return the file and its decompressed stream; a shard begins with a length."""
    from sparrow.kernels.parse import tfrecords as kernels

    raw = stack.enter_context(get_filesystem(path).open(path, sequential=True))
    start = raw.read(12)
    raw.seek(0)
    sound = len(start) == 12 and kernels.split_frames(np.frombuffer(start, np.uint8).copy())[2] == kernels.GOOD
    packed = detect_compression(start) or (
        _ZLIB if start[:1] == b"\x78" and int.from_bytes(start[:2], "big") % 31 == 0 else None
    )
    if sound or packed is None:
        return raw, raw
    return raw, stack.enter_context(pa.CompressedInputStream(raw, packed))


def _read_frames(path: str, file: Any) -> Iterator[_Frames]:
    """Yield whole frames of a file."""
    from sparrow.kernels.parse import tfrecords as kernels

    carry, offset, want = np.empty(0, np.uint8), 0, tuning().tfrecord_block_bytes
    while True:
        memory.check(2 * want, f"the frame at byte {offset} of {path}", "")
        try:
            found = file.read(want)
        except (OSError, pa.ArrowException) as error:
            if find_errno(error) is not None:
                raise read_error(error, path) from error
            raise IngestError(f"cannot be read after byte {offset}: {error}", path) from error
        data = np.concatenate([carry, np.frombuffer(found, np.uint8)])
        end, size, status = kernels.split_frames(data)
        if end:
            yield _Frames(path, offset, data[:end].copy())
        if status != kernels.GOOD:
            raise IngestError(f"the frame at byte {offset + end} is damaged: the checksum of its length differs", path)
        carry, offset = data[end:].copy(), offset + end
        if not found:
            if len(carry):
                raise IngestError(f"the file ends within the frame at byte {offset}", path)
            return
        # Read more of a longer frame, but never as much as its unchecked length claims.
        want = max(tuning().tfrecord_block_bytes, min(size - len(carry), len(carry)))


# -- writing ---------------------------------------------------------------------------------------


@dataclass
class AlxWriter(Writer):
    """Write a bundle of ``train``, ``test``, ``truth``, or a matrix, as shards."""

    _: KW_ONLY
    shards: Annotated[int, Option("alx: how many files each split has.", minimum=1)] = 1

    text: ClassVar[bool] = False

    def write(self) -> int:
        """Write the shards and return the number of messages."""
        members = dict(self.source) if isinstance(self.source, Bundle) else {"train": self.source}
        if "train" not in members or set(members) > {"train", "test", "truth"}:
            raise UnsupportedError(f"alx needs a bundle of train, test and truth, got {', '.join(members)}")
        if self.dst == "-":
            raise UnsupportedError("alx is a folder and cannot be written to standard output")
        if not 1 <= self.shards <= 99_999:
            raise InvalidValueError(f"shards must be from 1 to 99999, got {self.shards}")
        for name, tensor in members.items():
            if tensor.ndim != 2 or tensor.shape != members["train"].shape or tensor.shape[0] != tensor.shape[1]:
                raise UnsupportedError(f"{name} must be square and of the shape of train, got {tensor.shape}")
            if tensor.fill_value != 0:
                raise UnsupportedError(f"alx needs fill 0, {name} has {tensor.fill_value}")
            if tensor.dtype.kind == "c":
                raise UnsupportedError(f"alx has no weights, {name} has {tensor.dtype} values: write A != 0")
        files = get_filesystem(self.dst)
        if files.is_remote:
            raise UnsupportedError(f"alx is written to a local folder, got {self.dst!r}: copy it afterwards")
        target = full_path(self.dst)
        if os.path.isdir(target) and not all(map(shard_split, os.listdir(target))):
            raise ExistsError(f"{self.dst!r} holds files other than shards: choose another name")
        staged = files.stage(target)
        try:
            train = members["train"]
            size = train.shape[0]
            count = self._split(staged, "train", size, _adjacency_rows(train))
            count += self._split(staged, "train.transpose", size, _adjacency_rows(train.T))
            if "test" in members or "truth" in members:
                count += self._split(staged, "test", size, _merge_rows(members.get("test"), members.get("truth")), True)
            files.publish(staged, target, replace=True)
        finally:
            files.discard_staged(staged)
        return count

    def _split(self, folder: str, name: str, size: int, rows: Any, truth: bool = False) -> int:
        from sparrow.kernels.parse import tfrecords as kernels

        count, nothing = 0, np.empty(0, np.int64)
        with ExitStack() as stack:
            files: list[BinaryIO] = [
                stack.enter_context(open(os.path.join(folder, f"{name}.tfr-{k:05d}-of-{self.shards:05d}"), "wb"))
                for k in range(self.shards)
            ]
            for row, ids in rows:
                cols, found = ids if truth else (ids, nothing)
                out = np.empty(11 * (len(cols) + len(found)) + 200, np.uint8)
                end = kernels.write_record(out, _NAMES, np.array([row]), cols, found, truth)
                files[row * self.shards // size].write(out[:end].tobytes())
                count += 1
        return count


def _adjacency_rows(tensor: Tensor) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the rows that have links, and their links."""
    pending: list[NDArray[np.int64]] = []
    row = -1
    for batch in tensor.to_batches():
        src, dst, values = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
        if (values != 1).any():
            raise UnsupportedError("alx has no weights, but the values are not all 1: write A != 0")
        starts = np.flatnonzero(np.diff(src, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(src)], strict=True):
            if int(src[start]) != row:
                if pending:
                    yield row, np.concatenate(pending)
                row, pending = int(src[start]), []
            pending.append(dst[start:stop].astype(np.int64))
    if pending:
        yield row, np.concatenate(pending)


def _merge_rows(test: Tensor | None, truth: Tensor | None) -> Iterator[Any]:
    """Yield the rows of test and truth together, ascending."""
    sides = [zip(repeat(at), _adjacency_rows(each)) for at, each in enumerate((test, truth)) if each is not None]

    def row_of(item: tuple[int, tuple[int, NDArray[np.int64]]]) -> int:
        return item[1][0]

    for row, found in groupby(merge(*sides, key=row_of), row_of):
        lists = [np.empty(0, np.int64)] * 2
        for at, (_, ids) in found:
            lists[at] = ids
        yield row, tuple(lists)


def _detect(sample: Sample) -> str | None:
    names = [sample.src] if sample.folder is None else get_filesystem(sample.src).names(sample.src)
    return "names are those of the shards of ALX's web graphs" if any(map(shard_split, names)) else None


FORMATS = (
    Format(
        "alx",
        "Web graphs of ALX: shards of TFRecord files.",
        reader=Alx,
        writer=AlxWriter,
        detectors={Stage.PATH: _detect},
    ),
)
