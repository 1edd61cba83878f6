"""Number of distinct columns per row of a sparse product, without its values.

The columns of a row are a union of right rows. :func:`count_rows` accumulates them in a bitmap, which is much smaller
than a dense row and needs no flags: few words are cleared by reading the right rows again, many by a scan. Right rows
with neighboring columns are compressed first to words of the bitmap (Deveci, Trott and Rajamanickam 2017), so that an
operation adds up to 64 columns. A row that repeats the previous one has its count.

Sums that equal the fill are counted here, though a product does not store them: terms cancel, underflow, wrap around or
saturate. :func:`can_cancel` bounds all sums by interval arithmetic over the values of the operands. Where it returns
False, as for products of positive numbers, the elements of a product are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul.symbolic import PREFETCH_FAR
from sparrow.kernels.simd import BINARY_SEARCH_RATIO, lower_bound, popcount, prefetch

__all__ = ["RowCounter", "ValueRange", "can_cancel", "count_rows"]

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_WORD_BITS, _BIT_MASK = np.uint64(6), np.uint64(63)
_WORDS_SCANNED_PER_ITEM = np.uint64(8)
"""Words of a bitmap that are scanned as fast as one of a right row is cleared."""
_MIN_COMPRESSION = 2
"""Columns per word from which right rows are compressed."""
_NO_BOUNDS, _NO_COLUMNS = as_readonly(np.empty(0, np.uint64)), as_readonly(np.empty(0, np.uint32))
_NO_MASKS = _NO_BOUNDS


class RowCounter:
    """Counts the distinct columns of rows of a product ``lhs @ rhs``.

    Threads may share a counter. Each call allocates a bitmap of ``width`` bits.

    Parameters
    ----------
    rhs_indptr, rhs_indices
        Right matrix in CSR, columns ascending in each row: uint64 (k + 1,), uint32 (n,), read-only.
    width
        Number of columns.

    Attributes
    ----------
    nbytes
        Bytes of compressed right rows, 0 if compression does not pay.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from sparrow.kernels.matmul.count import RowCounter
    >>> A = sparse.csr_array(np.array([[1, 1, 0], [0, 1, 1]]))
    >>> indptr, indices = A.indptr.astype(np.uint64), A.indices.astype(np.uint32)
    >>> counter = RowCounter(indptr, indices, width=3)
    >>> counter.count(np.array([0, 2], np.uint64), np.array([0, 1], np.uint32))
    array([3])
    """

    def __init__(self, rhs_indptr: NDArray[np.uint64], rhs_indices: NDArray[np.uint32], width: int) -> None:
        self._words = as_readonly(rhs_indptr), as_readonly(rhs_indices), _NO_MASKS
        self._rhs, self._n_words, self.nbytes = self._words, -(-max(width, 1) // 64), 0
        indptr = np.empty(len(rhs_indptr), np.uint64)
        n_words = _count_words(*self._rhs[:2], indptr)
        if _MIN_COMPRESSION * n_words <= len(rhs_indices):
            words, masks = np.empty(n_words, np.uint32), np.empty(n_words, np.uint64)
            _compress_rows(*self._rhs[:2], words, masks)
            self._words = as_readonly(indptr), as_readonly(words), as_readonly(masks)
            self.nbytes = sum(array.nbytes for array in self._words)

    def count(
        self,
        lhs_indptr: NDArray[np.uint64],
        lhs_indices: NDArray[np.uint32],
        mask: tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]] | None = None,
        complement: bool = False,
    ) -> NDArray[np.int64]:
        """Return the number of distinct columns of each row, shape (m,).

        Parameters
        ----------
        lhs_indptr, lhs_indices
            Left matrix in CSR: uint64 (m + 1,), from 0, and rows of the right matrix, uint32 (n,).
        mask
            Bounds of each row in a mask, and the column of each of its elements, ascending in a row and each once:
            uint64 (m,), uint64 (m,), uint32 (n,). Only columns of the mask count. None for all columns.
        complement
            Whether only columns that the mask lacks count.
        """
        out = np.empty(len(lhs_indptr) - 1, np.int64)
        bounds = tuple(as_readonly(each) for each in mask or (_NO_BOUNDS, _NO_BOUNDS, _NO_COLUMNS))
        bitmap = np.zeros(self._n_words, np.uint64)
        lhs = as_readonly(lhs_indptr), as_readonly(lhs_indices)
        count: Any = count_rows
        count(*lhs, *self._rhs[:2], *self._words, *bounds, complement, bitmap, out)
        return out


@njit(cache=True, nogil=True)
def _count_words(indptr, indices, out_indptr):  # type: ignore[no-untyped-def]
    """Write the number of bitmap words before each row; return the total."""
    n = _ZERO
    out_indptr[0] = n
    for k in range(np.uint64(len(indptr) - 1)):
        last = np.uint64(2**32)
        for p in range(indptr[k], indptr[k + _ONE]):
            word = np.uint64(indices[p]) >> _WORD_BITS
            n += np.uint64(word != last)
            last = word
        out_indptr[k + _ONE] = n
    return n


@njit(cache=True, nogil=True)
def _compress_rows(indptr, indices, out_words, out_masks):  # type: ignore[no-untyped-def]
    """Write the bitmap words of rows, and their bits."""
    n = _ZERO
    for k in range(np.uint64(len(indptr) - 1)):
        p, stop = indptr[k], indptr[k + _ONE]
        while p < stop:
            word, bits = np.uint64(indices[p]) >> _WORD_BITS, _ZERO
            while p < stop and np.uint64(indices[p]) >> _WORD_BITS == word:
                bits |= _ONE << (np.uint64(indices[p]) & _BIT_MASK)
                p += _ONE
            out_words[n] = word
            out_masks[n] = bits
            n += _ONE


@njit(cache=True, nogil=True)
def count_rows(  # type: ignore[no-untyped-def]
    lhs_indptr, lhs_indices, rhs_indptr, rhs_indices, word_indptr, words, word_masks, mask_begins, mask_ends,
    mask_columns, complement, bitmap, out
):  # fmt: skip
    """Write the number of distinct columns of each row of a product.

    A mask row that is much shorter than its right rows is searched for in them.

    Parameters
    ----------
    lhs_indptr, lhs_indices, rhs_indptr, rhs_indices, mask_begins, mask_ends, mask_columns, complement
        As for :class:`RowCounter`; the bounds are empty if there is no mask.
    word_indptr, words, word_masks
        Right rows as bitmap words and their bits: uint64 (k + 1,), uint32 (w,), uint64 (w,). If the last is empty, the
        right matrix as it is.
    bitmap
        One bit per column, uint64, 0 before and after.
    out
        Receives the counts, int64 (m,).
    """
    end, is_compressed, has_mask = np.uint64(len(lhs_indices)), len(word_masks) > 0, len(mask_begins) > 0
    n: Any = _ZERO
    previous: Any = _ZERO
    previous_end: Any = _ZERO
    for i in range(np.uint64(len(out))):
        low, high = lhs_indptr[i], lhs_indptr[i + _ONE]
        m = stop = _ZERO
        if has_mask:
            m, stop = mask_begins[i], mask_ends[i]
        if low == high or (has_mask and not complement and m == stop):
            out[i] = 0
            continue
        if not has_mask:
            same: Any = high - low == previous_end - previous
            j: Any = _ZERO
            while same and j < high - low:
                same = lhs_indices[low + j] == lhs_indices[previous + j]
                j += _ONE
            if same:
                out[i] = n
                continue
            previous, previous_end = low, high
        n_items: Any = _ZERO
        if has_mask and not complement:
            for q in range(low, high):
                k = np.uint64(lhs_indices[q])
                n_items += word_indptr[k + _ONE] - word_indptr[k]
        if BINARY_SEARCH_RATIO * (stop - m) * (high - low) < n_items:
            found: Any = _ZERO
            for e in range(m, stop):
                for q in range(low, high):
                    k = np.uint64(lhs_indices[q])
                    begin, behind = rhs_indptr[k], rhs_indptr[k + _ONE]
                    p = lower_bound(mask_columns[e], rhs_indices, begin, behind)
                    if p < behind and rhs_indices[p] == mask_columns[e]:
                        found += _ONE
                        break
            out[i] = found
            continue
        smallest, largest, n_items = np.uint64(len(bitmap)), _ZERO, _ZERO
        for q in range(low, high):
            if q + PREFETCH_FAR + PREFETCH_FAR < end:
                prefetch(word_indptr, np.uint64(lhs_indices[q + PREFETCH_FAR + PREFETCH_FAR]))
            if q + PREFETCH_FAR < end:
                ahead = word_indptr[np.uint64(lhs_indices[q + PREFETCH_FAR])]
                prefetch(words, ahead)
                if is_compressed:
                    prefetch(word_masks, ahead)
            k = np.uint64(lhs_indices[q])
            begin, behind = word_indptr[k], word_indptr[k + _ONE]
            if begin == behind:
                continue
            first, last = np.uint64(words[begin]), np.uint64(words[behind - _ONE])
            if is_compressed:
                for p in range(begin, behind):
                    bitmap[np.uint64(words[p])] |= word_masks[p]
            else:
                first, last = first >> _WORD_BITS, last >> _WORD_BITS
                for p in range(begin, behind):
                    c = np.uint64(words[p])
                    bitmap[c >> _WORD_BITS] |= _ONE << (c & _BIT_MASK)
            smallest, largest = min(smallest, first), max(largest, last)
            n_items += behind - begin
        in_mask: Any = _ZERO
        n = _ZERO
        for e in range(m, stop):
            c = np.uint64(mask_columns[e])
            in_mask += (bitmap[c >> _WORD_BITS] >> (c & _BIT_MASK)) & _ONE
        if smallest <= largest and largest - smallest < _WORDS_SCANNED_PER_ITEM * n_items:
            for w in range(smallest, largest + _ONE):
                n += popcount(bitmap[w])
                bitmap[w] = _ZERO
        else:
            for q in range(low, high):
                k = np.uint64(lhs_indices[q])
                for p in range(word_indptr[k], word_indptr[k + _ONE]):
                    word = np.uint64(words[p]) if is_compressed else np.uint64(words[p]) >> _WORD_BITS
                    n += popcount(bitmap[word])
                    bitmap[word] = _ZERO
        if has_mask:
            n = n - in_mask if complement else in_mask
        out[i] = n


# -- sums that equal the fill --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Bounds of the values of an operand, or of what is computed from them.

    Examples
    --------
    >>> import numpy as np
    >>> from sparrow.kernels.matmul.count import ValueRange
    >>> ValueRange.from_values(np.array([3, 1])).union(ValueRange.from_values(np.array([5])))
    ValueRange(low=1, high=5)
    """

    low: Any
    high: Any

    @classmethod
    def from_values(cls, values: NDArray[Any]) -> ValueRange | None:
        """Return the bounds of finite real numbers; None for any others."""
        if values.dtype.kind == "c":
            return None
        if not len(values):
            return cls(1, 1)
        with np.errstate(invalid="ignore"):
            low, high = values.min().item(), values.max().item()  # NaN if one is
        return cls(low, high) if low - low == high - high == 0 else None

    def union(self, other: ValueRange) -> ValueRange:
        """Return the bounds of the values of two ranges."""
        return ValueRange(min(self.low, other.low), max(self.high, other.high))

    def __contains__(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)


