"""Assigned dimension names match operands by position, given ones by name."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.core.schema import assigned_dims, is_given_name
from sparrow.errors import LabelError, ShapeError

NAMES = assigned_dims("head", "src", "dst")

ARITHMETIC = [
    np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.fmod, np.maximum, np.minimum,
    np.fmax, np.fmin, np.hypot, np.arctan2, np.copysign, np.logaddexp, np.equal, np.not_equal, np.less, np.less_equal,
    np.greater, np.greater_equal, np.logical_and, np.logical_or, np.logical_xor, np.heaviside,
]  # fmt: skip
INTEGER = [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm, np.left_shift]


def make(dense: Any, names: Any = NAMES) -> sp.Tensor:
    """Return a tensor in the last names."""
    dense = np.asarray(dense)
    found = dense.nonzero()
    return sp.from_coords(found, dense[found], dense.shape, names[len(names) - dense.ndim :])


@st.composite
def operands(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two arrays of up to three dimensions that often broadcast."""
    size = draw(st.integers(1, 4))
    shapes = [tuple(draw(st.sampled_from([size, size, 1])) for _ in range(draw(st.integers(1, 3)))) for _ in range(2)]
    kind = draw(st.sampled_from([np.int64, np.float64]))
    seed = np.random.default_rng(draw(st.integers(0, 2**31)))
    return tuple((seed.integers(-3, 4, shape) * seed.integers(0, 2, shape)).astype(kind) for shape in shapes)  # type: ignore[return-value]


@settings(max_examples=60)
@given(operands(), st.sampled_from([*ARITHMETIC, *INTEGER]), st.data())
def test_binary_functions_go_by_position(pair: tuple[Any, Any], ufunc: Any, data: st.DataObject) -> None:
    dense = [each.astype(np.int64) if ufunc in INTEGER else each for each in pair]
    if ufunc is np.left_shift:
        dense[1] = abs(dense[1])
    tensors = [make(each) for each in dense]
    for k in (0, 1):
        order = data.draw(st.permutations(range(dense[k].ndim)))
        dense[k], tensors[k] = dense[k].transpose(order), tensors[k].transpose(*order)
        if data.draw(st.booleans()):
            tensors[k] = tensors[k].compute()
    with np.errstate(all="ignore"):
        expected = ufunc(*dense)
        found = ufunc(*tensors)
        np.testing.assert_array_equal(found.to_numpy(), expected)
    assert not any(map(is_given_name, found.dims))


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> sp.Tensor:
    folder = tmp_path_factory.mktemp("web")
    (folder / "edges.txt").write_text("0 1\n1 2\n2 0\n2 1\n3 0\n")
    made: sp.Tensor = sp.ingest.edges(folder / "edges.txt", folder / "web.sparrow")
    return made


def test_graph_meets_its_transpose(web: sp.Tensor, tmp_path: Path) -> None:
    dense = web.to_numpy()
    stored = web.T.save(tmp_path / "t.sparrow")
    for turned in (web.T, web.T.compute(), stored, sp.open(tmp_path / "t.sparrow"), web.transpose("dst", "src"),
                   pickle.loads(pickle.dumps(web.T)), (web.T * 1).persist(), web[:, :].T[::-1][::-1]):  # fmt: skip
        assert turned.dims == ("dst", "src")
        for engine in ("stream", "duckdb"):
            np.testing.assert_array_equal((web + turned).compute(engine=engine).to_numpy(), dense + dense.T)
            np.testing.assert_array_equal((turned * web).compute(engine=engine).to_numpy(), dense * dense.T)
        np.testing.assert_array_equal((web > turned).to_numpy(), dense > dense.T)
        np.testing.assert_array_equal(sp.where(web > turned, web, turned).to_numpy(), np.maximum(dense, dense.T))
        np.testing.assert_array_equal(sp.concat([web, turned]).to_numpy(), np.concatenate([dense, dense.T]))
        np.testing.assert_array_equal(sp.stack([web, turned]).to_numpy(), np.stack([dense, dense.T]))
        np.testing.assert_array_equal(web[turned > 0].to_numpy(), dense[dense.T > 0])
        np.testing.assert_array_equal(sp.matmul(web, web, mask=turned).to_numpy(), (dense @ dense) * (dense.T > 0))
        np.testing.assert_array_equal(sp.einsum("ij,ij->i", web, turned).to_numpy(), (dense * dense.T).sum(axis=1))
        np.testing.assert_array_equal((web @ turned).to_numpy(), dense @ dense.T)
        assert np.allclose(turned, web.T)
        one, other = sp.align(web, turned)
        assert one is web
        assert other is turned


def test_graph_is_changed_by_its_transpose(web: sp.Tensor) -> None:
    dense = web.to_numpy()
    copy = web.compute()
    copy += web.T
    np.testing.assert_array_equal(copy.to_numpy(), dense + dense.T)
    changed = sp.zeros((4, 4), dtype="int64", dims=web.dims).compute()
    changed[:] = web.T
    np.testing.assert_array_equal(changed.to_numpy(), dense.T)
    changed[1:3] = web.T[1:3] * 2
    np.testing.assert_array_equal(changed.to_numpy()[1:3], 2 * dense.T[1:3])
    changed.append(web, duplicates="sum")
    dense2 = np.concatenate([dense.T[:1], 2 * dense.T[1:3], dense.T[3:]]) + dense
    np.testing.assert_array_equal(changed.to_numpy(), dense2)
    changed[web.T > 0] = 0
    np.testing.assert_array_equal(changed.to_numpy(), np.where(dense.T > 0, 0, dense2))


