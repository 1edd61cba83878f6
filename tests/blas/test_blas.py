from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow import errors

FORMATS = ("coo", "csr", "csc", "row_sparse", "dense")
# Each dtype compiles its own kernels; the conformance cases cover float64.
PREFIX = {"float32": "s", "complex128": "z"}


def random_numbers(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    tensor = rng.integers(-4, 5, shape) * (rng.random(shape) < 0.6)
    return (tensor + 1j * rng.integers(-2, 3, shape) * (tensor != 0) if dtype[0] == "c" else tensor).astype(dtype)


def blas(name: str, dtype: str) -> Any:
    return getattr(scipy.linalg.blas, PREFIX[dtype] + name)


def to_plain(result: Any) -> Any:
    return result.to_numpy() if isinstance(result, sp.Tensor) else np.asarray(result)


def assert_agree(result: Any, expected: Any, dtype: str) -> None:
    np.testing.assert_allclose(to_plain(result), expected, rtol=1e-4, atol=1e-4)
    assert to_plain(result).dtype == dtype


@settings(max_examples=16)
@given(st.integers(0, 2**32), st.sampled_from(sorted(PREFIX)), st.sampled_from([(0, 0), (0, 1), (1, 0)]))
def test_level1_against_scipy(seed: int, dtype: str, arrays: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    a, b = random_numbers(rng, (n,), dtype), random_numbers(rng, (n,), dtype)
    x, y = (given if array else sp.asarray(given) for given, array in zip((a, b), arrays, strict=True))
    assert_agree(sp.blas.dot(x, y), blas("dotu" if dtype[0] == "c" else "dot", dtype)(a, b), dtype)
    if dtype[0] == "c":
        assert_agree(sp.blas.dotc(x, y), blas("dotc", dtype)(a, b), dtype)
    assert_agree(sp.blas.axpy(x, y, 2), blas("axpy", dtype)(a, b.copy(), a=2), dtype)
    assert_agree(sp.blas.scal(-3, x), -3 * a, dtype)
    for result, expected in zip(sp.blas.rot(x, y, 0.6, 0.8), scipy_rot(a, b, dtype), strict=True):
        assert_agree(result, expected, dtype)
    for result, expected in zip(sp.blas.swap(x, y), (b, a), strict=True):
        assert_agree(result, expected, dtype)
    real = {"complex128": "float64"}.get(dtype, dtype)
    np.testing.assert_allclose(sp.blas.nrm2(x), np.linalg.norm(a), rtol=1e-5)
    sizes = abs(a.real) + abs(a.imag)
    np.testing.assert_allclose(sp.blas.asum(x), sizes.sum(), rtol=1e-5)
    assert np.asarray(sp.blas.nrm2(x)).dtype == np.asarray(sp.blas.asum(x)).dtype == real
    assert (sp.blas.iamax(x), sp.blas.iamin(x)) == (sizes.argmax(), sizes.argmin())
    at = rng.permutation(n)[: n // 2]
    assert_agree(sp.blas.gather(y, at), b[at], dtype)
    written = b.copy()
    written[at] = a[at]
    assert_agree(sp.blas.scatter(a[at], at, y), written, dtype)
    values, remainder = sp.blas.gather_zero(y, at)
    written[at] = 0
    assert_agree(values, b[at], dtype)
    assert_agree(remainder, written, dtype)
    np.testing.assert_array_equal(to_plain(y), b)


def scipy_rot(a: Any, b: Any, dtype: str) -> Any:
    if dtype[0] == "c":
        return 0.6 * a + 0.8 * b, 0.6 * b - 0.8 * a
    return blas("rot", dtype)(a, b, 0.6, 0.8)


@pytest.mark.filterwarnings("ignore::sparrow.errors.StorageFallbackWarning")
@settings(max_examples=12)
@given(st.integers(0, 2**32), st.sampled_from(sorted(PREFIX)), st.sampled_from(FORMATS))
def test_level2_and_3_against_scipy(seed: int, dtype: str, stype: str) -> None:
    rng = np.random.default_rng(seed)
    m, n, k = (int(size) for size in rng.integers(1, 6, 3))
    a, b, c = random_numbers(rng, (m, n), dtype), random_numbers(rng, (n, k), dtype), random_numbers(rng, (m, k), dtype)
    x, y = random_numbers(rng, (n,), dtype), random_numbers(rng, (m,), dtype)
    A = sp.asarray(np.concatenate([a[:1], a])).asformat(stype)[1:]  # a view
    assert_agree(sp.blas.gemv(2, A, x, 3, y), blas("gemv", dtype)(2, a, x, 3, y.copy()), dtype)
    for trans in (1, 2):
        assert_agree(sp.blas.gemv(2, A, y, 3, x, trans), blas("gemv", dtype)(2, a, y, 3, x.copy(), trans=trans), dtype)
    assert_agree(sp.blas.gemv(2, A, sp.asarray(x)), 2 * a @ x, dtype)
    assert_agree(sp.blas.ger(2, sp.asarray(y), x, A), 2 * np.outer(y, x) + a, dtype)
    assert_agree(sp.blas.gerc(2, sp.asarray(y), x, A), 2 * np.outer(y, x.conj()) + a, dtype)
    for B, C in ((b, c), (sp.asarray(b), sp.asarray(c))):
        assert_agree(sp.blas.gemm(2, A, B, 3, C), blas("gemm", dtype)(2, a, b, 3, c.copy()), dtype)
    assert_agree(sp.blas.gemm(1, A, A, trans_a=2), a.conj().T @ a, dtype)
    assert_agree(sp.blas.gemm(1, A, A, trans_b=1), a @ a.T, dtype)
    assert_agree(sp.blas.syrk(2, A, 3, a @ a.T), 5 * a @ a.T, dtype)
    assert_agree(sp.blas.syrk(2, A, trans=True), 2 * a.T @ a, dtype)


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.sampled_from(sorted(PREFIX)), st.booleans())
def test_triangles_against_scipy(seed: int, dtype: str, lower: bool) -> None:
    rng = np.random.default_rng(seed)
    n, k = (int(size) for size in rng.integers(1, 6, 2))
    s, b = random_numbers(rng, (n, n), dtype), random_numbers(rng, (n, k), dtype)
    S, x, y = sp.asarray(s), random_numbers(rng, (n,), dtype), random_numbers(rng, (n,), dtype)
    assert_agree(sp.blas.symv(2, S, x, 3, y, lower=lower), 2 * to_symmetric(s, lower) @ x + 3 * y, dtype)
    assert_agree(
        sp.blas.symm(2, S, b, 3, b, lower=lower), blas("symm", dtype)(2, s, b, 3, b.copy(), lower=lower), dtype
    )
    assert_agree(
        sp.blas.symm(2, S, b.T, side=True, lower=lower),
        blas("symm", dtype)(2, s, b.T.copy(), side=True, lower=lower),
        dtype,
    )
    if dtype[0] == "c":
        assert_agree(
            sp.blas.hemv(2, S, x, 3, y, lower=lower), blas("hemv", dtype)(2, s, x, 3, y.copy(), lower=lower), dtype
        )
    t = s + 9 * np.eye(n, dtype=dtype)
    T = sp.asarray(t)
    for trans in (0, 1, 2):
        for diag in (False, True):
            # scaled, because a unit diagonal would be ill-conditioned
            scale = 1 if not diag else np.float32(1 / 64)
            expected = blas("trsv", dtype)(t * scale, x.copy(), lower=lower, trans=trans, diag=diag)
            assert_agree(sp.blas.trsv(T * scale, x, lower, trans, diag), expected, dtype)
            expected = blas("trsm", dtype)(2, t * scale, b, lower=lower, trans_a=trans, diag=diag)
            assert_agree(sp.blas.trsm(2, T * scale, b, lower=lower, trans_a=trans, diag=diag), expected, dtype)
            expected = blas("trsm", dtype)(2, t * scale, b.T, side=1, lower=lower, trans_a=trans, diag=diag)
            assert_agree(sp.blas.trsm(2, T * scale, b.T, True, lower, trans, diag), expected, dtype)


def to_symmetric(s: Any, lower: bool) -> Any:
    part = np.tril(s) if lower else np.triu(s)
    return part + part.T - np.diag(np.diag(s))


@pytest.mark.parametrize("kind", [sp.asarray, np.asarray])
def test_magnitudes_without_overflow(kind: Any) -> None:
    x = kind(np.array([100, -128, 0], np.int8))
    assert sp.blas.asum(x) == 228
    assert sp.blas.iamax(x) == 1
    for scale in (1e200, 1e-200, 1e-300):
        np.testing.assert_allclose(sp.blas.nrm2(kind(np.array([3.0, 0, 4.0]) * scale)), 5 * scale)
    assert sp.blas.nrm2(kind(np.array([1.0, np.inf]))) == np.inf
    assert np.isnan(sp.blas.nrm2(kind(np.array([1.0, np.nan]))))
    assert sp.blas.nrm2(kind(np.zeros(3))) == sp.blas.nrm2(kind(np.zeros(0))) == 0
    for single in (1e30, 1e-30):
        result = sp.blas.nrm2(kind((np.array([3, 4]) * single).astype(np.float32)))
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, 5 * single, rtol=1e-6)


@pytest.mark.parametrize("kind", [sp.asarray, np.asarray])
def test_shape_errors(kind: Any) -> None:
    for multiply in (sp.blas.gemv, sp.blas.symv, sp.blas.hemv):
        with pytest.raises(sp.errors.ShapeError, match=r"x must have length 3, got 2: op\(A\) has shape \(3, 3\)"):
            multiply(1, kind(np.eye(3)), np.ones(2))
    for product in (sp.blas.gemm, sp.blas.symm):
        with pytest.raises(
            sp.errors.ShapeError, match=r"inner dimensions must be equal, got shapes \(3, 3\) and \(2, 2\)"
        ):
            product(1, kind(np.eye(3)), np.eye(2))


def test_solve_errors() -> None:
    with pytest.raises(sp.errors.ShapeError, match="right-hand side must have 3 rows, got 2"):
        sp.blas.trsv(sp.eye(3), np.ones(2))
    with sp.config(memory_limit="1MB"), pytest.raises(sp.errors.TooLargeError):
        sp.blas.trsv(sp.eye(100_000), np.ones(100_000))


def test_magnitude_of_smallest_integer() -> None:
    assert sp.blas.iamax(sp.asarray([1, -(2**63)])) == 1
    assert sp.blas.asum(sp.asarray([0, -(2**63)])) == 2**63
    assert sp.blas.asum(sp.asarray(np.array([-128, 3], np.int8))) == 131


def test_pandas_operands() -> None:
    pd = pytest.importorskip("pandas")
    A, dense = sp.asarray(np.eye(3) * 2), np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(sp.blas.gemm(1, A, pd.DataFrame(dense)), 2 * dense)
    np.testing.assert_array_equal(sp.einsum("ij,jk->ik", A, pd.DataFrame(dense)), 2 * dense)
    assert sp.blas.dot(sp.asarray([1.0, 2]), pd.Series([3.0, 4])) == 11


def make_labelled(dense: Any, **labels: Any) -> Any:
    result = np.asarray(dense)
    at = np.indices(result.shape).reshape(result.ndim, -1)
    return sp.from_coords(at, result.reshape(-1), shape=result.shape, dims=list(labels), labels=labels)


def test_labels_align_before_shape_checks() -> None:
    dense = np.arange(1.0, 7).reshape(2, 3)
    A, v = make_labelled(dense, u=["p", "q"], f=["a", "b", "c"]), make_labelled([10.0, 1.0], f=["c", "a"])
    assert_agree(sp.blas.gemv(1, A, v), (A @ v).to_numpy(), "float64")
    assert_agree(sp.blas.gemv(1, A.T, v, trans=1), dense[:, [2, 0]] @ [10, 1], "float64")
    assert_agree(sp.blas.axpy(A[0], v, 2), (2 * A[0] + v).to_numpy(), "float64")
    assert sp.blas.dot(A[0], v) == sp.blas.dotc(A[0], v) == A[0] @ v == 31
    assert_agree(sp.blas.rot(A[0], v, 1, 2)[0], [3, 2, 23], "float64")
    assert_agree(
        sp.blas.gemm(1, A, make_labelled([[10.0], [1.0]], f=["c", "a"], g=["x"])),
        dense[:, [2, 0]] @ [[10], [1]],
        "float64",
    )
    assert_agree(
        sp.blas.ger(1, A[:, 0], A[0], make_labelled([[1.0]], u=["q"], f=["c"])), [[1, 2, 3], [4, 8, 13]], "float64"
    )
    square = dense[:, :2] + [[0, 3], [0, 0]]
    S, x = make_labelled(square, u=["p", "q"], f=["p", "q"]), make_labelled([10.0], f=["q"])
    for multiply in (sp.blas.symv, sp.blas.hemv):
        assert_agree(multiply(1, S, x), to_symmetric(square, False) @ [0, 10], "float64")
        for dim in ("u", "f"):  # the labels of one axis count for both
            half = make_labelled(square, u=["p", "q"], f=["p", "q"])
            half.set_labels(dim, None)
            assert_agree(
                multiply(1, half, make_labelled([1.0, 10.0], f=["q", "p"])),
                to_symmetric(square, False) @ [10, 1],
                "float64",
            )
    assert_agree(
        sp.blas.symm(1, S, make_labelled([[10.0]], f=["q"], g=["x"])),
        to_symmetric(square, False) @ [[0], [10]],
        "float64",
    )
    assert_agree(
        sp.blas.symm(1, S, make_labelled([[10.0]], g=["x"], u=["q"]), side=True),
        [[0, 10]] @ to_symmetric(square, False),
        "float64",
    )
    # The product with an array is an array; the addend aligns with the labels of the matrix.
    y = make_labelled([7.0, 100.0], u=["q", "p"])
    assert_agree(sp.blas.gemv(1, A, np.ones(3), 2, y), np.add(dense.sum(1), [200, 14]), "float64")
    assert_agree(sp.blas.symv(1, S, np.ones(2), 2, y), np.add(to_symmetric(square, False).sum(1), [200, 14]), "float64")
    C = make_labelled([[1.0, 2.0], [3.0, 4.0]], u=["q", "p"], f=["x", "y"])
    assert_agree(sp.blas.gemm(1, A, np.ones((3, 2)), 1, C), dense @ np.ones((3, 2)) + [[3, 4], [1, 2]], "float64")
    with pytest.raises(sp.errors.LabelError, match="adding: y has the label 'z'"):
        sp.blas.gemv(1, A, np.ones(3), 2, make_labelled([7.0, 100.0], u=["q", "z"]))
    for unfit in (np.ones(2), sp.asarray(np.ones(2))):
        with pytest.raises(sp.errors.ShapeError, match="x and y must have equal length, got 3 and 2"):
            sp.blas.axpy(A[0], unfit)


EYE, ONE = np.eye(2), np.ones(2)


@pytest.mark.parametrize("given", [[2], "2", None, np.array([2.0]), [1, [2]], {}])
def test_factors_must_be_numbers(given: Any) -> None:
    calls: dict[str, list[Any]] = {
        "alpha": [
            *(lambda f=f: f(given, EYE, ONE) for f in (sp.blas.gemv, sp.blas.symv, sp.blas.hemv)),
            *(lambda f=f: f(given, ONE, ONE) for f in (sp.blas.ger, sp.blas.gerc)),
            *(lambda f=f: f(given, EYE, EYE) for f in (sp.blas.gemm, sp.blas.symm, sp.blas.trsm)),
            lambda: sp.blas.syrk(given, EYE),
        ],
        "beta": [
            *(lambda f=f: f(1, EYE, ONE, given, ONE) for f in (sp.blas.gemv, sp.blas.symv, sp.blas.hemv)),
            *(lambda f=f: f(1, EYE, EYE, given, EYE) for f in (sp.blas.gemm, sp.blas.symm)),
            lambda: sp.blas.syrk(1, EYE, given, EYE),
        ],
        "a": [lambda: sp.blas.scal(given, ONE), lambda: sp.blas.axpy(ONE, ONE, given)],
        "c": [lambda: sp.blas.rot(ONE, ONE, given, 1)],
        "s": [lambda: sp.blas.rot(ONE, ONE, 1, given)],
    }
    for name, several in calls.items():
        for call in several:
            with pytest.raises(sp.errors.InvalidValueError, match=f"^{name} must be a number, got "):
                call()


def test_factor_types() -> None:
    for factor in (2, 2.0, True, np.float32(2), np.array(2), sp.asarray(2.0)):
        np.testing.assert_array_equal(sp.blas.scal(factor, ONE), ONE * np.asarray(factor))


@pytest.mark.parametrize("kind", [np.asarray, sp.asarray])
def test_zero_factor_reads_nothing(kind: Any) -> None:
    void, x = np.full((2, 2), np.nan), np.full(2, np.inf)
    A, y, C = kind(void), np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0]])
    for multiply in (sp.blas.gemv, sp.blas.symv, sp.blas.hemv):
        for right in (x, kind(x)):
            assert_agree(multiply(0, A, right), [0, 0], "float64")
            assert_agree(multiply(0.0, A, right, 2, y), 2 * y, "float64")
    for product in (sp.blas.gemm, sp.blas.symm):
        assert_agree(product(0, A, void), np.zeros((2, 2)), "float64")
        assert_agree(product(0, A, kind(void), 2, C), 2 * C, "float64")
    assert_agree(sp.blas.syrk(0, A, 2, C), 2 * C, "float64")
    for rank in (sp.blas.ger, sp.blas.gerc):
        assert_agree(rank(0, kind(x), x), np.zeros((2, 2)), "float64")
        assert_agree(rank(0, kind(x), x, C), C, "float64")
    assert_agree(sp.blas.axpy(kind(x), y, 0), y, "float64")
    assert_agree(sp.blas.gemv(0, kind(np.ones((2, 2), np.float32)), np.ones(2, np.float32)), [0, 0], "float32")
    assert isinstance(sp.blas.gemv(0, A, kind(x)), type(A))