def can_cancel(
    add: Any,
    multiply: Any,
    dtype: np.dtype[Any],
    result_dtype: np.dtype[Any],
    fill_value: Any,
    lhs: ValueRange | None,
    rhs: ValueRange | None,
    max_products: int,
) -> bool:
    """Return whether a sum of products may equal the fill of the result.

    It is conservative: it returns True where the bounds of operands cannot exclude it.

    Parameters
    ----------
    add, multiply
        Operations of the semiring: names or functions, of which nothing is known.
    dtype
        Dtype in which products are accumulated.
    result_dtype, fill_value
        Dtype to which sums are cast, and the value that is not stored.
    lhs, rhs
        Bounds of the values of the operands, as cast to ``dtype``; None if unknown. Ignored for "pair".
    max_products
        Upper bound on the products of one result, such as the products of the longest row.

    Examples
    --------
    >>> import numpy as np
    >>> from sparrow.kernels.matmul.count import ValueRange, can_cancel
    >>> double, positive = np.dtype(float), ValueRange(0.5, 8.0)
    >>> can_cancel("plus", "times", double, double, 0.0, positive, positive, 100)
    False
    >>> can_cancel("plus", "times", double, double, 0.0, positive, ValueRange(-1.0, 2.0), 100)
    True
    """
    product = getattr(multiply, "of", multiply)
    if not isinstance(add, str) or not isinstance(product, str) or fill_value != fill_value:
        return True
    if product == "pair":
        lhs = rhs = ValueRange(1, 1)
    elif lhs is None or rhs is None or dtype.kind not in "iuf":
        return True
    bounds = _multiply(product, lhs, rhs, dtype)
    if bounds is not None and product is not multiply:
        bounds = None if 0 in bounds else ValueRange(1, 1)
    if bounds is not None:
        bounds = _add(add, bounds, dtype, max_products)
    return bounds is None or _may_equal(bounds, dtype, result_dtype, fill_value)


