"""Groups and commands of typer that parse help and completion without pydantic."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Group", "suggest_flags"]


class Command(TyperCommand):
    """Command whose missing values and texts are not validated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command."""
        _skip_validation(self, ctx)
        words = list(args)  # parsing consumes the other list
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "possibilities"):  # an unknown option
                flags = [flag for param in self.params for flag in param.opts if flag.startswith("--")]
                close = suggest_flags(getattr(error, "option_name", ""), flags)
                vars(error)["possibilities"] = close or error.possibilities
                number = next((word for word in words if re.fullmatch(r"-\d[\d.,:]*", word)), None)
                if number is not None and number.startswith(getattr(error, "option_name", "--")):
                    way = f"put -- before a negative number, as in -- {number}"
                    vars(error)["message"] = f"No such option: {number}: {way}"
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the line of usage."""
        return [_spell_usage(piece) for piece in super().collect_usage_pieces(ctx)]


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


def _spell_usage(piece: str) -> str:
    """Return an argument in a line of usage: PATH, [INDEX], or [ROW]... for several.

    typer puts braces around what is required, and brackets around those that a metavar has already.
    """
    if piece.startswith("{"):
        return piece.replace("{", "").replace("}", "")
    own = re.fullmatch(r"\[(\[.*|.*\.\.\.)\](?:\.\.\.)?", piece)
    if own is None:
        return piece
    return own[1] if own[1].startswith("[") else f"[{own[1]}]"


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
        try:
            return validate(ctx, value)
        except typer.BadParameter as error:
            error.message = _spell_expected(error.message, value)
            raise
    if param.required and param.value_is_missing(found):
        return validate(ctx, value)  # raises
    return found if param.callback is None else param.callback(ctx, param, found)


_EXPECTED = {
    r"Input should be a valid integer.*": "must be an integer",
    r"Input should be a valid number.*": "must be a number",
    r"Input should be a finite number": "must be finite",
    r"Input should be greater than or equal to (.*)": r"must be at least \1",
    r"Input should be less than or equal to (.*)": r"must be at most \1",
    r"(?:Value error, )?.* is not one of (.*?)\.?": r"must be one of \1",
}
"""Messages of validation, as regular expressions, and what they expect."""


def _spell_expected(message: str, value: Any) -> str:
    """Return the message of a value that failed validation."""
    for pattern, expected in _EXPECTED.items():
        found = re.fullmatch(pattern, message, re.DOTALL)
        if found is not None:
            return f"{found.expand(expected)}, got {value if _is_number(value) else repr(value)}"
    return message.removeprefix("Value error, ")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or re.fullmatch(r"-?\d+(\.\d*)?", str(value)) is not None
