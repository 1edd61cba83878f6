from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow.cli.app import VERBS
from sparrow.cli.arguments import parse_index

EDGES = "# a small web\n0\t1\n0\t2\n1\t2\n2\t0\n4\t4\n"
LIBSVM = "+1 1:0.5 3:2\n-1 2:1\n\n+1\n"


def open_tensor(path: Path) -> sp.Tensor:
    found = sp.open(path)
    assert isinstance(found, sp.Tensor)
    return found


@pytest.fixture(scope="module", name="stored")
def stored_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``web.sparrow`` and the bundle ``small.sparrow``."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "web.txt").write_text(EDGES)
    (folder / "small.txt").write_text(LIBSVM)
    sp.ingest.edges(folder / "web.txt", folder / "web.sparrow")
    sp.ingest.libsvm(folder / "small.txt", folder / "small.sparrow")
    return folder


# -- wrong usage and failures --------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["fly"],
        ["info"],
        ["show", "{web}", "5 6"],
        ["show", "{web}", "__import__('os')"],
        ["show", "{web}", "1.5"],
        ["sql", "select 1", "web"],
        ["explain", "{web}", "0, 1"],
        ["multiply", "{web}"],
        ["sql", "select 1", "web={web}", "web={web}"],
        ["multiply", "{web}", "--vector", "ones", "--engine", "abacus"],
        ["ingest", "libsvm", "only-one"],
        ["ingest", "libsvm", "a", "b", "--index-base", "2"],
        ["ingest", "columns", "a", "b", "--coords", "i,,j"],
        ["ingest", "columns", "a", "b", "--coords", "i,j", "--shape", "3,x"],
        ["--threads", "0", "info", "{web}"],
        *(["pagerank", "{web}", option, number] for option in ("--tol", "--damping") for number in ("nan", "inf")),
        ["graph", "hits", "{web}", "--tol", "nan"],
        ["train", "linear", "{web}", "--lr", "nan"],
        ["als", "{web}", "--frequency-scaling", "nan"],
    ],
)
def test_wrong_usage_exits_2(cli: Any, stored: Path, words: list[str]) -> None:
    done = cli(*(word.format(web=stored / "web.sparrow") for word in words))
    assert done.code == 2
    assert done.out == ""
    assert "Error" in done.err
    assert "Traceback" not in done.err


def test_no_arguments_show_help(cli: Any) -> None:
    done = cli()
    assert done.code == 2
    assert "Usage: sparrow" in done.out + done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["info", "{at}/absent.sparrow"], "absent.sparrow"),
        (["show", "{at}/web.sparrow", "99"], "index 99 is out of range"),
        (["show", "{at}/small.sparrow"], "small.sparrow/X"),
        (["multiply", "{at}/web.sparrow", "--vector", "{at}/web.txt"], "not a .npy file"),
        (["multiply", "{at}/web.sparrow", "--vector", "{at}/absent.npy"], "absent.npy"),
        (["sql", "select * from absent"], "absent"),
        (["ingest", "edges", "{at}/absent.txt", "{at}/new.sparrow"], "absent.txt"),
        (["ingest", "edges", "{at}/web.txt", "{at}/web.sparrow"], "web.sparrow"),
        (
            ["--memory-limit", "much", "info", "{at}/web.sparrow"],
            "--memory-limit must be a number of bytes or a string such as '500MB' or '2GiB', got 'much'",
        ),
        (
            ["--engine", "processes", "--cluster", "few", "explain", "{at}/web.sparrow"],
            "cluster must be a number of processes for engine='processes', got 'few'",
        ),
        (
            ["--engine", "processes", "--scratch", "{at}/none", "info", "{at}/web.sparrow"],
            "--scratch must be an existing directory",
        ),
    ],
)
def test_failure_is_one_line(cli: Any, stored: Path, words: list[str], told: str) -> None:
    done = cli(*(word.format(at=stored) for word in words))
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("sparrow: error: ")
    assert done.err.count("\n") == 1
    assert told in done.err


