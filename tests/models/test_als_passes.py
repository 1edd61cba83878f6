from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.kernels.graph.adjacency import part_bounds, row_block_bounds
from sparrow.models import ALS
from sparrow.models.als_data import HEIGHT, Links, room_for
from tests.models import als_reference as reference

SMALL = 50_000
"""A buffer that leaves room for few parts and streams everything."""


def tensor(dense: Any) -> sp.Tensor:
    at = np.nonzero(dense)
    return sp.from_coords(at, dense[at], shape=dense.shape)


def links_of(A: sp.Tensor, budget: int, digest: bool = False) -> Links:
    return Links(A.__sparrow_scan__(), A.T.__sparrow_scan__(), 8, budget, budget, digest)


def gathered(links: Links, transposed: bool, shape: tuple[int, int]) -> Any:
    """Return what the parts of a side say, as a matrix, after a look at how they are cut."""
    side = links.cols if transposed else links.rows
    out = np.zeros(shape[::-1] if transposed else shape)
    row = block = 0
    for part in side.parts():
        assert (part.first, part.block) == (row, block)
        assert part.indptr[0] == part.cuts[0] == 0
        assert part.indptr[-1] == len(part.cols)
        assert len(part.values) == (len(part.cols) if links.weighted else 0)
        for k in range(len(part.indptr) - 1):
            at = slice(part.indptr[k], part.indptr[k + 1])
            assert (np.diff(part.cols[at]) > 0).all()
            out[row + k, part.cols[at]] = part.values[at] if links.weighted else 1
        row += len(part.indptr) - 1
        block += len(part.cuts) - 1
    assert (row, block) == (side.rows, side.blocks)
    return out


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    dense = reference.matrix(900, 700, 12, seed=2, weighted=True).round(1)
    folder = tmp_path_factory.mktemp("stored")
    A = tensor(dense)
    return {
        "dense": dense,
        "memory": A,
        "one order": A.save(folder / "one"),
        "both orders": A.save(folder / "both", orders=[(1, 0)]),
    }


@pytest.mark.parametrize("budget", [10**9, SMALL])
@pytest.mark.parametrize("kind", ["memory", "one order", "both orders", "view", "turned", "expression"])
def test_both_passes_give_every_link(stored: dict[str, Any], kind: str, budget: int) -> None:
    dense = stored["dense"]
    special = {
        "view": (lambda: (stored["both orders"][100:, 5:600], dense[100:, 5:600])),
        "turned": (lambda: (stored["one order"].T, dense.T)),
        "expression": (lambda: (stored["one order"] * 3, dense * 3)),
    }
    A, wanted = special[kind]() if kind in special else (stored[kind], dense)
    links = links_of(A, budget)
    try:
        assert links.count == (wanted != 0).sum()
        assert links.kept == (budget > SMALL and kind != "expression")
        for _ in range(2):
            assert np.allclose(gathered(links, False, wanted.shape), wanted)
            assert np.allclose(gathered(links, True, wanted.shape), wanted.T)
    finally:
        links.close()


@pytest.mark.parametrize("solver", ["cg", "exact", "subspace"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("weighted", [False, True])
def test_streamed_gives_the_bits_of_what_is_kept(
    stored: dict[str, Any], solver: Any, dtype: Any, weighted: bool, tmp_path: Path
) -> None:
    found = set()
    ones = (stored["dense"] != 0).astype(float)
    both = stored["both orders"] if weighted else tensor(ones).save(tmp_path / "ones", orders=[(1, 0)])
    one = stored["one order"] if weighted else tensor(ones)
    for A, buffer in ((both, None), (both, SMALL), (one, SMALL), (expression(one), SMALL)):
        with sp.config(threads=1 if A is one else 2):
            model = ALS(16, epochs=2, solver=solver, dtype=dtype, buffer=buffer).fit(A)
        found.add((model.user_factors.tobytes(), model.item_factors.tobytes(), model.loss_.tobytes()))
    assert len(found) == 1


def expression(A: sp.Tensor) -> sp.Tensor:
    out: sp.Tensor = A + sp.zeros(A.shape)
    return out


def test_rows_longer_than_every_buffer() -> None:
    rng = np.random.default_rng(0)
    dense = (rng.random((6, 40_000)) < 0.9).astype(float)
    dense[4] = rng.random(40_000) < 1e-3
    found = []
    for solver in ("cg", "exact", "subspace"):
        options: dict[str, Any] = {"factors": 4, "solver": solver, "regularization": 1.0, "epochs": 2, "cg_steps": 12}
        kept = ALS(**options).fit(tensor(dense))
        streamed = ALS(**options, buffer=SMALL).fit(tensor(dense))
        assert (kept.user_factors == streamed.user_factors).all()
        found.append(kept.user_factors @ kept.item_factors.T)
        # The items come last and are exact; the users are solved from them once more.
        wanted = reference.solve(dense, kept.item_factors, 1.0, 1e-3)
        assert reference.distance(kept.fold_in(dense), wanted) < 1e-5
    assert np.abs(found[0] - found[1]).max() < 1e-2
    assert np.abs(found[2] - found[1]).max() < 1e-2


def test_the_digest_is_that_of_the_links_wherever_they_are(stored: dict[str, Any]) -> None:
    def digest(A: sp.Tensor, budget: int = 10**9, wanted: bool = True) -> str:
        links = links_of(A, budget, wanted)
        links.close()
        return links.digest

    kinds = ("memory", "one order", "both orders")
    found = {digest(stored[kind], budget) for kind in kinds for budget in (10**9, SMALL)}
    assert len(found) == 1
    assert digest(stored["memory"].T) not in found
    assert digest(stored["memory"] * 2) not in found
    assert digest(stored["memory"], wanted=False) == ""


@given(
    st.lists(st.integers(0, 40), max_size=60), st.integers(1, 8), st.integers(1, 60), st.integers(1, 20),
    st.integers(1, 100),
)  # fmt: skip
def test_blocks_and_parts_are_within_their_bounds(
    counts: list[int], height: int, links: int, span: int, part: int
) -> None:
    indptr = np.concatenate([[0], np.cumsum(np.array(counts, np.int64))]).astype(np.int64)
    cuts = row_block_bounds(indptr, height, links, span)
    assert cuts[0] == 0
    assert cuts[-1] == len(counts)
    assert (np.diff(cuts) > 0).all() or not counts
    for low, high in itertools.pairwise(cuts):
        inside = np.array(counts[low:high])
        assert high - low <= span
        assert (inside > 0).sum() <= height
        assert inside.sum() <= links or (inside > 0).sum() == 1
    parts = part_bounds(indptr, cuts, part, span)
    assert (parts[0], parts[-1]) == (0, len(cuts) - 1)
    for low, high in itertools.pairwise(cuts[parts]):
        single = high in cuts and np.searchsorted(cuts, high) - np.searchsorted(cuts, low) == 1
        assert single or (sum(counts[low:high]) <= part and high - low <= span)


def test_blocks_are_as_documented() -> None:
    assert HEIGHT == 64
    assert room_for(128) == 1024
    assert room_for(10_000) == 64
