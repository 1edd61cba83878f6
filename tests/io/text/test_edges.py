"""Edge lists: real files, generated files, errors."""

from __future__ import annotations

import functools
import gzip
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow import storage
from sparrow.core.indexing import View
from sparrow.errors import (
    DuplicateError,
    ExistsError,
    IngestError,
    InvalidValueError,
    NotFoundError,
    StorageError,
    TooLargeError,
)
from sparrow.io.text.edges import Edges
from sparrow.kernels.parse import edge_lines
from sparrow.relations.protocol import scan
from sparrow.runtime import settings
from sparrow.testing import tune


def edges(*args: Any, **options: Any) -> str:
    return Edges(*args, **options).read()


def read_stored(path: Any) -> Any:
    return storage.open(os.fspath(path)).current


def cells(path: Any) -> dict[tuple[int, int], Any]:
    relation = read_stored(path)
    out: dict[tuple[int, int], Any] = {}
    for block in scan(relation, View.identity(relation.schema.shape).box()):
        out.update(zip(zip(*(c.tolist() for c in block.coords), strict=True), block.values.tolist(), strict=True))
    assert len(out) == relation.nnz
    return out


def labels(path: Any) -> Any:
    first, second = read_stored(path).labels(0), read_stored(path).labels(1)
    assert first is None or first.equals(second)
    return None if first is None else first.to_pylist()


@pytest.fixture
def ingest(tmp_path: Path) -> Any:
    """Return a function that stores a text and returns its elements by id or name."""

    def run(text: str | bytes, **options: Any) -> dict[tuple[Any, Any], Any]:
        source = tmp_path / "edges.txt"
        source.write_bytes(text if isinstance(text, bytes) else text.encode())
        path = tmp_path / "edges.sparrow"
        edges(source, path, overwrite=True, **options)
        found, names = cells(path), labels(path)
        if names is None:
            return found
        return {(names[i], names[j]): value for (i, j), value in found.items()}

    return run


# -- real files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "n", "nnz", "options"),
    [
        ("wiki-Vote/wiki-Vote.txt.gz", 8298, 103689, {}),
        ("ca-HepTh/CA-HepTh.txt", 68746, 51971, {}),
        ("ca-HepTh/CA-HepTh.txt", 9877, 51971, {"relabel": True}),
        ("ca-HepTh/CA-HepTh.txt", 9877, 51971, {"ids": "str"}),
        ("ca-HepTh/CA-HepTh.txt", 68746, 51971 - 25, {"self_loops": "drop"}),
        ("p2p-Gnutella08/p2p-Gnutella08.txt", 6301, 20777, {}),
        ("web-spam/web-spam.txt", 4768, 37375, {}),
        ("web-spam/web-spam.txt", 4768, 2 * 37375, {"directed": False}),
        ("web-edu/web-edu.txt", 3032, 6474, {}),
        ("edgelist-cases/comments.edgelist", 11, 20, {}),
        ("edgelist-cases/example.edgelist", 11, 20, {}),
        ("edgelist-cases/spaceseparated.edgelist", 11, 20, {}),
        ("cnr-2000/cnr-2000.edges.txt.gz", 325557, 3216152, {}),
        ("cnr-2000/cnr-2000.edges.txt.gz", 325557, 3216152 - 87442, {"self_loops": "drop"}),
    ],
)
def test_real_graphs(shared_data: Path, tmp_path: Path, file: str, n: int, nnz: int, options: Any) -> None:
    path = tmp_path / "graph.sparrow"
    assert edges(shared_data / file, path, **options) == str(path)
    relation = read_stored(path)
    assert relation.schema.shape == (n, n)
    assert relation.schema.dims == ("src", "dst")
    assert relation.schema.dtype == np.int64
    assert relation.nnz == nnz
    if nnz < 200_000:
        assert set(cells(path).values()) == {1}