@pytest.mark.parametrize("fill", [np.nan, 2.0])
def test_zero_factor_ignores_fill(fill: float) -> None:
    F, x, y = sp.full((2, 2), fill), np.ones(2), np.array([1.0, 2.0])
    for multiply in (sp.blas.gemv, sp.blas.symv, sp.blas.hemv):
        for right in (x, sp.full((2,), fill)):
            assert_agree(multiply(0, F, right, 1, y), y, "float64")
    for product in (sp.blas.gemm, sp.blas.symm):
        assert_agree(product(0, F, F, 1, np.eye(2)), np.eye(2), "float64")
        assert_agree(product(0, np.eye(2), F), np.zeros((2, 2)), "float64")
    assert_agree(sp.blas.symm(0, F, F, side=True), np.zeros((2, 2)), "float64")
    assert_agree(sp.blas.syrk(0, F), np.zeros((2, 2)), "float64")


def test_triangle_requires_zero_fill() -> None:
    F, x = sp.full((2, 2), 2.0), np.ones(2)
    for name, operands in {
        "symv": (1, F, x), "hemv": (1, F, x), "symm": (1, F, np.eye(2)), "trsv": (F, x), "trsm": (1, F, np.eye(2)),
    }.items():  # fmt: skip
        with pytest.raises(
            errors.UnsupportedError, match=rf"{name}: fill value of A must be 0, got 2\.0: pass A\.refill\(0\)"
        ):
            getattr(sp.blas, name)(*operands)
        getattr(sp.blas, name)(*(one.refill(0) if one is F else one for one in operands))


