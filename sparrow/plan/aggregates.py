"""The reductions: their types, what they need of each group of entries, and what absent cells add to it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import Schema, check_dtype
from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.kernels.folds import (
    Best,
    BestNumber,
    Fold,
    Moments,
    NumberMoments,
    Prepared,
    Running,
    State,
    merged_moments,
)

__all__ = ["REDUCTIONS", "GroupCounts", "Reduction", "reduction_for"]

_Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class GroupCounts:
    """How many cells groups have, and what the absent ones hold."""

    entries: NDArray[np.int64] | None
    """The number of entries of each group; None where it is not needed."""
    cells: int
    """The number of cells of each group; may pass 2^63."""
    fill: Any
    stored: bool
    """Whether only entries count."""

    @property
    def count(self) -> NDArray[np.int64]:
        """The number of entries of each group."""
        assert self.entries is not None
        return self.entries

    @property
    def absent(self) -> NDArray[np.float64]:
        """The number of absent cells that take part."""
        if self.stored:
            return np.zeros(len(self.count))
        if self.cells < 2**62:
            return (self.cells - self.count).astype(np.float64)
        return np.asarray(float(self.cells) - self.count)

    @property
    def present(self) -> _Array | float:
        """The number of cells that take part."""
        return self.count.astype(np.float64) if self.stored else float(self.cells)

    def fill_sum(self, dtype: np.dtype[Any]) -> Any:
        """Return the sum of the absent cells, modulo 2^64 for integers."""
        if self.stored or not self.fill:
            return dtype.type(0)
        if dtype.kind in "iu":
            absent = np.uint64(self.cells % 2**64) - self.count.view(np.uint64)
            return (absent * np.uint64(int(self.fill) % 2**64)).view(dtype)
        return self.sum_of(dtype.type(self.fill))

    def sum_of(self, value: Any) -> _Array:
        """Return the sum of as many real or complex numbers as there are absent cells."""
        absent = self.absent
        if not np.iscomplexobj(value):
            return np.asarray(np.where(absent > 0, absent * np.float64(value), 0))
        out = np.zeros(len(absent), np.complex128)
        out.real, out.imag = absent * value.real, absent * value.imag
        return np.asarray(np.where(absent > 0, out, 0))

    def fill_power(self, dtype: np.dtype[Any]) -> _Array:
        """Return the product of the absent cells, modulo 2^64 for integers."""
        count = self.count
        if self.stored:
            return np.ones(len(count), dtype)
        if dtype.kind not in "iu":
            absent = self.absent
            power = np.zeros(len(count), dtype) if self.fill == 0 else np.power(dtype.type(self.fill), absent)
            return np.asarray(np.where(absent > 0, power, 1).astype(dtype))
        base = int(self.fill)
        if base % 2:  # the powers of odd numbers modulo 2^64 repeat after 2^62
            exponent = (np.uint64(self.cells % 2**62) - count.view(np.uint64)) & np.uint64(2**62 - 1)
        else:  # 64 even factors make 0
            exponent = (min(self.cells, 2**62) - count).view(np.uint64)
            exponent = np.minimum(exponent, np.uint64(64))
        return np.asarray(np.power(np.uint64(base % 2**64), exponent).view(dtype))


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A reduction of given values: its type, what it needs of each group, and how it comes of that."""

    dtype: np.dtype[Any]
    fill: Any
    """What absent cells hold, in the type in which cells are looked at."""
    folds: dict[str, Fold]
    finish: Callable[[list[State], GroupCounts], Any]
    """Takes the states of the folds, in order."""
    counted: bool = True
    """Whether numbers of entries are needed though the fill is 0."""
    nowhere: str | None = None
    """What is wrong where a result, a position among all cells, is -1."""

    def result(self, states: list[State], totals: GroupCounts) -> _Array:
        """Return the results of groups, in the type of the reduction."""
        with np.errstate(all="ignore"):
            return np.asarray(self.finish(states, totals)).astype(self.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class _Cells:
    """What the cells of a scan are taken for: their own values, or those of another type."""

    dtype: np.dtype[Any]
    fill: Any
    cast: Callable[[_Array], _Array] | None

    @property
    def may_be_nan(self) -> bool:
        """Whether there can be NaN."""
        return self.dtype.kind in "fc"

    def prepared(self, prepare: Callable[[_Array], _Array] | None = None) -> Callable[[_Array], _Array] | None:
        """Return what is done to values first: the cast, then ``prepare``."""
        cast = self.cast
        if cast is None or prepare is None:
            return prepare if cast is None else cast
        return lambda values: prepare(cast(values))

    def fold(self, fold: Fold) -> Fold:
        """Return a fold of the values as they are taken."""
        return fold if self.cast is None else Prepared(fold, self.cast)


def _cells(name: str, schema: Schema, options: dict[str, Any], inexact: bool = False) -> _Cells:
    """Return the cells as ``dtype=`` asks for them."""
    given, fill = schema.dtype, schema.fill_value
    if options.get("dtype") is None:
        return _Cells(given, fill, None)
    wanted = check_dtype(options["dtype"])
    if inexact and wanted.kind not in "fc":
        raise UnsupportedError(f"{name}: dtype={wanted} has no fractions: use a floating type, and astype() afterwards")
    if given.kind == "c" and wanted.kind != "c":
        raise UnsupportedError(f"{name}: dtype={wanted} drops the imaginary parts of {given}: take A.real first")
    if wanted == given:
        return _Cells(given, fill, None)
    with np.errstate(all="ignore"):
        return _Cells(wanted, np.asarray(fill).astype(wanted)[()], lambda values: values.astype(wanted))


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which values are added up."""
    return np.dtype({"f": np.float64, "c": np.complex128, "u": np.uint64}.get(dtype.kind, np.int64))


def _floating(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _magnitudes(values: _Array) -> _Array:
    return np.asarray(np.abs(values if values.dtype.kind in "fc" else values.astype(np.float64)))


def _squares(values: _Array) -> _Array:
    wide = values.astype(_floating(values.dtype), copy=False)
    return np.asarray(wide.real**2 + wide.imag**2 if wide.dtype.kind == "c" else wide * wide)


def _nonzero(values: _Array) -> _Array:
    return np.asarray(values != 0)


def _nan_as(number: int) -> Callable[[_Array], _Array]:
    return lambda values: np.where(np.isnan(values), values.dtype.type(number), values)


def _numbers(values: _Array) -> _Array:
    return np.asarray(~np.isnan(values))


def _typed(name: str, schema: Schema, options: dict[str, Any], cells: _Cells) -> np.dtype[Any]:
    """Return the type of a reduction that takes ``dtype=``: that type, or NumPy's choice."""
    return cells.dtype if options.get("dtype") is not None else getattr(np.zeros(2, schema.dtype), name)().dtype


def _sum(schema: Schema, options: dict[str, Any], skip_nan: bool = False) -> Reduction:
    _option("sum", options, "dtype")
    cells = _cells("sum", schema, options)
    skip_nan = skip_nan and cells.may_be_nan
    wide = _wide(cells.dtype)
    fold = Running(np.add, wide, 0, cells.prepared(_nan_as(0) if skip_nan else None))
    nothing = skip_nan and bool(np.isnan(cells.fill))

    def finish(states: list[State], totals: GroupCounts) -> Any:
        return states[0][0] if nothing else states[0][0] + totals.fill_sum(wide)

    dtype = _typed("sum", schema, options, cells)
    return Reduction(dtype, cells.fill, {f"sum {skip_nan} {cells.dtype}": fold}, finish, counted=False)


def _prod(schema: Schema, options: dict[str, Any], skip_nan: bool = False) -> Reduction:
    _option("prod", options, "dtype")
    cells = _cells("prod", schema, options)
    skip_nan = skip_nan and cells.may_be_nan
    wide = _wide(cells.dtype)
    fold = Running(np.multiply, wide, 1, cells.prepared(_nan_as(1) if skip_nan else None))
    nothing = skip_nan and bool(np.isnan(cells.fill))

    def finish(states: list[State], totals: GroupCounts) -> Any:
        return states[0][0] if nothing else states[0][0] * totals.fill_power(wide)

    return Reduction(
        _typed("prod", schema, options, cells), cells.fill, {f"prod {skip_nan} {cells.dtype}": fold}, finish
    )


def _mean(schema: Schema, options: dict[str, Any], skip_nan: bool = False) -> Reduction:
    _option("mean", options, "dtype")
    cells = _cells("mean", schema, options, inexact=True)
    fill = cells.fill
    skip_nan = skip_nan and cells.may_be_nan
    wide = _floating(cells.dtype)
    prepare = cells.prepared(_nan_as(0) if skip_nan else None)
    folds: dict[str, Fold] = {f"mean {skip_nan} {cells.dtype}": Running(np.add, wide, 0, prepare)}
    if skip_nan:
        folds[f"numbers {cells.dtype}"] = Running(np.add, np.dtype(np.int64), 0, cells.prepared(_numbers))
    nothing = skip_nan and bool(np.isnan(fill))

    def finish(states: list[State], totals: GroupCounts) -> Any:
        total = states[0][0] if nothing or not fill else states[0][0] + totals.fill_sum(wide)
        members = states[1][0] + (0 if nothing else totals.absent) if skip_nan else totals.present
        out = total / members
        if fill and not nothing and not totals.stored and totals.cells:
            out = np.where(totals.count == 0, wide.type(fill), out)
        return out

    return Reduction(_typed("mean", schema, options, cells), fill, folds, finish, counted=skip_nan)


def _var(schema: Schema, options: dict[str, Any], root: bool = False, skip_nan: bool = False) -> Reduction:
    name = "std" if root else "var"
    _option(name, options, "ddof", "correction", "dtype")
    given = [options[key] for key in ("ddof", "correction") if options.get(key) is not None]
    if len(given) > 1:
        raise InvalidValueError(f"{name}: ddof and correction are one thing, give one of them")
    if given and not isinstance(given[0], numbers.Real):
        raise InvalidValueError(f"{name}: ddof={given[0]!r} must be a number")
    ddof = float(given[0]) if given else 0.0
    cells = _cells(name, schema, options, inexact=True)
    skip_nan = skip_nan and cells.may_be_nan
    wide = _floating(cells.dtype)
    fill = wide.type(cells.fill)
    nothing = skip_nan and bool(np.isnan(fill))

    def finish(states: list[State], totals: GroupCounts) -> Any:
        mean, away = states[0][:2]
        count = (states[0][2] if skip_nan else totals.count).astype(np.float64)
        members = totals.present
        if skip_nan:
            members = count if nothing else count + totals.absent
        if not totals.stored and not nothing:
            absent = totals.absent
            others = (np.full(len(mean), fill), np.full(len(mean), 0.0 if np.isfinite(fill) else np.nan))
            together = merged_moments((mean, away), count, others, absent)[1]
            away = np.where(absent > 0, np.where(count > 0, together, others[1]), away)
        out = away / np.maximum(members - ddof, 0)
        if skip_nan:
            out = np.where(members > ddof, out, np.nan)
        return np.sqrt(out) if root else out

    dtype = cells.dtype if options.get("dtype") is not None else np.zeros(2, cells.dtype).var().dtype
    fold = cells.fold(NumberMoments(wide) if skip_nan else Moments(wide))
    return Reduction(dtype, cells.fill, {f"moments {skip_nan} {cells.dtype}": fold}, finish)


def _extreme(schema: Schema, options: dict[str, Any], largest: bool, skip_nan: bool = False) -> Reduction:
    _option("max" if largest else "min", options)
    dtype, fill = schema.dtype, schema.fill_value
    skip_nan = skip_nan and dtype.kind in "fc"
    plain, skipping = (np.maximum, np.fmax) if largest else (np.minimum, np.fmin)
    ufunc = skipping if skip_nan else plain
    worst: Any = dtype.type(np.nan) if skip_nan else _worst(dtype, largest)

    def finish(states: list[State], totals: GroupCounts) -> Any:
        value = states[0][0]
        out = value if totals.stored else np.where(totals.absent > 0, ufunc(value, fill), value)
        return np.where(totals.count == 0, fill, out)

    return Reduction(dtype, fill, {f"{ufunc.__name__}": Running(ufunc, dtype, worst)}, finish)


def _worst(dtype: np.dtype[Any], largest: bool) -> Any:
    """Return the value that loses against all others."""
    if dtype.kind == "b":
        return not largest
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if largest else np.iinfo(dtype).max
    end = -np.inf if largest else np.inf
    return complex(end, end) if dtype.kind == "c" else end


def _any(schema: Schema, options: dict[str, Any]) -> Reduction:
    _option("any", options)

    def finish(states: list[State], totals: GroupCounts) -> Any:
        return states[0][0] | (totals.absent > 0) if totals.fill else states[0][0]

    fold = Running(np.logical_or, np.dtype(bool), False, _nonzero)
    return Reduction(np.dtype(bool), schema.fill_value, {"any": fold}, finish, counted=False)


def _all(schema: Schema, options: dict[str, Any]) -> Reduction:
    _option("all", options)

    def finish(states: list[State], totals: GroupCounts) -> Any:
        return states[0][0] if totals.fill else states[0][0] & (totals.absent == 0)

    fold = Running(np.logical_and, np.dtype(bool), True, _nonzero)
    return Reduction(np.dtype(bool), schema.fill_value, {"all": fold}, finish)


def _count(schema: Schema, options: dict[str, Any]) -> Reduction:
    _option("count", options)
    return Reduction(np.dtype(np.int64), schema.fill_value, {}, lambda states, totals: totals.count)


def _density(schema: Schema, options: dict[str, Any]) -> Reduction:
    _option("density", options)
    cells = np.dtype(np.float64)
    return Reduction(cells, schema.fill_value, {}, lambda states, totals: totals.count / np.float64(totals.cells))


def _norm(schema: Schema, options: dict[str, Any]) -> Reduction:
    _option("norm", options, "ord")
    given = options.get("ord", 2)
    degree = float(given) if isinstance(given, numbers.Real) else math.nan
    if math.isnan(degree):
        raise InvalidValueError(f"norm: ord={given!r} must be a number, inf or -inf")
    dtype = schema.dtype
    fill = _floating(dtype).type(schema.fill_value)
    result = np.empty(0, dtype).real.dtype if dtype.kind in "fc" else np.dtype(np.float64)
    wide = np.dtype(np.float64)
    key = f"norm {degree}"
    if np.isinf(degree):
        ufunc: np.ufunc = np.maximum if degree > 0 else np.minimum
        start = 0.0 if degree > 0 else np.inf

        def extreme(states: list[State], totals: GroupCounts) -> Any:
            found = states[0][0]
            if degree > 0 and not fill:
                return found
            out = np.where(totals.absent > 0, ufunc(found, np.abs(fill)), found)
            return np.where((totals.absent == 0) & (totals.count == 0), 0.0, out)

        return Reduction(result, fill, {key: Running(ufunc, wide, start, _magnitudes)}, extreme, counted=degree < 0)
    prepare = _powers(degree)
    each = prepare(np.asarray(fill)).astype(np.float64)[()]

    def finish(states: list[State], totals: GroupCounts) -> Any:
        total = states[0][0] + totals.sum_of(each) if fill or degree < 0 else states[0][0]
        with np.errstate(divide="ignore"):  # of negative degree a cell of 0 is infinite, and the norm 0
            out = total if degree in (0, 1) else np.sqrt(total) if degree == 2 else total ** (1 / degree)
        return np.where(totals.count == 0, 0.0, out) if degree < 0 and totals.stored else out

    return Reduction(result, fill, {key: Running(np.add, wide, 0, prepare)}, finish, counted=degree < 0)


def _powers(degree: float) -> Callable[[_Array], _Array]:
    """Return what gives the powers of magnitudes."""
    if degree in (0, 1, 2):
        return _nonzero if degree == 0 else _magnitudes if degree == 1 else _squares

    def powers(values: _Array) -> _Array:
        with np.errstate(divide="ignore"):
            return np.asarray(_magnitudes(values).astype(np.float64, copy=False) ** degree)

    return powers


def _best(schema: Schema, options: dict[str, Any], largest: bool, skip_nan: bool = False) -> Reduction:
    name = f"{'nan' if skip_nan else ''}arg{'max' if largest else 'min'}"
    _option(name, options)
    skip_nan = skip_nan and schema.dtype.kind in "fc"
    fold = (BestNumber if skip_nan else Best)(schema.dtype, largest)
    fill = np.asarray(schema.fill_value)

    def finish(states: list[State], totals: GroupCounts) -> Any:
        value, where, first, follows = states[0][:4]
        there = totals.count > 0
        if skip_nan:
            there &= ~np.isnan(value)
        if totals.stored:
            return np.where(there, where, -1)
        absent = np.where((first == 0) & (totals.count > 0), follows, 0)
        wins = (totals.count == 0) | ((totals.absent > 0) & fold.beats(fill, value))
        if skip_nan:
            wins &= ~np.isnan(fill)
        return np.where(wins, absent, np.where(there, where, -1))

    nowhere = f"{name}: a line holds nothing but NaN and has no position to return: where='stored' gives -1 there"
    key = f"best {largest} {skip_nan}"
    return Reduction(np.dtype(np.int64), schema.fill_value, {key: fold}, finish, nowhere=nowhere)


_MEANINGS: dict[str, Callable[[Schema, dict[str, Any]], Reduction]] = {
    "sum": _sum,
    "prod": _prod,
    "mean": _mean,
    "var": _var,
    "std": partial(_var, root=True),
    "min": partial(_extreme, largest=False),
    "max": partial(_extreme, largest=True),
    "any": _any,
    "all": _all,
    "count": _count,
    "norm": _norm,
    "argmin": partial(_best, largest=False),
    "argmax": partial(_best, largest=True),
    "nansum": partial(_sum, skip_nan=True),
    "nanprod": partial(_prod, skip_nan=True),
    "nanmean": partial(_mean, skip_nan=True),
    "nanvar": partial(_var, skip_nan=True),
    "nanstd": partial(_var, root=True, skip_nan=True),
    "nanmin": partial(_extreme, largest=False, skip_nan=True),
    "nanmax": partial(_extreme, largest=True, skip_nan=True),
    "nanargmin": partial(_best, largest=False, skip_nan=True),
    "nanargmax": partial(_best, largest=True, skip_nan=True),
}

REDUCTIONS = tuple(_MEANINGS)
"""The names of the reductions."""


def reduction_for(name: str, schema: Schema, options: Mapping[str, Any]) -> Reduction:
    """Return what one of :data:`REDUCTIONS`, or "density", the share of cells that differ from fill, means.

    Raises
    ------
    InvalidValueError
        If an option is not one there is.
    UnsupportedError
        If ``dtype`` cannot hold the result.
    """
    return (_density if name == "density" else _MEANINGS[name])(schema, dict(options))


def _option(name: str, options: dict[str, Any], *allowed: str) -> None:
    unknown = [option for option in options if option not in allowed]
    if unknown:
        raise InvalidValueError(f"{name} has no option {unknown[0]!r}: {', '.join(allowed) or 'it takes none'}")
