"""Views: mappings from the coordinates of a tensor to those of its base."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow.core.array_validation import check_indices
from sparrow.core.indexing.axes import Axis, ListAxis, NewAxis, RangeAxis, range_axis
from sparrow.core.indexing.box import Box
from sparrow.core.indexing.compose import compose_index
from sparrow.core.indexing.parse import Key, Mode
from sparrow.core.indexing.points import IntArray, Points
from sparrow.errors import ShapeError
from sparrow.runtime import memory

__all__ = ["View"]


T = TypeVar("T")


class _cached_attribute(Generic[T]):
    """``functools.cached_property`` with less overhead, for short-lived views."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, obj: Any, owner: Any = None) -> T:
        found = obj.__dict__[self._name] = self._compute(obj)
        return found


@lru_cache(1024)
def _identity(shape: tuple[int, ...]) -> View:
    return View(shape, (), tuple(range_axis(d, 0, 1, n) for d, n in enumerate(shape)))


@lru_cache(1024)
def _permute_identity(shape: tuple[int, ...], order: tuple[int, ...]) -> View:
    axes = _identity(shape).axes
    return View(shape, (), tuple([axes[k] for k in order]))


@lru_cache(1024)
def _expand_identity(shape: tuple[int, ...], positions: tuple[int, ...]) -> View:
    return View(shape, (), _insert_new_axes(_identity(shape).axes, positions))


def _insert_new_axes(axes: Sequence[Axis], positions: Sequence[int]) -> tuple[Axis, ...]:
    old = iter(axes)
    return tuple([NewAxis() if k in positions else next(old) for k in range(len(axes) + len(positions))])


