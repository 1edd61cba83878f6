"""Files in, stored tensors out: ``sp.ingest.<format>(src, dst, ...)``, as ``sparrow ingest <format> SRC DST``.

Every format streams within the memory limit, shows its progress, tells compression from the content,
takes several files or a glob and ``"-"`` for standard input, and is atomic: failure, a kill or Ctrl-C
leaves nothing visible.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from sparrow.creation import open as open_stored
from sparrow.readers.columns import columns as _columns
from sparrow.readers.edges import edges as _edges
from sparrow.readers.libsvm import libsvm as _libsvm

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["columns", "edges", "libsvm"]

P = ParamSpec("P")


def _opened(read: Callable[Concatenate[Any, P], str]) -> Callable[Concatenate[Any, P], Any]:
    """Return a reader that returns what :func:`sparrow.open` does instead of the path."""

    @wraps(read)
    def ingest(src: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return open_stored(read(src, *args, **kwargs))

    return ingest


libsvm = _opened(_libsvm)
edges = _opened(_edges)
columns = _opened(_columns)
