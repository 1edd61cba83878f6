"""Command ``datasets``: published data sets."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from sparrow.cli.arguments import AsJson, write_json
from sparrow.cli.tables import is_terminal

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(datasets)


def datasets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Describe this data set.")] = None,
    as_json: AsJson = False,
) -> None:
    """List published data sets, or describe one.

    \b
    Examples:
      sparrow datasets
      sparrow datasets west0479
      sparrow ingest published west0479 west.sparrow --files downloads
    """
    from sparrow import datasets as published

    if name is None:
        found = published.list()
        if as_json:
            write_json(found)
        else:
            _list(found)
            typer.echo(_WHERE, err=True)
        return
    about = published.describe(name)
    if as_json:
        write_json(about)
        return
    for key, value in about.items():
        if key not in ("fetch", "unpack", "family"):
            typer.echo(f"{key:12}{_format(value)}")
    if "fetch" in about:
        typer.echo(published.way(name))


_WHERE = """\
here: comes with sparrow; cache: stored on this machine by sp.datasets.load;
fetch: published by its owner; 'sparrow datasets NAME' shows how to get it"""


def _list(found: Iterable[Mapping[str, Any]]) -> None:
    """Write a line for each data set, cut to the width of a terminal or 80."""
    rows = [("name", "format", "entries", "where", "title")]
    rows += [(each["name"], each["format"], _shorten(each["nnz"]), each["where"], each["title"]) for each in found]
    width = shutil.get_terminal_size().columns if is_terminal() else 80
    for name, kind, entries, where, title in rows:
        line = f"{name:<19}  {kind:<8}  {entries:>7}  {where:<5}  {title}"
        print(line if len(line) <= width else f"{line[: width - 1]}\N{HORIZONTAL ELLIPSIS}")


def _shorten(number: int | None) -> str:
    """Return a number with three digits and a unit.

    Examples
    --------
    >>> _shorten(3378), _shorten(3216152), _shorten(999_900), _shorten(None)
    ('3.38k', '3.22M', '1M', '')
    """
    if number is None:
        return ""
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= 0.9995 * unit:
            return f"{number / unit:.3g}{name}"
    return str(number)


def _format(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={each!r}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
