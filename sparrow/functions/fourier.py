"""Fourier transforms by the array API standard: spectra are dense, and NumPy's own; shifts stay sparse and lazy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sparrow.core.schema import as_integer, as_integers, check_dtype
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.elementwise import operand
from sparrow.functions.inspection import check_device
from sparrow.functions.manipulation import roll
from sparrow.functions.views import as_tensor
from sparrow.plan import resolved_axis
from sparrow.tensor import Tensor

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip

_DOC = """Return {what}, dense.

Parameters
----------
x
    A tensor or array of at least one dimension.
{parameters}
norm
    "backward" divides the inverse transforms by the number of cells, "forward" the others, "ortho" both by its root.

Returns
-------
ndarray

Raises
------
ShapeError
    If there is no such axis, or there are no cells along it.
InvalidValueError
    If there is no such ``norm``, or a number of cells is less than 1.
UnsupportedError
    If cells are complex where the transform is one of real ones.
TooLargeError
    If the dense array would pass the memory limit, or is far larger than what it holds.

Examples
--------
>>> import sparrow as sp
>>> sp.fft.{name}(sp.asarray({given})).round(3)
{shown}
"""
_ONE = """n
    How many cells along the axis {n}: more are cut off, missing ones are 0.
axis
    Along which, by number or the name of its dimension."""
_MANY = """s
    How many cells along each axis {n}: more are cut off, missing ones are 0.
axes
    Along which, by number or the name of a dimension, all by default."""


def _axes(x: Any, axes: Any) -> list[int]:
    """Return axes, one or several of them by number or name, counted from the front."""
    several = axes if np.iterable(axes) and not isinstance(axes, str) else (axes,)
    dims = x.dims if isinstance(x, Tensor) else ()
    return [resolved_axis(axis, np.ndim(x), dims) for axis in several]


def _transformed(function: Callable[..., Any], x: Any, sizes: list[int], **options: Any) -> NDArray[Any]:
    if min(sizes, default=1) < 1:
        raise InvalidValueError(f"{function.__name__}: {sizes} cells, and a transform takes 1 at least")
    cells = np.asarray(x)
    try:
        found: NDArray[Any] = function(cells, **options)
    except TypeError:
        raise UnsupportedError(f"{function.__name__}: cells of {cells.dtype}, and it takes real ones") from None
    except (IndexError, ValueError) as error:
        kind = InvalidValueError if "norm" in str(error) else ShapeError
        raise kind(f"{function.__name__} of shape {cells.shape}: {error}") from None
    return found


def _along_one(function: Callable[..., Any], what: str, n: str, given: str, shown: str) -> Any:
    def call(
        x: Tensor | ArrayLike, /, *, n: int | None = None, axis: int | str = -1, norm: str = "backward"
    ) -> NDArray[Any]:
        sizes = [] if n is None else [as_integer(n, "n")]
        given = operand(x)
        (along,) = _axes(given, (axis,))
        return _transformed(function, given, sizes, n=n, axis=along, norm=norm)

    return _told(call, function, what, _ONE.format(n=n), given, shown)


def _along_many(function: Callable[..., Any], what: str, n: str, given: str, shown: str) -> Any:
    def call(
        x: Tensor | ArrayLike,
        /,
        *,
        s: tuple[int, ...] | None = None,
        axes: int | str | Sequence[int | str] | None = None,
        norm: str = "backward",
    ) -> NDArray[Any]:
        sizes = None if s is None else as_integers(s, "s")
        given = operand(x)
        last = None if sizes is None else range(-len(sizes), 0)
        along = last if axes is None else _axes(given, axes)
        return _transformed(function, given, sizes or [], s=sizes, axes=along, norm=norm)

    return _told(call, function, what, _MANY.format(n=n), given, shown)


def _told(call: Any, function: Callable[..., Any], what: str, parameters: str, given: str, shown: str) -> Any:
    call.__name__ = call.__qualname__ = name = function.__name__
    call.__doc__ = _DOC.format(name=name, what=what, parameters=parameters, given=given, shown=shown)
    return call


fft = _along_one(
    np.fft.fft, "the discrete Fourier transform along an axis", "go in",
    "[0, 1, 0, 0]", "array([ 1.+0.j,  0.-1.j, -1.+0.j,  0.+1.j])",
)  # fmt: skip
ifft = _along_one(
    np.fft.ifft, "the inverse of :func:`fft` along an axis", "go in",
    "[1, -1j, -1, 1j]", "array([0.+0.j, 1.+0.j, 0.+0.j, 0.+0.j])",
)  # fmt: skip
rfft = _along_one(
    np.fft.rfft, "the transform of real cells along an axis, the half that says all", "go in",
    "[0, 1, 0, 0]", "array([ 1.+0.j,  0.-1.j, -1.+0.j])",
)  # fmt: skip
irfft = _along_one(
    np.fft.irfft, "the inverse of :func:`rfft` along an axis", "come out",
    "[1, -1j, -1]", "array([0., 1., 0., 0.])",
)  # fmt: skip
hfft = _along_one(
    np.fft.hfft, "the real transform of one half of Hermitian cells along an axis", "come out",
    "[1, 1j, -1]", "array([0., 4., 0., 0.])",
)  # fmt: skip
ihfft = _along_one(
    np.fft.ihfft, "the inverse of :func:`hfft` along an axis", "go in",
    "[0, 4, 0, 0]", "array([ 1.-0.j,  0.+1.j, -1.-0.j])",
)  # fmt: skip
fftn = _along_many(
    np.fft.fftn, "the discrete Fourier transform along several axes", "go in",
    "[[0, 1], [0, 0]]", "array([[ 1.+0.j, -1.+0.j],\n       [ 1.+0.j, -1.+0.j]])",
)  # fmt: skip
ifftn = _along_many(
    np.fft.ifftn, "the inverse of :func:`fftn` along several axes", "go in",
    "[[1, -1], [1, -1]]", "array([[0.+0.j, 1.+0.j],\n       [0.+0.j, 0.+0.j]])",
)  # fmt: skip
rfftn = _along_many(
    np.fft.rfftn, "the transform of real cells along several axes, the half that says all", "go in",
    "[[0, 1], [0, 0]]", "array([[ 1.+0.j, -1.+0.j],\n       [ 1.+0.j, -1.+0.j]])",
)  # fmt: skip
irfftn = _along_many(
    np.fft.irfftn, "the inverse of :func:`rfftn` along several axes", "come out",
    "[[1, -1], [1, -1]]", "array([[0., 1.],\n       [0., 0.]])",
)  # fmt: skip


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the frequencies of the cells of a spectrum, those from 0 up first, then the negative ones.

    Parameters
    ----------
    n
        How many cells.
    d
        How far the cells of the signal lie apart.
    dtype
        The type, float64 by default.
    device
        "cpu", or None for it.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If ``n`` is no integer above 0, ``d`` no number other than 0, or there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.fft.fftfreq(4).to_numpy()
    array([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return _frequencies(np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return the frequencies of the cells of a spectrum of real cells.

    Parameters
    ----------
    n
        How many cells the signal has.
    d
        How far they lie apart.
    dtype
        The type, float64 by default.
    device
        "cpu", or None for it.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If ``n`` is no integer above 0, ``d`` no number other than 0, or there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.fft.rfftfreq(4).to_numpy()
    array([0.  , 0.25, 0.5 ])
    """
    return _frequencies(np.fft.rfftfreq, n, d, dtype, device)


