"""Element-wise functions by tiles, aligned by binary search of sorted keys."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparrow.core.indexing import NewAxis
from sparrow.engines.cupy.coo import DeviceCOO, drop_fill, project_keys, unravel_keys
from sparrow.engines.cupy.device import Device
from sparrow.engines.cupy.functions import apply_on_device
from sparrow.engines.cupy.tiles import Tile, TiledOp, read_all
from sparrow.engines.stream.elementwise.broadcast import check_repeats
from sparrow.plan import Dense, Map, Scan

__all__ = ["build_map", "find_keys"]


def build_map(device: Device, node: Map, scans: list[Scan]) -> TiledOp:
    """Return the operator of an element-wise function."""
    shape = node.schema.shape
    arrays = {k: _array(device, o, shape) for k, o in enumerate(node.operands) if isinstance(o, Dense)}
    once = [scan.view.repeats <= 1 for scan in scans]
    walked = any(needed and single for needed, single in zip(node.required, once, strict=True))
    check_repeats(node, scans, node.required)
    repeated = {k: _Broadcast(device, scan) for k, scan in enumerate(scans) if walked and not once[k]}
    required = [needed for k, needed in enumerate(node.required) if k not in repeated]

    def compute(tile: Tile) -> DeviceCOO:
        found = {k: tile.elements(scan) for k, scan in enumerate(scans) if k not in repeated}
        keys = _positions(device, list(found.values()), required)
        columns: dict[int, Any] = {}
        for k, core in repeated.items():
            columns[k], there = core.at(tile, keys)
            if node.required[k]:
                keys = keys[there]
                columns = {own: column[there] for own, column in columns.items()}
        if not keys.size:
            return DeviceCOO(keys, device.xp.zeros(0, node.schema.dtype))
        for k, elements in found.items():
            columns[k] = _at(device, elements, keys, scans[k].schema.fill_value)[0]
        given = iter(sorted(columns))
        arguments = [
            columns[next(given)] if isinstance(operand, Scan) else arrays[k](keys) if k in arrays else operand
            for k, operand in enumerate(node.operands)
        ]
        return drop_fill(device, DeviceCOO(keys, apply_on_device(device, node, arguments)), node.schema.fill_value)

    read = [repeated[k].core if k in repeated else scan for k, scan in enumerate(scans)
            if k not in repeated or repeated[k].in_tiles]  # fmt: skip
    return TiledOp(device, node, read, compute)


class _Broadcast:
    """A broadcast operand, looked up at positions instead of repeated."""

    def __init__(self, device: Device, scan: Scan) -> None:
        axes = scan.view.axes
        self._device, self._shape = device, scan.schema.shape
        self._kept = [k for k, axis in enumerate(axes) if not isinstance(axis, NewAxis)]
        self.core = scan.then(scan.view.then(tuple(0 if isinstance(axis, NewAxis) else slice(None) for axis in axes)))
        self.in_tiles = not isinstance(axes[0], NewAxis)
        """True if a tile needs only rows between its bounds."""
        self._held: list[DeviceCOO] = []
        self._lock = threading.Lock()

    def at(self, tile: Tile, keys: Any) -> tuple[Any, Any]:
        """Return the values at positions, and where elements are stored."""
        own = tile.elements(self.core) if self.in_tiles else self._read_all()
        wanted = project_keys(keys, self._shape, self._kept)
        return _at(self._device, own, wanted, self.core.schema.fill_value)

    def _read_all(self) -> DeviceCOO:
        with self._lock:
            if not self._held:
                what = f"a broadcast operand of shape {self.core.schema.shape}"
                self._held.append(read_all(self._device, self.core, what))
        return self._held[0]


def _positions(device: Device, found: Sequence[DeviceCOO], required: Sequence[bool]) -> Any:
    """Return the intersection of required operands' positions, else the union."""
    if any(required):
        keys, *others = (elements.keys for elements, needed in zip(found, required, strict=True) if needed)
        for other in others:
            if other is not keys:
                keys = keys[find_keys(device, other, keys)[1]]
        return keys
    keys = found[0].keys
    further = [elements.keys for elements in found[1:] if elements.keys is not keys]
    return device.xp.unique(device.xp.concatenate([keys, *further])) if further else keys


def find_keys(device: Device, among: Any, keys: Any) -> tuple[Any, Any]:
    """Return the positions of keys among ascending ones, and which are found."""
    xp = device.xp
    if not among.size:
        return xp.zeros(keys.size, np.int64), xp.zeros(keys.size, bool)
    places = xp.minimum(xp.searchsorted(among, keys), among.size - 1)
    return places, among[places] == keys


def _at(device: Device, elements: DeviceCOO, keys: Any, fill: Any) -> tuple[Any, Any]:
    """Return the values at keys, and where elements are stored."""
    xp = device.xp
    if elements.keys is keys:
        return elements.values, xp.ones(keys.size, bool)
    if not elements.count:
        return xp.full(keys.size, fill, elements.values.dtype), xp.zeros(keys.size, bool)
    places, there = find_keys(device, elements.keys, keys)
    return xp.where(there, elements.values[places], fill), there


def _array(device: Device, operand: Dense, shape: tuple[int, ...]) -> Callable[[Any], Any]:
    """Return a function from keys to elements of an array broadcast to a shape."""
    whole = np.broadcast_to(operand.array, shape)
    changing = [axis for axis, step in enumerate(whole.strides) if step]
    core = np.ascontiguousarray(whole[tuple(slice(None) if step else 0 for step in whole.strides)])
    moved: list[Any] = []  # copied on first use; twice by two threads is harmless

    def at(keys: Any) -> Any:
        if not moved:
            moved.append(device.put(core.reshape(-1)))
        columns = unravel_keys(keys, shape)
        place = keys * 0
        for axis in changing:
            place = place * shape[axis] + columns[axis]
        return moved[0][place]

    return at
