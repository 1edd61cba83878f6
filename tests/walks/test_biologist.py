"""A computational biologist with an .h5ad file: the first steps of scanpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sparrow as sp

pytest.importorskip("h5py", reason="reads .h5ad files")

CELLS, GENES = 300, 400


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NDArray[Any], NDArray[Any]]:
    """A file of counts, the types of its cells, and the dense counts."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, CELLS)
    rates = rng.gamma(0.3, 1.0, (3, GENES))
    counts = rng.poisson(rates[kind] * rng.uniform(0.5, 2, (CELLS, 1))).astype("float32")
    names = {"obs": [f"cell{k:03}" for k in range(CELLS)], "var": [f"gene{k:03}" for k in range(GENES)]}
    tensor = sp.from_coords(
        np.nonzero(counts), counts[counts > 0], shape=counts.shape, dims=("obs", "var"), labels=names
    )
    path = tmp_path_factory.mktemp("biologist") / "pbmc.h5ad"
    sp.export(tensor, path)
    return path, kind, counts


def test_from_counts_to_clusters(
    experiment: tuple[Path, NDArray[Any], NDArray[Any]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, kind, counts = experiment
    X = sp.ingest.h5ad(path, tmp_path / "pbmc.sparrow")
    assert X.dims == ("obs", "var")
    assert X.head(1).columns == ["obs", "var", "value"]
    assert X.head(1)["obs"].to_list() == ["cell000"]

    # Quality control, by name.
    share = X.sel(var=["gene000", "gene001"]).sum(axis="var") / X.sum(axis="var")
    np.testing.assert_allclose(share.to_numpy(), counts[:, :2].sum(axis=1) / counts.sum(axis=1), rtol=1e-5)

    # Normalization and logarithms stay sparse.
    H = np.log1p(X / X.sum(axis="var") * 1e4)
    dense = np.log1p(counts / counts.sum(axis=1, keepdims=True) * 1e4)
    assert H.nnz == X.nnz
    np.testing.assert_allclose(H.to_numpy(), dense, rtol=1e-4)

    # Highly variable genes, by name.
    top = H.var(axis="obs").topk(100)["var"].to_list()
    assert top[:3] == [f"gene{k:03}" for k in np.argsort(-dense.var(axis=0))[:3]]
    H, dense = H.sel(var=top), dense[:, [int(name[4:]) for name in top]]

    # Centred principal components, as NumPy computes them.
    expected = np.linalg.svd(dense - dense.mean(axis=0), compute_uv=False)[:10]
    scores, components, variance = sp.linalg.pca(H, k=10)
    assert (scores.shape, components.shape) == ((CELLS, 10), (10, 100))
    np.testing.assert_allclose(variance * (CELLS - 1), expected**2, rtol=1e-3)

    # Neighbors and clusters find the three types.
    neighbors = sp.neighbors(sp.asarray(scores), k=20)
    clusters = sp.graph.label_propagation(neighbors).to_numpy()
    assert len(np.unique(clusters)) == 3
    assert len(set(zip(clusters.tolist(), kind.tolist(), strict=True))) == 3
    assert capfd.readouterr().err == ""


def test_centred_products_stay_sparse(experiment: tuple[Path, NDArray[Any], NDArray[Any]], tmp_path: Path) -> None:
    path, _, counts = experiment
    X = sp.ingest.h5ad(path, tmp_path / "pbmc.sparrow").astype("float64")
    _, s, _ = sp.linalg.svds(X - X.mean(axis="obs"), k=5)
    expected = np.linalg.svd(counts - counts.mean(axis=0), compute_uv=False)[:5]
    np.testing.assert_allclose(s[::-1], expected, rtol=1e-4)
