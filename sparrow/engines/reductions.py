"""What reductions mean: their types, what absent cells add, and what comes of groups without entries.

Results are NumPy's. Under ``where="all"`` absent cells take part with the fill value, counted and never listed.
Under ``where="stored"`` only entries do: a mean divides by their number, and a group without entries gives 0 for
``sum``, ``count`` and ``norm``, 1 for ``prod``, False for ``any``, True for ``all``, NaN for ``mean``, ``var`` and
``std``, the fill value for ``min`` and ``max``, and -1 for ``argmin`` and ``argmax``; the nan-forms do as those. No
warnings are given where NumPy warns of an empty slice; what raises there raises here, of a lazy result when it is
computed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.engines import stream
from sparrow.engines.derived import Derived
from sparrow.engines.reduce import Grouping, Groups, first_extreme, in_order
from sparrow.errors import AxisError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.index import Listed, Range
from sparrow.kernels.entries import Block
from sparrow.kernels.reduce import Best, Fold, Running
from sparrow.plan import Reduce, Scan
from sparrow.plan.aggregates import REDUCTIONS, Meaning, Totals, density, meaning_of
from sparrow.schema import Schema, check_integer, is_fill

__all__ = ["REDUCTIONS", "Axis", "Where", "jointly", "reduced", "resolved_axis", "scan_kind", "statistics"]

Axis: TypeAlias = "int | Sequence[int] | None"
Where: TypeAlias = Literal["all", "stored"]

_Array: TypeAlias = NDArray[Any]

_POSITIONS = ("argmin", "argmax", "nanargmin", "nanargmax")
_WITHOUT_IDENTITY = ("min", "max", "nanmin", "nanmax", *_POSITIONS)


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
        The axes that go, all by default; ``argmin``, ``argmax`` and their nan-forms take one or None.
    keepdims
        Keep them with length 1, and their names; the result is then a relation always.
    where
        "all" cells, or the "stored" ones.
    **options
        ``ddof`` (or ``correction``) of "var" and "std"; ``ord`` (0, a positive number, inf or -inf) of "norm";
        ``dtype`` of sums, products, means and variances: the type that cells are cast to first.

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
    found = _several(scan, {name: meaning_of(name, scan, options)}, kept, keepdims, {name: where})[name]
    if isinstance(found, Derived):
        axes = tuple(k if k in kept else None for k in range(scan.schema.ndim)) if keepdims else kept
        found.node = Reduce(name, scan, axes, where == "stored", options, found.schema)
    return found


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
    meanings: dict[str, Meaning] = {}
    wheres: dict[str, Where] = {}
    kept: tuple[int, ...] = _kept(scan, "count", axis, "all")
    for name in names:
        wheres[name] = "stored" if name.startswith("stored_") else "all"
        plain = {"nnz": "count"}.get(name, name.removeprefix("stored_"))
        if plain != "density":
            _kept(scan, plain, axis, wheres[name])
        meanings[name] = density(scan) if plain == "density" else meaning_of(plain, scan, {})
    return _several(scan, meanings, kept, keepdims, wheres)


def scan_kind(node: Reduce) -> Hashable:
    """Return what two reductions have in common that one scan can compute, adding up in the same order as alone."""
    folds = meaning_of(node.name, node.operand, dict(node.options)).folds.values()
    way = all(fold.scatters for fold in folds), any(fold.needs_positions for fold in folds)
    return node.operand.relation.token, node.operand.view, node.axes, str(node.options.get("dtype")), way


def jointly(nodes: Sequence[Reduce]) -> list[Derived]:
    """Return reductions again, so that one scan computes all of them: those of one :func:`scan_kind`."""
    operand, axes = nodes[0].operand, nodes[0].axes
    kept = tuple(axis for axis in axes if axis is not None)
    meanings = {str(k): meaning_of(node.name, operand, dict(node.options)) for k, node in enumerate(nodes)}
    wheres: dict[str, Where] = {str(k): "stored" if node.stored else "all" for k, node in enumerate(nodes)}
    return list(_several(operand, meanings, kept, len(axes) > len(kept), wheres).values())


# -- arguments -----------------------------------------------------------------------------------


def resolved_axis(axis: int, ndim: int) -> int:
    """Return an axis counted from the front.

    Raises
    ------
    AxisError
        If there is none such.
    UnsupportedError
        If it is no integer.
    """
    resolved = check_integer(axis, "axis") + (ndim if axis < 0 else 0)
    if not 0 <= resolved < ndim:
        raise AxisError(f"axis {axis} is out of range for {ndim} dimensions")
    return resolved


def _kept(scan: Scan, name: str, axis: Axis, where: object) -> tuple[int, ...]:
    """Return the axes that stay, having looked at the arguments."""
    if name not in REDUCTIONS:
        raise InvalidValueError(f"no reduction {name!r}: there are {', '.join(REDUCTIONS)}")
    if not isinstance(where, str) or where not in ("all", "stored"):
        raise InvalidValueError(f"{name}: where={where!r} must be 'all' or 'stored'")
    ndim, shape = scan.schema.ndim, scan.schema.shape
    if axis is None:
        gone = set(range(ndim))
    else:
        if isinstance(axis, Sequence) and name in _POSITIONS:
            raise UnsupportedError(f"{name}: axis={axis!r} must be one axis or None")
        try:
            wanted = [operator.index(k) for k in (axis if isinstance(axis, Sequence) else (axis,))]
        except TypeError:
            raise UnsupportedError(f"{name}: axis={axis!r} must be an integer, a tuple of integers or None") from None
        for k in wanted:
            if not -ndim <= k < ndim:
                raise AxisError(f"{name}: axis {k} is out of range for a tensor of shape {shape}")
        gone = {k % ndim for k in wanted}
        if len(gone) < len(wanted):
            raise ShapeError(f"{name}: axis={axis!r} names an axis of shape {shape} twice")
    kept = tuple(k for k in range(ndim) if k not in gone)
    if where == "all" and name in _WITHOUT_IDENTITY and any(shape[k] == 0 for k in gone):
        raise ShapeError(f"{name} of shape {shape} over axis {axis}: no cells, and {name} has no identity")
    if name in _POSITIONS and math.prod(shape[k] for k in gone) > 2**63 - 1:
        raise UnsupportedError(
            f"{name}: the flat position in shape {shape} may pass 2^63 - 1: reduce along one axis, or take a part"
        )
    return kept


# -- results -------------------------------------------------------------------------------------


def _several(
    scan: Scan, meanings: dict[str, Meaning], kept: tuple[int, ...], keepdims: bool, wheres: dict[str, Where]
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
        or any(meaning.fill != 0 for meaning in meanings.values())
        or "stored" in wheres.values()
    )
    slots = {key: k for k, key in enumerate(folds)}
    dims = tuple(range(schema.ndim)) if keepdims else kept
    grouping = Grouping(scan, kept, list(folds.values()), counted, dims[:1] == kept[:1])
    cells = math.prod(schema.shape[k] for k in range(schema.ndim) if k not in kept)

    def finished(name: str, groups: Groups) -> _Array:
        meaning = meanings[name]
        totals = Totals(groups.counts, cells, meaning.fill, wheres[name] == "stored")
        states = [groups.states[slots[key]] for key in meaning.folds]
        with np.errstate(all="ignore"):
            return np.asarray(meaning.finish(states, totals)).astype(meaning.dtype, copy=False)

    nothing = Groups((), np.zeros(1, np.int64), tuple(fold.empty(1) for fold in folds.values()))
    fills = {name: finished(name, nothing)[0] for name in meanings}

    def answered(name: str, groups: Groups, size: int) -> _Array:
        """Return the results of the groups that have entries, of ``size`` in all."""
        values = finished(name, groups)
        nowhere = meanings[name].nowhere
        if nowhere and wheres[name] == "all" and ((values < 0).any() or (len(values) < size and fills[name] < 0)):
            raise InvalidValueError(nowhere)
        return values

    if not dims:
        whole = grouping.between(0, 1)
        return {name: [*answered(name, whole, 1), fills[name]][0] for name in meanings}
    return {name: _lazy(scan, grouping, name, answered, fills[name], dims) for name in meanings}


def _lazy(
    scan: Scan,
    grouping: Grouping,
    name: str,
    answered: Callable[[str, Groups, int], _Array],
    fill: Any,
    dims: tuple[int, ...],
) -> Derived:
    kept = grouping.kept
    shape = tuple(scan.schema.shape[k] if k in kept else 1 for k in dims)
    schema = Schema(shape, tuple(scan.schema.dims[k] for k in dims), np.asarray(fill).dtype, fill)

    def evaluate(start: int, stop: int) -> Block:
        groups = grouping.between(start, stop)
        values = answered(name, groups, (stop - start) * math.prod(shape[1:]))
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
