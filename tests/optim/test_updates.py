from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import (
    ConvergenceError,
    InvalidValueError,
    LazyUpdateWarning,
    ShapeError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.formats import RowSparse
from sparrow.optim import FTRL, SGD, AdaGrad, Adam, Optimizer, State, base

SHAPE = (4, 2)
FIRST = RowSparse([[1.0, 2.0], [4.0, 5.0]], [1, 2], SHAPE)
SECOND = RowSparse([[1.0, 1.0]], [2], SHAPE)


def after(optimizer: Optimizer, *gradients: Any, w: Any = None) -> tuple[Any, State]:
    w = np.ones(SHAPE) if w is None else w
    state = optimizer.create_state(w)
    for gradient in gradients:
        optimizer.update(w, gradient, state)
    return w, state


def dense(array: Any) -> Any:
    return array.to_numpy() if isinstance(array, RowSparse) else np.asarray(array)


# The worked numbers: settings, gradients, weights after them, arrays of the state. None is "any value".
ONE, TWO = [1.0, 1.0], (FIRST, SECOND)
CASES: dict[str, tuple[Optimizer, tuple[Any, ...], Any, dict[str, Any]]] = {
    "the tutorial's first step": (
        SGD(0.01, momentum=0.01, lazy=True), (FIRST,), [ONE, [0.99, 0.98], [0.96, 0.95], ONE],
        {"momentum": [[0, 0], [0.01, 0.02], [0.04, 0.05], [0, 0]]},
    ),
    "its second, lazy": (SGD(0.01, momentum=0.01, lazy=True), TWO, [ONE, [0.99, 0.98], [0.9496, 0.9395], ONE], {}),
    "its second, standard": (
        SGD(0.01, momentum=0.01, lazy=False), TWO, [ONE, [0.9899, 0.9798], [0.9496, 0.9395], ONE], {},
    ),
    "decay and momentum, lazy": (
        SGD(0.1, momentum=0.9, weight_decay=0.01, lazy=True), TWO,
        [ONE, [0.899, 0.799], [0.137501, -0.052399], ONE], {},
    ),
    "decay and momentum, standard": (
        SGD(0.1, momentum=0.9, weight_decay=0.01, lazy=False), TWO,
        [[0.997101] * 2, [0.807201, 0.617301], [0.137501, -0.052399], [0.997101] * 2], {},
    ),
    "decay alone, standard": (
        SGD(0.1, weight_decay=0.5, lazy=False), (FIRST,), [[0.95] * 2, [0.85, 0.75], [0.55, 0.45], [0.95] * 2], {},
    ),
    "decay alone, lazy": (
        SGD(0.1, weight_decay=0.5, lazy=True), (FIRST,), [ONE, [0.85, 0.75], [0.55, 0.45], ONE], {},
    ),
    "no rows, standard": (
        SGD(0.1, weight_decay=0.5, lazy=False), (FIRST.retain([]),), [[0.95] * 2] * 4, {},
    ),
    "no rows, lazy": (SGD(0.1, weight_decay=0.5, lazy=True), (FIRST.retain([]),), [ONE] * 4, {}),
    "a row of zeros counts": (
        SGD(0.1, weight_decay=0.5, lazy=True), (RowSparse([[0.0, 0.0]], [3], SHAPE),), [ONE, ONE, ONE, [0.95] * 2], {},
    ),
    "rescaled, then clipped": (
        SGD(0.1, rescale_grad=0.5, clip_gradient=1.5), (RowSparse([[4.0, 2.0]], [0], SHAPE),),
        [[0.85, 0.9], ONE, ONE, ONE], {},
    ),
    "nesterov": (
        SGD(0.1, momentum=0.5, nesterov=True, lazy=True), (SECOND, SECOND),
        [ONE, ONE, [1 - 0.15 - 0.175] * 2, ONE], {"momentum": [[0, 0], [0, 0], [0.15, 0.15], [0, 0]]},
    ),
    "adam, one step": (Adam(0.1, lazy=True), (FIRST,), [ONE, [0.9] * 2, [0.9] * 2, ONE], {}),
    "adam, lazy": (Adam(0.1, lazy=True), TWO, [ONE, [0.9] * 2, [0.81694, 0.819696], ONE], {}),
    "adam, standard": (Adam(0.1, lazy=False), TWO, [ONE, [0.832994] * 2, [0.81694, 0.819696], ONE], {}),
    "adam, decay, lazy": (Adam(0.1, weight_decay=0.1, lazy=True), (FIRST,), [ONE, [0.9] * 2, [0.9] * 2, ONE], {}),
    "adam, decay, standard": (Adam(0.1, weight_decay=0.1, lazy=False), (FIRST,), [[0.9] * 2] * 4, {}),
    "adagrad, one step": (AdaGrad(0.1), (FIRST,), [ONE, [0.9] * 2, [0.9] * 2, ONE], {}),
    "adagrad": (
        AdaGrad(0.1), TWO, [ONE, [0.9] * 2, [0.875746, 0.880388], ONE],
        {"squares": [[0, 0], [1, 4], [17, 26], [0, 0]]},
    ),
    "adagrad, standard": (AdaGrad(0.1, lazy=False), TWO, [ONE, [0.9] * 2, [0.875746, 0.880388], ONE], {}),
    "ftrl": (
        FTRL(0.5, l1=1.0, lazy=True), (SECOND,), [ONE, ONE, [0.0, 0.0], ONE],
        {"z": [[0, 0], [0, 0], [-1, -1], [0, 0]], "squares": [[0, 0], [0, 0], [1, 1], [0, 0]]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_worked_numbers(name: str) -> None:
    optimizer, gradients, weights, arrays = CASES[name]
    w, state = after(optimizer, *gradients)
    np.testing.assert_allclose(w, weights, atol=1e-6)
    for key, expected in arrays.items():
        np.testing.assert_allclose(dense(state.arrays[key]), expected, atol=1e-12)
    assert state.step == len(gradients)


def test_clipping_before_rescaling() -> None:
    gradient = np.array([[4.0, 2.0]])
    w, _ = after(SGD(0.1, rescale_grad=0.5, clip_gradient=1.5), gradient, w=np.ones((1, 2)))
    printed = 1 - 0.1 * 0.5 * np.clip(gradient, -1.5, 1.5)
    np.testing.assert_allclose(w, [[0.85, 0.90]])
    np.testing.assert_allclose(printed, [[0.925, 0.925]])
    # as the docstring describes
    w, _ = after(SGD(0.1, rescale_grad=0.5, clip_gradient=1.5 * 0.5), gradient, w=np.ones((1, 2)))
    np.testing.assert_allclose(w, printed)


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda **kw: SGD(0.1, **kw),
    "momentum": lambda **kw: SGD(0.1, momentum=0.9, **kw),
    "nesterov": lambda **kw: SGD(0.1, momentum=0.9, nesterov=True, **kw),
    "adam": lambda **kw: Adam(0.1, **kw),
    "adagrad": lambda **kw: AdaGrad(0.1, **kw),
    "ftrl": lambda **kw: FTRL(0.1, **kw),
}


def reference(name: str, w: Any, a: Any, b: Any, g: Any, t: int, wd: float, rescale: float, clip: float) -> None:
    """Update rows in place by the formulas, in NumPy."""
    g = g * rescale
    if name == "adam":
        g = g + wd * w
    g = np.clip(g, -clip, clip)
    if name == "adam":
        a[:], b[:] = 0.9 * a + 0.1 * g, 0.999 * b + 0.001 * g**2
        w -= 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * a / (np.sqrt(b) + 1e-8)
    elif name == "adagrad":
        a += g**2
        w -= 0.1 * (g / np.sqrt(a + 1e-7) + wd * w)
    elif name == "ftrl":
        a += g - (np.sqrt(b + g**2) - np.sqrt(b)) / 0.1 * w
        b += g**2
        w[:] = -a / ((1 + np.sqrt(b)) / 0.1 + wd)
    else:
        u = 0.1 * (g + wd * w)
        a[:] = 0.9 * a + u
        w -= {"sgd": u, "momentum": a, "nesterov": 0.9 * a + u}[name]


@settings(max_examples=20, deadline=None)
@given(
    name=st.sampled_from(sorted(OPTIMIZERS)),
    lazy=st.booleans(),
    kinds=st.tuples(st.sampled_from(["dense", "row_sparse"]), st.sampled_from(["dense", "row_sparse"])),
    steps=st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=4),
    shape=st.sampled_from([(7, 3), (7, 2, 2)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_updates_against_formulas(
    name: str, lazy: bool, kinds: tuple[str, str], steps: list[set[int]], shape: tuple[int, ...], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    options: dict[str, float] = {"weight_decay": 0.05, "rescale_grad": 0.5, "clip_gradient": 0.8}
    optimizer = OPTIMIZERS[name](lazy=lazy, **options)
    start = rng.normal(size=shape)
    w: Any = start.copy() if kinds[0] == "dense" else RowSparse(start, np.arange(7), shape)
    state = optimizer.create_state(w)
    expected, a, b = start.copy(), np.zeros(shape), np.zeros(shape)
    for t, rows in enumerate(steps, 1):
        at = sorted(rows)
        full = np.zeros(shape)
        full[at] = rng.normal(size=(len(at), *shape[1:]))
        gradient = full if kinds[1] == "dense" else RowSparse(full[at], np.array(at, np.int64), shape)
        touched = at if lazy and kinds[1] == "row_sparse" else list(range(7))
        views = [array[touched] for array in (expected, a, b)]
        reference(name, views[0], views[1], views[2], full[touched], t, 0.05, 0.5, 0.8)
        for array, view in zip((expected, a, b), views, strict=True):
            array[touched] = view
        optimizer.update(w, gradient, state)
    np.testing.assert_allclose(dense(w), expected, rtol=1e-12, atol=1e-13)
    for key, array in zip(optimizer.names, (a, b), strict=False):
        np.testing.assert_allclose(dense(state.arrays[key]), array, rtol=1e-12, atol=1e-13)


# -- storage types ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "state", "gradient", "is_lazy"),
    [
        ("row_sparse", "row_sparse", "row_sparse", True),
        ("dense", "dense", "row_sparse", True),
        ("row_sparse", "dense", "row_sparse", False),
        ("dense", "dense", "dense", False),
        ("row_sparse", "row_sparse", "dense", False),
    ],
)
def test_lazy_by_storage_types(weights: str, state: str, gradient: str, is_lazy: bool) -> None:
    optimizer = SGD(0.1, momentum=0.9, weight_decay=0.5, lazy=True)
    full = np.ones(SHAPE)
    w: Any = RowSparse(full, range(4), SHAPE) if weights == "row_sparse" else full
    slots = optimizer.create_state(w if state == "row_sparse" else np.ones(SHAPE))
    optimizer.update(w, FIRST if gradient == "row_sparse" else FIRST.to_numpy(), slots)
    assert (dense(w)[0] == 1).all() == is_lazy


@pytest.mark.parametrize("lazy", [True, False, None])
def test_state_storage_type(lazy: bool | None) -> None:
    optimizer = Adam(lazy=lazy)
    sparse = optimizer.create_state(FIRST.retain([1, 2]))
    kind = np.ndarray if lazy is False else RowSparse
    assert {name: type(array) for name, array in sparse.arrays.items()} == {"mean": kind, "square": kind}
    assert all(not dense(array).any() for array in sparse.arrays.values())
    assert all(isinstance(array, np.ndarray) for array in optimizer.create_state(np.ones(SHAPE)).arrays.values())
    assert SGD(0.1, lazy=lazy).create_state(np.ones(SHAPE)).arrays == {}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("lazy", [True, False])
def test_missing_rows_are_zeros(name: str, lazy: bool) -> None:
    optimizer = OPTIMIZERS[name](lazy=lazy)
    w = RowSparse([[1.0, 1.0]], [1], SHAPE)
    filled, _ = after(optimizer, *TWO, w=w.to_numpy())
    after(optimizer, *TWO, w=w)
    np.testing.assert_array_equal(dense(w), filled)
    assert w.indices.tolist() == ([1, 2] if lazy or optimizer.is_local else [0, 1, 2, 3])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_memory_mapped_weights(name: str, tmp_path: Path) -> None:
    optimizer = OPTIMIZERS[name](lazy=True)
    expected, _ = after(optimizer, *TWO)
    w = np.lib.format.open_memmap(tmp_path / "w.npy", "w+", np.float64, SHAPE)
    w[:] = 1
    state = optimizer.create_state(w, memory_map=tmp_path)
    for gradient in TWO:
        optimizer.update(w, gradient, state)
    w.flush()
    np.testing.assert_array_equal(np.load(tmp_path / "w.npy"), expected)
    assert {path.stem for path in tmp_path.glob("*.npy")} == {"w", *optimizer.names}


def test_float32_vector() -> None:
    optimizer = SGD(0.5, lazy=True)
    w = np.ones(3, np.float32)
    state = optimizer.create_state(w)
    optimizer.update(w, np.array([0, 1, 2]), state)
    assert w.tolist() == [1, 0.5, 0]
    assert w.dtype == np.float32


# -- warnings and errors -----------------------------------------------------------


def test_lazy_warning_once() -> None:
    base._warn_lazy.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after(SGD(0.1), FIRST)
        after(AdaGrad(0.1), FIRST)
        after(SGD(0.1, momentum=0.9, lazy=True), FIRST)
        after(SGD(0.1, momentum=0.9), FIRST.to_numpy())
    with pytest.warns(LazyUpdateWarning, match="lazy=False updates all rows"):
        after(SGD(0.1, momentum=0.9), FIRST)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after(Adam(0.1), FIRST)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SGD(0), "lr must be a finite number above 0, got 0"),
        (lambda: SGD(0.1, momentum=1), "momentum must be a finite number of at least 0 and below 1, got 1"),
        (lambda: SGD(0.1, nesterov=True), "nesterov=True requires a positive momentum"),
        (lambda: SGD(0.1, weight_decay=-1), "weight_decay must be .*, got -1"),
        (lambda: SGD(0.1, clip_gradient=0), "clip_gradient must be .*, got 0"),
        (lambda: SGD(0.1, lazy="yes"), "lazy must be True or False, got 'yes'"),  # type: ignore[arg-type]
        (lambda: Adam(beta1=1.5), "beta1 must be .*, got 1.5"),
        (lambda: AdaGrad(epsilon=float("nan")), "epsilon must be .*, got nan"),
        (lambda: FTRL(beta="1"), "beta must be .*, got '1'"),  # type: ignore[arg-type]
        (lambda: sp.optim.Steps(0.1, every=0), "every must be a finite number above 0, got 0"),
        (lambda: sp.optim.Cosine(0.1, steps=5, warmup=5), "warmup must be less than steps=5, got 5"),
        (lambda: SGD(lambda step: -1.0).rate(3), "learning rate must be finite and not negative, got -1.0"),
    ],
)
def test_setting_errors(make: Any, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words.replace("(", r"\(")):
        make()


@pytest.mark.parametrize(
    ("w", "gradient", "error", "words"),
    [
        (np.ones((5, 2)), FIRST, ShapeError, r"gradient has shape \(4, 2\), expected that of the weights, \(5, 2\)"),
        (np.ones(SHAPE, int), FIRST, UnsupportedError, "weights must be float32 or float64, got int64"),
        ([[1.0]], FIRST, UnsupportedError, "weights must be a NumPy array .*, got list"),
        (np.ones((2, 4)).T, FIRST, UnsupportedError, "in C order"),
        (np.ones(SHAPE), [[1.0]], UnsupportedError, "gradient must be a NumPy array .*, got list"),
        (np.ones(SHAPE), np.ones(SHAPE, complex), UnsupportedError, "gradient must be real, got complex128"),
        (np.ones(SHAPE), RowSparse([[1.0, np.nan]], [2], SHAPE), ConvergenceError, r"row 2 .*, got nan: lower lr"),
        (np.ones(SHAPE), np.full(SHAPE, np.inf), ConvergenceError, "row 0"),
    ],
)
def test_weight_and_gradient_errors(w: Any, gradient: Any, error: type[Exception], words: str) -> None:
    optimizer = SGD(0.1, momentum=0.5, lazy=True)
    state = optimizer.create_state(np.ones(np.shape(w)))
    with pytest.raises(error, match=words):
        optimizer.update(w, gradient, state)
    assert state.step == 0
    assert (np.asarray(w) == 1).all()


def test_state_errors(tmp_path: Path) -> None:
    optimizer, w = SGD(0.1, momentum=0.5, lazy=True), np.ones(SHAPE)
    with pytest.raises(
        UnsupportedError, match=r"state of SGD must have arrays \['momentum'\], got \['mean', 'square'\]"
    ):
        optimizer.update(w, FIRST, Adam().create_state(w))
    with pytest.raises(ShapeError, match=r"float64 of shape \(4, 2\), as the weights, got float64 of shape \(3, 2\)"):
        optimizer.update(w, FIRST, optimizer.create_state(np.ones((3, 2))))
    with pytest.raises(UnsupportedError, match="must be dense, as the weights, got row-sparse"):
        optimizer.update(w, FIRST, optimizer.create_state(FIRST))
    mapped = np.memmap(tmp_path / "w", np.float64, "w+", shape=(10**8,))  # a sparse file
    with sp.config(memory_limit="700MB"), pytest.raises(TooLargeError, match="memory_map"):
        optimizer.create_state(mapped)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_store_equals_optimizer(name: str) -> None:
    optimizer = OPTIMIZERS[name](lazy=True)
    expected, _ = after(optimizer, *TWO)
    store = sp.training.ParameterStore(optimizer)
    try:
        store.init("w", np.ones(SHAPE))
        for gradient in TWO:
            store.push("w", gradient)
        result = store.row_sparse_pull("w", range(4))
        np.testing.assert_allclose(dense(result), expected, rtol=1e-6)
    finally:
        store.close()


def test_tensor_gradients() -> None:
    X = sp.asarray(np.array([[1.0, 0, 2], [0, 0, 1]])).asformat("csr")
    residual = np.ones((2, 1))
    for grad, remainder in ((sp.matmul(X.T, residual, stype="row_sparse"), 1.0), (sp.asarray(X.T @ residual), 0.99)):
        w = np.ones((3, 1))
        optimizer = SGD(0.1, weight_decay=0.1, lazy=True)
        optimizer.update(w, grad, optimizer.create_state(w))
        np.testing.assert_allclose(w[:, 0], [0.89, remainder, 0.69])
