"""The page on large graphs shows what its script prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_simulated_rounds(repository: Path) -> None:
    script = [sys.executable, str(repository / "bench" / "scale.py"), "simulate"]
    table = subprocess.run(script, stdout=subprocess.PIPE, text=True, check=True, cwd=repository).stdout
    assert table.count("\n") == 9
    assert table in (repository / "docs" / "scale.md").read_text()
