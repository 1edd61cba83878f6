"""Representations that show values, as text and HTML, against NumPy."""

from __future__ import annotations

import base64
import pickle
import re
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow import engines
from sparrow.engines import DensityMap
from sparrow.tensor import display, pictures
from sparrow.testing import observe, tune
from tests.tensor.test_summaries import draw_dense, elements, make

SEEDS = st.integers(0, 2**16)
FORMS = st.sampled_from(["memory", "transposed", "reversed"])


def body(text: str) -> list[list[str]]:
    """Return the cells of the lines of a table below two lines of facts."""
    return [line.split() for line in text.split("\n")[3:]]


def parse(html: str) -> ElementTree.Element:
    """Return HTML as XML, which it is if all is escaped and closed."""
    closed = re.sub(r"(<img[^>]*[^/])>", r"\1/>", html)
    return ElementTree.fromstring(f"<div>{closed}</div>")


def cells(html: str) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in parse(html).iter("tr")]


@given(st.sampled_from([(12, 9), (3, 4, 5), (11,)]), SEEDS, st.sampled_from(["int64", "bool"]), FORMS)
@tune("relations", chunk_elements=5)
@tune("engines", repr_chunks=100)
def test_first_and_last_elements(shape: tuple[int, ...], seed: int, dtype: str, form: str) -> None:
    dense = draw_dense(shape, seed, dtype)
    A, expected = make(dense, form), [[*map(str, row)] for row in elements(dense)]
    text = repr(A)
    assert text.startswith(f"<Tensor ({', '.join(f'{name}: {n}' for name, n in zip(A.dims, dense.shape, strict=True))}")
    assert f"nnz={len(expected)} " in text.split("\n")[0]
    if not expected:
        return
    assert text.split("\n")[1] == f"density {display.percent(len(expected) / dense.size)}"
    if len(shape) > 1 or dtype == "bool":
        middle = [["…"] * (1 + len(shape))]
        assert body(text) == (expected if len(expected) <= 6 else expected[:3] + middle + expected[-3:])
    rows = cells(A._repr_html_())
    if len(shape) > 1:
        assert [row for row in rows if row in expected] == (expected[:5] + expected[5:][-5:])


@given(st.integers(1, 10), st.integers(1, 10), SEEDS, FORMS)
def test_small_tensors_as_tables(height: int, width: int, seed: int, form: str) -> None:
    dense = draw_dense((height, width), seed, "int64")
    wanted = [[str(value) if value else "·" for value in row] for row in dense.tolist()]
    found = make(dense, form)
    assert [line[1:] for line in body(repr(found))] == wanted
    assert [row[1:] for row in cells(found._repr_html_())[-height:]] == wanted
    assert "data:image" not in found._repr_html_()
    vector = make(dense[0], "memory")
    assert [line[1] for line in body(repr(vector))] == wanted[0]


@given(SEEDS, st.sampled_from(["int64", "float64", "uint8"]))
@tune("relations", chunk_elements=50)
@tune("engines", repr_chunks=100, picture_chunks=100)
def test_vectors_show_their_largest_values(seed: int, dtype: str) -> None:
    dense = np.random.default_rng(seed).integers(1, 200, 400).astype(dtype)
    A = sp.asarray(dense)
    wanted = [[str(at), f"{dense[at]:.6g}"] for at in np.lexsort((np.arange(400), -dense.astype(float)))[:5]]
    assert body(repr(A))[:3] == wanted[:3]
    assert [row for row in cells(A._repr_html_()) if row in wanted] == wanted
    counts = np.histogram(dense.astype(float), 20)[0]
    assert pictures.spark_line(counts.tolist()) in repr(A)
    assert A._repr_html_().count("<rect") == np.count_nonzero(np.histogram(dense.astype(float), 24)[0])
    assert "<svg" not in sp.asarray(np.full(400, dense[0]))._repr_html_()  # all are equal


