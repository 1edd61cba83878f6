"""The settings of a process: memory limit, threads, temporary folder, progress, determinism."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path

from sparrow.errors import InvalidValueError

__all__ = ["Settings", "config", "current", "parse_bytes"]

_MINIMUM_LIMIT = 700_000_000
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What :func:`config` sets. Sizes are bytes."""

    memory_limit: int
    """Bytes that the process and its children may use, the caller's own arrays not counted."""
    threads: int
    """Worker threads of one operation."""
    temp_directory: str
    """Where sorts and joins spill."""
    progress: bool | None
    """Progress bars: on, off, or None for "when standard error is a terminal"."""
    deterministic: bool
    """Run float sums in SQL on one thread, so that the same input gives the same bits."""

    def show_progress(self) -> bool:
        """Return whether progress bars are to be drawn."""
        return sys.stderr.isatty() if self.progress is None else self.progress


def parse_bytes(size: int | float | str) -> int:
    """Return a size in bytes from a number or a text such as ``"1GB"`` (10^9) or ``"512MiB"``.

    Raises
    ------
    InvalidValueError
        If ``size`` is not a positive size.

    Examples
    --------
    >>> parse_bytes("1GB"), parse_bytes("512 MiB"), parse_bytes(2048)
    (1000000000, 536870912, 2048)
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", size)
        if match is None or match[2].upper() not in _UNITS:
            raise InvalidValueError(f"{size!r} is not a size: give bytes or a text such as '500MB' or '2GiB'")
        size = float(match[1]) * _UNITS[match[2].upper()]
    if not size > 0:
        raise InvalidValueError(f"a size must be positive, got {size!r}")
    return int(size)


def available_memory() -> int:
    """Return the bytes that the machine or its control group allows."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def available_threads() -> int:
    """Return the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_current: Settings | None = None


def current() -> Settings:
    """Return the settings in force."""
    global _current
    if _current is None:
        _current = Settings(
            memory_limit=max(_MINIMUM_LIMIT, int(0.6 * available_memory())),
            threads=available_threads(),
            temp_directory=tempfile.gettempdir(),
            progress=None,
            deterministic=False,
        )
    return _current


def config(
    *,
    memory_limit: int | float | str | None = None,
    threads: int | None = None,
    temp_directory: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    deterministic: bool | None = None,
) -> AbstractContextManager[Settings]:
    """Set what is given, at once; as a context manager, until the block ends.

    Parameters
    ----------
    memory_limit
        Bytes, or a text such as ``"2GB"`` (10^9): what the process and its children may use, the
        arrays that the caller holds not counted. The default is 60 % of what the machine or its
        control group allows and at least 700 MB.
    threads
        Worker threads of one operation; the default is the number of processors.
    temp_directory
        Where sorts and joins spill.
    progress
        Draw progress bars; the default is to draw them when standard error is a terminal.
    deterministic
        Run float sums in SQL on one thread, so that the same input gives the same bits.

    Returns
    -------
    contextlib.AbstractContextManager
        Of the settings in force; its end brings back those before.

    Raises
    ------
    InvalidValueError
        If a size is no size, ``threads`` is below 1 or the folder does not exist.

    Examples
    --------
    >>> import sparrow as sp
    >>> with sp.config(memory_limit="1GB", threads=1) as settings:
    ...     settings.memory_limit, settings.threads
    (1000000000, 1)
    """
    global _current
    before = current()
    after = before
    if memory_limit is not None:
        after = replace(after, memory_limit=parse_bytes(memory_limit))
    if threads is not None:
        if not isinstance(threads, Integral) or threads < 1:
            raise InvalidValueError(f"threads must be at least 1, got {threads}")
        after = replace(after, threads=int(threads))
    if temp_directory is not None:
        if not os.path.isdir(temp_directory):
            raise InvalidValueError(f"temp_directory {os.fspath(temp_directory)!r} is not a folder")
        after = replace(after, temp_directory=os.fspath(temp_directory))
    if progress is not None:
        after = replace(after, progress=progress)
    if deterministic is not None:
        after = replace(after, deterministic=deterministic)
    _current = after

    @contextmanager
    def restore() -> Iterator[Settings]:
        global _current
        try:
            yield after
        finally:
            _current = before

    return restore()
