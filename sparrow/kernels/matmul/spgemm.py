"""Products of sparse matrices row by row (Gustavson), under any semiring, over arrays alone.

A row of the product is a sum of rows of the right matrix. Where their columns come in order as they stand, products are
written as they come. Rows of few products that lie far apart are added up in as many slots as they have columns, which
stay in the first cache, and those that are each the one before moved on side by side, a product of all of them at a
time; others in a dense row, of which it is flagged which eights of columns were added to, and which lines of 64 eights:
so the columns come in order without a sort. What differs from the identity of ``add`` there is an entry, written
without a branch, eight columns at a time. Where there are about as many products as columns between the first and the
last, nothing is flagged and all between them is looked at, and a row of the right matrix without gaps is added as it
is; few products are added up in a window that is no longer than that. All add in the order of the left row's entries,
so the bits depend on neither. Positions are unsigned: that spares a test for negative ones at every access.

:mod:`sparrow.kernels.matmul.symbolic` says which rows are had in which way.

:func:`kernels_of` gives the loops of a semiring, compiled when first asked for and found compiled in later processes.
Named operations are compiled into their loops. A user's functions are called by loops that serve all of them, so that
the functions alone are compiled.
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
from sparrow.kernels.jit.warmup import warn_compiling
from sparrow.kernels.matmul.intrinsics import at_address, least, most, prefetch
from sparrow.kernels.matmul.masked_dot import dotted
from sparrow.kernels.matmul.masks import added, masked
from sparrow.kernels.matmul.output import (
    differing,
    eights_of,
    lines_between,
    run_of,
    side_by_side,
    slots_out,
    span,
    touched,
)  # fmt: skip
from sparrow.kernels.matmul.simd import LANES
from sparrow.kernels.matmul.symbolic import (
    AHEAD,
    FEW_PRODUCTS,
    FIRST,
    NOTHING,
    SHIFTED,
    SLOT,
    SOON,
    STRAIGHT,
    THICK,
    THICKNESS,
    WRITTEN_AHEAD,
)  # fmt: skip
from sparrow.kernels.matmul.workspace import BUFFER, DEPTH, IN_LINE, NARROW

__all__ = ["NAMED", "Kernels", "kernels_of"]

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_EIGHTS, _LINES = np.uint64(3), np.uint64(9)
"""How far the number of a column is shifted to that of its eight, and of its line of 64 eights."""
_WORDS = np.uint64(16)
"""Values of four bytes that share a line of the cache."""


@register_jitable
def _plus(where, a, b):  # type: ignore[no-untyped-def]
    return a + b


@register_jitable
def _times(where, a, b):  # type: ignore[no-untyped-def]
    return a * b


@register_jitable
def _min(where, a, b):  # type: ignore[no-untyped-def]
    return least(a, b)


@register_jitable
def _max(where, a, b):  # type: ignore[no-untyped-def]
    return most(a, b)


@register_jitable
def _or(where, a, b):  # type: ignore[no-untyped-def]
    return a | b


@register_jitable
def _and(where, a, b):  # type: ignore[no-untyped-def]
    return a & b


@register_jitable
def _first(where, a, b):  # type: ignore[no-untyped-def]
    return a


@register_jitable
def _second(where, a, b):  # type: ignore[no-untyped-def]
    return b


@register_jitable
def _pair(where, a, b):  # type: ignore[no-untyped-def]
    return 1


@register_jitable
def _given(where, a, b):  # type: ignore[no-untyped-def]
    return at_address(where, a, b)


def _either(a, b):  # type: ignore[no-untyped-def]
    return a if a != 0 else b


NAMED: dict[str, Any] = {
    "plus": _plus, "times": _times, "min": _min, "max": _max, "or": _or, "and": _and, "any": _first, "first": _first,
    "second": _second, "pair": _pair,
}  # fmt: skip
"""Named operations of two numbers, which loops are compiled with."""


_KEPT: list[Any] = []
"""Functions of users: what is compiled stands where it does for as long as somebody has it."""


class Kernels(NamedTuple):
    """The loops of a semiring."""

    rows: Callable[..., int]
    """All products of some rows, but for those at the columns that a mask has in each."""
    masked: Callable[..., int]
    """Those at the columns that a mask has in each row."""
    dotted: Callable[..., int]
    """The same, cell by cell, of the right matrix by columns: :func:`sparrow.kernels.matmul.masked_dot.dotted`."""
    added: Callable[..., None]
    """The sums of those, each times a weight of the mask's cell, where what is added is ``plus``."""


