"""SpGEMM kernels: Gustavson's row-by-row sparse product under any semiring.

A row of the product is a sum of rows of the right matrix (Gustavson 1978). The symbolic phase
(:mod:`sparrow.kernels.matmul.symbolic`) chooses an accumulator per row:

* rows whose products are in column order are copied;
* rows of few, scattered products are gathered into one slot per distinct column, which stays in the L1 cache;
* other rows use a dense row with flags for touched groups of eight columns and for lines of 64 groups, so that no sort
  is needed. If the span of columns is not much larger than the number of products, flags are omitted and the span is
  scanned.

Elements that differ from the identity of ``add`` are written without a branch, eight columns at a time. Every
accumulator adds in the order of the left row's elements, so the bits do not depend on the choice. Positions are
unsigned, which skips the test for negative indices at every access.

:func:`get_kernels` returns the kernels of a semiring, compiled on first use and cached on disk. Named operations are
compiled into their kernels. User functions are called through their address by kernels that serve all of them, so
that only the functions are compiled.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sparrow.errors import InvalidValueError
from sparrow.kernels.jit.compiler import NumbaError, NumbaWarning, njit, numpy_support, register_jitable
from sparrow.kernels.matmul.masked import build_masked, build_masked_dot, build_masked_sum
from sparrow.kernels.matmul.symbolic import (
    COLUMNS_PER_PRODUCT,
    EMPTY,
    GATHERED,
    GROUPS_PER_LINE,
    MAX_FOUND_GROUPS,
    ORDERED,
    PREFETCH_FAR,
    PREFETCH_NEAR,
    PREFETCH_OUTPUT,
    SLOT_IS_FIRST,
    SLOT_MASK,
)  # fmt: skip
from sparrow.kernels.simd import (
    FLAGS,
    LANES,
    broadcast,
    call_address,
    compress_store,
    lane_range,
    load,
    maximum,
    minimum,
    not_equal_bits,
    popcount,
    prefetch,
    store,
    take_flags,
)

__all__ = ["OPERATIONS", "SpGEMMKernels", "get_kernels", "get_merge_add", "resolve_operations"]

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_GROUP_BITS, _LINE_BITS, _WORD_PAIR_BITS = np.uint64(3), np.uint64(9), np.uint64(13)
"""log2 of the columns of a group, of a line of 64 groups, and of lines whose flags fill two 64-bit words."""
_LAST = np.uint64(2**32 - 1)
_WORDS_PER_CACHE_LINE = np.uint64(16)
"""Four-byte values that share a cache line."""

_inline: Any = register_jitable(cache=True, forceinline=True)


@register_jitable
def _plus(address, a, b):  # type: ignore[no-untyped-def]
    return a + b


@register_jitable
def _times(address, a, b):  # type: ignore[no-untyped-def]
    return a * b


@register_jitable
def _min(address, a, b):  # type: ignore[no-untyped-def]
    return minimum(a, b)


@register_jitable
def _max(address, a, b):  # type: ignore[no-untyped-def]
    return maximum(a, b)


@register_jitable
def _or(address, a, b):  # type: ignore[no-untyped-def]
    return a | b


@register_jitable
def _and(address, a, b):  # type: ignore[no-untyped-def]
    return a & b


@register_jitable
def _first(address, a, b):  # type: ignore[no-untyped-def]
    return a


@register_jitable
def _second(address, a, b):  # type: ignore[no-untyped-def]
    return b


@register_jitable
def _pair(address, a, b):  # type: ignore[no-untyped-def]
    return 1


@register_jitable
def _user(address, a, b):  # type: ignore[no-untyped-def]
    return call_address(address, a, b)


def _logical_or(a, b):  # type: ignore[no-untyped-def]
    return a if a != 0 else b


OPERATIONS: dict[str, Any] = {
    "plus": _plus, "times": _times, "min": _min, "max": _max, "or": _or, "and": _and, "any": _first, "first": _first,
    "second": _second, "pair": _pair,
}  # fmt: skip
"""Named binary operations, inlined into kernels."""


_COMPILED: list[Any] = []
"""User functions, kept alive because kernels call them by address."""


class SpGEMMKernels(NamedTuple):
    """Kernels of a semiring."""

    rows: Callable[..., int]
    """Products of rows, except at the elements of an optional mask."""
    masked: Callable[..., int]
    """Products at the elements of a mask: :func:`sparrow.kernels.matmul.masked.build_masked`."""
    masked_dot: Callable[..., int]
    """The same by dot products: :func:`sparrow.kernels.matmul.masked.build_masked_dot`."""
    masked_sum: Callable[..., None]
    """Weighted row sums of these products: :func:`sparrow.kernels.matmul.masked.build_masked_sum`."""


def get_kernels(
    add: Any, multiply: Any, dtype: np.dtype[Any], swap: bool = False, seeded: bool = False
) -> SpGEMMKernels:
    """Return the kernels of a semiring.

    Parameters
    ----------
    add, multiply
        Names of operations, or binary functions that Numba can compile.
    dtype
        Dtype in which products are accumulated.
    swap
        Whether ``multiply``, a function, takes the right value first.
    seeded
        Whether dense rows of workspaces are filled with :func:`~sparrow.kernels.matmul.symbolic.get_seed`.

    Raises
    ------
    InvalidValueError
        If Numba cannot compile a function.
    """
    add, multiply, *addresses = resolve_operations(add, multiply, dtype, swap)
    return _bind(_build(add, multiply, seeded), *addresses)


def resolve_operations(
    add: Any, multiply: Any, dtype: np.dtype[Any], swap: bool = False
) -> tuple[Any, Any, np.uint64, np.uint64]:
    """Return the operations of a semiring for kernels, and addresses to call.

    Parameters and errors are those of :func:`get_kernels`.
    """
    narrow = dtype.kind in "iu" and dtype.itemsize < 8 and add in ("min", "max") and multiply in ("times", "plus")
    if isinstance(add, str) and isinstance(multiply, str) and not narrow:  # narrow products wrap around in their dtype
        return OPERATIONS[add], OPERATIONS[multiply], np.uint64(0), np.uint64(0)
    addresses = _compile_operation(add, dtype, False), _compile_operation(multiply, dtype, swap)
    return _user, _user, np.uint64(addresses[0]), np.uint64(addresses[1])


def _bind(kernels: SpGEMMKernels, add_address: np.uint64, multiply_address: np.uint64) -> SpGEMMKernels:
    return SpGEMMKernels(
        functools.partial(kernels.rows, add_address, multiply_address),
        functools.partial(kernels.masked, add_address, multiply_address),
        functools.partial(kernels.masked_dot, add_address, multiply_address),
        functools.partial(kernels.masked_sum, multiply_address),
    )


@functools.cache
def _build(add: Any, multiply: Any, seeded: bool) -> SpGEMMKernels:
    return SpGEMMKernels(
        _build_rows(add, multiply, seeded),
        build_masked(add, multiply),
        build_masked_dot(add, multiply),
        build_masked_sum(multiply),
    )


def _error_reason(error: NumbaError) -> str:
    """Return the line of a Numba error that states the reason."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # colors, if colorama is installed
    text = [line.strip() for line in plain.splitlines() if line.strip()]
    reasons = [line.removeprefix("TypingError: ") for line in text if line.startswith("TypingError: ")]
    reasons += [line for line in text if not line.startswith(("Failed in nopython mode", "- Resolution failure"))]
    return next(iter(reasons), "")


