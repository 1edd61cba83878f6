from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg as scipy_linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow import errors
from sparrow.runtime import memory
from sparrow.testing import strategy


def matrix(n: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Return a sparse symmetric positive definite matrix."""
    rng = np.random.default_rng(seed)
    half = scipy.sparse.random_array((n, n), density=0.1, rng=rng, dtype=np.float64)
    return (half + half.T + n * scipy.sparse.eye_array(n)).tocsr().astype(dtype)


@pytest.fixture
def stored_matrix(tmp_path: Path) -> sp.Tensor:
    return sp.asarray(matrix(40)).save(tmp_path / "A.sparrow")


@pytest.mark.parametrize("name", ["cg", "gmres", "minres", "bicgstab"])
def test_solvers_on_disk_against_scipy(name: str, stored_matrix: sp.Tensor) -> None:
    a, b = matrix(40), np.arange(40.0)
    observed: list[Any] = []
    options: dict[str, Any] = {"callback_type": "pr_norm"} if name == "gmres" else {}
    x, info = getattr(sp.linalg, name)(stored_matrix, b, rtol=1e-10, callback=observed.append, **options)
    assert info == 0
    assert observed
    np.testing.assert_allclose(a @ x, b, atol=1e-6)
    other = getattr(scipy_linalg, name)(a, b, rtol=1e-10, **options)[0]
    np.testing.assert_allclose(x, other, rtol=1e-6, atol=1e-9)


def test_tensor_preconditioner(stored_matrix: sp.Tensor) -> None:
    inverse = sp.asarray(scipy.sparse.diags_array(1 / matrix(40).diagonal()))
    x, info = sp.linalg.cg(stored_matrix, sp.asarray(np.ones(40)), M=inverse)
    assert info == 0
    np.testing.assert_allclose(stored_matrix @ x, np.ones(40), rtol=1e-4)


@pytest.mark.parametrize(("name", "kind"), [("lsqr", "float64"), ("lsqr", "complex128"), ("lsmr", "float64"),
                                            ("lsmr", "complex128")])  # fmt: skip
def test_least_squares(name: str, kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a = scipy.sparse.random_array((30, 8), density=0.4, rng=rng).astype(kind)
    a = a + 1j * a * rng.random((30, 8)) if kind == "complex128" else a
    A = sp.asarray(a.tocsr()).save(tmp_path / "A.sparrow")
    b = rng.random(30)
    result = getattr(sp.linalg, name)(A, b)[0]
    np.testing.assert_allclose(result, np.linalg.lstsq(a.toarray(), b, rcond=None)[0], rtol=1e-4, atol=1e-5)


def test_eigenvalues_and_singular_values(stored_matrix: sp.Tensor) -> None:
    a = matrix(40).toarray()
    values = np.linalg.eigvalsh(a)
    np.testing.assert_allclose(sp.linalg.eigsh(stored_matrix, 3)[0], values[-3:])
    np.testing.assert_allclose(sp.linalg.eigsh(stored_matrix, 2, sigma=0)[0], values[:2])
    u, s, vh = sp.linalg.svds(stored_matrix[:, :9], 2)
    np.testing.assert_allclose(s, np.linalg.svd(a[:, :9])[1][:2][::-1])
    np.testing.assert_allclose(a[:, :9] @ vh.T, u * s)
    guess = np.random.default_rng(0).standard_normal((40, 3))
    result, vectors = sp.linalg.lobpcg(stored_matrix, guess, tol=1e-7, maxiter=200)
    np.testing.assert_allclose(result, values[::-1][:3], rtol=1e-6)
    np.testing.assert_allclose(a @ vectors, vectors * result, atol=1e-3)
    value, vector = sp.linalg.power_iteration(stored_matrix)
    np.testing.assert_allclose(value, values[-1])
    np.testing.assert_allclose(a @ vector, value * vector, atol=1e-6)


def test_expm_multiply(stored_matrix: sp.Tensor) -> None:
    a, b = matrix(40).toarray() / 40, np.arange(80.0).reshape(40, 2)
    A = stored_matrix / 40
    np.testing.assert_allclose(sp.linalg.expm_multiply(A, b), scipy.linalg.expm(a) @ b)
    several = sp.linalg.expm_multiply(A, b[:, 0], start=0, stop=1, num=3)
    np.testing.assert_allclose(several[1], scipy.linalg.expm(a / 2) @ b[:, 0])


def test_direct_solvers(stored_matrix: sp.Tensor) -> None:
    b = np.ones(40)
    expected = scipy_linalg.spsolve(matrix(40).tocsc(), b)
    np.testing.assert_allclose(sp.linalg.spsolve(stored_matrix, b), expected)
    np.testing.assert_allclose(sp.linalg.splu(stored_matrix).solve(b), expected)
    np.testing.assert_allclose(sp.linalg.spilu(stored_matrix, drop_tol=0).solve(b), expected)
    lower = sp.tril(stored_matrix)
    np.testing.assert_allclose(
        sp.linalg.spsolve_triangular(lower, b),
        scipy_linalg.spsolve_triangular(scipy.sparse.tril(matrix(40)).tocsr(), b),
    )
    for below in (True, False):
        with pytest.raises(errors.InvalidValueError, match=r"A must be .* triangular: take sp"):
            sp.linalg.spsolve_triangular(stored_matrix, b, below)
    many = sp.eye(1_000_000)
    with sp.config(memory_limit="20MB"), pytest.raises(errors.TooLargeError, match=r"sp\.linalg\.cg, gmres or lsqr"):
        sp.linalg.spsolve(many, b)


@given(st.integers(0, 2**32), st.sampled_from(["float32", "float64", "complex128", "int64", "bool"]))
def test_operator_products(seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(-3, 4, tuple(rng.integers(1, 8, 2))).astype(dtype)
    a = a * (1 + 2j) if dtype == "complex128" else a
    A = sp.linalg.aslinearoperator(sp.asarray(a))
    x, y = rng.integers(-3, 4, a.shape[1]), rng.integers(-3, 4, (a.shape[0], 2))
    for _ in range(2):  # from the files, then from memory
        np.testing.assert_allclose(A @ x, a.astype(A.dtype) @ x)
        np.testing.assert_allclose(A.H @ y, a.astype(A.dtype).conj().T @ y)
        np.testing.assert_allclose(A.T @ y, a.astype(A.dtype).T @ y)
        np.testing.assert_allclose(A.T.H @ x, a.astype(A.dtype).conj() @ x)
    assert (A @ x).dtype == np.result_type(A.dtype, x.dtype)


@pytest.mark.parametrize("value", [1.0, -2.5])
def test_products_of_constant_values(value: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a = value * (rng.random((500, 400)) < rng.random((500, 1)))
    A = sp.linalg.aslinearoperator(sp.asarray(a).save(tmp_path / "A.sparrow"))
    for _ in range(2):
        np.testing.assert_allclose(A @ np.arange(400.0), a @ np.arange(400.0))
        np.testing.assert_allclose(A.T @ np.arange(500.0), a.T @ np.arange(500.0))
        np.testing.assert_allclose(A @ np.arange(800.0).reshape(400, 2), a @ np.arange(800.0).reshape(400, 2))
    with sp.config(threads=1):
        one = A @ np.arange(400.0)
    np.testing.assert_array_equal(A @ np.arange(400.0), one)  # to the bit


@pytest.mark.parametrize(
    ("value", "dense", "x"),
    [
        (np.inf, [0], [1.0, 1.0]),
        (1e308, [0, 1], [10.0, -10.0]),
        (1e-300, [0, 1], [1e308, 1e308]),
        (3.0, [1], [0, np.inf]),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_overflow_like_numpy(value: float, dense: list[int], x: list[float], transposed: bool) -> None:
    A = sp.from_coords((np.zeros_like(dense), dense), np.full(len(dense), value), (2, 2))
    operator = sp.linalg.aslinearoperator(A.T if transposed else A, persist=True)
    if transposed:
        operator = operator.T
    with np.errstate(all="ignore"):
        expected = [sum(value * x[cell] for cell in dense), 0]
    for _ in range(3):
        np.testing.assert_array_equal(operator @ np.array(x), expected)


def test_operator_persists_if_it_fits(stored_matrix: sp.Tensor) -> None:
    A, x = sp.linalg.aslinearoperator(stored_matrix), np.ones(40)
    A @ x
    assert "read from disk for each product" in A.explain()
    A @ x
    assert "2 products; persisted after 1" in A.explain()
    assert "rows of a persisted matrix" in A.explain()
    with sp.config(memory_limit=memory.limit() - memory.available() + 4000):
        tight = sp.linalg.aslinearoperator(stored_matrix, persist=True)
        np.testing.assert_allclose(tight @ x, A @ x)
        assert "read from disk for each product: " in tight.explain()
        assert "exceed a quarter of the memory limit" in tight.explain()
    never = sp.linalg.aslinearoperator(stored_matrix, persist=False)
    never @ x, never @ x, never @ x
    assert never.explain().endswith("3 products; read from disk for each product")
    available = memory.available()
    del A
    assert memory.available() > available


def test_operator_of_expression(stored_matrix: sp.Tensor) -> None:
    A, x = sp.linalg.aslinearoperator(stored_matrix * 2 + stored_matrix.T), np.arange(40.0)
    assert "recomputed for each product" in A.explain()
    for _ in range(2):
        np.testing.assert_allclose(A @ x, 3 * (matrix(40) @ x))
    assert "persisted after 1" in A.explain()
    with sp.config(memory_limit=memory.limit() - memory.available() + 100):
        small = sp.linalg.aslinearoperator(stored_matrix[:3, :2] * 2, persist=True)
        np.testing.assert_allclose(small @ [1.0, 1.0], 2 * matrix(40)[:3, :2] @ [1.0, 1.0])


def test_interrupt_releases_memory(stored_matrix: sp.Tensor) -> None:
    free = memory.available()

    def stop(x: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sp.linalg.cg(stored_matrix, np.ones(40), callback=stop)
    assert memory.available() == free
    assert sp.linalg.cg(stored_matrix, np.ones(40))[1] == 0


def test_solver_errors(stored_matrix: sp.Tensor) -> None:
    with pytest.raises(errors.ShapeError, match=r"cg requires a square matrix, got shape \(40, 3\)"):
        sp.linalg.cg(stored_matrix[:, :3], np.ones(40))
    for solve in (sp.linalg.cg, sp.linalg.gmres, sp.linalg.lsqr, sp.linalg.lobpcg, sp.linalg.expm_multiply):
        with pytest.raises(errors.ShapeError, match=r"one value per row of A, 40 rows, got shape \(39,\)"):
            solve(stored_matrix, np.ones(39))
    with pytest.raises(
        errors.InvalidValueError, match=r"eigsh: k must be from 1 to 39 for a matrix of shape \(40, 40\), got 40"
    ):
        sp.linalg.eigsh(stored_matrix, k=40)
    with pytest.raises(errors.InvalidValueError, match=r"svds: k must be from 1 to 2 .*, got 3"):
        sp.linalg.svds(stored_matrix[:, :3], k=3)
    with pytest.raises(errors.ShapeError, match="two dimensions"):
        sp.linalg.aslinearoperator(stored_matrix[0])
    with pytest.raises(errors.ShapeError, match="spsolve requires a square matrix"):
        sp.linalg.spsolve(stored_matrix[:, :3], np.ones(40))
    with pytest.raises(TypeError, match=r"cg\(\) got an unexpected keyword argument 'tolerance'"):
        sp.linalg.cg(stored_matrix, np.ones(40), tolerance=1)
    with pytest.raises(errors.ConvergenceError, match="increase max_iter"):
        sp.linalg.power_iteration(sp.asarray([[0.0, 1.0], [1.0, 0.0]]), [1.0, 0.5], max_iter=20)


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_pagerank_against_networkx(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    a = rng.integers(0, 4, (n, n)) * (rng.random((n, n)) < 0.3)
    graph = nx.from_numpy_array(a, create_using=nx.DiGraph)
    jump = {int(k): float(rng.random()) + 0.01 for k in rng.integers(0, n, 3)}
    lost = {int(k): 1.0 for k in rng.integers(0, n, 2)}
    for more in ({}, {"personalization": jump}, {"personalization": jump, "dangling": lost}):
        result = sp.linalg.pagerank(sp.asarray(a), 0.7, tol=1e-9, **more)  # type: ignore[arg-type]
        expected = nx.pagerank(graph, 0.7, tol=1e-10, max_iter=1000, **more)
        np.testing.assert_allclose(result, [expected[k] for k in range(n)], atol=1e-7)


def test_pagerank_errors() -> None:
    with pytest.raises(errors.ShapeError, match="square"):
        sp.linalg.pagerank(sp.zeros((2, 3)))
    edges = sp.asarray([[0, 1], [-1, 0]])
    with pytest.raises(
        errors.InvalidValueError, match=r"must be finite and not negative, got a sum of -1\.0 at node 1"
    ):
        sp.linalg.pagerank(edges)
    with pytest.raises(errors.UnsupportedError, match="complex"):
        sp.linalg.pagerank(edges * 1j)
    with pytest.raises(errors.InvalidValueError, match="damping"):
        sp.linalg.pagerank(abs(edges), 1.0)
    with pytest.raises(errors.InvalidValueError, match="not all 0"):
        sp.linalg.pagerank(abs(edges), personalization=[0, 0])
    with pytest.raises(errors.ShapeError, match="node must be from 0 to 1, got 5"):
        sp.linalg.pagerank(abs(edges), personalization={5: 1})
    with pytest.raises(errors.ConvergenceError, match="in 2 rounds"):
        sp.linalg.pagerank(abs(edges), personalization=[1, 0], max_iter=2)
    assert sp.linalg.pagerank(sp.zeros((0, 0))).shape == (0,)
    np.testing.assert_allclose(sp.linalg.pagerank(sp.zeros((2, 2))), [0.5, 0.5])


@pytest.mark.parametrize(
    "dense", [[[0, 30.0, -29], [1, 0, 0], [1, 0, 0]], [[2.0, -1], [1, 1]], [[1.0, -1], [1, 1]], [[3, -1], [1, 1]]]
)
def test_pagerank_finds_single_negative_edge(dense: Any, tmp_path: Path) -> None:
    edges = sp.asarray(np.array(dense))
    stored_matrix = edges.save(tmp_path / "A.sparrow")
    for names in ((), ("operators_on_disk",)):
        for tensor in (edges, edges.persist(), stored_matrix, stored_matrix + 0):
            with (
                strategy(*names),
                pytest.raises(errors.InvalidValueError, match=r"weights must be finite and not negative, got -\d+"),
            ):
                sp.linalg.pagerank(tensor)


def test_pagerank_weights_add_up() -> None:
    edges = sp.asarray([[0, 1.0, 1], [0, 0, 1], [1, 0, 0]])
    expected = sp.linalg.pagerank(edges, personalization=[2, 1, 0])
    jump: Any
    for jump in ({0: 1, -3: 1, 1: 1}, {np.int64(0): 2, -2: 1.0}):
        np.testing.assert_array_equal(sp.linalg.pagerank(edges, personalization=jump), expected)
    with pytest.raises(errors.ShapeError, match=r"personalization: weight of node 0 must be a number, got \[1, 2\]"):
        sp.linalg.pagerank(edges, personalization={0: [1, 2]})  # type: ignore[dict-item]
    given: Any
    for given in ({0: 1j}, [1j, 0, 0]):
        with pytest.raises(errors.UnsupportedError, match="dangling must be real"):
            sp.linalg.pagerank(edges, dangling=given)


def test_power_iteration_rejects_zero_start() -> None:
    A = sp.asarray([[2.0, 1.0], [1.0, 2.0]])
    for start in (np.zeros(2), [0, 0], sp.zeros(2)):
        with pytest.raises(errors.InvalidValueError, match="v0 must not be all 0"):
            sp.linalg.power_iteration(A, start)


def test_vector_options_may_be_tensors(stored_matrix: sp.Tensor) -> None:
    start, a = np.ones(40), matrix(40)
    for name in ("lsqr", "lsmr"):
        result = getattr(sp.linalg, name)(stored_matrix, a @ start, x0=sp.asarray(start))[0]
        np.testing.assert_allclose(result, start)
    np.testing.assert_array_equal(
        sp.linalg.eigsh(stored_matrix, 2, v0=sp.asarray(start))[0], sp.linalg.eigsh(stored_matrix, 2, v0=start)[0]
    )
    np.testing.assert_array_equal(
        sp.linalg.svds(stored_matrix, 2, v0=sp.asarray(start))[1], sp.linalg.svds(stored_matrix, 2, v0=start)[1]
    )
    A, others = sp.asarray(np.diag(np.arange(1.0, 21.0))), np.eye(20)[:, 19:]
    guess = np.random.default_rng(0).standard_normal((20, 1))
    result = sp.linalg.lobpcg(A, guess, Y=sp.asarray(others), M=sp.eye(20), tol=1e-8, maxiter=100)[0]
    np.testing.assert_allclose(result, [19])


def test_basis_fits_in_memory() -> None:
    n = 30_000
    A = sp.from_coords([np.arange(n), np.arange(n)], np.append(np.linspace(0, 1, n - 2), [2, 3]))
    scipy_vectors = 20 * n * 8
    with sp.config(memory_limit=memory.limit() - memory.available() + 2 * scipy_vectors - 10):
        with pytest.raises(errors.TooLargeError, match=r"basis.*smaller ncv="):
            sp.linalg.eigsh(A, 2, ncv=40)
        np.testing.assert_allclose(sp.linalg.eigsh(A, 2, tol=1e-6)[0], [2, 3])
        np.testing.assert_allclose(sp.linalg.svds(A, 2, tol=1e-6)[1], [2, 3])
        with pytest.raises(errors.TooLargeError, match=r"basis.*smaller restart="):
            sp.linalg.gmres(A, np.ones(n), restart=40)
        assert sp.linalg.gmres(A + sp.eye(n), np.ones(n))[1] == 0
        with pytest.raises(errors.TooLargeError, match="fewer columns"):
            sp.linalg.lobpcg(A, np.ones((n, 5)))


def test_eigsh_sorts_hermitian_values() -> None:
    rng = np.random.default_rng(0)
    half = rng.standard_normal((8, 8)) + 1j * rng.standard_normal((8, 8))
    a = half + half.conj().T
    expected = np.linalg.eigvalsh(a)[:4]
    values, vectors = sp.linalg.eigsh(sp.asarray(a), 4, which="SA")
    np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-8)
    np.testing.assert_allclose(sp.linalg.eigsh(sp.asarray(a), 4, which="SA", return_eigenvectors=False), expected)


@pytest.mark.parametrize("kind", ["bool", "int8", "int64", "uint16"])
def test_pinv_of_integers(kind: str) -> None:
    dense = np.array([[2, 0, 1], [0, 4, 1]]).astype(kind)
    for tensor in (sp.asarray(dense), dense, dense.tolist()):
        np.testing.assert_allclose(sp.linalg.pinv(tensor), np.linalg.pinv(dense), atol=1e-15)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_norms_of_empty_matrices(shape: tuple[int, int]) -> None:
    for order in (1, np.inf):
        assert sp.linalg.norm(sp.zeros(shape), order) == np.linalg.norm(np.zeros(shape), order) == 0
        assert sp.linalg.matrix_norm(sp.zeros((4, *shape)), ord=order).tolist() == [0, 0, 0, 0]
        assert sp.linalg.norm(sp.zeros(shape), order, keepdims=True).shape == (1, 1)


def test_norms_by_axes() -> None:
    rng = np.random.default_rng(0)
    cube = rng.integers(-3, 4, (3, 4, 5)).astype(float)
    A = sp.asarray(cube)
    order: Any
    axis: Any
    for order, axis in ((None, None), (None, 1), (1, 2), ("fro", (0, 2)), (np.inf, (2, 0)), (1, (-1, 0))):
        for keepdims in (False, True):
            result = sp.linalg.norm(A, order, axis, keepdims=keepdims)
            expected = np.linalg.norm(cube, order, axis, keepdims)
            np.testing.assert_allclose(np.asarray(result), expected)
    narrow = np.array([[-128, 100], [-128, 1]], np.int8)
    for order in (1, -1, np.inf, -np.inf, "fro"):
        assert sp.linalg.norm(sp.asarray(narrow), order) == np.linalg.norm(narrow, order)
    with pytest.raises(errors.UnsupportedError, match="is a matrix norm"):
        sp.linalg.norm(A[0, 0], "fro")
    with pytest.raises(errors.ShapeError, match="one or two axes"):
        sp.linalg.norm(A, 1)


def test_outer_of_long_vectors() -> None:
    n = 2**40
    x, y = sp.from_coords([[3, n - 1]], [2.0, 3.0], shape=(n,)), sp.from_coords([[7]], [5.0], shape=(n,))
    result = sp.linalg.outer(x, y)
    assert (result.nnz, result[3, 7], result[n - 1, 7]) == (2, 10, 15)


def test_vectors_beyond_memory_limit() -> None:
    A = sp.from_coords([[1, 5], [2, 5]], [1.0, 2.0], shape=(2**36, 2**36))
    for solve in (sp.linalg.pagerank, lambda A: sp.linalg.svds(A, k=1)):
        with pytest.raises(errors.TooLargeError, match="vectors of a matrix"):
            solve(A)


SMALL = sp.asarray(matrix(8))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sp.linalg.lsqr(SMALL, np.ones(8), x0=np.ones(2)), r"lsqr: x0 .* 8 columns, got shape \(2,\)"),
        (lambda: sp.linalg.lsmr(SMALL, np.ones(8), x0=np.ones(2)), r"lsmr: x0 .* 8 columns, got shape \(2,\)"),
        (lambda: sp.linalg.gmres(SMALL, np.ones(8), np.ones(2)), r"gmres: x0 .* 8 columns, got shape \(2,\)"),
        (lambda: sp.linalg.lsmr(SMALL, np.ones((8, 2))), r"b must have shape \(8,\), got shape \(8, 2\): pass one"),
        (lambda: sp.linalg.cg(SMALL, np.ones((8, 2))), r"b must have shape \(8,\), got shape \(8, 2\): pass one"),
        (
            lambda: sp.linalg.aslinearoperator(SMALL) @ np.ones(3),
            r"x .*per column of .*\(8, 8\), 8 columns, got shape \(3,\)",
        ),
        (
            lambda: sp.linalg.aslinearoperator(SMALL[:5]).T @ np.ones((3, 2)),
            r"x .*per column of .*\(8, 5\), 5 columns, got shape \(3, 2\)",
        ),
        (
            lambda: sp.linalg.cg(SMALL, np.ones(8), M=sp.eye(5)),
            r"cg: M must have the shape of A, \(8, 8\), got \(5, 5\)",
        ),
        (lambda: sp.linalg.eigsh(SMALL, 2, M=np.eye(5)), r"eigsh: M must have the shape of A, \(8, 8\), got \(5, 5\)"),
        (lambda: sp.linalg.eigsh(SMALL, 2, sigma=1, OPinv=sp.eye(5)), r"eigsh: OPinv must have .*, got \(5, 5\)"),
        (lambda: sp.linalg.lobpcg(SMALL, np.ones((8, 1)), B=sp.eye(5)), r"lobpcg: B must have .*, got \(5, 5\)"),
        (
            lambda: sp.linalg.lobpcg(SMALL, np.ones((8, 1)), Y=np.ones((5, 1))),
            r"lobpcg: Y .* 8 rows, got shape \(5, 1\)",
        ),
        (lambda: sp.linalg.lobpcg(SMALL, np.ones(8)), r"lobpcg: X must have one guess per column, got shape \(8,\)"),
        (
            lambda: sp.linalg.lobpcg(SMALL, np.ones((8, 0))),
            r"lobpcg: X must have one guess per column, got shape \(8, 0\)",
        ),
        # SciPy reads beyond the end of a short v0 and crashes later.
        (lambda: sp.linalg.eigsh(SMALL, 2, v0=np.ones(3)), r"eigsh: v0 .* 8 rows, got shape \(3,\)"),
        (lambda: sp.linalg.svds(SMALL[:6], 2, v0=np.ones(8)), r"svds: v0 .* 6 rows, got shape \(8,\)"),
        (lambda: sp.linalg.svds(SMALL[:, :6], 2, v0=np.ones(8)), r"svds: v0 .* 6 columns, got shape \(8,\)"),
        (
            lambda: sp.linalg.svds(SMALL[:, :6], 2, v0=np.ones(6), solver="propack"),
            r"svds: v0 .* 8 rows, got shape \(6,\)",
        ),
        (lambda: sp.linalg.power_iteration(SMALL, np.ones(3)), r"power_iteration: v0 .* 8 rows, got shape \(3,\)"),
    ],
)
def test_size_errors(call: Any, message: str) -> None:
    with pytest.raises(errors.ShapeError, match=message):
        call()


@pytest.mark.parametrize(
    ("name", "word", "given", "least"),
    [
        ("gmres", "maxiter", -1, 1),
        ("gmres", "maxiter", 0, 1),
        ("gmres", "restart", 0, 1),
        ("cg", "maxiter", -1, 0),
        ("minres", "maxiter", 1.5, 0),
        ("lsqr", "iter_lim", "x", 0),
        ("lsmr", "maxiter", -1, 0),
    ],
)
def test_round_options_are_checked(name: str, word: str, given: Any, least: int) -> None:
    with pytest.raises(errors.InvalidValueError, match=f"{word} must be an integer of at least {least}, got {given!r}"):
        getattr(sp.linalg, name)(SMALL, np.ones(8), **{word: given})


@pytest.mark.parametrize(
    ("name", "kind", "size", "solver", "most"),
    [
        ("eigsh", "float64", 5, None, 4),
        ("eigsh", "complex128", 5, None, 3),
        ("eigsh", "float64", 1, None, 0),
        ("eigsh", "float64", 0, None, 0),
        ("eigsh", "complex128", 2, None, 0),
        ("svds", "float64", 5, "arpack", 4),
        ("svds", "complex128", 5, "arpack", 3),
        ("svds", "complex128", 5, "lobpcg", 4),
        ("svds", "float64", 5, "propack", 5),
        ("svds", "complex128", 1, "propack", 1),
        ("svds", "float64", 1, "arpack", 0),
    ],
)
@pytest.mark.filterwarnings("ignore:The problem size:UserWarning")
def test_number_of_values(name: str, kind: str, size: int, solver: str | None, most: int) -> None:
    A = sp.asarray(np.diag(np.arange(1.0, size + 1)).reshape(size, size).astype(kind))
    solve, more = getattr(sp.linalg, name), {} if solver is None else {"solver": solver}
    if most:
        result = solve(A, most, **more)
        values = sorted(result[0] if name == "eigsh" else result[1])
        np.testing.assert_allclose(values, np.arange(1.0, size + 1)[-most:])
    bounds = f"k must be from 1 to {most}" if most else "no k is valid"
    dense = "eigh" if name == "eigsh" else "svd"
    with pytest.raises(
        errors.InvalidValueError, match=rf"{bounds} for a .*, got {most + 1}: sp\.linalg\.{dense} finds all"
    ):
        solve(A, most + 1, **more)


@pytest.mark.parametrize("zero", [lambda A: A, lambda A: A.to_scipy("csc"), sp.linalg.aslinearoperator])
def test_singular_matrices(zero: Any) -> None:
    A = zero(sp.asarray(np.diag([1.0, 0.0, 2.0])))
    factor: Any
    for factor in (
        sp.linalg.splu, sp.linalg.spilu, lambda A: sp.linalg.spsolve_triangular(A, np.ones(3)),
        *(lambda A, b=b: sp.linalg.spsolve(A, b) for b in (np.ones(3), np.eye(3), scipy.sparse.csc_array(np.eye(3)))),
    ):  # fmt: skip
        with pytest.raises(errors.SingularError, match=r"A of shape \(3, 3\) is singular: sp\.linalg\.lsqr") as result:
            factor(A)
        assert isinstance(result.value, RuntimeError)
        assert isinstance(result.value, np.linalg.LinAlgError)


@pytest.mark.parametrize("dense", [np.zeros((3, 3)), np.ones((3, 3)), np.arange(9.0).reshape(3, 3)])
def test_spsolve_singular_systems(dense: Any) -> None:
    with pytest.raises(errors.SingularError, match=r"spsolve: A of shape \(3, 3\) is singular"):
        sp.linalg.spsolve(sp.asarray(dense), [1, 2, 3])


@pytest.mark.parametrize("kind", ["float32", "float64", "complex128", "int64"])
def test_zero_matrices(kind: str) -> None:
    for shape in ((5, 5), (5, 4), (4, 5)):
        A = sp.zeros(shape, kind)
        for a in (A, A + A, A.to_scipy("csr"), A.to_numpy(), sp.linalg.aslinearoperator(A)):
            u, s, vh = sp.linalg.svds(a, 2)
            assert (u.shape, s.tolist(), vh.shape) == ((shape[0], 2), [0, 0], (2, shape[1]))
            np.testing.assert_array_equal(u.conj().T @ u, np.eye(2))
            np.testing.assert_array_equal(vh @ vh.conj().T, np.eye(2))
        assert s.dtype == ("float32" if kind == "float32" else "float64")
        assert sp.linalg.svds(A, 2, return_singular_vectors=False).tolist() == [0, 0]
        assert sp.linalg.svds(A, 2, return_singular_vectors="u")[2] is None
        assert sp.linalg.svds(A, 2, return_singular_vectors="vh")[0] is None
    square = sp.zeros((5, 5), kind)
    values, vectors = sp.linalg.eigsh(square, 2)
    assert values.tolist() == sp.linalg.eigsh(square, 2, return_eigenvectors=False).tolist() == [0, 0]
    np.testing.assert_array_equal(vectors.conj().T @ vectors, np.eye(2))
    with pytest.raises(errors.ConvergenceError, match="A is all 0, so all eigenvalues are 0"):
        sp.linalg.eigsh(square, 2, M=sp.eye(5, dtype=vectors.dtype))
    with pytest.raises(errors.ConvergenceError, match="A or v0 may contain NaN"):
        sp.linalg.eigsh(sp.eye(5), 2, v0=np.zeros(5))


def test_direct_memory_check_uses_float_size() -> None:
    flags, b = sp.asarray(np.eye(1000, dtype=bool)), np.ones(1000)
    for A in (flags, flags.astype(np.float64)):  # 4 * (12 * 1000 + 4000) bytes
        with (
            sp.config(memory_limit=60_000),
            pytest.raises(errors.TooLargeError, match="1000 stored elements and its factors"),
        ):
            sp.linalg.spsolve(A, b)
    np.testing.assert_array_equal(sp.linalg.spsolve(flags, b), b)


def test_eigsh_sigma_eigenvalue() -> None:
    with pytest.raises(errors.SingularError, match="sigma=2 is an eigenvalue of A: pass a number near it"):
        sp.linalg.eigsh(sp.asarray(np.diag(np.arange(8.0))), 2, sigma=2)


def test_functions_accept_operators(stored_matrix: sp.Tensor) -> None:
    operator, b = sp.linalg.aslinearoperator(stored_matrix), np.ones(40)
    np.testing.assert_array_equal(sp.linalg.spsolve(operator, b), sp.linalg.spsolve(stored_matrix, b))
    np.testing.assert_array_equal(sp.linalg.splu(operator).solve(b), sp.linalg.splu(stored_matrix).solve(b))
    np.testing.assert_allclose(sp.linalg.pagerank(operator), sp.linalg.pagerank(stored_matrix))
    np.testing.assert_allclose(sp.linalg.expm_multiply(operator, b), sp.linalg.expm_multiply(stored_matrix, b))
    np.testing.assert_allclose(sp.linalg.power_iteration(operator)[0], sp.linalg.power_iteration(stored_matrix)[0])
    np.testing.assert_allclose(sp.linalg.norm(operator), sp.linalg.norm(stored_matrix))
    other: Any = scipy_linalg.aslinearoperator(matrix(40))
    with pytest.raises(errors.UnsupportedError, match=r"spsolve requires a matrix, got .* only multiplies: .*gmres"):
        sp.linalg.spsolve(other, b)


@pytest.mark.parametrize("persist", [None, True, False])
def test_operators_are_pinned(persist: bool | None, tmp_path: Path) -> None:
    dense, x = np.diag([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 100.0])
    for A in (sp.asarray(dense).save(tmp_path / "A.sparrow"), sp.asarray(dense)):
        operator, view = (sp.linalg.aslinearoperator(one, persist) for one in (A, A[1:]))
        A[0, 0], A[2, 0] = 50, 60
        A.resize((4, 4))
        for _ in range(3):
            np.testing.assert_array_equal(operator @ x, dense @ x)
            np.testing.assert_array_equal(view.T @ x[1:], dense[1:].T @ x[1:])
            A[1, 1] += 1
        assert operator.shape == operator.tensor.shape == (3, 3)


@pytest.mark.parametrize("kind", ["float32", "float64", "complex64", "complex128", "int64"])
@pytest.mark.parametrize("other", ["float32", "complex64", "int64"])
def test_expm_multiply_dtype(kind: str, other: str) -> None:
    dense, b = np.diag([1, 2, 3]).astype(kind), np.ones(3, other)
    given: dict[str, Any]
    for given in ({}, {"start": 0, "stop": 1, "num": 3}):
        result = sp.linalg.expm_multiply(sp.asarray(dense), b, **given)
        expected = scipy_linalg.expm_multiply(scipy.sparse.csc_array(dense), b, **given)
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_expm_multiply_empty() -> None:
    nothing = sp.zeros((0, 0), np.float32)
    assert sp.linalg.expm_multiply(nothing, np.ones(0, np.float32)).dtype == np.float32
    assert sp.linalg.expm_multiply(nothing, np.ones((0, 2))).shape == (0, 2)
    assert sp.linalg.expm_multiply(nothing, np.ones((0, 2)), start=0, stop=1, num=3).shape == (3, 0, 2)
    assert sp.linalg.expm_multiply(nothing, np.ones(0), start=0, stop=1).shape == (50, 0)
    with pytest.raises(errors.ShapeError, match=r"B .* 0 rows, got shape \(1,\)"):
        sp.linalg.expm_multiply(nothing, np.ones(1))


@pytest.mark.parametrize(
    ("name", "given", "options", "message"),
    [
        ("cg", np.ones(4), {"rtol": "x"}, "cg: .*passed to SciPy: rtol='x'"),
        ("gmres", np.ones(4), {"callback": 5}, "callback must be callable, got 5"),
        ("lsqr", np.ones(4), {"damp": "x"}, "damp must be a finite number, got 'x'"),
        ("eigsh", 1, {"which": "XX"}, "eigsh: which must be one of .*which='XX'"),
        ("eigsh", 1, {"ncv": 1}, "eigsh: ncv must be"),
        ("svds", 1, {"solver": "foo"}, "svds: solver must be one of"),
        ("expm_multiply", np.ones(4), {"start": 0, "stop": 1, "num": "x"}, "expm_multiply: .*num='x'"),
        ("spsolve", np.ones(4), {"permc_spec": "foo"}, "spsolve: .*permc_spec='foo'"),
    ],
)
def test_invalid_option_values(name: str, given: Any, options: Any, message: str) -> None:
    with pytest.raises(errors.InvalidValueError, match=message):
        getattr(sp.linalg, name)(sp.asarray(np.eye(4)), given, **options)


def test_errors_omit_internal_options() -> None:
    with pytest.raises(
        errors.InvalidValueError, match=r"expm_multiply: .* \(passed to SciPy: start=0, stop=1, num='x'\)$"
    ):
        sp.linalg.expm_multiply(sp.eye(3), np.ones(3), start=0, stop=1, num="x")


def test_factorization_options() -> None:
    A = sp.asarray(np.eye(4))
    with pytest.raises(errors.InvalidValueError, match=r"splu: .*permc_spec='foo'"):
        sp.linalg.splu(A, permc_spec="foo")
    for name in ("splu", "spilu"):
        with pytest.raises(TypeError, match=f"{name}\\(\\) got an unexpected keyword argument 'bad'"):
            getattr(sp.linalg, name)(A, bad=1)


def test_callback_errors_pass_through() -> None:
    def refuse(x: Any) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match=r"^enough$"):
        sp.linalg.cg(sp.asarray(np.eye(4)), np.ones(4), callback=refuse)


def test_nan_convergence_errors(capfd: pytest.CaptureFixture[str]) -> None:
    N = sp.from_coords([[0], [1]], [np.nan], shape=(4, 4))
    with pytest.raises(errors.ConvergenceError, match=r"eigsh: .*A or v0 may contain NaN"):
        sp.linalg.eigsh(N, 1)
    with pytest.raises(errors.ConvergenceError, match="remove its NaN"):
        sp.linalg.power_iteration(sp.from_coords([[0, 1], [1, 0]], [np.nan, 1], shape=(2, 2)))


def test_dense_solve_and_norm_errors() -> None:
    A = sp.asarray(np.eye(4))
    for b in (np.ones(3), np.ones((3, 2)), np.float64(1)):
        with pytest.raises(errors.ShapeError, match=r"solve: x2 must have 4 rows, one per row of x1 of shape \(4, 4\)"):
            sp.linalg.solve(A, b)
    assert sp.linalg.solve(A, np.ones((4, 2))).shape == (4, 2)
    assert sp.linalg.solve(A, np.ones((3, 4, 2))).shape == (3, 4, 2)
    order: Any
    for order in (3, "foo"):
        for norm in (sp.linalg.norm, sp.linalg.matrix_norm):
            with pytest.raises(errors.UnsupportedError, match=r"norm: ord of a matrix must be .*nuc"):
                norm(A, ord=order)
    with pytest.raises(errors.UnsupportedError, match=r"use sp.linalg.norm"):
        np.linalg.norm(A, 2)
    assert sp.linalg.norm(A, 2) == 1


def test_half_floats_and_nan() -> None:
    half = sp.asarray(np.array([[4, 1], [1, 3]], np.float16))
    np.testing.assert_allclose(sp.linalg.spsolve(half, [1.0, 2.0]), np.linalg.solve([[4, 1], [1, 3]], [1.0, 2.0]))
    np.testing.assert_allclose(sp.linalg.eigsh(half, 1, sigma=0.1)[0], np.linalg.eigvalsh([[4, 1], [1, 3]])[:1])
    for sigma in (np.nan, "x"):
        with pytest.raises(errors.InvalidValueError, match=r"sigma must be a finite number"):
            sp.linalg.eigsh(half, 1, sigma=sigma)
    with pytest.raises(errors.SingularError, match="A must be finite"):
        sp.linalg.spsolve(sp.asarray([[np.nan, 1], [1, 3]]), [1.0, 2.0])


def test_lobpcg_keeps_guesses() -> None:
    A = sp.asarray(np.diag(np.arange(1.0, 21.0)))
    guesses = np.random.default_rng(0).standard_normal((20, 2))
    before = guesses.copy()
    sp.linalg.lobpcg(A, guesses, tol=1e-6, maxiter=50)
    np.testing.assert_array_equal(guesses, before)


def test_undefined_norms() -> None:
    with pytest.raises(errors.UnsupportedError, match="matrix_norm: array type float16"):
        sp.linalg.norm(sp.asarray(np.eye(2, dtype=np.float16)), "nuc")
    none: Any
    for none in (
        lambda: sp.linalg.norm(sp.zeros((0, 3)), -2),
        lambda: sp.linalg.vector_norm(sp.zeros((0,)), ord=-np.inf),
    ):
        with pytest.raises(errors.ShapeError, match="norm"):
            none()
    assert sp.linalg.norm(sp.zeros((0, 3)), -np.inf, axis=1).shape == (0,)


def test_on_product_is_restored() -> None:
    counted: list[int] = []
    operator = sp.linalg.aslinearoperator(sp.asarray(np.diag([1.0, 2.0, 3.0])))
    operator.on_product = counted.append
    sp.linalg.cg(operator, np.ones(3))
    operator @ np.ones(3)
    assert counted == [1]
    with operator.telling(counted.append):  # the former name
        operator @ np.ones((3, 2))
    assert counted == [1, 2]


# -- wrong input ends at once ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cg", "gmres", "minres", "bicgstab", "lsqr", "lsmr"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_solvers_refuse_nan(name: str, value: float) -> None:
    solve: Any = getattr(sp.linalg, name)
    dense = matrix(8) @ matrix(8).T + np.eye(8)
    A = sp.linalg.aslinearoperator(sp.asarray((dense + dense.T) / 2))
    b = np.ones(8)
    b[5] = value
    for side in (b, sp.asarray(b), b[:, None]):
        with pytest.raises(errors.InvalidValueError, match=rf"{name}: b must be finite, got {value} at 5"):
            solve(A, side)
    with pytest.raises(errors.InvalidValueError, match=f"{name}: x0 must be finite"):
        solve(A, np.ones(8), x0=b)
    assert A.products == 0 or name == "minres"  # which checks the symmetry first
    dense[3, 3] = value
    broken = sp.linalg.aslinearoperator(sp.asarray(dense))
    with pytest.raises(errors.ConvergenceError, match="a product with A is not finite"):
        solve(broken, np.ones(8))
    assert broken.products <= 3


@pytest.mark.parametrize("name", ["eigsh", "lobpcg", "minres"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
def test_asymmetric_matrices_are_refused(name: str, dtype: str) -> None:
    if (name, dtype) == ("minres", "complex128"):
        pytest.skip("SciPy's minres is for real matrices")
    rng = np.random.default_rng(0)
    dense = rng.integers(-9, 9, (12, 12)).astype(dtype)
    if dtype == "complex128":
        dense += 1j * rng.integers(-9, 9, (12, 12))
    symmetric = dense + dense.conj().T + 40 * np.eye(12, dtype=dtype)
    second: Any = {"eigsh": 2, "lobpcg": rng.standard_normal((12, 2)), "minres": np.ones(12)}[name]
    solve: Any = getattr(sp.linalg, name)
    rounding = symmetric * (1 + 1e-15 * rng.random((12, 12))) if dtype == "float64" else symmetric
    A: Any
    for A in (sp.asarray(symmetric), sp.asarray(rounding), sp.linalg.aslinearoperator(sp.asarray(symmetric))):
        solve(A, second, **({"maxiter": 200} if name != "eigsh" else {}))
    wrong: list[Any] = [sp.asarray(dense), scipy.sparse.csr_array(dense), dense]
    wrong.append(sp.linalg.aslinearoperator(sp.asarray(dense)))
    for A in wrong:
        with pytest.raises(errors.InvalidValueError, match=f"{name}: A must be symmetric"):
            solve(A, second)


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int8", "bool"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("eigsh", kind) for kind in ("plain", "named", "labelled", "keyword", "half named", "operator", "scipy")),
        ("lobpcg", "labelled"),
        ("minres", "operator"),
    ],
)
def test_suggested_symmetric_part(kind: str, name: str, dtype: str) -> None:
    if name == "minres" and dtype == "complex64":
        pytest.skip("SciPy's minres is for real matrices")
    rng = np.random.default_rng(0)
    dense = rng.integers(-100, 100, (12, 12)).astype(dtype)
    if dtype == "complex64":
        dense += 1j * rng.integers(-9, 9, (12, 12))
    dims = {"plain": None, "keyword": ("class", "my q"), "half named": ("p", "d1")}.get(kind, ("p", "q"))
    labels = {"p": list("lkjihgfedcba"), "q": list("lkjihgfedcba")} if kind == "labelled" else None
    A: Any = scipy.sparse.csr_array(dense) if kind == "scipy" else sp.asarray(dense, dims=dims, labels=labels)
    A = sp.linalg.aslinearoperator(A) if kind == "operator" else A
    second: Any = {"eigsh": 2, "lobpcg": rng.standard_normal((12, 2)), "minres": np.ones(12)}[name]
    solve: Any = getattr(sp.linalg, name)
    with pytest.raises(errors.InvalidValueError) as refused:
        solve(A, second)
    expression = re.search(r"pass (.*), or use sp\.linalg\.svds", str(refused.value))
    assert expression is not None
    part = eval(expression[1], {"A": A})
    expected = dense.astype("complex128" if dtype == "complex64" else "float64")
    np.testing.assert_allclose(sp.asarray(part).to_numpy(), (expected + expected.conj().T) / 2)
    solve(part, second, **({"maxiter": 200} if name != "eigsh" else {}))


@pytest.mark.parametrize("factorize", [sp.linalg.splu, sp.linalg.spilu])
def test_factors_solve_tensors(factorize: Any) -> None:
    dense = np.array([[4.0, 1, 0], [0, 3, 1], [1, 0, 5]])
    A = sp.asarray(dense, dims=("p", "q"), labels={"p": list("abc"), "q": list("abc")})
    b = sp.asarray([7.0, 5, 6], dims=("p",), labels={"p": list("cab")})
    right = np.array([5.0, 6, 7])
    factors = factorize(A)
    for side in (b, b[::-1], b * 1, right, right.tolist(), right.astype(int)):
        np.testing.assert_allclose(factors.solve(side), np.linalg.solve(dense, right))
    for trans in ("T", "H"):
        np.testing.assert_allclose(factors.solve(b, trans), np.linalg.solve(dense.T, right))
    np.testing.assert_allclose(factorize(sp.asarray(dense)).solve(A), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(factors.solve(scipy.sparse.csr_array(dense)), np.eye(3), atol=1e-12)
    assert factors.shape == (3, 3)
    assert factors.L.shape == (3, 3)
    with pytest.raises(
        errors.ShapeError, match=r"solve: rhs must have one value per row of A, 3 rows, got shape \(2,\)"
    ):
        factors.solve(sp.asarray([1.0, 2.0]))
    with pytest.raises(errors.InvalidValueError, match=r"solve: .*trans"):
        factors.solve(b, "X")
    with pytest.raises(errors.InvalidValueError, match=r"solve: .*complex"):
        factors.solve(right * 1j)


def test_asymmetric_matrix_is_refused_with_sigma() -> None:
    with pytest.raises(errors.InvalidValueError, match="eigsh: A must be symmetric"):
        sp.linalg.eigsh(sp.asarray(np.triu(np.ones((6, 6)))), 2, sigma=0.3)


@pytest.mark.parametrize(("start", "stop"), [(0, -1), (1, 0.5), (-1, -2)])
def test_expm_multiply_refuses_falling_times(start: float, stop: float) -> None:
    A = sp.asarray([[0.0, 1.0], [-1.0, 0.0]])
    with pytest.raises(errors.InvalidValueError, match=r"stop must be at least start.*pass -A"):
        sp.linalg.expm_multiply(A, [1.0, 2.0], start=start, stop=stop, num=2)
    found = sp.linalg.expm_multiply(-A, [1.0, 2.0], start=-start, stop=-stop, num=2)
    expected = [scipy.linalg.expm(t * A.to_numpy()) @ [1.0, 2.0] for t in (start, stop)]
    np.testing.assert_allclose(found, expected)


@pytest.mark.filterwarnings("ignore:Exited")
@pytest.mark.parametrize("solver", ["arpack", "lobpcg"])
def test_smallest_singular_values(solver: str) -> None:
    B = scipy.sparse.random_array((30, 18), density=0.3, rng=np.random.default_rng(3))
    expected = np.linalg.svd(B.toarray())[1][-3:][::-1]
    found = np.sort(sp.linalg.svds(sp.asarray(B), 3, which="SM", solver=solver, rng=0)[1])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(errors.InvalidValueError, match="'arpack' or 'lobpcg' for which='SM'"):
        sp.linalg.svds(sp.asarray(B), 3, which="SM", solver="propack")
    largest = sp.linalg.svds(sp.asarray(B), 3, solver="propack")[1]
    np.testing.assert_allclose(np.sort(largest), np.linalg.svd(B.toarray())[1][:3][::-1])


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("cg", "tol", "rtol"), ("gmres", "tol", "rtol"), ("minres", "tol", "rtol"), ("gmres", "restrt", "restart"),
     ("lsqr", "maxiter", "iter_lim"), ("lsmr", "iter_lim", "maxiter")],
)  # fmt: skip
def test_renamed_options(name: str, old: str, new: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{old}': {old} is called {new} now"):
        getattr(sp.linalg, name)(SMALL, np.ones(8), **{old: 1})


# -- PageRank of extreme weights -------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-1074, -1060, -900, 0, 900, 1019])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pagerank_of_extreme_weights(exponent: int, dtype: str) -> None:
    rng = np.random.default_rng(1)
    dense = (rng.integers(1, 16, (12, 12)) * (rng.random((12, 12)) < 0.4)).astype(np.float64)
    expected = sp.linalg.pagerank(sp.asarray(dense), tol=1e-12)
    if dtype == "float32":
        exponent //= 9
    with np.errstate(all="ignore"):
        scaled = np.ldexp(dense, exponent).astype(dtype)
    np.testing.assert_allclose(sp.linalg.pagerank(sp.asarray(scaled), tol=1e-12), expected, rtol=1e-9)
    rows = np.ldexp(dense, rng.choice([-1074, -900, 0, 900], (12, 1)).astype(int))
    np.testing.assert_allclose(sp.linalg.pagerank(sp.asarray(rows), tol=1e-12), expected, rtol=1e-9)
    hubs, authorities = sp.graph.hits(sp.asarray(dense))
    for found, known in zip(sp.graph.hits(sp.asarray(scaled)), (hubs, authorities), strict=True):
        np.testing.assert_allclose(found.to_numpy(), known.to_numpy(), rtol=1e-5)


def test_pagerank_of_huge_sums(tmp_path: Path) -> None:
    A = sp.from_coords([[0, 0, 1, 2], [1, 2, 0, 0]], [1e308, 1e308, 5e-324, 1.0], shape=(3, 3))
    expected = sp.linalg.pagerank(sp.from_coords([[0, 0, 1, 2], [1, 2, 0, 0]], 1.0, shape=(3, 3)))
    np.testing.assert_allclose(sp.linalg.pagerank(A), expected)
    np.testing.assert_allclose(sp.linalg.pagerank(A.save(tmp_path / "a")), expected)
    np.testing.assert_allclose(sp.linalg.pagerank(sp.linalg.aslinearoperator(A)), expected)
    for weight in (np.inf, np.nan, -1.0):
        with pytest.raises(errors.InvalidValueError, match="edge weights must be finite and not negative"):
            sp.linalg.pagerank(sp.from_coords([[0, 1], [1, 0]], [1e308, weight]))
