"""The axes of a view: a dimension that is walked, none at all, or lists of coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Axis", "Listed", "New", "Range", "range_axis"]


@dataclass(frozen=True, slots=True)
class Range:
    """A view axis that walks one base dimension: ``base = start + step * position``."""

    dim: int
    start: int
    step: int
    length: int


@dataclass(frozen=True, slots=True)
class New:
    """A view axis that no base dimension stands behind: of length 1 from ``None``, longer where it is broadcast."""

    length: int = 1


@dataclass(frozen=True, slots=True)
class Listed:
    """A view axis that is dimension ``position`` of the arrays of ``View.points[group]``."""

    group: int
    position: int
    length: int


Axis: TypeAlias = Range | New | Listed


def range_axis(dim: int, start: int, step: int, length: int) -> Range:
    """Return the canonical axis: equal cells in equal order give equal axes."""
    if length == 0:
        return Range(dim, 0, 1, 0)
    return Range(dim, start, step if length > 1 else 1, length)
