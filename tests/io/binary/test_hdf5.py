"""AnnData and 10x Genomics, against h5py and SciPy."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import IngestError, NotFoundError, SparrowError, UnsupportedError
from sparrow.io.base.detect import detect_format
from sparrow.testing import tune


def random_matrix(seed: int, height: int, width: int, kind: str = "f4") -> Any:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((height, width)) < 0.3, rng.integers(1, 9, (height, width)), 0).astype(kind)


def write_compressed(group: Any, dense: Any, kind: str) -> None:
    matrix = getattr(scipy.sparse, f"{kind}_array")(dense)
    for name in ("data", "indices", "indptr"):
        group.create_dataset(name, data=getattr(matrix, name))


@settings(max_examples=15)
@given(
    st.integers(0, 2**32), st.integers(0, 9), st.integers(0, 9), st.sampled_from(["csr", "csc", "dense"]),
    st.sampled_from(["f4", "i8", "?"]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_annotated_matrix(
    tmp_path_factory: pytest.TempPathFactory, seed: int, height: int, width: int, kind: str, values: str, old: bool,
    small: bool,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("h5ad")
    dense = random_matrix(seed, height, width, values)
    with h5py.File(folder / "a.h5ad", "w") as file:
        if kind == "dense":
            file["layers/counts"] = dense
        else:
            group = file.create_group("layers/counts")
            group.attrs["h5sparse_format" if old else "encoding-type"] = kind if old else f"{kind}_matrix"
            group.attrs["h5sparse_shape" if old else "shape"] = dense.shape
            write_compressed(group, dense, kind)
        names = [f"cell {k}" for k in range(height)]
        if old:
            file["obs"] = np.array([(name.encode(),) for name in names], [("index", "S9")])
        else:
            file.create_group("obs").attrs["_index"] = "names"
            file["obs"].create_dataset("names", (height,), h5py.string_dtype())[...] = names
    sizes: dict[str, Any] = (
        {"hdf5_rows": 2, "hdf5_elements": 3, "hdf5_dense_elements": 12} if small else {"hdf5_rows": 1000}
    )
    with tune("io", **sizes):
        A = sp.ingest.h5ad(folder / "a.h5ad", folder / "A.sparrow", matrix="layers/counts")
    assert (A.dims, A.dtype) == (("obs", "var"), dense.dtype)
    np.testing.assert_array_equal(A.to_numpy(), dense)
    assert A.labels("obs").to_pylist() == names
    assert A.labels("var") is None
    assert sp.export(A, folder / "b.h5ad") == np.count_nonzero(dense)
    again = sp.ingest.h5ad(folder / "b.h5ad", folder / "B.sparrow")
    np.testing.assert_array_equal(again.to_numpy(), dense)
    assert again.labels("obs").to_pylist() == names
    assert again.labels("var").to_pylist() == [str(k) for k in range(width)]


@pytest.mark.filterwarnings("ignore")  # of pandas, about what anndata asks of it
def test_export_is_read_by_anndata(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata", reason="needs anndata")
    dense = random_matrix(0, 5, 7)
    A = sp.from_coords(np.nonzero(dense), dense[np.nonzero(dense)], shape=(5, 7), dims=("obs", "var"),
                       labels={"var": list("abcdefg")})  # fmt: skip
    sp.export(A, tmp_path / "a.h5ad")
    found = anndata.read_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(found.X.toarray(), dense)
    assert list(found.var_names) == list("abcdefg")
    assert list(found.obs_names) == list("01234")
    found.layers["columns"] = scipy.sparse.csc_array(dense * 2)
    found.raw = found.copy()
    found.obsp["near"] = scipy.sparse.csr_array(np.eye(5))
    with anndata.settings.override(allow_write_nullable_strings=True):
        found.write_h5ad(tmp_path / "b.h5ad")
    own = ("obs", "var")
    for matrix, want, dims in [
        ("X", dense, own),
        ("layers/columns", dense * 2, own),
        ("raw/X", dense, own),
        ("obsp/near", np.eye(5), ("obs", "obs2")),
    ]:
        B = sp.ingest.h5ad(tmp_path / "b.h5ad", tmp_path / "B.sparrow", matrix=matrix, overwrite=True)
        assert B.dims == dims
        np.testing.assert_array_equal(B.to_numpy(), want)
        assert B.labels(0).to_pylist() == list("01234")


def test_real_files(shared_data: Path, tmp_path: Path) -> None:
    cells = sp.ingest.h5ad(shared_data / "h5ad" / "subset_100_100.h5ad", tmp_path / "A.sparrow")
    assert (cells.shape, cells.nnz, cells.dtype) == ((100, 100), 13, np.float32)
    with h5py.File(shared_data / "h5ad" / "subset_100_100.h5ad") as file:
        assert cells.labels("var").to_pylist() == file["var/_index"].asstr()[:].tolist()
    folder = sp.ingest.tenx(shared_data / "10x-v3", tmp_path / "B.sparrow")
    file10 = sp.ingest.tenx(shared_data / "10x-v3" / "filtered_feature_bc_matrix.h5", tmp_path / "C.sparrow")
    assert (folder.shape, folder.nnz, folder.dims) == ((507, 1107), 23866, ("feature", "barcode"))
    assert (folder.dtype, file10.dtype) == (np.int64, np.int32)
    np.testing.assert_array_equal(folder.to_numpy(), file10.to_numpy())
    for dim in folder.dims:
        assert folder.labels(dim).equals(file10.labels(dim))
    old = sp.ingest.tenx(shared_data / "10x-v1", tmp_path / "D.sparrow")
    assert (old.shape, old.nnz) == ((343, 12), 12)
    assert detect_format(str(shared_data / "10x-v3")).format == "tenx"
    assert detect_format(str(shared_data / "10x-v3" / "filtered_feature_bc_matrix.h5")).format == "tenx"
    assert detect_format(str(shared_data / "h5ad" / "subset_100_100.h5ad")).format == "h5ad"


def tenx_folder(folder: Path, dense: Any, beginning: str = "", packed: bool = False) -> None:
    lines = [
        "%%MatrixMarket matrix coordinate integer general",
        f"{dense.shape[0]} {dense.shape[1]} {np.count_nonzero(dense)}",
    ]
    lines += [f"{i + 1} {j + 1} {dense[i, j]}" for j, i in np.argwhere(dense.T)]
    texts = {
        "matrix.mtx": "\n".join(lines) + "\n",
        "barcodes.tsv": "".join(f"C{j}-1\n" for j in range(dense.shape[1])),
        "features.tsv" if packed else "genes.tsv": "".join(f"E{i}\tname{i // 2}\n" for i in range(dense.shape[0])),
    }
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{beginning}{name}{'.gz' * packed}").write_bytes(
            gzip.compress(text.encode()) if packed else text.encode()
        )


@pytest.mark.parametrize(("beginning", "packed"), [("", False), ("GSM1_", True)])
def test_folders(tmp_path: Path, beginning: str, packed: bool) -> None:
    dense = random_matrix(1, 4, 3, "i8")
    folder = tmp_path / "counts"
    tenx_folder(folder, dense, beginning, packed)
    if not packed:  # as R writes texts
        (folder / "barcodes.tsv").write_text('"C0-1"\n"C1""-1"\nC2-1\n')
    A = sp.ingest.tenx(folder, tmp_path / "A.sparrow", dtype="int32")
    assert A.labels("barcode").to_pylist() == ["C0-1", "C1-1" if packed else 'C1"-1', "C2-1"]
    assert (A.dims, A.dtype) == (("feature", "barcode"), np.int32)
    np.testing.assert_array_equal(A.to_numpy(), dense)
    assert A.labels("feature").to_pylist() == ["E0", "E1", "E2", "E3"]
    with pytest.raises(IngestError, match="two features have the same name: pass features='id'") as found:
        sp.ingest.tenx(folder, tmp_path / "B.sparrow", features="name")
    assert found.value.token == "name0"
    with pytest.raises(IngestError, match=r"in a folder below: sp\.ingest\.tenx\(.*/counts', "):
        sp.ingest.tenx(tmp_path, tmp_path / "B.sparrow")
    path = next(path for path in folder.iterdir() if "barcodes" in path.name)
    path.write_bytes(b"only one\n")
    with pytest.raises(IngestError, match="expected 3 barcodes, the size of the dimension, got 1"):
        sp.ingest.tenx(folder, tmp_path / "B.sparrow")
    path.unlink()
    with pytest.raises(NotFoundError, match=r"there is no file .*barcodes\.tsv"):
        sp.ingest.tenx(folder, tmp_path / "B.sparrow")
    assert not (tmp_path / "B.sparrow").exists()


def test_folders_of_peaks(tmp_path: Path) -> None:
    folder = tmp_path / "counts"
    tenx_folder(folder, random_matrix(1, 2, 3, "i8"))
    (folder / "genes.tsv").unlink()
    (folder / "peaks.bed").write_text("# so\nchr1\t5\t10\nchr2\t7\t90\tmore\n")
    found = sp.ingest.tenx(folder, tmp_path / "A.sparrow", features="name")
    assert found.labels("feature").to_pylist() == ["chr1:5-10", "chr2:7-90"]
    (folder / "peaks.bed").write_text("chr1\t5\n")
    with pytest.raises(IngestError, match="must have a chromosome, begin and end") as caught:
        sp.ingest.tenx(folder, tmp_path / "B.sparrow")
    assert caught.value.line == 1


def test_old_files_of_several_genomes(tmp_path: Path) -> None:
    dense = random_matrix(1, 4, 3, "i4")
    with h5py.File(tmp_path / "old.h5", "w") as file:
        for genome in ("hg19", "mm10"):
            group = file.create_group(genome)
            write_compressed(group, dense, "csc")
            group["shape"] = dense.shape
            group["barcodes"] = np.array([b"A", b"B", b"C"])
            group["genes"] = np.array([f"E{i}".encode() for i in range(4)])
            group["gene_names"] = np.array([f"n{i}".encode() for i in range(4)])
    with pytest.raises(IngestError, match="several genomes: pass genome='hg19'"):
        sp.ingest.tenx(tmp_path / "old.h5", tmp_path / "A.sparrow")
    A = sp.ingest.tenx(tmp_path / "old.h5", tmp_path / "A.sparrow", genome="mm10", features="name")
    np.testing.assert_array_equal(A.to_numpy(), dense)
    assert A.labels("feature").to_pylist() == ["n0", "n1", "n2", "n3"]


def test_bad_input(tmp_path: Path) -> None:
    def attempt(change: Any, problem: str, **options: Any) -> None:
        dense = random_matrix(3, 4, 5)
        with h5py.File(tmp_path / "a.h5ad", "w") as file:
            group = file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "shape": dense.shape})
            write_compressed(group, dense, "csr")
            change(file)
        with pytest.raises(IngestError, match=problem) as found:
            sp.ingest.h5ad(tmp_path / "a.h5ad", tmp_path / "A.sparrow", **options)
        assert found.value.file == str(tmp_path / "a.h5ad")
        assert not (tmp_path / "A.sparrow").exists()

    def bad_index(file: Any) -> None:
        file["X/indices"][0] = 5

    def bad_pointer(file: Any) -> None:
        file["X/indptr"][1] = 100

    def same_names(file: Any) -> None:
        file.create_group("var").attrs["_index"] = "n"
        file["var/n"] = np.array([b"a"] * 5)

    attempt(lambda file: None, "there is no matrix 'layers/a': pass matrix='X', of X", matrix="layers/a")
    attempt(bad_index, "index 0 of '/X' must be from 0 to 4, got 5")
    attempt(bad_pointer, "must ascend")
    attempt(same_names, "two names of var have the same name: pass labels=False")
    attempt(lambda file: file["X"].attrs.update({"shape": (9, 5)}), "must have 10 integers")
    attempt(lambda file: file["X"].attrs.update({"encoding-type": "other"}), "must be a matrix of AnnData, got 'other'")
    attempt(lambda file: file["X"].attrs.pop("shape"), "'/X' must have an attribute 'shape' of two sizes")
    attempt(
        lambda file: file.move("X", "raw/X"),
        "'/raw' must be a matrix of AnnData, got a group: pass matrix='raw/X'",
        matrix="raw",
    )

    def nothing(file: Any) -> None:  # as anndata writes where there is none
        file.move("X", "layers/counts")
        file["X"] = h5py.Empty("f4")

    attempt(nothing, "there is no matrix 'X': pass matrix='layers/counts', of layers/counts")
    (tmp_path / "a.h5ad").write_text("text")
    with pytest.raises(IngestError, match="this is not an HDF5 file"):
        sp.ingest.h5ad(tmp_path / "a.h5ad", tmp_path / "A.sparrow")
    (tmp_path / "a.h5ad.gz").write_bytes(gzip.compress(b"\x89HDF\r\n\x1a\n"))
    with pytest.raises(IngestError, match=r"gzip -dc \S+/a\.h5ad\.gz > \S+/a\.h5ad and read that"):
        sp.ingest.h5ad(tmp_path / "a.h5ad.gz", tmp_path / "A.sparrow")
    with pytest.raises(UnsupportedError, match="h5ad needs a real matrix"):
        sp.export(sp.asarray(np.ones(3)), tmp_path / "c.h5ad")


def test_external_hdf5_links_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["X"] = np.eye(2)
    layout = h5py.VirtualLayout((2, 2), float)
    layout[:] = h5py.VirtualSource("other.h5", "X", (2, 2))
    within = h5py.VirtualLayout((2, 2), float)
    within[:] = h5py.VirtualSource(".", "link", (2, 2))

    def attempt(build: Any) -> None:
        with h5py.File(tmp_path / "a.h5ad", "w") as file:
            build(file)
        with pytest.raises(IngestError, match=r"other files?, which (is|are) not read"):
            sp.ingest.h5ad(tmp_path / "a.h5ad", tmp_path / "A.sparrow")

    attempt(lambda file: file.create_dataset("X", (2, 3), "u1", external=[(str(tmp_path / "secret"), 0, 6)]))
    attempt(lambda file: file.create_virtual_dataset("X", layout))
    attempt(lambda file: file.update({"X": h5py.ExternalLink("other.h5", "X")}))

    def behind(file: Any) -> None:
        file["link"] = h5py.ExternalLink("other.h5", "X")
        file.create_virtual_dataset("X", within)

    attempt(behind)

    def make_link(member: str) -> Any:
        def build(file: Any) -> None:
            file.create_group("X").attrs.update({"encoding-type": "csr_matrix", "shape": (2, 2)})
            file["X"].update({"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2]})
            file["obs/_index"], file["var/_index/values"] = np.array([b"a", b"b"]), np.array([b"c", b"d"])
            file["var/_index/mask"] = np.zeros(2, bool)
            del file[member]
            file[member] = h5py.ExternalLink("other.h5", "X")

        return build

    for member in ("X/data", "X/indptr", "obs", "obs/_index", "var/_index/values", "var/_index/mask"):
        attempt(make_link(member))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        told = {"version": "0.1", "format": "DVEC", "shape": [2], "data_types": {"values": "float64"}}
        file.attrs["binsparse"] = json.dumps({"binsparse": told})
        file["values"] = h5py.ExternalLink("other.h5", "X")
    with pytest.raises(IngestError, match="'values' is a link to another file"):
        sp.ingest.binsparse(tmp_path / "a.h5", tmp_path / "A.sparrow")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        parts = {"data": [1], "indices": [0], "indptr": [0, 1], "shape": [1, 1], "barcodes": np.array([b"a"])}
        file.create_group("matrix").update(parts)
        file["matrix/features"] = h5py.ExternalLink("other.h5", "/")
    with pytest.raises(IngestError, match="'features' is a link to another file"):
        sp.ingest.tenx(tmp_path / "a.h5", tmp_path / "A.sparrow")


def test_categorical_names_and_other_tables(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"], file["obsm/X_pca"] = np.eye(3, 2), np.ones((3, 4))
        file.create_group("obs").attrs["_index"] = "n"
        file["obs/n/categories"] = np.array([b"p", b"q", b"r"])
        file["obs/n/codes"] = np.array([2, 0, 1], "i1")
        file.create_group("var").attrs["_index"] = "n"
        file["var/n/values"], file["var/n/mask"] = np.array([b"a", b"b"]), np.array([False, True])
    with pytest.raises(IngestError, match="names in '/var/n' are missing: pass labels=False"):
        sp.ingest.h5ad(tmp_path / "a.h5ad", tmp_path / "A.sparrow")
    found = sp.ingest.h5ad(tmp_path / "a.h5ad", tmp_path / "A.sparrow", matrix="obsm/X_pca")
    assert (found.shape, found.dims) == ((3, 4), ("obs", "component"))
    assert found.labels("obs").to_pylist() == ["r", "p", "q"]


def test_categorical_names_of_old_files(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"] = np.eye(3, 2)
        for axis, codes in (("obs", [2, 0, 1]), ("var", [1, 0])):
            group = file.create_group(axis)
            group.attrs["_index"] = "n"
            group["n"], group["__categories/n"] = np.array(codes, "i1"), np.array([b"p", b"q", b"r"])
            group["n"].attrs["categories"] = group["__categories/n"].ref
    found = sp.ingest.h5ad(tmp_path / "a.h5ad", tmp_path / "A.sparrow")
    assert found.labels("obs").to_pylist() == ["r", "p", "q"]
    assert found.labels("var").to_pylist() == ["q", "p"]
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        file["obs/n"].attrs["categories"] = file["obs/n"].ref
    with pytest.raises(IngestError, match="the categories of '/obs/n' are damaged"):
        sp.ingest.h5ad(tmp_path / "a.h5ad", tmp_path / "B.sparrow")


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.booleans())
def test_damage(tmp_path_factory: pytest.TempPathFactory, seed: int, cut: bool) -> None:
    folder = tmp_path_factory.mktemp("damage")
    rng = np.random.default_rng(seed)
    sp.export(sp.asarray(random_matrix(0, 6, 5)), folder / "a.h5ad")
    data = bytearray((folder / "a.h5ad").read_bytes())
    if cut:
        data = data[: int(rng.integers(8, len(data)))]
    else:
        for at in rng.integers(8, len(data), 4):
            data[at] ^= int(rng.integers(1, 256))
    (folder / "a.h5ad").write_bytes(data)
    try:
        sp.ingest.h5ad(folder / "a.h5ad", folder / "A.sparrow")
    except SparrowError:
        assert not (folder / "A.sparrow").exists()


def test_damaged_heap_is_rejected(tmp_path: Path) -> None:
    sp.export(sp.asarray(random_matrix(0, 6, 5)), tmp_path / "a.h5ad")
    data = bytearray((tmp_path / "a.h5ad").read_bytes())
    heap = data.index(b"GCOL")
    data[heap + 24 : heap + 32] = (3000).to_bytes(8, "little")  # its first object reaches into what is free
    (tmp_path / "a.h5ad").write_bytes(data)
    with pytest.raises(IngestError, match=f"the heap of texts at byte {heap} is damaged"):
        sp.ingest.h5ad(tmp_path / "a.h5ad", tmp_path / "A.sparrow")
