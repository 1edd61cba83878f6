"""Errors in the words of the command line: ``--overwrite`` where a function says ``overwrite=True``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand

from sparrow.errors import IngestError, SparrowError

__all__ = ["Program"]


class _Command(TyperCommand):
    """A command whose errors spell its own options."""

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        flags = {
            option.name: (option.opts[0], option.secondary_opts[0] if option.secondary_opts else None)
            for option in self.params
            if option.name and option.opts[0].startswith("--")
        }
        try:
            return super().invoke(ctx)
        except IngestError as error:
            error.problem = _respelled(error.problem, flags)
            raise
        except SparrowError as error:
            if error.args and isinstance(error.args[0], str):
                error.args = (_respelled(error.args[0], flags), *error.args[1:])
            raise


class Program(typer.Typer):
    """A program, or a part of one, of commands that spell errors as they spell their options."""

    def command(self, name: str | None = None, **options: Any) -> Callable[..., Any]:
        """Return what makes a command of a function."""
        return super().command(name, cls=_Command, **options)


_OTHERS = {"version": "at"}
"""Options that are called otherwise than the arguments that they give."""
_VERBS = {"add_order": "orders"} | {
    name: name for name in ("append", "compact", "history", "resize", "restore", "vacuum", "verify")
}
_WORD = r"(?<![^\s(])[a-z]+(?:_[a-z]+)+(?=[\s,:;)]|$)"
"""An argument named by itself: with an underscore, which words of English have not."""
_LIST = r"'[^']*'(?:(?:, | or )'[^']*')*"


def _respelled(text: str, flags: Mapping[str, tuple[str, str | None]]) -> str:
    """Return a text with options, on and off, and verbs as the command line spells them."""

    def spelled(found: re.Match[str]) -> str:
        name = found["name"] if found["name"] in flags else _OTHERS.get(found["name"], "")
        if name not in flags:
            return found[0]
        on, off = flags[name]
        value = found["value"]
        if value in ("True", ""):
            return on
        if value == "False":
            return off or found[0]
        if value.count("'") > 2:
            return f"{on} {value.replace(chr(39), '')}"
        return f"{on} {shlex.quote(value.strip(chr(39)))}"

    if "overwrite" not in flags:
        text = text.replace("or pass overwrite=True to replace it", "or remove it first")
    text = re.sub(r"sp\.config\((?P<name>\w+)=\.\.\.\)", lambda found: f"--{found['name'].replace('_', '-')}", text)
    text = re.sub(rf"\b(?:A\.)?({'|'.join(_VERBS)})\(\)", lambda found: f"'sparrow {_VERBS[found[1]]}'", text)
    text = re.sub(
        r"\bsp\.(ingest|export)(?:\.(\w+))?\b", lambda found: " ".join(("sparrow", *filter(None, found.groups()))), text
    )
    text = re.sub(_WORD, lambda found: flags[found[0]][0] if found[0] in flags else found[0], text)
    return re.sub(rf"\b(?P<name>[a-z_]+)=(?P<value>{_LIST}|\w+|(?=[\s,:;)]|$))", spelled, text)
