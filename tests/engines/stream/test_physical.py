"""Physical plans: every valid combination of choices, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sparrow as sp
import sparrow.testing
from sparrow.engines.stream.product.physical import KERNELS, OUTPUTS, SCHEDULES, Schedule, is_valid
from tests.engines.stream.test_spilled import SMALL

COMBINATIONS = [
    (schedule, kernel, output)
    for schedule in SCHEDULES
    for kernel in KERNELS
    for output in OUTPUTS
    if is_valid(schedule, kernel, output)
]
IDS = [f"{s.tiling}-{s.lhs_layout}-{s.combine}-{kernel}-{output}" for s, kernel, output in COMBINATIONS]

Case = Callable[[Any, Any, Any, dict[str, Any]], Any]


def some(shape: tuple[int, ...], seed: int, density: float = 0.25) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return (rng.random(shape) < density) * rng.integers(1, 9, shape) / 4.0


def min_plus(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return the shortest sums of stored elements, infinity for none."""
    sums = np.where((a[:, :, None] != 0) & (b[None] != 0), a[:, :, None] + b[None], np.inf)
    return np.asarray(sums.min(axis=1))


def at_mask(product: NDArray[Any], mask: NDArray[Any], options: dict[str, Any], fill: float = 0) -> NDArray[Any]:
    return np.where(mask != 0, product, fill) if "mask" in options else product


CASES: dict[str, tuple[Case, Case]] = {
    "matmul": (
        lambda A, B, M, o: sp.matmul(A, B, **o),
        lambda a, b, m, o: at_mask(a @ b, m, o),
    ),
    "transposed": (
        lambda A, B, M, o: sp.matmul(A, B, **o).T,
        lambda a, b, m, o: at_mask(a @ b, m, o).T,
    ),
    "slice": (
        lambda A, B, M, o: sp.matmul(A, B, **o)[5:40, ::2],
        lambda a, b, m, o: at_mask(a @ b, m, o)[5:40, ::2],
    ),
    "semiring": (
        lambda A, B, M, o: sp.matmul(A, B, semiring="min_plus", **o),
        lambda a, b, m, o: at_mask(min_plus(a, b), m, o, np.inf),
    ),
    "columns dropped": (
        lambda A, B, M, o: sp.einsum("ij,jk->i", A, B) if not o else sp.matmul(A, B, **o),
        lambda a, b, m, o: (a @ b).sum(axis=1) if not o else at_mask(a @ b, m, o),
    ),
    "sum": (
        lambda A, B, M, o: sp.matmul(A, B, **o).sum(),
        lambda a, b, m, o: at_mask(a @ b, m, o).sum(),
    ),
    "count": (
        lambda A, B, M, o: np.asarray(sp.matmul(A, B, **o).nnz),
        lambda a, b, m, o: np.asarray(np.count_nonzero(at_mask(a @ b, m, o))),
    ),
    "count of sums that cancel": (
        lambda A, B, M, o: np.asarray(sp.matmul(A * (A != 1), B - 2 * (B > 1), **o).nnz),
        lambda a, b, m, o: np.asarray(np.count_nonzero(at_mask((a * (a != 1)) @ (b - 2 * (b > 1)), m, o))),
    ),
    "row sums": (
        lambda A, B, M, o: np.sqrt(sp.matmul(A, B, **o)).sum(axis=1),
        lambda a, b, m, o: np.sqrt(at_mask(a @ b, m, o)).sum(axis=1),
    ),
}


@pytest.fixture(params=COMBINATIONS, ids=IDS)
def combination(request: pytest.FixtureRequest) -> Iterator[tuple[Schedule, str, str]]:
    """Force a combination, with small parts."""
    schedule, kernel, output = request.param
    choice = {
        "tiling": schedule.tiling,
        "lhs_layout": schedule.lhs_layout if schedule.rhs_layout == "csr" else None,
        "combine": schedule.combine if schedule.tiling == "k_panels" else None,
        "kernel": None if kernel == "gustavson" else kernel,
        "output": "blocks" if output == "blocks" else None,
        "section_max_reads": 1e6,
    }
    with ExitStack() as stack:
        stack.enter_context(sparrow.testing.tune("product", partition_products=500, **SMALL))
        stack.enter_context(sparrow.testing.tune("product", **choice))
        stack.enter_context(sparrow.testing.tune("stream", use_marginal_sums=False))
        yield schedule, kernel, output


