"""HDF5 files that are written, safe from full disks and Ctrl-C.

The HDF5 library writes through a Python file. An exception there leaves it with open objects that it cannot close, and
it crashes later. So all calls of it run on a thread of their own, where Python raises no ``KeyboardInterrupt``, and the
file keeps its failures to itself.
"""

from __future__ import annotations

import _thread as _thread_module
import atexit
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any

from numpy.typing import NDArray

from sparrow.runtime.dependencies import missing_dependency
from sparrow.runtime.threads import Task

__all__ = ["OutputFile", "create_file", "create_resizable"]

_CHUNK_ELEMENTS = 1 << 16
"""Shape of the chunks of datasets that are written, a property of the file."""


@contextmanager
def create_file(sink: Any) -> Iterator[OutputFile]:
    """Open an HDF5 file that is written to a sink.

    Raises
    ------
    MissingDependencyError
        If h5py is not installed.
    OSError
        If the sink cannot be written.
    """
    file = OutputFile(sink)
    try:
        file.open()
        yield file
        file.close()
    finally:
        file.end()


class OutputFile:
    """HDF5 file that a thread of its own writes.

    The thread closes the file if an interrupt keeps the caller from closing it. It alone refers to objects of h5py,
    which may write when they are deleted.

    Parameters
    ----------
    sink
        File to write to, open for reading too; one with a path is opened again, without a buffer.
    """

    def __init__(self, sink: Any) -> None:
        self._calls: SimpleQueue[Any] = SimpleQueue()  # without locks of Python
        self._ended = Task(int)
        self._writer = _Writer(sink)
        gone = weakref.ref(self, self._calls.put)  # not a method, which Ctrl-C could interrupt
        _thread_module.start_new_thread(copy_context().run, (_serve, self._writer, self._calls, self._ended, gone))

    def open(self) -> None:
        """Create the file; raise as :meth:`run`."""
        self._submit(self._writer.open).result()

    def run(self, work: Callable[..., None], *args: Any) -> None:
        """Call a function of the ``h5py.File`` and arguments, and wait for its end.

        Raises
        ------
        OSError
            If the sink cannot be written, now or before.
        """
        self._submit(self._writer.run, work, *args).result()

    def append(self, parts: Mapping[str, NDArray[Any]]) -> None:
        """Append to datasets of :func:`create_resizable`, by path; raise as :meth:`run`."""
        self._submit(self._writer.run, self._writer.append, parts).result()

    def close(self) -> None:
        """Close the file; raise as :meth:`run`."""
        self._submit(self._writer.close).result()

    def end(self) -> None:
        """Close the file, without an error, and wait for the end of the thread."""
        self._calls.put(None)
        self._ended.wait()

    def _submit(self, work: Callable[..., None], *args: Any) -> Task[None]:
        task = Task(partial(work, *args))
        self._calls.put(task)
        return task


_serving: dict[SimpleQueue[Any], Task[Any]] = {}
"""Calls and end of each thread."""
os.register_at_fork(after_in_child=_serving.clear)


def _serve(writer: _Writer, calls: SimpleQueue[Any], ended: Task[Any], gone: Any) -> None:
    """Run tasks up to any other object, then close the file.

    That may be the reference to the caller's object, once it is gone.
    """
    _serving[calls] = ended
    while isinstance(task := calls.get(), Task):
        task.run()
        del task
    with suppress(Exception):
        writer.close()
    del _serving[calls]
    ended.run()


@atexit.register
def _end_all() -> None:
    """End the threads when the process exits.

    HDF5 would wait for ever for one that is stopped within a call.
    """
    for calls, ended in list(_serving.items()):
        calls.put(None)
        ended.wait()


