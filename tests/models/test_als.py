from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sparrow as sp
import sparrow.testing
from sparrow.errors import (
    ConvergenceError,
    InvalidValueError,
    ShapeError,
    StorageError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.models import ALS
from sparrow.testing import tune
from tests.models import als_reference as reference

DENSE = reference.matrix(70, 50, 6)
RATINGS = reference.matrix(70, 50, 6, seed=1, weighted=True)


def tensor(dense: Any, **options: Any) -> sp.Tensor:
    at = np.nonzero(dense)
    return sp.from_coords(at, dense[at], shape=dense.shape, **options)


A = tensor(DENSE)


@pytest.mark.parametrize("nu", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("dense", "alpha"), [(DENSE, 0.05), (RATINGS, 0.05), (RATINGS, 0.0)])
@pytest.mark.parametrize("factors", [4, 24])
def test_exact_solution(dense: Any, alpha: float, nu: float, factors: int) -> None:
    model = ALS(factors, 0.3, alpha, nu, epochs=2, solver="exact").fit(tensor(dense))
    expected = reference.solve(dense.T, model.user_factors, 0.3, alpha, nu)
    assert reference.distance(model.item_factors, expected) < 1e-5


@pytest.mark.parametrize("init", ["uniform", "normal"])
@pytest.mark.parametrize(
    ("alpha", "regularization"), [(0.0, 1e-4), (1e-6, 1e-6), (1e-6, 1e-2), (1e-3, 1e-6), (1e-3, 1e-2)]
)
@pytest.mark.parametrize("factors", [8, 40])
def test_exact_ill_conditioned(alpha: float, regularization: float, factors: int, init: Any) -> None:
    dense = RATINGS if alpha == 0 else DENSE
    model = ALS(factors, regularization, alpha, epochs=3, solver="exact", init=init).fit(tensor(dense))
    expected = reference.solve(dense.T, model.user_factors, regularization, alpha)
    assert reference.distance(model.item_factors, expected) < 1e-5


@pytest.mark.parametrize("nu", [0.0, 1.0])
@pytest.mark.parametrize(("dense", "alpha"), [(DENSE, 0.05), (RATINGS, 0.0)])
def test_iterative_solvers_converge(dense: Any, alpha: float, nu: float) -> None:
    for options in ({"solver": "cg", "cg_steps": 40}, {"solver": "subspace", "block": 16}):
        model = ALS(16, 0.5, alpha, nu, epochs=1, init="normal", **options).fit(tensor(dense))  # type: ignore[arg-type]
        expected = reference.solve(dense.T, model.user_factors, 0.5, alpha, nu)
        assert reference.distance(model.item_factors, expected) < 1e-5, options


@pytest.mark.parametrize("options", [{"solver": "cg"}, {"solver": "subspace", "block": 6}])
def test_approximate_solvers_reach_exact_loss(options: dict[str, Any]) -> None:
    exact = ALS(16, 0.3, 0.05, epochs=60, solver="exact").fit(A).loss_[-1]
    assert ALS(16, 0.3, 0.05, epochs=60, **options).fit(A).loss_[-1] == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("solver", ["cg", "exact", "subspace"])
@pytest.mark.parametrize("nu", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("dense", "alpha"), [(DENSE, 0.05), (RATINGS, 0.0), (RATINGS, 0.2)])
def test_loss_is_the_objective(solver: Any, nu: float, dense: Any, alpha: float) -> None:
    model = ALS(12, 0.3, alpha, nu, epochs=3, solver=solver).fit(tensor(dense))
    expected = reference.objective(dense, model.user_factors, model.item_factors, 0.3, alpha, nu)
    assert model.loss_.shape == (6,)
    assert model.loss_[-1] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("nu", [0.0, 1.0])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.5])
def test_loss_never_rises(alpha: float, nu: float) -> None:
    losses = ALS(12, 0.1, alpha, nu, epochs=12, solver="exact", init="normal").fit(tensor(RATINGS)).loss_
    assert (np.diff(losses) <= 1e-6 * losses[:-1]).all()
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("solver", ["cg", "exact", "subspace"])
def test_empty_rows_are_zero(solver: Any) -> None:
    model = ALS(8, epochs=1, solver=solver).fit(A)
    assert ((model.user_factors != 0).any(axis=1) == DENSE.any(axis=1)).all()
    assert ((model.item_factors != 0).any(axis=1) == DENSE.any(axis=0)).all()
    assert not DENSE.any(axis=1).all()
    assert not DENSE.any(axis=0).all()


