"""What reductions mean: their types, what absent cells add, and what comes of groups without entries.

Results are NumPy's. Under ``where="all"`` absent cells take part with the fill value, counted and never listed.
Under ``where="stored"`` only entries do: a mean divides by their number, and a group without entries gives 0 for
``sum``, ``count``, ``norm`` and ``nansum``, 1 for ``prod``, False for ``any``, True for ``all``, NaN for ``mean``,
``var`` and ``std``, the fill value for ``min`` and ``max``, and -1 for ``argmin`` and ``argmax``. No warnings are
given where NumPy warns of an empty slice; what raises there raises here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.engines import stream
from sparrow.engines.derived import Derived
from sparrow.engines.reduce import Grouping, Groups, first_extreme, in_order
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.index import Listed, Range
from sparrow.kernels.entries import Block
from sparrow.kernels.reduce import Best, Fold, Moments, Running, State, merged_moments
from sparrow.plan import Scan
from sparrow.schema import Schema, is_fill

__all__ = ["REDUCTIONS", "Axis", "Where", "reduced", "statistics"]

Axis: TypeAlias = "int | Sequence[int] | None"
Where: TypeAlias = Literal["all", "stored"]

_Array: TypeAlias = NDArray[Any]

_WITHOUT_IDENTITY = ("min", "max", "nanmin", "nanmax", "argmin", "argmax")


def reduced(
    scan: Scan, name: str, axis: Axis = None, keepdims: bool = False, where: Where = "all", **options: Any
) -> Any:
    """Return a reduction of a tensor: a NumPy scalar where no axis stays, else a lazy relation.

    Parameters
    ----------
    scan
        What is reduced.
    name
        One of :data:`REDUCTIONS`.
    axis
        The axes that go, all by default; ``argmin`` and ``argmax`` take one or None.
    keepdims
        Keep them with length 1, and their names; the result is then a relation always.
    where
        "all" cells, or the "stored" ones.
    **options
        ``ddof`` (or ``correction``) of "var" and "std", ``ord`` (0, 1, 2 or inf) of "norm".

    Returns
    -------
    NumPy scalar, or Derived
        Its fill value is the reduction of a group that has no entries, so that it is sparse.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice, or a reduction without an identity has no cells.
    InvalidValueError
        If a name or an option is not one there is.
    UnsupportedError
        If NumPy does not do this of such values, or a flat position would pass 2^63 - 1.
    """
    kept = _kept(scan, name, axis, where)
    if kept == () and not keepdims:
        if name == "count":
            return np.int64(stream.count(scan))
        if name in ("argmin", "argmax") and where == "all" and scan.schema.size and not in_order(scan):
            return np.int64(first_extreme(scan, Best(scan.schema.dtype, name == "argmax")))
    return _several(scan, {name: _meaning(name, scan, options)}, kept, keepdims, {name: where})[name]


def statistics(scan: Scan, names: Sequence[str], axis: Axis = None, keepdims: bool = False) -> dict[str, Any]:
    """Return several reductions of a tensor by name, computed in one scan.

    Parameters
    ----------
    scan
        What is reduced.
    names
        Names of :data:`REDUCTIONS`; ``stored_`` before one means ``where="stored"``. ``nnz`` is the number of
        entries, ``density`` its share of the cells.
    axis, keepdims
        As of :func:`reduced`.

    Raises
    ------
    ShapeError, InvalidValueError, UnsupportedError
        As of :func:`reduced`.
    """
    meanings: dict[str, _Meaning] = {}
    wheres: dict[str, Where] = {}
    kept: tuple[int, ...] = _kept(scan, "count", axis, "all")
    for name in names:
        wheres[name] = "stored" if name.startswith("stored_") else "all"
        plain = {"nnz": "count"}.get(name, name.removeprefix("stored_"))
        if plain != "density":
            _kept(scan, plain, axis, wheres[name])
        meanings[name] = _density(scan) if plain == "density" else _meaning(plain, scan, {})
    return _several(scan, meanings, kept, keepdims, wheres)


# -- arguments -----------------------------------------------------------------------------------


def _kept(scan: Scan, name: str, axis: Axis, where: str) -> tuple[int, ...]:
    """Return the axes that stay, having looked at the arguments."""
    if name not in REDUCTIONS:
        raise InvalidValueError(f"no reduction {name!r}: there are {', '.join(REDUCTIONS)}")
    if where not in ("all", "stored"):
        raise InvalidValueError(f"{name}: where={where!r} must be 'all' or 'stored'")
    ndim, shape = scan.schema.ndim, scan.schema.shape
    if axis is None:
        gone = set(range(ndim))
    else:
        if isinstance(axis, Sequence) and name in ("argmin", "argmax"):
            raise UnsupportedError(f"{name}: axis={axis!r} must be one axis or None")
        try:
            wanted = [operator.index(k) for k in (axis if isinstance(axis, Sequence) else (axis,))]
        except TypeError:
            raise UnsupportedError(f"{name}: axis={axis!r} must be an integer, a tuple of integers or None") from None
        for k in wanted:
            if not -ndim <= k < ndim:
                raise ShapeError(f"{name}: axis {k} is out of range for a tensor of shape {shape}")
        gone = {k % ndim for k in wanted}
        if len(gone) < len(wanted):
            raise ShapeError(f"{name}: axis={axis!r} names an axis of shape {shape} twice")
    kept = tuple(k for k in range(ndim) if k not in gone)
    if where == "all" and name in _WITHOUT_IDENTITY and any(shape[k] == 0 for k in gone):
        raise ShapeError(f"{name} of shape {shape} over axis {axis}: no cells, and {name} has no identity")
    if name in ("argmin", "argmax") and math.prod(shape[k] for k in gone) > 2**63 - 1:
        raise UnsupportedError(
            f"{name}: the flat position in shape {shape} may pass 2^63 - 1: reduce along one axis, or take a part"
        )
    return kept


def _option(name: str, options: dict[str, Any], *allowed: str) -> None:
    unknown = [option for option in options if option not in allowed]
    if unknown:
        raise InvalidValueError(f"{name} has no option {unknown[0]!r}: {', '.join(allowed) or 'it takes none'}")


# -- what groups come to -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Totals:
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

    def times_fill(self, dtype: np.dtype[Any]) -> Any:
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
class _Meaning:
    """A reduction of given values: its type, what it needs of each group, and how it comes of that."""

    dtype: np.dtype[Any]
    folds: dict[str, Fold]
    finish: Callable[[list[State], _Totals], Any]
    """Takes the states of the folds, in order."""
    counted: bool = True
    """Whether numbers of entries are needed though the fill is 0."""


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


def _without_nan(values: _Array) -> _Array:
    return np.where(np.isnan(values), values.dtype.type(0), values)


def _numbers(values: _Array) -> _Array:
    return np.asarray(~np.isnan(values))


def _sum(scan: Scan, options: dict[str, Any], skip_nan: bool = False) -> _Meaning:
    dtype = scan.schema.dtype
    skip_nan = skip_nan and dtype.kind in "fc"
    wide = _wide(dtype)
    fold = Running(np.add, wide, 0, _without_nan if skip_nan else None)
    nothing = skip_nan and bool(np.isnan(scan.schema.fill_value))

    def finish(states: list[State], totals: _Totals) -> Any:
        return states[0][0] if nothing else states[0][0] + totals.times_fill(wide)

    return _Meaning(np.zeros(1, dtype).sum().dtype, {f"sum {skip_nan}": fold}, finish, counted=False)


def _prod(scan: Scan, options: dict[str, Any]) -> _Meaning:
    dtype = scan.schema.dtype
    wide = _wide(dtype)
    fold = Running(np.multiply, wide, 1)
    return _Meaning(
        np.zeros(1, dtype).prod().dtype,
        {"prod": fold},
        lambda states, totals: states[0][0] * totals.fill_power(wide),
    )


def _mean(scan: Scan, options: dict[str, Any], skip_nan: bool = False) -> _Meaning:
    dtype, fill = scan.schema.dtype, scan.schema.fill_value
    skip_nan = skip_nan and dtype.kind in "fc"
    wide = _floating(dtype)
    folds: dict[str, Fold] = {f"mean {skip_nan}": Running(np.add, wide, 0, _without_nan if skip_nan else None)}
    if skip_nan:
        folds["numbers"] = Running(np.add, np.dtype(np.int64), 0, _numbers)
    nothing = skip_nan and bool(np.isnan(fill))

    def finish(states: list[State], totals: _Totals) -> Any:
        total = states[0][0] if nothing or not fill else states[0][0] + totals.times_fill(wide)
        members = states[1][0] + (0 if nothing else totals.absent) if skip_nan else totals.present
        out = total / members
        if fill and not nothing and not totals.stored and totals.cells:
            out = np.where(totals.count == 0, wide.type(fill), out)
        return out

    return _Meaning(np.zeros(1, dtype).mean().dtype, folds, finish, counted=skip_nan)


def _var(scan: Scan, options: dict[str, Any], root: bool = False) -> _Meaning:
    name = "std" if root else "var"
    _option(name, options, "ddof", "correction")
    if len(options) > 1:
        raise InvalidValueError(f"{name}: ddof and correction are one thing, give one of them")
    ddof = next(iter(options.values()), 0)
    dtype = scan.schema.dtype
    wide = _floating(dtype)
    fill = wide.type(scan.schema.fill_value)

    def finish(states: list[State], totals: _Totals) -> Any:
        mean, away = states[0][:2]
        count = totals.count.astype(np.float64)
        if not totals.stored:
            absent = totals.absent
            others = (np.full(len(mean), fill), np.full(len(mean), 0.0 if np.isfinite(fill) else np.nan))
            together = merged_moments((mean, away), count, others, absent)[1]
            away = np.where(absent > 0, np.where(count > 0, together, others[1]), away)
        out = away / np.maximum(totals.present - ddof, 0)
        return np.sqrt(out) if root else out

    return _Meaning(np.zeros(2, dtype).var().dtype, {"moments": Moments(wide)}, finish)


def _extreme(scan: Scan, options: dict[str, Any], largest: bool, skip_nan: bool = False) -> _Meaning:
    dtype, fill = scan.schema.dtype, scan.schema.fill_value
    skip_nan = skip_nan and dtype.kind in "fc"
    plain, skipping = (np.maximum, np.fmax) if largest else (np.minimum, np.fmin)
    ufunc = skipping if skip_nan else plain
    worst = dtype.type(np.nan) if skip_nan else _worst(dtype, largest)

    def finish(states: list[State], totals: _Totals) -> Any:
        value = states[0][0]
        out = value if totals.stored else np.where(totals.absent > 0, ufunc(value, fill), value)
        return np.where(totals.count == 0, fill, out)

    return _Meaning(dtype, {f"{ufunc.__name__}": Running(ufunc, dtype, worst)}, finish)


def _worst(dtype: np.dtype[Any], largest: bool) -> Any:
    """Return the value that loses against all others."""
    if dtype.kind == "b":
        return not largest
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if largest else np.iinfo(dtype).max
    end = -np.inf if largest else np.inf
    return complex(end, end) if dtype.kind == "c" else end


def _any(scan: Scan, options: dict[str, Any]) -> _Meaning:
    def finish(states: list[State], totals: _Totals) -> Any:
        return states[0][0] | (totals.absent > 0) if totals.fill else states[0][0]

    fold = Running(np.logical_or, np.dtype(bool), False, _nonzero)
    return _Meaning(np.dtype(bool), {"any": fold}, finish, counted=False)


def _all(scan: Scan, options: dict[str, Any]) -> _Meaning:
    def finish(states: list[State], totals: _Totals) -> Any:
        return states[0][0] if totals.fill else states[0][0] & (totals.absent == 0)

    return _Meaning(np.dtype(bool), {"all": Running(np.logical_and, np.dtype(bool), True, _nonzero)}, finish)


def _count(scan: Scan, options: dict[str, Any]) -> _Meaning:
    return _Meaning(np.dtype(np.int64), {}, lambda states, totals: totals.count)


def _density(scan: Scan) -> _Meaning:
    return _Meaning(np.dtype(np.float64), {}, lambda states, totals: totals.count / np.float64(totals.cells))


def _norm(scan: Scan, options: dict[str, Any]) -> _Meaning:
    _option("norm", options, "ord")
    degree = options.get("ord", 2)
    dtype = scan.schema.dtype
    fill = _floating(dtype).type(scan.schema.fill_value)
    result = np.empty(0, dtype).real.dtype if dtype.kind in "fc" else np.dtype(np.float64)
    wide = np.dtype(np.float64)
    fold: Fold
    if degree == np.inf:
        fold = Running(np.maximum, wide, 0, _magnitudes)

        def finish(states: list[State], totals: _Totals) -> Any:
            if not fill:
                return states[0][0]
            return np.where(totals.absent > 0, np.maximum(states[0][0], np.abs(fill)), states[0][0])

    elif degree in (0, 1, 2):
        fold = Running(np.add, wide, 0, {0: _nonzero, 1: _magnitudes, 2: _squares}[int(degree)])
        each = {0: float(fill != 0), 1: np.abs(fill), 2: _squares(np.asarray(fill))[()]}[int(degree)]

        def finish(states: list[State], totals: _Totals) -> Any:
            total = states[0][0] + totals.sum_of(each) if fill else states[0][0]
            return np.sqrt(total) if degree == 2 else total

    else:
        raise InvalidValueError(f"norm: ord={degree!r} must be 0, 1, 2 or inf")
    return _Meaning(result, {f"norm {degree}": fold}, finish, counted=False)


def _best(scan: Scan, options: dict[str, Any], largest: bool) -> _Meaning:
    fold = Best(scan.schema.dtype, largest)
    fill = np.asarray(scan.schema.fill_value)

    def finish(states: list[State], totals: _Totals) -> Any:
        value, where, first, follows = states[0][:4]
        if totals.stored:
            return np.where(totals.count > 0, where, -1)
        absent = np.where((first == 0) & (totals.count > 0), follows, 0)
        wins = (totals.count == 0) | ((totals.absent > 0) & fold.beats(fill, value))
        return np.where(wins, absent, where)

    return _Meaning(np.dtype(np.int64), {f"best {largest}": fold}, finish)


_MEANINGS: dict[str, Callable[[Scan, dict[str, Any]], _Meaning]] = {
    "sum": _sum,
    "prod": _prod,
    "mean": _mean,
    "var": _var,
    "std": lambda scan, options: _var(scan, options, root=True),
    "min": lambda scan, options: _extreme(scan, options, largest=False),
    "max": lambda scan, options: _extreme(scan, options, largest=True),
    "any": _any,
    "all": _all,
    "count": _count,
    "norm": _norm,
    "argmin": lambda scan, options: _best(scan, options, largest=False),
    "argmax": lambda scan, options: _best(scan, options, largest=True),
    "nansum": lambda scan, options: _sum(scan, options, skip_nan=True),
    "nanmean": lambda scan, options: _mean(scan, options, skip_nan=True),
    "nanmin": lambda scan, options: _extreme(scan, options, largest=False, skip_nan=True),
    "nanmax": lambda scan, options: _extreme(scan, options, largest=True, skip_nan=True),
}

REDUCTIONS = tuple(_MEANINGS)
"""The names of the reductions."""


def _meaning(name: str, scan: Scan, options: dict[str, Any]) -> _Meaning:
    if name not in ("var", "std", "norm"):
        _option(name, options)
    return _MEANINGS[name](scan, options)


# -- results -------------------------------------------------------------------------------------


def _several(
    scan: Scan, meanings: dict[str, _Meaning], kept: tuple[int, ...], keepdims: bool, wheres: dict[str, Where]
) -> dict[str, Any]:
    """Return reductions that share one scan."""
    schema = scan.schema
    folds: dict[str, Fold] = {}
    for meaning in meanings.values():
        folds.update(meaning.folds)
    counted = (
        not folds
        or not all(isinstance(fold, Running) for fold in folds.values())
        or any(meaning.counted for meaning in meanings.values())
        or not schema.zero_fill
        or "stored" in wheres.values()
    )
    slots = {key: k for k, key in enumerate(folds)}
    dims = tuple(range(schema.ndim)) if keepdims else kept
    grouping = Grouping(scan, kept, list(folds.values()), counted, dims[:1] == kept[:1])
    cells = math.prod(schema.shape[k] for k in range(schema.ndim) if k not in kept)

    def finished(name: str, groups: Groups) -> _Array:
        meaning = meanings[name]
        totals = _Totals(groups.counts, cells, schema.fill_value, wheres[name] == "stored")
        states = [groups.states[slots[key]] for key in meaning.folds]
        with np.errstate(all="ignore"):
            return np.asarray(meaning.finish(states, totals)).astype(meaning.dtype, copy=False)

    nothing = Groups((), np.zeros(1, np.int64), tuple(fold.empty(1) for fold in folds.values()))
    if not dims:
        whole = grouping.between(0, 1)
        found = whole if len(_lengths(whole)) else nothing
        return {name: finished(name, found)[0] for name in meanings}
    return {name: _lazy(scan, grouping, name, finished, finished(name, nothing)[0], dims) for name in meanings}


def _lengths(groups: Groups) -> _Array:
    """Return an array with one element for each group."""
    return groups.counts if groups.counts is not None else groups.states[0][0]


def _lazy(
    scan: Scan,
    grouping: Grouping,
    name: str,
    finished: Callable[[str, Groups], _Array],
    fill: Any,
    dims: tuple[int, ...],
) -> Derived:
    kept = grouping.kept
    shape = tuple(scan.schema.shape[k] if k in kept else 1 for k in dims)
    schema = Schema(shape, tuple(scan.schema.dims[k] for k in dims), np.asarray(fill).dtype, fill)

    def evaluate(start: int, stop: int) -> Block:
        groups = grouping.between(start, stop)
        values = finished(name, groups)
        columns = iter(groups.coords)
        coords = tuple(next(columns) if k in kept else np.zeros(len(values), np.int32) for k in dims)
        block = Block(coords, values)
        absent = is_fill(values, schema.fill_value)
        return block.take(~absent) if absent.any() else block

    def labels(dim: int) -> pa.Array | None:
        return _labels(scan, dims[dim]) if dims[dim] in kept else None

    return Derived(schema, [scan], grouping.cuts, evaluate, labels)


def _labels(scan: Scan, axis: int) -> pa.Array | None:
    """Return the labels of an axis of a scan."""
    found = scan.view.axes[axis]
    if isinstance(found, Range):
        names = scan.relation.labels(found.dim)
        return None if names is None else names.take(pa.array(found.start + found.step * np.arange(found.length)))
    if isinstance(found, Listed):
        group = scan.view.points[found.group]
        if len(group.dims) == 1 and len(group.shape) == 1:
            names = scan.relation.labels(group.dims[0])
            return None if names is None else names.take(pa.array(group.coords[0]))
    return None
