"""SQL over tensors: ``sp.sql``.

Every tensor that a query names becomes a temporary view of a connection of its own, made of the scan that its view
of the files means, so that DuckDB pushes the query's filters down to row groups together with the view's. An
expression is compiled with its operands into the same query; what SQL has no form for is computed when it is defined.

What the caller gives by keyword is defined first. A name that DuckDB then misses is looked up among the caller's
variables, defined, and the query bound again: DuckDB alone decides what in a query is the name of a relation.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import pyarrow as pa

from sparrow import database
from sparrow.database import quote_name
from sparrow.engines.duckdb import select
from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.plan import Scan

if TYPE_CHECKING:
    import duckdb

__all__ = ["sql"]

_LASTING = frozenset(
    {"ALTER", "ATTACH", "CREATE", "DELETE", "DETACH", "DROP", "INSERT", "SET", "TRANSACTION", "UPDATE"}
)
"""Kinds of statements that would change the database that all queries of the process share."""


class Scannable(Protocol):
    """A tensor, as far as a query needs to know it."""

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the dimensions."""

    def labels(self, dim: str, /) -> pa.Array | None:
        """Return the labels of a dimension, position = index, or None."""

    def __sparrow_scan__(self) -> Scan:
        """Return the plan of reading it."""


def sql(query: str, /, **tensors: Any) -> duckdb.DuckDBPyRelation:
    """Run SQL over tensors and tables, and return a DuckDB relation.

    A tensor is a relation with an integer column for each dimension, counted from 0, and a column ``value`` (a
    complex one has ``value`` and ``value_im``) with a row for each stored entry. Where a dimension ``d`` of ``A`` has
    labels, the relation ``A_d`` has columns ``d`` and ``label``, to join names with. Names are DuckDB's: the case of
    ASCII letters is ignored, and what is no plain word stands in double quotes. An expression such as ``A + B`` is
    computed inside the query wherever SQL gives what NumPy gives: ``A.explain(engine="duckdb")`` says where.

    The rows come in no particular order: say ``order by``.

    Parameters
    ----------
    query
        One statement in DuckDB's dialect.
    **tensors
        Tensors, Arrow tables, Polars frames, DuckDB relations and whatever else has ``__arrow_c_stream__``, by the
        names the query uses. Names not given here are looked for among the variables of the caller.

    Returns
    -------
    duckdb.DuckDBPyRelation
        Computed when it is fetched: ``fetchall()``, ``to_arrow_table()``, ``pl()``, ``df()``, ``show()``. It stays
        valid for as long as it is kept, whatever other queries call by the same names. Ctrl-C while it is fetched is a
        ``KeyboardInterrupt``.

    Raises
    ------
    InvalidValueError
        If the query names a relation that is nowhere, is not one statement, or names differ in case only.
    UnsupportedError
        If a name is given to something that is neither a tensor nor a table, or the statement changes a database.
    duckdb.Error
        If DuckDB does not accept the query.

    Examples
    --------
    >>> import sparrow as sp
    >>> web = sp.from_coords([[0, 0, 2], [1, 2, 0]], [1, 1, 1], shape=(3, 3), dims=("src", "dst"))
    >>> sp.sql("select src, count(*) as links from web group by src order by src").fetchall()
    [(0, 2), (2, 1)]
    >>> mutual = web + web.T.rename(src="dst", dst="src")
    >>> sp.sql("select count(*) from mutual where value > 1").fetchall()
    [(2,)]
    """
    frame = sys._getframe(1)
    for name, thing in tensors.items():
        if not _is_relation(thing):
            raise UnsupportedError(
                f"{name}= is given {_kind(thing)}, which is neither a tensor nor a table: give a tensor, or anything "
                "with __arrow_c_stream__"
            )
    con = database.connect()
    statements = con.extract_statements(query)
    if len(statements) != 1:
        raise InvalidValueError(f"the query holds {len(statements)} statements: give one")
    kind = statements[0].type.name
    if kind in _LASTING:
        raise UnsupportedError(
            f"sql answers a query, and this is a statement of kind {kind}: change tensors by writing to them, and use "
            "a connection of your own for tables of DuckDB"
        )
    for name, thing in tensors.items():
        _one_spelling(name, tensors)
        _define(con, name, thing)
    import duckdb

    defined: set[str] = set()
    while True:
        try:
            with database.interrupts():
                found = con.sql(query)
            if found is not None:  # what is no query has no relation
                found = database.answer(found, con)
            return found
        except duckdb.CatalogException as error:
            missing = re.match(r"Catalog Error: Table with name (.*) does not exist!", str(error), re.DOTALL)
            if missing is None or missing[1] in defined:
                raise
            name, problem = missing[1], error
        thing = _lookup(name, tensors, frame)
        if thing is None:
            raise InvalidValueError(
                f"the query names {name!r}, which is no tensor or table here: give it by keyword, as in "
                f"sql(query, {name if name.isidentifier() else 'name'}=A); tensors in scope: {_known(tensors, frame)}"
            ) from problem
        defined.add(name)
        _define(con, name, thing)


