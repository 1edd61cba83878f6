"""Element-wise functions in SQL: a table from ufuncs to expressions.

A function runs in the dtypes of NumPy's own loop (``ufunc.resolve_dtypes``). Integers are computed in 128 bits, where
nothing overflows, and wrapped as NumPy wraps; DuckDB would raise. DuckDB orders NaN after all numbers and equal to
itself, so comparisons test ``isnan``. Functions that libraries round differently (``exp``, ``sin``, ...) agree up to
rounding, all others bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparrow.engines.duckdb.types import UnsupportedInSQL, cast, literal, sql_type, wrap_integer
from sparrow.plan import Cast, Clip, Round, function_name

__all__ = ["FUNCTIONS", "function_sql"]

NATIVE = "native"
"""The expression has the dtype of the loop."""
WRAPPED = "wrapped"
"""Operands are 128-bit integers, and the result is wrapped."""
DOUBLE = "double"
"""The expression is a double, whatever the floats of the loop."""

_FLOORED = "{0} - (({0} % nullif({1}, 0)) + {1}) % nullif({1}, 0)"
_REMAINDER = "CASE WHEN {0} % {1} <> 0 AND ({0} % {1} < 0) <> ({1} < 0) THEN {0} % {1} + {1} ELSE {0} % {1} END"
# NumPy's algorithm, without a rounding error that floor would turn into a difference of 1.
_QUOTIENT = "(({0} - {0} % {1}) / {1} - CASE WHEN {0} % {1} <> 0 AND ({0} % {1} < 0) <> ({1} < 0) THEN 1 ELSE 0 END)"
_FLOAT_FLOORED = (
    f"CASE WHEN {{1}} = 0 THEN {{0}} / {{1}} WHEN {_QUOTIENT} - floor({_QUOTIENT}) > 0.5 THEN floor({_QUOTIENT}) + 1 "
    f"ELSE floor({_QUOTIENT}) END"
)
# exp(x) - 1 and ln(1 + x) lose all digits near 0: expm1 by sinh, log1p by Kahan's correction.
_EXPM1 = "CASE WHEN abs({0}) < 1 THEN 2 * exp({0} / 2) * sinh({0} / 2) ELSE exp({0}) - 1 END"
_LOG1P = (
    "CASE WHEN 1 + {0} = 1 THEN {0} WHEN abs({0}) < 1 THEN ln(1 + {0}) * {0} / ((1 + {0}) - 1) ELSE ln(1 + {0}) END"
)
_LARGER, _SMALLER = "greatest(abs({0}), abs({1}))", "least(abs({0}), abs({1}))"
_HYPOT = (
    f"CASE WHEN isinf({{0}}) OR isinf({{1}}) THEN CAST('inf' AS DOUBLE) WHEN {_LARGER} = 0 THEN 0 "
    f"ELSE {_LARGER} * sqrt(1 + pow({_SMALLER} / {_LARGER}, 2)) END"
)


def _above(sign: str) -> str:
    """Return a comparison that is false for NaN, DuckDB's largest number."""
    return f"({{0}} {sign} {{1}} AND NOT isnan({{{0 if '>' in sign else 1}}}))"