def test_labels_fills_and_scalars() -> None:
    labels = {"user": ["ann", "<b>"], "film": ["Alien", "Brazil", "Casablanca"]}
    A = sp.from_coords([[0, 1, 1], [0, 1, 2]], [5, 4, 3.5], dims=["user", "film"], labels=labels)
    assert body("\n" + repr(A))[0] == ["user", "/", "film", "Alien", "Brazil", "Casablanca"]
    assert body(repr(A)) == [["ann", "5", "·", "·"], ["<b>", "·", "4", "3.5"]]
    assert ["<b>", "·", "4", "3.5"] in cells(A._repr_html_())
    many = sp.from_coords([[0, 1], [0, 1]], [1, 2], dims=["user", "n"], shape=(2, 50), labels={"user": ["ann", "bob"]})
    assert body(repr(many)) == [["ann", "0", "1"], ["bob", "1", "2"]]
    filled: Any = np.exp(A)
    assert repr(filled.compute()).split("\n")[1] == "density 50 %, fill value 1"
    assert repr(sp.asarray(2.5)).split("\n")[1:] == ["2.5"]
    assert repr(sp.zeros((3, 0))).count("\n") == 0
    assert repr(sp.zeros((30, 40))).split("\n")[1:] == ["density 0 %"]
    wide = sp.from_coords(
        [[0], [0]], [1], shape=(10, 10), dims=["a", "b"], labels={"b": [k * "x" for k in range(20, 30)]}
    )
    assert body(repr(wide)) == [["0", "x" * 20, "1"]]
    assert max(map(len, repr(sp.asarray(np.ones((10, 10)) * 1.23456789e-7)).split("\n"))) < 121


def test_lazy_tensors_are_not_computed() -> None:
    A = sp.asarray(np.eye(30))
    with observe("stream.scan") as scans, observe("relations.read") as reads:
        for lazy in (A + A, A @ A.T, A.sum(axis=0), (A * 2)[3:], A.topk(3, axis=1)):
            assert repr(lazy).count("\n") == 0
            assert "<td>" in lazy._repr_html_()
        assert not scans
        assert not reads
    assert "map add" in (A + A)._repr_html_()
    assert "topk" in A.topk(3, axis=1)._repr_html_()


@tune("storage", group_rows=100, file_rows=1000, row_group_slack=1000)
def test_few_row_groups_are_read(tmp_path: Path) -> None:
    A = sp.random((500, 400), density=0.05, seed=1).save(tmp_path / "A.sparrow")
    for B in (A, A.T, A[20:], A[:, 7], A[[3, 499]], A[::-1], A[::7, ::3]):
        with observe("storage.read_row_group") as read:
            repr(B)
        assert 0 < len(read) <= 2
        with observe("storage.read_row_group") as read:
            B._repr_html_()
        assert 0 < len(read) <= 16
    with observe("storage.read_row_group") as read:
        found = repr([A, A[1:], {"x": A.T}])
    assert found.count("<Tensor") == 3
    assert len(read) <= 6


def test_counts_that_were_read_are_shown(tmp_path: Path) -> None:
    A = sp.random((50, 40), density=0.3, seed=1).save(tmp_path / "A.sparrow")
    for view in (A.T, A[5:20], A[:, ::2], A[::-1], A[[3, 5]]):
        count = np.count_nonzero(view.to_numpy())
        with observe("stream.scan") as scans:
            assert f"nnz={count} " in repr(view)
            assert f"{count} of " in view._repr_html_()
            assert view.nnz == count
        assert not scans
    assert "size" in [row[0] for row in cells(A.T._repr_html_())]
    assert "size" not in [row[0] for row in cells(A[5:20]._repr_html_())]  # the store's tells nothing about the view


def test_failures_to_read_are_told(tmp_path: Path) -> None:
    A = sp.random((50, 40), density=0.3, seed=1).save(tmp_path / "A.sparrow")
    part = A[1:]
    (file,) = A.files()
    Path(file.path).unlink()
    A = sp.open(tmp_path / "A.sparrow")
    assert f"values are not shown: the data file {file.path!r} is gone" in repr(A)
    assert "nnz=?" in repr(A[1:])
    assert "(d0: 50, d1: 40)" in A._repr_html_()
    shutil.rmtree(tmp_path / "A.sparrow")
    assert "values are not shown" in repr(part)
    B = sp.asarray(np.eye(4))
    edge = B[:, 3]
    B.resize(2, 2)
    assert "values are not shown: this view shows elements up to coordinate 3" in repr(edge)
    assert "resized" in edge._repr_html_()


