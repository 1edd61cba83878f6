"""ALS on a device: one of NumPy and SciPy, or a GPU where there is one."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.engines.cupy import CuPy, least_squares
from sparrow.engines.cupy.tuning import tuning
from sparrow.errors import ConvergenceError, InvalidValueError, MissingDependencyError, TooLargeError
from sparrow.models import ALS
from tests.engines.conftest import device as any_device
from tests.engines.standin import StandIn
from tests.models import als_reference as reference

DENSE = reference.matrix(70, 50, 6)
RATINGS = reference.matrix(70, 50, 6, seed=1, weighted=True)
SOLVERS = ("cg", "exact", "subspace")


@contextlib.contextmanager
def on(device: Any = None) -> Iterator[Any]:
    """Let a device be what ``engine="cupy"`` computes on."""
    before = engines.registry._engines["cupy"]
    engines.unregister("cupy")
    engines.register(CuPy((lambda: device) if device is not None else any_device()))
    try:
        yield device
    finally:
        engines.unregister("cupy")
        engines.register(before)


def both(dense: Any, device: Any = None, **options: Any) -> tuple[ALS, ALS]:
    """Return models fitted by the processor and on a device."""
    A = sp.asarray(dense)
    with on(device):
        return ALS(**options, engine="stream").fit(A), ALS(**options, engine="cupy").fit(A)


def products(model: ALS) -> Any:
    """Return the scores, which do not depend on the basis of the tables."""
    return model.user_factors.astype(float) @ model.item_factors.astype(float).T


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("dense", "alpha", "nu"), [(DENSE, 0.05, 0.0), (RATINGS, 0.05, 0.5), (RATINGS, 0.0, 1.0)])
@pytest.mark.parametrize("factors", [4, 24])
def test_device_matches_cpu(solver: str, dense: Any, alpha: float, nu: float, factors: int) -> None:
    options = {"regularization": 0.3, "unobserved_weight": alpha, "frequency_scaling": nu, "block": 7, "epochs": 2}
    # the uniform initial factors are nearly of rank 1, from which "cg" amplifies rounding
    one, other = both(dense, factors=factors, solver=solver, init="normal", **options)
    np.testing.assert_allclose(other.loss_, one.loss_, rtol=1e-5)
    np.testing.assert_allclose(products(other), products(one), atol=2e-4)
    if solver == "exact":
        expected = reference.solve(dense.T, other.user_factors, 0.3, alpha, nu)
        assert reference.distance(other.item_factors, expected) < 1e-5
    assert not other.user_factors[~dense.any(axis=1)].any()
    assert other.fold_in(sp.asarray(dense)[:3]).shape == (3, factors)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("room", [1 << 30, 200_000, 30_000])
def test_batch_sizes(solver: str, room: int) -> None:
    device = StandIn(room=room)
    options = {"solver": solver, "epochs": 2, "block": 5, "init": "normal"}
    one, other = both(RATINGS, device, factors=12, unobserved_weight=0.01, **options)
    np.testing.assert_allclose(products(other), products(one), atol=2e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_row_larger_than_memory(solver: str) -> None:
    dense = np.random.default_rng(0).random((3, 900)) + 1
    one, other = both(dense, StandIn(room=40_000), factors=8, solver=solver, epochs=2, init="normal")
    np.testing.assert_allclose(products(other), products(one), atol=2e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_tables(dtype: Any) -> None:
    one, other = both(DENSE, factors=8, solver="exact", dtype=dtype, epochs=3)
    np.testing.assert_allclose(other.loss_, one.loss_, rtol=1e-3)
    np.testing.assert_allclose(products(other), products(one), atol=0.02)
    assert other.user_factors.dtype == one.user_factors.dtype


@pytest.mark.parametrize(("alpha", "regularization"), [(0.0, 1e-4), (1e-6, 1e-6), (1e-3, 1e-6)])
def test_exact_ill_conditioned(alpha: float, regularization: float) -> None:
    dense = RATINGS if alpha == 0 else DENSE
    _, model = both(dense, factors=40, regularization=regularization, unobserved_weight=alpha, epochs=3, solver="exact")
    expected = reference.solve(dense.T, model.user_factors, regularization, alpha)
    assert reference.distance(model.item_factors, expected) < 1e-5


def test_biases_and_mapped_tables(tmp_path: Path) -> None:
    options = {"factors": 4, "unobserved_weight": 0.0, "biases": True, "solver": "exact", "epochs": 3}
    one, other = both(RATINGS, memory_map=tmp_path, **options)
    assert other.mean_ == one.mean_
    np.testing.assert_allclose(other.user_biases_, one.user_biases_, atol=1e-4)
    np.testing.assert_allclose(products(other), products(one), atol=1e-3)
    np.testing.assert_array_equal(products(pickle.loads(pickle.dumps(other))), products(other))
    half = both(RATINGS, dtype="bfloat16", **options)
    np.testing.assert_allclose(half[1].item_biases_, half[0].item_biases_, atol=0.02)


def test_checkpoint_and_streaming(tmp_path: Path) -> None:
    A = sp.asarray(DENSE).save(tmp_path / "A", orders=[(1, 0)])
    with on():
        ALS(8, epochs=2, engine="cupy", checkpoint=tmp_path / "half").fit(A)
        on_gpu = ALS(8, epochs=4, engine="cupy", checkpoint=tmp_path / "half", buffer=1).fit(A)
        uninterrupted = ALS(8, epochs=4, engine="cupy").fit(A)
        # a fit that starts on a GPU ends on the CPU
        ALS(8, epochs=2, engine="cupy", checkpoint=tmp_path / "begun").fit(A)
        ended = ALS(8, epochs=4, checkpoint=tmp_path / "begun").fit(A)
    for model in (on_gpu, ended):
        np.testing.assert_allclose(model.loss_, uninterrupted.loss_, rtol=1e-4)
        np.testing.assert_allclose(products(model), products(uninterrupted), atol=1e-3)


def test_engine_from_config() -> None:
    A = sp.asarray(DENSE)
    with on(StandIn()) as device:
        with sp.config(engine="cupy"):
            ALS(4, epochs=1).fit(A)
        assert device.puts > 10
        device.puts = 0
        with sp.config(engine="duckdb"):
            ALS(4, epochs=1).fit(A)
        ALS(4, epochs=1).fit(A)
        with sp.config(engine="cupy"):
            ALS(4, epochs=1, engine="stream").fit(A.persist())
        assert device.puts == 0
    with pytest.raises(InvalidValueError, match="got 'duckdb'"):
        ALS(4, engine="duckdb").fit(A)  # type: ignore[arg-type]


def test_tables_stay_on_device() -> None:
    shapes: list[tuple[int, ...]] = []

    class Watched(StandIn):
        def get(self, array: Any) -> Any:
            shapes.append(array.shape)
            return super().get(array)

    both(DENSE, Watched(), factors=6, epochs=5)
    assert [shape for shape in shapes if shape in ((70, 6), (50, 6))] == [(70, 6), (50, 6)]  # at the end


def test_device_memory_errors() -> None:
    A = sp.asarray(DENSE)
    with on(StandIn(most=3500)) as device, sp.config(threads=1):  # batches are halved
        model = ALS(8, epochs=2, solver="exact", engine="cupy").fit(A)
        assert device.released
    np.testing.assert_allclose(products(model), products(ALS(8, epochs=2, solver="exact").fit(A)), atol=2e-4)
    with (
        on(StandIn(room=1000)),
        pytest.raises(TooLargeError, match=r"factor tables require 3840 bytes.*1000 bytes.*'stream'"),
    ):
        ALS(8, epochs=1, engine="cupy").fit(A)
    with on(StandIn(most=1500)), pytest.raises(TooLargeError, match=r"factor tables.*engine='stream'"):
        ALS(8, epochs=1, engine="cupy").fit(A)
    wide = sp.asarray(np.ones((2, 200)))
    with on(StandIn(most=3300)), pytest.raises(TooLargeError, match=r"equations of 4 factors.*engine='stream'"):
        ALS(4, 1e-10, 0.0, epochs=1, solver="exact", engine="cupy").fit(wide)


@pytest.mark.parametrize("solver", ["exact", "subspace"])
def test_singular_equations(solver: Any) -> None:
    A = sp.asarray(np.eye(4))
    engine: Any
    for engine in ("stream", "cupy"):
        with on(), pytest.raises(ConvergenceError, match="raise regularization"):
            ALS(3, 1e-300, 0.0, solver=solver, epochs=3, engine=engine).fit(A)


def test_empty_matrix() -> None:
    for shape in ((3, 4), (0, 3), (3, 0)):
        one, other = both(np.zeros(shape), factors=2, epochs=2)
        np.testing.assert_array_equal(other.user_factors, one.user_factors)
        np.testing.assert_array_equal(other.loss_, one.loss_)


def test_missing_device_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    monkeypatch.setitem(engines.registry._engines, "cupy", CuPy())
    with pytest.raises(MissingDependencyError, match=r"pip install cupy-cuda12x.*use engine='stream'"):
        ALS(4, engine="cupy").fit(sp.asarray(DENSE))


def test_batches_group_similar_lengths() -> None:
    method, limits = least_squares.Solver("exact", np.zeros(16, np.float32)), tuning()
    counts = np.sort(np.random.default_rng(0).zipf(1.5, 1000).clip(max=5000))
    result = list(least_squares.split_batches(counts, method, 64, 1 << 20))
    assert [first for first, _ in result] == [0, *(last for _, last in result[:-1])]
    assert result[-1][1] == len(counts)
    for first, last in result:
        assert counts[last - 1] <= counts[first] * limits.batch_length_ratio + limits.batch_length_slack
        assert last - first == 1 or (last - first) * method.room(int(counts[last - 1]), 64) <= 1 << 20


def test_one_thread_submits_to_a_device() -> None:
    threads = set()

    class Watched(StandIn):
        def solve(self, matrices: Any, vectors: Any) -> Any:
            threads.add(threading.get_ident())
            return super().solve(matrices, vectors)

    ratings = sp.random((4000, 50), density=0.1, seed=1)
    with (
        on(Watched()),
        sp.config(threads=4),
        sparrow.testing.tune(
            "models", als_partition_rows=64, als_partition_min_ratings=64, als_partition_max_ratings=256
        ),
    ):
        ALS(4, engine="cupy", solver="exact", epochs=2).fit(ratings)
    assert len(threads) == 1


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dense", [np.full((6, 5), 3.0), np.eye(4), 2.0 * (DENSE != 0)])
def test_constant_ratings_on_a_device(solver: str, dense: Any) -> None:
    options: dict[str, Any] = {"unobserved_weight": 0, "biases": True, "regularization": 0.2}
    for model in both(dense, factors=2, solver=solver, epochs=12, **options):
        rows, items = dense.nonzero()
        np.testing.assert_allclose(model.predict(rows, items), dense[rows, items], rtol=1e-4)
