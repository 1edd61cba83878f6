"""Broadcasting of shapes and validation of permutations."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from sparrow.errors import ShapeError

__all__ = ["broadcast_shapes", "check_permutation"]


def check_permutation(order: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return a permutation of dimensions with non-negative numbers.

    Raises
    ------
    ShapeError
        If a dimension is missing, repeated or not an integer.
    """
    try:
        order = tuple(order)
        resolved = tuple(operator.index(k) + (ndim if k < 0 else 0) for k in order)
    except TypeError:
        raise ShapeError(f"order must contain each of {ndim} dimensions once, by number, got {order!r}") from None
    if sorted(resolved) != list(range(ndim)):
        raise ShapeError(f"order must contain each of {ndim} dimensions once, got {order}")
    return resolved


def broadcast_shapes(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Broadcast shapes by NumPy's rule; the number of elements may exceed 2^63.

    Raises
    ------
    ShapeError
        If two sizes of an axis differ and neither is 1.

    Examples
    --------
    >>> broadcast_shapes([(2**62, 1), (2**62,), ()]) == (2**62, 2**62)
    True
    """
    out: list[int] = [1] * max((len(shape) for shape in shapes), default=0)
    for shape in shapes:
        for k, size in enumerate(shape, len(out) - len(shape)):
            if out[k] not in (1, size) and size != 1:
                raise ShapeError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
            out[k] = size if out[k] == 1 else out[k]
    return tuple(out)
