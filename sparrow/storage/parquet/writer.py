"""Writer of sorted elements to Parquet files named after their content."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from sparrow.core.schema import check_dtype
from sparrow.errors import DuplicateError, InvalidValueError, ShapeError, StorageError
from sparrow.kernels.coo import Block, concat_blocks, is_sorted
from sparrow.relations.arrow import as_arrow
from sparrow.runtime import memory
from sparrow.runtime.thread_pool import background_thread
from sparrow.runtime.threads import BackgroundThread, Task
from sparrow.storage.fs.failures import write_error
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.traffic import count_files
from sparrow.storage.parquet.layout import (
    Profile,
    Sizes,
    accepts_row_group,
    arrow_schema,
    check_profile,
    encode_values,
    parquet_options,
)
from sparrow.storage.parquet.reader import (
    FIRST_KEY,
    LAST_KEY,
    ROW_GROUPS_KEY,
    RUN_SUFFIX,
    footer_checksum,
    read_footer,
    read_row_group,
)
from sparrow.storage.tuning import tuning

__all__ = ["DataFile", "HashingFile", "TensorWriter", "widen_coordinates"]

_INT32_END = 2**31


@dataclass(frozen=True, slots=True)
class DataFile:
    """A finished data file: what the log records about it."""

    name: str
    """Path relative to the folder of the tensor."""
    rows: int
    nbytes: int
    low: tuple[int, ...]
    """Smallest coordinate of each dimension."""
    high: tuple[int, ...]
    """Largest coordinate of each dimension."""
    first: tuple[int, ...]
    """Coordinates of the first element, by dimension number whatever the order."""
    last: tuple[int, ...]
    """Coordinates of the last element."""
    coordinate_dtypes: tuple[str, ...]
    """Dtypes of the coordinate columns: ``"int32"`` or ``"int64"``."""


class HashingFile:
    """File for pyarrow to write that is named after the SHA-256 of its content.

    :meth:`end_piece` ends a range with a checksum of its own. Hashing and writing run on a separate thread, some
    megabytes behind the encoder.
    """

    def __init__(self, folder: str) -> None:
        self._file = get_filesystem(folder).create_file(folder)
        self._hash = hashlib.sha256()
        self._crc = 0
        self._start = 0
        self._pieces: list[tuple[int, int, int]] = []
        self._tail: list[bytes] = []
        self._pool = background_thread("sparrow-file")
        self._pending: deque[tuple[Task[None], int]] = deque()
        self._pending_bytes = 0
        limits = tuning()
        self._max_pending_bytes = min(int(memory.limit() // limits.write_behind_share), limits.write_behind_bytes)
        self.nbytes = 0
        self.closed = False
        self._ended = self._ending = False
        self.fingerprint: Hashable | None = None
        """Fingerprint of the finalized file, if its name is new."""

    def write(self, data: Any) -> int:
        """Write the next bytes.

        Ignored once discarded, since pyarrow closes its file when it is collected.
        """
        size = len(data)
        if self._ended:
            return size
        self.nbytes += size
        if self._ending:
            self._tail.append(bytes(data))
        if self._pool is None or not isinstance(data, bytes):  # the caller may reuse another buffer
            self._wait_pending(-1)
            self._put(data)
            return size
        self._pending.append((self._pool.submit(self._put, data), size))
        self._pending_bytes += size
        self._wait_pending(self._max_pending_bytes)
        return size

    def _put(self, data: Any) -> None:
        self._hash.update(data)
        self._crc = zlib.crc32(data, self._crc)
        self._file.write(data)

    def end_piece(self) -> None:
        """End a piece: the bytes since the last one get a checksum."""
        start, self._start = self._start, self.nbytes
        if self._pool is None:
            self._end_piece(start, self.nbytes - start)
        else:
            self._pending.append((self._pool.submit(self._end_piece, start, self.nbytes - start), 0))

    def _end_piece(self, start: int, length: int) -> None:
        self._pieces.append((start, length, self._crc))
        self._crc = 0

    def pieces(self) -> list[tuple[int, int, int]]:
        """Return offset, length and CRC-32 of each piece.

        What is written from now on is the tail.
        """
        self._wait_pending(-1)
        self._ending = True
        return self._pieces

    def tail(self) -> bytes:
        """Return the bytes after the last piece."""
        return b"".join(self._tail)

    def _wait_pending(self, most: int) -> None:
        """Wait until at most ``most`` bytes are pending.

        Raise the error of a failed write.
        """
        while self._pending and (self._pending_bytes > most or self._pending[0][0].done):
            done, size = self._pending.popleft()
            self._pending_bytes -= size
            done.result()

    def _shut_down(self) -> None:
        """End the thread and drop pending writes."""
        self._ended = True
        self._pending.clear()
        if self._pool is not None:
            self._pool.shutdown(drop=True)
            self._pool = None

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.nbytes

    def flush(self) -> None:
        """Do nothing: :meth:`finalize` flushes."""

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
        """Note that pyarrow is done; :meth:`finalize` or :meth:`discard` follows."""
        self.closed = True

    def finalize(self, name: Callable[[str], str]) -> str:
        """Make the file visible as ``name(sha256)`` and return that name."""
        self._wait_pending(-1)
        self._shut_down()
        final = name(self._hash.hexdigest())
        self.fingerprint = self._file.finalize(final)
        return final

    def discard(self) -> None:
        """Delete the file unless it is finalized."""
        self.closed = True
        self._shut_down()
        self._file.discard()


class _OpenFile:
    """A data file being written."""

    def __init__(
        self, sink: HashingFile, parquet: Any, schema: pa.Schema, options: Mapping[str, Any], ndim: int
    ) -> None:
        self.sink, self.parquet, self.schema, self.options = sink, parquet, schema, options
        self.rows = 0
        self.low: list[int] = [2**63] * ndim
        self.high: list[int] = [-1] * ndim
        self.first: tuple[int, ...] = ()
        self.last: tuple[int, ...] = ()


class TensorWriter:
    """Write sorted blocks to data files in bounded memory, on another thread.

    Parameters
    ----------
    folder
        Folder of the tensor; exists.
    dims, dtype
        Dimension names, and dtype of the values.
    profile
        ``"fast"``, ``"small"`` or ``"portable"``.
    order
        Sort order of the elements; the base order by default.
    coordinate_dtypes
        Dtypes of the coordinate columns, int32 or int64. By default int32; if a coordinate of 2^31 or more comes, the
        files written before are rewritten at the end.
    sizes
        Target sizes of files and row groups.
    run
        Whether the files form an append run.

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
        self._ending = f"{RUN_SUFFIX if run else ''}.parquet"
        self._dims = tuple(dims)
        self._ndim = len(self._dims)
        self._dtype = check_dtype(dtype)
        self._profile: Profile = check_profile(profile)
        self._order = tuple(range(self._ndim)) if order is None else tuple(order)
        self._fixed = coordinate_dtypes is not None
        dtypes = [np.int32] * self._ndim if coordinate_dtypes is None else coordinate_dtypes
        self._dtypes = tuple(np.dtype(kind) for kind in dtypes)
        self._sizes = sizes or Sizes()
        self._nonce = os.urandom(8).hex()
        self._waiting: list[Block] = []
        self._waiting_rows = 0
        self._open: _OpenFile | None = None
        self._last: tuple[int, ...] | None = None
        self._files: list[DataFile] = []
        self._pool: BackgroundThread | None = None
        self._running: Task[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()

    def write(self, block: Block) -> None:
        """Write a block.

        All blocks together are sorted by the order, unique and free of the fill value.

        The arrays are read later, on another thread: do not change them. Errors may be raised here or by a later call.

        Raises
        ------
        DuplicateError
            If an element comes twice.
        InvalidValueError
            If the elements are not sorted.
        StorageError
            If the disk is full.
        """
        if not block.count:
            return
        self._waiting.append(block)
        self._waiting_rows += block.count
        if self._waiting_rows <= self._sizes.group_rows:
            return
        if self._pool is None:
            self._pool = background_thread("sparrow-write")  # a single row group is written by this thread
        pending = concat_blocks(self._waiting, self._ndim, self._dtype)
        self._waiting = []  # free the blocks while the row group is written
        start = 0
        while pending.count - start > self._sizes.group_rows:
            stop = self._row_group_end(pending, start)
            self._submit(self._write_group, pending.take(slice(start, stop)))
            start = stop
        remainder = pending.take(slice(start, None))
        self._waiting, self._waiting_rows = [remainder], remainder.count

    def _row_group_end(self, pending: Block, start: int) -> int:
        """Return the end of a row group, between two rows if one is near.

        Row slices then cover whole row groups, which need not be decoded twice.
        """
        stop = start + self._sizes.group_rows
        leading = pending.coords[self._order[0]][stop - self._sizes.group_rows // tuning().row_group_slack : stop + 1]
        if leading[0] == leading[-1]:
            return stop
        return stop - (len(leading) - 1) + int(np.searchsorted(leading, leading[-1]))

    def roll(self) -> None:
        """End the current file; the next block begins another one."""
        self._flush()
        self._submit(self._close_file)

    def finish(self) -> list[DataFile]:
        """Write the rest and return the files in order, durable and named."""
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
        """Delete everything this writer has written."""
        if self._running is not None:
            self._running.wait()
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
            self._run_checked(work, *args)
        else:
            self._running = self._pool.submit(self._run_checked, work, *args)

    def _wait(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            try:
                running.result()
            except BaseException:
                if not running.done:  # interrupted while waiting: abort() waits for it
                    self._running = running
                raise

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _run_checked(self, work: Callable[..., None], *args: Any) -> None:
        try:
            work(*args)
        except StorageError:
            raise
        except OSError as error:
            raise write_error(error, self._folder) from error

    # -- what runs on it

    def _flush(self) -> None:
        if self._waiting_rows:
            pending = concat_blocks(self._waiting, self._ndim, self._dtype)
            self._waiting, self._waiting_rows = [], 0
            self._submit(self._write_group, pending)

    def _write_group(self, block: Block) -> None:
        low, high = self._check(block)
        if not self._fixed:
            dtypes = tuple(
                np.dtype(np.int64) if top >= _INT32_END else kind for kind, top in zip(self._dtypes, high, strict=True)
            )
            if dtypes != self._dtypes:
                self._close_file()
                self._dtypes = dtypes
        coords = [np.ascontiguousarray(c, dtype=kind) for c, kind in zip(block.coords, self._dtypes, strict=True)]
        values = encode_values(block.values, self._dtype)
        columns = [*coords, *values]
        file = self._open
        if file is not None and not accepts_row_group(file.options, self._profile, file.schema.names, columns):
            self._close_file()
            file = None
        if file is None:
            file = self._open = self._open_file(coords, values)
            file.first = tuple(int(column[0]) for column in block.coords)
        table = pa.Table.from_arrays([as_arrow(column) for column in columns], schema=file.schema)
        file.parquet.write_table(table, row_group_size=block.count)
        file.sink.end_piece()
        memory.trim()
        file.last = tuple(int(column[-1]) for column in block.coords)
        file.low = list(map(min, file.low, low))
        file.high = list(map(max, file.high, high))
        file.rows += block.count
        if file.sink.nbytes >= self._sizes.file_bytes or file.rows >= self._sizes.file_rows:
            self._close_file()

    def _check(self, block: Block) -> tuple[list[int], list[int]]:
        """Check order, uniqueness and range of a block; return its bounds."""
        keys = [block.coords[dim] for dim in self._order]
        first = tuple(int(column[0]) for column in keys)
        ordered = is_sorted(keys, strict=True) if keys else block.count == 1
        if self._last is not None and first <= self._last:
            ordered = False
        if not ordered:
            raise _order_error(self._last, keys, self._order, block.count)
        self._last = tuple(int(column[-1]) for column in keys)
        low = [int(column.min()) for column in block.coords]
        high = [int(column.max()) for column in block.coords]
        for dim, bottom in enumerate(low):
            if bottom < 0:
                raise ShapeError(f"coordinates of dimension {self._dims[dim]!r} must not be negative, got {bottom}")
            if self._fixed and self._dtypes[dim] == np.int32 and high[dim] >= _INT32_END:
                raise ShapeError(f"coordinates of dimension {self._dims[dim]!r} must fit int32, got {high[dim]}")
        return low, high

    def _open_file(self, coords: Sequence[Any], values: Sequence[Any]) -> _OpenFile:
        import pyarrow.parquet as pq

        schema = arrow_schema(self._dims, self._dtype, self._dtypes)
        sink = HashingFile(self._folder)
        try:
            options = parquet_options(self._dims, coords, values, self._profile, self._order)
            parquet = pq.ParquetWriter(sink, schema, **options)
            sink.end_piece()  # the bytes before the first row group
        except BaseException:
            sink.discard()
            raise
        return _OpenFile(sink, parquet, schema, options, self._ndim)

    def _close_file(self) -> None:
        file = self._open
        if file is None:
            return
        groups = file.sink.pieces()[1:]
        notes = {FIRST_KEY: json.dumps(file.first), LAST_KEY: json.dumps(file.last), ROW_GROUPS_KEY: json.dumps(groups)}
        file.parquet.add_key_value_metadata(notes)
        file.parquet.close()
        footer_crc = footer_checksum(file.sink.tail())
        name = file.sink.finalize(lambda sha: f"{sha}-{self._nonce}{footer_crc:08x}{self._ending}")
        self._open = None
        count_files(written=file.sink.nbytes)
        dtypes = tuple(dtype.name for dtype in self._dtypes)
        self._files.append(
            DataFile(
                name, file.rows, file.sink.nbytes, tuple(file.low), tuple(file.high), file.first, file.last, dtypes
            )
        )


def _order_error(
    last: tuple[int, ...] | None, keys: Sequence[Any], order: Sequence[int], count: int
) -> DuplicateError | InvalidValueError:
    """Return the error for the first element that is out of order or repeated."""
    previous = last
    for row in range(count):
        key = tuple(int(column[row]) for column in keys)
        if previous is not None and key <= previous:
            by_dim = dict(zip(order, key, strict=True))
            cell = tuple(by_dim[dim] for dim in range(len(key)))
            if key == previous:
                return DuplicateError(f"element {cell} is given twice: reduce duplicates before writing")
            return InvalidValueError(f"element {cell} is out of order: sort the elements before writing")
        previous = key
    raise AssertionError("the elements are in order")


def widen_coordinates(
    folder: str,
    dims: Sequence[str],
    dtype: np.dtype[Any],
    files: Sequence[DataFile],
    profile: Profile,
    order: Sequence[int] | None = None,
) -> list[DataFile]:
    """Return files with one dtype per coordinate column, rewriting the narrower ones."""
    dtypes = tuple(
        "int64" if any(file.coordinate_dtypes[dim] == "int64" for file in files) else "int32"
        for dim in range(len(dims))
    )
    out: list[DataFile] = []
    for file in files:
        if file.coordinate_dtypes == dtypes:
            out.append(file)
            continue
        sizes = Sizes(file_bytes=1 << 62)
        writer = TensorWriter(folder, dims, dtype, profile=profile, order=order, coordinate_dtypes=dtypes, sizes=sizes)
        with writer:
            path = os.path.join(folder, file.name)
            for group in range(len(read_footer(path, len(dims)).rows)):
                writer.write(read_row_group(path, group, len(dims), dtype))
            out += writer.finish()
        get_filesystem(folder).delete(os.path.join(folder, file.name))
    return out
