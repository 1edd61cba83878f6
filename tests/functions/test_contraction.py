"""einsum and its kin against NumPy's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
import sparrow.testing
from sparrow.errors import InvalidValueError, LabelError, ShapeError, TooLargeError, UnsupportedError

SIZES = dict(zip("ijklmn", (4, 5, 3, 6, 2, 4), strict=True))

CASES = [
    "ij,jk->ik", "ij,jk", "ij,kj->ik", "ij,ij->", "ij,ij->ij", "ij,ij->i", "i,j->ij", "i,i", "ii->i", "ii->", "ii",
    "ij->ji", "ij->j", "ij->", "ijk->ik", "iij->j", "ijk,kl->ijl", "ijk,kl->lij", "ijk,jk->i", "ij,jk,kl->il",
    "ij,jk,kl,lm->im", "ijk,jl,kl->il", "ijk,ijk->", "bij,bjk->bik", "bij,bjk->ikb", "ij,j->ij", "ij,i->ij",
    "ii,ij->j", "iij,jk->ik", "ij,jj->i", "ij,kl->ik", ",ij->ij", "...j,jk->...k", "i...,i...->...",
    "...ij,...jk->...ik", "ij,jk,ik->", "i,j,k->ijk", "ij,ik->jk", " i j , j k -> i k ",
    "ijk,ijk->ik", "ijk,jik->jk", "ijk,kij->kj", "ij,ji->ji",
]  # fmt: skip


def some(shape: tuple[int, ...], seed: int = 0, dtype: Any = np.int64) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return ((rng.random(shape) < 0.4) * rng.integers(-3, 4, shape)).astype(dtype)


def operands_of(subscripts: str) -> list[NDArray[Any]]:
    """Return arrays that fit subscripts; the first "..." has an axis of length 1."""
    found = []
    for number, part in enumerate("".join(subscripts.split()).partition("->")[0].split(",")):
        head, dots, tail = part.partition("...")
        broad = ((2, 1) if number == 0 else (2, 3)) if dots else ()
        shape = (*(SIZES.get(x, 3) for x in head), *broad, *(SIZES.get(x, 3) for x in tail))
        found.append(some(shape, number))
    return found


def same(found: Any, wanted: Any) -> None:
    cells = found.to_numpy() if isinstance(found, sp.Tensor) else np.asarray(found)
    assert cells.dtype == np.asarray(wanted).dtype
    np.testing.assert_array_equal(cells, wanted)


@pytest.mark.parametrize("subscripts", CASES)
def test_einsum_matches_numpy(subscripts: str) -> None:
    arrays = operands_of(subscripts)
    wanted = np.einsum(subscripts, *arrays)
    tensors = [sp.asarray(array) for array in arrays]
    for optimize in ("auto", False, "greedy", sp.einsum_path(subscripts, *tensors)[0]):
        same(sp.einsum(subscripts, *tensors, optimize=optimize), wanted)
    same(np.einsum(subscripts, *tensors), wanted)
    for k in range(len(arrays)) if len(arrays) > 1 else ():
        mixed = [tensors[k] if k == at else array for at, array in enumerate(arrays)]
        same(sp.einsum(subscripts, *mixed), wanted)
    for engine in ("stream", "duckdb"):
        same(sp.einsum(subscripts, *tensors, engine=engine), wanted)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_random_subscripts(data: st.DataObject) -> None:
    letters = st.text("ijkl", min_size=0, max_size=3)
    inputs = data.draw(st.lists(letters, min_size=1, max_size=4))
    known = sorted(set("".join(inputs)))
    output = "".join(data.draw(st.permutations(known)))[: data.draw(st.integers(0, len(known)))]
    arrays = [some(tuple(SIZES[x] for x in own), data.draw(st.integers(0, 9))) for own in inputs]
    subscripts = f"{','.join(inputs)}->{output}"
    same(sp.einsum(subscripts, *map(sp.asarray, arrays)), np.einsum(subscripts, *arrays))


def test_semirings_of_several_operands() -> None:
    a, b, c = (some(shape, k) for k, shape in enumerate([(4, 5), (5, 3), (3, 6)]))
    A, B, C = map(sp.asarray, (a, b, c))
    big = np.iinfo(np.int64).max
    longest, counts = np.full((4, 6), big), np.zeros((4, 6), np.int64)
    for i, j, k, m in itertools.product(range(4), range(5), range(3), range(6)):
        if a[i, j] and b[j, k] and c[k, m]:
            longest[i, m] = min(longest[i, m], a[i, j] + b[j, k] + c[k, m])
            counts[i, m] += 1
    same(sp.einsum("ij,jk,kl->il", A, B, C, semiring="min_plus"), longest)
    same(sp.einsum("ij,jk,kl->il", A, B, C, semiring="plus_pair"), counts)  # nothing is summed before the last step
    same(sp.einsum("ij->i", A, semiring="max_plus"), np.where(a != 0, a, np.iinfo(np.int64).min).max(axis=1))
    mask = sp.asarray(some((4, 6), 7))
    hidden = sp.einsum("ij,jk,kl->il", A, B, C, mask=mask, complement=True)
    same(hidden, np.where(mask.to_numpy() != 0, 0, a @ b @ c))


def test_path_is_cheapest() -> None:
    n = 2000
    A, B = (sp.random((n, n), nnz=40_000, seed=seed) for seed in (1, 2))
    v = sp.random((n, n), nnz=20, seed=3)
    path, told = sp.einsum_path("ij,jk,kl->il", A, B, v)
    assert path == ["einsum_path", (1, 2), (0, 1)]
    assert "products" in told
    assert told.startswith("ij,jk,kl->il, plus_times")
    assert sp.einsum_path("ij,jk,kl->il", A, B, v, optimize=False)[0] == ["einsum_path", (0, 1), (0, 1)]
    assert sp.einsum_path("ij,jk,kl->il", A, B, v, semiring="plus_pair")[0][1] == (0, 1)
    several = ",".join(f"{a}{b}" for a, b in itertools.pairwise("abcdefghij"))
    assert len(sp.einsum_path(several, *[v] * 9)[0]) == 9


class Work:
    """The products that steps of an einsum take, counted."""

    def __init__(self, subscripts: str, arrays: list[Any]) -> None:
        before, self.out = subscripts.split("->")
        self.inputs = before.split(",")
        self.known = {1 << k: each for k, each in enumerate(zip(self.inputs, arrays, strict=True))}

    def step(self, one: int, other: int) -> float:
        (a, left), (b, right) = self.known[one], self.known[other]
        if one | other not in self.known:
            rest = [own for k, own in enumerate(self.inputs) if not (one | other) >> k & 1]
            out = "".join(x for x in dict.fromkeys(a + b) if x in set(self.out).union(*rest))
            found = np.einsum(f"{a},{b}->{out}", left, right, optimize=True)
            self.known[one | other] = out, (found > 0) * 1.0
        return float(np.einsum(f"{a},{b}->", left, right, optimize=True))

    def of(self, path: list[Any]) -> float:
        left, total = [1 << k for k in range(len(self.inputs))], 0.0
        for step in path:
            one, other = (left[k] for k in step)
            left = [*(x for k, x in enumerate(left) if k not in step), one | other]
            total += self.step(one, other)
        return total

    def least(self) -> float:
        count = len(self.inputs)
        cost = {1 << k: 0.0 for k in range(count)}
        for whole in range(1, 1 << count):
            part = (whole - 1) & whole
            while part:
                spent = cost[part] + cost[whole ^ part] + self.step(part, whole ^ part)
                cost[whole] = min(cost.get(whole, spent), spent)
                part = (part - 1) & whole
        return cost[(1 << count) - 1]


def expression(seed: int) -> tuple[str, list[Any]]:
    """Return a connected einsum of 3 to 5 operands of random sizes and densities."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 6))
    sizes = {x: int(rng.choice([3, 8, 16, 30])) for x in "abcdefg"}
    inputs = ["".join(rng.choice(list("abc"), 2, replace=False))]
    while len(inputs) < count:
        held = str(rng.choice(sorted(set("".join(inputs)))))
        others = [x for x in "abcdefg"[: count + 1] if x != held]
        inputs.append(held + "".join(rng.choice(others, int(rng.integers(1, 3)), replace=False)))
    out = "".join(rng.choice(sorted(set("".join(inputs))), int(rng.integers(0, 3)), replace=False))
    arrays = []
    for own in inputs:
        shape = tuple(sizes[x] for x in own)
        nnz = min(max(1, int(np.prod(shape) * rng.choice([1, 0.3, 0.05, 0.01]))), 3000)
        at = [(rng.random(nnz) ** rng.choice([1, 1, 3]) * size).astype(int) for size in shape]
        array = np.zeros(shape)
        array[tuple(at)] = 1
        arrays.append(array)
    return f"{','.join(inputs)}->{out}", arrays


