"""Axes of a view: ranges of a base dimension, new axes, and axes of point groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Axis", "ListAxis", "NewAxis", "RangeAxis", "range_axis"]


@dataclass(frozen=True, slots=True)
class RangeAxis:
    """Axis over a base dimension: ``base = start + step * position``."""

    dim: int
    start: int
    step: int
    length: int


@dataclass(frozen=True, slots=True)
class NewAxis:
    """Axis without a base dimension: of length 1 unless it is broadcast."""

    length: int = 1


@dataclass(frozen=True, slots=True)
class ListAxis:
    """Axis ``position`` of the coordinate arrays of ``View.points[group]``."""

    group: int
    position: int
    length: int


Axis: TypeAlias = RangeAxis | NewAxis | ListAxis


def range_axis(dim: int, start: int, step: int, length: int) -> RangeAxis:
    """Return a canonical axis: axes over the same positions compare equal."""
    if length == 0:
        return RangeAxis(dim, 0, 1, 0)
    return RangeAxis(dim, start, step if length > 1 else 1, length)
