"""Products with matrices whose entries are all alike: where they are is all that is read."""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit import njit

__all__ = ["sum_rows"]

_ONE, _TWO, _THREE, _FOUR = (np.uint64(k) for k in (1, 2, 3, 4))


@njit(cache=True, nogil=True)
def sum_rows(indptr, indices, x, y):  # type: ignore[no-untyped-def]
    """Sum cells: ``y[i] = sum(x[indices[k]])`` for the entries of row i, in four partial sums.

    Parameters
    ----------
    indptr
        Shape (m + 1,): row i has the entries from ``indptr[i] - indptr[0]`` up to ``indptr[i + 1] - indptr[0]``.
    indices
        Shape (n,), the columns of the entries of these rows; they lie within ``x``.
    x, y
        Shapes (k,) and (m,); ``y`` is overwritten.
    """
    base, zero = indptr[0], y.dtype.type(0)
    for i in range(len(y)):
        # Unsigned positions spare the question whether they count from the end.
        k, stop = np.uint64(indptr[i] - base), np.uint64(indptr[i + 1] - base)
        a0 = a1 = a2 = a3 = zero
        while k + _FOUR <= stop:
            a0 += x[np.uint64(indices[k])]
            a1 += x[np.uint64(indices[k + _ONE])]
            a2 += x[np.uint64(indices[k + _TWO])]
            a3 += x[np.uint64(indices[k + _THREE])]
            k += _FOUR
        while k < stop:
            a0 += x[np.uint64(indices[k])]
            k += _ONE
        y[i] = (a0 + a1) + (a2 + a3)
