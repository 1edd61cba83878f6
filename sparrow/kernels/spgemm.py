"""Products of sparse matrices row by row (Gustavson), under any semiring, over arrays alone.

A row of the product is a sum of rows of the right matrix. Rows of few products gather them in buffers that stay in the
first cache, and sort those; others add them up in a dense row whose occupied places are marked in a bitmap of two
levels, which gives the columns in order without a sort. Where there are about as many products as columns between the
first and the last nothing is marked: what differs from the identity of ``add`` is an entry. All add in the order of the
left row's entries, so the bits depend on neither. Positions are unsigned: that spares a test for negative ones at every
access.

:func:`kernels_of` gives the loops of a semiring, compiled when first asked for and found compiled in later processes.
Named operations are compiled into their loops. A user's functions are called by loops that serve all of them, so that
the functions alone are compiled.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.core.errors import NumbaError
from numba.extending import register_jitable
from numba.np import numpy_support
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError
from sparrow.kernels.compiling import announce
from sparrow.kernels.dots import dotted
from sparrow.kernels.intrinsics import at_address, place_of, prefetch, trailing
from sparrow.kernels.jit import njit
from sparrow.kernels.masks import added, masked

__all__ = ["FEW", "NAMED", "Kernels", "Workspace", "kernels_of", "products_before", "seed_of"]

FEW = 256
"""Products of a row that are gathered rather than added to a dense row, at most."""
_INSERTED = 24
"""Products that are sorted by insertion alone."""

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_SIX, _LOW = np.uint64(6), np.uint64(63)
_NONE = np.uint64(2**64 - 1)
_POINTERS, _ROWS = np.uint64(16), np.uint64(6)
"""How many entries of the left matrix before their turn rows of the right one are looked up, and fetched."""
_THICK = np.uint64(2)
"""Columns between the first and the last for each product up to which a row is looked through rather than marked."""
_LAST = np.uint64(2**32 - 1)
_SEARCHED = np.uint64(8)
"""How many times longer than a row a mask's is where the row's columns are searched in it."""
_WIDEST = 1 << 20
"""Columns up to which a dense row is filled with an identity that is not 0, which takes the room at once."""


@register_jitable
def _plus(where, a, b):  # type: ignore[no-untyped-def]
    return a + b


@register_jitable
def _times(where, a, b):  # type: ignore[no-untyped-def]
    return a * b


@register_jitable
def _min(where, a, b):  # type: ignore[no-untyped-def]
    return a if a < b or a != a else b  # NaN wins, as in NumPy


@register_jitable
def _max(where, a, b):  # type: ignore[no-untyped-def]
    return a if a > b or a != a else b


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
    """The same, cell by cell, of the right matrix by columns: :func:`sparrow.kernels.dots.dotted`."""
    added: Callable[..., None]
    """The sums of those, each times a weight of the mask's cell, where what is added is ``plus``."""


class Workspace:
    """Buffers that one thread uses for products of some width, clean between calls.

    Parameters
    ----------
    width
        The number of columns.
    dtype
        The type in which products are added up.
    seed
        What the dense row holds wherever nothing is added up.
    """

    def __init__(self, width: int, dtype: np.dtype[Any], seed: Any = 0) -> None:
        words = (width >> 6) + 1
        self.seed = dtype.type(seed)
        self.total = np.full(width, self.seed) if seed else np.zeros(width, dtype)
        self.marks = np.zeros(words, np.uint64)
        self.tops = np.zeros((words >> 6) + 1, np.uint64)
        self.keys = np.empty((2, FEW), np.uint32)
        self.held = np.empty((2, FEW), dtype)
        self.counts = np.zeros(257, np.uint32)
        self._width = width
        self._state: NDArray[np.uint8] | None = None
        self._weights: NDArray[Any] | None = None

    @property
    def state(self) -> NDArray[np.uint8]:
        """A byte for each column, 0."""
        if self._state is None:
            self._state = np.zeros(self._width, np.uint8)
        return self._state

    @property
    def weights(self) -> NDArray[Any]:
        """A number for each column, 0."""
        if self._weights is None:
            self._weights = np.zeros(max(self._width, 1), self.total.dtype)
        return self._weights


def seed_of(add: Any, dtype: np.dtype[Any], width: int) -> Any:
    """Return what ``add`` leaves as it is, if it can stand in a dense row of a width where nothing was added up.

    None where there is no such number, and where filling a row with it takes too long.
    """
    if not isinstance(add, str) or dtype.kind not in "iuf":
        return None  # of complex numbers each part has its own sign of 0
    if add in ("plus", "or"):
        return 0
    if add not in ("min", "max") or width > _WIDEST:
        return None
    if dtype.kind == "f":
        return np.inf if add == "min" else -np.inf
    bounds = np.iinfo(dtype)
    return bounds.max if add == "min" else bounds.min


