"""Settings: memory limit, threads, temporary directory, progress, determinism, engine.

Settings of the process are overlaid by those of the enclosing ``with sp.config(...)`` blocks. The latter live in a
context variable: they are local to a thread or task, and follow calls that run in a copy of its context, as
:mod:`sparrow.runtime.thread_pool` and asyncio do.
"""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from weakref import ref

from sparrow.errors import InvalidValueError
from sparrow.runtime import events
from sparrow.runtime.tuning import tuning
from sparrow.runtime.validation import check_flag, check_path

__all__ = [
    "ENGINE_ENTRY_POINTS", "JOINS", "Settings", "config", "current", "engine_names", "engines", "is_notebook",
    "isolated", "parse_bytes",
]  # fmt: skip

engines = {"auto"}
"""Names of engines; the registry of engines, a layer above, adds to them."""

ENGINE_ENTRY_POINTS = "sparrow.engines"
"""Group of the entry points by which other packages offer engines."""


def engine_names() -> list[str]:
    """Return the names of engines, those of entry points included, sorted."""
    from importlib.metadata import entry_points  # takes milliseconds, and is rarely needed

    return sorted({*engines, *(entry.name for entry in entry_points(group=ENGINE_ENTRY_POINTS))})


JOINS = ("auto", "exact", "outer", "inner", "left")
"""Ways of joining labels that differ."""

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """Values of the settings; see :class:`config`."""

    memory_limit: int
    """Bytes that the process and its children may use, arrays of the caller excluded."""
    threads: int
    """Worker threads per operation."""
    temp_directory: str
    """Directory of spill files."""
    progress: bool | None
    """Whether to show progress bars; None shows them in terminals and notebooks."""
    deterministic: bool
    """Whether float sums in SQL run on one thread, so that the same input gives the same bits."""
    engine: str
    """Default engine; ``"auto"`` chooses one per operation."""
    join: str
    """How differing labels are joined; ``"auto"`` is outer, but inner for products and quotients."""
    append_runs: int = 16
    """Maximal number of append runs of a stored tensor before compaction."""
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Default options of object stores; may contain secrets."""

    @property
    def has_ample_memory(self) -> bool:
        """Whether buffers and allocator caches are negligible relative to the memory limit."""
        return self.memory_limit > tuning().ample_limit_bytes

    def show_progress(self) -> bool:
        """Return whether progress bars are shown."""
        return sys.stderr.isatty() or is_notebook() if self.progress is None else self.progress


def is_notebook() -> bool:
    """Return whether standard error is the output of a notebook cell."""
    return type(sys.stderr).__module__.partition(".")[0] == "ipykernel"


def parse_bytes(size: int | float | str) -> int:
    """Return a size in bytes from a number or a string such as ``"1GB"`` (10^9) or ``"512MiB"``.

    Raises
    ------
    InvalidValueError
        If it is not a positive size.

    Examples
    --------
    >>> parse_bytes("1GB"), parse_bytes("512 MiB"), parse_bytes(2048)
    (1000000000, 536870912, 2048)
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", size)
        if match is None or match[2].upper() not in _UNITS:
            raise InvalidValueError(
                f"size must be a number of bytes or a string such as '500MB' or '2GiB', got {size!r}"
            )
        size = float(match[1]) * _UNITS[match[2].upper()]
    if not isinstance(size, Real) or not 0 < size < math.inf:
        raise InvalidValueError(f"size must be positive, got {size!r}")
    return int(size)


