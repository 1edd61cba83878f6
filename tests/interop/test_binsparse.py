"""The binsparse protocol in both directions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sparrow as sp
from sparrow.errors import InvalidValueError, ShapeError, TooLargeError, UnsupportedError

DENSE = np.array([[0, 7, 0, 9], [0, 0, 0, 0], [5, 0, 0, 3]], np.int16)
CSR, CSC = scipy.sparse.csr_array(DENSE), scipy.sparse.csc_array(DENSE)
ROWS, COLS = DENSE.nonzero()
BY_COLUMN = np.lexsort((ROWS, COLS))


class Given:
    """Array of another library."""

    def __init__(self, format: Any, arrays: dict[str, Any], shape: Any = DENSE.shape, **keys: Any) -> None:
        self.arrays = {name: np.asarray(array) for name, array in arrays.items()}
        types = {name: array.dtype.name for name, array in self.arrays.items()} | keys.pop("data_types", {})
        stored = len(self.arrays["values"])
        self.descriptor = {
            "version": "0.1", "format": format, "shape": list(shape), "number_of_stored_values": stored,
            "data_types": types, **keys,
        }  # fmt: skip

    def __binsparse_descriptor__(self) -> dict[str, Any]:
        return {"binsparse": self.descriptor}

    def __binsparse__(self) -> dict[str, Any]:
        return self.arrays


VALUES = {"values": CSR.data}
BY_ROWS = {"pointers_to_1": CSR.indptr, "indices_1": CSR.indices, **VALUES}
BY_COLUMNS = {"pointers_to_1": CSC.indptr, "indices_1": CSC.indices, "values": CSC.data}
COORDINATES = {"indices_0": ROWS, "indices_1": COLS, **VALUES}
ELEMENT = {"level_desc": "element"}
FORMATS: dict[str, Given] = {
    "DMATR": Given("DMATR", {"values": DENSE.ravel()}),
    "DMAT": Given("DMAT", {"values": DENSE.ravel()}),
    "DMATC": Given("DMATC", {"values": DENSE.ravel("F")}),
    "CSR": Given("CSR", BY_ROWS),
    "CSC": Given("CSC", BY_COLUMNS),
    "DCSR": Given("DCSR", {"indices_0": [0, 2], "pointers_to_1": [0, 2, 4], "indices_1": CSR.indices, **VALUES}),
    "DCSC": Given(
        "DCSC",
        {"indices_0": [0, 1, 3], "pointers_to_1": [0, 1, 2, 4], "indices_1": CSC.indices, "values": CSC.data},
    ),
    "COO": Given("COO", COORDINATES),
    "COOR": Given("COOR", COORDINATES),
    "COOC": Given("COOC", {"indices_0": COLS[BY_COLUMN], "indices_1": ROWS[BY_COLUMN], "values": CSR.data[BY_COLUMN]}),
    "one-based": Given("CSR", {**BY_ROWS, "pointers_to_1": CSR.indptr + 1, "indices_1": CSR.indices + 1}, index_base=1),
    "custom": Given(
        "custom",
        BY_COLUMNS,
        custom={
            "transpose": [1, 0],
            "level": {"level_desc": "dense", "rank": 1, "level": {"level_desc": "sparse", "rank": 1, "level": ELEMENT}},
        },
    ),
    "custom inside format": Given(
        {"custom": {"level": {"level_desc": "sparse", "rank": 2, "level": ELEMENT}}}, COORDINATES
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read(name: str) -> None:
    found = sp.asarray(FORMATS[name])
    assert found.dtype == np.int16
    assert np.array_equal(found.to_numpy(), DENSE)


def test_vectors_iso_values_and_fills() -> None:
    same = {"pointers_to_1": [0, 1, 3, 3, 5, 6], "indices_1": [3, 1, 4, 1, 2, 3], "values": np.array([7], np.int8)}
    found = sp.asarray(Given("CSR", same, (5, 5), data_types={"values": "iso[int8]"})).to_numpy()
    assert found.tolist() == [[0, 0, 0, 7, 0], [0, 7, 0, 0, 7], [0, 0, 0, 0, 0], [0, 7, 7, 0, 0], [0, 0, 0, 7, 0]]
    assert sp.asarray(Given("DVEC", {"values": [0, 4, 0]}, (3,))).to_numpy().tolist() == [0, 4, 0]
    filled = Given("CVEC", {"indices_0": [2], "values": [4.0], "fill_value": [1.5]}, (4,), fill=True)
    found_filled = sp.asarray(filled)
    assert (found_filled.fill_value, found_filled.nnz) == (1.5, 1)
    assert found_filled.to_numpy().tolist() == [1.5, 1.5, 4, 1.5]
    flags = Given("CVEC", {"indices_0": [2], "values": np.array([1], np.uint8)}, (4,), data_types={"values": "bint8"})
    assert sp.asarray(flags).dtype == bool
    alternating = Given(
        "CVEC", {"indices_0": [0, 2], "values": np.array([1, 2, 3, 4], np.float32)}, (3,),
        data_types={"values": "complex[float32]"},
    )  # fmt: skip
    assert np.array_equal(sp.asarray(alternating).to_numpy(), np.array([1 + 2j, 0, 3 + 4j], np.complex64))


def test_levels_nest() -> None:
    dense = np.zeros((2, 3, 4))
    dense[1, 0, 2], dense[1, 2, 1], dense[0, 2, 3] = 5, 6, 7
    sparse_of_dense = {
        "level": {"level_desc": "sparse", "rank": 2, "level": {"level_desc": "dense", "rank": 1, "level": ELEMENT}}
    }
    rows = {"indices_0": [0, 1, 1], "indices_1": [2, 0, 2], "values": dense[[0, 1, 1], [2, 0, 2]].ravel()}
    assert np.array_equal(sp.asarray(Given("custom", rows, (2, 3, 4), custom=sparse_of_dense)).to_numpy(), dense)
    dense_of_sparse = {
        "level": {"level_desc": "dense", "rank": 2, "level": {"level_desc": "sparse", "rank": 1, "level": ELEMENT}}
    }
    counts = np.count_nonzero(dense, axis=2).ravel()
    lines = {"pointers_to_2": [0, *np.cumsum(counts)], "indices_2": dense.nonzero()[2], "values": dense[dense != 0]}
    assert np.array_equal(sp.asarray(Given("custom", lines, (2, 3, 4), custom=dense_of_sparse)).to_numpy(), dense)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4), (0, 2)])
@pytest.mark.parametrize("fill", [0, 1])
def test_to_format_round_trip(dtype: str, shape: tuple[int, ...], fill: int) -> None:
    rng = np.random.default_rng(1)
    dense = (rng.integers(0, 3, shape) * (rng.random(shape) < 0.5)).astype(dtype)
    at = np.nonzero(dense != np.array(fill, dtype)) if shape else ()
    A = sp.from_coords(at, dense[at] if shape else dense.reshape(1), shape=shape, fill_value=fill)
    descriptor, arrays = A.__binsparse_descriptor__(), A.__binsparse__()
    json.dumps(descriptor)
    assert set(descriptor["binsparse"]["data_types"]) == set(arrays)
    assert descriptor["binsparse"]["number_of_stored_values"] == len(arrays["values"])
    back = sp.asarray(_Sent(descriptor, arrays))
    assert (back.dtype, back.fill_value, back.nnz) == (A.dtype, A.fill_value, A.nnz)
    assert np.array_equal(back.to_numpy(), dense)


class _Sent:
    def __init__(self, descriptor: dict[str, Any], arrays: dict[str, Any]) -> None:
        self._sent = descriptor, arrays

    def __binsparse_descriptor__(self) -> dict[str, Any]:
        return self._sent[0]

    def __binsparse__(self) -> dict[str, Any]:
        return self._sent[1]


def test_storage_types_are_formats_of_their_own() -> None:
    A = sp.asarray(DENSE)
    for stype, expected in (("csr", BY_ROWS), ("csc", BY_COLUMNS)):
        tensor = A.asformat(stype)
        descriptor, arrays = tensor.__binsparse_descriptor__(), tensor.__binsparse__()
        assert descriptor["binsparse"]["format"] == stype.upper()
        for name, array in expected.items():
            assert np.array_equal(arrays[name], array), name
            assert descriptor["binsparse"]["data_types"][name] == arrays[name].dtype.name
        assert np.array_equal(sp.asarray(_Sent(descriptor, arrays)).to_numpy(), DENSE)
    assert A.__binsparse_descriptor__()["binsparse"]["format"] == "COOR"
    tall = sp.from_coords([[10**12], [0]], [1]).asformat("csr")
    with pytest.raises(TooLargeError, match="the pointers of 1000000000001 rows or columns"):
        tall.__binsparse__()


def test_binsparse_arrays_as_list() -> None:
    descriptor = {"binsparse": FORMATS["CSR"].descriptor}
    given: Any = list(FORMATS["CSR"].arrays.values())
    assert np.array_equal(sp.asarray(_Sent(descriptor, given)).to_numpy(), DENSE)


def test_from_binsparse_errors() -> None:
    with pytest.raises(InvalidValueError, match=r"format must be .* got 'BSR'"):
        sp.asarray(Given("BSR", BY_ROWS))
    with pytest.raises(UnsupportedError, match="symmetric_lower"):
        sp.asarray(Given("CSR", BY_ROWS, structure="symmetric_lower"))
    with pytest.raises(UnsupportedError, match=r"version must be 0\.1, got 2"):
        sp.asarray(Given("CSR", BY_ROWS, version="2.0"))
    with pytest.raises(InvalidValueError, match="'indices_1' is missing"):
        sp.asarray(Given("CSR", {"pointers_to_1": CSR.indptr, **VALUES}))
    with pytest.raises(ShapeError, match="pointers_to_1 must have 4 elements, got 3"):
        sp.asarray(Given("CSR", {**BY_ROWS, "pointers_to_1": [0, 2, 4]}))
    with pytest.raises(ShapeError, match="describes 1 dimensions"):
        sp.asarray(Given("CVEC", {"indices_0": [1], "values": [1]}, (3, 4)))
    with pytest.raises(ShapeError, match="describes 2 dimensions"):
        sp.asarray(Given("CSR", BY_ROWS, (3,)))
    with pytest.raises(ShapeError, match="'values' has 1 elements, expected 4"):
        sp.asarray(Given("CSR", {**BY_ROWS, "values": [1]}))
    with pytest.raises(ShapeError, match="pointers_to_1 must not decrease"):
        sp.asarray(Given("CSR", {**BY_ROWS, "pointers_to_1": [0, 2, 1, 4]}))
    with pytest.raises(InvalidValueError, match="'fill_value' is missing"):
        sp.asarray(Given("CSR", BY_ROWS, fill=True))
    few: Any = list(BY_ROWS.values())[:2]
    with pytest.raises(ShapeError, match="binsparse must have 3 arrays, got 2"):
        sp.asarray(_Sent({"binsparse": FORMATS["CSR"].descriptor}, few))
    for key in ("format", "shape", "version", "data_types"):
        descriptor = {name: given for name, given in FORMATS["CSR"].descriptor.items() if name != key}
        with pytest.raises(InvalidValueError, match=f"'{key}' is missing"):
            sp.asarray(_Sent({"binsparse": descriptor}, BY_ROWS))
    with pytest.raises(InvalidValueError, match="got 'run'"):
        sp.asarray(Given("custom", VALUES, custom={"level": {"level_desc": "run"}}))
    with pytest.raises(UnsupportedError, match="float16"):
        sp.asarray(np.array([1], np.float16)).__binsparse_descriptor__()
