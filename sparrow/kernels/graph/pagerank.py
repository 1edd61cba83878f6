"""Node update of a PageRank iteration, after its matrix product."""

from __future__ import annotations

import math

import numpy as np

from sparrow.kernels.jit.compiler import njit

__all__ = ["finish_iteration"]


@njit(cache=True, nogil=True)
def finish_iteration(ranks, previous, teleport, teleport_mass, dangling, dangling_mass, inverse_degree, out):  # type: ignore[no-untyped-def]
    """Add teleport and dangling mass to the ranks, and scale them by out-degree.

    Parameters
    ----------
    ranks, previous
        Ranks of this iteration, updated, and of the previous one, shape (nodes,).
    teleport, dangling
        Teleport and dangling distributions, shape (nodes,), or (1,) if uniform.
    teleport_mass, dangling_mass
        Teleport mass and dangling mass.
    inverse_degree
        Inverse of the weighted out-degree, shape (nodes,); 0 for nodes without out-edges.
    out
        Receives ``ranks * inverse_degree``, shape (nodes,).

    Returns
    -------
    change, dangling_rank
        L1 norm of the change of the ranks, and total rank of nodes without out-edges.
    """
    change = dangling_rank = 0.0
    teleport_step, dangling_step = np.int64(len(teleport) > 1), np.int64(len(dangling) > 1)
    for k in range(len(ranks)):
        rank = ranks[k] + (teleport_mass * teleport[k * teleport_step] + dangling_mass * dangling[k * dangling_step])
        change += math.fabs(rank - previous[k])
        dangling_rank += rank if inverse_degree[k] == 0.0 else 0.0
        ranks[k] = rank
        out[k] = rank * inverse_degree[k]
    return change, dangling_rank
