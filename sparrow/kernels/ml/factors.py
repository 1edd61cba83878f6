"""Factor tables: decoding, gathering rows, Gramian, rotation.

A table is a triple: float32 values, shape (rows, d); 16-bit words of the same shape; and ``kind``, the dtype in use.
The unused array has no rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import intrinsic, ir, njit, types
from sparrow.kernels.ml.blas import fortran

__all__ = ["BFLOAT16", "FLOAT16", "FLOAT32", "decode", "encode", "load", "rotate", "survey"]

FLOAT32, FLOAT16, BFLOAT16 = 0, 1, 2
"""Dtype of a table; float16 and bfloat16 are stored as 16-bit words."""

_N, _L = np.uint8(ord("N")), np.uint8(ord("L"))
_ZERO, _ONE = np.float32(0), np.float32(1)
_PREFETCH_DISTANCE = 8
"""Rows between a prefetch and the copy."""


def _prefetch_call(context: Any, array: Any, row: Any) -> Any:
    """Prefetch a row of a contiguous matrix."""

    def generate(target: Any, builder: Any, signature: Any, given: Any) -> Any:
        matrix = target.make_array(signature.args[0])(target, builder, given[0])
        width = builder.extract_value(matrix.shape, 1)
        address = builder.bitcast(builder.gep(matrix.data, [builder.mul(given[1], width)]), ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        name = "llvm.prefetch.p0i8"
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        for line in range(4):
            at = builder.gep(address, [ir.IntType(64)(64 * line)])
            builder.call(function, [at, flag(0), flag(3), flag(1)])
        return target.get_dummy_value()

    return types.void(array, types.int64), generate


_prefetch: Any = intrinsic(_prefetch_call)


def _bits_call(context: Any, bits: Any) -> Any:
    """Reinterpret 32 bits as float32."""

    def generate(target: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], ir.FloatType())

    return types.float32(types.uint32), generate


_float32_of: Any = intrinsic(_bits_call)


@njit(cache=True, nogil=True, error_model="numpy")
def decode(bits, kind, out):  # type: ignore[no-untyped-def]
    """Decode float16 or bfloat16 bits, shape (n,), to float32 in ``out``."""
    if kind == BFLOAT16:
        for k in range(len(bits)):
            out[k] = _float32_of(np.uint32(bits[k]) << np.uint32(16))
        return
    scale = _float32_of(np.uint32(0x77800000))  # 2^112, from the difference of the exponent biases
    for k in range(len(bits)):
        word = np.uint32(bits[k])
        magnitude = (word & np.uint32(0x7FFF)) << np.uint32(13)
        sign = (word & np.uint32(0x8000)) << np.uint32(16)
        value = _float32_of(magnitude | sign) * scale
        if word & np.uint32(0x7C00) == np.uint32(0x7C00):
            value = _float32_of(magnitude | sign | np.uint32(0x7F800000))
        out[k] = value


@njit(cache=True, nogil=True, error_model="numpy")
def encode(words, out):  # type: ignore[no-untyped-def]
    """Round float32 values, given as bits, to bfloat16 (nearest even); NaN stays NaN."""
    for k in range(len(words)):
        word = words[k]
        if word & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000):
            out[k] = np.uint16(word >> np.uint32(16)) | np.uint16(0x40)
        else:
            out[k] = np.uint16((word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))


@njit(cache=True, nogil=True, error_model="numpy")
def load(table, ratings, start, count, out):  # type: ignore[no-untyped-def]
    """Copy the rows ``ratings[0][start:start + count]`` of a table to a buffer.

    Prefetches the rows ahead, since access to them is random.
    """
    exact, bits, kind = table
    cols = ratings[0]
    if kind == FLOAT32:
        for k in range(count):
            if start + k + _PREFETCH_DISTANCE < len(cols):
                _prefetch(exact, np.int64(cols[start + k + _PREFETCH_DISTANCE]))
            source = exact[cols[start + k]]
            target = out[k]
            for j in range(len(target)):
                target[j] = source[j]
    else:
        for k in range(count):
            if start + k + _PREFETCH_DISTANCE < len(cols):
                _prefetch(bits, np.int64(cols[start + k + _PREFETCH_DISTANCE]))
            decode(bits[cols[start + k]], kind, out[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _take(table, first, count, lengths, out):  # type: ignore[no-untyped-def]
    """Copy consecutive rows of a table to a buffer, and compute their squared norms."""
    exact, bits, kind = table
    for k in range(count):
        target = out[k]
        if kind == FLOAT32:
            source = exact[first + k]
            for j in range(len(target)):
                target[j] = source[j]
        else:
            decode(bits[first + k], kind, target)
        total = _ZERO
        for j in range(len(target)):
            total += np.float32(target[j]) * np.float32(target[j])
        lengths[k] = total


@njit(cache=True, nogil=True, error_model="numpy")
def survey(table, first, last, ridge, syrk, gramian):  # type: ignore[no-untyped-def]
    """Add the contribution of rows to the Gramian T'T.

    Parameters
    ----------
    table
        Values, words and kind.
    first, last
        Range of rows, [first, last).
    ridge
        Weight of each of these rows, float64.
    syrk
        Address of ``ssyrk`` or ``dsyrk``, in the precision of ``gramian``.
    gramian
        Accumulator, shape (d, d); only elements ``[i, j]`` with i <= j are updated.

    Returns
    -------
    penalty, largest
        Weighted sum of the squared norms of the rows, and the largest squared norm.
    """
    d = len(gramian)
    buffer, lengths = np.empty((512, d), gramian.dtype), np.empty(512, np.float32)
    one = gramian.dtype.type(1)
    penalty = largest = 0.0
    for at in range(first, last, 512):
        size = min(512, last - at)
        _take(table, at, size, lengths, buffer)
        fortran(syrk, (_L, _N, d, size, one, buffer, d, one, gramian, d))
        for k in range(size):
            penalty += ridge[at - first + k] * lengths[k]
            largest = max(largest, np.float64(lengths[k]))
    return penalty, largest


@njit(cache=True, nogil=True, error_model="numpy")
def rotate(table, first, last, basis, gemm, out):  # type: ignore[no-untyped-def]
    """Write rows of a table times ``basis``, shape (d, d), to ``out``, float32."""
    d = len(basis)
    buffer, lengths = np.empty((128, d), np.float32), np.empty(128, np.float32)
    for at in range(first, last, 128):
        size = min(128, last - at)
        _take(table, at, size, lengths, buffer)
        fortran(gemm, (_N, _N, d, size, d, _ONE, basis, d, buffer, d, _ZERO, out[at - first :], d))
