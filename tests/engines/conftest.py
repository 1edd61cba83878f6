"""Every engine, the plain twin among them, for whoever asks for ``engine``.

That for GPUs computes on one where there is one, and else on a device of NumPy and SciPy. That for processes cuts the
smallest tensors into tasks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import pytest

import sparrow.testing
from sparrow.engines import register, unregister
from sparrow.engines.cupy import CuPy
from sparrow.engines.cupy.device import Device, current_gpu
from sparrow.errors import MissingDependencyError
from tests.engines.standin import StandIn
from tests.engines.toy import Toy

ENGINES = ("stream", "duckdb", "cupy", "processes", "toy")


def device() -> Callable[[], Device]:
    """Return a function that makes the device of the suite."""
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
    with sparrow.testing.strategy("tiny_tasks"):
        yield
    unregister("toy")
    unregister("cupy")
    register(CuPy())


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def use_kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Force kernels in half of the tests; small products run in NumPy in the others."""
    forced = "numba" if zlib.crc32(request.node.nodeid.encode()) % 2 else None
    with sparrow.testing.tune("dispatch", forced=forced):
        yield
