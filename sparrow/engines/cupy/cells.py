"""Functions of cells, tile by tile: cells of the operands aligned by searching sorted keys, values computed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparrow.core.indexing import NewAxis
from sparrow.engines.cupy.device import Device
from sparrow.engines.cupy.entries import Entries, coordinates, regrouped, without_fill
from sparrow.engines.cupy.functions import called
from sparrow.engines.cupy.tiles import Tile, Tiled, joined
from sparrow.engines.stream.elementwise.broadcast import check_repeats
from sparrow.plan import Dense, Map, Scan

__all__ = ["located", "mapped"]


def mapped(device: Device, node: Map, scans: list[Scan]) -> Tiled:
    """Return what computes a function of cells."""
    shape = node.schema.shape
    arrays = {k: _array(device, o, shape) for k, o in enumerate(node.operands) if isinstance(o, Dense)}
    once = [scan.view.repeats <= 1 for scan in scans]
    walked = any(needed and single for needed, single in zip(node.required, once, strict=True))
    check_repeats(node, scans, node.required)
    repeated = {k: _Repeated(device, scan) for k, scan in enumerate(scans) if walked and not once[k]}
    required = [needed for k, needed in enumerate(node.required) if k not in repeated]

    def compute(tile: Tile) -> Entries:
        found = {k: tile.entries(scan) for k, scan in enumerate(scans) if k not in repeated}
        keys = _cells(device, list(found.values()), required)
        columns: dict[int, Any] = {}
        for k, core in repeated.items():
            columns[k], there = core.at(tile, keys)
            if node.required[k]:
                keys = keys[there]
                columns = {own: column[there] for own, column in columns.items()}
        if not keys.size:
            return Entries(keys, device.xp.zeros(0, node.schema.dtype))
        for k, entries in found.items():
            columns[k] = _at(device, entries, keys, scans[k].schema.fill_value)[0]
        given = iter(sorted(columns))
        arguments = [
            columns[next(given)] if isinstance(operand, Scan) else arrays[k](keys) if k in arrays else operand
            for k, operand in enumerate(node.operands)
        ]
        return without_fill(device, Entries(keys, called(device, node, arguments)), node.schema.fill_value)

    read = [repeated[k].core if k in repeated else scan for k, scan in enumerate(scans)
            if k not in repeated or repeated[k].in_tiles]  # fmt: skip
    return Tiled(device, node, read, compute)


class _Repeated:
    """The cells of a scan that broadcasting repeats, looked up where a product has cells instead of repeated."""

    def __init__(self, device: Device, scan: Scan) -> None:
        axes = scan.view.axes
        self._device, self._shape = device, scan.schema.shape
        self._kept = [k for k, axis in enumerate(axes) if not isinstance(axis, NewAxis)]
        self.core = scan.then(scan.view.then(tuple(0 if isinstance(axis, NewAxis) else slice(None) for axis in axes)))
        self.in_tiles = not isinstance(axes[0], NewAxis)
        """Whether a tile needs only what lies between its bounds."""
        self._held: list[Entries] = []
        self._lock = threading.Lock()

    def at(self, tile: Tile, keys: Any) -> tuple[Any, Any]:
        """Return the values at cells, and at which there are entries."""
        own = tile.entries(self.core) if self.in_tiles else self._whole()
        wanted = regrouped(keys, self._shape, self._kept)
        return _at(self._device, own, wanted, self.core.schema.fill_value)

    def _whole(self) -> Entries:
        with self._lock:
            if not self._held:
                what = f"an operand of shape {self.core.schema.shape} that is repeated"
                self._held.append(joined(self._device, self.core, what))
        return self._held[0]


def _cells(device: Device, found: Sequence[Entries], required: Sequence[bool]) -> Any:
    """Return the cells that count: those that all required operands have, or of none required those of any."""
    if any(required):
        keys, *others = (entries.keys for entries, needed in zip(found, required, strict=True) if needed)
        for other in others:
            if other is not keys:
                keys = keys[located(device, other, keys)[1]]
        return keys
    keys = found[0].keys
    further = [entries.keys for entries in found[1:] if entries.keys is not keys]
    return device.xp.unique(device.xp.concatenate([keys, *further])) if further else keys


def located(device: Device, among: Any, keys: Any) -> tuple[Any, Any]:
    """Return where numbers stand among ascending ones, at least one of either, and which do."""
    xp = device.xp
    if not among.size:
        return xp.zeros(keys.size, np.int64), xp.zeros(keys.size, bool)
    places = xp.minimum(xp.searchsorted(among, keys), among.size - 1)
    return places, among[places] == keys


def _at(device: Device, entries: Entries, keys: Any, fill: Any) -> tuple[Any, Any]:
    """Return the values at cells, the fill where there is no entry, and where there is one."""
    xp = device.xp
    if entries.keys is keys:
        return entries.values, xp.ones(keys.size, bool)
    if not entries.count:
        return xp.full(keys.size, fill, entries.values.dtype), xp.zeros(keys.size, bool)
    places, there = located(device, entries.keys, keys)
    return xp.where(there, entries.values[places], fill), there


def _array(device: Device, operand: Dense, shape: tuple[int, ...]) -> Callable[[Any], Any]:
    """Return what gives the cells of an array, broadcast to the shape of the result, at keys."""
    whole = np.broadcast_to(operand.array, shape)
    changing = [axis for axis, step in enumerate(whole.strides) if step]
    core = np.ascontiguousarray(whole[tuple(slice(None) if step else 0 for step in whole.strides)])
    moved: list[Any] = []  # made when it is first wanted; made twice by two threads is no harm

    def at(keys: Any) -> Any:
        if not moved:
            moved.append(device.put(core.reshape(-1)))
        columns = coordinates(keys, shape)
        place = keys * 0
        for axis in changing:
            place = place * shape[axis] + columns[axis]
        return moved[0][place]

    return at
