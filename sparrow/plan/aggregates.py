"""Reductions: result dtypes, folds, and the share of absent elements.

A :class:`Reduction` is built for the dtype and fill of an operand. An engine folds the stored elements of each group
(:mod:`sparrow.kernels.folds`) and passes the states to :meth:`Reduction.result` with a :class:`GroupCounts`, which
accounts for the absent elements without listing them.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import Schema, check_dtype
from sparrow.errors import InvalidValueError, NumberRangeError, UnsupportedError
from sparrow.kernels.folds import (
    ExtremumFold,
    Fold,
    MappedFold,
    MomentsFold,
    NanExtremumFold,
    NanMomentsFold,
    State,
    UfuncFold,
    merge_moments,
)

__all__ = [
    "REDUCTIONS", "AllOf", "AnyOf", "ArgBest", "Count", "Density", "Extreme", "GroupCounts", "Mean", "Norm", "Prod",
    "Reduction", "Sum", "Var", "reduction_for",
]  # fmt: skip

_Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class GroupCounts:
    """Numbers of stored and absent elements of each group, and the fill."""

    stored_counts: NDArray[np.int64] | None
    """Stored elements of each group; None if no reduction needs them."""
    size: int
    """Elements of each group, absent ones included; may exceed 2^63."""
    fill: Any
    stored: bool
    """True if only stored elements take part."""

    @property
    def count(self) -> NDArray[np.int64]:
        """The number of stored elements of each group."""
        assert self.stored_counts is not None
        return self.stored_counts

    @property
    def absent(self) -> NDArray[np.float64]:
        """The number of absent elements that take part."""
        if self.stored:
            return np.zeros(len(self.count))
        if self.size < 2**62:
            return (self.size - self.count).astype(np.float64)
        return np.asarray(float(self.size) - self.count)

    @property
    def present(self) -> _Array | float:
        """The number of elements that take part."""
        return self.count.astype(np.float64) if self.stored else float(self.size)

    def fill_sum(self, dtype: np.dtype[Any]) -> Any:
        """Return the sum of the absent elements, modulo 2^64 for integers."""
        if self.stored or not self.fill:
            return dtype.type(0)
        if dtype.kind in "iu":
            absent = np.uint64(self.size % 2**64) - self.count.view(np.uint64)
            return (absent * np.uint64(int(self.fill) % 2**64)).view(dtype)
        return self.repeated_sum(dtype.type(self.fill))

    def check_countable(self, dtype: np.dtype[Any]) -> None:
        """Check that an integer can count groups whose absent elements are True.

        Raises
        ------
        NumberRangeError
            If groups have more elements: no array of NumPy has as many.
        """
        if self.fill and not self.stored and dtype.kind in "iu" and self.size > np.iinfo(dtype).max:
            raise NumberRangeError(
                f"groups of {self.size} elements, the absent ones True, may exceed the largest count, "
                f"{np.iinfo(dtype).max}: count along fewer axes, take a part, or pass dtype='float64'"
            )

    def repeated_sum(self, value: Any) -> _Array:
        """Return the sum of a real or complex number repeated once per absent element."""
        absent = self.absent
        if not np.iscomplexobj(value):
            return np.asarray(np.where(absent > 0, absent * np.float64(value), 0))
        out = np.zeros(len(absent), np.complex128)
        out.real, out.imag = absent * value.real, absent * value.imag
        return np.asarray(np.where(absent > 0, out, 0))

    def fill_product(self, dtype: np.dtype[Any]) -> _Array:
        """Return the product of the absent elements, modulo 2^64 for integers."""
        count = self.count
        if self.stored:
            return np.ones(len(count), dtype)
        if dtype.kind not in "iu":
            absent = self.absent
            power = np.zeros(len(count), dtype) if self.fill == 0 else np.power(dtype.type(self.fill), absent)
            return np.asarray(np.where(absent > 0, power, 1).astype(dtype))
        base = int(self.fill)
        if base % 2:  # the powers of odd numbers modulo 2^64 repeat after 2^62
            exponent = (np.uint64(self.size % 2**62) - count.view(np.uint64)) & np.uint64(2**62 - 1)
        else:  # 64 even factors make 0
            exponent = (min(self.size, 2**62) - count).view(np.uint64)
            exponent = np.minimum(exponent, np.uint64(64))
        return np.asarray(np.power(np.uint64(base % 2**64), exponent).view(dtype))


@dataclass(frozen=True, slots=True)
class _Values:
    """Values of an operand, cast if ``dtype=`` is given."""

    dtype: np.dtype[Any]
    fill: Any
    cast: Callable[[_Array], _Array] | None

    @property
    def may_be_nan(self) -> bool:
        """True if NaN can occur."""
        return self.dtype.kind in "fc"

    def prepare(self, then: Callable[[_Array], _Array] | None = None) -> Callable[[_Array], _Array] | None:
        """Return the function that casts values and applies ``then``, or None."""
        cast = self.cast
        if cast is None or then is None:
            return then if cast is None else cast
        return lambda values: then(cast(values))

    def fold(self, fold: Fold) -> Fold:
        """Return a fold of the cast values."""
        return fold if self.cast is None else MappedFold(fold, self.cast)

    @classmethod
    def of(cls, name: str, schema: Schema, options: Mapping[str, Any], inexact: bool = False) -> _Values:
        """Return the values of a scan, cast if ``dtype=`` is given."""
        given, fill = schema.dtype, schema.fill_value
        if options.get("dtype") is None:
            return cls(given, fill, None)
        wanted = check_dtype(options["dtype"])
        if inexact and wanted.kind not in "fc":
            raise UnsupportedError(
                f"{name}: dtype must be a floating type, got {wanted}: cast the result with astype() afterwards"
            )
        if given.kind == "c" and wanted.kind != "c":
            raise UnsupportedError(f"{name}: dtype={wanted} drops the imaginary parts of {given}: take A.real first")
        if wanted == given:
            return cls(given, fill, None)
        with np.errstate(all="ignore"):
            return cls(wanted, np.asarray(fill).astype(wanted)[()], lambda values: values.astype(wanted))


def _accumulator_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which values are added up."""
    return np.dtype({"f": np.float64, "c": np.complex128, "u": np.uint64}.get(dtype.kind, np.int64))