def test_zero_factor_keeps_labels() -> None:
    x, y = make_labelled([np.nan, 1.0], f=["a", "b"]), make_labelled([3.0], f=["c"])
    result = sp.blas.axpy(x, y, 0)
    assert result.labels("f").to_pylist() == ["a", "b", "c"]
    assert result.to_numpy().tolist() == [0, 0, 3]
    assert sp.blas.gemv(0, make_labelled([[np.nan]], u=["p"], f=["a"]), x).labels("u").to_pylist() == ["p"]


def test_errors_name_function_and_argument() -> None:
    A = sp.asarray(np.eye(3))
    function: Any
    operands: Any
    way: Any
    for function, operands, way in [
        (sp.blas.gemm, (1, A, A), {"trans_a": 7}),
        (sp.blas.gemm, (1, A, A), {"trans_b": "T"}),
        (sp.blas.trsm, (1, A, A), {"trans_a": 5, "side": True}),
        (sp.blas.gemv, (1, A, np.ones(3)), {"trans": 5}),
    ]:
        ((name, value),) = [(name, value) for name, value in way.items() if name != "side"]
        with pytest.raises(errors.InvalidValueError, match=f"{name} must be 0, 1 .transpose. or 2 .*, got {value!r}"):
            function(*operands, **way)
    with pytest.raises(errors.SingularError, match="trsv: A of shape"):
        sp.blas.trsv(sp.zeros((3, 3)), np.ones(3))
    with pytest.raises(errors.SingularError, match="trsm: A of shape"):
        sp.blas.trsm(1, sp.zeros((3, 3)), np.ones((3, 2)))


