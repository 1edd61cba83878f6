"""Reference engine: every node on dense NumPy arrays, by its definition.

It is registered like any engine, supports every node, and is the oracle of the parity suite.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import plan
from sparrow.core.indexing import Box, View
from sparrow.core.schema import is_fill
from sparrow.kernels.coo import Block
from sparrow.plan import Node, Root, Scan

Array = NDArray[Any]

_MOST = 1 << 20


class Toy:
    """Dense arrays."""

    name = "toy"
    reads_chunks = False
    max_operands: int | None = None
    max_depth: int | None = None
    max_scans: int | None = None

    def support(self, kind: type[Any]) -> tuple[str, str]:
        """Return that it runs a kind of node, or is not made for it."""
        known = kind in (*_CELLS, plan.Accumulate)
        return ("yes", "") if known else ("notimpl", "not written down here")

    def check(self) -> None:
        """Do nothing: NumPy is there."""

    def unsupported_reason(self, node: Root) -> str | None:
        """Return None of all that fits dense arrays."""
        mark, reason = self.support(type(node))
        if any(one.schema.size > _MOST for one in (node, *plan.scans_of(node))):
            return "too many cells for dense arrays"
        return None if mark == "yes" or isinstance(node, Scan | plan.Dense) else reason

    def evaluate(self, scan: Scan) -> Block:
        """Return the cells that differ from fill."""
        dense, schema = cells_of(scan), scan.schema
        stored = ~is_fill(dense, schema.fill_value)
        coords = stored.nonzero() if schema.ndim else ()
        dtypes = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)]
        return Block(tuple(c.astype(t) for c, t in zip(coords, dtypes, strict=True)), dense[stored].reshape(-1))

    def iter_blocks(self, scan: Scan) -> Iterator[Block]:
        """Yield all entries."""
        yield self.evaluate(scan)

    def count_nnz(self, scan: Scan) -> int:
        """Return the number of entries."""
        return self.evaluate(scan).count

    def reduce_all(self, nodes: Sequence[plan.Reduce]) -> list[Any]:
        """Return reductions over all axes."""
        return [_reduce(node, cells_of(node.operand))[()] for node in nodes]

    def evaluate_dense(self, node: Any) -> Any:
        """Return the array of a dense node."""
        dense = [cells_of(scan) for scan in node.scans]
        if isinstance(node, plan.Contraction):
            return _dense_contraction(node, *dense)
        return _map(node, *dense) if isinstance(node, plan.Map) else _accumulate(node, *dense)

    def describe(self, node: Root) -> str:
        """Say nothing."""
        return ""


def cells_of(scan: Scan) -> Array:
    """Return all cells that a scan shows."""
    found: dict[Node, Array] = {}

    def evaluate_scan(one: Scan) -> Array:
        if isinstance(one.source, Node):
            base = found[one.source]
        else:
            relation, schema = one.source, one.source.schema
            base = np.full(schema.shape, schema.fill_value, schema.dtype)
            for chunk in relation.chunks(Box.from_shape(schema.shape)) if schema.size else ():
                block = relation.read(chunk)
                base[block.coords if schema.ndim else ...] = block.values if schema.ndim else block.values[0]
        view: View = one.view
        if not view.size:
            return np.full(view.shape, one.schema.fill_value, base.dtype)
        places = [column.reshape(-1) for column in np.indices(view.shape)] if view.ndim else []
        at = view.to_base(places)
        return np.asarray(base[at] if at else np.broadcast_to(base, (view.size,))).reshape(view.shape)

    for step in plan.nodes_below([scan]):
        cells = _CELLS[type(step)](step, *map(evaluate_scan, step.scans))
        found[step] = np.asarray(cells).astype(step.schema.dtype, copy=False).reshape(step.schema.shape)
    return evaluate_scan(scan)


def _map(node: plan.Map, *dense: Array) -> Array:
    given = iter(dense)
    arguments = [
        next(given) if isinstance(o, Scan) else o.array if isinstance(o, plan.Dense) else o for o in node.operands
    ]
    with np.errstate(all="ignore"):
        out = np.broadcast_to(np.asarray(plan.apply_function(node.function, *arguments)), node.schema.shape)
    for array, needs in zip(dense, node.required, strict=True):
        if needs:
            out = np.where(array == 0, np.zeros((), out.dtype), out)
    return out


def _wide(values: Array) -> Array:
    return values.astype({"f": np.float64, "c": np.complex128}.get(values.dtype.kind, values.dtype))


def _reduce(node: plan.Reduce, dense: Array) -> Array:
    schema = node.operand.schema
    gone = [k for k in range(schema.ndim) if k not in node.kept_axes]
    groups = np.moveaxis(dense, node.kept_axes, range(len(node.kept_axes)))
    sizes = tuple(schema.shape[k] for k in node.kept_axes)
    groups = groups.reshape(*sizes, math.prod(schema.shape[k] for k in gone))
    out = np.empty(sizes, node.schema.dtype)
    with np.errstate(all="ignore"):
        for at in itertools.product(*map(range, sizes)):
            out[at] = _one(node, groups[at])
    return out.reshape(node.schema.shape)


def _one(node: plan.Reduce, line: Array) -> Any:
    """Return a reduction of the cells of one group."""
    options = {name: given for name, given in node.options.items() if given is not None}
    fill = node.operand.schema.fill_value
    if "dtype" in options:
        stored = ~is_fill(line, fill)
        line, fill = line.astype(options["dtype"]), np.asarray(fill).astype(options["dtype"])[()]
    else:
        stored = ~is_fill(line, fill)
    name, places = node.name, np.arange(len(line))
    if name == "count":
        return int(stored.sum())
    if name == "density":
        return stored.sum() / np.float64(len(line))
    if node.stored:
        line, places = line[stored], places[stored]
    if name.startswith("nan"):
        numbers = ~np.isnan(line) if line.dtype.kind in "fc" else np.ones(len(line), bool)
        if name in ("nanargmin", "nanargmax") and not numbers.any():
            return -1
        if name in ("nanmin", "nanmax") and not numbers.any():
            return np.nan if len(line) else fill
        line, places, name = line[numbers], places[numbers], name[3:]
    wide = _wide(line)
    if name in ("min", "max"):
        return getattr(np, name)(line) if len(line) else fill
    if name in ("argmin", "argmax"):
        return places[getattr(np, name)(line)] if len(line) else -1
    if name == "norm":
        return _norm(wide, float(options.get("ord", 2)))
    if name in ("var", "std"):
        ddof = options.get("ddof", options.get("correction", 0))
        if not len(wide) or (node.name.startswith("nan") and wide.dtype.kind in "fc" and len(wide) <= ddof):
            return np.nan
        spread = (abs(wide - wide.mean()) ** 2).sum() / np.float64(max(len(wide) - ddof, 0))
        return np.sqrt(spread) if name == "std" else spread
    if name == "mean":
        return wide.sum() / np.float64(len(wide)) if len(wide) else np.nan
    return getattr(np, name)(wide)


def _norm(values: Array, degree: float) -> Any:
    sizes = abs(values.astype(complex))
    if math.isinf(degree):
        return (max if degree > 0 else min)(sizes.tolist(), default=0.0, key=_nan_first(degree)) if len(sizes) else 0.0
    if degree == 0:
        return float((values != 0).sum())
    return (sizes**degree).sum() ** (1 / degree)


def _nan_first(degree: float) -> Callable[[float], float]:
    """Return a key by which NaN wins."""
    return lambda value: math.copysign(math.inf, degree) if value != value else value


def _concat(node: plan.Concat, *dense: Array) -> Array:
    return np.concatenate([array.astype(node.schema.dtype) for array in dense], node.axis)


def _triangle(node: plan.Triangle, dense: Array) -> Array:
    return (np.triu if node.upper else np.tril)(dense, node.k)


def _accumulate(node: plan.Accumulate, dense: Array) -> Array:
    dense = dense.astype(node.schema.dtype)
    if node.initial is not None:
        first = list(dense.shape)
        first[node.axis or 0] = 1
        dense = np.concatenate([np.full(first, node.initial, dense.dtype), dense], node.axis or 0)
    with np.errstate(all="ignore"):
        return np.asarray(node.ufunc.accumulate(dense.reshape(-1) if node.axis is None else dense, node.axis or 0))


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "plus": np.add, "times": np.multiply, "min": np.minimum, "max": np.maximum, "or": np.logical_or,
    "and": np.logical_and, "any": lambda a, b: a, "first": lambda a, b: a, "second": lambda a, b: b,
    "pair": lambda a, b: 1,
}  # fmt: skip


def _contraction(node: plan.Contraction, *cells: Array) -> Array:
    """Return the sums of products of all stored elements whose indices agree."""
    semiring, dtype = node.semiring, node.schema.dtype
    add: Any
    multiply: Any
    add, multiply = (_OPERATIONS.get(f, f) if isinstance(f, str) else f for f in (semiring.add, semiring.multiply))
    wide = (
        _wide(np.empty(0, dtype)).dtype if dtype.kind in "fc" else np.dtype(np.int64 if dtype.kind in "ib" else dtype)
    )
    sums: dict[tuple[int, ...], Any] = {}
    entries = []
    given = iter(cells)
    for operand in node.operands:
        if isinstance(operand, plan.Dense):
            array, stored = operand.array, np.ones(operand.array.shape, bool)
        else:
            array = next(given)
            stored = ~is_fill(array, operand.schema.fill_value)
        logical = semiring.multiply == "and" or semiring.add == "or"
        places = np.argwhere(stored).tolist()
        entries.append([(tuple(at), (array[tuple(at)] != 0) if logical else array[tuple(at)]) for at in places])
    mask = next(given, None)
    with np.errstate(all="ignore"):
        for several in itertools.product(*entries):
            at: dict[int, int] = {}
            coords = itertools.chain(*(place for place, _ in several))
            if any(
                at.setdefault(index, k) != k for index, k in zip(itertools.chain(*node.indices), coords, strict=True)
            ):
                continue
            cell = tuple(at[index] for index in node.output_indices)
            value, *others = (np.asarray(each).astype(wide)[()] for _, each in several)
            for other in others:
                value = multiply(value, other)
            sums[cell] = add(sums[cell], value) if cell in sums else value
        out = np.full(node.schema.shape, node.schema.fill_value, dtype)
        for cell, value in sums.items():
            hit = mask is None or bool(is_fill(mask[cell], node.scans[-1].schema.fill_value)) == node.complement
            if hit:
                out[cell] = np.asarray(value).astype(dtype)
    return out if node.topk is None else _largest(out, node)


def _largest(array: Array, node: plan.Contraction) -> Array:
    """Return an array with the fill in place of all but the largest elements."""
    out = np.full_like(array, node.schema.fill_value)
    for row in np.ndindex(array.shape[:-1]):
        columns = np.flatnonzero(~is_fill(array[row], node.schema.fill_value))
        ranked = sorted(columns.tolist(), key=lambda k: (np.isnan(array[row][k]), -array[row][k].item(), k))
        for column in ranked[: node.topk]:
            out[row][column] = array[row][column]
    return out


def _topk(node: plan.TopK, dense: Array) -> Array:
    """Return an array with the fill in place of all but the best of each line."""
    fill = node.schema.fill_value
    out = np.full_like(dense, fill)
    for line in np.ndindex(dense.shape[:-1]):
        at = np.flatnonzero(~is_fill(dense[line], fill))
        sign = -1 if node.largest else 1
        ranked = sorted(at.tolist(), key=lambda k: (bool(np.isnan(dense[line][k])), sign * dense[line][k].item(), k))
        out[line][ranked[: node.k]] = dense[line][ranked[: node.k]]
    return out


def _dense_contraction(node: plan.Contraction, dense: Array) -> Any:
    """Add up products one by one; absent elements of fill 0 have no part."""
    (scan,) = node.scans
    arrays = [each.array if isinstance(each, plan.Dense) else dense for each in node.operands]
    sizes: dict[int, int] = {}
    for array, own in zip(arrays, node.indices, strict=True):
        sizes |= zip(own, array.shape, strict=True)
    out = np.zeros(node.schema.shape, _wide(np.empty(0, node.schema.dtype)).dtype)
    pairs = [(each, own) for each, own in zip(node.operands, node.indices, strict=True)]
    pairs.sort(key=lambda pair: isinstance(pair[0], plan.Dense))
    with np.errstate(all="ignore"):
        for cell in itertools.product(*map(range, sizes.values())):
            at = dict(zip(sizes, cell, strict=True))
            values = [
                (each.array if isinstance(each, plan.Dense) else dense)[tuple(at[index] for index in own)]
                for each, own in pairs
            ]
            if values[0] != 0 or scan.schema.fill_value != 0:
                product = values[0].astype(out.dtype)
                for value in values[1:]:
                    product = product * value.astype(out.dtype)
                out[tuple(at[index] for index in node.output_indices)] += product
        return out.astype(node.schema.dtype)[()]


_CELLS: dict[type[Any], Callable[..., Array]] = {
    plan.Map: _map,
    plan.Reduce: _reduce,
    plan.Contraction: _contraction,
    plan.Concat: _concat,
    plan.Reshape: lambda node, dense: dense.reshape(node.schema.shape),
    plan.Triangle: _triangle,
    plan.Diagonal: lambda node, dense: np.diagonal(dense, node.offset),
    plan.Sort: lambda node, dense: np.sort(dense, -1),
    plan.TopK: _topk,
    plan.WithFill: lambda node, dense: dense,
}
