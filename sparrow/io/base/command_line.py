"""Parsed commands that errors suggest, and the equivalent calls in Python."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparrow.io.base.registry import DeclaredOption, formats, options_of
from sparrow.io.base.suggestion import with_options

__all__ = ["Command", "dtype_of_fill", "option_flags", "parse_command", "with_known_options"]

_START = "sparrow ingest "


class Command(NamedTuple):
    """Parsed ``sparrow ingest [FORMAT] SRC DST [OPTIONS]``.

    Examples
    --------
    >>> command = parse_command("sparrow ingest columns 'my file.csv' DST --coords user,item --no-header")
    >>> command.call("out", {"relabel": True})
    "sp.ingest.columns('my file.csv', 'out', coords=['user', 'item'], header=False, relabel=True)"
    """

    format: str | None
    """None if it is to be detected."""
    sources: tuple[str, ...]
    options: Mapping[str, Any]

    def call(self, dst: str, more: Mapping[str, Any], src: str | None = None) -> str:
        """Return the call in Python.

        Parameters
        ----------
        dst
            Folder to create.
        more
            Further options; those that the format does not have are left out.
        src
            Expression for the source, if it is no path.
        """
        options = {**self.options}
        known = more if self.format is None else _known(self.format)
        options |= {name: value for name, value in _known_options(more, known).items() if name not in options}
        sources = [*self.sources]
        shown = src or repr(sources if len(sources) > 1 else sources[0])
        words = [shown, repr(dst), *(f"{name}={_literal(value)}" for name, value in options.items())]
        return f"sp.ingest{'' if self.format is None else '.' + self.format}({', '.join(words)})"


def parse_command(command: str) -> Command | None:
    """Return a suggested command without pipes, None for others."""
    if not command.startswith(_START):
        return None
    words = shlex.split(command)[2:]
    kind = words.pop(0) if words[0] in formats() else None
    start = next((k for k, word in enumerate(words) if word.startswith("--")), len(words))
    return Command(kind, tuple(words[: start - 1]), _parse_options(words[start:], _known(kind)))


def with_known_options(command: str, options: Mapping[str, Any]) -> str:
    """Return a suggested command with those further options its format has."""
    found = re.search(r"\bsparrow ingest (\S+) ", command)
    known = _known(None if found is None else found[1])
    return with_options(command, _known_options(options, known))


def _known_options(options: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Return the options that a format has, and a dtype that holds the fill."""
    dtype = dtype_of_fill(options.get("fill_value", 0))
    options = options if dtype is None else {"dtype": dtype, **options}
    return {name: value for name, value in options.items() if name in known}


def dtype_of_fill(fill_value: Any) -> str | None:
    """Return the dtype to ask for, None if integers hold the fill value."""
    fill = np.asarray(fill_value)
    if fill.dtype.kind == "c" or (fill.dtype.kind == "f" and not float(fill).is_integer()):
        return str(np.result_type(fill, "float64"))
    return None


def option_flags() -> dict[str, str]:
    """Return the names of the options of all formats, by their spellings."""
    return {flag: name for known in formats() for name, each in _known(known).items() for flag in _spellings(each)}


def _known(format: str | None) -> dict[str, DeclaredOption]:
    """Return the options of a format by name."""
    reader = None if format is None or format not in formats() else formats()[format].reader
    return {} if reader is None else {each.name: each for each in options_of(reader)}


def _spellings(option: DeclaredOption) -> tuple[str, ...]:
    """Return the spelling of an option, and that of a boolean one that is off."""
    plain = option.name.replace("_", "-")
    if option.option.flag is not None:
        return tuple(option.option.flag.split("/"))
    return (f"--{plain}", f"--no-{plain}") if _is_flag(option) else (f"--{plain}",)


def _is_flag(option: DeclaredOption) -> bool:
    return option.option.flag is not None or (isinstance(option.default, bool) and not option.choices)


def _parse_options(words: Sequence[str], known: Mapping[str, DeclaredOption]) -> dict[str, Any]:
    """Return the options in words of a command line."""
    flags = {flag: (each, k == 0) for each in known.values() for k, flag in enumerate(_spellings(each))}
    options: dict[str, Any] = {}
    left = [*words]
    while left:
        each, is_on = flags[left.pop(0)]
        options[each.name] = is_on if _is_flag(each) else _parse_value(left.pop(0), each)
    return options


def _parse_value(text: str, option: DeclaredOption) -> Any:
    if option.option.parse is not None:
        return option.option.parse(text)
    for choice in option.choices:
        if str(choice) == text:
            return choice
    with contextlib.suppress(ValueError):
        return int(text) if option.type is int else text.replace("\\t", "\t")
    return text


def _literal(value: Any) -> str:
    """Return an expression for a value of an option."""
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return repr(np.dtype(value).name)
    return f"float({str(value)!r})" if isinstance(value, float) and not re.match(r"-?\d", repr(value)) else repr(value)
