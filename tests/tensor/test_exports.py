"""Conversions to other libraries and back: elements, fill value and dtype."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import (
    InvalidValueError,
    MissingDependencyError,
    ShapeError,
    SparrowError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.interop.lazyframes import predicate_bounds
from sparrow.testing import on

SEEDS = st.integers(0, 2**16)
FORMATS: tuple[Literal["csr", "csc", "coo"], ...] = ("csr", "csc", "coo")


def some_dense(shape: tuple[int, ...], seed: int, dtype: Any = float) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 4, shape) * (rng.random(shape) < 0.4)).astype(dtype)


# -- Polars lazy frames --------------------------------------------------------------------------

PREDICATES = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from("ij"), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(-2, 7)),
        st.tuples(st.sampled_from("ij"), st.sampled_from(["both", "left", "right", "none"]), st.integers(-2, 7)),
        st.tuples(st.just("value"), st.sampled_from([">", "<="]), st.integers(0, 3)),
    ),
    lambda inner: st.tuples(inner, st.sampled_from("&|"), inner),
    max_leaves=4,
)


def as_expression(tree: Any) -> pl.Expr:
    left, operation, right = tree
    if operation in "&|":
        a, b = as_expression(left), as_expression(right)
        return a & b if operation == "&" else a | b
    column = pl.col(left)
    if operation in ("both", "left", "right", "none"):
        return column.is_between(right - 2, right, closed=operation)
    compare = {"<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "==": "__eq__", "!=": "__ne__"}
    found: pl.Expr = getattr(column, compare[operation])(right)
    return found


@given(SEEDS, PREDICATES, st.sampled_from(["whole", "view", "transposed", "listed", "expression"]))
def test_lazy_frame_queries_match_frame(seed: int, tree: Any, kind: str) -> None:
    A = sp.from_coords(np.argwhere(some_dense((6, 5), seed)).T, 2, shape=(6, 5), dims=("i", "j"))
    shown: Any = {"whole": A, "view": A[1:, ::-1], "transposed": A.T, "listed": A[[4, 0, 4]], "expression": A + A}[kind]
    predicate = as_expression(tree)
    lazy, eager = shown.to_polars(lazy=True), shown.to_polars()
    assert lazy.collect_schema() == eager.schema
    found = lazy.filter(predicate).select("j", "value").collect().sort("j", "value")
    assert found.equals(eager.filter(predicate).select("j", "value").sort("j", "value"))
    assert lazy.filter(predicate).select(pl.len()).collect().item() == len(eager.filter(predicate))
    assert len(lazy.head(2).collect()) == min(2, len(eager))


def test_lazy_frame_filter_bounds() -> None:
    i, j = pl.col("i"), pl.col("j")
    limit = 2**63 - 1
    assert predicate_bounds((i > 2) & (i <= 9) & (pl.lit(3) < i), ["i", "j"]) == {"i": (4, 10)}
    assert predicate_bounds(i == 5, ["i"]) == {"i": (5, 6)}
    assert predicate_bounds((i == pl.lit(5, pl.Int32)) & (j < -3), ["i", "j"]) == {"i": (5, 6), "j": (0, 0)}
    assert predicate_bounds(i.is_between(1, 4, closed="none") & (j >= -1), ["i", "j"]) == {"i": (2, 4), "j": (0, limit)}
    for nothing in ((i > 2) | (j > 2), i != 3, i.is_in([1]), i > 2.5, ~(i > 2), i + 1 > 2, pl.col("value") > 1):
        assert predicate_bounds(nothing, ["i", "j"]) == {}


def test_lazy_frame_projection_pushdown(tmp_path: Path) -> None:
    rows = np.arange(300_000)
    folder = tmp_path / "a b%20[c]*?'{d}"  # names that globs and addresses would take apart
    A = sp.from_coords([rows, rows % 7], rows + 1, shape=(300_000, 7)).save(str(folder).replace("%", "_"))
    read: list[tuple[Any, Any]] = []

    computed: list[int] = []
    lazy = A.to_polars(lazy=True)
    both: Any = A + A[:, ::-1]

    def record_read(snapshot: Any, chunk: Any, dims: Any) -> None:
        read.append((chunk.low[0], dims))

    with on("storage.read_chunk", record_read):
        total = lazy.filter(pl.col("d0") >= 299_990).select(pl.col("value").sum()).collect().item()
    assert total == np.arange(299_991, 300_001).sum()
    assert len(read) == 1
    assert 1 not in read[0][1]
    with on("stream.read", lambda operator, chunk: computed.append(chunk.low[0])):
        found = both.to_polars(lazy=True).filter(pl.col("d0").is_between(5, 6) & (pl.col("d1") == 5)).collect()
    assert found["value"].to_list() == [6]
    assert computed == [0]  # the first of the two rows that the filter selects
    A[0, 0] = 99  # the frame shows the earlier version
    assert lazy.filter(pl.col("d0") == 0).select("value").collect().item() == 1


def test_lazy_frame_dtypes() -> None:
    for dtype in ("bool", "uint8", "uint64", "float16", "float32", "complex64"):
        A = sp.asarray(some_dense((4, 3), 1, dtype))
        assert A.to_polars(lazy=True).collect().equals(A.to_polars()), dtype
    scalar = sp.asarray(np.float64(3))
    assert scalar.to_polars(lazy=True).collect().to_dict(as_series=False) == {"value": [3.0]}
    assert sp.zeros((0, 4)).to_polars(lazy=True).collect().is_empty()


# -- .npz ----------------------------------------------------------------------------------------


@given(
    SEEDS,
    st.sampled_from([(5,), (0,), (3, 4), (40, 2), (2, 3, 4), (0, 3)]),
    st.sampled_from(["bool", "int8", "float32", "complex128"]),
    st.booleans(),
)
def test_scipy_reads_npz_files(
    tmp_path_factory: pytest.TempPathFactory, seed: int, shape: tuple[int, ...], dtype: str, compressed: bool
) -> None:
    path = tmp_path_factory.mktemp("npz") / "A.npz"
    dense = some_dense(shape, seed, dtype)
    sp.asarray(dense).to_npz(path, compressed)
    found = scipy.sparse.load_npz(path)
    assert isinstance(found, scipy.sparse.sparray)
    assert found.dtype == dense.dtype
    assert np.array_equal(found.toarray(), dense)
    back = sp.asarray(path)
    assert back.dtype == dense.dtype
    assert np.array_equal(back.to_numpy(), dense)
    assert [p.name for p in path.parent.iterdir()] == ["A.npz"]


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia"])
def test_npz_files_of_scipy_are_read(tmp_path: Path, format: str) -> None:
    dense = some_dense((4, 6), 2)
    for kind in (scipy.sparse.coo_array, scipy.sparse.coo_matrix):
        scipy.sparse.save_npz(tmp_path / "A.npz", kind(dense).asformat(format))
        assert np.array_equal(sp.asarray(str(tmp_path / "A.npz")).to_numpy(), dense)


def test_npz_files_of_pydata_sparse_are_read_and_written(tmp_path: Path) -> None:
    sparse = pytest.importorskip("sparse")
    dense = some_dense((2, 3, 4), 3) + 2
    for array in (
        sparse.COO.from_numpy(dense, fill_value=2.0),
        sparse.GCXS.from_numpy(dense, compressed_axes=(1,), fill_value=2.0),
        sparse.GCXS.from_numpy(dense, compressed_axes=(0, 2), fill_value=2.0),
        sparse.GCXS.from_numpy(dense[0, 0], fill_value=2.0),
    ):
        sparse.save_npz(tmp_path / "A.npz", array)
        found = sp.asarray(tmp_path / "A.npz")
        assert found.fill_value == 2
        assert found.nnz == array.nnz
        assert np.array_equal(found.to_numpy(), array.todense())
    sp.asarray(array).to_npz(tmp_path / "B.npz")
    assert np.array_equal(sparse.load_npz(tmp_path / "B.npz").todense(), dense[0, 0])
    sp.asarray(np.array([0, 2], np.float16)).to_npz(tmp_path / "B.npz")  # another dtype that SciPy has not
    assert np.array_equal(sp.asarray(tmp_path / "B.npz").to_numpy(), np.array([0, 2], np.float16))


def test_invalid_npz_raises(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("nothing of the kind")
    np.savez(tmp_path / "dense.npz", a=np.eye(2))
    for name in ("text.npz", "dense.npz"):
        with pytest.raises(InvalidValueError, match=f"{name} is not a sparse array") as caught:
            sp.asarray(tmp_path / name)
        assert "pickle" not in str(caught.value)  # NumPy's guess, of whatever is no archive
    with pytest.raises(FileNotFoundError):
        sp.asarray(tmp_path / "missing.npz")
    with pytest.raises(ValueError, match=r"sp\.open"):
        sp.asarray("web.sparrow")
    with pytest.raises(InvalidValueError, match=r"must end in \.npz"):
        sp.ingest.npz(tmp_path / "text.csv", tmp_path / "T.sparrow")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(FileExistsError, match=r"folder\.npz' is a folder"):
        sp.asarray([1]).to_npz(tmp_path / "folder.npz")


@pytest.mark.parametrize(
    ("source", "options", "problem"),
    [
        ({"i": [0, 1], "value": [1, 2], "value_im": [1, None]}, {}, "'value_im' has 1 nulls"),
        ({"i": [0, 1], "value": [1, 2], "value_im": ["a", "b"]}, {}, "'value_im' holds .*string"),
        ({"i": [0, 1], "value": [[1], [2]]}, {}, "'value' holds .*list"),
        ({"i": [0, 1], "v": [0.5, 2]}, {}, "'v' holds double.* pass the columns of coordinates as coords="),
        ({"i": [0, 1], "v": [1, 2]}, {"coords": ["i"], "value": "w"}, "no column 'w', columns are 'i', 'v'"),
        ({"i": [0, 1], "v": [1, 2]}, {"coords": ["i"], "shape": (2, 2)}, "must have 1 sizes for the columns 'i'"),
    ],
)
def test_invalid_table_raises(source: Any, options: dict[str, Any], problem: str) -> None:
    table = pa.table(source)
    for given_as in (table, pl.DataFrame(table), pl.LazyFrame(table)):
        with pytest.raises(SparrowError, match=problem):
            sp.asarray(given_as, **options)


def test_not_a_table_raises() -> None:
    twice = pa.Table.from_arrays([pa.array([0])] * 3, ["i", "i", "value"])
    with pytest.raises(InvalidValueError, match="2 columns have the name 'i'"):
        sp.asarray(twice)
    with pytest.raises(UnsupportedError, match="expected a table, got ndarray"):
        sp.from_relation(np.eye(2), coords=["i"])


@pytest.mark.parametrize("column", [pl.Series([1, 0]), pa.chunked_array([[1, 0]])], ids=["polars", "arrow"])
def test_single_column_raises(column: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"a single column: pass its to_numpy\(\)"):
        sp.asarray(column)
    assert sp.asarray(column.to_numpy()).nnz == 1


@pytest.mark.parametrize("option", [{"shape": (5, 5)}, {"coords": ["i"]}, {"value": "v"}, {"duplicates": "sum"}])
def test_table_options_on_arrays_raise(option: dict[str, Any]) -> None:
    for array in (np.eye(2), scipy.sparse.eye_array(2), sp.formats.CSR([1], [0], [0, 1])):
        with pytest.raises(InvalidValueError, match="= applies to tables only"):
            sp.asarray(array, **option)


def test_masked_and_ragged_raise() -> None:
    with pytest.raises(UnsupportedError, match="masked elements"):
        sp.asarray(np.ma.masked_array([1, 2], mask=[False, True]))
    assert sp.asarray(np.ma.masked_array([1, 2])).to_numpy().tolist() == [1, 2]
    with pytest.raises(ShapeError, match="must have the same length"):
        sp.asarray([[1], [1, 2]])
    with pytest.raises(UnsupportedError, match="masked elements"):
        sp.from_coords([[0, 1]], np.ma.masked_array([1, 2], mask=[False, True]))
    with pytest.raises(UnsupportedError, match="numbers of 64 bits or booleans"):
        sp.asarray([1, None])


def test_failed_npz_keeps_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "A.npz"
    path.write_bytes(b"old")

    def full(*args: Any, **arrays: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space"):
        sp.asarray(np.eye(3)).to_npz(path)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("A.npz", b"old")]


# -- pydata/sparse -------------------------------------------------------------------------------


def test_pydata_sparse_in_and_out() -> None:
    sparse = pytest.importorskip("sparse")
    dense = some_dense((3, 4, 2), 4) + 1
    A = sp.asarray(sparse.COO.from_numpy(dense, fill_value=1.0))
    assert A.fill_value == 1
    assert np.array_equal(A.to_numpy(), dense)
    for other in (sparse.GCXS.from_numpy(dense, fill_value=1.0), sparse.DOK.from_numpy(dense)):
        assert np.array_equal(sp.asarray(other).to_numpy(), dense)
        assert sp.asarray(other).fill_value == other.fill_value
    out = A[1:].to_pydata_sparse()
    assert isinstance(out, sparse.COO)
    assert out.fill_value == 1
    assert out.nnz == A[1:].nnz
    assert np.array_equal(out.todense(), dense[1:])
    assert np.array_equal(sp.asarray(np.float64(3)).to_pydata_sparse().todense(), 3)


# -- PyTorch and CuPy ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_torch_in_and_out() -> None:
    torch = pytest.importorskip("torch")
    for dtype in ("bool", "uint8", "int64", "float16", "float32", "complex64"):
        for shape in ((5,), (3, 4), (2, 3, 4), (0, 3)):
            dense = some_dense(shape, 5, dtype)
            A = sp.asarray(dense)
            out = A.to_torch()
            assert out.layout == torch.sparse_coo
            assert out.is_coalesced()
            assert np.array_equal(out.to_dense().numpy(), dense)
            assert np.array_equal(sp.asarray(out).to_numpy(), dense)
            assert sp.asarray(torch.from_numpy(dense)).dtype == dense.dtype
            if len(shape) == 2:
                rows = A.T.to_torch("csr")
                assert rows.layout == torch.sparse_csr
                assert rows.crow_indices().dtype == torch.int32
                assert np.array_equal(rows.to_dense().numpy(), dense.T)
                assert np.array_equal(sp.asarray(rows).to_numpy(), dense.T)
    a = sp.asarray(np.eye(3)).to_torch()
    torch.sparse.check_sparse_tensor_invariants.enable()
    b = torch.sparse_coo_tensor([[0, 0], [1, 1]], [2.0, 3.0], (2, 2), dtype=torch.bfloat16, requires_grad=True)
    assert torch.equal(torch.sparse.mm(a, torch.ones(3, 2, dtype=torch.float64)), torch.ones(3, 2, dtype=torch.float64))
    assert np.array_equal(sp.asarray(b).to_numpy(), np.array([[0, 5], [0, 0]], np.float32))
    assert np.array_equal(sp.asarray(a.to_dense().to_sparse_csc()).to_numpy(), np.eye(3))
    with pytest.raises(TypeError, match="dense dimensions"):
        sp.asarray(torch.sparse_coo_tensor([[0]], [[1.0, 2.0]], (2, 2)))
    with pytest.raises(ShapeError, match="two dimensions"):
        sp.asarray(np.ones(3)).to_torch("csr")
    with pytest.raises(InvalidValueError, match="'coo' or 'csr'"):
        sp.asarray(np.ones(3)).to_torch("csc")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="need fill 0, the tensor has"):
        (sp.asarray(np.eye(2)) + 1).to_torch()


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    A = sp.asarray(np.eye(2))
    for name, convert in (("torch", A.to_torch), ("cupy", A.to_cupy), ("sparse", A.to_pydata_sparse)):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingDependencyError, match=f"pip install {name}"):
            convert()


def test_cupy_in_and_out() -> None:
    cupy = pytest.importorskip("cupy")
    dense = some_dense((3, 4), 6)
    for kind in FORMATS:
        out = sp.asarray(dense).to_cupy(kind)
        assert np.array_equal(out.toarray().get(), dense)
        assert np.array_equal(sp.asarray(out).to_numpy(), dense)
    assert np.array_equal(sp.asarray(cupy.asarray(dense)).to_numpy(), dense)


def test_cupy_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a GPU: SciPy's own classes stand where CuPy's would, whose constructors take the same.
    kinds = {f"{name}_matrix": getattr(scipy.sparse, f"{name}_matrix") for name in ("csr", "csc", "coo")}
    for name in ("cupy", "cupyx", "cupyx.scipy", "cupyx.scipy.sparse"):
        module = ModuleType(name)
        vars(module).update(asarray=np.asarray, **(kinds if name.endswith("sparse") else {}))
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["cupyx"].scipy = SimpleNamespace(sparse=sys.modules["cupyx.scipy.sparse"])  # type: ignore[attr-defined]
    cuda = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=lambda: 1))
    sys.modules["cupy"].cuda = cuda  # type: ignore[attr-defined]
    dense = some_dense((3, 4), 6)
    for kind in FORMATS:
        out = sp.asarray(dense).to_cupy(kind)
        assert out.format == kind
        assert np.array_equal(out.toarray(), dense)
    with pytest.raises(UnsupportedError, match="not int64"):
        sp.asarray(dense.astype(int)).to_cupy()
    with pytest.raises(UnsupportedError, match="got 3 dimensions"):
        sp.asarray(np.ones((2, 2, 2))).to_cupy()

    class Narrow(scipy.sparse.coo_matrix):  # type: ignore[misc]
        row = np.zeros(1, np.int32)

    sys.modules["cupyx.scipy.sparse"].coo_matrix = Narrow  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedError, match="has int32 indices"):
        sp.from_coords([[0], [2**35]], [1.0], shape=(2, 2**36)).to_cupy("coo")

    def none() -> int:
        raise RuntimeError("cudaErrorNoDevice")

    cuda.runtime.getDeviceCount = none
    with pytest.raises(MissingDependencyError, match=r"needs a CUDA device.*cudaErrorNoDevice"):
        sp.asarray(dense).to_cupy()

    class OnDevice:
        def get(self) -> Any:
            return scipy.sparse.csr_matrix(dense)

    OnDevice.__module__ = "cupyx.scipy.sparse._csr"
    assert np.array_equal(sp.asarray(OnDevice()).to_numpy(), dense)


# -- Arrow streams -------------------------------------------------------------------------------


def test_arrow_stream_roundtrip() -> None:
    A = sp.from_coords([[0, 2, 2], [1, 0, 3]], [5.5, 6, 7], shape=(4, 5), dims=("i", "j"))
    reader = pa.RecordBatchReader.from_stream(A)
    for found in (
        sp.asarray(reader, shape=(4, 5)),
        sp.from_relation(A, coords=["i", "j"], shape=(4, 5)),
        sp.from_relation(A.to_polars(lazy=True), coords=["i", "j"], value="value", shape=(4, 5)),
        sp.asarray(A.to_polars(lazy=True), shape=(4, 5)),
        sp.asarray(A.to_polars(), shape=(4, 5)),
    ):
        assert found.dims == A.dims
        assert np.array_equal(found.to_numpy(), A.to_numpy())
    empty = pl.LazyFrame({"i": [], "value": []}, schema={"i": pl.Int32, "value": pl.Float32})
    assert sp.asarray(empty, shape=(3,)).dtype == np.float32


def test_oversized_stream_aborts_early() -> None:
    taken = 0

    def endless() -> Any:
        nonlocal taken
        while True:
            taken += 1
            yield pa.record_batch({"i": np.arange(10_000) + 10_000 * taken, "value": np.ones(10_000)})

    batch = next(endless())
    reader = pa.RecordBatchReader.from_batches(batch.schema, endless())
    with sp.config(memory_limit="10MB"), pytest.raises(TooLargeError, match=r"sp\.ingest\.columns"):
        sp.asarray(reader, coords=["i"])
    assert taken < 50
    frame = pl.LazyFrame({"i": np.arange(10**6), "value": np.ones(10**6), "more": np.ones(10**6)})
    with sp.config(memory_limit="10MB"), pytest.raises(TooLargeError, match="more than"):
        sp.asarray(frame, coords=["i"])


def test_stream_beyond_limit_stored_within_it(tmp_path: Path) -> None:
    code = """