@functools.cache
def _compile_operation(function: Any, dtype: np.dtype[Any], swap: bool) -> int:
    """Compile an operation of two numbers and return its address."""
    product = getattr(function, "of", None)
    inner = function if product is None else product
    if inner == "max" and dtype.kind == "c":  # booleans only: complex numbers are not ordered
        inner = _logical_or
    if isinstance(inner, str):
        named = OPERATIONS[inner]
        # LLVM assumes that signed products do not overflow, so that a product is 0 only if a factor is.
        wraps = np.dtype(f"u{dtype.itemsize}").type if dtype.kind == "i" and inner in ("plus", "times") else dtype.type

        @njit(nogil=True)
        def inner(a, b):  # type: ignore[no-untyped-def]
            return named(0, wraps(a), wraps(b))

    elif inspect.isfunction(inner):
        inner = njit(inner, nogil=True)
    truth = product is not None
    kind = numpy_support.from_dtype(dtype)

    @njit(nogil=True)
    def call(a, b):  # type: ignore[no-untyped-def]
        value = inner(b, a) if swap else inner(a, b)
        return kind(value) != kind(0) if truth else value

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumbaWarning)  # the error below states the reason
            call.compile(kind(kind, kind))
    except NumbaError as error:
        name = getattr(function, "__name__", repr(function))
        why = _error_reason(error)
        raise InvalidValueError(
            f"functions of a semiring must compile with Numba, got {name!r} of two {dtype}: {why}"
        ) from error
    _COMPILED.append(call)
    result: Any = call.overloads[(kind, kind)]
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


# -- output of accumulated rows, which leaves accumulators clean ----------------------------------


