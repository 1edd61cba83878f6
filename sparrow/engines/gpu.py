"""Primitives of the GPU engine for other packages; imported by whoever computes on a device."""

from __future__ import annotations

from sparrow.engines.cupy import solves
from sparrow.engines.cupy.device import Device
from sparrow.engines.cupy.tiles import halved

__all__ = ["Device", "halved", "solves"]
