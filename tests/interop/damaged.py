"""Damaged arrays, read in every way: each read is right, or raises an error.

Run in a process of its own, ``python -m tests.interop.damaged SOURCE SEED CASES FOLDER``: a read that follows a wrong
index may end it.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse

import sparrow as sp
from sparrow import errors

Generator = np.random.Generator


@dataclass(frozen=True)
class Compressed:
    """Arrays of compressed rows, some of them wrong."""

    data: Any
    indices: Any
    indptr: Any
    shape: tuple[int, int]

    def to_dense(self, empty_floats: bool = True) -> Any:
        """Return the matrix, None if there is none.

        An empty list is an array of floats; SciPy never makes one.
        """
        data, indices, indptr = self.data, self.indices, self.indptr
        are_integers = indices.dtype.kind in "iu" or (empty_floats and not len(indices))
        if not are_integers or indptr.dtype.kind not in "iu" or len(data) != len(indices):
            return None
        if len(indptr) != self.shape[0] + 1 or indptr[0] != 0 or indptr[-1] != len(data):
            return None
        out = np.zeros(self.shape)
        for row in range(self.shape[0]):
            if indptr[row + 1] < indptr[row]:
                return None
            for at in range(int(indptr[row]), min(int(indptr[row + 1]), len(data))):
                if not 0 <= indices[at] < self.shape[1]:
                    return None
                out[row, indices[at]] += data[at]
        return out


def random_compressed(rng: Generator) -> Compressed:
    """Return a small matrix with one thing changed at random."""
    shape = (int(rng.integers(1, 9)), int(rng.integers(1, 12)))
    dense = rng.integers(1, 9, shape) * (rng.random(shape) < 0.5)
    found = scipy.sparse.csr_array(dense.astype(float))
    kind = str(rng.choice(["int32", "int64"]))
    sound = Compressed(found.data, found.indices.astype(kind), found.indptr.astype(kind), shape)
    name = str(rng.choice(["indices", "indptr"]))
    array = getattr(sound, name).copy()
    wild = rng.choice([-1, 0, 1, len(array), shape[1], 2**20, 4_000_000, 2**31 - 1, -(2**31)])
    how = rng.integers(0, 8)
    if how == 0:
        return sound
    if how == 1:
        array = array[:-1]
    elif how == 2:
        array = np.append(array, np.array(wild, kind))
    elif how == 3 and len(array):
        array = array[::-1].copy()
    elif how == 4:
        array = array.astype(np.float64)
    elif how == 5:
        return replace(sound, data=sound.data[:-1])
    elif len(array):
        array[rng.integers(len(array))] = wild
    return replace(sound, **{name: array})


def scipy_array(given: Compressed, kind: str) -> Any:
    """Return a SciPy array of damaged arrays, which its constructor would refuse."""
    shape = given.shape if kind == "csr" else given.shape[::-1]
    out = getattr(scipy.sparse, f"{kind}_array")(shape)
    out.data, out.indices, out.indptr = given.data, given.indices, given.indptr
    return out


def check(read: Callable[[], Any], expected: Any, what: str) -> None:
    """Read, and compare with the expected array; None if there is none."""
    try:
        found = read()
    except errors.SparrowError as error:
        if expected is not None:
            raise AssertionError(f"{what}: {error!r} of sound arrays") from error
        return
    assert expected is not None, f"{what}: {found!r} of damaged arrays"
    found = found.to_numpy() if hasattr(found, "to_numpy") else np.asarray(found)
    np.testing.assert_array_equal(found, expected, err_msg=what)


# -- sources ---------------------------------------------------------------------------------------


def scipy_objects(rng: Generator, folder: Path) -> None:
    """Compressed rows and columns of SciPy, as operands and arguments."""
    given = random_compressed(rng)
    dense = given.to_dense(empty_floats=False)
    kind = str(rng.choice(["csr", "csc"]))
    array = scipy_array(given, kind)
    expected = dense if dense is None or kind == "csr" else dense.T
    shape = array.shape
    ones = sp.asarray(np.ones(shape))
    wide = sp.asarray(np.ones(shape[::-1]))
    product = None if expected is None else np.ones(shape[::-1]) @ expected
    total = None if expected is None else expected + 1

    def assign() -> Any:
        out = sp.asarray(np.ones(shape))
        out[...] = array
        return out

    for name, read, wanted in (
        ("asarray", lambda: sp.asarray(array), expected),
        ("+", lambda: ones + array, total),
        ("reversed +", lambda: array + ones, total),
        ("@", lambda: wide @ array, product),
        ("reversed @", lambda: array @ wide, None if expected is None else expected @ np.ones(shape[::-1])),
        ("np.add", lambda: np.add(ones, array), total),
        ("assignment", assign, expected),
        ("formats", lambda: sp.formats.CSR.from_array(array), expected),
        ("append", lambda: _append(shape, array), expected),
    ):
        check(read, wanted, f"{name} of {kind} {given}")
    if dense is not None:
        return
    right = np.ones(shape[0])
    _check_refused(lambda: sp.models.LinearRegression(epochs=1).fit(array, right))
    _check_refused(lambda: sp.models.LinearRegression(epochs=1).fit(ones, array))
    _check_refused(lambda: sp.models.ALS(factors=2, epochs=1).fit(array))
    _check_refused(lambda: list(sp.batches({"X": array}, {"y": right}, 2)))
    _check_refused(lambda: sp.linalg.aslinearoperator(ones) @ array)
    _check_refused(lambda: sp.linalg.lsqr(array, right))
    _check_refused(lambda: sp.blas.gemv(1.0, array, np.ones(shape[1])))
    if shape[0] == shape[1]:
        _check_refused(lambda: sp.linalg.cg(array, right))
        _check_refused(lambda: sp.linalg.spsolve(array, right))
        _check_refused(lambda: sp.linalg.spsolve_triangular(array, right))
        _check_refused(lambda: sp.linalg.splu(array))
        _check_refused(lambda: sp.linalg.cg(ones, right, M=array))
        _check_refused(lambda: sp.graph.pagerank(array))


def _append(shape: tuple[int, ...], array: Any) -> Any:
    out = sp.zeros(shape)
    out.append(array)
    return out


def _check_refused(call: Callable[[], Any]) -> None:
    try:
        call()
    except errors.SparrowError:
        return
    raise AssertionError("damaged arrays were accepted")


def other_scipy_objects(rng: Generator, folder: Path) -> None:
    """COO, BSR, DIA, LIL and DOK of SciPy."""
    dense = rng.integers(1, 9, (4, 6)) * (rng.random((4, 6)) < 0.6)
    kind = str(rng.choice(["coo", "bsr", "dia", "lil", "dok"]))
    array = getattr(scipy.sparse, f"{kind}_array")(dense)
    wild = int(rng.choice([-1, 0, 3, 6, 2**20, 2**31 - 1]))
    if kind == "coo" and array.nnz:
        coords = [column.copy() for column in array.coords]
        coords[rng.integers(2)][rng.integers(array.nnz)] = wild
        array.coords = tuple(coords)
        if rng.random() < 0.3:
            array.data = array.data[:1]
    elif kind == "bsr":
        array = scipy.sparse.bsr_array(dense, blocksize=(2, 3))
        part = array.indices if rng.random() < 0.5 and array.indices.size else array.indptr
        part[rng.integers(len(part))] = wild
    elif kind == "dia" and array.offsets.size:
        array.offsets = np.append(array.offsets, wild) if rng.random() < 0.5 else array.offsets[:-1]
    elif kind == "lil":
        array.rows[rng.integers(4)].append(wild)
        if rng.random() < 0.5:
            array.data[rng.integers(4)].append(5)
    elif kind == "dok":
        array._dict[(wild, wild)] = 3
    try:
        sp.asarray(array)
        (sp.asarray(np.ones((4, 6))) + array).compute()
    except errors.SparrowError:
        pass


def npz_files(rng: Generator, folder: Path) -> None:
    """Files of SciPy and of pydata/sparse."""
    given = random_compressed(rng)
    path = folder / "a.npz"
    arrays = {"data": given.data, "indices": given.indices, "indptr": given.indptr}
    spare = len(given.indptr) and given.indptr.dtype.kind == "i" and 0 <= given.indptr[-1] < len(given.indices)
    if rng.random() < 0.5:
        np.savez(path, format=np.array(b"csr"), shape=np.array(given.shape), **arrays)
        if spare and len(given.data) == len(given.indices):  # SciPy ignores room behind the last row
            count = int(given.indptr[-1])
            given = replace(given, data=given.data[:count], indices=given.indices[:count])
    else:
        np.savez(path, format="gcxs", shape=np.array(given.shape), compressed_axes=[0], fill_value=0.0, **arrays)
    expected = given.to_dense()
    pairs = {(row, col) for row, col in _pairs(given)} if expected is not None else set()
    if "gcxs" in str(np.load(path)["format"]) and expected is not None and len(pairs) < len(given.data):
        return  # pydata/sparse has no duplicates: refused
    check(lambda: sp.asarray(path), expected, f"asarray of {given}")
    check(lambda: sp.ingest.npz(path, folder / "a", overwrite=True), expected, f"ingest of {given}")


def _pairs(given: Compressed) -> Any:
    return zip(np.repeat(np.arange(given.shape[0]), np.diff(given.indptr)), given.indices, strict=True)


def hdf5_files(rng: Generator, folder: Path) -> None:
    """AnnData, 10x Genomics and binsparse."""
    import h5py

    given = random_compressed(rng)
    path = folder / "a.h5"
    kind = str(rng.choice(["h5ad", "tenx", "binsparse"]))
    expected = given.to_dense()
    with h5py.File(path, "w") as file:
        if kind == "h5ad":
            group = file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "shape": given.shape})
            names = ("data", "indices", "indptr")
        elif kind == "tenx":
            group = file.create_group("matrix")
            group["shape"] = given.shape[::-1]
            group["barcodes"] = [f"b{k}".encode() for k in range(given.shape[0])]
            features = group.create_group("features")
            features["id"] = features["name"] = [f"f{k}".encode() for k in range(given.shape[1])]
            names = ("data", "indices", "indptr")
            expected = None if expected is None else expected.T
        else:
            group = file
            types = '{"values": "float64", "indices_1": "int64", "pointers_to_1": "int64"}'
            group.attrs["binsparse"] = (
                f'{{"binsparse": {{"version": "0.1", "format": "CSR", "shape": {list(given.shape)}, '
                f'"data_types": {types}}}}}'
            )
            names = ("values", "indices_1", "pointers_to_1")
        for name, array in zip(names, (given.data, given.indices, given.indptr), strict=True):
            group[name] = array
    options = {"duplicates": "sum"} if kind == "binsparse" else {}
    ingest = getattr(sp.ingest, kind)
    check(lambda: ingest(path, folder / "h", overwrite=True, **options), expected, f"{kind} of {given}")


class _Descriptor:
    """Object of the binsparse protocol."""

    def __init__(self, given: Compressed) -> None:
        self._given = given

    def __binsparse_descriptor__(self) -> Any:
        types = {"values": "float64", "indices_1": "int64", "pointers_to_1": "int64"}
        found = {"version": "0.1", "format": "CSR", "shape": list(self._given.shape), "data_types": types}
        return {"binsparse": found}

    def __binsparse__(self) -> Any:
        return {"values": self._given.data, "indices_1": self._given.indices, "pointers_to_1": self._given.indptr}


def containers(rng: Generator, folder: Path) -> None:
    """``sp.formats``, the binsparse protocol, and arrays of pydata/sparse."""
    import sparse

    given = random_compressed(rng)
    expected = given.to_dense()
    repeated = expected is not None and not _ascends(given)
    if not repeated:
        check(lambda: sp.formats.CSR(given.data, given.indices, given.indptr, given.shape), expected, f"CSR {given}")
        check(lambda: sp.formats.CSC(given.data, given.indices, given.indptr, given.shape[::-1]),
              None if expected is None else expected.T, f"CSC {given}")  # fmt: skip
    if expected is None or len(set(_pairs(given))) == len(given.data):
        check(lambda: sp.asarray(_Descriptor(given)), expected, f"binsparse {given}")
        gcxs = sparse.GCXS.from_numpy(np.ones(given.shape), compressed_axes=[0])
        gcxs.data, gcxs.indices, gcxs.indptr = given.data, given.indices, given.indptr
        check(lambda: sp.asarray(gcxs), expected, f"GCXS {given}")
    sound = scipy.sparse.csr_array(rng.integers(1, 9, (4, 5)) * (rng.random((4, 5)) < 0.8))
    sound = sound.astype(float)
    owned = sp.formats.CSR(sound.data, sound.indices, sound.indptr, sound.shape)
    part = sound.indices if rng.random() < 0.5 else sound.indptr
    part[rng.integers(len(part))] = rng.choice([-1, 2, 7, 2**30])
    after = Compressed(sound.data, sound.indices, sound.indptr, sound.shape)
    expected = after.to_dense() if _ascends(after) else None
    check(lambda: sp.asarray(owned), expected, f"changed {after}")
    check(lambda: owned.asformat("csc"), expected, f"changed {after}")
    check(lambda: owned.to_scipy().toarray(), expected, f"changed {after}")


def _ascends(given: Compressed) -> bool:
    if given.to_dense() is None:
        return False
    return all(
        (np.diff(given.indices[a:b]) > 0).all() for a, b in zip(given.indptr[:-1], given.indptr[1:], strict=True)
    )


def coordinates(rng: Generator, folder: Path) -> None:
    """Coordinates for tensors, containers, writes and appends."""
    shape, n = (5, 7), int(rng.integers(1, 9))
    flat = rng.choice(35, n, replace=False)
    coords = np.array(np.divmod(flat, 7)).astype(str(rng.choice(["int8", "int32", "int64"])))
    if rng.random() < 0.8:
        coords[rng.integers(2), rng.integers(n)] = rng.choice([-1, -128, 4, 6, 7, 127])
    values = np.arange(1.0, n + 1)
    sound = bool((coords >= 0).all() and (coords < np.array(shape)[:, None]).all())
    sound = sound and len(set(zip(*coords.tolist(), strict=True))) == n
    expected = np.zeros(shape)
    if sound:
        expected[tuple(coords)] = values
    wanted = expected if sound else None
    check(lambda: sp.from_coords(coords, values, shape=shape), wanted, f"from_coords {coords}")
    check(lambda: sp.formats.COO(values, coords, shape), wanted, f"COO {coords}")
    check(lambda: sp.formats.CSC.from_coords(coords, values, shape, "error"), wanted, f"CSC {coords}")
    table = pa.table({"i": coords[0], "j": coords[1], "value": values})
    check(lambda: sp.asarray(table, coords=["i", "j"], shape=shape), wanted, f"table {coords}")


def arrow_data(rng: Generator, folder: Path) -> None:
    """Dictionary codes and offsets of texts, in memory and in files."""
    codes = np.array([0, 1, 2, 1], np.int32)
    offsets = np.array([0, 1, 2, 3], np.int32)
    if rng.random() < 0.5:
        codes[rng.integers(4)] = rng.choice([-1, 3, 2**20, 2**31 - 1, 0])
    else:
        offsets[rng.integers(1, 3)] = rng.choice([-1, 2, 9, 2**20, 2**31 - 1])  # the ends are refused by pyarrow
    texts = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"abc")])
    column = pa.DictionaryArray.from_arrays(pa.array(codes), texts, safe=False)
    table = pa.table({"u": column, "i": [0, 1, 2, 3], "value": [1.0, 2.0, 3.0, 4.0]})
    calls: list[Callable[[], Any]] = [
        lambda: sp.asarray(table, coords=["u", "i"]).to_numpy(),
        lambda: sp.ingest.columns(table, folder / "t", coords=["u", "i"], value="value", overwrite=True),
        lambda: sp.from_relation(table, coords=["u", "i"], value="value"),
        lambda: sp.sql("select u, count(*) from t group by u order by u", t=table).fetchall(),
        lambda: sp.training.one_hot(table, ["u"]).nnz,
        lambda: sp.zeros((3, 2)).set_labels("d0", texts),
    ]
    path = folder / "a.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write(table)
    calls.append(lambda: sp.ingest.columns(path, folder / "f", coords=["u", "i"], value="value", overwrite=True))
    for call in calls:
        with contextlib.suppress(errors.SparrowError):
            call()


def pickles(rng: Generator, folder: Path) -> None:
    """Pickles of tensors, in which one number was changed."""
    A = sp.from_coords([[0, 0, 1, 3], [0, 4, 2, 1]], [1.0, 2.0, 3.0, 4.0], shape=(4, 5))
    view = [A, A[1:, ::2], A[[3, 0]]][rng.integers(3)]
    make, (schema, block, labels, axes, stype) = view.__reduce__()
    coords = [column.copy() for column in block.coords]
    coords[rng.integers(2)][rng.integers(block.count)] = rng.choice([-1, 0, 4, 5, 2**30])
    damaged = pickle.dumps((make, (schema, type(block)(tuple(coords), block.values), labels, axes, stype)))
    make, arguments = pickle.loads(damaged)
    try:
        tensor = make(*arguments)
    except errors.SparrowError:
        return
    tensor.to_numpy()
    (tensor @ sp.asarray(np.ones((tensor.shape[1], 2)))).compute()


def bvgraphs(rng: Generator, folder: Path) -> None:
    """Compressed graphs of WebGraph, with changed bytes."""
    from tests.io.binary.test_webgraph import CODES, USUAL, encode_graph, random_graph, store

    codes = {part: str(rng.choice(list(CODES))) for part in USUAL if rng.random() < 0.5}
    window, shortest, k = (int(rng.choice(each)) for each in ([0, 1, 7, 100], [0, 1, 2, 4], [1, 2, 3, 5]))
    graph = random_graph(rng, int(rng.integers(2, 40)))
    path = store(folder, *encode_graph(graph, window, shortest, k, codes, rng))
    for each, chance in ((path, 1), (path.with_suffix(".properties"), 0.3)):
        data = bytearray(each.read_bytes())
        if data and rng.random() < chance:
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
            each.write_bytes(data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.2 else data)
    with contextlib.suppress(errors.SparrowError):
        sp.ingest.webgraph(path, folder / "w", overwrite=True)


SOURCES: dict[str, Callable[[Generator, Path], None]] = {
    one.__name__: one
    for one in (
        scipy_objects, other_scipy_objects, npz_files, hdf5_files, containers, coordinates, arrow_data, pickles,
        bvgraphs,
    )
}  # fmt: skip


def main(source: str, seed: int, cases: int, folder: Path) -> None:
    """Run some cases of a source."""
    for case in range(cases):
        try:
            SOURCES[source](np.random.default_rng([seed, case]), folder)
        except BaseException as error:
            error.add_note(f"{source}, seed {seed}, case {case}")
            raise


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
