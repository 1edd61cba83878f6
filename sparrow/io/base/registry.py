"""Registry of file formats: reader, writer, options and detectors.

A format is one module that holds a tuple ``FORMATS``. Those of sparrow are in the table ``_MODULES``; other packages
add theirs by an entry point of the group ``sparrow.formats``, which names such a module, a :class:`Format` or a tuple
of them, or by :func:`register`. Readers and writers are dataclasses whose fields are the options: the type tells the
choices, an :class:`Option` how the command line spells it, the docstring the rest. ``sp.ingest``, ``sp.export`` and the
command line are made of these declarations.
"""

from __future__ import annotations

import ast
import dataclasses
import gzip
import importlib
import inspect
import os
import re
import warnings
from abc import ABC, abstractmethod
from collections import abc
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, MISSING, dataclass, field
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
from sparrow.errors import ExistsError, IngestError, InvalidValueError, UnsupportedError
from sparrow.io.base.magic import Advice, load_signatures_with, register_signatures
from sparrow.io.base.report import Report
from sparrow.io.base.sample import Detector, Stage
from sparrow.io.base.source import SourceLike
from sparrow.io.base.suggestion import with_options
from sparrow.io.tuning import tuning
from sparrow.kernels.coo import Duplicates as DuplicateRule
from sparrow.runtime.docs import SharedText
from sparrow.runtime.validation import check_path
from sparrow.storage import is_bundle, is_tensor
from sparrow.storage.fs.filesystem import atomic_write
from sparrow.storage.fs.remote_file import pin_file_versions
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "COMPRESSION_SUFFIXES", "ENTRY_POINT_GROUP", "DType", "DeclaredOption", "Duplicates", "FillValue", "Format",
    "Option", "Reader", "Writer", "compressing", "description_of", "formats", "options_of", "parse_dtype",
    "parse_id_kinds", "parse_names", "parse_number", "parse_shape", "parse_value_names", "register", "shared",
    "shared_help", "signature_of", "unregister",
]  # fmt: skip

_MODULES = (
    "tabular.writers", "tabular.options", "text.edges", "text.libffm", "text.libsvm", "text.mtx", "binary.npz",
    "binary.npy", "text.tns", "binary.webgraph", "binary.alx", "text.metis", "text.triples", "binary.binsparse",
    "binary.h5ad", "binary.tenx", "text.documents",
)  # fmt: skip
"""Modules of formats, relative to ``sparrow.io``. The order is that in which detectors are asked."""

ENTRY_POINT_GROUP = "sparrow.formats"

COMPRESSION_SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Compression of text files by the suffix of their name."""

_TEXTS = {
    "src": """
        src
            Path, glob pattern, ``"-"`` for standard input, an open file, or a list of these. gzip, zstd, bz2 and xz are
            detected from the content.
        """,
    "src_file": """
        src
            Path, ``"-"`` for standard input, or an open file. gzip, zstd, bz2 and xz are detected from the content.
        """,
    "dst": """
        dst
            Folder to create.
        """,
    "duplicates": """
        duplicates
            Rule for elements given more than once: ``"error"``, ``"sum"``, ``"last"``, ``"first"``, ``"min"`` or
            ``"max"``.
        """,
    "index_base": """
        index_base
            Number of the first coordinate: 0 or 1.
        """,
    "overwrite": """
        overwrite
            Replace what exists at ``dst``.
        """,
    "if_exists": """
        if_exists
            Action if a tensor or bundle exists at ``dst``: ``"error"``, ``"open"`` to open it and read nothing, or
            ``"replace"``, the same as ``overwrite=True``.
        """,
    "profile": """
        profile
            Storage profile: ``"fast"`` to read, ``"small"`` on disk or ``"portable"`` to older readers of Parquet.
        """,
    "fill_value": """
        fill_value
            Value of the elements that are not stored. Elements equal to it are dropped, and counted in the report; pass
            another one to keep zeros.
        """,
    "duplicate_error": """
        DuplicateError
            If an element is given more than once and ``duplicates`` is ``"error"``.
        """,
    "not_found": """
        NotFoundError
            If a file is missing or a pattern matches none.
        """,
    "exists": """
        ExistsError
            If something exists at ``dst`` and ``overwrite`` is not set.
        """,
    "invalid": """
        InvalidValueError
            If an argument has none of the values above.
        """,
}
shared = SharedText(
    **_TEXTS,
    storing="%(overwrite)s\n%(if_exists)s\n%(profile)s",
    store_errors="%(not_found)s\n%(exists)s\n%(invalid)s",
)
"""Parameters and errors that the readers have in common; decorates their classes."""


def shared_help(name: str) -> str:
    """Return the first sentence on a shared parameter, for the command line."""
    text = " ".join(inspect.cleandoc(_TEXTS[name]).partition("\n")[2].split())
    return re.split(r"[.:](?: |$)", text)[0].replace("``dst``", "DST").replace("``", "").replace('"', "") + "."


# -- options ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """Command-line side of an option: help, spelling and parser."""

    help: str
    metavar: str | None = None
    flag: str | None = None
    """Spelling of a boolean option: ``"--directed/--undirected"``."""
    minimum: int | None = None
    """Smallest value."""
    parse: Callable[[str], Any] | None = None
    """Converts a text to a value, or raises ``ValueError``."""


class DeclaredOption(NamedTuple):
    """Option of a reader or writer, as its dataclass declares it."""

    name: str
    type: Any
    default: Any
    """``dataclasses.MISSING`` if it is required."""
    choices: tuple[Any, ...]
    """Values of a ``Literal``; empty for other types."""
    option: Option


@cache
def options_of(kind: type[Reader | Writer]) -> tuple[DeclaredOption, ...]:
    """Return the options of a reader or writer, those of the base class last."""
    hints = get_type_hints(kind, include_extras=True)
    inherited = {each.name for base in (Reader, Writer) for each in dataclasses.fields(base)}
    found = []
    for each in sorted(dataclasses.fields(kind), key=lambda each: each.name in inherited):
        hint = hints[each.name]
        if each.kw_only:
            option = next(
                (extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Option)), Option("")
            )
            plain = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
            found.append(DeclaredOption(each.name, plain, each.default, _choices(plain), option))
    return tuple(found)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type; unknown types accept all values."""
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
    """Return the values of a ``Literal``, or of the literals in a union."""
    parts = get_args(hint)
    if getattr(hint, "__origin__", None) is Literal:
        return parts
    return tuple(choice for part in parts for choice in _choices(part))


