"""``njit`` for the loops of this package: what is kept of them compiled knows of the loops that they call.

Numba keeps a loop as long as the file that it is written in stays as it is. Those that it calls are compiled into it,
so that after an upgrade one called with other arguments than it has by now, which ends the process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import caching

__all__ = ["njit", "stamp"]

_TAKEN = re.compile(r"^from sparrow\.kernels\.(\w+) import", re.MULTILINE)


@functools.cache
def stamp(path: str) -> bytes:
    """Return what tells a file of loops and all files of loops that it takes some from, one after the other."""
    text = Path(path).read_text(encoding="utf-8")
    out = hashlib.sha256(text.encode())
    for name in _TAKEN.findall(text):
        out.update(stamp(os.path.join(os.path.dirname(path), f"{name}.py")))
    return out.digest()


def _knowing(locator: Any) -> Any:
    class Knowing(locator):  # type: ignore[misc]
        def get_source_stamp(self) -> bytes:
            return stamp(self._py_file)

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            ours = os.path.dirname(py_file) == os.path.dirname(__file__) and os.path.isfile(py_file)
            return super().from_function(py_func, py_file) if ours else None

    return Knowing


caching.CacheImpl._locator_classes[:0] = [
    _knowing(each)
    for each in (caching.UserProvidedCacheLocator, caching.InTreeCacheLocator, caching.UserWideCacheLocator)
]