@_inline
def _write_seeded(dense, at, stop, column, touched, seed, fill, out_columns, out, n):  # type: ignore[no-untyped-def]
    """Write elements that differ from the seed and from fill; reset to the seed."""
    none, left_out = broadcast(seed), broadcast(fill)
    for cell in range(at, stop, LANES):
        found = load(dense, cell, LANES)
        store(dense, cell, LANES, none)
        which = not_equal_bits(found, none) & not_equal_bits(found, left_out)
        compress_store(out_columns, n, lane_range(np.uint32(column + (cell - at))), which)
        compress_store(out, n, found, which)
        n += popcount(which)
    return n


@_inline
def _write_touched(dense, at, stop, column, touched, seed, fill, out_columns, out, n):  # type: ignore[no-untyped-def]
    """Write elements that were added to and differ from fill; clear their flags."""
    for first in range(at, stop, LANES):
        for c in range(first, first + LANES):
            value = dense[c]
            out_columns[n] = c
            out[n] = value
            n += np.uint64((touched[c] != 0) & (value != fill))
            touched[c] = 0
    return n


@_inline
def _write_slots(slot_values, size, keys, first, fill, out_columns, out, n):  # type: ignore[no-untyped-def]
    """Write the slots of a gathered row, whose columns are keys from ``first`` on."""
    for j in range(size):
        out_columns[n] = keys[first + j]
        out[n] = slot_values[j]
        n += np.uint64(out[n] != fill)
    return n


@_inline
def _column_span(lhs_indices, low, high, rhs_indptr, rhs_indices, rhs_data):  # type: ignore[no-untyped-def]
    """Return the first and last column of a row's products, first > last if none."""
    smallest, largest, end = _LAST, _ZERO, np.uint64(len(lhs_indices))
    for q in range(low, high):
        if q + PREFETCH_FAR < end:
            prefetch(rhs_indptr, np.uint64(lhs_indices[q + PREFETCH_FAR]))
        k = np.uint64(lhs_indices[q])
        begin, stop = rhs_indptr[k], rhs_indptr[k + _ONE]
        if begin < stop:
            smallest = min(smallest, np.uint64(rhs_indices[begin]))
            largest = max(largest, np.uint64(rhs_indices[stop - _ONE]))
            prefetch(rhs_data, begin)
    return smallest, largest


@_inline
def _collect_lines(smallest, largest, line_flags, line_words, found_lines):  # type: ignore[no-untyped-def]
    """Collect and clear the flagged lines of a dense row; return their number."""
    count = _ZERO
    for word in range((smallest >> _WORD_PAIR_BITS) << _ONE, ((largest >> _WORD_PAIR_BITS) + _ONE) << _ONE, _TWO):
        if line_words[word] | line_words[word + _ONE]:
            count += take_flags(line_flags, word << _GROUP_BITS, found_lines, count)
    return count


@_inline
def _collect_groups(first, last, group_flags, found, size):  # type: ignore[no-untyped-def]
    """Append and clear the flagged groups [first, last); return the new size."""
    for flag in range(first, last, FLAGS):
        size += take_flags(group_flags, flag, found, size)
    return size


