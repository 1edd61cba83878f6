"""Plan rewrites: views pushed into operands, and plans optimized once."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow import engines
from sparrow.core.indexing import View
from sparrow.plan import Concat, Map, Reduce, Triangle, nodes_below, optimize_plan, push_index, split_view

SHAPE = (6, 5, 4)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...] = SHAPE) -> tuple[Any, ...]:
    """Draw an index of integers and slices, no slice empty."""
    key: list[Any] = []
    for n in shape:
        start = draw(st.integers(0, n - 1))
        if draw(st.integers(0, 3)) == 0:
            key.append(start)
            continue
        step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        stop = draw(st.integers(start + 1, n) if step > 0 else st.sampled_from([None, *range(start)]))
        key.append(slice(start, stop, step))
    return tuple(key)


@given(st.data(), st.permutations(range(3)), st.booleans())
def test_split_view_into_index_and_rest(data: st.DataObject, order: list[int], listed: bool) -> None:
    key = data.draw(keys(tuple(SHAPE[k] for k in order)))
    dense = np.arange(120).reshape(SHAPE)
    view = View.identity(SHAPE).permute(order).then(key)
    shown = np.transpose(dense, order)[key]
    if view.ndim and listed:
        at = ([0, view.shape[0] - 1, 0],)
        view, shown = view.then((*at, None)), shown[(*at, None)]
    first, rest = split_view(view)
    found = sp.asarray(dense[first]) if np.ndim(dense[first]) else sp.asarray(dense)[first]
    if not view.ndim:
        assert found == shown
        return
    assert rest.base_shape == found.shape
    np.testing.assert_array_equal(sp.Tensor(found._base, rest).to_numpy(), shown)


def steps(dense: Any) -> list[tuple[Any, Any]]:
    """Return expressions of three axes, each with the expected array."""
    A: Any = sp.asarray(dense)
    return [
        (A + A * 2, dense * 3),
        (A * dense[0], dense * dense[0]),
        (A.sum(axis=1, keepdims=True), dense.sum(axis=1, keepdims=True)),
        ((A[..., None] * np.arange(3)).max(axis=1), (dense[..., None] * np.arange(3)).max(axis=1)),
        (sp.concat([A, A[1:3], A], 0), np.concatenate([dense, dense[1:3], dense], 0)),
        (sp.concat([A, A[:, :2]], 1), np.concatenate([dense, dense[:, :2]], 1)),
        (sp.triu(A, 1), np.triu(dense, 1)),
        (sp.tril(A), np.tril(dense)),
    ]


@given(st.data(), st.integers(0, 2**16))
def test_push_index_equals_indexing(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(-3, 4, SHAPE) * (rng.random(SHAPE) < 0.5)
    for tensor, expected in steps(dense):
        key = data.draw(keys(expected.shape))
        node = tensor.__sparrow_scan__().step
        pushed = push_index(node, key)
        if pushed is None:
            assert isinstance(node, Concat | Triangle)
            continue
        assert isinstance(pushed, Map | Reduce | Concat | Triangle)
        assert pushed.schema.shape == expected[key].shape
        # The SQL engine computes a node from its definition alone.
        found = engines.evaluate(sp.Tensor(pushed).__sparrow_scan__(), "duckdb")
        out = np.zeros(pushed.schema.shape, pushed.schema.dtype)
        if out.ndim or found.count:
            out[found.coords] = found.values if out.ndim else found.values[0]
        np.testing.assert_array_equal(out, expected[key])


@given(st.data(), st.integers(0, 2**16))
def test_optimized_plan_is_optimized_to_itself(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(-3, 4, SHAPE) * (rng.random(SHAPE) < 0.5)
    for tensor, expected in steps(dense):
        found = tensor[data.draw(keys(expected.shape))]
        if not found.ndim:
            continue
        for view in (found, found.T, found[[0, -1, 0]], (found + found.T.T)[..., None]):
            once = optimize_plan([view.__sparrow_scan__()])
            again = optimize_plan(once)
            assert nodes_below(again) == nodes_below(once)
            assert [scan.view for scan in again] == [scan.view for scan in once]