@pytest.fixture
def product_counts() -> Iterator[list[int]]:
    """Count the products of each binary product that runs."""
    counts: list[int] = []
    with sparrow.testing.on("product.lhs_rows", lambda products: counts.append(int(products))):
        yield counts


@pytest.mark.parametrize(
    "seed", [*range(10), 11, 12, 16, 17, 19, 21, 24, 27, 28]
)  # of the later more than ten products
def test_path_is_within_twice_the_optimum(seed: int, product_counts: list[int]) -> None:
    subscripts, arrays = expression(seed)
    work = Work(subscripts, arrays)
    tensors = [sp.asarray(array) for array in arrays]
    assert work.of(sp.einsum_path(subscripts, *tensors)[0][1:]) <= 2 * work.least() + 10
    same(sp.einsum(subscripts, *tensors), np.einsum(subscripts, *arrays, optimize=True))
    assert sum(product_counts) <= 2 * work.least() + 10


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_skewed_coordinates_are_counted(tmp_path: Path, place: str, product_counts: list[int]) -> None:
    a, b, c = np.zeros((300, 300)), np.zeros((300, 300)), np.zeros((300, 300))
    rng = np.random.default_rng(0)
    a[:200, 0] = b[0] = c[:, :10] = 1  # all of A meets the one full row of B
    b[rng.integers(0, 300, 2700), rng.integers(0, 300, 2700)] = 1
    tensors = [sp.asarray(each) for each in (a, b, c)]
    if place == "disk":
        tensors = [each.save(tmp_path / str(k)) for k, each in enumerate(tensors)]
    work = Work("ij,jk,kl->il", [a, b, c])
    found = sp.einsum("ij,jk,kl->il", *tensors)
    same(found, a @ b @ c)
    best = work.of([(1, 2), (0, 1)])
    assert work.of([(0, 1), (0, 1)]) > 10 * best
    assert sum(product_counts) == best
    assert sp.einsum_path("ij,jk,kl->il", *tensors)[0][1] == (1, 2)  # what was counted of files is kept


def test_rest_is_reordered_after_each_step(product_counts: list[int]) -> None:
    a, b = np.zeros((20, 20, 20)), np.zeros((20, 20, 20))
    at = np.arange(20)
    a[:, at, at] = b[at, (at + 1) % 20] = b[0, 0, :3] = 1  # along j and k each is anywhere, together they hardly meet
    a[1:, 0, 0] = 0
    c, d = np.ones((20, 20)), np.ones((20, 3))
    subscripts, arrays = "ijk,jkl,lm,mn->in", [a, b, c, d]
    tensors = [sp.asarray(each) for each in arrays]
    path = sp.einsum_path(subscripts, *tensors)[0][1:]
    work = Work(subscripts, arrays)
    assert path == [(0, 1), (0, 1), (0, 1)]  # the last two of four are multiplied next
    assert work.of(path) > 5 * work.least()
    product = sp.einsum(subscripts, *tensors)
    told = product.explain()
    assert [line.split()[1] for line in told.splitlines() if line.split()[0] == "step"] == [
        "ijk,jkl->il,", "lm,mn->ln,", "il,ln->in,"
    ]  # fmt: skip
    assert "actual" not in told
    product_counts.clear()
    told = product.explain(analyze=True)
    assert sum(product_counts) == work.least()
    steps = [line for line in told.splitlines() if line.startswith("step: ")]
    assert steps[0].endswith("elements expected, actual: 3 elements")
    assert steps[1].endswith("elements expected, actual: 20 elements")
    assert len(steps) == 3
    same(product, np.einsum(subscripts, *arrays, optimize=True))
    product_counts.clear()
    same(sp.einsum(subscripts, *tensors, optimize=path), np.einsum(subscripts, *arrays, optimize=True))
    assert sum(product_counts) == work.of(path)  # an order that is given is kept


@pytest.fixture
def no_step_fits() -> Iterator[None]:
    with sparrow.testing.tune("product", chain_step_share=1e12):
        yield


@pytest.mark.usefixtures("no_step_fits")
def test_steps_that_do_not_fit_are_not_held() -> None:
    arrays = [some((9, 9), seed, np.float64) for seed in range(4)]
    subscripts, tensors = "ij,jk,kl,lm->im", [sp.asarray(each) for each in arrays]
    wanted = np.einsum(subscripts, *arrays)
    product = sp.einsum(subscripts, *tensors)
    told = product.explain(analyze=True)
    assert told.count("\nstep: ") == 3
    assert "actual: " not in told
    same(product, wanted)
    same(product[2:5, ::2], wanted[2:5, ::2])
    same(product.T, wanted.T)
    np.testing.assert_allclose(product.sum(axis=0).to_numpy(), wanted.sum(axis=0))
    mask = some((9, 9), 7) != 0
    for complement in (False, True):
        found = sp.einsum(subscripts, *tensors, mask=sp.asarray(mask), complement=complement)
        same(found, wanted * (mask != complement))
        assert float(found.sum()) == (wanted * (mask != complement)).sum()
    same(product * product + product, wanted * wanted + wanted)
    assert sp.einsum("ij,jk,kl,li->", *tensors) == np.einsum("ij,jk,kl,li->", *arrays)


