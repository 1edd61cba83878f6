"""Command ``sql``: names of paths, boxes, plans, positions of labels."""

from __future__ import annotations

import io
import os
import pty
import re
import struct
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import sparrow as sp
from sparrow.cli.answers import split_statements
from sparrow.cli.tables import render, render_plan, wrap_line


@pytest.fixture(name="folder")
def stored_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a tensor, one with labels and a bundle of both."""
    monkeypatch.chdir(tmp_path)
    web = sp.from_coords([[0, 0, 2], [1, 2, 0]], [1, 2, 3], shape=(3, 3), dims=("src", "dst"))
    stars = sp.from_coords([[0, 1], [0, 1]], [5.0, 4.0], dims=("user", "film"), labels={"user": ["ann", "bob"]})
    web.save("web.sparrow")
    stars.save("stars.sparrow")
    sp.Bundle({"X": web, "y": stars}).save("both.sparrow")
    return tmp_path


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (["from 'web.sparrow' select count(*) as n"], [{"n": 3}]),
        (["select count(*) as n from web", "web.sparrow"], [{"n": 3}]),
        (["select count(*) as n from w", "w=web.sparrow"], [{"n": 3}]),
        (["select count(*) as n from X, y", "both.sparrow"], [{"n": 6}]),
        (["select count(*) as n from X", "./both.sparrow/X"], [{"n": 3}]),
        (["from 'web.sparrow' where src = 2", "--at", "0"], [{"src": 2, "dst": 0, "value": 3}]),
        (["from X where src = 2", "both.sparrow", "--at", "0"], [{"src": 2, "dst": 0, "value": 3}]),
        (["from stars order by film limit 1", "stars.sparrow"], [{"user": "ann", "film": 0, "value": 5.0}]),
        (["select *, user_code from stars where film = 1", "stars.sparrow"],
         [{"user": "bob", "film": 1, "value": 4.0, "user_code": 1, "user_code_1": 1}]),
    ],
)  # fmt: skip
def test_names_of_paths(cli: Any, folder: Path, words: list[str], rows: list[dict[str, Any]]) -> None:
    done = cli("sql", *words, "--json")
    assert done.code == 0, done.err
    assert done.json == rows


def test_paths_at_an_old_version(cli: Any, folder: Path) -> None:
    A = sp.open("web.sparrow")
    A[1, 1] = 9
    for words in (["from 'web.sparrow' select count(*) as n"], ["select count(*) as n from web", "web.sparrow"]):
        assert cli("sql", *words, "--json").json == [{"n": 4}]
        assert cli("sql", *words, "--at", 0, "--json").json == [{"n": 3}]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["from 'wep.sparrow'"], 1, "no tensor is stored at 'wep.sparrow': did you mean 'web.sparrow'?"),
        (["from wep", "wep.sparrow"], 2, "no tensor is stored at 'wep.sparrow': did you mean 'web.sparrow'?"),
        (["from X", "both.sparrow", "X=web.sparrow"], 2, "'X' is given twice: 'X=web.sparrow'"),
        (["from X", "=web.sparrow"], 2, "must be PATH or NAME=PATH, got '=web.sparrow'"),
        (["from X", "X=both.sparrow"], 1, "both.sparrow is a bundle of tensors: name one of them"),
        (["from web"], 1, "pass it on the command line, as in NAME=PATH, or write its path, from 'web.sparrow'"),
    ],
)
def test_wrong_names(cli: Any, folder: Path, words: list[str], code: int, told: str) -> None:
    done = cli("sql", *words)
    assert (done.code, done.out) == (code, "")
    assert told in done.err


def test_names_to_quote(cli: Any, folder: Path) -> None:
    for name in ("a-b", "order"):
        sp.eye(2).save(f"{name}.sparrow")
        words = f"{name}.sparrow", "web.sparrow", "--json"
        assert cli("sql", f'select count(*) as n from "{name}"', *words).json == [{"n": 2}]
        done = cli("sql", f"select count(*) from {name}", *words)
        assert done.code == 1
        assert done.err.endswith(f'Quotes belong around "{name}"\n')
    assert "Quotes" not in cli("sql", "select count(*) form web", "web.sparrow").err


@pytest.mark.parametrize("how", [[], ["--csv"]])
def test_star_names_no_positions(cli: Any, folder: Path, how: list[str]) -> None:
    shown = cli("sql", "from stars order by film", "stars.sparrow", *how).out
    assert shown.split("\n")[0].replace(",", " ").split() == ["user", "film", "value"]
    assert "user_code" in cli("sql", "select user_code from stars", "stars.sparrow", *how).out


def test_plans_are_trees(cli: Any, folder: Path) -> None:
    shown = cli("sql", "explain from 'stars.sparrow'").out
    assert "\N{REPLACEMENT CHARACTER}" not in shown
    lines = shown.splitlines()
    assert lines[0].startswith("\N{BOX DRAWINGS LIGHT ARC DOWN AND RIGHT}")
    assert len(lines) > 5
    assert "Total Time" in cli("sql", "explain analyze from 'stars.sparrow'").out
    assert cli("sql", "explain from 'stars.sparrow'", "--json").json[0]["explain_key"] == "physical_plan"


# -- tables on a terminal --------------------------------------------------------------------------


def on_terminal(*words: str, columns: int = 80, code: int = 0, **environment: str) -> str:
    """Run a command whose output is a terminal; return what it wrote there."""
    ours, theirs = pty.openpty()
    import fcntl
    import termios

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "sparrow", *words]
    settings = {**os.environ, "TERM": "xterm-256color", **environment}
    for name in ("COLUMNS", "LINES"):
        settings.pop(name, None)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=settings) as run:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal is gone
                break
            if not part:
                break
            written += part
    os.close(ours)
    assert run.returncode == code, written
    return written.decode().replace("\r\n", "\n")


def test_box_on_a_terminal(folder: Path) -> None:
    query = "select src, value, null as n, 'x' as t from 'web.sparrow' order by all limit 2"
    plain = on_terminal("sql", query, NO_COLOR="1")
    for code in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert plain == (
        "╭─────────┬────────┬──────┬─────────╮\n"
        "│     src │  value │ n    │ t       │\n"
        "│ integer │ bigint │ null │ varchar │\n"
        "├─────────┼────────┼──────┼─────────┤\n"
        "│       0 │      1 │ NULL │ x       │\n"
        "│       0 │      2 │ NULL │ x       │\n"
        "╰─────────┴────────┴──────┴─────────╯\n"
        "2 rows\n"
    )
    assert "\x1b[" in on_terminal("sql", query)


def test_box_tells_of_more_rows(folder: Path) -> None:
    shown = on_terminal("sql", "from range(100)", "--head", "3")
    assert "the first 3 rows; --head 0 writes all" in shown
    assert "\x1b[" not in on_terminal("sql", "from range(100)", "--csv")


def test_plan_on_a_terminal(folder: Path) -> None:
    shown = on_terminal("sql", "explain analyze from 'stars.sparrow'", columns=100)
    assert "Row Groups Scanned" in shown
    assert "\N{HORIZONTAL ELLIPSIS}.parquet" in shown
    assert on_terminal("datasets", columns=100).count("uk-2002") == 1


def written(shown: Any, width: int) -> list[str]:
    """Return the lines of something that rich renders."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(shown, no_wrap=True, overflow="ellipsis", crop=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