FUNCTIONS: dict[Any, dict[str, tuple[str, str]]] = {
    np.add: {"b": (NATIVE, "({0} OR {1})"), "iu": (WRAPPED, "({0} + {1})"), "f": (NATIVE, "({0} + {1})")},
    np.subtract: {"iu": (WRAPPED, "({0} - {1})"), "f": (NATIVE, "({0} - {1})")},
    np.multiply: {"b": (NATIVE, "({0} AND {1})"), "iu": (WRAPPED, "({0} * {1})"), "f": (NATIVE, "({0} * {1})")},
    np.true_divide: {"f": (NATIVE, "({0} / {1})")},
    np.floor_divide: {
        "iu": (WRAPPED, f"coalesce(({_FLOORED}) // nullif({{1}}, 0), 0)"),
        "f": (NATIVE, _FLOAT_FLOORED),
    },
    np.remainder: {
        "iu": (WRAPPED, "coalesce((({0} % nullif({1}, 0)) + {1}) % nullif({1}, 0), 0)"),
        "f": (NATIVE, _REMAINDER),
    },
    np.fmod: {"iu": (WRAPPED, "coalesce({0} % nullif({1}, 0), 0)"), "f": (NATIVE, "({0} % {1})")},
    np.power: {"f": (DOUBLE, "pow({0}, {1})")},
    np.float_power: {"f": (DOUBLE, "pow({0}, {1})")},
    np.negative: {"iu": (WRAPPED, "(-{0})"), "f": (NATIVE, "(-{0})")},
    np.positive: {"iuf": (NATIVE, "{0}")},
    np.conjugate: {"iuf": (NATIVE, "{0}")},
    np.absolute: {"b": (NATIVE, "{0}"), "iu": (WRAPPED, "abs({0})"), "f": (NATIVE, "abs({0})")},
    np.fabs: {"f": (NATIVE, "abs({0})")},
    np.sign: {"iu": (NATIVE, "sign({0})"), "f": (NATIVE, "CASE WHEN isnan({0}) THEN {0} ELSE sign({0}) END")},
    np.square: {"iu": (WRAPPED, "({0} * {0})"), "f": (NATIVE, "({0} * {0})")},
    np.reciprocal: {"f": (NATIVE, "(1 / {0})")},
    np.sqrt: {"f": (DOUBLE, "sqrt({0})")},
    np.cbrt: {"f": (DOUBLE, "cbrt({0})")},
    np.exp: {"f": (DOUBLE, "exp({0})")},
    np.exp2: {"f": (DOUBLE, "pow(2, {0})")},
    np.expm1: {"f": (DOUBLE, _EXPM1)},
    np.log1p: {"f": (DOUBLE, _LOG1P)},
    np.log: {"f": (DOUBLE, "ln({0})")},
    np.log2: {"f": (DOUBLE, "log2({0})")},
    np.log10: {"f": (DOUBLE, "log10({0})")},
    np.sin: {"f": (DOUBLE, "sin({0})")},
    np.cos: {"f": (DOUBLE, "cos({0})")},
    np.tan: {"f": (DOUBLE, "tan({0})")},
    np.arcsin: {"f": (DOUBLE, "asin({0})")},
    np.arccos: {"f": (DOUBLE, "acos({0})")},
    np.arctan: {"f": (DOUBLE, "atan({0})")},
    np.arctan2: {"f": (DOUBLE, "atan2({0}, {1})")},
    np.sinh: {"f": (DOUBLE, "sinh({0})")},
    np.cosh: {"f": (DOUBLE, "cosh({0})")},
    np.tanh: {"f": (DOUBLE, "tanh({0})")},
    np.arcsinh: {"f": (DOUBLE, "asinh({0})")},
    np.arccosh: {"f": (DOUBLE, "acosh({0})")},
    np.arctanh: {"f": (DOUBLE, "atanh({0})")},
    np.degrees: {"f": (DOUBLE, "degrees({0})")},
    np.rad2deg: {"f": (DOUBLE, "degrees({0})")},
    np.radians: {"f": (DOUBLE, "radians({0})")},
    np.deg2rad: {"f": (DOUBLE, "radians({0})")},
    np.hypot: {"f": (DOUBLE, _HYPOT)},
    np.floor: {"biu": (NATIVE, "{0}"), "f": (NATIVE, "floor({0})")},
    np.ceil: {"biu": (NATIVE, "{0}"), "f": (NATIVE, "ceil({0})")},
    np.trunc: {"biu": (NATIVE, "{0}"), "f": (NATIVE, "trunc({0})")},
    np.rint: {"f": (NATIVE, "round_even({0}, 0)")},
    np.isnan: {"biu": (NATIVE, "false"), "f": (NATIVE, "isnan({0})")},
    np.isinf: {"biu": (NATIVE, "false"), "f": (NATIVE, "isinf({0})")},
    np.isfinite: {"biu": (NATIVE, "true"), "f": (NATIVE, "isfinite({0})")},
    np.signbit: {"f": (NATIVE, "signbit({0})")},
    np.copysign: {"f": (NATIVE, "CASE WHEN signbit({1}) THEN -abs({0}) ELSE abs({0}) END")},
    np.heaviside: {
        "f": (NATIVE, "CASE WHEN isnan({0}) THEN {0} WHEN {0} = 0 THEN {1} WHEN {0} < 0 THEN 0 ELSE 1 END"),
    },
    np.less: {"biu": (NATIVE, "({0} < {1})"), "f": (NATIVE, _above("<"))},
    np.less_equal: {"biu": (NATIVE, "({0} <= {1})"), "f": (NATIVE, _above("<="))},
    np.greater: {"biu": (NATIVE, "({0} > {1})"), "f": (NATIVE, _above(">"))},
    np.greater_equal: {"biu": (NATIVE, "({0} >= {1})"), "f": (NATIVE, _above(">="))},
    np.equal: {"biu": (NATIVE, "({0} = {1})"), "f": (NATIVE, "({0} = {1} AND NOT isnan({0}))")},
    np.not_equal: {"biu": (NATIVE, "({0} <> {1})"), "f": (NATIVE, "({0} <> {1} OR isnan({0}))")},
    np.maximum: {"b": (NATIVE, "({0} OR {1})"), "iuf": (NATIVE, "greatest({0}, {1})")},
    np.fmax: {"b": (NATIVE, "({0} OR {1})"), "iu": (NATIVE, "greatest({0}, {1})"),
              "f": (NATIVE, "CASE WHEN isnan({0}) THEN {1} WHEN isnan({1}) THEN {0} ELSE greatest({0}, {1}) END")},
    np.minimum: {"b": (NATIVE, "({0} AND {1})"), "iu": (NATIVE, "least({0}, {1})"),
                 "f": (NATIVE, "CASE WHEN isnan({0}) THEN {0} WHEN isnan({1}) THEN {1} ELSE least({0}, {1}) END")},
    np.fmin: {"b": (NATIVE, "({0} AND {1})"), "iuf": (NATIVE, "least({0}, {1})")},
    np.logical_and: {"b": (NATIVE, "({0} AND {1})"), "iuf": (NATIVE, "({0} <> 0 AND {1} <> 0)")},
    np.logical_or: {"b": (NATIVE, "({0} OR {1})"), "iuf": (NATIVE, "({0} <> 0 OR {1} <> 0)")},
    np.logical_xor: {"b": (NATIVE, "({0} <> {1})"), "iuf": (NATIVE, "(({0} <> 0) <> ({1} <> 0))")},
    np.logical_not: {"b": (NATIVE, "(NOT {0})"), "iuf": (NATIVE, "({0} = 0)")},
    np.bitwise_and: {"b": (NATIVE, "({0} AND {1})"), "iu": (NATIVE, "({0} & {1})")},
    np.bitwise_or: {"b": (NATIVE, "({0} OR {1})"), "iu": (NATIVE, "({0} | {1})")},
    np.bitwise_xor: {"b": (NATIVE, "({0} <> {1})"), "iu": (NATIVE, "xor({0}, {1})")},
    np.invert: {"b": (NATIVE, "(NOT {0})"), "iu": (NATIVE, "(~{0})")},
}  # fmt: skip
"""For each ufunc, by dtype kinds of its loop: how it is computed, and the expression over its operands.

``where``, ``real``, ``clip``, ``round``, ``astype`` and the square of integers are supported as well.
"""


