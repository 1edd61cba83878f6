"""What loops take of Numba: the one place that imports it.

It is imported on another thread. Ctrl-C ends what the main one does, and would leave half of Numba behind, which no
later import makes whole.

Numba keeps a loop as long as the file that it is written in stays as it is. Those that it calls are compiled into it,
so that after an upgrade one called with other arguments than it has by now, which ends the process. What ``njit`` keeps
here knows of the loops that a loop calls.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import re
import threading
from pathlib import Path
from typing import Any


def _import() -> None:
    with contextlib.suppress(Exception):  # said again below, by the thread that wants it
        for name in ("numba.extending", "numba.np.numpy_support", "numba.np.arrayobj", "numba.core.caching"):
            importlib.import_module(name)


with contextlib.suppress(RuntimeError):  # as the interpreter ends there are no new threads
    _importing = threading.Thread(target=_import, name="sparrow: importing Numba", daemon=True)
    _importing.start()
    _importing.join()

from llvmlite import ir  # type: ignore[import-untyped]  # noqa: E402
from numba import njit, types  # noqa: E402
from numba.core import caching, cgutils, event  # noqa: E402
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

_KERNELS = os.path.dirname(os.path.dirname(__file__))
_IMPORTED = re.compile(r"^from sparrow\.kernels\.([\w.]+) import", re.MULTILINE)


@functools.cache
def source_stamp(path: str) -> bytes:
    """Return what tells a file of loops and all files of loops that it takes some from, one after the other."""
    text = Path(path).read_text(encoding="utf-8")
    out = hashlib.sha256(text.encode())
    root = _KERNELS if _is_kernel_file(path) else os.path.dirname(path)
    for name in _IMPORTED.findall(text):
        out.update(source_stamp(os.path.join(root, *name.split(".")) + ".py"))
    return out.digest()


def _is_kernel_file(path: str) -> bool:
    """Return whether a file lies below the folder of kernels."""
    return path.startswith(_KERNELS + os.sep)


def _knowing(locator: Any) -> Any:
    class Knowing(locator):  # type: ignore[misc]
        def get_source_stamp(self) -> bytes:
            return source_stamp(self._py_file)

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            ours = _is_kernel_file(py_file) and os.path.isfile(py_file)
            return super().from_function(py_func, py_file) if ours else None

    return Knowing


caching.CacheImpl._locator_classes[:0] = [
    _knowing(each)
    for each in (caching.UserProvidedCacheLocator, caching.InTreeCacheLocator, caching.UserWideCacheLocator)
]
