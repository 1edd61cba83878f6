"""SQL over tensors: ``sp.sql``.

Every tensor that a query names becomes a temporary view of a connection of its own, made of the scan that its view
of the files means, so that DuckDB pushes the query's filters down to row groups together with the view's. An
expression is compiled with its operands into the same query; what SQL has no form for is computed when it is defined.

The column of a labelled dimension is its labels, by a join that only those queries pay which use it: a query is bound
with stand-ins first, and the plan that DuckDB makes of it tells which of them are left
(docs/decisions/012-names-in-sql.md).

What the caller gives by keyword is defined first. A name that DuckDB then misses is looked up among the caller's
variables, defined, and the query bound again: DuckDB alone decides what in a query is the name of a relation.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import pyarrow as pa

from sparrow.engines import register_select
from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.plan import AxisLabels, Scan, axis_labels
from sparrow.runtime import duckdb_connection
from sparrow.runtime.duckdb_connection import quote_name

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

    def __sparrow_scan__(self) -> Scan:
        """Return the plan of reading it."""


def sql(query: str, /, **tensors: Any) -> duckdb.DuckDBPyRelation:
    """Run SQL over tensors and tables, and return a DuckDB relation.

    A tensor is a relation with an integer column for each dimension, counted from 0, and a column ``value`` (a
    complex one has ``value`` and ``value_im``) with a row for each stored entry. Where a dimension ``d`` has labels,
    the column ``d`` is the label, a text, and a column ``d_code`` behind the value is the number, which groups and
    joins faster. The relation ``A_d`` has all labels: ``d`` (and, the same, ``label``) and ``d_code``. Names are
    DuckDB's: the case of ASCII letters is ignored, and what is no plain word stands in double quotes. An expression
    such as ``A + B`` is computed inside the query wherever SQL gives what NumPy gives: ``A.explain(engine="duckdb")``
    says where.

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
    >>> stars = sp.from_coords([[0, 1], [0, 0]], [4.5, 3.0], dims=("user", "film"), labels={"user": ["ann", "bob"]})
    >>> sp.sql("from stars where user = 'bob'").fetchall()
    [('bob', 0, 3.0, 1)]
    """
    frame = sys._getframe(1)
    if not isinstance(query, str):
        raise UnsupportedError(f"query={query!r}: give the text of one query")
    for name, thing in tensors.items():
        if not _is_relation(thing):
            raise UnsupportedError(
                f"{name}= is given {_kind(thing)}, which is neither a tensor nor a table: give a tensor, or anything "
                "with __arrow_c_stream__"
            )
    con = duckdb_connection.connect()
    statements = con.extract_statements(query)
    if len(statements) != 1:
        raise InvalidValueError(f"the query holds {len(statements)} statements: give one")
    kind = statements[0].type.name
    if kind in _LASTING:
        raise UnsupportedError(
            f"sql answers a query, and this is a statement of kind {kind}: change tensors by writing to them, and use "
            "a connection of your own for tables of DuckDB"
        )
    # What is bound by running a part of it, as pivots are, has no use for stand-ins.
    waits = kind == "SELECT" and re.search("pivot", query, re.IGNORECASE) is None
    named: dict[str, _Named] = {}

    def define(name: str, thing: Any) -> None:
        with duckdb_connection.translate_interrupts():
            made = _define(con, name, thing, len(named), waits)
        if made is not None:
            named[name] = made

    for name, thing in tensors.items():
        _one_spelling(name, tensors)
        define(name, thing)
    import duckdb

    defined: set[str] = set()
    while True:
        try:
            with duckdb_connection.translate_interrupts():
                found = con.sql(query)
                if named and waits and _name_what_is_used(con, query, named.values()):
                    found = con.sql(query)
            if found is not None:  # what is no query has no relation
                found = duckdb_connection.interruptible_relation(found, con)
            return found
        except duckdb.CatalogException as error:
            missing = re.match(r"Catalog Error: Table with name (.*) does not exist!", str(error), re.DOTALL)
            if missing is None or missing[1] in defined:
                raise _placed(con, query, error) from None
            name, problem = missing[1], error
        except duckdb.BinderException as error:
            raise _placed(con, query, error) from None
        thing = _lookup(name, tensors, frame)
        if thing is None:
            raise InvalidValueError(
                f"the query names {name!r}, which is no tensor or table here: give it by keyword, as in "
                f"sql(query, {name if name.isidentifier() else 'name'}=A); tensors in scope: {_known(tensors, frame)}"
            ) from problem
        defined.add(name)
        define(name, thing)


def _placed(con: duckdb.DuckDBPyConnection, query: str, error: duckdb.Error) -> duckdb.Error:
    """Return an error of a query with the line that it is about and a caret, which relations leave out."""
    import duckdb

    if "\nLINE " in str(error):
        return error
    try:
        con.execute(f"EXPLAIN\n{query}")
    except type(error) as found:
        text = str(found)
        line = re.search(r"^LINE (\d+): ", text, re.MULTILINE)
        if line is not None and int(line[1]) > 1:
            said = f"LINE {int(line[1]) - 1}: "
            before, rest = text[: line.start()], text[line.end() :]
            return type(error)(f"{before}{said}{rest.replace(chr(10) + ' ' * (len(line[0]) - len(said)), chr(10), 1)}")
    except duckdb.Error:
        pass  # bound otherwise than it is as a relation
    return error


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
            for axis, names in axis_labels(thing.__sparrow_scan__()).items():
                if _lower(f"{known}_{thing.dims[axis]}") == _lower(name):
                    return _vocabulary(thing.dims, axis, names)
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


def _define(con: duckdb.DuckDBPyConnection, name: str, thing: Any, number: int, waits: bool) -> _Named | None:
    """Make a name of a connection stand for a tensor or a table; of a labelled tensor return how to name it."""
    import duckdb

    if _is_tensor(thing):
        scan = thing.__sparrow_scan__()
        entries, labels = register_select(scan, con), axis_labels(scan)
        if not labels:
            con.execute(f"CREATE TEMP VIEW {quote_name(name)} AS {entries}")
            return None
        made = _Named(name, scan, entries, labels, number)
        made.show(con, () if waits else labels)
        return made
    if isinstance(thing, duckdb.DuckDBPyRelation):
        thing = thing.to_arrow_table()
    con.register(name, thing if isinstance(thing, pa.Table) else pa.table(thing))
    return None


# -- labels ----------------------------------------------------------------------------------------


def codes_of(dims: Sequence[str], labelled: Collection[int]) -> dict[int, str]:
    """Return the names of the columns of numbers of labelled dimensions: ``user_code``, or what is free.

    Examples
    --------
    >>> codes_of(("user", "user_code"), [0])
    {0: 'user_code_'}
    """
    taken = {_lower(name) for name in (*dims, "value", "value_im", "label")}
    found = {}
    for axis in labelled:
        name = f"{dims[axis]}_code"
        while _lower(name) in taken:
            name += "_"
        taken.add(_lower(name))
        found[axis] = name
    return found


def _vocabulary(dims: Sequence[str], axis: int, names: AxisLabels) -> pa.Table:
    """Return all labels of a dimension with their numbers."""
    labels = names.array()
    return pa.table({dims[axis]: labels, "label": labels, codes_of(dims, [axis])[axis]: np.arange(len(labels))})


@dataclass(frozen=True, slots=True)
class _Named:
    """A view of a connection whose columns of labelled dimensions are the labels."""

    name: str
    scan: Scan
    entries: str
    """The SELECT of the entries, by number."""
    labels: Mapping[int, AxisLabels]
    number: int

    def mark(self, axis: int) -> str:
        """Return a text that stands in the plan of a query which uses the labels of an axis."""
        return f"sparrow:labels:{self.number}:{axis}:"

    def show(self, con: duckdb.DuckDBPyConnection, used: Collection[int]) -> None:
        """Define the view, with the labels of some axes and stand-ins for others."""
        schema = self.scan.schema
        codes = codes_of(schema.dims, self.labels)
        relation, shown = f"({self.entries}) AS e", []
        for axis, dim in enumerate(schema.dims):
            number = f"e.{quote_name(dim)}"
            if axis not in self.labels:
                shown.append(number)
            elif axis in used:
                table = f"{self.name}:{axis}"
                labels = self.labels[axis].array()
                places = np.arange(len(labels), dtype=schema.coordinate_dtype(axis))
                con.register(table, pa.table({"at": places, "label": labels}))
                relation += f" JOIN {quote_name(table)} AS l{axis} ON l{axis}.at = {number}"
                shown.append(f"l{axis}.label AS {quote_name(dim)}")
            else:
                shown.append(f"nullif(format('{self.mark(axis)}{{}}', {number}), '') AS {quote_name(dim)}")
        parts = ("value", "value_im") if schema.dtype.kind == "c" else ("value",)
        shown += [f"e.{part}" for part in parts]
        shown += [f"e.{quote_name(schema.dims[axis])} AS {quote_name(code)}" for axis, code in codes.items()]
        con.execute(f"CREATE OR REPLACE TEMP VIEW {quote_name(self.name)} AS SELECT {', '.join(shown)} FROM {relation}")


def _name_what_is_used(con: duckdb.DuckDBPyConnection, query: str, views: Collection[_Named]) -> bool:
    """Give views the labels that the plan of a query has stand-ins for, and return whether there are any."""
    plan = str(con.sql(f"EXPLAIN (FORMAT json) {query}").fetchall())
    found = {view.name: [axis for axis in view.labels if view.mark(axis) in plan] for view in views}
    for view in views:
        if found[view.name]:
            view.show(con, found[view.name])
    return any(found.values())