def kernels_of(add: Any, multiply: Any, dtype: np.dtype[Any], swapped: bool = False, seeded: bool = False) -> Kernels:
    """Return the loops of a semiring.

    Parameters
    ----------
    add, multiply
        Names of operations, or functions of two numbers that Numba compiles.
    dtype
        The type in which products are added up.
    swapped
        Whether ``multiply`` takes the right value first.
    seeded
        Whether the dense rows of workspaces hold :func:`seed_of` them.

    Raises
    ------
    InvalidValueError
        If Numba does not compile a function.
    """
    announce()
    if isinstance(add, str) and isinstance(multiply, str):
        if swapped:
            multiply = {"first": "second", "second": "first"}.get(multiply, multiply)
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


@functools.cache
def _compiled(function: Any, dtype: np.dtype[Any], swapped: bool) -> int:
    """Return where an operation of two numbers of a type stands, compiled: the loops that call it need not be."""
    inner = function
    if isinstance(function, str):
        named = NAMED[function]

        @njit(nogil=True)
        def inner(a, b):  # type: ignore[no-untyped-def]
            return named(0, a, b)

    elif inspect.isfunction(function):
        inner = njit(function, nogil=True)

    @njit(nogil=True)
    def called(a, b):  # type: ignore[no-untyped-def]
        return inner(b, a) if swapped else inner(a, b)

    kind = numpy_support.from_dtype(dtype)
    try:
        called.compile(kind(kind, kind))
    except NumbaError as error:
        name = getattr(function, "__name__", repr(function))
        why = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise InvalidValueError(
            f"a semiring's functions are compiled by Numba, which does not take {name!r} of two {dtype}: {why}"
        ) from error
    _KEPT.append(called)
    result: Any = called.overloads[(kind, kind)]
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


@njit(cache=True, nogil=True)
def _sorted(keys, held, size, smallest, largest, counts):  # type: ignore[no-untyped-def]
    """Sort what is gathered by column, equal ones as they came; return which of the two buffers holds it then."""
    side = _ZERO
    if size > _INSERTED:
        side = _ONE
        shift = _ZERO
        while ((largest - smallest) >> shift) > np.uint64(255):
            shift += _ONE
        counts[:] = 0
        for e in range(size):
            counts[((np.uint64(keys[0, e]) - smallest) >> shift) + _ONE] += np.uint32(1)
        for b in range(np.uint64(1), np.uint64(257)):
            counts[b] += counts[b - _ONE]
        for e in range(size):
            bucket = (np.uint64(keys[0, e]) - smallest) >> shift
            to = np.uint64(counts[bucket])
            counts[bucket] += np.uint32(1)
            keys[1, to] = keys[0, e]
            held[1, to] = held[0, e]
    for e in range(_ONE, size):
        key = keys[side, e]
        value = held[side, e]
        at: Any = e
        while at > _ZERO and keys[side, at - _ONE] > key:
            keys[side, at] = keys[side, at - _ONE]
            held[side, at] = held[side, at - _ONE]
            at -= _ONE
        keys[side, at] = key
        held[side, at] = value
    return side


@njit(cache=True, nogil=True)
def _emptied(fill, seed, total, marks, tops, n, out_columns, out):  # type: ignore[no-untyped-def]
    """Write what a dense row holds behind the first ``n`` and leave it clean; return how many there are then."""
    for t in range(np.uint64(len(tops))):
        top = tops[t]
        if top == _ZERO:
            continue
        tops[t] = _ZERO
        while top:
            at = (t << _SIX) + trailing(top)
            top &= top - _ONE
            word = marks[at]
            marks[at] = _ZERO
            while word:
                c = (at << _SIX) + trailing(word)
                word &= word - _ONE
                out_columns[n] = c
                value = total[c]
                total[c] = seed
                out[n] = value
                n += np.uint64(value != fill)
    return n


@njit(cache=True, nogil=True)
def _without(first, last, out_columns, out, m, end, unwanted):  # type: ignore[no-untyped-def]
    """Take the cells of a mask out of a row that is written; return where what is left of it ends."""
    if m == end:
        return last
    far = end - m > _SEARCHED * (last - first)
    n = first
    for p in range(first, last):
        c = out_columns[p]
        if far:
            m = place_of(c, unwanted, m, end)
        while m < end and unwanted[m] < c:
            m += _ONE
        out_columns[n] = c
        out[n] = out[p]
        n += np.uint64(m == end or unwanted[m] != c)
    return n