def test_intermediate_steps_release_memory() -> None:
    held: list[int] = []
    arrays = [some((9, 9), seed, np.float64) for seed in range(5)]
    with sparrow.testing.observe("product.chain_step") as steps:
        measure = lambda: held.extend(details["reservation"].nbytes for _, details in steps)  # noqa: E731
        with sparrow.testing.on("product.chain_last_step", measure):
            same(sp.einsum("ij,jk,kl,lm,mn->in", *map(sp.asarray, arrays)), np.einsum("ij,jk,kl,lm,mn->in", *arrays))
    assert len(held) == 3
    assert 0 < np.count_nonzero(held) < 3  # those of the last product's operands


def test_chain_with_very_different_orders() -> None:
    A, B = (sp.random((500, 500), nnz=20_000, seed=seed) for seed in (1, 2))
    v = sp.random((500, 500), nnz=3, seed=3)
    work = Work("ij,jk,kl->il", [(each.to_numpy() != 0) * 1.0 for each in (A, B, v)])
    best = work.of([(1, 2), (0, 1)])
    assert work.of([(0, 1), (0, 1)]) > 100 * best
    assert work.of(sp.einsum_path("ij,jk,kl->il", A, B, v)[0][1:]) <= 2 * best
    product = sp.einsum("ij,jk,kl->il", A, B, v)
    told = product.explain().splitlines()
    assert [line.split()[1] for line in told if line.split()[0] == "step"] == ["jk,kl->jl,", "ij,jl->il,"]
    (expected,) = [float(line.split()[1]) for line in told if "expected" in line]
    assert 0.5 * best < expected < 2 * best


def test_tensordot_dot_inner_and_kron() -> None:
    a, b = some((3, 4, 5), 1), some((4, 3, 2), 2)
    A, B = sp.asarray(a), sp.asarray(b)
    pairs: list[Any] = [([1, 0], [0, 1]), (1, 0), ((-2,), (-3,))]
    for axes in pairs:
        same(sp.tensordot(A, B, axes=axes), np.tensordot(a, b, axes))
        same(np.tensordot(A, b, axes), np.tensordot(a, b, axes))
    same(sp.tensordot(A, B, axes=0), np.tensordot(a, b, 0))
    same(np.dot(A[0], A[0].T), a[0] @ a[0].T)
    same(np.dot(A, sp.asarray(some((5, 2), 4))), np.dot(a, some((5, 2), 4)))
    same(np.dot(A, 3), a * 3)
    same(np.inner(A, A[:, 0]), np.inner(a, a[:, 0]))
    found = sp.kron(A[0], B[:, :, 0])
    assert "lazy" in repr(found)
    same(found, np.kron(a[0], b[:, :, 0]))
    with pytest.raises(ShapeError, match=r"axes=4 of operands of the shapes .*, 0 to 3"):
        sp.tensordot(A, B, axes=4)
    with pytest.raises(ShapeError, match="is not dimension"):
        sp.tensordot(A, B, axes=1)


def test_invalid_input_raises() -> None:
    A = sp.asarray(some((4, 5)))
    cases: list[tuple[type[Exception], str, Any]] = [
        (InvalidValueError, "letter 'l' of the result is missing", ("ij,jk->il", A, A.T)),
        (ShapeError, "'j' is 5 along axis 1 of operand 1.*and 4 along axis 0 of operand 2", ("ij,jk", A, A)),
        (ShapeError, r"operand 1 of shape \(4, 5\) does not match its letters 'ijk'", ("ijk,jk", A, A)),
        (InvalidValueError, "is for 2 operands, got 1", ("ij,jk", A)),
        (InvalidValueError, "subscripts must consist of", ("i$,jk", A, A)),
        (InvalidValueError, "must not repeat a letter", ("ij->ii", A)),
        (InvalidValueError, "must be subscripts", (A, "ij")),
        (UnsupportedError, "requires at least one tensor", ("i,i", [1.0], [2.0])),
        (UnsupportedError, r"fill value must be 0, got 1.*A\.sum", ("ij->i", np.exp(A))),
    ]
    for error, message, arguments in cases:
        with pytest.raises(error, match=message):
            sp.einsum(*arguments)
    with pytest.raises(InvalidValueError, match="not a path of 2 operands"):
        sp.einsum("ij,jk", A, A.T, optimize=[(0, 2)])
    with pytest.raises(InvalidValueError, match=r"optimize must be .*, got 'best'"):
        sp.einsum("ij,jk", A, A.T, optimize="best")
    with pytest.raises(InvalidValueError, match=r"optimize must be .*, got array"):
        sp.einsum("ij,jk", A, A.T, optimize=np.array([0, 1]))  # type: ignore[arg-type]


@given(
    st.integers(0, 2**32), st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 7)),
    st.sampled_from(["float64", "float32", "int64", "complex128"]), st.sampled_from(["arrays", "left", "both"]),
)  # fmt: skip
def test_sddmm_matches_numpy(seed: int, sizes: tuple[int, int, int], kind: str, given: str) -> None:
    m, k, n = sizes
    rng = np.random.default_rng(seed)
    S, X, Y = (np.where(rng.random(s) < 0.5, rng.integers(-4, 5, s), 0).astype(kind) for s in ((m, n), (m, k), (k, n)))
    x, y = (sp.asarray(X) if given != "arrays" else X), (sp.asarray(Y) if given == "both" else Y)
    tensor = sp.asarray(S, dims=("row", "item"))
    found = sp.sddmm(tensor, x, y)
    assert found.dims == ("row", "item")
    assert found.dtype == kind
    np.testing.assert_array_equal(found.to_numpy(), S * (X @ Y))
    assert found.nnz <= tensor.nnz


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["bool", "int8", "uint64", "float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("depth", [1, 5, 8, 19])
def test_sddmm_kernel_matches_numpy(depth: int, kind: str, threads: int) -> None:
    rng = np.random.default_rng(depth)
    m, n = 37, 53
    S, X, Y = (
        np.where(rng.random(shape) < 0.4, rng.integers(0, 2, shape) - 2 * rng.integers(0, 2, shape), 0).astype(kind)
        for shape in ((m, n), (m, depth), (depth, n))
    )
    batches = sparrow.testing.tune("product", sampled_batch_elements=100)
    with sp.config(threads=threads), sparrow.testing.strategy("numba"), batches:
        found = sp.sddmm(sp.asarray(S), X, Y)
    assert found.dtype == kind
    np.testing.assert_array_equal(found.to_numpy(), S * (X @ Y))


@pytest.mark.parametrize("kind", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("depth", [1, 7, 8, 45])
def test_sddmm_numpy_matches_kernel_bit_for_bit(depth: int, kind: str) -> None:
    rng = np.random.default_rng(depth)
    S, X, Y = (rng.normal(size=shape).astype(kind) for shape in ((20, 30), (20, depth), (depth, 30)))
    found = []
    for way in ("numpy", "numba"):
        with sparrow.testing.strategy(way):
            found.append(sp.sddmm(sp.asarray(S), X, Y).to_numpy().tobytes())
    assert found[0] == found[1]


def test_sddmm_nan_reaches_only_its_elements() -> None:
    X, Y = np.ones((3, 9)), np.ones((9, 4))
    X[1, 8], Y[0, 3], Y[4, 3] = np.nan, np.inf, -np.inf
    with sparrow.testing.strategy("numba"):
        found = sp.sddmm(sp.asarray(np.eye(3, 4) + np.eye(3, 4, 3)), X, Y)
    np.testing.assert_array_equal(found.to_numpy(), [[9, 0, 0, np.nan], [0, np.nan, 0, 0], [0, 0, 9, 0]])


def test_sddmm_partitions_labels_and_errors() -> None:
    S = sp.from_coords([[0, 1, 1], [1, 0, 1]], [1.0, 2.0, 3.0], labels={"d0": ["a", "b"], "d1": ["x", "y"]})
    X, Y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [7.0, 8.0]])
    with sparrow.testing.strategy("numpy"):
        whole = sp.sddmm(S, X, Y)
    with sparrow.testing.strategy("numba"), sparrow.testing.tune("product", sampled_batch_elements=1):
        pieces = sp.sddmm(S, X, Y)
    assert pieces.to_numpy().tolist() == whole.to_numpy().tolist() == (S.to_numpy() * (X @ Y)).tolist()
    assert whole.sel(d0="b", d1="x") == 86
    with pytest.raises(ShapeError, match=r"\(M, N\), \(M, K\) and \(K, N\)"):
        sp.sddmm(S, X, Y[:1])
    with pytest.raises(UnsupportedError, match="refill"):
        sp.sddmm(S + 1, X, Y)
    # 32 bytes of an array that does not lie as the loop reads it
    for x, y in ((X, Y), (X.T.copy().T, Y.T.copy().T)):
        with sp.config(memory_limit=31), pytest.raises(TooLargeError, match="copies of the arrays"):
            sp.sddmm(S, x, y)


