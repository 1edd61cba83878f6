"""Files that are not edge lists: errors name the kind and a command."""

from __future__ import annotations

import gzip
import io
import pickle
import shlex
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

import sparrow as sp
from sparrow.errors import IngestError

TABLE = pa.table({"a": [0, 1], "b": [1, 2]})


def tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        found = tarfile.TarInfo("edges.txt")
        found.size = 4
        archive.addfile(found, io.BytesIO(b"0 1\n"))
    return out.getvalue()


def written(write: Any) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def stream() -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return out.getvalue()


BINARY = {
    r"this is Parquet, not text: .*\bsp(?:arrow |\.)ingest[ .]columns": written(lambda out: pq.write_table(TABLE, out)),
    r"this is an Arrow stream, not text: .*\bsp(?:arrow |\.)ingest[ .]columns": stream(),
    r"this is a .npz file of arrays: .*\bsp(?:arrow |\.)ingest[ .]npz": written(
        lambda out: scipy.sparse.save_npz(out, scipy.sparse.eye_array(3))
    ),
    r"this is a NumPy array, not text: .*\bsp(?:arrow |\.)ingest[ .]npy": written(lambda out: np.save(out, np.eye(3))),
    "this is a pickle, not text: .*pickles are never loaded": pickle.dumps({"a": 1}),
    "this is Feather version 1, not text": b"FEA1" + bytes(20),
    "this is Avro, not text": b"Obj\x01" + bytes(20),
    "this is ORC, not text: in Python, .*pyarrow.orc.read_table": b"ORC" + bytes(20),
    "this is a MATLAB file, not text": b"MATLAB 5.0 MAT-file" + bytes(20),
    "this is an R data file, not text": b"X\n\x00\x00\x00\x03" + bytes(20),
    "this is HDF5, not text": b"\x89HDF\r\n\x1a\n" + bytes(100),
    "this is a SQLite database": b"SQLite format 3\x00" + bytes(100),
    "this is a PDF": b"%PDF-1.7\n",
    "this is a tar archive: .*tar -xOf": tar(),
    "this is text in UTF-16, not text: .*iconv": "0 1\n".encode("utf-16"),
    "this looks like text in UTF-16: .*iconv -f utf-16le": "0 1\n1 2\n".encode("utf-16-le"),
    "this looks like text in UTF-16: .*iconv -f utf-16be": "0 1\n1 2\n".encode("utf-16-be"),
    "this is text in UTF-32, not text: .*iconv -f utf-32": "0 1\n".encode("utf-32"),
    ".Z files are not read: .* gzip -dc": b"\x1f\x9d\x90" + bytes(20),
    "zip files are not read: .* unzip -p": b"PK\x03\x04" + bytes(20),
}


@pytest.mark.parametrize("told", BINARY)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("format", ["edges", "libsvm"])
def test_containers_are_named(tmp_path: Path, told: str, packed: bool, format: str) -> None:
    path = tmp_path / "it's.data"
    path.write_bytes(gzip.compress(BINARY[told]) if packed else BINARY[told])
    with pytest.raises(IngestError, match=told) as caught:
        getattr(sp.ingest, format)(path, tmp_path / "out.sparrow")
    assert caught.value.file == str(path)
    assert ("gzip -dc" in str(caught.value)) >= (packed and "ingest" in told)
    assert not (tmp_path / "out.sparrow").exists()


@pytest.mark.parametrize("format", ["npz", "npy", "h5ad", "columns", "libsvm", "mtx", "triples"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "a pointer of Git LFS.* git lfs pull",
        ),
        ("/annex/objects/SHA256E-s9--ab.gz\n", "a pointer of git-annex.* git annex get"),
    ],
)
def test_pointers_are_named_by_all_readers(tmp_path: Path, format: str, text: str, told: str) -> None:
    if format == "h5ad":
        pytest.importorskip("h5py")
    path = tmp_path / f"a.{'parquet' if format == 'columns' else format}"
    path.write_text(text)
    with pytest.raises(IngestError, match=told):
        getattr(sp.ingest, format)(path, tmp_path / "out", **({"coords": ["a"]} if format == "columns" else {}))


TEXT = {
    "a Matrix Market file": ("m.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 3\n"),
    "a tensor of 3 dimensions": ("t.tns", "1 1 1 2.5\n2 2 2 1\n"),
    "tensor of 2 dimensions": ("u.tns", "2\n3 4\n1 1 2.5\n2 2 1\n"),
    r"libsvm text, not an edge list: sp\.ingest\.libsvm\(": ("a9a", "+1 3:0.5 7:1\n-1 2:1\n+1\n"),
    "JSON, not an edge list": ("a.json", '{"src": 0, "dst": 1}\n{"src": 1, "dst": 2}\n'),
    "HTML or XML": ("a.html", "<!DOCTYPE html>\n<html>\n"),
    "neighbor lists, one line per vertex": ("a.txt", "a b c d\nb c\nc d e\n"),
    "neighbor lists below a line with the number of vertices": ("a.graph-txt", "3\n1 2 \n\n0 1 \n"),
    "a METIS graph": ("a.graph", "4 3 0\n2 3 4\n1\n1 4\n1 3\n"),
    "quoted names, not an edge list": ("q.csv", '"a","b"\n"b","c"\n'),
    "edges are written with '->'": ("a.txt", "1 -> 2\n2 -> 3\n"),
    "pass delimiter='->'": ("a.txt", "1->2\n2->3\n"),
    "this is DOT": ("a.dot", "digraph G {\n a -> b;\n}\n"),
    r"(?s)JSON, not an edge list, .* jq -c '.\[\]' .*a.json \|": ("a.json", '[{"src": 0, "dst": 1}]\n'),
    r"a Rutherford-Boeing matrix, .* scipy\.io\.hb_read": (
        "west.rua",
        f"{'A title':72}KEY\n{5:14}{1:14}{2:14}{2:14}\nrua           {4:14}{4:14}{2:14}{0:14}\n(26I3) (26I3)\n",
    ),
    "this is UCINET's DL": ("a.dl", "DL n=2 format=edgelist1\nlabels:\na, b\ndata:\n1 2\n"),
    "an adjacency list of networkx": ("a.adj", "#draw.py\n# GMT Mon Nov 23 09:00:00 2026\n# \n0 1\n1 2\n"),
    r"must be a number: sp\.ingest\.columns reads tables": ("a.csv", "Source,Target,Type,Weight\n1,2,Directed,1.0\n"),
    r"an edge needs two ids \(at 'alone'": ("a.txt", "0 1\nalone\n"),
    "columns are separated by tabs and hold blanks": ("a.tsv", "New York\tRome\nRome\tOslo\n"),
}


