"""Error messages in the spelling of the command line."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import typer

from sparrow.cli.parsing import Command, Group

__all__ = ["Program", "respell", "respelled_errors"]


class _Command(Command):
    """Command whose errors name its options."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from sparrow.runtime.progress import respelled_notes

        flags = _flags(self.params)
        with (
            respelled_errors(self.params),
            respelled_notes(partial(_respell_note, flags=flags)),
            _respelled_warnings(flags),
        ):
            return super().invoke(ctx)


class Program(typer.Typer):
    """Program whose commands name their options in errors."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"cls": Group, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[..., Any]:
        """Return a decorator that makes a command of a function."""
        return super().command(name, cls=_Command, **options)


@contextmanager
def respelled_errors(params: Iterable[Any]) -> Iterator[None]:
    """Raise the errors of a block with options in place of arguments."""
    from sparrow.errors import IngestError, SparrowError

    try:
        yield
    except IngestError as error:
        error.problem = respell(error.problem, _flags(params))
        raise
    except SparrowError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (respell(error.args[0], _flags(params)), *error.args[1:])
        raise


def _flags(params: Iterable[Any]) -> dict[str, tuple[str, str | None]]:
    """Return the options of a command, by the arguments they set."""
    return {
        option.name: (option.opts[0], option.secondary_opts[0] if option.secondary_opts else None)
        for option in params
        if option.name and option.opts[0].startswith("--")
    }


@contextmanager
def _respelled_warnings(flags: Mapping[str, tuple[str, str | None]]) -> Iterator[None]:
    """Show warnings with options in place of arguments."""
    show = warnings.showwarning

    def show_respelled(message: Warning | str, *where: Any, **more: Any) -> None:
        show(respell(str(message), flags), *where, **more)

    warnings.showwarning = show_respelled
    try:
        yield
    finally:
        warnings.showwarning = show


_RENAMED_OPTIONS = {"version": "at"}
"""Options by the arguments they set, where the names differ."""
_VERBS = {"add_order": "orders --add"} | {
    name: name for name in ("append", "compact", "history", "resize", "restore", "vacuum", "verify")
}
_AS_EDGES = (
    "sparrow export PATH FILE.edges, then sparrow ingest edges FILE.edges DST, makes a graph whose rows and columns "
    "have the same labels"
)
_PYTHON_ONLY = (
    (r"save the model with model\.save\(path\)", "train it with sparrow als --out FOLDER"),
    (r"sp\.open\(('[^']*'), version=(\d+)\)\.save\(\.\.\., overwrite=True\) brings it back",
     r"sparrow export \1 FILE --at \2 writes it to a file"),
    (r"sp\.ingest\(src, dst\)", "sparrow ingest SRC DST"),
    (r"sp\.datasets\.list\(\)", "sparrow datasets"),
    (r"\b(sp\.ingest\.\w+ does with) (\w+)=True", r"\1 --\2"),
    (r", or A\.refill\(0\)|; see refill\(\)|: put\(\) writes it", ""),
    (r"A\.sel\(\{.*\}\) puts the rows in the order of the columns|select the common labels with sel\(\)", _AS_EDGES),
    (r"sp\.export\(A, 'a\.edges'\), then .* makes a graph whose rows and columns have the same labels", _AS_EDGES),
    (r"add them with set_labels\(\), or map", "map"),
    (r", or remove the labels first with set_labels\('[^']*', None\)", ""),
)  # fmt: skip
"""Ways out that exist in Python only, and what a command offers instead."""
_ARGUMENT_NAME = r"(?<![^\s(])[a-z]+(?:_[a-z]+)+(?=[\s,:;)]|$)"
"""An argument mentioned by itself: a word with an underscore."""
_LEADING_NAME = re.compile(r"^[a-z_][a-z_0-9]*(?= must )")
"""The argument that an error is about, as in ``dtype must be ...``."""
_QUOTED_LIST = r"'[^']*'(?:(?:, | or )'[^']*')*"
_PLAIN_ITEMS = r"\['[\w.-]+'(?:, '[\w.-]+')*\]|\(\d+(?:, \d+)*,?\)|\{'[^',]+': '\w+'(?:, '[^',]+': '\w+')*\}"
"""A list, tuple of numbers or mapping whose items a command line separates by commas."""


def _respell_note(text: str, flags: Mapping[str, tuple[str, str | None]]) -> str:
    """Replace arguments in a note that tells to pass them, and leave facts alone."""
    return respell(text, flags) if re.search(r"\b(pass|omit) \w+=|\bsp\.|: put\(\)", text) else text


def respell(text: str, flags: Mapping[str, tuple[str, str | None]]) -> str:
    """Replace arguments and methods in a text by options and commands."""

    def find_flags(name: str) -> tuple[str, str | None] | None:
        return flags.get(name) or flags.get(_RENAMED_OPTIONS.get(name, ""))

    def spell_name(found: re.Match[str]) -> str:
        option = find_flags(found[0])
        return found[0] if option is None else option[0]

    def spell_value(found: re.Match[str]) -> str:
        option, value = find_flags(found["name"]), found["value"]
        if option is None and "to sparrow ingest columns" in text:
            option = f"--{found['name'].replace('_', '-')}", None
        if option is None:
            return found[0]
        on, off = option
        if value in ("True", ""):
            return on
        if value == "False":
            return off or f"no {on}"
        if value[:1] in ("[", "(", "{"):
            items = value[1:-1].replace("'", "").replace(": ", "=").rstrip(",").split(", ")
            return f"{on} {shlex.quote(','.join(items))}"
        if value.count("'") > 2:
            return f"{on} {value.replace(chr(39), '')}"
        return f"{on} {shlex.quote(value.strip(chr(39)))}"

    text = re.sub(
        r"name the columns that make a tensor, sp\.open\(('[^']*'), coords=\[\.\.\.\], value=\.\.\.\)",
        lambda found: f"store it as a tensor, sparrow ingest {found[1]} DST names its columns", text,
    )  # fmt: skip
    for pattern, replacement in _PYTHON_ONLY:
        text = re.sub(pattern, replacement, text)
    if "overwrite" not in flags:
        text = text.replace("or pass overwrite=True to replace it", "or remove it first")
    text = re.sub(r"sp\.config\((?P<name>\w+)=\.\.\.\)", lambda found: f"--{found['name'].replace('_', '-')}", text)
    text = re.sub(rf"\b(?:A\.)?({'|'.join(_VERBS)})\(\)", lambda found: f"'sparrow {_VERBS[found[1]]}'", text)
    text = re.sub(
        r"\bsp\.(ingest|export)(?:\.(\w+))?\b(?!\.\w|\()",
        lambda found: " ".join(("sparrow", *filter(None, found.groups()))),
        text,
    )
    text = _LEADING_NAME.sub(spell_name, text)
    text = re.sub(_ARGUMENT_NAME, spell_name, text)
    return re.sub(
        rf"\b(?P<name>[a-z_]+)=(?P<value>{_QUOTED_LIST}|{_PLAIN_ITEMS}|\w+|(?=[\s,:;)]|$))", spell_value, text
    )
