"""Every engine, the plain twin among them, for whoever asks for ``engine``.

That for GPUs computes on one where there is one, and else on a device of NumPy and SciPy.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import pytest

from sparrow.engines import register, unregister
from sparrow.engines.cupy import CuPy
from sparrow.engines.cupy.device import Device, current_gpu
from sparrow.engines.stream.product import dense
from sparrow.errors import MissingDependencyError
from sparrow.kernels.matmul import numpy_fallback as kernels_few
from tests.engines.standin import StandIn
from tests.engines.toy import Toy

ENGINES = ("stream", "duckdb", "cupy", "toy")


def device() -> Callable[[], Device]:
    """Return what makes the device that the suite computes on."""
    try:
        current_gpu()
    except MissingDependencyError:
        return StandIn
    return current_gpu


@pytest.fixture(scope="module", autouse=True)
def every() -> Iterator[None]:
    unregister("cupy")
    register(CuPy(device()))
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
    """Have all tests multiply tensors, and every other one tensors and arrays, by the loops, which few do not reach."""
    monkeypatch.setattr(kernels_few, "_FEW", 0)
    few = zlib.crc32(request.node.nodeid.encode()) % 2 << 20
    monkeypatch.setattr(dense, "_FEW", few)
    monkeypatch.setattr(dense, "_FEW_AT_FIRST", few)
    monkeypatch.setattr(dense, "_added", 0)  # whatever ran before
