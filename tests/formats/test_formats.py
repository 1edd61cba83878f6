"""Containers of arrays: cases of conformance/formats.json, SciPy as oracle."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow import errors, formats
from sparrow.core.schema import DTYPES
from sparrow.errors import DuplicateError, IndexingError, InvalidValueError, ShapeError, TooLargeError, UnsupportedError

CASES = json.loads((Path(__file__).parent.parent / "conformance" / "formats.json").read_text())
KINDS: dict[str, Any] = {
    "coo": formats.COO,
    "csr": formats.CSR,
    "csc": formats.CSC,
    "row_sparse": formats.RowSparse,
}


def cases(section: str) -> Any:
    return pytest.mark.parametrize("case", CASES[section], ids=lambda case: case["id"])


def call_case(case: dict[str, Any]) -> Any:
    """Make the call of a case; methods of instances on a 1 x 1 matrix."""
    name, _, method = case["call"].partition(".")
    kind = getattr(formats, name)
    if method == "asformat":
        return kind.from_array([[1]]).asformat(**case["args"])
    return (getattr(kind, method) if method else kind)(**case["args"])


def arrays_of(container: Any) -> dict[str, Any]:
    found = {
        name: getattr(container, name) for name in ("data", "coords", "indices", "indptr") if hasattr(container, name)
    }
    return {name: [a.tolist() for a in x] if isinstance(x, tuple) else x.tolist() for name, x in found.items()}


def of_layout(case: dict[str, Any], format: str) -> Any:
    """Return the container of a case's arrays."""
    width = np.shape(case["dense"])[1:] if format == "row_sparse" else ()
    given = {name: np.array(array, dtype="int64") for name, array in case[format].items()}
    given["data"] = given["data"].reshape(-1, *width)
    return KINDS[format](**given, shape=np.shape(case["dense"]))


# -- worked cases --------------------------------------------------------------------------------


@cases("layouts")
def test_arrays_of_each_format(case: dict[str, Any]) -> None:
    dense = np.array(case["dense"])
    for name in KINDS.keys() & case.keys():
        for found in (
            KINDS[name].from_array(dense),
            KINDS[name].from_array(case["dense"]),
            sp.asarray(dense).to_format(name),
            of_layout(case, name),
        ):
            assert arrays_of(found) == case[name]
            assert (found.dtype, found.shape, found.stype) == (dense.dtype, dense.shape, name)
            found.check_format()
            np.testing.assert_array_equal(found.to_numpy(), dense, strict=True)


@cases("layouts")
def test_asformat_all_pairs(case: dict[str, Any]) -> None:
    dense = np.array(case["dense"])
    given = KINDS.keys() & case.keys()
    for source in given:
        for target in given:
            converted = of_layout(case, source).asformat(target)
            assert isinstance(converted, KINDS[target])
            assert arrays_of(converted) == case[target]
        array = of_layout(case, source).asformat("dense")
        np.testing.assert_array_equal(array, dense, strict=True)


@cases("layouts")
def test_tensor_container_round_trip(case: dict[str, Any]) -> None:
    for name in KINDS.keys() & case.keys():
        A = sp.asarray(of_layout(case, name))
        assert A.stype == name
        assert A.nnz == np.count_nonzero(case["dense"])
        np.testing.assert_array_equal(A.to_numpy(), case["dense"])
        assert arrays_of(A.to_format(name)) == case[name]
        assert A.asformat("coo").stype == "coo"


@cases("begin_end")
def test_four_arrays(case: dict[str, Any]) -> None:
    kind = getattr(formats, case["format"])
    found = kind.from_begin_end(case["data"], case["indices"], case["begin"], case["end"], case["shape"])
    assert found.to_numpy().tolist() == case["dense"]
    found.check_format()
    if case["tight"]:
        assert found.indptr[:-1].tolist() == case["begin"]
        assert found.indptr[1:].tolist() == case["end"]
        assert (found.data.tolist(), found.indices.tolist()) == (case["data"], case["indices"])


@cases("made")
def test_result_of_libffm(case: dict[str, Any]) -> None:
    found = call_case(case)
    assert found.to_numpy().tolist() == case["dense"]
    assert arrays_of(found).items() >= case.get("arrays", {}).items()
    assert found.nnz == case.get("nnz", found.nnz)
    assert found.dtype == case.get("dtype", found.dtype)


@cases("rejected")
def test_rejections(case: dict[str, Any]) -> None:
    with pytest.raises(getattr(errors, case["error"])) as caught:
        call_case(case)
    assert case["says"] in str(caught.value)


