"""Inputs and labels of batches and splits are matched by label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import LabelError

ROWS = [f"r{k}" for k in range(8)]
DENSE = np.arange(1.0, 25).reshape(8, 3)
X = sp.asarray(DENSE, dims=["row", "col"], labels={"row": ROWS})
Y = sp.asarray(np.arange(8), dims=["row"], labels={"row": ROWS})


@given(st.permutations(range(8)), st.permutations(range(8)))
def test_batches_match_rows_by_label(mine: list[int], theirs: list[int]) -> None:
    y, more, matrix = Y[mine].compute(), X[theirs].compute(), (X[:, :2] * 10)[mine]
    train = sp.batches({"X": X, "more": more}, {"y": y, "wide": matrix}, batch_size=4)
    for number, batch in enumerate(train):
        rows = slice(4 * number, 4 * number + 4)
        np.testing.assert_array_equal(batch.label["y"], np.arange(8)[rows])
        for found, wanted in (
            (batch.data["X"], DENSE), (batch.data["more"], DENSE), (batch.label["wide"], 10 * DENSE[:, :2])
        ):  # fmt: skip
            np.testing.assert_array_equal(sp.asarray(found).to_numpy(), wanted[rows])


@given(st.permutations(range(8)), st.booleans())
def test_splits_match_rows_by_label(order: list[int], stratified: bool) -> None:
    y, classes = Y[order].compute(), (Y % 2)[order].compute()
    parts = sp.training.train_test_split(X, y, 0.5, stratify=classes if stratified else None)
    wanted: Any = sp.training.train_test_split(
        DENSE, np.arange(8), 0.5, stratify=np.arange(8) % 2 if stratified else None
    )
    for found, same in zip(parts, wanted, strict=True):
        np.testing.assert_array_equal(found.to_numpy(), same.to_numpy() if isinstance(same, sp.Tensor) else same)
    for rows, targets in ((parts[0], parts[2]), (parts[1], parts[3])):
        assert rows.labels("row").equals(targets.labels("row"))


def test_rows_of_other_labels_raise() -> None:
    for call, words in (
        (lambda: sp.batches(X, Y[1:]), "labels 'y' has no label 'r0', which dimension 'row' of input 'X' has"),
        (
            lambda: sp.batches(X[:7], Y),
            "labels 'y' has the label 'r7', which is missing from dimension 'row' of input 'X'",
        ),
        (
            lambda: sp.batches({"a": X, "b": X[2:]}),
            "input 'b' has no label 'r0', which dimension 'row' of input 'a' has",
        ),
        (lambda: sp.training.train_test_split(X, Y[1:]), "y has no label 'r0', which dimension 'row' of X has"),
        (lambda: sp.training.train_test_split(X, stratify=Y[1:]), "stratify has no label 'r0'"),
    ):
        with pytest.raises(LabelError, match=words):
            call()