def test_relabel_keeps_ids_as_labels(shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / "ca-HepTh" / "CA-HepTh.txt"
    edges(file, tmp_path / "gaps.sparrow")
    edges(file, tmp_path / "dense.sparrow", relabel=True)
    names = labels(tmp_path / "dense.sparrow")
    assert names == sorted(names)
    assert isinstance(names[0], int)
    dense = {(names[i], names[j]) for i, j in cells(tmp_path / "dense.sparrow")}
    assert dense == set(cells(tmp_path / "gaps.sparrow"))


def test_names_and_weights(shared_data: Path, tmp_path: Path) -> None:
    edges(shared_data / "edgelist-cases" / "alphabet.edgelist", tmp_path / "a.sparrow")
    assert labels(tmp_path / "a.sparrow") == ["a", "b", "c", "d", "e"]
    assert cells(tmp_path / "a.sparrow") == {(0, 1): 3.0, (0, 2): 2.0, (2, 3): 1.0, (3, 4): 5.0}
    assert read_stored(tmp_path / "a.sparrow").schema.dtype == np.float64
    edges(shared_data / "edgelist-cases" / "spaceseparated_weighted.edgelist", tmp_path / "w.sparrow", dtype="int8")
    assert cells(tmp_path / "w.sparrow") == {(1, 2): 2, (1, 3): 4, (2, 3): 3}
    assert read_stored(tmp_path / "w.sparrow").schema.dtype == np.int8


# -- generated files against a plain reader ------------------------------------------------------

NAMES = st.text(alphabet="ab0é-_", min_size=1, max_size=4).filter(lambda name: name != "--")  # an arrow, if all are


@st.composite
def texts(draw: st.DrawFn) -> tuple[bytes, list[tuple[Any, ...]], bool]:
    """Draw a file, its edges, and whether ids are names."""
    named = draw(st.booleans())
    weighted = draw(st.booleans())
    ids: Any = st.integers(0, 9) | st.sampled_from([0, 2**31, 10**7])
    if named:
        ids = NAMES.filter(lambda name: not name[0].isdigit())
    rows = draw(st.lists(st.tuples(ids, ids, st.sampled_from([1.0, -2.5, 0.1, 0.0, 1e-7, 123456789.123])), max_size=30))
    gaps = st.sampled_from([" ", "\t", ",", "  ", "\t \t", " , ", ", "])
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [
        draw(st.sampled_from(["", "# a comment", "% sym unweighted", "   "])) for _ in range(draw(st.integers(0, 3)))
    ]
    extra = draw(st.sampled_from(["", " 1234567", ",x,y"]))
    for a, b, w in rows:
        line = draw(st.sampled_from(["", " ", "\t"])) + f"{a}{draw(gaps)}{b}"
        if weighted:
            line += draw(gaps) + repr(w) + extra
        else:
            line += draw(st.sampled_from(["", "", " ", " {}", "\t{}\t99", " # said who"]))
        lines.append(line)
        if draw(st.integers(0, 9)) == 0:
            lines.append(draw(st.sampled_from(["", "#", " \t"])))
    text = end.join(lines) + draw(st.sampled_from(["", end]))
    edges_in = [(a, b, w) if weighted else (a, b) for a, b, w in rows]
    return text.encode(), edges_in, named


def reference(rows: list[tuple[Any, ...]], self_loops: str, directed: bool, rule: str) -> dict[tuple[Any, Any], Any]:
    given: dict[tuple[Any, Any], list[Any]] = {}
    for a, b, *weight in rows:
        if a == b and self_loops == "drop":
            continue
        value = weight[0] if weight else 1
        given.setdefault((a, b), []).append(value)
        if not directed and a != b:
            given.setdefault((b, a), []).append(value)
    fold: dict[str, Any] = {
        "sum": lambda v: functools.reduce(lambda x, y: x + y, v),
        "last": lambda v: v[-1],
        "first": lambda v: v[0],
        "min": min,
        "max": max,
    }
    out = {cell: fold[rule](values) for cell, values in given.items()}
    return {cell: value for cell, value in out.items() if value != 0}


@pytest.mark.filterwarnings("ignore:.*there are no edges")
@given(
    texts(),
    st.sampled_from(["keep", "drop"]),
    st.booleans(),
    st.sampled_from(["sum", "last", "first", "min", "max"]),
    st.booleans(),
    st.sampled_from([7, 40, 1 << 22]),
    st.booleans(),
)
def test_agrees_with_a_plain_reader(
    tmp_path_factory: pytest.TempPathFactory,
    file: tuple[bytes, list[tuple[Any, ...]], bool],
    self_loops: str,
    directed: bool,
    rule: str,
    relabel: bool,
    block_size: int,
    spill: bool,
) -> None:
    text, rows, named = file
    folder = tmp_path_factory.mktemp("edges")
    (folder / "e.txt").write_bytes(text)
    with tune("io", block_bytes=block_size), tune("sorting", budget_bytes=200 if spill else None):
        edges(
            folder / "e.txt",
            folder / "e.sparrow",
            ids="str" if named else "int",
            self_loops=self_loops,
            directed=directed,
            duplicates=rule,
            relabel=relabel,
        )
    found = cells(folder / "e.sparrow")
    names = labels(folder / "e.sparrow")
    relation = read_stored(folder / "e.sparrow")
    seen = sorted({x for row in rows for x in row[:2]})
    if named or relabel:
        assert names == seen
        found = {(names[i], names[j]): value for (i, j), value in found.items()}
        assert relation.schema.shape == (len(seen),) * 2
    else:
        assert names is None
        assert relation.schema.shape == (max(seen, default=-1) + 1,) * 2
    want = reference(rows, self_loops, directed, rule)
    assert found == want
    assert relation.schema.dtype == (np.float64 if rows and len(rows[0]) == 3 else np.int64)
    assert read_stored(folder / "e.sparrow").nnz == len(want)


# -- options -------------------------------------------------------------------------------------


def test_dropped_loops_keep_vertices(ingest: Any, tmp_path: Path) -> None:
    assert ingest("0 1\n9 9\n", self_loops="drop") == {(0, 1): 1}
    assert read_stored(tmp_path / "edges.sparrow").schema.shape == (10, 10)
    assert ingest("0 1\n9 9\n", self_loops="drop", relabel=True) == {(0, 1): 1}
    assert labels(tmp_path / "edges.sparrow") == [0, 1, 9]


def test_loop_is_mirrored_once(ingest: Any) -> None:
    assert ingest("1 1\n1 2\n2 1\n", directed=False) == {(1, 1): 1, (1, 2): 2, (2, 1): 2}


def test_mirrored_edges_keep_line_order(ingest: Any) -> None:
    text = "1 2 10\n2 1 20\n"
    assert ingest(text, directed=False, duplicates="last") == {(1, 2): 20.0, (2, 1): 20.0}
    assert ingest(text, directed=False, duplicates="first") == {(1, 2): 10.0, (2, 1): 10.0}


def test_leading_zeros_are_names(ingest: Any) -> None:
    assert ingest("007 7\n7 0\n") == {("007", "7"): 1, ("7", "0"): 1}
    assert ingest("007 7\n", ids="int") == {(7, 7): 1}
    assert ingest("0 1 007\n") == {(0, 1): 7.0}
    lines = [f"{k} {k + 1}" for k in range(1000)]
    with (
        tune("io", block_bytes=1 << 8),
        pytest.raises(IngestError, match=r"begins with a zero: pass ids='str' .* or ids='int'") as caught,
    ):
        ingest("\n".join([*lines, "3 007"]))
    assert (caught.value.line, caught.value.token) == (1001, "007")


def test_repeated_edges_are_counted(ingest: Any) -> None:
    text = "1 2\n1 2\n0 0\n1 2\n"
    assert ingest(text) == {(0, 0): 1, (1, 2): 3}
    assert ingest(text, duplicates="last") == {(0, 0): 1, (1, 2): 1}
    assert ingest(text, dtype="bool") == {(0, 0): True, (1, 2): True}
    assert ingest(text, dtype="float32") == {(0, 0): 1.0, (1, 2): 3.0}
    with pytest.raises(DuplicateError, match=r"element \(1, 2\) is given more than once: \w+ duplicates='sum'"):
        ingest(text, duplicates="error")
    with pytest.raises(DuplicateError, match=r"element \('x', 'y'\) is given more than once"):
        ingest("x y\ny x\nx y\n", duplicates="error")


def test_auto_ids_are_names_if_not_integer(ingest: Any) -> None:
    assert ingest("1 b\n10 2\n1 b\n") == {("1", "b"): 2, ("10", "2"): 1}
    assert ingest("1 2\n", ids="str") == {("1", "2"): 1}
    assert ingest("-1 99999999999999999999\n", ids="str") == {("-1", "99999999999999999999"): 1}


def test_weights_are_read_exactly(ingest: Any) -> None:
    assert ingest("0 1 9007199254740993\n", dtype="int64") == {(0, 1): 9007199254740993}
    assert ingest("0 1 9223372036854775807\n0 2 -9223372036854775808\n", dtype="int64") == {
        (0, 1): 2**63 - 1,
        (0, 2): -(2**63),
    }
    hard = "0.500000000000000166533453693773481063544750213623046875"
    assert ingest(f"0 1 {hard}\n0 2 -1e-320\n0 3 inf\n") == {(0, 1): float(hard), (0, 2): -1e-320, (0, 3): float("inf")}


def test_ids_of_64_bits(ingest: Any, tmp_path: Path) -> None:
    top = 2**63 - 2
    assert ingest(f"{top} 0\n3 {top}\n3 {top}\n{2**40} 5\n") == {(top, 0): 1, (3, top): 2, (2**40, 5): 1}
    assert read_stored(tmp_path / "edges.sparrow").schema.shape == (top + 1, top + 1)
    assert ingest(f"{top + 1} 0\n", relabel=True) == {(top + 1, 0): 1}
    with pytest.raises(IngestError, match=r"edges.txt, line 2: the id is beyond the largest dimension") as caught:
        ingest(f"0 1\n{2**63 - 1} 0\n")
    assert caught.value.token == str(2**63 - 1)


def test_header_is_skipped(ingest: Any, tmp_path: Path) -> None:
    assert ingest("# c\nsource,target,weight\n1,2,0.5\n", header=True) == {(1, 2): 0.5}
    assert ingest("3\n1 2\n0 1\n", header=True) == {(1, 2): 1, (0, 1): 1}
    for k in range(2):
        (tmp_path / f"part{k}.csv").write_text(f"a,b\n{k},{k + 1}\n")
    edges(str(tmp_path / "part*.csv"), tmp_path / "parts.sparrow", header=True)
    assert cells(tmp_path / "parts.sparrow") == {(0, 1): 1, (1, 2): 1}


def test_fourth_column_is_ignored_with_note(ingest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = "% bip weighted\n1 2 1 1082008561\n1 2 1 1082008562\n"
    assert ingest(text) == {(1, 2): 2.0}
    assert "columns after the third" in capsys.readouterr().err
    with settings.config(progress=False):
        ingest(text)
    assert capsys.readouterr().err == ""


def test_snap_undirected_header_is_noted(ingest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    head = "# Undirected graph: ../../data/output/amazon.ungraph.txt\n# Amazon\n# Nodes: 4 Edges: 2\n# From\tTo\n"
    told = "edges are undirected (# Undirected graph) and stored in one direction: pass directed=False"
    for text in (head + "1\t2\n3\t3\n", "\ufeff# Amazon\r\n\r\n" + head.replace("\n", "\r\n") + "1\t2\r\n3\t3"):
        assert ingest(text) == {(1, 2): 1, (3, 3): 1}
        assert told in capsys.readouterr().err
        assert ingest(text, directed=False) == {(1, 2): 1, (2, 1): 1, (3, 3): 1}
        assert told not in capsys.readouterr().err
    # "Directed graph (each unordered pair of nodes is saved once)" stands above files that hold both directions.
    for other in ("# Directed graph (each unordered pair of nodes is saved once)\n", "# An undirected graph no more\n"):
        ingest(other + "1\t2\n# Undirected graph\n")
        assert capsys.readouterr().err == ""


def test_line_of_sizes_is_noted(ingest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("3 2\n0 1\n1 2\n", "3 3 2\n0 1 5\n1 2 6\n"):
        assert len(ingest(text)) == 3
        assert f"the first line, {text.splitlines()[0]}, looks like sizes" in capsys.readouterr().err
        assert len(ingest(text, header=True)) == 2
        assert capsys.readouterr().err == ""
    ingest("0 1\n1 2\n2 3\n")
    ingest("0 1\n1 2\n")
    assert capsys.readouterr().err == ""


def test_a_comment_on_the_shape(tmp_path: Path) -> None:
    dst = tmp_path / "edges.sparrow"

    def shape(*texts: str, **options: Any) -> tuple[int, ...]:
        paths = [tmp_path / f"{k}.txt" for k in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        edges(paths, dst, overwrite=True, **options)
        return tuple(read_stored(dst).schema.shape)

    told = "# shape: 5 7\r\n# src\tdst\tvalue\r\n1\t2\t3\r\n"
    assert shape(told) == (5, 7)
    assert shape(told + "1\t8\t3\n") == (5, 9)
    assert shape(told, "# shape: 9 2\n0 1 1\n", "0 7 1\n") == (9, 8)
    assert shape(told, directed=False) == (7, 7)
    assert shape(told, shape=(2, 3)) == (2, 3)
    assert shape(told, relabel=True) == shape(told, ids="str") == (2, 2)
    assert shape(f"# shape: 5 {2**63}\n1 2\n") == shape("# shape: 5 7 9\n1 2\n") == (3, 3)


def test_arrow_like_name(ingest: Any) -> None:
    assert ingest("_ -- {}\n", ids="str") == {("_", "--"): 1}


def test_konect_headers_are_noted(ingest: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert ingest("% sym unweighted\n1 2\n") == {(1, 2): 1}
    assert "edges are undirected (% sym) and stored in one direction: pass directed=False" in capsys.readouterr().err
    assert ingest("% sym unweighted\n1 2\n", directed=False) == {(1, 2): 1, (2, 1): 1}
    ingest("% asym unweighted\n1 2\n")
    assert capsys.readouterr().err == ""
    text = "% bip unweighted\n% 2 2 5\n1 2\n2 5\n"
    assert ingest(text) == {(1, 2): 1, (2, 5): 1}
    assert "two kinds of vertices (% bip) share the ids of a square matrix: shape=(3, 6)" in capsys.readouterr().err
    ingest(text, shape=(3, 6))
    assert capsys.readouterr().err == ""
    assert read_stored(tmp_path / "edges.sparrow").schema.shape == (3, 6)
    ingest("%bip\r\n1 2\r\n")
    assert "shape=(m, n)" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "\n\n", "# only\n% comments\n"])
def test_empty_edge_list_warns(ingest: Any, tmp_path: Path, text: str) -> None:
    with pytest.warns(UserWarning, match=r"edges\.txt: there are no edges"):
        assert ingest(text) == {}
    assert read_stored(tmp_path / "edges.sparrow").schema.shape == (0, 0)


def test_several_files_compressed_or_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1\n1 2")
    (tmp_path / "b.txt").write_bytes(gzip.compress(b"# more\n2 3\n0 1\n"))
    edges([tmp_path / "b.txt", tmp_path / "a.txt"], tmp_path / "e.sparrow")
    assert cells(tmp_path / "e.sparrow") == {(0, 1): 2, (1, 2): 1, (2, 3): 1}


def test_standard_input(tmp_path: Path, pipe_stdin: Callable[[bytes], None]) -> None:
    pipe_stdin(b"0 1\n1 2\n")
    assert Edges("-", tmp_path / "in.sparrow").read() == str(tmp_path / "in.sparrow")
    assert cells(tmp_path / "in.sparrow") == {(0, 1): 1, (1, 2): 1}


def test_the_profile_small_is_smaller(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "e.txt").write_text("".join(f"{a} {b}\n" for a, b in rng.integers(0, 3000, (50_000, 2))))
    for profile in ("fast", "small"):
        edges(tmp_path / "e.txt", tmp_path / profile, profile=profile)
    assert read_stored(tmp_path / "small").nbytes < read_stored(tmp_path / "fast").nbytes
    assert cells(tmp_path / "small") == cells(tmp_path / "fast")


# -- vertices ------------------------------------------------------------------------------------


@pytest.fixture
def with_vertices(tmp_path: Path) -> Any:
    def run(vertices: str | bytes, text: str, **options: Any) -> Path:
        (tmp_path / "v.txt").write_bytes(vertices if isinstance(vertices, bytes) else vertices.encode())
        (tmp_path / "e.txt").write_text(text)
        path = tmp_path / "v.sparrow"
        edges(tmp_path / "e.txt", path, vertices=tmp_path / "v.txt", overwrite=True, **options)
        return path

    return run


def test_vertices_name_ids(with_vertices: Any) -> None:
    path = with_vertices("0\tcom.exämple\n1\torg.example\t77\n2\tout of the way\r\n", "0\t1\n1\t0\n0\t1\n")
    assert labels(path) == ["com.exämple", "org.example", "out of the way"]
    assert cells(path) == {(0, 1): 2, (1, 0): 1}
    path = with_vertices("# id name\n2 c x\n0,a\n1   b\n", "0 1\n")
    assert labels(path) == ["a", "b", "c"]
    path = with_vertices("1 a\n3 c\n", "1 3\n")
    assert labels(path) == [None, "a", None, "c"]
    assert cells(path) == {(1, 3): 1}


@pytest.mark.parametrize(
    ("vertices", "text", "message"),
    [
        ("0 a\nx b\n", "0 1\n", r"v.txt, line 2: the id of a vertex must be an integer \(at 'x'\)"),
        ("0 a\n\n-1 b\n", "0 1\n", r"v.txt, line 3: the id of a vertex is negative \(at '-1'\)"),
        ("0 a\n99999999999999999999 b\n", "0 1\n", r"v.txt, line 2: the id of a vertex is beyond"),
        ("0 a\n1\n", "0 1\n", r"v.txt, line 2: a vertex needs an id and a name \(at '1'\)"),
        ("0\ta\n1\t \n", "0 1\n", r"v.txt, line 2: a vertex needs an id and a name \(at '1'\)"),
        ("0 a\n0 b\n", "0 0\n", r"v.txt: the id of a vertex is repeated \(at '0'\)"),
        ("0 a\n1 a\n", "0 1\n", r"v.txt: two vertices have the same name \(at 'a'\)"),
        (b"0 a\n1 \xff\n", "0 1\n", r"v.txt, line 2: the text is not UTF-8"),
        ("0 a\n1 b\n", "0 1\n# c\n1 2\n", r"e.txt, line 3: the id must be below the number of vertices, 2 \(at '2'\)"),
        ("0 a\n3 b\n", "0 3\n3 3\n2 0\n1 0\n", r"e.txt, line 3: the id is not in vertices= \(at '2'\)"),
        ("0 a\n1 b\n", "0 b\n", r"e.txt, line 1: the id must be an integer, as in vertices= \(at 'b'\)"),
    ],
)
def test_bad_vertices(with_vertices: Any, vertices: str | bytes, text: str, message: str) -> None:
    with pytest.raises(IngestError, match=message):
        with_vertices(vertices, text)


# -- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "line", "token", "message"),
    [
        ("0 1\n2 x\n", {"ids": "int"}, 2, "x", "must be an integer: pass ids='str'"),
        ("0 1\n2 3.5\n", {"ids": "int"}, 2, "3.5", "must be an integer"),
        ("from to\n0 1\n1 2\n", {}, 1, "from to", "pass header=True to skip it, or ids='str'"),
        ("# c\n\nfrom,to,w\n0,1,2\n", {}, 3, "from,to,w", "pass header=True"),
        ("0 1\n-2 3\n", {}, 2, "-2", "negative: pass ids='str'"),
        ("0 1\n2 -3\n", {}, 2, "-3", "negative"),
        ("0 1\n2 9223372036854775808\n", {}, 2, "9223372036854775808", "beyond 2^63 - 1: pass ids='str'"),
        ("0 1\n2\n", {}, 2, "2", "an edge needs two ids"),
        ("0 1\n 2,,3\n", {}, 2, "2,,3", "an edge needs two ids"),
        ("# a\n0;1\n", {}, 2, "0;1", "pass delimiter=';' if it separates them"),
        (",0 1\n", {"ids": "str"}, 1, ",0 1", "an edge needs two ids"),
        ("a b\nc\n", {}, 2, "c", "an edge needs two ids"),
        ("\u00e9 \u00fc\n\n\u00e9\n", {"ids": "str"}, 3, "\u00e9", "an edge needs two ids"),
        ("1 2 3\n\n\u00e9\u00fc\n", {"ids": "str"}, 3, "\u00e9\u00fc", "an edge needs two ids"),
        ("0 1 2\n\n0 2\n", {}, 3, "0 2", "the line has no weight, unlike those above"),
        ("0 1 2\n0 2 {}\n", {}, 2, "0 2 {}", "the line has no weight"),
        ("0 1\n0 2 7.5\n", {}, 2, "7.5", "the line has a weight, unlike those above"),
        ("a b\na c 7.5\n", {}, 2, "7.5", "the line has a weight"),
        ("0 1 2\n0 2 abc\n", {}, 2, "abc", "the weight must be a number"),
        ("0 1 2\n0 2 1.5.2\n", {}, 2, "1.5.2", "the weight must be a number"),
        ("0 1 {'weight':3}\n", {}, 1, "{'weight':3}", "to read their weight"),
        ("0 1 2\n0 2 1.5\n", {"dtype": "int32"}, 2, "1.5", "the weight must be an integer: omit dtype="),
        ("0 1 2\n0 2 128\n", {"dtype": "int8"}, 2, "128", "the weight does not fit int8"),
        ("0 1 2\n\n0 2 -1\n", {"dtype": "uint8"}, 3, "-1", "the weight does not fit uint8"),
        ("0 1 2\n0,2,1e300\n", {"dtype": "float32"}, 2, "1e300", "the weight does not fit float32"),
        ("0 1 1\n0 2 0.5\n", {"dtype": "bool"}, 2, "0.5", "the weight does not fit bool"),
        ("0 1 2\n0 2 9223372036854775808\n", {"dtype": "int64"}, 2, "9223372036854775808", "does not fit int64"),
        (b"a b\nc \xff\xfe\n", {"ids": "str"}, 2, "\\xff\\xfe", "the text is not UTF-8"),
    ],
)
def test_bad_lines(
    ingest: Any, tmp_path: Path, text: str | bytes, options: Any, line: int, token: str, message: str
) -> None:
    with pytest.raises(IngestError, match=re.escape(message)) as caught:
        ingest(text, **options)
    assert caught.value.file == str(tmp_path / "edges.txt")
    assert caught.value.line == line
    assert caught.value.token == token
    assert sorted(os.listdir(tmp_path)) == ["edges.txt"]


@tune("io", block_bytes=1 << 12)
def test_bad_line_in_later_block(tmp_path: Path) -> None:
    """Later blocks report right line numbers and do not turn ids into names."""
    lines = ["# c", *(f"{k} {k + 1}" for k in range(5000)), "x y", "0 1"]
    (tmp_path / "e.txt").write_text("\n".join(lines))
    with pytest.raises(IngestError, match="pass ids='str' to take ids as names") as caught:
        edges(tmp_path / "e.txt", tmp_path / "e.sparrow")
    assert (caught.value.line, caught.value.token) == (5002, "x")
    assert sorted(os.listdir(tmp_path)) == ["e.txt"]


@pytest.mark.parametrize(
    "options",
    [
        {"ids": "names"},
        {"self_loops": "maybe"},
        {"duplicates": "mean"},
        {"profile": "tiny"},
        {"vertices": "v.txt", "ids": "str"},
        {"vertices": "v.txt", "relabel": True},
    ],
)
def test_bad_arguments(tmp_path: Path, options: Any) -> None:
    with pytest.raises(InvalidValueError):
        edges(tmp_path / "none.txt", tmp_path / "e.sparrow", **options)


def test_missing_matrix_lists_others(ingest: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        edges(tmp_path / "none.txt", tmp_path / "e.sparrow")
    ingest("0 1\n")
    with pytest.raises(ExistsError):
        edges(tmp_path / "edges.txt", tmp_path / "edges.sparrow")
    with pytest.raises(IngestError):
        ingest("0 1\nbad\n", ids="int")
    assert cells(tmp_path / "edges.sparrow") == {(0, 1): 1}


def test_truncated_gzip_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "e.gz").write_bytes(gzip.compress(b"".join(b"%d %d\n" % (k, k * k) for k in range(9999)))[:-100])
    with pytest.raises(IngestError):
        edges(tmp_path / "e.gz", tmp_path / "e.sparrow")
    assert os.listdir(tmp_path) == ["e.gz"]


# -- bounds --------------------------------------------------------------------------------------


def random_edges(path: Path, n: int, weighted: bool = False) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(8)
    table = np.minimum(rng.integers(0, 40_000, (n, 2)), rng.integers(0, 40_000, (n, 2)))
    table = np.column_stack([table, rng.integers(1, 9, n)]) if weighted else table
    np.savetxt(path, table, "%d")
    return table


@pytest.mark.parametrize("order", ["sorted", "nearly", "random"])
@pytest.mark.parametrize("weighted", [True, False])
def test_rows_exceed_memory(tmp_path: Path, order: str, weighted: bool) -> None:
    """Sorted rows go to the files; if order ends, they are sorted with the rest."""
    table = np.unique(random_edges(tmp_path / "e.txt", 20_000, weighted), axis=0)
    if weighted:
        table = table[np.unique(table[:, :2], axis=0, return_index=True)[1]]
    if order == "nearly":
        table = np.concatenate([table[5:], table[:5], table[100:200]])
    elif order == "random":
        table = np.random.default_rng(1).permutation(table)
    np.savetxt(tmp_path / "e.txt", table, "%d")
    with tune("io", block_bytes=1 << 14), tune("sorting", budget_bytes=50_000):
        edges(tmp_path / "e.txt", tmp_path / "e.sparrow")
    want: dict[tuple[int, int], Any] = {}
    for a, b, *w in table.tolist():
        want[a, b] = want.get((a, b), 0) + (w[0] if w else 1)
    assert cells(tmp_path / "e.sparrow") == want
    assert read_stored(tmp_path / "e.sparrow").schema.dtype == (np.float64 if weighted else np.int64)
    found = storage.open(str(tmp_path / "e.sparrow")).verify()
    assert not found


@tune("sorting", budget_bytes=20_000)
@tune("io", block_bytes=1 << 12)
def test_zeros_among_sorted_rows(tmp_path: Path) -> None:
    lines = [f"{k} 0 {k % 7}\n" for k in range(20_000)] + ["14 0 5\n"]
    (tmp_path / "e.txt").write_text("".join(lines))
    edges(tmp_path / "e.txt", tmp_path / "first.sparrow", duplicates="first")
    edges(tmp_path / "e.txt", tmp_path / "last.sparrow", duplicates="last")
    want = {(k, 0): float(k % 7) for k in range(20_000) if k % 7}
    assert cells(tmp_path / "first.sparrow") == want
    assert cells(tmp_path / "last.sparrow") == {**want, (14, 0): 5.0}


# Peak of this program alone: getrusage would include the memory of the test process at the fork.
PEAK = """
import re, sys
from pathlib import Path
from sparrow.runtime import settings
from sparrow.io.text.edges import Edges
settings.config(memory_limit="700MB", threads=2, progress=False)
Edges(sys.argv[1], sys.argv[2]).read()
print(int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to tell a process's peak memory")
def test_small_memory_limit_same_bits(tmp_path: Path) -> None:
    random_edges(tmp_path / "e.txt", 300_000, weighted=True)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, tmp_path / "e.txt", tmp_path / "small.sparrow"],
        capture_output=True,
        check=True,
    )
    assert int(done.stdout) < 900_000_000
    edges(tmp_path / "e.txt", tmp_path / "large.sparrow")
    names = [[file.name[:64] for file in (tmp_path / k).glob("*.parquet")] for k in ("small.sparrow", "large.sparrow")]
    assert names[0] == names[1]


def test_full_disk_is_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_edges(tmp_path / "e.txt", 50_000)
    usage = type("usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(StorageError, match=r"about \d+ bytes are needed and 1000 are free"):
        edges(tmp_path / "e.txt", tmp_path / "e.sparrow")
    assert os.listdir(tmp_path) == ["e.txt"]


def test_labels_exceed_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e.txt").write_text("".join(f"a{k} b{k}\n" for k in range(2000)))
    with settings.config(memory_limit=10**5), pytest.raises(TooLargeError, match="distinct labels would take"):
        edges(tmp_path / "e.txt", tmp_path / "e.sparrow")
    assert os.listdir(tmp_path) == ["e.txt"]


# Prints a line for each block, so that the test knows how far it is.
REPORTING = """
import sys
from sparrow.io.text.edges import Edges
from sparrow.runtime import settings
from sparrow.testing import on

settings.config(temp_directory=sys.argv[1])
with on("io.block", lambda **details: print("reading edges", flush=True)):
    Edges("-", sys.argv[2]).read()
"""


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("text", ["0 1\n", "a b\n"])
def test_ctrl_c_leaves_nothing(tmp_path: Path, text: str) -> None:
    """Ctrl-C while input is still coming through a pipe."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", REPORTING, temporary, tmp_path / "e.sparrow"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write(text.encode() * 4_000_000)
        child.stdin.flush()
        for _ in range(2):
            assert child.stdout.readline() == b"reading edges\n"
        child.send_signal(signal.SIGINT)
        error = child.stderr.read()  # the pipe stays open: only the signal ends it
        assert child.wait() != 0
    assert b"KeyboardInterrupt" in error
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"]
    assert not list(temporary.iterdir())


def test_files_do_not_depend_on_threads(tmp_path: Path) -> None:
    random_edges(tmp_path / "e.txt", 100_000, weighted=True)
    names = []
    for threads in (1, 3):
        with settings.config(threads=threads):
            edges(tmp_path / "e.txt", tmp_path / f"{threads}.sparrow")
        names.append(sorted(file.name[:64] for file in (tmp_path / f"{threads}.sparrow").glob("*.parquet")))
    assert names[0] == names[1]


@tune("sorting", single_part_max_rows=20_000, max_part_rows=20_000)
def test_parts_are_separate_files(tmp_path: Path) -> None:
    table = random_edges(tmp_path / "e.txt", 100_000)
    names = []
    for threads in (1, 3):
        with settings.config(threads=threads):
            edges(tmp_path / "e.txt", tmp_path / f"{threads}.sparrow")
        names.append(sorted(file.name[:64] for file in (tmp_path / f"{threads}.sparrow").glob("*.parquet")))
    assert names[0] == names[1]
    assert len(names[0]) == 6
    assert not storage.open(str(tmp_path / "3.sparrow")).verify()
    assert sum(cells(tmp_path / "3.sparrow").values()) == len(table)
    with pytest.raises(DuplicateError):
        edges(tmp_path / "e.txt", tmp_path / "twice.sparrow", duplicates="error")
    assert not (tmp_path / "twice.sparrow").exists()


def test_history_operation(ingest: Any, tmp_path: Path) -> None:
    ingest("0 1\n")
    assert [each["operation"] for each in storage.open(str(tmp_path / "edges.sparrow")).history()] == ["ingest edges"]


@pytest.mark.parametrize(("delimiter", "told"), [("\t", "\\t"), (";", ";"), ("::", "::"), ("|", "|")])
def test_single_delimiter(tmp_path: Path, delimiter: str, told: str) -> None:
    lines = [["New York", "Rome, #1", "2.5"], ["# no comment"], ["Rome, #1", "A,B"], ["A,B", " New York "]]
    text = "".join(delimiter.join([*line, "1"] if len(line) == 2 else line) + "\r\n" for line in lines)
    (tmp_path / "e.txt").write_text(text)
    A = sp.ingest.edges(tmp_path / "e.txt", tmp_path / "A.sparrow", delimiter=told)
    names = A.labels("src").to_pylist()
    assert names == ["A,B", "New York", "Rome, #1"]
    src, dst, values = (column.to_pylist() for column in A.to_arrow().columns)
    found = {(names[i], names[j]): v for i, j, v in zip(src, dst, values, strict=True)}
    assert found == {("New York", "Rome, #1"): 2.5, ("Rome, #1", "A,B"): 1, ("A,B", "New York"): 1}
    (tmp_path / "e.txt").write_text(f"1{delimiter}2\n3{delimiter}\n")
    with pytest.raises(IngestError) as caught:
        sp.ingest.edges(tmp_path / "e.txt", tmp_path / "B.sparrow", delimiter=delimiter)
    assert caught.value.line == 2
    (tmp_path / "e.txt").write_text(f"\x1c{delimiter}2\n3{delimiter}\x1c\n")
    B = sp.ingest.edges(tmp_path / "e.txt", tmp_path / "B.sparrow", delimiter=delimiter)
    assert B.labels("src").to_pylist() == ["\x1c", "2", "3"]
    with pytest.raises(InvalidValueError, match="without line ends"):
        sp.ingest.edges(tmp_path / "e.txt", tmp_path / "C.sparrow", delimiter="\n")


def test_sizes(tmp_path: Path) -> None:
    path = tmp_path / "e.txt"
    path.write_text("# Directed graph\n# Nodes: 7 Edges: 2\n0 3\n2 1\n")
    assert sp.ingest.edges(path, tmp_path / "A.sparrow").shape == (7, 7)
    assert sp.ingest.edges(path, tmp_path / "A.sparrow", overwrite=True, shape=(3, 4)).shape == (3, 4)
    with pytest.raises(IngestError, match=r"exceeds shape=\(4, 3\)") as caught:
        sp.ingest.edges(path, tmp_path / "B.sparrow", shape=(4, 3))
    assert (caught.value.line, caught.value.token) == (3, "3")
    path.write_text("# Nodes: 2 Edges: 1\n0 30\n")  # ids with gaps
    assert sp.ingest.edges(path, tmp_path / "A.sparrow", overwrite=True).shape == (31, 31)
    for bad in ({"shape": (3,)}, {"shape": (3, 3), "relabel": True}, {"shape": (3, 4), "directed": False}):
        with pytest.raises(InvalidValueError):
            sp.ingest.edges(path, tmp_path / "B.sparrow", **bad)
    path.write_text("a b\n")
    with pytest.raises(InvalidValueError, match="shape needs integer ids, got 'a'"):
        sp.ingest.edges(path, tmp_path / "B.sparrow", shape=(3, 3))
    assert not (tmp_path / "B.sparrow").exists()


def test_named_ids_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "e.txt").write_text("a b\n")
    sp.ingest.edges(tmp_path / "e.txt", tmp_path / "A.sparrow")
    assert "the ids are names, which become labels" in capsys.readouterr().err
    sp.ingest.edges(tmp_path / "e.txt", tmp_path / "A.sparrow", ids="str", overwrite=True)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("unit", [1, 1000])
def test_timestamps_are_not_summed(ingest: Any, unit: int) -> None:
    first, second = 1_700_000_000 * unit, 1_700_000_009 * unit
    once = f"1 2 {first}\n2 1 {second}\n"
    assert ingest(once) == {(1, 2): first, (2, 1): second}
    for text, cell, options in (
        (f"{once}1 2 {second}\n", "(1, 2)", {}),
        (f"a b {first}\na b {second}\n", "('a', 'b')", {}),
        (once, "(1, 2)", {"directed": False}),
    ):
        with pytest.raises(
            DuplicateError, match="looks like timestamps, which are not summed: pass duplicates='last'"
        ) as caught:
            ingest(text, **options)
        assert cell in str(caught.value)
    assert ingest(f"{once}1 2 {second}\n", duplicates="last") == {(1, 2): second, (2, 1): second}
    assert ingest(f"{once}1 2 {second}\n", dtype="float64") == {(1, 2): first + second, (2, 1): second}
    assert ingest(f"1 2 {first}\n1 2 0.5\n") == {(1, 2): first + 0.5}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1600000000.25", "1600000001.5"), ("1600000000123.5", "1600000000124"), ("320000000", "320000000"),
        ("20090101", "20091231"), ("200901010930", "200912312359"), ("20090101093000", "20091231235959"),
    ],
)  # fmt: skip
def test_kinds_of_timestamps_are_not_summed(ingest: Any, first: str, second: str) -> None:
    text = f"1 2 {first}\n2 1 {first}\n1 2 {second}\n"
    with pytest.raises(DuplicateError, match="looks like timestamps, which are not summed"):
        ingest(text)
    assert ingest(text, duplicates="last") == {(1, 2): float(second), (2, 1): float(first)}
    assert ingest(text, dtype="float64") == {(1, 2): float(first) + float(second), (2, 1): float(first)}