def test_large_sddmm_is_lazy() -> None:
    S = sp.asarray([[0.0, 2.0], [3.0, 4.0]], labels={"d0": ["a", "b"]})
    X, Y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [7.0, 8.0]])
    nbytes = 3 * 16
    with sp.config(memory_limit=4 * nbytes - 1):
        found = sp.sddmm(S, X, Y)
        with sparrow.testing.observe("stream.evaluate") as computed:
            assert found.labels(0) == S.labels(0)
            assert not computed
            assert found.sum(axis=0).to_numpy().tolist() == (S.to_numpy() * (X @ Y)).sum(axis=0).tolist()
        assert computed
    with sp.config(memory_limit=4 * nbytes), sparrow.testing.observe("stream.evaluate") as computed:
        np.testing.assert_array_equal(sp.sddmm(S, X, Y).to_numpy(), found.to_numpy())


def test_sddmm_factors_with_fewer_labels() -> None:
    S, X, Y = (sp.asarray(np.arange(1.0, n * k + 1).reshape(n, k)) for n, k in ((2, 3), (2, 2), (2, 3)))
    for tensor, labels in ((S, {"d0": ["a", "b"], "d1": ["x", "y", "z"]}), (X, {"d0": ["b", "c"], "d1": ["p", "q"]}),
                           (Y, {"d0": ["q", "p"], "d1": ["z", "y", "w"]})):  # fmt: skip
        for dim, names in labels.items():
            tensor.set_labels(dim, names)
    for x, y in ((X, Y), (X[:1], Y), (X, Y[:1]), (X, Y[:, :2])):
        found, wanted = sp.sddmm(S, x, y), S * (x @ y)
        assert (found.labels(0), found.labels(1)) == (wanted.labels(0), wanted.labels(1))
        np.testing.assert_array_equal(found.to_numpy(), wanted.to_numpy())
    with pytest.raises(ShapeError, match=r"got \(2, 3\), \(1, 2\), \(2, 3\)"):
        sp.sddmm(S, np.ones((1, 2)), Y)


def test_scalar_result() -> None:
    cell = sp.asarray(np.array(3))
    for subscripts, operands in (("->", (cell,)), ("", (cell,)), ("...->...", (cell,)), (",->", (cell, 1))):
        for engine in ("auto", "duckdb"):
            found = sp.einsum(subscripts, *operands, engine=engine)
            assert isinstance(found, np.int64)
            assert found == 3
    assert isinstance(sp.einsum("...->...", sp.asarray([3])), sp.Tensor)


def test_semiring_of_functions_without_module() -> None:
    minus = eval("lambda a, b: a - b", {})
    assert minus.__module__ is None
    semiring, a = sp.Semiring("plus", minus, 0), np.array([[1.0, 2.0], [3.0, 4.0]])
    found = sp.matmul(sp.asarray(a), sp.asarray(a), semiring=semiring).to_numpy()
    np.testing.assert_array_equal(found, (a[:, :, None] - a[None]).sum(axis=1))
    assert semiring == sp.Semiring("plus", minus, 0)
    assert minus.__module__ is None


def test_scipy_operands_stay_sparse() -> None:
    a = np.array([[0, 2, 0], [3, 0, -1], [0, 0, 4]])
    A, S = sp.asarray(a), scipy.sparse.coo_array(a)
    for x, y in ((A, S), (S, A)):
        for product in (sp.matmul, np.matmul, np.dot, lambda x, y: sp.tensordot(x, y, axes=1)):
            found = product(x, y)
            assert isinstance(found, sp.Tensor)
            np.testing.assert_array_equal(found.to_numpy(), a @ a)
    with pytest.raises(UnsupportedError, match="is not an operand"):
        A @ [[1, 2], [3]]


def test_interleaved_operands_and_dtypes() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(-2, 3, (2, 3)), rng.integers(-2, 3, (3, 4)), rng.integers(-2, 3, (5, 3, 3))
    A, B, C = sp.asarray(a), sp.asarray(b), sp.asarray(c)
    for turns, dense in (
        ((A, [7, 1], B, [1, 30]), (a, [7, 1], b, [1, 30])),
        ((A, [30, 1], B, [1, 7], [30, 7]), (a, [30, 1], b, [1, 7], [30, 7])),
        ((C, [..., 2, 2]), (c, [..., 2, 2])),
        ((C, [..., 1], [1, ...]), (c, [..., 1], [1, ...])),
    ):
        for einsum in (sp.einsum, np.einsum):
            np.testing.assert_array_equal(einsum(*turns).to_numpy(), np.einsum(*dense))
    assert sp.einsum_path(A, [0, 1], B, [1, 2])[0] == sp.einsum_path("ij,jk", A, B)[0]
    assert sp.einsum("ij,jk", A, b, dtype=complex).dtype == np.einsum("ij,jk", A, B, dtype=complex).dtype == complex
    place = np.zeros((2, 4))
    assert np.einsum("ij,jk", A, B, out=place) is place
    np.testing.assert_array_equal(place, a @ b)
    with pytest.raises(UnsupportedError, match="casting='safe' does not allow int64, int64 to become int8"):
        np.einsum("ij,jk", A, B, dtype=np.int8)
    for bad in ((0, A, B), (A, [0, "x"]), (A, [0, 52])):
        with pytest.raises(InvalidValueError, match=r"einsum: .* must be subscripts"):
            sp.einsum(*bad)
    for path in ([1, 2], [("a", 1)]):
        with pytest.raises(InvalidValueError, match="is not a path of 2 operands"):
            sp.einsum("ij,jk", A, B, optimize=path)


