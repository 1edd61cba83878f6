"""A user of SQL shells: commands, tables and plans on a terminal of 80 columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CSV = "user,film,stars\nada,Alien,4\nada,Brazil,5\nbob,Alien,3\n"


@pytest.fixture
def ratings(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stored table, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "ratings.csv").write_text(CSV)
    (tmp_path / "links.txt").write_text("1 2\n2 3\n3 1\n1 3\n")
    done = cli("ingest", "columns", "ratings.csv", "ratings.sparrow", "--coords", "user,film", "--value", "stars")
    assert done.code == 0, done.err
    assert done.out.startswith("ratings.sparrow: (user: 2, film: 2) int64, 3 entries in ")
    return tmp_path


def test_formats_are_detected(cli: Any, ratings: Path) -> None:
    done = cli("ingest", "links.txt", "links.sparrow")
    assert done.code == 0, done.err
    assert "4 entries" in done.out


@pytest.mark.parametrize(
    "words",
    [
        ["select count(*) as n from 'ratings.sparrow'"],
        ["from 'ratings.sparrow' select count(*) as n"],
        ["select count(*) as n from ratings", "ratings.sparrow"],
        ["select count(*) as n from r", "r=ratings.sparrow"],
    ],
)
def test_tables_by_path_file_or_name(words: list[str], cli: Any, ratings: Path) -> None:
    done = cli("sql", *words)
    assert (done.code, done.err) == (0, "")
    assert "3" in done.out
    assert json.loads(cli("sql", *words, "--json").out)[0]["n"] == 3


def test_labels_come_without_codes(cli: Any, ratings: Path) -> None:
    done = cli("sql", "select * from 'ratings.sparrow' order by user, film", "--csv")
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["user,film,value", "ada,Alien,4", "ada,Brazil,5", "bob,Alien,3"]


def test_plans_are_trees(cli: Any, ratings: Path) -> None:
    done = cli("sql", "explain select user, sum(value) from 'ratings.sparrow' group by user")
    assert done.code == 0, done.err
    assert "\N{REPLACEMENT CHARACTER}" not in done.out
    assert len(done.out.splitlines()) > 5


def test_mistakes_name_the_way_out(cli: Any, ratings: Path) -> None:
    done = cli("sqll", "select 1")
    assert done.code == 2
    assert "sql" in done.err
    done = cli("sql", "select count(*) from missing")
    assert done.code != 0
    assert "missing" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("words", [["datasets"], ["info", "ratings.sparrow"], ["history", "ratings.sparrow"]])
def test_tables_fit_eighty_columns(words: list[str], cli: Any, ratings: Path) -> None:
    done = cli(*words)
    assert done.code == 0, done.err
    assert max(map(len, (done.out + done.err).splitlines())) <= 80


def test_values_are_shown(cli: Any, ratings: Path) -> None:
    done = cli("show", "ratings.sparrow")
    assert (done.code, done.err) == (0, "")
    assert all(shown in done.out for shown in ("ada", "Brazil", "5"))
    assert "Alien" in cli("show", "ratings.sparrow", "--sel", "user=bob").out


def test_the_shell_runs_a_script(cli: Any, ratings: Path, pipe_stdin: Callable[[bytes], None]) -> None:
    pipe_stdin(b".tables\nselect film, max(value) as best from ratings group by film order by film;\n")
    done = cli("shell", "ratings.sparrow")
    assert (done.code, done.err) == (0, "")
    assert all(shown in done.out for shown in ("ratings", "Alien", "best"))
