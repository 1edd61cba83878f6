from __future__ import annotations

import fcntl
import itertools
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow.kernels.ml import topk
from sparrow.models.recommender import Recommender
from sparrow.models.topk import Pattern, block_rows, iter_patterns, iter_top_k, to_pattern, top_k
from sparrow.testing import observe, on, tune, tuning


def brute(scores: NDArray[Any], k: int, mask: NDArray[np.bool_] | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the k best by sorting all scores."""
    scores = np.where(np.isnan(scores) if mask is None else np.isnan(scores) | mask, -np.inf, scores)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(scores, order, axis=1)
    ids = np.where(values == -np.inf, -1, order)
    missing = ((0, 0), (0, k - ids.shape[1]))
    return np.pad(ids, missing, constant_values=-1), np.pad(values, missing, constant_values=-np.inf)


def random_integers(rng: np.random.Generator, *shape: int, span: int = 3) -> NDArray[np.float32]:
    """Return small integers, of which every product is exact and many are equal."""
    return rng.integers(-span, span + 1, shape).astype(np.float32)


def csr(mask: NDArray[np.bool_]) -> Pattern:
    return Pattern(np.concatenate([[0], np.cumsum(mask.sum(axis=1))]), mask.nonzero()[1])


def query_rows(query: str) -> list[Any]:
    relation = duckdb.sql(query)
    assert relation is not None
    return relation.fetchall()


# -- selection -----------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 300), st.integers(1, 90), st.data())
def test_kernel_keeps_best_keys(seed: int, rows: int, width: int, k: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -1.5, 1e-40, -1e-40], np.float32)
    scores = np.where(
        rng.random((rows, width)) < 0.5, rng.choice(special, (rows, width)), random_integers(rng, rows, width)
    )
    cuts = sorted(data.draw(st.sets(st.integers(1, width), max_size=4)) | {0, width})
    keys = np.empty((rows, k + data.draw(st.integers(1, 70))), np.uint64)
    counts, thresholds = np.zeros(rows, np.int64), np.full(rows, -np.inf, np.float32)
    for first, last in itertools.pairwise(cuts):
        topk.update_candidates(np.ascontiguousarray(scores[:, first:last]), first, k, keys, counts, thresholds)
    topk.sort_candidates(keys, counts)
    ids, values = topk.decode(keys[:, :k])
    expected = brute(scores, k)
    np.testing.assert_array_equal(ids, expected[0])
    np.testing.assert_array_equal(values, expected[1])


@pytest.mark.parametrize("order", ["rising", "falling", "equal"])
def test_kernel_sorted_scores(order: str) -> None:
    line = {"rising": np.arange(5000.0), "falling": -np.arange(5000.0), "equal": np.ones(5000)}[order]
    ids, scores = top_k(np.ones((2, 1)), line[:, None], 70)
    expected = brute(np.stack([line, line]), 70)
    np.testing.assert_array_equal(ids, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


@pytest.mark.parametrize(
    ("m", "n", "d", "k"), [(3, 7, 2, 3), (1, 5, 2, 9), (1100, 2100, 3, 10), (5, 0, 2, 2), (0, 5, 2, 2)]
)
def test_top_k_against_sorting(m: int, n: int, d: int, k: int) -> None:
    rng = np.random.default_rng(m)
    rows, items = random_integers(rng, m, d), random_integers(rng, n, d)
    mask = rng.random((m, n)) < 0.3
    for excluded in (None, mask):
        ids, scores = top_k(rows, items, k, None if excluded is None else csr(excluded))
        expected = brute(rows @ items.T, k, excluded)
        np.testing.assert_array_equal(ids, expected[0])
        np.testing.assert_array_equal(scores, expected[1])
        assert ids.dtype == np.int64
        assert scores.dtype == np.float32


def test_top_k_large_k() -> None:
    rng = np.random.default_rng(0)
    assert block_rows(40_000, 50_000) < 30
    rows, items = random_integers(rng, 30, 2), random_integers(rng, 50_000, 2, span=1000)
    expected = brute(rows @ items.T, 40_000)
    ids, scores = top_k(rows, items, 40_000)
    np.testing.assert_array_equal(ids, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_top_k_dtypes(dtype: str) -> None:
    rng = np.random.default_rng(0)
    rows, items = random_integers(rng, 20, 4), random_integers(rng, 30, 4)
    np.testing.assert_array_equal(top_k(rows.astype(dtype), items.astype(dtype), 5)[0], top_k(rows, items, 5)[0])


def test_nan_scores_do_not_rank() -> None:
    rows = np.array([[1e30, 0], [1, 0]], np.float32)
    items = np.array([[-1e30, 1], [1, 0], [np.nan, 0], [1e30, 0]], np.float32)
    ids, scores = top_k(rows, items, 4)
    assert ids.tolist() == [[3, 1, -1, -1], [3, 1, 0, -1]]
    assert scores[0].tolist() == [np.inf, np.float32(1e30), -np.inf, -np.inf]


def test_results_independent_of_threads() -> None:
    rng = np.random.default_rng(0)
    rows, items = rng.standard_normal((1500, 40), np.float32), rng.standard_normal((3000, 40), np.float32)
    result = []
    for threads in (1, 3):
        with sp.config(threads=threads):
            result.append(top_k(rows, items, 20))
    np.testing.assert_array_equal(result[0][0], result[1][0])
    np.testing.assert_array_equal(result[0][1].view(np.int32), result[1][1].view(np.int32))


def test_scores_against_numpy() -> None:
    rng = np.random.default_rng(0)
    rows, items = rng.standard_normal((600, 40), np.float32), rng.standard_normal((3000, 40), np.float32)
    ids, scores = top_k(rows, items, 20)
    exact = rows.astype(float) @ items.astype(float).T
    np.testing.assert_allclose(scores, np.take_along_axis(exact, ids, axis=1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scores, -np.sort(-exact, axis=1)[:, :20], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("k", "width", "error"),
    [(0, 2, sp.errors.InvalidValueError), (1.5, 2, sp.errors.InvalidValueError), (3, 3, sp.errors.ShapeError)],
)
def test_top_k_errors(k: Any, width: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        top_k(np.ones((2, width)), np.ones((4, 2)), k)


def test_result_beyond_memory_limit() -> None:
    with sp.config(memory_limit="1KB"), pytest.raises(sp.errors.TooLargeError, match="recommend_all"):
        top_k(np.ones((100, 1)), np.ones((4, 1)), 4)


def test_scores_are_computed_in_blocks() -> None:
    with observe("models.score_block") as blocks:
        top_k(np.ones((2000, 1)), np.ones((5000, 1)), 1)
    sizes = tuning("models")
    largest = max(details["size"] for _, details in blocks)
    assert 0 < largest <= sizes.topk_block_rows * sizes.topk_block_items


# -- patterns ---------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(1, 12))
def test_patterns_by_block(seed: int, height: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((height, 6)) < rng.choice([0, 0.05, 0.5])
    A = sp.asarray(mask)
    whole_matrix = csr(mask)
    result = to_pattern(A)
    np.testing.assert_array_equal(result.indptr, whole_matrix.indptr)
    np.testing.assert_array_equal(result.indices, whole_matrix.indices)
    parts = list(iter_patterns(A, size))
    assert len(parts) == -(-height // size)
    for number, part in enumerate(parts):
        expected = whole_matrix.rows(number * size, min((number + 1) * size, height))
        np.testing.assert_array_equal(part.indptr, expected.indptr)
        np.testing.assert_array_equal(part.indices, expected.indices)


def test_patterns_read_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    mask = rng.random((3000, 400)) < 0.3  # several row groups, whose bounds split rows
    A = sp.asarray(mask).save(tmp_path / "a.sparrow")
    parts = list(iter_patterns(A, 512))
    np.testing.assert_array_equal(np.concatenate([part.indices for part in parts]), mask.nonzero()[1])
    np.testing.assert_array_equal(np.concatenate([part.degrees for part in parts]), mask.sum(axis=1))


def test_pattern_errors() -> None:
    with pytest.raises(sp.errors.ShapeError):
        to_pattern(sp.asarray([1, 2]))
    with pytest.raises(sp.errors.UnsupportedError):
        to_pattern(sp.from_coords([[0], [0]], [2], shape=(2, 2), fill_value=1))


# -- the methods ---------------------------------------------------------------------------------


class Given(Recommender):
    """Model of given factors; fold-in sums the factors of a row's items."""

    def __init__(self, rows: NDArray[Any], items: NDArray[Any], training: NDArray[Any]) -> None:
        self.user_factors, self.item_factors = rows, items
        self._training = sp.asarray(training)

    def fold_in(self, rows: sp.Tensor) -> NDArray[np.float32]:
        return np.asarray(rows.to_numpy() @ self.item_factors, dtype=np.float32)


@pytest.fixture
def data() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(3)
    rows, items, training = (
        random_integers(rng, 700, 3),
        random_integers(rng, 40, 3),
        (rng.random((700, 40)) < 0.2).astype(float),
    )
    rows[[5, 600]] = 0
    training[7] = 1
    return rows, items, training


@pytest.fixture
def model(data: Any) -> Given:
    return Given(*data)


def test_recommend_excludes_history(model: Given, data: Any) -> None:
    rows, items, training = data
    users = [699, 0, 3, -2, 3]
    ids, scores = model.recommend(users, k=6)
    expected = brute(rows[users] @ items.T, 6, training[users] > 0)
    np.testing.assert_array_equal(ids, expected[0])
    np.testing.assert_array_equal(scores, expected[1])
    ids, _ = model.recommend(users, k=6, exclude=False)
    np.testing.assert_array_equal(ids, brute(rows[users] @ items.T, 6)[0])


def test_recommend_excludes_tensor(model: Given, data: Any) -> None:
    rows, items, _ = data
    dense = np.zeros((2, 40))
    dense[0, 3:] = 1
    ids, _ = model.recommend([1, 2], k=5, exclude=sp.asarray(dense))
    np.testing.assert_array_equal(ids, brute(rows[[1, 2]] @ items.T, 5, dense > 0)[0])
    assert (ids[0] == -1).sum() == 2


def test_histories_are_folded_in(model: Given, data: Any) -> None:
    _, items, training = data
    history = sp.asarray(training[10:20])
    scores = training[10:20] @ items @ items.T
    np.testing.assert_array_equal(model.recommend(history, k=4)[0], brute(scores, 4, training[10:20] > 0)[0])
    np.testing.assert_array_equal(model.recommend(history, k=4, exclude=False)[0], brute(scores, 4)[0])


def test_rows_without_recommendations(model: Given) -> None:
    ids, scores = model.recommend([5, 7, 600], k=2)
    assert (ids == -1).all()
    assert (scores == -np.inf).all()
    assert model.recommend([], k=2)[0].shape == (0, 2)


@pytest.mark.parametrize("rows", [[700], [-701], [0.5], 3, [[1]], [True]])
def test_row_errors(model: Given, rows: Any) -> None:
    with pytest.raises(IndexError):
        model.recommend(rows)
    with pytest.raises(IndexError):
        model.similar(rows)


def test_exclude_errors(model: Given) -> None:
    with pytest.raises(sp.errors.InvalidValueError, match="exclude"):
        model.recommend([0], exclude="history")
    with pytest.raises(sp.errors.ShapeError):
        model.recommend([0], exclude=sp.zeros((2, 40)))


def test_similar_items(model: Given, data: Any) -> None:
    _, items, _ = data
    with np.errstate(all="ignore"):
        unit = items / np.linalg.norm(items.astype(float), axis=1, keepdims=True)
    cosines = unit @ unit.T
    ids, result = model.similar([3, -1], k=5)
    for at, row, values in zip((3, 39), ids, result, strict=True):
        assert at not in row
        remainder = np.delete(cosines[at], at)
        np.testing.assert_allclose(values, -np.sort(-remainder[~np.isnan(remainder)])[:5], atol=1e-6)
        np.testing.assert_allclose(values, cosines[at, row], atol=1e-6)
    by_vector, _ = model.similar(2.5 * items[[3]], k=40)
    assert by_vector[0, 0] in np.flatnonzero(np.isclose(cosines[3], 1))
    nowhere = np.flatnonzero(~items.any(axis=1))
    assert len(nowhere)
    assert not np.isin(nowhere, by_vector).any()
    assert (model.similar(nowhere, k=1)[0] == -1).all()
    with pytest.raises(sp.errors.ShapeError):
        model.similar(np.ones((1, 2)))


# -- files ---------------------------------------------------------------------------------------


def test_recommend_all_equals_recommend(model: Given, tmp_path: Path) -> None:
    path = tmp_path / "best.parquet"
    with tune("models", ranking_row_group_rows=1000):
        model.recommend_all(path, k=6)
    ids, scores = model.recommend(np.arange(700), k=6)
    rows, ranks = (ids >= 0).nonzero()
    table = pq.read_table(path)
    assert table.schema.names == ["row", "rank", "item", "score"]
    assert pq.read_metadata(path).num_row_groups > 1
    np.testing.assert_array_equal(table["row"], rows)
    np.testing.assert_array_equal(table["rank"], ranks + 1)
    np.testing.assert_array_equal(table["item"], ids[rows, ranks])
    np.testing.assert_array_equal(table["score"], scores[rows, ranks])
    assert not {5, 7, 600} & set(rows.tolist())
    ((count, largest, items, total),) = query_rows(f"select count(*), max(rank), sum(item), sum(score) from '{path}'")
    assert (count, largest, items) == (len(rows), 6, ids[rows, ranks].sum())
    assert total == scores[rows, ranks].sum(dtype=float)
    assert [result.name for result in tmp_path.iterdir()] == ["best.parquet"]


def test_recommend_all_excludes_tensor(model: Given, tmp_path: Path, data: Any) -> None:
    rows, _, _ = data
    dense = np.zeros((700, 40))
    dense[:, ::2] = 1
    model.recommend_all(tmp_path / "odd.parquet", k=3, exclude=sp.asarray(dense))
    table = pq.read_table(tmp_path / "odd.parquet")
    assert set(table["item"].to_pylist()) <= set(range(1, 40, 2))
    with pytest.raises(sp.errors.ShapeError):
        model.recommend_all(tmp_path / "wrong.parquet", k=3, exclude=sp.zeros((3, 40)))
    model.recommend_all(tmp_path / "all.parquet", k=40, exclude=False)
    assert pq.read_metadata(tmp_path / "all.parquet").num_rows == 40 * rows.any(axis=1).sum()


def test_interrupted_file_is_not_published(model: Given, tmp_path: Path) -> None:
    path = tmp_path / "best.parquet"
    model.recommend_all(path, k=2)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite"):
        model.recommend_all(path, k=3)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with on("models.write_ranking", interrupt), pytest.raises(KeyboardInterrupt):
        model.recommend_all(path, k=3, overwrite=True)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
    model.recommend_all(path, k=3, overwrite=True)
    assert pq.read_table(path)["rank"].to_numpy().max() == 3


def test_concurrent_writer_is_rejected(model: Given, tmp_path: Path) -> None:
    with (tmp_path / ".best.parquet.partial").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(FileExistsError, match="another process"):
            model.recommend_all(tmp_path / "best.parquet")


def test_partial_file_is_taken_over(model: Given, tmp_path: Path) -> None:
    (tmp_path / ".best.parquet.partial").write_bytes(b"half a file" * 1000)
    model.recommend_all(tmp_path / "best.parquet", k=2)
    assert pq.read_table(tmp_path / "best.parquet").num_rows
    assert len(list(tmp_path.iterdir())) == 1


def test_many_writers_of_one_file(model: Given, tmp_path: Path) -> None:
    path, refused = tmp_path / "best.parquet", []

    def write() -> None:
        for _ in range(5):
            try:
                model.recommend_all(path, k=2, overwrite=True)
            except FileExistsError:
                refused.append(1)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(refused) < 20
    assert pq.read_table(path)["rank"].to_numpy().max() == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_missing_folder(model: Given, tmp_path: Path) -> None:
    with pytest.raises(sp.errors.StorageError, match=r"nowhere.*No such file"):
        model.recommend_all(tmp_path / "nowhere" / "best.parquet")


def test_factors_as_parquet(model: Given, data: Any, tmp_path: Path) -> None:
    rows, items, _ = data
    with tune("models", factor_write_bytes=1200):
        model.save_factors(tmp_path / "factors")
    for name, column, factors in (("user", "row", rows), ("item", "item", items)):
        table = pq.read_table(tmp_path / "factors" / f"{name}_factors.parquet")
        assert table.schema.field("factors").type == pa.list_(pa.field("element", pa.float32(), nullable=False), 3)
        np.testing.assert_array_equal(table[column], np.arange(len(factors)))
        np.testing.assert_array_equal(np.stack(table["factors"].to_numpy()), factors)
    with pytest.raises(FileExistsError, match="another folder"):
        model.save_factors(tmp_path / "factors")
    model.save_factors(tmp_path / "other", rows=1000 - np.arange(700))
    assert pq.read_table(tmp_path / "other" / "user_factors.parquet")["row"].to_pylist() == list(range(1000, 300, -1))
    assert pq.read_table(tmp_path / "other" / "item_factors.parquet")["item"].to_pylist() == list(range(40))
    with pytest.raises(sp.errors.ShapeError, match="'item'"):
        model.save_factors(tmp_path / "wrong", items=[1, 2])
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    "product",
    ["list_inner_product(u.factors, i.factors)", "array_inner_product(u.factors::float[3], i.factors::float[3])"],
)
def test_sql_on_saved_factors(model: Given, data: Any, tmp_path: Path, product: str) -> None:
    rows, items, _ = data
    folder = tmp_path / "factors"
    model.save_factors(folder)
    result = query_rows(
        f"select item from '{folder}/user_factors.parquet' u, '{folder}/item_factors.parquet' i "
        f"where row = 11 order by {product} desc, item limit 9"
    )
    assert [item for (item,) in result] == brute(rows[[11]] @ items.T, 9)[0][0].tolist()


