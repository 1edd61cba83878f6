"""Queries of ``einsum_sql``, run by DuckDB alone, against SciPy and the kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse

import sparrow as sp
from sparrow.errors import InvalidValueError, LabelError, ShapeError, UnsupportedError


@pytest.fixture
def con(repository: Path) -> Any:
    with duckdb.connect() as connection:
        connection.execute((repository / "sql" / "duckdb" / "macros.sql").read_text(encoding="utf-8"))
        for number, (name, shape) in enumerate({"a": (9, 7), "b": (7, 8), "c": (9, 8), "d": (7, 7)}.items()):
            found = matrix(shape, number)
            connection.register(name, pa.table({"row": found.row, "col": found.col, "v": found.data}))
        yield connection


def matrix(shape: tuple[int, int], seed: int) -> Any:
    found = scipy.sparse.random(*shape, 0.4, "coo", random_state=seed, data_rvs=np.random.default_rng(seed).random)
    found.data = np.ceil(found.data * 5) - 3
    found.eliminate_zeros()
    return found


def cells(rows: list[tuple[Any, ...]]) -> dict[tuple[int, ...], float]:
    return {tuple(row[:-1]): row[-1] for row in rows}


def entries(found: Any) -> dict[tuple[int, ...], float]:
    found = scipy.sparse.csr_matrix(found)
    found.eliminate_zeros()
    found = found.tocoo()
    return dict(zip(zip(found.row.tolist(), found.col.tolist(), strict=True), found.data.tolist(), strict=True))


A, B, C, D = (matrix(shape, k).tocsr() for k, shape in enumerate([(9, 7), (7, 8), (9, 8), (7, 7)]))


def test_products_and_masks(con: Any) -> None:
    query = sp.einsum_sql("ij,jk->ik", A="a", B="b")
    assert cells(con.sql(query).fetchall()) == entries(A @ B)
    assert cells(con.sql(sp.einsum_sql("ij,jk->ki", A="a", B="b")).fetchall()) == entries((A @ B).T)
    inside = entries((A @ B).multiply(C != 0))
    assert cells(con.sql(sp.einsum_sql("ij,jk->ik", A="a", B="b", mask="c")).fetchall()) == inside
    outside = sp.einsum_sql("ij,jk->ik", A="a", B="b", mask="c", complement=True)
    assert cells(con.sql(outside).fetchall()) == {k: v for k, v in entries(A @ B).items() if k not in inside}
    assert con.sql(sp.einsum_sql("ij,jk,ik->", A="a", B="b", C="c")).fetchall() == [((A @ B).multiply(C).sum(),)]
    assert dict(con.sql(sp.einsum_sql("ii->i", D="d")).fetchall()) == {
        k: v for k, v in enumerate(D.diagonal().tolist()) if v
    }
    assert con.sql(sp.einsum_sql("ij,jj->i", A="a", D="d")).fetchall()
    assert con.sql(sp.einsum_sql("ij,kl->", A="a", D="d")).fetchall() == [(A.sum() * D.sum(),)]


@pytest.mark.parametrize(
    "semiring", ["min_plus", "max_plus", "min_max", "or_and", "any_pair", "plus_first", "plus_second", "plus_pair"]
)
def test_semirings_equal_kernels(con: Any, semiring: str) -> None:
    several: dict[str, Any] = {"a": A, "b": B, "c": C}
    for subscripts in ("ij->i", "ij,jk,ik->ik"):  # of one operand there is no product, of several the order counts
        names = list(several)[: subscripts.count(",") + 1]
        tables: dict[str, Any] = {name: name for name in names}
        query = sp.einsum_sql(subscripts, semiring=semiring, **tables)
        given = [sp.asarray(several[name].astype(np.int64)) for name in names]
        wanted = sp.einsum(subscripts, *given, semiring=semiring).compute().to_arrow()
        found, known = cells(con.sql(query).fetchall()), cells(list(zip(*wanted.to_pydict().values(), strict=True)))
        assert found == known or (semiring == "any_pair" and found.keys() == known.keys())  # "any" is whichever
    found = cells(con.sql(sp.einsum_sql("ij,jk->ik", A="a", B="b", semiring=semiring)).fetchall())
    whole = (sp.asarray(each.astype(np.int64)) for each in (A, B))  # loops that other tests have compiled
    product = sp.matmul(*whole, semiring=semiring).compute().to_arrow()
    assert found == cells(list(zip(*product.to_pydict().values(), strict=True)))


def test_keywords_name_relations() -> None:
    left, right = sp.asarray(A), sp.asarray(B)
    query = sp.einsum_sql("ij,jk->ik", left=left, right=right)
    assert cells(sp.sql(query).fetchall()) == entries(A @ B)
    with pytest.raises(InvalidValueError, match="left of 2 dimensions does not match its letters 'ijk'"):
        sp.einsum_sql("ijk->i", left=left)


def test_macros_of_products(con: Any) -> None:
    assert cells(con.execute("from spgemm('a', 'b')").fetchall()) == entries(A @ B)
    least = sp.matmul(sp.asarray(A), sp.asarray(B), semiring="min_plus").compute().to_arrow()
    assert cells(con.execute("from min_plus('a', 'b')").fetchall()) == cells(
        list(zip(*least.to_pydict().values(), strict=True))
    )
    edges = scipy.sparse.triu((D != 0) + (D != 0).T, 1).astype(int)
    wanted = int((edges @ edges).multiply(edges).sum())
    for shown in (edges.tocoo(), (edges + edges.T).tocoo()):
        con.register("g", pa.table({"i": shown.row, "j": shown.col, "value": shown.data}))
        assert con.execute("from triangles('g')").fetchall() == [(wanted,)]
        con.unregister("g")
    assert wanted > 0


def test_errors() -> None:
    for subscripts, told in [
        ("ij,jk", "must be letters"), ("i...->i", "must be letters"), ("ij->ij", "is for 1 operands, got 2"),
        ("ij,jI->i", "differ only in case"), ("ij,jk->il", "'l' of the result"), ("ij,jk->ii", "'i' of the result"),
    ]:  # fmt: skip
        with pytest.raises(InvalidValueError, match=told):
            sp.einsum_sql(subscripts, A="a", B="b")
    with pytest.raises(UnsupportedError, match="has Python functions"):
        sp.einsum_sql("ij,jk->ik", A="a", B="b", semiring=sp.Semiring(max, "min", 0))


def make_labelled(*names: str) -> sp.Tensor:
    return sp.from_coords([range(len(names))], [1.0] * len(names), dims=("a",), labels={"a": names})


_SQUARE, _TALL, _ONES = sp.zeros((3, 3)), sp.zeros((4, 2)), sp.asarray([[5.0, 2.0]]).refill(1)
_NAMED, _BARE = make_labelled("a", "b"), sp.zeros(2)


@pytest.mark.parametrize(
    ("subscripts", "given", "error", "told"),
    [
        ("ij,jk->ik", {"A": _SQUARE, "B": _TALL}, ShapeError,
         r"'j' is 3 along axis 1 of A, of shape \(3, 3\) and 4 along axis 0 of B, of shape \(4, 2\)"),
        ("ij,kj,jl->il", {"A": _SQUARE, "B": "b", "C": _TALL}, ShapeError, "'j' is 3 along axis 1 of A.* 4 .* of C"),
        ("ii->i", {"A": _TALL}, ShapeError, "'i' is 4 along axis 0 of A.* and 2 along axis 1 of A"),
        ("ij->i", {"A": _TALL, "mask": sp.zeros(3)}, ShapeError, "'i' is 4 along axis 0 of A.* and 3 along .* of mask"),
        ("ij->i", {"A": "a", "mask": _TALL}, ShapeError, r"the mask of shape \(4, 2\) .* result 'i'"),
        ("ij->i", {"A": _ONES}, UnsupportedError, r"the fill value of A must be 0, got 1\.0: use A\.refill\(0\), or"),
        (
            "ij,jk->ik", {"A": "a", "B": _TALL.refill(0) * np.nan}, UnsupportedError,
            "the fill value of B must be 0, got nan",
        ),
        ("ij->i", {"A": 3}, UnsupportedError, "A= must be a tensor or the name of a relation, got int"),
        (
            "ij->i", {"A": "a", "mask": np.ones(2, bool)}, UnsupportedError,
            "mask= must be a tensor or the name of a relation, got ndarray",
        ),
        ("ij->i", {"A": "a", "complement": True}, InvalidValueError, "complement=True requires mask="),
        (
            "ij->i", {"A": "a", "mask": "m", "complement": 2}, InvalidValueError,
            "complement must be True or False, got 2",
        ),
        ("i,i->i", {"A": _NAMED, "B": _BARE}, LabelError, "'i' has labels along axis 0 of A.* none along axis 0 of B"),
        ("i->i", {"A": _BARE, "mask": _NAMED}, LabelError, "'i' has labels along axis 0 of mask.* none along .* of A"),
    ],
)  # fmt: skip
def test_shape_errors_of_einsum(subscripts: str, given: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=f"einsum_sql: {told}|^{told}"):
        sp.einsum_sql(subscripts, **given)


def test_valid_shapes() -> None:
    A, B = make_labelled("a", "b", "c"), make_labelled("c", "b")  # by label, whatever the sizes
    assert sp.sql(sp.einsum_sql("i,i->", A=A, B=B), A=A, B=B).fetchall() == [(2.0,)]
    query = sp.einsum_sql("ij->i", A=_ONES, semiring="min_plus")  # an absent cell is no entry
    assert sp.sql(query, A=_ONES).fetchall() == [(0, 2.0)]
    assert "SEMI JOIN" in sp.einsum_sql("ij,jk->ik", A=_SQUARE, B="b", mask=sp.zeros((3, 7)))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "float32"])
@pytest.mark.parametrize("semiring", ["plus_times", "min_plus", "max_times"])
def test_narrow_integers_do_not_overflow(dtype: str, semiring: str) -> None:
    cells = np.array([[100, 100], [0, 100]]).astype(dtype)
    A, wide = sp.asarray(cells), sp.asarray(cells.astype(np.int64))
    query = sp.einsum_sql("ij,jk->ik", A=A, B=A, semiring=semiring)
    found = {(i, j): value for i, j, value in sp.sql(query, A=A, B=A).fetchall()}
    wanted = sp.einsum("ij,jk->ik", wide, wide, semiring=semiring)
    assert found == {(i, j): wanted[i, j] for i, j in ((0, 0), (0, 1), (1, 1))}


def test_complex_raises() -> None:
    A = sp.asarray([[0, 1j], [2, 0]])
    with pytest.raises(UnsupportedError, match=r"SQL does not support complex128, the dtype of A: use sp\.einsum"):
        sp.einsum_sql("ij,jk->ik", A=A, B=A)


@pytest.mark.parametrize("complement", [False, True])
def test_complement_masks(complement: bool) -> None:
    A = sp.asarray(np.array([[0, 2, 0], [1, 0, 3], [0, 0, 4]]))
    B = sp.asarray(np.array([[1, 0, 0], [0, 5, 0], [7, 0, 1]]))
    for mask in (M := sp.asarray(np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1]], bool)), ~M, (~M).compute(), M == 0):
        query = sp.einsum_sql("ij,jk->ik", A=A, B=B, mask=mask, complement=complement)
        wanted = sp.einsum("ij,jk->ik", A, B, mask=mask, complement=complement)
        assert cells(sp.sql(query, A=A, B=B, mask=mask).fetchall()) == entries(wanted.to_numpy())


@pytest.mark.parametrize("semiring", ["min_max", "max_times", "min_plus"])
def test_bool_times_numbers(semiring: str) -> None:
    A, B = sp.asarray(np.array([[True, False], [True, True]])), sp.asarray(np.array([[2.5, 0], [0.5, 1]]))
    query = sp.einsum_sql("ij,jk->ik", A=A, B=B, semiring=semiring)
    found = sp.einsum("ij,jk->ik", A, B, semiring=semiring).compute().to_format("coo")
    wanted = cells(list(zip(*(column.tolist() for column in found.coords), found.data.tolist(), strict=True)))
    assert cells(sp.sql(query, A=A, B=B).fetchall()) == wanted


@pytest.mark.parametrize("names", [{"A": "p", "a": "q"}, {"A": "p", "Mask": "q", "mask": "m"}])
def test_case_insensitive_names(names: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match="differ only in case"):
        sp.einsum_sql("ij,jk->ik", **names)
