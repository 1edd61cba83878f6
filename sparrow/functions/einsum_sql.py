"""``sp.einsum_sql``: the query that a sum of products of relations is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparrow.engines import contract_sql
from sparrow.errors import InvalidValueError, LabelError, ShapeError, UnsupportedError
from sparrow.plan import Semiring, as_semiring, axis_labels
from sparrow.runtime.duckdb_connection import quote_name
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = ["einsum_sql"]

_ADD = {"plus": "sum({})", "min": "min({})", "max": "max({})", "or": "bool_or({})", "any": "any_value({})"}


def einsum_sql(
    subscripts: str,
    *,
    semiring: str | Semiring = "plus_times",
    mask: str | Tensor | None = None,
    complement: bool = False,
    **operands: str | Tensor,
) -> str:
    """Return the SQL of an einsum of relations, for :func:`sparrow.sql`, a DuckDB shell or another database.

    All operands are joined in one query, whose order is left to the database; :func:`sparrow.einsum` goes step by step.

    Parameters
    ----------
    subscripts
        A letter for each dimension of each operand, and after "->" those of the result, as in "ij,jk->ik".
    semiring
        A semiring of named operations.
    mask, complement
        A relation of the shape of the result: only cells that it has are computed, or with ``complement`` only others.
    **operands
        For each operand the name of its relation, in the order of the subscripts: its columns are the coordinates and
        the value, whatever they are called. A tensor stands for a relation of the name of the keyword, and is checked
        as :func:`sparrow.einsum` does; of names of relations nothing is known.

    Returns
    -------
    str
        A SELECT with a column for each letter of the result, and ``value``. Sums of integers have the type that the
        database gives them, and those of booleans are counts. NaN is larger than all numbers there, so that the least
        of a number and NaN is the number.

    Raises
    ------
    InvalidValueError
        If the subscripts are not understood, are for another number of operands, or letters or names differ in case
        only; or ``complement`` is given without a mask.
    ShapeError
        If sizes of tensors along a letter differ, or a mask has another number of dimensions than the result.
    LabelError
        If along a letter one tensor has labels, which SQL joins by, and another has none.
    UnsupportedError
        If SQL has no form for the semiring, or for the values of a tensor; if the fill of one is not 0 under
        "plus_times"; or an operand is neither a name nor a tensor.

    Examples
    --------
    >>> import sparrow as sp
    >>> print(sp.einsum_sql("ij,jk->ik", A="a", B="b"))
    SELECT "A".i AS i, "B".k AS k, sum("A".value * "B".value) AS value
    FROM "a" AS "A"(i, j, value)
    JOIN "b" AS "B"(j, k, value) ON "B".j = "A".j
    GROUP BY "A".i, "B".k
    HAVING sum("A".value * "B".value) <> 0
    >>> roads = sp.asarray([[0, 3, 9], [0, 0, 4], [0, 0, 0]])
    >>> query = sp.einsum_sql("ij,jk->ik", A=roads, B=roads, semiring="min_plus")
    >>> sp.sql(query, A=roads, B=roads).fetchall()
    [(0, 2, 7)]
    """
    chosen = as_semiring(semiring)
    inputs, output = _letters(subscripts, len(operands))
    if check_flag("complement", complement) and mask is None:
        raise InvalidValueError("einsum_sql: complement=True needs mask=: without one every cell is computed")
    _check_relations(operands, inputs, mask, output, chosen)
    sources: list[str] = []
    place: dict[str, str] = {}
    for (name, given), own in zip(operands.items(), inputs, strict=True):
        side = quote_name(name)
        columns, tests = [], []
        for axis, letter in enumerate(own):
            columns.append(letter if letter not in own[:axis] else f"{letter}_{axis}")
            column = f"{side}.{columns[-1]}"
            if letter in place:
                tests.append(f"{column} = {place[letter]}")
            place.setdefault(letter, column)
        source = _relation(name, given, columns)
        sources.append(f"JOIN {source} ON {' AND '.join(tests) or 'true'}" if sources else source)
        if tests and len(sources) == 1:  # a diagonal
            sources[0] = f"(SELECT * FROM {source} WHERE {' AND '.join(tests)}) AS {side}"
    cells = [place[letter] for letter in output]
    values = [_number(name, given, chosen) for name, given in operands.items()]
    value = _value(chosen, values)
    columns = [f"{cell} AS {letter}" for letter, cell in zip(output, cells, strict=True)]
    kept = [] if cells else ["count(*) > 0"]
    if chosen.add in ("plus", "or"):
        kept.append(value if chosen.add == "or" else f"{value} <> 0")
    groups = [f"GROUP BY {', '.join(cells)}"] if cells else []
    groups += [f"HAVING {' AND '.join(kept)}"] if kept else []
    hidden = ""
    if mask is not None:
        same = " AND ".join(f'"mask".{letter} = {cell}' for letter, cell in zip(output, cells, strict=True)) or "true"
        negated = isinstance(mask, Tensor) and mask.dtype.kind == "b" and bool(mask.fill_value)  # entries are False
        how = "ANTI" if complement != negated else "SEMI"
        hidden = f"\n{how} JOIN {_relation('mask', mask, list(output))} ON {same}"
    return contract_sql(", ".join([*columns, f"{value} AS value"]), "\n".join(sources), hidden, "\n".join(groups))


def _letters(subscripts: str, count: int) -> tuple[list[str], str]:
    """Return the letters of the operands and of the result."""
    text = "".join(str(subscripts).split())
    before, arrow, output = text.partition("->")
    inputs = before.split(",")
    used = sorted(set(before) - {","})
    if not arrow or not all(letter.isascii() and letter.isalpha() for letter in (*used, *output)):
        raise InvalidValueError(f"einsum_sql: {subscripts!r} must be letters, ',' and '->', as in 'ij,jk->ik'")
    if len(inputs) != count:
        raise InvalidValueError(f"einsum_sql: {subscripts!r} is for {len(inputs)} operands, got {count}")
    if len({letter.lower() for letter in used}) < len(used):
        raise InvalidValueError(
            f"einsum_sql: letters of {subscripts!r} differ in case only, which SQL does not tell apart"
        )
    for letter in output:
        if letter not in used or output.count(letter) > 1:
            raise InvalidValueError(f"einsum_sql: {letter!r} of the result must be of an operand, and there once")
    return inputs, output


def _check_relations(
    operands: Mapping[str, Any], inputs: list[str], mask: Any, output: str, semiring: Semiring
) -> None:
    """Raise an error where tensors do not fit their letters or each other, or the semiring."""
    masks = {} if mask is None else {"mask": mask}
    if len({name.lower() for name in (*operands, *masks)}) < len(operands) + len(masks):
        raise InvalidValueError(
            f"einsum_sql: names of {', '.join((*operands, *masks))} differ in case only, which SQL does not tell apart"
        )
    for name, given in (*operands.items(), *masks.items()):
        if not isinstance(given, str | Tensor):
            kind = type(given).__name__
            raise UnsupportedError(f"einsum_sql: {name}= is given {kind}: give the name of a relation, or a tensor")
    for (name, given), own in zip(operands.items(), inputs, strict=True):
        if not isinstance(given, Tensor):
            continue
        if given.ndim != len(own):
            raise InvalidValueError(f"einsum_sql: {name} has {given.ndim} dimensions, and its letters are {own!r}")
        if semiring.plain and given.size and given.fill_value != 0:
            raise UnsupportedError(
                f"einsum_sql: absent cells of {name} are {given.fill_value}, which a relation of its entries does not "
                f"say: use {name}.refill(0), or another semiring, under which absent cells take no part"
            )
    if isinstance(mask, Tensor) and mask.ndim != len(output):
        raise ShapeError(f"einsum_sql: the mask has shape {mask.shape}, and the letters of the result are {output!r}")
    known: dict[str, tuple[str, int, bool]] = {}
    for (name, given), own in zip((*operands.items(), *masks.items()), (*inputs, output), strict=False):
        if not isinstance(given, Tensor):
            continue
        labels = axis_labels(given.__sparrow_scan__())
        for axis, (letter, size) in enumerate(zip(own, given.shape, strict=True)):
            where, labelled = f"axis {axis} of {name}, of shape {given.shape}", axis in labels
            first, wanted, named = known.setdefault(letter, (where, size, labelled))
            if labelled != named:
                one, other = (where, first) if labelled else (first, where)
                raise LabelError(
                    f"einsum_sql: {letter!r} has labels along {one}, which SQL joins by, and none along {other}: give "
                    "it labels too, or use sp.einsum, which goes by position there"
                )
            if not labelled and size != wanted:
                raise ShapeError(f"einsum_sql: {letter!r} is {wanted} along {first} and {size} along {where}")


def _relation(name: str, given: str | Tensor, columns: list[str]) -> str:
    """Return a relation, its columns named."""
    known = given if isinstance(given, str) else name
    return f"{quote_name(known)} AS {quote_name(name)}({', '.join([*columns, 'value'])})"


def _number(name: str, given: str | Tensor, semiring: Semiring) -> str:
    """Return the value of an entry; of a tensor whose type is known as one whose products and sums do not overflow."""
    column = f"{quote_name(name)}.value"
    if not isinstance(given, Tensor):
        return column
    if given.dtype.kind == "c" and semiring.multiply != "pair":
        raise UnsupportedError(f"einsum_sql: SQL has no {given.dtype}, the type of {name}: use sp.einsum")
    if given.dtype.kind == "b" and semiring.multiply in ("min", "max"):
        return f"CAST({column} AS BIGINT)"  # which others may be compared with
    grows = semiring.add == "plus" or semiring.multiply in ("times", "plus")
    narrow = given.dtype.kind == "b" or (given.dtype.kind in "iu" and given.dtype.itemsize < 8)
    return f"CAST({column} AS BIGINT)" if grows and narrow else column


def _value(semiring: Semiring, values: list[str]) -> str:
    """Return the aggregate of the products of a group."""
    add, multiply = semiring.add, semiring.multiply
    if callable(add) or callable(multiply):
        raise UnsupportedError(f"einsum_sql: semiring {semiring} is made of functions in Python")
    if multiply in ("first", "second", "pair") or len(values) == 1:  # of one there is no product
        found = "1" if multiply == "pair" and len(values) > 1 else values[-1 if multiply == "second" else 0]
    elif multiply == "and":
        found = " AND ".join(f"{value} <> 0" for value in values)
    elif multiply in ("min", "max"):
        found = f"{'least' if multiply == 'min' else 'greatest'}({', '.join(values)})"
    else:
        found = (" * " if multiply == "times" else " + ").join(values)
    if add == "or" and (multiply != "and" or len(values) == 1):
        found = f"({found}) <> 0"
    return _ADD[add].format(found)