def test_k_beyond_items_is_cheap() -> None:
    rows, items = np.ones((2, 1)), np.arange(3.0)[:, None]
    assert block_rows(10**9, 3) == 512
    ((ids, scores),) = iter_top_k(rows, items, 10**9)
    assert ids.tolist() == [[2, 1, 0]] * 2
    assert scores.tolist() == [[2, 1, 0]] * 2
    assert top_k(rows, items, 10**6)[0].shape == (2, 10**6)


@pytest.mark.parametrize("k", [0, True, 3.0, "3"])
def test_k_errors(model: Given, k: Any) -> None:
    with pytest.raises(sp.errors.InvalidValueError, match="k must be"):
        model.recommend([0], k)


@pytest.mark.parametrize("numbers", [np.arange(200) + 0.5, ["a"] * 200])
def test_factor_number_errors(numbers: Any, tmp_path: Path) -> None:
    model = sp.models.ALS(2, epochs=1).fit(np.ones((200, 3)))
    with pytest.raises(sp.errors.InvalidValueError, match="column 'row'"):
        model.save_factors(tmp_path / "factors", rows=numbers)
    assert not list(tmp_path.iterdir())


def test_folder_is_not_replaced_by_file(model: Given, tmp_path: Path) -> None:
    with (
        observe("models.top_k") as rankings,
        pytest.raises(sp.errors.ExistsError, match="must be a file, got the folder"),
    ):
        model.recommend_all(tmp_path, overwrite=True)
    assert rankings == []


