"""Readers of files next to the usual ones: seconds and peak memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import scipy.io
import scipy.sparse
import sparse
from harness import DATA, Row, fresh, in_process, processes_in_turn
from pyarrow import feather
from pyarrow import parquet as pq

import sparrow as sp

OURS = """
import sparrow as sp
import sparrow.ingest
sp.config(threads=2, progress=False)
read = getattr(sp.ingest, args[0])
options = eval(args[4])
read(args[1], args[3], overwrite=True, **options)
begin()
read(args[2], args[3], overwrite=True, **options)
"""
"""Reads a small file first, so that imports and compiled code are not counted; the peer imports before."""

PEERS = {
    "webgraph": ("ASCIIGraph by str.split and SciPy", """
import numpy as np, scipy.sparse
begin()
with open(args[0] + "-txt") as file:
    n = int(next(file))
    lists = [np.array(line.split(), np.int32) for line in file]
rows = np.repeat(np.arange(n), [len(each) for each in lists])
scipy.sparse.csr_array((np.ones(len(rows)), (rows, np.concatenate(lists))), shape=(n, n))
"""),
    "edges": ("networkx.read_edgelist", """
import networkx
begin()
networkx.read_edgelist(args[0], create_using=networkx.DiGraph, nodetype=int)
"""),
    "edges-igraph": ("igraph.Graph.Read_Edgelist", """
import igraph
begin()
igraph.Graph.Read_Edgelist(args[0])
"""),
    "mtx": ("scipy.io.mmread", """
import scipy.io
begin()
scipy.io.mmread(args[0])
"""),
    "mtx-columns": ("scipy.io.mmread", """
import scipy.io
begin()
scipy.io.mmread(args[0])
"""),
    "mtx-npz": ("scipy.io.mmread, tocsr and save_npz, not compressed", """
import scipy.io, scipy.sparse
begin()
scipy.sparse.save_npz(args[0] + ".npz", scipy.io.mmread(args[0]).tocsr(), compressed=False)
"""),
    "tns": ("pandas.read_csv", """
import pandas
begin()
pandas.read_csv(args[0], sep=" ", header=None)
"""),
    "npz": ("scipy.sparse.load_npz and sum_duplicates", """
import scipy.sparse
begin()
scipy.sparse.load_npz(args[0]).tocoo().tocsr().sum_duplicates()
"""),
    "npz-pydata": ("sparse.load_npz", """
import sparse
begin()
sparse.load_npz(args[0])
"""),
    "npy": ("numpy.load and csr_array", """
import numpy as np, scipy.sparse
begin()
scipy.sparse.csr_array(np.load(args[0]))
"""),
    "libffm": ("lists by str.split", """
import numpy as np
begin()
labels, lists = [], []
with open(args[0]) as file:
    for k, line in enumerate(file):
        label, *cells = line.split()
        labels.append(float(label))
        lists += [(k, *cell.split(":")) for cell in cells]
np.array(lists, np.float64)
"""),
    "tenx": ("h5py and csc_array", """
import h5py, scipy.sparse
begin()
with h5py.File(args[0]) as file:
    group = file["matrix"]
    parts = group["data"][:], group["indices"][:], group["indptr"][:]
    names = group["barcodes"].asstr()[:], group["features/id"].asstr()[:]
    scipy.sparse.csc_array(parts, shape=tuple(group["shape"][:])).tocsr()
"""),
    "binsparse": ("h5py and csr_array", """
import h5py, json, scipy.sparse
begin()
with h5py.File(args[0]) as file:
    shape = json.loads(file.attrs["binsparse"])["binsparse"]["shape"]
    scipy.sparse.csr_array((file["values"][:], file["indices_1"][:], file["pointers_to_1"][:]), shape=shape)
"""),
    "parquet": ("pandas.read_parquet and sort_values", """
import pandas
begin()
pandas.read_parquet(args[0]).sort_values(["user", "film"])
"""),
    "arrow": ("pandas.read_feather and sort_values", """
import pandas
begin()
pandas.read_feather(args[0]).sort_values(["user", "film"])
"""),
    "h5ad": ("anndata.read_h5ad", """
import warnings, anndata
warnings.simplefilter("ignore")
begin()
anndata.read_h5ad(args[0])
"""),
    "triples": ("pandas.read_csv and factorize", """
import numpy as np, pandas
begin()
table = pandas.read_csv(args[0], sep="\\t", header=None)
codes, names = pandas.factorize(np.concatenate([table[0], table[2]]), sort=True)
pandas.factorize(table[1], sort=True)
"""),
    "columns": ("pandas.read_csv(sep='::', engine='python')", """
import pandas
begin()
pandas.read_csv(args[0], sep="::", header=None, engine="python")
"""),
    "json": ("pandas.read_json(lines=True)", """
import pandas
begin()
pandas.read_json(args[0], lines=True)
"""),
    "text": ("sklearn CountVectorizer", """
