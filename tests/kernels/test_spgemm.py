"""What is said of the rows of a product before any value is looked at, against a plain twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.kernels import spgemm
from sparrow.kernels.compiling import readonly


@pytest.mark.parametrize("masked", [False, True])
def test_products_of_short_rows_go_to_the_slot_of_their_column(masked: bool) -> None:
    rng = np.random.default_rng(3)
    lengths = np.array([0, 1, 2, 30, 7, 60, 1, 3])
    pointers = np.append(0, lengths.cumsum())
    places = rng.integers(0, 20, pointers[-1])
    heights = rng.integers(0, 6, 20)
    starts = np.append(0, heights.cumsum())
    columns = np.concatenate([np.sort(rng.choice(40, height, replace=False)) for height in heights])
    done = np.append(0, heights[places].cumsum())[pointers]
    off = [np.flatnonzero(rng.random(40) < 0.5 * masked) for _ in lengths]
    bounds = np.append(0, np.cumsum([len(each) for each in off]))
    cells = (bounds[:-1], bounds[1:]) if masked else (bounds[:0], bounds[:0])
    space, few = spgemm.Workspace(40, np.dtype(float)), 100
    kinds, sizes, slots, keys = space.plan(len(lengths), int(done[-1]))
    prepare: Any = spgemm.planned
    prepare(
        *(readonly(each.astype(kind)) for each, kind in [
            (pointers, np.uint64), (places, np.uint32), (starts, np.uint64), (columns, np.uint32),
            *((each, np.uint64) for each in cells), (np.concatenate(off), np.uint32), (done, np.uint64)]),
        True, np.uint64(few), space.order, space.counts, kinds, sizes, slots, keys,
    )  # fmt: skip
    slot = key = 0
    for i in range(len(lengths)):
        own = [columns[starts[k] : starts[k + 1]] for k in places[pointers[i] : pointers[i + 1]]]
        met = np.concatenate([*own, columns[:0]])
        alone = len(own) == 1 and not (masked and len(off[i]))
        wanted = spgemm.NOTHING if not len(met) else spgemm.ONE if alone else None
        if wanted is None:
            wanted = spgemm.FEW_PRODUCTS if len(met) <= few else spgemm.MANY
        assert kinds[i] == wanted
        if wanted != spgemm.FEW_PRODUCTS:
            continue
        kept = np.setdiff1d(met, off[i])
        np.testing.assert_array_equal(keys[key : key + sizes[i]], kept)
        first = np.zeros(len(met), bool)
        first[np.unique(met, return_index=True)[1]] = True
        found = slots[slot : slot + len(met)]
        np.testing.assert_array_equal(found >= 2 * spgemm.FEW, first)
        at = np.where(np.isin(met, kept), np.searchsorted(kept, met), spgemm.FEW)
        np.testing.assert_array_equal(found % (2 * spgemm.FEW), at)
        slot, key = slot + len(met), key + sizes[i]
    assert {*kinds} == {spgemm.NOTHING, spgemm.FEW_PRODUCTS, spgemm.MANY} | ({*kinds} & {spgemm.ONE})


def test_rows_of_more_products_than_columns_have_slots_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    room: list[tuple[int, int]] = []
    prepare: Any = spgemm.planned

    def watched(*args: Any) -> None:
        room.append((len(args[-2]), int(args[7][-1] - args[7][0])))
        prepare(*args)

    monkeypatch.setattr(spgemm, "planned", watched)
    found = (sp.asarray(np.ones((40, 5))) @ sp.asarray(np.ones((5, 3)))).compute()
    np.testing.assert_array_equal(found.to_numpy(), 5)
    assert room
    assert all(slots >= products for slots, products in room)
