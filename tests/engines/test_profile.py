"""Counters per operator: threads, nesting, and contexts."""

from __future__ import annotations

import threading
import time

import numpy as np

import sparrow as sp
from sparrow.engines.profile import OperatorProfile, Profile, active, profiling
from sparrow.runtime.thread_pool import ordered_map
from tests.engines.helpers import memory, scan_of


def test_record_adds_from_several_threads() -> None:
    operator = OperatorProfile()

    def record() -> None:
        for _ in range(1000):
            operator.record(rows=1, bytes=8, seconds=0.5, partitions=1, spilled_bytes=2, bytes_read=3)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    operator.record(strategy="row_sections")
    operator.record(rows=0)
    assert operator.to_dict() == {
        "rows": 4000,
        "bytes": 32000,
        "seconds": 2000.0,
        "partitions": 4000,
        "bytes_read": 12000,
        "spilled_bytes": 8000,
        "flops": 0,
        "held_bytes": 0,
        "elements_read": 0,
        "strategy": "row_sections",
    }


def test_measure_excludes_nested_operators() -> None:
    outer, inner = OperatorProfile(), OperatorProfile()
    start = time.perf_counter()
    with outer.measure():
        for _ in range(2):
            with inner.measure():
                time.sleep(0.01)
    elapsed = time.perf_counter() - start
    assert inner.seconds >= 0.02
    assert outer.seconds + inner.seconds <= elapsed


def test_measure_survives_errors() -> None:
    outer, inner = OperatorProfile(), OperatorProfile()
    with outer.measure():
        try:
            with inner.measure():
                raise ValueError
        except ValueError:
            pass
    with outer.measure():
        pass
    assert outer.seconds > 0
    assert inner.seconds > 0


def test_active_is_none_without_profiling() -> None:
    assert active() is None
    with profiling(Profile()) as outer:
        assert active() is outer
        with profiling(Profile()) as inner:
            assert active() is inner
        assert active() is outer
    assert active() is None


def test_active_reaches_pool_threads_only() -> None:
    with sp.config(threads=2), profiling(Profile()) as profile:
        assert all(found is profile for found in ordered_map(lambda _: active(), range(8), 2))
        found: list[Profile | None] = []
        thread = threading.Thread(target=lambda: found.append(active()))
        thread.start()
        thread.join()
        assert found == [None]


def test_operator_of_scans_and_steps() -> None:
    profile, relation = Profile(), memory(np.eye(3))
    scan, again = scan_of(relation), scan_of(relation).transpose()
    assert profile.operator(scan) is profile.operator(again) is profile.operator(relation)
    assert profile.operator(scan) is not profile.operator(scan_of(memory(np.eye(3))))
    A = sp.asarray(np.eye(3))
    of_step = (A + A).__sparrow_scan__()
    assert profile.operator(of_step.step) is profile.operator(of_step)
    assert profile.operator(of_step.step) is profile.operator(of_step.transpose())
    assert profile.operator(of_step).is_empty
