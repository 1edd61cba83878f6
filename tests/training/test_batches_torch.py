"""Batches as PyTorch tensors and data sets; PyTorch is an optional dependency."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
HEIGHT = 103


@pytest.fixture
def train(tmp_path: Path) -> Any:
    X = sp.random((HEIGHT, 30), density=0.2, seed=1).save(tmp_path / "x.sparrow")
    y = sp.asarray(np.arange(1.0, HEIGHT + 1)).save(tmp_path / "y.sparrow")
    return sp.batches(X, y, 10, "pad", shuffle=True, seed=2)


def test_to_torch_shares_arrays(train: Any) -> None:
    dense = train._data["X"].to_numpy()
    for batch in train:
        rows = batch.to_torch()
        assert rows.layout == torch.sparse_csr
        assert np.shares_memory(rows.values().numpy(), batch.X.data)
        assert np.shares_memory(rows.col_indices().numpy(), batch.X.indices)
        np.testing.assert_array_equal(rows.to_dense().numpy(), dense[batch.rows])
        rows.values()[:] = 0  # shared arrays are writable


@pytest.mark.parametrize("start", [None, "fork", "spawn"])
def test_loader(train: Any, start: str | None) -> None:
    dense = train._data["X"].to_numpy()
    workers = {None: 0, "fork": 2, "spawn": 1}[start]
    loader = torch.utils.data.DataLoader(train, batch_size=None, num_workers=workers, multiprocessing_context=start)
    assert len(loader) == 11
    rows: list[int] = []
    for batch in loader:
        np.testing.assert_array_equal(batch.X.to_numpy(), dense[batch.rows])
        np.testing.assert_array_equal(batch.y, batch.rows + 1)
        assert batch.size == 10
        rows += batch.rows[: batch.size - batch.pad].tolist()
    assert sorted(rows) == list(range(HEIGHT))
    assert len(train) == 11


def test_model_learns() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((100, 10)) * (rng.random((100, 10)) < 0.3)
    truth = rng.normal(size=10)
    weight = torch.zeros(10, 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.3)
    losses = []
    train = sp.batches(X, X @ truth, 50, shuffle=True)
    for _ in range(30):
        for batch in train:
            optimizer.zero_grad()
            loss = ((batch.to_torch() @ weight)[:, 0] - torch.from_numpy(batch.y)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0] / 20
