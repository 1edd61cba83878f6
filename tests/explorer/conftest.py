"""Steps of reads end by the number of chunks, whatever the load of the machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparrow.testing import tune


@pytest.fixture(autouse=True)
def take_time() -> Iterator[None]:
    """Let a step of reads take as long as it needs."""
    with tune("explorer", step_seconds=1e9):
        yield
