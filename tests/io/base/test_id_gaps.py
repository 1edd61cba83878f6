"""Warnings of gaps between integer ids of tables."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
import sparrow.testing
from sparrow.io.base.id_gaps import SeenIds


def columns(ids: Any, folder: Path, **options: Any) -> tuple[tuple[int, ...], list[str]]:
    """Return the shape of a table of users and films, and the warnings of its ingest."""
    frame = pl.DataFrame({"user": np.arange(len(ids)) % 7, "film": np.asarray(ids), "stars": 1.0})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = sp.ingest.columns(
            frame, folder / "a", coords=["user", "film"], value="stars", duplicates="sum", overwrite=True, **options
        )
    assert all(each.filename == __file__ for each in caught)
    return made.shape, [str(each.message) for each in caught]


def test_gaps_are_counted(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).choice(50_000, 1_000, replace=False)
    ids[0] = 49_999
    shape, said = columns(ids, tmp_path)
    assert shape == (7, 50_000)
    assert [text[:67] for text in said] == ["film: 1,000 of 50,000 ids occur; relabel=True makes them labels, wi"]
    assert columns(ids, tmp_path, relabel=True) == ((7, 1_000), [])
    assert columns(ids, tmp_path, relabel=["film"]) == ((7, 1_000), [])
    assert columns(ids, tmp_path, shape=(7, 50_000)) == ((7, 50_000), [])


@pytest.mark.parametrize(
    ("ids", "warned"),
    [
        (range(50), ""),
        ([2023, 2024, 2025], ""),
        (range(0, 400, 5), "80 of 396"),
        (range(0, 396, 4), ""),  # a quarter occurs
        (range(0, 100, 10), ""),  # few are missing
        (range(20_000, 20_400), "400 of 20,400"),
        ([3, 193_609], "2 of 193,610"),
        ([5, 2**40], "at most 2 of 1,099,511,627,777"),
    ],
)
def test_gaps_worth_a_warning(ids: Any, warned: str, tmp_path: Path) -> None:
    said = columns(list(ids), tmp_path)[1]
    assert len(said) == bool(warned)
    assert all(text.startswith(f"film: {warned} ids occur") for text in said)


def test_gaps_of_relations() -> None:
    frame = pl.DataFrame({"user": [0, 1], "film": [3, 193_609], "value": [1.0, 2.0]})
    with pytest.warns(UserWarning, match="^film: 2 of 193,610 ids occur; relabel=True makes them labels") as caught:
        assert sp.from_relation(frame, coords=["user", "film"]).shape == (2, 193_610)
    assert caught[0].filename == __file__
    assert sp.from_relation(frame, coords=["user", "film"], relabel=True).shape == (2, 2)
    assert sp.from_relation(frame, coords=["user", "film"], shape=(2, 200_000)).shape == (2, 200_000)


def test_gaps_in_a_bundle(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": [0, 1], "film": [3, 193_609], "a": [1.0, 2.0], "b": [3, 4]})
    with pytest.warns(UserWarning, match="film: 2 of 193,610 ids occur"):
        sp.ingest.columns(frame, tmp_path / "a", coords=["user", "film"], value=["a", "b"])


def test_command_line_names_its_option(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("userId,movieId,rating,timestamp\n1,1,4.0,964982703\n1,193609,3,964981247\n")
    done = cli("ingest", tmp_path / "r.csv", tmp_path / "r.sparrow")
    assert "--coords userId,movieId --value rating --relabel\n" in done.err + "\n"
    plain = ("ingest", "columns", tmp_path / "r.csv", tmp_path / "r.sparrow", "--coords", "userId,movieId")
    done = cli(*plain)
    assert "warning: movieId: 2 of 193,610 ids occur; --relabel makes them labels" in done.err
    done = cli(*plain, "--relabel", "--overwrite")
    assert "warning" not in done.err
    assert sp.open(tmp_path / "r.sparrow").shape == (1, 2)


@given(st.lists(st.lists(st.integers(0, 3000))), st.sampled_from([10, 1 << 24]))
def test_counts(batches: list[list[int]], limit: int) -> None:
    seen = SeenIds()
    with sparrow.testing.tune("io", counted_ids=limit):
        for batch in batches:
            seen.add(np.array(batch, np.int64))
    everything = [number for batch in batches for number in batch]
    assert seen.is_exact == all(number < limit for number in everything)
    assert seen.count == (len(set(everything)) if seen.is_exact else len(everything))
    assert not everything or seen.smallest == min(everything)
