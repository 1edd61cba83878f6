"""Products along dimensions whose labels mean different things."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import LabelError

PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda a, b: a @ b,
    "sp.matmul": sp.matmul,
    "semiring": lambda a, b: sp.matmul(a, b, semiring="min_plus"),
    "topk": lambda a, b: sp.matmul(a, b, topk=1),
    "einsum": lambda a, b: sp.einsum("ij,jk->ik", a, b),
    "three": lambda a, b: sp.einsum("ij,jk,kl->il", a, b, b.T),
    "tensordot": lambda a, b: sp.tensordot(a, b, axes=1),
    "np.dot": np.dot,
    "np.inner": lambda a, b: np.inner(a, b.T),
    "np.matmul": np.matmul,
    "gemm": lambda a, b: sp.blas.gemm(1.0, a, b),
    "gemv": lambda a, b: sp.blas.gemv(1.0, a, b[:, 0]),
    "vector": lambda a, b: a @ b[:, 0],
    "row": lambda a, b: b.T[0] @ a.T,
    "operator": lambda a, b: sp.linalg.aslinearoperator(a) @ b[:, 0],
    "solver": lambda a, b: sp.linalg.lsqr(a.T, b[:, 0]),
    "mask": lambda a, b: a[:, b[:, 0] > 0],
}


def make(n: int, m: int, users: list[Any], films: list[Any], dims: tuple[str, str] = ("user", "film")) -> sp.Tensor:
    dense = 1.0 + np.arange(n * m).reshape(n, m)
    return sp.asarray(dense, dims=dims, labels=dict(zip(dims, (users, films), strict=True)))


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("size", [2, 3])
def test_no_label_in_common(name: str, size: int) -> None:
    ratings = make(2, size, ["ann", "bob"], ["x", "y", "z"][:size])
    with pytest.raises(LabelError) as error:
        PRODUCTS[name](ratings, ratings)
    if name == "solver":
        assert "'ann'" in str(error.value)
        return
    for text in ("'film'", "'user'", "'x'", "'ann'", "no label in common, such as"):
        assert text in str(error.value) or name in ("operator", "mask", "vector")


@pytest.mark.parametrize("name", [name for name in PRODUCTS if name not in ("operator", "solver", "mask")])
def test_some_labels_in_common(name: str) -> None:
    ratings = make(2, 3, [1, 2], [1, 2, 7])
    with pytest.warns(UserWarning, match="2 of 3 labels of 'film' are among those of 'user'") as caught:
        PRODUCTS[name](ratings, ratings)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_one_label_in_common() -> None:
    ratings = make(2, 3, [1, 2], [2, 7, 9])
    with pytest.warns(UserWarning, match="1 of 3 labels of 'film' is among those of 'user'"):
        product = ratings @ ratings
    np.testing.assert_array_equal(product.to_numpy(), ratings.to_numpy()[:, :1] @ ratings.to_numpy()[1:])
    with pytest.warns(UserWarning, match="1 of 3 labels of 'film'"):
        ratings.T.T @ ratings


@pytest.mark.parametrize("join", ["inner", "outer", "left"])
def test_chosen_joins_do_not_warn(join: Any) -> None:
    ratings = make(2, 3, [1, 2], [1, 2, 7])
    with sp.config(join=join):
        assert (ratings @ ratings).shape == (2, 3)
    with sp.config(join="exact"), pytest.raises(LabelError, match="exact"):
        ratings @ ratings


@settings(max_examples=25)
@given(st.data())
def test_warnings_need_other_names_and_sizes(data: st.DataObject) -> None:
    names = st.sampled_from(["film", "item", "d0"])
    one, other = (data.draw(st.lists(st.integers(0, 5), min_size=1, unique=True), label="labels") for _ in range(2))
    first, second = data.draw(names), data.draw(names)
    a = make(1, len(one), ["u"], one, ("user", first))
    b = make(len(other), 1, other, ["c"], (second, "city"))
    common = set(one) & set(other)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if not common:
            with pytest.raises(LabelError, match="no label in common"):
                a @ b
            return
        product = a @ b
    warned = first != second and "d0" not in (first, second) and len(one) != len(other)
    assert len(caught) == warned
    expected = sum(a.to_numpy()[0, one.index(k)] * b.to_numpy()[other.index(k), 0] for k in common)
    assert product.to_numpy()[0, 0] == pytest.approx(expected)
    if warned:
        size = max(len(one), len(other))
        assert f"{len(common)} of {size} labels" in str(caught[0].message)


def test_graph_products_are_silent() -> None:
    web = make(3, 3, ["a", "b", "c"], ["a", "b", "c"], ("src", "dst"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (web @ web).shape == (3, 3)
        assert (web @ web[:, :2].T[:2].T).shape == (3, 2)
        assert (web @ web[:2].T).shape == (3, 2)


def test_graphs_of_other_labels() -> None:
    square = make(2, 2, ["ann", "bob"], ["x", "y"])
    for function in (sp.graph.pagerank, sp.graph.triangles, sp.graph.label_propagation, sp.graph.degrees):
        with pytest.raises(LabelError, match="same labels"):
            function(square)


def test_histories_of_other_items() -> None:
    rng = np.random.default_rng(0)
    dense = (rng.random((12, 6)) < 0.5) * 1.0
    ratings = sp.asarray(dense, dims=("user", "film"), labels={"film": list("abcdef")})
    model = sp.models.ALS(factors=2, epochs=1).fit(ratings)
    others = sp.asarray(dense[:2], dims=("user", "film"), labels={"film": list("uvwxyz")})
    for call in (model.fold_in, model.recommend):
        with pytest.raises(LabelError, match="no label in common, such as"):
            call(others)
