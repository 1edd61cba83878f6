"""A scheduler whose tasks run in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from sparrow.runtime import settings

T = TypeVar("T")


class Here:
    """Tasks in this process, whose job is pickled; the last one runs first."""

    slots, threads = 2, 1

    @property
    def memory_limit(self) -> int:
        return min(settings.current().memory_limit, 10**9)

    def map(self, function: Callable[[Any, int], T], count: int, shared: Any) -> list[T]:
        found = {}
        for number in reversed(range(count)):
            found[number] = pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(shared)), number)))
        return [found[number] for number in range(count)]