def _inexact_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _magnitudes(values: _Array) -> _Array:
    return np.asarray(np.abs(values if values.dtype.kind in "fc" else values.astype(np.float64)))


def _squares(values: _Array) -> _Array:
    wide = values.astype(_inexact_dtype(values.dtype), copy=False)
    return np.asarray(wide.real**2 + wide.imag**2 if wide.dtype.kind == "c" else wide * wide)


def _is_nonzero(values: _Array) -> _Array:
    return np.asarray(values != 0)


def _replace_nan(number: int) -> Callable[[_Array], _Array]:
    return lambda values: np.where(np.isnan(values), values.dtype.type(number), values)


def _is_number(values: _Array) -> _Array:
    return np.asarray(~np.isnan(values))


def _result_dtype(name: str, schema: Schema, options: Mapping[str, Any], values: _Values) -> np.dtype[Any]:
    """Return the dtype of a reduction: ``dtype=``, or NumPy's choice."""
    return values.dtype if options.get("dtype") is not None else getattr(np.zeros(2, schema.dtype), name)().dtype


def _check_options(name: str, options: Mapping[str, Any], *allowed: str) -> None:
    unknown = [option for option in options if option not in allowed]
    if unknown:
        raise InvalidValueError(f"{name} has no option {unknown[0]!r}: {', '.join(allowed) or 'it takes none'}")


class Reduction(ABC):
    """A reduction of values of one dtype and fill.

    Attributes
    ----------
    dtype
        Dtype of the result.
    fill
        Value of the absent elements, in the dtype of the computation.
    folds
        The folds whose states :meth:`finish` needs, in order; equal keys mean equal folds.
    needs_counts
        Whether the numbers of stored elements are needed although the fill is 0.
    no_position_message
        Text of the error if a result, a position, is -1.
    """

    dtype: np.dtype[Any]
    fill: Any
    folds: dict[str, Fold]
    needs_counts: bool = True
    no_position_message: str | None = None

    @abstractmethod
    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Return the results of groups, of the states of the folds in order."""

    def result(self, states: list[State], groups: GroupCounts) -> _Array:
        """Return the results of groups in the dtype of the reduction."""
        with np.errstate(all="ignore"):
            return np.asarray(self.finish(states, groups)).astype(self.dtype, copy=False)


class Sum(Reduction):
    """Sum, in 64 bits; integers wrap as NumPy's do."""

    needs_counts = False

    def __init__(self, schema: Schema, options: Mapping[str, Any], skip_nan: bool = False) -> None:
        _check_options("sum", options, "dtype")
        values = _Values.of("sum", schema, options)
        skip_nan = skip_nan and values.may_be_nan
        self.fill, self._accumulator = values.fill, _accumulator_dtype(values.dtype)
        self._ignores_fill = skip_nan and bool(np.isnan(values.fill))
        self._counts = schema.dtype == np.bool_
        fold = UfuncFold(np.add, self._accumulator, 0, values.prepare(_replace_nan(0) if skip_nan else None))
        self.folds = {f"sum {skip_nan} {values.dtype}": fold}
        self.dtype = _result_dtype("sum", schema, options, values)

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Add the absent elements."""
        if self._counts:
            groups.check_countable(self._accumulator)
        return states[0][0] if self._ignores_fill else states[0][0] + groups.fill_sum(self._accumulator)


class Prod(Reduction):
    """Product, in 64 bits."""

    def __init__(self, schema: Schema, options: Mapping[str, Any], skip_nan: bool = False) -> None:
        _check_options("prod", options, "dtype")
        values = _Values.of("prod", schema, options)
        skip_nan = skip_nan and values.may_be_nan
        self.fill, self._accumulator = values.fill, _accumulator_dtype(values.dtype)
        self._ignores_fill = skip_nan and bool(np.isnan(values.fill))
        fold = UfuncFold(np.multiply, self._accumulator, 1, values.prepare(_replace_nan(1) if skip_nan else None))
        self.folds = {f"prod {skip_nan} {values.dtype}": fold}
        self.dtype = _result_dtype("prod", schema, options, values)

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Multiply by the absent elements."""
        return states[0][0] if self._ignores_fill else states[0][0] * groups.fill_product(self._accumulator)


