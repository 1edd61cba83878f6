"""Density maps against NumPy's histogram, and pictures of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow import engines
from sparrow.errors import MissingDependencyError, ShapeError
from sparrow.tensor import spy
from sparrow.testing import observe, tune


def histogram(dense: np.ndarray[Any, Any], bins: int) -> np.ndarray[Any, Any]:
    height, width = (min(bins, n) for n in dense.shape)
    out = np.zeros((height, width))
    for i, j in np.argwhere(dense):
        out[i * height // dense.shape[0], j * width // dense.shape[1]] += 1
    return out


@given(st.tuples(st.integers(1, 9), st.integers(1, 9)), st.integers(1, 6), st.booleans(), st.integers(0, 99))
def test_density_matches_histogram(shape: tuple[int, int], bins: int, turned: bool, seed: int) -> None:
    dense = np.random.default_rng(seed).integers(0, 2, shape)
    A = sp.asarray(dense)
    A, dense = (A.T[::-1], dense.T[::-1]) if turned else (A, dense)
    found = engines.density(A.__sparrow_scan__(), (0, 1), bins, sample=False)
    assert np.array_equal(found.counts, histogram(dense, bins))
    assert found.extent == dense.shape
    assert not found.sampled


@tune("relations", chunk_elements=50)
def test_sample_reads_few_chunks() -> None:
    n = 1000
    rows = np.repeat(np.arange(n), 50)
    A = sp.from_coords([rows, np.tile(np.arange(0, n, 20), n)], 1.0, shape=(n, n))
    with observe("relations.read") as read:
        found = engines.density(A.__sparrow_scan__(), (0, 1), 40, sample=True)
    assert found.sampled
    assert len(read) <= 96
    assert (found.counts.sum(axis=1) > 0).all()


def test_huge_axes() -> None:
    A = sp.from_coords([[2**61, 2**62 - 1], [0, 2**62 - 1]], [1, 1], shape=(2**62, 2**62))
    counts = engines.density(A.__sparrow_scan__(), (0, 1), 4, sample=False).counts
    assert np.argwhere(counts).tolist() == [[2, 0], [3, 3]]


@pytest.fixture
def drawing() -> None:
    pytest.importorskip("matplotlib", reason="pictures need Matplotlib")


@pytest.mark.usefixtures("drawing")
def test_spy_draws(tmp_path: Path) -> None:
    for A in (
        sp.asarray(np.eye(30)),
        sp.asarray(np.ones(5)),
        sp.zeros((3, 0)),
        sp.zeros((2, 3, 4)),
        sp.zeros((10**9, 3)),
    ):
        picture = spy.png(A.spy(), 50)
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 1000
    with pytest.raises(ShapeError, match="out of range"):
        sp.zeros((2, 2)).spy((0, 2))
    with pytest.raises(ShapeError, match="out of range"):
        sp.asarray(3.0).spy()


@pytest.mark.usefixtures("drawing")
def test_spy_repr_png() -> None:
    from matplotlib.axes import Axes

    axes: Any = sp.asarray(np.eye(3)).spy()
    assert issubclass(type(axes), Axes)
    assert axes._repr_png_().startswith(b"\x89PNG")
    assert sp.asarray(np.eye(3)).spy(ax=axes) is axes


@pytest.mark.usefixtures("drawing")
def test_spy_suits_any_theme() -> None:
    for axes in (sp.asarray(np.eye(30)).spy(), sp.random((300, 300), density=0.5, seed=0).spy(bins=3)):
        figure: Any = axes.figure
        assert figure.get_facecolor()[3] == 0
        assert all(part.get_facecolor()[3] == 0 for part in figure.axes)
        assert {part.xaxis.label.get_color() for part in figure.axes} == {"#808080"}
        assert (axes.images[0].cmap(np.linspace(0, 1, 9))[:, 3] > 0.4).all()
        assert axes.images[0].cmap.get_bad()[3] == 0


@pytest.mark.usefixtures("drawing")
def test_spy_scale_is_used_in_full() -> None:
    full = sp.asarray(np.ones((200, 200))).spy(bins=4)  # every cell has as many elements
    assert full.images[0].norm(2500) > 0.9
    skewed = sp.asarray(np.tri(400)).spy(bins=40).images[0].norm
    assert 0 < skewed.vmin < skewed.vmax == 100


def test_missing_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install matplotlib"):
        sp.asarray(np.eye(3)).spy()
    assert "3 of 9 elements" in sp.asarray(np.eye(3))._repr_html_()
    assert "labels" not in sp.asarray(np.eye(3))._repr_html_()
    assert "data:image/png;base64," in sp.asarray(np.eye(30))._repr_html_()
    named = sp.asarray(np.eye(3), dims=["user", "item"])
    named.set_labels("item", ["a", "b", "c"])
    assert "<td>of item</td>" in (named + named)._repr_html_()
