"""Every command that an error suggests runs on the input that caused it."""

from __future__ import annotations

import ast
import gzip
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparrow as sp
from sparrow.io.base.detect import detect_format
from sparrow.io.base.registry import formats, options_of
from sparrow.io.base.suggestion import TypedSource

COMMAND = re.compile(r"(?:^|[;|&] ?)sparrow ingest ")


_HINT = re.compile(
    r"(?:\b(?P<how>pass|omit|or) )(?P<name>[a-z_]+)="
    r"(?P<value>'[^']*'|\[[^]]*\]|\{[^}]*\}|\([^)]*\)|[-\w.]+|(?=[ ,:;]|$))"
)
"""Option that a message tells to pass or to omit: ``pass header=True``, ``or comment='#'``, ``omit dtype=``."""


def hinted_options(text: str, known: Iterable[str]) -> list[dict[str, Any]]:
    """Return the options that a message tells to pass; None for one to omit."""
    found: list[dict[str, Any]] = []
    names = {*known}
    for hint in _HINT.finditer(text):
        value: Any = None
        if hint["name"] not in names or (not hint["value"] and hint["how"] != "omit"):
            continue
        if hint["value"]:
            try:
                value = ast.literal_eval(hint["value"])
            except (ValueError, SyntaxError):
                continue
        if (change := {hint["name"]: value}) not in found:
            found.append(change)
    return found


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, with the program ``sparrow`` on the path."""
    program = tmp_path / "bin" / "sparrow"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sparrow "$@"\n')
    program.chmod(0o755)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(sp.__file__).parent.parent), *sys.path]))


def suggestions(err: str) -> list[str]:
    """Return the commands in what the program wrote to standard error."""
    lines = err.split("\n")
    found = [line.strip() for line in lines if line.startswith("  ") and "sparrow ingest" in line]
    tools = "sed|awk|grep|tr|cat|gzip|unzip|tar|jq|iconv|\\(echo"
    inline = re.search(rf": ((?:(?:{tools}) .* ?[|;&]+ )?sparrow ingest .* out\b.*)$", lines[0])
    return found if inline is None else [inline[1], *found]


def elements(path: str = "out") -> Any:
    """Return the elements of a stored tensor by label, or of the members of a bundle."""
    made = sp.open(path)
    if not isinstance(made, sp.Tensor):
        return {name: elements(os.path.join(path, name)) for name in made}
    *coords, values = (column.to_pylist() for column in made.to_arrow().columns)
    labels = [made.labels(dim) for dim in made.dims]
    return {
        tuple(k if names is None else names[k].as_py() for k, names in zip(cell, labels, strict=True)): value
        for *cell, value in zip(*coords, values, strict=True)
    }


def run(command: str, cli: Any) -> Any:
    """Run a suggested command, sparrow in this process, and return what it stored."""
    match = re.fullmatch(r"(?:(.*) (\||&&|;)|(.*;)|) ?(sparrow ingest .*)", command)
    assert match is not None, command
    if re.search(r"(^|\| )jq ", command) and shutil.which("jq") is None:
        pytest.skip("needs jq")
    before, sign, last = match.group(1, 2, 4)
    before = before or re.sub(r";? ?sparrow ingest .*", "", command)
    words = shlex.split(last)
    if before:
        done = subprocess.run(before, shell=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stderr.decode()}"
        if sign == "|":
            Path("piped").write_bytes(done.stdout)
            words[words.index("-")] = "piped"
    done = cli(*words[1:])
    assert done.code == 0, f"{command}\n{done.err}"
    found = elements()
    shutil.rmtree("out")
    return found


RATINGS = {(196, 242): 3, (186, 302): 3, (22, 377): 1}
TRIANGLE = {(0, 1): 1, (1, 2): 1, (2, 0): 1}
NAMED_TRIANGLE = {("0", "1"): 1, ("1", "2"): 1, ("2", "0"): 1}
BIG = 2**53 + 1

SNIFFED: list[tuple[str, str, list[Any]]] = [
    # MovieLens 100k, whose fourth column is a time
    ("u.data", "196\t242\t3\t881250949\n186\t302\t3\t891717742\n22\t377\t1\t878887116\n", [RATINGS]),
    # Network Repository
    ("ia.edges", "1,2,1,1082008561\n2,3,4,1082008562\n", [{(1, 2): 1, (2, 3): 4}, {(1, 2): 1, (2, 3): 4}]),
    # names, then a count
    ("plays.tsv", "u1\ta9\tThe Band\t17\nu2\ta8\tX\t4\n", [{("u1", "a9", "The Band"): 17, ("u2", "a8", "X"): 4}]),
    # index columns of pandas and R
    ("pandas.csv", ",user,item,n\n0,5,7,1\n1,5,8,2\n", [{(5, 7): 1, (5, 8): 2}]),
    ("r.csv", '"","user","item","n"\n"1","a","b",3\n"2","c","d",4\n', [{("a", "b"): 3, ("c", "d"): 4}]),
    ("r.txt", '"user" "item" "n"\n"1" "a b" "b" 3\n"2" "c" "d" 4\n', [{("a b", "b"): 3, ("c", "d"): 4}]),
    ("r2.txt", "user item n\n1 a b 3\n2 c d 4\n", [{("a", "b"): 3, ("c", "d"): 4}]),
    ("r.tsv", "user\titem\tn\nx\ta\tb\t3\ny\tc\td\t4\n", [{("a", "b"): 3, ("c", "d"): 4}]),
    # LDBC
    ("ldbc.csv", "Person.id|Forum.id|joined\n1|2|2010-01-01\n3|4|2010-02-02\n", [{(1, 2): 1, (3, 4): 1}]),
    ("knows.csv", "Person.id|Person.id|weight\n1|2|7\n3|4|8\n", [{(1, 2): 7, (3, 4): 8}]),
    # decimal commas, below names and without, as spreadsheets write them
    ("de.csv", "user;item;n\na;x;1,5\nb;y;2,5\n", [{("a", "x"): 1.5, ("b", "y"): 2.5}]),
    ("de.tsv", "user\titem\tn\na\tx\t1,5\nb\ty\tNA\nc\ty\t1\n", [{("a", "x"): 1.5, ("c", "y"): 1.0}]),
    ("de2.csv", "a;x;1,5\nb;y;2,5\n", [{("a", "x"): 1.5, ("b", "y"): 2.5}]),
    # days and texts that distinguish rows
    ("day.csv", "day;shop;sku;n\n01.02.2026;s;k;1\n02.02.2026;s;k;2\n",
     [{("01.02.2026", "s", "k"): 1, ("02.02.2026", "s", "k"): 2}]),
    ("till.csv", "shop,sku,till,n\ns,k,a,1\ns,k,b,2\ns,l,a,3\ns,l,b,4\n",
     [{("s", "k", "a"): 1, ("s", "k", "b"): 2, ("s", "l", "a"): 3, ("s", "l", "b"): 4}]),
    # names in a comment
    ("hash.csv", "#user,item,n\n5,7,1\n5,8,2\n", [{(5, 7): 1, (5, 8): 2}, {(5, 7): 1, (5, 8): 2}]),
    ("hash2.csv", "# made by us, today\n# user;item;time;n\n5;7;1700000000;1\n5;8;1700000001;2\n",
     [{(5, 7): 1, (5, 8): 2}]),
    ("blanks.csv", "u , i, v\n1,2,3\n2,3,4\n", [{(1, 2): 3, (2, 3): 4}]),
    ("comma.csv", "a,b,c\n1,2,3\n".replace("a,", '"x,y",'), [{(1, 2): 3}]),
    ("four.txt", "1 1 1 1.0\n2 2 2 3.5\n", [{(0, 0, 0): 1, (1, 1, 1): 3.5}, {(1, 1, 1): 1, (2, 2, 2): 3.5}]),
    ("german.csv", "user;item;n\n1;2;3,5\n2;3;4,25\n", [{(1, 2): 3.5, (2, 3): 4.25}]),
    ("semi.txt", "1;2;3\n2;3;4\n", [{(1, 2): 3, (2, 3): 4}] * 2),
    ("bar.txt", "a|b\nb|c\n", [{("a", "b"): 1, ("b", "c"): 1}] * 2),
    ("flags.csv", "u,i,v\n1,2,True\n2,3,False\n", [{(1, 2): True}]),
    ("rated.csv", "userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n1,29,4.0,1112484676\n",
     [{(1, 2): 3.5, (1, 29): 4}]),
    ("amazon.csv", "A2CX,0321732944,5.0,1341100800\nA2CY,0439886341,1.0,1367193600\n",
     [{("A2CX", "0321732944"): 5, ("A2CY", "0439886341"): 1}]),
    ("gowalla.txt", "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n1\t2010-10-18T22:17:43Z\t30.3\t-97.8\t420315\n",
     [{(0, 22847): 1, (1, 420315): 1}]),
    ("ml.dat", "1::1193::5::978300760\n1::661::3::978302109\n", [{(1, 1193): 5, (1, 661): 3}]),
    ("pairs.dat", "1::5\n3::4\n", [{(1,): 5, (3,): 4}]),
    ("t.tsv", "x\tr\ty\ny\tr\tz\n", [{("x", "r", "y"): 1, ("y", "r", "z"): 1}] * 2),
    ("t2.tsv", "Oslo\tlies far up in the\tnorth\nRome\tis\tnice\n",
     [{("Oslo", "lies far up in the", "north"): 1, ("Rome", "is", "nice"): 1}] * 2),
    ("cities.tsv", "New York\tRome\nRome\tOslo\n", [{("New York", "Rome"): 1, ("Rome", "Oslo"): 1}] * 2),
    ("head.csv", "from,to\n0,1\n1,2\n2,0\n", [TRIANGLE, TRIANGLE]),
    ("sizes.txt", "3 3 2\n1 1 5\n3 2 1\n", [{(1, 1): 5, (3, 2): 1}, {(0, 0): 5, (2, 1): 1}]),
    ("sizes2.txt", "3 3\n0 1\n1 2\n2 0\n", [TRIANGLE]),
    ("x.mtx", "3 3 2\n1 1 5\n3 2 1\n", [{(0, 0): 5, (2, 1): 1}]),
    ("y.mtx", "3 3 2\n1 1 0.5\n3 2 1\n", [{(0, 0): 0.5, (2, 1): 1}]),
    ("lists.txt", "0 1 2\n1 2 3 4\n2 0 1\n", [
        dict.fromkeys([(0, 1), (0, 2), (1, 2), (1, 3), (1, 4), (2, 0), (2, 1)], 1)
    ]),
    ("kg.tns", "1 2330 3959 2200\n2 3136 1854 3861\n1 2318 4907 2934\n", [
        {(0, 2329, 3958, 2199): 1, (1, 3135, 1853, 3860): 1, (0, 2317, 4906, 2933): 1},
        {(0, 2329, 3958): 2200, (1, 3135, 1853): 3861, (0, 2317, 4906): 2934},
    ]),
    ("genes.tsv", "A\tA\nB\tB\nC\tC\n", [{("A", "A"): 1, ("B", "B"): 1, ("C", "C"): 1}] * 2),
    ("sums.txt", "d41d8c  a.txt\nd41d8d  b.txt\n", [{("d41d8c", "a.txt"): 1, ("d41d8d", "b.txt"): 1}] * 2),
    ("one.txt", "u1,i1,5\nu2,i2,3\n", [{("u1", "i1"): 5, ("u2", "i2"): 3}] * 2),
    ("x.vcf", "##format=4\n#CHROM\tPOS\tID\n1\t100\trs1\n1\t200\trs2\n", [
        {("1", "100", "rs1"): 1, ("1", "200", "rs2"): 1}, {(1, 100, "rs1"): 1, (1, 200, "rs2"): 1}
    ]),
    ("said.csv", "# by us\n\n# today\nuser,item,n\n1,2,3\n2,3,4\n", [{(1, 2): 3, (2, 3): 4}]),
    ("blanks,.csv", "New York,Rome\nRome,Oslo\n", [{("New York", "Rome"): 1, ("Rome", "Oslo"): 1}] * 2),
    ("square.txt", "0 1 0\n1 0 1\n0 1 0\n", [{(1, 0): 1}] * 2),
    ("null.csv", "user,item,n\n1,2,3\n2,,4\n-1,3,5\n1,2,4\n", [{(1, 2): 7, (-1, 3): 5}]),
    ("words.txt", "the 0.5\nof 0.25\n", [{("the",): 0.5, ("of",): 0.25}, {("the", "0.5"): 1, ("of", "0.25"): 1}]),
    ("list.json", '[{"u": 1, "i": 2, "v": 3},\n{"u": 2, "i": 3, "v": 4}]\n', [{(1, 2): 3, (2, 3): 4}]),
    ("rows.json", "[[1, 2, 3.5], [2, 3, 4]]\n", [{(1, 2): 3.5, (2, 3): 4}]),
    ("bare.mtx", "2 2 1\n1 2\n", [{(0, 1): 1}]),
    ("topcats.txt", "Category:B; 301 302 303\nCategory:P; 1057 2\n", [
        dict.fromkeys([*(("Category:B", k) for k in (301, 302, 303)), ("Category:P", 1057), ("Category:P", 2)], 1)
    ]),
    ("adj.txt", "a|b, c, d\nb|c\n", [{("a", "b"): 1, ("a", "c"): 1, ("a", "d"): 1, ("b", "c"): 1}]),
    ("arrow.txt", "0->1\n1->2\n2->0\n", [TRIANGLE]),
    ("quotes.csv", '"a ""x""",b,n\n1,2,3\n2,3,4\n', [{(1, 2): 3, (2, 3): 4}]),
    ("ok.csv", "u,i,ok\n1,2,yes\n2,3,no\n", [{(1, 2): 1, (2, 3): 1}]),
    ("wide.csv", f"u,i,n\n{2**64},2,3\n7,3,4\n", [{(str(2**64), 2): 3, ("7", 3): 4}]),
    ("wide2.csv", f"u,i,n\n{2**63 - 1},2,3\n7,3,4\n", [{(str(2**63 - 1), 2): 3, ("7", 3): 4}]),
    ("lists.csv", "0,1,2\n1,2,3,4\n2,0\n3\n", [dict.fromkeys([(0, 1), (0, 2), (1, 2), (1, 3), (1, 4), (2, 0)], 1)]),
    ("arrow3.txt", "0\u21921\n1\u21922\n2\u21920\n", [TRIANGLE]),
    ("halves.txt", "1.5 2.0\n2.0 3.0\n", [{("1.5", 2): 1, ("2.0", 3): 1}, {("1.5", "2.0"): 1, ("2.0", "3.0"): 1}]),
    ("breaks.csv", 'u,i,v\n"a\nb",c,3\nd,e,4\n', [{("a\nb", "c"): 3, ("d", "e"): 4}]),
    ("r1.txt", '"user"\t"item"\n"1"\t"a"\t"b"\n', [{("a", "b"): 1}]),
    ("arrow2.txt", "0 -> 1\n1 -> 2\n2 -> 0\n", [TRIANGLE]),
    ("text.svm", "positive 1:1 3:2\nnegative 2:1\n", [{"X": {(0, 0): 1, (0, 2): 2, (1, 1): 1}, "y": {(0,): 1}}]),
    ("a.jsonl", '{"user": 1, "item": 2, "stars": 3}\n{"user": 2, "item": 3, "stars": 4}\n', [{(1, 2): 3, (2, 3): 4}]),
    ("flag.jsonl", '{"u": "a", "i": "b", "seen": true}\n', [{("a", "b"): True}]),
    ("a.gdf", "nodedef>name VARCHAR\na\nb\nedgedef>node1 VARCHAR,node2 VARCHAR,w DOUBLE\na,b,2\n", [{("a", "b"): 1}]),
    ("a.gr", "c roads\np sp 3 2\na 0 2 5\na 2 1 6\n", [{(0, 2): 5, (2, 1): 6}]),
    ("a.nt", "<a> <r> <b> .\n<b> <r> <a> .\n", [{("<a>", "<r>", "<b>"): 1, ("<b>", "<r>", "<a>"): 1}]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "wanted"), SNIFFED, ids=[case[0] for case in SNIFFED])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_commands_for_text_that_asks(cli: Any, name: str, text: str, wanted: list[Any], packed: bool) -> None:
    name = f"it's {name}"
    data = text.encode()
    Path(name).write_bytes(gzip.compress(data) if packed else data)
    done = cli("ingest", name, "out")
    assert done.code == 1, done.err
    commands = suggestions(done.err)
    assert len(commands) == len(wanted), done.err
    for command, want in zip(commands, wanted, strict=True):
        assert run(command, cli) == want, command
    assert "out" not in os.listdir()