CELLS = st.one_of(st.none(), st.integers(), st.floats(), st.text("ab\n\tö魚", max_size=30), st.booleans())


@given(st.data(), st.integers(1, 12), st.integers(0, 4), st.integers(24, 100))
def test_box_fits_and_shows_ends(data: st.DataObject, n_columns: int, n_rows: int, width: int) -> None:
    rows = [tuple(data.draw(CELLS) for _ in range(n_columns)) for _ in range(n_rows)]
    headers = [f"c{k}" for k in range(n_columns)]
    lines = written(render(rows, headers, ["varchar"] * n_columns, f"{n_rows} rows", width), width)
    assert {cell_len(line) for line in lines[:-1]} == {cell_len(lines[0])}
    assert cell_len(lines[0]) <= width
    assert len(lines) >= n_rows + 6  # numbers that do not fit are folded
    named = [word for word in lines[1].replace("│", " ").split() if word != "\N{HORIZONTAL ELLIPSIS}"]
    assert named[0] == "c0"
    assert named[-1] == f"c{n_columns - 1}"
    assert named == sorted(named, key=lambda word: int(word[1:]))


FACTS = st.one_of(
    st.tuples(*[st.integers(-(10**9), 10**9)] * 3),
    st.tuples(*[st.datetimes(datetime(1970, 1, 1)).map(lambda time: time.replace(microsecond=0))] * 3),
    st.tuples(*[st.floats(allow_nan=False).map(lambda value: float(f"{value:.4g}"))] * 3),
    st.tuples(*[st.uuids().map(lambda each: each.hex[:12])] * 3),
)


@given(st.lists(FACTS, min_size=1, max_size=3), st.lists(st.text("ab ", min_size=40, max_size=60), max_size=1))
def test_numbers_times_and_ids_are_not_cut(facts: list[Any], texts: list[str]) -> None:
    columns = [*facts, *([text] * 3 for text in texts)]
    headers = [f"the_long_name_of_column_{k}" for k in range(len(columns))]
    lines = written(render(list(zip(*columns, strict=True)), headers, (), None, 80), 80)
    shown = "\n".join(lines)
    for value in (value for column in facts for value in column):
        assert (f"{value:.6g}" if isinstance(value, float) else str(value)) in shown
    assert max(map(len, lines)) <= 80