@dataclass(frozen=True)
class View:
    """Mapping from coordinates of a tensor to coordinates of its base.

    Parameters
    ----------
    base_shape
        Shape of the base.
    fixed
        Sorted pairs (dimension, coordinate) of the dimensions that integers dropped.
    axes
        Axes of the view, in order.
    points
        Point groups of :class:`ListAxis` axes.

    Examples
    --------
    >>> view = View.identity((4, 2, 3)).then((slice(1, 4), 1)).then((slice(None), 2))
    >>> view.shape, view.fixed, view.axes
    ((3,), ((1, 1), (2, 2)), (RangeAxis(dim=0, start=1, step=1, length=3),))
    """

    base_shape: tuple[int, ...]
    fixed: tuple[tuple[int, int], ...]
    axes: tuple[Axis, ...]
    points: tuple[Points, ...] = field(default=())

    @classmethod
    def identity(cls, shape: Sequence[int]) -> View:
        """Return the identity view of a shape."""
        return _identity(tuple(shape))

    def check(self, base_shape: tuple[int, ...]) -> None:
        """Raise unless every coordinate of an unpickled view lies within its base.

        Raises
        ------
        ShapeError
            If the view is of another shape.
        IndexingError
            If a coordinate is out of range.
        """
        if self.base_shape != base_shape:
            raise ShapeError(f"view must be of a base of shape {base_shape}, got {self.base_shape}")
        named = list(self.fixed)
        for axis in self.axes:
            if isinstance(axis, RangeAxis) and axis.length:
                named += [(axis.dim, axis.start), (axis.dim, axis.start + axis.step * (axis.length - 1))]
            elif isinstance(axis, ListAxis) and axis.length != self.points[axis.group].shape[axis.position]:
                raise ShapeError(f"axis {axis} of a view must have the length of its points, {self.points[axis.group]}")
        for dim, at in named:
            check_indices(np.array([at]), base_shape[dim], "view")
        for group in self.points:
            for dim, column in zip(group.dims, group.coords, strict=True):
                if column.shape != group.shape:
                    raise ShapeError(f"points of a view must have shape {group.shape}, got {column.shape}")
                check_indices(column.reshape(-1), base_shape[dim], "points")

    @_cached_attribute
    def shape(self) -> tuple[int, ...]:
        """Shape of the view."""
        return tuple([axis.length for axis in self.axes])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.axes)

    @_cached_attribute
    def size(self) -> int:
        """Total number of elements, stored or not."""
        return math.prod(self.shape)

    @_cached_attribute
    def is_identity(self) -> bool:
        """Return whether the view equals its base."""
        return not self.fixed and not self.points and self.axes == _identity(self.base_shape).axes

    @_cached_attribute
    def sliced_dims(self) -> frozenset[int] | None:
        """Dimensions restricted to a contiguous range; the others are complete.

        None for views with integers, broadcast axes, steps other than 1 or lists.
        """
        own = [axis for axis in self.axes if isinstance(axis, RangeAxis)]
        if len(own) != len(self.base_shape) or self.points or self.repeats > 1 or any(axis.step != 1 for axis in own):
            return None
        return frozenset([axis.dim for axis in own if axis.length != self.base_shape[axis.dim]])

    @property
    def is_permutation(self) -> bool:
        """True if the view is its base with axes permuted."""
        return self.sliced_dims == frozenset() and len(self.axes) == len(self.base_shape)

    @_cached_attribute
    def sources(self) -> tuple[int | None, ...]:
        """Source dimension of each axis: ``dim``, ``~dim`` for a 1-D list, or None.

        An axis keeps the name of its source ``dim``.
        """
        return tuple([self._source_of(axis) for axis in self.axes])

    def _source_of(self, axis: Axis) -> int | None:
        if isinstance(axis, RangeAxis):
            return axis.dim
        if isinstance(axis, ListAxis):
            group = self.points[axis.group]
            return ~group.dims[0] if len(group.dims) == 1 and len(group.shape) == 1 else None
        return None

    @_cached_attribute
    def repeats(self) -> int:
        """Repeat count of each element by broadcasting."""
        return math.prod([axis.length for axis in self.axes if isinstance(axis, NewAxis)])

    def broadcast_to(self, shape: Sequence[int]) -> View:
        """Broadcast the view to a shape by NumPy's rule.

        Raises
        ------
        ShapeError
            If the length of an axis is neither 1 nor the target length.
        """
        target = tuple(shape)
        missing = len(target) - self.ndim
        padded = (1,) * missing + self.shape
        if missing < 0 or any(n not in (1, size) for n, size in zip(padded, target, strict=True)):
            raise ShapeError(f"shape {self.shape} cannot be broadcast to {target}")
        new = [k for k, (n, size) in enumerate(zip(padded, target, strict=True)) if n != size or k < missing]
        key: list[Any] = [None] * missing
        for k in range(missing, len(target)):
            key.extend((0, None) if k in new else (slice(None),))
        view = self.then(tuple(key)) if new else self
        axes = tuple(NewAxis(target[k]) if k in new else axis for k, axis in enumerate(view.axes))
        return replace(view, axes=axes)

    def then(self, key: Any, mode: Mode = "paired", names: Sequence[str] | None = None) -> View:
        """Index the view.

        Parameters
        ----------
        key
            Integers, slices, ``...``, ``None``, integer arrays and lists, boolean masks, or a tuple of these.
        mode
            Combination of arrays: ``"paired"`` as in NumPy; ``"orthogonal"`` as an outer product, each at its own
            axis; ``"pointwise"`` broadcast together, with the result axes first.
        names
            Names of the axes, for error messages.

        Raises
        ------
        IndexingError
            If an index is out of range or of an unsupported type, or there are too many.
        """
        if type(key) is tuple and len(key) == len(self.axes) and not self.points:
            element = self._select_element(key)
            if element is not None:
                return element
        items = Key.parse(key, self.shape, names)
        return View(self.base_shape, *compose_index(items, mode, (self.fixed, self.axes, self.points)))

    def _select_element(self, key: tuple[Any, ...]) -> View | None:
        """Return the view of one element; None unless all items are valid integers."""
        fixed = dict(self.fixed)
        for at, axis in zip(key, self.axes, strict=True):
            if type(at) is not int or not isinstance(axis, RangeAxis) or not -axis.length <= at < axis.length:
                return None
            fixed[axis.dim] = axis.start + axis.step * (at % axis.length)
        return View(self.base_shape, tuple(sorted(fixed.items())), ())

    def permute(self, order: Sequence[int]) -> View:
        """Return the view with permuted axes."""
        if self.is_identity:
            return _permute_identity(self.base_shape, tuple(order))
        return View(self.base_shape, self.fixed, tuple([self.axes[k] for k in order]), self.points)

    def insert_axes(self, positions: Sequence[int]) -> View:
        """Return the view with new axes of length 1 at positions of the result."""
        if self.is_identity:
            return _expand_identity(self.base_shape, tuple(positions))
        return View(self.base_shape, self.fixed, _insert_new_axes(self.axes, positions), self.points)

    def within(self, ranges: Sequence[range]) -> View:
        """Return the view of the part of the base in a box that contains it.

        Parameters
        ----------
        ranges
            Range of step 1 of each dimension of the base.
        """
        starts = [r.start for r in ranges]
        axes = [
            replace(axis, start=axis.start - starts[axis.dim]) if isinstance(axis, RangeAxis) else axis
            for axis in self.axes
        ]
        points = [
            Points(
                group.dims, tuple([c - starts[d] for d, c in zip(group.dims, group.coords, strict=True)]), group.shape
            )
            for group in self.points
        ]
        fixed = [(dim, coordinate - starts[dim]) for dim, coordinate in self.fixed]
        return View(tuple(map(len, ranges)), tuple(fixed), tuple(axes), tuple(points))

    def box(self) -> Box:
        """Return the bounding box in base coordinates, with the coordinates of lists."""
        return self._box

    @_cached_attribute
    def _box(self) -> Box:
        if self.size == 0:
            return Box((range(0),) * len(self.base_shape))
        ranges: list[range] = [range(0)] * len(self.base_shape)
        for dim, coordinate in self.fixed:
            ranges[dim] = range(coordinate, coordinate + 1)
        for axis in self.axes:
            if isinstance(axis, RangeAxis):
                positions = range(axis.start, axis.start + axis.step * axis.length, axis.step)
                ranges[axis.dim] = positions if axis.step > 0 else positions[::-1]
        members: list[tuple[int, IntArray]] = []
        for group in self.points:
            for dim, column in zip(group.dims, group.distinct, strict=True):
                ranges[dim] = range(int(column[0]), int(column[-1]) + 1)
                members.append((dim, column))
        return Box(tuple(ranges), tuple(members))

    def to_base(self, coords: Sequence[IntArray]) -> tuple[IntArray, ...]:
        """Translate view coordinates to base coordinates.

        Parameters
        ----------
        coords
            One array of shape (n,) per axis, in range.

        Returns
        -------
        tuple of arrays of shape (n,), int64, one per base dimension
        """
        n = len(coords[0]) if coords else 1
        out: list[IntArray] = [np.zeros(0, dtype=np.int64)] * len(self.base_shape)
        for dim, coordinate in self.fixed:
            out[dim] = np.full(n, coordinate, dtype=np.int64)
        listed: list[list[IntArray]] = [[] for _ in self.points]
        for axis, column in zip(self.axes, coords, strict=True):
            if isinstance(axis, RangeAxis):
                out[axis.dim] = axis.start + axis.step * np.asarray(column, dtype=np.int64)
        for number, group in enumerate(self.points):
            listed[number] = [np.zeros(n, dtype=np.int64)] * len(group.shape)
        for axis, column in zip(self.axes, coords, strict=True):
            if isinstance(axis, ListAxis):
                listed[axis.group][axis.position] = np.asarray(column)
        for group, columns in zip(self.points, listed, strict=True):
            for dim, values in zip(group.dims, group.coords, strict=True):
                out[dim] = values[tuple(columns)]
        return tuple(out)

    def from_base(
        self, coords: Sequence[IntArray], count: int | None = None
    ) -> tuple[tuple[IntArray, ...], IntArray | None]:
        """Translate base coordinates to view coordinates; drop elements outside the view.

        Parameters
        ----------
        coords
            One array of shape (n,) per base dimension.
        count
            Number n of elements of a 0-D base; 1 by default.

        Returns
        -------
        coords
            One array of shape (m,) per axis. Elements repeat if lists or broadcasting repeat them.
        elements
            Ascending input positions, shape (m,); None if they are 0 to n - 1.
        """
        n = len(coords[0]) if coords else (1 if count is None else count)
        elements = self._find_inside(coords)
        matches: list[IntArray] = []
        for group in self.points:
            columns = [coords[d] if elements is None else coords[d][elements] for d in group.dims]
            if not group.dims:
                m = n if elements is None else len(elements)
                hit, point = np.repeat(np.arange(m), group.count), np.tile(np.arange(group.count), m)
            else:
                hit, point = group.match(columns)
            matches = [earlier[hit] for earlier in matches] + [point]
            elements = hit if elements is None else elements[hit]
        m = n if elements is None else len(elements)
        unravelled = [np.unravel_index(point, group.shape) for group, point in zip(self.points, matches, strict=True)]
        out: list[IntArray] = []
        for axis in self.axes:
            if isinstance(axis, RangeAxis):
                column = coords[axis.dim] if elements is None else coords[axis.dim][elements]
                if axis.start != 0:
                    column = column - axis.start
                out.append(column if axis.step == 1 else column // axis.step)
            elif isinstance(axis, ListAxis):
                out.append(unravelled[axis.group][axis.position])
            else:
                out.append(np.zeros(m, dtype=np.int32))
        return self._repeat_elements(out, elements, m)

    def count_shown(self, coords: Sequence[IntArray], count: int) -> int:
        """Return the number of elements that :meth:`from_base` returns."""
        elements = self._find_inside(coords)
        if not self.points:
            return (count if elements is None else len(elements)) * max(self.repeats, 1)
        times: IntArray = np.ones(count if elements is None else len(elements), np.int64)
        for group in self.points:
            if group.dims:
                times *= group.count_matches(
                    [coords[d] if elements is None else coords[d][elements] for d in group.dims]
                )
            else:
                times *= group.count
        return int(times.sum()) * self.repeats

    def _repeat_elements(
        self, coords: list[IntArray], elements: IntArray | None, m: int
    ) -> tuple[tuple[IntArray, ...], IntArray | None]:
        """Repeat elements along broadcast axes."""
        for number, axis in enumerate(self.axes):
            if isinstance(axis, NewAxis) and axis.length > 1 and m:
                nbytes = 8 * m * axis.length * (len(coords) + 1)
                what = f"{m} elements of an operand of shape {self.base_shape}, each repeated {axis.length} times"
                way = "to_numpy() of that operand lets NumPy broadcast it; take a smaller view"
                memory.check(nbytes, f"{what} to shape {self.shape},", way)
                repeated = np.repeat(np.arange(m), axis.length)
                coords = [column[repeated] for column in coords]
                coords[number] = np.tile(np.arange(axis.length), m)
                elements = repeated if elements is None else elements[repeated]
                m *= axis.length
        return tuple(coords), elements

    def _find_inside(self, coords: Sequence[IntArray]) -> IntArray | None:
        """Return positions inside fixed coordinates and ranges; None for all."""
        if self.size == 0:
            return np.zeros(0, dtype=np.int64)
        inside: NDArray[np.bool_] | None = None

        def narrow(test: NDArray[np.bool_]) -> None:
            nonlocal inside
            inside = test if inside is None else inside & test

        for dim, coordinate in self.fixed:
            narrow(coords[dim] == coordinate)
        for axis in self.axes:
            if isinstance(axis, RangeAxis):
                low, high = sorted((axis.start, axis.start + axis.step * (axis.length - 1)))
                if low > 0:
                    narrow(coords[axis.dim] >= low)
                if high < self.base_shape[axis.dim] - 1:
                    narrow(coords[axis.dim] <= high)
                if abs(axis.step) > 1:
                    narrow((coords[axis.dim] - low) % abs(axis.step) == 0)
        if inside is None or bool(inside.all()):
            return None
        return np.flatnonzero(inside)

    def preserves_order(self, order: Sequence[int]) -> bool:
        """Return whether elements sorted by ``order`` are sorted and unique in the view."""
        if self.fixed:
            fixed = [dim for dim, _ in self.fixed]
            order = [dim for dim in order if dim not in fixed]
        return self._ascending_dims == tuple(order)

    @_cached_attribute
    def _ascending_dims(self) -> tuple[int, ...] | None:
        """Dimensions of the axes; None with reversed, list or broadcast axes."""
        own = [axis for axis in self.axes if isinstance(axis, RangeAxis)]
        if self.points or self.repeats > 1 or any(axis.step < 0 for axis in own):
            return None
        return tuple([axis.dim for axis in own])