EXPLICIT: list[tuple[str, str, str, dict[str, Any], list[Any]]] = [
    ("e.txt", "0 1\n1 2\n2.5 0\n", "edges", {}, [{("0", "1"): 1, ("1", "2"): 1, ("2.5", "0"): 1}]),
    ("q.txt", '"u" "v"\n"a" 1\n', "columns", {"coords": ["u"], "value": "v", "delimiter": " "}, [{("a",): 1}]),
    ("latin2.csv", "gr\xf6\xdfe,n\nK\xf6ln,1\n", "columns", {"coords": ["gr\xf6\xdfe"]}, [{("K\xf6ln",): 1}]),
    ("e.csv", "from,to\n0,1\n1,2\n2,0\n", "edges", {}, [TRIANGLE, {("from", "to"): 1, **NAMED_TRIANGLE}]),
    ("e.txt", "1 2\n-2 3\n", "edges", {}, [{("1", "2"): 1, ("-2", "3"): 1}]),
    ("e.txt", "0 1\n1 2\n2 0\n#x 3\n", "edges", {"ids": "int"}, [{**NAMED_TRIANGLE, ("#x", "3"): 1}, TRIANGLE]),
    ("e.txt", "0;1\n1;2\n2;0\n", "edges", {"relabel": True}, [TRIANGLE]),
    ("e.txt", "0->1\n1->2\n2->0\n", "edges", {"dtype": "int8"}, [TRIANGLE]),
    ("e.txt", f"0 1 {BIG}\n1 0 1\n", "edges", {}, [{(0, 1): BIG, (1, 0): 1}, {(0, 1): BIG - 1, (1, 0): 1}]),
    ("e.txt", "0 1 1700000000\n0 1 1700000009\n", "edges", {}, [{(0, 1): 1700000009}, {(0, 1): 3400000009}]),
    ("e.txt", "0 1 1\n0 1 0.5\n", "edges", {"duplicates": "error"}, [{(0, 1): 1.5}]),
    ("e.txt", "0 1 1.5\n", "edges", {"dtype": "int64"}, [{(0, 1): 1.5}]),
    ("e.txt", "0 1 2.5\n1 2 1\n1 7 4 1\n", "edges", {"relabel": True}, [{(0, 1): 2.5, (1, 2): 1, (1, 7): 4}]),
    ("e.txt", "1 -> 2\n2 -> 3\n", "edges", {"directed": False}, [{(1, 2): 1, (2, 1): 1, (2, 3): 1, (3, 2): 1}]),
    ("q.csv", '"a","b"\n"b","c"\n', "edges", {}, [{("a", "b"): 1, ("b", "c"): 1}]),
    ("w.txt", "1 2 {'weight': 3.5}\n2 3 {\"weight\": 4}\n", "edges", {}, [{(1, 2): 3.5, (2, 3): 4}]),
    ("a.tgf", "1 a\n2 b\n3\n#\n1 2\n2 3\n", "edges", {}, [{(1, 2): 1, (2, 3): 1}]),
    ("a.graph", "4 2 0\n2 4\n1\n% c\n\n1\n", "edges", {}, [{(0, 1): 1, (0, 3): 1, (1, 0): 1, (3, 0): 1}]),
    ("a.graph-txt", "3\n1 2 \n\n0 1 \n", "edges", {}, [{(0, 1): 1, (0, 2): 1, (2, 0): 1, (2, 1): 1}]),
    ("t.tns", "1 1 2 2.5\n2 2 1 1\n", "edges", {}, [{(0, 0, 1): 2.5, (1, 1, 0): 1}]),
    ("bare.mtx", "% none\n2 2 1\n1 2 0.5\n", "mtx", {"dims": ["i", "j"]}, [{(0, 1): 0.5}]),
    ("rows.json", "[[1, 2, 3.5], [2, 3, 4]]\n", "edges", {}, [{(1, 2): 3.5, (2, 3): 4}]),
    ("m.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 3\n", "edges", {}, [{(1, 0): 3}]),
    *(
        ("m.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 1\n2 1 3\n", kind, {}, [{(1, 0): 3}])
        for kind in ("tns", "metis", "triples")
    ),
    ("a9a", "1 1:2 3:4\n", "edges", {}, [{"X": {(0, 0): 2, (0, 2): 4}, "y": {(0,): 1}}]),
    ("a.ffm", "1 0:3:1\n", "edges", {}, [{"X": {(0, 0, 3): 1}, "y": {(0,): 1}}]),
    ("latin.txt", "K\xf6ln Bonn\n", "edges", {"ids": "str"}, [{("K\xf6ln", "Bonn"): 1}]),
    ("a.tns", "1 1 2\n0 1 3\n", "tns", {}, [{(1, 1): 2, (0, 1): 3}]),
    ("i.mtx", "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 3.0\n", "mtx", {}, [{(0, 0): 3}]),
    ("a.svm", "1 1:1 1:2\n", "libsvm", {}, [{"X": {(0, 0): 3}, "y": {(0,): 1}}]),
    ("w.svm", "1:0.5 101:1.2\n0:2 1:3 2:4\n", "libsvm", {}, [
        {"X": {(0, 100): 1.2, (1, 0): 3, (1, 1): 4}, "y": {(0,): 1}}
    ]),
    ("t.csv", "u,i,v\n1,2,3\n1,2,4\n", "columns", {"coords": ["u", "i"], "value": "v"}, [{(1, 2): 7}]),
    ("t.csv", "u,i,v\n1,2,\n1,3,4\n", "columns", {"coords": ["u", "i"], "value": "v"}, [{(1, 3): 4}]),
    ("t.csv", "u,v\n1,2\n-2,4\n", "columns", {"coords": ["u"], "value": "v"}, [{(1,): 2, (-2,): 4}]),
    ("t.csv", "u;v\n1;2\n2;4\n", "columns", {"coords": ["u"], "value": "v"}, [{(1,): 2, (2,): 4}]),
    ("t.csv", "u;v\n1;2,5\n2;4\n", "columns", {"coords": ["u"], "value": "v", "delimiter": ";"},
     [{(1,): 2.5, (2,): 4}]),
    ("t.csv", "u,v\n1,300\n", "columns", {"coords": ["u"], "value": "v", "dtype": "int8"}, [{(1,): 300}]),
    ("t.csv", "u,v\n0,1\n", "columns", {"coords": ["u"], "value": "v", "index_base": 1}, [{(0,): 1}]),
    ("t.csv", "u,v\n1.5,1\n", "columns", {"coords": ["u"], "value": "v"}, [{("1.5",): 1}]),
    ("latin.csv", "ort,n\nK\xf6ln,1\n", "columns", {"coords": ["ort"], "value": "n"}, [{("K\xf6ln",): 1}]),
    ("q.csv", 'u,v\nab,1\n"cd,2\n', "columns", {"coords": ["u"], "value": "v"}, [{("ab",): 1, ('"cd',): 2}]),
    ("l.json", '[{"a": 1, "b": 2}]', "columns", {"coords": ["a"], "value": "b"}, [{(1,): 2}]),
    ("e.csv", "u,v,\n1,2,\n".replace("v,", "v"), "columns", {"coords": ["u"], "value": "v"}, [{(1,): 2}]),
    ("a.nt", "<a> <r> <b> .\n", "triples", {}, [{("<a>", "<r>", "<b>"): 1}]),
    ("t.txt", "head relation tail\na r b\n", "triples", {}, [{("a", "r", "b"): 1}]),
    ("t.txt", "0 1 2\n0 x 2\n", "triples", {"ids": "int"}, [{("0", "1", "2"): 1, ("0", "x", "2"): 1}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "kind", "options", "wanted"), [case for case in EXPLICIT if case[4]],
    ids=[f"{case[2]}-{k}" for k, case in enumerate(EXPLICIT) if case[4]],
)  # fmt: skip
def test_commands_for_refusals(
    cli: Any, name: str, text: str, kind: str, options: dict[str, Any], wanted: list[Any]
) -> None:
    """Suggested commands keep the other options."""
    name = f"my {name}"
    Path(name).write_bytes(text.encode("latin-1" if "latin" in name else "utf-8"))
    typed = TypedSource.of(name)
    done = cli(*shlex.split(typed.command(kind, **options).replace("DST", "out"))[1:])
    assert done.code == 1, done.err
    commands = suggestions(done.err)
    if not commands:
        with pytest.raises(sp.errors.SparrowError) as caught:
            getattr(sp.ingest, kind)(name, "out", **options)
        known = [each.name for each in options_of(formats()[kind].reader)]
        hints = hinted_options(str(caught.value), known)
        commands = [typed.command(kind, **{**options, **hint}).replace("DST", "out") for hint in hints]
    assert len(commands) >= len(wanted), done.err
    for command, want in zip(commands, wanted, strict=False):
        assert run(command, cli) == want, command


def test_overwriting_is_suggested_where_it_works(cli: Any) -> None:
    Path("e.txt").write_text("0 1\n1 2\n2 0\n")
    cli("ingest", "edges", "e.txt", "out")
    done = cli("ingest", "edges", "e.txt", "out", "--ids", "str")
    assert "pass --overwrite to replace it, or --if-exists open to open it" in done.err
    assert run("sparrow ingest edges e.txt out --ids str --overwrite", cli) == NAMED_TRIANGLE
    Path("notes").mkdir()
    for target in ("notes", "e.txt"):
        done = cli("ingest", "edges", "e.txt", target)
        assert (done.code, suggestions(done.err)) == (1, [])
        assert "choose another name, or remove it yourself" in done.err


# -- several files, folders, archives -------------------------------------------------------------------


def test_the_typed_pattern_is_suggested(cli: Any) -> None:
    for k in range(3):
        Path(f"part-{k}.csv").write_text(f"u,i,v\n{k},{k + 1},{k + 2}\n")
    Path("part-9.csv").touch()
    done = cli("ingest", "part-*.csv", "out")
    (command,) = suggestions(done.err)
    assert "'part-*.csv'" in command
    assert run(command, cli) == {(k, k + 1): k + 2 for k in range(3)}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_folders_of_parts(cli: Any, suffix: str) -> None:
    Path("spark").mkdir()
    frame = pl.DataFrame({"u": [1, 2], "i": [2, 3], "v": [0.5, 2.5]})
    for k in range(2):
        part = frame.with_columns(pl.col("u") + 10 * k)
        getattr(part, f"write_{suffix}")(f"spark/part-0000{k}.{suffix}")
    Path("spark/_SUCCESS").touch()
    Path("spark/part-00002").touch()
    want = {(1, 2): 0.5, (2, 3): 2.5, (11, 2): 0.5, (12, 3): 2.5}
    for typed in ("spark", "spark/*", "spark/"):
        done = cli("ingest", typed, "out")
        (command,) = suggestions(done.err)
        assert shlex.quote(typed) in command
        assert run(command, cli) == want


def test_hive_folder_is_suggested_as_typed(cli: Any) -> None:
    for year in (2025, 2026):
        folder = Path(f"hive/year={year}")
        folder.mkdir(parents=True)
        pl.DataFrame({"u": [1], "i": [year % 10], "v": [0.5]}).write_parquet(folder / "data.parquet")
    done = cli("ingest", "hive", "out")
    (command,) = suggestions(done.err)
    assert run(command, cli) == {(1, 5): 0.5, (1, 6): 0.5}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_folders_are_coordinates_where_files_have_one(cli: Any, suffix: str) -> None:
    for year in (2025, 2026):
        folder = Path(f"hi ve/year={year}/at=a b")
        folder.mkdir(parents=True)
        getattr(pl.DataFrame({"u": [1], "v": [0.5]}), f"write_{suffix}")(folder / f"d.{suffix}")
    done = cli("ingest", "hi ve", "out")
    (command,) = suggestions(done.err)
    assert run(command, cli) == {(1, 2025, "a b"): 0.5, (1, 2026, "a b"): 0.5}


def test_latin_1_is_suggested(cli: Any) -> None:
    Path("a.csv").write_bytes("stra\xdfe,ort,n\nA,K\xf6ln,1\nB,Bonn,2\n".encode("latin-1"))
    (command,) = suggestions(cli("ingest", "a.csv", "out").err)
    assert run(command, cli) == {("A", "K\xf6ln"): 1, ("B", "Bonn"): 2}


@pytest.mark.parametrize("words", [[], ["edges"], ["columns", "--coords", "a"]])
def test_python_is_not_spelled_as_a_command(cli: Any, words: list[str]) -> None:
    Path("it's.orc").write_bytes(b"ORC" + bytes(20))
    done = cli("ingest", *words[:1], "it's.orc", "out", *words[1:])
    told = done.err[done.err.index("in Python, ") :]
    assert 'sp.ingest.columns(pyarrow.orc.read_table("it\'s.orc"), DST, coords=[...])' in told


def test_delta_table_is_stored_first(cli: Any) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake("dl", pa.table({"u": [1], "n": [3]}))
    told = cli("info", "dl").err
    assert re.search("sparrow ingest '.*/dl' DST names its columns", told), told


def test_folder_of_other_files_names_a_pattern(cli: Any) -> None:
    Path("data").mkdir()
    Path("data/a.csv").write_text("u,v\n1,2\n")
    Path("data/README.md").write_text("# data\n")
    Path("data/b.csv").write_text("u,v\n2,3\n")
    done = cli("ingest", "columns", "data", "out", "--coords", "u", "--value", "v")
    assert "this is a folder: pass its files, such as 'data/*.csv'" in done.err


def test_folder_lists_what_its_files_are(cli: Any) -> None:
    files = {
        "it's a.svm": "1 1:2\n",
        "b.txt": "0 1\n1 2\n2 0\n",
        "c.csv": "u,i,v\n1,2,3\n",
        "d": "one\ntwo\n",
        ".hidden": "0 1\n",
    }
    Path("my data", "below").mkdir(parents=True)
    for name, text in files.items():
        Path("my data", name).write_text(text)
    done = cli("ingest", "my data", "out")
    assert "this is a folder: pass one of its files, such as 'my data/b.txt'" in done.err
    for name, content in {"b.txt": "edges: two integer ids", "below": "a folder", "d": "a line has one column"}.items():
        assert re.search(rf"\n  {name} +{content}", done.err), done.err
    assert "hidden" not in done.err
    wanted: list[Any] = [TRIANGLE, {(1, 2): 3}, {"X": {(0, 0): 2}, "y": {(0,): 1}}]
    assert [run(command, cli) for command in suggestions(done.err)] == wanted
    for k in range(20):
        Path("my data", f"part {k}.svm").write_text("1 1:2\n")
    done = cli("ingest", "my data", "out")
    assert "such as 'my data/*.svm'" in done.err
    assert len(suggestions(done.err)) < 10
    assert "and 17 more files" in done.err


@pytest.mark.parametrize("kind", ["parquet", "arrow", "ipc-stream"])
@pytest.mark.parametrize("verb", [[], ["edges"]])
def test_binary_tables_name_their_columns(cli: Any, kind: str, verb: list[str]) -> None:
    table = pa.table({"who": ["a", "b"], "what": [1, 2], "when": [0, 1], "rating": [0.5, 2.0]})
    if kind == "parquet":
        pq.write_table(table, "t")
    else:
        opened = pa.ipc.new_file("t", table.schema) if kind == "arrow" else pa.ipc.new_stream("t", table.schema)
        with opened as writer:
            writer.write_table(table)
    done = cli("ingest", *verb, "t", "out")
    (command,) = suggestions(done.err)
    assert run(command, cli) == {("a", 1): 0.5, ("b", 2): 2}


def test_delta_table_in_a_folder_of_any_name(cli: Any) -> None:
    deltalake = pytest.importorskip("deltalake")
    table = pa.table({"u": ["x y%/=", "z"], "i": [1, 2], "n": [3, 4]})
    for name in ("my dl", "it's an \xe9t\xe9"):
        deltalake.write_deltalake(name, table, partition_by=["u"])
        (command,) = suggestions(cli("ingest", name, "out").err)
        assert run(command, cli) == {("x y%/=", 1): 3, ("z", 2): 4}


def test_delta_table_on_the_command_line(cli: Any) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake("dl", pa.table({"u": [1, 2], "i": ["x", "y"], "n": [3, 4]}))
    deltalake.write_deltalake("dl", pa.table({"u": [5], "i": ["x"], "n": [6]}), mode="append")
    want = {(1, "x"): 3, (2, "y"): 4, (5, "x"): 6}
    done = cli("ingest", "dl", "out")
    (command,) = suggestions(done.err)
    assert run(command, cli) == want
    done = cli("ingest", "edges", "dl", "out")
    (command,) = suggestions(done.err)
    assert command == "sparrow ingest dl out"


def splits(**files: str) -> None:
    Path("kg").mkdir()
    for name, text in files.items():
        Path("kg", f"{name}.txt").write_text(text)


@pytest.mark.parametrize(
    ("train", "test", "told", "wanted"),
    [
        ("1 10 5\n1 11 3\n", "2 11 3\n", "may be triples, or ratings", [
            {"train": {(1, 10, 5): 1, (1, 11, 3): 1}, "test": {(2, 11, 3): 1}}, {(1, 10): 5, (1, 11): 3}
        ]),
        ("1 1:2\n0 2:1\n", "1 3:1\n", "are no triples", [{"X": {(0, 0): 2, (1, 1): 1}, "y": {(0,): 1}}]),
        ("0 1 2 3\n1 4\n2 1 5 6 7\n", "0 9\n", "are no triples", [  # users and items, no square
            {(0, 1): 1, (0, 2): 1, (0, 3): 1, (1, 4): 1, (2, 1): 1, (2, 5): 1, (2, 6): 1, (2, 7): 1}
        ]),
        ("u,i,v\n1,2,3\n", "u,i\n1,2\n", "are no triples", [{(1, 2): 3}]),
    ],
)  # fmt: skip
def test_folders_of_other_splits(cli: Any, train: str, test: str, told: str, wanted: list[Any]) -> None:
    splits(train=train, test=test)
    done = cli("ingest", "kg", "out")
    assert (done.code, told in done.err) == (1, True)
    assert "the folder holds train and test" in done.err
    commands = suggestions(done.err)
    assert [run(command, cli) for command in commands] == wanted


def test_folder_of_triples_is_accepted() -> None:
    splits(train="a\tr\tb\n", valid="b\tr\ta\n")
    assert tuple(detect_format("kg")) == ("triples", "the folder holds train and valid of triples")
    splits_with_ids = Path("kg", "entity2id.txt")
    splits_with_ids.write_text("2\na 0\nb 1\n")
    Path("kg/train.txt").write_text("0 0 1\n")
    assert detect_format("kg").format == "triples"


@pytest.mark.parametrize("text", ["0 1\n1 2\n2 0\n", "1 1:2\n", "u,i,v\n1,2,3\n"])
def test_zip_of_one_file(cli: Any, text: str) -> None:
    with zipfile.ZipFile("it's.zip", "w") as archive:
        archive.writestr("data/my file.txt", text)
    done = cli("ingest", "it's.zip", "out")
    (command,) = suggestions(done.err)
    want = {"0": TRIANGLE, "1": {"X": {(0, 0): 2}, "y": {(0,): 1}}, "u": {(1, 2): 3}}[text[0]]
    assert run(command, cli) == want
    if text[0] == "0":
        done = cli("ingest", "edges", "it's.zip", "out", "--ids", "str")
        (command,) = suggestions(done.err)
        assert run(command, cli) == {(str(i), str(j)): 1 for i, j in TRIANGLE}


def test_archives_of_several_files(cli: Any) -> None:
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.writestr("one.txt", "0 1\n1 2\n2 0\n")
        archive.writestr("two.txt", "3 4\n")
    done = cli("ingest", "a.zip", "out")
    assert "'one.txt', 'two.txt'" in done.err
    (command,) = suggestions(done.err)
    assert run(command, cli) == TRIANGLE
    with tarfile.open("a.tar", "w") as archive:
        info = tarfile.TarInfo("e.txt")
        info.size = 12
        archive.addfile(info, io.BytesIO(b"0 1\n1 2\n2 0\n"))
    done = cli("ingest", "a.tar", "out")
    (command,) = suggestions(done.err)
    assert run(command, cli) == TRIANGLE
    done = cli("ingest", "edges", "a.tar", "out")
    (command,) = suggestions(done.err)
    assert run(command, cli) == TRIANGLE


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.xlsx", [("[Content_Types].xml", ""), ("xl/workbook.xml", "")], "an Excel workbook, .*pandas.read_excel"),
        ("a.pt", [("archive/data.pkl", ""), ("archive/version", "3")], "a file of PyTorch, .*torch.load"),
        ("a.docx", [("[Content_Types].xml", ""), ("word/document.xml", "")], "a document of an office program"),
    ],
)
def test_documents_are_named(cli: Any, name: str, data: list[tuple[str, str]], told: str) -> None:
    with zipfile.ZipFile(name, "w") as archive:
        for member, text in data:
            archive.writestr(member, text)
    for words in ([name], ["edges", name]):
        done = cli("ingest", *words, "out")
        assert re.search(told, done.err)
        assert not suggestions(done.err)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_other_encodings(cli: Any, encoding: str) -> None:
    Path("e.txt").write_bytes("0 1\n1 2\n2 0\n".encode(encoding))
    for words in (["e.txt"], ["edges", "e.txt"]):
        (command,) = suggestions(cli("ingest", *words, "out").err)
        assert run(command, cli) == TRIANGLE