def function_sql(function: Callable[..., Any], arguments: Sequence[Any], result: np.dtype[Any]) -> str:
    """Return the SQL of an element-wise function.

    Parameters
    ----------
    function
        Function of a ``Map``.
    arguments
        A pair (SQL of a column, its dtype) or a Python or NumPy scalar per operand.
    result
        Dtype of the result.

    Raises
    ------
    UnsupportedInSQL
        If SQL does not have the function for these dtypes.

    Examples
    --------
    >>> function_sql(np.less, [("x", np.dtype("float64")), 0.5], np.dtype(bool))
    "(x < CAST('0.5' AS DOUBLE) AND NOT isnan(CAST('0.5' AS DOUBLE)))"
    """
    for dtype in (result, *(argument[1] for argument in arguments if isinstance(argument, tuple))):
        if dtype.kind == "c" or dtype == np.float16:
            raise UnsupportedInSQL(f"SQL has no {dtype}")
    if isinstance(function, Cast):
        return _as(arguments[0], result)
    if isinstance(function, Clip):
        return _clip(function, arguments[0], result)
    if isinstance(function, Round):
        return _round(function, arguments[0], result)
    if function is np.where:
        condition, x, y = (
            _as(argument, dtype) for argument, dtype in zip(arguments, (np.dtype(bool), result, result), strict=True)
        )
        return f"CASE WHEN {condition} THEN {x} ELSE {y} END"
    if function is np.real:
        return _as(arguments[0], result)
    if function is np.power and result.kind in "iu" and not isinstance(arguments[1], tuple) and arguments[1] == 2:
        function, arguments = np.square, arguments[:1]
    if function not in FUNCTIONS:
        raise UnsupportedInSQL(f"SQL has no {function_name(function)}")
    return _ufunc(function, arguments, result)


