"""Format detection, in Python and for ``sparrow ingest`` without a format."""

from __future__ import annotations

import contextlib
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

import sparrow as sp
from sparrow.errors import IngestError, InvalidValueError, NotFoundError, SparrowError
from sparrow.io.base.detect import detect_format

TEXT = [
    ("a.txt", "0 1\n1 2\n", "edges"),
    ("a.txt", "# note\na b 2.5\nb c 1\n", "edges"),
    ("a.csv", "0,1\n1,2\n", "edges"),
    ("web.txt", "1 2 {}\n2 3 {}\n", "edges"),
    ("out.enron", "% asym posweighted\n1 2 1 1082008561\n2 3 1 1082008562\n", "edges"),
    ("a9a", "+1 3:0.5 7:1\n\n-1 2:1\n+1\n", "libsvm"),
    ("rank", "2 qid:1 3:0.5\n1 qid:1 2:1\n", "libsvm"),
    ("a.mtx", "%%MatrixMarket matrix coordinate real general\r\n1 1 1\r\n1 1 3\r\n", "mtx"),
    ("a", "%%matrixmarket matrix array real general\r1 1\r3\r", "mtx"),
    ("a.txt", "sptensor\n2\n1 1\n1\n1 1 3\n", "tns"),
    ("a.tns.gz", "1 1 3\n", "tns"),
    ("nothing.tns", "# sizes: 4 0\n", "tns"),
    ("a.txt", "# sizes: 4 5\r\n1 1 3\r\n", "tns"),
    ("a.txt", "# sizes: 4 5\n1 2\n", "edges"),
    ("g.graph-txt", "2\n1\n0\n", "webgraph"),
    ("g.txt", "4\n1 2 \n\n0 3\n1\n", "webgraph"),
    ("g.graph", "3 2\n2\n1 3\n2\n", "metis"),
    ("g.graph", "3\n1 2\n2\n0 1\n", "webgraph"),
    ("test2id.txt", "2\n0 1 0\n4 2 1\n", "triples"),
    ("a.mtx", "%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 3\n", "mtx"),
    ("a.svm", "1 1:2 2\n0 3:4\n", "libsvm"),
    ("a.svm", "1,2 1:2\n3 3:4\n", "libsvm"),
    ("a.txt", "1 2 # a note\n2 3\n", "edges"),
    ("a.csv", "#src,dst\n1,2\n2,3\n", "edges"),
    ("a.csv", "# some remark, or two, perhaps\n1,2,3\n2,3,4\n", "edges"),
    ("a.csv", "# 3,4,5\n1,2,3\n2,3,4\n", "edges"),
    ("a.txt", "# FromNodeId\tToNodeId\tWeight\n1\t2\t3\n2\t3\t4\n", "edges"),
    ("a.txt", "c d\nd e\n", "edges"),
    ("a.ffm", "1 0:3:1 1:2:0.5\n0 0:1:1\n", "libffm"),
    ("a.txt", "a b 1\nb " + "9" * 5000 + " 2\n", "edges"),
]


@pytest.mark.parametrize(("name", "text", "format"), TEXT)
@pytest.mark.parametrize("packed", [False, True])
def test_texts(tmp_path: Path, name: str, text: str, format: str, packed: bool) -> None:
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)
    assert detect_format(str(tmp_path / name)).format == format


ODD = ["\x1c", "\xa0", "\u00b2"]
"""Blanks and a digit to Python's str, but not in any of these formats."""


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("text", [
    "%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 4.5\n", "1 1 2.5\n2 1 3\n", "1 1:2:0.5 2:3:1\n0 1:1:2\n",
    "1 1:0.5 3:2\n-1 2:1\n", "1 2 0.5\n3 4 1\n", "2 1\n2\n1\n",
])  # fmt: skip
def test_unicode_blanks_and_digits(tmp_path: Path, text: str, odd: str) -> None:
    kind = detect_format(str(_written(tmp_path / "sound.graph", text))).format
    for at in range(len(text) + 1):
        for broken in (text[:at] + odd + text[at:], text[:at] + odd + text[at + 1 :]):
            path = _written(tmp_path / "a.txt", broken)
            with contextlib.suppress(SparrowError):
                assert detect_format(str(path)).format
            with contextlib.suppress(SparrowError):
                getattr(sp.ingest, kind)(path, tmp_path / "a.sparrow", overwrite=True)


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


