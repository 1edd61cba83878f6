"""Readers of files against what people use today: time to a stored tensor, theirs to memory, and peak memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from harness import DATA, Row, fresh, in_process, processes_in_turn

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
    """Write the files, ``count`` links or so each, and return them with the options of their readers."""
    folder.mkdir(parents=True, exist_ok=True)
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
        "alx": ("shards", {}),
    }


READERS = {"edges-igraph": "edges", "json": "columns"}


def run(count: int, rounds: int) -> list[Row]:
    """Return a row for each reader."""
    out: list[Row] = []
    small, large = DATA / "files-small", DATA / "files"
    _inputs(small, 20_000)
    for name, (file, options) in _inputs(large, count).items():
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
        out.append(Row(f"{name.split('-')[0]} to a stored tensor", against, mine / theirs, 1.0, detail))
    return out
