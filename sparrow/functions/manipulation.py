"""Manipulation functions of the array API standard, views or lazy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow import engines, plan
from sparrow.core.schema import as_integer, as_integers, check_array
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.contraction import einsum
from sparrow.functions.generation import full
from sparrow.functions.labels import check_same_labels
from sparrow.functions.sets import count_stored
from sparrow.functions.tuning import tuning
from sparrow.functions.views import as_tensor, as_tensors, expand_dims, moveaxis, shared
from sparrow.plan import PLUS_TIMES, axis_labels, make_concat, make_triangle, normalize_axis
from sparrow.runtime import memory
from sparrow.runtime.docs import SharedText, document_as
from sparrow.tensor import Tensor
from sparrow.tensor.matching import match_axes
from sparrow.tensor.products import contract

__all__ = [
    "concat", "diagonal", "kron", "nonzero", "pad", "repeat", "reshape", "roll", "split", "stack", "tile", "tril",
    "triu", "unique",
]  # fmt: skip


_shared = SharedText(
    shared,
    triangle="""
    Parameters
    ----------
    tensor
        Tensor of at least two dimensions.
    k
        Offset from the main diagonal, positive to the right.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there are fewer dimensions.
    """,
)


def concat(tensors: Sequence[Any], axis: int | str | None = 0) -> Tensor:
    """Concatenate tensors along an existing axis, lazily.

    Parameters
    ----------
    tensors
        At least one. Names and labels are aligned along the other axes.
    axis
        The axis, by number or name; None to concatenate all elements in row-major order.

    Returns
    -------
    Tensor
        Of NumPy's dtype.

    Raises
    ------
    ShapeError
        If there are none, or shapes differ in another axis.
    UnsupportedError
        If the fill values of tensors differ; dense arrays adopt that of the tensors.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.concat([sp.asarray([[1, 0]]), sp.asarray([[0, 2]])]).to_numpy()
    array([[1, 0],
           [0, 2]])
    """
    found = _as_tensor_list(tensors)
    if axis is None:
        found, axis = [reshape(tensor, -1) for tensor in found], 0
    scans = [tensor.__sparrow_scan__() for tensor in found]
    at = normalize_axis(axis, scans[0].schema.ndim, scans[0].schema.dims)
    return Tensor(make_concat(scans, at))


def _as_tensor_list(tensors: Any) -> list[Tensor]:
    """Return a non-empty sequence of operands as tensors."""
    is_sequence = type(tensors) in (list, tuple) or isinstance(tensors, Sequence | Tensor | np.ndarray)
    if not is_sequence or isinstance(tensors, str):
        raise UnsupportedError(f"expected a sequence of tensors, got {tensors!r}")
    if not len(tensors):
        raise ShapeError("concat and stack require at least one tensor, got none")
    return as_tensors(tensors)


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Stack tensors of one shape along a new axis, lazily.

    Parameters
    ----------
    tensors
        At least one.
    axis
        Position of the new axis in the result.

    Returns
    -------
    Tensor
        Of NumPy's dtype.

    Raises
    ------
    ShapeError
        If there are none, their shapes differ, or the position is out of range.
    UnsupportedError
        If the fill values of tensors differ; dense arrays adopt that of the tensors.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.stack([sp.asarray([1, 0]), sp.asarray([0, 2])], axis=1).to_numpy()
    array([[1, 0],
           [0, 2]])
    """
    scans = [tensor.__sparrow_scan__() for tensor in _as_tensor_list(tensors)]
    shapes = [scan.schema.shape for scan in scans]
    if len(set(shapes)) > 1:
        labelled = any(plan.axis_labels(scan) for scan in scans)  # shapes may match once aligned
        if not labelled or len(set(map(len, shapes))) > 1:
            raise ShapeError(f"stack: tensors must have one shape, got {', '.join(map(str, shapes))}")
    at = normalize_axis(axis, len(shapes[0]) + 1)
    return Tensor(make_concat([scan.then(scan.view.insert_axes((at,))) for scan in scans], at))


