"""Bytes and decode time of the profile "portable" next to "fast"."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from generate import power_law, rmat
from harness import DATA, Row, alternate, fresh

import sparrow as sp
from sparrow.storage.parquet.reader import read_footer, read_row_group

_GOAL = 1.3
"""Ratio of bytes and of time below which "portable" would be the default."""


def run(count: int, rounds: int) -> list[Row]:
    """Return the rows, on two data sets and three drawn ones of ``count`` elements."""
    out = []
    for name, tensor in _tensors(count).items():
        stored = {
            profile: tensor.save(fresh(DATA / f"{profile}.sparrow"), profile=profile)
            for profile in ("fast", "portable")
        }
        took = alternate({profile: _decoder(kept) for profile, kept in stored.items()}, rounds, clock=time.process_time)
        fast, portable = stored["fast"].nbytes, stored["portable"].nbytes
        told = " : ".join(f"{8 * nbytes / tensor.nnz:.2f} bits" for nbytes in (portable, fast))
        out.append(Row(f"{name}, bytes", 'profile="fast"', portable / fast, _GOAL, f"{tensor.nnz:,} elements: {told}"))
        told = " : ".join(f"{1e9 * took[profile] / tensor.nnz:.2f} ns" for profile in ("portable", "fast"))
        out.append(Row(f"{name}, decode", 'profile="fast"', took["portable"] / took["fast"], _GOAL, told))
    return out


def _tensors(count: int) -> dict[str, sp.Tensor]:
    rng = np.random.default_rng(0)
    ratings = np.unique(power_law(rng, 200_000, count, 1.5) * 20_000 + power_law(rng, 20_000, count, 2.0))
    counts = np.unique(power_law(rng, 100_000, count, 1.2) * 50_000 + power_law(rng, 50_000, count, 3.0))
    levels = (count // 16).bit_length() - 1
    return {
        "cnr-2000": sp.ingest.edges(sp.datasets.path("cnr-2000"), fresh(DATA / "cnr.sparrow")),
        "R-MAT": rmat(levels, 16),
        "ratings": sp.from_coords(
            np.divmod(ratings, 20_000), rng.integers(1, 11, len(ratings)) / 2, shape=(200_000, 20_000)
        ),
        "counts": sp.from_coords(np.divmod(counts, 50_000), rng.geometric(0.4, len(counts)), shape=(100_000, 50_000)),
        "a9a": sp.ingest.libsvm(sp.datasets.path("a9a"), fresh(DATA / "a9a.sparrow"))["X"],
    }


def _decoder(stored: sp.Tensor) -> Callable[[], None]:
    """Return a function that decodes all row groups on one thread, as scans do."""
    groups = [
        (str(file.path), group)
        for file in stored.files()
        for group in range(len(read_footer(str(file.path), stored.ndim).rows))
    ]

    def decode() -> None:
        for path, group in groups:
            read_row_group(path, group, stored.ndim, stored.dtype)

    return decode
