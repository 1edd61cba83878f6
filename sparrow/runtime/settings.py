"""Settings of the process, and of ``with sp.config(...)`` blocks.

Settings of the enclosing blocks override those of the process. They live in a context variable, so they are local to
a thread or task, and apply to calls in copies of its context, as :mod:`sparrow.runtime.thread_pool` and asyncio make.
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
from sparrow.runtime.validation import check_choice, check_flag, check_path

__all__ = [
    "ENGINE_ENTRY_POINTS", "JOINS", "Settings", "config", "current", "engine_names", "engines", "is_notebook",
    "isolate", "parse_bytes",
]  # fmt: skip

engines = {"auto"}
"""Names of engines; the registry of engines adds to them."""

ENGINE_ENTRY_POINTS = "sparrow.engines"
"""Group of the entry points of engines in other packages."""


def engine_names() -> list[str]:
    """Return the sorted names of engines, entry points included."""
    from importlib.metadata import entry_points  # importing takes milliseconds and is rarely needed

    return sorted({*engines, *(entry.name for entry in entry_points(group=ENGINE_ENTRY_POINTS))})


JOINS = ("auto", "exact", "outer", "inner", "left")
"""Ways to join labels that differ."""

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
    """True if float sums in SQL run on one thread, so that the same input gives the same bits."""
    engine: str
    """Default engine; ``"auto"`` chooses one per operation."""
    join: str
    """Join of differing labels; ``"auto"`` is outer, but inner for products and quotients."""
    device: str = "none"
    """Engine with a device that ``"auto"`` may choose; ``"none"`` for none."""
    cluster: Any = None
    """Session or address of a cluster, or number of processes; None for the active one."""
    scratch: str | None = None
    """Folder that this process and its tasks share; None for ``temp_directory``."""
    append_runs: int = 16
    """Maximal number of append runs of a stored tensor before compaction."""
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Default options of object stores; may contain secrets."""

    @property
    def has_ample_memory(self) -> bool:
        """True if buffers and allocator caches are negligible."""
        return self.memory_limit > tuning().ample_limit_bytes

    def show_progress(self) -> bool:
        """Return whether progress bars are shown."""
        return sys.stderr.isatty() or is_notebook() if self.progress is None else self.progress


def is_notebook() -> bool:
    """Return whether standard error is the output of a notebook cell."""
    return type(sys.stderr).__module__.partition(".")[0] == "ipykernel"


