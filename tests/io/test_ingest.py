"""Functions of ``sp.ingest``: opened results, docstrings, ``if_exists``."""

from __future__ import annotations

import bz2
import gzip
import inspect
import io
import lzma
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparrow as sp
from sparrow.errors import ExistsError, IngestError, InvalidValueError, NotFoundError
from sparrow.testing import on

FORMATS = [getattr(sp.ingest, name) for name in sp.ingest.__all__]


@pytest.mark.parametrize("ingest", FORMATS, ids=sp.ingest.__all__)
def test_docstring_returns_section(ingest: Any) -> None:
    assert ingest.__module__ == "sparrow.ingest"
    document = inspect.getdoc(ingest)
    assert document is not None
    returns = document.split("Returns\n-------\n")[1].split("Raises\n")[0]
    assert "sp.open(dst)" in returns
    assert "str" not in returns.split()
    assert inspect.signature(ingest).return_annotation == returns.split("\n")[0]
    assert list(inspect.signature(ingest).parameters)[:2] == ["src", "dst"]


def test_src_and_dst_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1\n")
    made = sp.ingest.edges(src=tmp_path / "a.txt", dst=tmp_path / "a.sparrow")
    assert made.nnz == 1


def test_if_exists(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1\n")
    (tmp_path / "b.txt").write_text("0 1\n1 2\n")
    made = tmp_path / "a.sparrow"
    sp.ingest.edges(tmp_path / "a.txt", made, if_exists="open")
    assert sp.ingest.edges(tmp_path / "gone.txt", made, if_exists="open").nnz == 1, "nothing is read"
    with pytest.raises(ExistsError, match=r"overwrite=True to replace it, or if_exists='open' to open it"):
        sp.ingest.edges(tmp_path / "b.txt", made, if_exists="error")
    assert sp.ingest.edges(tmp_path / "b.txt", made, if_exists="replace").nnz == 2
    with pytest.raises(InvalidValueError, match="pass one of them"):
        sp.ingest.edges(tmp_path / "b.txt", made, if_exists="open", overwrite=True)
    wrong: Any = "skip"
    with pytest.raises(InvalidValueError, match="if_exists must be 'error', 'open' or 'replace', got 'skip'"):
        sp.ingest.edges(tmp_path / "b.txt", made, if_exists=wrong)
    other = tmp_path / "notes"
    other.mkdir()
    with pytest.raises(ExistsError, match="exists"):
        sp.ingest.edges(tmp_path / "b.txt", other, if_exists="open")


def test_tensor_made_meanwhile_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1\n1 2\n")
    made = tmp_path / "a.sparrow"

    def save(**_: Any) -> None:
        if not made.exists():
            sp.from_coords([[0], [0]], [7], shape=(3, 3)).save(made)

    with on("io.block", save):
        assert sp.ingest.edges(tmp_path / "a.txt", made, if_exists="open").nnz == 1
        shutil.rmtree(made)
        with pytest.raises(ExistsError):
            sp.ingest.edges(tmp_path / "a.txt", made)


# -- without a format ------------------------------------------------------------------------------


def run(call: str, **names: Any) -> Any:
    """Run a suggested call."""
    return eval(call, {"sp": sp, **names})


def calls(error: IngestError) -> list[str]:
    """Return the calls in an error."""
    found = [line.strip() for line in str(error).split("\n") if line.strip().startswith("sp.ingest")]
    return found or [str(error)[str(error).index("sp.ingest") :]]


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("in_folder")
def test_format_is_detected(capfd: pytest.CaptureFixture[str]) -> None:
    Path("a.txt").write_text("0 1\n1 2\n")
    Path("b.txt").write_text("+1 1:0.5\n-1 2:1\n")
    assert sp.ingest("a.txt", Path("a"), directed=False).nnz == 4
    assert "a.txt has the format edges: two integer ids per line" in capfd.readouterr().err
    Path("w.txt").write_text("0 1 0.5\n1 2 3\n")
    assert sp.ingest("w.txt", "w").sum() == 3.5
    assert "w.txt has the format edges: two integer ids and a weight per line" in capfd.readouterr().err
    assert sp.ingest([Path("a.txt"), "a.txt"], "c", duplicates="sum").sum() == 4
    assert sp.ingest(Path("b.txt"), "b")["X"].shape == (2, 2)
    with pytest.raises(ExistsError, match="overwrite=True"):
        sp.ingest("a.txt", "a")
    assert sp.ingest("gone.txt", "a", if_exists="open").nnz == 4, "nothing is read"
    with pytest.raises(TypeError, match=r"edges\(\) got an unexpected keyword argument 'coords'"):
        sp.ingest("a.txt", "d", coords=["a"])
    with pytest.raises(NotFoundError, match="there is no file"):
        sp.ingest("none.txt", "d")
    refused: list[Any] = [(None, "got NoneType"), ([], "got an empty list"), ({"a": [1]}, "got dict"), ("-", "name it")]
    for wrong, told in refused:
        with pytest.raises(InvalidValueError, match=told):
            sp.ingest(wrong, "d")
    frame = pa.table({"user": [1, 2], "item": [2, 0]})
    assert sp.ingest(frame, "r", coords=["user", "item"]).shape == (3, 3)


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("size", [3, 50_000])
def test_open_files_without_format(pack: Any, size: int) -> None:
    """All text is read, from where the file is, however much was examined."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 10**6, (size, 2))
    text = "".join(f"{i} {j}\n" for i, j in ends.tolist()).encode()
    count = len({*map(tuple, ends.tolist())})
    assert sp.ingest(io.BytesIO(pack(text)), "a").nnz == count
    Path("a.txt").write_bytes(pack(text))
    with open("a.txt", "rb") as file:
        assert sp.ingest(file, "b").nnz == count
    Path("c.txt").write_bytes(b"skipped\n" + pack(text))
    with open("c.txt", "rb") as file:
        file.readline()
        assert sp.ingest([file, io.BytesIO(text)], "c").nnz == count
    if pack is bytes:
        assert sp.ingest(io.StringIO(text.decode()), "d").nnz == count


@pytest.mark.usefixtures("in_folder")
def test_open_binary_files_without_format() -> None:
    np.save("a.npy", np.eye(3))
    with open("a.npy", "rb") as file:
        assert sp.ingest(file, "a").nnz == 3
    with pytest.raises(IngestError, match="BytesIO: only text is read from an open file without a path"):
        sp.ingest(io.BytesIO(Path("a.npy").read_bytes()), "b")


@pytest.mark.usefixtures("in_folder")
def test_options_decide_among_likely_formats() -> None:
    Path("r.csv").write_text("user,item,stars\n1,2,3.5\n2,3,4\n")
    tried: list[dict[str, Any]] = [{}, {"overwrite": True}, {"coords": ["user"], "directed": False}]
    for options in tried:
        with pytest.raises(IngestError, match="this is a table of columns 'user', 'item', 'stars'"):
            sp.ingest("r.csv", "r", **options)
    assert sp.ingest("r.csv", "r", coords=["user", "item"], value="stars").shape == (3, 4)
    Path("e.txt").write_text("1 Alien\n2 Brazil\n3 Cube\n")
    for options in ({}, {"duplicates": "last"}, {"dtype": "int64"}):  # type: dict[str, Any]
        with pytest.raises(IngestError, match="may be a table, or edges") as caught:
            sp.ingest("e.txt", "e", **options)
        assert len(calls(caught.value)) == 2
    assert sp.ingest("e.txt", "e", directed=False).nnz == 6


CALLED: list[tuple[str, str, dict[str, Any], list[Any]]] = [
    ("r.csv", "user,item,stars\n1,2,3.5\n2,3,4\n", {"relabel": True, "dtype": np.float32}, [3.5 + 4]),
    ("r.csv", '"x,y";b;c d\n1;2;3,5\n2;3;4\n', {"nulls": "drop", "directed": False}, [3.5 + 4]),
    ("u.data", "196\t242\t3\t881250949\n186\t302\t3\t891717742\n", {"if_exists": "replace"}, [6]),
    ("e.csv", "from,to\n0,1\n1,2\n", {"profile": "small"}, [2, 2]),
    ("e.txt", "1 Alien\n2 Brazil\n3 Cube\n", {"duplicates": "max"}, [3, 3]),
    ("a.jsonl", '{"user": 1, "it\'s": "b", "n": 3}\n', {"fill_value": -1}, [3]),
    ("t.tsv", "x\tr\ty\ny\tr\tz\n", {}, [2, 2]),
    ("semi.txt", "1;2;3\n2;3;4\n", {"fill_value": np.inf}, [7, 7]),
]


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(("name", "text", "options", "sums"), CALLED, ids=[each[0] for each in CALLED])
@pytest.mark.parametrize("kind", ["path", "glob", "file"])
def test_calls_are_suggested(name: str, text: str, options: dict[str, Any], sums: list[float], kind: str) -> None:
    Path(f"it's {name}").write_text(text)
    src: Any = {"path": Path(f"it's {name}"), "glob": f"it's {name[0]}*", "file": None}[kind]
    with pytest.raises(IngestError) as caught:
        sp.ingest(src or io.BytesIO(text.encode()), "my out", **options)
    found = calls(caught.value)
    assert len(found) == len(sums), caught.value
    for call, total in zip(found, sums, strict=True):
        assert "--" not in call
        made = run(call, src=src or io.BytesIO(text.encode()))
        assert made.sum() == total if made.fill_value == 0 else made.nnz > 0
        shutil.rmtree("my out")


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize("fill", ["inf", "0.5", "-1", "nan"])
def test_commands_have_a_dtype_that_holds_the_fill_value(cli: Any, fill: str) -> None:
    Path("semi.txt").write_text("1;2;3\n2;3;4\n")
    for position in (0, 1):
        done = cli("ingest", "semi.txt", f"out {position}", "--fill-value", fill)
        command = [line.strip() for line in done.err.splitlines() if "sparrow ingest" in line][position]
        assert (done.code, cli(*shlex.split(command)[1:]).code) == (1, 0)
        made = sp.open(f"out {position}")
        assert np.array_equal(made.fill_value, float(fill), equal_nan=True)
        assert made.nnz == 2


@pytest.mark.usefixtures("in_folder")
def test_shell_commands_keep_options_of_calls() -> None:
    Path("lists.txt").write_text("0 1 2\n1 2 3 4\n2 0 1\n")
    with pytest.raises(IngestError, match=r"awk .* lists.txt \| sparrow ingest edges - 'my out' --undirected$"):
        sp.ingest("lists.txt", "my out", directed=False)


@pytest.mark.usefixtures("in_folder")
def test_commands_keep_options_typed_without_format(cli: Any) -> None:
    Path("r.csv").write_text("user,item,stars\n1,2,3.5\n2,3,4\n")
    done = cli("ingest", "r.csv", "out dir", "--relabel", "--if-exists", "open", "--directed", "--profile=small")
    expected = "--coords user,item --value stars --relabel --if-exists open --profile=small"
    assert (done.code, done.err.splitlines()[-1].strip()) == (1, f"sparrow ingest columns r.csv 'out dir' {expected}")
    assert cli(*shlex.split(done.err.splitlines()[-1])[1:]).code == 0
    done = cli("ingest", "r.csv", "other", "--coords", "item", "--no-such-option")
    assert (done.code, "this is a table of columns" in done.err) == (1, True)
    done = cli("ingest", "r.csv", "other", "--coords", "item", "--duplicates=last")
    assert (done.code, sp.open("other").nnz) == (0, 2), done.err
