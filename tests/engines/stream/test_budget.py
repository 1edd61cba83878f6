"""Memory of products: parts of a plan, waiting for others, peaks of processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.engines.stream.product.operands import ProductBudget, divide_memory
from sparrow.errors import TooLargeError
from sparrow.runtime import memory


def reserve(nbytes: int) -> memory.Reservation:
    room = ProductBudget().reserve("an operand", "take a part")
    room.grow(nbytes)
    return room


def test_products_of_a_plan_get_equal_parts() -> None:
    whole = ProductBudget().working_bytes()
    assert whole == memory.working_bytes()
    for products in (2, 3):
        with divide_memory(products):
            assert ProductBudget().working_bytes() == whole // products
    with divide_memory(1000):
        assert ProductBudget().working_bytes() == whole // sparrow.testing.tuning("product").max_divided_products


def test_product_waits_for_another_plan() -> None:
    with memory.isolate(), sp.config(memory_limit="1GB"):
        first = reserve(memory.working_bytes())
        found: list[int] = []

        def ask() -> None:
            with sp.config(memory_limit="1GB"):
                found.append(reserve(1000).nbytes)

        other = threading.Thread(target=ask)
        with (
            sparrow.testing.on("product.wait", lambda nbytes: first.release()),
            sparrow.testing.observe("product.wait") as waits,
        ):
            other.start()
            other.join()
        assert found == [1000]
        assert len(waits) == 1


def test_plan_that_holds_memory_does_not_wait() -> None:
    with memory.isolate(), sp.config(memory_limit="1GB"), sparrow.testing.observe("product.wait") as waits:
        first = reserve(memory.working_bytes())
        second = reserve(1000)
        with pytest.raises(TooLargeError, match="an operand would take"):
            second.grow(10**9)
        assert not waits
        assert first.nbytes + second.nbytes == memory.working_bytes() + 1000


def test_waiting_ends_with_the_error() -> None:
    with memory.isolate(), sp.config(memory_limit="1GB"), sparrow.testing.tune("product", wait_seconds=0.0):
        first = reserve(memory.working_bytes())
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                with sp.config(memory_limit="1GB"):
                    reserve(10**9)
            except TooLargeError as error:
                errors.append(error)

        other = threading.Thread(target=ask)
        other.start()
        other.join()
        assert "reserved by concurrent operations" in str(errors[0])
        assert first.nbytes


PEAK = """
import sys, threading
import numpy as np, sparrow as sp

A, B, tall, wide, square = (sp.open(f"{sys.argv[1]}/{name}.sparrow") for name in ("A", "B", "tall", "wide", "square"))
out = sys.argv[1] + "/out.sparrow"
limit = 300 * 10**6
sp.config(memory_limit=limit, progress=False)
exec(sys.argv[2])
status = open("/proc/self/status").read()  # ru_maxrss would include the peak of the parent before the fork
print(int(status.partition("VmHWM:")[2].split()[0]) * 1024 - limit)
"""

WORK = {
    "stack": "sp.stack([A @ B, B @ A]).save(out, overwrite=True)",
    "sum of two": "(A @ B + B @ A).save(out, overwrite=True)",
    "tall": "(tall.T @ tall).compute()",
    "wide": "(wide @ tall).compute(); (tall[:5000] @ wide[:, :5000]).save(out, overwrite=True)",
    "several threads": textwrap.dedent(
        """
        work = [threading.Thread(target=lambda k=k: (square[k * 40000:(k + 1) * 40000] @ square).nnz) for k in range(2)]
        for each in work: each.start()
        for each in work: each.join()
        """
    ),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    shapes: dict[str, tuple[Any, int]] = {
        "A": ((20_000, 20_000), 300_000),
        "B": ((20_000, 20_000), 300_000),
        "tall": ((1_000_000, 100), 2_000_000),
        "wide": ((100, 1_000_000), 2_000_000),
        "square": ((200_000, 200_000), 4_000_000),
    }
    for seed, (name, (shape, nnz)) in enumerate(shapes.items()):
        sp.random(shape, nnz=nnz, seed=seed).save(folder / f"{name}.sparrow")
    return folder


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", WORK)
def test_peak_memory(name: str, stores: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PEAK, str(stores), WORK[name]], capture_output=True, text=True, env=dict(os.environ)
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert int(run.stdout) <= 200 * 10**6


def test_results_of_divided_products(stores: Path) -> None:
    A, B = (sp.open(stores / f"{name}.sparrow")[:400, :400] for name in ("A", "B"))
    found = sp.stack([A @ B, B @ A]).to_numpy()
    a, b = A.to_numpy(), B.to_numpy()
    np.testing.assert_allclose(found, np.stack([a @ b, b @ a]), rtol=1e-12)