def test_view_with_step() -> None:
    model = sp.models.ALS(factors=2, epochs=1).fit(sp.asarray(np.ones((4, 3))) * 0)
    assert not model.user_factors.any()
    assert not model.item_factors.any()


@pytest.mark.parametrize("shape", [(5, 4), (0, 4), (5, 0), (1, 1)])
@pytest.mark.parametrize("solver", ["cg", "exact", "subspace"])
def test_empty_matrix(shape: tuple[int, int], solver: Any, tmp_path: Path) -> None:
    model = ALS(3, epochs=2, solver=solver, memory_map=tmp_path).fit(sp.zeros(shape))
    assert model.user_factors.shape == (shape[0], 3)
    assert model.item_factors.shape == (shape[1], 3)
    assert not model.user_factors.any()
    assert not model.loss_.any()


def test_initial_factors() -> None:
    def start(**options: Any) -> Any:
        return ALS(6, epochs=0, **options).fit(A).user_factors

    filled = DENSE.any(axis=1)
    uniform = start()
    assert (uniform[filled] >= 0).all()
    assert uniform.max() < 0.01
    assert uniform[filled].mean() == pytest.approx(0.005, rel=0.1)
    assert (start() == uniform).all()
    assert not (start(seed=1)[filled] == uniform[filled]).any()
    normal = start(init="normal")
    assert normal[filled].std() == pytest.approx(0.1 / np.sqrt(6), rel=0.15)
    assert abs(normal[filled].mean()) < 0.01


@pytest.mark.parametrize("solver", ["cg", "exact", "subspace"])
def test_results_independent_of_threads(solver: Any) -> None:
    dense = reference.matrix(3000, 2500, 8, seed=3)
    result = []
    for threads in (1, 2, 3):
        with sp.config(threads=threads):
            model = ALS(16, epochs=2, solver=solver).fit(tensor(dense))
        result.append((model.user_factors.tobytes(), model.item_factors.tobytes(), model.loss_.tobytes()))
    assert result[0] == result[1] == result[2]


@pytest.mark.parametrize("solver", ["cg", "exact", "subspace"])
@pytest.mark.parametrize(("dtype", "error"), [("bfloat16", 0.03), ("float16", 0.02)])
def test_half_precision_error(dtype: Any, error: float, solver: Any) -> None:
    options: dict[str, Any] = {"factors": 8, "epochs": 4, "solver": solver, "unobserved_weight": 0.05}
    full = ALS(**options).fit(A)
    half = ALS(**options, dtype=dtype).fit(A)
    assert half.user_factors.dtype == (np.float32 if dtype == "bfloat16" else np.float16)
    assert half._users.raw.itemsize == 2
    scores = [model.user_factors.astype(float) @ model.item_factors.astype(float).T for model in (full, half)]
    assert np.abs(scores[0] - scores[1]).max() < error
    assert half.loss_[-1] == pytest.approx(full.loss_[-1], rel=error)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_memory_mapped_tables(dtype: Any, tmp_path: Path) -> None:
    inside = ALS(8, epochs=2, dtype=dtype).fit(A)
    mapped = ALS(8, epochs=2, dtype=dtype, memory_map=tmp_path / "tables").fit(A)
    for name in ("user_factors", "item_factors"):
        assert (getattr(mapped, name) == getattr(inside, name)).all()
        raw = np.load(tmp_path / "tables" / f"{name}.npy", mmap_mode="r")
        assert raw.dtype == {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}[dtype]
        wide = (raw.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else raw
        assert (wide == getattr(inside, name)).all()


@pytest.mark.parametrize(("alpha", "nu"), [(0.05, 0.0), (0.05, 1.0), (0.0, 0.5)])
def test_fold_in_solves_exactly(alpha: float, nu: float) -> None:
    model = ALS(12, 0.3, alpha, nu, epochs=3).fit(tensor(RATINGS))
    new = reference.matrix(9, 50, 20, seed=5, weighted=True)
    result = model.fold_in(tensor(new))
    assert result.dtype == np.float32
    assert reference.distance(result, reference.solve(new, model.item_factors, 0.3, alpha, nu)) < 1e-6
    assert not result[~new.any(axis=1)].any()
    assert (model.fold_in(scipy.sparse.csr_array(new)) == result).all()
    assert model.fold_in(tensor(new)[:0]).shape == (0, 12)


def test_fold_in_after_refit() -> None:
    model = ALS(4, epochs=2).fit(A)
    model.fold_in(A[:2])
    model.set_params(seed=9).fit(A)
    assert reference.distance(model.fold_in(A), reference.solve(DENSE, model.item_factors, 0.2, 1e-3)) < 1e-5


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.float64])
def test_rating_dtypes(dtype: Any) -> None:
    result = ALS(4, epochs=2).fit(tensor(DENSE.astype(dtype)))
    assert (result.user_factors == ALS(4, epochs=2).fit(A).user_factors).all()