def test_bad_line_names_file_line_and_token(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("1 1:2\n1 1:x\n")
    done = cli("ingest", "libsvm", tmp_path / "bad.txt", tmp_path / "bad.sparrow")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "bad.txt" in done.err
    assert "line 2" in done.err
    assert "1:x" in done.err or "'x'" in done.err
    assert not (tmp_path / "bad.sparrow").exists()


# -- ingest --------------------------------------------------------------------------------------


def test_ingest_libsvm(cli: Any, stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.sparrow"
    done = cli("ingest", "libsvm", stored / "small.txt", target, "--n-features", 5, "--dtype", "float32", "--json")
    assert done.code == 0
    X, y = done.json["tensors"]
    assert (X["path"], X["shape"], X["dtype"], X["nnz"]) == (str(target / "X"), [3, 5], "float32", 3)
    assert (y["path"], y["shape"]) == (str(target / "y"), [3])
    np.testing.assert_array_equal(open_tensor(target / "X").to_numpy()[0], [0.5, 0, 2, 0, 0])


def test_ingest_several_edge_files_undirected(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "part-1.txt").write_text("0 1\n2 2\n")
    (tmp_path / "part-2.txt").write_text("1 3\n")
    done = cli(
        "ingest", "edges", tmp_path / "part-1.txt", tmp_path / "part-2.txt", tmp_path / "out.sparrow",
        "--undirected", "--self-loops", "drop",
    )  # fmt: skip
    assert done.code == 0
    assert f"{tmp_path / 'out.sparrow'}: (src: 4, dst: 4) int64, 4 entries in " in done.out
    expected = np.zeros((4, 4), int)
    expected[[0, 1, 1, 3], [1, 0, 3, 1]] = 1
    np.testing.assert_array_equal(open_tensor(tmp_path / "out.sparrow").to_numpy(), expected)


def test_ingest_columns(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("user;item;rating\n10;7;4.5\n12;7;3\n")
    done = cli(
        "ingest", "columns", tmp_path / "ratings.csv", tmp_path / "out.sparrow",
        "--coords", "user,item", "--value", "rating", "--delimiter", ";", "--shape", "20,10", "--dims", "u,i",
    )  # fmt: skip
    assert done.code == 0, done.err
    A = open_tensor(tmp_path / "out.sparrow")
    assert (A.shape, A.dims, A[10, 7], A[12, 7], A.nnz) == ((20, 10), ("u", "i"), 4.5, 3.0, 2)


def test_ingest_columns_of_several_values(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,stars,price\n3,4,1.5\n1,5,2.5\n")
    done = cli(
        "ingest", "columns", tmp_path / "a.csv", tmp_path / "a.sparrow", "--coords", "user", "--value", "stars,price"
    )
    assert done.code == 0, done.err
    bundle = sp.open(tmp_path / "a.sparrow")
    assert {name: tensor.to_numpy().tolist() for name, tensor in bundle.items()} == {
        "stars": [0, 5, 0, 4],
        "price": [0, 2.5, 0, 1.5],
    }


def test_ingest_from_standard_input(cli: Any, pipe_stdin: Any, tmp_path: Path) -> None:
    pipe_stdin(EDGES.encode())
    assert cli("ingest", "edges", "-", tmp_path / "out.sparrow", "--json").json["tensors"][0]["nnz"] == 5


# -- looking -------------------------------------------------------------------------------------


def test_info(cli: Any, stored: Path) -> None:
    done = cli("info", stored / "web.sparrow", "--json")
    (fact,) = done.json["tensors"]
    assert (fact["shape"], fact["dims"], fact["dtype"]) == ([5, 5], ["src", "dst"], "int64")
    assert (fact["nnz"], fact["density"], fact["fill_value"], fact["version"]) == (5, 0.2, 0, 0)
    assert (fact["files"], fact["orders"], fact["labelled"]) == (1, [[0, 1]], [])
    assert fact["bytes"] > 0
    assert fact["bits_per_entry"] == pytest.approx(8 * fact["bytes"] / 5)
    text = cli("info", stored / "web.sparrow").out
    assert "shape      (src: 5, dst: 5)\n" in text
    assert "entries    5 (0.2 of the cells)\n" in text
    assert "matched    by position: the dimension names are assigned ones\n" in text
    sp.asarray([[1, 2]], dims=("user", "d1")).save(stored / "named.sparrow")
    assert "matched    by dimension name, except d1\n" in cli("info", stored / "named.sparrow").out
    assert cli("info", stored / "named.sparrow", "--json").json["tensors"][0]["matched_by_name"] == ["user"]


def test_info_of_a_bundle(cli: Any, stored: Path) -> None:
    done = cli("info", stored / "small.sparrow", "--json")
    assert [fact["path"] for fact in done.json["tensors"]] == [
        str(stored / "small.sparrow" / "X"),
        str(stored / "small.sparrow" / "y"),
    ]


def test_show_coordinates_of_the_tensor(cli: Any, stored: Path) -> None:
    done = cli("show", stored / "web.sparrow", "0:3, 2")
    assert done.out == "src  dst  value\n---  ---  -----\n  0    2      1\n  1    2      1\n"
    assert cli("show", stored / "web.sparrow", "::-2", "--json").json == [
        {"src": 4, "dst": 4, "value": 1},
        {"src": 2, "dst": 0, "value": 1},
        {"src": 0, "dst": 1, "value": 1},
        {"src": 0, "dst": 2, "value": 1},
    ]
    assert cli("show", stored / "web.sparrow", "[2, 0], 1:", "--json").json == [
        {"src": 0, "dst": 1, "value": 1},
        {"src": 0, "dst": 2, "value": 1},
    ]


def test_show_head(cli: Any, stored: Path) -> None:
    done = cli("show", stored / "web.sparrow", "--head", 2)
    assert len(done.out.splitlines()) == 4
    assert done.err == "the first 2 of 5 entries; --head 0 writes all\n"
    assert len(cli("show", stored / "web.sparrow", "--head", 0).out.splitlines()) == 7


def test_show_element_and_dense(cli: Any, stored: Path) -> None:
    assert cli("show", stored / "small.sparrow" / "X", "0, 2").out == "2.0\n"
    assert cli("show", stored / "small.sparrow" / "X", "0, 2", "--json").json == {"value": 2.0}
    assert cli("show", stored / "web.sparrow", ":2, :3", "--dense").out == "[[0 1 1]\n [0 0 1]]\n"
    dense = cli("show", stored / "web.sparrow", ":2, :3", "--dense", "--json").json
    assert dense == {"shape": [2, 3], "cells": [[0, 1, 1], [0, 0, 1]]}


def test_show_complex(cli: Any, tmp_path: Path) -> None:
    sp.from_coords([[1]], [complex(1, np.inf)], shape=(2,)).save(tmp_path / "c.sparrow")
    assert "(1+infj)" in cli("show", tmp_path / "c.sparrow").out


def test_show_png(cli: Any, stored: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need Matplotlib")
    done = cli("show", stored / "web.sparrow", ":3", "--png", tmp_path / "web.png")
    assert done.out == f"{tmp_path / 'web.png'}\n"
    assert (tmp_path / "web.png").read_bytes().startswith(b"\x89PNG")


def test_show_labels(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("rome milan\nmilan pisa\n")
    assert cli("ingest", "edges", tmp_path / "names.txt", tmp_path / "cities.sparrow").code == 0
    lines = cli("show", tmp_path / "cities.sparrow").out.splitlines()[2:]
    assert sorted(line.split() for line in lines) == [["milan", "pisa", "1"], ["rome", "milan", "1"]]


def test_show_sel(cli: Any, tmp_path: Path) -> None:
    labels = {"user": ["ann", "bob", "a=b"], "item": ["x", "y"]}
    A = sp.from_coords([[0, 1, 2], [1, 0, 1]], [3, 4, 5], dims=("user", "item"), labels=labels)
    A.save(tmp_path / "a.sparrow")

    def show(*words: str) -> list[list[str]]:
        return [line.split() for line in cli("show", tmp_path / "a.sparrow", *words).out.splitlines()[2:]]

    assert show("--sel", "user=bob") == [["bob", "x", "4"]]
    assert show("--sel", "item=y", "--sel", "user=ann", "--sel", "user=a=b") == [["ann", "y", "3"], ["a=b", "y", "5"]]
    assert cli("show", tmp_path / "a.sparrow", "--sel", "user=bob", "--sel", "item=x").out == "4\n"
    wrong = cli("show", tmp_path / "a.sparrow", "--sel", "user=eve")
    assert wrong.code == 1
    assert "'eve'" in wrong.err
    assert cli("show", tmp_path / "a.sparrow", "--sel", "user").code == 2


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("5:9", slice(5, 9)),
        ("-1", -1),
        ("...", ...),
        ("..., None, ::-2", (..., None, slice(None, None, -2))),
        ("[0, -3], 2", ([0, -3], 2)),
        ("[True, False]", [True, False]),
        ("[[0], [1]]", [[0], [1]]),
        ("()", ()),
    ],
)
def test_parse_index(text: str, index: Any) -> None:
    assert parse_index(text) == index


@pytest.mark.parametrize(
    "text", ["", "x", "1]; [2", "f()", "1 if 1 else 2", "'a'", "1.0", "{1}", "-'a'", "~1", "*[1]", "1\x00", "(" * 500]
)
def test_parse_index_raises(text: str) -> None:
    import typer

    with pytest.raises(typer.BadParameter, match="must be integers, slices"):
        parse_index(text)


def test_explain(cli: Any, stored: Path) -> None:
    text = cli("explain", stored / "web.sparrow", "1:3").out
    assert "src" in text
    assert "row group" in text
    assert cli("explain", stored / "web.sparrow", "--analyze").code == 0


# -- asking and multiplying ----------------------------------------------------------------------


def test_sql(cli: Any, stored: Path) -> None:
    query = "select src, count(*)::int as links from web group by src order by 2 desc, 1 limit 2"
    words = ("sql", query, f"web={stored / 'web.sparrow'}")
    assert cli(*words).out == "src  links\n---  -----\n  0      2\n  1      1\n"
    assert cli(*words, "--json").json == [{"src": 0, "links": 2}, {"src": 1, "links": 1}]
    assert cli(*words, "--csv").out == "src,links\n0,2\n1,1\n"


def test_sql_error_has_caret(cli: Any, stored: Path) -> None:
    done = cli("sql", "select dst form web", f"web={stored / 'web.sparrow'}")
    assert done.code == 1
    told, line, caret = done.err.rstrip("\n").split("\n")
    assert told.startswith("sparrow: error: Parser Error: ")
    assert line.index("web") == caret.index("^")


@pytest.mark.parametrize(
    "query", ["select nosuch from A", "select src, nosuch\nfrom A", "select\n\n  nosuch(src) from A"]
)
def test_sql_error_of_unknown_name(cli: Any, stored: Path, query: str) -> None:
    done = cli("sql", query, f"A={stored / 'web.sparrow'}")
    assert done.code == 1
    line, caret = done.err.rstrip("\n").split("\n")[-2:]
    number = 1 + query.partition("nosuch")[0].count("\n")
    assert line.startswith(f"LINE {number}: ")
    assert line.index("nosuch") == caret.index("^")
    A = sp.open(stored / "web.sparrow")
    with pytest.raises(duckdb.Error, match=f"\\n\\nLINE {number}: ") as caught:
        sp.sql(query, A=A)
    assert str(caught.value).endswith(f"{line}\n{caret}")


def test_sql_from_file_or_stdin(cli: Any, pipe_stdin: Any, stored: Path, tmp_path: Path) -> None:
    web = f"web={stored / 'web.sparrow'}"
    (tmp_path / "links.sql").write_text("select count(*) as n\nfrom web;\n")
    assert cli("sql", "-f", tmp_path / "links.sql", web, "--json").json == [{"n": 5}]
    pipe_stdin((tmp_path / "links.sql").read_bytes())
    assert cli("sql", "-", web, "--json").json == [{"n": 5}]
    assert cli("sql").code == 2
    assert "absent.sql" in cli("sql", "-f", tmp_path / "absent.sql").err
    absent = cli("sql", "select * from absent").err
    assert "pass it on the command line, as in NAME=PATH" in absent


def test_version_or_time(cli: Any, stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "web.sparrow"
    web = open_tensor(stored / "web.sparrow").save(target)
    first = web.history()[0]["timestamp"].isoformat()
    web[0, 1] = 7
    assert cli("show", target, "0, 1").out == "7\n"
    for at in ("0", first):
        assert cli("show", target, "0, 1", "--at", at).out == "1\n"
        answer = cli("sql", "select value from w where src = 0 and dst = 1", f"w={target}", "--at", at, "--json")
        assert answer.json == [{"value": 1}]
        cli("export", target, tmp_path / "old.csv", "--at", at, "--overwrite")
        assert (tmp_path / "old.csv").read_text().split("\n")[1] == "0,1,1"
    assert cli("show", target, "0, 1", "--at", "2100-01-01").out == "7\n"
    early = cli("show", target, "--at", "1999-01-01").err
    assert "had no version at 1999-01-01: the first known one, 0, is of" in early


def test_files(cli: Any, stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "web.sparrow"
    web = open_tensor(stored / "web.sparrow").save(target)
    web.add_order((1, 0))
    one, other = (cli("files", target, *words, "--json").json[0] for words in ([], ["--order", "dst,src"]))
    assert (one["rows"], one["first"], one["last"]) == (5, [0, 1], [4, 4])
    assert (other["first"], other["bytes"]) == ([2, 0], web.files(("dst", "src"))[0].bytes)
    assert cli("files", target).out.split("\n")[2].split()[1:] == ["5", str(one["bytes"]), "0,", "1", "4,", "4"]
    for words, path in (([], one["path"]), (["--order", "dst,src"], other["path"])):
        table = cli("files", target, *words).out
        assert max(map(len, table.split("\n"))) <= 80
        assert path.removeprefix(f"{target}/").startswith(
            table.split("\n")[2].split()[0].rstrip("\N{HORIZONTAL ELLIPSIS}")
        )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a disk that is always full")
def test_full_disk_on_stdout(stored: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "sparrow", "show", str(stored / "web.sparrow"), "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "sparrow: error: standard output: No space left on device"


def test_completion(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_SPARROW_COMPLETE", "complete_bash"), ("COMP_WORDS", "sparrow ver"), ("COMP_CWORD", "1")):
        monkeypatch.setenv(name, value)
    assert cli().out.split() == ["verify"]


SCRIPTS = [("bash", "complete -o"), ("zsh", "#compdef sparrow"), ("fish", "--command")]


@pytest.mark.parametrize(("shell", "told"), SCRIPTS)
def test_completion_script(cli: Any, tmp_path: Path, shell: str, told: str) -> None:
    shown = cli("--show-completion", shell)
    assert shown.code == 0
    assert told in shown.out
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path))
        done = cli("--install-completion", shell)
    assert done.code == 0
    assert told in Path(done.out.split()[0]).read_text()
    assert cli("--show-completion", "tcsh").code == 2


def test_sql_joins_bundle_members(cli: Any, stored: Path) -> None:
    done = cli(
        "sql", 'select X.col, X.value * y.value as v from X join y using ("row") order by 1', "--json",
        f"X={stored / 'small.sparrow' / 'X'}", f"y={stored / 'small.sparrow' / 'y'}",
    )  # fmt: skip
    assert done.json == [{"col": 0, "v": 0.5}, {"col": 1, "v": -1.0}, {"col": 2, "v": 2.0}]


def test_sql_head(cli: Any) -> None:
    done = cli("sql", "select * from range(100) t(n) order by n desc", "--head", 3)
    assert done.out == " n\n--\n99\n98\n97\n"
    assert "--head 0" in done.err
    assert len(cli("sql", "select * from range(100)", "--csv").out.splitlines()) == 101


@pytest.mark.parametrize("engine", ["auto", "duckdb", "stream"])
def test_multiply(cli: Any, stored: Path, tmp_path: Path, engine: str) -> None:
    web = stored / "web.sparrow"
    done = cli("multiply", web, "--vector", "ones", "--transpose", "--engine", engine, "--json")
    assert done.json["product"] == [1.0, 1.0, 2.0, 0.0, 1.0]
    np.save(tmp_path / "x.npy", np.arange(10.0).reshape(5, 2))
    done = cli("multiply", web, "--vector", tmp_path / "x.npy", "--engine", engine, "--out", tmp_path / "y.npy")
    assert done.out == ""
    expected = open_tensor(web).to_numpy() @ np.arange(10.0).reshape(5, 2)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected)
    done = cli("multiply", web, "--vector", "ones", "--head", 2)
    assert done.out == "src  value\n---  -----\n  0      2\n  1      1\n"
    assert "the first 2 of 5" in done.err


@pytest.mark.parametrize("engine", ["auto", "duckdb", "stream"])
def test_multiply_by_stored_tensors(cli: Any, stored: Path, tmp_path: Path, engine: str) -> None:
    web, x = stored / "web.sparrow", np.array([0.0, 2, 0, 1, 5])
    dense = open_tensor(web).to_numpy()
    for other in (x, np.outer(x, [1, 0, 3])):
        path = tmp_path / f"x{other.ndim}.sparrow"
        sp.asarray(other).save(path)
        done = cli("multiply", web, "--vector", path, "--engine", engine, "--json")
        np.testing.assert_allclose(done.json["product"], dense @ other)
        cli("multiply", web, "--transpose", "--vector", path, "--engine", engine, "--out", tmp_path / "y.npy")
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), dense.T @ other)
    done = cli("multiply", web, "--vector", tmp_path)
    assert done.code == 1
    assert str(tmp_path) in done.err
    assert "Is a directory" not in done.err


def test_multiply_labels(cli: Any, tmp_path: Path) -> None:
    made = sp.from_coords([[0, 1, 1], [0, 1, 2]], [1.0, 2.0, 3.0], dims=("user", "film"), shape=(2, 3))
    made.set_labels("user", ["ann", "bob"])
    made.set_labels("film", ["x", "y", "z"])
    made.save(tmp_path / "L")
    done = cli("multiply", tmp_path / "L", "--vector", "ones")
    assert done.table == [["user", "value"], ["ann", "1"], ["bob", "5"]]
    done = cli("multiply", tmp_path / "L", "--vector", "ones", "--transpose", "--head", 2)
    assert done.table == [["film", "value"], ["x", "1"], ["y", "2"]]
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    done = cli("multiply", tmp_path / "L", "--vector", tmp_path / "x.npy")
    assert [row[0] for row in done.table] == ["user", "ann", "bob"]
    open_tensor(tmp_path / "L").sel(user="bob").save(tmp_path / "bob")
    assert cli("multiply", tmp_path / "bob", "--vector", "ones").table == [["row", "value"], ["0", "5"]]
    assert cli("multiply", tmp_path / "bob", "--vector", tmp_path / "x.npy").table[1:] == [["0", "5"], ["1", "5"]]


def test_multiply_errors(cli: Any, tmp_path: Path) -> None:
    sp.from_coords([[0], [5]], [2.0], shape=(3, 2**40)).save(tmp_path / "wide")
    sp.asarray(np.ones((2, 3))).save(tmp_path / "A")
    np.savez(tmp_path / "several.npz", x=np.ones(3))
    np.save(tmp_path / "objects.npy", np.array([1, "x"], object), allow_pickle=True)
    np.save(tmp_path / "stack.npy", np.ones((2, 3, 2)))
    for tensor, vector, told in (
        ("wide", "ones", "--vector ones, 1,099,511,627,776 values, would take"),
        ("A", tmp_path / "several.npz", "several.npz holds several arrays"),
        ("A", tmp_path / "objects.npy", "objects.npy is not a .npy file of numbers: it may be pickled"),
        ("A", tmp_path / "stack.npy", "shape (2, 2, 2) cannot be shown as a table: --out y.npy writes it"),
    ):
        done = cli("multiply", tmp_path / tensor, "--vector", vector)
        assert done.code == 1
        assert told in done.err


# -- keeping -------------------------------------------------------------------------------------


def test_verify(cli: Any, stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "web.sparrow"
    assert cli("ingest", "edges", stored / "web.txt", target).code == 0
    assert cli("verify", target).code == 0
    assert cli("verify", target, "--json").json == []
    (data,) = target.glob("*.parquet")
    content = bytearray(data.read_bytes())
    content[8] ^= 1
    data.write_bytes(content)
    done = cli("verify", target)
    assert done.code == 1
    assert data.name in done.out
    for found in cli("verify", target, "--json").json:
        assert found["path"] == str(target)
        assert data.name in found["file"]
        assert found["problem"]


def test_history_and_vacuum(cli: Any, stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "web.sparrow"
    assert cli("ingest", "edges", stored / "web.txt", target).code == 0
    open_tensor(target)[0, 0] = 7
    records = cli("history", target, "--json").json
    assert [record["version"] for record in records] == [1, 0]
    assert "version" in cli("history", target).out.splitlines()[0]
    orphan = target / ("0" * 64 + "-00000000000000aa.parquet")
    assert cli("vacuum", target, "--dry-run", "--json").json == {"dry_run": True, "files": []}
    assert not orphan.exists()
    done = cli("vacuum", target, "--older-than", "0 days", "--dry-run")
    assert done.code == 0
    assert "would be deleted" in done.err


def test_negative_index(cli: Any, stored: Path) -> None:
    web = stored / "web.sparrow"
    assert cli("show", web, "-1", "--json").json == [{"src": 4, "dst": 4, "value": 1}]
    assert [row["src"] for row in cli("show", web, "-3:", "--json").json] == [2, 4]
    assert "predicate   src = 4" in cli("explain", web, "-1").out
    assert cli("show", web, "--jsn").code == 2


def test_json_is_standard(cli: Any) -> None:
    query = """select 'nan'::double as a, [1, '-inf'::double] as b, 'inf'::float as c, 1 as "é'", 2 as a,
               timestamptz '2020-01-02 03:04:05+00' as t, date '2020-01-02' as d, 'x'::blob as x"""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    done = cli("sql", query, "--json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out, parse_constant=refuse)
    assert (row["a"], row["b"], row["c"]) == ("NaN", [1, "-Infinity"], "Infinity")
    assert row["é'"] == 1
    assert row["a_1"] == 2
    assert row["d"] == "2020-01-02"
    assert row["t"].startswith("2020-01-0")


def test_json_keeps_duplicate_columns(cli: Any) -> None:
    assert cli("sql", "select 1 as a, 2 as a, 3 as a_1", "--json").json == [{"a": 1, "a_2": 2, "a_1": 3}]


def test_times_with_zone(cli: Any) -> None:
    done = cli("sql", "select timestamptz '2020-01-02 03:04:05+00' as t", "--csv")
    assert done.out.startswith("t\n2020-01-0")


def test_tables_are_not_cut_without_terminal(cli: Any) -> None:
    long = "x" * 300
    assert long in cli("sql", f"select '{long}' as a").out


def test_unknown_dtype_is_wrong_usage(cli: Any, stored: Path, tmp_path: Path) -> None:
    for dtype in ("foo", "object"):
        done = cli("ingest", "libsvm", stored / "small.txt", tmp_path / "x.sparrow", "--dtype", dtype)
        assert done.code == 2
        assert dtype in done.err


# -- the program ---------------------------------------------------------------------------------


def test_demo(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli("demo", "d' é")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "451,592" in done.out
    assert "3,216,152" in done.out
    assert open_tensor(tmp_path / "d' é" / "cnr-2000.sparrow").nnz == 3216152
    assert done.out.splitlines()[-1].endswith("d' é/cnr-2000.png")
    picture = (tmp_path / "d' é" / "cnr-2000.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000
    lines = done.out.replace("\\\n", " ").split("\n")
    commands = [shlex.split(line.split("$ ", 1)[1]) for line in lines if line.startswith("   $ ")]
    assert [words[1] for words in commands] == ["info", "show", "view", "sql", "verify"]
    for words in commands:
        if words[1] != "view":  # it serves a page until it is interrupted
            done = cli(*words[1:])
            assert done.code == 0, done.err


@pytest.mark.parametrize("words", [[], *([verb] for verb in VERBS), ["ingest", "libsvm"], ["graph", "bfs"]])
def test_help_has_examples(cli: Any, words: list[str]) -> None:
    done = cli(*words, "--help")
    assert done.code == 0
    assert "  sparrow " in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    usage = done.out.splitlines()[0]
    assert usage.startswith(" ".join(("Usage: sparrow", *words)))
    assert not re.search(r"\[\[|\{|\]\]|\.\.\.\]\.\.\.", usage)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["restore", "{web}", "-1"], 2, "must be at least 0, got -1"),
        (["resize", "{web}", "-5,5"], 1, "must not be negative, got -5"),
        (["resize", "{web}", "5,5", "--nosuch"], 2, "--nosuch"),
        (["demo", "{file}"], 1, "FOLDER must be a folder, got the file"),
        (["files", "{web}", "--order", "dst,src"], 1, "build it with 'sparrow orders --add'"),
        (["datasets", "nosuch"], 1, "sparrow datasets names all"),
        (["--temp-directory", "{file}", "info", "{web}"], 1, "--temp-directory must be an existing directory"),
    ],
)
def test_wrong_values_are_named(cli: Any, stored: Path, words: list[str], code: int, told: str) -> None:
    done = cli(*(word.format(web=stored / "web.sparrow", file=stored / "web.txt") for word in words))
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert len(done.err) < 400


def test_usage_lines(cli: Any) -> None:
    for verb, arguments in {
        "history": "PATH", "show": "PATH [INDEX]", "recommend": "MODEL [ROW]...", "sql": "[QUERY PATH...]",
        "datasets": "[NAME]", "append": "PATH SRC",
    }.items():  # fmt: skip
        assert cli(verb, "-h").out.splitlines()[0] == f"Usage: sparrow {verb} [OPTIONS] {arguments}"


def test_version(cli: Any) -> None:
    assert cli("--version").out == f"sparrow {sp.__version__}\n"


def test_closed_pipe(stored: Path) -> None:
    command = [sys.executable, "-m", "sparrow", "sql", "select * from range(1000000)", "--csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.readline()
        run.stdout.close()
        told = run.stderr.read().decode()
    assert "Traceback" not in told
    assert "BrokenPipe" not in told


@pytest.mark.usefixtures("ctrl_c")
def test_interrupt_exits_130(tmp_path: Path) -> None:
    source = tmp_path / "endless"
    os.mkfifo(source)
    command = [sys.executable, "-m", "sparrow", "ingest", "edges", str(source), str(tmp_path / "out.sparrow")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run,
        open(source, "w") as feed,  # returns when the reader has opened its end
    ):
        feed.write(EDGES)
        feed.flush()
        run.send_signal(signal.SIGINT)
        out, err = run.communicate()  # the pipe stays open: only the signal ends it
    assert run.returncode == 130, err
    assert err == "sparrow: interrupted\n"
    assert out == ""
    assert not (tmp_path / "out.sparrow").exists()


def test_interrupt_while_locking(cli: Any) -> None:
    def hit() -> None:
        lock = threading.Lock()
        with lock:
            lock.release()
            raise KeyboardInterrupt

    with sparrow.testing.on("cli.run", hit):
        done = cli("files", "x")
    assert (done.code, done.err) == (130, "sparrow: interrupted\n")


# Prints a line when DuckDB begins the query.
ANNOUNCING = """
import sys
import sparrow.testing
from sparrow.cli import main

with sparrow.testing.on("cli.query", lambda: print("running", flush=True)):
    main(sys.argv[1:])
"""


@pytest.mark.usefixtures("ctrl_c")
def test_interrupt_of_a_query() -> None:
    query = "select sum(i * j) from range(1000000000000) t(i), range(1000000) u(j)"
    command = [sys.executable, "-c", ANNOUNCING, "sql", query]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "running\n"
        run.send_signal(signal.SIGINT)
        out, err = run.communicate()
    assert run.returncode == 130, err
    assert err == "sparrow: interrupted\n"
    assert out == ""


def test_termination_cleans_up(tmp_path: Path) -> None:
    source = tmp_path / "endless"
    os.mkfifo(source)
    command = [sys.executable, "-m", "sparrow", "ingest", "edges", str(source), str(tmp_path / "out.sparrow")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run,
        open(source, "w") as feed,
    ):
        feed.write(EDGES)
        feed.flush()
        run.terminate()
        out, err = run.communicate()
    assert run.returncode == 128 + signal.SIGTERM, err
    assert err == "sparrow: terminated\n"
    assert out == ""
    assert os.listdir(tmp_path) == ["endless"]


@pytest.mark.parametrize(
    ("words", "text", "told"),
    [
        (["edges"], "src,dst\n0,1\n", "pass --header to skip it, or --ids str"),
        (["edges", "--ids", "int"], "0 1\nx 2\n", "pass --ids str to take"),
        (["edges", "--dtype", "int8"], "0 1 0.5\n", "omit --dtype"),
        (["libsvm"], "1 1:1 1:2\n", "pass --duplicates sum"),
        (["libsvm", "--index-base", "1"], "1 0:1\n", "the index is below --index-base 1: pass --index-base 0"),
        (["columns", "--coords", "i"], 'i,j\n1,2\n"x,2\n', "pass --no-quotes"),
        (["columns", "--coords", "i", "--shape", "3"], "i\na\n", "column 'i' has 1 labels"),
        (["columns", "--coords", "i"], "i,j\n1.5,2\n", "pass --ids i=str if these are names"),
        (["columns", "--coords", "i", "--format", "json"], '{"i": 1}\n{"i": 1.5}\n', "pass --ids i=str"),
    ],
)
def test_hints_name_options(cli: Any, tmp_path: Path, words: list[str], text: str, told: str) -> None:
    (tmp_path / "in.txt").write_text(text)
    name, *options = words
    done = cli("ingest", name, tmp_path / "in.txt", tmp_path / "out.sparrow", *options)
    assert done.code == 1
    assert told in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "text", "told"),
    [
        (["edges"], "a b\n", "pass --ids str or int to decide"),
        (["edges"], "% sym\n1 2\n", "pass --undirected to store both directions"),
        (["edges"], "# Nodes: 1 Edges: 1\n1 2\n", "pass --relabel to number them without gaps"),
        (["columns", "--coords", "i,j"], "i,j,value\n1,2,3\n", "pass --value value to read it"),
        (["libsvm"], "1 1:1\n", "index_base=1 (auto)"),
    ],
)
def test_notes_name_options(cli: Any, tmp_path: Path, words: list[str], text: str, told: str) -> None:
    (tmp_path / "in.txt").write_text(text)
    name, *options = words
    done = cli("ingest", name, tmp_path / "in.txt", tmp_path / "out.sparrow", *options)
    assert (done.code, told in done.err) == (0, True), done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ingest", "columns", "in.txt", "t", "--coords", "i,j"], "pass --duplicates sum, last, first, min or max"),
        (["show", "web.sparrow", "--at", "77"], "versions go from 0 to 0, see 'sparrow history'"),
        (
            ["show", "web.sparrow", "--at", "soon"],
            "--at must be an integer or a time such as '2026-11-22' or '2026-11-22 14:00', got 'soon'",
        ),
        (["show", "in.txt"], "it is something else; sparrow ingest reads files into tensors"),
        (["export", "web.sparrow", "x.libsvm"], "as sparrow ingest libsvm returns"),
    ],
)
def test_hints_name_commands(
    cli: Any, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    (tmp_path / "in.txt").write_text("i,j\n1,2\n1,2\n")
    shutil.copytree(stored / "web.sparrow", tmp_path / "web.sparrow")
    monkeypatch.chdir(tmp_path)
    done = cli(*words)
    assert done.code == 1
    assert told in done.err


def test_overwrite_hint(cli: Any, stored: Path, tmp_path: Path) -> None:
    done = cli("ingest", "edges", stored / "web.txt", stored / "web.sparrow")
    assert "pass --overwrite to replace it" in done.err
    (tmp_path / "w.csv").write_text("")
    assert "pass --overwrite to replace it" in cli("export", stored / "web.sparrow", tmp_path / "w.csv").err


def test_empty_file_warns(cli: Any, tmp_path: Path) -> None:
    for name in ("edges", "libsvm"):
        (tmp_path / "in.txt").write_text("")
        done = cli("ingest", name, tmp_path / "in.txt", tmp_path / f"{name}.sparrow")
        assert done.code == 0
        assert done.err.startswith(f"sparrow: warning: {tmp_path / 'in.txt'}: there are no ")


def test_append(cli: Any, tmp_path: Path, pipe_stdin: Any) -> None:
    (tmp_path / "a.csv").write_text("user,item,stars\nann,x,1\nbob,y,2\n")
    (tmp_path / "b.csv").write_text("stars,item,user\n3,z,eve\n4,x,ann\n")
    target = tmp_path / "a.sparrow"
    cli("ingest", "columns", tmp_path / "a.csv", target, "--coords", "user,item", "--value", "stars")
    refused = cli("append", target, tmp_path / "b.csv")
    assert refused.code == 1
    assert "duplicates" in refused.err
    assert "duplicates=" not in refused.err, "it is spelled as the command line does"
    done = cli("append", target, tmp_path / "b.csv", "--duplicates", "last")
    assert "1 entry more, now 3 in (user: 3, item: 3), version 1" in done.out
    assert sp.open(target).to_numpy().tolist() == [[4, 0, 0], [0, 2, 0], [0, 0, 3]]
    cli("append", target, target, "--duplicates", "sum")
    assert sp.open(target)[0, 0] == 8
    (tmp_path / "c.csv").write_text("user,item,stars,time\neve,x,5,99\n")
    assert "--value" in cli("append", target, tmp_path / "c.csv").err
    assert cli("append", target, tmp_path / "c.csv", "--value", "stars").code == 0
    assert sp.open(target)[2, 0] == 5
    pipe_stdin(b"user,item,stars\nzoe,x,5\nann,x,1\n")
    done = cli("append", target, "-", "--duplicates", "sum")
    assert "1 entry more, now 5 in (user: 4, item: 3)" in done.out
    assert sp.open(target).sel(item="x").to_numpy().tolist() == [9, 0, 5, 5]
    assert "no file" in cli("append", target, tmp_path / "d.csv").err
    (tmp_path / "e.dat").write_text("x::9::zoe\n")
    told = ("--format", "csv", "--delimiter", "::", "--no-header", "--coords", "c2,c0", "--duplicates", "last")
    assert cli("append", target, tmp_path / "e.dat", *told).code == 0
    assert sp.open(target).sel(user="zoe", item="x") == 9


def test_orders_compact_and_restore(cli: Any, stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "web.sparrow"
    open_tensor(stored / "web.sparrow").save(target)
    assert cli("orders", target, "--json").json[0]["order"] == ["src", "dst"]
    found = cli("orders", target, "--add", "dst,0", "--json").json
    assert [one["order"] for one in found] == [["src", "dst"], ["dst", "src"]]
    assert all(one["files"] == 1 and one["bytes"] > 0 for one in found)
    assert cli("orders", target, "--add", "dst,nowhere").code == 2
    web = open_tensor(target)
    before = web.nnz
    web[0, 3] = 9
    done = cli("restore", target, 0)
    assert done.code == 0
    assert f"{before} entries" in done.out
    assert open_tensor(target).nnz == before
    assert cli("restore", target, 77).code == 1
    assert "1 files" in cli("compact", target).out
    assert cli("verify", target).code == 0


def test_append_and_resize(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1\n1 2\n")
    (tmp_path / "b.csv").write_text("src,dst\n2,7\n")
    target = tmp_path / "a.sparrow"
    cli("ingest", "edges", tmp_path / "a.txt", target)
    refused = cli("append", target, tmp_path / "b.csv")
    assert refused.code == 1
    assert (
        "append: coordinate 7 is out of range for dimension 1 of size 3 (coords[1][0]); 'sparrow resize' makes room"
        in refused.err
    )
    assert "(src: 1,000, dst: 1,000), 2 entries, version 1" in cli("resize", target, "1000,1_000").out
    assert "now 3 in (src: 1,000, dst: 1,000), version 2" in cli("append", target, tmp_path / "b.csv").out
    assert cli("resize", target, "3,3").out.endswith("(src: 3, dst: 3), 2 of 3 entries, version 3\n")
    assert "SHAPE must be 2 sizes" in cli("resize", target, "big").err


def test_recipes_are_commands(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "graph.txt").write_text("# Nodes: 3\n3\t7\n7\t3\n3\t9\n")
    assert "snap" in cli("ingest", "--help").out
    done = cli("ingest", "snap", tmp_path / "graph.txt", tmp_path / "graph.sparrow", "--relabel")
    assert done.code == 0
    assert open_tensor(tmp_path / "graph.sparrow").shape == (3, 3)
    assert cli("ingest", "snap").code == 2
    assert cli("ingest", "nothing", "a", "b").code == 2
    (tmp_path / "west0479.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 3\n")
    assert cli("ingest", "published", "west0479", tmp_path / "west.sparrow", "--files", tmp_path).code == 0
    assert open_tensor(tmp_path / "west.sparrow").shape == (2, 2)


def test_fetch_commands_stay_lines(cli: Any, tmp_path: Path) -> None:
    done = cli("ingest", "published", "wiki-Vote", tmp_path / "out.sparrow", "--files", tmp_path)
    assert done.code == 1
    lines = done.err.splitlines()
    assert lines[0].endswith("To fetch it:")
    assert lines[1:3] == [
        f"  mkdir -p {tmp_path} && cd {tmp_path}", "  curl -fLO https://snap.stanford.edu/data/wiki-Vote.txt.gz"
    ]  # fmt: skip
    assert lines[3].startswith("Then load it again. ")
    assert len(lines) == 4


def test_datasets(cli: Any) -> None:
    listed = cli("datasets")
    assert "uk-2002" in listed.out
    assert max(map(len, (listed.out + listed.err).splitlines())) <= 80
    assert len(listed.out.splitlines()) == 1 + len(sp.datasets.list())
    assert "fetch: published by its owner" in listed.err
    assert {each["name"] for each in json.loads(cli("datasets", "--json").out)} >= {"a9a", "uk-2002"}
    told = cli("datasets", "uk-2002").out
    assert "298113762" in told
    assert "curl -fLO http://data.law.di.unimi.it/webdata/uk-2002/uk-2002.graph" in told
    assert json.loads(cli("datasets", "a9a", "--json").out)["nnz"] == 451592
    assert "index_base=1" in cli("datasets", "a9a").out
    assert cli("datasets", "mnist").code == 1
