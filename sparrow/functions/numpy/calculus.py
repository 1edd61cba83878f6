"""NumPy's differences, sums of trapezoids, polynomials and insertions on tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import as_integer, check_array
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.labels import drop_labels, to_labelled_tensor
from sparrow.functions.manipulation import concat, reshape
from sparrow.functions.sorting import diff
from sparrow.functions.views import as_tensor, broadcast_to, moveaxis
from sparrow.plan import axis_labels, normalize_axis
from sparrow.runtime import memory
from sparrow.tensor import Tensor
from sparrow.tensor.matching import match_axes

__all__ = ["Polynomial", "ediff1d", "gradient", "i0", "insert", "polyval", "sinc", "trapezoid"]


def _along(ndim: int, axis: int, key: Any) -> tuple[Any, ...]:
    """Return an index of one axis."""
    return (*(slice(None),) * axis, key, *(slice(None),) * (ndim - axis - 1))


def _column(vector: NDArray[Any], ndim: int, axis: int) -> NDArray[Any]:
    """Return a vector that broadcasts along an axis."""
    return vector.reshape([-1 if k == axis else 1 for k in range(ndim)])


def _as_numbers(tensor: Tensor, name: str) -> Tensor:
    if tensor.dtype == bool:
        raise UnsupportedError(f"{name}: elements must be numeric, got bool: pass A.astype('int8')")
    return tensor


def _vector(given: Any, tensor: Tensor, axis: int, what: str) -> NDArray[Any]:
    """Return the coordinates of an axis, matched by label, or another array as it is."""
    if isinstance(given, Tensor) and given.ndim == 1:
        given = match_axes(given, tensor, {0: axis}, what, "values").to_numpy()
    return np.asarray(given)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return central differences along axes, lazily; one-sided at the edges."""
    tensor = as_tensor(f)
    whole = axis is None
    axes = [normalize_axis(one, tensor.ndim) for one in (range(tensor.ndim) if axis is None else np.atleast_1d(axis))]
    if len(set(axes)) != len(axes):
        raise InvalidValueError(f"gradient: axes must be distinct, got {axis}")
    if len(varargs) not in (0, 1, len(axes)):
        raise InvalidValueError(f"gradient: expected 0, 1 or {len(axes)} spacings, got {len(varargs)}")
    if edge_order not in (1, 2):
        raise InvalidValueError(f"gradient: edge_order must be 1 or 2, got {edge_order!r}")
    if tensor.dtype.kind not in "fc":
        tensor = _as_numbers(tensor, "gradient").astype(np.float64)
    steps = list(varargs) * len(axes) if len(varargs) == 1 else list(varargs) or [1.0] * len(axes)
    found = [_gradient(tensor, one, step, edge_order) for one, step in zip(axes, steps, strict=True)]
    return found[0] if len(found) == 1 and (not whole or tensor.ndim == 1) else tuple(found) if found else ()