def _ufunc(ufunc: Any, arguments: Sequence[Any], result: np.dtype[Any]) -> str:
    loop = ufunc.resolve_dtypes((*map(_dtype_or_type, arguments), None))
    kinds = {dtype.kind for dtype in loop[:-1]}
    how, text = next((rule for of, rule in FUNCTIONS[ufunc].items() if kinds <= set(of)), ("", ""))
    if not how or any(dtype == np.float16 for dtype in loop):
        types = ", ".join(dtype.name for dtype in loop[:-1])
        raise UnsupportedInSQL(f"SQL has no {ufunc.__name__} of {types}")
    operands = [_as(argument, dtype) for argument, dtype in zip(arguments, loop, strict=False)]
    if how == WRAPPED:
        # The product of two uint64 fits 128 bits only without a sign, their difference only with one.
        unsigned = loop[0] == np.uint64 and ufunc in (np.multiply, np.square)
        wide = [f"CAST({operand} AS {'UHUGEINT' if unsigned else 'HUGEINT'})" for operand in operands]
        found = wrap_integer(text.format(*wide), loop[-1])
    elif how == DOUBLE:
        found = text.format(
            *(cast(operand, dtype, np.dtype(float)) for operand, dtype in zip(operands, loop, strict=False))
        )
        found = cast(found, np.dtype(float), loop[-1])
    else:
        found = text.format(*operands)
        if ufunc is np.sign:
            found = f"CAST({found} AS {sql_type(loop[-1])})"
    return cast(found, loop[-1], result)


def _dtype_or_type(argument: Any) -> Any:
    """Return the dtype of an operand, or the type of a weakly typed scalar."""
    if isinstance(argument, tuple):
        return argument[1]
    if isinstance(argument, bool | np.generic):
        return np.asarray(argument).dtype
    return type(argument)


def _as(argument: Any, dtype: np.dtype[Any]) -> str:
    """Return an operand cast to a dtype."""
    if isinstance(argument, tuple):
        return cast(argument[0], argument[1], dtype)
    if dtype.kind in "iu" and isinstance(argument, float | np.floating):
        raise UnsupportedInSQL(f"the scalar {argument!r} as {dtype}")
    return literal(argument, dtype)


def _clip(clip: Clip, argument: Any, result: np.dtype[Any]) -> str:
    for ufunc, bound in ((np.maximum, clip.low), (np.minimum, clip.high)):
        if bound is None:
            continue
        if np.ndim(bound) or isinstance(bound, complex):
            raise UnsupportedInSQL("clip between arrays")
        dtype = ufunc.resolve_dtypes((_dtype_or_type(argument), _dtype_or_type(bound), None))[-1]
        argument = (_ufunc(ufunc, (argument, bound), dtype), dtype)
    return _as(argument, result)


def _round(rounding: Round, argument: Any, result: np.dtype[Any]) -> str:
    sql, dtype = argument
    if dtype.kind == "f" and dtype == result and 0 <= rounding.decimals <= 22:
        if not rounding.decimals:
            return f"round_even({sql}, 0)"
        factor = literal(10.0**rounding.decimals, dtype)
        return f"(round_even({sql} * {factor}, 0) / {factor})"
    if dtype.kind in "iu" and dtype == result and rounding.decimals >= 0:
        return str(sql)
    raise UnsupportedInSQL(f"SQL has no {function_name(rounding)} of {dtype}")
