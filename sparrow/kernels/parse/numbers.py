"""Scanner of numbers in bytes, for the parsers of all text formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.compiler import NumbaTypeError, intrinsic, ir, make_array, njit, types
from sparrow.kernels.simd import count_trailing_zeros

__all__ = [
    "BAD", "HARD", "INEXACT", "OK", "OVERFLOW", "address", "byte_at", "is_blank", "kernel", "leading_zeros",
    "next_line", "scan_float", "scan_integer", "scan_value",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

OK: Final = 0
"""The number is valid."""
BAD: Final = 1
"""There is no number."""
OVERFLOW: Final = 2
"""An integer exceeds int64."""
HARD: Final = 3
"""A float is valid, but only ``float`` can round it."""
INEXACT: Final = 4
"""A float is valid, but was written as an integer that float64 does not hold."""


def kernel(function: F) -> F:
    """Compile a function lazily, without the GIL, cached on disk."""
    return cast("F", njit(cache=True, nogil=True)(function))


def _compile_inline(function: F) -> F:
    """Compile a function that LLVM inlines into its callers."""
    return cast("F", njit(cache=True, nogil=True, forceinline=True)(function))


_SMALLEST_POWER, _LARGEST_POWER = -342, 308


def _powers_of_five() -> NDArray[np.uint64]:
    """Return 128 bits of 5^q, q in [-342, 308], high word first (Lemire 2021)."""
    out = np.empty((_LARGEST_POWER - _SMALLEST_POWER + 1, 2), dtype=np.uint64)
    for row, q in enumerate(range(_SMALLEST_POWER, _LARGEST_POWER + 1)):
        if q < 0:
            power = 5**-q
            bits = (power - 1).bit_length()
            word = (1 << (bits + 127 if q >= -27 else 2 * bits + 128)) // power + 1
        else:
            word = 5**q << 128
        word >>= word.bit_length() - 128
        out[row] = word >> 64, word & (2**64 - 1)
    return out


_POWERS = _powers_of_five()
_PAGE = 4096
"""Bytes of a memory page, which is readable as a whole."""
_TENS = np.array([10**k for k in range(9)], np.uint64)
_EXACT_TENS = np.array([10.0**k for k in range(23)])
"""Exact powers of ten: integers below 2^53 times or over one round once (Clinger 1990)."""


def _intrinsic(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


@_intrinsic
def _high(typing: Any, a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two uint64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), build


@_intrinsic
def leading_zeros(typing: Any, word: Any) -> Any:
    """Return the number of leading zero bits of a uint64; 64 for 0."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), build


@_intrinsic
def _as_double(typing: Any, word: Any) -> Any:
    """Reinterpret a uint64 as a double."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), build


@_intrinsic
def address(typing: Any, data: Any) -> Any:
    """Return the address of an array, which avoids reference counting at every call."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = make_array(signature.args[0])(context, builder, arguments[0])  # type: ignore[no-untyped-call]
        return builder.ptrtoint(array.data, ir.IntType(64))

    return types.int64(data), build


def _of_an_address(result: Any, text: Any) -> Any:
    if not isinstance(text, types.Integer):  # Numba would accept an array
        raise NumbaTypeError(f"text must be an address, got {text}")
    return result(types.int64, types.int64)


@_intrinsic
def byte_at(typing: Any, text: Any, at: Any) -> Any:
    """Return a byte at an offset of an address."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(builder.add(*arguments), ir.IntType(8).as_pointer()))

    return _of_an_address(types.uint8, text), build


@_intrinsic
def _word_at(typing: Any, text: Any, at: Any) -> Any:
    """Return eight bytes at an offset of an address as a little-endian uint64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = builder.inttoptr(builder.add(*arguments), ir.IntType(64).as_pointer())
        return builder.load(word, align=1)

    return _of_an_address(types.uint64, text), build


