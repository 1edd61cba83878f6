from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import sparrow as sp
from sparrow import errors

# Rows and columns are in the order of NODES, vectors in that of OTHER.
NODES, OTHER = ["a", "b", "c", "d"], ["c", "a", "d", "b"]
CELLS = np.diag([4.0, 5.0, 6.0, 7.0]) + np.array([[0, 1, 0, 0], [1, 0, 0, 0.5], [0, 0, 0, 1], [0, 0.5, 1, 0]])
B = np.array([1.0, 2.0, 3.0, 4.0])


def make_labelled(dense: Any, *names: Sequence[str] | None, dims: str = "ijk") -> Any:
    result = np.asarray(dense)
    given = {dim: list(own) for dim, own in zip(dims, names, strict=False) if own is not None}
    return sp.from_coords(
        np.indices(result.shape).reshape(result.ndim, -1),
        result.reshape(-1),
        shape=result.shape,
        dims=list(dims[: result.ndim]),
        labels=given,
    )


def reorder_rows(dense: Any, names: Sequence[str] = OTHER, dims: str = "ijk") -> Any:
    """Return rows reordered to ``names``."""
    return make_labelled(np.asarray(dense)[[NODES.index(name) for name in names]], names, dims=dims)


A = make_labelled(CELLS, NODES, NODES)
SOLVERS: dict[str, Callable[..., Any]] = {
    **{name: lambda A, b, name=name: getattr(sp.linalg, name)(A, b, rtol=1e-12)[0] for name in ("cg", "minres")},
    **{name: lambda A, b, name=name: getattr(sp.linalg, name)(A, b, rtol=1e-12)[0] for name in ("gmres", "bicgstab")},
    "lsqr": lambda A, b: sp.linalg.lsqr(A, b, atol=1e-14, btol=1e-14)[0],
    "lsmr": lambda A, b: sp.linalg.lsmr(A, b, atol=1e-14, btol=1e-14)[0],
    "solve": sp.linalg.solve,
    "spsolve": sp.linalg.spsolve,
    "spsolve_triangular": lambda A, b: sp.linalg.spsolve_triangular(sp.tril(A), b),
    "expm_multiply": lambda A, b: sp.linalg.expm_multiply(A / 10, b),
    "trsv": lambda A, b: sp.blas.trsv(A, b, lower=True),
}


def solve_densely(name: str, b: Any) -> Any:
    if name == "expm_multiply":
        return scipy.linalg.expm(CELLS / 10) @ b
    return np.linalg.solve(np.tril(CELLS) if name in ("spsolve_triangular", "trsv") else CELLS, b)


@pytest.mark.parametrize("name", SOLVERS)
def test_right_hand_sides_align(name: str) -> None:
    solve = SOLVERS[name]
    for matrix in (
        (A, sp.linalg.aslinearoperator(A))
        if name not in ("solve", "spsolve_triangular", "trsv", "expm_multiply")
        else (A,)
    ):
        np.testing.assert_allclose(solve(matrix, reorder_rows(B)), solve_densely(name, B), rtol=1e-6)
    # A label that it lacks is absent, one that the rows lack is an error; arrays go by position.
    np.testing.assert_allclose(solve(A, reorder_rows(B, ["d", "a"])), solve_densely(name, B * [1, 0, 0, 1]), rtol=1e-6)
    with pytest.raises(errors.LabelError, match="has the label 'z', which is missing from the rows of A, 'i'"):
        solve(A, make_labelled(B, ["a", "z", "b", "y"]))
    for plain in (B, make_labelled(B, None)):
        np.testing.assert_allclose(solve(A, plain), solve_densely(name, B), rtol=1e-6)
    with sp.config(join="exact"), pytest.raises(errors.LabelError, match="join='exact'"):
        solve(A, reorder_rows(B))


def test_multiple_right_hand_sides_align() -> None:
    several = np.stack([B, B[::-1] + 2], axis=1)
    right = make_labelled(several[[2, 0, 3, 1]], OTHER, ["p", "q"])
    np.testing.assert_allclose(sp.linalg.spsolve(A, right), np.linalg.solve(CELLS, several))
    np.testing.assert_allclose(sp.linalg.expm_multiply(A / 10, right), scipy.linalg.expm(CELLS / 10) @ several)
    np.testing.assert_allclose(sp.blas.trsm(1, A, right), np.linalg.solve(np.triu(CELLS), several))
    np.testing.assert_allclose(sp.blas.trsm(1, A, right.T, True), several.T @ np.linalg.inv(np.triu(CELLS)))