class Mean(Reduction):
    """Mean in double precision."""

    def __init__(self, schema: Schema, options: Mapping[str, Any], skip_nan: bool = False) -> None:
        _check_options("mean", options, "dtype")
        values = _Values.of("mean", schema, options, inexact=True)
        self.fill, self._accumulator = values.fill, _inexact_dtype(values.dtype)
        self._skip_nan = self.needs_counts = skip_nan = skip_nan and values.may_be_nan
        self._ignores_fill = skip_nan and bool(np.isnan(self.fill))
        prepare = values.prepare(_replace_nan(0) if skip_nan else None)
        self.folds = {f"mean {skip_nan} {values.dtype}": UfuncFold(np.add, self._accumulator, 0, prepare)}
        if skip_nan:
            counts = UfuncFold(np.add, np.dtype(np.int64), 0, values.prepare(_is_number))
            self.folds[f"numbers {values.dtype}"] = counts
        self.dtype = _result_dtype("mean", schema, options, values)

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Divide the sum by the number of elements."""
        fill, adds_fill = self.fill, bool(self.fill) and not self._ignores_fill
        total = states[0][0] + groups.fill_sum(self._accumulator) if adds_fill else states[0][0]
        members = groups.present
        if self._skip_nan:
            members = states[1][0] + (0 if self._ignores_fill else groups.absent)
        out = total / members
        if adds_fill and not groups.stored and groups.size:
            out = np.where(groups.count == 0, self._accumulator.type(fill), out)
        return out


class Var(Reduction):
    """Variance by merged moments, or its root, the standard deviation."""

    def __init__(self, schema: Schema, options: Mapping[str, Any], root: bool = False, skip_nan: bool = False) -> None:
        name = "std" if root else "var"
        _check_options(name, options, "ddof", "correction", "dtype")
        given = [options[key] for key in ("ddof", "correction") if options.get(key) is not None]
        if len(given) > 1:
            raise InvalidValueError(f"{name}: ddof and correction mean the same, pass one of them")
        if given and not isinstance(given[0], numbers.Real):
            raise InvalidValueError(f"{name}: ddof must be a number, got {given[0]!r}")
        self._ddof = float(given[0]) if given else 0.0
        values = _Values.of(name, schema, options, inexact=True)
        wide = _inexact_dtype(values.dtype)
        self.fill, self._fill, self._root = values.fill, wide.type(values.fill), root
        self._skip_nan = skip_nan = skip_nan and values.may_be_nan
        self._ignores_fill = skip_nan and bool(np.isnan(self._fill))
        self.dtype = values.dtype if options.get("dtype") is not None else np.zeros(2, values.dtype).var().dtype
        fold = values.fold(NanMomentsFold(wide) if skip_nan else MomentsFold(wide))
        self.folds = {f"moments {skip_nan} {values.dtype}": fold}

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Merge the moments of the absent elements, which are equal, and divide."""
        fill, skip_nan, ignores_fill = self._fill, self._skip_nan, self._ignores_fill
        mean, away = states[0][:2]
        count = (states[0][2] if skip_nan else groups.count).astype(np.float64)
        members = groups.present
        if skip_nan:
            members = count if ignores_fill else count + groups.absent
        if not groups.stored and not ignores_fill:
            absent = groups.absent
            others = (np.full(len(mean), fill), np.full(len(mean), 0.0 if np.isfinite(fill) else np.nan))
            together = merge_moments((mean, away), count, others, absent)[1]
            away = np.where(absent > 0, np.where(count > 0, together, others[1]), away)
        out = away / np.maximum(members - self._ddof, 0)
        if skip_nan:
            out = np.where(members > self._ddof, out, np.nan)
        return np.sqrt(out) if self._root else out