def test_tensordot_invalid_axes_raise() -> None:
    A = sp.eye(3)
    for axes in (None, ((0, 0), (0, 1)), ((0, 1), (1, -1))):
        with pytest.raises(ShapeError, match="tensordot: axes="):
            sp.tensordot(A, A, axes=axes)  # type: ignore[arg-type]


@pytest.mark.parametrize("kinds", ["ttt", "tta", "taa", "att", "ata"])
@pytest.mark.parametrize("subscripts", ["i,i,i->i", "i,i,i->"])
def test_steps_have_the_result_dtype(subscripts: str, kinds: str) -> None:
    for types in (["int8", "int8", "int64"], ["int8", "uint8", "float16"], ["bool", "bool", "float64"]):
        arrays = [np.array([100, 3], kind) for kind in types[:2]] + [np.array([1, 2], types[2])]
        given = [sp.asarray(each) if kind == "t" else each for each, kind in zip(arrays, kinds, strict=True)]
        for optimize in (False, "auto"):
            found = sp.einsum(subscripts, *given, optimize=optimize)
            found = found.to_numpy() if isinstance(found, sp.Tensor) else np.asarray(found)
            wanted = np.asarray(np.einsum(subscripts, *arrays))
            assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
    rows, both = np.ones((2, 3), bool), np.ones((1, 2))
    assert sp.einsum("a,b,ab->", np.ones(2), sp.asarray(rows[0]), sp.asarray(rows)) == 6.0
    assert sp.einsum("b,ab,ca->c", sp.asarray(rows[0]), sp.asarray(rows), sp.asarray(both)).to_numpy().tolist() == [6.0]


@pytest.mark.parametrize("optimize", [False, "auto", [(1, 2), (0, 1)]])
def test_steps_keep_operand_order(optimize: Any) -> None:
    A, B, C = (sp.asarray(np.array([[n]])) for n in (2, 3, 5))
    for semiring, wanted in (("plus_first", 2), ("plus_second", 5), ("min_plus", 10), ("max_times", 30)):
        assert sp.einsum("ij,jk,kl->il", A, B, C, semiring=semiring, optimize=optimize).to_numpy() == [[wanted]]
    low = (A * 50).astype("int8")
    assert sp.einsum("ij,jk,kl->", low, low, C, semiring="max_plus", optimize=optimize) == 205
    assert sp.einsum("ij,jk,kl->", C, low, low, semiring="max_times", optimize=optimize) == 50_000


@pytest.mark.parametrize(
    "optimize", [False, "auto", [(0, 1), (0, 2), (0, 1)], [(1, 2), (0, 2), (0, 1)], [(0, 1, 2, 3)], [(1, 2, 3), (0, 1)],
                 [(0, 2), (0, 1), (0, 1)]]
)  # fmt: skip
@pytest.mark.parametrize("semiring", ["plus_first", "max_second", "mine", "plus_times", "min_plus"])
def test_noncommutative_semirings_keep_order(semiring: str, optimize: Any) -> None:
    named = {
        "max_second": sp.Semiring("max", "second", None, associative=True),
        "mine": sp.Semiring("plus", lambda a, b: a - 2 * b, 0),
    }
    chosen: Any = named.get(semiring, semiring)
    vectors = [sp.asarray(np.array(cells)) for cells in ([1, 2, 3], [10, 11], [5, 6, 7], [20, 21])]
    wanted = sp.einsum("i,j,i,k->", *vectors, semiring=chosen, optimize=False)
    permutes = optimize == [(0, 2), (0, 1), (0, 1)]
    in_turn = [(0, 1, 2, 3)], [(0, 1), (0, 2), (0, 1)]
    free = semiring in ("plus_times", "min_plus")
    if isinstance(optimize, list) and not free and (permutes or (semiring == "mine" and optimize not in in_turn)):
        with pytest.raises(InvalidValueError, match="left to right"):
            sp.einsum("i,j,i,k->", *vectors, semiring=chosen, optimize=optimize)
    else:
        assert sp.einsum("i,j,i,k->", *vectors, semiring=chosen, optimize=optimize) == wanted


STEPS: list[tuple[Any, str, Any, Any]] = [
    (sp.Semiring("plus", "plus", None), "int64", np.add, np.add),
    (sp.Semiring("max", "plus", None), "float32", np.maximum, np.add),
    (sp.Semiring("min", lambda a, b: a - b, 99, "apart"), "int64", np.minimum, np.subtract),
    (sp.Semiring("or", "plus", None), "int64", np.logical_or, np.add),
    ("max_plus", "uint32", np.maximum, np.add),
    ("plus_second", "complex128", np.add, lambda a, b: b),
]
"""Semirings whose identity does not annihilate, and what NumPy adds and multiplies."""


@pytest.mark.parametrize("letters", ["ij,jk,ik->i", "ij,jk,kl->il", "i,i,j->ij"])
@pytest.mark.parametrize(("semiring", "dtype", "add", "multiply"), STEPS, ids=lambda each: str(each)[:14])
@pytest.mark.parametrize("way", ["numpy", "numba", "duckdb", "disk", "spilled"])
def test_steps_keep_fill_until_the_last(
    letters: str, semiring: Any, dtype: str, add: Any, multiply: Any, way: str, tmp_path: Path
) -> None:
    """Sum the left-to-right products of elements that all operands store."""
    forced = {"forced": way if way == "numba" else None}
    spilled = {"rhs_share": 1e12, "lhs_share": 1e12} if way == "spilled" else {}
    rng = np.random.default_rng(len(letters))
    sides, out = letters.split("->")
    inputs = sides.split(",")
    operands, cells = [], []
    for k, own in enumerate(inputs):
        shape = [SIZES[letter] for letter in own]
        values = rng.integers(0 if dtype == "uint32" else -2, 3, shape).astype(dtype)
        some = rng.random(shape) < (1 if k == 1 else 0.6)
        operands.append(
            values if k == 1 else sp.from_coords(np.nonzero(some & (values != 0)), values[some & (values != 0)], shape)
        )
        cells.append((values, np.ones(shape, bool) if k == 1 else some & (values != 0)))
    if way == "spilled":
        operands = [
            each.save(tmp_path / str(k)) if isinstance(each, sp.Tensor) else each for k, each in enumerate(operands)
        ]
    with sparrow.testing.tune("dispatch", **forced), sparrow.testing.tune("product", **spilled):
        found = sp.einsum(letters, *operands, semiring=semiring, engine="duckdb" if way == "duckdb" else "auto")
        found = found.save(tmp_path / "found") if way == "disk" else found
        cells_found = found.to_numpy()
    names = sorted(set("".join(inputs)))
    wanted: dict[tuple[int, ...], Any] = {}
    for place in itertools.product(*(range(SIZES[letter]) for letter in names)):
        at = dict(zip(names, place, strict=True))
        indices = [tuple(at[letter] for letter in each) for each in inputs]
        if all(there[index] for (_, there), index in zip(cells, indices, strict=True)):
            one, two, three = (values[index] for (values, _), index in zip(cells, indices, strict=True))
            value, cell = multiply(multiply(one, two), three), tuple(at[letter] for letter in out)
            value = bool(value) if add is np.logical_or else value
            wanted[cell] = add(wanted[cell], value) if cell in wanted else value
    dense = np.full(found.shape, found.fill_value, found.dtype)
    for cell, value in wanted.items():
        dense[cell] = value
    np.testing.assert_array_equal(cells_found, dense)