class _Options:
    """Dataclass whose fields are options, checked when it is made."""

    def __post_init__(self) -> None:
        self.options = {
            each.name: value
            for each in options_of(type(self))  # type: ignore[arg-type]
            if not _equal(value := getattr(self, each.name), each.default)
        }
        """Options that differ from their defaults, as they were passed."""
        for each in options_of(type(self)):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if value is None and each.default is None:
                continue
            if not each.choices:
                if not _fits(value, each.type):
                    wanted = next(known.type for known in dataclasses.fields(self) if known.name == each.name)  # type: ignore[arg-type]
                    raise InvalidValueError(f"{each.name} must be {_unparse(wanted)}, got {value!r}")
                if each.option.minimum is not None and value < each.option.minimum:
                    raise InvalidValueError(f"{each.name} must be at least {each.option.minimum}, got {value!r}")
                continue
            known = [choice for choice in each.choices if choice is value or str(choice) == str(value)]
            if not known:
                *others, last = map(repr, each.choices)
                raise InvalidValueError(f"{each.name} must be {', '.join(others)} or {last}, got {value!r}")
            setattr(self, each.name, known[0])


def _equal(value: Any, default: Any) -> bool:
    """Return whether an option has its default."""
    if value is default:
        return True
    try:
        return type(value) is type(default) and bool(value == default)
    except (TypeError, ValueError):  # such as arrays
        return False


# -- readers and writers ---------------------------------------------------------------------------


