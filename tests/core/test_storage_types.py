"""Storage types: inference tables and fallback warnings."""

from __future__ import annotations

import json
import logging
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow import engines
from sparrow.core import storage_types
from sparrow.core.schema import DTYPES
from sparrow.core.storage_types import COMPRESSED, STORAGE_TYPES
from sparrow.errors import (
    InvalidValueError,
    ReadOnlyError,
    ShapeError,
    StorageError,
    StorageFallbackWarning,
    TooLargeError,
)
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.testing import tune

CASES = json.loads((Path(__file__).parent.parent / "conformance" / "storage_types.json").read_text())
NAMES = {"rsp": "row_sparse", "csr1": "csr"}
VALUES = np.array([[0.5, 0.0, 0.0, 0.25], [0.0, 0.0, 0.0, 0.0], [0.0, -0.5, 0.75, 0.0]])
OTHER = np.array([[0.25, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.75, 0.0]])


@pytest.fixture(autouse=True)
def reset_warnings() -> None:
    storage_types.reset_warnings()


def cases(section: str) -> Any:
    found = [(case["id"], case) for case in CASES[section]]
    return pytest.mark.parametrize("case", [case for _, case in found], ids=[name for name, _ in found])


def operand(name: Any, values: Any = VALUES) -> Any:
    """Return the operand with a name of storage_types.json."""
    if not isinstance(name, str):
        return name
    arrays = {"array": values, "row": values[2:], "line": values[2]}
    if name in arrays:
        return arrays[name]
    return sp.asarray(values[:1] if name == "csr1" else values).asformat(NAMES.get(name, name))


def dense(value: Any) -> Any:
    return value.to_numpy() if isinstance(value, sp.Tensor) else value


def check(call: Callable[[], Any], case: dict[str, Any], of: list[Any]) -> Any:
    """Check storage type and warnings of a call; return its result."""
    storage_types.reset_warnings()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    expected = case["result"]
    if expected == "kept":
        types = [NAMES.get(name, name) for name in of if isinstance(name, str)]
        expected = next((stype for stype in types if stype in COMPRESSED), types[0])
    if expected == "array":
        assert isinstance(found, np.ndarray | np.generic)
    else:
        assert found.stype == expected
        assert found.compute().stype == expected
    assert [w.category for w in caught] == [StorageFallbackWarning] * case.get("fallback", False)
    assert all(w.filename == __file__ for w in caught)
    return found


# -- inference tables ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES["dot"], ids=lambda case: f"{case['left']}, {case['right']}")
def test_infer_dot(case: dict[str, Any]) -> None:
    for flags in case["flags"]:
        found = storage_types.infer_dot(case["left"], case["right"], "a" in flags, "b" in flags, case.get("asked"))
        assert found == storage_types.Inference(case["result"], case.get("fallback", False))


@cases("functions")
def test_infer_function(case: dict[str, Any]) -> None:
    for name in case["functions"]:
        ufunc = getattr(np, name)
        for names in case["operands"]:
            operands = [operand(one, values) for one, values in zip(names, (VALUES, OTHER), strict=False)]
            found = check(lambda u=ufunc, o=operands: u(*o), case, names)  # type: ignore[misc]
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(dense(found), ufunc(*map(dense, operands)))


@cases("methods")
@pytest.mark.parametrize("name", ["csr", "csc", "rsp"])
def test_functions_with_arguments(case: dict[str, Any], name: str) -> None:
    A = operand(name)
    if case["call"] == "maximum":
        check(lambda: np.maximum(A, 0), case, [name])
        return
    args = case.get("args", [])
    found = check(lambda: getattr(A, case["call"])(*args), case, [name])
    np.testing.assert_array_equal(found.to_numpy(), getattr(VALUES, case["call"])(*args))


@cases("reductions")
def test_reductions(case: dict[str, Any]) -> None:
    for of in case["of"]:
        for name in case["names"]:
            A = operand(of)
            found = check(lambda a=A, n=name: getattr(a, n)(**case["kwargs"]), case, [of])  # type: ignore[misc]
            expected = getattr(sp.asarray(VALUES), name)(**case["kwargs"])
            np.testing.assert_array_equal(dense(found), dense(expected))


def parse_item(part: Any) -> Any:
    if not isinstance(part, str):
        return part
    return None if part == "new" else slice(*(int(x) if x else None for x in part.split(":")))


@cases("views")
def test_views(case: dict[str, Any]) -> None:
    key = tuple(map(parse_item, case["key"]))
    for of in case["of"]:
        A = operand(of)
        found = check(lambda a=A: a[key], case, [of])  # type: ignore[misc]
        np.testing.assert_array_equal(found.to_numpy(), VALUES[key])


