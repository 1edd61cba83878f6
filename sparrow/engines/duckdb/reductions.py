"""Reductions in SQL: aggregates that account for absent elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparrow.engines.duckdb.types import UnsupportedInSQL, cast, literal, wrap_integer
from sparrow.plan import Reduce

__all__ = ["REDUCTIONS", "reduction_sql"]

_DOUBLE = np.dtype(float)
_VALUE = "CAST(e.value AS DOUBLE)"
_NUMBERS = "FILTER (NOT isnan(e.value))"


class _Group:
    """A group in SQL: expressions over its stored elements."""

    def __init__(self, node: Reduce) -> None:
        schema = node.operand.schema
        self.dtype = schema.dtype
        self.floating = schema.dtype.kind == "f"
        self.fill = schema.fill_value
        self.stored = node.stored
        self.size = node.group_size
        self.options = node.options

    @property
    def absent(self) -> str:
        """The number of absent elements that take part."""
        if self.stored:
            return "0"
        if self.size < 2**62:
            return f"({self.size} - count(*))"
        return f"({literal(float(self.size), _DOUBLE)} - count(*))"

    @property
    def members(self) -> str:
        """The number of elements that take part, as a double."""
        return "CAST(count(*) AS DOUBLE)" if self.stored else literal(float(self.size), _DOUBLE)

    def with_absent(self, stored: str, absent: str, combine: str = "({0} + {1})") -> str:
        """Return an aggregate of stored elements combined with that of absent ones."""
        if self.stored:
            return stored
        return f"CASE WHEN {self.absent} > 0 THEN {combine.format(stored, absent)} ELSE {stored} END"

    def add_absent(self, stored: str, each: float) -> str:
        """Return a sum of doubles, plus ``each`` per absent element."""
        if each == 0:
            return stored
        return self.with_absent(stored, f"{self.absent} * {literal(each, _DOUBLE)}")


def _sum(group: _Group, skip_nan: bool = False) -> str:
    if not group.floating:
        total = "sum(e.value)"  # 128 bits
        if group.fill and not group.stored:
            every = group.size * int(group.fill) % 2**64
            fill = int(group.fill)  # below 2^63 in magnitude, or its product with a count would exceed 128 bits
            total = f"({total} + {every} - count(*) * CAST({fill if fill < 2**63 else fill - 2**64} AS HUGEINT))"
        return wrap_integer(total, np.dtype(np.uint64 if group.dtype.kind == "u" else np.int64))
    if skip_nan:
        total = f"coalesce(sum({_VALUE}) {_NUMBERS}, 0)"
        return total if np.isnan(group.fill) else group.add_absent(total, float(group.fill))
    return group.add_absent(f"sum({_VALUE})", float(group.fill))


def _mean(group: _Group, skip_nan: bool = False) -> str:
    if not skip_nan or not group.floating:
        return f"{group.add_absent(f'sum({_VALUE})', float(group.fill))} / {group.members}"
    numbers = f"count(*) {_NUMBERS}"
    if not np.isnan(group.fill):
        numbers = f"({numbers} + {group.absent})"
    return f"{_sum(group, skip_nan=True)} / CAST({numbers} AS DOUBLE)"


def _var(group: _Group, skip_nan: bool = False) -> str:
    skip_nan = skip_nan and group.floating
    some = f" {_NUMBERS}" if skip_nan else ""
    count = f"count(*){some}"
    nothing = skip_nan and bool(np.isnan(group.fill))
    members = f"CAST({count} + {'0' if nothing else group.absent} AS DOUBLE)" if skip_nan else group.members
    away = f"coalesce(var_pop({_VALUE}){some}, 0) * {count}"
    if group.floating:
        # In DuckDB a single infinity has variance 0, and overflowing squares are NaN.
        away = (
            f"CASE WHEN NOT bool_and(isfinite(e.value)){some} THEN CAST('nan' AS DOUBLE) "
            f"WHEN isnan({away}) THEN CAST('inf' AS DOUBLE) ELSE {away} END"
        )
    fill = float(group.fill)
    if not group.stored and not nothing:  # merged moments, Chan, Golub and LeVeque 1983
        apart = f"({literal(fill, _DOUBLE)} - avg({_VALUE}){some})"
        between = f"coalesce({apart} * {apart} * ({count} * ({group.absent} / {members})), 0)"
        away = group.with_absent(f"({away})", between if np.isfinite(fill) else "CAST('nan' AS DOUBLE)")
    ddof = literal(_ddof(group), _DOUBLE)
    out = f"({away}) / greatest({members} - {ddof}, 0)"
    return f"CASE WHEN {members} > {ddof} THEN {out} ELSE CAST('nan' AS DOUBLE) END" if skip_nan else out


def _ddof(group: _Group) -> float:
    found = next((group.options[name] for name in ("ddof", "correction") if group.options.get(name) is not None), 0)
    if not isinstance(found, int | float | np.integer | np.floating):
        raise UnsupportedInSQL(f"ddof={found!r}")
    return float(found)


def _extreme(group: _Group, largest: bool, skip_nan: bool = False) -> str:
    name, combine = ("max", "greatest({0}, {1})") if largest else ("min", "least({0}, {1})")
    stored, fill = f"{name}(e.value)", group.fill
    if group.dtype.kind == "b":
        stored, combine = ("bool_or(e.value)", "({0} OR {1})") if largest else ("bool_and(e.value)", "({0} AND {1})")
    if not group.floating:
        return group.with_absent(stored, literal(fill, group.dtype), combine)
    nan = literal(np.nan, group.dtype)
    if skip_nan:  # a group of NaN only is NULL, which greatest and least skip
        found = f"{name}(e.value) {_NUMBERS}"
        if not np.isnan(fill):
            found = group.with_absent(found, literal(fill, group.dtype), combine)
        return f"coalesce({found}, {nan})"
    found = group.with_absent(stored, literal(fill, group.dtype), combine)
    if largest:  # NaN is the largest number in DuckDB
        return found
    wins = "bool_or(isnan(e.value))"
    if np.isnan(fill):
        wins = f"({wins} OR {group.absent} > 0)"
    return f"CASE WHEN {wins} THEN {nan} ELSE {found} END"


def _truth(group: _Group, every: bool) -> str:
    test = "e.value" if group.dtype.kind == "b" else "e.value <> 0"
    stored = f"{'bool_and' if every else 'bool_or'}({test})"
    if bool(group.fill) == every:
        return stored
    return f"({stored} AND {group.absent} = 0)" if every else f"({stored} OR {group.absent} > 0)"


def _prod(group: _Group, skip_nan: bool = False) -> str:
    if not group.floating:
        raise UnsupportedInSQL("products of integers wrap")
    power = f"pow({literal(float(group.fill), _DOUBLE)}, {group.absent})"
    stored = f"coalesce(product({_VALUE}) {_NUMBERS}, 1)" if skip_nan else f"product({_VALUE})"
    return stored if skip_nan and np.isnan(group.fill) else group.with_absent(stored, power, "({0} * {1})")


def _norm(group: _Group) -> str:
    order = group.options.get("ord")
    order = 2 if order is None else order
    fill = float(group.fill)
    if order == 0:
        test = "e.value" if group.dtype.kind == "b" else "e.value <> 0"
        return group.add_absent(f"CAST(count(*) FILTER ({test}) AS DOUBLE)", float(fill != 0))
    if order == 1:
        return group.add_absent(f"sum(abs({_VALUE}))", abs(fill))
    if order == 2:
        return f"sqrt({group.add_absent(f'sum({_VALUE} * {_VALUE})', fill * fill)})"
    if order == np.inf:
        return group.with_absent(f"max(abs({_VALUE}))", literal(abs(fill), _DOUBLE), "greatest({0}, {1})")
    raise UnsupportedInSQL(f"the norm of order {order}")


REDUCTIONS: dict[str, tuple[Callable[[_Group], str], tuple[str, ...]]] = {
    "sum": (_sum, ()),
    "nansum": (lambda group: _sum(group, skip_nan=True), ()),
    "prod": (_prod, ()),
    "nanprod": (lambda group: _prod(group, skip_nan=True), ()),
    "mean": (_mean, ()),
    "nanmean": (lambda group: _mean(group, skip_nan=True), ()),
    "var": (_var, ("ddof", "correction")),
    "std": (lambda group: f"sqrt({_var(group)})", ("ddof", "correction")),
    "nanvar": (lambda group: _var(group, skip_nan=True), ("ddof", "correction")),
    "nanstd": (lambda group: f"sqrt({_var(group, skip_nan=True)})", ("ddof", "correction")),
    "min": (lambda group: _extreme(group, largest=False), ()),
    "max": (lambda group: _extreme(group, largest=True), ()),
    "nanmin": (lambda group: _extreme(group, largest=False, skip_nan=True), ()),
    "nanmax": (lambda group: _extreme(group, largest=True, skip_nan=True), ()),
    "any": (lambda group: _truth(group, every=False), ()),
    "all": (lambda group: _truth(group, every=True), ()),
    "count": (lambda group: "count(*)", ()),
    "norm": (_norm, ("ord",)),
}
"""By name: the aggregate of a group, and its options. Positions (argmin, argmax) are not supported."""


def reduction_sql(node: Reduce) -> str:
    """Return the aggregate of a group, in the dtype of the result.

    Raises
    ------
    UnsupportedInSQL
        If SQL does not have the reduction for this dtype and these options.
    """
    dtype = node.operand.schema.dtype
    if dtype.kind == "c" or np.float16 in (dtype, node.schema.dtype):
        raise UnsupportedInSQL(f"SQL has no {dtype}")
    if node.name not in REDUCTIONS:
        raise UnsupportedInSQL(f"SQL has no {node.name}")
    if not math.isfinite(_size(node)):
        raise UnsupportedInSQL("the group size exceeds the largest double")
    compile_group, supported = REDUCTIONS[node.name]
    for option, given in node.options.items():
        if given is not None and option not in supported:
            raise UnsupportedInSQL(f"{node.name} with {option}=")
    return cast(compile_group(_Group(node)), _aggregate_dtype(node.name, dtype), node.schema.dtype)


def _aggregate_dtype(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of an aggregate in SQL."""
    if name in ("min", "max", "nanmin", "nanmax"):
        return dtype
    if name in ("any", "all"):
        return np.dtype(bool)
    if name == "count" or (name in ("sum", "nansum") and dtype.kind in "bi"):
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if name in ("sum", "nansum") and dtype.kind == "u" else _DOUBLE


def _size(node: Reduce) -> float:
    try:
        return float(node.group_size)
    except OverflowError:
        return math.inf
