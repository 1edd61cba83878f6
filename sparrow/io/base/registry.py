"""The formats of files: what reads and what writes each, and their options, declared once.

A format is a module of this package that holds a tuple ``FORMATS``, and a word in ``_MODULES`` below. Its reader and
its writer are dataclasses whose fields are the options: the type tells the choices, an :class:`Option` what the command
line says, the docstring the rest. ``sp.ingest``, ``sp.export`` and the command line are made of that.
"""

from __future__ import annotations

import ast
import dataclasses
import gzip
import importlib
import inspect
import os
import re
from abc import ABC, abstractmethod
from collections import abc
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, MISSING, dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)  # fmt: skip

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from sparrow.core.schema import check_dtype
from sparrow.errors import ExistsError, InvalidValueError, UnsupportedError
from sparrow.io.base.source import SourceLike
from sparrow.io.tuning import tuning
from sparrow.kernels.coo import Duplicates as DuplicateRule
from sparrow.storage import is_bundle, is_tensor
from sparrow.storage.fs.filesystem import atomic_write
from sparrow.storage.fs.remote_file import pin_file_versions
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "COMPRESSION_SUFFIXES",
    "DeclaredOption",
    "Format",
    "Option",
    "Reader",
    "Writer",
    "compressing",
    "description_of",
    "formats",
    "options_of",
    "parse_dtype",
    "parse_id_kinds",
    "parse_names",
    "parse_number",
    "parse_shape",
    "register",
    "signature_of",
    "unregister",
]  # fmt: skip

_MODULES = (
    "tabular.readers", "tabular.options", "text.edges", "text.libsvm", "text.libffm", "text.mtx", "binary.npz",
    "binary.npy", "text.tns", "binary.webgraph", "binary.alx", "text.metis", "text.triples", "binary.tenx",
    "binary.h5ad", "binary.binsparse", "text.documents",
)  # fmt: skip

COMPRESSION_SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""How text is compressed whose name ends so."""


# -- options ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """What the command line says of an option, and how it reads it, where its type does not tell."""

    help: str
    metavar: str | None = None
    flag: str | None = None
    """How a yes-or-no option is spelled: ``"--directed/--undirected"``."""
    least: int | None = None
    parse: Callable[[str], Any] | None = None
    """Makes a value of a text, or raises ``ValueError``."""


class DeclaredOption(NamedTuple):
    """An option as its dataclass declares it."""

    name: str
    type: Any
    default: Any
    """``dataclasses.MISSING`` where it must be given."""
    choices: tuple[Any, ...]
    """The values there are, where the type is a ``Literal``."""
    option: Option


@cache
def options_of(kind: type[Reader | Writer]) -> tuple[DeclaredOption, ...]:
    """Return the options of a reader or writer: its own, then those that all have."""
    hints = get_type_hints(kind, include_extras=True)
    shared = {field.name for base in (Reader, Writer) for field in dataclasses.fields(base)}
    found = []
    for field in sorted(dataclasses.fields(kind), key=lambda field: field.name in shared):
        hint = hints[field.name]
        if field.kw_only:
            option = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Option)), Option(""))
            plain = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
            found.append(DeclaredOption(field.name, plain, field.default, _choices(plain), option))
    return tuple(found)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type; of types that are not known here all are."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is tuple or origin is abc.Sequence:
        wanted = parts[0]
        return isinstance(value, abc.Sequence | np.ndarray) and all(_fits(each, wanted) for each in value)
    if origin is abc.Mapping:
        return isinstance(value, abc.Mapping) and all(_fits(each, parts[0]) for each in value)
    if hint in (int, float):
        known = (int, np.integer) if hint is int else (int, float, np.integer, np.floating)
        return isinstance(value, known) and not isinstance(value, bool)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if origin is os.PathLike:
        return isinstance(value, os.PathLike)
    return isinstance(value, hint) if hint in (str, NoneType) else True


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the values of a ``Literal``, or of those in a union."""
    parts = get_args(hint)
    if getattr(hint, "__origin__", None) is Literal:
        return parts
    return tuple(choice for part in parts for choice in _choices(part))