from sklearn.feature_extraction.text import CountVectorizer
begin()
with open(args[0]) as file:
    CountVectorizer().fit_transform(file)
"""),
    "metis": ("lists by str.split and SciPy", """
import numpy as np, scipy.sparse
begin()
with open(args[0]) as file:
    n = int(next(file).split()[0])
    lists = [np.array(line.split(), np.int32) - 1 for line in file]
rows = np.repeat(np.arange(n), [len(each) for each in lists])
scipy.sparse.csr_array((np.ones(len(rows)), (rows, np.concatenate(lists))), shape=(n, n))
"""),
    "alx": ("the same links as text, by sparrow", """
import sparrow as sp, sparrow.ingest
sp.config(threads=2, progress=False)
sp.ingest.edges(args[1], args[2], overwrite=True)
begin()
sp.ingest.edges(args[0], args[2], overwrite=True)
"""),
}  # fmt: skip


def _inputs(folder: Path, count: int) -> dict[str, tuple[str, dict[str, object]]]:
    """Write files of about ``count`` links; return them with reader options."""
    stamp = folder / f"{count}.made"
    if not stamp.exists():
        _write(fresh(folder), count)
        stamp.touch()
    table: dict[str, object] = {"coords": ["c0", "c1"], "value": "c2", "header": False, "delimiter": "::",
                                "duplicates": "last"}  # fmt: skip
    lines: dict[str, object] = {"coords": ["user", "film"], "value": "stars", "duplicates": "last"}
    return {
        "webgraph": ("web.graph-txt", {}),
        "edges": ("edges.txt", {}),
        "edges-igraph": ("edges.txt", {}),
        "mtx": ("web.mtx", {}),
        "h5ad": ("web.h5ad", {}),
        "triples": ("triples.txt", {}),
        "columns": ("ratings.dat", table),
        "json": ("ratings.jsonl", lines),
        "text": ("text.txt", {}),
        "metis": ("web.metis", {}),
        "mtx-columns": ("columns.mtx", {}),
        "mtx-npz": ("columns.mtx", {}),
        "tns": ("cube.tns", {}),
        "npz": ("web.npz", {}),
        "npz-pydata": ("cube.npz", {}),
        "npy": ("dense.npy", {}),
        "libffm": ("events.ffm", {}),
        "tenx": ("counts.h5", {}),
        "binsparse": ("web.h5", {}),
        "parquet": ("ratings.parquet", lines),
        "arrow": ("ratings.arrow", lines),
        "alx": ("shards", {}),
    }


def _write(folder: Path, count: int) -> None:
    """Write the files."""
    folder.mkdir(parents=True)
    scale = max(int(np.log2(count / 8)), 4)
    sp.datasets.rmat(folder / "edges.txt", scale, count, seed=1, overwrite=True)
    graph = sp.ingest.edges(
        folder / "edges.txt", folder / "web.sparrow", overwrite=True, shape=(1 << scale, 1 << scale)
    )
    ones = (graph != 0).astype("int64").save(folder / "ones.sparrow", overwrite=True)
    sp.export(ones, folder / "web.graph-txt", overwrite=True)
    sp.export(sp.Bundle({"train": ones}), folder / "shards", format="alx", overwrite=True)
    sp.export(graph, folder / "web.mtx", overwrite=True)
    sp.export(graph.astype("float32"), folder / "web.h5ad", overwrite=True)
    both = (((ones + ones.T.rename(src="dst", dst="src")) != 0) & (sp.eye(1 << scale) == 0)).astype("int64")
    both = both.save(folder / "both.sparrow", overwrite=True)
    sp.export(both, folder / "both.graph-txt", overwrite=True)
    with open(folder / "both.graph-txt") as source, open(folder / "web.metis", "w") as target:
        target.write(f"{1 << scale} {both.nnz // 2}\n")
        next(source)
        target.writelines(" ".join(str(int(token) + 1) for token in line.split()) + "\n" for line in source)
    rng = np.random.default_rng(1)
    heads, tails = (rng.zipf(1.3, count // 4) % 50_000 for _ in range(2))
    kinds = rng.integers(0, 200, count // 4)
    with open(folder / "triples.txt", "w") as file:
        file.writelines(f"entity/{h}\trelation/{r}\tentity/{t}\n" for h, r, t in zip(heads, kinds, tails, strict=True))
    with open(folder / "ratings.dat", "w") as file:
        file.writelines(f"{h}::{t}::{r % 5}\n" for h, t, r in zip(heads, tails, kinds, strict=True))
    with open(folder / "ratings.jsonl", "w") as file:
        file.writelines(
            json.dumps({"user": int(h), "film": int(t), "stars": int(r) % 5}) + "\n"
            for h, t, r in zip(heads, tails, kinds, strict=True)
        )
    words = rng.zipf(1.2, count // 2) % 100_000
    with open(folder / "text.txt", "w") as file:
        file.writelines(
            " ".join(f"w{word}" for word in words[start : start + 50]) + ".\n" for start in range(0, len(words), 50)
        )
    _write_matrices(folder, scale)
    stars = pa.table({"user": heads, "film": tails, "stars": kinds % 5 + 0.5})
    pq.write_table(stars, folder / "ratings.parquet")
    feather.write_feather(stars, folder / "ratings.arrow", "uncompressed")


def _write_matrices(folder: Path, scale: int) -> None:
    """Write the graph in the matrix formats, and dense and 3-D tensors."""
    graph = sp.open(folder / "web.sparrow")
    assert isinstance(graph, sp.Tensor)
    matrix = graph.astype("float32").to_scipy("csr")
    size, n = 1 << scale, graph.nnz
    scipy.io.mmwrite(folder / "columns.mtx", matrix.tocsc().tocoo(), symmetry="general")
    scipy.sparse.save_npz(folder / "web.npz", matrix)
    sp.datasets.powerlaw_tns(folder / "cube.tns", (size, 1000, 100), n, seed=1, overwrite=True)
    rng = np.random.default_rng(2)
    places = rng.integers(0, (size, 1000, 100), (n, 3)).T
    sparse.save_npz(folder / "cube.npz", sparse.COO(places, rng.random(n), (size, 1000, 100)))
    dense = np.where(rng.random((n // 500, 5000)) < 0.1, rng.random((n // 500, 5000)), 0)
    np.save(folder / "dense.npy", dense)
    with open(folder / "events.ffm", "w") as file:
        file.writelines(
            "1 " + " ".join(f"{field}:{index}:0.25" for field, index in enumerate(row)) + "\n"
            for row in rng.integers(0, 10_000, (n // 20, 20)).tolist()
        )
    columns = matrix.tocsc()
    with h5py.File(folder / "counts.h5", "w") as file:
        group = file.create_group("matrix")
        group["data"], group["indices"] = columns.data.astype("i4"), columns.indices.astype("i8")
        group["indptr"], group["shape"] = columns.indptr.astype("i8"), np.array(columns.shape, "i4")
        group["barcodes"] = np.array([b"B%d-1" % k for k in range(size)])
        group["features/id"] = group["features/name"] = np.array([b"G%d" % k for k in range(size)])
        group["features/feature_type"] = np.array([b"Gene Expression"] * size)
    told = {"version": "0.1", "format": "CSR", "shape": list(matrix.shape), "number_of_stored_values": n,
            "data_types": {"pointers_to_1": "int64", "indices_1": "int64", "values": "float32"}}  # fmt: skip
    with h5py.File(folder / "web.h5", "w") as file:
        file.attrs["binsparse"] = json.dumps({"binsparse": told})
        file["pointers_to_1"], file["indices_1"] = matrix.indptr.astype("i8"), matrix.indices.astype("i8")
        file["values"] = matrix.data


READERS = {
    "edges-igraph": "edges",
    "json": "columns",
    "parquet": "columns",
    "arrow": "columns",
    "mtx-columns": "mtx",
    "mtx-npz": "mtx",
    "npz-pydata": "npz",
}
CALLED = {"mtx-columns": "mtx by columns", "mtx-npz": "mtx by columns", "npz-pydata": "npz of pydata/sparse",
          "parquet": "columns of Parquet", "arrow": "columns of Arrow", "json": "columns of JSON lines",
          "tenx": "tenx (HDF5)"}  # fmt: skip
LIBRARIES = {"edges": "networkx", "edges-igraph": "igraph", "h5ad": "anndata", "triples": "pandas", "text": "sklearn"}
"""Libraries without which rows are left out."""


def run(count: int, rounds: int, only: Sequence[str] = ()) -> list[Row]:
    """Return a row per reader, or per named reader; existing files are reused."""
    out: list[Row] = []
    small, large = DATA / "files-small", DATA / "files"
    _inputs(small, 20_000)
    for name, (file, options) in _inputs(large, count).items():
        if (only and name not in only) or find_spec(LIBRARIES.get(name, "numpy")) is None:
            continue
        against, code = PEERS[name]
        target = fresh(DATA / "files.sparrow")
        peer: tuple[object, ...] = (large / file,)
        if name == "webgraph":
            peer = (str(large / file).removesuffix("-txt"),)
        if name == "alx":
            peer = (large / "edges.txt", small / "edges.txt", target)
        reader = READERS.get(name, name)
        ours = (OURS, (reader, small / file, large / file, target, repr(options)))
        in_process(OURS, *ours[1])
        took = processes_in_turn({"sparrow": ours, "peer": (code, peer)}, rounds)
        (mine, memory), (theirs, more) = took["sparrow"], took["peer"]
        detail = f"{mine:.2f} s : {theirs:.2f} s, peak {memory / 1e6:.0f} MB : {more / 1e6:.0f} MB"
        out.append(
            Row(f"{CALLED.get(name, name.split('-')[0])} to a stored tensor", against, mine / theirs, 1.0, detail)
        )
    return out
