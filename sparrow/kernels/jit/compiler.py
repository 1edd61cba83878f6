"""Numba imports and cache keys of compiled kernels.

No other module imports Numba.

Numba is imported on a separate thread: Ctrl-C in the main thread would leave a half-imported Numba behind, which no
later import repairs.

Numba invalidates a cached function if its source file changes, but compiles called functions into it as well. After an
upgrade a stale callee would then be called with a wrong signature and crash the process. The cache keys here therefore
cover all kernel files that a file imports. Without sources, as in frozen applications, they cover the byte code.

A note tells that kernels are being compiled once a process has waited for that as long as for a progress bar.

A kernel that cannot be written to the cache, as on a full disk, or read from it, is compiled in each process.

``NUMBA_BOUNDSCHECK=1`` compiles every kernel with bounds checks, for ``make test BOUNDSCHECK=1``.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sparrow.runtime import progress
from sparrow.runtime.tuning import tuning


def _import() -> None:
    with contextlib.suppress(Exception):  # raised again by the imports below
        for name in ("numba.extending", "numba.np.numpy_support", "numba.np.arrayobj", "numba.core.caching"):
            importlib.import_module(name)


with contextlib.suppress(RuntimeError):  # no new threads during interpreter shutdown
    _importing = threading.Thread(target=_import, name="sparrow: importing Numba", daemon=True)
    _importing.start()
    _importing.join()

from llvmlite import ir  # type: ignore[import-untyped]  # noqa: E402
from numba import njit, types  # noqa: E402
from numba.core import caching, cgutils, config, event, pythonapi  # noqa: E402
from numba.core.datamodel import models  # noqa: E402
from numba.core.errors import NumbaError, NumbaTypeError, NumbaWarning, TypingError  # noqa: E402
from numba.extending import (  # noqa: E402
    get_cython_function_address,
    intrinsic,
    lower_builtin,
    register_jitable,
    register_model,
    type_callable,
)
from numba.np import numpy_support  # noqa: E402
from numba.np.arrayobj import make_array  # noqa: E402

__all__ = [
    "NumbaError", "NumbaTypeError", "NumbaWarning", "TypingError", "cgutils", "event",
    "get_cython_function_address", "intrinsic", "ir", "lower_builtin", "make_array", "models", "njit", "numpy_support",
    "register_jitable", "register_model", "source_stamp", "type_callable", "types",
]  # fmt: skip


_numba: Any = pythonapi.PythonAPI
_box = _numba.from_native_value


def _box_without_python(api: Any, kind: Any, value: Any, env_manager: Any = None) -> Any:
    """Box a result of compiled code, arrays without running Python code.

    Numba looks up the class of an array in Python. A Ctrl-C that came while the loop ran is raised there, where it
    becomes a ``SystemError`` and the memory of the array is lost.
    """
    if type(kind) is not types.Array or env_manager is None:
        return _box(api, kind, value, env_manager)
    int32 = ir.IntType(32)
    utils: Any = cgutils
    function = ir.FunctionType(api.pyobj, [api.voidptr, api.pyobj, int32, int32, api.pyobj])
    adapt = utils.get_or_insert_function(api.builder.module, function, "NRT_adapt_ndarray_to_python_acqref")
    box_class = env_manager.read_const(env_manager.add_const(kind.box_type))
    dtype = env_manager.read_const(env_manager.add_const(numpy_support.as_dtype(kind.dtype)))
    pointer = api.builder.bitcast(utils.alloca_once_value(api.builder, value), api.voidptr)
    array = api.builder.call(adapt, [pointer, box_class, int32(kind.ndim), int32(int(kind.mutable)), dtype])
    api.context.nrt.decref(api.builder, kind, value)
    return array


_numba.from_native_value = _box_without_python

_VARIANT = b"bounds are checked" if config.BOUNDSCHECK else b""  # type: ignore[attr-defined]
"""Variant of the machine code: Numba's caches tell kernels with and without bounds checks apart by their stamp only."""
_KERNELS = os.path.dirname(os.path.dirname(__file__))
_IMPORTED = re.compile(r"^from sparrow\.kernels\.([\w.]+) import", re.MULTILINE)


