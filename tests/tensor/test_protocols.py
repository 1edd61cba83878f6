"""Tensors among SciPy's sparse arrays, and in its solvers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as ss
import scipy.sparse.linalg as sl

import sparrow as sp
from sparrow.errors import ShapeError, SparrowError, UnsupportedError
from sparrow.testing import on
from tests.tensor.test_arithmetic import Maker, agree, make, some

__all__ = ["make"]

FORMATS = ["csr", "coo", "csc", "lil", "dok", "dia", "bsr"]
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.eq, operator.ne, operator.lt, operator.ge,
    np.add, np.maximum, np.hypot, np.isclose, sp.add, sp.multiply, lambda x, y: np.where(x > y, x, y),
]  # fmt: skip


@pytest.fixture
def never_dense() -> Iterator[None]:
    def fail() -> None:
        raise AssertionError("converted to a dense array")

    with on("tensor.to_numpy", fail):
        yield


# Sparse arrays are converted to tensors before any function runs.
@pytest.mark.parametrize(
    ("function", "format"),
    [
        *((function, "csr") for function in OPERATORS),
        *((function, form) for form in FORMATS[1:] for function in (operator.add, OPERATORS[-1])),
    ],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_scipy_operands(make: Maker, format: str, function: Callable[[Any, Any], Any]) -> None:
    a, b = some((4, 6), 1), some((4, 6), 2)
    S: Any = ss.csr_array(b).asformat(format)
    with np.errstate(all="ignore"):
        for found, wanted in ((function(make(a), S), function(a, b)), (function(S, make(a)), function(b, a))):
            assert isinstance(found, sp.Tensor)
            if function in (operator.mul, sp.multiply):
                wanted = np.where((a == 0) | (b == 0), 0, wanted)
            agree(found, wanted)


@pytest.mark.usefixtures("never_dense")
def test_scipy_operators_stay_sparse() -> None:
    n = 10**6  # 8 TB if dense
    A: Any = sp.from_coords([[5, n - 1], [7, n - 1]], [2.0, 3.0], shape=(n, n))
    S = ss.coo_array(([4.0, 5.0], ([5, 6], [7, 8])), shape=(n, n)).tocsr()
    calls: list[tuple[Callable[[], Any], int]] = [
        (lambda: S + A, 3), (lambda: S - A, 3), (lambda: S * A, 1), (lambda: S != A, 3), (lambda: S > A, 2),
        (lambda: A * S, 1), (lambda: A + S, 3),
    ]  # fmt: skip
    for call, nnz in calls:
        assert call().nnz == nnz


@pytest.mark.usefixtures("never_dense")
@pytest.mark.parametrize("format", FORMATS)
def test_scipy_matmul_defers_to_tensor(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    A: Any = sp.asarray(np.eye(3))
    S: Any = ss.csr_array(np.eye(3)).asformat(format)
    monkeypatch.setattr(sp.Tensor, "__rmatmul__", lambda self, other: ("its turn", self, other))
    for tensor in (A.T, A[0], A * 2):
        assert S @ tensor == ("its turn", tensor, S)


def test_in_place_as_index_and_as_value(make: Maker) -> None:
    a, b = some((4, 6), 1), some((4, 6), 2)
    A, S = make(a), ss.csr_array(b)
    agree(A[S > 0], a[b > 0])
    A += S
    agree(A, a + b)
    A[1:3, ::2] = S[:2, :3]
    a = a + b
    a[1:3, ::2] = b[:2, :3]
    agree(A, a)
    A[[3, 0]] = S[:2]
    a[[3, 0]] = b[:2]
    agree(A, a)
    with A.edit() as e:
        e[2] = S[0]
    a[2] = b[0]
    agree(A, a)
    np.testing.assert_array_equal(ss.csr_array(A).toarray(), a)


def test_operands_in_functions(make: Maker) -> None:
    a, b = some((4, 6), 1), some((4, 6), 2)
    A, S = make(a), ss.csr_array(b)
    agree(np.concatenate([A, S]), np.concatenate([a, b]))
    agree(sp.stack([S, A]), np.stack([b, a]))
    agree(sp.kron(S, A), np.kron(b, a))
    agree(np.multiply.outer(A, S[0]), np.multiply.outer(a, b[0]))
    agree(np.clip(A, S, None), np.clip(a, b, None))
    out = sp.zeros((4, 6))
    function: Any = np.add
    assert function(A, S, out=out) is out
    agree(out, a + b)


def test_star_with_spmatrix_raises() -> None:
    A: Any = sp.asarray(np.eye(3))
    M: Any = ss.csr_matrix(np.eye(3))
    calls: list[Callable[[], Any]] = [lambda: A * M, lambda: M * A]
    for call in calls:
        with pytest.raises(UnsupportedError, match="csr_matrix"):
            call()
    agree(A + M, np.eye(3) * 2)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_scipy_solvers_accept_tensors(make: Maker, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    a = some((30, 30), 5).astype(dtype)
    if dtype == np.complex128:
        a = a + 1j * some((30, 30), 6)
    spd = a @ a.conj().T + 60 * np.eye(30)
    A, B = make(a), make(spd)
    x = rng.random(30)
    op = sl.aslinearoperator(A)
    np.testing.assert_allclose(op @ x, a @ x)
    np.testing.assert_allclose(op.H @ x, a.conj().T @ x)
    np.testing.assert_allclose(op.H @ np.stack([x, x], 1), a.conj().T @ np.stack([x, x], 1))
    np.testing.assert_allclose(A.matvec(x[:, None]), a @ x[:, None])
    wanted = np.linalg.eigvalsh(spd)[-3:]
    np.testing.assert_allclose(sl.eigsh(B, k=3, return_eigenvectors=False, v0=x), wanted, rtol=1e-6)
    values = np.linalg.svd(a, compute_uv=False)[:2]
    np.testing.assert_allclose(sorted(sl.svds(A, k=2, return_singular_vectors=False, v0=x)), sorted(values), rtol=1e-6)
    for solver in (sl.cg, sl.gmres, sl.bicgstab, *((sl.minres,) if dtype == np.float64 else ())):
        found, info = solver(B, x, rtol=1e-10)
        assert info == 0
        np.testing.assert_allclose(spd @ found, x, atol=1e-6)
    if dtype == np.float64:
        np.testing.assert_allclose(a.T @ (a @ sl.lsqr(A, x, atol=1e-12, btol=1e-12)[0] - x), 0, atol=1e-5)


def test_vector_as_operator_raises() -> None:
    with pytest.raises(ShapeError, match="must be a matrix"):
        sp.asarray([1, 0]).matvec([1, 2])


def test_more_dimensions_than_numpy() -> None:
    A: Any = sp.asarray([[1, 0], [0, 2]])[(None,) * 70]
    assert A.ndim == 72
    assert (A + A).sum() == 6
    with pytest.raises(UnsupportedError, match="64 dimensions"):
        np.asarray(A)
    x = np.array([2.0, 3.0])
    assert (A * sp.asarray(x)).sum() == 8
    refused = r"64 dimensions, and .* 7[12]: make a tensor of the array"
    for call in ("A * x", "A + x", "A @ np.eye(2)", "sp.einsum('...i,i->...', A, x)"):
        with pytest.raises(UnsupportedError, match=refused):
            eval(call, {"sp": sp, "np": np, "A": A, "x": x})
    path, told = sp.einsum_path("...i,...i->...", A, A)
    assert path[1:] == [(0, 1)]
    assert told.endswith("ς: 1 products, 0.787 elements")  # Greek letters follow
    assert sp.random((1,) * 70 + (5,), nnz=5, seed=1).sum(axis=tuple(range(70))).nnz == 5


@pytest.mark.parametrize("shape", [(0, 1), (1, 0), (3,), (2, 3), (0, 2, 3)])
@pytest.mark.parametrize("mask", [(0,), (0, 0), (0, 3), (0, 2), (1, 0), (2,)])
def test_non_boolean_masks(shape: tuple[int, ...], mask: tuple[int, ...]) -> None:
    dense, tensor = np.ones(shape), sp.asarray(np.ones(shape))
    keys: list[Any] = [np.zeros(mask, bool), sp.asarray(np.zeros(mask, bool)), (..., np.zeros(mask, bool))]
    for key, same in zip(keys, [keys[0], keys[0], keys[2]], strict=True):
        try:
            wanted = dense[same]
        except IndexError:
            with pytest.raises(IndexError):
                tensor[key]
            continue
        agree(tensor[key], wanted)
        tensor[key] = 5
        agree(tensor, dense)


OWN = {"toarray": r"A\.to_numpy\(\)", "tocoo": r"A\.to_scipy\('coo'\)", "multiply": r"A \* B", "getnnz": r"A\.count"}


@pytest.mark.parametrize("name", OWN)
def test_foreign_attribute_hints(name: str) -> None:
    A = sp.eye(2)
    assert not hasattr(A, name)
    with pytest.raises(AttributeError, match=OWN[name]):
        getattr(A, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        getattr(A, "nonsense")  # noqa: B009


PROTOCOLS: dict[str, Callable[[Any], Any]] = {
    "bool": bool, "float": float, "int": int, "complex": complex, "index": operator.index, "hash": hash, "len": len,
    "iter": lambda x: next(iter(x)), "reversed": lambda x: next(reversed(x)), "floor": math.floor, "list": list,
    "less than None": lambda x: x < None, "greater than object": lambda x: x > object(), "invert": operator.invert,
    "format": lambda x: format(x, ".2f"), "text index": lambda x: x["a"], "fraction index": lambda x: x[1.5],
    "sum": sum, "sorted": sorted, "unpack": lambda x: [*x], "add text": lambda x: x + "a",
    "add None": lambda x: x + None,
}  # fmt: skip


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("dense", [np.array([1.0, 0.0, 2.0]), np.eye(2), np.array(2.0)])
def test_protocols_raise_as_numpy(name: str, dense: Any) -> None:
    try:
        PROTOCOLS[name](dense)
    except (TypeError, ValueError, IndexError) as error:
        kind = next(kind for kind in (TypeError, ValueError, IndexError) if isinstance(error, kind))
        with pytest.raises(kind) as found:
            PROTOCOLS[name](sp.asarray(dense))
        assert isinstance(found.value, SparrowError | TypeError)
    else:
        PROTOCOLS[name](sp.asarray(dense))


@pytest.mark.parametrize("key", [0, slice(None), (0, 1), [0, 1]])
def test_deletion_raises_with_a_way_out(key: Any) -> None:
    a: Any = sp.eye(3)
    with pytest.raises(TypeError, match=r"A\[i\] = 0 removes"):
        del a[key]
    assert a.nnz == 3


@pytest.mark.parametrize("obj", [ss.eye_array(2), np.eye(2), pl.DataFrame({"a": [1]}), [1, 2], 5, None, sp.eye(2)])
def test_constructor_names_asarray(obj: Any) -> None:
    with pytest.raises(TypeError, match=rf"Tensor\(\) does not convert {type(obj).__name__}: use sp\.asarray\(obj\)"):
        sp.Tensor(obj)
