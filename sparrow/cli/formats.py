"""Command-line options made from the declarations of file formats."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from typing import Annotated, Any, Literal

import typer

from sparrow.io.base.registry import DeclaredOption, formats

__all__ = ["command", "given", "list_option", "parameter"]


def parameter(declared: DeclaredOption) -> inspect.Parameter:
    """Return a declared option as a function parameter for typer."""
    option, default = declared.option, declared.default
    words: list[str] = [option.flag or _name(declared)] if _is_flag(declared) else []
    least: dict[str, Any] = {} if option.minimum is None else {"min": option.minimum}
    kind: Any = str if option.parse is not None else declared.type
    if declared.choices:
        kind = Literal[tuple(map(str, declared.choices))]
        default = default if default is None or default is MISSING else str(default)
    elif _is_flag(declared):
        kind = bool
    elif option.parse is not None and default is not MISSING:
        default = None if default in (None, ()) else str(default)
    if default is None:
        kind = kind | None
    info = typer.Option(*words, help=option.help, metavar=option.metavar, **least)
    given = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(
        declared.name, inspect.Parameter.KEYWORD_ONLY, default=given, annotation=Annotated[kind, info]
    )


def _is_flag(declared: DeclaredOption) -> bool:
    return (isinstance(declared.default, bool) or declared.option.flag is not None) and not declared.choices


def _name(declared: DeclaredOption) -> str:
    """Return the spelling of an option, with ``--no-`` if it is on by default."""
    name = declared.name.replace("_", "-")
    return f"--{name}/--no-{name}" if declared.default is True else f"--{name}"


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
        from sparrow.cli.arguments import write_table

        if wanted:
            rows = [
                (each.name, each.summary.rstrip("."), " ".join(each.suffixes))
                for each in formats().values()
                if getattr(each, way) is not None
            ]
            write_table(rows, ("format", "content", "suffixes"))
            raise typer.Exit

    return typer.Option("--list", callback=show, is_eager=True, help="List the formats and exit.")
