"""Errors of other libraries: the system error behind them, and their text."""

from __future__ import annotations

import errno
import os
import re

__all__ = ["explain_errno", "find_errno", "is_interrupt", "summarize"]

_NUMBER = re.compile(r"\(os error (\d+)\)|\berrno:? ?=? ?(\d+)", re.IGNORECASE)
"""Numbers of system errors in the texts of Rust, Arrow and HDF5."""

_TEXTS = {
    os.strerror(number): number
    for number in (
        *(errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EINTR, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOENT),
        *(errno.ENOSPC, errno.EROFS, errno.ESTALE),
    )
}
"""Texts of the system errors that DuckDB quotes without a number."""

_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\u2190-\u21ff\u2500-\u257f]")
"""Colours, and the arrows and lines that draw a tree of causes."""


_INTERRUPTED = "Query interrupted", "KeyboardInterrupt"
"""Error texts after Ctrl-C: of DuckDB's own handler, and of libraries that wrap errors of Python code they call."""


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C, or was raised while one was handled.

    Python's ``finally`` clauses release locks and close files again that an interrupt met while they were released or
    closed; their errors hide it.

    Examples
    --------
    >>> is_interrupt(RuntimeError("INTERRUPT Error: Query interrupted"))
    True
    """
    return isinstance(error.__context__, KeyboardInterrupt) or any(text in str(error) for text in _INTERRUPTED)


def find_errno(error: BaseException) -> int | None:
    """Return the number of the system error behind an error, or None.

    Examples
    --------
    >>> find_errno(OSError("Generic LocalFileSystem error: No space left on device (os error 28)"))
    28
    >>> find_errno(ValueError("not JSON"))
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    found = _NUMBER.search(text)
    if found is not None:
        return int(found[1] or found[2])
    return next((number for known, number in _TEXTS.items() if known in text), None)


def explain_errno(number: int) -> str:
    """Return the text of a system error.

    Examples
    --------
    >>> explain_errno(28)
    'No space left on device'
    """
    return os.strerror(number)


def summarize(error: BaseException) -> str:
    r"""Return the text of an error of another library in one line, without colours.

    Examples
    --------
    >>> summarize(OSError("no file\n\x1b[31m\u21b3\x1b[0m No such file or directory (os error 2)"))
    'no file: No such file or directory'
    """
    text = re.sub(r" \(os error \d+\)", "", _TERMINAL_CODES.sub("", str(error)))
    return ": ".join(filter(None, (line.strip() for line in text.splitlines()))) or type(error).__name__