def split(tensor: Tensor, indices_or_sections: int | Sequence[int], axis: int | str = 0) -> list[Tensor]:
    """Split a tensor into views along an axis: equal ones, or between positions.

    Parameters
    ----------
    tensor
        Tensor of at least one dimension.
    indices_or_sections
        Number of equal sections, or the positions at which to split.
    axis
        The axis.

    Returns
    -------
    list of Tensor

    Raises
    ------
    ShapeError
        If there is no such axis, or its size is not a multiple of the number of sections.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0, 1], [3, 0, -1, 0]])
    >>> [section.shape for section in sp.split(A, [1, 3], axis=1)]
    [(2, 1), (2, 2), (2, 1)]
    """
    tensor = as_tensor(tensor)
    axis = normalize_axis(axis, tensor.ndim, tensor.dims)
    size = tensor.shape[axis]
    if isinstance(indices_or_sections, int | np.integer):
        sections = int(indices_or_sections)
        if sections < 1 or size % sections:
            raise ShapeError(f"an axis of size {size} does not split into {sections} equal sections")
        bounds = [size * k // sections for k in range(sections + 1)]
    else:
        cuts = as_integers(indices_or_sections, "indices_or_sections")
        bounds = [0, *(slice(None, at).indices(size)[1] for at in cuts), size]
    before = (slice(None),) * axis
    return [tensor[(*before, slice(a, b), ...)] for a, b in itertools.pairwise(bounds)]


@_shared
def roll(tensor: Tensor, shift: int | Sequence[int], axis: int | str | Sequence[int | str] | None = None) -> Tensor:
    """Roll the elements along axes, lazily; without an axis in row-major order.

    Parameters
    ----------
    %(tensor)s
    shift
        Number of positions, one for all axes or one for each.
    axis
        The axes.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If an axis is out of range, or the numbers of shifts and axes differ.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.roll(sp.asarray([[1, 0, 2], [0, 3, 0]]), 1, axis=1).to_numpy()
    array([[2, 1, 0],
           [0, 0, 3]])
    """
    tensor = as_tensor(tensor)
    if axis is None:
        return reshape(roll(reshape(tensor, -1), shift, 0), tensor.shape)
    axes = list(axis) if isinstance(axis, Sequence) and not isinstance(axis, str) else [axis]
    shifts = as_integers(shift, "shift")
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: expected one shift for each of {len(axes)} axes {axis}, got {len(shifts)}: {shift}")
    for by, along in zip(shifts, axes, strict=True):
        along = normalize_axis(along, tensor.ndim, tensor.dims)
        size = tensor.shape[along]
        if size and by % size:
            first, last = split(tensor, [size - by % size], along)
            tensor = concat([last, first], along)
    return tensor


@_shared
def reshape(
    tensor: Tensor,
    shape: int | Sequence[int],
    *sizes: int,
    order: Literal["C", "F", "A"] = "C",
    copy: bool | None = None,
) -> Tensor:
    """Return the elements in another shape, lazily; one size may be -1.

    Parameters
    ----------
    %(tensor)s
    shape
        The shape, or the first of its sizes.
    *sizes
        The other sizes.
    order
        "C" for row-major, "F" for column-major order; "A" is "C".
    copy
        False to raise unless the shape is unchanged. Results are read-only in any case.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the size differs.
    InvalidValueError
        If ``order`` is unknown, or ``copy`` is False and the shape changes.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.reshape(sp.asarray([[1, 0, 2], [0, 3, 0]]), (3, -1)).to_numpy()
    array([[1, 0],
           [2, 0],
           [3, 0]])
    """
    return as_tensor(tensor).reshape(*((shape, *sizes) if sizes else (shape,)), order=order, copy=copy)


@_shared
def tril(tensor: Tensor, k: int = 0) -> Tensor:
    """Return the lower triangle of the last two axes, lazily.

    %(triangle)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.tril(sp.asarray([[1, 2, 3], [4, 5, 6]])).to_numpy()
    array([[1, 0, 0],
           [4, 5, 0]])
    """
    tensor = as_tensor(tensor)
    return Tensor(make_triangle(tensor.__sparrow_scan__(), as_integer(k, "k"), upper=False))


@_shared
def triu(tensor: Tensor, k: int = 0) -> Tensor:
    """Return the upper triangle of the last two axes, lazily.

    %(triangle)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.triu(sp.asarray([[1, 2, 3], [4, 5, 6]])).to_numpy()
    array([[1, 2, 3],
           [0, 5, 6]])
    """
    tensor = as_tensor(tensor)
    return Tensor(make_triangle(tensor.__sparrow_scan__(), as_integer(k, "k"), upper=True))


@document_as(Tensor.diagonal, tensor="Tensor of at least two dimensions.")
def diagonal(tensor: Tensor, offset: int = 0, axis1: int | str = 0, axis2: int | str = 1) -> Tensor:
    """Return a diagonal, or those of a stack of matrices, lazily."""
    tensor = as_tensor(tensor)
    if tensor.ndim >= 2:
        pair = normalize_axis(axis1, tensor.ndim, tensor.dims), normalize_axis(axis2, tensor.ndim, tensor.dims)
        labels = axis_labels(tensor.__sparrow_scan__())
        if pair[0] != pair[1] and labels.keys() >= {*pair} and not labels[pair[0]].equals(labels[pair[1]]):
            if as_integer(offset, "offset"):
                check_same_labels(tensor, f"diagonal with offset {offset}", axes=pair)
            others = [axis for axis in range(tensor.ndim) if axis not in pair]
            indices = [pair[0] if axis == pair[1] else axis for axis in range(tensor.ndim)]
            return einsum(tensor, indices, [*others, pair[0]])  # type: ignore[no-any-return]
    if tensor.ndim > 2 or (tensor.ndim == 2 and (axis1, axis2) != (0, 1)):
        rows, columns = normalize_axis(axis1, tensor.ndim, tensor.dims), normalize_axis(axis2, tensor.ndim, tensor.dims)
        if rows == columns:
            raise ShapeError(f"diagonal: axis1 and axis2 must differ, got {axis1} and {axis2}")
        matrices = moveaxis(tensor, (rows, columns), (-2, -1))
        if tensor.ndim == 2:
            return diagonal(matrices, offset)
        right = as_integer(offset, "offset")
        height, width = matrices.shape[-2:]
        top, left = max(-right, 0), max(right, 0)
        length = max(min(height - top, width - left), 0)
        if length > tuning().diagonal_gather_max_length and matrices.fill_value == 0:  # in time proportional to nnz
            square = matrices[..., top : top + length, left : left + length]
            axes = list(range(tensor.ndim - 1))
            return einsum(square, [*axes, axes[-1]], axes)  # type: ignore[no-any-return]
        memory.check(2 * 8 * length, f"the positions of {length} elements of a diagonal")
        position = np.arange(length)
        found: Tensor = matrices[..., position + top, position + left]
        return found
    return Tensor(plan.make_diagonal(tensor.__sparrow_scan__(), as_integer(offset, "offset")))


@_shared
def tile(tensor: Tensor, reps: int | Sequence[int]) -> Tensor:
    """Repeat a tensor along each axis, lazily.

    Parameters
    ----------
    %(tensor)s
    reps
        Number of copies along each axis; additional axes come first.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If a number is negative.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.tile(sp.asarray([[0, 2]]), (2, 2)).to_numpy()
    array([[0, 2, 0, 2],
           [0, 2, 0, 2]])
    """
    tensor = as_tensor(tensor)
    counts = as_integers(reps, "reps")
    while len(counts) < tensor.ndim:
        counts.insert(0, 1)
    for _ in range(len(counts) - tensor.ndim):
        tensor = expand_dims(tensor, 0)
    if any(n < 0 for n in counts):
        raise InvalidValueError(f"reps must not be negative, got {counts}")
    for axis, n in enumerate(counts):
        if n == 0:
            tensor = split(tensor, [0], axis)[0]
        elif n > 1 and tensor.labels(axis) is not None:
            what = f"{n} copies of a labelled tensor"
            memory.check(tuning().tile_copy_bytes * n, what, "broadcast along a new axis instead")
            tensor = concat([tensor] * n, axis)
        elif n > 1:
            tensor = Tensor(plan.make_tile(tensor.__sparrow_scan__(), axis, n))
    return tensor if any(n != 1 for n in counts) else tensor.astype(tensor.dtype, copy=True)


@_shared
def repeat(tensor: Tensor, repeats: int | Sequence[int], axis: int | str | None = None) -> Tensor:
    """Repeat each slice of an axis, lazily; the result is a copy.

    Parameters
    ----------
    %(tensor)s
    repeats
        Number of repetitions, one for all slices or one for each.
    axis
        The axis; by default the elements in row-major order are repeated.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis, or not one number for each slice.
    InvalidValueError
        If a number is negative or not an integer.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.repeat(sp.asarray([[0, 2], [3, 0]]), [1, 2], axis=0).to_numpy()
    array([[0, 2],
           [3, 0],
           [3, 0]])
    """
    tensor = as_tensor(tensor)
    if axis is None:
        return repeat(reshape(tensor, -1), repeats, 0)
    axis = normalize_axis(axis, tensor.ndim, tensor.dims)
    size = tensor.shape[axis]
    counts = check_array(match_axes(repeats, tensor, {0: axis}, "repeats", "values"), "repeats")
    if counts.size and (counts.dtype.kind not in "iu" or (counts < 0).any()):
        raise InvalidValueError(f"repeats must be non-negative integers, got {repeats}")
    if counts.shape not in ((), (1,), (size,)):
        raise ShapeError(
            f"repeats must be one number or {size}, one for each slice of axis {axis}, got shape {counts.shape}"
        )
    total = int(counts.sum(dtype=np.float64)) * (size if counts.size == 1 else 1)
    memory.check(8 * total, f"the positions of {total} slices", "broadcast along a new axis instead")
    view: Tensor = tensor[(*(slice(None),) * axis, np.repeat(np.arange(size), counts.astype(np.int64)), ...)]
    return view


def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0, **others: Any) -> Tensor:
    """Pad a tensor with a value, or with its own elements, lazily.

    A value other than the fill value is stored.

    Parameters
    ----------
    array
        Tensor of any number of dimensions.
    pad_width
        Elements before and after each axis: pairs by axis, one pair, or one number for all.
    mode
        ``"constant"``, ``"edge"``, ``"reflect"``, ``"symmetric"`` or ``"wrap"``, as in :func:`numpy.pad`.
    constant_values
        Values before and after each axis, as ``pad_width``; 0 by default.
    **others
        Further arguments of :func:`numpy.pad`, which are not supported.

    Returns
    -------
    Tensor
        Padded axes have no labels.

    Raises
    ------
    InvalidValueError
        If a width is negative.
    UnsupportedError
        If the mode or an argument is not supported.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.pad(sp.asarray([[1, 2]]), ((0, 1), (2, 0))).to_numpy()
    array([[0, 0, 1, 2],
           [0, 0, 0, 0]])
    """
    given = tensor = as_tensor(array)
    widths = np.broadcast_to(check_array(pad_width, "pad_width"), (tensor.ndim, 2)).tolist()
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        others = {f"mode={mode!r}": mode, **others}
    for name in others:
        option = name if "=" in name else f"{name}="
        raise UnsupportedError(
            f"np.pad({option}) is not supported on sparse tensors: use A.to_numpy() if it fits in memory"
        )
    values = np.broadcast_to(check_array(constant_values, "constant_values"), (tensor.ndim, 2)).tolist()
    for axis, (width, value) in enumerate(zip(widths, values, strict=True)):
        before, after = as_integers(width, "pad_width")
        if before < 0 or after < 0:
            raise InvalidValueError(f"pad_width must not be negative, got {pad_width!r}")
        if mode == "constant":
            sizes = [(*tensor.shape[:axis], n, *tensor.shape[axis + 1 :]) for n in (before, after)]
            edges = [
                full(size, v, tensor.dtype).refill(tensor.fill_value) for size, v in zip(sizes, value, strict=True)
            ]
            edges = [edge.rename(**dict(zip(edge.dims, tensor.dims, strict=True))) for edge in edges]
            parts = [part for part in (edges[0], tensor, edges[1]) if part is tensor or part.shape[axis]]
            tensor = concat(parts, axis) if len(parts) > 1 else tensor
        elif before or after:
            try:
                positions = np.pad(np.arange(tensor.shape[axis]), (before, after), mode)  # type: ignore[call-overload]
            except ValueError as error:
                raise ShapeError(f"np.pad of shape {tensor.shape}: {error}") from None
            tensor = tensor[(*(slice(None),) * axis, positions, ...)]
    return tensor.astype(tensor.dtype, copy=True) if tensor is given else tensor


