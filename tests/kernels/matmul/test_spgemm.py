"""SpGEMM kernels and their symbolic phase against scalar loops."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sparrow as sp
import sparrow.testing
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul import symbolic


@pytest.fixture(autouse=True)
def use_kernels() -> Iterator[None]:
    with sparrow.testing.strategy("numba"):
        yield


@pytest.mark.parametrize("apart", [1, 10_000])
@pytest.mark.parametrize("masked", [False, True])
def test_plan_rows_assigns_slots(masked: bool, apart: int) -> None:
    rng = np.random.default_rng(3)
    lengths = np.array([0, 1, 2, 30, 7, 60, 1, 3, 12])
    pointers = np.append(0, lengths.cumsum())
    places = rng.integers(0, 20, pointers[-1])
    heights = rng.integers(0, 6, 20)
    starts = np.append(0, heights.cumsum())
    columns = np.concatenate([np.sort(rng.choice(40, height, replace=False)) * apart for height in heights])
    done = np.append(0, heights[places].cumsum())[pointers]
    off = [np.flatnonzero(rng.random(40) < 0.5 * masked) * apart for _ in lengths]
    bounds = np.append(0, np.cumsum([len(each) for each in off]))
    cells = (bounds[:-1], bounds[1:]) if masked else (bounds[:0], bounds[:0])
    space, most = symbolic.Workspace(40 * apart, np.dtype(float)), 100
    kinds, sizes, slots, keys = space.plan(len(lengths), int(done[-1]))
    prepare: Any = symbolic.plan_rows
    prepare(
        *(as_readonly(each.astype(kind)) for each, kind in [
            (pointers, np.uint64), (places, np.uint32), (starts, np.uint64), (columns, np.uint32),
            *((each, np.uint64) for each in cells), (np.concatenate(off), np.uint32), (done, np.uint64)]),
        True, np.uint64(most), space.order, space.counts, kinds, sizes, slots, keys,
    )  # fmt: skip
    slot = key = 0
    for i in range(len(lengths)):
        own = [columns[starts[k] : starts[k + 1]] for k in places[pointers[i] : pointers[i + 1]]]
        met = np.concatenate([*own, columns[:0]])
        alone = bool((np.diff(met) > 0).all()) and not (masked and len(off[i]))
        wanted = symbolic.EMPTY if not len(met) else symbolic.ORDERED if alone else None
        if wanted is None:
            near = len(met) > symbolic.MAX_GATHERED_NEAR and np.ptp(met) < 1 << 16
            wanted = symbolic.GATHERED if len(met) <= most and not near else symbolic.DENSE
        assert kinds[i] == wanted
        if wanted != symbolic.GATHERED:
            continue
        kept = np.setdiff1d(met, off[i])
        np.testing.assert_array_equal(keys[key : key + sizes[i]], kept)
        first = np.zeros(len(met), bool)
        first[np.unique(met, return_index=True)[1]] = True
        found = slots[slot : slot + len(met)]
        np.testing.assert_array_equal(found >= 2 * symbolic.MAX_GATHERED, first)
        at = np.where(np.isin(met, kept), np.searchsorted(kept, met), symbolic.MAX_GATHERED)
        np.testing.assert_array_equal(found % (2 * symbolic.MAX_GATHERED), at)
        slot, key = slot + len(met), key + sizes[i]
    assert {*kinds} - {symbolic.ORDERED} == {symbolic.EMPTY, symbolic.GATHERED, symbolic.DENSE}


@pytest.mark.parametrize("width", [1, 7, 60, 64, 513])
def test_dense_row_is_padded_to_groups(width: int) -> None:
    space = symbolic.Workspace(width, np.dtype(float))
    room = -(-width // 8) * 8
    assert min(len(space.row), len(space.state)) >= room


def test_slots_hold_all_products_of_narrow_rows() -> None:
    with sparrow.testing.observe("product.plan_rows") as plans:
        found = (sp.asarray(np.ones((40, 5))) @ sp.asarray(np.ones((5, 3)))).compute()
    np.testing.assert_array_equal(found.to_numpy(), 5)
    assert plans
    assert all(plan["slots"] >= plan["products"] for _, plan in plans)


WIDTHS = [40, 3_000, 70_000, 300_000, 1 << 21]
"""Numbers of columns: every row kind occurs in one of them."""


def _random(height: int, width: int, lengths: NDArray[Any], near: int, dtype: Any, rng: Any) -> sp.Tensor:
    """Return rows of given lengths; those of odd rows lie within ``near`` columns."""
    rows = np.repeat(np.arange(height), lengths)
    spread = np.where(rows % 2, min(near, width), width)
    columns = (rows * 97 + rng.integers(0, 2**31, len(rows)) % spread) % width
    at = np.unique(rows * width + columns)
    values = rng.integers(-3, 4, len(at)) + (0 if np.dtype(dtype).kind in "iub" else 0.1 * rng.standard_normal(len(at)))
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(len(at))
    return sp.from_coords((at // width, at % width), values.astype(dtype), (height, width))


def _rows(A: sp.Tensor) -> dict[int, list[tuple[int, Any]]]:
    (rows, columns), values = A.to_format("coo").coords, A.to_format("coo").data
    found: dict[int, list[tuple[int, Any]]] = {}
    for row, column, value in zip(rows.tolist(), columns.tolist(), values, strict=True):
        found.setdefault(row, []).append((column, value))
    return found


def _product(A: sp.Tensor, B: sp.Tensor, add: Callable[..., Any], multiply: Callable[..., Any]) -> dict[Any, Any]:
    """Return the product, each element added in the order of the left row's elements."""
    right = _rows(B)
    out: dict[Any, Any] = {}
    for row, elements in _rows(A).items():
        for k, x in elements:
            for column, y in right.get(k, ()):
                value = multiply(x, y)
                out[row, column] = add(out[row, column], value) if (row, column) in out else value
    return out