@_compile_inline
def _more_digits(text: Any, at: Any, w: Any) -> Any:
    """Append digits to ``w``, modulo 2^64; return it and the position after them."""
    while (text + at) & (_PAGE - 1) <= _PAGE - 8:  # bytes after the text are readable within its page
        word = _word_at(text, at)
        each = word ^ np.uint64(0x3030303030303030)  # digits become their value, other bytes at least 10
        others = (each | (each + np.uint64(0x7676767676767676))) & np.uint64(0x8080808080808080)
        count = count_trailing_zeros(others) >> np.uint64(3) if others else np.uint64(8)
        if count == 0:
            return w, at
        each <<= np.uint64(64) - (count << np.uint64(3))  # leading bytes become zeros
        each = (each * np.uint64(10) + (each >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
        each = (each * np.uint64(100) + (each >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
        each = (each * np.uint64(10000) + (each >> np.uint64(32))) & np.uint64(0x00000000FFFFFFFF)
        w = w * _TENS[count] + each
        at += np.int64(count)
        if count != 8:
            return w, at
    while True:
        digit = np.int64(byte_at(text, at)) - 48
        if digit < 0 or digit > 9:
            return w, at
        w = w * np.uint64(10) + np.uint64(digit)
        at += 1


@kernel
def _double_bits(w: Any, q: Any) -> Any:
    """Return the bits of the double nearest to w * 10^q (Eisel-Lemire 2021)."""
    zero, one, three = np.uint64(0), np.uint64(1), np.uint64(3)
    infinity = np.uint64(0x7FF0000000000000)
    if w == zero or q < _SMALLEST_POWER:
        return zero
    if q > _LARGEST_POWER:
        return infinity
    shift = leading_zeros(w)
    w = w << np.uint64(shift)
    row = q - _SMALLEST_POWER
    low = w * _POWERS[row, 0]
    high = _high(w, _POWERS[row, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more = _high(w, _POWERS[row, 1])
        low = low + more
        if more > low:
            high += one
    upper = high >> np.uint64(63)
    drop = upper + np.uint64(9)
    mantissa = high >> drop
    exponent = ((217706 * q) >> 16) + 63 + np.int64(upper) - shift + 1023
    if exponent <= 0:
        if exponent <= -63:
            return zero
        mantissa >>= np.uint64(1 - exponent)
        return (mantissa + (mantissa & one)) >> one
    if low <= one and -4 <= q <= 23 and mantissa & three == one and mantissa << drop == high:
        mantissa &= ~one
    mantissa = (mantissa + (mantissa & one)) >> one
    if mantissa >= np.uint64(1 << 53):
        mantissa = np.uint64(1 << 52)
        exponent += 1
    if exponent >= 0x7FF:
        return infinity
    return (mantissa & np.uint64((1 << 52) - 1)) | (np.uint64(exponent) << np.uint64(52))


@kernel
def is_blank(byte: Any) -> Any:
    """Return whether a byte is a blank, tab, carriage return or form feed."""
    return byte == 32 or byte == 9 or byte == 13 or byte == 11 or byte == 12


@kernel
def next_line(text: Any, at: Any) -> Any:
    """Return the position after the next line end."""
    while byte_at(text, at) != 10:
        at += 1
    return at + 1


@kernel
def scan_integer(text: Any, at: Any) -> Any:
    """Scan an integer: an optional sign and decimal digits.

    Parameters
    ----------
    text
        :func:`address` of bytes, the last of which is not a digit.
    at
        Offset of the number.

    Returns
    -------
    value, end, status
        int64, position after the last digit, and ``OK``, ``BAD`` or ``OVERFLOW``.
    """
    negative = byte_at(text, at) == 45
    if negative or byte_at(text, at) == 43:
        at += 1
    first = at
    digits, at = _more_digits(text, at, np.uint64(0))
    value = np.int64(digits)
    status = OK
    if at - first > 18:
        while byte_at(text, first) == 48:
            first += 1
        most = np.uint64(2**63 - 1) + np.uint64(negative)
        if at - first > 19 or (at - first == 19 and digits > most):  # 19 digits are below 2^64
            status = OVERFLOW
    elif at == first:
        status = BAD
    return -value if negative else value, at, status


@kernel
def _first_digits(text: Any, at: Any, end: Any) -> Any:
    """Return 19 significant digits, their decimal exponent, and whether more follow."""
    w = np.uint64(0)
    taken = 0
    exponent: Any = 0
    cut = False
    fraction = False
    while at < end:
        if byte_at(text, at) == 46:
            fraction = True
        elif taken < 19:
            w = w * np.uint64(10) + np.uint64(byte_at(text, at) - 48)
            taken += w != 0
            exponent -= fraction
        else:
            exponent += not fraction
            cut |= byte_at(text, at) != 48
        at += 1
    return w, exponent, cut


@kernel
def _is_named(text: Any, at: Any) -> Any:
    """Return whether the rest of 1.#INF, 1.#IND, 1.#QNAN or 1.#SNAN follows."""
    first = byte_at(text, at)
    return (first == 73 or first == 81 or first == 83) and byte_at(text, at + 1) == 78


@kernel
def scan_float(text: Any, at: Any) -> Any:
    """Scan a float: a decimal number, nan, inf or infinity, with an optional sign.

    Parameters
    ----------
    text
        :func:`address` of bytes, the last of which is not part of a number.
    at
        Offset of the number.

    Returns
    -------
    value, end, status
        float64, position after the number, and ``OK``, ``BAD`` or ``HARD``.
    """
    sign = np.uint64(0)
    if byte_at(text, at) == 45:
        sign = np.uint64(1 << 63)
        at += 1
    elif byte_at(text, at) == 43:
        at += 1
    first = at
    w, at = _more_digits(text, at, np.uint64(0))
    digits = at - first
    exponent: Any = 0
    cut = False
    if byte_at(text, at) == 46:
        at += 1
        point = at
        w, at = _more_digits(text, at, w)
        exponent = point - at
        digits -= exponent
        if digits == 0 or (at == point and byte_at(text, at) == 35 and _is_named(text, at + 1)):
            return 0.0, at, BAD
    elif digits == 0:
        if byte_at(text, at) | 32 == 110 and byte_at(text, at + 1) | 32 == 97 and byte_at(text, at + 2) | 32 == 110:
            return _as_double(np.uint64(0x7FF8000000000000) | sign), at + 3, OK
        if byte_at(text, at) | 32 == 105 and byte_at(text, at + 1) | 32 == 110 and byte_at(text, at + 2) | 32 == 102:
            at += 3
            if (
                byte_at(text, at) | 32 == 105
                and byte_at(text, at + 1) | 32 == 110
                and byte_at(text, at + 2) | 32 == 105
                and byte_at(text, at + 3) | 32 == 116
                and byte_at(text, at + 4) | 32 == 121
            ):
                at += 5
            return _as_double(np.uint64(0x7FF0000000000000) | sign), at, OK
        return 0.0, at, BAD
    if digits > 19:
        w, exponent, cut = _first_digits(text, first, at)
    if byte_at(text, at) | 32 == 101:
        at += 1
        below = byte_at(text, at) == 45
        if below or byte_at(text, at) == 43:
            at += 1
        first = at
        power: Any = 0
        while True:
            digit = np.int64(byte_at(text, at)) - 48
            if digit < 0 or digit > 9:
                break
            if power < 1 << 50:
                power = power * 10 + digit
            at += 1
        if at == first:
            return 0.0, at, BAD
        exponent += -power if below else power
    if w < np.uint64(1 << 53) and -22 <= exponent <= 22:
        value = np.float64(np.int64(w))
        value = value / _EXACT_TENS[-exponent] if exponent < 0 else value * _EXACT_TENS[exponent]
        return -value if sign else value, at, OK
    bits = _double_bits(w, exponent)
    status = OK
    if cut and _double_bits(w + np.uint64(1), exponent) != bits:
        status = HARD
    return _as_double(bits | sign), at, status


@kernel
def scan_value(text: Any, at: Any) -> Any:
    """Scan a float as :func:`scan_float` does, and tell integers that it rounds.

    Returns
    -------
    value, end, status
        As of :func:`scan_float`; ``INEXACT`` for such integers, ``HARD`` too for those of 20 digits and more.
    """
    value, end, status = scan_float(text, at)
    if status != OK or not abs(value) >= 9007199254740992.0:
        return value, end, status
    first = at + (byte_at(text, at) == 45 or byte_at(text, at) == 43)
    digits, last = _more_digits(text, first, np.uint64(0))
    if last != end or last == first:  # a decimal point, an exponent or infinity
        return value, end, status
    while byte_at(text, first) == 48:
        first += 1
    if last - first > 19:
        return value, end, HARD
    return value, end, OK if np.uint64(abs(value)) == digits else INEXACT
