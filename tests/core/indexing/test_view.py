"""The index algebra against NumPy."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.core.indexing import Box, ListAxis, NewAxis, Points, View
from sparrow.errors import IndexingError, InvalidValueError, ShapeError
from sparrow.testing import strategy

CORPUS = json.loads((Path(__file__).parent.parent.parent / "conformance" / "index.json").read_text(encoding="utf-8"))


def parse_item(part: Any) -> Any:
    if isinstance(part, list):
        return part
    if part == "new":
        return None
    if part == "...":
        return Ellipsis
    if ":" in part:
        return slice(*(int(text) if text else None for text in part.split(":")))
    return int(part)


def parse_key(parts: list[Any]) -> tuple[Any, ...]:
    return tuple(parse_item(part) for part in parts)


def materialize(view: View, base: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the elements of a view, checking that each occurs exactly once."""
    coords = tuple(np.indices(base.shape).reshape(base.ndim, base.size)) if base.ndim else ()
    placed, elements = view.from_base(coords, base.size)
    values = base.reshape(-1) if elements is None else base.reshape(-1)[elements]
    assert len(values) == view.size
    out = np.full(view.size, -1, dtype=base.dtype)
    at = np.ravel_multi_index(placed, view.shape) if view.ndim else np.zeros(len(values), int)
    assert len(np.unique(at)) == len(at)
    out[at] = values
    return out.reshape(view.shape)


def test_corpus_is_complete() -> None:
    assert len(CORPUS["cases"]) >= 30
    assert len(CORPUS["errors"]) >= 5


@pytest.mark.parametrize("case", CORPUS["cases"], ids=lambda case: case["name"])
def test_conformance(case: dict[str, Any]) -> None:
    base = np.array(case["dense"]) if "dense" in case else np.arange(np.prod(case["shape"])).reshape(case["shape"])
    view = View.identity(base.shape)
    mode: Any = {"oindex": "orthogonal"}.get(case.get("mode", ""), "paired")
    for parts in case["keys"]:
        view = view.then(parse_key(parts), mode)
    if "result" in case:
        assert materialize(view, base).tolist() == case["result"]
    if "result_shape" in case:
        assert list(view.shape) == case["result_shape"]
    if "fixed" in case:
        assert [list(pair) for pair in view.fixed] == case["fixed"]
    if "new" in case:
        assert [k for k, axis in enumerate(view.axes) if isinstance(axis, NewAxis)] == case["new"]
    for of_view, of_base in case.get("to_base", []):
        assert [int(c[0]) for c in view.to_base([np.array([k]) for k in of_view])] == of_base


@pytest.mark.parametrize("case", CORPUS["errors"], ids=lambda case: case["name"])
def test_conformance_errors(case: dict[str, Any]) -> None:
    view = View.identity(case["shape"])
    for parts in case["keys"][:-1]:
        view = view.then(parse_key(parts))
    with pytest.raises(IndexError) as caught:
        view.then(parse_key(case["keys"][-1]))
    assert isinstance(caught.value, IndexingError)
    for words in case["says"]:
        assert words in str(caught.value)


def index_items(size: int, lists: bool) -> st.SearchStrategy[Any]:
    bound = st.one_of(st.none(), st.integers(-size - 2, size + 2))
    step = st.one_of(st.none(), st.integers(-3, 3).filter(bool))
    options: list[st.SearchStrategy[Any]] = [st.builds(slice, bound, bound, step)]
    if size:
        options.append(st.integers(-size, size - 1))
    if lists:
        options.append(st.lists(st.booleans(), min_size=size, max_size=size).map(lambda m: np.array(m, dtype=bool)))
        inside = st.integers(-size, size - 1) if size else st.nothing()
        options.append(st.lists(inside, max_size=4) if size else st.just([]))
        options.append(
            st.lists(inside, min_size=2, max_size=2).map(lambda v: np.array(v)[:, None]) if size else st.just([])
        )
    return st.one_of(options)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...], lists: bool = True) -> Any:
    parts: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        if draw(st.integers(0, 5)) == 0:
            parts.append(None)
        parts.append(draw(index_items(size, lists)))
    if draw(st.integers(0, 3)) == 0:
        rest = len(shape) - sum(part is not None for part in parts)
        tail = draw(st.integers(0, min(1, rest)))
        parts.append(Ellipsis)
        parts.extend(draw(index_items(size, lists)) for size in shape[len(shape) - tail :] if tail)
    return tuple(parts)


def assume_valid(base: np.ndarray[Any, Any], key: Any) -> Any:
    try:
        base[key]
    except IndexError:
        assume(False)
    return key


SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(st.data(), SHAPES, st.integers(1, 4))
def test_nested_indexes_equal_numpy(data: st.DataObject, shape: tuple[int, ...], depth: int) -> None:
    base = np.arange(int(np.prod(shape))).reshape(shape)
    view, expected = View.identity(shape), base
    for _ in range(depth):
        if expected.ndim > 6:
            break
        key = data.draw(keys(expected.shape), label="key")
        try:
            found = expected[key]
        except IndexError:
            with pytest.raises(IndexError):
                view.then(key)
            return
        view, expected = view.then(key), np.asarray(found)
        assert view.shape == expected.shape
        assert np.array_equal(materialize(view, base), expected)
        if expected.size:
            positions = tuple(np.indices(expected.shape).reshape(expected.ndim, expected.size)) if expected.ndim else ()
            coords = view.to_base(positions)
            assert np.array_equal(np.ravel(base[coords]) if shape else base.reshape(1), expected.reshape(-1))
            assert view.box().contains(coords).all()


@given(st.data(), SHAPES)
def test_orthogonal_is_outer_product(data: st.DataObject, shape: tuple[int, ...]) -> None:
    base = np.arange(int(np.prod(shape))).reshape(shape)
    key = tuple(data.draw(index_items(size, True).filter(lambda p: np.ndim(p) < 2)) for size in shape)
    positions = [np.arange(n)[part] for n, part in zip(shape, key, strict=True)]
    expected = base[np.ix_(*(np.atleast_1d(p) for p in positions))] if shape else base
    expected = expected.reshape(tuple(len(p) for p in positions if p.ndim))
    view = View.identity(shape).then(key, "orthogonal")
    assert np.array_equal(materialize(view, base), expected)


@given(st.data(), st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple))
def test_crossed_arrays_equal_numpy_and_keep_axes(data: st.DataObject, shape: tuple[int, ...]) -> None:
    base = np.arange(int(np.prod(shape))).reshape(shape)
    view, expected = View.identity(shape), base
    if data.draw(st.booleans(), label="of lists"):
        lists = [data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3)) for n in shape]
        view, expected = view.then(tuple(lists), "orthogonal"), base[np.ix_(*lists)]
    crossed = sorted(data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=2), label="axes"))
    arrays = np.ix_(*(data.draw(st.lists(st.integers(0, expected.shape[axis] - 1), max_size=3)) for axis in crossed))
    if data.draw(st.booleans(), label="without leading axes"):
        arrays = (*arrays[:-1], arrays[-1].reshape(-1))
    key: list[Any] = [data.draw(st.sampled_from([slice(None), slice(None, None, -1), 0])) for _ in shape]
    for axis, array in zip(crossed, arrays, strict=True):
        key[axis] = array
    found = view.then(tuple(key))
    assert np.array_equal(materialize(found, base), expected[tuple(key)])
    assert None not in found.sources  # each axis keeps its name and labels


@given(st.data(), st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple))
def test_pointwise_indexes_come_first(data: st.DataObject, shape: tuple[int, ...]) -> None:
    base = np.arange(int(np.prod(shape))).reshape(shape)
    lists = [data.draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=2)) for n in (shape[0], shape[-1])]
    key = (lists[0], *(slice(None),) * (len(shape) - 2), lists[1])
    view = View.identity(shape).then(key, "pointwise")
    assert np.array_equal(materialize(view, base), np.stack([base[i, ..., j] for i, j in zip(*lists, strict=True)]))


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
def test_permute_equals_transpose(data: st.DataObject, shape: tuple[int, ...]) -> None:
    base = np.arange(int(np.prod(shape))).reshape(shape)
    view = View.identity(shape).then(assume_valid(np.empty(shape), data.draw(keys(shape))))
    order = data.draw(st.permutations(range(view.ndim)))
    assert np.array_equal(materialize(view.permute(order), base), materialize(view, base).transpose(order))


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
def test_preserves_order(data: st.DataObject, shape: tuple[int, ...]) -> None:
    view = View.identity(shape).then(assume_valid(np.empty(shape), data.draw(keys(shape))))
    view = view.permute(data.draw(st.permutations(range(view.ndim))))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    coords = np.indices(shape).reshape(len(shape), -1)
    by_order = np.lexsort([coords[d] for d in reversed(order)])
    placed, _ = view.from_base(tuple(coords[:, by_order]))
    positions = list(zip(*(column.tolist() for column in placed), strict=True)) if view.ndim else []
    if view.preserves_order(order):
        assert positions == sorted(set(positions))


@given(st.data(), st.lists(st.integers(1, 3), max_size=3).map(tuple), st.lists(st.integers(0, 3), max_size=2))
def test_broadcast_equals_numpy(data: st.DataObject, shape: tuple[int, ...], more: list[int]) -> None:
    base = np.arange(int(np.prod(shape))).reshape(shape)
    key = assume_valid(base, data.draw(keys(shape)))
    view, expected = View.identity(shape).then(key), np.asarray(base[key])
    target = (*more, *(data.draw(st.integers(0, 3)) if n == 1 else n for n in expected.shape))
    broadcast = view.broadcast_to(target)
    assert np.array_equal(materialize(broadcast, base), np.broadcast_to(expected, target))
    for other in ((3,), (3, 2), ()):
        with pytest.raises(ShapeError, match="broadcast"):
            View.identity((2, 3, 2)[-len(other) - 1 :]).broadcast_to(other)


