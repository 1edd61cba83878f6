"""What docs/training.md shows is what happens."""

from __future__ import annotations

import doctest
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.test_readme import blocks


def test_the_page_runs(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any) -> None:
    page = (repository / "docs" / "training.md").read_text()
    shutil.copytree(repository / "datasets" / "a9a", tmp_path / "datasets" / "a9a")
    monkeypatch.chdir(tmp_path)
    session = "\n".join(blocks(page, "python"))
    test = doctest.DocTestParser().get_doctest(session, {}, "training.md", "training.md", 0)
    assert len(test.examples) >= 20
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    told: list[str] = []
    runner.run(test, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)
    for line in "".join(blocks(page, "console")).splitlines():
        done = cli(*shlex.split(line.removeprefix("$ sparrow ")))
        assert done.code == 0, done.err
    assert done.json["figures"]["accuracy"] == pytest.approx(0.85, abs=0.005)