class _Writer:
    """Calls of h5py on the thread, and the objects that they refer to."""

    def __init__(self, sink: Any) -> None:
        self._stack = ExitStack()
        self._target = _SteadyFile(sink)
        self._file: Any = None
        self._arrays: dict[str, Any] = {}

    def open(self) -> None:
        """Create the file."""
        try:
            import h5py
        except ModuleNotFoundError as error:
            raise missing_dependency("writing HDF5", "h5py") from error
        if isinstance(path := self._target.file.name, str):
            self._target.file = self._stack.enter_context(open(path, "r+b", buffering=0))  # noqa: SIM115 - close() does
        with self._raising_failure():
            self._file = self._stack.enter_context(h5py.File(self._target, "w"))

    def run(self, work: Callable[..., None], *args: Any) -> None:
        """Call a function of the file."""
        with self._raising_failure():
            work(self._file, *args)

    def append(self, file: Any, parts: Mapping[str, NDArray[Any]]) -> None:
        """Append to datasets.

        They stay open, since HDF5 compresses a chunk when its dataset is closed.
        """
        for path, part in parts.items():
            array = self._arrays[path] if path in self._arrays else self._arrays.setdefault(path, file[path])
            array.resize((len(array) + len(part),))
            array[len(array) - len(part) :] = part

    def close(self) -> None:
        """Close the file, once."""
        try:
            with self._raising_failure():
                self._stack.close()
        finally:
            self._file = self._target.failure = None  # its traceback refers to this object
            self._arrays.clear()

    @contextmanager
    def _raising_failure(self) -> Iterator[None]:
        """Raise the failure of the file instead of what HDF5 makes of it."""
        try:
            yield
        except Exception:
            if self._target.failure is None:
                raise
        if self._target.failure is not None:
            raise self._target.failure


class _SteadyFile:
    """File that keeps its first failure to itself, and later writes in memory.

    HDF5 then finds what it wrote, and closes the file in order. Its callers stop soon, so that is not much.
    """

    def __init__(self, file: Any) -> None:
        self.file = file
        self._position = self._size = 0
        self._kept: list[tuple[int, bytes]] = []
        self.failure: BaseException | None = None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def read(self, size: int) -> bytes:
        """Read bytes, zeros where that fails."""
        data = bytearray(size)
        self.readinto(data)
        return bytes(data)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, with zeros where that fails."""
        out = memoryview(buffer).cast("B")
        out[:] = bytes(len(out))
        start = self._position
        self._attempt(self._read, start, out)
        for first, data in self._kept:
            begin, end = max(first, start), min(first + len(data), start + len(out))
            if begin < end:
                out[begin - start : end - start] = data[begin - first : end - first]
        self._position += len(out)
        return len(out)

    def write(self, data: Any) -> int:
        """Write bytes; after a failure keep them."""
        view = memoryview(data).cast("B")
        if self.failure is None:
            self._attempt(self._write, self._position, view)
        if self.failure is not None:
            self._kept.append((self._position, bytes(view)))
        self._position += len(view)
        self._size = max(self._size, self._position)
        return len(view)

    def truncate(self, size: int) -> int:
        """Set the size of the file."""
        self._size = size
        if self.failure is None:
            self._attempt(self.file.truncate, size)
        return size

    def flush(self) -> None:
        """Flush the file."""
        if self.failure is None:
            self._attempt(self.file.flush)

    def _read(self, start: int, out: memoryview) -> None:
        self.file.seek(start)
        while out and (data := self.file.read(len(out))):
            out[: len(data)] = data
            out = out[len(data) :]

    def _write(self, start: int, data: memoryview) -> None:
        self.file.seek(start)
        while data:
            data = data[self.file.write(data) or 0 :]

    def _attempt(self, call: Callable[..., Any], *args: Any) -> None:
        try:
            call(*args)
        except BaseException as error:  # noqa: BLE001 - raised by the writer
            self.failure = self.failure or error


def create_resizable(group: Any, name: str, dtype: Any) -> None:
    """Create an empty dataset for :meth:`OutputFile.append`."""
    group.create_dataset(
        name,
        (0,),
        dtype,
        maxshape=(None,),
        chunks=(_CHUNK_ELEMENTS,),
        compression="gzip",
        compression_opts=1,
        shuffle=True,
    )
