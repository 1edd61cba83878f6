from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.kernels.ml import factors
from sparrow.models.factor_table import FactorTable
from sparrow.models.tree_sum import TreeSum


def test_float16_against_numpy() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    out = np.empty(2**16, np.float32)
    factors.decode(bits, factors.FLOAT16, out)
    expected = bits.view(np.float16).astype(np.float32)
    assert ((out == expected) | (np.isnan(out) & np.isnan(expected))).all()
    assert (np.signbit(out) == np.signbit(expected)).all()


def test_bfloat16_rounds_to_nearest_even() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([
        rng.standard_normal(5000).astype(np.float32) * 10.0 ** rng.integers(-40, 39, 5000),
        [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1 + 2**-8, 1 + 3 * 2**-8, 1e-45],
    ]).astype(np.float32)  # fmt: skip
    bits, back = np.empty(len(values), np.uint16), np.empty(len(values), np.float32)
    factors.encode(values.view(np.uint32), bits)
    factors.decode(bits, factors.BFLOAT16, back)
    # Round half to even at 8 significant bits.
    low = (values.view(np.uint32) & 0xFFFF0000).view(np.float32).astype(float)
    finite = np.isfinite(values) & (np.abs(values) < 3.38e38) & (np.abs(values) > 1e-37)
    step = np.zeros(len(values))
    step[finite] = np.spacing(np.abs(low[finite]).astype(np.float32)).astype(float) * 2**16 * np.sign(values[finite])
    gaps = np.abs(np.array([low[finite], (low + step)[finite]]) - values[finite].astype(float))
    assert (np.abs(back[finite].astype(float) - values[finite]) == gaps.min(axis=0)).all()
    ties = finite.copy()
    ties[finite] = gaps[0] == gaps[1]
    assert ties.any()
    assert (bits[ties] % 2 == 0).all()
    assert np.isnan(back[np.isnan(values)]).all()
    assert (back[np.isinf(values)] == values[np.isinf(values)]).all()
    assert np.signbit(back[5001])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("mapped", [False, True])
def test_read_returns_written_rows(dtype: Any, mapped: bool, tmp_path: Path) -> None:
    table = FactorTable(5000, 6, dtype, tmp_path / "deep" / "t.npy" if mapped else None)
    rows = np.random.default_rng(0).standard_normal((100, 6)).astype(np.float32)
    table.write(4500, rows)
    error = {"float32": 0, "float16": 2**-10, "bfloat16": 2**-7}[dtype]
    assert (np.abs(table.read(4500, 4600) - rows) <= error * np.abs(rows)).all()
    assert not table.read(0, 4500).any()
    assert (table.to_numpy()[4500:4600] == table.read(4500, 4600)).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("precise", [False, True])
def test_statistics_and_rotation(dtype: Any, precise: bool) -> None:
    rng = np.random.default_rng(1)
    table = FactorTable(9000, 6, dtype)
    table.write(0, rng.standard_normal((9000, 6)).astype(np.float32))
    weights = rng.random(9000)
    result = [table.statistics(lambda a, b: weights[a:b], precise)]
    with sp.config(threads=3):
        result.append(table.statistics(lambda a, b: weights[a:b], precise))
    T = table.to_numpy().astype(float)
    assert np.abs(result[0].gramian - T.T @ T).max() < (1e-9 if precise else 1e-2)
    assert result[0].penalty == pytest.approx(((T**2).sum(axis=1) * weights).sum(), rel=1e-6)
    assert result[0].largest == pytest.approx((T**2).sum(axis=1).max(), rel=1e-6)
    assert (result[0].gramian == result[1].gramian).all()
    assert result[0].penalty == result[1].penalty
    basis = np.linalg.qr(rng.standard_normal((6, 6)))[0].astype(np.float32)
    table.rotate(basis)
    error = {"float32": 1e-6, "float16": 4e-3, "bfloat16": 4e-2}[dtype]
    assert np.abs(table.to_numpy() - T @ basis).max() < error


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=70), st.sets(st.integers(1, 69)))
def test_sums_do_not_depend_on_who_adds(terms: list[float], cuts: set[int]) -> None:
    whole, joined = TreeSum[float](), TreeSum[float]()
    for number, term in enumerate(terms):
        whole.add(number, term)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(terms)), len(terms)]
    for first, last in itertools.pairwise(bounds):
        part = TreeSum[float]()
        for number in range(first, last):
            part.add(number, terms[number])
        joined.extend(part.nodes)
    assert joined.nodes == whole.nodes
    assert joined.total() == whole.total() == pytest.approx(math.fsum(terms), rel=1e-9, abs=1e-3)
    assert TreeSum[float]().total() is None