def fftshift(x: Tensor | ArrayLike, /, *, axes: int | str | Sequence[int | str] | None = None) -> Tensor:
    """Return a spectrum with the frequency 0 in the middle, lazily and as sparse as it is.

    Parameters
    ----------
    x
        A tensor or array.
    axes
        Along which, by number or the name of a dimension, all by default.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.fft.fftshift(sp.asarray([1, 2, 0, 0, 5])).to_numpy()
    array([0, 5, 1, 2, 0])
    """
    return _shifted(x, axes, lambda n: n // 2)


def ifftshift(x: Tensor | ArrayLike, /, *, axes: int | str | Sequence[int | str] | None = None) -> Tensor:
    """Return what :func:`fftshift` was of, lazily and as sparse as it is.

    Parameters
    ----------
    x
        A tensor or array.
    axes
        Along which, by number or the name of a dimension, all by default.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.fft.ifftshift(sp.asarray([0, 5, 1, 2, 0])).to_numpy()
    array([1, 2, 0, 0, 5])
    """
    return _shifted(x, axes, lambda n: -(n // 2))


def _shifted(x: Any, axes: Any, by: Callable[[int], int]) -> Tensor:
    tensor = as_tensor(x)
    along = _axes(tensor, range(tensor.ndim) if axes is None else axes)
    return roll(tensor, tuple(by(tensor.shape[axis]) for axis in along), along) if along else tensor


def _frequencies(function: Callable[..., Any], n: int, d: float, dtype: DTypeLike | None, device: str | None) -> Tensor:
    check_device(device)
    kind = None if dtype is None else check_dtype(dtype)
    try:
        found = function(n, d)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise InvalidValueError(f"{function.__name__}({n!r}, d={d!r}): {error}") from None
    return as_tensor(found if kind is None else found.astype(kind))