REFUSED = [
    (
        "a.csv",
        b"user,item,rating\n1,2,3.5\n2,3,4\n",
        "(?s)'user', 'item', 'rating'.* --coords user,item --value rating",
    ),
    ("a.tsv", b"head\trel\ttail\nx\ty\tz\n", "(?s)perhaps triples.* --no-header --coords c0,c1,c2"),
    ("a.txt", b"1 2 3 4.5\n2 3 4 5\n", "(?s)or a table without names.*sparrow ingest tns "),
    ("a.txt", b"# only\n", "comments only"),
    ("a.csv", b"d0,value\n", "one line of names may be the header of an empty table"),
    ("a.txt", b"", "the file is empty"),
    ("a.txt", b"one\ntwo\n", "one column"),
    ("a.txt", b", # nothing else\n", "(?s)no common layout.* 1 line of"),
    ("a.txt", b"1 2\n3\n", "one column.*'3'"),
    ("a.txt", b"1;2;3\n2;3;4\n", "(?s)separated by ';'.*sparrow ingest edges .* DST --delimiter ';'"),
    ("a.csv", b"user,when,item,n\na,2020-01-02,b,3\n", "--coords user,when --value n"),
    ("a.csv", b"when,user,item\n1300000000,1,2\n1300000001,2,3\n", "--coords user,item$"),
    ("a.csv", b"when,user,item,n\n2020-01-02,1,2,3\n2020-01-03,1,2,4\n", "--coords when,user,item --value n$"),
    (
        "a.csv",
        b"when,user,item,n\n2020-01-02T10:00,1,2,3\n2020-01-02T11:00,1,2,4\n",
        "(?s)where rows of the same user and item are summed.*--coords user,item --value n --duplicates sum",
    ),
    ("a.csv", b"stars,user,item,x\n3.5,1,2,a\n4,2,3,b\n", "--coords user,item --value stars"),
    ("a.csv", b"user,rating,item\na,3,b\nc,4,d\n", "--coords user,item --value rating"),
    ("a.csv", b"user,item,n\n-1,2,3\n2,,4\n", "--coords user,item --value n --nulls drop --relabel"),
    ("a.csv", b"user,item,n\n1,2,3\n1,2,4\n", "--coords user,item --value n --duplicates sum"),
    ("a.csv", b"lat,lon,height\n1.5,2.5,3.5\n2.5,2.5,3.5\n", "rows of a dense matrix"),
    ("a.csv", b"a,r,b\nb,r,c\n", "(?s)lines of 3 columns may be a table.*sparrow ingest columns"),
    ("a.gr", b"c roads\np sp 3 2\na 1 2 5\na 2 3 6\n", "(?s)DIMACS graph.*sed -n"),
    ("a.net", b'*Vertices 2\n1 "a"\n2 "b"\n*Edges\n1 2\n', "Pajek"),
    ("a.gml", b"graph [\n  node [\n    id 1\n  ]\n]\n", "GML"),
    ("a.nt", b"<http://a> <http://r> <http://b> .\n", "(?s)N-Triples.* sparrow ingest triples -"),
    ("a.json", b'{"user": 1, "item": 2, "stars": 3}\n', "JSON lines of .* --coords user,item --value stars"),
    ("a.json", b'{\n"a": 1}\n', "JSON"),
    ("a.graph-txt", b'{"a": 1, "b": 2}\n', "JSON lines of columns 'a', 'b'"),
    ("a.graph-txt", b"1::2\n3::4\n", "--delimiter :: --no-header --coords c0 --value c1"),
    ("ratings.dat", b"1::5::3::9\n2::5::4::8\n", "--delimiter :: --no-header --coords c0,c1 --value c2"),
    ("a.tsv", b"x\tr\ty\ny\tr\tz\n", "(?s)sparrow ingest triples .* DST\n  sparrow ingest columns"),
    ("a.tsv", b"Oslo\tlies far up in the\tnorth\nRome\tis\tnice\n", "(?s)may be triples.* c0,c1,c2"),
    ("a.tsv", b"New York\tis\tgreat\nRome\tlies in\tItaly\n", "(?s)lines of 3 names .* sparrow ingest triples"),
    ("a.csv", b"u,when,r\n1,2020-01-02 10:00:00,3\n", "(?s)'u', 'when', 'r'.* --coords u,when --value r"),
    ("a.json", b'{"a": ' + b"[" * 100_000 + b"}\n", "this is JSON, but not an object in each line"),
    ("a.h5", b"\x89HDF\r\n\x1a\n" + bytes(300), "HDF5"),
]


