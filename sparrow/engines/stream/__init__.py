"""Stream engine: physical operators over chunks, decoded on threads.

``planner`` lowers a plan to the operators of ``elementwise``, ``structural``, ``reductions``, ``batched`` and
``product``; ``cursors`` and ``scan_reader`` read them.
"""

from __future__ import annotations

from sparrow.engines.stream.engine import Stream
from sparrow.engines.stream.planner import lower

__all__ = ["Stream", "lower"]