def _build_rows(add: Any, multiply: Any, seeded: bool) -> Any:
    write_dense: Any = _write_seeded if seeded else _write_touched

    @njit(cache=True, nogil=True)
    def rows(  # type: ignore[no-untyped-def]
        add_address, multiply_address, lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data,
        mask_begins, mask_ends, mask_columns, product_offsets, row_kinds, row_sizes, slots, keys, has_unique_columns,
        width, fill, seed, dense, touched, slot_values, group_flags, line_flags, line_words, found_lines,
        found_groups, out_indptr, out_columns, out
    ):  # fmt: skip
        """Write the products of rows in CSR, columns ascending; return their number.

        Products at mask elements are removed before a row is written, at one step per mask element.

        Parameters
        ----------
        add_address, multiply_address
            Addresses of user functions, uint64; ignored for named operations.
        lhs_indptr, lhs_indices, lhs_data
            Left matrix in CSR: uint64 (m + 1,), rows of the right matrix uint32 (n,), values (n,).
        rhs_indptr, rhs_indices, rhs_data
            Right matrix in CSR, columns ascending: uint64 (k + 1,), uint32 (n,), values (n,).
        mask_begins, mask_ends, mask_columns
            Bounds of each row in a mask, and column of each of its elements, ascending in a row: uint64 (m,), uint64
            (m,), uint32 (n,); the first two are empty if there is no mask.
        product_offsets, row_kinds, row_sizes, slots, keys
            Inputs and outputs of :func:`~sparrow.kernels.matmul.symbolic.plan_rows`.
        has_unique_columns
            Whether the right matrix has no duplicates.
        width
            Number of columns.
        fill
            Sums equal to it are dropped.
        seed, dense, touched, slot_values, group_flags, line_flags, line_words, found_lines, found_groups
            Accumulators: :meth:`sparrow.kernels.matmul.symbolic.Workspace.dense`.
        out_indptr
            Receives the row pointers, int64 (m + 1,).
        out_columns, out
            Receive columns and values; longer than the number of products by
            :data:`~sparrow.kernels.matmul.symbolic.OUTPUT_SLACK`.
        """
        n: Any = _ZERO
        slot = key = _ZERO
        end = np.uint64(len(lhs_indices))
        height = np.uint64(len(row_kinds))
        for i in range(height):
            out_indptr[i] = n
            kind = row_kinds[i]
            low, high = lhs_indptr[i], lhs_indptr[i + _ONE]
            if kind == EMPTY:
                continue
            if kind == GATHERED:
                prefetch(slots, slot + PREFETCH_OUTPUT + PREFETCH_OUTPUT)
                prefetch(keys, key + PREFETCH_OUTPUT)
                prefetch(out_columns, n + PREFETCH_OUTPUT)
                for line in range(_ZERO, _WORDS_PER_CACHE_LINE + _WORDS_PER_CACHE_LINE, LANES):
                    prefetch(out, n + PREFETCH_OUTPUT + line)
                for q in range(low, high):
                    if q + PREFETCH_FAR + PREFETCH_FAR < end:
                        prefetch(rhs_indptr, np.uint64(lhs_indices[q + PREFETCH_FAR + PREFETCH_FAR]))
                    if q + PREFETCH_FAR < end:
                        ahead = np.uint64(lhs_indices[q + PREFETCH_FAR])
                        prefetch(rhs_data, rhs_indptr[ahead])
                        prefetch(rhs_data, rhs_indptr[ahead + _ONE] - _ONE)
                    x = lhs_data[q]
                    k = np.uint64(lhs_indices[q])
                    for p in range(rhs_indptr[k], rhs_indptr[k + _ONE]):
                        s = np.uint64(slots[slot])
                        slot += _ONE
                        value = multiply(multiply_address, x, rhs_data[p])
                        to = s & SLOT_MASK
                        slot_values[to] = value if s & SLOT_IS_FIRST else add(add_address, slot_values[to], value)
                size = np.uint64(row_sizes[i])
                n = _write_slots(slot_values, size, keys, key, fill, out_columns, out, n)
                key += size
                continue
            if kind == ORDERED:
                for q in range(low, high):
                    if q + PREFETCH_FAR + PREFETCH_FAR < end:
                        prefetch(rhs_indptr, np.uint64(lhs_indices[q + PREFETCH_FAR + PREFETCH_FAR]))
                    if q + PREFETCH_NEAR < end:
                        ahead = rhs_indptr[np.uint64(lhs_indices[q + PREFETCH_NEAR])]
                        prefetch(rhs_indices, ahead)
                        prefetch(rhs_data, ahead)
                    x = lhs_data[q]
                    k = np.uint64(lhs_indices[q])
                    for p in range(rhs_indptr[k], rhs_indptr[k + _ONE]):
                        value = multiply(multiply_address, x, rhs_data[p])
                        out_columns[n] = rhs_indices[p]
                        out[n] = value
                        n += np.uint64(out[n] != fill)
                continue
            n_products = product_offsets[i + _ONE] - product_offsets[i]
            smallest, largest = _ZERO, width - _ONE
            is_scanned = seeded and largest < COLUMNS_PER_PRODUCT * n_products
            if not is_scanned:
                smallest, largest = _column_span(lhs_indices, low, high, rhs_indptr, rhs_indices, rhs_data)
                is_scanned = seeded and largest - smallest < COLUMNS_PER_PRODUCT * n_products
            for q in range(low, high):
                x = lhs_data[q]
                k = np.uint64(lhs_indices[q])
                if q + PREFETCH_FAR < end:
                    prefetch(rhs_indptr, np.uint64(lhs_indices[q + PREFETCH_FAR]))
                if q + PREFETCH_NEAR < high:
                    ahead = rhs_indptr[np.uint64(lhs_indices[q + PREFETCH_NEAR])]
                    prefetch(rhs_indices, ahead)
                    prefetch(rhs_data, ahead)
                if is_scanned:
                    begin, count = rhs_indptr[k], rhs_indptr[k + _ONE] - rhs_indptr[k]
                    if has_unique_columns and count >= LANES:
                        c = np.uint64(rhs_indices[begin])
                        if np.uint64(rhs_indices[begin + count - _ONE]) - c == count - _ONE:
                            for p in range(count):
                                dense[c + p] = add(
                                    add_address, dense[c + p], multiply(multiply_address, x, rhs_data[begin + p])
                                )
                            continue
                    for p in range(begin, begin + count):
                        c = np.uint64(rhs_indices[p])
                        dense[c] = add(add_address, dense[c], multiply(multiply_address, x, rhs_data[p]))
                    continue
                for p in range(rhs_indptr[k], rhs_indptr[k + _ONE]):
                    c = np.uint64(rhs_indices[p])
                    value = multiply(multiply_address, x, rhs_data[p])
                    if seeded:
                        dense[c] = add(add_address, dense[c], value)
                    else:
                        dense[c] = add(add_address, dense[c], value) if touched[c] else value
                        touched[c] = 1
                    group_flags[c >> _GROUP_BITS] = 1
                    line_flags[c >> _LINE_BITS] = 1
            if i < np.uint64(len(mask_begins)):
                for m in range(mask_begins[i], mask_ends[i]):
                    c = np.uint64(mask_columns[m])
                    if seeded:
                        dense[c] = seed
                    else:
                        touched[c] = 0
            if is_scanned:
                at = (smallest >> _GROUP_BITS) << _GROUP_BITS
                n = write_dense(dense, at, largest + _ONE, at, touched, seed, fill, out_columns, out, n)
                continue
            count = _collect_lines(smallest, largest, line_flags, line_words, found_lines)
            size = _ZERO
            for line in range(count):
                first = np.uint64(found_lines[line]) * GROUPS_PER_LINE
                size = _collect_groups(first, first + GROUPS_PER_LINE, group_flags, found_groups, size)
                if size >= np.uint64(MAX_FOUND_GROUPS) or line + _ONE == count:
                    for e in range(size):
                        prefetch(out_columns, n + PREFETCH_OUTPUT)
                        prefetch(out, n + PREFETCH_OUTPUT)
                        at = np.uint64(found_groups[e]) << _GROUP_BITS
                        n = write_dense(dense, at, at + LANES, at, touched, seed, fill, out_columns, out, n)
                    size = _ZERO
        out_indptr[height] = n
        return n

    return rows