@cases("retain")
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_retained_rows(case: dict[str, Any], dtype: str) -> None:
    R = formats.RowSparse(case["data"], case["indices"], case["shape"])
    kept = R.retain(np.array(case["rows"], dtype=dtype))
    assert arrays_of(kept) == {"data": case["kept"], "indices": case["rows"]}
    assert kept.to_numpy().tolist() == case["dense"]
    assert R.indices.tolist() == case["indices"]


@cases("slices")
def test_slices_of_a_tensor_as_arrays(case: dict[str, Any]) -> None:
    key = tuple(slice(None) if part == ":" else part for part in case["key"])
    assert arrays_of(sp.asarray(case["dense"])[key].to_format(case["format"])) == case["arrays"]


# -- SciPy as oracle -----------------------------------------------------------------------------


@given(st.integers(0, 2**16), st.integers(0, 6), st.integers(0, 6), st.sampled_from(DTYPES))
def test_agrees_with_scipy(seed: int, rows: int, cols: int, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(seed)
    dense = (rng.integers(1, 5, (rows, cols)) * (rng.random((rows, cols)) < 0.4)).astype(dtype)
    found = {name: kind.from_array(dense) for name, kind in KINDS.items()}
    for name, container in found.items():
        container.check_format()
        assert container.nnz == np.count_nonzero(dense)
        np.testing.assert_array_equal(container.to_numpy(), dense, strict=True)
        assert all(container == other for other in found.values())
        if dtype == np.float16:
            with pytest.raises(UnsupportedError, match="float16"):
                container.to_scipy()
            continue
        expected = getattr(scipy.sparse, f"{'csr' if name == 'row_sparse' else name}_array")(dense)
        exported = container.to_scipy()
        assert (exported.format, exported.dtype, exported.shape) == (expected.format, dtype, dense.shape)
        np.testing.assert_array_equal(exported.toarray(), dense)
        again = KINDS[name].from_array(exported)
        assert arrays_of(again) == arrays_of(container)
        if name in ("csr", "csc"):
            np.testing.assert_array_equal(container.indices, expected.indices)
            np.testing.assert_array_equal(container.indptr, expected.indptr)
            np.testing.assert_array_equal(container.data, expected.data, strict=True)


@given(st.integers(0, 2**16), st.integers(1, 5), st.integers(0, 30))
def test_npz_duplicates_are_summed(seed: int, n: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    at, values = rng.integers(0, n, (2, count)), rng.integers(-2, 3, count)
    expected = scipy.sparse.coo_array((values, (at[0], at[1])), shape=(n, n)).tocsr()
    expected.eliminate_zeros()
    found = formats.CSR.from_coords(at, values, shape=(n, n))
    assert arrays_of(found) == {
        "data": expected.data.tolist(),
        "indices": expected.indices.tolist(),
        "indptr": expected.indptr.tolist(),
    }


def test_scipy_input_is_canonicalized() -> None:
    odd = scipy.sparse.csr_array(
        (np.array([1, 2, 3, 4, 5, 6, 1]), np.array([0, 2, 2, 0, 1, 2, 1]), np.array([0, 2, 3, 7])), shape=(3, 3)
    )
    found = formats.CSR.from_array(odd)
    assert arrays_of(found) == CASES["layouts"][6]["csr"]
    with pytest.raises(InvalidValueError, match="indices of row 2 must ascend, 1 follows 2"):
        formats.CSR(odd.data, odd.indices, odd.indptr, odd.shape)
    assert odd.nnz == 7


@given(st.integers(0, 2**16), st.lists(st.integers(0, 4), min_size=2, max_size=4).map(tuple))
def test_row_sparse_of_any_rank(seed: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(-1, 3, shape) * (rng.random((shape[0],) + (1,) * (len(shape) - 1)) < 0.6)
    R = formats.RowSparse.from_array(dense)
    np.testing.assert_array_equal(
        R.indices, np.flatnonzero(dense.reshape(shape[0], -1).any(axis=1)) if dense.size else []
    )
    np.testing.assert_array_equal(R.data, dense[R.indices])
    rows = np.flatnonzero(rng.random(shape[0]) < 0.5)
    expected = np.zeros_like(dense)
    expected[rows] = dense[rows]
    np.testing.assert_array_equal(R.retain(rows).to_numpy(), expected)
    np.testing.assert_array_equal(R.retain(rows).indices, rows)


@given(st.integers(0, 2**16), st.integers(1, 6))
def test_full_checks_find_every_change_of_an_index(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    made = scipy.sparse.csr_array(rng.random((n, n)) < 0.5)
    data, indices, indptr = made.data, made.indices, made.indptr
    A = formats.CSR(data, indices, indptr, (n, n))
    if not len(indices):
        return
    at = int(rng.integers(len(indices)))
    row = int(np.searchsorted(indptr, at, "right")) - 1
    before = indices[at]
    indices[at] = rng.integers(-1, n + 1)
    line = indices[indptr[row] : indptr[row + 1]]
    sound = 0 <= indices[at] < n and bool((np.diff(line) > 0).all())
    A.check_format(full=False)
    if sound:
        A.check_format()
    else:
        with pytest.raises((IndexingError, InvalidValueError, DuplicateError), match=f"row {row} "):
            A.check_format()
    indices[at] = before
    A.check_format()


# -- properties of containers -------------------------------------------------------------------------


def test_lists_and_arrays_make_identical_containers() -> None:
    lists = formats.CSR([7, 8, 9], [0, 2, 1], [0, 2, 2, 3], (3, 3))
    arrays = formats.CSR(np.array([7, 8, 9]), np.array([0, 2, 1]), np.array([0, 2, 2, 3]), (3, 3))
    assert arrays_of(lists) == arrays_of(arrays)
    assert lists.dtype == arrays.dtype
    assert lists.indices.dtype == lists.indptr.dtype == np.int64
    kept = formats.CSR([7], np.array([0], "int32"), np.array([0, 1], "uint8"), (1, 1))
    assert kept.indices.dtype == np.int32
    assert kept.indptr.dtype == np.int64


@pytest.mark.parametrize("format", KINDS)
def test_frozen(format: str) -> None:
    container = KINDS[format].from_array([[1, 0], [0, 2]])
    seen = 0
    for name in ("data", "coords", "indices", "indptr"):
        found = getattr(container, name, ())
        for array in found if isinstance(found, tuple) else (found,):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
            seen += 1
    assert seen >= 2
    for name in ("data", "shape", "dtype", "anything"):
        with pytest.raises(AttributeError):
            setattr(container, name, 1)
    with pytest.raises(TypeError):
        hash(container)
    with pytest.raises(TypeError):
        np.exp(container)


def test_arrays_are_shared_until_copied() -> None:
    data = np.array([7, 8, 9])
    A = formats.CSR(data, [0, 2, 1], [0, 2, 2, 3], (3, 3))
    own, tensor = A.copy(), sp.asarray(A)
    data[0] = 70
    assert A.data[0] == 70
    assert own is not A
    assert own.data[0] == tensor[0, 0] == 7
    scipys = own.to_scipy()
    scipys.data[0] = 1
    assert own.data[0] == 7


@pytest.mark.parametrize("format", KINDS)
def test_one_line_pickles_and_copies(format: str) -> None:
    container = KINDS[format].from_array([[1, 0], [0, 2]])
    name = type(container).__name__
    assert repr(container) == f"<{name} (2, 2) int64 nnz=2{' rows=2' if format == 'row_sparse' else ''}>"
    for other in (pickle.loads(pickle.dumps(container)), container.copy()):
        assert type(other) is type(container)
        assert other is not container
        assert other == container
        assert arrays_of(other) == arrays_of(container)
    assert container.ndim == 2


def test_nbytes() -> None:
    A = formats.CSR(np.ones(4, "float32"), np.array([0, 1, 0, 1]), np.array([0, 2, 4]), (2, 2))
    assert A.nbytes == 4 * 4 + 8 * 4 + 8 * 3
    half = np.arange(10_000) % 2 == 0
    assert formats.CSR.from_array(half.reshape(100, 100).astype("float32")).nbytes > 10_000 * 4


def test_equality_is_of_cells_whatever_the_format() -> None:
    dense = np.array([[0, 2], [3, 0]])
    csr = formats.CSR.from_array(dense)
    assert csr == formats.COO.from_array(dense)
    assert csr == formats.RowSparse.from_array(dense).astype("float64")
    assert csr == dense
    assert dense == csr
    assert csr == [[0, 2], [3, 0]]
    assert csr != formats.CSR.from_array(dense.T)
    assert csr != formats.CSR.from_array(dense[:, :1])
    assert csr != "csr"
    assert formats.RowSparse([[0, 0], [1, 0]], [0, 2], (3, 2)) == formats.RowSparse([[1, 0]], [2], (3, 2))
    ones = formats.COO([2], [[0], [0]], (2, 2), fill_value=1)
    assert ones == formats.CSR.from_array([[2, 1], [1, 1]])
    assert ones != csr
    assert formats.COO([np.nan], [[0]], (1,)) != formats.COO([np.nan], [[0]], (1,))


def test_types_of_values() -> None:
    A = formats.CSR([0.4, 2.5], [0, 1], [0, 2], (1, 2))
    assert A.astype("float64", copy=False) is A
    assert A.astype("float64") is not A
    whole = A.astype("int64")
    assert arrays_of(whole) == {"data": [2], "indices": [1], "indptr": [0, 1]}
    rows = formats.RowSparse([[0.4, 0.2]], [3], (5, 2)).astype(int)
    assert arrays_of(rows) == {"data": [[0, 0]], "indices": [3]}
    with pytest.raises(UnsupportedError, match="real part"):
        A.astype("complex64").astype("float32")
    moved = formats.COO([2, 3], [[0, 1]], (3,), fill_value=1).astype("bool")
    assert (moved.nnz, moved.fill_value) == (0, True)


def test_nonzero_fill_is_stored_explicitly() -> None:
    A = formats.COO([5, 0], [[0, 1], [0, 1]], (2, 2), fill_value=1)
    assert arrays_of(A.asformat("csr")) == {"data": [5, 1, 1], "indices": [0, 1, 0], "indptr": [0, 2, 3]}
    tensor = sp.asarray(A)
    assert (tensor.fill_value, tensor.stype) == (1, "coo")
    assert tensor.to_format("coo").fill_value == 1
    assert tensor.to_format("csc").to_numpy().tolist() == [[5, 1], [1, 0]]
    with pytest.raises(UnsupportedError, match="need fill 0, the tensor has 1"):
        A.to_scipy()


def test_nan_and_minus_zero() -> None:
    A = formats.CSR([np.nan, -0.0], [0, 1], [0, 2], (1, 2))
    assert A.nnz == 1
    assert np.isnan(A.data[0])


def test_transposes_share_arrays() -> None:
    A = formats.CSR([7, 8, 9], [0, 2, 1], [0, 2, 2, 3], (3, 4))
    assert isinstance(A.T, formats.CSC)
    assert A.T.shape == (4, 3)
    assert np.shares_memory(A.T.data, A.data)
    np.testing.assert_array_equal(A.T.to_numpy(), A.to_numpy().T)
    assert isinstance(A.T.T, formats.CSR)
    np.testing.assert_array_equal(A.asformat("csc").T.to_numpy(), A.to_numpy().T)


def test_check_format_finds_modified_coordinates() -> None:
    A = formats.COO([1, 2, 3], [[0, 0, 1], [0, 2, 1]], (2, 3))
    column = A.coords[1].base
    assert column is not None
    for changed, says in (
        (5, r"coordinate 5 is out of range for dimension 1 of size 3 \(coords\[1\]\[0\]\)"),
        (-1, "coordinate -1 is out of range"),
        (2, "without repeated elements"),
    ):
        column[0] = changed
        A.check_format(full=False)
        with pytest.raises((IndexingError, InvalidValueError), match=says):
            A.check_format()


def test_row_sparse_keeps_zero_rows() -> None:
    R = formats.RowSparse([[0, 0], [1, 0]], [1, 2], (4, 2))
    assert R.asformat("row_sparse") is R
    assert formats.RowSparse.from_array(R) is R
    back = sp.asarray(R).to_format("row_sparse")
    assert back.indices.tolist() == [2]
    assert back == R
    assert R.asformat("csr").nnz == 1


def test_retain_errors() -> None:
    R = formats.RowSparse([[1, 2]], [0], (3, 2))
    with pytest.raises(UnsupportedError, match=r"must be integers below 2\^63, got 0\.5"):
        R.retain([0.5, 1])
    for row in (np.nan, np.inf, 1e300):
        with pytest.raises(UnsupportedError, match="must be integers below"):
            R.retain([row])
    with pytest.raises(IndexingError, match="row 3 is out of range for 3 rows"):
        R.retain([3])
    with pytest.raises(InvalidValueError, match="0 follows 1"):
        R.retain([1, 0])
    with pytest.raises(DuplicateError, match="row 1 is repeated"):
        R.retain([1, 1])


def test_zero_dimensional() -> None:
    empty, full = formats.COO([], [], shape=()), formats.COO(5, [], shape=())
    assert empty.to_numpy() == 0
    assert full.to_numpy() == 5
    assert empty != full
    assert sp.asarray(0).to_format("coo") == empty
    for container in (empty, full):
        assert sp.asarray(container).to_format("coo") == container


def test_scipy_indptr_has_dtype_of_indices() -> None:
    A: Any = sp.asarray([[1, 0], [2, 3]])
    for layout in ("csr", "csc"):
        for found in (A.to_scipy(layout), A.to_format(layout).to_scipy()):
            assert found.indices.dtype == found.indptr.dtype == np.int32
            found.data[:] = 9  # its own arrays
    assert A.to_numpy().tolist() == [[1, 0], [2, 3]]


def test_containers_as_operands() -> None:
    rows = formats.CSR([7, 8], [0, 1], [0, 1, 2], (2, 2))
    A: Any = sp.asarray(rows)
    assert sp.concat([A, rows]).stype == "csr"
    assert sp.concat([A, rows]).nnz == 4
    A.append(formats.COO([9], [[0], [1]], (2, 2)))
    assert A.to_numpy().tolist() == [[7, 9], [0, 8]]
    A[...] = rows.T
    assert A.to_numpy().tolist() == [[7, 0], [0, 8]]
    wide = sp.zeros((10**9, 10**9), "int64", stype="csr")
    wide[5:7, 1:3] = rows
    assert (wide.nnz, wide[6, 2]) == (2, 8)
    wide[...] = formats.COO([4], [[10**8], [5]], (10**9, 10**9))
    assert (wide.nnz, wide[10**8, 5], wide.stype) == (1, 4, "csr")
    with pytest.raises(UnsupportedError, match="real part"):
        wide[:2, :2] = rows.astype("complex64")
    with pytest.raises(ShapeError, match=r"shape \(2, 2\) do not broadcast"):
        wide[:3, :2] = rows
    np.testing.assert_array_equal(np.asarray(rows, dtype="float32"), np.diag(np.array([7, 8], "float32")), strict=True)
    with pytest.raises(InvalidValueError, match="copy=False"):
        np.array(rows, copy=False)


def test_dims_and_named_tensors() -> None:
    A = sp.asarray(formats.CSR([1], [0], [0, 1], (1, 2)), dims=("src", "dst"))
    assert (A.dims, A.stype) == (("src", "dst"), "csr")
    assert formats.CSR.from_array(A).data.tolist() == [1]
    with pytest.raises(ShapeError):
        sp.asarray(formats.CSR([1], [0], [0, 1], (1, 2)), dims=("src",))


# -- sizes ---------------------------------------------------------------------------------------


def test_dense_array_exceeds_memory_limit() -> None:
    wide: Any = sp.from_coords([[0, 10**10], [0, 5]], [1.0, 2.0], shape=(10**11, 10**11))
    assert wide.to_format("coo").nnz == 2
    with pytest.raises(TooLargeError, match=r"the pointers of 100000000000 rows or columns would take 800 GB"):
        wide.to_format("csr")
    with pytest.raises(TooLargeError, match=r"the pointers of 100000000000 rows or columns"):
        wide.to_format("csc")
    for layout in ("csr", "csc", "lil", "bsr", "dia"):
        with pytest.raises(TooLargeError, match=r"the pointers of 100000000000 rows or columns"):
            wide.to_scipy(layout)
    assert wide.to_scipy("coo").nnz == 2
    with pytest.raises(TooLargeError, match=r"2 whole rows of shape"):
        wide.to_format("row_sparse")
    with pytest.raises(TooLargeError, match=r"the dense array would take"):
        wide.to_format("coo").to_numpy()
    with pytest.raises(TooLargeError, match=r"the dense array"):
        wide.to_format("dense")
    with pytest.raises(TooLargeError, match=r"memory limit"):
        formats.CSR.zeros((10**12, 2))
    with pytest.raises(TooLargeError, match=r"nearly all stored once its fill is 0"):
        np.exp(wide).asformat("csr")
    narrow = formats.CSC.from_coords([[10**12, 5], [0, 1]], [1, 2], shape=(2 * 10**12, 2))
    assert narrow.indices.tolist() == [10**12, 5]
    assert narrow.indices.dtype == np.int64
    assert sp.asarray(narrow).T.to_format("csr").indices.dtype == np.int64


def test_to_format_error_lists_formats() -> None:
    A = sp.asarray([[1, 0]])
    assert A.to_format("dense").tolist() == [[1, 0]]
    with pytest.raises(InvalidValueError, match=r"storage type must be one of .*, got 'bsr'"):
        A.to_format("bsr")
    with pytest.raises(ShapeError, match="csr requires 2 dimensions, got 1"):
        A[0].to_format("csr")
    assert (A * 2).to_format("csr").data.tolist() == [2]
