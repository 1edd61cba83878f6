"""Index expressions, parsed and checked against a shape."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing.points import IntArray
from sparrow.core.tuning import tuning
from sparrow.errors import IndexingError, InvalidValueError
from sparrow.runtime import memory
from sparrow.runtime.validation import check_unmasked

__all__ = ["Array", "Flag", "Integer", "Item", "Key", "Mask", "Mode", "Slice"]

Mode: TypeAlias = Literal["paired", "orthogonal", "pointwise"]


@dataclass(frozen=True, slots=True)
class Integer:
    """Integer index: one position of an axis, which is dropped."""

    axis: int
    value: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Slice of an axis."""

    axis: int
    positions: range


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """Positions of an axis, from a list or a mask."""

    axis: int
    values: IntArray
    mask: int
    """Number of the mask or list; arrays of one mask broadcast together in orthogonal indexing."""


@dataclass(frozen=True, slots=True, eq=False)
class Flag:
    """Boolean scalar: adds an axis of length 1 (True) or 0 (False)."""

    values: IntArray
    mask: int


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Sparse boolean mask: coordinates of its True elements."""

    shape: tuple[int, ...]
    coords: tuple[IntArray, ...]
    """One array per dimension, in lexicographic order."""

    @property
    def ndim(self) -> int:
        """Number of dimensions, at least 1."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[np.bool_]:
        """Dtype ``bool``."""
        return np.dtype(np.bool_)

    def nonzero(self) -> tuple[IntArray, ...]:
        """Return the coordinates of True elements, one array per dimension."""
        return self.coords


Item: TypeAlias = Integer | Slice | Array | Flag | None


@dataclass(frozen=True, slots=True)
class Key:
    """Parsed index: items with checked, non-negative positions."""

    items: tuple[Item, ...]
    breaks: frozenset[int]
    """Numbers of items preceded by an ellipsis."""

    @property
    def arrays(self) -> list[tuple[int, Array | Flag]]:
        """Array items with their numbers."""
        return [(k, item) for k, item in enumerate(self.items) if isinstance(item, Array | Flag)]

    def arrays_by_mask(self) -> list[list[tuple[int, Array | Flag]]]:
        """Return the array items grouped by mask."""
        groups: dict[int, list[tuple[int, Array | Flag]]] = {}
        for number, item in self.arrays:
            groups.setdefault(item.mask, []).append((number, item))
        return list(groups.values())

    def _advanced_numbers(self) -> list[int]:
        return [k for k, item in enumerate(self.items) if isinstance(item, Integer | Array | Flag)]

    def first_advanced(self) -> int:
        """Return the number of the first integer or array item."""
        return self._advanced_numbers()[0]

    def is_contiguous(self) -> bool:
        """Return whether integer and array items are adjacent.

        NumPy treats integers as arrays if there is an array in the index.
        """
        numbers = self._advanced_numbers()
        return numbers == list(range(numbers[0], numbers[-1] + 1)) and not any(
            k in self.breaks for k in range(numbers[0] + 1, numbers[-1] + 1)
        )

    @classmethod
    def parse(cls, key: Any, shape: tuple[int, ...], names: Sequence[str] | None) -> Key:
        """Parse an index expression; ``names`` of dimensions are for error messages.

        Raises
        ------
        IndexingError
            If an item is out of range or of an unsupported type, or there are too many items.
        """
        parts: list[Any] = []
        used = 0
        for part in key if isinstance(key, tuple) else (key,):
            is_basic = type(part) is int or type(part) is slice
            parts.append(part if is_basic else _normalize_item(part))
            used += 1 if is_basic else _count_axes(parts[-1])
        if used > len(shape):
            raise IndexingError(f"too many indices: {used} for a tensor with {len(shape)} dimensions, shape {shape}")
        ellipses = [k for k, part in enumerate(parts) if part is Ellipsis]
        if len(ellipses) > 1:
            raise IndexingError("an index can only have a single ellipsis ('...')")
        if not ellipses:
            parts.append(Ellipsis)
        items: list[Item] = []
        breaks: set[int] = set()
        axis = mask = 0
        for part in parts:
            if part is Ellipsis:
                breaks.add(len(items))
                for _ in range(len(shape) - used):
                    items.append(Slice(axis, range(shape[axis])))
                    axis += 1
            elif part is None:
                items.append(None)
            elif isinstance(part, slice):
                items.append(Slice(axis, _slice_positions(part, shape[axis])))
                axis += 1
            elif isinstance(part, int):
                items.append(Integer(axis, _check_index(part, axis, shape, names)))
                axis += 1
            elif part.dtype == bool:
                mask += 1
                if part.ndim == 0:
                    items.append(Flag(np.zeros(int(part), dtype=np.int64), mask))
                _check_mask(part, axis, shape, names)
                if part.ndim > 1:
                    _check_memory(part)
                for column in part.nonzero() if part.ndim else ():
                    kind = np.int32 if shape[axis] < 2**31 else np.int64
                    items.append(Array(axis, column.astype(kind, copy=False), mask))
                    axis += 1
            else:
                mask += 1
                items.append(Array(axis, _check_index_array(part, axis, shape, names), mask))
                axis += 1
        return cls(tuple(items), frozenset(breaks))