@pytest.mark.parametrize("way", ["numpy", "numba"])
def test_empty_rows_of_any_width(way: str) -> None:
    n = 2**33
    Y = sp.from_coords([[0], [7]], [3], shape=(n, n))
    X = sp.from_coords([[5], [1]], [2], shape=(10, n))
    for found in ((X @ Y)[5], (X @ Y)[5, 3:], sp.zeros(n) @ Y, sp.einsum("ii,ij->j", Y, Y)):
        with sparrow.testing.strategy(way):
            assert found.compute().nnz == 0
            assert found.sum() == 0


def test_tensordot_axes_by_name() -> None:
    A = sp.from_coords([[0, 1], [1, 2]], [2.0, 3.0], shape=(2, 3), dims=("user", "film"))
    np.testing.assert_array_equal(sp.tensordot(A, A, axes=("film", 1)).to_numpy(), np.diag([4.0, 9]))
    assert sp.tensordot(A, A, axes=(["user", "film"], ["user", "film"])) == 13
    for axes, told in ((([0], [5]), "second operand has shape .*axis 5"), (("x", 0), "first operand.*'x'")):
        with pytest.raises(ShapeError, match=told):
            sp.tensordot(A, A, axes=axes)
    with pytest.raises(ShapeError, match="as many axes of both"):
        sp.tensordot(A, A, axes="user")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "shapes", "told"),
    [
        ("...j,...k->...jk", ((4, 5), (5, 4)), "an axis of '...' is 4 along axis 0 of operand 1"),
        ("ij->jk->i", ((4, 5),), "subscripts must consist of"),
        ("ij->...i...", ((4, 5),), "subscripts must consist of"),
    ],
)
def test_mismatched_subscripts_raise(text: str, shapes: tuple[tuple[int, ...], ...], told: str) -> None:
    with pytest.raises((InvalidValueError, ShapeError), match=told):
        sp.einsum(text, *map(sp.zeros, shapes))


def test_batch_axes_that_do_not_broadcast_raise() -> None:
    with pytest.raises(ShapeError, match="axis 1 of the left operand has size 2, axis 0 of the right one 3"):
        sp.matmul(sp.zeros((6, 2, 4, 5)), sp.zeros((3, 5, 4)))


def test_empty_intersection_is_absent() -> None:
    a, b, c = sp.asarray([1.0, 0]), sp.asarray([0.0, 1]), sp.asarray([np.nan, 1.0])
    for optimize in (False, "auto", [(0, 1), (0, 1)], [(1, 2), (0, 1)], [(0, 1, 2)]):
        options: Any = {"optimize": optimize}
        assert sp.einsum("i,i,j->", a, b, c, **options) == 0
        assert sp.einsum("i,i,j->j", a, b, c, **options).nnz == 0
        np.testing.assert_array_equal(sp.einsum("i,i,j->j", a, a, c, **options).to_numpy(), [np.nan, 1])


def test_numpy_paths_and_invalid_paths() -> None:
    matrices = [sp.random((5, 5), nnz=8, seed=seed) for seed in range(5)]
    dense = [matrix.to_numpy() for matrix in matrices]
    text = "ab,bc,cd,de,ef->af"
    paths = [np.einsum_path(text, *dense, optimize=how)[0] for how in (False, "greedy", "optimal")]
    for path in (*paths, [(1, 2, 3), (0, 1, 2)], [(4, 0, 2), (0, 1, 2)], [(3, 4), (2, 1, 0), (0, 1)]):
        found = sp.einsum(text, *matrices, optimize=path)
        np.testing.assert_allclose(found.to_numpy(), np.linalg.multi_dot(dense), atol=1e-12)
    for bad in ([(0,), (0, 1)], [(0, 0)], [(0, 5)], [()]):
        with pytest.raises(InvalidValueError, match="not a path of 5 operands"):
            sp.einsum(text, *matrices, optimize=bad)


@pytest.mark.parametrize("optimize", [False, "auto", [(0, 1, 2)], [(1, 2), (0, 1)]])
@pytest.mark.parametrize("complement", [None, False, True])
@pytest.mark.parametrize("semiring", ["plus_times", "max_times"])
def test_tensor_with_arrays_in_any_order(semiring: Any, complement: bool | None, optimize: Any) -> None:
    rng = np.random.default_rng(4)
    a, x, y = np.where(rng.random((6, 5)) < 0.4, rng.random((6, 5)), 0), rng.random((5, 3)), rng.random((3, 4))
    mask = rng.random((6, 4)) < 0.5
    options: dict[str, Any] = {"semiring": semiring, "optimize": optimize}
    options |= {} if complement is None else {"mask": mask, "complement": complement}
    terms = a[:, :, None, None] * x[None, :, :, None] * y[None, None]
    present = np.broadcast_to((a != 0)[:, :, None, None], terms.shape)
    adds = np.where(present, terms, -np.inf).max(axis=(1, 2)) if semiring == "max_times" else terms.sum(axis=(1, 2))
    fill = -np.inf if semiring == "max_times" else 0.0
    wanted = adds if complement is None else np.where(mask != complement, adds, fill)
    operands = {"ij": sp.asarray(a), "jk": x, "kl": y}
    for order in itertools.permutations(operands):
        found = sp.einsum(f"{','.join(order)}->il", *(operands[own] for own in order), **options)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_broadcast_operand_stays_a_tensor() -> None:
    rows, one = np.array([[[1, 2], [3, 0]]]), np.array([3])
    for pair in ((rows, sp.asarray(one)), (sp.asarray(one), rows), (sp.asarray(rows), sp.asarray(one))):
        np.testing.assert_array_equal(sp.einsum("...,...", *pair).to_numpy(), 3 * rows)


def test_scalar_factors_of_tensors_give_a_tensor() -> None:
    d = sp.asarray(np.array([1, 2, 0]))
    A = sp.from_coords([[0, 2**40 - 1], [0, 1]], [3, 4], shape=(2**40, 2))
    cases = [("d,d,ab->a", (d, d, A)), ("ab,d,d->a", (A, d, d)), ("d,d,e,e,ab->a", (d, d, d, d, A))]
    for subscripts, operands in cases:
        for optimize in (False, "auto"):
            found = sp.einsum(subscripts, *operands, optimize=optimize)
            assert isinstance(found, sp.Tensor)
            scale = 5 if len(operands) == 3 else 25
            assert (found.nnz, found[0], found[-1]) == (2, 3 * scale, 4 * scale)


def with_labels(cells: Any, *labels: Any) -> sp.Tensor:
    found = sp.asarray(np.asarray(cells))
    for dim, own in zip(found.dims, labels, strict=True):
        found.set_labels(dim, own)
    return found


