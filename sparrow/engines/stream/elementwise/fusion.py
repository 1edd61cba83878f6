"""Functions of cells of functions of cells, as one: a program of calls over the entries of at most two scans.

A function of cells whose operands are functions of cells is computed with them in one go where no more than two
different scans stand at the bottom: their entries are aligned once and no result in between is put together as
entries. A result that others want too, of another program, stays a step of its own.

What a call gives is put in the form that it would have as entries: where its operands of fill 0 have none a product of
arrays is 0, and what equals the fill is the fill, -0.0 too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.plan import Dense, Map, Node, Scan, apply_function, function_name

__all__ = ["FusedKernel", "fuse_maps"]

_MOST = 2
"""Scans that a program of several calls may read: two are merged by compiled loops, more take a sort."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An argument that is the values of a scan."""

    number: int


@dataclass(frozen=True, slots=True)
class _Found:
    """An argument that is the result of an earlier call."""

    number: int


@dataclass(frozen=True, slots=True)
class _Call:
    """One function of cells of a program."""

    node: Map
    arguments: tuple[Any, ...]
    """:class:`_Leaf`, :class:`_Found`, arrays broadcast to the shape of the result, scalars."""
    guards: tuple[_Leaf | _Found, ...]
    """Arguments where whose 0 the result is 0, whatever the others are."""
    drops: tuple[int, ...]
    """Results that no later call takes."""