def available_memory() -> int:
    """Return the memory of the machine, or of its control group if that is smaller, in bytes."""
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
    """Return the number of processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def current() -> Settings:
    """Return the settings in force: those of the process, overlaid by the enclosing blocks."""
    scope = _scope.get()
    return _of_process() if scope is None else _within(scope, _of_process())


# -- blocks --------------------------------------------------------------------------------------


class _Scope:
    """Link of the chain of overlays of a context, innermost first; shared by all copies of the context.

    ``change`` is the block that owns it; ``loose`` tells that it stems from a plain call within that block.
    """

    def __init__(self, given: dict[str, Any], outer: _Scope | None, change: config, loose: bool) -> None:
        self.given, self.outer, self.change, self.loose = given, outer, change, loose
        self.known: tuple[Settings, Settings] | None = None
        """Outer settings, and the same overlaid with ``given``; cached."""


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
    """Metaclass that maps attributes to settings: ``sp.config.threads`` reads, ``sp.config.threads = 2`` sets."""

    def __getattr__(cls, name: str) -> Any:
        return _setting(name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            _setting(name)
            if value is None:
                raise InvalidValueError(
                    f"sp.config.{name} must not be None: leave a block to restore the earlier value"
                )
            cls(**{name: value})


def _setting(name: str) -> Any:
    if name in Settings.__dataclass_fields__:
        return getattr(current(), name)
    raise AttributeError(f"unknown setting {name!r}: expected one of {', '.join(Settings.__dataclass_fields__)}")


class config(AbstractContextManager[Settings], metaclass=_Attributes):
    """Change settings: of the process by a plain call, or for the length of a block as a context manager.

    A block affects the thread or task that it runs in, worker threads of operations in it, and tasks started in it;
    other threads and tasks are unaffected. A plain call within a block ends with the block. Threads that you start
    yourself use the settings of the process, unless they run in a copy of your context
    (``contextvars.copy_context().run``, ``asyncio.to_thread``).

    ``with sp.config(...) as settings`` gives the settings in force. ``sp.config()`` shows them, ``sp.config.threads``
    reads one, and ``sp.config.threads = 2`` is a plain call.

    Parameters
    ----------
    memory_limit
        Bytes, or a string such as ``"2GB"`` (10^9), that the process and its children may use, arrays of the caller
        excluded. The default is 60 % of the memory of the machine or control group, and at least 700 MB.
    threads
        Worker threads per operation; by default the number of processors.
    temp_directory
        Directory of spill files.
    progress
        Whether to show progress bars; by default in terminals and notebooks.
    deterministic
        Whether float sums in SQL run on one thread, and none on a GPU, so that the same input gives the same bits.
    engine
        Engine of operations without ``engine=``; the default, ``"auto"``, chooses per operation.
    join
        How differing labels of operands are joined: "outer" keeps all, "inner" the common ones, "left" those of the
        first operand, and "exact" raises ``LabelError``. The default, ``"auto"``, is "inner" for products and
        quotients and "outer" otherwise.
    append_runs
        Maximal number of append runs of a stored tensor, 16 by default; further appends merge some of them. With 0
        every append rewrites the files that it overlaps.
    storage_options
        Default options of object stores, as for :func:`sparrow.open`. They are never displayed.

    Raises
    ------
    InvalidValueError
        If a value is invalid: a size below 1 MB, ``threads`` below 1, ``append_runs`` below 0, a missing directory, an
        unknown ``engine`` or ``join``, or an assigned None.

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
            if size < tuning().min_limit_bytes:
                raise InvalidValueError(
                    f"memory_limit must be at least '1MB', got {memory_limit!r} ({size} bytes): "
                    "pass a unit, as in '4GB'"
                )
        if threads is not None:
            if not isinstance(threads, Integral) or threads < 1:
                raise InvalidValueError(f"threads must be at least 1, got {threads}")
            given["threads"] = int(threads)
        if temp_directory is not None:
            given["temp_directory"] = check_path(temp_directory, "temp_directory")
            if not os.path.isdir(given["temp_directory"]):
                raise InvalidValueError(
                    f"temp_directory must be an existing directory, got {given['temp_directory']!r}"
                )
        for name, flag in (("progress", progress), ("deterministic", deterministic)):
            if flag is not None:
                given[name] = check_flag(name, flag)
        if engine is not None:
            if not engine or not isinstance(engine, str):
                raise InvalidValueError(f"engine must be a name, got {engine!r}")
            if engine not in engines and engine not in (known := engine_names()):
                raise InvalidValueError(f"engine must be one of {', '.join(map(repr, known))}, got {engine!r}")
            given["engine"] = engine
        if join is not None:
            if join not in JOINS:
                raise InvalidValueError(f"join must be one of {', '.join(map(repr, JOINS))}, got {join!r}")
            given["join"] = join
        if append_runs is not None:
            if not isinstance(append_runs, Integral) or append_runs < 0:
                raise InvalidValueError(f"append_runs must be at least 0, got {append_runs}")
            given["append_runs"] = int(append_runs)
        if storage_options is not None:
            if not isinstance(storage_options, Mapping):
                raise InvalidValueError(
                    "storage_options must be a mapping of strings, such as {'AWS_REGION': 'eu-west-1'}"
                )
            given["storage_options"] = dict(storage_options)
        self.given = given
        self.over = False
        """Whether the block ended in another context than it began in, where its scope remains."""
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
            raise InvalidValueError("this config() was already entered: call config() again for another block")
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
            with suppress(ValueError):  # a generator that was started in another context
                _scope.reset(self._token)
                return
        self.over = True


# -- the process ---------------------------------------------------------------------------------


class _Call:
    """Call of :class:`config` outside of blocks, which may be plain or the head of a block.

    Heads must not affect other threads. A call is known to be plain once its result is dropped, or its thread reads the
    settings, which never happens between a call and the entry of its block.
    """

    def __init__(self, change: config) -> None:
        self.change, self.given, self.thread, self.plain = ref(change), change.given, threading.get_ident(), False


_lock = threading.RLock()
_process: Settings | None = None
_calls: list[_Call] = []
"""Calls that may still become blocks, in order."""


def _of_process() -> Settings:
    global _process
    if _process is not None and not _calls:
        return _process
    with _lock:
        if _process is None:
            events.emit("settings.defaults")
            limits = tuning()
            _process = Settings(
                memory_limit=max(limits.min_default_limit_bytes, int(limits.default_limit_ratio * available_memory())),
                threads=available_threads(),
                temp_directory=tempfile.gettempdir(),
                progress=None,
                deterministic=False,
                engine="auto",
                join="auto",
            )
        while _calls and _calls[0].change() is None:
            _process = replace(_process, **_calls[0].given)
            del _calls[0]  # after the assignment: readers that see no calls must see their effect
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


@contextmanager
def isolated() -> Iterator[None]:
    """Reset the settings of the process within the block. For tests; not for threads."""
    global _process, _calls
    before = _process, _calls
    _process, _calls = None, []
    try:
        yield
    finally:
        _process, _calls = before


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
