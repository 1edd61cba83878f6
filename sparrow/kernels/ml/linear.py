"""Linear models and factorization machines (Rendle 2010): scores and SGD.

Rows are CSR: ``data`` in the dtype of the weights, ``indices``, ``indptr``. Weights of a linear model are
``w[column, output]``; those of a factorization machine are ``w[column, 0]`` and factors ``w[column, 1:]``. ``bias`` has
shape (1, outputs), so that it is updated like a row of weights. Targets are numbers for ``SQUARED``, and class indices
for the other losses: 0 or 1 with one output.

The columns of a mini-batch are gathered into adjacent arrays that stay in cache, where scores, the mean gradient and
the update are computed. All sums run in the order of the elements, on one thread.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.ml.optim import step_arrays, step_chunks

__all__ = ["HINGE", "LOGISTIC", "SOFTMAX", "SQUARED", "losses", "scores", "train"]

SQUARED, LOGISTIC, SOFTMAX, HINGE = range(4)
_ZERO = np.int64(0)


@njit(cache=True, nogil=True, error_model="numpy")
def _slopes(loss, out, target):  # type: ignore[no-untyped-def]
    """Return the loss of scores and replace them by its derivatives."""
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
    """Write the scores of a row to ``out``, and its factor sums to ``inner``."""
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
    """Add weighted losses and weights to ``totals``; ``found`` is overwritten."""
    for i in range(len(found)):
        if weights[i] != 0.0:
            totals[0] += weights[i] * _slopes(loss, found[i], targets[i])
            totals[1] += weights[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(rows, columns, near):  # type: ignore[no-untyped-def]
    if rows.shape[1] == 1:
        for p in range(len(columns)):
            near[p, 0] = rows[columns[p], 0]
    else:
        for p in range(len(columns)):
            for k in range(rows.shape[1]):
                near[p, k] = rows[columns[p], k]


@njit(cache=True, nogil=True, error_model="numpy")
def _scatter(rows, columns, near):  # type: ignore[no-untyped-def]
    if rows.shape[1] == 1:
        for p in range(len(columns)):
            rows[columns[p], 0] = near[p, 0]
    else:
        for p in range(len(columns)):
            for k in range(rows.shape[1]):
                rows[columns[p], k] = near[p, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _gather_all(w, a, b, columns, near, near_a, near_b):  # type: ignore[no-untyped-def]
    """Gather rows of weights and optimizer states; missing states are skipped."""
    _gather(w, columns, near)
    if len(a):
        _gather(a, columns, near_a)
    if len(b):
        _gather(b, columns, near_b)


@njit(cache=True, nogil=True, error_model="numpy")
def _scatter_all(w, a, b, columns, near, near_a, near_b):  # type: ignore[no-untyped-def]
    """Scatter rows of weights and states back."""
    _scatter(w, columns, near)
    if len(a):
        _scatter(a, columns, near_a)
    if len(b):
        _scatter(b, columns, near_b)


@njit(cache=True, nogil=True, error_model="numpy")
def train(  # type: ignore[no-untyped-def]
    data, indices, indptr, targets, weights, batch, loss, factors, w, a, b, bias, bias_a, bias_b, with_bias, kind,
    everywhere, rates, constants, for_bias, slots, totals,
):  # fmt: skip
    """Run one update per mini-batch of ``batch`` rows; return the number of updates.

    Stops before the update of a mini-batch whose loss is not finite.

    Parameters
    ----------
    weights
        Row weights; rows of weight 0 are ignored.
    factors
        Number of factors of a factorization machine; 0 for a linear model.
    everywhere
        Whether to update columns without elements in the mini-batch too.
    rates
        Learning rate of each mini-batch.
    constants, for_bias
        Constants of the optimizer, for ``w`` and for ``bias``.
    slots
        Sparse set of the columns of a mini-batch, shape (columns,), uninitialized (Briggs and Torczon 1993). Column j
        has the position ``slots[j]`` if that is below the size of the set and holds j.
    totals
        Sums of weighted losses and of weights; updated row by row, so they do not depend on the size of chunks.
    """
    outputs, width = bias.shape[1], w.shape[1]
    out, inner = np.zeros(outputs), np.zeros(max(factors, 1))
    slope_of_bias, spare = np.zeros(outputs), np.zeros((2, outputs), bias.dtype)
    height = len(indptr) - 1
    most: Any = _ZERO
    for head in range(0, height, batch):
        most = max(most, indptr[min(head + batch, height)] - indptr[head])
    places = np.empty(most, np.uint32)
    room: Any = len(w) if everywhere else min(most, len(w))
    touched = np.empty(room + 1, np.uint32)
    # Fresh arrays cannot alias w, which makes the loops a third faster.
    sums = np.empty((room, width), w.dtype)
    flat = sums.reshape(-1)
    near = np.empty((room, width), w.dtype)
    near_a = np.zeros((room, width), w.dtype)
    near_b = np.zeros((room, width), w.dtype)
    count: Any = _ZERO
    if everywhere:
        count = room
        for column in range(room):
            touched[column] = column
        _gather_all(w, a, b, touched[:count], near, near_a, near_b)
    done = _ZERO
    first = _ZERO
    while first < height:
        last = min(first + batch, height)
        begin = indptr[first]
        counted: Any = _ZERO
        count = count if everywhere else _ZERO
        for i in range(first, last):
            if weights[i] == 0.0:
                continue
            counted += 1
            if everywhere:
                for e in range(indptr[i], indptr[i + 1]):
                    places[e - begin] = indices[e]
                continue
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                p = np.int64(slots[j])
                new = (p >= count) | (touched[min(p, count)] != j)
                p = count if new else p
                count += new
                slots[j] = p
                touched[p] = j
                places[e - begin] = p
        if not everywhere:
            _gather_all(w, a, b, touched[:count], near, near_a, near_b)
        for cell in range(count * width):
            flat[cell] = 0.0
        scale = 1.0 / counted if counted else 0.0
        total = totals[0]
        for k in range(outputs):
            slope_of_bias[k] = 0.0
        for i in range(first, last):
            if weights[i] == 0.0:
                continue
            row, at = data[indptr[i] : indptr[i + 1]], places[indptr[i] - begin : indptr[i + 1] - begin]
            _score(row, at, 0, len(at), near, bias, factors, inner, out)
            total += weights[i] * _slopes(loss, out, targets[i])
            totals[1] += weights[i]
            for k in range(outputs):
                out[k] *= weights[i] * scale
                slope_of_bias[k] += out[k]
            if width == 1:
                slope = out[0]
                for e in range(len(at)):
                    sums[at[e], 0] += slope * row[e]
            elif factors == 0:
                for e in range(len(at)):
                    x, p = row[e], at[e]
                    for k in range(width):
                        sums[p, k] += out[k] * x
            else:
                for e in range(len(at)):
                    x, p = row[e], at[e]
                    slope = out[0] * x
                    sums[p, 0] += slope
                    for f in range(factors):
                        sums[p, f + 1] += slope * (inner[f] - x * near[p, f + 1])
        if not math.isfinite(total):
            break
        totals[0] = total
        rate = rates[done]
        step_chunks(
            kind, near[:count].reshape(-1), near_a[:count].reshape(-1), near_b[:count].reshape(-1),
            sums[:count].reshape(-1), rate, constants,
        )  # fmt: skip
        if not everywhere:
            _scatter_all(w, a, b, touched[:count], near, near_a, near_b)
        if with_bias:
            step_arrays(
                kind, bias[0], bias_a[0] if len(bias_a) else spare[0], bias_b[0] if len(bias_b) else spare[1],
                slope_of_bias, rate, for_bias,
            )  # fmt: skip
        done += 1
        first = last
    if everywhere:
        _scatter_all(w, a, b, touched[:count], near, near_a, near_b)
    return done