@pytest.mark.parametrize("told", TEXT)
def test_text_formats_are_named(tmp_path: Path, told: str) -> None:
    name, text = TEXT[told]
    (tmp_path / name).write_text(text)
    with pytest.raises(IngestError, match=told):
        sp.ingest.edges(tmp_path / name, tmp_path / "out.sparrow")
    assert not (tmp_path / "out.sparrow").exists()


@pytest.mark.parametrize(
    ("name", "text", "want"),
    [
        ("a.txt", "a b c d\nb c\n", {("a", "b"), ("a", "c"), ("a", "d"), ("b", "c")}),
        ("a.graph", "4 2 0\n2 4\n1\n% c\n\n1\n", {(0, 1), (0, 3), (1, 0), (3, 0)}),
        ("a.graph-txt", "3\n1 2 \n\n0 1 \n", {(0, 1), (0, 2), (2, 0), (2, 1)}),
        ("a b.tsv", "New York\tRome\nRome\tOslo\n", {("New York", "Rome"), ("Rome", "Oslo")}),
        ("a.txt", "a -> b\nb -> c # so\n", {("a", "b"), ("b", "c")}),
        ("a.txt", "1 -> 2 0.5\n2 -> 3 1\n", {(1, 2), (2, 3)}),
        ("q.csv", '"a","b"\n"b","c"\n', {("a", "b"), ("b", "c")}),
        ("a.txt", "1 2 {'weight': 3.5}\n2 3 {\"weight\": 4}\n", {(1, 2), (2, 3)}),
        ("a.gdf", "nodedef>name VARCHAR\na\nb\nedgedef>node1 VARCHAR,node2 VARCHAR,w DOUBLE\na,b,2\n", {("a", "b")}),
        ("a.tgf", "1 a\n2 b\n3\n#\n1 2\n2 3\n", {(1, 2), (2, 3)}),
        ("t.tns", "1 1 2 2.5\n2 2 1 1\n", {(0, 0, 1), (1, 1, 0)}),
        ("m.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 3\n", {(1, 0)}),
    ],
)
def test_suggested_command_works(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, want: set[Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    done = cli("ingest", "edges", name, "out.sparrow")
    assert done.code == 1
    lines = done.err.strip().split("\n  ")
    command = lines[1] if len(lines) > 1 else lines[0].split(": ")[-1]
    first, _, second = command.rpartition(" | ")
    if first:
        Path("piped").write_bytes(subprocess.run(first, shell=True, capture_output=True, check=True).stdout)
        second = second.replace(" - ", " piped ")
    done = cli(*shlex.split(second)[1:])
    assert done.code == 0, done.err
    made = sp.open("out.sparrow")
    names = [made.labels(k) for k in range(made.ndim)]
    found = zip(*(c.to_pylist() for c in made.to_arrow().columns[: made.ndim]), strict=True)
    assert {tuple(k if n is None else n[k].as_py() for k, n in zip(cell, names, strict=True)) for cell in found} == want


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n1 2\n",
        "0 1 2.5 1300000000\n1 2 1 1300000001\n",
        "0 1 2.5\n1 2 1,seen,twice\n",
        "1 2 {'weight': 3}\n".replace("{'weight': 3}", "{}"),
        "a b # that is an edge\nb c\n",
        "% sym unweighted\n1 2\n",
        "1 2\n#\n2 3\n",
        "1 2 0.5\n2 3 -5\n3 1 1e3\n#\n1 3 0.2\n",
        "1 2 0.5\n2 1 0.5\n#\n",
    ],
)
def test_edge_lists_are_accepted(tmp_path: Path, text: str) -> None:
    (tmp_path / "e.txt").write_text(text)
    lines = [line for line in text.splitlines() if line[0] not in "%#"]
    assert sp.ingest.edges(tmp_path / "e.txt", tmp_path / "e.sparrow").nnz == len(lines)


@pytest.mark.parametrize(
    "name", ["mtx/ash219.mtx", "metis/jazz.graph", "metis/karate.graph", "cnr-2000/cnr-2000.graph-txt.gz",
             "cnr-2000/cnr-2000.graph", "10x-v3/filtered_feature_bc_matrix.h5", "heart_scale/heart_scale",
             "agaricus/agaricus.txt.train"]
)  # fmt: skip
def test_real_files_are_not_edge_lists(shared_data: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(IngestError):
        sp.ingest.edges(shared_data / name, tmp_path / "out.sparrow")
    assert not list(tmp_path.iterdir())