@pytest.mark.parametrize("packed", [gzip.compress, lambda data: gzip.compress(gzip.compress(data))])
def test_packed_binary_files(cli: Any, packed: Callable[[bytes], bytes]) -> None:
    out = io.BytesIO()
    np.save(out, np.array([[0.0, 2.0]]))
    Path("a.npy.gz").write_bytes(packed(out.getvalue()))
    (command,) = suggestions(cli("ingest", "edges", "a.npy.gz", "out").err)
    if packed is gzip.compress:
        assert run(command, cli) == {(0, 1): 2}


def tenx(folder: str, prefix: str = "", value: int = 7) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    texts = {
        "matrix.mtx": f"%%MatrixMarket matrix coordinate integer general\n2 1 1\n2 1 {value}\n",
        "barcodes.tsv": "AAAC-1\n",
        "genes.tsv": "ENSG1\tDSCAM\nENSG2\tAPP\n",
    }
    for name, text in texts.items():
        Path(folder, prefix + name).write_text(text)


def test_samples_in_one_folder(cli: Any) -> None:
    tenx("gsm", "A_", 7)
    tenx("gsm", "B_", 8)
    for words in (["gsm"], ["tenx", "gsm"]):
        commands = suggestions(cli("ingest", *words, "out").err)
        assert [run(command, cli) for command in commands] == [{("ENSG2", "AAAC-1"): 7}, {("ENSG2", "AAAC-1"): 8}]
    assert sp.ingest.tenx("gsm", "B.sparrow", prefix="B_").nnz == 1


