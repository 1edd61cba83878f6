"""String interner against a dictionary."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparrow.kernels.parse.interning import Interner
from sparrow.testing import observe, tune


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=6), max_size=80), max_size=5))
def test_interner_equals_dictionary(lists: list[list[str]]) -> None:
    names, known = Interner(), dict[str, int]()
    for texts in lists:
        codes = names.codes(pa.array(texts, pa.string()))
        assert codes.tolist() == [known.setdefault(text, len(known)) for text in texts]
    assert len(names) == len(known)
    labels, rank = names.finish()
    assert labels.to_pylist() == sorted(known, key=str.encode)
    assert [labels[place].as_py() for place in rank.tolist()] == list(known)


@pytest.mark.parametrize("room", [0, 10**12])
@tune("kernels", intern_parallel_min_strings=0, intern_chunk_strings=7_000)
def test_interner_grows(room: int) -> None:
    rng = np.random.default_rng(0)
    texts = [f"{'x' * int(rng.integers(0, 40))}{k}" for k in rng.integers(0, 40_000, 100_000)] + ["y" * 300_000]
    names, known = Interner(), dict[str, int]()
    codes = names.codes(pa.array(texts))
    assert codes.tolist() == [known.setdefault(text, len(known)) for text in texts]
    assert names.nbytes < 1.15 * (names._used + names._slots.nbytes)  # the pool grows in place, in small steps
    with observe("kernels.sort_strings") as sorts:
        labels, rank = names.finish(room)
    assert len(sorts) == bool(room)  # in parallel if memory permits
    assert labels.type == pa.string()
    assert labels.to_pylist() == sorted(known)
    assert np.array_equal(np.argsort(rank), [known[label] for label in labels.to_pylist()])
    assert names.nbytes < 200_000


def test_finish_bounds_memory() -> None:
    names = Interner()
    names.codes(pa.array([f"a text of some length, number {k}" for k in range(150_000)]))
    table = names.nbytes
    tracemalloc.start()
    try:
        labels, rank = names.finish()
        peak = tracemalloc.get_traced_memory()[1]  # NumPy arrays only: Arrow allocates the strings
    finally:
        tracemalloc.stop()
    assert peak < table
    assert [labels[int(rank[k])].as_py()[-1] for k in (0, 149_999)] == ["0", "9"]