def _normalize_item(part: Any) -> Any:
    """Return an index item as an int, slice, None, ellipsis, mask or array."""
    if part is None or part is Ellipsis or isinstance(part, slice | Mask):
        return part
    if isinstance(part, bool | np.bool_):
        return np.asarray(part)
    check_unmasked(part, "an index")
    if isinstance(part, str | bytes):
        raise IndexingError(f"{part!r} is not a valid index: select labels with A.sel(dimension=label)")
    try:
        return operator.index(part)
    except TypeError:
        pass
    if not isinstance(part, list | tuple | range | np.ndarray) and not hasattr(part, "__array__"):
        raise IndexingError(
            f"index must consist of integers, slices, '...', None, lists of integers or masks, "
            f"got {part!r} of type {type(part).__name__}"
        )
    try:
        array = np.asarray(part)
    except ValueError:
        raise IndexingError("rows of an index list must have equal length") from None
    if array.size == 0 and not isinstance(part, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype == bool:
        return array
    if array.dtype.kind not in "iu":
        raise IndexingError(f"index list must contain integers or booleans, got {array.dtype}")
    return int(array) if array.ndim == 0 else array


def _count_axes(part: Any) -> int:
    """Return the number of axes that an index item consumes."""
    if part is None or part is Ellipsis:
        return 0
    return int(part.ndim) if isinstance(part, np.ndarray | Mask) and part.dtype == bool else 1


def _slice_positions(part: slice, length: int) -> range:
    try:
        return range(*part.indices(length))
    except ValueError as error:
        raise InvalidValueError(f"invalid slice {part}: {error}") from None
    except TypeError as error:
        raise IndexingError(f"bounds of a slice must be integers or None, got {part}: {error}") from None


def _dimension_label(axis: int, names: Sequence[str] | None) -> str:
    return f"dimension {axis}" if names is None else f"dimension {axis} ({names[axis]!r})"


def _check_index(index: int, axis: int, shape: Sequence[int], names: Sequence[str] | None) -> int:
    size = shape[axis]
    if not -size <= index < size:
        raise IndexingError(f"index {index} is out of range for {_dimension_label(axis, names)} of size {size}")
    return index + size if index < 0 else index


def _check_index_array(part: IntArray, axis: int, shape: Sequence[int], names: Sequence[str] | None) -> IntArray:
    size = shape[axis]
    values = part.astype(np.int64)
    if not part.size:
        return values
    low, high = int(part.min()), int(part.max())
    for extreme in (low, high):
        if not -size <= extreme < size:
            raise IndexingError(f"index {extreme} is out of range for {_dimension_label(axis, names)} of size {size}")
    return np.where(values < 0, values + size, values) if low < 0 else values


def _check_memory(part: NDArray[np.bool_] | Mask) -> None:
    """Raise unless what a mask selects, and its join with elements, fit in memory."""
    count = len(part.coords[0]) if isinstance(part, Mask) else int(np.count_nonzero(part))
    memory.check(
        count * (part.ndim + tuning().mask_copies) * 8,
        lambda: f"the positions of the {count} elements that a mask selects",
        "multiply by the mask, A * mask, which keeps the shape and streams",
    )


def _check_mask(part: NDArray[np.bool_] | Mask, axis: int, shape: Sequence[int], names: Sequence[str] | None) -> None:
    for k, n in enumerate(part.shape):
        if n not in (shape[axis + k], 0):  # NumPy accepts an empty mask for any size
            raise IndexingError(
                f"mask has length {n}, expected {shape[axis + k]} for {_dimension_label(axis + k, names)}"
            )
