"""Runs of elements with equal coordinates: starts and lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.dispatch import prefer_numpy

__all__ = ["group_starts", "run_lengths"]


def group_starts(columns: Sequence[NDArray[Any]], count: int) -> NDArray[np.int64]:
    """Return the start of each run of equal coordinates; no columns mean one run."""
    if not count:
        return np.zeros(0, np.int64)
    if len(columns) == 1 and not prefer_numpy("run_starts", count):
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.scatter import run_starts

        return np.asarray(run_starts(as_readonly(columns[0])))
    fresh = np.zeros(count, bool)
    fresh[0] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh.nonzero()[0]


def run_lengths(starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the lengths of runs of ``count`` elements that begin at ``starts``."""
    out = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=out[:-1])
    if len(out):
        out[-1] = count - starts[-1]
    return out
