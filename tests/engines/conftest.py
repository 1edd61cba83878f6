"""Every engine, the plain twin among them, for whoever asks for ``engine``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparrow.engines import register, unregister
from tests.engines.toy import Toy

ENGINES = ("stream", "duckdb", "toy")


@pytest.fixture(scope="module", autouse=True)
def toy() -> Iterator[None]:
    register(Toy())
    yield
    unregister("toy")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)
