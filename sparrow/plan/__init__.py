"""Plans: what is to be computed, as a tree of frozen nodes. No I/O happens here."""

from __future__ import annotations

from sparrow.plan.functions import Cast, Clip, Round, function_name
from sparrow.plan.nodes import Concat, Contract, Dense, Diagonal, Map, Node, Reduce, Reshape, Scan, Step, Triangle
from sparrow.plan.rewrites import narrowed, operands_of, split_view

__all__ = [
    "Cast", "Clip", "Concat", "Contract", "Dense", "Diagonal", "Map", "Node", "Reduce", "Reshape", "Round", "Scan",
    "Step", "Triangle", "function_name", "narrowed", "operands_of", "split_view",
]  # fmt: skip
