"""SQL over tensors: ``sp.sql``.

Every tensor that a query names becomes a temporary view over the scan of its files, so that DuckDB pushes the filters
of the query down to row groups. An expression is compiled with its operands into the same query; what SQL cannot
express is computed when the view is defined.

The column of a labelled dimension holds its labels. A query is planned with placeholders first, and only the labels
whose placeholder is left in the plan are joined (docs/decisions/012-names-in-sql.md).

Relations passed by keyword are defined first. A name that DuckDB does not find is looked up among the variables of the
caller, then among stored tensors if it is a path, and defined, and the query is bound again: DuckDB alone decides which
names of a query are relations.
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

from sparrow.core.array_validation import check_arrow
from sparrow.engines import register_select, shorten
from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.functions.query_paths import add_alias, check_readable, is_path, open_table, remote_paths, stored_beside
from sparrow.functions.statements import (
    bind_params,
    check_no_side_effects,
    explained_query,
    statement_kind,
    table_spellings,
    to_lower,
    words_of,
)
from sparrow.interop.labelled_objects import frame_to_table, is_frame
from sparrow.plan import AxisLabels, Scan, axis_labels
from sparrow.runtime import duckdb_connection
from sparrow.runtime.duckdb_connection import quote_name
from sparrow.runtime.validation import check_flag
from sparrow.storage import is_tensor
from sparrow.tensor.bundle import Bundle

if TYPE_CHECKING:
    import duckdb

__all__ = ["Answer", "run_query", "sql"]


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a query.

    Parameters
    ----------
    relation
        None for statements without a result.
    kind
        Kind of the statement, such as ``"SELECT"`` or ``"EXPLAIN"``.
    implied
        Names of columns of positions of labelled dimensions that the query does not spell: those that only ``*`` names.
    """

    relation: duckdb.DuckDBPyRelation | None
    kind: str
    implied: frozenset[str]