def _rows(add: Any, multiply: Any, seeded: bool) -> Any:
    @njit(cache=True, nogil=True)
    def rows(  # type: ignore[no-untyped-def]
        adding, multiplying, pointers, places, left, starts, columns, right, begins, ends, unwanted, first, last,
        single, few, fill, seed, total, marks, tops, keys, held, counts, out_pointers, out_columns, out
    ):  # fmt: skip
        """Write the products of rows ``first`` to ``last``, row by row, columns ascending; return their number.

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
        single
            Whether no column comes twice in a row of the right matrix.
        few
            How many products of a row are gathered, at most FEW.
        fill
            Sums that equal it are left out.
        seed, total, marks, tops, keys, held, counts
            Those of a :class:`Workspace`.
        out_pointers
            Where the products of each row begin, and where the last ones end: int64 (last - first + 1,), written.
        out_columns, out
            Room for as many entries as there are products, and one more.
        """
        n = _ZERO
        end = np.uint64(len(places))
        begin_off = end_off = _ZERO
        for i in range(first, last):
            low, high = pointers[i], pointers[i + _ONE]
            before_row = n
            out_pointers[i - first] = n
            if low == high:
                continue
            if i < np.uint64(len(begins)):
                begin_off, end_off = begins[i], ends[i]
            if single and high - low == _ONE:
                if low + _ROWS < end:
                    begin = starts[np.uint64(places[low + _ROWS])]
                    prefetch(columns, begin)
                    prefetch(right, begin)
                x = left[low]
                k = np.uint64(places[low])
                for p in range(starts[k], starts[k + _ONE]):
                    value = multiply(multiplying, x, right[p])
                    out_columns[n] = columns[p]
                    out[n] = value
                    n += np.uint64(out[n] != fill)
                n = _without(before_row, n, out_columns, out, begin_off, end_off, unwanted)
                continue
            work = _ZERO
            smallest, largest = _LAST, _ZERO
            for q in range(low, high):
                if q + _POINTERS < end:
                    prefetch(starts, np.uint64(places[q + _POINTERS]))
                k = np.uint64(places[q])
                begin, stop = starts[k], starts[k + _ONE]
                if begin < stop:
                    work += stop - begin
                    smallest = min(smallest, np.uint64(columns[begin]))
                    largest = max(largest, np.uint64(columns[stop - _ONE]))
                    prefetch(right, begin)
            if work == _ZERO:
                continue
            if work <= few:
                size = _ZERO
                ascending: Any = True
                before = _ZERO
                for q in range(low, high):
                    x = left[q]
                    k = np.uint64(places[q])
                    for p in range(starts[k], starts[k + _ONE]):
                        c = np.uint64(columns[p])
                        ascending &= c >= before
                        before = c
                        keys[0, size] = c
                        held[0, size] = multiply(multiplying, x, right[p])
                        size += _ONE
                side = _ZERO
                if not ascending:
                    side = _sorted(keys, held, size, smallest, largest, counts)
                f: Any = _ZERO
                while f < size:
                    key = keys[side, f]
                    value = held[side, f]
                    f += _ONE
                    while f < size and keys[side, f] == key:
                        value = add(adding, value, held[side, f])
                        f += _ONE
                    out_columns[n] = key
                    out[n] = value
                    n += np.uint64(out[n] != fill)
                n = _without(before_row, n, out_columns, out, begin_off, end_off, unwanted)
                continue
            thick = seeded and largest - smallest < _THICK * work
            for q in range(low, high):
                x = left[q]
                k = np.uint64(places[q])
                if q + _ROWS < high:
                    begin = starts[np.uint64(places[q + _ROWS])]
                    prefetch(columns, begin)
                    prefetch(right, begin)
                if thick:
                    for p in range(starts[k], starts[k + _ONE]):
                        c = np.uint64(columns[p])
                        total[c] = add(adding, total[c], multiply(multiplying, x, right[p]))
                    continue
                at = _NONE
                word = _ZERO
                for p in range(starts[k], starts[k + _ONE]):
                    c = np.uint64(columns[p])
                    value = multiply(multiplying, x, right[p])
                    here = c >> _SIX
                    if here != at:
                        if at != _NONE:
                            marks[at] = word
                        at = here
                        word = marks[at]
                        tops[at >> _SIX] |= _ONE << (at & _LOW)
                    bit = _ONE << (c & _LOW)
                    if seeded or word & bit:
                        total[c] = add(adding, total[c], value)
                    else:
                        total[c] = value
                    word |= bit
                if at != _NONE:
                    marks[at] = word
            for m in range(begin_off, end_off):
                c = np.uint64(unwanted[m])
                total[c] = seed
                marks[c >> _SIX] &= ~(_ONE << (c & _LOW))
            if thick:
                for place in range(smallest, largest + _ONE):
                    value = total[place]
                    total[place] = seed
                    out_columns[n] = place
                    out[n] = value
                    n += np.uint64((value != seed) & (value != fill))
                continue
            n = _emptied(fill, seed, total, marks, tops, n, out_columns, out)
        out_pointers[last - first] = n
        return n

    return rows


@njit(cache=True, nogil=True)
def products_before(pointers, places, starts, out):  # type: ignore[no-untyped-def]
    """Write how many products there are before each row of the left matrix, and in all.

    Parameters
    ----------
    pointers, places
        The left matrix by rows: int64 (m + 1,), rows of the right one int32 (n,).
    starts
        Where the rows of the right one begin, int64 (k + 1,).
    out
        Shape (m + 1,), int64: written.
    """
    done = 0
    out[0] = 0
    end = np.uint64(len(places))
    for i in range(len(pointers) - 1):
        for q in range(np.uint64(pointers[i]), np.uint64(pointers[i + 1])):
            if q + _POINTERS < end:
                prefetch(starts, np.uint64(places[q + _POINTERS]))
            k = np.uint64(places[q])
            done += starts[k + _ONE] - starts[k]
        out[i + 1] = done
