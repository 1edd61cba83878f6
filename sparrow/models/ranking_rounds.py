"""Rankings of items for many rows, in tasks of the cluster of the settings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.task_rounds import open_rounds, pack_array
from sparrow.models.topk import Factors, Pattern, block_rows, iter_top_k
from sparrow.models.tuning import tuning
from sparrow.plan import Scan
from sparrow.tensor import Tensor

__all__ = ["iter_rankings"]

Block = tuple[NDArray[np.int64], NDArray[np.float32]]


def iter_rankings(rows: Factors, items: Factors, k: int, exclude: Pattern | Tensor | None = None) -> Iterator[Block]:
    """Yield the k best items of each row, as :func:`~sparrow.models.topk.iter_top_k`.

    Tasks compute them if the settings name a cluster and they are enough work, with the same bits.
    """
    is_valid = len(rows.shape) == len(items.shape) == 2  # else iter_top_k raises
    products = rows.shape[0] * items.shape[0] * items.shape[1] if is_valid else 0
    opening = open_rounds("auto") if products >= 2 * tuning().rank_task_products else None
    if opening is None:
        yield from iter_top_k(rows, items, k, exclude)
        return
    height, size = rows.shape[0], block_rows(k, items.shape[0])
    with opening as rounds:
        blocks = height // size  # the rows beyond are not a task of their own: their products would be cut otherwise
        tasks = max(min(products // tuning().rank_task_products, rounds.max_tasks, blocks), 1)
        bounds = [*(blocks * task // tasks * size for task in range(tasks)), height]
        scans = [exclude.__sparrow_scan__()] if isinstance(exclude, Tensor) else []
        pattern = exclude if isinstance(exclude, Pattern) else None
        work = Ranking(rounds.pack_object((rows, items, pattern)), k)
        for (first, stop), (ids, scores) in zip(
            itertools.pairwise(bounds), rounds.run(scans, work, bounds), strict=True
        ):
            for start in range(0, stop - first, size):
                yield np.array(ids[start : start + size]), np.array(scores[start : start + size])


@dataclass(frozen=True, slots=True)
class _RowRange:
    """Rows [start, stop) of factors."""

    table: Factors
    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.stop - self.start, self.table.shape[1]

    def __getitem__(self, rows: slice) -> Any:
        start, stop, _ = rows.indices(self.stop - self.start)
        return self.table[self.start + start : self.start + stop]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rank the items for rows."""

    factors: Any
    """Factors of rows and items, and the pattern of items to exclude, or None."""
    k: int

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> Any:
        """Return the best items of rows [start, stop), and their scores.

        A scan is a tensor whose stored elements are excluded.
        """
        rows, items, pattern = self.factors
        exclude: Pattern | Tensor | None = None if pattern is None else pattern.rows(start, stop)
        if scans:
            (scan,) = scans
            exclude = Tensor(scan.source, scan.view.then((slice(start, stop),)))
        found = list(iter_top_k(_RowRange(rows, start, stop), items, self.k, exclude))
        ids, scores = (np.concatenate([block[at] for block in found]) for at in (0, 1))
        return pack_array(folder, ids), pack_array(folder, scores)