def test_ipython_shows_one_line_inside_of_containers() -> None:
    class Printer:
        def __init__(self, depth: int) -> None:
            self.stack, self.shown = [0] * depth, ""

        def text(self, text: str) -> None:
            self.shown += text

    A = sp.asarray(np.eye(3))
    alone, inside = Printer(1), Printer(2)
    A._repr_pretty_(alone, False)
    A._repr_pretty_(inside, False)
    assert alone.shown == repr(A)
    assert inside.shown == repr(A).split("\n")[0]


def test_large_vocabularies_are_not_read(tmp_path: Path) -> None:
    A = sp.from_coords([[0, 1]], [5, 4], dims=["user"], labels={"user": ["ann", "bob"]}).save(tmp_path / "A.sparrow")
    with tune("tensor", labels_read=1), observe("plan.labels") as read:
        assert repr(A).split("\n")[3:] == ["   0      5", "   1      4", "by position, labels are not read"]
        assert "by position" in A._repr_html_()
    assert not read
    assert "ann" in repr(A)


# -- pictures ------------------------------------------------------------------------------------


def decode(url: str) -> np.ndarray[Any, Any]:
    """Return the pixels of a PNG with a palette, shape (H, W, 4)."""
    data = base64.b64decode(url.partition("base64,")[2])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        content = data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + content) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        chunks[kind] = content
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    colors = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    opacity = np.frombuffer(chunks[b"tRNS"], np.uint8)
    return np.dstack([colors[lines[:, 1:]], opacity[lines[:, 1:]]])


@given(st.integers(1, 30), st.integers(1, 30), SEEDS)
def test_density_picture(height: int, width: int, seed: int) -> None:
    counts = np.random.default_rng(seed).choice([0, 0, 1, 5, 900, 901, 1e6], (height, width))
    pixels = decode(pictures.density_url(DensityMap(counts, (height, width), False)))
    assert np.array_equal(pixels[..., 3] > 0, counts > 0)
    white = pictures.density_png(DensityMap(counts, (height, width), False), on_white=True)
    opaque = decode("base64," + base64.b64encode(white).decode())
    assert (opaque[..., 3] == 255).all()
    assert np.array_equal((opaque[..., :3] < 255).any(axis=-1), counts > 0)
    if (counts > 0).any():
        levels = pictures.density_levels(counts)
        order = np.argsort(counts[counts > 0])
        assert (np.diff(levels[counts > 0][order]) >= 0).all()
        assert levels.max() <= 1
        if counts.max() > 2 * counts[counts > 0].min():
            assert levels.max() - levels[counts > 0].min() > 0.9  # the scale is used in full


def test_large_graphs_are_not_flat() -> None:
    rng = np.random.default_rng(0)
    nodes = (rng.power(0.3, (2, 200_000)) * 10**6).astype(np.int64)
    A = sp.from_coords(nodes, 1, shape=(10**6, 10**6), duplicates="sum")
    pixels = decode(re.findall(r'src="([^"]+)"', A._repr_html_())[0])
    assert len(np.unique(pixels[..., :3].reshape(-1, 3), axis=0)) > 20
    even = sp.random((10**6, 10**6), nnz=200_000, seed=0)._repr_html_()
    assert "data:image" not in even
    assert "spread evenly" in even
    for A in (sp.asarray(np.eye(300)), sp.asarray(np.tri(300)), sp.from_coords([[5] * 300, range(300)], 1.0)):
        assert "data:image" in A._repr_html_()
    assert "data:image" not in sp.zeros((30, 30))._repr_html_()


