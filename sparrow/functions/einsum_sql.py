"""SQL of an einsum over relations."""

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
    """Return the SQL of an einsum, for :func:`sparrow.sql` or another database.

    All operands are joined in one query, in an order left to the database; :func:`sparrow.einsum` plans pairwise steps.

    Parameters
    ----------
    subscripts
        One letter per dimension of each operand, and after "->" those of the result, as in "ij,jk->ik".
    semiring
        Semiring of named operations.
    mask, complement
        Relation of the shape of the result: only its elements are computed, or with ``complement`` only the others.
    **operands
        Name of the relation of each operand, in the order of the subscripts; its columns are the coordinates and the
        value, under any names. A tensor stands for a relation named like the keyword, and is checked as
        :func:`sparrow.einsum` does; relations given by name are not checked.

    Returns
    -------
    str
        A SELECT with a column per letter of the result, and ``value``. The database determines the type of integer
        sums; sums of booleans are counts. NaN sorts above all numbers, so that the least of a number and NaN is the
        number.

    Raises
    ------
    InvalidValueError
        If the subscripts are malformed or do not match the number of operands, letters or names differ only in case, or
        ``complement`` is passed without a mask.
    ShapeError
        If sizes of tensors along a letter differ, or the number of dimensions of the mask differs from the result.
    LabelError
        If along a letter one tensor has labels, which SQL joins by, and another has none.
    UnsupportedError
        If SQL cannot express the semiring or the values of a tensor, a fill value is not 0 under "plus_times", or an
        operand is neither a name nor a tensor.

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
    inputs, output = _parse_subscripts(subscripts, len(operands))
    if check_flag("complement", complement) and mask is None:
        raise InvalidValueError("einsum_sql: complement=True requires mask=")
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
    keys = [place[letter] for letter in output]
    values = [_value_column(name, given, chosen) for name, given in operands.items()]
    value = _aggregate(chosen, values)
    columns = [f"{key} AS {letter}" for letter, key in zip(output, keys, strict=True)]
    conditions = [] if keys else ["count(*) > 0"]
    if chosen.add in ("plus", "or"):
        conditions.append(value if chosen.add == "or" else f"{value} <> 0")
    groups = [f"GROUP BY {', '.join(keys)}"] if keys else []
    groups += [f"HAVING {' AND '.join(conditions)}"] if conditions else []
    mask_join = ""
    if mask is not None:
        same = " AND ".join(f'"mask".{letter} = {key}' for letter, key in zip(output, keys, strict=True)) or "true"
        stores_false = isinstance(mask, Tensor) and mask.dtype.kind == "b" and bool(mask.fill_value)
        join = "ANTI" if complement != stores_false else "SEMI"
        mask_join = f"\n{join} JOIN {_relation('mask', mask, list(output))} ON {same}"
    return contract_sql(", ".join([*columns, f"{value} AS value"]), "\n".join(sources), mask_join, "\n".join(groups))


def _parse_subscripts(subscripts: str, count: int) -> tuple[list[str], str]:
    """Return the letters of the operands and of the result."""
    text = "".join(str(subscripts).split())
    before, arrow, output = text.partition("->")
    inputs = before.split(",")
    used = sorted(set(before) - {","})
    if not arrow or not all(letter.isascii() and letter.isalpha() for letter in (*used, *output)):
        raise InvalidValueError(
            f"einsum_sql: subscripts must be letters, ',' and '->', as in 'ij,jk->ik', got {subscripts!r}"
        )
    if len(inputs) != count:
        raise InvalidValueError(f"einsum_sql: {subscripts!r} is for {len(inputs)} operands, got {count}")
    if len({letter.lower() for letter in used}) < len(used):
        raise InvalidValueError(f"einsum_sql: letters of {subscripts!r} differ only in case, which SQL ignores")
    for letter in output:
        if letter not in used or output.count(letter) > 1:
            raise InvalidValueError(
                f"einsum_sql: letter {letter!r} of the result must occur in an operand, and once in the result"
            )
    return inputs, output


def _check_relations(
    operands: Mapping[str, Any], inputs: list[str], mask: Any, output: str, semiring: Semiring
) -> None:
    """Check that tensors match their letters, each other and the semiring."""
    masks = {} if mask is None else {"mask": mask}
    if len({name.lower() for name in (*operands, *masks)}) < len(operands) + len(masks):
        raise InvalidValueError(
            f"einsum_sql: names of {', '.join((*operands, *masks))} differ only in case, which SQL ignores"
        )
    for name, given in (*operands.items(), *masks.items()):
        if not isinstance(given, str | Tensor):
            kind = type(given).__name__
            raise UnsupportedError(f"einsum_sql: {name}= must be a tensor or the name of a relation, got {kind}")
    for (name, given), own in zip(operands.items(), inputs, strict=True):
        if not isinstance(given, Tensor):
            continue
        if given.ndim != len(own):
            raise InvalidValueError(f"einsum_sql: {name} of {given.ndim} dimensions does not match its letters {own!r}")
        if semiring.plain and given.size and given.fill_value != 0:
            raise UnsupportedError(
                f"einsum_sql: the fill value of {name} must be 0, got {given.fill_value}: use {name}.refill(0), or "
                "another semiring, which ignores absent elements"
            )
    if isinstance(mask, Tensor) and mask.ndim != len(output):
        raise ShapeError(
            f"einsum_sql: the mask of shape {mask.shape} does not match the letters of the result {output!r}"
        )
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
                    f"einsum_sql: {letter!r} has labels along {one}, which SQL joins by, and none along {other}: add "
                    "labels, or use sp.einsum, which matches by position there"
                )
            if not labelled and size != wanted:
                raise ShapeError(f"einsum_sql: {letter!r} is {wanted} along {first} and {size} along {where}")


def _relation(name: str, given: str | Tensor, columns: list[str]) -> str:
    """Return a relation with named columns."""
    known = given if isinstance(given, str) else name
    return f"{quote_name(known)} AS {quote_name(name)}({', '.join([*columns, 'value'])})"


def _value_column(name: str, given: str | Tensor, semiring: Semiring) -> str:
    """Return the value column, in a type in which results do not overflow."""
    column = f"{quote_name(name)}.value"
    if not isinstance(given, Tensor):
        return column
    if given.dtype.kind == "c" and semiring.multiply != "pair":
        raise UnsupportedError(f"einsum_sql: SQL does not support {given.dtype}, the dtype of {name}: use sp.einsum")
    if given.dtype.kind == "b" and semiring.multiply in ("min", "max"):
        return f"CAST({column} AS BIGINT)"  # comparable with other numbers
    grows = semiring.add == "plus" or semiring.multiply in ("times", "plus")
    narrow = given.dtype.kind == "b" or (given.dtype.kind in "iu" and given.dtype.itemsize < 8)
    return f"CAST({column} AS BIGINT)" if grows and narrow else column


def _aggregate(semiring: Semiring, values: list[str]) -> str:
    """Return the aggregate of the products of a group."""
    add, multiply = semiring.add, semiring.multiply
    if callable(add) or callable(multiply):
        raise UnsupportedError(f"einsum_sql: semiring {semiring} has Python functions, which SQL cannot call")
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
