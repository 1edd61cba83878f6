"""Commands ``sql`` and ``shell``: queries of stored tensors."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from sparrow.cli.answers import name_tables, respell, write_answer
from sparrow.cli.arguments import At, Head, interruptible

__all__ = ["add_to"]

AllowSideEffects: TypeAlias = Annotated[
    bool, typer.Option("--allow-side-effects", help="Run COPY, INSTALL, ATTACH and the like too.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command()(sql)
    app.command()(shell)


def sql(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUERY PATH...",
            help="A query in DuckDB's SQL, - for standard input, and tensors that it names: PATH by its file, "
            "NAME=PATH as NAME.",
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="Read the query from a file.")
    ] = None,
    at: At = None,
    head: Head = 50,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV, all rows.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, all rows.")] = False,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="The value of $NAME in the query; repeatable."),
    ] = None,
    allow_side_effects: AllowSideEffects = False,
) -> None:
    """Query stored tensors in SQL: a column for each dimension, then value.

    \b
    Examples:
      sparrow sql "from 'web.sparrow' select count(*)"
      sparrow sql "select dst, count(*) as links from web
                   group by dst order by links desc limit 5" web.sparrow
      sparrow sql -f links.sql web=data/cnr-2000.sparrow
    """
    import duckdb

    from sparrow.errors import InvalidValueError
    from sparrow.functions.sql import run_query

    given = list(words or [])
    if file is None and not given:
        raise typer.BadParameter("pass QUERY, - for standard input, or -f FILE")
    query = _read_query(given.pop(0) if file is None else file, file is not None)
    named = name_tables(given, at)
    params = _read_params(param or [])
    version = int(at) if at is not None and at.isdigit() else at
    try:
        answer = run_query(query, params or None, allow_side_effects, named, (), version=version)
        write_answer(answer, head, "json" if as_json else "csv" if as_csv else "table", fetch=interruptible)
    except (duckdb.Error, InvalidValueError) as error:
        raise respell(error, named) from error


def shell(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Tensors to open: PATH by its file's name, NAME=PATH as NAME."),
    ] = None,
    head: Head = 50,
    allow_side_effects: AllowSideEffects = False,
) -> None:
    """Query stored tensors at a prompt, or run the statements of standard input.

    A statement ends in a semicolon. .help lists the commands of the shell; Ctrl-C stops a query. At the prompt all
    statements run; those of standard input only read, unless --allow-side-effects is given.

    \b
    Examples:
      sparrow shell web.sparrow
      sparrow shell web.sparrow < links.sql
    """
    from sparrow.cli.shell import Shell

    Shell(name_tables(paths or []), head, allow_side_effects).run()


def _read_params(texts: Sequence[str]) -> dict[str, Any]:
    """Return parameters by name.

    Numbers, true, false and null are those of JSON, anything else is text.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals) or name in found:
            raise typer.BadParameter(f"--param must be NAME=VALUE, each name once, got {text!r}")
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value
        found[name] = parsed if isinstance(parsed, bool | int | float | None) else value
    return found


def _read_query(text: str, is_file: bool) -> str:
    """Return a query from a file, from standard input, or as given."""
    if text == "-":
        return sys.stdin.read()
    return Path(text).read_text(encoding="utf-8") if is_file else text
