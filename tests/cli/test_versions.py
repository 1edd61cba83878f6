"""``sp.show_versions``: what bug reports say about an installation."""

from __future__ import annotations

import json
import platform
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import sparrow as sp
from sparrow.runtime.versions import OPTIONAL, REQUIRED, versions


def test_versions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    sp.show_versions()
    out = capsys.readouterr().out
    assert re.search(rf"^ +sparrow: {re.escape(sp.__version__)}$", out, re.MULTILINE)
    assert re.search(rf"^ +python: {re.escape(platform.python_version())}", out, re.MULTILINE)
    assert re.search(rf"^ +numpy: {re.escape(np.__version__)}$", out, re.MULTILINE)
    for name in (*REQUIRED, *OPTIONAL):
        assert re.search(rf"^ *{re.escape(name)}: ", out, re.MULTILINE)


def test_versions_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    sp.show_versions(as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found == versions()
    assert found["system"]["sparrow"] == sp.__version__
    assert found["dependencies"]["numpy"] == np.__version__
    assert all(found["dependencies"].values())


def test_every_dependency_is_listed() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    if not project.exists():
        pytest.skip("needs the checkout")
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]

    def names(requirements: list[str]) -> set[str]:
        return {match[0] for each in requirements if (match := re.match(r"[\w-]+", each)) is not None}

    assert set(REQUIRED) == names(declared["dependencies"])
    extras = declared["optional-dependencies"]
    tools = {"dev", "docs", "bench"}
    assert set(OPTIONAL) >= names([each for extra, listed in extras.items() if extra not in tools for each in listed])
