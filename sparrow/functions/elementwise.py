"""Functions of cells by the names of the array API standard: ``sp.exp(A)``, ``sp.add(A, B)``.

NumPy's own, which find what tensors do with them; here they get the standard's signatures, and words about tensors.
What is no tensor stays as dense as it was: of arrays and numbers the result is NumPy's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.functions.views import as_tensor
from sparrow.runtime.validation import check_unmasked
from sparrow.tensor import Tensor

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "as_factor",
    "as_named_operand",
    "as_operand",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]  # fmt: skip


class OfOne(Protocol):
    """A function of one operand."""

    @overload
    def __call__(self, x: Tensor, /) -> Tensor: ...
    @overload
    def __call__(self, x: ArrayLike, /) -> Any: ...


class OfTwo(Protocol):
    """A function of two operands, whose shapes broadcast."""

    def __call__(self, x1: Tensor | ArrayLike, x2: Tensor | ArrayLike, /) -> Any: ...


def as_factor(obj: Any, what: str) -> Any:
    """Return an operand of a product as a tensor or an array: tables of pandas are their cells, as in ``A @ df``.

    Parameters
    ----------
    obj
        The operand.
    what
        The function and the argument that it is, for errors.

    Raises
    ------
    UnsupportedError
        If it is neither, or cells of it are masked.
    """
    check_unmasked(obj)
    found = as_named_operand(np.asarray(obj) if hasattr(type(obj), "iloc") else obj, what)
    return found if isinstance(found, Tensor) else np.asarray(found)


def as_named_operand(obj: Any, what: str) -> Any:
    """Return what :func:`as_operand` does; of what is none the error says which argument it is.

    Raises
    ------
    UnsupportedError
        If it is none.
    """
    try:
        return as_operand(obj)
    except (InvalidValueError, UnsupportedError) as error:
        if isinstance(error, InvalidValueError) and not isinstance(obj, str):
            raise  # it says which of its numbers are wrong
        given = f"{type(obj).__name__} {obj!r}"
        raise UnsupportedError(f"{what} is {given}: use tensors and arrays of numbers") from error


def as_operand(obj: Any) -> Tensor | NDArray[Any] | complex | np.generic:
    """Return what is given for a tensor: tensors, arrays and numbers as they are, lists as arrays, others as tensors.

    Parameters
    ----------
    obj
        A tensor, array, number, nested list, or whatever else :func:`sparrow.asarray` takes.

    Raises
    ------
    UnsupportedError
        If it is none of these.
    """
    if isinstance(obj, Tensor | bool | int | float | complex):
        return obj
    found = obj
    if isinstance(obj, list | tuple):
        with contextlib.suppress(ValueError):  # what is wrong with it is said below
            found = np.asarray(obj)
    if isinstance(found, np.ndarray | np.generic) and found.dtype.kind in "biufc":
        return found
    return as_tensor(obj)


_DOC_OF_ONE = """Return {what}, lazily.

An absent cell has the fill value, which goes through the function too, so that the result is as sparse as ``x``.

Parameters
----------
x
    A tensor; or an array or a number, of which the result is NumPy's.

Returns
-------
Tensor
    Of the shape of ``x`` and the type that NumPy gives; an array or a number where ``x`` is one.

Raises
------
UnsupportedError
    If ``x`` is none of these, or of a type that the function does not take.

Examples
--------
>>> import numpy as np, sparrow as sp
>>> sp.{name}(sp.asarray({first})).to_numpy()
{shown}
"""

_DOC_OF_TWO = """Return {what}, lazily; shapes broadcast.

An absent cell has the fill value, which goes through the function too{but}.

Parameters
----------
x1, x2
    Tensors, arrays or numbers.

Returns
-------
Tensor
    Of the type that NumPy gives. An array, at once, where one of the two is an array that leaves nothing sparse; an
    array or a number where neither is a tensor.

Raises
------
ShapeError
    If the shapes do not broadcast.
UnsupportedError
    If one is no operand, or of a type that the function does not take.