def test_x0_aligns_with_columns() -> None:
    lopsided = make_labelled(CELLS, ["p", "q", "r", "s"], NODES)
    x = np.linalg.solve(CELLS, B)
    for name in ("cg", "gmres", "minres", "bicgstab"):  # from the solution there is nowhere to go
        result, info = getattr(sp.linalg, name)(lopsided, B, reorder_rows(x), maxiter=1)
        assert info == 0
        np.testing.assert_allclose(result, x)
    for name, limit in (("lsqr", "iter_lim"), ("lsmr", "maxiter")):
        np.testing.assert_allclose(getattr(sp.linalg, name)(lopsided, B, x0=reorder_rows(x), **{limit: 0})[0], x)
    with pytest.raises(errors.LabelError, match="missing from the columns of A, 'j'"):
        sp.linalg.cg(lopsided, B, make_labelled(B, ["p", "q", "r", "s"]))


@pytest.mark.parametrize("names", [(NODES, NODES), (NODES, None), (None, NODES)])
def test_v0_aligns_with_either_axis(names: Any) -> None:
    matrix = make_labelled(CELLS, *names)
    start = np.random.default_rng(0).standard_normal(4)
    result = sp.linalg.power_iteration(matrix, reorder_rows(start), tol=1)[1]
    np.testing.assert_array_equal(result, sp.linalg.power_iteration(matrix, start, tol=1)[1])
    np.testing.assert_array_equal(*(sp.linalg.eigsh(matrix, 1, v0=v0)[1] for v0 in (reorder_rows(start), start)))
    np.testing.assert_array_equal(*(sp.linalg.svds(A, 1, v0=v0)[0] for v0 in (reorder_rows(start), start)))
    with pytest.raises(errors.LabelError, match="eigsh: v0 has the label 'z'"):
        sp.linalg.eigsh(matrix, 1, v0=make_labelled(B, ["z", *NODES[:3]]))
    more = [f"n{k}" for k in range(20)]
    big = make_labelled(np.diag(np.arange(1.0, 21)), *(None if own is None else more for own in names))
    X = np.random.default_rng(0).standard_normal((20, 2))
    turned = make_labelled(X[::-1], more[::-1])
    np.testing.assert_array_equal(*(sp.linalg.lobpcg(big, one, maxiter=60, tol=1e-3)[1] for one in (turned, X)))


def test_matrix_options_align() -> None:
    inverse = np.linalg.inv(CELLS)
    order = [NODES.index(name) for name in OTHER]
    M = make_labelled(inverse[order], OTHER, NODES)
    for preconditioner in (M, sp.linalg.aslinearoperator(M)):
        x, info = sp.linalg.cg(A, B, M=preconditioner, maxiter=2, rtol=1e-10)
        assert info == 0
        np.testing.assert_allclose(x, np.linalg.solve(CELLS, B))
    mass = np.diag([1.0, 2.0, 3.0, 4.0])
    result = sp.linalg.eigsh(A, 1, M=make_labelled(mass[order][:, order], OTHER, OTHER), Minv=np.linalg.inv(mass))[0]
    np.testing.assert_allclose(result, scipy.linalg.eigh(CELLS, mass)[0][-1:])


def test_operator_products_align() -> None:
    dense = CELLS[:3] + 1j * np.arange(12).reshape(3, 4)
    matrix = make_labelled(dense, ["p", "q", "r"], NODES)
    operator = sp.linalg.aslinearoperator(matrix)
    x, y = reorder_rows(B), make_labelled(B[[2, 0, 1]], ["r", "p", "q"])
    block = make_labelled(np.stack([B, -B], axis=1)[[2, 0, 3, 1]], OTHER)
    for _ in range(2):  # from the tensor, then from what is kept of it
        np.testing.assert_allclose(operator @ x, dense @ B)
        np.testing.assert_allclose(operator @ x, (matrix @ x).to_numpy())
        np.testing.assert_allclose(operator.matvec(x), dense @ B)
        np.testing.assert_allclose(operator @ block, dense @ np.stack([B, -B], axis=1))
        np.testing.assert_allclose(operator.T @ y, dense.T @ B[:3])
        np.testing.assert_allclose(operator.H @ y, dense.conj().T @ B[:3])
        np.testing.assert_allclose(operator.rmatvec(y), dense.conj().T @ B[:3])
        np.testing.assert_allclose(operator.T.T @ x, dense @ B)
        np.testing.assert_allclose(operator.H.T @ x, dense.conj() @ B)
        np.testing.assert_allclose(y @ operator, B[:3] @ dense)
    # As in A @ x, labels that only one operand has are ignored.
    np.testing.assert_allclose(operator @ make_labelled([5.0, 7.0], ["z", "b"]), 7 * dense[:, 1])


