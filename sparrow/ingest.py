"""Files to stored tensors: ``sp.ingest.<format>(src, dst, ...)``.

On the command line ``sparrow ingest <format> SRC DST``. Every format streams within the memory limit, shows its
progress and is atomic: failure, a kill or Ctrl-C leaves nothing visible. Text formats detect compression from the
content and take several files, a glob, or ``"-"`` for standard input. The functions are made from the formats in
:mod:`sparrow.io.base.registry`.
"""

from __future__ import annotations

import inspect
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from sparrow.functions.creation import open as open_stored
from sparrow.io.base.registry import Format, formats, signature_of
from sparrow.storage.fs.failures import DoneClaim, translate_read_errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec

    from sparrow.io.base.registry import Reader
    from sparrow.io.binary.alx import Alx
    from sparrow.io.binary.binsparse import Binsparse
    from sparrow.io.binary.h5ad import H5ad
    from sparrow.io.binary.npy import Npy
    from sparrow.io.binary.npz import Npz
    from sparrow.io.binary.tenx import Tenx
    from sparrow.io.binary.webgraph import WebGraph
    from sparrow.io.tabular.options import Columns
    from sparrow.io.text.documents import Text
    from sparrow.io.text.edges import Edges
    from sparrow.io.text.libffm import Libffm
    from sparrow.io.text.libsvm import Libsvm
    from sparrow.io.text.metis import Metis
    from sparrow.io.text.mtx import MatrixMarket
    from sparrow.io.text.tns import Tns
    from sparrow.io.text.triples import Triples

    P = ParamSpec("P")

    def _as_function(reader: Callable[P, Reader]) -> Callable[P, Any]: ...

    # Static types of the functions that __getattr__ makes.
    columns, edges, libsvm = _as_function(Columns), _as_function(Edges), _as_function(Libsvm)
    mtx, npz, tns = _as_function(MatrixMarket), _as_function(Npz), _as_function(Tns)
    alx, metis, webgraph = _as_function(Alx), _as_function(Metis), _as_function(WebGraph)
    h5ad, libffm, npy, tenx = _as_function(H5ad), _as_function(Libffm), _as_function(Npy), _as_function(Tenx)
    binsparse, text, triples = _as_function(Binsparse), _as_function(Text), _as_function(Triples)

__all__: list[str]


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [each.name for each in formats().values() if each.reader is not None]
    if not name.startswith("_") and name in __getattr__("__all__"):
        return _function(formats()[name])
    raise AttributeError(f"module 'sparrow.ingest' has no attribute {name!r}: formats are {', '.join(__dir__())}")


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))


@cache
def _function(format: Format) -> Callable[..., Any]:
    """Return the function that stores a file of a format and opens the result."""
    reader = format.reader
    assert reader is not None
    document = inspect.getdoc(reader) or ""
    returns = document.partition("Returns\n-------\n")[2].split("\n", 1)[0]
    signature = signature_of(reader, returns)

    def ingest(*args: Any, **options: Any) -> Any:
        try:
            given = signature.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"{format.name}() {error}") from None
        src = given.arguments.get("src", "")
        with translate_read_errors(str(src) if isinstance(src, str | os.PathLike) else f"the {type(src).__name__}"):
            stored = reader(*given.args, **given.kwargs).ingest()
        with DoneClaim(f"{os.fspath(stored)!r} is complete"):
            return open_stored(stored)

    ingest.__name__ = ingest.__qualname__ = format.name
    ingest.__module__ = __name__
    ingest.__doc__ = document
    vars(ingest)["__signature__"] = signature
    ingest.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    ingest.__annotations__["return"] = returns
    return ingest