def test_line_with_comma_and_comment(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 a\n, # nothing else\n#\n")
    assert detect_format(str(tmp_path / "a.txt")).format == "edges"


@pytest.mark.parametrize(("name", "data", "problem"), REFUSED)
def test_detection_errors_suggest_command(tmp_path: Path, name: str, data: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(IngestError, match=problem):
        detect_format(str(tmp_path / name))


def test_hdf5_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py")
    members = {"h5ad": "obs", "tenx": "matrix", "unknown": "other"}
    for name, member in members.items():
        with h5py.File(tmp_path / name, "w") as file:
            file.create_group(member)
    opened: list[str] = []
    open_file = h5py.File

    def record(path: str, mode: str) -> Any:
        opened.append(Path(path).name)
        return open_file(path, mode)

    monkeypatch.setattr(h5py, "File", record)
    for name in ("h5ad", "tenx"):
        assert detect_format(str(tmp_path / name)).format == name
    with pytest.raises(IngestError, match="this is HDF5 with 'other', not a file of AnnData"):
        detect_format(str(tmp_path / "unknown"))
    assert opened == list(members)


def test_binary_files(tmp_path: Path) -> None:
    scipy.sparse.save_npz(tmp_path / "a.npz", scipy.sparse.eye_array(3))
    assert detect_format(str(tmp_path / "a.npz")).format == "npz"
    np.save(tmp_path / "a.npy", np.eye(2))
    assert detect_format(str(tmp_path / "a.npy")).format == "npy"
    (tmp_path / "g.properties").write_text("nodes=0\n")
    (tmp_path / "g.graph").write_bytes(b"")
    for name in ("g", "g.graph", "g.properties"):
        assert detect_format(str(tmp_path / name)).format == "webgraph"
    for name in ("kg", "shards"):
        (tmp_path / name).mkdir()
    (tmp_path / "kg" / "train.txt").write_text("a r b\n")
    assert detect_format(str(tmp_path / "kg")).format == "triples"
    (tmp_path / "shards" / "train.tfr-00000-of-00002").write_bytes(b"")
    assert detect_format(str(tmp_path / "shards")).format == "alx"
    assert detect_format(str(tmp_path / "shards" / "train.tfr-00000-of-00002")).format == "alx"
    pq.write_table(pa.table({"i": [0], "v": [1.0]}), tmp_path / "a.parquet")
    with pytest.raises(IngestError, match="this is Parquet: name the columns of coordinates"):
        detect_format(str(tmp_path / "a.parquet"))
    with pytest.raises(InvalidValueError, match="the format of standard input cannot be detected"):
        detect_format("-")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidValueError, match="fifo', a pipe or device, cannot be detected"):
        detect_format(str(tmp_path / "fifo"))
    with pytest.raises(NotFoundError):
        detect_format(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("movie,title,genres\n1,Alien,horror\n2,Brazil,comedy\n", "--coords movie,title$"),
        ("movie,title,genres,year\n1,Alien,horror,1979\n2,Brazil,comedy,1985\n", "--coords movie,title --value year$"),
        ("user,film,stars\n1,7,4.5\n", "--coords user,film --value stars$"),
        ("d0,d1,d2,value\n1,2,3,4.5\n", "--coords d0,d1,d2 --value value$"),
        ("d0,value\n1,4.5\n", "--coords d0 --value value$"),
        ('{"user": 1, "film": "Alien", "mood": "good", "stars": 4.5}\n', "--coords user,film --value stars$"),
    ],
)
def test_suggested_table_command_works(text: str, example: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(IngestError, match=example):
        detect_format(str(tmp_path / "a.txt"))


def test_cli_detects_format(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "A.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 5\n")
    done = cli("ingest", str(tmp_path / "A.mtx"), str(tmp_path / "A.sparrow"), "--dtype", "int8")
    assert done.code == 0, done.err
    assert "has the format mtx: the first line is a banner" in done.err
    np.testing.assert_array_equal(sp.open(tmp_path / "A.sparrow").to_numpy(), [[0, 0], [5, 0]])
    told = cli("ingest", "--sniff", str(tmp_path / "A.mtx"))
    assert (told.code, told.out.split(":")[0]) == (0, "mtx")
    wrong = cli("ingest", str(tmp_path / "nothing"), str(tmp_path / "B.sparrow"))
    assert wrong.code == 2
    assert "is neither a format nor a file" in wrong.err
