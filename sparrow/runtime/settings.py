"""The settings: memory limit, threads, temporary folder, progress, determinism, engine.

There are those of the process, and on top of them those of the blocks that a thread or task is in. The latter
live in a context variable, so they are local to a thread or task and follow work that runs in a copy of its
context, as :mod:`sparrow.runtime.thread_pool` and asyncio do.
"""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from weakref import ref

from sparrow.errors import InvalidValueError
from sparrow.runtime.validation import check_flag, check_path

__all__ = ["JOINS", "Settings", "config", "current", "engines", "parse_bytes"]

engines = {"auto"}
"""What ``engine`` may be: the registry of engines, a layer above, adds those that there are."""

JOINS = ("auto", "exact", "outer", "inner", "left")

_MINIMUM_LIMIT = 700_000_000
"""Of the default, however small the machine is."""
_LEAST_LIMIT = 1_000_000
"""What buffers of one row group, line or batch want; whoever gives less forgot the unit."""
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip
_AMPLE = 1 << 30
"""A memory limit beside which some tens of megabytes do not matter."""


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
    """Progress bars: on, off, or None for "when standard error is a terminal or a notebook"."""
    deterministic: bool
    """Run float sums in SQL on one thread, so that the same input gives the same bits."""
    engine: str
    """The engine of every terminal that is not told another; ``"auto"`` chooses for each."""
    join: str
    """How labels that differ are joined; ``"auto"`` is the union, of products and quotients the intersection."""
    append_runs: int = 16
    """How many runs of appended entries may stand beside the files of a tensor that are in order."""
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of object stores, for paths that none were given for; they may be secret."""

    @property
    def ample(self) -> bool:
        """Whether it does not matter beside the memory limit what buffers take, and what allocators keep."""
        return self.memory_limit > _AMPLE

    def show_progress(self) -> bool:
        """Return whether progress bars are to be drawn."""
        return sys.stderr.isatty() or is_notebook() if self.progress is None else self.progress


def is_notebook() -> bool:
    """Return whether standard error is the output of a cell, which is no terminal and yet shows what is written."""
    return type(sys.stderr).__module__.partition(".")[0] == "ipykernel"


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
    if not isinstance(size, Real) or not 0 < size < math.inf:
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


def current() -> Settings:
    """Return the settings in force, here and now: of the process, and on top of them of the blocks around."""
    scope = _scope.get()
    return _of_process() if scope is None else _within(scope, _of_process())


# -- blocks --------------------------------------------------------------------------------------


class _Scope:
    """One link of the chain of settings that a context is in, innermost first; the same in every copy of the context.

    ``change`` is the block that it belongs to; ``loose`` says that it comes from a plain call in that block.
    """

    def __init__(self, given: dict[str, Any], outer: _Scope | None, change: config, loose: bool) -> None:
        self.given, self.outer, self.change, self.loose = given, outer, change, loose
        self.known: tuple[Settings, Settings] | None = None
        """Settings around it, and what they are with ``given``."""


_scope: ContextVar[_Scope | None] = ContextVar("sparrow_settings", default=None)


def _live(scope: _Scope | None) -> _Scope | None:
    while scope is not None and scope.change.over:
        scope = scope.outer
    return scope


def _within(scope: _Scope | None, process: Settings) -> Settings:
    scope = _live(scope)
    if scope is None:
        return process
    around = _within(scope.outer, process)
    known = scope.known
    if known is None or known[0] is not around:
        known = scope.known = (around, replace(around, **scope.given))
    return known[1]


class _Attributes(type(AbstractContextManager)):  # type: ignore[misc]
    """What makes ``sp.config.threads`` one of the settings in force, and sets it where it is assigned to."""

    def __getattr__(cls, name: str) -> Any:
        return _setting(name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            _setting(name)
            if value is None:
                raise InvalidValueError(f"sp.config.{name} = None sets nothing: a block brings back what was before")
            cls(**{name: value})


def _setting(name: str) -> Any:
    if name in Settings.__dataclass_fields__:
        return getattr(current(), name)
    raise AttributeError(f"there is no setting {name!r}: there are {', '.join(Settings.__dataclass_fields__)}")


class config(AbstractContextManager[Settings], metaclass=_Attributes):
    """Set what is given, at once; as a context manager, until the block ends.

    A plain call sets the process, all its threads. A block sets the thread or task that it runs in, and the
    workers of what runs in it: other threads and tasks keep their own, tasks begun in the block inherit it, and
    so does a generator that is resumed there. A plain call within a block belongs to the block and ends with it.
    Threads that you start yourself begin with what the process has, unless they run in a copy of your context
    (``contextvars.copy_context().run``, ``asyncio.to_thread``).

    What a block gives is the settings in force. ``sp.config()`` changes nothing and shows them, ``sp.config.threads``
    is one of them, and ``sp.config.threads = 2`` is a plain call.

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
        Draw progress bars; the default is to draw them in terminals and notebooks.
    deterministic
        Run float sums in SQL on one thread and none on a GPU, so that the same input gives the same bits.
    engine
        The engine of every operation that is not told another by ``engine=``; the default, ``"auto"``, chooses
        for each operation.
    join
        How labels that differ are joined where operands meet: "outer" keeps all of them, "inner" those that all sides
        have, "left" those of the first, and "exact" raises a ``LabelError``. The default, ``"auto"``, is "inner" for
        products and quotients and "outer" for everything else.
    append_runs
        How many runs of appended entries may stand beside the files of a stored tensor that are in order, 16 by
        default; an append that makes one more merges some. With 0 each append rewrites the files that it lies between.
    storage_options
        Options of object stores, as :func:`sparrow.open` takes them, for whatever is opened, stored, ingested and
        exported and has none of its own. They are not shown.

    Raises
    ------
    InvalidValueError
        If what is assigned is None, a size is no size or below 1 MB, ``threads`` is below 1 or ``append_runs`` below
        0, the folder does not exist, there is no such ``engine`` or ``join``.

    Examples
    --------
    >>> import sparrow as sp
    >>> with sp.config(memory_limit="1GB", threads=1) as settings:
    ...     settings.memory_limit, settings.threads
    (1000000000, 1)
    """

    def __init__(
        self,
        *,
        memory_limit: int | float | str | None = None,
        threads: int | None = None,
        temp_directory: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
        deterministic: bool | None = None,
        engine: str | None = None,
        join: Literal["auto", "exact", "outer", "inner", "left"] | None = None,
        append_runs: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        given: dict[str, Any] = {}
        if memory_limit is not None:
            given["memory_limit"] = size = parse_bytes(memory_limit)
            if size < _LEAST_LIMIT:
                raise InvalidValueError(
                    f"memory_limit={memory_limit!r} is {size} bytes, and the least is '1MB': say the unit, as in '4GB'"
                )
        if threads is not None:
            if not isinstance(threads, Integral) or threads < 1:
                raise InvalidValueError(f"threads must be at least 1, got {threads}")
            given["threads"] = int(threads)
        if temp_directory is not None:
            given["temp_directory"] = check_path(temp_directory, "temp_directory")
            if not os.path.isdir(given["temp_directory"]):
                raise InvalidValueError(f"temp_directory {given['temp_directory']!r} is not a folder")
        for name, flag in (("progress", progress), ("deterministic", deterministic)):
            if flag is not None:
                given[name] = check_flag(name, flag)
        if engine is not None:
            if not engine or not isinstance(engine, str):
                raise InvalidValueError(f"engine must be the name of an engine, got {engine!r}")
            if engine not in engines:
                raise InvalidValueError(f"engine={engine!r}: use one of {', '.join(map(repr, sorted(engines)))}")
            given["engine"] = engine
        if join is not None:
            if join not in JOINS:
                raise InvalidValueError(f"join={join!r}: use {', '.join(map(repr, JOINS[:-1]))} or {JOINS[-1]!r}")
            given["join"] = join
        if append_runs is not None:
            if not isinstance(append_runs, Integral) or append_runs < 0:
                raise InvalidValueError(f"append_runs must be at least 0, got {append_runs}")
            given["append_runs"] = int(append_runs)
        if storage_options is not None:
            if not isinstance(storage_options, Mapping):
                raise InvalidValueError("storage_options are texts by name, such as {'AWS_REGION': 'eu-west-1'}")
            given["storage_options"] = dict(storage_options)
        self.given = given
        self.over = False
        """Whether the block ended elsewhere than in the context that it began in, which still has its scope."""
        self._token: Token[_Scope | None] | None = None
        self._before = around = _live(_scope.get())
        self._loose: _Scope | None = None
        if around is None:
            _call(self)
            return
        if around.loose:
            given, around = around.given | given, around.outer
        assert self._before is not None
        self._loose = _Scope(given, around, self._before.change, loose=True)
        _scope.set(self._loose)

    def __repr__(self) -> str:
        if not self.given:
            now = current()
            shown = {each.name: repr(getattr(now, each.name)) for each in fields(now) if each.repr}
            shown["memory_limit"] = f"{now.memory_limit:,} bytes"
            return "\n".join(f"{name:<16}{value}" for name, value in shown.items())
        given = {**self.given, "storage_options": ...} if "storage_options" in self.given else self.given
        return f"config({', '.join(f'{name}={value!r}' for name, value in given.items())}), now {current()}"

    def __getattr__(self, name: str) -> Any:
        return _setting(name)

    def __enter__(self) -> Settings:
        if self._token is not None:
            raise InvalidValueError("this config() is a block already: call config() again for another")
        _take_back(self)
        if self._loose is not None and _scope.get() is self._loose:
            _scope.set(self._before)
        self._token = _scope.set(_Scope(self.given, _live(_scope.get()), self, loose=False))
        return current()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._token is not None
        scope = _scope.get()
        if scope is not None and scope.change is self:
            with suppress(ValueError):  # a generator that began in one context and ends in another
                _scope.reset(self._token)
                return
        self.over = True


# -- the process ---------------------------------------------------------------------------------


class _Call:
    """A call outside of all blocks.

    Only what becomes of the result tells a plain call from the head of a block, which other threads must not see.
    It is a plain one as soon as the result is dropped or its thread asks for the settings, as a head never does.
    """

    def __init__(self, change: config) -> None:
        self.change, self.given, self.thread, self.plain = ref(change), change.given, threading.get_ident(), False


_lock = threading.RLock()
_process: Settings | None = None
_calls: list[_Call] = []
"""Calls that may yet become blocks, in their order."""


def _of_process() -> Settings:
    global _process
    if _process is not None and not _calls:
        return _process
    with _lock:
        if _process is None:
            _process = Settings(
                memory_limit=max(_MINIMUM_LIMIT, int(0.6 * available_memory())),
                threads=available_threads(),
                temp_directory=tempfile.gettempdir(),
                progress=None,
                deterministic=False,
                engine="auto",
                join="auto",
            )
        while _calls and _calls[0].change() is None:
            _process = replace(_process, **_calls[0].given)
            del _calls[0]  # now that who finds none of them finds what they set
        out = _process
        for call in _calls:
            call.plain = call.plain or call.change() is None or call.thread == threading.get_ident()
            if call.plain:
                out = replace(out, **call.given)
        return out


def _call(change: config) -> None:
    with _lock:
        _calls.append(_Call(change))


def _take_back(change: config) -> None:
    with _lock:
        _calls[:] = [call for call in _calls if call.change() is not change]


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