@dataclass
class Reader(_Options, ABC):
    """Base of readers; fields are options, the docstring is that of ``sp.ingest``."""

    src: SourceLike
    dst: str | os.PathLike[str]
    _: KW_ONLY
    overwrite: Annotated[bool, Option(shared_help("overwrite"))] = False
    if_exists: Annotated[Literal["error", "open", "replace"], Option(shared_help("if_exists"))] = "error"
    profile: Annotated[Literal["fast", "small", "portable"], Option(shared_help("profile"))] = "fast"

    accepts_many: ClassVar[bool] = True
    """True if ``src`` may name more than one file."""
    examples: ClassVar[str] = ""
    """Command lines, for ``--help``."""
    unit: ClassVar[str] = "elements"
    """Plural noun for what the report counts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_path(self.dst, "dst")
        self.report = Report(self.unit)
        if self.overwrite and self.if_exists == "open":
            raise InvalidValueError("overwrite=True and if_exists='open' exclude each other: pass one of them")
        self.overwrite = self.overwrite or self.if_exists == "replace"

    def ingest(self, report: bool = False) -> str:
        """Store the source at ``dst``, subject to ``if_exists``, and return ``dst``.

        The report goes to standard error if something was lost, and in any case with ``report``.
        """
        there = is_bundle(self.dst) or is_tensor(self.dst)
        if there and self.if_exists == "open":
            return os.fspath(self.dst)
        try:
            with pin_file_versions():
                path = self.read()
            self.report.publish(self.source_name, always=report)
            return path
        except ExistsError as error:
            if self.if_exists == "open" and (is_bundle(self.dst) or is_tensor(self.dst)):  # made meanwhile
                return os.fspath(self.dst)
            raise ExistsError(f"{error}, or if_exists='open' to open it") if there else error from None
        except IngestError as error:
            error.commands = tuple(map(self._complete, error.commands))
            raise

    @property
    def format_name(self) -> str:
        """Name of the format."""
        return next((each.name for each in formats().values() if each.reader is type(self)), type(self).__name__)

    def _complete(self, command: str) -> str:
        """Return a suggested command with the format and options of this reader."""
        command = command.replace("sparrow ingest FORMAT ", f"sparrow ingest {self.format_name} ")
        same = f"sparrow ingest {self.format_name} " in command
        return with_options(command, self.options) if same else command

    @property
    def source_name(self) -> str:
        """Name of the source in messages."""
        items = self.src if isinstance(self.src, list | tuple) and self.src else [self.src]
        first: Any = items[0]
        name = os.fspath(first) if isinstance(first, str | os.PathLike) else getattr(first, "name", None)
        more = f" and {len(items) - 1} more" if len(items) > 1 else ""
        return f"{name if isinstance(name, str) else type(first).__name__}{more}"

    @abstractmethod
    def read(self) -> str:
        """Store the source at ``dst``, atomically, and return ``dst``."""


@dataclass
class Writer(_Options, ABC):
    """Base of writers of a tensor or bundle to a file: the fields are the options."""

    source: Tensor | Bundle
    dst: str
    """File to create, ``"-"`` for standard output."""

    text: ClassVar[bool] = True
    """True if the format is text, which may be compressed as a whole."""
    writes_labels: ClassVar[bool] = False
    """True if the format holds labels."""
    writes_dims: ClassVar[bool] = False
    """True if the format holds names of dimensions."""
    writes_fill: ClassVar[bool] = True
    """True if the format holds the fill value, or refuses all but 0."""

    @abstractmethod
    def write(self) -> int:
        """Write the file, atomically, and return the number of rows."""

    @property
    def tensor(self) -> Tensor:
        """The source if it is a tensor; ``UnsupportedError`` otherwise."""
        if isinstance(self.source, Tensor):
            return self.source
        members = ", ".join(map(repr, self.source))
        raise UnsupportedError(
            f"the format takes one tensor, got a bundle: export its members {members} tensor by tensor, or as libsvm"
        )

    @contextmanager
    def sink(self) -> Iterator[Any]:
        """Open the file, published when the block succeeds, or standard output."""
        import sys

        if self.dst == "-":
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        with atomic_write(self.dst) as file, compressing(file, self.dst) if self.text else nullcontext(file) as sink:
            yield sink


def compressing(file: Any, name: str | os.PathLike[str]) -> AbstractContextManager[Any]:
    """Return a stream to a file, compressed for ``.gz``, ``.zst`` and ``.bz2``."""
    compression = COMPRESSION_SUFFIXES.get(Path(name).suffix)
    if compression is None:
        return nullcontext(file)
    if compression == "gzip":
        return gzip.GzipFile("", "wb", tuning().gzip_level, file, mtime=0)
    return _compressing(file, compression)


@contextmanager
def _compressing(file: Any, compression: str) -> Iterator[Any]:
    """Compress to a file that stays open, which pyarrow's stream would close."""
    with pa.PythonFile(_UnclosedFile(file), mode="w") as below, pa.CompressedOutputStream(below, compression) as sink:
        yield sink


class _UnclosedFile:
    """Output file that its owner closes."""

    closed = False

    def __init__(self, file: Any) -> None:
        self.write, self.flush = file.write, file.flush

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Format:
    """File format: reader, writer, suffixes and detectors."""

    name: str
    summary: str
    """One line, for lists of formats."""
    reader: type[Reader] | None = None
    writer: type[Writer] | None = None
    suffixes: tuple[str, ...] = ()
    """Suffixes for which :func:`sparrow.export` takes the format."""
    signatures: Mapping[bytes, tuple[str, Advice]] = field(default_factory=dict, hash=False)
    """First bytes of binary files: their kind, and the command that reads ``{file}``, for readers of text.

    A function may return the command for a path, which is empty if the file is compressed.
    """
    detectors: Mapping[Stage, Detector] = field(default_factory=dict, hash=False)
    """Functions that recognize a file, by the stage of detection."""


_added: dict[str, Format] = {}


def register(format: Format) -> None:
    """Add a format for this process.

    Raises
    ------
    InvalidValueError
        If a format of that name exists.
    """
    if format.name in formats():
        raise InvalidValueError(f"a format {format.name!r} already exists: choose another name")
    _added[format.name] = format
    register_signatures(format.signatures)


