"""COO arrays on a device: a flat int64 position and a value per stored element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparrow.core.schema import Schema
from sparrow.engines.cupy.device import Device
from sparrow.kernels.coo import Block

__all__ = ["DeviceCOO", "Groups", "drop_fill", "project_keys", "to_device", "to_host", "unravel_keys"]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceCOO:
    """Canonical stored elements on a device."""

    keys: Any
    """Flat positions, int64, ascending: shape (n,)."""
    values: Any
    """Shape (n,)."""

    @property
    def count(self) -> int:
        """The number of stored elements, n."""
        return int(self.keys.size)

    def take(self, at: Any) -> DeviceCOO:
        """Return the elements at indices, in a slice or under a mask."""
        return DeviceCOO(self.keys[at], self.values[at])


def to_device(device: Device, block: Block, shape: Sequence[int]) -> DeviceCOO:
    """Copy a canonical block to a device; its size must be below 2^63."""
    keys = device.xp.zeros(block.count, np.int64)
    for column, n in zip(block.coords, shape, strict=True):
        keys = keys * n + device.put(column)
    return DeviceCOO(keys, device.put(block.values))


def to_host(device: Device, elements: DeviceCOO, schema: Schema) -> Block:
    """Copy elements of a device to a block, with the coordinate dtypes of the schema."""
    columns = unravel_keys(elements.keys, schema.shape)
    coords = (
        device.get(column.astype(schema.coordinate_dtype(axis), copy=False)) for axis, column in enumerate(columns)
    )
    return Block(tuple(coords), device.get(elements.values))


def unravel_keys(keys: Any, shape: Sequence[int]) -> list[Any]:
    """Return the coordinates of flat positions."""
    out = []
    for n in reversed(shape[1:]):
        out.append(keys % n)
        keys = keys // n
    return [keys, *reversed(out)] if len(shape) else []


def project_keys(keys: Any, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """Return flat positions along some axes, of flat positions along all."""
    columns = unravel_keys(keys, shape)
    out = keys * 0
    for axis in axes:
        out = out * shape[axis] + columns[axis]
    return out


def drop_fill(device: Device, elements: DeviceCOO, fill: Any) -> DeviceCOO:
    """Return the elements that differ from the fill, where NaN equals NaN."""
    values = elements.values
    stored = ~device.xp.isnan(values) if fill != fill else values != fill
    return elements if bool(stored.all()) else elements.take(stored)


class Groups:
    """Elements grouped by key, and reductions of groups.

    Parameters
    ----------
    device
        Device of the arrays.
    numbers
        Key of the group of each element, int64, in any order, shape (n,) with n > 0.
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
        """Starts of groups among the sorted elements, followed by n: shape (groups + 1,)."""
        self._stops = self.pointers[1:]
        self._at = xp.cumsum(fresh.astype(np.int64)) - 1
        self.numbers = numbers[self._starts]
        """The key of each group, ascending: shape (groups,)."""
        self.counts = self._stops - self._starts
        """The number of elements of each group."""

    def sort_values(self, values: Any) -> Any:
        """Return values sorted by group, stable."""
        return values if self._order is None else values[self._order]

    def spread(self, found: Any) -> Any:
        """Return a value per group for each of the sorted elements."""
        return found[self._at]

    def sums(self, values: Any) -> Any:
        """Return the sum per group: integers modulo 2^64, others in float64.

        Sums of integers, which may have a second axis, are differences of a cumulative sum, which is exact. For floats
        that would lose digits, and NaN would spread to later groups, as in ``cupy.add.reduceat``; they are added
        one by one, in no fixed order.
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
        """Return the maximum or minimum per group of values without NaN."""
        if self.counts.size == 1:
            return (values.max() if largest else values.min()).reshape(1)
        xp = self._xp
        narrow = values.astype(np.uint8) if values.dtype.kind == "b" else values
        order = xp.argsort(narrow)
        order = order[xp.argsort(self._at[order])]  # stable, so each group ascends
        return values[order][self._stops - 1 if largest else self._starts]