def _multiply(name: str, lhs: ValueRange, rhs: ValueRange, dtype: np.dtype[Any]) -> ValueRange | None:
    """Return the bounds of products, None if one may wrap around."""
    if name in ("first", "second", "pair"):
        return rhs if name == "second" else lhs
    if name == "times":
        found = [_times(x, y, dtype) for x in (lhs.low, lhs.high) for y in (rhs.low, rhs.high)]
    elif name == "plus":
        found = [_plus(lhs.low, rhs.low, dtype), _plus(lhs.high, rhs.high, dtype)]
    else:  # "and" takes 0 and 1
        select = max if name == "max" else min
        found = [select(lhs.low, rhs.low), select(lhs.high, rhs.high)]
    return _in_range(ValueRange(min(found), max(found)), dtype)


def _add(name: str, terms: ValueRange, dtype: np.dtype[Any], count: int) -> ValueRange | None:
    """Return the bounds of sums of 1 to ``count`` terms, None if one may wrap around."""
    if name != "plus":  # "or" takes 0 and 1
        return terms
    if dtype.kind in "iu":
        return _in_range(ValueRange(min(terms.low, count * terms.low), max(terms.high, count * terms.high)), dtype)
    return ValueRange(terms.low if terms.low > 0 else -np.inf, terms.high if terms.high < 0 else np.inf)