REARRANGEMENTS: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda a: a.T,
    "slice of transpose": lambda a: a.T[1:, :2],
    "concat 0": lambda a: sp.concat([a, a]),
    "concat 1": lambda a: sp.concat([a, a], axis=1),
    "reshape": lambda a: sp.reshape(a, (2, 6)),
    "sort": sp.sort,
    "broadcast": lambda a: sp.broadcast_to(a, (2, 3, 4)),
    "tril": sp.tril,
    "diagonal": sp.diagonal,
    "zeros_like": sp.zeros_like,
    "ones_like": sp.ones_like,
}


@cases("rearranged")
def test_rearrangements(case: dict[str, Any]) -> None:
    rearrange = REARRANGEMENTS[case["how"]]
    A = operand(case["of"])
    found = check(lambda: rearrange(A), case, [case["of"]])
    np.testing.assert_array_equal(found.to_numpy(), rearrange(sp.asarray(VALUES)).to_numpy())


def test_mxnet_examples() -> None:
    a: Any = sp.asarray(np.array([[7, 0, 8], [0, 0, 0], [0, 9, 0]])).asformat("csr")
    assert (a * 2).stype == "csr"
    assert (a * 2).to_numpy().tolist() == [[14, 0, 16], [0, 0, 0], [0, 18, 0]]
    summed = a + np.ones((3, 3), int)
    assert isinstance(summed, np.ndarray)
    assert summed.tolist() == [[8, 1, 9], [1, 1, 1], [1, 10, 1]]
    assert (a + sp.asarray(np.ones((3, 3), int)).asformat("dense")).stype == "dense"
    rsp = sp.asarray(sp.formats.RowSparse([[1, 2], [3, 4]], [1, 4], (6, 2)))
    assert (rsp + rsp).stype == "row_sparse"
    assert np.negative(a).stype == "csr"
    with pytest.warns(StorageFallbackWarning, match="add of csr, row_sparse"):
        mixed = a + a.asformat("row_sparse")
    assert (mixed.stype, mixed.to_numpy().tolist()) == ("dense", (2 * a).to_numpy().tolist())
    product = a.T @ np.ones((3, 2), int)
    assert sp.formats.RowSparse.from_array(product[:2]).indices.tolist() == [0, 1]


# -- warnings and logging ------------------------------------------------------------------------


FALLBACKS: list[Callable[[Any], Any]] = [
    np.exp,
    np.log,
    lambda a: a[::2],
    lambda a: a.sum(axis=0, keepdims=True),
]


@pytest.mark.parametrize("call", FALLBACKS, ids=["exp", "log", "step", "keepdims"])
def test_fallback_warns_once_per_operation_and_types(call: Callable[[Any], Any]) -> None:
    A, R = operand("csr"), operand("rsp")
    with pytest.warns(StorageFallbackWarning) as caught:
        call(A), call(A), call(operand("csr") * 3), call(R), call(R)
    assert [str(w.message).split(" has")[0].split(" of ")[1] for w in caught] == ["csr", "row_sparse"]
    assert all(w.filename == __file__ for w in caught)


def test_fallback_warning_filters() -> None:
    A = operand("csr")
    with warnings.catch_warnings():
        warnings.simplefilter("error", StorageFallbackWarning)
        for _ in range(2):  # a warning raised as an error does not count as reported
            with pytest.raises(StorageFallbackWarning):
                np.exp(A)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", StorageFallbackWarning)
        assert np.exp(A).stype == "dense"
    assert caught == []


def test_inferences_are_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    A = operand("csr")
    A * 2
    assert caplog.messages == []
    with caplog.at_level(logging.DEBUG, "sparrow.stypes"):
        (A * 2).sum(axis=0), A + VALUES, A * VALUES, A[1], A.T, sp.concat([A, A])
        with pytest.warns(StorageFallbackWarning):
            A + operand("rsp")
    assert caplog.messages == [
        "multiply(csr, scalar) -> csr",
        "sum(csr) -> dense",
        "multiply(csr, dense) -> csr",
        "indexing(csr) -> coo",
        "transpose(csr) -> csc",
        "concat(csr, csr) -> csr",
        "add(csr, row_sparse) -> dense by fallback",
    ]


# -- operations that keep the type ---------------------------------------------------------------


