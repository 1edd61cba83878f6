"""A tensor of given names never meets its own transpose, or a function of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import LabelError, SparrowError

xp: Any = np
DENSE = np.arange(1.0, 10).reshape(3, 3) % 7


def make_tensor(dense: Any = DENSE, dims: tuple[str, ...] = ("user", "friend")) -> sp.Tensor:
    found = np.asarray(dense).nonzero()
    return sp.from_coords(found, np.asarray(dense)[found], np.shape(dense), dims=dims)


STEPS: dict[str, Callable[[Any], Any]] = {
    "multiply": lambda x: x * 1,
    "reflected": lambda x: 2 * x,
    "divide": lambda x: x / 2,
    "power": lambda x: x**2,
    "subtract": lambda x: x - 1,
    "negative": lambda x: -x,
    "compare": lambda x: x > 0,
    "expm1": xp.expm1,
    "exp": xp.exp,
    "clip": lambda x: x.clip(0, 3),
    "round": lambda x: x.round(1),
    "isnan": xp.isnan,
    "modf": lambda x: xp.modf(x)[0],
    "cast": lambda x: x.astype("f4"),
    "same cast": lambda x: x.astype(x.dtype, copy=True),
    "copy": lambda x: x.copy(),
    "compute": lambda x: x.compute(),
    "compute with another": lambda x: sp.compute(x, x.sum())[0],
    "persist": lambda x: x.persist(),
    "refill": lambda x: x.refill(5),
    "tril": sp.tril,
    "array": lambda x: x * DENSE,
    "with itself": lambda x: x + x * 2,
    "row sums": lambda x: x / x.sum(axis=0, keepdims=True),
    "sums": lambda x: x - x.max(axis=1),
    "where": lambda x: sp.where(x > 1, x, 0),
    "transposed twice": lambda x: (x.T * 3).T,
    "reversed twice": lambda x: (x[::-1] * 1)[::-1],
    "format": lambda x: x.asformat("csr"),
    "other names": lambda x: x.rename(**{x.dims[0]: "a"}).rename(a=x.dims[0]),
}
MEETINGS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "equal": np.equal,
    "where": lambda x, y: sp.where(x > 0, y, 0),
    "concat": lambda x, y: sp.concat([x, y]),
    "mask": lambda x, y: x[y > 0],
    "mask of a product": lambda x, y: sp.matmul(x, x, mask=y, stype="coo"),
}
chains = st.lists(st.sampled_from(sorted(STEPS)), max_size=4)


def apply_steps(tensor: Any, steps: list[str]) -> Any:
    with np.errstate(all="ignore"):
        for name in steps:
            with contextlib.suppress(
                SparrowError
            ):  # the triangle of a tensor of another fill, the negative of booleans
                tensor = STEPS[name](tensor)
    return tensor


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("meeting", MEETINGS)
def test_step_of_transpose_raises(step: str, meeting: str) -> None:
    n = make_tensor()
    if meeting == "mask of a product" and STEPS[step](n).fill_value:
        pytest.skip("a mask has fill value 0")
    for one, other in ((n, STEPS[step](n.T)), (STEPS[step](n), n.T)):
        with pytest.raises(LabelError, match=r"rename\(.*\) goes by position"):
            MEETINGS[meeting](one, other)


@given(chains, chains, st.sampled_from(sorted({*MEETINGS} - {"mask of a product"})))
def test_chain_meets_its_transpose(mine: list[str], theirs: list[str], meeting: str) -> None:
    n = make_tensor()
    with pytest.raises(LabelError, match="goes by position"):
        MEETINGS[meeting](apply_steps(n, mine), apply_steps(n.T, theirs))


@given(chains, chains)
def test_other_tensors_match_by_name(mine: list[str], theirs: list[str]) -> None:
    n, m = make_tensor(), make_tensor(DENSE.T % 5, ("friend", "user"))
    one, other = apply_steps(n, mine), apply_steps(m, theirs)
    with np.errstate(all="ignore"):
        expected = one.to_numpy() + other.to_numpy().T
        np.testing.assert_allclose((one + other).to_numpy(), expected, rtol=1e-6)
        np.testing.assert_allclose((other + one).to_numpy(), expected.T, rtol=1e-6)


def test_rename_goes_by_position() -> None:
    n = make_tensor()
    renamed = [each.rename(user="friend", friend="user") for each in (n.T * 2, n.T.copy() * 2)]
    for found in (n + renamed[0], renamed[1] + n):
        np.testing.assert_array_equal(found.to_numpy(), DENSE + 2 * DENSE.T)
    swapped = n.rename(user="friend", friend="user")
    np.testing.assert_array_equal((n + swapped).to_numpy(), DENSE + DENSE.T)  # other names for the same elements
    with pytest.raises(LabelError, match="goes by position"):
        swapped + (swapped.T * 1)


def test_functions_of_two_tensors() -> None:
    n, m = make_tensor(), make_tensor(DENSE.T % 5, ("friend", "user"))
    other = DENSE.T % 5
    product = n * m
    np.testing.assert_array_equal((product + m).to_numpy(), DENSE * other.T + other.T)  # it has been matched before
    np.testing.assert_array_equal((product + m * n).to_numpy(), 2 * DENSE * other.T)
    sums = n.sum(axis="friend", keepdims=True)  # leads the product with its names
    np.testing.assert_array_equal((sums * m + m).to_numpy(), DENSE.sum(1, keepdims=True) * other.T + other.T)
    with pytest.raises(LabelError, match="goes by position"):
        product + product.T * 1


def test_parts_and_further_dimensions() -> None:
    n = make_tensor()
    with pytest.raises(LabelError, match="goes by position"):
        n[:2, :2] + n[:2, :2].T * 1
    with pytest.raises(LabelError, match="goes by position"):
        (n * 1)[:2, :2] + n[:2, :2].T
    corner = n[1:, 1:].T * 1  # other elements: no transpose of the first two rows and columns
    np.testing.assert_array_equal((n[:2, :2] + corner).to_numpy(), DENSE[:2, :2] + DENSE[1:, 1:])
    cube = make_tensor(np.arange(8.0).reshape(2, 2, 2), ("a", "b", "c"))
    for axes in ((2, 1, 0), (1, 2, 0), (0, 2, 1)):
        with pytest.raises(LabelError, match="goes by position"):
            cube + cube.transpose(axes) * 1


def test_rectangular_transpose() -> None:
    n = make_tensor(DENSE[:2])
    for turned in (n.T, n.T * 1, n.T.copy()):
        with pytest.raises(LabelError, match="goes by position"):
            n + turned
    np.testing.assert_array_equal(n[n.T > 2].to_numpy(), DENSE[:2][DENSE[:2] > 2])  # no mask by position


def test_writes_of_a_transpose() -> None:
    n = make_tensor()
    writes: list[Callable[[], Any]] = [
        lambda: n.__setitem__(..., n.T * 1),
        lambda: n.append(n.T.copy(), duplicates="last"),
    ]
    for write in writes:
        with pytest.raises(LabelError, match="goes by position"):
            write()
    np.testing.assert_array_equal(n.to_numpy(), DENSE)
    changed = n.T.copy()
    changed[0, 1] = 50  # another tensor now, matched by name
    assert (changed + n)[0, 1] == 50 + DENSE[1, 0]


def test_origin_of_deep_expressions() -> None:
    n = make_tensor()
    chain: Any = n.T
    for _ in range(3000):
        chain = chain * 1
    with pytest.raises(LabelError, match="goes by position"):
        n + chain
    shared: Any = n.T
    for _ in range(60):  # 2**60 paths lead to the tensor
        shared = shared + shared
    with pytest.raises(LabelError, match="goes by position"):
        n + shared


def test_assigned_names_go_by_position() -> None:
    graph = sp.asarray(DENSE)
    np.testing.assert_array_equal((graph + graph.T * 1).to_numpy(), DENSE + DENSE.T)
    np.testing.assert_array_equal((graph.T.copy() + graph).to_numpy(), DENSE + DENSE.T)