def _lookup(name: str, given: Mapping[str, Any], frame: FrameType) -> Any:
    """Return what a name of a query stands for, or None.

    A variable of the caller, local before enclosing before global; else the labels of a dimension of a tensor,
    ``<tensor>_<dimension>``.
    """
    scopes: list[Mapping[str, Any]] = [given, *_scopes(frame)]
    for scope in scopes[1:]:
        relations = {known: thing for known, thing in scope.items() if _is_relation(thing)}
        spelling = _one_spelling(name, relations)
        if spelling is not None:
            return relations[spelling]
    for scope in scopes:
        for known, thing in scope.items():
            if not _is_tensor(thing):
                continue
            for dim in thing.dims:
                if _lower(f"{known}_{dim}") == _lower(name) and (labels := thing.labels(dim)) is not None:
                    return pa.table({dim: np.arange(len(labels)), "label": labels})
    return None


def _scopes(frame: FrameType) -> list[Mapping[str, Any]]:
    """Return the variables that code in a frame may name, innermost first.

    Python keeps of the enclosing functions only those variables that the code itself names, and a name in a query is
    none of them: in a comprehension or a lambda they are looked for in the functions that made it, while these run.
    """
    found: list[Mapping[str, Any]] = [frame.f_locals]
    inner, outer = frame.f_code, frame.f_back
    while outer is not None:
        if inner in outer.f_code.co_consts:
            found.append(outer.f_locals)
            inner = outer.f_code
        outer = outer.f_back
    return [*found, frame.f_globals]


def _one_spelling(name: str, names: Mapping[str, Any]) -> str | None:
    """Return the name as it is spelled among names: exactly, or but for the case.

    Raises
    ------
    InvalidValueError
        If several are equal but for the case.
    """
    spellings = [known for known in names if _lower(known) == _lower(name)]
    if len(spellings) > 1:
        raise InvalidValueError(
            f"{' and '.join(map(repr, spellings))} differ in case only, which SQL does not tell apart: "
            "pass one of them by another name"
        )
    return spellings[0] if spellings else None


def _lower(name: str) -> str:
    """Return a name as DuckDB compares it: the case of ASCII letters alone is ignored."""
    return re.sub("[A-Z]", lambda letter: letter[0].lower(), name)


def _known(given: Mapping[str, Any], frame: FrameType) -> str:
    scopes = [given, *_scopes(frame)]
    names = sorted({name for scope in scopes for name, thing in scope.items() if _is_tensor(thing)})
    return ", ".join(names) if names else "none"


def _is_tensor(thing: Any) -> TypeGuard[Scannable]:
    return hasattr(type(thing), "__sparrow_scan__")


def _is_relation(thing: Any) -> bool:
    import duckdb

    return (
        _is_tensor(thing)
        or hasattr(type(thing), "__arrow_c_stream__")
        or isinstance(thing, duckdb.DuckDBPyRelation | pa.Table)
    )


def _kind(thing: Any) -> str:
    kind = type(thing)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _define(con: duckdb.DuckDBPyConnection, name: str, thing: Any) -> None:
    """Make a name of a connection stand for a tensor or a table."""
    import duckdb

    if _is_tensor(thing):
        con.execute(f"CREATE TEMP VIEW {quote_name(name)} AS {select(thing.__sparrow_scan__(), con)}")
        return
    if isinstance(thing, duckdb.DuckDBPyRelation):
        thing = thing.to_arrow_table()
    con.register(name, thing if isinstance(thing, pa.Table) else pa.table(thing))