import re, sys
import numpy as np, pyarrow as pa
import sparrow as sp, sparrow.ingest

def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) * 1024

count, rows = 35, 200_000  # 7 M elements of 40 bytes: 280 MB
def batches():
    for k in range(count):
        at = np.random.default_rng(k).permutation(rows) * count + k
        yield pa.record_batch({"i": at, "j": at % 1000, "k": at % 7, "l": at % 5, "value": at * 0.5 + 1})
schema = next(batches()).schema
sp.config(memory_limit="250MB", temp_directory=sys.argv[1], threads=2)
small = pa.RecordBatchReader.from_batches(schema, [next(batches()).slice(0, 1000)])
sp.ingest.columns(small, sys.argv[1] + "/small.sparrow", coords=list("ijkl"), value="value")  # compiles
A = sp.ingest.columns(
    pa.RecordBatchReader.from_batches(schema, batches()), sys.argv[1] + "/A.sparrow", coords=list("ijkl"), value="value"
)
assert A.nnz == count * rows
assert sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(A)) == A.nnz
print(peak())
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    peak = int(run.stdout.split()[-1])
    assert peak <= 450e6


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (2, 1, 3, 2, 2)])
def test_default_formats_support_any_dimensions(shape: tuple[int, ...]) -> None:
    dense = np.arange(np.prod(shape)).reshape(shape) % 3
    tensor = sp.asarray(dense)
    found = tensor.to_scipy()
    assert found.format == ("csr" if len(shape) <= 2 else "coo")
    np.testing.assert_array_equal(found.toarray(), dense)
    np.testing.assert_array_equal(tensor.to_format("coo").to_scipy().toarray(), dense)
    if len(shape) > 2:
        with pytest.raises(UnsupportedError, match="must be one of 'coo', got 'csr'"):
            tensor.to_scipy("csr")
    if len(shape) != 2:
        with pytest.raises(UnsupportedError, match=f"the tensor must be a matrix, got {len(shape)} dimensions"):
            tensor.to_cupy()