@pytest.mark.parametrize("weight", ["20091301", "20090100", "18991231", "200901012460", "20090101236000", "0.25"])
def test_weights_that_are_no_dates_are_summed(ingest: Any, weight: str) -> None:
    assert ingest(f"1 2 {weight}\n1 2 {weight}\n") == {(1, 2): 2 * float(weight)}


def test_exact_timestamps(ingest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = 1_600_000_000_000_000_001, 1_600_000_000_000_000_003
    text = f"1 2 {first}\n1 2 {second}\n"
    with pytest.raises(IngestError, match=r"looks like a timestamp.*pass duplicates='last', 'first'.*, too") as caught:
        ingest(text)
    options = dict(re.findall(r"(dtype|duplicates)='(\w+)'", str(caught.value).partition(" to keep")[0]))
    assert options == {"dtype": "int64"}
    for rule, expected in (("last", second), ("first", first), ("min", first), ("max", second)):
        assert f"'{rule}'" in str(caught.value)
        assert ingest(text, duplicates=rule, **options) == {(1, 2): expected}
    assert "timestamps" not in capsys.readouterr().err
    assert ingest(text, **options) == {(1, 2): first + second}
    assert "timestamps, which repeated edges sum: pass duplicates='last'" in capsys.readouterr().err


# -- comments and odd lines -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "want"),
    [
        ("%C3%85land\tBede\nBede\tx\n", {"ids": "str", "delimiter": "\t"}, {("%C3%85land", "Bede"), ("Bede", "x")}),
        ("# links\n\n%C3%85 Bede\nBede %20\n", {}, {("%C3%85", "Bede"), ("Bede", "%20")}),
        ("#one\n#two\na b\nb c\n", {}, {("a", "b"), ("b", "c")}),
        ("#src #dst\na b\nb c\n", {}, {("a", "b"), ("b", "c")}),
        ("#a b\nb #a\nc d\n", {}, {("#a", "b"), ("b", "#a"), ("c", "d")}),
        ("a b\n#tag b\n# not this\n%\nc %d\n", {}, {("a", "b"), ("#tag", "b"), ("c", "%d")}),
        ("1 2\n# 3 4\n%\t5 6\n#\n2 3\n", {}, {(1, 2), (2, 3)}),
        ("#1 2\n3 4\n", {}, {(3, 4)}),
        ("#1 2\n3 4\n", {"ids": "str"}, {("3", "4")}),
        ("# a\n# b\n", {"comment": ""}, {("#", "a"), ("#", "b")}),
        ("#a b\n#c d\n", {"comment": ""}, {("#a", "b"), ("#c", "d")}),
        ("a b\n#c d\n%e f\n", {"comment": "#"}, {("a", "b"), ("%e", "f")}),
        ("1 2\n#no\n2 3\n", {"comment": "#"}, {(1, 2), (2, 3)}),
        ("// x\n1 2\n//3 4\n", {"comment": "//"}, {(1, 2)}),
        ("C# F#\nF# C\n", {}, {("C#", "F#"), ("F#", "C")}),
        ("a#b x\nc d\n", {"ids": "str"}, {("a#b", "x"), ("c", "d")}),
        ("u;#tag\n#tag;v w\n", {"delimiter": ";"}, {("u", "#tag"), ("#tag", "v w")}),
    ],
)
def test_comments_and_marked_ids(ingest: Any, text: str, options: Any, want: set[Any]) -> None:
    assert {*ingest(text, **options)} == want
    if text[:2] != "#a" or "comment" in options:  # which the lines below decide
        with tune("io", block_bytes=8):
            assert {*ingest(text, **options)} == want


