"""Labels: aligned sums, appends and lookups next to pandas and Polars."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from harness import DATA, Row, alternate, fresh

import sparrow as sp

COLUMNS = 2_000


def run(small: bool, rounds: int) -> list[Row]:
    """Return the rows for aligned sums and for a million labels."""
    entries, users, names = (100_000, 10_000, 100_000) if small else (1_000_000, 100_000, 1_000_000)
    return [*_sums(entries, users, rounds), *_growing(names, rounds), *_looked_up(names, rounds)]


def _table(seed: int, entries: int, users: int, first: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    key = np.unique(rng.integers(0, users * COLUMNS, entries))
    row = pa.array([f"u{k:07}" for k in range(first, first + users)]).take(pa.array(key // COLUMNS))
    return pl.DataFrame({"user": pl.Series(row), "item": key % COLUMNS, "value": rng.random(len(key))})


def _sums(entries: int, users: int, rounds: int) -> list[Row]:
    """Compare sums whose labels overlap by 99 %."""
    frames = [_table(1, entries, users, 0), _table(2, entries, users, users // 100)]
    a, b = (sp.from_relation(each, coords=["user", "item"]).compute() for each in frames)
    key = np.unique(np.random.default_rng(3).integers(0, a.size, entries))
    coords = [key // a.shape[1], key % a.shape[1]]
    same = sp.from_coords(coords, 1.0, shape=a.shape, dims=a.dims, labels={"user": a.labels("user")})
    one, two = (each.to_pandas().set_index(["user", "item"])["value"] for each in frames)

    def polars_join() -> Any:
        left, right = frames
        found = left.join(right, on=["user", "item"], how="full", coalesce=True)
        return found.select("user", "item", pl.col("value").fill_null(0) + pl.col("value_right").fill_null(0))

    assert np.isclose((a + b).sum(), one.add(two, fill_value=0).sum())
    assert (a + b).nnz == polars_join().height
    found = alternate(
        {
            "sparrow": lambda: sp.compute(a + b),
            "equal labels": lambda: sp.compute(a + same),
            "pandas": lambda: pd.Series.add(one, two, fill_value=0),
            "Polars": polars_join,
        },
        rounds,
    )
    mine = found["sparrow"]
    work = f"A + B by label, 2 x {entries:,} entries"
    told = {"pandas": "add(fill_value=0) of series", "Polars": "full join", "equal labels": "A + B of equal labels"}
    bounds = {"pandas": 1.0, "Polars": 1.0, "equal labels": 3.0}
    return [
        Row(work, told[peer], mine / found[peer], bounds[peer], f"{mine:.2f} s : {found[peer]:.2f} s") for peer in told
    ]


def _make_labelled(names: int, path: Any) -> sp.Tensor:
    labels = pa.array([f"u{k:08}" for k in range(names)])
    return sp.from_coords([np.arange(names), np.arange(names) % 10], 1.0, dims=("user", "item"),
                          labels={"user": labels}).save(path)  # fmt: skip


def _growing(names: int, rounds: int) -> list[Row]:
    """Appends of 1,000 new labels to many, beside the same of labels that are known."""
    stored = _make_labelled(names, fresh(DATA / "labels.sparrow"))
    seconds: dict[str, list[float]] = {"new": [], "known": []}
    for turn in range(rounds):
        for kind, taken in seconds.items():
            first = names + 1_000 * turn if kind == "new" else 1_000 * turn
            user = [f"u{k:08}" for k in range(first, first + 1_000)]
            frame = pl.DataFrame({"user": user, "item": 9, "value": 2.0})
            start = time.perf_counter()
            stored.append(frame, duplicates="last")
            taken.append(time.perf_counter() - start)
    new, known = (float(np.median(seconds[kind])) for kind in ("new", "known"))
    work = f"append of 1,000 new labels to {names:,}"
    return [Row(work, "append of 1,000 known ones", new / known, 2.0, f"{new:.2f} s : {known:.2f} s")]


def _looked_up(names: int, rounds: int) -> list[Row]:
    """Entries of 10,000 labels, beside a semi-join of a table in memory."""
    stored = _make_labelled(names, fresh(DATA / "labels.sparrow"))
    frame = stored.to_polars(labels=True)
    wanted = [f"u{k:08}" for k in np.random.default_rng(3).permutation(names)[:10_000].tolist()]
    asked = pl.DataFrame({"user": wanted})
    assert stored.sel(user=wanted).nnz == frame.join(asked, on="user", how="semi").height
    found = alternate(
        {
            "sparrow": lambda: stored.sel(user=wanted).compute(),
            "Polars": lambda: frame.join(asked, on="user", how="semi"),
        },
        rounds,
    )
    mine, theirs = found["sparrow"], found["Polars"]
    work = f"sel of 10,000 labels of {names:,}, from Parquet"
    return [Row(work, "Polars, semi-join in memory", mine / theirs, 3.0, f"{mine:.3f} s : {theirs:.3f} s")]
