"""Writing sorted entries to Parquet files that carry the hash of their content in their names."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from sparrow.core.schema import check_dtype
from sparrow.errors import DuplicateError, InvalidValueError, ShapeError, StorageError
from sparrow.kernels.coo import Block, concat_blocks, is_sorted
from sparrow.relations.base import as_arrow
from sparrow.runtime import memory
from sparrow.runtime.thread_pool import BackgroundThread, background_thread
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.local import write_error
from sparrow.storage.parquet.layout import Profile, Sizes, arrow_schema, check_profile, encode_values, parquet_options
from sparrow.storage.parquet.reader import FIRST, GROUPS, LAST, RUN, footer_checksum, read_footer, read_row_group

__all__ = ["DataFile", "HashingFile", "TensorWriter", "widen_coordinates"]

_NARROW = 2**31
_BEHIND = 16 << 20
"""Bytes of a file that may wait to be hashed and written, at most."""
_BEHIND_PARTS = 64
"""Of the memory limit, one part for them."""
_SLACK = 8
"""A row group is at most one part of so many smaller than it may be, to end where a row does."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A finished data file: what the log needs to know about it."""

    name: str
    """Path relative to the folder of the tensor."""
    rows: int
    nbytes: int
    low: tuple[int, ...]
    """Smallest coordinate of each dimension."""
    high: tuple[int, ...]
    """Largest coordinate of each dimension."""
    first: tuple[int, ...]
    """Coordinates of the first entry, by dimension number whatever the order."""
    last: tuple[int, ...]
    """Coordinates of the last entry."""
    coordinate_dtypes: tuple[str, ...]
    """Types of the coordinate columns: ``"int32"`` or ``"int64"``."""


