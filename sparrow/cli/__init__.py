"""Command line: data on stdout, everything else on stderr.

Exit codes: 0 success, 1 failure reported in one line, 2 wrong usage, 130 interrupted. Help and completion import typer
and the module of the command, nothing else: modules of this package import libraries, and the rest of sparrow, inside
the commands.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Parameters
    ----------
    args
        Arguments after the program name; those of the process by default.
    """
    try:
        from sparrow.cli import app
    except KeyboardInterrupt:
        print("sparrow: interrupted", file=sys.stderr)
        sys.exit(130)
    app.run(args)
