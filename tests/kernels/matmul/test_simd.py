"""SIMD lanes: same bits as scalar loops, no access past the end of a row."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from llvmlite import binding  # type: ignore[import-untyped]
from numba import njit
from numba.core.errors import TypingError
from numpy.typing import NDArray

from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul import dense
from sparrow.kernels.simd import (
    FLAGS,
    LANES,
    broadcast,
    compress_store,
    exceeding_bits,
    lane_range,
    less_than,
    load,
    not_equal_bits,
    popcount,
    store,
    take_flags,
)

sum_weighted: Any = dense.mttkrp
rows_of: Any = dense.csr_matvecs

DTYPES = [np.float32, np.float64, np.complex64, np.complex128, np.int64]
COLUMNS = [1, 2, 7, 8, 9, 16, 21]


def numbers(rng: Any, dtype: Any, *shape: int) -> NDArray[Any]:
    """Return numbers whose sums round, or integers that wrap around."""
    found: NDArray[Any] = rng.integers(-(2**62), 2**62, shape)
    if dtype is np.int64:
        return found
    found = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.standard_normal(shape)
    found.flat[rng.integers(found.size)] = rng.choice([np.inf, -np.inf, np.nan, -0.0])
    return np.asarray(found, dtype)


def product(a: Any, b: Any) -> Any:
    """Return the product of two numbers as kernels compute it."""
    if not isinstance(a, np.complexfloating):
        return a * b
    real, imag = a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real
    return np.array([real, imag]).view(a.dtype)[0]


def one_by_one(rows: Any, places: Any, values: Any, table: Any, height: int) -> NDArray[Any]:
    """Return the sums, one element and one column after the other."""
    out = np.zeros((height, table.shape[1]), table.dtype)
    for k, row in enumerate(rows):
        for column in range(table.shape[1]):
            term = values[k]
            for line in places:
                term = product(term, table[line[k], column])
            out[row, column] += term
    return out


def assert_same_bits(found: NDArray[Any], expected: NDArray[Any]) -> None:
    """Check that numbers agree up to the sign of zero; NaN payloads may differ."""
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind in "fc":
        for part in (np.real, np.imag):
            one, other = part(found), part(expected)
            there = ~np.isnan(other)
            np.testing.assert_array_equal(np.signbit(one[there]), np.signbit(other[there]))


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_lanes_match_scalar_loop(dtype: Any, columns: int) -> None:
    rng = np.random.default_rng(columns)
    n, height = 60, 6
    rows = np.sort(rng.integers(0, height, n))
    table, values = numbers(rng, dtype, 9, columns), numbers(rng, dtype, n)
    places = rng.integers(0, 9, (2, n))
    cells = np.full((height + 2, columns), 7, dtype)

    y = cells[1:-1]
    for factors in (places[:1], places):
        y[:] = 0
        edges = np.zeros((2, columns), dtype)
        sum_weighted(*map(as_readonly, (rows, factors, values, table)), 0, height - 1, y, edges)
        assert not y[[0, -1]].any()
        y[[0, -1]] = edges
        assert_same_bits(y, one_by_one(rows, factors, values, table, height))

    expected = one_by_one(rows, places[:1], values, table, height)
    y[:] = 3
    indptr = np.searchsorted(rows, np.arange(height + 1))
    rows_of(*map(as_readonly, (indptr, places[0], values, table)), y)
    assert_same_bits(y, expected)

    assert (cells[[0, -1]] == 7).all()


def test_non_contiguous_array_raises() -> None:
    x, y = np.ones((3, 6))[:, ::2], np.zeros((2, 3))
    with pytest.raises(TypingError, match="array must be C-contiguous"):
        rows_of(np.array([0, 1, 2]), np.array([0, 1]), np.ones(2), x, y)


def test_mttkrp_skips_out_of_range_rows() -> None:
    y, edges = np.zeros((2, 3)), np.zeros((2, 3))
    rows, values, table = np.array([0, 0, 1, 5]), np.ones(4), np.full((2, 3), 2.0)
    places = np.array([[1, 9, 0, 0], [0, 0, -1, 0]])
    sum_weighted(*map(as_readonly, (rows, places, values, table)), -1, -1, y, edges)
    np.testing.assert_array_equal(y, [[4.0] * 3, [0.0] * 3])
    assert not edges.any()


@njit
def _count_less(one, other, out):  # type: ignore[no-untyped-def]
    total = load(out, np.uint64(0), LANES)
    for at in range(np.uint64(0), np.uint64(len(one)), LANES):
        total += less_than(load(one, at, LANES), load(other, at, LANES))
    store(out, np.uint64(0), LANES, total)


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_less_than_counts_lanes(dtype: str) -> None:
    most = np.iinfo(dtype).max
    one, other = np.random.default_rng(6).integers(0, most, (2, 800), dtype, endpoint=True)
    one[:300:7], other[:300:7] = other[:300:7], one[:300:7]
    other[5:400:9] = one[5:400:9]
    out = np.zeros(8, dtype)
    _count_less(one, other, out)
    assert out.tolist() == (one < other).reshape(-1, 8).sum(axis=0).tolist()


@njit
def _compress(row, fill, first, out, columns):  # type: ignore[no-untyped-def]
    n = np.uint64(0)
    for at in range(np.uint64(0), np.uint64(len(row)), LANES):
        found = load(row, at, LANES)
        differs = not_equal_bits(found, broadcast(fill))
        compress_store(out, n, found, differs)
        compress_store(columns, n, lane_range(np.uint32(at + first)), differs)
        n += popcount(differs)
    return n


@njit
def _find_exceeding(row, bound, out):  # type: ignore[no-untyped-def]
    for at in range(np.uint64(0), np.uint64(len(row)), LANES):
        out[at // LANES] = exceeding_bits(load(row, at, LANES), broadcast(bound))


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "uint64", "float32", "float64"])
def test_exceeding_bits_count_nan_as_greater(dtype: str) -> None:
    kind = np.dtype(dtype)
    low, high = (-np.inf, np.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    row = np.array([low, high, 0, 1, 2, 3, high, 1] * 4, kind)
    bounds = [low, 0, 1, 2, high]
    if kind.kind == "f":
        row[::5], bounds = np.nan, [*bounds, np.nan]
    for bound in np.array(bounds, kind):
        out = np.zeros(len(row) // 8, np.uint8)
        _find_exceeding(row, bound, out)
        np.testing.assert_array_equal(np.unpackbits(out, bitorder="little"), ~(row <= bound))


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
)
def test_compress_store_packs_selected_lanes(dtype: str) -> None:
    rng = np.random.default_rng(5)
    masks = (np.arange(256)[:, None] >> np.arange(8) & 1).astype(bool).ravel()  # every mask of eight lanes
    row = np.where(masks, rng.integers(1, 100, len(masks)), 7).astype(dtype)
    if np.dtype(dtype).kind == "f":
        row[masks.nonzero()[0][::50]] = np.nan
    wanted = np.flatnonzero(row != 7)
    out, columns = np.zeros(len(row) + 8, dtype), np.zeros(len(row) + 8, np.uint32)
    n = _compress(row, row.dtype.type(7), 1000, out, columns)
    assert n == len(wanted)
    np.testing.assert_array_equal(out[:n], row[wanted])
    np.testing.assert_array_equal(columns[:n], wanted + 1000)


@njit
def _take_all(flags, out):  # type: ignore[no-untyped-def]
    n = np.uint64(0)
    for at in range(np.uint64(0), np.uint64(len(flags)), FLAGS):
        n += take_flags(flags, at, out, n)
    return n


@pytest.mark.parametrize("density", [0, 0.01, 0.5, 1])
def test_take_flags_lists_and_clears(density: float) -> None:
    rng = np.random.default_rng(1)
    flags = (rng.random(4096) < density) * rng.integers(1, 256, 4096)
    flags = flags.astype(np.uint8)
    wanted, out = flags.nonzero()[0], np.zeros(4096 + 16, np.uint32)
    n = _take_all(flags, out)
    np.testing.assert_array_equal(out[:n], wanted)
    assert not flags.any()


@pytest.mark.parametrize("processor", ["generic", "haswell"])
def test_compress_on_other_processors(processor: str, tmp_path: Any) -> None:
    """Check processors with AVX2 permutations, and those without."""
    features = "" if processor == "generic" else "+avx,+avx2"
    if features and not binding.get_host_cpu_features().get("avx2"):
        pytest.skip("the processor has no AVX2")
    own = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path)}
    code = f"""
import runpy
tests = runpy.run_path({__file__!r})
tests["test_take_flags_lists_and_clears"](0.5)
for dtype in ("int16", "float32", "float64"):
    tests["test_compress_store_packs_selected_lanes"](dtype)
"""
    run = subprocess.run([sys.executable, "-c", code], env={**os.environ, **own}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
