"""Start of the program: imports, formats of other packages, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import sparrow as sp
from sparrow import engines
from sparrow.cli.app import VERBS
from sparrow.cli.arguments import Engine
from sparrow.cli.formats import declarations, declare, read_table

LIGHT = {"__main__", "cli", "runtime", "runtime.events", "runtime.foreign_errors", "runtime.resources"}
LIBRARIES = ["duckdb", "lazy_loader", "numba", "numpy", "polars", "pyarrow", "pydantic", "rich", "scipy"]

# Runs several command lines in a process; prints its modules of sparrow and of libraries.
RUNNING = """
import contextlib, io, sys
from sparrow.cli import main
for line in sys.stdin:
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(line.split())
print(*sys.modules)
"""


def run_python(*words: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python; return what it did."""
    command = [sys.executable, *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, env={**os.environ, **environment})


def heavy_modules(names: str) -> set[str]:
    """Return the modules among names that help and completion do without."""
    ours = {name.removeprefix("sparrow.") for name in names.split() if name.startswith("sparrow.")}
    heavy = {name for name in ours if name not in LIGHT and not name.startswith("cli.")}
    return heavy | ({name.partition(".")[0] for name in names.split()} & ({*LIBRARIES} - {"lazy_loader"}))


def test_help_imports_no_library() -> None:
    """No command does; typer itself is imported, pydantic is not."""
    groups = ["graph bfs -h", "ingest columns -h", "ingest edges --help"]
    lines = ["--help", "-h", "--version", *(f"{verb} -h" for verb in VERBS), *groups, "--show-completion bash"]
    done = run_python("-c", RUNNING, text="\n".join(lines))
    assert done.returncode == 0, done.stderr
    assert {"typer", "sparrow.cli.upkeep"} <= {*done.stdout.split()}
    assert heavy_modules(done.stdout) == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("sparrow ver", ["verify"]),
        ("sparrow sql query web=web.", []),
        ("sparrow show web.", []),
        ("sparrow ingest edg", ["edges"]),
        ("sparrow ingest columns --val", ["--value"]),
        ("sparrow graph bf", ["bfs"]),
        ("sparrow sql --al", ["--allow-side-effects"]),
    ],
)
def test_completion_imports_no_library(shell: str, typed: str, completed: list[str]) -> None:
    """Shells complete paths themselves where nothing is printed."""
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    script = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n" + RUNNING
    done = run_python(
        "-c", script, text="\n", _SPARROW_COMPLETE=f"complete_{shell}", _TYPER_COMPLETE_ARGS=typed, **words
    )
    assert heavy_modules(done.stderr) == set()
    shown = run_python("-m", "sparrow", _SPARROW_COMPLETE=f"complete_{shell}", _TYPER_COMPLETE_ARGS=typed, **words)
    assert shown.returncode == 0, shown.stderr
    found = [line.partition("\t")[0] for line in shown.stdout.split("\n") if line]
    if shell == "zsh":
        first = shown.stdout.partition("((")[2]
        found = [shlex.split(first.partition(":")[0])[0]] if first else []
    assert found == completed


def test_table_of_formats_is_current() -> None:
    """Help is made of this table: ``python -m sparrow.cli.formats`` writes it anew."""
    assert read_table() == declare()
    assert declarations() == declare()


def test_engines_are_those_of_the_registry() -> None:
    assert set(get_args(Engine)) == set(engines.ENGINES)


def test_engine_of_a_program(tmp_path: Path) -> None:
    """Engines that are named are imported, and no package of another scheduler."""
    sp.eye(300).save(tmp_path / "eye.sparrow")
    line = f"--engine processes --cluster 1 multiply {tmp_path}/eye.sparrow --vector ones --out {tmp_path}/x.npy"
    done = run_python("-c", RUNNING, text=line)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "x.npy").tolist() == [1.0] * 300
    modules = set(done.stdout.split())
    assert "sparrow.engines.cluster.processes" in modules
    assert modules & {"dask", "distributed", "ray", "pyspark", "pandas"} == set()


PLUGIN = """
from sparrow.io.base.registry import Format, Writer

class Dots(Writer):
    def write(self):
        return 0

FORMATS = (Format("dots", "Files of dots.", writer=Dots, suffixes=(".dots",)),)
"""


def test_formats_of_other_packages_appear(tmp_path: Path) -> None:
    (tmp_path / "dots.py").write_text(PLUGIN)
    folder = tmp_path / "dots-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: dots\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[sparrow.formats]\ndots = dots\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    assert "dots" in run_python("-m", "sparrow", "export", "-h", PYTHONPATH=path).stdout
    assert "Files of dots" in run_python("-m", "sparrow", "export", "--list", PYTHONPATH=path).stdout


INTERRUPTED = {
    "typer": "raise KeyboardInterrupt",  # while the program itself is imported
    "numpy": "raise KeyboardInterrupt",
    "duckdb": """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        pass
except KeyboardInterrupt:
    raise ImportError("initialization failed") from None  # as extension modules do
""",
}


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("module", INTERRUPTED)
def test_interrupt_while_importing(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text(INTERRUPTED[module])
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = run_python("-m", "sparrow", "sql", "select 1", PYTHONPATH=path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sparrow: interrupted\n")


def test_values_are_still_validated(cli: Any) -> None:
    for words in (
        ["--threads", "x", "sql", "select 1"],
        ["--threads", "0", "sql", "select 1"],
        ["sql", "--head", "-1"],
    ):
        done = cli(*words)
        assert (done.code, done.out) == (2, "")
        assert "Invalid value" in done.err
    for words, told in (
        (["multiply", "x", "--vector", "ones", "--engine", "abacus"], "must be one of 'auto', 'cupy', 'dask',"),
        (["multiply", "x", "--vector", "ones", "--engine", "abacus"], ", got 'abacus'"),
        (["train", "a9a.sparrow", "x"], "must be one of 'linear', 'logistic', 'fm', got 'a9a.sparrow'"),
        (["show", "x", "--head", "few"], "must be an integer, got 'few'"),
        (["show", "x", "--head", "-1"], "must be at least 0, got -1"),
        (["view", "x", "--port", "70000"], "must be at most 65535, got 70000"),
        (["train", "linear", "x", "--lr", "fast"], "must be a number, got 'fast'"),
    ):
        error = cli(*words).err
        assert told in error
        assert not re.search("Value error|Input should", error)
    assert "Missing argument" in cli("info").err


def test_docs_show_every_command() -> None:
    """The program is a tree of commands, for the page of the site."""
    import typer

    from sparrow.cli.app import program

    group: Any = typer.main.get_command(program())
    context = typer.Context(group, info_name="sparrow")
    assert group.list_commands(context) == list(VERBS)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command.short_help == VERBS[name][1]
        assert command.help
    formats = group.get_command(context, "ingest").list_commands(context)
    assert formats[:2] == [each.name for each in declarations().formats if each.reader is not None][:2]
    assert json.loads((Path(sys.modules["sparrow.cli.formats"].__file__ or "").with_name("formats.json")).read_text())