PLAIN: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "plus_times": (lambda a, b: a + b, lambda a, b: a * b),
    "min_plus": (min, lambda a, b: a + b),
    "max_times": (max, lambda a, b: a * b),
    "plus_second": (lambda a, b: a + b, lambda a, b: b),
}
FIRST = sp.Semiring(lambda a, b: a, lambda a, b: a - b, identity=0, name="first_minus")
"""User semiring without an identity for columns that were not added to."""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("plus_times", each) for each in (np.float64, np.float32, np.int64, np.complex128)]
    + [("min_plus", np.float64), ("min_plus", np.int64), ("max_times", np.float32), ("plus_second", np.int64)]
    + [("first_minus", np.float64)],
)  # fmt: skip
@pytest.mark.parametrize("masked", [False, True])
def test_row_kinds_match_scalar_loop(name: str, dtype: Any, width: int, masked: bool) -> None:
    rng = np.random.default_rng([width, masked])
    inner = 60
    A = _random(14, inner, rng.permutation([0, 1, 1, 2, 3, 5, 8, 13, 20, 20, 30, 40, 50, 60]), inner, dtype, rng)
    B = _random(inner, width, rng.choice([0, 1, 2, 5, 9, 40, 80], inner), 900, dtype, rng)
    semiring: Any = FIRST if name == "first_minus" else name
    add, multiply = (lambda a, b: a, lambda a, b: a - b) if name == "first_minus" else PLAIN[name]
    wanted = _product(A, B, add, multiply)
    mask = None
    if masked:
        cells = {*sorted(wanted)[::3], *((row, 7) for row in range(14) if (row, 7) not in wanted)}
        mask = sp.from_coords(np.array(sorted(cells)).T, np.ones(len(cells)), (14, width))
        wanted = {cell: value for cell, value in wanted.items() if cell not in cells}
    found = sp.matmul(A, B, semiring=semiring, mask=mask, complement=masked).compute()
    fill = found.fill_value
    wanted = {cell: value for cell, value in wanted.items() if value != fill}
    coo = found.to_format("coo")
    assert list(zip(*(column.tolist() for column in coo.coords), strict=True)) == sorted(wanted)
    np.testing.assert_array_equal(coo.data, np.array([wanted[cell] for cell in sorted(wanted)], dtype))
    if semiring == "plus_times" and not masked:
        other = A.to_scipy("csr") @ B.to_scipy("csr")
        np.testing.assert_allclose((found.to_scipy("csr") - other).data, 0, atol=1e-4)


def test_every_row_kind_occurs() -> None:
    kinds: set[int] = set()

    def check(row_kinds: NDArray[np.uint8], needs_dense: bool, **_: Any) -> None:
        kinds.update(row_kinds.tolist())
        assert needs_dense == (symbolic.DENSE in row_kinds)

    with sparrow.testing.on("product.plan_rows", check):
        for width in WIDTHS:
            test_row_kinds_match_scalar_loop("plus_times", np.float64, width, masked=False)
    assert kinds == {symbolic.EMPTY, symbolic.ORDERED, symbolic.GATHERED, symbolic.DENSE}