class FusedKernel:
    """Calls in an order in which each comes after those whose results it takes; the last gives the result.

    Parameters
    ----------
    calls
        Functions of cells, those taken in before those that take them in.
    """

    def __init__(self, calls: Sequence[Map]) -> None:
        self.node = calls[-1]
        place = {call: k for k, call in enumerate(calls)}
        leaves: dict[Hashable, int] = {}
        self.scans: list[Scan] = []
        """The scans at the bottom, each once."""
        needs: list[frozenset[int]] = []  # the scans without an entry of which a call gives its fill
        last = list(range(len(calls)))
        plain: list[tuple[Map, list[Any], tuple[Any, ...]]] = []
        for k, node in enumerate(calls):
            arguments: list[Any] = []
            required = iter(node.required)
            annihilating, own = [], []
            for operand in node.operands:
                if isinstance(operand, Scan):
                    inner = place.get(operand.source) if isinstance(operand.source, Map) else None
                    slot: _Leaf | _Found
                    if inner is not None and operand.view.is_identity:
                        slot, needed = _Found(inner), needs[inner]
                        last[inner] = k
                    else:
                        key = _identity(operand)
                        if key not in leaves:
                            leaves[key] = len(self.scans)
                            self.scans.append(operand)
                        slot, needed = _Leaf(leaves[key]), frozenset((leaves[key],))
                    own.append(needed)
                    if next(required):
                        annihilating.append((slot, needed))
                    arguments.append(slot)
                elif isinstance(operand, Dense):
                    arguments.append(np.broadcast_to(operand.array, node.schema.shape))
                else:
                    arguments.append(operand)
            needs.append(
                frozenset().union(*(needed for _, needed in annihilating)) if annihilating
                else frozenset.intersection(*own)
            )  # fmt: skip
            plain.append((node, arguments, tuple(slot for slot, _ in annihilating)))
        self.required = tuple(number in needs[-1] for number in range(len(self.scans)))
        self.is_dense = any(isinstance(argument, np.ndarray) for _, arguments, _ in plain for argument in arguments)
        drops: list[list[int]] = [[] for _ in calls]
        for number, end in enumerate(last[:-1]):
            drops[end].append(number)
        self._calls = [
            _Call(node, tuple(arguments), self._guarding(node, guards), tuple(gone))
            for (node, arguments, guards), gone in zip(plain, drops, strict=True)
        ]

    def is_one(self, name: str) -> bool:
        """Return whether it is one call of a function, of two scans."""
        return len(self._calls) == 1 and len(self.scans) == 2 and function_name(self.node.function) == name

    def _guarding(self, node: Map, slots: Sequence[_Leaf | _Found]) -> tuple[_Leaf | _Found, ...]:
        """Return the arguments that can be 0 at the cells looked at, of a product that is not 0 there by itself."""
        if node.schema.dtype.kind not in "fc":
            return ()
        return tuple(slot for slot in slots if not (isinstance(slot, _Leaf) and self.required[slot.number]))

    def __call__(self, coords: tuple[NDArray[Any], ...], columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the result at cells, of the values of the scans there: arrays of shape (n,)."""
        size = len(columns[0])
        results: list[Any] = [None] * len(self._calls)

        def value(argument: Any) -> Any:
            if isinstance(argument, _Leaf):
                return columns[argument.number]
            if isinstance(argument, _Found):
                return results[argument.number]
            return _at(argument, coords) if isinstance(argument, np.ndarray) else argument

        final = len(self._calls) - 1
        for k, call in enumerate(self._calls):
            dtype = call.node.schema.dtype
            found = np.asarray(apply_function(call.node.function, *map(value, call.arguments)))
            found = found.astype(dtype, copy=False) if found.ndim else np.full(size, found, dtype)
            for guard in call.guards:
                found = np.where(value(guard) == 0, dtype.type(0), found)
            fill = call.node.schema.fill_value
            if k < final and dtype.kind in "fc" and fill == 0:
                plain = dtype.kind == "f" and not np.signbit(fill)
                found = found + dtype.type(0) if plain else np.where(found == 0, fill, found)
            results[k] = found
            for gone in call.drops:
                results[gone] = None
        out: NDArray[Any] = results[final]
        return out


def fuse_maps(steps: Sequence[Node], roots: Sequence[Scan]) -> dict[Map, list[Map]]:
    """Return for each function of cells that is computed by itself the calls of its program, itself the last.

    Parameters
    ----------
    steps
        All steps of a plan, those taken in before those that take them in.
    roots
        What is wanted of them.
    """
    users: dict[Node, list[Node | None]] = {step: [] for step in steps}
    for step in steps:
        for scan in step.scans:
            if isinstance(scan.source, Node):
                users[scan.source].append(step)
    for scan in roots:
        if isinstance(scan.source, Node):
            users[scan.source].append(None)
    bottom: dict[Map, frozenset[Hashable]] = {}  # the scans below a program that ends here
    takes: dict[Map, set[Node]] = {}
    for step in steps:
        if not isinstance(step, Map):
            continue
        apart = {scan.source for scan in step.scans if not _joins(scan)}  # also where another scan of it would join
        inner = {scan.source for scan in step.scans if isinstance(scan.source, Map)} - apart
        several = frozenset().union(*(
            bottom[scan.source] if isinstance(scan.source, Map) and scan.source in inner else {_identity(scan)}
            for scan in step.scans
        ))  # fmt: skip
        takes[step] = {one for one in inner if len(several) <= _MOST or len(bottom[one]) == 1}
        bottom[step] = frozenset().union(*(
            bottom[scan.source] if isinstance(scan.source, Map) and scan.source in takes[step] else {_identity(scan)}
            for scan in step.scans
        ))  # fmt: skip
    end: dict[Node, Map] = {}  # the last call of the program that a function of cells is in
    for step in reversed(steps):
        if isinstance(step, Map):
            ends = {end[user] if isinstance(user, Map) and step in takes[user] else None for user in users[step]}
            (only,) = ends if len(ends) == 1 else (None,)
            end[step] = step if only is None else only
    programs: dict[Map, list[Map]] = {}
    for step in steps:
        if isinstance(step, Map):
            programs.setdefault(end[step], []).append(step)
    return programs


def _joins(scan: Scan) -> bool:
    """Return whether a function of cells may be computed where its result is taken in."""
    step = scan.source
    return (
        isinstance(step, Map) and scan.view.is_identity and not step.is_dense
        and all(below.view.repeats <= 1 for below in step.scans)
    )  # fmt: skip


def _identity(scan: Scan) -> tuple[Hashable, View]:
    return scan.source.token, scan.view


def _at(array: NDArray[Any], coords: tuple[NDArray[Any], ...]) -> NDArray[Any]:
    """Return the cells of a broadcast array at coordinates, looking only along the axes on which it changes."""
    changing = [k for k, step in enumerate(array.strides) if step]
    core = array[tuple(slice(None) if step else 0 for step in array.strides)]
    if len(changing) == 1:
        return core.take(coords[changing[0]])
    return np.asarray(core[tuple(coords[k] for k in changing)])
