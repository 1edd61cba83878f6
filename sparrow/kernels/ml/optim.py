"""Optimizer updates of single weights and of rows of weights.

``step`` defines every optimizer. All loops call it, so fused epochs and single updates give the same bits, and rows are
independent. ``constants`` is an array in the order of the names below; ``rate`` is the learning rate of the step,
including the bias corrections of Adam.
"""

from __future__ import annotations

import math

import numpy as np

from sparrow.kernels.jit.compiler import njit

__all__ = [
    "ADAGRAD",
    "ADAM",
    "DENSE",
    "EVERYWHERE",
    "FTRL",
    "LISTED",
    "MOMENTUM",
    "NESTEROV",
    "SGD",
    "step",
    "step_arrays",
    "step_chunks",
    "update",
]  # fmt: skip

SGD, MOMENTUM, NESTEROV, ADAM, ADAGRAD, FTRL = range(6)
LISTED, EVERYWHERE, DENSE = range(3)
"""Update listed rows only; all rows, unlisted ones with gradient 0; or all rows of a dense gradient."""
_RESCALE, _CLIP, _DECAY, _L1, _FIRST, _SECOND, _EPSILON = range(7)
_ZERO = np.int64(0)
_SGD, _MOMENTUM, _ADAM, _ADAGRAD = np.int64(SGD), np.int64(MOMENTUM), np.int64(ADAM), np.int64(ADAGRAD)
"""Typed constants: Numba compiles a function once more for each literal."""


@njit(cache=True, nogil=True, error_model="numpy")
def step(kind, x, a, b, g, rate, constants):  # type: ignore[no-untyped-def]
    """Return a weight and its two states after an update with gradient ``g``."""
    decay, l1, first = constants[_DECAY], constants[_L1], constants[_FIRST]
    g *= constants[_RESCALE]
    if kind == ADAM:
        g += decay * x
    g = min(max(g, -constants[_CLIP]), constants[_CLIP])
    reach = rate
    if kind <= NESTEROV:
        u = rate * (g + decay * x)
        if kind == SGD:
            x -= u
        else:
            a = first * a + u
            x -= a if kind == MOMENTUM else first * a + u
    elif kind == ADAGRAD:
        a += g * g
        reach = rate / math.sqrt(a + constants[_EPSILON])
        x -= reach * g + rate * decay * x
    elif kind == ADAM:
        a = first * a + (1.0 - first) * g
        b = constants[_SECOND] * b + (1.0 - constants[_SECOND]) * g * g
        reach = rate / (math.sqrt(b) + constants[_EPSILON])
        x -= reach * a
    else:
        root = math.sqrt(b + g * g)
        a += g - (root - math.sqrt(b)) / rate * x
        b += g * g
        if abs(a) <= l1:
            return 0.0, a, b
        return (math.copysign(l1, a) - a) / ((first + root) / rate + decay), a, b
    if l1 > 0.0:
        x = math.copysign(max(abs(x) - reach * l1, 0.0), x)
    return x, a, b


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def step_arrays(kind, xs, a, b, gradient, rate, constants):  # type: ignore[no-untyped-def]
    """Update arrays of weights; states that the optimizer lacks are dummies."""
    for p in range(len(xs)):
        x, first, second = step(kind, float(xs[p]), float(a[p]), float(b[p]), float(gradient[p]), rate, constants)
        xs[p] = x
        a[p] = first
        b[p] = second


@njit(cache=True, nogil=True, error_model="numpy")
def step_chunks(kind, xs, a, b, gradient, rate, constants):  # type: ignore[no-untyped-def]
    """Update large arrays of weights; see :func:`step_arrays`.

    Specialized loops vectorize, which is two to five times faster but costs compile time; only common optimizers have
    one.
    """
    if kind == SGD:
        step_arrays(_SGD, xs, a, b, gradient, rate, constants)
    elif kind == MOMENTUM:
        step_arrays(_MOMENTUM, xs, a, b, gradient, rate, constants)
    elif kind == ADAGRAD:
        step_arrays(_ADAGRAD, xs, a, b, gradient, rate, constants)
    elif kind == ADAM:
        step_arrays(_ADAM, xs, a, b, gradient, rate, constants)
    else:
        step_arrays(kind, xs, a, b, gradient, rate, constants)


@njit(cache=True, nogil=True, error_model="numpy")
def update(mode, kind, w, a, b, rows, gradient, rate, constants):  # type: ignore[no-untyped-def]
    """Update rows of weights and optimizer states.

    Parameters
    ----------
    mode
        ``LISTED``, ``EVERYWHERE`` or ``DENSE``.
    w, a, b
        Weights and states, shape (n, k); states that the optimizer lacks have shape (0, 0).
    rows
        Rows of the gradient, ascending; ignored if ``DENSE``.
    gradient
        Gradient of row ``rows[p]``, or of row p if ``DENSE``, in ``gradient[p]``.
    """
    p = _ZERO
    for q in range(len(rows) if mode == LISTED else len(w)):
        i = rows[q] if mode == LISTED else q
        listed = mode != EVERYWHERE or (p < len(rows) and rows[p] == i)
        for k in range(w.shape[1]):
            first = a[i, k] if len(a) else w[i, k]
            second = b[i, k] if len(b) else w[i, k]
            g = gradient[p, k] if listed else 0.0
            x, first, second = step(kind, w[i, k], first, second, g, rate, constants)
            w[i, k] = x
            if len(a):
                a[i, k] = first
            if len(b):
                b[i, k] = second
        if listed:
            p += 1