def _gradient(tensor: Tensor, axis: int, spacing: Any, edge_order: int) -> Tensor:
    """Return the gradient along one axis."""
    size = tensor.shape[axis]
    if size < edge_order + 1:
        raise ShapeError(f"gradient: axis {axis} must have at least {edge_order + 1} elements, got {size}")
    given = _vector(spacing, tensor, axis, "gradient: coordinates")
    if given.ndim > 1 or (given.ndim == 1 and len(given) != size):
        raise ShapeError(f"gradient: coordinates of axis {axis} must have shape ({size},), got {given.shape}")
    labels = axis_labels(tensor.__sparrow_scan__())
    tensor = drop_labels(tensor, axis)
    gaps = np.diff(given.astype(np.float64)) if given.ndim else np.full(size - 1, float(given))

    def part(start: int, stop: int) -> Tensor:
        found: Tensor = tensor[_along(tensor.ndim, axis, slice(start, stop))]
        return found

    def edge(at: int, near: float, far: float) -> Tensor:
        """Return the one-sided difference at the first or the last position."""
        sign = 1 if at == 0 else -1
        here, other = (part(0, 1), part(1, 2)) if at == 0 else (part(size - 1, size), part(size - 2, size - 1))
        found: Tensor
        if edge_order == 1:
            found = (other - here) * (sign / near)
            return found
        third = part(2, 3) if at == 0 else part(size - 3, size - 2)
        weights = -(2 * near + far) / (near * (near + far)), (near + far) / (near * far), -near / (far * (near + far))
        found = (here * weights[0] + other * weights[1] + third * weights[2]) * sign
        return found

    parts = [edge(0, gaps[0], gaps[min(1, len(gaps) - 1)])]
    if size > 2:
        if (gaps == gaps[0]).all():
            parts.append((part(2, size) - part(0, size - 2)) / (2 * gaps[0]))
        else:
            low, high = (_column(one, tensor.ndim, axis) for one in (gaps[:-1], gaps[1:]))
            parts.append(
                part(0, size - 2) * (-high / (low * (low + high)))
                + part(1, size - 1) * ((high - low) / (low * high))
                + part(2, size) * (low / (high * (low + high)))
            )
    parts.append(edge(-1, gaps[-1], gaps[max(len(gaps) - 2, 0)]))
    return to_labelled_tensor(concat(parts, axis).astype(tensor.dtype).__sparrow_scan__(), labels)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """Return the differences of consecutive elements, between others."""
    steps = diff(reshape(_as_numbers(as_tensor(ary), "ediff1d"), -1))
    parts = [steps]
    for given, name, at in ((to_begin, "to_begin", 0), (to_end, "to_end", 2)):
        if given is None:
            continue
        more = as_tensor(given)
        if not np.can_cast(more.dtype, steps.dtype, "same_kind"):
            raise UnsupportedError(
                f"ediff1d: {name} must cast to {steps.dtype} by the rule same_kind, got {more.dtype}"
            )
        parts.insert(at, reshape(more, -1).astype(steps.dtype))
    return concat(parts) if len(parts) > 1 else steps


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral along an axis by the trapezoidal rule."""
    tensor = as_tensor(y)
    at = normalize_axis(axis, tensor.ndim)
    steps: Any = dx
    if x is not None:
        if isinstance(x, Tensor) and x.ndim != 1:
            axes = {k: k - x.ndim + tensor.ndim for k in range(x.ndim) if k + tensor.ndim >= x.ndim}
            places = match_axes(x, tensor, axes, "trapezoid: x", "values")
        else:
            places = _vector(x, tensor, at, "trapezoid: x")
        if places.ndim == 1:
            whole = np.asarray(places)
            if len(whole) != tensor.shape[at]:
                raise ShapeError(f"trapezoid: x must have shape ({tensor.shape[at]},), got {whole.shape}")
            steps = _column(np.diff(whole), tensor.ndim, at)
        else:
            steps = drop_labels(diff(as_tensor(places), axis), at - tensor.ndim + np.ndim(places))
    tensor = drop_labels(tensor, at)
    size = tensor.shape[at]
    low, high = (tensor[_along(tensor.ndim, at, slice(start, stop))] for start, stop in ((0, size - 1), (1, size)))
    return (steps * (low + high) / 2.0).sum(at)


@dataclass(frozen=True, eq=False)
class Polynomial:
    """Element-wise polynomial with the highest coefficient first."""

    coefficients: NDArray[Any]

    def __call__(self, x: Any) -> Any:
        """Return the values of the polynomial."""
        return np.polyval(self.coefficients, x)


def polyval(p: Any, x: Any) -> Any:
    """Return the values of a polynomial, lazily."""
    function = Polynomial(np.asarray(p))
    return x._elementwise(function, x) if isinstance(x, Tensor) else function(x)


def sinc(x: Any) -> Any:
    """Return sin(pi x) / (pi x), lazily."""
    return x._elementwise(np.sinc, x)


def i0(x: Any) -> Any:
    """Return the modified Bessel function of order 0, lazily."""
    return x._elementwise(np.i0, x)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Return slices of an axis, or elements, with others before some of them, lazily."""
    if not isinstance(arr, Tensor) and not isinstance(values, Tensor):
        return np.insert(arr, obj.to_numpy() if isinstance(obj, Tensor) else obj, values, axis)
    lines = as_tensor(arr)
    lines, at = (reshape(lines, -1), 0) if axis is None else (lines, normalize_axis(axis, lines.ndim))
    size = lines.shape[at]
    if getattr(obj, "dtype", None) == np.bool_ and np.ndim(obj) == 1:
        obj = match_axes(obj, lines, {0: at}, "insert: obj", "mask")
    where: Any = obj.to_numpy() if isinstance(obj, Tensor) else obj
    memory.check(17 * size, f"a list of {size} positions", "concatenate views of the parts")
    places = np.arange(size)[where] if isinstance(where, slice) else check_array(where, "obj")
    if places.dtype == bool:
        places = np.flatnonzero(places)
    elif places.dtype.kind not in "iu" and places.size:
        as_integer(where, "obj")
    single = not isinstance(where, slice) and np.ndim(where) == 0
    block = as_tensor(values)
    for _ in range(lines.ndim - block.ndim):
        block = block[None]
    if single:  # then the first axis of the values is that of the new slices, as in NumPy
        block = moveaxis(block, 0, at)
    elif isinstance(obj, Tensor) and obj.dtype != bool and block.shape[at] == places.size:
        block = match_axes(block, obj, {at: 0}, "insert: values", "values", "the positions")
    count = block.shape[at] if single or places.size == 1 else places.size
    while block.ndim > lines.ndim and block.shape[0] == 1:
        block = block[0]
    labelled = axis_labels(lines.__sparrow_scan__()).keys() & axis_labels(block.__sparrow_scan__()).keys() - {at}
    shape = tuple(count if k == at else (block if k in labelled else lines).shape[k] for k in range(lines.ndim))
    new = broadcast_to(block, shape).astype(lines.dtype)
    new = new if new.fill_value == lines.fill_value else new.refill(lines.fill_value)
    order = np.insert(np.arange(size), where if single else places.astype(np.int64), size + np.arange(count))
    found: Tensor = concat([drop_labels(lines, at), drop_labels(new, at)], at)[_along(lines.ndim, at, order)]
    return found
