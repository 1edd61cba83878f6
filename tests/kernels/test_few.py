"""Few products by NumPy, before any loop is loaded: to the bits of the loops."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.kernels import few

LETTERS = ["ij,jk->ik", "ij,kj->ki", "ijk,kl->ijl", "ij,jk->", "ij,jk->k", "bij,bjk->bik", "i,j->ij", "iij,jk->ik"]
SIZES = dict(zip("bijkl", (2, 7, 9, 5, 3), strict=True))


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
    found = []
    for here in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(few, "suffices", lambda count, here=here: here)
            product = sp.einsum(letters, *operands, optimize=False)
            found.append(product.compute().to_arrow() if isinstance(product, sp.Tensor) else product)
    if isinstance(product, sp.Tensor):
        assert found[0].equals(found[1])
    else:
        assert found[0].tobytes() == found[1].tobytes()


def test_a_first_product_of_few_entries_loads_no_loop() -> None:
    code = """
import sys, numpy as np, sparrow as sp
A = sp.asarray(np.tri(30))
assert (A @ A).to_numpy()[29, 0] == 30
assert "numba" not in sys.modules
A * A, A + A, A.T @ np.ones(30), (A @ A).nnz, (A @ A).sum(axis=0).to_numpy()
print([name for name in ("numba", "scipy.linalg", "duckdb") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
