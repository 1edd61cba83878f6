"""Fusion of element-wise functions into kernels over a few aligned scans.

An element-wise function whose operands are element-wise functions is fused with them if the whole merges at most two
different scans: these are aligned once, and no intermediate result is materialized. Scans that broadcasting repeats
along the same axes are looked up together and count as one. A result that another kernel also
reads stays a node of its own.

Intermediate values get the form that they would have as stored elements: a product is 0 where an operand of fill 0 is
absent, and values equal to the fill become the fill, -0.0 included.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import NewAxis, View
from sparrow.engines.stream.tuning import tuning
from sparrow.plan import Dense, Map, Node, Scan, apply_function, function_name

__all__ = ["FusedKernel", "fuse_maps"]


@dataclass(frozen=True, slots=True)
class _Input:
    """Argument that is the values of a scan."""

    number: int


@dataclass(frozen=True, slots=True)
class _Temp:
    """Argument that is the result of an earlier call."""

    number: int


@dataclass(frozen=True, slots=True)
class _Call:
    """One function of a kernel."""

    node: Map
    arguments: tuple[Any, ...]
    """:class:`_Input`, :class:`_Temp`, arrays broadcast to the shape of the result, or scalars."""
    guards: tuple[_Input | _Temp, ...]
    """Arguments whose zeros make the result 0, whatever the others are."""
    drops: tuple[int, ...]
    """Results that no later call reads."""


class FusedKernel:
    """Element-wise functions evaluated in order; the last one gives the result.

    Parameters
    ----------
    calls
        Functions in topological order, operands first.
    """

    def __init__(self, calls: Sequence[Map]) -> None:
        self.node = calls[-1]
        place = {call: k for k, call in enumerate(calls)}
        leaves: dict[Hashable, int] = {}
        self.scans: list[Scan] = []
        """The inputs, each once."""
        needs: list[frozenset[int]] = []  # inputs whose absent elements make a call give its fill
        last = list(range(len(calls)))
        plain: list[tuple[Map, list[Any], tuple[Any, ...]]] = []
        for k, node in enumerate(calls):
            arguments: list[Any] = []
            required = iter(node.required)
            annihilating, own = [], []
            for operand in node.operands:
                if isinstance(operand, Scan):
                    inner = place.get(operand.source) if isinstance(operand.source, Map) else None
                    slot: _Input | _Temp
                    if inner is not None and operand.view.is_identity:
                        slot, needed = _Temp(inner), needs[inner]
                        last[inner] = k
                    else:
                        key = _identity(operand)
                        if key not in leaves:
                            leaves[key] = len(self.scans)
                            self.scans.append(operand)
                        slot, needed = _Input(leaves[key]), frozenset((leaves[key],))
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
        """Return whether the kernel is one call of a function, of two scans."""
        return len(self._calls) == 1 and len(self.scans) == 2 and function_name(self.node.function) == name

    def _guarding(self, node: Map, slots: Sequence[_Input | _Temp]) -> tuple[_Input | _Temp, ...]:
        """Return the arguments that may be 0 where a product might not be."""
        if node.schema.dtype.kind not in "fc":
            return ()
        return tuple(slot for slot in slots if not (isinstance(slot, _Input) and self.required[slot.number]))

    def __call__(self, coords: tuple[NDArray[Any], ...], columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the result at n coordinates, given the values of each input there.

        Parameters
        ----------
        coords
            Arrays of shape (n,), one per axis.
        columns
            Arrays of shape (n,), one per input.
        """
        size = len(columns[0])
        results: list[Any] = [None] * len(self._calls)

        def value(argument: Any) -> Any:
            if isinstance(argument, _Input):
                return columns[argument.number]
            if isinstance(argument, _Temp):
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
    """Return the functions of each fused kernel, by the last of them.

    Parameters
    ----------
    steps
        All nodes of a plan in topological order, operands first.
    roots
        Roots of the plan.
    """
    users: dict[Node, list[Node | None]] = {step: [] for step in steps}
    for step in steps:
        for scan in step.scans:
            if isinstance(scan.source, Node):
                users[scan.source].append(step)
    for scan in roots:
        if isinstance(scan.source, Node):
            users[scan.source].append(None)
    bottom: dict[Map, frozenset[tuple[Hashable, View]]] = {}  # the inputs of a kernel that ends here
    fuses: dict[Map, set[Node]] = {}
    for step in steps:
        if not isinstance(step, Map):
            continue
        apart = {scan.source for scan in step.scans if not _is_fusible(scan)}  # even if another scan could be
        inner = {scan.source for scan in step.scans if isinstance(scan.source, Map)} - apart
        several = frozenset().union(*(
            bottom[scan.source] if isinstance(scan.source, Map) and scan.source in inner else {_identity(scan)}
            for scan in step.scans
        ))  # fmt: skip
        fuses[step] = {
            one
            for one in inner
            if (_count_merged(several) <= tuning().max_fused_scans or len(bottom[one]) == 1)
            and (len(_repeated_axes(several)) <= 1 or not _repeated_axes(bottom[one]))  # one set can be looked up
        }
        bottom[step] = frozenset().union(*(
            bottom[scan.source] if isinstance(scan.source, Map) and scan.source in fuses[step] else {_identity(scan)}
            for scan in step.scans
        ))  # fmt: skip
    end: dict[Node, Map] = {}  # the last function of the kernel that a function is in
    for step in reversed(steps):
        if isinstance(step, Map):
            ends = {end[user] if isinstance(user, Map) and step in fuses[user] else None for user in users[step]}
            (only,) = ends if len(ends) == 1 else (None,)
            end[step] = step if only is None else only
    programs: dict[Map, list[Map]] = {}
    for step in steps:
        if isinstance(step, Map):
            programs.setdefault(end[step], []).append(step)
    return programs


def _count_merged(scans: Collection[tuple[Hashable, View]]) -> int:
    """Return the number of scans to merge; repeated ones are looked up together."""
    return sum(view.repeats <= 1 for _, view in scans) + len(_repeated_axes(scans))


def _repeated_axes(scans: Collection[tuple[Hashable, View]]) -> set[tuple[bool, ...]]:
    """Return the sets of axes along which scans are repeated, as flags."""
    return {tuple(isinstance(axis, NewAxis) for axis in view.axes) for _, view in scans if view.repeats > 1}


def _is_fusible(scan: Scan) -> bool:
    """Return whether a scan is an element-wise function fusible into its reader."""
    step = scan.source
    return isinstance(step, Map) and scan.view.is_identity and not step.is_dense


def _identity(scan: Scan) -> tuple[Hashable, View]:
    return scan.source.token, scan.view


def _at(array: NDArray[Any], coords: tuple[NDArray[Any], ...]) -> NDArray[Any]:
    """Return a broadcast array at coordinates, indexed along its own axes only."""
    changing = [k for k, step in enumerate(array.strides) if step]
    core = array[tuple(slice(None) if step else 0 for step in array.strides)]
    if len(changing) == 1:
        return core.take(coords[changing[0]])
    return np.asarray(core[tuple(coords[k] for k in changing)])