def _times(x: Any, y: Any, dtype: np.dtype[Any]) -> Any:
    """Return a product, exact for integers and rounded for floats."""
    with np.errstate(all="ignore"):
        return x * y if dtype.kind in "iu" else (dtype.type(x) * dtype.type(y)).item()


def _plus(x: Any, y: Any, dtype: np.dtype[Any]) -> Any:
    with np.errstate(all="ignore"):
        return x + y if dtype.kind in "iu" else (dtype.type(x) + dtype.type(y)).item()


def _in_range(bounds: ValueRange, dtype: np.dtype[Any]) -> ValueRange | None:
    """Return the bounds if an integer dtype holds them, else None."""
    if dtype.kind not in "iu":
        return bounds
    limits = np.iinfo(dtype)
    return bounds if limits.min <= bounds.low <= bounds.high <= limits.max else None


def _may_equal(bounds: ValueRange, dtype: np.dtype[Any], result_dtype: np.dtype[Any], fill_value: Any) -> bool:
    """Return whether sums within bounds may equal the fill once they are cast."""
    fill = np.asarray(fill_value).item()
    if result_dtype.kind == "b":
        return 0 in bounds if not fill else bounds != ValueRange(0, 0)
    if result_dtype.kind == "f" and dtype.kind == "f":
        with np.errstate(all="ignore"):
            bounds = ValueRange(result_dtype.type(bounds.low).item(), result_dtype.type(bounds.high).item())
        return fill in bounds
    if result_dtype.kind in "iu" and dtype.kind in "iu":
        return _in_range(bounds, result_dtype) is None or fill in bounds
    return result_dtype != dtype or fill.real in bounds