# -- sums of rows --------------------------------------------------------------------------------


def get_merge_add(add: Any, dtype: np.dtype[Any]) -> Any:
    """Return the kernel that adds the rows of two matrices."""
    if isinstance(add, str):
        return functools.partial(_build_merge_add(OPERATIONS[add]), np.uint64(0))
    return functools.partial(_build_merge_add(_user), np.uint64(_compile_operation(add, dtype, False)))


@functools.cache
def _build_merge_add(operation: Any) -> Any:
    @njit(cache=True, nogil=True)
    def merge_add(  # type: ignore[no-untyped-def]
        address, indptr, columns, values, other_indptr, other_columns, other_values, fill, out_indptr, out_columns, out
    ):  # fmt: skip
        """Write rows with the elements of both inputs; return the number of elements.

        Parameters
        ----------
        address
            Address of a user function, uint64; ignored for named operations.
        indptr, columns, values
            First input: row pointers int64 (m + 1,), columns ascending in each row, and values (n,).
        other_indptr, other_columns, other_values
            Second input, in the same form; it is the right operand of ``add``.
        fill
            Sums equal to it are dropped.
        out_indptr, out_columns, out
            Receive the result: row pointers (m + 1,), and arrays one longer than the elements of both inputs.
        """
        n = np.uint64(0)
        for i in range(len(indptr) - 1):
            out_indptr[i] = n
            p, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
            q, stop = np.uint64(other_indptr[i]), np.uint64(other_indptr[i + 1])
            while p < end and q < stop:
                a, b = columns[p], other_columns[q]
                x, y = values[p], other_values[q]
                both = operation(address, x, y)
                value = x if a < b else y
                value = both if a == b else value
                out_columns[n] = min(a, b)
                out[n] = value
                p += np.uint64(a <= b)
                q += np.uint64(b <= a)
                n += np.uint64(value != fill)
            while p < end:
                out_columns[n] = columns[p]
                out[n] = values[p]
                p += _ONE
                n += _ONE
            while q < stop:
                out_columns[n] = other_columns[q]
                out[n] = other_values[q]
                q += _ONE
                n += _ONE
        out_indptr[len(indptr) - 1] = n
        return n

    return merge_add
