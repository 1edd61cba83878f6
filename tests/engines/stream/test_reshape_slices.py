"""Reshapes of inputs with a few large slices, which are read slice by slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.engines.stream.planner import lower
from sparrow.engines.stream.structural import ReshapeOp
from sparrow.testing import strategy, tune

INPUTS: dict[str, Any] = {
    "one matrix": lambda lib, x: x[None],
    "tile": lambda lib, x: lib.tile(x, (3, 1)),
    "tile of both axes": lambda lib, x: lib.tile(x, (2, 3)),
    "tile of turned": lambda lib, x: lib.tile(x.T, (2, 1)),
    "two new axes": lambda lib, x: lib.broadcast_to(x[None, None], (2, 2, *x.shape)),
    "stack": lambda lib, x: lib.stack([x, x * 2.0]),
    "matrix": lambda lib, x: x,
}
USES: dict[str, Any] = {
    "all": lambda x: x,
    "computed with": lambda x: x * 2.0 + x,
    "rows": lambda x: x[1:-1],
    "backwards": lambda x: x[::-1],
    "list": lambda x: x[np.array([0, -1, 1 - len(x)])],
    "sums": lambda x: x.sum(axis=0),
    "turned": lambda x: x.T,
}


@pytest.mark.parametrize("name", INPUTS)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**20), use=st.sampled_from(sorted(USES)), data=st.data())
def test_slices_match_numpy(name: str, seed: int, use: str, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 9, (12, 10)) * (rng.random((12, 10)) < 0.6) * 1.0
    with strategy("batched"), tune("stream", min_batch_elements=5, partition_rows=20, min_partition_rows=2):
        made = [INPUTS[name](lib, each) for lib, each in ((np, x), (sp, sp.asarray(x)))]
        size = made[0].size
        first = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        shape = data.draw(st.sampled_from([(size,), (first, size // first), (1, first, size // first)]))
        expected, found = (USES[use](each.reshape(shape)) for each in made) if shape[0] > 2 else made
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_slices_are_read_one_by_one() -> None:
    A, B = (sp.random((50, 40), nnz=900, seed=seed) for seed in range(2))
    expected = np.tile(A.to_numpy() + B.to_numpy(), (3, 1))
    with strategy("batched"), tune("stream", min_batch_elements=100, partition_rows=200, min_partition_rows=2):
        (scan,) = lower([sp.tile(A + B, (3, 1)).__sparrow_scan__()])
        operator = scan.relation
        assert isinstance(operator, ReshapeOp)
        assert operator.depth == 1
        counts = [operator.read(chunk).count for chunk in operator.chunks(scan.view.box())]
    assert counts == [np.count_nonzero(expected) / 3] * 3
