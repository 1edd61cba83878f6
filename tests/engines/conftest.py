"""Every engine, the plain twin among them, for whoever asks for ``engine``; that for GPUs on a device of NumPy."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from sparrow.engines import register, unregister
from sparrow.engines.cupy import CuPy
from sparrow.engines.stream import products
from tests.engines.standin import StandIn
from tests.engines.toy import Toy

ENGINES = ("stream", "duckdb", "cupy", "toy")


@pytest.fixture(scope="module", autouse=True)
def every() -> Iterator[None]:
    unregister("cupy")
    register(CuPy(StandIn))
    register(Toy())
    yield
    unregister("toy")
    unregister("cupy")
    register(CuPy())


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every other test add up products by the compiled loops, which what is small does not reach."""
    few = zlib.crc32(request.node.nodeid.encode()) % 2 << 20
    monkeypatch.setattr(products, "_FEW", few)
    monkeypatch.setattr(products, "_FEW_AT_FIRST", few)