def test_positions_across_ranks(web: sp.Tensor) -> None:
    dense = web.to_numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((web - web.sum(axis=1)).to_numpy(), dense - dense.sum(axis=1))
        np.testing.assert_array_equal((web - web.sum(axis="dst")).to_numpy(), dense - dense.sum(axis=1))
        kept = web.sum(axis="dst", keepdims=True)
        np.testing.assert_array_equal((web - kept).to_numpy(), dense - dense.sum(axis=1, keepdims=True))
        degree = web.sum(axis=1)
        np.testing.assert_array_equal(
            (web * degree[:, None] * degree[None, :]).to_numpy(), dense * dense.sum(1)[:, None] * dense.sum(1)
        )
        named = web.rename(src="page", dst="link")
        np.testing.assert_array_equal((named - named.sum(axis="link")).to_numpy(), dense - dense.sum(axis=1)[:, None])
    with pytest.raises(ShapeError, match=r"go by position.*keepdims=True, or give names with rename\(\)"):
        web[:, :2] - web[:, :2].sum(axis="dst")


def test_given_names_match(web: sp.Tensor) -> None:
    dense = web.to_numpy()
    named = web.rename(src="src", dst="dst")
    assert named is not web
    with pytest.raises(LabelError, match=r"A\.T\.rename\(dst='src', src='dst'\) goes by position"):
        named + named.T
    np.testing.assert_array_equal((web + named.T).to_numpy(), dense + dense.T)  # one side was assigned
    assert list(map(is_given_name, (web + named).dims)) == [True, True]
    assert list(map(is_given_name, (named.compute() * web).dims)) == [True, True]
    turned = sp.asarray(dense.T, dims=("dst", "src"))
    assert (turned + named).dims == ("dst", "src")


@pytest.mark.parametrize(
    ("text", "read", "names"),
    [
        ("0 1\n1 0\n", "edges", ("src", "dst")),
        ("1 1:2 2:3\n-1 2:1\n", "libsvm", ("row", "col")),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 3\n", "mtx", ("row", "col")),
        ("a likes b\nb likes a\n", "triples", ("head", "relation", "tail")),
        ("2 1\n2\n1\n", "metis", ("src", "dst")),
    ],
)
def test_readers_assign_names(text: str, read: str, names: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text(text)
    found = getattr(sp.ingest, read)(tmp_path / "file.txt", tmp_path / "found.sparrow")
    tensor = found["X"] if read == "libsvm" else found
    assert tensor.dims == names
    assert tensor.path is not None
    copies = [tensor.compute(), sp.open(tensor.path), pickle.loads(pickle.dumps(tensor)), sp.zeros_like(tensor)]
    for same in (*copies, tensor, tensor[:1], tensor.T, tensor * 2, sp.triu(tensor), tensor.sum(axis=0)):
        assert not any(map(is_given_name, same.dims)), same


def test_given_names_survive(tmp_path: Path) -> None:
    (tmp_path / "x.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 3\n")
    (tmp_path / "x.csv").write_text("src,dst,n\n0,1,2\n1,0,3\n")
    for named in (
        sp.ingest.mtx(tmp_path / "x.mtx", tmp_path / "a.sparrow", dims=["row", "col"]),
        sp.ingest.columns(tmp_path / "x.csv", tmp_path / "b.sparrow", coords=["src", "dst"], value="n"),
        sp.from_coords([[0], [1]], [1.0], (2, 2), dims=("src", "dst")).save(tmp_path / "c.sparrow"),
    ):
        assert named.path is not None
        for same in (named, sp.open(named.path), named[::-1], pickle.loads(pickle.dumps(named)), named * 2):
            with pytest.raises(LabelError, match="goes by position"):
                same + same.T


def test_older_stores_take_usual_names_as_assigned(web: sp.Tensor, tmp_path: Path) -> None:
    from sparrow.storage.parquet.layout import Metadata

    metadata = json.loads(Metadata(web.__sparrow_scan__().schema).to_json())
    assert metadata["assigned_dims"] == ["src", "dst"]
    for dims, expected in (
        (["src", "dst"], [False, False]),
        (["user", "col"], [True, False]),
        (["i", "j"], [True] * 2),
    ):
        old = {**metadata, "dims": dims}
        del old["assigned_dims"]
        assert list(map(is_given_name, Metadata.from_json(json.dumps(old), "x").schema.dims)) == expected
        new = {**metadata, "dims": dims, "assigned_dims": []}
        assert all(map(is_given_name, Metadata.from_json(json.dumps(new), "x").schema.dims))


def test_names_of_views_keep_their_kind() -> None:
    tensor = make(np.arange(9).reshape(3, 3))
    index = np.array([[0, 1], [2, 0]])
    for view in (tensor[index], tensor[:, index], tensor[None], tensor[..., None], tensor[0], sp.diagonal(tensor)):
        assert not any(map(is_given_name, view.dims))
    given_names = sp.from_coords([[0], [1]], [1], (2, 3), dims=tuple(map(str, tensor.dims)))
    assert all(map(is_given_name, given_names[::-1].dims))
    assert all(map(is_given_name, given_names.T.dims))
    assert not any(map(is_given_name, tensor[::-1].dims))
