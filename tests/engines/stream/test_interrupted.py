"""After Ctrl-C in the computation of a block no thread waits for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparrow.core.indexing import Box, View
from sparrow.engines.stream import cache, cursors
from sparrow.engines.stream.cache import Cache
from sparrow.engines.stream.cursors import ChunkCursor
from sparrow.kernels.coo import Block
from sparrow.plan import Scan
from sparrow.relations import split
from sparrow.relations.split import SplitRelation
from sparrow.runtime import once
from tests.engines.helpers import random_array, stored_relation

FILES = {module.__file__ for module in (cache, cursors, split, once)}


def read_of_cache(folder: Path) -> Callable[[], Block]:
    block = Block((np.arange(3),), np.ones(3))
    return partial(Cache(10**6).get, "key", lambda: block)


def read_of_slices(folder: Path) -> Callable[[], Block]:
    relation = SplitRelation(stored_relation(folder / "t", random_array((40, 5), seed=1)), 4, 1.0)
    return partial(relation.read, relation.chunks(Box.from_shape((40, 5)))[1])


def read_of_cursor(folder: Path) -> Callable[[], Block]:
    relation = stored_relation(folder / "t", random_array((40, 5), seed=1))
    return partial(ChunkCursor(Scan(relation, View.identity((40, 5)), relation.schema), 0, 40)._decode, 0)


@pytest.mark.parametrize("make", [read_of_cache, read_of_slices, read_of_cursor])
def test_interrupt_anywhere_blocks_no_other_thread(make: Any, tmp_path: Path) -> None:
    (tmp_path / "expected").mkdir()
    expected = make(tmp_path / "expected")().values.tolist()
    interrupted = 0
    for number in range(30):
        (tmp_path / str(number)).mkdir()
        read = make(tmp_path / str(number))
        seen = 0
        lines: dict[Any, int] = {}

        def trace(frame: Any, event: str, arg: Any, number: int = number, lines: dict[Any, int] = lines) -> Any:
            nonlocal seen
            if frame.f_code.co_filename not in FILES:
                return None
            # Python calls no signal handler where a with statement releases its lock, at its first line again.
            is_next = event == "line" and frame.f_lineno > lines.get(frame, 0)
            seen += is_next
            lines[frame] = max(frame.f_lineno, lines.get(frame, 0))
            if is_next and seen > number:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            read()
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(before)
        found: list[Any] = []
        other = threading.Thread(target=lambda read=read, found=found: found.append(read()), daemon=True)
        other.start()
        other.join(30)
        assert [block.values.tolist() for block in found] == [expected]
    assert interrupted >= 8