class Extreme(Reduction):
    """Minimum or maximum."""

    def __init__(self, schema: Schema, options: Mapping[str, Any], largest: bool, skip_nan: bool = False) -> None:
        _check_options("max" if largest else "min", options)
        self.dtype, self.fill = schema.dtype, schema.fill_value
        skip_nan = skip_nan and self.dtype.kind in "fc"
        propagating, skipping = (np.maximum, np.fmax) if largest else (np.minimum, np.fmin)
        self._ufunc = skipping if skip_nan else propagating
        start: Any = self.dtype.type(np.nan) if skip_nan else _worst_value(self.dtype, largest)
        self.folds = {self._ufunc.__name__: UfuncFold(self._ufunc, self.dtype, start)}

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Compare with the fill where elements are absent."""
        value = states[0][0]
        out = value if groups.stored else np.where(groups.absent > 0, self._ufunc(value, self.fill), value)
        return np.where(groups.count == 0, self.fill, out)


def _worst_value(dtype: np.dtype[Any], largest: bool) -> Any:
    """Return the value that loses against all others."""
    if dtype.kind == "b":
        return not largest
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if largest else np.iinfo(dtype).max
    end = -np.inf if largest else np.inf
    return complex(end, end) if dtype.kind == "c" else end


class AnyOf(Reduction):
    """Truth of an element that differs from 0."""

    needs_counts = False

    def __init__(self, schema: Schema, options: Mapping[str, Any]) -> None:
        _check_options("any", options)
        self.dtype, self.fill = np.dtype(bool), schema.fill_value
        self.folds = {"any": UfuncFold(np.logical_or, self.dtype, False, _is_nonzero)}

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Count absent elements as their fill."""
        return states[0][0] | (groups.absent > 0) if groups.fill else states[0][0]


class AllOf(Reduction):
    """Truth of all elements differing from 0."""

    def __init__(self, schema: Schema, options: Mapping[str, Any]) -> None:
        _check_options("all", options)
        self.dtype, self.fill = np.dtype(bool), schema.fill_value
        self.folds = {"all": UfuncFold(np.logical_and, self.dtype, True, _is_nonzero)}

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Count absent elements as their fill."""
        return states[0][0] if groups.fill else states[0][0] & (groups.absent == 0)


class Count(Reduction):
    """Number of stored elements."""

    def __init__(self, schema: Schema, options: Mapping[str, Any]) -> None:
        _check_options("count", options)
        self.dtype, self.fill, self.folds = np.dtype(np.int64), schema.fill_value, {}

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Return the counts."""
        return groups.count


class Density(Reduction):
    """Share of elements that are stored."""

    def __init__(self, schema: Schema, options: Mapping[str, Any]) -> None:
        _check_options("density", options)
        self.dtype, self.fill, self.folds = np.dtype(np.float64), schema.fill_value, {}

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Divide the counts by the size of a group."""
        return groups.count / np.float64(groups.size)


class Norm(Reduction):
    """Vector norm of an order: 0, a positive or negative number, inf or -inf."""

    def __init__(self, schema: Schema, options: Mapping[str, Any]) -> None:
        _check_options("norm", options, "ord")
        given = options.get("ord", 2)
        order = float(given) if isinstance(given, numbers.Real) else math.nan
        if math.isnan(order):
            raise InvalidValueError(f"norm: ord must be a number, inf or -inf, got {given!r}")
        dtype, double = schema.dtype, np.dtype(np.float64)
        self.fill, self._order, self.needs_counts = _inexact_dtype(dtype).type(schema.fill_value), order, order < 0
        self.dtype = np.empty(0, dtype).real.dtype if dtype.kind in "fc" else double
        if np.isinf(order):
            self._ufunc: np.ufunc = np.maximum if order > 0 else np.minimum
            fold = UfuncFold(self._ufunc, double, 0.0 if order > 0 else np.inf, _magnitudes)
        else:
            power = _power(order)
            self._fill_power = power(np.asarray(self.fill)).astype(np.float64)[()]
            fold = UfuncFold(np.add, double, 0, power)
        self.folds = {f"norm {order}": fold}

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Add the powers of absent elements and take the root, or compare."""
        found, order = states[0][0], self._order
        if np.isinf(order):
            if order > 0 and not self.fill:
                return found
            out = np.where(groups.absent > 0, self._ufunc(found, np.abs(self.fill)), found)
            return np.where((groups.absent == 0) & (groups.count == 0), 0.0, out)
        total = found + groups.repeated_sum(self._fill_power) if self.fill or order < 0 else found
        with np.errstate(divide="ignore"):  # of negative order an element of 0 is infinite, and the norm 0
            out = total if order in (0, 1) else np.sqrt(total) if order == 2 else total ** (1 / order)
        return np.where(groups.count == 0, 0.0, out) if order < 0 and groups.stored else out


