"""Benchmark data, generated once into ``bench/data``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import polars as pl
import pyarrow as pa
from harness import DATA, fresh
from scipy.sparse import coo_matrix

import sparrow as sp
import sparrow.ingest


def power_law(rng: np.random.Generator, n: int, count: int, exponent: float) -> np.ndarray[Any, Any]:
    """Return ``count`` ids below ``n`` with power-law frequencies, shuffled."""
    ranks = (n * rng.random(count) ** exponent).astype(np.int64)
    return (ranks * 2_654_435_761 + 12_345) % n


def matrix(
    n: int, count: int, seed: int = 0
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return sorted COO arrays of an n x n power-law matrix."""
    rng = np.random.default_rng(seed)
    key = power_law(rng, n, count, 1.5) * n + power_law(rng, n, count, 2.0)
    key = np.unique(key)
    return (key // n).astype(np.int32), (key % n).astype(np.int32), rng.standard_normal(len(key))


def rmat(levels: int, per_row: int, seed: int = 3) -> sp.Tensor:
    """Return a shuffled R-MAT graph of 2^levels nodes (Graph500 parameters)."""
    rng = np.random.default_rng(seed)
    size = 1 << levels
    at = np.zeros((2, per_row * size), np.int64)
    for _ in range(levels):
        quarter = np.searchsorted([0.57, 0.76, 0.95], rng.random(at.shape[1]), side="right")
        at = at * 2 + np.stack([quarter >> 1, quarter & 1])
    rows, columns = rng.permutation(size)[at]
    return sp.asarray(coo_matrix((rng.random(at.shape[1]), (rows, columns)), (size, size)).tocsr()).compute()


def edges_text(count: int, n: int = 1 << 21, seed: int = 1) -> Path:
    """Return a SNAP-like edge list of ``count`` lines in no order."""
    path = DATA / f"edges-{count}.txt"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        rng = np.random.default_rng(seed)
        part = path.with_suffix(".part")
        with part.open("wb") as out:
            out.write(b"# Directed graph, generated\n# FromNodeId\tToNodeId\n")
            for start in range(0, count, 5_000_000):
                m = min(5_000_000, count - start)
                frame = pl.DataFrame({"s": power_law(rng, n, m, 1.5), "d": power_law(rng, n, m, 2.0)})
                frame.write_csv(out, include_header=False, separator="\t")
        part.rename(path)
    return path


def libsvm_text(megabytes: int, features: int = 1 << 20, per_row: int = 60, seed: int = 2) -> Path:
    """Return a libsvm file of about ``megabytes``."""
    path = DATA / f"libsvm-{megabytes}.txt"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        rng = np.random.default_rng(seed)
        part = path.with_suffix(".part")
        with part.open("wb") as out:
            while out.tell() < megabytes * 1_000_000:
                rows = 20_000
                counts = rng.integers(per_row // 2, per_row * 3 // 2, rows)
                row = np.repeat(np.arange(rows), counts)
                key = np.unique(row * features + power_law(rng, features, len(row), 2.0))
                values = pl.Series(rng.random(len(key)).round(6)).cast(pl.String)
                frame = pl.DataFrame({"r": key // features, "c": key % features + 1, "v": values})
                lines = (
                    frame.with_columns(t=pl.format("{}:{}", "c", "v"))
                    .group_by("r", maintain_order=True)
                    .agg(pl.col("t").str.join(" "))
                )
                labels = pl.Series("y", np.where(rng.random(len(lines)) < 0.5, "+1", "-1"))
                text = lines.with_columns(labels).select(pl.format("{} {}", "y", "t"))
                text.write_csv(out, include_header=False, quote_style="never")
        part.rename(path)
    return path


@numba.njit(cache=True, nogil=True)
def _random_bits(seed: int, position: int) -> np.uint64:
    """Return 64 bits of splitmix64 (Steele, Lea, Flood 2014) at a position."""
    bits = (np.uint64(seed) << np.uint64(48)) + np.uint64(position + 1) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@numba.njit(cache=True, nogil=True)
def _rmat(scale: int, first: int, seed: int, sources: np.ndarray, targets: np.ndarray) -> None:
    """Draw R-MAT edges, one quadrant per level."""
    a, ab, abc = np.uint64(37356), np.uint64(49808), np.uint64(62260)  # 0.57, 0.76, 0.95 of 2^16, as in Graph500
    mask = np.int64((1 << scale) - 1)
    for k in range(len(sources)):
        source = target = np.int64(0)
        bits = np.uint64(0)
        for level in range(scale):
            if level % 4 == 0:
                bits = _random_bits(seed, (first + k) * 8 + level // 4)
            draw = bits & np.uint64(0xFFFF)
            bits >>= np.uint64(16)
            source = source << 1 | np.int64(draw >= ab)
            target = target << 1 | np.int64((draw >= a and draw < ab) or draw >= abc)
        # Odd multipliers permute the ids: neighbours in number are no neighbours in the graph.
        sources[k] = (source * 2_654_435_761 + 12_345) & mask
        targets[k] = (target * 2_654_435_761 + 12_345) & mask


def links(scale: int, count: int, seed: int = 3) -> sp.Tensor:
    """Return a stored R-MAT graph of 2^scale nodes with both sort orders.

    A link drawn twice counts once, so there are somewhat fewer (Chakrabarti, Zhan, Faloutsos: R-MAT, 2004, with the
    probabilities of Graph500). The same arguments give the same graph.
    """
    path = DATA / f"rmat-{scale}-{count}-{seed}.sparrow"
    if not (path / "_orders").is_dir():
        columns = {"source": pa.int32(), "target": pa.int32()}

        def drawn() -> Iterator[pa.RecordBatch]:
            for first in range(0, count, 1 << 20):
                part = [np.empty(min(1 << 20, count - first), np.int32) for _ in columns]
                _rmat(scale, first, seed, *part)
                yield pa.record_batch([pa.array(ids) for ids in part], names=list(columns))

        reader = pa.RecordBatchReader.from_batches(pa.schema(columns), drawn())
        graph = sparrow.ingest.columns(
            reader, fresh(path), coords=list(columns), shape=(1 << scale, 1 << scale), duplicates="first", dtype="int8"
        )
        graph.add_order((1, 0))
    return sp.open(path)