def kernels_of(add: Any, multiply: Any, dtype: np.dtype[Any], swapped: bool = False, seeded: bool = False) -> Kernels:
    """Return the loops of a semiring.

    Parameters
    ----------
    add, multiply
        Names of operations, or functions of two numbers that Numba compiles.
    dtype
        The type in which products are added up.
    swapped
        Whether ``multiply``, a function, takes the right value first.
    seeded
        Whether the dense rows of workspaces hold :func:`~sparrow.kernels.matmul.workspace.seed_of` them.

    Raises
    ------
    InvalidValueError
        If Numba does not compile a function.
    """
    warn_compiling()
    narrow = dtype.kind in "iu" and dtype.itemsize < 8 and add in ("min", "max") and multiply in ("times", "plus")
    if isinstance(add, str) and isinstance(multiply, str) and not narrow:  # narrow products wrap around in their type
        return _bound(_built(NAMED[add], NAMED[multiply], seeded), 0, 0)
    adding, multiplying = _compiled(add, dtype, False), _compiled(multiply, dtype, swapped)
    return _bound(_built(_given, _given, seeded), adding, multiplying)


def _bound(loops: Kernels, adding: int, multiplying: int) -> Kernels:
    one, other = np.uint64(adding), np.uint64(multiplying)
    return Kernels(
        functools.partial(loops.rows, one, other),
        functools.partial(loops.masked, one, other),
        functools.partial(loops.dotted, one, other),
        functools.partial(loops.added, other),
    )


@functools.cache
def _built(add: Any, multiply: Any, seeded: bool) -> Kernels:
    return Kernels(_rows(add, multiply, seeded), masked(add, multiply), dotted(add, multiply), added(multiply))


