from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest

from sparrow.workers import ordered_map


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    pauses = random.Random(0)
    delays = [pauses.random() / 500 for _ in range(50)]

    def work(number: int) -> int:
        time.sleep(delays[number])
        return number * number

    assert list(ordered_map(work, range(50), threads)) == [n * n for n in range(50)]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_exception_is_raised_at_its_place(threads: int) -> None:
    def work(number: int) -> int:
        if number == 7:
            raise ValueError("seven")
        return number

    results = ordered_map(work, range(20), threads)
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(ValueError, match="seven"):
        next(results)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_exception_of_the_source_passes(threads: int) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(ordered_map(lambda n: n, items(), threads))


def test_no_more_items_are_taken_than_said() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield number

    results = ordered_map(lambda n: n, items(), 2, ahead=4)
    for given in range(1, 50):
        next(results)
        assert taken - given <= 4
    results.close()  # type: ignore[attr-defined]


def test_closing_early_leaves_no_threads() -> None:
    before = threading.active_count()
    results = ordered_map(lambda n: n, range(1000), 4)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