def test_folder_above_the_matrix(cli: Any) -> None:
    tenx("outs/filtered_feature_bc_matrix")
    tenx("outs/raw_feature_bc_matrix", value=9)
    Path("outs/web_summary.html").write_text("<html>")
    for words in (["outs"], ["tenx", "outs"]):
        commands = suggestions(cli("ingest", *words, "out").err)
        assert [run(command, cli) for command in commands] == [{("ENSG2", "AAAC-1"): 7}, {("ENSG2", "AAAC-1"): 9}]


def test_features_below_a_header(cli: Any) -> None:
    tenx("x")
    Path("x/genes.tsv").write_text("gene_id\tname\nENSG1\tDSCAM\nENSG2\tAPP\n")
    done = cli("ingest", "tenx", "x", "out")
    assert "the first line, 'gene_id', may be a header" in done.err
    (command,) = suggestions(done.err)
    assert run(command, cli) == {("ENSG2", "AAAC-1"): 7}


# -- what is nothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "git lfs pull --include"),
        ("a.html", "<!DOCTYPE html>\n<html><body>a, b</body></html>\n", "HTML"),
        ("a.xml", '<?xml version="1.0"?>\n<graph><node id="1"/></graph>\n', "XML"),
        ("a.txt", "404: Not Found\n", "an answer of a server"),
        ("a.txt", "Access denied\n", "an answer of a server"),
        ("a.txt", "Too Many Requests, slow down\n", "an answer of a server"),
        ("a.yml", "name: test\nversion: 3\nitems:\n  - a\n  - b\n", "YAML"),
        ("a.yml", "---\n- a\n- b\n", "YAML"),
        ("a.txt", "The quick brown fox\njumps over\nthe lazy dog today\n", "no common layout"),
        ("a.txt", "one\ntwo\nthree\n", "one column"),
        (
            "a.txt",
            "Summary\n=======\n\nThis set describes the ratings of films\nby users of a service.\nIt holds the tags\n",
            "no common layout",
        ),
        ("a.svm", "python 2:1 10:5\n2.0 5:1\n3.0 20:1\n", "a label is not a number as the others are (at 'python')"),
        ("a.txt", "alice likes\n" + "".join(f"user{k} item{k}\n" for k in range(30)), "may be a table, or edges"),
        ("a.txt", "".join(f"{k} {k + 1000}\n" for k in range(30)), "may be a table, or edges"),
        ("a.txt", "2020-01-01 a\n2020-01-02 b\n", "may be a table, or edges"),
        ("a.txt", "0.5 1.5\n2.5 3\n", "rows of a dense matrix"),
        ("a.txt", "1 40.5 -74.0\n2 34.5 -118.5\n", "rows of a dense matrix"),
        ("a.txt", "the 0.5 0.25 -0.5\nof 0.75 0.5 -0.25\n", "rows of a dense matrix"),
        ("a.txt", "[server]\nport = 1\n", "a file of settings"),
        ("a.json", '{"message": "Not Found", "status": "404"}', "an answer of a server"),
        ("a.json", '{\n  "error": {"code": 403}\n}\n', "an answer of a server"),
        ("a.txt", "\n \n", "blank lines only"),
        ("a.gz", "/annex/objects/SHA256E-s9--ab.gz\n", "git annex get a.gz"),
        ("a.properties", "name=1\nother=2\n", "one column"),
        ("a.csv", "u,i,n\n1,2,3\n2,3\n3,4,5,6\n", "no common layout"),
        ("a.py", "import os\nx = 1\n", "no common layout"),
        ("a.txt", "1 Alien\n2 Brazil\n3 Cube\n", "may be a table, or edges"),
    ],
)
def test_other_text_is_refused(cli: Any, name: str, text: str, told: str) -> None:
    Path(name).write_text(text)
    done = cli("ingest", name, "out")
    assert (done.code, told in done.err) == (1, True), done.err
    assert not Path("out").exists()
    if any(each in told for each in ("pointer", "HTML", "server", "YAML", "settings", "annex")):
        assert cli("ingest", "edges", name, "out").code == 1
        assert not Path("out").exists()


