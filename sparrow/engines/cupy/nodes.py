"""Tables of the nodes supported on a device: builders and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparrow.engines.cupy import functions, products, reductions
from sparrow.engines.cupy.elementwise import build_map
from sparrow.engines.cupy.tiles import Builder
from sparrow.plan import Contraction, Map, Reduce

__all__ = ["BUILDERS", "UNSUPPORTED_REASONS"]

BUILDERS: dict[type[Any], Builder] = {
    Contraction: products.build_product,
    Map: build_map,
    Reduce: reductions.build_reduction,
}
"""Builders of physical operators by node type."""

UNSUPPORTED_REASONS: dict[type[Any], Callable[[Any], str | None]] = {
    Contraction: products.unsupported_reason,
    Map: functions.unsupported_reason,
    Reduce: reductions.unsupported_reason,
}
"""Functions that return why a node is not supported, None if it is."""