@document_as(Tensor.nonzero, tensor="Tensor of at least one dimension.")
def nonzero(tensor: Tensor) -> tuple[NDArray[np.int64], ...]:
    """Return the coordinates of the non-zero elements, one array per dimension."""
    tensor = as_tensor(tensor)
    if not tensor.ndim:
        raise ShapeError("nonzero requires at least one dimension")
    if tensor.fill_value != 0:
        return tensor.to_numpy().nonzero()
    found = engines.evaluate(tensor.__sparrow_scan__())
    return tuple(column.astype(np.int64) for column in found.coords)


def unique(tensor: Tensor) -> NDArray[Any]:
    """Return the distinct values of all elements, ascending, the fill value included.

    Parameters
    ----------
    tensor
        Tensor of any shape.

    Returns
    -------
    ndarray
        NaN at most once, as in ``np.unique``; :func:`sparrow.unique_values` keeps every NaN.

    Raises
    ------
    TooLargeError
        If the distinct values would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.unique(sp.asarray([[0, 2], [3, 2]]))
    array([0, 2, 3])
    """
    tensor = as_tensor(tensor)
    values, counts = count_stored(tensor)
    if int(counts.sum()) < tensor.size:
        values = np.append(values, np.asarray(tensor.fill_value, values.dtype))
    return np.unique(values)


def kron(a: Any, b: Any) -> Tensor:
    """Return the Kronecker product of two tensors, lazily.

    Parameters
    ----------
    a, b
        Tensors or arrays of fill value 0; the one with fewer dimensions gets new ones in front.

    Returns
    -------
    Tensor
        Of NumPy's dtype.

    Raises
    ------
    UnsupportedError
        If a fill value is not 0.
    TooLargeError
        If the stored elements would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.kron(sp.eye(2), sp.asarray([[0, 2]])).to_numpy()
    array([[0., 2., 0., 0.],
           [0., 0., 0., 2.]])
    """
    pair = [as_tensor(one) for one in (a, b)]
    ndim = max(one.ndim for one in pair)
    left, right = (one.reshape(*(1,) * (ndim - one.ndim), *one.shape) if one.ndim < ndim else one for one in pair)
    indices = tuple(range(0, 2 * ndim, 2)), tuple(range(1, 2 * ndim, 2))
    product = contract((left, right), indices, range(2 * ndim), semiring=PLUS_TIMES)
    return reshape(as_tensor(product), tuple(n * m for n, m in zip(left.shape, right.shape, strict=True)))