@pytest.mark.parametrize("stype", STORAGE_TYPES)
@pytest.mark.parametrize("where", ["memory", "stored"])
def test_asformat_is_lazy_and_keeps_values(stype: str, where: str, tmp_path: Path) -> None:
    A = sp.asarray(VALUES, dims=("src", "dst"))
    if where == "stored":
        A = A.save(tmp_path / "A.sparrow", orders=[(1, 0)])
    B = A.asformat(stype)
    assert (B.stype, B.nnz, B.dims, B.shape) == (stype, 4, A.dims, A.shape)
    assert A.stype == "coo"
    assert B.asformat(stype) is B
    assert repr(stype)[1:-1] in repr(B)
    np.testing.assert_array_equal(B.to_numpy(), VALUES)
    np.testing.assert_array_equal(B @ np.arange(4.0), VALUES @ np.arange(4.0))
    for kept in (
        B.compute(),
        pickle.loads(pickle.dumps(B)),
        B[1:],
        B.astype("float32"),
        B.asformat("coo").asformat(stype),
    ):
        assert kept.stype == stype
    assert B.save(tmp_path / "B.sparrow").stype == sp.open(tmp_path / "B.sparrow").stype == stype
    if stype != "coo":
        with pytest.raises(ReadOnlyError):
            B[0, 0] = 1.0
        A[1, 1] = 9.0
        assert B[1, 1] == 0


def test_asformat_is_lazy(tmp_path: Path) -> None:
    A: Any = sp.asarray(VALUES).save(tmp_path / "A.sparrow")
    for file in A.files():
        (tmp_path / "A.sparrow" / Path(file.path).name).unlink()
    found = [A.asformat(stype) for stype in STORAGE_TYPES] + [(A + 1).asformat("csr"), A.asformat("csr") * 2]
    for B in found:
        assert B.shape == (3, 4)
        with pytest.raises(StorageError):
            B.compute()


def test_view_of_pickled_view_keeps_type() -> None:
    turned = operand("csr").T
    again = pickle.loads(pickle.dumps(turned))
    assert (again.stype, again.T.stype) == ("csc", "csr")


@pytest.mark.parametrize("stype", STORAGE_TYPES)
def test_assignment_keeps_type(stype: str) -> None:
    A: Any = sp.zeros((3, 4), "float64", stype=stype)
    assert (A.stype, A.nnz) == (stype, 0)
    ones: Any = sp.asarray(np.ones((3, 4)))
    for value in (
        np.ones((3, 4)),
        ones,
        ones.asformat("csr"),
        ones.asformat("row_sparse"),
        1.0,
        sp.formats.CSC.from_array(ones),
    ):
        A[...] = value
        assert (A.stype, A.nnz) == (stype, 12)
        A[...] = 0
        np.copyto(A, value)
        assert (A.stype, A.nnz) == (stype, 12)
        A[...] = 0
    A[1, 2] = 5
    view = A[1:]
    view[0, 0] = 7
    assert A.to_numpy()[1].tolist() == [7, 0, 5, 0]
    assert (A.stype, A.nnz) == (stype, 2)
    target = np.zeros((3, 4))
    np.copyto(target, A)
    assert target[1, 2] == 5
    with pytest.raises(TypeError, match="does not support casting= and where="):
        np.copyto(A, ones, where=VALUES > 0)


@pytest.mark.parametrize("stype", ["csr", "csc", "row_sparse"])
def test_in_place_operations_keep_the_type(stype: str) -> None:
    A: Any = sp.zeros((3, 4), stype=stype)
    A[...] = VALUES
    before = A
    A *= 2
    A += operand("csr" if stype == "csr" else stype)
    A -= 0
    np.testing.assert_array_equal(A.to_numpy(), 3 * VALUES)
    A += 1
    assert A is before
    assert (A.stype, A.nnz) == (stype, 12)
    np.testing.assert_array_equal(A.to_numpy(), 3 * VALUES + 1)
    np.testing.assert_array_equal((-A).to_numpy(), -(3 * VALUES + 1))


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_out_keeps_type(stype: str) -> None:
    a: Any = sp.asarray(VALUES).asformat(stype)
    e: Any = sp.zeros(VALUES.shape, stype=stype)
    with pytest.warns(StorageFallbackWarning, match=f"log of {stype}"):
        np.log(a, out=e)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(e.to_numpy(), np.log(VALUES))
    assert (e.stype, e.nnz, a.stype) == (stype, 12, stype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_asformat_stores_nonzero_fill(dtype: np.dtype[Any]) -> None:
    values = np.array([[1, 0, 1], [1, 1, 1]], dtype)
    A = sp.from_coords([[0], [1]], values[0, 1:2], shape=(2, 3), fill_value=dtype.type(1))
    for stype in COMPRESSED:
        B = A.asformat(stype)
        assert (B.fill_value, B.stype, B.nnz, B.dtype) == (0, stype, 5, dtype)
        np.testing.assert_array_equal(B.to_numpy(), values)
        np.testing.assert_array_equal(B[:, 1:].to_numpy(), values[:, 1:])
    assert A.asformat("dense").fill_value == 1
    assert A.asformat("dense").nnz == 1


@tune("stream", dense_partition_elements=8)
def test_asformat_stores_fill_in_partitions() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 3, (11, 4))
    A = sp.asarray(values) + 2
    found = A.asformat("csr")
    np.testing.assert_array_equal(found[2:9].to_numpy(), values[2:9] + 2)
    assert found.nnz == 44
    empty = (sp.zeros((0, 4)) + 1).asformat("csr")
    assert (empty.nnz, empty.shape) == (0, (0, 4))


