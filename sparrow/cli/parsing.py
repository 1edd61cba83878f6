"""Groups and commands of typer that parse help and completion without pydantic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Group"]


class Command(TyperCommand):
    """Command whose missing values and texts are not validated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command."""
        _skip_validation(self, ctx)
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """Group of commands whose missing values and texts are not validated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the group."""
        _skip_validation(self, ctx)
        return super().parse_args(ctx, args)


def _skip_validation(command: Any, ctx: Any) -> None:
    """Make a command accept values that have their type already without validation.

    typer validates values, even those that are missing, by pydantic, whose import takes longer than its own.
    """
    for param in command.get_params(ctx):
        if hasattr(param, "type_descriptor") and "process_value" not in vars(param):
            vars(param)["process_value"] = partial(_process_value, param, param.process_value)


def _process_value(param: Any, validate: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    """Return the value of a parameter, as its method ``process_value`` does."""
    if ctx.resilient_parsing:  # for completion, which runs nothing
        return value
    kind = param.type_descriptor
    found: Any
    if value is None:
        found = () if param.multiple or param.nargs == -1 else None
    elif type(value) is kind.annotation or (isinstance(value, str) and value in (kind.choices or ())):
        found = value
    elif kind.annotation == list[str]:
        found = list(value)
    else:
        return validate(ctx, value)
    if param.required and param.value_is_missing(found):
        return validate(ctx, value)  # raises
    return found if param.callback is None else param.callback(ctx, param, found)
