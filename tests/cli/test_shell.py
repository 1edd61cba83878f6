"""Command ``shell``, on a terminal and in a pipe. Prompts are counted."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import sparrow as sp
from sparrow.cli.shell import Shell, completions


@pytest.fixture(name="folder")
def stored_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a tensor and one with labels."""
    monkeypatch.chdir(tmp_path)
    web = sp.from_coords([[0, 0, 2], [1, 2, 0]], [1, 2, 3], shape=(3, 3), dims=("src", "dst"))
    stars = sp.from_coords([[0, 1], [0, 1]], [5.0, 4.0], dims=("user", "film"), labels={"user": ["ann", "bob"]})
    web.save("web.sparrow")
    stars.save("stars.sparrow")
    return tmp_path


# -- standard input ------------------------------------------------------------------------------


def run_script(cli: Any, pipe_stdin: Any, text: str, *words: str) -> Any:
    """Run a script from standard input."""
    pipe_stdin(text.encode())
    return cli("shell", *words)


@pytest.mark.usefixtures("folder")
def test_statements_of_standard_input(cli: Any, pipe_stdin: Any) -> None:
    script = "select count(*) as n\nfrom web; from 'stars.sparrow'\nselect user\norder by all;\n"
    script += "-- ;\nselect ';' as t; -- end"
    done = run_script(cli, pipe_stdin, script, "web.sparrow")
    assert done.code == 0, done.err
    assert done.out.split("\n") == ["n", "-", "3", "user", "----", "ann", "bob", "t", "-", ";", ""]


@pytest.mark.usefixtures("folder")
def test_script_ends_at_the_first_error(cli: Any, pipe_stdin: Any) -> None:
    done = run_script(cli, pipe_stdin, "select 1 as a;\nselect nosuch from web;\nselect 2 as b;\n", "web.sparrow")
    assert (done.code, done.out) == (1, "a\n-\n1\n")
    assert "nosuch" in done.err
    done = run_script(cli, pipe_stdin, "from wep;")
    assert done.code == 1
    assert "open it, as in .open NAME=PATH" in done.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("statement", ["selec;", "select 'abc;", "select (1;", "frm", "select 1; frm;", "select $$a;"])
def test_syntax_errors_are_reported(cli: Any, pipe_stdin: Any, statement: str) -> None:
    done = run_script(cli, pipe_stdin, statement, "web.sparrow")
    assert done.code == 1
    assert done.err.startswith("sparrow: error: Parser Error")
    assert "Traceback" not in done.err


@pytest.mark.usefixtures("folder")
def test_scripts_only_read(cli: Any, pipe_stdin: Any) -> None:
    script = "copy (select 1 as a) to 'a.parquet'; from 'a.parquet';"
    refused = run_script(cli, pipe_stdin, script)
    assert refused.code == 1
    assert "--allow-side-effects" in refused.err
    assert run_script(cli, pipe_stdin, script, "--allow-side-effects").out.endswith("a\n-\n1\n")


@pytest.mark.usefixtures("folder")
def test_commands(cli: Any, pipe_stdin: Any) -> None:
    script = ".tables\n.schema stars\n.mode csv\nfrom stars order by film;\n.mode json\nselect 1 as a;.quit\nselect 2;"
    done = run_script(cli, pipe_stdin, script, "stars.sparrow")
    assert done.code == 0, done.err
    assert re.search(r"^stars +\(user: 2, film: 2\) float64 +2 +stars.sparrow$", done.out, re.MULTILINE)
    assert re.search(r"^'web.sparrow' +\(src: 3, dst: 3\) int64 +3", done.out, re.MULTILINE)
    assert re.search(r"^user_code +\w+ +position of the label$", done.out, re.MULTILINE)
    assert "user,film,value\nann,0,5.0\nbob,1,4.0\n" in done.out
    assert done.out.endswith('[\n  {\n    "a": 1\n  }\n]\n')


