"""Few products by NumPy, where a loop is not loaded: to the bits of the loops."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow.kernels.matmul import numpy_fallback
from sparrow.plan import SEMIRINGS

LETTERS = ["ij,jk->ik", "ij,kj->ki", "ijk,kl->ijl", "ij,jk->", "ij,jk->k", "bij,bjk->bik", "i,j->ij", "iij,jk->ik"]
SIZES = dict(zip("bijkl", (2, 7, 9, 5, 3), strict=True))


def both(letters: str, *operands: Any, **options: Any) -> list[Any]:
    """Return a contraction by NumPy, and by loops, as Arrow tables or numbers."""
    found = []
    for here in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numpy_fallback, "suffices", lambda count, here=here: here)
            patch.setattr(numpy_fallback, "spares", lambda loop, count, here=here: here)
            product = sp.einsum(letters, *operands, optimize=False, **options)
            found.append(product.compute().to_arrow() if isinstance(product, sp.Tensor) else product)
    return found


@given(
    st.sampled_from(LETTERS), st.sampled_from(["float64", "float32", "int64", "int8", "bool"]), st.integers(0, 2**32)
)
def test_they_are_the_sums_of_the_loops(letters: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    operands: list[Any] = []
    for own in letters.partition("->")[0].split(","):
        shape = tuple(SIZES[letter] for letter in own)
        cells = rng.normal(size=shape) * 9 * (rng.random(shape) < rng.choice([0.0, 0.1, 0.6]))
        operands.append(sp.asarray(cells.astype(dtype)))
    here, there = both(letters, *operands)
    if letters.endswith("->"):
        assert here.tobytes() == there.tobytes()
    else:
        assert here.equals(there)


@given(
    st.sampled_from(sorted(SEMIRINGS)), st.sampled_from(["ij,jk->ik", "ij,jk->ki"]),
    st.sampled_from([None, False, True]), st.integers(0, 2**32),
)  # fmt: skip
def test_they_are_what_the_loops_have_of_any_semiring(
    semiring: str, letters: str, complement: bool | None, seed: int
) -> None:
    dtype = "float64" if semiring in ("plus_times", "min_plus", "max_times") else "int64"  # loops compiled elsewhere
    rng = np.random.default_rng(seed)
    a, b = _cells((7, 6), dtype, rng), _cells((6, 9), dtype, rng)
    options: dict[str, Any] = {}
    if complement is not None:
        mask = rng.random((7, 9)) < rng.choice([0.0, 0.4, 1.0])
        options = {"mask": sp.asarray(mask if letters.endswith("ik") else mask.T), "complement": complement}
    here, there = both(letters, a, b, semiring=semiring, **options)
    for mine, theirs in zip(here.columns, there.columns, strict=True):
        np.testing.assert_array_equal(*(column.to_numpy() for column in (mine, theirs)))
        if mine.type == "double":
            np.testing.assert_array_equal(*(np.signbit(column) for column in _finite(mine, theirs)))


def _cells(shape: tuple[int, int], dtype: str, rng: Any) -> sp.Tensor:
    """Return entries that are equal, of either sign of 0, infinite or no number, more often than others are."""
    values = rng.integers(-3, 4, shape).astype(dtype)
    if dtype == "float64":
        values = np.where(rng.random(shape) < 0.3, rng.choice([-0.0, 0.0, np.nan, np.inf, -np.inf], shape), values)
    at = np.nonzero(rng.random(shape) < rng.choice([0.0, 0.3, 1.0]))
    return sp.from_coords(at, values[at], shape)


def _finite(*columns: Any) -> Iterator[NDArray[Any]]:
    """Return values that are numbers: which NaN comes of two is not said."""
    for column in columns:
        values = column.to_numpy()
        yield values[~np.isnan(values)]


def test_they_are_multiplied_until_that_took_as_long_as_to_load_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_fallback, "_spared", {})
    monkeypatch.setattr(numpy_fallback, "_WORTH", 10 * numpy_fallback._CALL)
    asked = [numpy_fallback.spares("one", 0) for _ in range(13)]
    assert asked == [True] * 11 + [False] * 2
    assert numpy_fallback.spares("other", numpy_fallback._FEW)
    assert not numpy_fallback.spares("third", numpy_fallback._FEW + 1)
    assert not numpy_fallback.spares("third", 1)  # it is loaded then


def test_a_first_product_of_few_entries_loads_no_loop() -> None:
    code = """
import sys, numpy as np, sparrow as sp
A = sp.asarray(np.tri(30))
assert (A @ A).to_numpy()[29, 0] == 30
assert "numba" not in sys.modules
A * A, A + A, A.T @ np.ones(30), (A @ A).nnz, (A @ A).sum(axis=0).to_numpy()
assert sp.matmul(A, A, semiring="min_plus").to_numpy()[29, 0] == 2
assert sp.matmul(A, A, semiring="or_and", mask=A, complement=True).nnz == 0
assert sp.matmul(A, A, semiring="plus_pair", mask=A).nnz == 465
print([name for name in ("numba", "scipy.linalg", "duckdb") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
