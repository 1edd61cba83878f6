"""Products of the array API standard: matmul, matrix_power, vecdot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparrow.core.schema import as_integer
from sparrow.errors import AxisError, InvalidValueError, ShapeError, SingularError
from sparrow.functions.contraction import einsum
from sparrow.functions.elementwise import as_named_operand
from sparrow.functions.generation import eye
from sparrow.functions.labels import is_labelled
from sparrow.functions.reductions import sum as total
from sparrow.functions.views import as_tensor, broadcast_to
from sparrow.plan import normalize_axis
from sparrow.tensor import Tensor
from sparrow.tensor.matching import label_operands
from sparrow.tensor.products import matmul

__all__ = ["matmul", "matrix_power", "multi_dot", "outer_product", "vecdot"]


def matrix_power(x: Tensor | ArrayLike, n: int, /) -> Any:
    """Return an integer power of square matrices, lazily.

    Parameters
    ----------
    x
        Tensor of shape (..., n, n) and fill value 0.
    n
        Exponent; 0 gives the identity, a negative one powers of the inverse.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``x``; a dense array, at once, for a negative ``n``.

    Raises
    ------
    ShapeError
        If the last two axes differ in size.
    UnsupportedError
        If the fill value is not 0.
    SingularError
        If ``n`` is negative and a matrix is singular.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.matrix_power(sp.asarray([[1, 1], [0, 1]]), 5).to_numpy()
    array([[1, 5],
           [0, 1]])
    """
    power = as_tensor(x)
    if power.ndim < 2 or power.shape[-1] != power.shape[-2]:
        raise ShapeError(f"matrix_power: x must be square matrices, got shape {power.shape}")
    left = as_integer(n, "n")
    if left < 0:
        try:
            return np.linalg.matrix_power(np.asarray(power), left)
        except np.linalg.LinAlgError as error:
            raise SingularError(f"matrix_power: {error}") from None
    if left == 0:
        return broadcast_to(eye(power.shape[-1], dtype=power.dtype), power.shape)
    found: Tensor | None = None
    while True:
        if left % 2:
            found = power if found is None else matmul(found, power)
        left //= 2
        if not left:
            return found
        power = matmul(power, power)


def multi_dot(arrays: Sequence[Any]) -> Any:
    """Return the product of several matrices in the cheapest order."""
    if len(arrays) < 2:
        raise InvalidValueError(f"multi_dot requires at least two operands, got {len(arrays)}")
    ends = [0, len(arrays) - 1]
    for k, each in enumerate(arrays):
        if np.ndim(each) != 2 and not (k in ends and np.ndim(each) == 1):
            raise ShapeError(f"multi_dot: operand {k} must be a matrix, got shape {np.shape(each)}")
    given = [[k, k + 1][-np.ndim(each) :] if k == 0 else [k, k + 1][: np.ndim(each)] for k, each in enumerate(arrays)]
    result = [each for each in (0, len(arrays)) if any(each in own for own in given)]
    return einsum(*(part for pair in zip(arrays, given, strict=True) for part in pair), result)


def outer_product(one: Tensor, other: Tensor) -> Tensor:
    """Return the products of the elements of two vectors, lazily.

    If both fill values are 0, only products of stored elements are formed.
    """
    column, row = one[:, None], other[None, :]
    product: Tensor = column * row
    if one.fill_value == 0 and other.fill_value == 0:
        result: Tensor = matmul(column, row)
        return result.rename(dict(zip(result.dims, product.dims, strict=True)))
    return product


def vecdot(x1: Tensor | ArrayLike, x2: Tensor | ArrayLike, /, *, axis: int | str = -1) -> Any:
    """Return the dot products of vectors along an axis; other axes broadcast.

    Elements of the first operand are conjugated.

    Parameters
    ----------
    x1, x2
        Tensors or arrays.
    axis
        Axis of the vectors, counted from the end, or the name of a dimension; an operand without that name uses the
        same axis from the end. Its size must be the same in both, unless both have labels, which are aligned.

    Returns
    -------
    Tensor
        Lazy, without the axis; a scalar for two vectors.

    Raises
    ------
    ShapeError
        If there is no such axis, the sizes along it differ, or the other axes do not broadcast.
    UnsupportedError
        If one is not an operand.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.vecdot(A, [1, 10, 100]).to_numpy()
    array([  20,  -97])
    """
    x1, x2 = label_operands((x1, x2))
    one, other = (as_named_operand(each, f"vecdot: {name}") for each, name in ((x1, "x1"), (x2, "x2")))
    dims = [each.dims if isinstance(each, Tensor) else () for each in (one, other)]
    from_end = axis
    if isinstance(axis, str):
        named_dims = next((own for own in dims if axis in own), dims[0] or dims[1])
        from_end = normalize_axis(axis, len(named_dims), named_dims) - len(named_dims)
    sides = list(zip(("x1", "x2"), (one, other), dims, strict=True))
    at = [_contracted_axis(name, each, axis if axis in own else from_end, own) for name, each, own in sides]
    sizes = [np.shape(each)[k] for each, k in zip((one, other), at, strict=True)]
    if sizes[0] != sizes[1] and not (is_labelled(one, at[0]) and is_labelled(other, at[1])):
        raise ShapeError(f"vecdot: sizes along axis {axis!r} must be equal, got {sizes[0]} and {sizes[1]}")
    conjugated = np.conj(one) if np.result_type(_dtype(one)).kind == "c" else one
    product = np.multiply(conjugated, other)
    named = isinstance(product, Tensor) and axis in product.dims
    return total(product, axis=axis if named else from_end, dtype=product.dtype)


def _contracted_axis(name: str, operand: Any, axis: int | str, dims: Sequence[str]) -> int:
    """Return the axis of an operand of vecdot, counted from the front."""
    try:
        return normalize_axis(axis, np.ndim(operand), dims)
    except AxisError as error:
        raise AxisError(f"vecdot: {name} has shape {np.shape(operand)}: {error}") from None


def _dtype(obj: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = obj.dtype if hasattr(obj, "dtype") else np.asarray(obj).dtype
    return found
