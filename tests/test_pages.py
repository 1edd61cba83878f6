"""Examples in README.md and docs/ run, and their output is compared."""

from __future__ import annotations

import contextlib
import doctest
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparrow as sp
from sparrow.cli import main
from sparrow.testing import memory_shares
from tests.sessions import compare_output, parse_commands, read_blocks

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(page.relative_to(REPOSITORY)) for page in (REPOSITORY / "docs").rglob("*.md")),
]


def has(page: str, language: str, mark: str) -> bool:
    """Return whether a page has a session in a language, by its prompt."""
    return any(mark in block for block in read_blocks((REPOSITORY / page).read_text(), language))


SESSIONS = [
    page for page in PAGES if page != "docs/install.md" and (has(page, "python", ">>> ") or has(page, "console", "$ "))
]
"""Pages with sessions, except the one that tests/test_install.py runs in clean environments."""


def checkout(folder: Path) -> Path:
    """Create a folder with what a reader has at the root of a clone."""
    folder.mkdir()
    for name in ("datasets", "sql"):
        shutil.copytree(REPOSITORY / name, folder / name)
    return folder


CLIENT = """#!{python} -IS
import json, os, socket, sys
there = socket.socket(socket.AF_UNIX)
there.connect({path!r})
socket.send_fds(there, [json.dumps([os.getcwd(), sys.argv[1:]]).encode()], [0, 1, 2])
code = there.recv(1)
os._exit(code[0] if code else 70)
"""
"""A client that passes arguments, folder and standard streams to the server, and exits with its status."""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An executable ``sparrow`` that runs in this process, without its imports."""
    folder = tmp_path_factory.mktemp("command")
    path, called = folder / "socket", folder / "sparrow"
    called.write_text(CLIENT.format(python=sys.executable, path=str(path)))
    called.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(str(path))
        here.listen()
        serving = threading.Thread(target=_serve, args=(here,))
        serving.start()
        try:
            yield called
        finally:
            here.shutdown(socket.SHUT_RDWR)
            serving.join()


def _serve(here: socket.socket) -> None:
    while True:
        try:
            there, _ = here.accept()
        except OSError:  # shut down
            return
        with there:
            message, streams, _, _ = socket.recv_fds(there, 1 << 16, 3)
            folder, words = json.loads(message)
            there.sendall(bytes([_run(words, folder, streams)]))


def _run(words: list[str], folder: str, streams: list[int]) -> int:
    """Run a command in a folder with given streams; return its exit code."""
    with (
        contextlib.chdir(folder),
        sp.config(),
        open(streams[0]),
        open(streams[1], "w") as out,
        open(streams[2], "w") as error,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
    ):
        try:
            main(words)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 70


@pytest.mark.parametrize("page", SESSIONS)
def test_sessions(page: str, command: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout(tmp_path / "python"))
    text = (REPOSITORY / page).read_text()
    test = doctest.DocTestParser().get_doctest("\n".join(read_blocks(text, "python")), {}, page, page, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
    folder = checkout(tmp_path / "shell")
    environment = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    shown = [block for block in read_blocks(text, "console") if "make " not in block]
    for typed, output in parse_commands(shown):
        run = subprocess.run(typed, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        if output.strip():
            compare_output(run.stdout, output, typed, run.stderr)


def test_pages_have_sessions() -> None:
    for page in ("README.md", "docs/training.md"):
        assert has(page, "python", ">>> ")
        assert has(page, "console", "$ ")


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md", "datasets/README.md", *PAGES])
def test_file_links_exist(repository: Path, name: str) -> None:
    page = repository / name
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_architecture_names_existing_paths(repository: Path) -> None:
    text = (repository / "ARCHITECTURE.md").read_text()
    paths = set(re.findall(r"`((?:sparrow|sql|tests|bench|datasets|ingest|docs)/[\w./-]*)`", text))
    assert len(paths) >= 25
    assert [path for path in sorted(paths) if not (repository / path).exists()] == []


def test_documents_are_short(repository: Path) -> None:
    limits = {"README.md": 150, "ARCHITECTURE.md": 130, "CHANGELOG.md": 60, "CONTRIBUTING.md": 330}
    limits |= {str(path.relative_to(repository)): 60 for path in (repository / "docs" / "decisions").glob("*.md")}
    lines = {name: len((repository / name).read_text().splitlines()) for name in limits}
    assert {name: count for name, count in lines.items() if count >= limits[name]} == {}


def test_memory_page_lists_all_shares(repository: Path) -> None:
    text = " ".join((repository / "docs" / "memory.md").read_text().split())
    shares = [f"- `{s.subsystem}.{s.name}` = 1/{s.parts:g}: {' '.join(s.reason.split())}" for s in memory_shares()]
    assert [line for line in shares if line not in text] == []
    assert text.count(" = 1/") == len(shares)


def test_names_that_the_page_for_newcomers_lists_exist(repository: Path) -> None:
    text = (repository / "docs" / "coming-from.md").read_text()
    here = " ".join(line.split(" | ")[-1] for line in text.splitlines() if line.startswith("| `"))
    functions = set(re.findall(r"\bsp\.([a-z_.\w]+)\(", here))
    methods = set(re.findall(r"\b[AXH]\.(\w+)", here))
    assert len(functions) > 30
    assert [name for name in sorted(functions) if not callable(_find(name))] == []
    assert [name for name in sorted(methods) if not hasattr(sp.Tensor, name)] == []


def _find(name: str) -> object:
    """Return a member of sparrow by its dotted name, or None."""
    found: object = sp
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


_CREATED = re.compile(
    r"sp\.ingest\.\w+\([^)]*\"([\w-]+\.sparrow)\"|\.save\(\"([\w-]+\.sparrow)\"\)"
    r"|sparrow ingest [^\n]*?([\w-]+\.sparrow)|--out ([\w-]+\.sparrow)"
)


def test_pages_can_follow_each_other_in_one_folder() -> None:
    created = Counter(
        name
        for page in SESSIONS
        for language in ("python", "console")
        for block in read_blocks((REPOSITORY / page).read_text(), language)
        if ">>> " in block or "$ " in block
        for found in _CREATED.findall(block)
        for name in found
        if name
    )
    assert len(created) > 15
    assert [name for name, count in created.items() if count > 1] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_line_of_prose_is_written_twice(page: str) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", (REPOSITORY / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    seen = Counter(line.strip() for line in text.splitlines() if len(line) > 60)
    assert [line for line, count in seen.items() if count > 1] == []
