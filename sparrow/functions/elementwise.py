"""Element-wise functions of the array API standard: ``sp.exp(A)``, ...

Each calls NumPy's function, which dispatches to tensors, with the signature of the standard. The result for arrays and
numbers is NumPy's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.functions.views import as_tensor
from sparrow.interop.labelled_objects import is_polars
from sparrow.runtime.validation import check_unmasked
from sparrow.tensor import Tensor

__all__ = [
    "abs", "acos", "acosh", "add", "as_factor", "as_named_operand", "as_operand", "asin", "asinh", "atan", "atan2",
    "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "ceil", "clip", "conj", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide",
    "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log1p",
    "log2", "log10", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum",
    "multiply", "negative", "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round",
    "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip


class UnaryFunction(Protocol):
    """Element-wise function of one operand."""

    @overload
    def __call__(self, x: Tensor, /) -> Tensor: ...
    @overload
    def __call__(self, x: ArrayLike, /) -> Any: ...


class BinaryFunction(Protocol):
    """Element-wise function of two operands whose shapes broadcast."""

    def __call__(self, x1: Tensor | ArrayLike, x2: Tensor | ArrayLike, /) -> Any: ...


def as_factor(obj: Any, what: str) -> Any:
    """Return an operand of a product as a tensor or an array.

    Tables of pandas are converted to their values.

    Parameters
    ----------
    obj
        The operand.
    what
        Name of the function and the argument, for errors.

    Raises
    ------
    UnsupportedError
        If it is neither, or has masked elements.
    """
    check_unmasked(obj)
    found = as_named_operand(np.asarray(obj) if hasattr(type(obj), "iloc") else obj, what)
    return found if isinstance(found, Tensor) else np.asarray(found)


def as_named_operand(obj: Any, what: str) -> Any:
    """Return :func:`as_operand`; errors name the argument."""
    try:
        return as_operand(obj)
    except (InvalidValueError, UnsupportedError) as error:
        if isinstance(error, InvalidValueError) and not isinstance(obj, str):
            raise  # the message names the wrong number
        given = f"{type(obj).__name__}: pass its to_numpy()" if is_polars(obj) else f"{type(obj).__name__} {obj!r}"
        raise UnsupportedError(f"{what} must be a tensor or a numeric array, got {given}") from error


def as_operand(obj: Any) -> Tensor | NDArray[Any] | complex | np.generic:
    """Return an operand as a tensor, an array or a number.

    Lists become arrays; objects of other kinds become tensors.

    Parameters
    ----------
    obj
        Tensor, array, number, nested list, or anything else :func:`sparrow.asarray` accepts.

    Raises
    ------
    UnsupportedError
        If it is of another kind.
    """
    if isinstance(obj, Tensor | bool | int | float | complex):
        return obj
    check_unmasked(obj)
    found = obj
    if isinstance(obj, list | tuple):
        with contextlib.suppress(ValueError):  # as_tensor raises a better error
            found = np.asarray(obj)
    if isinstance(found, np.ndarray | np.generic) and found.dtype.kind in "biufc":
        return found
    return as_tensor(obj)


_UNARY_DOC = """Return {what}.

The result is lazy. The function applies to the fill value too, so that the result is as sparse as ``x``.

Parameters
----------
x
    Tensor, or anything :func:`sparrow.asarray` accepts; the result for arrays and numbers is NumPy's.

Returns
-------
Tensor
    Of the shape of ``x`` and NumPy's dtype.

Raises
------
UnsupportedError
    If ``x`` cannot be converted, or the function does not support its dtype.

Examples
--------
>>> import numpy as np, sparrow as sp
>>> sp.{name}(sp.asarray({x})).to_numpy()
{result}
"""

_BINARY_DOC = """Return {what}.

The result is lazy, and shapes broadcast. The function applies to the fill value too{except_products}.

Parameters
----------
x1, x2
    Tensors, arrays or numbers.

Returns
-------
Tensor
    Of NumPy's dtype. An array, at once, if an array operand leaves nothing sparse; NumPy's result if neither operand is
    a tensor.

Raises
------
ShapeError
    If the shapes do not broadcast.
UnsupportedError
    If one is not an operand, or the function does not support its dtype.

