"""Command ``datasets``: published data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from sparrow.cli.arguments import AsJson, write_json, write_table

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
            write_table(found.rows(), found.HEADERS)
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


def _format(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={each!r}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
