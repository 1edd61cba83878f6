"""Unknown options of ingest: named, with the option that is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sparrow as sp

OPTIONS: dict[str, Any] = {"coords": ["user", "film"], "value": "stars"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "stars.csv").write_text("user,film,stars\nann,x,3\nbob,y,5\n")
    return tmp_path / "stars.csv"


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("relable", True, "relabel"),
        ("sep", ";", "delimiter"),
        ("Value", "stars", "value"),
        ("coord", ["user"], "coords"),
    ],
)
def test_misspelt_option_is_named(table: Path, cli: Any, name: str, value: Any, meant: str) -> None:
    for ingest in (sp.ingest, sp.ingest.columns):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}': did you mean '{meant}'"):
            ingest(table, table.parent / "A.sparrow", **OPTIONS, **{name: value})
    words = [f"--{name}"] if value is True else [f"--{name}", "x"]
    for start in (["ingest"], ["ingest", "columns"]):
        done = cli(*start, table, table.parent / "A.sparrow", "--coords", "user,film", "--value", "stars", *words)
        assert done.code == 2
        assert f"No such option: --{name}" in done.err
        assert f"(Possible options: --{meant})" in done.err
    assert not (table.parent / "A.sparrow").exists()


def test_option_of_another_format_is_named(table: Path, cli: Any) -> None:
    with pytest.raises(sp.errors.IngestError, match=r"this is a table .*: columns has no option 'directed'; without"):
        sp.ingest(table, table.parent / "A.sparrow", **OPTIONS, directed=True)
    for flag in ("--undirected", "--no-such-option"):
        done = cli("ingest", table, table.parent / "A.sparrow", "--coords", "user,film", "--value", "stars", flag)
        assert (done.code, f": columns has no option {flag}; without it, for example" in done.err) == (1, True)


def test_json_is_an_option_of_the_command(table: Path, cli: Any) -> None:
    done = cli("ingest", table, table.parent / "A.sparrow", "--coords", "user,film", "--value", "stars", "--json")
    assert done.json["tensors"][0]["nnz"] == 2


def test_unlike_option_lists_those_there_are(table: Path) -> None:
    with pytest.raises(TypeError, match=r"argument 'zzz': options are .*coords"):
        sp.ingest.columns(table, table.parent / "A.sparrow", **OPTIONS, zzz=1)  # type: ignore[call-arg]


def test_detection_by_options_is_told(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sp.ingest(table, table.parent / "A.sparrow", **OPTIONS)
    assert "has the format columns: the options coords and value belong to it\n" in capsys.readouterr().err
    with pytest.raises(sp.errors.IngestError, match=r"\n  in the first 2 lines:\n  column  values"):
        sp.ingest(table, table.parent / "B.sparrow")