def test_table_of_what_was_seen(cli: Any) -> None:
    Path("u.data").write_text("196\t242\t3\t881250949\n186\t302\tx\t891717742\n")
    told = cli("ingest", "u.data", "out").err
    assert re.search(r"\n  column  values +examples\n  c0 +integers 186 to 196 +196, 186\n", told)
    assert re.search(r"\n  c2 +texts +3, x\n  c3 +times 881250949 to 891717742 ", told)


@pytest.mark.parametrize(
    ("word", "told"),
    [("csv", "'sparrow ingest columns'"), ("parquet", "columns"), ("svmlight", "libsvm"), ("nothing", "--list")],
)
def test_unknown_formats_point_to_known_ones(cli: Any, word: str, told: str) -> None:
    done = cli("ingest", word, "a.csv", "out")
    assert (done.code, told in done.err) == (2, True)


@pytest.mark.parametrize("words", [["f.svm"], ["libsvm", "f.svm"]])
def test_missing_destination_is_named(cli: Any, words: list[str]) -> None:
    Path("f.svm").write_text("1 1:2\n")
    done = cli("ingest", *words)
    assert done.code == 2
    assert f"Missing DST, the folder to create: sparrow ingest {' '.join(words)} DST" in done.err


# -- the mechanism --------------------------------------------------------------------------------------


