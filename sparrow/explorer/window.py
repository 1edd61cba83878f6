"""Window: the part of a tensor that a page looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparrow.errors import InvalidValueError
from sparrow.plan import Scan
from sparrow.tensor import Tensor

__all__ = ["Window"]


@dataclass(frozen=True)
class Window:
    """Ranges of one or two axes of a tensor; other axes are fixed or summed.

    Examples
    --------
    >>> window = Window.parse({"axes": [0, 2], "ranges": [[0, 5], [2, 3]], "fixed": {"1": 7}}, (10, 10, 10))
    >>> window.key(3)
    (slice(0, 5, None), 7, slice(2, 3, None))
    >>> window.places
    (0, 1)
    """

    axes: tuple[int, ...]
    """The vertical and the horizontal axis, or the axis of a vector."""
    ranges: tuple[tuple[int, int], ...]
    """First position and end of each of them."""
    fixed: tuple[tuple[int, int], ...] = ()
    """Pairs (axis, position) of axes that are fixed, ascending."""

    @classmethod
    def parse(cls, given: Any, shape: Sequence[int]) -> Window:
        """Return the window that a request describes, clipped to the shape.

        Raises
        ------
        InvalidValueError
            If it does not fit a tensor of this shape.
        """
        ndim = len(shape)
        given = given if isinstance(given, Mapping) else {}
        default = (0,) if ndim == 1 else (0, ndim - 1)
        axes = tuple(_integer("axes", axis, 0, ndim - 1) for axis in _list("axes", given.get("axes", default)))
        if len(axes) != min(ndim, 2) or len(set(axes)) != len(axes):
            raise InvalidValueError(f"axes must be {min(ndim, 2)} different axes of the tensor, got {list(axes)}")
        asked = _list("ranges", given.get("ranges", [[0, shape[axis]] for axis in axes]))
        if len(asked) != len(axes):
            raise InvalidValueError(f"ranges must be one pair for each axis, got {asked!r}")
        fixed = given.get("fixed", {})
        if not isinstance(fixed, Mapping):
            raise InvalidValueError(f"fixed must be an object of positions by axis, got {fixed!r}")
        places = {}
        for name, place in fixed.items():
            axis = _integer("fixed", name, 0, ndim - 1)
            if axis in axes:
                raise InvalidValueError(f"axis {axis} must be fixed or shown, not both")
            places[axis] = _integer("fixed", place, 0, shape[axis] - 1)
        ranges = tuple(_range(pair, shape[axis]) for pair, axis in zip(asked, axes, strict=True))
        return cls(axes, ranges, tuple(sorted(places.items())))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of positions along each axis."""
        return tuple(stop - start for start, stop in self.ranges)

    @property
    def places(self) -> tuple[int, ...]:
        """Numbers of the axes in the part of the tensor."""
        return tuple(axis - sum(fixed < axis for fixed, _ in self.fixed) for axis in self.axes)

    def key(self, ndim: int) -> tuple[Any, ...]:
        """Return the index of the part of a tensor."""
        out: list[Any] = [slice(None)] * ndim
        for axis, (start, stop) in zip(self.axes, self.ranges, strict=True):
            out[axis] = slice(start, stop)
        for axis, place in self.fixed:
            out[axis] = place
        return tuple(out)

    def part(self, tensor: Tensor) -> Tensor:
        """Return the view of the window; axes that are summed are kept."""
        found: Tensor = tensor[self.key(tensor.ndim)]
        return found

    def scan(self, tensor: Tensor) -> Scan:
        """Return the scan of the window."""
        return self.part(tensor).__sparrow_scan__()

    def code(self, name: str, shape: Sequence[int]) -> str:
        """Return the window as Python code.

        Examples
        --------
        >>> Window((0, 1), ((0, 10), (2, 3))).code("web", (10, 10))
        'web[:, 2:3]'
        """
        texts = [
            str(at) if isinstance(at, int) else _slice_text(at, n)
            for at, n in zip(self.key(len(shape)), shape, strict=True)
        ]
        while texts and texts[-1] == ":":
            texts.pop()
        return f"{name}[{', '.join(texts)}]" if texts else name


def _slice_text(part: slice, size: int) -> str:
    start = "" if part.start in (None, 0) else str(part.start)
    stop = "" if part.stop in (None, size) else str(part.stop)
    return f"{start}:{stop}"


def _list(name: str, given: Any) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        raise InvalidValueError(f"{name} must be a list, got {given!r}")
    return given


def _integer(name: str, given: Any, low: int, high: int) -> int:
    """Return an integer of a request within bounds, both included."""
    try:
        found = int(given) if isinstance(given, int | float | str) else None
    except (ValueError, OverflowError):
        found = None
    if found is None or not low <= found <= high:
        raise InvalidValueError(f"{name} must be an integer from {low} to {high}, got {given!r}")
    return found


def _range(pair: Any, size: int) -> tuple[int, int]:
    """Return a range of at least one position within a size, if it has any."""
    pair = _list("a range", pair)
    if len(pair) != 2:
        raise InvalidValueError(f"a range must be a pair, got {pair!r}")
    bound = 1 << 63
    start, stop = (_integer("a range", value, -bound, bound) for value in pair)
    start = min(max(start, 0), max(size - 1, 0))
    return start, min(max(stop, start + 1), size)