def test_factor_one_promotes_dtype() -> None:
    x = np.array([100, 3], np.int8)
    for factor in (1, 1.0, np.float32(1), 1 + 0j, np.int64(1)):
        for vector in (x, sp.asarray(x)):
            result = sp.blas.axpy(vector, vector, factor)
            dense = result.to_numpy() if isinstance(result, sp.Tensor) else result
            assert dense.dtype == (factor * x + x).dtype
            np.testing.assert_array_equal(dense, factor * x + x)
    np.testing.assert_array_equal(sp.blas.rot(np.array([3], "u1"), np.array([2], "u1"), 1.0, 1.0)[1], [-1.0])


def test_gather_by_mask() -> None:
    y = sp.asarray([4, 0, 6])
    assert sp.blas.gather(y, [True, False, True]).tolist() == [4, 6]
    values, remainder = sp.blas.gather_zero(y, np.array([True, False, True]))
    assert (values.tolist(), remainder.to_numpy().tolist()) == ([4, 6], [0, 0, 0])
    assert sp.blas.gather(y, 2).tolist() == [6]
    with pytest.raises(errors.ShapeError, match=r"indices must be 1-D, got shape \(1, 2\)"):
        sp.blas.gather_zero(y, [[0, 1]])
    with pytest.raises(errors.ShapeError, match="mask of length 3, got length 2"):
        sp.blas.gather(y, [True, False])


def test_trsm_zero_factor() -> None:
    np.testing.assert_array_equal(sp.blas.trsm(0, np.eye(2), [[np.nan, 1], [2, np.inf]]), np.zeros((2, 2)))