def parse_bytes(size: int | float | str, name: str = "size") -> int:
    """Parse a size in bytes: a number, or a string such as ``"512MiB"``.

    ``"1GB"`` is 10^9 bytes, ``"1GiB"`` is 2^30.

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
                f"{name} must be a number of bytes or a string such as '500MB' or '2GiB', got {size!r}"
            )
        size = float(match[1]) * _UNITS[match[2].upper()]
    if not isinstance(size, Real) or not 0 < size < math.inf:
        raise InvalidValueError(f"{name} must be positive, got {size!r}")
    return int(size)


def available_memory() -> int:
    """Return the memory of the machine or its control group, in bytes."""
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
    """Return the settings in force."""
    scope = _scope.get()
    return _process_settings() if scope is None else _resolve(scope, _process_settings())


# -- blocks --------------------------------------------------------------------------------------


class _Scope:
    """Overrides of a block, linked to those of the enclosing block.

    ``block`` owns it. ``is_plain_call`` marks overrides of a plain call within that block. Copies of a context share
    the chain.
    """

    def __init__(self, overrides: dict[str, Any], outer: _Scope | None, block: config, is_plain_call: bool) -> None:
        self.overrides, self.outer, self.block, self.is_plain_call = overrides, outer, block, is_plain_call
        self.cached: tuple[Settings, Settings] | None = None
        """Outer settings, and the same with ``overrides``."""


_scope: ContextVar[_Scope | None] = ContextVar("sparrow_settings", default=None)


def _skip_ended(scope: _Scope | None) -> _Scope | None:
    while scope is not None and scope.block.has_ended:
        scope = scope.outer
    return scope


def _resolve(scope: _Scope | None, process: Settings) -> Settings:
    scope = _skip_ended(scope)
    if scope is None:
        return process
    outer = _resolve(scope.outer, process)
    cached = scope.cached
    if cached is None or cached[0] is not outer:
        cached = scope.cached = (outer, replace(outer, **scope.overrides))
    return cached[1]


class _Attributes(type(AbstractContextManager)):  # type: ignore[misc]
    """Metaclass for settings as attributes of :class:`config`."""

    def __getattr__(cls, name: str) -> Any:
        return _setting(name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            _setting(name)
            if value is None:
                raise InvalidValueError(
                    f"sp.config.{name} must not be None: use a with block to restore the earlier value"
                )
            cls(**{name: value})


def _setting(name: str) -> Any:
    if name in Settings.__dataclass_fields__:
        return getattr(current(), name)
    raise AttributeError(f"unknown setting {name!r}: expected one of {', '.join(Settings.__dataclass_fields__)}")


class config(AbstractContextManager[Settings], metaclass=_Attributes):
    """Change settings: of the process, or within a ``with`` block.

    A plain call changes the settings of the process; within a block, its effect ends with the block. A block affects
    the thread or task that it runs in, worker threads of operations in it, and tasks started in it. Threads that you
    start yourself use the settings of the process, unless they run in a copy of your context
    (``contextvars.copy_context().run``, ``asyncio.to_thread``).

    ``with sp.config(...) as settings`` binds the settings in force. ``sp.config()`` displays them,
    ``sp.config.threads`` reads one, and ``sp.config.threads = 2`` is a plain call.

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
    device
        Engine with a device, ``"cupy"``, that ``"auto"`` may choose for products large enough to pay for the transfer;
        float sums may then round differently. The default, ``"none"``, never chooses one.
    cluster
        Where ``engine="dask"`` runs tasks: a ``distributed.Client`` or the address of its scheduler, by default the
        active client. For ``engine="ray"`` the address of a cluster, by default the one that ``ray.init`` connected to.
        For ``engine="spark"`` a ``SparkSession``, the URL of a master or of a server of Spark Connect, by default the
        active session.
        For ``engine="processes"`` a number of processes, by default one per processor.
    scratch
        Folder, shared by all machines of a cluster, for arrays between this process and its tasks; by default
        ``temp_directory``.
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
        unknown ``engine``, ``device`` or ``join``, or an assigned None.

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
        device: str | None = None,
        cluster: Any = None,
        scratch: str | os.PathLike[str] | None = None,
        join: Literal["auto", "exact", "outer", "inner", "left"] | None = None,
        append_runs: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        overrides: dict[str, Any] = {}
        if memory_limit is not None:
            overrides["memory_limit"] = size = parse_bytes(memory_limit, "memory_limit")
            if size < tuning().min_limit_bytes:
                raise InvalidValueError(
                    f"memory_limit must be at least '1MB', got {memory_limit!r} ({size} bytes): "
                    "pass a unit, as in '4GB'"
                )
        if threads is not None:
            if not isinstance(threads, Integral) or threads < 1:
                raise InvalidValueError(f"threads must be an integer of at least 1, got {threads!r}")
            overrides["threads"] = int(threads)
        if temp_directory is not None:
            overrides["temp_directory"] = _check_directory("temp_directory", temp_directory)
        if scratch is not None:
            overrides["scratch"] = _check_directory("scratch", scratch)
        if cluster is not None:
            overrides["cluster"] = cluster
        for name, flag in (("progress", progress), ("deterministic", deterministic)):
            if flag is not None:
                overrides[name] = check_flag(name, flag)
        if engine is not None:
            overrides["engine"] = _check_engine("engine", engine)
        if device is not None:
            overrides["device"] = device if device == "none" else _check_engine("device", device)
        if join is not None:
            check_choice("join", join, JOINS)
            overrides["join"] = join
        if append_runs is not None:
            if not isinstance(append_runs, Integral) or append_runs < 0:
                raise InvalidValueError(f"append_runs must be an integer of at least 0, got {append_runs!r}")
            overrides["append_runs"] = int(append_runs)
        if storage_options is not None:
            if not isinstance(storage_options, Mapping):
                raise InvalidValueError(
                    "storage_options must be a mapping of strings such as {'AWS_REGION': 'eu-west-1'}, "
                    f"got {type(storage_options).__name__}"
                )
            overrides["storage_options"] = dict(storage_options)
        self.overrides = self._changes = overrides
        self.has_ended = False
        """True if the block ended in another context than it began in, where its scope remains."""
        self._token: Token[_Scope | None] | None = None
        self._before = outer = _skip_ended(_scope.get())
        self._plain_call: _Scope | None = None
        if outer is None:
            _add_call(self)
            return
        if outer.is_plain_call:
            self.overrides, outer = outer.overrides | overrides, outer.outer
        assert self._before is not None
        self._plain_call = _Scope(self.overrides, outer, self._before.block, is_plain_call=True)
        _scope.set(self._plain_call)

    def __repr__(self) -> str:
        if not self._changes:
            now = current()
            texts = {field_.name: repr(getattr(now, field_.name)) for field_ in fields(now) if field_.repr}
            texts["memory_limit"] = f"{now.memory_limit:,} bytes"
            return "\n".join(f"{name:<16}{value}" for name, value in texts.items())
        current()  # what is displayed is no head of a block
        public = self._changes | ({"storage_options": ...} if "storage_options" in self._changes else {})
        return f"sp.config({', '.join(f'{name}={_format(name, value)}' for name, value in public.items())})"

    def __getattr__(self, name: str) -> Any:
        return _setting(name)

    def __enter__(self) -> Settings:
        if self._token is not None:
            raise InvalidValueError("this config() was already entered: call config() again for another block")
        _remove_call(self)
        if self._plain_call is not None and _scope.get() is self._plain_call:
            _scope.set(self._before)
        self._token = _scope.set(_Scope(self.overrides, _skip_ended(_scope.get()), self, is_plain_call=False))
        return current()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._token is not None
        scope = _scope.get()
        if scope is not None and scope.block is self:
            with suppress(ValueError):  # the generator was started in another context
                _scope.reset(self._token)
                return
        self.has_ended = True


