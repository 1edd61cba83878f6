"""Entries in the memory of a device: one integer for the cell of each, and its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparrow.core.schema import Schema
from sparrow.engines.cupy.device import Device
from sparrow.kernels.coo import Block

__all__ = ["Entries", "Groups", "coordinates", "moved_in", "moved_out", "regrouped", "without_fill"]


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Canonical entries on a device."""

    keys: Any
    """Flat positions of their cells, int64, ascending: shape (n,)."""
    values: Any
    """Shape (n,)."""

    @property
    def count(self) -> int:
        """The number of entries, n."""
        return int(self.keys.size)

    def take(self, at: Any) -> Entries:
        """Return the entries at positions, in a slice or under a mask."""
        return Entries(self.keys[at], self.values[at])


def moved_in(device: Device, block: Block, shape: Sequence[int]) -> Entries:
    """Return canonical entries as ones of a device; the cells must not pass 2^63."""
    keys = device.xp.zeros(block.count, np.int64)
    for column, n in zip(block.coords, shape, strict=True):
        keys = keys * n + device.put(column)
    return Entries(keys, device.put(block.values))


def moved_out(device: Device, entries: Entries, schema: Schema) -> Block:
    """Return entries of a device as a block, coordinates in the types of the schema."""
    columns = coordinates(entries.keys, schema.shape)
    coords = (
        device.get(column.astype(schema.coordinate_dtype(axis), copy=False)) for axis, column in enumerate(columns)
    )
    return Block(tuple(coords), device.get(entries.values))


def coordinates(keys: Any, shape: Sequence[int]) -> list[Any]:
    """Return the coordinates of flat positions."""
    out = []
    for n in reversed(shape[1:]):
        out.append(keys % n)
        keys = keys // n
    return [keys, *reversed(out)] if len(shape) else []


def regrouped(keys: Any, shape: Sequence[int], kept: Sequence[int]) -> Any:
    """Return flat positions along some of the axes of flat positions along all."""
    columns = coordinates(keys, shape)
    out = keys * 0
    for axis in kept:
        out = out * shape[axis] + columns[axis]
    return out


def without_fill(device: Device, entries: Entries, fill: Any) -> Entries:
    """Return entries without those that equal fill, where NaN is only NaN and -0.0 is 0."""
    values = entries.values
    stored = ~device.xp.isnan(values) if fill != fill else values != fill
    return entries if bool(stored.all()) else entries.take(stored)


class Groups:
    """Entries by groups of equal numbers, and what comes of each group.

    Parameters
    ----------
    device
        Where they are.
    numbers
        The group of each entry, int64, in any order, at least one: shape (n,).
    """

    def __init__(self, device: Device, numbers: Any) -> None:
        xp = self._xp = device.xp
        self._order = None
        if bool((numbers[1:] < numbers[:-1]).any()):
            self._order = xp.argsort(numbers)
            numbers = numbers[self._order]
        fresh = xp.concatenate([xp.ones(1, bool), numbers[1:] != numbers[:-1]])
        self._starts = xp.flatnonzero(fresh)
        self.pointers = xp.concatenate([self._starts, xp.full(1, numbers.size, np.int64)])
        """Where each begins among the ordered entries, and their number at the end: shape (groups + 1,)."""
        self._stops = self.pointers[1:]
        self._at = xp.cumsum(fresh.astype(np.int64)) - 1
        self.numbers = numbers[self._starts]
        """The number of each group, ascending: shape (groups,)."""
        self.counts = self._stops - self._starts
        """How many entries each has."""

    def ordered(self, values: Any) -> Any:
        """Return values of entries, group by group, in each in the order in which they were given."""
        return values if self._order is None else values[self._order]

    def spread(self, found: Any) -> Any:
        """Return for each of the ordered entries what was found of its group."""
        return found[self._at]

    def sums(self, values: Any) -> Any:
        """Return the sum of the ordered values of each group: of integers modulo 2^64, of others in float64.

        Integers, which may have a second axis that stays, are differences of a running sum, which is exact. Of floats
        that would lose digits, and NaN would spread to all groups that follow, as it does in ``cupy.add.reduceat``;
        they are added one by one, in no fixed order.
        """
        xp = self._xp
        if values.dtype.kind in "biu":
            unsigned = values.dtype.kind == "u"
            wide = values.astype(np.uint64 if unsigned else np.int64).view(np.uint64)
            whole = xp.cumsum(wide, axis=0 if values.ndim > 1 else None)
            before = xp.concatenate([xp.zeros((1, *values.shape[1:]), np.uint64), whole[self._stops[:-1] - 1]])
            return (whole[self._stops - 1] - before).view(np.uint64 if unsigned else np.int64)
        if values.dtype.kind == "c":
            out = xp.empty(self.counts.size, np.complex128)
            out.real, out.imag = self.sums(values.real), self.sums(values.imag)
            return out
        if self.counts.size == 1:
            return values.sum(dtype=np.float64).reshape(1)
        out = xp.zeros(self.counts.size, np.float64)
        xp.add.at(out, self._at, values.astype(np.float64, copy=False))
        return out

    def extremes(self, values: Any, largest: bool) -> Any:
        """Return the largest or smallest of the ordered values of each group, none of them NaN."""
        if self.counts.size == 1:
            return (values.max() if largest else values.min()).reshape(1)
        xp = self._xp
        narrow = values.astype(np.uint8) if values.dtype.kind == "b" else values
        order = xp.argsort(narrow)
        order = order[xp.argsort(self._at[order])]  # stable, so each group ascends
        return values[order][self._stops - 1 if largest else self._starts]
