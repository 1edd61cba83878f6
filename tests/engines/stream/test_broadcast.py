"""Broadcast operands: read once, looked up, and repeated no more than needed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow.errors import PerformanceWarning, TooLargeError
from sparrow.testing import observe, tune
from tests.engines.helpers import random_array, stored_relation

FUNCTIONS: list[Callable[..., Any]] = [
    np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.fmod, np.minimum, np.maximum,
    np.greater, np.less_equal, np.not_equal, np.arctan2, np.hypot, np.logical_and, np.logical_or, np.power, np.copysign,
    lambda a, b: np.where(a > 1, b, 0), lambda a, b: (a - b) / (b + 2), lambda a, b: np.minimum(a * 2, b) * b,
    lambda a, b: np.clip(a, 0, 2) * (b > 1) + b * 0,
]  # fmt: skip
SHAPE = (4, 5, 3)
FLAGS = st.lists(st.booleans(), min_size=3, max_size=3)


@contextlib.contextmanager
def way_of(name: str) -> Iterator[None]:
    """Evaluate in a way, by name."""
    small = {} if name in ("small", "small ranges") else {"partition_rows": 8, "min_partition_rows": 1}
    aligned = {"lookup_parts": 1 << 60} if name in ("aligned", "ranges", "small ranges") else {}
    aligned |= {"repeated_parts": 1 << 60} if name == "aligned" else {}
    searched = {"lookup_ratio": 0} if name == "partitioned" else {}
    with tune("stream", **small, **aligned, **searched):
        yield


def cells(shape: tuple[int, ...], seed: int, dtype: Any, odd: bool) -> NDArray[Any]:
    """Return a sparse array, with ``odd`` of -1, infinity and NaN too."""
    dense = random_array(shape, dtype, seed, 0.5)
    rng = np.random.default_rng(seed)
    if odd and dense.dtype.kind == "f" and dense.size:
        dense.flat[rng.integers(0, dense.size, 3)] = [np.nan, np.inf, -1]
    return dense


@given(
    function=st.integers(0, len(FUNCTIONS) - 1), axes=FLAGS, others=FLAGS,
    dtypes=st.tuples(*[st.sampled_from(["f8", "i4", "f4"])] * 2),
    odd=st.booleans(), turned=st.booleans(), seed=st.integers(0, 99),
    way=st.sampled_from(["small", "partitioned", "aligned", "ranges", "small ranges"]), fill=st.sampled_from([0, 0, 2]),
)  # fmt: skip
def test_broadcast_functions_equal_numpy(
    function: int, axes: list[bool], others: list[bool], dtypes: tuple[str, str], odd: bool, turned: bool, seed: int,
    way: str, fill: int,
) -> None:  # fmt: skip
    call = FUNCTIONS[function]
    narrow, wide = (tuple(1 if flag else n for flag, n in zip(flags, SHAPE, strict=True)) for flags in (axes, others))
    a, b = cells(wide, seed, dtypes[0], odd), cells(narrow, seed + 1, dtypes[1], odd)
    if call is np.power:
        a, b = np.abs(a).astype(float), np.abs(b)
    b = b + np.asarray(fill, b.dtype)
    A, B = sp.asarray(a), sp.asarray(b - np.asarray(fill, b.dtype)) + np.asarray(fill, b.dtype)[()]
    with np.errstate(all="ignore"):
        expected = call(b, a) if turned else call(a, b)
    with way_of(way):
        found = call(B, A) if turned else call(A, B)
        result = found.to_numpy() if isinstance(found, sp.Tensor) else found
    if call is np.multiply or (function >= 19 and odd):
        # Absent elements annihilate against NaN and infinity.
        np.testing.assert_array_equal(np.nan_to_num(result, posinf=0, neginf=0)[np.isfinite(expected)],
                                      expected[np.isfinite(expected)])  # fmt: skip
        return
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("way", ["small", "aligned", "ranges"])
def test_one_element_is_broadcast(way: str) -> None:
    a, b = cells((7, 6), 0, "f8", False), cells((7, 6), 1, "f8", False)
    with way_of(way):
        A, B = sp.asarray(a), sp.asarray(b)
        found: Any = np.minimum(np.hypot(A.sum(axis=0), B), A)[:, 1][:, None]
        np.testing.assert_array_equal(found.to_numpy(), np.minimum(np.hypot(a.sum(axis=0), b), a)[:, 1][:, None])


def count_chunks(expression: Any) -> int:
    """Return the number of chunks of files that an expression reads."""
    found = re.search(r"decoded in (\d+) chunks", expression.explain(analyze=True))
    assert found is not None
    return int(found[1])


BESIDE: dict[str, Callable[[Any], Any]] = {
    "a row": lambda T: T - T[5],
    "a larger of a row": lambda T: np.maximum(T, T[5]),
    "a row where it is": lambda T: np.where(T > 0, T[5], 0),
    "a sum": lambda T: T / np.maximum(T.sum(axis=1), 1)[:, None],
    "its sum": lambda T: T / T.sum(axis=1, keepdims=True),
    "a mean": lambda T: np.greater(T, T.mean(axis=0)),
    "an outer product": lambda T: np.outer(T[5], T[6]),
    "an outer minimum": lambda T: np.minimum(T[5][:, None], T[6]),
    "a sum and a row": lambda T: (T - T[3]) * T.sum(axis=0),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_broadcast_operand_is_read_once(name: str, tmp_path: Path) -> None:
    sizes, counts, dense = (400, 800), [], random_array((800, 30), seed=2, density=0.1)
    for n in sizes:
        A: Any = sp.Tensor(stored_relation(tmp_path / str(n), dense[:n]))
        groups = count_chunks(A * 1)
        with tune("stream", partition_rows=64, min_partition_rows=1):
            counts.append(count_chunks(BESIDE[name](A)) / groups)
            np.testing.assert_array_equal(BESIDE[name](A).to_numpy(), quotient(BESIDE[name], dense[:n]))
    assert max(counts) < 4
    assert counts[1] <= counts[0] + 0.2


LARGE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a column": lambda A, v, w: A * v[:, None],
    "a row": lambda A, v, w: A * w,
    "a quotient": lambda A, v, w: A / (v[:, None] + 1),
    "a quotient by a row": lambda A, v, w: A / (w + 1),
    "both": lambda A, v, w: A * v[:, None] * w,
    "its sums": lambda A, v, w: A / A.sum(axis=1, keepdims=True),
    "its sums of columns": lambda A, v, w: A / A.sum(axis=0),
    "sums that may be 0": lambda A, v, w: A / np.maximum(A.sum(axis=1, keepdims=True), 1),
    "normalized on both sides": lambda A, v, w: (
        A / np.maximum(A.sum(axis=1), 1)[:, None] / np.maximum(A.sum(axis=0), 1)
    ),
    "where it is": lambda A, v, w: np.where(A > 0, A - w, 0),
    "centred where it is": lambda A, v, w: (A - A.mean(axis=0)) * (A > 0),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("stored", [False, True])
def test_operands_beyond_memory_are_read_in_ranges(name: str, stored: bool, tmp_path: Path) -> None:
    """Neither the operands nor their broadcasts fit in memory."""
    n = 1500
    dense = np.zeros((n, n))
    dense[np.random.default_rng(0).integers(0, n, 3000), np.random.default_rng(1).integers(0, n, 3000)] = 2
    v, w = np.arange(1.0, n + 1), np.linspace(1, 2, n)
    A: Any = sp.Tensor(stored_relation(tmp_path / "A", dense)) if stored else sp.asarray(dense)
    limits = {"lookup_parts": 1 << 60, "partition_rows": 400, "min_partition_rows": 1, "max_repeated_elements": 1}
    with (
        tune("stream", **limits),
        sp.config(memory_limit="1GB", threads=1),
        observe("stream.evaluate", "stream.read") as seen,
    ):
        found = LARGE[name](A, sp.asarray(v), sp.asarray(w)).compute()
    assert found.nnz <= 3000
    assert len(seen) < 400
    np.testing.assert_allclose(found.to_numpy(), quotient(lambda a: LARGE[name](a, v, w), dense))


@pytest.mark.parametrize("limits", [{}, {"lookup_parts": 1 << 60}])
def test_outer_products_beyond_memory_are_refused(limits: dict[str, int]) -> None:
    n = 100_000
    A = sp.random((n, n), nnz=5000, seed=0)
    rows, columns = sp.asarray(np.ones(n)), sp.asarray(np.ones(n))
    with sp.config(memory_limit="1GB"), tune("stream", **limits):
        with pytest.raises(TooLargeError, match="divide by its factors one after the other"):
            (A / (rows[:, None] * columns + 1)).compute()
        assert (A / rows[:, None] / columns).nnz == A.nnz


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("call", [np.multiply, np.minimum, np.subtract, lambda a, b: np.where(a > 0, a / (b + 1), 0)])
def test_positions_beyond_64_bits(call: Callable[[Any, Any], Any], axis: int) -> None:
    step = 2**40

    def spread(dense: NDArray[Any]) -> Any:
        scale = [1 if k == axis and dense.ndim == 3 else step for k in range(dense.ndim)]
        coords = [own * n for own, n in zip(np.nonzero(dense), scale, strict=True)]
        shape = [size * n for size, n in zip(dense.shape, scale, strict=True)]
        return sp.from_coords(coords, dense[np.nonzero(dense)], shape=shape)

    shape = [6, 7]
    b = random_array(tuple(shape), seed=1, density=0.4)
    shape.insert(axis, 3)
    a = random_array(tuple(shape), seed=0, density=0.4)
    new = (*[slice(None)] * axis, None)
    found, expected = call(spread(a), spread(b)[new]), spread(call(a, b[new]))
    ours, theirs = found.to_format("coo"), expected.to_format("coo")
    for one, other in zip((*ours.coords, ours.data), (*theirs.coords, theirs.data), strict=True):
        np.testing.assert_array_equal(one, other)


def quotient(call: Callable[[Any], Any], dense: NDArray[Any]) -> Any:
    """Return the result of NumPy, with 0 where it divides 0 by 0."""
    with np.errstate(all="ignore"):
        found = call(dense)
    return np.nan_to_num(found) if found.dtype.kind == "f" else found


def count_repeated(expression: Any) -> int:
    """Return the number of elements that broadcasting has to repeat."""
    with observe("stream.broadcast") as seen:
        expression.compute()
    return sum(details["repeated"] for _, details in seen)


@pytest.mark.parametrize(
    "call",
    [
        lambda T, s: T / s, lambda T, s: T // s, lambda T, s: T % s, np.greater, np.minimum,
        np.logical_and, np.arctan2, lambda T, s: np.where(T > 0, s, 0),
    ],
)  # fmt: skip
def test_nothing_is_repeated_for_absent_elements(call: Callable[[Any, Any], Any]) -> None:
    dense = random_array((50, 40), seed=3, density=0.2)
    T: Any = sp.asarray(dense)
    rows, columns = np.maximum(T.sum(axis=1), 1)[:, None], np.maximum(T.max(axis=0), 1)
    for divisor in (rows, columns):
        expression = call(T, divisor)
        assert count_repeated(expression) == 0
        np.testing.assert_array_equal(expression.to_numpy(), call(dense, divisor.to_numpy()))
    assert count_repeated(T - T[3]) == np.count_nonzero(dense[3])


DIVISORS: dict[str, Callable[[Any, Any], Any]] = {
    "sum of rows": lambda np, a: a.sum(axis=1, keepdims=True),
    "sum of rows, by hand": lambda np, a: a.sum(axis=1)[:, None],
    "sum of columns": lambda np, a: a.sum(axis=0),
    "mean": lambda np, a: a.mean(axis=1, keepdims=True),
    "deviation": lambda np, a: a.std(axis=0),
    "maximum": lambda np, a: a.max(axis=1, keepdims=True),
    "norm": lambda np, a: np.sqrt((a * a).sum(axis=1, keepdims=True)),
    "absolute sum": lambda np, a: abs(a).sum(axis=0, keepdims=True),
    "range": lambda np, a: a.max(axis=0) - a.min(axis=0),
}


@pytest.mark.parametrize("name", DIVISORS)
@pytest.mark.parametrize("function", [np.true_divide, np.floor_divide, np.remainder, np.fmod])
@pytest.mark.parametrize("way", ["small", "partitioned", "aligned"])
def test_quotients_by_reductions_stay_sparse(name: str, function: Any, way: str) -> None:
    dense = random_array((30, 20), seed=4, density=0.3) - 2.0 * random_array((30, 20), seed=5, density=0.1)
    dense[[2, 9]], dense[:, 7] = 0, 0
    dense[4] = 0
    dense[4, :2] = 3, -3  # they cancel
    A: Any = sp.asarray(dense)
    divide = DIVISORS[name]
    with way_of(way):
        found = function(A * 1, divide(np, A))
        assert found.fill_value == 0
        with np.errstate(all="ignore"):
            expected = function(dense, divide(np, dense))
        empty = (dense == 0).all(axis=0 if divide(np, dense).shape[-1] > 1 else 1, keepdims=True)
        np.testing.assert_allclose(
            found.to_numpy(), np.where(empty & (dense == 0), 0, expected), rtol=1e-12, atol=1e-12
        )
        duck = found.compute(engine="duckdb").to_numpy()
    np.testing.assert_allclose(duck, found.to_numpy(), rtol=1e-12, atol=1e-12)
    with np.errstate(all="ignore"):
        assert found.nnz <= np.count_nonzero(dense) + np.isnan(expected[~np.broadcast_to(empty, dense.shape)]).sum()


def test_chains_of_quotients_stay_sparse() -> None:
    dense = random_array((30, 20), seed=4, density=0.2)
    X: Any = sp.asarray(dense)
    s, total = X.sum(axis=1, keepdims=True), dense.sum(axis=1, keepdims=True)
    assert (dense.sum(axis=1) > 0).all()
    np.testing.assert_allclose(np.log1p(X / s * 1e4).to_numpy(), np.log1p(dense / total * 1e4))
    assert np.log1p(X / s * 1e4).nnz == X.nnz
    assert (X / s.compute()).nnz == X.nnz  # it lacks no element
    L: Any = sp.Tensor(X._base).rename(d0="user", d1="film")
    assert (L / L.sum(axis="film")).nnz == X.nnz
    np.testing.assert_allclose((L / L.sum(axis="film")).to_numpy(), dense / total)
    for _ in range(40):
        X = X / X.sum(axis=1, keepdims=True)
    assert X.nnz == np.count_nonzero(dense)


def test_divisors_of_unknown_origin_keep_the_rule_of_fills() -> None:
    dense = random_array((30, 20), seed=4, density=0.3)
    dense[2] = 0
    A, other = sp.asarray(dense), sp.asarray(random_array((30, 20), seed=6, density=0.01))
    with np.errstate(all="ignore"):
        for divisor in (A.sum(axis=1, keepdims=True).compute(), other.sum(axis=1, keepdims=True)):
            found = A / divisor
            assert np.isnan(found.fill_value)
            np.testing.assert_array_equal(found.to_numpy(), dense / divisor.to_numpy())
    assert np.isnan((A.sum(axis=1) / A.count(axis=1)).to_numpy()[2])  # nothing is repeated


def test_many_repeated_elements_warn_or_raise() -> None:
    A: Any = sp.random((4000, 2000), nnz=4000, seed=1)
    row = sp.asarray(np.ones(2000))
    with pytest.warns(PerformanceWarning, match=r"subtract of shape \(4000, 2000\), a broadcast of 2000 elements"):
        (A[:, :] - row).nnz  # noqa: B018
    assert (A - row)[:10].nnz == 20_000
    large: Any = sp.from_coords([[0, 10**9 - 1], [1, 2]], [1.0, 2.0], shape=(10**9, 2000))
    with pytest.raises(TooLargeError, match="give a divisor 1 instead of 0"):
        (large / sp.asarray([1.0, 2.0, 0.0] + [1.0] * 1997)).nnz  # noqa: B018
    assert (large / large.sum(axis=0)).nnz == 2
