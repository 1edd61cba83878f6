"""Groups of commands that are made when they are run or asked for help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

import typer
import typer.core
import typer.main

from sparrow.cli.parsing import Group
from sparrow.cli.spelling import Program

__all__ = ["LazyCommand", "LazyGroup", "make_command"]


class LazyCommand(NamedTuple):
    """Command that is not made yet."""

    summary: str
    """Its line in the help of the group."""
    add_to: Callable[[typer.Typer], None]
    """Adds the command to a program, perhaps with others."""


def make_command(lazy: LazyCommand, name: str) -> Any:
    """Return the command of that name."""
    app = Program(rich_markup_mode=None, callback=lambda: None)
    lazy.add_to(app)
    command = typer.main.get_group(app).commands[name]
    command.short_help = lazy.summary
    return command


class _Commands(MutableMapping[str, Any]):
    """Commands by name, each made when it is looked up."""

    def __init__(self, lazy: Mapping[str, LazyCommand]) -> None:
        self.lazy = lazy
        self.made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = make_command(self.lazy[name], name)
        return self.made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self.made[name] = command

    def __delitem__(self, name: str) -> None:
        del self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.lazy, **self.made})

    def __len__(self) -> int:
        return len({**self.lazy, **self.made})


class LazyGroup(Group):
    """Base of groups whose commands are made when they are looked up.

    Help and completion of the group itself make none of them.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands(self.lazy_commands)

    @property
    def lazy_commands(self) -> Mapping[str, LazyCommand]:
        """Commands by name, in the order of the help."""
        raise NotImplementedError

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands and what each is for."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in self.lazy_commands.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the commands and options that begin with what was typed."""
        commands = [
            typer.core.CompletionItem(name, help=each.summary)  # type: ignore[attr-defined]
            for name, each in self.lazy_commands.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *super(typer.core.TyperGroup, self).shell_complete(ctx, incomplete)]
