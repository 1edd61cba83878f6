"""What docs/training.md shows is what happens."""

from __future__ import annotations

import doctest
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import blocks


def test_the_page_runs(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    environment = {**os.environ, "PYTHONPATH": os.fspath(repository)}
    out = ""
    for line in "".join(blocks(page, "console")).splitlines():
        words = shlex.split(line.removeprefix("$ sparrow "))
        run = subprocess.run(
            [sys.executable, "-m", "sparrow", *words], capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        assert run.returncode == 0, run.stderr
        out = run.stdout
    assert json.loads(out)["figures"]["accuracy"] == pytest.approx(0.85, abs=0.005)