def _power(order: float) -> Callable[[_Array], _Array]:
    """Return the function from values to powers of their magnitudes."""
    if order in (0, 1, 2):
        return _is_nonzero if order == 0 else _magnitudes if order == 1 else _squares

    def power(values: _Array) -> _Array:
        with np.errstate(divide="ignore"):
            return np.asarray(_magnitudes(values).astype(np.float64, copy=False) ** order)

    return power


class ArgBest(Reduction):
    """Position of the first minimum or maximum among all elements of a group."""

    def __init__(self, schema: Schema, options: Mapping[str, Any], largest: bool, skip_nan: bool = False) -> None:
        name = f"{'nan' if skip_nan else ''}arg{'max' if largest else 'min'}"
        _check_options(name, options)
        self._skip_nan = skip_nan = skip_nan and schema.dtype.kind in "fc"
        self._fold = (NanExtremumFold if skip_nan else ExtremumFold)(schema.dtype, largest)
        self.dtype, self.fill = np.dtype(np.int64), schema.fill_value
        self.folds = {f"best {largest} {skip_nan}": self._fold}
        self.no_position_message = (
            f"{name}: a line holds nothing but NaN and has no position to return: pass where='stored' to get -1 there"
        )

    def finish(self, states: list[State], groups: GroupCounts) -> Any:
        """Let the first absent element win where the fill beats the stored elements."""
        value, where, first, follows = states[0][:4]
        fill = np.asarray(self.fill)
        there = groups.count > 0
        if self._skip_nan:
            there &= ~np.isnan(value)
        if groups.stored:
            return np.where(there, where, -1)
        absent = np.where((first == 0) & (groups.count > 0), follows, 0)
        wins = (groups.count == 0) | ((groups.absent > 0) & self._fold.beats(fill, value))
        if self._skip_nan:
            wins &= ~np.isnan(fill)
        return np.where(wins, absent, np.where(there, where, -1))


_TYPES: dict[str, tuple[Callable[..., Reduction], dict[str, bool]]] = {
    "sum": (Sum, {}),
    "prod": (Prod, {}),
    "mean": (Mean, {}),
    "var": (Var, {}),
    "std": (Var, {"root": True}),
    "min": (Extreme, {"largest": False}),
    "max": (Extreme, {"largest": True}),
    "any": (AnyOf, {}),
    "all": (AllOf, {}),
    "count": (Count, {}),
    "norm": (Norm, {}),
    "argmin": (ArgBest, {"largest": False}),
    "argmax": (ArgBest, {"largest": True}),
    "nansum": (Sum, {"skip_nan": True}),
    "nanprod": (Prod, {"skip_nan": True}),
    "nanmean": (Mean, {"skip_nan": True}),
    "nanvar": (Var, {"skip_nan": True}),
    "nanstd": (Var, {"root": True, "skip_nan": True}),
    "nanmin": (Extreme, {"largest": False, "skip_nan": True}),
    "nanmax": (Extreme, {"largest": True, "skip_nan": True}),
    "nanargmin": (ArgBest, {"largest": False, "skip_nan": True}),
    "nanargmax": (ArgBest, {"largest": True, "skip_nan": True}),
}

REDUCTIONS = tuple(_TYPES)
"""The names of the reductions."""


def reduction_for(name: str, schema: Schema, options: Mapping[str, Any]) -> Reduction:
    """Return the reduction of a name for an operand.

    Parameters
    ----------
    name
        One of :data:`REDUCTIONS`, or "density".

    Raises
    ------
    InvalidValueError
        If the reduction has no such option.
    UnsupportedError
        If ``dtype`` cannot hold the result.
    """
    build, fields = (Density, {}) if name == "density" else _TYPES[name]
    return build(schema, options, **fields)
