"""The cache of counts per coordinate, and estimates of stored views."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.plan import estimates
from tests.engines.helpers import memory, scan_of


def test_degree_cache_evicts_the_oldest() -> None:
    each = 4 * 20 + sparrow.testing.tuning("plan").degree_entry_bytes
    cache = estimates.degree_cache
    cache.clear()
    with sparrow.testing.tune("plan", degree_cache_bytes=3 * each):
        scans = [scan_of(memory(np.eye(20))) for _ in range(5)]
        for scan in scans:
            estimates.estimate_operand("ab", scan)
            assert cache.nbytes == each * len(cache) <= 3 * each
        assert [estimates.count_degrees(scan, 1) is not None for scan in scans] == [False, False, False, True, True]


def test_degree_cache_does_not_scan_its_values() -> None:
    class Opaque(OrderedDict[Any, Any]):
        def values(self) -> Any:
            raise AssertionError

    cache = estimates.DegreeCache(Opaque())
    counts = estimates.DegreeCounts(np.ones(20))
    for key in range(5):
        cache.put(key, counts)
        cache.put(key, counts)
    assert cache.get(4) is counts
    assert estimates.estimate_operand("ab", scan_of(memory(np.eye(20)))).degrees["a"].total == 20


@pytest.mark.parametrize("key", [np.s_[:50], np.s_[100:400:7], np.s_[:, 30:60], np.s_[250], np.s_[:80, ::9]])
def test_estimate_of_a_stored_view(key: Any, tmp_path: Path) -> None:
    A = sp.random((500, 400), nnz=30_000, seed=3)
    for tensor in (A.save(tmp_path / "A"), A.compute()):
        view = tensor[key]
        count = view.compute().nnz
        expected = estimates.estimate_nnz(view.__sparrow_scan__())
        assert 0.7 * count < expected < 1.4 * count