R = make_labelled([[1.0, 9.0, 0.0], [10.0, 1.0, 0.0], [0.0, 0.0, 1.0]], ["a", "b", "c"], ["b", "a", "c"])


@pytest.mark.parametrize(
    "solve",
    [
        lambda R: sp.linalg.eigsh(R, 1),
        lambda R: sp.linalg.eigsh(R, 1, sigma=0.5),
        lambda R: sp.linalg.lobpcg(R, np.ones((3, 1))),
        lambda R: sp.linalg.expm_multiply(R, np.ones(3)),
        sp.linalg.power_iteration,
        sp.linalg.pagerank,
        lambda R: sp.linalg.pagerank(sp.linalg.aslinearoperator(R)),
        lambda R: sp.blas.symv(1, R, np.ones(3)),
        lambda R: sp.blas.hemv(1, R, np.ones(3)),
        lambda R: sp.blas.symm(1, R, np.ones((3, 1))),
    ],
)
def test_space_functions_require_equal_labels(solve: Any) -> None:
    with pytest.raises(
        errors.LabelError, match=r"'i' and 'j' differ.* A\.sel\({'i': A\.labels\('j'\)}\) puts the rows"
    ):
        solve(R)


@pytest.mark.parametrize("name", ["cg", "gmres", "minres", "bicgstab"])
def test_solvers_require_one_order_of_common_labels(name: str) -> None:
    solve = getattr(sp.linalg, name)
    right = make_labelled([1.0, 2.0, 3.0], ["a", "b", "c"])
    with pytest.raises(
        errors.LabelError, match=r"rows and columns must have the same labels.* differ in order: A\.sel"
    ):
        solve(R, right)
    x = solve(R.sel({"i": R.labels("j")}), right, rtol=1e-12)[0]
    np.testing.assert_allclose(x, sp.linalg.spsolve(R, right), rtol=1e-6)  # which factorizes rows of any order
    equations = make_labelled(CELLS, ["p", "q", "r", "s"], NODES)
    np.testing.assert_allclose(solve(equations, B, rtol=1e-12)[0], np.linalg.solve(CELLS, B), rtol=1e-6)
    numbered = make_labelled(CELLS, [1, 2, 3, 4], NODES)  # type: ignore[list-item]
    np.testing.assert_allclose(solve(numbered, B, rtol=1e-12)[0], np.linalg.solve(CELLS, B), rtol=1e-6)
    partly = make_labelled(CELLS, ["a", "q", "r", "s"], NODES)
    with pytest.raises(errors.LabelError, match="only 'j' has 'b'"):
        solve(partly, B)


def test_label_order_hint() -> None:
    values = np.linalg.eigvalsh([[10, 1, 0], [1, 9, 0], [0, 0, 1]])
    np.testing.assert_allclose(sp.linalg.eigsh(R.sel({"i": R.labels("j")}), 1)[0], values[-1:])


def test_pagerank_weights_align() -> None:
    plain = sp.asarray(CELLS)
    edges = make_labelled(CELLS, NODES, NODES)
    word: Any
    for word in ("personalization", "dangling"):
        given: dict[str, Any] = {word: B}
        result = sp.linalg.pagerank(edges, **{word: reorder_rows(B)})
        np.testing.assert_array_equal(result, sp.linalg.pagerank(plain, **given))
        with pytest.raises(errors.LabelError, match=f"{word} has the label 'z'"):
            sp.linalg.pagerank(edges, **{word: make_labelled(B, ["z", "a", "b", "c"])})


def test_label_mismatch_hint() -> None:
    labels = {"src": ["ann", "bob", "eve"], "dst": ["eve", "ann", "bob"]}
    A = sp.from_coords([[0, 1], [1, 2]], [1, 1], shape=(3, 3), dims=("src", "dst"), labels=labels)
    for function in (sp.linalg.pagerank, sp.graph.triangles):
        with pytest.raises(errors.LabelError, match=r"differ in order: A.sel\({'src': A.labels\('dst'\)}\)"):
            function(A)
        function(A.sel({"src": A.labels("dst")}))
    labels["dst"] = ["ann", "bob", "zed"]
    B = sp.from_coords([[0, 1], [1, 2]], [1, 1], shape=(3, 3), dims=("src", "dst"), labels=labels)
    for function in (sp.linalg.pagerank, sp.graph.triangles):
        with pytest.raises(errors.LabelError, match="only 'dst' has 'zed': select the common labels"):
            function(B)