@pytest.mark.usefixtures("folder")
def test_commands_list_folders_of_other_tools(cli: Any, pipe_stdin: Any) -> None:
    row = pa.table({"src": pa.array([9], pa.int32()), "dst": pa.array([0], pa.int32()), "value": [7]})
    write_deltalake("web.sparrow", row, mode="append")
    for words in ((), ("web.sparrow",)):
        done = run_script(cli, pipe_stdin, ".tables\n", *words)
        assert done.code == 0, done.err
        assert re.search(r"^'stars.sparrow' +\(user: 2, film: 2\) float64 +2", done.out, re.MULTILINE)
        assert "cannot be read, sparrow did not write the file" in done.out


@pytest.mark.usefixtures("folder")
def test_commands_open_and_limit(cli: Any, pipe_stdin: Any) -> None:
    done = run_script(cli, pipe_stdin, ".open web.sparrow r=stars.sparrow\n.head 1\nfrom web;\n.timer on\nfrom r;\n")
    assert done.code == 0, done.err
    assert done.out.count("\n") == 6
    assert done.err.count("the first 1 rows; .head 0 shows all\n") == 2
    assert re.search(r"^\d+\.\d{3} s$", done.err, re.MULTILINE)
    helped = run_script(cli, pipe_stdin, ".help\n").out
    assert [line.split()[0] for line in helped.splitlines()] == [
        ".tables", ".schema", ".open", ".timer", ".head", ".mode", ".help", ".quit", ".exit"
    ]  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        (".fly", ".fly is no command: .help lists them"),
        (".timer", "use it as in .timer on|off"),
        (".timer maybe", ".timer must be on or off, got 'maybe'"),
        (".head -1", ".head must be a number of rows, 0 for all, got '-1'"),
        (".mode xml", ".mode must be one of table, csv, json, got 'xml'"),
        (".open", "use it as in .open web.sparrow"),
        (".open wep.sparrow", "did you mean 'web.sparrow'?"),
        (".schema wep", "open it, as in .open NAME=PATH"),
        (".open 'web", ".open 'web is no command: no closing quotation"),
    ],
)
def test_wrong_commands(cli: Any, pipe_stdin: Any, line: str, told: str) -> None:
    done = run_script(cli, pipe_stdin, f"{line}\n")
    assert done.code in (1, 2)
    assert done.out == ""
    assert told in done.err


def test_shell_sees_new_versions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell({"web": sp.open("web.sparrow")}, 50, False)
    A = sp.open("web.sparrow")
    A[1, 1] = 9
    shell.run_text("select count(*) as n from web;")
    assert capsys.readouterr().out == "n\n-\n4\n"


# -- completion ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select user", ["user_code"]),
        ("from st", ["stars", "startswith_", "st_"]),
        ("SEL", ["select"]),
        ("from 'st", ["stars.sparrow'"]),
        ("from 'sub/", ["sub/deep.sparrow'"]),
        (".s", [".schema"]),
        (".schema we", ["web.sparrow"]),
        (".open x=we", ["web.sparrow"]),
        (".mode c", ["csv"]),
        (".timer o", ["on", "off"]),
        ("select '", ["stars.sparrow'", "sub/", "web.sparrow'"]),
    ],
)
def test_completions(folder: Path, text: str, words: list[str]) -> None:
    sp.eye(2).save("sub/deep.sparrow")
    found = [word for word, _ in completions(Shell({"stars": sp.open("stars.sparrow")}, 50, False), text)]
    if text == "from st":
        assert found[0] == "stars"
    elif text == "select user":
        assert found[:1] == words
    else:
        assert [word for word in found if word in words or "'" in text or text.startswith(".")] == words


def test_completions_of_paths_in_the_text(folder: Path) -> None:
    shell = Shell({}, 50, False)
    assert "user_code" in [word for word, _ in completions(shell, "select user_", " from 'stars.sparrow'")]
    assert "dst" in [word for word, _ in completions(shell, "from 'web.sparrow' select d")]
    assert "user_code" not in [word for word, _ in completions(shell, "select user_")]


# -- a terminal ----------------------------------------------------------------------------------

# Writes a byte to a pipe whenever the prompt reads, and when a query runs.
ANNOUNCING = """
import os, sys
import sparrow.testing
from sparrow.cli import main

def tell(what):
    os.write(int(sys.argv[1]), what)

with sparrow.testing.on("shell.prompt", lambda: tell(b"p")), sparrow.testing.on("cli.query", lambda: tell(b"q")):
    main(sys.argv[2:])
"""


