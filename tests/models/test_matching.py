"""Matrices, targets and weights meet models by label, whatever their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import InvalidValueError, LabelError

USERS, ITEMS = [f"u{k}" for k in range(12)], [f"i{k}" for k in range(8)]
RATINGS = np.random.default_rng(5).integers(0, 6, (12, 8)).astype(float)


def make_ratings(dense: Any = RATINGS) -> sp.Tensor:
    return sp.asarray(dense, dims=["user", "item"], labels={"user": USERS, "item": ITEMS})


@pytest.fixture(scope="module")
def model_of_ratings() -> Any:
    return sp.models.ALS(factors=3, epochs=3).fit(make_ratings())


ORDERS = st.tuples(st.permutations(range(12)), st.permutations(range(8)), st.booleans())


def reorder(tensor: sp.Tensor, orders: Any) -> sp.Tensor:
    """Return the same relation in another order of rows and columns."""
    rows, columns, turned = orders
    found: sp.Tensor = tensor.oindex[rows, columns].compute()
    return found.T.compute() if turned else found


@settings(max_examples=10)
@given(ORDERS)
def test_matrices_meet_a_recommender_by_label(model_of_ratings: Any, tmp_path_factory: Any, orders: Any) -> None:
    ratings = make_ratings()
    liked = (ratings > 3).compute()
    same = reorder(ratings, orders)
    excluded = reorder(liked, orders)
    folder = tmp_path_factory.mktemp("best")
    for rows in (["u3", "u1", "u3"], np.array([0, 5])):
        at = [USERS.index(row) for row in rows] if isinstance(rows, list) else rows
        wanted = model_of_ratings.recommend(rows, 4, exclude=liked.to_numpy()[at])[0]
        np.testing.assert_array_equal(model_of_ratings.recommend(rows, 4, exclude=excluded)[0], wanted)
        np.testing.assert_array_equal(model_of_ratings.recommend(rows, 4, exclude=excluded.sel(user=USERS[:6]))[0],
                                      model_of_ratings.recommend(rows, 4, exclude=liked[:6])[0])  # fmt: skip
    for name, exclude in (("one", liked.to_numpy()), ("other", excluded)):
        model_of_ratings.recommend_all(folder / name, 3, exclude=exclude)
    assert pq.read_table(folder / "one").equals(pq.read_table(folder / "other"))
    np.testing.assert_array_equal(
        model_of_ratings.fold_in(same.sel(user=USERS[:4])), model_of_ratings.fold_in(ratings[:4])
    )
    histories = same.sel(user=USERS[2:5])
    np.testing.assert_array_equal(
        model_of_ratings.recommend(histories, 3, exclude=excluded)[0],
        model_of_ratings.recommend(ratings[2:5], 3, exclude=liked[2:5])[0],
    )
    assert sp.models.evaluation.rmse(model_of_ratings, same) == pytest.approx(
        sp.models.evaluation.rmse(model_of_ratings, ratings)
    )
    with pytest.raises(LabelError, match="unknown label 'zoe': no row"):
        sp.models.evaluation.rmse(
            model_of_ratings,
            sp.asarray(np.ones((1, 8)), dims=["user", "item"], labels={"user": ["zoe"], "item": ITEMS}),
        )


@settings(max_examples=10)
@given(st.permutations(range(8)), st.permutations(range(8)), st.data())
def test_held_out_ratings_meet_a_model_by_label(
    model_of_ratings: Any, mine: list[int], theirs: list[int], data: st.DataObject
) -> None:
    evaluation = sp.models.evaluation
    held_out = evaluation.hold_out(make_ratings())
    order = data.draw(st.permutations(range(len(held_out.rows))))
    other = evaluation.HeldOut(held_out.rows, held_out.history.oindex[:, mine], held_out.truth.oindex[order, theirs])
    for model in (model_of_ratings, evaluation.Popularity().fit(make_ratings())):
        found = evaluation.evaluate(model, other, [2, 4], [4], baseline=False)
        assert found == pytest.approx(evaluation.evaluate(model, held_out, [2, 4], [4], baseline=False))
    missing = evaluation.HeldOut(held_out.rows, held_out.history, held_out.truth[1:])
    with pytest.raises(LabelError, match=r"the truth has no label 'u\d+', which dimension 'user' of the history has"):
        evaluation.evaluate(model_of_ratings, missing, [2], [2])


@settings(max_examples=10)
@given(st.permutations(range(12)), st.permutations(range(12)), st.permutations(range(8)))
def test_targets_and_weights_match_rows_by_label(mine: list[int], theirs: list[int], columns: list[int]) -> None:
    X = make_ratings()
    y = sp.asarray((RATINGS[:, 0] > 2).astype(float), dims=["user"], labels={"user": USERS})
    weights = sp.asarray(np.arange(1.0, 13), dims=["user"], labels={"user": USERS})
    moved, heavy = y[mine].compute(), weights[theirs].compute()
    for kind in (sp.models.LogisticRegression, sp.models.LinearRegression):
        make: Any = kind
        wanted = make(epochs=2).fit(X, y.to_numpy(), weights.to_numpy())
        model = make(epochs=2, validation=(X[::-1], moved)).fit(X, moved, heavy)
        np.testing.assert_array_equal(model.coef_, wanted.coef_)
        np.testing.assert_allclose(
            model.validation_loss_, make(epochs=2, validation=(X, y)).fit(X, y, weights).validation_loss_
        )
        assert model.evaluate(X, moved, heavy) == wanted.evaluate(X, y, weights)
        assert make().partial_fit(X, moved, **({"classes": [0, 1]} if hasattr(model, "classes_") else {})).t_ > 0
        with pytest.raises(LabelError, match="y has no label 'u0', which dimension 'user' of X has"):
            make().fit(X, y[1:])
        with pytest.raises(
            LabelError, match="sample_weight has the label 'u11', which is missing from dimension 'user'"
        ):
            make().fit(X[:11], y[:11], weights)
        if columns != sorted(columns):
            other, words = X.oindex[:, columns], "must be in the same order"
            with pytest.raises(InvalidValueError, match=words):
                make(validation=(other, y)).fit(X, y)
            with pytest.raises(InvalidValueError, match=words):
                model.predict(other)
            with pytest.raises(InvalidValueError, match=words):
                model.evaluate(other, y)
