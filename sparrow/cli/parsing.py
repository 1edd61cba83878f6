"""Groups and commands of typer that parse help and completion without pydantic."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Group", "suggest_flags"]


class Command(TyperCommand):
    """Command whose missing values and texts are not validated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command."""
        _skip_validation(self, ctx)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "possibilities"):  # an unknown option
                flags = [flag for param in self.params for flag in param.opts if flag.startswith("--")]
                close = suggest_flags(getattr(error, "option_name", ""), flags)
                vars(error)["possibilities"] = close or error.possibilities
            raise


def suggest_flags(word: str, flags: Collection[str]) -> list[str]:
    """Return the option that is meant by an unknown one, if there is one like it."""
    from sparrow.io.base.option_names import closest_option

    names = {flag.removeprefix("--").replace("-", "_"): flag for flag in flags}
    close = closest_option(word.strip("-").replace("-", "_"), names)
    return [] if close is None else [names[close]]


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
