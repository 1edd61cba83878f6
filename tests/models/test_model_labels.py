"""Models take and give labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparrow as sp
from sparrow.errors import IndexingError, InvalidValueError, LabelError, ShapeError

USERS = ["ann", "bob", "dan", "eve", "zoe"]
FILMS = ["Alien", "Brazil", "Casablanca", "Dune"]
LINKS = [[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]]


def make_labelled(dense: Any, users: Any, films: Any) -> sp.Tensor:
    return sp.asarray(np.asarray(dense), dims=["user", "film"], labels={"user": users, "film": films})


@pytest.fixture(scope="module")
def model() -> Any:
    return sp.models.ALS(factors=2, unobserved_weight=0.1, seed=1).fit(make_labelled(LINKS, USERS, FILMS))


def test_recommend(model: Any) -> None:
    ids, scores = model.recommend([2, 0], k=3)
    assert ids.dtype == np.int64
    result, same = model.recommend(["dan", "ann"], k=3)
    assert result.tolist() == [[FILMS[k] if k >= 0 else None for k in row] for row in ids.tolist()]
    np.testing.assert_array_equal(same, scores)
    assert model.recommend([2, 0], k=3, labels=True)[0].tolist() == result.tolist()
    assert model.recommend(pa.array(["dan", "ann"]), k=3, labels=False)[0].tolist() == ids.tolist()
    with pytest.raises(LabelError, match="unknown label 'tom': no row"):
        model.recommend(["dan", "tom"])
    with pytest.raises(IndexingError):
        model.recommend([9])
    with pytest.raises(IndexingError, match=r"rows must be a list, got 'dan': pass \['dan'\]"):
        model.recommend("dan")


def test_histories_align(model: Any) -> None:
    history = make_labelled([[1, 0, 1], [0, 1, 0]], ["new", "newer"], ["Dune", "Zardoz", "Brazil"])
    same = sp.asarray([[0, 1, 0, 1], [0, 0, 0, 0]])
    np.testing.assert_array_equal(model.fold_in(history), model.fold_in(same))
    ids, scores = model.recommend(same, k=3)
    np.testing.assert_array_equal(model.recommend(history, k=3)[0], ids)
    np.testing.assert_array_equal(model.recommend(history, k=3)[1], scores)
    cut = make_labelled([[1]], ["ann"], ["Casablanca"])
    assert "Casablanca" not in model.recommend(["ann"], k=4, exclude=cut)[0]


def test_similar(model: Any) -> None:
    ids, cosines = model.similar([0, 3], k=2)
    names, same = model.similar(["Alien", "Dune"], k=2)
    assert names.tolist() == [[FILMS[k] for k in row] for row in ids.tolist()]
    np.testing.assert_array_equal(same, cosines)
    with pytest.raises(LabelError, match="unknown label 'Zardoz': no item"):
        model.similar(["Zardoz"])


IDS, NUMBERS = [17, 3, 5, 11, 2], [318, 1, 0, 9]
"""Labels that are in part valid positions of others."""


@pytest.fixture(scope="module")
def integer_model() -> Any:
    return sp.models.ALS(factors=2, unobserved_weight=0.1, seed=1).fit(make_labelled(LINKS, IDS, NUMBERS))


@pytest.mark.parametrize("make", [list, np.array, pa.array, lambda ids: pa.chunked_array([ids]), tuple])
def test_integers_mean_labels(integer_model: Any, make: Any) -> None:
    at, scores = integer_model.recommend([2, 1], k=3, positions=True)
    assert at.dtype == np.int64
    names = [[NUMBERS[k] if k >= 0 else None for k in row] for row in at.tolist()]
    for options, expected in (({}, names), ({"labels": True}, names), ({"labels": False}, at.tolist())):
        ids, same = integer_model.recommend(make([5, 3]), k=3, **options)
        assert ids.tolist() == expected
        np.testing.assert_array_equal(same, scores)
    assert integer_model.recommend([2, 1], k=3, positions=True, labels=True)[0].tolist() == names
    at, cosines = integer_model.similar([1, -1], k=2, positions=True)
    ids, same = integer_model.similar(make([1, 9]), k=2)
    assert ids.tolist() == [[NUMBERS[k] for k in row] for row in at.tolist()]
    np.testing.assert_array_equal(same, cosines)
    expected = integer_model.predict([0, 0], [0, 3], positions=True)
    np.testing.assert_array_equal(integer_model.predict(17, make([318, 9])), expected)


def test_unknown_integers_are_no_positions(integer_model: Any) -> None:
    with pytest.raises(LabelError, match=r"unknown label 4: no row .*, pass positions=True for positions"):
        integer_model.recommend([4])
    with pytest.raises(LabelError, match="unknown label 2: no item"):
        integer_model.similar([2])
    with pytest.raises(LabelError, match="unknown label -1: no item"):
        integer_model.predict([17], [-1])
    with pytest.raises(LabelError, match="unknown label 0: no row"):
        integer_model.predict(0, 0)
    assert integer_model.recommend([], k=2)[0].shape == (0, 2)


def test_ids_are_labels_of_items(integer_model: Any) -> None:
    history = sp.asarray([[0, 1, 0, 1]])
    at, _ = integer_model.recommend(history, k=3, positions=True)
    assert integer_model.recommend(history, k=3)[0].tolist() == [
        [NUMBERS[k] if k >= 0 else None for k in at[0].tolist()]
    ]
    vector = integer_model.item_factors[:1].astype(float)
    assert integer_model.similar(vector, k=1)[0].tolist() == [[318]]
    assert integer_model.similar(vector, k=1, positions=True)[0].tolist() == [[0]]
    unlabelled_rows = sp.asarray(np.array(LINKS), dims=["user", "film"], labels={"film": NUMBERS})
    model = sp.models.ALS(factors=2, unobserved_weight=0.1, seed=1).fit(unlabelled_rows)
    ids, _ = model.recommend([0], k=2)
    assert set(ids[0].tolist()) <= set(NUMBERS)
    assert ids.tolist() == [[NUMBERS[k] for k in model.recommend([0], k=2, positions=True)[0][0]]]
    truth = make_labelled(LINKS, IDS, NUMBERS)
    found = sp.models.evaluation.metrics(integer_model.recommend(IDS, 2, exclude=False)[0], truth, [2], [2])
    by_position = integer_model.recommend(range(5), 2, exclude=False, positions=True)[0]
    assert found == sp.models.evaluation.metrics(by_position, truth, [2], [2])


def test_files(model: Any, tmp_path: Path) -> None:
    model.recommend_all(tmp_path / "numbers.parquet", k=2, positions=True)
    model.recommend_all(tmp_path / "names.parquet", k=2)
    numbers = pq.read_table(tmp_path / "numbers.parquet").to_pylist()
    expected = [{**row, "row": USERS[row["row"]], "item": FILMS[row["item"]]} for row in numbers]
    assert pq.read_table(tmp_path / "names.parquet").to_pylist() == expected
    for name, options in (("false", {"labels": False}), ("true", {"labels": True})):
        model.recommend_all(tmp_path / name, k=2, **options)
        assert pq.read_table(tmp_path / name).to_pylist() == (expected if options["labels"] else numbers)
    with pytest.raises(InvalidValueError, match="exclude each other"):
        model.recommend_all(tmp_path / "both", k=2, labels=True, positions=True)
    for options in ({}, {"labels": True}):
        model.save_factors(tmp_path / f"factors{len(options)}", **options)
        table = pq.read_table(tmp_path / f"factors{len(options)}" / "user_factors.parquet")
        assert table["row"].to_pylist() == USERS
        table = pq.read_table(tmp_path / f"factors{len(options)}" / "item_factors.parquet")
        assert table["item"].to_pylist() == FILMS
    model.save_factors(tmp_path / "numbers", positions=True)
    assert pq.read_table(tmp_path / "numbers" / "item_factors.parquet")["item"].to_pylist() == list(range(len(FILMS)))


def test_files_of_integer_labels(integer_model: Any, tmp_path: Path) -> None:
    integer_model.recommend_all(tmp_path / "best.parquet", k=2, exclude=False)
    found = pq.read_table(tmp_path / "best.parquet").to_pylist()
    assert {row["row"] for row in found} <= set(IDS)
    ids, scores = integer_model.recommend(IDS, k=2, exclude=False)
    expected = [
        (row, item) for row, items, values in zip(IDS, ids, scores, strict=True)
        for item, value in zip(items, values, strict=True) if value > -np.inf
    ]  # fmt: skip
    assert [(row["row"], row["item"]) for row in found] == expected
    integer_model.save_factors(tmp_path / "factors")
    assert pq.read_table(tmp_path / "factors" / "item_factors.parquet")["item"].to_pylist() == NUMBERS


def test_without_labels() -> None:
    model = sp.models.ALS(factors=2, unobserved_weight=0.1).fit(sp.asarray(LINKS))
    with pytest.raises(IndexingError, match="labels if the training tensor has some"):
        model.recommend(["ann"])
    with pytest.raises(LabelError, match="requires a training tensor with labels"):
        model.recommend([0], labels=True)


def test_predict(model: Any) -> None:
    expected = np.einsum("md,md->m", model.user_factors[[2, 0, 4]], model.item_factors[[1, 3, 0]])
    np.testing.assert_allclose(model.predict([2, 0, -1], [1, 3, 0]), expected, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(["dan", "ann"], ["Brazil", "Dune"]), model.predict([2, 0], [1, 3]))
    np.testing.assert_array_equal(model.predict("dan", FILMS), model.predict([2], np.arange(4)))
    np.testing.assert_array_equal(model.predict(np.arange(5), 2), model.predict(USERS, "Casablanca"))
    with pytest.raises(ShapeError, match="got 2 and 3"):
        model.predict([0, 1], [0, 1, 2])
    with pytest.raises(LabelError, match=r"unknown label 'Solaris'"):
        model.predict("dan", "Solaris")
    with pytest.raises(IndexingError, match="item 4 is out of range"):
        model.predict(0, 4)


def test_scalars_and_types_of_labels() -> None:
    a = sp.asarray(np.arange(16.0).reshape(4, 4) % 6, labels={"d0": [1, 2, 3, 9], "d1": ["0", "1", "2", "10"]})
    model = sp.models.ALS(factors=2, epochs=1).fit(a)
    for one in (1, np.int64(1), np.array(1)):
        with pytest.raises(IndexingError, match=r"rows must be a list, got 1: pass \[1\], as in recommend\(\[1\]\)"):
            model.recommend(one)
        with pytest.raises(IndexingError, match=r"items must be a list, got 1: pass \[1\], as in similar\(\[1\]\)"):
            model.similar(one)
    with pytest.raises(LabelError, match="labels are integers, use 9"):
        model.recommend(["9"])
    with pytest.raises(LabelError, match="labels are integers, such as 1"):
        model.predict("7", "10")
    with pytest.raises(ShapeError, match=r"got shape \(1,\): A\[:1\] is one user"):
        model.fold_in([1])