def test_comment_that_may_be_an_id_asks(ingest: Any) -> None:
    with pytest.raises(IngestError, match=r"pass ids='str' to take ids as names, or comment='#' to pass over it"):
        ingest("1 2\n#no 3\n2 3\n", ids="int")
    with pytest.raises(InvalidValueError, match="comment must be a prefix such as '#'"):
        ingest("1 2\n", comment=" #")


MARKS = st.sampled_from(["", "#", "%", "%C3%85"])


@given(
    st.lists(st.tuples(MARKS, st.sampled_from("abc"), MARKS, st.sampled_from("xyz")), min_size=1),
    st.sampled_from(["\t", ";", "::"]),
    st.sampled_from([9, 1 << 22]),
)
def test_delimited_names_may_begin_with_marks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str, str]], delimiter: str, block: int
) -> None:
    folder = tmp_path_factory.mktemp("marks")
    names = [(a + b, c + d) for a, b, c, d in rows]
    (folder / "e.txt").write_text("# comment\n" + "".join(f"{a}{delimiter}{b}\n" for a, b in names))
    with tune("io", block_bytes=block):
        edges(folder / "e.txt", folder / "e.sparrow", ids="str", delimiter=delimiter)
    found, seen = cells(folder / "e.sparrow"), labels(folder / "e.sparrow")
    assert {(seen[i], seen[j]) for i, j in found} == {*names}


