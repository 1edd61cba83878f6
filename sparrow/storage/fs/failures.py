"""Errors of the operating system and of other libraries as errors of storage.

Every border of the package translates with these functions. An error knows its ``errno`` where the operating system
refused something; ``UnchangedClaim`` says that nothing was changed, and only where a write was undone.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

from sparrow.errors import CorruptionError, NotFoundError, StorageError
from sparrow.runtime.events import emit
from sparrow.runtime.foreign_errors import explain_errno, find_errno, is_interrupt, summarize
from sparrow.storage.tuning import tuning

__all__ = [
    "DISK_FULL_ERRNOS",
    "UNCHANGED",
    "DoneClaim",
    "UnchangedClaim",
    "damage_error",
    "durability_error",
    "is_cut",
    "read_error",
    "repeat_cut",
    "translate_read_errors",
    "write_error",
]

T = TypeVar("T")

DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

UNCHANGED = "; nothing was changed"

_CUT = (
    *("request or response body error", "error reading a body", "error decoding response body"),
    *("IncompleteMessage", "connection closed before message completed", "end of file before message length reached"),
    *("did it change meanwhile",),
)
"""Texts of the libraries below, and ours, about answers that end too early."""


def write_error(error: BaseException, where: str | os.PathLike[str]) -> StorageError:
    """Return the error for a failure to write in a folder, or to a file."""
    number, name = find_errno(error), os.fspath(where)
    if number in DISK_FULL_ERRNOS:
        return _with_errno(f"the disk is full: no space left to write in {name!r}", number)
    return _with_errno(f"cannot write in {name!r}: {_reason(error, number)}", number)


def read_error(error: BaseException, path: str | os.PathLike[str]) -> StorageError:
    """Return the error for a failure to read a file."""
    number = find_errno(error)
    return _with_errno(f"{os.fspath(path)!r} cannot be read: {_reason(error, number)}", number)


def damage_error(what: str, error: BaseException, remedy: str = "") -> StorageError:
    """Return the error for a file that cannot be parsed.

    That is a ``CorruptionError``, unless the operating system could not read the file: then it may be sound.
    """
    number = find_errno(error)
    if number is None:
        return CorruptionError(f"{what} cannot be read: {summarize(error)}{remedy}")
    return _with_errno(f"{what} cannot be read: {explain_errno(number)}", number)


def durability_error(what: str, error: BaseException) -> StorageError:
    """Return the error for a visible change that may not be on the disk.

    Parameters
    ----------
    what
        What was done, such as ``"version 3 of 'a.sparrow' is committed"``.
    error
        The failure to flush it.
    """
    cause: BaseException = error.__cause__ if isinstance(error, StorageError) and error.__cause__ else error
    number = find_errno(cause)
    reason = "the disk is full" if number in DISK_FULL_ERRNOS else _reason(cause, number)
    return StorageError(f"{what}, but may not survive a crash of the machine: {reason}")


def is_cut(error: BaseException) -> bool:
    """Return whether a connection ended in the middle of an answer."""
    text = str(error)
    return any(sign in text for sign in _CUT)


def repeat_cut(request: Callable[[], T]) -> T:
    """Return the result of a request, repeated while its answer is cut.

    The libraries below repeat requests without an answer, but not those with a part of it. Ctrl-C that they wrap in an
    error of their own is ``KeyboardInterrupt``.
    """
    limits = tuning()
    for attempt in range(limits.cut_attempts):
        try:
            return request()
        except Exception as error:
            if is_interrupt(error):
                raise KeyboardInterrupt from error
            if not is_cut(error):
                raise
            emit("storage.repeat_cut", attempt=attempt)
            time.sleep(min(limits.backoff_initial_seconds * 2**attempt, limits.cut_backoff_max_seconds))
    return request()


@contextmanager
def translate_read_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise errors of storage for those of the operating system in a block.

    Parameters
    ----------
    path
        What is read, named unless the error names a file.
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        if error.errno is None:
            raise
        name = path if error.filename is None else error.filename
        if isinstance(error, FileNotFoundError):
            raise NotFoundError(str(read_error(error, name))) from None
        full = error.errno in DISK_FULL_ERRNOS  # of what is unpacked or spilled
        raise (write_error if full else read_error)(error, name) from error


class UnchangedClaim:
    """Context manager that says in errors of the system that nothing was changed.

    For blocks that undo what they did. Not a generator: there, frames and the error refer to each other and keep alive
    what a caller has reserved (Python 3.13).
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, StorageError) and error.errno is not None and not str(error).endswith(UNCHANGED):
            error.args = (str(error) + UNCHANGED,)


class DoneClaim:
    """Context manager that says in errors of storage what was done before the block.

    Parameters
    ----------
    what
        What was done, such as ``"'a.sparrow' is complete"``.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, StorageError):
            raise StorageError(f"{self._what}, but {error}") from error


def _reason(error: BaseException, number: int | None) -> str:
    return summarize(error) if number is None else explain_errno(number)


def _with_errno(text: str, number: int | None) -> StorageError:
    found = StorageError(text)
    found.errno = number
    return found