def test_input_kinds(tmp_path: Path) -> None:
    expected = ALS(4, epochs=2).fit(A).item_factors
    stored = A.save(tmp_path / "a", orders=[(1, 0)])
    for same in (DENSE, scipy.sparse.coo_array(DENSE), stored, A.T.T, A + 0, stored.T.T, (A * 2) / 2):
        assert (ALS(4, epochs=2).fit(same).item_factors == expected).all()
    turned = ALS(4, epochs=2).fit(stored.T)
    assert turned.item_factors.shape == (70, 4)
    part = ALS(4, epochs=2).fit(stored[10:40, ::2])
    assert (part.item_factors == ALS(4, epochs=2).fit(DENSE[10:40, ::2]).item_factors).all()
    twice = [3, 3, 5]
    assert (ALS(4, epochs=2).fit(A[twice]).item_factors == ALS(4, epochs=2).fit(DENSE[twice]).item_factors).all()


def test_sklearn_parameters() -> None:
    base = pytest.importorskip("sklearn.base")
    model = ALS(7, epochs=2, cg_steps=5, buffer="1MB")
    copy = base.clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert copy.fit(A).get_params()["factors"] == 7
    assert not hasattr(base.clone(copy), "loss_")
    assert model.set_params(factors=3, solver="exact") is model
    assert repr(model) == "ALS(factors=3, epochs=2, solver='exact', cg_steps=5, buffer='1MB')"
    assert repr(ALS()) == "ALS()"
    with pytest.raises(InvalidValueError, match=r"parameter of ALS must be one of .*, got 'rank'"):
        model.set_params(rank=3)


def test_sklearn_grid_search() -> None:
    selection = pytest.importorskip("sklearn.model_selection")

    def error(model: ALS, rows: Any, y: None = None) -> float:
        return -float(np.square(model.fold_in(rows) @ model.item_factors.T - rows).sum())

    grid = {"regularization": [0.1, 1e6]}
    result = selection.GridSearchCV(ALS(4, epochs=2), grid, scoring=error, cv=2, error_score="raise")
    assert result.fit(np.tile(np.eye(4), (10, 3))).best_params_ == {"regularization": 0.1}


def test_pickle(tmp_path: Path) -> None:
    model = ALS(4, epochs=1, dtype="bfloat16", memory_map=tmp_path).fit(A)
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.item_factors == model.item_factors).all()
    assert (copy.fold_in(A) == model.fold_in(A)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factors": 0}, r"factors must be .*, got 0"),
        ({"factors": 2.5}, r"factors must be .*, got 2.5"),
        ({"epochs": -1}, r"epochs must be .*, got -1"),
        ({"cg_steps": True}, r"cg_steps must be .*, got True"),
        ({"block": 0}, r"block must be .*, got 0"),
        ({"seed": -1}, r"seed must be .*, got -1"),
        ({"regularization": -0.1}, r"regularization must be .*, got -0.1"),
        ({"regularization": float("nan")}, r"regularization must be .*, got nan"),
        ({"unobserved_weight": "x"}, r"unobserved_weight must be .*, got 'x'"),
        ({"unobserved_weight": float("inf")}, r"unobserved_weight must be .*, got inf"),
        ({"frequency_scaling": 1.5}, r"frequency_scaling must be .*, got 1.5"),
        ({"solver": "lu"}, "'cg', 'exact', 'subspace'"),
        ({"dtype": "float64"}, "'float32', 'float16', 'bfloat16'"),
        ({"init": "zeros"}, "'uniform', 'normal'"),
        ({"buffer": "a lot"}, "buffer must be a number of bytes"),
        ({"memory_map": 5}, "memory_map must be a folder or None, got 5"),
        ({"checkpoint": b"steps"}, "checkpoint must be a folder or None, got b'steps'"),
        ({"regularization": 0, "unobserved_weight": 0}, "no unique solution"),
    ],
)
def test_parameter_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        ALS(**options).fit(A)


