"""The tables of the nodes that are computed on a device: when one is declined, and what computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparrow.engines.cupy import functions, products, reductions
from sparrow.engines.cupy.cells import mapped
from sparrow.engines.cupy.tiles import Builder
from sparrow.plan import Map, MatMulDense, Product, Reduce

__all__ = ["BUILDERS", "DECLINES"]

BUILDERS: dict[type[Any], Builder] = {Map: mapped, Product: products.multiplied, Reduce: reductions.reduced}
"""What computes the entries of each kind of step."""

DECLINES: dict[type[Any], Callable[[Any], str | None]] = {
    Map: functions.unsupported_reason,
    Product: products.product_declines,
    Reduce: reductions.unsupported_reason,
    MatMulDense: products.contract_declines,
}
"""What says why a node is not computed there, None where it is."""
