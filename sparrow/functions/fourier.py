"""Fourier transforms of the array API standard: dense, by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sparrow.core.schema import as_integer, as_integers, check_array, check_dtype
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.elementwise import as_operand
from sparrow.functions.inspection import check_device
from sparrow.functions.manipulation import roll
from sparrow.functions.views import as_tensor
from sparrow.plan import normalize_axis
from sparrow.runtime.docs import SharedText
from sparrow.tensor import Tensor

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip

_shared = SharedText(
    x="""
    x
        Tensor or array of at least one dimension.
    """,
    n="""
    n
        Length of the input along the axis: longer input is cut, shorter input padded with 0. Of ``irfft`` and ``hfft``
        it is the length of the output, by default 2 * (m - 1) for input of length m.
    """,
    s="""
    s
        Lengths of the input along the axes: longer input is cut, shorter input padded with 0. Of ``irfftn`` they are
        the lengths of the output, by default 2 * (m - 1) along the last axis.
    """,
    axis="""
    axis
        Axis to transform, by number or name.
    """,
    axes="""
    axes
        Axes to transform, by number or name; all by default.
    """,
    result="""
    norm
        Direction that is divided by the number of elements, "backward" or "forward"; "ortho" divides both by its root.

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If there is no such axis, or it has no elements.
    InvalidValueError
        If ``norm`` is unknown, or a length is less than 1.
    UnsupportedError
        If elements are complex where the transform requires real ones.
    TooLargeError
        If the dense array would exceed the memory limit, or is far larger than the stored elements.
    """,
    frequencies="""
    n
        Length of the signal.
    d
        Sample spacing of the signal.
    dtype
        Type of the result, float64 by default.
    device
        "cpu" or None.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If ``n`` is not a positive integer, ``d`` is not a non-zero number, or the device is unknown.
    """,
    shift="""
    x
        Tensor or array.
    %(axes)s

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis.
    """,
)


def _resolve_axes(x: Any, axes: Any) -> list[int]:
    """Return one or several axes, by number or name, counted from the front."""
    several = axes if np.iterable(axes) and not isinstance(axes, str) else (axes,)
    dims = x.dims if isinstance(x, Tensor) else ()
    return [normalize_axis(axis, np.ndim(x), dims) for axis in several]


def _transform_axis(function: Callable[..., Any], x: Any, n: int | None, axis: int | str, norm: str) -> NDArray[Any]:
    lengths = [] if n is None else [as_integer(n, "n")]
    given = as_operand(x)
    (along,) = _resolve_axes(given, (axis,))
    return _transform(function, given, lengths, n=n, axis=along, norm=norm)


def _transform_axes(function: Callable[..., Any], x: Any, s: Any, axes: Any, norm: str) -> NDArray[Any]:
    lengths = None if s is None else as_integers(s, "s")
    given = as_operand(x)
    last = None if lengths is None else range(-len(lengths), 0)
    along = last if axes is None else _resolve_axes(given, axes)
    return _transform(function, given, lengths or [], s=lengths, axes=along, norm=norm)


def _transform(function: Callable[..., Any], x: Any, lengths: list[int], **options: Any) -> NDArray[Any]:
    """Call NumPy's transform on the dense array and translate its errors."""
    if min(lengths, default=1) < 1:
        raise InvalidValueError(f"{function.__name__}: lengths must be at least 1, got {lengths}")
    dense = check_array(x, "x")
    try:
        found: NDArray[Any] = function(dense, **options)
    except TypeError:
        raise UnsupportedError(f"{function.__name__}: x must be real, got {dense.dtype}") from None
    except (IndexError, ValueError) as error:
        kind = InvalidValueError if "norm" in str(error) else ShapeError
        raise kind(f"{function.__name__} of shape {dense.shape}: {error}") from None
    return found


def _along_axis(function: Callable[..., Any], summary: str, given: str, shown: str) -> Callable[..., NDArray[Any]]:
    """Make the transform along one axis that NumPy's function computes."""

    def transform(
        x: Tensor | ArrayLike, /, *, n: int | None = None, axis: int | str = -1, norm: str = "backward"
    ) -> NDArray[Any]:
        return _transform_axis(function, x, n, axis, norm)

    return _document(transform, function.__name__, summary, ("n", "axis"), given, shown)


def _along_axes(function: Callable[..., Any], summary: str, given: str, shown: str) -> Callable[..., NDArray[Any]]:
    """Make the transform along several axes that NumPy's function computes."""

    def transform(
        x: Tensor | ArrayLike,
        /,
        *,
        s: tuple[int, ...] | None = None,
        axes: int | str | Sequence[int | str] | None = None,
        norm: str = "backward",
    ) -> NDArray[Any]:
        return _transform_axes(function, x, s, axes, norm)

    return _document(transform, function.__name__, summary, ("s", "axes"), given, shown)