@tune("storage", group_rows=200, row_group_slack=1000)
def test_estimates_follow_the_bounds_of_row_groups(tmp_path: Path) -> None:
    n = 5000
    at = np.arange(n)
    A = sp.from_coords([np.repeat(at, 2), np.minimum(np.repeat(at, 2) + np.tile([0, 1], n), n - 1)], 1.0,
                       shape=(n, n), duplicates="sum").save(tmp_path / "band.sparrow")  # fmt: skip
    for B in (A, A.T):
        with tune("engines", density_sample_chunks=8):
            found = engines.density(B.__sparrow_scan__(), (0, 1), 20, sample=True)
        exact = engines.density(B.__sparrow_scan__(), (0, 1), 20, sample=False)
        assert found.sampled
        assert found.counts.sum() == pytest.approx(exact.counts.sum())
        rows, columns = np.nonzero(found.counts)
        assert np.abs(rows - columns).max() <= 1
        assert np.abs(found.counts - exact.counts).sum() < 0.4 * exact.counts.sum()


def test_charts_are_well_formed() -> None:
    chart = pictures.bar_chart([0, 3, 1], "<1", "9", "a & b")
    assert parse(chart).findtext(".//{http://www.w3.org/2000/svg}title") == "a & b"
    assert chart.count("<rect") == 2
    lines = pictures.line_chart([("loss", [3, 2, float("nan"), 1]), ("held out", [4.0])], "1", "4", "t")
    assert parse(lines) is not None
    assert lines.count("<polyline") == 2
    assert pictures.line_chart([("loss", [])], "", "", "") == ""
    assert pictures.spark_line([]) == ""
    assert pictures.spark_line([0, 0]) == "▁▁"


# -- frames --------------------------------------------------------------------------------------


def test_history_files_and_labels_render(tmp_path: Path) -> None:
    A = sp.from_coords([[0, 1, 1], [0, 1, 2]], [5, 4, 3], dims=["user", "film"], labels={"user": ["ann", "<b>"]})
    A = A.save(tmp_path / "A.sparrow")
    A[0, 1] = 7
    history, files, labels = A.history(), A.files(), A.labels()
    assert history == list(history) == history[:]
    assert [line.split()[0] for line in repr(history).split("\n")] == ["version", "-------", "1", "0"]
    assert [row[0] for row in cells(history._repr_html_())] == ["version", "1", "0"]
    assert cells(history[:1]._repr_html_())[1][2:] == ["write", "4", "2 x 3", "+1 -1"]
    assert history.to_polars()["operation"].to_list() == ["write", "save"]
    assert pl.DataFrame(history).height == 2
    assert cells(files._repr_html_())[1][1] == "4"
    assert files.to_polars()["rows"].to_list() == [4]
    assert cells(labels._repr_html_())[1:] == [
        ["user", "2", "string", "ann, <b>"],
        ["film", "3", "", "0 to 2, not labelled"],
    ]
    assert labels["user"].to_pylist() == ["ann", "<b>"]
    assert "film" not in labels
    for frame in (history, files, labels):
        again = pickle.loads(pickle.dumps(frame))
        assert again == frame
        assert repr(again) == repr(frame)
    B = sp.from_coords([[0], [0]], [1], shape=(2, 3), dims=A.dims, labels=A.labels())
    assert B.sel(user="ann").nnz == 1
    many = sp.from_coords([[0]], [1], shape=(50,), dims=["n"], labels={"n": [f"label {k}" for k in range(50)]})
    assert "label 0, label 1, label 2, …, label 49" in repr(many.labels())


def test_bundles_render(tmp_path: Path) -> None:
    bundle: Any = sp.Bundle({"X<": sp.asarray(np.eye(4)), "y": np.ones(4)})
    assert bundle._ipython_key_completions_() == ["X<", "y"]
    rows = cells(bundle._repr_html_())
    assert [row[0] for row in rows] == ["tensor", "X<", "y"]
    assert rows[1][3:5] == ["4", "25 %"]
    stored = sp.Bundle({"X": np.eye(4), "y": np.ones(4)}).save(tmp_path / "b.sparrow")
    with observe("storage.read_row_group") as read:
        shown = sp.open(tmp_path / "b.sparrow")._repr_html_()
    assert not read
    assert "float64" in shown
    for file in stored["y"].files():
        Path(file.path).unlink()
    shutil.rmtree(tmp_path / "b.sparrow" / "y")
    assert "cannot be opened" in sp.open(tmp_path / "b.sparrow")._repr_html_()
