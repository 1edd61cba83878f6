"""Products of tensors on every engine, against NumPy and the plain twin."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import event
from numpy.typing import NDArray

import sparrow as sp
import sparrow.testing
from sparrow.core.indexing import Box
from sparrow.engines.stream import lower, scan_reader
from sparrow.engines.stream.block_buffer import BlockBuffer
from sparrow.engines.stream.product import layouts
from sparrow.errors import (
    InvalidValueError,
    ShapeError,
    StorageFallbackWarning,
    TooLargeError,
    UnsupportedError,
)
from sparrow.kernels import coo
from sparrow.plan import SEMIRINGS
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import memory
from tests.engines.conftest import ENGINES
from tests.engines.helpers import Counting, stored_relation
from tests.engines.test_parity import PLACES, Maker


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return Maker(tmp_path_factory.mktemp("products"))


@pytest.fixture
def small_partitions() -> Iterator[None]:
    with sparrow.testing.tune("product", partition_products=500):
        yield


def some(shape: tuple[int, ...], seed: int, dtype: Any = np.float64, density: float = 0.4) -> NDArray[Any]:
    """Return an array of small integers, mostly 0."""
    rng = np.random.default_rng(seed)
    return ((rng.random(shape) < density) * rng.integers(-4, 5, shape)).astype(dtype)


def agree(found: Any, wanted: Any) -> None:
    """Assert that a tensor equals an array."""
    assert isinstance(found, sp.Tensor)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-6)


DTYPES = st.sampled_from(["bool", "int8", "int32", "int64", "uint8", "uint64", "float32", "float64",
                          "complex128"])  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_matmul_matches_numpy(make: Maker, data: st.DataObject) -> None:
    n, k, m = (data.draw(st.integers(0, 9)) for _ in range(3))
    seed = data.draw(st.integers(0, 99))
    left, right = (data.draw(DTYPES) for _ in range(2))
    a, b = some((n, k), seed, left), some((k, m), seed + 1, right)
    if np.result_type(a, b).kind == "f":  # 2^64 - 4, which a wrapped -4 is, leaves nothing of small numbers in a sum
        a, b = (each % 5 if each.dtype.kind == "u" else each for each in (a, b))
    A, B = (make(each, 0, data.draw(PLACES)) for each in (a, b))
    product: Any = A @ B
    with np.errstate(all="ignore"):
        wanted = a @ b
    agree(product.compute(data.draw(st.sampled_from(ENGINES))), wanted)
    agree(product.T, wanted.T)
    agree(product[::-1, 1:], wanted[::-1, 1:])
    assert product.nnz == np.count_nonzero(wanted)
    if n and m:
        agree(product[n - 1], wanted[n - 1])
        agree(product[:, m // 2], wanted[:, m // 2])
        assert product[0, m - 1] == wanted[0, m - 1]
        if wanted.dtype.kind != "b":
            most = np.abs(wanted).sum(dtype=float)  # sums are to rounding: large ones that cancel leave what they may
            found = product.sum(axis=0).to_numpy()
            np.testing.assert_allclose(found, wanted.sum(axis=0), rtol=1e-6, atol=1e-12 * most)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_semirings_and_masks_match_other_engines(make: Maker, data: st.DataObject) -> None:
    shape = data.draw(st.tuples(*[st.integers(1, 7)] * 3))
    seed = data.draw(st.integers(0, 99))
    semiring = data.draw(st.sampled_from(sorted(SEMIRINGS)))
    kinds = ["bool", "int32", "int64"]  # each dtype and semiring compiles a kernel
    if semiring in ("plus_times", "min_plus"):
        kinds += ["uint64", "float64"]
    left, right = (data.draw(st.sampled_from(kinds)) for _ in range(2))
    if semiring == "any_pair":
        right = left
    fills = (0, 0) if semiring == "plus_times" else (data.draw(st.sampled_from([0, 1])), 0)
    a, b = some(shape[:2], seed, left), some(shape[1:], seed + 1, right)
    A, B = (make(each, fill, data.draw(PLACES)) for each, fill in zip((a, b), fills, strict=True))
    masked = data.draw(st.sampled_from([None, False, True]))
    mask = make(some((shape[0], shape[2]), seed + 2, "int64"), 0, data.draw(PLACES))
    options: dict[str, Any] = {} if masked is None else {"mask": mask, "complement": masked}
    product = sp.matmul(A, B, semiring=semiring, **options)
    found = product.compute()
    for engine in ENGINES:
        other = product.compute(engine)
        assert other.dtype == found.dtype
        np.testing.assert_allclose(other.to_numpy(), found.to_numpy(), rtol=1e-6)
        assert other.nnz == found.nnz


def test_min_plus_shortest_paths() -> None:
    inf = np.inf
    d = np.array([[inf, 1, 5], [inf, inf, 2], [0, inf, inf]])  # a stored 0 is a step that costs nothing
    D = sp.from_coords([[0, 0, 1, 2], [1, 2, 2, 0]], [1.0, 5, 2, 0], shape=(3, 3), fill_value=inf)
    found = sp.matmul(D, D, semiring="min_plus")
    assert found.fill_value == inf
    np.testing.assert_array_equal(found.to_numpy(), (d[:, :, None] + d[None, :, :]).min(axis=1))


def test_semiring_identity_is_the_fill() -> None:
    five = sp.Semiring("plus", "times", 5)
    A = sp.asarray([[1.0, 0], [0, 0]])
    assert sp.matmul(A, sp.asarray(np.eye(2)), semiring=five).to_numpy().tolist() == [[1, 5], [5, 5]]
    assert sp.matmul(A, np.eye(2), semiring=five).tolist() == [[1, 0], [5, 5]]  # each cell of an array is an entry


def test_user_semiring() -> None:
    a, b = some((6, 5), 1, "int64", 0.6), some((5, 7), 2, "int64", 0.6)
    A, B = sp.asarray(a), sp.asarray(b)
    widest = sp.Semiring("max", "min", -99, name="widest")
    found = sp.matmul(A, B, semiring=widest)
    pairs = np.where((a[:, :, None] != 0) & (b[None] != 0), np.minimum(a[:, :, None], b[None]), -99)
    np.testing.assert_array_equal(found.to_numpy(), pairs.max(axis=1))
    assert "contraction ij,jk->ik widest" in found.explain()
    minus = sp.Semiring(np.add, lambda x, y: x - y, 0)
    differences = np.where((a[:, :, None] != 0) & (b[None] != 0), a[:, :, None] - b[None], 0).sum(axis=1)
    product = sp.matmul(A, B, semiring=minus)
    np.testing.assert_array_equal(product.to_numpy(), differences)
    np.testing.assert_array_equal(product.T.to_numpy(), differences.T)  # the other operand is that of rows
    np.testing.assert_array_equal(product.compute("duckdb").to_numpy(), differences)


def test_user_functions_share_kernels() -> None:
    A, B = (sp.asarray(some((6, 6), seed, "int64", 0.6)) for seed in (1, 2))
    sp.matmul(A, B, semiring=sp.Semiring("plus", lambda x, y: x - y, 0)).compute()
    with event.install_recorder("numba:compile") as compiled:
        sp.matmul(A, B, semiring=sp.Semiring(np.maximum, lambda x, y: x + 2 * y, -99)).compute()
    names = {what.data["dispatcher"].py_func.__name__ for _, what in compiled.buffer}
    assert names
    assert not names & {"rows", "masked_rows"}


def test_user_function_error_propagates() -> None:
    A = sp.asarray(np.array([[2, 3]]))
    B = sp.from_coords([[0, 1], [0, 0]], [0, 1], shape=(2, 1), fill_value=1)
    with pytest.raises(ZeroDivisionError):
        sp.matmul(A, B, semiring=sp.Semiring("plus", lambda x, y: x // y, 0)).compute()


def test_elementwise_products_infer_stype(recwarn: pytest.WarningsRecorder) -> None:
    dense = some((4, 4), 3)
    for stype in ("coo", "csr", "csc", "row_sparse", "dense"):
        A: Any = sp.asarray(dense).asformat(stype)
        row = np.arange(4.0)
        for found, wanted in (
            (sp.einsum("ij,ij->ij", A, A), A * A),
            (sp.einsum("ij,j->ij", A, row), A * row),
            (sp.einsum("j,ij->ij", row, A), row * A),
            (sp.sddmm(A, dense, dense), A * (dense @ dense)),
        ):
            assert found.stype == wanted.stype
            np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy())
    assert not [warning for warning in recwarn if issubclass(warning.category, StorageFallbackWarning)]


def test_absent_elements_annihilate() -> None:
    a = np.array([[np.nan, 0.0, np.inf], [0.0, 2.0, 0.0]])
    b = np.array([[0.0, 1.0], [3.0, 0.0], [0.0, -np.inf]])
    found = (sp.asarray(a) @ sp.asarray(b)).to_numpy()
    np.testing.assert_array_equal(found, [[0, np.nan], [6, 0]])


def test_cancelled_sums_are_not_stored() -> None:
    A = sp.asarray([[1.0, 1.0]])
    B = sp.asarray([[2.0, 3.0], [-2.0, 4.0]])
    assert (A @ B).nnz == 1
    wrapped = sp.asarray(np.array([[16, 0]], np.uint8)) @ sp.asarray(np.array([[16, 1], [0, 0]], np.uint8))
    assert wrapped.compute().nnz == 1


@pytest.mark.parametrize("partition_products", [500, 20])
def test_csr_output_of_two_row_axes_in_short_partitions(partition_products: int) -> None:
    cube, b = some((6, 30, 20), 71, density=0.2), some((20, 15), 72)
    cube[3], cube[5, 2:] = 0, 0
    tuned = sparrow.testing.tune("product", partition_products=partition_products)
    with tuned, sparrow.testing.observe("product.csr_output") as partitions:
        agree(sp.einsum("ijk,kl->ijl", sp.asarray(cube), sp.asarray(b)).compute(), cube @ b)
    assert partitions
    assert {details["row_axes"] for _, details in partitions} == {2 if partition_products == 500 else 0}


@pytest.mark.parametrize("limit", [0, 16, 256])
@pytest.mark.parametrize("width", [50, 5000, 2**40])
def test_rows_of_any_length_match_scipy(limit: int, width: int) -> None:
    rng = np.random.default_rng(limit + width % 1000)
    heavy = rng.integers(0, 60, 900)
    a = scipy.sparse.coo_array((rng.standard_normal(900), (rng.integers(0, 40, 900) ** 2 % 37, heavy)), (40, 60))
    columns = rng.integers(0, min(width, 3000), 2000)
    b = scipy.sparse.coo_array((rng.standard_normal(2000), (rng.integers(0, 60, 2000), columns)), (60, 3000))
    A = sp.asarray(a.tocsr())
    spread = width // 3000 if width > 3000 else 1
    b.sum_duplicates()
    places = [b.coords[0], b.coords[1].astype(np.int64) * spread]
    wide = sp.from_coords(places, b.data, shape=(60, max(width, 3000)))
    with sparrow.testing.tune("product", gather_limit=limit, partition_products=500):
        found = (A @ wide).compute()
    wanted = (a.tocsr() @ b.tocsr()).toarray()
    rows, at = sp.nonzero(found)
    np.testing.assert_array_equal(at % spread, 0)
    np.testing.assert_allclose(
        scipy.sparse.coo_array((found.to_arrow()["value"], (rows, at // spread)), (40, 3000)).toarray(), wanted,
        atol=1e-12,
    )  # fmt: skip


@pytest.mark.parametrize(("semiring", "dtype"), [("plus_times", "float64"), ("min_plus", "float64"),
                                                  ("plus_times", "int64"), ("min_plus", "int64")])  # fmt: skip
def test_accumulators_give_the_same_rows(semiring: Any, dtype: str) -> None:
    rng = np.random.default_rng(8)
    a, b = some((30, 20), 31, dtype, 0.8), some((20, 40), 32, dtype, 0.6)
    wide = np.zeros((20, 4000), dtype)
    wide[:, np.sort(rng.choice(4000, 40, replace=False))] = b
    if dtype == "float64":
        for each in (a, b, wide):
            at = tuple(rng.integers(0, n, 4) for n in each.shape)
            each[at] = [np.nan, np.inf, -np.inf, 1e308]
    for right in (b, wide):  # few columns per product, and many
        found = []
        for limit in (256, 0):
            with sparrow.testing.tune("product", gather_limit=limit):
                product = sp.matmul(sp.asarray(a), sp.asarray(right), semiring=semiring).compute()
            found.append(product.to_arrow())
        for gathered, added in zip(*(table.columns for table in found), strict=True):
            np.testing.assert_array_equal(gathered.to_numpy(), added.to_numpy())
        np.testing.assert_array_equal(product.to_numpy(), product_of(a, right, semiring))


def product_of(a: NDArray[Any], b: NDArray[Any], semiring: str) -> NDArray[Any]:
    """Return the product of arrays whose zeros are absent, step by step."""
    plain = semiring == "plus_times"
    fill: Any = 0 if plain else np.inf if a.dtype.kind == "f" else np.iinfo(a.dtype).max
    out = np.full((len(a), b.shape[1]), fill, a.dtype)
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            both = (a[:, k, None] != 0) & (b[None, k] != 0)
            step = a[:, k, None] * b[None, k] if plain else a[:, k, None] + b[None, k]
            np.copyto(out, out + step if plain else np.minimum(out, step), where=both)
    return out


def test_sparse_ids_up_to_2_to_the_40() -> None:
    n = 2**40
    rng = np.random.default_rng(5)
    ids = np.unique(rng.integers(0, n, 300))
    i, j = rng.integers(0, len(ids), (2, 2000))
    A = sp.from_coords([ids[i], ids[j]], np.ones(2000), shape=(n, n), duplicates="sum")
    small = scipy.sparse.coo_array((np.ones(2000), (i, j)), (len(ids), len(ids))).tocsr()
    with sp.config(memory_limit="50MB"):
        found = (A @ A).compute()
        masked = sp.matmul(A, A, mask=A).compute()
    rows, columns = sp.nonzero(found)
    wanted = (small @ small).tocoo()
    assert found.shape == (n, n)
    order = np.lexsort((wanted.col, wanted.row))
    np.testing.assert_array_equal(rows, ids[wanted.row[order]])
    np.testing.assert_array_equal(columns, ids[wanted.col[order]])
    np.testing.assert_array_equal(found.to_arrow()["value"], wanted.data[order])
    assert masked.nnz == (small @ small).multiply(small != 0).nnz


def test_same_bits_with_any_thread_count(tmp_path: Path) -> None:
    A = sp.random((400, 400), nnz=6000, seed=1, distribution="powerlaw")
    saved = A.save(tmp_path / "a")
    with sparrow.testing.tune("product", partition_products=2000):
        with sp.config(threads=1):
            one = (A @ A).compute().to_arrow()
        with sp.config(threads=3):
            several = (A @ A).compute().to_arrow()
    with sparrow.testing.tune("product", partition_products=10**9, lhs_layout="row_blocks"):
        with sparrow.testing.observe("product.tiling") as tilings:
            streamed = (saved @ A).compute().to_arrow()
        assert [(details["tiling"], details["is_lhs_held"]) for _, details in tilings] == [("whole", False)]
    assert one.equals(several)
    assert one.equals(streamed)


def test_reductions_have_same_bits_with_any_thread_count() -> None:
    A = sp.random((400, 400), nnz=6000, seed=1, distribution="powerlaw")
    found = []
    for threads in (1, 2, 4, 6):
        partitions = sparrow.testing.tune("product", min_partition_products=1, product_bytes=100_000)
        with sp.config(threads=threads, memory_limit=300_000_000), partitions:  # of some hundred products
            sums = (A @ A * A).sum(), sp.matmul(A, A, mask=A).sum(), np.sin(A @ A).sum(), (A @ A).std()
            rows = np.sin(A @ A).sum(0), sp.matmul(A, A, mask=A, complement=True).sum(0)
            found.append([np.asarray(each).tobytes() for each in (*sums, *(row.to_numpy() for row in rows))])
    assert all(each == found[0] for each in found)


def test_row_subset_of_memory_operand_not_copied() -> None:
    rows = np.repeat(np.arange(10), 200_000)
    B = sp.from_coords([rows, np.tile(np.arange(200_000) + 1, 10)], np.ones(len(rows)), shape=(10, 200_001))
    A, cell = sp.asarray(np.ones((1, 10))), sp.from_coords([[0], [7]], [1.0], shape=(1, 200_001))
    with sp.config(memory_limit=memory.limit() - memory.available() + 20_000_000):
        assert sp.matmul(A, B, mask=cell).sum() == B[:, 7].sum()


def test_product_in_expressions(tmp_path: Path) -> None:
    a, b = some((8, 6), 3), some((6, 8), 4)
    A, B = sp.asarray(a), sp.asarray(b)
    product = A @ B
    c = a @ b
    agree(product @ product + product * 2, c @ c + c * 2)
    agree(product.save(tmp_path / "c"), c)
    np.testing.assert_array_equal(product.to_scipy("csr").toarray(), c)
    assert float(product.max()) == c.max()
    assert sp.sql("select count(*) from C", C=product).fetchall() == [(np.count_nonzero(c),)]
    both = sp.compute(product, product.sum(axis=1))
    agree(both[0], c)
    agree(both[1], c.sum(axis=1))
    np.testing.assert_array_equal(product @ np.ones(8), c @ np.ones(8))


def test_stacks_and_vectors() -> None:
    a, b = some((2, 1, 3, 4), 5), some((3, 4, 2), 6)
    A, B = sp.asarray(a), sp.asarray(b)
    agree(A @ B, a @ b)
    agree(B @ A[0, 0, 0:2], b @ a[0, 0, 0:2])
    agree(A[0, 0] @ B[0, :, 0], a[0, 0] @ b[0, :, 0])
    agree(B[0, :, 0] @ A[0, 0].T, b[0, :, 0] @ a[0, 0].T)
    assert A[0, 0, 0] @ B[0, :, 0] == a[0, 0, 0] @ b[0, :, 0]
    np.testing.assert_array_equal(A @ b, a @ b)
    np.testing.assert_array_equal(b @ A[0, 0, 0:2], b @ a[0, 0, 0:2])


def test_result_keeps_names_and_labels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,film,stars\nada,up,4\nbob,up,3\nbob,it,1\n")
    (tmp_path / "b.csv").write_text("film,genre,share\nup,drama,2\nup,comedy,1\nse7en,crime,9\n")
    options: dict[str, Any] = {"duplicates": "sum"}
    A = sp.ingest.columns(tmp_path / "a.csv", tmp_path / "a", coords=["user", "film"], value="stars", **options)
    B = sp.ingest.columns(tmp_path / "b.csv", tmp_path / "b", coords=["film", "genre"], value="share", **options)
    product = A @ B  # films in common are matched by their names
    assert product.dims == ("user", "genre")
    wanted = {("ada", "drama"): 8, ("ada", "comedy"): 4, ("bob", "drama"): 6, ("bob", "comedy"): 3}
    users, genres = (product.labels(dim).to_pylist() for dim in product.dims)
    rows, columns = sp.nonzero(product)
    cells = zip(rows, columns, product.compute().to_arrow()["value"].to_pylist(), strict=True)
    assert {(users[i], genres[j]): value for i, j, value in cells} == wanted
    saved = product.save(tmp_path / "c")
    assert saved.labels("user").to_pylist() == users
    assert (A @ A.T).dims == ("d0", "d1")
    assert (A @ A.T).labels(0).to_pylist() == users


def test_user_functions_need_columns_to_spill(tmp_path: Path) -> None:
    A = sp.random((100_000, 100_000), nnz=600_000, seed=3).save(tmp_path / "a")
    widest = sp.Semiring(max, "min", 0)  # sums of panels are added up by names
    B = sp.random((100_000, 100_000), nnz=600_000, seed=4).save(tmp_path / "b")
    rows = sp.einsum("ij,ij->i", A, B, semiring=widest).compute().to_arrow()
    with sp.config(memory_limit=4_000_000):
        assert sp.einsum("ij,ij->i", A, B, semiring=widest).compute().to_arrow().equals(rows)
        with pytest.raises(TooLargeError, match="right operand of a product"):  # no row divides it
            sp.einsum("ij,ij->", A, B, semiring=widest)
    held = sp.matmul(A[:20_000], A, semiring=widest).compute().to_arrow()
    with sp.config(memory_limit=4_000_000):
        assert (A[:50] @ A[:, :10]).nnz >= 0
        found = sp.matmul(A[:20_000], A, semiring=widest).save(tmp_path / "c")
    assert found.compute().to_arrow().equals(held)


def test_elementwise_factor_becomes_mask() -> None:
    a = some((9, 9), 11)
    A = sp.asarray(a)
    thin = A @ A * A
    assert thin.explain().count("  mask  ") == 1
    agree(thin, (a @ a) * a)
    assert float(thin.sum()) == ((a @ a) * a).sum()
    agree((A * (A @ A.T))[1:, ::2], (a * (a @ a.T))[1:, ::2])
    whole = A @ A
    twice = whole * A + whole  # all of it is wanted
    assert "  mask  " not in twice.explain()
    agree(twice, (a @ a) * a + a @ a)


def test_indexed_product_reads_needed_rows(tmp_path: Path) -> None:
    a = np.triu(some((90, 90), 12), 0)
    relation = Counting(stored_relation(tmp_path / "a", a))
    A = sp.Tensor(relation)
    agree((A @ A)[88], (a @ a)[88])
    agree((A @ A)[87:89], (a @ a)[87:89])
    chunks = len(relation.chunks(Box.from_shape((90, 90))))
    assert relation.reads < chunks // 10
    agree((A.T @ A[:, :1])[:, 0], (a.T @ a[:, :1])[:, 0])


def test_explain_shows_product() -> None:
    A = sp.asarray(some((4, 4), 7))
    told = sp.matmul(A, A, semiring="min_plus", mask=A, complement=True).explain()
    assert "contraction ij,jk->ik min_plus (d0: 4, d1: 4) float64" in told
    assert "only where it has no element" in told


def test_invalid_operands_raise() -> None:
    A, B = sp.asarray(some((3, 4), 8)), sp.asarray(some((5, 2), 9))
    with pytest.raises(ShapeError, match=r"dimension 1 \('d1', size 4\) of the left operand is not dimension 0"):
        A @ B
    with pytest.raises(ShapeError, match=r"mask has shape \(3, 4\), expected \(3, 3\)"):
        sp.matmul(A, A.T, mask=A)
    with pytest.raises(InvalidValueError, match=r"one of 'plus_times'.*sp\.Semiring"):
        sp.matmul(A, A.T, semiring="plus")
    with pytest.raises(InvalidValueError, match="no identity"):
        sp.matmul(A, A.T, semiring=sp.Semiring(np.hypot, "times", None))
    reasons: dict[str, Any] = {
        r"two float64: \w": lambda x, y: min([x, y], key=str),
        "Unknown attribute 'size'": lambda x, y: x.size + y,
        "cannot safely cast float64 to int64": lambda x, y: {1: 2}.get(int(x), y),
    }
    for reason, strange in reasons.items():
        with pytest.raises(InvalidValueError, match=f"must compile with Numba, got .*{reason}"):
            sp.matmul(A, A.T, semiring=sp.Semiring(strange, "times", 0)).compute()
    with pytest.raises(InvalidValueError, match="complement=True requires mask="):
        sp.matmul(A, A.T, complement=True)
    with pytest.raises(InvalidValueError, match=r"add must be a function .* got 'mean'"):
        sp.Semiring("mean", "times", 0)
    with pytest.raises(UnsupportedError, match=r"absent elements of the left operand are 1\.0.*refill\(0\)"):
        np.exp(A) @ A.T
    with pytest.raises(UnsupportedError, match="mask must be a tensor"):
        sp.matmul(A, A.T, mask=np.ones((3, 3)))
    with pytest.raises(UnsupportedError, match="no order"):
        sp.matmul(A.astype("complex64"), A.T, semiring="min_plus")
    with pytest.raises(ShapeError, match="do not broadcast along leading"):
        sp.zeros((2, 3, 4)) @ sp.zeros((3, 4, 5))


def test_stype_of_result() -> None:
    A = sp.asarray(some((4, 4), 10)).asformat("csr")
    with pytest.warns(StorageFallbackWarning, match="dot of csr, csr"):
        assert (A @ A).stype == "dense"
    assert sp.matmul(A, A, stype="csr").stype == "csr"
    found = sp.matmul(A.T, np.eye(4), stype="row_sparse")
    assert found.stype == "row_sparse"
    np.testing.assert_array_equal(found.to_numpy(), A.T.to_numpy())


@pytest.mark.parametrize("cells", [40, 4000])
@pytest.mark.usefixtures("small_partitions")
def test_masks_match_scipy(cells: int) -> None:
    rng = np.random.default_rng(cells)
    a, b, m = (
        scipy.sparse.coo_array(
            (rng.integers(1, 9, n).astype(float), (rng.integers(0, rows, n) ** 2 % rows, rng.integers(0, columns, n))),
            (rows, columns),
        ).tocsr()
        for n, rows, columns in [(900, 41, 60), (9000, 60, 1500), (cells, 41, 1500)]
    )
    A, B, M = map(sp.asarray, (a, b, m))
    inside = ((a @ b).multiply(m != 0)).toarray()
    with sp.config(threads=3):
        agree(sp.matmul(A, B, mask=M), inside)
        agree(sp.matmul(A, B, mask=M, complement=True), (a @ b).toarray() - inside)
        agree(M * (A @ B), inside * m.toarray())
        agree((A @ B * M).T, (inside * m.toarray()).T)
        assert float((A @ B * M).sum()) == (inside * m.toarray()).sum()
    wide = sp.from_coords(np.stack([sp.nonzero(M)[0], sp.nonzero(M)[1] * 2**30]), np.ones(M.nnz), shape=(41, 2**41))
    high = sp.from_coords(np.stack([sp.nonzero(B)[0], sp.nonzero(B)[1] * 2**30]), b.data, shape=(60, 2**41))
    found = sp.matmul(A, high, mask=wide).compute()
    assert found.to_arrow()["value"].to_pylist() == inside[inside != 0].tolist()


@pytest.fixture
def gather_limit(request: pytest.FixtureRequest) -> Iterator[int]:
    with sparrow.testing.tune("product", gather_limit=request.param):
        yield request.param


@pytest.mark.parametrize("gather_limit", [0, 16, 256], indirect=True)
@pytest.mark.parametrize("semiring", ["plus_times", "min_plus", "or_and", "any_pair", "own"])
def test_complement_mask_keeps_other_elements(gather_limit: int, semiring: str) -> None:
    chosen: Any = sp.Semiring(np.maximum, lambda x, y: x + 2 * y, -99) if semiring == "own" else semiring
    rng = np.random.default_rng(gather_limit)
    a = some((40, 30), 51, "int64", 0.3)
    a[5], a[6:9, 1:] = 0, 0  # rows of nothing and of one entry
    for width in (60, 3000):  # rows that are looked through, and marked
        b = np.zeros((30, width), "int64")
        b[:, rng.choice(width, 50, replace=False)] = some((30, 50), 52, "int64", 0.5)
        A, B = sp.asarray(a), sp.asarray(b)
        every = sp.matmul(A, B, semiring=chosen).compute().to_arrow()
        at = np.stack([every[dim].to_numpy() for dim in ("d0", "d1")])
        for kept in (0.5, 0.02, 1):  # share of the product's elements in the mask
            m = rng.random((40, width)) < (0.9 if kept == 1 else 0.1)
            m[tuple(at[:, rng.random(at.shape[1]) < kept])] = True
            m[::7] = False
            found = sp.matmul(A, B, semiring=chosen, mask=sp.asarray(m), complement=True)
            assert found.compute().to_arrow().equals(every.filter(pa.array(~m[tuple(at)])))


@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.usefixtures("small_partitions")
def test_mask_of_few_rows_limits_partitions(tmp_path: Path, place: str) -> None:
    A = sp.random((400, 300), nnz=8000, seed=1)
    B = sp.random((300, 400), nnz=8000, seed=2)
    a, b = A.to_scipy("csr"), B.to_scipy("csr")
    if place == "disk":
        A, B = A.save(tmp_path / "a"), B.save(tmp_path / "b")
    M = sp.from_coords([[7, 7, 200, 399], [1, 350, 9, 0]], np.ones(4), shape=(400, 400))
    m = M.to_scipy("csr")
    with sparrow.testing.observe("product.partition") as partitions:
        agree(sp.matmul(A, B, mask=M).compute(), (a @ b).multiply(m).toarray())
        assert 0 < len(partitions) <= 8
        agree(sp.matmul(A, B, mask=M > 0).compute(), (a @ b).multiply(m).toarray())
        assert len(partitions) <= 16
    agree(sp.matmul(A, B, mask=M, complement=True), (a @ b).toarray() * (m.toarray() == 0))
    agree(sp.matmul(B.T, A.T, mask=M.T), (a @ b).multiply(m).toarray().T)
    agree(sp.matmul(A, B, mask=sp.zeros((400, 400))), np.zeros((400, 400)))


@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.usefixtures("small_partitions")
def test_sum_at_mask_is_computed_by_the_kernel(tmp_path: Path, place: str, dtype: str) -> None:
    with sparrow.testing.strategy(*(["streamed_lhs"] if place == "disk" else [])):
        check_sums_at_mask(tmp_path, place, dtype)


def check_sums_at_mask(tmp_path: Path, place: str, dtype: str) -> None:
    a, b, m = some((60, 50), 21, dtype), some((50, 700), 22, dtype), some((60, 700), 23, dtype, 0.004)
    A, B, M = (sp.asarray(each) for each in (a, b, m))
    if place == "disk":
        A, B, M = (each.save(tmp_path / str(k)) for k, each in enumerate((A, B, M)))
    inside = (a @ b) * (m != 0)
    with sparrow.testing.observe("product.sum") as sums:
        for compute, wanted in [
            (sp.matmul(A, B, mask=M).sum, inside.sum()),
            ((A @ B * M).sum, (inside * m).sum()),
            ((M * (A @ B)).sum, (inside * m).sum()),
            (sp.matmul(A, B, mask=sp.zeros(m.shape)).sum, 0),
        ]:
            found = compute()
            assert (found, found.dtype) == (wanted, dtype)
            assert sums.pop()[1]["is_computed"]
        small = [each.astype("int8") for each in (A, B, M)]
        assert sp.matmul(A, B, mask=M, complement=True).sum() == (a @ b).sum() - inside.sum()
        assert (small[0] @ small[1] * small[2]).sum() == (inside * m).astype("int8").sum()
        assert not any(details["is_computed"] for _, details in sums)


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.usefixtures("small_partitions")
@sparrow.testing.strategy("numba")
def test_masked_dot_has_the_bits_of_gustavson(tmp_path: Path, dtype: str, place: str) -> None:
    rng = np.random.default_rng(17)
    shape = (60, 900)
    a, b = some(shape, 41, dtype, 0.3), some(shape[::-1], 42, dtype, 0.2)
    if dtype == "float64":
        a, b = a * rng.random(a.shape), b * rng.random(b.shape)
    a[3], b[:, 5] = 0, 0
    a[4, 7:], b[3:, 8] = 0, 0  # one side is much longer than the other
    m = np.zeros((60, 60), dtype)
    m[np.arange(60), rng.integers(0, 60, 60)] = 1
    m[4:9, 4:9] = 2
    A, B, M = (sp.asarray(each) for each in (a, b, m))
    if place == "disk":
        A, B, M = (each.save(tmp_path / str(k)) for k, each in enumerate((A, B, M)))
    products: list[Callable[[], Any]] = [lambda: sp.matmul(A, B, mask=M), lambda: sp.matmul(B.T, A.T, mask=M.T).T]
    with sparrow.testing.observe("product.masked") as masked:
        found = [product().to_numpy() for product in products]
    assert any(details["dots"] for _, details in masked)
    few = np.flatnonzero(m[4])
    np.testing.assert_allclose(found[0][4, few], (a @ b)[4, few])
    for way in ("masked_rows", "masked_dot"):
        for mine, product in zip(found, products, strict=True):
            np.testing.assert_allclose(mine, (a @ b) * (m != 0), rtol=1e-12, atol=1e-12)
            with sparrow.testing.strategy(way), sparrow.testing.observe("product.masked") as masked:
                np.testing.assert_array_equal(mine, product().to_numpy())
            assert {details["dots"] for _, details in masked} == ({True} if way == "masked_dot" else set())


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.usefixtures("small_partitions")
def test_mask_that_is_the_left_operand(dtype: str, tmp_path: Path) -> None:
    a, b = some((40, 40), 3, dtype, 0.2), some((40, 40), 4, dtype, 0.3)
    a[7], b[9] = 0, 0
    B = sp.asarray(b)
    for A in (sp.asarray(a), sp.asarray(a).save(tmp_path / "A")):
        for right, dense in ((A, a), (B, b)):
            product = a @ dense
            with sparrow.testing.observe("product.own_mask") as own:
                agree(A @ right * A, product * a)
                agree(sp.matmul(A, right, mask=A), product * (a != 0))
                agree(sp.matmul(A, right, mask=A, complement=True), product * (a == 0))
                assert (A @ right * A).sum() == (product * a).sum()
                assert sp.matmul(A, right, mask=A).sum() == product[a != 0].sum()
                assert sp.matmul(A[5:30], right, mask=A[5:30]).sum() == product[5:30][a[5:30] != 0].sum()
            assert len(own) > 5
            with sparrow.testing.observe("product.own_mask") as own:
                agree(A @ right * A.T.rename(d0="d1", d1="d0"), product * a.T)
                agree(sp.einsum("ij,jk->ki", A, right, mask=A), product.T * (a != 0))
            assert not own


def test_sum_at_mask_ignores_other_elements() -> None:
    a = np.array([[1.0, 2.0], [1.0, -1.0], [3.0, 0.0]])
    b = np.array([[1.0, np.inf, 2.0], [4.0, np.nan, 2.0]])
    A, B = sp.asarray(a), sp.asarray(b)
    m = np.array([[1.0, 0, 2.0], [5.0, 0, np.inf], [0, 0, 1.0]])  # where 1 * 2 - 1 * 2 is no entry
    M = sp.asarray(m)
    assert sp.matmul(A, B, mask=M).sum() == 9 + 6 - 3 + 0 + 6
    assert (A @ B * M).sum() == 9 + 12 - 15 + 6
    assert np.isnan((A @ B * sp.asarray(np.ones((3, 3)))).sum())


@pytest.mark.usefixtures("small_partitions")
def test_sum_at_mask_same_bits_with_any_thread_count() -> None:
    A = sp.random((400, 400), nnz=6000, seed=1, distribution="powerlaw")
    found = []
    for threads in (1, 3):
        with sp.config(threads=threads):
            found.append(float((A @ A * A).sum()))
    assert found[0] == found[1]
    a = A.to_scipy("csr")
    assert np.isclose(found[0], (a @ a).multiply(a).sum())


def test_element_of_expression_using_product_twice(tmp_path: Path) -> None:
    a, b, c = some((6, 7), 0), some((7, 6), 1), some((6, 6), 2)
    A, B, C = (sp.asarray(each).save(tmp_path / str(number)) for number, each in enumerate((a, b, c)))
    product = A @ B
    for cell in np.ndindex(6, 6):
        assert sp.where(product > 1, product, C)[cell] == np.where(a @ b > 1, a @ b, c)[cell]


def test_product_with_array_is_dense() -> None:
    A = sp.from_coords([[0], [1], [2]], [5.0], shape=(2, 3, 4), fill_value=2.0)
    dense, x = A.to_numpy(), np.arange(12.0).reshape(4, 3)
    for found, wanted in (
        (A @ x, dense @ x),
        (A @ x[:, 0], dense @ x[:, 0]),
        (x @ A, x @ dense),
        (sp.tensordot(A, x.reshape(3, 4)), np.tensordot(dense, x.reshape(3, 4))),
        (sp.einsum("ijk,lk->ij", A, x.T), np.einsum("ijk,lk->ij", dense, x.T)),
    ):
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    v = sp.asarray([1.0, 2.0, 0.0]).refill(4.0)
    assert v @ v == sp.einsum("i,i->", v, v) == 5  # a scalar has no absent elements
    with pytest.raises(UnsupportedError, match="absent elements of the left operand"):
        np.exp(sp.zeros((2**20, 2**20, 3))) @ np.ones(3)


def test_boolean_and_scipy_masks() -> None:
    dense = some((5, 6), 3)
    A, wanted = sp.asarray(dense), dense @ dense.T
    M = some((5, 5), 4)
    for mask in (M != 0, scipy.sparse.csr_array(M), sp.asarray(M)):
        assert np.array_equal(sp.matmul(A, A.T, mask=mask).to_numpy(), np.where(M != 0, wanted, 0))
        outside = sp.einsum("ij,kj->ik", A, A, mask=mask, complement=True)
        assert np.array_equal(outside.to_numpy(), np.where(M == 0, wanted, 0))


def test_lazy_boolean_masks() -> None:
    dense = some((5, 5), 3)
    A, M = sp.asarray(dense), sp.asarray(some((5, 5), 4, "int64"))
    for mask in (M == 0, M < 2, ~(M != 0), M != 0, (M == 0).asformat("csr")):
        assert isinstance(mask, sp.Tensor)
        for complement in (False, True):
            chosen = mask.to_numpy() != complement
            found = sp.matmul(A, A, mask=mask, complement=complement)
            np.testing.assert_array_equal(found.to_numpy(), np.where(chosen, dense @ dense, 0))


_ADDED: dict[str, Any] = {"plus": np.add, "min": np.minimum, "max": np.maximum, "or": np.logical_or}
_MULTIPLIED: dict[str, Any] = {
    "times": np.multiply, "plus": np.add, "min": np.minimum, "max": np.maximum, "and": np.logical_and,
    "first": lambda a, b: a, "second": lambda a, b: b, "pair": lambda a, b: type(a)(1),
}  # fmt: skip


_LOOPS = {"plus": ("times", "second", "pair"), "min": ("plus", "max"), "max": ("times", "min", "first"), "or": ("and",)}
"""Operations to test with kernels, which are compiled for each: every operation once."""


@pytest.mark.parametrize(
    ("way", "dtype"),
    [
        *itertools.product(
            ["numpy", "duckdb"], ["bool", "int8", "uint8", "int16", "uint32", "int64", "uint64", "float32"]
        ),
        *itertools.product(["numba"], ["bool", "int8", "int64", "uint64"]),
    ],
)
@pytest.mark.parametrize("add", _ADDED)
def test_multiply_matches_numpy_before_adding(add: str, dtype: str, way: str) -> None:
    rng = np.random.default_rng(len(add) + len(dtype))
    a, b = (rng.integers(-120, 255, shape).astype(dtype) * (rng.random(shape) < 0.7) for shape in ((5, 6), (6, 4)))
    a, b = a.astype(dtype), b.astype(dtype)
    named: Any = "duckdb" if way == "duckdb" else "stream"
    looped = _LOOPS[add][: None if dtype == "int64" else 1]
    for multiply in looped if way == "numba" else _MULTIPLIED:
        each = _MULTIPLIED[multiply]
        with sparrow.testing.strategy("numba" if way == "numba" else "numpy"):
            found = sp.matmul(sp.asarray(a), sp.asarray(b), semiring=sp.Semiring(add, multiply, None), engine=named)
            found = found.compute()
        wanted = np.full((5, 4), found.fill_value, found.dtype)
        for i, j in np.ndindex(5, 4):
            met = [k for k in range(6) if a[i, k] and b[k, j]]
            with np.errstate(all="ignore"):
                terms = [each(a[i, k], b[k, j]) for k in met]
                if terms and add == "plus":
                    wanted[i, j] = np.sum(terms, dtype=found.dtype)
                elif terms:
                    wanted[i, j] = _ADDED[add].reduce(terms)
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-6, err_msg=multiply)


@pytest.mark.parametrize("semiring", ["max_times", "min_plus"])
def test_narrow_integers_wrap_when_spilled(semiring: str, tmp_path: Path) -> None:
    a = some((300, 300), 5, np.int8, 0.3) * np.int8(50)
    A = sp.asarray(a).save(tmp_path / "A")
    wanted = sp.matmul(sp.asarray(a), sp.asarray(a), semiring=semiring).compute()
    with sp.config(memory_limit=60_000):
        found = sp.matmul(A, A, semiring=semiring).save(tmp_path / "B")
    np.testing.assert_array_equal(found.to_numpy(), wanted.to_numpy())
    met = (a != 0).astype(int) @ (a != 0).astype(int)
    assert wanted.nnz <= np.count_nonzero(met)


@pytest.mark.parametrize("kind", ["float64", "int8"])
def test_or_of_user_functions(kind: str) -> None:
    a = np.array([[0.5, 2], [3, 4]]).astype(kind) if kind[0] == "f" else np.array([[1, 2], [3, 4]], kind)
    functions: list[Any] = [lambda p, q: p > q, lambda p, q: p - q, lambda p, q: p + q]
    for function in functions:
        found = sp.matmul(sp.asarray(a), sp.asarray(a), semiring=sp.Semiring("or", function, None))
        terms = np.array([[[bool(function(a[i, k], a[k, j])) for k in (0, 1)] for j in (0, 1)] for i in (0, 1)])
        assert found.dtype == bool
        np.testing.assert_array_equal(found.to_numpy(), terms.any(axis=2))
    counted = sp.matmul(sp.asarray(a), sp.asarray(a), semiring=sp.Semiring("plus", lambda p, q: p > q, None))
    np.testing.assert_array_equal(counted.to_numpy(), [[False, False], [True, True]])


def test_identity_is_rounded_to_dtype() -> None:
    A = sp.asarray(np.ones((2, 2), np.float32))
    assert sp.matmul(A, A, semiring=sp.Semiring("max", "times", 0.1)).fill_value == np.float32(0.1)


@pytest.mark.parametrize(
    ("kind", "identity"),
    [
        ("int64", np.inf),
        ("float32", 1e300),
        ("int64", 1.5),
        ("uint8", 300),
        ("int64", 10**30),
        ("int64", np.nan),
        ("float64", 1j),
    ],
)
def test_identity_must_fit_dtype(kind: str, identity: Any) -> None:
    A = sp.asarray(np.ones((2, 2), kind))
    with pytest.raises(InvalidValueError, match=f"identity must be a value of {kind}"):
        sp.matmul(A, A, semiring=sp.Semiring("min", "plus", identity))


@pytest.fixture
def small_blocks() -> Iterator[None]:
    with sparrow.testing.tune("stream", csr_min_elements=1), sparrow.testing.tune("kernels", thread_min_elements=64):
        yield


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("letters", ["ij,jk->ik", "aij,jk->aik"])
@pytest.mark.usefixtures("small_blocks")
def test_csr_blocks_expand_on_demand(letters: str, threads: int) -> None:
    shape = (400, 30) if letters[0] == "i" else (6, 20, 30)
    a, b = some(shape, 75, density=0.5), some((30, 25), 76, density=0.6)
    a[2:5] = 0
    with sp.config(threads=threads), sparrow.testing.tune("product", partition_products=3000):
        C = sp.einsum(letters, sp.asarray(a), sp.asarray(b)).compute()
    block = C.__sparrow_scan__().relation.block
    assert isinstance(block, coo.CSRBlock)
    assert block._written is None
    assert block.nbytes == block.count * (4 * C.ndim + 8)
    assert C.nnz == np.count_nonzero(a @ b)
    if C.ndim == 2:
        for found in (C.to_scipy("csr"), C.to_format("csr").to_scipy()):
            np.testing.assert_allclose(found.toarray(), a @ b)
        np.testing.assert_allclose(C.persist() @ np.eye(25), a @ b)
        assert block._written is None
    again = pickle.loads(pickle.dumps(block))
    with sp.config(threads=threads):
        coords = block.coords
    assert block.coords is coords
    for column, other, expected in zip(coords, again.coords, np.nonzero(a @ b), strict=True):
        assert column.dtype == other.dtype == np.int32
        np.testing.assert_array_equal(column, expected)
        np.testing.assert_array_equal(other, expected)
    agree(C, a @ b)


@pytest.mark.usefixtures("small_blocks")
def test_csr_blocks_expand_at_once_if_rows_are_short() -> None:
    dense, thin, b = (
        some((30, 20), 77, density=0.7),
        some((600, 20), 78, density=0.03),
        some((20, 25), 79, density=0.05),
    )
    with sparrow.testing.tune("product", partition_products=200):
        for a in (thin, np.concatenate([dense, thin]), np.concatenate([thin, dense, thin])):
            C = (sp.asarray(a) @ sp.asarray(b)).compute()
            block = C.__sparrow_scan__().relation.block
            assert not isinstance(block, coo.CSRBlock)
            agree(C, a @ b)
        cube = np.stack([dense if k % 2 else dense * (np.arange(30)[:, None] < 3) for k in range(6)])
        with sparrow.testing.observe("product.csr_output") as partitions:
            agree(sp.einsum("ijk,kl->ijl", sp.asarray(cube), sp.asarray(b)).compute(), cube @ b)
        assert {details["row_axes"] for _, details in partitions} == {0, 2}  # partitions in COO and in CSR


def test_csr_blocks_are_multiplied_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    A = sp.random((2000, 2000), nnz=270_000, seed=80).compute()
    plain = A.to_scipy("csr")
    C = (A @ A).compute()
    of_A, of_C = (each.__sparrow_scan__().relation for each in (A, C))
    assert isinstance(of_A, MemoryRelation)
    assert isinstance(of_A.block, coo.CSRBlock)
    assert isinstance(of_C, MemoryRelation)
    block = of_C.block
    assert isinstance(block, coo.CSRBlock)
    monkeypatch.setattr(coo.CSRBlock, "of", lambda *_: pytest.fail("rows are known"))
    for left, right, wanted in [(A, C, plain @ (plain @ plain)), (C, A, plain @ plain @ plain)]:
        found = (left[:40] @ right if right is C else left @ right).compute().to_scipy("csr")
        assert abs(found - wanted[: found.shape[0]]).max() < 1e-9
    assert block._written is None
    places = of_C.find_rows(np.array([0, 7, 1999]))
    np.testing.assert_array_equal(places.lengths, np.diff((plain @ plain).indptr)[[0, 7, 1999]])
    np.testing.assert_array_equal((plain @ plain).indptr[[0, 7, 1999]], places.starts)
    assert block._written is None


def test_few_needed_rows_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryRelation, "chunks", lambda *_: pytest.fail("all rows were read"))
    A, B = sp.random((20, 5000), nnz=400, seed=81).compute(), sp.random((5000, 300), nnz=40_000, seed=82).compute()
    wanted = A.to_scipy("csr") @ B.to_scipy("csr")
    assert abs((A @ B).compute().to_scipy("csr") - wanted).max() < 1e-12


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
@pytest.mark.parametrize("room", [40, 2])
def test_blocks_are_placed_in_order(order: tuple[int, ...], room: int) -> None:
    A = sp.asarray(some((40, 30), 83, density=0.9)).compute()
    scan = A.__sparrow_scan__()
    assert isinstance(scan.relation, MemoryRelation)
    block, bounds = scan.relation.block, np.searchsorted(scan.relation.block.coords[0], [0, 4, 5, 25, 40])
    with scan_reader.reserve_for(scan) as reserved:
        whole = BlockBuffer(scan.schema, block.count if room == 40 else room, reserved)
        for number in order:
            part = block.take(slice(bounds[number], bounds[number + 1]))
            whole.put(number, coo.CSRBlock.of(part) if number % 2 else part)
        found = whole.block()
    for one, other in zip((*found.coords, found.values), (*block.coords, block.values), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("fits", [True, False])
def test_stats_estimate_nnz_of_streamed_left_operand(fits: bool, tmp_path: Path) -> None:
    with sparrow.testing.tune("product", partition_products=100, **({} if fits else {"lhs_layout": "row_blocks"})):
        check_stats(fits, tmp_path)


def check_stats(fits: bool, tmp_path: Path) -> None:
    A = sp.random((2_000, 50), nnz=20_000, seed=1).save(tmp_path / "A")
    B = sp.random((50, 40), nnz=400, seed=2).compute()
    (scan,) = lower([(A @ B).__sparrow_scan__()])
    relation: Any = scan.relation
    bounds = [Box((range(first, last), range(40))) for first, last in [(0, 2_000), (500, 1_000)]]
    with sparrow.testing.observe("product.tiling") as tilings:
        whole, part = (relation.stats(box).rows for box in bounds)
    assert [(details["tiling"], details["is_lhs_held"]) for _, details in tilings] == [("whole", fits)]
    count = (A @ B).compute().nnz
    assert count / 2 < whole < 4 * count
    assert whole / 5 < part < whole / 3


def test_too_large_outer_product_raises_before_computing(tmp_path: Path) -> None:
    A = sp.random((100, 100), nnz=3_000, seed=1)
    for one, other in itertools.product((A.compute(), A.save(tmp_path / "A")), repeat=2):
        with (
            sparrow.testing.observe("product.prepare") as prepared,
            sp.config(memory_limit="100MB"),
            pytest.raises(TooLargeError, match=r"would take 216 MB .* to_batches"),
        ):
            sp.einsum("ij,kl->ikjl", one, other).compute()
        assert not prepared


@pytest.mark.usefixtures("small_partitions")
def test_results_of_one_coordinate_are_reserved() -> None:
    a, b = some((3, 300), 1), some((300, 40, 90), 2)
    A, B = sp.asarray(a), sp.asarray(b)
    product = sp.einsum("ij,jkl->ikl", A, B)
    np.testing.assert_allclose(product.compute().to_numpy(), np.einsum("ij,jkl->ikl", a, b))
    relation: Any = lower([product.__sparrow_scan__()])[0].relation
    relation.stats(Box((range(3), range(40), range(90))))  # reserves memory for the right operand
    with (
        memory.reserve(memory.available() - 30_000, "nearly all of it"),
        pytest.raises(TooLargeError, match=r"at one coordinate of its first dimension would take .* put one first"),
    ):
        relation.compute_small()


@pytest.mark.usefixtures("small_partitions")
@sparrow.testing.strategy("numba")
def test_dense_rows_share_memory() -> None:
    A, B = (sp.random((400, 400), nnz=8_000, seed=seed).compute() for seed in (1, 2))
    with sp.config(threads=4), sparrow.testing.observe("product.workspace") as made:
        wanted = (A @ B).compute()
        assert 1 <= len(made) <= 4
        made.clear()
        with sparrow.testing.tune("product", dense_rows_share=1e12):
            found = (A @ B).compute()
        assert [details["width"] for _, details in made] == [400]
        np.testing.assert_array_equal(found.to_numpy(), wanted.to_numpy())

        def interrupt(**_: Any) -> None:
            raise KeyboardInterrupt

        C = A @ B
        with sparrow.testing.on("product.plan_rows", interrupt), pytest.raises(KeyboardInterrupt):
            C.compute()
        np.testing.assert_array_equal(C.compute().to_numpy(), wanted.to_numpy())  # no thread waits for a workspace


def test_cut_bounds_by_products() -> None:
    rows = np.arange(100, dtype=np.int64)
    some_rows = layouts.LhsRows(
        (rows,),
        np.arange(101, dtype=np.intp),
        np.zeros(100, np.uint32),
        np.ones(100),
        np.arange(0, 1010, 10),
    )
    assert some_rows.cut_bounds(100, 200) == [20, 40, 60, 80]
    assert some_rows.cut_bounds(100, 50) == list(range(5, 100, 5))
    assert some_rows.cut_bounds(60, 200) == [20, 40]
    assert some_rows.between(50, 100).cut_bounds(100, 200) == [70, 90]
