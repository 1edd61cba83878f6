"""Counts of distinct columns of products, and whether values may cancel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import from_dtype
from numpy.typing import NDArray

import sparrow as sp
from sparrow.kernels.matmul.count import RowCounter, ValueRange, can_cancel
from sparrow.plan.semirings import SEMIRINGS, or_as_max, result_fill

Rows = list[list[int]]


def to_csr(rows: Rows) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
    return indptr, np.array([column for row in rows for column in row], np.uint32)


def columns(width: int, near: bool) -> st.SearchStrategy[list[int]]:
    """Return sorted columns, of which some repeat; near ones share words."""
    start = st.integers(0, width - 1)
    one = st.tuples(start, st.integers(1, 200 if near else 1))
    runs = st.lists(one, max_size=4 if near else 12)
    return runs.map(lambda each: sorted(c for first, n in each for c in range(first, min(first + n, width))))


@st.composite
def products(draw: Any) -> tuple[Rows, Rows, Rows, int]:
    width = draw(st.sampled_from([1, 63, 64, 65, 1000, 100_000]))
    rhs = draw(st.lists(columns(width, draw(st.booleans())), min_size=1, max_size=8))
    one = st.lists(st.integers(0, len(rhs) - 1), max_size=6)
    lhs = [row for row, n in draw(st.lists(st.tuples(one, st.integers(1, 3)), max_size=8)) for _ in range(n)]
    some = sorted({column for row in rhs for column in row})
    near = st.lists(st.sampled_from(some), max_size=5) if some else st.just([])
    mask = draw(st.lists(st.one_of(columns(width, near=False), near), min_size=len(lhs), max_size=len(lhs)))
    return lhs, rhs, [sorted(set(row)) for row in mask], width


@given(products(), st.sampled_from([None, False, True]))
def test_count_is_the_size_of_unions(given: tuple[Rows, Rows, Rows, int], complement: bool | None) -> None:
    lhs, rhs, mask, width = given
    counter = RowCounter(*to_csr(rhs), width)
    bounds, marked = to_csr(mask)
    found = counter.count(
        *to_csr(lhs), None if complement is None else (bounds[:-1], bounds[1:], marked), bool(complement)
    )
    unions = [{column for k in row for column in rhs[k]} for row in lhs]
    if complement is not None:
        unions = [own - {*other} if complement else own & {*other} for own, other in zip(unions, mask, strict=True)]
    assert found.tolist() == [len(own) for own in unions]


def test_rows_of_neighbors_are_compressed() -> None:
    near = RowCounter(*to_csr([list(range(100, 900)), list(range(500))]), 1000)
    assert 0 < near.nbytes < 800 * 4
    assert RowCounter(*to_csr([list(range(0, 60_000, 64))]), 60_000).nbytes == 0
    assert near.count(*to_csr([[0, 1], [0, 1], [1], [], [1]])).tolist() == [900, 900, 500, 0, 500]


@pytest.mark.parametrize("near", [1, 1000])
def test_count_is_nnz_of_positive_products(near: int) -> None:
    rng = np.random.default_rng(near)
    at = np.unique(rng.integers(0, 400, 4000) * 2000 + rng.integers(0, 2000 // near, 4000) * near)
    A = sp.from_coords((at // 2000 % 400, at % 2000), np.ones(len(at)), (400, 2000))
    for left, right in ((A, A.T), (A.T, A)):
        a, b = left.to_scipy("csr"), right.to_scipy("csr")
        counter = RowCounter(b.indptr.astype(np.uint64), b.indices.astype(np.uint32), b.shape[1])
        found = counter.count(a.indptr.astype(np.uint64), a.indices.astype(np.uint32))
        np.testing.assert_array_equal(found, np.diff((a @ b).tocsr().indptr))
        assert found.sum() == (left @ right).nnz


DTYPES = [
    ("float64", "float64"), ("float32", "float32"), ("float32", "float16"), ("int64", "int64"), ("int64", "int8"),
    ("int64", "uint64"), ("int64", "uint8"), ("int64", "bool"), ("int8", "int8"), ("uint8", "uint8"),
    ("uint64", "uint64"), ("int32", "int32"),
]  # fmt: skip
"""Dtypes of accumulation and of results."""
ADD: dict[str, Any] = {
    "plus": np.add, "min": np.minimum, "max": np.maximum, "or": np.bitwise_or, "any": lambda a, b: a,
}  # fmt: skip
MULTIPLY: dict[str, Any] = {
    "times": np.multiply, "plus": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "first": lambda a, b: a, "second": lambda a, b: b, "pair": lambda a, b: np.ones_like(a),
}  # fmt: skip


def numbers(dtype: np.dtype[Any]) -> st.SearchStrategy[list[Any]]:
    """Return lists of numbers, of one sign, near the limits, small or arbitrary."""
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        edges = [0.0, -0.0, 1.0, limits.tiny, limits.smallest_subnormal, limits.max, limits.eps, np.inf, np.nan]
        signed = [dtype.type(each) for each in (*edges, -1.0, -limits.max, -limits.tiny, -np.inf)]
        positive = st.floats(0.25, 8, width=32).map(dtype.type)
    else:
        bounds = np.iinfo(dtype)
        signed = [dtype.type(each) for each in (0, 1, 2, bounds.min, bounds.max, bounds.max // 2 + 1, bounds.min // 2)]
        positive = st.integers(1, 9).map(dtype.type)
    negative = positive.map(lambda value: -value) if dtype.kind != "u" else positive
    kinds = [positive, negative, st.sampled_from(signed), from_dtype(dtype)]
    return st.one_of([st.lists(kind, min_size=1, max_size=5) for kind in kinds])


@settings(max_examples=400)
@given(st.sampled_from(DTYPES), st.sampled_from(sorted(ADD)), st.sampled_from(sorted(MULTIPLY)), st.data())
def test_sums_lie_within_bounds(dtypes: tuple[str, str], add: str, multiply: str, data: Any) -> None:
    dtype, result_dtype = map(np.dtype, dtypes)
    if add == "or" or multiply == "and":
        dtype, result_dtype = np.dtype(np.int64), np.dtype(bool)
    lhs, rhs = (np.array(data.draw(numbers(dtype)), dtype) for _ in range(2))
    if add == "or" or multiply == "and":
        lhs, rhs = (values != 0 for values in (lhs, rhs))
        lhs, rhs = lhs.astype(dtype), rhs.astype(dtype)
    pairs = data.draw(st.lists(st.tuples(st.sampled_from([*lhs]), st.sampled_from([*rhs])), min_size=1, max_size=6))
    ranges = ValueRange.from_values(lhs), ValueRange.from_values(rhs)
    with np.errstate(all="ignore"):
        terms = [MULTIPLY[multiply](x, y).astype(dtype) for x, y in pairs]
        total = terms[0]
        for term in terms[1:]:
            total = ADD[add](total, term).astype(dtype)
        result = total != 0 if result_dtype.kind == "b" else total.astype(result_dtype)
    for fill in (result, np.array(0, result_dtype)[()]):
        if result == fill or result != result:
            assert can_cancel(add, multiply, dtype, result_dtype, result_dtype.type(fill), *ranges, len(pairs))


ONE, MIXED = (1, 9), (-1, 9)


@pytest.mark.parametrize(
    ("name", "dtype", "lhs", "rhs", "expected"),
    [
        ("plus_times", "float64", ONE, ONE, False),
        ("plus_times", "float64", (-9, -1), ONE, False),
        ("plus_times", "float64", MIXED, ONE, True),
        ("plus_times", "float64", (1e-200, 1), (1e-200, 1), True),
        ("plus_times", "float32", (1e-20, 1), (1e-30, 1), True),
        ("plus_times", "float64", (1e300, 1e308), (1e300, 1e308), False),
        ("plus_times", "int64", ONE, ONE, False),
        ("plus_times", "int64", (1, 2**40), (1, 2**23), True),
        ("plus_times", "int64", (1, 2**40), (1, 2**20), True),
        ("plus_times", "int64", (1, 2**40), (1, 2**12), False),
        ("plus_times", "int64", (-3, -1), (-3, -1), False),
        ("plus_times", "float64", (0, 9), ONE, True),
        ("min_plus", "float64", MIXED, MIXED, False),
        ("min_plus", "float64", (0, 1e308), (0, 1e308), True),
        ("min_plus", "int64", MIXED, MIXED, False),
        ("min_plus", "int64", (0, 2**62), (0, 2**62), True),
        ("min_max", "float64", MIXED, MIXED, False),
        ("max_times", "float64", MIXED, MIXED, False),
        ("plus_pair", "int64", MIXED, MIXED, False),
        ("any_pair", "float64", MIXED, MIXED, False),
        ("plus_first", "float64", ONE, MIXED, False),
        ("plus_second", "float64", ONE, MIXED, True),
    ],
)
def test_known_ranges(name: str, dtype: str, lhs: Any, rhs: Any, expected: bool) -> None:
    semiring, kind = SEMIRINGS[name], np.dtype(dtype)
    fill = result_fill(semiring, kind)
    left, right = (ValueRange.from_values(np.array(each, kind)) for each in (lhs, rhs))
    assert can_cancel(semiring.add, semiring.multiply, kind, kind, fill, left, right, 1000) is expected


@pytest.mark.parametrize(
    ("multiply", "dtype", "lhs", "rhs", "expected"),
    [
        ("times", "int8", (1, 5), (1, 5), False),
        ("times", "int8", (16, 16), (16, 16), True),
        ("plus", "int8", (100, 100), (100, 100), True),
        ("plus", "int8", (-5, 1), (2, 5), True),
        ("max", "int8", (-5, 1), (2, 5), False),
        ("times", "float64", (1e-200, 1), (1e-200, 1), True),
    ],
)
def test_truth_of_products(multiply: str, dtype: str, lhs: Any, rhs: Any, expected: bool) -> None:
    semiring, kind = or_as_max(sp.Semiring("or", multiply, None)), np.dtype(dtype)
    left, right = (ValueRange.from_values(np.array(each, kind)) for each in (lhs, rhs))
    boolean = np.dtype(bool)
    assert can_cancel(semiring.add, semiring.multiply, kind, boolean, np.False_, left, right, 9) is expected
    assert can_cancel(semiring.add, semiring.multiply, kind, boolean, np.True_, left, right, 9)


def test_what_is_unknown_can_cancel() -> None:
    double, ones = np.dtype(float), ValueRange(1.0, 1.0)
    assert can_cancel(lambda a, b: a, "times", double, double, 0.0, ones, ones, 1)
    assert can_cancel("plus", lambda a, b: a, double, double, 0.0, ones, ones, 1)
    assert can_cancel("plus", "times", double, double, np.nan, ones, ones, 1)
    assert can_cancel("plus", "times", np.dtype(complex), np.dtype(complex), 0j, None, None, 1)
    assert not can_cancel("any", "pair", np.dtype(complex), np.dtype(complex), 0j, None, None, 1)
    assert ValueRange.from_values(np.array([1, np.nan])) is None
    assert ValueRange.from_values(np.array([1, np.inf])) is None
    assert ValueRange.from_values(np.array([1j])) is None
