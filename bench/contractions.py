"""Contractions next to GraphBLAS, SciPy and pydata/sparse."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Row, alternate
from scipy import linalg

import sparrow as sp


def run(small: bool, rounds: int) -> list[Row]:
    """Return the rows; peers only where installed."""
    nnz = 100_000 if small else 4_000_000
    cube = sp.random((20_000, 2000, 500), nnz=nnz, seed=3).compute()
    matrices = _by_matrices(cube, rounds) + _at_entries(nnz, rounds)
    return _hypersparse(nnz // 4, rounds) + matrices + _of_cubes(cube, nnz, rounds)


def _hypersparse(nnz: int, rounds: int) -> list[Row]:
    """A product of matrices whose ids lie anywhere below 2 ** 40."""
    if not importlib.util.find_spec("graphblas"):
        print("no row against GraphBLAS: it is not installed")
        return []
    from graphblas import Matrix, semiring

    rng = np.random.default_rng(11)
    names = np.unique(rng.integers(0, 1 << 40, nnz // 4))
    n = 1 << 40
    pairs = np.unique(rng.integers(0, len(names), (2, nnz)), axis=1)
    rows, columns = names[pairs]
    values = rng.random(len(rows))
    A = sp.from_coords([rows, columns], values, (n, n)).compute()
    peer = Matrix.from_coo(rows, columns, values, nrows=n, ncols=n)
    theirs: Callable[[], Any] = lambda: semiring.plus_times(peer @ peer).new().wait()  # noqa: E731
    assert (A @ A).nnz == semiring.plus_times(peer @ peer).new().nvals
    detail = f"{len(rows) / 1e6:.1f} M entries with ids below 2^40"
    return [_row("A @ A, hypersparse", "GraphBLAS in RAM", (A @ A).compute, theirs, 0.2, detail, rounds)]


def _by_matrices(cube: Any, rounds: int) -> list[Row]:
    """Contractions of a tensor of three dimensions, which SciPy has as matrices."""
    rng = np.random.default_rng(12)
    i, j, k = cube.shape
    first, second = rng.random((j, 16)), rng.random((k, 16))
    wide = cube.reshape(i, j * k).to_scipy("csr")
    tall = cube.reshape(i * j, k).to_scipy("csr")
    one_letter = cube.transpose(0, 2, 1).reshape(i * k, j).to_scipy("csr")
    steps = lambda: np.einsum("ikr,kr->ir", (one_letter @ first).reshape(i, k, 16), second)  # noqa: E731
    narrow = sp.random((k, 300), nnz=10 * k, seed=4).compute()
    right = narrow.to_scipy("csr")
    mttkrp = lambda: sp.einsum("ijk,jr,kr->ir", cube, first, second)  # noqa: E731
    chained = sp.einsum("ijk,kl->ijl", cube, narrow)
    np.testing.assert_allclose(mttkrp(), wide @ linalg.khatri_rao(first, second))
    np.testing.assert_allclose(mttkrp(), steps())
    assert chained.nnz == (tall @ right).nnz
    size = f"{cube.nnz / 1e6:.1f} M entries"
    return [
        _row("MTTKRP, rank 16", "SciPy, Khatri-Rao and a product", mttkrp,
             lambda: wide @ linalg.khatri_rao(first, second), 0.05, size, rounds),
        _row("MTTKRP, rank 16", "SciPy, one letter after the other", mttkrp, steps, 0.05, size, rounds),
        _row("ijk,kl->ijl", "SciPy csr @ csr, not sorted", chained.compute, lambda: tall @ right, 0.4, size, rounds),
    ]  # fmt: skip


def _at_entries(nnz: int, rounds: int) -> list[Row]:
    """The product of two arrays at the entries of a matrix."""
    rng = np.random.default_rng(13)
    S = sp.random((nnz // 20, nnz // 40), nnz=nnz, seed=6).compute()
    X, Y = rng.random((S.shape[0], 16)), rng.random((16, S.shape[1]))
    pattern = S.to_scipy("coo")
    i, j = pattern.coords
    columns = np.ascontiguousarray(Y.T)
    ours, theirs = lambda: sp.sddmm(S, X, Y), lambda: pattern.data * np.einsum("ek,ek->e", X[i], columns[j])
    np.testing.assert_allclose(ours().to_scipy("coo").data, theirs())
    detail = f"{nnz / 1e6:.1f} M entries"
    return [_row("sddmm, rank 16", "rows picked by NumPy, and einsum", ours, theirs, 1.0, detail, rounds)]


def _of_cubes(cube: Any, nnz: int, rounds: int) -> list[Row]:
    """Contractions that pydata/sparse has."""
    if not importlib.util.find_spec("sparse"):
        print("no rows against pydata/sparse: it is not installed, the extra 'bench' has it")
        return []
    import sparse

    other = sp.random(cube.shape, nnz=nnz, seed=5).compute()
    formats = [each.to_format("coo") for each in (cube, other)]
    one, two = (sparse.COO(np.asarray(each.coords), each.data, cube.shape) for each in formats)
    size = f"2 x {nnz / 1e6:.1f} M entries"
    rows = []
    for letters in ("ijk,ijk->", "ijk,ijk->ik"):
        ours, theirs = lambda e=letters: sp.einsum(e, cube, other), lambda e=letters: sparse.einsum(e, one, two)
        rows.append(_row(letters, "pydata/sparse", lambda f=ours: _evaluate(f()), theirs, 1.0, size, rounds))
    return rows


def _evaluate(found: Any) -> Any:
    return found.compute() if isinstance(found, sp.Tensor) else found


def _row(
    work: str, against: str, ours: Callable[[], Any], theirs: Callable[[], Any], bound: float, detail: str, rounds: int
) -> Row:
    took = alternate({"sparrow": ours, "theirs": theirs}, rounds)
    times = f"{detail}, {took['sparrow']:.2f} s : {took['theirs']:.2f} s"
    return Row(work, against, took["sparrow"] / took["theirs"], bound, times)
