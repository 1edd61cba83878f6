"""Engine for several processes and machines: tasks that run the stream engine.

A plan is cut into ranges of its leading axis. Each task gets the plan (:mod:`sparrow.engines.portable_plan`), lowers
its range with the stream engine, and returns elements, or writes files. ``cutting`` chooses the ranges, ``tasks`` is
what runs elsewhere, ``scratch`` the files between, ``schedulers`` the protocol of what starts tasks. ``repeated`` has
the rounds of products of one matrix, and ``row_files`` what they keep.
"""

from __future__ import annotations

from sparrow.engines.cluster.engine import Cluster
from sparrow.engines.cluster.repeated import RepeatedRounds

__all__ = ["Cluster", "RepeatedRounds"]
