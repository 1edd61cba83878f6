"""PageRank iteration apart from its matrix product, in one pass over the nodes."""

from __future__ import annotations

import math

import numpy as np

from sparrow.kernels.jit.compiler import njit

__all__ = ["finish_iteration"]


@njit(cache=True, nogil=True)
def finish_iteration(ranks, before, jump, jumps, lost, stray, share, out):  # type: ignore[no-untyped-def]
    """Add teleport and dangling mass to the ranks, and divide them among the edges of the next iteration.

    Parameters
    ----------
    ranks, before
        Of this round and the last, shape (nodes,).
    jump, lost
        Where one jumps to, and where one goes from a node without links: shape (nodes,), or (1,) where all are alike.
    jumps, stray
        How much jumps, and how much leaves nodes without links.
    share
        What a node gives along a link of weight 1, of its rank; 0 of one without links.
    out
        What each gives in the next round is written here, shape (nodes,).

    Returns
    -------
    float, float
        How much all ranks have changed together, and the ranks of nodes without links.
    """
    change = stay = 0.0
    each, every = np.int64(len(jump) > 1), np.int64(len(lost) > 1)
    for k in range(len(ranks)):
        rank = ranks[k] + (jumps * jump[k * each] + stray * lost[k * every])
        change += math.fabs(rank - before[k])
        stay += rank if share[k] == 0.0 else 0.0
        ranks[k] = rank
        out[k] = rank * share[k]
    return change, stay
