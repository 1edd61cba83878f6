"""Masks, indices and values that are tensors are matched by label, or raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import IndexingError, LabelError

xp: Any = np  # whose functions return tensors here
USERS, ITEMS = ["ann", "bob", "dan", "eve"], [30, 10, 20]
DENSE = np.arange(1.0, 13).reshape(4, 3)


def make_tensor(dense: Any, **labels: Any) -> sp.Tensor:
    array = np.asarray(dense)
    found = array.nonzero()
    given = {dim: names for dim, names in labels.items() if names is not None}
    return sp.from_coords(found, array[found], array.shape, dims=list(labels), labels=given)


def target() -> sp.Tensor:
    return make_tensor(DENSE, user=USERS, item=ITEMS)


def labels_of(tensor: sp.Tensor, dim: str) -> list[Any]:
    found = tensor.labels(dim)
    assert found is not None
    return list(found.to_pylist())


@st.composite
def masks(draw: st.DrawFn, labels: list[Any], others: list[Any]) -> tuple[list[Any], dict[Any, bool]]:
    """Return the order of labels, and the value of each."""
    subset = draw(st.lists(st.sampled_from(labels), unique=True, min_size=1))
    order = draw(st.permutations([*subset, *draw(st.lists(st.sampled_from(others), unique=True))]))
    return order, {label: draw(st.booleans()) for label in order}


ROW_SELECTIONS: dict[str, Callable[[sp.Tensor, sp.Tensor], sp.Tensor]] = {
    "A[m]": lambda a, m: a[m],
    "A[m, ...]": lambda a, m: a[m, ...],
    "A.T[..., m].T": lambda a, m: a.T[..., m].T,
    "A[None, m][0]": lambda a, m: a[None, m][0],
    "isel": lambda a, m: a.isel(user=m),
    "oindex": lambda a, m: a.oindex[m],
    "vindex": lambda a, m: a.vindex[m],
    "compress": lambda a, m: xp.compress(m, a, axis=0),
    "delete": lambda a, m: xp.delete(a, ~m, axis=0),
    "view": lambda a, m: a[:][m],
    "lazy": lambda a, m: (a * 2)[m] / 2,
}


@given(masks(USERS, ["zoe", "tom"]), st.sampled_from(sorted(ROW_SELECTIONS)), st.booleans())
def test_masks_of_rows_select_by_label(drawn: Any, name: str, inverted: bool) -> None:
    order, chosen = drawn
    mask = make_tensor([chosen[label] for label in order], who=order)
    if inverted:
        mask = ~mask  # fill True: labels that it lacks are True
    if name == "delete":  # which keeps what the mask of deleted rows lacks
        wanted = [user for user in USERS if chosen.get(user, False) != inverted or (inverted and user not in chosen)]
    else:
        wanted = [user for user in USERS if chosen.get(user, False) != inverted]
    found = ROW_SELECTIONS[name](target(), mask)
    assert labels_of(found, "user") == wanted
    np.testing.assert_array_equal(found.to_numpy(), DENSE[[USERS.index(user) for user in wanted]])


@given(masks(USERS, ["zoe"]), masks(ITEMS, [40]))
def test_masks_of_both_axes(rows: Any, columns: Any) -> None:
    users, items = (make_tensor([chosen[label] for label in order], k=order) for order, chosen in (rows, columns))
    picked = [USERS.index(u) for u in USERS if rows[1].get(u)], [ITEMS.index(i) for i in ITEMS if columns[1].get(i)]
    np.testing.assert_array_equal(target().oindex[users, items].to_numpy(), DENSE[np.ix_(*picked)])
    changed, expected = target(), DENSE.copy()
    changed[users] = 0
    expected[picked[0]] = 0
    with changed.edit() as e:
        e[:, items] = -1
    expected[:, picked[1]] = -1
    np.testing.assert_array_equal(changed.to_numpy(), expected)
    grid = users[:, None] & items[None, :]
    np.testing.assert_array_equal(target()[grid].to_numpy(), DENSE[np.ix_(*picked)].ravel())
    np.testing.assert_array_equal(xp.extract(grid, target()).to_numpy(), DENSE[np.ix_(*picked)].ravel())
    expected[np.ix_(*picked)] = 7
    changed[grid] = 7
    np.testing.assert_array_equal(changed.to_numpy(), expected)


def test_masks_of_named_dimensions_match_by_name() -> None:
    a = target()
    mask = (a > 4) & (a < 11)
    for turned in (mask.T, mask[::-1].T, mask.T[::-1], mask.compute().T):
        assert a[turned].to_numpy().tolist() == [5, 6, 7, 8, 9, 10]
    square = make_tensor(np.eye(3, k=1, dtype=bool), u=None, v=None)
    with pytest.raises(LabelError, match="rename"):
        square[square.T]
    numbered = sp.asarray(np.eye(3, k=1, dtype=bool))
    assert numbered[numbered.T].to_numpy().tolist() == [False, False]  # default names go by position


def test_masks_that_cannot_match_raise() -> None:
    a = target()
    items = make_tensor([True, False, True], item=ITEMS)
    calls: list[Callable[[], Any]] = [
        lambda: a[items],
        lambda: a.isel(user=items),
        lambda: xp.compress(items, a, axis=0),
    ]
    for call in calls:
        with pytest.raises(LabelError, match=r"are int64 and string|are string and int64"):
            call()
    with pytest.raises(
        LabelError, match=r"mask of shape \(2,\) and dimension 'user' of the tensor of shape \(4, 3\) have"
    ):
        a[make_tensor([True, True], user=["tom", "zoe"])]
    with pytest.raises(LabelError, match="'ann' repeats"):
        a[make_tensor([True, True], user=["ann", "bob"])[[0, 0, 1]]]
    with sp.config(join="exact"):
        mask = make_tensor([True, False, True, False], user=USERS)
        assert labels_of(a[mask], "user") == ["ann", "dan"]
        with pytest.raises(LabelError, match="in different orders, and join='exact'"):
            a[mask[::-1]]
        with pytest.raises(LabelError, match="has no label 'ann', which dimension 'user'"):
            a[mask[1:]]
    with pytest.raises(IndexingError, match="mask has length 2, expected 4"):
        a[sp.asarray([True, False])]
    assert a[make_tensor([True, False, False, True], user=None)].shape == (2, 3)  # without labels: by position
    assert make_tensor(DENSE, user=None, item=None)[make_tensor([True] * 4, user=USERS)].shape == (4, 3)


@given(st.permutations(range(4)), st.permutations(range(4)))
def test_integer_tensors_pair_by_label(mine: list[int], theirs: list[int]) -> None:
    labels = ["p", "q", "r", "s"]
    rows, columns = [0, 3, 1, 2], [2, 0, 1, 1]
    i, j = (
        make_tensor(np.add(numbers, 10)[order], k=[labels[at] for at in order]) - 10
        for numbers, order in ((rows, mine), (columns, theirs))
    )
    wanted = [DENSE[rows[at], columns[at]] for at in mine]
    assert target()[i, j].to_numpy().tolist() == target().vindex[i, j].to_numpy().tolist() == wanted
    assert target().oindex[i, j].to_numpy().tolist() == DENSE[np.ix_(i.to_numpy(), j.to_numpy())].tolist()
    made = sp.from_coords([i, j], j + 1, shape=(4, 3))
    assert made.to_numpy()[rows, columns].tolist() == [column + 1 for column in columns]
    written = sp.zeros((4, 3))
    written.put([i, j], j + 1)
    with (other := sp.zeros((4, 3))).edit() as e:
        e.put([i, j], j + 1)
    np.testing.assert_array_equal(written.to_numpy(), made.to_numpy())
    np.testing.assert_array_equal(other.to_numpy(), made.to_numpy())
    with pytest.raises(LabelError, match=r"index 1, a tensor of shape .* has the label 'z'"):
        target()[i, make_tensor([1, 1, 1, 1], k=["z", "p", "q", "r"])]


@given(st.permutations(range(4)))
def test_values_per_row_match_by_label(order: list[int]) -> None:
    a, labels = target(), [USERS[at] for at in order]
    counts = make_tensor(np.array([1, 2, 3, 4])[order], user=labels)
    assert labels_of(xp.repeat(a, counts, axis=0), "user") == [u for k, u in enumerate(USERS) for _ in range(k + 1)]
    weights = make_tensor(np.array([1.0, 2, 3, 4])[order], user=labels)
    np.testing.assert_allclose(
        xp.average(a, axis=0, weights=weights), np.average(DENSE, axis=0, weights=[1.0, 2, 3, 4])
    )
    at = make_tensor(np.array([[1], [2], [2], [1]])[order], user=labels, k=None)
    found = xp.take_along_axis(a, at, 1)
    assert found.dims == ("user", "item")
    assert (labels_of(found, "user"), found.labels("item")) == (USERS, None)
    np.testing.assert_array_equal(found.to_numpy(), xp.take_along_axis(DENSE, np.array([[1], [2], [2], [1]]), 1))
    calls: list[Callable[[], Any]] = [
        lambda: xp.repeat(a, counts[1:], axis=0),
        lambda: xp.average(a, axis=0, weights=weights[1:]),
        lambda: xp.take_along_axis(a, at[1:], 1),
    ]
    for call in calls:
        with pytest.raises(LabelError, match=r"has no label '\w+', which dimension 'user' .* has"):
            call()


def test_dense_functions_of_numpy_match_by_label() -> None:
    a, rng = target(), np.random.default_rng(0)
    other = rng.random((2, 3))
    order = [2, 0, 1]
    more = make_tensor(other[:, order], test=["p", "q"], item=[ITEMS[at] for at in order])
    for function in (xp.cov, xp.corrcoef):
        np.testing.assert_allclose(function(a, more), function(DENSE, other))
        np.testing.assert_allclose(function(a.T, more.T, rowvar=False), function(DENSE, other))
    weights = make_tensor(np.array([1, 2, 3])[order], item=[ITEMS[at] for at in order])
    np.testing.assert_allclose(xp.cov(a, fweights=weights), xp.cov(DENSE, fweights=[1, 2, 3]))
    np.testing.assert_allclose(xp.cov(a, aweights=weights * 0.5), xp.cov(DENSE, aweights=[0.5, 1, 1.5]))
    np.testing.assert_allclose(xp.linalg.lstsq(a.T, weights)[0], np.linalg.lstsq(DENSE.T, [1, 2, 3])[0])
    square, right = rng.random((3, 3)), rng.random(3)
    A = make_tensor(square, item=ITEMS, k=None)
    b = make_tensor(right[order], item=[ITEMS[at] for at in order])
    np.testing.assert_allclose(xp.linalg.solve(A, b), np.linalg.solve(square, right))
    np.testing.assert_allclose(xp.linalg.tensorsolve(A, b), np.linalg.solve(square, right))
    np.testing.assert_allclose(xp.cross(A.T, b), xp.cross(square.T, right))
    np.testing.assert_allclose(A.T.matvec(b), square.T @ right)
    np.testing.assert_allclose(A.rmatvec(b), square.T @ right)
    calls: list[Callable[[], Any]] = [lambda: xp.cov(a, more[:, 1:]), lambda: xp.cross(A.T, b[1:])]
    for call in calls:
        with pytest.raises(LabelError, match="has no label"):
            call()


@given(st.data())
def test_labels_follow_views_of_lists(data: st.DataObject) -> None:
    view, dense, names = target(), DENSE, {"user": np.array(USERS), "item": np.array(ITEMS)}
    bound = st.one_of(st.none(), st.integers(-6, 6))
    for _ in range(data.draw(st.integers(1, 4), label="depth")):
        parts: list[Any] = []
        for size in view.shape:
            step = st.sampled_from([None, 1, 2, -1, -2])
            options: list[Any] = [st.builds(slice, bound, bound, step)]
            if size:
                options.append(st.lists(st.integers(-size, size - 1), max_size=3))
            parts.append(data.draw(st.one_of(options), label="part"))
        if all(isinstance(part, list) for part in parts):
            view = view[np.ix_(*(np.array(part, int) for part in parts))]
        else:
            view = view.oindex[tuple(parts)]
        for axis, (dim, part) in enumerate(zip(names, parts, strict=True)):
            at = np.arange(dense.shape[axis])[np.array(part, int) if isinstance(part, list) else part]
            dense, names[dim] = dense.take(at, axis), names[dim][at]
    assert view.dims == ("user", "item")
    np.testing.assert_array_equal(view.to_numpy(), dense)
    for dim, labels in names.items():
        assert labels_of(view, dim) == labels.tolist()


def test_outer_indices_align_by_label() -> None:
    a = target()
    part = a[np.ix_([2, 1, 0], [0, 1])]
    np.testing.assert_array_equal((a * part).to_numpy(), (DENSE**2)[np.ix_([0, 1, 2], [0, 1])])
    np.testing.assert_array_equal((a + part).sel(user=USERS, item=ITEMS)[:3, :2].to_numpy(), 2 * DENSE[:3, :2])
    changed = a.compute()
    changed[np.ix_([2, 1, 0], [0, 1])] = a[:3, :2] * 10
    np.testing.assert_array_equal(changed.to_numpy()[:3, :2], 10 * DENSE[:3, :2])


@pytest.mark.parametrize("library", ["pandas", "xarray"])
@given(order=st.permutations(range(4)))
def test_labels_of_other_libraries_match(library: str, order: list[int]) -> None:
    a, labels = target(), [USERS[at] for at in order]

    def make(values: Any) -> Any:
        values = np.asarray(values)[order]
        if library == "pandas":
            return pytest.importorskip("pandas").Series(values, index=labels)
        return pytest.importorskip("xarray").DataArray(values, dims="user", coords={"user": labels})

    mask, weights = make([True, False, True, False]), make([1.0, 2.0, 3.0, 4.0])
    for found in (a[mask], a.isel(user=mask), a.oindex[mask], xp.compress(mask, a, axis=0)):
        assert labels_of(found, "user") == ["ann", "dan"]
    np.testing.assert_array_equal(xp.repeat(a, make([1, 0, 2, 0]), axis=0).to_numpy(), DENSE[[0, 2, 2]])
    np.testing.assert_allclose(a.rmatvec(weights), DENSE.T @ [1.0, 2, 3, 4])
    changed = a.compute()
    changed[mask] = 0
    changed[:, 1] = weights
    with changed.edit() as e:
        e[:, 2] = weights
    expected = DENSE.copy()
    expected[[0, 2]] = 0
    expected[:, 1:] = [[1, 1], [2, 2], [3, 3], [4, 4]]
    np.testing.assert_array_equal(changed.to_numpy(), expected)
    model = sp.models.LinearRegression(epochs=1, optimizer="sgd", lr=0.01)
    np.testing.assert_array_equal(
        model.fit(a, weights, weights).coef_, model.fit(a, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]).coef_
    )
    classes = make(["no", "yes", "yes", "no"])
    assert sp.models.LogisticRegression(epochs=1).fit(a, classes).score(a, ["no", "yes", "yes", "no"]) >= 0
    batch = next(iter(sp.batches(a, classes, batch_size=4)))
    assert batch.y.tolist() == ["no", "yes", "yes", "no"]
    vector = a[:, 0]
    combined: list[Callable[[], Any]] = [
        lambda: vector + weights,
        lambda: np.add(vector, weights),
        *([lambda: weights + vector, lambda: np.add(weights, vector)] if library == "pandas" else []),
        lambda: a.T @ weights,
    ]
    for combine in combined:
        if order != sorted(order):
            with pytest.raises(LabelError, match="labels of dimension 'user' differ between the tensor and the"):
                combine()


def test_row_numbers_of_pandas_are_no_labels() -> None:
    pd = pytest.importorskip("pandas")
    series = pd.Series([5.0, 1.0, 6.0, 2.0, 7.0])
    rest = series[series != 6]  # with the row numbers 0, 1, 3, 4
    np.testing.assert_array_equal(target()[rest > 1].to_numpy(), DENSE[[0, 2, 3]])
    numbered = make_tensor(DENSE, user=[4, 3, 1, 0], item=ITEMS)  # where they compare with labels, they are some
    np.testing.assert_array_equal(numbered[rest > 1].to_numpy(), DENSE[[0, 1, 3]])
    np.testing.assert_array_equal(numbered[series[:4].reset_index(drop=True) > 1].to_numpy(), DENSE[[0, 2, 3]])