def test_names_fold_before_texts_are_cut() -> None:
    row = ("data/a9a.sparrow/a/very/long/path/of/a/tensor/X", 14, datetime(2026, 11, 27, 7, 44, 43), "append")
    headers = ("path", "version", "timestamp", "operation", "files_added", "files_removed")
    lines = written(render([(*row, 123456, 7)], headers, (), None, 80), 80)
    cells = [cell.strip() for cell in lines[-2].strip("│").split("│")]
    assert cells[0].startswith("\N{HORIZONTAL ELLIPSIS}")
    assert cells[0].endswith("/X")
    assert cells[1:] == ["14", "2026-11-27 07:44:43", "append", "123456", "7"]
    parts = (line.strip("│").split("│") for line in lines[1:-3])
    assert ["".join(map(str.strip, column)) for column in zip(*parts, strict=True)] == list(headers)


def test_listings_fold_texts() -> None:
    row = ("station, sensor_number, minute, transaction, kind_of_reading, operator", 1, 13161)
    lines = written(render([row], ("order", "files", "bytes"), (), None, 60, folds=True), 60)
    assert " ".join(line.split("│")[1].strip() for line in lines[3:-1]) == row[0]


def test_lines_wrap_on_a_terminal(tmp_path: Path) -> None:
    dims = ("station", "sensor_number", "minute", "transaction", "kind_of_reading", "operator")
    shape = (50_000, 6_000_000_000, 70_000, 800_000_000_000, 90, 12_345)
    coords = [np.arange(3) * (size // 3) for size in shape]
    wide = str(tmp_path / "wide.sparrow")
    sp.from_coords(coords, np.array([1e9, -1.25e12, 3.0]), shape, dims).save(wide)
    sizes = ", ".join(f"{name}: {size:,}" for name, size in zip(dims, shape, strict=True))
    for words, told, code in (
        (["info", wide], f"shape ({sizes}) values", 0),
        (["explain", wide, "5:900", "--analyze"], f"order {', '.join(dims)} files", 0),
        (["show", wide], "533333333332", 0),
        (["history", wide], "save", 0),
        (["files", wide], ", ".join(str(2 * (size // 3)) for size in shape), 0),
        (["export", wide, "x.unknown"], "'alx', 'binsparse', 'h5ad'", 1),
        (["multiply", wide, "--vector", "ones", "--engine", "abacus"], "'ray', 'spark', 'stream', got 'abacus'", 2),
        (["als", wide, "--regularization", "x"], "must be a number or several separated by commas, got 'x'", 2),
    ):
        shown = on_terminal(*words, code=code, NO_COLOR="1")
        shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown)
        lines = [line for line in shown.splitlines() if str(tmp_path) not in line]
        assert max(map(len, lines)) <= 80, words
        if words[0] == "files":
            shown = " ".join(line.split("│")[5] for line in lines if line.count("│") == 6)
        assert told in " ".join(shown.split()), words


def test_wrapped_lines_keep_words_and_indentation() -> None:
    assert wrap_line("short", 5) == "short"
    assert wrap_line("any width of a line", None) == "any width of a line"
    assert wrap_line("  order   a, b, c", 14, 8) == "  order   a,\n          b, c"
    assert wrap_line("see /a/path/that/is/long now", 12) == "see\n/a/path/that/is/long\nnow"


def test_empty_results_say_so(cli: Any, folder: Path) -> None:
    done = cli("show", "web.sparrow", "0:0")
    assert (done.code, done.err) == (0, "no entries\n")


def test_box_can_be_exported() -> None:
    console = Console(record=True, file=io.StringIO(), width=40)
    console.print(render([(1, None)], ("a", "b"), ("bigint", "varchar")))
    console.print(render_plan("╭─ Filter ─╮\n│ a = 1    │\n╰──────────╯"))
    assert "Filter" in console.export_svg(clear=False)
    assert "NULL" in console.export_html()


def test_wide_plans_are_narrowed() -> None:
    name = f"/data/{'0123abcd' * 8}-{'0' * 24}.parquet"
    box = [f"╭─ Scan {'─' * len(name)}╮", f"│ {name:<{len(name) + 6}}│", f"│ {'3 rows':<{len(name)}}0µs   │"]
    lines = written(render_plan("\n".join(box), 80), 80)
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) < 40
    assert "0123abcd\N{HORIZONTAL ELLIPSIS}.parquet" in lines[1]
    assert lines[2].split() == ["│", "3", "rows", "0µs", "│"]
    assert written(render_plan("\n".join(box), 300), 300) == box


# -- statements ------------------------------------------------------------------------------------


PIECES = ["select 1", "';'", '";"', "-- a; b\n", "/* ; */", "$$;$$", "$x$ ; $x$", "'it''s;'", "\n", "from t"]


@given(st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5), max_size=4), st.booleans())
def test_split_statements(statements: list[list[str]], ends: bool) -> None:
    texts = [" ".join(pieces) for pieces in statements]
    found, rest = split_statements(" ; ".join([*texts, ""] if ends else texts))
    if not ends and texts:
        assert rest.split() == texts.pop().split()
    assert [each.split() for each in found] == [[*text.split(), ";"] for text in texts if text.strip()]


@pytest.mark.parametrize("text", ["select '; ", 'select ";', "/* ; ", "select $$ ; $"])
def test_open_texts_end_no_statement(text: str) -> None:
    assert split_statements(text) == ([], text.strip())
