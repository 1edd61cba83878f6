"""The stream engine: chunks decoded on threads, straight into arrays and compiled loops. It takes every node.

``lowering`` turns a plan into relations that are computed when they are read; ``reading`` reads them. What computes a
kind of step is in the module of its subject: ``elementwise``, ``reductions`` over ``grouping``, ``reshaping``,
``lines``, ``refill``; ``products`` and ``persisted`` multiply.
"""

from __future__ import annotations

from sparrow.engines.stream.engine import Stream
from sparrow.engines.stream.planner import lower

__all__ = ["Stream", "lower"]
