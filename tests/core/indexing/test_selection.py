"""Selections against the coordinates that a view shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparrow.core.indexing import Selection, View

SHAPE = (7, 5, 4)
KEYS: dict[str, Any] = {
    "rows": ([5, 0, 1, 5],),
    "columns": (slice(1, 6, 2), [3, 0]),
    "both": np.ix_([6, 2], [4, 4, 0]),
    "pairs": ([6, 2, 6], [4, 4, 4]),
    "beside an integer": (3, [1, 2]),
    "a mask": (np.arange(35).reshape(7, 5) % 4 == 1,),
    "far apart": (slice(None), [0, 4], [3, 0]),
    "new axis": (None, [2, 2]),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
def test_selection_is_what_a_view_shows(key: Any) -> None:
    view = View.identity(SHAPE).then(key)
    selection = Selection(view)
    everywhere = tuple(column.reshape(-1) for column in np.indices(SHAPE))
    shown = {tuple(at) for at in np.transpose(view.to_base(np.ones(view.shape, bool).nonzero())).tolist()}
    inside = {tuple(at) for at in np.transpose(everywhere)[selection.contains(everywhere)].tolist()}
    assert inside == shown
    assert selection.size == len(shown)
    assert sorted(zip(*(column.tolist() for column in selection.coordinates()), strict=True)) == sorted(shown)
    for limit in (1, 2, 100):
        parts = selection.parts(limit)
        assert len(parts) <= limit
        assert all(any(part.contains([np.array([x]) for x in at])[0] for part in parts) for at in shown)
    assert selection != Selection(view)


@given(st.sampled_from(sorted(KEYS)), st.data())
def test_selection_meets_and_covers_bounds(name: str, data: st.DataObject) -> None:
    selection = Selection(View.identity(SHAPE).then(KEYS[name]))
    low = [data.draw(st.integers(0, n - 1)) for n in SHAPE]
    high = [data.draw(st.integers(lo, n - 1)) for lo, n in zip(low, SHAPE, strict=True)]
    within = np.stack(np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(low, high, strict=True)), indexing="ij"))
    inside = selection.contains([column.reshape(-1) for column in within])
    assert selection.intersects(low, high) or not inside.any()
    assert not selection.covers(low, high) or inside.all()
    if name in ("rows", "columns", "both"):
        assert selection.intersects(low, high) == bool(inside.any()) or name == "columns"
        assert selection.covers(low, high) == bool(inside.all()) or name == "columns"
