"""Kernel that selects the k largest results of each row of a product."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul.select import get_topk_kernel
from sparrow.kernels.matmul.symbolic import Workspace, get_seed

ADD: dict[str, Any] = {"plus": lambda a, b: a + b, "min": np.minimum, "max": np.maximum}
MULTIPLY: dict[str, Any] = {
    "times": lambda a, b: a * b, "plus": lambda a, b: a + b, "second": lambda a, b: b, "pair": lambda a, b: type(a)(1),
}  # fmt: skip
FILLS = {"plus": 0, "min": math.inf, "max": -math.inf}
SEMIRINGS: list[tuple[str, str, Any]] = [
    ("plus", "times", np.float64), ("plus", "times", np.int64), ("min", "plus", np.float64),
    ("max", "second", np.float32), ("plus", "pair", np.uint64),
]  # fmt: skip

Rows = list[dict[int, Any]]


def to_csr(rows: Rows, dtype: Any) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[Any]]:
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
    columns = np.array([column for row in rows for column in sorted(row)], np.uint32)
    return indptr, columns, np.array([row[column] for row in rows for column in sorted(row)], dtype)


def multiply_rows(lhs: Rows, rhs: Rows, add: Any, multiply: Any) -> Rows:
    """Return the rows of a product, added in the order of the left elements."""
    out: Rows = []
    for row in lhs:
        found: dict[int, Any] = {}
        for k in sorted(row):
            for column in sorted(rhs[k]):
                value = multiply(row[k], rhs[k][column])
                found[column] = add(found[column], value) if column in found else value
        out.append(found)
    return out


def largest(row: dict[int, Any], k: int) -> list[tuple[int, Any]]:
    """Return the largest results of a row, NaN last, in order of columns."""
    pairs = [(column, value.item()) for column, value in row.items()]
    pairs.sort(key=lambda each: (each[1] != each[1], -each[1] if each[1] == each[1] else 0, each[0]))
    return sorted(pairs[:k], key=lambda each: each[0])


def select(
    semiring: tuple[str, str, Any], lhs: Rows, rhs: Rows, width: int, k: int, excluded: Rows | None = None,
    space: Workspace | None = None, rounds: bool = False,
) -> list[list[tuple[int, Any]]]:  # fmt: skip
    """Return columns and results that the kernel selects."""
    add, multiply, dtype = *semiring[:2], np.dtype(semiring[2])
    space = space or Workspace(width, dtype, get_seed(add, dtype, width, width))
    mask = to_csr(excluded or [], dtype)
    bounds = (mask[0][:-1], mask[0][1:], mask[1]) if excluded is not None else (mask[0][:0], mask[0][:0], mask[1])
    indptr, size = np.empty(len(lhs) + 1, np.int64), len(lhs) * k
    columns, out = np.empty(size, np.uint32), np.empty(size, dtype)
    arguments: Any = (*to_csr(lhs, dtype), *to_csr(rhs, dtype), *bounds)
    n = get_topk_kernel(add, multiply, dtype, rounds=rounds)(
        *[as_readonly(array) for array in arguments], np.uint64(width),
        dtype.type(FILLS[add]), space.seed, space.row, np.uint64(k), indptr, columns, out,
    )  # fmt: skip
    assert n == indptr[-1]
    assert (space.row == space.seed).all()
    pairs = list(zip(columns[:n].tolist(), out[:n].tolist(), strict=True))
    return [pairs[first:last] for first, last in itertools.pairwise(indptr.tolist())]


@st.composite
def operands(draw: Any, dtype: Any) -> tuple[Rows, Rows, Rows, int]:
    """Return left, right and excluded rows, and a width."""
    width = draw(st.sampled_from([1, 7, 40, 1000]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    height, inner = draw(st.integers(0, 5)), draw(st.integers(1, 12))
    has_ties = draw(st.booleans())  # many equal and cancelling sums
    kind = np.dtype(dtype).kind
    edges = [0.0, math.inf, math.nan, -0.0] if kind == "f" and draw(st.booleans()) else [1]

    def number() -> Any:
        if rng.random() < 0.1:
            return dtype(rng.choice(edges))
        bound = 3 if has_ties else 99
        return dtype(rng.integers(0 if kind == "u" else -bound, bound) * (0.37 if kind == "f" else 1))

    def rows(count: int, size: int, most: int) -> Rows:
        sizes = rng.integers(0, min(most, size) + 1, count)
        return [{int(c): number() for c in rng.choice(size, n, replace=False)} for n in sizes]

    return rows(height, inner, inner), rows(inner, width, 30), rows(height, width, 5), width


@given(st.sampled_from(SEMIRINGS), st.integers(1, 12), st.booleans(), st.data())
def test_selects_the_largest_of_full_rows(semiring: tuple[str, str, Any], k: int, excludes: bool, data: Any) -> None:
    add, multiply, dtype = semiring
    lhs, rhs, excluded, width = data.draw(operands(dtype))
    found = select(semiring, lhs, rhs, width, k, excluded if excludes else None)
    with np.errstate(all="ignore"):
        expected = multiply_rows(lhs, rhs, ADD[add], MULTIPLY[multiply])
    for row, other, selected in zip(expected, excluded, found, strict=True):
        kept = {c: value for c, value in row.items() if value != FILLS[add] and not (excludes and c in other)}
        assert repr(selected) == repr(largest(kept, k))  # NaN equals nothing


def test_integers_keep_all_bits() -> None:
    rhs: Rows = [dict(enumerate([2**62 + 1, 2**62, 2**62 + 3, -(2**62) - 1]))]
    found = select(("plus", "times", np.int64), [{0: 1}], rhs, 4, 2)
    assert found == [[(0, 2**62 + 1), (2, 2**62 + 3)]]


def test_nan_is_taken_where_nothing_else_is_left() -> None:
    rhs: Rows = [{0: math.nan, 1: 2.0, 2: math.nan, 3: -math.inf, 4: math.nan, 5: 0.0}]
    plus_times = "plus", "times", np.float64
    for k, expected in ((1, [1]), (2, [1, 3]), (3, [0, 1, 3]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3, 4])):
        (found,) = select(plus_times, [{0: 1.0}], rhs, 6, k)
        assert [column for column, _ in found] == expected
    (found,) = select(plus_times, [{0: 1.0}], rhs, 6, 3, excluded=[{0: 1.0}])
    assert [column for column, _ in found] == [1, 2, 3]


def test_ties_are_those_of_rounded_results() -> None:
    rhs: Rows = [{column: 1 + 2.0**-30 * column for column in range(20)}]
    for rounds, expected in ((False, [17, 18, 19]), (True, [0, 1, 2])):
        (found,) = select(("plus", "times", np.float64), [{0: 1.0}], rhs, 20, 3, rounds=rounds)
        assert [column for column, _ in found] == expected


@pytest.mark.parametrize("k", [1, 5, 64])
def test_workspaces_serve_rows_of_any_length(k: int) -> None:
    rng = np.random.default_rng(1)
    rhs: Rows = [{int(c): np.float64(c % 97 - 30) for c in rng.choice(900, n, replace=False)} for n in (1, 30, 800)]
    lhs: Rows = [{int(c): np.float64(1 + c) for c in rng.choice(3, n, replace=False)} for n in rng.integers(0, 4, 60)]
    space = Workspace(900, np.dtype(float), seed=0)
    expected = multiply_rows(lhs, rhs, ADD["plus"], MULTIPLY["times"])
    for _ in range(2):
        found = select(("plus", "times", np.float64), lhs, rhs, 900, k, space=space)
        assert found == [largest({c: value for c, value in row.items() if value}, k) for row in expected]