def _document(
    transform: Any, name: str, summary: str, parameters: tuple[str, str], given: str, shown: str
) -> Callable[..., NDArray[Any]]:
    """Name a transform and write its docstring."""
    texts = "\n".join(f"%({each})s" for each in ("x", *parameters, "result"))
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = (
        f"{summary}\n\nParameters\n----------\n{texts}\n\n"
        f"Examples\n--------\n>>> import sparrow as sp\n>>> sp.fft.{name}(sp.asarray({given})).round(3)\n{shown}\n"
    )
    return _shared(transform)  # type: ignore[no-any-return]


fft = _along_axis(
    np.fft.fft, "Return the discrete Fourier transform along an axis.",
    "[0, 1, 0, 0]", "array([ 1.+0.j,  0.-1.j, -1.+0.j,  0.+1.j])",
)  # fmt: skip
ifft = _along_axis(
    np.fft.ifft, "Return the inverse of :func:`fft` along an axis.",
    "[1, -1j, -1, 1j]", "array([0.+0.j, 1.+0.j, 0.+0.j, 0.+0.j])",
)  # fmt: skip
rfft = _along_axis(
    np.fft.rfft, "Return the non-negative half of the transform of real input along an axis.",
    "[0, 1, 0, 0]", "array([ 1.+0.j,  0.-1.j, -1.+0.j])",
)  # fmt: skip
irfft = _along_axis(
    np.fft.irfft, "Return the inverse of :func:`rfft` along an axis.", "[1, -1j, -1]", "array([0., 1., 0., 0.])"
)
hfft = _along_axis(
    np.fft.hfft, "Return the real transform of Hermitian-symmetric input along an axis.",
    "[1, 1j, -1]", "array([0., 4., 0., 0.])",
)  # fmt: skip
ihfft = _along_axis(
    np.fft.ihfft, "Return the inverse of :func:`hfft` along an axis.",
    "[0, 4, 0, 0]", "array([ 1.-0.j,  0.+1.j, -1.-0.j])",
)  # fmt: skip
fftn = _along_axes(
    np.fft.fftn, "Return the discrete Fourier transform along several axes.",
    "[[0, 1], [0, 0]]", "array([[ 1.+0.j, -1.+0.j],\n       [ 1.+0.j, -1.+0.j]])",
)  # fmt: skip
ifftn = _along_axes(
    np.fft.ifftn, "Return the inverse of :func:`fftn` along several axes.",
    "[[1, -1], [1, -1]]", "array([[0.+0.j, 1.+0.j],\n       [0.+0.j, 0.+0.j]])",
)  # fmt: skip
rfftn = _along_axes(
    np.fft.rfftn, "Return the non-negative half of the transform of real input along several axes.",
    "[[0, 1], [0, 0]]", "array([[ 1.+0.j, -1.+0.j],\n       [ 1.+0.j, -1.+0.j]])",
)  # fmt: skip
irfftn = _along_axes(
    np.fft.irfftn, "Return the inverse of :func:`rfftn` along several axes.",
    "[[1, -1], [1, -1]]", "array([[0., 1.],\n       [0., 0.]])",
)  # fmt: skip


@_shared
def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the sample frequencies of :func:`fft`, negative ones last.

    Parameters
    ----------
    %(frequencies)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.fft.fftfreq(4).to_numpy()
    array([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return _frequencies(np.fft.fftfreq, n, d, dtype, device)


@_shared
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the sample frequencies of :func:`rfft`.

    Parameters
    ----------
    %(frequencies)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.fft.rfftfreq(4).to_numpy()
    array([0.  , 0.25, 0.5 ])
    """
    return _frequencies(np.fft.rfftfreq, n, d, dtype, device)


@_shared
def fftshift(x: Tensor | ArrayLike, /, *, axes: int | str | Sequence[int | str] | None = None) -> Tensor:
    """Shift the zero frequency to the middle, lazily; the result stays sparse.

    Parameters
    ----------
    %(shift)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.fft.fftshift(sp.asarray([1, 2, 0, 0, 5])).to_numpy()
    array([0, 5, 1, 2, 0])
    """
    return _shift(x, axes, lambda n: n // 2)


@_shared
def ifftshift(x: Tensor | ArrayLike, /, *, axes: int | str | Sequence[int | str] | None = None) -> Tensor:
    """Undo :func:`fftshift`, lazily; the result stays sparse.

    Parameters
    ----------
    %(shift)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.fft.ifftshift(sp.asarray([0, 5, 1, 2, 0])).to_numpy()
    array([1, 2, 0, 0, 5])
    """
    return _shift(x, axes, lambda n: -(n // 2))


def _shift(x: Any, axes: Any, offset: Callable[[int], int]) -> Tensor:
    tensor = as_tensor(x)
    along = _resolve_axes(tensor, range(tensor.ndim) if axes is None else axes)
    return roll(tensor, tuple(offset(tensor.shape[axis]) for axis in along), along) if along else tensor


def _frequencies(function: Callable[..., Any], n: int, d: float, dtype: DTypeLike | None, device: str | None) -> Tensor:
    check_device(device)
    kind = None if dtype is None else check_dtype(dtype)
    try:
        found = function(n, d)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise InvalidValueError(f"{function.__name__}({n!r}, d={d!r}): {error}") from None
    return as_tensor(found if kind is None else found.astype(kind))