Examples
--------
>>> import sparrow as sp
>>> sp.{name}(sp.asarray({first}), sp.asarray({second})).to_numpy()
{shown}
"""


def _of_one(name: str, function: Callable[..., Any], what: str, first: str, shown: str) -> OfOne:
    def call(x: Tensor | ArrayLike, /) -> Any:
        return function(as_operand(x))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _DOC_OF_ONE.format(name=name, what=what, first=first, shown=shown)
    return call


def _of_two(name: str, function: Callable[..., Any], what: str, first: str, second: str, shown: str) -> OfTwo:
    def call(x1: Tensor | ArrayLike, x2: Tensor | ArrayLike, /) -> Any:
        return function(as_operand(x1), as_operand(x2))

    call.__name__ = call.__qualname__ = name
    but = "; in a product of arrays one of fill 0 gives 0" if function is np.multiply else ""
    call.__doc__ = _DOC_OF_TWO.format(name=name, what=what, but=but, first=first, second=second, shown=shown)
    return call


abs = _of_one(  # noqa: A001
    "abs", np.abs, "the magnitude of each cell",
    "[[0.0, -1.5]]", "array([[0. , 1.5]])",
)  # fmt: skip
acos = _of_one("acos", np.acos, "the arc cosine of each cell", "[[0.0, 0.5]]", "array([[1.57079633, 1.04719755]])")
acosh = _of_one(
    "acosh", np.acosh, "the inverse hyperbolic cosine of each cell",
    "[[1.0, 2.0]]", "array([[0.       , 1.3169579]])",
)  # fmt: skip
asin = _of_one("asin", np.asin, "the arc sine of each cell", "[[0.0, 0.5]]", "array([[0.        , 0.52359878]])")
asinh = _of_one(
    "asinh", np.asinh, "the inverse hyperbolic sine of each cell",
    "[[0.0, 0.5]]", "array([[0.        , 0.48121183]])",
)  # fmt: skip
atan = _of_one("atan", np.atan, "the arc tangent of each cell", "[[0.0, 0.5]]", "array([[0.        , 0.46364761]])")
atanh = _of_one(
    "atanh", np.atanh, "the inverse hyperbolic tangent of each cell",
    "[[0.0, 0.5]]", "array([[0.        , 0.54930614]])",
)  # fmt: skip
bitwise_invert = _of_one(
    "bitwise_invert", np.bitwise_invert, "each cell with all of its bits turned",
    "[[0, 5]]", "array([[-1, -6]])",
)  # fmt: skip
ceil = _of_one("ceil", np.ceil, "the smallest integer not below each cell", "[[0.0, -1.5]]", "array([[ 0., -1.]])")
conj = _of_one("conj", np.conj, "the complex conjugate of each cell", "[[0, 3 + 4j]]", "array([[0.-0.j, 3.-4.j]])")
cos = _of_one("cos", np.cos, "the cosine of each cell", "[[0.0, 0.5]]", "array([[1.        , 0.87758256]])")
cosh = _of_one(
    "cosh", np.cosh, "the hyperbolic cosine of each cell",
    "[[0.0, 0.5]]", "array([[1.        , 1.12762597]])",
)  # fmt: skip
exp = _of_one("exp", np.exp, "e to the power of each cell", "[[0.0, 2.0]]", "array([[1.       , 7.3890561]])")
expm1 = _of_one(
    "expm1", np.expm1, "e to the power of each cell, less 1",
    "[[0.0, 2.0]]", "array([[0.       , 6.3890561]])",
)  # fmt: skip
floor = _of_one("floor", np.floor, "the largest integer not above each cell", "[[0.0, -1.5]]", "array([[ 0., -2.]])")
imag = _of_one("imag", np.imag, "the imaginary part of each cell", "[[0, 3 + 4j]]", "array([[0., 4.]])")
isfinite = _of_one(
    "isfinite", np.isfinite, "whether each cell is neither infinite nor NaN",
    "[[0, np.inf]]", "array([[ True, False]])",
)  # fmt: skip
isinf = _of_one("isinf", np.isinf, "whether each cell is infinite", "[[0, np.inf]]", "array([[False,  True]])")
isnan = _of_one("isnan", np.isnan, "whether each cell is NaN", "[[0, np.nan]]", "array([[False,  True]])")
log = _of_one("log", np.log, "the natural logarithm of each cell", "[[1.0, 2.0]]", "array([[0.        , 0.69314718]])")
log10 = _of_one("log10", np.log10, "the logarithm of each cell to base 10", "[[1.0, 100.0]]", "array([[0., 2.]])")
log1p = _of_one(
    "log1p", np.log1p, "the natural logarithm of each cell plus 1",
    "[[0.0, 2.0]]", "array([[0.        , 1.09861229]])",
)  # fmt: skip
log2 = _of_one("log2", np.log2, "the logarithm of each cell to base 2", "[[1.0, 8.0]]", "array([[0., 3.]])")
logical_not = _of_one(
    "logical_not", np.logical_not, "whether each cell is False, or 0",
    "[[False, True]]", "array([[ True, False]])",
)  # fmt: skip
negative = _of_one("negative", np.negative, "each cell with the other sign", "[[0.0, -1.5]]", "array([[-0. ,  1.5]])")
positive = _of_one("positive", np.positive, "each cell as it is, a number", "[[0.0, -1.5]]", "array([[ 0. , -1.5]])")
real = _of_one("real", np.real, "the real part of each cell", "[[0, 3 + 4j]]", "array([[0., 3.]])")
reciprocal = _of_one(
    "reciprocal", np.reciprocal, "the reciprocal of each cell",
    "[[1.0, 4.0]]", "array([[1.  , 0.25]])",
)  # fmt: skip
round = _of_one(  # noqa: A001
    "round", np.round, "the integer nearest to each cell, of two the even one",
    "[[0.0, -1.5]]", "array([[ 0., -2.]])",
)  # fmt: skip
sign = _of_one(
    "sign", np.sign, "the sign of each cell: -1, 0 or 1, of a complex one itself over its magnitude",
    "[[0.0, -1.5]]", "array([[ 0., -1.]])",
)  # fmt: skip
signbit = _of_one(
    "signbit", np.signbit, "whether each cell is negative, or minus 0",
    "[[0.0, -1.5]]", "array([[False,  True]])",
)  # fmt: skip
sin = _of_one("sin", np.sin, "the sine of each cell", "[[0.0, 0.5]]", "array([[0.        , 0.47942554]])")
sinh = _of_one("sinh", np.sinh, "the hyperbolic sine of each cell", "[[0.0, 0.5]]", "array([[0.        , 0.52109531]])")
sqrt = _of_one("sqrt", np.sqrt, "the square root of each cell", "[[0.0, 2.0]]", "array([[0.        , 1.41421356]])")
square = _of_one("square", np.square, "the square of each cell", "[[0.0, -1.5]]", "array([[0.  , 2.25]])")
tan = _of_one("tan", np.tan, "the tangent of each cell", "[[0.0, 0.5]]", "array([[0.        , 0.54630249]])")
tanh = _of_one(
    "tanh", np.tanh, "the hyperbolic tangent of each cell",
    "[[0.0, 0.5]]", "array([[0.        , 0.46211716]])",
)  # fmt: skip
trunc = _of_one("trunc", np.trunc, "the integer part of each cell", "[[0.0, -1.5]]", "array([[ 0., -1.]])")
add = _of_two("add", np.add, "the sum of two cells", "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[0., 5.]])")
atan2 = _of_two(
    "atan2", np.atan2, "the angle of the point whose ordinate is the first cell and whose abscissa is the second",
    "[[0.0, 1.0]]", "[[0.0, 1.0]]", "array([[0.        , 0.78539816]])",
)  # fmt: skip
bitwise_and = _of_two(
    "bitwise_and", np.bitwise_and, "the bits that are set in both cells",
    "[[0, 5]]", "[[0, 6]]", "array([[0, 4]])",
)  # fmt: skip
bitwise_left_shift = _of_two(
    "bitwise_left_shift", np.bitwise_left_shift, "the bits of the first cell moved up by the second",
    "[[0, 5]]", "[[0, 1]]", "array([[ 0, 10]])",
)  # fmt: skip
bitwise_or = _of_two(
    "bitwise_or", np.bitwise_or, "the bits that are set in either cell",
    "[[0, 5]]", "[[0, 6]]", "array([[0, 7]])",
)  # fmt: skip
bitwise_right_shift = _of_two(
    "bitwise_right_shift", np.bitwise_right_shift, "the bits of the first cell moved down by the second",
    "[[0, 5]]", "[[0, 1]]", "array([[0, 2]])",
)  # fmt: skip
bitwise_xor = _of_two(
    "bitwise_xor", np.bitwise_xor, "the bits that are set in one of two cells alone",
    "[[0, 5]]", "[[0, 6]]", "array([[0, 3]])",
)  # fmt: skip
copysign = _of_two(
    "copysign", np.copysign, "the magnitude of the first cell with the sign of the second",
    "[[0.0, 2.0]]", "[[0.0, -3.0]]", "array([[ 0., -2.]])",
)  # fmt: skip
divide = _of_two(
    "divide", np.divide, "the quotient of two cells",
    "[[0.0, 2.0]]", "[[1.0, 4.0]]", "array([[0. , 0.5]])",
)  # fmt: skip
equal = _of_two(
    "equal", np.equal, "whether two cells are equal",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[ True, False]])",
)  # fmt: skip
floor_divide = _of_two(
    "floor_divide", np.floor_divide, "the largest integer not above the quotient of two cells",
    "[[0, 7]]", "[[1, 2]]", "array([[0, 3]])",
)  # fmt: skip
greater = _of_two(
    "greater", np.greater, "whether the first cell is the greater",
    "[[0.0, 2.0]]", "[[0.0, 1.0]]", "array([[False,  True]])",
)  # fmt: skip
greater_equal = _of_two(
    "greater_equal", np.greater_equal, "whether the first cell is the greater, or both are equal",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[ True, False]])",
)  # fmt: skip
hypot = _of_two(
    "hypot", np.hypot, "the root of the sum of the squares of two cells",
    "[[0.0, 3.0]]", "[[0.0, 4.0]]", "array([[0., 5.]])",
)  # fmt: skip
less = _of_two(
    "less", np.less, "whether the first cell is the less",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[False,  True]])",
)  # fmt: skip
less_equal = _of_two(
    "less_equal", np.less_equal, "whether the first cell is the less, or both are equal",
    "[[0.0, 2.0]]", "[[0.0, 1.0]]", "array([[ True, False]])",
)  # fmt: skip
logaddexp = _of_two(
    "logaddexp", np.logaddexp, "the logarithm of the sum of e to the power of each of two cells",
    "[[0.0, 2.0]]", "[[0.0, 2.0]]", "array([[0.69314718, 2.69314718]])",
)  # fmt: skip
logical_and = _of_two(
    "logical_and", np.logical_and, "whether both cells are True, or not 0",
    "[[False, True]]", "[[False, True]]", "array([[False,  True]])",
)  # fmt: skip
logical_or = _of_two(
    "logical_or", np.logical_or, "whether either cell is True, or not 0",
    "[[False, True]]", "[[True, False]]", "array([[ True,  True]])",
)  # fmt: skip
logical_xor = _of_two(
    "logical_xor", np.logical_xor, "whether one of two cells alone is True, or not 0",
    "[[False, True]]", "[[True, True]]", "array([[ True, False]])",
)  # fmt: skip
maximum = _of_two(
    "maximum", np.maximum, "the larger of two cells, NaN where one is NaN",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[0., 3.]])",
)  # fmt: skip
minimum = _of_two(
    "minimum", np.minimum, "the smaller of two cells, NaN where one is NaN",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[0., 2.]])",
)  # fmt: skip
multiply = _of_two(
    "multiply", np.multiply, "the product of two cells",
    "[[0.0, 2.0]]", "[[1.0, 3.0]]", "array([[0., 6.]])",
)  # fmt: skip
nextafter = _of_two(
    "nextafter", np.nextafter, "the number of its type that follows the first cell towards the second",
    "[[0.0, 1.0]]", "[[0.0, 1.0]]", "array([[0., 1.]])",
)  # fmt: skip
not_equal = _of_two(
    "not_equal", np.not_equal, "whether two cells differ",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[False,  True]])",
)  # fmt: skip
pow = _of_two(  # noqa: A001
    "pow", np.pow, "the first cell to the power of the second",
    "[[0.0, 2.0]]", "[[1.0, 3.0]]", "array([[0., 8.]])",
)  # fmt: skip
remainder = _of_two(
    "remainder", np.remainder, "what the division of two cells leaves, of the sign of the second",
    "[[0, 7]]", "[[1, 4]]", "array([[0, 3]])",
)  # fmt: skip
subtract = _of_two(
    "subtract", np.subtract, "the difference of two cells",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[ 0., -1.]])",
)  # fmt: skip


def clip(x: Tensor | ArrayLike, /, min: Any = None, max: Any = None) -> Any:
    """Return each cell limited to the interval from ``min`` to ``max``, lazily; shapes broadcast.

    An absent cell has the fill value, which is limited too, so that the result is as sparse as ``x``.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    min, max
        The limits, numbers, arrays or tensors; None for no limit.

    Returns
    -------
    Tensor
        Of the type that NumPy gives; an array, at once, where a limit is an array.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    UnsupportedError
        If one is no operand, or complex.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.clip(sp.asarray([[0, -5, 7]]), -1, 2).to_numpy()
    array([[ 0, -1,  2]])
    """
    cells, low, high = as_operand(x), *(None if limit is None else as_operand(limit) for limit in (min, max))
    if any(isinstance(one, Tensor) for one in (cells, low, high)):
        return as_tensor(cells).clip(low, high)
    return np.clip(cells, low, high)