def test_matrix_errors() -> None:
    with pytest.raises(ShapeError, match="must be a matrix"):
        ALS().fit(sp.zeros((3, 3, 3)))
    with pytest.raises(UnsupportedError, match="complex"):
        ALS().fit(tensor(DENSE + 1j * DENSE))
    with pytest.raises(UnsupportedError, match="must be 0, got 1"):
        ALS().fit(tensor(DENSE * 2, fill_value=1))
    for wrong in (np.nan, np.inf, 1e300):
        dense = DENSE.copy()
        dense[3, 3] = wrong
        with pytest.raises(InvalidValueError, match=r"must be finite in float32, got .* at \(3, 3\)"):
            ALS().fit(tensor(dense))


def test_unfitted_errors() -> None:
    acts: list[Callable[[ALS], Any]] = [lambda m: m.user_factors, lambda m: m.item_factors, lambda m: m.fold_in(A)]
    for act in acts:
        with pytest.raises(UnsupportedError, match="call fit"):
            act(ALS())
    with pytest.raises(ShapeError, match=r"must have 50 columns, .* got 3"):
        ALS(4, epochs=1).fit(A).fold_in(sp.zeros((2, 3)))


def test_divergence_errors() -> None:
    with pytest.raises(ConvergenceError, match="float16 overflows"):
        ALS(4, dtype="float16", regularization=1e-9, unobserved_weight=0).fit(tensor(DENSE * 1e30))
    with pytest.raises(ConvergenceError, match="raise regularization"):
        ALS(4, regularization=1e-3, unobserved_weight=0).fit(tensor(DENSE * 1e37))
    # Two equal columns have no unique solution without regularization.
    with pytest.raises(ConvergenceError, match=r"raise regularization \(now 0\)"):
        ALS(40, regularization=0, epochs=3, solver="exact").fit(tensor(DENSE[:4]))


def test_large_weight_error() -> None:
    with pytest.raises(ConvergenceError, match=r"lower unobserved_weight \(now 1e\+20\)"):
        ALS(4, unobserved_weight=1e20).fit(tensor(DENSE))


@pytest.mark.parametrize("weights", [(1e300, 1e-3, 0.0), (1e300, 1e-3, 1.0)])
def test_large_regularization_gives_zeros(weights: tuple[float, float, float]) -> None:
    regularization, unobserved_weight, frequency_scaling = weights
    model = ALS(4, regularization, unobserved_weight, frequency_scaling, epochs=1, solver="exact").fit(tensor(DENSE))
    assert not model.item_factors.any()


def test_kernels_are_compiled_once() -> None:
    script = (
        "import sparrow as sp, numpy as np\n"
        "from sparrow.kernels.ml import als\n"
        "for solver in ('cg', 'exact', 'subspace'):\n"
        "    sp.models.ALS(4, epochs=1, solver=solver).fit(np.eye(5)).fold_in(np.eye(5))\n"
        "for kernel in (als.conjugate_gradient, als.eigenbasis, als.normal_equations, als.subspace):\n"
        "    assert sum(kernel.stats.cache_hits.values()) == 1, kernel\n"
        "    assert not kernel.stats.cache_misses, kernel\n"
    )
    for solver in ("cg", "exact", "subspace"):
        ALS(4, epochs=1, solver=solver).fit(np.eye(5)).fold_in(np.eye(5))
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_tables_beyond_memory_limit(tmp_path: Path) -> None:
    wide = sp.from_coords([[0], [2_000_000]], [1.0], shape=(5, 2_000_001))
    with sp.config(memory_limit="1GB"):
        with pytest.raises(TooLargeError, match="memory_map"):
            ALS(128, epochs=0).fit(wide)
        assert ALS(128, epochs=0, dtype="bfloat16").fit(wide)._items.raw.nbytes == 2 * 128 * 2_000_001
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot memory-map"):
        ALS(4, memory_map=tmp_path / "file").fit(A)


def test_refit_keeps_mapped_tables(tmp_path: Path) -> None:
    model = ALS(4, epochs=1, memory_map=tmp_path).fit(A)
    before = model.user_factors
    kept = before.copy()
    model.fit(A[:3])
    assert (before == kept).all()
    assert model.user_factors.shape == (3, 4)


def test_progress_shows_loss(capsys: pytest.CaptureFixture[str]) -> None:
    with tune("runtime", progress_delay_seconds=0.0, progress_interval_seconds=0.0), sp.config(progress=True):
        loss = ALS(4, epochs=3).fit(A).loss_[-1]
    assert f"epoch 3 of 3, loss {loss:.6g}" in capsys.readouterr().err
