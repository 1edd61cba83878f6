"""SQL statements by DuckDB's parser: kind, side effects, parameters, tables."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparrow.errors import InvalidValueError, UnsupportedError

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "bind_params", "check_no_side_effects", "explained_query", "statement_kind", "table_spellings", "to_lower",
    "words_of",
]  # fmt: skip

_WRITING_WORDS = frozenset({"copy", "delete", "insert", "merge", "update"})
"""Keywords of the statements that a common table expression may contain."""
_QUERY_WORDS = frozenset({
    "desc", "describe", "explain", "from", "pivot", "pivot_longer", "pivot_wider", "select", "show", "summarize",
    "table", "unpivot", "values", "with",
})  # fmt: skip
"""Keywords with which a query begins."""
_QUERY_NODE = "_QUERY_NODE"
"""End of the types of statements in a syntax tree, except ``SELECT_NODE``."""


def statement_kind(statement: duckdb.Statement) -> str:
    """Return the kind of a statement, such as ``"SELECT"``."""
    try:
        return statement.type.name
    except ValueError:  # newer than the list of duckdb for Python
        return "an unknown statement"


def check_no_side_effects(con: duckdb.DuckDBPyConnection, query: str, kind: str) -> None:
    """Raise ``UnsupportedError`` unless a statement only reads.

    Parameters
    ----------
    con
        Parses, and runs nothing.
    query
        The statement.
    kind
        Its kind.
    """
    found = next(_side_effects(con, query, kind), None)
    if found is not None:
        raise UnsupportedError(
            f"sql: the statement must be a query, got {found}: write to tensors to change them, and use your own "
            "connection for tables of DuckDB, or pass allow_side_effects=True to run it here"
        )


def _side_effects(con: duckdb.DuckDBPyConnection, query: str, kind: str) -> Iterator[str]:
    """Yield the kinds of statements with side effects in a statement."""
    if kind == "EXPLAIN":  # which runs it, after ANALYZE
        yield from _effects_of_explained(con, query)
    elif kind not in {"SELECT", "MULTI"}:
        yield kind
    else:
        words = _keywords(query)
        if kind == "MULTI":  # a pivot, which DuckDB shows no syntax tree of
            yield from (word.upper() for word in words[:1] if word not in _QUERY_WORDS)
            yield from (word.upper() for word in words if word in _WRITING_WORDS)
        elif not _WRITING_WORDS.isdisjoint(words):  # perhaps as names of columns
            ((tree,),) = con.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
            yield from (kind.removesuffix(_QUERY_NODE) for kind in _node_types(json.loads(tree)) if _QUERY_NODE in kind)


def _effects_of_explained(con: duckdb.DuckDBPyConnection, query: str) -> Iterator[str]:
    found = explained_query(con, query)
    if found is None:
        yield "EXPLAIN"
    else:
        yield from _side_effects(con, *found)


def explained_query(con: duckdb.DuckDBPyConnection, query: str) -> tuple[str, str] | None:
    """Return the statement that an ``EXPLAIN`` is about and its kind, or None."""
    import duckdb

    text = query.encode()
    for offset, _ in itertools.islice(duckdb.tokenize(query), 1, None):  # its options come first
        rest = text[offset:].decode()
        try:
            (inner,) = con.extract_statements(rest)
        except (duckdb.Error, ValueError):
            continue
        return rest, statement_kind(inner)
    return None


def words_of(query: str) -> set[str]:
    """Return the names, keywords and other tokens of a query in lower case."""
    return {to_lower(text.strip('"')) for text, _ in _tokens(query)}


def _keywords(query: str) -> list[str]:
    """Return the keywords of a query in lower case, in order."""
    return [text.lower() for text, kind in _tokens(query) if kind == "keyword"]


def _tokens(query: str) -> Iterator[tuple[str, str]]:
    """Yield the tokens of a query with their kinds."""
    import duckdb

    text, tokens = query.encode(), duckdb.tokenize(query)
    ends = [*(offset for offset, _ in tokens[1:]), len(text)]
    for (offset, kind), end in zip(tokens, ends, strict=True):
        yield text[offset:end].decode(errors="replace").strip(), kind.name


def _node_types(tree: Any) -> Iterator[str]:
    """Yield the types of all nodes of a syntax tree."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(node.get("type"), str):
                yield node["type"]
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def bind_params(params: Any, wanted: Collection[str]) -> Any:
    """Return the values of parameters as DuckDB takes them.

    Parameters
    ----------
    params
        A sequence, a mapping or None.
    wanted
        Names of the parameters of the query; numbers of those without names.

    Raises
    ------
    UnsupportedError
        If ``params`` are of another type.
    InvalidValueError
        If they are not one for each parameter.
    """
    if params is None:
        given: dict[str, Any] = {}
    elif isinstance(params, Mapping):
        given = {str(name): value for name, value in params.items()}
    elif isinstance(params, Sequence) and not isinstance(params, str | bytes):
        given = {str(number): value for number, value in enumerate(params, 1)}
    else:
        raise UnsupportedError(f"params must be a list or a dict, got {type(params).__name__}")
    if given.keys() != set(wanted):
        has = ", ".join(f"${name}" for name in sorted(wanted)) or "no parameters"
        got = ", ".join(f"${name}" for name in sorted(given)) or "none"
        raise InvalidValueError(
            f"sql: params must have a value for each parameter of the query and no others: it has {has}, got {got}"
        )
    plain = {name: _as_python(value) for name, value in given.items()}
    if not plain:
        return None
    return plain if isinstance(params, Mapping) else list(plain.values())


def _as_python(value: Any) -> Any:
    """Return a NumPy scalar as Python's; DuckDB takes those of dates only."""
    return value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value


def table_spellings(con: duckdb.DuckDBPyConnection, query: str, name: str) -> set[str]:
    """Return the spellings of a table in a query that differ in case."""
    import duckdb

    try:
        names = set(con.get_table_names(query))
    except duckdb.Error:  # it does not bind, or has parameters
        names = {text.strip('"') for text, _ in _tokens(query)}
    return {found for found in names if to_lower(found) == to_lower(name)}


def to_lower(name: str) -> str:
    """Return a name as DuckDB compares it, with ASCII letters in lower case."""
    return re.sub("[A-Z]", lambda letter: letter[0].lower(), name)
