"""Generators of large data sets as text, for trying out ingest and products.

Determined by the seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.core.schema import as_integer
from sparrow.errors import ExistsError, InvalidValueError
from sparrow.io.base.registry import compressing
from sparrow.runtime.progress import bar
from sparrow.runtime.validation import check_flag
from sparrow.storage.fs.filesystem import atomic_write, get_filesystem

__all__ = ["powerlaw_libsvm", "powerlaw_tns", "rmat"]

_CHUNK_ROWS = 1 << 18
"""Rows drawn from one random generator; part of what a seed means."""
_GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)
"""Multiplier of Fibonacci hashing, by which features get a sign."""


def rmat(
    dst: str | os.PathLike[str],
    scale: int,
    edges: int,
    *,
    a: float = 0.57,
    b: float = 0.19,
    c: float = 0.19,
    seed: int = 0,
    overwrite: bool = False,
) -> int:
    """Write the edges of an R-MAT graph, as in the Graph 500 benchmark.

    D. Chakrabarti, Y. Zhan and C. Faloutsos, R-MAT: A Recursive Model for Graph Mining, 2004.

    Parameters
    ----------
    dst
        The file; compressed if its name ends in ``.gz``, ``.zst`` or ``.bz2``.
    scale
        The graph has 2^scale vertices; at most 62.
    edges
        Number of edges, including loops and repeated ones.
    a, b, c
        Probabilities of the upper left, upper right and lower left quadrant of the matrix, and recursively of each.
    seed
        Seed of the random generator.
    overwrite
        Replace an existing file.

    Returns
    -------
    int
        The number of edges.

    Raises
    ------
    ExistsError
        If the file exists and ``overwrite`` is False.
    InvalidValueError
        If a number is out of range.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.rmat("rmat.txt", scale=10, edges=5000, seed=1)
    5000
    >>> sp.ingest.edges("rmat.txt", "rmat.sparrow", shape=(1024, 1024)).sum()
    np.int64(5000)
    """
    _check(scale=(scale, 0, 62), edges=(edges, 0, None))
    if min(a, b, c) < 0 or a + b + c > 1:
        raise InvalidValueError(f"a, b and c must be probabilities that sum to at most 1, got {a}, {b} and {c}")

    def blocks() -> Iterator[list[NDArray[Any]]]:
        for rng, n in _seeded_chunks(edges, seed):
            src, dst = np.zeros(n, np.int64), np.zeros(n, np.int64)
            for _ in range(scale):
                quarter = np.searchsorted(np.cumsum([a, b, c]), rng.random(n), "right")
                src, dst = 2 * src + (quarter >> 1), 2 * dst + (quarter & 1)
            yield [src, dst]

    return _write(dst, _to_csv(blocks(), "\t"), edges, overwrite)


def powerlaw_libsvm(
    dst: str | os.PathLike[str],
    rows: int,
    features: int,
    per_row: float,
    *,
    skew: float = 3.0,
    seed: int = 0,
    overwrite: bool = False,
) -> int:
    """Write labelled samples in libsvm format whose features follow a power law.

    Parameters
    ----------
    dst
        The file; compressed if its name ends in ``.gz``, ``.zst`` or ``.bz2``.
    rows, features
        Number of rows and of features.
    per_row
        Mean number of features drawn for a row; a feature drawn twice counts once.
    skew
        Exponent of the power law: the larger, the more frequent the first features; 1 is uniform.
    seed
        Seed of the random generator.
    overwrite
        Replace an existing file.

    Returns
    -------
    int
        The number of rows.

    Raises
    ------
    ExistsError
        If the file exists and ``overwrite`` is False.
    InvalidValueError
        If a number is out of range.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.powerlaw_libsvm("samples.svm", rows=100, features=1000, per_row=20)
    100
    >>> sp.ingest.libsvm("samples.svm", "samples.sparrow", index_base=1, n_features=1000)["X"].shape
    (100, 1000)
    """
    _check(rows=(rows, 0, None), features=(features, 1, 2**53), per_row=(int(per_row), 0, _CHUNK_ROWS))

    def texts() -> Iterator[tuple[int, bytes]]:
        size = max(int(_CHUNK_ROWS / (per_row + 1)), 1)
        for rng, n in _seeded_chunks(rows, seed, size):
            lengths = rng.poisson(per_row, n)
            row = np.repeat(np.arange(n), lengths)
            index = _draw_skewed(rng, len(row), features, skew)
            order = np.lexsort((index, row))
            row, index = row[order], index[order]
            kept = np.append(True, (row[1:] != row[:-1]) | (index[1:] != index[:-1]))[: len(row)]
            row, index = row[kept], index[kept]
            values = rng.integers(1, 1000, len(row)) / 1000
            side = np.where((index.astype(np.uint64) * _GOLDEN_RATIO >> np.uint64(63)) != 0, values, -values)
            label = np.where(np.bincount(row, side, n) >= 0, "+1", "-1")
            pairs = pc.binary_join_element_wise(
                pa.array(index + 1).cast(pa.string()), pa.array(values).cast(pa.string()), ":"
            )
            lists = pa.ListArray.from_arrays(pa.array(np.searchsorted(row, np.arange(n + 1)), pa.int32()), pairs)
            lines = pc.binary_join_element_wise(pa.array(label), pc.binary_join(lists, " "), " ").to_pylist()
            yield n, ("\n".join(lines) + "\n").encode()

    return _write(dst, texts(), rows, overwrite)


def powerlaw_tns(
    dst: str | os.PathLike[str],
    shape: Sequence[int],
    nnz: int,
    *,
    skew: float = 3.0,
    seed: int = 0,
    overwrite: bool = False,
) -> int:
    """Write a tensor in FROSTT format whose indices follow a power law.

    Parameters
    ----------
    dst
        The file; compressed if its name ends in ``.gz``, ``.zst`` or ``.bz2``.
    shape
        The shape, of any number of dimensions.
    nnz
        Number of lines; elements may repeat, and are summed when they are stored.
    skew
        Exponent of the power law: the larger, the more frequent the first indices; 1 is uniform.
    seed
        Seed of the random generator.
    overwrite
        Replace an existing file.

    Returns
    -------
    int
        The number of lines.

    Raises
    ------
    ExistsError
        If the file exists and ``overwrite`` is False.
    InvalidValueError
        If a number is out of range.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.powerlaw_tns("cube.tns", (10, 20, 30), 500)
    500
    >>> sp.ingest.tns("cube.tns", "cube.sparrow", shape=(10, 20, 30)).ndim
    3
    """
    _check(nnz=(nnz, 0, None), **{f"shape[{dim}]": (size, 1, 2**53) for dim, size in enumerate(shape)})
    if not len(shape):
        raise InvalidValueError("shape must have at least one dimension, got ()")

    def blocks() -> Iterator[list[NDArray[Any]]]:
        for rng, n in _seeded_chunks(nnz, seed):
            yield [*(_draw_skewed(rng, n, size, skew) + 1 for size in shape), rng.integers(1, 6, n)]

    return _write(dst, _to_csv(blocks(), " "), nnz, overwrite)


def _check(**bounds: tuple[Any, int, int | None]) -> None:
    for name, (value, least, most) in bounds.items():
        if as_integer(value, name) < least or (most is not None and value > most):
            raise InvalidValueError(
                f"{name} must be at least {least}" + (f" and at most {most}" if most else "") + f", got {value}"
            )


def _seeded_chunks(count: int, seed: int, size: int = _CHUNK_ROWS) -> Iterator[tuple[np.random.Generator, int]]:
    """Yield a generator and a size for each chunk."""
    for k, start in enumerate(range(0, count, size)):
        yield np.random.default_rng([seed, k]), min(size, count - start)


def _draw_skewed(rng: np.random.Generator, n: int, size: int, skew: float) -> NDArray[np.int64]:
    """Return integers below ``size`` that follow a power law."""
    return np.minimum((size * rng.random(n) ** skew).astype(np.int64), size - 1)


def _to_csv(blocks: Iterable[list[NDArray[Any]]], delimiter: str) -> Iterator[tuple[int, bytes]]:
    from pyarrow import csv

    options = csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
    for columns in blocks:
        sink = pa.BufferOutputStream()
        csv.write_csv(pa.table(columns, [str(k) for k in range(len(columns))]), sink, options)
        yield len(columns[0]), sink.getvalue().to_pybytes()


def _write(dst: str | os.PathLike[str], texts: Iterable[tuple[int, bytes]], count: int, overwrite: bool) -> int:
    """Write a file atomically."""
    if not check_flag("overwrite", overwrite) and get_filesystem(dst).is_occupied(os.fspath(dst)):
        raise ExistsError(f"{os.fspath(dst)!r} exists: choose another name, or pass overwrite=True to replace it")
    with atomic_write(dst) as file, bar("generating", count, "rows") as advance, compressing(file, dst) as sink:
        for n, text in texts:
            sink.write(text)
            advance(n)
    return count
