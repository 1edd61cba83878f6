"""Runs of entries that stand together: where they begin, how long they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["group_starts", "run_lengths"]

_FEW = 1 << 12
"""Entries up to which NumPy alone is as fast as a compiled loop."""


def group_starts(columns: Sequence[NDArray[Any]], count: int) -> NDArray[np.int64]:
    """Return where runs of entries with equal coordinates begin; without columns all ``count`` entries are one run."""
    if not count:
        return np.zeros(0, np.int64)
    if len(columns) == 1 and count >= _FEW:
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.scatter import run_starts

        return np.asarray(run_starts(as_readonly(columns[0])))
    fresh = np.zeros(count, bool)
    fresh[0] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh.nonzero()[0]


def run_lengths(starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the lengths of runs that begin at ``starts``, of ``count`` entries in all."""
    out = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=out[:-1])
    if len(out):
        out[-1] = count - starts[-1]
    return out
