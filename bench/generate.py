"""The data of the benchmarks, made once into ``bench/data``: power-law matrices and text of the same kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from harness import DATA


def power_law(rng: np.random.Generator, n: int, count: int, exponent: float) -> np.ndarray[Any, Any]:
    """Return ``count`` ids below ``n``, some of them very frequent, the frequent ones scattered over the range."""
    ranks = (n * rng.random(count) ** exponent).astype(np.int64)
    return (ranks * 2_654_435_761 + 12_345) % n


def matrix(
    n: int, count: int, seed: int = 0
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return rows, columns and values of about ``count`` distinct sorted cells of an n x n power-law matrix."""
    rng = np.random.default_rng(seed)
    key = power_law(rng, n, count, 1.5) * n + power_law(rng, n, count, 2.0)
    key = np.unique(key)
    return (key // n).astype(np.int32), (key % n).astype(np.int32), rng.standard_normal(len(key))


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
    """Return a libsvm file of about that size: labels +1 and -1, ascending indices from 1, values of 6 digits."""
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
