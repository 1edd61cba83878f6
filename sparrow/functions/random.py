"""Random tensors: an exact number of entries in random cells."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow.core.schema import Schema, as_integer, check_dtype, check_shape, normalize_dims
from sparrow.errors import InvalidValueError
from sparrow.functions.generation import tensor_from_block
from sparrow.kernels.coo import Block, canonicalize, concat_blocks
from sparrow.runtime import memory
from sparrow.tensor import Tensor

__all__ = ["random"]

Distribution = Literal["uniform", "powerlaw"]

_LARGEST_NUMBER = 100
"""Random integers are 1 to this."""


def random(
    shape: int | Sequence[int],
    nnz: int | None = None,
    density: float | None = None,
    seed: int | np.random.Generator | None = None,
    distribution: Distribution = "uniform",
    dtype: DTypeLike = "float64",
    dims: Sequence[str] | None = None,
) -> Tensor:
    """Return a tensor in memory with an exact number of entries in random cells.

    No array of all cells is made, so that the product of the shape may pass 2^63.

    Parameters
    ----------
    shape
        The sizes of the dimensions.
    nnz, density
        The number of entries, or its share of the cells; one of the two.
    seed
        What the generator starts from, or a generator. The same number gives the same tensor.
    distribution
        "uniform": every set of cells is as likely. "powerlaw": row k along the first dimension has 2^(k + 1) entries
        for as long as there are that many, the rows after them one each, in random cells of the row; no row is left
        without an entry while there are enough. What is left over once every row has its share fills the last rows.
    dtype
        The type of the values: real and imaginary parts are uniform in (0, 1], integers in 1 to 100, booleans True.
    dims
        The names of the dimensions, ``d0, d1, ...`` by default.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If not exactly one of ``nnz`` and ``density`` is given, there are not that many cells, or there is no such
        distribution.
    TooLargeError
        If the entries would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.random((2**40, 2**40), nnz=1000, seed=7)
    >>> A.nnz, A.sum() == sp.random((2**40, 2**40), nnz=1000, seed=7).sum()
    (1000, np.True_)
    >>> sp.random((4, 1000), nnz=30, seed=1, distribution="powerlaw").count(axis=1).to_numpy()
    array([ 2,  4,  8, 16])
    """
    if distribution not in get_args(Distribution):
        raise InvalidValueError(
            f"distribution={distribution!r}: use one of {', '.join(map(repr, get_args(Distribution)))}"
        )
    schema = Schema(check_shape(shape), normalize_dims(dims), check_dtype(dtype))
    count = _number(schema, nnz, density)
    memory.check(4 * count * schema.element_bytes(), f"{count} random entries")
    try:
        rng = np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidValueError(f"seed={seed!r} must be an integer from 0 on, or a generator") from None
    place = _by_rows if distribution == "powerlaw" and schema.ndim else _anywhere
    coords = place(rng, schema.shape, count)
    columns = tuple(column.astype(schema.coordinate_dtype(dim), copy=False) for dim, column in enumerate(coords))
    return tensor_from_block(schema, Block(columns, _values(rng, count, schema.dtype)))


def _number(schema: Schema, nnz: int | None, density: float | None) -> int:
    """Return the number of entries asked for."""
    if (nnz is None) == (density is None):
        raise InvalidValueError("give either nnz, the number of entries, or density, its share of the cells")
    if density is not None:
        if not isinstance(density, numbers.Real) or not 0 <= density <= 1:
            raise InvalidValueError(f"density={density!r} must lie between 0 and 1")
        return min(round(density * schema.size), schema.size)
    count = as_integer(nnz, "nnz")
    if not 0 <= count <= schema.size:
        raise InvalidValueError(f"nnz={count} entries do not fit the {schema.size} cells of shape {schema.shape}")
    return count


def _anywhere(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> tuple[NDArray[Any], ...]:
    """Return ``count`` distinct cells, ascending, every set of them as likely."""
    size = math.prod(shape)
    if size < 2**63:
        wide = [n for n in shape if n > 1]  # of more than 64 dimensions NumPy makes no index
        at = _distinct(rng, size, count)
        columns = iter(np.unravel_index(at, wide) if wide else ())
        return tuple(next(columns) if n > 1 else np.zeros_like(at) for n in shape)
    found = Block(tuple(np.zeros(0, np.int64) for _ in shape), np.zeros(0, bool))
    while found.count < count:
        missing = count - found.count
        drawn = Block(tuple(rng.integers(0, n, missing) for n in shape), np.zeros(missing, bool))
        both = concat_blocks([found, drawn], len(shape), found.values.dtype)
        found = canonicalize(both, shape, None, "first", keep_fill=True)
    return found.coords


def _distinct(rng: np.random.Generator, size: int, count: int) -> NDArray[np.int64]:
    """Return ``count`` distinct numbers below ``size``, ascending, every set of them as likely."""
    if 2 * count > size:
        kept = np.ones(size, bool)
        kept[_distinct(rng, size, size - count)] = False
        return np.flatnonzero(kept)
    found = np.zeros(0, np.int64)
    while len(found) < count:
        # So many draws are expected to hit the missing number of cells; what is too much is dropped at random.
        free = size - len(found)
        missing = count - len(found)
        draws = math.ceil(-free * math.log1p(-missing / free) + 4 * math.sqrt(missing))
        found = np.concatenate([found, rng.integers(0, size, draws)])
        found.sort()
        found = found[np.append(True, found[1:] != found[:-1])]
        if len(found) > count:
            found = np.delete(found, rng.choice(len(found), len(found) - count, replace=False, shuffle=False))
    return found


def _by_rows(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> tuple[NDArray[Any], ...]:
    """Return ``count`` distinct cells, ascending: 2, 4, 8, ... in the first rows, one in each of the others."""
    cells = math.prod(shape[1:])
    parts: list[tuple[NDArray[Any], ...]] = [tuple(np.zeros(0, np.int64) for _ in shape)]
    row = 0
    for rows, each in _row_counts(shape[0], cells, count):
        if each == 1:
            part: tuple[NDArray[Any], ...] = (np.arange(rows), *(rng.integers(0, n, rows) for n in shape[1:]))
        elif each == cells:
            part = np.unravel_index(np.arange(rows * cells), (rows, *shape[1:]))
        else:
            part = (np.zeros(each, np.int64), *_anywhere(rng, shape[1:], each))
        parts.append((part[0] + row, *part[1:]))
        row += rows
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _row_counts(height: int, cells: int, count: int) -> list[tuple[int, int]]:
    """Return runs (rows, entries in each of them) from the first row on; there must be room for ``count`` entries."""
    if count <= height:
        return [(count, 1)]
    extra = count - height
    runs: list[tuple[int, int]] = []
    row = 0
    while extra and row < height and 2 ** (row + 1) < cells:
        more = min(2 ** (row + 1) - 1, extra)
        runs.append((1, 1 + more))
        extra -= more
        row += 1
    whole = min(extra // (cells - 1), height - row)
    if whole:
        runs.append((whole, cells))
        extra -= whole * (cells - 1)
        row += whole
    if extra and row < height:
        runs.append((1, 1 + extra))
        extra = 0
        row += 1
    if row < height:
        runs.append((height - row, 1))
    at = len(runs)
    while extra:  # every row has its share: what is left fills the last ones
        at -= 1
        more = min(cells - runs[at][1], extra) if runs[at][0] == 1 else 0
        runs[at] = (runs[at][0], runs[at][1] + more)
        extra -= more
    return runs


def _values(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return random values that are not 0."""
    if dtype.kind == "b":
        return np.ones(count, bool)
    if dtype.kind in "iu":
        return rng.integers(1, _LARGEST_NUMBER, count, dtype=dtype.type, endpoint=True)
    if dtype.kind == "c":
        out = np.empty(count, dtype)
        out.real, out.imag = _values(rng, count, out.real.dtype), _values(rng, count, out.real.dtype)
        return out
    wide = np.float32 if dtype.itemsize < 8 else np.float64
    return (1 - rng.random(count, dtype=wide)).astype(dtype, copy=False)