@pytest.mark.parametrize(
    ("line", "token", "told"),
    [
        ("03 7 1", "03", "or pass ids='int' to read it as 3"),
        ("121_0  4 1", "121_0", "correct the line"),
        ("4 x 1", "x", ""),
        ("\u0663 7 1", "\u0663", "correct the line if it is wrong\n"),
    ],
)
def test_odd_id_is_noted(
    ingest: Any, line: str, token: str, told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = "".join(f"{k} {k + 1} 2.5\n" for k in range(9)) + line + "\n0 1 2.5\n"
    ingest(text)
    err = capsys.readouterr().err
    assert f"line 10: the id {token!r} is not written as an integer, unlike the others" in err
    assert told in err
    assert labels(tmp_path / "edges.sparrow") is not None
    ingest(text, ids="str")
    assert not capsys.readouterr().err


def test_many_names_are_no_odd_ids(ingest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ingest("1 2\n" + "a b\n" * 9)
    assert "unlike the others" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "0 1 2.5\n1 7 4 1\n",
        "0 1 2.5\n" * 9 + "1 7 4 2 3 4\n",
        "a b 1\n" * 5 + "a b 1 c d 2\n",
        "0 1 2 9\n" + "0 1 2\n" * 3,
    ],
)
def test_joined_lines_are_refused(ingest: Any, text: str) -> None:
    with pytest.raises(IngestError, match="have more than three columns, perhaps two lines run together") as caught:
        ingest(text)
    rows = text.splitlines()
    line = next(k for k, row in enumerate(rows, 1) if len(row.split()) > 3)
    assert (caught.value.line, caught.value.token) == (line, rows[line - 1])


