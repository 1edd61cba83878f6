"""Files to stored tensors: ``sp.ingest(src, dst)``, ``sp.ingest.<format>``.

On the command line ``sparrow ingest SRC DST`` and ``sparrow ingest <format> SRC DST``. Without a format the first bytes
and lines tell it if there is evidence; else the error shows what they hold, and the calls that are likely. Every format
streams within the memory limit, shows its progress and is atomic: failure, a kill or Ctrl-C leaves nothing visible.
Text formats detect compression from the content and take several files, a glob, an open file, or ``"-"`` for standard
input. The functions are made from the formats in :mod:`sparrow.io.base.registry`.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sparrow.errors import IngestError, InvalidValueError
from sparrow.functions.creation import open as open_stored
from sparrow.io.base.option_names import unknown_option
from sparrow.io.base.registry import Format, formats, options_of, signature_of
from sparrow.io.base.source import as_rereadable
from sparrow.runtime import progress
from sparrow.runtime.validation import check_path
from sparrow.storage import is_bundle, is_tensor
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


__all__: list[str]


class _Ingest(ModuleType):
    """Type of this module, which can be called: ``sp.ingest(src, dst)``."""

    if TYPE_CHECKING:  # the functions that __getattr__ makes
        columns, edges = staticmethod(_as_function(Columns)), staticmethod(_as_function(Edges))
        libsvm, libffm = staticmethod(_as_function(Libsvm)), staticmethod(_as_function(Libffm))
        mtx, tns = staticmethod(_as_function(MatrixMarket)), staticmethod(_as_function(Tns))
        npz, npy = staticmethod(_as_function(Npz)), staticmethod(_as_function(Npy))
        alx, webgraph = staticmethod(_as_function(Alx)), staticmethod(_as_function(WebGraph))
        metis, triples = staticmethod(_as_function(Metis)), staticmethod(_as_function(Triples))
        h5ad, tenx = staticmethod(_as_function(H5ad)), staticmethod(_as_function(Tenx))
        binsparse, text = staticmethod(_as_function(Binsparse)), staticmethod(_as_function(Text))
        __all__: list[str]

    def __call__(self, src: Any, dst: str | os.PathLike[str], **options: Any) -> Any:
        r"""Store a file of any format as a tensor, and open it.

        Parameters
        ----------
        src
            Path, glob pattern, folder, open file, or a list of these, whose format is detected. A table or frame is
            read by ``sp.ingest.columns``.
        dst
            Folder to create.
        **options
            Options of the format, as those of ``sp.ingest.edges``. They decide between formats that are likely:
            ``coords=`` makes lines of a table a table.

        Returns
        -------
        Tensor or Bundle
            ``sp.open(dst)``.

        Raises
        ------
        IngestError
            If the content tells no format, or several are likely: with what was seen, and the calls that read it.
        InvalidValueError
            If ``src`` is ``"-"``: the format of standard input cannot be detected.
        TypeError
            If the format, or every format, has no such option: with the one that is likely meant.
        NotFoundError
            If a file is missing or a pattern matches none.

        Examples
        --------
        >>> from pathlib import Path
        >>> import sparrow as sp
        >>> size = Path("small.txt").write_text("+1 3:0.5 7:1\n-1 2:1\n")
        >>> sp.ingest("small.txt", "small.sparrow")["X"].shape
        (2, 7)
        """
        target = check_path(dst, "dst")
        readers = [each.reader for each in formats().values() if each.reader is not None]
        known = list(dict.fromkeys(each.name for reader in readers for each in options_of(reader)))
        for name in options:
            if name not in known:
                raise unknown_option("ingest", name, known)
        if options.get("if_exists") == "open" and (is_tensor(target) or is_bundle(target)):
            return open_stored(target)
        if not _holds_files(src):
            if "coords" not in options:
                kind = type(src).__name__
                raise InvalidValueError(f"src must be a path or file, or a table whose coords= are given, got {kind}")
            return _function(formats()["columns"])(src, dst, **options)
        from sparrow.io.base.detect import detect_format

        words = as_rereadable(src)
        shown = None if all(isinstance(each, str) for each in words) else "src"
        try:
            found = detect_format(words, options)
            progress.write_note(found.describe(words))
            return _function(formats()[found.format])(words if len(words) > 1 else words[0], dst, **options)
        except IngestError as error:
            _suggest_calls(error, target, options, shown)
            raise


def _holds_paths(src: Any) -> bool:
    """Return whether a source is a path, or a list of these."""
    items = src if isinstance(src, list | tuple) else [src]
    return all(isinstance(each, str | os.PathLike) for each in items)


def _holds_files(src: Any) -> bool:
    """Return whether a source is a path or an open file, or a list of these."""
    items = src if isinstance(src, list | tuple) else [src]
    return all(isinstance(each, str | os.PathLike) or hasattr(each, "read") for each in items)


def _suggest_calls(error: IngestError, dst: str, options: dict[str, Any], src: str | None) -> None:
    """Turn commands of an error into calls, unless they need other programs."""
    from sparrow.io.base.command_line import parse_command, with_known_options
    from sparrow.io.base.suggestion import with_destination

    commands = [(each, parse_command(each)) for each in error.commands]
    error.commands = tuple(
        with_destination([with_known_options(command, options)], dst)[0] if parsed is None
        else parsed.call(dst, options, src)
        for command, parsed in commands
    )  # fmt: skip
    error.problem = re.sub(r"\bsparrow ingest (?=[a-z])", "sp.ingest.", error.problem)


sys.modules[__name__].__class__ = _Ingest
if TYPE_CHECKING:
    module = _Ingest(__name__)


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
        known = [*signature.parameters]
        for name in options:
            if name not in known:
                raise unknown_option(format.name, name, known[2:])
        try:
            given = signature.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"{format.name}() {error}") from None
        src = given.arguments.get("src", "")
        with translate_read_errors(str(src) if isinstance(src, str | os.PathLike) else f"the {type(src).__name__}"):
            try:
                stored = reader(*given.args, **given.kwargs).ingest()
            except IngestError as error:
                is_typed = src != "-" and _holds_paths(src)
                _suggest_calls(error, os.fspath(given.arguments["dst"]), {}, None if is_typed else "src")
                raise
        with DoneClaim(f"{os.fspath(stored)!r} is complete"):
            return open_stored(stored)

    ingest.__name__ = ingest.__qualname__ = format.name
    ingest.__module__ = __name__
    ingest.__doc__ = document
    vars(ingest)["__signature__"] = signature
    ingest.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    ingest.__annotations__["return"] = returns
    return ingest
