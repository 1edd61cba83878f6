"""The loops of linear models and factorisation machines: scores of rows, and stochastic gradient descent over them.

Rows come as CSR: ``data`` in the type of the weights, ``indices``, ``indptr``. The weights of a linear model are
``w[column, output]``; those of a factorisation machine ``w[column, 0]`` and the factors ``w[column, 1:]``. ``bias`` has
shape (1, outputs), so that it is updated as a row of weights is. Targets are numbers for ``SQUARED``, for the other
losses the number of the class: with one output 0 or 1.

The gradient of a batch is the mean over its rows, in ``sums``: row j of it holds where ``stamps[j]`` is the number of
the batch, which is how the columns of a batch are told without clearing anything. Every sum runs in the order of the
entries, on one thread.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sparrow.kernels.optim import step

__all__ = ["HINGE", "LOGISTIC", "SOFTMAX", "SQUARED", "losses", "scores", "train"]

SQUARED, LOGISTIC, SOFTMAX, HINGE = range(4)
_ZERO = np.int64(0)


@njit(cache=True, nogil=True, error_model="numpy")
def _slopes(loss, out, target):  # type: ignore[no-untyped-def]
    """Return the loss of a row's scores and put its derivatives in their place."""
    if loss == SQUARED:
        out[0] -= target
        return 0.5 * out[0] * out[0]
    if loss == LOGISTIC:
        sign = 1.0 if target > 0.5 else -1.0
        margin = sign * out[0]
        small = math.exp(-abs(margin))
        out[0] = -sign * (small if margin > 0.0 else 1.0) / (1.0 + small)
        return math.log1p(small) + max(-margin, 0.0)
    if loss == SOFTMAX:
        top, total = out[0], 0.0
        for k in range(1, len(out)):
            top = max(top, out[k])
        for k in range(len(out)):
            total += math.exp(out[k] - top)
        found = math.log(total) + top - out[int(target)]
        for k in range(len(out)):
            out[k] = math.exp(out[k] - top) / total - (1.0 if k == int(target) else 0.0)
        return found
    found = 0.0
    for k in range(len(out)):
        sign = 1.0 if (target > 0.5 if len(out) == 1 else k == int(target)) else -1.0
        margin = 1.0 - sign * out[k]
        found += max(margin, 0.0)
        out[k] = -sign if margin > 0.0 else 0.0
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _score(data, indices, start, stop, w, bias, factors, inner, out):  # type: ignore[no-untyped-def]
    """Write the scores of a row to ``out``, and the sums of its factors, which the gradient wants too, to ``inner``."""
    for k in range(len(out)):
        out[k] = bias[0, k]
    if factors == 0 and len(out) == 1:
        total = out[0]
        for e in range(start, stop):
            total += data[e] * w[indices[e], 0]
        out[0] = total
        return
    if factors == 0:
        for e in range(start, stop):
            x, j = data[e], indices[e]
            for k in range(len(out)):
                out[k] += x * w[j, k]
        return
    linear, squares = 0.0, 0.0
    for f in range(factors):
        inner[f] = 0.0
    for e in range(start, stop):
        x, j = data[e], indices[e]
        linear += x * w[j, 0]
        for f in range(factors):
            term = x * w[j, f + 1]
            inner[f] += term
            squares += term * term
    for f in range(factors):
        linear += 0.5 * inner[f] * inner[f]
    out[0] += linear - 0.5 * squares


@njit(cache=True, nogil=True, error_model="numpy")
def scores(data, indices, indptr, w, bias, factors, found):  # type: ignore[no-untyped-def]
    """Write the scores of rows to ``found``, shape (rows, outputs)."""
    inner = np.zeros(max(factors, 1))
    for i in range(len(indptr) - 1):
        _score(data, indices, indptr[i], indptr[i + 1], w, bias, factors, inner, found[i])


@njit(cache=True, nogil=True, error_model="numpy")
def losses(loss, found, targets, weights, totals):  # type: ignore[no-untyped-def]
    """Add weighted losses of scores, which are overwritten, and weights to the sums in ``totals``."""
    for i in range(len(found)):
        if weights[i] != 0.0:
            totals[0] += weights[i] * _slopes(loss, found[i], targets[i])
            totals[1] += weights[i]


