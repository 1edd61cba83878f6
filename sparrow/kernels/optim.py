"""The update of one weight by each optimiser, and the loop over rows of weights.

``step`` is the definition of every optimiser. The loops here and those of models call it, so a fused epoch and single
updates give the same bits, and rows do not depend on one another. ``constants`` is an array in the order of the names
below; ``rate`` is the learning rate of the step, for Adam with the correction of both means in it.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = [
    "ADAGRAD", "ADAM", "DENSE", "EVERYWHERE", "FTRL", "LISTED", "MOMENTUM", "NESTEROV", "SGD", "step", "update",
]  # fmt: skip

SGD, MOMENTUM, NESTEROV, ADAM, ADAGRAD, FTRL = range(6)
LISTED, EVERYWHERE, DENSE = range(3)
"""Rows of the list only; all rows, those without a gradient as if it were 0; all rows of a dense gradient."""
_RESCALE, _CLIP, _DECAY, _L1, _FIRST, _SECOND, _EPSILON = range(7)
_ZERO = np.int64(0)


@njit(cache=True, nogil=True, error_model="numpy")
def step(kind, w, a, b, i, k, gradient, rate, constants):  # type: ignore[no-untyped-def]
    """Update ``w[i, k]`` and its cells of the states ``a`` and ``b``, which a kind without them never looks at."""
    x = w[i, k]
    decay, l1 = constants[_DECAY], constants[_L1]
    g = gradient * constants[_RESCALE]
    if kind == ADAM:
        g += decay * x
    g = min(max(g, -constants[_CLIP]), constants[_CLIP])
    if kind == FTRL:
        before = b[i, k]
        after = before + g * g
        z = a[i, k] + g - (math.sqrt(after) - math.sqrt(before)) / rate * x
        a[i, k], b[i, k] = z, after
        if abs(z) <= l1:
            w[i, k] = 0.0
        else:
            w[i, k] = (math.copysign(l1, z) - z) / ((constants[_FIRST] + math.sqrt(after)) / rate + decay)
        return
    reach = rate
    if kind == ADAM:
        m = constants[_FIRST] * a[i, k] + (1.0 - constants[_FIRST]) * g
        v = constants[_SECOND] * b[i, k] + (1.0 - constants[_SECOND]) * g * g
        a[i, k], b[i, k] = m, v
        reach = rate / (math.sqrt(v) + constants[_EPSILON])
        x -= rate * m / (math.sqrt(v) + constants[_EPSILON])
    elif kind == ADAGRAD:
        h = a[i, k] + g * g
        a[i, k] = h
        reach = rate / math.sqrt(h + constants[_EPSILON])
        x -= rate * g / math.sqrt(h + constants[_EPSILON]) + rate * decay * x
    else:
        u = rate * (g + decay * x)
        if kind == SGD:
            x -= u
        else:
            s = constants[_FIRST] * a[i, k] + u
            a[i, k] = s
            x -= s if kind == MOMENTUM else constants[_FIRST] * s + u
    if l1 > 0.0:
        x = math.copysign(max(abs(x) - reach * l1, 0.0), x)
    w[i, k] = x


@njit(cache=True, nogil=True, error_model="numpy")
def update(mode, kind, w, a, b, rows, gradient, rate, constants):  # type: ignore[no-untyped-def]
    """Update rows of ``w``: ``gradient[p]`` is that of row ``rows[p]``, under ``DENSE`` that of row p.

    Parameters
    ----------
    mode
        ``LISTED``, ``EVERYWHERE`` or ``DENSE``.
    w, a, b
        Shape (n, k); those that the kind does not have, (0, 0).
    rows
        Ascending.
    """
    width = w.shape[1]
    if mode == LISTED:
        for p in range(len(rows)):
            for k in range(width):
                step(kind, w, a, b, rows[p], k, gradient[p, k], rate, constants)
        return
    p = _ZERO
    for i in range(len(w)):
        listed = mode == DENSE or (p < len(rows) and rows[p] == i)
        for k in range(width):
            step(kind, w, a, b, i, k, gradient[p, k] if listed else 0.0, rate, constants)
        if listed:
            p += 1