def test_masks_align_by_labels_and_names(tmp_path: Path) -> None:
    a, b = with_labels([[1, 2], [3, 4]], "xy", "pq"), with_labels([[1, 0], [0, 1]], "pq", "uv")
    mask = with_labels([[1, 0], [0, 1]], "xy", "vu")  # cells (x, v) and (y, u)
    for M in (mask, mask.save(tmp_path / "mask")):
        np.testing.assert_array_equal(sp.sddmm(M, a, b).to_numpy(), (M * (a @ b)).to_numpy())
        assert sp.matmul(a, b, mask=M).to_numpy().tolist() == [[0, 2], [3, 0]]
        assert sp.matmul(a, b, mask=M, complement=True).to_numpy().tolist() == [[1, 0], [0, 4]]
        assert sp.einsum("ij,jk->ik", a, b, mask=M).sum() == 5
    lacking = with_labels([[1, 1, 1]], "y", "uwv")  # no x, and a w that the result has not
    assert sp.matmul(a, b, mask=lacking).to_numpy().tolist() == [[0, 0], [3, 4]]
    with sp.config(join="exact"), pytest.raises(LabelError, match="join='exact'"):
        sp.matmul(a, b, mask=mask)
    M, m = sp.asarray([[0, 1], [0, 0]]).rename(d0="tag", d1="user"), sp.asarray([[1, 2], [3, 4]])
    left, right = m.rename(d0="user", d1="item"), m.rename(d0="item", d1="tag")
    assert sp.matmul(left, right, mask=M).to_numpy().tolist() == [[0, 0], [15, 0]]
    np.testing.assert_array_equal(sp.sddmm(M, left, right).to_numpy(), (M * (left @ right)).to_numpy())


def test_transposed_mask_of_named_dims_raises() -> None:
    cells = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 0]])
    G = sp.asarray(cells).rename(d0="src", d1="dst")
    for A, mask in ((G, G.T), (G.T, G)):
        with pytest.raises(LabelError, match=r"mask\.rename\(.* goes by position"):
            sp.matmul(A, A, mask=mask)
    circles = sp.matmul(G, G, mask=G.T.rename(dst="src", src="dst"))
    np.testing.assert_array_equal(circles.to_numpy(), (cells @ cells) * cells.T)
    for A, mask in ((G, G), (G.T, G.T), (sp.asarray(cells), sp.asarray(cells).T)):
        wanted = (A.to_numpy() @ A.to_numpy()) * mask.to_numpy()
        np.testing.assert_array_equal(sp.matmul(A, A, mask=mask).to_numpy(), wanted)


def test_operands_align_by_labels() -> None:
    a, b = with_labels([[1, 2], [3, 4]], "xy", "pq"), with_labels([[1, 2], [3, 4], [5, 6]], "qpr", "uv")
    np.testing.assert_array_equal(sp.einsum("ij,jk->ik", a, b).to_numpy(), (a @ b).to_numpy())
    w = with_labels([1, 10], "qp")
    for path in ("auto", [(0, 1), (0, 1)], [(1, 2), (0, 1)]):
        assert sp.einsum("ij,j,jk->ik", a, w, b, optimize=path).to_numpy().tolist() == [[32, 44], [94, 128]]
        for bare in (np.array([1, 10]), sp.asarray([1, 10])):
            with pytest.raises(LabelError, match="another has no labels"):
                sp.einsum("ij,j,jk->ik", a, bare, b, optimize=path)
    assert sp.einsum("ij,j->i", a, np.array([1, 10])).tolist() == [21, 43]


def test_diagonal_aligns_by_labels() -> None:
    A = with_labels([[1, 2], [3, 4]], "xy", "yx")
    found = sp.einsum("ii->i", A)
    assert (found.to_numpy().tolist(), found.labels(0).to_pylist()) == ([2, 3], ["x", "y"])
    assert sp.einsum("ij,ji->", A, A) == 21


def test_absent_elements_stay_absent_between_steps() -> None:
    E, A, v = sp.zeros((2, 2), "int64"), sp.asarray([[0, 5], [7, 0]]), np.array([1, 2])
    nowhere = np.iinfo(np.int64)
    for way in ("auto", False, [(0, 1), (0, 1)], [(1, 2), (0, 1)]):
        for each in (v, sp.asarray(v)):
            found = sp.einsum("ij,j,ik->k", E, each, A, semiring="min_plus", optimize=way)
            assert isinstance(found, np.ndarray) == (each is v and way != [(1, 2), (0, 1)])
            np.testing.assert_array_equal(np.asarray(found), [nowhere.max] * 2)
            reached = sp.einsum("ij,j,ik->k", A, each, A, semiring="min_plus", optimize=way)
            np.testing.assert_array_equal(np.asarray(reached), [15, 12])
        found = sp.einsum("ij,ij,k->k", E, A, sp.asarray(v), semiring="max_plus", optimize=way)
        np.testing.assert_array_equal(found.to_numpy(), [nowhere.min] * 2)
        assert sp.einsum("ij,ij,k->", E, A, sp.asarray(v), semiring="max_plus", optimize=way) == nowhere.min


