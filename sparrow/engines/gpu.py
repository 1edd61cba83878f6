"""Primitives of the GPU engine for other packages, imported on use."""

from __future__ import annotations

from sparrow.engines.cupy import least_squares
from sparrow.engines.cupy.device import Device
from sparrow.engines.cupy.tiles import map_halving

__all__ = ["Device", "least_squares", "map_halving"]