def test_ids_written_as_floats(ingest: Any) -> None:
    assert ingest("1.0,2.0\n2.0,30.\n2,1.00\n") == {(1, 2): 1, (2, 30): 1, (2, 1): 1}
    assert ingest("1.0 2 0.5\n", ids="int") == {(1, 2): 0.5}
    assert ingest("1e3 2\n30E-1 1.50e+1\n0.0e9 12300e-2\n") == {(1000, 2): 1, (3, 15): 1, (0, 123): 1}
    assert ingest("1.0 2.5\n", ids="str") == {("1.0", "2.5"): 1}
    assert ingest("1e3 pi\n3.14 e\n") == {("1e3", "pi"): 1, ("3.14", "e"): 1}
    for token in ("2.5", "25e-1", "nan", "inf", ".5", "1e-1", "0.0001e3"):
        for text in (f"1 {token}\n", f"1 2\n3 4 # c\n{token} 7\n"):
            with pytest.raises(IngestError, match=r"must be an integer, .* pass ids='str'") as caught:
                ingest(text)
            assert (caught.value.line, caught.value.token) == (text.count("\n"), token)
    with pytest.raises(IngestError, match="beyond"):
        ingest("1e19 2\n")


@pytest.mark.parametrize("shift", [0, 1, 5, 18, 19])
@given(mantissa=st.integers(0, 10**18), digits=st.integers(0, 18), power=st.integers(-25, 25))
@hypothesis_settings(max_examples=50, deadline=None)
def test_ids_in_scientific_notation(shift: int, mantissa: int, digits: int, power: int) -> None:
    text = str(mantissa * 10**shift)[:18]
    whole, fraction = text[: max(len(text) - digits, 1)], text[max(len(text) - digits, 1) :]
    token = f"{whole}.{fraction}e{power}"
    exact = Decimal(token)
    src, dst, empty = (np.empty(size, np.int64) for size in (1, 1, 0))
    data = np.frombuffer(f"{token} 1\n".encode(), np.uint8)
    none = np.empty(0, np.uint8)
    counts = np.zeros(edge_lines.FACTS, np.int64)
    count, _, _, status, _ = edge_lines.parse_edges(
        data, False, True, False, 0, none, none, edge_lines.ANY_MARK, 0, src, dst, empty, empty, np.empty(0), empty,
        empty, counts,
    )  # fmt: skip
    if exact != exact.to_integral_value():
        assert (count, status) == (0, edge_lines.BAD_ID)
    elif exact >= 2**63:
        assert (count, status) == (0, edge_lines.LARGE_ID)
    elif count:
        assert (int(src[0]), status) == (int(exact), edge_lines.GOOD)
    else:  # digits behind the point that do not fit before the exponent applies
        assert status in (edge_lines.BAD_ID, edge_lines.LARGE_ID)
        assert len(text) > 17


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_units_of_timestamps(ingest: Any, unit: int) -> None:
    first = 1_700_000_000 * unit
    assert ingest(f"1 2 {first}\n2 1 {first}\n", dtype="int64") == {(1, 2): first, (2, 1): first}
    with pytest.raises(DuplicateError, match="looks like timestamps"):
        ingest(f"1 2 {first}\n1 2 {first}\n")