@njit(cache=True, nogil=True, error_model="numpy")
def train(  # type: ignore[no-untyped-def]
    data, indices, indptr, targets, weights, batch, loss, factors, w, a, b, bias, bias_a, bias_b, with_bias, kind,
    everywhere, rates, constants, for_bias, sums, stamps, touched, number, totals,
):  # fmt: skip
    """Update the weights once for each ``batch`` rows; return how many batches were done.

    A batch whose loss is not finite ends it before its update.

    Parameters
    ----------
    weights
        Of the rows; one of weight 0 is no row of its batch.
    factors
        Of a factorisation machine; 0 for a linear model.
    everywhere
        Whether columns that no row of the batch has are updated too.
    rates
        The learning rate of each batch.
    constants, for_bias
        Of the optimiser, for ``w`` and for ``bias``.
    sums, stamps, touched
        Room: shapes of ``w``, (columns,), (columns,). ``stamps`` holds no number from ``number`` on.
    number
        Of the first batch.
    totals
        The sums of weighted losses and of weights go on here, so that neither depends on how rows are handed over.
    """
    outputs, width = bias.shape[1], w.shape[1]
    out, inner = np.zeros(outputs), np.zeros(max(factors, 1))
    slope_of_bias = np.zeros(outputs)
    height = len(indptr) - 1
    done = _ZERO
    first = _ZERO
    while first < height:
        last = min(first + batch, height)
        counted = _ZERO
        for i in range(first, last):
            counted += weights[i] != 0.0
        scale = 1.0 / counted if counted else 0.0
        now, rate = number + done, rates[done]
        count = _ZERO
        total = totals[0]
        for k in range(outputs):
            slope_of_bias[k] = 0.0
        for i in range(first, last):
            if weights[i] == 0.0:
                continue
            start, stop = indptr[i], indptr[i + 1]
            _score(data, indices, start, stop, w, bias, factors, inner, out)
            total += weights[i] * _slopes(loss, out, targets[i])
            totals[1] += weights[i]
            for k in range(outputs):
                out[k] *= weights[i] * scale
                slope_of_bias[k] += out[k]
            for e in range(start, stop):
                x, j = data[e], indices[e]
                if stamps[j] != now:
                    stamps[j] = now
                    touched[count] = j
                    count += 1
                    for k in range(width):
                        sums[j, k] = 0.0
                if width == 1:
                    sums[j, 0] += out[0] * x
                elif factors == 0:
                    for k in range(width):
                        sums[j, k] += out[k] * x
                else:
                    slope = out[0] * x
                    sums[j, 0] += slope
                    for f in range(factors):
                        sums[j, f + 1] += slope * (inner[f] - x * w[j, f + 1])
        if not math.isfinite(total):
            return done
        totals[0] = total
        for q in range(len(w) if everywhere else count):
            j = q if everywhere else touched[q]
            seen = stamps[j] == now
            for k in range(width):
                g = sums[j, k] if seen else 0.0
                first_state = a[j, k] if len(a) else 0.0
                second_state = b[j, k] if len(b) else 0.0
                x, first_state, second_state = step(
                    kind, float(w[j, k]), float(first_state), float(second_state), float(g), rate, constants
                )
                w[j, k] = x
                if len(a):
                    a[j, k] = first_state
                if len(b):
                    b[j, k] = second_state
        if with_bias:
            for k in range(outputs):
                first_state = bias_a[0, k] if len(bias_a) else 0.0
                second_state = bias_b[0, k] if len(bias_b) else 0.0
                x, first_state, second_state = step(
                    kind, float(bias[0, k]), float(first_state), float(second_state), slope_of_bias[k], rate, for_bias
                )
                bias[0, k] = x
                if len(bias_a):
                    bias_a[0, k] = first_state
                if len(bias_b):
                    bias_b[0, k] = second_state
        done += 1
        first = last
    return done