def test_no_error_spells_commands_by_hand(repository: Path) -> None:
    """Commands are made by TypedSource; texts of others hold no options of them."""
    found = []
    for path in (repository / "sparrow" / "io").rglob("*.py"):
        tree = ast.parse(path.read_text())
        documents = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body and isinstance(node.body[0], ast.Expr)
        }  # fmt: skip
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
            if is_text and re.search(r"sparrow ingest \w+ .*--", str(node.value)):  # type: ignore[attr-defined]
                found.append(f"{path.name}:{node.lineno}")  # type: ignore[attr-defined]
    assert {each.split(":")[0] for each in found} <= {
        "edges.py",
        "libsvm.py",
        "options.py",
        "npz.py",
        "npy.py",
        "tns.py",
        "triples.py",
        "h5ad.py",
    }, "only examples of --help spell options"


@pytest.mark.parametrize("name", [each.name for each in formats().values() if each.reader is not None])
def test_options_are_spelled_as_the_command_line_parses_them(cli: Any, name: str) -> None:
    values: dict[str, Any] = {
        "coords": ["a b", "c"], "value": "v w", "shape": [3, None], "dims": ["x", "y"], "dtype": "float32",
        "ids": {"c": "str"} if name == "columns" else "str", "text": ["c"], "index_base": 1, "delimiter": "\t",
        "fill_value": -1, "comment": "", "features": "name", "genome": "g", "group": "/x", "matrix": "raw/X",
        "pattern": "a|b", "vocabulary": "v.txt", "documents": "line", "encoding": "latin-1", "order": "htr",
        "entities": "e", "relations": "r", "vertices": "v.txt", "labels_of": "p", "duplicates": "last", "nulls": "drop",
        "decimal": ",", "format": "csv", "if_exists": "open", "profile": "small", "n_features": 7, "self_loops": "drop",
        "prefix": "A_", "quotes": True,
    }  # fmt: skip
    reader = formats()[name].reader
    assert reader is not None
    Path("none").write_text("")
    for each in options_of(reader):
        value = values.get(each.name, not each.default if isinstance(each.default, bool) else None)
        assert value is not None, each.name
        required = {"coords": ["a b"]} if name == "columns" and each.name != "coords" else {}
        command = TypedSource.of("none").command(name, **{**required, each.name: value})
        done = cli(*shlex.split(command)[1:])
        assert done.code != 2, (each.name, done.err)


