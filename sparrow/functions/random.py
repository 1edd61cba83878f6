"""Random tensors with an exact number of stored elements."""

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

_MAX_INTEGER = 100
"""Largest random integer; the smallest is 1."""


def random(
    shape: int | Sequence[int],
    nnz: int | None = None,
    density: float | None = None,
    seed: int | np.random.Generator | None = None,
    distribution: Distribution = "uniform",
    dtype: DTypeLike = "float64",
    dims: Sequence[str] | None = None,
) -> Tensor:
    """Return a random tensor in memory with an exact number of stored elements.

    No dense array is created, so that the size may exceed 2^63.

    Parameters
    ----------
    shape
        Sizes of the dimensions.
    nnz, density
        Number of stored elements, or its share of the size; pass one of them.
    seed
        Seed or generator. The same seed gives the same tensor.
    distribution
        "uniform": every set of positions is equally likely. "powerlaw": row k of the first dimension has 2^(k + 1)
        stored elements while there are enough, and each later row one, at random positions; no row stays empty if there
        are enough. Elements left over once every row has its share fill the last rows.
    dtype
        Dtype of the values: floating numbers are uniform in (0, 1], as are real and imaginary parts; integers are 1 to
        100, booleans True.
    dims
        Names of the dimensions, ``d0, d1, ...`` by default.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If not exactly one of ``nnz`` and ``density`` is passed, it exceeds the size, or the distribution is unknown.
    TooLargeError
        If the stored elements would exceed the memory limit.

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
            f"distribution must be one of {', '.join(map(repr, get_args(Distribution)))}, got {distribution!r}"
        )
    schema = Schema(check_shape(shape), normalize_dims(dims), check_dtype(dtype))
    count = _resolve_nnz(schema, nnz, density)
    memory.check(4 * count * schema.element_bytes(), f"{count} random elements")
    try:
        rng = np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidValueError(f"seed must be a non-negative integer or a generator, got {seed!r}") from None
    sample = _sample_powerlaw if distribution == "powerlaw" and schema.ndim else _sample_uniform
    coords = sample(rng, schema.shape, count)
    columns = tuple(column.astype(schema.coordinate_dtype(dim), copy=False) for dim, column in enumerate(coords))
    return tensor_from_block(schema, Block(columns, _random_values(rng, count, schema.dtype)))


def _resolve_nnz(schema: Schema, nnz: int | None, density: float | None) -> int:
    """Return the requested number of stored elements."""
    if (nnz is None) == (density is None):
        raise InvalidValueError("random requires either nnz or density")
    if density is not None:
        if not isinstance(density, numbers.Real) or not 0 <= density <= 1:
            raise InvalidValueError(f"density must be between 0 and 1, got {density!r}")
        return min(round(density * schema.size), schema.size)
    count = as_integer(nnz, "nnz")
    if not 0 <= count <= schema.size:
        raise InvalidValueError(
            f"nnz must be between 0 and the size {schema.size} of shape {schema.shape}, got {count}"
        )
    return count


def _sample_uniform(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> tuple[NDArray[Any], ...]:
    """Return distinct positions, ascending, all sets equally likely."""
    size = math.prod(shape)
    if size < 2**63:
        wide = [n for n in shape if n > 1]  # NumPy supports 64 dimensions
        at = _sample_distinct(rng, size, count)
        columns = iter(np.unravel_index(at, wide) if wide else ())
        return tuple(next(columns) if n > 1 else np.zeros_like(at) for n in shape)
    found = Block(tuple(np.zeros(0, np.int64) for _ in shape), np.zeros(0, bool))
    while found.count < count:
        missing = count - found.count
        drawn = Block(tuple(rng.integers(0, n, missing) for n in shape), np.zeros(missing, bool))
        both = concat_blocks([found, drawn], len(shape), found.values.dtype)
        found = canonicalize(both, shape, None, "first", keep_fill=True)
    return found.coords


def _sample_distinct(rng: np.random.Generator, size: int, count: int) -> NDArray[np.int64]:
    """Return distinct numbers below ``size``, ascending."""
    if 2 * count > size:
        selected = np.ones(size, bool)
        selected[_sample_distinct(rng, size, size - count)] = False
        return np.flatnonzero(selected)
    found = np.zeros(0, np.int64)
    while len(found) < count:
        # The expected number of draws that hit the missing positions; the surplus is dropped at random.
        free = size - len(found)
        missing = count - len(found)
        draws = math.ceil(-free * math.log1p(-missing / free) + 4 * math.sqrt(missing))
        found = np.concatenate([found, rng.integers(0, size, draws)])
        found.sort()
        found = found[np.append(True, found[1:] != found[:-1])]
        if len(found) > count:
            found = np.delete(found, rng.choice(len(found), len(found) - count, replace=False, shuffle=False))
    return found


def _sample_powerlaw(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> tuple[NDArray[Any], ...]:
    """Return distinct positions, ascending: 2, 4, 8, ... in the first rows."""
    row_size = math.prod(shape[1:])
    parts: list[tuple[NDArray[Any], ...]] = [tuple(np.zeros(0, np.int64) for _ in shape)]
    row = 0
    for rows, each in _row_counts(shape[0], row_size, count):
        if each == 1:
            part: tuple[NDArray[Any], ...] = (np.arange(rows), *(rng.integers(0, n, rows) for n in shape[1:]))
        elif each == row_size:
            part = np.unravel_index(np.arange(rows * row_size), (rows, *shape[1:]))
        else:
            part = (np.zeros(each, np.int64), *_sample_uniform(rng, shape[1:], each))
        parts.append((part[0] + row, *part[1:]))
        row += rows
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _row_counts(height: int, row_size: int, count: int) -> list[tuple[int, int]]:
    """Return runs (number of rows, elements in each of them) from the first row on."""
    if count <= height:
        return [(count, 1)]
    extra = count - height
    runs: list[tuple[int, int]] = []
    row = 0
    while extra and row < height and 2 ** (row + 1) < row_size:
        more = min(2 ** (row + 1) - 1, extra)
        runs.append((1, 1 + more))
        extra -= more
        row += 1
    full_rows = min(extra // (row_size - 1), height - row)
    if full_rows:
        runs.append((full_rows, row_size))
        extra -= full_rows * (row_size - 1)
        row += full_rows
    if extra and row < height:
        runs.append((1, 1 + extra))
        extra = 0
        row += 1
    if row < height:
        runs.append((height - row, 1))
    at = len(runs)
    while extra:  # every row has its share: the rest fills the last ones
        at -= 1
        more = min(row_size - runs[at][1], extra) if runs[at][0] == 1 else 0
        runs[at] = (runs[at][0], runs[at][1] + more)
        extra -= more
    return runs


def _random_values(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return random non-zero values."""
    if dtype.kind == "b":
        return np.ones(count, bool)
    if dtype.kind in "iu":
        return rng.integers(1, _MAX_INTEGER, count, dtype=dtype.type, endpoint=True)
    if dtype.kind == "c":
        out = np.empty(count, dtype)
        out.real, out.imag = _random_values(rng, count, out.real.dtype), _random_values(rng, count, out.real.dtype)
        return out
    wide = np.float32 if dtype.itemsize < 8 else np.float64
    return (1 - rng.random(count, dtype=wide)).astype(dtype, copy=False)