def _reason(error: NumbaError) -> str:
    """Return the line of an error of Numba's that says why, of all that say where."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # colours, where there is a package for them
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    told = [line.removeprefix("TypingError: ") for line in lines if line.startswith("TypingError: ")]
    told += [line for line in lines if not line.startswith(("Failed in nopython mode", "- Resolution failure"))]
    return next(iter(told), "")


@functools.cache
def _compiled(function: Any, dtype: np.dtype[Any], swapped: bool) -> int:
    """Return where an operation of two numbers of a type stands, compiled: the loops that call it need not be."""
    product = getattr(function, "of", None)
    inner = function if product is None else product
    if inner == "max" and dtype.kind == "c":  # of truths alone: complex numbers have no order
        inner = _either
    if isinstance(inner, str):
        named = NAMED[inner]
        # LLVM takes it that a signed product does not overflow, and so that it is 0 where a factor is.
        wraps = np.dtype(f"u{dtype.itemsize}").type if dtype.kind == "i" and inner in ("plus", "times") else dtype.type

        @njit(nogil=True)
        def inner(a, b):  # type: ignore[no-untyped-def]
            return named(0, wraps(a), wraps(b))

    elif inspect.isfunction(inner):
        inner = njit(inner, nogil=True)
    truth = product is not None
    kind = numpy_support.from_dtype(dtype)

    @njit(nogil=True)
    def called(a, b):  # type: ignore[no-untyped-def]
        value = inner(b, a) if swapped else inner(a, b)
        return kind(value) != kind(0) if truth else value

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumbaWarning)  # what is wrong with a function its error says
            called.compile(kind(kind, kind))
    except NumbaError as error:
        name = getattr(function, "__name__", repr(function))
        why = _reason(error)
        raise InvalidValueError(
            f"a semiring's functions are compiled by Numba, which does not take {name!r} of two {dtype}: {why}"
        ) from error
    _KEPT.append(called)
    result: Any = called.overloads[(kind, kind)]
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def _rows(add: Any, multiply: Any, seeded: bool) -> Any:
    written: Any = differing if seeded else touched

    @njit(cache=True, nogil=True)
    def rows(  # type: ignore[no-untyped-def]
        adding, multiplying, pointers, places, left, starts, columns, right, begins, ends, unwanted, done, kinds, sizes,
        slots, keys, single, width, fill, seed, total, seen, held, window, eights, lines, line_words, found_lines,
        found, out_pointers, out_columns, out
    ):  # fmt: skip
        """Write the products of rows, row by row, columns ascending; return their number.

        Cells that a mask has are taken off a row before it is read out: that takes a step for each of them, none for a
        product.

        Parameters
        ----------
        adding, multiplying
            Where the functions stand that a user gave, uint64; read for those alone.
        pointers, places, left
            The left matrix by rows: uint64 (m + 1,), rows of the right one uint32 (n,), values (n,).
        starts, columns, right
            The right matrix by rows, columns ascending: uint64 (k + 1,), uint32 (n,), values (n,).
        begins, ends, unwanted
            Between which positions the cells of each row are in a mask, and the column of each, ascending in a row:
            uint64 (m,), uint64 (m,), uint32 (n,); the first two are empty where there is no mask.
        done, kinds, sizes, slots, keys
            What :func:`~sparrow.kernels.matmul.symbolic.planned` read and wrote.
        single
            Whether no column comes twice in a row of the right one.
        width
            The number of columns.
        fill
            Sums that equal it are left out.
        seed, total, seen, held, window, eights, lines, line_words, found_lines, found
            A dense row: ``dense`` of a :class:`~sparrow.kernels.matmul.workspace.Workspace`.
        out_pointers
            Where the products of each row begin, and where the last ones end: int64 (m + 1,), written.
        out_columns, out
            Room for as many entries as there are products, and :data:`~sparrow.kernels.matmul.workspace.SLACK` more.
        """
        n: Any = _ZERO
        slot = key = slots_of = keys_of = size_of = _ZERO
        end = np.uint64(len(places))
        height, done_with = np.uint64(len(kinds)), _ZERO
        for i in range(height):
            if i < done_with:
                continue
            out_pointers[i] = n
            kind = kinds[i]
            low, high = pointers[i], pointers[i + _ONE]
            if kind == NOTHING:
                continue
            if kind in (FEW_PRODUCTS, SHIFTED):
                shift = np.uint64(sizes[i])
                if kind == FEW_PRODUCTS:
                    slots_of, keys_of, size_of, shift = slot, key, shift, _ZERO
                    slot += done[i + _ONE] - done[i]
                    key += size_of
                elif size_of <= NARROW and i + LANES <= height:
                    run = run_of(kinds, sizes, i, min(DEPTH, height - i))
                    if run >= LANES:
                        step = np.uint64(sizes[i + _ONE]) - shift
                        at, across = slots_of, high - low
                        for q in range(low, high):
                            k = np.uint64(places[q])
                            begin, stop = starts[k], starts[k + _ONE]
                            apart = step * (stop - begin)
                            prefetch(places, q + DEPTH * across)
                            prefetch(starts, k + DEPTH * step)
                            for p in range(begin, stop):
                                s = np.uint64(slots[at])
                                at += _ONE
                                to = (s & SLOT) * DEPTH
                                if s & FIRST:
                                    for r in range(run):
                                        held[to + r] = multiply(multiplying, left[q + r * across], right[p + r * apart])
                                    continue
                                for r in range(run):
                                    value = multiply(multiplying, left[q + r * across], right[p + r * apart])
                                    held[to + r] = add(adding, held[to + r], value)
                        n = side_by_side(
                            held, size_of, run, keys, keys_of, shift, step, fill, out_pointers, i, out_columns, out, n
                        )
                        done_with = i + run
                        continue
                prefetch(slots, slot + WRITTEN_AHEAD + WRITTEN_AHEAD)
                prefetch(keys, key + WRITTEN_AHEAD)
                prefetch(out_columns, n + WRITTEN_AHEAD)
                for line in range(_ZERO, _WORDS + _WORDS, LANES):
                    prefetch(out, n + WRITTEN_AHEAD + line)
                at = slots_of
                for q in range(low, high):
                    if q + AHEAD + AHEAD < end:
                        prefetch(starts, np.uint64(places[q + AHEAD + AHEAD]))
                    if q + AHEAD < end:
                        ahead = np.uint64(places[q + AHEAD])
                        prefetch(right, starts[ahead])
                        prefetch(right, starts[ahead + _ONE] - _ONE)
                    x = left[q]
                    k = np.uint64(places[q])
                    for p in range(starts[k], starts[k + _ONE]):
                        s = np.uint64(slots[at])
                        at += _ONE
                        value = multiply(multiplying, x, right[p])
                        to = s & SLOT
                        held[to] = value if s & FIRST else add(adding, held[to], value)
                n = slots_out(held, size_of, keys, keys_of, shift, fill, out_columns, out, n)
                continue
            if kind == STRAIGHT:
                for q in range(low, high):
                    if q + AHEAD + AHEAD < end:
                        prefetch(starts, np.uint64(places[q + AHEAD + AHEAD]))
                    if q + SOON < end:
                        ahead = starts[np.uint64(places[q + SOON])]
                        prefetch(columns, ahead)
                        prefetch(right, ahead)
                    x = left[q]
                    k = np.uint64(places[q])
                    for p in range(starts[k], starts[k + _ONE]):
                        value = multiply(multiplying, x, right[p])
                        out_columns[n] = columns[p]
                        out[n] = value
                        n += np.uint64(out[n] != fill)
                continue
            if seeded and kind == THICK:
                prefetch(out_columns, n + WRITTEN_AHEAD)
                prefetch(out, n + WRITTEN_AHEAD)
                smallest = np.uint64(keys[key])
                key += _ONE
                for q in range(low, high):
                    x = left[q]
                    k = np.uint64(places[q])
                    for p in range(starts[k], starts[k + _ONE]):
                        c = np.uint64(columns[p]) - smallest
                        window[c] = add(adding, window[c], multiply(multiplying, x, right[p]))
                n = written(window, _ZERO, np.uint64(sizes[i]), smallest, seen, seed, fill, out_columns, out, n)
                continue
            work = done[i + _ONE] - done[i]
            smallest, largest = _ZERO, width - _ONE
            thick = seeded and largest < THICKNESS * work
            if not thick:
                smallest, largest = span(places, low, high, starts, columns, right)
                thick = seeded and largest - smallest < THICKNESS * work
            for q in range(low, high):
                x = left[q]
                k = np.uint64(places[q])
                if q + AHEAD < end:
                    prefetch(starts, np.uint64(places[q + AHEAD]))
                if q + SOON < high:
                    ahead = starts[np.uint64(places[q + SOON])]
                    prefetch(columns, ahead)
                    prefetch(right, ahead)
                if thick:
                    begin, count = starts[k], starts[k + _ONE] - starts[k]
                    if single and count >= LANES:
                        c = np.uint64(columns[begin])
                        if np.uint64(columns[begin + count - _ONE]) - c == count - _ONE:
                            for p in range(count):
                                total[c + p] = add(adding, total[c + p], multiply(multiplying, x, right[begin + p]))
                            continue
                    for p in range(begin, begin + count):
                        c = np.uint64(columns[p])
                        total[c] = add(adding, total[c], multiply(multiplying, x, right[p]))
                    continue
                for p in range(starts[k], starts[k + _ONE]):
                    c = np.uint64(columns[p])
                    value = multiply(multiplying, x, right[p])
                    if seeded:
                        total[c] = add(adding, total[c], value)
                    else:
                        total[c] = add(adding, total[c], value) if seen[c] else value
                        seen[c] = 1
                    eights[c >> _EIGHTS] = 1
                    lines[c >> _LINES] = 1
            if i < np.uint64(len(begins)):
                for m in range(begins[i], ends[i]):
                    c = np.uint64(unwanted[m])
                    if seeded:
                        total[c] = seed
                    else:
                        seen[c] = 0
            if thick:
                at = (smallest >> _EIGHTS) << _EIGHTS
                n = written(total, at, largest + _ONE, at, seen, seed, fill, out_columns, out, n)
                continue
            count = lines_between(smallest, largest, lines, line_words, found_lines)
            size = _ZERO
            for line in range(count):
                first = np.uint64(found_lines[line]) * IN_LINE
                size = eights_of(first, first + IN_LINE, eights, found, size)
                if size >= np.uint64(BUFFER) or line + _ONE == count:
                    for e in range(size):
                        prefetch(out_columns, n + WRITTEN_AHEAD)
                        prefetch(out, n + WRITTEN_AHEAD)
                        at = np.uint64(found[e]) << _EIGHTS
                        n = written(total, at, at + LANES, at, seen, seed, fill, out_columns, out, n)
                    size = _ZERO
        out_pointers[height] = n
        return n

    return rows