def test_iter_top_k_blocks() -> None:
    parts = list(iter_top_k(np.ones((1300, 1)), np.ones((3, 1)), 2))
    assert [len(ids) for ids, _ in parts] == [512, 512, 276]


# -- fitted models ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_fitted_model_recommends(dtype: Any, data: Any, tmp_path: Path) -> None:
    _, _, training = data
    model = sp.models.ALS(factors=5, epochs=2, dtype=dtype).fit(training)
    users, items = (np.asarray(table, np.float64) for table in (model.user_factors, model.item_factors))
    scores = users @ items.T
    scores[training != 0] = -np.inf
    ids, result = model.recommend([11, 699, 7], k=4)
    assert (ids[2] == -1).all()
    for row, line, values in zip((11, 699), ids, result, strict=False):
        np.testing.assert_allclose(values, np.sort(scores[row])[::-1][:4], rtol=1e-5)
        np.testing.assert_allclose(values, scores[row, line], rtol=1e-5)
    model.recommend_all(tmp_path / "best.parquet", k=4)
    rows = pq.read_table(tmp_path / "best.parquet")
    np.testing.assert_array_equal(rows["item"].to_numpy()[rows["row"].to_numpy() == 11], ids[0])
    model.save_factors(tmp_path / "factors")
    saved = pq.read_table(tmp_path / "factors" / "user_factors.parquet")
    np.testing.assert_array_equal(np.stack(saved["factors"].to_numpy()), model.user_factors)
    by_vector, _ = model.similar(np.asarray(model.item_factors[[3]], np.float32), k=2)
    assert by_vector[0].tolist() == [3, model.similar([3], k=1)[0].item()]


