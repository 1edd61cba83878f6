"""CuPy engine on a NumPy stand-in: supported nodes, tiles, missing devices."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow import engines
from sparrow.engines.cupy import CuPy
from sparrow.engines.cupy.device import current_gpu
from sparrow.engines.fallback import unsupported_nodes
from sparrow.errors import MissingDependencyError, TooLargeError, UnsupportedError
from sparrow.plan import Dense, Scan, make_map, make_matmul, nodes_below, optimize_plan
from sparrow.plan.aggregates import REDUCTIONS
from tests.engines import standin
from tests.engines.helpers import at, memory, random_array, scan_of, stored_relation
from tests.engines.standin import StandIn
from tests.engines.stream.test_dense import ALL, assert_close, numbers
from tests.engines.test_parity import NESTED, REAL, UFUNCS, step

ENGINE = CuPy(StandIn)


@contextlib.contextmanager
def engine(made: CuPy) -> Iterator[None]:
    """Let an engine be ``engine="cupy"``."""
    before = engines.engine_for("cupy")
    engines.unregister("cupy")
    engines.register(made)
    try:
        yield
    finally:
        engines.unregister("cupy")
        engines.register(before)


@contextlib.contextmanager
def on(device: StandIn) -> Iterator[StandIn]:
    """Let a device be what ``engine="cupy"`` computes on."""
    with engine(CuPy(lambda: device)):
        yield device


def all_there(tensor: Any) -> bool:
    """Return whether a device computes all of an expression."""
    return not unsupported_nodes(ENGINE, nodes_below(optimize_plan([tensor.__sparrow_scan__()])))


def some(shape: tuple[int, ...], seed: int, dtype: Any = np.float64) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return ((rng.random(shape) < 0.3) * rng.integers(-4, 5, shape)).astype(dtype)


# -- without a device ----------------------------------------------------------------------------


def test_missing_cupy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    A = sp.asarray(random_array((3, 4)))
    with engine(CuPy()), sp.config(engine="cupy"):
        monkeypatch.setitem(sys.modules, "cupy", None)
        for work in (lambda: A.compute("cupy"), (A * 2).sum, lambda: A @ np.ones(4), lambda: (A + A).nnz):
            with pytest.raises(MissingDependencyError, match=r"pip install cupy-cuda12x.*use engine='stream'"):
                work()


def test_missing_device_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    for name in ("cupy", "cupyx", "cupyx.scipy", "cupyx.scipy.sparse"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["cupy"].cuda = SimpleNamespace(Device=refuse)  # type: ignore[attr-defined]
    with pytest.raises(MissingDependencyError, match=r"CuPy finds none \(cudaErrorNoDevice.*use engine='stream'"):
        CuPy().check()


def test_free_memory_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = [0]
    pool = SimpleNamespace(
        free_bytes=lambda: 30,
        used_bytes=lambda: 25,
        get_limit=lambda: limit[0],
        free_all_blocks=lambda: freed.append(1),
    )
    freed: list[int] = []
    entered: list[int] = []

    class Device(contextlib.nullcontext):  # type: ignore[type-arg]
        def __init__(self, number: int = 3) -> None:
            self.id = number
            entered.append(number)
            super().__init__()

    for name in ("cupy", "cupyx", "cupyx.scipy", "cupyx.scipy.sparse"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    cupy: Any = sys.modules["cupy"]
    cupy.cuda = SimpleNamespace(Device=Device, runtime=SimpleNamespace(memGetInfo=lambda: (100, 400)))
    cupy.get_default_memory_pool = lambda: pool
    sys.modules["cupyx"].scipy = SimpleNamespace(sparse="sparse")  # type: ignore[attr-defined]
    gpu = current_gpu()
    assert (gpu.room(), gpu.sparse) == (130, "sparse")
    limit[0] = 75
    assert gpu.room() == 50
    gpu.release()
    assert freed == [1]
    full = ["CUSOLVER_STATUS_ALLOC_FAILED", "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES: ...", "CUBLAS_STATUS_ALLOC_FAILED"]
    assert all(map(gpu.is_exhausted, [MemoryError("out of memory"), *map(RuntimeError, full)]))
    assert not gpu.is_exhausted(RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED"))
    assert set(entered) == {3}


def test_used_names_exist_in_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    assert [name for name in standin.UFUNCS if not isinstance(getattr(cupy, name, None), cupy.ufunc)] == []
    assert [name for name in standin.FUNCTIONS if not hasattr(cupy, name)] == []
    assert [name for name in standin.ATTRIBUTES if not hasattr(cupy.ndarray, name)] == []
    assert callable(sparse.csr_matrix)
    assert callable(pytest.importorskip("cupyx.lapack").posv)
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)


# -- the stand-in --------------------------------------------------------------------------------


def test_stand_in_rejects_mixed_arrays() -> None:
    device = StandIn(most=1000)
    array: Any = device.put(np.arange(3.0))
    mixed: list[Callable[[], Any]] = [
        lambda: np.asarray(array),
        lambda: array + np.ones(3),
        lambda: np.ones(3) + array,
        lambda: np.add(array, 1),
        lambda: device.xp.add(array, np.ones(3)),
        lambda: device.xp.concatenate([array, np.ones(3)]),
        lambda: array[np.array([0, 1])],
        lambda: device.xp.add.at(device.xp.zeros(3, np.complex128), array, array),
    ]
    for work in mixed:
        with pytest.raises(TypeError):
            work()
    for name in ("lexsort", "intersect1d", "union1d"):
        with pytest.raises(AttributeError, match="not among the names"):
            getattr(device.xp, name)
    with pytest.raises(AttributeError, match="not among the attributes"):
        array.tolist()
    integers = tuple(device.put(np.array(given, np.int32)) for given in ([1, 2, 3], [0, 1, 2], [0, 3]))
    with pytest.raises(ValueError, match="Only bool"):
        device.sparse.csr_matrix(integers, shape=(1, 3))
    with pytest.raises(MemoryError):
        device.xp.zeros(200, np.float64)
    np.testing.assert_array_equal(device.get(array * 2 + 1), [1, 3, 5])


# -- what is taken -------------------------------------------------------------------------------


def test_unsupported_functions() -> None:
    found: dict[str, str] = {}
    for name, ufunc in UFUNCS.items():
        of = []
        for dtype in REAL:
            try:
                made = step(ufunc(*[sp.asarray(np.array([0, 1], dtype))] * ufunc.nin))
            except TypeError:
                continue
            if ENGINE.unsupported_reason(made) is not None:
                of.append(dtype)
        if of:
            found[name] = " ".join(of)
    half = "bool int8 uint8"  # which become float16
    assert {name: of for name, of in found.items() if name in standin.UFUNCS} == {
        **dict.fromkeys(
            ["arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "copysign", "cos",
             "cosh", "exp", "exp2", "expm1", "hypot", "log", "log10", "log1p", "log2", "rint", "sin", "sinh", "sqrt",
             "tan", "tanh"], half,
        ),
        **dict.fromkeys(["ceil", "floor", "trunc", "isfinite", "isinf", "isnan"], " ".join(REAL[:9])),
    }  # fmt: skip
    assert {"power", "floor_divide", "remainder", "gcd", "ldexp"} <= {*found} - {*standin.UFUNCS}


def test_unsupported_nodes() -> None:
    A: Any = sp.asarray(some((4, 4), 1))
    C, H = A.astype("complex128"), A.astype("float16")
    for tensor, reason in [
        (C * 2, "functions of complex128"),
        (H + 1, "functions of float16"),
        (A.astype("int8"), "overflow is undefined"),
        (A.clip(0, 1), "no clip to"),
        (A.astype("int64") % 2, "no remainder"),
        (sp.asarray(np.arange(4)) < sp.asarray(np.arange(4, dtype="uint64")), "less of int64 and uint64"),
        (A.prod(axis=0), "not multiplied"),
        (A.argmax(axis=0), "searched"),
        (A.norm(axis=0, ord=3), "order 3"),
        (A.sum(axis=0, dtype="float32"), "astype"),
        (H.sum(axis=0), "float16"),
        (C.var(axis=0), "complex128"),
        (sp.matmul(A, A, semiring="min_plus"), "min_plus"),
        (sp.matmul(A, A, mask=A), "mask"),
        (sp.einsum("ij,jk->ijk", A, A), "not a product of two matrices"),
        (H @ H, "float16"),
        (sp.concat([A, A]), "moves elements"),
    ]:
        node = step(tensor)
        assert reason in str(ENGINE.unsupported_reason(node))
        assert reason in tensor.explain(engine="cupy")
    wide = sp.from_coords([[0], [5]], [2.0], shape=(2**40, 2**40))
    assert "2^63" in str(ENGINE.unsupported_reason(step(wide * 2)))
    assert ENGINE.unsupported_reason(make_matmul(scan_of(memory(np.ones((2, 2)))), Dense(np.ones(2)))) is None
    assert [name for name in REDUCTIONS if ENGINE.unsupported_reason(step(getattr(A, name)(axis=0)))] == [
        "prod", "argmin", "argmax", "nanprod", "nanargmin", "nanargmax",
    ]  # fmt: skip
    dense = make_map(np.add, [A.__sparrow_scan__(), np.ones((4, 4))])
    assert "every element" in str(ENGINE.unsupported_reason(dense))
    with pytest.raises(UnsupportedError, match="use engine='stream'"):
        ENGINE.evaluate_dense(dense)


def test_deterministic_rejects_float_sums() -> None:
    A: Any = sp.asarray(some((4, 4), 1))
    I = A.astype("int64")  # noqa: E741
    with sp.config(deterministic=True):
        for tensor in (A @ A, A.sum(axis=0), I.mean(axis=0), A.norm(axis=0)):
            assert "no fixed order" in str(ENGINE.unsupported_reason(step(tensor)))
        for tensor in (I @ I, I.sum(axis=0), A.max(axis=0), A.count(axis=0), A + A):
            assert ENGINE.unsupported_reason(step(tensor)) is None
        assert "no fixed order" in str(ENGINE.unsupported_reason(make_matmul(A.__sparrow_scan__(), Dense(np.ones(4)))))
    assert all_there(A @ A)


# -- tiles ---------------------------------------------------------------------------------------

EXPRESSIONS: list[Callable[[Any, Any], Any]] = [
    *NESTED,
    lambda A, B: A @ B,
    lambda A, B: (A @ B * 2 - A).sum(axis=0),
    lambda A, B: (A @ B).T @ (A - B),
    lambda A, B: ((A.T @ B) + (B.T @ A)).max(axis=1),
    lambda A, B: ((A * B) @ (A + B)) * (A > 0),
    lambda A, B: A * A.sum(axis=0) + A.sum(axis=1, keepdims=True) * B,
    lambda A, B: (A + A.T).std(axis=1) - (B * B).mean(axis=0),
]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, len(EXPRESSIONS) - 1), st.integers(0, 99), st.sampled_from([1, 5, 1000]), st.integers(1, 3))
def test_expressions_in_tiles_of_any_size(number: int, seed: int, rows: int, threads: int) -> None:
    a, b = some((5, 5), seed), some((5, 5), seed + 100)
    found, wanted = (EXPRESSIONS[number](*pair) for pair in ((sp.asarray(a), sp.asarray(b)), (a, b)))
    with sp.config(threads=threads), on(StandIn(room=256 * rows * threads)):
        computed = found.compute("cupy")
        np.testing.assert_allclose(computed.to_numpy(), wanted, rtol=1e-12, atol=1e-12)
        with sp.config(engine="cupy"):
            assert found.nnz == computed.nnz
            assert (found * 2).sum() == pytest.approx(2 * wanted.sum(), abs=1e-9)


def test_nested_nodes_stay_on_the_device(tmp_path: Path) -> None:
    a = some((60, 7), 1)
    A: Any = sp.Tensor(stored_relation(tmp_path / "a", a))
    expression = (A * 2 + A) * (A * 2 - 1)
    with on(StandIn()) as device:
        assert all_there(expression)
        np.testing.assert_array_equal(expression.compute("cupy").to_numpy(), (a * 2 + a) * (a * 2 - 1))
        assert device.puts == 3  # two columns of coordinates and one of values, once
    with on(StandIn(room=256 * 20)) as device, sp.config(threads=1):
        np.testing.assert_array_equal((A * 2).sum(axis=0).compute("cupy").to_numpy(), (a * 2).sum(axis=0))
        assert device.puts >= 3 * 4
    deep = A
    for _ in range(30):  # would take 2^30 steps if each was computed wherever it is taken in
        deep = deep + deep.T.T
    np.testing.assert_array_equal((deep * 2.0**-30).compute("cupy").to_numpy(), a)


def test_tiles_are_halved_until_they_fit() -> None:
    a, b = some((40, 30), 1), some((30, 50), 2)
    A: Any = sp.asarray(a)
    B: Any = sp.asarray(b)
    with on(StandIn(most=2000)) as device:
        np.testing.assert_array_equal((A * 2 + 1).compute("cupy").to_numpy(), a * 2 + 1)
        assert device.released
    with on(StandIn(most=6000)) as device:
        np.testing.assert_array_equal((A @ B).compute("cupy").to_numpy(), a @ b)
        assert device.released
        np.testing.assert_array_equal((A + 1).sum(axis=0).compute("cupy").to_numpy(), (a + 1).sum(axis=0))
    with on(StandIn(most=40)), pytest.raises(TooLargeError, match=r"of memory free.*use engine='stream'"):
        (A * 2).compute("cupy")
    with on(StandIn(room=8)), pytest.raises(TooLargeError, match=r"one column.*use engine='stream'"):
        sp.matmul(A, np.ones(30), engine="cupy")


# -- products ------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["bool", "int8", "uint64", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("dtype", ALL)
def test_matmul_equals_numpy(dtype: str, other: str) -> None:
    dense = np.where(np.random.default_rng(0).random((6, 8)) < 0.5, numbers((6, 8), dtype), np.zeros((), dtype))
    scan = scan_of(memory(dense))
    with on(StandIn(room=2000)):  # a few columns at a time
        for x in (numbers((8,), other), numbers((8, 5), other)):
            with np.errstate(all="ignore"):
                expected = dense @ x
            found = engines.evaluate_dense(make_matmul(scan, Dense(x)), "cupy")
            assert found.dtype == expected.dtype
            if expected.dtype.kind in "biu":
                np.testing.assert_array_equal(found, expected)
            else:
                assert_close(found, expected, dense, x)


def test_matmul_of_views_and_fills(tmp_path: Path) -> None:
    a = some((50, 9), 3)
    relation = stored_relation(tmp_path / "a", a, (1, 0))
    with on(StandIn(room=256 * 40)) as device:
        for scan, dense in [
            (at(relation, slice(None, None, -1), slice(1, 8)), a[::-1, 1:8]),
            (at(relation, slice(None), 3), a[:, 3]),
            (at(relation, [4, 4, 1]), a[[4, 4, 1]]),
            (scan_of(memory(a + 2, fill_value=2.0)), a + 2),
        ]:
            n, m = dense.shape[0], dense.shape[-1]
            for x in (np.arange(m) - 1.0, np.arange(m * 3).reshape(m, 3) * 1.0):
                np.testing.assert_allclose(engines.evaluate_dense(make_matmul(scan, Dense(x)), "cupy"), dense @ x)
            y = np.arange(n) + 0.5
            np.testing.assert_allclose(engines.evaluate_dense(make_matmul(Dense(y), scan), "cupy"), y @ dense)
        T: Any = sp.Tensor(relation)
        with sp.config(engine="cupy"):
            np.testing.assert_allclose((T * 3 + T) @ np.ones(9), (a * 4).sum(axis=1))
            np.testing.assert_allclose(np.ones(50) @ (T * 3 + T), (a * 4).sum(axis=0))
            assert sp.asarray(np.array([[0, 3.0]])) @ [np.inf, 1] == [3.0]  # an absent cell annihilates
        assert device.puts > 20
        with pytest.raises(UnsupportedError, match="fill 2"):
            engines.evaluate_dense(
                make_matmul(scan_of(memory(a + 2, fill_value=2.0)), Dense(np.full(9, np.nan))), "cupy"
            )
    text = engines.explain(make_matmul(scan_of(relation), Dense(np.ones(9))), engine="cupy")
    assert "engine      cupy: decoded on" in text


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["bool", "int8", "int64", "uint64", "float32", "float64", "complex128"]),
    st.sampled_from(["bool", "int32", "uint64", "float64"]),
    st.tuples(*[st.integers(0, 12)] * 3),
    st.integers(0, 99),
    st.sampled_from([1, 40, 1000, 1 << 20]),
    st.booleans(),
)
def test_products_in_panels(
    one: str, two: str, sizes: tuple[int, int, int], seed: int, entries: int, turned: bool
) -> None:
    n, k, m = sizes
    with np.errstate(all="ignore"):
        a, b = some((n, k), seed, one), some((k, m), seed + 1, two)
        if two == "uint64":
            b = b * np.uint64(2**62)  # sums wrap
        wanted = a @ b
    A, B = sp.asarray(a), sp.asarray(b)
    product: Any = sp.einsum("ji,kj->ik", A.T, B.T) if turned else A @ B
    assert all_there(product) or not product.size
    with on(StandIn(room=256 * entries)), sp.config(threads=2):
        found = product.compute("cupy")
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-6)


def test_product_memory_depends_on_nnz() -> None:
    rng = np.random.default_rng(1)
    inner = np.sort(rng.choice(2**40, 30, replace=False))
    rows, columns = rng.choice(2**20, 30), rng.choice(2**20, 30)
    A = sp.from_coords([rows, inner], np.arange(1.0, 31), shape=(2**20, 2**40), duplicates="sum")
    B = sp.from_coords([inner, columns], np.full(30, 2.0), shape=(2**40, 2**20), duplicates="sum")
    with on(StandIn(most=10_000)):
        for left, right in ((A, B), (A.astype("int64"), B.astype("int64"))):
            found = (left @ right).compute("cupy")
            assert found.nnz == 30
            assert found.sum() == 2 * np.arange(1.0, 31).sum()
    assert isinstance(A.__sparrow_scan__(), Scan)
