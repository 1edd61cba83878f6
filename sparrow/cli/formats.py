"""Command-line options made from the declarations of file formats.

The declarations are in the modules of the formats, which import NumPy, Arrow and more. ``formats.json`` has what help
and completion need of them, so that these import nothing; ``python -m sparrow.cli.formats`` writes it. With formats of
other packages the modules are imported.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

if TYPE_CHECKING:
    from sparrow.io.base.registry import DeclaredOption

__all__ = [
    "Declarations", "DeclaredFormat", "OptionHelp", "ReaderHelp", "command", "declarations", "declare", "given",
    "list_option", "parameter", "read_table",
]  # fmt: skip

_TABLE = Path(__file__).with_name("formats.json")
_REGISTRY = "sparrow.io.base.registry"
_TYPES = {"flag": bool, "int": int, "float": float, "str": str}


class OptionHelp(NamedTuple):
    """Option of a format, as the command line shows it."""

    name: str
    kind: str
    """``"flag"``, ``"choice"``, ``"int"``, ``"float"`` or ``"str"``."""
    help: str
    required: bool = False
    default: Any = None
    choices: Sequence[str] = ()
    metavar: str | None = None
    flag: str | None = None
    """Spelling of a flag, such as ``"--directed/--undirected"``."""
    minimum: int | None = None


class ReaderHelp(NamedTuple):
    """Reader of a format, as ``sparrow ingest`` shows it."""

    accepts_many: bool
    description: str
    examples: str
    options: Sequence[OptionHelp]


class DeclaredFormat(NamedTuple):
    """File format, as the command line shows it."""

    name: str
    summary: str
    suffixes: Sequence[str]
    reader: ReaderHelp | None
    writer: Sequence[OptionHelp] | None
    """Options of the writer."""


class Declarations(NamedTuple):
    """All formats, and the options of ``append`` on how tables are read."""

    formats: Sequence[DeclaredFormat]
    append: Sequence[OptionHelp]


def declarations() -> Declarations:
    """Return all formats: built-in, of other packages, and registered ones."""
    from importlib.metadata import entry_points

    if _REGISTRY in sys.modules or entry_points(group="sparrow.formats"):
        return declare()
    return read_table()


@cache
def read_table() -> Declarations:
    """Return the formats of sparrow, from ``formats.json``."""

    def options(found: list[dict[str, Any]]) -> list[OptionHelp]:
        return [OptionHelp(**each | {"choices": tuple(each.get("choices", ()))}) for each in found]

    table = json.loads(_TABLE.read_text(encoding="utf-8"))
    for each in table["formats"]:
        if each["reader"] is not None:
            each["reader"] = ReaderHelp(**each["reader"] | {"options": options(each["reader"]["options"])})
        if each["writer"] is not None:
            each["writer"] = options(each["writer"])
    return Declarations([DeclaredFormat(**each) for each in table["formats"]], options(table["append"]))


def declare() -> Declarations:
    """Return the declarations of all formats, which are imported."""
    from sparrow.io.base.registry import description_of, formats, options_of
    from sparrow.io.tabular.append import reading_options

    found = []
    for each in formats().values():
        reader = writer = None
        if each.reader is not None:
            options = [_describe(option) for option in options_of(each.reader)]
            description = description_of(each.reader)
            reader = ReaderHelp(each.reader.accepts_many, description, each.reader.examples, options)
        if each.writer is not None:
            writer = [_describe(option) for option in options_of(each.writer)]
        found.append(DeclaredFormat(each.name, each.summary, list(each.suffixes), reader, writer))
    return Declarations(found, [_describe(option) for option in reading_options()])


def _describe(declared: DeclaredOption) -> OptionHelp:
    """Return a declared option as the command line shows it."""
    from dataclasses import MISSING

    option, default = declared.option, None if declared.default is MISSING else declared.default
    if declared.choices:
        kind, default = "choice", None if default is None else str(default)
    elif isinstance(default, bool) or option.flag is not None:
        kind = "flag"
    elif option.parse is not None:
        kind, default = "str", None if default in (None, ()) else str(default)
    else:
        kind = "int" if str(declared.type).startswith(("int", "<class 'int'")) else "str"
    return OptionHelp(
        declared.name, kind, option.help, declared.default is MISSING, default, tuple(map(str, declared.choices)),
        option.metavar, option.flag, option.minimum,
    )  # fmt: skip


def parameter(option: OptionHelp) -> inspect.Parameter:
    """Return an option as a function parameter for typer."""
    words = [option.flag or _spell_flag(option)] if option.kind == "flag" else []
    least: dict[str, Any] = {} if option.minimum is None else {"min": option.minimum}
    kind: Any = Literal[tuple(option.choices)] if option.kind == "choice" else _TYPES[option.kind]
    if option.default is None and not option.required:
        kind = kind | None
    info = typer.Option(*words, help=option.help, metavar=option.metavar, **least)
    default = inspect.Parameter.empty if option.required else option.default
    annotation = Annotated[kind, info]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _spell_flag(option: OptionHelp) -> str:
    """Return the spelling of a flag, with ``--no-`` if it is on by default."""
    name = option.name.replace("_", "-")
    return f"--{name}/--no-{name}" if option.default is True else f"--{name}"


def command(run: Callable[..., None], parameters: Sequence[inspect.Parameter], help: str) -> Callable[..., None]:
    """Return a function with these parameters, from which typer makes a command.

    Parameters
    ----------
    run
        Called with all parameters by name.
    parameters
        Parameters with annotations of typer.
    help
        Text of ``--help``.
    """

    def invoke(**words: Any) -> None:
        run(**words)

    vars(invoke)["__signature__"] = inspect.Signature(parameters)
    invoke.__annotations__ = {each.name: each.annotation for each in parameters}
    invoke.__doc__ = help
    return invoke


def given(context: typer.Context, options: Sequence[DeclaredOption], words: dict[str, Any]) -> dict[str, Any]:
    """Return the options given on the command line, as values.

    Raises
    ------
    typer.BadParameter
        If a value cannot be parsed.
    """
    out = {}
    for each in options:
        source = context.get_parameter_source(each.name)
        if source is None or source.name == "DEFAULT":
            continue
        value = words[each.name]
        try:
            out[each.name] = value if each.option.parse is None else each.option.parse(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=f"--{each.name.replace('_', '-')}") from None
    return out


def list_option(way: Literal["reader", "writer"]) -> Any:
    """Return the option ``--list``, which lists the formats and exits."""

    def show(wanted: bool) -> None:
        from sparrow.cli.tables import write_table

        if wanted:
            rows = [
                (each.name, each.summary.rstrip("."), " ".join(each.suffixes))
                for each in declarations().formats
                if getattr(each, way) is not None
            ]
            write_table(rows, ("format", "content", "suffixes"), folds=True)
            raise typer.Exit

    return typer.Option("--list", callback=show, is_eager=True, help="List the formats and exit.")


def _write_table() -> None:
    """Write ``formats.json``."""

    def plain(value: Any) -> Any:
        if hasattr(value, "_asdict"):
            defaults = value._field_defaults
            return {
                name: plain(each)
                for name, each in value._asdict().items()
                if name not in defaults or each != defaults[name]
            }
        return [plain(each) for each in value] if isinstance(value, list | tuple) else value

    text = json.dumps(plain(declare()), indent=1, ensure_ascii=False)
    _TABLE.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    _write_table()
