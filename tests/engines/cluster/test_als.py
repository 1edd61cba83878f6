"""ALS in rounds of tasks: the bits of a fit in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.engines.cluster import Cluster
from sparrow.errors import ConvergenceError, InvalidValueError
from sparrow.models import ALS
from sparrow.models.evaluation import evaluate, split
from tests.engines.cluster.helpers import RATINGS, bits, small_half_steps
from tests.engines.cluster.here import Here
from tests.models import als_reference as reference

OPTIONS: dict[str, Any] = {"factors": 4, "epochs": 2, "unobserved_weight": 0.1, "init": "normal"}


class Slots(Here):
    """Tasks in this process, as many as a cluster of a number of slots runs."""

    def __init__(self, slots: int) -> None:
        self.slots = slots


@pytest.fixture(scope="module", autouse=True)
def in_tasks() -> Iterator[None]:
    engines.register(Cluster("here", Slots))
    with small_half_steps(), sparrow.testing.strategy("tiny_tasks"), sp.config(cluster=2):
        yield
    engines.unregister("here")


def rounds_of(seen: list[Any]) -> list[str]:
    return [type(details["work"]).__name__ for _, details in seen]


@pytest.mark.parametrize(
    ("options", "rounds"),
    [
        ({"solver": "cg"}, ["Statistics", *["Rotation", "HalfStep"] * 4]),
        ({"solver": "exact"}, ["Statistics", *["Rotation", "HalfStep"] * 4]),
        ({"solver": "subspace", "block": 3}, ["Statistics", *["Rotation", "HalfStep"] * 4]),
        ({"solver": "exact", "regularization": 1e-9, "unobserved_weight": 1e-9},
         ["Statistics", *["Statistics", "HalfStep"] * 4]),
        ({"unobserved_weight": 0, "biases": True}, ["RowSums", "Statistics", *["HalfStep"] * 4]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_same_bits_as_in_one_process(options: dict[str, Any], rounds: list[str], dtype: Any) -> None:
    options = {**OPTIONS, **options, "dtype": dtype}
    expected = ALS(**options, engine="stream").fit(RATINGS)
    with sp.config(engine="here"), sparrow.testing.observe("cluster.round") as seen:
        found = ALS(**options).fit(RATINGS)
    assert bits(found) == bits(expected)
    assert expected.rounds_ == []
    assert [each["work"] for each in found.rounds_] == [name.lower() for name in rounds_of(seen)]
    assert {each["retries"] for each in found.rounds_} == {0}
    assert [name for name in rounds_of(seen) if name in ("RowSums", "Statistics", "Rotation", "HalfStep")] == rounds
    assert min(details["tasks"] for name, details in seen if type(details["work"]).__name__ == "HalfStep") >= 4
    assert not found.user_factors_[~RATINGS.any(axis=1), :4].any()
    np.testing.assert_array_equal(found.fold_in(RATINGS[:5]), expected.fold_in(RATINGS[:5]))


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_long_rows_are_solved_exactly(alpha: float) -> None:
    for solver in ("cg", "exact", "subspace"):
        model = ALS(**{**OPTIONS, "unobserved_weight": alpha, "solver": solver}, engine="stream").fit(RATINGS.T)
        long = (RATINGS != 0).sum(axis=1) > (64 if solver != "exact" else -1)
        expected = reference.solve(RATINGS, model.user_factors_, 0.2, alpha)
        assert long.any()
        assert reference.distance(model.item_factors_[long], expected[long]) < 1e-5
        loss = reference.objective(RATINGS.T, model.user_factors_, model.item_factors_, 0.2, alpha)
        assert model.loss_[-1] == pytest.approx(loss, rel=1e-5)


@hypothesis_settings(max_examples=15)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 99), st.sampled_from(["cg", "exact", "subspace"]),
       st.booleans(), st.booleans(), st.integers(1, 3), st.integers(1, 80), st.sampled_from([0.0, 0.01]))  # fmt: skip
def test_any_number_of_slots(
    height: int, width: int, seed: int, solver: Any, biases: bool, weighted: bool, slots: int, chunk: int, alpha: float
) -> None:
    dense = reference.matrix(height, width, 3, seed=seed, weighted=weighted, empty=0.3)
    biases = biases and alpha == 0
    options = {**OPTIONS, "epochs": 1, "solver": solver, "biases": biases, "unobserved_weight": alpha, "block": 3}
    with sparrow.testing.tune("models", als_chunk_ratings=chunk, table_chunk_rows=max(chunk // 3, 1)):
        expected = bits(ALS(**options, engine="stream").fit(dense))
        with sp.config(engine="here", cluster=slots):
            assert bits(ALS(**options).fit(dense)) == expected


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, sp.Tensor]:
    folder = tmp_path_factory.mktemp("ratings")
    at = np.nonzero(RATINGS)
    names = {"user": [f"u{k}" for k in range(300)], "film": [f"f{k}" for k in range(200)]}
    A = sp.from_coords(at, RATINGS[at], shape=RATINGS.shape, dims=["user", "film"], labels=names)
    with sp.config(engine="stream"):
        return {"memory": A, "one order": A.save(folder / "one"), "both": A.save(folder / "both", orders=[(1, 0)])}


@pytest.mark.parametrize("kind", ["memory", "one order", "both", "view", "transposed", "expression", "nan"])
def test_ratings_of_any_kind(kind: str, tensors: dict[str, sp.Tensor], tmp_path: Path) -> None:
    kinds: dict[str, Any] = {
        **tensors, "view": tensors["both"][20:, 5:180], "transposed": tensors["one order"].T,
        "expression": tensors["one order"] * 3 + tensors["both"],
        "nan": sp.asarray(np.where(RATINGS, RATINGS.round(), np.nan), fill_value=np.nan),
    }  # fmt: skip
    options = {**OPTIONS, "epochs": 1} | ({"unobserved_weight": 0} if kind == "nan" else {})
    expected = ALS(**options, engine="stream").fit(kinds[kind])
    with sp.config(engine="here", scratch=tmp_path):
        found = ALS(**options).fit(kinds[kind])
    assert bits(found) == bits(expected)
    assert os.listdir(tmp_path) == []
    for side in ("row", "item"):
        assert found.labels(side) == expected.labels(side)


@pytest.mark.parametrize("engine", ["processes", "stream"])
def test_processes_and_checkpoints(engine: Any, tensors: dict[str, sp.Tensor], tmp_path: Path) -> None:
    other: Any = "stream" if engine == "processes" else "processes"
    options = {**OPTIONS, "biases": True, "unobserved_weight": 0}
    expected = bits(ALS(**options, engine="stream").fit(tensors["one order"]))
    first = ALS(**{**options, "epochs": 1}, engine=engine, checkpoint=tmp_path).fit(tensors["one order"])
    assert len(first.loss_) == 2
    with sparrow.testing.observe("models.half_step") as steps:
        found = ALS(**options, engine=other, checkpoint=tmp_path, memory_map=tmp_path / "tables").fit(tensors["both"])
    assert bits(found) == expected
    assert len(steps) == 2  # the others are in the checkpoint
    with pytest.raises(InvalidValueError, match="different data"):
        ALS(**options, engine=engine, checkpoint=tmp_path).fit(tensors["both"] * 2)


def test_recall() -> None:
    parts = split((RATINGS > 0).astype(float), test=0.2)
    scores = []
    for engine in ("stream", "here"):
        with sp.config(engine=engine):
            scores.append(evaluate(ALS(**OPTIONS).fit(parts.train), parts.test, [5], [5], baseline=False))
    assert scores[0] == scores[1]


def test_interrupt_leaves_nothing(tensors: dict[str, sp.Tensor], tmp_path: Path) -> None:
    def interrupt(work: Any, **details: Any) -> None:
        if type(work).__name__ == "HalfStep":
            assert os.listdir(tmp_path) != []
            raise KeyboardInterrupt

    with (
        sp.config(scratch=tmp_path),
        sparrow.testing.on("cluster.round", interrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        ALS(**OPTIONS, engine="processes").fit(tensors["both"])
    assert os.listdir(tmp_path) == []


def test_errors_of_tasks() -> None:
    for engine in ("stream", "here"):
        with sp.config(engine=engine):
            bad = np.where(RATINGS, RATINGS, 0.0)
            bad[250, 7] = 1e300
            with pytest.raises(InvalidValueError, match=r"finite in float32, got 1e\+300 at \(250, 7\): remove it"):
                ALS(**OPTIONS).fit(bad)
            with pytest.raises(ConvergenceError, match=r"raise regularization \(now 1e-30\)"):
                ALS(8, 1e-30, unobserved_weight=0, epochs=5).fit(np.eye(40) * 1e30)


def test_small_fits_run_in_this_process() -> None:
    with (
        sparrow.testing.tune("models", als_task_products=10**6),
        sp.config(engine="here"),
        sparrow.testing.observe("cluster.round") as seen,
    ):
        ALS(**OPTIONS).fit(RATINGS)
    assert seen == []


def test_memory_bounds_the_rows_of_a_task(tensors: dict[str, sp.Tensor]) -> None:
    with (
        sparrow.testing.tune("models", als_gather_share=1e6, als_task_products=4000),
        sp.config(cluster=1),
        sparrow.testing.observe("cluster.round") as seen,
    ):
        expected = bits(ALS(**OPTIONS, engine="stream").fit(tensors["both"]))
        with sp.config(engine="here"):
            assert bits(ALS(**OPTIONS).fit(tensors["both"])) == expected
    assert min(details["tasks"] for _, details in seen if type(details["work"]).__name__ == "Rotation") >= 4


@pytest.mark.parametrize("biases", [False, True])
def test_rankings_in_tasks(biases: bool, tensors: dict[str, sp.Tensor], tmp_path: Path) -> None:
    R = tensors["both"]
    options = {**OPTIONS, "biases": biases, "unobserved_weight": 0 if biases else 0.1, "dtype": "bfloat16"}
    model = ALS(**options, engine="stream").fit(R)
    found = []
    for engine in ("stream", "here"):
        with (
            sparrow.testing.tune("models", rank_task_products=1, topk_block_rows=32, topk_block_items=50),
            sp.config(engine=engine, scratch=tmp_path),
            sparrow.testing.observe("cluster.round") as seen,
        ):
            model.recommend_all(tmp_path / f"{engine}.parquet", 5)
            arrays = [
                *model.recommend(R[:90], 4, positions=True), *model.recommend(R, 3, exclude=R * 2, positions=True),
                *model.recommend(np.arange(100), 4, positions=True), *model.similar(np.arange(70), 3, positions=True),
            ]  # fmt: skip
        found.append(((tmp_path / f"{engine}.parquet").read_bytes(), [array.tobytes() for array in arrays]))
        ranked = [details["tasks"] for _, details in seen if type(details["work"]).__name__ == "Ranking"]
        assert ranked == ([] if engine == "stream" else [4, 2, 4, 3, 2])
    assert found[0] == found[1]
    assert sorted(os.listdir(tmp_path)) == ["here.parquet", "stream.parquet"]