def _stencil(
    height: int, width: int, offsets: list[int], every: int, dtype: Any, rng: Any, lacking: float
) -> sp.Tensor:
    """Return rows of equal columns, shifted by one every ``every`` rows, with gaps."""
    columns = np.arange(height)[:, None] // every + np.array(offsets)
    there = (columns >= 0) & (columns < width) & (rng.random(columns.shape) >= lacking)
    rows = np.broadcast_to(np.arange(height)[:, None], columns.shape)[there]
    values = rng.integers(1, 4, there.sum()) * rng.choice([-1, 1], there.sum())
    return sp.from_coords((rows, columns[there]), values.astype(dtype), (height, width))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("plus_times", each) for each in (np.float64, np.int64, np.complex128)]
    + [("min_plus", np.float64), ("plus_second", np.int64), ("first_minus", np.float64)],
)  # fmt: skip
@pytest.mark.parametrize(
    "offsets", [[-30, -1, 0, 1, 30], [-7, 60], [1, 2, 4, 9, 30, 31, 37, 50, 70, 90], [-1, 0, 1], [4]]
)
@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_bands_match_scalar_loop(name: str, dtype: Any, offsets: list[int], every: int, masked: bool) -> None:
    rng = np.random.default_rng([len(offsets), every])
    lacking = 0.001 if every == 1 else 0.01
    own = offsets[:9] if len(offsets) > 1 else [-30, -1, 0, 1, 30]
    A = _stencil(200 * every, 200, own, every, dtype, rng, lacking)
    B = _stencil(200, 250, offsets, 1, dtype, rng, lacking)
    semiring: Any = FIRST if name == "first_minus" else name
    add, multiply = (lambda a, b: a, lambda a, b: a - b) if name == "first_minus" else PLAIN[name]
    wanted = _product(A, B, add, multiply)
    mask = None
    if masked:
        cells = [cell for cell in sorted(wanted) if cell[0] % 5 == 0][::2]
        mask, left_out = sp.from_coords(np.array(cells).T, np.ones(len(cells)), (200 * every, 250)), {*cells}
        wanted = {cell: value for cell, value in wanted.items() if cell not in left_out}
    found = sp.matmul(A, B, semiring=semiring, mask=mask, complement=masked).compute()
    wanted = {cell: value for cell, value in wanted.items() if value != found.fill_value}
    coo = found.to_format("coo")
    assert list(zip(*(column.tolist() for column in coo.coords), strict=True)) == sorted(wanted)
    np.testing.assert_array_equal(coo.data, np.array([wanted[cell] for cell in sorted(wanted)], dtype))


@pytest.mark.parametrize("name", ["plus_times", "min_plus", "first_minus"])
@pytest.mark.parametrize("lacking", [0, 0.02])
def test_rows_without_gaps_match_scalar_loop(name: str, lacking: float) -> None:
    rng = np.random.default_rng(3)
    A, B = (_stencil(200, 200, list(range(-10, 11)), 1, np.float64, rng, lacking) for _ in range(2))
    semiring: Any = FIRST if name == "first_minus" else name
    add, multiply = (lambda a, b: a, lambda a, b: a - b) if name == "first_minus" else PLAIN[name]
    found = sp.matmul(A, B, semiring=semiring).compute()
    wanted = {cell: value for cell, value in _product(A, B, add, multiply).items() if value != found.fill_value}
    coo = found.to_format("coo")
    assert list(zip(*(column.tolist() for column in coo.coords), strict=True)) == sorted(wanted)
    np.testing.assert_array_equal(coo.data, np.array([wanted[cell] for cell in sorted(wanted)]))