def unregister(name: str) -> None:
    """Remove a format that :func:`register` added."""
    del _added[name]


def formats() -> Mapping[str, Format]:
    """Return all formats by name: built-in, from entry points, and registered."""
    return _load_formats() | _added


@cache
def _load_formats() -> dict[str, Format]:
    """Load the formats of sparrow and of entry points; built-in names win."""
    from importlib.metadata import entry_points

    modules = (importlib.import_module(f"sparrow.io.{name}") for name in _MODULES)
    found: dict[str, Format] = {each.name: each for module in modules for each in module.FORMATS}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            loaded = point.load()
            loaded = getattr(loaded, "FORMATS", loaded)
            plugins = [loaded] if isinstance(loaded, Format) else list(loaded)
            if not all(isinstance(each, Format) for each in plugins):
                raise TypeError("it is not a Format, a list of Formats or a module with FORMATS")
        except Exception as error:  # noqa: BLE001 - a broken plugin must not break the others
            warnings.warn(f"file format {point.name!r} of {point.value} is ignored: {error}", stacklevel=4)
            continue
        for each in plugins:
            if each.name in found:
                warnings.warn(f"file format {each.name!r} of {point.value} is ignored: the name is taken", stacklevel=4)
            else:
                found[each.name] = each
    for each in found.values():
        register_signatures(each.signatures)
    return found


load_signatures_with(_load_formats)


# -- functions made of the declarations ------------------------------------------------------------


def signature_of(kind: type[Reader], returns: str) -> inspect.Signature:
    """Return the signature of a reader's function in ``sp.ingest``."""
    given = {each.name: each for each in dataclasses.fields(kind)}
    parameter = inspect.Parameter
    found = [
        parameter(name, parameter.POSITIONAL_OR_KEYWORD, annotation=_unparse(given[name].type))
        for name in ("src", "dst")
    ]
    for each in options_of(kind):
        default = parameter.empty if each.default is MISSING else each.default
        shown = _unparse(given[each.name].type)
        found.append(parameter(each.name, parameter.KEYWORD_ONLY, default=default, annotation=shown))
    return inspect.Signature(found, return_annotation=returns)


def _unparse(annotation: Any) -> str:
    """Return the source of an annotation without ``Annotated``."""
    tree = ast.parse(str(annotation), mode="eval").body
    if isinstance(tree, ast.Subscript) and ast.unparse(tree.value) == "Annotated" and isinstance(tree.slice, ast.Tuple):
        tree = tree.slice.elts[0]
    return ast.unparse(tree)


def description_of(kind: type) -> str:
    """Return the part of a docstring before its first section."""
    return re.split(r"\n+[A-Z]\w*\n-{4,}\n", inspect.getdoc(kind) or "")[0].strip()


# -- parsers of command-line options ---------------------------------------------------------------


def parse_names(text: str) -> list[str]:
    """Return the names in ``A,B,...``."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"names must be separated by commas, A,B,..., got {text!r}")
    return names


def parse_value_names(text: str) -> str | list[str]:
    """Return one name as it is, more names ``A,B,...`` as a list."""
    names = parse_names(text)
    return names if len(names) > 1 else text


def parse_shape(text: str) -> tuple[int | None, ...]:
    """Return the sizes in ``M,N,...``, with None for question marks."""
    try:
        return tuple(None if size.strip() == "?" else int(size) for size in text.split(","))
    except ValueError:
        raise ValueError(f"shape must be M,N,... with ? for sizes that follow from the data, got {text!r}") from None


def parse_id_kinds(text: str) -> dict[str, str]:
    """Return the kinds of ids in ``A=str,B=int,...`` by name."""
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(name.strip() and kind.strip() in ("str", "int") for name, _, kind in pairs):
        raise ValueError(f"ids must be A=str,B=int,..., got {text!r}")
    return {name.strip(): kind.strip() for name, _, kind in pairs}


def parse_number(text: str) -> int | float:
    """Return a number, as an integer if it is integral."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    return int(number) if number.is_integer() else number


def parse_dtype(text: str) -> np.dtype[Any]:
    """Return the dtype of a name."""
    try:
        return check_dtype(text)
    except (TypeError, UnsupportedError):
        raise ValueError(f"dtype must be one such as float32, int64 or bool, got {text!r}") from None


Duplicates: TypeAlias = Annotated[DuplicateRule, Option(shared_help("duplicates"))]
"""Type of the option ``duplicates``."""

FillValue: TypeAlias = Annotated[
    Any, Option("Value of the elements that are not stored.", metavar="NUMBER", parse=parse_number)
]
"""Type of the option ``fill_value``."""

DType: TypeAlias = Annotated[DTypeLike | None, Option("Type of the values, such as float32.", parse=parse_dtype)]
"""Type of the option ``dtype``."""