def test_row_sparse_of_three_dimensions() -> None:
    rows = np.array([[[1, 0], [0, 2], [3, 4]], [[5, 0], [6, 0], [0, 0]]])
    R: Any = sp.asarray(sp.formats.RowSparse(rows, [0, 2], (4, 3, 2)))
    for same in (R * 2, R + R, R[1:], R[:, 1:], R.astype(float)):
        assert same.stype == "row_sparse"
    assert (R[:, 0].stype, R[1].stype, (R + 1).stype) == ("coo", "coo", "dense")
    found = (R * 2).to_format("row_sparse")
    assert found.indices.tolist() == [0, 2]
    np.testing.assert_array_equal(found.data, 2 * rows)


def test_asformat_keeps_labels() -> None:
    names = pa.array(["a", "b", "c"])
    scan = sp.asarray(VALUES).__sparrow_scan__()
    relation = MemoryRelation(replace(scan.schema, fill_value=1.0), engines.evaluate(scan), {0: names})
    A = sp.Tensor(MemoryHandle(relation))
    for B in (A.asformat("csr"), A.asformat("dense"), A[1:].asformat("csr")):
        found = B.labels(0)
        assert found is not None
        assert found.to_pylist() == names.to_pylist()[-B.shape[0] :]
    assert A.asformat("csr").sel(d0="c").to_numpy().tolist() == [1, -0.5, 0.75, 1]


def test_asformat_too_large_raises_early() -> None:
    wide: Any = sp.zeros((10**6, 10**6)) + 1
    with pytest.raises(TooLargeError, match=r"shape \(1000000, 1000000\) and fill 1.0, .* memory limit"):
        wide.asformat("csr")
    assert wide.asformat("dense").nnz == 0
    huge: Any = sp.zeros((10**6, 10**6), stype="csr")
    with pytest.warns(StorageFallbackWarning):
        assert np.exp(huge).fill_value == 1


def test_invalid_types_raise() -> None:
    A = sp.asarray(VALUES)
    names = "'coo', 'csr', 'csc', 'row_sparse', 'dense'"
    with pytest.raises(InvalidValueError, match=names):
        A.asformat("bsr")
    with pytest.raises(InvalidValueError, match=names):
        sp.zeros((2, 2), stype="default")
    with pytest.raises(ShapeError, match="csr requires 2 dimensions, got 1"):
        A[0].asformat("csr")
    with pytest.raises(ShapeError, match="csc requires 2 dimensions, got 3"):
        sp.zeros((2, 2, 2), stype="csc")
    with pytest.raises(ShapeError, match="at least 2 dimensions"):
        A[0].asformat("row_sparse")
    assert sp.zeros((2, 2, 2), stype="row_sparse").stype == "row_sparse"


STEPS: list[Callable[[Any], Any]] = [
    lambda a: a * 2,
    lambda a: a + 1,
    lambda a: a * a,
    lambda a: a - a,
    lambda a: a / 2,
    lambda a: a.T,
    lambda a: a[1:],
    lambda a: a[::2],
    lambda a: a[[-1, 0]],
    lambda a: a[0] if a.ndim > 1 else a,
    lambda a: a[None] if a.ndim < 3 else a,
    lambda a: a.sum(axis=0) if a.ndim > 1 else a,
    lambda a: a.sum(axis=-1, keepdims=True),
    lambda a: a > 0.25,
    np.cos,
    np.sin,
    lambda a: np.minimum(a, 1),
]


@given(st.sampled_from(STORAGE_TYPES), st.lists(st.sampled_from(range(len(STEPS))), max_size=6))
def test_random_operations_yield_valid_types(stype: str, steps: list[int]) -> None:
    values, A = np.tile(VALUES, (3, 1)), sp.asarray(np.tile(VALUES, (3, 1))).asformat(stype)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", StorageFallbackWarning)
        for step in steps:
            if values.dtype == bool:
                values, A = values.astype(float), A.astype(float)
            if values.shape[0] < 2 and step in (6, 7, 8):
                continue
            values, A = STEPS[step](values), STEPS[step](A)
    storage_types.check_stype(A.stype, A.ndim)
    assert A.stype not in COMPRESSED or A.fill_value == 0
    assert stype != "coo" or A.stype == "coo"
    np.testing.assert_allclose(A.to_numpy(), values)
    back = A.to_format(A.stype)
    np.testing.assert_allclose(np.asarray(back), values)
