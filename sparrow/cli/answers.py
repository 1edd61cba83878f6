"""Queries of the command line: names of tensors, statements and results."""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import typer

from sparrow.cli.arguments import open_any, open_one, write_json
from sparrow.cli.tables import is_terminal, write_plan, write_table

if TYPE_CHECKING:
    import duckdb

    from sparrow.errors import InvalidValueError
    from sparrow.functions.sql import Answer
    from sparrow.tensor import Tensor

__all__ = ["Mode", "name_tables", "respell", "split_statements", "write_answer"]

Mode: TypeAlias = Literal["table", "csv", "json"]

_CSV_BATCH_ROWS = 65_536


def name_tables(words: Sequence[str], at: str | None = None) -> dict[str, Tensor]:
    """Open the tensors of ``PATH`` and ``NAME=PATH`` by name.

    The name of a path is that of its file without ``.sparrow``; a bundle gives its tensors by their own names.

    Raises
    ------
    typer.BadParameter
        If a word is no tensor, or two have the same name.
    """
    from sparrow.errors import NotFoundError
    from sparrow.functions.query_paths import stem, suggest_paths
    from sparrow.tensor import Tensor

    named: dict[str, Tensor] = {}

    def add(name: str, tensor: Tensor, word: str) -> None:
        if name in named:
            raise typer.BadParameter(f"{name!r} is given twice: {word!r}; name one of them, as in NAME=PATH")
        named[name] = tensor

    for word in words:
        name, equals, path = word.partition("=")
        if equals and not os.path.exists(word):
            if not (name and path):
                raise typer.BadParameter(f"must be PATH or NAME=PATH, got {word!r}")
            add(name, open_one(path, at), word)
            continue
        try:
            found = open_any(word)
        except NotFoundError:
            raise typer.BadParameter(f"no tensor is stored at {word!r}{suggest_paths(word)}") from None
        if isinstance(found, Tensor):
            add(stem(word), found if at is None else open_one(word, at), word)
        else:
            for member in found:
                add(member, found[member] if at is None else open_one(os.path.join(word, member), at), word)
    return named


def respell(
    error: duckdb.Error | InvalidValueError,
    names: Iterable[str],
    way: str = "pass it on the command line, as in NAME=PATH",
) -> InvalidValueError:
    """Return the error of a query with the way to name a tensor here.

    Parameters
    ----------
    error
        Error of DuckDB or of :func:`run_query`.
    names
        Tables that the query may name.
    way
        Way to name a further tensor.
    """
    import duckdb

    from sparrow.errors import InvalidValueError

    if not isinstance(error, duckdb.Error):
        return InvalidValueError(_KEYWORD.sub(way, str(error)))
    said, _, caret = str(error).partition("\n\n")
    refused = InvalidValueError(said)
    if caret.strip():
        refused.add_note(caret.rstrip())
    if isinstance(error, duckdb.ParserException | duckdb.CatalogException) and (quoted := _names_to_quote(names)):
        refused.add_note(f"Quotes belong around {', '.join(quoted)}")
    return refused


def _names_to_quote(names: Iterable[str]) -> list[str]:
    """Return those names in quotes that are no identifiers, or reserved words."""
    from sparrow.runtime.duckdb_connection import connect, quote_name

    with connect() as con:
        found = con.execute("select keyword_name from duckdb_keywords() where keyword_category = 'reserved'").fetchall()
    reserved = {word for (word,) in found}
    return [quote_name(name) for name in names if not re.fullmatch(r"[A-Za-z_]\w*", name) or name.lower() in reserved]


_KEYWORD = re.compile(r"pass it by keyword, as in sql\(query, .*?=A\)")


# -- statements ----------------------------------------------------------------------------------


def split_statements(text: str) -> tuple[list[str], str]:
    """Return the complete statements of a script, and what follows the last one.

    Semicolons in texts, quoted names and comments end nothing.

    Examples
    --------
    >>> split_statements("select ';'; -- two; in a line\\nfrom a; select")
    (["select ';';", '-- two; in a line\\nfrom a;'], 'select')
    """
    found, start = [], 0
    for token in _TOKEN.finditer(text):
        if token[0] == ";":
            found.append(text[start : token.end()].strip())
            start = token.end()
        elif token.lastgroup == "open":  # a text or comment without an end, so far
            break
    return [each for each in found if each != ";"], text[start:].strip()


_TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*(?:\n|$)|/\*.*?\*/|(\$\w*\$).*?\1|;|(?P<open>'|"|/\*|\$\w*\$)""",
    re.DOTALL,
)


# -- results -------------------------------------------------------------------------------------


def write_answer(
    answer: Answer, head: int, mode: Mode, more: str = "--head 0 writes all", *, fetch: Callable[..., Any]
) -> None:
    """Write the result of a query to standard output.

    Parameters
    ----------
    answer
        Result; columns of positions that only ``*`` names are left out.
    head
        Rows of a table, 0 for all.
    mode
        Format.
    more
        Way to get all rows of a table.
    fetch
        Calls a function that runs the query.
    """
    if answer.relation is None:
        return
    if answer.kind == "EXPLAIN" and mode == "table":
        write_plan(text for _, text in fetch(answer.relation.fetchall))
        return
    kept = [k for k, name in enumerate(answer.relation.columns) if name.lower() not in answer.implied]
    types = [str(answer.relation.types[k]).strip('"').lower() for k in kept]
    names = [answer.relation.columns[k] for k in kept]
    relation = _zones_as_text(answer.relation)
    if mode == "table":
        rows = fetch((relation.limit(head + 1) if head else relation).fetchall)
        cut = bool(head) and len(rows) > head
        rows = [tuple(row[k] for k in kept) for row in (rows[:head] if cut else rows)]
        count = f"the first {head:,} rows; {more}" if cut else f"{len(rows):,} {'row' if len(rows) == 1 else 'rows'}"
        write_table(rows, names, types, count)
        if cut and not is_terminal():
            typer.echo(f"the first {head} rows; {more}", err=True)
    elif mode == "json":
        keys = _make_unique(names)
        write_json([dict(zip(keys, (row[k] for k in kept), strict=True)) for row in fetch(relation.fetchall)])
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        reader = fetch(partial(relation.to_arrow_reader, _CSV_BATCH_ROWS))
        while (batch := fetch(partial(next, reader, None))) is not None:
            writer.writerows(zip(*(batch.column(k).to_pylist() for k in kept), strict=True))


def _zones_as_text(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Cast times with a time zone to text, for which DuckDB needs no package."""
    from sparrow.runtime.duckdb_connection import quote_name

    zoned = ["TIME ZONE" in str(kind) for kind in relation.types]
    if not any(zoned):
        return relation
    columns = (
        f"#{k}::varchar as {quote_name(name)}" if as_text else f"#{k}"
        for k, (name, as_text) in enumerate(zip(relation.columns, zoned, strict=True), 1)
    )
    return relation.project(", ".join(columns))


def _make_unique(names: Sequence[str]) -> list[str]:
    """Make names unique: ``a, a`` becomes ``a, a_1``."""
    found: list[str] = []
    for name in names:
        key, number = name, 0
        while key in found or (number and key in names):
            number += 1
            key = f"{name}_{number}"
        found.append(key)
    return found
