"""NumPy fallback of small products: bit-identical to the kernels."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
import sparrow.testing
from sparrow.plan import SEMIRINGS

SUBSCRIPTS = ["ij,jk->ik", "ij,kj->ki", "ijk,kl->ijl", "ij,jk->", "ij,jk->k", "bij,bjk->bik", "i,j->ij", "iij,jk->ik"]
SIZES = dict(zip("bijkl", (2, 7, 9, 5, 3), strict=True))


def both(subscripts: str, *operands: Any, **options: Any) -> list[Any]:
    """Return a contraction by NumPy and by kernels, as Arrow tables or numbers."""
    found = []
    for way in ("numpy", "numba"):
        with sparrow.testing.strategy(way):
            product = sp.einsum(subscripts, *operands, optimize=False, **options)
            found.append(product.compute().to_arrow() if isinstance(product, sp.Tensor) else product)
    return found


@given(
    st.sampled_from(SUBSCRIPTS), st.sampled_from(["float64", "float32", "int64", "int8", "bool"]), st.integers(0, 2**32)
)
def test_fallback_equals_kernels_bit_for_bit(subscripts: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    operands: list[Any] = []
    for own in subscripts.partition("->")[0].split(","):
        shape = tuple(SIZES[letter] for letter in own)
        cells = rng.normal(size=shape) * 9 * (rng.random(shape) < rng.choice([0.0, 0.1, 0.6]))
        operands.append(sp.asarray(cells.astype(dtype)))
    here, there = both(subscripts, *operands)
    if subscripts.endswith("->"):
        assert here.tobytes() == there.tobytes()
    else:
        assert here.equals(there)


@given(
    st.sampled_from(sorted(SEMIRINGS)), st.sampled_from(["ij,jk->ik", "ij,jk->ki"]),
    st.sampled_from([None, False, True]), st.integers(0, 2**32),
)  # fmt: skip
def test_fallback_equals_kernels_for_any_semiring(
    semiring: str, subscripts: str, complement: bool | None, seed: int
) -> None:
    dtype = (
        "float64" if semiring in ("plus_times", "min_plus", "max_times") else "int64"
    )  # kernels that other tests compile too
    rng = np.random.default_rng(seed)
    a, b = _cells((7, 6), dtype, rng), _cells((6, 9), dtype, rng)
    options: dict[str, Any] = {}
    if complement is not None:
        mask = rng.random((7, 9)) < rng.choice([0.0, 0.4, 1.0])
        options = {"mask": sp.asarray(mask if subscripts.endswith("ik") else mask.T), "complement": complement}
    here, there = both(subscripts, a, b, semiring=semiring, **options)
    for mine, theirs in zip(here.columns, there.columns, strict=True):
        np.testing.assert_array_equal(*(column.to_numpy() for column in (mine, theirs)))
        if mine.type == "double":
            np.testing.assert_array_equal(*(np.signbit(column) for column in _finite(mine, theirs)))


def _cells(shape: tuple[int, int], dtype: str, rng: Any) -> sp.Tensor:
    """Return elements with many ties, signed zeros, infinities and NaN."""
    values = rng.integers(-3, 4, shape).astype(dtype)
    if dtype == "float64":
        values = np.where(rng.random(shape) < 0.3, rng.choice([-0.0, 0.0, np.nan, np.inf, -np.inf], shape), values)
    at = np.nonzero(rng.random(shape) < rng.choice([0.0, 0.3, 1.0]))
    return sp.from_coords(at, values[at], shape)


def _finite(*columns: Any) -> Iterator[NDArray[Any]]:
    """Yield the values that are not NaN: which NaN of two survives is undefined."""
    for column in columns:
        values = column.to_numpy()
        yield values[~np.isnan(values)]


def test_first_small_product_does_not_import_numba() -> None:
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
