"""The command line: the verbs of the library. Data goes to standard output, everything else to standard error.

Exit codes: 0 done, 1 a failure told in one line, 2 wrong usage, 130 interrupted. Libraries are
imported inside the commands, so that help comes at once.
"""

from __future__ import annotations

from sparrow.cli.app import main

__all__ = ["main"]