class _Declaring:
    """A dataclass whose fields are options: they are checked, of the types that Python has itself."""

    def __post_init__(self) -> None:
        for each in options_of(type(self)):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if value is None and each.default is None:
                continue
            if not each.choices:
                if not _fits(value, each.type):
                    wanted = next(field.type for field in dataclasses.fields(self) if field.name == each.name)  # type: ignore[arg-type]
                    raise InvalidValueError(f"{each.name}={value!r}: give {_shown(wanted)}")
                if each.option.least is not None and value < each.option.least:
                    raise InvalidValueError(f"{each.name}={value!r}: give at least {each.option.least}")
                continue
            known = [choice for choice in each.choices if choice is value or str(choice) == str(value)]
            if not known:
                *most, last = map(repr, each.choices)
                raise InvalidValueError(f"{each.name}={value!r}: use {', '.join(most)} or {last}")
            setattr(self, each.name, known[0])


# -- readers and writers ---------------------------------------------------------------------------


@dataclass
class Reader(_Declaring, ABC):
    """What stores files of a format; its fields are the options, its docstring is that of ``sp.ingest.<format>``."""

    src: SourceLike
    dst: str | os.PathLike[str]
    _: KW_ONLY
    overwrite: Annotated[bool, Option("Replace what stands at DST.")] = False
    if_exists: Annotated[
        Literal["error", "open", "replace"], Option("What to do where a tensor or bundle stands at DST already.")
    ] = "error"
    profile: Annotated[Literal["fast", "small"], Option("Fast to read, or small on disk.")] = "fast"

    accepts_many: ClassVar[bool] = True
    """Whether ``src`` may name several files."""
    examples: ClassVar[str] = ""
    """Lines of the command line."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.overwrite and self.if_exists == "open":
            raise InvalidValueError("overwrite=True replaces what is there and if_exists='open' keeps it: give one")
        self.overwrite = self.overwrite or self.if_exists == "replace"

    def ingest(self) -> str:
        """Store the files at ``dst`` unless ``if_exists`` is "open" and something is there, and return it."""
        there = is_bundle(self.dst) or is_tensor(self.dst)
        if there and self.if_exists == "open":
            return os.fspath(self.dst)
        try:
            with pin_file_versions():
                return self.read()
        except ExistsError as error:
            raise ExistsError(f"{error}, or if_exists='open' to open it") if there else error from None

    @abstractmethod
    def read(self) -> str:
        """Store the files at ``dst``, whole or not at all, and return it."""


@dataclass
class Writer(_Declaring, ABC):
    """What writes a tensor or bundle to a file of a format; its fields are the options."""

    source: Tensor | Bundle
    dst: str
    """The file, ``"-"`` for standard output."""

    text: ClassVar[bool] = True
    """Whether it is text, which may be compressed; other formats compress inside."""
    writes_labels: ClassVar[bool] = False
    """Whether the file holds labels."""

    @abstractmethod
    def write(self) -> int:
        """Write the file, whole or not at all, and return the number of rows."""

    @property
    def tensor(self) -> Tensor:
        """The source, which must be one tensor."""
        if isinstance(self.source, Tensor):
            return self.source
        members = ", ".join(map(repr, self.source))
        raise UnsupportedError(f"a bundle is exported as libsvm, or tensor by tensor: it holds {members}")

    @contextmanager
    def sink(self) -> Iterator[Any]:
        """Open the file, which takes its name when the block ends well, or standard output."""
        import sys

        if self.dst == "-":
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        with atomic_write(self.dst) as file, compressing(file, self.dst) if self.text else nullcontext(file) as sink:
            yield sink


def compressing(file: Any, name: str | os.PathLike[str]) -> AbstractContextManager[Any]:
    """Return what writes to a file, compressed where the name ends in ``.gz``, ``.zst`` or ``.bz2``."""
    compression = COMPRESSION_SUFFIXES.get(Path(name).suffix)
    if compression is None:
        return nullcontext(file)
    if compression == "gzip":
        return gzip.GzipFile("", "wb", tuning().gzip_level, file, mtime=0)
    return _compressing(file, compression)


@contextmanager
def _compressing(file: Any, compression: str) -> Iterator[Any]:
    """Compress for a file that stays open, which pyarrow's stream would close."""
    with pa.PythonFile(_Open(file), mode="w") as below, pa.CompressedOutputStream(below, compression) as sink:
        yield sink


