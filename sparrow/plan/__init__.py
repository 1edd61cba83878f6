"""Plans: what is to be computed, as a tree of frozen nodes. No I/O happens here."""

from __future__ import annotations

from sparrow.plan.nodes import Contract, Dense, Node, Scan

__all__ = ["Contract", "Dense", "Node", "Scan"]
