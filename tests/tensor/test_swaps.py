"""Swaps and shuffles of parts of a tensor lose nothing."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp

SHUFFLES: dict[str, Callable[[int, Any], None]] = {
    "generator": lambda seed, a: np.random.default_rng(seed).shuffle(a),
    "legacy": lambda seed, a: np.random.RandomState(seed).shuffle(a),
    "standard library": lambda seed, a: random.Random(seed).shuffle(a),
}


@pytest.mark.parametrize("name", sorted(SHUFFLES))
@pytest.mark.parametrize("shape", [(8,), (8, 3), (5, 2, 3)])
@pytest.mark.parametrize("stored", [False, True])
def test_shuffles_keep_rows_whole(tmp_path: Path, name: str, shape: tuple[int, ...], stored: bool) -> None:
    dense = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    dense[dense % 4 == 0] = 0
    tensor = sp.asarray(dense)
    tensor = tensor.save(tmp_path / "a.sparrow") if stored else tensor
    for seed in range(3):
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # NumPy warns of what is not a sequence
            SHUFFLES[name](seed, tensor)
    found = tensor.to_numpy()
    assert sorted(found.tolist()) == sorted(dense.tolist())
    assert not np.array_equal(found, dense)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=6))
def test_swaps_equal_those_of_copies(swaps: list[tuple[int, int, bool]]) -> None:
    dense = np.arange(1, 37).reshape(6, 6)
    tensor = sp.asarray(dense)
    for i, j, by_columns in swaps:
        expected, found = (dense.T, tensor.T) if by_columns else (dense, tensor)
        expected[i], expected[j] = expected[j].copy(), expected[i].copy()
        found[i], found[j] = found[j], found[i]
        np.testing.assert_array_equal(tensor.to_numpy(), dense)


def test_parts_of_any_kind_swap() -> None:
    dense = np.arange(1, 37).reshape(6, 6)
    tensor = sp.asarray(dense)
    tensor[:2], tensor[4:] = tensor[4:], tensor[:2]
    np.testing.assert_array_equal(tensor.to_numpy(), dense[[4, 5, 2, 3, 0, 1]])
    part = tensor[1:5]
    part[0, ::2], part[2, ::2] = part[2, ::2], part[0, ::2]
    np.testing.assert_array_equal(tensor.to_numpy()[[1, 3], ::2], dense[[3, 5], ::2])
    first = tensor[0]
    tensor[0] = tensor[1]
    tensor[1] = first  # the same, written in two lines
    assert tensor.sum() == dense.sum()


def test_views_stay_live() -> None:
    tensor = sp.asarray(np.arange(1, 9).reshape(4, 2))
    view = tensor[1]
    tensor[1] = 5
    tensor[2] = view
    assert tensor.to_numpy().tolist() == [[1, 2], [5, 5], [5, 5], [7, 8]]
    view = tensor[0]
    tensor[0] = tensor[3]
    tensor[2] = view  # what it shows now: no swap
    assert tensor.to_numpy().tolist() == [[7, 8], [5, 5], [7, 8], [7, 8]]
    view = tensor[0]
    tensor[0] = tensor[1]
    tensor[3] = 1  # another write in between
    tensor[1] = view
    assert tensor.to_numpy().tolist() == [[5, 5], [5, 5], [7, 8], [1, 1]]
    tensor[1:] = tensor[:-1]  # overlapping: read before it is written
    assert tensor.to_numpy().tolist() == [[5, 5], [5, 5], [5, 5], [7, 8]]