class _Open:
    """A file to write to that is closed by somebody else."""

    closed = False

    def __init__(self, file: Any) -> None:
        self.write, self.flush = file.write, file.flush

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name, a line about it, what reads it, what writes it, and what its files are called."""

    name: str
    summary: str
    reader: type[Reader] | None = None
    writer: type[Writer] | None = None
    suffixes: tuple[str, ...] = ()


_added: dict[str, Format] = {}


def register(format: Format) -> None:
    """Add a format of another package; those of sparrow are in ``FORMATS`` of their modules.

    Raises
    ------
    InvalidValueError
        If there is a format of that name.
    """
    if format.name in formats():
        raise InvalidValueError(f"there is a format {format.name!r} already: choose another name")
    _added[format.name] = format


def unregister(name: str) -> None:
    """Remove a format that :func:`register` added."""
    del _added[name]


def formats() -> Mapping[str, Format]:
    """Return all formats by name."""
    modules = (importlib.import_module(f"sparrow.io.{name}") for name in _MODULES)
    return {each.name: each for module in modules for each in module.FORMATS} | _added


# -- what is made of the declarations --------------------------------------------------------------


def signature_of(kind: type[Reader], returns: str) -> inspect.Signature:
    """Return the signature of the function that a reader is in ``sp.ingest``."""
    given = {field.name: field for field in dataclasses.fields(kind)}
    parameter = inspect.Parameter
    found = [
        parameter(name, parameter.POSITIONAL_OR_KEYWORD, annotation=_shown(given[name].type)) for name in ("src", "dst")
    ]
    for each in options_of(kind):
        default = parameter.empty if each.default is MISSING else each.default
        shown = _shown(given[each.name].type)
        found.append(parameter(each.name, parameter.KEYWORD_ONLY, default=default, annotation=shown))
    return inspect.Signature(found, return_annotation=returns)


def _shown(annotation: Any) -> str:
    """Return the text of an annotation without what only the command line reads."""
    tree = ast.parse(str(annotation), mode="eval").body
    if isinstance(tree, ast.Subscript) and ast.unparse(tree.value) == "Annotated" and isinstance(tree.slice, ast.Tuple):
        tree = tree.slice.elts[0]
    return ast.unparse(tree)


def description_of(kind: type) -> str:
    """Return what a docstring says before its first section."""
    return re.split(r"\n+[A-Z]\w*\n-{4,}\n", inspect.getdoc(kind) or "")[0].strip()


# -- what options are made of ----------------------------------------------------------------------


def parse_names(text: str) -> list[str]:
    """Return the names in ``A,B,...``."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"{text!r} is no list of names: give them as A,B,...")
    return names


def parse_value_names(text: str) -> str | list[str]:
    """Return the name, or the names in ``A,B,...``."""
    names = parse_names(text)
    return names if len(names) > 1 else text


def parse_shape(text: str) -> tuple[int | None, ...]:
    """Return the sizes in ``M,N,...``, None for each question mark."""
    try:
        return tuple(None if size.strip() == "?" else int(size) for size in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is no shape: give sizes as M,N,... with ? for what fits") from None


def parse_id_kinds(text: str) -> dict[str, str]:
    """Return the kinds in ``A=str,B=int,...`` by name."""
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(name.strip() and kind.strip() in ("str", "int") for name, _, kind in pairs):
        raise ValueError(f"{text!r} tells no kinds of ids: give them as A=str,B=int,...")
    return {name.strip(): kind.strip() for name, _, kind in pairs}


def parse_number(text: str) -> int | float:
    """Return the number that a text is, an integer where it is whole."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
    return int(number) if number.is_integer() else number


def parse_dtype(text: str) -> np.dtype[Any]:
    """Return the type of values that a text names."""
    try:
        return check_dtype(text)
    except (TypeError, UnsupportedError):
        raise ValueError(f"{text!r} is no type of values: say for example float32, int64 or bool") from None


Duplicates: TypeAlias = Annotated[DuplicateRule, Option("What becomes of several values for one cell.")]
"""The rule for entries of one cell, as an option."""

DType: TypeAlias = Annotated[DTypeLike | None, Option("Type of the values, such as float32.", parse=parse_dtype)]
"""The type of the values, as an option."""