def names_of(schedule: Schedule) -> set[str]:
    """Return the names of the tiling that a schedule makes."""
    return {"external_sum" if schedule.combine == "external_sort" else schedule.tiling}


ALTERNATIVES = {
    "transposed": {"row_subset"},  # rows of a transpose are not adjacent in files
    "count of sums that cancel": {"row_subset"},  # nor are rows of expressions
}
"""Tilings that the operands of a case do not admit."""


@pytest.fixture
def operands(tmp_path: Path) -> tuple[list[NDArray[Any]], list[Any]]:
    arrays = [some((60, 80), 1), some((80, 110), 2), some((60, 110), 3)]
    return arrays, [sp.asarray(each).save(tmp_path / f"{k}.sparrow") for k, each in enumerate(arrays)]


@pytest.mark.parametrize("case", CASES)
def test_combinations_match_numpy(
    case: str, combination: tuple[Schedule, str, str], operands: tuple[list[NDArray[Any]], list[Any]]
) -> None:
    (a, b, m), (A, B, M) = operands
    schedule, kernel, output = combination
    options = {} if kernel == "gustavson" else {"mask": M}
    run, expect = CASES[case]
    with sparrow.testing.observe("product.csr_output", "product.sum", "product.masked", "product.tiling") as seen:
        found = run(A, B, M, options)
        found = found.to_numpy() if isinstance(found, sp.Tensor) else found
    np.testing.assert_allclose(found, expect(a, b, m, options), rtol=1e-12)
    tilings = {details["tiling"] for name, details in seen if name == "product.tiling"}
    assert tilings == names_of(schedule) or schedule.tiling in ALTERNATIVES.get(case, ())
    events = {name for name, details in seen if details.get("row_axes", 1)}
    if case == "matmul":
        assert ("product.csr_output" in events) == (output == "csr")
        assert all(details["dots"] for name, details in seen if name == "product.masked" and kernel == "dot")
    if case == "sum" and kernel != "gustavson":
        sums = [details["is_computed"] for name, details in seen if name == "product.sum"]
        assert sums == [output == "scalar"]


def test_row_wise_tilings_have_equal_bits(
    combination: tuple[Schedule, str, str], operands: tuple[list[NDArray[Any]], list[Any]], tmp_path: Path
) -> None:
    """Sums run in the order of the contracted index, whatever the tiling."""
    _, (A, B, M) = operands
    A, B = (np.sin(each).compute().save(tmp_path / name) for each, name in ((A, "sines"), (B, "others")))
    options = {} if combination[1] == "gustavson" else {"mask": M}
    with sparrow.testing.observe("product.tiling") as seen:
        found = sp.matmul(A, B, **options).compute().to_arrow()
    assert {details["tiling"] for _, details in seen} == names_of(combination[0])
    held = sp.matmul(A.compute(), B.compute(), **options).compute().to_arrow()
    if combination[0].tiling == "k_panels":
        np.testing.assert_allclose(found["value"], held["value"], rtol=1e-13)
    else:
        assert found.equals(held)


@pytest.mark.parametrize("complement", [None, False, True])
def test_positive_products_are_counted_without_values(complement: bool | None) -> None:
    a, b, m = some((60, 80), 1), some((80, 110), 2), some((60, 110), 3)
    A, B, M = map(sp.asarray, (a, b, m))
    options: dict[str, Any] = {} if complement is None else {"mask": M, "complement": complement}
    expected = (a @ b != 0) & (True if complement is None else (m != 0) != complement)
    with sparrow.testing.strategy("numba"):
        for found, is_symbolic in ((sp.matmul(A, B, **options), True), (sp.matmul(A, -B, **options), True)):
            with sparrow.testing.observe("product.count") as counts:
                assert found.nnz == np.count_nonzero(expected)
            assert {details["is_symbolic"] for _, details in counts} == {is_symbolic}
        with sparrow.testing.observe("product.count") as counts:
            found = sp.matmul(A - 3 * (A > 1), B, **options)
            assert found.nnz == np.count_nonzero(expected & ((a - 3 * (a > 1)) @ b != 0))
        assert {details["is_symbolic"] for _, details in counts} == {False}
