"""The table of texts against a dictionary."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparrow.kernels.parse import interning
from sparrow.kernels.parse.interning import Interner


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=6), max_size=80), max_size=5))
def test_agrees_with_a_dictionary(lists: list[list[str]]) -> None:
    names, known = Interner(), dict[str, int]()
    for texts in lists:
        codes = names.codes(pa.array(texts, pa.string()))
        assert codes.tolist() == [known.setdefault(text, len(known)) for text in texts]
    assert len(names) == len(known)
    labels, rank = names.finish()
    assert labels.to_pylist() == sorted(known, key=str.encode)
    assert [labels[place].as_py() for place in rank.tolist()] == list(known)


@pytest.mark.parametrize("room", [0, 10**12])
def test_it_grows(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "_MANY", 0)
    monkeypatch.setattr(interning, "_STRETCH", 7_000)
    on_threads: list[int] = []
    own = Interner._sorted

    def watched(self: Interner) -> pa.Array:
        on_threads.append(room)
        return own(self)

    monkeypatch.setattr(Interner, "_sorted", watched)
    rng = np.random.default_rng(0)
    texts = [f"{'x' * int(rng.integers(0, 40))}{k}" for k in rng.integers(0, 40_000, 100_000)] + ["y" * 300_000]
    names, known = Interner(), dict[str, int]()
    codes = names.codes(pa.array(texts))
    assert codes.tolist() == [known.setdefault(text, len(known)) for text in texts]
    assert names.nbytes < 1.15 * (names._used + names._slots.nbytes)  # it grows in small steps, in its place
    labels, rank = names.finish(room)
    assert on_threads == ([room] if room else [])  # where there is room for more than the table
    assert labels.type == pa.string()
    assert labels.to_pylist() == sorted(known)
    assert np.array_equal(np.argsort(rank), [known[label] for label in labels.to_pylist()])
    assert names.nbytes < 200_000


def test_the_end_takes_less_than_the_table() -> None:
    names = Interner()
    names.codes(pa.array([f"a text of some length, number {k}" for k in range(150_000)]))
    table = names.nbytes
    tracemalloc.start()
    try:
        labels, rank = names.finish()
        peak = tracemalloc.get_traced_memory()[1]  # of NumPy's arrays; the texts themselves are Arrow's
    finally:
        tracemalloc.stop()
    assert peak < table
    assert [labels[int(rank[k])].as_py()[-1] for k in (0, 149_999)] == ["0", "9"]
