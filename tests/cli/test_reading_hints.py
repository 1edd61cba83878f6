"""Options that errors of ``ingest columns`` and ``append`` name read the table."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import sparrow as sp

_OPTION = re.compile(r"(?:as|pass) (--[a-z-]+(?: (?!if|to|after|and)(?:'[^']*'|::|[^\s,;:]+))?)")


def follow(cli: Any, steps: int, *words: object) -> Any:
    """Run a command, then with the options that its errors name, up to some errors."""
    for _ in range(steps):
        done = cli(*words)
        assert done.code == 1, done.err
        found = _OPTION.findall(done.err)
        assert found, done.err
        words = (*words, *shlex.split(found[-1]))
    done = cli(*words)
    assert done.code == 0, done.err
    return done


CASES = {
    "blanks": ("u i v\n1 2 3\n", "--coords u,i --value v"),
    "semicolons": ("u;i;v\n1;2;3\n", "--coords u,i --value v"),
    "bars": ("u|i|v\n1|2|3\n", "--coords u,i --value v"),
    "colons": ("u::i::v\n1::2::3\n", "--coords u,i --value v"),
    "numbers": ("1,2,3\n", "--coords 0,1 --value 2"),
    "semicolons, no header": ("1;2;3\n", "--no-header --coords c0,c1 --value c2"),
    "blanks, no header": ("1 2 3\n", "--no-header --coords c0,c1 --value c2"),
    "quotes": ('"u"\t"i"\t"v"\n1\t2\t3\n', "--coords u,i --value v"),
    "json": ('{"u": 1, "i": 2, "v": 3}\n', "--coords u,i --value v"),
    "names": ("u,i,v\n1,2,3\n1_0,2,3\n", "--coords u,i --value v --ids u=int"),
}


APPENDED = ("blanks", "colons", "numbers", "semicolons, no header", "json")


@pytest.mark.parametrize(("verb", "name"), [*(("ingest", name) for name in CASES), *(("append", k) for k in APPENDED)])
def test_named_options_read_the_table(
    cli: Any, tmp_path: Path, pipe_stdin: Any, verb: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, options = CASES[name]
    Path("a.csv").write_text(text)
    words = shlex.split(options)
    if verb == "append":
        sp.asarray([[0] * 4] * 4, dims=("u", "i")).save("out")
        words = ["append", "out", "a.csv", *words]
    else:
        words = ["ingest", "columns", "a.csv", "out", *words]
    if name == "json":  # of standard input, whose format is not detected
        words[words.index("a.csv")] = "-"
        pipe_stdin(text.encode())
        refused = cli(*words)
        assert (refused.code, "pass --format json" in refused.err) == (1, True), refused.err
        pipe_stdin(text.encode())
        assert cli(*words, "--format", "json").code == 0
    else:
        follow(cli, 1, *words)
    found = sp.open("out")
    assert found[0, 2] == 3 if name == "names" else found[1, 2] == 3


@pytest.mark.parametrize("verb", ["ingest", "append"])
@pytest.mark.parametrize("text", ['[{"u": 1, "i": 2, "v": 3}]\n', '{\n"u": 1,\n"i": 2, "v": 3}\n'])
def test_json_of_standard_input_over_lines(
    cli: Any, tmp_path: Path, pipe_stdin: Any, verb: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sp.asarray([[0] * 4] * 4, dims=("u", "i")).save("out")
    words = ["append", "out", "-"] if verb == "append" else ["ingest", "columns", "-", "out", "--overwrite"]
    words += ["--coords", "u,i", "--value", "v"]
    pipe_stdin(text.encode())
    refused = cli(*words)
    way = re.search(r"(jq -c '[^']+')", refused.err)
    assert (refused.code, "pass --format json" in refused.err, way is not None) == (1, True, True), refused.err
    if way is None or shutil.which("jq") is None:
        pytest.skip("needs jq")
    pipe_stdin(subprocess.run(way[1], shell=True, input=text.encode(), capture_output=True, check=True).stdout)
    assert cli(*words, "--format", "json").code == 0
    assert sp.open("out")[1, 2] == 3


def test_header_of_numbers_is_noted(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("5,6,7\n1,2,3\n")
    words = ("ingest", "columns", tmp_path / "a.csv", tmp_path / "out", "--coords", "0,1", "--value", "2")
    done = cli(*words)
    assert (done.code, "the first line, 5,6,7, is read as names of columns: pass --no-header" in done.err) == (0, True)
    done = cli(*words, "--no-header", "--overwrite")
    assert (done.code, "names of columns" in done.err, sp.open(tmp_path / "out").nnz) == (0, False, 2)


@pytest.mark.parametrize("labelled", [True, False])
def test_append_tells_the_first_coordinate(cli: Any, tmp_path: Path, labelled: bool) -> None:
    target = tmp_path / "out"
    (tmp_path / "a.csv").write_text("u,i,v\n1,1,5\n1,2,6\n2,1,7\n")
    (tmp_path / "b.csv").write_text("u,i,v\n2,2,9\n")
    words = ("--coords", "u,i", "--value", "v", *(("--relabel",) if labelled else ("--index-base", "1")))
    assert cli("ingest", "columns", tmp_path / "a.csv", target, *words).code == 0
    done = (
        cli("append", target, tmp_path / "b.csv") if labelled else follow(cli, 1, "append", target, tmp_path / "b.csv")
    )
    assert ("counted from 1" in done.out) is not labelled
    assert "counted" not in cli("append", target, target, "--duplicates", "last").out
    assert sp.open(target).to_numpy().tolist() == [[5, 6], [7, 9]]
    done = cli("append", target, tmp_path / "b.csv", "--duplicates", "last", "--index-base", "0")
    assert (done.code == 0) is labelled