def _format(name: str, value: Any) -> str:
    """Return the value of a setting as code."""
    if name == "memory_limit":
        unit = next((unit for unit in ("GB", "GiB", "MB", "MiB") if value % _UNITS[unit.upper()] == 0), None)
        value = value if unit is None else f"{value // _UNITS[unit.upper()]}{unit}"
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


def _check_directory(setting: str, path: str | os.PathLike[str]) -> str:
    """Return the path of an existing directory."""
    found = check_path(path, setting)
    if not os.path.isdir(found):
        raise InvalidValueError(f"{setting} must be an existing directory, got {found!r}")
    return found


def _check_engine(setting: str, name: Any) -> str:
    """Return the name of an engine that is registered."""
    if not name or not isinstance(name, str):
        raise InvalidValueError(f"{setting} must be a name, got {name!r}")
    if name not in engines and name not in (known := engine_names()):
        raise InvalidValueError(f"{setting} must be one of {', '.join(map(repr, known))}, got {name!r}")
    return name


# -- the process ---------------------------------------------------------------------------------


class _Call:
    """Call of :class:`config` outside of blocks: plain, or head of a block.

    The head of a block must not affect other threads. A call is known to be plain once its result is dropped, or its
    thread reads the settings, which never happens between the head of a block and its entry.
    """

    def __init__(self, call: config) -> None:
        self.result, self.overrides = ref(call), call.overrides
        self.thread, self.is_plain = threading.get_ident(), False


_lock = threading.RLock()
_process: Settings | None = None
_calls: list[_Call] = []
"""Calls that may still become blocks, in chronological order."""


def _process_settings() -> Settings:
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
        while _calls and _calls[0].result() is None:
            _process = replace(_process, **_calls[0].overrides)
            del _calls[0]  # after the assignment: readers that see no calls must see their effect
        out = _process
        for call in _calls:
            call.is_plain = call.is_plain or call.result() is None or call.thread == threading.get_ident()
            if call.is_plain:
                out = replace(out, **call.overrides)
        return out


def _add_call(call: config) -> None:
    with _lock:
        _calls.append(_Call(call))


def _remove_call(call: config) -> None:
    with _lock:
        _calls[:] = [other for other in _calls if other.result() is not call]


@contextmanager
def isolate() -> Iterator[None]:
    """Reset the settings of the process within the block; for tests."""
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
