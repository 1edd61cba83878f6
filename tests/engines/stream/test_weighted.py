"""Contraction of a tensor with several arrays in one pass, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.errors import TooLargeError
from sparrow.plan import make_dense_contraction, surviving_array_indices
from sparrow.runtime import settings
from tests.engines.helpers import at, memory, random_array, scan_of, stored_relation

SIZES = dict(zip("ijkrst", (6, 5, 4, 9, 2, 3), strict=True))
CASES = [
    "ijk,jr,kr->ir", "ijk,jr,kr->ri", "ijk,j,k->i", "ijk,jr,k->ir", "ijk,ir,jr,kr->", "ijk,jkr->ir", "ijk,kj->i",
    "ijk,jr,krs->irs", "ijk,jr,kr->kr", "ijk,jr,kr->r", "ijk,rjs,ks->sri", "ijk,jr,kr->ijr", "ij,jr->r", "ij,j->j",
    "i,ir,->r", "ijk,,i->k",
]  # fmt: skip


def parts(subscripts: str, dtype: Any = np.float64) -> tuple[list[tuple[int, ...]], tuple[int, ...], list[Any]]:
    """Return the indices of operands and result as numbers, and arrays that fit them."""
    before, out = subscripts.split("->")
    names = before.split(",")
    arrays = [random_array(tuple(SIZES[x] for x in own), dtype, seed, 0.5) for seed, own in enumerate(names)]
    return [tuple(map(ord, own)) for own in names], tuple(map(ord, out)), arrays


def node_of(subscripts: str, scan: Any, arrays: Any) -> Any:
    letters, out, _ = parts(subscripts)
    node = make_dense_contraction([scan, *arrays], letters, out)
    assert node is not None
    return node


@pytest.mark.parametrize("subscripts", CASES)
def test_engines_match_numpy(subscripts: str, engine: str) -> None:
    _, _, (dense, *arrays) = parts(subscripts)
    found = engines.evaluate_dense(node_of(subscripts, scan_of(memory(dense)), arrays), engine)
    wanted = np.einsum(subscripts, dense, *arrays)
    assert np.asarray(found).dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool"])
@pytest.mark.parametrize("subscripts", CASES)
def test_kernels_on_files_in_every_order(subscripts: str, dtype: str, tmp_path: Path) -> None:
    _, _, (dense, *arrays) = parts(subscripts, np.dtype(dtype))
    orders = [] if dense.ndim < 2 else [tuple(reversed(range(dense.ndim)))]
    relation = stored_relation(tmp_path / "A", dense, *orders)
    for key in (..., slice(4, None, -1), [2, 4, 1]):
        scan, seen = at(relation, key), dense[key]
        others = [
            array[key] if parts(subscripts)[0][k][:1] == (ord("i"),) else array for k, array in enumerate(arrays, 1)
        ]
        node = node_of(subscripts, scan, others)
        wanted = np.einsum(subscripts, seen, *others)
        for threads in (1, 2):
            with sp.config(threads=threads), sparrow.testing.strategy("numba"):
                np.testing.assert_array_equal(engines.evaluate_dense(node, "stream"), wanted)


@given(st.data())
def test_same_bits_with_any_thread_count(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    shape = tuple(rng.integers(1, 40, 3))
    cube = sp.asarray(rng.random(shape) * (rng.random(shape) < 0.3))
    factors = [rng.random((n, 11)) for n in shape[1:]]
    found = []
    for threads in (1, 2, 3):
        with sp.config(threads=threads), sparrow.testing.strategy("numba"):
            found.append(sp.einsum("ijk,jr,kr->ir", cube, *factors, optimize=[(0, 1, 2)]))
    assert {each.tobytes() for each in found} == {found[0].tobytes()}
    np.testing.assert_allclose(found[0], np.einsum("ijk,jr,kr->ir", cube.to_numpy(), *factors), rtol=1e-12)


def test_absent_elements_annihilate_and_integers_wrap() -> None:
    A = sp.asarray(np.array([[0, 100], [3, 0]], np.int8))
    x, y = np.array([1.0, 2.0]), np.array([np.nan, 5.0])
    np.testing.assert_array_equal(sp.einsum("ij,j,i->j", A, x, y), [15.0, np.nan])
    found = sp.einsum("ij,j,i->i", A, np.array([1, 2], np.int8), np.array([1, 1], np.int8))
    assert (found.dtype, found.tolist()) == (np.dtype(np.int8), [200 - 256, 3])


def test_infinities_across_chunks_do_not_warn(tmp_path: Path) -> None:
    dense = np.ones((1, 20))
    dense[0, 0], dense[0, -1] = np.inf, -np.inf
    node = node_of("ij,j->i", scan_of(stored_relation(tmp_path / "A", dense)), [np.ones(20)])
    with sparrow.testing.strategy("numba"):
        assert np.isnan(engines.evaluate_dense(node, "stream")).all()


def test_expression_is_read_by_partition() -> None:
    A = sp.random((30, 20, 10), nnz=500, seed=3)
    B, C = np.arange(40.0).reshape(20, 2), np.arange(20.0).reshape(10, 2)
    found = sp.einsum("ijk,jr,kr->ir", A * 2 + A, B, C)
    np.testing.assert_allclose(found, np.einsum("ijk,jr,kr->ir", 3 * A.to_numpy(), B, C), rtol=1e-12)
    with sp.explained(analyze=True) as plans:
        sp.einsum("ijk,jr,kr->ir", A, B, C)
    assert plans[-1].startswith("contraction ijk,jl,kl->il plus_times (d0: 30, d1: 2) float64")
    assert plans[-1].count("dense (") == 3  # two arrays and the result


def test_path_of_one_pass() -> None:
    A, B, C = sp.random((40, 30, 20), nnz=900, seed=4), np.ones((30, 4)), np.ones((20, 4))
    path, told = sp.einsum_path("ijk,jr,kr->ir", A, B, C)
    assert path == ["einsum_path", (0, 1, 2)]
    assert told.splitlines()[1] == "  ijk,jr,kr->ir: 7.2e+03 products, 160 elements"
    matrix, x, wide = sp.random((40, 3000), nnz=50_000, seed=5), np.ones(3000), np.ones((40, 500))
    assert sp.einsum_path("ij,j,ik->k", matrix, x, wide)[0] == ["einsum_path", (0, 1), (0, 1)]


def test_too_large_result_raises_before_reading() -> None:
    A = sp.random((2**30, 2**30, 4), nnz=10, seed=6)
    with settings.config(memory_limit="1GB"), pytest.raises(TooLargeError, match="multiply a part"):
        sp.einsum("ijk,kr->ijr", A, np.ones((4, 2)))


@pytest.mark.parametrize("subscripts", ["ij,jk->i", "ij,i,jr->r", "ijl,jk,lk->i"])
def test_tall_tensor_and_wide_array_fit_memory(subscripts: str) -> None:
    sizes = {"i": 2_000_000, "j": 30, "l": 20, "k": 200, "r": 200}  # i times k would be 3.2 GB
    shapes = [[sizes[x] for x in own] for own in subscripts.partition("->")[0].split(",")]
    A = sp.random(shapes[0], nnz=300, seed=7)
    others = [np.full(shape, 0.5) for shape in shapes[1:]]
    path = [(0, 1, 2)] if subscripts == "ij,i,jr->r" else "auto"
    with settings.config(memory_limit="200MB"):
        found = sp.einsum(subscripts, A, *others, optimize=path)
        total = float(found.sum())
    factor = {"ij,jk->i": 0.5 * 200, "ij,i,jr->r": 0.25 * 200, "ijl,jk,lk->i": 0.25 * 200}[subscripts]
    assert total == pytest.approx(float(A.sum()) * factor)


def test_dropped_axes_are_summed_first() -> None:
    A = np.array([[1, 0], [2, 3]], np.int8)
    B = np.full((2, 3), 100, np.uint8)
    found = sp.einsum("ij,jk->i", sp.asarray(A), B)
    wanted = np.einsum("ij,jk->i", A, B)
    assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
    node = make_dense_contraction([scan_of(memory(A)), B], [(0, 1), (1, 2)], (0,))
    assert node is not None
    assert (surviving_array_indices(node), node.operands[1].schema.shape) == (
        ((1,),),
        (2, 3),
    )  # when it runs, not when it is planned


@given(st.integers(0, 2**32), st.sampled_from(["numba", "numpy"]))
def test_infinite_elements_meet_every_value(seed: int, kernels: str) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.choice([0, 1, 2, -1, np.inf, -np.inf, np.nan], (4, 3), p=[0.6, 0.1, 0.1, 0.1, 0.04, 0.03, 0.03])
    x, y = rng.choice([0.0, 1, 2, -1], (3, 2)), rng.choice([0.0, 1, 2, 3], (4, 2))
    A = sp.asarray(dense)
    with sparrow.testing.strategy(kernels), np.errstate(all="ignore"):
        for subscripts, arrays in (("ij,jk->i", [x]), ("ij,jk->j", [x]), ("ij,jk,il->", [x, y])):
            inputs, out = subscripts.split("->")
            letters = "".join(dict.fromkeys(inputs.replace(",", "")))
            terms = np.einsum(f"{inputs}->{letters}", dense, *arrays)
            there = np.einsum(f"{inputs}->{letters}", dense != 0, *(np.ones(each.shape, bool) for each in arrays))
            gone = tuple(k for k, letter in enumerate(letters) if letter not in out)
            wanted = np.where(there, terms, 0).sum(axis=gone)
            np.testing.assert_array_equal(sp.einsum(subscripts, A, *arrays), wanted)