def test_exclusion_is_pinned(data: Any, tmp_path: Path) -> None:
    _, _, training = data
    A = sp.asarray(training).save(tmp_path / "a.sparrow")
    model = sp.models.ALS(factors=5, epochs=2).fit(A)
    before = model.recommend([11], k=40)[0]
    A[11] = 1
    np.testing.assert_array_equal(model.recommend([11], k=40)[0], before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).recommend([11], k=40)[0], before)
    assert (model.recommend([11], k=40, exclude=A[[11]])[0] == -1).all()


def test_array_histories(data: Any) -> None:
    _, _, training = data
    model = sp.models.ALS(factors=5, epochs=2).fit(training)
    history = training[:9]
    expected = model.recommend(sp.asarray(history), k=3)
    for array in (history, scipy.sparse.csr_array(history)):
        for result, one in zip(model.recommend(array, k=3), expected, strict=True):
            np.testing.assert_array_equal(result, one)
    with pytest.raises(sp.errors.ShapeError):
        model.recommend(history[:, 1:])


def test_unfitted_errors(tmp_path: Path) -> None:
    model = sp.models.ALS()
    for call in (
        lambda: model.recommend([0]),
        lambda: model.similar([0]),
        lambda: model.recommend_all(tmp_path / "best.parquet"),
        lambda: model.save_factors(tmp_path / "factors"),
    ):
        with pytest.raises(sp.errors.UnsupportedError, match="must be fitted"):
            call()
    assert not list(tmp_path.iterdir())


MEASURED = """
import re, numpy as np
from pathlib import Path
from sparrow.models.recommender import Recommender

for rows in (1_000, 12_000):  # all scores would take 384 MB
    model = Recommender()
    model.user_factors = np.random.default_rng(0).random((rows, 4), np.float32)
    model.item_factors = np.random.default_rng(1).random((8_000, 4), np.float32)
    model._training = None
    model.recommend_all("best.parquet", k=5, exclude=False)
    Path("best.parquet").unlink()
    print(int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_recommend_all_memory_is_bounded(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", MEASURED], cwd=tmp_path, capture_output=True, text=True, check=True)
    few, many = map(int, run.stdout.split())
    assert many < few + 50_000_000
