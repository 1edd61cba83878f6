"""Counts of entries that plans are made by: kept up to a limit, for as little work whatever is kept already."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.plan import estimates
from tests.engines.helpers import memory, scan_of


def test_the_oldest_counts_go_where_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    each = 4 * 20 + estimates._BESIDE
    monkeypatch.setattr(estimates, "_known", OrderedDict())
    monkeypatch.setattr(estimates, "_held", 0)
    monkeypatch.setattr(estimates, "_KEPT", 3 * each)
    scans = [scan_of(memory(np.eye(20))) for _ in range(5)]
    for scan in scans:
        estimates.estimate_operand("ab", scan)
        assert estimates._held == each * len(estimates._known) <= estimates._KEPT
    assert [estimates.count_degrees(scan, 1) is not None for scan in scans] == [False, False, False, True, True]


def test_a_count_does_not_look_at_those_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(OrderedDict[Any, Any]):
        def values(self) -> Any:
            raise AssertionError

    monkeypatch.setattr(estimates, "_known", Watched())
    assert estimates.estimate_operand("ab", scan_of(memory(np.eye(20)))).degrees["a"].total == 20


@pytest.mark.parametrize("key", [np.s_[:50], np.s_[100:400:7], np.s_[:, 30:60], np.s_[250], np.s_[:80, ::9]])
def test_of_a_stored_view_what_lies_in_it_is_expected(key: Any, tmp_path: Path) -> None:
    A = sp.random((500, 400), nnz=30_000, seed=3)
    for tensor in (A.save(tmp_path / "A"), A.compute()):
        view = tensor[key]
        count = view.compute().nnz
        expected = estimates.estimate_nnz(view.__sparrow_scan__())
        assert 0.7 * count < expected < 1.4 * count