class HashingFile:
    """A file for pyarrow to write: hashes what passes, and takes its name from the hash at the end.

    :meth:`cut` ends a piece that has a checksum of its own; what follows the last one is kept, for its end to be told.
    Hashing and writing run on a thread of their own, some megabytes behind, so that encoding goes on meanwhile.
    """

    def __init__(self, folder: str) -> None:
        self._file = get_filesystem(folder).create_file(folder)
        self._hash = hashlib.sha256()
        self._crc = 0
        self._start = 0
        self._pieces: list[tuple[int, int, int]] = []
        self._rest: list[bytes] = []
        self._pool = background_thread("sparrow-file")
        self._behind: deque[tuple[Future[None], int]] = deque()
        self._behind_bytes = 0
        self._most_behind = min(memory.limit() // _BEHIND_PARTS, _BEHIND)
        self.nbytes = 0
        self.closed = False
        self._ended = self._ending = False

    def write(self, data: Any) -> int:
        """Take in the next bytes; nothing once discarded, since pyarrow closes what it holds when collected."""
        size = len(data)
        if self._ended:
            return size
        self.nbytes += size
        if self._ending:
            self._rest.append(bytes(data))
        if self._pool is None or not isinstance(data, bytes):  # what is not ours may change when this returns
            self._catch_up(-1)
            self._put(data)
            return size
        self._behind.append((self._pool.submit(self._put, data), size))
        self._behind_bytes += size
        self._catch_up(self._most_behind)
        return size

    def _put(self, data: Any) -> None:
        self._hash.update(data)
        self._crc = zlib.crc32(data, self._crc)
        self._file.write(data)

    def cut(self) -> None:
        """End a piece."""
        start, self._start = self._start, self.nbytes
        if self._pool is None:
            self._cut(start, self.nbytes - start)
        else:
            self._behind.append((self._pool.submit(self._cut, start, self.nbytes - start), 0))

    def _cut(self, start: int, length: int) -> None:
        self._pieces.append((start, length, self._crc))
        self._crc = 0

    def pieces(self) -> list[tuple[int, int, int]]:
        """Return where each piece begins, how long it is and its CRC-32; what comes now is the rest of the file."""
        self._catch_up(-1)
        self._ending = True
        return self._pieces

    def rest(self) -> bytes:
        """Return what came after the pieces."""
        return b"".join(self._rest)

    def _catch_up(self, most: int) -> None:
        """Wait until at most so many bytes are still to be written; raise what went wrong with others."""
        while self._behind and (self._behind_bytes > most or self._behind[0][0].done()):
            done, size = self._behind.popleft()
            self._behind_bytes -= size
            done.result()

    def _end(self) -> None:
        """End the thread; what it has not begun to write is dropped."""
        self._ended = True
        self._behind.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def tell(self) -> int:
        """Return the number of bytes taken in."""
        return self.nbytes

    def flush(self) -> None:
        """Do nothing: :meth:`keep` flushes."""

    def readable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False: the hash needs the bytes in order."""
        return False

    def close(self) -> None:
        """Take note that pyarrow is done; :meth:`keep` or :meth:`discard` follows."""
        self.closed = True

    def finalize(self, name: Callable[[str], str]) -> str:
        """Let the file appear as ``name(sha256)`` and return that name."""
        self._catch_up(-1)
        self._end()
        final = name(self._hash.hexdigest())
        self._file.finalize(final)
        return final

    def discard(self) -> None:
        """Delete the file, unless it was kept."""
        self.closed = True
        self._end()
        self._file.discard()


class _OpenFile:
    """The file that a writer is filling."""

    def __init__(self, sink: HashingFile, parquet: Any, schema: pa.Schema, ndim: int) -> None:
        self.sink, self.parquet, self.schema = sink, parquet, schema
        self.rows = 0
        self.low: list[int] = [2**63] * ndim
        self.high: list[int] = [-1] * ndim
        self.first: tuple[int, ...] = ()
        self.last: tuple[int, ...] = ()


class TensorWriter:
    """Write blocks of entries to data files, in bounded memory, on a thread of its own.

    Parameters
    ----------
    folder
        The folder of the tensor; exists.
    dims, dtype
        Names of the dimensions and type of the values.
    profile
        ``"fast"`` or ``"small"``.
    order
        The sort order of what will be written; the default is the base order.
    coordinate_dtypes
        Types of the coordinate columns, int32 or int64. By default they start as int32; where a
        coordinate of 2^31 or more comes, what was written before is rewritten at the end.
    sizes
        Where files and row groups end.
    run
        Whether the files are to stand beside others whose keys theirs lie between.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = TensorWriter(folder, ("d0", "d1"), np.float64)
    ...     writer.write(Block((np.array([0, 2]), np.array([1, 0])), np.array([0.5, 1.5])))
    ...     [(file.rows, file.first, file.last) for file in writer.finish()]
    [(2, (0, 1), (2, 0))]
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        dims: Sequence[str],
        dtype: DTypeLike,
        *,
        profile: str = "fast",
        order: Sequence[int] | None = None,
        coordinate_dtypes: Sequence[DTypeLike] | None = None,
        sizes: Sizes | None = None,
        run: bool = False,
    ) -> None:
        self._folder = os.fspath(folder)
        self._ending = f"{RUN if run else ''}.parquet"
        self._dims = tuple(dims)
        self._ndim = len(self._dims)
        self._dtype = check_dtype(dtype)
        self._profile: Profile = check_profile(profile)
        self._order = tuple(range(self._ndim)) if order is None else tuple(order)
        self._fixed = coordinate_dtypes is not None
        kinds = [np.int32] * self._ndim if coordinate_dtypes is None else coordinate_dtypes
        self._kinds = tuple(np.dtype(kind) for kind in kinds)
        self._sizes = sizes or Sizes()
        self._nonce = os.urandom(8).hex()
        self._waiting: list[Block] = []
        self._waiting_rows = 0
        self._open: _OpenFile | None = None
        self._last: tuple[int, ...] | None = None
        self._files: list[DataFile] = []
        self._pool: BackgroundThread | None = None
        self._running: Future[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()

    def write(self, block: Block) -> None:
        """Take in a block; all blocks together are sorted by the order, unique and free of fill.

        The arrays are read later, on another thread: do not change them.

        Raises
        ------
        DuplicateError
            If a coordinate comes twice (raised here or by a later call).
        InvalidValueError
            If the entries are not in order (likewise).
        StorageError
            If the disk is full (likewise).
        """
        if not block.count:
            return
        self._waiting.append(block)
        self._waiting_rows += block.count
        if self._waiting_rows <= self._sizes.group_rows:
            return
        if self._pool is None:
            self._pool = background_thread("sparrow-write")  # what fits one row group needs no thread
        whole = concat_blocks(self._waiting, self._ndim, self._dtype)
        self._waiting = []  # not held while the row group before is written
        start = 0
        while whole.count - start > self._sizes.group_rows:
            stop = self._end_of_group(whole, start)
            self._submit(self._write_group, whole.take(slice(start, stop)))
            start = stop
        rest = whole.take(slice(start, None))
        self._waiting, self._waiting_rows = [rest], rest.count

    def _end_of_group(self, whole: Block, start: int) -> int:
        """Return where a row group ends: between two rows, if the row at its end is not too long for that.

        Then stretches of rows are whole row groups, which nobody has to decode twice, nor to join.
        """
        stop = start + self._sizes.group_rows
        near = whole.coords[self._order[0]][stop - self._sizes.group_rows // _SLACK : stop + 1]
        if near[0] == near[-1]:
            return stop
        return stop - (len(near) - 1) + int(np.searchsorted(near, near[-1]))

    def roll(self) -> None:
        """End the current file: what comes next goes to another one."""
        self._flush()
        self._submit(self._close_file)

    def finish(self) -> list[DataFile]:
        """Write what is left and return the files, in order; they are on disk under their final names."""
        self.roll()
        self._wait()
        self._stop()
        if self._files:
            try:
                self._files = widen_coordinates(
                    self._folder, self._dims, self._dtype, self._files, self._profile, self._order
                )
            except BaseException:
                self.abort()
                raise
        return self._files

    def abort(self) -> None:
        """Delete everything this writer wrote."""
        if self._running is not None:
            self._running.exception()
            self._running = None
        self._stop()
        if self._open is not None:
            self._open.sink.discard()
            self._open = None
        for file in self._files:
            get_filesystem(self._folder).delete(os.path.join(self._folder, file.name))
        self._files = []
        self._waiting, self._waiting_rows = [], 0

    # -- the thread

    def _submit(self, work: Callable[..., None], *args: Any) -> None:
        self._wait()
        if self._pool is None:
            self._guarded(work, *args)
        else:
            self._running = self._pool.submit(self._guarded, work, *args)

    def _wait(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            try:
                running.result()
            except BaseException:
                if not running.done():  # interrupted while waiting: abort() waits for it
                    self._running = running
                raise

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _guarded(self, work: Callable[..., None], *args: Any) -> None:
        try:
            work(*args)
        except StorageError:
            raise
        except OSError as error:
            raise write_error(error, self._folder) from error

    # -- what runs on it

    def _flush(self) -> None:
        if self._waiting_rows:
            whole = concat_blocks(self._waiting, self._ndim, self._dtype)
            self._waiting, self._waiting_rows = [], 0
            self._submit(self._write_group, whole)

    def _write_group(self, block: Block) -> None:
        low, high = self._check(block)
        if not self._fixed:
            kinds = tuple(
                np.dtype(np.int64) if top >= _NARROW else kind for kind, top in zip(self._kinds, high, strict=True)
            )
            if kinds != self._kinds:
                self._close_file()
                self._kinds = kinds
        coords = [np.ascontiguousarray(c, dtype=kind) for c, kind in zip(block.coords, self._kinds, strict=True)]
        values = encode_values(block.values, self._dtype)
        file = self._open
        if file is None:
            file = self._open = self._open_file(coords, values)
            file.first = tuple(int(column[0]) for column in block.coords)
        table = pa.Table.from_arrays([as_arrow(column) for column in (*coords, *values)], schema=file.schema)
        file.parquet.write_table(table, row_group_size=block.count)
        file.sink.cut()
        memory.trim()
        file.last = tuple(int(column[-1]) for column in block.coords)
        file.low = list(map(min, file.low, low))
        file.high = list(map(max, file.high, high))
        file.rows += block.count
        if file.sink.nbytes >= self._sizes.file_bytes or file.rows >= self._sizes.file_rows:
            self._close_file()

    def _check(self, block: Block) -> tuple[list[int], list[int]]:
        """Check order, uniqueness and range; return the bounds of each dimension."""
        keys = [block.coords[dim] for dim in self._order]
        first = tuple(int(column[0]) for column in keys)
        ordered = is_sorted(keys, strict=True) if keys else block.count == 1
        if self._last is not None and first <= self._last:
            ordered = False
        if not ordered:
            raise _disorder(self._last, keys, self._order, block.count)
        self._last = tuple(int(column[-1]) for column in keys)
        low = [int(column.min()) for column in block.coords]
        high = [int(column.max()) for column in block.coords]
        for dim, bottom in enumerate(low):
            if bottom < 0:
                raise ShapeError(f"the coordinate {bottom} of dimension {self._dims[dim]!r} is negative")
            if self._fixed and self._kinds[dim] == np.int32 and high[dim] >= _NARROW:
                raise ShapeError(f"the coordinate {high[dim]} of dimension {self._dims[dim]!r} does not fit int32")
        return low, high

    def _open_file(self, coords: Sequence[Any], values: Sequence[Any]) -> _OpenFile:
        import pyarrow.parquet as pq

        schema = arrow_schema(self._dims, self._dtype, self._kinds)
        sink = HashingFile(self._folder)
        try:
            options = parquet_options(self._dims, coords, values, self._profile, self._order)
            parquet = pq.ParquetWriter(sink, schema, **options)
            sink.cut()  # what stands before the first row group
        except BaseException:
            sink.discard()
            raise
        return _OpenFile(sink, parquet, schema, self._ndim)

    def _close_file(self) -> None:
        file = self._open
        if file is None:
            return
        groups = file.sink.pieces()[1:]
        notes = {FIRST: json.dumps(file.first), LAST: json.dumps(file.last), GROUPS: json.dumps(groups)}
        file.parquet.add_key_value_metadata(notes)
        file.parquet.close()
        footer_crc = footer_checksum(file.sink.rest())
        name = file.sink.finalize(lambda sha: f"{sha}-{self._nonce}{footer_crc:08x}{self._ending}")
        self._open = None
        kinds = tuple(kind.name for kind in self._kinds)
        self._files.append(
            DataFile(name, file.rows, file.sink.nbytes, tuple(file.low), tuple(file.high), file.first, file.last, kinds)
        )


def _disorder(
    last: tuple[int, ...] | None, keys: Sequence[Any], order: Sequence[int], count: int
) -> DuplicateError | InvalidValueError:
    """Return the error for entries that are not sorted and unique, naming the first such place."""
    previous = last
    for row in range(count):
        key = tuple(int(column[row]) for column in keys)
        if previous is not None and key <= previous:
            by_dim = dict(zip(order, key, strict=True))
            cell = tuple(by_dim[dim] for dim in range(len(key)))
            if key == previous:
                return DuplicateError(f"the cell {cell} is given twice: reduce duplicates before writing")
            return InvalidValueError(f"the entry at {cell} is out of order: sort the entries before writing")
        previous = key
    raise AssertionError("the entries are in order")


def widen_coordinates(
    folder: str,
    dims: Sequence[str],
    dtype: np.dtype[Any],
    files: Sequence[DataFile],
    profile: Profile,
    order: Sequence[int] | None = None,
) -> list[DataFile]:
    """Return files whose coordinate columns all have one type each, rewriting the narrower ones."""
    kinds = tuple(
        "int64" if any(file.coordinate_dtypes[dim] == "int64" for file in files) else "int32"
        for dim in range(len(dims))
    )
    out: list[DataFile] = []
    for file in files:
        if file.coordinate_dtypes == kinds:
            out.append(file)
            continue
        sizes = Sizes(file_bytes=1 << 62)
        writer = TensorWriter(folder, dims, dtype, profile=profile, order=order, coordinate_dtypes=kinds, sizes=sizes)
        with writer:
            path = os.path.join(folder, file.name)
            for group in range(len(read_footer(path, len(dims)).rows)):
                writer.write(read_row_group(path, group, len(dims), dtype))
            out += writer.finish()
        get_filesystem(folder).delete(os.path.join(folder, file.name))
    return out