BYTE_ORDERED = {
    "csr": ["data", "indices", "indptr"], "csc": ["data", "indices", "indptr"], "bsr": ["data", "indices", "indptr"],
    "coo": ["data", "coords"], "dia": ["data", "offsets"], "lil": ["dtype"], "dok": ["dtype"],
}  # fmt: skip


def swap_bytes(value: Any) -> Any:
    """Return arrays, or a dtype, in the other byte order."""
    if isinstance(value, tuple):
        return tuple(map(swap_bytes, value))
    return value.newbyteorder() if isinstance(value, np.dtype) else value.astype(value.dtype.newbyteorder())


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("layout", BYTE_ORDERED)
def test_scipy_arrays_of_the_other_byte_order(layout: str, kind: str) -> None:
    dense = np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 5]])
    A = sp.asarray(dense)
    for names in ([name] for name in BYTE_ORDERED[layout]):
        x = getattr(scipy.sparse, f"{layout}_{kind}")(dense)
        for name in names:
            setattr(x, name, swap_bytes(getattr(x, name)))
        before = {name: getattr(x, name) for name in names}
        for found, expected in (
            (sp.asarray(x), dense), (A @ x, dense @ dense), (A + x, dense + dense), (np.multiply(A, x), dense * dense),
            (sp.formats.CSR.from_array(x), dense), (sp.concat([A, x]), np.concatenate([dense, dense])),
        ):  # fmt: skip
            np.testing.assert_array_equal(found.to_numpy() if hasattr(found, "to_numpy") else found, expected)
        np.testing.assert_allclose(sp.linalg.spsolve(x, np.ones(3)), np.linalg.solve(dense, np.ones(3)))
        B = sp.zeros((3, 3)).compute()
        B[:] = x
        np.testing.assert_array_equal(B.to_numpy(), dense)
        assert all(getattr(x, name) is value for name, value in before.items())