def test_relative_timestamps_are_not_summed(ingest: Any) -> None:
    times = [0, 2165, 2177, 2178, 2178, 2473, 3000]
    once = "".join(f"{k} {k + 1} {t}\n" for k, t in enumerate(times))
    assert len(ingest(once)) == 6
    with pytest.raises(DuplicateError, match="looks like timestamps"):
        ingest(once + "0 1 4000\n")
    assert ingest(once + "0 1 4000\n", dtype="float64")[0, 1] == 4000
    for weights in ([1, 1, 1, 2, 2, 2, 2, 2, 2], [5, 1, 2, 3, 4, 5, 6], [0.5, 1, 2, 3, 4, 5, 6]):
        text = "".join(f"0 1 {w}\n" for w in weights)
        assert ingest(text) == {(0, 1): sum(weights)}


@pytest.mark.parametrize("delimiter", [None, "\t", "::", ";", " "])
def test_lines_are_not_split_in_python(tmp_path: Path, delimiter: str | None) -> None:
    """Any delimiter, comments and blank lines go to the kernel as they are."""
    sign = delimiter or ","
    rows = [f"{k}{sign}{k % 7}{sign}{k / 2}" for k in range(30_000)]
    noise = ["", "# a comment", "%", "\t"] * 500
    (tmp_path / "e.txt").write_text("\n".join(noise + rows[:10] + noise + rows[10:]))
    calls: list[str] = []

    def trace(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and "edge" in frame.f_code.co_filename:
            calls.append(frame.f_code.co_name)

    sys.setprofile(trace)
    try:
        with settings.config(threads=1):
            edges(tmp_path / "e.txt", tmp_path / "e.sparrow", delimiter=delimiter, dtype="float64")
    finally:
        sys.setprofile(None)
    assert read_stored(tmp_path / "e.sparrow").nnz == 29_999
    assert len(calls) < 10_000  # the lines of a sample