@pytest.mark.parametrize("semiring", ["plus_times", "min_plus", "plus_pair"])
def test_ordered_and_duplicate_columns(semiring: str) -> None:
    rng = np.random.default_rng(8)
    a = (rng.random((6, 600)) < [[0.0], [0.01], [0.2], [0.8], [1.0], [0.5]]) * rng.integers(1, 9, (6, 600))
    scales = rng.integers(1, 9, 600)
    scales[::7] = 0
    A, weights = sp.asarray(a), sp.asarray(np.diag(scales))
    found = sp.matmul(A, weights, semiring=semiring).compute().to_format("coo")
    wanted = np.nonzero((a != 0) & (scales != 0))
    np.testing.assert_array_equal(found.coords, wanted)
    pairs = {"plus_times": a * scales, "min_plus": a + scales, "plus_pair": np.ones_like(a)}
    np.testing.assert_array_equal(found.data, pairs[semiring][wanted])
    cube = np.zeros((600, 600, 2), int)  # the dropped axis makes each column occur twice in a row
    cube[np.arange(600), np.arange(600)] = scales[:, None] * [1, 2]
    twice = sp.einsum("ij,jkl->ik", A, sp.asarray(cube), semiring=semiring).compute()
    both = {"plus_times": a * scales * 3, "min_plus": a + scales, "plus_pair": np.full_like(a, 2)}
    np.testing.assert_array_equal(twice.to_format("coo").coords, wanted)
    np.testing.assert_array_equal(twice.to_format("coo").data, both[semiring][wanted])


@pytest.mark.parametrize("multiply", ["times", "plus"])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.complex128])
def test_or_reads_wrapped_products(dtype: Any, multiply: str) -> None:
    kind, bits = np.dtype(dtype), 8 * np.dtype(dtype).itemsize
    half = dtype(2 ** (bits // 2 if kind.kind == "i" else 4))
    rest = half if multiply == "times" else np.negative(half)
    A, B = np.array([[half, half, 0]], kind), np.array([[half, 1], [rest, 1], [1, 1]], kind)
    semiring = sp.Semiring("or", multiply, identity=False)
    found = sp.matmul(sp.asarray(A), sp.asarray(B), semiring=semiring).compute()
    with np.errstate(all="ignore"):
        products = {"times": np.multiply, "plus": np.add}[multiply](A[0, :2, None], B[:2]).astype(kind)
    np.testing.assert_array_equal(found.to_numpy() != 0, [(products != 0).any(axis=0)])


def test_duplicate_column_before_dropped_axis() -> None:
    row = [(0, 0), (0, 1), *((column, 0) for column in range(2, 10))]
    cells = np.array([(k, *cell) for k in range(200) for cell in row])
    B = sp.from_coords(cells.T, np.arange(1, len(cells) + 1), (200, 10, 2))
    A = sp.asarray(np.ones((3, 200), int))
    found = sp.einsum("ij,jkl->ik", A, B).compute()
    np.testing.assert_array_equal(found.to_numpy(), np.broadcast_to(B.to_numpy().sum(axis=(0, 2)), (3, 10)))


def test_cancelling_sums_and_nan() -> None:
    width = 5_000
    for columns in (np.arange(0, width, 40), np.arange(100)):  # flagged groups; scanned span
        values = np.ones(len(columns))
        values[[3, 5, 8]] = np.nan, np.inf, -0.0
        rows = np.repeat([0, 1], len(columns))
        B = sp.from_coords((rows, np.tile(columns, 2)), np.concatenate([values, -np.ones(len(columns))]), (2, width))
        A = sp.asarray(np.array([[1.0, 1.0], [0.0, 1.0]]))
        found = (A @ B).compute().to_format("coo")
        kept = columns[[3, 5, 8]]
        first = found.coords[0] == 0
        np.testing.assert_array_equal(found.coords[1][first], kept)
        np.testing.assert_array_equal(found.data[first], [np.nan, np.inf, -1.0])
        np.testing.assert_array_equal(found.coords[1][~first], columns)


_COMPILED = """
import sparrow as sp, sparrow.testing
from sparrow.kernels.jit.compiler import event

class Compilations(event.Listener):
    names, depth = [], 0
    def on_start(self, what):
        self.depth += 1
    def on_end(self, what):
        self.depth -= 1
        if not self.depth:
            self.names.append(what.data["dispatcher"].py_func.__name__)

event.register("numba:compile", Compilations())
A = sp.random((50, 50), density=0.2, seed=1).compute()
with sparrow.testing.strategy("numba"):
    (A @ A).compute()
    Compilations.names.clear()
    sp.matmul(A, A, semiring="min_plus").compute()
print(*Compilations.names)
"""


def test_new_semiring_compiles_one_kernel(tmp_path: Path) -> None:
    """Kernels of masks and dot products, and the symbolic phase, are compiled apart."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", _COMPILED], env=environment, capture_output=True, text=True)
    assert (run.stdout.split(), run.stderr) == (["rows"], "")