class Terminal:
    """A shell on a terminal."""

    def __init__(self, *words: str) -> None:
        self.keys, theirs = pty.openpty()
        self.told, telling = os.pipe()
        self.shown = b""
        self.run = subprocess.Popen(
            [sys.executable, "-c", ANNOUNCING, str(telling), "shell", *words],
            stdin=theirs, stdout=theirs, stderr=theirs, pass_fds=[telling], start_new_session=True,
            env={**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "XDG_STATE_HOME": os.getcwd()},
        )  # fmt: skip
        os.close(theirs)
        os.close(telling)
        self.wait_for(b"p")

    def wait_for(self, what: bytes) -> str:
        """Return the output until the shell tells something or ends."""
        before = len(self.shown)
        while True:
            ready, _, _ = select.select([self.keys, self.told], [], [], 120)
            assert ready, self.shown
            if self.keys in ready:
                try:
                    self.shown += os.read(self.keys, 65536)
                except OSError:  # it ended
                    break
            elif self.told in ready:
                byte = os.read(self.told, 1)
                if byte in (what, b""):
                    break
        while select.select([self.keys], [], [], 0)[0]:
            try:
                self.shown += os.read(self.keys, 65536)
            except OSError:
                break
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.shown[before:].decode())

    def type(self, text: str) -> None:
        """Type keys."""
        os.write(self.keys, text.encode())

    def complete(self, text: str, rest: str) -> None:
        """Type text and Tab, and wait until the rest of the word is drawn."""
        before = len(self.shown)
        self.type(f"{text}\t")
        while rest.encode() not in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", self.shown[before:]):
            assert select.select([self.keys], [], [], 120)[0], self.shown
            self.shown += os.read(self.keys, 65536)

    def ask(self, text: str) -> str:
        """Type a line and return what is written until the next prompt."""
        self.type(f"{text}\r")
        return self.wait_for(b"p")

    def close(self) -> int:
        """Wait until the shell ends; return its exit code."""
        self.wait_for(b"")
        code = self.run.wait()
        os.close(self.keys)
        os.close(self.told)
        return code


@pytest.fixture(name="terminal")
def open_terminal(folder: Path) -> Iterator[Terminal]:
    """A shell with ``web.sparrow`` on a terminal."""
    terminal = Terminal("web.sparrow")
    yield terminal
    if terminal.run.poll() is None:
        terminal.run.kill()
        terminal.run.wait()


def test_prompt(terminal: Terminal, folder: Path) -> None:
    shown = terminal.ask("select count(*) as n\rfrom web;")
    assert re.search(r"│ +n │", shown)
    assert "1 row" in shown
    assert "position of the label" in terminal.ask(".schema 'stars.sparrow'")
    assert "Projection" in terminal.ask("explain select 1;")
    assert "no tensor is stored at 'wep.sparrow'" in terminal.ask("from 'wep.sparrow';")
    assert ".fly is no command" in terminal.ask(".fly")
    terminal.ask("copy (select 7 as a) to 'a.parquet';")
    assert " 7 │" in terminal.ask("from 'a.parquet';")
    terminal.type(".quit\r")
    assert terminal.close() == 0
    history = (folder / "sparrow" / "shell_history").read_text()
    assert "+select count(*) as n\n+from web;\n" in history


def test_tab_completes(terminal: Terminal) -> None:
    terminal.complete("select src from 'we", "b.sparrow'")
    assert "3 rows" in terminal.ask(" order by all;")
    terminal.complete("desc", "ribe")
    assert "BIGINT" in terminal.ask(" web;")
    terminal.type("\x04")
    assert terminal.close() == 0


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_cancels_the_query(terminal: Terminal) -> None:
    terminal.type("select sum(i * j) from range(1000000000000) t(i), range(1000000) u(j);\r")
    terminal.wait_for(b"q")
    os.killpg(terminal.run.pid, signal.SIGINT)
    assert "interrupted" in terminal.wait_for(b"p")
    terminal.type("select thrown away\x03")
    terminal.wait_for(b"p")
    assert re.search(r"│ +7 │", terminal.ask("select 7;"))
    terminal.type("\x04")
    assert terminal.close() == 0