@pytest.mark.parametrize(
    ("dtype", "first"), [("uint8", (0, 1)), ("bool", (0, 1)), ("int64", (1, 2)), ("float32", (1, 2))]
)
def test_unsigned_max_plus_is_not_reordered(dtype: str, first: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    shapes = (30, 30), (30, 30), (30, 2)
    operands = [
        sp.from_coords(np.nonzero(np.ones(shape)), rng.integers(0, 2, shape).astype(dtype).ravel(), shape, fill_value=1)
        for shape in shapes
    ]
    assert sp.einsum_path("ab,bc,cd->ad", *operands, semiring="max_plus")[0][1] == first
    assert sp.einsum_path("ab,bc,cd->ad", *operands, semiring="min_plus")[0][1] == (1, 2)
    a, b, c = (
        sp.from_coords([[0], [0]], np.array([value], dtype), (1, 1), fill_value=1 - value) for value in (0, 0, 1)
    )  # 0 + 0 is the identity of "max" among numbers from 0 on: an entry of the first step all the same
    found = [
        sp.einsum("ab,bc,cd->ad", a, b, c, semiring="max_plus", optimize=way).nnz for way in (False, "auto", "greedy")
    ]
    assert found == [1] * 3


def test_single_operand_under_a_semiring() -> None:
    A = sp.asarray([[0.0, 2], [3, 0]])
    assert sp.einsum("ij->ji", A, semiring="min_plus").to_numpy().tolist() == [[np.inf, 3], [2, np.inf]]
    assert sp.einsum("ij->ij", A, semiring="or_and").dtype == bool
    assert sp.einsum("ij->ji", A, engine="duckdb").to_numpy().tolist() == [[0, 3], [2, 0]]
    options: list[tuple[dict[str, Any], str]] = [
        ({"engine": "nonsense"}, "engine"), ({"complement": True}, "complement"), ({"optimize": "no"}, "optimize"),
    ]  # fmt: skip
    for option, match in options:
        with pytest.raises(InvalidValueError, match=match):
            sp.einsum("ij->ji", A, **option)


def test_sddmm_dtypes() -> None:
    S = sp.asarray([[1, 2]])
    X, Y = np.array([[200, 100]], np.uint8), np.array([[1, 1], [2, 2]], np.uint8)
    for x in (X, sp.asarray(X)):
        found = sp.sddmm(S, x, Y)
        assert (found.dtype, found.to_numpy().tolist()) == (np.dtype(np.int64), [[144, 288]])
    ones = np.ones((2, 2), bool)
    assert sp.sddmm(sp.asarray(np.full((2, 2), 3)), ones, ones).to_numpy().tolist() == [[3, 3], [3, 3]]
    half = np.full((1, 1), 300, np.float16)
    assert sp.sddmm(sp.asarray(np.ones((1, 1), np.float32)), half, half).to_numpy() == np.inf
    assert sp.sddmm(sp.asarray(np.ones((1, 1), np.float16)), X[:, :1], Y[:1, :1].astype(np.int8)).dtype == np.float32


def test_masked_arrays_raise() -> None:
    m, A = np.ma.array([1, 2, 3], mask=[True, False, False]), sp.asarray(np.eye(3))
    calls: list[Any] = [
        lambda: A @ m, lambda: m @ A, lambda: A + m, lambda: A * m, lambda: np.maximum(A, m),
        lambda: sp.where(A > 0, m, A),
        lambda: sp.einsum("ij,j->i", A, m), lambda: sp.tensordot(A, m, 1), lambda: sp.blas.gemv(1, A, m),
        lambda: sp.sddmm(A, np.ma.array(np.eye(3), mask=np.eye(3) > 0), np.eye(3)), lambda: A.__setitem__(0, m),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(UnsupportedError, match="must not contain masked elements"):
            call()
    np.testing.assert_array_equal(A @ np.ma.array([1, 2, 3]), [1, 2, 3])


def mask_last(values: Any) -> np.ma.MaskedArray[Any, Any]:
    """Return an array whose last element is masked."""
    mask = np.zeros(np.shape(values), bool)
    mask[(-1,) * mask.ndim] = True
    return np.ma.array(values, mask=mask)


MASKED = mask_last([0, 1, 2])
FLAGS = mask_last([True, False, True])
SQUARE = mask_last(np.ones((3, 3), bool))
PLACES: dict[str, Callable[[Any], object]] = {
    "coords": lambda A: sp.from_coords([MASKED, [0, 1, 2]], [1.0, 2, 3], shape=(3, 3)),
    "coords matrix": lambda A: sp.from_coords(mask_last([[0, 1], [0, 1]]), [1.0, 2.0], shape=(3, 3)),
    "coords masked": lambda A: sp.from_coords([[0, np.ma.masked], [0, 1]], [1.0, 2.0], shape=(3, 3)),
    "put": lambda A: A.put([[0, 1, 2], MASKED], 1.0),
    "get": lambda A: A[MASKED],
    "get mask": lambda A: A[FLAGS],
    "get matrix": lambda A: A[SQUARE],
    "get list": lambda A: A[[MASKED, [0, 1, 2]]],
    "get scalar": lambda A: A[mask_last(1)],
    "get pairs": lambda A: A[MASKED, [0, 1, 2]],
    "get crossed": lambda A: A[np.ix_(MASKED, MASKED)],
    "set": lambda A: A.__setitem__(MASKED, 1.0),
    "set mask": lambda A: A.__setitem__(SQUARE, 1.0),
    "oindex": lambda A: A.oindex[MASKED, [0]],
    "vindex": lambda A: A.vindex[MASKED, [0, 1, 2]],
    "isel": lambda A: A.isel(d0=FLAGS),
    "sel": lambda A: sp.from_coords([[0], [0]], [1.0], labels={"d0": [7], "d1": [8]}).sel(d0=mask_last([7, 7])),
    "sp.take": lambda A: sp.take(A, MASKED, axis=0),
    "np.take": lambda A: np.take(A, MASKED, axis=0, mode="clip"),
    "take_along_axis": lambda A: np.take_along_axis(A, MASKED[None], 0),
    "compress": lambda A: np.compress(FLAGS, A, axis=0),
    "delete": lambda A: np.delete(A, MASKED, axis=0),
    "insert": lambda A: np.insert(A, MASKED, 1.0, axis=0),
    "repeat": lambda A: np.repeat(A, MASKED, axis=0),
    "pad": lambda A: sp.pad(A, mask_last([[0, 1], [0, 1]])),
    "sorter": lambda A: sp.searchsorted(A[0], [1.0], sorter=MASKED),
    "searchsorted": lambda A: sp.searchsorted(A[0], mask_last([1.0, 2.0])),
    "where": lambda A: sp.where(SQUARE, A, 0),
    "isin": lambda A: sp.isin(A, MASKED),
    "digitize": lambda A: np.digitize(A, mask_last([0.0, 1.0])),
    "weights": lambda A: np.average(A, axis=0, weights=mask_last([1.0, 2.0, 3.0])),
    "hist": lambda A: A.hist(mask_last([0.0, 1.0])),
    "mask=": lambda A: sp.matmul(A, A, mask=SQUARE),
    "nodes": lambda A: sp.graph.bfs(A, MASKED),
    "node mask": lambda A: sp.graph.induced_subgraph(A, FLAGS),
    "solve": lambda A: sp.linalg.solve(A, mask_last([1.0, 2.0, 3.0])),
    "indices": lambda A: sp.formats.CSR([1.0, 2.0], mask_last([0, 1]), [0, 1, 2], shape=(2, 2)),
    "indptr": lambda A: sp.formats.CSR([1.0, 2.0], [0, 1], mask_last([0, 1, 2]), shape=(2, 2)),
    "data": lambda A: sp.formats.CSR(mask_last([1.0, 2.0]), [0, 1], [0, 1, 2], shape=(2, 2)),
    "retain": lambda A: sp.formats.RowSparse([[1.0]], [0], shape=(3, 1)).retain(MASKED),
    "labels": lambda A: sp.models.LogisticRegression().fit(A, mask_last([0, 1, 1])),
    "sample_weight": lambda A: sp.models.LogisticRegression().fit(A, [0, 1, 1], sample_weight=mask_last([1.0, 1, 1])),
    "split": lambda A: sp.training.train_test_split(A, mask_last([0, 1, 1])),
    "recommend": lambda A: sp.models.ALS(factors=1, epochs=1).fit(A).recommend(MASKED, 1),
    "similar": lambda A: sp.models.ALS(factors=1, epochs=1).fit(A).similar(MASKED, 1),
}


@pytest.mark.parametrize("place", PLACES)
def test_masked_indices_raise(place: str) -> None:
    A = sp.asarray(np.eye(3)).compute()
    with pytest.raises(UnsupportedError, match="must not contain masked elements"):
        PLACES[place](A)
    assert A.nnz == 3


def test_arrays_without_masked_elements_are_indices() -> None:
    A, places = sp.asarray(np.eye(3)), np.ma.array([2, 0])
    np.testing.assert_array_equal(A[places].to_numpy(), np.eye(3)[[2, 0]])
    np.testing.assert_array_equal(sp.from_coords([places, places], [1.0, 2.0]).to_numpy(), np.diag([2.0, 0, 1]))


def test_scalar_result_with_boolean_mask() -> None:
    v = sp.asarray([1, 2])
    assert sp.einsum("i,i->", v, v, mask=np.bool_(True)) == 5
    assert sp.einsum("i,i->", v, v, mask=np.bool_(False)) == 0