Examples
--------
>>> import sparrow as sp
>>> sp.{name}(sp.asarray({x1}), sp.asarray({x2})).to_numpy()
{result}
"""


def _unary(name: str, function: Callable[..., Any], what: str, x: str, result: str) -> UnaryFunction:
    """Return NumPy's function with the standard's signature and an example."""

    def call(x: Tensor | ArrayLike, /) -> Any:
        return function(as_operand(x))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _UNARY_DOC.format(name=name, what=what, x=x, result=result)
    return call


def _binary(name: str, function: Callable[..., Any], what: str, x1: str, x2: str, result: str) -> BinaryFunction:
    """Return NumPy's function with the standard's signature and an example."""

    def call(x1: Tensor | ArrayLike, x2: Tensor | ArrayLike, /) -> Any:
        return function(as_operand(x1), as_operand(x2))

    call.__name__ = call.__qualname__ = name
    exception = "; in a product with an array an absent element of fill 0 gives 0" if function is np.multiply else ""
    call.__doc__ = _BINARY_DOC.format(name=name, what=what, except_products=exception, x1=x1, x2=x2, result=result)
    return call


abs = _unary("abs", np.abs, "the magnitude of each element", "[[0.0, -1.5]]", "array([[0. , 1.5]])")  # noqa: A001
acos = _unary("acos", np.acos, "the arc cosine of each element", "[[0.0, 0.5]]", "array([[1.57079633, 1.04719755]])")
acosh = _unary(
    "acosh", np.acosh, "the inverse hyperbolic cosine of each element",
    "[[1.0, 2.0]]", "array([[0.       , 1.3169579]])",
)  # fmt: skip
asin = _unary("asin", np.asin, "the arc sine of each element", "[[0.0, 0.5]]", "array([[0.        , 0.52359878]])")
asinh = _unary(
    "asinh", np.asinh, "the inverse hyperbolic sine of each element",
    "[[0.0, 0.5]]", "array([[0.        , 0.48121183]])",
)  # fmt: skip
atan = _unary("atan", np.atan, "the arc tangent of each element", "[[0.0, 0.5]]", "array([[0.        , 0.46364761]])")
atanh = _unary(
    "atanh", np.atanh, "the inverse hyperbolic tangent of each element",
    "[[0.0, 0.5]]", "array([[0.        , 0.54930614]])",
)  # fmt: skip
bitwise_invert = _unary(
    "bitwise_invert", np.bitwise_invert, "each element with all bits inverted",
    "[[0, 5]]", "array([[-1, -6]])",
)  # fmt: skip
ceil = _unary(
    "ceil", np.ceil, "the smallest integer not less than each element",
    "[[0.0, -1.5]]", "array([[ 0., -1.]])",
)  # fmt: skip
conj = _unary("conj", np.conj, "the complex conjugate of each element", "[[0, 3 + 4j]]", "array([[0.-0.j, 3.-4.j]])")
cos = _unary("cos", np.cos, "the cosine of each element", "[[0.0, 0.5]]", "array([[1.        , 0.87758256]])")
cosh = _unary(
    "cosh", np.cosh, "the hyperbolic cosine of each element",
    "[[0.0, 0.5]]", "array([[1.        , 1.12762597]])",
)  # fmt: skip
exp = _unary("exp", np.exp, "the exponential of each element", "[[0.0, 2.0]]", "array([[1.       , 7.3890561]])")
expm1 = _unary(
    "expm1", np.expm1, "the exponential of each element, minus 1",
    "[[0.0, 2.0]]", "array([[0.       , 6.3890561]])",
)  # fmt: skip
floor = _unary(
    "floor", np.floor, "the largest integer not greater than each element",
    "[[0.0, -1.5]]", "array([[ 0., -2.]])",
)  # fmt: skip
imag = _unary("imag", np.imag, "the imaginary part of each element", "[[0, 3 + 4j]]", "array([[0., 4.]])")
isfinite = _unary(
    "isfinite", np.isfinite, "whether each element is neither infinite nor NaN",
    "[[0, np.inf]]", "array([[ True, False]])",
)  # fmt: skip
isinf = _unary("isinf", np.isinf, "whether each element is infinite", "[[0, np.inf]]", "array([[False,  True]])")
isnan = _unary("isnan", np.isnan, "whether each element is NaN", "[[0, np.nan]]", "array([[False,  True]])")
log = _unary(
    "log", np.log, "the natural logarithm of each element",
    "[[1.0, 2.0]]", "array([[0.        , 0.69314718]])",
)  # fmt: skip
log10 = _unary("log10", np.log10, "the logarithm of each element to base 10", "[[1.0, 100.0]]", "array([[0., 2.]])")
log1p = _unary(
    "log1p", np.log1p, "the natural logarithm of 1 plus each element",
    "[[0.0, 2.0]]", "array([[0.        , 1.09861229]])",
)  # fmt: skip
log2 = _unary("log2", np.log2, "the logarithm of each element to base 2", "[[1.0, 8.0]]", "array([[0., 3.]])")
logical_not = _unary(
    "logical_not", np.logical_not, "whether each element is False or 0",
    "[[False, True]]", "array([[ True, False]])",
)  # fmt: skip
negative = _unary("negative", np.negative, "the negative of each element", "[[0.0, -1.5]]", "array([[-0. ,  1.5]])")
positive = _unary("positive", np.positive, "each element unchanged", "[[0.0, -1.5]]", "array([[ 0. , -1.5]])")
real = _unary("real", np.real, "the real part of each element", "[[0, 3 + 4j]]", "array([[0., 3.]])")
reciprocal = _unary(
    "reciprocal", np.reciprocal, "the reciprocal of each element",
    "[[1.0, 4.0]]", "array([[1.  , 0.25]])",
)  # fmt: skip
round = _unary(  # noqa: A001
    "round", np.round, "each element rounded to the nearest integer, ties to even",
    "[[0.0, -1.5]]", "array([[ 0., -2.]])",
)  # fmt: skip
sign = _unary(
    "sign", np.sign, "the sign of each element, -1, 0 or 1; x / abs(x) for complex ones",
    "[[0.0, -1.5]]", "array([[ 0., -1.]])",
)  # fmt: skip
signbit = _unary(
    "signbit", np.signbit, "whether the sign bit of each element is set, as it is for -0.0",
    "[[0.0, -1.5]]", "array([[False,  True]])",
)  # fmt: skip
sin = _unary("sin", np.sin, "the sine of each element", "[[0.0, 0.5]]", "array([[0.        , 0.47942554]])")
sinh = _unary(
    "sinh", np.sinh, "the hyperbolic sine of each element",
    "[[0.0, 0.5]]", "array([[0.        , 0.52109531]])",
)  # fmt: skip
sqrt = _unary("sqrt", np.sqrt, "the square root of each element", "[[0.0, 2.0]]", "array([[0.        , 1.41421356]])")
square = _unary("square", np.square, "the square of each element", "[[0.0, -1.5]]", "array([[0.  , 2.25]])")
tan = _unary("tan", np.tan, "the tangent of each element", "[[0.0, 0.5]]", "array([[0.        , 0.54630249]])")
tanh = _unary(
    "tanh", np.tanh, "the hyperbolic tangent of each element",
    "[[0.0, 0.5]]", "array([[0.        , 0.46211716]])",
)  # fmt: skip
trunc = _unary("trunc", np.trunc, "the integer part of each element", "[[0.0, -1.5]]", "array([[ 0., -1.]])")
add = _binary("add", np.add, "the sum of two elements", "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[0., 5.]])")
atan2 = _binary(
    "atan2", np.atan2, "the angle of the point with ordinate ``x1`` and abscissa ``x2``",
    "[[0.0, 1.0]]", "[[0.0, 1.0]]", "array([[0.        , 0.78539816]])",
)  # fmt: skip
bitwise_and = _binary(
    "bitwise_and", np.bitwise_and, "the bits set in both elements",
    "[[0, 5]]", "[[0, 6]]", "array([[0, 4]])",
)  # fmt: skip
bitwise_left_shift = _binary(
    "bitwise_left_shift", np.bitwise_left_shift, "the bits of the first element shifted left by the second",
    "[[0, 5]]", "[[0, 1]]", "array([[ 0, 10]])",
)  # fmt: skip
bitwise_or = _binary(
    "bitwise_or", np.bitwise_or, "the bits set in either element",
    "[[0, 5]]", "[[0, 6]]", "array([[0, 7]])",
)  # fmt: skip
bitwise_right_shift = _binary(
    "bitwise_right_shift", np.bitwise_right_shift, "the bits of the first element shifted right by the second",
    "[[0, 5]]", "[[0, 1]]", "array([[0, 2]])",
)  # fmt: skip
bitwise_xor = _binary(
    "bitwise_xor", np.bitwise_xor, "the bits set in exactly one of two elements",
    "[[0, 5]]", "[[0, 6]]", "array([[0, 3]])",
)  # fmt: skip
copysign = _binary(
    "copysign", np.copysign, "the magnitude of the first element with the sign of the second",
    "[[0.0, 2.0]]", "[[0.0, -3.0]]", "array([[ 0., -2.]])",
)  # fmt: skip
divide = _binary(
    "divide", np.divide, "the quotient of two elements",
    "[[0.0, 2.0]]", "[[1.0, 4.0]]", "array([[0. , 0.5]])",
)  # fmt: skip
equal = _binary(
    "equal", np.equal, "whether two elements are equal",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[ True, False]])",
)  # fmt: skip
floor_divide = _binary(
    "floor_divide", np.floor_divide, "the largest integer not greater than the quotient of two elements",
    "[[0, 7]]", "[[1, 2]]", "array([[0, 3]])",
)  # fmt: skip
greater = _binary(
    "greater", np.greater, "whether the first element is greater",
    "[[0.0, 2.0]]", "[[0.0, 1.0]]", "array([[False,  True]])",
)  # fmt: skip
greater_equal = _binary(
    "greater_equal", np.greater_equal, "whether the first element is greater or equal",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[ True, False]])",
)  # fmt: skip
hypot = _binary(
    "hypot", np.hypot, "the square root of the sum of the squares of two elements",
    "[[0.0, 3.0]]", "[[0.0, 4.0]]", "array([[0., 5.]])",
)  # fmt: skip
less = _binary(
    "less", np.less, "whether the first element is less",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[False,  True]])",
)  # fmt: skip
less_equal = _binary(
    "less_equal", np.less_equal, "whether the first element is less or equal",
    "[[0.0, 2.0]]", "[[0.0, 1.0]]", "array([[ True, False]])",
)  # fmt: skip
logaddexp = _binary(
    "logaddexp", np.logaddexp, "the logarithm of the sum of the exponentials of two elements",
    "[[0.0, 2.0]]", "[[0.0, 2.0]]", "array([[0.69314718, 2.69314718]])",
)  # fmt: skip
logical_and = _binary(
    "logical_and", np.logical_and, "whether both elements are non-zero",
    "[[False, True]]", "[[False, True]]", "array([[False,  True]])",
)  # fmt: skip
logical_or = _binary(
    "logical_or", np.logical_or, "whether either element is non-zero",
    "[[False, True]]", "[[True, False]]", "array([[ True,  True]])",
)  # fmt: skip
logical_xor = _binary(
    "logical_xor", np.logical_xor, "whether exactly one of two elements is non-zero",
    "[[False, True]]", "[[True, True]]", "array([[ True, False]])",
)  # fmt: skip
maximum = _binary(
    "maximum", np.maximum, "the larger of two elements; NaN if one is NaN",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[0., 3.]])",
)  # fmt: skip
minimum = _binary(
    "minimum", np.minimum, "the smaller of two elements; NaN if one is NaN",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[0., 2.]])",
)  # fmt: skip
multiply = _binary(
    "multiply", np.multiply, "the product of two elements",
    "[[0.0, 2.0]]", "[[1.0, 3.0]]", "array([[0., 6.]])",
)  # fmt: skip
nextafter = _binary(
    "nextafter", np.nextafter, "the next number after the first element towards the second",
    "[[0.0, 1.0]]", "[[0.0, 1.0]]", "array([[0., 1.]])",
)  # fmt: skip
not_equal = _binary(
    "not_equal", np.not_equal, "whether two elements differ",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[False,  True]])",
)  # fmt: skip
pow = _binary(  # noqa: A001
    "pow", np.pow, "the first element to the power of the second",
    "[[0.0, 2.0]]", "[[1.0, 3.0]]", "array([[0., 8.]])",
)  # fmt: skip
remainder = _binary(
    "remainder", np.remainder, "the remainder of a division, with the sign of the divisor",
    "[[0, 7]]", "[[1, 4]]", "array([[0, 3]])",
)  # fmt: skip
subtract = _binary(
    "subtract", np.subtract, "the difference of two elements",
    "[[0.0, 2.0]]", "[[0.0, 3.0]]", "array([[ 0., -1.]])",
)  # fmt: skip


def clip(x: Tensor | ArrayLike, /, min: Any = None, max: Any = None) -> Any:
    """Limit the elements to an interval, lazily; shapes broadcast.

    The fill value is limited too, so that the result is as sparse as ``x``.

    Parameters
    ----------
    x
        Tensor, or anything :func:`sparrow.asarray` accepts; the result for arrays and numbers is NumPy's.
    min, max
        Numbers, arrays or tensors; None for no limit.

    Returns
    -------
    Tensor
        Of NumPy's dtype; an array, at once, if a limit is an array.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    UnsupportedError
        If one is not an operand, or complex.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.clip(sp.asarray([[0, -5, 7]]), -1, 2).to_numpy()
    array([[ 0, -1,  2]])
    """
    values, low, high = as_operand(x), *(None if limit is None else as_operand(limit) for limit in (min, max))
    if any(isinstance(one, Tensor) for one in (values, low, high)):
        return as_tensor(values).clip(low, high)
    return np.clip(values, low, high)
