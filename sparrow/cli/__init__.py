"""Command line: data on stdout, everything else on stderr.

Exit codes: 0 success, 1 failure reported in one line, 2 wrong usage, 130 interrupted. Libraries are imported inside the
commands, so that ``--help`` is fast.
"""

from __future__ import annotations

from sparrow.cli.app import main

__all__ = ["main"]