def test_full_slices_give_identity() -> None:
    view = View.identity((3, 4))
    assert view.then((slice(None), slice(None))) == view
    assert view.then(Ellipsis) == view
    assert view.then(slice(0, 3)).is_identity


def test_integer_beside_list_is_fixed() -> None:
    view = View.identity((5, 6, 7)).then((2, slice(None), [1, 1]))
    assert view.fixed == ((0, 2),)
    assert isinstance(view.axes[0], ListAxis)
    assert [group.dims for group in view.points] == [(2,)]


def test_index_huge_shapes() -> None:
    view = View.identity((2**62, 2**62, 2**62)).then((slice(2**61, None, 5), -1))
    coords = tuple(np.array([c]) for c in (2**61 + 10, 2**62 - 1, 7))
    placed, elements = view.from_base(coords)
    assert elements is None
    assert [int(c[0]) for c in placed] == [2, 7]


def test_box_of_view() -> None:
    box = View.identity((100, 100)).then((slice(90, 10, -4), [7, 3])).box()
    assert box == Box((range(14, 91, 4), range(3, 8)))
    assert box.intersects((90, 0), (99, 9))
    assert not box.intersects((91, 0), (99, 9))
    assert not View.identity((3, 3)).then(slice(2, 2)).box().intersects((0, 0), (2, 2))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6), st.integers(0, 8))
def test_points_match_keeps_order_and_repeats(wanted: list[tuple[int, int]], n: int) -> None:
    rng = np.random.default_rng(n)
    elements = rng.integers(0, 4, (2, n))
    columns = np.array(wanted, dtype=np.int64).reshape(-1, 2).T
    group = Points((0, 1), tuple(columns), (len(wanted),))
    found = sorted(zip(*(a.tolist() for a in group.match(tuple(elements))), strict=True))
    expected = sorted((e, p) for e in range(n) for p, point in enumerate(wanted) if point == tuple(elements[:, e]))
    assert found == expected


@pytest.mark.parametrize("name", ["points_table", "points_bisection"])
@given(st.lists(st.integers(-3, 3), max_size=6), st.integers(0, 8))
def test_points_of_one_dimension_match_by_either_strategy(name: str, wanted: list[int], n: int) -> None:
    elements = np.sort(np.random.default_rng(n).integers(0, 8, n))
    points = np.array(wanted, dtype=np.int64) + 3
    with strategy(name):
        found = Points((0,), (points,), points.shape).match((elements,))
    assert found[0].tolist() == sorted(found[0].tolist())
    pairs = sorted(zip(*(a.tolist() for a in found), strict=True))
    assert pairs == [(e, p) for e in range(n) for p in range(len(points)) if points[p] == elements[e]]


@pytest.mark.parametrize("key", ["a", 1.5, [0.5], [[0, 1], [0]], slice(0.5, 2), object()])
def test_invalid_index_raises(key: Any) -> None:
    with pytest.raises(IndexingError):
        View.identity((3, 3)).then(key)


def test_errors_name_dimensions() -> None:
    with pytest.raises(IndexingError, match=r"dimension 1 \('dst'\) of size 4"):
        View.identity((3, 4)).then((0, 9), names=("src", "dst"))


def test_sliced_dims() -> None:
    view = View.identity((4, 3))
    assert view.sliced_dims == view.permute((1, 0)).sliced_dims == view.insert_axes((0, 3)).sliced_dims == frozenset()
    assert view.then(slice(1, 3)).sliced_dims == frozenset({0})
    assert view.then((None, slice(1, 3), slice(2))).permute((2, 0, 1)).sliced_dims == frozenset({0, 1})
    keys: list[Any] = [1, slice(None, None, -1), slice(None, None, 2), [0, 1], (slice(None), [True, False, True])]
    for key in keys:
        assert view.then(key).sliced_dims is None
    assert view.then(None).broadcast_to((5, 4, 3)).sliced_dims is None


def test_element_fast_path_equals_parsing() -> None:
    for view in (View.identity((2, 3)), View.identity((2, 3)).then((slice(None, None, -1), slice(1, None)))):
        for at in itertools.product(*(range(-n, n) for n in view.shape)):
            assert view.then(at) == view.then((*at, ...))
        for at in ((2, 0), (0, -4), (-3, 0)):
            with pytest.raises(IndexingError):
                view.then(at)


def test_ranges_and_zero_step() -> None:
    base = np.arange(12).reshape(4, 3)
    A = sp.asarray(base)
    assert np.array_equal(A[range(3, 0, -2), range(2)].to_numpy(), base[range(3, 0, -2), range(2)])
    A[range(2)] = 5
    base[range(2)] = 5
    assert np.array_equal(A.to_numpy(), base)
    with pytest.raises(InvalidValueError, match="slice step cannot be zero"):
        A[::0]
    with pytest.raises(IndexingError, match="bounds of a slice must be integers"):
        A[1.0:2]