@functools.cache
def source_stamp(path: str) -> bytes:
    """Return the hash of a kernel file and of all kernel files that it imports."""
    if path.endswith(".pyc"):
        return _bytecode_stamp()
    text = Path(path).read_text(encoding="utf-8")
    out = hashlib.sha256(text.encode() + _VARIANT)
    root = _KERNELS if _is_kernel_file(path) else os.path.dirname(path)
    for name in _IMPORTED.findall(text):
        out.update(source_stamp(os.path.join(root, *name.split(".")) + ".py"))
    return out.digest()


@functools.cache
def _bytecode_stamp() -> bytes:
    """Return the hash of the byte code of all kernels, since imports are not parsed."""
    out = hashlib.sha256(_VARIANT)
    for path in sorted(Path(_KERNELS).rglob("*.pyc")):
        out.update(path.read_bytes())
    return out.digest()


def _is_kernel_file(path: str) -> bool:
    """Return whether a file lies in the kernels package."""
    return path.startswith(_KERNELS + os.sep)


def _with_kernel_stamp(locator: Any) -> Any:
    class Stamped(locator):  # type: ignore[misc]
        def get_source_stamp(self) -> bytes:
            return source_stamp(self._py_file)

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            if not os.path.isfile(py_file):  # byte code records the path of the missing source
                py_file = getattr(sys.modules.get(py_func.__module__), "__file__", None) or py_file
            is_ours = _is_kernel_file(py_file) and os.path.isfile(py_file)
            return super().from_function(py_func, py_file) if is_ours else None

    return Stamped


class _LastLocator(caching.UserWideCacheLocator):
    """Locator for kernels if no directory is writable.

    Numba would refuse to define them.
    """

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        return cls(py_func, py_file)


caching.CacheImpl._locator_classes[:0] = [
    _with_kernel_stamp(base)
    for base in (
        caching.UserProvidedCacheLocator, caching.InTreeCacheLocator, caching.UserWideCacheLocator, _LastLocator
    )
]  # fmt: skip

_cache: Any = caching.FunctionCache
_load, _save = _cache.load_overload, _cache.save_overload


def _load_if_possible(cache: Any, sig: Any, target_context: Any) -> Any:
    """Load a compiled function, None if the cache of our kernels fails."""
    try:
        return _load(cache, sig, target_context)
    except OSError:
        if not _is_kernel_file(cache._impl.locator._py_file):
            raise
        return None


def _save_if_possible(cache: Any, sig: Any, data: Any) -> None:
    """Save a compiled function, or note once that the cache of our kernels fails."""
    try:
        _save(cache, sig, data)
    except OSError as error:
        if not _is_kernel_file(cache._impl.locator._py_file):
            raise
        if not _uncached:
            progress.write_note(
                f"sparrow: compiled kernels cannot be cached in {cache.cache_path} ({error.strerror}): every process "
                "compiles them; free space, or set NUMBA_CACHE_DIR to another directory"
            )
        _uncached.append(sig)


_uncached: list[Any] = []
"""Signatures of the kernels that this process could not save."""
_cache.load_overload = _load_if_possible
_cache.save_overload = _save_if_possible


class _CompileNote(event.Listener):
    """Listener that writes a note, once, if progress is shown and compiling is slow.

    Numba compiles one function at a time, with the functions that it calls. Loading cached functions triggers nothing.
    """

    def __init__(self) -> None:
        self._depth, self._started, self._seconds, self._is_written = 0, 0.0, 0.0, False

    def on_start(self, what: Any) -> None:
        """Begin to compile a function, or to run a pass over one."""
        if self._is_kernel(what):
            if self._depth == 0:
                self._started = time.monotonic()
            self._depth += 1
        elif self._depth:
            self._write(self._seconds + time.monotonic() - self._started)

    def on_end(self, what: Any) -> None:
        """End what began."""
        if self._is_kernel(what) and self._depth:
            self._depth -= 1
            if self._depth == 0:
                self._seconds += time.monotonic() - self._started
                self._write(self._seconds)

    def _is_kernel(self, what: Any) -> bool:
        return "dispatcher" in what.data and what.data["dispatcher"].py_func.__module__.startswith("sparrow.")

    def _write(self, seconds: float) -> None:
        if not self._is_written and seconds >= tuning().progress_delay_seconds:
            self._is_written = progress.write_line("compiling kernels, once on this machine")


_compile_note = _CompileNote()
for _kind in ("numba:compile", "numba:run_pass"):
    event.register(_kind, _compile_note)  # type: ignore[no-untyped-call]