class Scannable(Protocol):
    """Tensor, as far as a query needs it."""

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions."""

    def __sparrow_scan__(self) -> Scan:
        """Return the scan of the tensor."""


def sql(
    query: str,
    /,
    *,
    params: Sequence[Any] | Mapping[str, Any] | None = None,
    allow_side_effects: bool = False,
    **tensors: Any,
) -> duckdb.DuckDBPyRelation:
    """Run SQL over tensors and tables and return a DuckDB relation.

    A tensor is a relation with an integer column per dimension, counted from 0, and a column ``value`` (``value`` and
    ``value_im`` for complex numbers), one row per stored element. If a dimension ``d`` has labels, column ``d`` holds
    the labels and a column ``d_code`` behind the value the positions, which group and join faster. The relation ``A_d``
    lists the labels: ``d`` (also as ``label``) and ``d_code``. Names follow DuckDB: ASCII case is ignored, and names
    that are not identifiers are double-quoted. A quoted path is a stored tensor, as in ``from 'web.sparrow'`` and
    ``from 'a9a.sparrow/X'``; other files are read by DuckDB. An expression such as ``A + B`` is computed inside the
    query wherever SQL gives NumPy's result; ``A.explain(engine="duckdb")`` shows where.

    Rows come in no particular order: use ``order by``.

    Values from elsewhere belong into ``params``, never into the text of the query. A query only reads, but it reads
    whatever the process may read: ``read_csv``, ``glob`` and URLs work. Do not run the queries of strangers.

    Parameters
    ----------
    query
        One statement in DuckDB's dialect.
    params
        Values of the parameters: a list for ``?`` and ``$1``, a dict for ``$name``. Python and NumPy scalars, strings,
        dates, lists and dicts.
    allow_side_effects
        Run statements that write files, load extensions or change a database too: ``COPY``, ``EXPORT``, ``INSTALL``,
        ``ATTACH`` and others. The database is in memory, and all queries of the process share it.
    **tensors
        Tensors, Arrow tables, Polars frames, DuckDB relations and other objects with ``__arrow_c_stream__``, by the
        names that the query uses. Other names are looked up among the variables of the caller.

    Returns
    -------
    duckdb.DuckDBPyRelation
        Computed when it is fetched: ``fetchall()``, ``to_arrow_table()``, ``pl()``, ``df()``, ``show()``. It stays
        valid, whatever later queries use the same names for. Ctrl-C while it is fetched raises ``KeyboardInterrupt``.
        None for statements without a result.

    Raises
    ------
    InvalidValueError
        If the query names an unknown relation, is not one statement, names differ only in case, or ``params`` do not
        fit the parameters of the query.
    UnsupportedError
        If a keyword is neither a tensor nor a table, or the statement has side effects.
    NotFoundError, StorageError
        If no tensor is stored at a path, a file is gone or cannot be read, or the temporary directory is full, now or
        while the result is fetched.
    duckdb.Error
        If DuckDB rejects the query.

    Examples
    --------
    >>> import sparrow as sp
    >>> web = sp.from_coords([[0, 0, 2], [1, 2, 0]], [1, 1, 1], shape=(3, 3), dims=("src", "dst"))
    >>> sp.sql("select src, count(*) as links from web group by src order by src").fetchall()
    [(0, 2), (2, 1)]
    >>> mutual = web + web.T.rename(src="dst", dst="src")  # by position, against the names
    >>> sp.sql("select count(*) from mutual where value > 1").fetchall()
    [(2,)]
    >>> stars = sp.from_coords([[0, 1], [0, 0]], [4.5, 3.0], dims=("user", "film"), labels={"user": ["ann", "bob"]})
    >>> sp.sql("from stars where user = $who", params={"who": "bob"}).fetchall()
    [('bob', 0, 3.0, 1)]
    >>> stored = web.save("web.sparrow")
    >>> sp.sql("from 'web.sparrow' select max(dst)").fetchall()
    [(2,)]
    """
    found = run_query(query, params, allow_side_effects, tensors, _scopes(sys._getframe(1)))
    return found.relation  # type: ignore[return-value]  # None for statements without a result


def run_query(
    query: str,
    params: Any,
    allow_side_effects: bool,
    tensors: Mapping[str, Any],
    scopes: Sequence[Mapping[str, Any]],
    con: duckdb.DuckDBPyConnection | None = None,
    version: int | str | None = None,
) -> Answer:
    """Run a query as :func:`sql` does.

    Parameters
    ----------
    query, params, allow_side_effects, tensors
        Arguments of :func:`sql`.
    scopes
        Variables that the query may name, innermost first.
    con
        Connection to use, so that another thread can interrupt it; a new one by default.
    version
        Version of the tensors whose paths the query names, the latest by default.
    """
    if not isinstance(query, str):
        raise UnsupportedError(f"query must be a string, got {query!r}")
    for name, thing in tensors.items():
        if not _is_relation(thing):
            way = f": pass one of its tensors, {name}=bundle[...]" if isinstance(thing, Bundle) else ""
            raise UnsupportedError(
                f"{name}= must be a tensor, a table or an object with __arrow_c_stream__, got {_type_name(thing)}{way}"
            )
    con = con or duckdb_connection.connect()
    statements = con.extract_statements(query)
    if len(statements) != 1:
        raise InvalidValueError(f"query must be one statement, got {len(statements)}")
    kind = statement_kind(statements[0])
    if not check_flag("allow_side_effects", allow_side_effects):
        check_no_side_effects(con, query, kind)
    values = bind_params(params, statements[0].named_parameters)
    # EXPLAIN ANALYZE runs the query whenever it is bound, so its names are found by binding what it explains.
    bound, bound_kind = (explained_query(con, query) if kind == "EXPLAIN" else None) or (query, kind)
    # DuckDB binds a pivot by running a part of the query, so that placeholders for labels would show up in it, and
    # typeof is a constant of theirs.
    defers_labels = bound_kind == "SELECT" and re.search("pivot|typeof", query, re.IGNORECASE) is None
    completed: set[str] = set()
    named: dict[str, _LabelledView] = {}
    aliases: set[str] = set()

    def define(name: str, thing: Any) -> None:
        with duckdb_connection.translate_errors():
            view = _define(con, name, thing, len(named), defers_labels)
        if view is not None:
            named[name] = view

    for name, thing in tensors.items():
        _match_name(name, tensors)
        define(name, thing)
    import duckdb

    defined: set[str] = set()
    for path in remote_paths(bound):
        if path not in tensors and is_tensor(path):
            defined.add(path)
            define(path, open_table(path, version))
    while True:
        try:
            with duckdb_connection.translate_errors():
                found = con.sql(bound, params=values)
                changed = bool(named) and defers_labels and _add_used_labels(con, bound, values, named.values())
                if changed or kind == "EXPLAIN":
                    found = con.sql(bound if kind != "EXPLAIN" else query, params=values)
            if found is not None:  # statements that are not queries return None
                found = duckdb_connection.interruptible_relation(found, con)
            implied = frozenset(code for view in named.values() for code in view.codes) - words_of(query)
            return Answer(found, kind, implied)
        except duckdb.CatalogException as error:
            missing = re.match(r"Catalog Error: Table with name (.*) does not exist!", str(error), re.DOTALL)
            if missing is None or missing[1] in defined:
                raise _add_location(con, bound, values, error) from None
            name, problem = missing[1], error
        except duckdb.BinderException as error:
            if defers_labels and (unbound := named.keys() - completed):  # placeholders are texts, labels may be dates
                completed.update(unbound)
                for view in unbound:
                    named[view].define(con, named[view].labels)
                continue
            aliased = None if kind == "EXPLAIN" else add_alias(bound, defined - aliases, str(error))
            if aliased is None:
                unread = re.search(r'capable of reading the file "(.*?)"', str(error))
                if unread is not None:
                    check_readable(unread[1])
                raise _add_location(con, bound, values, error) from None
            bound, path = aliased
            aliases.add(path)
            continue
        thing = _lookup(name, table_spellings(con, bound, name), tensors, scopes)
        if thing is None and is_path(name):
            thing = open_table(name, version)
        if thing is None:
            keyword = name if name.isidentifier() else "name"
            raise InvalidValueError(
                f"sql: {_describe_missing(name, scopes)}, as in sql(query, {keyword}=A){stored_beside(name)}; "
                f"tensors in scope: {_tensor_names(tensors, scopes)}"
            ) from problem
        defined.add(name)
        define(name, thing)


def _describe_missing(name: str, scopes: Sequence[Mapping[str, Any]]) -> str:
    """Return why a name of a query is no relation, and what to do."""
    for scope in scopes:
        spelling = (
            name if name in scope else next((known for known in scope if to_lower(known) == to_lower(name)), None)
        )
        if spelling is None:
            continue
        thing = scope[spelling]
        if isinstance(thing, Mapping):
            members = [key for key, member in thing.items() if isinstance(key, str) and _is_relation(member)]
            if members:
                return f"{spelling!r} is a {_type_name(thing)} of several tables: pass one, {spelling}[{members[0]!r}]"
        advice = "pass sp.asarray of it" if hasattr(thing, "shape") else "pass a tensor or a table by keyword"
        return f"{spelling!r} is a {_type_name(thing)}, not a tensor or a table: {advice}"
    return f"no tensor or table is named {name!r}: pass it by keyword"


def _add_location(con: duckdb.DuckDBPyConnection, query: str, values: Any, error: duckdb.Error) -> duckdb.Error:
    """Return an error of a query with its line and a caret, which relations omit."""
    import duckdb

    if "\nLINE " in str(error):
        return error
    try:
        con.execute(f"EXPLAIN\n{query}", values)
    except type(error) as found:
        text = str(found)
        line = re.search(r"^LINE (\d+): ", text, re.MULTILINE)
        if line is not None and int(line[1]) > 1:
            marker = f"LINE {int(line[1]) - 1}: "
            before, rest = text[: line.start()], text[line.end() :]
            rest = rest.replace(chr(10) + " " * (len(line[0]) - len(marker)), chr(10), 1)
            return type(error)(f"{before}{marker}{rest}")
    except duckdb.Error:
        pass  # EXPLAIN binds differently from a relation
    return error


def _lookup(
    name: str, spellings: Collection[str], given: Mapping[str, Any], scopes: Sequence[Mapping[str, Any]]
) -> Any:
    """Return the object that a name of a query refers to, or None.

    That is a variable of the caller, local before enclosing before global; otherwise the labels of a dimension of a
    tensor, ``<tensor>_<dimension>``. If variables differ only in case, that in the spelling of the query counts, unless
    the query has several.
    """
    for scope in scopes:
        relations = {known: thing for known, thing in scope.items() if _is_relation(thing)}
        if name in relations and len(spellings) < 2:
            return relations[name]
        spelling = _match_name(name, relations)
        if spelling is not None:
            return relations[spelling]
    for scope in (given, *scopes):
        for known, thing in scope.items():
            if not _is_tensor(thing):
                continue
            for axis, names in axis_labels(thing.__sparrow_scan__()).items():
                if to_lower(f"{known}_{thing.dims[axis]}") == to_lower(name):
                    return _label_table(thing.dims, axis, names)
    return None


def _scopes(frame: FrameType) -> list[Mapping[str, Any]]:
    """Return the variables visible from a frame, innermost first.

    Python keeps only those variables of enclosing functions that the code itself names, and names in a query do not
    count. So for a comprehension or a lambda the frames of the functions that create it are searched while these run.
    """
    found: list[Mapping[str, Any]] = [frame.f_locals]
    inner, outer = frame.f_code, frame.f_back
    while outer is not None:
        if inner in outer.f_code.co_consts:
            found.append(outer.f_locals)
            inner = outer.f_code
        outer = outer.f_back
    return [*found, frame.f_globals]


def _match_name(name: str, names: Mapping[str, Any]) -> str | None:
    """Return the spelling of a name among names, ignoring case.

    Raises
    ------
    InvalidValueError
        If several names differ only in case.
    """
    spellings = [known for known in names if to_lower(known) == to_lower(name)]
    if len(spellings) > 1:
        raise InvalidValueError(
            f"{' and '.join(map(repr, spellings))} differ only in case, which SQL ignores: pass one of them under "
            "another name"
        )
    return spellings[0] if spellings else None


def _tensor_names(given: Mapping[str, Any], scopes: Sequence[Mapping[str, Any]]) -> str:
    names = sorted({name for scope in (given, *scopes) for name, thing in scope.items() if _is_tensor(thing)})
    return ", ".join(names) if names else "none"


def _is_tensor(thing: Any) -> TypeGuard[Scannable]:
    return hasattr(type(thing), "__sparrow_scan__")


def _is_relation(thing: Any) -> bool:
    import duckdb

    return (
        _is_tensor(thing)
        or hasattr(type(thing), "__arrow_c_stream__")
        or isinstance(thing, duckdb.DuckDBPyRelation | pa.Table)
        or _is_lazy_frame(thing)
    )


def _is_lazy_frame(thing: Any) -> bool:
    kind = type(thing)
    return kind.__name__ == "LazyFrame" and kind.__module__.partition(".")[0] == "polars"


def _type_name(thing: Any) -> str:
    kind = type(thing)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _define(
    con: duckdb.DuckDBPyConnection, name: str, thing: Any, number: int, defers_labels: bool
) -> _LabelledView | None:
    """Register a tensor or a table; return the view of labelled tensors."""
    import duckdb

    if _is_tensor(thing):
        scan = thing.__sparrow_scan__()
        (shown,) = shorten([scan])
        elements, labels = register_select(shown, con), axis_labels(scan)
        if not labels:
            con.execute(f"CREATE TEMP VIEW {quote_name(name)} AS {elements}")
            return None
        view = _LabelledView(name, scan, elements, labels, number)
        view.define(con, () if defers_labels else labels)
        return view
    if isinstance(thing, duckdb.DuckDBPyRelation):
        thing = thing.to_arrow_table()
    elif _is_lazy_frame(thing):
        thing = thing.collect()
    elif is_frame(thing):
        thing = frame_to_table(thing)
    con.register(name, check_arrow(thing if isinstance(thing, pa.Table) else pa.table(thing), f"table {name!r}"))
    return None


# -- labels ----------------------------------------------------------------------------------------


def codes_of(dims: Sequence[str], labelled: Collection[int]) -> dict[int, str]:
    """Return the column names of positions of labelled dimensions.

    Examples
    --------
    >>> codes_of(("user", "user_code"), [0])
    {0: 'user_code_'}
    """
    used = {to_lower(name) for name in (*dims, "value", "value_im", "label")}
    found = {}
    for axis in labelled:
        name = f"{dims[axis]}_code"
        while to_lower(name) in used:
            name += "_"
        used.add(to_lower(name))
        found[axis] = name
    return found


def _label_table(dims: Sequence[str], axis: int, names: AxisLabels) -> pa.Table:
    """Return all labels of a dimension with their positions."""
    labels = names.array()
    return pa.table({dims[axis]: labels, "label": labels, codes_of(dims, [axis])[axis]: np.arange(len(labels))})


@dataclass(frozen=True, slots=True)
class _LabelledView:
    """View of a connection that shows labels in the columns of labelled dimensions.

    A query is first planned with placeholders instead of labels. Only dimensions whose placeholder is left in the plan
    are joined with their labels.
    """

    name: str
    scan: Scan
    elements: str
    """The SELECT of the stored elements, by position."""
    labels: Mapping[int, AxisLabels]
    number: int

    def placeholder(self, axis: int) -> str:
        """Return the text that marks the labels of an axis in a plan."""
        return f"sparrow:labels:{self.number}:{axis}:"

    @property
    def codes(self) -> list[str]:
        """Names of the columns of positions, in lower case."""
        return [to_lower(code) for code in codes_of(self.scan.schema.dims, self.labels).values()]

    def define(self, con: duckdb.DuckDBPyConnection, used: Collection[int]) -> None:
        """Define the view with the labels of the used axes, and placeholders for others."""
        schema = self.scan.schema
        codes = codes_of(schema.dims, self.labels)
        relation, columns = f"({self.elements}) AS e", []
        parts = ("value", "value_im") if schema.dtype.kind == "c" else ("value",)
        for axis, dim in enumerate(schema.dims):
            number = f"e.{quote_name(dim)}"
            if axis not in self.labels:
                columns.append(number)
            elif axis in used:
                table = f"{self.name}:{axis}"
                labels = self.labels[axis].array()
                positions = np.arange(len(labels), dtype=schema.coordinate_dtype(axis))
                con.register(table, pa.table({"at": positions, "label": labels}))
                relation += f" JOIN {quote_name(table)} AS l{axis} ON l{axis}.at = {number}"
                columns.append(f"l{axis}.label")
            else:
                columns.append(f"nullif(format('{self.placeholder(axis)}{{}}', {number}), '')")
        columns += [f"e.{part}" for part in parts]
        columns += [f"e.{quote_name(schema.dims[axis])}" for axis in codes]
        # The view names the columns: some plans show aliases, and no placeholder.
        names = ", ".join(map(quote_name, (*schema.dims, *parts, *codes.values())))
        select = f"SELECT {', '.join(columns)} FROM {relation}"
        con.execute(f"CREATE OR REPLACE TEMP VIEW {quote_name(self.name)} ({names}) AS {select}")


def _add_used_labels(con: duckdb.DuckDBPyConnection, query: str, values: Any, views: Collection[_LabelledView]) -> bool:
    """Add the labels that the plan of a query uses to views."""
    plan = str(con.sql(f"EXPLAIN (FORMAT json) {query}", params=values).fetchall())
    found = {view.name: [axis for axis in view.labels if view.placeholder(axis) in plan] for view in views}
    for view in views:
        if found[view.name]:
            view.define(con, found[view.name])
    return any(found.values())
