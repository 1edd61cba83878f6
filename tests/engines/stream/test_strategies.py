"""Strategies of the stream engine, forced by name and named by profiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.engines.profile import Profile, profiling
from sparrow.engines.stream import lower, scan_reader
from sparrow.testing import strategies, strategy, tune
from tests.engines.helpers import random_array, scan_of

EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "transposed sum": lambda A, B: A.T + B,
    "reshape": lambda A, B: sp.reshape(A.T, (8, 18)),
    "triangle": lambda A, B: sp.tril(A.T, 1),
    "sort": lambda A, B: sp.sort(A, axis=0),
    "reduction": lambda A, B: (A.T * B).sum(axis=1),
    "product": lambda A, B: (A @ B).sum(axis=0),
    "deep": lambda A, B: ((A + B) * 2 + A.T) * B,
}


@pytest.mark.parametrize("name", [name for name, subsystems in strategies().items() if "stream" in subsystems])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_strategy_keeps_results(name: str, expression: str, tmp_path: Path) -> None:
    a, b = random_array((12, 12), seed=1), random_array((12, 12), seed=2)
    A, B = sp.asarray(a).save(tmp_path / "A"), sp.asarray(b)
    expected = EXPRESSIONS[expression](A, B).to_numpy()
    with strategy(name):
        np.testing.assert_array_equal(EXPRESSIONS[expression](A, B).to_numpy(), expected)


def profile_of(tensor: sp.Tensor) -> dict[str, Any]:
    """Return the counters of the root of an expression."""
    scan = tensor.__sparrow_scan__()
    with profiling(Profile()) as profile:
        (lowered,) = lower([scan])
        block = scan_reader.read_block(lowered)
    found = profile.operator(scan.source).to_dict()
    assert found["rows"] == block.count
    assert found["bytes"] > 0
    return found


def test_profile_names_the_strategy(tmp_path: Path) -> None:
    a = random_array((40, 40), seed=3)
    A, B = sp.asarray(a).save(tmp_path / "A"), sp.asarray(a)
    assert profile_of(B + B.T)["strategy"] == "small"
    assert profile_of(A * 2)["strategy"] == "per_chunk"
    assert profile_of(A * B[:1])["strategy"] == "lookup"
    assert profile_of(B[0][:, None] * B[1])["strategy"] == "outer"
    assert profile_of(A.sum(axis=0))["strategy"] == "dense_groups"
    assert profile_of(A.sum(axis=1))["strategy"] == "adjacent_groups"
    assert profile_of((A @ B).sum(axis=1))["strategy"] == "marginal_sums"
    with tune("stream", partition_rows=100):
        found = profile_of(A.T + A)
    assert found["strategy"] == "partitioned"
    assert found["partitions"] > 1


def test_profile_counts_spilled_bytes(tmp_path: Path) -> None:
    A = sp.asarray(random_array((40, 40), seed=4)).save(tmp_path / "A")
    turned = scan_of(A.__sparrow_scan__().source, A.T.__sparrow_scan__().view)
    with strategy("spilled_sort"), tune("stream", partition_rows=100), profiling(Profile()) as profile:
        (lowered,) = lower([(A.T + A).__sparrow_scan__()])
        scan_reader.read_block(lowered)
    assert profile.operator(turned).spilled_bytes > 0
    assert profile.operator(turned).strategy == "spilled_sort"