def test_hints_are_parsed() -> None:
    known = ["ids", "text", "shape", "dtype", "header"]
    told = "pass text=['a b'] to take it; pass shape=(3, 6), or header=True; omit dtype= to read float64"
    assert hinted_options(told, known) == [{"text": ["a b"]}, {"shape": (3, 6)}, {"header": True}, {"dtype": None}]
    assert hinted_options("pass ids={'a': 'str'} or other=1", known) == [{"ids": {"a": "str"}}]
    assert hinted_options("the ids='str' of it, pass value=, or none", known) == []


CALLS: list[tuple[str, str, str, dict[str, Any], Any]] = [
    ("edges", "a9a", "+1 3:0.5 7:1\n-1 2:1\n", {"profile": "small"}, None),
    ("edges", "m.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 3\n", {}, {(0, 0): 3}),
    ("edges", "it's a.tns", "1 1 1 2.5\n2 2 2 1\n", {}, {(0, 0, 0): 2.5, (1, 1, 1): 1}),
    ("edges", "a.json", '{"src": 0, "dst": 1}\n', {"overwrite": True}, {(0, 1): 1}),
]


@pytest.mark.parametrize(("format", "name", "content", "options", "stored"), CALLS)
def test_functions_suggest_calls(format: str, name: str, content: str, options: dict[str, Any], stored: Any) -> None:
    Path(name).write_text(content)
    with pytest.raises(sp.errors.IngestError) as caught:
        getattr(sp.ingest, format)(name, "out", **options)
    assert "sparrow ingest" not in str(caught.value)
    calls = [each for each in caught.value.commands if each.startswith("sp.ingest")]
    assert calls, str(caught.value)
    for call in calls:
        eval(call, {"sp": sp})
        assert stored is None or elements() == stored, call
        shutil.rmtree("out")


def test_functions_suggest_calls_for_objects() -> None:
    import io

    src = io.BytesIO(b"+1 3:0.5 7:1\n-1 2:1\n")
    with pytest.raises(sp.errors.IngestError, match=r"sp\.ingest\.libsvm\(src, 'out'\)"):
        sp.ingest.edges(src, "out")


def test_commands_still_suggest_commands(cli: Any) -> None:
    Path("a9a").write_text("+1 3:0.5 7:1\n-1 2:1\n")
    done = cli("ingest", "edges", "a9a", "out")
    assert done.code == 1
    assert "sparrow ingest libsvm a9a out" in done.err


@pytest.mark.parametrize("words", [["ingest"], ["ingest", "mtx"], ["ingest", "text"], ["ingest", "tenx"]])
def test_empty_folder(words: list[str], cli: Any, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    done = cli(*words, tmp_path / "none", tmp_path / "new.sparrow")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "none" in done.err
    assert "none/*" not in done.err
