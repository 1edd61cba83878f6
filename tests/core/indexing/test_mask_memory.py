"""Memory of masks of several dimensions."""

from __future__ import annotations

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import TooLargeError


@pytest.mark.parametrize("is_sparse", [True, False])
def test_positions_of_masks_are_bounded(is_sparse: bool) -> None:
    dense = np.arange(10_000.0).reshape(100, 100)
    A, mask = sp.asarray(dense), dense > 5000
    key = A > 5000 if is_sparse else mask
    with sp.config(memory_limit=200_000):
        with pytest.raises(TooLargeError, match=r"4999 elements .* A \* mask"):
            A[key]
        assert (A * key).nnz == 4999
        np.testing.assert_array_equal(A[:60][key[:60]].to_numpy(), dense[:60][mask[:60]])
